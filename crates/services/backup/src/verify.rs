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
//! read before it counts, and its caller remembers it. Where it cannot be read the next time either, and others can, it is damage as any other: named, and passed over.

use crate::error::{Error, of};
use crate::pack::{Pack, PackName};
use crate::piece::PieceId;
use crate::store::list_until;
use crate::vault::Vault;
use crate::walk::Walk;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

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
    /// Points that are not whole, with one reason each.
    pub points_lost: BTreeMap<u64, Error>,
    /// The packs that were read whole, whatever they were found to be; those that could not be read are not among them.
    pub read: Vec<PackName>,
    /// Objects that could not be read, while others could: they are among the damage.
    pub unreadable: usize,
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

/// Checks a vault. To keep what is checked from being pruned meanwhile, hold a session.
///
/// # Errors
/// When the store does not answer: that is no damage. What is damaged is in the report.
pub fn verify(vault: &Vault, scope: Scope) -> Result<Report, Error> {
    let mut report = Report::default();
    let (keys, damaged) = vault.damaged_keys(&mut Err)?;
    report.damage.extend(damaged);
    if keys == 0 {
        report.damage.push(Error::NoVault { vault: vault.id });
    }
    if scope == Scope::Whole {
        let (damaged, _, failed) = vault.damaged_entries(0, &|| false, &mut Err);
        report.damage.extend(damaged);
        failed.map_or(Ok(()), Err)?;
    }
    for (name, pack) in &vault.state.packs {
        let whole = match scope {
            Scope::Whole => true,
            Scope::Sampled { per_mille, seed } => draw(seed, *name) < per_mille.into(),
        };
        let wrong = if whole {
            report.packs += 1;
            report.bytes += pack.bytes;
            read_whole(vault, *name)?
        } else {
            read_end(vault, *name)?
        };
        report.lose(*name, wrong);
    }
    points(vault, &mut report, None, &|| false)?;
    Ok(report)
}

/// What is wrong with a pack, by all of its bytes.
fn read_whole(vault: &Vault, name: PackName) -> Result<Option<Error>, Error> {
    let Some(pack) = vault.state.packs.get(&name) else {
        return Ok(None);
    };
    let object = vault.id.pack(name);
    let wrong = match vault.store.get(&object).map_err(of(&object, "read it"))? {
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

/// Where something cannot be read it is asked of so many other packs whether they can.
const PROBES: usize = 16;

/// Can others be read, where this one cannot?
fn others_answer(vault: &Vault, object: &str) -> bool {
    let packs = &vault.state.packs;
    if let Some(name) = pack_of_object(vault, object) {
        let behind = packs.range((Bound::Excluded(name), Bound::Unbounded)).take(2);
        let before = packs.range(..name).rev().take(2);
        // A stretch of neighbours may be what cannot be read.
        let spread = packs.iter().step_by(packs.len().div_ceil(PROBES).max(1));
        let mut others = behind.chain(before).chain(spread).filter(|(other, _)| **other != name);
        let answers = |(other, pack): (&PackName, &Pack)| {
            let read = vault.store.get_range(&vault.id.pack(*other), pack.bytes - 1, 2);
            read.is_ok()
        };
        if packs.len() > 1 {
            return others.any(answers);
        }
    }
    let last = vault.id.journal(vault.head.number);
    object != last && vault.store.get(&last).is_ok()
}

/// What kept an object from being looked at, as damage: where it is this one alone, for it was `suspect`, or another one was passed over just before.
fn judge(vault: &Vault, error: Error, suspect: Option<&str>, report: &mut Report) -> Result<Error, Error> {
    let Error::Store { object, .. } = &error else {
        return Err(error);
    };
    if (suspect == Some(object.as_str()) || report.unreadable > 0) && others_answer(vault, object) {
        report.unreadable += 1;
        return Ok(error);
    }
    Err(error)
}

/// Looks at a pack, and has what is wrong with it in the report.
fn look_at(
    vault: &Vault,
    name: PackName,
    look: impl Fn(&Vault, PackName) -> Result<Option<Error>, Error>,
    suspect: Option<&str>,
    report: &mut Report,
) -> Result<(), Error> {
    let wrong = match look(vault, name) {
        Ok(wrong) => wrong,
        Err(error) => Some(judge(vault, error, suspect, report)?),
    };
    report.lose(name, wrong);
    Ok(())
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
pub struct Stretch<'a> {
    /// From behind this one on; none: from the first one on.
    pub place: Option<PackName>,
    /// Up to this one, which was the last when the round was begun; none: up to the last one that there is.
    pub end: Option<PackName>,
    /// Until so many bytes are read.
    pub bytes: u64,
    /// The object that could not be read the time before: where that is so again, and others can be, it is damage.
    pub suspect: Option<&'a str>,
}

/// How far a walk has come.
#[derive(Debug)]
pub struct Went {
    /// The pack behind which it goes on; none: it begins at the first one.
    pub place: Option<PackName>,
    /// Bytes of packs that were read.
    pub bytes: u64,
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

/// Reads packs whole, in the order of their names, until so many bytes of them are read, the last pack is, one cannot be, or `ends` says so, which is asked
/// before each. At least one is read, if there is one that is not condemned and nothing ends it. What is damaged is in the report.
pub fn read_packs(vault: &Vault, stretch: Stretch<'_>, ends: &dyn Fn() -> bool, report: &mut Report) -> Went {
    let mut went = Went {
        place: stretch.place,
        bytes: 0,
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
        if ends() {
            return went;
        }
        // One that is condemned may be swept by now: no session that began behind that keeps it.
        if vault.state.is_condemned(name) {
            went.place = Some(*name);
            continue;
        }
        let before = report.unreadable;
        if let Err(error) = look_at(vault, *name, read_whole, stretch.suspect, report) {
            went.failed = Some(error);
            return went;
        }
        if report.unreadable == before {
            report.packs += 1;
            report.bytes += pack.bytes;
            report.read.push(*name);
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
/// where one cannot be read, nothing new is known of that, and it goes on with the next one, unless the store does not answer at all.
///
/// # Errors
/// [`Error::Ended`]: what was read until then is in the report.
pub fn read_again(
    vault: &Vault,
    packs: &[PackName],
    ends: &dyn Fn() -> bool,
    report: &mut Report,
) -> Result<(), Error> {
    for name in packs {
        if ends() {
            return Err(Error::Ended);
        }
        if vault.state.is_condemned(name) {
            continue;
        }
        match read_whole(vault, *name) {
            Ok(wrong) => {
                report.read.push(*name);
                report.lose(*name, wrong);
            }
            // Where nothing else answers either it would be waited for with each.
            Err(_) if !others_answer(vault, &vault.id.pack(*name)) => return Ok(()),
            Err(_) => {}
        }
    }
    Ok(())
}

/// How far the journal has been read.
#[derive(Debug)]
pub struct JournalWent {
    /// The entry behind which it goes on.
    pub place: u64,
    /// All that is known of it has been read.
    pub is_end: bool,
    /// The entry behind its place could not be read; what was read until there counts.
    pub failed: Option<Error>,
}

/// Reads the journal from behind this entry on, 0 being before the first, until `ends` says so, which is asked before each entry, one cannot be read, or the last one is.
/// What is damaged is in the report. `suspect`: as of [`Stretch`].
pub fn read_journal(
    vault: &Vault,
    place: u64,
    suspect: Option<&str>,
    ends: &dyn Fn() -> bool,
    report: &mut Report,
) -> JournalWent {
    let mut judged = |error| judge(vault, error, suspect, report);
    let (damaged, place, failed) = vault.damaged_entries(place, ends, &mut judged);
    report.damage.extend(damaged);
    JournalWent {
        place,
        is_end: failed.is_none() && place >= vault.head.number,
        failed,
    }
}

/// The entry of this vault's journal that an object is; none: it is another object.
#[must_use]
pub fn entry_of_object(vault: &Vault, object: &str) -> Option<u64> {
    object.strip_prefix(&vault.id.journals())?.parse().ok()
}

/// What is to be looked at each time, beside packs that are read whole: the keys, that all packs are there and have the length that they had, and all points'
/// trees. Points need none of the packs that the report knows to be damaged or missing, or are not
/// whole. `suspect`: as of [`Stretch`].
///
/// # Errors
/// When the store does not answer; [`Error::Ended`]. What was found until then is in the report.
pub fn look_round(
    vault: &Vault,
    suspect: Option<&str>,
    ends: &dyn Fn() -> bool,
    report: &mut Report,
) -> Result<(), Error> {
    let (keys, damaged) = vault.damaged_keys(&mut |error| judge(vault, error, suspect, report))?;
    report.damage.extend(damaged);
    if keys == 0 {
        report.damage.push(Error::NoVault { vault: vault.id });
    }
    let prefix = vault.id.packs();
    let listed = list_until(&*vault.store, &prefix, ends).map_err(of(&prefix, "list it"))?;
    let listed = listed.ok_or(Error::Ended)?;
    let listed: BTreeMap<&str, u64> = listed.iter().map(|found| (found.name.as_str(), found.bytes)).collect();
    for (name, pack) in &vault.state.packs {
        if ends() {
            return Err(Error::Ended);
        }
        let is_known = report.packs_lost.contains(name) || vault.state.is_condemned(name);
        // That something is not listed is asked for once more by its name.
        if !is_known && listed.get(vault.id.pack(*name).as_str()) != Some(&pack.bytes) {
            look_at(vault, *name, read_end, suspect, report)?;
        }
    }
    points(vault, report, suspect, ends)
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

/// Every point's tree is walked, and each piece has a copy that was not found damaged.
fn points(vault: &Vault, report: &mut Report, suspect: Option<&str>, ends: &dyn Fn() -> bool) -> Result<(), Error> {
    let is_lost = |id: &PieceId| {
        let places = vault.state.places(id);
        places.iter().all(|place| report.packs_lost.contains(&place.pack))
    };
    let records = report.packs_lost.iter().filter_map(|name| vault.state.packs.get(name));
    let records = records.flat_map(|pack| &pack.directory.records);
    let lost: Vec<PieceId> = records.map(|record| record.id).filter(is_lost).collect();
    // Only of points that are whole: another one that shares a part with one that is not must not pass that over.
    let mut whole = Walk::until(ends);
    for (number, point) in &vault.state.points {
        report.points += 1;
        let mut own = std::mem::replace(&mut whole, Walk::until(ends));
        let walked = point.volumes.iter().try_for_each(|volume| own.volume(vault, volume));
        let found = walked.and_then(|()| {
            let Some(id) = lost.iter().find(|id| own.live.contains(*id)) else {
                return Ok(());
            };
            let place = vault.state.places(id).first().copied();
            Err(place.map_or(Error::NoPiece(*id), |place| Error::Damaged {
                object: vault.id.pack(place.pack),
                why: "it is damaged or missing, and the point needs it",
            }))
        });
        match found {
            Ok(()) => whole = own,
            Err(error) => {
                let pack = pack_of(vault, &error);
                let is_known = pack.is_some_and(|pack| report.packs_lost.contains(&pack));
                let error = match error.is_damage() || is_known || matches!(error, Error::NewerFormat { .. }) {
                    true => error,
                    false => judge(vault, error, suspect, report)?,
                };
                // Where a sample is read only this tells of a pack of trees.
                report.packs_lost.extend(pack);
                report.points_lost.insert(*number, error);
            }
        }
    }
    Ok(())
}
