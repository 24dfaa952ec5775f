use super::*;
use amita_types::GroupIndex;
use std::cell::Cell;
use std::net::SocketAddr;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn look() {
    LOOKS.set(LOOKS.get() + 1);
}

fn store(number: u32) -> StoreId {
    StoreId(u128::from(number) + 1)
}

fn put(view: &mut View, number: u32, node: u32) -> Change {
    let id = store(number);
    let record = map::Store {
        id,
        node: NodeId(node),
        path: "/dev/disk".to_owned(),
        size_bytes: 1 << 40,
        weight: 100,
        class: String::new(),
        duty: map::StoreDuty::default(),
        paused: None,
    };
    view.apply(&Record {
        key: map::store_key(id),
        value: Some(serde_json::to_vec(&record).unwrap()),
        revision: 1,
        created: 1,
    })
}

fn gone(view: &mut View, number: u32) {
    view.apply(&Record {
        key: map::store_key(store(number)),
        value: None,
        revision: 2,
        created: 1,
    });
}

fn of(view: &View, node: u32) -> Vec<StoreId> {
    view.stores_of(NodeId(node)).collect()
}

/// A look-up would have the core stand still, for as long as whoever serves the names likes.
#[test]
fn a_nodes_address_is_never_looked_up() {
    for (fabric, address) in [
        ("10.0.0.1:7000", Some("10.0.0.1:7000")),
        ("[::1]:7000", Some("[::1]:7000")),
        ("localhost:7000", None),
        ("10.0.0.1", None),
        ("", None),
    ] {
        let record = serde_json::json!({"id": 7, "name": "n7", "fabric": fabric, "cores": 1});
        let change = View::default().apply(&Record {
            key: map::node_key("n7"),
            value: Some(record.to_string().into_bytes()),
            revision: 1,
            created: 1,
        });
        let address: Option<SocketAddr> = address.map(|address| address.parse().unwrap());
        let now = vec![(NodeId(7), address.map(Addresses::from))];
        assert_eq!(change, Change::Nodes { now, refused: None }, "{fabric:?}");
    }
}

#[test]
fn a_node_may_have_a_second_address_which_is_nothing_without_the_first() {
    for (fabric, second, is_reached, by_second) in [
        ("10.0.0.1:7000", "10.1.0.1:7000", true, Some("10.1.0.1:7000")),
        ("10.0.0.1:7000", "localhost:7000", true, None),
        ("localhost:7000", "10.1.0.1:7000", false, None),
    ] {
        let record = serde_json::json!({"id": 7, "name": "n7", "fabric": fabric, "fabric2": second, "cores": 1});
        let change = View::default().apply(&Record {
            key: map::node_key("n7"),
            value: Some(record.to_string().into_bytes()),
            revision: 1,
            created: 1,
        });
        let addresses = is_reached.then(|| Addresses {
            first: fabric.parse().unwrap(),
            second: by_second.map(|address| address.parse().unwrap()),
        });
        let now = vec![(NodeId(7), addresses)];
        assert_eq!(change, Change::Nodes { now, refused: None }, "{fabric:?} {second:?}");
    }
}

#[test]
fn a_nodes_stores_are_those_whose_records_name_it() {
    let mut view = View::default();
    for number in [5, 3, 4] {
        let expected = Change::Store {
            store: store(number),
            node: NodeId(1),
            moved: true,
        };
        assert_eq!(put(&mut view, number, 1), expected);
    }
    put(&mut view, 9, 2);
    assert_eq!(of(&view, 1), [store(3), store(4), store(5)]);
    // A disk is moved to another host, and one goes.
    put(&mut view, 4, 2);
    put(&mut view, 4, 2);
    gone(&mut view, 3);
    gone(&mut view, 77);
    assert_eq!((of(&view, 1), of(&view, 2)), (vec![store(5)], vec![store(4), store(9)]));
    assert_eq!(
        (view.node_of(store(4)), view.node_of(store(3))),
        (Some(NodeId(2)), None)
    );
    gone(&mut view, 5);
    assert!(of(&view, 1).is_empty() && of(&view, 7).is_empty());
}

/// A volume is opened: its sequencer is told of the stores of all nodes that can be reached.
#[test]
fn the_stores_of_all_nodes_are_found_with_one_look_at_each() {
    let mut view = View::default();
    let nodes = 250;
    for number in 0..1000 {
        put(&mut view, number, number % nodes);
    }
    let before = LOOKS.get();
    let found: usize = (0..nodes).map(|node| view.stores_of(NodeId(node)).count()).sum();
    assert_eq!((found, LOOKS.get() - before), (1000, 1000));
}

/// A node's record, or what somebody put in its place.
fn node(view: &mut View, key: &str, created: u64, name: &str, id: u32) -> Change {
    let value = format!(r#"{{"id":{id},"name":"{name}","fabric":"127.0.0.{id}:7","cores":1}}"#);
    view.apply(&Record {
        key: map::node_key(key),
        value: Some(value.into_bytes()),
        revision: 100,
        created,
    })
}

fn name(view: &View, id: u32) -> Option<&str> {
    view.node_record(NodeId(id)).map(|node| node.name.as_str())
}

#[test]
fn a_node_that_says_anothers_number_does_not_get_it() {
    let honest = [("n1", 10, 1), ("n2", 20, 2), ("n3", 30, 3)];
    let mut view = View::default();
    for (key, created, id) in honest {
        let told = node(&mut view, key, created, key, id);
        assert!(matches!(told, Change::Nodes { now, refused: None } if now.len() == 1));
    }
    // The number of an older one, of a younger one, and the name of another.
    for (key, created, id) in [("n3", 30, 1), ("n1", 10, 3), ("n4", 40, 2)] {
        let told = node(&mut view, key, created, key, id);
        assert!(matches!(told, Change::Nodes { refused: Some(_), .. }), "{told:?}");
    }
    assert!(matches!(node(&mut view, "n3", 30, "n1", 1), Change::Unreadable(_)));
    for (key, _, id) in honest {
        assert_eq!(name(&view, id), Some(key));
    }
    // Who has heard none of what was before says the same of who came later.
    let mut late = View::default();
    for (key, created, id) in [("n3", 30, 1), ("n1", 10, 1)] {
        node(&mut late, key, created, key, id);
    }
    assert_eq!(name(&late, 1), Some("n1"));
}

#[test]
fn a_number_is_the_next_ones_when_its_node_was_removed() {
    let mut view = View::default();
    node(&mut view, "old", 10, "old", 1);
    assert!(matches!(
        node(&mut view, "new", 20, "new", 1),
        Change::Nodes { refused: Some(_), .. }
    ));
    let gone = |view: &mut View, key: &str| {
        view.apply(&Record {
            key: map::node_key(key),
            value: None,
            revision: 101,
            created: 0,
        })
    };
    let address: SocketAddr = "127.0.0.1:7".parse().unwrap();
    let now = vec![(NodeId(1), Some(Addresses::from(address)))];
    assert_eq!(gone(&mut view, "old"), Change::Nodes { now, refused: None });
    assert_eq!(name(&view, 1), Some("new"));
    // Deleted and made anew while nobody watched: it has another number, and the old one is nobody's.
    let told = node(&mut view, "new", 30, "new", 2);
    assert!(matches!(told, Change::Nodes { now, refused: None } if now[0] == (NodeId(1), None) && now.len() == 2));
    assert_eq!((name(&view, 1), name(&view, 2)), (None, Some("new")));
    gone(&mut view, "new");
    assert_eq!(view.nodes().count(), 0);
}

#[test]
fn a_record_under_anothers_key_is_not_heard() {
    let mut view = View::default();
    put(&mut view, 1, 1);
    let mut apply = |key: String, value: &str| {
        view.apply(&Record {
            key,
            value: Some(value.as_bytes().to_vec()),
            revision: 1,
            created: 1,
        })
    };
    let group = |index: u32| {
        let id = store(1);
        format!(r#"{{"index":{index},"epoch":1,"members":["{id}"],"in_sync":["{id}"]}}"#)
    };
    let other = format!(
        r#"{{"id":"{}","node":2,"path":"/x","size_bytes":1,"weight":1}}"#,
        store(1)
    );
    let own = map::group_key(PoolId(1), GroupIndex(5));
    for (key, value) in [
        (map::store_key(store(2)), &other),
        (map::group_key(PoolId(1), GroupIndex(4)), &group(5)),
        (own.replace("0000000005", "5"), &group(5)),
        (
            own.clone(),
            &group(5).replace(r#""in_sync":["#, r#""in_sync":[],"x":["#),
        ),
    ] {
        let told = apply(key, value);
        assert!(matches!(told, Change::Unreadable(_)), "{told:?}");
    }
    assert!(matches!(apply(own, &group(5)), Change::Group(..)));
    let live = map::live_key(NodeId(7));
    assert_eq!(apply(live.replace('7', "+7"), "{}"), Change::Nothing);
    assert!(!view.lives(NodeId(7)) && view.node_of(store(1)) == Some(NodeId(1)));
}

/// What goes by a number is deleted by its own key: a number can be written in several ways, and behind anything.
#[test]
fn what_stands_under_another_key_is_not_deleted() {
    let mut view = View::default();
    put(&mut view, 1, 1);
    let volume = VolumeId(7);
    let apply = |view: &mut View, key: String, value: Option<&str>| {
        view.apply(&Record {
            key,
            value: value.map(|value| value.as_bytes().to_vec()),
            revision: 1,
            created: 1,
        })
    };
    let own = [
        (
            map::export_key(volume),
            r#"{"volume":7,"clients":[],"any_client":true}"#,
        ),
        (map::move_key(volume), r#"{"volume":"v","to":1,"number":1}"#),
        (map::closing_key(volume), r#"{"volume":"v","owner":1,"force":true}"#),
        (
            map::reservation_key(volume),
            r#"{"generation":1,"persist":true,"registrants":[],"notices":[],"last_notice":1}"#,
        ),
        (
            map::scrub_key(volume),
            r#"{"requested":2,"finished":1,"requested_at":1,"report":{"copies":0,"skipped":0,"damaged":0,"repaired":0,"differing":0}}"#,
        ),
    ];
    for (key, value) in &own {
        let told = apply(&mut view, key.clone(), Some(value));
        assert!(
            !matches!(told, Change::Nothing | Change::Unreadable(_)),
            "{key}: {told:?}"
        );
    }
    let there = |view: &View| {
        [
            view.export(volume).is_some(),
            view.moves().count() == 1,
            view.closings().count() == 1,
            view.reservation(volume).is_some(),
            view.scrub(volume).is_some(),
        ]
    };
    assert_eq!(there(&view), [true; 5]);
    for (key, value) in &own {
        let (kind, number) = key.rsplit_once('/').unwrap();
        for other in [
            format!("{kind}/+{number}"),
            format!("{kind}/0{number}"),
            format!("{kind}/x/{number}"),
        ] {
            if other != *key {
                assert_eq!(apply(&mut view, other.clone(), None), Change::Nothing, "{other}");
                assert_eq!(apply(&mut view, other, Some(value)), Change::Nothing);
            }
        }
    }
    assert_eq!(there(&view), [true; 5]);
    let id = store(1).to_string();
    let key = map::store_key(store(1));
    for other in [format!("x/{id}"), format!("+{id}"), format!("0{id}"), id.to_uppercase()] {
        if other != id {
            apply(&mut view, key.replace(&id, &other), None);
        }
    }
    assert_eq!(view.node_of(store(1)), Some(NodeId(1)));
    for (key, _) in own {
        apply(&mut view, key, None);
    }
    gone(&mut view, 1);
    assert_eq!((there(&view), view.node_of(store(1))), ([false; 5], None));
}

#[test]
fn a_pool_that_cannot_be_leaves_what_was_known() {
    let mut view = View::default();
    let mut apply = |key: &str, name: &str, chunk_bytes: u64| {
        let value = format!(
            r#"{{"id":1,"name":"{name}","kind":{{"type":"replicated","copies":3,"min_copies":2}},"groups":8,"chunk_bytes":{chunk_bytes}}}"#
        );
        let change = view.apply(&Record {
            key: map::pool_key(key),
            value: Some(value.into_bytes()),
            revision: 1,
            created: 1,
        });
        (change, view.chunk_bytes(key))
    };
    for chunk_bytes in [0, 1, 512, 3 << 20, 1 << 31, u64::from(u32::MAX), 1 << 40] {
        let (change, known) = apply("p", "p", chunk_bytes);
        assert!(matches!(change, Change::Unreadable(why) if why.contains("/amita/pools/p")));
        assert_eq!(known, None);
    }
    assert_eq!(apply("p", "p", 4 << 20), (Change::Nothing, Some(4 << 20)));
    for (name, chunk_bytes) in [("p", 0), ("q", 1 << 20), ("p", u64::from(u32::MAX))] {
        let (change, known) = apply("p", name, chunk_bytes);
        assert!(matches!(change, Change::Unreadable(_)), "{change:?}");
        assert_eq!(known, Some(4 << 20), "hosts use its volumes");
    }
    assert_eq!(apply("q", "p", 1 << 20).1, None);
}

/// Whoever opens and closes volumes would take the real one for deleted, or give it another name.
#[test]
fn a_volume_is_not_deleted_by_another_name() {
    let mut view = View::default();
    let mut apply = |key: &str, value: Option<&str>| {
        view.apply(&Record {
            key: map::volume_key(key),
            value: value.map(|value| value.as_bytes().to_vec()),
            revision: 1,
            created: 1,
        })
    };
    let own = r#"{"id":7,"name":"v","pool":"p","size_bytes":4096,"generation":1}"#;
    assert!(matches!(apply("v", Some(own)), Change::Volume(VolumeId(7), _)));
    for other in ["w", "x/v", "v/"] {
        assert!(matches!(apply(other, Some(own)), Change::Unreadable(_)), "{other}");
        apply(other, None);
    }
    assert!(view.take_deleted().is_empty());
    assert_eq!(
        view.volume_of(VolumeId(7)).map(|volume| volume.name.as_str()),
        Some("v")
    );
}
