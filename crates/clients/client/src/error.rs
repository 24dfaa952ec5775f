//! Why a client does not do what it was asked for.

use amita_frontend::OpenError;
use amita_node::serve::ServeError;
use std::time::Duration;

/// What, where, and what to do. How a request ended that was begun is an [`IoError`](crate::IoError).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster cannot be joined.
    #[error(transparent)]
    Join(#[from] ServeError),
    /// A setting that cannot be.
    #[error("{setting}: {why}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The volume is not opened.
    #[error("volume {volume}: {why}")]
    Open {
        /// Its name.
        volume: String,
        /// Why.
        why: OpenError,
    },
    /// The volume is not open yet.
    #[error("volume {volume} could not be opened within {waited:?}: is its owner, or the metadata, away?")]
    OpenTimeout {
        /// Its name.
        volume: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The volume was closed, or it was opened by another client.
    #[error("the volume is not open here (any more); open it")]
    NotOpen,
    /// It is to be compared with a snapshot that it does not have, or with one that is not older.
    #[error(
        "volume {volume}: it has no snapshot {snapshot} to be compared with, or none that is older; see `amita volume snapshot list`"
    )]
    NoBase {
        /// Its name.
        volume: String,
        /// The snapshot's.
        snapshot: String,
    },
    /// What was changed in it is asked for, and nobody has said since when.
    #[error("the volume was not opened to be compared with a snapshot; use `open_since`")]
    NotCompared,
    /// Another gateway owns the volume now.
    #[error("volume {volume} is no longer served here: {why}; open it again")]
    Lost {
        /// Its name.
        volume: String,
        /// Why.
        why: String,
    },
    /// The range does not lie in the volume.
    #[error("{bytes} bytes at {offset} do not lie in the volume, which has {size_bytes}")]
    OutOfRange {
        /// The first byte.
        offset: u64,
        /// How many.
        bytes: u64,
        /// The volume's size.
        size_bytes: u64,
    },
    /// A read or write of no bytes, or of more than one request may have.
    #[error("a read or write of {bytes} bytes; 1 to {most} are allowed")]
    Length {
        /// How many were asked for.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// As many requests as there may be are under way.
    #[error("{most} requests are under way; wait for some to end")]
    Full {
        /// How many.
        most: usize,
    },
    /// The client's thread has ended, by a fault of the program.
    #[error("the client's thread has ended; see its last words, and connect again")]
    Ended,
}
