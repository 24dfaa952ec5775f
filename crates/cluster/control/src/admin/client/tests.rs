use super::*;
use crate::admin::{init_cluster, register_node, status};
use amita_metadata::model::State;
use amita_types::ClusterId;
use amita_types::map::Live;
use std::sync::Mutex;

fn cluster() -> Mutex<State> {
    let meta = Mutex::new(State::new());
    init_cluster(&meta, ClusterId(9)).unwrap();
    meta
}

fn rise(meta: &dyn Transact, node: NodeId) {
    let live = Live {
        stores: None,
        session: 1,
        pid: 7,
        version: map::METADATA_VERSION,
    };
    let value = serde_json::to_vec(&live).unwrap();
    meta.txn(&Call::put(map::live_key(node), value)).unwrap();
}

fn fall(meta: &dyn Transact, node: NodeId) {
    let key = map::live_key(node);
    let call = Call {
        compares: Vec::new(),
        then: vec![Op::Delete { key }],
        otherwise: Vec::new(),
    };
    meta.txn(&call).unwrap();
}

fn join(meta: &dyn Transact, name: &str) -> Node {
    let id = client_number(meta, name).unwrap();
    rise(meta, id);
    register_client(meta, name, id, "127.0.0.1:1", None, false).unwrap()
}

fn names(meta: &dyn Transact) -> Vec<String> {
    nodes(meta).unwrap().into_iter().map(|node| node.name).collect()
}

#[test]
fn a_client_leaves_nothing_behind() {
    let meta = cluster();
    let client = join(&meta, "c");
    assert_eq!(names(&meta), ["c"]);
    // Said again (the first answer was lost): the same.
    assert_eq!(
        register_client(&meta, "c", client.id, "127.0.0.1:1", None, false).unwrap(),
        client
    );
    forget_client(&meta, &client).unwrap();
    assert!(names(&meta).is_empty());
    forget_client(&meta, &client).unwrap();
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let meta = cluster();
    register_node(&meta, "n1", "127.0.0.1:1", None, 1).unwrap();
    let first = join(&meta, "c");
    for name in ["n1", "c"] {
        assert!(matches!(client_number(&meta, name), Err(AdminError::Exists { .. })));
        let other = NodeId(first.id.0 + 1);
        assert!(matches!(
            register_client(&meta, name, other, "127.0.0.1:2", None, false),
            Err(AdminError::Exists { .. })
        ));
    }
}

#[test]
fn the_dead_are_forgotten_and_nobody_else() {
    let meta = cluster();
    let node = register_node(&meta, "n1", "127.0.0.1:1", None, 1).unwrap();
    let (dead, living) = (join(&meta, "dead"), join(&meta, "living"));
    fall(&meta, dead.id);
    // What a person sees: the node that is down, and the client that lives. The dead client is not missed.
    let seen: Vec<(String, bool)> = status(&meta)
        .unwrap()
        .nodes
        .into_iter()
        .map(|found| (found.node.name, found.alive))
        .collect();
    assert_eq!(seen, [("living".to_owned(), true), ("n1".to_owned(), false)]);
    assert!(!status(&meta).unwrap().warnings.iter().any(|line| line.contains("dead")));
    assert_eq!(forget_dead_clients(&meta).unwrap(), 1);
    assert_eq!(names(&meta), ["living", "n1"]);
    assert_eq!(forget_dead_clients(&meta).unwrap(), 0);
    // A number is not given again.
    assert!(client_number(&meta, "next").unwrap() > living.id.max(node.id));
}

#[test]
fn one_that_lives_again_is_not_deleted() {
    let meta = cluster();
    let client = join(&meta, "c");
    let (_, revision) = get::<Node>(&meta, &map::node_key("c")).unwrap().unwrap();
    // It was seen without a lease, and has taken a new one since.
    let call = delete_if(map::node_key("c"), revision, Some(client.id));
    assert!(!meta.txn(&call).unwrap().succeeded);
    assert_eq!(names(&meta), ["c"]);
    // The name is another's by now.
    let other = Node {
        id: NodeId(99),
        ..client.clone()
    };
    meta.txn(&Call::put(map::node_key("c"), json(&other))).unwrap();
    forget_client(&meta, &client).unwrap();
    assert_eq!(names(&meta), ["c"]);
}
