//! Silence: a store that owes an answer and says nothing for too long is lost (R12).

use super::agenda::NEVER;
use super::context::Context;
use super::{faults, parents, store};
use crate::faults::Fault;
use crate::table::{GroupSlot, StoreSlot};
use crate::task::Kind;
use amita_reactor::Time;
use amita_reactor::buggify::{Point, buggify};

/// Whose silence may matter: a few of the stores of a large pool.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Stores that owe an answer, or for which an opening waits, and some of which that was so a moment ago.
    pub stores: Vec<StoreSlot>,
    /// Groups with chunks that are to be opened, and some that had any a moment ago.
    openings: Vec<GroupSlot>,
    /// How often it was looked for openings that wait.
    round: u64,
}

/// It was we who stood still (a frozen process): nobody is blamed for that time.
pub(super) fn excuse(cx: &mut Context, now: Time) {
    let late = now.since(cx.agenda.wake);
    if late < cx.config.store_timeout / 4 {
        return;
    }
    for store in cx.stores.each_mut() {
        store.owed.excuse(now, late);
    }
}

/// Finds stores that owe an answer and have done nothing for too long, or have done what they were asked later.
pub(super) fn listen(cx: &mut Context, now: Time) {
    look_for_stuck(cx, now);
    look_for_missed(cx);
    for index in 0..cx.silence.stores.len() {
        let number = cx.silence.stores[index];
        let store = &cx.stores[number];
        let silent = store.is_silent(now, &cx.config) || buggify(Point::LoseStore);
        if silent && !store.lost && (store.owed.awaited > 0 || is_missed(cx, number)) {
            store::lose(cx, now, number);
        }
    }
}

pub(super) fn arm(cx: &mut Context, now: Time) {
    look_for_missed(cx);
    let Context { stores, silence, .. } = cx;
    silence.stores.retain(|&number| {
        let store = &mut stores[number];
        store.owed.listed = store.owed.awaited > 0 || store.owed.missed == silence.round;
        store.owed.listed
    });
    for index in 0..cx.silence.stores.len() {
        let number = cx.silence.stores[index];
        let store = &cx.stores[number];
        if !store.lost && (store.owed.awaited > 0 || is_missed(cx, number)) {
            let due = store.owed.heard.plus(store.patience(&cx.config)).max(now);
            cx.agenda.arm(due);
        }
        let store = &cx.stores[number];
        if store.owed.idle_since != NEVER && !store.lost {
            cx.agenda
                .arm(store.owed.idle_since.plus(store.idle_patience(&cx.config)).max(now));
        }
        let store = &cx.stores[number];
        if store.owed.awaited > 0 && store.link.up {
            cx.agenda.arm(store.owed.look_at.max(now));
        }
    }
}

/// A single operation of a disk may hang while others go on (R12): a store that owes an answer for too long, and has
/// answered what it was asked later, is stuck. One that answers in the order in which it was asked is slow, however long
/// it takes. All requests are walked through, but only once in the time that one may take.
fn look_for_stuck(cx: &mut Context, now: Time) {
    // Only stores that owe an answer can be stuck, and all of those are in the list.
    let due = |number: &StoreSlot| {
        let store = &cx.stores[*number];
        store.owed.awaited > 0 && store.link.up && now >= store.owed.look_at
    };
    if cx.config.faults.has(Fault::MemoryIsLife) || !cx.silence.stores.iter().any(due) {
        return;
    }
    let timeout = cx.config.store_timeout;
    for &number in &cx.silence.stores {
        let store = &mut cx.stores[number];
        store.owed.stuck = false;
        // None of what was sent until now is owed for too long before then; a slow store is looked at more often.
        store.owed.look_at = now.plus(timeout);
    }
    for slot in cx.tasks.slots() {
        let task = &cx.tasks[slot];
        if matches!(task.kind, Kind::Free) {
            continue;
        }
        let members = &cx.groups[task.group].members;
        for position in task.waiting.and(task.sent).iter() {
            let store = &mut cx.stores[members[position]];
            let since = task.owed_since[position].max(store.owed.since);
            let due = since.plus(timeout);
            if due <= now {
                store.owed.stuck |= store.owed.served > since;
                store.owed.look_at = store.owed.look_at.min(now.plus(timeout / 8));
            } else {
                store.owed.look_at = store.owed.look_at.min(due);
            }
        }
    }
}

/// The same for the members of one group, of which a chunk is to be opened.
pub(super) fn arm_of(cx: &mut Context, now: Time, group: GroupSlot) {
    for position in cx.groups[group].members.current.or(parents::bound(cx, group)).iter() {
        let store = &cx.stores[cx.groups[group].members[position]];
        if !store.link.up && !store.lost {
            let due = store.owed.heard.plus(cx.config.store_timeout).max(now);
            cx.agenda.arm(due);
        }
    }
}

/// Chunks of the group are to be opened.
pub(super) fn note_opening(cx: &mut Context, group: GroupSlot) {
    if !std::mem::replace(&mut cx.groups[group].openings.listed, true) {
        cx.silence.openings.push(group);
    }
}

/// Finds the stores without a link for which an opening waits.
fn look_for_missed(cx: &mut Context) {
    cx.silence.round += 1;
    if cx.config.faults.has(Fault::ServeHalfFenced) {
        faults::note_all_openings(cx);
    }
    let mut index = 0;
    while let Some(&number) = cx.silence.openings.get(index) {
        let bound = parents::bound(cx, number);
        let group = &mut cx.groups[number];
        if group.openings.all.is_empty() && !cx.config.faults.has(Fault::ServeHalfFenced) {
            group.openings.listed = false;
            cx.silence.openings.swap_remove(index);
            continue;
        }
        index += 1;
        for position in group.members.current.or(bound).iter() {
            let number = group.members[position];
            let store = &mut cx.stores[number];
            if !store.link.up {
                store.owed.missed = cx.silence.round;
                if !std::mem::replace(&mut store.owed.listed, true) {
                    cx.silence.stores.push(number);
                }
            }
        }
    }
}

/// Does I/O wait for a store to which there is no link, as [`look_for_missed`] has found?
fn is_missed(cx: &Context, number: StoreSlot) -> bool {
    let store = &cx.stores[number];
    !store.link.up && store.owed.missed == cx.silence.round
}
