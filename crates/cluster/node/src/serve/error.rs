//! Why a node could not start, or ended.

use amita_control::admin::AdminError;
use amita_control::agent::NameTaken;
use amita_control::past::Doubt;
use amita_reactor::core::Panicked;
use amita_types::ClusterId;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A setting that cannot be.
    #[error("--{setting}: {why}")]
    Setting {
        setting: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The metadata.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The cluster was upgraded beyond this build.
    #[error("the cluster's metadata has version {version}, newer than this build knows; install a newer amita")]
    NewerCluster {
        /// The cluster's.
        version: u32,
    },
    /// An address that another process has, or that is not this host's.
    #[error("cannot listen on {address}: {why}{advice}")]
    Listen {
        address: SocketAddr,
        /// The system's words.
        why: String,
        advice: &'static str,
    },
    /// A Unix socket that another process serves, or that cannot be made.
    #[error("cannot listen at the Unix socket {}: {why}{advice}", path.display())]
    LocalSocket {
        path: PathBuf,
        /// The system's words.
        why: String,
        advice: &'static str,
    },
    /// A path that cannot be opened as a store.
    #[error("cannot open the store {}: {why}", path.display())]
    Store {
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// None of the stores can serve.
    #[error("none of the stores can serve: {}", failures.join("; "))]
    NoStore { failures: Vec<String> },
    /// Another process serves under the name.
    #[error(transparent)]
    NameTaken(NameTaken),
    /// The kernel does not give a core the memory for I/O that it was told to take.
    #[error(
        "core {core} cannot have {} MiB of buffers: {why}; choose smaller --buffers, or see what limits the memory of this process \
         (`ulimit -v`, vm.overcommit_memory)",
        bytes >> 20
    )]
    Buffers {
        core: usize,
        bytes: usize,
        /// The system's words.
        why: io::Error,
    },
    /// The kernel does not give a core what it needs.
    #[error("core {core} cannot start: {why}")]
    Core { core: usize, why: io::Error },
    /// The metadata knows no cluster, and a store belongs to one.
    #[error(
        "the metadata holds no cluster, and the store {} belongs to cluster {cluster}: check the metadata's address. If the \
         metadata was lost, `amita recover --from-stores` rebuilds it",
        path.display()
    )]
    ClusterLost {
        /// The store.
        path: PathBuf,
        cluster: ClusterId,
    },
    /// The metadata is of another cluster than the identity.
    #[error(
        "the metadata is of cluster {found}, and this node's identity is of {wanted}: check the metadata's address and \
         --identity. A cluster whose metadata was there first gets its authority with `amita cluster init --cluster {found}`"
    )]
    OtherCluster {
        /// The metadata's.
        found: ClusterId,
        /// The identity's.
        wanted: ClusterId,
    },
    /// What answers is not the metadata that the node has known.
    #[error("{0}")]
    NotBelieved(Doubt),
    /// What the node has known of the metadata cannot be read.
    #[error(
        "{} cannot be read: {why}. It says up to which revision this node has known the metadata, so that an older copy is told; \
         without it, any copy is believed. If the metadata is the newest, remove the file", path.display()
    )]
    PastUnreadable { path: PathBuf, why: io::Error },
    /// It was told to end before it served.
    #[error("the node was told to end before it served")]
    Interrupted,
    /// No thread to be had.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A fault of the program.
    #[error(transparent)]
    Panicked(Panicked),
}

impl ServeError {
    pub(super) fn listen(address: SocketAddr, why: &io::Error) -> ServeError {
        let advice = match why.kind() {
            io::ErrorKind::AddrInUse => "; another process has that port: choose another, or stop it",
            io::ErrorKind::AddrNotAvailable => "; it is no address of this host",
            io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges",
            _ => "",
        };
        ServeError::Listen {
            address,
            why: why.to_string(),
            advice,
        }
    }

    pub(super) fn local_socket(path: &Path, why: &io::Error) -> ServeError {
        let advice = match why.kind() {
            io::ErrorKind::AddrInUse => "; another process serves there: choose another path, or stop it",
            io::ErrorKind::PermissionDenied => "; this user may not",
            _ => "",
        };
        ServeError::LocalSocket {
            path: path.to_owned(),
            why: why.to_string(),
            advice,
        }
    }

    pub(super) fn store(path: &Path, why: &io::Error) -> ServeError {
        let advice = match why.kind() {
            io::ErrorKind::NotFound => "; there is no such file or device: format one with `amita disk format`",
            io::ErrorKind::PermissionDenied => "; this user may not open it",
            io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => "; another process serves it",
            _ => "",
        };
        ServeError::Store {
            path: path.to_owned(),
            why: format!("{why}{advice}"),
        }
    }
}
