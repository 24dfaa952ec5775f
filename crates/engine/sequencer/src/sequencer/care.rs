//! Care for clients and for stores: how fast background work goes on, and how long stores take (see [`crate::pace`] and
//! [`crate::health`]). What is known is shared by the sequencers of a core.

use super::Sequencer;
use crate::health::Care;
use crate::members::Position;
use crate::pace::{Level, Pass};
use crate::table::{GroupSlot, StoreSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::Time;
use amita_types::map::PoolKind;
use std::time::Duration;

impl Sequencer {
    /// From now on it shares what is known with the core's other sequencers.
    pub fn share_care(&mut self, care: &Care) {
        self.care = care.clone();
        for store in self.stores.each_mut() {
            store.watch = care.health().number(store.id);
        }
    }

    /// How much a group needs what is done for it.
    pub(super) fn level(&self, group: GroupSlot) -> Level {
        let PoolKind::Replicated { copies, .. } = self.owned.pool.kind else {
            return Level::Degraded;
        };
        let in_sync = self.groups[group].current.count();
        if in_sync >= usize::from(copies) {
            Level::Rebalance
        } else if in_sync <= self.owned.min_copies {
            Level::Critical
        } else {
            Level::Degraded
        }
    }

    /// Leave for the next window, or a moment to ask again; `held`: clients' writes wait for it.
    pub(super) fn ask_for_window(&mut self, now: Time, level: Level, held: bool) -> Option<Pass> {
        if held {
            return Some(self.care.pacer.force(now, level));
        }
        match self.care.pacer.start(now, level) {
            Ok(pass) => Some(pass),
            Err(until) => {
                self.syncs.put_off(until);
                self.arm(until);
                None
            }
        }
    }

    /// A store has done what a task asked of it: how long did that take?
    pub(super) fn measure(&mut self, now: Time, slot: TaskSlot, position: Position, store: StoreSlot) {
        let task = &self.tasks[slot];
        let write = match &task.kind {
            Kind::Write(write) if !write.clear => true,
            // Answered by another member meanwhile: this one's answer tells of it all the same.
            Kind::Read(_) | Kind::Orphan => false,
            _ => return,
        };
        let took = now.since(task.sent_at[position]);
        let watch = self.stores[store].watch;
        self.care.health().record(now, watch, write, took);
    }

    /// After how long a read is sent to a second member as well.
    pub(super) fn hedge_after(&self) -> Duration {
        self.care.health().hedge_after(self.silent_after())
    }

    /// After how long a store that says nothing is taken to hang.
    pub(super) fn silent_after(&self) -> Duration {
        Duration::from_millis(u64::from(self.config.hedge_ms))
    }
}
