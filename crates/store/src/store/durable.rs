//! A batch is durable: its changes become visible and are answered, in log order (rule D2).

use super::op::Change;
use super::{Store, io::Io};
use crate::config::Plant;
use crate::index::Entry;
use amita_cluster::BlockIndex;
use amita_cluster::message::AnswerBody;
use amita_reactor::Slice;

impl Store {
    /// A part of a batch is written.
    pub(super) fn batch_written(&mut self, batch: u64) {
        // A poisoned store has forgotten its batches.
        let Some(at) = batch.checked_sub(self.log.first_batch) else {
            return;
        };
        let Some(batch) = self.log.batches.get_mut(at as usize) else {
            return;
        };
        batch.writes -= 1;
        if batch.writes == 0 && !self.file.volatile_cache {
            batch.durable = true;
            self.retire();
        }
    }

    /// Starts the flush that all batches share which are written and not flushed yet.
    pub(super) fn flush_step(&mut self) {
        if !self.file.volatile_cache || self.log.flushing {
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
            self.start_flush(Io::Flush);
        }
    }

    /// The flush ended: what was written when it began is durable.
    pub(super) fn flushed(&mut self) {
        self.log.flushing = false;
        for batch in &mut self.log.batches {
            batch.durable |= std::mem::take(&mut batch.flushing);
        }
        self.retire();
    }

    /// Applies the batches that are durable and have no older one before them that is not.
    fn retire(&mut self) {
        if self.config.planted.has(Plant::AnswersOutOfOrder) {
            self.answer_out_of_order();
        }
        while self.log.batches.front().is_some_and(|batch| batch.durable) {
            let batch = self.log.batches.pop_front().expect("there is a first one");
            self.log.first_batch += 1;
            for at in 0..batch.ops.len() {
                self.apply(batch.ops[at], batch.end);
            }
            self.log.recycle_ops(batch.ops);
            self.log.applied = batch.end;
            self.log.applied_sum = batch.last_sum;
            self.log.last_activity = self.now;
            // The batch's pages carry this mark, and are durable now.
            self.log.durable_mark = self.log.durable_mark.max(batch.mark);
        }
        self.reclaim();
    }

    /// The planted fault: what is durable itself is answered whatever was logged before it.
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
    fn apply(&mut self, key: u32, position: u64) {
        if matches!(self.ops.get(key).change, Change::Fence(_)) {
            return self.apply_fence(key);
        }
        self.dequeue(key);
        let reads = self.window.next();
        let op = self.ops.get(key);
        let (chunk, version) = (op.chunk, op.version);
        let freed = &mut self.freed;
        match &op.change {
            Change::Fence(_) => unreachable!("taken above"),
            Change::Clear => {
                self.counters.clears += 1;
                self.index
                    .clear(chunk, op.range, version, |slot| freed.push(slot, position, reads));
            }
            Change::Write => {
                self.counters.writes += 1;
                let slots = op.runs.iter().flat_map(|run| (0..run.count).map(|n| run.slot.plus(n)));
                for ((block, slot), &sum) in op.range.iter().zip(slots).zip(&op.sums) {
                    if let Some(old) = self.index.set(chunk, block, Entry { slot, sum, version }) {
                        freed.push(old, position, reads);
                    }
                }
            }
            Change::Roll(roll) => {
                self.counters.rolls += 1;
                for entry in &roll.entries {
                    let new = Entry {
                        slot: entry.slot,
                        sum: entry.sum,
                        version: entry.version,
                    };
                    if let Some(old) = self.index.set(chunk, BlockIndex(entry.block.0), new) {
                        freed.push(old, position, reads);
                    }
                }
            }
        }
        self.index.chunk_mut(chunk).durable = version;
        self.space.unapplied_bytes -= op.index_bytes;
        let (asker, resent) = (op.asker, op.resent);
        if let Some(asker) = asker {
            self.answer(asker, AnswerBody::Done, Slice::default());
        }
        if resent {
            self.answer_resends(key, |store, asker| {
                store.answer(asker, AnswerBody::Done, Slice::default())
            });
        }
        self.ops.remove(key);
        self.wake_reads(chunk);
    }
}
