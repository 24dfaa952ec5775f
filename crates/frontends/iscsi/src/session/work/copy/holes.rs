//! What of a segment was never written, or was unmapped: that is not moved, but made a hole where it goes. Which blocks of a chunk are
//! allocated is asked for once, before anything of the chunk is read; of some chunks at once, for where there is nothing to move that is all
//! that a copy waits for.

use crate::Cx;
use crate::session::Session;
use crate::session::task::Task;
use amita_frontend::engine::{Protocol as _, Submission};
use amita_frontend::pieces::{ZeroStep, zeroes};
use amita_frontend::slots::SlotId;
use amita_scsi::plan::Segment;
use amita_types::io::{Op, Payload};
use amita_types::{BLOCK_BYTES, MAX_IO_BYTES};

/// A shorter hole between data is copied with it: two pieces more cost more than its zeros.
const MIN_HOLE_BYTES: u64 = 64 << 10;
/// Chunks of which it is known, or asked, what they have: the one that is copied, and those behind it.
const MAX_MAPS: usize = 8;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Which blocks of a chunk are allocated, where a segment comes from.
#[derive(Debug)]
pub(crate) struct Map {
    /// The first byte of the chunk.
    offset: u64,
    /// A bit a block; `None`: it was asked.
    blocks: Option<Box<[u64; 16]>>,
}

/// What begins somewhere in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub length: u64,
    pub is_hole: bool,
}

/// What begins at `from` of where the segment comes from; `None`: that was asked, and its answer goes on with the copy.
pub(super) fn run_at(
    session: &mut Session,
    slot: SlotId,
    segment: &Segment,
    from: u64,
    cx: &mut Cx<'_>,
) -> Option<Run> {
    let end = segment.from_offset + segment.length;
    if segment.is_zero {
        return Some(Run {
            length: end - from,
            is_hole: true,
        });
    }
    if segment.length <= u64::from(MAX_IO_BYTES) {
        // It is read as fast as asked about, and what is read is known to be zeros as well.
        return Some(Run {
            length: end - from,
            is_hole: false,
        });
    }
    let chunk_bytes = u64::from(segment.from.chunk_bytes);
    let chunk = from / chunk_bytes * chunk_bytes;
    let maps = &mut session.engine.request(slot).own.maps;
    while maps.pop_front_if(|map| map.offset < chunk).is_some() {}
    let mut next = maps.back().map_or(chunk, |map| map.offset.saturating_add(chunk_bytes));
    let room = MAX_MAPS.saturating_sub(maps.len());
    for _ in 0..room {
        if next >= end {
            break;
        }
        let request = session.engine.request(slot);
        request.source = segment.from.source;
        let map = Map {
            offset: next,
            blocks: None,
        };
        request.own.maps.push_back(map);
        session.submit(slot, Submission::of(Op::Allocation { offset: next }), cx);
        next = next.saturating_add(chunk_bytes);
    }
    let maps = &session.engine.request(slot).own.maps;
    let blocks = maps.front()?.blocks.as_ref()?;
    let (first, last) = (from - chunk, end.min(chunk.saturating_add(chunk_bytes)) - chunk);
    Some(run(blocks, first, last))
}

/// It is known which blocks a chunk has.
pub(super) fn known(own: &mut Task, offset: u64, payload: Payload) {
    let map = own.maps.iter_mut().find(|map| map.offset == offset);
    if let (Some(map), Payload::Allocation(blocks)) = (map, payload) {
        map.blocks = Some(blocks);
    }
}

/// What begins at byte `from` of a chunk, as far as `end`.
fn run(blocks: &[u64; 16], from: u64, end: u64) -> Run {
    let is_allocated = |at: u64| {
        let block = (at / BLOCK) as usize;
        blocks[block / 64 % 16] >> (block % 64) & 1 == 1
    };
    let after = |mut at: u64, allocated: bool| {
        while at < end && is_allocated(at) == allocated {
            at = ((at / BLOCK + 1) * BLOCK).min(end);
        }
        at
    };
    let is_long = |begin: u64, hole_end: u64| hole_end == end || hole_end - begin >= MIN_HOLE_BYTES;
    let mut at = after(from, false);
    if at > from && is_long(from, at) {
        return Run {
            length: at - from,
            is_hole: true,
        };
    }
    // Data: to the next long hole, or as far as any piece of it goes.
    loop {
        at = after(at, true);
        let hole_end = after(at, false);
        if is_long(at, hole_end) || at - from >= u64::from(MAX_IO_BYTES) {
            return Run {
                length: at - from,
                is_hole: false,
            };
        }
        at = hole_end;
    }
}

/// How much of a hole is one piece where it goes: whole blocks as far as its chunk goes, or what there is of one block.
pub(super) fn piece_bytes(to: u64, length: u64, chunk_bytes: u32) -> u32 {
    match zeroes(to, length, chunk_bytes, true).next() {
        Some(ZeroStep::Clear(piece) | ZeroStep::Write(piece)) => piece.length,
        None => 0,
    }
}

#[cfg(test)]
mod tests;
