//! What a node looks for: backups that are due, or verifications.

use amita_metadata::KeyValue;
use amita_types::map::{self, BackupPolicy, BackupRuns, BackupVerified, PolicyId};

/// Which of the two kinds of runs that policies have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Volumes are backed up.
    Backup,
    /// The repository is verified.
    Verification,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Backup, Kind::Verification];

    /// Runs that a node is at, at one time: each takes the memory of its vault's index, and a backup that of a gateway.
    pub fn most(self) -> usize {
        match self {
            Kind::Backup => 2,
            Kind::Verification => 1,
        }
    }

    /// A policy as it is to runs of this kind; none: it has none.
    pub fn sees(self, policy: BackupPolicy) -> Option<BackupPolicy> {
        match self {
            Kind::Backup => Some(policy.backing_up()),
            Kind::Verification => policy.verification(),
        }
    }

    /// The key of what has become of them.
    pub fn runs_key(self, policy: PolicyId) -> String {
        match self {
            Kind::Backup => map::backup_runs_key(policy),
            Kind::Verification => map::backup_verified_key(policy),
        }
    }

    /// The key that whoever is at one holds.
    pub fn runner_key(self, policy: PolicyId) -> String {
        match self {
            Kind::Backup => map::backup_runner_key(policy),
            Kind::Verification => map::backup_verifier_key(policy),
        }
    }

    /// What has become of them; none: nobody can read it.
    pub fn runs(self, found: &KeyValue) -> Option<BackupRuns> {
        match self {
            Kind::Backup => found.json().ok(),
            Kind::Verification => found.json::<BackupVerified>().ok().map(|verified| verified.runs),
        }
    }

    /// Is it a record of runs of the other kind alone, or of tasks?
    pub fn is_of_other(self, key: &str) -> bool {
        let own = |kind: Kind| match kind {
            Kind::Backup => ["runs/", "by/"],
            Kind::Verification => ["verified/", "verifying/"],
        };
        let other = match self {
            Kind::Backup => Kind::Verification,
            Kind::Verification => Kind::Backup,
        };
        let path = key.strip_prefix(&map::backups_prefix()).unwrap_or_default();
        path.starts_with("tasks/") || own(other).iter().any(|prefix| path.starts_with(prefix))
    }

    /// The name of the thread that looks for them.
    pub fn thread(self) -> &'static str {
        match self {
            Kind::Backup => "amita-backups",
            Kind::Verification => "amita-verifies",
        }
    }

    /// The name of the thread that makes one.
    pub fn attempt_thread(self) -> &'static str {
        match self {
            Kind::Backup => "amita-backup",
            Kind::Verification => "amita-verify",
        }
    }

    /// What it does, for the log.
    pub fn what(self) -> &'static str {
        match self {
            Kind::Backup => "backs up by policies",
            Kind::Verification => "verifies by policies",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Kind::Backup => "backups",
            Kind::Verification => "verifications",
        }
    }

    /// A policy's, for the log.
    pub fn named(self, policy: &str) -> String {
        match self {
            Kind::Backup => format!("backup policy {policy}"),
            Kind::Verification => format!("verification by backup policy {policy}"),
        }
    }
}
