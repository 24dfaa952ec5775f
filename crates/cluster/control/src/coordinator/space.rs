//! How full stores are: who gets over a threshold, and who comes back below it, is said once.
//!
//! Every node follows what the cores report (`/amita/condition/NODE/CORE`), so that a coordinator that is elected goes on where the
//! last one was; the elected one says it. What is so at its start is no news: `amita status` shows it.

use super::warning::Warning;
use super::{Action, Out};
use amita_metadata::KeyValue;
use amita_types::StoreId;
use amita_types::condition::{Condition, Fullness, StoreSpace, Thresholds, condition_prefix, thresholds_key};
use std::collections::BTreeMap;

/// What is known of the stores' space.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    thresholds: Thresholds,
    stores: BTreeMap<StoreId, (StoreSpace, Fullness)>,
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
        self.thresholds = thresholds;
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
        self.stores.insert(space.store, (space, now));
        if settled && now != before.unwrap_or_default() {
            out.actions.push(Action::Warn(Warning::StoreFills {
                store: space.store,
                percent,
                fullness: now,
            }));
        }
    }
}
