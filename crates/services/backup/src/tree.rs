//! Which pieces a volume has at a point: a point names branches, a branch leaves, a leaf pieces of data.
//!
//! ```text
//! point      one branch for each 64 GiB of the volume
//! branch     one leaf for each 64 MiB: a bitmap of 128 bytes, then the names of those that are there
//! leaf       count, and for each extent: blocks since the end of the one before, blocks, blocks of the piece to skip, name
//! ```
//!
//! What is not there is zeros. Branches and leaves are pieces: what did not change is shared with other points.

use crate::codec::{Cursor, Malformed, Writer};
use crate::piece::{BLOCK_BYTES, ID_BYTES, MAX_PIECE_BYTES, PieceId};

/// Blocks of a leaf.
pub(crate) const LEAF_BLOCKS: u32 = 16384;
/// What a leaf is of.
pub const LEAF_BYTES: u64 = LEAF_BLOCKS as u64 * BLOCK_BYTES as u64;
/// Leaves of a branch.
pub(crate) const BRANCH_LEAVES: usize = 1024;
/// What a branch is of.
pub const BRANCH_BYTES: u64 = BRANCH_LEAVES as u64 * LEAF_BYTES;
/// The largest volume: 1 PiB, of which a point's manifest has 16,384 branches.
pub const MAX_VOLUME_BYTES: u64 = 1 << 50;

const PIECE_BLOCKS: u32 = (MAX_PIECE_BYTES / BLOCK_BYTES) as u32;

/// Blocks of a leaf that lie in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first block, counted from the leaf's.
    pub start: u32,
    /// How many.
    pub blocks: u32,
    /// The piece.
    pub piece: PieceId,
    /// How many of the piece's blocks lie before.
    pub skip: u32,
}

impl Extent {
    pub(crate) fn end(&self) -> u32 {
        self.start + self.blocks
    }
}

/// The extents of 64 MiB of a volume, in order; what none covers is zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    extents: Vec<Extent>,
}

impl Leaf {
    /// The extents.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// These blocks are the piece's now, or zeros.
    pub(crate) fn lay(&mut self, start: u32, blocks: u32, piece: Option<PieceId>) {
        let end = start + blocks;
        let first = self.extents.partition_point(|extent| extent.end() <= start);
        let last = self.extents.partition_point(|extent| extent.start < end);
        let mut new = Vec::with_capacity(3);
        if let Some(before) = self.extents[first..last].first().filter(|extent| extent.start < start) {
            new.push(Extent {
                blocks: start - before.start,
                ..*before
            });
        }
        new.extend(piece.map(|piece| Extent {
            start,
            blocks,
            piece,
            skip: 0,
        }));
        if let Some(after) = self.extents[first..last].last().filter(|extent| extent.end() > end) {
            new.push(Extent {
                start: end,
                blocks: after.end() - end,
                piece: after.piece,
                skip: after.skip + (end - after.start),
            });
        }
        self.extents.splice(first..last, new);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(self.extents.len() as u64);
        let mut end = 0;
        for extent in &self.extents {
            writer.number((extent.start - end).into());
            writer.number(extent.blocks.into());
            writer.number(extent.skip.into());
            writer.fixed(&extent.piece.0);
            end = extent.end();
        }
        writer.0
    }

    /// Reads one.
    ///
    /// # Errors
    /// Extents that lie outside of the leaf, or of a piece.
    pub fn parse(bytes: &[u8]) -> Result<Leaf, Malformed> {
        let mut cursor = Cursor(bytes);
        let count = cursor.count(3 + ID_BYTES)?;
        let mut leaf = Leaf {
            extents: Vec::with_capacity(count),
        };
        let mut end = 0_u32;
        for _ in 0..count {
            let (gap, blocks, skip) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
            let piece = PieceId(cursor.array()?);
            let start = end.checked_add(gap).filter(|start| *start < LEAF_BLOCKS);
            let start = start.ok_or(Malformed("an extent begins behind the leaf's end"))?;
            if blocks == 0 || blocks > LEAF_BLOCKS - start {
                return Err(Malformed("an extent is empty, or ends behind the leaf's end"));
            }
            if blocks > PIECE_BLOCKS || skip > PIECE_BLOCKS - blocks {
                return Err(Malformed("an extent is longer than a piece"));
            }
            end = start + blocks;
            leaf.extents.push(Extent {
                start,
                blocks,
                piece,
                skip,
            });
        }
        cursor.end()?;
        Ok(leaf)
    }
}

/// The leaves of 64 GiB of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    leaves: Vec<Option<PieceId>>,
}

impl Default for Branch {
    fn default() -> Branch {
        Branch {
            leaves: vec![None; BRANCH_LEAVES],
        }
    }
}

impl Branch {
    /// The leaves: 1024, of which those that are nothing but zeros are `None`.
    #[must_use]
    pub fn leaves(&self) -> &[Option<PieceId>] {
        &self.leaves
    }

    pub(crate) fn set(&mut self, at: usize, leaf: Option<PieceId>) {
        self.leaves[at] = leaf;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.iter().all(Option::is_none)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        for eight in self.leaves.chunks(8) {
            let bits = eight
                .iter()
                .enumerate()
                .map(|(bit, leaf)| u8::from(leaf.is_some()) << bit);
            writer.u8(bits.sum());
        }
        self.leaves.iter().flatten().for_each(|leaf| writer.fixed(&leaf.0));
        writer.0
    }

    /// Reads one.
    ///
    /// # Errors
    /// When it has another length than its bitmap says.
    pub fn parse(bytes: &[u8]) -> Result<Branch, Malformed> {
        let mut cursor = Cursor(bytes);
        let bitmap = cursor.take(BRANCH_LEAVES / 8)?;
        let mut branch = Branch::default();
        for (at, leaf) in branch.leaves.iter_mut().enumerate() {
            if bitmap[at / 8] & (1 << (at % 8)) != 0 {
                *leaf = Some(PieceId(cursor.array()?));
            }
        }
        cursor.end()?;
        Ok(branch)
    }
}
