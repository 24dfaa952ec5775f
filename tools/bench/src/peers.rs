//! Side by side: the same cases, on the same machine, in the same run, by what else there is.
//!
//! A peer is any storage system that runs already and that fio has an engine for; a file says how to reach it and which
//! processes are its own ([`Peer`]). `scripts/bench-peers` starts Ceph and writes that file. The raw backing is a peer
//! that is always there.

use crate::case::{Case, Front, Mix, Placement};
use crate::client::{FIO_START, Running, client_cpus, fio_job};
use crate::measure::{Measure, SystemUnderTest};
use crate::row::{Row, show};
use crate::testbed::place;
use crate::usage::Watched;
use amita_harness::fio;
use amita_harness::scratch::Scratch;
use amita_terminal::error::{Context, Result};
use amita_terminal::progress::Steps;
use amita_terminal::table::Table;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long filling a peer's volume may take.
const FILL_PATIENCE: Duration = Duration::from_secs(600);

/// A storage system that runs: what `--peer FILE` holds, as JSON.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// How tables call it.
    pub name: String,
    /// fio's engine and target, as options.
    pub fio: Vec<String>,
    /// Its processes by their names.
    #[serde(default)]
    pub processes: BTreeMap<String, u32>,
    /// How long fio takes to connect, in seconds, at most.
    #[serde(default = "start_seconds")]
    pub start_seconds: f64,
}

fn start_seconds() -> f64 {
    FIO_START.as_secs_f64()
}

impl Peer {
    /// Reads a description.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Peer> {
        let text = std::fs::read_to_string(path).context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).context(|| format!("{} describes no peer", path.display()))
    }
}

/// The points that are measured side by side.
#[must_use]
pub fn cases(front: Front, peer: Option<&str>) -> Vec<Case> {
    let mut cases = Vec::new();
    for placement in [Placement::TwoCores, Placement::Free] {
        for (block_bytes, depth) in [(4096, 1), (4096, 32), (128 << 10, 16)] {
            for mix in [Mix::Write, Mix::Read] {
                cases.push(Case {
                    block_bytes,
                    placement,
                    peer: peer.map(str::to_owned),
                    ..Case::new(front, mix, depth)
                });
            }
        }
    }
    cases
}

/// Measures a peer.
///
/// # Errors
/// When fio cannot reach it, or an I/O fails.
pub fn measure(steps: &mut Steps, measure: &mut Measure, peer: Peer, size_bytes: u64, folder: &Path) -> Result<()> {
    let name = peer.name.clone();
    let mut system = System {
        front: Front::Peer,
        peer,
        folder: folder.to_owned(),
        size_bytes,
    };
    system.run(steps, measure, &name)
}

/// Measures the raw backing: one file where stores' files would be, or the first device.
///
/// # Errors
/// When fio fails.
pub fn raw(
    steps: &mut Steps,
    measure: &mut Measure,
    scratch: &Scratch,
    device: Option<&Path>,
    size_bytes: u64,
) -> Result<()> {
    let file = scratch.stores().join("raw");
    let is_memory = device.is_none() && scratch.is_memory();
    let mut system = System {
        front: Front::Raw,
        peer: Peer {
            name: "raw".to_owned(),
            fio: crate::raw::target(device.unwrap_or(&file), is_memory),
            processes: BTreeMap::new(),
            start_seconds: start_seconds(),
        },
        folder: scratch.folder().to_owned(),
        size_bytes,
    };
    system.run(steps, measure, "raw")
}

/// What fio is pointed at.
struct System {
    front: Front,
    peer: Peer,
    folder: PathBuf,
    size_bytes: u64,
}

impl System {
    fn run(&mut self, steps: &mut Steps, measure: &mut Measure, name: &str) -> Result<()> {
        steps.step(&format!("filling {name}"), || self.fill())?;
        let peer = (self.front == Front::Peer).then_some(name);
        for case in cases(self.front, peer) {
            measure.case(steps, self, &case, true)?;
        }
        Ok(())
    }

    fn fill(&self) -> Result<()> {
        let job = fio::Job {
            name: "fill".to_owned(),
            target: self.peer.fio.clone(),
            pattern: "write",
            block_bytes: 1 << 20,
            depth: 4,
            offset_bytes: 0,
            size_bytes: self.size_bytes,
            run: None,
            more: Vec::new(),
            also: Vec::new(),
        };
        job.run(&self.folder, FILL_PATIENCE).map(drop)
    }
}

impl SystemUnderTest for System {
    fn watched(&self) -> Vec<Watched> {
        let each = self.peer.processes.iter();
        each.map(|(name, &pid)| Watched {
            name: name.clone(),
            pid,
        })
        .collect()
    }

    fn ready(&mut self, case: &Case) -> Result<()> {
        place(&self.watched(), &amita_reactor::core::allowed_cpus(), case.placement)
    }

    fn start(&mut self, case: &Case, time: Duration) -> Result<Running<'_>> {
        let cpus = client_cpus(&amita_reactor::core::allowed_cpus(), case.placement);
        let job = fio_job(case, std::slice::from_ref(&self.peer.fio), self.size_bytes, time, &cpus);
        Running::fio(job, &self.folder, Duration::from_secs_f64(self.peer.start_seconds))
    }
}

/// One line for each point, with everybody who was measured at it, in the order of the rows.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let (mut names, mut points) = (Vec::new(), Vec::new());
    for row in rows {
        let (name, point) = (row.case.by(), row.case.point());
        if !names.contains(&name) {
            names.push(name);
        }
        if !points.contains(&point) {
            points.push(point);
        }
    }
    let head: Vec<String> = ["point".to_owned()]
        .into_iter()
        .chain(names.iter().map(|name| format!("{name}: IOPS; p50 us; CPU us")))
        .collect();
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for point in points {
        let cells = names.iter().map(|name| {
            let found = rows
                .iter()
                .rev()
                .find(|row| row.case.by() == *name && row.case.point() == point);
            found.map_or_else(|| "-".to_owned(), cell)
        });
        table.row([format!("`{point}`")].into_iter().chain(cells.collect::<Vec<_>>()));
    }
    table.markdown()
}

fn cell(row: &Row) -> String {
    let mark = if row.disturbed { " (disturbed)" } else { "" };
    let (p50, cpu) = (show(row.latency().p50), show(row.cpu_total_us));
    format!("{:.0}; {p50}; {cpu}{mark}", row.iops)
}

#[cfg(test)]
mod tests;
