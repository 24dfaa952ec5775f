//! `amita volume migrate`: a volume moves to another pool while it is in use. Nodes move it ([`super::copy::Copies`]); the command asks for it, and
//! looks how far it is. So does `amita volume rekey` ([`super::rekey`]).

use super::waiting::Waiting;
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::admin::{self, AtRest, DataKeys, MigrateWish, copy_job_id};
use amita_node::volume_keys::KeyFile;
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
    #[command(flatten)]
    pub at_rest: AtRestArguments,
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

/// What it is to be at rest; neither: what it is.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct AtRestArguments {
    /// Encrypted from then on, also where it was not
    #[arg(long, conflicts_with = "plain")]
    pub encrypted: bool,
    /// In the clear from then on, also where it was encrypted
    #[arg(long)]
    pub plain: bool,
}

impl AtRestArguments {
    pub(super) fn wished(self) -> AtRest {
        match (self.encrypted, self.plain) {
            (true, _) => AtRest::Encrypted,
            (false, true) => AtRest::Plain,
            (false, false) => AtRest::AsItIs,
        }
    }

    /// The volume keys, which have to be there where it is said that it is to be encrypted.
    pub(super) fn keys(self, given: &super::key::FileArgument, endpoints: &Endpoints) -> Result<Option<KeyFile>> {
        match self.encrypted {
            true => given.needed(endpoints).map(Some),
            false => Ok(given.given(endpoints)),
        }
    }
}

/// A move, or what is one within a pool.
pub(super) struct Asked<'a> {
    pub wish: MigrateWish<'a>,
    /// What the bar is called; none: nothing is shown.
    pub bar: Option<&'a str>,
    pub no_wait: bool,
    /// What is said where it was taken back: of which volume stands behind it.
    pub taken_back: &'a str,
    /// What is done without the command, and what the volume is where that is taken back.
    pub goes_on: [&'a str; 2],
}

impl Asked<'_> {
    /// Asks for it, and waits for its end unless that is not to be waited for: the job, and has it come to its end?
    pub fn carry_out(&self, metadata: &Admin) -> Result<(String, bool)> {
        let wish = &self.wish;
        let asked = metadata.act(admin::migrate_action(wish.pool, wish.at_rest), wish.volume, |meta| {
            admin::migrate_volume(meta, wish)
        });
        let asked = asked.described()?;
        let job = copy_job_id(&asked);
        let [what, stays] = self.goes_on;
        let waiting = Waiting {
            asked: &asked,
            bar: self.bar,
            only_settled: false,
            taken_back: format!("{} {} was taken back", self.taken_back, asked.of),
            goes_on: format!(
                "The volume is {what} without this command: `amita job show {job}` says how far it is, and `amita job cancel {job}` takes it back; \
                 the volume stays {stays} then."
            ),
        };
        let reader = metadata.reader();
        let is_made = |_: bool| -> Result<bool> {
            let volume = admin::copy_source(&reader, &asked).described()?;
            Ok(volume.is_some_and(|volume| volume.id == asked.volume))
        };
        let is_done = !self.no_wait && waiting.wait(metadata, is_made)?;
        Ok((job, is_done))
    }
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
    let keys = arguments.at_rest.keys(&arguments.keys, endpoints)?;
    let asked = Asked {
        wish: MigrateWish {
            volume: name,
            pool: Some(pool),
            at_rest: arguments.at_rest.wished(),
            limit_bytes_per_s: arguments.limit_rate,
            keys: keys.as_ref().map(|file| file as &dyn DataKeys),
            now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        },
        bar: (!arguments.json).then_some("moving"),
        no_wait: arguments.no_wait,
        taken_back: "the move of",
        goes_on: ["moved", "where it is"],
    };
    let (job, moved) = asked.carry_out(metadata)?;
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
