//! What the node remembers of its figures: taken from its cores every ten seconds, by a thread that has nothing to do with any I/O.

use super::sessions::sessions;
use amita_api::{Counters, NodeCounters, Observed, Trace, TraceQuestion, Traces};
use amita_history::{Buckets, Counts, History, LEAST_BYTES, Layout, Metric, Object, Opened, Place, Totals};
use amita_identity::Live;
use amita_node::observe::{
    CollectReport, CollectSessions, CoreReport, NodePage, NodeReport, StoreReport, TracesPage, VolumeReport, Wanted,
};
use amita_node::serve::ServeConfig;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often figures are taken, in milliseconds: at whole multiples of the wall clock, so that all nodes take theirs at one time.
const EVERY_MS: u64 = 10_000;

/// Where the history is kept; none: nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(Option<PathBuf>);

pub(super) fn parse_folder(text: &str) -> std::result::Result<Folder, String> {
    Ok(Folder((text != "off").then(|| PathBuf::from(text))))
}

/// Settings of the history.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder where the node keeps what it remembers of its figures for 30 days (`amita history`), or `off` [default: the identity's
    /// folder; without one nothing is kept]
    #[arg(long, env = "AMITA_HISTORY", value_name = "DIR|off", value_parser = parse_folder)]
    pub history: Option<Folder>,
    /// The most that the history's file may take: with more, more volumes are told apart
    #[arg(long, env = "AMITA_HISTORY_SIZE", value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    pub history_size: u64,
}

impl Arguments {
    /// How the file will be laid out.
    ///
    /// # Errors
    /// The size is too small.
    pub(super) fn layout(&self) -> Result<Layout> {
        Layout::within(self.history_size).ok_or_else(|| {
            Failure::new(format!("--history-size: {} are too few", size::show(self.history_size)))
                .kind(Kind::Usage)
                .advice(format!(
                    "Give {} or more, or `--history off`.",
                    size::show(LEAST_BYTES.next_multiple_of(1 << 20))
                ))
        })
    }

    fn folder<'a>(&'a self, identity: Option<&'a Path>) -> Option<&'a Path> {
        match &self.history {
            Some(Folder(folder)) => folder.as_deref(),
            None => identity,
        }
    }
}

/// The thread that takes figures. Dropped, it ends, and what is under way is written.
#[derive(Debug)]
pub(super) struct Keeping {
    history: Arc<History>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeping {
    /// Begins to take figures, where the settings want it. What keeps it from that is in the log: a node serves without a history.
    pub(super) fn start(arguments: &Arguments, config: &ServeConfig, collect: &CollectReport) -> Option<Keeping> {
        let folder = arguments.folder(config.identity.as_deref().and_then(Live::folder))?;
        let layout = arguments.layout().ok()?;
        let report = collect(Wanted::default());
        let place = Place {
            folder: folder.to_owned(),
            bytes: arguments.history_size,
            cluster: report.cluster,
            node: config.name.clone(),
        };
        let history = match History::open(&place, layout, now().as_secs()) {
            Ok((history, opened)) => {
                if let Opened::SetAside { aside, why } = opened {
                    log::warn!(
                        "the history of figures begins anew: {why}; what was there is {}",
                        aside.display()
                    );
                }
                Arc::new(history)
            }
            Err(why) => {
                log::warn!(
                    "no history of figures is kept: {why}. Choose another folder with --history, or `--history off`"
                );
                return None;
            }
        };
        let (stop, stopped) = channel();
        let (own, collect) = (Arc::clone(&history), Arc::clone(collect));
        history.take(counts(&report), now().as_secs());
        let work = move || {
            loop {
                match stopped.recv_timeout(until_next(now())) {
                    Err(RecvTimeoutError::Timeout) => take(&own, &collect),
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return own.end(),
                }
            }
        };
        let thread = std::thread::Builder::new().name("amita-history".to_owned()).spawn(work);
        match thread {
            Ok(thread) => Some(Keeping {
                history,
                stop: Some(stop),
                thread: Some(thread),
            }),
            Err(why) => {
                log::warn!("no history of figures is kept: {why}");
                None
            }
        }
    }

    /// For who asks.
    pub(super) fn history(&self) -> Arc<History> {
        Arc::clone(&self.history)
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn until_next(now: Duration) -> Duration {
    let over = now.as_millis() as u64 % EVERY_MS;
    Duration::from_millis(EVERY_MS - over)
}

fn take(history: &History, collect: &CollectReport) {
    let report = collect(Wanted::default());
    // What a core does not say is not nothing: the next time has it.
    if report.cores.len() == report.core_count {
        history.take(counts(&report), now().as_secs());
    }
}

fn buckets(histogram: &amita_reactor::histogram::Histogram) -> Buckets {
    Buckets::of(
        histogram.counts(),
        u64::try_from(histogram.sum().as_nanos()).unwrap_or(u64::MAX),
    )
}

/// What the history keeps of a report.
fn counts(report: &NodeReport) -> Counts {
    let mut objects = vec![(Object::Node, of_node(report))];
    objects.extend(
        report
            .stores()
            .into_iter()
            .map(|store| (Object::Store(store.id), of_store(store))),
    );
    objects.extend(
        report
            .cores
            .iter()
            .map(|core| (Object::Core(core.core as u32), of_core(core))),
    );
    let volumes = report.volumes();
    objects.extend(
        volumes
            .iter()
            .map(|volume| (Object::Volume(volume.name.clone()), of_volume(volume))),
    );
    Counts {
        now_ns: report.cores.iter().map(|core| core.now.0).max().unwrap_or(0),
        objects,
    }
}

fn of_node(report: &NodeReport) -> Totals {
    let sum = |of: &dyn Fn(&CoreReport) -> u64| -> u64 { report.cores.iter().map(of).sum() };
    let stores = report.stores();
    let serving = || stores.iter().filter(|store| store.serves);
    let capacity: u64 = serving().map(|store| store.status.capacity_bytes).sum();
    let free: u64 = serving().map(|store| store.status.free_bytes).sum();
    let mut gauges = Vec::new();
    if capacity > 0 {
        gauges = vec![
            (Metric::Capacity, capacity),
            (Metric::Used, capacity.saturating_sub(free)),
        ];
    }
    Totals {
        rates: vec![
            (Metric::Cpu, sum(&|core| core.driver.cpu_ns)),
            (Metric::Recovery, sum(&|core| core.background_bytes)),
            (Metric::NetworkSent, sum(&|core| core.fabric.bytes_sent)),
            (Metric::NetworkReceived, sum(&|core| core.fabric.bytes_received)),
            (Metric::Requests, sum(&requests)),
        ],
        gauges,
        latencies: Vec::new(),
    }
}

fn requests(core: &CoreReport) -> u64 {
    let of = |store: &StoreReport| store.times.reads.count() + store.times.writes.count();
    core.stores.iter().map(of).sum()
}

fn of_store(store: &StoreReport) -> Totals {
    let (reads, writes) = (store.times.reads.count(), store.times.writes.count());
    let counters = &store.status.counters;
    let mut gauges = Vec::new();
    if store.serves {
        let used = store.status.capacity_bytes.saturating_sub(store.status.free_bytes);
        gauges = vec![(Metric::Capacity, store.status.capacity_bytes), (Metric::Used, used)];
    }
    Totals {
        rates: vec![
            (Metric::Iops, reads + writes),
            (Metric::ReadIops, reads),
            (Metric::WriteIops, writes),
            (
                Metric::Bytes,
                counters.device_bytes_read + counters.device_bytes_written,
            ),
            (Metric::ReadBytes, counters.device_bytes_read),
            (Metric::WriteBytes, counters.device_bytes_written),
        ],
        gauges,
        latencies: vec![
            (Metric::ReadLatency, buckets(&store.times.reads)),
            (Metric::WriteLatency, buckets(&store.times.writes)),
        ],
    }
}

fn of_core(core: &CoreReport) -> Totals {
    let ios = core.volumes.iter().flat_map(|volume| volume.usage.each());
    let ios = ios.filter(|(kind, _)| ["read", "write"].contains(&kind.name()));
    Totals {
        rates: vec![
            (Metric::Cpu, core.driver.cpu_ns),
            (Metric::Iops, ios.map(|(_, usage)| usage.latency.count()).sum()),
            (Metric::Requests, requests(core)),
        ],
        ..Totals::default()
    }
}

/// Reads and writes; what is asked and cleared is not among them.
fn of_volume(volume: &VolumeReport) -> Totals {
    let mut totals = Totals::default();
    let (mut ios, mut bytes, mut errors) = (0, 0, 0);
    for (kind, usage) in volume.usage.each() {
        let (count, moved, latency) = match kind.name() {
            "read" => (Metric::ReadIops, Metric::ReadBytes, Metric::ReadLatency),
            "write" => (Metric::WriteIops, Metric::WriteBytes, Metric::WriteLatency),
            _ => continue,
        };
        ios += usage.latency.count();
        bytes += usage.bytes;
        errors += usage.errors;
        totals
            .rates
            .extend([(count, usage.latency.count()), (moved, usage.bytes)]);
        totals.latencies.push((latency, buckets(&usage.latency)));
    }
    totals
        .rates
        .extend([(Metric::Iops, ios), (Metric::Bytes, bytes), (Metric::Errors, errors)]);
    totals
}

/// What the API tells of this node.
pub(super) fn observed(
    config: &ServeConfig,
    keeping: Option<&Keeping>,
    collect: &CollectReport,
    initiators: CollectSessions,
) -> Observed {
    let cluster = collect(Wanted::default()).cluster.to_string();
    let (asks, counts) = (Arc::clone(collect), Arc::clone(collect));
    let traces: Traces = Arc::new(move |question| traces(&asks, question));
    let counters: Counters = Arc::new(move || counters(&counts));
    Observed {
        node: config.name.clone(),
        cluster,
        identity: config.identity.clone(),
        history: keeping.map(Keeping::history),
        traces: Some(traces),
        counters: Some(counters),
        sessions: Some(sessions(initiators)),
    }
}

/// The page that this node's metrics have, in the form of the API: the two are one.
fn counters(collect: &CollectReport) -> Option<NodeCounters> {
    let page = NodePage::new(&collect(Wanted::default()));
    let read = serde_json::to_value(page).and_then(serde_json::from_value);
    read.inspect_err(|why| log::error!("what this node counts is of another form than the API's: {why}"))
        .ok()
}

fn traces(collect: &CollectReport, question: &TraceQuestion) -> Vec<Trace> {
    let report = collect(Wanted {
        traces: true,
        ..Wanted::default()
    });
    let page = TracesPage::new(&report, question.slow, question.volume.as_deref(), question.limit);
    // The two are one form: a field that only one has is seen by the test below.
    let read = |trace| serde_json::to_value(trace).and_then(serde_json::from_value);
    page.traces.iter().filter_map(|trace| read(trace).ok()).collect()
}

#[cfg(test)]
mod tests;
