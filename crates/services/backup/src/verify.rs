//! Verifying: is everything there, and is it what was put?
//!
//! A check reads the trees of points, and packs: all of them, or a part that the caller draws. Every pack's object is asked for in any case. A
//! whole one reads the journal from its first entry on, also where a checkpoint stands for it.
//!
//! One that is made again and again goes *round* ([`read_packs`]): it reads the packs in the order of their names, each time those behind the last one of the time
//! before, so that after so many times every one has been read, where draws leave some out for as long as chance wants. A round ends with the pack that was the last
//! one when it was begun: those that were put since are the next one's, else a vault that grows as fast as it is read would have no end. What it comes to between is its
//! caller's to remember, and it is made in as many sessions as its caller likes; what all packs are asked for, and the trees, are looked at beside ([`look_round`]).
//!
//! **One object that cannot be read** must not be taken for damage where the store is away, nor keep all that comes behind it from being read for ever. What had been
//! read before it counts, and its caller remembers it. Where it cannot be read the next time either, in no way, and others can, it is damage as any other: named,
//! and passed over. A further one behind it is so at first sight, where something was read in between: of two in a row the second one ends the reading.
//! A pack that cannot be read at once is read in parts: a proxy that cuts long answers, or a time limit of the store's, is not its damage.

use crate::error::{Error, of};
use crate::pack::{Pack, PackName};
use crate::store::{StoreError, list_until};
use crate::vault::{Slots, Vault, read_slot};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};
use trees::Trees;

mod trees;

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The journal, all points' trees, and all packs.
    Whole,
    /// All points' trees, and so many of a thousand packs, another part for another seed.
    Sampled {
        /// Of a thousand.
        per_mille: u32,
        /// Which.
        seed: u64,
    },
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Packs that were read whole.
    pub packs: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Points whose trees were read.
    pub points: usize,
    /// What is wrong: each object is named.
    pub damage: Vec<Error>,
    /// Packs that are damaged or missing, for [`Vault::give_up`].
    pub packs_lost: BTreeSet<PackName>,
    /// Points that are not whole, with one reason each, which several may share.
    pub points_lost: BTreeMap<u64, Arc<Error>>,
    /// The last point whose trees were looked at; none: none's were.
    pub point: Option<u64>,
    /// The packs that were read whole, whatever they were found to be; those that could not be read are not among them.
    pub read: Vec<PackName>,
    /// Objects that could not be read, while others could: they are among the damage.
    pub unreadable: usize,
    /// Nothing was read since the last one of these.
    in_row: bool,
    /// One was passed over that says something of those behind it.
    has_passed: bool,
}

impl Report {
    fn lose(&mut self, name: PackName, wrong: Option<Error>) {
        if let Some(error) = wrong
            && self.packs_lost.insert(name)
        {
            self.damage.push(error);
        }
    }

    /// Was nothing found wrong?
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.points_lost.is_empty()
    }
}

fn draw(seed: u64, pack: PackName) -> u64 {
    let mut bits = seed
        ^ pack.session.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(pack.count).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) % 1000
}

/// By what it goes whether, and how long, something is read.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Objects that could not be read the time before, or are known as damaged: where one cannot be read, and others can be, it is damage.
    pub suspects: &'a BTreeSet<String>,
    /// It is to end: asked before each object.
    pub ends: &'a dyn Fn() -> bool,
    /// So long packs and entries are read, and one at least; none: until all are.
    pub until: Option<Instant>,
}

impl Reading<'_> {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// How much of a pack is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Whole,
    /// Its end.
    Part,
}

/// Checks a vault. To keep what is checked from being pruned meanwhile, hold a session.
///
/// # Errors
/// When the store does not answer: that is no damage. What is damaged is in the report.
pub fn verify(vault: &Vault, scope: Scope) -> Result<Report, Error> {
    let reading = Reading {
        suspects: &BTreeSet::new(),
        ends: &|| false,
        until: None,
    };
    let mut report = Report::default();
    keys_in(vault.damaged_keys(&mut Err), vault, &mut report)?;
    if scope == Scope::Whole {
        let found = vault.damaged_entries(0, &|| false, &mut Err);
        report.damage.extend(found.damaged);
        found.failed.map_or(Ok(()), Err)?;
    }
    for (name, pack) in &vault.state.packs {
        let whole = match scope {
            Scope::Whole => true,
            Scope::Sampled { per_mille, seed } => draw(seed, *name) < per_mille.into(),
        };
        let wrong = match whole {
            true => read_any_way(vault, *name, reading)?,
            false => read_end(vault, *name)?,
        };
        if whole && !is_missing(wrong.as_ref()) {
            report.packs += 1;
            report.bytes += pack.bytes;
        }
        report.lose(*name, wrong);
    }
    points(vault, None, reading, &mut report)?;
    Ok(report)
}

/// What is wrong with a pack, by all of its bytes.
fn read_whole(vault: &Vault, name: PackName) -> Result<Option<Error>, Error> {
    checked(vault, name, &|object, _| vault.store.get(object))
}

/// The same, where it cannot be read at once.
fn read_in_parts(vault: &Vault, name: PackName, reading: Reading<'_>) -> Result<Option<Error>, Error> {
    checked(vault, name, &|object, bytes| {
        // A byte more than there is to be: an object that is longer is another one.
        let end = bytes.saturating_add(1);
        let mut read = Vec::new();
        while (read.len() as u64) < end {
            if (reading.ends)() {
                return Err(StoreError::Unknown("it was told to end".to_owned()));
            }
            let left = end - read.len() as u64;
            let length = usize::try_from(left).unwrap_or(PART_BYTES).min(PART_BYTES);
            let Some(part) = vault.store.get_range(object, read.len() as u64, length)? else {
                return Ok(None);
            };
            read.extend_from_slice(&part);
            if part.len() < length {
                break;
            }
        }
        Ok(Some(read))
    })
}

/// At once, or else in parts.
fn read_any_way(vault: &Vault, name: PackName, reading: Reading<'_>) -> Result<Option<Error>, Error> {
    read_whole(vault, name).or_else(|error| match &error {
        Error::Store { .. } if !(reading.ends)() => read_in_parts(vault, name, reading),
        _ => Err(error),
    })
}

/// The bytes of an object, if there is one.
type Bytes = Result<Option<Vec<u8>>, StoreError>;

/// `get`: the bytes of this object, which is to have so many.
fn checked(vault: &Vault, name: PackName, get: &dyn Fn(&str, u64) -> Bytes) -> Result<Option<Error>, Error> {
    let Some(pack) = vault.state.packs.get(&name) else {
        return Ok(None);
    };
    let object = vault.id.pack(name);
    let wrong = match get(&object, pack.bytes).map_err(of(&object, "read it"))? {
        Some(bytes) => pack.check(&vault.keys, &object, &bytes, &mut |_, _| {}),
        None => Err(Error::Missing { object }),
    };
    damage_of(wrong)
}

/// What is wrong with a pack, by its last byte, and that there is none behind it.
fn read_end(vault: &Vault, name: PackName) -> Result<Option<Error>, Error> {
    let Some(pack) = vault.state.packs.get(&name) else {
        return Ok(None);
    };
    let object = vault.id.pack(name);
    let read = vault.store.get_range(&object, pack.bytes - 1, 2);
    damage_of(match read.map_err(of(&object, "read it"))? {
        Some(bytes) if bytes.len() == 1 => Ok(()),
        Some(_) => Err(Error::Damaged {
            object,
            why: "it has another length than it had",
        }),
        None => Err(Error::Missing { object }),
    })
}

/// Where something cannot be read so many others are tried at most: each may take minutes where the store does not answer.
const PROBES: usize = 3;

/// A pack that cannot be read at once is read in parts of this length.
const PART_BYTES: usize = 1 << 20;

/// Can others be read, in this way, where this one cannot? Not as far as is known, where it is to end.
fn others_answer(vault: &Vault, object: &str, how: How, reading: Reading<'_>, report: &Report) -> bool {
    // A whole one is read in parts in the end, and the first one of these is what it begins with.
    let first_part = |pack: &Pack| usize::try_from(pack.bytes).unwrap_or(PART_BYTES).min(PART_BYTES);
    let answers = |name: &PackName, pack: &Pack| {
        let other = vault.id.pack(*name);
        let read = match how {
            How::Whole => vault.store.get_range(&other, 0, first_part(pack)),
            How::Part => vault.store.get_range(&other, pack.bytes - 1, 2),
        };
        matches!(read, Ok(Some(_)))
    };
    if let Some((name, pack)) = pack_of_object(vault, object).and_then(|name| vault.state.packs.get_key_value(&name)) {
        let is_other = |(other, _): &(&PackName, &Pack)| {
            *other != name
                && !report.packs_lost.contains(*other)
                && !vault.state.is_condemned(other)
                && !reading.suspects.contains(&vault.id.pack(**other))
        };
        let others: Vec<_> = vault.state.packs.iter().filter(is_other).collect();
        // What fails for long answers alone is not seen by short ones.
        let is_long = |(_, other): &&(&PackName, &Pack)| how == How::Part || first_part(other) >= first_part(pack);
        let mut tried: Vec<_> = others.iter().filter(is_long).collect();
        if tried.is_empty() {
            tried = others.iter().collect();
        }
        // A stretch of neighbours may be what cannot be read; and so may those be that were tried the time before.
        let first = UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos() as usize);
        let (count, probes) = (tried.len(), tried.len().min(PROBES));
        let mut spread = (0..probes).map(|at| tried[(first + at * count / probes) % count]);
        if !others.is_empty() {
            return spread.any(|(other, pack)| !(reading.ends)() && answers(other, pack));
        }
    }
    let last = vault.id.journal(vault.head.number);
    object != last && !(reading.ends)() && vault.store.get(&last).is_ok()
}

/// What came of an object that could not be read at first.
#[derive(Debug)]
pub(crate) enum Judged<T> {
    /// It is damage.
    Damage(Error),
    /// It was read when it was asked for once more.
    Read(T),
}

/// What kept an object from being looked at, as damage: where it is this one alone, for it was suspected, or another one was passed over before, and something was read
/// in between. `again` reads it once more, now that others have answered.
fn judge<T>(
    vault: &Vault,
    error: Error,
    how: How,
    reading: Reading<'_>,
    report: &mut Report,
    again: impl FnOnce() -> Result<T, Error>,
) -> Result<Judged<T>, Error> {
    let Error::Store { object, .. } = &error else {
        return Err(error);
    };
    let at_first_sight = report.has_passed && !report.in_row;
    let is_suspect = at_first_sight || reading.suspects.contains(object);
    if !is_suspect || !others_answer(vault, object, how, reading, report) {
        return Err(error);
    }
    match again() {
        Ok(read) => {
            report.in_row = false;
            Ok(Judged::Read(read))
        }
        // It was told to end meanwhile, and nothing is known.
        Err(_) if (reading.ends)() => Err(error),
        Err(Error::Store { .. }) => {
            report.unreadable += 1;
            (report.in_row, report.has_passed) = (true, true);
            Ok(Judged::Damage(error))
        }
        Err(damage) => Ok(Judged::Damage(damage)),
    }
}

/// The same of an object that is no pack, and is read whole.
fn judge_object(
    vault: &Vault,
    error: Error,
    reading: Reading<'_>,
    report: &mut Report,
) -> Result<Judged<Option<Vec<u8>>>, Error> {
    let object = match &error {
        Error::Store { object, .. } => object.clone(),
        _ => return Err(error),
    };
    let again = || {
        let read = match object.starts_with("keys/") {
            true => read_slot(&*vault.store, &object),
            false => vault.store.get(&object),
        };
        read.map_err(of(&object, "read it"))
    };
    judge(vault, error, How::Whole, reading, report, again)
}

/// Looks at a pack, and has what is wrong with it in the report. Is there what was to be read?
fn look_at(vault: &Vault, name: PackName, how: How, reading: Reading<'_>, report: &mut Report) -> Result<bool, Error> {
    let look = || match how {
        How::Whole => read_any_way(vault, name, reading),
        How::Part => read_end(vault, name),
    };
    let judged = match look() {
        Ok(wrong) => {
            report.in_row = false;
            Judged::Read(wrong)
        }
        Err(error) => judge(vault, error, how, reading, report, look)?,
    };
    let (wrong, is_read) = match judged {
        Judged::Read(wrong) => {
            let is_read = !is_missing(wrong.as_ref());
            (wrong, is_read)
        }
        Judged::Damage(error) => (Some(error), false),
    };
    report.lose(name, wrong);
    Ok(is_read)
}

fn is_missing(wrong: Option<&Error>) -> bool {
    matches!(wrong, Some(Error::Missing { .. }))
}

/// Damage, as against what kept it from being looked at.
fn damage_of(looked: Result<(), Error>) -> Result<Option<Error>, Error> {
    match looked {
        Ok(()) => Ok(None),
        Err(error) if error.is_damage() || matches!(error, Error::NewerFormat { .. }) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

/// What of the packs is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// From behind this one on; none: from the first one on.
    pub place: Option<PackName>,
    /// Up to this one, which was the last when the round was begun; none: up to the last one that there is.
    pub end: Option<PackName>,
    /// Until so many bytes are read.
    pub bytes: u64,
}

/// How far a walk has come.
#[derive(Debug)]
pub struct Went {
    /// The pack behind which it goes on; none: it begins at the first one.
    pub place: Option<PackName>,
    /// Bytes of the packs that it has passed, those that could not be read too: so much of its share is done.
    pub bytes: u64,
    /// Of these packs those that could not be read, or are missing.
    pub unread: u64,
    /// It has come to its end: a round is over.
    pub is_round: bool,
    /// It has ended before the pack behind its place, which could not be read; what was read until there counts.
    pub failed: Option<Error>,
}

/// The last pack that there is: a round that is begun now ends with it. None: there is none.
#[must_use]
pub fn last_pack(vault: &Vault) -> Option<PackName> {
    vault.state.packs.keys().next_back().copied()
}

/// Bytes of the packs that a round reads up to this one; none: up to the last one that there is.
#[must_use]
pub fn round_bytes(vault: &Vault, end: Option<PackName>) -> u64 {
    let state = &vault.state;
    let packs = state.packs.range((Bound::Unbounded, bound(end)));
    let read = packs.filter(|(name, _)| !state.is_condemned(name));
    read.map(|(_, pack)| pack.bytes).sum()
}

/// Up to this one, or all.
fn bound(end: Option<PackName>) -> Bound<PackName> {
    end.map_or(Bound::Unbounded, Bound::Included)
}

/// Reads packs whole, in the order of their names, until so many bytes of them are read, the last pack is, one cannot be, or the time is over. At least one is read, if
/// there is one that is not condemned and it is not told to end. What is damaged is in the report.
pub fn read_packs(vault: &Vault, stretch: Stretch, reading: Reading<'_>, report: &mut Report) -> Went {
    let mut went = Went {
        place: stretch.place,
        bytes: 0,
        unread: 0,
        is_round: false,
        failed: None,
    };
    let behind = stretch.place.map_or(Bound::Unbounded, Bound::Excluded);
    if let (Some(place), Some(end)) = (stretch.place, stretch.end)
        && place >= end
    {
        (went.place, went.is_round) = (None, true);
        return went;
    }
    let mut packs = vault.state.packs.range((behind, bound(stretch.end))).peekable();
    while let Some((name, pack)) = packs.next() {
        if (reading.ends)() || (went.bytes > 0 && reading.is_over()) {
            return went;
        }
        // One that is condemned may be swept by now: no session that began behind that keeps it.
        if vault.state.is_condemned(name) {
            went.place = Some(*name);
            continue;
        }
        match look_at(vault, *name, How::Whole, reading, report) {
            Ok(true) => {
                report.packs += 1;
                report.bytes += pack.bytes;
                report.read.push(*name);
            }
            Ok(false) => went.unread += 1,
            Err(error) => {
                went.failed = Some(error);
                return went;
            }
        }
        // One that cannot be read is a part of the share as well.
        went.bytes += pack.bytes;
        went.place = Some(*name);
        if went.bytes >= stretch.bytes && packs.peek().is_some() {
            return went;
        }
    }
    (went.place, went.is_round) = (None, true);
    went
}

/// Reads these packs whole once more, if they are of the vault still and not condemned. Which were read, and which of these are damaged or missing, is in the report;
/// where one cannot be read, nothing new is known of that, and it goes on with the next one. With how many of them it is done: it ends where it is told to, the time is
/// over, or the store does not answer at all.
pub fn read_again(vault: &Vault, packs: &[PackName], reading: Reading<'_>, report: &mut Report) -> usize {
    for (done, name) in packs.iter().enumerate() {
        if (reading.ends)() || (done > 0 && reading.is_over()) {
            return done;
        }
        if vault.state.is_condemned(name) {
            continue;
        }
        match read_any_way(vault, *name, reading) {
            Ok(wrong) => {
                report.read.push(*name);
                report.lose(*name, wrong);
            }
            // Where nothing else answers either it would be waited for with each.
            Err(_) if !others_answer(vault, &vault.id.pack(*name), How::Whole, reading, report) => return done,
            Err(_) => {}
        }
    }
    packs.len()
}

/// How far the journal has been read.
#[derive(Debug)]
pub struct JournalWent {
    /// The entry behind which it goes on.
    pub place: u64,
    /// All that is known of it has been read.
    pub is_end: bool,
    /// Entries of which it is not known whether they follow the one before, which is not whole.
    pub unlinked: BTreeSet<u64>,
    /// The entry behind its place, or that at its place, could not be read; what was read until there counts.
    pub failed: Option<Error>,
}

/// Reads the journal from behind this entry on, 0 being before the first, until the last one is read, one cannot be, it is told to end, or the time is over. What is damaged
/// is in the report.
pub fn read_journal(vault: &Vault, place: u64, reading: Reading<'_>, report: &mut Report) -> JournalWent {
    // The one before is read for its hash alone: that it cannot be says nothing of those behind it.
    let mut suspects = reading.suspects.clone();
    suspects.insert(vault.id.journal(place));
    let reading = Reading {
        suspects: &suspects,
        ..reading
    };
    let is_begun = std::cell::Cell::new(false);
    let ends = || (reading.ends)() || (is_begun.replace(true) && reading.is_over());
    let mut unread = None;
    let mut judged = |error: Error| {
        let entry = match &error {
            Error::Store { object, .. } => entry_of_object(vault, object),
            _ => None,
        };
        report.in_row = entry.is_some() && unread == entry.map(|entry| entry.saturating_sub(1));
        unread = entry;
        let (unreadable, has_passed) = (report.unreadable, report.has_passed);
        let judged = judge_object(vault, error, reading, report);
        if entry == Some(place) {
            (report.unreadable, report.has_passed) = (unreadable, has_passed);
        }
        judged
    };
    let found = vault.damaged_entries(place, &ends, &mut judged);
    report.damage.extend(found.damaged);
    JournalWent {
        place: found.place,
        is_end: found.failed.is_none() && found.place >= vault.head.number,
        unlinked: found.unlinked,
        failed: found.failed,
    }
}

/// The entry of this vault's journal that an object is; none: it is another object.
#[must_use]
pub fn entry_of_object(vault: &Vault, object: &str) -> Option<u64> {
    object.strip_prefix(&vault.id.journals())?.parse().ok()
}

/// What is to be looked at each time, beside packs that are read whole: the keys, that all packs are there and have the length that they had, and the trees of all
/// points `behind` this one. Points need none of the packs that the report knows to be damaged or missing, or are not whole.
///
/// # Errors
/// When the store does not answer; [`Error::Ended`]. What was found until then is in the report.
pub fn look_round(vault: &Vault, behind: Option<u64>, reading: Reading<'_>, report: &mut Report) -> Result<(), Error> {
    let keys = vault.damaged_keys(&mut |error| {
        // They are few, and each is asked for by itself: two of them are no stretch.
        report.in_row = false;
        judge_object(vault, error, reading, report)
    });
    // What could not be read of them says nothing of packs.
    (report.in_row, report.has_passed) = (false, false);
    keys_in(keys, vault, report)?;
    let prefix = vault.id.packs();
    let listed = list_until(&*vault.store, &prefix, reading.ends).map_err(of(&prefix, "list it"))?;
    let listed = listed.ok_or(Error::Ended)?;
    let listed: BTreeMap<&str, u64> = listed.iter().map(|found| (found.name.as_str(), found.bytes)).collect();
    for (name, pack) in &vault.state.packs {
        if (reading.ends)() {
            return Err(Error::Ended);
        }
        let is_known = report.packs_lost.contains(name) || vault.state.is_condemned(name);
        // That something is not listed is asked for once more by its name.
        if !is_known && listed.get(vault.id.pack(*name).as_str()) != Some(&pack.bytes) {
            look_at(vault, *name, How::Part, reading, report)?;
        }
    }
    points(vault, behind, reading, report)
}

/// Has what was found of the keys in the report.
fn keys_in(keys: Slots, vault: &Vault, report: &mut Report) -> Result<(), Error> {
    report.damage.extend(keys.damaged);
    keys.failed.map_or(Ok(()), Err)?;
    if keys.found == 0 {
        report.damage.push(Error::NoVault { vault: vault.id });
    }
    Ok(())
}

/// The pack of this vault that an object is; none: it is another object, or the pack is of the vault no more.
#[must_use]
pub fn pack_of_object(vault: &Vault, object: &str) -> Option<PackName> {
    let name = PackName::parse(object.strip_prefix(&vault.id.packs())?)?;
    vault.state.packs.contains_key(&name).then_some(name)
}

/// The pack of the vault that an error is about.
fn pack_of(vault: &Vault, error: &Error) -> Option<PackName> {
    match error {
        Error::Damaged { object, .. }
        | Error::Missing { object }
        | Error::NewerFormat { object, .. }
        | Error::Store { object, .. } => pack_of_object(vault, object),
        _ => None,
    }
}

/// The trees of all points behind this one are walked, and each piece has a copy that was not found damaged.
fn points(vault: &Vault, behind: Option<u64>, reading: Reading<'_>, report: &mut Report) -> Result<(), Error> {
    let mut trees = Trees::of(vault, reading, report);
    let behind = behind.map_or(Bound::Unbounded, Bound::Excluded);
    for (number, point) in vault.state.points.range((behind, Bound::Unbounded)) {
        if let Some(lack) = trees.lack(point, report)? {
            // Where a sample is read only this tells of a pack of trees.
            report.packs_lost.extend(pack_of(vault, &lack));
            report.points_lost.insert(*number, lack);
        }
        report.points += 1;
        report.point = Some(*number);
    }
    Ok(())
}
