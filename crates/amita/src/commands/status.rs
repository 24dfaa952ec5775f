//! `amita status`: is the cluster well, and if not, what is wrong?

use crate::admin::Admin;
use crate::cli::Endpoints;
use amita_control::admin::{PoolStatus, RecoveryStatus, Status};
use amita_terminal::error::Result;
use amita_terminal::table::{Table, print};
use amita_types::map::StoreDuty;

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
        "cluster {}\nhealth  {}\nnodes   {alive} of {} alive\nstores  {serving} of {} serve\npools   {}\nvolumes {}\n",
        status.cluster,
        status.health,
        status.nodes.len(),
        status.stores.len(),
        status.pools.len(),
        status.volumes.len(),
    );
    if status.deleted_volumes > 0 {
        out.push_str(&format!(
            "deleted {} volumes can be had back (`amita volume list --deleted`)\n",
            status.deleted_volumes
        ));
    }
    if !status.policies.is_empty() {
        let paused = status.policies.iter().filter(|found| found.policy.paused).count();
        let paused = if paused > 0 {
            format!(", {paused} paused")
        } else {
            String::new()
        };
        out.push_str(&format!(
            "policies {} of snapshots{paused} (`amita snapshot-policy list`)\n",
            status.policies.len()
        ));
    }
    let nvme = &status.nvme;
    if nvme.gateways > 0 || nvme.subsystems > 0 {
        out.push_str(&format!(
            "nvme    {} of {} gateways alive, {} subsystems, {} namespaces, {} hosts\n",
            nvme.alive, nvme.gateways, nvme.subsystems, nvme.namespaces, nvme.hosts
        ));
    }
    for fact in &status.facts {
        out.push_str(&format!("  {}: {fact}\n", fact.severity));
    }
    for found in &status.recovery {
        out.push_str(&format!("  {}\n", recovering(found)));
    }
    if !status.pools.is_empty() {
        let head = [
            "pool", "groups", "in sync", "degraded", "at min", "waiting", "below", "syncing", "to move", "used",
            "fullest",
        ];
        let mut table = Table::new(&head);
        for found in &status.pools {
            let counts = &found.group_counts;
            let numbers = [
                found.pool.groups as usize,
                counts.whole,
                counts.degraded,
                counts.at_min_copies,
                counts.waiting,
                counts.below,
                counts.syncing,
                counts.moving,
            ];
            table.row(
                [found.pool.name.clone()]
                    .into_iter()
                    .chain(numbers.map(|number| number.to_string()))
                    .chain([used(found), found.fullest_percent.map_or_else(String::new, percent)]),
            );
        }
        out.push_str(&format!("\n{}", table.text()));
    }
    if !status.stores.is_empty() {
        let head = [
            "store", "node", "serves", "duty", "class", "weight", "groups", "in sync", "syncing", "used",
        ];
        let mut table = Table::new(&head);
        for found in &status.stores {
            table.row([
                found.store.id.to_string(),
                found.node_name.clone(),
                if found.alive { "yes" } else { "NO" }.to_owned(),
                match found.store.duty {
                    StoreDuty::Normal => "normal".to_owned(),
                    StoreDuty::Draining => format!("draining, {} to go", found.named),
                },
                found.store.class.clone(),
                found.store.weight.to_string(),
                found.groups.to_string(),
                found.in_sync.to_string(),
                found.syncing.to_string(),
                found
                    .space
                    .map_or_else(String::new, |space| percent(space.used_percent())),
            ]);
        }
        out.push_str(&format!("\n{}", table.text()));
    }
    out
}

fn percent(percent: u8) -> String {
    format!("{percent} %")
}

/// Of the pool's stores, all together.
fn used(pool: &PoolStatus) -> String {
    let used = u128::from(pool.used_bytes) * 100;
    let part = used.checked_div(u128::from(pool.raw_bytes));
    part.map_or_else(String::new, |part| percent(part.min(100) as u8))
}

/// All kinds of facts: for the documentation.
#[cfg(test)]
pub(crate) fn kinds() -> Table {
    let mut table = Table::new(&["fact", "severity", "meaning"]);
    for kind in amita_control::health::Kind::ALL {
        table.row([
            kind.name().to_owned(),
            kind.severity().to_string(),
            kind.meaning().to_owned(),
        ]);
    }
    table
}

fn recovering(found: &RecoveryStatus) -> String {
    let left = match found.left_s {
        Some(seconds) => format!("about {} s left", seconds),
        None => "time left not known yet".to_owned(),
    };
    format!(
        "Store {} is being brought up to date: {} of {} groups whole, {} of {} chunks compared, {} MiB moved at {:.1} MiB/s, \
         {left}.",
        found.store,
        found.groups_done,
        found.groups,
        found.chunks_done,
        found.chunks_to_do,
        found.bytes_moved >> 20,
        found.bytes_per_s as f64 / f64::from(1 << 20),
    )
}
