//! The store, driven from outside: its contract, its faults, its disk images.
//!
//! One binary, so that what the tests share is compiled once; `allocations` has an allocator of its own.

mod common;

mod basics;
mod check;
mod device;
mod device_lies;
mod differ;
mod discard;
mod fixtures;
mod fuzzing;
mod hostile;
mod memo;
mod model;
mod mount;
#[cfg(feature = "planted")]
mod planted;
mod power_cut;
mod random;
mod restore;
mod resync;
mod snapshots;
mod space;
mod states;
mod sweep;
mod syncing;
mod trim;
