//! Compare-and-write: what a chunk holds is compared, and written where it is as expected, with no write between.
//!
//! One at a time in a chunk. From the moment that it is the next one, no other write of the chunk gets a version; when
//! those that have one are acknowledged, the range is read as any read is (checked, held, leased: R3, R4). What it
//! brings is what every later write finds. If it is as expected, the new bytes are sequenced as the next write of the
//! chunk, and only then do others go on. A new owner cannot come between: a lease stood when the answer was given out,
//! and the write that follows is fenced with everything else of this generation.
//!
//! A write of an encrypted volume that is not of whole blocks goes the same way, and compares nothing (`at_rest.rs`).

use super::context::Context;
use super::{at_rest, pipeline, read, write};
use crate::io::Course;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::{Kind, Read, Write};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::{BLOCK_BYTES, BlockRange, SnapshotId, TraceId};

/// Goes on with the chunk's compare-and-write, or begins the next one.
pub(super) fn advance(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let state = &mut cx.chunks[chunk];
    if state.queues.comparing.is_none() {
        let Some(slot) = state.queues.compares.head() else {
            return;
        };
        cx.tasks.unlink(&mut state.queues.compares, slot);
        state.queues.comparing = Some(slot);
        cx.tasks.push(&mut state.queues.compared, slot);
    }
    let state = &mut cx.chunks[chunk];
    let Some(slot) = state.queues.compared.head() else {
        return;
    };
    if let Kind::Write(_) = cx.tasks[slot].kind {
        write::start(cx, now, slot);
    } else if state.log.count == 0 {
        cx.tasks.unlink(&mut state.queues.compared, slot);
        if !read::start(cx, now, slot) {
            cx.tasks.push(&mut cx.chunks[chunk].queues.reads, slot);
        }
    }
}

/// The chunk's compare-and-write has ended, or its write has a version: others go on.
pub(super) fn end(cx: &mut Context, chunk: ChunkSlot, slot: TaskSlot) {
    let state = &mut cx.chunks[chunk];
    if state.queues.comparing == Some(slot) {
        state.queues.comparing = None;
        pipeline::block(cx, chunk);
        cx.intake.is_due = true;
    }
}

/// What the blocks hold is here, and may be given out; empty: they are zeros. It has left the slot.
#[allow(clippy::too_many_arguments)]
pub(super) fn found(
    cx: &mut Context,
    slot: TaskSlot,
    chunk: ChunkSlot,
    group: GroupSlot,
    (trace, asked_at): (TraceId, Time),
    read: Read,
    blocks: &Slice,
    course: Course,
) {
    assert_eq!(cx.chunks[chunk].queues.comparing, Some(slot), "one at a time");
    let new = match read.op {
        Op::CompareAndWrite { offset, .. } => {
            let half = read.compare.len() / 2;
            let expected = &read.compare[..half];
            let skip = (offset % u64::from(BLOCK_BYTES)) as usize;
            let is_equal = match blocks.is_empty() {
                true => expected.iter().all(|byte| *byte == 0),
                false => blocks[skip..skip + half] == *expected,
            };
            if !is_equal {
                end(cx, chunk, slot);
                return cx.done(read.io, Err(IoError::Miscompare), Payload::None, course);
            }
            read.compare.slice(half..)
        }
        _ => read.compare,
    };
    let offset_bytes = (read.op.offset() % u64::from(cx.owned.chunk_bytes)) as u32;
    let length_bytes = new.len() as u32;
    let range = BlockRange::of_bytes(offset_bytes, length_bytes);
    let mut write = Write::new(read.io, false, (offset_bytes, length_bytes), range, new);
    let is_whole = cx.owned.keys.is_none() || at_rest::surround(&cx.config.pool, &mut write, read.range, blocks);
    let kind = match is_whole {
        true => Kind::Write(write),
        false => Kind::Read(other_end(cx, chunk, write)),
    };
    let slot = cx.tasks.add(kind, group, Some(chunk));
    cx.tasks[slot].trace = trace;
    cx.tasks[slot].asked_at = asked_at;
    let state = &mut cx.chunks[chunk];
    state.queues.comparing = Some(slot);
    cx.tasks.push(&mut state.queues.compared, slot);
    pipeline::block(cx, chunk);
    cx.intake.is_due = true;
}

/// One end of a write is whole: the other is read.
fn other_end(cx: &Context, chunk: ChunkSlot, write: Write) -> Read {
    let (offset, length) = (write.offset_bytes, write.length_bytes);
    let op = Op::Write {
        offset: cx.chunks[chunk].index.0 * u64::from(cx.owned.chunk_bytes) + u64::from(offset),
        length,
    };
    let range = at_rest::surroundings(offset, length);
    Read::new(write.io, op, range, SnapshotId::HEAD, write.payload)
}
