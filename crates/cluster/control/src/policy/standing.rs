//! How policies are, for whoever asks: `amita status`, `amita snapshot-policy`, the metrics.

use super::runner::{LATE, MOST_BACK, unreadable_runs};
use super::schedule::Schedule;
use amita_types::map::{Policy, PolicyRuns};
use serde::Serialize;

/// A run that should have begun so long ago, or does not end for so long, is late: some minutes, so that a new leader has its time.
pub const TOO_LATE: u64 = 10 * LATE;

/// A policy, and what has become of it. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyStatus {
    /// What the operator wants.
    #[serde(flatten)]
    pub policy: Policy,
    /// The volume's name, where it is for one alone that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// What has become of it; none: no node that leads has seen it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<PolicyRuns>,
    /// When the next run is due; none: never, or it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<u64>,
    /// For how long a run that is due has not begun, or does not end, in seconds.
    pub late_s: u64,
    /// What is wrong with its record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl PolicyStatus {
    /// How it is now.
    #[must_use]
    pub fn of(policy: Policy, runs: Option<PolicyRuns>, volume: Option<String>, now: u64) -> PolicyStatus {
        let schedule = Schedule::parse(&policy.schedule, &policy.zone);
        let after = runs.as_ref().map_or(now, |runs| runs.after);
        let (next_at, late_s) = match &schedule {
            Ok(schedule) if !policy.paused => {
                let found = runs.clone().unwrap_or_default();
                (schedule.next_after(after), late(&found, schedule, now))
            }
            _ => (None, 0),
        };
        PolicyStatus {
            fault: schedule.err(),
            policy,
            volume,
            runs,
            next_at,
            late_s,
        }
    }

    /// What has become of it cannot be read: no run is due.
    #[must_use]
    pub fn unreadable(self, why: &dyn std::fmt::Display) -> PolicyStatus {
        PolicyStatus {
            fault: Some(unreadable_runs(&self.policy, why)),
            next_at: None,
            late_s: 0,
            ..self
        }
    }

    /// Did the last run fail of some volumes, and why?
    #[must_use]
    pub fn failing(&self) -> Option<(u64, &[String])> {
        let last = self.runs.as_ref()?.last.as_ref()?;
        (last.failed > 0).then_some((last.failed, last.why.as_slice()))
    }
}

/// For how long a run that is due has not begun, or does not end, in seconds.
#[must_use]
pub fn late(runs: &PolicyRuns, schedule: &Schedule, now: u64) -> u64 {
    // Nobody has begun to count, or the clocks do not agree.
    if runs.schedule.is_empty() || runs.schedule == "paused" || runs.after > now.saturating_add(MOST_BACK) {
        return 0;
    }
    let since = match &runs.run {
        Some(run) => Some(run.due),
        None => schedule.next_after(runs.after),
    };
    since.map_or(0, |since| now.saturating_sub(since))
}

#[cfg(test)]
mod tests;
