//! The state of a cluster, as its metadata tells it.

use super::recovery::{RecoveryStatus, SlowStatus, progress, slow};
use super::topology::{Outlook, Topology};
use super::{Result, cluster, hosts, list, subsystems, volumes};
use crate::agent::STOPPED;
use amita_cluster::map::{self, Group, Live, Node, Pool, PoolKind, Store, StoreDuty, Subsystem, Volume};
use amita_cluster::{ClusterId, NodeId, StoreId};
use amita_meta::{Call, KeyValue, Transact};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
    /// What hosts can connect to by NVMe/TCP.
    pub nvme: NvmeCounts,
    /// What is not as it should be, or not as it will be: a sentence each.
    pub warnings: Vec<String>,
    /// Stores that are being brought up to date.
    pub recovery: Vec<RecoveryStatus>,
    /// Stores that nodes find slow.
    pub slow_stores: Vec<SlowStatus>,
}

/// What hosts can connect to by NVMe/TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NvmeCounts {
    /// Nodes that serve it.
    pub gateways: usize,
    /// Of them, those that live.
    pub alive: usize,
    /// Subsystems.
    pub subsystems: usize,
    /// Namespaces of all of them.
    pub namespaces: usize,
    /// Hosts that are known.
    pub hosts: usize,
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
    /// Does its node hold its lease, and serve it?
    pub alive: bool,
    /// Groups that name it a member.
    pub groups: usize,
    /// Groups in which it is in sync.
    pub in_sync: usize,
    /// Groups in which it is being brought up to date.
    pub syncing: usize,
    /// Groups that name it in whatever way: a store that is drained has none.
    pub named: usize,
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
    /// Members in sync that are gone: writes wait until they are evicted or back.
    pub waiting: usize,
    /// Of the waiting ones: so few members are left that nobody can be evicted. They wait until somebody is back.
    pub below: usize,
    /// Some member is being brought up to date.
    pub syncing: usize,
    /// Not all of those that should hold it are in sync, or others are as well: it is degraded, or it moves.
    pub moving: usize,
}

/// A pool.
#[derive(Clone, Debug, Serialize)]
pub struct PoolStatus {
    /// Its record.
    #[serde(flatten)]
    pub pool: Pool,
    /// Its groups.
    pub group_counts: GroupCounts,
    /// What the coordinator still has to do with it.
    pub outlook: Outlook,
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
    let topology = Topology::read(meta)?;
    let lives = &topology.lives;
    let names: BTreeMap<NodeId, String> = topology.nodes.iter().map(|node| (node.id, node.name.clone())).collect();
    let homes: BTreeMap<StoreId, &Store> = topology.stores.iter().map(|store| (store.id, store)).collect();
    let is_alive = |store: &StoreId| homes.get(store).is_some_and(|store| lives.serve(store));

    let mut counts: BTreeMap<StoreId, Named> = BTreeMap::new();
    let mut pool_status = Vec::new();
    for pool in &topology.pools {
        let groups: Vec<Group> = list(meta, &map::groups_prefix(pool.id))?;
        for group in &groups {
            let syncing: Vec<StoreId> = group.syncing.iter().map(|member| member.store).collect();
            let everybody: BTreeSet<StoreId> = group
                .members
                .iter()
                .chain(&group.in_sync)
                .chain(&syncing)
                .copied()
                .collect();
            for store in everybody {
                let own = counts.entry(store).or_default();
                own.all += 1;
                own.member += usize::from(group.members.contains(&store));
                own.in_sync += usize::from(group.in_sync.contains(&store));
                own.syncing += usize::from(syncing.contains(&store));
            }
        }
        pool_status.push(PoolStatus {
            group_counts: count(pool, &groups, is_alive),
            outlook: topology.outlook_of(pool, &groups),
            pool: pool.clone(),
        });
    }
    let store_status: Vec<StoreStatus> = topology
        .stores
        .iter()
        .map(|store| {
            let own = counts.get(&store.id).copied().unwrap_or_default();
            StoreStatus {
                node_name: names.get(&store.node).cloned().unwrap_or_default(),
                alive: lives.serve(store),
                groups: own.member,
                in_sync: own.in_sync,
                syncing: own.syncing,
                named: own.all,
                store: store.clone(),
            }
        })
        .collect();
    let node_status: Vec<NodeStatus> = topology
        .nodes
        .iter()
        .map(|node| NodeStatus {
            alive: lives.alive(node.id),
            node: node.clone(),
        })
        // A client that is gone is nobody's loss; its record goes when the next one comes.
        .filter(|found| found.alive || !found.node.client)
        .collect();
    let health = health(&pool_status);
    let subsystems = subsystems(meta)?;
    let mut warnings = warnings(&node_status, &store_status, &pool_status);
    warnings.extend(unserved(&node_status, &subsystems));
    let serve_nvme = || node_status.iter().filter(|found| found.node.nvme.is_some());
    let nvme = NvmeCounts {
        gateways: serve_nvme().count(),
        alive: serve_nvme().filter(|found| found.alive).count(),
        subsystems: subsystems.len(),
        namespaces: subsystems.iter().map(|subsystem| subsystem.namespaces.len()).sum(),
        hosts: hosts(meta)?.len(),
    };
    let living: BTreeSet<NodeId> = names.keys().copied().filter(|node| lives.alive(*node)).collect();
    Ok(Status {
        cluster: cluster.id,
        health,
        nvme,
        warnings,
        nodes: node_status,
        stores: store_status,
        recovery: progress(meta, &living)?,
        slow_stores: slow(meta, &living)?,
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

/// In how many groups a store is what.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    all: usize,
    member: usize,
    in_sync: usize,
    syncing: usize,
}

/// What is not as it should be, a sentence each.
fn warnings(nodes: &[NodeStatus], stores: &[StoreStatus], pools: &[PoolStatus]) -> Vec<String> {
    let mut lines = Vec::new();
    for node in nodes {
        let name = &node.node.name;
        match (node.alive, node.node.maintenance) {
            (false, true) => lines.push(format!("Node {name} is in maintenance and down.")),
            (false, false) => lines.push(format!("Node {name} does not hold its lease: it is down, or cut off.")),
            (true, true) => lines.push(format!("Node {name} is in maintenance: its stores get no new groups.")),
            (true, false) => {}
        }
    }
    let lives = |store: &StoreStatus| nodes.iter().any(|node| node.alive && node.node.id == store.store.node);
    for store in stores.iter().filter(|store| !store.alive && lives(store)) {
        lines.push(format!(
            "Store {} is not served by node {}, which lives: see that node's log.",
            store.store.id, store.node_name
        ));
    }
    for store in stores.iter().filter(|store| store.store.duty == StoreDuty::Draining) {
        let id = store.store.id;
        lines.push(match store.named {
            0 => format!("Store {id} is drained: it can be taken out (`amita disk forget {id}`)."),
            left => format!("Store {id} is being drained: {left} groups to go."),
        });
    }
    for pool in pools {
        let (name, counts, all) = (&pool.pool.name, &pool.group_counts, pool.pool.groups);
        let missing = counts.degraded + counts.at_min_copies;
        if missing > 0 {
            lines.push(format!(
                "Pool {name}: {missing} of {all} groups lack a copy; I/O goes on."
            ));
        }
        if counts.at_min_copies > 0 {
            lines.push(format!(
                "Pool {name}: {} of {all} groups have no copy to spare; one more failure, and their writes wait.",
                counts.at_min_copies
            ));
        }
        if counts.waiting > counts.below {
            lines.push(format!(
                "Pool {name}: {} of {all} groups name an in-sync store that is gone; I/O waits until it is evicted or back.",
                counts.waiting - counts.below
            ));
        }
        if counts.below > 0 {
            lines.push(format!(
                "Pool {name}: {} of {all} groups have too few copies that are there; their writes wait until the nodes of \
                 the others are back.",
                counts.below
            ));
        }
        if counts.syncing > 0 {
            lines.push(format!(
                "Pool {name}: {} of {all} groups are being brought up to date; {} in all are not yet as they should be.",
                counts.syncing, counts.moving
            ));
        }
        if pool.outlook.unmet > 0 {
            let class = pool
                .pool
                .class
                .as_ref()
                .map_or_else(String::new, |class| format!(" of class {class}"));
            lines.push(format!(
                "Pool {name}: the rule cannot be met for {} of {all} groups: not enough {}s with stores{class} that can take \
                 a copy. They stay where they are: add stores, or end drains.",
                pool.outlook.unmet, pool.pool.failure_domain
            ));
        }
    }
    lines
}

/// Subsystems with namespaces that no node serves now, a sentence each.
fn unserved(nodes: &[NodeStatus], subsystems: &[Subsystem]) -> Vec<String> {
    let mut lines = Vec::new();
    for subsystem in subsystems.iter().filter(|subsystem| !subsystem.namespaces.is_empty()) {
        let serves = |found: &NodeStatus| {
            let named = subsystem.gateways.is_empty() || subsystem.gateways.contains(&found.node.name);
            named && found.alive && found.node.nvme.is_some()
        };
        if !nodes.iter().any(serves) {
            let (name, who) = (&subsystem.name, subsystem.gateways.join(", "));
            let who = if who.is_empty() { "any node".to_owned() } else { who };
            lines.push(format!(
                "Subsystem {name}: no node that lives serves it; start {who} with --nvme ADDRESS:PORT."
            ));
        }
    }
    lines
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
    let (copies, least) = (usize::from(copies), usize::from(min_copies));
    for group in groups {
        let alive = group.in_sync.iter().filter(|store| is_alive(store)).count();
        if alive < group.in_sync.len() {
            counts.waiting += 1;
            counts.below += usize::from(alive < least);
        } else if group.in_sync.len() >= copies {
            counts.whole += 1;
        } else if group.in_sync.len() > least {
            counts.degraded += 1;
        } else {
            counts.at_min_copies += 1;
        }
        counts.syncing += usize::from(!group.syncing.is_empty());
        let same = group.in_sync.len() == group.members.len()
            && group.members.iter().all(|store| group.in_sync.contains(store));
        counts.moving += usize::from(!same);
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
