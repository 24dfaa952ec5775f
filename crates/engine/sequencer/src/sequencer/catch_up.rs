//! A write meets a member that cannot carry it out and cannot be spared: what it is to be merged with has rotted there (D7), or the
//! member lacks what it has answered (R8).
//!
//! The member refuses the write, because there is nothing to merge it with, and whatever follows it. Others have carried the
//! write out: nobody has the block as it was before, and to give the member what the others have *now* under the version of
//! before would let copies of one version differ. Where enough others are in sync the member is evicted, and its resync brings
//! the block. At the pool's least it stays, and would refuse the write for ever.
//!
//! A store that ends while the end of its log is not marked yet, and where a block of that end has rotted, takes the rot for the write
//! that was under way: it is back without the last batches, which it had answered, and cannot know it. Each further write of their
//! chunks it refuses for its predecessor. The same holds: it is evicted, or else would refuse for ever; and worse, who is being brought
//! up to date in its place waits for that very write.
//!
//! So the chunk is opened once more, as after a takeover: no write gets a version meanwhile; each member says what it has,
//! behind everything that it was sent; and the ones behind are rolled forward, to the version of the others and with whole
//! blocks, which need nothing to be merged with. Then every write up to that version is on all of them. What disturbs an
//! opening (a link, an epoch) has it begin again, here too.

use super::context::Context;
use super::state::ChunkState;
use super::{credits, open, pipeline, resend, silence, write};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::Time;
use amita_types::Version;

/// A member has refused a write that it must take, because of what its own copy has come to. Must it stay, and is there another one to
/// copy from?
pub(super) fn is_needed(cx: &Context, group: GroupSlot, position: Position) -> bool {
    let spared = cx.groups[group].members.current.count() > cx.owned.min_copies;
    is_possible(cx, group, position) && !spared
}

/// Is it in sync, and is there another one to copy from?
pub(super) fn is_possible(cx: &Context, group: GroupSlot, position: Position) -> bool {
    let current = cx.groups[group].members.current;
    current.has(position) && current.count() > 1 && !cx.config.faults.has(Fault::NoCatchUp)
}

/// Nothing that the member was sent of the chunk is unanswered.
pub(super) fn begin(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let state = &mut cx.chunks[chunk];
    if !matches!(state.state, ChunkState::Open) {
        return;
    }
    let group = state.group;
    state.lag.catching = true;
    cx.counters.caught_up += 1;
    open::enter(cx, chunk);
    open::advance(cx, now, group);
    silence::arm(cx, now);
}

/// Chunks of the group that came to nothing are tried again.
pub(super) fn again(cx: &mut Context, now: Time, group: GroupSlot) {
    for index in 0..cx.groups[group].busy.len() {
        let Some(chunk) = cx.groups[group].busy.get(index) else {
            return;
        };
        let behind = cx.chunks[chunk].lag.behind;
        let outstanding = resend::awaited_writes(cx, chunk).any(|slot| {
            let task = &cx.tasks[slot];
            !task.waiting.and(task.sent).and(behind).is_empty()
        });
        if !behind.is_empty() && !outstanding {
            begin(cx, now, chunk);
        }
    }
}

/// May this be the longest version that members have of a chunk which is caught up? One of them has all that was acknowledged, and
/// none has what was not given out.
pub(super) fn is_plausible(cx: &mut Context, chunk: ChunkSlot, longest: Version) -> bool {
    let log = &cx.chunks[chunk].log;
    if longest >= log.committed && log.may_show(longest, cx.owned.generation) {
        return true;
    }
    let (committed, issued) = (log.committed, log.issued);
    let why = format!("its copies are at {longest}, and {committed} was acknowledged, {issued} given out");
    open::warn_implausible(cx, chunk, why);
    false
}

/// Every member in sync holds the chunk whole at `version`: they have said so, or were rolled forward to it.
pub(super) fn end(cx: &mut Context, now: Time, chunk: ChunkSlot, version: Version) {
    if !is_plausible(cx, chunk, version) {
        return fail(cx, now, chunk);
    }
    let state = &mut cx.chunks[chunk];
    let group = state.group;
    state.lag.catching = false;
    let behind = std::mem::take(&mut state.lag.behind);
    state.lag.stalled = state.lag.stalled.without(behind);
    let current = cx.groups[group].members.current;
    let slots: Vec<TaskSlot> = resend::awaited_writes(cx, chunk).collect();
    for slot in slots {
        if cx.tasks[slot].write().version > version {
            break;
        }
        for position in cx.tasks[slot].waiting.and(current).iter() {
            if !cx.tasks[slot].sent.has(position) {
                credits::uncharge(cx, slot, position);
            }
            cx.settle(slot, position);
            cx.note_answer(now, slot, position);
        }
    }
    for position in behind.and(current).iter() {
        resend::of_chunk(cx, now, chunk, position);
    }
    write::commit(cx, chunk);
    cx.intake.is_due = true;
}

/// No member could give what the others need: the chunk goes on as it is, and that is tried again after a while.
pub(super) fn fail(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let state = &mut cx.chunks[chunk];
    state.state = ChunkState::Open;
    state.lag.catching = false;
    state.bad_sources = Members::NONE;
    let (group, behind, unproven) = (state.group, state.lag.behind, state.lag.unproven);
    // Where a doubt began it nobody has refused a write: who is looked at is left alone as long.
    let doubted = cx.groups[group].doubted.and(unproven);
    for position in behind.or(doubted).iter() {
        cx.pause(now, group, position, cx.config.unfit_pause());
    }
    cx.intake.is_due = true;
    let busy = cx.chunks[chunk].log.writes.head().is_some_and(|slot| {
        debug_assert!(matches!(cx.tasks[slot].kind, Kind::Write(_)));
        true
    });
    if !busy || behind.is_empty() {
        // All that was behind has left meanwhile.
        cx.chunks[chunk].lag.behind = Members::NONE;
    }
    pipeline::block(cx, chunk);
}
