//! The store that is a folder keeps the contract, and a vault in it is a vault.

use super::*;
use crate::prune;
use crate::store::{Folder, MAX_OBJECT_BYTES, Put, StoreError};
use crate::verify::{Scope, verify};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

#[test]
fn of_several_puts_of_one_name_one_wins() {
    let folder = amita_testkit::folder::in_memory();
    let stores: Vec<Folder> = (0..4).map(|_| Folder::open(folder.path()).unwrap()).collect();
    for turn in 0..50 {
        let name = format!("journal/a/{turn:020}");
        let putting = |(at, store): (usize, &Folder)| store.put(&name, &[at as u8; 9000], None).unwrap();
        let putting = &putting;
        let won: Vec<Put> = std::thread::scope(|scope| {
            let threads: Vec<_> = stores
                .iter()
                .enumerate()
                .map(|put| scope.spawn(move || putting(put)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(won.iter().filter(|put| **put == Put::New).count(), 1);
        let there = stores[0].get(&name).unwrap().unwrap();
        let winner = won.iter().position(|put| *put == Put::New).unwrap();
        assert_eq!(there, vec![winner as u8; 9000]);
    }
    let left = std::fs::read_dir(folder.path().join(".new")).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn objects_are_listed_in_order_and_bad_names_refused() {
    let folder = amita_testkit::folder::in_memory();
    let store = Folder::open(folder.path()).unwrap();
    assert!(store.list("", "", 10).unwrap().is_empty());
    for name in ["b/2", "a/1", "b-c/1", "b/10", "a/3"] {
        store.put(name, name.as_bytes(), None).unwrap();
    }
    let names = |prefix: &str, after: &str, most| {
        let listed = store.list(prefix, after, most).unwrap();
        listed.into_iter().map(|object| object.name).collect::<Vec<_>>()
    };
    assert_eq!(names("", "", 10), ["a/1", "a/3", "b-c/1", "b/10", "b/2"]);
    assert_eq!(names("b", "b/10", 10), ["b/2"]);
    assert_eq!(names("b/1", "", 10), ["b/10"]);
    assert_eq!(names("", "a/1", 2), ["a/3", "b-c/1"]);
    assert_eq!(store.get_range("b/10", 2, 10).unwrap().unwrap(), b"10");
    assert_eq!(store.get_range("b/10", 9, 10).unwrap().unwrap(), b"");
    assert_eq!(store.get_range("c", 0, 1).unwrap(), None);
    for name in ["../x", "/x", "a//b", "", ".new/x", "a/"] {
        assert!(
            matches!(store.put(name, b"", None), Err(StoreError::Refused(_))),
            "{name}"
        );
        assert!(store.get(name).is_err());
    }
    store.delete("a/1").unwrap();
    store.delete("a/1").unwrap();
    assert_eq!(store.get("a/1").unwrap(), None);
    assert!(Folder::open(&folder.path().join("none")).is_err());
    assert!(Folder::open(&folder.path().join("a/3")).is_err());
    let retain = store.put("c", b"", Some(crate::store::Retention(1)));
    assert!(matches!(retain, Err(StoreError::Unsupported(_))));
}

#[test]
fn a_vault_in_a_folder_is_backed_up_verified_and_pruned() {
    let folder = amita_testkit::folder::in_memory();
    let store: Arc<dyn ObjectStore> = Arc::new(Folder::open(folder.path()).unwrap());
    let mut vault = Vault::create(store.clone(), PASSPHRASE, CHEAP, options()).unwrap();
    let mut image = Image::new(4 << 20);
    let mut points: Vec<(u64, Image)> = Vec::new();
    for turn in 0..5_u64 {
        for number in turn * 20..turn * 20 + 60 {
            image.write(number, 1000 * turn + number + 1);
        }
        let parent = points.last().map(|(point, _)| *point);
        let changes = image.changes(turn * 20..turn * 20 + 60);
        points.push((backup(&mut vault, &image, parent, changes).unwrap(), image.clone()));
    }
    vault.forget(&[points[0].0, points[2].0]).unwrap();
    let pruned = prune::run(&mut vault).unwrap();
    assert!(pruned.collected.deleted > 0);
    let id = Vault::all(&*store).unwrap().pop_first().unwrap();
    let vault = Vault::open(store, id, PASSPHRASE, options()).unwrap();
    for at in [1, 3, 4] {
        check(&vault, points[at].0, &points[at].1);
    }
    assert!(verify(&vault, Scope::Whole).unwrap().is_clean());
}

#[test]
fn a_folder_that_is_something_else_has_no_vault() {
    let folder = amita_testkit::folder::in_memory();
    for name in ["config", "keys/readme", "data/00/00ff"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "of another program").unwrap();
    }
    let store: Arc<dyn ObjectStore> = Arc::new(Folder::open(folder.path()).unwrap());
    assert!(Vault::all(&*store).unwrap().is_empty());
    let opened = Vault::open(store, crate::VaultId([2; 16]), PASSPHRASE, options());
    assert!(matches!(opened.err(), Some(Error::NoVault { .. })));
}

#[test]
fn what_is_no_object_is_neither_waited_for_nor_read_without_end() {
    let folder = amita_testkit::folder::in_memory();
    let at = |name: &str| folder.path().join(name);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let sparse = |name: &str, length| File::create(at(name)).unwrap().set_len(length).unwrap();
    sparse("long", MAX_OBJECT_BYTES as u64 + 1);
    std::os::unix::fs::symlink("long", at("link")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zeros")).unwrap();
    for name in ["pipe", "folder", "long", "link", "zeros"] {
        let (sender, told) = std::sync::mpsc::channel();
        let store = Folder::open(folder.path()).unwrap();
        std::thread::spawn(move || {
            let range = store.get_range(name, 0, 1).map(drop);
            let _ = sender.send((store.get(name).map(drop), range));
        });
        let (whole, range) = told
            .recv_timeout(Duration::from_secs(60))
            .expect("it is not waited for");
        assert!(matches!(whole, Err(StoreError::Refused(_))), "{name}: {whole:?}");
        // No more of it is read than was asked for.
        assert_eq!(range.is_ok(), name == "long", "{name}: {range:?}");
    }
}

#[test]
fn of_what_stands_in_a_keys_place_no_more_is_read_than_a_key_has() {
    let folder = amita_testkit::folder::in_memory();
    let store: Arc<dyn ObjectStore> = Arc::new(Folder::open(folder.path()).unwrap());
    let vault = Vault::create(store.clone(), PASSPHRASE, CHEAP, options()).unwrap();
    let object = vault.id().key(1);
    let file = File::create(folder.path().join(&object)).unwrap();
    file.set_len(MAX_OBJECT_BYTES as u64 + 1).unwrap();
    let report = verify(&vault, Scope::Whole).unwrap();
    let [Error::Damaged { object: found, why }] = &report.damage[..] else {
        panic!("{:?}", report.damage);
    };
    assert_eq!((found, *why), (&object, "a key has another length"));
    assert!(Vault::open(store, vault.id(), PASSPHRASE, options()).is_ok());
}

#[test]
fn nothing_is_looked_for_deeper_than_objects_lie() {
    let folder = amita_testkit::folder::in_memory();
    let store = Folder::open(folder.path()).unwrap();
    for name in ["keys/a/00", "keys/a/00a/b", "keys/a/00b/c/d/e"] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    let listed = store.list("keys/", "", 10).unwrap();
    assert_eq!(
        listed.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(),
        ["keys/a/00"]
    );
}

/// As a put leaves it that was killed so many days ago, by the folder's clock.
fn leave(folder: &Path, name: &str, days: u64) {
    let file = File::create(folder.join(name)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400))
        .unwrap();
}

#[test]
fn what_killed_puts_have_left_goes_with_a_pruning_a_day_later() {
    let folder = amita_testkit::folder::in_memory();
    let store: Arc<dyn ObjectStore> = Arc::new(Folder::open(folder.path()).unwrap());
    assert_eq!(store.tidy().unwrap(), 0);
    let mut vault = Vault::create(store.clone(), PASSPHRASE, CHEAP, options()).unwrap();
    let new = folder.path().join(".new");
    leave(&new, "00112233aabbccdd-7", 2);
    leave(&new, "00112233aabbccdd-81", 0);
    leave(&new, "of-somebody-else", 9);
    let far: Arc<dyn ObjectStore> = Arc::new(crate::store::Limited::new(store.clone(), 1 << 40, || false));
    assert_eq!(prune::run(&mut vault).unwrap().collected.left, 1);
    let there = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(there(&new), ["00112233aabbccdd-81", "of-somebody-else"]);
    // Also behind a limit.
    leave(&new, "00112233aabbccdd-9", 2);
    assert_eq!(far.tidy().unwrap(), 1);
    // Where a link leads nothing is removed.
    let elsewhere = amita_testkit::folder::in_memory();
    leave(elsewhere.path(), "00112233aabbccdd-7", 2);
    fs::remove_dir_all(&new).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &new).unwrap();
    assert_eq!(store.tidy().unwrap(), 0);
    assert_eq!(there(elsewhere.path()), ["00112233aabbccdd-7"]);
}
