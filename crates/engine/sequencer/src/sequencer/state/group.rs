//! What is known of one group of the pool.

use crate::members::{ByPosition, Members, Position, Seats};
use crate::table::{ChunkSlot, Key, ListPlace, StoreSlot, TaskSlot};
use amita_types::{Epoch, GroupId, PoolId, map};
use std::collections::VecDeque;
use std::ops::Index;

/// One group of the pool.
#[derive(Debug)]
pub(in crate::sequencer) struct Group {
    pub id: GroupId,
    pub record: map::Group,
    pub revision: u64,
    pub state: GroupState,
    pub members: Membership,
    pub fence: Fence,
    /// Who must be evicted though its store speaks: it cannot apply what it should.
    pub to_evict: Members,
    /// Members in sync that were found to lack what they have acknowledged; what else they lack nobody knows (see `doubt`).
    pub doubted: Members,
    /// How often that was found, or what was learned of one of them may have come to nothing.
    pub doubts: u64,
    /// Who is left alone for a moment, because it said `Busy`.
    pub paused: Members,
    /// Warned of: missing, and too few to evict it.
    pub missed: Members,
    pub reread: Reread,
    pub openings: Openings,
    /// Chunks with writes that are not acknowledged.
    pub busy: ChunkList,
    /// All of its chunks that were touched.
    pub chunks: Vec<ChunkSlot>,
}

/// What a group has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sequencer) enum GroupState {
    /// Nothing was asked of it. `hinted`: a watch said that its record has changed; it is read when the group is touched.
    Untouched { hinted: bool },
    /// Its members have adopted the record's epoch, or are to: see [`Fence`].
    Touched,
    /// A member knows of a newer epoch: until the record has been read nothing is fenced.
    InDoubt,
}

/// Who its members are, by the record.
#[derive(Debug)]
pub(in crate::sequencer) struct Membership {
    /// The stores (by index) that are or were in sync or syncing; a member's position is its place here. The place of one
    /// that has left is taken by another.
    seats: Seats,
    /// Who of them is in sync.
    pub current: Members,
    /// Who is being brought up to date: serves nothing.
    pub syncing: Members,
    /// Since which epoch, by position.
    pub since: ByPosition<Epoch>,
    /// Of the syncing: who was fenced, and from then on gets every write and must answer it (R2).
    pub entered: Members,
    /// Of those: who holds everything of ours, and we have said so. It may be in sync by the next record.
    pub whole: Members,
}

/// How far its members have adopted the record's epoch and our generation.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Fence {
    /// Who has, on its present link.
    pub ready: Members,
    /// While others have to.
    pub task: Option<TaskSlot>,
}

/// Its record is to be read again; and whether the call under way does so.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Reread {
    pub wanted: bool,
    pub under_way: bool,
}

/// Its chunks that are being opened.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Openings {
    /// Those that wait to be opened, or are being opened.
    pub all: ChunkList,
    /// Of those, the ones that wait, in order.
    pub waiting: VecDeque<ChunkSlot>,
    /// They wait because too many others are being opened: the group stands in
    /// [`Groups::starved`](crate::sequencer::tables::Groups::starved).
    pub starved: bool,
    /// The group stands in the list of those with chunks to be opened.
    pub listed: bool,
}

/// Chunks in no order, each of which knows its place.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct ChunkList(Vec<ChunkSlot>);

impl Group {
    /// A group as its record has it, which was not touched yet.
    pub fn new(pool: PoolId, seats: Seats, record: map::Group, revision: u64) -> Group {
        Group {
            id: GroupId {
                pool,
                index: record.index,
            },
            record,
            revision,
            state: GroupState::Untouched { hinted: false },
            members: Membership {
                current: Members::first(seats.len()),
                syncing: Members::NONE,
                since: ByPosition::filled(Epoch(0)),
                entered: Members::NONE,
                whole: Members::NONE,
                seats,
            },
            fence: Fence::default(),
            to_evict: Members::NONE,
            doubted: Members::NONE,
            doubts: 0,
            paused: Members::NONE,
            missed: Members::NONE,
            reread: Reread::default(),
            openings: Openings::default(),
            busy: ChunkList::default(),
            chunks: Vec::new(),
        }
    }

    pub fn is_touched(&self) -> bool {
        !matches!(self.state, GroupState::Untouched { .. })
    }

    /// Something is asked of it for the first time. Has a watch said before that its record has changed?
    pub fn touch(&mut self) -> bool {
        let before = std::mem::replace(&mut self.state, GroupState::Touched);
        before == GroupState::Untouched { hinted: true }
    }

    /// A member knows of a newer epoch.
    pub fn doubt(&mut self) {
        assert!(self.is_touched(), "who answers was asked");
        self.state = GroupState::InDoubt;
    }

    /// Its record was read.
    pub fn was_read(&mut self) {
        self.reread.under_way = false;
        if self.state == GroupState::InDoubt {
            self.state = GroupState::Touched;
        }
    }

    /// Who has not adopted the epoch.
    pub fn unfenced(&self) -> Members {
        self.members.all().without(self.fence.ready)
    }

    /// To whom something other than a fence may be sent, where there is a link.
    pub fn is_open_to(&self, position: Position) -> bool {
        let ready = self.fence.ready.and(self.members.all());
        ready.without(self.paused).has(position)
    }
}

impl Membership {
    /// Who must adopt the epoch.
    pub fn all(&self) -> Members {
        self.current.or(self.syncing)
    }

    /// Who gets every write and must answer it.
    pub fn writers(&self) -> Members {
        self.current.or(self.entered)
    }

    /// Places there are, also of members that have left.
    pub fn places(&self) -> usize {
        self.seats.len()
    }

    /// Where a store sits, or sat.
    #[inline]
    pub fn find(&self, store: StoreSlot) -> Option<Position> {
        self.seats.find(store)
    }

    /// A syncing member gets a place.
    pub fn seat(&mut self, position: Position, store: StoreSlot, since: Epoch) {
        self.seats.seat(position, store);
        self.syncing.add(position);
        self.since[position] = since;
    }

    /// By the record of a new epoch these are in sync; of the syncing members these stay.
    pub fn enter(&mut self, current: Members, stays: Members) {
        self.current = current;
        self.syncing = stays;
        self.entered = self.entered.and(stays);
        self.whole = self.whole.and(stays);
    }
}

impl Index<Position> for Membership {
    type Output = StoreSlot;
    #[inline]
    fn index(&self, position: Position) -> &StoreSlot {
        &self.seats[position]
    }
}

impl ChunkList {
    /// Puts a chunk in, and says where.
    pub fn push(&mut self, chunk: ChunkSlot) -> ListPlace {
        let place = ListPlace::new(self.0.len());
        self.0.push(chunk);
        place
    }

    /// Takes a chunk out of its place; who has that place now?
    pub fn remove(&mut self, place: ListPlace, chunk: ChunkSlot) -> Option<ChunkSlot> {
        assert_eq!(self.0.swap_remove(place.at()), chunk, "a chunk stands where it says");
        self.get(place.at())
    }

    pub fn get(&self, at: usize) -> Option<ChunkSlot> {
        self.0.get(at).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = ChunkSlot> + '_ {
        self.0.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Index<usize> for ChunkList {
    type Output = ChunkSlot;
    fn index(&self, at: usize) -> &ChunkSlot {
        &self.0[at]
    }
}
