//! `amita store`: looks at what is on a disk, whether anybody serves it or not. Nothing is ever written.

mod check;
mod dump;
mod inspect;
pub(super) mod open;
mod show;

use amita_terminal::error::Result;
use amita_types::{ChunkId, ChunkIndex, VolumeId};
use std::path::PathBuf;

/// What to look at.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show what a store is and what it holds
    ///
    /// It is mounted in memory, as a node would mount it, and never written; a node may serve it at the same time.
    Inspect(InspectArguments),
    /// Look whether everything in a store is as it must be
    ///
    /// Superblocks, log, checkpoint, every leaf of the index, and the users of every slot against the map of slots; with
    /// --data all data against its checksums. Nothing is written, and a node may serve the store at the same time: what
    /// looks wrong only because it was just being written is looked at again. Exit codes: 0 all is well; 1 problems were
    /// found; 2 it could not be read.
    Check(CheckArguments),
    /// Print the structures on a disk, one a line
    Dump(DumpArguments),
}

/// What all of them have.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// The block device or the file
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// The most memory for the index: bytes, or with K, M, G, T
    #[arg(long, value_name = "SIZE", value_parser = amita_terminal::size::parse, default_value = "8G")]
    pub memory: u64,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita store inspect`.
#[derive(Debug, clap::Args)]
pub struct InspectArguments {
    /// What all have.
    #[command(flatten)]
    pub common: Common,
    /// Show this chunk, with its parts and its states: the volume's number, a slash, the chunk's index
    #[arg(long, value_name = "VOLUME/INDEX", value_parser = parse_chunk)]
    pub chunk: Option<ChunkId>,
}

/// `amita store check`.
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    /// What all have.
    #[command(flatten)]
    pub common: Common,
    /// Also read all data and compare it with its checksums
    #[arg(long)]
    pub data: bool,
    /// List no more problems than this; the rest is counted
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub most: usize,
}

/// `amita store dump`.
#[derive(Debug, clap::Args)]
pub struct DumpArguments {
    /// What all have.
    #[command(flatten)]
    pub common: Common,
    /// What to print.
    #[command(flatten)]
    pub what: DumpWhat,
    /// Of --chunk: as it was for this snapshot
    #[arg(long, value_name = "NUMBER", requires = "chunk")]
    pub snapshot: Option<u32>,
}

/// What `amita store dump` prints.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct DumpWhat {
    /// Both superblocks
    #[arg(long)]
    pub superblocks: bool,
    /// The pages of the log that a mount would read, with their records
    #[arg(long)]
    pub log_pages: bool,
    /// The items of the checkpoint
    #[arg(long)]
    pub checkpoint: bool,
    /// The entries of a chunk's blocks: the volume's number, a slash, the chunk's index
    #[arg(long, value_name = "VOLUME/INDEX", value_parser = parse_chunk)]
    pub chunk: Option<ChunkId>,
    /// Whatever page begins at this byte, a multiple of 4096
    #[arg(long, value_name = "BYTE")]
    pub page: Option<u64>,
}

fn parse_chunk(text: &str) -> std::result::Result<ChunkId, String> {
    let parts = text.split_once('/');
    let numbers = parts.and_then(|(volume, index)| Some((volume.parse().ok()?, index.parse().ok()?)));
    let (volume, index) = numbers.ok_or_else(|| {
        format!("{text:?} is no chunk: write the volume's number, a slash and the chunk's index, as in 7/0")
    })?;
    Ok(ChunkId {
        volume: VolumeId(volume),
        index: ChunkIndex(index),
    })
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Dump(arguments) => dump::run(arguments),
    }
}
