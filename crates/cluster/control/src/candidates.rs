//! Which stores may hold a pool's groups: the one definition, for the coordinator's plans, for a new pool, and for what
//! an operator is told beforehand.

use amita_types::map::{Node, Pool, Store, StoreDuty};
use amita_types::placement::Candidate;
use amita_types::{NodeId, StoreId};
use std::collections::BTreeMap;

/// Is a store there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its node lives and serves it.
    Serving,
    /// Its node lives and serves it, and its network is sick: it keeps its groups, and gets no more.
    Avoided,
    /// It is gone and is waited for: it keeps its groups, and gets no more.
    Away,
    /// It has been gone for so long that others take its place.
    Out,
}

/// The stores of the pool's class that are neither drained nor out. One that is away, or whose node is in maintenance,
/// keeps what it has and gets nothing new.
pub fn candidates<'a>(
    pool: &Pool,
    stores: impl Iterator<Item = &'a Store>,
    nodes: &BTreeMap<NodeId, &Node>,
    standing: impl Fn(StoreId) -> Standing,
) -> Vec<Candidate> {
    let of_class = |store: &&Store| pool.class.as_ref().is_none_or(|class| store.class == *class);
    let wanted = stores
        .filter(of_class)
        .filter(|store| store.duty != StoreDuty::Draining);
    let candidate = |store: &Store| {
        let node = nodes.get(&store.node).copied();
        let rests = node.is_some_and(|node| node.maintenance);
        let standing = standing(store.id);
        if standing == Standing::Out && !rests {
            return None;
        }
        let mut candidate = Candidate::new(store, node);
        candidate.keeps_only = rests || standing != Standing::Serving;
        Some(candidate)
    };
    wanted.filter_map(candidate).collect()
}
