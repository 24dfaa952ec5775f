//! Everything that a step can see or change.
//!
//! All that belongs to a store stands in its [`Store`], also what the metadata and the sequencers know of it. So stores
//! can be told apart by their contents only, and states that differ in the stores' names alone are one (they are
//! sorted).

use std::sync::OnceLock;

use crate::config::{Kind, Off, Rule, Size};

/// Most stores.
pub const STORES: usize = 3;
/// Most volumes.
pub const VOLUMES: usize = 2;
/// Most chunks.
pub const CHUNKS: usize = 2;
/// Blocks of a chunk.
pub const BLOCKS: usize = 2;
/// Most sequencers: generations times volumes.
pub const SEQUENCERS: usize = 4;
/// Most writes.
pub const WRITES: usize = 7;
/// Most changes that a store has accepted and that are not durable.
pub const TAIL: usize = 4;
/// No write, no base.
pub const NONE: u8 = 0xff;

/// A write, by its number from 1. Number 0 is the state of a chunk that was never written.
pub type Id = u8;

/// A block's entry: the last write, whose version it has, and what its sectors hold (the checksum).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// The write whose version the entry has.
    pub last: Id,
    /// Whose data each sector holds.
    pub sectors: [Id; 2],
}

/// A chunk on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chunk {
    /// The stream's version: the next write must follow it.
    pub stream: Id,
    /// [`NONE`]: whole. Else incomplete, and this was its version when it was last whole.
    pub base: u8,
    pub blocks: [Entry; BLOCKS],
}

/// What a store has on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Disk {
    /// The newest generation of each volume.
    pub generation: [u8; VOLUMES],
    /// The newest epoch.
    pub epoch: u8,
    /// Whether it is in sync, as of that epoch.
    pub in_sync: bool,
    pub chunks: [Chunk; CHUNKS],
}

/// A change that a store has accepted, and that is not durable yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// Nothing.
    #[default]
    None,
    /// A generation, an epoch, and whether the store is in sync.
    Fence {
        /// Whose: the generation, and the volume.
        q: u8,
        epoch: u8,
        /// Whether the store is in sync.
        in_sync: bool,
    },
    Write(Id),
    /// A roll-forward.
    Roll {
        /// Who rolls.
        q: u8,
        chunk: u8,
        /// The stream's version after it.
        stream: Id,
        /// The chunk's entries after it.
        blocks: [Entry; BLOCKS],
        /// Whether nothing follows (always so, but with a rule switched off).
        last: bool,
    },
    /// The stream begins anew behind this version.
    Join {
        chunk: u8,
        /// The version.
        at: Id,
    },
    /// A block's entry from a member in sync.
    Mend {
        chunk: u8,
        block: u8,
        /// Its entry from now on.
        put: Entry,
    },
    /// The chunk is whole.
    Whole {
        /// Who says so.
        q: u8,
        chunk: u8,
    },
}

/// What a sequencer knows of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Known {
    /// Bits: [`IN`], [`SYNCING`], [`FENCED`], [`ENTERED`], [`LEASE`], [`JOINED`] and [`WHOLE`] of each chunk.
    pub flags: u16,
    /// In which epoch it was added, if it is syncing.
    pub since: u8,
    /// The writes that are on the link, or to be sent when the store is fenced: a mask of [`Id`]s.
    pub link: u8,
    /// The unacknowledged writes that it must answer: a mask.
    pub due: u8,
    /// The unacknowledged writes that it has answered: a mask.
    pub answered: u8,
    /// A fence on its way: its epoch, and whether the store is in sync by it; epoch 0: there is none.
    pub fence: (u8, bool),
    /// What it answered when it was asked to open a chunk, plus one; 0: no answer yet.
    pub open: [u8; CHUNKS],
}

/// In sync, as far as the sequencer knows.
pub const IN: u16 = 1;
/// Syncing, as far as the sequencer knows.
pub const SYNCING: u16 = 2;
/// Has answered the fence of the sequencer's epoch.
pub const FENCED: u16 = 4;
/// Has granted a lease: it lets nobody else in, and the time is not over.
pub const LEASE: u16 = 8;
/// Chunk 0 is joined (chunk 1: the next bit).
pub const JOINED: u16 = 16;
/// Chunk 0 is whole (chunk 1: the next bit).
pub const WHOLE: u16 = 64;
/// Syncing, and fenced in this stint: gets every write from then on, and must answer it.
pub const ENTERED: u16 = 256;

/// A store, and what all others hold of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Store {
    /// In sync, in the metadata.
    pub in_sync: bool,
    /// Syncing, in the metadata.
    pub syncing: bool,
    /// In which epoch it was added, if it is syncing.
    pub since: u8,
    /// The claims of each volume: generation (0: none) and since.
    pub claims: [(u8, u8); VOLUMES],
    /// What is durable.
    pub disk: Disk,
    /// What is accepted beyond that, oldest first.
    pub tail: [Change; TAIL],
    /// A mask of the volumes whose present owner has a lease of it.
    pub leased: u8,
    /// Nothing reaches it any more.
    pub silent: bool,
    /// Its disk has lost something that it had called durable.
    pub lied: bool,
    /// The blocks that it cannot read: a mask, chunk by chunk.
    pub rot: u8,
    /// What the sequencers know.
    pub known: [Known; SEQUENCERS],
}

/// Where a sequencer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Life {
    /// Its generation was not raised yet.
    #[default]
    Unborn,
    /// It has read the group, but its generation is not raised yet (a rule switched off).
    Early,
    /// It runs (or stands still for as long as it likes).
    Running,
    /// It has learned that it is deposed.
    Stopped,
}

/// A read that a store has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Read {
    /// Chunk and block.
    pub place: (u8, u8),
    /// What the store has answered.
    pub entry: Entry,
    /// The writes that clients had seen when it was asked: a mask.
    pub seen: u8,
}

/// A request to read that is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asked {
    /// Chunk and block.
    pub place: (u8, u8),
    /// The newest write that every member had when it was sent.
    pub least: Id,
    /// The writes that clients had seen then: a mask.
    pub seen: u8,
}

/// What a sequencer holds of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    pub open: bool,
    /// The opening has rolled some member forward.
    pub rolled: bool,
    /// The newest write given out.
    pub issued: Id,
    /// The newest one that was withdrawn with no write given out since; 0: there is none (but with a rule switched
    /// off).
    pub top: Id,
    /// The newest acknowledged one.
    pub committed: Id,
    /// What must be acknowledged before anything is listed.
    pub mark: Id,
    /// The syncing member's base and entries, as listed.
    pub target: Option<(u8, [Entry; BLOCKS])>,
    /// The entries of a member in sync, as listed.
    pub source: Option<[Entry; BLOCKS]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sequencer {
    pub life: Life,
    /// The epoch that it knows.
    pub epoch: u8,
    pub chunks: [Held; CHUNKS],
    /// A read on its way to a store.
    pub asked: Option<Asked>,
    /// A read that a store has answered.
    pub read: Option<Read>,
    /// What a compare-and-write is to write, an index of [`Size::kinds`], plus one; the read is its own then. 0: there
    /// is none.
    pub comparing: u8,
}

impl Sequencer {
    /// Whether a read is under way.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.asked.is_some() || self.read.is_some()
    }
}

/// A write that was given out. The checker's own memory, but for its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Write {
    /// Its sequencer; [`NONE`]: an owner of the past.
    pub q: u8,
    pub counter: u8,
    /// The write that it follows.
    pub after: Id,
    /// What it writes.
    pub kind: u8,
    /// Acknowledged.
    pub acked: bool,
    /// Acknowledged, or shown by a read.
    pub seen: bool,
    /// It followed a comparison.
    pub compared: bool,
    /// Withdrawn (never, but with a rule switched off).
    pub dead: bool,
}

/// What a client has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing wrong.
    #[default]
    None,
    /// A read returned something older than what was acknowledged, or had been read, before it was asked.
    StaleRead,
    /// A read returned what nobody wrote.
    TornRead,
    /// A new owner opened a chunk without something that a client had seen.
    OpenedWithout,
    /// A compare-and-write follows something else than it has compared with.
    ComparedOther,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Left {
    /// Evictions and drops.
    pub evictions: u8,
    pub additions: u8,
    /// Starts of a store.
    pub crashes: u8,
    /// Breaks of a link.
    pub resets: u8,
    pub reads: u8,
    /// Lies of a disk.
    pub lies: u8,
    /// Blocks that rot.
    pub rots: u8,
    /// Comparisons.
    pub compares: u8,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The volumes' generations, in the metadata.
    pub generation: [u8; VOLUMES],
    /// The group's epoch, in the metadata.
    pub epoch: u8,
    /// How often a generation of the pool was raised, in the metadata.
    pub raised: u8,
    /// What the coordinator saw when it found all claims: epoch and `raised`.
    pub look: Option<(u8, u8)>,
    /// How many writes were given out.
    pub written: u8,
    pub writes: [Write; WRITES],
    /// The sequencers, volume by volume.
    pub sequencers: [Sequencer; SEQUENCERS],
    pub stores: [Store; STORES],
    /// What may still happen.
    pub left: Left,
    /// What a client has met.
    pub fault: Fault,
}

/// A model of a size, with some rules switched off.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    /// The bounds.
    pub size: Size,
    /// What is switched off.
    pub off: Off,
    /// The first state that was found to break something.
    pub first: OnceLock<State>,
}

impl Replication {
    /// A model of a size, with these rules switched off.
    #[must_use]
    pub fn new(size: Size, off: &[Rule]) -> Self {
        Self {
            size,
            off: Off::these(off),
            first: OnceLock::new(),
        }
    }

    /// The volume of a sequencer.
    #[must_use]
    pub fn volume(&self, q: usize) -> usize {
        q / self.size.generations
    }

    /// The generation of a sequencer, from 1.
    #[must_use]
    pub fn generation(&self, q: usize) -> u8 {
        (q % self.size.generations) as u8 + 1
    }

    /// How many sequencers there can be.
    #[must_use]
    pub fn sequencers(&self) -> usize {
        self.size.generations * self.size.volumes
    }

    /// The chunks of a sequencer's volume.
    pub fn chunks(&self, q: usize) -> impl Iterator<Item = usize> + use<> {
        (self.volume(q)..self.size.chunks).step_by(self.size.volumes)
    }

    /// What a write writes.
    #[must_use]
    pub fn kind(&self, write: &Write) -> Kind {
        self.size.kinds[usize::from(write.kind)]
    }
}

/// The mask of one write.
#[must_use]
pub fn bit(id: Id) -> u8 {
    1 << id
}
