//! The coordinator: liveness, eviction, placement of pools; and what an operator asks of a cluster.
//!
//! * [`access`]: who may what, and the way of commands to the metadata.
//! * [`audit`]: who did what: a log whose changes are found.
//! * [`backups`]: what is backed up by itself, when, and which of it is kept.
//! * [`admin`]: the operator's changes of the metadata, each one transaction, with errors that say what to do.
//! * [`coordinator`]: a pure state machine that sees liveness and groups and says what to change.
//! * [`candidates`]: which stores may hold a pool's groups.
//! * [`events`]: what happened, and why: a log that can be asked.
//! * [`guide`]: what a host has to do to use a volume by NVMe/TCP: the commands.
//! * [`health`]: what is so, how much that matters, and what to do about it.
//! * [`agent`]: the threads of a node that keep its lease, watch the metadata, carry out its cores' metadata calls and
//!   run the coordinator while this node is elected.
//! * [`ledger`]: what stores may hold, so that they drop what nothing needs any more.
//! * [`nearest`]: names that are near one that does not exist.
//! * [`network`]: whose fault it is that links between nodes are bad.
//! * [`past`]: does the metadata that is read go on from what was seen of it?
//! * [`policy`]: snapshots that are taken and deleted by themselves.
//! * [`records`]: a copy of the metadata, as every store keeps one.
//! * [`regress`]: is the metadata older than what a store knows?
//! * [`recover`]: the metadata is rebuilt from what stores know.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod access;
pub mod admin;
pub mod agent;
pub mod audit;
pub mod backups;
pub mod candidates;
pub mod coordinator;
pub mod events;
mod faults;
pub mod guide;
pub mod health;
mod kinds;
pub mod ledger;
pub mod limits;
pub mod mirror;
pub mod nearest;
pub mod network;
pub mod past;
pub mod policy;
pub mod records;
pub mod recover;
pub mod regress;

#[cfg(any(test, feature = "planted"))]
pub use faults::plant_here;
pub use faults::{Fault, Faults};

/// Can rules be switched off in this build? Only builds of the simulator can; see the feature `planted`.
pub const HAS_RULE_SWITCHES: bool = cfg!(feature = "planted");
