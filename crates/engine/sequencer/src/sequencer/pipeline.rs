//! A chunk's pipeline: what waits at a chunk is started as far as it can be, and what cannot stands by until something has
//! changed. Called for one chunk with each I/O that comes, and for those that stand by at the end of each event.

use super::context::Context;
use super::state::ChunkState;
use super::{clear, compare, open, read, write};
use crate::table::ChunkSlot;
use amita_reactor::Time;

/// Starts what can be started of a chunk's queues.
pub(super) fn advance(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    match cx.chunks[chunk].state {
        ChunkState::Closed => return open::want(cx, now, chunk),
        ChunkState::Waiting | ChunkState::Opening(_) => return,
        ChunkState::Open => {}
    }
    compare::advance(cx, now, chunk);
    advance_reads(cx, now, chunk);
    // Clears first: they need no space, and may be what brings some (R7).
    advance_clears(cx, now, chunk);
    advance_writes(cx, now, chunk);
    if cx.chunks[chunk].queues.waits() {
        block(cx, chunk);
    }
}

fn advance_reads(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let mut waits = None;
    while let Some(slot) = cx.chunks[chunk].queues.reads.head().filter(|slot| waits != Some(*slot)) {
        cx.tasks.unlink(&mut cx.chunks[chunk].queues.reads, slot);
        if !read::start(cx, now, slot) {
            // Back to where it stood would be the head; reads have no order among them.
            cx.tasks.push(&mut cx.chunks[chunk].queues.reads, slot);
            waits = waits.or(Some(slot));
            if cx.groups[cx.chunks[chunk].group].doubted.is_empty() {
                return;
            }
            // Of a member in doubt some may be asked what others may not.
        }
    }
}

fn advance_clears(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    while let Some(slot) = cx.chunks[chunk].queues.clears.head() {
        if clear::is_never_written(cx, chunk) {
            clear::look_instead(cx, now, slot, chunk);
        } else if !write::start(cx, now, slot) {
            return;
        }
    }
}

fn advance_writes(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    while let Some(slot) = cx.chunks[chunk].queues.writes.head() {
        if !write::start(cx, now, slot) {
            return;
        }
    }
}

/// Chunks of which something waits are looked at again.
pub(super) fn block(cx: &mut Context, chunk: ChunkSlot) {
    if !cx.chunks[chunk].queues.blocked {
        cx.chunks[chunk].queues.blocked = true;
        cx.intake.blocked.push_back(chunk);
    }
}

pub(super) fn retry(cx: &mut Context, now: Time) {
    // A retry may bring news that calls for another; each pass looks once at each chunk.
    while std::mem::take(&mut cx.intake.is_due) && !cx.stopped {
        for _ in 0..cx.intake.blocked.len() {
            let Some(chunk) = cx.intake.blocked.pop_front() else {
                break;
            };
            cx.chunks[chunk].queues.blocked = false;
            if matches!(cx.chunks[chunk].state, ChunkState::Open) {
                advance(cx, now, chunk);
            }
        }
    }
}

/// The chunk has writes with a version.
pub(super) fn mark_busy(cx: &mut Context, chunk: ChunkSlot) {
    let state = &mut cx.chunks[chunk];
    if state.busy_at.is_none() {
        state.busy_at = Some(cx.groups[state.group].busy.push(chunk));
    }
}

/// All of them are acknowledged.
pub(super) fn mark_quiet(cx: &mut Context, chunk: ChunkSlot) {
    let state = &mut cx.chunks[chunk];
    let place = state.busy_at.take().expect("a chunk with writes is in the list");
    if let Some(moved) = cx.groups[state.group].busy.remove(place, chunk) {
        cx.chunks[moved].busy_at = Some(place);
    }
}
