//! What is deleted, and what belongs where.

use super::*;

fn of(living: &[u64], given: u64) -> Holdings {
    let volumes: Vec<HeldVolume> = living
        .iter()
        .map(|&id| HeldVolume {
            id: VolumeId(id),
            place: VolumeId(id),
            pool: Some((PoolId(1), 4)),
        })
        .collect();
    Holdings {
        given: VolumeId(given),
        volumes: volumes.into(),
        ..Holdings::default()
    }
}

#[test]
fn only_what_was_given_out_and_is_not_there_is_deleted() {
    let holdings = of(&[3, 7], 9);
    let deleted = |volume| {
        let found = holdings.deleted(VolumeId(volume), 100);
        found.map(|(first, last)| (first.0, last.0))
    };
    assert_eq!(deleted(0), None, "no volume has this number");
    assert_eq!(deleted(1), Some((1, 2)));
    assert_eq!(deleted(2), Some((1, 2)));
    assert_eq!(deleted(3), None);
    assert_eq!(deleted(5), Some((4, 6)));
    assert_eq!(deleted(7), None);
    assert_eq!(deleted(8), Some((8, 9)));
    assert_eq!(deleted(10), None, "the metadata has never known it");
    assert_eq!(deleted(u64::MAX), None);
}

#[test]
fn a_range_is_bounded_and_holds_the_volume_that_was_asked_for() {
    let holdings = of(&[], 1000);
    for volume in [1, 2, 499, 500, 999, 1000] {
        for most in [1, 2, 3, 16] {
            let (first, last) = holdings.deleted(VolumeId(volume), most).expect("it is deleted");
            assert!(first.0 >= 1 && first.0 <= volume && volume <= last.0 && last.0 <= 1000);
            assert!(last.0 - first.0 < most.max(2), "{volume} {most}: {first} to {last}");
        }
    }
}

#[test]
fn a_chunk_lies_where_its_pool_says() {
    let holdings = of(&[3], 9);
    let group = holdings
        .group_of(VolumeId(3), ChunkIndex(11))
        .expect("its pool is known");
    let chunk = ChunkId {
        volume: VolumeId(3),
        index: ChunkIndex(11),
    };
    assert_eq!((group.pool, group.index), (PoolId(1), chunk.group(4)));
    assert_eq!(holdings.group_of(VolumeId(4), ChunkIndex(11)), None);
}

#[test]
fn a_lost_snapshot_is_noticed_and_a_new_one_is_not() {
    let held_with = |given, live: &[u32], marked: &[u32]| {
        let held = HeldSnapshots {
            volume: VolumeId(3),
            given: SnapshotId(given),
            live: live.iter().copied().map(SnapshotId).collect(),
            marked: marked.iter().copied().map(SnapshotId).collect(),
        };
        Holdings {
            snapshots: vec![Arc::new(held)],
            ..Holdings::default()
        }
    };
    let held = |given, live: &[u32]| held_with(given, live, &[]);
    let before = held(4, &[1, 4]);
    assert!(!before.has_lost_snapshots(&before));
    let marked = held_with(4, &[1], &[4]);
    assert!(marked.has_lost_snapshots(&before), "it is no more than a mark");
    assert!(!held_with(5, &[1, 5], &[4]).has_lost_snapshots(&marked));
    assert!(held(4, &[1]).has_lost_snapshots(&marked), "the mark is gone");
    for (given, live, lost) in [
        (4, &[1, 4][..], false),
        (5, &[1, 4, 5], false),
        (4, &[4], true),
        (5, &[1, 4], true),
        (6, &[1, 4, 6], true),
        (5, &[4, 5], true),
    ] {
        assert_eq!(held(given, live).has_lost_snapshots(&before), lost, "{given} {live:?}");
    }
    assert!(!held(2, &[1, 2]).has_lost_snapshots(&Holdings::default()));
    assert!(held(2, &[2]).has_lost_snapshots(&Holdings::default()));
    assert!(before.snapshots(VolumeId(2)).is_none() && before.snapshots(VolumeId(3)).is_some());
}
