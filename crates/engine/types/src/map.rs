//! The records of the metadata, as readable JSON, and their keys.
//!
//! All keys lie under one prefix, `/amita/`. A record is written by compare-and-set on its key's modification revision
//! only. No data and no per-chunk state live there.

use crate::id::{ClusterId, Epoch, Generation, GroupIndex, MirrorId, NodeId, PoolId, SnapshotId, StoreId, VolumeId};
use crate::placement::Level;
use serde::{Deserialize, Serialize};

mod about;
mod api;
mod backup;
mod backup_task;
mod chain;
mod check;
mod clone;
mod copying;
mod flatten;
mod holders;
mod iscsi;
mod keys;
mod limits;
mod lineage;
mod mirror;
mod paused;
mod policy;
mod priority;
mod quota;
mod scrub;
mod set;
mod trash;
mod verification;

pub use about::{About, Attempt, Import, Shrink, about_key, about_prefix};
pub use api::{ApiAnswer, ApiReply, ApiToken, api_answer_key, api_answers_prefix, api_token_key, api_tokens_prefix};
pub use backup::{
    BackupPolicy, BackupRepository, BackupRun, BackupRuns, DEFAULT_BACKUP_LIMIT_S, MAX_BACKUP_POLICIES,
    MAX_BACKUP_REPOSITORIES, backup_policies_prefix, backup_policy_key, backup_repositories_prefix,
    backup_repository_key, backup_runner_key, backup_runs_key, backup_runs_prefix, backups_prefix,
};
pub use backup_task::{
    BackedSnapshot, BackupTask, BackupTaskEnd, BackupTaskId, BackupTaskMade, BackupTaskOutcome, BackupTaskPlace,
    BackupTaskRun, BackupWork, MAX_BACKUP_TASKS, PointForget, PointRestore, VolumeBackup, backup_task_key,
    backup_task_names_prefix, backup_task_place_key, backup_task_places_prefix, backup_task_run_key,
    backup_task_runner_key, backup_tasks_prefix,
};
pub use chain::{MAX_FORMER, check_chain};
pub use check::MAX_GROUPS;
pub use clone::{MAX_LEVELS, Parent, check_parents};
pub use copying::{
    CopyPlace, Copying, Moving, Slowed, copier_key, copies_prefix, copying_key, copying_prefix, is_moving_name,
    moving_name,
};
pub use flatten::{Flatten, flatten_key, flattens_prefix};
pub use holders::Holders;
pub use iscsi::{
    IscsiAccess, IscsiGateway, IscsiInitiator, IscsiLun, IscsiTarget, MAX_LUN_NUMBER, SCSI_PRODUCT, SCSI_VENDOR,
    iscsi_gateway_key, iscsi_gateways_prefix, iscsi_initiator_key, iscsi_initiators_prefix, iscsi_target_key,
    iscsi_targets_prefix, naa, naa_text,
};
pub use keys::{
    BadRing, ENCRYPTION_SINCE, Era, KMIP_SINCE, KeyName, KeyNumber, KeyRing, MAX_ERAS, TENANT_KEYS_SINCE,
    all_secrets_prefix, secret_key, secrets_prefix, tenant_wrapping_key, tenant_wrapping_keys_prefix, wrapping_key,
};
pub use limits::{
    JointLimits, LIMITS_SINCE, Limit, Limits, Measures, Peak, Tenancy, joint_limits_key, joint_limits_prefix,
    pool_limits, tenancies_prefix, tenancy_key, tenant_limits,
};
pub use lineage::{
    BACKUP_LABEL, Lineage, MAX_LABEL_BYTES, MAX_LABELS, MAX_MARKS, MAX_SNAPSHOT_NAME, MIRROR_LABEL, SNAPSHOTS_SINCE,
    Snapshot, SnapshotName, SnapshotState, SnapshotWish, snapshot_key, snapshot_name_key, snapshot_names_prefix,
    snapshot_wish_key, snapshot_wishes_prefix, snapshots_prefix,
};
pub use mirror::{
    Closed, MAX_AILS_BYTES, MAX_MIRROR_VOLUMES, MAX_MIRRORS, MAX_POINTS, MIRRORS_SINCE, Mirror, MirrorPass, MirrorPeer,
    MirrorRole, MirrorVolume, PassPlace, Point, PointName, Returning, Seen, Standing, mirror_id_key, mirror_key,
    mirror_runner_key, mirror_seen_key, mirroring_prefix, mirrors_prefix, mirrors_seen_prefix,
};
pub use paused::Paused;
pub use policy::{
    DEFAULT_TEMPLATE, DEFAULT_ZONE, Keep, MAX_KEPT, MAX_POLICIES, MAX_POLICY_NAME, OWN_LABELS, POLICY_LABEL, Policy,
    PolicyId, PolicyRuns, Run, RunSet, Target, policies_prefix, policy_key, policy_runs_key, policy_runs_prefix,
};
pub use priority::{PRIORITIES_SINCE, Priority, USUAL_WEIGHT};
pub use quota::{Quota, quota_key};
pub use scrub::{Scrub, ScrubProgress, ScrubReport, Unread, scrub_key};
pub use set::{MAX_SET_VOLUMES, SetState, SetVolume, SnapshotSet, Voided, set_key, sets_prefix};
pub use trash::{
    DEFAULT_RECYCLE_SECONDS, MAX_RECYCLE_SECONDS, Recycling, Trashed, hidden_name, is_hidden, recycling_key, trash_key,
    trash_prefix,
};
pub use verification::{
    BackupDamage, BackupPointLost, BackupVerified, BackupVerify, DEFAULT_VERIFY_PERCENT, MAX_DAMAGE, MAX_MORE_PACKS,
    MAX_POINTS_LOST, VERIFY_SINCE, backup_verified_key, backup_verified_prefix, backup_verifier_key,
};

/// The prefix of every key.
pub const PREFIX: &str = "/amita/";
/// The newest version of the metadata's records that this build knows: it serves no cluster of a later one.
pub const METADATA_VERSION: u32 = TENANT_KEYS_SINCE;
/// The version of a new cluster: what its first node knows. That of an older one is raised by the operator, when all programs know
/// it.
pub const NEW_CLUSTER_VERSION: u32 = METADATA_VERSION;

/// `/amita/cluster`: made once, by the first node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The cluster's UUID.
    pub id: ClusterId,
    /// The finalized cluster version: gates new formats on disk and wire.
    pub version: u32,
}

/// `/amita/nodes/NAME`: a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Its name, as operators know it.
    pub name: String,
    /// `HOST:PORT` of its fabric.
    pub fabric: String,
    /// The same by a second network, if it has one. Versions before this field use the first alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric2: Option<String>,
    /// `HOST:PORT` of its NBD server, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd: Option<String>,
    /// The path of its NBD server's Unix socket on its own machine, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd_socket: Option<String>,
    /// `HOST:PORT` where hosts connect by NVMe/TCP, if they may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<String>,
    /// `HOST:PORT` where its metrics and traces can be read, if anywhere; `HOST` may be the node's own loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// `HOST:PORT` of its REST API, if it serves one; `HOST` may be the node's own loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// How many cores serve.
    pub cores: u32,
    /// The site that it stands in; empty: all nodes without one share one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
    /// The rack, unique in its site; empty: as for the site.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rack: String,
    /// In maintenance: its absence is expected, its stores are not replaced meanwhile.
    #[serde(default, skip_serializing_if = "is_false")]
    pub maintenance: bool,
    /// The process of a client, without stores: its record goes when it does, and nobody misses it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub client: bool,
    /// It serves by a gateway's certificate, without stores.
    #[serde(default, skip_serializing_if = "is_false")]
    pub gateway: bool,
    /// It has no identity, and other machines reach its fabric (`--insecure-network`): whoever does is believed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unprotected: bool,
}

/// `/amita/live/NODE_ID`: a leased key; it is gone when the node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Made anew at each start of the node.
    pub session: u64,
    /// The process.
    pub pid: u32,
    /// The stores that it serves at present: mounted, and free of I/O errors. Those of a node of an older version are
    /// not told; such a node is taken to serve all its stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stores: Option<Vec<StoreId>>,
    /// The newest version of the metadata's records that its program knows. The first programs do not say so.
    #[serde(default = "first_version")]
    pub version: u32,
}

fn first_version() -> u32 {
    1
}

/// `/amita/stores/UUID`: a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Its UUID.
    pub id: StoreId,
    /// The node that serves it.
    pub node: NodeId,
    /// Its path there.
    pub path: String,
    /// Its capacity for data.
    pub size_bytes: u64,
    /// Relative weight for placement.
    pub weight: u32,
    /// The class of the device (`nvme`, `ssd`, `hdd`, or what the operator calls it); empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// What the operator wants of it.
    #[serde(default, skip_serializing_if = "StoreDuty::is_normal")]
    pub duty: StoreDuty,
    /// It drains, and nothing more is begun for that: its data stays where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

impl Store {
    /// Is its data to move to others, and is nobody to be at it now?
    #[must_use]
    pub fn drain_stands_still(&self) -> bool {
        self.duty == StoreDuty::Draining && self.paused.is_some()
    }
}

/// `/amita/mounts/UUID`: who serves a store. Each mount of a store raises a counter on its disk before anything else is
/// written there, and each number is claimed once: who comes with the same number or an older one has a copy of the disk, or
/// the disk as it once was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The node.
    pub node: NodeId,
    /// Its session, as in [`Live`]; 0: it serves the store no more, and says so.
    pub session: u64,
    /// The number of the mount, as it is on the disk.
    pub number: u64,
}

/// What the operator wants of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreDuty {
    /// It holds data.
    #[default]
    Normal,
    /// Its data moves to others.
    Draining,
}

impl StoreDuty {
    fn is_normal(&self) -> bool {
        *self == StoreDuty::Normal
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// `/amita/pools/NAME`: a redundancy policy and its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its number.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// What it does with data.
    pub kind: PoolKind,
    /// How many groups: a power of two.
    pub groups: u32,
    /// Bytes of a chunk: a power of two, at most 4 MiB.
    pub chunk_bytes: u32,
    /// No two copies of a group lie in the same of these.
    #[serde(default)]
    pub failure_domain: Level,
    /// Only stores of this class hold its groups; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// What a pool does with data. Later kinds are added here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
#[non_exhaustive]
pub enum PoolKind {
    /// Whole copies.
    Replicated {
        /// How many.
        copies: u8,
        /// Writes wait while fewer than these are in sync.
        min_copies: u8,
    },
}

/// `/amita/groups/POOL_ID/INDEX`: who holds a group. The in-sync and syncing sets change only together with the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The index inside the pool.
    pub index: GroupIndex,
    /// The membership's number.
    pub epoch: Epoch,
    /// The stores that should hold the group.
    pub members: Vec<StoreId>,
    /// Those that hold everything acknowledged.
    pub in_sync: Vec<StoreId>,
    /// Those that are being brought up to date: they get every write, must answer it, and serve nothing (R2). Together with
    /// the in-sync ones at most [`crate::message::MAX_MEMBERS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syncing: Vec<Syncing>,
}

/// A store that is being brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syncing {
    /// The store.
    pub store: StoreId,
    /// The epoch that first listed it, this time: what was said of it earlier does not count.
    pub since: Epoch,
}

/// `/amita/whole/POOL_ID/VOLUME_ID`: what the volume's owner says of syncing stores: that they hold everything of this
/// volume. A store is taken into the in-sync set when the owners of all the pool's volumes have said so, each with its
/// present generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whole {
    /// The volume.
    pub volume: VolumeId,
    /// The owner's generation; what an older owner said does not count.
    pub generation: Generation,
    /// Which stores, in which group. In order of the group.
    pub members: Vec<WholeMember>,
}

/// One syncing member that holds everything of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeMember {
    /// The group.
    pub group: GroupIndex,
    /// The store.
    pub store: StoreId,
    /// As in [`Syncing`].
    pub since: Epoch,
}

/// `/amita/raised/POOL_ID`: written in the same transaction as each raise of the generation of one of the pool's volumes, as each
/// new name of one, and as each clone. A promotion compares it, so that none can rest on what a deposed owner has said, or forget a volume of which it
/// has only heard that its old name is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The volume whose generation was raised last.
    pub volume: VolumeId,
    /// To which.
    pub generation: Generation,
}

/// `/amita/volumes/NAME`: a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its number.
    pub id: VolumeId,
    /// Its name.
    pub name: String,
    /// The pool's name.
    pub pool: String,
    /// Bytes: a multiple of the block.
    pub size_bytes: u64,
    /// The number of its ownership; raised by each takeover.
    pub generation: Generation,
    /// The gateway that owns it, once opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<NodeId>,
    /// Its snapshots.
    #[serde(flatten)]
    pub lineage: Lineage,
    /// What it was cloned from, the nearest first (S8); empty: it is no clone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<Parent>,
    /// What it was before it was reverted, the newest first: these records stand under hidden names, and their snapshots are the volume's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<VolumeId>,
    /// The keys that its blocks are encrypted with, from its first write on; none: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyRing>,
    /// What its hosts may do, all together; none: as much as there is. In clusters of version [`LIMITS_SINCE`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<Limits>>,
    /// How it stands among others where stores are busy; none: as all do that say nothing. In clusters of version [`PRIORITIES_SINCE`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Box<Priority>>,
    /// It is closed to hosts, for the mirror that it is an end of; none: it is not. In clusters of version [`MIRRORS_SINCE`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Box<Closed>>,
}

impl Volume {
    /// One that nobody has opened yet: no clone, without snapshots, in the clear, unlimited and open to all.
    #[must_use]
    pub fn new(id: VolumeId, name: &str, pool: &str, size_bytes: u64) -> Volume {
        Volume {
            id,
            name: name.to_owned(),
            pool: pool.to_owned(),
            size_bytes,
            generation: Generation(0),
            owner: None,
            lineage: Lineage::default(),
            parents: Vec::new(),
            former: Vec::new(),
            keys: None,
            limits: None,
            priority: None,
            closed: None,
        }
    }

    /// What closes it to whoever is no runner of `runs`; none: it is open to them.
    #[must_use]
    pub fn closed_to(&self, runs: Option<MirrorId>) -> Option<&Closed> {
        self.closed.as_deref().filter(|closed| Some(closed.mirror) != runs)
    }

    /// The volume by whose number its chunks are hashed to their groups (D8): its own, or that of the one at the root of what it was
    /// cloned from, so that a chunk lies where what it shares lies.
    #[must_use]
    pub fn place(&self) -> VolumeId {
        let root = self.parents.last().map_or(self.id, |root| root.volume);
        self.lineage.root.unwrap_or(root)
    }
}

/// `/amita/exports/VOLUME_ID`: a volume is served by NBD, under its name. A volume without such a record is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The volume.
    pub volume: VolumeId,
    /// The names of the clients that may use it: what they have proved to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// The tenants whose clients may use it: those whose certificates say that they are the tenant's, and for all that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// May those use it that prove nothing, and come from the gateway's own machine? And any client that proves who it is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub any_client: bool,
    /// May it be read only?
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// Also while the volume is a namespace of a subsystem.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
}

/// `/amita/nvme/subsystems/NAME`: what hosts connect to by NVMe over Fabrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subsystem {
    /// Its name, as operators know it.
    pub name: String,
    /// Its NVMe qualified name: unique.
    pub nqn: String,
    /// Its serial number: 1 to 20 characters of ASCII; never changes.
    pub serial: String,
    /// The names of the nodes that serve it; empty: all gateways that speak NVMe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
    /// May any host connect? Otherwise only those of `hosts`; none, when that is empty.
    #[serde(default, skip_serializing_if = "is_false")]
    pub any_host: bool,
    /// Are connections without TLS refused? Hosts without a key for it cannot connect then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tls_required: bool,
    /// The NQNs of the hosts that may connect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// In order of their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Namespace>,
}

/// A namespace of a subsystem: a volume, or a snapshot of one, under a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its number, from 1 on.
    pub nsid: u32,
    /// The volume.
    pub volume: VolumeId,
    /// Its UUID: the same for ever; hosts know the disk by it. Its NGUID is these bytes too.
    pub uuid: uuid::Uuid,
    /// Bytes of a logical block: 512 or 4096.
    pub block_bytes: u32,
    /// The snapshot of the volume that it is, to be read only; none: the volume itself. In clusters of version [`SNAPSHOTS_SINCE`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<NamespaceSnapshot>,
}

/// What a gateway has to know of a snapshot that is a namespace. None of it ever changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSnapshot {
    /// Its number.
    pub number: SnapshotId,
    /// The volume's size when it was taken.
    pub size_bytes: u64,
}

impl Namespace {
    /// The UUID by which hosts know the disk. It follows from the cluster and the volume, whose number is never given again:
    /// a volume that is taken out of a subsystem and comes back, there or elsewhere, is the same disk to its hosts. It is of
    /// version 8 (RFC 9562, 5.8: what the other bits are is the maker's affair).
    #[must_use]
    pub fn uuid_of(cluster: ClusterId, volume: VolumeId) -> uuid::Uuid {
        Namespace::uuid_of_snapshot(cluster, volume, SnapshotId::HEAD)
    }

    /// The same for a snapshot, whose number is never given again either: a disk of its own. It lies above the bits that are the
    /// version's, so that nothing of it is lost.
    #[must_use]
    pub fn uuid_of_snapshot(cluster: ClusterId, volume: VolumeId, snapshot: SnapshotId) -> uuid::Uuid {
        let bytes = (cluster.0 ^ u128::from(volume.0) ^ u128::from(snapshot.0) << 80).to_be_bytes();
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }

    /// Does it stand for this snapshot of this volume? [`SnapshotId::HEAD`]: for the volume itself.
    #[must_use]
    pub fn is_of(&self, volume: VolumeId, snapshot: SnapshotId) -> bool {
        self.volume == volume && self.snapshot_id() == snapshot
    }

    /// The number of the snapshot that it is; [`SnapshotId::HEAD`]: the volume itself.
    #[must_use]
    pub fn snapshot_id(&self) -> SnapshotId {
        self.snapshot.map_or(SnapshotId::HEAD, |snapshot| snapshot.number)
    }
}

/// `/amita/nvme/hosts/NQN`: a host, and the secrets that it and the controllers prove to have. They are sealed: only who has
/// the cluster's sealing key can read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its NVMe qualified name.
    pub nqn: String,
    /// Its secret for DH-HMAC-CHAP, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap: Option<String>,
    /// The controllers' secret, sealed, for hosts that want proof as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_controller: Option<String>,
    /// The pre-shared key for TLS, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
}

/// `/amita/moves/VOLUME_ID`: the operator wants a volume to be owned by another gateway. That gateway carries it out and
/// removes the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The volume's name.
    pub volume: String,
    /// The gateway.
    pub to: NodeId,
    /// Counts the wishes: whoever waits looks for the record to go or change.
    pub number: u64,
    /// Why that gateway cannot: whoever waits tells the operator, and removes the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// `/amita/closing/VOLUME_ID`: the operator wants the volume's owner to stop serving it, because it is to be deleted, or is. The
/// owner carries it out and removes the record, once nothing more is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// The volume's name.
    pub volume: String,
    /// Whose it was.
    pub owner: NodeId,
    /// Also where clients use it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// How many clients use it, so that it goes on: whoever waits tells the operator, and removes the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
}

/// `/amita/life`: how often the metadata was rebuilt from the stores. There is none before the first time. Revisions,
/// epochs and generations of different lives do not compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// Counts the recoveries.
    pub number: u64,
    /// Stores whose loss was accepted by the last one: what only they had is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<StoreId>,
}

/// `/amita/suspect/…`: somebody has found that the metadata is older than what stores know, or is being rebuilt: no volume
/// is opened while there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// What was found, for a person.
    pub why: String,
}

/// The prefix of who serves the stores.
#[must_use]
pub fn mounts_prefix() -> String {
    format!("{PREFIX}mounts/")
}
/// The key of who serves a store.
#[must_use]
pub fn mount_key(store: StoreId) -> String {
    format!("{PREFIX}mounts/{store}")
}
/// The prefix of the exports.
#[must_use]
pub fn exports_prefix() -> String {
    format!("{PREFIX}exports/")
}
/// The key of a volume's export.
#[must_use]
pub fn export_key(volume: VolumeId) -> String {
    format!("{PREFIX}exports/{volume}")
}
/// The prefix of the subsystems.
#[must_use]
pub fn subsystems_prefix() -> String {
    format!("{PREFIX}nvme/subsystems/")
}
/// The key of a subsystem's record.
#[must_use]
pub fn subsystem_key(name: &str) -> String {
    format!("{PREFIX}nvme/subsystems/{name}")
}
/// The prefix of the hosts.
#[must_use]
pub fn hosts_prefix() -> String {
    format!("{PREFIX}nvme/hosts/")
}
/// The key of a host's record.
#[must_use]
pub fn host_key(nqn: &str) -> String {
    format!("{PREFIX}nvme/hosts/{nqn}")
}
/// The prefix of the operator's wishes for owners.
#[must_use]
pub fn moves_prefix() -> String {
    format!("{PREFIX}moves/")
}
/// The key of the operator's wish for a volume's owner.
#[must_use]
pub fn move_key(volume: VolumeId) -> String {
    format!("{PREFIX}moves/{volume}")
}
/// The prefix of the operator's wishes that owners close volumes.
#[must_use]
pub fn closings_prefix() -> String {
    format!("{PREFIX}closing/")
}
/// The prefix of the operator's wishes that owners close volumes.
#[must_use]
pub fn closing_prefix() -> String {
    format!("{PREFIX}closing/")
}
/// The key of the operator's wish that its owner close a volume.
#[must_use]
pub fn closing_key(volume: VolumeId) -> String {
    format!("{}{volume}", closing_prefix())
}
/// The key of a volume's reservation.
#[must_use]
pub fn reservation_key(volume: VolumeId) -> String {
    format!("{PREFIX}reservations/{volume}")
}
/// The key that counts the metadata's lives.
#[must_use]
pub fn life_key() -> String {
    format!("{PREFIX}life")
}
/// The prefix of what speaks against the metadata.
#[must_use]
pub fn suspect_prefix() -> String {
    format!("{PREFIX}suspect/")
}
/// The key of what a node has found against the metadata.
#[must_use]
pub fn suspect_key(node: NodeId) -> String {
    format!("{PREFIX}suspect/{node}")
}
/// The key of the cluster's record.
#[must_use]
pub fn cluster_key() -> String {
    format!("{PREFIX}cluster")
}
/// The key of a node's record.
#[must_use]
pub fn node_key(name: &str) -> String {
    format!("{PREFIX}nodes/{name}")
}
/// The key of a node's liveness.
#[must_use]
pub fn live_key(node: NodeId) -> String {
    format!("{PREFIX}live/{node}")
}
/// The key of a store's record.
#[must_use]
pub fn store_key(store: StoreId) -> String {
    format!("{PREFIX}stores/{store}")
}
/// The key of a pool's record.
#[must_use]
pub fn pool_key(name: &str) -> String {
    format!("{PREFIX}pools/{name}")
}
/// The prefix of the groups of a pool.
#[must_use]
pub fn groups_prefix(pool: PoolId) -> String {
    format!("{PREFIX}groups/{pool}/")
}
/// The key of a group's record: the index has ten digits, so that keys sort as numbers.
#[must_use]
pub fn group_key(pool: PoolId, index: GroupIndex) -> String {
    format!("{PREFIX}groups/{pool}/{:010}", index.0)
}
/// The prefix of what owners of a pool's volumes say of syncing stores.
#[must_use]
pub fn whole_prefix(pool: PoolId) -> String {
    format!("{PREFIX}whole/{pool}/")
}
/// The key of what a volume's owner says of syncing stores.
#[must_use]
pub fn whole_key(pool: PoolId, volume: VolumeId) -> String {
    format!("{PREFIX}whole/{pool}/{volume}")
}
/// The key that each raise of a generation of the pool's volumes rewrites.
#[must_use]
pub fn raised_key(pool: PoolId) -> String {
    format!("{PREFIX}raised/{pool}")
}
/// The key of a volume's record.
#[must_use]
pub fn volume_key(name: &str) -> String {
    format!("{PREFIX}volumes/{name}")
}
/// The key of a counter from which ids are drawn (`nodes`, `pools`, `volumes`), or which is raised so that others see that
/// something changed (`namespaces`, `maintenance`).
#[must_use]
pub fn counter_key(name: &str) -> String {
    format!("{PREFIX}next/{name}")
}
