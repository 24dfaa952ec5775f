//! Data keys of encrypted volumes: who makes an image (a volume, a clone, a revert) makes a key with it, in the transaction that makes its
//! record; who deletes the last image that can read by a key removes it, in that transaction (S14,
//! `docs/decisions/078-blocks-are-encrypted-by-place-and-version.md`).

use super::subsystem::unchanged;
use super::{Result, list};
use amita_crypt::{Binding, WrappedKey};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, ENCRYPTION_SINCE, KeyName, KeyNumber, KeyRing, Volume};
use amita_types::{Generation, VolumeId};
use std::collections::BTreeSet;
use std::fmt;

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
        let keys = keys.ok_or("it is encrypted, and nothing here makes the key that it needs")?;
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
