//! Which groups are not what they should be, and the next step of each.
//!
//! A group names its desired members. Whoever of them is neither in sync nor syncing is listed as *syncing*, at the new
//! epoch, if its node serves it: from then on it gets every write and must answer it, and the owners of the pool's volumes
//! bring it up to date (R2). Whoever all owners say is whole is *promoted* to the in-sync set (see
//! [`claims`](super::claims)). An in-sync store that is no longer desired *leaves* once as many desired ones as the pool
//! has copies are in sync: redundancy never falls on account of a move. While an operator has paused a store's drain, no group begins to
//! leave it that has all its copies.
//!
//! **Levels.** What is brought up to date costs the clients bandwidth, so only so many groups are at once, counted for the
//! store that gains and for the pool. What stands at its least number of copies goes first and may have most, then what
//! merely lacks a copy, then what only moves.

use super::batch::{Cause, Move};
use super::fleet::Fleet;
use super::groups::{KnownGroup, KnownPool};
use super::{Coordinator, batch};
use amita_types::map::{self, Group, Syncing};
use amita_types::message::MAX_MEMBERS;
use amita_types::{GroupId, PoolId, StoreId};
use std::collections::BTreeMap;

/// How many groups are brought up to date at once, by how much they need it. A level counts those of all levels, so that
/// more urgent ones always find room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Groups at their least number of copies, or below.
    pub critical: Concurrency,
    /// Groups that lack a copy.
    pub degraded: Concurrency,
    /// Groups that have all copies, not all where they should be.
    pub rebalance: Concurrency,
}

/// So many groups at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// That bring the same store up to date.
    pub per_store: usize,
    /// Of a pool.
    pub per_pool: usize,
}

impl Default for Recovery {
    fn default() -> Recovery {
        // Each start and end of a group's syncing is an epoch that its sequencers must adopt, so few large waves disturb
        // less than many small ones; how fast data moves is limited where it is moved.
        let at_once = |per_store, per_pool| Concurrency { per_store, per_pool };
        Recovery {
            critical: at_once(64, 512),
            degraded: at_once(32, 256),
            rebalance: at_once(4, 32),
        }
    }
}

/// How much a group needs another copy, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Critical,
    Degraded,
    Rebalance,
}

impl Need {
    fn of(group: &Group, pool: &KnownPool) -> Need {
        if group.in_sync.len() >= pool.copies {
            Need::Rebalance
        } else if group.in_sync.len() <= pool.min_copies {
            Need::Critical
        } else {
            Need::Degraded
        }
    }

    fn allows(self, recovery: &Recovery) -> Concurrency {
        match self {
            Need::Critical => recovery.critical,
            Need::Degraded => recovery.degraded,
            Need::Rebalance => recovery.rebalance,
        }
    }
}

/// Takes the next step of each group that is not as it should be.
pub(super) fn run(coordinator: &mut Coordinator) {
    let mut promotions = Vec::new();
    let mut changes = Vec::new();
    let mut wanting: Vec<(Need, GroupId)> = Vec::new();
    let mut claims = BTreeMap::new();
    for id in coordinator.groups.open() {
        let (Some(known), Some(pool)) = (coordinator.groups.all.get(&id), coordinator.pools.get(id.pool)) else {
            continue;
        };
        if known.pending.is_some() || coordinator.calls.is_unsure(id) {
            continue;
        }
        let agreed = claims
            .entry(id.pool)
            .or_insert_with(|| coordinator.claims.of_pool(id.pool, &pool.pool.name));
        let raised = coordinator.claims.raised_by(id.pool, coordinator.heard.complete);
        let ready = |member: &&Syncing| {
            known.group.members.contains(&member.store)
                && coordinator.fleet.is_serving(member.store)
                && agreed.agree(id.index, member)
        };
        let whole: Vec<StoreId> = match raised {
            Some(_) => known.group.syncing.iter().filter(ready).map(|own| own.store).collect(),
            None => Vec::new(),
        };
        if let (false, Some(raised)) = (whole.is_empty(), raised) {
            promotions.push(promote(&coordinator.fleet, id, known, &whole, raised));
        } else if let Some(one) = part(&coordinator.fleet, id, known, pool) {
            changes.push(one);
        } else if known.group.members.iter().any(|store| is_new(&known.group, *store)) {
            let need = Need::of(&known.group, pool);
            if need != Need::Rebalance || !stands_still(&coordinator.fleet, &known.group) {
                wanting.push((need, id));
            }
        }
    }
    drop(claims);
    wanting.sort_unstable();
    changes.extend(join(coordinator, &wanting));
    batch::send(coordinator, Cause::Promotion, promotions);
    batch::send(coordinator, Cause::Change, changes);
}

/// Syncing members that all owners say are whole are in sync from now on.
fn promote(fleet: &Fleet, id: GroupId, known: &KnownGroup, whole: &[StoreId], raised: u64) -> Move {
    let mut group = Group {
        epoch: known.group.epoch.next(),
        ..known.group.clone()
    };
    group.syncing.retain(|member| !whole.contains(&member.store));
    group.in_sync.extend(whole);
    let mut guards = fleet.still_there(whole);
    guards.insert(map::raised_key(id.pool), raised);
    Move {
        id,
        group,
        guards,
        gone: Default::default(),
    }
}

/// Members that are not desired any more: syncing ones at once, in-sync ones when they are not needed.
fn part(fleet: &Fleet, id: GroupId, known: &KnownGroup, pool: &KnownPool) -> Option<Move> {
    let old = &known.group;
    let desired = |store: &StoreId| old.members.contains(store);
    let mut group = Group {
        epoch: old.epoch.next(),
        ..old.clone()
    };
    group.syncing.retain(|member| desired(&member.store));
    let staying: Vec<StoreId> = old.in_sync.iter().copied().filter(desired).collect();
    let serving = staying.iter().filter(|store| fleet.is_serving(**store)).count();
    let mut guards = BTreeMap::new();
    if staying.len() < old.in_sync.len() && serving >= pool.copies.max(pool.min_copies) {
        guards = fleet.still_there(&staying);
        group.in_sync = staying;
    }
    let changed = group.syncing != old.syncing || group.in_sync != old.in_sync;
    changed.then_some(Move {
        id,
        group,
        guards,
        gone: Default::default(),
    })
}

/// Lists desired members as syncing, in the order of need, as far as the limits allow.
fn join(coordinator: &mut Coordinator, wanting: &[(Need, GroupId)]) -> Vec<Move> {
    if wanting.is_empty() {
        return Vec::new();
    }
    let (mut of_store, mut of_pool): (BTreeMap<StoreId, usize>, BTreeMap<PoolId, usize>) = Default::default();
    for id in coordinator.groups.open() {
        let Some(group) = coordinator.calls.as_wanted(&coordinator.groups, id) else {
            continue;
        };
        for member in &group.syncing {
            *of_store.entry(member.store).or_default() += 1;
        }
        *of_pool.entry(id.pool).or_default() += usize::from(!group.syncing.is_empty());
    }
    let mut moves = Vec::new();
    for &(need, id) in wanting {
        let Some(old) = coordinator.groups.all.get(&id).map(|known| known.group.clone()) else {
            continue;
        };
        // Without an answer of every in-sync member nobody can be brought up to date.
        if !old.in_sync.iter().all(|store| coordinator.fleet.is_serving(*store)) {
            continue;
        }
        let limit = need.allows(&coordinator.config.recovery);
        let mut group = Group {
            epoch: old.epoch.next(),
            ..old.clone()
        };
        for &store in old.members.iter().filter(|store| is_new(&old, **store)) {
            let alone = need == Need::Rebalance && !group.syncing.is_empty();
            if alone
                || group.in_sync.len() + group.syncing.len() >= MAX_MEMBERS
                || !coordinator.fleet.is_serving(store)
                || coordinator.must_leave(store)
            {
                continue;
            }
            let setback = coordinator
                .rests
                .setbacks
                .get(&(id, store))
                .map(|setback| setback.until);
            let rest = coordinator.rests.stores.get(&store).copied().max(setback);
            if let Some(until) = rest.filter(|until| *until > coordinator.now) {
                coordinator.due.wake_at(until);
                continue;
            }
            let own = of_store.entry(store).or_default();
            let pool = of_pool.entry(id.pool).or_default();
            let counts_new = usize::from(group.syncing.is_empty());
            if *own >= limit.per_store || *pool + counts_new > limit.per_pool {
                continue;
            }
            *own += 1;
            *pool += counts_new;
            group.syncing.push(Syncing {
                store,
                since: group.epoch,
            });
        }
        let joined: Vec<StoreId> = group.syncing.iter().map(|member| member.store).collect();
        if group.syncing.len() > old.syncing.len() {
            let guards = coordinator.fleet.still_there(&joined);
            moves.push(Move {
                id,
                group,
                guards,
                gone: Default::default(),
            });
        }
    }
    moves
}

/// Does the group leave stores, and is the drain of each of them paused? Nothing more is begun for that as long as the group has all its copies; what lacks
/// one is brought up to date all the same.
fn stands_still(fleet: &Fleet, group: &Group) -> bool {
    let mut leaving = group
        .in_sync
        .iter()
        .filter(|store| !group.members.contains(store))
        .peekable();
    let stands = |store: &StoreId| fleet.stores.get(store).is_some_and(map::Store::drain_stands_still);
    leaving.peek().is_some() && leaving.all(stands)
}

/// Is this member neither in sync nor syncing?
fn is_new(group: &Group, store: StoreId) -> bool {
    !group.in_sync.contains(&store) && group.syncing.iter().all(|member| member.store != store)
}
