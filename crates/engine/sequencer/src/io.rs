//! What goes into a sequencer and what comes out of it.

use amita_crypt::Keychain;
use amita_metadata::Call;
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Payload};
use amita_types::map;
use amita_types::message::Request;
use amita_types::{BlockIndex, ChunkId, Generation, GroupId, GroupIndex, NodeId, SnapshotId, StoreId};
use std::sync::Arc;

/// Names one I/O among those of its submitter; its end carries it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// Names one call to the metadata among those of its maker; the reply carries it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A volume that was opened: what its sequencers start from. One opener's result serves all cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// The volume's record, with our generation.
    pub volume: map::Volume,
    /// The record's modification revision: compared by every eviction (R2).
    pub volume_revision: u64,
    /// The pool's record.
    pub pool: map::Pool,
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
    /// Where the volume is encrypted: the keys that its record names.
    pub keys: Option<Arc<Keychain>>,
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
        request: Request,
        /// Beside it.
        payload: Slice,
    },
    /// Ask the metadata.
    Meta {
        /// The reply carries it.
        call: CallId,
        request: Call,
    },
    /// An I/O has ended. Every I/O that was submitted ends exactly once.
    Done {
        io: IoId,
        result: Result<(), IoError>,
        /// What it brings back.
        payload: Payload,
        /// Where its time went.
        course: Course,
    },
    /// A syncing store holds everything of this sequencer's chunks of the group. When the sequencers of all cores say so, the
    /// owner says it in the metadata ([`map::Whole`]).
    Whole {
        group: GroupId,
        store: StoreId,
        /// Since which epoch it is syncing.
        since: amita_types::Epoch,
    },
    /// Have the owner of the volume that this one was cloned from open a chunk: read a block of it, as of this snapshot. Answered by
    /// [`crate::Sequencer::parent_opened`].
    OpenParent {
        /// That volume.
        volume: amita_types::VolumeId,
        snapshot: SnapshotId,
        chunk: amita_types::ChunkIndex,
        /// How large chunks are.
        chunk_bytes: u32,
    },
    /// All in-sync stores have durably adopted our generation ([`crate::Sequencer::require_generation`]).
    GenerationAdopted,
    /// No write with a number below this one is without its acknowledgement, and it is released (S7). Said once for each
    /// number that was adopted.
    Settled {
        /// The number that was adopted last.
        number: SnapshotId,
    },
    /// [`crate::Sequencer::scrub`] has looked at everything in a group.
    Scrubbed {
        /// The number that it was begun with.
        number: u64,
        /// The group; those before it were told earlier.
        group: GroupIndex,
        /// It is the pool's last: all is looked at.
        is_last: bool,
        /// What was found there.
        report: map::ScrubReport,
    },
    /// Something that a person should see; the sequencer goes on.
    Warn(Warning),
    /// The sequencer has ended: all I/O has been answered with [`IoError::Lost`], and nothing follows. Said once.
    Stop { reason: StopReason },
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
        group: GroupId,
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
        store: StoreId,
        chunk: ChunkId,
        /// The first damaged block.
        block: BlockIndex,
    },
    /// A damaged copy was replaced by what another member has.
    #[error("block {} of chunk {chunk} was repaired on store {store}", block.0)]
    Repaired {
        store: StoreId,
        chunk: ChunkId,
        block: BlockIndex,
    },
    /// A damaged copy could not be replaced where it lies.
    #[error(
        "store {store} does not take block {} of chunk {chunk} where it lies: what it shares there with snapshots and clones stays \
         damaged, and is read from other stores; replace its device",
        block.0
    )]
    Unrestored {
        store: StoreId,
        chunk: ChunkId,
        block: BlockIndex,
    },
    /// Copies differ, and each is intact. Nothing was changed.
    #[error("block {} of chunk {chunk} is not the same on the stores {stores:?}; this must not be: please report it", block.0)]
    Differing {
        stores: Vec<StoreId>,
        chunk: ChunkId,
        block: BlockIndex,
    },
    /// A chunk cannot be gone on with: the versions that its copies claim are such as no history of writes has. Its I/O
    /// fails; nothing was changed.
    #[error(
        "chunk {chunk} is not served: {why}; its I/O fails. One of its stores lies or has lost its memory: check them with \
         `amita store check`, and have the one that is wrong formatted anew"
    )]
    Implausible {
        chunk: ChunkId,
        /// Who claims what.
        why: String,
    },
    /// A clone's chunk cannot be had: a store does not keep the snapshot any more that the clone was made from.
    #[error(
        "chunk {chunk} is not served: store {store} does not keep the snapshot any more that the clone has it from (snapshot {parents}); its \
         I/O fails. The metadata's records are of an older copy, in which that snapshot stands again: delete the clone, and make it anew \
         of another snapshot"
    )]
    NotKept {
        /// The clone's.
        chunk: ChunkId,
        /// Who has said so first; it keeps its place.
        store: StoreId,
        /// The clone's parents, the nearest first.
        parents: String,
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
        group: GroupId,
        store: StoreId,
        /// Its words.
        refusal: String,
    },
}
