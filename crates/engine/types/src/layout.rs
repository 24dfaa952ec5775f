//! Blocks and chunks: how a volume's bytes are cut up.

use crate::id::{GroupIndex, VolumeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a block: the unit of checksum and allocation.
pub const BLOCK_BYTES: u32 = 4096;
/// The most bytes that one message of the data path reads or writes (32 blocks). Longer I/O is cut by the front end.
pub const MAX_IO_BYTES: u32 = 128 * 1024;
/// [`MAX_IO_BYTES`] in blocks.
pub const MAX_IO_BLOCKS: u32 = MAX_IO_BYTES / BLOCK_BYTES;
/// The most blocks of a chunk (4 MiB chunks). A pool may set smaller powers of two.
pub const MAX_BLOCKS_PER_CHUNK: u32 = 1024;

/// The index of a chunk inside its volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChunkIndex(pub u64);

/// A chunk of a volume: the unit of placement, ordering and recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChunkId {
    /// The volume.
    pub volume: VolumeId,
    /// The chunk's index in it.
    pub index: ChunkIndex,
}

impl ChunkId {
    /// A well-mixed 64-bit hash (SplitMix64's finalizer over both parts). It places chunks in groups, so it may never
    /// change: a change would lose every chunk.
    #[must_use]
    pub fn hash(self) -> u64 {
        mix(mix(self.volume.0.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ self.index.0)
    }

    /// The chunk's group among `groups` (a power of two): the low bits of the hash, so that splitting by one more bit
    /// moves only halves.
    ///
    /// # Panics
    /// When `groups` is not a power of two: the map is checked when it is read.
    #[must_use]
    pub fn group(self, groups: u32) -> GroupIndex {
        assert!(
            groups.is_power_of_two(),
            "the number of groups is a power of two, not {groups}"
        );
        // The mask has 32 bits.
        #[expect(clippy::cast_possible_truncation)]
        let index = (self.hash() & u64::from(groups - 1)) as u32;
        GroupIndex(index)
    }

    /// The core that sequences the chunk among `cores` of its gateway: other bits of the hash than the group's.
    #[must_use]
    pub fn core(self, cores: usize) -> usize {
        (self.hash() >> 32) as usize % cores.max(1)
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.volume, self.index.0)
    }
}

/// SplitMix64's finalizer (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[must_use]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The index of a block inside its chunk: below [`MAX_BLOCKS_PER_CHUNK`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u16);

/// A run of blocks inside a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockRange {
    /// The first block.
    pub first: BlockIndex,
    /// How many.
    pub count: u16,
}

impl BlockRange {
    /// A run of `count` blocks from `first`.
    #[must_use]
    pub fn new(first: u16, count: u16) -> BlockRange {
        BlockRange {
            first: BlockIndex(first),
            count,
        }
    }

    /// One past the last block.
    #[must_use]
    pub fn end(self) -> u32 {
        u32::from(self.first.0) + u32::from(self.count)
    }

    /// The blocks that the byte range `offset .. offset + length` of the chunk touches.
    #[must_use]
    pub fn of_bytes(offset: u32, length: u32) -> BlockRange {
        let first = offset / BLOCK_BYTES;
        let end = (offset + length).div_ceil(BLOCK_BYTES);
        // What is beyond any chunk stays so.
        let block = |blocks: u32| u16::try_from(blocks).unwrap_or(u16::MAX);
        BlockRange::new(block(first), block(end - first))
    }

    /// Is the run not empty and inside a chunk of `blocks` blocks?
    #[must_use]
    pub fn is_inside(self, blocks: u32) -> bool {
        self.count > 0 && self.end() <= blocks
    }

    /// The blocks in order.
    pub fn iter(self) -> impl Iterator<Item = BlockIndex> {
        (self.first.0..self.first.0.saturating_add(self.count)).map(BlockIndex)
    }
}
