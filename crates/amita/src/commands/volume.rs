//! `amita volume`.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::error::Result;
use crate::size;
use crate::table::{Table, print};
use amita_control::admin;

/// What to do with volumes.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a volume; it is thin: space is taken when a block is first written
    Create(CreateArguments),
    /// List the volumes
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a volume: its data is gone
    Delete(DeleteArguments),
}

/// `amita volume create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// Its name, by which hosts ask for it
    pub name: String,
    /// The pool that holds it
    #[arg(long, value_name = "NAME")]
    pub pool: String,
    /// Bytes, or with K, M, G, T; a multiple of 4096
    #[arg(long, value_name = "SIZE", value_parser = size::parse_blocks)]
    pub size: u64,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArguments {
    /// Its name
    pub name: String,
    /// Also when a gateway that lives owns it
    #[arg(long)]
    pub force: bool,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(metadata)?;
    match command {
        Command::Create(arguments) => {
            let made = admin::create_volume(metadata.client(), &arguments.name, &arguments.pool, arguments.size);
            let volume = made.described()?;
            print(arguments.json, &volume, || {
                format!(
                    "Volume {} has {} in pool {}.\n",
                    volume.name,
                    size::show(volume.size_bytes),
                    volume.pool
                )
            })
        }
        Command::List { json } => list(*json, &metadata),
        Command::Delete(arguments) => {
            admin::delete_volume(metadata.client(), &arguments.name, arguments.force).described()?;
            println!("Volume {} is deleted.", arguments.name);
            Ok(())
        }
    }
}

fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    let volumes = metadata.status()?.volumes;
    print(as_json, &volumes, || {
        let mut table = Table::new(&["volume", "id", "pool", "size", "owner", "alive"]);
        for found in &volumes {
            let volume = &found.volume;
            let alive = match (&found.owner_name, found.owner_alive) {
                (None, _) => "",
                (Some(_), true) => "yes",
                (Some(_), false) => "NO",
            };
            table.row([
                volume.name.clone(),
                volume.id.to_string(),
                volume.pool.clone(),
                size::show(volume.size_bytes),
                found.owner_name.clone().unwrap_or_default(),
                alive.to_owned(),
            ]);
        }
        table.text()
    })
}
