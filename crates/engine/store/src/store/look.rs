//! What the offline tools look at ([`crate::offline`]): nothing here changes anything.

use super::Store;
use crate::allocator::Allocator;
use crate::fences::Fences;
use crate::format::Slot;
use crate::format::superblock::Superblock;
use crate::index::Index;
use crate::slot_map::SlotMap;
use amita_types::ChunkId;

impl Store {
    /// The chunks that the store holds, in no order: for checkers.
    pub fn held_chunks(&self) -> impl Iterator<Item = ChunkId> + '_ {
        let there = self.index.keys().map(|key| self.index.chunk(key));
        there.filter(|chunk| chunk.is_there()).map(|chunk| chunk.id)
    }

    /// The index.
    pub(crate) fn look_index(&self) -> &Index {
        &self.index
    }

    /// The map of slots.
    pub(crate) fn look_slot_map(&self) -> &SlotMap {
        &self.space.map
    }

    /// What may be written.
    pub(crate) fn look_allocator(&self) -> &Allocator {
        &self.space.allocator
    }

    /// Slots that the checkpoint on the disk names, and nothing else.
    pub(crate) fn look_retired(&self) -> impl Iterator<Item = Slot> + '_ {
        self.checkpoint.retired_slots()
    }

    /// What it knows of ownership.
    pub(crate) fn look_fences(&self) -> &Fences {
        &self.fences
    }

    /// The superblock that a mount has written.
    pub(crate) fn look_superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The number of the first page of the log that is not there yet, and the checksum of the one before it.
    pub(crate) fn look_log_end(&self) -> (u64, u32) {
        (self.log.next, self.log.last_sum)
    }
}
