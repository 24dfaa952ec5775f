//! I/O comes in: it is checked, made a task, and queued at its chunk.

use super::Sequencer;
use super::state::{Chunk, ChunkState};
use crate::config::MAX_IOS;
use crate::io::{Course, IoId};
use crate::members::{ByPosition, Members};
use crate::table::{ChunkSlot, GroupSlot};
use crate::task::{Kind, List, Read, Write};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::message::Sums;
use amita_types::{BLOCK_BYTES, BlockRange, ChunkId, ChunkIndex, MAX_IO_BLOCKS, MAX_IO_BYTES, TraceId, Version};

/// Where an I/O goes.
struct Place {
    chunk: ChunkIndex,
    offset_bytes: u32,
    length_bytes: u32,
    range: BlockRange,
}

impl Sequencer {
    /// Starts an I/O; `data` is a write's payload, else empty. It ends in one [`crate::Effect::Done`].
    pub fn submit(&mut self, now: Time, io: IoId, op: Op, data: Slice) {
        self.submit_traced(now, io, op, data, TraceId::NONE);
    }

    /// The same for an I/O that may be traced: its requests to stores name its trace.
    pub fn submit_traced(&mut self, now: Time, io: IoId, op: Op, data: Slice, trace: TraceId) {
        self.ios += 1;
        if let Err(error) = self.accept(now, io, op, data, trace) {
            self.done(io, Err(error), Payload::None, Course::default());
        }
        self.finish(now);
    }

    fn accept(&mut self, now: Time, io: IoId, op: Op, data: Slice, trace: TraceId) -> Result<(), IoError> {
        if self.stopped {
            return Err(IoError::Lost);
        }
        if matches!(op, Op::Clear { length: 0, .. }) && data.is_empty() {
            // Nothing to do, and nothing to wait for: all that was answered is durable.
            self.done(io, Ok(()), Payload::None, Course::default());
            return Ok(());
        }
        let place = self.place(&op, &data)?;
        if self.tasks.len() >= MAX_IOS {
            return Err(IoError::Busy);
        }
        let chunk = self.chunk_number(place.chunk);
        let group = self.chunks[chunk].group;
        let kind = match op {
            Op::Write { .. } | Op::Clear { .. } => {
                let clear = matches!(op, Op::Clear { .. });
                self.write_kind(io, clear, place.offset_bytes, place.length_bytes, place.range, data)
            }
            Op::Read { .. } | Op::Allocation { .. } | Op::CompareAndWrite { .. } => Kind::Read(Read {
                io,
                op,
                range: place.range,
                tried: Members::NONE,
                damaged: Members::NONE,
                found: None,
                promised: false,
                compare: data,
            }),
        };
        let slot = self.tasks.add(kind, group, Some(chunk));
        self.tasks[slot].trace = trace;
        if matches!(op, Op::Write { .. } | Op::Clear { .. }) {
            self.tasks[slot].asked_at = now;
        }
        let state = &mut self.chunks[chunk];
        let queue = match op {
            Op::Write { .. } => &mut state.queued_writes,
            Op::Clear { .. } => &mut state.queued_clears,
            Op::CompareAndWrite { .. } => &mut state.queued_compares,
            Op::Read { .. } | Op::Allocation { .. } => &mut state.queued_reads,
        };
        self.tasks.push(queue, slot);
        self.kick(now, chunk);
        Ok(())
    }

    pub(super) fn write_kind(
        &self,
        io: IoId,
        clear: bool,
        offset_bytes: u32,
        length_bytes: u32,
        range: BlockRange,
        payload: Slice,
    ) -> Kind {
        Kind::Write(Write {
            io,
            clear,
            offset_bytes,
            length_bytes,
            range,
            version: Version::NONE,
            previous: Version::NONE,
            sums: Sums::new(),
            payload,
            charged: Members::NONE,
            taken: ByPosition::filled(0),
            asked: Members::NONE,
            short_since: None,
            refusals: 0,
            told: false,
        })
    }

    /// Checks an I/O. The fronts have cut it to pieces that fit; what does not is answered, never asserted.
    fn place(&self, op: &Op, data: &Slice) -> Result<Place, IoError> {
        let (offset, length) = (op.offset(), op.length());
        let block = u64::from(BLOCK_BYTES);
        let valid = match *op {
            Op::Read { length, .. } => {
                let blocks = (offset % block + u64::from(length)).div_ceil(block);
                length > 0 && blocks <= u64::from(MAX_IO_BLOCKS)
            }
            Op::Write { length, .. } => length > 0 && length <= MAX_IO_BYTES && data.len() == length as usize,
            Op::Clear { .. } => length > 0 && offset % block == 0 && length % block == 0,
            Op::CompareAndWrite { length, .. } => {
                length > 0 && length <= MAX_IO_BYTES / 2 && data.len() == 2 * length as usize
            }
            Op::Allocation { .. } => true,
        };
        if !valid || (!data.is_empty() && !matches!(op, Op::Write { .. } | Op::CompareAndWrite { .. })) {
            return Err(IoError::Invalid);
        }
        let chunk_bytes = u64::from(self.chunk_bytes);
        let end = offset.checked_add(length.max(1)).ok_or(IoError::OutOfRange)?;
        let chunk = offset / chunk_bytes;
        if end > self.volume.size_bytes || (end - 1) / chunk_bytes != chunk {
            return Err(IoError::OutOfRange);
        }
        let offset_bytes = (offset % chunk_bytes) as u32;
        let length_bytes = length as u32;
        let range = match op {
            Op::Allocation { .. } => BlockRange::new(0, self.blocks_per_chunk),
            _ => BlockRange::of_bytes(offset_bytes, length_bytes),
        };
        assert!(range.is_inside(u32::from(self.blocks_per_chunk)), "checked above");
        Ok(Place {
            chunk: ChunkIndex(chunk),
            offset_bytes,
            length_bytes,
            range,
        })
    }

    pub(super) fn chunk_number(&mut self, index: ChunkIndex) -> ChunkSlot {
        if let Some(&number) = self.chunk_index.get(&index) {
            return number;
        }
        let id = ChunkId {
            volume: self.volume.id,
            index,
        };
        let group = GroupSlot::of(id.group(self.pool.groups));
        let number = self.chunks.push(Chunk {
            index,
            group,
            state: ChunkState::Closed,
            issued: Version::NONE,
            committed: Version::NONE,
            writes: List::default(),
            write_count: 0,
            queued_writes: List::default(),
            queued_clears: List::default(),
            queued_reads: List::default(),
            queued_compares: List::default(),
            comparing: None,
            compared: List::default(),
            held: List::default(),
            stalled: Members::NONE,
            behind: Members::NONE,
            catching: false,
            busy_at: None,
            opening_at: None,
            blocked: false,
            bad_sources: Members::NONE,
            joined: Members::NONE,
            joining: Members::NONE,
            implausible: false,
            held_back: false,
        });
        self.groups[group].chunks.push(number);
        self.chunk_index.insert(index, number);
        number
    }

    /// Starts what can be started of a chunk's queues.
    pub(super) fn kick(&mut self, now: Time, chunk: ChunkSlot) {
        match self.chunks[chunk].state {
            ChunkState::Closed => return self.want_open(now, chunk),
            ChunkState::Waiting | ChunkState::Opening(_) => return,
            ChunkState::Open => {}
        }
        self.kick_compare(now, chunk);
        while let Some(slot) = self.chunks[chunk].queued_reads.head() {
            self.tasks.unlink(&mut self.chunks[chunk].queued_reads, slot);
            if !self.try_read(now, slot) {
                // Back to where it stood would be the head; reads have no order among them.
                self.tasks.push(&mut self.chunks[chunk].queued_reads, slot);
                break;
            }
        }
        // Clears first: they need no space, and may be what brings some (R7).
        while let Some(slot) = self.chunks[chunk].queued_clears.head() {
            if self.is_never_written(chunk) {
                self.look_instead(now, slot, chunk);
                continue;
            }
            if !self.try_write(now, slot) {
                break;
            }
        }
        while let Some(slot) = self.chunks[chunk].queued_writes.head() {
            if !self.try_write(now, slot) {
                break;
            }
        }
        let state = &self.chunks[chunk];
        let queues = [
            &state.queued_reads,
            &state.queued_clears,
            &state.queued_writes,
            &state.queued_compares,
            &state.compared,
        ];
        let waits = !queues.iter().all(|queue| queue.is_empty());
        if waits {
            self.block(chunk);
        }
    }
}
