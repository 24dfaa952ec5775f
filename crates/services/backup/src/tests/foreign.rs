//! What others may put into a repository that several share keeps nobody from their own vault, and nobody busy.

use super::*;
use crate::seal::MasterKey;
use crate::slot::KeySlot;
use crate::store::{Listed, Put, Retention, StoreError, list_all};
use crate::vault::VaultId;
use aws_lc_rs::digest::{SHA256, digest};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A key that opens by nothing, with a right checksum, which costs that much to be tried.
fn made_up(vault: VaultId, cost: Cost) -> Vec<u8> {
    let slot = KeySlot::seal(vault, &MasterKey::new([7; 32]), b"of nobody", CHEAP).unwrap();
    let mut bytes = slot.bytes().to_vec();
    bytes[32..36].copy_from_slice(&cost.memory_kib.to_le_bytes());
    bytes[36..40].copy_from_slice(&cost.passes.to_le_bytes());
    let sum = digest(&SHA256, &bytes[..124]);
    bytes[124..].copy_from_slice(sum.as_ref());
    bytes
}

fn drawn() -> Vec<u8> {
    format!("{}{}", crate::DRAWN, "5a".repeat(32)).into_bytes()
}

#[test]
fn a_drawn_key_is_tried_at_its_own_cost_alone() {
    let (id, master) = (VaultId([3; 16]), MasterKey::new([9; 32]));
    let sealed = KeySlot::seal(id, &master, &drawn(), CHEAP).unwrap();
    assert_eq!(sealed.bytes()[32..36], Cost::OF_RANDOM_BITS.memory_kib.to_le_bytes());
    assert_eq!(sealed.open(&drawn()).unwrap().as_deref(), Some(&[9; 32]));
    // It would open, were it tried.
    let at_another = KeySlot::seal_at(id, &master, &drawn(), CHEAP).unwrap();
    assert!(at_another.open(&drawn()).unwrap().is_none());

    let store = Arc::new(Memory::default());
    let dynamic = store.clone() as Arc<dyn ObjectStore>;
    let vault = Vault::create(dynamic.clone(), &drawn(), CHEAP, options()).unwrap();
    let (own, other) = (vault.id().key(0), vault.id().key(7));
    let bytes = store.get(&own).unwrap().unwrap();
    store.delete(&own).unwrap();
    store.put(&own, &made_up(vault.id(), Cost::MOST), None).unwrap();
    store.put(&other, &bytes, None).unwrap();
    assert!(Vault::open(dynamic.clone(), vault.id(), &drawn(), options()).is_ok());
    store.delete(&other).unwrap();
    let refused = Vault::open(dynamic, vault.id(), &drawn(), options()).map(drop);
    assert!(
        matches!(
            refused,
            Err(Error::Passphrase {
                slots: 1,
                costly: 0,
                ..
            })
        ),
        "{refused:?}"
    );
}

#[test]
fn a_passphrase_is_tried_on_what_costs_no_more_than_it_may() {
    let store = Arc::new(Memory::default());
    let dynamic = store.clone() as Arc<dyn ObjectStore>;
    let dearer = Cost { passes: 2, ..CHEAP };
    let vault = Vault::create(dynamic.clone(), PASSPHRASE, dearer, options()).unwrap();
    let open = |most| Vault::open_within(dynamic.clone(), vault.id(), PASSPHRASE, options(), most, &|| false).map(drop);
    for most in [
        CHEAP,
        Cost {
            memory_kib: 4,
            ..dearer
        },
    ] {
        let refused = open(most).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::Passphrase {
                    slots: 0,
                    costly: 1,
                    ..
                }
            ),
            "{refused:?}"
        );
        assert!(
            refused.to_string().contains("not tried") && refused.to_string().ends_with(": 1"),
            "{refused}"
        );
    }
    open(dearer).unwrap();
    open(Cost::MOST).unwrap();
    vault.add_passphrase(PASSPHRASE, CHEAP).unwrap();
    open(CHEAP).unwrap();
}

#[test]
fn opening_ends_before_any_key_where_it_is_told_to() {
    let store = Arc::new(Memory::default());
    let dynamic = store.clone() as Arc<dyn ObjectStore>;
    let vault = new_vault(&store);
    let own = vault.id().key(0);
    store
        .put(&vault.id().key(9), &store.get(&own).unwrap().unwrap(), None)
        .unwrap();
    store.delete(&own).unwrap();
    for number in 0..9 {
        store
            .put(&vault.id().key(number), &made_up(vault.id(), CHEAP), None)
            .unwrap();
    }
    for before in 0..10 {
        let asked = Cell::new(0);
        let ends = || asked.replace(asked.get() + 1) == before;
        let opened = Vault::open_within(dynamic.clone(), vault.id(), PASSPHRASE, options(), Cost::MOST, &ends);
        assert!(matches!(opened.err(), Some(Error::Ended)), "{before}");
    }
}

/// Is this the process whose memory has a limit? Else such a one runs the test.
fn has_little_memory(test: &str) -> bool {
    const HERE: &str = "AMITA_TEST_LITTLE_MEMORY";
    if std::env::var_os(HERE).is_none() {
        let name = &format!("tests::foreign::{test}");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = child
            .args(["--exact", name, "--nocapture"])
            .env(HERE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{ended:?}");
        return false;
    }
    let mut limit = getrlimit(Resource::As);
    limit.current = Some(2 << 30);
    setrlimit(Resource::As, limit).unwrap();
    true
}

#[test]
fn a_key_that_there_is_no_memory_for_is_not_counted_on_when_a_passphrase_is_removed() {
    if !has_little_memory("a_key_that_there_is_no_memory_for_is_not_counted_on_when_a_passphrase_is_removed") {
        return;
    }
    let store = Arc::new(Memory::default());
    let vault = new_vault(&store);
    let key = |number: usize| vault.id().key(number);
    let costly = made_up(vault.id(), Cost::MOST);
    store.put(&key(1), &costly, None).unwrap();
    let untried = |number: usize| {
        let error = vault.remove_passphrase(PASSPHRASE).unwrap_err();
        assert!(
            matches!(&error, Error::Untried { object, .. } if *object == key(number)),
            "{error}"
        );
    };
    // The only one that opens the vault for certain stays.
    untried(1);
    assert_eq!(store.names("keys/"), [key(0), key(1)]);
    // It goes when another one stays, and that one was not tried is told.
    vault.add_passphrase(b"a second one", CHEAP).unwrap();
    untried(1);
    assert_eq!(store.names("keys/"), [key(1), key(2)]);
    // Nor is it said that none was the passphrase's when that is not known.
    untried(1);
    store.delete(&key(1)).unwrap();
    assert_eq!(vault.remove_passphrase(PASSPHRASE).unwrap(), 0);
    assert_eq!(store.names("keys/"), [key(2)]);
}

/// In a process of its own, whose memory has a limit.
#[test]
fn a_key_that_there_is_no_memory_for_keeps_no_other_one_from_opening() {
    if !has_little_memory("a_key_that_there_is_no_memory_for_keeps_no_other_one_from_opening") {
        return;
    }
    let store = Arc::new(Memory::default());
    let dynamic = store.clone() as Arc<dyn ObjectStore>;
    let vault = new_vault(&store);
    let own = vault.id().key(0);
    let bytes = store.get(&own).unwrap().unwrap();
    store.delete(&own).unwrap();
    store.put(&own, &made_up(vault.id(), Cost::MOST), None).unwrap();
    let open = || Vault::open(dynamic.clone(), vault.id(), PASSPHRASE, options()).map(drop);
    let untried = open().unwrap_err();
    assert!(
        matches!(&untried, Error::Untried { object, .. } if *object == own),
        "{untried:?}"
    );
    assert!(untried.to_string().contains("no memory"), "{untried}");
    store.put(&vault.id().key(1), &bytes, None).unwrap();
    open().unwrap();
}

/// Invents a name behind any other.
#[derive(Default)]
struct Endless {
    pages: AtomicUsize,
}

impl ObjectStore for Endless {
    fn put(&self, _: &str, _: &[u8], _: Option<Retention>) -> Result<Put, StoreError> {
        Err(StoreError::Full)
    }

    fn get(&self, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn get_range(&self, _: &str, _: u64, _: usize) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn list(&self, prefix: &str, _: &str, _: usize) -> Result<Vec<Listed>, StoreError> {
        let page = self.pages.fetch_add(1, Ordering::Relaxed);
        assert!(page < 1000, "it is asked for ever");
        let named = |number: usize| Listed {
            name: format!("{prefix}{:020}{}", 10 * page + number, "x".repeat(10_000)),
            bytes: 1,
        };
        Ok((0..10).map(named).collect())
    }

    fn delete(&self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn retain(&self, _: &str, _: Retention) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn a_list_that_has_no_end_is_given_up() {
    let endless = list_all(&Endless::default(), "keys/");
    assert!(matches!(endless, Err(StoreError::Refused(_))), "{endless:?}");
    let all = Vault::all(&Endless::default()).unwrap_err();
    assert!(
        all.to_string().contains("keys/: cannot list it: there are more names"),
        "{all}"
    );
}
