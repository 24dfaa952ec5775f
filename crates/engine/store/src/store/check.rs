//! What must hold between events: looked at in tests and in the simulator, never in a build that serves, because it walks
//! through everything.
//!
//! [`Store::check_sums`] is cheap: every slot is somewhere exactly once, as a sum, and every count of what was accepted is
//! what was accepted. [`Store::check`] also looks at each slot, each chunk, each leaf and each entry in memory.

use super::op::{Change, Op};
use super::{State, Store};
use crate::format::Slot;
use crate::format::record::Run;
use crate::index::{ChunkKey, OpSlot};
use amita_types::Version;
use rustc_hash::{FxHashMap, FxHashSet};

impl Store {
    /// Sums and counts. Panics where one is wrong. A store that does not serve has nothing to be checked.
    pub fn check_sums(&self) {
        if self.state != State::Serving {
            return;
        }
        assert_eq!(self.space.map.wrong, None, "the index and the map of slots agree (D5)");
        self.check_slot_sums();
        self.check_counts();
        self.check_log();
        self.space.credits.check();
    }

    /// Walks through everything and panics where something does not hold that must hold between events.
    pub fn check(&self) {
        if self.state != State::Serving {
            return;
        }
        self.check_sums();
        self.space.allocator.check();
        self.check_slots();
        self.check_queues();
        self.check_index();
    }

    /// Changes that a batch which is not durable yet holds.
    fn logged(&self) -> impl Iterator<Item = OpSlot> + '_ {
        self.log.batches.iter().flat_map(|batch| batch.ops.iter().copied())
    }

    /// Slots that changes on their way to the disk have taken.
    fn taken(&self) -> impl Iterator<Item = Run> + '_ {
        self.logged().flat_map(|key| self.ops.get(key).runs.iter().copied())
    }

    /// Rule D1, D5, D6: every slot is in one place.
    fn check_slot_sums(&self) {
        let taken: u64 = self.taken().map(|run| u64::from(run.count)).sum();
        let parts = [
            u64::from(self.space.allocator.free()),
            self.space.map.count(),
            u64::from(self.space.freed.slots()),
            self.checkpoint.retired(),
            taken,
            self.discarding(),
        ];
        let slots = u64::from(self.superblock.geometry.slots);
        assert_eq!(
            parts.iter().sum::<u64>(),
            slots,
            "every slot is free, held, freed, retired, taken or being discarded: {parts:?}"
        );
    }

    /// What accepted changes have spoken for is what they are.
    fn check_counts(&self) {
        let logged: FxHashSet<OpSlot> = self.logged().collect();
        let (mut reserved, mut bytes, mut leaves, mut fences) = (0, 0, 0, 0);
        let mut unlogged: FxHashMap<u32, u32> = FxHashMap::default();
        for (key, op) in self.ops.each() {
            bytes += op.index_bytes;
            leaves += u64::from(op.leaves);
            fences += u64::from(matches!(op.change, Change::Fence(_)));
            let is_logged = logged.contains(&key);
            if !is_logged {
                reserved += u64::from(op.blocks);
            }
            // What is dropped in several steps counts until the last one is durable.
            if let Some(volume) = op.asker.and_then(|asker| asker.volume)
                && (!is_logged || matches!(op.change, Change::Keep(_)))
            {
                *unlogged.entry(volume.0).or_default() += 1;
            }
        }
        let space = &self.space.claims;
        assert_eq!(
            space.reserved, reserved,
            "slots that accepted changes have spoken for (R7)"
        );
        assert_eq!(
            space.unapplied_bytes, bytes,
            "what accepted changes can add to a checkpoint (R7)"
        );
        assert_eq!(
            space.unapplied_leaves, leaves,
            "leaves that accepted changes can change (R7)"
        );
        assert_eq!(space.fences_logged, fences, "fences on their way to the log");
        for (number, volume) in (0..).zip(self.fences.volumes()) {
            let counted = unlogged.get(&number).copied().unwrap_or(0);
            assert_eq!(
                volume.unlogged, counted,
                "a fence of volume {} waits for what is not logged, and for no more (R6)",
                volume.id
            );
        }
    }

    fn check_log(&self) {
        let log = &self.log;
        assert!(
            log.tail <= log.durable_mark && log.durable_mark <= log.applied && log.applied <= log.next,
            "tail {}, mark {}, applied {}, next {} (D1)",
            log.tail,
            log.durable_mark,
            log.applied,
            log.next
        );
        assert!(
            log.next - log.tail <= self.superblock.geometry.log_pages,
            "the log does not overwrite what replay needs"
        );
        assert!(log.mark_wanted <= log.next);
        assert!(log.batches.len() <= super::commit::MAX_BATCHES);
        let mut end = log.applied;
        for batch in &log.batches {
            assert!(end < batch.end && batch.mark <= end, "batches follow one another (D2)");
            assert!(
                !batch.durable || batch.writes == 0,
                "what is not written is not durable"
            );
            end = batch.end;
        }
        assert_eq!(end, log.next, "every page that was written belongs to a batch");
        assert!(
            log.batches.front().is_none_or(|first| !first.durable),
            "what is durable and the first is applied"
        );
    }

    /// Every slot is in exactly one place. By words of bits: a store has many slots, and this is done often.
    fn check_slots(&self) {
        let slots = self.superblock.geometry.slots;
        let (free, held) = (self.space.allocator.words(), self.space.map.words());
        let mut others = vec![0u64; free.len()];
        let mut put = |run: Run, what: &str| {
            for slot in run.slot.0..run.slot.0 + run.count {
                let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
                let known = (free[word] | held[word] | others[word]) & bit;
                assert_eq!(known, 0, "slot {slot} is {what}, and something else as well");
                others[word] |= bit;
            }
        };
        self.space.freed.runs().for_each(|run| put(run, "given back"));
        self.taken()
            .for_each(|run| put(run, "taken by a change on its way to the disk"));
        if let Some(run) = self.discard_under_way() {
            put(run, "being discarded");
        }
        let retired = self.checkpoint.retired_slots();
        retired.for_each(|slot| put(Run { slot, count: 1 }, "named by the checkpoint on the disk only"));
        for (at, ((&free, &held), &others)) in free.iter().zip(held).zip(&others).enumerate() {
            assert_eq!(free & held, 0, "a slot of word {at} is free and held");
            let inside = match slots as usize - (at * 64).min(slots as usize) {
                left @ 0..64 => (1 << left) - 1,
                _ => u64::MAX,
            };
            assert_eq!(
                free | held | others,
                inside,
                "a slot of word {at} is lost until the next mount"
            );
        }
    }

    /// The queues of changes, chunk by chunk (rules R1, R8, D2).
    fn check_queues(&self) {
        let logged: FxHashSet<OpSlot> = self.logged().collect();
        let ready: FxHashSet<OpSlot> = self.ops.ready.iter().copied().collect();
        assert!(ready.is_disjoint(&logged), "what is logged is not logged again");
        let mut waiting: FxHashMap<ChunkKey, u32> = FxHashMap::default();
        for chunk in self.reads.waiting_for() {
            *waiting.entry(chunk).or_default() += 1;
        }
        let mut queued = 0;
        for key in self.index.keys() {
            let chunk = self.index.chunk(key);
            assert_eq!(
                chunk.waiting_reads,
                waiting.get(&key).copied().unwrap_or(0),
                "reads that wait for a version of {}",
                chunk.id
            );
            let (mut at, mut last, mut waits) = (chunk.first_pending, OpSlot::NONE, false);
            let mut version = chunk.durable;
            while at != OpSlot::NONE {
                let op = self.ops.get(at);
                assert_eq!(op.chunk, key, "a change is in the queue of its own chunk");
                waits |= at == chunk.first_waiting;
                let goes = ready.contains(&at) || logged.contains(&at);
                assert_eq!(goes, !waits, "what waits for nothing is logged, and nothing else is");
                version = follow(op, version, chunk.accepted);
                (last, at) = (at, op.next);
                queued += 1;
            }
            assert_eq!(last, chunk.last_pending, "the youngest change of {}", chunk.id);
            assert_eq!(waits, chunk.first_waiting != OpSlot::NONE, "who waits is in the queue");
            assert_eq!(version, chunk.accepted, "what was accepted of {} (R1)", chunk.id);
        }
        let fences = self.ops.each().filter(|(_, op)| matches!(op.change, Change::Fence(_)));
        assert_eq!(queued + fences.count(), self.ops.len(), "every change is in a queue");
        for resend in &self.ops.resends {
            assert!(
                self.ops.get(resend.op).resent,
                "who waits for a change is told of its end (R8)"
            );
        }
    }

    fn check_index(&self) {
        let slots = self.superblock.geometry.slots;
        let held = &self.space.map;
        let mut users: FxHashSet<Slot> = FxHashSet::default();
        let pages = self.index.check(|slot, first| {
            assert!(slot.0 < slots && held.has(slot), "{slot:?} is used and not held (D5)");
            let is_new = users.insert(slot);
            assert!(is_new || !first, "{slot:?} has two users");
        });
        let known = users.len() as u64;
        assert!(
            known <= held.count(),
            "{known} slots are used, {} are held",
            held.count()
        );
        // Pages that were given back in this pass, and are held until the next change looks at them.
        let released = self.index.released_pages.len() as u64;
        // What a wrong leaf had named stays in use.
        if pages.is_all_known() && self.env.counters.damaged == 0 {
            assert_eq!(known + released, held.count(), "what is held is used (D5)");
        }
    }
}

/// The version that a chunk has come to with this change (rule R1).
fn follow(op: &Op, version: Version, accepted: Version) -> Version {
    if op.change.is_aside() {
        assert!(
            op.version <= accepted.max(version),
            "no change is beyond what was accepted"
        );
        return version;
    }
    assert_eq!(op.previous, version, "an unbroken row of versions (R1)");
    op.version
}
