//! Members that come, are up to date, or are no longer wanted.

use super::*;

fn syncing(group: &Group) -> Vec<StoreId> {
    group.syncing.iter().map(|member| member.store).collect()
}

/// Node 3 dies, its store is evicted, and it comes back.
fn returned(groups: u32) -> Scene {
    let mut scene = Scene::led(3, groups, 2);
    scene.make_volume(1);
    scene.raise(1);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(2)]));
    scene.rise(node(3));
    scene.run();
    scene
}

#[test]
fn a_store_that_is_back_rests_then_syncs_then_is_promoted() {
    let mut scene = returned(8);
    assert!(scene.groups().iter().all(|group| group.syncing.is_empty()), "it rests");
    assert_eq!(scene.machine.deadline(), Some(Moment(SECOND * 3)));
    scene.wait(1);
    assert_eq!(scene.calls.len(), 1, "one transaction for all");
    scene.run();
    for group in scene.groups() {
        let member = Syncing {
            store: store(3),
            since: Epoch(3),
        };
        assert_eq!((group.epoch, &group.syncing), (Epoch(3), &vec![member]));
        assert_eq!(group.in_sync, [store(1), store(2)]);
    }
    scene.claim(1, |group| group < 4);
    scene.run();
    for group in scene.groups() {
        let promoted = group.index.0 < 4;
        assert_eq!(group.in_sync.contains(&store(3)), promoted, "{group:?}");
        assert_eq!(group.syncing.is_empty(), promoted);
    }
    scene.claim(1, |_| true);
    scene.run();
    assert!(
        scene
            .groups()
            .iter()
            .all(|group| group.epoch == Epoch(4) && group.in_sync.len() == 3)
    );
    assert!(
        scene
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::Promoted { .. }))
    );
    assert_eq!(scene.machine.deadline(), None, "nothing is left to do");
}

/// A record that matters to nobody comes in the moment in which the rest ends, before the tick for it: the tick finds nothing
/// that is still to come. (Chaos found it: a store that had come back was never taken in again, in a cluster at rest.)
#[test]
fn what_becomes_due_is_done_whatever_is_told_first() {
    for comes_first in ["/amita/nobody", "/amita/volumes/other"] {
        let mut scene = returned(8);
        let due = scene.machine.deadline().expect("the rest ends");
        scene.now = Moment(due.0 + Duration::from_millis(1));
        scene.put(comes_first, &0);
        scene.tell(usize::MAX);
        if scene.calls.is_empty() {
            assert!(
                scene.machine.deadline().is_some_and(|at| at <= scene.now),
                "the tick is still wanted after {comes_first}"
            );
            scene.apply(Event::Tick);
        }
        assert_eq!(scene.calls.len(), 1, "after {comes_first}");
    }
}

/// The owner of the second volume has not said anything, though the first has.
#[test]
fn every_volume_that_was_ever_opened_counts() {
    let mut scene = returned(4);
    scene.make_volume(2);
    scene.raise(2);
    scene.make_volume(3);
    scene.wait(1);
    scene.run();
    scene.claim(1, |_| true);
    scene.run();
    assert!(scene.groups().iter().all(|group| syncing(group) == [store(3)]));
    scene.claim(2, |_| true);
    scene.run();
    assert!(
        scene.groups().iter().all(|group| group.in_sync.len() == 3),
        "the third was never opened"
    );
}

#[test]
fn a_pool_without_volumes_needs_no_claims() {
    let mut scene = Scene::led(3, 4, 1);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.run();
    scene.rise(node(3));
    scene.run();
    scene.wait(1);
    scene.run();
    assert!(
        scene
            .groups()
            .iter()
            .all(|group| group.in_sync.len() == 3 && group.epoch == Epoch(4))
    );
}

/// R2: the promotion is decided on what the old owner said, and a new owner raises the generation before it arrives.
#[test]
fn a_takeover_stops_a_promotion_that_is_under_way() {
    let mut scene = returned(4);
    scene.wait(1);
    scene.run();
    scene.claim(1, |_| true);
    scene.tell(usize::MAX);
    assert_eq!(scene.calls.len(), 1);
    scene.raise(1);
    scene.carry_out(0);
    assert!(scene.groups().iter().all(|group| syncing(group) == [store(3)]));
    scene.run();
    scene.wait(1);
    scene.run();
    assert!(
        scene.groups().iter().all(|group| syncing(group) == [store(3)]),
        "the old claim counts no more"
    );
    scene.claim(1, |_| true);
    scene.run();
    scene.wait(1);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync.len() == 3));
}

/// The watch tells the two records of a takeover one after the other: between them the old owner's word would do, and
/// the `raised` record would be the present one.
#[test]
fn half_a_takeover_is_not_taken_for_all_of_it() {
    let mut scene = returned(4);
    scene.wait(1);
    scene.run();
    scene.claim(1, |_| true);
    scene.raise(1);
    // The claim, the end of its batch, and the first record of the takeover.
    let before = scene.calls.len();
    scene.tell(1);
    scene.calls.truncate(before);
    while !matches!(scene.stream.front(), Some(Event::Record(record)) if record.key == map::raised_key(POOL)) {
        scene.tell(1);
        scene.calls.clear();
    }
    let mut fresh = Coordinator::new(Config::default());
    std::mem::swap(&mut fresh, &mut scene.machine);
    // As a machine that has not yet decided anything about the claim.
    fresh.calls.pending.clear();
    for known in fresh.groups.all.values_mut() {
        known.pending = None;
    }
    scene.machine = fresh;
    scene.tell(1);
    scene.wait(0);
    assert!(
        scene.calls.is_empty(),
        "raised is known, the volume's new generation is not"
    );
    scene.run();
    assert!(scene.groups().iter().all(|group| syncing(group) == [store(3)]));
}

/// Who was dropped while syncing and is listed anew must be called whole anew.
#[test]
fn a_claim_of_an_earlier_time_does_not_count() {
    let mut scene = returned(1);
    scene.wait(1);
    scene.run();
    scene.claim(1, |_| true);
    // Before the coordinator hears of it, the sequencer drops the store.
    let mut group = scene.group(0);
    group.syncing.clear();
    group.epoch = group.epoch.next();
    scene.put_group(&group);
    scene.run();
    scene.wait(2);
    scene.run();
    assert_eq!(scene.group(0).syncing[0].since, Epoch(5));
    scene.wait(60);
    scene.run();
    assert_eq!(
        syncing(&scene.group(0)),
        [store(3)],
        "the claim was of the time since epoch 3"
    );
}

#[test]
fn who_is_dropped_again_and_again_is_tried_less_and_less() {
    let mut scene = returned(1);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let start = scene.now;
        while scene.group(0).syncing.is_empty() {
            scene.wait(1);
            scene.run();
        }
        pauses.push((scene.now.0 - start.0).as_secs());
        let mut group = scene.group(0);
        group.syncing.clear();
        group.epoch = group.epoch.next();
        scene.put_group(&group);
        scene.run();
    }
    assert_eq!(pauses, [1, 1, 2, 4, 8, 16, 32, 60]);
}

#[test]
fn a_syncing_store_that_dies_is_dropped() {
    let mut scene = returned(4);
    scene.wait(1);
    scene.run();
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.run();
    for group in scene.groups() {
        assert_eq!(
            (group.epoch, group.in_sync.len(), group.syncing.len()),
            (Epoch(4), 2, 0)
        );
    }
}

/// An eviction leaves those that are being brought up to date where they are.
#[test]
fn an_eviction_keeps_syncing_members() {
    let mut scene = Scene::led(4, 2, 2);
    scene.die(node(4));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.run();
    scene.make_volume(1);
    scene.raise(1);
    scene.rise(node(4));
    scene.run();
    scene.wait(1);
    scene.run();
    let before = scene.group(0).syncing;
    assert_eq!(before.len(), 1);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.run();
    assert_eq!(
        (scene.group(0).syncing, scene.group(0).in_sync),
        (before, vec![store(1), store(2)])
    );
}

#[test]
fn a_store_that_its_living_node_does_not_serve_is_evicted_and_taken_back() {
    let mut scene = Scene::led(3, 4, 2);
    scene.served.insert(node(2), Vec::new());
    scene.rise(node(2));
    scene.run();
    scene.wait(1);
    assert!(scene.calls.is_empty(), "it gets a moment");
    scene.wait(1);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(3)]));
    assert!(matches!(&scene.warnings[..], [Warning::StoresEvicted { stores, groups: 4 }] if *stores == [store(2)]));
    scene.served.insert(node(2), vec![store(2)]);
    scene.rise(node(2));
    scene.run();
    scene.wait(1);
    scene.run();
    assert!(
        scene.groups().iter().all(|group| group.in_sync.len() == 3),
        "no volume, no claims"
    );
}

/// A node that starts serves nothing until its stores are mounted: that takes longer than a moment.
#[test]
fn a_store_that_is_being_mounted_is_given_time() {
    let mut scene = Scene::new(3, 4, 2);
    scene.served.insert(node(2), Vec::new());
    scene.rise(node(2));
    scene.read_all();
    scene.elect();
    scene.wait(59);
    assert!(scene.calls.is_empty());
    scene.wait(1);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(3)]));
}

/// Stopped in good order and started again before its lease ended: its store is being mounted, and is not evicted for that.
#[test]
fn a_node_that_is_started_anew_has_time_to_mount() {
    let mut scene = Scene::led(3, 4, 2);
    scene.rise_with(node(2), 0);
    scene.run();
    scene.served.insert(node(2), Vec::new());
    scene.rise_as(node(2), 2, 1);
    scene.run();
    scene.wait(30);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(1)));
    scene.served.insert(node(2), vec![store(2)]);
    scene.rise_as(node(2), 2, 1);
    scene.run();
    scene.wait(60);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(1)));
    // Now it has served: if it fails, it is evicted soon.
    scene.served.insert(node(2), Vec::new());
    scene.rise_as(node(2), 2, 1);
    scene.run();
    scene.wait(2);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync.len() == 2));
}

/// The desired members change: the new one joins, and the old one leaves only when the new one is in sync.
#[test]
fn a_move_never_costs_a_copy() {
    let mut scene = Scene::led(3, 8, 2);
    scene.spare(4);
    scene.make_volume(1);
    scene.raise(1);
    scene.run();
    scene.wait(1);
    for index in 0..8 {
        let mut group = scene.group(index);
        group.members = vec![store(1), store(2), store(4)];
        scene.put_group(&group);
    }
    let mut most = 0;
    for _ in 0..20 {
        scene.run();
        let moving = scene.groups().iter().filter(|group| !group.syncing.is_empty()).count();
        most = most.max(moving);
        for group in scene.groups() {
            assert!(group.in_sync.len() >= 3, "{group:?}");
        }
        scene.claim(1, |_| true);
    }
    assert_eq!(most, Recovery::default().rebalance.per_store, "a few at a time");
    assert!(
        scene
            .groups()
            .iter()
            .all(|group| group.in_sync == [store(1), store(2), store(4)])
    );
}

/// What stands at its least copies goes before what only moves, whatever the order of the groups.
#[test]
fn need_decides_the_order() {
    let mut scene = Scene::led(3, 8, 2);
    scene.spare(4);
    scene.make_volume(1);
    scene.raise(1);
    scene.run();
    scene.wait(1);
    let one = Concurrency {
        per_store: 1,
        per_pool: 8,
    };
    scene.machine.config.recovery = Recovery {
        critical: one,
        degraded: one,
        rebalance: one,
    };
    for index in 0..8 {
        let mut group = scene.group(index);
        group.members = vec![store(1), store(2), store(4)];
        if index == 5 {
            group.in_sync = vec![store(1), store(2)];
            group.epoch = group.epoch.next();
        }
        scene.put_group(&group);
    }
    scene.apply(Event::Deposed);
    scene.tell(usize::MAX);
    scene.elect();
    scene.run();
    let joining: Vec<u32> = (0..8).filter(|index| !scene.group(*index).syncing.is_empty()).collect();
    assert_eq!(joining, [5]);
}

/// Nothing can be brought up to date while an in-sync member does not answer: the attempt would only cost an epoch.
#[test]
fn nobody_joins_while_an_in_sync_member_is_away() {
    let mut scene = returned(2);
    scene.die(node(2));
    scene.run();
    scene.wait(10);
    scene.run();
    assert!(
        scene
            .groups()
            .iter()
            .all(|group| group.syncing.is_empty() && group.in_sync.len() == 2)
    );
    scene.rise(node(2));
    scene.run();
    scene.wait(1);
    scene.run();
    assert!(scene.groups().iter().all(|group| syncing(group) == [store(3)]));
}

#[test]
fn what_was_said_of_a_deleted_volume_goes() {
    let mut scene = returned(2);
    scene.wait(1);
    scene.run();
    scene.claim(1, |_| true);
    scene.run();
    let key = map::whole_key(POOL, VolumeId(1));
    assert!(scene.state.get(&key).is_some());
    let delete = Op::Delete {
        key: map::volume_key("v1"),
    };
    let call = Call {
        then: vec![delete],
        ..Call::default()
    };
    scene.state.txn(&call).unwrap();
    scene.run();
    assert!(scene.state.get(&key).is_none());
}

#[test]
fn a_volume_that_cannot_be_read_stops_promotions() {
    let mut scene = returned(2);
    scene.wait(1);
    scene.run();
    scene.put(&map::volume_key("odd"), &"no volume");
    scene.claim(1, |_| true);
    scene.run();
    assert!(scene.groups().iter().all(|group| syncing(group) == [store(3)]));
    scene
        .state
        .txn(&Call {
            then: vec![Op::Delete {
                key: map::volume_key("odd"),
            }],
            ..Call::default()
        })
        .unwrap();
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync.len() == 3));
}

/// What volumes' owners do is told too: a moment's doings at once, and by the elected one.
#[test]
fn what_owners_do_is_told() {
    let mut scene = Scene::led(3, 8, 2);
    scene.make_volume(1);
    scene.run();
    for index in 0..8 {
        let mut group = scene.group(index);
        group.epoch = group.epoch.next();
        group.in_sync = vec![store(1), store(2)];
        scene.put_group(&group);
        scene.run();
    }
    assert_eq!(scene.warnings, [], "others may follow");
    scene.wait(1);
    let evicted = Warning::EvictedByOwners {
        stores: vec![store(3)],
        groups: 8,
    };
    assert_eq!(scene.warnings.first(), Some(&evicted));
    scene.warnings.clear();
    let key = map::volume_key("v1");
    for owner in [1, 1, 2] {
        let mut volume: Volume = scene.state.get(&key).unwrap().json().unwrap();
        volume.owner = Some(node(owner));
        scene.put(&key, &volume);
        scene.run();
    }
    let taken = |from: Option<u32>, to: u32| Warning::VolumeTaken {
        volume: "v1".to_owned(),
        from: from.map(node),
        to: node(to),
    };
    let told: Vec<&Warning> = scene
        .warnings
        .iter()
        .filter(|warning| matches!(warning, Warning::VolumeTaken { .. }))
        .collect();
    assert_eq!(told, [&taken(None, 1), &taken(Some(1), 2)]);
    for warning in &scene.warnings {
        assert_eq!(warning.draft().text, warning.to_string());
    }
}
