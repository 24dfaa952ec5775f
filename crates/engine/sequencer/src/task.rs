//! Tasks: everything of which a sequencer awaits an answer, in one slab.
//!
//! A task's slot and a counter of its reuses make the [`RequestId`] that travels, so that an answer finds its task
//! without a search and an answer to what is long over finds nothing. Tasks stand in queues by links inside them:
//! nothing is allocated once the slab has grown.

use crate::config::MAX_TASKS;
use crate::io::IoId;
use crate::table::Table;
use amita_reactor::{Slice, Time};
use amita_types::io::Op;
use amita_types::message::{MAX_MEMBERS, Sums};
use amita_types::{BlockRange, Epoch, RequestId, TraceId, Version};

/// No slot: the end of a list.
pub const NIL: u32 = u32::MAX;

/// Members of a group by their position in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members(pub u8);

const _: () = assert!(MAX_MEMBERS <= 8, "a set of members is one byte");

impl Members {
    pub const NONE: Members = Members(0);

    pub fn first(count: usize) -> Members {
        Members(((1u16 << count) - 1) as u8)
    }

    pub fn one(position: usize) -> Members {
        Members(1 << position)
    }

    pub fn has(self, position: usize) -> bool {
        self.0 & (1 << position) != 0
    }

    pub fn add(&mut self, position: usize) {
        self.0 |= 1 << position;
    }

    pub fn remove(&mut self, position: usize) {
        self.0 &= !(1 << position);
    }

    pub fn and(self, other: Members) -> Members {
        Members(self.0 & other.0)
    }

    pub fn or(self, other: Members) -> Members {
        Members(self.0 | other.0)
    }

    pub fn without(self, other: Members) -> Members {
        Members(self.0 & !other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_MEMBERS).filter(move |&position| self.has(position))
    }
}

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
    pub sums: Sums,
    pub payload: Slice,
    /// Members to whose account of credits it has been charged on their present link (R7).
    pub charged: Members,
    /// How many blocks each account had for it: what comes again by a new link may find fewer than it needs.
    pub taken: [u16; MAX_MEMBERS],
    /// Members that were asked for credits on its behalf while nothing else was to bring any.
    pub asked: Members,
    /// Since when it has been the first of its chunk and short of credits; none: it has not.
    pub short_since: Option<Time>,
    pub refusals: u8,
    /// Its client has been told. Only planted faults tell before the write is committed.
    pub told: bool,
}

/// A client's read, or its question for the allocation.
#[derive(Debug)]
pub struct Read {
    pub io: IoId,
    pub op: Op,
    pub range: BlockRange,
    /// Members that were asked.
    pub tried: Members,
    /// Members whose copy is damaged.
    pub damaged: Members,
    /// What came, until it may be given out.
    pub found: Option<Found>,
    /// The promises that prove the answer were held (R4).
    pub promised: bool,
    /// Of a compare-and-write: what is expected, and what is written then.
    pub compare: Slice,
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
}

impl Found {
    /// The version that must be everywhere before it is given out (R3).
    pub fn version(&self) -> Version {
        match self {
            Found::Data { version, .. } | Found::Allocation { version, .. } => *version,
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
    /// Only a promise is wanted.
    Confirm,
    /// Credits are wanted, or so many blocks of them are given back.
    Settle {
        back: u64,
    },
    /// A syncing member is to go on with the chunk's history from here (R5).
    Join,
    /// A step of bringing a member up to date.
    Sync {
        /// The member's (by [`SyncStep::Chunks`]), else the chunk's, place among those under way.
        of: u32,
        step: SyncStep,
    },
    /// A read that was answered by another member; it is kept so that a member that never answers is noticed.
    Orphan,
}

impl Kind {
    /// Does a store need its data for it? Fences have a patience of their own; promises and credits are given out of memory.
    pub fn is_work(&self) -> bool {
        !matches!(
            self,
            Kind::Free | Kind::Fence { .. } | Kind::Confirm | Kind::Settle { .. }
        )
    }
}

/// A request of a chunk's opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ask,
    List,
    Fetch(BlockRange),
    Roll,
}

/// A request that brings a member up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStep {
    /// Which chunks does a member hold?
    Chunks,
    /// The same, to look at all of them.
    Walk,
    /// Since when is the chunk incomplete at the target?
    Ask,
    /// Entries of the source.
    Source,
    /// Entries of the target.
    Target,
    /// Blocks of the source.
    Fetch(BlockRange),
    Mend,
    Whole,
}

/// One thing that is awaited, from one or more members of one group.
#[derive(Debug)]
pub struct Task {
    pub kind: Kind,
    pub group: u32,
    /// The chunk's slot; [`NIL`] where the task concerns none.
    pub chunk: u32,
    /// Who has yet to answer.
    pub waiting: Members,
    /// To whom it was sent on the present link.
    pub sent: Members,
    /// When it was first sent, by position: promises count from then (R4). The first of several sends is the safe one.
    pub sent_at: [Time; MAX_MEMBERS],
    stamp: u32,
    /// Neighbours in the list that the task stands in.
    previous: u32,
    next: u32,
    /// Neighbours in the order of reads by age.
    older: u32,
    newer: u32,
    /// When the read was last sent to some member; when the write was asked for.
    pub asked_at: Time,
    /// Its I/O's trace.
    pub trace: TraceId,
    /// When a member first was sent it.
    pub first_sent: Time,
    /// When a store last answered, and the number of that store.
    pub answered: (Time, u32),
    /// The number of a store that was not waited for any more.
    pub missed: u32,
}

impl Task {
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
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> List {
        List { head: NIL, tail: NIL }
    }
}

impl List {
    pub fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    pub fn tail(&self) -> Option<u32> {
        (self.tail != NIL).then_some(self.tail)
    }

    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

const SLOT_BITS: u32 = 16;
const STAMP_BITS: u32 = 24;
/// Bits of a request's id that are the sequencer's own.
pub const ID_BITS: u32 = SLOT_BITS + STAMP_BITS;
const _: () = assert!(MAX_TASKS <= 1 << SLOT_BITS);

/// All tasks.
#[derive(Debug)]
pub struct Tasks {
    tasks: Table<Task>,
    free: Vec<u32>,
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

    pub fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.tasks.len() as u32
    }

    /// Slots among which all tasks of a group are; none where it has none.
    pub fn slots_of(&self, group: u32) -> impl Iterator<Item = u32> + use<> {
        let any = self.of_group.get(group as usize).is_some_and(|count| *count > 0);
        0..if any { self.tasks.len() as u32 } else { 0 }
    }

    pub fn add(&mut self, kind: Kind, group: u32, chunk: u32) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = self.tasks.len() as u32;
                assert!((slot as usize) < MAX_TASKS, "the caller bounds what it starts");
                self.tasks.push(Task {
                    kind: Kind::Free,
                    group: 0,
                    chunk: NIL,
                    waiting: Members::NONE,
                    sent: Members::NONE,
                    sent_at: [Time(0); MAX_MEMBERS],
                    stamp: 0,
                    previous: NIL,
                    next: NIL,
                    older: NIL,
                    newer: NIL,
                    asked_at: Time(0),
                    trace: TraceId::NONE,
                    first_sent: Time(0),
                    answered: (Time(0), NIL),
                    missed: NIL,
                });
                slot
            }
        };
        let task = &mut self.tasks[slot as usize];
        task.kind = kind;
        task.group = group;
        task.chunk = chunk;
        task.trace = TraceId::NONE;
        task.first_sent = Time(0);
        task.answered = (Time(0), NIL);
        task.missed = NIL;
        debug_assert!(task.waiting.is_empty() && task.sent.is_empty());
        if self.of_group.len() <= group as usize {
            self.of_group.resize(group as usize + 1, 0);
        }
        self.of_group[group as usize] += 1;
        slot
    }

    /// Forgets a task that stands in no list; what it held is given back.
    pub fn remove(&mut self, slot: u32) -> Kind {
        self.rest(slot);
        let task = &mut self.tasks[slot as usize];
        assert!(task.waiting.is_empty(), "a task ends when nothing is awaited");
        let kind = std::mem::replace(&mut task.kind, Kind::Free);
        assert!(!matches!(kind, Kind::Free), "a task ends once");
        task.sent = Members::NONE;
        task.stamp = (task.stamp + 1) & ((1 << STAMP_BITS) - 1);
        self.of_group[task.group as usize] -= 1;
        self.free.push(slot);
        kind
    }

    pub fn id(&self, slot: u32) -> RequestId {
        RequestId(self.id_base | u64::from(self[slot].stamp) << SLOT_BITS | u64::from(slot))
    }

    /// The task that a request's id names, if it is still under way.
    pub fn find(&self, id: RequestId) -> Option<u32> {
        let slot = (id.0 & ((1 << SLOT_BITS) - 1)) as u32;
        let task = self.tasks.get(slot as usize)?;
        (!matches!(task.kind, Kind::Free) && self.id(slot) == id).then_some(slot)
    }

    pub fn push(&mut self, list: &mut List, slot: u32) {
        let tail = list.tail;
        let task = &mut self.tasks[slot as usize];
        task.previous = tail;
        task.next = NIL;
        match tail {
            NIL => list.head = slot,
            tail => self.tasks[tail as usize].next = slot,
        }
        list.tail = slot;
    }

    pub fn unlink(&mut self, list: &mut List, slot: u32) {
        let Task { previous, next, .. } = self.tasks[slot as usize];
        match previous {
            NIL => list.head = next,
            previous => self.tasks[previous as usize].next = next,
        }
        match next {
            NIL => list.tail = previous,
            next => self.tasks[next as usize].previous = previous,
        }
    }

    pub fn next(&self, slot: u32) -> Option<u32> {
        let next = self[slot].next;
        (next != NIL).then_some(next)
    }

    pub fn previous(&self, slot: u32) -> Option<u32> {
        let previous = self[slot].previous;
        (previous != NIL).then_some(previous)
    }

    /// The read that has waited longest.
    pub fn oldest(&self) -> Option<u32> {
        self.aging.head()
    }

    /// A read was sent: it is the youngest now.
    pub fn age(&mut self, slot: u32, now: Time) {
        self.rest(slot);
        let tail = self.aging.tail;
        let task = &mut self.tasks[slot as usize];
        task.asked_at = now;
        task.older = tail;
        task.newer = NIL;
        match tail {
            NIL => self.aging.head = slot,
            tail => self.tasks[tail as usize].newer = slot,
        }
        self.aging.tail = slot;
    }

    /// A read awaits nothing any more.
    pub fn rest(&mut self, slot: u32) {
        let Task { older, newer, .. } = self.tasks[slot as usize];
        let stands = older != NIL || newer != NIL || self.aging.head == slot;
        if !stands {
            return;
        }
        match older {
            NIL => self.aging.head = newer,
            older => self.tasks[older as usize].newer = newer,
        }
        match newer {
            NIL => self.aging.tail = older,
            newer => self.tasks[newer as usize].older = older,
        }
        let task = &mut self.tasks[slot as usize];
        task.older = NIL;
        task.newer = NIL;
    }
}

impl std::ops::Index<u32> for Tasks {
    type Output = Task;
    fn index(&self, slot: u32) -> &Task {
        &self.tasks[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Tasks {
    fn index_mut(&mut self, slot: u32) -> &mut Task {
        &mut self.tasks[slot as usize]
    }
}

#[cfg(test)]
mod tests;
