use super::*;
use amita_types::condition::{Condition, condition_key};

#[test]
fn a_number_that_was_reserved_leaves_nothing_behind() {
    let meta = empty();
    init_cluster(&meta, ClusterId(9)).unwrap();
    let served = Served {
        fabric: "127.0.0.1:1",
        fabric2: None,
        nbd: None,
        nbd_socket: None,
        nvme: None,
        metrics: None,
        api: None,
        cores: 1,
        gateway: false,
        unprotected: false,
    };
    let (first, second) = (reserve_node(&meta, "a").unwrap(), reserve_node(&meta, "a").unwrap());
    assert_ne!(first, second, "numbers are never given twice");
    assert!(
        nodes(&meta).unwrap().is_empty(),
        "no node is there before it is registered"
    );
    assert_eq!(register_as(&meta, "a", second, &served).unwrap().id, second);
    assert!(matches!(
        register_as(&meta, "a", first, &served),
        Err(AdminError::NodeTaken { .. })
    ));
    assert_eq!(
        reserve_node(&meta, "a").unwrap(),
        second,
        "from now on it stays with the name"
    );
    assert!(reserve_node(&meta, "-").is_err());
}

#[test]
fn a_node_is_removed_when_it_is_gone_and_nothing_needs_it() {
    let meta = cluster_of(4);
    create_pool(&meta, &spec(3)).unwrap();
    let node = |name: &str| {
        nodes(&meta)
            .unwrap()
            .into_iter()
            .find(|node| node.name == name)
            .unwrap()
    };
    let said = condition_key(node("n4").id, 0);
    meta.txn(&Call::put(said.as_str(), json(&Condition::default())))
        .unwrap();

    let refused = remove_node(&meta, "n4").unwrap_err();
    assert!(matches!(refused, AdminError::NodeLives { .. }), "{refused}");
    rise(&meta, node("n4").id, STOPPED);
    let refused = remove_node(&meta, "n4").unwrap_err();
    assert!(matches!(refused, AdminError::NodeNeeded { .. }), "{refused}");
    assert!(refused.to_string().contains("amita disk drain"), "{refused}");
    assert!(matches!(
        remove_node(&meta, "n9").unwrap_err(),
        AdminError::NoSuch { what: "node", .. }
    ));

    // Its groups go to others.
    let store = store_of(node("n4").id).id;
    for (index, mut group) in list::<amita_types::map::Group>(&meta, &map::groups_prefix(amita_types::PoolId(1)))
        .unwrap()
        .into_iter()
        .enumerate()
    {
        group.members.retain(|member| *member != store);
        group.in_sync.retain(|member| *member != store);
        let key = map::group_key(amita_types::PoolId(1), GroupIndex(index as u32));
        meta.txn(&Call::put(key, json(&group))).unwrap();
    }
    let id = node("n4").id;
    assert_eq!(remove_node(&meta, "n4").unwrap().id, id);
    assert_eq!(nodes(&meta).unwrap().len(), 3);
    assert_eq!(stores(&meta).unwrap().len(), 3, "its store is forgotten with it");
    assert!(meta.txn(&Call::get(said.as_str())).unwrap().value(0).is_none());
    assert!(register_node(&meta, "n4", "127.0.0.1:1", None, 1).unwrap().id > id);
}

/// N talks to N-1: a node with one network writes what it always did, and one with two is read by who knows of one.
#[test]
fn a_second_address_is_in_the_record_where_there_is_one() {
    let meta = empty();
    init_cluster(&meta, ClusterId(9)).unwrap();
    let mut served = Served {
        fabric: "10.0.0.1:7700",
        fabric2: None,
        nbd: None,
        nbd_socket: None,
        nvme: None,
        metrics: None,
        api: None,
        cores: 1,
        gateway: false,
        unprotected: false,
    };
    let id = reserve_node(&meta, "a").unwrap();
    let written = |served: &Served<'_>| {
        let node = register_as(&meta, "a", id, served).unwrap();
        let found = get::<serde_json::Value>(&meta, &map::node_key("a")).unwrap();
        (node, found.unwrap().0)
    };
    let (one, record) = written(&served);
    assert!(record.get("fabric2").is_none(), "{record}");
    assert_eq!(serde_json::from_value::<Node>(record).unwrap(), one);
    served.fabric2 = Some("10.1.0.1:7700");
    let (two, record) = written(&served);
    let said = (record["fabric"].as_str(), record["fabric2"].as_str());
    assert_eq!(said, (Some("10.0.0.1:7700"), Some("10.1.0.1:7700")));
    assert_eq!(two.fabric2.as_deref(), Some("10.1.0.1:7700"));
    // A node that is started with one again has one.
    served.fabric2 = None;
    assert_eq!(written(&served).0.fabric2, None);
}
