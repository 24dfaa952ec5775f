//! How far members that are brought up to date have come.

use super::Sequencer;
use crate::members::Position;
use crate::table::GroupSlot;
use amita_reactor::Time;
use amita_types::{BLOCK_BYTES, StoreId};
use std::time::Duration;

/// What was done is told for so long after its end.
const TOLD: Duration = Duration::from_secs(10);

/// What was done for one store, in all groups, since it last had nothing to catch up on.
#[derive(Clone, Copy, Debug)]
struct Tally {
    store: StoreId,
    began: Time,
    /// When it held everything.
    ended: Option<Time>,
    groups: u32,
    groups_listed: u32,
    groups_done: u32,
    chunks_listed: u64,
    chunks_to_do: u64,
    chunks_done: u64,
    bytes_moved: u64,
}

/// All of them. They are few: one for each store that was ever behind.
#[derive(Debug, Default)]
pub(super) struct Tallies(Vec<Tally>);

/// How far a store has come, as far as this sequencer brings it up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    /// The store.
    pub store: StoreId,
    /// When it began.
    pub began: Time,
    /// When it held everything; it is told for a little longer.
    pub ended: Option<Time>,
    /// Groups in which it began.
    pub groups: u32,
    /// Of those: all chunks are known.
    pub groups_listed: u32,
    /// Of those: it holds everything.
    pub groups_done: u32,
    /// Chunks that were looked at.
    pub chunks_listed: u64,
    /// Of those: they must be compared.
    pub chunks_to_do: u64,
    /// Of those: they have been.
    pub chunks_done: u64,
    /// Bytes of data that were sent to it.
    pub bytes_moved: u64,
}

impl Tallies {
    fn of(&mut self, now: Time, store: StoreId) -> &mut Tally {
        let at = self.0.iter().position(|tally| tally.store == store).unwrap_or_else(|| {
            self.0.push(Tally::new(now, store));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    fn find(&mut self, store: StoreId) -> Option<&mut Tally> {
        self.0.iter_mut().find(|tally| tally.store == store)
    }
}

impl Tally {
    fn new(now: Time, store: StoreId) -> Tally {
        Tally {
            store,
            began: now,
            ended: None,
            groups: 0,
            groups_listed: 0,
            groups_done: 0,
            chunks_listed: 0,
            chunks_to_do: 0,
            chunks_done: 0,
            bytes_moved: 0,
        }
    }
}

impl Sequencer {
    /// How far each store has come that is being brought up to date, or was until a moment ago; in no order.
    pub fn progress(&self, now: Time) -> impl Iterator<Item = SyncProgress> + '_ {
        let behind = |store: StoreId| {
            let number = self.stores.slot_of(store);
            number.is_some_and(|number| self.stores[number].behind_in > 0)
        };
        let told = move |tally: &&Tally| match tally.ended {
            Some(ended) => now.since(ended) < TOLD,
            None => behind(tally.store),
        };
        let tallies = self.syncs.tallies.0.iter().filter(told);
        tallies.map(|tally| SyncProgress {
            store: tally.store,
            began: tally.began,
            ended: tally.ended,
            groups: tally.groups,
            groups_listed: tally.groups_listed,
            groups_done: tally.groups_done,
            chunks_listed: tally.chunks_listed,
            chunks_to_do: tally.chunks_to_do,
            chunks_done: tally.chunks_done,
            bytes_moved: tally.bytes_moved,
        })
    }

    /// The record of a group, which names the stores that are being brought up to date there, comes or goes.
    pub(super) fn count_behind(&mut self, now: Time, group: GroupSlot, comes: bool) {
        for index in 0..self.groups[group].record.syncing.len() {
            let store = self.groups[group].record.syncing[index].store;
            let number = self.store_number(now, store);
            let count = &mut self.stores[number].behind_in;
            *count = if comes { *count + 1 } else { *count - 1 };
        }
    }

    pub(super) fn tally_entered(&mut self, now: Time, group: GroupSlot, position: Position) {
        let store = self.id_of(group, position);
        let tally = self.syncs.tallies.of(now, store);
        if tally.ended.is_some_and(|ended| now.since(ended) >= TOLD) {
            // All that went before is over: it is behind anew.
            *tally = Tally::new(now, store);
        }
        tally.ended = None;
        tally.groups += 1;
    }

    /// The member's group left it before it held everything.
    pub(super) fn tally_dropped(&mut self, group: GroupSlot, position: Position, listed: bool) {
        let store = self.id_of(group, position);
        if let Some(tally) = self.syncs.tallies.find(store) {
            tally.groups = tally.groups.saturating_sub(1);
            tally.groups_listed = tally.groups_listed.saturating_sub(u32::from(listed));
        }
    }

    pub(super) fn tally_listed(&mut self, group: GroupSlot, position: Position, listed: u64, to_do: u64, last: bool) {
        let store = self.id_of(group, position);
        if let Some(tally) = self.syncs.tallies.find(store) {
            tally.chunks_listed += listed;
            tally.chunks_to_do += to_do;
            tally.groups_listed += u32::from(last);
        }
    }

    pub(super) fn tally_chunk(&mut self, group: GroupSlot, position: Position) {
        let store = self.id_of(group, position);
        if let Some(tally) = self.syncs.tallies.find(store) {
            tally.chunks_done += 1;
        }
    }

    pub(super) fn tally_sent(&mut self, group: GroupSlot, position: Position, blocks: usize) {
        let store = self.id_of(group, position);
        if let Some(tally) = self.syncs.tallies.find(store) {
            tally.bytes_moved += blocks as u64 * u64::from(BLOCK_BYTES);
        }
    }

    /// The member holds everything.
    pub(super) fn tally_whole(&mut self, now: Time, group: GroupSlot, position: Position) {
        let store = self.id_of(group, position);
        if let Some(tally) = self.syncs.tallies.find(store) {
            tally.groups_done += 1;
            if tally.groups == tally.groups_done {
                tally.ended = Some(now);
            }
        }
    }
}
