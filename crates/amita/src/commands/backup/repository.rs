//! `amita backup repository`: vaults are made, and repositories are made known to the cluster.

mod known;

use super::failure::Described as _;
use super::key::Key;
use super::target::{Place, is_of_key};
use crate::admin::Admin;
use crate::cli::Endpoints;
use amita_backup::store::try_out;
use amita_backup::{Cost, Error, Options, Vault};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::table::print;
use serde::Serialize;
use std::sync::Arc;

/// What to do with repositories.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a vault in a folder or a bucket: what one key opens of a repository
    ///
    /// Where there is no key file, one is made with 256 random bits; one that is there is taken, with a passphrase of your own in its first
    /// line. A repository may have vaults of several keys: nobody who has one of them can read another vault, or see that it has the same data.
    Init(InitArguments),
    /// Have the cluster know a repository, so that policies back up into it: where it is, and what its files are called at the nodes
    ///
    /// The vault is made by `init`, and the key file is brought to the nodes by you: it is never in the metadata. Nothing is asked of the
    /// repository here; `amita backup policy show` says what became of a run.
    Add(known::AddArguments),
    /// List the repositories that the cluster knows
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Change what the cluster knows of a repository
    Set(known::SetArguments),
    /// Have the cluster forget a repository that no policy uses; what is in it stays
    Remove {
        /// The repository
        name: String,
        /// Say what was forgotten as JSON
        #[arg(long)]
        json: bool,
    },
}

/// `amita backup repository init`.
#[derive(Debug, clap::Args)]
pub struct InitArguments {
    #[command(flatten)]
    pub place: Place,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Made {
    repository: String,
    vault: String,
    key_file: String,
    /// The key file was made, too.
    key_made: bool,
}

pub fn run(command: &Command, endpoints: &Endpoints) -> Result<()> {
    let connect = || Admin::connect(endpoints);
    match command {
        Command::Init(arguments) => init(arguments, endpoints.insecure_network()),
        Command::Add(arguments) => known::add(arguments, &connect()?),
        Command::List { json } => known::list(*json, &connect()?),
        Command::Set(arguments) => known::set(arguments, &connect()?),
        Command::Remove { name, json } => known::remove(name, *json, &connect()?),
    }
}

fn init(arguments: &InitArguments, plain: bool) -> Result<()> {
    let place = &arguments.place;
    let store = place.store(false, plain)?;
    let there = Vault::all(&*store).described()?;
    try_out(&*store).map_err(|why| {
        let what = format!("the repository {} cannot be used: {why}", place.repository);
        Failure::new(what).advice("Nothing was made in it.")
    })?;
    let (key, key_made) = match Key::find(&place.key_file)? {
        Some(key) => (key, false),
        None => (Key::make(&place.key_file)?, true),
    };
    // What was drawn just now opens nothing.
    for id in there.into_iter().filter(|_| !key_made) {
        let (store, options) = (Arc::clone(&store), Options::default());
        // Keys that cost more are none of this command's.
        let what = match Vault::open_within(store, id, key.bytes(), options, Cost::default(), &interrupt::caught) {
            Err(Error::Passphrase { .. } | Error::NoVault { .. }) => continue,
            Err(error) if is_of_key(&error) => {
                format!(
                    "whether the key file opens vault {id} in {} already is not known: {error}",
                    place.repository
                )
            }
            Err(Error::Ended) => return Err(Failure::interrupted()),
            // Damaged or not: it is this key's.
            _ => format!("the key file opens vault {id} in {} already", place.repository),
        };
        return Err(Failure::new(what).kind(Kind::Conflict).advice(
            "Back up into that one; or name another key file, which may not be there yet, for another vault.",
        ));
    }
    let vault = Vault::create(store, key.bytes(), key.cost(), Options::default()).described()?;
    let made = Made {
        repository: place.repository.clone(),
        vault: vault.id().to_string(),
        key_file: place.key_file.display().to_string(),
        key_made,
    };
    print(arguments.json, &made, || {
        format!(
            "Vault {} is made in {}.\nIts key is {}: keep a copy of that apart from the cluster and from the repository. Without it nothing can \
             be restored.\n",
            made.vault, made.repository, made.key_file
        )
    })
}
