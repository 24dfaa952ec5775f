//! What goes into a sequencer and what comes out of it.

use amita_metadata::Call;
use amita_reactor::{Slice, Time};
use amita_types::map;
use amita_types::message::Request;
use amita_types::{BlockIndex, ChunkId, Generation, GroupId, NodeId, StoreId};

/// Names one I/O among those of its submitter; its end carries it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// Names one call to the metadata among those of its maker; the reply carries it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One I/O. Offsets and lengths are bytes of the volume; it lies inside one chunk (the front end cuts longer ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads any range of 1 to `MAX_IO_BYTES` bytes that touches at most `MAX_IO_BLOCKS` blocks.
    Read {
        /// The first byte.
        offset: u64,
        /// How many.
        length: u32,
    },
    /// Writes the payload: any range of 1 to `MAX_IO_BYTES` bytes. Durable when it is done.
    Write {
        /// The first byte.
        offset: u64,
        /// How many; the payload's length.
        length: u32,
    },
    /// Unmaps whole blocks: they read as zeros and take no space. Durable when it is done. One of no bytes changes nothing,
    /// and ends as a write would: it tells whether there is an owner that lets this host write.
    Clear {
        /// The first byte: a multiple of the block.
        offset: u64,
        /// How many: a multiple of the block.
        length: u64,
    },
    /// Writes the second half of the payload if the range holds the first half, as one step that no other I/O comes
    /// between; else ends in [`IoError::Miscompare`]. A range of 1 to half of `MAX_IO_BYTES` bytes. Durable when it is done.
    CompareAndWrite {
        /// The first byte.
        offset: u64,
        /// How many: half of the payload's length.
        length: u32,
    },
    /// Which blocks of the chunk that holds this byte are allocated?
    Allocation {
        /// Any byte of the chunk.
        offset: u64,
    },
}

impl Op {
    /// The first byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match *self {
            Op::Read { offset, .. }
            | Op::Write { offset, .. }
            | Op::Clear { offset, .. }
            | Op::CompareAndWrite { offset, .. }
            | Op::Allocation { offset } => offset,
        }
    }

    /// How many bytes it covers; none for [`Op::Allocation`].
    #[must_use]
    pub fn length(&self) -> u64 {
        match *self {
            Op::Read { length, .. } | Op::Write { length, .. } | Op::CompareAndWrite { length, .. } => {
                u64::from(length)
            }
            Op::Clear { length, .. } => length,
            Op::Allocation { .. } => 0,
        }
    }

    /// Does it change the volume?
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. })
    }
}

/// What an I/O brings back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: a write, a clear, or an error.
    #[default]
    None,
    /// The bytes that were asked for.
    Data(Slice),
    /// That many bytes that are all zero (nothing of the range is allocated).
    Zeros(u32),
    /// One bit a block of the chunk, set where it has data; word 0 holds blocks 0 to 63, from its lowest bit.
    Allocation(Box<[u64; 16]>),
}

/// Why an I/O was not done. A write that failed with [`IoError::Lost`] may or may not have happened; one that failed
/// otherwise has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// Beyond the volume's end, or across a chunk's border.
    #[error("the range lies outside the volume or crosses a chunk's border; ask for what the volume's size allows")]
    OutOfRange,
    /// Empty, too long, not of whole blocks where it must be, or a payload of another length.
    #[error("the request is empty, too long or not of whole blocks; the front end must cut it")]
    Invalid,
    /// A store that the write must reach has no space left.
    #[error("no space left on a store that holds this part of the volume; add disks, or trim what is not needed")]
    NoSpace,
    /// The volume is opened for reading only.
    #[error("the volume is open for reading only")]
    ReadOnly,
    /// Another gateway owns the volume now, or it was closed: what was under way may or may not have been done.
    #[error("the volume was taken over by another gateway, or closed, while this was under way; open it again")]
    Lost,
    /// No copy can be served at all. (Too few copies for a write is a wait and not this.)
    #[error("no copy of this part of the volume can be reached; bring a store that holds it back")]
    Unavailable,
    /// Every copy fails its checksum.
    #[error("no intact copy of this part of the volume was found; see the log for the stores and blocks concerned")]
    Damaged,
    /// The range does not hold what it was compared with; nothing was written.
    #[error("the data differs from what it was compared with; nothing was written")]
    Miscompare,
    /// Another host has reserved the volume.
    #[error("another host has reserved the volume; see `amita volume reservation`")]
    Reserved,
    /// More is under way than the volume may queue; ask again.
    #[error("too many requests are under way on this volume; wait for some to end")]
    Busy,
}

/// A volume that was opened: what its sequencers start from. One opener's result serves all cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// The volume's record, with our generation.
    pub volume: map::Volume,
    /// The record's modification revision: compared by every eviction (R2).
    pub volume_revision: u64,
    /// The pool's record.
    pub pool: map::Pool,
    /// Our generation.
    pub generation: Generation,
    /// We.
    pub owner: NodeId,
    /// The generation before ours, if its owner has handed the volume over: it serves nothing any more (R4).
    pub given_back: Option<Generation>,
    /// The record of the volume's reservation, if there is one, and its modification revision; read with the groups.
    pub reservation: Option<(Vec<u8>, u64)>,
    /// All groups of the pool in the order of their index, with their modification revision; read after the generation
    /// was raised (R6).
    pub groups: Vec<(map::Group, u64)>,
}

/// When an ended I/O passed which step, as far as it did; the beginning of time for those that it did not. As exact as the
/// times that the sequencer is given: those of passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// It was first sent to a store; until then it waited in its chunk's queue.
    pub sent: Time,
    /// The last answer that it needed came.
    pub answered: Time,
    /// Who gave that answer.
    pub last: Option<StoreId>,
    /// Who never answered, and was not waited for any more (it was evicted).
    pub missed: Option<StoreId>,
}

/// What a sequencer wants done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send to a store, behind everything sent to it earlier.
    Send {
        /// Whom; named by the request as well.
        store: StoreId,
        /// What.
        request: Request,
        /// Beside it.
        payload: Slice,
    },
    /// Ask the metadata.
    Meta {
        /// The reply carries it.
        call: CallId,
        /// What.
        request: Call,
    },
    /// An I/O has ended. Every I/O that was submitted ends exactly once.
    Done {
        /// Which.
        io: IoId,
        /// How.
        result: Result<(), IoError>,
        /// What it brings back.
        payload: Payload,
        /// Where its time went.
        course: Course,
    },
    /// A syncing store holds everything of this sequencer's chunks of the group. When the sequencers of all cores say so, the
    /// owner says it in the metadata ([`map::Whole`]).
    Whole {
        /// The group.
        group: GroupId,
        /// The store.
        store: StoreId,
        /// Since which epoch it is syncing.
        since: amita_types::Epoch,
    },
    /// [`crate::Sequencer::scrub`] has looked at everything.
    Scrubbed {
        /// What was found.
        report: map::ScrubReport,
    },
    /// Something that a person should see; the sequencer goes on.
    Warn(Warning),
    /// The sequencer has ended: all I/O has been answered with [`IoError::Lost`], and nothing follows. Said once.
    Stop {
        /// Why.
        reason: StopReason,
    },
}

/// Why a sequencer ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// Another gateway has raised the generation.
    #[error("another gateway took the volume over (generation {generation})")]
    Deposed {
        /// The generation that we met; ours is lower.
        generation: Generation,
    },
    /// `Sequencer::release` was called.
    #[error("the volume was released")]
    Released,
    /// The metadata says what it never may: an older epoch than before, a member that no one brought up to date, a
    /// record that is gone or unreadable.
    #[error("the metadata of {what} contradicts what was known: {why}; was it restored from an older copy?")]
    Metadata {
        /// The key.
        what: String,
        /// What is wrong.
        why: String,
    },
}

/// Something that a person should see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A store was taken out of the in-sync set of groups, by us or by another sequencer.
    #[error("group {group}: store {store} is no longer in sync since epoch {epoch}")]
    Evicted {
        /// The group.
        group: GroupId,
        /// The store.
        store: StoreId,
        /// The new epoch.
        epoch: amita_types::Epoch,
    },
    /// A store should be taken out, and that would leave too few: writes wait.
    #[error(
        "group {group}: store {store} does not serve, and only {in_sync} are in sync of at least {min_copies}; \
         writes wait until it is back"
    )]
    BelowMinCopies {
        /// The group.
        group: GroupId,
        /// The store that is missed.
        store: StoreId,
        /// How many are in sync, it included.
        in_sync: usize,
        /// The pool's least.
        min_copies: usize,
    },
    /// A copy fails its checksum; it was read from another member, if there is one.
    #[error("store {store} has a damaged copy of block {} of chunk {chunk}", block.0)]
    Damaged {
        /// The store.
        store: StoreId,
        /// The chunk.
        chunk: ChunkId,
        /// The first damaged block.
        block: BlockIndex,
    },
    /// A damaged copy was replaced by what another member has.
    #[error("block {} of chunk {chunk} was repaired on store {store}", block.0)]
    Repaired {
        /// The store.
        store: StoreId,
        /// The chunk.
        chunk: ChunkId,
        /// The block.
        block: BlockIndex,
    },
    /// Copies differ, and each is intact. Nothing was changed.
    #[error("block {} of chunk {chunk} is not the same on the stores {stores:?}; this must not be: please report it", block.0)]
    Differing {
        /// The stores.
        stores: Vec<StoreId>,
        /// The chunk.
        chunk: ChunkId,
        /// The block.
        block: BlockIndex,
    },
    /// A chunk cannot be gone on with: the versions that its copies claim are such as no history of writes has. Its I/O
    /// fails; nothing was changed.
    #[error(
        "chunk {chunk} is not served: {why}; its I/O fails. One of its stores lies or has lost its memory: check them with \
         `amita store check`, and have the one that is wrong formatted anew"
    )]
    Implausible {
        /// The chunk.
        chunk: ChunkId,
        /// Who claims what.
        why: String,
    },
    /// The metadata refused a call, or cannot be reached; it is tried again.
    #[error("the membership of a group cannot be changed: {error}; trying again")]
    Metadata {
        /// What it said.
        error: amita_metadata::Error,
    },
    /// A store refused what it should have done.
    #[error("store {store} refused a request of group {group}: {refusal}")]
    Refused {
        /// The group.
        group: GroupId,
        /// The store.
        store: StoreId,
        /// Its words.
        refusal: String,
    },
}
