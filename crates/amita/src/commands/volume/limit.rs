//! `amita volume limit`.

use crate::admin::{Admin, Described};
use amita_control::access::Action;
use amita_control::{admin, limits};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::{Limit, Limits, Peak};
use serde::Serialize;

/// What to do with a volume's limits.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Set limits of a volume; those that are not named stay as they are
    ///
    /// They hold at every gateway as soon as it hears of them, for all hosts together, whichever way they come; no host has to connect
    /// again. In any time T no more passes than rate x T + burst; what is more waits. An operation is a piece of at most 128 KiB: a host that
    /// reads 1 MiB at once has done eight.
    Set(Box<SetArguments>),
    /// Show how much the hosts of a volume may do
    Show(NamedArguments),
    /// Take all limits of a volume away
    Clear(NamedArguments),
}

/// `amita volume limit show` and `clear`.
#[derive(Debug, clap::Args)]
pub struct NamedArguments {
    /// The volume's name
    pub name: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume limit set`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("limit").required(true).multiple(true).args(["iops", "read_iops", "write_iops", "bandwidth", "read_bandwidth", "write_bandwidth"]))]
pub struct SetArguments {
    /// The volume's name
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

/// What a volume may do.
#[derive(Serialize)]
struct Shown<'a> {
    volume: &'a str,
    limits: Limits,
}

pub(super) fn run(command: &Command, metadata: &Admin) -> Result<()> {
    match command {
        Command::Set(arguments) => set(arguments, metadata),
        Command::Show(NamedArguments { name, json }) => {
            let limits = admin::limits(&metadata.reader(), name).described()?;
            show(name, limits, *json)
        }
        Command::Clear(NamedArguments { name, json }) => {
            let cleared = metadata.act(Action::VolumeLimit, name, |meta| {
                admin::set_limits(meta, name, |limits| *limits = Limits::default())
            });
            show(name, cleared.described()?, *json)
        }
    }
}

fn set(arguments: &SetArguments, metadata: &Admin) -> Result<()> {
    let (name, rates) = (&arguments.name, arguments.rates());
    let named = rates.iter().flatten().count();
    if named > 1 && (arguments.burst.is_some() || arguments.peak.is_some()) {
        return Err(
            Failure::new(format!("--burst and --peak are of one limit, and {named} are named"))
                .kind(Kind::Usage)
                .advice("Give the command once for each limit: those that are not named stay as they are."),
        );
    }
    let changed = metadata.act(Action::VolumeLimit, name, |meta| {
        admin::set_limits(meta, name, |limits| {
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
    });
    show(name, changed.described()?, arguments.json)
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

fn show(name: &str, limits: Limits, json: bool) -> Result<()> {
    let shown = Shown { volume: name, limits };
    print(json, &shown, || {
        if limits.is_empty() {
            return format!("Volume {name} is not limited.\n");
        }
        let mut limits = limits;
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
        format!("Volume {name} may do no more than\n{}", table.text())
    })
}
