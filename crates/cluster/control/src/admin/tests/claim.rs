use super::*;
use amita_types::map::Mount;

const STORE: StoreId = StoreId(5);

/// Two nodes that live, with sessions 11 and 12.
fn two_nodes() -> (Mutex<State>, NodeId, NodeId) {
    let meta = empty();
    init_cluster(&meta, ClusterId(9)).unwrap();
    let ids = ["a", "b"].map(|name| register_node(&meta, name, "127.0.0.1:1", None, 1).unwrap().id);
    live(&meta, ids[0], 11, 1);
    live(&meta, ids[1], 12, 1);
    (meta, ids[0], ids[1])
}

fn live(meta: &dyn Transact, node: NodeId, session: u64, pid: u32) {
    let stores = None;
    let value = json(&Live {
        stores,
        session,
        pid,
        version: map::METADATA_VERSION,
    });
    meta.txn(&Call::put(map::live_key(node), value)).unwrap();
}

fn dies(meta: &dyn Transact, node: NodeId) {
    let key = map::live_key(node);
    let call = Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
}

fn at(node: NodeId, path: &str) -> Store {
    store_record(STORE, node, path, 64 << 30)
}

fn home(meta: &dyn Transact) -> (NodeId, String, Mount) {
    let store = stores(meta).unwrap().remove(0);
    let mount = get::<Mount>(meta, &map::mount_key(STORE)).unwrap().unwrap().0;
    (store.node, store.path, mount)
}

/// What an operator met: a copy of a served store registered at another node, and took the record over.
#[test]
fn a_copy_of_a_served_store_is_refused_and_changes_nothing() {
    let (meta, a, b) = two_nodes();
    claim_store(&meta, &at(a, "/dev/a"), 11, 4).unwrap();
    check_claim(&meta, STORE, Some(a)).unwrap();
    let before = home(&meta);
    for number in [4, 5, 90] {
        let refused = claim_store(&meta, &at(b, "/dev/copy"), 12, number).unwrap_err();
        let said = refused.to_string();
        assert!(matches!(refused, AdminError::StoreServed { .. }), "{said}");
        assert!(said.contains("served by node a (/dev/a)"), "{said}");
    }
    assert!(check_claim(&meta, STORE, Some(b)).is_err());
    assert!(check_claim(&meta, STORE, None).is_err());
    assert_eq!(home(&meta), before);
    let refused = claim_store(&meta, &at(a, "/dev/twice"), 11, 5).unwrap_err();
    assert!(
        matches!(refused, AdminError::StoreServed { .. }),
        "a copy on the same node: {refused}"
    );
    assert_eq!(home(&meta), before);
    // An answer that was lost: the same claim again.
    claim_store(&meta, &at(a, "/dev/a"), 11, 4).unwrap();
}

#[test]
fn a_node_that_starts_anew_has_its_store_at_once() {
    let (meta, a, _) = two_nodes();
    claim_store(&meta, &at(a, "/dev/a"), 11, 4).unwrap();
    live(&meta, a, 21, 1);
    claim_store(&meta, &at(a, "/dev/a"), 21, 5).unwrap();
    assert_eq!(home(&meta).2.session, 21);
}

#[test]
fn a_disk_moves_to_another_host_when_its_node_is_gone() {
    for stopped in [false, true] {
        let (meta, a, b) = two_nodes();
        claim_store(&meta, &at(a, "/dev/a"), 11, 4).unwrap();
        if stopped {
            live(&meta, a, 11, STOPPED);
        } else {
            dies(&meta, a);
        }
        claim_store(&meta, &at(b, "/dev/b"), 12, 5).unwrap();
        assert_eq!((home(&meta).0, home(&meta).1.as_str()), (b, "/dev/b"));
        // What stayed behind on the old host was a copy, then: it is behind, and stays out also when the other is down.
        live(&meta, a, 31, 1);
        dies(&meta, b);
        let refused = claim_store(&meta, &at(a, "/dev/a"), 31, 5).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("is an old copy: it was last served as mount 5 (by node b"),
            "{refused}"
        );
        adopt_store(&meta, STORE).unwrap();
        claim_store(&meta, &at(a, "/dev/a"), 31, 5).unwrap();
        assert_eq!(home(&meta).0, a);
        assert!(
            matches!(adopt_store(&meta, STORE), Err(AdminError::StoreServed { .. })),
            "it is served"
        );
    }
}

#[test]
fn a_store_that_was_given_up_may_move_while_its_node_lives() {
    let (meta, a, b) = two_nodes();
    claim_store(&meta, &at(a, "/dev/a"), 11, 4).unwrap();
    release_store(&meta, STORE, b, 12, 9).unwrap();
    assert!(
        claim_store(&meta, &at(b, "/dev/b"), 12, 5).is_err(),
        "it was not its own"
    );
    release_store(&meta, STORE, a, 11, 4).unwrap();
    claim_store(&meta, &at(b, "/dev/b"), 12, 5).unwrap();
    release_store(&meta, STORE, a, 11, 4).unwrap();
    assert_eq!(home(&meta).2.session, 12, "the old one gives up nothing of the new one");
}

/// The device failed for a moment, and the release of the first claim comes late.
#[test]
fn a_store_that_is_mounted_anew_replaces_its_own_sessions_claim() {
    let (meta, a, b) = two_nodes();
    claim_store(&meta, &at(a, "/dev/a"), 11, 4).unwrap();
    assert!(
        claim_store(&meta, &at(a, "/dev/copy"), 11, 5).is_err(),
        "another path has a copy"
    );
    claim_store(&meta, &at(a, "/dev/a"), 11, 5).unwrap();
    assert_eq!(home(&meta).2.number, 5);
    assert!(claim_store(&meta, &at(a, "/dev/a"), 11, 4).is_err(), "the older mount");
    release_store(&meta, STORE, a, 11, 4).unwrap();
    assert_eq!(home(&meta).2.session, 11, "the newer mount keeps its claim");
    assert!(claim_store(&meta, &at(b, "/dev/copy"), 12, 9).is_err());
    release_store(&meta, STORE, a, 11, 5).unwrap();
    claim_store(&meta, &at(b, "/dev/b"), 12, 9).unwrap();
}

#[test]
fn what_an_older_version_serves_is_served() {
    let (meta, a, b) = two_nodes();
    register_store(&meta, &at(a, "/dev/a")).unwrap();
    assert!(claim_store(&meta, &at(b, "/dev/b"), 12, 7).is_err());
    dies(&meta, a);
    claim_store(&meta, &at(b, "/dev/b"), 12, 7).unwrap();
}

/// Others come between each read and its compare.
#[test]
fn of_two_that_claim_at_once_one_wins() {
    for first in [true, false] {
        let (meta, a, b) = two_nodes();
        let racing = Racing {
            inner: &meta,
            once: Mutex::new(Some(Box::new(move |meta: &Mutex<State>| {
                claim_store(meta, &at(b, "/dev/b"), 12, if first { 9 } else { 2 }).unwrap();
            }))),
        };
        let result = claim_store(&racing, &at(a, "/dev/a"), 11, 4);
        assert!(matches!(result, Err(AdminError::StoreServed { .. })), "{result:?}");
        assert_eq!(home(&meta).0, b);
    }
}

/// Does something else before the first transaction that changes something.
struct Racing<'a> {
    inner: &'a Mutex<State>,
    once: Mutex<Option<Race>>,
}

type Race = Box<dyn FnOnce(&Mutex<State>) + Send>;

impl Transact for Racing<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let changes = call
            .then
            .iter()
            .any(|op| matches!(op, Op::Put { .. } | Op::Delete { .. }));
        if changes && let Some(race) = self.once.lock().unwrap().take() {
            race(self.inner);
        }
        self.inner.txn(call)
    }
}
