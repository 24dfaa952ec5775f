//! `amita nbd`: volumes that are served by NBD, and to whom.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, ExportSpec};
use amita_terminal::error::Result;
use amita_terminal::table::{Table, print};
use amita_types::map::Export;
use serde::Serialize;

/// What to do with exports.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Serve a volume by NBD, to the clients that are named
    ///
    /// What it was exported as before is replaced: name all that shall hold. Clients that use it and may no more are cut off.
    Export(ExportArguments),
    /// Serve a volume by NBD no longer; its data stays
    Unexport(UnexportArguments),
    /// List the volumes that are served by NBD, and to whom
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// `amita nbd export`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("who").required(true).multiple(true))]
pub struct ExportArguments {
    /// The volume's name, which is the export's name too
    pub name: String,
    /// A client that may use it, by the name in its certificate; once for each
    #[arg(long = "client", value_name = "NAME", group = "who")]
    pub clients: Vec<String>,
    /// A tenant whose clients may use it: those that were made with `amita client create --tenant`; once for each
    #[arg(long = "tenant", value_name = "NAME", group = "who")]
    pub tenants: Vec<String>,
    /// Every program on the gateway's own machine may use it without proving anything, and every client that proves who
    /// it is. Whoever comes over the network and proves nothing is not served
    #[arg(long, group = "who")]
    pub any_client: bool,
    /// It may be read, not written
    #[arg(long)]
    pub read_only: bool,
    /// Also while the volume is a namespace that hosts have by NVMe: for clients that know of each other
    #[arg(long)]
    pub shared: bool,
    /// Say how it is exported as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita nbd unexport`.
#[derive(Debug, clap::Args)]
pub struct UnexportArguments {
    /// The volume's name
    pub name: String,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    name: &'a str,
    #[serde(flatten)]
    export: &'a Export,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(metadata)?;
    match command {
        Command::Export(arguments) => export(arguments, &metadata),
        Command::Unexport(arguments) => unexport(arguments, &metadata),
        Command::List { json } => list(*json, &metadata),
    }
}

fn export(arguments: &ExportArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let spec = ExportSpec {
        clients: arguments.clients.clone(),
        tenants: arguments.tenants.clone(),
        any_client: arguments.any_client,
        read_only: arguments.read_only,
        shared: arguments.shared,
    };
    let exported = metadata.act(Action::VolumeExport, name, |meta| {
        admin::export_volume(meta, name, &spec)
    });
    let export = exported.described()?;
    let shown = Shown { name, export: &export };
    print(arguments.json, &shown, || {
        format!("Volume {name} is exported by NBD: {}.\n", for_whom(&export))
    })
}

fn unexport(arguments: &UnexportArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let was_exported = metadata.act(Action::VolumeUnexport, name, |meta| admin::unexport_volume(meta, name));
    let was_exported = was_exported.described()?;
    let found = serde_json::json!({ "name": name, "was_exported": was_exported });
    print(arguments.json, &found, || match was_exported {
        true => format!("Volume {name} is exported no more; clients that had it open are cut off.\n"),
        false => format!("Volume {name} was not exported.\n"),
    })
}

fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    let volumes = metadata.status()?.volumes;
    let exported = volumes.iter().filter_map(|found| {
        let name = found.volume.name.as_str();
        found.export.as_ref().map(|export| Shown { name, export })
    });
    let exported: Vec<Shown<'_>> = exported.collect();
    print(as_json, &exported, || {
        let mut table = Table::new(&["volume", "id", "to"]);
        for Shown { name, export } in &exported {
            table.row([(*name).to_owned(), export.volume.to_string(), for_whom(export)]);
        }
        table.text()
    })
}

/// How a volume is exported, in a cell of a table.
pub(super) fn for_whom(export: &Export) -> String {
    let mut words = Vec::new();
    if export.any_client {
        words.push("any client".to_owned());
    }
    let tenants = export.tenants.iter().map(|tenant| format!("tenant {tenant}"));
    let named: Vec<String> = tenants.chain(export.clients.iter().cloned()).collect();
    match &named[..] {
        [] => {}
        few @ ([_] | [_, _] | [_, _, _]) => words.push(few.join(", ")),
        [first, rest @ ..] => words.push(format!("{first} and {} more", rest.len())),
    }
    if export.read_only {
        words.push("read-only".to_owned());
    }
    if export.shared {
        words.push("shared".to_owned());
    }
    words.join(", ")
}
