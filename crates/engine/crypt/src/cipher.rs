//! One data key at work: 4 KiB in, 4 KiB out.

use crate::key::DataKey;
use crate::xts::Xts;
use amita_types::layout::MAX_BLOCKS_PER_CHUNK;
use amita_types::{BLOCK_BYTES, BlockIndex, ChunkIndex, Version};
use std::fmt;

/// Bytes of a block, the data unit.
pub(crate) const UNIT: usize = BLOCK_BYTES as usize;

/// Where a block is in its family of volumes: chunk x 1,024 + block, whatever the pool's chunks are. A clone's chunks and blocks have
/// the numbers of those that they come from, so what both share has one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

impl Place {
    /// `None` where no volume has such a block: a volume of 2^64 bytes in chunks of one block ends far below.
    #[must_use]
    pub fn new(chunk: ChunkIndex, block: BlockIndex) -> Option<Place> {
        let first = chunk.0.checked_mul(MAX_BLOCKS_PER_CHUNK.into())?;
        (u32::from(block.0) < MAX_BLOCKS_PER_CHUNK).then(|| Place(first + u64::from(block.0)))
    }
}

/// What IEEE 1619 calls the tweak value, 128 bits: the version above the place. The pair is given to one content only (R1, S14, S15), so
/// no tweak is used for two.
fn tweak(place: Place, version: Version) -> u128 {
    (u128::from(version.0) << 64) | u128::from(place.0)
}

/// A data key, expanded (1.4 KiB of heap, and 560 bytes for each unit that is being worked on). AES-256-XTS; one block is one data unit.
///
/// It hides, and it does not prove: a block that somebody has changed decrypts to noise where it was changed, and one that is found under
/// another place, version or key decrypts to noise throughout. What was changed by accident the checksum finds, which is of the
/// ciphertext.
pub struct BlockCipher(Xts);

impl BlockCipher {
    /// Expands a key.
    #[must_use]
    pub fn new(key: &DataKey) -> BlockCipher {
        let (data, tweak) = key.halves();
        BlockCipher(Xts::new(data, tweak))
    }

    /// Encrypts the block that is at this place in this version.
    ///
    /// # Panics
    /// When a block is not of [`BLOCK_BYTES`], or the version is none.
    pub fn encrypt(&self, place: Place, version: Version, plain: &[u8], sealed: &mut [u8]) {
        assert!(
            plain.len() == UNIT && version != Version::NONE,
            "whole blocks, with a version"
        );
        self.0.encrypt(tweak(place, version), plain, sealed);
    }

    /// Decrypts it.
    ///
    /// # Panics
    /// As [`BlockCipher::encrypt`].
    pub fn decrypt(&self, place: Place, version: Version, sealed: &[u8], plain: &mut [u8]) {
        assert!(
            sealed.len() == UNIT && version != Version::NONE,
            "whole blocks, with a version"
        );
        self.0.decrypt(tweak(place, version), sealed, plain);
    }
}

impl fmt::Debug for BlockCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockCipher(AES-256-XTS)")
    }
}

#[cfg(test)]
mod tests;
