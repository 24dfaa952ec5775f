//! The whole life of a write, or of a clear, from submitted to acknowledged. The rules are those of `docs/protocol.md`.
//!
//! * *Submitted* (`submit.rs` checks it) and *queued* at its chunk: [`queue`]. The chunk is opened first where
//!   it is not (R6, `open.rs`); where no opening succeeds, the write fails.
//! * *Ready*: its turn comes by the chunk's pipeline (`pipeline.rs`), [`start`]. Limits are kept and space is
//!   settled before it has a version, because a version that was given out must be applied (R7, `credits.rs`).
//!   There must be as many members as the pool asks for (R10); a compare-and-write whose turn it is goes first
//!   (`compare.rs`), and so does the comparison of a chunk with a syncing member's copy, for a moment (R5, `resync`). What no
//!   store has room for fails here, without a version.
//! * *Sequenced*: it gets the version after the last one, and names that one (R1); of an encrypted volume it is encrypted (`at_rest.rs`). A syncing member that has not joined the
//!   chunk's history is asked to first (R5, `join.rs`).
//! * *Sent* to every member at once, behind everything that the member was sent before. Its payload is kept until the end
//!   and sent again where a link broke, or where it was refused (R8, `resend.rs`).
//! * *Answered*: [`written`], member by member. Who never answers is evicted (R12, `silence.rs`, `metadata.rs`).
//! * *Committed* when all have answered (R2), in the order of versions, and *acknowledged*: [`commit`], or [`commit_group`]
//!   when those that had not answered have left.
//! * Where the sequencer ends first, the host is told that the outcome is not known ([`Sequencer::release`](super::Sequencer::release)).

use super::context::Context;
use super::credits::charge;
use super::{at_rest, compare, credits, cut, faults, join, open, pipeline, read, resend};
use crate::config::{MAX_SHARD_BYTES, MAX_STORE_BYTES, MAX_WRITES_PER_CHUNK};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::{Kind, Write};
use amita_reactor::Time;
use amita_reactor::buggify::{Point, narrow};
use amita_types::io::{IoError, Payload};
use amita_types::message::Sums;
use amita_types::{BLOCK_BYTES, TraceId, Version};

/// May a write be given its version?
enum Gate {
    Open,
    Wait,
    NoSpace,
}

/// Submitted, and found valid: queued at its chunk.
pub(super) fn queue(cx: &mut Context, now: Time, chunk: ChunkSlot, write: Write, trace: TraceId) {
    let clear = write.clear;
    let slot = cx.tasks.add(Kind::Write(write), cx.chunks[chunk].group, Some(chunk));
    cx.tasks[slot].trace = trace;
    cx.tasks[slot].asked_at = now;
    let state = &mut cx.chunks[chunk];
    cx.tasks.push(state.queues.of_writes(clear), slot);
}

/// Sequences the first write of its queue, or fails it; false when it must wait.
pub(super) fn start(cx: &mut Context, now: Time, slot: TaskSlot) -> bool {
    let chunk = cx.tasks[slot].chunk();
    match gate(cx, now, slot, chunk) {
        Gate::Wait => return false,
        Gate::Open => {
            // R1: a pair of generation and counter, naming the one before.
            let issued = cx.chunks[chunk].log.issued;
            match issued.next(cx.owned.generation).filter(|version| *version > issued) {
                Some(version) => {
                    dequeue(cx, slot, chunk);
                    sequence(cx, now, slot, chunk, version);
                    compare::end(cx, chunk, slot);
                }
                None => counter_ended(cx, slot, chunk),
            }
        }
        Gate::NoSpace => fail(cx, slot, chunk, IoError::NoSpace),
    }
    true
}

/// Space and limits, before a version is given out (R7).
fn gate(cx: &mut Context, now: Time, slot: TaskSlot, chunk: ChunkSlot) -> Gate {
    let number = cx.chunks[chunk].group;
    let group = &cx.groups[number];
    let write = cx.tasks[slot].write();
    let bytes = write.payload.len() as u64;
    let blocks = charge(write);
    let current = group.members.current;
    if current.count() < cx.owned.min_copies && !cx.config.faults.has(Fault::IgnoreMinCopies) {
        return Gate::Wait;
    }
    let state = &cx.chunks[chunk];
    if state.held_back || state.queues.comparing.is_some_and(|comparing| comparing != slot) {
        return Gate::Wait;
    }
    if state.log.count >= most_writes() || cx.intake.bytes + bytes > MAX_SHARD_BYTES {
        return Gate::Wait;
    }
    let mut short = Members::NONE;
    for position in group.members.writers().iter() {
        let store = &cx.stores[group.members[position]];
        if store.owed.bytes > 0 && store.owed.bytes + bytes > MAX_STORE_BYTES {
            return Gate::Wait;
        }
        if store.credits.blocks < blocks {
            short.add(position);
        }
    }
    if short.is_empty() || cx.config.faults.has(Fault::NoCredits) {
        return Gate::Open;
    }
    if credits::ask(cx, now, slot, number, short) {
        Gate::NoSpace
    } else {
        Gate::Wait
    }
}

fn dequeue(cx: &mut Context, slot: TaskSlot, chunk: ChunkSlot) {
    let state = &mut cx.chunks[chunk];
    let clear = cx.tasks[slot].write().clear;
    let queue = if state.queues.comparing == Some(slot) {
        &mut state.queues.compared
    } else {
        state.queues.of_writes(clear)
    };
    cx.tasks.unlink(queue, slot);
}

/// Gives the write its version and sends it to all who must have it: the in-sync members, and the syncing ones that were
/// fenced (R2). One that cannot be sent anything now gets it when it can (R8).
fn sequence(cx: &mut Context, now: Time, slot: TaskSlot, chunk: ChunkSlot, version: Version) {
    let group = cx.chunks[chunk].group;
    let state = &mut cx.chunks[chunk];
    let number = cx.cut.number;
    let (previous, previous_number) = state.log.issue(version, number);
    cx.tasks.push(&mut state.log.writes, slot);
    let write = cx.tasks[slot].write();
    write.version = version;
    write.previous = previous;
    (write.number, write.previous_number) = (number, previous_number);
    // Before the checksums: they are the ciphertext's.
    at_rest::seal(cx, slot);
    let write = cx.tasks[slot].write();
    write.sums = sums(write);
    let bytes = write.payload.len() as u64;
    cx.intake.bytes += bytes;
    let mut members = cx.groups[group].members.writers();
    if cx.config.faults.has(Fault::ServeHalfFenced) {
        members = members.and(cx.groups[group].fence.ready);
    }
    pipeline::mark_busy(cx, chunk);
    for position in members.iter() {
        credits::charge_to(cx, now, slot, position);
        cx.expect(now, slot, position);
        if cx.can_send(group, position) && !cx.chunks[chunk].lag.stalled.has(position) {
            join::first(cx, now, chunk, position, (previous, previous_number));
            send(cx, now, slot, position);
        }
    }
}

pub(super) fn send(cx: &mut Context, now: Time, slot: TaskSlot, position: Position) {
    let index = cx.chunks[cx.tasks[slot].chunk()].index;
    let write = cx.tasks[slot].write();
    let (body, payload) = (write.request(index), write.payload.clone());
    cx.send(now, slot, position, body, payload);
}

/// Answered: a member has the write durable. An answer under an older epoch of ours counts as well.
pub(super) fn written(cx: &mut Context, now: Time, slot: TaskSlot, position: Position) {
    let chunk = cx.tasks[slot].chunk();
    cx.settle(slot, position);
    if cx.tasks[slot].write().clear {
        // It may have made room.
        let number = cx.groups[cx.tasks[slot].group].members[position];
        cx.stores[number].credits.forget_words();
    }
    cx.note_answer(now, slot, position);
    resend::unstall(cx, now, chunk, position);
    if cx.config.faults.has(Fault::AcknowledgeEarly) {
        faults::tell_early(cx, slot);
    }
    if cx.config.faults.has(Fault::AcknowledgeByMajority) {
        faults::tell_by_majority(cx, slot);
    }
    commit(cx, chunk);
}

/// Acknowledges what every in-sync member has, in the order of versions.
pub(super) fn commit(cx: &mut Context, chunk: ChunkSlot) {
    if cx.config.faults.has(Fault::ForgetClaimed) {
        faults::forget_claimed(cx, chunk);
    }
    let mut any = false;
    while let Some(slot) = cx.chunks[chunk].log.writes.head()
        && is_everywhere(cx, slot)
    {
        acknowledge(cx, chunk, slot);
        any = true;
    }
    if !any {
        return;
    }
    cx.intake.is_due = true;
    if cx.chunks[chunk].log.writes.is_empty() {
        pipeline::mark_quiet(cx, chunk);
    }
    // R3: what reads have found up to here may be given out.
    read::release_held(cx, chunk);
}

/// Has every member answered that is in sync, or syncing and gets all writes (R2)? Are they enough (R10)?
fn is_everywhere(cx: &mut Context, slot: TaskSlot) -> bool {
    if cx.config.faults.has(Fault::IgnoreLost) {
        faults::forget_lost(cx, slot);
    }
    if cx.config.faults.has(Fault::SkipSyncing) {
        faults::forget_syncing(cx, slot);
    }
    let task = &cx.tasks[slot];
    let current = cx.groups[task.group].members.current.count();
    let number = match &task.kind {
        Kind::Write(write) => write.number,
        other => unreachable!("a chunk's writes are writes, not {other:?}"),
    };
    // S2: until all cores carry its number, nobody may hear of it.
    let released = cx.cut.is_released(number) || cx.config.faults.has(Fault::NoCutHold);
    task.waiting.is_empty()
        && released
        && (current >= cx.owned.min_copies || cx.config.faults.has(Fault::IgnoreMinCopies))
}

/// The client is told. The payload is kept no longer.
fn acknowledge(cx: &mut Context, chunk: ChunkSlot, slot: TaskSlot) {
    let state = &mut cx.chunks[chunk];
    cx.tasks.unlink(&mut state.log.writes, slot);
    let course = cx.course(slot);
    let Kind::Write(write) = cx.tasks.remove(slot) else {
        unreachable!("a chunk's writes are writes")
    };
    cx.chunks[chunk].log.commit(write.previous, write.version);
    cx.intake.bytes -= write.payload.len() as u64;
    cx.counters.writes += 1;
    cut::acknowledged(cx, write.number);
    if !write.told {
        cx.done(write.io, Ok(()), Payload::None, course);
    }
}

/// Members have left the group: writes may have nobody to wait for any more.
pub(super) fn commit_group(cx: &mut Context, group: GroupSlot) {
    let mut index = 0;
    while let Some(chunk) = cx.groups[group].busy.get(index) {
        commit(cx, chunk);
        // A chunk that has nothing more under way leaves the list, and another stands in its place.
        if cx.groups[group].busy.get(index) == Some(chunk) {
            index += 1;
        }
    }
}

fn fail(cx: &mut Context, slot: TaskSlot, chunk: ChunkSlot, error: IoError) {
    dequeue(cx, slot, chunk);
    let io = cx.tasks[slot].write().io;
    let course = cx.course(slot);
    cx.tasks.remove(slot);
    compare::end(cx, chunk, slot);
    cx.done(io, Err(error), Payload::None, course);
}

/// The chunk has no further version. No client writes a chunk 2^40 times; a member that lies claims it in one message.
/// The chunk can be read, and the process has nothing to do with it.
fn counter_ended(cx: &mut Context, slot: TaskSlot, chunk: ChunkSlot) {
    let issued = cx.chunks[chunk].log.issued;
    let why = format!("its version {issued} is the last that there is, so that it cannot be written any more");
    open::warn_implausible(cx, chunk, why);
    fail(cx, slot, chunk, IoError::Damaged);
}

/// Writes of one chunk with a version and without an acknowledgement, at most.
fn most_writes() -> u32 {
    if narrow(Point::OneWrite) {
        1
    } else {
        MAX_WRITES_PER_CHUNK
    }
}

/// CRC-32C of each piece of the payload: computed once, when the write is sequenced, and checked at every step on.
pub(super) fn sums(write: &Write) -> Sums {
    let mut sums = Sums::with_capacity(usize::from(write.range.count));
    let mut rest: &[u8] = &write.payload;
    let mut room = (BLOCK_BYTES - write.offset_bytes % BLOCK_BYTES) as usize;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(room.min(rest.len()));
        sums.push(amita_types::crc32c(piece));
        rest = after;
        room = BLOCK_BYTES as usize;
    }
    sums
}
