//! An attempt at a verification by a policy, on the node that has the key for it.
//!
//! The walk through the packs goes on where the one before has ended ([`amita_backup::verify`]): the record says behind which pack. It is made in pieces of some minutes, each
//! under a session of its own, so that nothing that it reads is swept meanwhile, and pruning waits for minutes and not for days. What was read is noted behind each;
//! whoever goes on after this node has died reads at most one piece twice. A session that is over before its piece was read, because somebody took this node for
//! dead, makes what the piece came to worth nothing: what it missed may have been removed.
//!
//! An object that cannot be read ends its piece, what was read until then is noted, and so is which one it was. The next attempt passes over it, as damage, where it cannot be read
//! still and others can. One that is known as damaged is passed over in any case.

use super::super::failure::Described as _;
use super::super::sessions;
use super::super::target::{self, Target};
use super::attempt::{Attempt, now, said};
use super::ends::Why;
use super::noted::{noted, surely};
use crate::admin::Described as _;
use amita_backup::verify::{
    Reading, Report, Stretch, entry_of_object, last_pack, look_round, pack_of_object, read_again, read_journal,
    read_packs, round_bytes,
};
use amita_backup::{Error as Damage, PackName, Vault};
use amita_control::admin;
use amita_control::backups::plan::{self, Step};
use amita_control::backups::verification::{self, By, Found, Part};
use amita_control::backups::verification_session_name;
use amita_metadata::{Call, Error, Op};
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_types::map::{self, BackupDamage, BackupPointLost, BackupPolicy, BackupRepository, BackupVerified};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// So long packs are read under one session: pruning waits no longer for that.
const PIECE: Duration = Duration::from_secs(600);

/// A verification; what it works with is what a backup does.
pub struct Check<'a> {
    pub with: Attempt<'a>,
}

/// The records that it goes by.
struct Records {
    /// As runs of this kind see it.
    policy: BackupPolicy,
    /// The revision by which the policy was made.
    made: u64,
    /// And by which it was read.
    seen: u64,
    repository: Option<BackupRepository>,
    verified: BackupVerified,
    /// Of that record; 0: nobody has written it.
    revision: u64,
}

type Noted<T> = std::result::Result<T, Error>;

impl Check<'_> {
    /// Does what is to be done now; what has become of it, for the log.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn run(&self) -> Noted<&'static str> {
        loop {
            let Some(mut records) = self.read()? else {
                return Ok("the policy verifies no more, or its records cannot be read");
            };
            self.with.ends.goes_by(&records.policy, records.repository.as_ref());
            let step = plan::step(&records.policy, &records.verified.runs, now().as_secs());
            let (runs, works) = match step {
                Step::Rest(_) => return Ok("nothing is to be done"),
                Step::Note(runs) => (runs, false),
                Step::Work(mut runs) => {
                    if let Some(run) = &mut runs.run {
                        self.with.node.clone_into(&mut run.node);
                    }
                    (runs, true)
                }
            };
            let mut verified = records.verified.clone();
            verified.runs = runs;
            if records.policy.paused {
                // What was under way is let be, and has not failed: the next one goes on from where it was.
                let before = &records.verified.runs;
                (verified.runs.runs, verified.runs.failures) = (before.runs, before.failures);
                verified.runs.last.clone_from(&before.last);
            }
            if !self.note(&mut records, verified)? {
                return Ok("another node is at it");
            }
            if works {
                return self.work(records);
            }
        }
    }

    /// The program has come over something: the run is tried again after a pause.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn panicked(&self) -> Noted<()> {
        let why = format!("verifying has panicked on node {}: see that node's log", self.with.node);
        self.fail(why)
    }

    /// It does not come to its end, though it was told to end: another node may go on.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn stuck(&self) -> Noted<()> {
        self.fail(self.with.ends.stuck(self.with.node))
    }

    fn fail(&self, why: String) -> Noted<()> {
        let Some(mut records) = self.read()? else { return Ok(()) };
        let mut verified = records.verified.clone();
        if let Some(run) = &mut verified.runs.run {
            (run.failed, run.why) = (1, vec![why]);
        }
        plan::end(&mut verified.runs, now().as_secs());
        self.note(&mut records, verified).map(drop)
    }

    fn read(&self) -> Noted<Option<Records>> {
        let client = self.with.client;
        let key = map::backup_policy_key(self.with.policy);
        let mut reply = client.txn(&Call::get(key.as_str()))?;
        let (made, seen, policy, reply) = loop {
            let Some(found) = reply.value(0) else { return Ok(None) };
            let policy = found.json::<BackupPolicy>().ok();
            let Some(policy) = policy.and_then(|policy| policy.verification()) else {
                return Ok(None);
            };
            let (made, seen) = (found.create_revision, found.mod_revision);
            let keys = [
                key.clone(),
                map::backup_repository_key(&policy.repository),
                map::backup_verified_key(policy.id),
            ];
            reply = client.txn(&Call {
                then: keys.into_iter().map(|key| Op::Get { key }).collect(),
                ..Call::default()
            })?;
            // What is noted goes by the policy as it was when the record was read.
            if reply.value(0).is_some_and(|found| found.mod_revision == seen) {
                break (made, seen, policy, reply);
            }
        };
        let (verified, revision) = match reply.value(2) {
            None => (BackupVerified::default(), 0),
            Some(found) => match found.json::<BackupVerified>() {
                Ok(verified) => (verified, found.mod_revision),
                Err(_) => return Ok(None),
            },
        };
        Ok(Some(Records {
            repository: reply.value(1).and_then(|found| found.json().ok()),
            policy,
            made,
            seen,
            verified,
            revision,
        }))
    }

    /// Is it noted? Else another node is at it, or the policy is gone.
    fn note(&self, records: &mut Records, mut verified: BackupVerified) -> Noted<bool> {
        plan::sign(&mut verified.runs, self.with.node, now().as_secs());
        let Records {
            policy,
            made,
            seen,
            revision,
            ..
        } = &*records;
        let (of, claim) = ((*made, *seen), self.with.claim);
        let told = admin::note_backup_verified(self.with.client, policy, of, claim, *revision, &verified);
        let Some(revision) = noted(told)? else { return Ok(false) };
        (records.verified, records.revision) = (verified, revision);
        Ok(true)
    }

    /// The same for as long as this node has the key. What the record said before was this node's word.
    fn note_surely(&self, records: &mut Records, verified: &BackupVerified) -> bool {
        let note = |records: &mut Records| self.note(records, verified.clone());
        surely(self.with.ends, records, note, |records| {
            if let Ok(Some(found)) = self.read() {
                records.revision = found.revision;
            }
            false
        })
    }

    fn work(&self, mut records: Records) -> Noted<&'static str> {
        let (before, unread) = (come(&records.verified), records.verified.unread.clone());
        let mut failed = match self.verify(&mut records) {
            Err(failure) if !interrupt::caught() => Some(said(&failure)),
            _ => None,
        };
        let why = self.with.ends.why().or(interrupt::caught().then_some(Why::Node));
        match why {
            Some(Why::Limit) if come(&records.verified) != before => {
                let mut verified = records.verified.clone();
                verified.unread = verified.unread.filter(|_| records.verified.unread != unread);
                plan::come_on(&mut verified.runs);
                return Ok(match self.note_surely(&mut records, &verified) {
                    true => "its time is over: it goes on from where it is when it has its turn again",
                    false => "its time is over, and another node may be at it",
                });
            }
            Some(Why::Limit) => {
                let (limit_s, step) = (records.policy.limit_s, self.with.ends.step());
                failed = Some(format!(
                    "it did not come on within its limit of {limit_s} s; it was at this last: {step}"
                ));
            }
            Some(Why::Node) => return Ok("this node ends: another one goes on"),
            Some(Why::Lost) => return Ok("another node may be at it"),
            Some(Why::Changed) => return Ok("it was changed, and is gone on with as it is now"),
            None => {}
        }
        let mut verified = records.verified.clone();
        let is_damaged = verified.damaged() > 0 || verified.lost() > 0;
        let has_failed = failed.is_some();
        if let Some(run) = &mut verified.runs.run {
            run.failed = u64::from(has_failed);
            // Of a stretch that cannot be read each attempt passes one: it is not left alone for longer each time.
            if come(&records.verified) != before {
                run.attempts = 1;
            }
            verified.unread = verified.unread.filter(|_| has_failed);
            run.why.clear();
            failed.iter().for_each(|why| plan::note(&mut run.why, why));
        }
        plan::end(&mut verified.runs, now().as_secs());
        // The next run may be due in the same second.
        if !has_failed {
            (verified.looked_due, verified.again_due) = (None, None);
        }
        match self.note_surely(&mut records, &verified) {
            false => Ok("what has become of it could not be noted: it is gone on with by whoever is at it next"),
            true if has_failed => Ok("it could not be done, and is tried again"),
            true if is_damaged => Ok("it is done, and the repository is damaged"),
            true => Ok("it is done"),
        }
    }

    /// Verifies, and notes what is found as it is found.
    fn verify(&self, records: &mut Records) -> Result<()> {
        let ends = self.with.ends;
        ends.comes_to("the repository is opened, and its journal read");
        let policy = records.policy.clone();
        let repository = records.repository.clone().ok_or_else(|| {
            Failure::new(format!(
                "there is no backup repository {}, or its record cannot be read",
                policy.repository
            ))
        })?;
        let target = Target::of(&repository)?;
        let mut vault = target.open(self.with.config.insecure_network)?;
        let cluster = admin::cluster(self.with.client).described()?.id;
        let mut verified = records.verified.clone();
        let id = vault.id().to_string();
        verification::comes_upon(&mut verified, &repository.name, &id, now().as_secs());
        self.keep(records, &verified)?;
        ends.comes_to("sessions are looked for that are dead");
        let session = verification_session_name(cluster, &policy);
        sessions::fence_named(&mut vault, &session)?;
        self.with.fence_left(&mut vault, cluster, &repository.name)?;
        target::checkpoint(&mut vault);

        self.read_known(&mut vault, &session, records)?;
        // First what says most for what it costs: a share that does not fit between two times must not keep it from its turn.
        let due = records.verified.runs.run.as_ref().map(|run| run.due);
        if due.is_none() || records.verified.looked_due != due {
            self.look_round(&mut vault, &session, records)?;
        }
        self.walk(&mut vault, &session, records)?;
        if records.verified.points_owed {
            self.look_round(&mut vault, &session, records)?;
        }
        self.journal(&mut vault, &session, records)
    }

    /// Reads all that is known as damaged again, once in a run.
    fn read_known(&self, vault: &mut Vault, session: &str, records: &mut Records) -> Result<()> {
        let due = records.verified.runs.run.as_ref().map(|run| run.due);
        if due.is_some() && records.verified.again_due == due {
            return Ok(());
        }
        self.with.ends.comes_to("what was damaged is read again");
        let known = named_packs(vault, &records.verified);
        let mut rest = known.as_slice();
        while !rest.is_empty() {
            if let Err(ended) = interrupt::check() {
                // What comes behind it has its turn before it has another one.
                if self.with.ends.why() == Some(Why::Limit) {
                    self.read_again_in(records, due)?;
                }
                return Err(ended);
            }
            let suspects = suspects(&records.verified);
            let (done, report) = piece(vault, session, |vault| {
                let mut report = Report::default();
                let done = read_again(vault, rest, in_pieces(&suspects), &mut report);
                Ok((done, report))
            })?;
            let mut verified = records.verified.clone();
            let is_read = |object: &str| pack_of_object(vault, object).is_some_and(|pack| report.read.contains(&pack));
            if verification::looked_again(&mut verified, is_read, &found(&report)) {
                verification::owe_points(&mut verified);
            }
            verification::name_more(&mut verified, now().as_secs());
            self.keep(records, &verified)?;
            // The store does not answer, or it is to end: what comes behind this says so.
            if done == 0 {
                return Ok(());
            }
            rest = &rest[done..];
        }
        self.read_again_in(records, due)
    }

    fn read_again_in(&self, records: &mut Records, due: Option<u64>) -> Result<()> {
        let verified = BackupVerified {
            again_due: due,
            ..records.verified.clone()
        };
        self.keep(records, &verified)
    }

    /// It has failed at this. An object that could not be read is remembered: the next attempt sees whether it is that one alone.
    fn fails_at(&self, records: &mut Records, why: Damage) -> Result<()> {
        let unread = match &why {
            Damage::Store { object, .. } => Some(object.clone()),
            _ => None,
        };
        if unread.is_some() && records.verified.unread != unread {
            let verified = BackupVerified {
                unread,
                ..records.verified.clone()
            };
            self.keep(records, &verified)?;
        }
        Err(why).described()
    }

    /// Reads the run's share of the packs.
    fn walk(&self, vault: &mut Vault, session: &str, records: &mut Records) -> Result<()> {
        let percent = records.policy.verify.as_ref().map_or(100, |verify| verify.percent);
        loop {
            interrupt::check()?;
            vault.refresh().described()?;
            let place = records.verified.place.as_deref().and_then(PackName::parse);
            // A round that begins now ends with what is there now.
            let known = records.verified.round_end.as_deref().and_then(PackName::parse);
            let end = known.filter(|_| place.is_some()).or_else(|| last_pack(vault));
            let share = verification::share(round_bytes(vault, end), percent);
            let run = records.verified.runs.run.clone().unwrap_or_default();
            let left = share.saturating_sub(run.read_bytes);
            if left == 0 {
                return Ok(());
            }
            let next = records.verified.place.as_deref().unwrap_or("the first one");
            self.with
                .ends
                .comes_to(format!("packs are read, from behind {next} on"));
            let suspects = suspects(&records.verified);
            let stretch = Stretch {
                place,
                end,
                bytes: left,
            };
            // Where the session was over nothing of it is kept: it may have missed what was swept.
            let (went, report) = piece(vault, session, |vault| {
                let mut report = Report::default();
                let went = read_packs(vault, stretch, in_pieces(&suspects), &mut report);
                Ok((went, report))
            })?;
            let mut verified = records.verified.clone();
            let is_whole = |pack: &str| {
                let pack = PackName::parse(pack);
                pack.is_some_and(|pack| report.read.contains(&pack) && !report.packs_lost.contains(&pack))
            };
            let mut is_mended = verification::read_in_turn(&mut verified, is_whole);
            // Those that are named are read again first, as far as there is time for it.
            let is_read = |object: &str| pack_of_object(vault, object).is_some_and(|pack| report.read.contains(&pack));
            is_mended |= verification::looked_again(&mut verified, is_read, &found(&report));
            let is_new = verification::add(&mut verified, &found(&report), By::Turn, now().as_secs());
            if is_mended || is_new {
                verification::owe_points(&mut verified);
            }
            tell(&self.with, &records.verified, &verified);
            verified.place = went.place.map(|place| place.to_string());
            verified.round_end = end.map(|end| end.to_string());
            verified.packs = verified.packs.saturating_add(report.packs as u64);
            verified.round_unread = verified.round_unread.saturating_add(went.unread);
            verified.runs.read_bytes = verified.runs.read_bytes.saturating_add(report.bytes);
            if let Some(run) = &mut verified.runs.run {
                run.read_bytes = run.read_bytes.saturating_add(went.bytes);
            }
            if went.is_round {
                verification::round(&mut verified, now().as_secs());
            }
            self.keep(records, &verified)?;
            if let Some(why) = went.failed {
                return self.fails_at(records, why);
            }
            // Its share is read; or nothing is there to be read. What has been put meanwhile is not for this one.
            if went.bytes >= left || (went.is_round && went.bytes == 0 && place.is_none()) {
                return Ok(());
            }
        }
    }

    /// What is looked at each time.
    fn look_round(&self, vault: &mut Vault, session: &str, records: &mut Records) -> Result<()> {
        interrupt::check()?;
        self.with
            .ends
            .comes_to("it is looked whether all packs are there, and at the trees of all points");
        let mut known = named_packs(vault, &records.verified);
        known.extend(
            records
                .verified
                .more_packs
                .iter()
                .filter_map(|pack| PackName::parse(pack)),
        );
        let (suspects, behind) = (suspects(&records.verified), records.verified.points_place);
        let (looked, report) = piece(vault, session, |vault| {
            let mut report = Report::default();
            report.packs_lost.extend(known);
            let reading = Reading {
                until: None,
                ..in_pieces(&suspects)
            };
            let looked = look_round(vault, behind, reading, &mut report);
            Ok((looked, report))
        })?;
        let mut verified = records.verified.clone();
        let mut all = found(&report);
        all.extend(report.points_lost.values().filter_map(|why| object_of(why)));
        let is_new = verification::add(&mut verified, &all, By::Look, now().as_secs());
        let points = vault.state().points();
        let lost = report.points_lost.iter().map(|(number, why)| BackupPointLost {
            point: *number,
            name: points.get(number).map_or_else(String::new, |point| point.name.clone()),
            why: why.to_string(),
        });
        let is_there = |point: u64| points.contains_key(&point);
        let is_behind = |point: u64| behind.is_none_or(|behind| point > behind);
        let part = Part {
            behind,
            ends: looked.is_ok(),
        };
        let due = verified.runs.run.as_ref().map(|run| run.due);
        if let Err(why) = looked {
            // It goes on behind the last point that was looked at, as long as nothing else is known as damaged.
            verification::points(&mut verified, part, lost, is_there, |point| {
                is_behind(point) && report.point.is_some_and(|last| point <= last)
            });
            verified.points_place = report.point.or(behind);
            verified.points_owed |= is_new;
            if is_new && behind.is_some() {
                verification::owe_points(&mut verified);
            }
            // What comes behind it has its turn before it has another one.
            if self.with.ends.why() == Some(Why::Limit) {
                (verified.looked_due, verified.points_owed) = (due, true);
            }
            tell(&self.with, &records.verified, &verified);
            self.keep(records, &verified)?;
            return self.fails_at(records, why);
        }
        // A pack is looked at where it is read whole, and the journal likewise; here it is only seen which packs the vault has no more.
        let is_looked_at = |object: &str| match object.split('/').next() {
            Some("packs") => pack_of_object(vault, object).is_none(),
            Some("journal") => false,
            _ => true,
        };
        verification::looked_again(&mut verified, is_looked_at, &all);
        let packs = format!("packs/{}/", vault.id());
        verification::read_in_turn(&mut verified, |pack| {
            pack_of_object(vault, &format!("{packs}{pack}")).is_none()
        });
        verification::name_more(&mut verified, now().as_secs());
        verification::points(&mut verified, part, lost, is_there, is_behind);
        (verified.points_owed, verified.points_place) = (false, None);
        if is_new && behind.is_some() {
            verification::owe_points(&mut verified);
        }
        (verified.looked_at, verified.looked_due) = (Some(now().as_secs()), due);
        if let Some(run) = &mut verified.runs.run {
            run.points = points.len() as u64;
        }
        tell(&self.with, &records.verified, &verified);
        self.keep(records, &verified)
    }

    /// Reads the journal from its first entry on, in pieces, as often as all packs are read, and what is damaged of it each time.
    fn journal(&self, vault: &mut Vault, session: &str, records: &mut Records) -> Result<()> {
        let verified = &records.verified;
        let is_due = verified.rounds > verified.journal_round || verified.journal_place > 0;
        let is_damaged = |known: &BackupDamage| entry_of_object(vault, &known.object).is_some();
        if !is_due && !verified.damage.iter().any(is_damaged) {
            return Ok(());
        }
        loop {
            interrupt::check()?;
            let place = records.verified.journal_place;
            self.with
                .ends
                .comes_to(format!("the journal is read, from behind entry {place} on"));
            let suspects = suspects(&records.verified);
            let (went, report) = piece(vault, session, |vault| {
                let mut report = Report::default();
                let went = read_journal(vault, place, in_pieces(&suspects), &mut report);
                Ok((went, report))
            })?;
            let mut verified = records.verified.clone();
            let found = found(&report);
            let read = place + 1..=went.place;
            // One that does not follow the entry before is not known to, either, where that one is not whole.
            let is_known = |entry: &u64| read.contains(entry) && !went.unlinked.contains(entry);
            let is_read = |object: &str| entry_of_object(vault, object).as_ref().is_some_and(is_known);
            verification::looked_again(&mut verified, is_read, &found);
            verification::add(&mut verified, &found, By::Look, now().as_secs());
            verified.journal_place = if went.is_end { 0 } else { went.place };
            if went.is_end {
                verified.journal_round = verified.rounds;
            }
            tell(&self.with, &records.verified, &verified);
            self.keep(records, &verified)?;
            if let Some(why) = went.failed {
                return self.fails_at(records, why);
            }
            if went.is_end {
                return Ok(());
            }
        }
    }

    fn keep(&self, records: &mut Records, verified: &BackupVerified) -> Result<()> {
        match self.note_surely(records, verified) {
            true => Ok(()),
            false => {
                self.with.ends.lose();
                Err(Failure::interrupted())
            }
        }
    }
}

/// Does something under a session, so that what it reads is not swept. Where that session was over before its end, what was done is worth nothing.
///
/// # Errors
/// The session was over, or the journal cannot be written; else what the reading came to.
pub(super) fn piece<T>(
    vault: &mut Vault,
    session: &str,
    reads: impl FnOnce(&Vault) -> std::result::Result<T, Damage>,
) -> Result<T> {
    let session = vault.begin(session).described()?;
    let read = reads(session.vault());
    // Also where the reading has failed: by what was swept, it may be.
    session.end_held().described()?;
    read.described()
}

/// How far it has come: another one where something was done.
fn come(verified: &BackupVerified) -> impl PartialEq + use<> {
    let read = verified.runs.run.as_ref().map(|run| run.read_bytes);
    let looked = (verified.again_due, verified.looked_at, verified.points_place);
    let journal = (verified.journal_round, verified.journal_place);
    (read, looked, journal, verified.damaged())
}

/// Objects of which it is known that they may not be read.
fn suspects(verified: &BackupVerified) -> BTreeSet<String> {
    let named = verified.damage.iter().map(|known| known.object.clone());
    let packs = verified.more_packs.iter();
    let packs = packs.map(|pack| format!("packs/{}/{pack}", verified.vault));
    named.chain(packs).chain(verified.unread.clone()).collect()
}

/// What begins now, until this thread is told to end, or for the time of a piece.
fn in_pieces(suspects: &BTreeSet<String>) -> Reading<'_> {
    Reading {
        suspects,
        ends: &interrupt::caught,
        until: Some(Instant::now() + PIECE),
    }
}

/// The packs that are named as damaged or missing, of those that the vault has still.
fn named_packs(vault: &Vault, verified: &BackupVerified) -> Vec<PackName> {
    let known = verified.damage.iter();
    known.filter_map(|known| pack_of_object(vault, &known.object)).collect()
}

/// What is damaged, by name.
fn found(report: &Report) -> Vec<Found> {
    let named = |error: &Damage| object_of(error).unwrap_or_else(|| (error.to_string(), error.to_string()));
    report.damage.iter().map(named).collect()
}

fn object_of(error: &Damage) -> Option<Found> {
    match error {
        Damage::Damaged { object, .. }
        | Damage::Missing { object }
        | Damage::NewerFormat { object, .. }
        | Damage::Store { object, .. } => Some((object.clone(), error.to_string())),
        _ => None,
    }
}

/// Has what is newly found in the node's log.
fn tell(with: &Attempt<'_>, before: &BackupVerified, now: &BackupVerified) {
    let is_new = |object: &str| !before.damage.iter().any(|known| known.object == object);
    for damage in now.damage.iter().filter(|damage| is_new(&damage.object)) {
        log::warn!(
            "verification by backup policy {}: repository {}: {}",
            with.policy,
            now.repository,
            damage.why
        );
    }
}
