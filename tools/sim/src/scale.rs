//! A cost model of large clusters.
//!
//! The simulator of [`crate::cluster`] runs every byte and finds faults; this one counts time and finds limits. It is a
//! discrete-event model of cores that work in passes, with the measured cost of each step, disks and network cards. What
//! makes the product cheap under load (one send for each peer and pass, one log page for each store and pass) is not put
//! in: it comes out, because a pass takes in whatever came while the one before ran.
//!
//! * [`costs`]: the costs, and where each was measured; [`calibrate`]: fitted to, and compared with, `amita-bench`.
//! * [`machine`]: nodes, disks, networks; placement by the coordinator's own code.
//! * [`engine`]: time, passes, waiting; [`path`]: the way of an I/O; [`run`]: one run.
//! * [`report`]: the tables of `docs/benchmarks/scale.md`; [`memory`]: what nodes hold, and what the metadata does.

pub mod calibrate;
pub mod command;
pub mod costs;
pub mod engine;
pub mod machine;
pub mod memory;
pub mod path;
pub mod report;
pub mod run;

#[cfg(test)]
mod tests;
