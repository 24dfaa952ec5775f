//! `amita recovery`: how hard stores are brought up to date, and what becomes of slow ones and of sick networks.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin;
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::recovery::{Limits, Recovery, SickDisks, SickPolicy, SlowPolicy};

/// What to do with the settings of recovery.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the settings
    Show {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Change some; all nodes go by them at once
    Set(Set),
}

/// What is to be changed.
#[derive(Debug, clap::Args)]
pub struct Set {
    /// Give way to clients automatically, or keep to the limits alone
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// The clients' p99 latency that is still well, in percent of the one without recovery
    #[arg(long, value_name = "PERCENT")]
    pub p99: Option<u32>,
    /// The clients' throughput that is still well, in percent of the one without recovery. Work that is not urgent
    /// (rebalance, scrub; copies, moves and backups of volumes) stops half way to that: at 85 where this is 70
    #[arg(long, value_name = "PERCENT")]
    pub client_iops: Option<u32>,
    /// Bytes a second of each node that bringing lost copies back keeps whatever the clients feel; 0: what it keeps by itself
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub least_bandwidth: Option<u64>,
    /// The level that --bandwidth, --iops and --windows are for
    #[arg(long, value_enum)]
    pub level: Option<Level>,
    /// Bytes a second of each node; 0: no limit
    #[arg(long, value_name = "SIZE", requires = "level", value_parser = size::parse)]
    pub bandwidth: Option<u64>,
    /// Requests a second of each node; 0: no limit
    #[arg(long, value_name = "N", requires = "level")]
    pub iops: Option<u32>,
    /// Windows of up to 128 KiB under way at once on each node; 0: no limit
    #[arg(long, value_name = "N", requires = "level")]
    pub windows: Option<u16>,
    /// What becomes of a store that is much slower than its peers
    #[arg(long, value_enum)]
    pub slow_stores: Option<Policy>,
    /// It must have been slow for so long
    #[arg(long, value_name = "SECONDS")]
    pub slow_after: Option<u32>,
    /// One that was evicted is tried again after so long; then after twice as long, and so on
    #[arg(long, value_name = "SECONDS")]
    pub slow_rest: Option<u32>,
    /// The most evictions of slow stores in an hour, of the whole cluster
    #[arg(long, value_name = "N")]
    pub slow_per_hour: Option<u32>,
    /// What becomes of a node whose network loses much of what it sends or is sent
    #[arg(long, value_enum)]
    pub sick_networks: Option<Sick>,
    /// Its network must have been sick for so long; it is isolated after twice as long
    #[arg(long, value_name = "SECONDS")]
    pub sick_after: Option<u32>,
    /// One that was isolated is tried again after so long; then after twice as long, and so on
    #[arg(long, value_name = "SECONDS")]
    pub sick_rest: Option<u32>,
    /// The most nodes that are isolated in an hour, of the whole cluster
    #[arg(long, value_name = "N")]
    pub sick_per_hour: Option<u32>,
    /// What becomes of a store whose disk predicts its failure
    #[arg(long, value_enum)]
    pub sick_disks: Option<SickDisk>,
    /// Say what the settings are now as JSON
    #[arg(long)]
    pub json: bool,
}

/// How recovery is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// By the limits, and by how the clients fare
    Automatic,
    /// By the limits alone
    Limits,
}

/// Why recovery works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// A group has no copy to spare
    Critical,
    /// A group lacks a copy
    Degraded,
    /// Data is to lie elsewhere
    Rebalance,
    /// Copies are compared
    Scrub,
}

/// What becomes of slow stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Policy {
    /// They are read from last
    Off,
    /// And a person is told
    Propose,
    /// And they are evicted where there are copies enough, one at a time, and tried again later
    Evict,
}

/// What becomes of nodes whose network is sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sick {
    /// Nothing is decided
    Off,
    /// A person is told what is sick, and what would be done about it
    Propose,
    /// And their stores get no more groups, and connections go by the second network of two nodes where the first is bad
    Avoid,
    /// And their stores are evicted where there are copies enough, one node at a time, and tried again later
    Isolate,
}

/// What becomes of disks that predict their failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SickDisk {
    /// Nothing, and nobody is told
    Off,
    /// A person is told, with what would be done
    Propose,
    /// And their stores are drained, one at a time, where others have the space
    Drain,
}

impl Set {
    fn apply(&self, settings: &mut Recovery) {
        let set = |place: &mut u32, value: Option<u32>| *place = value.unwrap_or(*place);
        if let Some(mode) = self.mode {
            settings.automatic = mode == Mode::Automatic;
        }
        set(&mut settings.p99_percent, self.p99);
        set(&mut settings.iops_percent, self.client_iops);
        settings.least_bytes_per_s = self.least_bandwidth.unwrap_or(settings.least_bytes_per_s);
        if let Some(level) = self.level {
            let limits = match level {
                Level::Critical => &mut settings.critical,
                Level::Degraded => &mut settings.degraded,
                Level::Rebalance => &mut settings.rebalance,
                Level::Scrub => &mut settings.scrub,
            };
            limits.bytes_per_s = self.bandwidth.unwrap_or(limits.bytes_per_s);
            limits.windows = self.windows.unwrap_or(limits.windows);
            set(&mut limits.iops, self.iops);
        }
        let slow = &mut settings.slow_stores;
        if let Some(policy) = self.slow_stores {
            slow.policy = match policy {
                Policy::Off => SlowPolicy::Off,
                Policy::Propose => SlowPolicy::Propose,
                Policy::Evict => SlowPolicy::Evict,
            };
        }
        set(&mut slow.after_s, self.slow_after);
        set(&mut slow.rest_s, self.slow_rest);
        set(&mut slow.per_hour, self.slow_per_hour);
        let sick = &mut settings.sick_networks;
        if let Some(policy) = self.sick_networks {
            sick.policy = match policy {
                Sick::Off => SickPolicy::Off,
                Sick::Propose => SickPolicy::Propose,
                Sick::Avoid => SickPolicy::Avoid,
                Sick::Isolate => SickPolicy::Isolate,
            };
        }
        set(&mut sick.after_s, self.sick_after);
        set(&mut sick.rest_s, self.sick_rest);
        set(&mut sick.per_hour, self.sick_per_hour);
        if let Some(sick) = self.sick_disks {
            settings.sick_disks = match sick {
                SickDisk::Off => SickDisks::Off,
                SickDisk::Propose => SickDisks::Propose,
                SickDisk::Drain => SickDisks::Drain,
            };
        }
    }
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let (settings, json) = match command {
        Command::Show { json } => (admin::recovery(&admin.reader()).described()?, *json),
        Command::Set(set) => {
            let settings = admin.act(Action::RecoverySet, "", |meta| {
                admin::set_recovery(meta, |settings| set.apply(settings))
            });
            (settings.described()?, set.json)
        }
    };
    print(json, &settings, || text(&settings))
}

fn text(settings: &Recovery) -> String {
    let mut out = if settings.automatic {
        format!(
            "Recovery gives way to clients: it keeps their p99 latency within {} % of normal, and their throughput at {} % \
             of normal or above.\n",
            settings.p99_percent, settings.iops_percent
        )
    } else {
        "Recovery works as hard as its limits allow.\n".to_owned()
    };
    if settings.automatic && settings.least_bytes_per_s > 0 {
        out.push_str(&format!(
            "Lost copies are brought back at {} a second of each node at least, whatever the clients feel.\n",
            size::show(settings.least_bytes_per_s)
        ));
    }
    let mut table = Table::new(&["level", "bytes/s", "requests/s", "windows"]);
    let levels = [
        ("critical", settings.critical),
        ("degraded", settings.degraded),
        ("rebalance", settings.rebalance),
        ("scrub", settings.scrub),
    ];
    for (name, limits) in levels {
        let Limits {
            bytes_per_s,
            iops,
            windows,
        } = limits;
        let limit = |value: u64| if value == 0 { "-".to_owned() } else { value.to_string() };
        table.row([
            name.to_owned(),
            limit(bytes_per_s),
            limit(iops.into()),
            limit(windows.into()),
        ]);
    }
    out.push_str(&table.text());
    let slow = &settings.slow_stores;
    out.push_str(&match slow.policy {
        SlowPolicy::Off => "Slow stores are read from last.\n".to_owned(),
        SlowPolicy::Propose => format!(
            "Slow stores are read from last; they are reported after {} s.\n",
            slow.after_s
        ),
        SlowPolicy::Evict => format!(
            "Slow stores are read from last; they are evicted after {} s, at most {} an hour, and tried again after {} s.\n",
            slow.after_s, slow.per_hour, slow.rest_s
        ),
    });
    let sick = &settings.sick_networks;
    out.push_str(&match sick.policy {
        SickPolicy::Off => "Sick networks are measured, and nothing is decided.\n".to_owned(),
        SickPolicy::Propose => format!(
            "Sick networks are reported after {} s, with what would be done about them.\n",
            sick.after_s
        ),
        SickPolicy::Avoid => format!(
            "Nodes whose network is sick get no more groups after {} s; where there are two networks, the bad one is left for the other.\n",
            sick.after_s
        ),
        SickPolicy::Isolate => format!(
            "Nodes whose network is sick get no more groups after {} s; they are isolated after {} s, at most {} an hour, and tried \
             again after {} s. Where there are two networks, the bad one is left for the other.\n",
            sick.after_s,
            sick.after_s.saturating_mul(2),
            sick.per_hour,
            sick.rest_s
        ),
    });
    out.push_str(match settings.sick_disks {
        SickDisks::Off => "Disks that predict their failure are found by `amita inspect` alone.\n",
        SickDisks::Propose => "Disks that predict their failure are reported, with what would be done.\n",
        SickDisks::Drain => {
            "Disks that predict their failure are reported, and drained one at a time where others have the space.\n"
        }
    });
    out
}
