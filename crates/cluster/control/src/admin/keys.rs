//! Data keys of encrypted volumes: who makes an image (a volume, a clone, a revert) makes a key with it, in the transaction that makes its
//! record; who deletes the last image that can read by a key removes it, in that transaction (S14,
//! `docs/decisions/078-blocks-are-encrypted-by-place-and-version.md`).

use super::subsystem::{put, unchanged};
use super::volume::find_volume;
use super::{AdminError, RACES, Result, get, list};
use amita_crypt::{Binding, WrappedKey, WrappingKey};
use amita_metadata::{Call, Compare, MAX_OPS, Op, Transact};
use amita_types::map::{self, ENCRYPTION_SINCE, KeyName, KeyNumber, KeyRing, Volume};
use amita_types::{ClusterId, Generation, VolumeId};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// What is said where a key is needed, and nobody is there who makes one.
const NO_MAKER: &str = "it is encrypted, and nothing here makes the key that it needs: give the command the cluster's volume keys \
                        (`--volume-keys FILE`), or ask a node that has them (`--by-api`)";

/// Data keys and former data that go with a volume, in one transaction with what else its deletion is: fifteen operations, and room for more.
pub(super) const MAX_GOING: usize = MAX_OPS - 24;

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
        let cluster = super::cluster(meta).map_err(NoKey::Admin)?.id;
        let record = keys.make(cluster, by.as_ref(), &binding).map_err(NoKey::Refused)?;
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
    /// It does not open, or cannot be wrapped: why, for people.
    fn rewrap(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, String>;

    /// Was a key that is wrapped with it wrapped by an older version of it than there is now? (Vault's keys have versions.) It was asked for
    /// [`Rewrap::to`] before.
    fn is_older(&self, to: &WrappingKey, wrapped: &WrappedKey) -> bool {
        let _ = (to, wrapped);
        false
    }
}

/// Wraps all data keys of the cluster again, each by a compare-and-set of its record: the keys stay, and with them every block.
///
/// First the cluster's wrapping key is changed: from then on no transaction makes a key by the old one ([`NewKey::into_call`]). What was made
/// before is seen by a pass behind that; there are passes until one finds nothing to do.
///
/// # Errors
/// The metadata is away or refuses; nothing wraps; somebody else changes the wrapping key meanwhile. What was done until then stays.
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
    if now.as_ref() != Some(&to) {
        if version < ENCRYPTION_SINCE {
            return Err(refuse(format!(
                "the cluster's version is {version}, and has none before {ENCRYPTION_SINCE}"
            )));
        }
        can_rewrap(meta, by, (id, &to))?.map_err(refuse)?;
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
    let mut wrapped = 0;
    for _ in 0..RACES {
        let (mut pass, raced) = pass(meta, by, id, (&to, unchanged(&key, revision)))?;
        wrapped += pass.wrapped;
        if wrapping_key(meta)?.1 != revision {
            return Err(refuse(OTHER_REWRAP.to_owned()));
        }
        if pass.wrapped == 0 && !raced {
            // What this call has wrapped is the same by now.
            pass.same = pass.same.saturating_sub(wrapped);
            pass.wrapped = wrapped;
            return Ok(pass);
        }
    }
    Err(AdminError::TooManyRaces { key })
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
        match read_key(&found.value).and_then(|old| by.rewrap(id, to, &old)) {
            Ok(_) => return Ok(Ok(())),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    Ok(refused.map_or(Ok(()), |why| {
        Err(format!(
            "none of its data keys can be wrapped anew, so nothing was changed: {why}"
        ))
    }))
}

/// Looks at each key once. Was one changed meanwhile by somebody else?
fn pass(
    meta: &dyn Transact,
    by: &dyn Rewrap,
    id: ClusterId,
    (to, stays): (&WrappingKey, Compare),
) -> Result<(Rewrapped, bool)> {
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix()))?;
    let (mut all, mut raced) = (Rewrapped::default(), false);
    for found in reply.values(0) {
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
            all.same += 1;
            continue;
        }
        let new = match by.rewrap(id, to, &old) {
            Ok(new) if new.wrapping_key() == *to && new.check_value() == old.check_value() => new,
            Ok(new) => {
                let (other, key) = (new.wrapping_key(), old.binding().key);
                all.failed.push(format!(
                    "{}: what came of data key {key} is another one, or wrapped by {other}",
                    found.key
                ));
                continue;
            }
            Err(why) => {
                all.failed.push(format!("{}: {why}", found.key));
                continue;
            }
        };
        let mut call = Call::put_if(found.key.clone(), found.mod_revision, new.to_text().into_bytes());
        call.compares.push(stays.clone());
        match meta.txn(&call)?.succeeded {
            true => all.wrapped += 1,
            // Its volume went meanwhile, or somebody else has wrapped it.
            false => raced = true,
        }
    }
    Ok((all, raced))
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
    let others = all.iter().filter(|other| other.id != volume.id);
    let rings = others.filter_map(|other| other.keys.as_ref());
    let needed: BTreeSet<KeyName> = rings.flat_map(|ring| ring.eras().iter().map(|era| era.key)).collect();
    let keys = ring.eras().iter().map(|era| era.key);
    Ok(keys.filter(|key| !needed.contains(key)).map(map::secret_key).collect())
}
