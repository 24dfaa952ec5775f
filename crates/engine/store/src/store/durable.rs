//! A batch is durable: its changes become visible and are answered, in log order (rule D2).

use super::op::Change;
use super::trace::Course;
use super::{Store, io::Io};
use crate::faults::Fault;
use crate::format::record::Run;
use crate::index::{ChunkKey, Entry, OpSlot};
use crate::slot_map::SlotMap;
use amita_reactor::Slice;
use amita_types::message::{AnswerBody, JoinedAnswer, MendedAnswer};

impl Store {
    /// A part of a batch is written.
    pub(super) fn batch_written(&mut self, batch: u64, log: bool) {
        // A poisoned store has forgotten its batches.
        let Some(at) = batch.checked_sub(self.log.first_batch) else {
            return;
        };
        let Some(batch) = self.log.batches.get_mut(at as usize) else {
            return;
        };
        batch.writes -= 1;
        match log {
            true => batch.course.log = self.env.now,
            false => batch.course.data = self.env.now,
        }
        if batch.writes == 0 && !self.env.file.volatile_cache {
            batch.durable = true;
            batch.course.durable = self.env.now;
            self.retire();
        }
    }

    /// Starts the flush that all batches share which are written and not flushed yet.
    pub(super) fn flush_step(&mut self) {
        if !self.env.file.volatile_cache || self.log.flushing {
            return;
        }
        let mut any = false;
        for batch in &mut self.log.batches {
            if batch.writes == 0 && !batch.durable {
                batch.flushing = true;
                any = true;
            }
        }
        if any {
            self.log.flushing = true;
            self.env.start_flush(Io::Flush);
        }
    }

    /// The flush ended: what was written when it began is durable.
    pub(super) fn flushed(&mut self) {
        self.log.flushing = false;
        for batch in &mut self.log.batches {
            if std::mem::take(&mut batch.flushing) {
                batch.durable = true;
                batch.course.durable = self.env.now;
            }
        }
        self.retire();
    }

    /// Applies the batches that are durable and have no older one before them that is not.
    fn retire(&mut self) {
        if self.config.faults.has(Fault::AnswersOutOfOrder) {
            self.answer_out_of_order();
        }
        while self.log.batches.front().is_some_and(|batch| batch.durable) {
            let batch = self.log.batches.pop_front().expect("there is a first one");
            self.log.first_batch += 1;
            self.env.course = batch.course;
            for at in 0..batch.ops.len() {
                if let Err(why) = self.check_applied(batch.ops[at]) {
                    return self.poison(why);
                }
                self.apply(batch.ops[at], batch.end);
            }
            self.log.recycle_ops(batch.ops);
            self.log.applied = batch.end;
            self.log.applied_sum = batch.last_sum;
            self.log.last_activity = self.env.now;
            // The batch's pages carry this mark, and are durable now.
            self.log.durable_mark = self.log.durable_mark.max(batch.mark);
        }
        self.env.course = Course::default();
        if let Some(slot) = self.space.map.wrong {
            return self.poison(format!(
                "the index and the map of slots disagree on slot {slot}; check the store with `amita store check`, and \
                 format it anew so that its groups are copied back from their other members"
            ));
        }
        self.reclaim();
    }

    /// Does a change come onto exactly the version that it names? It was looked at when it was accepted (`check_accepted`);
    /// between the two lie the chunk's queue, the batch and the log.
    fn check_applied(&self, key: OpSlot) -> Result<(), String> {
        let op = self.ops.get(key);
        if matches!(op.change, Change::Fence(_) | Change::Keep(_) | Change::Clone(_)) {
            return Ok(());
        }
        let durable = self.index.chunk(op.chunk).durable;
        if durable == op.previous || self.config.faults.has(Fault::AnyPredecessor) {
            return Ok(());
        }
        Err(format!(
            "a change from version {} to {} became durable on a chunk that is at {durable}; this must not be: please report \
             it, and restart the node so that the store is read anew from its disk",
            op.previous, op.version
        ))
    }

    /// [`Fault::AnswersOutOfOrder`]: what is durable itself is answered whatever was logged before it.
    fn answer_out_of_order(&mut self) {
        for at in 0..self.log.batches.len() {
            if !self.log.batches[at].durable {
                continue;
            }
            for n in 0..self.log.batches[at].ops.len() {
                let key = self.log.batches[at].ops[n];
                let change = !matches!(self.ops.get(key).change, Change::Fence(_));
                if change && let Some(asker) = self.ops.get_mut(key).asker.take() {
                    self.answer(asker, AnswerBody::Done, Slice::default());
                }
            }
        }
    }

    /// One change becomes visible. `position` is behind its record: what it replaces waits for the mark to pass that.
    fn apply(&mut self, key: OpSlot, position: u64) {
        if matches!(self.ops.get(key).change, Change::Fence(_)) {
            return self.apply_fence(key);
        }
        self.dequeue(key);
        let chunk = self.ops.get(key).chunk;
        if matches!(self.ops.get(key).change, Change::Keep(_)) {
            self.apply_keep(key, position);
            return self.next_of_chunk(chunk);
        }
        let reads = self.space.window.next();
        let op = self.ops.get(key);
        let version = op.version;
        let (held, freed) = (&mut self.space.map, &mut self.space.freed);
        let mut free = |slot| {
            if held.release(slot) {
                freed.push(slot, position, reads);
            }
        };
        match &op.change {
            // None of them is a change of the volume.
            Change::Join(_) | Change::Mend(_) | Change::Whole => {}
            _ => self.index.begin_change(chunk, op.snapshot),
        }
        match &op.change {
            Change::Fence(_) | Change::Keep(_) | Change::Say(_) => unreachable!("taken above, or never logged"),
            Change::Join(base) => {
                self.env.counters.joins += 1;
                self.index.join(chunk, *base, op.snapshot);
            }
            Change::Whole => self.index.whole(chunk),
            Change::Mend(mend) => {
                self.env.counters.mended += mend.change.entries.len() as u64;
                for entry in &mend.change.entries {
                    let new = Entry {
                        slot: entry.slot,
                        sum: entry.sum,
                        version: entry.version,
                    };
                    if let Some(old) = self.index.set(chunk, entry.block, new) {
                        free(old);
                    }
                }
                for run in &op.runs {
                    claim(&mut self.space.map, *run);
                }
                self.index.loosen(chunk);
            }
            Change::Clear => {
                self.env.counters.clears += 1;
                self.index.clear(chunk, op.range, version, free);
            }
            Change::Clone(clone) => {
                self.env.counters.clones += 1;
                self.index.set_origin(chunk, clone.origin);
                for entry in &clone.entries {
                    let new = Entry {
                        slot: entry.slot,
                        sum: entry.sum,
                        version: entry.version,
                    };
                    self.index.set(chunk, entry.block, new);
                    if new.has_data() {
                        self.space.map.share(entry.slot);
                    }
                }
            }
            Change::Write => {
                self.env.counters.writes += 1;
                let slots = op.runs.iter().flat_map(|run| (0..run.count).map(|n| run.slot.plus(n)));
                for ((block, slot), &sum) in op.range.iter().zip(slots).zip(&op.sums) {
                    if let Some(old) = self.index.set(chunk, block, Entry { slot, sum, version }) {
                        free(old);
                    }
                }
                for run in &op.runs {
                    claim(&mut self.space.map, *run);
                }
            }
            Change::Roll(roll) => {
                self.env.counters.rolls += 1;
                for entry in &roll.entries {
                    let new = Entry {
                        slot: entry.slot,
                        sum: entry.sum,
                        version: entry.version,
                    };
                    if let Some(old) = self.index.set(chunk, entry.block, new) {
                        free(old);
                    }
                }
                for run in &op.runs {
                    claim(&mut self.space.map, *run);
                }
            }
        }
        self.index.chunk_mut(chunk).durable = version;
        self.space.claims.unapplied_bytes -= op.index_bytes;
        self.space.claims.unapplied_leaves -= u64::from(op.leaves);
        let (asker, resent) = (op.asker, op.resent);
        let body = match &mut self.ops.get_mut(key).change {
            Change::Join(base) => AnswerBody::Joined(JoinedAnswer {
                incomplete: Some(*base),
            }),
            Change::Mend(mend) => AnswerBody::Mended(MendedAnswer {
                skipped: std::mem::take(&mut mend.skipped),
            }),
            _ => AnswerBody::Done,
        };
        if let Some(asker) = asker {
            self.answer(asker, body, Slice::default());
        }
        if resent {
            self.answer_resends(key, |store, resend| {
                store.answer(resend.asker, AnswerBody::Done, Slice::default())
            });
        }
        self.ops.remove(key);
        self.retire_pages();
        self.wake_reads(chunk);
        self.next_of_chunk(chunk);
    }

    /// The first change of a chunk may have waited for those before it.
    fn next_of_chunk(&mut self, key: ChunkKey) {
        let chunk = self.index.chunk(key);
        if chunk.first_waiting != OpSlot::NONE && chunk.first_waiting == chunk.first_pending {
            self.advance_chunk(key);
        }
    }
}

/// The slots of a run get their first user.
fn claim(held: &mut SlotMap, run: Run) {
    for n in 0..run.count {
        held.claim(run.slot.plus(n));
    }
}
