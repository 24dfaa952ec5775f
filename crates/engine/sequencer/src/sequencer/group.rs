//! Fencing: a group serves when every in-sync member has durably adopted its epoch and our generation.
//!
//! That happens when the group is first touched, after each change of its epoch, and for one member after each of its
//! reconnections (a store that restarted may not know us any more). Until a member has answered the fence nothing else
//! is sent to it; then everything that it has not answered is sent, in the order of versions.

use super::context::Context;
use super::resync::Resync;
use super::state::{Group, GroupState};
use super::{catch_up, credits, faults, join, lease, metadata, open, parents, read, resend, silence, write};
use crate::faults::Fault;
use crate::io::{Effect, StopReason, Warning};
use crate::members::{Members, Position, Seats};
use crate::table::{GroupSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::{Slice, Time};
use amita_types::StoreId;
use amita_types::map;
use amita_types::message::{FenceRequest, MemberSet, Refusal, RequestBody};

/// A group as its record has it, at the start.
pub(super) fn add(cx: &mut Context, now: Time, record: map::Group, revision: u64) {
    assert_eq!(record.index.0 as usize, cx.groups.len(), "groups come in order");
    let members: Seats = record.in_sync.iter().map(|&id| cx.store_slot(now, id)).collect();
    let group = cx.groups.add(Group::new(cx.owned.pool.id, members, record, revision));
    count_behind(cx, now, group, true);
    if !cx.groups[group].record.syncing.is_empty() {
        seat_newcomers(cx, now, group);
        cx.groups.to_touch.push(group);
        cx.agenda.arm(now);
    }
}

/// The first I/O of a group.
pub(super) fn touch(cx: &mut Context, now: Time, group: GroupSlot) {
    if cx.groups[group].is_touched() {
        return;
    }
    let hinted = cx.groups[group].touch();
    cx.groups.touched.push(group);
    // R10: all told, the rest evicted first. Who is known to be lost is evicted lazily, here.
    let state = &cx.groups[group];
    let mut members = state.members.all().iter();
    cx.metadata.evictions |=
        members.any(|position| state.to_evict.has(position) || cx.stores[state.members[position]].lost);
    if hinted {
        metadata::reread(cx, group);
    }
    send_fence(cx, now, group);
    silence::arm_of(cx, now, group);
}

/// Sends the fence to members that have not adopted it. It is kept for those that cannot be reached.
pub(super) fn send_fence(cx: &mut Context, now: Time, group: GroupSlot) {
    let state = &cx.groups[group];
    if state.state != GroupState::Touched {
        // Where the epoch is in doubt it is read first; one that nothing was asked of has nobody to be told.
        return;
    }
    let lacking = state.unfenced();
    if lacking.is_empty() {
        return;
    }
    let slot = match state.fence.task {
        Some(slot) => slot,
        None => {
            let epoch = state.record.epoch;
            let slot = cx.tasks.add(Kind::Fence { epoch }, group, None);
            cx.groups[group].fence.task = Some(slot);
            slot
        }
    };
    let in_sync = ids_of(cx, group, cx.groups[group].members.current);
    let syncing = ids_of(cx, group, cx.groups[group].members.syncing);
    for position in lacking.iter() {
        let state = &cx.groups[group];
        let up = cx.stores[state.members[position]].link.up;
        let paused = state.paused.has(position);
        if cx.tasks[slot].waiting.has(position) && !cx.tasks[slot].sent.has(position) {
            // Was sent on a link that has ended.
            cx.settle(slot, position);
        }
        if up && !paused && !cx.tasks[slot].waiting.has(position) {
            let body = RequestBody::Fence(FenceRequest {
                owner: cx.owned.owner,
                in_sync: in_sync.to_vec(),
                syncing: syncing.to_vec(),
                blocks_per_chunk: cx.owned.blocks_per_chunk,
                given_back: cx.owned.given_back,
            });
            cx.expect(now, slot, position);
            cx.send(now, slot, position, body, Slice::default());
        }
    }
}

fn ids_of(cx: &Context, group: GroupSlot, members: Members) -> MemberSet {
    let group = &cx.groups[group];
    members
        .iter()
        .map(|position| cx.stores[group.members[position]].id)
        .collect()
}

/// A member has adopted the fence.
pub(super) fn fenced(cx: &mut Context, resync: &mut Resync, now: Time, slot: TaskSlot, position: Position) {
    let group = cx.tasks[slot].group;
    let Kind::Fence { epoch } = cx.tasks[slot].kind else {
        unreachable!("the caller has looked")
    };
    assert_eq!(epoch, cx.groups[group].record.epoch, "a fence ends with its epoch");
    cx.settle(slot, position);
    cx.groups[group].fence.ready.add(position);
    let store = cx.groups[group].members[position];
    cx.stores[store].adopted = true;
    cx.cut.stores_changed();
    drop_fence_if_done(cx, group);
    if cx.groups[group].members.syncing.has(position) {
        resync.entered(cx, now, group, position);
    }
    resend::of_group(cx, now, group, position);
    open::advance(cx, now, group);
    cx.intake.is_due = true;
}

pub(super) fn refused(cx: &mut Context, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
    let group = cx.tasks[slot].group;
    cx.settle(slot, position);
    let mut pause = cx.config.busy_pause;
    match refusal {
        // Dealt with by whoever looked at the refusal first. The fence is sent again after a moment.
        Refusal::StaleEpoch { .. } | Refusal::Busy | Refusal::NotFenced => {}
        Refusal::Poisoned | Refusal::NoSuchStore => pause = cx.config.unfit_pause(),
        other => {
            pause = cx.config.unfit_pause();
            cx.warn_refused(group, cx.groups[group].members[position], other);
            evict_soon(cx, group, position);
        }
    }
    cx.pause(now, group, position, pause);
}

fn drop_fence_if_done(cx: &mut Context, group: GroupSlot) {
    let state = &mut cx.groups[group];
    if state.unfenced().is_empty()
        && let Some(slot) = state.fence.task.take()
    {
        cx.settle_all(slot);
        cx.tasks.remove(slot);
    }
}

/// A member cannot go on: the group must.
pub(super) fn evict_soon(cx: &mut Context, group: GroupSlot, position: Position) {
    cx.groups[group].to_evict.add(position);
    cx.metadata.evictions = true;
    cx.intake.is_due = true;
}

/// Are all members fenced that must be before chunks are opened? All that are in sync (R6, R10). Syncing ones need not
/// be: what they hold is compared when they join a chunk's history, and nobody takes them in before. But for those that are called
/// whole for a clone: they make what it inherits.
pub(super) fn is_fenced(cx: &Context, group: GroupSlot) -> bool {
    let state = &cx.groups[group];
    let mut must = state.members.current.or(parents::bound(cx, group));
    if cx.config.faults.has(Fault::ServeHalfFenced) {
        must = faults::only_reachable(cx, group, must);
    }
    !must.is_empty() && must.without(state.fence.ready).is_empty()
}

/// Takes over what the metadata says of a group. The volume's generation was read, or compared, in the same
/// transaction and is ours (R2).
pub(super) fn adopt(
    cx: &mut Context,
    resync: &mut Resync,
    now: Time,
    group: GroupSlot,
    record: map::Group,
    revision: u64,
) {
    let known = &cx.groups[group];
    let key = || map::group_key(known.id.pool, known.id.index);
    if revision == known.revision {
        return;
    }
    if record.epoch < known.record.epoch || revision < known.revision {
        return cx.stop(StopReason::Metadata {
            what: key(),
            why: format!("its epoch went from {} back to {}", known.record.epoch, record.epoch),
        });
    }
    if record.epoch == known.record.epoch {
        if record.in_sync != known.record.in_sync || record.syncing != known.record.syncing {
            return cx.stop(StopReason::Metadata {
                what: key(),
                why: format!("its members changed and its epoch {} did not", record.epoch),
            });
        }
        let known = &mut cx.groups[group];
        known.record = record;
        known.revision = revision;
        return;
    }
    let mut current = Members::NONE;
    for &id in &record.in_sync {
        let known = &cx.groups[group];
        // A syncing member may be in sync now only if we have said that it holds everything of ours.
        match position_of(cx, group, id) {
            Some(position) if known.members.current.or(known.members.whole).has(position) => current.add(position),
            _ => {
                return cx.stop(StopReason::Metadata {
                    what: key(),
                    why: format!(
                        "store {id} is in sync since epoch {}, which we did not bring about",
                        record.epoch
                    ),
                });
            }
        }
    }
    enter(cx, resync, now, group, record, revision, current);
}

fn position_of(cx: &Context, group: GroupSlot, id: StoreId) -> Option<Position> {
    let number = cx.stores.slot_of(id)?;
    let position = cx.groups.position(group, number)?;
    cx.groups[group].members.all().has(position).then_some(position)
}

/// The group's new epoch: who left is awaited no more, who stays must adopt it.
fn enter(
    cx: &mut Context,
    resync: &mut Resync,
    now: Time,
    group: GroupSlot,
    record: map::Group,
    revision: u64,
    current: Members,
) {
    let mut stays = Members::NONE;
    for syncing in &record.syncing {
        let state = &cx.groups[group];
        if let Some(position) = position_of(cx, group, syncing.store)
            && state.members.syncing.has(position)
            && state.members.since[position] == syncing.since
        {
            stays.add(position);
        }
    }
    count_behind(cx, now, group, false);
    cx.groups.stuck.remove(&group);
    let state = &mut cx.groups[group];
    let left = state.members.all().without(current.or(stays));
    let evicted = state.members.current.without(current);
    let arrived = current.without(state.members.current);
    state.record = record;
    state.revision = revision;
    count_behind(cx, now, group, true);
    let state = &mut cx.groups[group];
    state.members.enter(current, stays);
    cx.cut.stores_changed();
    state.fence.ready = Members::NONE;
    state.to_evict = state.to_evict.and(current.or(stays));
    state.doubted = state.doubted.and(current);
    state.doubts += 1;
    state.missed = Members::NONE;
    if let Some(fence) = state.fence.task.take() {
        cx.settle_all(fence);
        cx.tasks.remove(fence);
    }
    open::reset(cx, group);
    for position in evicted.iter() {
        let warning = Warning::Evicted {
            group: cx.groups[group].id,
            store: cx.id_of(group, position),
            epoch: cx.groups[group].record.epoch,
        };
        cx.effects.push_back(Effect::Warn(warning));
    }
    cx.counters.sync_dropped += left.without(evicted).count() as u64;
    cx.counters.sync_promoted += arrived.count() as u64;
    resync.forget(cx, group, left.or(arrived));
    forget_members(cx, resync, now, group, left);
    seat_newcomers(cx, now, group);
    // Only now, the generation being known to be ours, is acknowledged what missed only those that left (R2).
    write::commit_group(cx, group);
    send_fence(cx, now, group);
    cx.intake.is_due = true;
    cx.metadata.evictions = true;
}

/// Gives each syncing member of the record that has none a place.
fn seat_newcomers(cx: &mut Context, now: Time, group: GroupSlot) {
    let listed = cx.groups[group].record.syncing.clone();
    for map::Syncing { store, since } in listed {
        if position_of(cx, group, store).is_some() {
            continue;
        }
        let number = cx.store_slot(now, store);
        let taken = cx.groups[group].members.all();
        let Some(position) = Position::all().find(|&position| !taken.has(position)) else {
            // More than there may be: it gets no place, and is never said to be whole.
            continue;
        };
        // A store has one place at most: its old one, if it had another, is not its place any more.
        let state = &mut cx.groups[group];
        state.members.seat(position, number, since);
        clear_place(cx, group, position);
        cx.counters.sync_started += 1;
    }
}

/// What is remembered of who had the place before is forgotten.
fn clear_place(cx: &mut Context, group: GroupSlot, position: Position) {
    for slot in cx.tasks.slots_of(group) {
        let task = &mut cx.tasks[slot];
        if task.group != group {
            continue;
        }
        task.sent.remove(position);
        match &mut task.kind {
            Kind::Write(write) => {
                write.charged.remove(position);
                write.asked.remove(position);
            }
            Kind::Read(read) => {
                read.tried.remove(position);
                read.damaged.remove(position);
            }
            _ => {}
        }
    }
    for &chunk in &cx.groups[group].chunks {
        let chunk = &mut cx.chunks[chunk];
        chunk.lag.forget(Members::one(position));
        chunk.lag.unproven.remove(position);
        chunk.bad_sources.remove(position);
        chunk.history.joined.remove(position);
        chunk.history.joining.remove(position);
    }
}

/// What members that left still owe is owed no more, and whatever they answer is not looked at.
fn forget_members(cx: &mut Context, resync: &mut Resync, now: Time, group: GroupSlot, left: Members) {
    for slot in cx.tasks.slots_of(group) {
        if cx.tasks[slot].group != group {
            continue;
        }
        for position in left.and(cx.tasks[slot].waiting).iter() {
            if !cx.tasks[slot].waiting.has(position) {
                // Its end has settled all of it.
                continue;
            }
            match cx.tasks[slot].kind {
                Kind::Read(_) => read::give_up_on(cx, now, slot, position),
                Kind::RenewLease => lease::renewal_ended(cx, slot, position),
                Kind::Settle { .. } => credits::forget(cx, slot, position),
                Kind::Orphan => cx.settle_and_drop(slot, position),
                Kind::Join => join::lost(cx, slot, position),
                Kind::Sync(step) => resync.lost(cx, now, slot, position, step),
                Kind::Write(_) => resend::forget(cx, slot, position),
                Kind::Free | Kind::Fence { .. } | Kind::Open(_) => {
                    unreachable!("fences and openings have ended with the epoch")
                }
            }
        }
    }
    cx.agenda
        .pauses
        .retain(|&(_, paused, position)| paused != group || !left.has(position));
    let state = &mut cx.groups[group];
    state.paused = state.paused.without(left);
    for index in 0..cx.groups[group].busy.len() {
        let chunk = cx.groups[group].busy[index];
        cx.chunks[chunk].lag.forget(left);
    }
}

/// Members that were left alone for a moment get what they lack.
pub(super) fn end_pauses(cx: &mut Context, now: Time) {
    let mut index = 0;
    while index < cx.agenda.pauses.len() {
        let (until, group, position) = cx.agenda.pauses[index];
        if until > now {
            index += 1;
            continue;
        }
        cx.agenda.pauses.swap_remove(index);
        cx.groups[group].paused.remove(position);
        send_fence(cx, now, group);
        resend::of_group(cx, now, group, position);
        catch_up::again(cx, now, group);
        open::advance(cx, now, group);
        cx.intake.is_due = true;
    }
}

/// The record of a group, which names the stores that are being brought up to date there, comes or goes.
fn count_behind(cx: &mut Context, now: Time, group: GroupSlot, comes: bool) {
    for index in 0..cx.groups[group].record.syncing.len() {
        let store = cx.groups[group].record.syncing[index].store;
        let number = cx.store_slot(now, store);
        let count = &mut cx.stores[number].behind_in;
        *count = if comes { *count + 1 } else { *count - 1 };
    }
}
