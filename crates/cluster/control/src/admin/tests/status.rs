use super::*;
use amita_types::condition::{Condition, Failing, StoreSpace, Trouble, condition_key};
use amita_types::map::Suspect;
use amita_types::{SnapshotId, VolumeId};

fn say(meta: &dyn Transact, node: u32, percent: u64, troubles: Vec<Trouble>) {
    let space = StoreSpace {
        store: store_of(NodeId(node)).id,
        capacity_bytes: 100 << 20,
        free_bytes: (100 - percent) << 20,
    };
    let stores = vec![space];
    let value = json(&Condition { stores, troubles });
    meta.txn(&Call::put(condition_key(NodeId(node), 0), value)).unwrap();
}

fn names(status: &Status) -> Vec<&'static str> {
    status.facts.iter().map(|fact| fact.name).collect()
}

#[test]
fn it_is_never_ok_while_no_volume_opens_and_a_move_says_so_at_once() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "v", "main", 1 << 30).unwrap();
    assert_eq!(status(&meta).unwrap().health, "ok");
    let why = "the metadata is older than what store 7 knows".to_owned();
    meta.txn(&Call::put(map::suspect_key(NodeId(2)), json(&Suspect { why })))
        .unwrap();
    let found = status(&meta).unwrap();
    assert_eq!((found.health, names(&found)), ("blocked", vec!["metadata-older"]));
    assert!(found.warnings[0].contains("older than what store 7 knows"));
    register(
        &meta,
        "n1",
        &Served {
            fabric: "127.0.0.1:1",
            fabric2: None,
            nbd: Some("127.0.0.1:2"),
            nbd_socket: None,
            nvme: None,
            metrics: None,
            api: None,
            cores: 2,
            gateway: false,
            unprotected: false,
        },
    )
    .unwrap();
    let refused = move_volume(&meta, "v", "n1").unwrap_err();
    assert!(matches!(refused, AdminError::NothingOpens { .. }), "{refused}");
}

#[test]
fn it_tells_how_full_pools_are_and_what_fails_at_hosts() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let volume = create_volume(&meta, "v", "main", 1 << 30).unwrap();
    for (node, percent) in [(1, 10), (2, 20), (3, 84)] {
        say(&meta, node, percent, Vec::new());
    }
    let found = status(&meta).unwrap();
    assert_eq!(found.health, "ok");
    let pool = &found.pools[0];
    assert_eq!(
        (pool.raw_bytes, pool.used_bytes, pool.fullest_percent),
        (300 << 20, 114 << 20, Some(84))
    );
    say(&meta, 3, 85, Vec::new());
    let found = status(&meta).unwrap();
    assert_eq!((found.health, names(&found)), ("degraded", vec!["pool-near-full"]));
    let trouble = |volume| Trouble {
        volume,
        what: Failing::Writes,
        why: "no space left".to_owned(),
    };
    say(&meta, 3, 97, vec![trouble(volume.id), trouble(VolumeId(77))]);
    let found = status(&meta).unwrap();
    assert_eq!(
        (found.health, names(&found)),
        ("blocked", vec!["writes-fail", "pool-full"])
    );
    assert_eq!(found.volumes[0].locked, None);
    let locked = Trouble {
        what: Failing::Locked,
        ..trouble(volume.id)
    };
    say(&meta, 3, 97, vec![trouble(volume.id), locked]);
    let found = status(&meta).unwrap();
    assert_eq!(names(&found), ["writes-fail", "volume-locked", "pool-full"]);
    for found in [found.volumes, volume_statuses(&meta).unwrap()] {
        assert_eq!(found[0].locked.as_deref(), Some("no space left"));
    }
    say(&meta, 3, 97, vec![trouble(volume.id)]);
    set_thresholds(&meta, |own| {
        (own.near_full_percent, own.full_percent) = (98, 99);
    })
    .unwrap();
    assert_eq!(names(&status(&meta).unwrap()), ["writes-fail"]);
    assert!(set_thresholds(&meta, |own| own.near_full_percent = 99).is_err());
    assert!(set_thresholds(&meta, |own| own.full_percent = 101).is_err());
    // What a node that is gone has said is not what is so.
    let live = map::live_key(NodeId(3));
    let call = Call {
        then: vec![Op::Delete { key: live }],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
    assert!(!names(&status(&meta).unwrap()).contains(&"writes-fail"));
}

/// One of each kind of record that the status reads, besides what was there.
#[test]
fn a_record_that_nobody_can_read_is_a_fact_and_the_others_are_shown() {
    let meta = cluster_of(3);
    let pool = create_pool(&meta, &spec(3)).unwrap();
    let volume = create_volume(&meta, "v", "main", 1 << 30).unwrap();
    let keys = [
        map::node_key("bad"),
        map::pool_key("bad"),
        map::volume_key("bad"),
        map::export_key(VolumeId(77)),
        map::host_key("nqn.bad"),
        map::subsystem_key("bad"),
        map::store_key(StoreId(77)),
        map::group_key(pool.id, GroupIndex(0)),
        amita_types::condition::thresholds_key(),
        amita_types::condition::failing_channel_key("bad"),
    ];
    for key in &keys {
        meta.txn(&Call::put(key, "?")).unwrap();
    }
    let found = status(&meta).unwrap();
    assert_eq!(found.health, "degraded");
    let told: Vec<&String> = found.facts.iter().flat_map(|fact| &fact.objects).collect();
    for key in &keys {
        assert!(told.contains(&key), "{key}: {:?}", found.warnings);
    }
    assert!(names(&found).iter().all(|name| *name == "record-unreadable"));
    assert_eq!((found.nodes.len(), found.stores.len(), found.pools.len()), (3, 3, 1));
    assert_eq!(found.volumes[0].volume, volume);
    // Who finds something against the metadata is believed, whatever it says: as by who opens volumes.
    meta.txn(&Call::put(map::suspect_key(NodeId(2)), "?")).unwrap();
    let found = status(&meta).unwrap();
    assert_eq!((found.health, found.facts[0].name), ("blocked", "metadata-older"));
}

#[test]
fn records_that_say_other_numbers_than_can_be_do_not_stop_the_status() {
    let meta = cluster_of(3);
    let pool = create_pool(&meta, &spec(3)).unwrap();
    for node in 1..=3 {
        let space = StoreSpace {
            store: store_of(NodeId(node)).id,
            capacity_bytes: u64::MAX,
            free_bytes: 0,
        };
        let stores = vec![space];
        let troubles = Vec::new();
        let value = json(&Condition { stores, troubles });
        meta.txn(&Call::put(condition_key(NodeId(node), 0), value)).unwrap();
    }
    assert_eq!(status(&meta).unwrap().pools[0].raw_bytes, u64::MAX);
    // More of them than can be shown.
    for number in 0..1000 {
        meta.txn(&Call::put(map::export_key(VolumeId(number)), "?")).unwrap();
    }
    let twice = map::Pool {
        name: "twice".to_owned(),
        groups: 0,
        ..pool
    };
    meta.txn(&Call::put(map::pool_key("twice"), json(&twice))).unwrap();
    let found = status(&meta).unwrap();
    assert!(found.facts.len() < 40, "{}", found.facts.len());
    assert!(
        found.warnings.iter().any(|text| text.contains("more")),
        "{:?}",
        found.warnings.last()
    );
    assert_eq!(found.pools.len(), 1, "one that cannot be is left alone");
}

/// Whom clones come from is said where it can be read, and is no reason to show nothing.
#[test]
fn what_a_clone_comes_from_need_not_be_readable() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let origin = create_volume(&meta, "db", "main", 1 << 30).unwrap();
    for (index, number) in (1..=300).enumerate() {
        let name = format!("copy{number:03}");
        let parent = map::Parent {
            volume: origin.id,
            number: SnapshotId(number),
            generation: Generation(1),
        };
        let clone = Volume {
            id: VolumeId(100 + index as u64),
            name: name.clone(),
            parents: vec![parent],
            ..origin.clone()
        };
        let snapshot = map::Snapshot {
            volume: origin.id,
            number: SnapshotId(number),
            name: format!("s{number}"),
            size_bytes: 1 << 30,
            taken_at: 1,
            labels: std::collections::BTreeMap::new(),
            protected: false,
            clones: 1,
            set: None,
            mark: false,
            hidden: false,
            state: map::SnapshotState::Sealed(Generation(1)),
        };
        meta.txn(&Call::put(map::volume_key(&name), json(&clone))).unwrap();
        let key = map::snapshot_key(origin.id, SnapshotId(number));
        meta.txn(&Call::put(key, json(&snapshot))).unwrap();
    }
    let bad = map::snapshot_key(origin.id, SnapshotId(7));
    meta.txn(&Call::put(&bad, "?")).unwrap();
    meta.txn(&Call::put(map::trash_key(VolumeId(77)), "?")).unwrap();
    let found = status(&meta).unwrap();
    let parent = |name: &str| {
        let mut volumes = found.volumes.iter();
        let shown = volumes.find(|found| found.volume.name == name).unwrap();
        shown.parent.clone().unwrap()
    };
    assert_eq!(parent("copy300"), "db@s300");
    assert_eq!(parent("copy007"), format!("{}@7", origin.id), "its numbers");
    assert_eq!(names(&found), ["record-unreadable"; 2]);
    let told: Vec<&String> = found.facts.iter().flat_map(|fact| &fact.objects).collect();
    assert!(told.contains(&&bad), "{told:?}");
}
