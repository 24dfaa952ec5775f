//! The state of a cluster, as its metadata tells it.

mod parts;

pub use parts::{Members, members, volume_statuses};
use parts::{Seen, members_of, volumes_of};

use super::recovery::{RecoveryStatus, SlowStatus, of_nodes, progress, slow};
use super::topology::{Outlook, Topology};
use super::{Result, cluster};
use crate::agent::STOPPED;
use crate::backups::BackupStatus;
use crate::backups::task::BackupTaskStatus;
use crate::health::{self, Fact, Picture};
use crate::mirror::{MirrorView, view};
use crate::network::{self, Finding, Witness};
use crate::policy::standing::PolicyStatus;
use amita_metadata::{Call, KeyValue, MAX_OPS, Op, Transact};
use amita_types::condition::{
    Condition, FailingChannel, SickDisk, StoreSpace, Trouble, condition_prefix, failing_channels_prefix,
    sick_disks_prefix, thresholds_key,
};
use amita_types::link::{LinkReport, Network, links_prefix};
use amita_types::map::{
    self, BackupPolicy, BackupRuns, BackupVerified, Export, Flatten, Group, Host, Import, IscsiGateway, IscsiInitiator,
    IscsiTarget, Live, Mirror, Node, Policy, PolicyRuns, Pool, PoolKind, Scrub, Shrink, Store, Subsystem, Suspect,
    Target, Volume,
};
use amita_types::{ClusterId, NodeId, StoreId, VolumeId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

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
    /// Deleted volumes that are kept for a time: see [`super::trash()`].
    pub deleted_volumes: usize,
    /// Policies of snapshots by name.
    pub policies: Vec<PolicyStatus>,
    /// Policies of backups by name.
    pub backups: Vec<BackupStatus>,
    /// Tasks of backups by name; they have a list of their own.
    #[serde(skip)]
    pub backup_tasks: Vec<BackupTaskStatus>,
    /// Mirrors by name: this cluster's ends.
    pub mirrors: Vec<MirrorView>,
    /// What hosts can connect to by NVMe/TCP.
    pub nvme: NvmeCounts,
    /// What initiators can log in to by iSCSI.
    pub iscsi: IscsiCounts,
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

/// What initiators can log in to by iSCSI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IscsiCounts {
    /// Nodes that speak it.
    pub gateways: usize,
    /// Of them, those that live.
    pub alive: usize,
    pub targets: usize,
    /// LUNs of all of them.
    pub luns: usize,
    /// Initiators that are known.
    pub initiators: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its record.
    #[serde(flatten)]
    pub node: Node,
    /// Does it hold its lease?
    pub alive: bool,
    /// Where initiators log in to it by iSCSI, as HOST:PORT each: its portals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub iscsi: Vec<String>,
    /// The tag of these portals' group, which is the number of its target port group as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iscsi_tag: Option<u16>,
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
    /// The number that stays, by which certificates name it: the record's own is another one after a revert.
    pub stable_id: VolumeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_name: Option<String>,
    /// Does its owner hold its lease?
    pub owner_alive: bool,
    /// As what it is served by NBD; none: it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<Export>,
    /// When it was made, in seconds since 1970, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    /// What operators say of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// It is not to be deleted.
    pub protected: bool,
    /// An image is copied into it, and is not there whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<Import>,
    /// Whose it is; none: nobody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// It is encrypted at rest.
    pub encrypted: bool,
    /// Since when there is the oldest data key that it is read by, in seconds since 1970, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_key_since: Option<u64>,
    /// Why a node could not open it for want of keys, in the last half minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<String>,
    /// It is being made smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrink: Option<Shrink>,
    /// It is a clone that is being flattened: how far that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flatten: Option<Flatten>,
    /// What it was cloned from, as VOLUME@SNAPSHOT; none: it is no clone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// So many volumes were cloned from its snapshots.
    pub clones: usize,
}

/// Reads the state of the cluster.
///
/// # Errors
/// No cluster yet, or the metadata is away.
pub fn status(meta: &dyn Transact) -> Result<Status> {
    let cluster = cluster(meta)?;
    let mut reader = Reader::new(meta);
    let (members, seen) = members_of(&mut reader)?;
    let Members { nodes, stores, pools } = members;
    let Seen {
        lives,
        names,
        living,
        troubles,
    } = seen;
    let subsystems: Vec<Subsystem> = reader.list(&map::subsystems_prefix(), any)?;
    let serve_nvme = || nodes.iter().filter(|found| found.node.nvme.is_some());
    let nvme = NvmeCounts {
        gateways: serve_nvme().count(),
        alive: serve_nvme().filter(|found| found.alive).count(),
        subsystems: subsystems.len(),
        namespaces: subsystems.iter().map(|subsystem| subsystem.namespaces.len()).sum(),
        hosts: reader.list::<Host>(&map::hosts_prefix(), any)?.len(),
    };
    let targets: Vec<IscsiTarget> = reader.list(&map::iscsi_targets_prefix(), any)?;
    let speak_iscsi = || nodes.iter().filter(|found| !found.iscsi.is_empty());
    let iscsi = IscsiCounts {
        gateways: speak_iscsi().count(),
        alive: speak_iscsi().filter(|found| found.alive).count(),
        targets: targets.len(),
        luns: targets.iter().map(|target| target.luns.len()).sum(),
        initiators: reader
            .list::<IscsiInitiator>(&map::iscsi_initiators_prefix(), any)?
            .len(),
    };
    let slow_stores = slow(meta, &living)?;
    let (networks, left_networks) = networks(&nodes, &link_reports(meta, &living)?);
    let (volumes, deleted_volumes) = volumes_of(&mut reader, &names, &lives, &troubles)?;
    let thresholds = reader.get(&thresholds_key())?.unwrap_or_default();
    let policies = policies(&mut reader, &volumes)?;
    let backups = backups(&mut reader, &volumes)?;
    let backup_tasks = backup_tasks(&mut reader)?;
    let mirrors = mirrors(&mut reader)?;
    let failing_channels: Vec<FailingChannel> = reader.list(&failing_channels_prefix(), any)?;
    let sick_disks: Vec<SickDisk> = reader.list(&sick_disks_prefix(), any)?;
    let paused_scrubs = paused_scrubs(meta)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let facts = health::judge(&Picture {
        nodes: &nodes,
        stores: &stores,
        pools: &pools,
        volumes: &volumes,
        subsystems: &subsystems,
        targets: &targets,
        slow_stores: &slow_stores,
        networks: &networks,
        left_networks: &left_networks,
        sick_disks: &sick_disks,
        suspects: &suspects(meta)?,
        troubles: &troubles,
        thresholds,
        policies: &policies,
        backups: &backups,
        backup_tasks: &backup_tasks,
        mirrors: &mirrors,
        failing_channels: &failing_channels,
        paused_scrubs: &paused_scrubs,
        at: now.as_secs(),
        unreadable: &reader.unreadable,
    });
    Ok(Status {
        cluster: cluster.id,
        health: health::word(&facts),
        warnings: facts.iter().map(Fact::to_string).collect(),
        facts,
        nvme,
        iscsi,
        nodes,
        stores,
        recovery: progress(meta, &living)?,
        slow_stores,
        pools,
        volumes,
        deleted_volumes,
        policies,
        backups,
        backup_tasks,
        mirrors,
    })
}

/// Policies of snapshots. What is late is so by the clock of whoever asks.
fn policies(reader: &mut Reader<'_>, volumes: &[VolumeStatus]) -> Result<Vec<PolicyStatus>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let all: Vec<Policy> = reader.list(&map::policies_prefix(), any)?;
    let mut policies = Vec::new();
    for policy in all {
        let runs: Option<PolicyRuns> = reader.get(&map::policy_runs_key(policy.id))?;
        let volume = match policy.target {
            Target::Volume(id) => volumes.iter().find(|found| found.volume.host() == id),
            _ => None,
        };
        let name = volume.map(|found| found.volume.name.clone());
        policies.push(PolicyStatus::of(policy, runs, name, now.as_secs()));
    }
    Ok(policies)
}

/// Tasks of backups.
fn backup_tasks(reader: &mut Reader<'_>) -> Result<Vec<BackupTaskStatus>> {
    let (all, unreadable) = super::backup_tasks(reader.meta)?;
    for found in unreadable {
        let key = map::backup_task_key(&found.name);
        reader.unreadable.push((key, found.why.to_string()));
    }
    let faults = all
        .iter()
        .filter_map(|found| Some((found.task.id, found.fault.clone()?)));
    let faults = faults.map(|(id, why)| (map::backup_task_run_key(id), why));
    reader.unreadable.extend(faults);
    Ok(all)
}

/// Policies of backups; likewise.
fn backups(reader: &mut Reader<'_>, volumes: &[VolumeStatus]) -> Result<Vec<BackupStatus>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let all: Vec<BackupPolicy> = reader.list(&map::backup_policies_prefix(), any)?;
    let mut backups = Vec::new();
    for policy in all {
        let runs: Option<BackupRuns> = reader.get(&map::backup_runs_key(policy.id))?;
        let runner: Option<String> = reader.get(&map::backup_runner_key(policy.id))?;
        let volume = match policy.target {
            Target::Volume(id) => volumes.iter().find(|found| found.volume.host() == id),
            _ => None,
        };
        let name = volume.map(|found| found.volume.name.clone());
        let key = map::backup_verified_key(policy.id);
        let verified: Option<BackupVerified> = reader.get(&key)?;
        let unreadable = reader.unreadable.iter().find(|(found, _)| *found == key);
        let verified = unreadable.map_or(Ok(verified), |(_, why)| Err(why.escape_debug().to_string()));
        let verifier: Option<String> = reader.get(&map::backup_verifier_key(policy.id))?;
        let found = BackupStatus::of(policy, runs, runner, name, now.as_secs());
        backups.push(found.verified(verified, verifier, now.as_secs()));
    }
    Ok(backups)
}

/// Mirrors; likewise.
fn mirrors(reader: &mut Reader<'_>) -> Result<Vec<MirrorView>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut all: Vec<Mirror> = reader.list(&map::mirrors_prefix(), any)?;
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let reply = reader.meta.txn(&Call::prefix(map::mirrors_seen_prefix()))?;
    for found in reply.values(0) {
        let name = found.key.strip_prefix(&map::mirrors_seen_prefix()).unwrap_or_default();
        if let Some(mirror) = all.iter_mut().find(|mirror| mirror.name == name)
            && let Some(seen) = reader.read(found, any)
        {
            mirror.seen = Some(seen);
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all.iter().map(|mirror| view(mirror, now.as_secs())).collect())
}

/// Looks at all copies of volumes that are under way and stand still.
fn paused_scrubs(meta: &dyn Transact) -> Result<Vec<(VolumeId, Scrub)>> {
    let prefix = format!("{}scrub/", map::PREFIX);
    let reply = meta.txn(&Call::prefix(prefix.as_str()))?;
    let found = reply.values(0).iter().filter_map(|found| {
        let volume = found.key.strip_prefix(&prefix)?.parse().ok()?;
        let scrub: Scrub = found.json().ok()?;
        let stands_still = scrub.is_under_way() && scrub.paused.is_some();
        stands_still.then_some((volume, scrub))
    });
    Ok(found.collect())
}

/// What living nodes find of their links, as far as it is to be believed at this moment.
pub(super) fn link_reports(meta: &dyn Transact, living: &BTreeSet<NodeId>) -> Result<BTreeMap<NodeId, LinkReport>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let reports: Vec<(NodeId, LinkReport)> = of_nodes(meta, &links_prefix(), living)?;
    // Records outlive who wrote them: what is bad and was not renewed may be mended long since.
    let current = reports
        .into_iter()
        .filter(|(_, report)| report.is_current(now.as_secs()));
    Ok(current.collect())
}

/// What of the networks is sick, of what is in use and of what was left for the other network.
type Networks = (Vec<Finding>, Vec<(Network, Finding)>);

/// What of the networks is sick, by what their nodes find.
pub(super) fn networks(nodes: &[NodeStatus], reports: &BTreeMap<NodeId, LinkReport>) -> Networks {
    let witnesses = nodes
        .iter()
        .filter(|found| found.alive && !found.node.client)
        .map(|found| {
            let Node { id, site, rack, .. } = &found.node;
            Witness {
                node: *id,
                rack: (!rack.is_empty()).then_some((site.as_str(), rack.as_str())),
                report: reports.get(id),
            }
        });
    let witnesses: Vec<Witness<'_>> = witnesses.collect();
    (network::judge(&witnesses), network::judge_left(&witnesses))
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

/// What was found against the metadata: while there is anything, whatever it says, no volume is opened.
pub(super) fn suspects(meta: &dyn Transact) -> Result<Vec<String>> {
    let reply = meta.txn(&Call::prefix(map::suspect_prefix()))?;
    let why = |found: &KeyValue| match found.json::<Suspect>() {
        Ok(suspect) => suspect.why,
        Err(error) => error.to_string(),
    };
    Ok(reply.values(0).iter().map(why).collect())
}

/// Reads records for a status: one that nobody can read, or that cannot be so, is a fact of it and no reason to show nothing.
struct Reader<'a> {
    meta: &'a dyn Transact,
    /// Their keys, and what is wrong with them.
    unreadable: Vec<(String, String)>,
}

impl Reader<'_> {
    fn new(meta: &dyn Transact) -> Reader<'_> {
        Reader {
            meta,
            unreadable: Vec::new(),
        }
    }

    fn list<T: DeserializeOwned>(&mut self, prefix: &str, check: fn(&T) -> Check) -> Result<Vec<T>> {
        let reply = self.meta.txn(&Call::prefix(prefix))?;
        let records = reply.values(0).iter();
        Ok(records.filter_map(|found| self.read(found, check)).collect())
    }

    fn get<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>> {
        let reply = self.meta.txn(&Call::get(key))?;
        Ok(reply.value(0).and_then(|found| self.read(found, any)))
    }

    /// Those that are there, many at once.
    fn get_all<T: DeserializeOwned>(&mut self, keys: Vec<String>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for keys in keys.chunks(MAX_OPS) {
            let call = Call {
                then: keys.iter().map(|key| Op::Get { key: key.clone() }).collect(),
                ..Call::default()
            };
            let reply = self.meta.txn(&call)?;
            let found = (0..keys.len()).filter_map(|index| reply.value(index));
            all.extend(found.filter_map(|found| self.read(found, any)));
        }
        Ok(all)
    }

    fn read<T: DeserializeOwned>(&mut self, found: &KeyValue, check: fn(&T) -> Check) -> Option<T> {
        let read = serde_json::from_slice(&found.value).map_err(|error| error.to_string());
        read.and_then(|record| check(&record).map(|()| record))
            .map_err(|why| self.unreadable.push((found.key.clone(), why)))
            .ok()
    }
}

type Check = std::result::Result<(), String>;

fn any<T>(_: &T) -> Check {
    Ok(())
}

/// What nodes say of themselves may be more than can be.
fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
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
pub(super) struct Lives(BTreeMap<NodeId, Option<Live>>);

impl Lives {
    pub(super) fn alive(&self, node: NodeId) -> bool {
        self.0.contains_key(&node)
    }

    /// Does the store's node live, and serve it?
    pub(super) fn serve(&self, store: &Store) -> bool {
        let live = self.0.get(&store.node);
        live.is_some_and(|live| {
            let stores = live.as_ref().and_then(|live| live.stores.as_ref());
            stores.is_none_or(|stores| stores.contains(&store.id))
        })
    }

    /// Does the gateway's node live, and speak iSCSI?
    pub(super) fn speaks(&self, gateway: &IscsiGateway) -> bool {
        let live = self.0.get(&gateway.node);
        live.is_some_and(|live| gateway.is_of(live.as_ref().map(|live| live.session)))
    }
}

pub(super) fn lives(meta: &dyn Transact) -> Result<Lives> {
    let prefix = format!("{}live/", map::PREFIX);
    let reply = meta.txn(&Call::prefix(prefix.as_str()))?;
    let node = |found: &KeyValue| {
        let live = found.json::<Live>().ok();
        let stopped = live.as_ref().is_some_and(|live| live.pid == STOPPED);
        let node = found.key.strip_prefix(&prefix)?.parse().ok().filter(|_| !stopped)?;
        Some((node, live))
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
