//! `amita node`.

use crate::admin::Admin;
use crate::cli::Endpoints;
use crate::error::Result;
use crate::table::{Table, print};

/// What to do with nodes.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the nodes: where they are, whether they live
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let Command::List { json } = command;
    let nodes = Admin::connect(metadata)?.status()?.nodes;
    print(*json, &nodes, || {
        let mut table = Table::new(&["node", "id", "alive", "cores", "fabric", "nbd"]);
        for found in &nodes {
            let node = &found.node;
            table.row([
                node.name.clone(),
                node.id.to_string(),
                if found.alive { "yes" } else { "NO" }.to_owned(),
                node.cores.to_string(),
                node.fabric.clone(),
                node.nbd.clone().unwrap_or_default(),
            ]);
        }
        table.text()
    })
}
