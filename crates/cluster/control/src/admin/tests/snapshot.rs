use super::*;
use amita_types::SnapshotId;
use amita_types::map::{SNAPSHOTS_SINCE, Snapshot, SnapshotName, SnapshotState, SnapshotWish};
use std::collections::BTreeMap;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn with_volume(version: u32) -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "db", "main", 1 << 30).unwrap();
    let mut record = cluster(&meta).unwrap();
    record.version = version;
    meta.txn(&Call::put(map::cluster_key(), json(&record))).unwrap();
    meta
}

fn ask(meta: &dyn Transact, name: &str) -> Result<SnapshotWish> {
    ask_snapshot(meta, "db", name, BTreeMap::new(), NOW)
}

/// As the owner does, in one transaction.
fn take(meta: &dyn Transact, number: u32, state: SnapshotState) {
    let id = volume(meta, "db").unwrap().id;
    let (wish, _) = get::<SnapshotWish>(meta, &map::snapshot_wish_key(id)).unwrap().unwrap();
    let number = SnapshotId(number);
    let snapshot = Snapshot {
        volume: id,
        number,
        name: wish.name.clone(),
        size_bytes: 1 << 30,
        taken_at: wish.asked_at,
        labels: wish.labels,
        protected: false,
        clones: 0,
        state,
    };
    let name_key = map::snapshot_name_key(id, &wish.name);
    for call in [
        Call::put(map::snapshot_key(id, number), json(&snapshot)),
        Call::put(name_key, json(&SnapshotName { number })),
    ] {
        meta.txn(&call).unwrap();
    }
    if let SnapshotState::Sealed(_) = state {
        let key = map::snapshot_wish_key(id);
        let call = Call {
            then: vec![Op::Delete { key }],
            ..Call::default()
        };
        meta.txn(&call).unwrap();
    }
}

#[test]
fn a_snapshot_is_wished_taken_and_listed() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    let labels = BTreeMap::from([("why".to_owned(), "upgrade".to_owned())]);
    let wish = ask_snapshot(&meta, "db", "before", labels.clone(), NOW).unwrap();
    assert_eq!(snapshot_state(&meta, &wish).unwrap(), TakingState::Waiting);
    take(&meta, 1, SnapshotState::Taking(Generation(1)));
    assert_eq!(snapshot_state(&meta, &wish).unwrap(), TakingState::Waiting);
    assert!(snapshots(&meta, "db").unwrap().is_empty(), "what is not sealed is none");
    assert!(snapshot_number(&meta, "db", "before").is_err());
    take(&meta, 1, SnapshotState::Sealed(Generation(1)));
    let TakingState::Taken(snapshot) = snapshot_state(&meta, &wish).unwrap() else {
        panic!("it is taken")
    };
    assert_eq!((snapshot.labels, snapshot.taken_at), (labels, NOW.as_secs()));
    assert_eq!(snapshot_number(&meta, "db", "before").unwrap(), SnapshotId(1));
    ask(&meta, "after").unwrap();
    take(&meta, 12, SnapshotState::Sealed(Generation(1)));
    let all = snapshots(&meta, "db").unwrap();
    let names: Vec<&str> = all.iter().map(|snapshot| snapshot.name.as_str()).collect();
    assert_eq!(names, ["before", "after"], "in order of their number");
}

#[test]
fn one_is_taken_at_a_time_and_no_name_twice() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    ask(&meta, "a").unwrap();
    let busy = ask(&meta, "b").unwrap_err().to_string();
    assert!(
        busy.contains("another snapshot of the volume, \"a\", is being taken"),
        "{busy}"
    );
    take(&meta, 1, SnapshotState::Sealed(Generation(1)));
    let twice = ask(&meta, "a").unwrap_err();
    assert!(matches!(twice, AdminError::Exists { what: "snapshot", .. }), "{twice}");
    ask(&meta, "b").unwrap();
}

#[test]
fn what_was_begun_and_is_void_keeps_no_name() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    let wish = ask(&meta, "a").unwrap();
    take(&meta, 1, SnapshotState::Taking(Generation(1)));
    drop_snapshot_wish(&meta, &wish).unwrap();
    assert_eq!(snapshot_state(&meta, &wish).unwrap(), TakingState::Dropped);
    ask(&meta, "a").unwrap();
}

#[test]
fn a_refusal_is_told_once_and_keeps_nobody_waiting() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    let wish = ask(&meta, "a").unwrap();
    let id = volume(&meta, "db").unwrap().id;
    let refused = SnapshotWish {
        refused: Some("stores away".to_owned()),
        ..wish.clone()
    };
    let call = Call::put(map::snapshot_wish_key(id), json(&refused));
    meta.txn(&call).unwrap();
    let state = snapshot_state(&meta, &wish).unwrap();
    assert_eq!(state, TakingState::Refused("stores away".to_owned()));
    assert_eq!(snapshot_state(&meta, &wish).unwrap(), TakingState::Dropped);
    // One that nobody has heard of gives way to the next.
    meta.txn(&call).unwrap();
    ask(&meta, "b").unwrap();
}

#[test]
fn bad_wishes_say_what_is_wrong() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    let bad = ask(&meta, "a/b").unwrap_err().to_string();
    assert!(
        bad.contains("snapshot db@a/b") && bad.contains("letters, digits"),
        "{bad}"
    );
    let gone = ask_snapshot(&meta, "dx", "a", BTreeMap::new(), NOW).unwrap_err();
    assert!(matches!(gone, AdminError::NoSuch { what: "volume", .. }), "{gone}");
    let old = with_volume(SNAPSHOTS_SINCE - 1);
    let early = ask(&old, "a").unwrap_err().to_string();
    assert!(
        early.contains("the cluster's version is 1, and snapshots need 2"),
        "{early}"
    );
}

#[test]
fn a_volumes_snapshots_go_with_it() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    ask(&meta, "a").unwrap();
    take(&meta, 1, SnapshotState::Sealed(Generation(1)));
    ask(&meta, "b").unwrap();
    let id = volume(&meta, "db").unwrap().id;
    delete_volume(&meta, "db", false, &mut || true).unwrap();
    let left = meta.txn(&Call::prefix(map::snapshots_prefix(id))).unwrap();
    assert!(left.values(0).is_empty());
    assert!(
        get::<SnapshotWish>(&meta, &map::snapshot_wish_key(id))
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_snapshot_is_deleted_and_its_name_is_free() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    let id = volume(&meta, "db").unwrap().id;
    ask(&meta, "a").unwrap();
    take(&meta, 1, SnapshotState::Sealed(Generation(1)));
    ask(&meta, "b").unwrap();
    take(&meta, 2, SnapshotState::Sealed(Generation(1)));
    let deleted = delete_snapshot(&meta, "db", "a").unwrap();
    assert_eq!((deleted.number, deleted.name.as_str()), (SnapshotId(1), "a"));
    assert!(
        get::<Snapshot>(&meta, &map::snapshot_key(id, SnapshotId(1)))
            .unwrap()
            .is_none()
    );
    assert!(
        get::<SnapshotName>(&meta, &map::snapshot_name_key(id, "a"))
            .unwrap()
            .is_none()
    );
    let left = snapshots(&meta, "db").unwrap();
    assert_eq!(
        left.iter().map(|snapshot| snapshot.name.as_str()).collect::<Vec<_>>(),
        ["b"]
    );
    let gone = delete_snapshot(&meta, "db", "a").unwrap_err();
    let AdminError::NoSuch {
        what: "snapshot",
        name,
        there,
    } = &gone
    else {
        panic!("{gone}")
    };
    assert_eq!((name.as_str(), there.as_slice()), ("db@a", &["b".to_owned()][..]));
    // One that is being taken is none yet: nothing of it is touched.
    ask(&meta, "c").unwrap();
    take(&meta, 3, SnapshotState::Taking(Generation(1)));
    assert!(matches!(
        delete_snapshot(&meta, "db", "c"),
        Err(AdminError::NoSuch { .. })
    ));
    assert!(
        get::<Snapshot>(&meta, &map::snapshot_key(id, SnapshotId(3)))
            .unwrap()
            .is_some()
    );
    // While the metadata is suspected nothing is deleted.
    let suspect = map::Suspect {
        why: "older".to_owned(),
    };
    let call = Call::put(map::suspect_key(amita_types::NodeId(1)), json(&suspect));
    meta.txn(&call).unwrap();
    assert!(matches!(
        delete_snapshot(&meta, "db", "b"),
        Err(AdminError::Suspected { .. })
    ));
}
