//! Which groups have members that are gone.

use super::batch::{Cause, Move};
use super::fleet::Home;
use super::groups::Pools;
use super::warning::Warning;
use super::{Coordinator, Out, batch, health};
use amita_types::map::{self, Group};
use amita_types::{NodeId, PoolId, StoreId};
use std::collections::{BTreeMap, BTreeSet};

/// Takes the members that are gone out of the in-sync and syncing sets.
pub(super) fn run(coordinator: &mut Coordinator) {
    let mut blocked: BTreeMap<PoolId, (usize, BTreeSet<NodeId>)> = BTreeMap::new();
    let mut moves: Vec<Move> = Vec::new();
    for (&id, known) in &coordinator.groups.all {
        let Some(pool) = coordinator.pools.get(id.pool) else {
            continue;
        };
        if known.pending.is_some() || coordinator.calls.is_unsure(id) {
            continue;
        }
        let group = &known.group;
        let homes = |stores: &mut dyn Iterator<Item = StoreId>| -> BTreeMap<StoreId, Home> {
            stores
                .filter_map(|store| Some((store, coordinator.fleet.dead_home(coordinator.now, store)?)))
                .collect()
        };
        let mut gone = homes(&mut group.syncing.iter().map(|member| member.store));
        let mut dead = homes(&mut group.in_sync.iter().copied());
        let [syncing, in_sync] = health::condemned_members(coordinator, group, pool);
        gone.extend(syncing);
        if dead.is_empty() {
            dead = in_sync;
        }
        if gone.is_empty() && dead.is_empty() {
            continue;
        }
        let mut target = Group {
            epoch: group.epoch.next(),
            ..group.clone()
        };
        // A syncing member may be dropped at any time: nothing rests on it.
        target.syncing.retain(|member| !gone.contains_key(&member.store));
        target.in_sync.retain(|store| !dead.contains_key(store));
        // Those left must be alive, not only not yet dead: else the move may have been for nothing.
        let alive = target
            .in_sync
            .iter()
            .filter(|store| coordinator.fleet.is_serving(**store))
            .count();
        if alive >= pool.min_copies {
            gone.extend(dead);
        } else {
            target.in_sync.clone_from(&group.in_sync);
            if !dead.is_empty() {
                let (count, nodes) = blocked.entry(id.pool).or_default();
                *count += 1;
                nodes.extend(dead.into_values().map(|home| match home {
                    Home::Dead(node) | Home::Unserved(node) => node,
                }));
            }
        }
        if gone.is_empty() {
            continue;
        }
        let mut guards = BTreeMap::new();
        let mut reported = (BTreeSet::new(), BTreeSet::new());
        for (store, home) in gone {
            // A node that came back, or serves its store, in the meantime stops the move.
            let (node, revision) = match home {
                Home::Dead(node) => {
                    reported.0.insert(node);
                    (node, 0)
                }
                Home::Unserved(node) => {
                    reported.1.insert(store);
                    (
                        node,
                        coordinator.fleet.life_revisions.get(&node).copied().unwrap_or_default(),
                    )
                }
            };
            guards.insert(map::live_key(node), revision);
        }
        moves.push(Move {
            id,
            group: target,
            guards,
            gone: reported,
        });
    }
    warn_of_blocked(&coordinator.pools, &mut coordinator.out, blocked);
    batch::send(coordinator, Cause::Eviction, moves);
}

fn warn_of_blocked(pools: &Pools, out: &mut Out, blocked: BTreeMap<PoolId, (usize, BTreeSet<NodeId>)>) {
    let now: BTreeSet<Warning> = blocked
        .into_iter()
        .filter_map(|(pool, (groups, nodes))| {
            let known = pools.get(pool)?;
            Some(Warning::TooFewAlive {
                pool: known.pool.name.clone(),
                groups,
                nodes: nodes.into_iter().collect(),
                min_copies: known.min_copies,
            })
        })
        .collect();
    out.standing
        .retain(|warning| !matches!(warning, Warning::TooFewAlive { .. }) || now.contains(warning));
    for warning in now {
        out.warn(warning);
    }
}
