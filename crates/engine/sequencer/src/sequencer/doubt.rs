//! A member in sync lacks what it has acknowledged, and what else it lacks nobody knows: it is in doubt (R8).
//!
//! A store that ends while a block of its log's end has rotted is back without the last of what it had answered, of whatever chunks
//! and volumes, and cannot know it. It is evicted; at the pool's least it stays, and is caught up (see `catch_up`). Then:
//!
//! * It is read where no other member can be asked, and only what it surely has. A read of the volume names the least version, all that
//!   was acknowledged, and a copy that is whole at a version of the one history has all of it (R1), so each such read is a proof. But
//!   a roll-forward brings only what is newer than the version that it began at. Whether that was one of the history, a store that has lost its
//!   memory does not prove: one that was once brought up to date may be back as it was before. So a chunk that it was rolled forward in is not
//!   read from it before its entries were compared with another member's.
//! * What a chunk was for snapshots is not read from it at all, nor what was changed since one: of most of these nobody knows which version a
//!   read must name (S7), and its states may end before what they must have.
//! * It is the source of no comparison where there is another.
//! * It goes when another member is there. Who is lost goes before it: it takes writes.
//! * Where no other member has an intact copy, and the look does not end the doubt, what may not be read from it fails after a while.
//!
//! Meanwhile all that it holds of the volume is looked at (see `resync/doubts`). Where it lacks nothing the doubt ends. What other
//! volumes have there their owners find out by themselves.

use super::context::Context;
use super::{catch_up, open, resend};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::Time;
use amita_types::SnapshotId;
use std::time::Duration;

/// How long a read waits for members in doubt to be looked at, where it may be answered from no other. Shorter than hosts wait (Linux: 30 s), for
/// whom no answer at all is the worst one.
const PATIENCE: Duration = Duration::from_secs(20);

/// A member in sync lacks something acknowledged of the chunk.
pub(super) fn found(cx: &mut Context, chunk: ChunkSlot, position: Position) {
    let group = cx.chunks[chunk].group;
    cx.chunks[chunk].lag.unproven.add(position);
    let state = &mut cx.groups[group];
    assert!(state.members.current.has(position), "others have acknowledged nothing");
    cx.counters.doubted += u64::from(!state.doubted.has(position));
    state.doubted.add(position);
    state.doubts += 1;
    cx.groups.doubted.insert(group);
    cx.metadata.evictions = true;
    cx.intake.is_due = true;
}

/// The same; where it cannot be spared it is caught up.
pub(super) fn lacks(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position) {
    found(cx, chunk, position);
    bring(cx, now, chunk, position);
}

fn bring(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position) {
    let owes = resend::awaited_writes(cx, chunk).any(|slot| {
        let task = &cx.tasks[slot];
        task.waiting.and(task.sent).has(position)
    });
    // What it was sent it refuses, and is caught up then.
    if !owes && catch_up::is_needed(cx, cx.chunks[chunk].group, position) {
        catch_up::begin(cx, now, chunk);
    }
}

/// A look at the member has found that it lacks something: it is caught up, where nothing is under way that would bring it.
pub(super) fn catch_up(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position) {
    cx.chunks[chunk].lag.unproven.add(position);
    bring(cx, now, chunk, position);
}

/// Members in sync that are not asked what this read asks.
pub(super) fn barred(cx: &Context, slot: TaskSlot) -> Members {
    let task = &cx.tasks[slot];
    let doubted = cx.groups[task.group].doubted;
    let Kind::Read(read) = &task.kind else {
        unreachable!("the caller asks of a read")
    };
    if doubted.is_empty() || cx.config.faults.has(Fault::TrustDoubted) {
        return Members::NONE;
    }
    if read.at > SnapshotId::HEAD || read.is_about_changes() {
        return doubted;
    }
    doubted.and(cx.chunks[task.chunk()].lag.unproven)
}

/// No member in sync has an intact copy that this read may be answered from, and looks at those in doubt have not changed that for long.
pub(super) fn is_in_vain(cx: &mut Context, now: Time, slot: TaskSlot) -> bool {
    let group = cx.tasks[slot].group;
    let state = &cx.groups[group];
    let current = state.members.current;
    if current.and(state.doubted).is_empty() {
        return false;
    }
    // One in which something wrong was found is not read at all.
    let out = barred(cx, slot).or(state.doubted.and(state.to_evict));
    let chunk = cx.tasks[slot].chunk();
    let read = cx.tasks[slot].read();
    if !current.without(out).without(read.damaged).is_empty() {
        read.barred_since = None;
        return false;
    }
    let until = read.barred_since.get_or_insert(now).plus(PATIENCE);
    if now < until {
        cx.agenda.reads_end = cx.agenda.reads_end.min(until);
        cx.agenda.arm(until);
        return false;
    }
    let doubted: Vec<String> = out
        .and(current)
        .iter()
        .map(|position| cx.id_of(group, position).to_string())
        .collect();
    let why = format!(
        "stores {} have lost what they had acknowledged, and no other has it intact",
        doubted.join(", ")
    );
    open::warn_implausible(cx, chunk, why);
    true
}
