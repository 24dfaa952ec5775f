//! What a sequencer does wrong where a rule is switched off, as far as it is more than leaving something out. Nothing of this
//! is part of a build without the feature `planted`: every question for a switch is answered `false` there.

use super::context::Context;
use super::resync::Resync;
use super::{group, resend, silence};
use crate::members::Members;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use amita_reactor::Time;
use amita_types::io::Payload;
use amita_types::map;

/// `Fault::AcknowledgeEarly`: the client is told before the write is committed.
pub(super) fn tell_early(cx: &mut Context, slot: TaskSlot) {
    let write = cx.tasks[slot].write();
    if std::mem::replace(&mut write.told, true) {
        return;
    }
    let io = write.io;
    let course = cx.course(slot);
    cx.done(io, Ok(()), Payload::None, course);
}

/// `Fault::AcknowledgeByMajority`: the same, once more than half of the members have answered.
pub(super) fn tell_by_majority(cx: &mut Context, slot: TaskSlot) {
    let current = cx.groups[cx.tasks[slot].group].members.current.count();
    let left = cx.tasks[slot].waiting.count();
    if 2 * (current - left) > current {
        tell_early(cx, slot);
    }
}

/// `Fault::ForgetClaimed`: who is claimed to be whole is not waited for.
pub(super) fn forget_claimed(cx: &mut Context, chunk: ChunkSlot) {
    let whole = cx.groups[cx.chunks[chunk].group].members.whole;
    let slots: Vec<TaskSlot> = resend::awaited_writes(cx, chunk).collect();
    for slot in slots {
        let task = &cx.tasks[slot];
        await_no_more(cx, slot, task.waiting.and(whole).and(task.sent));
    }
}

/// `Fault::SkipSyncing`: syncing members are not awaited once the others have answered.
pub(super) fn forget_syncing(cx: &mut Context, slot: TaskSlot) {
    let (group, waiting) = (cx.tasks[slot].group, cx.tasks[slot].waiting);
    if waiting.without(cx.groups[group].members.syncing).is_empty() {
        await_no_more(cx, slot, waiting);
    }
}

/// `Fault::IgnoreLost`: a lost member is awaited no more.
pub(super) fn forget_lost(cx: &mut Context, slot: TaskSlot) {
    let members = &cx.groups[cx.tasks[slot].group].members;
    let mut lost = Members::NONE;
    for position in cx.tasks[slot].waiting.iter() {
        if cx.stores[members[position]].lost {
            lost.add(position);
        }
    }
    await_no_more(cx, slot, lost);
}

fn await_no_more(cx: &mut Context, slot: TaskSlot, members: Members) {
    for position in members.iter() {
        cx.settle(slot, position);
    }
}

/// `Fault::ServeHalfFenced`: those of the members that can be reached are enough.
pub(super) fn only_reachable(cx: &Context, group: GroupSlot, members: Members) -> Members {
    let seats = &cx.groups[group].members;
    let mut reachable = Members::NONE;
    for position in members.iter() {
        if cx.stores[seats[position]].link.up {
            reachable.add(position);
        }
    }
    reachable
}

/// `Fault::ServeHalfFenced`: every touched group is taken for one with chunks to be opened.
pub(super) fn note_all_openings(cx: &mut Context) {
    for index in 0..cx.groups.touched.len() {
        silence::note_opening(cx, cx.groups.touched[index]);
    }
}

/// `Fault::TrustUnknown`: an eviction of unknown outcome is taken for done.
pub(super) fn take_for_done(
    cx: &mut Context,
    resync: &mut Resync,
    now: Time,
    groups: Vec<(GroupSlot, Option<map::Group>)>,
) {
    for (group, record) in groups {
        let revision = cx.groups[group].revision + 1;
        group::adopt(
            cx,
            resync,
            now,
            group,
            record.expect("an eviction's groups all have one"),
            revision,
        );
    }
}
