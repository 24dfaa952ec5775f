//! A batch is durable: its changes become visible and are answered, in log order (rule D2).

use super::log::Stage;
use super::op::{Change, Ops};
use super::trace::Course;
use super::{Store, answer, fence, queue, read, snapshot, space};
use crate::config::Config;
use crate::faults::Fault;
use crate::format::record::Run;
use crate::index::{ChunkKey, Entry, Index, OpSlot};
use crate::slot_map::SlotMap;
use amita_types::message::{AnswerBody, JoinedAnswer, MendedAnswer};

/// A part of a batch is written.
pub(super) fn written(store: &mut Store, batch: u64, log: bool) {
    let volatile = store.env.file.volatile_cache;
    if store.log.written(store.env.now, batch, log, volatile) {
        retire(store);
    }
}

/// The flush ended: what was written when it began is durable.
pub(super) fn flushed(store: &mut Store) {
    store.log.flushed(store.env.now);
    retire(store);
}

/// Applies the batches that are durable and have no older one before them that is not.
fn retire(store: &mut Store) {
    if store.config.faults.has(Fault::AnswersOutOfOrder) {
        answer_out_of_order(store);
    }
    while let Some(batch) = store.log.pop_durable() {
        store.env.course = batch.course;
        for at in 0..batch.ops.len() {
            if let Err(why) = check_applied(&store.config, &store.index, &store.ops, batch.ops[at]) {
                return store.poison(why);
            }
            apply(store, batch.ops[at], batch.end.page);
        }
        store.log.retired(store.env.now, batch);
    }
    store.env.course = Course::default();
    if let Some(slot) = store.space.map.wrong {
        return store.poison(format!(
            "the index and the map of slots disagree on slot {slot}; check the store with `amita store check`, and \
             format it anew so that its groups are copied back from their other members"
        ));
    }
    space::reclaim(store);
}

/// Does a change come onto exactly the version that it names? It was looked at when it was accepted (`check_accepted`);
/// between the two lie the chunk's queue, the batch and the log.
fn check_applied(config: &Config, index: &Index, ops: &Ops, key: OpSlot) -> Result<(), String> {
    let op = ops.get(key);
    if matches!(op.change, Change::Fence(_) | Change::Keep(_) | Change::Clone(_)) {
        return Ok(());
    }
    let durable = index.chunk(op.chunk).durable;
    if durable == op.previous || config.faults.has(Fault::AnyPredecessor) {
        return Ok(());
    }
    Err(format!(
        "a change from version {} to {} became durable on a chunk that is at {durable}; this must not be: please report \
         it, and restart the node so that the store is read anew from its disk",
        op.previous, op.version
    ))
}

/// [`Fault::AnswersOutOfOrder`]: what is durable itself is answered whatever was logged before it.
fn answer_out_of_order(store: &mut Store) {
    for at in 0..store.log.batches.len() {
        if store.log.batches[at].stage != Stage::Durable {
            continue;
        }
        for n in 0..store.log.batches[at].ops.len() {
            let key = store.log.batches[at].ops[n];
            let change = !matches!(store.ops.get(key).change, Change::Fence(_));
            if change && let Some(asker) = store.ops.get_mut(key).asker.take() {
                answer::done(store, asker);
            }
        }
    }
}

/// One change becomes visible. `position` is behind its record: what it replaces waits for the mark to pass that.
fn apply(store: &mut Store, key: OpSlot, position: u64) {
    if matches!(store.ops.get(key).change, Change::Fence(_)) {
        return fence::apply(store, key);
    }
    store.ops.dequeue(&mut store.index, key);
    let chunk = store.ops.get(key).chunk;
    if matches!(store.ops.get(key).change, Change::Keep(_)) {
        snapshot::apply_keep(store, key, position);
        return next_of_chunk(store, chunk);
    }
    let reads = store.space.window.next();
    let op = store.ops.get(key);
    let version = op.version;
    let (held, freed) = (&mut store.space.map, &mut store.space.freed);
    let mut free = |slot| {
        if held.release(slot) {
            freed.push(slot, position, reads);
        }
    };
    match &op.change {
        // None of them is a change of the volume.
        Change::Join(_) | Change::Mend(_) | Change::Whole => {}
        _ => store.index.begin_change(chunk, op.snapshot),
    }
    match &op.change {
        Change::Fence(_) | Change::Keep(_) | Change::Say(_) => unreachable!("taken above, or never logged"),
        Change::Join(base) => {
            store.env.counters.joins += 1;
            store.index.join(chunk, *base, op.snapshot);
        }
        Change::Whole => store.index.whole(chunk),
        Change::Mend(mend) => {
            store.env.counters.mended += mend.change.entries.len() as u64;
            for entry in &mend.change.entries {
                let new = Entry {
                    slot: entry.slot,
                    sum: entry.sum,
                    version: entry.version,
                };
                if let Some(old) = store.index.set(chunk, entry.block, new) {
                    free(old);
                }
            }
            for run in &op.runs {
                claim(&mut store.space.map, *run);
            }
            store.index.loosen(chunk);
        }
        Change::Clear => {
            store.env.counters.clears += 1;
            store.index.clear(chunk, op.range, version, free);
        }
        Change::Clone(clone) => {
            store.env.counters.clones += 1;
            store.index.set_origin(chunk, clone.origin);
            for entry in &clone.entries {
                let new = Entry {
                    slot: entry.slot,
                    sum: entry.sum,
                    version: entry.version,
                };
                store.index.set(chunk, entry.block, new);
                if new.has_data() {
                    store.space.map.share(entry.slot);
                }
            }
        }
        Change::Write => {
            store.env.counters.writes += 1;
            let slots = op.runs.iter().flat_map(|run| (0..run.count).map(|n| run.slot.plus(n)));
            for ((block, slot), &sum) in op.range.iter().zip(slots).zip(&op.sums) {
                if let Some(old) = store.index.set(chunk, block, Entry { slot, sum, version }) {
                    free(old);
                }
            }
            for run in &op.runs {
                claim(&mut store.space.map, *run);
            }
        }
        Change::Roll(roll) => {
            store.env.counters.rolls += 1;
            for entry in &roll.entries {
                let new = Entry {
                    slot: entry.slot,
                    sum: entry.sum,
                    version: entry.version,
                };
                if let Some(old) = store.index.set(chunk, entry.block, new) {
                    free(old);
                }
            }
            for run in &op.runs {
                claim(&mut store.space.map, *run);
            }
        }
    }
    store.index.chunk_mut(chunk).durable = version;
    store.space.claims.unapplied_bytes -= op.index_bytes;
    store.space.claims.unapplied_leaves -= u64::from(op.leaves);
    let (asker, resent) = (op.asker, op.resent);
    let body = match &mut store.ops.get_mut(key).change {
        Change::Join(base) => AnswerBody::Joined(JoinedAnswer {
            incomplete: Some(*base),
        }),
        Change::Mend(mend) => AnswerBody::Mended(MendedAnswer {
            skipped: std::mem::take(&mut mend.skipped),
        }),
        _ => AnswerBody::Done,
    };
    if let Some(asker) = asker {
        answer::give(store, asker, body);
    }
    if resent {
        while let Some(resend) = store.ops.take_resend(key) {
            answer::done(store, resend.asker);
        }
    }
    store.ops.remove(key);
    store.checkpoint.retire_released(&mut store.index, &mut store.space);
    read::wake(store, chunk);
    next_of_chunk(store, chunk);
}

/// The first change of a chunk may have waited for those before it.
fn next_of_chunk(store: &mut Store, key: ChunkKey) {
    let chunk = store.index.chunk(key);
    if chunk.first_waiting != OpSlot::NONE && chunk.first_waiting == chunk.first_pending {
        queue::advance(store, key);
    }
}

/// The slots of a run get their first user.
fn claim(held: &mut SlotMap, run: Run) {
    for n in 0..run.count {
        held.claim(run.slot.plus(n));
    }
}
