//! Verification of repositories by policies of backups: what is wanted, and what has become of it.
//!
//! A verification is a run of its own schedule, at its own key: it holds up no backup of its policy. What it comes to stands in a record of its
//! own, which a program that knows none of this leaves alone.

use super::backup::{BackupPolicy, BackupRuns, backups_prefix};
use super::policy::{Keep, PolicyId, Target};
use serde::{Deserialize, Serialize};

/// From this version of a cluster on policies verify their repositories: a program of before that changes a policy would write it without what is said of that, and one that
/// deletes it would leave what was found.
pub const VERIFY_SINCE: u32 = 6;
/// How much of a repository a verification reads where nobody says otherwise, in percent of its bytes.
pub const DEFAULT_VERIFY_PERCENT: u32 = 5;
/// Damaged objects that are named in a record; further ones are counted.
pub const MAX_DAMAGE: usize = 128;
/// Further damaged packs that a record knows by their bare names, so that points that need them are told of; those beside these are counted.
pub const MAX_MORE_PACKS: usize = 2048;
/// Points that are not whole and are named in a record; further ones are counted.
pub const MAX_POINTS_LOST: usize = 64;

/// When the repository of a policy is verified, and how much of it each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupVerify {
    /// When: five fields of cron, or six with seconds in front, in the policy's time zone.
    pub schedule: String,
    /// So many percent of its bytes are read each time, 1 to 100: those behind what was read the time before.
    pub percent: u32,
    /// When it was set, or its schedule was, in seconds since 1970.
    #[serde(default)]
    pub since: u64,
    /// When how much is read was changed, in seconds since 1970; 0: it never was.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub percent_since: u64,
    /// How often an operator has asked for one beside the schedule.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub asked: u64,
}

impl BackupPolicy {
    /// What is said of its backups alone: what is said of verification is nothing to whoever makes them.
    #[must_use]
    pub fn backing_up(self) -> BackupPolicy {
        BackupPolicy { verify: None, ..self }
    }

    /// Its verification, as if it were a policy of its own: what is due, late and tried again follows as that of backups does. None: its repository
    /// is not verified by it.
    ///
    /// What is said of backups alone is nothing to whoever verifies: it is the same whatever that is.
    #[must_use]
    pub fn verification(&self) -> Option<BackupPolicy> {
        let verify = self.verify.as_ref()?;
        Some(BackupPolicy {
            target: Target::Volumes(Vec::new()),
            schedule: verify.schedule.clone(),
            keep: Keep::default(),
            together: false,
            since: verify.since.max(self.since),
            asked: verify.asked,
            ..self.clone()
        })
    }
}

/// `/amita/backups/verified/POLICY_ID`: what has become of a policy's verifications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupVerified {
    /// Its runs: bytes that were read are those of packs, points those whose trees were read; nothing is sent, made or given up.
    pub runs: BackupRuns,
    /// The name of the repository of which the rest speaks.
    #[serde(default)]
    pub repository: String,
    /// Its vault.
    #[serde(default)]
    pub vault: String,
    /// The pack behind which the next one goes on; none: it begins at the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The last pack of the round that is under way, as it was when that was begun: later ones are the next round's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_end: Option<String>,
    /// So often all packs have been read, one after the other.
    #[serde(default)]
    pub rounds: u64,
    /// So often they had been when the journal was read from its first entry on, to its end.
    #[serde(default)]
    pub journal_round: u64,
    /// The entry of the journal behind which it goes on with that; 0: it begins with the first one.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub journal_place: u64,
    /// For when the run was due that is under way, and in which all that was known as damaged was read again; none: that is still to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_due: Option<u64>,
    /// Likewise where the keys, all packs' lengths and all points' trees were looked at in it, or were begun to be, where a time limit has ended that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_due: Option<u64>,
    /// When they were; none: they never were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<u64>,
    /// The point behind which a look goes on that was ended before its end; none: it begins with the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points_place: Option<u64>,
    /// So many points it has found by then that are not whole.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub points_found: u64,
    /// Something else has been known as damaged, or as whole, since: points are to be looked at once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub points_owed: bool,
    /// When the round that is under way was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_since: Option<u64>,
    /// Packs that it has passed, and that could not be read, or are missing.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub round_unread: u64,
    /// When the last round was begun that has ended: all that was there then has been read since, but for so many packs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_since: Option<u64>,
    /// These.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub whole_unread: u64,
    /// Packs that were read.
    #[serde(default)]
    pub packs: u64,
    /// Objects that were found damaged or missing, and not found whole since: those that are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<BackupDamage>,
    /// Further packs, by the last parts of their names, until they were found whole when they had their turn, or are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_packs: Vec<String>,
    /// Further ones that are only counted: as many as the last round, or the one that is under way, has come upon.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub more_damage: u64,
    /// Of these those that the round that is under way has come upon so far.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub more_found: u64,
    /// The object that the last attempt could not read: where the next one cannot either, and others can be, it is damage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Points that were not whole when their trees were read last: those that are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points_lost: Vec<BackupPointLost>,
    /// Further ones.
    #[serde(default, skip_serializing_if = "super::backup::is_zero")]
    pub more_points: u64,
}

impl BackupVerified {
    /// Objects that are damaged or missing, as far as is known.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        let named = self.damage.len().saturating_add(self.more_packs.len());
        (named as u64).saturating_add(self.more_damage)
    }

    /// Points that are not whole, as far as is known.
    #[must_use]
    pub fn lost(&self) -> u64 {
        (self.points_lost.len() as u64).saturating_add(self.more_points)
    }
}

/// An object of a repository that is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupDamage {
    /// Its name in the repository.
    pub object: String,
    /// What is wrong with it, in a sentence that names it.
    pub why: String,
    /// When it was found first, in seconds since 1970.
    pub found: u64,
}

/// A point that is not whole: a restore of it ends with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupPointLost {
    /// Its number.
    pub point: u64,
    /// Its name.
    pub name: String,
    /// The first thing that it lacks, in a sentence.
    pub why: String,
}

/// The prefix of what has become of verifications.
#[must_use]
pub fn backup_verified_prefix() -> String {
    format!("{}verified/", backups_prefix())
}
/// The key of what has become of a policy's verifications.
#[must_use]
pub fn backup_verified_key(policy: PolicyId) -> String {
    format!("{}{}", backup_verified_prefix(), policy.0)
}
/// The key that a node holds, on a lease, while it verifies for a policy: its name.
#[must_use]
pub fn backup_verifier_key(policy: PolicyId) -> String {
    format!("{}verifying/{}", backups_prefix(), policy.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_kind_of_runs_is_nothing_to_the_other() {
        let with = |more: &str| -> BackupPolicy {
            let text = format!(
                r#"{{"id":3,"name":"n","target":{{"volume":7}},"repository":"r","schedule":"@daily","zone":"UTC","keep":{{"last":2}},"since":5{more}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let plain = with("");
        assert_eq!((plain.verify.clone(), plain.verification()), (None, None));
        let text = r#","verify":{"schedule":"@weekly","percent":7,"since":9,"asked":2}"#;
        let verified = with(text);
        assert_eq!(verified.clone().backing_up(), plain);
        let derived = verified.verification().unwrap();
        assert_eq!(
            (derived.schedule.as_str(), derived.asked, derived.since),
            ("@weekly", 2, 9)
        );
        let asked = BackupPolicy {
            asked: 9,
            together: true,
            schedule: "@hourly".to_owned(),
            ..verified.clone()
        };
        assert_eq!(asked.verification(), Some(derived));
        let written = serde_json::to_string(&plain).unwrap();
        assert!(!written.contains("verify"), "{written}");
    }

    #[test]
    fn a_record_that_says_little_is_read() {
        let found: BackupVerified = serde_json::from_str(r#"{"runs":{"schedule":"@daily in UTC","after":5}}"#).unwrap();
        assert_eq!((found.damaged(), found.lost(), found.rounds), (0, 0, 0));
    }
}
