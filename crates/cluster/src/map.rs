//! The records of the metadata, as readable JSON, and their keys.
//!
//! All keys lie under one prefix, `/amita/`. A record is written by compare-and-set on its key's modification revision
//! only. No data and no per-chunk state live there.

use crate::id::{ClusterId, Epoch, Generation, GroupIndex, NodeId, PoolId, StoreId, VolumeId};
use serde::{Deserialize, Serialize};

/// The prefix of every key.
pub const PREFIX: &str = "/amita/";
/// The version of the metadata's records that this build writes.
pub const METADATA_VERSION: u32 = 1;

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
    /// `HOST:PORT` of its NBD server, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd: Option<String>,
    /// How many cores serve.
    pub cores: u32,
}

/// `/amita/live/NODE_ID`: a leased key; it is gone when the node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Made anew at each start of the node.
    pub session: u64,
    /// The process.
    pub pid: u32,
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

/// `/amita/groups/POOL_ID/INDEX`: who holds a group. The in-sync set changes only together with the epoch.
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
/// The key of a volume's record.
#[must_use]
pub fn volume_key(name: &str) -> String {
    format!("{PREFIX}volumes/{name}")
}
/// The key of a counter from which ids are drawn (`nodes`, `pools`, `volumes`).
#[must_use]
pub fn counter_key(name: &str) -> String {
    format!("{PREFIX}next/{name}")
}
