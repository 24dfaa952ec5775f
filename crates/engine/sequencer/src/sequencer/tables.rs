//! The records of stores, groups and chunks, and what finds them.

use super::open::Opening;
use super::state::{Chunk, ChunkState, Group, Store};
use crate::members::Position;
use crate::table::{ChunkSlot, GroupSlot, StoreSlot, Table};
use amita_types::{ChunkIndex, StoreId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

/// The stores that hold the volume, and others that were heard of.
#[derive(Debug, Default)]
pub(super) struct Stores {
    table: Table<StoreSlot, Store>,
    index: FxHashMap<StoreId, StoreSlot>,
}

impl Stores {
    /// One more, that was not known.
    pub fn add(&mut self, store: Store) -> StoreSlot {
        let id = store.id;
        let slot = self.table.push(store);
        let before = self.index.insert(id, slot);
        assert!(before.is_none(), "a store has one record");
        slot
    }

    pub fn slot_of(&self, id: StoreId) -> Option<StoreSlot> {
        self.index.get(&id).copied()
    }

    pub fn keys(&self) -> impl Iterator<Item = StoreSlot> + use<> {
        self.table.keys()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Store> {
        self.table.iter()
    }

    pub fn each_mut(&mut self) -> impl Iterator<Item = &mut Store> {
        (&mut self.table).into_iter()
    }
}

impl Index<StoreSlot> for Stores {
    type Output = Store;
    #[inline]
    fn index(&self, slot: StoreSlot) -> &Store {
        &self.table[slot]
    }
}

impl IndexMut<StoreSlot> for Stores {
    #[inline]
    fn index_mut(&mut self, slot: StoreSlot) -> &mut Store {
        &mut self.table[slot]
    }
}

/// The groups of the pool, each at its index.
#[derive(Debug, Default)]
pub(super) struct Groups {
    table: Table<GroupSlot, Group>,
    /// Those that were touched, in order.
    pub touched: Vec<GroupSlot>,
    /// Those with members to be brought up to date, which must be touched for it.
    pub to_touch: Vec<GroupSlot>,
    /// Those with members in doubt, and some that had any a moment ago.
    pub doubted: BTreeSet<GroupSlot>,
    /// Those in which writes wait because too few members are left.
    pub stuck: BTreeSet<GroupSlot>,
    /// Openings of chunks that are under way in all of them.
    pub openings: usize,
    /// Those with chunks that wait until an opening has ended.
    pub starved: VecDeque<GroupSlot>,
}

impl Groups {
    pub fn add(&mut self, group: Group) -> GroupSlot {
        self.table.push(group)
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn get_mut(&mut self, slot: GroupSlot) -> Option<&mut Group> {
        self.table.get_mut(slot)
    }

    pub fn keys(&self) -> impl Iterator<Item = GroupSlot> + use<> {
        self.table.keys()
    }

    /// A store's place in a group, if it has one, or had.
    #[inline]
    pub fn position(&self, group: GroupSlot, store: StoreSlot) -> Option<Position> {
        self[group].members.find(store)
    }

    /// A member must adopt the fence again before anything else is sent to it.
    pub fn unready(&mut self, group: GroupSlot, position: Position) {
        let state = &mut self[group];
        state.fence.ready.remove(position);
        // Its store may have ended in between, and have lost more.
        state.doubts += u64::from(state.doubted.has(position));
    }

    /// The group behind this one, if there is one.
    pub fn after(&self, slot: GroupSlot) -> Option<GroupSlot> {
        self.table.after(slot)
    }
}

impl Index<GroupSlot> for Groups {
    type Output = Group;
    #[inline]
    fn index(&self, slot: GroupSlot) -> &Group {
        &self.table[slot]
    }
}

impl IndexMut<GroupSlot> for Groups {
    #[inline]
    fn index_mut(&mut self, slot: GroupSlot) -> &mut Group {
        &mut self.table[slot]
    }
}

/// The chunks that were touched.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    table: Table<ChunkSlot, Chunk>,
    index: FxHashMap<ChunkIndex, ChunkSlot>,
}

impl Chunks {
    /// One more, that was not touched.
    pub fn add(&mut self, chunk: Chunk) -> ChunkSlot {
        let index = chunk.index;
        let slot = self.table.push(chunk);
        let before = self.index.insert(index, slot);
        assert!(before.is_none(), "a chunk has one record");
        slot
    }

    pub fn slot_of(&self, index: ChunkIndex) -> Option<ChunkSlot> {
        self.index.get(&index).copied()
    }

    /// The opening that a task belongs to.
    pub fn opening(&mut self, chunk: ChunkSlot) -> &mut Opening {
        match &mut self[chunk].state {
            ChunkState::Opening(opening) => opening,
            other => panic!("an opening's requests end with it, and the chunk is {other:?}"),
        }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    #[cfg(any(test, feature = "planted"))]
    #[cfg(any(test, feature = "planted"))]
    pub fn keys(&self) -> impl Iterator<Item = ChunkSlot> + use<> {
        self.table.keys()
    }
}

impl Index<ChunkSlot> for Chunks {
    type Output = Chunk;
    #[inline]
    fn index(&self, slot: ChunkSlot) -> &Chunk {
        &self.table[slot]
    }
}

impl IndexMut<ChunkSlot> for Chunks {
    #[inline]
    fn index_mut(&mut self, slot: ChunkSlot) -> &mut Chunk {
        &mut self.table[slot]
    }
}
