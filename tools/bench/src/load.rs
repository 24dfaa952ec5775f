//! The load generator: a process of its own that drives volumes by the client library, told what to do line by line.
//!
//! One command is one line of JSON on standard input, one answer one line on standard output ([`protocol`]). It keeps its
//! volumes open between runs, so that a run costs what its I/Os cost. [`driver`] is the side that starts and tells it,
//! [`plan`] decides what is asked for and when, [`worker`] asks.

pub mod driver;
pub mod plan;
pub mod protocol;
pub mod worker;
