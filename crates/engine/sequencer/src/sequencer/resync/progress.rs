//! How far members that are brought up to date have come.

use crate::sequencer::tables::Stores;
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
pub(in crate::sequencer) struct Tallies(Vec<Tally>);

/// How far a store has come, as far as this sequencer brings it up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    pub store: StoreId,
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

impl Tallies {
    /// What is told of them now, in no order.
    pub fn progress(&self, stores: &Stores, now: Time) -> impl Iterator<Item = SyncProgress> {
        let behind = |store: StoreId| {
            let number = stores.slot_of(store);
            number.is_some_and(|number| stores[number].behind_in > 0)
        };
        let told = move |tally: &&Tally| match tally.ended {
            Some(ended) => now.since(ended) < TOLD,
            None => behind(tally.store),
        };
        self.0.iter().filter(told).map(|tally| SyncProgress {
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

    pub fn entered(&mut self, now: Time, store: StoreId) {
        let tally = self.of(now, store);
        if tally.ended.is_some_and(|ended| now.since(ended) >= TOLD) {
            // All that went before is over: it is behind anew.
            *tally = Tally::new(now, store);
        }
        tally.ended = None;
        tally.groups += 1;
    }

    /// The member's group left it before it held everything.
    pub fn dropped(&mut self, store: StoreId, listed: bool) {
        if let Some(tally) = self.find(store) {
            tally.groups = tally.groups.saturating_sub(1);
            tally.groups_listed = tally.groups_listed.saturating_sub(u32::from(listed));
        }
    }

    pub fn listed(&mut self, store: StoreId, listed: u64, to_do: u64, last: bool) {
        if let Some(tally) = self.find(store) {
            tally.chunks_listed += listed;
            tally.chunks_to_do += to_do;
            tally.groups_listed += u32::from(last);
        }
    }

    pub fn mended(&mut self, store: StoreId) {
        if let Some(tally) = self.find(store) {
            tally.chunks_done += 1;
        }
    }

    pub fn sent(&mut self, store: StoreId, blocks: usize) {
        if let Some(tally) = self.find(store) {
            tally.bytes_moved += blocks as u64 * u64::from(BLOCK_BYTES);
        }
    }

    /// The member holds everything.
    pub fn whole(&mut self, now: Time, store: StoreId) {
        if let Some(tally) = self.find(store) {
            tally.groups_done += 1;
            if tally.groups == tally.groups_done {
                tally.ended = Some(now);
            }
        }
    }
}
