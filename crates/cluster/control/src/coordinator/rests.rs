//! Stores that rest before they are brought up to date again.

use super::{Config, Moment};
use amita_types::map::Group;
use amita_types::{GroupId, StoreId};
use std::collections::BTreeMap;

/// A store was dropped from a group while it was being brought up to date.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setback {
    /// How often.
    pub count: u32,
    /// It is not tried again before.
    pub until: Moment,
}

/// Who rests, and until when.
#[derive(Debug, Default)]
pub(super) struct Rests {
    /// Stores that are not taken in again before this moment.
    pub stores: BTreeMap<StoreId, Moment>,
    pub setbacks: BTreeMap<(GroupId, StoreId), Setback>,
}

impl Rests {
    /// Who fell out of a set rests before it is taken in again; who falls out of syncing again and again rests longer
    /// and longer.
    pub(super) fn note_setbacks(&mut self, config: &Config, now: Moment, id: GroupId, old: &Group, new: &Group) {
        for store in old.in_sync.iter().filter(|store| !new.in_sync.contains(store)) {
            self.stores.insert(*store, now.plus(config.rejoin_pause));
        }
        for member in old.syncing.iter().filter(|member| !new.syncing.contains(member)) {
            let key = (id, member.store);
            if new.in_sync.contains(&member.store) || !new.members.contains(&member.store) {
                self.setbacks.remove(&key);
                continue;
            }
            let count = self.setbacks.get(&key).map_or(0, |setback| setback.count);
            let factor = 1_u32 << count.min(16);
            let pause = config.backoff.0.saturating_mul(factor).min(config.backoff.1);
            let setback = Setback {
                count: count + 1,
                until: now.plus(pause),
            };
            self.setbacks.insert(key, setback);
        }
    }
}
