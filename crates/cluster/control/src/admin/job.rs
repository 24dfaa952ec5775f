//! One list of what takes long, whatever it is and whoever is at it; what can wait is paused and goes on.
//!
//! A job is no record of its own: it is what the records of volumes and stores say is under way, and is gone with that. What they do not say,
//! nobody makes up. That one is paused stands in the record of what is to be done ([`Paused`]): whoever is at it heeds that as soon as its
//! watch tells, and so does whoever takes over from there. What lacks copies is never paused: it would stay without them.

mod found;
mod pause;

use super::{AdminError, Result};
use crate::access::Action;
use amita_metadata::Transact;
use amita_types::map::{Move, Paused};
use amita_types::{StoreId, VolumeId};
use serde::Serialize;
use std::time::Duration;

pub use found::{copy_job, jobs};
pub use pause::{pause_drain, pause_flatten, pause_job, pause_scrub, resume_job};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// A volume is made a copy of another one.
    Copy,
    /// A store's data moves to others.
    Drain,
    /// A clone is made to need what it was made from no more.
    Flatten,
    /// An image is copied into a volume.
    Import,
    /// A volume moves to another pool.
    Migrate,
    /// A volume is to be owned by another node.
    Move,
    /// A store is brought up to date.
    Recovery,
    /// A volume is written anew in its pool: by a new data key, encrypted from then on, or no more.
    Rekey,
    /// All copies of a volume are looked at.
    Scrub,
    /// A volume is made smaller.
    Shrink,
}

impl JobKind {
    /// Its name, with which the ids of its jobs begin.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JobKind::Copy => "copy",
            JobKind::Drain => "drain",
            JobKind::Flatten => "flatten",
            JobKind::Import => "import",
            JobKind::Migrate => "migrate",
            JobKind::Move => "move",
            JobKind::Recovery => "recovery",
            JobKind::Rekey => "rekey",
            JobKind::Scrub => "scrub",
            JobKind::Shrink => "shrink",
        }
    }
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Somebody is at it, or will be by itself.
    Running,
    /// It does not go on: `ails` says why, or nobody is at it.
    Stalled,
    /// Who was to do it has refused: `ails` says why.
    Refused,
    /// There is nothing left to do; it is shown until somebody says that it was seen, or takes it back.
    Done,
    /// An operator has said so; it goes on when it is resumed.
    Paused,
}

impl JobState {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Stalled => "stalled",
            JobState::Refused => "refused",
            JobState::Done => "done",
            JobState::Paused => "paused",
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobUnit {
    /// Bytes.
    Bytes,
    /// Chunks of a volume.
    Chunks,
    /// Groups of a pool, all pools and volumes together.
    Groups,
}

/// What can be done about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobAction {
    /// It is taken back.
    Cancel,
    /// It stands still until it is resumed.
    Pause,
    /// It goes on.
    Resume,
}

/// By what a job is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The copy that the volume is to be; it is removed.
    Copy(VolumeId),
    /// The volume's flattening.
    Flatten,
    /// The looks at the volume's copies.
    Scrub,
    /// The store's duty.
    Drain(StoreId),
    /// The wish.
    Move(Move),
    /// It is not: what to do instead.
    Other(&'static str),
}

/// Something that takes long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Job {
    /// The same for as long as it lasts.
    pub id: String,
    pub kind: JobKind,
    /// To what it is done: the volume's name, or the store's UUID.
    pub object: String,
    pub state: JobState,
    /// What `done`, `total` and `left` count.
    pub unit: Option<JobUnit>,
    pub done: Option<u64>,
    pub total: Option<u64>,
    pub left: Option<u64>,
    /// Bytes of data that it has moved.
    pub moved_bytes: Option<u64>,
    /// On the average so far.
    pub bytes_per_second: Option<u64>,
    /// Bytes that are left to move, if it goes on as so far.
    pub left_bytes: Option<u64>,
    /// Seconds that it will take yet, if it goes on as so far.
    pub left_s: Option<u64>,
    /// When it was asked for, in seconds since 1970.
    pub started_at: Option<u64>,
    /// Who has paused it, and when.
    pub paused: Option<Paused>,
    /// Why it does not go on; of one that runs what there is to be known meanwhile.
    pub ails: Option<String>,
    /// What can be done about it.
    pub actions: Vec<JobAction>,
    #[serde(skip)]
    pub(super) record: Record,
}

impl Job {
    /// As what taking it back stands in the audit log.
    ///
    /// # Errors
    /// It cannot be taken back: what to do instead.
    pub fn cancelled_by(&self) -> Result<Action> {
        match &self.record {
            Record::Copy(_) if self.kind == JobKind::Migrate => Ok(Action::VolumeMigrate),
            Record::Copy(_) if self.kind == JobKind::Rekey => Ok(Action::VolumeRekey),
            Record::Copy(_) => Ok(Action::VolumeCopy),
            Record::Flatten => Ok(Action::VolumeFlatten),
            Record::Scrub => Ok(Action::VolumeScrub),
            Record::Drain(_) => Ok(Action::DiskDrain),
            Record::Move(_) => Ok(Action::VolumeMove),
            Record::Other(advice) => Err(AdminError::JobCannot {
                id: self.id.clone(),
                what: "taken back",
                why: (*advice).to_owned(),
            }),
        }
    }
}

/// A job, for as long as it lasts; `now` is since 1970.
///
/// # Errors
/// There is none of that id; the metadata is away.
pub fn job(meta: &dyn Transact, id: &str, now: Duration) -> Result<Job> {
    let all = jobs(meta, now)?;
    if let Some(job) = all.iter().find(|job| job.id == id) {
        return Ok(job.clone());
    }
    Err(AdminError::NoSuch {
        what: "job",
        name: id.to_owned(),
        there: all.into_iter().map(|job| job.id).collect(),
    })
}

/// Takes a job back. What is done stays, but for a copy: that is removed by whoever is at it.
///
/// # Errors
/// That cannot be done with it; it has ended; the metadata is away.
pub fn cancel_job(meta: &dyn Transact, job: &Job) -> Result<()> {
    match &job.record {
        Record::Copy(volume) => match super::cancel_copy(meta, *volume)? {
            true => Ok(()),
            false => Err(AdminError::JobCannot {
                id: job.id.clone(),
                what: "taken back",
                why: match job.kind {
                    JobKind::Migrate => format!("volume {} has moved by now; a move back is a move", job.object),
                    JobKind::Rekey => format!("volume {} is written anew by now", job.object),
                    _ => format!(
                        "volume {0} is a copy by now; `amita volume delete {0}` deletes it",
                        job.object
                    ),
                },
            }),
        },
        Record::Flatten => super::cancel_flatten(meta, &job.object).map(drop),
        Record::Scrub => super::cancel_scrub(meta, &job.object).map(drop),
        Record::Drain(store) => super::drain_store(meta, *store, true).map(drop),
        Record::Move(wish) => super::drop_move(meta, wish),
        Record::Other(_) => job.cancelled_by().map(drop),
    }
}

#[cfg(test)]
mod tests;
