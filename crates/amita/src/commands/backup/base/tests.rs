use super::*;
use amita_metadata::{Call, Transact as _, model};
use amita_types::map::{self, SnapshotName};
use amita_types::{ClusterId, Generation, SnapshotId};
use std::sync::Mutex;

fn snapshot(label: &str) -> Snapshot {
    Snapshot {
        volume: VolumeId(3),
        number: SnapshotId(9),
        name: "a".to_owned(),
        size_bytes: 4096,
        taken_at: 1_700_000_000,
        labels: BTreeMap::from([(BACKUP_LABEL.to_owned(), label.to_owned())]),
        protected: false,
        clones: 0,
        set: None,
        mark: true,
        hidden: false,
        state: SnapshotState::Sealed(Generation(5)),
    }
}

#[test]
fn a_snapshot_is_known_by_its_label_as_one_of_a_vault() {
    let vault = "00112233445566778899aabbccddeeff";
    let hash = hexadecimal(&[0xab; 32]);
    let found = origin(&snapshot(&format!("{vault}/17/{hash}")), vault);
    let wanted = Origin {
        session: SessionId(17),
        hash: [0xab; 32],
    };
    assert_eq!(found, Some(wanted));
    assert_eq!(versions(&snapshot("")), (5, 9));
    for other in [
        format!("{vault}/17"),
        format!("{vault}/17/{}", &hash[2..]),
        format!("{vault}/17/{}\u{fc}", &hash[2..]),
        format!("{vault}/x/{hash}"),
        format!("{vault}17/{hash}"),
        format!("ff{}/17/{hash}", &vault[2..]),
        String::new(),
    ] {
        assert_eq!(origin(&snapshot(&other), vault), None, "{other}");
    }
}

#[test]
fn of_two_that_begin_at_one_time_the_later_snapshot_gives_way_and_never_neither() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(amita_backup::store::Folder::open(folder.path()).unwrap());
    let cost = amita_backup::Cost::OF_RANDOM_BITS;
    let mut vault = Vault::create(store, b"key", cost, amita_backup::Options::default()).unwrap();
    let mut begin = || {
        let id = vault.begin("a backup").unwrap().id();
        (id, label(&vault, id))
    };
    let ((early, early_label), (late, late_label)) = (begin(), begin());
    let taken = |label: &str, number| Snapshot {
        number: SnapshotId(number),
        ..snapshot(label)
    };
    let subject = Subject {
        volume: serde_json::from_value(serde_json::json!({
            "id": 3, "name": "v", "pool": "p", "size_bytes": 4096, "generation": 5
        }))
        .unwrap(),
        identity: Identity {
            cluster: [0; 16],
            volume: [0; 16],
            name: "v".to_owned(),
        },
    };
    let check = |snapshots: &[Snapshot], own| subject.check(snapshots, &vault, own, false);
    // The session that began first was slow: the other one has looked before there was a snapshot of it.
    let first = taken(&late_label, 8);
    check(std::slice::from_ref(&first), Some(late)).unwrap();
    let both = [first, taken(&early_label, 9)];
    let refused = check(&both, Some(early)).unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    assert!(refused.advice.contains(&format!("--fence {late}")), "{refused:?}");
    check(&both, Some(late)).unwrap();
    // Who has not begun waits for either.
    assert!(check(&both[1..], None).is_err());
    vault.fence(early).unwrap();
    subject.check(&both[1..], &vault, None, false).unwrap();
}

fn volume(name: &str, id: u64) -> Volume {
    serde_json::from_value(serde_json::json!({
        "id": id, "name": name, "pool": "p", "size_bytes": 4096, "generation": 5
    }))
    .unwrap()
}

fn put(meta: &Mutex<model::State>, key: String, record: &impl serde::Serialize) {
    let value = serde_json::to_vec(record).unwrap();
    meta.txn(&Call::put(key, value)).unwrap();
}

/// A cluster with these volumes.
fn cluster_with(volumes: &[(&str, u64)]) -> Mutex<model::State> {
    let meta = Mutex::new(model::State::new());
    admin::init_cluster(&meta, ClusterId(9)).unwrap();
    for (name, id) in volumes {
        put(&meta, map::volume_key(name), &volume(name, *id));
    }
    meta
}

/// A snapshot of this data is there, and has its name.
fn seal(meta: &Mutex<model::State>, snapshot: &Snapshot) {
    let (data, number) = (snapshot.volume, snapshot.number);
    put(meta, map::snapshot_key(data, number), snapshot);
    let named = SnapshotName::new(data, data, number);
    put(meta, map::snapshot_name_key(data, &snapshot.name), &named);
}

#[test]
fn a_volume_that_has_anothers_name_by_now_is_not_backed_up_as_that() {
    let meta = cluster_with(&[("a", 3), ("b", 4)]);
    let by = By::Node(&meta);
    let subject = Subject::numbered(&by, VolumeId(3), "a").unwrap();
    let own = |name: &str| subject.own_snapshot(&by, name).map(|snapshot| snapshot.number);
    assert_eq!(own("s").unwrap_err().kind, Kind::Conflict, "there is none yet");
    let taken = Snapshot {
        name: "s".to_owned(),
        ..snapshot("")
    };
    seal(&meta, &taken);
    assert_eq!(own("s").unwrap(), taken.number);
    // The two exchange their names: the snapshot of that name is the other one's.
    put(&meta, map::volume_key("a"), &volume("a", 4));
    put(&meta, map::volume_key("b"), &volume("b", 3));
    let other = Snapshot {
        volume: VolumeId(4),
        ..taken
    };
    seal(&meta, &other);
    assert_eq!(own("s").unwrap_err().kind, Kind::Conflict);
    assert!(Subject::numbered(&by, VolumeId(3), "a").is_err());
    assert!(Subject::numbered(&by, VolumeId(4), "a").is_ok());
}

#[test]
fn what_cannot_be_deleted_keeps_nothing_else_from_being() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(amita_backup::store::Folder::open(folder.path()).unwrap());
    let cost = amita_backup::Cost::OF_RANDOM_BITS;
    let mut vault = Vault::create(store, b"key", cost, amita_backup::Options::default()).unwrap();
    let mut dead = |over: bool| {
        let session = vault.begin("a backup").unwrap();
        let label = label(session.vault(), session.id());
        if over {
            session.end().unwrap();
        }
        label
    };
    let labels = [dead(true), dead(true), dead(true), dead(false)];
    let meta = cluster_with(&[("a", 3)]);
    let by = By::Node(&meta);
    let names = ["held", "left", "spared", "at-work"];
    for ((number, name), label) in (10..).zip(names).zip(&labels) {
        let snapshot = Snapshot {
            number: SnapshotId(number),
            name: name.to_owned(),
            protected: name == "held",
            ..snapshot(label)
        };
        seal(&meta, &snapshot);
    }
    let subject = Subject::find(&by, "a").unwrap();
    let listed = subject.snapshots(&by).unwrap();
    // There is no point from which one could go on: the newest mark remembers what the vault was.
    assert_eq!(subject.spared(&listed[..3], &vault).as_deref(), Some("spared"));
    let left = subject.clean(&by, &listed, &vault, Some("spared"), false);
    assert!(left.len() == 1 && left[0].contains("a@held"), "{left:?}");
    let there: Vec<String> = subject
        .snapshots(&by)
        .unwrap()
        .into_iter()
        .map(|snapshot| snapshot.name)
        .collect();
    assert_eq!(there, ["held", "spared", "at-work"]);
    subject.remembers(&listed, &vault).unwrap();
    let another = snapshot(&format!("{}/1/{}", vault.id(), "ab".repeat(32)));
    assert!(subject.remembers(&[another], &vault).is_err());
}
