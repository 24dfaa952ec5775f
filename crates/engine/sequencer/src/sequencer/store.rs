//! Links, and what an answer says of the store that gave it.

use super::context::Context;
use super::resync::Resync;
use super::{credits, group, join, lease, open, parents, read, silence};
use crate::faults::Fault;
use crate::members::Members;
use crate::table::StoreSlot;
use crate::task::Kind;
use amita_reactor::Time;
use amita_types::NodeId;

/// What an answer says of the store that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It cannot take more now, or is being mounted.
    Busy,
    /// It answers; that needs no disk.
    Speaks,
    /// It has done what it was asked then.
    Works(Time),
}

/// There is an ordered link to the store, on which nothing was sent yet.
pub(super) fn link_up(cx: &mut Context, resync: &mut Resync, now: Time, number: StoreSlot, node: NodeId) {
    if cx.stores[number].link.up {
        // A new link without word of the old one's end: what was under way there is gone.
        link_ended(cx, resync, now, number);
    }
    cx.stores[number].link_up(now, node);
    let due = now.plus(cx.config.store_timeout);
    cx.agenda.arm(due);
    // First on the link: the fences (R6). Writes are resent when they are answered.
    for index in 0..cx.groups.touched.len() {
        group::send_fence(cx, now, cx.groups.touched[index]);
    }
}

/// The store is surely dead, or was silent for too long: its groups go on without it (R12).
pub(super) fn lose(cx: &mut Context, now: Time, number: StoreSlot) {
    cx.stores[number].lose(now);
    cx.metadata.evictions = true;
    cx.intake.is_due = true;
}

/// Requests stay and are sent again when there is a new link; reads go elsewhere.
pub(super) fn link_ended(cx: &mut Context, resync: &mut Resync, now: Time, number: StoreSlot) {
    cx.stores[number].link_ended(now);
    for slot in cx.tasks.slots() {
        if matches!(cx.tasks[slot].kind, Kind::Free) {
            continue;
        }
        let group = cx.tasks[slot].group;
        let Some(position) = cx.groups.position(group, number) else {
            continue;
        };
        if !cx.tasks[slot].waiting.has(position) {
            continue;
        }
        cx.tasks[slot].sent.remove(position);
        match &mut cx.tasks[slot].kind {
            // Kept, and sent again on the next link.
            Kind::Write(write) => {
                write.charged.remove(position);
                cx.tasks[slot].owed_since[position] = Time(0);
            }
            Kind::Fence { .. } => {}
            Kind::Read(_) => read::give_up_on(cx, now, slot, position),
            Kind::RenewLease => lease::renewal_ended(cx, slot, position),
            Kind::Settle { .. } => credits::end(cx, slot, position),
            Kind::Orphan => cx.settle_and_drop(slot, position),
            Kind::Join => join::lost(cx, slot, position),
            Kind::Sync(step) => {
                let step = *step;
                resync.lost(cx, now, slot, position, step);
            }
            // Its chunk is opened anew, from the start.
            Kind::Open(_) => {}
            Kind::Free => unreachable!(),
        }
    }
    for index in 0..cx.groups.touched.len() {
        let group = cx.groups.touched[index];
        if let Some(position) = cx.groups.position(group, number)
            && cx.groups[group].members.all().has(position)
        {
            cx.groups.unready(group, position);
            if cx.groups[group]
                .members
                .current
                .or(parents::heirs(cx, group))
                .has(position)
            {
                open::reset(cx, group);
            }
            // Writes that it refused are among those that are sent again, all of them, in order.
            for index in 0..cx.groups[group].busy.len() {
                let chunk = cx.groups[group].busy[index];
                cx.chunks[chunk].lag.forget(Members::one(position));
            }
            group::send_fence(cx, now, group);
        }
    }
    cx.intake.is_due = true;
    silence::arm(cx, now);
}

/// The store's accounts begin at zero: what waits for it was charged to those before, and is charged when it is sent.
fn forget_charges(cx: &mut Context, number: StoreSlot) {
    for slot in cx.tasks.slots() {
        let Some(position) = cx.groups.position(cx.tasks[slot].group, number) else {
            continue;
        };
        let task = &mut cx.tasks[slot];
        if task.waiting.has(position)
            && !task.sent.has(position)
            && let Kind::Write(write) = &mut task.kind
        {
            write.charged.remove(position);
        }
    }
}

/// A store has said something. One that only says that it is busy (because it is being mounted, say) is as silent
/// as one that says nothing; so is one of which only the process lives (R12).
pub(super) fn heard(cx: &mut Context, now: Time, number: StoreSlot, credit_blocks: u32, news: News) {
    let memory_is_life = cx.config.faults.has(Fault::MemoryIsLife);
    if matches!(news, News::Works(_)) && cx.stores[number].link.poisoned {
        forget_charges(cx, number);
    }
    let store = &mut cx.stores[number];
    store.heard(now, news, memory_is_life);
    store.credits.blocks += u64::from(credit_blocks);
    if credit_blocks > 0 && store.owed.writes == 0 {
        credits::note(cx, number);
    }
    // The end of any request may have brought what waiting writes need.
    cx.intake.is_due = true;
}
