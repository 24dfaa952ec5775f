use super::*;
use crate::control::Record;
use amita_types::condition::{Condition, Failing, Trouble, condition_key};
use amita_types::map::{self, Group, KeyName, KeyNumber, KeyRing, Pool, PoolKind, Syncing};
use amita_types::{Epoch, GroupIndex, PoolId, StoreId};

fn put<T: serde::Serialize>(view: &mut View, key: String, value: &T) {
    view.apply(&Record {
        key,
        value: Some(serde_json::to_vec(value).unwrap()),
        revision: 1,
        created: 1,
    });
}

fn volume(id: u64, generation: u32, owner: Option<u32>) -> map::Volume {
    map::Volume {
        generation: Generation(generation),
        owner: owner.map(NodeId),
        ..map::Volume::new(VolumeId(id), &format!("v{id}"), "p", 1 << 30)
    }
}

fn view(syncing: bool, volumes: &[map::Volume], living: &[u32]) -> View {
    let mut view = View::default();
    let pool = Pool {
        id: PoolId(1),
        name: "p".to_owned(),
        kind: PoolKind::Replicated {
            copies: 3,
            min_copies: 2,
        },
        groups: 1,
        chunk_bytes: 4 << 20,
        failure_domain: amita_types::placement::Level::Node,
        class: None,
    };
    put(&mut view, map::pool_key("p"), &pool);
    let group = Group {
        index: GroupIndex(0),
        epoch: Epoch(3),
        members: Vec::new(),
        in_sync: vec![StoreId(1)],
        syncing: syncing
            .then_some(Syncing {
                store: StoreId(2),
                since: Epoch(3),
            })
            .into_iter()
            .collect(),
    };
    put(&mut view, map::group_key(PoolId(1), GroupIndex(0)), &group);
    for volume in volumes {
        put(&mut view, map::volume_key(&volume.name), volume);
    }
    for node in living {
        let live = map::Live {
            session: 1,
            pid: 1,
            stores: None,
            version: map::METADATA_VERSION,
        };
        put(&mut view, map::live_key(NodeId(*node)), &live);
    }
    view
}

fn looked(view: &View, me: u32) -> Vec<String> {
    let mut orphans = OrphanedVolumes::default();
    orphans.stir(Time(0));
    orphans.look(Time(1), NodeId(me), view, |_| Held::No)
}

#[test]
fn nobody_opens_what_needs_no_owner() {
    let volumes = [volume(1, 4, Some(1))];
    assert!(looked(&view(false, &volumes, &[1]), 1).is_empty(), "nobody is syncing");
    let never = [volume(1, 0, None)];
    assert!(
        looked(&view(true, &never, &[1]), 1).is_empty(),
        "it was never opened: it has no data"
    );
}

#[test]
fn the_owner_opens_its_volume_and_exactly_one_opens_an_orphan() {
    let volumes: Vec<map::Volume> = (0..40).map(|id| volume(id, 1, (id % 2 == 0).then_some(9))).collect();
    let owned: Vec<map::Volume> = (0..40).map(|id| volume(id, 1, Some(2))).collect();
    let owned = view(true, &owned, &[1, 2, 3]);
    assert_eq!(looked(&owned, 2).len(), MAX_AT_ONCE);
    assert!(looked(&owned, 1).is_empty());
    // Owner 9 is dead; others never had one: each is opened by one living node.
    let orphans = view(true, &volumes, &[1, 2, 3]);
    let mut all: Vec<String> = (1..=3).flat_map(|me| looked(&orphans, me)).collect();
    all.sort();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "no volume is opened twice");
    assert_eq!(count, 40, "and none is forgotten");
}

/// Else one node without its file keeps all stores of a pool from being taken back.
#[test]
fn who_lacks_the_keys_leaves_a_volume_to_one_who_does_not() {
    let name = KeyName {
        volume: VolumeId(1),
        image: VolumeId(1),
        number: KeyNumber(1),
    };
    let encrypted = map::Volume {
        keys: Some(KeyRing::new(name)),
        ..volume(1, 1, Some(2))
    };
    let mut view = view(true, &[encrypted, volume(2, 1, Some(2))], &[1, 2, 3]);
    assert_eq!(looked(&view, 2), ["v1", "v2"]);
    let say = |view: &mut View, node: u32, what: Failing| {
        let trouble = |volume| Trouble {
            volume: VolumeId(volume),
            what,
            why: "there is no file".to_owned(),
        };
        let condition = Condition {
            stores: Vec::new(),
            troubles: vec![trouble(1), trouble(2)],
        };
        put(view, condition_key(NodeId(node), 0), &condition);
    };
    say(&mut view, 2, Failing::Opening);
    assert_eq!(
        looked(&view, 2),
        ["v1", "v2"],
        "of what else fails nobody else knows better"
    );
    say(&mut view, 2, Failing::Locked);
    assert_eq!(looked(&view, 2), ["v2"]);
    let others = [1, 3].map(|me| looked(&view, me));
    assert_eq!(others.concat(), ["v1"], "exactly one of the others");
    // Nobody has them.
    say(&mut view, 1, Failing::Locked);
    say(&mut view, 3, Failing::Locked);
    assert_eq!(looked(&view, 2), ["v1", "v2"]);
    assert!(looked(&view, 1).is_empty() && looked(&view, 3).is_empty());
    // They have come at one.
    say(&mut view, 3, Failing::Opening);
    assert_eq!(looked(&view, 3), ["v1"]);
}

#[test]
fn what_did_not_open_is_tried_again_later() {
    let view = view(true, &[volume(1, 1, Some(1))], &[1]);
    let mut orphans = OrphanedVolumes::default();
    orphans.stir(Time(0));
    assert_eq!(orphans.look(Time(1), NodeId(1), &view, |_| Held::No).len(), 1);
    let next = orphans.deadline().expect("it looks whether it has opened");
    assert!(orphans.look(next, NodeId(1), &view, |_| Held::No).is_empty());
    let next = orphans.deadline().expect("it is not open yet");
    assert_eq!(orphans.look(next, NodeId(1), &view, |_| Held::No).len(), 1);
    let next = orphans.deadline().expect("it is not open yet");
    assert!(orphans.look(next, NodeId(1), &view, |_| Held::Open).is_empty());
    assert_eq!(orphans.deadline(), None, "nothing is left to do");
}

#[test]
fn many_that_do_not_open_keep_no_other_from_its_turn() {
    let volumes: Vec<map::Volume> = (0..100).map(|id| volume(id, 1, Some(1))).collect();
    let view = view(true, &volumes, &[1]);
    let mut orphans = OrphanedVolumes::default();
    orphans.stir(Time(0));
    let mut tried = BTreeSet::new();
    for _ in 0..volumes.len().div_ceil(MAX_AT_ONCE) {
        let next = orphans.deadline().expect("none is open");
        let names = orphans.look(next, NodeId(1), &view, |_| Held::No);
        assert!(names.len() <= MAX_AT_ONCE);
        tried.extend(names);
    }
    assert_eq!(tried.len(), volumes.len());
}

#[test]
fn a_volume_that_is_being_opened_is_looked_at_until_it_is_open() {
    let view = view(true, &[volume(1, 1, Some(1))], &[1]);
    let mut orphans = OrphanedVolumes::default();
    orphans.stir(Time(0));
    for _ in 0..3 {
        let next = orphans.deadline().expect("nobody knows how the opening ends");
        assert!(orphans.look(next, NodeId(1), &view, |_| Held::Perhaps).is_empty());
    }
    let next = orphans.deadline().expect("nobody knows how the opening ends");
    assert!(orphans.look(next, NodeId(1), &view, |_| Held::Open).is_empty());
    assert_eq!(orphans.deadline(), None);
    orphans.lost(next);
    let next = orphans.deadline().expect("it is open no more");
    assert_eq!(orphans.look(next, NodeId(1), &view, |_| Held::No).len(), 1);
}

#[test]
fn a_deleted_volume_that_was_cloned_has_an_owner() {
    let parent = map::Volume {
        name: map::hidden_name(VolumeId(1)),
        ..volume(1, 3, None)
    };
    let gone = map::Volume {
        name: map::hidden_name(VolumeId(3)),
        ..volume(3, 3, None)
    };
    let clone = map::Volume {
        parents: vec![map::Parent {
            volume: VolumeId(1),
            number: amita_types::SnapshotId(1),
            generation: Generation(2),
        }],
        ..volume(2, 3, None)
    };
    let opened = |volumes: &[map::Volume]| looked(&view(false, volumes, &[1]), 1);
    let (name, parent_alone) = (parent.name.clone(), parent.clone());
    assert_eq!(opened(&[parent, gone.clone(), clone]), [name]);
    assert!(opened(&[parent_alone, gone]).is_empty(), "nothing was cloned from it");
}
