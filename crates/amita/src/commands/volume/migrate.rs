//! `amita volume migrate`: a volume moves to another pool while it is in use. Nodes move it ([`super::copy::Copies`]); the command asks for it, and
//! looks how far it is.

use super::waiting::Waiting;
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, DataKeys, MigrateWish, copy_job_id};
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::print;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// `amita volume migrate`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume's name
    #[arg(value_name = "VOLUME")]
    pub name: String,
    /// The pool that is to hold it
    #[arg(long, value_name = "NAME")]
    pub pool: String,
    /// Read at most so many bytes a second: with K, M, G
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub limit_rate: Option<u64>,
    #[command(flatten)]
    pub keys: super::key::FileArgument,
    /// Do not wait for the end
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
    pool: &'a str,
    job: String,
    /// It is in that pool; else it is on its way.
    moved: bool,
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let (name, pool) = (&arguments.name, &arguments.pool);
    let keys = arguments.keys.given(endpoints);
    let wish = MigrateWish {
        volume: name,
        pool,
        limit_bytes_per_s: arguments.limit_rate,
        keys: keys.as_ref().map(|file| file as &dyn DataKeys),
        now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    };
    let asked = metadata.act(Action::VolumeMigrate, name, |meta| admin::migrate_volume(meta, &wish));
    let asked = asked.described()?;
    let job = copy_job_id(&asked);
    let waiting = Waiting {
        asked: &asked,
        bar: (!arguments.json).then_some("moving"),
        only_settled: false,
        taken_back: format!("the move of {} was taken back", asked.of),
        goes_on: format!(
            "The volume is moved without this command: `amita job show {job}` says how far it is, and `amita job cancel {job}` takes it back; \
             the volume stays where it is then."
        ),
    };
    let reader = metadata.reader();
    let is_made = |_: bool| -> Result<bool> {
        let volume = admin::copy_source(&reader, &asked).described()?;
        Ok(volume.is_some_and(|volume| volume.id == asked.volume))
    };
    let moved = !arguments.no_wait && waiting.wait(metadata, is_made)?;
    let text = match moved {
        true => format!("Volume {name} is in pool {pool}.\n"),
        false => format!("Volume {name} is being moved to pool {pool}; `amita job show {job}` says how far it is.\n"),
    };
    let shown = Shown {
        volume: name,
        pool,
        job,
        moved,
    };
    print(arguments.json, &shown, || text)
}
