//! `amita status`: is the cluster well, and if not, what is wrong?

use crate::admin::Admin;
use crate::cli::Endpoints;
use crate::error::Result;
use crate::table::print;
use amita_control::admin::Status;

/// `amita status`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Says how the cluster is.
///
/// # Errors
/// When the metadata cannot be reached.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    let status = Admin::connect(metadata)?.status()?;
    print(arguments.json, &status, || text(&status))
}

fn text(status: &Status) -> String {
    let alive = status.nodes.iter().filter(|node| node.alive).count();
    let serving = status.stores.iter().filter(|store| store.alive).count();
    let mut out = format!(
        "cluster {}\nhealth  {}\nnodes   {alive} of {} alive\nstores  {serving} of {} on live nodes\npools   {}\n\
         volumes {}\n",
        status.cluster,
        status.health,
        status.nodes.len(),
        status.stores.len(),
        status.pools.len(),
        status.volumes.len(),
    );
    for line in findings(status) {
        out.push_str(&format!("  {line}\n"));
    }
    out
}

/// What is not as it should be, a sentence each.
fn findings(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    for node in status.nodes.iter().filter(|node| !node.alive) {
        lines.push(format!(
            "Node {} does not hold its lease: it is down, or cut off.",
            node.node.name
        ));
    }
    for pool in &status.pools {
        let (name, counts) = (&pool.pool.name, &pool.group_counts);
        let missing = counts.degraded + counts.at_min_copies;
        if missing > 0 {
            lines.push(format!(
                "Pool {name}: {missing} of {} groups lack a copy; I/O goes on.",
                pool.pool.groups
            ));
        }
        if counts.at_min_copies > 0 {
            lines.push(format!(
                "Pool {name}: {} of {} groups have no copy to spare; one more failure, and their writes wait.",
                counts.at_min_copies, pool.pool.groups
            ));
        }
        if counts.waiting > 0 {
            lines.push(format!(
                "Pool {name}: {} of {} groups name an in-sync store whose node is gone; I/O waits until it is evicted \
                 or back.",
                counts.waiting, pool.pool.groups
            ));
        }
    }
    lines
}
