//! The state of a cluster, as its metadata tells it.

use super::{Result, cluster, list, nodes, pools, stores, volumes};
use crate::agent::STOPPED;
use amita_cluster::map::{self, Group, Live, Node, Pool, PoolKind, Store, Volume};
use amita_cluster::{ClusterId, NodeId, StoreId};
use amita_meta::{Call, KeyValue, Transact};
use serde::Serialize;
use std::collections::BTreeMap;

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The cluster.
    pub cluster: ClusterId,
    /// In one word: `ok`, `degraded` (copies are missing), `blocked` (writes of some groups wait).
    pub health: &'static str,
    /// Nodes by name.
    pub nodes: Vec<NodeStatus>,
    /// Stores.
    pub stores: Vec<StoreStatus>,
    /// Pools by name.
    pub pools: Vec<PoolStatus>,
    /// Volumes by name.
    pub volumes: Vec<VolumeStatus>,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its record.
    #[serde(flatten)]
    pub node: Node,
    /// Does it hold its lease?
    pub alive: bool,
}

/// A store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreStatus {
    /// Its record.
    #[serde(flatten)]
    pub store: Store,
    /// Its node's name.
    pub node_name: String,
    /// Does its node hold its lease?
    pub alive: bool,
    /// Groups that name it a member.
    pub groups: usize,
    /// Groups in which it is in sync.
    pub in_sync: usize,
}

/// How many groups of a pool are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    /// All copies in sync.
    pub whole: usize,
    /// Some copy missing, writes go on.
    pub degraded: usize,
    /// At the least number of copies that writes need.
    pub at_min_copies: usize,
    /// Members in sync whose nodes are gone: writes wait until they are evicted or back.
    pub waiting: usize,
}

/// A pool.
#[derive(Clone, Debug, Serialize)]
pub struct PoolStatus {
    /// Its record.
    #[serde(flatten)]
    pub pool: Pool,
    /// Its groups.
    pub group_counts: GroupCounts,
}

/// A volume.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeStatus {
    /// Its record.
    #[serde(flatten)]
    pub volume: Volume,
    /// Its owner's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_name: Option<String>,
    /// Does its owner hold its lease?
    pub owner_alive: bool,
}

/// Reads the state of the cluster.
///
/// # Errors
/// No cluster yet, the metadata is away, or a record is not readable.
pub fn status(meta: &dyn Transact) -> Result<Status> {
    let cluster = cluster(meta)?;
    let lives = lives(meta)?;
    let nodes = nodes(meta)?;
    let names: BTreeMap<NodeId, String> = nodes.iter().map(|node| (node.id, node.name.clone())).collect();
    let stores = stores(meta)?;
    let homes: BTreeMap<StoreId, &Store> = stores.iter().map(|store| (store.id, store)).collect();
    let is_alive = |store: &StoreId| homes.get(store).is_some_and(|store| lives.serve(store));

    let mut member: BTreeMap<StoreId, usize> = BTreeMap::new();
    let mut in_sync: BTreeMap<StoreId, usize> = BTreeMap::new();
    let mut pool_status = Vec::new();
    for pool in pools(meta)? {
        let groups: Vec<Group> = list(meta, &map::groups_prefix(pool.id))?;
        for group in &groups {
            group
                .members
                .iter()
                .for_each(|store| *member.entry(*store).or_default() += 1);
            group
                .in_sync
                .iter()
                .for_each(|store| *in_sync.entry(*store).or_default() += 1);
        }
        let group_counts = count(&pool, &groups, is_alive);
        pool_status.push(PoolStatus { pool, group_counts });
    }
    let health = health(&pool_status);
    Ok(Status {
        cluster: cluster.id,
        health,
        nodes: nodes
            .into_iter()
            .map(|node| NodeStatus {
                alive: lives.alive(node.id),
                node,
            })
            .collect(),
        stores: stores
            .into_iter()
            .map(|store| StoreStatus {
                node_name: names.get(&store.node).cloned().unwrap_or_default(),
                alive: lives.alive(store.node),
                groups: member.get(&store.id).copied().unwrap_or(0),
                in_sync: in_sync.get(&store.id).copied().unwrap_or(0),
                store,
            })
            .collect(),
        pools: pool_status,
        volumes: volumes(meta)?
            .into_iter()
            .map(|volume| VolumeStatus {
                owner_name: volume.owner.and_then(|owner| names.get(&owner).cloned()),
                owner_alive: volume.owner.is_some_and(|owner| lives.alive(owner)),
                volume,
            })
            .collect(),
    })
}

/// The nodes that hold their lease and have not said that they stop, and what they serve.
pub(super) struct Lives(BTreeMap<NodeId, Option<Vec<StoreId>>>);

impl Lives {
    pub(super) fn alive(&self, node: NodeId) -> bool {
        self.0.contains_key(&node)
    }

    /// Does the store's node live, and serve it?
    pub(super) fn serve(&self, store: &Store) -> bool {
        let served = self.0.get(&store.node);
        served.is_some_and(|stores| stores.as_ref().is_none_or(|stores| stores.contains(&store.id)))
    }
}

pub(super) fn lives(meta: &dyn Transact) -> Result<Lives> {
    let prefix = format!("{}live/", map::PREFIX);
    let reply = meta.txn(&Call::prefix(prefix.as_str()))?;
    let node = |found: &KeyValue| {
        let live = found.json::<Live>().ok();
        let stopped = live.as_ref().is_some_and(|live| live.pid == STOPPED);
        let node = found.key.strip_prefix(&prefix)?.parse().ok().filter(|_| !stopped)?;
        Some((node, live.and_then(|live| live.stores)))
    };
    Ok(Lives(reply.values(0).iter().filter_map(node).collect()))
}

fn count(pool: &Pool, groups: &[Group], is_alive: impl Fn(&StoreId) -> bool) -> GroupCounts {
    let PoolKind::Replicated { copies, min_copies } = pool.kind else {
        return GroupCounts::default();
    };
    let mut counts = GroupCounts::default();
    for group in groups {
        let (copies, least) = (usize::from(copies), usize::from(min_copies));
        if !group.in_sync.iter().all(&is_alive) {
            counts.waiting += 1;
        } else if group.in_sync.len() >= copies {
            counts.whole += 1;
        } else if group.in_sync.len() > least {
            counts.degraded += 1;
        } else {
            counts.at_min_copies += 1;
        }
    }
    counts
}

fn health(pools: &[PoolStatus]) -> &'static str {
    if pools.iter().any(|pool| pool.group_counts.waiting > 0) {
        "blocked"
    } else if pools
        .iter()
        .any(|pool| pool.group_counts.degraded + pool.group_counts.at_min_copies > 0)
    {
        "degraded"
    } else {
        "ok"
    }
}
