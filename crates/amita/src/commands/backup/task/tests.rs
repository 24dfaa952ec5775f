use super::*;
use amita_backup::store::Folder;
use amita_backup::{Change, Cost, Identity, Options};

#[test]
fn nothing_is_counted_from_a_point_that_needs_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(Folder::open(folder.path()).unwrap());
    let mut vault = Vault::create(store, b"key", Cost::OF_RANDOM_BITS, Options::default()).unwrap();
    let identity = Identity {
        cluster: [1; 16],
        volume: [2; 16],
        name: "v".to_owned(),
    };
    let subject = Subject {
        volume: serde_json::from_value(serde_json::json!({
            "id": 3, "name": "v", "pool": "p", "size_bytes": 1 << 20, "generation": 5
        }))
        .unwrap(),
        identity: identity.clone(),
    };
    let make = |vault: &mut Vault| {
        let mut session = vault.begin("a backup").unwrap();
        let volume = amita_backup::Volume {
            identity: identity.clone(),
            bytes: 1 << 20,
            encrypted: false,
            snapshot: (5, 9),
            parent: None,
            compares: false,
        };
        let bytes = vec![7; 4096];
        let mut source = std::iter::once(Ok::<_, std::io::Error>(Change::Bytes { offset: 0, bytes }));
        let made = session.backup(&volume, &mut source).unwrap();
        let point = session.publish("p", 0, vec![made]).unwrap();
        session.end().unwrap();
        point
    };
    let first = make(&mut vault);
    let before = |base: Option<u64>, newest: u64| Before {
        newest: Some(newest),
        base: base.map(|point| (point, "mark".to_owned())),
    };
    let counted = countable(&vault, &subject, before(Some(first), first)).unwrap();
    assert_eq!(counted.base.map(|(point, _)| point), Some(first));
    // Its packs are found missing.
    for pack in std::fs::read_dir(folder.path().join("packs").join(vault.id().to_string())).unwrap() {
        std::fs::remove_file(pack.unwrap().path()).unwrap();
    }
    let scope = amita_backup::verify::Scope::Whole;
    let report = amita_backup::verify::verify(&vault, scope).unwrap();
    let packs: Vec<_> = report.packs_lost.iter().copied().collect();
    vault.give_up(&packs).unwrap();
    assert!(lost(&vault).is_some());
    for before in [before(Some(first), first), before(None, first)] {
        let counted = countable(&vault, &subject, before).unwrap();
        assert!(counted.base.is_none() && counted.newest.is_none(), "{counted:?}");
    }
    // The one that was read whole since is counted from.
    let second = make(&mut vault);
    let counted = countable(&vault, &subject, before(Some(second), second)).unwrap();
    assert_eq!(counted.newest, Some(second));
}
