//! Volumes that are closed to hosts.

use super::super::*;
use crate::admin::mirror::{Door, set_door};
use amita_types::map::{Closed, Lineage, Raised, SetState, Snapshot, SnapshotSet, SnapshotState, SnapshotWish, Volume};
use amita_types::{MirrorId, SetId, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

const MIRROR: MirrorId = MirrorId(77);
const CLOSED: Door<'static> = Door::Closed(MIRROR, "dr");
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// Two volumes, each owned by a gateway.
fn world() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for name in ["db", "log"] {
        create_volume(&meta, name, "main", 1 << 30).unwrap();
        let made = volume(&meta, name).unwrap();
        put(
            &meta,
            map::volume_key(name),
            &Volume {
                generation: Generation(4),
                owner: Some(NodeId(1)),
                ..made
            },
        );
    }
    meta
}

fn put(meta: &dyn Transact, key: String, value: &impl serde::Serialize) {
    meta.txn(&Call::put(key, json(value))).unwrap();
}

fn close(meta: &dyn Transact, name: &str) -> Volume {
    set_door(meta, name, CLOSED, &[]).unwrap().unwrap()
}

fn is_closed<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(AdminError::Closed { volume, mirror }) => assert_eq!((&*volume, &*mirror), ("db", "dr")),
        other => panic!("{other:?}"),
    }
}

fn raised(meta: &dyn Transact) -> Raised {
    let pool = pools(meta).unwrap().remove(0);
    get::<Raised>(meta, &map::raised_key(pool.id)).unwrap().unwrap().0
}

#[test]
fn it_is_taken_from_its_owner_in_the_transaction_that_closes_it() {
    let meta = world();
    let closed = close(&meta, "db");
    assert_eq!(volume(&meta, "db").unwrap(), closed);
    let why = Closed {
        mirror: MIRROR,
        name: "dr".to_owned(),
        since: Generation(5),
    };
    assert_eq!((closed.generation, closed.owner), (Generation(5), None));
    assert_eq!(closed.closed.as_deref(), Some(&why));
    assert_eq!(
        (raised(&meta).volume, raised(&meta).generation),
        (closed.id, Generation(5))
    );
    // Once more changes nothing: a runner may have it by now.
    assert_eq!(close(&meta, "db"), closed);
    let open = set_door(&meta, "db", Door::Open(MIRROR), &[]).unwrap().unwrap();
    assert_eq!(
        (open.generation, open.owner, &open.closed),
        (Generation(6), None, &None)
    );
    assert_eq!(
        raised(&meta).generation,
        Generation(6),
        "whoever has it closed has it no more"
    );
    assert_eq!(set_door(&meta, "db", Door::Open(MIRROR), &[]).unwrap(), Some(open));
    // Another mirror's is another mirror's.
    close(&meta, "db");
    is_closed(set_door(&meta, "db", Door::Closed(MirrorId(78), "other"), &[]));
    is_closed(set_door(&meta, "db", Door::Open(MirrorId(78)), &[]));
}

#[test]
fn it_compares_what_it_is_done_by() {
    let meta = world();
    let before = volume(&meta, "db").unwrap();
    let reply = meta.txn(&Call::put("/amita/held", b"1".to_vec())).unwrap();
    let held = [("/amita/held".to_owned(), reply.revision)];
    meta.txn(&Call::put("/amita/held", b"2".to_vec())).unwrap();
    assert_eq!(set_door(&meta, "db", CLOSED, &held).unwrap(), None);
    assert_eq!(volume(&meta, "db").unwrap(), before);
}

#[test]
fn nobody_uses_or_changes_it_but_by_its_points() {
    let meta = world();
    snapshot_taken(&meta, "db", 1, "then");
    let closed = close(&meta, "db");
    is_closed(ask_snapshot(&meta, "db", "s", BTreeMap::new(), NOW));
    is_closed(ask_set(
        &meta,
        &["log".to_owned(), "db".to_owned()],
        "s",
        BTreeMap::new(),
        NOW,
    ));
    is_closed(may_take_snapshot(&meta, &closed));
    is_closed(resize_volume(&meta, "db", 2 << 30));
    is_closed(begin_shrink(&meta, &closed, 1 << 20));
    is_closed(delete_volume(&meta, "db", true, 9, &mut || false));
    let then = snapshot(&meta, "db", "then").unwrap();
    is_closed(may_revert(&meta, &closed, &then, None));
    is_closed(may_revert(&meta, &closed, &then, Some(MirrorId(78))));
    may_revert(&meta, &closed, &then, Some(MIRROR)).unwrap();
    let mut wish = CopyWish {
        of: "db",
        name: "new",
        pool: "main",
        snapshots: false,
        limit_bytes_per_s: None,
        encrypted: false,
        keys: None,
        now: NOW,
    };
    is_closed(copy_volume(&meta, &wish));
    // What it was at a point is nobody's to change.
    wish.of = "db@then";
    copy_volume(&meta, &wish).unwrap();
    clone_volume(&meta, "db", "then", "clone", &map::About::of(VolumeId(0))).unwrap();
    label_volume(&meta, "db", &BTreeMap::from([("a".to_owned(), "b".to_owned())]), &[]).unwrap();
    let spec = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    export_volume(&meta, "db", &spec).unwrap();
    let fate = Fate::Rename { to: "data".to_owned() };
    carry_out(&meta, Deletion::of("db", true, fate), &mut || false).unwrap();
    assert_eq!(volume(&meta, "data").unwrap().closed, closed.closed, "it goes along");
}

/// A snapshot that is there.
fn snapshot_taken(meta: &dyn Transact, name: &str, number: u32, snapshot: &str) {
    let found = volume(meta, name).unwrap();
    let record = Snapshot {
        volume: found.id,
        number: SnapshotId(number),
        name: snapshot.to_owned(),
        size_bytes: found.size_bytes,
        taken_at: 1,
        labels: BTreeMap::new(),
        protected: false,
        state: SnapshotState::Sealed(found.generation),
        set: None,
        clones: 0,
        hidden: false,
        mark: false,
    };
    let of_name = map::SnapshotName {
        number: record.number,
        data: None,
    };
    put(meta, map::snapshot_key(found.id, record.number), &record);
    put(meta, map::snapshot_name_key(found.id, snapshot), &of_name);
    let lineage = Lineage {
        number: record.number,
        sealed: record.number,
        ..found.lineage
    };
    put(meta, map::volume_key(name), &Volume { lineage, ..found });
}

#[test]
fn what_is_wished_of_it_comes_to_nothing() {
    let meta = world();
    let found = volume(&meta, "db").unwrap();
    ask_snapshot(&meta, "db", "s", BTreeMap::new(), NOW).unwrap();
    close(&meta, "db");
    assert_eq!(
        get::<SnapshotWish>(&meta, &map::snapshot_wish_key(found.id)).unwrap(),
        None
    );
    // And of a set whose owners have not begun.
    let meta = world();
    let set = ask_set(&meta, &["log".to_owned(), "db".to_owned()], "s", BTreeMap::new(), NOW).unwrap();
    close(&meta, "db");
    let SetTaking::Void(voided) = set_state(&meta, &set).unwrap() else {
        panic!("it is void")
    };
    assert!(voided.again && voided.why.contains("db"), "{voided:?}");
}

/// A set whose owner, which is deposed by this, was to seal its snapshot.
fn taking(meta: &dyn Transact, state: SetState) -> SnapshotSet {
    let found = volume(meta, "db").unwrap();
    let set = ask_set(meta, &["db".to_owned(), "log".to_owned()], "s", BTreeMap::new(), NOW).unwrap();
    let set = SnapshotSet { state, ..set };
    put(meta, map::set_key(set.id), &set);
    snapshot_taken(meta, "db", 1, "s");
    let key = map::snapshot_key(found.id, SnapshotId(1));
    let (snapshot, _) = get::<Snapshot>(meta, &key).unwrap().unwrap();
    let snapshot = Snapshot {
        state: SnapshotState::Taking(Generation(4)),
        set: Some(set.id),
        ..snapshot
    };
    put(meta, key, &snapshot);
    let lineage = Lineage {
        number: SnapshotId(1),
        sealed: SnapshotId(0),
        taking: true,
        set: Some(set.id),
        ..found.lineage
    };
    put(meta, map::volume_key("db"), &Volume { lineage, ..found });
    set
}

#[test]
fn what_its_owner_was_about_to_seal_is_void_unless_it_was_decided() {
    let meta = world();
    let set = taking(&meta, SetState::Taking);
    let closed = close(&meta, "db");
    assert!(!closed.lineage.taking && closed.lineage.set.is_none());
    assert_eq!(closed.lineage.sealed, SnapshotId(0));
    assert!(matches!(set_state(&meta, &set).unwrap(), SetTaking::Void(_)));
    let meta = world();
    let set = taking(&meta, SetState::Ready);
    let closed = close(&meta, "db");
    assert_eq!((closed.lineage.taking, closed.lineage.sealed), (false, SnapshotId(1)));
    let found = snapshot(&meta, "db", "s").unwrap();
    assert_eq!(
        (found.state, found.set),
        (SnapshotState::Sealed(Generation(4)), Some(set.id))
    );
    assert_eq!(set.id, SetId(1));
}

/// Whoever puts a set there has looked at the volumes before: it compares what is raised when one is closed.
#[test]
fn a_set_that_comes_in_the_moment_of_closing_is_not_put_there() {
    let meta = world();
    let racing = Racing {
        meta: &meta,
        left: AtomicUsize::new(1),
    };
    let asked = ask_set(&racing, &["db".to_owned(), "log".to_owned()], "s", BTreeMap::new(), NOW);
    assert_eq!(racing.left.load(Ordering::Relaxed), 0, "it was closed meanwhile");
    is_closed(asked);
    assert!(
        meta.txn(&Call::prefix(map::sets_prefix()))
            .unwrap()
            .values(0)
            .is_empty()
    );
}

/// Closes the volume before the first change goes through.
struct Racing<'a> {
    meta: &'a Mutex<State>,
    left: AtomicUsize,
}

impl Transact for Racing<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let changes = call.then.iter().any(|op| matches!(op, Op::Put { .. }));
        if changes && self.left.swap(0, Ordering::Relaxed) == 1 {
            close(self.meta, "db");
        }
        self.meta.txn(call)
    }
}

#[test]
fn it_is_of_a_version_that_all_programs_know() {
    assert_eq!(map::MIRRORS_SINCE, 4);
    // A record of before has nothing of it.
    let meta = world();
    let text = String::from_utf8(json(&volume(&meta, "db").unwrap())).unwrap();
    assert!(!text.contains("closed"), "{text}");
    let read: Volume = serde_json::from_str(&text).unwrap();
    assert_eq!((read.id, read.closed), (VolumeId(1), None));
}
