//! The keys of an image, unwrapped: what a volume's owner encrypts writes and decrypts reads with.

use crate::cipher::{BlockCipher, Place, UNIT};
use crate::key::DataKey;
use amita_types::map::{KeyName, KeyRing};
use amita_types::message::Run;
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Generation, Version};
use std::fmt;
use std::sync::Arc;

/// Keys that a ring names and that are not there. The volume waits for them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of {} data keys are not there, the first of them {}", .missing.len(), .of, .missing[0])]
pub struct MissingKeys {
    /// Which, from the oldest on; at least one.
    pub missing: Vec<KeyName>,
    /// How many the ring has.
    pub of: usize,
}

/// Why a write cannot be encrypted. Each is a fault of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// It is not of whole blocks that a chunk has (S15).
    #[error("{bytes} bytes are not {blocks} whole blocks of a chunk")]
    Shape {
        /// Its length.
        bytes: usize,
        /// Its blocks.
        blocks: u16,
    },
    /// The version is of a generation from before the newest key (S14).
    #[error("version {version} is older than the newest key, which begins with generation {from}")]
    Era {
        /// The write's.
        version: Version,
        /// The key's first generation.
        from: Generation,
    },
}

/// Why what a store has answered cannot be decrypted: it does not say what a store can say, and another member is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Versions and data do not fit what was asked for.
    #[error("{bytes} bytes with versions of {versioned} blocks, for {blocks} blocks of a chunk")]
    Shape {
        /// Of data.
        bytes: usize,
        /// Blocks that the runs have.
        versioned: usize,
        /// Blocks that were asked for.
        blocks: u16,
    },
    /// A block without data has some (S15).
    #[error("block {} has no data, and bytes that are not zero", .block.0)]
    Hole {
        /// Which.
        block: BlockIndex,
    },
}

/// Why the keys of a ring are not given out now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// They are being fetched: to be asked for again in a moment.
    Coming,
    /// Not all of them are to be had: which, and why, for people.
    Missing(String),
}

/// Who has the data keys of a process, unwrapped.
pub trait Keys: fmt::Debug + Send + Sync {
    /// Those of a ring. It never waits: what is not there is fetched meanwhile, and asked for again.
    ///
    /// # Errors
    /// They are not here, or not yet.
    fn keychain(&self, ring: &KeyRing) -> Result<Arc<Keychain>, NotNow>;

    /// What was found of a ring's keys, where they are not to be had; it is looked for them anew while this is asked. `None`: nothing of the
    /// kind is known, and it is for [`Keys::keychain`] to say. So who has something to open that nobody waits for asks this again and again, and
    /// begins nothing.
    fn missing(&self, ring: &KeyRing) -> Option<String> {
        let _ = ring;
        None
    }
}

/// Keys that work, by the generations that they begin with.
#[derive(Debug)]
pub struct Keychain {
    ring: KeyRing,
    /// In the order of the ring's eras.
    ciphers: Vec<BlockCipher>,
}

/// Those of equal rings are equal: a name belongs to one key for ever.
impl PartialEq for Keychain {
    fn eq(&self, other: &Keychain) -> bool {
        self.ring == other.ring
    }
}

impl Keychain {
    /// Expands all keys of a ring. Each key must be the one that its record's check value names, which
    /// [`Provider::unwrap`](crate::Provider::unwrap) sees to; keys that the ring does not name are wiped.
    ///
    /// # Errors
    /// The ring names keys that are not there.
    pub fn new(ring: &KeyRing, keys: Vec<(KeyName, DataKey)>) -> Result<Keychain, MissingKeys> {
        let find = |name: KeyName| keys.iter().find(|(of, _)| *of == name).map(|(_, key)| key);
        let eras = ring.eras();
        let missing: Vec<KeyName> = eras
            .iter()
            .map(|era| era.key)
            .filter(|key| find(*key).is_none())
            .collect();
        if !missing.is_empty() {
            return Err(MissingKeys {
                missing,
                of: eras.len(),
            });
        }
        let expand = |key| BlockCipher::new(find(key).expect("none is missing"));
        Ok(Keychain {
            ciphers: eras.iter().map(|era| expand(era.key)).collect(),
            ring: ring.clone(),
        })
    }

    /// What the keys are called.
    #[must_use]
    pub fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// Encrypts a write, which has its version.
    ///
    /// # Errors
    /// See [`SealError`]. `sealed` is not to be used then.
    ///
    /// # Panics
    /// When `sealed` is not as long as `plain`.
    pub fn seal(
        &self,
        (chunk, range): (ChunkIndex, BlockRange),
        version: Version,
        plain: &[u8],
        sealed: &mut [u8],
    ) -> Result<(), SealError> {
        assert!(plain.len() == sealed.len(), "into as many bytes");
        let (bytes, blocks) = (plain.len(), range.count);
        let shape = SealError::Shape { bytes, blocks };
        if bytes != usize::from(blocks) * UNIT {
            return Err(shape);
        }
        let from = self.ring.newest().from;
        let cipher = self.ciphers.last().expect("a ring is never empty");
        if version.generation() < from || version == Version::NONE {
            return Err(SealError::Era { version, from });
        }
        let units = plain.chunks_exact(UNIT).zip(sealed.chunks_exact_mut(UNIT));
        for (block, (plain, sealed)) in range.iter().zip(units) {
            let place = Place::new(chunk, block).ok_or(shape)?;
            cipher.encrypt(place, version, plain, sealed);
        }
        Ok(())
    }

    /// Decrypts what a store has read, whose checksums are right. A hole is no ciphertext: it is zeros before and after.
    ///
    /// # Errors
    /// See [`OpenError`]. `plain` is not to be given out then.
    ///
    /// # Panics
    /// When `plain` is not as long as `sealed`.
    pub fn open(
        &self,
        (chunk, range): (ChunkIndex, BlockRange),
        runs: &[Run],
        sealed: &[u8],
        plain: &mut [u8],
    ) -> Result<(), OpenError> {
        assert!(plain.len() == sealed.len(), "into as many bytes");
        let (bytes, blocks) = (sealed.len(), range.count);
        let versioned = runs.iter().map(|run| usize::from(run.blocks)).sum();
        let shape = OpenError::Shape {
            bytes,
            versioned,
            blocks,
        };
        if versioned != usize::from(blocks) || bytes != versioned * UNIT {
            return Err(shape);
        }
        let versions = runs.iter().flat_map(|run| (0..run.blocks).map(|_| run.version));
        let units = sealed.chunks_exact(UNIT).zip(plain.chunks_exact_mut(UNIT));
        for ((block, version), (sealed, plain)) in range.iter().zip(versions).zip(units) {
            if version == Version::NONE {
                if sealed.iter().any(|byte| *byte != 0) {
                    return Err(OpenError::Hole { block });
                }
                plain.fill(0);
                continue;
            }
            let place = Place::new(chunk, block).ok_or(shape)?;
            self.ciphers[self.ring.place_of(version)].decrypt(place, version, sealed, plain);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
