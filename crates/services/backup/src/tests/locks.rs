//! What cannot be read, or cannot be locked, keeps nothing else from being locked.

use super::damage::Unreadable;
use super::*;
use crate::pack::PackName;
use crate::piece::{Class, PieceId};
use crate::store::{Listed, Put, Retention, StoreError};
use std::collections::BTreeSet;

const UNTIL: Retention = Retention(5000);

/// Three points; the middle one has a leaf that no other one has: that one, and the pack that has it.
fn prepared() -> (Arc<Memory>, Vault, PieceId, PackName) {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(1 << 20);
    (0..30).for_each(|block| image.write(block, block + 1));
    let first = backup(&mut vault, &image, None, image.all()).unwrap();
    image.write(3, 500);
    let second = backup(&mut vault, &image, Some(first), image.changes([3])).unwrap();
    image.write(4, 501);
    backup(&mut vault, &image, Some(second), image.changes([4])).unwrap();
    let branch = vault.state().points()[&second].volumes[0]
        .branches
        .iter()
        .flatten()
        .next();
    let branch = vault.branch(*branch.unwrap()).unwrap();
    let leaf = *branch.leaves().iter().flatten().next().unwrap();
    let pack = vault.state().places(&leaf)[0].pack;
    (store, vault, leaf, pack)
}

/// The objects that are to be locked and are not.
fn free(store: &Memory) -> Vec<String> {
    store.with(|objects| {
        let free = objects.iter().filter(|(_, (_, until))| *until < UNTIL);
        free.map(|(name, _)| name.clone()).collect()
    })
}

fn lock(vault: &mut Vault) -> Result<(), Error> {
    vault.retain(UNTIL, &|| false)
}

#[test]
fn a_damaged_leaf_of_an_old_point_keeps_nothing_from_being_locked() {
    let (store, mut vault, leaf, pack) = prepared();
    let record = vault.state.packs[&pack]
        .directory
        .records
        .iter()
        .find(|record| record.id == leaf);
    let record = record.filter(|record| record.class == Class::Leaf).unwrap();
    let (name, at) = (vault.id().pack(pack), record.offset as usize);
    store.with(|objects| objects.get_mut(&name).unwrap().0[at] ^= 1);
    let error = lock(&mut vault).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(&name), "{error}");
    assert_eq!(free(&store), Vec::<String>::new());
}

#[test]
fn a_pack_that_is_missing_keeps_nothing_from_being_locked_and_is_no_error_once_it_was_given_up() {
    let (store, mut vault, _, pack) = prepared();
    let name = vault.id().pack(pack);
    store.with(|objects| objects.remove(&name));
    let error = lock(&mut vault).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(&name), "{error}");
    assert_eq!(free(&store), Vec::<String>::new());
    vault.give_up(&[pack]).unwrap();
    lock(&mut vault).unwrap();
    assert_eq!(free(&store), Vec::<String>::new());
}

/// A store that does not lock some objects.
struct Unlockable {
    under: Arc<Memory>,
    names: BTreeSet<String>,
    why: fn() -> StoreError,
    /// From so many on it locks none.
    from: usize,
    asked: std::sync::Mutex<usize>,
}

impl Unlockable {
    fn of(under: &Arc<Memory>, names: impl IntoIterator<Item = String>, why: fn() -> StoreError) -> Unlockable {
        Unlockable {
            under: under.clone(),
            names: names.into_iter().collect(),
            why,
            from: usize::MAX,
            asked: 0.into(),
        }
    }
}

fn silence() -> StoreError {
    StoreError::Unknown("no answer".to_owned())
}

impl ObjectStore for Unlockable {
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError> {
        self.under.put(name, bytes, retain)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.under.get(name)
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.under.get_range(name, offset, length)
    }

    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError> {
        self.under.list(prefix, after, most)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.under.delete(name)
    }

    fn retain(&self, name: &str, until: Retention) -> Result<(), StoreError> {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        match self.names.contains(name) || *asked > self.from {
            true => Err((self.why)()),
            false => self.under.retain(name, until),
        }
    }
}

#[test]
fn what_cannot_be_read_or_locked_is_told_and_the_rest_is_locked() {
    let (store, mut vault, _, pack) = prepared();
    let name = vault.id().pack(pack);
    vault.store = Unreadable::of(&store, &[&name], false);
    let error = lock(&mut vault).unwrap_err();
    assert!(
        matches!(&error, Error::Unanswered(error) if matches!(&**error, Error::Store { object, .. } if *object == name)),
        "{error}"
    );
    assert_eq!(free(&store), Vec::<String>::new());

    let (store, mut vault, _, pack) = prepared();
    let names: BTreeSet<String> = [vault.id().pack(pack), vault.id().journal(2)].into();
    let refused = || StoreError::Refused("no".to_owned());
    vault.store = Arc::new(Unlockable::of(&store, names.clone(), refused));
    let error = lock(&mut vault).unwrap_err();
    assert!(
        matches!(&error, Error::Store { object, .. } if names.contains(object)),
        "{error}"
    );
    assert_eq!(free(&store).into_iter().collect::<BTreeSet<_>>(), names);
}

#[test]
fn a_store_that_answers_nothing_is_not_asked_for_each_object() {
    let ways: [(fn() -> StoreError, usize); 2] = [(silence, 3), (|| StoreError::Unsupported("locks"), 1)];
    for (why, most) in ways {
        let (store, mut vault, _, _) = prepared();
        let dead = Arc::new(Unlockable::of(&store, store.names(""), why));
        vault.store = dead.clone();
        lock(&mut vault).unwrap_err();
        assert_eq!(*dead.asked.lock().unwrap(), most);
    }
    let (store, mut vault, _, _) = prepared();
    vault.store = Unreadable::of(&store, &[], true);
    lock(&mut vault).unwrap_err();
}

/// Whoever locks has to know that what follows is not locked, and does not when he hears of damage alone.
#[test]
fn damage_does_not_hide_that_the_store_does_not_answer_any_more() {
    let ways: [fn() -> StoreError; 2] = [silence, || StoreError::Unsupported("locks")];
    for why in ways {
        let (store, mut vault, _, pack) = prepared();
        store.with(|objects| objects.remove(&vault.id().pack(pack)));
        vault.store = Arc::new(Unlockable::of(&store, store.names(""), why));
        let error = lock(&mut vault).unwrap_err();
        assert!(matches!(error, Error::Store { .. }), "{error}");
        assert!(free(&store).len() > 3);
    }
    // Silence that begins with the last object, too: there are no three of them any more.
    for is_damaged in [false, true] {
        let (store, mut vault, _, pack) = prepared();
        let objects = store.names("packs/").len() + store.names("journal/").len() + store.names("keys/").len();
        if is_damaged {
            store.with(|objects| objects.remove(&vault.id().pack(pack)));
        }
        vault.store = Arc::new(Unlockable {
            from: objects - 1,
            ..Unlockable::of(&store, [], silence)
        });
        let error = lock(&mut vault).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Store {
                    source: StoreError::Unknown(_),
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(free(&store), [vault.id().key(0)]);
    }
}

#[test]
fn objects_that_are_not_answered_for_are_told_apart_from_a_store_that_is_silent() {
    let ways: [fn(&Vault, PackName) -> Vec<String>; 3] = [
        |vault, pack| vec![vault.id().pack(pack)],
        |vault, _| vec![vault.id().journal(2)],
        // The last ones that are locked.
        |vault, _| vec![vault.id().journal(vault.head().number), vault.id().key(0)],
    ];
    for names in ways {
        let (store, mut vault, _, pack) = prepared();
        let names = names(&vault, pack);
        vault.store = Arc::new(Unlockable::of(&store, names.clone(), silence));
        let error = lock(&mut vault).unwrap_err();
        assert!(matches!(error, Error::Unanswered(_)), "{error}");
        let mut wanted = names;
        wanted.sort();
        assert_eq!(free(&store), wanted);
    }
}
