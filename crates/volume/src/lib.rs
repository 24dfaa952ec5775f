//! The sequencer: opens, orders, fences, reads, takes over.
#![deny(unsafe_code)]

pub mod io;

pub use io::{CallId, Effect, IoError, IoId, Op, Opened, Payload, StopReason, Warning};
