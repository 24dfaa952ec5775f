//! Direct access to volumes from the program that uses them: by a gateway inside it, without a host, a socket or a protocol
//! between; or, with a client's identity, through the cluster's nodes ([`remote`], decision 038).
//!
//! The first joins the cluster as a node of its own, for as long as it runs: with a name, a lease, and a port for the
//! other nodes. It runs the sequencers of the volumes that it opens, and talks straight to their stores.
//!
//! * [`Local`] runs its one core in the caller's thread, in [`Local::poll`] and [`Local::wait`]: there is no other thread
//!   on the path of an I/O, and nothing is handed over. It is what costs least, and the caller owes it a call every
//!   100 ms or so.
//! * [`Client`] runs its core on a thread of its own. Each thread that uses it has a [`Queue`]: two rings of one sender
//!   and one receiver, and an event file for whoever does not want to poll.
//!
//! One that names [stores](Config::stores) holds copies itself: reads of those are a call.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod client;
mod config;
mod error;
mod local;
mod payload;
mod queue;
pub mod remote;
mod session;

pub use amita_frontend::OpenError;
pub use amita_node::serve::{Level, Log, Protection};
pub use amita_reactor::{BufMut, Pool, Slice};
pub use amita_types::io::{ChangedChunks, ChangedSearch, IoError};
pub use client::Client;
pub use config::Config;
pub use error::Error;
pub use local::Local;
pub use payload::{Done, Payload};
pub use queue::Queue;
pub use session::{Extent, MAX_READ_WRITE_BYTES, MAX_REQUESTS, Volume};
