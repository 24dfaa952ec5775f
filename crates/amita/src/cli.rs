//! The command line: what there is, and what each word means. Help, flags and environment come from here alone.

use crate::commands::{
    disk, events, host, meta, namespace, node, pool, recover, recovery, serve, status, store, subsystem, top, trace,
    volume,
};
use crate::demo;
use amita_terminal::error::{Failure, Kind, Result};
use clap::{Parser, Subcommand, ValueEnum};
use log::LevelFilter;

/// Software-defined flash storage
///
/// A cluster is a metadata service (etcd, or `amita meta` on one machine) and nodes (`amita serve`), each with stores
/// (`amita disk format`). Pools say how many copies there are, volumes are what hosts use. `amita demo` shows all of it
/// on this machine.
#[derive(Debug, Parser)]
#[command(name = "amita", version, long_version = crate::VERSION, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// Where the metadata is: etcd's client addresses, or those of `amita meta`
    #[arg(long, global = true, env = "AMITA_METADATA", value_name = "http://HOST:PORT[,...]")]
    pub metadata: Option<String>,
    /// How much to say on standard error
    #[arg(long, global = true, env = "AMITA_LOG", value_name = "LEVEL", default_value = "info")]
    pub log: LogLevel,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
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
    /// Disks: make stores of them, look at them, drain and replace them
    #[command(subcommand)]
    Disk(disk::Command),
    /// Stores: look at what is on a disk, and whether it is sound
    #[command(subcommand)]
    Store(store::Command),
    /// Nodes: list them, say where they stand, maintain them
    #[command(subcommand)]
    Node(node::Command),
    /// Pools: make, list and change them
    #[command(subcommand)]
    Pool(pool::Command),
    /// Volumes: make, list, grow, move and delete them, and hand them to hosts
    #[command(subcommand)]
    Volume(volume::Command),
    /// Subsystems: what hosts connect to by NVMe/TCP
    #[command(subcommand)]
    Subsystem(subsystem::Command),
    /// Namespaces: volumes under a number in a subsystem
    #[command(subcommand)]
    Namespace(namespace::Command),
    /// Hosts: who may connect by NVMe/TCP, and what they have to prove
    #[command(subcommand)]
    Host(host::Command),
    /// Recovery: how hard it may work, and what becomes of slow stores
    #[command(subcommand)]
    Recovery(recovery::Command),
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
    /// Where the time of single I/Os went
    ///
    /// One in a thousand I/Os is traced through all of its stages, and every I/O that takes much longer than others is
    /// kept (`amita serve --trace-one-in`, `--slow-ms`). Times at a store are its own; the way there and back is what is left.
    Trace(trace::Arguments),
    /// What happened, and why
    Events(events::Arguments),
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

/// Does what the command line says.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(cli: Cli) -> Result<()> {
    let metadata = Endpoints(cli.metadata);
    match cli.command {
        Command::Serve(arguments) => serve::run(&arguments, &metadata),
        Command::Meta(arguments) => meta::run(&arguments),
        Command::Disk(command) => disk::run(&command, &metadata),
        Command::Store(command) => store::run(&command),
        Command::Node(command) => node::run(&command, &metadata),
        Command::Pool(command) => pool::run(&command, &metadata),
        Command::Volume(command) => volume::run(&command, &metadata),
        Command::Subsystem(command) => subsystem::run(&command, &metadata),
        Command::Namespace(command) => namespace::run(&command, &metadata),
        Command::Host(command) => host::run(&command, &metadata),
        Command::Recovery(command) => recovery::run(&command, &metadata),
        Command::Recover(arguments) => recover::run(&arguments, &metadata),
        Command::Status(arguments) => status::run(&arguments, &metadata),
        Command::Top(arguments) => top::run(&arguments, &metadata),
        Command::Trace(arguments) => trace::run(&arguments, &metadata),
        Command::Events(arguments) => events::run(&arguments, &metadata),
        Command::Demo(arguments) => demo::run(&arguments),
    }
}

/// Where the metadata is, as the command line says.
#[derive(Clone, Debug)]
pub struct Endpoints(Option<String>);

impl Endpoints {
    /// At one address that is known.
    #[must_use]
    pub fn of(endpoint: &str) -> Endpoints {
        Endpoints(Some(endpoint.to_owned()))
    }

    /// The addresses.
    ///
    /// # Errors
    /// When none are given.
    pub fn list(&self) -> Result<Vec<String>> {
        let given = self.0.as_deref().unwrap_or_default();
        let list: Vec<String> = given
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        if list.is_empty() {
            return Err(Failure::new("where is the metadata? No address was given")
                .kind(Kind::Usage)
                .advice("Pass --metadata http://HOST:PORT, or set AMITA_METADATA. `amita meta` starts a server."));
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests;
