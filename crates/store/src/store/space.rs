//! What is free, what is granted, and what is kept back (rule R7).
//!
//! Two things can run out: slots, and the checkpoint (or the memory) that must hold the index. Both are counted in
//! blocks here, so that one figure answers "may another block be granted?".

use super::Store;
use crate::format::checkpoint;
use crate::index::{PARTS, WORST_BYTES_PER_BLOCK, WORST_BYTES_PER_CLEAR, WORST_MEMORY_PER_BLOCK};
use amita_cluster::{GroupId, VolumeId};

/// Slots that are never granted: writes whose grant was lost with a connection, roll-forwards, and the copies that
/// overwriting needs until the log has let go of the old ones.
const RESERVE_PART: u32 = 64;
const RESERVE_LEAST: u32 = 16;
const RESERVE_MOST: u32 = 2048;
/// A block can take a slot for itself, and one for its leaf.
const SLOTS_PER_BLOCK: u64 = 2;
/// Slots for the leaves that a clear changes, so that space can always be given back.
const KEPT_FOR_CLEARS: u64 = PARTS as u64;
/// This part of a checkpoint area is left to clears and fences, so that space can always be given back.
const CLEARS_PART: u64 = 8;

/// What accepted changes have spoken for.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Slots of accepted changes that have not been taken from the allocator yet.
    pub reserved: u64,
    /// What accepted changes that are not in the index yet can add to a checkpoint.
    pub unapplied_bytes: u64,
    /// Leaves that accepted changes which are not in the index yet can change.
    pub unapplied_leaves: u64,
    /// Fences that are on their way to the log.
    pub fences_logged: u64,
}

impl Store {
    /// Slots that are kept back.
    fn reserve_blocks(&self) -> u64 {
        let part = self.superblock.geometry.slots / RESERVE_PART;
        u64::from(part.clamp(RESERVE_LEAST, RESERVE_MOST))
    }

    /// Bytes that a checkpoint could still take.
    fn checkpoint_room(&self) -> u64 {
        let fences = self.fences.volume_lines() as u64 * checkpoint::VOLUME_BYTES
            + self.fences.groups().len() as u64 * checkpoint::GROUP_BYTES;
        let queued = self.fence_queue.len() as u64 + self.space.fences_logged;
        let queued = queued * (checkpoint::VOLUME_BYTES + checkpoint::GROUP_BYTES);
        let capacity = self.checkpoint_capacity();
        let used = self.index.checkpoint_bytes(self.held.shared())
            + self.forgotten_bytes()
            + self.space.unapplied_bytes
            + fences
            + queued;
        capacity.saturating_sub(used + self.credits.granted() * WORST_BYTES_PER_BLOCK)
    }

    fn checkpoint_capacity(&self) -> u64 {
        let geometry = &self.superblock.geometry;
        checkpoint::capacity_bytes(geometry.checkpoint_pages, geometry.slots)
    }

    /// Blocks that the memory of the index could still take.
    fn memory_room_blocks(&self) -> u64 {
        let unapplied = self.space.unapplied_bytes / WORST_BYTES_PER_BLOCK + self.credits.granted();
        let used = self.index.fixed_bytes() + unapplied * WORST_MEMORY_PER_BLOCK;
        self.config.index_bytes.saturating_sub(used) / WORST_MEMORY_PER_BLOCK
    }

    /// Blocks that the index could still take, besides what is left to clears and fences.
    fn index_room_blocks(&self) -> u64 {
        let capacity = self.checkpoint_capacity();
        let room = self.checkpoint_room().saturating_sub(capacity / CLEARS_PART);
        (room / WORST_BYTES_PER_BLOCK).min(self.memory_room_blocks())
    }

    /// Blocks that may be granted to anybody.
    pub(super) fn spare_blocks(&self) -> u64 {
        (self.free_slots().saturating_sub(self.reserve_blocks()) / SLOTS_PER_BLOCK).min(self.index_room_blocks())
    }

    /// Blocks that a write may take which was granted nothing: the reserve too.
    pub(super) fn beyond_blocks(&self) -> u64 {
        (self.free_slots().saturating_sub(KEPT_FOR_CLEARS) / SLOTS_PER_BLOCK).min(self.index_room_blocks())
    }

    /// Slots that nothing has spoken for: what is granted counts with its leaves, and every leaf that has changed needs a
    /// slot in the next checkpoint.
    fn free_slots(&self) -> u64 {
        let leaves = u64::from(self.index.dirty()) + self.space.unapplied_leaves;
        let spoken_for = self.space.reserved + leaves + self.credits.granted() * SLOTS_PER_BLOCK;
        u64::from(self.allocator.free()).saturating_sub(spoken_for)
    }

    /// Are slots so few that a checkpoint is worth it for those that it gives back?
    pub(super) fn free_slots_scarce(&self) -> bool {
        let returning = self.checkpoint.retired() + u64::from(self.index.dirty());
        self.free_slots() < self.reserve_blocks() && returning >= self.reserve_blocks() / 2
    }

    /// May another clear be accepted? The leaves that it changes need slots, too.
    pub(super) fn clear_fits(&self, leaves: u32) -> bool {
        self.checkpoint_room() >= WORST_BYTES_PER_CLEAR && self.free_slots() >= u64::from(leaves)
    }

    /// Will slots be free again without anybody giving something up?
    pub(super) fn space_will_return(&self) -> bool {
        self.freed.slots() > 0 || self.index.dirty() > 0 || self.checkpoint.retired() > 0
    }

    /// Are there so many leaves in memory that must be written that no more should be changed?
    pub(super) fn leaves_full(&self) -> bool {
        self.checkpoint.is_under_way() && self.dirty_bytes() > self.leaf_budget() / 4 * 3
    }

    /// May this volume and group be known, if they are not yet?
    pub(super) fn fence_fits(&self, volume: VolumeId, group: GroupId) -> bool {
        self.fences.knows(volume, group) || self.checkpoint_room() >= checkpoint::VOLUME_BYTES + checkpoint::GROUP_BYTES
    }

    /// Slots whose reuse waits for nothing any more become free (rules D1, D6).
    pub(super) fn reclaim(&mut self) {
        use crate::config::Plant;
        let mark = if self.config.planted.has(Plant::ReuseAtOnce) {
            u64::MAX
        } else {
            self.log.durable_mark
        };
        let oldest = if self.config.planted.has(Plant::NoPin) {
            u64::MAX
        } else {
            self.window.oldest()
        };
        while let Some(run) = self.freed.pop(mark, oldest) {
            if self.config.planted.has(Plant::LosesSlots) && run.slot.0.is_multiple_of(64) {
                continue;
            }
            if !self.allocator.give(run) {
                self.held.wrong = Some(run.slot);
            }
            self.note_free(run);
        }
    }
}
