//! Snapshots by policies, taken and deleted by the node that is coordinator.

use super::standing::Standing;
use super::{Config, Journal, Notice, Sink, Stop};
use crate::admin::AdminError;
use crate::events::Severity;
use crate::policy::runner::{Clock, IDLE, LOOK, Runner};
use crate::policy::standing::late;
use amita_metadata::Client;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What has become of a policy, as the metrics tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyReport {
    /// Its name.
    pub name: String,
    /// Runs that have ended.
    pub runs: u64,
    /// Snapshots that were taken.
    pub taken: u64,
    /// Those that were deleted.
    pub deleted: u64,
    /// Sets that were taken.
    pub sets: u64,
    /// Those that were asked for, and have come to nothing.
    pub sets_void: u64,
    /// Volumes of which something failed, run by run.
    pub failures: u64,
    /// Times that have passed without a run.
    pub missed: u64,
    /// Volumes of which something failed in the last run.
    pub failing: u64,
    /// For how long a run that is due has not begun, or does not end, in seconds.
    pub late_s: u64,
    /// When the last run ended, in seconds since 1970.
    pub ended_at: Option<u64>,
}

/// What has become of the policies: told by the node that leads, and by no other. A handle; its clones are one.
#[derive(Clone, Default)]
pub struct Policies(Arc<Mutex<Vec<PolicyReport>>>);

impl Policies {
    /// Of each, in order of their numbers.
    #[must_use]
    pub fn reports(&self) -> Vec<PolicyReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, reports: Vec<PolicyReport>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reports;
    }
}

/// Runs until stopped.
pub(super) fn run(
    client: &Client,
    config: &Config,
    sink: &Sink,
    stop: &Stop,
    standing: &Standing,
    journal: &Journal,
    policies: &Policies,
) {
    let begun = Instant::now();
    let mut runner = Runner::default();
    let mut warned = None;
    let mut pause = LOOK;
    while !stop.wait(pause) {
        if !journal.leads() || standing.allow().is_err() {
            runner.forget();
            policies.set(Vec::new());
            pause = LOOK;
            continue;
        }
        let clock = Clock {
            wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            steady: begun.elapsed(),
        };
        match runner.step(client, Some(config.node), clock) {
            Ok(()) => (warned, pause) = (None, runner.pause()),
            // The metadata is away, which others say; or somebody has changed something in between.
            Err(AdminError::Metadata(
                amita_metadata::Error::Unavailable { .. } | amita_metadata::Error::Unknown { .. },
            )) => pause = LOOK,
            Err(AdminError::Suspected { .. } | AdminError::TooManyRaces { .. }) => pause = LOOK,
            Err(why) => {
                let why = why.to_string();
                if warned.as_ref() != Some(&why) {
                    sink(Notice::Warn(format!(
                        "policies of snapshots cannot be carried out: {why}"
                    )));
                    warned = Some(why);
                }
                pause = IDLE;
            }
        }
        for draft in runner.told() {
            sink(match draft.kind.severity() {
                Severity::Info => Notice::Info(draft.text.clone()),
                Severity::Warning | Severity::Error => Notice::Warn(draft.text.clone()),
            });
            journal.tell(draft);
        }
        policies.set(reports(&runner, clock.wall.as_secs()));
    }
}

fn reports(runner: &Runner, now: u64) -> Vec<PolicyReport> {
    let each = runner.each().map(|(policy, runs, schedule)| PolicyReport {
        name: policy.name.clone(),
        runs: runs.runs,
        taken: runs.taken,
        deleted: runs.deleted,
        sets: runs.sets,
        sets_void: runs.sets_void,
        failures: runs.failures,
        missed: runs.missed,
        failing: runs.last.as_ref().map_or(0, |last| last.failed),
        late_s: schedule
            .filter(|_| !policy.paused)
            .map_or(0, |schedule| late(runs, schedule, now)),
        ended_at: runs.last.as_ref().and_then(|last| last.ended),
    });
    each.collect()
}
