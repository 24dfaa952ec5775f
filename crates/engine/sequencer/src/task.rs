//! Tasks: everything of which a sequencer awaits an answer, in one slab.
//!
//! A task's slot and a counter of its reuses make the [`RequestId`] that travels, so that an answer finds its task
//! without a search and an answer to what is long over finds nothing. Tasks stand in queues by links inside them:
//! nothing is allocated once the slab has grown.

use crate::config::MAX_TASKS;
use crate::io::IoId;
use crate::members::{ByPosition, Members};
use crate::table::{ChunkSlot, GroupSlot, Key, MendSlot, StoreSlot, SyncSlot, Table, TaskSlot};
use amita_reactor::{Slice, Time};
use amita_types::io::{Differs, Op};
use amita_types::message::{AnswerBody, ClearRequest, Purpose, RequestBody, Sums, WriteRequest};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Epoch, RequestId, SnapshotId, TraceId, Version};

/// A client's write or clear.
#[derive(Debug)]
pub struct Write {
    pub io: IoId,
    /// A clear has no payload and needs no space.
    pub clear: bool,
    pub offset_bytes: u32,
    pub length_bytes: u32,
    pub range: BlockRange,
    /// [`Version::NONE`] until the write is sequenced.
    pub version: Version,
    pub previous: Version,
    /// The snapshot number that it carries, for good (S3); and that of the write before.
    pub number: SnapshotId,
    pub previous_number: SnapshotId,
    pub sums: Sums,
    pub payload: Slice,
    /// Members to whose account of credits it has been charged on their present link (R7).
    pub charged: Members,
    /// How many blocks each account had for it: what comes again by a new link may find fewer than it needs.
    pub taken: ByPosition<u16>,
    /// Members that were asked for credits on its behalf while nothing else was to bring any.
    pub asked: Members,
    /// Since when it has been the first of its chunk and short of credits; none: it has not.
    pub short_since: Option<Time>,
    pub refusals: u8,
    /// Its client has been told. Only fault switches tell before the write is committed.
    pub told: bool,
}

impl Write {
    /// One that has no version yet. Where it is in the chunk: offset and length in bytes.
    pub fn new(io: IoId, clear: bool, bytes: (u32, u32), range: BlockRange, payload: Slice) -> Write {
        let (offset_bytes, length_bytes) = bytes;
        Write {
            io,
            clear,
            offset_bytes,
            length_bytes,
            range,
            version: Version::NONE,
            previous: Version::NONE,
            number: SnapshotId::HEAD,
            previous_number: SnapshotId::HEAD,
            sums: Sums::new(),
            payload,
            charged: Members::NONE,
            taken: ByPosition::filled(0),
            asked: Members::NONE,
            short_since: None,
            refusals: 0,
            told: false,
        }
    }

    /// What a store is asked to do.
    pub fn request(&self, chunk: ChunkIndex) -> RequestBody {
        if self.clear {
            RequestBody::Clear(ClearRequest {
                chunk,
                range: self.range,
                version: self.version,
                previous: self.previous,
            })
        } else {
            RequestBody::Write(WriteRequest {
                chunk,
                offset_bytes: self.offset_bytes,
                length_bytes: self.length_bytes,
                version: self.version,
                previous: self.previous,
                sums: self.sums.clone(),
            })
        }
    }
}

/// A client's read, or its question for the allocation.
#[derive(Debug)]
pub struct Read {
    pub io: IoId,
    pub op: Op,
    pub range: BlockRange,
    /// The snapshot that is read; [`SnapshotId::HEAD`]: the volume itself.
    pub at: SnapshotId,
    /// Members that were asked.
    pub tried: Members,
    /// Members whose copy is damaged.
    pub damaged: Members,
    /// Since when there has been no member that it may be answered from (see `doubt`).
    pub barred_since: Option<Time>,
    /// What came, until it may be given out.
    pub found: Option<Found>,
    /// The leases that prove the answer were held (R4).
    pub leased: bool,
    /// Of a compare-and-write: what is expected, and what is written then; of a write that is made whole: that.
    pub compare: Slice,
}

impl Read {
    /// Which blocks are allocated is asked for, and not what they hold.
    pub fn is_about_allocation(&self) -> bool {
        matches!(self.op, Op::Allocation { .. } | Op::Clear { .. })
    }

    /// What the blocks hold is asked for.
    pub fn is_about_data(&self) -> bool {
        matches!(self.op, Op::Read { .. } | Op::CompareAndWrite { .. } | Op::Write { .. })
    }

    /// A write follows, to which what the blocks hold matters: a compare-and-write, or one that is made whole (S15).
    pub fn writes(&self) -> bool {
        matches!(self.op, Op::CompareAndWrite { .. } | Op::Write { .. })
    }

    /// What was changed since a snapshot is asked for.
    pub fn is_about_changes(&self) -> bool {
        matches!(self.op, Op::Differ { .. })
    }

    /// One that was not sent to anybody yet.
    pub fn new(io: IoId, op: Op, range: BlockRange, at: SnapshotId, compare: Slice) -> Read {
        Read {
            io,
            op,
            range,
            at,
            tried: Members::NONE,
            damaged: Members::NONE,
            barred_since: None,
            found: None,
            leased: false,
            compare,
        }
    }
}

/// What a store said to a read.
#[derive(Debug)]
pub enum Found {
    Data {
        version: Version,
        payload: Slice,
    },
    Allocation {
        version: Version,
        allocated: Box<[u64; 16]>,
    },
    Differs {
        version: Version,
        differs: Box<Differs>,
    },
}

impl Found {
    /// The version that must be everywhere before it is given out (R3).
    pub fn version(&self) -> Version {
        match self {
            Found::Data { version, .. } | Found::Allocation { version, .. } | Found::Differs { version, .. } => {
                *version
            }
        }
    }
}

/// What a task is for.
#[derive(Debug)]
pub enum Kind {
    Free,
    Write(Write),
    Read(Read),
    /// The group's fence at this epoch; lives until every member has adopted it.
    Fence {
        epoch: Epoch,
    },
    /// A step of the chunk's opening; which, is in the chunk.
    Open(Step),
    /// Only a lease is wanted.
    RenewLease,
    /// Credits are wanted, or so many blocks of them are given back.
    Settle {
        back: u64,
    },
    /// A syncing member is to go on with the chunk's history from here (R5).
    Join,
    /// A step of bringing a member up to date, or of looking at copies.
    Sync(SyncStep),
    /// A read that was answered by another member; it is kept so that a member that never answers is noticed.
    Orphan,
}

impl Kind {
    /// Does a store need its data for it? Fences have a patience of their own; leases and credits are given out of
    /// memory.
    pub fn is_work(&self) -> bool {
        !matches!(
            self,
            Kind::Free | Kind::Fence { .. } | Kind::RenewLease | Kind::Settle { .. }
        )
    }
}

/// A request of a chunk's opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ask,
    /// What has the source for snapshots that came to the chunk since the target's version?
    States,
    List,
    Fetch(BlockRange),
    Roll,
    /// What has a member from the volume's parents?
    Inherit,
    /// It makes the chunk from that: one in sync, or (`false`) one that comes back.
    Make(bool),
}

/// A request that brings a member up to date, or looks at copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStep {
    /// Which chunks does a member hold?
    Chunks(SyncSlot),
    /// The same, to look at all of them.
    Walk,
    /// The same, to look at a member that is in doubt.
    Doubt,
    /// One chunk is compared, and mended.
    Mend(MendSlot, MendStep),
}

/// A request about one chunk's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MendStep {
    /// Since when is the chunk incomplete at the target?
    Ask,
    /// Which version has the source?
    Sure,
    /// Which has the target, which is in doubt?
    Held,
    /// Entries of the source.
    Source,
    /// Entries of the target.
    Target,
    /// Blocks of the source.
    Fetch(BlockRange),
    Mend,
    Whole,
    /// States of the source, or (`false`) of the target.
    States(bool),
    /// States of the target are dropped.
    Drop,
    Frame,
    /// Entries of a state, of the source or (`false`) of the target.
    StateOf(bool),
    /// Blocks of a state of the source.
    StateData(BlockRange),
    Put,
    Close,
    Mark,
    /// States of the target, whose blocks are to be looked at.
    Views,
    /// Blocks of a state of the target.
    Look,
    /// A block of a view of the source, to be restored.
    ViewData(BlockIndex),
    /// A block of the target is replaced where it lies.
    Restore(BlockIndex),
}

impl MendStep {
    /// Is this what was asked for?
    pub fn is_answered_by(self, body: &AnswerBody) -> bool {
        matches!(
            (self, body),
            (MendStep::Ask | MendStep::Sure | MendStep::Held, AnswerBody::Opened(_))
                | (MendStep::Source | MendStep::Target, AnswerBody::Changes(_))
                | (MendStep::Target, AnswerBody::Verified(_))
                | (MendStep::Fetch(_), AnswerBody::Data(_))
                | (
                    MendStep::Mend | MendStep::Put | MendStep::Restore(_),
                    AnswerBody::Mended(_)
                )
                | (MendStep::States(_) | MendStep::Views, AnswerBody::States(_))
                | (MendStep::Look, AnswerBody::Verified(_))
                | (MendStep::StateOf(_), AnswerBody::Changes(_))
                | (MendStep::StateData(_) | MendStep::ViewData(_), AnswerBody::Data(_))
                | (
                    MendStep::Whole | MendStep::Drop | MendStep::Frame | MendStep::Close | MendStep::Mark,
                    AnswerBody::Done
                )
        )
    }
}

/// One thing that is awaited, from one or more members of one group.
#[derive(Debug)]
pub struct Task {
    pub kind: Kind,
    pub group: GroupSlot,
    /// None where the task concerns none.
    chunk: Option<ChunkSlot>,
    /// Who has yet to answer.
    pub waiting: Members,
    /// To whom it was sent on the present link.
    pub sent: Members,
    /// When it was first sent, by position: leases count from then (R4). The first of several sends is the safe one.
    pub sent_at: ByPosition<Time>,
    /// Since when its answer is owed, by position (R12): since it was sent on this link, or again after a refusal. One that was only busy
    /// owes it since before. It has taken as long.
    pub owed_since: ByPosition<Time>,
    stamp: u32,
    /// In the list that the task stands in.
    listed: Neighbours,
    /// In the order of reads by age.
    aged: Neighbours,
    /// When the read was last sent to some member; when the write was asked for.
    pub asked_at: Time,
    /// Its I/O's trace.
    pub trace: TraceId,
    /// What its requests are for, where their kinds do not say it.
    pub purpose: Purpose,
    pub steps: Steps,
}

/// What an I/O's requests to stores tell of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Its trace.
    pub trace: TraceId,
    /// What it is for.
    pub purpose: Purpose,
}

/// What it has passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    /// When a member first was sent it.
    pub first_sent: Time,
    /// When a store last answered, and which.
    pub answered: (Time, Option<StoreSlot>),
    /// A store that was not waited for any more.
    pub missed: Option<StoreSlot>,
}

/// Neighbours in a list that runs through tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbours {
    before: Option<TaskSlot>,
    after: Option<TaskSlot>,
}

impl Task {
    /// The chunk that it concerns.
    ///
    /// # Panics
    /// When it concerns none: fences, leases, credits and lists do not.
    #[inline]
    pub fn chunk(&self) -> ChunkSlot {
        self.chunk.expect("a task of a chunk")
    }

    pub fn write(&mut self) -> &mut Write {
        match &mut self.kind {
            Kind::Write(write) => write,
            other => panic!("a write was expected, not {other:?}"),
        }
    }

    pub fn read(&mut self) -> &mut Read {
        match &mut self.kind {
            Kind::Read(read) => read,
            other => panic!("a read was expected, not {other:?}"),
        }
    }
}

/// A queue of tasks, linked through them. A task stands in at most one.
#[derive(Clone, Copy, Debug, Default)]
pub struct List {
    head: Option<TaskSlot>,
    tail: Option<TaskSlot>,
}

impl List {
    pub fn head(&self) -> Option<TaskSlot> {
        self.head
    }

    pub fn tail(&self) -> Option<TaskSlot> {
        self.tail
    }

    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }
}

const SLOT_BITS: u32 = 16;
const STAMP_BITS: u32 = 24;
/// Bits of a request's id that are the sequencer's own.
pub const ID_BITS: u32 = SLOT_BITS + STAMP_BITS;
const _: () = assert!(MAX_TASKS <= 1 << SLOT_BITS);

#[derive(Debug)]
pub struct Tasks {
    tasks: Table<TaskSlot, Task>,
    free: Vec<TaskSlot>,
    id_base: u64,
    /// Reads that await an answer, the one that was sent longest ago first.
    aging: List,
    /// How many tasks each group has: where there are none, nobody need walk through all.
    of_group: Vec<u32>,
}

impl Tasks {
    pub fn new(id_base: u64) -> Tasks {
        assert_eq!(
            id_base & ((1 << ID_BITS) - 1),
            0,
            "the low {ID_BITS} bits are the sequencer's"
        );
        Tasks {
            tasks: Table::new(),
            free: Vec::new(),
            id_base,
            aging: List::default(),
            of_group: Vec::new(),
        }
    }

    /// How many are in use.
    pub fn len(&self) -> usize {
        self.tasks.len() - self.free.len()
    }

    pub fn slots(&self) -> impl Iterator<Item = TaskSlot> + use<> {
        self.tasks.keys()
    }

    /// Slots among which all tasks of a group are; none where it has none.
    pub fn slots_of(&self, group: GroupSlot) -> impl Iterator<Item = TaskSlot> + use<> {
        let any = self.of_group.get(group.at()).is_some_and(|count| *count > 0);
        self.tasks.keys().take(if any { usize::MAX } else { 0 })
    }

    pub fn add(&mut self, kind: Kind, group: GroupSlot, chunk: Option<ChunkSlot>) -> TaskSlot {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                assert!(self.tasks.len() < MAX_TASKS, "the caller bounds what it starts");
                self.tasks.push(Task {
                    kind: Kind::Free,
                    group,
                    chunk,
                    waiting: Members::NONE,
                    sent: Members::NONE,
                    sent_at: ByPosition::filled(Time(0)),
                    owed_since: ByPosition::filled(Time(0)),
                    stamp: 0,
                    listed: Neighbours::default(),
                    aged: Neighbours::default(),
                    asked_at: Time(0),
                    trace: TraceId::NONE,
                    purpose: Purpose::Unsaid,
                    steps: Steps::default(),
                })
            }
        };
        let task = &mut self.tasks[slot];
        task.kind = kind;
        task.group = group;
        task.chunk = chunk;
        (task.trace, task.purpose) = (TraceId::NONE, Purpose::Unsaid);
        task.steps = Steps::default();
        debug_assert!(task.waiting.is_empty() && task.sent.is_empty());
        if self.of_group.len() <= group.at() {
            self.of_group.resize(group.at() + 1, 0);
        }
        self.of_group[group.at()] += 1;
        slot
    }

    /// Forgets a task that stands in no list; what it held is given back.
    pub fn remove(&mut self, slot: TaskSlot) -> Kind {
        self.rest(slot);
        let task = &mut self.tasks[slot];
        assert!(task.waiting.is_empty(), "a task ends when nothing is awaited");
        let kind = std::mem::replace(&mut task.kind, Kind::Free);
        assert!(!matches!(kind, Kind::Free), "a task ends once");
        task.sent = Members::NONE;
        task.stamp = (task.stamp + 1) & ((1 << STAMP_BITS) - 1);
        self.of_group[task.group.at()] -= 1;
        self.free.push(slot);
        kind
    }

    pub fn id(&self, slot: TaskSlot) -> RequestId {
        RequestId(self.id_base | u64::from(self[slot].stamp) << SLOT_BITS | slot.at() as u64)
    }

    /// The task that a request's id names, if it is still under way.
    pub fn find(&self, id: RequestId) -> Option<TaskSlot> {
        let slot = TaskSlot::new((id.0 & ((1 << SLOT_BITS) - 1)) as usize);
        let task = self.tasks.get(slot)?;
        (!matches!(task.kind, Kind::Free) && self.id(slot) == id).then_some(slot)
    }

    pub fn push(&mut self, list: &mut List, slot: TaskSlot) {
        let tail = list.tail;
        self.tasks[slot].listed = Neighbours {
            before: tail,
            after: None,
        };
        match tail {
            None => list.head = Some(slot),
            Some(tail) => self.tasks[tail].listed.after = Some(slot),
        }
        list.tail = Some(slot);
    }

    pub fn unlink(&mut self, list: &mut List, slot: TaskSlot) {
        let Neighbours { before, after } = self.tasks[slot].listed;
        match before {
            None => list.head = after,
            Some(before) => self.tasks[before].listed.after = after,
        }
        match after {
            None => list.tail = before,
            Some(after) => self.tasks[after].listed.before = before,
        }
    }

    pub fn next(&self, slot: TaskSlot) -> Option<TaskSlot> {
        self[slot].listed.after
    }

    pub fn previous(&self, slot: TaskSlot) -> Option<TaskSlot> {
        self[slot].listed.before
    }

    /// The read that has waited longest.
    pub fn oldest(&self) -> Option<TaskSlot> {
        self.aging.head()
    }

    /// A read was sent: it is the youngest now.
    pub fn age(&mut self, slot: TaskSlot, now: Time) {
        self.rest(slot);
        let tail = self.aging.tail;
        let task = &mut self.tasks[slot];
        task.asked_at = now;
        task.aged = Neighbours {
            before: tail,
            after: None,
        };
        match tail {
            None => self.aging.head = Some(slot),
            Some(tail) => self.tasks[tail].aged.after = Some(slot),
        }
        self.aging.tail = Some(slot);
    }

    /// A read awaits nothing any more.
    pub fn rest(&mut self, slot: TaskSlot) {
        let Neighbours { before, after } = self.tasks[slot].aged;
        let stands = before.is_some() || after.is_some() || self.aging.head == Some(slot);
        if !stands {
            return;
        }
        match before {
            None => self.aging.head = after,
            Some(before) => self.tasks[before].aged.after = after,
        }
        match after {
            None => self.aging.tail = before,
            Some(after) => self.tasks[after].aged.before = before,
        }
        self.tasks[slot].aged = Neighbours::default();
    }
}

impl std::ops::Index<TaskSlot> for Tasks {
    type Output = Task;
    fn index(&self, slot: TaskSlot) -> &Task {
        &self.tasks[slot]
    }
}

impl std::ops::IndexMut<TaskSlot> for Tasks {
    fn index_mut(&mut self, slot: TaskSlot) -> &mut Task {
        &mut self.tasks[slot]
    }
}

#[cfg(test)]
mod tests;
