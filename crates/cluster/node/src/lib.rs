//! One node: its cores, each of which joins stores, sequencers, fabric and front ends on a driver, and the process
//! around them.
//!
//! [`Core`] is written once and runs on the kernel's driver ([`serve`]) and on the simulated one (crate `sim`).
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod authority;
pub mod catalog;
mod claims;
pub mod control;
mod core;
mod directory;
pub mod embed;
pub mod exports;
mod faults;
mod flattens;
pub mod forwarder;
pub mod fronts;
pub mod iscsi_catalog;
pub mod limits;
pub mod links;
pub mod mail;
pub mod observe;
mod orphans;
pub mod peer_links;
pub mod proof;
mod reporter;
pub mod reservations;
mod scrubs;
pub mod serve;
pub mod sets;
mod shards;
mod slab;
mod snapshots;
pub mod stores;
pub mod token;
pub mod trace;
pub mod usage;
pub mod view;
pub mod volume_keys;
mod wishes;
mod worker;

pub use crate::core::{Core, CoreConfig, REFUSED_FOR, SILENT_FOR};
pub use faults::{Fault, Faults};

/// Does this build hold what only builds of the simulator may: rules that can be switched off (the feature `planted` of any
/// crate of the I/O path), or the points of `buggify`?
pub const IS_OF_THE_SIMULATOR: bool = cfg!(feature = "planted")
    || amita_store::HAS_RULE_SWITCHES
    || amita_sequencer::HAS_RULE_SWITCHES
    || amita_fabric::HAS_RULE_SWITCHES
    || amita_control::HAS_RULE_SWITCHES
    || amita_reactor::buggify::COMPILED_IN;
