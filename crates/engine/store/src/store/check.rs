//! What must hold between events: looked at in tests and in the simulator, never in a build that serves, because it
//! walks through everything.
//!
//! [`Store::check_sums`] is cheap: every slot is somewhere exactly once, as a sum, and every count of what was accepted
//! is what was accepted. [`Store::check`] also looks at each slot, each chunk, each leaf and each entry in memory.

use super::Store;
use super::change::Change;
use super::log::Stage;
use super::op::Op;
use crate::State;
use crate::format::Slot;
use crate::format::record::Run;
use crate::index::{ChunkKey, OpSlot};
use amita_types::Version;
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) fn sums(store: &Store) {
    if store.state != State::Serving {
        return;
    }
    assert_eq!(store.space.map.wrong, None, "the index and the map of slots agree (D5)");
    slot_sums(store);
    counts(store);
    log(store);
    store.space.credits.check();
}

pub(super) fn all(store: &Store) {
    if store.state != State::Serving {
        return;
    }
    sums(store);
    store.space.allocator.check();
    slots(store);
    queues(store);
    index(store);
}

/// Changes that a batch which is not durable yet holds.
fn logged(store: &Store) -> impl Iterator<Item = OpSlot> + '_ {
    store.log.batches.iter().flat_map(|batch| batch.ops.iter().copied())
}

/// Slots that changes on their way to the disk have taken.
fn taken(store: &Store) -> impl Iterator<Item = Run> + '_ {
    logged(store).flat_map(|key| store.ops.get(key).runs.iter().copied())
}

/// Rule D1, D5, D6: every slot is in one place.
fn slot_sums(store: &Store) {
    let taken: u64 = taken(store).map(|run| u64::from(run.count)).sum();
    let parts = [
        u64::from(store.space.allocator.free()),
        store.space.map.count(),
        u64::from(store.space.freed.slots()),
        store.checkpoint.retired(),
        taken,
        store.space.discards.slots(store.config.faults),
        store.space.bad.aside().count() as u64,
    ];
    let slots = u64::from(store.superblock.geometry.slots);
    assert_eq!(
        parts.iter().sum::<u64>(),
        slots,
        "every slot is free, held, freed, retired, taken, being discarded or bad: {parts:?}"
    );
}

/// What accepted changes have spoken for is what they are.
fn counts(store: &Store) {
    let logged: FxHashSet<OpSlot> = logged(store).collect();
    let (mut reserved, mut bytes, mut leaves, mut fences) = (0, 0, 0, 0);
    let mut unlogged: FxHashMap<u32, u32> = FxHashMap::default();
    for (key, op) in store.ops.each() {
        bytes += op.claim.index_bytes;
        leaves += u64::from(op.claim.leaves);
        fences += u64::from(matches!(op.change, Change::Fence(_)));
        let is_logged = logged.contains(&key);
        if !is_logged {
            reserved += u64::from(op.claim.blocks);
        }
        // What is dropped in several steps counts until the last one is durable.
        if let Some(volume) = op.asker.and_then(|asker| asker.volume)
            && (!is_logged || matches!(op.change, Change::RetainSnapshots(_)))
        {
            *unlogged.entry(volume.0).or_default() += 1;
        }
    }
    let space = &store.space.claims;
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
    for (number, volume) in (0..).zip(store.fences.volumes()) {
        let counted = unlogged.get(&number).copied().unwrap_or(0);
        assert_eq!(
            volume.unlogged, counted,
            "a fence of volume {} waits for what is not logged, and for no more (R6)",
            volume.id
        );
    }
}

fn log(store: &Store) {
    let log = &store.log;
    assert!(
        log.tail <= log.durable_mark && log.durable_mark <= log.applied.page && log.applied.page <= log.end.page,
        "tail {}, mark {}, applied {}, next {} (D1)",
        log.tail,
        log.durable_mark,
        log.applied.page,
        log.end.page
    );
    assert!(
        log.end.page - log.tail <= store.superblock.geometry.log_pages,
        "the log does not overwrite what replay needs"
    );
    assert!(log.mark_wanted <= log.end.page);
    assert!(log.batches.len() <= super::commit::MAX_BATCHES);
    let mut end = log.applied.page;
    for batch in &log.batches {
        assert_ne!(batch.stage, Stage::Writing(0), "a batch that waits for nothing goes on");
        assert!(
            end < batch.end.page && batch.mark <= end,
            "batches follow one another (D2)"
        );
        end = batch.end.page;
    }
    assert_eq!(end, log.end.page, "every page that was written belongs to a batch");
    assert!(
        log.batches.front().is_none_or(|first| first.stage != Stage::Durable),
        "what is durable and the first is applied"
    );
}

/// Every slot is in exactly one place. By words of bits: a store has many slots, and this is done often.
fn slots(store: &Store) {
    let slots = store.superblock.geometry.slots;
    let (free, held) = (store.space.allocator.words(), store.space.map.words());
    let mut others = vec![0u64; free.len()];
    let mut put = |run: Run, what: &str| {
        for slot in run.slot.0..run.slot.0 + run.count {
            let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
            let known = (free[word] | held[word] | others[word]) & bit;
            assert_eq!(known, 0, "slot {slot} is {what}, and something else as well");
            others[word] |= bit;
        }
    };
    store.space.freed.runs().for_each(|run| put(run, "given back"));
    taken(store).for_each(|run| put(run, "taken by a change on its way to the disk"));
    if let Some(run) = store.space.discards.under_way() {
        put(run, "being discarded");
    }
    let bad = store.space.bad.aside();
    bad.for_each(|slot| put(Run { slot, count: 1 }, "set aside because it is bad"));
    let retired = store.checkpoint.retired_slots();
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
fn queues(store: &Store) {
    let logged: FxHashSet<OpSlot> = logged(store).collect();
    let ready: FxHashSet<OpSlot> = store.ops.ready.iter().copied().collect();
    assert!(ready.is_disjoint(&logged), "what is logged is not logged again");
    let mut waiting: FxHashMap<ChunkKey, u32> = FxHashMap::default();
    for chunk in store.reads.waiting_for() {
        *waiting.entry(chunk).or_default() += 1;
    }
    let mut queued = 0;
    for key in store.index.keys() {
        let chunk = store.index.chunk(key);
        assert_eq!(
            chunk.waiting_reads,
            waiting.get(&key).copied().unwrap_or(0),
            "reads that wait for a version of {}",
            chunk.id
        );
        let (mut at, mut last, mut waits) = (chunk.queue.first, OpSlot::NONE, false);
        let mut version = chunk.durable;
        while at != OpSlot::NONE {
            let op = store.ops.get(at);
            assert_eq!(op.chunk, key, "a change is in the queue of its own chunk");
            waits |= at == chunk.queue.waiting;
            let goes = ready.contains(&at) || logged.contains(&at);
            assert_eq!(goes, !waits, "what waits for nothing is logged, and nothing else is");
            version = follow(op, version, chunk.accepted.version);
            (last, at) = (at, op.next);
            queued += 1;
        }
        assert_eq!(last, chunk.queue.last, "the youngest change of {}", chunk.id);
        assert_eq!(waits, chunk.queue.waiting != OpSlot::NONE, "who waits is in the queue");
        assert_eq!(
            version, chunk.accepted.version,
            "what was accepted of {} (R1)",
            chunk.id
        );
    }
    let fences = store.ops.each().filter(|(_, op)| matches!(op.change, Change::Fence(_)));
    assert_eq!(queued + fences.count(), store.ops.len(), "every change is in a queue");
    for resend in &store.ops.resends {
        assert!(
            store.ops.get(resend.op).resent,
            "who waits for a change is told of its end (R8)"
        );
    }
}

fn index(store: &Store) {
    let slots = store.superblock.geometry.slots;
    let held = &store.space.map;
    let mut users: FxHashSet<Slot> = FxHashSet::default();
    let pages = crate::index::check::walk(&store.index, store.env.id, |slot, first| {
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
    let released = store.index.released_pages.len() as u64;
    // What a wrong leaf had named stays in use.
    if pages.is_all_known() && store.env.counters.damaged == 0 {
        assert_eq!(known + released, held.count(), "what is held is used (D5)");
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
