//! `amita volume limit`, and what `amita tenant limit` and `amita pool limit` have in common with it.

use super::priority;
use crate::admin::{Admin, Described};
use amita_control::access::Action;
use amita_control::admin::Jointly;
use amita_control::{admin, limits};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::{Limit, Limits, Peak, Priority, pool_limits, tenant_limits};
use serde::Serialize;

/// What to do with a volume's limits.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Set limits of a volume, and how it stands among others where stores are busy; what is not named stays as it is
    ///
    /// They hold at every gateway as soon as it hears of them, for all hosts together, whichever way they come; no host has to connect
    /// again. In any time T no more passes than rate x T + burst; what is more waits. An operation is a piece of at most 128 KiB: a host that
    /// reads 1 MiB at once has done eight.
    ///
    /// Reservation, weight and latency target say in which order a store takes what waits there, when it has more to do than it does at once.
    Set(Box<VolumeSetArguments>),
    /// Show how much the hosts of a volume may do, and how it stands among others
    Show(NamedArguments),
    /// Take all limits of a volume away, and its reservation, weight and latency target
    Clear(NamedArguments),
}

/// What to do with the limits of a tenant, or of a pool.
#[derive(Debug, clap::Subcommand)]
pub enum JointCommand {
    /// Set limits of all its volumes together; those that are not named stay as they are
    ///
    /// They hold at every gateway as soon as it hears of them, beside those that a volume has of its own: what passes, passes all. In any time T no
    /// more passes than rate x T + burst; what is more waits, and volumes take turns by how much they have done.
    Set(Box<SetArguments>),
    /// Show how much the hosts of all its volumes may do together
    Show(NamedArguments),
    /// Take all its limits away; those of single volumes stay
    Clear(NamedArguments),
}

/// Whose limits.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    Volume,
    Tenant,
    Pool,
}

impl Whose {
    fn called(self) -> &'static str {
        match self {
            Whose::Volume => "volume",
            Whose::Tenant => "tenant",
            Whose::Pool => "pool",
        }
    }

    fn jointly(self, name: &str) -> Option<Jointly<'_>> {
        match self {
            Whose::Volume => None,
            Whose::Tenant => Some(Jointly::Tenant(name)),
            Whose::Pool => Some(Jointly::Pool(name)),
        }
    }

    fn read(self, metadata: &Admin, name: &str) -> Result<Limits> {
        match self.jointly(name) {
            None => admin::limits(&metadata.reader(), name).described(),
            Some(of) => admin::joint_limits(&metadata.reader(), of).described(),
        }
    }

    fn change(self, metadata: &Admin, name: &str, change: impl Fn(&mut Limits)) -> Result<Limits> {
        let action = match self {
            Whose::Volume => Action::VolumeLimit,
            Whose::Tenant => Action::TenantLimit,
            Whose::Pool => Action::PoolLimit,
        };
        let changed = metadata.act(action, name, |meta| match self.jointly(name) {
            None => admin::set_limits(meta, name, &change),
            Some(of) => admin::set_joint_limits(meta, of, &change),
        });
        changed.described()
    }
}

/// `amita volume limit show` and `clear`.
#[derive(Debug, clap::Args)]
pub struct NamedArguments {
    /// Its name
    pub name: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume limit set`.
#[derive(Debug, clap::Args)]
pub struct VolumeSetArguments {
    #[command(flatten)]
    pub limits: SetArguments,
    #[command(flatten)]
    pub priority: priority::Arguments,
}

/// What is set of limits.
#[derive(Debug, clap::Args)]
pub struct SetArguments {
    /// Its name
    pub name: String,
    /// Operations a second, reads and writes together
    #[arg(long, value_name = "N")]
    pub iops: Option<u64>,
    /// Reads a second
    #[arg(long, value_name = "N")]
    pub read_iops: Option<u64>,
    /// Writes a second
    #[arg(long, value_name = "N")]
    pub write_iops: Option<u64>,
    /// Bytes a second, or with K, M, G: of reads and writes together
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub bandwidth: Option<u64>,
    /// Bytes a second of reads
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub read_bandwidth: Option<u64>,
    /// Bytes a second of writes
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub write_bandwidth: Option<u64>,
    /// Operations or bytes that may pass at once after a pause; by default what comes in within a tenth of a second, and two pieces. With one
    /// limit alone
    #[arg(long, value_name = "N|SIZE", value_parser = size::parse)]
    pub burst: Option<u64>,
    /// A higher rate for a while, out of what was not used before. With one limit alone
    #[arg(long, value_name = "N|SIZE", value_parser = size::parse, requires = "seconds")]
    pub peak: Option<u64>,
    /// For so many seconds at a stretch
    #[arg(long = "for", value_name = "SECONDS", requires = "peak")]
    pub seconds: Option<u32>,
    /// Say what holds as JSON
    #[arg(long)]
    pub json: bool,
}

impl SetArguments {
    /// Is any limit named, or anything of one?
    fn is_any(&self) -> bool {
        self.rates().iter().any(Option::is_some) || self.burst.is_some() || self.peak.is_some()
    }

    /// The rates that are named, by their limits' places.
    fn rates(&self) -> [Option<u64>; limits::NAMES.len()] {
        [
            self.read_iops,
            self.write_iops,
            self.iops,
            self.read_bandwidth,
            self.write_bandwidth,
            self.bandwidth,
        ]
    }
}

/// What a volume may do, or all volumes of something.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<&'a str>,
    limits: Limits,
    /// How it stands among others; of a volume alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    /// What it may do with others besides, by whose they are: `tenant/NAME`, `pool/NAME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    under: Vec<(String, Limits)>,
}

pub(super) fn run(command: &Command, metadata: &Admin) -> Result<()> {
    match command {
        Command::Set(arguments) => set_volume(arguments, metadata),
        Command::Show(NamedArguments { name, json }) => {
            let limits = Whose::Volume.read(metadata, name)?;
            let priority = priority::read(metadata, name)?;
            let more = More {
                priority: Some(priority),
                under: under(metadata, name)?,
            };
            show(Whose::Volume, name, limits, more, *json)
        }
        Command::Clear(NamedArguments { name, json }) => {
            let cleared = Whose::Volume.change(metadata, name, |limits| *limits = Limits::default())?;
            let more = More::of(priority::clear(metadata, name)?);
            show(Whose::Volume, name, cleared, more, *json)
        }
    }
}

/// What is shown beside limits.
#[derive(Default)]
struct More {
    priority: Option<Priority>,
    under: Vec<(String, Limits)>,
}

impl More {
    fn of(priority: Priority) -> More {
        More {
            priority: Some(priority),
            under: Vec::new(),
        }
    }
}

fn set_volume(arguments: &VolumeSetArguments, metadata: &Admin) -> Result<()> {
    let VolumeSetArguments {
        limits: of_limits,
        priority: of_priority,
    } = arguments;
    let name = &of_limits.name;
    if !of_priority.is_any() {
        let changed = set_limits(Whose::Volume, of_limits, metadata)?;
        let more = More::of(priority::read(metadata, name)?);
        return show(Whose::Volume, name, changed, more, of_limits.json);
    }
    // All of it or nothing, as far as can be told before.
    priority::check(metadata, name, of_priority)?;
    let limits = match of_limits.is_any() {
        true => set_limits(Whose::Volume, of_limits, metadata)?,
        false => Whose::Volume.read(metadata, name)?,
    };
    let more = More::of(priority::set(metadata, name, of_priority)?);
    show(Whose::Volume, name, limits, more, of_limits.json)
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run_jointly(whose: Whose, command: &JointCommand, metadata: &Admin) -> Result<()> {
    match command {
        JointCommand::Set(arguments) => set(whose, arguments, metadata),
        JointCommand::Show(NamedArguments { name, json }) => {
            show(whose, name, whose.read(metadata, name)?, More::default(), *json)
        }
        JointCommand::Clear(arguments) => clear(whose, arguments, metadata),
    }
}

fn clear(whose: Whose, NamedArguments { name, json }: &NamedArguments, metadata: &Admin) -> Result<()> {
    let cleared = whose.change(metadata, name, |limits| *limits = Limits::default())?;
    show(whose, name, cleared, More::default(), *json)
}

/// What a volume is under besides its own.
fn under(metadata: &Admin, name: &str) -> Result<Vec<(String, Limits)>> {
    let reader = metadata.reader();
    let volume = admin::volume(&reader, name).described()?;
    let all = admin::tenancies(&reader).described()?;
    let tenant = all.iter().find(|found| found.volume == volume.id);
    let tenant = tenant.map(|found| (tenant_limits(&found.tenant), Jointly::Tenant(&found.tenant)));
    let pool = (pool_limits(&volume.pool), Jointly::Pool(&volume.pool));
    let mut found = Vec::new();
    for (called, of) in tenant.into_iter().chain([pool]) {
        let limits = admin::joint_limits(&reader, of).described()?;
        if !limits.is_empty() {
            found.push((called, limits));
        }
    }
    Ok(found)
}

fn set(whose: Whose, arguments: &SetArguments, metadata: &Admin) -> Result<()> {
    let changed = set_limits(whose, arguments, metadata)?;
    show(whose, &arguments.name, changed, More::default(), arguments.json)
}

fn set_limits(whose: Whose, arguments: &SetArguments, metadata: &Admin) -> Result<Limits> {
    let (name, rates) = (&arguments.name, arguments.rates());
    let named = rates.iter().flatten().count();
    if named == 0 {
        return Err(Failure::new("nothing to set is named")
            .kind(Kind::Usage)
            .advice("Name one at least, such as --iops 5000 or --bandwidth 200M; --help has all of them."));
    }
    if named > 1 && (arguments.burst.is_some() || arguments.peak.is_some()) {
        return Err(
            Failure::new(format!("--burst and --peak are of one limit, and {named} are named"))
                .kind(Kind::Usage)
                .advice("Give the command once for each limit: those that are not named stay as they are."),
        );
    }
    whose.change(metadata, name, |limits| {
        let limits = each(limits);
        for (place, (limit, rate)) in limits.into_iter().zip(rates).enumerate() {
            let Some(rate) = rate else { continue };
            let peak = arguments.peak.zip(arguments.seconds);
            let fastest = peak.map_or(rate, |(peak, _)| peak.max(rate));
            *limit = Some(Limit {
                rate,
                burst: arguments.burst.unwrap_or_else(|| limits::usual_burst(fastest, place)),
                peak: peak.map(|(rate, seconds)| Peak { rate, seconds }),
            });
        }
    })
}

/// By their places.
fn each(limits: &mut Limits) -> [&mut Option<Limit>; limits::NAMES.len()] {
    let Limits { iops, bandwidth } = limits;
    [
        &mut iops.read,
        &mut iops.write,
        &mut iops.both,
        &mut bandwidth.read,
        &mut bandwidth.write,
        &mut bandwidth.both,
    ]
}

fn show(whose: Whose, name: &str, limits: Limits, more: More, json: bool) -> Result<()> {
    let named = |of: Whose| (of.called() == whose.called()).then_some(name);
    let shown = Shown {
        volume: named(Whose::Volume),
        tenant: named(Whose::Tenant),
        pool: named(Whose::Pool),
        limits,
        priority: more.priority,
        under: more.under,
    };
    print(json, &shown, || {
        let who = match whose {
            Whose::Volume => format!("Volume {name}"),
            Whose::Tenant | Whose::Pool => format!("All volumes of {} {name} together", whose.called()),
        };
        let is = if matches!(whose, Whose::Volume) { "is" } else { "are" };
        let mut text = match limits.is_empty() {
            true => format!("{who} {is} not limited.\n"),
            false => format!("{who} may do no more than\n{}", table(limits).text()),
        };
        text += &shown.priority.as_ref().map_or_else(String::new, priority::text);
        for (called, limits) in &shown.under {
            let called = called.replacen('/', " ", 1);
            text += &format!(
                "With the others of {called} it may do no more than\n{}",
                table(*limits).text()
            );
        }
        text
    })
}

fn table(mut limits: Limits) -> Table {
    let mut table = Table::new(&["limit", "a second", "burst", "peak"]);
    for (place, limit) in each(&mut limits).into_iter().enumerate() {
        let Some(limit) = limit else { continue };
        let much = |much: u64| match place < limits::NAMES.len() / 2 {
            true => much.to_string(),
            false => size::show(much),
        };
        let peak = limit.peak.map_or_else(String::new, |peak| {
            format!("{} for {} s", much(peak.rate), peak.seconds)
        });
        table.row([
            limits::NAMES[place].to_owned(),
            much(limit.rate),
            much(limit.burst),
            peak,
        ]);
    }
    table
}
