//! `amita meta`: the embedded metadata server as a process of its own.

mod auditor;

use super::core_dumps::CoreDumps;
use crate::commands::join::Described as _;
use amita_identity::{Clock, Live, Role, Upkeep};
use amita_metadata::client::SERVER_NAME;
use amita_metadata::server::{self, Refusals, StartError};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `amita meta`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where clients reach it
    #[arg(
        long,
        env = "AMITA_META_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:2379"
    )]
    pub listen: SocketAddr,
    /// Its file; made when it does not exist
    #[arg(
        long,
        env = "AMITA_META_DATA",
        value_name = "FILE",
        default_value = "amita-metadata.redb"
    )]
    pub data: PathBuf,
    #[command(flatten)]
    pub core_dumps: CoreDumps,
    /// Where the authority serves (`amita ca serve`): the identity is renewed from there at half of its life, and what was
    /// revoked is heard of [default: the identity's folder is looked at only]
    #[arg(long, env = "AMITA_CA_SERVER", value_name = "HOST:PORT")]
    pub ca_server: Option<String>,
    /// The most bytes of keys and values: what would add more is refused
    #[arg(
        long,
        env = "AMITA_META_QUOTA_BYTES",
        value_name = "BYTES",
        default_value_t = server::DEFAULT_QUOTA_BYTES,
        value_parser = clap::value_parser!(u64).range(1 << 20..)
    )]
    pub quota_bytes: u64,
}

/// Serves until it is told to end.
///
/// # Errors
/// When it cannot start.
pub fn run(arguments: &Arguments, identity: Option<&Path>, insecure_network: bool) -> Result<()> {
    interrupt::catch();
    refuse_loose_mode(&arguments.data)?;
    raise_open_files();
    let live = match identity {
        None => None,
        Some(folder) => Some(open(folder)?),
    };
    if live.is_none() && arguments.ca_server.is_some() {
        return Err(Failure::new("--ca-server: there is no identity to be renewed")
            .kind(Kind::Usage)
            .advice("Pass --identity DIR as well; `amita node join` makes one."));
    }
    // It ends with the server.
    let _upkeep = match &live {
        Some(live) => Some(Upkeep::start(live.clone(), arguments.ca_server.as_deref()).described()?),
        None => None,
    };
    let (refusals, heard) = Refusals::channel();
    let config = server::Config {
        quota_bytes: arguments.quota_bytes,
        reserved: amita_control::access::making_room(),
        tls: live.as_ref().map(server::Tls::of),
        insecure_network,
        refusals: live.is_some().then_some(refusals),
        ..server::Config::new(arguments.listen, &arguments.data)
    };
    let handle = server::start(config).map_err(|error| {
        let kind = match error {
            StartError::PortOccupied { .. } | StartError::Locked { .. } => Kind::Conflict,
            StartError::Open { .. } => Kind::Usage,
            _ => Kind::Failed,
        };
        Failure::new(error.to_string()).kind(kind)
    })?;
    log::info!(
        "the metadata server listens on {}, its file is {}",
        handle.address(),
        arguments.data.display()
    );
    if let Some(live) = &live {
        auditor::start(live, handle.address(), heard)?;
    }
    interrupt::wait()?;
    handle.stop();
    log::info!("the metadata server has ended");
    Ok(())
}

/// The server's identity: clients believe one of that name only.
fn open(folder: &Path) -> Result<Arc<Live>> {
    let live = Live::open(folder, Clock::system()).described()?;
    let name = live.name();
    if name.role() != Role::Node || name.name() != SERVER_NAME {
        let message = format!(
            "{} is the identity of {name}, and no client would believe it",
            folder.display()
        );
        return Err(Failure::new(message)
            .kind(Kind::Usage)
            .advice(format!("Give the server one of a node by the name {SERVER_NAME:?}.")));
    }
    Ok(live)
}

/// Each connection is an open file, and there may be more of them than a system's usual limit of 1,024.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(why) = setrlimit(Resource::Nofile, raised) {
        log::warn!("the limit on open files stays at {:?}: {why}", limit.current);
    }
}

/// All records of the cluster are in it.
fn refuse_loose_mode(path: &Path) -> Result<()> {
    let Ok(found) = std::fs::metadata(path) else {
        return Ok(());
    };
    let mode = found.permissions().mode() & 0o777;
    if !found.is_file() || mode & 0o077 == 0 {
        return Ok(());
    }
    let shown = path.display();
    Err(Failure::new(format!(
        "the metadata file {shown} can be read or written by others (mode {mode:04o}), and all records of the cluster are in it"
    ))
    .kind(Kind::Unreadable)
    .advice(format!("Give it to its owner alone: chmod 600 {shown}")))
}
