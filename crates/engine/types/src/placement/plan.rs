//! Plans for all groups of a pool: who holds what, and as few moves as possible when stores come, go or change.
//!
//! 1. What is held already stays, where the store is a candidate and no two copies share a domain.
//! 2. What is missing goes to the store that the group wants most among those that have room.
//! 3. A store that has much less than its share takes copies over: of the groups that want it most, from members that have
//!    more than their share. One that has more than its limit gives copies away. Small differences are left alone: a move
//!    costs more than they do.
//!
//! Each move of the third step lessens a lack and a surplus at once, so that no more copies move than the difference
//! between what is and what is due.

use super::{Candidate, Domain, Level, PlacementError, Share, check, group_at, ranking, shares, want};
use crate::id::{GroupIndex, PoolId, StoreId};
use crate::message::MAX_MEMBERS;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds of evening out: one helps another, seldom more than twice.
const MAX_ROUNDS: usize = 8;

/// The members of all groups of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The result's index is the group's.
    pub members: Vec<Vec<StoreId>>,
    /// Groups for which the rule cannot be met: there is no store that could take a copy. They keep the members that
    /// they have, also those that should leave.
    pub unmet: Vec<GroupIndex>,
}

/// The stores of all groups of a new pool, each store near its share: the result's index is the group's.
///
/// # Errors
/// As [`place`](super::place); and when the number of groups is not a power of two.
pub fn plan_pool(
    pool: PoolId,
    groups: u32,
    candidates: &[Candidate],
    copies: usize,
    level: Level,
) -> Result<Vec<Vec<StoreId>>, PlacementError> {
    let nothing = vec![Vec::new(); groups as usize];
    let ready: Vec<Candidate> = candidates.iter().filter(|own| !own.keeps_only).cloned().collect();
    check(&ready, copies, level)?;
    let plan = replan_pool(pool, &ready, copies, level, &nothing)?;
    assert!(plan.unmet.is_empty(), "the domains were counted");
    Ok(plan.members)
}

/// Plans a pool anew: `present` are the members of its groups, which change as little as the rule and bounded loads allow.
///
/// # Errors
/// Arguments that make no sense. A rule that cannot be met is no error: [`Plan::unmet`] tells.
pub fn replan_pool(
    pool: PoolId,
    candidates: &[Candidate],
    copies: usize,
    level: Level,
    present: &[Vec<StoreId>],
) -> Result<Plan, PlacementError> {
    let groups = u32::try_from(present.len()).unwrap_or(u32::MAX);
    if !groups.is_power_of_two() {
        return Err(PlacementError::BadGroups { groups });
    }
    match check(candidates, copies, level) {
        Ok(()) | Err(PlacementError::TooFewDomains { .. }) => {}
        Err(why) => return Err(why),
    }
    let mut planner = Planner {
        pool,
        candidates,
        copies,
        domains: candidates.iter().map(|candidate| candidate.domain(level)).collect(),
        shares: shares(candidates, copies, level),
        loads: vec![0; candidates.len()],
        plan: Vec::with_capacity(present.len()),
    };
    planner.keep(present);
    planner.fill();
    for _ in 0..MAX_ROUNDS {
        let moves = planner.raise() + planner.lower();
        if moves == 0 {
            break;
        }
    }
    Ok(planner.finish(present))
}

/// Does this set of members obey the rule: so many copies, all on candidates, no two in one domain?
#[must_use]
pub fn is_lawful(members: &[StoreId], candidates: &[Candidate], copies: usize, level: Level) -> bool {
    let known = |store: &StoreId| candidates.iter().find(|own| own.store == *store && own.weight > 0);
    let domains: BTreeSet<Domain<'_>> = members.iter().filter_map(known).map(|own| own.domain(level)).collect();
    members.len() == copies && domains.len() == copies
}

struct Planner<'a> {
    pool: PoolId,
    candidates: &'a [Candidate],
    copies: usize,
    /// Of each candidate.
    domains: Vec<Domain<'a>>,
    shares: Vec<Share>,
    loads: Vec<u64>,
    /// The candidates of each group.
    plan: Vec<Vec<usize>>,
}

impl Planner<'_> {
    fn groups(&self) -> u64 {
        self.plan.len() as u64
    }

    fn due(&self, index: usize) -> u64 {
        self.shares[index].due(self.groups())
    }

    fn limit(&self, index: usize) -> u64 {
        self.shares[index].limit(self.groups())
    }

    fn accepts(&self, index: usize) -> bool {
        self.candidates[index].weight > 0 && !self.candidates[index].keeps_only
    }

    fn keep(&mut self, present: &[Vec<StoreId>]) {
        let candidates = self.candidates.iter().enumerate();
        let weighty = candidates.filter(|(_, candidate)| candidate.weight > 0);
        let by_store: BTreeMap<StoreId, usize> = weighty.map(|(index, own)| (own.store, index)).collect();
        for members in present {
            let mut kept: Vec<usize> = Vec::with_capacity(self.copies);
            for &index in members.iter().filter_map(|store| by_store.get(store)) {
                if kept.len() < self.copies && self.is_free(&kept, index, None) {
                    kept.push(index);
                    self.loads[index] += 1;
                }
            }
            self.plan.push(kept);
        }
    }

    /// Is the candidate's domain free among these, not counting one of them?
    fn is_free(&self, members: &[usize], index: usize, but: Option<usize>) -> bool {
        let others = members.iter().filter(|own| Some(**own) != but);
        others.into_iter().all(|own| self.domains[*own] != self.domains[index])
    }

    fn fill(&mut self) {
        for group in 0..self.plan.len() {
            if self.plan[group].len() >= self.copies {
                continue;
            }
            let ranking = ranking(self.pool, group_at(group), self.candidates);
            while self.plan[group].len() < self.copies {
                let free = |index: &usize| self.accepts(*index) && self.is_free(&self.plan[group], *index, None);
                let open = ranking.iter().copied().filter(free);
                let roomy = open.clone().find(|&index| self.loads[index] < self.limit(index));
                // What has room lies in domains that are taken: the least overfull store of another domain.
                let least = |index: &usize| (self.loads[*index] + 1) * 1_000_000 / self.limit(*index).max(1);
                let Some(next) = roomy.or_else(|| open.min_by_key(least)) else {
                    break;
                };
                self.plan[group].push(next);
                self.loads[next] += 1;
            }
        }
    }

    fn replace(&mut self, group: usize, old: usize, new: usize) {
        for member in self.plan[group].iter_mut().filter(|member| **member == old) {
            *member = new;
        }
        self.loads[old] -= 1;
        self.loads[new] += 1;
    }

    /// The groups in the order in which they want this candidate.
    fn wanting(&self, index: usize) -> Vec<usize> {
        let store = self.candidates[index].store;
        let mut groups: Vec<(u64, usize)> = (0..self.plan.len())
            .map(|group| (want(self.pool, group_at(group), store), group))
            .collect();
        groups.sort_unstable();
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Stores that have much less than their share get it from those that have more than theirs.
    fn raise(&mut self) -> usize {
        let mut moves = 0;
        for index in 0..self.candidates.len() {
            let due = self.due(index);
            if !self.accepts(index) || self.loads[index] * 10 >= due * 8 {
                continue;
            }
            for group in self.wanting(index) {
                if self.loads[index] >= due {
                    break;
                }
                let members = &self.plan[group];
                if members.contains(&index) {
                    continue;
                }
                let surplus = |own: &usize| self.loads[*own].saturating_sub(self.due(*own));
                let givers = members.iter().copied().filter(|own| surplus(own) > 0);
                let giver = givers
                    .filter(|own| self.is_free(members, index, Some(*own)))
                    .max_by_key(surplus);
                if let Some(giver) = giver {
                    self.replace(group, giver, index);
                    moves += 1;
                }
            }
        }
        moves
    }

    /// Stores that have more than their limit give away what wants them least.
    fn lower(&mut self) -> usize {
        let mut moves = 0;
        for index in 0..self.candidates.len() {
            if self.loads[index] <= self.limit(index) {
                continue;
            }
            let mut own = self.wanting(index);
            own.retain(|group| self.plan[*group].contains(&index));
            for group in own.into_iter().rev() {
                if self.loads[index] <= self.limit(index) {
                    break;
                }
                let members = &self.plan[group];
                let takes = |other: &usize| {
                    let other = *other;
                    self.accepts(other)
                        && self.loads[other] < self.due(other)
                        && !members.contains(&other)
                        && self.is_free(members, other, Some(index))
                };
                let ranking = ranking(self.pool, group_at(group), self.candidates);
                if let Some(taker) = ranking.into_iter().find(takes) {
                    self.replace(group, index, taker);
                    moves += 1;
                }
            }
        }
        moves
    }

    /// Groups that lack members keep those that they had.
    fn finish(self, present: &[Vec<StoreId>]) -> Plan {
        let mut result = Plan::default();
        for (group, chosen) in self.plan.iter().enumerate() {
            let mut members: Vec<StoreId> = chosen.iter().map(|index| self.candidates[*index].store).collect();
            if members.len() < self.copies {
                result.unmet.push(group_at(group));
                for store in &present[group] {
                    if members.len() < self.copies.min(MAX_MEMBERS) && !members.contains(store) {
                        members.push(*store);
                    }
                }
            }
            result.members.push(members);
        }
        result
    }
}
