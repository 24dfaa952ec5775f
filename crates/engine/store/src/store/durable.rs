//! A batch is durable: its changes become visible and are answered, in log order (rule D2).

use super::change::Change;
use super::log::Stage;
use super::op::{Op, Ops};
use super::snapshot::CloneChange;
use super::space::Space;
use super::sweep::Kept;
use super::trace::Course;
use super::{Store, answer, fence, queue, read, snapshot, space, sweep};
use crate::config::Config;
use crate::faults::Fault;
use crate::format::record::{RollEntry, Run};
use crate::index::{ChunkKey, Entry, Index, OpSlot};
use crate::status::Counters;
use amita_types::message::{AnswerBody, JoinedAnswer, MendedAnswer};
use amita_types::{BlockIndex, Version};

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

/// Does a change come onto exactly the version that it names? It was looked at when it was accepted (`queue::accept`);
/// between the two lie the chunk's queue, the batch and the log.
fn check_applied(config: &Config, index: &Index, ops: &Ops, key: OpSlot) -> Result<(), String> {
    let op = ops.get(key);
    if matches!(
        op.change,
        Change::Fence(_) | Change::RetainSnapshots(_) | Change::Clone(_)
    ) {
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
    if matches!(store.ops.get(key).change, Change::RetainSnapshots(_)) {
        snapshot::apply_keep(store, key, position);
        return next_of_chunk(store, chunk);
    }
    let op = store.ops.get_mut(key);
    let kept = match op.change {
        Change::Whole(_) => Some(Kept::Any),
        _ => (op.snapshot > store.index.chunk(chunk).snapshot).then_some(Kept::Newest),
    };
    let mut applying = AppliedChange {
        chunk,
        version: op.version,
        position,
        reads: store.space.window.next(),
        index: &mut store.index,
        space: &mut store.space,
        counters: &mut store.env.counters,
    };
    let body = applying.apply(op);
    store.index.chunk_mut(chunk).durable = op.version;
    if let Some(kept) = kept {
        sweep::look_again(&mut store.sweep, &store.index, chunk, kept, store.env.now);
    }
    store.space.claims.applied(&op.claim);
    let (asker, resent) = (op.asker, op.resent);
    if let Some(asker) = asker {
        answer::give(store, asker, body);
    }
    if resent {
        let mut from = 0;
        while let Some(resend) = store.ops.take_resend(key, &mut from) {
            answer::done(store, resend.asker);
        }
    }
    store.ops.remove(key);
    store.checkpoint.retire_released(&mut store.index, &mut store.space);
    read::wake(store, chunk);
    next_of_chunk(store, chunk);
}

/// What a change is applied to.
struct AppliedChange<'a> {
    chunk: ChunkKey,
    version: Version,
    position: u64,
    /// Reads that began before may still look at what is replaced (rule D6).
    reads: u64,
    index: &'a mut Index,
    space: &'a mut Space,
    counters: &'a mut Counters,
}

impl AppliedChange<'_> {
    /// Returns what whoever asked for it is told.
    fn apply(&mut self, op: &mut Op) -> AnswerBody {
        match &op.change {
            // None of them is a change of the volume.
            Change::Join(_)
            | Change::Mend(_)
            | Change::Whole(_)
            | Change::Frame(..)
            | Change::Put(_)
            | Change::Close(..)
            | Change::Mark(_) => {}
            _ => self.index.begin_change(self.chunk, op.snapshot),
        }
        match &mut op.change {
            Change::Fence(_) | Change::RetainSnapshots(_) | Change::Say(_) => {
                unreachable!("taken before, or never logged")
            }
            Change::Join(base) => {
                self.counters.joins += 1;
                self.index.join(self.chunk, *base, op.snapshot);
                let incomplete = Some(*base);
                return AnswerBody::Joined(JoinedAnswer { incomplete });
            }
            Change::Whole(ended) => self.index.end_whole(self.chunk, Some(ended.born)),
            Change::Frame(above, to, version) => self.index.frame(self.chunk, *above, *to, *version),
            Change::Close(to, _) => self.index.close(self.chunk, *to),
            Change::Mark(mark) => self.index.set_mark(self.chunk, *mark),
            Change::Put(put) => {
                self.counters.state_entries += put.change.entries.len() as u64;
                let (position, reads) = (self.position, self.reads);
                let (map, freed) = (&mut self.space.map, &mut self.space.freed);
                self.index
                    .put_entries(self.chunk, put.to, &put.change.entries, &mut |slot| {
                        if map.release(slot) {
                            freed.push(slot, position, reads);
                        }
                    });
                self.claim(&op.runs);
                let skipped = Vec::new();
                return AnswerBody::Mended(MendedAnswer { skipped });
            }
            Change::Mend(mend) => {
                self.counters.mended += mend.change.entries.len() as u64;
                self.replace(&mend.change.entries);
                self.claim(&op.runs);
                self.index.chunk_mut(self.chunk).loosen();
                let skipped = std::mem::take(&mut mend.skipped);
                return AnswerBody::Mended(MendedAnswer { skipped });
            }
            Change::Clear(range) => {
                self.counters.clears += 1;
                let (position, reads) = (self.position, self.reads);
                let (map, freed) = (&mut self.space.map, &mut self.space.freed);
                self.index.clear(self.chunk, *range, self.version, |slot| {
                    if map.release(slot) {
                        freed.push(slot, position, reads);
                    }
                });
            }
            Change::Clone(clone) => self.clone_entries(clone),
            Change::Write(write) => {
                self.counters.writes += 1;
                let version = self.version;
                let slots = op.runs.iter().flat_map(|run| (0..run.count).map(|n| run.slot.plus(n)));
                for ((block, slot), &sum) in write.range.iter().zip(slots).zip(&write.sums) {
                    self.set(block, Entry { slot, sum, version });
                }
                self.claim(&op.runs);
            }
            Change::Roll(roll) => {
                self.counters.rolls += 1;
                self.replace(&roll.entries);
                self.claim(&op.runs);
            }
        }
        AnswerBody::Done
    }

    /// The slot that an entry had comes free.
    fn set(&mut self, block: BlockIndex, entry: Entry) {
        if let Some(old) = self.index.set(self.chunk, block, entry)
            && self.space.map.release(old)
        {
            self.space.freed.push(old, self.position, self.reads);
        }
    }

    fn replace(&mut self, entries: &[RollEntry]) {
        for entry in entries {
            self.set(entry.block, Entry::from(entry));
        }
    }

    /// The slots of the runs get their first user.
    fn claim(&mut self, runs: &[Run]) {
        for run in runs {
            for n in 0..run.count {
                self.space.map.claim(run.slot.plus(n));
            }
        }
    }

    fn clone_entries(&mut self, clone: &CloneChange) {
        self.counters.clones += 1;
        self.index.set_origin(self.chunk, clone.origin);
        for entry in &clone.entries {
            let new = Entry::from(entry);
            self.index.set(self.chunk, entry.block, new);
            if new.has_data() {
                self.space.map.share(entry.slot);
            }
        }
    }
}

/// The first change of a chunk may have waited for those before it.
fn next_of_chunk(store: &mut Store, key: ChunkKey) {
    let chunk = store.index.chunk(key);
    if chunk.queue.waiting != OpSlot::NONE && chunk.queue.waiting == chunk.queue.first {
        queue::advance(store, key);
    }
}
