//! What is free, what is granted, and what is kept back (rule R7).
//!
//! Two things can run out: slots, and the checkpoint (or the memory) that must hold the index. Both are counted in
//! blocks here, so that one figure answers "may another block be granted?".

use super::discard::Discards;
use super::{Requester, Store, answer, leaves};
use crate::allocator::{Allocator, Freed, ReadWindow};
use crate::config::Config;
use crate::credits::{AccountId, Credits};
use crate::faults::Fault;
use crate::format::record::Run;
use crate::format::{Geometry, Slot};
use crate::index::{
    Index, PARTS, WORST_BYTES_PER_BLOCK, WORST_BYTES_PER_CLEAR, WORST_BYTES_PER_JOIN, WORST_MEMORY_PER_BLOCK,
    worst_bytes_per_clone,
};
use crate::slot_map::SlotMap;
use crate::{State, format};
use amita_reactor::Slice;
use amita_reactor::buggify::{Point, buggify};
use amita_types::message::{AnswerBody, MAX_PIECES, Refusal, SettledAnswer};
use amita_types::{GroupId, VolumeId};
use std::collections::BTreeSet;

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
    pub bad: BadSlots,
}

/// Slots that the device has not taken: one that nothing refers to any more is set aside. They are known until the store is opened
/// again; then a write that meets such a slot fails, and says so.
#[derive(Debug, Default)]
pub(super) struct BadSlots {
    /// Those that something refers to, or did when it was found.
    marked: BTreeSet<Slot>,
    aside: BTreeSet<Slot>,
}

impl BadSlots {
    /// The device does not take it.
    pub fn is_bad(&mut self, slot: Slot) {
        self.marked.insert(slot);
    }

    /// The device has taken it.
    pub fn is_good(&mut self, slot: Slot) {
        self.marked.remove(&slot);
    }

    /// Slots that nothing refers to, and that are given to nobody.
    #[cfg(any(test, feature = "planted"))]
    pub fn aside(&self) -> impl Iterator<Item = Slot> + '_ {
        self.aside.iter().copied()
    }

    /// A run may be given out again: sets those of it aside that are bad, and hands on the others.
    fn sift(&mut self, run: Run, mut give: impl FnMut(Run)) {
        let end = run.slot.plus(run.count);
        let mut from = run.slot;
        for slot in self.marked.extract_if(run.slot..end, |_| true) {
            if from < slot {
                give(Run {
                    slot: from,
                    count: slot.0 - from.0,
                });
            }
            from = slot.plus(1);
            self.aside.insert(slot);
        }
        if from < end {
            give(Run {
                slot: from,
                count: end.0 - from.0,
            });
        }
    }
}

/// What one change speaks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claim {
    /// Slots for its data.
    pub blocks: u32,
    /// What it can add to a checkpoint.
    pub index_bytes: u64,
    /// Leaves that it can change: each needs a slot in the next checkpoint.
    pub leaves: u32,
    /// Slots that it can give another user: each may need memory for its count.
    pub shared: u32,
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
    /// Slots that they can give another user.
    pub unapplied_shared: u64,
    /// Fences that are on their way to the log.
    pub fences_logged: u64,
}

impl Claims {
    /// The change is accepted; its slots were reserved before.
    pub fn accepted(&mut self, claim: &Claim) {
        self.unapplied_bytes += claim.index_bytes;
        self.unapplied_leaves += u64::from(claim.leaves);
        self.unapplied_shared += u64::from(claim.shared);
    }

    /// It is in the index; its slots were taken when it was logged.
    pub fn applied(&mut self, claim: &Claim) {
        self.unapplied_bytes -= claim.index_bytes;
        self.unapplied_leaves -= u64::from(claim.leaves);
        self.unapplied_shared -= u64::from(claim.shared);
    }

    /// It was not logged, and never will be.
    pub fn dropped(&mut self, claim: &Claim) {
        self.reserved -= u64::from(claim.blocks);
        self.applied(claim);
    }
}

impl Space {
    fn reserve_taken(&mut self, taken: bool, blocks: u32) -> bool {
        if taken {
            self.claims.reserved += u64::from(blocks);
        }
        taken
    }

    /// Slots that nothing has spoken for: what is granted counts with its leaves, and every leaf that has changed needs a
    /// slot in the next checkpoint.
    fn free_slots(&self, index: &Index) -> u64 {
        let leaves = u64::from(index.dirty()) + self.claims.unapplied_leaves;
        let spoken_for = self.claims.reserved + leaves + self.credits.granted() * SLOTS_PER_BLOCK;
        u64::from(self.allocator.free()).saturating_sub(spoken_for)
    }

    /// Of these, what is not kept back: of so many slots in all.
    pub fn spare_slots(&self, index: &Index, slots: u32) -> u64 {
        self.free_slots(index).saturating_sub(reserve_blocks(slots))
    }
}

/// Slots that are kept back of so many.
fn reserve_blocks(slots: u32) -> u64 {
    let part = slots / RESERVE_PART;
    u64::from(part.clamp(RESERVE_LEAST, RESERVE_MOST))
}

/// Bytes that a checkpoint could still take.
fn checkpoint_room(store: &Store) -> u64 {
    let fences = store.fences.volume_lines() as u64 * format::checkpoint::VOLUME_BYTES
        + store.fences.groups().len() as u64 * format::checkpoint::GROUP_BYTES;
    let queued = store.ops.fences.len() as u64 + store.space.claims.fences_logged;
    let queued = queued * (format::checkpoint::VOLUME_BYTES + format::checkpoint::GROUP_BYTES);
    let capacity = checkpoint_capacity(&store.superblock.geometry);
    let used = store.index.checkpoint_bytes()
        + store.space.map.shared_bytes()
        + store.checkpoint.forgotten_bytes()
        + store.space.claims.unapplied_bytes
        + fences
        + queued;
    capacity.saturating_sub(used + store.space.credits.granted() * WORST_BYTES_PER_BLOCK)
}

fn checkpoint_capacity(geometry: &Geometry) -> u64 {
    format::checkpoint::capacity_bytes(geometry.checkpoint_pages, geometry.slots)
}

/// Blocks that the memory of the index could still take, after `shared` slots have got another user. What a mount counts is counted
/// here: a store never takes what it could not be mounted with.
fn memory_room_blocks(config: &Config, index: &Index, space: &Space, shared: u32) -> u64 {
    let unapplied = space.claims.unapplied_bytes / WORST_BYTES_PER_BLOCK + space.credits.granted();
    let shared = space.claims.unapplied_shared + u64::from(shared);
    let map = space.map.memory_bytes() + space.map.worst_bytes_to_share(shared);
    let used = index.fixed_bytes() + map + unapplied * WORST_MEMORY_PER_BLOCK;
    config.index_bytes.saturating_sub(used) / WORST_MEMORY_PER_BLOCK
}

/// Blocks that the index could still take, besides what is left to clears and fences.
fn index_room_blocks(store: &Store) -> u64 {
    let capacity = checkpoint_capacity(&store.superblock.geometry);
    let room = checkpoint_room(store).saturating_sub(capacity / CLEARS_PART);
    (room / WORST_BYTES_PER_BLOCK).min(memory_room_blocks(&store.config, &store.index, &store.space, 0))
}

/// Blocks that may be granted to anybody.
pub(super) fn spare_blocks(store: &Store) -> u64 {
    let slots = store.space.spare_slots(&store.index, store.superblock.geometry.slots);
    (slots / SLOTS_PER_BLOCK).min(index_room_blocks(store))
}

/// Blocks that a write may take which was granted nothing: the reserve too.
pub(super) fn beyond_blocks(store: &Store) -> u64 {
    let slots = store.space.free_slots(&store.index).saturating_sub(KEPT_FOR_CLEARS);
    (slots / SLOTS_PER_BLOCK).min(index_room_blocks(store))
}

/// May another chunk join its owner's history? What is left to clears and fences is not touched: a store that is being
/// brought up to date can do without, and one that is in sync for other groups must take their clears.
pub(super) fn join_fits(store: &Store) -> bool {
    checkpoint_room(store) >= checkpoint_capacity(&store.superblock.geometry) / CLEARS_PART + WORST_BYTES_PER_JOIN
}

/// May a chunk of so many blocks be made of another one's state? A clear gives back what it takes; this takes its leaves, and the counts
/// of its slots, for good, and a read can ask for it. So what is kept back for clears, roll-forwards and fences is not touched.
pub(super) fn clone_fits(store: &Store, blocks: u32) -> bool {
    let geometry = &store.superblock.geometry;
    clone_has_slots(store)
        && checkpoint_room(store) >= checkpoint_capacity(geometry) / CLEARS_PART + worst_bytes_per_clone(blocks)
        && memory_room_blocks(&store.config, &store.index, &store.space, blocks) > reserve_blocks(geometry.slots)
}

fn clone_has_slots(store: &Store) -> bool {
    let slots = store.superblock.geometry.slots;
    store.space.spare_slots(&store.index, slots) >= PARTS as u64
}

/// There is no room for a chunk that was to be made of another one's state. Where slots will be free again without anybody giving something
/// up, the asker comes again; a checkpoint, which brings that about, might not be due for long. What is lacking else does not come back by
/// itself.
pub(super) fn refuse_clone(store: &mut Store, asker: Requester) {
    let returning = !clone_has_slots(store) && will_return(store);
    store.checkpoint.wanted |= returning;
    let passing = store.space.claims.unapplied_bytes > 0 || returning;
    let refusal = if passing { Refusal::Busy } else { Refusal::NoSpace };
    store.env.refuse(asker, refusal);
}

/// Tops the asker's account up; it wants so many blocks, if any.
pub(super) fn grant(store: &mut Store, asker: &Requester, want: u32) -> u32 {
    if !matches!(store.state, State::Serving) {
        return 0;
    }
    store.space.credits.turn(store.env.now);
    let spare = spare_blocks(store);
    let spare = if buggify(Point::SmallGrant) {
        spare.min(FEW_BLOCKS)
    } else {
        spare
    };
    store
        .space
        .credits
        .grant(AccountId::new(asker.link, asker.id), spare, want)
}

/// The asker gives credits back, or wants some.
pub(super) fn settle(store: &mut Store, asker: Requester, want: u32, back: u32) {
    let account = AccountId::new(asker.link, asker.id);
    store.space.credits.give_back(account, back);
    let want = want.min(MAX_PIECES as u32);
    // Who only gives back is not topped up again: both would go on with it for ever.
    let more = if want > 0 { grant(store, &asker, want) } else { 0 };
    let returning = store.space.claims.unapplied_bytes > 0 || will_return(store);
    let full = store
        .space
        .credits
        .is_full(store.env.now, account, want, more, returning);
    let body = AnswerBody::Settled(SettledAnswer { full });
    answer::granting(store, asker, body, Slice::default(), more);
}

/// Accounts have ended that may have had so much in flight: it is kept for what comes again, or is rolled forward. All that
/// lingers is not more than a part of what is left, so that links that come and go again and again do not take all of it.
pub(super) fn linger(store: &mut Store, in_flight: u64) {
    if in_flight > 0 && !store.config.faults.has(Fault::GrantsEndAtOnce) {
        store.space.credits.turn(store.env.now);
        let lingering = store.space.credits.lingering();
        let most = (spare_blocks(store) + lingering) / LINGER_SHARE;
        store
            .space
            .credits
            .linger(store.env.now, in_flight.min(most.saturating_sub(lingering)));
    }
}

/// Takes slots from the asker's account, or from what is kept back (rule R7).
pub(super) fn charge(store: &mut Store, asker: Requester, blocks: u32) -> bool {
    let account = AccountId::new(asker.link, asker.id);
    let beyond = beyond_blocks(store);
    let taken = store.space.credits.take(account, blocks, beyond);
    store.space.reserve_taken(taken, blocks)
}

/// The same for a roll-forward, for which its sender has no credits.
pub(super) fn charge_roll(store: &mut Store, blocks: u32) -> bool {
    let beyond = beyond_blocks(store);
    let taken = store.space.credits.take_rolled(blocks, beyond);
    store.space.reserve_taken(taken, blocks)
}

/// The same for what brings the store up to date: it is no acknowledged write of anybody here, so what lingers for those
/// is not touched.
pub(super) fn charge_mend(store: &mut Store, blocks: u32) -> bool {
    let taken = u64::from(blocks) <= beyond_blocks(store);
    store.space.reserve_taken(taken, blocks)
}

/// Are slots so few that a checkpoint is worth it for those that it gives back?
pub(super) fn free_slots_scarce(store: &Store) -> bool {
    let returning = store.checkpoint.retired() + u64::from(store.index.dirty());
    let reserve = reserve_blocks(store.superblock.geometry.slots);
    store.space.free_slots(&store.index) < reserve && returning >= reserve / 2
}

/// May another clear be accepted? The leaves that it changes need slots, too.
pub(super) fn clear_fits(store: &Store, leaves: u32) -> bool {
    checkpoint_room(store) >= WORST_BYTES_PER_CLEAR && store.space.free_slots(&store.index) >= u64::from(leaves)
}

/// Will slots be free again without anybody giving something up?
pub(super) fn will_return(store: &Store) -> bool {
    let unused = u64::from(store.space.freed.slots())
        + store.checkpoint.retired()
        + store.space.discards.slots(store.config.faults);
    unused > 0 || store.index.dirty() > 0
}

/// There is no room for a change that needs no credits. What is under way is counted at its worst, and takes less once it is
/// in the index: then the asker asks again. To say that there is no space would cost a good store its place (R7).
pub(super) fn refuse(store: &mut Store, asker: Requester) {
    let passing = store.space.claims.unapplied_bytes > 0 || will_return(store);
    let refusal = if passing { Refusal::Busy } else { Refusal::NoSpace };
    store.env.refuse(asker, refusal);
}

/// Are there so many leaves in memory that must be written that no more should be changed?
pub(super) fn leaves_full(store: &Store) -> bool {
    store.checkpoint.is_under_way()
        && store.index.dirty_bytes() > leaves::budget(&store.config, &store.index, &store.space) / 4 * 3
}

/// May this volume and group be known, if they are not yet?
pub(super) fn fence_fits(store: &Store, volume: VolumeId, group: GroupId) -> bool {
    store.fences.knows(volume, group)
        || checkpoint_room(store) >= format::checkpoint::VOLUME_BYTES + format::checkpoint::GROUP_BYTES
}

/// Slots whose reuse waits for nothing any more become free (rules D1, D6).
pub(super) fn reclaim(store: &mut Store) {
    let mark = if store.config.faults.has(Fault::ReuseAtOnce) {
        u64::MAX
    } else {
        store.log.durable_mark
    };
    let oldest = if store.config.faults.has(Fault::NoPin) {
        u64::MAX
    } else {
        store.space.window.oldest()
    };
    let discards = store.space.discards.are_wanted(&store.config, &store.env.file);
    while let Some(run) = store.space.freed.pop(mark, oldest) {
        if store.config.faults.has(Fault::LosesSlots) && run.slot.0.is_multiple_of(64) {
            continue;
        }
        let Space {
            map,
            allocator,
            discards: noted,
            bad,
            ..
        } = &mut store.space;
        bad.sift(run, |run| {
            if !allocator.give(run) {
                map.wrong = Some(run.slot);
            }
            if discards {
                noted.note(run);
            }
        });
    }
}
