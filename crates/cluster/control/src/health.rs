//! Is the cluster well? One function says it: [`judge`] makes [facts](Fact) of what the records say, and the worst of them is
//! the cluster's health ([`word`]).
//!
//! A kind of fact is defined once, in [`Kind`]: its name, which scripts may rely on, and how much it matters. A fact is what is
//! so at this moment, each with the sentence what to do about it; what *happened* are [events](crate::events).

mod backups;
mod disks;
mod jobs;
mod mirrors;
mod sentence;

pub use mirrors::{lag_s as mirror_lag_s, left_bytes as mirror_left_bytes};
pub use sentence::{Space, sentence};

use crate::admin::{GroupCounts, NodeStatus, Outlook, PoolStatus, SlowStatus, StoreStatus, VolumeStatus};
use crate::backups::BackupStatus;
use crate::backups::task::BackupTaskStatus;
use crate::events::Severity;
use crate::kinds::kinds;
use crate::mirror::MirrorView;
use crate::network::{Blame, Finding};
use crate::policy::runner::unreadable_runs;
use crate::policy::standing::{PolicyStatus, TOO_LATE};
use amita_types::condition::{Failing, FailingChannel, Fullness, SickDisk, Thresholds, Trouble};
use amita_types::link::Network;
use amita_types::map::{IscsiTarget, Pool, Scrub, StoreDuty, Subsystem};
use amita_types::{NodeId, StoreId, VolumeId};
use serde::Serialize;
use std::fmt;

kinds! {
    /// What can be so.
    :
    /// The metadata is older than what stores know, or is being rebuilt: no volume is opened.
    MetadataOlder "metadata-older" Error
        "Bring back the newest copy of the metadata, or rebuild it from the stores: `amita recover --from-stores` with all nodes stopped.",
    /// A volume lies in a pool that does not exist: it cannot be opened.
    PoolMissing "pool-missing" Error
        "Restore the pool's record from a backup of the metadata, or delete the volume.",
    /// Groups have too few copies that are there: their writes wait.
    CopiesBelow "copies-below" Error
        "Start the nodes whose stores are away (`amita node list`, `amita disk list`); nothing is lost while their disks are.",
    /// Groups name an in-sync store that is gone: I/O waits until it is evicted or back.
    CopiesWaiting "copies-waiting" Error
        "Wait some seconds: the store is evicted where copies enough are left. Else start its node.",
    /// A gateway could not open a volume for a host.
    OpeningFails "opening-fails" Error
        "The fact says why; see the log of the gateway's node, and whether its stores are reached.",
    /// The keys of an encrypted volume are not at a node that is to open it: it stays closed there, and is opened when they come.
    VolumeLocked "volume-locked" Error
        "Give the node the cluster's volume keys (`amita serve --volume-keys`), or mend what the fact says of them; it needs no restart.",
    /// Writes of hosts fail.
    WritesFail "writes-fail" Error
        "The fact says why: mostly a store has no space (add stores, trim or delete), or cannot be reached.",
    /// Reads of hosts fail.
    ReadsFail "reads-fail" Error
        "The fact says why: see whether the stores of the volume's pool serve, and scrub it (`amita volume scrub`).",
    /// A store of a pool is full by the threshold: writes to its groups fail when nothing is left.
    PoolFull "pool-full" Error
        "Add stores, or delete or trim what is not needed, and purge deleted volumes (`amita volume purge`).",
    /// A store of a pool is near full by the threshold.
    PoolNearFull "pool-near-full" Warning
        "Add stores, or delete or trim what is not needed, before one of them is full.",
    /// The stores of a pool together are over a level.
    PoolFills "pool-fills" Warning
        "Plan for more stores: `amita pool show` says what holds the space. `amita pool thresholds` sets the levels.",
    /// Groups have no copy to spare.
    CopiesAtLeast "copies-at-least" Warning
        "Bring the missing stores back, or let recovery end, before anything else is stopped.",
    /// Groups lack a copy.
    CopiesMissing "copies-missing" Warning
        "Nothing where a node is being restarted; else start it, or drain or replace the store that is gone.",
    /// A node does not hold its lease.
    NodeDown "node-down" Warning
        "Start it; if it never comes back, drain its stores and `amita node remove` it.",
    /// A node lives and does not serve one of its stores.
    StoreAway "store-away" Warning
        "See the log of its node: the disk fails, or the node was started without it.",
    /// Nodes find a store slow.
    StoreSlow "store-slow" Warning
        "Look after its disk and its links; `amita recovery set --slow-stores` says what becomes of such stores.",
    /// Links between nodes are bad: the fact says whose fault that is, as the reports of all nodes tell.
    NetworkSick "network-sick" Warning
        "Look after cables, interfaces and ports of switches there; `amita recovery set --sick-networks` says what becomes of such nodes.",
    /// A disk predicts its failure: by its own word, by its wear, or because its errors grow from day to day.
    DiskFailing "disk-failing" Warning
        "Drain its store (`amita disk drain`), or replace it (`amita disk replace`), while it can still be read.",
    /// A pool's rule cannot be met with the stores that there are.
    RuleUnmet "rule-unmet" Warning
        "Add stores where the rule wants them, end drains, or change the rule (`amita pool set`).",
    /// A record of the metadata cannot be read, or cannot be so, and is left alone.
    RecordUnreadable "record-unreadable" Warning
        "See who wrote it (`amita audit list`); put it right, or delete it.",
    /// A snapshot policy could not take or delete some snapshots at its last run, or cannot be understood.
    PolicyFails "policy-fails" Warning
        "`amita snapshot-policy show` says what failed, and why.",
    /// A run of a snapshot policy is due and has not begun, or does not end.
    PolicyLate "policy-late" Warning
        "See whether the coordinator lives and the metadata answers; `amita snapshot-policy show` has the last runs.",
    /// A policy of backups could not back some volumes up at its last run or its last attempts, or cannot be understood.
    BackupFailing "backup-failing" Warning
        "`amita backup policy show` says what failed, and why.",
    /// A run of a policy of backups is due and has not begun, or does not end.
    BackupLate "backup-late" Warning
        "See whether a node lives that has the repository's key file; `amita backup policy show` has the last runs.",
    /// What a policy of backups has verified of its repository is damaged or missing.
    BackupDamaged "backup-damaged" Warning
        "`amita backup policy show` names what is damaged, and the points that are not whole; `amita backup verify --give-up` and `amita backup run --full` put again what volumes still have.",
    /// A policy of backups does not verify its repository as it should: late, failing, or not all of it is read in time.
    BackupUnverified "backup-unverified" Warning
        "`amita backup policy show` says why; see whether a node lives that has the repository's key file.",
    /// A backup task has failed within a day: what was asked for is not done, and is tried no more.
    BackupTaskFailed "backup-task-failed" Warning
        "`amita backup task show` says why; ask for it again by another name, and remove this one (`amita backup task remove`).",
    /// Backup tasks of a repository do not move: no node is at them, or one is at a task for longer than its limit.
    BackupTaskLate "backup-task-late" Warning
        "See whether a node lives that has the repository's key file; `amita backup task show` says how far a task is, `amita backup task cancel` takes it back.",
    /// The point that a mirror's secondary is at is older than three intervals, or than what was said.
    MirrorLate "mirror-late" Warning
        "`amita mirror show` says how far the pass is; see the link, its limit, and whether the interval can be kept.",
    /// A mirror does not go on: it is tried again.
    MirrorStalled "mirror-stalled" Warning
        "The fact says why; `amita mirror show` has the last pass.",
    /// A mirror's other end has not answered for a while.
    MirrorUnheard "mirror-unheard" Warning
        "See whether the other cluster lives, and whether its API is reached; where it is lost, `amita mirror promote --force` goes on without it.",
    /// Both ends of a mirror may have been written: one was promoted by force, and they have not agreed since.
    MirrorSplit "mirror-split" Warning
        "Keep hosts from the end that is not to stand; when it is heard again, `amita mirror resync` there.",
    /// This end of a mirror has heard that the other one was promoted by force, and has what that lacks: its volumes are closed.
    MirrorDeposed "mirror-deposed" Warning
        "`amita mirror resync` follows the other end, and keeps what is here as snapshots; `amita mirror promote --force` keeps this end.",
    /// A channel of alerts has not taken what it was told for several attempts.
    ChannelFails "channel-fails" Warning
        "See whether the receiver runs and is reached from the nodes; `amita notify test` tries it.",
    /// What lies behind a volume's new end is being cleared, or that was interrupted: it has its old size.
    ShrinkUnfinished "shrink-unfinished" Warning
        "Give the same `amita volume resize --shrink` again: it ends it. With the size that it has, it gives it up.",
    /// No node that lives serves a subsystem that has namespaces.
    SubsystemUnserved "subsystem-unserved" Warning
        "Start one of its gateways with `--nvme ADDRESS:PORT`, or name another (`amita subsystem set --gateway`).",
    /// No node that lives serves a target that has LUNs.
    TargetUnserved "target-unserved" Warning
        "Start one of its gateways with `--iscsi ADDRESS:PORT`, or name another (`amita target set --gateway`).",
    /// A paused job is late: a disk that predicts its failure is not drained, or copies are not looked at.
    JobOverdue "job-overdue" Warning
        "Resume it (`amita job resume`), or take it back (`amita job cancel`).",
    /// A disk shows signs of wear, of errors, or takes longer and longer.
    DiskAging "disk-aging" Info
        "Order another one; `amita inspect` has its figures.",
    /// A node is in maintenance.
    NodeMaintained "node-maintained" Info
        "End it when the work is done: `amita node maintenance off`.",
    /// A node has no identity, and believes whoever reaches its fabric over the network.
    NodeUnprotected "node-unprotected" Info
        "Unless the network is the cluster's own, give all nodes and the metadata identities (`amita node join`).",
    /// A job was paused, and stands still until it is resumed.
    JobPaused "job-paused" Info
        "Resume it when it may go on (`amita job resume`); `amita job list` shows how far it is.",
    /// A store is being drained, or has been.
    StoreDraining "store-draining" Info
        "Wait; when no group is left, `amita disk forget` takes it out of the records.",
    /// Groups are being brought up to date.
    CopiesSyncing "copies-syncing" Info
        "Nothing: it goes on by itself; `amita status` shows how far it is.",
}

impl Kind {
    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// What is so, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// The kind's name.
    pub name: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: names and UUIDs of nodes, stores, pools and volumes, ids of jobs.
    pub objects: Vec<String>,
    /// What is so, in a sentence.
    pub text: String,
    /// What to do, in a sentence; empty where there is nothing to do.
    pub advice: String,
}

impl Fact {
    fn new(kind: Kind, objects: impl IntoIterator<Item = impl ToString>, text: String, advice: &str) -> Fact {
        Fact {
            name: kind.name(),
            severity: kind.severity(),
            objects: objects.into_iter().map(|object| object.to_string()).collect(),
            text,
            advice: advice.to_owned(),
        }
    }
}

/// Both sentences.
impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.advice.as_str() {
            "" => Ok(()),
            advice => write!(f, " {advice}"),
        }
    }
}

/// The cluster's health in one word: `ok`, `degraded` (something is not as it should be, I/O goes on), `blocked` (I/O of
/// some hosts waits or fails).
#[must_use]
pub fn word(facts: &[Fact]) -> &'static str {
    match facts.iter().map(|fact| fact.severity).max() {
        Some(Severity::Error) => "blocked",
        Some(Severity::Warning) => "degraded",
        Some(Severity::Info) | None => "ok",
    }
}

/// What a cluster's health follows from.
#[derive(Debug, Default)]
pub struct Picture<'a> {
    pub nodes: &'a [NodeStatus],
    pub stores: &'a [StoreStatus],
    pub pools: &'a [PoolStatus],
    pub volumes: &'a [VolumeStatus],
    /// What hosts connect to.
    pub subsystems: &'a [Subsystem],
    /// What initiators log in to.
    pub targets: &'a [IscsiTarget],
    /// Stores that nodes find slow.
    pub slow_stores: &'a [SlowStatus],
    /// What of the network is sick.
    pub networks: &'a [Finding],
    /// The same of what nodes have left for their other network.
    pub left_networks: &'a [(Network, Finding)],
    /// Stores whose disks are not well.
    pub sick_disks: &'a [SickDisk],
    /// What was found against the metadata, in sentences.
    pub suspects: &'a [String],
    /// What hosts of living nodes meet with.
    pub troubles: &'a [(NodeId, Trouble)],
    /// What is full.
    pub thresholds: Thresholds,
    /// Policies of snapshots.
    pub policies: &'a [PolicyStatus],
    /// Policies of backups.
    pub backups: &'a [BackupStatus],
    /// Tasks of backups.
    pub backup_tasks: &'a [BackupTaskStatus],
    /// Mirrors, this cluster's ends.
    pub mirrors: &'a [MirrorView],
    /// Channels of alerts that fail.
    pub failing_channels: &'a [FailingChannel],
    /// Looks at all copies of volumes that stand still.
    pub paused_scrubs: &'a [(VolumeId, Scrub)],
    /// When this is so, in seconds since 1970: how long jobs stand still follows from it.
    pub at: u64,
    /// The keys of records that are left alone, and what is wrong with them.
    pub unreadable: &'a [(String, String)],
}

/// Records that nobody can read, one by one, beyond which it is told how many more there are.
const MAX_UNREADABLE: usize = 16;

/// Says what is so, the worst first.
#[must_use]
pub fn judge(picture: &Picture<'_>) -> Vec<Fact> {
    let mut facts = Vec::new();
    for why in picture.suspects {
        let volumes = picture.volumes.iter().map(|found| &found.volume.name);
        facts.push(Fact::new(
            Kind::MetadataOlder,
            volumes,
            format!("No volume is opened: {}.", why.trim_end_matches('.')),
            "",
        ));
    }
    picture.of_volumes(&mut facts);
    for pool in picture.pools {
        of_copies(&pool.pool, &pool.group_counts, &mut facts);
        of_rule(&pool.pool, pool.outlook, &mut facts);
        picture.of_space(pool, &mut facts);
    }
    picture.of_nodes(&mut facts);
    picture.of_protection(&mut facts);
    picture.of_networks(&mut facts);
    picture.of_stores(&mut facts);
    picture.of_disks(&mut facts);
    picture.of_jobs(&mut facts);
    picture.of_subsystems(&mut facts);
    picture.of_targets(&mut facts);
    picture.of_policies(&mut facts);
    picture.of_backups(&mut facts);
    picture.of_backup_tasks(&mut facts);
    picture.of_mirrors(&mut facts);
    picture.of_channels(&mut facts);
    picture.of_unreadable(&mut facts);
    facts.sort_by_key(|fact| std::cmp::Reverse(fact.severity));
    facts
}

/// The most stores that one sentence names.
const NAMED_STORES: usize = 4;

impl Picture<'_> {
    fn node_name(&self, id: NodeId) -> String {
        let found = self.nodes.iter().find(|found| found.node.id == id);
        found.map_or_else(|| id.to_string(), |found| found.node.name.clone())
    }

    fn of_policies(&self, facts: &mut Vec<Fact>) {
        for found in self.policies {
            let name = &found.policy.name;
            let show = format!("See `amita snapshot-policy show {name}`.");
            let runs_key = amita_types::map::policy_runs_key(found.policy.id);
            let unreadable = self.unreadable.iter().find(|(key, _)| *key == runs_key);
            let of_runs = unreadable.map(|(_, why)| unreadable_runs(&found.policy, &why.escape_debug()));
            if let Some(why) = found.fault.as_ref().or(of_runs.as_ref()) {
                let text = format!("Snapshot policy {name} does nothing: {why}.");
                facts.push(Fact::new(Kind::PolicyFails, [name], text, &show));
            } else if let Some((failed, why)) = found.failing() {
                let first = why.first().map_or("", String::as_str).trim_end_matches('.');
                let more = match failed {
                    0 | 1 => String::new(),
                    more => format!(" So did {} more.", more - 1),
                };
                let text = format!("Snapshot policy {name} failed at its last run: {first}.{more}");
                facts.push(Fact::new(Kind::PolicyFails, [name], text, &show));
            }
            if found.late_s > TOO_LATE {
                let what = match found.runs.as_ref().and_then(|runs| runs.run.as_ref()) {
                    Some(_) => "does not end",
                    None => "has not begun",
                };
                let text = format!(
                    "Snapshot policy {name} is late: a run that was due {} s ago {what}.",
                    found.late_s
                );
                facts.push(Fact::new(Kind::PolicyLate, [name], text, &show));
            }
        }
    }

    fn of_channels(&self, facts: &mut Vec<Fact>) {
        for found in self.failing_channels {
            // What the receiver has said is a part of it.
            let (name, why) = (&found.channel, found.why.escape_debug().to_string());
            facts.push(Fact::new(
                Kind::ChannelFails,
                [name],
                format!(
                    "Channel {name} is not told of alerts: {} attempts have failed, the last one by this: {}.",
                    found.attempts,
                    why.trim_end_matches('.')
                ),
                &format!(
                    "See whether its receiver runs and is reached from the nodes; `amita notify test {name}` tries it."
                ),
            ));
        }
    }

    fn of_unreadable(&self, facts: &mut Vec<Fact>) {
        let more = self.unreadable.len().saturating_sub(MAX_UNREADABLE);
        for (number, (key, why)) in self.unreadable.iter().take(MAX_UNREADABLE).enumerate() {
            let more = match more {
                1.. if number + 1 == MAX_UNREADABLE => format!(" So are {more} more."),
                _ => String::new(),
            };
            // Whoever may write has chosen the key.
            let shown = key.escape_debug();
            facts.push(Fact::new(
                Kind::RecordUnreadable,
                [key],
                format!("The record {shown} is left alone: {}.{more}", why.escape_debug()),
                "See who wrote it; put it right, or delete it.",
            ));
        }
    }

    fn of_volumes(&self, facts: &mut Vec<Fact>) {
        for found in self.volumes {
            let volume = &found.volume;
            if !self.pools.iter().any(|pool| pool.pool.name == volume.pool) {
                facts.push(Fact::new(
                    Kind::PoolMissing,
                    [&volume.name, &volume.pool],
                    format!(
                        "Volume {} lies in pool {}, which does not exist: it cannot be opened.",
                        volume.name, volume.pool
                    ),
                    "Restore the pool's record, or delete the volume.",
                ));
            }
        }
        for found in self.volumes {
            if let Some(shrink) = &found.shrink {
                let (name, bytes) = (&found.volume.name, shrink.size_bytes);
                facts.push(Fact::new(
                    Kind::ShrinkUnfinished,
                    [name],
                    format!("Volume {name} is being made smaller, to {bytes} bytes: what lies behind may be gone."),
                    &format!("Unless it is under way: `amita volume resize {name} --size {bytes} --shrink` ends it."),
                ));
            }
        }
        for (node, trouble) in self.troubles {
            let found = self.volumes.iter().find(|found| found.volume.id == trouble.volume);
            // Of one that was deleted nobody needs to hear.
            let Some(found) = found else { continue };
            let (name, node) = (&found.volume.name, self.node_name(*node));
            let (kind, what) = match trouble.what {
                Failing::Writes => (Kind::WritesFail, "writes fail"),
                Failing::Reads => (Kind::ReadsFail, "reads fail"),
                Failing::Opening => (Kind::OpeningFails, "it could not be opened"),
                Failing::Locked => (Kind::VolumeLocked, "it waits for its keys"),
            };
            facts.push(Fact::new(
                kind,
                [name, &node],
                format!(
                    "Volume {name} at node {node}: {what}: {}.",
                    trouble.why.trim_end_matches('.')
                ),
                "",
            ));
        }
    }

    /// A pool is as full as the fullest of its stores: chunks go where their hash says, so a write fails as soon as one
    /// store of its group has nothing left.
    fn of_space(&self, pool: &PoolStatus, facts: &mut Vec<Fact>) {
        let mut filled: Vec<(u8, StoreId, &str)> = Vec::new();
        for found in self.stores.iter().filter(|found| pool.stores.contains(&found.store.id)) {
            let Some(space) = found.space else { continue };
            if self.thresholds.fullness(space.used_percent()) > Fullness::Roomy {
                filled.push((space.used_percent(), found.store.id, found.node_name.as_str()));
            }
        }
        filled.sort_by_key(|(percent, store, _)| (std::cmp::Reverse(*percent), *store));
        let name = &pool.pool.name;
        let Some((worst, ..)) = filled.first() else {
            let percent = u128::from(pool.used_bytes) * 100;
            let percent = percent.checked_div(u128::from(pool.raw_bytes)).unwrap_or(0).min(100) as u8;
            let level = self.thresholds.pool_level(percent);
            if let Some(level) = level
                .checked_sub(1)
                .and_then(|at| self.thresholds.pool_percents.get(at))
            {
                facts.push(Fact::new(
                    Kind::PoolFills,
                    [name],
                    format!(
                        "Pool {name} is over {level} %: {percent} % of it is used, {} of {} bytes on its stores.",
                        pool.used_bytes, pool.raw_bytes
                    ),
                    "Add stores, or delete or trim what is not needed.",
                ));
            }
            return;
        };
        let named: Vec<String> = filled
            .iter()
            .take(NAMED_STORES)
            .map(|(percent, store, node)| format!("{store} on {node} at {percent} %"))
            .collect();
        let more = match filled.len().saturating_sub(NAMED_STORES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = format!("{}{more}", named.join(", "));
        let objects = || {
            let stores = filled.iter().map(|(_, store, _)| store.to_string());
            std::iter::once(name.clone()).chain(stores)
        };
        let advice = "Add stores, or delete or trim what is not needed.";
        facts.push(match self.thresholds.fullness(*worst) {
            Fullness::Full => Fact::new(
                Kind::PoolFull,
                objects(),
                format!("Pool {name} is full: store {named}; writes fail where nothing is left."),
                advice,
            ),
            _ => Fact::new(
                Kind::PoolNearFull,
                objects(),
                format!("Pool {name} is near full: store {named}."),
                advice,
            ),
        });
    }

    fn of_nodes(&self, facts: &mut Vec<Fact>) {
        for node in self.nodes {
            let name = &node.node.name;
            let (kind, text, advice) = match (node.alive, node.node.maintenance) {
                (false, true) => (
                    Kind::NodeMaintained,
                    format!("Node {name} is in maintenance and down."),
                    String::new(),
                ),
                (false, false) => (
                    Kind::NodeDown,
                    format!("Node {name} does not hold its lease: it is down, or cut off."),
                    format!("Start it; if it never comes back, `amita node remove {name}`."),
                ),
                (true, true) => (
                    Kind::NodeMaintained,
                    format!("Node {name} is in maintenance: its stores get no new groups."),
                    String::new(),
                ),
                (true, false) => continue,
            };
            facts.push(Fact::new(kind, [name], text, &advice));
        }
    }

    /// Whoever reaches such a node reads and writes all volumes.
    fn of_protection(&self, facts: &mut Vec<Fact>) {
        let open: Vec<&String> = self
            .nodes
            .iter()
            .filter(|node| node.alive && node.node.unprotected)
            .map(|node| &node.node.name)
            .collect();
        if let [first, rest @ ..] = open.as_slice() {
            let who = match rest.len() {
                0 => format!("Node {first} proves"),
                more => format!("Node {first} and {more} more prove"),
            };
            facts.push(Fact::new(
                Kind::NodeUnprotected,
                &open,
                format!(
                    "{who} nothing to other nodes (--insecure-network): whoever reaches the fabric can do everything."
                ),
                "Unless the network is the cluster's own, stop the nodes, and start all of them and the metadata with identities \
                 (`amita node join`): those with and those without one do not speak to each other.",
            ));
        }
    }

    fn of_networks(&self, facts: &mut Vec<Fact>) {
        let name = |node: NodeId| {
            let known = self.nodes.iter().find(|found| found.node.id == node);
            known.map_or_else(|| node.to_string(), |found| found.node.name.clone())
        };
        let objects_of = |finding: &Finding| match &finding.blame {
            Blame::Network => Vec::new(),
            Blame::Rack(_, rack) => vec![rack.clone()],
            Blame::Node(node) => vec![name(*node)],
            Blame::Link(one, other) => vec![name(*one), name(*other)],
        };
        let named = |finding: &Finding| {
            let mut what = finding.blame.named(&name);
            what[..1].make_ascii_uppercase();
            what
        };
        for finding in self.networks {
            facts.push(Fact::new(
                Kind::NetworkSick,
                objects_of(finding),
                format!("{} is sick: {}.", named(finding), finding.evidence_named(&name)),
                "Look after cables, interfaces and ports of switches there.",
            ));
        }
        for (network, finding) in self.left_networks {
            facts.push(Fact::new(
                Kind::NetworkSick,
                objects_of(finding),
                format!(
                    "{} (network {network}) is sick, and connections go by network {}: {}.",
                    named(finding),
                    network.other(),
                    finding.evidence_named(&name)
                ),
                "Look after cables, interfaces and ports of switches there, before the other network has a fault as well.",
            ));
        }
    }

    fn of_stores(&self, facts: &mut Vec<Fact>) {
        let lives = |node: NodeId| self.nodes.iter().any(|found| found.alive && found.node.id == node);
        for found in self
            .stores
            .iter()
            .filter(|found| !found.alive && lives(found.store.node))
        {
            facts.push(Fact::new(
                Kind::StoreAway,
                [found.store.id.to_string(), found.node_name.clone()],
                format!(
                    "Store {} is not served by node {}, which lives: see that node's log.",
                    found.store.id, found.node_name
                ),
                "",
            ));
        }
        for found in self.slow_stores {
            let home = self.stores.iter().find(|known| known.store.id == found.store);
            let is_cause = |finding: &Finding| home.is_some_and(|home| finding.blame == Blame::Node(home.store.node));
            let advice = match self.networks.iter().any(is_cause) {
                true => "The network of its node is sick: look after that first.",
                false => "Look after its disk and its links.",
            };
            facts.push(Fact::new(
                Kind::StoreSlow,
                [found.store],
                format!(
                    "Store {} is slow, as {} of {} nodes that use it find, for {} s: {}. It is read from last.",
                    found.store,
                    found.slow.len(),
                    found.slow.len() + found.well.len(),
                    found.for_s,
                    found.why
                ),
                advice,
            ));
        }
        let drained = self
            .stores
            .iter()
            .filter(|found| found.store.duty == StoreDuty::Draining);
        for found in drained {
            let id = found.store.id;
            let text = match found.named {
                0 => format!("Store {id} is drained: it can be taken out (`amita disk forget {id}`)."),
                // One that stands still is told of as such.
                _ if found.store.paused.is_some() => continue,
                left => format!("Store {id} is being drained: {left} groups to go."),
            };
            facts.push(Fact::new(Kind::StoreDraining, [id], text, ""));
        }
    }

    fn of_subsystems(&self, facts: &mut Vec<Fact>) {
        let with_namespaces = self.subsystems.iter().filter(|found| !found.namespaces.is_empty());
        for subsystem in with_namespaces {
            let serves = |found: &NodeStatus| {
                let named = subsystem.gateways.is_empty() || subsystem.gateways.contains(&found.node.name);
                named && found.alive && found.node.nvme.is_some()
            };
            if self.nodes.iter().any(serves) {
                continue;
            }
            let (name, who) = (&subsystem.name, subsystem.gateways.join(", "));
            let who = if who.is_empty() { "any node".to_owned() } else { who };
            facts.push(Fact::new(
                Kind::SubsystemUnserved,
                [name],
                format!("Subsystem {name}: no node that lives serves it; start {who} with --nvme ADDRESS:PORT."),
                "",
            ));
        }
    }

    fn of_targets(&self, facts: &mut Vec<Fact>) {
        for target in self.targets.iter().filter(|found| !found.luns.is_empty()) {
            let serves = |found: &NodeStatus| {
                let named = target.gateways.is_empty() || target.gateways.contains(&found.node.name);
                named && found.alive && !found.iscsi.is_empty()
            };
            if self.nodes.iter().any(serves) {
                continue;
            }
            let (name, who) = (&target.name, target.gateways.join(", "));
            let who = if who.is_empty() { "any node".to_owned() } else { who };
            facts.push(Fact::new(
                Kind::TargetUnserved,
                [name],
                format!("Target {name}: no node that lives serves it; start {who} with --iscsi ADDRESS:PORT."),
                "",
            ));
        }
    }
}

fn of_copies(pool: &Pool, counts: &GroupCounts, facts: &mut Vec<Fact>) {
    let (name, all) = (&pool.name, pool.groups);
    let mut tell = |kind: Kind, count: usize, text: String, advice: &str| match count {
        0 => {}
        _ => facts.push(Fact::new(
            kind,
            [name],
            format!("Pool {name}: {count} of {all} groups {text}"),
            advice,
        )),
    };
    tell(
        Kind::CopiesMissing,
        counts.degraded + counts.at_min_copies,
        "lack a copy; I/O goes on.".to_owned(),
        "",
    );
    tell(
        Kind::CopiesAtLeast,
        counts.at_min_copies,
        "have no copy to spare; one more failure, and their writes wait.".to_owned(),
        "",
    );
    tell(
        Kind::CopiesWaiting,
        counts.waiting - counts.below,
        "name an in-sync store that is gone; I/O waits until it is evicted or back.".to_owned(),
        "",
    );
    tell(
        Kind::CopiesBelow,
        counts.below,
        "have too few copies that are there; their writes wait until the nodes of the others are back.".to_owned(),
        "Start those nodes.",
    );
    tell(
        Kind::CopiesSyncing,
        counts.syncing,
        format!(
            "are being brought up to date; {} in all are not yet as they should be.",
            counts.moving
        ),
        "",
    );
}

fn of_rule(pool: &Pool, outlook: Outlook, facts: &mut Vec<Fact>) {
    if outlook.unmet == 0 {
        return;
    }
    let (name, all) = (&pool.name, pool.groups);
    let class = pool.class.as_ref();
    let class = class.map_or_else(String::new, |class| format!(" of class {class}"));
    facts.push(Fact::new(
        Kind::RuleUnmet,
        [name],
        format!(
            "Pool {name}: the rule cannot be met for {} of {all} groups: not enough {}s with stores{class} that can take a \
             copy. They stay where they are: add stores, or end drains.",
            outlook.unmet, pool.failure_domain
        ),
        "",
    ));
}

#[cfg(test)]
mod tests;
