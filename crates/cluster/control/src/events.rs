//! What happened, and why: an append-only log in the metadata.
//!
//! Each event is one record under `/amita/events/`, keyed by its time, its node and a count, so that the keys' order is
//! the order of what happened, as far as clocks tell. Nodes write what they see of themselves, the coordinator what it
//! decides and sees of the cluster; the coordinator trims the log by age and by count. The log is for people: nothing is
//! decided by it, a watch of everything passes it over, and an event that cannot be written is not tried for ever.
//!
//! Every kind is defined once, in [`Kind`]: its name, which scripts may rely on, and how much it matters.

use crate::kinds::kinds;
use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::NodeId;
use amita_types::map;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most events that are kept.
pub const MAX_EVENTS: usize = 10_000;
/// How long events are kept.
pub const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most events that wait to be written while the metadata is away; older ones are dropped first.
const MAX_WAITING: usize = 1024;
/// Events of one transaction.
const MAX_BATCH: usize = 64;

/// The prefix of all events.
#[must_use]
pub fn prefix() -> String {
    format!("{}events/", map::PREFIX)
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should go.
    Info,
    /// Not as it should be; the cluster goes on.
    Warning,
    /// A person must look.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

kinds! {
    /// What happened.
    :
    /// A node was elected coordinator.
    CoordinatorElected "coordinator-elected" Info
        "Nothing.",
    /// A node's lease ended: it is down, or cut off.
    NodeGone "node-gone" Warning
        "Start it, unless you have stopped it; if it never comes back, drain its stores and `amita node remove` it.",
    /// A node holds its lease again.
    NodeBack "node-back" Info
        "Nothing.",
    /// Stores of dead nodes were taken out of in-sync sets; writes go on with the others.
    NodesEvicted "nodes-evicted" Warning
        "Bring the nodes back: their stores are brought up to date by themselves.",
    /// Stores that their living nodes do not serve were taken out of in-sync sets.
    StoresEvicted "stores-evicted" Warning
        "See the log of the node whose store it is: the disk fails, or the node was started without it.",
    /// Too few members are there to evict the others lawfully: writes wait.
    TooFewAlive "too-few-alive" Error
        "Start the nodes that are away: `amita status` names them.",
    /// Stores are being brought up to date.
    SyncStarted "sync-started" Info
        "Nothing: `amita status` shows how far it is.",
    /// Stores are no longer being brought up to date: they are gone, or not wanted there.
    SyncDropped "sync-dropped" Info
        "Nothing; where it was not wanted, see whether the store serves (`amita disk list`).",
    /// Stores are up to date and in sync.
    SyncFinished "sync-finished" Info
        "Nothing.",
    /// Stores that others have replaced were taken out of in-sync sets.
    StoresLeft "stores-left" Info
        "Nothing.",
    /// Groups are to be held by other stores.
    Placed "placed" Info
        "Nothing.",
    /// A pool's rule cannot be met with the stores that there are.
    RuleUnmet "rule-unmet" Warning
        "Add stores where the rule wants them, end drains, or change the rule (`amita pool set`).",
    /// A store is being drained.
    DrainBegun "drain-begun" Info
        "Nothing: wait for the end.",
    /// A store that was drained holds nothing any more.
    DrainDone "drain-done" Info
        "Take the store out: `amita disk forget`.",
    /// An operator has paused a job.
    JobPaused "job-paused" Info
        "Nothing; `amita job resume` has it go on.",
    /// An operator has a paused job go on.
    JobResumed "job-resumed" Info
        "Nothing: wait for the end (`amita job list`).",
    /// A record of the metadata cannot be read, and is left alone.
    RecordUnreadable "record-unreadable" Error
        "See who wrote it (`amita audit list`); put it right, or delete it.",
    /// A store was mounted and serves.
    StoreServes "store-serves" Info
        "Nothing.",
    /// A store cannot serve.
    StoreFailed "store-failed" Error
        "See the log of its node; `amita store check` looks at what is on the disk. A disk that fails is replaced (`amita disk replace`).",
    /// A volume has another owner.
    VolumeTakenOver "volume-taken-over" Info
        "Nothing.",
    /// A deleted volume went for good: its time had come.
    VolumePurged "volume-purged" Info
        "Nothing; `amita pool recycle` sets for how long deleted volumes are kept.",
    /// Times of a snapshot policy have passed without a run; one is made in their place.
    PolicyMissed "policy-missed" Warning
        "See why nothing ran: no coordinator, the metadata away, or clocks that jumped.",
    /// Snapshots of a policy could not be taken or deleted.
    PolicyFails "policy-fails" Warning
        "`amita snapshot-policy show` says what failed, and why.",
    /// A policy of which something had failed does what it should again.
    PolicyWorks "policy-works" Info
        "Nothing.",
    /// A channel of alerts has not taken what it was told for several attempts.
    ChannelFails "channel-fails" Warning
        "See whether the receiver runs and is reached from the nodes; `amita notify test` tries it.",
    /// A channel of alerts that had failed takes what it is told again.
    ChannelWorks "channel-works" Info
        "Nothing.",
    /// The metadata does not answer a node.
    MetadataAway "metadata-away" Warning
        "See whether the metadata runs, and whether the node reaches it.",
    /// The metadata answers a node again.
    MetadataBack "metadata-back" Info
        "Nothing.",
    /// A node has something to say that has no kind of its own.
    NodeWarning "node-warning" Warning
        "The sentence says it all.",
    /// Scrubbing found copies that are damaged or differ.
    ScrubFound "scrub-found" Warning
        "What could be repaired has been. Watch that disk (`amita disk list`, SMART), and replace it when it is found again.",
    /// A damaged copy was repaired from a good one.
    Repaired "repaired" Info
        "Watch that disk: one that was damaged once is mostly damaged again.",
    /// A store answers much slower than its peers.
    SlowStore "slow-store" Warning
        "Look after its disk and its links.",
    /// Links between nodes are bad, and it was found whose fault that is.
    NetworkSick "network-sick" Warning
        "Look after cables, interfaces and ports of switches there; `amita recovery set --sick-networks` says what becomes of such nodes.",
    /// Connections of a node to others go by their other network, or would if the policy let them, because this one is bad.
    NetworkSwitched "network-switched" Warning
        "Look after cables, interfaces and ports of switches of the network that was left: nobody may go by the other one alone for long.",
    /// A node whose network is sick was isolated: its stores are taken out of their groups.
    NodeIsolated "node-isolated" Warning
        "Mend its cable, interface or port: it comes back by itself when its links are well.",
    /// A network that was sick is well again.
    NetworkWell "network-well" Info
        "Nothing.",
    /// A disk shows signs of wear, of errors, or takes longer and longer.
    DiskAging "disk-aging" Warning
        "Order another one; `amita inspect` has its figures.",
    /// A disk predicts its failure: by its own word, by its wear, or because its errors grow from day to day.
    DiskFailing "disk-failing" Warning
        "Drain its store (`amita disk drain`), or replace it (`amita disk replace`), while it can still be read.",
    /// What the cluster does, or would do, about a disk that predicts its failure has changed.
    DiskDecided "disk-decided" Warning
        "The sentence says what is done and what hinders; `amita recovery set --sick-disks` says whether disks are drained by themselves.",
    /// Of a disk that was not well nothing has been found for a day.
    DiskWell "disk-well" Info
        "Nothing. A drain that the cluster has begun goes on; `amita disk drain --undo` ends it.",
    /// A store has got over the threshold for near full.
    StoreNearFull "store-near-full" Warning
        "Add stores, or delete or trim what is not needed.",
    /// A store has got over the threshold for full: writes fail when nothing is left.
    StoreFull "store-full" Error
        "Add stores, or delete or trim what is not needed, and purge deleted volumes (`amita volume purge`), now.",
    /// A store that was full, or near full, has space again.
    StoreRoomy "store-roomy" Info
        "Nothing.",
    /// The stores of a pool together have got over a level of their space.
    PoolFills "pool-fills" Warning
        "Plan for more stores: `amita pool show` says what holds the space.",
    /// They have come back below it.
    PoolRoomy "pool-roomy" Info
        "Nothing.",
    /// The metadata is older than what a store knows: no volume is opened.
    MetadataOlder "metadata-older" Error
        "Bring back the newest copy of the metadata, or rebuild it from the stores: `amita recover --from-stores` with all nodes stopped.",
    /// Writes, reads or the opening of a volume fail at a gateway.
    VolumeFails "volume-fails" Error
        "The sentence says why: see `amita status`, and the log of the gateway's node.",
    /// What had failed at a volume has not failed for half a minute.
    VolumeWorks "volume-works" Info
        "Nothing.",
    /// Another node or process serves a store that this one served.
    StoreTaken "store-taken" Error
        "Find the other process: a copy of the disk, or the same disk reached from two nodes. Stop one of them.",
    /// The audit log is broken, and is not trimmed.
    AuditBroken "audit-broken" Error
        "`amita audit verify` says where. Keep what is there as evidence, and see who can write to the metadata.",
}

impl Kind {
    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// One event, as it is written and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When: milliseconds since 1970, by the clock of the node that tells.
    pub unix_ms: u64,
    /// The node that tells; 0: none, but an operator's command.
    pub node: NodeId,
    /// The kind's name; one of a newer version may not be known here.
    pub kind: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: names and UUIDs of nodes, stores, pools and volumes, by which it can be found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// A sentence.
    pub text: String,
}

/// What is to be written: the writer adds when and who.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub kind: Kind,
    /// What it is about.
    pub objects: Vec<String>,
    /// A sentence.
    pub text: String,
}

impl Draft {
    /// A kind, what it is about, and a sentence.
    pub fn new(kind: Kind, objects: impl IntoIterator<Item = impl ToString>, text: impl Into<String>) -> Draft {
        Draft {
            kind,
            objects: objects.into_iter().map(|object| object.to_string()).collect(),
            text: text.into(),
        }
    }
}

/// Gives events their keys, and keeps those that wait to be written.
#[derive(Debug)]
pub struct Writer {
    node: NodeId,
    count: u64,
    waiting: VecDeque<(String, Vec<u8>)>,
}

impl Writer {
    /// Of that node. `session` is made anew at each start, so that keys never meet.
    #[must_use]
    pub fn new(node: NodeId, session: u64) -> Writer {
        Writer {
            node,
            // Counts of one process are consecutive, those of two begin far apart.
            count: session % 1_000_000 * 1_000_000,
            waiting: VecDeque::new(),
        }
    }

    /// Takes an event in, to be written.
    pub fn add(&mut self, draft: Draft) {
        let record = self.record(draft);
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(record);
    }

    /// The key and the value of an event, for who writes it together with something else.
    pub fn record(&mut self, draft: Draft) -> (String, Vec<u8>) {
        self.count += 1;
        record(now_ms(), self.node, self.count, draft)
    }

    /// The next events to write, oldest first.
    pub fn next(&self) -> Option<Call> {
        let put = |(key, value): &(String, Vec<u8>)| Op::Put {
            key: key.clone(),
            value: value.clone(),
            lease: None,
        };
        let then: Vec<Op> = self.waiting.iter().take(MAX_BATCH).map(put).collect();
        (!then.is_empty()).then_some(Call {
            then,
            ..Call::default()
        })
    }

    /// Those of that call are written: a repetition would have done no harm, since keys are never used twice.
    pub fn written(&mut self, call: &Call) {
        let keys: Vec<&str> = call.then.iter().map(Op::key).collect();
        self.waiting.retain(|(key, _)| !keys.contains(&key.as_str()));
    }
}

/// The key and the value of an event that no node tells, but an operator's command; `now` is since 1970.
#[must_use]
pub fn of_operators(draft: Draft, now: Duration) -> (String, Vec<u8>) {
    let unix_ms = now.as_millis().try_into().unwrap_or(u64::MAX);
    // Nobody counts: those of one moment are told apart by what they say.
    let text = draft.text.bytes();
    let said = text.fold(0_u64, |said, byte| said.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let count = u64::from(now.subsec_nanos() % 1_000_000) * 1_000_000 + said % 1_000_000;
    record(unix_ms, NodeId(0), count, draft)
}

fn record(unix_ms: u64, node: NodeId, count: u64, draft: Draft) -> (String, Vec<u8>) {
    let event = Event {
        unix_ms,
        node,
        kind: draft.kind.name().to_owned(),
        severity: draft.kind.severity(),
        objects: draft.objects,
        text: draft.text,
    };
    let key = format!("{}{unix_ms:013}-{node}-{count:012}", prefix());
    (key, serde_json::to_vec(&event).expect("plain data"))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Which events are asked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Not older than this: milliseconds since 1970.
    pub since_ms: u64,
    /// Of one of these kinds; empty: of any.
    pub kinds: Vec<String>,
    /// About something whose name or UUID begins so.
    pub object: Option<String>,
}

impl Query {
    /// Is this event asked for?
    #[must_use]
    pub fn takes(&self, event: &Event) -> bool {
        let about = |wanted: &String| event.objects.iter().any(|object| object.starts_with(wanted.as_str()));
        event.unix_ms >= self.since_ms
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.object.as_ref().is_none_or(about)
    }
}

/// The event of a record; `None` where it is none that this build understands.
#[must_use]
pub fn parse(record: &KeyValue) -> Option<Event> {
    record.json().ok()
}

/// The events that are asked for, oldest first.
///
/// # Errors
/// The metadata is away.
pub fn query(meta: &dyn Transact, query: &Query) -> Result<Vec<Event>, amita_metadata::Error> {
    let reply = meta.txn(&Call::prefix(prefix()))?;
    let found = reply.values(0).iter().filter_map(parse);
    Ok(found.filter(|event| query.takes(event)).collect())
}

/// Deletes events that are too old or too many; returns how many. For the coordinator, now and then.
///
/// # Errors
/// The metadata is away.
pub fn trim(meta: &dyn Transact, most: usize, oldest: Duration) -> Result<usize, amita_metadata::Error> {
    let reply = meta.txn(&Call::prefix(prefix()))?;
    let keys: Vec<&str> = reply.values(0).iter().map(|found| found.key.as_str()).collect();
    let limit = now_ms().saturating_sub(oldest.as_millis().try_into().unwrap_or(u64::MAX));
    let from = format!("{}{limit:013}", prefix());
    let old = keys.partition_point(|key| *key < from.as_str());
    let many = keys.len().saturating_sub(most);
    let doomed = &keys[..old.max(many)];
    for batch in doomed.chunks(MAX_BATCH) {
        let delete = |key: &&str| Op::Delete { key: (*key).to_owned() };
        meta.txn(&Call {
            then: batch.iter().map(delete).collect(),
            ..Call::default()
        })?;
    }
    Ok(doomed.len())
}

#[cfg(test)]
mod tests;
