//! What an operator should know.

use crate::events::{Draft, Kind};
use crate::network::Blame;
use amita_types::condition::Fullness;
use amita_types::link::Network;
use amita_types::{NodeId, StoreId};
use std::fmt;

/// What the coordinator has to say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Warning {
    /// A node's lease is gone.
    NodeGone { node: NodeId },
    /// It is there again.
    NodeBack { node: NodeId },
    /// Stores of dead nodes were taken out of in-sync sets.
    Evicted {
        nodes: Vec<NodeId>,
        /// From how many groups.
        groups: usize,
    },
    /// Stores that their living nodes do not serve were taken out of in-sync sets.
    StoresEvicted {
        stores: Vec<StoreId>,
        /// From how many groups.
        groups: usize,
    },
    /// Stores are being brought up to date.
    Syncing {
        stores: Vec<StoreId>,
        /// In how many groups.
        groups: usize,
    },
    /// They no longer are: they are gone, or not wanted any more.
    Dropped {
        stores: Vec<StoreId>,
        /// In how many groups.
        groups: usize,
    },
    /// They are up to date, and in sync from now on.
    Promoted {
        stores: Vec<StoreId>,
        /// In how many groups.
        groups: usize,
    },
    /// Stores that others have replaced were taken out of in-sync sets.
    Left {
        stores: Vec<StoreId>,
        /// From how many groups.
        groups: usize,
    },
    /// Nodes find a store much slower than its peers.
    SlowStore {
        store: StoreId,
        /// How many nodes find it slow.
        slow: usize,
        /// Of how many that have asked it enough to say.
        nodes: usize,
        /// What one of them has seen.
        why: String,
        /// Why it stays; it is evicted where there is nothing against it.
        hindrance: Option<String>,
    },
    /// Links between nodes are bad, and this is why.
    SickNetwork {
        blame: Blame,
        /// What was measured.
        evidence: String,
        /// What becomes of it.
        sentence: Sentence,
    },
    /// It has been well for a while.
    NetworkWell {
        blame: Blame,
        /// Nodes have left that network there, and go by it again; none: it was in use.
        left: Option<Network>,
    },
    /// Too few living members: nothing can be evicted lawfully, writes wait (R10).
    TooFewAlive {
        /// The pool's name.
        pool: String,
        /// How many of its groups wait.
        groups: usize,
        /// For which nodes.
        nodes: Vec<NodeId>,
        /// How many members a write needs.
        min_copies: usize,
    },
    /// Groups are to be held by other stores.
    Placed {
        /// The pool's name.
        pool: String,
        /// How many of its groups.
        groups: usize,
        /// How many copies move.
        copies: usize,
    },
    /// A pool's rule cannot be met.
    RuleUnmet {
        /// The pool's name.
        pool: String,
        /// For how many groups.
        groups: usize,
        /// How many copies the rule wants.
        copies: usize,
        /// In different what.
        level: String,
        /// On stores of which class; empty: any.
        class: String,
    },
    /// Volumes' owners took stores out of in-sync sets: they did not answer, or could not do what they must (R12).
    EvictedByOwners {
        stores: Vec<StoreId>,
        /// From how many groups.
        groups: usize,
    },
    /// Volumes' owners no longer bring stores up to date: they failed at it.
    DroppedByOwners {
        stores: Vec<StoreId>,
        /// In how many groups.
        groups: usize,
    },
    /// A volume has another owner.
    VolumeTaken {
        /// Its name.
        volume: String,
        /// Who had it.
        from: Option<NodeId>,
        /// Who has it.
        to: NodeId,
    },
    /// A store is being drained.
    DrainBegun { store: StoreId },
    /// A store that drains holds nothing any more.
    Drained { store: StoreId },
    /// A store has got over a threshold of its space, or has come back below it.
    StoreFills {
        store: StoreId,
        /// How much of it is used.
        percent: u8,
        /// What that is called now.
        fullness: Fullness,
    },
    /// The stores of a pool together have got over a level of their space, or have come back below it.
    PoolFills {
        /// The pool's name.
        pool: String,
        /// Over it, or below it again.
        above: bool,
        /// The highest level that it has got over, or has come below, in percent.
        level: u8,
        /// How much is used.
        percent: u8,
        used_bytes: u64,
        /// Of so much.
        raw_bytes: u64,
    },
    /// A record that this build does not understand is left alone.
    Unreadable {
        key: String,
        /// What is wrong with it.
        what: String,
    },
}

/// What becomes of a sick network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Sentence {
    /// It is no node's, and nobody is to leave for it.
    Told,
    /// Nodes have left that network there for their other one, and nobody needs anything else.
    Switched { left: Network },
    /// No group is at the node.
    Empty,
    /// The node could be isolated, or could not; the policy says that nothing is done.
    Proposed { hindrance: Option<String> },
    /// It gets no more groups.
    Avoided,
    /// Its stores are taken out of their groups, and it rests.
    Isolated,
    /// It should be isolated, and cannot be.
    Stays { hindrance: String },
}

impl Sentence {
    /// Is it the same, whatever the numbers in its reason are?
    pub(super) fn is_like(&self, other: &Sentence) -> bool {
        match (self, other) {
            (Sentence::Proposed { hindrance }, Sentence::Proposed { hindrance: known }) => {
                hindrance.is_some() == known.is_some()
            }
            (Sentence::Stays { .. }, Sentence::Stays { .. }) => true,
            _ => self == other,
        }
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sentence::Told => f.write_str("no node is to leave for it"),
            Sentence::Switched { left } => write!(
                f,
                "that is network {left}: connections go by network {} meanwhile, and nothing else is done",
                left.other()
            ),
            Sentence::Empty => f.write_str("the node holds no copies, so that nothing is to be moved"),
            Sentence::Proposed { hindrance: None } => f.write_str(
                "nothing is done, as the policy says: its stores would get no more groups, and would be evicted until it is well",
            ),
            Sentence::Proposed {
                hindrance: Some(hindrance),
            } => write!(
                f,
                "nothing is done, as the policy says: its stores would get no more groups, and could not be evicted: {hindrance}"
            ),
            Sentence::Avoided => f.write_str("its stores get no more groups"),
            Sentence::Isolated => f.write_str("its stores are evicted, and tried again later"),
            Sentence::Stays { hindrance } => {
                write!(f, "its stores get no more groups, and cannot be evicted: {hindrance}")
            }
        }
    }
}

/// The nodes, or the rack.
fn objects(blame: &Blame) -> Vec<String> {
    match blame {
        Blame::Network => Vec::new(),
        Blame::Rack(_, rack) => vec![rack.clone()],
        Blame::Node(node) => vec![node.to_string()],
        Blame::Link(one, other) => vec![one.to_string(), other.to_string()],
    }
}

impl Warning {
    pub(super) fn syncing(stores: Vec<StoreId>, groups: usize) -> Warning {
        Warning::Syncing { stores, groups }
    }

    pub(super) fn dropped(stores: Vec<StoreId>, groups: usize) -> Warning {
        Warning::Dropped { stores, groups }
    }

    pub(super) fn promoted(stores: Vec<StoreId>, groups: usize) -> Warning {
        Warning::Promoted { stores, groups }
    }

    pub(super) fn left(stores: Vec<StoreId>, groups: usize) -> Warning {
        Warning::Left { stores, groups }
    }

    /// Does every node see it, elected or not?
    #[must_use]
    pub fn is_seen_by_all(&self) -> bool {
        matches!(
            self,
            Warning::NodeGone { .. }
                | Warning::NodeBack { .. }
                | Warning::VolumeTaken { .. }
                | Warning::DrainBegun { .. }
                | Warning::EvictedByOwners { .. }
                | Warning::DroppedByOwners { .. }
                | Warning::StoreFills { .. }
                | Warning::PoolFills { .. }
        )
    }

    /// As an event.
    #[must_use]
    pub fn draft(&self) -> Draft {
        let text = self.to_string();
        match self {
            Warning::NodeGone { node } => Draft::new(Kind::NodeGone, [node], text),
            Warning::NodeBack { node } => Draft::new(Kind::NodeBack, [node], text),
            Warning::Evicted { nodes, .. } => Draft::new(Kind::NodesEvicted, nodes, text),
            Warning::StoresEvicted { stores, .. } | Warning::EvictedByOwners { stores, .. } => {
                Draft::new(Kind::StoresEvicted, stores, text)
            }
            Warning::Syncing { stores, .. } => Draft::new(Kind::SyncStarted, stores, text),
            Warning::Dropped { stores, .. } | Warning::DroppedByOwners { stores, .. } => {
                Draft::new(Kind::SyncDropped, stores, text)
            }
            Warning::Promoted { stores, .. } => Draft::new(Kind::SyncFinished, stores, text),
            Warning::Left { stores, .. } => Draft::new(Kind::StoresLeft, stores, text),
            Warning::TooFewAlive { pool, .. } => Draft::new(Kind::TooFewAlive, [pool], text),
            Warning::Placed { pool, .. } => Draft::new(Kind::Placed, [pool], text),
            Warning::RuleUnmet { pool, .. } => Draft::new(Kind::RuleUnmet, [pool], text),
            Warning::VolumeTaken { volume, .. } => Draft::new(Kind::VolumeTakenOver, [volume], text),
            Warning::DrainBegun { store } => Draft::new(Kind::DrainBegun, [store], text),
            Warning::SlowStore { store, .. } => Draft::new(Kind::SlowStore, [store], text),
            Warning::SickNetwork { blame, sentence, .. } => {
                let kind = match sentence {
                    Sentence::Isolated => Kind::NodeIsolated,
                    _ => Kind::NetworkSick,
                };
                Draft::new(kind, objects(blame), text)
            }
            Warning::NetworkWell { blame, .. } => Draft::new(Kind::NetworkWell, objects(blame), text),
            Warning::Drained { store } => Draft::new(Kind::DrainDone, [store], text),
            Warning::StoreFills { store, fullness, .. } => {
                let kind = match fullness {
                    Fullness::Roomy => Kind::StoreRoomy,
                    Fullness::NearFull => Kind::StoreNearFull,
                    Fullness::Full => Kind::StoreFull,
                };
                Draft::new(kind, [store], text)
            }
            Warning::PoolFills { pool, above, .. } => {
                let kind = if *above { Kind::PoolFills } else { Kind::PoolRoomy };
                Draft::new(kind, [pool], text)
            }
            Warning::Unreadable { key, .. } => Draft::new(Kind::RecordUnreadable, [key], text),
        }
    }

    /// Is this how it should go, and not a thing to look after?
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(
            self,
            Warning::NodeBack { .. }
                | Warning::Evicted { .. }
                | Warning::Syncing { .. }
                | Warning::Dropped { .. }
                | Warning::Promoted { .. }
                | Warning::Left { .. }
                | Warning::Placed { .. }
                | Warning::NetworkWell { .. }
                | Warning::VolumeTaken { .. }
                | Warning::DrainBegun { .. }
                | Warning::Drained { .. }
                | Warning::PoolFills { above: false, .. }
                | Warning::StoreFills {
                    fullness: Fullness::Roomy,
                    ..
                }
        )
    }
}

struct Nodes<'a>(&'a [NodeId]);

struct Stores<'a>(&'a [StoreId]);

/// The most stores that one sentence names.
const NAMED_STORES: usize = 4;

impl fmt::Display for Stores<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "store " } else { "stores " })?;
        for (index, store) in self.0.iter().take(NAMED_STORES).enumerate() {
            write!(f, "{}{store}", if index == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(NAMED_STORES) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "node " } else { "nodes " })?;
        for (index, node) in self.0.iter().enumerate() {
            write!(f, "{}{node}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NodeGone { node } => write!(f, "node {node} no longer holds its lease: it is taken for dead"),
            Warning::NodeBack { node } => write!(f, "node {node} is there again"),
            Warning::Evicted { nodes, groups } => {
                write!(
                    f,
                    "evicted the stores of {} from {groups} groups; writes go on with the others",
                    Nodes(nodes)
                )
            }
            Warning::StoresEvicted { stores, groups } => write!(
                f,
                "evicted {} from {groups} groups: not served by the node, slow, or isolated; writes go on with the others",
                Stores(stores)
            ),
            Warning::Syncing { stores, groups } => {
                write!(f, "bringing {} up to date in {groups} groups", Stores(stores))
            }
            Warning::Dropped { stores, groups } => write!(
                f,
                "no longer bringing {} up to date in {groups} groups: gone, or not wanted there any more",
                Stores(stores)
            ),
            Warning::Promoted { stores, groups } => write!(f, "{}: in sync in {groups} groups more", Stores(stores)),
            Warning::Left { stores, groups } => write!(
                f,
                "{}: no longer needed in {groups} groups, which others hold now",
                Stores(stores)
            ),
            Warning::SlowStore {
                store,
                slow,
                nodes,
                why,
                hindrance,
            } => {
                write!(
                    f,
                    "slow store: {slow} of {nodes} nodes find store {store} slow: {why}; "
                )?;
                match hindrance {
                    None => f.write_str("it is evicted, and tried again later; look after its disk and its links"),
                    Some(hindrance) => write!(f, "{hindrance}; look after its disk and its links"),
                }
            }
            Warning::SickNetwork {
                blame,
                evidence,
                sentence,
            } => write!(
                f,
                "sick network: {blame}: {evidence}; {sentence}; look after cables, interfaces and ports of switches"
            ),
            Warning::NetworkWell { blame, left: None } => write!(f, "{blame} is well again"),
            Warning::NetworkWell {
                blame,
                left: Some(network),
            } => write!(f, "{blame}: network {network} is in use again there"),
            Warning::TooFewAlive {
                pool,
                groups,
                nodes,
                min_copies,
            } => write!(
                f,
                "pool {pool}: writes to {groups} groups wait for {}: fewer than {min_copies} in-sync members are alive; \
                 start them again",
                Nodes(nodes)
            ),
            Warning::Placed { pool, groups, copies } => write!(
                f,
                "pool {pool}: {copies} copies of {groups} groups move to other stores"
            ),
            Warning::RuleUnmet {
                pool,
                groups,
                copies,
                level,
                class,
            } => {
                let of = if class.is_empty() {
                    String::new()
                } else {
                    format!(" of class {class}")
                };
                write!(
                    f,
                    "pool {pool}: the rule cannot be met for {groups} groups: no store{of} can take a copy, {copies} of \
                     them on different {level}s; they stay where they are: add stores, or end drains"
                )
            }
            Warning::EvictedByOwners { stores, groups } => write!(
                f,
                "owners of volumes evicted {} from {groups} groups: no answer, or not a good one; writes go on with the \
                 others",
                Stores(stores)
            ),
            Warning::DroppedByOwners { stores, groups } => write!(
                f,
                "owners of volumes no longer bring {} up to date in {groups} groups: it failed, and is tried again later",
                Stores(stores)
            ),
            Warning::VolumeTaken { volume, from, to } => match from {
                Some(from) => write!(f, "volume {volume}: node {to} took it over from node {from}"),
                None => write!(f, "volume {volume}: node {to} owns it"),
            },
            Warning::DrainBegun { store } => write!(f, "store {store} is being drained"),
            Warning::Drained { store } => write!(f, "store {store} is drained: no group needs it, it can be taken out"),
            Warning::StoreFills {
                store,
                percent,
                fullness,
            } => match fullness {
                Fullness::Roomy => write!(f, "store {store} has space again: {percent} % of it is used"),
                Fullness::NearFull => write!(
                    f,
                    "store {store} is near full: {percent} % of it is used; add stores, or delete or trim what is not needed"
                ),
                Fullness::Full => write!(
                    f,
                    "store {store} is full: {percent} % of it is used, and writes fail when nothing is left; add stores, or \
                     delete or trim what is not needed"
                ),
            },
            Warning::PoolFills {
                pool,
                above,
                level,
                percent,
                used_bytes,
                raw_bytes,
            } => {
                let is = format!("{percent} % of it is used, {used_bytes} of {raw_bytes} bytes on its stores");
                match above {
                    true => write!(
                        f,
                        "pool {pool} has got over {level} %: {is}; add stores, or delete or trim what is not needed"
                    ),
                    false => write!(f, "pool {pool} is below {level} % again: {is}"),
                }
            }
            Warning::Unreadable { key, what } => write!(f, "{key} is left alone: {what}"),
        }
    }
}
