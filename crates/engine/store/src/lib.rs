//! One disk: format, log, index, allocator; a pure state machine.
//!
//! # The story of a write
//!
//! A store writes 4 KiB blocks to fresh places (copy-on-write), with an index in memory and a metadata log. A write
//! takes free slots, and at the end of the pass its data and one log page with the records of all writes of the pass
//! go to the disk **in parallel**; it becomes visible, and is answered, when both are durable and everything that was
//! logged before it is (rule D2). The record holds the version, its predecessor, the slots and each block's CRC-32C,
//! so that replay after a crash accepts it only if its data is whole; a *verified mark* in later pages says what was
//! durable, bounds what replay reads back, and tells a crash from damage (D1, D4).
//!
//! # How it is used
//!
//! [`Store`] does no I/O, reads no clock and draws no random number: events go in ([`Store::request`],
//! [`Store::read_done`], ...), effects come out ([`Store::effects`]). Whoever owns it carries the effects out and calls
//! [`Store::end_pass`] once per pass of the reactor; that is where the writes of the pass are grouped.
//!
//! The bytes on the disk are defined in `docs/format.md`; [the module `format`](mod@format) has the types.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod allocator;
mod config;
mod credits;
mod error;
mod faults;
mod fences;
pub mod format;
mod index;
pub mod memo;
pub mod offline;
mod slot_map;
mod status;
mod store;

pub use config::{Config, Discard};
pub use credits::AccountId;
pub use error::{FormatError, MountError};
pub use faults::{Fault, Faults};
pub use format::{Format, FormatParams, MIN_STORE_BYTES, format};
pub use index::Entry;
pub use status::{Counters, MountReport, State, Status};
pub use store::{AskedVolume, Count, Effect, IoId, LinkId, Question, Store, Times, VolumeFigures};

/// Can rules be switched off in this build? Only builds of the simulator can; see the feature `planted`.
pub const HAS_RULE_SWITCHES: bool = cfg!(feature = "planted");
