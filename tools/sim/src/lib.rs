//! A simulated cluster, fault plans and checkers.
//!
//! The code under simulation is the code that ships: stores, sequencers, gateways and connections run on a driver with
//! virtual time, disks that lose and tear what was not flushed, and networks that delay, cut and partition. A run is
//! made from one number, its seed, and replays exactly. `docs/testing.md` says what is simulated, what is checked and
//! how to replay a failure.
//!
//! * [`cluster`]: nodes, metadata, hosts and faults; [`solo`]: one store on its own; [`scenarios`]: the histories of
//!   `docs/protocol.md`.
//! * [`history`]: what the hosts saw, and whether one order explains it ([`amita_testkit::linear`]).
//! * [`stamp`] and [`workload`]: what the clients write, and when; [`faults`]: what goes wrong; [`metadata`]: the
//!   service.
//! * [`mutants`]: the product with a rule switched off, and how many seeds it takes to find it.
//! * [`campaign`] and [`coverage`], [`paths`]: many seeds, and what they must have met.
#![deny(unsafe_code)]

pub mod campaign;
pub mod cluster;
pub mod coverage;
pub mod excuse;
pub mod faults;
mod handshakes;
pub mod history;
pub mod metadata;
pub mod mutants;
pub mod paths;
pub mod scale;
pub mod scenarios;
pub mod solo;
pub mod stamp;
pub mod workload;

pub use amita_testkit::random;
