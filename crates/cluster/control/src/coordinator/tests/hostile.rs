//! Records that somebody wrote who may write, and means harm: they are left alone, and everybody else is served.

use super::*;
use amita_testkit::Random;
use amita_testkit::spoil::spoil;
use amita_types::condition::{Thresholds, condition_key, thresholds_key};
use amita_types::map::StoreDuty;
use amita_types::recovery::{Recovery as Settings, recovery_key};
use proptest::prelude::*;
use serde_json::{Value, json};

fn unreadable(scene: &Scene, key: &str) -> bool {
    scene
        .warnings
        .iter()
        .any(|warning| matches!(warning, Warning::Unreadable { key: own, .. } if own == key))
}

/// Node 3 dies, and its store leaves the groups of pool `p`, but for those that are left alone.
fn assert_served(scene: &mut Scene, but: &[usize]) {
    let before = scene.groups();
    scene.die(node(3));
    scene.run();
    scene.wait(3);
    scene.run();
    for (index, group) in scene.groups().into_iter().enumerate() {
        if but.contains(&index) {
            assert_eq!(group, before[index]);
        } else {
            assert!(!group.in_sync.contains(&store(3)), "{group:?}");
        }
    }
}

#[test]
fn a_group_with_a_store_in_both_sets_is_left_alone() {
    let mut scene = Scene::led(3, 4, 2);
    // Without one in use, whoever is syncing is whole.
    scene.make_volume(1);
    scene.raise(1);
    let good = scene.group(1);
    let key = map::group_key(POOL, good.index);
    let bad = Group {
        in_sync: vec![store(1), store(2)],
        syncing: vec![Syncing {
            store: store(1),
            since: good.epoch,
        }],
        ..good
    };
    scene.put_group(&bad);
    scene.run();
    scene.wait(10);
    scene.run();
    assert!(unreadable(&scene, &key));
    assert_eq!(scene.group(1), bad);
    scene.put(
        &map::group_key(POOL, GroupIndex(2)),
        &Group {
            epoch: Epoch(u64::MAX),
            ..scene.group(2)
        },
    );
    assert_served(&mut scene, &[1, 2]);
}

#[test]
fn a_pool_that_needs_no_copies_is_left_alone() {
    let mut scene = Scene::led(3, 4, 2);
    let mut pool: Pool = scene.state.get(&map::pool_key("p")).unwrap().json().unwrap();
    pool.id = PoolId(9);
    pool.name = "q".to_owned();
    pool.groups = 1;
    pool.kind = PoolKind::Replicated {
        copies: 1,
        min_copies: 0,
    };
    scene.put(&map::pool_key("q"), &pool);
    let lost = Store {
        class: String::new(),
        duty: StoreDuty::Normal,
        paused: None,
        id: store(99),
        node: NodeId(u32::MAX),
        path: String::new(),
        size_bytes: 0,
        weight: 0,
    };
    scene.put(&map::store_key(lost.id), &lost);
    let group = Group {
        index: GroupIndex(0),
        epoch: Epoch(1),
        members: vec![lost.id],
        in_sync: vec![lost.id],
        syncing: Vec::new(),
    };
    scene.put(&map::group_key(pool.id, group.index), &group);
    scene.run();
    for _ in 0..3 {
        scene.wait(61);
        scene.run();
    }
    assert!(unreadable(&scene, &map::pool_key("q")));
    assert_served(&mut scene, &[]);
}

#[test]
fn a_record_of_another_name_or_number_than_its_key_is_left_alone() {
    let mut scene = Scene::led(3, 2, 2);
    let pool: Pool = scene.state.get(&map::pool_key("p")).unwrap().json().unwrap();
    let harmless = PoolKind::Replicated {
        copies: 1,
        min_copies: 1,
    };
    let other = |name: &str| Pool {
        name: name.to_owned(),
        kind: harmless,
        ..pool.clone()
    };
    // Its number is that of `p`; its key is another one's.
    scene.put(&map::pool_key("a"), &other("a"));
    scene.put(&map::pool_key("b"), &other("p"));
    let moved: Store = scene.state.get(&map::store_key(store(1))).unwrap().json().unwrap();
    scene.put(&map::store_key(store(50)), &Store { node: node(3), ..moved });
    scene.run();
    for key in [map::pool_key("a"), map::pool_key("b"), map::store_key(store(50))] {
        assert!(unreadable(&scene, &key), "{key}");
    }
    // Two of three die: with one copy as the least, they would be evicted.
    scene.die(node(2));
    assert_served_nothing(&mut scene);
    // When the first one's record goes, the number is the other's: that is what deleting it means.
    let delete = Op::Delete {
        key: map::pool_key("p"),
    };
    let call = Call {
        then: vec![delete],
        ..Call::default()
    };
    scene.state.txn(&call).unwrap();
    scene.min_copies = 1;
    scene.run();
    scene.wait(3);
    scene.run();
    assert_eq!(scene.group(0).in_sync, [store(1)]);
}

/// Node 3 dies, and nobody can be evicted.
fn assert_served_nothing(scene: &mut Scene) {
    scene.die(node(3));
    scene.run();
    scene.wait(3);
    scene.run();
    for group in scene.groups() {
        assert_eq!(group.in_sync.len(), 3, "{group:?}");
    }
}

/// A valid record of each kind that the coordinator hears, with its key.
fn valid(random: &mut Random) -> (String, Value) {
    let number = random.within(1, 5) as u32;
    let pool = PoolId(random.within(1, 2) as u32);
    match random.below(13) {
        0 => (
            map::node_key(&format!("n{number}")),
            json!({"id": number, "name": format!("n{number}"), "fabric": "127.0.0.1:1", "cores": 1, "site": "s"}),
        ),
        1 => (
            map::store_key(store(number)),
            json!({"id": store(number), "node": number, "path": "/x", "size_bytes": 1, "weight": 1, "duty": "draining"}),
        ),
        2 | 3 => (
            map::pool_key(&format!("p{pool}")),
            json!({"id": pool, "name": format!("p{pool}"), "kind": {"type": "replicated", "copies": 3, "min_copies": 2},
                "groups": 4, "chunk_bytes": 4 << 20}),
        ),
        4..=6 => {
            let index = GroupIndex(random.below(4) as u32);
            let sets: Vec<StoreId> = (1..=3).map(store).collect();
            (
                map::group_key(pool, index),
                json!({"index": index, "epoch": random.within(1, 3), "members": [sets[0], sets[1], store(number)],
                    "in_sync": [sets[0], sets[1]], "syncing": [{"store": sets[2], "since": 1}]}),
            )
        }
        7 => (
            map::volume_key(&format!("v{number}")),
            json!({"id": number, "name": format!("v{number}"), "pool": "p1", "size_bytes": 4096, "generation": 1, "owner": number}),
        ),
        8 => (
            map::whole_key(pool, VolumeId(u64::from(number))),
            json!({"volume": number, "generation": 1,
                "members": [{"group": 0, "store": store(3), "since": 1}, {"group": 1, "store": store(3), "since": 1}]}),
        ),
        9 => (map::raised_key(pool), json!({"volume": number, "generation": 1})),
        10 => (
            map::live_key(node(number)),
            json!({"session": 1, "pid": 7, "stores": [store(number)]}),
        ),
        11 => (
            condition_key(node(number), 0),
            json!({"stores": [{"store": store(number), "capacity_bytes": 100, "free_bytes": 10}],
                "troubles": [{"volume": 1, "what": "reads", "why": "x"}]}),
        ),
        12 if number == 1 => (thresholds_key(), json!(Thresholds::default())),
        12 if number == 2 => (recovery_key(), json!(Settings::default())),
        _ => (
            format!("{}health/{number}/0", map::PREFIX),
            json!({"beat": 1, "stores": [{"store": store(1), "slow": true, "for_s": 1000, "why": "x"}]}),
        ),
    }
}

/// Writes such records for a while, each spoiled by chance, deletes some, and lets the coordinator do what it will.
fn harm(scene: &mut Scene, seed: u64, allowed: impl Fn(&str) -> bool) {
    let mut random = Random::new(seed);
    let mut others = Vec::new();
    for _ in 0..150 {
        let (key, mut record) = valid(&mut random);
        others.push(record.clone());
        let changes = random.below(3);
        spoil(&mut random, &mut record, &others, changes);
        if allowed(&key) {
            let call = match random.percent(15) {
                true => Call {
                    then: vec![Op::Delete { key }],
                    ..Call::default()
                },
                false => Call::put(key, serde_json::to_vec(&record).unwrap()),
            };
            scene.state.txn(&call).unwrap();
        }
        match random.below(12) {
            0 => scene.wait(random.within(1, 61) as u32),
            1 => scene.reread(),
            2 => scene.apply(Event::Deposed),
            3 => scene.elect(),
            _ => {}
        }
        scene.tell(random.below(6) as usize);
        // What is lawful is judged by the sets that somebody else spoils: carried out, and not judged here.
        while random.percent(60) && !scene.calls.is_empty() {
            let (number, call) = scene.calls.remove(0);
            let result = scene.state.txn(&call).map_err(Error::from);
            scene.apply(Event::Ended { call: number, result });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_anywhere_nothing_panics(seed in any::<u64>()) {
        let mut scene = Scene::led(4, 4, 2);
        scene.machine.config.planning = seed.is_multiple_of(2);
        harm(&mut scene, seed, |_| true);
    }

    #[test]
    fn whatever_is_written_of_pools_groups_and_nodes_others_are_served(seed in any::<u64>()) {
        let mut scene = Scene::led(3, 4, 2);
        let own = map::groups_prefix(POOL);
        let kinds = ["nodes/", "pools/", "groups/", "whole/", "volumes/", "condition/"];
        harm(&mut scene, seed, |key| {
            !key.starts_with(&own) && kinds.iter().any(|kind| key.starts_with(&format!("{}{kind}", map::PREFIX)))
        });
        scene.read_all();
        scene.elect();
        assert_served(&mut scene, &[]);
    }
}

/// Puts what no record is under a key.
fn spoiled(scene: &mut Scene, key: &str, text: &str) {
    scene.state.txn(&Call::put(key, text.as_bytes().to_vec())).unwrap();
    scene.run();
}

fn delete(scene: &mut Scene, key: &str) {
    let call = Call {
        then: vec![Op::Delete { key: key.to_owned() }],
        ..Call::default()
    };
    scene.state.txn(&call).unwrap();
    scene.run();
}

#[test]
fn what_was_said_of_a_record_goes_with_it() {
    let mut scene = Scene::led(3, 2, 2);
    for number in 0..1000 {
        // It says something else each time, and the keys are others: none is ever mended.
        let (same, other) = (map::pool_key("x"), map::pool_key(&format!("y{number}")));
        spoiled(&mut scene, &same, &format!(r#"{{"id":"no number {number}"}}"#));
        spoiled(&mut scene, &other, "{}");
        delete(&mut scene, &other);
    }
    assert_eq!(scene.machine.out.unreadable.len(), 1);
    let told = |scene: &Scene, key: &str| {
        let of = |warning: &&Warning| matches!(warning, Warning::Unreadable { key: own, .. } if own == key);
        scene.warnings.iter().filter(of).count()
    };
    let key = map::pool_key("x");
    let before = told(&scene, &key);
    assert!(before >= 1000, "what is news is told: {before}");
    spoiled(&mut scene, &key, r#"{"id":"no number 999"}"#);
    assert_eq!(told(&scene, &key), before, "once for as long as it is so");
    delete(&mut scene, &key);
    assert!(scene.machine.out.unreadable.is_empty());
}

#[test]
fn what_is_kept_of_records_that_nobody_can_read_is_bounded() {
    let mut scene = Scene::led(3, 2, 2);
    let long = "x".repeat(10_000);
    for number in 0..500 {
        let key = map::store_key(StoreId(1000 + number)) + &long;
        spoiled(&mut scene, &key, &format!(r#"{{"id":"{long}"}}"#));
    }
    let kept = &scene.machine.out.unreadable;
    let bytes: usize = kept.iter().map(|(key, what)| key.len() + what.len()).sum();
    assert!(
        !kept.is_empty() && kept.len() <= 256 && bytes < 1 << 20,
        "{} of {bytes} bytes",
        kept.len()
    );
    assert_served(&mut scene, &[]);
}

/// A store is forgotten when its record goes, and no other.
#[test]
fn a_store_is_not_forgotten_by_another_key() {
    let mut scene = Scene::led(3, 4, 2);
    let own = map::store_key(store(3));
    let id = store(3).to_string();
    for key in [
        own.replace(&id, &format!("x/{id}")),
        own.to_uppercase().replace("/AMITA/STORES/", "/amita/stores/"),
    ] {
        if key != own {
            spoiled(&mut scene, &key, "{}");
            delete(&mut scene, &key);
        }
    }
    assert!(scene.machine.fleet.stores.contains_key(&store(3)));
    assert_served(&mut scene, &[]);
    delete(&mut scene, &own);
    assert!(!scene.machine.fleet.stores.contains_key(&store(3)));
}
