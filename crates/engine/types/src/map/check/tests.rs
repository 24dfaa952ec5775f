use super::super::Syncing;
use super::*;
use crate::id::{GroupIndex, PoolId, StoreId};
use crate::placement::Level;

fn pool() -> Pool {
    Pool {
        id: PoolId(1),
        name: "p".to_owned(),
        kind: PoolKind::Replicated {
            copies: 3,
            min_copies: 2,
        },
        groups: 64,
        chunk_bytes: 4 << 20,
        failure_domain: Level::Node,
        class: None,
    }
}

fn group() -> Group {
    Group {
        index: GroupIndex(0),
        epoch: Epoch(5),
        members: vec![StoreId(1), StoreId(2), StoreId(3)],
        in_sync: vec![StoreId(1), StoreId(2)],
        syncing: vec![Syncing {
            store: StoreId(3),
            since: Epoch(5),
        }],
    }
}

#[test]
fn a_pool_has_copies_groups_and_chunks_that_can_be() {
    assert_eq!(pool().check(), Ok(()));
    let kind = |copies, min_copies| PoolKind::Replicated { copies, min_copies };
    for kind in [kind(3, 0), kind(0, 0), kind(2, 3), kind(9, 1), kind(255, 255)] {
        assert!(Pool { kind, ..pool() }.check().is_err(), "{kind:?}");
    }
    for groups in [0, 3, MAX_GROUPS * 2, u32::MAX] {
        assert!(Pool { groups, ..pool() }.check().is_err(), "{groups}");
    }
    for chunk_bytes in [0, 2048, 5000, 8 << 20, u32::MAX] {
        assert!(Pool { chunk_bytes, ..pool() }.check().is_err(), "{chunk_bytes}");
    }
}

#[test]
fn a_groups_sets_are_small_and_disjoint_and_its_epoch_has_one_after_it() {
    assert_eq!(group().check(), Ok(()));
    let spoiled: [fn(&mut Group); 9] = [
        |group| group.in_sync.clear(),
        |group| group.in_sync.push(StoreId(1)),
        |group| group.in_sync.push(StoreId(3)),
        |group| group.syncing.push(group.syncing[0]),
        |group| group.members.push(StoreId(1)),
        |group| group.members = (0..9).map(StoreId).collect(),
        |group| group.in_sync = (10..18).map(StoreId).collect(),
        |group| group.epoch = Epoch(u64::MAX),
        |group| group.syncing[0].since = Epoch(6),
    ];
    for (number, spoil) in spoiled.into_iter().enumerate() {
        let mut group = group();
        spoil(&mut group);
        assert!(group.check().is_err(), "{number}: {group:?}");
    }
    let last = Group {
        epoch: Epoch::MAX,
        ..group()
    };
    assert_eq!(last.check(), Ok(()));
    assert!(last.epoch.next() > last.epoch);
}
