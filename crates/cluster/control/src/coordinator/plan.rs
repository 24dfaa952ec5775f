//! Which stores should hold the groups, as stores, nodes and pools come, go and change.
//!
//! The desired members of a group are written by compare-and-set without a new epoch, since nobody's duties change by
//! it; [`reconcile`](super::reconcile) then carries it out, one group after another, and never below the copies there
//! are. A plan starts from the members that there are and changes as few as it can
//! ([`replan_pool`](amita_types::placement::replan_pool)). Changes are gathered for a moment before one is made.
//!
//! A store that is gone keeps its place for a while: it will most likely be back, and then only what it has missed has to
//! travel. Only when it has been away for `out_after`, and its node is not in maintenance, others take its place.
//!
//! Where the rule of a pool cannot be met, groups keep the members that they have, and that stands as a warning until it
//! can.

use super::batch::{Cause, Move};
use super::fleet::Fleet;
use super::groups::Groups;
use super::warning::Warning;
use super::{Action, Coordinator, Moment, Out, batch};
use crate::candidates::{Standing, candidates};
use amita_types::map::{Group, Node, StoreDuty};
use amita_types::placement::replan_pool;
use amita_types::{GroupId, NodeId, PoolId, StoreId};
use std::collections::{BTreeMap, BTreeSet};

/// Which stores should hold the groups.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// When groups are placed anew: something has changed that placement rests on.
    pub at: Option<Moment>,
    /// When that was done last.
    pub made: Moment,
    /// The members that groups are to get.
    pub desired: BTreeMap<GroupId, Vec<StoreId>>,
}

/// Something has changed that placement rests on.
pub(super) fn soon(coordinator: &mut Coordinator) {
    let at = coordinator.now.plus(coordinator.config.plan_pause);
    coordinator.plan.at = Some(coordinator.plan.at.map_or(at, |own| own.min(at)));
    coordinator.due.stirred = true;
}

/// Places groups anew, if that is due, and has the groups' records say so.
pub(super) fn run(coordinator: &mut Coordinator) {
    if !coordinator.config.planning {
        return;
    }
    let due = coordinator.plan.at.into_iter().chain(next_out(coordinator)).min();
    match due {
        Some(at) if at <= coordinator.now => {
            coordinator.plan.at = None;
            coordinator.plan.made = coordinator.now;
            place_all(coordinator);
            if let Some(at) = next_out(coordinator) {
                coordinator.due.wake_at(at);
            }
        }
        Some(at) => coordinator.due.wake_at(at),
        None => {}
    }
    direct(coordinator);
    say_drained(&coordinator.fleet, &coordinator.groups, &mut coordinator.out);
}

fn place_all(coordinator: &mut Coordinator) {
    let mut unmet = BTreeSet::new();
    let pools: Vec<PoolId> = coordinator.pools.iter().map(|(pool, _)| pool).collect();
    for pool in pools {
        place_pool(coordinator, pool, &mut unmet);
    }
    let now = &unmet;
    coordinator
        .out
        .standing
        .retain(|warning| !matches!(warning, Warning::RuleUnmet { .. }) || now.contains(warning));
    for warning in unmet {
        coordinator.out.warn(warning);
    }
}

fn place_pool(coordinator: &mut Coordinator, id: PoolId, unmet: &mut BTreeSet<Warning>) {
    let Some(known) = coordinator.pools.get(id) else { return };
    let all = GroupId {
        pool: id,
        index: amita_types::GroupIndex(0),
    }..=GroupId {
        pool: id,
        index: amita_types::GroupIndex(u32::MAX),
    };
    let groups: Vec<&Group> = coordinator
        .groups
        .all
        .range(all)
        .map(|(_, known)| &known.group)
        .collect();
    if groups.len() != known.pool.groups as usize {
        // They have not all been told yet, or one cannot be read: the next change of the pool looks again.
        return;
    }
    let nodes: BTreeMap<NodeId, &Node> = coordinator.fleet.hosts.iter().collect();
    let candidates = candidates(&known.pool, coordinator.fleet.stores.values(), &nodes, |store| {
        standing_of(coordinator, store)
    });
    let present: Vec<Vec<StoreId>> = groups.iter().map(|group| group.members.clone()).collect();
    let level = known.pool.failure_domain;
    let Ok(plan) = replan_pool(id, &candidates, known.copies, level, &present) else {
        return;
    };
    if !plan.unmet.is_empty() {
        unmet.insert(Warning::RuleUnmet {
            pool: known.pool.name.clone(),
            groups: plan.unmet.len(),
            copies: known.copies,
            level: level.to_string(),
            class: known.pool.class.clone().unwrap_or_default(),
        });
    }
    let mut moves = 0;
    let changes: Vec<(GroupId, Option<Vec<StoreId>>)> = groups
        .iter()
        .zip(plan.members)
        .map(|(group, members)| {
            let new = members.iter().filter(|store| !group.members.contains(store)).count();
            moves += new;
            let same = new == 0 && members.len() == group.members.len();
            let id = GroupId {
                pool: id,
                index: group.index,
            };
            (id, (!same).then_some(members))
        })
        .collect();
    let pool = known.pool.name.clone();
    let mut groups = 0;
    for (id, members) in changes {
        match members {
            Some(members) => {
                groups += 1;
                coordinator.plan.desired.insert(id, members);
            }
            None => drop(coordinator.plan.desired.remove(&id)),
        }
    }
    if groups > 0 {
        coordinator.out.actions.push(Action::Warn(Warning::Placed {
            pool,
            groups,
            copies: moves,
        }));
    }
}

fn standing_of(coordinator: &Coordinator, store: StoreId) -> Standing {
    if coordinator.fleet.is_serving(store) {
        match coordinator.networks.is_avoided(&coordinator.fleet, store) {
            true => Standing::Avoided,
            false => Standing::Serving,
        }
    } else if coordinator
        .fleet
        .out_at(&coordinator.config, store)
        .is_some_and(|at| at <= coordinator.now)
    {
        Standing::Out
    } else {
        Standing::Away
    }
}

/// When the next store is out that was not at the last plan.
fn next_out(coordinator: &Coordinator) -> Option<Moment> {
    let away = coordinator
        .fleet
        .stores
        .keys()
        .filter(|store| !coordinator.fleet.is_serving(**store));
    away.filter_map(|store| coordinator.fleet.out_at(&coordinator.config, *store))
        .filter(|at| *at > coordinator.plan.made)
        .min()
}

/// Writes the desired members into the groups' records.
fn direct(coordinator: &mut Coordinator) {
    let mut moves = Vec::new();
    let mut done = Vec::new();
    for (&id, members) in &coordinator.plan.desired {
        let Some(known) = coordinator.groups.all.get(&id) else {
            continue;
        };
        // Without its pool nothing is to be done about it.
        if known.group.members == *members || coordinator.pools.get(id.pool).is_none() {
            done.push(id);
        } else if known.pending.is_none() && !coordinator.calls.is_unsure(id) {
            let group = Group {
                members: members.clone(),
                ..known.group.clone()
            };
            moves.push(Move {
                id,
                group,
                guards: BTreeMap::new(),
                gone: Default::default(),
            });
        }
    }
    for id in done {
        coordinator.plan.desired.remove(&id);
    }
    batch::send(coordinator, Cause::Placement, moves);
}

/// A store that drains and that no group names any more can be taken out.
fn say_drained(fleet: &Fleet, groups: &Groups, out: &mut Out) {
    let draining = fleet.stores.values().filter(|store| store.duty == StoreDuty::Draining);
    let is_empty = |store: &StoreId| !groups.names(*store);
    let empty: BTreeSet<StoreId> = draining.map(|store| store.id).filter(is_empty).collect();
    out.standing
        .retain(|warning| !matches!(warning, Warning::Drained { store } if !empty.contains(store)));
    for store in empty {
        out.warn(Warning::Drained { store });
    }
}
