//! What a sequencer knows of stores, groups and chunks.

mod store;

pub(super) use store::{Ask, Store};

use super::open::Opening;
use crate::members::{ByPosition, Members, Seats};
use crate::table::{ChunkSlot, GroupSlot, ListPlace, TaskSlot};
use crate::task::List;
use amita_types::{ChunkIndex, Epoch, GroupId, PoolId, Version, map};
use std::collections::VecDeque;

/// One group of the pool.
#[derive(Debug)]
pub(super) struct Group {
    pub id: GroupId,
    pub record: map::Group,
    pub revision: u64,
    /// The stores (by index) that are or were in sync or syncing; a member's position is its place here. The place of one
    /// that has left is taken by another.
    pub members: Seats,
    /// Who of them is in sync by the record.
    pub current: Members,
    /// Who is being brought up to date by the record: serves nothing.
    pub syncing: Members,
    /// Since which epoch, by position.
    pub since: ByPosition<Epoch>,
    /// Of the syncing: who was fenced, and from then on gets every write and must answer it (R2).
    pub entered: Members,
    /// Of those: who holds everything of ours, and we have said so. It may be in sync by the next record.
    pub whole: Members,
    /// Who has adopted the record's epoch and our generation, on its present link.
    pub ready: Members,
    /// Who must be evicted though its store speaks: it cannot apply what it should.
    pub to_evict: Members,
    /// Who is left alone for a moment, because it said `Busy`.
    pub paused: Members,
    /// Warned of: missing, and too few to evict it.
    pub missed: Members,
    pub touched: bool,
    /// A watch said that its record has changed; it is read when the group is touched.
    pub hinted: bool,
    /// Its record is to be read again; and whether the call under way does so.
    pub reread: bool,
    pub rereading: bool,
    /// A member knows of a newer epoch: until the record has been read nothing is fenced.
    pub in_doubt: bool,
    /// The task of its fence, while members have to adopt it.
    pub fence: Option<TaskSlot>,
    /// Chunks that wait to be opened, or are being opened.
    pub opening: Vec<ChunkSlot>,
    /// Of those, the ones that wait, in order.
    pub waiting: VecDeque<ChunkSlot>,
    /// They wait because too many others are being opened: it stands in [`Groups::starved`](super::tables::Groups).
    pub starved: bool,
    /// Stands in the list of groups with chunks to be opened.
    pub opens: bool,
    /// Chunks with writes that are not acknowledged.
    pub busy: Vec<ChunkSlot>,
    /// All of its chunks that were touched.
    pub chunks: Vec<ChunkSlot>,
}

/// One chunk of the volume, once touched.
#[derive(Debug)]
pub(super) struct Chunk {
    pub index: ChunkIndex,
    pub group: GroupSlot,
    pub state: ChunkState,
    /// The version given out last.
    pub issued: Version,
    /// The newest version that every in-sync member has.
    pub committed: Version,
    /// Writes that have a version, in its order; the first is the one after `committed`.
    pub writes: List,
    pub write_count: u32,
    /// I/O that waits: for the chunk's opening, for credits, for a limit.
    pub queued_writes: List,
    pub queued_clears: List,
    pub queued_reads: List,
    /// Compare-and-writes that wait for their turn.
    pub queued_compares: List,
    /// The one whose turn it is; no other write gets a version.
    pub comparing: Option<TaskSlot>,
    /// It, while it waits: for writes that have a version, or, as a write, for what writes wait for.
    pub compared: List,
    /// Reads whose answer waits for `committed` (R3) or for promises (R4).
    pub held: List,
    /// Members that refused a write and to which writes are sent again once all that they have is answered.
    pub stalled: Members,
    /// Of those, members that cannot carry a write out, because what it is to be merged with has rotted: they are caught up
    /// with the others instead (see `catch_up`).
    pub behind: Members,
    /// It is being opened once more for that, with writes that have a version.
    pub catching: bool,
    /// The place in the group's list of busy chunks.
    pub busy_at: Option<ListPlace>,
    /// The place in the group's list of chunks that wait to be opened, or are being opened.
    pub opening_at: Option<ListPlace>,
    /// Stands in [`Intake::blocked`](super::intake::Intake).
    pub blocked: bool,
    /// Members that could not give what a roll-forward needs.
    pub bad_sources: Members,
    /// Syncing members that go on with the chunk's history: they take its writes like all others.
    pub joined: Members,
    /// Those that were asked to.
    pub joining: Members,
    /// It was said that the chunk cannot be gone on with.
    pub implausible: bool,
    /// No write gets a version for a moment: the chunk is compared with a syncing member's copy.
    pub held_back: bool,
}

impl Chunk {
    /// A chunk on its first touch.
    pub fn new(index: ChunkIndex, group: GroupSlot) -> Chunk {
        Chunk {
            index,
            group,
            state: ChunkState::Closed,
            issued: Version::NONE,
            committed: Version::NONE,
            writes: List::default(),
            write_count: 0,
            queued_writes: List::default(),
            queued_clears: List::default(),
            queued_reads: List::default(),
            queued_compares: List::default(),
            comparing: None,
            compared: List::default(),
            held: List::default(),
            stalled: Members::NONE,
            behind: Members::NONE,
            catching: false,
            busy_at: None,
            opening_at: None,
            blocked: false,
            bad_sources: Members::NONE,
            joined: Members::NONE,
            joining: Members::NONE,
            implausible: false,
            held_back: false,
        }
    }

    /// Does anything wait in its queues?
    pub fn waits(&self) -> bool {
        let queues = [
            &self.queued_reads,
            &self.queued_clears,
            &self.queued_writes,
            &self.queued_compares,
            &self.compared,
        ];
        !queues.iter().all(|queue| queue.is_empty())
    }
}

impl Group {
    /// A group as its record has it, which was not touched yet.
    pub fn new(pool: PoolId, members: Seats, record: map::Group, revision: u64) -> Group {
        Group {
            id: GroupId {
                pool,
                index: record.index,
            },
            current: Members::first(members.len()),
            syncing: Members::NONE,
            since: ByPosition::filled(Epoch(0)),
            entered: Members::NONE,
            whole: Members::NONE,
            members,
            record,
            revision,
            ready: Members::NONE,
            to_evict: Members::NONE,
            paused: Members::NONE,
            missed: Members::NONE,
            touched: false,
            hinted: false,
            reread: false,
            rereading: false,
            in_doubt: false,
            fence: None,
            opening: Vec::new(),
            waiting: VecDeque::new(),
            starved: false,
            opens: false,
            busy: Vec::new(),
            chunks: Vec::new(),
        }
    }

    /// Who must adopt the epoch.
    pub fn all(&self) -> Members {
        self.current.or(self.syncing)
    }

    /// Who gets every write and must answer it.
    pub fn writers(&self) -> Members {
        self.current.or(self.entered)
    }
}

#[derive(Debug)]
pub(super) enum ChunkState {
    /// Never touched, or the last opening failed.
    Closed,
    /// Waits until its group is fenced.
    Waiting,
    Opening(Box<Opening>),
    Open,
}
