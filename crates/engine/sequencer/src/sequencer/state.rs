//! What a sequencer knows of stores, groups and chunks.

use super::agenda::NEVER;
use super::open::Opening;
use crate::members::{ByPosition, Members, Seats};
use crate::table::{ChunkSlot, GroupSlot, ListPlace, TaskSlot, WatchSlot};
use crate::task::List;
use amita_reactor::Time;
use amita_types::{ChunkIndex, Epoch, GroupId, PoolId, RequestId, StoreId, Version, map};
use std::collections::VecDeque;
use std::time::Duration;

/// One of the volume's stores.
#[derive(Debug)]
pub(super) struct Store {
    pub id: StoreId,
    pub local: bool,
    /// There is a link to it.
    pub up: bool,
    /// Surely dead, or silent for too long: groups that are touched go on without it. Cleared when it speaks.
    pub lost: bool,
    /// When it was found lost: the first one goes first.
    pub lost_at: Time,
    /// It has said that it cannot serve; reported once.
    pub unfit: bool,
    /// The group by which it was last asked for something.
    pub via: Option<GroupSlot>,
    /// Answers that are owed on something sent or to be sent.
    pub awaited: u32,
    /// Stands in the list of those whose silence may matter ([`super::store::Silence`]).
    pub owes: bool,
    /// In which round it was last found that openings wait for it.
    pub missed: u64,
    /// In how many groups' records it is being brought up to date.
    pub behind_in: u32,
    /// Of those, writes: their end may bring credits.
    pub writes: u32,
    /// Payload bytes of writes that it has not answered.
    pub bytes: u64,
    /// The last answer, or when there began to be something to answer.
    pub heard: Time,
    /// It refuses everything until it is mounted anew; then it knows nothing of what was granted on this link.
    pub poisoned: bool,
    /// Its last answer was `Busy`.
    pub refusing: bool,
    /// It has done something on its present link.
    pub worked: bool,
    /// When the newest request was sent that it has answered, of those that a disk may be needed for.
    pub served: Time,
    /// What it owes is owed since then at the earliest: its link came up, or we stood still.
    pub owes_since: Time,
    /// Since when it has owed work without doing any, on whatever links; [`NEVER`]: it owes none.
    pub idle_since: Time,
    /// When it is looked for something that it owes for too long.
    pub look_at: Time,
    /// It owes something for too long, and has answered what it was asked later.
    pub stuck: bool,
    /// Blocks that may be written before it grants more (R7).
    pub credit: u64,
    /// Writes of groups that it has left, and their blocks: whether they count, its answers tell.
    pub in_doubt: Vec<(RequestId, u64)>,
    /// Until then it accepts no newer generation (R4).
    pub promise_until: Time,
    /// The length of its last promise, as far as it counts.
    pub promise: Duration,
    /// When the newest request was sent that it has answered with a promise.
    pub confirmed: Time,
    /// Its number among the stores that the core watches.
    pub watch: WatchSlot,
    /// When it was last charged: credits that are not used for a while are given back.
    pub charged_at: Time,
    /// The request for a promise that is under way.
    pub confirm: Option<TaskSlot>,
    /// When the last one was sent.
    pub confirm_at: Time,
    /// The request about credits that is under way.
    pub settle: Option<TaskSlot>,
    /// The last one.
    pub asked: Ask,
    /// The last one whose answer brought less than was wanted.
    pub answered: Option<Ask>,
    /// The last one that was told that the store is full, if it has not granted as much as was wanted since.
    pub full: Option<Ask>,
}

/// A request for credits. What its answer says of the store's space holds for those who had come before it: who comes later
/// asks for himself, because he may have made room, and been told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// When it was sent.
    pub at: Time,
    /// So many blocks were wanted. Fewer may be there.
    pub want: u64,
}

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

impl Store {
    /// A store of which nothing has been heard.
    pub fn new(id: StoreId, local: bool, watch: WatchSlot, now: Time, look_at: Time) -> Store {
        Store {
            id,
            local,
            up: false,
            lost: false,
            lost_at: now,
            unfit: false,
            awaited: 0,
            via: None,
            owes: false,
            missed: 0,
            behind_in: 0,
            writes: 0,
            bytes: 0,
            heard: now,
            poisoned: false,
            refusing: false,
            worked: false,
            served: Time(0),
            owes_since: now,
            look_at,
            stuck: false,
            credit: 0,
            in_doubt: Vec::new(),
            promise_until: Time(0),
            promise: Duration::ZERO,
            confirmed: Time(0),
            watch,
            charged_at: now,
            confirm: None,
            confirm_at: Time(0),
            idle_since: NEVER,
            settle: None,
            asked: Ask { at: Time(0), want: 0 },
            answered: None,
            full: None,
        }
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
