//! An answer comes in: it finds its task, and what it says is sorted out.

use super::context::Context;
use super::resync::Resync;
use super::store::News;
use super::{care, credits, group, join, lease, metadata, open, read, resend, store, write};
use crate::io::{Effect, StopReason, Warning};
use crate::members::Position;
use crate::table::{StoreSlot, TaskSlot};
use crate::task::{Found, Kind, Tasks};
use amita_reactor::{Slice, Time};
use amita_types::RequestId;
use amita_types::message::{AllocationAnswer, Answer, AnswerBody, DiffersAnswer, Problem, Refusal, SettledAnswer};

/// An answer that was awaited.
#[derive(Clone, Copy)]
struct Awaited {
    slot: TaskSlot,
    position: Position,
    store: StoreSlot,
}

/// An answer that no store of this protocol gives: what is wrong with it. The store is not to be trusted with the
/// group.
pub(super) struct Misbehaved(pub String);

impl Misbehaved {
    /// An answer to another question.
    pub fn unasked(body: &AnswerBody) -> Misbehaved {
        Misbehaved(format!("an answer that was not asked for: {body:?}"))
    }
}

/// A store has answered.
pub(super) fn arrived(
    cx: &mut Context,
    resync: &mut Resync,
    now: Time,
    store: StoreSlot,
    answer: Answer,
    payload: Slice,
) {
    let awaited = awaited(cx, answer.id, store);
    if let Some((slot, _)) = awaited
        && cx.tasks[slot].kind.is_work()
    {
        cx.stores[store].owed.idle_since = now;
    }
    let news = match answer.result {
        Err(Refusal::Busy) => News::Busy,
        _ => news_of(&cx.tasks, awaited),
    };
    store::heard(cx, now, store, answer.credit_blocks, news);
    if let Some((slot, position)) = awaited {
        let member = Awaited { slot, position, store };
        if answer.result.is_ok() && answer.lease_ms > 0 {
            // Only what was done under our generation is a lease to us (R4).
            lease::granted(cx, slot, position, store, answer.lease_ms);
        }
        if answer.result.is_ok() {
            care::measure(cx, now, (slot, position), store, answer.waited);
        }
        match answer.result {
            Ok(body) => {
                if let Err(Misbehaved(what)) = accepted(cx, resync, now, member, body, payload) {
                    misbehaved(cx, resync, now, member, what);
                }
            }
            Err(refusal) => refused(cx, resync, now, member, &refusal),
        }
    } else {
        credits::answered_late(cx, answer.id, store, answer.result.is_err());
    }
    if cx.stores[store].answered_all() {
        cx.intake.is_due = true;
    }
}

/// What an answer says of its store. Leases and credits are given out of its memory: its disk may hang meanwhile.
fn news_of(tasks: &Tasks, awaited: Option<(TaskSlot, Position)>) -> News {
    match awaited {
        Some((slot, _)) if matches!(tasks[slot].kind, Kind::RenewLease | Kind::Settle { .. }) => News::Speaks,
        Some((slot, position)) => News::Works(tasks[slot].owed_since[position]),
        None => News::Works(Time(0)),
    }
}

/// The task and position that an answer belongs to, where it is still awaited.
fn awaited(cx: &Context, id: RequestId, store: StoreSlot) -> Option<(TaskSlot, Position)> {
    let slot = cx.tasks.find(id)?;
    let task = &cx.tasks[slot];
    let position = cx.groups.position(task.group, store)?;
    // What was not sent in this stint of the member is not answered either: an old answer does not count.
    (task.waiting.has(position) && task.sent.has(position)).then_some((slot, position))
}

/// Whoever has asked goes on.
fn accepted(
    cx: &mut Context,
    resync: &mut Resync,
    now: Time,
    member: Awaited,
    body: AnswerBody,
    payload: Slice,
) -> Result<(), Misbehaved> {
    let Awaited { slot, position, .. } = member;
    match (&cx.tasks[slot].kind, body) {
        (Kind::Write(_), AnswerBody::Done) => write::written(cx, now, slot, position),
        // Whatever a member answers: data for a question about allocation, or the reverse, ends no read.
        (Kind::Read(read), AnswerBody::Data(data)) if read.is_about_data() => {
            let scrubs = &mut resync.scrubs;
            return read::data_arrived(cx, scrubs, now, slot, position, data, payload);
        }
        (Kind::Read(read), AnswerBody::Allocation(map)) if read.is_about_allocation() => {
            let AllocationAnswer { allocated, version } = map;
            let of = |version| Found::Allocation { version, allocated };
            return read::map_arrived(cx, now, (slot, position), version, of);
        }
        (Kind::Read(read), AnswerBody::Differs(map)) if read.is_about_changes() => {
            let DiffersAnswer { differs, version } = map;
            let of = |version| Found::Differs { version, differs };
            return read::map_arrived(cx, now, (slot, position), version, of);
        }
        (Kind::Fence { .. }, AnswerBody::Fenced) => group::fenced(cx, resync, now, slot, position),
        (Kind::RenewLease, AnswerBody::LeaseRenewed) => lease::renewal_ended(cx, slot, position),
        (Kind::Settle { .. }, AnswerBody::Settled(SettledAnswer { full })) => {
            credits::settled(cx, slot, position, full)
        }
        (Kind::Orphan, _) => cx.settle_and_drop(slot, position),
        (Kind::Join, AnswerBody::Joined(_)) => join::joined(cx, now, slot, position),
        (&Kind::Sync(step), body) => return resync.answered(cx, now, (slot, position), step, body, payload),
        (Kind::Open(_), body) => return open::answered(cx, now, slot, position, body, &payload),
        (_, body) => return Err(Misbehaved::unasked(&body)),
    }
    Ok(())
}

/// Refusals whose meaning does not depend on what was asked come here first.
fn refused(cx: &mut Context, resync: &mut Resync, now: Time, member: Awaited, refusal: &Refusal) {
    let Awaited { slot, position, store } = member;
    let group = cx.tasks[slot].group;
    match refusal {
        Refusal::Fenced { generation } if *generation > cx.owned.generation => {
            return cx.stop(StopReason::Deposed {
                generation: *generation,
            });
        }
        Refusal::StaleEpoch { .. } => {
            // R2: whoever refuses for an old epoch has learned of a new one; the metadata says which.
            cx.counters.stale_epochs += 1;
            cx.groups.unready(group, position);
            cx.groups[group].doubt();
            metadata::reread(cx, group);
        }
        Refusal::NotFenced | Refusal::Fenced { .. } => {
            cx.counters.not_fenced += 1;
            cx.groups.unready(group, position);
        }
        Refusal::Busy => cx.pause(now, group, position, cx.config.busy_pause),
        Refusal::Poisoned | Refusal::NoSuchStore => {
            if !cx.stores[store].unfit {
                cx.stores[store].unfit = true;
                cx.warn_refused(group, store, refusal);
            }
            cx.stores[store].link.worked = false;
            store::lose(cx, now, store);
            cx.pause(now, group, position, cx.config.unfit_pause());
            if *refusal == Refusal::Poisoned {
                cx.stores[store].link.poisoned = true;
            }
        }
        _ => {}
    }
    match cx.tasks[slot].kind {
        Kind::Write(_) => resend::refused(cx, now, slot, position, refusal),
        Kind::Read(_) => read::refused(cx, &mut resync.scrubs, now, slot, position, refusal),
        Kind::Fence { .. } => group::refused(cx, now, slot, position, refusal),
        Kind::RenewLease => lease::renewal_ended(cx, slot, position),
        Kind::Settle { .. } => credits::refused(cx, slot, position),
        Kind::Orphan => cx.settle_and_drop(slot, position),
        Kind::Open(_) => open::refused(cx, now, slot, position, refusal),
        Kind::Join => join::refused(cx, now, slot, position, refusal),
        Kind::Sync(step) => resync.refused(cx, now, slot, position, step, refusal),
        Kind::Free => unreachable!("nothing is awaited from a task that has ended"),
    }
    if *refusal == Refusal::Poisoned {
        cx.groups.unready(group, position);
    }
    group::send_fence(cx, now, group);
}

/// A member of a group does what no store of this protocol does: it is evicted.
fn misbehaved(cx: &mut Context, resync: &mut Resync, now: Time, member: Awaited, refusal: String) {
    let Awaited { slot, position, store } = member;
    let group = cx.tasks[slot].group;
    cx.effects.push_back(Effect::Warn(Warning::Refused {
        group: cx.groups[group].id,
        store: cx.stores[store].id,
        refusal,
    }));
    group::evict_soon(cx, group, position);
    let what = Problem::Range;
    refused(cx, resync, now, member, &Refusal::Invalid { what });
}
