//! `amita node`.

mod ready;

use crate::admin::{Admin, Described};
use crate::cli::{Endpoints, Folder};
use crate::commands::{join, outlook};
use amita_control::access::Action;
use amita_control::admin;
use amita_identity::Role;
use amita_terminal::confirm;
use amita_terminal::error::Result;
use amita_terminal::table::{Table, print};
use amita_types::map::Node;

/// What to do with nodes.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a token that lets one machine in, as the node of this name: on the authority's machine
    ///
    /// The token is good once, for 15 minutes. It is a secret: hand it over by a file or a pipe, as in `amita node token n1
    /// --ca ca | ssh n1 amita node join n1 --token-file - ...`.
    Token {
        #[command(flatten)]
        token: join::TokenArguments,
        /// For a gateway: it serves no stores
        #[arg(long)]
        gateway: bool,
    },
    /// Get this machine an identity with a token: its key is made here, and never leaves
    Join {
        #[command(flatten)]
        join: join::JoinArguments,
        /// As a gateway: the token was made with this as well
        #[arg(long)]
        gateway: bool,
    },
    /// List the nodes: where they are, whether they live
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say whether a node is ready: it serves its stores, and they have every block that was written; the exit code says it, too
    ///
    /// For whoever takes one node down after the other, and waits for each (rolling updates, readiness probes): 0 it is ready, 5 it is not; why not is said.
    /// A node is not ready while it catches up with what was written when it was away, and while groups move to it.
    Ready {
        /// The node's name
        node: String,
        /// A disk that it is to serve; several times for several [default: what it serves, and what groups need of it]
        #[arg(long = "store", value_name = "DISK")]
        stores: Vec<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Begin or end a node's maintenance: while it lasts, the node's absence is expected and its stores are not replaced
    ///
    /// It is refused while writes could not go on without the node.
    Maintenance {
        /// Begin or end it
        #[arg(value_enum)]
        state: State,
        /// The node's name
        node: String,
        /// Also when writes of some groups will wait while it is away
        #[arg(long)]
        force: bool,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a node that is not coming back out of the cluster's records, with its stores
    ///
    /// It is refused while the node lives, and while groups still need its stores: drain them first.
    Remove {
        /// The node's name
        node: String,
        /// Say what was removed as JSON
        #[arg(long)]
        json: bool,
        /// Ask nothing
        #[arg(long)]
        yes: bool,
    },
    /// Say where a node stands, so that copies are kept apart
    Place {
        /// The node's name
        node: String,
        /// The site
        #[arg(long, required_unless_present = "rack")]
        site: Option<String>,
        /// The rack, unique in its site
        #[arg(long)]
        rack: Option<String>,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum State {
    /// It begins
    On,
    /// It ends
    Off,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints, identity: &Folder) -> Result<()> {
    let role = |gateway: bool| if gateway { Role::Gateway } else { Role::Node };
    match command {
        Command::Token { token, gateway } => join::token(token, role(*gateway)),
        Command::Join { join, gateway } => join::join(join, role(*gateway), identity),
        Command::List { json } => list(*json, metadata),
        Command::Ready { node, stores, json } => ready::run(node, stores, *json, metadata),
        Command::Maintenance {
            state,
            node,
            force,
            json,
        } => maintain(*state, node, *force, *json, metadata),
        Command::Remove { node, json, yes } => remove(node, *json, *yes, metadata),
        Command::Place { node, site, rack, json } => place(node, site.as_deref(), rack.as_deref(), *json, metadata),
    }
}

fn maintain(state: State, node: &str, force: bool, as_json: bool, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let on = state == State::On;
    let changed = admin.act(Action::NodeMaintenance, node, |meta| {
        admin::maintain_node(meta, node, on, force)
    });
    print(as_json, &changed.described()?, || match state {
        State::On => {
            format!("Node {node} is in maintenance: it may be stopped, and its stores are not replaced meanwhile.\n")
        }
        State::Off => format!("Node {node} is no longer in maintenance.\n"),
    })
}

fn remove(name: &str, as_json: bool, yes: bool, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let lost = format!("Node {name} goes out of the cluster's records, with its stores.");
    confirm::destroys(yes, name, &lost)?;
    let removed = admin.act(Action::NodeRemove, name, |meta| admin::remove_node(meta, name));
    let node = removed.described()?;
    print(as_json, &node, || {
        format!("The cluster knows node {name} (number {}) no more.\n", node.id)
    })
}

fn place(node: &str, site: Option<&str>, rack: Option<&str>, as_json: bool, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let placed = admin.act(Action::NodePlace, node, |meta| {
        admin::place_node(meta, node, site, rack)
    });
    let (record, found) = placed.described()?;
    print(
        as_json,
        &serde_json::json!({ "node": record, "outlook": found }),
        || format!("Node {node} stands in {}.\n{}", stands(&record), outlook(found)),
    )
}

fn stands(node: &Node) -> String {
    match (node.site.as_str(), node.rack.as_str()) {
        ("", "") => "no named place".to_owned(),
        (site, "") => format!("site {site}"),
        ("", rack) => format!("rack {rack}"),
        (site, rack) => format!("site {site}, rack {rack}"),
    }
}

fn list(as_json: bool, metadata: &Endpoints) -> Result<()> {
    let nodes = Admin::connect(metadata)?.status()?.nodes;
    print(as_json, &nodes, || {
        let mut table = Table::new(&[
            "node",
            "id",
            "alive",
            "cores",
            "fabric",
            "nbd",
            "nvme",
            "iscsi",
            "site",
            "rack",
            "maintenance",
        ]);
        for found in &nodes {
            let node = &found.node;
            table.row([
                node.name.clone(),
                node.id.to_string(),
                if found.alive { "yes" } else { "NO" }.to_owned(),
                node.cores.to_string(),
                std::iter::once(&node.fabric)
                    .chain(&node.fabric2)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", "),
                [&node.nbd, &node.nbd_socket]
                    .into_iter()
                    .flatten()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", "),
                node.nvme.clone().unwrap_or_default(),
                found.iscsi.join(", "),
                node.site.clone(),
                node.rack.clone(),
                if node.maintenance { "on" } else { "" }.to_owned(),
            ]);
        }
        table.text()
    })
}
