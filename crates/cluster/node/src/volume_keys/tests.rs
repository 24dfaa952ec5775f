//! The file of volume keys, and the keys that are fetched by it.

use super::*;
use amita_control::admin::{DataKeys, Rewrap};
use amita_crypt::{Binding, WrappedKey};
use amita_keys::SealKey;
use amita_metadata::model::State;
use amita_metadata::{Call, Transact};
use amita_types::map::{KeyNumber, KeyRing, secret_key};
use amita_types::{ClusterId, Generation, VolumeId};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

mod tenants;

/// What is waited for comes within this, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

const CLUSTER: ClusterId = ClusterId(1);

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The text of a file with a new key.
    fn key(&self, name: &str) -> String {
        let path = self.path(name);
        SealKey::generate().save(&path).unwrap();
        std::fs::read_to_string(path).unwrap()
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn name(image: u64, number: u32) -> KeyName {
    KeyName {
        volume: VolumeId(image),
        image: VolumeId(image),
        number: KeyNumber(number),
    }
}

fn binding(key: KeyName) -> Binding {
    Binding { tenant: None, key }
}

fn refused(path: &Path) -> String {
    KeyFile::at(path).check().unwrap_err().to_string()
}

#[test]
fn the_file_is_of_its_owner_alone_and_says_nothing_of_what_it_holds() {
    let folder = Folder::new();
    let path = folder.path("volume.keys");
    let absent = KeyFile::at(&path).check().unwrap_err();
    assert!(absent.is_absent(), "{absent}");
    let key = folder.key("one");
    write(&path, &key);
    KeyFile::at(&path).check().unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refused(&path).contains("chmod 600"));
    let secret = "correct horse battery staple";
    for (text, why) in [
        ("", "no key"),
        ("# nothing\n\n", "no key"),
        ("amita-seal-1:AAAA:\n", "line 1"),
        (format!("{key}{secret}\n").as_str(), "line 2"),
        ("passphrase:short\n", "characters"),
        ("passphrase:correct horse battery stap", "newline"),
    ] {
        write(&path, text);
        let said = refused(&path);
        assert!(said.contains(why) && !said.contains(secret), "{said}");
    }
    write(&path, &"#".repeat(70_000));
    assert!(refused(&path).contains("too long"));
    assert!(refused(folder.0.path()).contains("regular file"));
    let pipe = folder.path("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(
        refused(&pipe).contains("regular file"),
        "and nobody waits for who writes it"
    );
    write(&path, &format!("passphrase:{secret}\n"));
    let file = KeyFile::at(&path);
    file.check().unwrap();
    assert!(!format!("{file:?}").contains(secret));
}

#[test]
fn the_first_line_wraps_and_all_of_them_open() {
    let folder = Folder::new();
    let path = folder.path("volume.keys");
    let (old, new) = (folder.key("old"), folder.key("new"));
    let file = KeyFile::at(&path);
    write(&path, &old);
    let wrapped = file.make(CLUSTER, None, &binding(name(1, 1))).unwrap();
    let check = wrapped.check_value();
    // In front of the old one, while it is in use; a passphrase behind does not matter.
    write(
        &path,
        &format!("{new}# the one before:\n{old}passphrase:correct horse battery staple\n"),
    );
    assert_eq!(
        file.unwrap(&binding(name(1, 1)), &wrapped).unwrap().check_value(),
        check
    );
    // Keys are made as the cluster's are, wherever the line stands, until all are wrapped again.
    let before = wrapped.wrapping_key();
    assert_eq!(file.is_of(&before), Ok(false));
    let made = file.make(CLUSTER, Some(&before), &binding(name(2, 1))).unwrap();
    assert_eq!(made.wrapping_key(), before);
    let to = file.to(Some(&before)).unwrap();
    assert_ne!(to, before);
    let again = file.rewrap(CLUSTER, &to, &wrapped).unwrap();
    assert_eq!(again.wrapping_key(), to);
    assert_eq!(again.check_value(), check, "the data key stays");
    assert_ne!(again.wrapped_by(), wrapped.wrapped_by());
    write(&path, &new);
    assert!(file.unwrap(&binding(name(1, 1)), &again).is_ok());
    assert_eq!(file.is_of(&to), Ok(true));
    for refused in [
        file.is_of(&before).map(drop),
        file.make(CLUSTER, Some(&before), &binding(name(2, 1))).map(drop),
    ] {
        assert!(refused.unwrap_err().contains("not the cluster's"));
    }
    let gone = file.unwrap(&binding(name(1, 1)), &wrapped).unwrap_err();
    assert!(gone.contains("not in this node's file"), "{gone}");
    // Of another volume it does not open.
    assert!(file.unwrap(&binding(name(2, 1)), &again).is_err());
    std::fs::remove_file(&path).unwrap();
    let absent = file.unwrap(&binding(name(1, 1)), &again).unwrap_err();
    assert!(absent.contains("cannot be read"), "nothing is kept of it: {absent}");
}

#[test]
fn a_passphrase_wraps_what_another_process_opens_by_it() {
    let folder = Folder::new();
    let path = folder.path("volume.keys");
    write(&path, "passphrase:correct horse battery staple\n");
    let wrapped = KeyFile::at(&path).make(CLUSTER, None, &binding(name(1, 1))).unwrap();
    let file = KeyFile::at(&path);
    assert!(file.unwrap(&binding(name(1, 1)), &wrapped).is_ok());
    // By the cluster's salt, and not by one of its own: so it is stretched once.
    let by = wrapped.wrapping_key();
    let made = file.make(CLUSTER, Some(&by), &binding(name(2, 1))).unwrap();
    assert_eq!((made.wrapping_key(), file.to(Some(&by))), (by.clone(), Ok(by)));
    write(&path, "passphrase:another horse, another staple\n");
    let other = KeyFile::at(&path).unwrap(&binding(name(1, 1)), &wrapped).unwrap_err();
    assert!(other.contains("passphrase is not the one"), "{other}");
    // A key that never wrapped it says less of it than the passphrase does.
    write(
        &path,
        &format!("passphrase:another horse, another staple\n{}", folder.key("one")),
    );
    let other = KeyFile::at(&path).unwrap(&binding(name(1, 1)), &wrapped).unwrap_err();
    assert!(other.contains("passphrase is not the one"), "{other}");
}

/// Asked again until it is known.
fn settled(keys: &VolumeKeys, ring: &KeyRing) -> Result<Arc<Keychain>, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match keys.keychain(ring) {
            Ok(found) => return Ok(found),
            Err(NotNow::Missing(why)) => return Err(why),
            Err(NotNow::Coming) => assert!(Instant::now() < until, "it never comes"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asked again until it opens, as whoever waits for a volume asks.
fn opens(keys: &VolumeKeys, ring: &KeyRing) -> Arc<Keychain> {
    let until = Instant::now() + PATIENCE;
    loop {
        match settled(keys, ring) {
            Ok(found) => return found,
            Err(why) => assert!(Instant::now() < until, "{why}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn keep(meta: &Mutex<State>, wrapped: &WrappedKey) {
    let call = Call::put(secret_key(wrapped.binding().key), wrapped.to_text().into_bytes());
    meta.txn(&call).unwrap();
}

#[test]
fn a_key_that_comes_opens_what_waits_for_it() {
    let folder = Folder::new();
    let (path, away) = (folder.path("volume.keys"), folder.path("away"));
    write(&path, &folder.key("one"));
    let meta = Arc::new(Mutex::new(State::new()));
    let maker = KeyFile::at(&path);
    keep(&meta, &maker.make(CLUSTER, None, &binding(name(1, 1))).unwrap());
    keep(&meta, &maker.make(CLUSTER, None, &binding(name(2, 1))).unwrap());
    let keys = VolumeKeys::start(KeyFile::at(&path), meta.clone()).unwrap();
    let ring = KeyRing::new(name(1, 1));
    assert_eq!(keys.keychain(&ring).unwrap_err(), NotNow::Coming, "nobody waits");
    let held = settled(&keys, &ring).unwrap();
    assert_eq!(held.ring(), &ring);
    assert!(
        Arc::ptr_eq(&held, &keys.keychain(&ring).unwrap()),
        "they are there once"
    );
    // Who has them keeps them without the file; a clone's are not to be had.
    std::fs::rename(&path, &away).unwrap();
    assert!(keys.keychain(&ring).is_ok());
    let clone = ring.cloned(Generation(3), Generation(4), name(2, 1)).unwrap();
    let why = settled(&keys, &clone).unwrap_err();
    assert!(why.contains("cannot be read"), "{why}");
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(opens(&keys, &clone).ring(), &clone);
    // A key that was erased is named.
    let lost = KeyRing::new(name(3, 1));
    let why = settled(&keys, &lost).unwrap_err();
    assert!(why.contains("erased") && why.contains("image 3"), "{why}");
}

impl Records for Mutex<State> {
    fn changes(&self, _: u64) -> Option<Box<dyn Changes>> {
        None
    }
}

#[test]
fn what_waits_for_keys_is_told_why_and_looked_after_meanwhile() {
    let folder = Folder::new();
    let (path, away) = (folder.path("volume.keys"), folder.path("away"));
    write(&path, &folder.key("one"));
    let meta = Arc::new(Mutex::new(State::new()));
    keep(
        &meta,
        &KeyFile::at(&path).make(CLUSTER, None, &binding(name(1, 1))).unwrap(),
    );
    std::fs::rename(&path, &away).unwrap();
    let keys = VolumeKeys::start(KeyFile::at(&path), meta.clone()).unwrap();
    let ring = KeyRing::new(name(1, 1));
    assert_eq!(keys.missing(&ring), None, "nobody has looked yet");
    settled(&keys, &ring).unwrap_err();
    assert!(keys.missing(&ring).unwrap().contains("cannot be read"));
    let other = KeyRing::new(name(2, 1));
    assert_eq!(keys.missing(&other), None);
    // It comes: who asks nothing but this is told of it.
    std::fs::rename(&away, &path).unwrap();
    let until = Instant::now() + PATIENCE;
    while let Some(why) = keys.missing(&ring) {
        assert!(Instant::now() < until, "{why}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(keys.keychain(&ring).is_ok());
}

/// What costs nothing to be had again is not kept at all, a passphrase until nothing was fetched for a while.
#[test]
fn nothing_of_the_file_is_kept_that_can_be_read_again() {
    let folder = Folder::new();
    let path = folder.path("volume.keys");
    let key = folder.key("one");
    write(&path, &key);
    let file = KeyFile::at(&path);
    file.check().unwrap();
    let wrapped = file.make(CLUSTER, None, &binding(name(1, 1))).unwrap();
    file.unwrap(&binding(name(1, 1)), &wrapped).unwrap();
    assert!(file.unwrap(&binding(name(2, 1)), &wrapped).is_err());
    assert_eq!(file.is_of(&wrapped.wrapping_key()), Ok(true));
    let to = file.to(None).unwrap();
    file.rewrap(CLUSTER, &to, &wrapped).unwrap();
    assert!(!file.keeps());
    write(&path, &format!("{key}passphrase:correct horse battery staple\n"));
    file.unwrap(&binding(name(1, 1)), &wrapped).unwrap();
    assert!(file.keeps(), "it is stretched once");
    file.forget();
    assert!(!file.keeps());
    file.check().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(file.check().is_err() && !file.keeps());
}

#[test]
fn nothing_is_kept_that_nobody_uses() {
    let ring = KeyRing::new(name(1, 1));
    let now = Instant::now();
    let mut known = Known::default();
    let keychain = || {
        let key = amita_crypt::DataKey::generate(&mut amita_keys::system_random);
        Arc::new(Keychain::new(&ring, vec![(name(1, 1), key)]).unwrap())
    };
    let here = |keys: Arc<Keychain>| Held::Here {
        used: Arc::downgrade(&keys),
        fetched: Some((keys, now)),
    };
    let used = keychain();
    known.0.insert(name(1, 1), (ring.clone(), here(used.clone())));
    let unused = keychain();
    let gone = Arc::downgrade(&unused);
    known.0.insert(name(2, 1), (ring.clone(), here(unused)));
    let failed = Held::Failed {
        why: "x".to_owned(),
        at: now,
        again: FAILED_FOR,
        is_asked: false,
    };
    known.0.insert(name(3, 1), (ring.clone(), failed));
    assert!(known.forget(now), "there is more to look after");
    assert_eq!(known.0.len(), 3);
    assert!(!known.forget(now + HELD));
    assert_eq!(known.0.keys().collect::<Vec<_>>(), [&name(1, 1)]);
    assert!(gone.upgrade().is_none(), "it is wiped");
    drop(used);
    assert!(!known.forget(now + HELD));
    assert!(known.0.is_empty());
}
