//! What is free, what is granted, and what is kept back (rule R7).
//!
//! Two things can run out: slots, and the checkpoint (or the memory) that must hold the index. Both are counted in
//! blocks here, so that one figure answers "may another block be granted?".

use super::Store;
use crate::format::checkpoint;
use crate::index::{WORST_BYTES_PER_BLOCK, WORST_BYTES_PER_CLEAR, WORST_MEMORY_PER_BLOCK};
use amita_cluster::{GroupId, VolumeId};

/// Slots that are never granted: writes whose grant was lost with a connection, roll-forwards, and the copies that
/// overwriting needs until the log has let go of the old ones.
const RESERVE_PART: u32 = 64;
const RESERVE_LEAST: u32 = 16;
const RESERVE_MOST: u32 = 2048;
/// This part of a checkpoint area is left to clears and fences, so that space can always be given back.
const CLEARS_PART: u64 = 8;

/// What accepted changes have spoken for.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Slots of accepted changes that have not been taken from the allocator yet.
    pub reserved: u64,
    /// What accepted changes that are not in the index yet can add to a checkpoint.
    pub unapplied_bytes: u64,
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
        let fences = self.fences.volumes().len() as u64 * checkpoint::VOLUME_BYTES
            + self.fences.groups().len() as u64 * checkpoint::GROUP_BYTES;
        let queued = self.fence_queue.len() as u64 + self.space.fences_logged;
        let queued = queued * (checkpoint::VOLUME_BYTES + checkpoint::GROUP_BYTES);
        let capacity = checkpoint::capacity_bytes(self.superblock.geometry.checkpoint_pages);
        let used = self.index.checkpoint_bytes() + self.space.unapplied_bytes + fences + queued;
        capacity.saturating_sub(used + self.credits.granted() * WORST_BYTES_PER_BLOCK)
    }

    /// Blocks that the memory of the index could still take.
    fn memory_room_blocks(&self) -> u64 {
        let unapplied = self.space.unapplied_bytes / WORST_BYTES_PER_BLOCK + self.credits.granted();
        let used = self.index.memory_bytes() + unapplied * WORST_MEMORY_PER_BLOCK;
        self.config.index_bytes.saturating_sub(used) / WORST_MEMORY_PER_BLOCK
    }

    /// Blocks that the index could still take, besides what is left to clears and fences.
    fn index_room_blocks(&self) -> u64 {
        let capacity = checkpoint::capacity_bytes(self.superblock.geometry.checkpoint_pages);
        let room = self.checkpoint_room().saturating_sub(capacity / CLEARS_PART);
        (room / WORST_BYTES_PER_BLOCK).min(self.memory_room_blocks())
    }

    /// Blocks that may be granted to anybody.
    pub(super) fn spare_blocks(&self) -> u64 {
        self.free_blocks()
            .saturating_sub(self.reserve_blocks())
            .min(self.index_room_blocks())
    }

    /// Blocks that a write may take which was granted nothing: the reserve too.
    pub(super) fn beyond_blocks(&self) -> u64 {
        self.free_blocks().min(self.index_room_blocks())
    }

    fn free_blocks(&self) -> u64 {
        u64::from(self.allocator.free()).saturating_sub(self.space.reserved + self.credits.granted())
    }

    /// May another clear be accepted?
    pub(super) fn clear_fits(&self) -> bool {
        self.checkpoint_room() >= WORST_BYTES_PER_CLEAR
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
            self.allocator.give(run);
        }
    }
}
