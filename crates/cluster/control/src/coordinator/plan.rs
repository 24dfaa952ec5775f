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
use super::{Action, Coordinator, Life, Moment, Warning};
use crate::candidates::{Standing, candidates};
use amita_types::map::{Group, Node, StoreDuty};
use amita_types::placement::replan_pool;
use amita_types::{GroupId, NodeId, PoolId, StoreId};
use std::collections::{BTreeMap, BTreeSet};

impl Coordinator {
    /// Something has changed that placement rests on.
    pub(super) fn plan_soon(&mut self) {
        let at = self.now.plus(self.config.plan_pause);
        self.plan_at = Some(self.plan_at.map_or(at, |own| own.min(at)));
        self.stirred = true;
    }

    /// Places groups anew, if that is due, and has the groups' records say so.
    pub(super) fn plan(&mut self) {
        if !self.config.planning {
            return;
        }
        let due = self.plan_at.into_iter().chain(self.next_out()).min();
        match due {
            Some(at) if at <= self.now => {
                self.plan_at = None;
                self.planned = self.now;
                self.place_all();
                if let Some(at) = self.next_out() {
                    self.wake_at(at);
                }
            }
            Some(at) => self.wake_at(at),
            None => {}
        }
        self.direct();
        self.say_drained();
    }

    fn place_all(&mut self) {
        let mut unmet = BTreeSet::new();
        let pools: Vec<PoolId> = self.pools.keys().copied().collect();
        for pool in pools {
            self.place_pool(pool, &mut unmet);
        }
        let now = &unmet;
        self.standing
            .retain(|warning| !matches!(warning, Warning::RuleUnmet { .. }) || now.contains(warning));
        for warning in unmet {
            self.warn(warning);
        }
    }

    fn place_pool(&mut self, id: PoolId, unmet: &mut BTreeSet<Warning>) {
        let known = &self.pools[&id];
        let all = GroupId {
            pool: id,
            index: amita_types::GroupIndex(0),
        }..=GroupId {
            pool: id,
            index: amita_types::GroupIndex(u32::MAX),
        };
        let groups: Vec<&Group> = self.groups.range(all).map(|(_, known)| &known.group).collect();
        if groups.len() != known.pool.groups as usize {
            // They have not all been told yet, or one cannot be read: the next change of the pool looks again.
            return;
        }
        let nodes: BTreeMap<NodeId, &Node> = self.hosts.values().map(|node| (node.id, node)).collect();
        let candidates = candidates(&known.pool, self.stores.values(), &nodes, |store| {
            self.standing_of(store)
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
                    self.desired.insert(id, members);
                }
                None => drop(self.desired.remove(&id)),
            }
        }
        if groups > 0 {
            self.actions.push(Action::Warn(Warning::Placed {
                pool,
                groups,
                copies: moves,
            }));
        }
    }

    fn standing_of(&self, store: StoreId) -> Standing {
        if self.is_serving(store) {
            Standing::Serving
        } else if self.out_at(store).is_some_and(|at| at <= self.now) {
            Standing::Out
        } else {
            Standing::Away
        }
    }

    /// When others take the place of a store that is gone.
    fn out_at(&self, store: StoreId) -> Option<Moment> {
        let node = self.home(store)?;
        if self.hosts.values().any(|host| host.id == node && host.maintenance) {
            return None;
        }
        let gone = match self.nodes.get(&node)? {
            Life::Gone(until) | Life::Unseen(until) => Some(*until),
            Life::Alive { .. } => self.unserved.get(&store).copied(),
        };
        gone.map(|until| until.plus(self.config.out_after))
    }

    /// When the next store is out that was not at the last plan.
    fn next_out(&self) -> Option<Moment> {
        let away = self.stores.keys().filter(|store| !self.is_serving(**store));
        away.filter_map(|store| self.out_at(*store))
            .filter(|at| *at > self.planned)
            .min()
    }

    /// Writes the desired members into the groups' records.
    fn direct(&mut self) {
        let mut moves = Vec::new();
        let mut done = Vec::new();
        for (&id, members) in &self.desired {
            let Some(known) = self.groups.get(&id) else { continue };
            if known.group.members == *members {
                done.push(id);
            } else if known.pending.is_none() && !self.is_unsure(id) {
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
            self.desired.remove(&id);
        }
        self.send(Cause::Placement, moves);
    }

    /// A store that drains and that no group names any more can be taken out.
    fn say_drained(&mut self) {
        let draining = self.stores.values().filter(|store| store.duty == StoreDuty::Draining);
        let is_empty = |store: &StoreId| self.named.get(store).is_none_or(|count| *count == 0);
        let empty: BTreeSet<StoreId> = draining.map(|store| store.id).filter(is_empty).collect();
        self.standing
            .retain(|warning| !matches!(warning, Warning::Drained { store } if !empty.contains(store)));
        for store in empty {
            self.warn(Warning::Drained { store });
        }
    }
}
