//! A block's place is bound into its checksum (rule D8), so that a block that is found where another one belongs is
//! noticed, whoever mixed them up: a device, a bug in the index, a page of it that is older than it should be.

use amita_types::layout::mix;
use amita_types::{BlockIndex, ChunkId};

/// The place of a chunk's blocks: where they were first written. A clone's chunk has its origin's place, because both
/// use the same slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// The place of the blocks of `origin`.
    #[must_use]
    pub fn of(origin: ChunkId) -> Place {
        Place(origin.hash())
    }

    /// Binds the place of `block` into a plain CRC-32C, or takes it out again: both are one exclusive or with 32 bits
    /// that are well mixed from origin volume, chunk and block.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low half is mixed as well as all of it"
    )]
    pub fn bind(self, block: BlockIndex, sum: u32) -> u32 {
        sum ^ mix(self.0.wrapping_add(u64::from(block.0) + 1)) as u32
    }
}
