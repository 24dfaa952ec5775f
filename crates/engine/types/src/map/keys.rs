//! Which data key a block has: a function of the generation of its version (S14).
//!
//! A volume's record lists its *eras*: from this generation on, what was written has this key. A write has the key of the last one.
//! What is older keeps the key that it was written with, wherever it is: in the volume, in snapshots, in clones.
//!
//! * A **clone** begins with its parent's eras up to the generation that sealed the snapshot, and one of its own behind them, so that
//!   the clone's blocks can be erased alone, and what it shares stays readable. A revert is a clone.
//! * A **new key** is one more era, from a generation that nobody has written under yet.
//! * An era **goes** when no view of the image has a block that is older than the era behind it. Its key can be destroyed when no ring
//!   of any image has it any more.

use super::PREFIX;
use crate::id::{Generation, VolumeId};
use crate::version::Version;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The finalized cluster version from which on volumes are encrypted: a program that does not know [`Volume::keys`](super::Volume::keys)
/// would drop them from a volume's record (S17), and read its blocks as they lie.
pub const ENCRYPTION_SINCE: u32 = 3;

/// From this version of a cluster on data keys may be wrapped by a key of a KMIP server: programs of before cannot read such records.
pub const KMIP_SINCE: u32 = 4;

/// From this version of a cluster on tenants have volume keys of their own: programs of before would wrap what is a tenant's by the cluster's, and give
/// clones to nobody.
pub const TENANT_KEYS_SINCE: u32 = 6;
/// The most eras of a ring: a clone of 64 levels has 65. One takes 60 bytes of the volume's record. The last of a family takes all of its keys
/// along, in one transaction of 128 operations with what else a deletion is.
pub const MAX_ERAS: usize = 96;

/// The number of a data key among those of its image: 1, 2, ...; never given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyNumber(pub u32);

/// Which data key is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyName {
    /// The volume by the number that hosts know it by: the same for all that it was before it was reverted.
    pub volume: VolumeId,
    /// The number of its data: what a clone, or a revert, makes is another image.
    pub image: VolumeId,
    /// The key's number in it.
    pub number: KeyNumber,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyName { volume, image, number } = self;
        write!(f, "{} of volume {volume} (image {image})", number.0)
    }
}

/// From a generation on, one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Era {
    /// The first generation whose writes have the key.
    pub from: Generation,
    /// The key.
    pub key: KeyName,
}

/// Why something is no ring of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRing {
    /// It has no key, or too many.
    #[error(
        "{count} keys; a ring has 1 to {MAX_ERAS}: copy it to a new volume (`amita volume export`, `amita volume import`)"
    )]
    Count {
        /// How many.
        count: usize,
    },
    /// The first key does not begin with the first write.
    #[error("the first key begins with generation {from}: what is older has none")]
    Beginning {
        /// Its first generation.
        from: Generation,
    },
    /// Eras do not follow one another.
    #[error("a key from generation {from} on stands behind one that is not older")]
    Order {
        /// The later one's first generation.
        from: Generation,
    },
    /// A generation that no owner has.
    #[error("no owner has generation {from}")]
    Generation {
        /// Which.
        from: Generation,
    },
    /// A key is there twice, or with a number that is not above that of an earlier key of its image.
    #[error("key {key} is there already, or a later one of its image: numbers are not given again")]
    Number {
        /// The key.
        key: KeyName,
    },
}

/// The keys of an image, by the generations that they begin with. Never empty; the first begins with generation 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct KeyRing {
    eras: Vec<Era>,
}

impl KeyRing {
    /// That of a new volume.
    #[must_use]
    pub fn new(key: KeyName) -> KeyRing {
        let from = Generation(0);
        KeyRing {
            eras: vec![Era { from, key }],
        }
    }

    /// One of these eras.
    ///
    /// # Errors
    /// They are none.
    pub fn from_eras(eras: Vec<Era>) -> Result<KeyRing, BadRing> {
        if !(1..=MAX_ERAS).contains(&eras.len()) {
            return Err(BadRing::Count { count: eras.len() });
        }
        if eras[0].from != Generation(0) {
            return Err(BadRing::Beginning { from: eras[0].from });
        }
        for pair in eras.windows(2) {
            if pair[1].from <= pair[0].from {
                return Err(BadRing::Order { from: pair[1].from });
            }
        }
        for (at, era) in eras.iter().enumerate() {
            if era.from >= Generation::DELETED {
                return Err(BadRing::Generation { from: era.from });
            }
            let before = &eras[..at];
            let same = |before: &Era| before.key.image == era.key.image && before.key.number >= era.key.number;
            if before.iter().any(same) {
                return Err(BadRing::Number { key: era.key });
            }
        }
        Ok(KeyRing { eras })
    }

    /// The eras, from the oldest to the newest.
    #[must_use]
    pub fn eras(&self) -> &[Era] {
        &self.eras
    }

    /// The one that writes have.
    #[must_use]
    pub fn newest(&self) -> Era {
        *self.eras.last().expect("a ring is never empty")
    }

    /// The place of the era in which this version was given out.
    #[must_use]
    pub fn place_of(&self, version: Version) -> usize {
        let behind = self.eras.partition_point(|era| era.from <= version.generation());
        behind.checked_sub(1).expect("the first era begins with generation 0")
    }

    /// The key of what was written with this version.
    #[must_use]
    pub fn key_of(&self, version: Version) -> KeyName {
        self.eras[self.place_of(version)].key
    }

    /// With a new key from this generation on, which must be one that nobody has written under: that of the raise that goes with it.
    ///
    /// # Errors
    /// The ring would be none.
    pub fn rekeyed(&self, from: Generation, key: KeyName) -> Result<KeyRing, BadRing> {
        let mut eras = self.eras.clone();
        eras.push(Era { from, key });
        KeyRing::from_eras(eras)
    }

    /// That of a clone of a snapshot: what was written up to `sealed`, the generation that sealed it, has the keys that it had. The
    /// clone's own key begins with `from`, the first generation that an owner of it can have.
    ///
    /// # Errors
    /// The ring would be none.
    pub fn cloned(&self, sealed: Generation, from: Generation, key: KeyName) -> Result<KeyRing, BadRing> {
        let mut eras = self.eras.clone();
        eras.retain(|era| era.from <= sealed);
        if from <= sealed {
            return Err(BadRing::Order { from });
        }
        eras.push(Era { from, key });
        KeyRing::from_eras(eras)
    }

    /// Without the eras that no block is of, where `oldest` is the generation of the oldest block in any view of the image (the volume
    /// itself and all live snapshots): the ring, and the keys that it has no more.
    #[must_use]
    pub fn retired(&self, oldest: Generation) -> (KeyRing, Vec<KeyName>) {
        let first = self.eras.partition_point(|era| era.from <= oldest).saturating_sub(1);
        let gone = self.eras[..first].iter().map(|era| era.key).collect();
        let mut eras = self.eras[first..].to_vec();
        eras[0].from = Generation(0);
        (KeyRing { eras }, gone)
    }
}

/// The key of a data key's record: what was wrapped, with all that it is bound to (`amita-crypt`, `WrappedKey`).
#[must_use]
pub fn secret_key(key: KeyName) -> String {
    format!("{}{}", secrets_prefix(key.image), key.number.0)
}
/// The key of the record that says which key-encryption key data keys are wrapped with (`amita-crypt`, `WrappingKey`). Whoever makes a data
/// key compares it in the transaction, and whoever wraps them anew changes it first: behind that nobody who has the old one alone makes any.
#[must_use]
pub fn wrapping_key() -> String {
    format!("{PREFIX}wrapping-key")
}
/// The key of the record that says which key-encryption key wraps the data keys of a tenant's volumes, in the place of the cluster's
/// ([`wrapping_key`]), which is compared and changed alike. A tenant without such a record has the cluster's.
#[must_use]
pub fn tenant_wrapping_key(tenant: &str) -> String {
    format!("{}{tenant}", tenant_wrapping_keys_prefix())
}
/// The prefix of these.
#[must_use]
pub fn tenant_wrapping_keys_prefix() -> String {
    format!("{PREFIX}tenant-wrapping-keys/")
}
/// The prefix of all data keys.
#[must_use]
pub fn all_secrets_prefix() -> String {
    format!("{PREFIX}secrets/")
}
/// The prefix of an image's data keys.
#[must_use]
pub fn secrets_prefix(image: VolumeId) -> String {
    format!("{}{image}/", all_secrets_prefix())
}

impl<'de> Deserialize<'de> for KeyRing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let eras = Vec::deserialize(deserializer)?;
        KeyRing::from_eras(eras).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
