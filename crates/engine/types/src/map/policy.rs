//! Policies: of which volumes snapshots are taken by themselves, when, and which of them are kept.
//!
//! What an operator wants stands in one record, and what has become of it in another one, which the node that leads writes. So
//! neither overwrites the other, and a node that leads next goes on from where the last one was.

use super::PREFIX;
use super::is_false;
use crate::id::{SetId, VolumeId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most policies of a cluster: each is looked at every second.
pub const MAX_POLICIES: usize = 256;
/// The most that a rule of a policy may keep.
pub const MAX_KEPT: u32 = 16_384;
/// The label by which a snapshot says which policy has made it. Operators cannot give one that begins so.
pub const POLICY_LABEL: &str = "amita:policy";
/// What labels begin with that only Amita itself gives.
pub const OWN_LABELS: &str = "amita:";
/// What a policy calls its snapshots where nobody says otherwise.
pub const DEFAULT_TEMPLATE: &str = "{policy}-{time}";
/// The time zone where nobody says otherwise.
pub const DEFAULT_ZONE: &str = "UTC";
/// The most bytes of a policy's name, so that its snapshots' names have room for the time.
pub const MAX_POLICY_NAME: usize = 64;

/// The number of a policy: never given again, so that one of the same name does not take what another one has made for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PolicyId(pub u64);

/// `/amita/policies/NAME`: what an operator wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Its number.
    pub id: PolicyId,
    /// Its name.
    pub name: String,
    /// Which volumes it is for.
    pub target: Target,
    /// When: five fields of cron, or six with seconds in front.
    pub schedule: String,
    /// The IANA name of the time zone in which the schedule is meant, and days begin.
    pub zone: String,
    /// What the snapshots are called: `{policy}` and `{time}` are replaced.
    pub template: String,
    /// Which are kept.
    pub keep: Keep,
    /// The snapshots of a run are of one moment: it takes a set ([`super::SnapshotSet`]) of all its volumes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub together: bool,
    /// It does nothing at present.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
}

impl Policy {
    /// What its snapshots have as the value of [`POLICY_LABEL`].
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{}/{}", self.name, self.id.0)
    }
}

/// Which volumes a policy is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// One, by its number: it stays the same when it is renamed.
    Volume(VolumeId),
    /// Several, by their numbers: at most [`super::MAX_SET_VOLUMES`].
    Volumes(Vec<VolumeId>),
    /// All that have this label.
    Label {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
    },
    /// All of a pool.
    Pool(String),
}

/// Which of a policy's snapshots of a volume are kept: all for which one of the rules speaks. A rule of 0 speaks for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Rules")]
pub struct Keep {
    /// So many of the newest.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last: u32,
    /// The newest of each of so many hours.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hourly: u32,
    /// The newest of each of so many days.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub daily: u32,
    /// The newest of each of so many weeks, which begin on Mondays.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weekly: u32,
    /// The newest of each of so many months.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub monthly: u32,
    /// The newest of each of so many years.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub yearly: u32,
    /// The record has a rule that this program does not know: what that one keeps is not known either.
    #[serde(skip)]
    pub has_others: bool,
}

/// The rules of a record, those included that only another program knows.
#[derive(Deserialize)]
struct Rules {
    #[serde(default)]
    last: u32,
    #[serde(default)]
    hourly: u32,
    #[serde(default)]
    daily: u32,
    #[serde(default)]
    weekly: u32,
    #[serde(default)]
    monthly: u32,
    #[serde(default)]
    yearly: u32,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

impl From<Rules> for Keep {
    fn from(rules: Rules) -> Keep {
        let Rules {
            last,
            hourly,
            daily,
            weekly,
            monthly,
            yearly,
            others,
        } = rules;
        Keep {
            last,
            hourly,
            daily,
            weekly,
            monthly,
            yearly,
            has_others: !others.is_empty(),
        }
    }
}

impl Keep {
    /// The names of the rules, and how many each keeps.
    #[must_use]
    pub fn rules(&self) -> [(&'static str, u32); 6] {
        [
            ("last", self.last),
            ("hourly", self.hourly),
            ("daily", self.daily),
            ("weekly", self.weekly),
            ("monthly", self.monthly),
            ("yearly", self.yearly),
        ]
    }

    /// Can it be?
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        if self.has_others {
            return Err(
                "its record has a rule that this program does not know; use the program that has set it, or put the record right".to_owned(),
            );
        }
        if self.rules().iter().all(|(_, count)| *count == 0) {
            return Err(
                "it would keep nothing; say how many are to be kept: --keep-last, --keep-daily, ...".to_owned(),
            );
        }
        match self.rules().into_iter().find(|(_, count)| *count > MAX_KEPT) {
            Some((rule, count)) => Err(format!("--keep-{rule} {count}; {MAX_KEPT} are the most")),
            None => Ok(()),
        }
    }
}

/// `/amita/policy-runs/POLICY_ID`: what has become of a policy; all times in seconds since 1970, by the clock of the node that led.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRuns {
    /// The schedule that `after` is of: another one begins to count when a node that leads first sees it.
    pub schedule: String,
    /// All times up to this one are dealt with.
    pub after: u64,
    /// The run that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// The last one that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Run>,
    /// Runs that have ended.
    #[serde(default)]
    pub runs: u64,
    /// Snapshots that were taken.
    #[serde(default)]
    pub taken: u64,
    /// Those that were deleted.
    #[serde(default)]
    pub deleted: u64,
    /// Volumes of which none could be taken, or of which some could not be deleted, run by run.
    #[serde(default)]
    pub failures: u64,
    /// Sets that were taken.
    #[serde(default, skip_serializing_if = "is_none")]
    pub sets: u64,
    /// Sets that were asked for, and have come to nothing.
    #[serde(default, skip_serializing_if = "is_none")]
    pub sets_void: u64,
    /// Times that have passed without a run.
    #[serde(default)]
    pub missed: u64,
    /// Of them, those that no event has told of yet.
    #[serde(default)]
    pub untold: u64,
    /// When an event told of missed times last.
    #[serde(default)]
    pub told_missed: u64,
    /// When an event told of failures last, since everything went well last; 0: it does.
    #[serde(default)]
    pub told_failing: u64,
    /// When an event told of failures last, whatever has come since.
    #[serde(default)]
    pub told_fails: u64,
    /// When an event told last that everything goes well again.
    #[serde(default)]
    pub told_works: u64,
}

/// One time of a policy, and its volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The time that the schedule says.
    pub due: u64,
    /// When it was begun.
    pub began: u64,
    /// What its snapshots are called: as the policy said when it was begun, so that they are found again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// Its snapshots are of one moment: as the policy said when it was begun.
    #[serde(default, skip_serializing_if = "is_false")]
    pub together: bool,
    /// What has become of its set, where it takes one. Written before any of its volumes is dealt with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<RunSet>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// All volumes up to this number are dealt with: what is counted here is of them.
    #[serde(default)]
    pub cursor: u64,
    /// Volumes of which a snapshot was taken.
    #[serde(default)]
    pub taken: u64,
    /// Snapshots that were deleted.
    #[serde(default)]
    pub deleted: u64,
    /// Those that no rule keeps, and that are left because they are protected or clones need them.
    #[serde(default)]
    pub left: u64,
    /// Volumes that have gone meanwhile.
    #[serde(default)]
    pub gone: u64,
    /// Volumes of which something failed.
    #[serde(default)]
    pub failed: u64,
    /// What, of the first of them, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// Why some were left, of the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What has become of the set of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSet {
    /// Its number; none: none was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SetId>,
    /// The volumes that it is of, or should have been of.
    #[serde(default)]
    pub volumes: u64,
    /// How many were asked for before, or in its place, that have come to nothing.
    #[serde(default)]
    pub void: u64,
    /// Why there is none, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// The prefix of all policies.
#[must_use]
pub fn policies_prefix() -> String {
    format!("{PREFIX}policies/")
}
/// The key of a policy.
#[must_use]
pub fn policy_key(name: &str) -> String {
    format!("{}{name}", policies_prefix())
}
/// The prefix of what has become of policies.
#[must_use]
pub fn policy_runs_prefix() -> String {
    format!("{PREFIX}policy-runs/")
}
/// The key of what has become of a policy.
#[must_use]
pub fn policy_runs_key(policy: PolicyId) -> String {
    format!("{}{}", policy_runs_prefix(), policy.0)
}
