//! `amita meta`: the embedded metadata server as a process of its own.

use amita_metadata::server::{self, StartError};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
}

/// Serves until it is told to end.
///
/// # Errors
/// When it cannot start.
pub fn run(arguments: &Arguments) -> Result<()> {
    interrupt::catch();
    warn_of_loose_mode(&arguments.data);
    let handle = server::start(server::Config::new(arguments.listen, &arguments.data)).map_err(|error| {
        let kind = match error {
            StartError::PortOccupied { .. } | StartError::Locked { .. } => Kind::Conflict,
            _ => Kind::Failed,
        };
        Failure::new(error.to_string()).kind(kind)
    })?;
    log::info!(
        "the metadata server listens on {}, its file is {}",
        handle.address(),
        arguments.data.display()
    );
    interrupt::wait()?;
    handle.stop();
    log::info!("the metadata server has ended");
    Ok(())
}

/// All records of the cluster are in it.
fn warn_of_loose_mode(path: &Path) {
    let Ok(found) = std::fs::metadata(path) else { return };
    let mode = found.permissions().mode() & 0o777;
    if found.is_file() && mode & 0o077 != 0 {
        log::warn!(
            "the metadata file {path} can be read or written by others (mode {mode:04o}): `chmod 600 {path}` mends that",
            path = path.display()
        );
    }
}
