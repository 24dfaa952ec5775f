//! The command line: what there is, and what each word means. Help, flags and environment come from here alone.

use crate::admin::metadata_failure;
use crate::by_api::given::Given;
use crate::commands::core_dumps::CoreDumps;
use crate::commands::join::Described;
use crate::commands::{
    alert, audit, backup, ca, cert, client, cluster, completions, csi, disk, events, explain, history, host, initiator,
    inspect, job, lun, man, meta, mirror, namespace, nbd, node, notify, operator, pool, recover, recovery, serve,
    snapshot_policy, status, store, subsystem, support_bundle, target, tenant, token, top, trace, volume,
};
use crate::demo;
use amita_api::Files;
use amita_control::access::Caller;
use amita_identity::{Actor, Clock, Live};
use amita_keys::{SealKey, Zeroizing};
use amita_metadata::Client;
use amita_metadata::client::{Options, Tls, User};
use amita_node::volume_keys::KeyFile;
use amita_terminal::error::{Failure, Kind, Result};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use log::LevelFilter;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Software-defined flash storage
///
/// A cluster is a metadata service (etcd, or `amita meta` on one machine) and nodes (`amita serve`), each with stores
/// (`amita disk format`). Pools say how many copies there are, volumes are what hosts use. `amita demo` shows all of it
/// on this machine.
#[derive(Debug, Parser)]
#[command(name = "amita", version, long_version = crate::VERSION, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// Where the metadata is: etcd's client addresses, or those of `amita meta`
    #[arg(long, global = true, env = "AMITA_METADATA", value_name = "HOST:PORT[,...]")]
    pub metadata: Option<String>,
    /// The folder with the identity that this command or process has: its key, its certificate, and what it trusts
    #[arg(long, global = true, env = "AMITA_IDENTITY", value_name = "DIR")]
    pub identity: Option<PathBuf>,
    /// The user of etcd, where the metadata has users
    #[arg(long, global = true, env = "AMITA_METADATA_USER", value_name = "NAME")]
    pub metadata_user: Option<String>,
    /// The file with the user's password, for its owner alone (mode 0600)
    #[arg(long, global = true, env = "AMITA_METADATA_PASSWORD_FILE", value_name = "FILE")]
    pub metadata_password_file: Option<PathBuf>,
    /// Believe whoever is on the network: speak plainly to metadata on other machines, serve peers and clients that prove
    /// nothing. For networks of the cluster's own
    #[arg(long, global = true, env = "AMITA_INSECURE_NETWORK", value_parser = clap::builder::BoolishValueParser::new())]
    pub insecure_network: bool,
    /// Where nodes serve the API (`amita serve --api`): the command is carried out by one of them, with your rights, and by the next one
    /// where that does not answer; files are read and written here. In place of --metadata; as who the certificate of --identity says, or a
    /// token
    #[arg(long, global = true, env = "AMITA_BY_API", value_name = "HOST:PORT[,...]")]
    pub by_api: Option<String>,
    /// The file with a token of the API, for its owner alone (mode 0600), for --by-api; AMITA_TOKEN is the token itself
    #[arg(long, global = true, env = "AMITA_TOKEN_FILE", value_name = "FILE")]
    pub api_token_file: Option<PathBuf>,
    /// Authorities (PEM) of the certificates that nodes show to browsers (`amita serve --api-certificate`), for --by-api without an
    /// identity, by a token [default: the system's]
    #[arg(long, global = true, env = "AMITA_API_AUTHORITY", value_name = "FILE")]
    pub api_authority: Option<PathBuf>,
    /// How much to say on standard error
    #[arg(long, global = true, env = "AMITA_LOG", value_name = "LEVEL", default_value = "info")]
    pub log: LogLevel,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// How it was given.
    #[arg(skip)]
    pub given: Given,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong command line, or a disk that cannot be looked at; 3 the metadata or a node cannot be \
reached; 4 what was named does not exist; 5 it exists already or is in use; 141 whoever read the answer has gone.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node: serve stores to the cluster and volumes to hosts
    Serve(Box<serve::Arguments>),
    /// Run the embedded metadata server, for one machine
    Meta(meta::Arguments),
    /// The cluster: make its certificate authority and its first operator
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// The certificate authority: serve it, look at it, exchange it
    #[command(subcommand)]
    Ca(ca::Command),
    /// Certificates: look at them, renew and revoke them
    #[command(subcommand)]
    Cert(cert::Command),
    /// Disks: make stores of them, look at them, drain and replace them
    #[command(subcommand)]
    Disk(disk::Command),
    /// Stores: look at what is on a disk, and whether it is sound
    #[command(subcommand)]
    Store(store::Command),
    /// Nodes: let them in, list them, say where they stand, maintain them
    #[command(subcommand)]
    Node(node::Command),
    /// Clients: give programs that use volumes an identity
    #[command(subcommand)]
    Client(client::Command),
    /// Operators: give people that manage the cluster an identity
    #[command(subcommand)]
    Operator(operator::Command),
    /// Tokens: let programs use the REST API without a certificate
    #[command(subcommand)]
    Token(token::Command),
    /// Kubernetes: serve the driver of the Container Storage Interface
    #[command(subcommand)]
    Csi(csi::Command),
    /// Pools: make, list and change them
    #[command(subcommand)]
    Pool(pool::Command),
    /// Tenants: whose volumes are, and how much all of one may do
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Volumes: make, list, grow, move and delete them, and hand them to hosts
    #[command(subcommand)]
    Volume(volume::Command),
    /// Snapshot policies: snapshots of volumes that are taken by themselves, and which of them are kept
    #[command(subcommand)]
    SnapshotPolicy(Box<snapshot_policy::Command>),
    /// Backups: copies of volumes in a repository apart from the cluster, and restoring them
    #[command(subcommand)]
    Backup(Box<backup::Command>),
    /// Mirrors: volumes that another cluster has as well, to go on there when this one is gone
    #[command(subcommand)]
    Mirror(Box<mirror::Command>),
    /// NBD: which volumes are served by it, and to whom
    #[command(subcommand)]
    Nbd(nbd::Command),
    /// Subsystems: what hosts connect to by NVMe/TCP
    #[command(subcommand)]
    Subsystem(subsystem::Command),
    /// Namespaces: volumes under a number in a subsystem
    #[command(subcommand)]
    Namespace(namespace::Command),
    /// Hosts: who may connect by NVMe/TCP, and what they have to prove
    #[command(subcommand)]
    Host(host::Command),
    /// Targets: what initiators log in to by iSCSI
    #[command(subcommand)]
    Target(target::Command),
    /// LUNs: volumes under a number in a target
    #[command(subcommand)]
    Lun(lun::Command),
    /// Initiators: who may log in by iSCSI, what they see, and what they have to prove
    #[command(subcommand)]
    Initiator(initiator::Command),
    /// Recovery: how hard it may work, and what becomes of slow stores
    #[command(subcommand)]
    Recovery(recovery::Command),
    /// Jobs: what takes long, of all kinds; pause it, have it go on, take it back
    #[command(subcommand)]
    Job(job::Command),
    /// Rebuild the metadata from what the stores know
    ///
    /// For metadata that is lost, or that was restored from an older copy. Every store keeps a copy of all records, and
    /// knows the newest membership of its groups and the newest owner of its volumes; the newest of all stores counts. All
    /// nodes must be stopped. Every store that was in sync last must be looked at: what is missing is said, and nothing is
    /// written.
    Recover(recover::Arguments),
    /// Is the cluster well?
    Status(status::Arguments),
    /// What volumes, stores and cores are doing now
    Top(top::Arguments),
    /// What it did before: an hour ago, yesterday, up to 30 days
    ///
    /// Each node keeps its figures in a file of its own (`amita serve --history`), and any node answers for all of them.
    History(history::Arguments),
    /// Where the time of single I/Os went
    ///
    /// One in a thousand I/Os is traced through all of its stages, and every I/O that takes much longer than others is
    /// kept (`amita serve --trace-one-in`, `--slow-ms`). Times at a store are its own; the way there and back is what is left.
    Trace(trace::Arguments),
    /// Alerts: what is wrong and told to people, who looks after it, and what is not told for a time
    #[command(subcommand)]
    Alert(alert::Command),
    /// Whom alerts are told: by webhook, mail and syslog
    #[command(subcommand)]
    Notify(notify::Command),
    /// What happened, and why
    Events(events::Arguments),
    /// Who did what: the audit log, whether it is whole, and shipping it elsewhere
    #[command(subcommand)]
    Audit(audit::Command),
    /// What an experienced operator would look at: clocks, networks, kernels, disks, capacity, single points of failure
    ///
    /// Each finding says where it is, what was seen, and what to do; what could not be looked at is listed. Nodes tell what their
    /// machines are like when that changes, and once an hour.
    Inspect(inspect::Arguments),
    /// Pack what somebody who helps has to see into one archive, without secrets
    SupportBundle(support_bundle::Arguments),
    /// What a word means that a status, an event, an error or the audit log has, and what to do about it
    Explain(explain::Arguments),
    /// Print what makes a shell complete these commands
    Completions(completions::Arguments),
    /// Write the manual's pages: one of each command
    Man(man::Arguments),
    /// Show everything on this machine: a cluster, a volume, a killed node, all data intact
    Demo(demo::Arguments),
}

/// How much to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only what a person must look at
    Error,
    /// And what is not as it should be
    Warn,
    /// And what goes on
    Info,
    /// And what explains it
    Debug,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Error => LevelFilter::Error,
            LogLevel::Warn => LevelFilter::Warn,
            LogLevel::Info => LevelFilter::Info,
            LogLevel::Debug => LevelFilter::Debug,
        }
    }
}

impl Command {
    /// What a crash of it may leave behind. Keys are in all of them: the caller's own, tokens, the authority's.
    fn core_dumps(&self) -> CoreDumps {
        match self {
            Command::Serve(arguments) => arguments.core_dumps,
            Command::Meta(arguments) => arguments.core_dumps,
            Command::Ca(ca::Command::Serve { core_dumps, .. }) => *core_dumps,
            // Its keys are thrown away with it, and what it starts settles this for itself.
            Command::Demo(_) => CoreDumps { core_dumps: true },
            _ => CoreDumps::default(),
        }
    }
}

/// Why a command line was not taken.
#[derive(Debug)]
pub enum Unread {
    /// Help or the version was asked for, or a person is told what is wrong.
    Told(clap::Error),
    /// A script is told what is wrong.
    Json(Failure),
}

/// Reads a command line; and whether answers, and errors, are to be JSON.
///
/// # Errors
/// It is wrong; or help was asked for.
pub fn read<I: IntoIterator<Item = OsString>>(words: I) -> std::result::Result<(Cli, bool), Unread> {
    read_as(Cli::command(), words)
}

/// The same by what clap is to know of the commands.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_as<I: IntoIterator<Item = OsString>>(
    commands: clap::Command,
    words: I,
) -> std::result::Result<(Cli, bool), Unread> {
    let words: Vec<OsString> = words.into_iter().collect();
    let matches = commands.try_get_matches_from(&words);
    let read = matches.and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        cli.given = Given::of(&matches);
        Ok((cli, wants_json(&matches)))
    });
    read.map_err(
        |error| match words.iter().any(|word| word == "--json") && error.use_stderr() {
            true => Unread::Json(usage(&error)),
            false => Unread::Told(error),
        },
    )
}

/// Was `--json` given to the command, whichever it is?
fn wants_json(matches: &clap::ArgMatches) -> bool {
    let own = matches.try_get_one::<bool>("json").ok().flatten() == Some(&true);
    own || matches.subcommand().is_some_and(|(_, inner)| wants_json(inner))
}

/// A wrong command line: what is wrong is the message, and what would be right the advice.
fn usage(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let (what, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let advice: Vec<&str> = rest.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let what: Vec<&str> = what.trim_start_matches("error: ").lines().map(str::trim).collect();
    Failure::new(what.join(" ")).kind(Kind::Usage).advice(advice.join(" "))
}

/// Does what the command line says.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(cli: Cli) -> Result<()> {
    cli.command.core_dumps().settle();
    let metadata = Endpoints {
        lent: None,
        given: cli.metadata,
        identity: cli.identity.clone(),
        user: cli.metadata_user,
        password_file: cli.metadata_password_file,
        insecure_network: cli.insecure_network,
    };
    carry_out(cli.command, &metadata, &Folder(cli.identity))
}

/// Carries a command out, for whom the metadata is reached as.
///
/// # Errors
/// Says what happened, where, and what to do.
pub(crate) fn carry_out(command: Command, metadata: &Endpoints, identity: &Folder) -> Result<()> {
    let insecure_network = metadata.insecure_network;
    match command {
        Command::Meta(arguments) => meta::run(&arguments, identity.given(), insecure_network),
        Command::Serve(arguments) => serve::run(&arguments, metadata, identity),
        Command::Cluster(command) => cluster::run(&command, identity, metadata),
        Command::Ca(command) => ca::run(&command),
        Command::Cert(command) => cert::run(&command, identity),
        Command::Client(command) => client::run(&command, identity),
        Command::Operator(command) => operator::run(&command, identity),
        Command::Disk(command) => disk::run(&command, metadata),
        Command::Store(command) => store::run(&command),
        Command::Node(command) => node::run(&command, metadata, identity),
        Command::Csi(command) => csi::run(&command),
        Command::Pool(command) => pool::run(&command, metadata),
        Command::Tenant(command) => tenant::run(&command, metadata),
        Command::Volume(command) => volume::run(&command, metadata),
        Command::SnapshotPolicy(command) => snapshot_policy::run(&command, metadata),
        Command::Backup(command) => backup::run(&command, metadata),
        Command::Mirror(command) => mirror::run(&command, metadata),
        Command::Nbd(command) => nbd::run(&command, metadata),
        Command::Subsystem(command) => subsystem::run(&command, metadata),
        Command::Namespace(command) => namespace::run(&command, metadata),
        Command::Host(command) => host::run(&command, metadata),
        Command::Target(command) => target::run(&command, metadata),
        Command::Lun(command) => lun::run(&command, metadata),
        Command::Initiator(command) => initiator::run(&command, metadata),
        Command::Recovery(command) => recovery::run(&command, metadata),
        Command::Job(command) => job::run(&command, metadata),
        Command::Recover(arguments) => recover::run(&arguments, metadata),
        Command::Status(arguments) => status::run(&arguments, metadata),
        Command::Top(arguments) => top::run(&arguments, metadata),
        Command::History(arguments) => history::run(&arguments, metadata),
        Command::Trace(arguments) => trace::run(&arguments, metadata),
        Command::Token(command) => token::run(&command, metadata),
        Command::Alert(command) => alert::run(&command, metadata),
        Command::Notify(command) => notify::run(&command, metadata),
        Command::Events(arguments) => events::run(&arguments, metadata),
        Command::Audit(command) => audit::run(&command, metadata),
        Command::Inspect(arguments) => inspect::run(&arguments, metadata),
        Command::SupportBundle(arguments) => support_bundle::run(&arguments, metadata),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments, insecure_network),
    }
}

/// Where the metadata is, and who we are to it, as the command line says.
#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    given: Option<String>,
    /// The folder of our identity.
    identity: Option<PathBuf>,
    /// The user of etcd.
    user: Option<String>,
    /// The file with the user's password.
    password_file: Option<PathBuf>,
    insecure_network: bool,
    /// The way of a node that carries the command out for somebody else.
    lent: Option<Arc<Lent>>,
}

/// What a node lends a command that it carries out for somebody else: its own way to the metadata, as them.
#[derive(Clone, Debug)]
pub struct Lent {
    /// The node's connection.
    pub client: Client,
    /// Who asks.
    pub caller: Caller,
    /// Is a refusal told in the audit log?
    pub tells_refusals: bool,
    /// When the token that they have shown ends, in seconds since 1970.
    pub ends_at: Option<u64>,
    /// What the files hold that they have named.
    pub files: Files,
    /// The file of the node's sealing key, by which keys and secrets are kept.
    pub seal_key: Option<PathBuf>,
    /// The file of the node's volume keys, which wrap the data keys of encrypted volumes.
    pub volume_keys: Option<PathBuf>,
    /// The node's identity: what others know this cluster by.
    pub identity: Option<Arc<Live>>,
}

impl Endpoints {
    /// Those of a node, for somebody else.
    #[must_use]
    pub fn lending(lent: Lent) -> Endpoints {
        Endpoints {
            lent: Some(Arc::new(lent)),
            ..Endpoints::default()
        }
    }

    /// What is lent, if the command is carried out for somebody else.
    #[must_use]
    pub fn lent(&self) -> Option<&Lent> {
        self.lent.as_deref()
    }

    /// What a file holds that the command line names, or standard input (`-`), up to so many bytes: of this machine, or, where the command
    /// is carried out for somebody else, what they have sent.
    ///
    /// # Errors
    /// It cannot be read, is no text, or was not sent.
    pub fn read_file(&self, path: &Path, most_bytes: u64) -> std::io::Result<Zeroizing<String>> {
        if let Some(lent) = self.lent() {
            let sent = path.to_str().and_then(|name| lent.files.get(name)).cloned();
            return sent.ok_or_else(|| std::io::Error::other("it was not sent with the command"));
        }
        let mut text = Zeroizing::new(String::new());
        match path == Path::new("-") {
            true => std::io::stdin().take(most_bytes).read_to_string(&mut text),
            false => File::open(path)?.take(most_bytes).read_to_string(&mut text),
        }?;
        Ok(text)
    }

    /// By what keys and secrets are sealed: the file that was given, or the node's own, where the command is carried out for somebody else.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn seal_key(&self, given: Option<&Path>) -> Result<Option<SealKey>> {
        let path = match self.lent() {
            Some(lent) => lent.seal_key.as_deref(),
            None => given,
        };
        let loaded = path.map(SealKey::load).transpose();
        loaded.map_err(|why| match self.lent() {
            // Where it is on the node is for its log.
            Some(_) => {
                log::warn!("keys and secrets cannot be sealed for who asks by the API: {why}");
                Failure::new("this node cannot read its sealing key: its log says why")
            }
            None => Failure::new(why.to_string()).kind(Kind::Unreadable),
        })
    }

    /// By what data keys of encrypted volumes are made: the file that was given, or the node's own, where the command is carried out for
    /// somebody else. Nobody has looked at it yet: for what is not encrypted nothing is wanted of it.
    #[must_use]
    pub fn volume_keys(&self, given: Option<&Path>) -> Option<KeyFile> {
        let path = match self.lent() {
            Some(lent) => lent.volume_keys.as_deref(),
            None => given,
        };
        path.map(KeyFile::at)
    }

    /// The authorities that certificates of the cluster's nodes are of, in PEM: those of the identity here, or of the node's where the command is
    /// carried out for somebody else. None: nobody proves anything.
    ///
    /// # Errors
    /// The identity cannot be read.
    pub fn authority(&self) -> Result<Option<String>> {
        let live = match (self.lent(), &self.identity) {
            (Some(lent), _) => lent.identity.clone(),
            (None, Some(folder)) => Some(Live::open(folder, Clock::system()).described()?),
            (None, None) => None,
        };
        Ok(live.map(|live| live.current().trust().roots_pem()))
    }

    /// At one address that is known.
    #[must_use]
    pub fn of(endpoint: &str) -> Endpoints {
        Endpoints {
            given: Some(endpoint.to_owned()),
            ..Endpoints::default()
        }
    }

    /// The addresses.
    ///
    /// # Errors
    /// When none are given.
    pub fn list(&self) -> Result<Vec<String>> {
        let given = self.given.as_deref().unwrap_or_default();
        let list: Vec<String> = given
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        if list.is_empty() {
            return Err(Failure::new("where is the metadata? No address was given")
                .kind(Kind::Usage)
                .advice("Pass --metadata HOST:PORT, or set AMITA_METADATA. `amita meta` starts a server."));
        }
        Ok(list)
    }

    /// The same, with the identity in a folder.
    #[must_use]
    pub fn with_identity(self, identity: Option<PathBuf>) -> Endpoints {
        Endpoints { identity, ..self }
    }

    /// The folder of the identity, if one is given.
    #[must_use]
    pub fn identity(&self) -> Option<&Path> {
        self.identity.as_deref()
    }

    /// Is whoever is on the network believed?
    #[must_use]
    pub fn insecure_network(&self) -> bool {
        self.insecure_network
    }

    /// The user of etcd.
    ///
    /// # Errors
    /// When the password cannot be read, or others could read it.
    pub fn user(&self) -> Result<Option<User>> {
        let (name, file) = match (&self.user, &self.password_file) {
            (None, None) => return Ok(None),
            (Some(name), Some(file)) => (name, file),
            _ => {
                return Err(Failure::new(
                    "a user of the metadata has a name and a file with a password, and one of them is missing",
                )
                .kind(Kind::Usage)
                .advice("Pass --metadata-user NAME and --metadata-password-file FILE."));
            }
        };
        let user = User::new(name, file).map_err(|why| Failure::new(why.to_string()).kind(Kind::Unreadable))?;
        Ok(Some(user))
    }

    /// A connection to it.
    ///
    /// # Errors
    /// When no address is given, the identity cannot be read, or may not speak like that.
    pub fn connect(&self) -> Result<Client> {
        self.connect_as().map(|(client, _)| client)
    }

    /// The same, and who we are to it.
    ///
    /// # Errors
    /// As [`Endpoints::connect`].
    pub fn connect_as(&self) -> Result<(Client, Caller)> {
        if let Some(lent) = &self.lent {
            return Ok((lent.client.clone(), lent.caller.clone()));
        }
        let live = match &self.identity {
            Some(folder) => Some(Live::open(folder, Clock::system()).described()?),
            None => None,
        };
        let options = Options {
            tls: live.as_ref().map(Tls::of),
            user: self.user()?,
            insecure_network: self.insecure_network,
            ..Options::default()
        };
        let client = Client::connect_with(&self.list()?, options).map_err(|error| metadata_failure(&error))?;
        let whence = Actor::here().whence;
        let caller = match (&live, &self.user) {
            (Some(live), _) => Caller::of(&live.name(), whence),
            (None, Some(user)) => Caller::user(user, whence),
            (None, None) => Caller::unproved(whence),
        };
        Ok((client, caller))
    }
}

/// The identity's folder, as the command line says.
#[derive(Clone, Debug, Default)]
pub struct Folder(Option<PathBuf>);

impl Folder {
    /// The folder, if one is given.
    #[must_use]
    pub fn given(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// The folder.
    ///
    /// # Errors
    /// When none is given.
    pub fn wanted(&self) -> Result<&Path> {
        self.given().ok_or_else(|| {
            Failure::new("which identity? No folder was given")
                .kind(Kind::Usage)
                .advice("Pass --identity DIR, or set AMITA_IDENTITY.")
        })
    }
}

#[cfg(test)]
mod tests;
