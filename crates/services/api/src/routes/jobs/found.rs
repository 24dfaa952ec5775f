//! What the records say is under way.

use super::{Job, JobAction, JobKind, JobState, JobUnit};
use amita_control::admin::{self, AdminError, RecoveryStatus, StoreStatus, VolumeStatus};
use amita_metadata::{Call, Transact};
use amita_types::map::{self, Flatten, Import, Move, Scrub, Shrink, StoreDuty};
use amita_types::{StoreId, VolumeId};

/// A job, and what it is in the records.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) job: Job,
    pub(super) record: Record,
}

/// By what a job is taken back.
#[derive(Clone, Debug)]
pub(super) enum Record {
    /// The volume's flattening.
    Flatten,
    /// The store's duty.
    Drain(StoreId),
    /// The wish.
    Move(Move),
    /// It is not: what to do instead.
    Other(&'static str),
}

/// All of them, in the order of their ids. `now`: in seconds since 1970.
pub(super) fn all(meta: &dyn Transact, now: u64) -> Result<Vec<Found>, AdminError> {
    let status = admin::status(meta)?;
    let mut all = Vec::new();
    for volume in &status.volumes {
        all.extend(volume.flatten.as_ref().map(|record| flattening(volume, record, now)));
        all.extend(volume.import.as_ref().map(|record| import(volume, record)));
        all.extend(volume.shrink.as_ref().map(|record| shrinking(volume, record)));
    }
    all.extend(scrubs(meta, &status.volumes)?);
    all.extend(moves(meta, &status.volumes)?);
    all.extend(status.stores.iter().filter_map(drain));
    all.extend(status.recovery.iter().map(recovery));
    all.sort_by(|a, b| a.job.id.cmp(&b.job.id));
    Ok(all)
}

/// A job of which nothing is known but that it is there.
fn job(kind: JobKind, word: &str, number: impl std::fmt::Display, object: &str) -> Job {
    Job {
        id: format!("{word}-{number}"),
        kind,
        object: object.to_owned(),
        state: JobState::Running,
        unit: None,
        done: None,
        total: None,
        left: None,
        moved_bytes: None,
        bytes_per_second: None,
        left_bytes: None,
        left_s: None,
        started_at: None,
        ails: None,
        actions: Vec::new(),
    }
}

/// Seconds that the rest will take, if it goes on as so far.
fn left_s(done: u64, left: u64, seconds: u64) -> Option<u64> {
    let whole = u128::from(seconds) * u128::from(left);
    Some(u64::try_from(whole.checked_div(u128::from(done))?).unwrap_or(u64::MAX))
}

fn counted(job: Job, unit: JobUnit, done: u64, total: u64) -> Job {
    Job {
        unit: Some(unit),
        done: Some(done),
        total: Some(total),
        left: Some(total.saturating_sub(done)),
        ..job
    }
}

fn flattening(volume: &VolumeStatus, record: &Flatten, now: u64) -> Found {
    let job = job(JobKind::Flatten, "flatten", record.volume, &volume.volume.name);
    let job = counted(job, JobUnit::Chunks, record.done, record.chunks);
    let is_stalled = record.ails.is_some();
    let left = record.chunks.saturating_sub(record.done);
    let job = Job {
        state: if is_stalled {
            JobState::Stalled
        } else {
            JobState::Running
        },
        left_s: left_s(record.done, left, now.saturating_sub(record.asked_at)).filter(|_| !is_stalled),
        started_at: Some(record.asked_at),
        ails: record.ails.clone(),
        actions: vec![JobAction::Cancel],
        ..job
    };
    Found {
        job,
        record: Record::Flatten,
    }
}

/// Whoever copies into a volume, or makes it smaller, has it open.
fn by_owner(volume: &VolumeStatus) -> (JobState, Option<String>) {
    match volume.owner_alive {
        true => (JobState::Running, None),
        false => (
            JobState::Stalled,
            Some("nobody is at it: give its command again, and it goes on".to_owned()),
        ),
    }
}

fn import(volume: &VolumeStatus, record: &Import) -> Found {
    let job = job(JobKind::Import, "import", volume.volume.id, &volume.volume.name);
    let (state, ails) = match &record.ails {
        None => by_owner(volume),
        Some(why) => (JobState::Stalled, Some(why.clone())),
    };
    let job = Job {
        state,
        ails,
        ..counted(job, JobUnit::Bytes, record.done_bytes, record.image_bytes)
    };
    let advice = "end its command, or its request; `amita volume import` with the same image goes on, deleting the volume gives it up";
    Found {
        job,
        record: Record::Other(advice),
    }
}

fn shrinking(volume: &VolumeStatus, _: &Shrink) -> Found {
    let job = job(JobKind::Shrink, "shrink", volume.volume.id, &volume.volume.name);
    let (state, ails) = by_owner(volume);
    Found {
        job: Job { state, ails, ..job },
        record: Record::Other("end its command; `amita volume resize` with the size that the volume had gives it up"),
    }
}

fn scrubs(meta: &dyn Transact, volumes: &[VolumeStatus]) -> Result<Vec<Found>, AdminError> {
    let key = map::scrub_key(VolumeId(0));
    let prefix = key.trim_end_matches('0');
    let reply = meta.txn(&Call::prefix(prefix))?;
    let found = reply.values(0).iter().filter_map(|found| {
        let id: u64 = found.key.strip_prefix(prefix)?.parse().ok()?;
        let volume = volumes.iter().find(|volume| volume.volume.id.0 == id)?;
        let scrub: Scrub = found.json().ok()?;
        (scrub.requested > scrub.finished).then(|| Found {
            job: Job {
                started_at: Some(scrub.requested_at),
                ..job(JobKind::Scrub, "scrub", id, &volume.volume.name)
            },
            record: Record::Other("it goes to its end; the recovery's settings say how hard it works (`scrub`)"),
        })
    });
    Ok(found.collect())
}

fn moves(meta: &dyn Transact, volumes: &[VolumeStatus]) -> Result<Vec<Found>, AdminError> {
    let reply = meta.txn(&Call::prefix(map::moves_prefix()))?;
    let wishes = reply.values(0).iter().filter_map(|found| found.json::<Move>().ok());
    let found = wishes.filter_map(|wish| {
        let volume = volumes.iter().find(|volume| volume.volume.name == wish.volume)?;
        let job = job(JobKind::Move, "move", volume.volume.id, &wish.volume);
        let state = match wish.refused {
            None => JobState::Running,
            Some(_) => JobState::Refused,
        };
        let job = Job {
            state,
            ails: wish.refused.clone(),
            actions: vec![JobAction::Cancel],
            ..job
        };
        Some(Found {
            job,
            record: Record::Move(wish),
        })
    });
    Ok(found.collect())
}

fn drain(store: &StoreStatus) -> Option<Found> {
    let id = store.store.id;
    (store.store.duty == StoreDuty::Draining).then(|| {
        let left = store.named as u64;
        Found {
            job: Job {
                state: if left == 0 { JobState::Done } else { JobState::Running },
                unit: Some(JobUnit::Groups),
                left: Some(left),
                actions: vec![JobAction::Cancel],
                ..job(JobKind::Drain, "drain", id, &id.to_string())
            },
            record: Record::Drain(id),
        }
    })
}

fn recovery(found: &RecoveryStatus) -> Found {
    let job = job(JobKind::Recovery, "recovery", found.store, &found.store.to_string());
    let rate = Some(found.bytes_per_s).filter(|rate| *rate > 0);
    let job = Job {
        moved_bytes: Some(found.bytes_moved),
        bytes_per_second: rate,
        left_bytes: rate.zip(found.left_s).map(|(rate, left_s)| rate.saturating_mul(left_s)),
        left_s: found.left_s,
        ..counted(job, JobUnit::Groups, found.groups_done, found.groups)
    };
    Found {
        job,
        record: Record::Other(
            "a store that is not up to date is one copy less; the recovery's settings (`amita recovery set`) say how hard it works",
        ),
    }
}
