//! The cluster in figures.

use super::*;
use crate::events::Severity;
use crate::health::Kind;
use amita_types::Generation;
use amita_types::condition::{Condition, DiskLevel, SickDisk, StoreSpace, condition_key, sick_disk_key};
use amita_types::map::Scrub;

fn count(figures: &Figures, wanted: Kind) -> u64 {
    let found = figures.facts.iter().find(|(kind, _)| *kind == wanted);
    found.expect("every kind is there").1
}

fn tell_space(meta: &dyn Transact, node: u32, percent: u64) {
    let space = StoreSpace {
        store: store_of(NodeId(node)).id,
        capacity_bytes: 1000,
        free_bytes: 1000 - percent * 10,
    };
    let value = json(&Condition {
        stores: vec![space],
        troubles: Vec::new(),
    });
    meta.txn(&Call::put(condition_key(NodeId(node), 0), value)).unwrap();
}

#[test]
fn figures_are_those_of_the_status() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for (node, percent) in [(1, 10), (2, 20), (3, 90)] {
        tell_space(&meta, node, percent);
    }
    let found = figures(&meta).unwrap();
    assert_eq!((found.nodes_alive, found.nodes_away, found.volumes), (3, 0, 0));
    assert_eq!(found.worst, Some(Severity::Warning));
    assert_eq!(found.facts.len(), Kind::ALL.len());
    assert_eq!(
        (count(&found, Kind::PoolNearFull), count(&found, Kind::NodeDown)),
        (1, 0)
    );
    let [pool] = found.pools.as_slice() else {
        panic!("{:?}", found.pools)
    };
    assert_eq!(
        (
            pool.name.as_str(),
            pool.raw_bytes,
            pool.used_bytes,
            pool.fullest_percent
        ),
        ("main", 3000, 1200, Some(90))
    );
    assert!(pool.groups.whole > 0 && pool.groups.degraded == 0, "{pool:?}");
    assert_eq!(found.stores.len(), 3);
    assert_eq!(
        (found.version, found.scrub_oldest_at),
        (cluster(&meta).unwrap().version, None)
    );
}

#[test]
fn disks_that_are_not_well_are_told_with_their_nodes_while_their_stores_are_there() {
    let meta = cluster_of(2);
    let own = store_of(NodeId(2)).id;
    for store in [own, StoreId(0xABCD)] {
        let noted = SickDisk {
            store,
            disk: "nvme0n1, Example D7 S1".to_owned(),
            level: DiskLevel::Avoid,
            codes: vec!["disk-worn".to_owned()],
            evidence: "103 % of its life is used".to_owned(),
            since: 1,
            told_at: 1,
            decision: String::new(),
            failing_since: Some(1),
            drained_at: None,
            better_since: None,
        };
        meta.txn(&Call::put(sick_disk_key(store), json(&noted))).unwrap();
    }
    let expected = DiskFigures {
        store: own,
        node: "n2".to_owned(),
        disk: "nvme0n1, Example D7 S1".to_owned(),
        level: DiskLevel::Avoid,
    };
    assert_eq!(figures(&meta).unwrap().sick_disks, [expected]);
}

#[test]
fn the_oldest_look_at_copies_is_told_and_of_volumes_with_data_only() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for (name, generation, requested_at) in [("a", 1, 5000), ("b", 2, 3000), ("c", 0, 10)] {
        let mut volume = create_volume(&meta, name, "main", 1 << 30).unwrap();
        volume.generation = Generation(generation);
        meta.txn(&Call::put(map::volume_key(name), json(&volume))).unwrap();
        let scrub = Scrub {
            requested: 1,
            requested_at,
            ..Scrub::default()
        };
        meta.txn(&Call::put(map::scrub_key(volume.id), json(&scrub))).unwrap();
    }
    let found = figures(&meta).unwrap();
    assert_eq!((found.volumes, found.scrub_oldest_at), (3, Some(3000)));
}
