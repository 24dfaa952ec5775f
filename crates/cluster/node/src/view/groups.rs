//! Groups: who holds them, and who should.

use super::{Change, Membership, View, parse};
use crate::control::Record;
use amita_types::map;
use amita_types::{GroupId, GroupIndex, PoolId, StoreId};
use std::collections::BTreeMap;

impl View {
    pub(super) fn apply_group(&mut self, rest: &str, record: &Record) -> Change {
        let (Some(value), Some((pool, _))) = (&record.value, rest.split_once('/')) else {
            return Change::Nothing;
        };
        let read = parse::<map::Group>(&record.key, value);
        let read = read.and_then(|group| match group.check() {
            Ok(()) => Ok(group),
            Err(why) => Err(format!("{}: {why}", record.key)),
        });
        match (read, pool.parse()) {
            (Ok(group), Ok(pool)) if record.key != map::group_key(pool, group.index) => {
                Change::Unreadable(format!("{}: it is of group {pool}.{}", record.key, group.index))
            }
            (Ok(group), Ok(pool)) => {
                let id = GroupId {
                    pool,
                    index: group.index,
                };
                let known = self.groups.entry(id).or_default();
                let count = self.syncing.entry(pool).or_default();
                *count -= usize::from(!known.syncing.is_empty());
                *count += usize::from(!group.syncing.is_empty());
                known.epoch = group.epoch;
                known.in_sync.clone_from(&group.in_sync);
                known.syncing.clone_from(&group.syncing);
                known.absent.clear();
                let absent = group.members.iter().filter(|store| !group.in_sync.contains(store));
                known.absent.extend(absent);
                Change::Group(group, pool)
            }
            (Err(why), _) => Change::Unreadable(why),
            (_, Err(_)) => Change::Unreadable(format!("{}: no pool number in the key", record.key)),
        }
    }

    /// What is known of a group.
    #[must_use]
    pub fn group(&self, pool: PoolId, index: GroupIndex) -> Option<&Membership> {
        self.groups.get(&GroupId { pool, index })
    }

    /// How many groups of the pool are known.
    #[must_use]
    pub fn group_count(&self, pool: &str) -> u32 {
        let index = |pool, index| GroupId { pool, index };
        let range = self
            .pool_of(pool)
            .map(|pool| index(pool, GroupIndex(0))..=index(pool, GroupIndex(u32::MAX)));
        let count = range.map_or(0, |range| self.groups.range(range).count());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The stores that should hold groups of the pool and are not in sync there, and in how many.
    #[must_use]
    pub fn absent(&self, pool: &str) -> BTreeMap<StoreId, u32> {
        let mut absent = BTreeMap::new();
        let Some(pool) = self.pool_of(pool) else {
            return absent;
        };
        let index = |index| GroupId { pool, index };
        let groups = self.groups.range(index(GroupIndex(0))..=index(GroupIndex(u32::MAX)));
        for store in groups.flat_map(|(_, group)| &group.absent) {
            *absent.entry(*store).or_default() += 1;
        }
        absent
    }

    /// Is a store being brought up to date in some group of the pool?
    #[must_use]
    pub fn is_syncing(&self, pool: &str) -> bool {
        let pool = self.pool_of(pool);
        pool.and_then(|pool| self.syncing.get(&pool))
            .is_some_and(|count| *count > 0)
    }
}
