//! The state of a cluster, as its metadata tells it.

use super::recovery::{RecoveryStatus, SlowStatus, of_nodes, progress, slow};
use super::topology::{Outlook, Topology};
use super::{Result, cluster, exports, hosts, list, subsystems, thresholds, volumes};
use crate::agent::STOPPED;
use crate::health::{self, Fact, Picture};
use amita_metadata::{Call, KeyValue, Transact};
use amita_types::condition::{Condition, StoreSpace, Trouble, condition_prefix};
use amita_types::map::{self, Export, Group, Live, Node, Pool, PoolKind, Store, Suspect, Volume};
use amita_types::{ClusterId, NodeId, StoreId, VolumeId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Serialize)]
pub struct Status {
    pub cluster: ClusterId,
    /// In one word: `ok`, `degraded` (something is not as it should be, I/O goes on), `blocked` (I/O of some hosts waits or
    /// fails). It follows from the facts: see [`health::word`].
    pub health: &'static str,
    /// What is not as it should be, or not as it will be, and what to do about it; the worst first.
    pub facts: Vec<Fact>,
    /// Nodes by name.
    pub nodes: Vec<NodeStatus>,
    pub stores: Vec<StoreStatus>,
    /// Pools by name.
    pub pools: Vec<PoolStatus>,
    /// Volumes by name.
    pub volumes: Vec<VolumeStatus>,
    /// What hosts can connect to by NVMe/TCP.
    pub nvme: NvmeCounts,
    /// The facts' sentences.
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
    pub subsystems: usize,
    /// Namespaces of all of them.
    pub namespaces: usize,
    /// Hosts that are known.
    pub hosts: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its record.
    #[serde(flatten)]
    pub node: Node,
    /// Does it hold its lease?
    pub alive: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct StoreStatus {
    /// Its record.
    #[serde(flatten)]
    pub store: Store,
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
    /// How full it is, as the node that serves it has said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<StoreSpace>,
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

#[derive(Clone, Debug, Serialize)]
pub struct PoolStatus {
    /// Its record.
    #[serde(flatten)]
    pub pool: Pool,
    pub group_counts: GroupCounts,
    /// What the coordinator still has to do with it.
    pub outlook: Outlook,
    /// The stores that its groups name.
    pub stores: Vec<StoreId>,
    /// Bytes for data of those of them that are served; other pools may use the same stores.
    pub raw_bytes: u64,
    /// Of them, bytes that hold something.
    pub used_bytes: u64,
    /// How full the fullest of them is: a write fails when one store of its group has nothing left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fullest_percent: Option<u8>,
}

#[derive(Clone, Debug, Serialize)]
pub struct VolumeStatus {
    /// Its record.
    #[serde(flatten)]
    pub volume: Volume,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_name: Option<String>,
    /// Does its owner hold its lease?
    pub owner_alive: bool,
    /// As what it is served by NBD; none: it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<Export>,
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

    let living: BTreeSet<NodeId> = names.keys().copied().filter(|node| lives.alive(*node)).collect();
    let (spaces, troubles) = conditions(meta, &living)?;

    let mut counts: BTreeMap<StoreId, Named> = BTreeMap::new();
    let mut pool_status = Vec::new();
    for pool in &topology.pools {
        let groups: Vec<Group> = list(meta, &map::groups_prefix(pool.id))?;
        let mut stores: BTreeSet<StoreId> = BTreeSet::new();
        for group in &groups {
            let syncing: Vec<StoreId> = group.syncing.iter().map(|member| member.store).collect();
            let everybody: BTreeSet<StoreId> = group
                .members
                .iter()
                .chain(&group.in_sync)
                .chain(&syncing)
                .copied()
                .collect();
            for &store in &everybody {
                let own = counts.entry(store).or_default();
                own.all += 1;
                own.member += usize::from(group.members.contains(&store));
                own.in_sync += usize::from(group.in_sync.contains(&store));
                own.syncing += usize::from(syncing.contains(&store));
            }
            stores.extend(everybody);
        }
        let known = || stores.iter().filter_map(|store| spaces.get(store));
        pool_status.push(PoolStatus {
            group_counts: count(pool, &groups, is_alive),
            outlook: topology.outlook_of(pool, &groups),
            pool: pool.clone(),
            raw_bytes: known().map(|space| space.capacity_bytes).sum(),
            used_bytes: known().map(StoreSpace::used_bytes).sum(),
            fullest_percent: known().map(StoreSpace::used_percent).max(),
            stores: stores.into_iter().collect(),
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
                space: spaces.get(&store.id).copied(),
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
    let subsystems = subsystems(meta)?;
    let serve_nvme = || node_status.iter().filter(|found| found.node.nvme.is_some());
    let nvme = NvmeCounts {
        gateways: serve_nvme().count(),
        alive: serve_nvme().filter(|found| found.alive).count(),
        subsystems: subsystems.len(),
        namespaces: subsystems.iter().map(|subsystem| subsystem.namespaces.len()).sum(),
        hosts: hosts(meta)?.len(),
    };
    let slow_stores = slow(meta, &living)?;
    let mut exported: BTreeMap<VolumeId, Export> = exports(meta)?
        .into_iter()
        .map(|export| (export.volume, export))
        .collect();
    let volumes: Vec<VolumeStatus> = volumes(meta)?
        .into_iter()
        .map(|volume| VolumeStatus {
            owner_name: volume.owner.and_then(|owner| names.get(&owner).cloned()),
            owner_alive: volume.owner.is_some_and(|owner| lives.alive(owner)),
            export: exported.remove(&volume.id),
            volume,
        })
        .collect();
    let facts = health::judge(&Picture {
        nodes: &node_status,
        stores: &store_status,
        pools: &pool_status,
        volumes: &volumes,
        subsystems: &subsystems,
        slow_stores: &slow_stores,
        suspects: &suspects(meta)?,
        troubles: &troubles,
        thresholds: thresholds(meta)?,
    });
    Ok(Status {
        cluster: cluster.id,
        health: health::word(&facts),
        warnings: facts.iter().map(Fact::to_string).collect(),
        facts,
        nvme,
        nodes: node_status,
        stores: store_status,
        recovery: progress(meta, &living)?,
        slow_stores,
        pools: pool_status,
        volumes,
    })
}

/// What living nodes say of the stores that they serve, and of what hosts meet with at them.
type Conditions = (BTreeMap<StoreId, StoreSpace>, Vec<(NodeId, Trouble)>);

fn conditions(meta: &dyn Transact, living: &BTreeSet<NodeId>) -> Result<Conditions> {
    let mut spaces = BTreeMap::new();
    let mut troubles: Vec<(NodeId, Trouble)> = Vec::new();
    for (node, condition) in of_nodes::<Condition>(meta, &condition_prefix(), living)? {
        spaces.extend(condition.stores.into_iter().map(|space| (space.store, space)));
        for trouble in condition.troubles {
            // The cores of a node meet with the same.
            let same = |(by, known): &(NodeId, Trouble)| {
                (*by, known.volume, known.what) == (node, trouble.volume, trouble.what)
            };
            if !troubles.iter().any(same) {
                troubles.push((node, trouble));
            }
        }
    }
    Ok((spaces, troubles))
}

/// What was found against the metadata: while there is anything, no volume is opened.
pub(super) fn suspects(meta: &dyn Transact) -> Result<Vec<String>> {
    let found: Vec<Suspect> = list(meta, &map::suspect_prefix())?;
    Ok(found.into_iter().map(|suspect| suspect.why).collect())
}

/// In how many groups a store is what.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    all: usize,
    member: usize,
    in_sync: usize,
    syncing: usize,
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
