//! `amita status`: is the cluster well, and if not, what is wrong?

mod by_api;
mod check;
mod forecast;
mod watch;

use crate::admin::Admin;
use crate::by_api::who::Nodes;
use crate::cli::Endpoints;
use amita_control::admin::{PoolStatus, RecoveryStatus, Status};
use amita_control::health::{Fact, Space, sentence};
use amita_history::forecast::Forecast;
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::StoreDuty;
use serde::Serialize;

/// `amita status`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one line for a monitoring system, and say it by the exit code: 0 all is well, 1 a warning, 2 I/O waits or fails, 3 not known
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    pub check: bool,
    /// Show it again each second, until the command is ended; on a pipe, whenever it has changed
    #[arg(long, short)]
    pub watch: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// A status, as JSON says it.
#[derive(Serialize)]
struct Shown<'a> {
    /// Whether to worry, in a sentence.
    summary: String,
    #[serde(flatten)]
    status: &'a Status,
}

impl Shown<'_> {
    fn of(status: &Status) -> Shown<'_> {
        Shown {
            summary: sentence(status),
            status,
        }
    }
}

/// Says how the cluster is.
///
/// # Errors
/// When the metadata cannot be reached; with `--check`, when not all is well.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    let look = || Admin::connect(metadata)?.status();
    if arguments.check {
        return check::run(&look());
    }
    if arguments.watch {
        return watch::run(arguments.json, metadata);
    }
    let status = look()?;
    print(arguments.json, &Shown::of(&status), || {
        text(&status, forecast::Known::default().now(&status, metadata))
    })
}

/// Says it again and again, as nodes tell it.
///
/// # Errors
/// Nobody may be asked so; or nobody reads it. That no node answers for a while is shown, and is no reason to end.
pub fn watch_by_api(arguments: &Arguments, nodes: Nodes) -> Result<()> {
    by_api::run(arguments.json, nodes)
}

fn text(status: &Status, forecast: Option<&Forecast>) -> String {
    format!("{}\n\n{}", sentence(status), details(status, forecast))
}

/// How much of the stores is used, and when all is, where that is soon; nothing where none tells.
fn space(status: &Status, forecast: Option<&Forecast>) -> String {
    let space = Space::of(&status.stores);
    let Some(percent) = space.used_percent() else {
        return String::new();
    };
    format!(
        "space   {} of {} used ({percent} %)\n{}",
        size::show(space.used_bytes),
        size::show(space.capacity_bytes),
        forecast.and_then(forecast::line).unwrap_or_default()
    )
}

/// What is to be said of the space of pools, a line each.
pub(super) fn of_space(facts: &[Fact]) -> Vec<String> {
    use amita_control::health::Kind;
    let kinds = [Kind::PoolFull, Kind::PoolNearFull, Kind::PoolFills].map(Kind::name);
    let own = facts.iter().filter(|fact| kinds.contains(&fact.name));
    own.map(|fact| format!("  {}: {fact}\n", fact.severity)).collect()
}

fn details(status: &Status, forecast: Option<&Forecast>) -> String {
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
    out.push_str(&space(status, forecast));
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
    if !status.backups.is_empty() {
        let count = status.backups.len();
        let running = status.backups.iter().filter(|found| found.runner.is_some()).count();
        let running = match running {
            0 => String::new(),
            running => format!(", {running} running"),
        };
        out.push_str(&format!(
            "backups  {count} policies{running} (`amita backup policy list`)\n"
        ));
    }
    if !status.mirrors.is_empty() {
        let primary = status.mirrors.iter().filter(|found| found.role == "primary").count();
        out.push_str(&format!(
            "mirrors {}, of which {primary} primary here (`amita mirror list`)\n",
            status.mirrors.len()
        ));
    }
    let nvme = &status.nvme;
    if nvme.gateways > 0 || nvme.subsystems > 0 {
        out.push_str(&format!(
            "nvme    {} of {} gateways alive, {} subsystems, {} namespaces, {} hosts\n",
            nvme.alive, nvme.gateways, nvme.subsystems, nvme.namespaces, nvme.hosts
        ));
    }
    let iscsi = &status.iscsi;
    if iscsi.gateways > 0 || iscsi.targets > 0 {
        out.push_str(&format!(
            "iscsi   {} of {} gateways alive, {} targets, {} LUNs, {} initiators\n",
            iscsi.alive, iscsi.gateways, iscsi.targets, iscsi.luns, iscsi.initiators
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

pub(super) fn percent(percent: u8) -> String {
    format!("{percent} %")
}

/// Of the pool's stores, all together.
pub(super) fn used(pool: &PoolStatus) -> String {
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
        // What is left is to be said by the group itself, and takes a moment.
        None | Some(0) if found.chunks_to_do > 0 && found.chunks_done >= found.chunks_to_do => "nearly done".to_owned(),
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use amita_control::admin::{IscsiCounts, NvmeCounts, StoreStatus, store_record};
    use amita_types::ClusterId;
    use amita_types::condition::StoreSpace;

    /// Of an empty cluster.
    pub(in crate::commands::status) fn status(health: &'static str) -> Status {
        Status {
            cluster: ClusterId(1),
            health,
            facts: Vec::new(),
            nodes: Vec::new(),
            stores: Vec::new(),
            pools: Vec::new(),
            volumes: Vec::new(),
            deleted_volumes: 0,
            policies: Vec::new(),
            backups: Vec::new(),
            backup_tasks: Vec::new(),
            mirrors: Vec::new(),
            nvme: NvmeCounts::default(),
            iscsi: IscsiCounts::default(),
            warnings: Vec::new(),
            recovery: Vec::new(),
            slow_stores: Vec::new(),
        }
    }

    #[test]
    fn the_first_line_says_whether_to_worry_and_json_has_it_too() {
        let status = status("ok");
        assert!(text(&status, None).starts_with("All is well: 0 nodes, 0 stores, 0 volumes.\n\ncluster "));
        let json = serde_json::to_value(Shown::of(&status)).expect("JSON");
        assert_eq!(json["summary"], "All is well: 0 nodes, 0 stores, 0 volumes.");
        assert_eq!((json["health"].as_str(), json["nodes"].is_array()), (Some("ok"), true));
    }

    #[test]
    fn below_the_space_stands_when_there_will_be_none() {
        let id = amita_types::StoreId(1);
        let mut status = status("ok");
        status.stores.push(StoreStatus {
            store: store_record(id, amita_types::NodeId(1), "/dev/x", 100 << 30),
            node_name: "n1".to_owned(),
            alive: true,
            groups: 0,
            in_sync: 0,
            syncing: 0,
            named: 0,
            space: Some(StoreSpace {
                store: id,
                capacity_bytes: 100 << 30,
                free_bytes: 40 << 30,
            }),
        });
        let forecast = forecast::tests::forecast(Some(40.0), Some(36.0), None);
        let lines = |forecast| -> Vec<String> { text(&status, forecast).lines().map(str::to_owned).collect() };
        let (known, unknown) = (lines(Some(&forecast)), lines(None));
        let at = unknown
            .iter()
            .position(|line| line.starts_with("space "))
            .expect("the space");
        assert!(unknown[at].ends_with("(60 %)"), "{unknown:?}");
        assert!(known[at + 1].starts_with("        full in about 40 days"), "{known:?}");
        let without: Vec<String> = [&known[..=at], &known[at + 2..]].concat();
        assert_eq!(without, unknown, "and nothing else is another");
    }

    #[test]
    fn a_recovery_with_nothing_left_is_nearly_done() {
        let mut found = RecoveryStatus {
            store: amita_types::StoreId(1),
            groups: 4,
            groups_done: 3,
            chunks_to_do: 40,
            chunks_done: 40,
            bytes_moved: 2 << 20,
            bytes_per_s: 0,
            left_s: None,
        };
        assert!(recovering(&found).ends_with("nearly done."), "{}", recovering(&found));
        found.chunks_done = 10;
        assert!(
            recovering(&found).ends_with("time left not known yet."),
            "{}",
            recovering(&found)
        );
        found.left_s = Some(7);
        assert!(
            recovering(&found).ends_with("about 7 s left."),
            "{}",
            recovering(&found)
        );
    }
}
