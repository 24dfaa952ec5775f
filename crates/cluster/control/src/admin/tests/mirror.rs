//! Volumes that are mirrored to another cluster.

mod closed;
mod ends;
mod leaving;
mod points;
mod sizes;
mod steps;

use super::*;
use amita_types::map::{
    Lineage, Mirror, MirrorPeer, MirrorRole, Point, Seen, SetState, Snapshot, SnapshotSet, SnapshotState, Standing,
    Volume,
};
use amita_types::{MirrorEpoch, MirrorId, SnapshotId, VolumeId};
use std::time::Duration;

const ID: MirrorId = MirrorId(77);
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn put(meta: &dyn Transact, key: String, value: &impl serde::Serialize) -> u64 {
    meta.txn(&Call::put(key, json(value))).unwrap().revision
}

fn wish(odd: bool) -> MirrorWish<'static> {
    MirrorWish {
        name: "dr",
        id: ID,
        odd,
        interval: None,
        keep: 2,
        limit_bytes_per_s: None,
        alert_after: None,
        never_deposed: false,
        peer: MirrorPeer::default(),
    }
}

/// A cluster with two volumes, which gateways have.
fn near_volumes() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for name in ["db", "log"] {
        create_volume(&meta, name, "main", 1 << 30).unwrap();
        open(&meta, name);
    }
    meta
}

/// Its end is the primary.
fn near() -> Mutex<State> {
    let meta = near_volumes();
    add_mirror(&meta, &wish(false), &["db".to_owned(), "log".to_owned()]).unwrap();
    meta
}

/// The other cluster.
fn far() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let target = |name| TargetWish {
        name,
        pool: "main",
        size_bytes: 1 << 30,
        keys: None,
    };
    add_mirrored(
        &meta,
        &wish(true),
        MirrorEpoch(0),
        &[target("db"), target("log")],
        ("somebody", NOW),
    )
    .unwrap();
    complete_mirrored(&meta, "dr").unwrap();
    meta
}

/// A gateway opens the volume: its generation is that.
fn open(meta: &dyn Transact, name: &str) -> Generation {
    let found = volume(meta, name).unwrap();
    let generation = found.generation.next().unwrap();
    let owner = Some(NodeId(1));
    put(
        meta,
        map::volume_key(name),
        &Volume {
            generation,
            owner,
            ..found
        },
    );
    generation
}

/// Somebody is at the mirror; the claim.
fn claim(meta: &dyn Transact) -> u64 {
    put(meta, map::mirror_runner_key("dr"), &"n1")
}

fn record(meta: &dyn Transact) -> Mirror {
    mirror(meta, "dr").unwrap()
}

fn change(meta: &dyn Transact, by: impl Fn(&mut Mirror)) {
    let mut record = record(meta);
    by(&mut record);
    // That is under a key of its own.
    record.seen = None;
    put(meta, map::mirror_key("dr"), &record);
}

fn saw(meta: &dyn Transact, standing: Standing) {
    let seen = Seen {
        standing,
        at: NOW.as_secs(),
        clock: NOW.as_secs(),
    };
    put(meta, map::mirror_seen_key("dr"), &seen);
}

/// The owners of the volumes take the sets that are asked for, each under the generation that its volume has; so many. Where a name is taken the set comes
/// to nothing.
fn take_sets(meta: &dyn Transact) -> usize {
    let sets: Vec<SnapshotSet> = list(meta, &map::sets_prefix()).unwrap();
    let open: Vec<&SnapshotSet> = sets.iter().filter(|set| set.state == SetState::Taking).collect();
    for set in &open {
        let is_taken = |of: &&map::SetVolume| snapshot(meta, &of.name, &set.name).is_ok();
        if let Some(of) = set.volumes.iter().find(is_taken) {
            let why = format!("volume {} already has a snapshot of this name", of.name);
            put(meta, map::set_key(set.id), &set.voided(why, false));
            continue;
        }
        for of in &set.volumes {
            let found = volume(meta, &of.name).unwrap();
            let number = SnapshotId(found.lineage.number.0 + 1);
            let snapshot = Snapshot {
                volume: found.id,
                number,
                name: set.name.clone(),
                size_bytes: found.size_bytes,
                taken_at: set.asked_at,
                labels: set.labels.clone(),
                protected: false,
                state: SnapshotState::Sealed(found.generation),
                set: Some(set.id),
                clones: 0,
                hidden: false,
                mark: false,
            };
            let of_name = map::SnapshotName::new(found.host(), found.id, number);
            put(meta, map::snapshot_key(found.id, number), &snapshot);
            put(meta, map::snapshot_name_key(found.host(), &set.name), &of_name);
            let lineage = Lineage {
                number,
                sealed: number,
                ..found.lineage
            };
            put(meta, map::volume_key(&of.name), &Volume { lineage, ..found });
        }
        meta.txn(&Call {
            then: vec![Op::Delete {
                key: map::set_key(set.id),
            }],
            ..Call::default()
        })
        .unwrap();
    }
    open.len()
}

/// A point of the primary is cut, in this epoch.
fn cut(meta: &dyn Transact, epoch: u64, after: u64) -> Point {
    let now = NOW + Duration::from_secs(after);
    for _ in 0..4 {
        if let Cutting::Cut(point) = cut_point(meta, "dr", MirrorEpoch(epoch), now).unwrap() {
            return point;
        }
        take_sets(meta);
    }
    panic!("it is not cut")
}

fn why(result: Result<impl std::fmt::Debug>) -> crate::mirror::Refused {
    match result {
        Err(AdminError::Mirror { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}
