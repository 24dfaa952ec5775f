//! `amita client`.

use crate::cli::Folder;
use crate::commands::events::parse_age;
use crate::commands::join::{self, CaArguments, CreateArguments, Described, JoinArguments};
use amita_identity::{CLIENT_LIFE, ClientChange, ClientTerms, GrantedClient, IdentityError, Name, Role};
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use amita_types::VolumeId;
use amita_types::capability::{Capability, Entry, Grant, Rights, Scope};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// What to do with clients.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a client's identity: a folder, here; or with --token what lets it join from its own machine
    ///
    /// With --tenant or --volume its certificates carry a capability: which volumes its programs may use through any node, by
    /// libamita or any client of NBD. They are renewed by what the authority has noted then. Without either the client is known by
    /// its name only, which is what `amita nbd export --client` asks for.
    Create {
        #[command(flatten)]
        create: CreateArguments,
        #[command(flatten)]
        grant: GrantArguments,
        #[command(flatten)]
        nodes: NodesArguments,
    },
    /// Change what a client was granted: its next certificate says so, at half of the life of the one that it has
    ///
    /// What it has already counts until it ends; `amita cert revoke client/NAME` ends it at once.
    Change {
        /// Its name
        name: String,
        #[command(flatten)]
        ca: CaArguments,
        #[command(flatten)]
        grant: GrantArguments,
        /// Say what it has now as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the clients that were granted something, by what the authority has noted: on its machine
    List {
        #[command(flatten)]
        ca: CaArguments,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Get a client an identity with a token: its key is made here, and never leaves
    Join {
        #[command(flatten)]
        join: JoinArguments,
        #[command(flatten)]
        nodes: NodesArguments,
    },
}

/// Where a client finds the cluster.
#[derive(Debug, clap::Args)]
pub struct NodesArguments {
    /// Where nodes serve NBD (`amita node list`), for programs with libamita: once for each, or divided by commas. Written into the
    /// identity's file `nodes`, a line each
    #[arg(long = "nodes", value_name = "HOST:PORT", value_delimiter = ',')]
    pub nodes: Vec<String>,
}

impl NodesArguments {
    /// Said before anything is made.
    fn check(&self) -> Result<()> {
        let is_place = |text: &&String| {
            let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
        };
        match self.nodes.iter().find(|text| !is_place(text)) {
            None => Ok(()),
            Some(wrong) => Err(usage(format!("--nodes: {wrong:?} is not HOST:PORT"))),
        }
    }

    fn note(&self, identity: &Folder) -> Result<()> {
        if self.nodes.is_empty() {
            return Ok(());
        }
        let path = identity.wanted()?.join("nodes");
        let text: String = self.nodes.iter().map(|node| format!("{node}\n")).collect();
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        // The identity is made by then, and cannot be made again.
        written
            .context(|| format!("the identity is made, and {} cannot be written", path.display()))
            .map_err(|failure| failure.advice("Write it by hand: where nodes serve NBD, a HOST:PORT each line."))
    }
}

/// What a client is granted.
#[derive(Debug, clap::Args)]
pub struct GrantArguments {
    /// It may use the volumes that are exported to this tenant (`amita nbd export --tenant`)
    #[arg(long, value_name = "TENANT", conflicts_with = "volumes")]
    pub tenant: Option<String>,
    /// A volume that it may use, by its number (`amita volume list`), which stays whatever the volume is called and
    /// reverted to; once for each, 64 at most
    #[arg(long = "volume", value_name = "NUMBER")]
    pub volumes: Vec<VolumeId>,
    /// All of that may be read, not written
    #[arg(long)]
    pub read_only: bool,
    /// How long each of its certificates is valid, 10m to 7d [default: 24h]
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub life: Option<Duration>,
}

impl GrantArguments {
    fn is_empty(&self) -> bool {
        self.tenant.is_none() && self.volumes.is_empty() && !self.read_only && self.life.is_none()
    }

    /// What was given.
    fn change(&self) -> Result<ClientChange> {
        let entry = |scope| Entry {
            scope,
            rights: if self.read_only { Rights::READ } else { Rights::ALL },
        };
        let volumes = self.volumes.iter().map(|volume| entry(Scope::Volume(*volume)));
        let grant = match &self.tenant {
            Some(tenant) => Some(Grant::new(tenant, vec![entry(Scope::Tenant)])),
            None if !self.volumes.is_empty() => Some(Grant::new("", volumes.collect())),
            None if self.read_only => {
                return Err(usage("--read-only is for --tenant or --volume".to_owned()));
            }
            None => None,
        };
        Ok(ClientChange {
            grant: grant
                .transpose()
                .map_err(|why| usage(format!("that cannot be granted: {why}")))?,
            life: self.life,
        })
    }

    /// What was given, and what is usual.
    fn terms(&self) -> Result<ClientTerms> {
        let given = self.change()?;
        let grant = given
            .grant
            .ok_or_else(|| usage("--life is for --tenant or --volume".to_owned()))?;
        Ok(ClientTerms {
            grant,
            life: given.life.unwrap_or(CLIENT_LIFE),
        })
    }
}

fn usage(what: String) -> Failure {
    Failure::new(what).kind(Kind::Usage)
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, identity: &Folder) -> Result<()> {
    match command {
        Command::Create { create, grant, nodes } => {
            nodes.check()?;
            if create.token && !nodes.nodes.is_empty() {
                return Err(usage(
                    "--nodes is noted where the client is made: pass it to `amita client join`".to_owned(),
                ));
            }
            if !grant.is_empty() {
                let terms = grant.terms()?;
                // What is granted stays granted: not before it is sure that there is a place for it.
                create.check_place(identity)?;
                let authority = create.ca.open()?;
                let name = named(authority.cluster(), &create.name)?;
                authority.grant(&name, &terms).described()?;
            }
            join::create(create, Role::Client, identity)?;
            if create.token { Ok(()) } else { nodes.note(identity) }
        }
        Command::Change { name, ca, grant, json } => change(name, ca, grant, *json),
        Command::List { ca, json } => list(ca, *json),
        Command::Join { join, nodes } => {
            nodes.check()?;
            join::join(join, Role::Client, identity)?;
            nodes.note(identity)
        }
    }
}

fn named(cluster: amita_types::ClusterId, name: &str) -> Result<Name> {
    Name::new(cluster, Role::Client, name)
        .map_err(IdentityError::from)
        .described()
}

fn change(name: &str, ca: &CaArguments, grant: &GrantArguments, as_json: bool) -> Result<()> {
    if grant.is_empty() {
        return Err(Failure::new("what is to change? Nothing was given")
            .kind(Kind::Usage)
            .advice("Pass --tenant, --volume or --life."));
    }
    let authority = ca.open()?;
    let name = named(authority.cluster(), name)?;
    let clients = authority.granted().described()?;
    if !clients.iter().any(|client| client.name == name) {
        return Err(Failure::new(format!("{name} was granted nothing yet"))
            .kind(Kind::NotFound)
            .advice("`amita client create` with --tenant or --volume does that."));
    }
    let changed = authority.change_grant(&name, &grant.change()?).described()?;
    print(as_json, &shown_client(&changed), || {
        format!(
            "{name} has {} from its next certificate on. What it has now counts until it ends; `amita cert show` there says when.\n",
            entries_text(&changed.grant)
        )
    })
}

fn list(ca: &CaArguments, as_json: bool) -> Result<()> {
    let clients = ca.open()?.granted().described()?;
    let shown: Vec<Value> = clients.iter().map(shown_client).collect();
    print(as_json, &shown, || {
        let mut table = Table::new(&["client", "may use", "tenant", "life", "since"]);
        for client in &clients {
            table.row([
                client.name.name().to_owned(),
                entries_text(&client.grant),
                client.grant.tenant().to_owned(),
                format!("{} s", client.life.as_secs()),
                client.at.to_string(),
            ]);
        }
        table.text()
    })
}

fn shown_client(client: &GrantedClient) -> Value {
    let mut shown = shown_grant(&client.grant);
    shown["name"] = json!(client.name.to_string());
    shown["life_s"] = json!(client.life.as_secs());
    shown["since"] = json!(client.at.0);
    shown
}

fn shown_grant(grant: &Grant) -> Value {
    let entry = |entry: &Entry| {
        let (kind, number) = match entry.scope {
            Scope::Volume(volume) => ("volume", Some(volume.0)),
            Scope::Pool(pool) => ("pool", Some(u64::from(pool.0))),
            Scope::Tenant => ("tenant", None),
        };
        json!({ "kind": kind, "number": number, "rights": entry.rights.to_string() })
    };
    json!({
        "tenant": grant.tenant(),
        "entries": grant.entries().iter().map(entry).collect::<Vec<_>>(),
    })
}

/// What a grant is about, for people. Less than all rights are named.
fn entries_text(grant: &Grant) -> String {
    let entry = |entry: &Entry| match entry.rights {
        Rights::ALL => entry.scope.to_string(),
        less => format!("{} ({less})", entry.scope),
    };
    let entries: Vec<String> = grant.entries().iter().map(entry).collect();
    if entries.is_empty() {
        return "nothing".to_owned();
    }
    entries.join(", ")
}

/// The capability of a certificate, for `amita cert show`.
pub(crate) fn shown_capability(capability: &Capability) -> Value {
    let mut shown = shown_grant(&capability.grant);
    shown["made"] = json!(capability.made_s);
    shown
}

/// The same for people: a line.
pub(crate) fn capability_text(capability: &Capability) -> String {
    let tenant = match capability.grant.tenant() {
        "" => String::new(),
        tenant => format!(" (tenant {tenant})"),
    };
    format!(
        "It may use {}{tenant}. Made {}.\n",
        entries_text(&capability.grant),
        amita_identity::UnixSeconds(capability.made_s)
    )
}
