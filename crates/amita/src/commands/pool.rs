//! `amita pool`.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::error::Result;
use crate::size;
use crate::table::{Table, print};
use amita_cluster::map::PoolKind;
use amita_cluster::placement::Level;
use amita_control::admin::{self, DEFAULT_CHUNK_BYTES, PoolSpec};

/// What to do with pools.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a pool of the stores that the cluster knows
    Create(CreateArguments),
    /// List the pools, and how their groups are
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// `amita pool create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// Its name
    pub name: String,
    /// Copies of each block, each on a node of its own
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub copies: u8,
    /// Writes wait while fewer copies than these are in sync
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub min_copies: u8,
    /// Placement groups: a power of two
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub groups: u32,
    /// What may fail as one: copies are kept apart by it
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Domain::Node)]
    pub failure_domain: Domain,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// What may fail as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Domain {
    /// A disk: copies may lie on one node
    Disk,
    /// A host
    Node,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    match command {
        Command::Create(arguments) => create(arguments, metadata),
        Command::List { json } => list(*json, metadata),
    }
}

fn create(arguments: &CreateArguments, metadata: &Endpoints) -> Result<()> {
    let spec = PoolSpec {
        name: arguments.name.clone(),
        copies: arguments.copies,
        min_copies: arguments.min_copies,
        groups: arguments.groups,
        chunk_bytes: DEFAULT_CHUNK_BYTES,
        level: match arguments.failure_domain {
            Domain::Disk => Level::Disk,
            Domain::Node => Level::Node,
        },
        class: None,
    };
    let pool = admin::create_pool(Admin::connect(metadata)?.client(), &spec).described()?;
    print(arguments.json, &pool, || {
        format!(
            "Pool {} has {} groups of {} copies; writes need {}.\n",
            pool.name, pool.groups, spec.copies, spec.min_copies
        )
    })
}

fn list(as_json: bool, metadata: &Endpoints) -> Result<()> {
    let pools = Admin::connect(metadata)?.status()?.pools;
    print(as_json, &pools, || {
        let head = [
            "pool", "id", "copies", "min", "chunk", "groups", "whole", "degraded", "at min", "waiting",
        ];
        let mut table = Table::new(&head);
        for found in &pools {
            let (pool, counts) = (&found.pool, &found.group_counts);
            let (copies, least) = match pool.kind {
                PoolKind::Replicated { copies, min_copies } => (copies.to_string(), min_copies.to_string()),
                // Made by a newer version of this program.
                _ => ("?".to_owned(), "?".to_owned()),
            };
            table.row([
                pool.name.clone(),
                pool.id.to_string(),
                copies,
                least,
                size::show(u64::from(pool.chunk_bytes)),
                pool.groups.to_string(),
                counts.whole.to_string(),
                counts.degraded.to_string(),
                counts.at_min_copies.to_string(),
                counts.waiting.to_string(),
            ]);
        }
        table.text()
    })
}
