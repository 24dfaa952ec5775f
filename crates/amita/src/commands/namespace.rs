//! `amita namespace`: volumes, and snapshots of them, under a number in a subsystem.

use super::subsystem::table_of;
use crate::admin::{Admin, Described, readable};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin;
use amita_terminal::error::Result;
use amita_terminal::table::print;

/// What to do with namespaces.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a volume, or a snapshot, a namespace of a subsystem; hosts that are connected see it at once
    Add(AddArguments),
    /// Take a namespace out of a subsystem; hosts that are connected lose the disk, its volume stays
    Remove {
        /// The subsystem's name
        subsystem: String,
        /// The namespace's number
        nsid: u32,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the namespaces
    List {
        /// Only those of this subsystem
        subsystem: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// `amita namespace add`.
#[derive(Debug, clap::Args)]
pub struct AddArguments {
    /// The subsystem's name
    pub subsystem: String,
    /// The volume's name, or VOLUME@SNAPSHOT: what the volume was then, to be read only
    pub volume: String,
    /// Its number, 1 to 1024 [default: the one after the highest]
    #[arg(long, value_name = "N")]
    pub nsid: Option<u32>,
    /// Bytes of a logical block: 4096, or 512 for hosts that know nothing else
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    pub block_size: u32,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(metadata)?;
    match command {
        Command::Add(arguments) => {
            let AddArguments {
                subsystem,
                volume,
                nsid,
                block_size,
                json,
            } = arguments;
            let object = format!("{volume} in {subsystem}");
            let made = metadata.act(Action::NamespaceAdd, &object, |meta| {
                admin::add_namespace(meta, subsystem, volume, *nsid, *block_size)
            });
            let made = made.described()?;
            print(*json, &made, || {
                let (what, how) = match made.snapshot {
                    None => ("Volume", ""),
                    Some(_) => ("Snapshot", ", write protected"),
                };
                format!(
                    "{what} {volume} is namespace {} of subsystem {subsystem}, with blocks of {} bytes{how}: {}.\n",
                    made.nsid, made.block_bytes, made.uuid
                )
            })
        }
        Command::Remove { subsystem, nsid, json } => {
            metadata
                .act(Action::NamespaceRemove, &format!("{nsid} of {subsystem}"), |meta| {
                    admin::remove_namespace(meta, subsystem, *nsid)
                })
                .described()?;
            let found = serde_json::json!({ "subsystem": subsystem, "nsid": nsid, "removed": true });
            print(*json, &found, || {
                format!("Subsystem {subsystem} has no namespace {nsid} any more; its volume stays.\n")
            })
        }
        Command::List { subsystem, json } => {
            let found = match subsystem {
                Some(subsystem) => admin::namespaces_of(&metadata.reader(), subsystem),
                None => readable(admin::namespaces(&metadata.reader())),
            };
            let found = found.described()?;
            print(*json, &found, || table_of(&found, true).text())
        }
    }
}
