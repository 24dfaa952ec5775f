//! What the volume's record, an owner, a store and a write know of the cut.

use super::{CHUNKS, MEMBERS};

/// The volume's record in the metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The owner's generation.
    pub generation: u8,
    /// The newest number.
    pub number: u8,
    /// Sealed numbers, as bits.
    pub sealed: u8,
    /// Who sealed the newest.
    pub sealer: u8,
    /// Number that is taken and neither sealed nor void; 0: none.
    pub taking: u8,
    /// For each number, less one: what was acknowledged when it was taken, as bits.
    pub before: [u8; 2],
    /// What somebody read early, who has not raised yet.
    pub early: Option<u8>,
}

/// An owner. One that was deposed goes on until stores refuse it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// It is, or was.
    pub here: bool,
    /// Chunks that it has opened.
    pub open: [bool; CHUNKS],
    /// The number that each core gives writes.
    pub numbers: [u8; CHUNKS],
    /// Up to here writes are acknowledged and shown.
    pub released: u8,
    /// The number of the snapshot under way; 0: none.
    pub taking: u8,
}

/// A store of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    /// The generation that it has adopted.
    pub fence: u8,
    /// The largest number that its chunk has met.
    pub number: u8,
}

/// A write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Write {
    /// Who gave it out; 0: nobody yet.
    pub owner: u8,
    /// The number that it was given out with.
    pub number: u8,
    /// For each member: the number under which it has it.
    pub numbers: [Option<u8>; MEMBERS],
    /// On its way to this member it was lost.
    pub lost: [bool; MEMBERS],
    /// The host has its answer.
    pub acknowledged: bool,
    /// A host has read it.
    pub seen: bool,
    /// No member had it when its chunk was opened: it never happened.
    pub gone: bool,
}

impl Write {
    /// Some host knows of it.
    #[must_use]
    pub fn known(&self) -> bool {
        self.acknowledged || self.seen
    }
}
