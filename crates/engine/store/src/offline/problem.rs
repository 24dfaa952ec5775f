//! What a check finds.

use crate::error::MountError;
use crate::format::Slot;
use crate::format::superblock::Fault;
use crate::status::MountReport;
use amita_types::{BlockIndex, ChunkId, SnapshotId, Version};
use std::fmt;

/// Who uses a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum User {
    /// A block's data.
    Data {
        chunk: ChunkId,
        /// The newest snapshot of the state that has it; [`SnapshotId::HEAD`]: the chunk itself.
        snapshot: SnapshotId,
        block: BlockIndex,
    },
    /// A leaf of the index.
    Leaf {
        chunk: ChunkId,
        /// The newest snapshot of the state that has it; [`SnapshotId::HEAD`]: the chunk itself.
        snapshot: SnapshotId,
        /// Which part of the chunk.
        part: u8,
    },
    /// A page of states.
    States {
        chunk: ChunkId,
        /// The newest snapshot that one of them stands for.
        snapshot: SnapshotId,
    },
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Data { chunk, snapshot, block } => {
                write!(f, "block {} of chunk {}", block.0, Of(*chunk, *snapshot))
            }
            User::Leaf { chunk, snapshot, part } => write!(f, "leaf {part} of chunk {}", Of(*chunk, *snapshot)),
            User::States { chunk, snapshot } => write!(f, "the states up to snapshot {snapshot} of chunk {chunk}"),
        }
    }
}

/// A chunk, or what it was for a snapshot.
struct Of(ChunkId, SnapshotId);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            SnapshotId::HEAD => self.0.fmt(f),
            snapshot => write!(f, "{} at snapshot {snapshot}", self.0),
        }
    }
}

/// Why a leaf cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeafFault {
    /// The checkpoint says that it was lost, or the mount needed it and could not read it.
    Lost,
    /// The device cannot read it.
    Device(String),
    /// Its checksum is wrong.
    Checksum,
    /// The page is whole and no leaf of this store.
    NoLeaf,
    /// It is another chunk's, or another part's.
    Foreign {
        /// Whose.
        chunk: ChunkId,
        part: u16,
    },
    /// It is whole and the right part's, but not the one that was written last.
    Stale {
        /// The checkpoint that it was written for.
        checkpoint: u64,
    },
    /// It is whole and the right part's, and says what cannot be.
    Impossible,
}

impl fmt::Display for LeafFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeafFault::Lost => f.write_str("it was needed and could not be read"),
            LeafFault::Device(error) => write!(f, "the device cannot read it: {error}"),
            LeafFault::Checksum => f.write_str("its checksum is wrong"),
            LeafFault::NoLeaf => f.write_str("the page is whole, but no leaf of this store"),
            LeafFault::Foreign { chunk, part } => write!(f, "it is leaf {part} of chunk {chunk}"),
            LeafFault::Stale { checkpoint } => write!(
                f,
                "it is whole, but not the one that belongs there: it was written for checkpoint {checkpoint}"
            ),
            LeafFault::Impossible => f.write_str("it is whole, but says what cannot be"),
        }
    }
}

/// What is wrong with a block's data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataFault {
    /// The device cannot read it.
    Device(String),
    /// It is not what was written.
    Checksum,
    /// It is not what was written: it is zeros.
    Zeros,
    /// It is whole, but another block's of the chunk.
    OfBlock(BlockIndex),
}

impl fmt::Display for DataFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataFault::Device(error) => write!(f, "the device cannot read it: {error}"),
            DataFault::Checksum => f.write_str("it is not what its checksum says"),
            DataFault::Zeros => f.write_str("it is zeros, and not what its checksum says"),
            DataFault::OfBlock(block) => write!(f, "it is what belongs to block {}", block.0),
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A superblock cannot be used. The other one serves; a crash while it was being written leaves this, and rot does.
    Superblock {
        /// Where, in bytes.
        offset: u64,
        fault: Fault,
    },
    /// The superblocks are one change apart, as a crash between their writes leaves them.
    SuperblocksApart {
        /// The older one's generation.
        older: u64,
        newer: u64,
    },
    /// Both superblocks are valid, and cannot both be this store's.
    SuperblocksDisagree { generations: [u64; 2], what: &'static str },
    /// The store cannot be mounted; nothing else could be looked at.
    Refused(MountError),
    /// The log ended in batches that were not whole: what a crash leaves; nothing of it was acknowledged.
    EndedShort {
        /// The page behind the last whole batch.
        sequence: u64,
        /// Where that page lies, in bytes.
        offset: u64,
        /// Batches that do not count.
        batches: u64,
    },
    /// A leaf cannot be used: what the part holds is not known.
    Leaf {
        chunk: ChunkId,
        /// The newest snapshot of the state that has it; [`SnapshotId::HEAD`]: the chunk itself.
        snapshot: SnapshotId,
        /// Which part of the chunk.
        part: u8,
        /// Its slot, as long as that is known.
        slot: Option<Slot>,
        /// Where that lies, in bytes.
        offset: Option<u64>,
        fault: LeafFault,
    },
    /// A block's entry is newer than what it belongs to.
    EntryTooNew {
        chunk: ChunkId,
        /// The newest snapshot of the state that has it; [`SnapshotId::HEAD`]: the chunk itself.
        snapshot: SnapshotId,
        block: BlockIndex,
        version: Version,
        /// The version of the chunk, or of the oldest state that sees the entry.
        limit: Version,
    },
    /// An entry has data that no write wrote.
    NoVersion {
        chunk: ChunkId,
        /// The newest snapshot of the state that has it; [`SnapshotId::HEAD`]: the chunk itself.
        snapshot: SnapshotId,
        block: BlockIndex,
        slot: Slot,
    },
    /// The states of a chunk do not follow one another.
    States {
        chunk: ChunkId,
        /// The state: for the snapshots above this one
        above: SnapshotId,
        /// up to this one.
        to: SnapshotId,
        what: &'static str,
        /// The checkpoint's page that says so, in bytes, where the mount was refused for it.
        offset: Option<u64>,
    },
    /// A chunk that was deleted has blocks that nobody can read.
    DeletedHasBlocks { chunk: ChunkId, part: u8 },
    /// A clone's blocks cannot have been written where it says.
    Origin {
        chunk: ChunkId,
        /// Where it says.
        origin: ChunkId,
    },
    /// Two use a slot that only one may have: one of them reads what is not its own.
    UsedTwice {
        slot: Slot,
        /// Where it lies, in bytes.
        offset: u64,
        first: User,
        other: User,
    },
    /// A slot is used, and the map says that it is free: the next write may overwrite it.
    UsedButFree {
        slot: Slot,
        /// Where it lies, in bytes.
        offset: u64,
        /// Who uses it.
        user: User,
    },
    /// The map says that slots are in use, and nothing uses them: their space is lost.
    Leaked {
        /// The first.
        slot: Slot,
        /// How many follow one another.
        count: u32,
        /// Where the first lies, in bytes.
        offset: u64,
    },
    /// The map has a slot with another number of users than there are.
    WrongCount {
        slot: Slot,
        /// Where it lies, in bytes.
        offset: u64,
        /// What the map says.
        map: u64,
        /// How many there are.
        users: u64,
    },
    /// What may be written is not what the map of slots says.
    Allocator {
        slot: Slot,
        /// Would it be written?
        free: bool,
    },
    /// Slots that are in use, or have more users, without anything known to use them, no more than the lost leaves can have
    /// held.
    HeldByLostLeaves {
        /// Slots that nothing else uses.
        slots: u64,
        /// Slots that have more users in the map than were found.
        counts: u64,
    },
    /// A block's data is not what it should be.
    Data {
        /// Whose.
        user: User,
        /// The version of the write.
        version: Version,
        slot: Slot,
        /// Where that lies, in bytes.
        offset: u64,
        fault: DataFault,
    },
    /// The store was written while it was being read.
    Changed {
        /// How often it was looked at.
        attempts: u32,
        /// Problems that were not there when it was looked at again.
        gone: u64,
    },
}

impl Problem {
    /// Is it only what a crash leaves, or what the next mount mends, so that nothing has to be done?
    #[must_use]
    pub fn is_remark(&self) -> bool {
        match self {
            Problem::Superblock { fault, .. } => *fault != Fault::Unreadable,
            Problem::SuperblocksApart { .. }
            | Problem::EndedShort { .. }
            | Problem::HeldByLostLeaves { .. }
            | Problem::Changed { .. } => true,
            _ => false,
        }
    }

    /// A word for scripts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Problem::Superblock { .. } => "superblock",
            Problem::SuperblocksApart { .. } => "superblocks-apart",
            Problem::SuperblocksDisagree { .. } => "superblocks-disagree",
            Problem::Refused(_) => "refused",
            Problem::EndedShort { .. } => "ended-short",
            Problem::Leaf { .. } => "leaf",
            Problem::EntryTooNew { .. } => "entry-too-new",
            Problem::NoVersion { .. } => "no-version",
            Problem::States { .. } => "states",
            Problem::DeletedHasBlocks { .. } => "deleted-has-blocks",
            Problem::Origin { .. } => "origin",
            Problem::UsedTwice { .. } => "used-twice",
            Problem::UsedButFree { .. } => "used-but-free",
            Problem::Leaked { .. } => "leaked",
            Problem::WrongCount { .. } => "wrong-count",
            Problem::Allocator { .. } => "allocator",
            Problem::HeldByLostLeaves { .. } => "held-by-lost-leaves",
            Problem::Data { .. } => "data",
            Problem::Changed { .. } => "changed",
        }
    }

    /// Where in the file, in bytes.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        match self {
            Problem::Superblock { offset, .. }
            | Problem::EndedShort { offset, .. }
            | Problem::UsedTwice { offset, .. }
            | Problem::UsedButFree { offset, .. }
            | Problem::Leaked { offset, .. }
            | Problem::WrongCount { offset, .. }
            | Problem::Data { offset, .. } => Some(*offset),
            Problem::Leaf { offset, .. } | Problem::States { offset, .. } => *offset,
            Problem::Refused(
                MountError::CheckpointDamaged { offset, .. }
                | MountError::LogDamaged { offset, .. }
                | MountError::Device { offset, .. },
            ) => Some(*offset),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Superblock { offset, fault } => write!(
                f,
                "the superblock at byte {offset} cannot be used ({fault}); the other one serves, and the next mount writes both"
            ),
            Problem::SuperblocksApart { older, newer } => write!(
                f,
                "the superblocks have generations {older} and {newer}: a crash came between their writes; the newer one counts"
            ),
            Problem::SuperblocksDisagree {
                generations: [a, b],
                what,
            } => write!(
                f,
                "the superblocks at bytes 0 and 32768 (generations {a} and {b}) are both valid and differ in {what}: \
                 one of them was not written by this store; the newer one is served"
            ),
            Problem::Refused(error) => write!(
                f,
                "the store cannot be mounted, and the rest was not looked at: {error}"
            ),
            Problem::EndedShort {
                sequence,
                offset,
                batches,
            } => {
                write!(f, "the log ends at page {sequence} (byte {offset}) in ")?;
                match batches {
                    0 => f.write_str("a batch that is not whole")?,
                    1 => f.write_str("1 batch whose data is not whole")?,
                    more => write!(f, "{more} batches of which the first has no whole data")?,
                }
                f.write_str(": it was being written, or a crash cut it off; nothing of it was acknowledged")
            }
            Problem::Leaf {
                chunk,
                snapshot,
                part,
                slot,
                offset,
                fault,
            } => {
                write!(f, "leaf {part} of chunk {}", Of(*chunk, *snapshot))?;
                if let (Some(slot), Some(offset)) = (slot, offset) {
                    write!(f, " (slot {slot}, byte {offset})")?;
                }
                let first = u32::from(*part) * crate::index::LEAF_ENTRIES as u32;
                write!(
                    f,
                    ": {fault}; blocks {first} to {} are refused as damaged until they are copied back",
                    first + crate::index::LEAF_ENTRIES as u32 - 1
                )
            }
            Problem::EntryTooNew {
                chunk,
                snapshot,
                block,
                version,
                limit,
            } => write!(
                f,
                "block {} of chunk {} has version {version}, which is above {limit}: it was not written when it should have been",
                block.0,
                Of(*chunk, *snapshot)
            ),
            Problem::NoVersion {
                chunk,
                snapshot,
                block,
                slot,
            } => write!(
                f,
                "block {} of chunk {} has data in slot {slot}, and version 0: no write wrote it",
                block.0,
                Of(*chunk, *snapshot)
            ),
            Problem::States {
                chunk,
                above,
                to,
                what,
                offset,
            } => {
                write!(
                    f,
                    "the state of chunk {chunk} for snapshots above {above} up to {to} {what}"
                )?;
                match offset {
                    Some(offset) => write!(f, " (checkpoint, byte {offset})"),
                    None => Ok(()),
                }
            }
            Problem::DeletedHasBlocks { chunk, part } => {
                write!(
                    f,
                    "chunk {chunk} was deleted, but leaf {part} of it is still there: its space is lost"
                )
            }
            Problem::Origin { chunk, origin } => {
                write!(
                    f,
                    "chunk {chunk} cannot be a clone of chunk {origin}: they are not the same part of their volumes"
                )
            }
            Problem::UsedTwice {
                slot,
                offset,
                first,
                other,
            } => write!(
                f,
                "slot {slot} (byte {offset}) is used by {first} and by {other}: one of them does not have its own data"
            ),
            Problem::UsedButFree { slot, offset, user } => write!(
                f,
                "slot {slot} (byte {offset}) is used by {user}, but free in the map of slots: a write may overwrite it"
            ),
            Problem::Leaked { slot, count, offset } => write!(
                f,
                "{count} slots from slot {slot} on (byte {offset}) are in use in the map, but nothing uses them: {} bytes are lost",
                u64::from(*count) * crate::format::PAGE_BYTES as u64
            ),
            Problem::WrongCount {
                slot,
                offset,
                map,
                users,
            } => write!(
                f,
                "slot {slot} (byte {offset}) has {users} users, but {map} in the map of slots: {}",
                if map > users {
                    "it will never come free"
                } else {
                    "it will come free while it is in use"
                }
            ),
            Problem::Allocator { slot, free } => write!(
                f,
                "slot {slot} {} be written, which is not what the map of slots says",
                if *free { "may" } else { "may not" }
            ),
            Problem::HeldByLostLeaves { slots, counts } => write!(
                f,
                "{slots} slots are in use in the map without a known user, and {counts} have fewer users than there: the leaves \
                 that are lost can have held them"
            ),
            Problem::Data {
                user,
                version,
                slot,
                offset,
                fault,
            } => write!(
                f,
                "{user}, version {version} (slot {slot}, byte {offset}): {fault}; reads of it are refused until it is copied back"
            ),
            Problem::Changed { attempts, gone } => write!(
                f,
                "the store was written while it was being read, so it was looked at {attempts} times; {gone} problems were not \
                 there every time and are left out"
            ),
        }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub chunks: u64,
    /// Chunks that are clones.
    pub clones: u64,
    /// States of chunks.
    pub states: u64,
    pub leaves: u64,
    /// Of these, pages that were read.
    pub leaf_pages_read: u64,
    /// Pages of states, all of which the mount has read.
    pub state_pages: u64,
    /// Leaves that cannot be used.
    pub leaves_lost: u64,
    /// Entries of blocks that have data, of chunks and states.
    pub entries: u64,
    /// Slots that the map has in use.
    pub slots_held: u64,
    /// Slots with several users.
    pub slots_shared: u64,
    /// Slots whose data was read and compared.
    pub blocks_verified: u64,
    /// Slots that nothing uses although the map says so.
    pub slots_leaked: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, in the order in which it was met.
    pub problems: Vec<Problem>,
    /// Problems beyond those, which were too many to list.
    pub more: u64,
    /// What a crash leaves, and what explains the rest: nothing to be done.
    pub remarks: Vec<Problem>,
    /// What was looked at.
    pub seen: Seen,
    /// What the mount found; `None`: it was refused.
    pub mount: Option<MountReport>,
}

impl Report {
    /// Is nothing wrong?
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Notes something; no more than `most` problems are kept.
    pub(super) fn add(&mut self, problem: Problem, most: usize) {
        if problem.is_remark() {
            self.remarks.push(problem);
        } else if self.problems.len() < most {
            self.problems.push(problem);
        } else {
            self.more += 1;
        }
    }
}
