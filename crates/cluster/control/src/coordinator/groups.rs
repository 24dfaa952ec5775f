//! The pools and their groups, as their records say.

use super::batch::Change;
use super::{CallNumber, Moment};
use amita_types::map::{Group, Pool};
use amita_types::{GroupId, PoolId, StoreId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub(super) struct KnownGroup {
    pub group: Group,
    pub mod_revision: u64,
    /// The call that is moving it, or reading it back.
    pub pending: Option<CallNumber>,
}

#[derive(Clone, Debug)]
pub(super) struct KnownPool {
    pub pool: Pool,
    pub copies: usize,
    pub min_copies: usize,
}

/// The pools.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pub all: BTreeMap<PoolId, KnownPool>,
    /// Their names and numbers: a deletion tells only the key.
    pub keys: BTreeMap<String, PoolId>,
}

/// The groups of all pools.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub all: BTreeMap<GroupId, KnownGroup>,
    /// Those whose in-sync set is not just their members, or that have syncing ones.
    pub open: BTreeSet<GroupId>,
    /// How many groups name a store, in whatever set.
    pub named: BTreeMap<StoreId, usize>,
    /// What others have done to groups, to be told at this moment.
    pub others: Option<(Moment, Change)>,
}

impl Groups {
    /// Is the store in sync or syncing in some group?
    pub(super) fn is_anywhere(&self, store: StoreId) -> bool {
        self.all.values().any(|known| {
            let group = &known.group;
            group.in_sync.contains(&store) || group.syncing.iter().any(|member| member.store == store)
        })
    }

    /// A group names others, or is new, or gone.
    pub(super) fn count_named(&mut self, old: Option<&Group>, new: Option<&Group>) {
        for store in new.map(everybody).unwrap_or_default() {
            *self.named.entry(store).or_default() += 1;
        }
        for store in old.map(everybody).unwrap_or_default() {
            if let Some(count) = self.named.get_mut(&store) {
                *count -= 1;
            }
        }
    }
}

/// Whoever a group names, in whatever set.
fn everybody(group: &Group) -> BTreeSet<StoreId> {
    let syncing = group.syncing.iter().map(|member| member.store);
    let sets = group.members.iter().chain(&group.in_sync).copied();
    sets.chain(syncing).collect()
}
