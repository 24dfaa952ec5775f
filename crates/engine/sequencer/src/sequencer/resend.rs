//! What a member has not got of a chunk's writes: it refused them, or its link has ended (R8). Everything is sent again in the
//! order of versions, and only when nothing that it was sent of the chunk is unanswered: else what is sent again would overtake
//! what is under way. Who cannot apply the next valid version is evicted (R7).

use super::context::Context;
use super::{catch_up, credits, doubt, faults, group, join, write};
use crate::config::MAX_REFUSALS;
use crate::faults::Fault;
use crate::members::Position;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::Time;
use amita_types::Version;
use amita_types::message::Refusal;

/// Sends a member, in the order of versions, what it has not been sent on its present link, of all chunks.
pub(super) fn of_group(cx: &mut Context, now: Time, group: GroupSlot, position: Position) {
    if !cx.can_send(group, position) {
        return;
    }
    for index in 0..cx.groups[group].busy.len() {
        let chunk = cx.groups[group].busy[index];
        of_chunk(cx, now, chunk, position);
    }
}

/// The same, of one chunk.
pub(super) fn of_chunk(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position) {
    let state = &cx.chunks[chunk];
    let group = state.group;
    if !cx.can_send(group, position) || state.lag.stalled.has(position) {
        return;
    }
    let backwards = cx.config.faults.has(Fault::ResendOutOfOrder);
    let writes = state.log.writes;
    let mut cursor = if backwards { writes.tail() } else { writes.head() };
    while let Some(slot) = cursor {
        cursor = if backwards {
            cx.tasks.previous(slot)
        } else {
            cx.tasks.next(slot)
        };
        let task = &mut cx.tasks[slot];
        if !task.waiting.has(position) || task.sent.has(position) {
            continue;
        }
        let again = task.sent_at[position] != Time(0);
        let write = task.write();
        let previous = (write.previous, write.previous_number);
        if !write.charged.has(position) {
            // A new link counts anew. Whether there is space was settled before the version was given out.
            credits::charge_to(cx, now, slot, position);
        }
        cx.counters.resent += u64::from(again);
        if again && cx.config.faults.has(Fault::SealAgain) {
            faults::seal_again(cx, slot);
        }
        join::first(cx, now, chunk, position, previous);
        write::send(cx, now, slot, position);
    }
}

/// A member has refused a write.
pub(super) fn refused(cx: &mut Context, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
    let chunk = cx.tasks[slot].chunk();
    let group = cx.tasks[slot].group;
    let store = cx.groups[group].members[position];
    cx.tasks[slot].sent.remove(position);
    if !matches!(refusal, Refusal::Busy) {
        // A refusal is an answer: what is sent again is owed since then, and does not make its store one that is stuck (R12). Leases
        // count from the first sending all the same (R4), and the store's pace is not that of our pauses.
        cx.tasks[slot].owed_since[position] = Time(0);
    }
    credits::uncharge(cx, slot, position);
    // What was sent behind it is refused as well: once all of that is in, everything is sent again in order.
    cx.chunks[chunk].lag.stalled.add(position);
    let unfit = match refusal {
        Refusal::StaleEpoch { .. }
        | Refusal::NotFenced
        | Refusal::Fenced { .. }
        | Refusal::Busy
        | Refusal::Poisoned
        | Refusal::NoSuchStore => false,
        // It has not joined the chunk's history: that is asked again before the write.
        Refusal::WrongPredecessor { .. } if join::is_needed(cx, chunk, position) => false,
        Refusal::WrongPredecessor { .. } if first_awaited(cx, chunk, position) != Some(slot) => false,
        // R8: it lacks what it has answered, and would refuse for ever. It goes as soon as it can be spared, behind those that take no writes
        // at all, and is caught up where it is needed until then.
        Refusal::WrongPredecessor { .. } if catch_up::is_possible(cx, group, position) => {
            cx.warn_refused(group, store, refusal);
            doubt::found(cx, chunk, position);
            match catch_up::is_needed(cx, group, position) {
                true => cx.chunks[chunk].lag.behind.add(position),
                false => cx.pause(now, group, position, cx.config.unfit_pause()),
            }
            false
        }
        Refusal::Invalid { .. } => {
            let write = cx.tasks[slot].write();
            write.refusals += 1;
            let unfit = write.refusals > MAX_REFUSALS;
            cx.pause(now, group, position, cx.config.busy_pause);
            unfit
        }
        // D7: one that cannot be spared is brought up to date without the write.
        Refusal::Damaged { .. } if catch_up::is_needed(cx, group, position) => {
            warn_rotten(cx, slot, position, refusal);
            cx.chunks[chunk].lag.behind.add(position);
            false
        }
        // R7: who cannot apply the next valid version is evicted.
        _ => true,
    };
    if unfit {
        cx.warn_refused(group, store, refusal);
        group::evict_soon(cx, group, position);
        cx.pause(now, group, position, cx.config.unfit_pause());
    }
    unstall(cx, now, chunk, position);
}

/// Says that a block under a write has rotted, where that is where the refusal says.
fn warn_rotten(cx: &mut Context, slot: TaskSlot, position: Position, refusal: &Refusal) {
    let task = &cx.tasks[slot];
    if let &Refusal::Damaged { block } = refusal {
        cx.found_damage(task.group, position, task.chunk(), block);
    }
}

/// Sends again what a member refused, once everything that it was sent of the chunk is answered.
pub(super) fn unstall(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position) {
    if !cx.chunks[chunk].lag.stalled.has(position) {
        return;
    }
    let outstanding = awaited_writes(cx, chunk).any(|slot| {
        let task = &cx.tasks[slot];
        task.waiting.has(position) && task.sent.has(position)
    });
    if !outstanding && cx.chunks[chunk].lag.behind.has(position) {
        catch_up::begin(cx, now, chunk);
    } else if !outstanding {
        cx.chunks[chunk].lag.stalled.remove(position);
        of_chunk(cx, now, chunk, position);
    }
}

/// A member that leaves owes no answer any more. What it was not sent it does not count; of what it was sent, its
/// answer tells.
pub(super) fn forget(cx: &mut Context, slot: TaskSlot, position: Position) {
    if cx.tasks[slot].sent.has(position) {
        let id = cx.tasks.id(slot);
        let write = cx.tasks[slot].write();
        let blocks = u64::from(write.taken[position]);
        if write.charged.has(position) && blocks > 0 {
            let number = cx.groups[cx.tasks[slot].group].members[position];
            cx.stores[number].credits.in_doubt.push((id, blocks));
        }
    } else {
        credits::uncharge(cx, slot, position);
    }
    cx.tasks[slot].steps.missed = Some(cx.groups[cx.tasks[slot].group].members[position]);
    cx.settle(slot, position);
}

/// The oldest write of the chunk that the member has not answered.
fn first_awaited(cx: &Context, chunk: ChunkSlot, position: Position) -> Option<TaskSlot> {
    awaited_writes(cx, chunk).find(|&slot| cx.tasks[slot].waiting.has(position))
}

/// Has a member answered all of the chunk's writes up to this version that it was to be sent?
pub(super) fn has_answered(cx: &Context, chunk: ChunkSlot, position: Position, upto: Version) -> bool {
    let is_owed = |slot: TaskSlot| {
        let task = &cx.tasks[slot];
        task.waiting.has(position) && matches!(&task.kind, Kind::Write(write) if write.version <= upto)
    };
    !awaited_writes(cx, chunk).any(is_owed)
}

/// The chunk's writes that have a version, in its order.
pub(super) fn awaited_writes(cx: &Context, chunk: ChunkSlot) -> impl Iterator<Item = TaskSlot> + '_ {
    let mut cursor = cx.chunks[chunk].log.writes.head();
    std::iter::from_fn(move || {
        let slot = cursor?;
        cursor = cx.tasks.next(slot);
        Some(slot)
    })
}
