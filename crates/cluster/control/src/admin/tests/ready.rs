//! Is a node ready?

use super::*;
use amita_types::map::Group;

fn ready(meta: &dyn Transact, paths: &[&str]) -> (bool, bool) {
    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
    let found = node_ready(meta, "n2", &paths).unwrap();
    (found.ready, found.serving)
}

fn rewrite(meta: &dyn Transact, change: impl Fn(&mut Group)) {
    let pool = pools(meta).unwrap().remove(0);
    for mut group in groups(meta, pool.id).unwrap() {
        change(&mut group);
        let key = map::group_key(pool.id, group.index);
        meta.txn(&Call::put(key, json(&group))).unwrap();
    }
}

#[test]
fn a_node_is_ready_when_its_stores_serve_and_have_every_block() {
    let meta = cluster_of(4);
    // Without a group nothing is lacking.
    assert_eq!(ready(&meta, &[]), (true, true));
    create_pool(&meta, &spec(3)).unwrap();
    assert_eq!(ready(&meta, &[]), (true, true));
    assert_eq!(ready(&meta, &["/dev/x"]), (true, true));
    // A store that the cluster does not know yet.
    let found = node_ready(&meta, "n2", &["/dev/x".to_owned(), "/dev/y".to_owned()]).unwrap();
    assert!(!found.ready && !found.serving);
    assert_eq!((found.stores[1].store, found.stores[1].serves), (None, false));
    // It was away, and has blocks to catch up with.
    let own = store_of(NodeId(2)).id;
    rewrite(&meta, |group| group.in_sync.retain(|store| *store != own));
    assert_eq!(ready(&meta, &[]), (false, true));
    let found = node_ready(&meta, "n2", &[]).unwrap();
    assert_eq!(found.stores[0].lacks, found.stores[0].groups);
    assert!(found.stores[0].lacks > 0);
    // Another node that lacks something is that one's business; and so is a group that leaves this one.
    rewrite(&meta, |group| group.in_sync = vec![own]);
    assert_eq!(ready(&meta, &[]), (true, true));
    rewrite(&meta, |group| group.members.retain(|store| *store != own));
    assert_eq!(ready(&meta, &[]), (true, true));
    // One that is new to it is in sync with what leaves it, and lacks what comes.
    rewrite(&meta, |group| {
        if group.index.0 % 2 == 0 {
            group.members.push(own);
            group.in_sync.retain(|store| *store != own);
        }
    });
    assert_eq!(ready(&meta, &[]), (false, true));
    assert!(matches!(
        node_ready(&meta, "n9", &[]),
        Err(AdminError::NoSuch { what: "node", .. })
    ));
}

#[test]
fn a_node_that_does_not_live_is_not_ready_and_a_store_that_was_replaced_is_not_waited_for() {
    let meta = cluster_of(3);
    let key = map::live_key(NodeId(2));
    let stopped = Op::Delete { key };
    meta.txn(&Call {
        then: vec![stopped],
        ..Call::default()
    })
    .unwrap();
    assert_eq!(
        ready(&meta, &[]),
        (false, false),
        "no store is needed, and still it does not live"
    );
    assert_eq!(ready(&meta, &["/dev/x"]), (false, false));
    let meta = cluster_of(3);
    let served = map::Live {
        stores: Some(vec![StoreId(7)]),
        ..get::<map::Live>(&meta, &map::live_key(NodeId(2))).unwrap().unwrap().0
    };
    meta.txn(&Call::put(map::live_key(NodeId(2)), json(&served))).unwrap();
    let new = store_record(StoreId(7), NodeId(2), "/dev/x", 64 << 30);
    register_store(&meta, &new).unwrap();
    for paths in [&[][..], &["/dev/x"]] {
        assert_eq!(ready(&meta, paths), (true, true), "{paths:?}");
    }
}
