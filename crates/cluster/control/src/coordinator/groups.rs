//! The pools and their groups, as their records say.

use super::CallNumber;
use amita_types::map::{Group, Holders, Pool};
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

/// By their keys: of those that say the same number one counts.
pub(super) type Pools = Holders<PoolId, KnownPool>;

/// The groups of all pools.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub all: BTreeMap<GroupId, KnownGroup>,
    /// Those whose in-sync set is not just their members, or that have syncing ones.
    open: BTreeSet<GroupId>,
    /// How many groups name a store, in whatever set.
    named: BTreeMap<StoreId, usize>,
}

impl Groups {
    /// Is the store in sync or syncing in some group?
    pub(super) fn is_anywhere(&self, store: StoreId) -> bool {
        self.all.values().any(|known| {
            let group = &known.group;
            group.in_sync.contains(&store) || group.syncing.iter().any(|member| member.store == store)
        })
    }

    /// Those that are not at rest: somebody is to join, to sync, or to leave.
    pub(super) fn open(&self) -> impl Iterator<Item = GroupId> {
        self.open.iter().copied()
    }

    pub(super) fn names(&self, store: StoreId) -> bool {
        self.named.get(&store).is_some_and(|count| *count > 0)
    }

    /// Takes a record in.
    pub(super) fn put(&mut self, id: GroupId, group: Group, mod_revision: u64) {
        let settled = group.syncing.is_empty()
            && group.in_sync.len() == group.members.len()
            && group.members.iter().all(|store| group.in_sync.contains(store));
        if settled {
            self.open.remove(&id);
        } else {
            self.open.insert(id);
        }
        let known = self.all.get_mut(&id);
        count_named(
            &mut self.named,
            known.as_deref().map(|known| &known.group),
            Some(&group),
        );
        if let Some(known) = known {
            known.mod_revision = mod_revision;
            known.group = group;
            return;
        }
        let known = KnownGroup {
            group,
            mod_revision,
            pending: None,
        };
        self.all.insert(id, known);
    }

    pub(super) fn remove(&mut self, id: GroupId) {
        let old = self.all.remove(&id);
        count_named(&mut self.named, old.as_ref().map(|known| &known.group), None);
        self.open.remove(&id);
    }
}

/// A group names others, or is new, or gone.
fn count_named(named: &mut BTreeMap<StoreId, usize>, old: Option<&Group>, new: Option<&Group>) {
    for store in new.map(everybody).unwrap_or_default() {
        *named.entry(store).or_default() += 1;
    }
    for store in old.map(everybody).unwrap_or_default() {
        if let Some(count) = named.get_mut(&store) {
            *count -= 1;
        }
    }
}

/// Whoever a group names, in whatever set.
fn everybody(group: &Group) -> BTreeSet<StoreId> {
    let syncing = group.syncing.iter().map(|member| member.store);
    let sets = group.members.iter().chain(&group.in_sync).copied();
    sets.chain(syncing).collect()
}
