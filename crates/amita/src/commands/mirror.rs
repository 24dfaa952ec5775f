//! `amita mirror`: volumes that another cluster has as well, up to a point that both know (decision 081). Nodes do what takes long ([`runner`]); the
//! commands pair two clusters (`pair`), and say which end may be written (`role`).

pub mod bootstrap;
pub mod link;
mod pair;
pub mod read;
mod remove;
mod role;
pub mod runner;
mod show;
pub mod start;
pub mod wire;

use crate::admin::{Admin, Described as _};
use crate::cli::Endpoints;
use crate::commands::events::parse_age;
use amita_control::access::Action;
use amita_control::admin::{self, MirrorChange};
use amita_control::mirror::view;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;
use amita_terminal::{interrupt, output, size};
use amita_types::map::{Mirror, Paused};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it is looked how far something has come.
const LOOK: Duration = Duration::from_millis(200);
/// How often it is looked whether the owner of a volume has answered, and how long that is waited for.
const CLOSE_LOOK: Duration = Duration::from_millis(5);
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// What to do with mirrors.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Mirror volumes of this cluster to another one: the first half, here, where they are used
    ///
    /// It makes the mirror, and what the other cluster joins it by (`amita mirror join`): this cluster's addresses, its authority, and a token
    /// that is good for this mirror alone. Whoever has that can read what the mirror brings.
    Add(Box<pair::AddArguments>),
    /// Have volumes of another cluster mirrored to this one: the second half
    ///
    /// It makes volumes of the same names and sizes, which are closed to hosts until this end is promoted, and tells the other cluster how this
    /// one is reached. Where it was cut short it is given again.
    Join(Box<pair::JoinArguments>),
    /// Make another token for the other end of a mirror that stands
    ///
    /// Where the one that it has was lost, or has ended, or this end is reached elsewhere: the other cluster takes what is made by `amita mirror
    /// join`. Nothing else of the mirror is changed.
    Token(pair::TokenArguments),
    /// List the mirrors
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a mirror: what this end is, how far it is, and what was seen of the other one
    Show {
        /// The mirror
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Hand the right to write over to the other end: the first half of a fail-over in order
    ///
    /// Hosts are refused from then on, the last point is cut, and the other end can be promoted when it has that: nothing is lost.
    Demote(role::DemoteArguments),
    /// Make this end the one that hosts use
    ///
    /// In order when the other end was demoted and its last point was brought. An end that was demoted itself takes that back, when the other one
    /// declines it. By force whatever the other end is, at the point that this one is at.
    Promote(role::PromoteArguments),
    /// Have an end that was deposed follow the other one again
    ///
    /// It goes back to the newest point that both ends have. What its volumes are now is kept, as snapshots, until you delete them.
    Resync(role::ResyncArguments),
    /// Have a mirror stand still, at this end
    Pause {
        /// The mirror
        name: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Have a mirror go on that stands still
    Resume {
        /// The mirror
        name: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Change how often points are cut, how many are kept, how fast they are brought, and when that is late; at this end
    Set(SetArguments),
    /// Mirror the volumes no longer, at this end
    ///
    /// Its snapshots are yours from then on, and the other end's token is good for nothing; the other end stays as it is, until it is removed there. At the
    /// end that hosts use the volumes go on. At any other one they are opened to hosts as they are: at its point, or, where it never arrived at one, in
    /// the middle of a copy perhaps; or they are deleted (--delete). Where a pass was begun since its point it is promoted by force first, which goes
    /// back to that.
    Remove(remove::RemoveArguments),
}

/// How a mirror is to work.
#[derive(Debug, clap::Args)]
pub struct Settings {
    /// Points follow each other after this: a number with s, m, h or d; 10s at least [at first: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub interval: Option<Duration>,
    /// So many points are kept beside the one that it is at, while this end follows [at first: 3]
    #[arg(long, value_name = "N")]
    pub keep: Option<u32>,
    /// At most so many bytes a second are read and sent, of all volumes together: with K, M, G
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub limit_rate: Option<u64>,
    /// It is late from this lag on: a number with s, m, h or d [at first: three intervals]
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub alert_after: Option<Duration>,
}

/// `amita mirror set`.
#[derive(Debug, clap::Args)]
pub struct SetArguments {
    /// The mirror
    pub name: String,
    /// What is not named stays as it is; --limit-rate 0 and --alert-after 0s take these away
    #[command(flatten)]
    pub settings: Settings,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, endpoints: &Endpoints) -> Result<()> {
    let connect = || Admin::connect(endpoints);
    match command {
        Command::Add(arguments) => pair::add(arguments, endpoints, &connect()?),
        Command::Join(arguments) => pair::join(arguments, endpoints, &connect()?),
        Command::Token(arguments) => pair::token(arguments, endpoints, &connect()?),
        Command::List { json } => show::list(*json, &connect()?),
        Command::Show { name, json } => show::show(name, *json, &connect()?),
        Command::Demote(arguments) => role::demote(arguments, &connect()?),
        Command::Promote(arguments) => role::promote(arguments, endpoints, &connect()?),
        Command::Resync(arguments) => role::resync(arguments, &connect()?),
        Command::Pause { name, json } => pause(name, *json, &connect()?),
        Command::Resume { name, json } => {
            let gone_on = connect()?.act(Action::MirrorResume, name, |meta| admin::pause_mirror(meta, name, None));
            told(&gone_on.described()?, *json, || format!("Mirror {name} goes on.\n"))
        }
        Command::Set(arguments) => set(arguments, &connect()?),
        Command::Remove(arguments) => remove::remove(arguments, &connect()?),
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Pauses between two looks at what the owner of a volume says: is there still time?
fn pauses() -> impl FnMut() -> bool {
    let until = Instant::now() + CLOSE_PATIENCE;
    move || {
        std::thread::sleep(CLOSE_LOOK);
        Instant::now() < until
    }
}

/// A mirror as JSON, or what was done in words.
fn told(mirror: &Mirror, as_json: bool, text: impl FnOnce() -> String) -> Result<()> {
    print(as_json, &view(mirror, now().as_secs()), text)
}

fn pause(name: &str, as_json: bool, metadata: &Admin) -> Result<()> {
    let paused = Paused {
        by: metadata.caller().who().name.clone(),
        at: now().as_secs(),
    };
    let paused = metadata.act(Action::MirrorPause, name, |meta| {
        admin::pause_mirror(meta, name, Some(&paused))
    });
    told(&paused.described()?, as_json, || {
        format!("Mirror {name} stands still, at this end: `amita mirror resume {name}` lets it go on.\n")
    })
}

fn set(arguments: &SetArguments, metadata: &Admin) -> Result<()> {
    let (name, settings) = (&arguments.name, &arguments.settings);
    let change = MirrorChange {
        interval: settings.interval,
        keep: settings.keep,
        limit_bytes_per_s: settings.limit_rate,
        alert_after: settings.alert_after,
    };
    if change == MirrorChange::default() {
        return Err(Failure::new("nothing is to be changed")
            .kind(Kind::Usage)
            .advice(format!(
                "See `amita mirror set --help`; `amita mirror show {name}` shows how it is."
            )));
    }
    let set = metadata.act(Action::MirrorSet, name, |meta| admin::set_mirror(meta, name, &change));
    told(&set.described()?, arguments.json, || {
        format!("Mirror {name} is changed, at this end.\n")
    })
}

/// Looks until `waits_for` says that nothing more is waited for, and tells people what it is. Whoever is interrupted stops waiting; what was begun
/// goes on.
fn until(
    name: &str,
    metadata: &Admin,
    as_json: bool,
    mut waits_for: impl FnMut(&Mirror) -> Result<Option<String>>,
) -> Result<Mirror> {
    let reader = metadata.reader();
    let mut said = None;
    loop {
        let found = admin::mirror(&reader, name).described()?;
        let Some(what) = waits_for(&found)? else {
            return Ok(found);
        };
        if !as_json && said.as_ref() != Some(&what) {
            output::beside(&format!("Waiting: {what}"));
            said = Some(what);
        }
        rest(name)?;
    }
}

/// A moment.
fn rest(name: &str) -> Result<()> {
    interrupt::sleep(LOOK).map_err(|failure| {
        failure.advice(format!(
            "What was begun goes on without this command: `amita mirror show {name}` says how far it is. Give the command again to wait on."
        ))
    })
}

/// Why it does not go on, as a part of what is waited for.
fn ails(mirror: &Mirror) -> String {
    let found = mirror.ails.as_ref();
    found.map_or_else(String::new, |why| {
        format!(" It does not go on now, and is tried again: {why}")
    })
}
