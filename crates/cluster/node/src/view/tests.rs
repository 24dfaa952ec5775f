use super::*;
use std::cell::Cell;

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
    };
    view.apply(&Record {
        key: map::store_key(id),
        value: Some(serde_json::to_vec(&record).unwrap()),
        revision: 1,
    })
}

fn gone(view: &mut View, number: u32) {
    view.apply(&Record {
        key: map::store_key(store(number)),
        value: None,
        revision: 2,
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
        });
        let address = address.map(|address| address.parse().unwrap());
        assert_eq!(change, Change::Node(NodeId(7), address), "{fabric:?}");
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
