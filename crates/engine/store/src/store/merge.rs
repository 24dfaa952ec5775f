//! Sub-block writes are merged with what was there.
//!
//! A chunk's changes form a queue from accepted to durable. A change that must be merged with a block on the disk makes
//! those behind it wait, because log order is chunk order: replay would otherwise find a version before its
//! predecessor. What is merged with a change that is not durable yet takes it from memory.

use super::leaf::{LostLeaf, Waiter};
use super::op::Change;
use super::{Asker, Store, io::Io};
use crate::State;
use crate::credits::AccountId;
use crate::faults::Fault;
use crate::format::PAGE_BYTES;
use crate::index::{ChunkKey, Location, OpSlot, View};
use amita_reactor::{BufMut, Slice};
use amita_types::BlockIndex;
use amita_types::message::Refusal;
use std::io;

impl Store {
    /// Lets the changes of a chunk go on, up to the first one that needs something from the disk.
    pub(super) fn advance_chunk(&mut self, chunk: ChunkKey) {
        loop {
            let key = self.index.chunk(chunk).first_waiting;
            if key == OpSlot::NONE {
                return;
            }
            match self.prepare(key) {
                None => return,
                Some(false) => {}
                Some(true) => {
                    self.index.chunk_mut(chunk).first_waiting = self.ops.get(key).next;
                    self.ops.ready.push_back(key);
                }
            }
        }
    }

    /// Makes a change ready to be logged: the leaves that it changes are in memory, and what it is merged with is.
    /// `None`: not yet; `Some(false)`: it has ended, for good or ill.
    fn prepare(&mut self, key: OpSlot) -> Option<bool> {
        match &self.ops.get(key).change {
            Change::Keep(_) => return self.prepare_keep(key),
            Change::Clone(_) => return self.prepare_clone(key),
            Change::Mend(_) => return self.prepare_mend(key),
            Change::Say(say) => return self.prepare_say(key, *say),
            Change::Join(_) | Change::Whole => return Some(true),
            Change::Write | Change::Clear | Change::Roll(_) | Change::Fence(_) => {}
        }
        match self.have_changed_leaves(key) {
            Ok(true) => self.merge(key).then_some(true),
            Ok(false) => None,
            Err(lost) => {
                self.drop_from(key, Refusal::Damaged { block: lost.0 });
                Some(false)
            }
        }
    }

    /// Are the leaves here that a change needs? Else they are read, and it waits.
    pub(super) fn have_changed_leaves(&mut self, key: OpSlot) -> Result<bool, LostLeaf> {
        let op = self.ops.get(key);
        let (chunk, range) = (op.chunk, op.changed());
        let mut missing = self.index.missing(chunk, View::Head, range).peekable();
        let of_states = self.index.missing_of_states(chunk, range);
        if missing.peek().is_none() && of_states.is_empty() {
            return Ok(true);
        }
        let missing: Vec<Location> = missing.chain(of_states).collect();
        let at = self.want_leaves(&missing)?;
        self.wait_for_leaf(at, Waiter::Chunk(chunk));
        Ok(false)
    }

    /// A leaf that the first change of a chunk waits for cannot be read: the change cannot be made.
    pub(super) fn leaf_failed(&mut self, chunk: ChunkKey, lost: LostLeaf) {
        let key = self.index.chunk(chunk).first_waiting;
        if key == OpSlot::NONE {
            return;
        }
        let refusal = Refusal::Damaged { block: lost.0 };
        if self.ops.get(key).change.is_aside() {
            self.end_unlogged(key, Err(refusal));
            self.advance_chunk(chunk);
        } else {
            self.drop_from(key, refusal);
        }
    }

    /// Merges the first and the last block of a write where they are not whole. `false`: not possible yet.
    fn merge(&mut self, key: OpSlot) -> bool {
        let op = self.ops.get(key);
        let partial = [op.partial(0), op.partial(1)];
        if partial == [None, None] {
            self.bind_sums(key);
            return true;
        }
        if op.merge.is_none() {
            self.find_bases(key, partial.map(|part| part.map(|(at, ..)| at)));
        }
        let op = self.ops.get_mut(key);
        let merge = op.merge.as_mut().expect("its bases were looked for");
        if merge.reading > 0 {
            return false;
        }
        for (which, part) in partial.into_iter().enumerate() {
            let Some((at, first, bytes, from)) = part else { continue };
            let mut block = merge.base[which].take().expect("every base was found");
            block[first..first + bytes].copy_from_slice(&op.payload[from..from + bytes]);
            op.sums[usize::from(at)] = amita_types::crc32c(&block);
            merge.merged[which] = block.freeze();
        }
        self.bind_sums(key);
        true
    }

    /// Binds the checksums of a change's blocks to their place (rule D8).
    pub(super) fn bind_sums(&mut self, key: OpSlot) {
        let op = self.ops.get_mut(key);
        let place = self.index.place(op.chunk);
        for (block, sum) in op.range.iter().zip(&mut op.sums) {
            *sum = place.bind(block, *sum);
        }
        if let Some(roll) = op.change.entries_mut() {
            for (entry, &with_data) in roll.entries.iter_mut().zip(&roll.with_data) {
                if with_data {
                    entry.sum = place.bind(entry.block, entry.sum);
                }
            }
        }
    }

    /// Finds what a sub-block write is merged with: a change of the chunk that is not durable yet, the disk, or zeros.
    /// All changes before it are prepared, so that their blocks are whole.
    fn find_bases(&mut self, key: OpSlot, partial: [Option<u16>; 2]) {
        self.env.counters.merges += 1;
        let mut merge = self.ops.merge();
        for (which, at) in partial.into_iter().enumerate() {
            let Some(at) = at else { continue };
            let op = self.ops.get(key);
            let chunk = op.chunk;
            let block = BlockIndex(op.range.first.0 + at);
            let mut buffer = self.env.take_surely(PAGE_BYTES);
            if let Some(slice) = self.pending_block(chunk, key, block) {
                fill(&mut buffer, &slice);
            } else {
                let entry = self.index.entry(chunk, View::Head, block);
                if entry.has_data() {
                    let window = self.space.window.begin();
                    let sum = self.index.place(chunk).bind(block, entry.sum);
                    merge.reading += 1;
                    merge.base_sum[which] = sum;
                    let offset = self.superblock.geometry.slot_offset(entry.slot);
                    self.env.start_read(Io::Base { op: key, which, window }, offset, buffer);
                    continue;
                }
                buffer.fill(0);
            }
            merge.base[which] = Some(buffer);
        }
        self.ops.get_mut(key).merge = Some(merge);
    }

    /// What the youngest accepted change before `before` that is not durable made of a block; empty: cleared.
    fn pending_block(&self, chunk: ChunkKey, before: OpSlot, block: BlockIndex) -> Option<Slice> {
        let mut found = None;
        let mut pending = self.index.chunk(chunk).first_pending;
        while pending != before {
            let op = self.ops.get(pending);
            found = op.block(block).or(found);
            pending = op.next;
        }
        found
    }

    /// A block that a write is merged with has been read.
    pub(super) fn base_done(&mut self, key: OpSlot, which: usize, window: u64, buffer: BufMut, result: io::Result<()>) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        self.space.window.end(window);
        let unchecked = self.config.faults.has(Fault::SumUnchecked) || self.config.faults.has(Fault::FreshSum);
        let op = self.ops.get_mut(key);
        let merge = op.merge.as_mut().expect("it waits for its bases");
        let whole = result.is_ok() && (amita_types::crc32c(&buffer) == merge.base_sum[which] || unchecked);
        merge.reading -= 1;
        merge.base[which] = Some(buffer);
        if !whole {
            // Rule D7: a rotten block never gets a fresh checksum.
            let last = if which == 0 { 0 } else { op.range.count - 1 };
            merge.damaged = Some(BlockIndex(op.range.first.0 + last));
            self.env.counters.damaged += 1;
        }
        if merge.reading > 0 {
            return;
        }
        let (damaged, chunk) = (merge.damaged, op.chunk);
        match damaged {
            Some(block) => self.drop_from(key, Refusal::Damaged { block }),
            None => self.advance_chunk(chunk),
        }
        self.reclaim();
    }

    /// Takes a change back that cannot be applied, and all that follow it: none of them has been logged.
    pub(super) fn drop_from(&mut self, key: OpSlot, refusal: Refusal) {
        let op = self.ops.get(key);
        let (chunk_key, previous, before) = (op.chunk, op.previous, op.before);
        let chunk = self.index.chunk_mut(chunk_key);
        assert_eq!(
            chunk.first_waiting, key,
            "only the first that waits is being made ready"
        );
        chunk.accepted = previous;
        (chunk.accepted_snapshot, chunk.accepted_state) = before;
        chunk.set_last(None);
        chunk.first_waiting = OpSlot::NONE;
        if chunk.first_pending == key {
            chunk.first_pending = OpSlot::NONE;
            chunk.last_pending = OpSlot::NONE;
        } else {
            let mut before = chunk.first_pending;
            while self.ops.get(before).next != key {
                before = self.ops.get(before).next;
            }
            self.ops.get_mut(before).next = OpSlot::NONE;
            self.index.chunk_mut(chunk_key).last_pending = before;
        }
        let mut refusal = Some(refusal);
        let mut next = key;
        while next != OpSlot::NONE {
            let dropped = next;
            let op = self.ops.get(dropped);
            let (asker, blocks, index_bytes, resent) = (op.asker, op.blocks, op.index_bytes, op.resent);
            let (leaves, keep) = (op.leaves, matches!(op.change, Change::Keep(_)));
            let swept = matches!(&op.change, Change::Keep(keep) if keep.is_swept());
            let paid = matches!(op.change, Change::Write);
            let aside = op.change.is_aside() || matches!(op.change, Change::Join(_));
            next = op.next;
            self.space.claims.reserved -= u64::from(blocks);
            self.space.claims.unapplied_bytes -= index_bytes;
            self.space.claims.unapplied_leaves -= u64::from(leaves);
            self.unlogged_less(asker);
            let why = match refusal.take() {
                Some(why) => why,
                None if aside => Refusal::Busy,
                None => Refusal::WrongPredecessor { current: previous },
            };
            if keep {
                self.index.chunk_mut(chunk_key).deleting = false;
            }
            if swept {
                self.sweep_ended(false);
            }
            // What was kept for the change goes to whoever asked first and has an account still. Who sent it again counts it
            // as unused, too: he gets at least what he paid.
            let mut kept = if paid { blocks } else { 0 };
            let mut refuse = |store: &mut Store, asker: Asker, back: u32| {
                if store
                    .space
                    .credits
                    .refund(AccountId::new(asker.link, asker.id), back.max(kept))
                {
                    kept = 0;
                }
                store.refuse(asker, why.clone());
            };
            if let Some(asker) = asker {
                refuse(self, asker, 0);
            }
            if resent {
                self.answer_resends(dropped, |store, resend| refuse(store, resend.asker, resend.paid));
            }
            self.ops.remove(dropped);
        }
        self.wake_reads(chunk_key);
    }
}

fn fill(buffer: &mut BufMut, slice: &Slice) {
    if slice.is_empty() {
        buffer.fill(0);
    } else {
        buffer.copy_from_slice(slice);
    }
}
