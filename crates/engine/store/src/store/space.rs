//! What is free, what is granted, and what is kept back (rule R7).
//!
//! Two things can run out: slots, and the checkpoint (or the memory) that must hold the index. Both are counted in
//! blocks here, so that one figure answers "may another block be granted?".

use super::discard::Discards;
use super::{Asker, Store};
use crate::allocator::{Allocator, Freed, ReadWindow};
use crate::credits::{AccountId, Credits};
use crate::faults::Fault;
use crate::format::checkpoint;
use crate::index::{PARTS, WORST_BYTES_PER_BLOCK, WORST_BYTES_PER_CLEAR, WORST_BYTES_PER_JOIN, WORST_MEMORY_PER_BLOCK};
use crate::slot_map::SlotMap;
use crate::status::State;
use amita_reactor::Slice;
use amita_reactor::buggify::{Point, buggify};
use amita_types::message::{AnswerBody, MAX_PIECES, SettledAnswer};
use amita_types::{GroupId, VolumeId};

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

/// What is left to be granted, as an answer in a simulated run pretends: a share of it still holds the longest write.
const FEW_BLOCKS: u64 = 8 * amita_types::MAX_IO_BLOCKS as u64;
/// What ended accounts had in flight is kept up to this part of what could be granted.
const LINGER_SHARE: u64 = 4;

/// Whose the slots are, and who may take them.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Which are in use, as of what is durable.
    pub map: SlotMap,
    /// Which may be written: not in use, and not just given back.
    pub allocator: Allocator,
    /// Which were given back, and wait.
    pub freed: Freed,
    /// The reads that they may wait for.
    pub window: ReadWindow,
    /// What was granted.
    pub credits: Credits,
    /// What was accepted.
    pub claims: Claims,
    pub discards: Discards,
}

/// What accepted changes have spoken for.
#[derive(Debug, Default)]
pub(super) struct Claims {
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
        let queued = self.ops.fences.len() as u64 + self.space.claims.fences_logged;
        let queued = queued * (checkpoint::VOLUME_BYTES + checkpoint::GROUP_BYTES);
        let capacity = self.checkpoint_capacity();
        let used = self.index.checkpoint_bytes(self.space.map.shared())
            + self.forgotten_bytes()
            + self.space.claims.unapplied_bytes
            + fences
            + queued;
        capacity.saturating_sub(used + self.space.credits.granted() * WORST_BYTES_PER_BLOCK)
    }

    fn checkpoint_capacity(&self) -> u64 {
        let geometry = &self.superblock.geometry;
        checkpoint::capacity_bytes(geometry.checkpoint_pages, geometry.slots)
    }

    /// Blocks that the memory of the index could still take.
    fn memory_room_blocks(&self) -> u64 {
        let unapplied = self.space.claims.unapplied_bytes / WORST_BYTES_PER_BLOCK + self.space.credits.granted();
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

    /// May another chunk join its owner's history? What is left to clears and fences is not touched: a store that is being
    /// brought up to date can do without, and one that is in sync for other groups must take their clears.
    pub(super) fn join_fits(&self) -> bool {
        self.checkpoint_room() >= self.checkpoint_capacity() / CLEARS_PART + WORST_BYTES_PER_JOIN
    }

    // ---- credits ----

    /// Tops the asker's account up; it wants so many blocks, if any.
    pub(super) fn grant(&mut self, asker: &Asker, want: u32) -> u32 {
        if !matches!(self.state, State::Serving) {
            return 0;
        }
        self.space.credits.turn(self.env.now);
        let spare = self.spare_blocks();
        let spare = if buggify(Point::SmallGrant) {
            spare.min(FEW_BLOCKS)
        } else {
            spare
        };
        self.space
            .credits
            .grant(AccountId::new(asker.link, asker.id), spare, want)
    }

    /// The asker gives credits back, or wants some.
    pub(super) fn settle(&mut self, asker: Asker, want: u32, back: u32) {
        let account = AccountId::new(asker.link, asker.id);
        self.space.credits.give_back(account, back);
        let want = want.min(MAX_PIECES as u32);
        // Who only gives back is not topped up again: both would go on with it for ever.
        let more = if want > 0 { self.grant(&asker, want) } else { 0 };
        let returning = self.space.claims.unapplied_bytes > 0 || self.space_will_return();
        let full = self.space.credits.is_full(self.env.now, account, want, more, returning);
        self.answer_granting(
            asker,
            AnswerBody::Settled(SettledAnswer { full }),
            Slice::default(),
            more,
        );
    }

    /// Accounts have ended that may have had so much in flight: it is kept for what comes again, or is rolled forward. All that
    /// lingers is not more than a part of what is left, so that links that come and go again and again do not take all of it.
    pub(super) fn linger(&mut self, in_flight: u64) {
        if in_flight > 0 && !self.config.faults.has(Fault::GrantsEndAtOnce) {
            self.space.credits.turn(self.env.now);
            let lingering = self.space.credits.lingering();
            let most = (self.spare_blocks() + lingering) / LINGER_SHARE;
            self.space
                .credits
                .linger(self.env.now, in_flight.min(most.saturating_sub(lingering)));
        }
    }

    /// Takes slots from the asker's account, or from what is kept back (rule R7).
    pub(super) fn charge(&mut self, asker: Asker, blocks: u32) -> bool {
        let account = AccountId::new(asker.link, asker.id);
        let beyond = self.beyond_blocks();
        let taken = self.space.credits.take(account, blocks, beyond);
        self.reserve_taken(taken, blocks)
    }

    /// The same for a roll-forward, for which its sender has no credits.
    pub(super) fn charge_roll(&mut self, blocks: u32) -> bool {
        let beyond = self.beyond_blocks();
        let taken = self.space.credits.take_rolled(blocks, beyond);
        self.reserve_taken(taken, blocks)
    }

    /// The same for what brings the store up to date: it is no acknowledged write of anybody here, so what lingers for those
    /// is not touched.
    pub(super) fn charge_mend(&mut self, blocks: u32) -> bool {
        let taken = u64::from(blocks) <= self.beyond_blocks();
        self.reserve_taken(taken, blocks)
    }

    fn reserve_taken(&mut self, taken: bool, blocks: u32) -> bool {
        if taken {
            self.space.claims.reserved += u64::from(blocks);
        }
        taken
    }

    /// Slots that nothing has spoken for: what is granted counts with its leaves, and every leaf that has changed needs a
    /// slot in the next checkpoint.
    fn free_slots(&self) -> u64 {
        let leaves = u64::from(self.index.dirty()) + self.space.claims.unapplied_leaves;
        let spoken_for = self.space.claims.reserved + leaves + self.space.credits.granted() * SLOTS_PER_BLOCK;
        u64::from(self.space.allocator.free()).saturating_sub(spoken_for)
    }

    /// Slots that may be nobody's for a while.
    pub(super) fn discardable_slots(&self) -> u64 {
        self.free_slots().saturating_sub(self.reserve_blocks())
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
        let unused = u64::from(self.space.freed.slots()) + self.checkpoint.retired() + self.discarding();
        unused > 0 || self.index.dirty() > 0
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
        let mark = if self.config.faults.has(Fault::ReuseAtOnce) {
            u64::MAX
        } else {
            self.log.durable_mark
        };
        let oldest = if self.config.faults.has(Fault::NoPin) {
            u64::MAX
        } else {
            self.space.window.oldest()
        };
        while let Some(run) = self.space.freed.pop(mark, oldest) {
            if self.config.faults.has(Fault::LosesSlots) && run.slot.0.is_multiple_of(64) {
                continue;
            }
            if !self.space.allocator.give(run) {
                self.space.map.wrong = Some(run.slot);
            }
            self.note_free(run);
        }
    }
}
