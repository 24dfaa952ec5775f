//! Members that are gone.

use super::*;

#[test]
fn a_dead_nodes_stores_are_evicted_by_one_transaction() {
    let mut scene = Scene::led(3, 64, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    assert!(scene.calls.is_empty(), "it may be starting again");
    assert_eq!(scene.warnings, [Warning::NodeGone { node: node(3) }]);
    assert_eq!(scene.machine.deadline(), Some(Moment(Config::default().patience)));
    scene.wait(2);
    assert_eq!(scene.calls.len(), 1, "R12: one batch");
    scene.wait(1);
    assert_eq!(scene.calls.len(), 1, "nothing is asked twice");
    scene.run();
    for group in scene.groups() {
        assert_eq!((group.epoch, group.in_sync), (Epoch(2), vec![store(1), store(2)]));
    }
    assert_eq!(
        scene.warnings[1],
        Warning::Evicted {
            nodes: vec![node(3)],
            groups: 64
        }
    );
    assert_eq!(scene.machine.deadline(), None, "nothing is left to do");
}

#[test]
fn many_groups_go_in_batches_within_the_limits() {
    let mut scene = Scene::led(3, 1024, 1);
    scene.die(node(2));
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    assert!(
        (2..=4).contains(&scene.calls.len()),
        "a few at a time: {}",
        scene.calls.len()
    );
    scene.run();
    assert!(
        scene
            .groups()
            .iter()
            .all(|group| group.in_sync == [store(1)] && group.epoch == Epoch(2))
    );
}

#[test]
fn a_node_that_comes_back_in_time_is_not_evicted() {
    let mut scene = Scene::led(3, 4, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(1);
    scene.rise(node(3));
    scene.tell(usize::MAX);
    scene.wait(60);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(1)));
    assert_eq!(
        scene.warnings,
        [Warning::NodeGone { node: node(3) }, Warning::NodeBack { node: node(3) }]
    );
}

/// The watch has not told yet that the node is back: the compare on its key stops the eviction.
#[test]
fn a_node_that_is_back_before_the_eviction_arrives_stays() {
    let mut scene = Scene::led(3, 4, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.rise(node(3));
    scene.carry_out(0);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(1)));
    assert!(scene.calls.is_empty());
}

/// It comes back, stops the eviction, and dies again while nobody watches (the history was compacted away): a machine that
/// had believed the reply of its own transaction would take it for alive for ever.
#[test]
fn a_reply_does_not_tell_who_lives() {
    let mut scene = Scene::led(3, 4, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.rise(node(3));
    scene.carry_out(0);
    assert!(scene.calls.is_empty(), "it is not tried again in a hurry");
    scene.die(node(3));
    scene.read_all();
    scene.wait(2);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(2)]));
}

#[test]
fn below_min_copies_nobody_is_evicted_and_the_operator_is_told_once() {
    let mut scene = Scene::led(3, 8, 2);
    scene.die(node(2));
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    assert!(scene.calls.is_empty());
    let warning = Warning::TooFewAlive {
        pool: "p".to_owned(),
        groups: 8,
        nodes: vec![node(2), node(3)],
        min_copies: 2,
    };
    assert_eq!(scene.warnings.iter().filter(|own| **own == warning).count(), 1);
    scene.wait(100);
    assert_eq!(
        scene.warnings.iter().filter(|own| **own == warning).count(),
        1,
        "said once"
    );
    // One of them comes back: the other is evicted.
    scene.rise(node(2));
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(2)]));
    // And is told again, if it happens again.
    scene.die(node(2));
    scene.tell(usize::MAX);
    scene.wait(2);
    assert!(scene.calls.is_empty());
    assert!(matches!(scene.warnings.last(), Some(Warning::TooFewAlive { nodes, .. }) if *nodes == [node(2)]));
}

/// Nodes of a cluster that starts are not there all at once.
#[test]
fn a_cold_start_has_patience() {
    let mut scene = Scene::new(3, 4, 2);
    for number in 1..=3 {
        scene.die(node(number));
    }
    scene.rise(node(1));
    scene.read_all();
    scene.elect();
    scene.rise(node(2));
    scene.tell(usize::MAX);
    scene.wait(59);
    assert!(scene.calls.is_empty());
    assert_eq!(scene.machine.deadline(), Some(Moment(SECOND * 60)));
    scene.wait(1);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(2)]));
}

/// With node 3 not started yet, evicting node 2 would leave a set that cannot be written to all the same.
#[test]
fn those_left_must_be_alive_not_only_not_yet_dead() {
    let mut scene = Scene::new(3, 4, 2);
    scene.die(node(3));
    scene.read_all();
    scene.elect();
    scene.die(node(2));
    scene.tell(usize::MAX);
    scene.wait(3);
    assert!(scene.calls.is_empty());
    assert!(matches!(scene.warnings.last(), Some(Warning::TooFewAlive { .. })));
}

#[test]
fn who_is_not_elected_changes_nothing_but_remembers() {
    let mut scene = Scene::led(3, 4, 2);
    scene.apply(Event::Deposed);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(60);
    assert!(scene.calls.is_empty());
    assert_eq!(scene.machine.deadline(), None);
    scene.elect();
    assert_eq!(scene.calls.len(), 1, "who was seen to die needs no more patience");
}

/// A coordinator that was deposed while its transaction was under way changes nothing.
#[test]
fn an_eviction_of_a_past_election_fails() {
    let mut scene = Scene::led(3, 4, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    let delete = Call {
        then: vec![Op::Delete { key: election_key() }],
        ..Call::default()
    };
    scene.state.txn(&delete).unwrap();
    scene.put(&election_key(), &"another");
    scene.carry_out(0);
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(1)));
}

#[test]
fn a_lost_race_takes_what_is_there_and_goes_on_from_it() {
    let mut scene = Scene::led(3, 2, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    // A sequencer was first with group 0 (R12).
    let mut group = scene.groups().remove(0);
    group.epoch = group.epoch.next();
    group.in_sync.retain(|own| *own != store(3));
    scene.put(&map::group_key(POOL, GroupIndex(0)), &group);
    scene.carry_out(0);
    assert_eq!(scene.calls.len(), 1);
    assert_eq!(
        scene.calls[0].1.then.len(),
        1,
        "only the group that still names the dead store"
    );
    scene.run();
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(2)));
}

#[test]
fn an_unknown_outcome_is_read_back_before_anything_is_built_on_it() {
    for done in [false, true] {
        let mut scene = Scene::led(3, 4, 2);
        scene.die(node(3));
        scene.tell(usize::MAX);
        scene.wait(2);
        let (number, call) = scene.calls.remove(0);
        if done {
            scene.state.txn(&call).unwrap();
        }
        let result = Err(Error::Unknown {
            what: "lost".into(),
            endpoint: "e".into(),
        });
        scene.apply(Event::Ended { call: number, result });
        assert!(scene.calls.is_empty());
        scene.wait(1);
        assert!(scene.calls[0].1.is_read_only(), "R6: it is read back");
        scene.run();
        for group in scene.groups() {
            assert_eq!(
                (group.epoch, group.in_sync),
                (Epoch(2), vec![store(1), store(2)]),
                "done: {done}"
            );
        }
    }
}

#[test]
fn what_cannot_be_read_is_left_alone_and_named() {
    let mut scene = Scene::led(3, 2, 2);
    scene.put(&map::group_key(POOL, GroupIndex(1)), &"no group");
    scene.put("/amita/future/thing", &1);
    scene.tell(usize::MAX);
    assert!(matches!(&scene.warnings[..], [Warning::Unreadable { key, .. }] if key.ends_with("0000000001")));
    assert!(scene.warnings[0].to_string().contains("0000000001"));
    // The other groups are looked after; the compare keeps this one as it is, and it is not tried for ever.
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    for _ in 0..10 {
        if scene.calls.is_empty() {
            break;
        }
        scene.carry_out(0);
    }
    let first: Group = scene
        .state
        .get(&map::group_key(POOL, GroupIndex(0)))
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(first.in_sync, [store(1), store(2)]);
    assert_eq!(
        scene.state.get(&map::group_key(POOL, GroupIndex(1))).unwrap().value,
        b"\"no group\""
    );
}
