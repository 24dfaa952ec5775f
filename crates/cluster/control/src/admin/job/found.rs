//! What the records say is under way.

use super::super::migrate::{copy_job_kind, move_hold};
use super::super::{RecoveryStatus, Result, StoreStatus, VolumeStatus, status};
use super::{Job, JobAction, JobKind, JobState, JobUnit, Record};
use amita_metadata::{Call, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Copying, Flatten, Import, Move, Paused, Scrub, Shrink, StoreDuty};
use std::time::Duration;

/// What takes long at present, in the order of the ids; `now` is since 1970.
///
/// # Errors
/// The metadata is away, or holds no cluster.
pub fn jobs(meta: &dyn Transact, now: Duration) -> Result<Vec<Job>> {
    let (status, now) = (status(meta)?, now.as_secs());
    let mut all = Vec::new();
    for volume in &status.volumes {
        all.extend(volume.flatten.as_ref().map(|record| flattening(volume, record, now)));
        all.extend(volume.import.as_ref().map(|record| import(volume, record)));
        all.extend(volume.shrink.as_ref().map(|record| shrinking(volume, record)));
    }
    all.extend(super::super::copies(meta)?.iter().map(|record| copying(record, now)));
    all.extend(scrubs(meta, &status.volumes, now)?);
    all.extend(moves(meta, &status.volumes)?);
    all.extend(status.stores.iter().filter_map(drain));
    all.extend(status.recovery.iter().map(recovery));
    all.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(all)
}

/// A job of which nothing is known but that it is there.
fn job(kind: JobKind, number: impl std::fmt::Display, object: &str, record: Record) -> Job {
    Job {
        id: format!("{}-{number}", kind.name()),
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
        paused: None,
        ails: None,
        actions: Vec::new(),
        record,
    }
}

/// A job that can stand still, in that state unless it does.
fn pausable(job: Job, state: JobState, paused: Option<&Paused>) -> Job {
    let (state, action) = match paused {
        Some(_) => (JobState::Paused, JobAction::Resume),
        None => (state, JobAction::Pause),
    };
    Job {
        state,
        paused: paused.cloned(),
        left_s: job.left_s.filter(|_| state == JobState::Running),
        actions: vec![JobAction::Cancel, action],
        ..job
    }
}

/// Seconds that the rest will take, if it goes on as so far. Beyond what programs count seconds by nothing is said.
fn left_s(done: u64, left: u64, seconds: u64) -> Option<u64> {
    let whole = u128::from(seconds) * u128::from(left);
    let left_s = i64::try_from(whole.checked_div(u128::from(done))?);
    left_s.ok().map(i64::unsigned_abs)
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

fn flattening(volume: &VolumeStatus, record: &Flatten, now: u64) -> Job {
    let job = job(JobKind::Flatten, record.volume, &volume.volume.name, Record::Flatten);
    let job = counted(job, JobUnit::Chunks, record.done, record.chunks);
    let state = match record.ails {
        Some(_) => JobState::Stalled,
        None => JobState::Running,
    };
    let left = record.chunks.saturating_sub(record.done);
    let job = Job {
        left_s: left_s(record.done, left, now.saturating_sub(record.asked_at)),
        started_at: Some(record.asked_at),
        ails: record.ails.clone(),
        ..job
    };
    pausable(job, state, record.paused.as_ref())
}

/// The job of a copy; `now` is since 1970.
#[must_use]
pub fn copy_job(record: &Copying, now: Duration) -> Job {
    copying(record, now.as_secs())
}

fn copying(record: &Copying, now: u64) -> Job {
    let place = &record.place;
    let kind = copy_job_kind(record);
    let name = if record.moving.is_some() {
        &record.of
    } else {
        &record.name
    };
    let job = job(kind, record.volume, name, Record::Copy(record.volume));
    let state = match record.ails {
        Some(_) => JobState::Stalled,
        None => JobState::Running,
    };
    let (done, seconds) = (place.done_bytes(), now.saturating_sub(record.asked_at));
    let job = Job {
        moved_bytes: Some(place.written_bytes),
        bytes_per_second: place.written_bytes.checked_div(seconds),
        left_s: left_s(done, place.total_bytes.saturating_sub(done), seconds),
        started_at: Some(record.asked_at),
        ails: record.ails.clone(),
        ..counted(job, JobUnit::Bytes, done, place.total_bytes)
    };
    let removes = match (record.cancelled, record.whole) {
        (false, false) => {
            let runs = state == JobState::Running && record.paused.is_none();
            let ails = job.ails.or_else(|| wondered_at(record).filter(|_| runs));
            return pausable(Job { ails, ..job }, state, record.paused.as_ref());
        }
        (true, _) => "it is taken back, and what there is of it is being removed",
        (false, true) if kind == JobKind::Rekey => {
            "the volume is written anew, and what is left of that is being tidied up"
        }
        (false, true) if record.moving.is_some() => "the volume has moved, and what is left of that is being tidied up",
        (false, true) => "it is whole, and the snapshot that was taken for it is being removed",
    };
    Job {
        state,
        left_s: None,
        ails: Some(job.ails.unwrap_or_else(|| removes.to_owned())),
        ..job
    }
}

/// What hosts of a volume that moves may wonder at, and whoever waits until it has moved.
fn wondered_at(record: &Copying) -> Option<String> {
    let moving = record.moving?;
    match moving.slowed {
        Some(slowed) => Some(format!(
            "hosts write faster than it can be brought along: until it has moved they write {} KiB a second at most",
            slowed.bytes_per_s >> 10
        )),
        None if moving.late > 0 => Some(format!(
            "the last pass and the switch took longer than hosts' I/O was held for: it is held for up to {} ms at the next attempt",
            move_hold(moving, Duration::ZERO).as_millis()
        )),
        None => None,
    }
}

/// Whoever copies into a volume, or makes it smaller, has it open. Where nobody has, `then` says how it comes to its end.
fn by_owner(volume: &VolumeStatus, then: &str) -> (JobState, Option<String>) {
    match volume.owner_alive {
        true => (JobState::Running, None),
        false => (JobState::Stalled, Some(format!("nobody is at it: {then}"))),
    }
}

/// What has an import come to its end, and what to do with one that is to end.
fn advice(record: &Import) -> (&'static str, &'static str) {
    match record.is_of_a_file() {
        true => (
            "give its command again with --resume, and it goes on",
            "end its command; `amita volume import --resume` with the same image goes on, deleting the volume gives it up",
        ),
        false => (
            "send the image again from its beginning (`amita volume import --force`, or the API)",
            "end its command, or its request; `amita volume import --force` begins anew, deleting the volume gives it up",
        ),
    }
}

fn import(volume: &VolumeStatus, record: &Import) -> Job {
    let (then, advice) = advice(record);
    let (id, name) = (volume.volume.id, &volume.volume.name);
    let job = job(JobKind::Import, id, name, Record::Other(advice));
    let (state, ails) = match &record.ails {
        None => by_owner(volume, then),
        Some(why) => (JobState::Stalled, Some(why.clone())),
    };
    Job {
        state,
        ails,
        ..counted(job, JobUnit::Bytes, record.done_bytes, record.image_bytes)
    }
}

fn shrinking(volume: &VolumeStatus, _: &Shrink) -> Job {
    let advice = "end its command; `amita volume resize` with the size that the volume had gives it up";
    let (id, name) = (volume.volume.id, &volume.volume.name);
    let job = job(JobKind::Shrink, id, name, Record::Other(advice));
    let (state, ails) = by_owner(volume, "give its command again, and it goes on");
    Job { state, ails, ..job }
}

fn scrubs(meta: &dyn Transact, volumes: &[VolumeStatus], now: u64) -> Result<Vec<Job>> {
    let key = map::scrub_key(VolumeId(0));
    let prefix = key.trim_end_matches('0');
    let reply = meta.txn(&Call::prefix(prefix))?;
    let found = reply.values(0).iter().filter_map(|found| {
        let id: u64 = found.key.strip_prefix(prefix)?.parse().ok()?;
        let volume = volumes.iter().find(|volume| volume.volume.id.0 == id)?;
        let scrub: Scrub = found.json().ok()?;
        scrub
            .is_under_way()
            .then(|| scrubbing(&volume.volume.name, id, &scrub, now))
    });
    Ok(found.collect())
}

fn scrubbing(volume: &str, id: u64, scrub: &Scrub, now: u64) -> Job {
    let mut job = job(JobKind::Scrub, id, volume, Record::Scrub);
    if let Some(progress) = &scrub.progress {
        let (done, groups) = (u64::from(progress.done), u64::from(progress.groups));
        let passed = now.saturating_sub(scrub.requested_at);
        job.left_s = left_s(done, groups.saturating_sub(done), passed);
        job = counted(job, JobUnit::Groups, done, groups);
    }
    let job = Job {
        started_at: Some(scrub.requested_at),
        ..job
    };
    pausable(job, JobState::Running, scrub.paused.as_ref())
}

fn moves(meta: &dyn Transact, volumes: &[VolumeStatus]) -> Result<Vec<Job>> {
    let reply = meta.txn(&Call::prefix(map::moves_prefix()))?;
    let wishes = reply.values(0).iter().filter_map(|found| found.json::<Move>().ok());
    let found = wishes.filter_map(|wish| {
        let volume = volumes.iter().find(|volume| volume.volume.name == wish.volume)?;
        let state = match wish.refused {
            None => JobState::Running,
            Some(_) => JobState::Refused,
        };
        Some(Job {
            state,
            ails: wish.refused.clone(),
            actions: vec![JobAction::Cancel],
            ..job(
                JobKind::Move,
                volume.volume.id,
                &wish.volume,
                Record::Move(wish.clone()),
            )
        })
    });
    Ok(found.collect())
}

fn drain(store: &StoreStatus) -> Option<Job> {
    let id = store.store.id;
    (store.store.duty == StoreDuty::Draining).then(|| {
        let left = store.named as u64;
        let job = Job {
            unit: Some(JobUnit::Groups),
            left: Some(left),
            ..job(JobKind::Drain, id, &id.to_string(), Record::Drain(id))
        };
        match left {
            0 => Job {
                state: JobState::Done,
                actions: vec![JobAction::Cancel],
                ..job
            },
            _ => pausable(job, JobState::Running, store.store.paused.as_ref()),
        }
    })
}

fn recovery(found: &RecoveryStatus) -> Job {
    let advice = "a store that is not up to date is one copy less; the recovery's settings (`amita recovery set`) say how hard it works";
    let job = job(
        JobKind::Recovery,
        found.store,
        &found.store.to_string(),
        Record::Other(advice),
    );
    let rate = Some(found.bytes_per_s).filter(|rate| *rate > 0);
    Job {
        moved_bytes: Some(found.bytes_moved),
        bytes_per_second: rate,
        left_bytes: rate.zip(found.left_s).map(|(rate, left_s)| rate.saturating_mul(left_s)),
        left_s: found.left_s,
        ..counted(job, JobUnit::Groups, found.groups_done, found.groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::map::{CopyPlace, Moving, Slowed};

    #[test]
    fn whoever_waits_for_a_move_is_told_that_hosts_are_slowed_or_were_held_in_vain() {
        let of = |late, slowed| {
            let record = Copying {
                volume: VolumeId(2),
                name: map::moving_name(VolumeId(2)),
                source: VolumeId(1),
                of: "db".to_owned(),
                snapshot: "migrate-2-1".to_owned(),
                takes: true,
                snapshots: true,
                limit_bytes_per_s: None,
                asked_at: 1,
                cancelled: false,
                whole: false,
                paused: None,
                ails: None,
                moving: Some(Moving {
                    data: VolumeId(1),
                    taken: 4,
                    late,
                    same_pool: false,
                    slowed,
                }),
                place: CopyPlace::default(),
            };
            copying(&record, 2).ails
        };
        assert_eq!(of(0, None), None);
        assert!(of(6, None).is_some_and(|why| why.contains("up to 240 ms")));
        let slowed = Slowed {
            bytes_per_s: 1 << 20,
            by: 5,
        };
        assert!(of(6, Some(slowed)).is_some_and(|why| why.contains("1024 KiB a second")));
    }
}
