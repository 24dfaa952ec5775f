//! The whole path: fio, NBD, gateway, fabric, three stores.

use crate::bench::micros;
use crate::bench::report::Figures;
use crate::bench::units::Units;
use crate::error::{Failure, Result};
use crate::harness::cluster::Cluster;
use crate::harness::cpu::{self, Meter};
use crate::harness::fio::{self, Direction, Job};
use crate::harness::interrupt;
use crate::progress::Steps;
use std::time::{Duration, Instant};

const SLACK: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(10);
/// What the first whole slice must reach: CPU per I/O in P, latency in R, idle CPU in percent of one core.
const WRITE_CPU_P: f64 = 2.5;
const READ_CPU_P: f64 = 1.25;
const WRITE_LATENCY_R: f64 = 2.0;
const READ_LATENCY_R: f64 = 1.0;
const IDLE_PERCENT: f64 = 3.0;

/// What one workload took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Its figures by fio.
    pub fio: Direction,
    /// CPU of all processes, fio's own included, per I/O.
    pub cpu_per_io: Duration,
    /// fio's share of it.
    pub fio_cpu_per_io: Duration,
}

/// Runs one workload at gateway 0 and counts the CPU of everybody.
///
/// # Errors
/// When fio fails, or no I/O was done.
pub fn workload(cluster: &Cluster, job: &Job, limit: Duration) -> Result<Cost> {
    let meter = Meter::start(cluster.pids());
    let children_before = cpu::of_children()?;
    let report = job.run(cluster.folder(), limit)?;
    let fio_used = cpu::of_children()?.saturating_sub(children_before);
    let used = meter.used() + fio_used;
    let fio = if job.pattern.contains("read") {
        report.read
    } else {
        report.write
    };
    if fio.ios == 0 {
        return Err(Failure::new(format!("fio did no I/O in {}", job.name)));
    }
    let per_io = |time: Duration| Duration::from_secs_f64(time.as_secs_f64() / fio.ios as f64);
    Ok(Cost {
        fio,
        cpu_per_io: per_io(used),
        fio_cpu_per_io: per_io(fio_used),
    })
}

/// A random 4 KiB workload over the region, by gateway 0.
#[must_use]
pub fn job(uri: &str, pattern: &'static str, depth: u32, size_bytes: u64, run: Duration) -> Job {
    Job {
        name: format!("{pattern}-{depth}"),
        target: fio::nbd(uri),
        pattern,
        block_bytes: 4096,
        depth,
        offset_bytes: 0,
        size_bytes,
        run: Some(run),
        more: Vec::new(),
    }
}

/// Writes and reads at depths 32 and 1.
///
/// # Errors
/// When an I/O fails.
pub fn measure(
    steps: &mut Steps,
    cluster: &Cluster,
    units: &Units,
    size_bytes: u64,
    run: Duration,
    figures: &mut Figures,
) -> Result<()> {
    let uri = cluster.uri(0, super::VOLUME);
    steps.step("filling the volume", || {
        let mut fill = job(&uri, "write", 16, size_bytes, run);
        (fill.block_bytes, fill.run) = (128 << 10, None);
        fill.run(cluster.folder(), SLACK * 5).map(drop)
    })?;
    for (pattern, name, cpu_target, latency_target) in [
        ("randwrite", "write", WRITE_CPU_P, WRITE_LATENCY_R),
        ("randread", "read", READ_CPU_P, READ_LATENCY_R),
    ] {
        let what = format!("4 KiB {name}, 3 copies");
        let deep = steps.step(&format!("{what}, depth 32"), || {
            workload(cluster, &job(&uri, pattern, 32, size_bytes, run), run + SLACK)
        })?;
        let shallow = steps.step(&format!("{what}, depth 1"), || {
            workload(cluster, &job(&uri, pattern, 1, size_bytes, run), run + SLACK)
        })?;
        let key = |depth: u32, figure: &str| format!("path.{name}.4k.qd{depth}.{figure}");
        let (us, in_p) = (
            micros(deep.cpu_per_io),
            deep.cpu_per_io.as_secs_f64() / units.p.as_secs_f64(),
        );
        figures.at_most(
            &key(32, "cpu_p"),
            &format!("{what}, depth 32: CPU"),
            in_p,
            "P",
            cpu_target,
        );
        figures.note(&key(32, "cpu_us"), &format!("{what}, depth 32: CPU"), us, "us");
        let fio_us = micros(deep.fio_cpu_per_io);
        figures.note(
            &key(32, "fio_cpu_us"),
            &format!("{what}, depth 32: of that fio"),
            fio_us,
            "us",
        );
        figures.note(&key(32, "iops"), &format!("{what}, depth 32"), deep.fio.iops, "IOPS");
        figures.note(
            &key(32, "p99_us"),
            &format!("{what}, depth 32: p99"),
            micros(deep.fio.latency.p99),
            "us",
        );
        one_core(
            steps,
            cluster,
            units,
            &job(&uri, pattern, 32, size_bytes, run),
            &what,
            &key(32, "one_core"),
            cpu_target,
            figures,
        )?;
        let mean = shallow.fio.latency.mean;
        let in_r = mean.as_secs_f64() / units.r.as_secs_f64();
        figures.at_most(
            &key(1, "latency_r"),
            &format!("{what}, depth 1: latency"),
            in_r,
            "R",
            latency_target,
        );
        figures.note(
            &key(1, "latency_us"),
            &format!("{what}, depth 1: latency"),
            micros(mean),
            "us",
        );
        figures.note(
            &key(1, "p99_us"),
            &format!("{what}, depth 1: p99"),
            micros(shallow.fio.latency.p99),
            "us",
        );
        figures.note(
            &key(1, "cpu_us"),
            &format!("{what}, depth 1: CPU"),
            micros(shallow.cpu_per_io),
            "us",
        );
    }
    Ok(())
}

/// The same with fio on the core that the nodes share: P is a cost on one core as well, and a machine of two makes the
/// same work dearer when it runs on both (cold caches, wake-ups across cores).
#[allow(clippy::too_many_arguments)]
fn one_core(
    steps: &mut Steps,
    cluster: &Cluster,
    units: &Units,
    job: &Job,
    what: &str,
    key: &str,
    cpu_target: f64,
    figures: &mut Figures,
) -> Result<()> {
    let Some(cpu) = amita_reactor::core::allowed_cpus().first().copied() else {
        return Ok(());
    };
    let mut job = job.clone();
    job.name += "-one-core";
    job.more.push(format!("--cpus_allowed={cpu}"));
    let limit = job.run.unwrap_or_default() + SLACK;
    let what = format!("{what}, depth 32, all on one core");
    let cost = steps.step(&what, || workload(cluster, &job, limit))?;
    let in_p = cost.cpu_per_io.as_secs_f64() / units.p.as_secs_f64();
    figures.at_most(&format!("{key}.cpu_p"), &format!("{what}: CPU"), in_p, "P", cpu_target);
    let us = micros(cost.cpu_per_io);
    figures.note(&format!("{key}.cpu_us"), &format!("{what}: CPU"), us, "us");
    figures.note(&format!("{key}.iops"), &what, cost.fio.iops, "IOPS");
    Ok(())
}

/// The CPU of the whole cluster while nobody asks anything of it.
///
/// # Errors
/// When this process is told to end.
pub fn idle(cluster: &Cluster, figures: &mut Figures) -> Result<()> {
    // What the last workload left to do is not idleness.
    interrupt::sleep(Duration::from_secs(1))?;
    let (meter, start) = (Meter::start(cluster.pids()), Instant::now());
    interrupt::sleep(IDLE)?;
    let percent = 100.0 * meter.used().as_secs_f64() / start.elapsed().as_secs_f64();
    figures.at_most(
        "idle.cpu_percent",
        "idle cluster, of one core",
        percent,
        "%",
        IDLE_PERCENT,
    );
    Ok(())
}
