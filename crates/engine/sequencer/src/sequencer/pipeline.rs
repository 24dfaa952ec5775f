//! A chunk's pipeline: what waits at a chunk is started as far as it can be, and what cannot stands by until something has
//! changed. Called for one chunk with each I/O that comes, and for those that stand by at the end of each event.

use super::Sequencer;
use super::state::{Chunk, ChunkState};
use crate::table::{ChunkSlot, GroupSlot, Key, ListPlace};
use amita_reactor::Time;
use amita_types::{ChunkId, ChunkIndex};

impl Sequencer {
    /// The chunk's slot; on its first touch it gets one.
    pub(super) fn chunk_number(&mut self, index: ChunkIndex) -> ChunkSlot {
        if let Some(number) = self.chunks.slot_of(index) {
            return number;
        }
        let id = ChunkId {
            volume: self.owned.volume.id,
            index,
        };
        let group = GroupSlot::of(id.group(self.owned.pool.groups));
        let number = self.chunks.add(Chunk::new(index, group));
        self.groups[group].chunks.push(number);
        number
    }

    /// Starts what can be started of a chunk's queues.
    pub(super) fn advance_chunk(&mut self, now: Time, chunk: ChunkSlot) {
        match self.chunks[chunk].state {
            ChunkState::Closed => return self.want_open(now, chunk),
            ChunkState::Waiting | ChunkState::Opening(_) => return,
            ChunkState::Open => {}
        }
        self.kick_compare(now, chunk);
        self.advance_reads(now, chunk);
        // Clears first: they need no space, and may be what brings some (R7).
        self.advance_clears(now, chunk);
        self.advance_writes(now, chunk);
        if self.chunks[chunk].waits() {
            self.block(chunk);
        }
    }

    fn advance_reads(&mut self, now: Time, chunk: ChunkSlot) {
        while let Some(slot) = self.chunks[chunk].queued_reads.head() {
            self.tasks.unlink(&mut self.chunks[chunk].queued_reads, slot);
            if !self.try_read(now, slot) {
                // Back to where it stood would be the head; reads have no order among them.
                self.tasks.push(&mut self.chunks[chunk].queued_reads, slot);
                return;
            }
        }
    }

    fn advance_clears(&mut self, now: Time, chunk: ChunkSlot) {
        while let Some(slot) = self.chunks[chunk].queued_clears.head() {
            if self.is_never_written(chunk) {
                self.look_instead(now, slot, chunk);
            } else if !self.try_write(now, slot) {
                return;
            }
        }
    }

    fn advance_writes(&mut self, now: Time, chunk: ChunkSlot) {
        while let Some(slot) = self.chunks[chunk].queued_writes.head() {
            if !self.try_write(now, slot) {
                return;
            }
        }
    }

    /// Chunks of which something waits are looked at again.
    pub(super) fn block(&mut self, chunk: ChunkSlot) {
        if !self.chunks[chunk].blocked {
            self.chunks[chunk].blocked = true;
            self.intake.blocked.push_back(chunk);
        }
    }

    pub(super) fn retry_blocked(&mut self, now: Time) {
        // A retry may bring news that calls for another; each pass looks once at each chunk.
        while std::mem::take(&mut self.intake.is_due) && !self.stopped {
            for _ in 0..self.intake.blocked.len() {
                let Some(chunk) = self.intake.blocked.pop_front() else {
                    break;
                };
                self.chunks[chunk].blocked = false;
                if matches!(self.chunks[chunk].state, ChunkState::Open) {
                    self.advance_chunk(now, chunk);
                }
            }
        }
    }

    /// The chunk has writes with a version.
    pub(super) fn mark_busy(&mut self, chunk: ChunkSlot) {
        let state = &mut self.chunks[chunk];
        if state.busy_at.is_none() {
            let busy = &mut self.groups[state.group].busy;
            state.busy_at = Some(ListPlace::new(busy.len()));
            busy.push(chunk);
        }
    }

    /// All of them are acknowledged.
    pub(super) fn mark_quiet(&mut self, chunk: ChunkSlot) {
        let state = &mut self.chunks[chunk];
        let at = state.busy_at.take().expect("a chunk with writes is in the list");
        let busy = &mut self.groups[state.group].busy;
        assert_eq!(busy.swap_remove(at.at()), chunk);
        if let Some(&moved) = busy.get(at.at()) {
            self.chunks[moved].busy_at = Some(at);
        }
    }
}
