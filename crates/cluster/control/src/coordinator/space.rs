//! How full stores are, and the stores of a pool together: who gets over a threshold, and who comes back below it, is said once.
//!
//! Every node follows what the cores report (`/amita/condition/NODE/CORE`), so that a coordinator that is elected goes on where the
//! last one was; the elected one says it. What is so at its start is no news: `amita status` shows it.

use super::groups::{Groups, Pools};
use super::warning::Warning;
use super::{Action, Out};
use amita_metadata::KeyValue;
use amita_types::condition::{Condition, Fullness, StoreSpace, Thresholds, condition_prefix, thresholds_key};
use amita_types::{PoolId, StoreId};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the stores' space.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    thresholds: Thresholds,
    stores: BTreeMap<StoreId, (StoreSpace, Fullness)>,
    /// How many of the levels each pool has got over.
    pools: BTreeMap<PoolId, usize>,
    /// The pools are to be looked at.
    stirred: bool,
    /// They were, when all records had been told.
    was_settled: bool,
}

impl Spaces {
    /// Takes a record in if it is one of these.
    pub(super) fn hear(&mut self, out: &mut Out, settled: bool, record: &KeyValue) -> bool {
        if record.key == thresholds_key() {
            if let Some(thresholds) = out.parse::<Thresholds>(record) {
                self.set_thresholds(out, settled, thresholds);
            }
            return true;
        }
        if !record.key.starts_with(&condition_prefix()) {
            return false;
        }
        // What a newer version has to say is for its own coordinator.
        for space in record
            .json::<Condition>()
            .ok()
            .into_iter()
            .flat_map(|found| found.stores)
        {
            self.learn(out, settled, space);
        }
        true
    }

    /// A record is gone: was it one of these?
    pub(super) fn gone(&mut self, out: &mut Out, settled: bool, key: &str) -> bool {
        if key == thresholds_key() {
            self.set_thresholds(out, settled, Thresholds::default());
            return true;
        }
        // A core that has nothing to say any more: how its stores were stays known.
        key.starts_with(&condition_prefix())
    }

    fn set_thresholds(&mut self, out: &mut Out, settled: bool, thresholds: Thresholds) {
        (self.thresholds, self.stirred) = (thresholds, true);
        let known: Vec<StoreSpace> = self.stores.values().map(|(space, _)| *space).collect();
        for space in known {
            self.learn(out, settled, space);
        }
    }

    fn learn(&mut self, out: &mut Out, settled: bool, space: StoreSpace) {
        let thresholds = self.thresholds;
        let before = self.stores.get(&space.store).map(|(_, fullness)| *fullness);
        let percent = space.used_percent();
        let now = thresholds.fullness_after(before.unwrap_or_default(), percent);
        let known = self.stores.insert(space.store, (space, now));
        self.stirred |= known.is_none_or(|(before, _)| before != space);
        if settled && now != before.unwrap_or_default() {
            out.actions.push(Action::Warn(Warning::StoreFills {
                store: space.store,
                percent,
                fullness: now,
            }));
        }
    }

    /// How full pools are by what their stores say, if any of them has said something new.
    pub(super) fn look_at_pools(&mut self, out: &mut Out, settled: bool, pools: &Pools, groups: &Groups) {
        // Before all records are told, the pools and their groups are not all known.
        if !settled {
            return;
        }
        // What is so at the start is no news.
        let at_start = !std::mem::replace(&mut self.was_settled, true);
        if !std::mem::take(&mut self.stirred) {
            return;
        }
        let mut stores: BTreeMap<PoolId, BTreeSet<StoreId>> = BTreeMap::new();
        for (id, known) in &groups.all {
            let syncing = known.group.syncing.iter().map(|member| &member.store);
            let all = known.group.members.iter().chain(&known.group.in_sync).chain(syncing);
            stores.entry(id.pool).or_default().extend(all);
        }
        for (pool, stores) in stores {
            let Some(known) = pools.get(pool) else { continue };
            let known_spaces = || {
                stores
                    .iter()
                    .filter_map(|store| self.stores.get(store))
                    .map(|(space, _)| space)
            };
            // Added up, as if they were one.
            let sum = |bytes: fn(&StoreSpace) -> u64| known_spaces().map(bytes).fold(0, u64::saturating_add);
            let whole = StoreSpace {
                store: StoreId::default(),
                capacity_bytes: sum(|space| space.capacity_bytes),
                free_bytes: sum(|space| space.free_bytes.min(space.capacity_bytes)),
            };
            let percent = whole.used_percent();
            let before = self.pools.get(&pool).copied().unwrap_or_default();
            let now = self.thresholds.pool_level_after(before, percent);
            self.pools.insert(pool, now);
            if now == before || at_start {
                continue;
            }
            let level = self.thresholds.pool_percents[now.max(before) - 1];
            out.actions.push(Action::Warn(Warning::PoolFills {
                pool: known.pool.name.clone(),
                above: now > before,
                level,
                percent,
                used_bytes: whole.used_bytes(),
                raw_bytes: whole.capacity_bytes,
            }));
        }
    }
}
