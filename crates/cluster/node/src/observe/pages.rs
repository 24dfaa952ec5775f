//! The same as JSON: what `amita top` and `amita trace` read.
//!
//! Counts are those since the process started; whoever wants a rate asks twice. Histograms are their buckets, so that the
//! same goes for a p99.

use super::report::{CoreReport, NodeReport};
use crate::trace::{Leg, Trace};
use crate::usage::IoKind;
use amita_reactor::Time;
use amita_reactor::histogram::Histogram;
use amita_types::StoreId;
use amita_types::io::Op;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A node at a moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodePage {
    /// Its number.
    pub node: u32,
    pub name: String,
    pub cluster: String,
    /// Nanoseconds since the process started: rates are by this.
    pub now_ns: u64,
    /// How many cores there are; those that did not answer are not among the others.
    pub core_count: usize,
    /// The volumes that are open here.
    pub volumes: Vec<VolumePage>,
    pub stores: Vec<StorePage>,
    pub cores: Vec<CorePage>,
}

/// An open volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumePage {
    pub name: String,
    /// I/Os under way.
    pub in_flight: usize,
    /// Stores that are being brought up to date.
    pub syncing: usize,
    /// Groups whose writes wait.
    pub stuck_groups: usize,
    /// Reads, writes and so on, by name.
    pub ops: Vec<OpPage>,
}

/// One kind of I/O of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpPage {
    /// `read`, `write`, `clear`, `allocation`.
    pub op: String,
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    pub latency: Latency,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StorePage {
    /// Its UUID.
    pub id: String,
    pub path: String,
    pub serves: bool,
    /// Bytes for data.
    pub capacity_bytes: u64,
    pub free_bytes: u64,
    /// Bytes written to the device in all.
    pub written_bytes: u64,
    pub reads: Latency,
    pub writes: Latency,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CorePage {
    pub core: usize,
    /// Passes of its loop.
    pub passes: u64,
    /// Calls of `io_uring_enter`.
    pub enters: u64,
    /// Reads and writes of files in memory.
    pub file_calls: u64,
    /// Calls of `sched_yield`.
    pub yields: u64,
    /// How often it slept.
    pub blocks: u64,
    /// For how long, in nanoseconds.
    pub blocked_ns: u64,
    /// Processor time, in nanoseconds.
    pub cpu_ns: u64,
    /// I/Os of hosts that its sequencers ended.
    pub ios: u64,
    /// Requests that its stores answered.
    pub requests: u64,
}

/// A histogram of times.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// All together, in nanoseconds.
    pub sum_ns: u64,
    /// Buckets that are not empty: number, count.
    pub buckets: Vec<(u16, u64)>,
}

impl From<&Histogram> for Latency {
    fn from(histogram: &Histogram) -> Latency {
        Latency {
            sum_ns: histogram.sum().as_nanos() as u64,
            buckets: histogram.counts().collect(),
        }
    }
}

impl Latency {
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        Histogram::from_counts(self.buckets.iter().copied(), Duration::from_nanos(self.sum_ns))
    }
}

impl NodePage {
    /// What a report says.
    #[must_use]
    pub fn new(report: &NodeReport) -> NodePage {
        let volumes = report.volumes().into_iter().map(|volume| VolumePage {
            in_flight: volume.in_flight,
            syncing: volume.syncing,
            stuck_groups: volume.stuck_groups,
            ops: volume
                .usage
                .each()
                .map(|(kind, usage)| OpPage {
                    op: kind.name().to_owned(),
                    bytes: usage.bytes,
                    errors: usage.errors,
                    latency: (&usage.latency).into(),
                })
                .collect(),
            name: volume.name,
        });
        let stores = report.stores().into_iter().map(|store| StorePage {
            id: store.id.to_string(),
            path: store.path.clone(),
            serves: store.serves,
            capacity_bytes: store.status.capacity_bytes,
            free_bytes: store.status.free_bytes,
            written_bytes: store.status.counters.device_bytes_written,
            reads: (&store.times.reads).into(),
            writes: (&store.times.writes).into(),
        });
        NodePage {
            node: report.node.0,
            name: report.name.clone(),
            cluster: report.cluster.to_string(),
            now_ns: report.cores.iter().map(|core| core.now.0).max().unwrap_or(0),
            core_count: report.core_count,
            volumes: volumes.collect(),
            stores: stores.collect(),
            cores: report.cores.iter().map(CorePage::new).collect(),
        }
    }
}

impl CorePage {
    fn new(core: &CoreReport) -> CorePage {
        let ios = core.volumes.iter().flat_map(|volume| volume.usage.each());
        let requests = core
            .stores
            .iter()
            .map(|store| store.times.reads.count() + store.times.writes.count());
        CorePage {
            core: core.core,
            passes: core.passes,
            enters: core.driver.enters,
            file_calls: core.driver.file_calls,
            yields: core.driver.yields,
            blocks: core.driver.blocks,
            blocked_ns: core.driver.blocked_ns,
            cpu_ns: core.driver.cpu_ns,
            ios: ios.map(|(_, usage)| usage.latency.count()).sum(),
            requests: requests.sum(),
        }
    }
}

/// The traces of a node, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TracesPage {
    /// Its number.
    pub node: u32,
    pub name: String,
    pub cluster: String,
    pub traces: Vec<TracePage>,
}

/// One I/O.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TracePage {
    /// Its number at this node; 0: it was not traced, and is here because it was slow.
    pub id: u32,
    /// How long ago it ended when this was asked, in nanoseconds.
    pub ago_ns: u64,
    /// Its volume's name.
    pub volume: String,
    /// `read`, `write`, `clear`, `allocation`.
    pub op: String,
    /// The first byte.
    pub offset: u64,
    pub length: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// From the last byte that came in to the answer.
    pub total_ns: u64,
    /// One after the other; together the total.
    pub stages: Vec<StagePage>,
    /// Whose answer came last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_store: Option<String>,
    /// Who never answered, and was evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_store: Option<String>,
    /// What each store did.
    pub stores: Vec<LegPage>,
}

/// A stage of an I/O.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StagePage {
    /// Its name.
    pub stage: String,
    /// How long it took.
    pub ns: u64,
}

/// A traced I/O's request to one store. Times are since the I/O came in, in nanoseconds; those of the store itself since it received
/// the request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LegPage {
    pub store: String,
    /// The request was handed over to be sent, or was with the store.
    pub sent_ns: u64,
    /// The answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ns: Option<u64>,
    /// On the way there and back.
    pub way_ns: u64,
    /// What the store did, one after the other.
    pub stages: Vec<StagePage>,
}

impl TracesPage {
    /// The newest traces of a node: at most `count`, of one volume if one is named.
    #[must_use]
    pub fn new(report: &NodeReport, slow: bool, volume: Option<&str>, count: usize) -> TracesPage {
        let mut traces: Vec<TracePage> = Vec::new();
        for core in &report.cores {
            let kept = if slow { &core.slow } else { &core.recent };
            for trace in kept {
                let name = core.volumes.iter().find(|known| known.id == trace.volume);
                let name = name.map_or_else(|| format!("volume {}", trace.volume), |known| known.name.clone());
                if volume.is_none_or(|wanted| wanted == name) {
                    traces.push(TracePage::new(trace, name, core.now));
                }
            }
        }
        traces.sort_by_key(|trace| trace.ago_ns);
        traces.truncate(count);
        TracesPage {
            node: report.node.0,
            name: report.name.clone(),
            cluster: report.cluster.to_string(),
            traces,
        }
    }
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl TracePage {
    fn new(trace: &Trace, volume: String, now: Time) -> TracePage {
        let stages = trace.stages().map(|(stage, took)| StagePage {
            stage: stage.name().to_owned(),
            ns: ns(took),
        });
        let name = |store: StoreId| store.to_string();
        TracePage {
            id: trace.id.0,
            ago_ns: ns(now.since(trace.acknowledged)),
            volume,
            op: IoKind::of(&trace.op).name().to_owned(),
            offset: trace.op.offset(),
            length: match trace.op {
                Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => 0,
                op => op.length(),
            },
            error: trace.error.map(|error| error.to_string()),
            total_ns: ns(trace.total()),
            stages: stages.collect(),
            last_store: trace.last.map(name),
            missed_store: trace.missed.map(name),
            stores: trace.legs.iter().map(|leg| LegPage::new(trace, leg)).collect(),
        }
    }
}

impl LegPage {
    fn new(trace: &Trace, leg: &Leg) -> LegPage {
        let mut stages = Vec::new();
        if let Some(told) = leg.stages {
            // Data and log are written side by side: each counts from the start of both.
            let mut stage = |name: &str, from: u32, to: u32| {
                if to > 0 {
                    stages.push(StagePage {
                        stage: name.to_owned(),
                        ns: to.saturating_sub(from).into(),
                    });
                }
            };
            let written = told.data_ns.max(told.log_ns);
            let durable = told.durable_ns.max(written);
            if durable > 0 {
                stage("issue", 0, told.issued_ns.max(1));
            }
            stage("data", told.issued_ns, told.data_ns);
            stage("log", told.issued_ns, told.log_ns);
            stage("flush", written, told.durable_ns);
            stage("answer", durable.max(told.issued_ns), told.answered_ns);
        }
        LegPage {
            store: leg.store.to_string(),
            sent_ns: ns(leg.left.since(trace.arrived)),
            answered_ns: (leg.answered != Time(0)).then(|| ns(leg.answered.since(trace.arrived))),
            way_ns: if leg.answered == Time(0) { 0 } else { ns(leg.way()) },
            stages,
        }
    }
}
