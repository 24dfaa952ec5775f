//! What it costs when a node that was away is brought up to date: the data that moves, and what the clients feel.
//!
//! Two clusters. In the first a node misses one percent of the blocks: how much is moved? In the second it misses all
//! of them while a client works: that client's throughput and latency before, during and after.

use crate::report::Figures;
use crate::testbed::{NODES, Product, store_bytes, three_nodes};
use amita_harness::cluster::{Cluster, Metadata};
use amita_harness::fio::{self, Direction, Job, Report};
use amita_harness::observe::Observer;
use amita_harness::scratch::Scratch;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::time::Duration;

const VOLUME: &str = "rebuild";
/// The node that is away.
const VICTIM: usize = 2;
/// What a node that missed one percent of the blocks may be sent, in percent of the data.
const MOVED_PERCENT: f64 = 1.2;
/// What clients keep while all data of a node is rebuilt.
const IOPS_RATIO: f64 = 0.7;
const P99_RATIO: f64 = 2.0;
/// How long a step may take that has an end of its own.
const LIMIT: Duration = Duration::from_secs(300);
/// Longer than it takes until a node that was killed is evicted.
const EVICTED: Duration = Duration::from_secs(8);
/// How long a client is measured at a time.
const SLICE: Duration = Duration::from_secs(5);
/// The most slices of a rebuild that are measured.
const SLICES: usize = 24;
/// Between two looks at what is being brought up to date.
const LOOK: Duration = Duration::from_millis(100);

struct Testbed {
    cluster: Cluster,
    observer: Observer,
    size_bytes: u64,
    scratch: Scratch,
}

impl Testbed {
    /// Three nodes, and a volume that is full.
    fn start(size_bytes: u64, product: &Product) -> Result<Testbed> {
        let store_bytes = store_bytes(size_bytes);
        let scratch = Scratch::make("rebuild", None, None, store_bytes * NODES as u64)?;
        let config = three_nodes(&scratch, store_bytes, Metadata::Embedded, product);
        let cluster = Cluster::start(config)?;
        cluster.make_volume(VOLUME, size_bytes)?;
        let observer = Observer::of(&cluster)?;
        let testbed = Testbed {
            cluster,
            observer,
            size_bytes,
            scratch,
        };
        testbed.fill()?;
        Ok(testbed)
    }

    fn job(&self, name: &str, pattern: &'static str, block_bytes: u32, depth: u32, run: Option<Duration>) -> Job {
        Job {
            name: name.to_owned(),
            target: fio::nbd(&self.cluster.uri(0, VOLUME)),
            pattern,
            block_bytes,
            depth,
            offset_bytes: 0,
            size_bytes: self.size_bytes,
            run,
            more: Vec::new(),
            also: Vec::new(),
        }
    }

    /// Writes every block.
    fn fill(&self) -> Result<()> {
        let job = self.job("fill", "write", 128 << 10, 16, None);
        job.run(self.scratch.folder(), LIMIT).map(drop)
    }

    /// The client whose figures count: mostly reads, like most.
    fn client(&self, name: &str) -> Result<Report> {
        let mut job = self.job(name, "randrw", 4096, 8, Some(SLICE));
        job.more.push("--rwmixread=70".to_owned());
        job.run(self.scratch.folder(), SLICE + LIMIT)
    }

    fn away(&mut self) -> Result<()> {
        self.cluster.kill_node(VICTIM);
        interrupt::sleep(EVICTED)
    }

    fn back(&mut self) -> Result<()> {
        self.cluster.start_node(VICTIM)?;
        self.cluster.await_node(VICTIM)
    }

    /// Is something being brought up to date, or was until a moment ago? What was moved, and how fast, in bytes.
    fn moved(&self) -> Result<Option<(u64, u64)>> {
        let found = self.observer.recovery()?;
        let sum = |of: fn(&amita_control::admin::RecoveryStatus) -> u64| found.iter().map(of).sum::<u64>();
        Ok((!found.is_empty()).then(|| (sum(|one| one.bytes_moved), sum(|one| one.bytes_per_s))))
    }

    /// Waits until all copies are whole, then for the last word on what was moved.
    fn finish(&self) -> Result<(u64, u64)> {
        if !self.observer.await_whole(LIMIT)? {
            return Err(Failure::new(format!(
                "the node is not up to date after {} s",
                LIMIT.as_secs()
            )));
        }
        // It is written every two seconds, and once more at the end.
        interrupt::sleep(Duration::from_secs(4))?;
        let moved = interrupt::poll(Duration::from_secs(5), LOOK, || self.moved())?;
        moved.ok_or_else(|| Failure::new("nothing was said of what was moved".to_owned()))
    }
}

/// Measures both.
///
/// # Errors
/// When a cluster does not start, an I/O fails, or the node is never up to date. Never for a figure.
pub fn measure(steps: &mut Steps, size_bytes: u64, product: &Product, figures: &mut Figures) -> Result<()> {
    steps.step("a node that missed one percent returns", || {
        returns(Testbed::start(size_bytes, product)?, figures)
    })?;
    steps.step("a node is rebuilt while a client works", || {
        rebuild(Testbed::start(size_bytes, product)?, figures)
    })
}

fn returns(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    testbed.away()?;
    // Each block once, in random order, until a hundredth is written.
    let mut change = testbed.job("change", "randwrite", 4096, 8, None);
    change
        .more
        .push(format!("--io_size={}", testbed.size_bytes / 100 / 4096 * 4096));
    change.run(testbed.scratch.folder(), LIMIT)?;
    testbed.back()?;
    let (moved, _) = testbed.finish()?;
    figures.at_most(
        "resync.moved_percent",
        "data sent to a node that missed 1 % of the blocks",
        moved as f64 * 100.0 / testbed.size_bytes as f64,
        "%",
        MOVED_PERCENT,
    );
    Ok(())
}

fn rebuild(mut testbed: Testbed, figures: &mut Figures) -> Result<()> {
    let before = testbed.client("before")?;
    testbed.away()?;
    testbed.fill()?;
    testbed.back()?;
    interrupt::poll(LIMIT, LOOK, || {
        let begun = testbed
            .observer
            .groups()?
            .iter()
            .any(|(group, _)| !group.syncing.is_empty());
        Ok(begun.then_some(()))
    })?;
    let mut during = Vec::new();
    while during.len() < SLICES && (during.is_empty() || !testbed.observer.is_whole()?) {
        during.push(testbed.client("during")?);
    }
    let (moved, rate) = testbed.finish()?;
    let after = testbed.client("after")?;

    let count = during.len();
    let iops = |report: &Report| report.read.iops + report.write.iops;
    let p99_ms = |of: fn(&Report) -> Direction, report: &Report| of(report).latency.p99.as_secs_f64() * 1e3;
    let mean = |of: &dyn Fn(&Report) -> f64| during.iter().map(of).sum::<f64>() / count as f64;
    let iops_during = mean(&iops);
    let reads: fn(&Report) -> Direction = |one| one.read;
    let writes: fn(&Report) -> Direction = |one| one.write;
    let (reads_during, writes_during) = (mean(&|one| p99_ms(reads, one)), mean(&|one| p99_ms(writes, one)));
    let worst = (reads_during / p99_ms(reads, &before)).max(writes_during / p99_ms(writes, &before));
    figures.at_least(
        "rebuild.iops_ratio",
        "client's IOPS during a rebuild, of those before",
        iops_during / iops(&before),
        "",
        IOPS_RATIO,
    );
    figures.at_most(
        "rebuild.p99_ratio",
        "client's p99 during a rebuild, of that before (reads or writes)",
        worst,
        "",
        P99_RATIO,
    );
    figures.note(
        "rebuild.mib_s",
        "rebuild while a client works",
        rate as f64 / f64::from(1 << 20),
        "MiB/s",
    );
    figures.note(
        "rebuild.moved_mib",
        "data that was moved",
        moved as f64 / f64::from(1 << 20),
        "MiB",
    );
    for (name, label, report) in [("before", "before", &before), ("after", "after", &after)] {
        figures.note(
            &format!("rebuild.{name}_iops"),
            &format!("client's IOPS {label} the rebuild"),
            iops(report),
            "/s",
        );
        let (name_ms, label) = (
            format!("rebuild.{name}_p99_ms"),
            format!("client's p99 of writes {label} the rebuild"),
        );
        figures.note(&name_ms, &label, p99_ms(writes, report), "ms");
    }
    figures.note(
        "rebuild.during_iops",
        "client's IOPS during the rebuild",
        iops_during,
        "/s",
    );
    figures.note(
        "rebuild.during_p99_ms",
        "client's p99 of writes during the rebuild",
        writes_during,
        "ms",
    );
    Ok(())
}
