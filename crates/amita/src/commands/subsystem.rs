//! `amita subsystem`: what hosts connect to by NVMe/TCP.

use crate::admin::{Admin, Described, readable};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, NamespaceStatus, SubsystemChange, SubsystemSpec};
use amita_terminal::confirm;
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::Subsystem;
use serde::Serialize;

/// What to do with subsystems.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a subsystem; nobody may connect until hosts are allowed (`amita host allow`)
    Create(CreateArguments),
    /// List the subsystems
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a subsystem: who serves it, who may connect, and its namespaces
    Show {
        /// Its name
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Change who serves a subsystem, or whether any host may connect
    Set(SetArguments),
    /// Delete a subsystem; its volumes stay
    Delete {
        /// Its name
        name: String,
        /// Also when it has namespaces, or nobody can read its record: hosts lose their disks
        #[arg(long)]
        force: bool,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
        /// Ask nothing
        #[arg(long)]
        yes: bool,
    },
}

/// `amita subsystem create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// Its name
    pub name: String,
    /// Its NVMe qualified name [default: made of the cluster's id and the name]
    #[arg(long, value_name = "NQN")]
    pub nqn: Option<String>,
    /// A node that serves it; once for each [default: all nodes that serve NVMe]
    #[arg(long = "gateway", value_name = "NODE")]
    pub gateways: Vec<String>,
    /// Any host may connect, without being allowed
    #[arg(long)]
    pub any_host: bool,
    /// Refuse connections without TLS: only hosts that have a key for it can connect then (`amita host key --generate-tls`)
    #[arg(long)]
    pub require_tls: bool,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita subsystem set`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args([
    "gateways", "all_gateways", "any_host", "listed_hosts", "require_tls", "allow_plain"]))]
pub struct SetArguments {
    /// Its name
    pub name: String,
    /// A node that serves it; once for each
    #[arg(long = "gateway", value_name = "NODE", conflicts_with = "all_gateways")]
    pub gateways: Vec<String>,
    /// All nodes that serve NVMe serve it
    #[arg(long)]
    pub all_gateways: bool,
    /// Any host may connect, without being allowed
    #[arg(long, conflicts_with = "listed_hosts")]
    pub any_host: bool,
    /// Only hosts that are allowed may connect
    #[arg(long)]
    pub listed_hosts: bool,
    /// Refuse connections without TLS: only hosts that have a key for it can connect then; those that came without are cut off
    #[arg(long, conflicts_with = "allow_plain")]
    pub require_tls: bool,
    /// Hosts without a key for TLS connect without it
    #[arg(long)]
    pub allow_plain: bool,
    /// Say what it is now as JSON
    #[arg(long)]
    pub json: bool,
}

/// A subsystem, with what its namespaces are.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    nqn: String,
    serial: String,
    gateways: Vec<String>,
    any_host: bool,
    tls_required: bool,
    hosts: Vec<String>,
    namespaces: Vec<NamespaceStatus>,
}

impl Shown {
    fn of(subsystem: Subsystem, namespaces: Vec<NamespaceStatus>) -> Shown {
        Shown {
            name: subsystem.name,
            nqn: subsystem.nqn,
            serial: subsystem.serial,
            gateways: subsystem.gateways,
            any_host: subsystem.any_host,
            tls_required: subsystem.tls_required,
            hosts: subsystem.hosts,
            namespaces,
        }
    }

    fn served_by(&self) -> String {
        match &self.gateways[..] {
            [] => "all that serve NVMe".to_owned(),
            named => named.join(", "),
        }
    }

    fn open_to(&self) -> String {
        match (self.any_host, self.hosts.len()) {
            (true, _) => "any".to_owned(),
            (false, 0) => "nobody".to_owned(),
            (false, count) => count.to_string(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "subsystem  {}\nnqn        {}\nserial     {}\ngateways   {}\nhosts      {}{}\n",
            self.name,
            self.nqn,
            self.serial,
            self.served_by(),
            if self.any_host {
                "any may connect"
            } else if self.hosts.is_empty() {
                "nobody may connect"
            } else {
                "these may connect"
            },
            if self.tls_required { ", by TLS only" } else { "" }
        );
        for host in &self.hosts {
            text += &format!("           {host}\n");
        }
        if !self.namespaces.is_empty() {
            text += &format!("\n{}", table_of(&self.namespaces, false).text());
        }
        text
    }
}

/// The table of namespaces; with or without their subsystem.
pub(super) fn table_of(namespaces: &[NamespaceStatus], with_subsystem: bool) -> Table {
    let head = ["subsystem", "nsid", "volume", "size", "block", "uuid"];
    let from = usize::from(!with_subsystem);
    let mut table = Table::new(&head[from..]);
    for found in namespaces {
        let cells = [
            found.subsystem.clone(),
            found.namespace.nsid.to_string(),
            found.of(),
            found.size_bytes.map(size::show).unwrap_or_default(),
            found.namespace.block_bytes.to_string(),
            found.namespace.uuid.to_string(),
        ];
        table.row(cells.into_iter().skip(from));
    }
    table
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(metadata)?;
    let reader = metadata.reader();
    match command {
        Command::Create(arguments) => {
            let spec = SubsystemSpec {
                name: arguments.name.clone(),
                nqn: arguments.nqn.clone(),
                gateways: arguments.gateways.clone(),
                any_host: arguments.any_host,
                tls_required: arguments.require_tls,
            };
            let made = metadata.act(Action::SubsystemCreate, &spec.name, |meta| {
                admin::create_subsystem(meta, &spec)
            });
            let made = made.described()?;
            print(arguments.json, &made, || {
                let open = if made.any_host {
                    "Any host may connect."
                } else {
                    "Nobody may connect yet: see `amita host allow`."
                };
                format!("Subsystem {} is {}.\n{open}\n", made.name, made.nqn)
            })
        }
        Command::List { json } => list(*json, &metadata),
        Command::Show { name, json } => {
            let shown = Shown::of(
                admin::subsystem(&reader, name).described()?,
                admin::namespaces_of(&reader, name).described()?,
            );
            print(*json, &shown, || shown.text())
        }
        Command::Set(arguments) => {
            let change = SubsystemChange {
                gateways: (arguments.all_gateways || !arguments.gateways.is_empty())
                    .then(|| arguments.gateways.clone()),
                any_host: (arguments.any_host || arguments.listed_hosts).then_some(arguments.any_host),
                tls_required: (arguments.require_tls || arguments.allow_plain).then_some(arguments.require_tls),
            };
            let name = &arguments.name;
            let changed = metadata.act(Action::SubsystemSet, name, |meta| {
                admin::set_subsystem(meta, name, &change)
            });
            let changed = changed.described()?;
            let namespaces = admin::namespaces_of(&reader, name).described()?;
            let shown = Shown::of(changed, namespaces);
            print(arguments.json, &shown, || shown.text())
        }
        Command::Delete { name, force, json, yes } => {
            if *force {
                let mut lost = format!("Subsystem {name} goes, and all hosts lose the disks that they have by it.");
                if let Err(AdminError::Unreadable { .. }) = admin::subsystem(&reader, name) {
                    lost += " Nobody can read its record: its qualified name, the numbers of its namespaces and who may connect go with it, and \
                             have to be said anew. Its volumes stay.";
                }
                confirm::destroys(*yes, name, &lost)?;
            }
            metadata
                .act(Action::SubsystemDelete, name, |meta| {
                    admin::delete_subsystem(meta, name, *force)
                })
                .described()?;
            let found = serde_json::json!({ "name": name, "deleted": true });
            print(*json, &found, || format!("Subsystem {name} is deleted.\n"))
        }
    }
}

fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    // Which records cannot be read is said once, with the subsystems.
    let namespaces = admin::namespaces(&metadata.reader()).described()?.readable;
    let subsystems = readable(admin::subsystems(&metadata.reader())).described()?;
    let shown: Vec<Shown> = subsystems
        .into_iter()
        .map(|subsystem| {
            let own = namespaces.iter().filter(|known| known.subsystem == subsystem.name);
            let own = own.cloned().collect();
            Shown::of(subsystem, own)
        })
        .collect();
    print(as_json, &shown, || {
        let mut table = Table::new(&["subsystem", "namespaces", "hosts", "gateways", "nqn"]);
        for found in &shown {
            table.row([
                found.name.clone(),
                found.namespaces.len().to_string(),
                found.open_to(),
                found.served_by(),
                found.nqn.clone(),
            ]);
        }
        table.text()
    })
}
