//! Where stores and nodes stand, and what is wanted of them.

use super::nvme::Meanwhile;
use super::*;
use amita_types::map::{Group, StoreDuty, Syncing};

fn pool_of(meta: &dyn Transact, copies: u8) -> map::Pool {
    create_pool(
        meta,
        &PoolSpec {
            groups: 32,
            ..spec(copies)
        },
    )
    .unwrap()
}

fn store_on(node: u32) -> StoreId {
    store_of(NodeId(node)).id
}

fn rewrite(meta: &dyn Transact, pool: &map::Pool, change: impl Fn(&mut Group)) {
    for mut group in groups(meta, pool.id).unwrap() {
        change(&mut group);
        let key = map::group_key(pool.id, group.index);
        meta.txn(&Call::put(key, json(&group))).unwrap();
    }
}

#[test]
fn a_drain_says_what_follows_and_registration_keeps_it() {
    let meta = cluster_of(4);
    pool_of(&meta, 3);
    let held = status(&meta)
        .unwrap()
        .stores
        .iter()
        .find(|own| own.store.id == store_on(2))
        .unwrap()
        .groups;
    let (record, found) = drain_store(&meta, store_on(2), false).unwrap();
    assert_eq!(
        (record.duty, found),
        (StoreDuty::Draining, Outlook { moves: held, unmet: 0 })
    );
    register_store(&meta, &store_of(NodeId(2))).unwrap();
    assert_eq!(
        find_store(&meta, &store_on(2).to_string()).unwrap().duty,
        StoreDuty::Draining
    );
    let drains = format!("Store {} is being drained: {held} groups to go.", store_on(2));
    assert!(status(&meta).unwrap().warnings.contains(&drains));
    assert_eq!(drain_store(&meta, store_on(2), true).unwrap().1, Outlook::default());
}

/// Three nodes, three copies: there is nowhere to go. It waits, and says so.
#[test]
fn a_drain_with_nowhere_to_go_is_a_standing_warning() {
    let meta = cluster_of(3);
    pool_of(&meta, 3);
    let (_, found) = drain_store(&meta, store_on(1), false).unwrap();
    assert_eq!(found, Outlook { moves: 0, unmet: 32 });
    let told = status(&meta).unwrap();
    assert!(
        told.warnings
            .iter()
            .any(|line| line.contains("the rule cannot be met for 32 of 32 groups"))
    );
    assert_eq!(told.pools[0].outlook.unmet, 32);
}

/// What a drain gives to whom: three nodes of two stores, and each copy on a node of its own. All goes to the neighbour.
#[test]
fn a_drain_within_a_node_gives_all_of_it_to_the_neighbour() {
    let meta = cluster_of(3);
    let second = |node: u32| Store {
        id: StoreId(u128::from(node) << 64 | 8),
        ..store_of(NodeId(node))
    };
    (1..=3).for_each(|node| register_store(&meta, &second(node)).unwrap());
    let pool = pool_of(&meta, 3);
    let found = drain_outlook(&meta, store_on(2)).unwrap();
    assert_eq!(found.all.unmet, 0);
    let most = found.gains.iter().max_by_key(|(_, millionths)| **millionths);
    assert_eq!(most, Some((&second(2).id, &1_000_000)), "{found:?}");
    assert_eq!(found.gains.get(&store_on(2)), None);
    // What is on its way and not there yet counts as well.
    rewrite(&meta, &pool, |group| {
        group.in_sync.retain(|store| *store != store_on(1))
    });
    let found = drain_outlook(&meta, store_on(2)).unwrap();
    assert!(found.gains[&store_on(1)] > 0, "{found:?}");
    // Groups that nobody can plan are no drain that costs nothing.
    let key = map::group_key(pool.id, GroupIndex(3));
    let call = Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
    let why = drain_outlook(&meta, store_on(2)).unwrap_err();
    assert!(matches!(why, AdminError::Placement { .. }), "{why}");
}

#[test]
fn a_new_store_takes_the_old_ones_place() {
    let meta = cluster_of(4);
    let pool = pool_of(&meta, 3);
    let second = Store {
        id: StoreId(0xabcd),
        ..store_of(NodeId(2))
    };
    register_store(&meta, &second).unwrap();
    let before = groups(&meta, pool.id).unwrap();
    let held = before
        .iter()
        .filter(|group| group.members.contains(&store_on(2)))
        .count();
    let done = replace_store(&meta, store_on(2), second.id).unwrap();
    assert_eq!(
        done,
        Replacement {
            groups: held,
            others: 0
        }
    );
    for (old, new) in before.iter().zip(groups(&meta, pool.id).unwrap()) {
        assert_eq!(
            (old.epoch, &old.in_sync),
            (new.epoch, &new.in_sync),
            "only the desire changes"
        );
        assert!(!new.members.contains(&store_on(2)));
        assert_eq!(old.members.contains(&store_on(2)), new.members.contains(&second.id));
    }
    assert_eq!(
        find_store(&meta, &store_on(2).to_string()).unwrap().duty,
        StoreDuty::Draining
    );
    // A store that another node serves would stand beside a copy on that node.
    let done = replace_store(&meta, store_on(3), store_on(4)).unwrap();
    assert!(done.others > 0, "{done:?}");
    for group in groups(&meta, pool.id).unwrap() {
        let home = |store: &StoreId| if *store == second.id { 2 } else { store.0 >> 64 };
        let nodes: BTreeSet<u128> = group.members.iter().map(home).collect();
        assert_eq!(nodes.len(), 3, "{group:?}");
    }
    let refused = replace_store(&meta, store_on(1), store_on(2)).unwrap_err();
    assert!(refused.to_string().contains("being drained"), "{refused}");
    classify_store(&meta, store_on(4), "nvme").unwrap();
    let refused = replace_store(&meta, store_on(1), store_on(4)).unwrap_err();
    assert!(refused.to_string().contains("class"), "{refused}");
}

#[test]
fn maintenance_is_refused_while_writes_need_the_node() {
    let meta = cluster_of(3);
    let pool = pool_of(&meta, 3);
    assert!(maintain_node(&meta, "n1", true, false).unwrap().maintenance);
    let refused = maintain_node(&meta, "n2", true, false).unwrap_err();
    assert!(
        matches!(
            refused,
            AdminError::WouldWait {
                groups: 32,
                min_copies: 2,
                ..
            }
        ),
        "{refused}"
    );
    maintain_node(&meta, "n1", false, false).unwrap();
    rewrite(&meta, &pool, |group| {
        group.in_sync.retain(|store| *store != store_on(3))
    });
    let refused = maintain_node(&meta, "n1", true, false).unwrap_err();
    assert!(refused.to_string().contains("writes to 32 groups"), "{refused}");
    assert!(maintain_node(&meta, "n1", true, true).unwrap().maintenance, "forced");
    assert!(maintain_node(&meta, "n3", true, false).is_ok(), "no group needs it");
    assert!(matches!(
        maintain_node(&meta, "n9", true, false),
        Err(AdminError::NoSuch { .. })
    ));
    register_node(&meta, "n1", "127.0.0.1:2", None, 2).unwrap();
    assert!(nodes(&meta).unwrap()[0].maintenance, "a restart does not end it");
}

/// One node may rest, of three; each asks in the moment between another one's look and its write.
#[test]
fn of_two_nodes_that_ask_for_maintenance_at_one_moment_one_is_let_go() {
    let calls = {
        let meta = cluster_of(3);
        pool_of(&meta, 3);
        let counted = Meanwhile::new(&meta, usize::MAX, &|_| {});
        maintain_node(&counted, "n1", true, false).unwrap();
        counted.calls()
    };
    for at in 0..calls {
        let meta = cluster_of(3);
        pool_of(&meta, 3);
        let both = Meanwhile::new(&meta, at, &|meta| {
            maintain_node(meta, "n2", true, false).unwrap();
        });
        let refused = maintain_node(&both, "n1", true, false).unwrap_err();
        assert!(
            matches!(refused, AdminError::WouldWait { .. }),
            "beside call {at}: {refused}"
        );
        // Also one that asks nobody counts.
        let meta = cluster_of(3);
        pool_of(&meta, 3);
        let both = Meanwhile::new(&meta, at, &|meta| {
            maintain_node(meta, "n3", true, true).unwrap();
        });
        assert!(maintain_node(&both, "n1", true, false).is_err(), "beside call {at}");
        // Who returns meanwhile is in nobody's way.
        let meta = cluster_of(3);
        pool_of(&meta, 3);
        maintain_node(&meta, "n2", true, true).unwrap();
        let other = Meanwhile::new(&meta, at, &|meta| {
            maintain_node(meta, "n2", false, false).unwrap();
        });
        if let Err(why) = maintain_node(&other, "n1", true, false) {
            assert!(matches!(why, AdminError::WouldWait { .. }), "beside call {at}: {why}");
            maintain_node(&meta, "n2", false, false).unwrap();
            maintain_node(&meta, "n1", true, false).unwrap();
        }
    }
}

#[test]
fn a_rule_that_could_not_be_met_is_refused() {
    let meta = cluster_of(4);
    let pool = pool_of(&meta, 3);
    let racks = PoolChange {
        level: Some(Level::Rack),
        ..PoolChange::default()
    };
    let refused = change_pool(&meta, "main", &racks, false).unwrap_err();
    assert!(matches!(refused, AdminError::RuleUnmet { groups: 32, .. }), "{refused}");
    for (node, rack) in [("n1", "a"), ("n2", "b"), ("n3", "c"), ("n4", "c")] {
        place_node(&meta, node, Some("s"), Some(rack)).unwrap();
    }
    let (changed, found) = change_pool(&meta, "main", &racks, false).unwrap();
    assert_eq!((changed.failure_domain, found.unmet), (Level::Rack, 0));
    let both = [store_on(3), store_on(4)];
    let broken = groups(&meta, pool.id)
        .unwrap()
        .iter()
        .filter(|group| both.iter().all(|store| group.members.contains(store)))
        .count();
    assert!(broken > 0 && found.moves >= broken, "{found:?}");
    let fast = PoolChange {
        class: Some(Some("fast".to_owned())),
        ..PoolChange::default()
    };
    assert!(change_pool(&meta, "main", &fast, false).is_err());
    let many = PoolChange {
        copies: Some(9),
        ..PoolChange::default()
    };
    assert!(matches!(
        change_pool(&meta, "main", &many, true),
        Err(AdminError::BadSetting { .. })
    ));
}

#[test]
fn a_pool_of_a_class_is_placed_on_it() {
    let meta = cluster_of(5);
    for node in 2..=4 {
        classify_store(&meta, store_on(node), "nvme").unwrap();
    }
    let spec = PoolSpec {
        class: Some("nvme".to_owned()),
        ..spec(3)
    };
    let pool = create_pool(&meta, &spec).unwrap();
    for group in groups(&meta, pool.id).unwrap() {
        assert!(
            group.members.iter().all(|store| (2..=4).contains(&(store.0 >> 64))),
            "{group:?}"
        );
    }
}

#[test]
fn a_store_that_is_needed_is_not_forgotten() {
    let meta = cluster_of(4);
    let pool = pool_of(&meta, 3);
    assert!(matches!(
        forget_store(&meta, store_on(4)),
        Err(AdminError::StillNeeded { .. })
    ));
    rewrite(&meta, &pool, |group| {
        group.members = vec![store_on(1), store_on(2), store_on(3)];
        group.in_sync.clone_from(&group.members);
    });
    rewrite(&meta, &pool, |group| {
        let member = Syncing {
            store: store_on(4),
            since: group.epoch,
        };
        group.syncing = if group.index.0 == 7 { vec![member] } else { Vec::new() };
    });
    assert!(matches!(
        forget_store(&meta, store_on(4)),
        Err(AdminError::StillNeeded { groups: 1, .. })
    ));
    rewrite(&meta, &pool, |group| group.syncing.clear());
    forget_store(&meta, store_on(4)).unwrap();
    assert!(matches!(
        find_store(&meta, &store_on(4).to_string()),
        Err(AdminError::NoSuch { .. })
    ));
}

#[test]
fn status_counts_groups_by_how_they_are() {
    let meta = cluster_of(4);
    let pool = pool_of(&meta, 3);
    rewrite(&meta, &pool, |group| {
        group.members = vec![store_on(1), store_on(2), store_on(3)];
        group.in_sync.clone_from(&group.members);
        if group.index.0 < 4 {
            group.in_sync.truncate(2);
            group.syncing = vec![Syncing {
                store: store_on(3),
                since: group.epoch,
            }];
        }
    });
    let counts = status(&meta).unwrap().pools[0].group_counts;
    assert_eq!(
        (counts.whole, counts.at_min_copies, counts.syncing, counts.moving),
        (28, 4, 4, 4)
    );
    // Node 1 lives and does not serve its store.
    let live = Live {
        session: 1,
        pid: 1,
        stores: Some(Vec::new()),
        version: map::METADATA_VERSION,
    };
    meta.txn(&Call::put(map::live_key(NodeId(1)), json(&live))).unwrap();
    let told = status(&meta).unwrap();
    let counts = told.pools[0].group_counts;
    assert_eq!((counts.waiting, counts.below), (32, 4));
    assert!(
        told.warnings
            .iter()
            .any(|line| line.contains("is not served by node n1"))
    );
    assert_eq!(told.stores.iter().map(|store| store.syncing).sum::<usize>(), 4);
}
