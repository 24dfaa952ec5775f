//! What the clients write, so that whatever is read can be named.
//!
//! The unit is the *sector* (512 bytes): the smallest piece that a client writes. Each sector says which write made it,
//! where it belongs, and carries a checksum over all of it, so that a torn, misplaced, foreign or stale piece is
//! recognized for what it is:
//!
//! ```text
//! 0   8   magic "amitasim"
//! 8   4   stamp: the number of the write, never zero
//! 12  4   volume
//! 16  8   sector: its number in the volume
//! 24  8   check: a mix of the filler's seed
//! 32  ..  filler, made from volume, sector and stamp
//! ```

pub use amita_testkit::linear::{SECTORS_PER_BLOCK, Stamp};
use amita_types::BLOCK_BYTES;
use amita_types::layout::mix;
use std::fmt;

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;

const _: () = assert!(SECTORS_PER_BLOCK * SECTOR_BYTES == BLOCK_BYTES as usize);

const MAGIC: u64 = u64::from_le_bytes(*b"amitasim");
const HEAD_BYTES: usize = 32;

/// A sector of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sector(pub u64);

impl Sector {
    /// The block that the sector lies in.
    #[must_use]
    pub fn block(self) -> u64 {
        self.0 / SECTORS_PER_BLOCK as u64
    }

    /// Its place inside its block.
    #[must_use]
    pub fn in_block(self) -> usize {
        (self.0 % SECTORS_PER_BLOCK as u64) as usize
    }
}

/// A sector that no client can have written like this: data from nowhere, torn, or in the wrong place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// Neither zeros nor one whole sector of a client.
    Torn {
        /// Where it was read.
        sector: Sector,
    },
    /// A whole sector that belongs elsewhere.
    Misplaced {
        /// Where it was read.
        sector: Sector,
        /// The volume and the sector that it was written to.
        belongs: (u32, Sector),
        /// By which write.
        stamp: Stamp,
    },
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Corrupt::Torn { sector } => {
                write!(f, "sector {} (block {}) is torn or foreign", sector.0, sector.block())
            }
            Corrupt::Misplaced {
                sector,
                belongs: (volume, home),
                stamp,
            } => write!(
                f,
                "sector {} (block {}) holds {stamp} of volume {volume}, sector {}",
                sector.0,
                sector.block(),
                home.0
            ),
        }
    }
}

fn filler(volume: u32, sector: Sector, stamp: Stamp) -> u64 {
    mix(mix(mix(sector.0) ^ u64::from(volume)) ^ u64::from(stamp.0))
}

/// Fills `bytes` (whole sectors) as write `stamp` does from `first` on.
pub fn fill(bytes: &mut [u8], volume: u32, first: Sector, stamp: Stamp) {
    assert_eq!(bytes.len() % SECTOR_BYTES, 0, "clients write whole sectors");
    assert_ne!(stamp, Stamp::ZERO, "the stamp zero means: no write");
    for (index, sector_bytes) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        let sector = Sector(first.0 + index as u64);
        let seed = filler(volume, sector, stamp);
        sector_bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        sector_bytes[8..12].copy_from_slice(&stamp.0.to_le_bytes());
        sector_bytes[12..16].copy_from_slice(&volume.to_le_bytes());
        sector_bytes[16..24].copy_from_slice(&sector.0.to_le_bytes());
        sector_bytes[24..32].copy_from_slice(&mix(seed).to_le_bytes());
        for (word, bytes) in sector_bytes[HEAD_BYTES..].chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&seed.wrapping_mul(2 * word as u64 + 1).to_le_bytes());
        }
    }
}

/// What one sector, read at `sector` of `volume`, holds.
pub fn parse_sector(bytes: &[u8], volume: u32, sector: Sector) -> Result<Stamp, Corrupt> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if word(0) != MAGIC {
        let zeros = bytes.iter().all(|byte| *byte == 0);
        return if zeros {
            Ok(Stamp::ZERO)
        } else {
            Err(Corrupt::Torn { sector })
        };
    }
    let (stamp, home_volume, home) = (Stamp(half(8)), half(12), Sector(word(16)));
    // The check comes from all three, so a flipped bit in any of them is seen as torn, not as misplaced.
    let seed = filler(home_volume, home, stamp);
    let whole = stamp != Stamp::ZERO
        && word(24) == mix(seed)
        && bytes[HEAD_BYTES..]
            .chunks_exact(8)
            .enumerate()
            .all(|(index, bytes)| bytes == seed.wrapping_mul(2 * index as u64 + 1).to_le_bytes());
    match (whole, (home_volume, home) == (volume, sector)) {
        (false, _) => Err(Corrupt::Torn { sector }),
        (true, false) => Err(Corrupt::Misplaced {
            sector,
            belongs: (home_volume, home),
            stamp,
        }),
        (true, true) => Ok(stamp),
    }
}

/// What `bytes` (whole sectors), read from `first` on, hold.
pub fn parse(bytes: &[u8], volume: u32, first: Sector) -> Result<Vec<Stamp>, Corrupt> {
    bytes
        .chunks_exact(SECTOR_BYTES)
        .enumerate()
        .map(|(index, bytes)| parse_sector(bytes, volume, Sector(first.0 + index as u64)))
        .collect()
}

/// Is there a sector in it as a client has written it?
#[must_use]
pub fn is_plain(block: &[u8]) -> bool {
    let magic = MAGIC.to_le_bytes();
    block.chunks_exact(SECTOR_BYTES).any(|sector| sector[..8] == magic)
}

#[cfg(test)]
mod tests;
