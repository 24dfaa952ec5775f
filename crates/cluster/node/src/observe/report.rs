//! What a core says of itself, and the cores of a node together.

use super::kept::ExportReport;
use super::process::{CertificateReport, ProcessReport};
use super::space::StoreQuestions;
use crate::limits;
use crate::links::PeerLink;
use crate::stores::turns::TurnCounts;
use crate::trace::{StageTimes, Trace, TraceCounters};
use crate::usage::Usage;
use amita_control::admin::Figures;
use amita_control::agent::PolicyReport;
use amita_reactor::{DriverCounts, Time};
use amita_store::{Count, Times};
use amita_types::{ClusterId, NodeId, StoreId, VolumeId};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A question to a core: answered with one [`CoreReport`].
#[derive(Clone, Debug)]
pub struct Observe {
    /// With the traces that it keeps?
    pub traces: bool,
    /// And what do volumes hold on its stores?
    pub space: Option<Arc<StoreQuestions>>,
    /// Where the answer goes.
    pub reply: Sender<Box<CoreReport>>,
}

/// What a core has counted since its start.
#[derive(Clone, Debug)]
pub struct CoreReport {
    pub core: usize,
    /// When it answered, on the process's clock.
    pub now: Time,
    /// Passes of its loop.
    pub passes: u64,
    /// What its driver did.
    pub driver: DriverCounts,
    /// The volumes that are open here.
    pub volumes: Vec<VolumeReport>,
    /// The limited volumes that are open here, or were used here lately, by their names, and what has become of their I/O at this core's gate.
    pub limited: Vec<(String, limits::Counts)>,
    /// Volumes whose limits are known here.
    pub limits_known: usize,
    /// Limits of tenants and pools (`tenant/NAME`, `pool/NAME`), and what has passed them at this core's gate.
    pub joints: Vec<(String, limits::JointCounts)>,
    /// The stores that it serves.
    pub stores: Vec<StoreReport>,
    /// What those of them that were asked have counted.
    pub counted: Vec<(StoreId, Count)>,
    /// Its fabric's counts.
    pub fabric: amita_fabric::Counters,
    /// Its links that are up.
    pub links: usize,
    /// Sessions of hosts.
    pub sessions: usize,
    /// Bytes that background work of its sequencers has moved.
    pub background_bytes: u64,
    pub traces: TraceCounters,
    /// How long the stages of traced I/Os took.
    pub stages: StageTimes,
    /// I/Os that take longer are kept as slow.
    pub slow_after: Duration,
    /// The last traces, oldest first; empty where they were not asked for.
    pub recent: Vec<Trace>,
    /// The last slow I/Os, oldest first; likewise.
    pub slow: Vec<Trace>,
}

/// An open volume.
#[derive(Clone, Debug)]
pub struct VolumeReport {
    pub id: VolumeId,
    pub name: String,
    /// What hosts did.
    pub usage: Usage,
    /// I/Os under way.
    pub in_flight: usize,
    /// Stores that are being brought up to date.
    pub syncing: usize,
    /// Groups whose writes wait, because too few copies are left.
    pub stuck_groups: usize,
    /// What its sequencers counted.
    pub counters: amita_sequencer::Counters,
}

#[derive(Clone, Debug)]
pub struct StoreReport {
    pub id: StoreId,
    pub path: String,
    pub serves: bool,
    /// What it says of itself.
    pub status: amita_store::Status,
    /// How long it takes.
    pub times: Times,
    /// What has become of what was asked of it, where there is an order.
    pub turns: Option<TurnCounts>,
}

/// The cores of a node together.
#[derive(Clone, Debug)]
pub struct NodeReport {
    pub node: NodeId,
    pub name: String,
    pub cluster: ClusterId,
    /// What each core said, in their order. Of a core that did not answer there is nothing.
    pub cores: Vec<CoreReport>,
    /// How many cores there are.
    pub core_count: usize,
    /// What has become of the policies of snapshots, where this node leads.
    pub policies: Vec<PolicyReport>,
    pub process: ProcessReport,
    /// The node's certificate, where it has an identity.
    pub certificate: Option<CertificateReport>,
    /// Is it the coordinator, as far as it knows?
    pub leads: bool,
    /// For how long the metadata has not answered it.
    pub metadata_silent: Duration,
    /// Has it found itself that the metadata is older than what it, or a store of it, has seen?
    pub metadata_older: bool,
    /// The cluster's figures, where they were asked for, this node leads, and the metadata has told them.
    pub figures: Option<Arc<Figures>>,
    /// What has become of the traces that go to a collector.
    pub export: ExportReport,
    /// Its links to other nodes, as far as they are shown.
    pub links: Vec<PeerLink>,
}

impl NodeReport {
    /// The open volumes, in order of their names; what several cores count of one is added up.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeReport> {
        let mut all: Vec<VolumeReport> = Vec::new();
        let mut places: HashMap<VolumeId, usize> = HashMap::new();
        for volume in self.cores.iter().flat_map(|core| &core.volumes) {
            match places.entry(volume.id) {
                Entry::Vacant(place) => {
                    place.insert(all.len());
                    all.push(volume.clone());
                }
                Entry::Occupied(place) => {
                    let known = &mut all[*place.get()];
                    known.usage.add(&volume.usage);
                    known.in_flight += volume.in_flight;
                    known.syncing = known.syncing.max(volume.syncing);
                    known.stuck_groups = known.stuck_groups.max(volume.stuck_groups);
                    known.counters.add(&volume.counters);
                }
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Limited volumes that are open here, or were used here lately, in order of their names, and what waits, and has waited, at the gates of all
    /// cores; of more than [`limits::MOST_TOLD_OF`] those of which most waits, and has waited.
    #[must_use]
    pub fn limited(&self) -> BTreeMap<String, limits::Counts> {
        let mut all: BTreeMap<String, limits::Counts> = BTreeMap::new();
        for (name, counts) in self.cores.iter().flat_map(|core| &core.limited) {
            all.entry(name.clone()).or_default().add(counts);
        }
        if all.len() <= limits::MOST_TOLD_OF {
            return all;
        }
        let mut most: Vec<(String, limits::Counts)> = all.into_iter().collect();
        most.sort_by_key(|(_, counts)| std::cmp::Reverse((counts.waiting, counts.held)));
        most.truncate(limits::MOST_TOLD_OF);
        most.into_iter().collect()
    }

    /// Limits of tenants and pools that something has passed here, or waits for, in order, and what of all cores: whether they are a `tenant`'s or a
    /// `pool`'s, and its name.
    #[must_use]
    pub fn joints(&self) -> BTreeMap<(&str, &str), limits::JointCounts> {
        let mut all: BTreeMap<(&str, &str), limits::JointCounts> = BTreeMap::new();
        for (name, counts) in self.cores.iter().flat_map(|core| &core.joints) {
            if let Some(name) = name.split_once('/') {
                all.entry(name).or_default().add(counts);
            }
        }
        all
    }

    /// Volumes whose limits this node knows: all that are limited in the cluster, when it has heard of all.
    #[must_use]
    pub fn limits_known(&self) -> usize {
        self.cores.iter().map(|core| core.limits_known).max().unwrap_or(0)
    }

    /// The stores, in order of their path.
    #[must_use]
    pub fn stores(&self) -> Vec<&StoreReport> {
        let mut all: Vec<&StoreReport> = self.cores.iter().flat_map(|core| &core.stores).collect();
        all.sort_by(|one, other| one.path.cmp(&other.path));
        all
    }

    /// How long the stages of traced I/Os took, on all cores.
    #[must_use]
    pub fn stages(&self) -> StageTimes {
        let mut all = StageTimes::default();
        for core in &self.cores {
            all.add(&core.stages);
        }
        all
    }
}
