//! `amita demo`: the whole promise in one command, on this machine, with real processes and stock tools.
//!
//! Three nodes serve a volume with three copies. A real file system is copied in, fio writes blocks that carry their
//! own checksum, a node is killed in the middle, everything is read back and compared. With `--keep` the cluster is
//! only started, and left for play.

pub mod facts;
pub mod image;
pub mod keep;
mod story;

use amita_harness::cluster::Links;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use std::path::PathBuf;

/// The volume that the demo makes.
pub const VOLUME: &str = "demo";
/// The fewest bytes of a volume on which the demo's parts have room: an image, fio's region, the probe's block.
const LEAST_BYTES: u64 = 64 << 20;

/// What the demo is told.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Only start the cluster, and leave it running; DIR/cluster.json says where everything is
    #[arg(long, requires = "dir", conflicts_with = "stop")]
    pub keep: bool,
    /// End a cluster that was left running in DIR, and remove its files
    #[arg(long, requires = "dir")]
    pub stop: bool,
    /// The folder for logs, the metadata and cluster.json; made if it is not there [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// How many nodes, each with one store
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub nodes: u16,
    /// Size of the volume: a number of bytes, or with K, M, G
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = amita_terminal::size::parse_blocks)]
    pub size: u64,
    /// Where the stores' files go [default: memory, if it has room; else beside the logs]
    #[arg(long, value_name = "DIR")]
    pub store_dir: Option<PathBuf>,
}

impl Arguments {
    /// Bytes of each store: the volume, as much again because writes go to fresh places, and the log and checkpoints.
    fn store_bytes(&self) -> u64 {
        let blocks = (2 * self.size + (192 << 20)) / 4096;
        blocks * 4096
    }
}

/// Runs it.
///
/// # Errors
/// When something does not start, an I/O fails, or what comes back is not what was written.
pub fn run(arguments: &Arguments, insecure_network: bool) -> Result<()> {
    let links = if insecure_network { Links::Insecure } else { Links::Auth };
    match (&arguments.dir, arguments.stop, arguments.keep) {
        (Some(folder), true, _) => keep::stop(folder),
        (Some(_), false, true) => keep::start(arguments, links),
        _ if arguments.nodes < 3 => Err(Failure::new("the demo kills a node in the middle and needs at least 3")
            .kind(Kind::Usage)
            .advice("Give --nodes 3 or more; or --keep --dir DIR, which only starts the cluster.")),
        _ if arguments.size < LEAST_BYTES => Err(Failure::new(format!(
            "a volume of {} is too small for the demo",
            amita_terminal::size::show(arguments.size)
        ))
        .kind(Kind::Usage)
        .advice("Give --size 64M or more; or --keep --dir DIR, which only starts the cluster.")),
        // What fails because it was interrupted has not failed.
        _ => story::run(arguments, links).map_err(|failure| {
            if interrupt::caught() {
                Failure::interrupted()
            } else {
                failure
            }
        }),
    }
}
