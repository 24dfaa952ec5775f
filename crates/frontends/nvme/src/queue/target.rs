//! The part of a volume that a command is about, and how it is cut into pieces: with what is atomic in mind.

use amita_frontend::Source;
use amita_frontend::pieces::{Pieces, Zeroes, has_partial_blocks, pieces, zeroes};
use amita_types::{BLOCK_BYTES, MAX_IO_BYTES, SnapshotId, VolumeId};

/// Where in which volume, or snapshot of one, a command's range begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub source: Source,
    pub chunk_bytes: u32,
    /// In bytes.
    pub offset: u64,
}

impl Target {
    /// Of a command that has none.
    pub const NONE: Target = Target {
        source: Source {
            volume: VolumeId(0),
            snapshot: SnapshotId::HEAD,
        },
        chunk_bytes: BLOCK_BYTES,
        offset: 0,
    };

    /// What is written as one: a range between two multiples of this (see [`atom_bytes`]).
    fn atom_bytes(&self) -> u32 {
        atom_bytes(self.chunk_bytes)
    }

    /// The pieces of the range.
    pub fn pieces(&self, length: u32) -> Pieces {
        pieces(self.offset, length.into(), self.atom_bytes())
    }

    /// The steps that make the range read as zeros; with `holes` they free blocks.
    ///
    /// What lies within an atom is one step, like a write of it: parts of blocks cannot be freed, and a range that begins
    /// or ends with one is written as a whole then.
    pub fn zeroes(&self, length: u32, holes: bool) -> Zeroes {
        let is_one = self.pieces(length).nth(1).is_none();
        match holes && !(is_one && has_partial_blocks(self.offset, length.into())) {
            true => zeroes(self.offset, length.into(), self.chunk_bytes, true),
            false => zeroes(self.offset, length.into(), self.atom_bytes(), false),
        }
    }
}

/// The atomic unit of a volume with such chunks, and the boundary that no atomic write crosses (NAWUN and NABSN, NVM Command
/// Set 1.1, 2.1.4), in bytes.
///
/// What a volume does as one is one piece of I/O: a write gets one version of its chunk, each store merges its parts of
/// blocks with what was there, puts all of it into its log as one record, which counts whole or not at all, and a read of
/// one piece is answered out of one version. A piece lies in one chunk and touches no more blocks than `MAX_IO_BYTES`
/// holds. All commands are cut at the same places, the multiples of this in the volume: were they cut where they begin, a
/// long read that began elsewhere could see half of a write that is atomic, or a long write could leave half of it.
pub(crate) fn atom_bytes(chunk_bytes: u32) -> u32 {
    chunk_bytes.min(MAX_IO_BYTES)
}
