//! The binary `amita`: the node, the embedded metadata server, the operator's commands, the demo and the benchmark.
//!
//! It is a library too, so that the end-to-end tests can use the [`harness`] that the demo and the benchmark run on.
#![deny(unsafe_code)]

pub mod error;
pub mod harness;
pub mod logging;
pub mod size;
pub mod table;
pub mod bench;
