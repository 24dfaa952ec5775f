//! A workload by fio, and what it cost: the CPU of everybody who took part.

use crate::cluster::Cluster;
use crate::cpu::{self, Meter};
use crate::fio::{self, Direction, Job};
use amita_terminal::error::{Failure, Result};
use std::time::Duration;

/// What one workload took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Its figures by fio.
    pub fio: Direction,
    /// CPU of all processes, fio's own included, per I/O.
    pub cpu_per_io: Duration,
}

/// Runs one workload at gateway 0 and counts the CPU of everybody, from fio's start to its end.
///
/// # Errors
/// When fio fails, or no I/O was done.
pub fn workload(cluster: &Cluster, job: &Job, limit: Duration) -> Result<Cost> {
    let meter = Meter::start(cluster.pids());
    let children_before = cpu::of_children()?;
    let report = job.run(cluster.folder(), limit)?;
    let used = meter.used() + cpu::of_children()?.saturating_sub(children_before);
    let fio = if job.pattern.contains("read") {
        report.read
    } else {
        report.write
    };
    if fio.ios == 0 {
        return Err(Failure::new(format!("fio did no I/O in {}", job.name)));
    }
    Ok(Cost {
        fio,
        cpu_per_io: Duration::from_secs_f64(used.as_secs_f64() / fio.ios as f64),
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
        also: Vec::new(),
    }
}
