mod backup;
mod claim;
mod clone;
mod copy;
mod export;
mod figures;
mod initiators;
mod iscsi;
mod keys;
mod label;
mod limit;
mod links;
mod migrate;
mod mirror;
mod node;
mod nvme;
mod pool;
mod precondition;
mod priority;
mod quota;
mod races;
mod ready;
mod rekey;
mod revert;
mod set;
mod shrink;
mod snapshot;
mod status;
mod topology;
mod trash;
mod unreadable;

use super::*;
use crate::agent::STOPPED;
use amita_metadata::Op;
use amita_metadata::model::State;
use amita_metadata::{Error, Reply};
use amita_types::map::Live;
use amita_types::map::{PoolKind, Volume};
use amita_types::placement::Level;
use amita_types::{Epoch, Generation, GroupIndex};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn empty() -> Mutex<State> {
    Mutex::new(State::new())
}

fn rise(meta: &dyn Transact, node: NodeId, pid: u32) {
    let live = serde_json::to_vec(&Live {
        stores: None,
        session: 1,
        pid,
        version: map::METADATA_VERSION,
    })
    .unwrap();
    meta.txn(&Call::put(map::live_key(node), live)).unwrap();
}

fn store_of(node: NodeId) -> Store {
    store_record(StoreId(u128::from(node.0) << 64 | 7), node, "/dev/x", 64 << 30)
}

/// A cluster whose nodes `n1`, `n2`, ... are alive and have a store each.
fn cluster_of(nodes: u32) -> Mutex<State> {
    let meta = empty();
    init_cluster(&meta, ClusterId(9)).unwrap();
    for number in 1..=nodes {
        let node = register_node(&meta, &format!("n{number}"), "127.0.0.1:1", None, 2).unwrap();
        rise(&meta, node.id, 1);
        register_store(&meta, &store_of(node.id)).unwrap();
    }
    meta
}

fn spec(copies: u8) -> PoolSpec {
    PoolSpec {
        name: "main".to_owned(),
        copies,
        min_copies: copies.div_ceil(2),
        groups: 64,
        chunk_bytes: DEFAULT_CHUNK_BYTES,
        level: Level::Node,
        class: None,
    }
}

#[test]
fn a_cluster_is_made_once() {
    let meta = empty();
    assert_eq!(cluster(&meta), Err(AdminError::NoCluster));
    let made = init_cluster(&meta, ClusterId(1)).unwrap();
    assert_eq!((made.id, made.version), (ClusterId(1), map::NEW_CLUSTER_VERSION));
    assert_eq!(
        init_cluster(&meta, ClusterId(2)).unwrap(),
        made,
        "the second finds the first"
    );
    assert_eq!(cluster(&meta).unwrap(), made);
}

#[test]
fn a_node_keeps_its_number_with_its_name() {
    let meta = empty();
    let first = register_node(&meta, "a", "1.2.3.4:5", None, 4).unwrap();
    let second = register_node(&meta, "b", "1.2.3.4:6", Some("1.2.3.4:10809"), 4).unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(node_number(&meta, "a").unwrap(), first.id);
    let again = register_node(&meta, "a", "9.9.9.9:5", None, 8).unwrap();
    assert_eq!(
        (again.id, again.fabric.as_str(), again.cores),
        (first.id, "9.9.9.9:5", 8)
    );
    let before = meta.lock().unwrap().revision();
    register_node(&meta, "a", "9.9.9.9:5", None, 8).unwrap();
    assert_eq!(
        meta.lock().unwrap().revision(),
        before,
        "nothing changed, nothing is written"
    );
    assert_eq!(nodes(&meta).unwrap(), [again, second]);
    assert_eq!(node_number(&meta, "c").unwrap(), NodeId(3));
}

#[test]
fn an_operators_weight_outlives_the_stores_registration() {
    let meta = cluster_of(1);
    let mut store = stores(&meta).unwrap().remove(0);
    assert_eq!(store.weight, 64 << 10, "MiB");
    store.weight = 5;
    meta.txn(&Call::put(
        map::store_key(store.id),
        serde_json::to_vec(&store).unwrap(),
    ))
    .unwrap();
    register_store(
        &meta,
        &Store {
            path: "/dev/y".to_owned(),
            weight: 77,
            ..store.clone()
        },
    )
    .unwrap();
    let found = stores(&meta).unwrap().remove(0);
    assert_eq!((found.weight, found.path.as_str()), (5, "/dev/y"));
}

#[test]
fn a_pool_places_all_of_its_groups() {
    let meta = cluster_of(5);
    let pool = create_pool(&meta, &PoolSpec { groups: 512, ..spec(3) }).unwrap();
    assert_eq!(
        pool.kind,
        PoolKind::Replicated {
            copies: 3,
            min_copies: 2
        }
    );
    let groups = groups(&meta, pool.id).unwrap();
    assert_eq!(groups.len(), 512);
    for (index, group) in groups.iter().enumerate() {
        assert_eq!((group.index, group.epoch), (GroupIndex(index as u32), Epoch(1)));
        assert_eq!(group.members, group.in_sync);
        let homes: BTreeSet<u128> = group.members.iter().map(|store| store.0 >> 64).collect();
        assert_eq!(homes.len(), 3, "no two copies on one node");
    }
    assert_eq!(pools(&meta).unwrap(), std::slice::from_ref(&pool));
    assert_eq!(
        create_pool(&meta, &spec(3)),
        Err(AdminError::Exists {
            what: "pool",
            name: "main".to_owned()
        })
    );
    let other = create_pool(
        &meta,
        &PoolSpec {
            name: "other".to_owned(),
            ..spec(1)
        },
    )
    .unwrap();
    assert_ne!(other.id, pool.id);
}

#[test]
fn a_pool_that_cannot_be_placed_says_what_is_missing() {
    let meta = cluster_of(2);
    let error = create_pool(&meta, &spec(3)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pool main: 3 copies need 3 different nodes, but only 2 nodes have a store; add stores, or take fewer copies"
    );
    assert!(pools(&meta).unwrap().is_empty());

    // A third has a store and is not alive: it is named, and no group waits for it.
    let third = register_node(&meta, "n3", "127.0.0.1:1", None, 2).unwrap();
    register_store(&meta, &store_of(third.id)).unwrap();
    let error = create_pool(&meta, &spec(3)).unwrap_err();
    assert!(
        matches!(&error, AdminError::NodesAway { away, .. } if *away == ["n3"]),
        "{error}"
    );
    assert!(error.to_string().contains("start n3"), "{error}");
    rise(&meta, third.id, STOPPED);
    assert!(
        matches!(create_pool(&meta, &spec(3)), Err(AdminError::NodesAway { .. })),
        "it said that it stops"
    );
    rise(&meta, third.id, 4711);
    assert!(create_pool(&meta, &spec(3)).is_ok());
    let two = create_pool(
        &meta,
        &PoolSpec {
            name: "disks".to_owned(),
            level: Level::Disk,
            ..spec(3)
        },
    );
    assert!(two.is_ok());
}

#[test]
fn settings_that_make_no_sense_are_refused_with_what_would() {
    let meta = cluster_of(3);
    let bad = [
        PoolSpec { copies: 0, ..spec(3) },
        PoolSpec { copies: 9, ..spec(3) },
        PoolSpec {
            min_copies: 0,
            ..spec(3)
        },
        PoolSpec {
            min_copies: 4,
            ..spec(3)
        },
        PoolSpec { groups: 0, ..spec(3) },
        PoolSpec { groups: 48, ..spec(3) },
        PoolSpec {
            groups: MAX_GROUPS * 2,
            ..spec(3)
        },
        PoolSpec {
            chunk_bytes: 4096,
            ..spec(3)
        },
        PoolSpec {
            chunk_bytes: 3 << 20,
            ..spec(3)
        },
        PoolSpec {
            chunk_bytes: 8 << 20,
            ..spec(3)
        },
    ];
    for spec in bad {
        let error = create_pool(&meta, &spec).unwrap_err();
        assert!(matches!(error, AdminError::BadSetting { .. }), "{spec:?}: {error}");
        assert!(error.to_string().contains("choose"), "{error}");
    }
    for name in ["", "-x", ".x", "a/b", "a b", "ä", &"x".repeat(MAX_NAME_BYTES + 1)] {
        assert!(
            matches!(check_name("pool", name), Err(AdminError::BadName { .. })),
            "{name:?}"
        );
    }
    for name in ["a", "A-1_b.c", &"x".repeat(MAX_NAME_BYTES)] {
        check_name("pool", name).unwrap();
    }
}

#[test]
fn volumes_are_made_listed_and_deleted_and_their_numbers_are_never_given_again() {
    let meta = cluster_of(3);
    let error = create_volume(&meta, "v", "main", 4096).unwrap_err();
    assert!(error.to_string().contains("amita pool create"), "{error}");
    create_pool(&meta, &spec(3)).unwrap();
    let error = create_volume(&meta, "v", "mian", 4096).unwrap_err();
    assert_eq!(error.to_string(), "there is no pool named mian; there is main");
    for size in [0, 1, 4095, 4097, MAX_VOLUME_BYTES + 4096, u64::MAX] {
        let error = create_volume(&meta, "v", "main", size).unwrap_err();
        assert!(matches!(error, AdminError::BadSetting { .. }), "{size}: {error}");
    }
    let error = create_volume(&meta, "v", "main", 10_000).unwrap_err().to_string();
    assert!(
        error.contains("8192") && error.contains("12288"),
        "it names the nearest: {error}"
    );
    let first = create_volume(&meta, "v", "main", 1 << 30).unwrap();
    assert_eq!((first.generation, first.owner), (Generation(0), None));
    assert!(matches!(
        create_volume(&meta, "v", "main", 4096),
        Err(AdminError::Exists { .. })
    ));
    let second = create_volume(&meta, "w", "main", 4096).unwrap();
    assert_eq!(volumes(&meta).unwrap(), [first.clone(), second]);
    assert_eq!(volume(&meta, "v").unwrap(), first);
    assert_eq!(
        volume(&meta, "x").unwrap_err().to_string(),
        "there is no volume named x; there are v, w"
    );

    assert_eq!(delete(&meta, "v", false).unwrap().volume, first);
    assert!(matches!(delete(&meta, "v", false), Err(AdminError::NoSuch { .. })));
    let again = create_volume(&meta, "v", "main", 1 << 30).unwrap();
    assert!(again.id > first.id, "the number of a deleted volume is not given again");
}

#[test]
fn a_volume_that_is_open_is_not_deleted_by_mistake() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let made = create_volume(&meta, "v", "main", 4096).unwrap();
    let open = Volume {
        owner: Some(NodeId(2)),
        generation: Generation(1),
        ..made
    };
    meta.txn(&Call::put(map::volume_key("v"), serde_json::to_vec(&open).unwrap()))
        .unwrap();
    // Nobody answers for it.
    assert_eq!(
        delete(&meta, "v", false),
        Err(AdminError::OwnerSilent {
            name: "v".to_owned(),
            node: "n2".to_owned()
        })
    );
    // Its owner says that clients use it.
    let key = map::closing_key(open.id);
    let says = |clients| {
        let (closing, _) = get::<map::Closing>(&meta, &key).unwrap().expect("it is asked");
        assert_eq!((closing.owner, closing.force), (NodeId(2), clients == Some(9)));
        match clients {
            Some(9) | None => meta.txn(&Call {
                then: vec![Op::Delete { key: key.clone() }],
                ..Call::default()
            }),
            clients => meta.txn(&Call::put(key.clone(), json(&map::Closing { clients, ..closing }))),
        }
        .unwrap();
        true
    };
    assert_eq!(
        delete_volume(&meta, "v", false, 9, &mut || says(Some(2))),
        Err(AdminError::InUse {
            name: "v".to_owned(),
            node: "n2".to_owned(),
            clients: 2
        })
    );
    assert!(volume(&meta, "v").is_ok(), "nothing was deleted so far");
    // By force, it is waited for.
    let deleted = delete_volume(&meta, "v", true, 9, &mut || {
        assert!(volume(&meta, "v").is_err(), "first the record goes");
        says(Some(9))
    });
    assert_eq!(deleted.unwrap().unheard, None);
    // Who had it open is known as dead: it is not waited for, and that is said.
    let dead = Volume {
        owner: Some(NodeId(9)),
        ..open.clone()
    };
    meta.txn(&Call::put(map::volume_key("v"), serde_json::to_vec(&dead).unwrap()))
        .unwrap();
    assert!(delete(&meta, "v", true).unwrap().gone);
    let put = |revision_of: &Volume| {
        meta.txn(&Call::put(
            map::volume_key("v"),
            serde_json::to_vec(revision_of).unwrap(),
        ))
        .unwrap();
    };
    put(&open);
    assert_eq!(delete(&meta, "v", true).unwrap().unheard, Some("n2".to_owned()));
    // Nobody uses it: the owner closes it.
    put(&open);
    let deleted = delete_volume(&meta, "v", false, 9, &mut || says(None));
    assert_eq!(deleted.unwrap().unheard, None);
    // Somebody opens it just then: it is asked anew.
    put(&open);
    let mut asked = 0;
    let deleted = delete_volume(&meta, "v", false, 9, &mut || {
        asked += 1;
        if asked == 1 {
            let generation = Generation(2);
            put(&Volume {
                generation,
                ..open.clone()
            });
        }
        says(None)
    });
    assert_eq!((deleted.unwrap().volume.generation, asked), (Generation(2), 2));
    put(&open);
    rise(&meta, NodeId(2), STOPPED);
    assert!(delete(&meta, "v", false).is_ok(), "its owner is gone");
    assert_eq!(
        get::<map::Closing>(&meta, &key).unwrap(),
        None,
        "no wish is left behind"
    );
}

/// Without patience.
fn delete(meta: &dyn Transact, name: &str, force: bool) -> Result<Deleted> {
    delete_volume(meta, name, force, 9, &mut || false)
}

/// A number that was given out has its volume's record in the same revision: else stores would take it for a deleted one's.
#[test]
fn a_volume_and_its_number_come_at_once() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    struct Looking<'a>(&'a Mutex<State>, AtomicUsize);
    impl Transact for Looking<'_> {
        fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
            let reply = self.0.txn(call)?;
            let given = get::<u64>(self.0, &map::counter_key("volumes")).unwrap();
            let there = volumes(self.0).unwrap().len() as u64;
            assert_eq!(given.map_or(0, |(given, _)| given), there);
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(reply)
        }
    }
    let looking = Looking(&meta, AtomicUsize::new(0));
    for number in 0..5 {
        create_volume(&looking, &format!("v{number}"), "main", 4096).unwrap();
    }
    assert!(create_volume(&looking, "v1", "main", 4096).is_err());
    assert!(looking.1.load(Ordering::Relaxed) > 10);
}

#[test]
fn nothing_is_made_or_deleted_while_the_metadata_is_suspected() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "v", "main", 4096).unwrap();
    let why = "it went back".to_owned();
    let key = map::suspect_key(NodeId(1));
    meta.txn(&Call::put(key.clone(), json(&map::Suspect { why }))).unwrap();
    for refused in [
        create_volume(&meta, "w", "main", 4096).map(drop),
        delete(&meta, "v", true).map(drop),
    ] {
        assert!(matches!(refused, Err(AdminError::Suspected { .. })));
    }
    let call = Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
    assert_eq!(create_volume(&meta, "w", "main", 4096).unwrap().id.0, 2);
}

#[test]
fn status_tells_how_it_stands() {
    let meta = cluster_of(3);
    let pool = create_pool(&meta, &PoolSpec { groups: 4, ..spec(3) }).unwrap();
    create_volume(&meta, "v", "main", 1 << 20).unwrap();
    let all = status(&meta).unwrap();
    assert_eq!(
        (all.health, all.nodes.len(), all.stores.len(), all.volumes.len()),
        ("ok", 3, 3, 1)
    );
    assert_eq!(
        all.pools[0].group_counts,
        GroupCounts {
            whole: 4,
            ..GroupCounts::default()
        }
    );
    assert_eq!(
        crate::health::sentence(&all),
        "All is well: 3 nodes, 3 stores, 1 volume."
    );
    assert!(all.nodes.iter().all(|node| node.alive));
    assert_eq!((all.stores[0].groups, all.stores[0].in_sync), (4, 4));

    meta.txn(&Call {
        then: vec![Op::Delete {
            key: map::live_key(NodeId(3)),
        }],
        ..Call::default()
    })
    .unwrap();
    let all = status(&meta).unwrap();
    assert_eq!((all.health, all.pools[0].group_counts.waiting), ("blocked", 4));
    let said = crate::health::sentence(&all);
    assert!(
        said.starts_with("Not well: Pool main: 4 of 4 groups name an in-sync store that is gone"),
        "{said}"
    );
    assert!(!all.nodes[2].alive && !all.stores.iter().find(|store| store.node_name == "n3").unwrap().alive);

    // Two copies are the least that this pool writes to.
    for mut group in groups(&meta, pool.id).unwrap() {
        group.epoch = group.epoch.next();
        group.in_sync.retain(|store| store.0 >> 64 != 3);
        let key = map::group_key(pool.id, group.index);
        meta.txn(&Call::put(key, serde_json::to_vec(&group).unwrap())).unwrap();
    }
    let all = status(&meta).unwrap();
    assert_eq!((all.health, all.pools[0].group_counts.at_min_copies), ("degraded", 4));
    let json = serde_json::to_value(&all).unwrap();
    assert_eq!(json["pools"][0]["name"], "main");
    assert_eq!(json["nodes"][2]["alive"], false);
    assert_eq!(json["volumes"][0]["size_bytes"], 1 << 20);
}

/// Somebody else changes what was read, before it is written, the first few times.
struct Races {
    meta: Mutex<State>,
    left: AtomicUsize,
}

impl Transact for Races {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let write = call.then.iter().find_map(|op| match op {
            Op::Put { key, .. } if !call.compares.is_empty() => Some(key.clone()),
            _ => None,
        });
        let race = |left: usize| left.checked_sub(1);
        if let Some(key) = write
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, race)
                .is_ok()
        {
            let there = self.meta.txn(&Call::get(key.as_str()))?;
            let value = there
                .value(0)
                .map_or_else(|| b"1".to_vec(), |found| found.value.clone());
            self.meta.txn(&Call::put(key, value))?;
        }
        self.meta.txn(call)
    }
}

#[test]
fn lost_races_are_run_again_but_not_for_ever() {
    let races = Races {
        meta: cluster_of(1),
        left: AtomicUsize::new(0),
    };
    let counter = |races: &Races| {
        get::<u64>(races, &map::counter_key("volumes"))
            .unwrap()
            .map(|(count, _)| count)
    };
    races.left.store(3, Ordering::Relaxed);
    assert_eq!(
        next_number(&races, "volumes").unwrap(),
        2,
        "the first was made by the other"
    );
    assert_eq!(counter(&races), Some(2));
    races.left.store(usize::MAX, Ordering::Relaxed);
    assert!(matches!(
        next_number(&races, "volumes"),
        Err(AdminError::TooManyRaces { .. })
    ));
}

#[test]
fn damaged_records_are_named() {
    let meta = cluster_of(1);
    meta.txn(&Call::put(map::node_key("n1"), "{")).unwrap();
    let error = nodes(&meta).unwrap_err().to_string();
    assert!(error.contains("/amita/nodes/n1"), "{error}");
}
