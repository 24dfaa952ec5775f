//! Keys of encrypted volumes, in the transactions that make and delete images.

use super::*;
use crate::admin::keys::{MAX_GOING, can_go};
use amita_crypt::{Binding, DataKey, Next, Provider, SealedFile, WrappedKey, WrappingKey, Zeroizing};
use amita_types::map::{
    About, ENCRYPTION_SINCE, Era, KeyName, KeyNumber, KeyRing, MAX_ERAS, Snapshot, SnapshotName, SnapshotState,
};
use amita_types::{ClusterId, SnapshotId, Version, VolumeId};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU8;
use std::time::Duration;

mod servers;
mod tenants;

#[derive(Debug, Default)]
pub(super) struct Maker(AtomicU8);

fn file() -> SealedFile {
    SealedFile::new(vec![Zeroizing::new([7; 32])]).unwrap()
}

impl DataKeys for Maker {
    fn make(
        &self,
        _: ClusterId,
        _: Option<&WrappingKey>,
        binding: &Binding,
    ) -> std::result::Result<WrappedKey, String> {
        let mut random = |bytes: &mut [u8]| bytes.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed));
        let key = DataKey::generate(&mut random);
        match file().wrap(binding, &key, &mut random) {
            Ok(Next::Done(wrapped)) => Ok(wrapped),
            other => Err(format!("{other:?}")),
        }
    }
}

/// Whatever it is asked, it cannot.
#[derive(Debug)]
struct Unable;

impl DataKeys for Unable {
    fn make(&self, _: ClusterId, _: Option<&WrappingKey>, _: &Binding) -> std::result::Result<WrappedKey, String> {
        Err("Vault is sealed".to_owned())
    }
}

fn cluster_with_pool() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    meta
}

fn encrypted(meta: &dyn Transact, name: &str) -> Volume {
    make_encrypted_volume(meta, name, "main", 1 << 30, None, &Maker::default()).unwrap()
}

/// Its owner has taken a snapshot under this generation.
fn snap(meta: &dyn Transact, name: &str, generation: u32) -> Snapshot {
    let mut volume = volume(meta, name).unwrap();
    let number = SnapshotId(volume.lineage.number.0 + 1);
    volume.generation = Generation(generation);
    (volume.lineage.number, volume.lineage.sealed) = (number, number);
    let taken = Snapshot {
        volume: volume.id,
        number,
        name: format!("s{}", number.0),
        size_bytes: volume.size_bytes,
        taken_at: 1,
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(volume.generation),
    };
    let named = SnapshotName::new(volume.host(), volume.id, number);
    for call in [
        Call::put(map::volume_key(name), json(&volume)),
        Call::put(map::snapshot_key(volume.id, number), json(&taken)),
        Call::put(map::snapshot_name_key(volume.host(), &taken.name), json(&named)),
    ] {
        meta.txn(&call).unwrap();
    }
    taken
}

fn clone(meta: &dyn Transact, of: (&str, &str), name: &str) -> Result<Volume> {
    clone_volume_with(meta, Some(&Maker::default()), of, name, &About::of(VolumeId(0)))
}

/// The images whose keys are there; each opens as what it says that it is.
pub(super) fn secrets(meta: &dyn Transact) -> Vec<u64> {
    let reply = meta.txn(&Call::prefix(format!("{}secrets/", map::PREFIX))).unwrap();
    let found = reply.values(0).iter().map(|found| {
        let record = WrappedKey::parse(std::str::from_utf8(&found.value).unwrap()).unwrap();
        let binding = record.binding().clone();
        assert_eq!(found.key, map::secret_key(binding.key));
        assert!(matches!(file().unwrap(&binding, &record), Ok(Next::Done(_))));
        binding.key.image.0
    });
    found.collect()
}

fn key_of(volume: &Volume, generation: u32) -> KeyName {
    let version = Version::new(Generation(generation), 1).unwrap();
    volume.keys.as_ref().unwrap().key_of(version)
}

fn first_key(volume: u64, image: u64) -> KeyName {
    KeyName {
        volume: VolumeId(volume),
        image: VolumeId(image),
        number: KeyNumber(1),
    }
}

#[test]
fn a_volume_is_made_with_its_key() {
    let meta = cluster_with_pool();
    let made = encrypted(&meta, "db");
    assert_eq!(key_of(&made, 1), first_key(1, 1));
    assert_eq!(secrets(&meta), [1]);
    let plain = create_volume(&meta, "open", "main", 1 << 30).unwrap();
    assert_eq!((plain.keys, secrets(&meta)), (None, vec![1]));
    // No key, no volume.
    let refused = make_encrypted_volume(&meta, "more", "main", 1 << 30, None, &Unable).unwrap_err();
    assert!(refused.to_string().contains("Vault is sealed"), "{refused}");
    assert_eq!(refused.code().name(), "no-volume-keys");
    assert!(volume(&meta, "more").is_err());
}

#[test]
fn an_older_cluster_has_no_encrypted_volumes() {
    let meta = cluster_with_pool();
    let older = Cluster {
        version: ENCRYPTION_SINCE - 1,
        ..cluster(&meta).unwrap()
    };
    meta.txn(&Call::put(map::cluster_key(), json(&older))).unwrap();
    let refused = make_encrypted_volume(&meta, "db", "main", 1 << 30, None, &Maker::default()).unwrap_err();
    assert!(refused.to_string().contains("finalize"), "{refused}");
    assert_eq!(refused.code().name(), "bad-setting", "here as anywhere");
}

#[test]
fn a_clone_has_a_key_of_its_own_and_keeps_its_parents() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    snap(&meta, "db", 4);
    snap(&meta, "db", 6);
    let made = clone(&meta, ("db", "s1"), "copy").unwrap();
    assert_eq!(secrets(&meta), [1, 2]);
    // Up to the generation that sealed it, the parent's; the first owner has 7.
    assert_eq!((key_of(&made, 4), key_of(&made, 7)), (first_key(1, 1), first_key(2, 2)));
    assert_eq!(made.keys.as_ref().unwrap().newest().from, Generation(7));
    let second = clone(&meta, ("db", "s1"), "twin").unwrap();
    assert_ne!(key_of(&made, 7), key_of(&second, 7), "one version, two contents");
    // Who has no keys makes none.
    let refused = clone_volume(&meta, "db", "s1", "third", &About::of(VolumeId(0))).unwrap_err();
    assert!(refused.to_string().contains("encrypted"), "{refused}");
    let refused = clone_volume_with(&meta, Some(&Unable), ("db", "s1"), "third", &About::of(VolumeId(0))).unwrap_err();
    assert!(refused.to_string().contains("Vault is sealed"), "{refused}");
    assert_eq!(
        volume(&meta, "db").unwrap().keys.unwrap().eras().len(),
        1,
        "nothing of it is the parent's"
    );
}

#[test]
fn a_revert_is_a_clone() {
    let meta = cluster_with_pool();
    let old = encrypted(&meta, "db");
    let to = snap(&meta, "db", 3);
    let before = snap(&meta, "db", 5);
    let owned = volume(&meta, "db").unwrap();
    let mut revert = Revert {
        volume: &owned,
        to: &to,
        before: &before,
        keep: true,
        now: Duration::from_secs(1000),
        keys: None,
        mirror: None,
    };
    let refused = revert_volume(&meta, &revert).unwrap_err();
    assert!(refused.to_string().contains("encrypted"), "{refused}");
    assert_eq!(volume(&meta, "db").unwrap(), owned);
    let maker = Maker::default();
    revert.keys = Some(&maker);
    let new = revert_volume(&meta, &revert).unwrap();
    assert_eq!(
        (key_of(&new, 3), key_of(&new, 6)),
        (first_key(1, 1), first_key(1, new.id.0))
    );
    assert_eq!(secrets(&meta), [1, new.id.0]);
    // What it was is read by the ring that it had.
    let (former, _) = get::<Volume>(&meta, &map::volume_key(&map::hidden_name(old.id)))
        .unwrap()
        .unwrap();
    assert_eq!(former.keys, old.keys);
}

#[test]
fn a_key_goes_with_the_last_who_can_read_by_it() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    let taken = snap(&meta, "db", 4);
    let copy = clone(&meta, ("db", "s1"), "copy").unwrap();
    let purge = |name: &str| delete_volume(&meta, name, true, 9, &mut || false).unwrap();
    // A clone that lives holds its parent, which is only hidden.
    purge("db");
    assert_eq!(secrets(&meta), [1, 2]);
    // Flattened it needs no parent any more, but for its key.
    let detached = Volume {
        lineage: map::Lineage {
            root: Some(copy.place()),
            ..copy.lineage
        },
        parents: Vec::new(),
        ..copy
    };
    meta.txn(&Call::put(map::volume_key("copy"), json(&detached))).unwrap();
    let (pinned, key) = (
        Snapshot {
            clones: 0,
            ..taken.clone()
        },
        map::snapshot_key(taken.volume, taken.number),
    );
    meta.txn(&Call::put(key, json(&pinned))).unwrap();
    let now = Duration::from_secs(1 << 40);
    let gone = purge_what_is_due(&meta, 10, now).unwrap();
    assert_eq!((gone.gone.len(), secrets(&meta)), (1, vec![1, 2]), "{:?}", gone.failed);
    purge("copy");
    assert_eq!(secrets(&meta), [] as [u64; 0]);
}

#[test]
fn the_longest_ring_goes_at_once() {
    let meta = cluster_with_pool();
    let made = encrypted(&meta, "db");
    // Of a family of clones of clones whose others have gone.
    let era = |at: u32| Era {
        from: Generation(at),
        key: first_key(u64::from(at) + 1, u64::from(at) + 1),
    };
    let count = u32::try_from(MAX_ERAS).unwrap();
    let eras: Vec<Era> = (0..count).map(era).collect();
    for era in &eras {
        let record = Maker::default().make(
            ClusterId(1),
            None,
            &Binding {
                tenant: None,
                key: era.key,
            },
        );
        let record = record.unwrap().to_text().into_bytes();
        meta.txn(&Call::put(map::secret_key(era.key), record)).unwrap();
    }
    let old = |former: usize| Volume {
        keys: Some(KeyRing::from_eras(eras.clone()).unwrap()),
        former: (0..former as u64).map(|at| VolumeId(1000 + at)).collect(),
        ..made.clone()
    };
    let most = MAX_GOING - MAX_ERAS;
    // One more would stay for good, as no transaction is as large.
    let why = can_go(&old(most + 1)).unwrap_err();
    assert!(why.contains("snapshot list db"), "{why}");
    let old = old(most);
    can_go(&old).unwrap();
    meta.txn(&Call::put(map::volume_key("db"), json(&old))).unwrap();
    assert_eq!(secrets(&meta).len(), MAX_ERAS);
    delete_volume(&meta, "db", true, 9, &mut || false).unwrap();
    assert_eq!(secrets(&meta), [] as [u64; 0]);
}

#[test]
fn a_copy_of_an_encrypted_volume_is_encrypted() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    snap(&meta, "db", 4);
    create_volume(&meta, "open", "main", 1 << 30).unwrap();
    let maker = Maker::default();
    let wish = CopyWish {
        of: "db@s1",
        name: "copy",
        pool: "main",
        snapshots: false,
        limit_bytes_per_s: None,
        encrypted: false,
        keys: None,
        now: Duration::from_secs(9),
    };
    let refused = copy_volume(&meta, &wish).unwrap_err();
    assert!(refused.to_string().contains("--volume-keys"), "{refused}");
    assert_eq!(refused.code().name(), "no-volume-keys", "elsewhere it can be made");
    assert!(
        volume(&meta, "copy").is_err(),
        "what it holds is never kept in the clear"
    );
    let keys = Some(&maker as &dyn DataKeys);
    copy_volume(&meta, &CopyWish { keys, ..wish.clone() }).unwrap();
    let made = volume(&meta, "copy").unwrap();
    assert_eq!(made.keys, Some(KeyRing::new(first_key(made.id.0, made.id.0))));
    // Who has keys encrypts nothing unasked.
    snap(&meta, "open", 2);
    let of_open = CopyWish {
        of: "open@s1",
        name: "clear",
        keys,
        ..wish.clone()
    };
    copy_volume(&meta, &of_open).unwrap();
    assert_eq!(volume(&meta, "clear").unwrap().keys, None);
    let now = CopyWish {
        name: "sealed",
        encrypted: true,
        ..of_open
    };
    copy_volume(&meta, &now).unwrap();
    assert!(volume(&meta, "sealed").unwrap().keys.is_some());
}

/// Wraps by a new key, and opens what the old one has wrapped.
#[derive(Default)]
struct Newer<'a> {
    /// Where somebody who still has the old one alone makes volume `late` while the first key is wrapped.
    meanwhile: Option<&'a Mutex<State>>,
    refused: std::cell::RefCell<Option<String>>,
}

impl Newer<'_> {
    fn file() -> SealedFile {
        SealedFile::new(vec![Zeroizing::new([8; 32]), Zeroizing::new([7; 32])]).unwrap()
    }
}

impl Rewrap for Newer<'_> {
    fn to(&self, _: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String> {
        Newer::file().first().map_err(|why| why.to_string())
    }

    fn rewrap(
        &self,
        _: ClusterId,
        to: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        if let Some(meta) = self.meanwhile
            && wrapping_key(meta).unwrap().0.as_ref() == Some(to)
            && self.refused.borrow().is_none()
        {
            let made = make_encrypted_volume(meta, "late", "main", 1 << 30, None, &Maker::default());
            *self.refused.borrow_mut() = Some(made.unwrap_err().to_string());
        }
        let binding = wrapped.binding();
        let key = Newer::file().unwrap(binding, wrapped).map_err(|why| why.to_string())?;
        let key = key.done().ok_or_else(|| "nobody is asked".to_owned())?;
        let again = Newer::file().wrap_by(to, binding, &key, &mut |bytes| bytes.fill(1));
        let again = again.map_err(|why| why.to_string())?.done();
        again.ok_or_else(|| KeyTrouble::Key("nobody is asked".to_owned()))
    }

    fn proves(&self, _: ClusterId, _: &WrappingKey, _: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        panic!("it is known by what it is");
    }
}

/// Who has the old wrapping key alone makes no data key once all are wrapped anew: else the one who destroys it loses that volume.
#[test]
fn nothing_is_wrapped_by_what_was_given_up() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    let (old, _) = wrapping_key(&meta).unwrap();
    assert!(old.is_some(), "the first key says what wraps");
    let newer = Newer {
        meanwhile: Some(&meta),
        ..Newer::default()
    };
    let done = rewrap_keys(&meta, &newer).unwrap();
    assert_eq!((done.wrapped, done.same, done.failed.len()), (1, 0, 0));
    let why = newer.refused.borrow().clone().unwrap();
    assert!(why.contains("the cluster's are by"), "{why}");
    assert!(volume(&meta, "late").is_err());
    assert_ne!(wrapping_key(&meta).unwrap().0, old);
}

/// Opens nothing of this cluster's.
struct Foreign;

impl Rewrap for Foreign {
    fn to(&self, _: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String> {
        Newer::default().to(None)
    }

    fn rewrap(&self, _: ClusterId, _: &WrappingKey, _: &WrappedKey) -> std::result::Result<WrappedKey, KeyTrouble> {
        Err(KeyTrouble::Key("it does not open".to_owned()))
    }

    fn proves(&self, _: ClusterId, _: &WrappingKey, _: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        Err(KeyTrouble::Key("it does not open".to_owned()))
    }
}

#[test]
fn the_file_of_another_cluster_does_not_become_this_ones() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    let before = wrapping_key(&meta).unwrap();
    let why = rewrap_keys(&meta, &Foreign).unwrap_err().to_string();
    assert!(why.contains("it does not open"), "{why}");
    assert_eq!(wrapping_key(&meta).unwrap(), before);
}

/// Its key-encryption key has versions, as Vault's have.
#[derive(Default)]
struct Rotated(std::cell::RefCell<BTreeSet<String>>);

impl Rewrap for Rotated {
    fn to(&self, now: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String> {
        Newer::default().to(now)
    }

    fn rewrap(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        let again = Newer::default().rewrap(cluster, to, wrapped)?;
        self.0.borrow_mut().insert(again.to_text());
        Ok(again)
    }

    fn proves(&self, _: ClusterId, _: &WrappingKey, _: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        Ok(())
    }

    fn is_older(&self, _: &WrappingKey, wrapped: &WrappedKey) -> bool {
        !self.0.borrow().contains(&wrapped.to_text())
    }
}

#[test]
fn what_an_older_version_has_wrapped_is_wrapped_anew_once() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    encrypted(&meta, "log");
    rewrap_keys(&meta, &Newer::default()).unwrap();
    let (before, _) = wrapping_key(&meta).unwrap();
    let rotated = Rotated::default();
    for (wrapped, same) in [(2, 0), (0, 2)] {
        let done = rewrap_keys(&meta, &rotated).unwrap();
        assert_eq!((done.wrapped, done.same, done.failed.len()), (wrapped, same, 0));
    }
    assert_eq!(wrapping_key(&meta).unwrap().0, before, "the cluster's key is the same");
}

/// All keys are wrapped anew between what somebody reads and the transaction that makes a key.
struct Rewrapped<'a> {
    meta: &'a Mutex<State>,
    done: std::cell::Cell<bool>,
}

impl Transact for Rewrapped<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if !call.is_read_only() && !self.done.replace(true) {
            rewrap_keys(self.meta, &Newer::default()).unwrap();
        }
        self.meta.txn(call)
    }
}

#[test]
fn who_had_looked_before_all_was_wrapped_anew_makes_no_key() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    let late = Rewrapped {
        meta: &meta,
        done: false.into(),
    };
    let why = make_encrypted_volume(&late, "late", "main", 1 << 30, None, &Maker::default()).unwrap_err();
    assert!(
        late.done.get() && why.to_string().contains("the cluster's are by"),
        "{why}"
    );
    assert!(volume(&meta, "late").is_err());
    let by = wrapping_key(&meta).unwrap().0.unwrap().to_string();
    let keys = volume_keys(&meta, "db").unwrap();
    assert!(keys.iter().all(|key| key.wrapped_by.as_ref() == Some(&by)), "{keys:?}");
}

/// A key of Vault's, as far as records tell of it.
#[derive(Debug)]
struct OfVault {
    /// It wraps by this version of it.
    wraps: Cell<u32>,
    /// It says that this one is the newest.
    newest: Cell<u32>,
    /// What is said to be wrapped by it is so; else it is another key of that name.
    is_own: Cell<bool>,
    /// It answers so many times.
    answers: Cell<usize>,
}

impl OfVault {
    fn new() -> OfVault {
        OfVault {
            wraps: Cell::new(1),
            newest: Cell::new(1),
            is_own: Cell::new(true),
            answers: Cell::new(1000),
        }
    }

    fn rotate(&self) {
        self.newest.set(self.newest.get() + 1);
        self.wraps.set(self.newest.get());
    }

    fn open(&self) -> std::result::Result<(), KeyTrouble> {
        let left = self.answers.get().checked_sub(1);
        let left = left.ok_or_else(|| KeyTrouble::Away("Vault is sealed".to_owned()))?;
        self.answers.set(left);
        match self.is_own.get() {
            true => Ok(()),
            false => Err(KeyTrouble::Key("authentication failed".to_owned())),
        }
    }

    /// The record of the same data key, as if it had wrapped it.
    fn record(&self, of: &WrappedKey) -> WrappedKey {
        let mut record: serde_json::Value = serde_json::from_str(&of.to_text()).unwrap();
        let wrapped = format!("vault:v{}:AAAA", self.wraps.get());
        record["by"] = serde_json::json!({"transit": {"mount": "transit", "key": "amita", "wrapped": wrapped}});
        WrappedKey::parse(&record.to_string()).unwrap()
    }
}

impl DataKeys for OfVault {
    fn make(
        &self,
        cluster: ClusterId,
        by: Option<&WrappingKey>,
        binding: &Binding,
    ) -> std::result::Result<WrappedKey, String> {
        Ok(self.record(&Maker::default().make(cluster, by, binding)?))
    }

    fn opens(&self, _: ClusterId, _: &WrappingKey, _: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        self.open()
    }
}

impl Rewrap for OfVault {
    fn to(&self, _: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String> {
        let name = r#"{"transit": {"mount": "transit", "key": "amita"}}"#;
        Ok(serde_json::from_str(name).unwrap())
    }

    fn rewrap(
        &self,
        _: ClusterId,
        _: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        self.open()?;
        Ok(self.record(wrapped))
    }

    fn proves(&self, _: ClusterId, _: &WrappingKey, _: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        self.open()
    }

    fn version(&self, _: &WrappingKey) -> Option<u32> {
        Some(self.newest.get())
    }
}

fn by_vault(meta: &dyn Transact, vault: &OfVault, name: &str) -> Result<Volume> {
    make_encrypted_volume(meta, name, "main", 1 << 30, None, vault)
}

/// By which versions of Vault's key all are wrapped.
fn versions(meta: &dyn Transact) -> Vec<Option<u32>> {
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix())).unwrap();
    let records = reply.values(0).iter();
    let parse = |text: &[u8]| WrappedKey::parse(std::str::from_utf8(text).unwrap()).unwrap();
    records.map(|found| parse(&found.value).transit_version()).collect()
}

/// Another Vault has come in its place, with a key of the same name: nothing says so but that nothing opens.
#[test]
fn a_key_of_vaults_of_the_same_name_is_not_the_same_key() {
    let meta = cluster_with_pool();
    let vault = OfVault::new();
    by_vault(&meta, &vault, "db").unwrap();
    by_vault(&meta, &vault, "log").unwrap();
    let (by, _) = wrapping_key(&meta).unwrap();
    let by = by.unwrap();
    assert_eq!(opens_by(&meta, &vault, &by).unwrap(), Ok(()));
    let done = rewrap_keys(&meta, &vault).unwrap();
    assert_eq!((done.wrapped, done.same, done.failed.len()), (0, 2, 0));
    vault.is_own.set(false);
    let done = rewrap_keys(&meta, &vault).unwrap();
    assert_eq!((done.wrapped, done.same, done.failed.len()), (0, 0, 2));
    // Its versions are fewer than those that have wrapped, or as many, or more: all the same.
    for newest in [2, 1] {
        vault.newest.set(newest);
        vault.wraps.set(newest);
        let done = rewrap_keys(&meta, &vault).unwrap();
        assert_eq!((done.wrapped, done.same, done.failed.len()), (0, 0, 2), "{newest}");
    }
    let Err(KeyTrouble::Key(why)) = opens_by(&meta, &vault, &by).unwrap() else {
        panic!("it opens");
    };
    assert!(why.contains("another key of the same name"), "{why}");
    // Nothing is made by it that the first one would not open.
    let why = by_vault(&meta, &vault, "late").unwrap_err();
    assert!(why.to_string().contains("another key of the same name"), "{why}");
    assert_eq!(why.code().name(), "no-volume-keys");
    // One record alone that does not open is that record's.
    vault.is_own.set(true);
    let records = meta.txn(&Call::prefix(map::all_secrets_prefix())).unwrap();
    let damaged = records.values(0)[0].key.clone();
    meta.txn(&Call::put(damaged, b"{}".to_vec())).unwrap();
    by_vault(&meta, &vault, "late").unwrap();
}

/// What a newer version has wrapped than there is (Vault was put back as it was before) is not taken for the newest's.
#[test]
fn a_version_that_is_not_there_yet_is_no_newest_one() {
    let meta = cluster_with_pool();
    let vault = OfVault::new();
    vault.rotate();
    by_vault(&meta, &vault, "db").unwrap();
    vault.newest.set(1);
    vault.wraps.set(1);
    let done = rewrap_keys(&meta, &vault).unwrap();
    assert_eq!((done.wrapped, done.same, done.version), (1, 0, Some(1)));
    assert_eq!(versions(&meta), [Some(1)]);
}

/// Vault's key is rotated, and all is wrapped again, between a key that was wrapped and the transaction that keeps it.
struct Rotating<'a> {
    meta: &'a Mutex<State>,
    vault: &'a OfVault,
    is_done: Cell<bool>,
}

impl Transact for Rotating<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let secrets = map::all_secrets_prefix();
        let keeps = |op: &Op| op.is_write() && op.key().starts_with(&secrets);
        if call.then.iter().any(keeps) && !self.is_done.replace(true) {
            self.vault.rotate();
            rewrap_keys(self.meta, self.vault).unwrap();
        }
        self.meta.txn(call)
    }
}

/// Else whoever trims the older versions, as all were wrapped by the newest, has destroyed that volume.
#[test]
fn no_key_under_way_escapes_a_rewrap_by_vaults_next_version() {
    let meta = cluster_with_pool();
    let vault = OfVault::new();
    by_vault(&meta, &vault, "db").unwrap();
    let rotating = Rotating {
        meta: &meta,
        vault: &vault,
        is_done: Cell::new(false),
    };
    by_vault(&rotating, &vault, "late").unwrap();
    assert!(rotating.is_done.get());
    assert_eq!(versions(&meta), [Some(2), Some(2)]);
}

#[test]
fn all_are_wrapped_by_the_version_that_is_told_or_it_is_said_which_are_not() {
    let meta = cluster_with_pool();
    let vault = OfVault::new();
    by_vault(&meta, &vault, "db").unwrap();
    by_vault(&meta, &vault, "log").unwrap();
    vault.rotate();
    // A server of Vault's that has not heard of it.
    vault.wraps.set(1);
    let done = rewrap_keys(&meta, &vault).unwrap();
    assert_eq!((done.wrapped, done.same, done.failed.len()), (0, 0, 2));
    assert!(done.failed[0].contains("older version"), "{:?}", done.failed);
    vault.wraps.set(2);
    let done = rewrap_keys(&meta, &vault).unwrap();
    assert_eq!((done.wrapped, done.same, done.version), (2, 0, Some(2)));
    assert!(done.failed.is_empty());
    let done = rewrap_keys(&meta, &vault).unwrap();
    assert_eq!((done.wrapped, done.same, done.version), (0, 2, Some(2)));
    assert_eq!(versions(&meta), [Some(2), Some(2)]);
}

/// Else each of ten thousand keys is waited for.
#[test]
fn a_vault_that_is_away_ends_a_rewrap_at_once() {
    let meta = cluster_with_pool();
    for name in ["a", "b", "c", "d"] {
        encrypted(&meta, name);
    }
    let vault = OfVault::new();
    vault.answers.set(0);
    let (before, _) = wrapping_key(&meta).unwrap();
    let why = rewrap_keys(&meta, &vault).unwrap_err().to_string();
    assert!(
        why.contains("who keeps the key does not answer, so nothing was changed"),
        "{why}"
    );
    assert_eq!(wrapping_key(&meta).unwrap().0, before, "nothing was changed");
    // One answer is for the look whether any opens.
    vault.answers.set(3);
    let why = rewrap_keys(&meta, &vault).unwrap_err().to_string();
    assert!(
        why.contains("does not answer; 2 were wrapped, give it again") && why.contains("sealed"),
        "{why}"
    );
    vault.answers.set(2);
    let why = rewrap_keys(&meta, &vault).unwrap_err().to_string();
    assert!(
        why.contains("does not answer; 0 were wrapped"),
        "what stays is asked about, too: {why}"
    );
    vault.answers.set(1000);
    let done = rewrap_keys(&meta, &vault).unwrap();
    assert_eq!((done.wrapped, done.same, done.failed.len()), (2, 2, 0));
    // Nothing is asked twice of Vault: the passes behind know what has opened.
    assert_eq!(vault.answers.get(), 996);
}

#[test]
fn keys_are_listed_and_wrapped_again() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    create_volume(&meta, "open", "main", 1 << 30).unwrap();
    snap(&meta, "db", 4);
    clone(&meta, ("db", "s1"), "copy").unwrap();
    assert!(volume_keys(&meta, "open").unwrap().is_empty());
    let before = volume_keys(&meta, "copy").unwrap();
    let of: Vec<_> = before.iter().map(|key| (key.image.0, key.from.0, key.newest)).collect();
    assert_eq!(of, [(1, 0, false), (3, 5, true)]);
    let rewrap = Newer::default();
    let done = rewrap_keys(&meta, &rewrap).unwrap();
    assert_eq!((done.wrapped, done.same, done.failed.len()), (2, 0, 0));
    let after = volume_keys(&meta, "copy").unwrap();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.check, after.check, "the data key stays");
        assert_ne!(before.wrapped_by, after.wrapped_by);
    }
    let done = rewrap_keys(&meta, &rewrap).unwrap();
    assert_eq!((done.wrapped, done.same, done.failed.len()), (0, 2, 0));
    // What does not open stays as it is, and is named; so does one that is gone.
    meta.txn(&Call::put(map::secret_key(first_key(1, 1)), b"{}".to_vec()))
        .unwrap();
    let done = rewrap_keys(&meta, &rewrap).unwrap();
    assert_eq!((done.same, done.failed.len()), (1, 1));
    assert!(done.failed[0].contains("secrets/1/1"), "{:?}", done.failed);
    let key = map::secret_key(first_key(3, 3));
    let gone = Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    };
    meta.txn(&gone).unwrap();
    let left = volume_keys(&meta, "copy").unwrap();
    assert!(left.iter().all(|key| key.ails.is_some()), "{left:?}");
}

#[test]
fn blocks_of_encrypted_volumes_are_whole_for_whoever_does_not_say() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    create_volume(&meta, "open", "main", 1 << 30).unwrap();
    snap(&meta, "db", 4);
    let usual = |of: &str| usual_block_bytes(&meta, of).unwrap();
    assert_eq!((usual("db"), usual("db@s1"), usual("open")), (4096, 4096, 512));
    assert!(usual_block_bytes(&meta, "none").is_err());
}
