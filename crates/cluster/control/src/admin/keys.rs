//! Data keys of encrypted volumes: who makes an image (a volume, a clone, a revert) makes a key with it, in the transaction that makes its
//! record; who deletes the last image that can read by a key removes it, in that transaction (S14,
//! `docs/decisions/078-blocks-are-encrypted-by-place-and-version.md`).

use super::subsystem::unchanged;
use super::volume::find_volume;
use super::{Result, get, list};
use amita_crypt::{Binding, WrappedKey};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, ENCRYPTION_SINCE, KeyName, KeyNumber, KeyRing, Volume};
use amita_types::{Generation, VolumeId};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// What is said where a key is needed, and nobody is there who makes one.
const NO_MAKER: &str = "it is encrypted, and nothing here makes the key that it needs: give the command the cluster's volume keys                         (`--volume-keys FILE`), or ask a node that has them (`--by-api`)";

/// Makes data keys, and wraps them for the metadata.
pub trait DataKeys: fmt::Debug {
    /// A new one for exactly this. Nobody has it but by this record.
    ///
    /// # Errors
    /// It cannot be wrapped: why, for people.
    fn make(&self, binding: &Binding) -> std::result::Result<WrappedKey, String>;
}

/// The first key of an image, which nobody has made yet.
pub(super) struct NewKey {
    name: KeyName,
    record: WrappedKey,
}

impl NewKey {
    /// For an image of the volume that hosts know by this number.
    ///
    /// # Errors
    /// The cluster's version does not know of it; nobody here makes keys; it cannot be wrapped.
    pub fn make(
        keys: Option<&dyn DataKeys>,
        (volume, image): (VolumeId, VolumeId),
        version: u32,
    ) -> std::result::Result<NewKey, String> {
        if version < ENCRYPTION_SINCE {
            return Err(format!(
                "the cluster's version is {version}, and encrypted volumes need {ENCRYPTION_SINCE}: all its programs must know of them \
                 first (`amita cluster finalize`)"
            ));
        }
        let keys = keys.ok_or(NO_MAKER)?;
        let name = KeyName {
            volume,
            image,
            number: KeyNumber(1),
        };
        let binding = Binding {
            tenant: None,
            key: name,
        };
        let record = keys.make(&binding)?;
        match *record.binding() == binding {
            true => Ok(NewKey { name, record }),
            false => Err(format!(
                "what was made as data key {name} is that of {}",
                record.binding().key
            )),
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

    /// Its record is made with the image's.
    pub fn into_call(self, call: &mut Call) {
        let key = map::secret_key(self.name);
        call.compares.push(unchanged(&key, 0));
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
pub(super) fn maker(keys: Option<&dyn DataKeys>) -> std::result::Result<&dyn DataKeys, String> {
    keys.ok_or_else(|| NO_MAKER.to_owned())
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

/// Wraps a data key again.
pub type Rewrap<'a> = &'a dyn Fn(&Binding, &WrappedKey) -> std::result::Result<WrappedKey, String>;

/// Wraps all data keys of the cluster again, each by a compare-and-set of its record: the keys stay, and with them every block.
///
/// # Errors
/// The metadata is away or refuses. What was done until then stays.
pub fn rewrap_keys(meta: &dyn Transact, rewrap: Rewrap<'_>) -> Result<Rewrapped> {
    let reply = meta.txn(&Call::prefix(format!("{}secrets/", map::PREFIX)))?;
    let mut all = Rewrapped::default();
    for found in reply.values(0) {
        let again = read_key(&found.value).and_then(|old| {
            let binding = old.binding().clone();
            match map::secret_key(binding.key) == found.key {
                true => Ok((rewrap(&binding, &old)?, old)),
                false => Err(format!(
                    "it is the record of data key {}, and was moved here",
                    binding.key
                )),
            }
        });
        let (new, old) = match again {
            Ok(again) => again,
            Err(why) => {
                all.failed.push(format!("{}: {why}", found.key));
                continue;
            }
        };
        if new.wrapped_by() == old.wrapped_by() {
            all.same += 1;
            continue;
        }
        let call = Call::put_if(found.key.clone(), found.mod_revision, new.to_text().into_bytes());
        match meta.txn(&call)?.succeeded {
            true => all.wrapped += 1,
            // Its volume went meanwhile, or somebody else has wrapped it.
            false => match get::<serde_json::Value>(meta, &found.key)? {
                None => {}
                Some(_) => {
                    let why = "it was changed meanwhile; wrap again";
                    all.failed.push(format!("{}: {why}", found.key));
                }
            },
        }
    }
    Ok(all)
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
