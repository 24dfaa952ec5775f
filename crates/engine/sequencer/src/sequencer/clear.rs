//! Clears of what was never written: they look, as reads do, and leave nothing behind.

use super::context::Context;
use super::{pipeline, read};
use crate::faults::Fault;
use crate::io::Course;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::{Kind, Read, Write};
use amita_reactor::{Slice, Time};
use amita_types::io::{Op, Payload};
use amita_types::{BlockIndex, SnapshotId, TraceId, Version};

/// Was nothing of the chunk ever written, and is nothing being written?
pub(super) fn is_never_written(cx: &Context, chunk: ChunkSlot) -> bool {
    let state = &cx.chunks[chunk];
    state.log.issued == Version::NONE
        && state.queues.comparing.is_none()
        && !cx.config.faults.has(Fault::ClearWhatIsNotThere)
}

/// A clear of a chunk of which nothing is written only looks, as a read does, whether there is still nothing. A version
/// would have every store keep a chunk of which there is nothing: who discards a large volume fills the index of its
/// stores with them, and a store that cannot take a clear, which has its version already, must be evicted (R7).
pub(super) fn look_instead(cx: &mut Context, now: Time, slot: TaskSlot, chunk: ChunkSlot) {
    let state = &mut cx.chunks[chunk];
    cx.tasks.unlink(&mut state.queues.clears, slot);
    let offset = state.index.0 * u64::from(cx.owned.chunk_bytes);
    let write = cx.tasks[slot].write();
    let (io, range) = (write.io, write.range);
    let op = Op::Clear {
        offset: offset + u64::from(write.offset_bytes),
        length: u64::from(write.length_bytes),
    };
    cx.tasks[slot].kind = Kind::Read(Read::new(io, op, range, SnapshotId::HEAD, Slice::default()));
    if !read::start(cx, now, slot) {
        cx.tasks.push(&mut cx.chunks[chunk].queues.reads, slot);
    }
}

/// There is nothing of the range: it is as if it had been cleared at that moment. Else it is cleared now.
pub(super) fn looked_instead(
    cx: &mut Context,
    chunk: ChunkSlot,
    group: GroupSlot,
    trace: TraceId,
    read: &Read,
    allocated: &[u64; 16],
    course: Course,
) {
    let is_there = |block: BlockIndex| allocated[usize::from(block.0) / 64] & 1 << (block.0 % 64) != 0;
    if !read.range.iter().any(is_there) {
        return cx.done(read.io, Ok(()), Payload::None, course);
    }
    let offset_bytes = (read.op.offset() % u64::from(cx.owned.chunk_bytes)) as u32;
    let length_bytes = read.op.length() as u32;
    let write = Write::new(
        read.io,
        true,
        (offset_bytes, length_bytes),
        read.range,
        Slice::default(),
    );
    let slot = cx.tasks.add(Kind::Write(write), group, Some(chunk));
    cx.tasks[slot].trace = trace;
    cx.tasks.push(&mut cx.chunks[chunk].queues.clears, slot);
    pipeline::block(cx, chunk);
    cx.intake.is_due = true;
}
