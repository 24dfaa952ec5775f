//! Backups that are made by themselves: repositories, policies, and what has become of them.
//!
//! What an operator wants of a repository or a policy stands in one record, and what has become of a policy in another one, which the node writes
//! that is at its run. That one holds [`backup_runner_key`] on a lease: whoever notes something compares it.
//!
//! The key of a vault and an access key of S3 never stand here: a record has the paths of their files at the nodes.

use super::PREFIX;
use super::is_false;
use super::policy::{Keep, PolicyId, Target};
use super::verification::BackupVerify;
use serde::{Deserialize, Serialize};

/// The most repositories of a cluster.
pub const MAX_BACKUP_REPOSITORIES: usize = 64;
/// The most policies of backups of a cluster: each node looks at each.
pub const MAX_BACKUP_POLICIES: usize = 256;
/// The time limit of a run where nobody says otherwise, in seconds: a day.
pub const DEFAULT_BACKUP_LIMIT_S: u64 = 86_400;

/// `/amita/backups/repositories/NAME`: where backups go, and by which files of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRepository {
    /// Its name in this cluster.
    pub name: String,
    /// A folder of the nodes, or `s3://BUCKET/PREFIX`.
    pub address: String,
    /// The vault, in 32 hexadecimal digits, where the repository has several that the key opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<String>,
    /// The path of the key file at the nodes.
    pub key_file: String,
    /// Where the bucket is served, where that is not AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_endpoint: Option<String>,
    /// The bucket's region; none: the one that S3 has where nobody names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_region: Option<String>,
    /// The path of the file with the access key at the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_credentials: Option<String>,
    /// The path of a file with further authorities at the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_ca: Option<String>,
    /// The names of the nodes that may work with it; none: all that have the key file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// At most so many bytes a second go to it and come from it, for each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
    /// What is put is locked for so many days, in a bucket with object lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_days: Option<u64>,
}

impl BackupRepository {
    /// May this node work with it, if it has the key file?
    #[must_use]
    pub fn is_for(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.iter().any(|name| name == node)
    }
}

/// `/amita/backups/policies/NAME`: what an operator wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupPolicy {
    /// Its number, of the same counter as those of snapshot policies: never given again.
    pub id: PolicyId,
    /// Its name.
    pub name: String,
    /// Which volumes it is for: by their numbers, or by a label.
    pub target: Target,
    /// The name of the repository.
    pub repository: String,
    /// When: five fields of cron, or six with seconds in front.
    pub schedule: String,
    /// The IANA name of the time zone in which the schedule is meant, and days begin.
    pub zone: String,
    /// Which of its points are kept.
    pub keep: Keep,
    /// All volumes of a run are one point, of one moment.
    #[serde(default, skip_serializing_if = "is_false")]
    pub together: bool,
    /// It does nothing at present.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// When it was made, or got another schedule, or went on, in seconds since 1970: from then on it is expected to run.
    #[serde(default)]
    pub since: u64,
    /// An attempt at a run ends after so many seconds.
    #[serde(default = "default_limit")]
    pub limit_s: u64,
    /// How often an operator has asked for a run beside the schedule.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u64,
    /// When its repository is verified; none: it is not, by this policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<BackupVerify>,
}

fn default_limit() -> u64 {
    DEFAULT_BACKUP_LIMIT_S
}

impl BackupPolicy {
    /// What the names of its points begin with, before a `/` and the time: name and number.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{}/{}", self.name, self.id.0)
    }
}

/// `/amita/backups/runs/POLICY_ID`: what has become of a policy; all times in seconds since 1970, by the clocks of the nodes that were at it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRuns {
    /// The schedule that `after` is of: another one begins to count when a node first sees it.
    pub schedule: String,
    /// All times up to this one are dealt with.
    pub after: u64,
    /// The run that is under way, or waits to be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<BackupRun>,
    /// The last one that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<BackupRun>,
    /// When the last run ended of which nothing failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded_at: Option<u64>,
    /// Runs that have ended.
    #[serde(default)]
    pub runs: u64,
    /// Runs of which something failed in the end.
    #[serde(default)]
    pub failures: u64,
    /// Times that have passed without a run.
    #[serde(default)]
    pub missed: u64,
    /// Points that were made.
    #[serde(default)]
    pub points: u64,
    /// Points that were given up, because no rule keeps them.
    #[serde(default)]
    pub forgotten: u64,
    /// Bytes that were read of volumes.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes of packs that went to the repository.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Points were given up, and what they alone needed is still to be looked for and removed: by whichever attempt comes to that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prune_owed: bool,
    /// When this record was written, by the clock of whoever did; 0: by a program that did not say so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub noted_at: u64,
    /// The name of the node that wrote it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub noted_by: String,
    /// Times up to this one may have been dealt with before they came, by a clock that was ahead: a point that is called by one of them may be
    /// older than that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub early: u64,
    /// What was asked for up to this is dealt with ([`BackupPolicy::asked`]).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u64,
}

/// One time of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRun {
    /// The time that the schedule says; it stands in the names of its points.
    pub due: u64,
    /// When it was begun.
    pub began: u64,
    /// The name of the node that is at it, or was last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// How often it was begun, or gone on with.
    #[serde(default)]
    pub attempts: u64,
    /// When that was last; 0: a program was at it that did not say so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt_began: u64,
    /// It has failed, and is tried again then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_at: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Volumes that are in a point of it.
    #[serde(default)]
    pub volumes: u64,
    /// Points that were made for it.
    #[serde(default)]
    pub points: u64,
    /// Points that were given up behind it.
    #[serde(default)]
    pub forgotten: u64,
    /// Bytes that were read of volumes, all attempts together.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes of packs that went to the repository, all attempts together.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Volumes of which no point could be made at the last attempt; at least 1 where something else failed.
    #[serde(default)]
    pub failed: u64,
    /// What, of the first of them, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// What else is to be said of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The prefix of all that is about backups.
#[must_use]
pub fn backups_prefix() -> String {
    format!("{PREFIX}backups/")
}
/// The prefix of the repositories.
#[must_use]
pub fn backup_repositories_prefix() -> String {
    format!("{}repositories/", backups_prefix())
}
/// The key of a repository.
#[must_use]
pub fn backup_repository_key(name: &str) -> String {
    format!("{}{name}", backup_repositories_prefix())
}
/// The prefix of the policies of backups.
#[must_use]
pub fn backup_policies_prefix() -> String {
    format!("{}policies/", backups_prefix())
}
/// The key of a policy of backups.
#[must_use]
pub fn backup_policy_key(name: &str) -> String {
    format!("{}{name}", backup_policies_prefix())
}
/// The prefix of what has become of policies of backups.
#[must_use]
pub fn backup_runs_prefix() -> String {
    format!("{}runs/", backups_prefix())
}
/// The key of what has become of a policy of backups.
#[must_use]
pub fn backup_runs_key(policy: PolicyId) -> String {
    format!("{}{}", backup_runs_prefix(), policy.0)
}
/// The key that a node holds, on a lease, while it is at a policy of backups: its name.
#[must_use]
pub fn backup_runner_key(policy: PolicyId) -> String {
    format!("{}by/{}", backups_prefix(), policy.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_other_versions_are_read() {
        let policy: BackupPolicy = serde_json::from_str(
            r#"{"id":3,"name":"n","target":{"volume":7},"repository":"r","schedule":"@daily","zone":"UTC","keep":{"last":2},"later":1}"#,
        )
        .unwrap();
        assert_eq!((policy.limit_s, policy.together), (DEFAULT_BACKUP_LIMIT_S, false));
        assert_eq!(policy.mark(), "n/3");
        let repository: BackupRepository =
            serde_json::from_str(r#"{"name":"r","address":"/b","key_file":"/k"}"#).unwrap();
        assert!(repository.is_for("any"));
        let runs: BackupRuns =
            serde_json::from_str(r#"{"schedule":"@daily in UTC","after":5,"run":{"due":5,"began":6}}"#).unwrap();
        assert!(!runs.prune_owed);
        assert_eq!((runs.noted_at, runs.noted_by.as_str(), runs.early), (0, "", 0));
        let written = serde_json::to_string(&runs).unwrap();
        assert!(!written.contains("noted") && !written.contains("early") && !written.contains("attempt_began"));
        assert_eq!(runs.run.map(|run| (run.due, run.attempts)), Some((5, 0)));
    }
}
