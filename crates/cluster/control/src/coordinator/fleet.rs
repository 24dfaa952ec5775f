//! Which nodes and stores there are, and which of them live and serve.

use super::groups::KnownPool;
use super::{Config, Moment};
use amita_types::map::{self, Group, Holders, Node, Store};
use amita_types::{NodeId, StoreId};
use std::collections::{BTreeMap, BTreeSet};

/// A node's liveness as this machine has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Its key is there.
    Alive {
        /// Made anew at each start of its process.
        session: u64,
        /// It says that its process has stopped in good order.
        stopped: bool,
        /// The stores that it serves; `None`: all of its own.
        stores: Option<BTreeSet<StoreId>>,
    },
    /// Its key was there and is gone: it may be evicted from this moment on.
    Gone(Moment),
    /// Its key was not there yet: it may be evicted from this moment on.
    Unseen(Moment),
}

/// Where a store that may be evicted is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// Its node is dead.
    Dead(NodeId),
    /// Its node lives and does not serve it.
    Unserved(NodeId),
}

/// The nodes and stores of the cluster.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    pub stores: BTreeMap<StoreId, Store>,
    /// The nodes' records.
    pub hosts: Holders<NodeId, Node>,
    pub lives: BTreeMap<NodeId, Life>,
    /// The newest revision at which each node's key was seen to change.
    pub life_revisions: BTreeMap<NodeId, u64>,
    /// Stores that their living nodes serve.
    serving: BTreeSet<StoreId>,
    /// Stores that their living nodes do not serve: they may be evicted from this moment on.
    pub unserved: BTreeMap<StoreId, Moment>,
}

impl Fleet {
    /// May the stores of this node be evicted?
    pub(super) fn is_dead(&self, now: Moment, node: NodeId) -> bool {
        match self.lives.get(&node) {
            Some(Life::Gone(until) | Life::Unseen(until)) => *until <= now,
            Some(Life::Alive { .. }) | None => false,
        }
    }

    /// The node that serves the store.
    pub(super) fn home(&self, store: StoreId) -> Option<NodeId> {
        self.stores.get(&store).map(|store| store.node)
    }

    /// Does the store's node hold its key, and serve the store? One of an unknown node does not.
    pub(super) fn is_serving(&self, store: StoreId) -> bool {
        match self.home(store).and_then(|node| self.lives.get(&node)) {
            Some(Life::Alive { stopped, stores, .. }) => {
                !stopped && stores.as_ref().is_none_or(|stores| stores.contains(&store))
            }
            _ => false,
        }
    }

    /// Where a store that may be evicted is missed.
    pub(super) fn dead_home(&self, now: Moment, store: StoreId) -> Option<Home> {
        let node = self.home(store)?;
        if self.is_dead(now, node) {
            return Some(Home::Dead(node));
        }
        let unserved = self.unserved.get(&store).is_some_and(|until| *until <= now);
        let lives = matches!(self.lives.get(&node), Some(Life::Alive { .. }));
        (unserved && lives).then_some(Home::Unserved(node))
    }

    /// Does a group have enough copies that are served without this store?
    pub(super) fn may_spare(&self, group: &Group, pool: &KnownPool, store: StoreId) -> bool {
        let others = group.in_sync.iter().filter(|other| **other != store);
        others.filter(|other| self.is_serving(**other)).count() >= pool.min_copies.max(1)
    }

    /// The same without all stores of a node that answers still: two copies at least are left, as one alone may be lost before the node is well.
    pub(super) fn may_spare_node(&self, group: &Group, pool: &KnownPool, node: NodeId) -> bool {
        let others = group.in_sync.iter().filter(|other| self.home(**other) != Some(node));
        others.filter(|other| self.is_serving(**other)).count() >= pool.min_copies.max(2)
    }

    /// When others take the place of a store that is gone.
    pub(super) fn out_at(&self, config: &Config, store: StoreId) -> Option<Moment> {
        let node = self.home(store)?;
        if self.hosts.get(node).is_some_and(|host| host.maintenance) {
            return None;
        }
        let gone = match self.lives.get(&node)? {
            Life::Gone(until) | Life::Unseen(until) => Some(*until),
            Life::Alive { .. } => self.unserved.get(&store).copied(),
        };
        gone.map(|until| until.plus(config.out_after))
    }

    /// The liveness records that say that these stores are served, so that a transaction can compare them.
    pub(super) fn still_there(&self, stores: &[StoreId]) -> BTreeMap<String, u64> {
        let nodes = stores.iter().filter_map(|store| self.home(*store));
        nodes
            .filter_map(|node| Some((map::live_key(node), *self.life_revisions.get(&node)?)))
            .collect()
    }

    /// Which of the stores of a living node does it serve? One that it does not is given a moment: longer where it may
    /// be mounting. Those that it has begun to serve.
    pub(super) fn look_at_service(&mut self, now: Moment, config: &Config, node: NodeId) -> Vec<StoreId> {
        let Some(Life::Alive { stopped: false, .. }) = self.lives.get(&node) else {
            return Vec::new();
        };
        let own = self.stores.iter().filter(|(_, store)| store.node == node);
        let own: Vec<StoreId> = own.map(|(store, _)| *store).collect();
        let mut begun = Vec::new();
        for store in own {
            if self.is_serving(store) {
                self.unserved.remove(&store);
                if self.serving.insert(store) {
                    begun.push(store);
                }
            } else {
                let patience = if self.serving.remove(&store) {
                    config.patience
                } else {
                    config.start_patience
                };
                self.unserved.entry(store).or_insert(now.plus(patience));
            }
        }
        begun
    }

    /// A node's process is gone, or another one has taken its place.
    pub(super) fn serves_nothing(&mut self, node: NodeId) {
        let stores = &self.stores;
        self.serving
            .retain(|store| stores.get(store).is_none_or(|store| store.node != node));
    }

    /// The stores of a node that is gone are missed as its, and not one by one.
    pub(super) fn is_asked_for_nothing(&mut self, node: NodeId) {
        let stores = &self.stores;
        self.unserved
            .retain(|store, _| stores.get(store).is_none_or(|store| store.node != node));
    }

    pub(super) fn forget(&mut self, store: StoreId) {
        self.stores.remove(&store);
        self.unserved.remove(&store);
        self.serving.remove(&store);
    }

    /// Is this change of a node's key newer than what is known? Replies and the watch overtake each other.
    pub(super) fn newer_life(&mut self, node: NodeId, revision: u64) -> bool {
        let known = self.life_revisions.entry(node).or_default();
        let newer = revision > *known;
        *known = revision.max(*known);
        newer
    }
}
