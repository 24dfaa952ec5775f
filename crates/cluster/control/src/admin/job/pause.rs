//! Jobs stand still, and go on.

use super::super::{AdminError, Result, get, put_if, tries};
use super::{Job, JobAction, JobState, Record, job};
use crate::events::{self, Draft, Kind};
use amita_metadata::{Call, Transact};
use amita_types::map::{self, Flatten, Paused, Scrub, Store, StoreDuty};
use amita_types::{StoreId, VolumeId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Has a job stand still: what has begun of it comes to its end, and nothing more is begun. `by` is the name of who says so, `now` is
/// since 1970. One that stands still already stays as it is.
///
/// # Errors
/// There is no such job, or it is of a kind that cannot wait; the metadata is away or refuses.
pub fn pause_job(meta: &dyn Transact, id: &str, by: &str, now: Duration) -> Result<Job> {
    let paused = Paused {
        by: by.to_owned(),
        at: now.as_secs(),
    };
    let found = job(meta, id, now)?;
    if found.state == JobState::Paused {
        return Ok(found);
    }
    if !found.actions.contains(&JobAction::Pause) {
        return Err(cannot(&found, "paused"));
    }
    set(meta, &found, Some(&paused))?;
    let text = format!("{by} has paused job {id}, of {}.", found.object);
    tell(meta, Kind::JobPaused, &found, text, now);
    job(meta, id, now)
}

/// Has a job go on where it was. One that does not stand still stays as it is.
///
/// # Errors
/// There is no such job, or it is of a kind that is never paused; the metadata is away or refuses.
pub fn resume_job(meta: &dyn Transact, id: &str, by: &str, now: Duration) -> Result<Job> {
    let found = job(meta, id, now)?;
    if found.state != JobState::Paused {
        return match found.actions.contains(&JobAction::Pause) {
            true => Ok(found),
            false => Err(cannot(&found, "resumed")),
        };
    }
    set(meta, &found, None)?;
    let text = format!("{by} has job {id}, of {}, go on.", found.object);
    tell(meta, Kind::JobResumed, &found, text, now);
    job(meta, id, now)
}

fn cannot(job: &Job, what: &'static str) -> AdminError {
    let why = match (&job.record, job.state) {
        (_, JobState::Done) => "there is nothing left to do",
        (Record::Move(_), _) => "it takes a moment; it can be taken back",
        (Record::Other(advice), _) => advice,
        _ => "its kind does not wait",
    };
    AdminError::JobCannot {
        id: job.id.clone(),
        what,
        why: why.to_owned(),
    }
}

/// Writes into the job's record whether it stands still.
fn set(meta: &dyn Transact, job: &Job, paused: Option<&Paused>) -> Result<()> {
    // Ids end with the number of what the record is of.
    let number = job.id.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    let volume = VolumeId(number.unwrap_or_default());
    let is_set = match &job.record {
        Record::Copy(volume) => super::super::pause_copy(meta, *volume, paused),
        Record::Flatten => pause_flatten(meta, volume, paused),
        Record::Scrub => pause_scrub(meta, volume, paused),
        Record::Drain(store) => pause_drain(meta, *store, paused),
        Record::Move(_) | Record::Other(_) => return Err(cannot(job, "paused")),
    };
    match is_set? {
        true => Ok(()),
        false => Err(AdminError::JobCannot {
            id: job.id.clone(),
            what: "paused or resumed",
            why: "it has ended".to_owned(),
        }),
    }
}

/// Has a clone's flattening stand still, or go on; `false`: there is none with anything to do.
///
/// # Errors
/// The metadata is away or refuses.
pub fn pause_flatten(meta: &dyn Transact, volume: VolumeId, paused: Option<&Paused>) -> Result<bool> {
    change(meta, map::flatten_key(volume), |record: &mut Flatten| {
        record.paused = paused.cloned();
        !record.is_made()
    })
}

/// Has the look at a volume's copies stand still, or go on; `false`: none is under way.
///
/// # Errors
/// The metadata is away or refuses.
pub fn pause_scrub(meta: &dyn Transact, volume: VolumeId, paused: Option<&Paused>) -> Result<bool> {
    change(meta, map::scrub_key(volume), |record: &mut Scrub| {
        record.paused = paused.cloned();
        record.is_under_way()
    })
}

/// Has the drain of a store stand still, or go on; `false`: it is not drained.
///
/// # Errors
/// The metadata is away or refuses.
pub fn pause_drain(meta: &dyn Transact, store: StoreId, paused: Option<&Paused>) -> Result<bool> {
    change(meta, map::store_key(store), |record: &mut Store| {
        record.paused = paused.cloned();
        record.duty == StoreDuty::Draining
    })
}

/// Changes the record, if there is one with which `change` agrees.
fn change<T: Serialize + DeserializeOwned>(
    meta: &dyn Transact,
    key: String,
    change: impl Fn(&mut T) -> bool,
) -> Result<bool> {
    for _ in tries(meta) {
        let Some((mut record, revision)) = get::<T>(meta, &key)? else {
            return Ok(false);
        };
        if !change(&mut record) {
            return Ok(false);
        }
        if put_if(meta, &key, revision, &record)? {
            return Ok(true);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// An event of it. No node tells it but who has asked; where it cannot be written, the audit log has it all the same.
fn tell(meta: &dyn Transact, kind: Kind, job: &Job, text: String, now: Duration) {
    let (key, value) = events::of_operators(Draft::new(kind, [&job.object, &job.id], text), now);
    if let Err(why) = meta.txn(&Call::put(key, value)) {
        log::debug!("no event of job {} was written: {why}", job.id);
    }
}
