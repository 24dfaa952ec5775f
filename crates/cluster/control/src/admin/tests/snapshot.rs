use super::*;
use amita_types::map::{SNAPSHOTS_SINCE, Snapshot, SnapshotName, SnapshotState, SnapshotWish};
use amita_types::{SnapshotId, VolumeId};
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
        set: None,
        mark: false,
        hidden: false,
        state,
    };
    let name_key = map::snapshot_name_key(id, &wish.name);
    for call in [
        Call::put(map::snapshot_key(id, number), json(&snapshot)),
        Call::put(name_key, json(&SnapshotName { number, data: None })),
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
fn a_snapshot_that_is_being_taken_grows_with_its_volume() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    ask(&meta, "before").unwrap();
    take(&meta, 1, SnapshotState::Taking(Generation(1)));
    let (key, snapshot) = (map::volume_key("db"), map::snapshot_key(VolumeId(1), SnapshotId(1)));
    let size = || get::<Snapshot>(&meta, &snapshot).unwrap().unwrap().0.size_bytes;
    let mut record = volume(&meta, "db").unwrap();
    (record.lineage.number, record.lineage.taking) = (SnapshotId(1), true);
    meta.txn(&Call::put(key.clone(), json(&record))).unwrap();
    resize_volume(&meta, "db", 2 << 30).unwrap();
    assert_eq!(size(), 2 << 30, "what is written there before the cut is part of it");
    // Its owner seals it: from now on it stays as it is.
    let mut record = volume(&meta, "db").unwrap();
    record.lineage.end(true);
    meta.txn(&Call::put(key, json(&record))).unwrap();
    resize_volume(&meta, "db", 3 << 30).unwrap();
    assert_eq!(size(), 2 << 30);
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
    assert!(super::snapshot(&meta, "db", "before").is_err());
    take(&meta, 1, SnapshotState::Sealed(Generation(1)));
    let TakingState::Taken(snapshot) = snapshot_state(&meta, &wish).unwrap() else {
        panic!("it is taken")
    };
    assert_eq!((snapshot.labels, snapshot.taken_at), (labels, NOW.as_secs()));
    assert_eq!(super::snapshot(&meta, "db", "before").unwrap().number, SnapshotId(1));
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
    let busy = ask(&meta, "b").unwrap_err();
    assert_eq!(busy.code().name(), "being-taken");
    assert_eq!(
        busy.to_string(),
        "snapshot db@b: another snapshot of the volume, \"a\", is being taken; try again when it is"
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
    delete_volume(&meta, "db", false, 9, &mut || true).unwrap();
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

fn with_snapshot() -> Mutex<State> {
    let meta = with_volume(SNAPSHOTS_SINCE);
    ask(&meta, "a").unwrap();
    take(&meta, 1, SnapshotState::Sealed(Generation(1)));
    let subsystem = SubsystemSpec {
        name: "s".to_owned(),
        ..SubsystemSpec::default()
    };
    create_subsystem(&meta, &subsystem).unwrap();
    meta
}

#[test]
fn a_snapshot_is_a_disk_of_its_own_and_stays_while_it_is_one() {
    let meta = with_snapshot();
    let head = add_namespace(&meta, "s", "db", None, 4096).unwrap();
    let made = add_namespace(&meta, "s", "db@a", None, 512).unwrap();
    assert_eq!((made.nsid, made.volume), (2, head.volume));
    assert_eq!(made.snapshot.map(|snapshot| snapshot.number), Some(SnapshotId(1)));
    assert_ne!(made.uuid, head.uuid);
    assert_eq!(made.uuid.get_version_num(), 8);
    // What it is does not change with the volume.
    resize_volume(&meta, "db", 2 << 30).unwrap();
    let all = namespaces(&meta).unwrap().readable;
    let shown: Vec<_> = all.iter().map(|found| (found.of(), found.size_bytes)).collect();
    assert_eq!(
        shown,
        [("db".to_owned(), Some(2 << 30)), ("db@a".to_owned(), Some(1 << 30))]
    );
    let found = namespace_of(&meta, "db@a").unwrap().1.unwrap();
    assert_eq!((found.namespace.nsid, found.snapshot_name.as_deref()), (2, Some("a")));
    let twice = add_namespace(&meta, "s", "db@a", None, 4096).unwrap_err();
    assert!(twice.to_string().contains("volume db@a is namespace 2"), "{twice}");

    let refused = delete_snapshot(&meta, "db", "a").unwrap_err();
    let AdminError::SnapshotAttached { name, subsystem, nsid } = &refused else {
        panic!("{refused}")
    };
    assert_eq!((name.as_str(), subsystem.as_str(), *nsid), ("db@a", "s", 2));
    assert!(refused.to_string().contains("amita namespace remove s 2"), "{refused}");
    assert_eq!(snapshots(&meta, "db").unwrap().len(), 1);
    // The volume takes its snapshots with it: not while hosts have one.
    remove_namespace(&meta, "s", 1).unwrap();
    let refused = delete_volume(&meta, "db", false, 9, &mut || true).unwrap_err();
    assert!(
        refused.to_string().contains("db@a is namespace 2 of subsystem s"),
        "{refused}"
    );
    remove_namespace(&meta, "s", 2).unwrap();
    delete_snapshot(&meta, "db", "a").unwrap();
}

#[test]
fn a_snapshot_of_an_exported_volume_may_be_a_namespace() {
    let meta = with_snapshot();
    let spec = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    export_volume(&meta, "db", &spec).unwrap();
    assert!(matches!(
        add_namespace(&meta, "s", "db", None, 4096),
        Err(AdminError::Exported { .. })
    ));
    add_namespace(&meta, "s", "db@a", None, 4096).unwrap();
    // And the other way round.
    unexport_volume(&meta, "db").unwrap();
    export_volume(&meta, "db", &spec).unwrap();
}

/// Whoever is second loses, whichever of the two it is.
#[test]
fn a_snapshot_is_not_deleted_while_it_becomes_a_namespace() {
    use super::nvme::Meanwhile;
    let mut met = [0; 2];
    for at in 0..12 {
        let meta = with_snapshot();
        let delete = |meta: &dyn Transact| drop(delete_snapshot(meta, "db", "a"));
        let slow = Meanwhile::new(&meta, at, &delete);
        let added = add_namespace(&slow, "s", "db@a", None, 4096);
        let gone = snapshots(&meta, "db").unwrap().is_empty();
        assert_eq!(added.is_err(), gone, "at call {at}: {added:?}");
        met[0] += usize::from(gone);

        let meta = with_snapshot();
        let add = |meta: &dyn Transact| drop(add_namespace(meta, "s", "db@a", None, 4096));
        let slow = Meanwhile::new(&meta, at, &add);
        let deleted = delete_snapshot(&slow, "db", "a");
        let namespaces = subsystem(&meta, "s").unwrap().namespaces.len();
        assert_eq!(deleted.is_err(), namespaces == 1, "at call {at}: {deleted:?}");
        met[1] += namespaces;
    }
    assert!(met.iter().all(|met| *met > 2), "{met:?}");
}

#[test]
fn what_is_no_name_of_a_snapshot_is_said() {
    let meta = with_snapshot();
    for bad in ["db@", "@a", "@", "db@a@a", "db@@a"] {
        let refused = add_namespace(&meta, "s", bad, None, 4096).unwrap_err();
        assert!(matches!(refused, AdminError::BadName { .. }), "{bad}: {refused}");
        assert!(refused.to_string().contains("VOLUME@SNAPSHOT"), "{refused}");
    }
    let refused = add_namespace(&meta, "s", "db@b", None, 4096).unwrap_err();
    assert!(
        matches!(&refused, AdminError::NoSuch { what: "snapshot", there, .. } if there == &["a"]),
        "{refused}"
    );
    let refused = add_namespace(&meta, "s", "none@a", None, 4096).unwrap_err();
    assert!(
        matches!(refused, AdminError::NoSuch { what: "volume", .. }),
        "{refused}"
    );
    // One that is being taken is none yet.
    ask(&meta, "c").unwrap();
    take(&meta, 2, SnapshotState::Taking(Generation(1)));
    let refused = add_namespace(&meta, "s", "db@c", None, 4096).unwrap_err();
    assert!(
        matches!(refused, AdminError::NoSuch { what: "snapshot", .. }),
        "{refused}"
    );
    // A deleted volume has no name that anybody could use.
    let id = volume(&meta, "db").unwrap().id;
    let fate = Fate::Recycle {
        deleted_at: 1,
        purge_at: 2,
    };
    carry_out(&meta, Deletion::of("db", false, fate), &mut || true).unwrap();
    for name in ["db@a".to_owned(), format!("{}@a", map::hidden_name(id))] {
        let refused = add_namespace(&meta, "s", &name, None, 4096).unwrap_err();
        assert!(
            matches!(refused, AdminError::NoSuch { what: "volume", .. }),
            "{name}: {refused}"
        );
    }
}
