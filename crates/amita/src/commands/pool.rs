//! `amita pool`.

mod space;

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::commands::events::parse_age;
use crate::commands::outlook;
use crate::commands::status::{of_space, percent, used};
use crate::commands::volume::limit;
use amita_control::access::Action;
use amita_control::admin::{self, DEFAULT_CHUNK_BYTES, PoolChange, PoolSpec};
use amita_terminal::confirm;
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::PoolKind;
use amita_types::placement::Level;
use std::time::Duration;

/// Writes need so many copies, where there are as many and nothing else is said.
const DEFAULT_MIN_COPIES: u8 = 2;

/// What to do with pools.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a pool of the stores that the cluster knows
    Create(CreateArguments),
    /// Change a pool's rule; its groups are placed anew, and move as far as they must
    ///
    /// It is refused when the rule could not be met with the stores that there are.
    Set(SetArguments),
    /// Show, or set, from where on stores count as near full, and as full
    ///
    /// It is for all pools. `amita status` says of a pool that it is near full, or full, when one of its stores is; an event
    /// is written when a store gets over a threshold, and when it is more than 2 % below it again; the same of the stores of a pool
    /// together.
    Thresholds(ThresholdsArguments),
    /// Show, or set, for how long deleted volumes of a pool can be had back
    ///
    /// Those that are deleted already stay for as long as they were told.
    Recycle(RecycleArguments),
    /// Show, or set, how much of a pool may be asked for
    ///
    /// Making, growing, importing and undeleting volumes, and taking snapshots, is refused where it would be more. Nothing is taken
    /// away that is there, and no write is refused.
    Quota(QuotaArguments),
    /// Limits: how much the hosts of all its volumes together may do
    #[command(subcommand, visible_alias = "limits")]
    Limit(limit::JointCommand),
    /// Delete a pool that nothing lies in
    ///
    /// It is refused while it has volumes, or deleted ones that can be had back, and while a snapshot policy is for it. Its stores stay, and
    /// serve other pools.
    Delete(DeleteArguments),
    /// Show a pool: what its volumes ask for and hold, and what its stores have
    Show(ShowArguments),
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
    /// Writes wait while fewer copies than these are in sync; that stays as it is said here [default: 2, or 1 of one copy]
    #[arg(long, value_name = "N")]
    pub min_copies: Option<u8>,
    /// Placement groups: a power of two
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub groups: u32,
    /// What may fail as one: copies are kept apart by it
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Domain::Node)]
    pub failure_domain: Domain,
    /// Only stores of this class (`amita disk class`)
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita pool delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArguments {
    /// Its name
    pub name: String,
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita pool thresholds`.
#[derive(Debug, clap::Args)]
pub struct ThresholdsArguments {
    /// Percent of a store's capacity at which it is time to add disks [default: as it was; at first 85]
    #[arg(long, value_name = "PERCENT")]
    pub near_full: Option<u8>,
    /// Percent of a store's capacity at which writes will fail soon [default: as it was; at first 95]
    #[arg(long, value_name = "PERCENT")]
    pub full: Option<u8>,
    /// Three percents of the capacity of a pool's stores together, at each of which it is said [default: as they were; at first
    /// 75,85,95]
    #[arg(long, value_name = "PERCENT,PERCENT,PERCENT", value_parser = space::parse_percents)]
    pub pools: Option<space::Percents>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita pool recycle`.
#[derive(Debug, clap::Args)]
pub struct RecycleArguments {
    /// Its name
    pub name: String,
    /// Like 12h or 7d; 0s: they go at once [default: as it was; at first 7d]
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub keep: Option<Duration>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita pool quota`.
#[derive(Debug, clap::Args)]
pub struct QuotaArguments {
    /// Its name
    pub name: String,
    /// The sum of its volumes' sizes, at most [default: as it was]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub provisioned: Option<u64>,
    /// Volumes, at most [default: as it was]
    #[arg(long, value_name = "N")]
    pub volumes: Option<u64>,
    /// Snapshots of all its volumes, at most [default: as it was]
    #[arg(long, value_name = "N")]
    pub snapshots: Option<u64>,
    /// Of what is not named beside it, everything may be asked for
    #[arg(long)]
    pub none: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita pool show`.
#[derive(Debug, clap::Args)]
pub struct ShowArguments {
    /// Its name
    pub name: String,
    /// As JSON
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
    /// A rack of hosts (`amita node place`)
    Rack,
    /// A site of racks
    Site,
}

impl From<Domain> for Level {
    fn from(domain: Domain) -> Level {
        match domain {
            Domain::Disk => Level::Disk,
            Domain::Node => Level::Node,
            Domain::Rack => Level::Rack,
            Domain::Site => Level::Site,
        }
    }
}

/// `amita pool set`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["copies", "failure_domain", "class", "any_class"]))]
pub struct SetArguments {
    /// Its name
    pub name: String,
    /// Copies of each block
    #[arg(long, value_name = "N")]
    pub copies: Option<u8>,
    /// What may fail as one
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub failure_domain: Option<Domain>,
    /// Only stores of this class
    #[arg(long, value_name = "CLASS", conflicts_with = "any_class")]
    pub class: Option<String>,
    /// Stores of any class
    #[arg(long)]
    pub any_class: bool,
    /// Also when the rule cannot be met with the stores that there are
    #[arg(long)]
    pub force: bool,
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
    /// Say what follows as JSON
    #[arg(long)]
    pub json: bool,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    match command {
        Command::Create(arguments) => create(arguments, metadata),
        Command::Set(arguments) => set(arguments, metadata),
        Command::Thresholds(arguments) => thresholds(arguments, metadata),
        Command::Recycle(arguments) => recycle(arguments, metadata),
        Command::Quota(arguments) => space::quota(arguments, metadata),
        Command::Limit(command) => limit::run_jointly(limit::Whose::Pool, command, &Admin::connect(metadata)?),
        Command::Delete(arguments) => delete(arguments, metadata),
        Command::Show(arguments) => space::show(arguments, metadata),
        Command::List { json } => list(*json, metadata),
    }
}

fn thresholds(arguments: &ThresholdsArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let changes = arguments.near_full.is_some() || arguments.full.is_some() || arguments.pools.is_some();
    let found = if changes {
        admin.act(Action::PoolThresholds, "", |meta| {
            admin::set_thresholds(meta, |own| {
                own.near_full_percent = arguments.near_full.unwrap_or(own.near_full_percent);
                own.full_percent = arguments.full.unwrap_or(own.full_percent);
                own.pool_percents = arguments.pools.map_or(own.pool_percents, |percents| percents.0);
            })
        })
    } else {
        admin::thresholds(&admin.reader())
    };
    let found = found.described()?;
    print(arguments.json, &found, || {
        let [first, second, third] = found.pool_percents;
        format!(
            "A store is near full at {} %, and full at {} %. Of a pool it is said at {first}, {second} and {third} %.\n",
            found.near_full_percent, found.full_percent
        )
    })
}

fn recycle(arguments: &RecycleArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let name = &arguments.name;
    if let Some(keep) = arguments.keep {
        let set = admin.act(Action::PoolRecycle, name, |meta| {
            admin::set_recycle_time(meta, name, keep)
        });
        set.described()?;
    }
    let seconds = admin::recycle_time(&admin.reader(), name).described()?.as_secs();
    let found = serde_json::json!({ "pool": name, "keep_seconds": seconds });
    print(arguments.json, &found, || match seconds {
        0 => format!("Volumes of pool {name} that are deleted are gone at once.\n"),
        _ => format!(
            "Volumes of pool {name} that are deleted can be had back for {} h {:02} min.\n",
            seconds / 3600,
            seconds / 60 % 60
        ),
    })
}

fn create(arguments: &CreateArguments, metadata: &Endpoints) -> Result<()> {
    let spec = PoolSpec {
        name: arguments.name.clone(),
        copies: arguments.copies,
        min_copies: least(arguments.copies, arguments.min_copies),
        groups: arguments.groups,
        chunk_bytes: DEFAULT_CHUNK_BYTES,
        level: arguments.failure_domain.into(),
        class: arguments.class.clone(),
    };
    let admin = Admin::connect(metadata)?;
    let made = admin.act(Action::PoolCreate, &spec.name, |meta| admin::create_pool(meta, &spec));
    let pool = made.described()?;
    print(arguments.json, &pool, || {
        let risk = match spec.copies {
            1 => "Each block is there once: what is on a disk that fails is lost.\n",
            _ => "",
        };
        format!(
            "Pool {} has {} groups of {} copies; writes need {}.\n{risk}",
            pool.name, pool.groups, spec.copies, spec.min_copies
        )
    })
}

/// How many copies a write needs.
fn least(copies: u8, said: Option<u8>) -> u8 {
    said.unwrap_or(copies.min(DEFAULT_MIN_COPIES))
}

fn delete(arguments: &DeleteArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let name = &arguments.name;
    confirm::destroys(
        arguments.yes,
        name,
        &format!("Pool {name} goes, with its quota and its settings."),
    )?;
    let deleted = admin.act(Action::PoolDelete, name, |meta| admin::delete_pool(meta, name));
    let pool = deleted.described()?;
    print(arguments.json, &pool, || {
        format!("Pool {name} is deleted; its stores stay, and serve other pools.\n")
    })
}

/// How many copies a pool has now; none: there is no such pool, or it is one of a newer version.
fn copies_of(admin: &Admin, name: &str) -> Result<Option<u8>> {
    let pools = admin::pools(&admin.reader()).described()?;
    let found = pools.into_iter().find(|pool| pool.name == name);
    Ok(found.and_then(|pool| match pool.kind {
        PoolKind::Replicated { copies, .. } => Some(copies),
        _ => None,
    }))
}

/// What fewer copies mean, if they are fewer.
fn fewer(name: &str, before: Option<u8>, after: Option<u8>) -> Option<String> {
    let (before, after) = (before?, after?);
    (after < before).then(|| {
        format!(
            "Pool {name} keeps {after} copies of each block from now on, not {before}: so many disks fewer may fail at one time, {} \
             instead of {}.",
            after - 1,
            before - 1
        )
    })
}

fn set(arguments: &SetArguments, metadata: &Endpoints) -> Result<()> {
    let change = PoolChange {
        copies: arguments.copies,
        level: arguments.failure_domain.map(Level::from),
        class: arguments
            .class
            .clone()
            .map(Some)
            .or(arguments.any_class.then_some(None)),
    };
    let admin = Admin::connect(metadata)?;
    let name = &arguments.name;
    let fewer = fewer(name, copies_of(&admin, name)?, arguments.copies);
    if let Some(lost) = &fewer {
        confirm::destroys(arguments.yes, name, lost)?;
    }
    let changed = admin.act(Action::PoolSet, name, |meta| {
        admin::change_pool(meta, name, &change, arguments.force)
    });
    let (pool, found) = changed.described()?;
    print(
        arguments.json,
        &serde_json::json!({ "pool": pool, "outlook": found }),
        || {
            let fewer = fewer.map_or_else(String::new, |fewer| format!("{fewer}\n"));
            format!(
                "Pool {} keeps copies on different {}s.\n{fewer}{}",
                pool.name,
                pool.failure_domain,
                outlook(found)
            )
        },
    )
}

fn list(as_json: bool, metadata: &Endpoints) -> Result<()> {
    let status = Admin::connect(metadata)?.status()?;
    let pools = &status.pools;
    print(as_json, pools, || {
        let head = [
            "pool", "id", "copies", "min", "apart by", "class", "chunk", "used", "free", "full", "fullest", "groups",
            "whole", "degraded", "at min", "waiting", "below", "syncing",
        ];
        let mut table = Table::new(&head);
        for found in pools {
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
                pool.failure_domain.to_string(),
                pool.class.clone().unwrap_or_else(|| "any".to_owned()),
                size::show(u64::from(pool.chunk_bytes)),
                size::show(found.used_bytes),
                size::show(found.raw_bytes.saturating_sub(found.used_bytes)),
                used(found),
                found.fullest_percent.map_or_else(String::new, percent),
                pool.groups.to_string(),
                counts.whole.to_string(),
                counts.degraded.to_string(),
                counts.at_min_copies.to_string(),
                counts.waiting.to_string(),
                counts.below.to_string(),
                counts.syncing.to_string(),
            ]);
        }
        let full = of_space(&status.facts);
        full.into_iter().fold(table.text(), |text, line| text + &line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_copies_are_said_and_as_many_or_more_are_not() {
        let said = fewer("main", Some(3), Some(2)).expect("one fewer");
        assert!(
            said.contains("keeps 2 copies") && said.contains("1 instead of 2"),
            "{said}"
        );
        for (before, after) in [(Some(3), Some(3)), (Some(2), Some(3)), (Some(3), None), (None, Some(2))] {
            assert_eq!(fewer("main", before, after), None, "{before:?} {after:?}");
        }
    }

    #[test]
    fn what_a_write_needs_follows_the_copies_unless_it_is_said() {
        let needs = |copies, min_copies| least(copies, min_copies);
        assert_eq!(
            [needs(1, None), needs(2, None), needs(3, None), needs(4, None)],
            [1, 2, 2, 2]
        );
        assert_eq!([needs(3, Some(1)), needs(3, Some(3))], [1, 3]);
    }
}
