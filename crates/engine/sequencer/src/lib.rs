//! The sequencer: opens, orders, fences, reads, takes over.
//!
//! * [`Opener`]: makes this node the owner of a volume.
//! * [`Sequencer`]: orders the I/O of an open volume, one on each core.
//! * [`io`]: what goes in and what comes out.
//! * [`pace`]: how hard background work may press.
//! * [`health`]: which stores are slow.
//!
//! Both are pure state machines: no I/O, no clock, no randomness.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod config;
mod faults;
pub mod health;
pub mod io;
mod members;
#[cfg(test)]
mod model;
mod opener;
pub mod pace;
mod sequencer;
mod table;
mod task;

use amita_reactor::histogram;

pub use config::{
    Config, MAX_EVICTION_GROUPS, MAX_GROUPS, MAX_IOS, MAX_MENDINGS, MAX_OPENINGS, MAX_REFUSALS, MAX_SHARD_BYTES,
    MAX_STORE_BYTES, MAX_SYNC_QUEUE, MAX_TASKS, MAX_WRITES_PER_CHUNK,
};
pub use faults::{Fault, Faults};
pub use health::Care;
pub use io::{CallId, Course, Effect, IoId, Opened, StopReason, Warning};
pub use opener::{Consent, NO_KEYS, OpenError, Opener, OpenerConfig, OpenerEffect, OwnerReply};
pub use sequencer::{Counters, Sequencer, Status, SyncProgress};
pub use task::Told;

/// Can rules be switched off in this build? Only builds of the simulator can; see the feature `planted`.
pub const HAS_RULE_SWITCHES: bool = cfg!(feature = "planted");
