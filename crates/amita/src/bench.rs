//! `amita bench`: the figures that the design promises, measured here and now, in units that are measured in the same
//! run. It prints and judges; it never fails because something is slow.

pub mod path;
pub mod pause;
pub mod raw;
pub mod rebuild;
pub mod report;
pub mod units;

use crate::error::Result;
use crate::harness::cluster::{Cluster, Config, Metadata};
use crate::harness::scratch::Scratch;
use crate::harness::{interrupt, tool};
use crate::progress::Steps;
use report::Figures;
use std::path::PathBuf;
use std::time::Duration;

/// What the benchmark is told.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Where the stores' files go [default: memory, if it has room]
    #[arg(long, value_name = "DIR")]
    pub store_dir: Option<PathBuf>,
    /// Seconds for each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Bytes of the region that the workloads touch
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = crate::size::parse_blocks)]
    pub size: u64,
    /// Where the figures go as JSON
    #[arg(long, value_name = "FILE", default_value = "target/bench/latest.json")]
    pub output: PathBuf,
    /// Only this part
    #[arg(long, value_enum)]
    pub only: Option<Part>,
    /// Further arguments for the nodes' `amita serve`
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true, hide = true)]
    pub serve_argument: Vec<String>,
}

/// A part that can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// What it costs when a node that was away is brought up to date
    Rebuild,
}

/// Nodes with a copy each.
const NODES: usize = 3;
/// The volume.
const VOLUME: &str = "bench";

/// Runs it.
///
/// # Errors
/// When something does not start or an I/O fails. Never for a figure.
pub fn run(arguments: &Arguments) -> Result<()> {
    interrupt::catch();
    for name in ["fio", "setpriv"] {
        tool::find(name)?;
    }
    let mut steps = Steps::new();
    let run = Duration::from_secs(arguments.seconds);
    let mut figures = Figures::default();
    if arguments.only == Some(Part::Rebuild) {
        rebuild::measure(&mut steps, arguments.size, &arguments.serve_argument, &mut figures)?;
        println!("{}", figures.markdown());
        return figures.write(&arguments.output);
    }

    let units = steps.step("measuring P and R", units::measure)?;
    let (p_us, r_us) = (micros(units.p), micros(units.r));
    figures.note("unit.p_us", "P: CPU of a loopback round trip, one core", p_us, "us");
    figures.note(
        "unit.r_us",
        "R: latency of a loopback round trip, two cores",
        r_us,
        "us",
    );

    // A probe's block behind the region, and room to write around: a store must never be the reason to wait here.
    let volume_bytes = arguments.size + (4 << 20);
    let store_bytes = 2 * volume_bytes + (256 << 20);
    let scratch = Scratch::make(
        "bench",
        None,
        arguments.store_dir.as_deref(),
        store_bytes * NODES as u64 + arguments.size,
    )?;
    let backing = scratch.backing();
    steps.step("the raw backing", || {
        raw::measure(&scratch, arguments.size, run, &mut figures)
    })?;

    let mut cluster = steps.step("starting three nodes", || {
        let cluster = Cluster::start(Config {
            binary: crate::own_binary()?,
            folder: scratch.folder().to_owned(),
            store_folder: scratch.stores().to_owned(),
            nodes: NODES,
            store_bytes,
            metadata: Metadata::Embedded,
            bound: true,
            serve_arguments: arguments.serve_argument.clone(),
        })?;
        cluster.make_volume(VOLUME, volume_bytes)?;
        Ok(cluster)
    })?;
    path::measure(&mut steps, &cluster, &units, arguments.size, run, &mut figures)?;
    steps.step("idle for 10 s", || path::idle(&cluster, &mut figures))?;
    steps.step("killing the owner's gateway", || {
        pause::takeover(&mut cluster, arguments.size, &mut figures)
    })?;
    steps.step("killing a node", || {
        pause::kill(&mut cluster, arguments.size, &mut figures)
    })?;
    drop(cluster);
    drop(scratch);
    pause::table(&mut steps, &arguments.serve_argument, &mut figures)?;
    rebuild::measure(&mut steps, arguments.size, &arguments.serve_argument, &mut figures)?;

    println!("{}", figures.markdown());
    println!(
        "Stores: {backing}. Cores: {}. All processes together, fio's share included.",
        units.cores
    );
    figures.write(&arguments.output)?;
    println!("Written to {}.", arguments.output.display());
    Ok(())
}

/// Microseconds.
fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
