//! Credits (R7): what stores have granted to this sequencer, counted as they count it.
//!
//! A write gets its version when every member that it goes to has granted its blocks. Where one has not, and nothing is under
//! way there that may bring some, it is asked (`Settle`). What that brings may be too little for the moment: others hold what
//! they do not need, a new link or a new owner has just begun, slots come back with the next checkpoint. Only the store
//! knows, so the write fails only when the store *says* that it is full; else it is asked again.
//!
//! What is granted here is kept from all others. So what is not used for a while is given back, but for one write's worth;
//! after a longer while all of it. The blocks leave the count before the message leaves, and links are ordered: whatever is
//! sent behind it rests on the rest.

use super::agenda::NEVER;
use super::context::Context;
use super::group;
use super::state::{Ask, IDLE};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::{GroupSlot, StoreSlot, TaskSlot};
use crate::task::{Kind, Write};
use amita_reactor::{Slice, Time};
use amita_types::RequestId;
use amita_types::message::{RequestBody, SettleRequest};
use std::time::Duration;

/// A write that lacks credits for so long is told that there is no space, by the next answer that does not bring enough: so a full
/// pool answers within a second, also where a little comes back all the time.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was asked at that time or after it.
fn since(ask: Option<Ask>, time: Time) -> Option<Ask> {
    ask.filter(|ask| ask.at >= time)
}

/// Members lack credits for a write that has no version yet: asks them, where nothing else may bring some. True: one of
/// them is full.
pub(super) fn ask(cx: &mut Context, now: Time, slot: TaskSlot, group: GroupSlot, short: Members) -> bool {
    let asked_at = cx.tasks[slot].asked_at;
    let write = cx.tasks[slot].write();
    let want = charge(write);
    if write.short_since.is_none() {
        cx.counters.credit_waits += 1;
    }
    let short_since = *write.short_since.get_or_insert(now);
    for position in short.iter() {
        let number = cx.groups[group].members[position];
        let store = &cx.stores[number];
        if !cx.can_send(group, position) {
            // A fence's answer or an eviction is to come. One that is lost is asked: its answer says that it is not.
            continue;
        }
        // Where the store is known to be full, time has counted since the write came.
        let has_word = since(store.credits.full, asked_at).is_some();
        let patient_until = if has_word { asked_at } else { short_since }.plus(PATIENCE);
        if store.owed.writes > 0 && now < patient_until {
            // Their end may bring some.
            cx.tasks[slot].write().asked.remove(position);
            continue;
        }
        if store.credits.request.is_some() {
            continue;
        }
        let asked = cx.tasks[slot].write().asked.has(position);
        // That it was asked when this write had waited for long, and granted too little, says the same.
        let late = since(store.credits.short, patient_until);
        let of_as_much = |word: &Ask| want >= word.want;
        let word = since(store.credits.full, asked_at)
            .filter(of_as_much)
            .or(late.filter(of_as_much));
        let unasked = (asked && cx.config.faults.has(Fault::FullWithoutWord)).then_some(store.credits.asked);
        if let Some(word) = word.or(unasked) {
            // Those behind it need not wait as long.
            cx.stores[number].credits.full = Some(word);
            if !cx.groups[group].members.syncing.has(position) {
                return true;
            }
            // One that cannot take the volume's writes cannot be brought up to date: it goes, not the write. Once said is
            // enough: each time has all that waits looked at again.
            if !cx.groups[group].to_evict.has(position) {
                group::evict_soon(cx, group, position);
            }
            continue;
        }
        let again = store.credits.asked.at.plus(cx.config.busy_pause * 5);
        // Once at the end of its patience, whenever that is.
        let last = now >= patient_until && store.credits.asked.at < patient_until;
        if asked && now < again && !last {
            cx.agenda.settle_again = cx.agenda.settle_again.min(again);
            cx.agenda.arm(again);
            continue;
        }
        cx.tasks[slot].write().asked.add(position);
        settle(cx, now, group, position, want, 0);
    }
    false
}

/// Sends a request about credits; none is under way.
fn settle(cx: &mut Context, now: Time, group: GroupSlot, position: Position, want: u64, back: u64) {
    let number = cx.groups[group].members[position];
    let slot = cx.tasks.add(Kind::Settle { back }, group, None);
    cx.stores[number].credits.ask(now, slot, want, back);
    cx.counters.settles += 1;
    cx.expect(now, slot, position);
    let (want, back) = (want as u32, back as u32);
    cx.send(
        now,
        slot,
        position,
        RequestBody::Settle(SettleRequest { want, back }),
        Slice::default(),
    );
}

/// A request about credits was answered; what the answer brings has been counted.
pub(super) fn settled(cx: &mut Context, slot: TaskSlot, position: Position, full: bool) {
    let number = cx.groups[cx.tasks[slot].group].members[position];
    cx.stores[number].credits.answered(full);
    end(cx, slot, position);
}

/// It was refused: what was given back was not taken.
pub(super) fn refused(cx: &mut Context, slot: TaskSlot, position: Position) {
    let number = cx.groups[cx.tasks[slot].group].members[position];
    if let Kind::Settle { back } = cx.tasks[slot].kind {
        cx.stores[number].credits.blocks += back;
    }
    end(cx, slot, position);
}

/// Its answer is not awaited any more, because the member has left the group. Whether the store took what was given
/// back, the answer tells.
pub(super) fn forget(cx: &mut Context, slot: TaskSlot, position: Position) {
    let number = cx.groups[cx.tasks[slot].group].members[position];
    if let Kind::Settle { back } = cx.tasks[slot].kind
        && back > 0
    {
        let id = cx.tasks.id(slot);
        cx.stores[number].credits.in_doubt.push((id, back));
    }
    end(cx, slot, position);
}

/// It has ended, or its link has.
pub(super) fn end(cx: &mut Context, slot: TaskSlot, position: Position) {
    let number = cx.groups[cx.tasks[slot].group].members[position];
    let store = &mut cx.stores[number];
    assert_eq!(
        store.credits.request,
        Some(slot),
        "a store is asked for one thing at a time"
    );
    store.credits.request = None;
    cx.settle_and_drop(slot, position);
    note(cx, number);
    cx.intake.is_due = true;
}

/// When a store's credits have lain idle for so long that some are given back; never, where there are none too many.
fn idle_until(cx: &Context, number: StoreSlot) -> (Time, u64) {
    let store = &cx.stores[number];
    if cx.config.faults.has(Fault::KeepCredits) || !store.link.up || store.owed.writes > 0 {
        return (NEVER, 0);
    }
    store.credits.idle_until()
}

/// A store's credits may be idle from then on: its count has grown, or nothing more is under way there.
pub(super) fn note(cx: &mut Context, number: StoreSlot) {
    let (at, _) = idle_until(cx, number);
    cx.agenda.credits_due = cx.agenda.credits_due.min(at);
    cx.agenda.arm(at);
}

/// Gives back what has not been used for a while.
pub(super) fn return_idle(cx: &mut Context, now: Time) {
    if now < cx.agenda.credits_due {
        return;
    }
    cx.agenda.credits_due = NEVER;
    for number in cx.stores.keys() {
        let (at, back) = idle_until(cx, number);
        if at > now {
            cx.agenda.credits_due = cx.agenda.credits_due.min(at);
            continue;
        }
        let by = |group: GroupSlot| {
            let position = cx.groups.position(group, number)?;
            cx.can_send(group, position).then_some((group, position))
        };
        // By the group that it was last asked by; that one may have lost it, or be in the middle of a change.
        let via = cx.stores[number].via;
        let place = via.and_then(by);
        let place = place.or_else(|| cx.groups.touched.iter().find_map(|&group| by(group)));
        match place {
            Some((group, position)) => settle(cx, now, group, position, 0, back),
            // Not now: as if it had just been used.
            None => {
                cx.stores[number].credits.charged_at = now;
                cx.agenda.credits_due = cx.agenda.credits_due.min(now.plus(IDLE));
            }
        }
    }
}

/// Takes a write's blocks from what a member has granted, as far as there are so many.
pub(super) fn charge_to(cx: &mut Context, now: Time, slot: TaskSlot, position: Position) {
    let number = cx.groups[cx.tasks[slot].group].members[position];
    let write = cx.tasks[slot].write();
    let blocks = cx.stores[number].credits.charge(now, charge(write));
    write.charged.add(position);
    write.taken[position] = blocks as u16;
}

/// A store takes nothing from the account for what it refuses.
pub(super) fn uncharge(cx: &mut Context, slot: TaskSlot, position: Position) {
    let number = cx.groups[cx.tasks[slot].group].members[position];
    let write = cx.tasks[slot].write();
    if write.charged.has(position) {
        write.charged.remove(position);
        cx.stores[number].credits.blocks += u64::from(write.taken[position]);
        note(cx, number);
    }
}

/// An answer to what the store was sent while it was a member.
pub(super) fn answered_late(cx: &mut Context, id: RequestId, store: StoreSlot, refused: bool) {
    if cx.stores[store].credits.answered_late(id, refused) {
        note(cx, store);
    }
}

/// Blocks of credit that a write takes.
pub(super) fn charge(write: &Write) -> u64 {
    if write.clear { 0 } else { u64::from(write.range.count) }
}
