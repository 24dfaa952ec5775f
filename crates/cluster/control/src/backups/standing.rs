//! How policies of backups are, for whoever asks: `amita status`, `amita backup policy`, the API, the metrics.

use super::{lost_verify, plan, unreadable_runs, unreadable_verified};
use crate::policy::runner::MOST_BACK;
use crate::policy::schedule::Schedule;
use amita_types::map::{BackupPolicy, BackupRuns, BackupVerified};
use serde::Serialize;

/// A run that should have begun so long ago, in seconds, or should have ended by its limit, is late.
pub const TOO_LATE: u64 = 900;
/// A run that has failed so many times is told of, though it is tried again.
const FAILING: u64 = 3;
const DAY_S: u64 = 86_400;
/// A verification that should have begun so long ago, in seconds, is overdue: a node is at one at a time, and others wait for it.
pub const VERIFICATION_TOO_LATE: u64 = DAY_S;

/// A policy of backups, and what has become of it. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackupStatus {
    /// What the operator wants.
    #[serde(flatten)]
    pub policy: BackupPolicy,
    /// The volume's name, where it is for one alone that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// What has become of it; none: no node that may work with its repository has seen it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<BackupRuns>,
    /// The node that is at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// When the next run is due; none: never, or it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<u64>,
    /// For how long a run that is due has not begun, is not gone on with, or does not end within its limit, in seconds.
    pub late_s: u64,
    /// What is wrong with its record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How clocks of nodes that were at it do not agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// How its verification is; none: its repository is not verified by it, and never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

/// How the verification of a policy's repository is. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// What has become of it; none: no node that may work with the repository has seen it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<BackupVerified>,
    /// The node that is at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// When the next one is due; none: never, or it is paused, or taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<u64>,
    /// For how long one that is due has not begun, is not gone on with, or does not end within its limit, in seconds.
    pub late_s: u64,
    /// For how long a round goes on that was to have ended, in seconds; 0: it is in time.
    pub slow_s: u64,
    /// Why it cannot be made, as the last one or the last attempts of the one that is tried again say; what is damaged is no such reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
    /// What is wrong with its record, or with what the policy says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Verification {
    /// Is one so late that it is told, or does it fail, or is not all read in time?
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.late_s > VERIFICATION_TOO_LATE || self.slow_s > 0 || self.failing.is_some() || self.fault.is_some()
    }

    /// Objects that are damaged or missing, as far as is known.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.record.as_ref().map_or(0, BackupVerified::damaged)
    }

    /// Points that are not whole, as far as is known.
    #[must_use]
    pub fn points_lost(&self) -> u64 {
        self.record.as_ref().map_or(0, BackupVerified::lost)
    }
}

impl BackupStatus {
    /// How it is now.
    #[must_use]
    pub fn of(
        policy: BackupPolicy,
        runs: Option<BackupRuns>,
        runner: Option<String>,
        volume: Option<String>,
        now: u64,
    ) -> BackupStatus {
        let schedule = Schedule::parse(&policy.schedule, &policy.zone);
        let counted = runs.as_ref().filter(|runs| runs.schedule == plan::counted(&policy));
        let (next_at, late_s) = match &schedule {
            Ok(schedule) if !policy.paused => {
                let after = counted.map_or(policy.since, |runs| runs.after);
                let late = late_s(&policy, counted, runner.is_some(), schedule, now);
                (schedule.next_after(after), late)
            }
            _ => (None, 0),
        };
        BackupStatus {
            fault: schedule.err(),
            clock: runs.as_ref().and_then(|runs| clock(runs, now)),
            policy,
            volume,
            runs,
            runner,
            next_at,
            late_s,
            verification: None,
        }
    }

    /// And so is its verification. What was found stays where it is verified no more. `record`: an error where nobody can read it.
    #[must_use]
    pub fn verified(
        mut self,
        record: Result<Option<BackupVerified>, String>,
        runner: Option<String>,
        now: u64,
    ) -> BackupStatus {
        let derived = self.policy.verification();
        let (record, fault) = match record {
            Ok(record) => {
                // Whoever switches it off clears that.
                let is_lost =
                    derived.is_none() && record.as_ref().is_some_and(|record| !record.runs.schedule.is_empty());
                (record, is_lost.then(|| lost_verify(&self.policy)))
            }
            Err(why) => (None, Some(unreadable_verified(&self.policy, &why))),
        };
        if derived.is_none() && record.is_none() && fault.is_none() {
            return self;
        }
        let runs = record.as_ref().map(|record| record.runs.clone());
        self.verification = Some(match (derived, fault) {
            (Some(derived), None) => {
                let slow_s = record.as_ref().map_or(0, |record| slow_s(&derived, record, now));
                let found = BackupStatus::of(derived, runs, runner, None, now);
                let failing = found.failing();
                let why = failing.map(|(_, why)| why.first().cloned().unwrap_or_default());
                Verification {
                    failing: why.or(found.clock),
                    runner: found.runner,
                    next_at: found.next_at,
                    late_s: found.late_s,
                    slow_s,
                    fault: found.fault,
                    record,
                }
            }
            (_, fault) => Verification {
                record,
                runner,
                fault,
                ..Verification::default()
            },
        });
        self
    }

    /// What has become of it cannot be read: no run is due.
    #[must_use]
    pub fn unreadable(self, why: &dyn std::fmt::Display) -> BackupStatus {
        BackupStatus {
            fault: Some(unreadable_runs(&self.policy, why)),
            next_at: None,
            late_s: 0,
            ..self
        }
    }

    /// Did something fail at the last run that has ended, or at the last attempts of the one that is tried again? Of how many volumes, and why.
    ///
    /// One that is paused tries nothing, and fails at nothing.
    #[must_use]
    pub fn failing(&self) -> Option<(u64, &[String])> {
        if self.policy.paused {
            return None;
        }
        let runs = self.runs.as_ref()?;
        let tried = runs
            .run
            .as_ref()
            .filter(|run| run.attempts >= FAILING && run.failed > 0);
        let run = tried.or(runs.last.as_ref())?;
        (run.failed > 0).then_some((run.failed, run.why.as_slice()))
    }

    /// Is a run so late that it is told?
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.late_s > TOO_LATE
    }
}

/// For how long a run that is due has not begun, is not gone on with, or does not end within its limit, in seconds. `runs`: where a node has seen the
/// policy as it is; else times count from when it was made, or changed, and nobody may have seen that who could back up.
fn late_s(policy: &BackupPolicy, runs: Option<&BackupRuns>, is_at_it: bool, schedule: &Schedule, now: u64) -> u64 {
    let since = match runs {
        None => schedule.next_after(policy.since),
        // The clocks do not agree.
        Some(runs) if runs.after > now.saturating_add(MOST_BACK) => None,
        // Behind a run that is under way others may be due: they are missed, and counted as such.
        Some(runs) => match &runs.run {
            None => schedule.next_after(runs.after),
            // Each attempt has the limit.
            Some(run) if is_at_it => {
                let began = run.due.max(run.began).max(run.attempt_began);
                Some(began.saturating_add(policy.limit_s))
            }
            Some(run) => {
                // A word of a time that is still to come says nothing.
                let noted_at = if runs.noted_at <= now { runs.noted_at } else { 0 };
                let was_at_it = run.began.max(run.attempt_began).max(noted_at);
                Some(run.again_at.unwrap_or(was_at_it))
            }
        },
    };
    since.map_or(0, |since| now.saturating_sub(since))
}

/// For how long a round goes on that was to have ended, in seconds: since the schedule has come round twice as often as it takes where each time its share is read, from when it
/// was begun, or the schedule or the share was changed last. `policy`: as verifications see it.
fn slow_s(policy: &BackupPolicy, record: &BackupVerified, now: u64) -> u64 {
    let (Some(verify), Some(began)) = (&policy.verify, record.round_since) else {
        return 0;
    };
    // What is known of another repository says nothing of how this one is read.
    if policy.paused || record.repository != policy.repository {
        return 0;
    }
    let Ok(schedule) = Schedule::parse(&policy.schedule, &policy.zone) else {
        return 0;
    };
    let times = 2 * 100_u32.div_ceil(verify.percent.clamp(1, 100));
    let mut at = began.max(policy.since).max(verify.percent_since);
    for _ in 0..times {
        match schedule.next_after(at).filter(|next| *next <= now) {
            Some(next) => at = next,
            None => return 0,
        }
    }
    now.saturating_sub(at).max(1)
}

/// What a clock has done that is ahead of the one by which it is `now`, by more than those of nodes may differ.
fn clock(runs: &BackupRuns, now: u64) -> Option<String> {
    let ahead = runs.noted_at.saturating_sub(now);
    if ahead > MOST_BACK {
        let node = runs.noted_by.escape_debug();
        return Some(format!(
            "node {node} has noted what became of it by a clock that is {ahead} s ahead of this one's"
        ));
    }
    let ahead = runs.early.saturating_sub(now);
    // One that was ahead by more is not told of for all that time.
    (1..=DAY_S).contains(&ahead).then(|| {
        format!(
            "a node whose clock was ahead has dealt with times that are still to come, the last one in {ahead} s: that node's log says so"
        )
    })
}
