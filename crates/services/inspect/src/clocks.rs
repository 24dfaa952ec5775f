//! How far the clocks of two nodes are apart, by nothing but stamps that pass through the metadata.
//!
//! ```text
//! node A writes its time ta ── metadata ──> node B sees it at tb      B notes tb - ta = (B - A) + the way
//! node B writes its time    ── metadata ──> node A sees it            A notes           (A - B) + the way back
//! ```
//! The least of many such differences has the shortest way in it. Half of the difference of both is how far B is ahead of A, and half of
//! their sum is how wrong that can be: no clock is believed to be the right one, and nothing has to be reachable but the metadata.

use crate::inventory::Sight;
use amita_types::NodeId;
use std::collections::{BTreeMap, VecDeque};

/// Stamps of a node that are remembered: a clock that was set is seen after so many.
const WINDOW: usize = 8;
/// A node watches the clocks of so many nodes before it in the order of their numbers, and of as many behind it. In larger clusters a
/// chain of such neighbours joins all nodes.
pub const NEIGHBOURS: usize = 16;

/// The numbers of a node's neighbours among all nodes, itself not.
#[must_use]
pub fn neighbours(own: NodeId, all: &[NodeId]) -> Vec<NodeId> {
    let mut others: Vec<NodeId> = all.iter().copied().filter(|node| *node != own).collect();
    others.sort_unstable();
    others.dedup();
    if others.len() <= 2 * NEIGHBOURS {
        return others;
    }
    let at = others.partition_point(|node| *node < own);
    let count = others.len();
    let mut near: Vec<NodeId> = (0..NEIGHBOURS)
        .flat_map(|step| [others[(at + step) % count], others[(at + count - 1 - step) % count]])
        .collect();
    near.sort_unstable();
    near.dedup();
    near
}

/// What a node has seen of the clocks of others.
#[derive(Clone, Debug, Default)]
pub struct Sights(BTreeMap<NodeId, VecDeque<i64>>);

impl Sights {
    /// A stamp of another node was seen: `theirs` is what it says and `mine` the time here, in milliseconds since 1970. True: it is the
    /// first one of that node.
    pub fn saw(&mut self, node: NodeId, theirs_ms: u64, mine_ms: u64) -> bool {
        let is_first = !self.0.contains_key(&node);
        let seen = self.0.entry(node).or_default();
        if seen.len() == WINDOW {
            seen.pop_front();
        }
        seen.push_back(difference(mine_ms, theirs_ms));
        is_first
    }

    /// Forgets nodes that are none of these.
    pub fn keep(&mut self, nodes: &[NodeId]) {
        self.0.retain(|node, _| nodes.contains(node));
    }

    /// The least difference to each.
    #[must_use]
    pub fn least(&self) -> Vec<Sight> {
        let least = |(node, seen): (&NodeId, &VecDeque<i64>)| {
            Some(Sight {
                node: node.0,
                least_ms: *seen.iter().min()?,
            })
        };
        self.0.iter().filter_map(least).collect()
    }
}

/// What a stamp says may be anything.
fn difference(one: u64, other: u64) -> i64 {
    let difference = i128::from(one) - i128::from(other);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

/// How far two clocks are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// So many milliseconds the first one is ahead.
    pub ahead_ms: i64,
    /// It may be so many more or fewer.
    pub doubt_ms: u64,
}

impl Apart {
    /// Of the first clock and the second: what the first one's node saw of the second, and the other way round.
    #[must_use]
    pub fn of(first_saw_ms: i64, second_saw_ms: i64) -> Apart {
        let (first, second) = (i128::from(first_saw_ms), i128::from(second_saw_ms));
        let clamp = |value: i128| i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
        Apart {
            ahead_ms: clamp((first - second) / 2),
            // A sum below zero is of a clock that was set between.
            doubt_ms: clamp((first + second) / 2).unsigned_abs(),
        }
    }

    /// At least so many milliseconds they are apart, whatever the doubt.
    #[must_use]
    pub fn at_least_ms(self) -> u64 {
        self.ahead_ms.unsigned_abs().saturating_sub(self.doubt_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clocks_are_apart_by_half_of_what_both_saw() {
        // B is 5 s ahead; the way takes 20 ms there and 40 ms back.
        let (b_saw, a_saw) = (5020, -4960);
        let apart = Apart::of(b_saw, a_saw);
        assert_eq!(
            apart,
            Apart {
                ahead_ms: 4990,
                doubt_ms: 30
            }
        );
        assert_eq!(apart.at_least_ms(), 4960);
        // The same clock, a slow way: nothing is claimed.
        assert_eq!(Apart::of(900, 40).at_least_ms(), 0);
        assert_eq!(Apart::of(i64::MAX, i64::MIN).ahead_ms, i64::MAX);
    }

    #[test]
    fn the_least_of_the_last_stamps_counts_and_a_clock_that_was_set_is_seen() {
        let mut sights = Sights::default();
        let node = NodeId(7);
        assert!(sights.saw(node, 1000, 1500));
        assert!(!sights.saw(node, 2000, 2010));
        assert_eq!(sights.least(), [Sight { node: 7, least_ms: 10 }]);
        for at in 0..WINDOW as u64 {
            sights.saw(node, 10_000 + at, 13_000 + at);
        }
        assert_eq!(sights.least()[0].least_ms, 3000);
        sights.saw(node, u64::MAX, 0);
        assert_eq!(sights.least()[0].least_ms, i64::MIN);
        sights.keep(&[]);
        assert!(sights.least().is_empty());
    }

    #[test]
    fn neighbours_see_each_other_and_join_all_nodes() {
        let all: Vec<NodeId> = (1..=100).map(NodeId).collect();
        for &node in &all {
            let near = neighbours(node, &all);
            assert_eq!(near.len(), 2 * NEIGHBOURS, "{node}");
            assert!(
                near.iter().all(|other| neighbours(*other, &all).contains(&node)),
                "{node}"
            );
        }
        assert_eq!(neighbours(NodeId(2), &all[..3]), [NodeId(1), NodeId(3)]);
        assert!(neighbours(NodeId(1), &all[..1]).is_empty());
    }
}
