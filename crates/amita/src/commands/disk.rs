//! `amita disk`: makes stores of disks and files, and looks at what is on them.

mod format;
mod list;

use crate::cli::Endpoints;
use crate::error::Result;
use std::path::PathBuf;

/// What to do with disks.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a store of a disk, a partition or a file; what was on it is gone
    ///
    /// All of it is written, so this takes as long as the disk needs. A path that holds something is refused unless
    /// --force is given. The store belongs to no cluster until a node serves it.
    Format(FormatArguments),
    /// Look at the stores on disks; without paths, list the stores that the cluster knows
    List(ListArguments),
}

/// `amita disk format`.
#[derive(Debug, clap::Args)]
pub struct FormatArguments {
    /// The block device or the file
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Bytes of the file, or with K, M, G, T; a block device is taken whole without it
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse_blocks)]
    pub size: Option<u64>,
    /// Also when the path holds something already: it is overwritten
    #[arg(long)]
    pub force: bool,
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
        Command::List(arguments) => list::paths(&arguments.paths, arguments.json),
    }
}
