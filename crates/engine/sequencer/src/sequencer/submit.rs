//! I/O comes in: it is checked, made a task, and queued at its chunk.

use super::context::Context;
use super::owned::Owned;
use super::{at_rest, changed, pipeline, read, write};
use crate::config::MAX_IOS;
use crate::io::{Course, IoId};
use crate::task::{Read, Told, Write};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::{BLOCK_BYTES, BlockRange, ChunkIndex, MAX_IO_BLOCKS, MAX_IO_BYTES, SnapshotId};

/// Where an I/O goes.
struct Place {
    chunk: ChunkIndex,
    offset_bytes: u32,
    length_bytes: u32,
    range: BlockRange,
}

/// Takes an I/O in, or says why not.
pub(super) fn accept(
    cx: &mut Context,
    now: Time,
    io: IoId,
    op: Op,
    data: Slice,
    at: SnapshotId,
    told: Told,
) -> Result<(), IoError> {
    if cx.stopped {
        return Err(IoError::Lost);
    }
    if at > SnapshotId::HEAD {
        if op.is_write() {
            return Err(IoError::ReadOnly);
        }
        if !cx.cut.is_released(at) {
            // Nobody can know of it who asks by the records.
            return Err(IoError::Invalid);
        }
    }
    if let Op::Differ { since, .. } | Op::ChangedChunks { since, .. } = op {
        let is_older = at == SnapshotId::HEAD || since < at;
        if since == SnapshotId::HEAD || !is_older || !cx.cut.is_released(since) {
            return Err(IoError::Invalid);
        }
    }
    if let Op::ChangedChunks { offset, since } = op {
        if at == SnapshotId::HEAD || !data.is_empty() {
            return Err(IoError::Invalid);
        }
        let changed = changed::list(cx, ChunkIndex(offset / u64::from(cx.owned.chunk_bytes)), since);
        cx.done(io, Ok(()), changed.to_payload(), Course::default());
        return Ok(());
    }
    if matches!(op, Op::Clear { length: 0, .. }) && data.is_empty() {
        // Nothing to do, and nothing to wait for: all that was answered is durable.
        cx.done(io, Ok(()), Payload::None, Course::default());
        return Ok(());
    }
    let place = place(&cx.owned, &op, &data, at)?;
    if cx.tasks.len() >= MAX_IOS {
        return Err(IoError::Busy);
    }
    let chunk = cx.chunk_slot(place.chunk);
    match op {
        Op::Write { .. } if at_rest::needs_surroundings(cx, place.offset_bytes, place.length_bytes) => {
            let range = at_rest::surroundings(place.offset_bytes, place.length_bytes);
            read::queue(cx, chunk, Read::new(io, op, range, at, data), told);
        }
        Op::Write { .. } | Op::Clear { .. } => {
            let clear = matches!(op, Op::Clear { .. });
            let write = Write::new(io, clear, (place.offset_bytes, place.length_bytes), place.range, data);
            write::queue(cx, now, chunk, write, told.trace);
        }
        Op::Read { .. }
        | Op::Allocation { .. }
        | Op::Differ { .. }
        | Op::ChangedChunks { .. }
        | Op::CompareAndWrite { .. } => {
            read::queue(cx, chunk, Read::new(io, op, place.range, at, data), told);
        }
    }
    pipeline::advance(cx, now, chunk);
    Ok(())
}

/// Checks an I/O. The fronts have cut it to pieces that fit; what does not is answered, never asserted.
fn place(owned: &Owned, op: &Op, data: &Slice, at: SnapshotId) -> Result<Place, IoError> {
    let (offset, length) = (op.offset(), op.length());
    let block = u64::from(BLOCK_BYTES);
    let valid = match *op {
        Op::Read { length, .. } => {
            let blocks = (offset % block + u64::from(length)).div_ceil(block);
            length > 0 && blocks <= u64::from(MAX_IO_BLOCKS)
        }
        Op::Write { length, .. } => {
            let blocks = (offset % block + u64::from(length)).div_ceil(block);
            // S15: the blocks at its ends are written as well.
            let fits = owned.keys.is_none() || blocks <= u64::from(MAX_IO_BLOCKS);
            fits && length > 0 && length <= MAX_IO_BYTES && data.len() == length as usize
        }
        Op::Clear { .. } => length > 0 && offset % block == 0 && length % block == 0,
        Op::CompareAndWrite { length, .. } => {
            length > 0 && length <= MAX_IO_BYTES / 2 && data.len() == 2 * length as usize
        }
        Op::Allocation { .. } | Op::Differ { .. } => true,
        Op::ChangedChunks { .. } => false,
    };
    if !valid || (!data.is_empty() && !matches!(op, Op::Write { .. } | Op::CompareAndWrite { .. })) {
        return Err(IoError::Invalid);
    }
    let chunk_bytes = u64::from(owned.chunk_bytes);
    let end = offset.checked_add(length.max(1)).ok_or(IoError::OutOfRange)?;
    let chunk = offset / chunk_bytes;
    // A snapshot has a size of its own, which may be more: whoever reads it knows it.
    let is_inside = at > SnapshotId::HEAD || end <= owned.volume.size_bytes;
    if !is_inside || (end - 1) / chunk_bytes != chunk {
        return Err(IoError::OutOfRange);
    }
    let offset_bytes = (offset % chunk_bytes) as u32;
    let length_bytes = length as u32;
    let range = match op {
        Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => {
            BlockRange::new(0, owned.blocks_per_chunk)
        }
        _ => BlockRange::of_bytes(offset_bytes, length_bytes),
    };
    assert!(range.is_inside(u32::from(owned.blocks_per_chunk)), "checked above");
    Ok(Place {
        chunk: ChunkIndex(chunk),
        offset_bytes,
        length_bytes,
        range,
    })
}
