//! Care for clients and for stores: how fast background work goes on, and how long stores take (see [`crate::pace`] and
//! [`crate::health`]). What is known is shared by the sequencers of a core.

use super::context::Context;
use crate::members::Position;
use crate::pace::{Level, Pass};
use crate::table::{GroupSlot, StoreSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::Time;
use amita_types::map::PoolKind;
use amita_types::message::Waited;
use std::time::Duration;

/// How much a group needs what is done for it.
pub(super) fn level(cx: &Context, group: GroupSlot) -> Level {
    let PoolKind::Replicated { copies, .. } = cx.owned.pool.kind else {
        return Level::Degraded;
    };
    let in_sync = cx.groups[group].members.current.count();
    if in_sync >= usize::from(copies) {
        Level::Rebalance
    } else if in_sync <= cx.owned.min_copies {
        Level::Critical
    } else {
        Level::Degraded
    }
}

/// Leave for the next window, or a moment to ask again; `held`: clients' writes wait for it.
pub(super) fn window(cx: &mut Context, now: Time, level: Level, held: bool) -> Option<Pass> {
    if held {
        return Some(cx.care.pacer.force(now, level));
    }
    match cx.care.pacer.start(now, level) {
        Ok(pass) => Some(pass),
        Err(until) => {
            cx.agenda.put_off(until);
            cx.agenda.arm(until);
            None
        }
    }
}

/// A store has done what a task asked of it: how long did that take, but for what it waited for others?
pub(super) fn measure(
    cx: &mut Context,
    now: Time,
    (slot, position): (TaskSlot, Position),
    store: StoreSlot,
    waited: Waited,
) {
    let task = &cx.tasks[slot];
    let write = match &task.kind {
        Kind::Write(write) if !write.clear => true,
        // Answered by another member meanwhile: this one's answer tells of it all the same.
        Kind::Read(_) | Kind::Orphan => false,
        _ => return,
    };
    let took = now.since(task.owed_since[position]).saturating_sub(waited.least());
    let watch = cx.stores[store].watch;
    cx.care.health().record(now, watch, write, took);
}

/// After how long a read is sent to a second member as well.
pub(super) fn hedge_after(cx: &Context) -> Duration {
    cx.care.health().hedge_after(cx.config.silent_after())
}
