//! `amita volume copy`: a new volume that is what another one, or a snapshot of it, is. Nodes copy ([`run::Copies`]); the command asks for it,
//! and looks how far it is.

mod last;
mod pass;
mod run;

pub use run::Copies;

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, CopyWish, DataKeys};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::table::print;
use amita_terminal::{interrupt, output, size};
use amita_types::map::Copying;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often it is looked how far it has come.
const LOOK: Duration = Duration::from_millis(200);

/// `amita volume copy`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume, as it is now; or VOLUME@SNAPSHOT, as it was then
    #[arg(value_name = "SOURCE")]
    pub of: String,
    /// The new volume's name
    #[arg(value_name = "TARGET")]
    pub name: String,
    /// The pool that is to hold it
    #[arg(long, value_name = "NAME")]
    pub pool: String,
    /// The source's older snapshots, too, each with its name and its labels
    #[arg(long)]
    pub snapshots: bool,
    /// Read at most so many bytes a second: with K, M, G
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub limit_rate: Option<u64>,
    /// The copy is encrypted, also where its source is not. Where that is, it is in any case
    #[arg(long)]
    pub encrypted: bool,
    #[command(flatten)]
    pub keys: super::key::FileArgument,
    /// Do not wait for the end, only until it is settled of which moment the copy is
    #[arg(long)]
    pub no_wait: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// As JSON says it.
#[derive(Serialize)]
struct Shown<'a> {
    volume: &'a str,
    id: u64,
    of: &'a str,
    job: String,
    /// The volume is the copy; else it is being made one.
    whole: bool,
}

fn shown(copying: &Copying, whole: bool) -> Shown<'_> {
    Shown {
        volume: &copying.name,
        id: copying.volume.0,
        of: &copying.of,
        job: job_of(copying),
        whole,
    }
}

fn job_of(copying: &Copying) -> String {
    format!("copy-{}", copying.volume)
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let keys = match arguments.encrypted {
        true => Some(arguments.keys.needed(endpoints)?),
        false => arguments.keys.given(endpoints),
    };
    let wish = CopyWish {
        of: &arguments.of,
        name,
        pool: &arguments.pool,
        snapshots: arguments.snapshots,
        limit_bytes_per_s: arguments.limit_rate,
        encrypted: arguments.encrypted,
        keys: keys.as_ref().map(|file| file as &dyn DataKeys),
        now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    };
    let asked = metadata.act(Action::VolumeCopy, name, |meta| admin::copy_volume(meta, &wish));
    let asked = asked.described()?;
    interrupt::catch();
    let bar = match arguments.json || arguments.no_wait {
        true => ProgressBar::hidden(),
        false => progress::bar("copying", asked.place.total_bytes),
    };
    let ended = wait(&asked, arguments.no_wait, metadata, &bar);
    bar.finish_and_clear();
    let whole = ended?;
    print(arguments.json, &shown(&asked, whole), || match whole {
        true => format!("Volume {name} is a copy of {}, in pool {}.\n", asked.of, arguments.pool),
        false => format!(
            "Volume {name} is being made a copy of {}, as that is now; `amita job show {}` says how far it is.\n",
            asked.of,
            job_of(&asked)
        ),
    })
}

/// Until it is made: is it? Else only until it is known of which moment it is. Whoever is interrupted stops waiting; the copy is made.
fn wait(asked: &Copying, only_settled: bool, metadata: &Admin, bar: &ProgressBar) -> Result<bool> {
    let reader = metadata.reader();
    let name = &asked.name;
    let taken_back = || {
        Failure::new(format!("the copy {name} was taken back"))
            .kind(Kind::Conflict)
            .advice("Give the command again where it is wanted after all.")
    };
    let mut ails = None;
    let mut whole = false;
    loop {
        let Some(now) = admin::copy_of(&reader, asked.volume).described()? else {
            // From when it is whole on it may get another name.
            return match whole || admin::copy_target(&reader, asked).described()?.is_some() {
                true => Ok(true),
                false => Err(taken_back()),
            };
        };
        whole = now.whole;
        if now.cancelled {
            return Err(taken_back());
        }
        if only_settled && now.place.last.is_some() {
            return Ok(false);
        }
        bar.set_length(now.place.total_bytes);
        bar.set_position(now.place.done_bytes());
        if now.ails.is_some() && now.ails != ails {
            let why = now.ails.clone().unwrap_or_default();
            bar.suspend(|| output::beside(&format!("It does not go on now, and is tried again: {why}")));
        }
        ails = now.ails;
        interrupt::sleep(LOOK).map_err(|failure| {
            let job = job_of(asked);
            failure.advice(format!(
                "The copy is made without this command: `amita job show {job}` says how far it is, and `amita job cancel {job}` takes it \
                 back, and removes volume {name}."
            ))
        })?;
    }
}
