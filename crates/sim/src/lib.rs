//! A simulated cluster, fault plans and checkers.
//!
//! The code under simulation is the code that ships: stores, sequencers, gateways and connections run on a driver with
//! virtual time, disks that lose and tear what was not flushed, and networks that delay, cut and partition. A run is
//! made from one number, its seed, and replays exactly. `docs/testing.md` says what is simulated, what is checked and
//! how to replay a failure.
#![deny(unsafe_code)]

pub mod campaign;
pub mod coverage;
pub mod faults;
pub mod history;
pub mod linear;
pub mod metadata;
pub mod random;
pub mod solo;
pub mod stamp;
pub mod workload;
