//! Data keys of encrypted volumes: who makes an image (a volume, a clone, a revert) makes a key with it, in the transaction that makes its
//! record; who deletes the last image that can read by a key removes it, in that transaction (S14,
//! `docs/decisions/078-blocks-are-encrypted-by-place-and-version.md`).

mod rewrap;
mod status;
mod tenant;

pub use rewrap::{Rewrap, Rewrapped, clear_tenant_key, rewrap_keys, set_tenant_key};
pub use status::{KeyStatus, Misplaced, misplaced_keys, volume_keys};
pub use tenant::{TenantKey, tenant_key, tenant_keys};

pub(super) use tenant::{Whose, may_be_of};

use super::subsystem::{put, unchanged};
use super::{AdminError, Result, get, list};
use amita_crypt::{Binding, WrappedKey, WrappingKey};
use amita_metadata::{Call, Compare, KeyValue, MAX_OPS, Op, Transact};
use amita_types::map::{self, ENCRYPTION_SINCE, KMIP_SINCE, KeyName, KeyNumber, KeyRing, Trashed, Volume};
use amita_types::{ClusterId, Generation, VolumeId};
use std::collections::BTreeSet;
use std::fmt;

/// What is said where a key is needed, and nobody is there who makes one.
const NO_MAKER: &str = "it is encrypted, and nothing here makes the key that it needs: give the command the cluster's volume keys \
                        (`--volume-keys FILE`), or ask a node that has them (`--by-api`)";

/// Data keys and former data that go with a volume, in one transaction with what else its deletion is: fifteen operations, and room for more.
pub(super) const MAX_GOING: usize = MAX_OPS - 24;

/// Records of which one has to open before something is made by a key of Vault's or of a KMIP server: one alone may be damaged.
const MAX_TRIED: usize = 3;

/// Why something is not done for a data key: for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTrouble {
    /// It is this key's alone.
    #[error("{0}")]
    Key(String),
    /// Who keeps what wraps does not answer: it is the same for all keys, and passes.
    #[error("{0}")]
    Away(String),
}

impl From<String> for KeyTrouble {
    fn from(why: String) -> KeyTrouble {
        KeyTrouble::Key(why)
    }
}

/// Makes data keys, and wraps them for the metadata.
pub trait DataKeys: fmt::Debug {
    /// A new one of this cluster's for exactly this, wrapped with what the cluster wraps `by`, or where nothing was wrapped yet with what comes first here.
    /// Nobody has it but by this record.
    ///
    /// # Errors
    /// It cannot be wrapped, or not by this: why, for people.
    fn make(
        &self,
        cluster: ClusterId,
        by: Option<&WrappingKey>,
        binding: &Binding,
    ) -> std::result::Result<WrappedKey, String>;

    /// Has seen that it opens by this wrapping key, which it is said to be wrapped with. By what names a key that somebody else keeps nobody knows whether it
    /// is still the one that it was; what is at hand is known by what it is, and nobody asks.
    ///
    /// # Errors
    /// It does not open, or nobody answers.
    fn opens(&self, cluster: ClusterId, by: &WrappingKey, wrapped: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        let _ = (cluster, by, wrapped);
        Ok(())
    }

    /// Is there something here that wraps for this tenant alone? Then the cluster's key wraps nothing of his.
    ///
    /// # Errors
    /// Nobody knows: why, for people.
    fn has_line_of(&self, tenant: &str) -> std::result::Result<bool, String> {
        let _ = tenant;
        Ok(false)
    }

    /// One that it has opened so: it is tried first, as it costs no look at all others.
    fn opened(&self) -> Option<KeyName> {
        None
    }
}

/// Does what is given open what the cluster's wrapping key is said to have wrapped? One record is tried, or a few where one does not open. Of what is
/// at hand that is known already, by what it is.
///
/// # Errors
/// The metadata is away. (Inside:) none opens, or nobody answers.
pub fn opens_by(
    meta: &dyn Transact,
    keys: &dyn DataKeys,
    by: &WrappingKey,
) -> Result<std::result::Result<(), KeyTrouble>> {
    if !by.is_kept_elsewhere() {
        return Ok(Ok(()));
    }
    let cluster = super::cluster(meta)?.id;
    let is_of = |value: &[u8]| read_key(value).ok().filter(|record| record.wrapping_key() == *by);
    if let Some(name) = keys.opened() {
        let reply = meta.txn(&Call::get(map::secret_key(name)))?;
        let record = reply.value(0).and_then(|found| is_of(&found.value));
        match record.map(|record| keys.opens(cluster, by, &record)) {
            Some(Ok(())) => return Ok(Ok(())),
            Some(Err(KeyTrouble::Away(why))) => return Ok(Err(KeyTrouble::Away(why))),
            Some(Err(KeyTrouble::Key(_))) | None => {}
        }
    }
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix()))?;
    let mut refused = None;
    let records = reply.values(0).iter().filter_map(|found| is_of(&found.value));
    for record in records.take(MAX_TRIED) {
        match keys.opens(cluster, by, &record) {
            Ok(()) => return Ok(Ok(())),
            Err(KeyTrouble::Key(why)) => refused = refused.or(Some(why)),
            Err(away) => return Ok(Err(away)),
        }
    }
    Ok(refused.map_or(Ok(()), |why| {
        Err(KeyTrouble::Key(format!(
            "{by} does not open what it is said to have wrapped: it is another key of the same name ({why})"
        )))
    }))
}

/// What data keys are wrapped with, and the revision of the record; 0: there is none, and who makes the first key makes it.
///
/// # Errors
/// The metadata is away, or the record cannot be read.
pub fn wrapping_key(meta: &dyn Transact) -> Result<(Option<WrappingKey>, u64)> {
    Ok(match get::<WrappingKey>(meta, &map::wrapping_key())? {
        Some((by, revision)) => (Some(by), revision),
        None => (None, 0),
    })
}

/// All programs of a cluster of this version know what it wraps with.
fn knows(version: u32, by: &WrappingKey) -> std::result::Result<(), String> {
    match by.is_of_kmip() && version < KMIP_SINCE {
        true => Err(format!(
            "the cluster's version is {version}, and keys of KMIP servers need {KMIP_SINCE}: all its programs must know of them first \
             (`amita cluster finalize`)"
        )),
        false => Ok(()),
    }
}

/// Why a key is not made.
pub(super) enum NoKey {
    /// The cluster has none: for people.
    Older(String),
    /// None is made here: for people.
    Refused(String),
    /// The metadata is away.
    Admin(AdminError),
}

impl NoKey {
    /// As the volume is refused that it is for.
    pub fn of(self, volume: &str) -> AdminError {
        let name = volume.to_owned();
        match self {
            NoKey::Older(why) => AdminError::BadSetting {
                what: "volume",
                name,
                why,
            },
            NoKey::Refused(why) => AdminError::NoKeys { name, why },
            NoKey::Admin(why) => why,
        }
    }
}

/// The first key of an image, which nobody has made yet.
pub(super) struct NewKey {
    name: KeyName,
    record: WrappedKey,
    /// The revision of what says by which key the cluster's are wrapped.
    wrapping: u64,
    /// What else has to be as it was: whose the volume is, and by what his are wrapped.
    held: Vec<Compare>,
}

impl NewKey {
    /// For an image of the volume that hosts know by this number, wrapped by the key of whose it is, or by the cluster's where he has none.
    ///
    /// # Errors
    /// The cluster's version does not know of it; nobody here makes keys; it cannot be wrapped as his, or the cluster's, are; the metadata is away.
    pub fn make(
        meta: &dyn Transact,
        keys: Option<&dyn DataKeys>,
        (volume, image): (VolumeId, VolumeId),
        version: u32,
        whose: &Whose,
    ) -> std::result::Result<NewKey, NoKey> {
        if version < ENCRYPTION_SINCE {
            return Err(NoKey::Older(format!(
                "the cluster's version is {version}, and encrypted volumes need {ENCRYPTION_SINCE}: all its programs must know of them \
                 first (`amita cluster finalize`)"
            )));
        }
        let keys = maker(keys)?;
        let mut held = whose.held().to_vec();
        let of_tenant = match whose.tenant() {
            Some(tenant) => {
                let (by, revision) = tenant_key(meta, tenant).map_err(NoKey::Admin)?;
                held.push(unchanged(&map::tenant_wrapping_key(tenant), revision));
                if by.is_none() && keys.has_line_of(tenant).map_err(NoKey::Refused)? {
                    return Err(NoKey::Refused(format!(
                        "the file of volume keys has a line of tenant {tenant}, and the metadata say of none that it wraps for the tenant, so the cluster's key \
                         would: give `amita tenant key set {tenant}` once all nodes have that file, or `amita tenant key clear {tenant}`, and take the line out of \
                         it when all are wrapped by the cluster's"
                    )));
                }
                by.map(|by| (tenant.to_owned(), by))
            }
            None => None,
        };
        let (clusters, wrapping) = wrapping_key(meta).map_err(NoKey::Admin)?;
        let name = KeyName {
            volume,
            image,
            number: KeyNumber(1),
        };
        let (tenant, by) = match of_tenant {
            Some((tenant, by)) => (Some(tenant), Some(by)),
            None => (None, clusters),
        };
        let binding = Binding { tenant, key: name };
        if let Some(by) = &by {
            knows(version, by).map_err(NoKey::Older)?;
        }
        let cluster = super::cluster(meta).map_err(NoKey::Admin)?.id;
        if let Some(by) = &by {
            let opens = opens_by(meta, keys, by).map_err(NoKey::Admin)?;
            opens.map_err(|why| NoKey::Refused(why.to_string()))?;
        }
        let record = keys.make(cluster, by.as_ref(), &binding).map_err(NoKey::Refused)?;
        knows(version, &record.wrapping_key()).map_err(NoKey::Older)?;
        if *record.binding() != binding {
            let found = record.binding().key;
            return Err(NoKey::Refused(format!(
                "what was made as data key {name} is that of {found}, or of another tenant"
            )));
        }
        match by {
            Some(by) if by != record.wrapping_key() => Err(NoKey::Refused(format!(
                "data key {name} was wrapped by {}, and {} are by {by}",
                record.wrapping_key(),
                match &binding.tenant {
                    Some(tenant) => format!("tenant {tenant}'s"),
                    None => "the cluster's".to_owned(),
                }
            ))),
            _ => Ok(NewKey {
                name,
                record,
                wrapping,
                held,
            }),
        }
    }

    /// The ring of an image that begins empty.
    pub fn ring(&self) -> KeyRing {
        KeyRing::new(self.name)
    }

    /// The ring of an image that begins as another one was when this generation sealed it. Its first owner raises `generation`.
    pub fn ring_of(
        &self,
        origin: &KeyRing,
        sealed: Generation,
        generation: Generation,
    ) -> std::result::Result<KeyRing, String> {
        let from = Generation(generation.0.saturating_add(1));
        origin.cloned(sealed, from, self.name).map_err(|why| why.to_string())
    }

    /// Its record is made with the image's, if all keys are still wrapped by the same, and the volume is still his: who wraps them anew has changed
    /// that first, and does not see this one otherwise.
    pub fn into_call(self, call: &mut Call) {
        let key = map::secret_key(self.name);
        let wrapping = map::wrapping_key();
        call.compares
            .extend([unchanged(&key, 0), unchanged(&wrapping, self.wrapping)]);
        call.compares.extend(self.held);
        if self.wrapping == 0 && self.record.binding().tenant.is_none() {
            call.then.push(put(wrapping, &self.record.wrapping_key()));
        }
        call.then.push(Op::Put {
            key,
            value: self.record.to_text().into_bytes(),
            lease: None,
        });
    }
}

/// What makes the keys of an encrypted volume.
///
/// # Errors
/// Nothing does.
pub(super) fn maker(keys: Option<&dyn DataKeys>) -> std::result::Result<&dyn DataKeys, NoKey> {
    keys.ok_or_else(|| NoKey::Refused(NO_MAKER.to_owned()))
}

/// The volumes that are read by one of these data keys, by name: a volume, clones of its snapshots, flat ones as well, and what it comes from itself. A
/// key lives for as long as any of them is read by it.
///
/// # Errors
/// The metadata is away.
pub fn volumes_read_by(meta: &dyn Transact, ring: &KeyRing) -> Result<Vec<String>> {
    let keys: BTreeSet<KeyName> = ring.eras().iter().map(|era| era.key).collect();
    let all: Vec<Volume> = list(meta, &map::volume_key(""))?;
    called(meta, &all, |volume| {
        !keys_of(std::iter::once(volume)).is_disjoint(&keys)
    })
}

/// The volumes that come from snapshots of a volume and need these still, by name. What the volume is now stays for as long as any of them does.
///
/// # Errors
/// The metadata is away.
pub fn volumes_from(meta: &dyn Transact, of: &Volume) -> Result<Vec<String>> {
    let all: Vec<Volume> = list(meta, &map::volume_key(""))?;
    let is_of = |data: VolumeId| data == of.id || of.former.contains(&data);
    called(meta, &all, |volume| {
        volume.id != of.id && volume.parents.iter().any(|parent| is_of(parent.volume))
    })
}

/// What those of these volumes are called; what a volume was is about to go with that one, and is none of them.
fn called(meta: &dyn Transact, all: &[Volume], is_one: impl Fn(&Volume) -> bool) -> Result<Vec<String>> {
    let volumes = all.iter().filter(|volume| !volume.is_former() && is_one(volume));
    let name = |volume: &Volume| match volume.is_deleted() {
        false => Ok(volume.name.clone()),
        true => {
            let kept = get::<Trashed>(meta, &map::trash_key(volume.id))?;
            let name = kept.map_or_else(|| format!("number {}", volume.id), |(kept, _)| kept.name);
            Ok(format!("{name} (deleted)"))
        }
    };
    volumes.map(name).collect()
}

/// By which they are read.
fn keys_of<'a>(volumes: impl Iterator<Item = &'a Volume>) -> BTreeSet<KeyName> {
    let rings = volumes.filter_map(|volume| volume.keys.as_ref());
    rings.flat_map(|ring| ring.eras().iter().map(|era| era.key)).collect()
}

fn read_key(bytes: &[u8]) -> std::result::Result<WrappedKey, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "its record is no text".to_owned())?;
    WrappedKey::parse(text).map_err(|why| why.to_string())
}

/// What is kept there, which has to be the record of the key that it is kept as.
fn record_at(found: &KeyValue) -> std::result::Result<WrappedKey, String> {
    let record = read_key(&found.value)?;
    let key = record.binding().key;
    match map::secret_key(key) == found.key {
        true => Ok(record),
        false => Err(format!("it is the record of data key {key}, and was moved here")),
    }
}

/// Can a volume that reads by these keys, and was reverted from so much that is there still, be deleted for good?
///
/// # Errors
/// Not in one transaction: what to do, for people.
pub(super) fn can_go(volume: &Volume) -> std::result::Result<(), String> {
    let keys = volume.keys.as_ref().map_or(0, |ring| ring.eras().len());
    let (name, former) = (&volume.name, volume.former.len());
    match keys + former <= MAX_GOING {
        true => Ok(()),
        false => Err(format!(
            "it would read by {keys} data keys, and was reverted {former} times from something that has snapshots still, which are more than \
             {MAX_GOING}, and could not be deleted with it: delete the oldest of its snapshots (`amita volume snapshot list {name}`), or copy it \
             to a new volume"
        )),
    }
}

/// The records of those of a volume's keys that no other volume can read by, when it goes for good. Whoever makes a clone raises what the
/// transaction compares.
pub(super) fn last_of(meta: &dyn Transact, volume: &Volume) -> Result<Vec<String>> {
    let Some(ring) = &volume.keys else {
        return Ok(Vec::new());
    };
    let all: Vec<Volume> = list(meta, &map::volume_key(""))?;
    let needed = keys_of(all.iter().filter(|other| other.id != volume.id));
    let keys = ring.eras().iter().map(|era| era.key);
    Ok(keys.filter(|key| !needed.contains(key)).map(map::secret_key).collect())
}
