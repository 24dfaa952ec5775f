//! `amita volume copy`: a new volume that is what another one, or a snapshot of it, is. Nodes copy ([`run::Copies`]); the command asks for it,
//! and looks how far it is.

mod last;
mod pass;
mod run;

pub use run::Copies;

use super::waiting::Waiting;
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, CopyWish, DataKeys};
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::print;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

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
    let job = admin::copy_job_id(&asked);
    let waiting = Waiting {
        asked: &asked,
        bar: (!arguments.json && !arguments.no_wait).then_some("copying"),
        only_settled: arguments.no_wait,
        taken_back: format!("the copy {name} was taken back"),
        goes_on: format!(
            "The copy is made without this command: `amita job show {job}` says how far it is, and `amita job cancel {job}` takes it back, and \
             removes volume {name}."
        ),
    };
    let reader = metadata.reader();
    // From when it is whole on it may get another name.
    let is_made = |was_whole: bool| -> Result<bool> {
        Ok(was_whole || admin::copy_target(&reader, &asked).described()?.is_some())
    };
    let whole = waiting.wait(metadata, is_made)?;
    let text = match whole {
        true => format!("Volume {name} is a copy of {}, in pool {}.\n", asked.of, arguments.pool),
        false => format!(
            "Volume {name} is being made a copy of {}, as that is now; `amita job show {job}` says how far it is.\n",
            asked.of
        ),
    };
    let shown = Shown {
        volume: name,
        id: asked.volume.0,
        of: &asked.of,
        job,
        whole,
    };
    print(arguments.json, &shown, || {
        text + &super::key::told_of_newest(metadata, name)
    })
}
