//! Every metric, defined once: these tables feed what Prometheus reads, the page in the documentation, and the tests that look
//! for each of them. What the process is stands in `process`, what the node that leads tells of the cluster in `cluster`,
//! what has become of exported traces in `export`, all else here.
//!
//! Names follow Prometheus's conventions: base units (seconds, bytes), counters end in `_total`. The number of I/Os is the
//! `_count` of their histogram; there is no second counter of the same thing.

use super::report::{NodeReport, StoreReport, VolumeReport};
use super::text::Samples;
use crate::trace::StageTimes;
use amita_control::admin::{BackupFigures, BackupTaskFigures, Figures, VerifiedFigures};
use amita_control::agent::PolicyReport;

mod cluster;
mod export;
mod limits;
mod links;
mod process;
mod turns;

#[derive(Debug)]
pub struct Metric {
    /// Its name; of a histogram without `_bucket` and so on.
    pub name: &'static str,
    /// What it says, in a line.
    pub help: &'static str,
    /// What kind of thing.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Where its samples come from.
    pub(super) read: fn(&View<'_>, &mut Samples<'_>),
}

/// A kind of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, from 0 at the start of the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How long something took, of all that were counted.
    Histogram,
}

impl MetricKind {
    /// As Prometheus calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// A node's report, with what cores count of the same thing added up.
#[derive(Debug)]
pub(super) struct View<'a> {
    report: &'a NodeReport,
    volumes: Vec<VolumeReport>,
    stores: Vec<(String, &'a StoreReport)>,
    stages: StageTimes,
}

impl View<'_> {
    pub fn new(report: &NodeReport) -> View<'_> {
        View {
            report,
            volumes: report.volumes(),
            stores: report
                .stores()
                .into_iter()
                .map(|store| (store.id.to_string(), store))
                .collect(),
            stages: report.stages(),
        }
    }

    fn each_core(&self, mut each: impl FnMut(&str, &super::CoreReport)) {
        for core in &self.report.cores {
            each(&core.core.to_string(), core);
        }
    }

    /// The cluster's figures, where this node leads and the metadata has told them.
    fn figures(&self, each: impl FnOnce(&Figures)) {
        if let Some(figures) = &self.report.figures {
            each(figures);
        }
    }

    /// One value of each policy of backups that verifies its repository, or has.
    fn each_verified<V: Into<Option<u64>>>(&self, out: &mut Samples<'_>, of: impl Fn(&VerifiedFigures) -> V) {
        self.each_backup(out, |backup| {
            backup.verified.as_ref().and_then(|verified| of(verified).into())
        });
    }

    /// One value of each policy of backups that has it.
    fn each_backup<V: Into<Option<u64>>>(&self, out: &mut Samples<'_>, of: impl Fn(&BackupFigures) -> V) {
        self.figures(|found| {
            for backup in &found.backups {
                if let Some(value) = of(backup).into() {
                    out.value(&[&backup.name], value);
                }
            }
        });
    }

    /// One value of each kind of tasks of backups that has it.
    fn each_backup_task<V: Into<Option<u64>>>(&self, out: &mut Samples<'_>, of: impl Fn(&BackupTaskFigures) -> V) {
        self.figures(|found| {
            for tasks in &found.backup_tasks {
                if let Some(value) = of(tasks).into() {
                    out.value(&[tasks.kind], value);
                }
            }
        });
    }

    /// One value of each policy that has it.
    fn each_policy<V: Into<Option<u64>>>(&self, out: &mut Samples<'_>, of: impl Fn(&PolicyReport) -> V) {
        for policy in &self.report.policies {
            if let Some(value) = of(policy).into() {
                out.value(&[&policy.name], value);
            }
        }
    }
}

/// A second has so many nanoseconds.
const NS: f64 = 1e9;

use MetricKind::{Counter, Gauge, Histogram};

/// All of them, in the order in which they are told.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    NODE.iter()
        .chain(limits::METRICS)
        .chain(turns::METRICS)
        .chain(links::METRICS)
        .chain(export::METRICS)
        .chain(process::METRICS)
        .chain(cluster::METRICS)
}

/// What a node and its cores count.
const NODE: &[Metric] = &[
    Metric {
        name: "amita_node_info",
        help: "Always 1: which node of which cluster this is, and what it runs.",
        kind: Gauge,
        labels: &["cluster", "node", "name", "version"],
        read: |view, out| {
            let report = view.report;
            let (cluster, node) = (report.cluster.to_string(), report.node.to_string());
            out.value(&[&cluster, &node, &report.name, env!("CARGO_PKG_VERSION")], 1u64);
        },
    },
    Metric {
        name: "amita_cores_silent",
        help: "Cores that did not answer in time; what they count is missing here.",
        kind: Gauge,
        labels: &[],
        read: |view, out| out.value(&[], view.report.core_count - view.report.cores.len()),
    },
    // Volumes.
    Metric {
        name: "amita_volume_latency_seconds",
        help: "How long I/Os of hosts took, from the last byte that came in to the answer; all of them.",
        kind: Histogram,
        labels: &["volume", "op"],
        read: |view, out| {
            for volume in &view.volumes {
                for (kind, usage) in volume.usage.each() {
                    out.histogram(&[&volume.name, kind.name()], &usage.latency);
                }
            }
        },
    },
    Metric {
        name: "amita_volume_bytes_total",
        help: "Bytes that hosts have read, written or unmapped.",
        kind: Counter,
        labels: &["volume", "op"],
        read: |view, out| {
            for volume in &view.volumes {
                for (kind, usage) in volume.usage.each() {
                    out.value(&[&volume.name, kind.name()], usage.bytes);
                }
            }
        },
    },
    Metric {
        name: "amita_volume_errors_total",
        help: "I/Os of hosts that failed.",
        kind: Counter,
        labels: &["volume", "op"],
        read: |view, out| {
            for volume in &view.volumes {
                for (kind, usage) in volume.usage.each() {
                    out.value(&[&volume.name, kind.name()], usage.errors);
                }
            }
        },
    },
    Metric {
        name: "amita_volume_in_flight",
        help: "I/Os of hosts under way.",
        kind: Gauge,
        labels: &["volume"],
        read: |view, out| {
            for volume in &view.volumes {
                out.value(&[&volume.name], volume.in_flight);
            }
        },
    },
    Metric {
        name: "amita_volume_stores_syncing",
        help: "Stores that are being brought up to date for the volume.",
        kind: Gauge,
        labels: &["volume"],
        read: |view, out| {
            for volume in &view.volumes {
                out.value(&[&volume.name], volume.syncing);
            }
        },
    },
    Metric {
        name: "amita_volume_stuck_groups",
        help: "Placement groups of the volume whose writes wait, because too few copies are left.",
        kind: Gauge,
        labels: &["volume"],
        read: |view, out| {
            for volume in &view.volumes {
                out.value(&[&volume.name], volume.stuck_groups);
            }
        },
    },
    Metric {
        name: "amita_sequencer_events_total",
        help: "How often the volume's sequencers did something: see the list of events.",
        kind: Counter,
        labels: &["volume", "event"],
        read: |view, out| {
            for volume in &view.volumes {
                for (event, count) in volume.counters.each() {
                    out.value(&[&volume.name, event], count);
                }
            }
        },
    },
    // Traces.
    Metric {
        name: "amita_stage_seconds",
        help: "How long traced I/Os spent in each stage at their gateway.",
        kind: Histogram,
        labels: &["stage"],
        read: |view, out| {
            for (stage, times) in view.stages.each() {
                out.histogram(&[stage.name()], times);
            }
            out.histogram(&["way"], &view.stages.way);
        },
    },
    Metric {
        name: "amita_traces_total",
        help: "I/Os that were traced.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.traces.traced)),
    },
    Metric {
        name: "amita_traces_missed_total",
        help: "I/Os that were to be traced, while too many traced ones were under way.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.traces.missed)),
    },
    Metric {
        name: "amita_slow_ios_total",
        help: "I/Os that took longer than the limit and were kept.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.traces.slow)),
    },
    Metric {
        name: "amita_slow_limit_seconds",
        help: "I/Os that take longer are kept as slow.",
        kind: Gauge,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.slow_after.as_secs_f64())),
    },
    // Stores.
    Metric {
        name: "amita_store_serves",
        help: "1 while the store serves, 0 while it is being mounted and after it has failed.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.serves);
            }
        },
    },
    Metric {
        name: "amita_store_latency_seconds",
        help: "How long the store took from the receipt of a request to its answer; all of them.",
        kind: Histogram,
        labels: &["store", "op"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.histogram(&[id, "read"], &store.times.reads);
                out.histogram(&[id, "write"], &store.times.writes);
            }
        },
    },
    Metric {
        name: "amita_store_stage_seconds",
        help: "How long traced requests spent in each stage at the store.",
        kind: Histogram,
        labels: &["store", "stage"],
        read: |view, out| {
            for (id, store) in &view.stores {
                let times = &store.times;
                out.histogram(&[id, "issue"], &times.issue);
                out.histogram(&[id, "data"], &times.data);
                out.histogram(&[id, "log"], &times.log);
                out.histogram(&[id, "flush"], &times.flush);
                out.histogram(&[id, "answer"], &times.answer);
            }
        },
    },
    Metric {
        name: "amita_store_capacity_bytes",
        help: "Bytes that the store has for data.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.status.capacity_bytes);
            }
        },
    },
    Metric {
        name: "amita_store_free_bytes",
        help: "Of them, those that are free.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.status.free_bytes);
            }
        },
    },
    Metric {
        name: "amita_store_index_bytes",
        help: "Memory of the store's index.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.status.index_bytes);
            }
        },
    },
    Metric {
        name: "amita_store_index_leaf_bytes",
        help: "Of that, what is given back when something else of the index needs it.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.status.leaf_bytes);
            }
        },
    },
    Metric {
        name: "amita_store_index_limit_bytes",
        help: "The most memory that the store's index may take (--index-memory, by the node's stores).",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.status.index_limit_bytes);
            }
        },
    },
    Metric {
        name: "amita_store_chunks",
        help: "Chunks that the store holds.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.status.chunks);
            }
        },
    },
    Metric {
        name: "amita_store_log_pages",
        help: "Pages of the store's log.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.status.log_pages);
            }
        },
    },
    Metric {
        name: "amita_store_log_pages_used",
        help: "Of them, those that a mount would read now; a checkpoint frees them.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| {
            for (id, store) in &view.stores {
                out.value(&[id], store.status.log_pages_used);
            }
        },
    },
    Metric {
        name: "amita_store_events_total",
        help: "How often the store did something: see the list of events.",
        kind: Counter,
        labels: &["store", "event"],
        read: |view, out| {
            for (id, store) in &view.stores {
                for (event, count) in store.status.counters.events() {
                    out.value(&[id, event], count);
                }
            }
        },
    },
    Metric {
        name: "amita_store_bytes_total",
        help: "Bytes: of data written for hosts (data), of checkpoints (checkpoint), given back (discarded), to and from the device in all (written, read).",
        kind: Counter,
        labels: &["store", "what"],
        read: |view, out| {
            for (id, store) in &view.stores {
                for (what, bytes) in store.status.counters.bytes() {
                    out.value(&[id, what], bytes);
                }
            }
        },
    },
    // Cores.
    Metric {
        name: "amita_core_passes_total",
        help: "Passes of the core's loop.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.passes)),
    },
    Metric {
        name: "amita_core_system_calls_total",
        help: "System calls of the core: io_uring_enter (enter), reads and writes of files in memory (file), sched_yield (yield).",
        kind: Counter,
        labels: &["core", "call"],
        read: |view, out| {
            view.each_core(|name, core| {
                out.value(&[name, "enter"], core.driver.enters);
                out.value(&[name, "file"], core.driver.file_calls);
                out.value(&[name, "yield"], core.driver.yields);
            });
        },
    },
    Metric {
        name: "amita_core_blocks_total",
        help: "How often the core slept.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.driver.blocks)),
    },
    Metric {
        name: "amita_core_blocked_seconds_total",
        help: "For how long the core slept.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.driver.blocked_ns as f64 / NS)),
    },
    Metric {
        name: "amita_core_cpu_seconds_total",
        help: "Processor time of the core's thread.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.driver.cpu_ns as f64 / NS)),
    },
    Metric {
        name: "amita_core_sessions",
        help: "Connections of hosts.",
        kind: Gauge,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.sessions)),
    },
    Metric {
        name: "amita_core_accepts_total",
        help: "Connections that came in at the core's listeners: taken, or closed at once because too many came (refused).",
        kind: Counter,
        labels: &["core", "outcome"],
        read: |view, out| {
            view.each_core(|name, core| {
                out.value(&[name, "taken"], core.driver.accepts.taken);
                out.value(&[name, "refused"], core.driver.accepts.refused);
            });
        },
    },
    Metric {
        name: "amita_core_accept_pauses_total",
        help: "How often a listener of the core kept addresses from connecting for a quarter of a second, because too many came.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.driver.accepts.pauses)),
    },
    Metric {
        name: "amita_core_accept_left_out_total",
        kind: Counter,
        labels: &["core"],
        help: "Known addresses that had no room in the kernel's filter while others were kept from connecting, and waited with those: raise net.core.optmem_max.",
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.driver.accepts.left_out)),
    },
    Metric {
        name: "amita_background_bytes_total",
        help: "Bytes that recovery, balancing and scrubbing of this node's volumes have moved.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.background_bytes)),
    },
    // The network between nodes.
    Metric {
        name: "amita_fabric_links",
        help: "Connections to and from other nodes that are up.",
        kind: Gauge,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.links)),
    },
    Metric {
        name: "amita_fabric_messages_total",
        help: "Messages to and from other nodes.",
        kind: Counter,
        labels: &["core", "direction"],
        read: |view, out| {
            view.each_core(|name, core| {
                out.value(&[name, "sent"], core.fabric.messages_sent);
                out.value(&[name, "received"], core.fabric.messages_received);
            });
        },
    },
    Metric {
        name: "amita_fabric_bytes_total",
        help: "Bytes to and from other nodes.",
        kind: Counter,
        labels: &["core", "direction"],
        read: |view, out| {
            view.each_core(|name, core| {
                out.value(&[name, "sent"], core.fabric.bytes_sent);
                out.value(&[name, "received"], core.fabric.bytes_received);
            });
        },
    },
    Metric {
        name: "amita_fabric_sends_total",
        help: "Sends to other nodes: each carries what a pass had for one of them.",
        kind: Counter,
        labels: &["core"],
        read: |view, out| view.each_core(|name, core| out.value(&[name], core.fabric.sends)),
    },
    Metric {
        name: "amita_fabric_events_total",
        help: "How often the fabric did something: see the list of events.",
        kind: Counter,
        labels: &["core", "event"],
        read: |view, out| {
            view.each_core(|name, core| {
                let amita_fabric::Counters {
                    accepted,
                    strangers,
                    turned_away,
                    unproven,
                    forged,
                    refused,
                    violations,
                    pings,
                    pauses,
                    ..
                } = core.fabric;
                let events = [
                    ("accepted", accepted),
                    ("strangers", strangers),
                    ("turned_away", turned_away),
                    ("unproven", unproven),
                    ("forged", forged),
                    ("refused", refused),
                    ("violations", violations),
                    ("pings", pings),
                    ("pauses", pauses),
                ];
                for (event, count) in events {
                    out.value(&[name, event], count);
                }
            });
        },
    },
];
