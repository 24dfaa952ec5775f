//! Copy: ranges of a namespace to another place in it, without the host (NVM Command Set 1.1, 3.3.2; descriptor format 0).

use super::{bytes, target};
use crate::catalog::Namespace;
use crate::command::Command;
use crate::queue::{End, Gathering, Queue, Refusal, Work};
use crate::wire::{status, u16_at, u64_at};
use crate::{Cx, io, port};
use amita_frontend::engine::{Charge, PieceState, Protocol as _, Step, Submission};
use amita_frontend::pieces::piece_end;
use amita_frontend::slots::SlotId;
use amita_reactor::{Pool, Slice};
use amita_types::io::{Op, Payload};

/// Bytes of a descriptor of format 0.
const RANGE_BYTES: u32 = 32;

pub(super) fn command(
    queue: &mut Queue,
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
    queue.bring(command, work, target(namespace, 0), count * RANGE_BYTES, data, cx)?;
    Ok(())
}

/// The descriptors are here.
pub(crate) fn gathered(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = queue.engine.request(slot);
    let (command, data) = (request.own.command, std::mem::take(&mut request.own.buffer));
    let mut ranges = std::mem::take(&mut request.own.ranges);
    let checked = io::namespace(&queue.role, &command).and_then(|namespace| {
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
    let request = queue.engine.request(slot);
    request.own.ranges = ranges;
    match checked {
        Ok(destination) => {
            request.own.work = Work::Copy {
                source: 0,
                source_end: 0,
                destination,
                next: 0,
            };
        }
        Err(status) => {
            request.own.work = Work::Wait;
            request.fail(status, None);
        }
    }
    queue.start(slot, cx)
}

/// Submits the next piece: a read, which becomes a write when it is done.
pub(super) fn step(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Step {
    let window = queue.engine.limits().window;
    let request = queue.engine.request(slot);
    let Work::Copy {
        source,
        source_end,
        destination,
        next,
    } = request.own.work
    else {
        return Step::Through;
    };
    if source >= source_end {
        let Some(&(offset, length)) = request.own.ranges.get(next) else {
            request.issued = true;
            return Step::Through;
        };
        request.own.work = Work::Copy {
            source: offset,
            source_end: offset + length,
            destination,
            next: next + 1,
        };
        return Step::Again;
    }
    // A piece lies in one chunk where it comes from and where it goes.
    let chunk_bytes = request.own.target.chunk_bytes;
    let readable = piece_end(source, source_end, chunk_bytes) - source;
    let writable = piece_end(destination, destination + readable, chunk_bytes) - destination;
    if request.under_way() >= window {
        return Step::Window;
    }
    if !queue.engine.may_read(writable as usize, cx) {
        return Step::Full;
    }
    queue.engine.request(slot).own.work = Work::Copy {
        source: source + writable,
        source_end,
        destination: destination + writable,
        next,
    };
    let length = writable as u32;
    let submission = Submission {
        charge: Charge::Read,
        note: destination,
        ..Submission::of(Op::Read { offset: source, length })
    };
    queue.submit(slot, submission, cx);
    Step::Again
}

/// A piece of a copy has been read: it is written.
pub(super) fn write_what_was_read(piece: &mut PieceState, payload: &mut Payload, pool: &Pool) -> bool {
    let Op::Read { length, .. } = piece.op else {
        return false;
    };
    piece.data = match std::mem::take(payload) {
        Payload::Data(data) => data,
        _ => pool.zeros(length as usize),
    };
    let offset = piece.note;
    piece.op = Op::Write { offset, length };
    true
}
