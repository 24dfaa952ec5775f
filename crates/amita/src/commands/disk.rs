//! `amita disk`: makes stores of disks and files, and looks at what is on them.

mod contents;
mod duty;
mod format;
mod list;

use crate::cli::Endpoints;
use amita_terminal::error::Result;
use std::path::PathBuf;

/// What to do with disks.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a store of a disk, a partition or a file; what was on it is gone
    ///
    /// All of it is written, so this takes as long as the disk needs. A path that holds something is refused unless
    /// --force is given: a store, or any byte but zero in its first or last MiB, where file systems, partition tables and
    /// RAIDs have their marks. The store belongs to no cluster until a node serves it.
    Format(FormatArguments),
    /// Look at the stores on disks; without paths, list the stores that the cluster knows
    List(ListArguments),
    /// Have a store's data moved to others; it serves until the last group is elsewhere
    ///
    /// What cannot go anywhere without breaking a pool's rule stays, and the drain waits for it: `amita status` says so.
    Drain(DrainArguments),
    /// Have a new store take the place of an old one, which is drained
    ///
    /// The groups of the old store are given to the new one, as far as the pools' rules allow; the rest is drained to
    /// others. The old store may be dead already.
    Replace(ReplaceArguments),
    /// Set how many groups a store gets, relative to the others
    Weight(WeightArguments),
    /// Set the class of a store's device; pools may ask for one
    Class(ClassArguments),
    /// Take a store that nobody needs any more out of the cluster's records
    Forget(ForgetArguments),
    /// Let an older copy of a store serve in its place, when the store itself is lost
    ///
    /// A disk that was copied, or set back to an earlier state, is refused: what was written since is missing on it. Where
    /// nothing newer is left, this lets it in at its node's next start. It is refused while the store is served.
    Adopt(StoreArguments),
}

/// `amita disk drain`.
#[derive(Debug, clap::Args)]
pub struct DrainArguments {
    /// The store: its UUID, or the beginning of it
    pub store: String,
    /// End the drain: the store is used again
    #[arg(long)]
    pub undo: bool,
    /// Say what follows as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita disk replace`.
#[derive(Debug, clap::Args)]
pub struct ReplaceArguments {
    /// The store that goes: its UUID, or the beginning of it
    pub old: String,
    /// The store that takes its place
    pub new: String,
    /// Say what follows as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita disk weight`.
#[derive(Debug, clap::Args)]
pub struct WeightArguments {
    /// The store: its UUID, or the beginning of it
    pub store: String,
    /// The weight; that of a store is its size in MiB unless it is set. 0 gives it nothing
    #[arg(required_unless_present = "by_size")]
    pub weight: Option<u32>,
    /// By its size again
    #[arg(long, conflicts_with = "weight")]
    pub by_size: bool,
    /// Say what follows as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita disk class`.
#[derive(Debug, clap::Args)]
pub struct ClassArguments {
    /// The store: its UUID, or the beginning of it
    pub store: String,
    /// The class, as you call it: nvme, ssd, hdd, ...
    #[arg(required_unless_present = "none")]
    pub class: Option<String>,
    /// It has none
    #[arg(long, conflicts_with = "class")]
    pub none: bool,
    /// Say what follows as JSON
    #[arg(long)]
    pub json: bool,
}

/// A store.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// The store: its UUID, or the beginning of it
    pub store: String,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita disk forget`.
#[derive(Debug, clap::Args)]
pub struct ForgetArguments {
    #[command(flatten)]
    pub store: StoreArguments,
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
}

/// `amita disk format`.
#[derive(Debug, clap::Args)]
pub struct FormatArguments {
    /// The block device or the file
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Bytes of the file, or with K, M, G, T; a block device is taken whole without it
    #[arg(long, value_name = "SIZE", value_parser = amita_terminal::size::parse_blocks)]
    pub size: Option<u64>,
    /// Also when the path holds something already: it is overwritten
    #[arg(long)]
    pub force: bool,
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita disk list`.
#[derive(Debug, clap::Args)]
pub struct ListArguments {
    /// Disks and files to look at; the cluster is not asked
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    match command {
        Command::Format(arguments) => format::run(arguments),
        Command::List(arguments) if arguments.paths.is_empty() => list::cluster(arguments.json, metadata),
        Command::Drain(arguments) => duty::drain(arguments, metadata),
        Command::Replace(arguments) => duty::replace(arguments, metadata),
        Command::Weight(arguments) => duty::weigh(arguments, metadata),
        Command::Class(arguments) => duty::classify(arguments, metadata),
        Command::Forget(arguments) => duty::forget(arguments, metadata),
        Command::Adopt(arguments) => duty::adopt(arguments, metadata),
        Command::List(arguments) => list::paths(&arguments.paths, arguments.json),
    }
}
