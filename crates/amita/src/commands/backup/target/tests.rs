use super::*;
use amita_backup::DRAWN;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// A repository of several, and a key of ours.
struct Shared {
    folder: tempfile::TempDir,
}

impl Shared {
    fn new(passphrase: &str) -> Shared {
        let shared = Shared {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(shared.path("store")).unwrap();
        fs::write(shared.path("key"), passphrase).unwrap();
        fs::set_permissions(shared.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
        shared
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A vault of ours.
    fn vault(&self, cost: Cost) -> VaultId {
        let store = Arc::new(Folder::open(&self.path("store")).unwrap());
        let key = Key::load(&self.path("key")).unwrap();
        Vault::create(store, key.bytes(), cost, Options::default())
            .unwrap()
            .id()
    }

    fn open(&self, vault: Option<VaultId>) -> Result<VaultId> {
        let known = serde_json::json!({"name": "r", "address": self.path("store"), "key_file": self.path("key")});
        let mut target = Target::of(&serde_json::from_value(known).unwrap()).unwrap();
        target.vault = vault;
        target.open(false).map(|vault| vault.id())
    }
}

fn drawn() -> String {
    format!("{DRAWN}{}", "5a".repeat(32))
}

#[test]
fn what_is_no_vault_keeps_nobody_from_their_own() {
    let shared = Shared::new(&drawn());
    let folder = shared.path(&format!("store/keys/{}", "0".repeat(32)));
    fs::create_dir_all(&folder).unwrap();
    // No key has that name, and all is listed.
    fs::write(folder.join("99"), "x").unwrap();
    assert_eq!(shared.open(None).err().map(|why| why.kind), Some(Kind::NotFound));
    let own = shared.vault(Cost::OF_RANDOM_BITS);
    assert_eq!(shared.open(None).unwrap(), own);
}

#[test]
fn a_vault_that_nobody_has_named_is_not_tried_at_any_cost() {
    let shared = Shared::new("of our own");
    let costly = Cost {
        memory_kib: 8,
        passes: Cost::default().passes + 1,
        lanes: 1,
    };
    let own = shared.vault(costly);
    let alone = shared.open(None).err().unwrap();
    assert!(
        alone.what.contains("not tried") && alone.advice.contains("--vault"),
        "{alone:?}"
    );
    assert_eq!(alone.kind, Kind::Unreadable);
    assert_eq!(shared.open(Some(own)).unwrap(), own);
    // Also where there is another one's.
    let store = Arc::new(Folder::open(&shared.path("store")).unwrap());
    Vault::create(store, b"of another one", costly, Options::default()).unwrap();
    let of_two = shared.open(None).err().unwrap();
    assert!(
        of_two.what.contains("none of the 2 vaults") && of_two.what.contains("2 of them have keys that cost"),
        "{of_two:?}"
    );
    assert!(of_two.advice.contains("--vault"), "{of_two:?}");
}

#[test]
fn a_vault_that_was_found_is_the_first_one_that_is_tried() {
    let shared = Shared::new(&drawn());
    let found = shared.vault(Cost::OF_RANDOM_BITS);
    assert_eq!(shared.open(None).unwrap(), found);
    // Among so many some come before it.
    let others: Vec<VaultId> = (0..20).map(|_| shared.vault(Cost::OF_RANDOM_BITS)).collect();
    assert!(others.iter().any(|other| *other < found), "{found} {others:?}");
    assert_eq!(shared.open(None).unwrap(), found);
    // When it is gone another one is looked for.
    fs::remove_dir_all(shared.path(&format!("store/keys/{found}"))).unwrap();
    assert_eq!(Some(&shared.open(None).unwrap()), others.iter().min());
}
