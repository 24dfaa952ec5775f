//! Copy: ranges of a namespace to another place in it, without the host (NVM Command Set 1.1, 3.3.2; descriptor format 0).

use super::issue::Step;
use super::*;
use crate::wire::{u16_at, u64_at};
use amita_frontend::slots::SlotId;
use amita_types::io::{Op, Payload};

/// Bytes of a descriptor of format 0.
const RANGE_BYTES: u32 = 32;

impl Queue {
    pub(super) fn copy_command(
        &mut self,
        command: &Command,
        namespace: &Namespace,
        data: Slice,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        let count = (command.dword(12) & 0xff) + 1;
        let (format, directive) = (command.dword(12) >> 8 & 0xf, command.dword(12) >> 20 & 0xf);
        if format != 0 || directive != 0 {
            return Err(status::INVALID_FIELD.into());
        }
        // "[...] Command Size Limit Exceeded" for more ranges than MSRC, and for more blocks than MSSRL and MCL.
        if count > u32::from(port::MAX_COPY_RANGES) {
            return Err(status::SIZE_LIMIT.into());
        }
        let what = Gathering::Copy;
        let work = Work::Gather { what, asked: false };
        self.bring(command, work, target(namespace, 0), count * RANGE_BYTES, data, cx)?;
        Ok(())
    }

    /// The descriptors are here.
    pub(crate) fn copy(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Step {
        let request = self.slots.get_mut(slot);
        let (command, data) = (request.command, std::mem::take(&mut request.buffer));
        let mut ranges = std::mem::take(&mut request.ranges);
        let checked = self.namespace(&command).and_then(|namespace| {
            let mut blocks = 0;
            for range in data.chunks_exact(RANGE_BYTES as usize) {
                let count = u64::from(u16_at(range, 16)) + 1;
                let range = bytes(&namespace, u64_at(range, 8), count)?;
                if range.1 > u64::from(port::MAX_TRANSFER_BYTES) {
                    return Err(status::SIZE_LIMIT);
                }
                blocks += count;
                ranges.push(range);
            }
            let (destination, length) = bytes(&namespace, command.qword(10), blocks)?;
            if length > u64::from(port::MAX_TRANSFER_BYTES) {
                return Err(status::SIZE_LIMIT);
            }
            // The order in which pieces are copied is not promised.
            let overlaps = |&(from, count): &(u64, u64)| from < destination + length && destination < from + count;
            match ranges.iter().any(overlaps) {
                true => Err(status::OVERLAP),
                false => Ok(destination),
            }
        });
        let request = self.slots.get_mut(slot);
        request.ranges = ranges;
        match checked {
            Ok(destination) => {
                request.work = Work::Copy {
                    source: 0,
                    source_end: 0,
                    destination,
                    next: 0,
                };
            }
            Err(status) => {
                request.work = Work::Wait;
                request.fail(status);
            }
        }
        self.start(slot, cx)
    }

    /// Submits the next piece: a read, which becomes a write when it is done. `Some`: what [`Queue::issue`] returns.
    pub(super) fn issue_copy(&mut self, slot: SlotId, window: u32, cx: &mut Cx<'_>) -> Option<bool> {
        let request = self.slots.get_mut(slot);
        let Work::Copy {
            source,
            source_end,
            destination,
            next,
        } = request.work
        else {
            return Some(true);
        };
        if source >= source_end {
            let Some(&(offset, length)) = request.ranges.get(next) else {
                request.issued = true;
                return Some(true);
            };
            request.work = Work::Copy {
                source: offset,
                source_end: offset + length,
                destination,
                next: next + 1,
            };
            return None;
        }
        // A piece lies in one chunk where it comes from and where it goes.
        let chunk_bytes = request.target.chunk_bytes;
        let readable = piece_end(source, source_end, chunk_bytes) - source;
        let writable = piece_end(destination, destination + readable, chunk_bytes) - destination;
        let length = writable as u32;
        let under_way = request.under_way;
        if under_way >= window || !self.may_read(length as usize, cx) {
            return Some(false);
        }
        self.reading_bytes += length as usize;
        let request = self.slots.get_mut(slot);
        request.work = Work::Copy {
            source: source + writable,
            source_end,
            destination: destination + writable,
            next,
        };
        let number = self.next_number(slot);
        let op = Op::Read { offset: source, length };
        self.submit_piece(slot, number, op, Slice::default(), Slice::default(), destination, cx);
        None
    }

    /// A piece has been read: it is written.
    pub(super) fn copy_read(&mut self, slot: SlotId, number: u32, payload: Payload, cx: &mut Cx<'_>) -> Step {
        let tag = self.slots.tag(slot, number);
        let request = self.slots.get_mut(slot);
        let volume = request.target.volume;
        let Some(piece) = request.piece(number) else {
            return Ok(());
        };
        let length = piece.op.length() as u32;
        let data = match payload {
            Payload::Data(data) => data,
            _ => cx.pool.zeros(length as usize),
        };
        let offset = piece.destination;
        piece.op = Op::Write { offset, length };
        piece.data = data.clone();
        cx.service.submit(self.front, tag, volume, piece.op, data);
        Ok(())
    }
}
