//! The records about recovery: how hard it may work, how far it has come, and which stores are slow.
//!
//! Settings are the operator's; progress and reports are written by nodes, one record a core, and only while there is
//! something to say. Nothing that must be right rests on the latter two: they are hints and news.

use crate::id::{NodeId, StoreId, VolumeId};
use crate::map::PREFIX;
use serde::{Deserialize, Serialize};

/// `/amita/recovery`: how hard recovery may work, for each node. Without the record the defaults hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// Recovery gives way to clients: it works only as hard as their latency and throughput allow. The limits below hold
    /// as well.
    pub automatic: bool,
    /// The clients' p99 latency while recovery works, in percent of the one without it, that is still well.
    pub p99_percent: u32,
    /// The clients' throughput while recovery works, in percent of the one without it, that is still well.
    pub iops_percent: u32,
    /// Bytes a second of each node that bringing lost copies back (the next two levels) keeps whatever the clients feel, where there is as
    /// much to bring and their limits allow it. Each window counts as 128 KiB, also one that finds nothing to bring. Zero: no more than what
    /// the pace keeps by itself.
    pub least_bytes_per_s: u64,
    /// Groups at their least number of copies.
    pub critical: Limits,
    /// Groups that lack a copy.
    pub degraded: Limits,
    /// Groups that have all copies, not all where they should be.
    pub rebalance: Limits,
    /// Comparison of copies that are thought to be whole.
    pub scrub: Limits,
    /// What becomes of stores that are slow.
    pub slow_stores: SlowStores,
    /// What becomes of nodes whose network is sick.
    pub sick_networks: SickNetworks,
    /// What becomes of stores whose disks predict their failure.
    pub sick_disks: SickDisks,
}

impl Default for Recovery {
    fn default() -> Recovery {
        let windows = |windows| Limits {
            windows,
            ..Limits::default()
        };
        Recovery {
            automatic: true,
            p99_percent: 200,
            iops_percent: 70,
            least_bytes_per_s: 0,
            critical: windows(32),
            degraded: windows(16),
            rebalance: windows(8),
            scrub: windows(4),
            slow_stores: SlowStores::default(),
            sick_networks: SickNetworks::default(),
            sick_disks: SickDisks::default(),
        }
    }
}

/// What recovery of one level may take, on each node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Bytes a second; zero: no limit.
    pub bytes_per_s: u64,
    /// Requests a second; zero: no limit.
    pub iops: u32,
    /// Windows (up to 128 KiB each) at one time; zero: no limit.
    pub windows: u16,
}

/// What becomes of stores that are much slower than their peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowStores {
    /// What is done.
    pub policy: SlowPolicy,
    /// A store must have been slow for so many seconds without a pause.
    pub after_s: u32,
    /// A store that was evicted is tried again after so many seconds; each further time after twice as many.
    pub rest_s: u32,
    /// The most evictions in an hour, of the whole cluster.
    pub per_hour: u32,
}

impl Default for SlowStores {
    fn default() -> SlowStores {
        SlowStores {
            policy: SlowPolicy::Evict,
            after_s: 30,
            rest_s: 300,
            per_hour: 2,
        }
    }
}

/// What is done about a slow store, beside reading from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowPolicy {
    /// Nothing.
    Off,
    /// The operator is told.
    Propose,
    /// It is taken out of its groups where these have copies enough, one store at a time, and tried again later.
    Evict,
}

/// What becomes of nodes that lose much of what they send or are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SickNetworks {
    /// What is done.
    pub policy: SickPolicy,
    /// A network must have been sick for so many seconds before anybody is told, and before its node is avoided; it is isolated after
    /// twice as many.
    pub after_s: u32,
    /// A node that was isolated is tried again after so many seconds; each further time after twice as many.
    pub rest_s: u32,
    /// The most nodes that are isolated in an hour, of the whole cluster.
    pub per_hour: u32,
}

impl Default for SickNetworks {
    fn default() -> SickNetworks {
        SickNetworks {
            policy: SickPolicy::Propose,
            after_s: 60,
            rest_s: 600,
            per_hour: 2,
        }
    }
}

/// What is done about a node whose network is sick. Each includes what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SickPolicy {
    /// Nothing: nodes say what they find, and nothing is decided. (A network by which a node cannot be reached is left for its other one with
    /// any policy.)
    Off,
    /// The operator is told what is sick, and what would be done about it.
    Propose,
    /// Its stores get no more groups. Where the two nodes of a bad link have another network, that one is used, and neither is sick.
    Avoid,
    /// Its stores are taken out of their groups where these have copies enough, one node at a time, and tried again later.
    Isolate,
}

/// What is done about a store whose disk predicts its failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SickDisks {
    /// Nothing, and nobody is told: `amita inspect` alone finds it.
    Off,
    /// The operator is told, and what would be done.
    #[default]
    Propose,
    /// It is drained, one store at a time, where others can take its copies.
    Drain,
}

/// `/amita/progress/NODE_ID/CORE`: what a core of a node is bringing up to date. It is gone when that is nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Each store of each volume.
    pub stores: Vec<StoreProgress>,
}

/// How far a store has come with one volume, as far as one core deals with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreProgress {
    /// The volume.
    pub volume: VolumeId,
    /// The store.
    pub store: StoreId,
    /// Groups in which it is brought up to date.
    pub groups: u32,
    /// Of those: all chunks are known.
    pub groups_listed: u32,
    /// Of those: it holds everything.
    pub groups_done: u32,
    /// Chunks that were looked at.
    pub chunks_listed: u64,
    /// Of those: they must be compared.
    pub chunks_to_do: u64,
    /// Of those: they have been.
    pub chunks_done: u64,
    /// Data that was sent to the store.
    pub bytes_moved: u64,
    /// How long it has taken so far.
    pub elapsed_ms: u64,
}

/// `/amita/health/NODE_ID/CORE`: what a core of a node finds of stores, as long as some core finds one slow. Renewed every
/// few seconds; an old one does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthReport {
    /// Counts the writes of the record, so that a renewal is a change.
    pub beat: u64,
    /// The stores of which it has seen enough.
    pub stores: Vec<StoreHealth>,
}

/// What a core finds of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreHealth {
    /// The store.
    pub store: StoreId,
    /// It is much slower than its peers.
    pub slow: bool,
    /// For how long that has been so, in seconds.
    pub for_s: u32,
    /// What was seen, for people.
    pub why: String,
}

/// The key of the settings.
#[must_use]
pub fn recovery_key() -> String {
    format!("{PREFIX}recovery")
}

/// The prefix of what is being brought up to date.
#[must_use]
pub fn progress_prefix() -> String {
    format!("{PREFIX}progress/")
}

/// The key of what a core is bringing up to date.
#[must_use]
pub fn progress_key(node: NodeId, core: usize) -> String {
    format!("{PREFIX}progress/{node}/{core}")
}

/// The prefix of what nodes find of stores.
#[must_use]
pub fn health_prefix() -> String {
    format!("{PREFIX}health/")
}

/// The key of what a core finds of stores.
#[must_use]
pub fn health_key(node: NodeId, core: usize) -> String {
    format!("{PREFIX}health/{node}/{core}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_may_say_only_what_differs() {
        let found: Recovery = serde_json::from_str(
            r#"{"automatic":false,"degraded":{"bytes_per_s":1000},"slow_stores":{"policy":"propose"},"sick_disks":"drain"}"#,
        )
        .unwrap();
        let expected = Recovery {
            automatic: false,
            degraded: Limits {
                bytes_per_s: 1000,
                ..Limits::default()
            },
            slow_stores: SlowStores {
                policy: SlowPolicy::Propose,
                ..SlowStores::default()
            },
            sick_disks: SickDisks::Drain,
            ..Recovery::default()
        };
        assert_eq!(found, expected);
        assert_eq!(found.sick_networks.policy, SickPolicy::Propose, "a record of before");
        let found: Recovery = serde_json::from_str(r#"{"sick_networks":{"policy":"isolate"}}"#).unwrap();
        let expected = SickNetworks {
            policy: SickPolicy::Isolate,
            ..SickNetworks::default()
        };
        assert_eq!(found.sick_networks, expected);
        assert_eq!(serde_json::from_str::<Recovery>("{}").unwrap(), Recovery::default());
    }
}
