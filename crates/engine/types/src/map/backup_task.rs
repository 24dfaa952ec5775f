//! Tasks of backups: one backup, one restore, or one point that is given up, which somebody has asked for and nodes carry out.
//!
//! What is wanted stands in one record, by its name, and does not change but for being taken back. What has become of it stands in another one,
//! which the node writes that is at it, and how far it is in a third, which says nothing that anything is decided by. The node holds
//! [`backup_task_runner_key`] on a lease: whoever notes something compares it.

use super::backup::{backups_prefix, is_zero};
use super::is_false;
use crate::id::{SnapshotId, VolumeId};
use serde::{Deserialize, Serialize};

/// The most tasks of a cluster, with those that have ended and stay until they are removed, or the oldest of them has to make room.
pub const MAX_BACKUP_TASKS: usize = 512;

/// So often it is noted that a node is at a task, also where that does not get on, in seconds.
const TOLD_EVERY_S: u64 = 60;

/// The number of a task: never given again, so that one of the same name does not take what another one has made for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BackupTaskId(pub u64);

/// `/amita/backups/tasks/of/NAME`: what somebody wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTask {
    /// Its number.
    pub id: BackupTaskId,
    /// Its name.
    pub name: String,
    /// The name of the repository.
    pub repository: String,
    /// What is to be done.
    pub work: BackupWork,
    /// When it was asked for, in seconds since 1970.
    pub asked_at: u64,
    /// An attempt at it ends after so many seconds.
    pub limit_s: u64,
    /// It was taken back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancelled: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupWork {
    /// A point is made of a volume.
    Backup(VolumeBackup),
    /// A volume is made of a point.
    Restore(PointRestore),
    /// A point is given up.
    Forget(PointForget),
}

impl BackupWork {
    /// All kinds, by their names.
    pub const KINDS: [&str; 3] = ["backup", "restore", "forget"];

    /// Its kind, by its name.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let [backup, restore, forget] = BackupWork::KINDS;
        match self {
            BackupWork::Backup(_) => backup,
            BackupWork::Restore(_) => restore,
            BackupWork::Forget(_) => forget,
        }
    }
}

/// A volume that is backed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeBackup {
    /// Its number, by which hosts know it.
    pub volume: VolumeId,
    /// The name that it had when that was asked for.
    pub name: String,
    /// The snapshot that is backed up; none: the volume as it is then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<BackedSnapshot>,
    /// All of it is read, and no earlier point counted on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub full: bool,
}

/// A snapshot that is backed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedSnapshot {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: SnapshotId,
    /// When it was taken, in seconds since 1970: a later one of this name is another one.
    pub taken_at: u64,
}

/// A volume that is made of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRestore {
    /// The point's number.
    pub point: u64,
    /// What it is called; none: that is not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_name: Option<String>,
    /// Which of its volumes, by the name that it had; none: its only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The new volume's name.
    pub to: String,
    /// The pool that holds it.
    pub pool: String,
    /// Is it encrypted? None: if it was when it was backed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// A point that is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointForget {
    /// Its number.
    pub point: u64,
    /// What it is called; none: that is not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_name: Option<String>,
}

/// `/amita/backups/tasks/runs/ID`: what has become of a task; all times in seconds since 1970, by the clocks of the nodes that were at it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTaskRun {
    /// The name of the node that is at it, or was last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// How often it was begun, or gone on with.
    #[serde(default)]
    pub attempts: u64,
    /// When that was last.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt_began: u64,
    /// How often it has failed; the others were ended by their node's end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// It has failed, and is tried again then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_at: Option<u64>,
    /// How it has ended, and when; none: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<BackupTaskEnd>,
    /// What was made, or given up; none: nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<BackupTaskMade>,
    /// Why it has failed, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// What else is to be said of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The number of the volume that a restore has made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restores_into: Option<VolumeId>,
}

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTaskEnd {
    /// How.
    pub how: BackupTaskOutcome,
    /// When.
    pub at: u64,
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupTaskOutcome {
    /// What was wanted is done.
    Done,
    /// It cannot be done, or was tried often enough.
    Failed,
    /// It was taken back.
    Cancelled,
}

/// What a task has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTaskMade {
    /// The point that was made, restored, or given up.
    pub point: u64,
    /// What that is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub point_name: String,
    /// When its snapshots were taken, in seconds since 1970; 0: that is not known any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taken_at: u64,
    /// The size of what was backed up or restored, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size_bytes: u64,
    /// Bytes that were read of the volume.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_bytes: u64,
    /// Bytes that went to the repository.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent_bytes: u64,
    /// Bytes that were written to the new volume by the last attempt: not zeros.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written_bytes: u64,
}

/// `/amita/backups/tasks/at/ID`: how far a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTaskPlace {
    /// Up to here all is dealt with.
    pub done_bytes: u64,
    /// Of so many bytes; 0: that is not known yet.
    pub total_bytes: u64,
    /// What is done now.
    pub step: String,
    /// When this was noted, in seconds since 1970, by the clock of the node that was at it; 0: by an older version, which did not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub at: u64,
}

impl BackupTaskPlace {
    /// Is it further than it was, or is it so long since that was noted that who looks would take its node for dead? All but the times is what is compared.
    #[must_use]
    pub fn is_news_behind(&self, last: &BackupTaskPlace) -> bool {
        let is_same =
            (self.done_bytes, self.total_bytes, &self.step) == (last.done_bytes, last.total_bytes, &last.step);
        !is_same || self.at >= last.at.saturating_add(TOLD_EVERY_S) || self.at < last.at
    }
}

/// The prefix of all that is about tasks.
#[must_use]
pub fn backup_tasks_prefix() -> String {
    format!("{}tasks/", backups_prefix())
}
/// The prefix of what is wanted.
#[must_use]
pub fn backup_task_names_prefix() -> String {
    format!("{}of/", backup_tasks_prefix())
}
/// The key of a task.
#[must_use]
pub fn backup_task_key(name: &str) -> String {
    format!("{}{name}", backup_task_names_prefix())
}
/// The key of what has become of it.
#[must_use]
pub fn backup_task_run_key(task: BackupTaskId) -> String {
    format!("{}runs/{}", backup_tasks_prefix(), task.0)
}
/// The prefix of how far tasks are.
#[must_use]
pub fn backup_task_places_prefix() -> String {
    format!("{}at/", backup_tasks_prefix())
}
/// The key of how far it is.
#[must_use]
pub fn backup_task_place_key(task: BackupTaskId) -> String {
    format!("{}{}", backup_task_places_prefix(), task.0)
}
/// The key that a node holds, on a lease, while it is at a task: its name.
#[must_use]
pub fn backup_task_runner_key(task: BackupTaskId) -> String {
    format!("{}by/{}", backup_tasks_prefix(), task.0)
}

impl BackupTask {
    /// Name and number, as they stand in the names of its sessions and of its point.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{}/{}", self.name, self.id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_other_versions_are_read() {
        let task: BackupTask = serde_json::from_str(
            r#"{"id":3,"name":"n","repository":"r","work":{"backup":{"volume":7,"name":"v","later":1}},"asked_at":5,"limit_s":60,"later":1}"#,
        )
        .unwrap();
        assert_eq!(task.mark(), "n/3");
        assert!(!task.cancelled);
        assert!(matches!(&task.work, BackupWork::Backup(backup) if !backup.full && backup.snapshot.is_none()));
        let run: BackupTaskRun = serde_json::from_str(r#"{"attempts":1,"end":{"how":"done","at":9}}"#).unwrap();
        assert_eq!(run.end.map(|end| end.how), Some(BackupTaskOutcome::Done));
        let written = serde_json::to_string(&BackupTaskRun::default()).unwrap();
        assert_eq!(written, r#"{"attempts":0}"#);
    }

    #[test]
    fn how_far_it_is_is_news_when_it_got_on_and_once_a_minute() {
        let place = |done_bytes, at| BackupTaskPlace {
            done_bytes,
            at,
            ..BackupTaskPlace::default()
        };
        let last = place(7, 1000);
        for (now, is_news) in [
            (place(7, 1003), false),
            (place(8, 1003), true),
            (place(7, 1060), true),
            // The clock was set back.
            (place(7, 10), true),
        ] {
            assert_eq!(now.is_news_behind(&last), is_news, "{now:?}");
        }
        let older: BackupTaskPlace = serde_json::from_str(r#"{"done_bytes":1,"total_bytes":2,"step":"s"}"#).unwrap();
        assert_eq!(older.at, 0);
    }

    #[test]
    fn keys_of_tasks_are_those_of_no_policy() {
        let key = backup_task_key("r");
        assert_eq!(key, "/amita/backups/tasks/of/r");
        for prefix in [
            super::super::backup_policies_prefix(),
            super::super::backup_runs_prefix(),
        ] {
            assert!(!key.starts_with(&prefix));
        }
    }
}
