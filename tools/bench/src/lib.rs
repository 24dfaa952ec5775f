//! `amita-bench`: the cost of one I/O, measured here and now, in units that are measured in the same run. It prints and
//! judges; it never fails because something is slow.
//!
//! A run has parts ([`Part`]), which can be chosen. What is measured of I/O goes one way: a [`case`] says what, a
//! [`client`] does it on a [`testbed`], [`measure`] looks at every process meanwhile ([`usage`], [`counting`]), and a
//! [`row`] is what it came to. [`report`] judges, [`record`] keeps, [`compare`] and [`plot`] show.

pub mod backup;
pub mod care;
pub mod case;
pub mod client;
pub mod compare;
pub mod counting;
pub mod curve;
pub mod hostile;
pub mod idle;
mod iscsi;
pub mod links;
pub mod load;
pub mod machine;
pub mod measure;
pub mod moving;
pub mod neighbours;
pub mod nvme;
mod parts;
pub mod path;
pub mod pause;
pub mod peers;
pub mod plot;
pub mod raw;
pub mod rebuild;
pub mod record;
pub mod report;
pub mod row;
pub mod scaling;
pub mod site;
pub mod snapshots;
pub mod testbed;
pub mod turns;
pub mod units;
pub mod usage;

use amita_harness::cluster::Links;
use amita_harness::tool;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::{say, say_line};
use case::{Extent, Filter};
use record::Run;
use std::path::PathBuf;
use std::time::Duration;

/// Measure this machine against what Amita's design promises
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "amita-bench", version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// What to do with runs that were measured
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The binary that is measured [default: `amita` beside this program]
    #[arg(long, value_name = "FILE")]
    pub amita: Option<PathBuf>,
    /// Where the stores' files go [default: memory, if it has room]
    #[arg(long, value_name = "DIR")]
    pub store_dir: Option<PathBuf>,
    /// A device in place of a file, once for each of three nodes; what is on it is lost
    #[arg(long, value_name = "PATH", requires = "yes_destroy", conflicts_with = "store_dir")]
    pub device: Vec<PathBuf>,
    /// What is on the devices may be lost
    #[arg(long)]
    pub yes_destroy: bool,
    /// Seconds for each measurement; the matrix takes a third of it for each point
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Bytes of the region that the workloads touch
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = amita_terminal::size::parse_blocks)]
    pub size: u64,
    /// Where the figures go as JSON; the rows go beside it, to `full.json`
    #[arg(long, value_name = "FILE", default_value = "target/bench/latest.json")]
    pub output: PathBuf,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    pub only: Vec<Part>,
    /// How much of the matrix
    #[arg(long, value_enum, default_value_t = Extent::Short)]
    pub matrix: Extent,
    /// Which cases of the judged rows and of the matrix
    #[command(flatten)]
    pub filter: Filter,
    /// When others use more than this of one core during a run, it is repeated
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub quiet: f64,
    /// How often a disturbed run is repeated at most
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub repeats: u32,
    /// Count neither system calls nor allocations, which takes runs of its own
    #[arg(long)]
    pub no_counts: bool,
    /// Append the run to the results of machines of this kind, below docs/benchmarks/results
    #[arg(long)]
    pub record: bool,
    /// Another storage system that runs, to be measured side by side: a file that describes it
    #[arg(long, value_name = "FILE")]
    pub peer: Vec<PathBuf>,
    /// How links between nodes are protected: insecure, auth or secret
    #[arg(long, value_name = "MODE", default_value = "insecure")]
    pub links: Links,
    /// Further arguments for the nodes' `amita serve`
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true, hide = true)]
    pub serve_argument: Vec<String>,
}

/// What can be done with runs.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Two runs side by side, and what has changed by more than noise
    ///
    /// A run is a file that `amita-bench` has written (full.json, latest.json), or one of docs/benchmarks/results,
    /// whose last line is taken, or the one that is named: FILE#LINE.
    Compare {
        /// Before
        a: String,
        /// After
        b: String,
    },
    /// Draw latency against load, of a run that has measured it, as SVG
    Plot {
        /// The run
        run: String,
        /// The folder for the pictures
        #[arg(long, value_name = "DIR", default_value = "target/bench")]
        folder: PathBuf,
    },
    /// Drives volumes by the client library, as the benchmark says
    #[command(hide = true)]
    LoadGenerator(load::worker::Arguments),
    /// Opens thousands of connections, and misbehaves on them
    #[command(hide = true)]
    Stranger(hostile::Arguments),
    /// The other end of the benchmark's loopback round trip
    #[command(hide = true)]
    RoundTripEnd {
        /// The core to run on
        core: usize,
        /// Round trips that do not count
        warm_up: u32,
    },
}

/// A part that can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The judged rows: what one I/O costs on its whole path
    Path,
    /// Sizes, mixes, orders, depths, volumes
    Matrix,
    /// Latency against load
    Curve,
    /// An idle cluster, and the first I/O after a minute
    Idle,
    /// Two cores against one
    Scaling,
    /// How long a host waits when something fails
    Pauses,
    /// What it costs when a node that was away is brought up to date
    Rebuild,
    /// What NVMe/TCP adds to an I/O, and what a host with paths waits
    Nvme,
    /// What iSCSI adds to an I/O beside NVMe/TCP; copies and zeros that a target makes by itself
    Iscsi,
    /// What it costs that links between nodes are protected, mode by mode
    Links,
    /// What it costs that a volume is encrypted at rest, limited, and both over encrypted links
    Care,
    /// What is left to a host while its volume moves to another pool or is copied, and how long it waits at the switch
    Moving,
    /// What a neighbour at full load costs a limited volume, with limits of its own and without
    Neighbours,
    /// How fast backups and restores are, and what CPU they take; restic and borg beside them, where these are installed
    Backup,
    /// What is left of the rate while a stranger does his worst at every port
    Hostile,
    /// What snapshots cost: the head that has many, first writes, taking and deleting them
    Snapshots,
    /// The raw backing, and peers (--peer), side by side with this; only when it is asked for
    Peers,
}

/// Runs it.
///
/// # Errors
/// When something does not start or an I/O fails. Never for a figure.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Some(Command::Compare { a, b }) => {
            say!("{}", compare::markdown(&Run::read(a)?, &Run::read(b)?));
            return Ok(());
        }
        Some(Command::Plot { run, folder }) => return draw(&Run::read(run)?, folder),
        Some(Command::LoadGenerator(arguments)) => return load::worker::run(arguments),
        Some(Command::Stranger(arguments)) => return hostile::run(arguments),
        Some(Command::RoundTripEnd { core, warm_up }) => return units::answer(*core, *warm_up),
        None => {}
    }
    interrupt::catch();
    for name in ["fio", "setpriv"] {
        tool::find(name)?;
    }
    parts::run(arguments)
}

/// Draws the curves of a run.
fn draw(run: &Run, folder: &std::path::Path) -> Result<()> {
    let mut some = false;
    for mix in [case::Mix::Write, case::Mix::Read] {
        let points = curve::points(&run.rows, mix);
        if points.len() > 1 {
            let path = folder.join(format!("latency-{mix}.svg"));
            plot::write(&path, &curve::title(mix), &points)?;
            say_line!("{}", path.display());
            some = true;
        }
    }
    if some {
        return Ok(());
    }
    Err(Failure::new("the run has no latencies against load")
        .kind(Kind::NotFound)
        .advice("Measure them with `amita-bench --only curve`; they stand in full.json, not in latest.json."))
}

/// Microseconds.
fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The middle one; of an even count the upper of the two. Zero of none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle_one_counts_and_not_what_was_disturbed() {
        assert_eq!(median([3.0, 900.0, 2.0].into_iter()), 3.0);
        assert_eq!(median([1.0, 4.0].into_iter()), 4.0);
        assert_eq!(median([-1.0].into_iter()), -1.0);
        assert_eq!(median(std::iter::empty()), 0.0);
    }
}
