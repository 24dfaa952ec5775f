//! What a program that people start shows them: answers, failures with what to do about them, tables, progress, sizes; and
//! how a signal ends it. The binary `amita`, the benchmark and the harness of the tests speak by it.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod capture;
pub mod confirm;
pub mod error;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod size;
pub mod table;
