//! Data keys of encrypted volumes: who makes an image (a volume, a clone, a revert) makes a key with it, in the transaction that makes its
//! record; who deletes the last image that can read by a key removes it, in that transaction (S14,
//! `docs/decisions/078-blocks-are-encrypted-by-place-and-version.md`).

use super::subsystem::{put, unchanged};
use super::volume::find_volume;
use super::{AdminError, RACES, Result, get, list};
use amita_crypt::{Binding, WrappedKey, WrappingKey};
use amita_metadata::{Call, Compare, MAX_OPS, Op, Transact};
use amita_types::map::{self, ENCRYPTION_SINCE, KMIP_SINCE, KeyName, KeyNumber, KeyRing, Trashed, Volume};
use amita_types::{ClusterId, Generation, VolumeId};
use serde::Serialize;
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
    /// The revision of what says by which key all are wrapped.
    wrapping: u64,
}

impl NewKey {
    /// For an image of the volume that hosts know by this number.
    ///
    /// # Errors
    /// The cluster's version does not know of it; nobody here makes keys; it cannot be wrapped as the cluster's are; the metadata is away.
    pub fn make(
        meta: &dyn Transact,
        keys: Option<&dyn DataKeys>,
        (volume, image): (VolumeId, VolumeId),
        version: u32,
    ) -> std::result::Result<NewKey, NoKey> {
        if version < ENCRYPTION_SINCE {
            return Err(NoKey::Older(format!(
                "the cluster's version is {version}, and encrypted volumes need {ENCRYPTION_SINCE}: all its programs must know of them \
                 first (`amita cluster finalize`)"
            )));
        }
        let keys = maker(keys)?;
        let (by, wrapping) = wrapping_key(meta).map_err(NoKey::Admin)?;
        let name = KeyName {
            volume,
            image,
            number: KeyNumber(1),
        };
        let binding = Binding {
            tenant: None,
            key: name,
        };
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
                "what was made as data key {name} is that of {found}"
            )));
        }
        match by {
            Some(by) if by != record.wrapping_key() => Err(NoKey::Refused(format!(
                "data key {name} was wrapped by {}, and the cluster's are by {by}",
                record.wrapping_key()
            ))),
            _ => Ok(NewKey { name, record, wrapping }),
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

    /// Its record is made with the image's, if all keys are still wrapped by the same: who wraps them anew has changed that first, and does
    /// not see this one otherwise.
    pub fn into_call(self, call: &mut Call) {
        let key = map::secret_key(self.name);
        let wrapping = map::wrapping_key();
        call.compares
            .extend([unchanged(&key, 0), unchanged(&wrapping, self.wrapping)]);
        if self.wrapping == 0 {
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

/// A data key that a volume is read by, for people. What it is stands nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyStatus {
    /// Of which image: the volume's own, or one that it was cloned from, or what it was before it was reverted.
    pub image: VolumeId,
    /// Its number among those of the image.
    pub number: KeyNumber,
    /// From this generation on blocks have it.
    pub from: Generation,
    /// The volume is written with it.
    pub newest: bool,
    /// What blocks are encrypted by; none: its record is gone, or cannot be read.
    pub algorithm: Option<&'static str>,
    /// What tells it from any other key.
    pub check: Option<String>,
    /// What has wrapped it.
    pub wrapped_by: Option<String>,
    /// Why nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ails: Option<String>,
}

/// The data keys of a volume, from the oldest on; none: it is not encrypted.
///
/// # Errors
/// No such volume; the metadata is away.
pub fn volume_keys(meta: &dyn Transact, name: &str) -> Result<Vec<KeyStatus>> {
    let (volume, _) = find_volume(meta, name)?;
    let Some(ring) = &volume.keys else {
        return Ok(Vec::new());
    };
    let keys = ring.eras().iter().map(|era| map::secret_key(era.key));
    let reply = meta.txn(&Call {
        then: keys.map(|key| Op::Get { key }).collect(),
        ..Call::default()
    })?;
    let newest = ring.newest();
    let status = |(at, era): (usize, &map::Era)| {
        let read = match reply.value(at) {
            None => Err("it was erased".to_owned()),
            Some(found) => read_key(&found.value),
        };
        let (found, ails) = match read {
            Ok(found) => (Some(found), None),
            Err(why) => (None, Some(why)),
        };
        KeyStatus {
            image: era.key.image,
            number: era.key.number,
            from: era.from,
            newest: *era == newest,
            algorithm: found.as_ref().map(|found| found.algorithm().name()),
            check: found.as_ref().map(|found| found.check_value().to_string()),
            wrapped_by: found.as_ref().map(WrappedKey::wrapped_by),
            ails,
        }
    };
    Ok(ring.eras().iter().enumerate().map(status).collect())
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

/// What came of wrapping data keys again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rewrapped {
    /// So many are wrapped by another key-encryption key than before.
    pub wrapped: usize,
    /// So many were wrapped by that one already.
    pub same: usize,
    /// By this version of Vault's key all are wrapped that did not fail, where it is Vault's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Records that stay as they are, and why.
    pub failed: Vec<String>,
}

/// Who wraps data keys again.
pub trait Rewrap {
    /// What all are to be wrapped with; `now`: what they are by now, if anything was.
    ///
    /// # Errors
    /// Why there is nothing, for people.
    fn to(&self, now: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String>;

    /// Wraps a data key with it, and has seen that it opens by it.
    ///
    /// # Errors
    /// It does not open, or cannot be wrapped, or nobody answers.
    fn rewrap(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble>;

    /// Has seen that a data key opens by it, which is said to be wrapped with it already: a key that somebody else keeps may be another one of the same name.
    ///
    /// # Errors
    /// It does not open, or nobody answers.
    fn proves(&self, cluster: ClusterId, to: &WrappingKey, wrapped: &WrappedKey)
    -> std::result::Result<(), KeyTrouble>;

    /// What was seen to open counts as long as this is the same: of several servers at least one is left at which all of it does.
    fn proofs(&self) -> u64 {
        0
    }

    /// The version by which it wraps now, where it has versions (Vault's have), as it was heard last. It was asked for [`Rewrap::to`] before.
    fn version(&self, to: &WrappingKey) -> Option<u32> {
        let _ = to;
        None
    }

    /// Was a key that is wrapped with it wrapped by another version of it than wraps now? Of one that is newer than any there is nobody knows what it
    /// is of.
    fn is_older(&self, to: &WrappingKey, wrapped: &WrappedKey) -> bool {
        let versions = self.version(to).zip(wrapped.transit_version());
        versions.is_some_and(|(newest, version)| version != newest)
    }
}

/// Wraps all data keys of the cluster again, each by a compare-and-set of its record: the keys stay, and with them every block.
///
/// First the cluster's wrapping key is changed: from then on no transaction makes a key by the old one ([`NewKey::into_call`]). One that somebody else keeps is
/// written also where it stays: by an older version of it no key is made from then on. What was made before is seen by a pass behind that; there are
/// passes until one finds nothing to do.
///
/// # Errors
/// The metadata is away or refuses; nothing wraps; who keeps what wraps does not answer; somebody else changes the wrapping key meanwhile. What was
/// done until then stays.
pub fn rewrap_keys(meta: &dyn Transact, by: &dyn Rewrap) -> Result<Rewrapped> {
    let refuse = |why: String| AdminError::BadSetting {
        what: "cluster",
        name: "volume keys".to_owned(),
        why,
    };
    let (now, revision) = wrapping_key(meta)?;
    let to = by.to(now.as_ref()).map_err(refuse)?;
    let key = map::wrapping_key();
    let map::Cluster { id, version, .. } = super::cluster(meta)?;
    let is_other = now.as_ref() != Some(&to);
    knows(version, &to).map_err(refuse)?;
    if is_other {
        if version < ENCRYPTION_SINCE {
            return Err(refuse(format!(
                "the cluster's version is {version}, and has none before {ENCRYPTION_SINCE}"
            )));
        }
        can_rewrap(meta, by, (id, &to))?.map_err(refuse)?;
    }
    if is_other || to.is_kept_elsewhere() {
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key.clone(), &to)],
            otherwise: Vec::new(),
        };
        if !meta.txn(&call)?.succeeded {
            return Err(refuse(OTHER_REWRAP.to_owned()));
        }
    }
    let (now, revision) = wrapping_key(meta)?;
    if now.as_ref() != Some(&to) {
        return Err(refuse(OTHER_REWRAP.to_owned()));
    }
    let (mut wrapped, mut proven) = (0, BTreeSet::new());
    for _ in 0..RACES {
        let proofs = by.proofs();
        let Pass {
            mut all,
            mut is_raced,
            away,
        } = pass(meta, by, id, (&to, unchanged(&key, revision)), &mut proven)?;
        wrapped += all.wrapped;
        if let Some(why) = away {
            return Err(refuse(is_away(wrapped, &why)));
        }
        if wrapping_key(meta)?.1 != revision {
            return Err(refuse(OTHER_REWRAP.to_owned()));
        }
        if by.proofs() != proofs {
            // Another server has answered since: what was wrapped by the one before has to open there.
            proven.clear();
            is_raced = true;
        }
        if all.wrapped == 0 && !is_raced {
            // What this call has wrapped is the same by now.
            all.same = all.same.saturating_sub(wrapped);
            all.wrapped = wrapped;
            all.version = by.version(&to);
            return Ok(all);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Of a thousand keys each would be waited for.
fn is_away(wrapped: usize, why: &str) -> String {
    format!("who keeps the key does not answer; {wrapped} were wrapped, give it again: {why}")
}

const OTHER_REWRAP: &str = "somebody else changes what data keys are wrapped with: see that all have the same file, and give the command again";

/// Does any key open by what is given? Else it is another cluster's, and would be made this one's.
fn can_rewrap(
    meta: &dyn Transact,
    by: &dyn Rewrap,
    (id, to): (ClusterId, &WrappingKey),
) -> Result<std::result::Result<(), String>> {
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix()))?;
    let mut refused = None;
    for found in reply.values(0) {
        let old = read_key(&found.value).map_err(KeyTrouble::Key);
        match old.and_then(|old| by.rewrap(id, to, &old)) {
            Ok(_) => return Ok(Ok(())),
            Err(KeyTrouble::Key(why)) => refused = refused.or(Some(why)),
            Err(KeyTrouble::Away(why)) => return Ok(Err(is_away(0, &why))),
        }
    }
    Ok(refused.map_or(Ok(()), |why| {
        Err(format!(
            "none of its data keys can be wrapped anew, so nothing was changed: {why}"
        ))
    }))
}

/// What came of a look at each key.
#[derive(Default)]
struct Pass {
    all: Rewrapped,
    /// One was changed meanwhile by somebody else.
    is_raced: bool,
    /// It has ended before all were looked at, as nobody answers: why.
    away: Option<String>,
}

/// Looks at each key once. `proven`: records that were seen to open, by what they are.
fn pass(
    meta: &dyn Transact,
    by: &dyn Rewrap,
    id: ClusterId,
    (to, stays): (&WrappingKey, Compare),
    proven: &mut BTreeSet<Vec<u8>>,
) -> Result<Pass> {
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix()))?;
    let mut pass = Pass::default();
    for found in reply.values(0) {
        let all = &mut pass.all;
        let old = match read_key(&found.value) {
            Ok(old) if map::secret_key(old.binding().key) == found.key => old,
            Ok(old) => {
                let key = old.binding().key;
                all.failed.push(format!(
                    "{}: it is the record of data key {key}, and was moved here",
                    found.key
                ));
                continue;
            }
            Err(why) => {
                all.failed.push(format!("{}: {why}", found.key));
                continue;
            }
        };
        if old.wrapping_key() == *to && !by.is_older(to, &old) {
            // By its name alone it is not known to be the one that it was.
            if !to.is_kept_elsewhere() || proven.contains(&found.value) {
                all.same += 1;
                continue;
            }
            match by.proves(id, to, &old) {
                Ok(()) => {
                    all.same += 1;
                    proven.insert(found.value.clone());
                }
                Err(KeyTrouble::Key(why)) => all.failed.push(format!("{}: {why}", found.key)),
                Err(KeyTrouble::Away(why)) => {
                    pass.away = Some(why);
                    break;
                }
            }
            continue;
        }
        let is_late = |new: &WrappedKey| {
            let versions = new.transit_version().zip(by.version(to));
            versions.is_some_and(|(version, newest)| version < newest)
        };
        let new = match by.rewrap(id, to, &old) {
            Ok(new) if is_late(&new) => {
                all.failed.push(format!(
                    "{}: it was wrapped by an older version of Vault's key than there is: not all servers of Vault have the newest yet",
                    found.key
                ));
                continue;
            }
            Ok(new) if new.wrapping_key() == *to && new.check_value() == old.check_value() => new,
            Ok(new) => {
                let (other, key) = (new.wrapping_key(), old.binding().key);
                all.failed.push(format!(
                    "{}: what came of data key {key} is another one, or wrapped by {other}",
                    found.key
                ));
                continue;
            }
            Err(KeyTrouble::Key(why)) => {
                all.failed.push(format!("{}: {why}", found.key));
                continue;
            }
            Err(KeyTrouble::Away(why)) => {
                pass.away = Some(why);
                break;
            }
        };
        let text = new.to_text().into_bytes();
        let mut call = Call::put_if(found.key.clone(), found.mod_revision, text.clone());
        call.compares.push(stays.clone());
        match meta.txn(&call)?.succeeded {
            true => {
                all.wrapped += 1;
                proven.insert(text);
            }
            // Its volume went meanwhile, or somebody else has wrapped it.
            false => pass.is_raced = true,
        }
    }
    Ok(pass)
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
