//! Verifications by policies of backups: what an operator says of them, and what nodes note.

use super::super::subsystem::{put, unchanged};
use super::super::{Result, get};
use super::policy::{Asked, ask, bad};
use crate::policy::schedule::Schedule;
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{
    self, BackupPolicy, BackupVerified, BackupVerify, DEFAULT_VERIFY_PERCENT, PolicyId, VERIFY_SINCE,
};
use std::time::Duration;

/// What an operator wants of a policy's verification; none: as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyChange {
    /// When.
    pub schedule: Option<String>,
    /// How much is read each time, in percent.
    pub percent: Option<u32>,
    /// It is verified no more.
    pub is_off: bool,
}

impl VerifyChange {
    /// What it is then, where it was that. `now`: since 1970.
    ///
    /// # Errors
    /// It cannot be.
    pub(super) fn of(
        &self,
        before: Option<BackupVerify>,
        now: Duration,
    ) -> std::result::Result<Option<BackupVerify>, String> {
        let said = self.schedule.is_some() || self.percent.is_some();
        if self.is_off {
            return match said {
                true => Err("it is to be verified, and not to be".to_owned()),
                false => Ok(None),
            };
        }
        let mut verify = match (before, &self.schedule) {
            (before, _) if !said => return Ok(before),
            (Some(before), _) => before,
            (None, Some(schedule)) => BackupVerify {
                schedule: schedule.clone(),
                percent: DEFAULT_VERIFY_PERCENT,
                since: now.as_secs(),
                percent_since: 0,
                asked: 0,
            },
            (None, None) => {
                return Err(
                    "how much of it is verified can be said where it is said when: give a schedule, too".to_owned(),
                );
            }
        };
        if let Some(schedule) = self.schedule.as_ref().filter(|schedule| **schedule != verify.schedule) {
            schedule.clone_into(&mut verify.schedule);
            verify.since = now.as_secs();
        }
        if let Some(percent) = self.percent.filter(|percent| *percent != verify.percent) {
            (verify.percent, verify.percent_since) = (percent, now.as_secs());
        }
        Ok(Some(verify))
    }
}

/// Can it be?
pub(super) fn check(verify: &BackupVerify, zone: &str) -> std::result::Result<(), String> {
    Schedule::check(&verify.schedule, zone)?;
    match verify.percent {
        1..=100 => Ok(()),
        percent => Err(format!("{percent} % of the repository; 1 to 100 can be read each time")),
    }
}

/// May policies of a cluster of this version say that they verify?
pub(super) fn check_version(version: u32) -> std::result::Result<(), String> {
    match version < VERIFY_SINCE {
        false => Ok(()),
        true => Err(format!(
            "the cluster's version is {version}, and verification by policies needs {VERIFY_SINCE}: a program of before would write the policy without it. When all programs know \
             it, `amita cluster finalize` raises the version"
        )),
    }
}

/// What becomes of a policy's verification by a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Stays,
    Begins,
    /// It goes on after a pause.
    Resumes,
    /// An operator has said so: a record that says otherwise is of a policy that another program has written without it.
    Ends,
}

impl Turn {
    /// Of a policy that is so now; before it `verified`, or not, and was `paused`.
    pub(super) fn of(change: &VerifyChange, verified: bool, paused: bool, policy: &BackupPolicy) -> Turn {
        match policy.verify.is_some() {
            _ if change.is_off => Turn::Ends,
            true if !verified => Turn::Begins,
            true if paused && !policy.paused => Turn::Resumes,
            _ => Turn::Stays,
        }
    }
}

/// What is noted of a policy's verifications when it is changed. Where it begins to verify, and did so before, times count from when a node sees that: those that have passed
/// meanwhile are not missed, and a run that was under way then has not failed. A failure of before is none of what begins or goes on. `forgets`: what nobody can read begins
/// anew.
pub(super) fn note_change(
    meta: &dyn Transact,
    policy: PolicyId,
    turn: Turn,
    forgets: bool,
    call: &mut Call,
) -> Result<()> {
    if turn == Turn::Stays && !forgets {
        return Ok(());
    }
    let key = map::backup_verified_key(policy);
    let reply = meta.txn(&Call::get(key.as_str()))?;
    let Some(found) = reply.value(0) else {
        call.compares.push(unchanged(&key, 0));
        return Ok(());
    };
    let noted = match found.json::<BackupVerified>() {
        Err(_) if forgets => Op::Delete { key: key.clone() },
        Ok(mut verified) if turn != Turn::Stays => {
            let runs = &mut verified.runs;
            if turn != Turn::Resumes {
                runs.schedule.clear();
                runs.run = None;
            }
            runs.last = runs.last.take().filter(|last| last.failed == 0);
            put(key.clone(), &verified)
        }
        _ => return Ok(()),
    };
    call.compares.push(unchanged(&key, found.mod_revision));
    call.then.push(noted);
    Ok(())
}

/// Asks for a verification now, beside its schedule: the next node that may makes it.
///
/// # Errors
/// There is no policy of that name; it is paused, or verifies nothing; a node is at it; the metadata is away or refuses.
pub fn verify_backup_policy(meta: &dyn Transact, name: &str) -> Result<BackupPolicy> {
    ask(meta, name, |policy| {
        let (id, Some(verify)) = (policy.id, &mut policy.verify) else {
            let why = format!(
                "its repository is not verified by it; `amita backup policy set {name} --verify PATTERN` has it so"
            );
            return Err(bad(name, why));
        };
        let found = get::<BackupVerified>(meta, &map::backup_verified_key(id)).unwrap_or_default();
        Ok(Asked {
            runner: map::backup_verifier_key(id),
            dealt_with: found.map_or(0, |(found, _)| found.runs.asked),
            count: &mut verify.asked,
        })
    })
}

/// Writes what has become of a policy's verifications, if `claim` holds the key of these still, the policy is there, made by the transaction of revision `made`,
/// and nobody else has written that since `revision`; 0: nobody ever has, and the policy is as it was `seen`, by its revision. The record's revision then; none: one of
/// these is not so.
///
/// # Errors
/// The metadata is away or refuses.
pub fn note_backup_verified(
    meta: &dyn Transact,
    policy: &BackupPolicy,
    (made, seen): (u64, u64),
    claim: u64,
    revision: u64,
    verified: &BackupVerified,
) -> Result<Option<u64>> {
    let key = map::backup_verified_key(policy.id);
    let mut call = Call {
        compares: vec![
            unchanged(&map::backup_verifier_key(policy.id), claim),
            unchanged(&key, revision),
            Compare::CreateRevision {
                key: map::backup_policy_key(&policy.name),
                equals: made,
            },
        ],
        then: vec![put(key, verified)],
        otherwise: Vec::new(),
    };
    // Whoever has it verify no more changes the record, where there is one.
    if revision == 0 {
        call.compares
            .push(unchanged(&map::backup_policy_key(&policy.name), seen));
    }
    let reply = meta.txn(&call)?;
    Ok(reply.succeeded.then_some(reply.revision))
}
