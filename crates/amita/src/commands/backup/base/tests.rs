use super::*;
use amita_types::{Generation, SnapshotId, VolumeId};

fn snapshot(label: &str) -> Snapshot {
    Snapshot {
        volume: VolumeId(3),
        number: SnapshotId(9),
        name: "a".to_owned(),
        size_bytes: 4096,
        taken_at: 1_700_000_000,
        labels: BTreeMap::from([(LABEL.to_owned(), label.to_owned())]),
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
