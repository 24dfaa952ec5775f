//! The binary `amita`: the node, the embedded metadata server, the operator's commands, the demo and the benchmark.
//!
//! It is a library too, so that the end-to-end tests can use the [`harness`] that the demo and the benchmark run on.
#![deny(unsafe_code)]

pub mod admin;
pub mod bench;
pub mod cli;
pub mod commands;
pub mod demo;
pub mod error;
pub mod harness;
pub mod logging;
pub mod nodes;
pub mod output;
pub mod progress;
pub mod size;
pub mod table;

use error::{Context, Result};
use std::path::PathBuf;

/// The path of this program, to start further processes of it.
///
/// # Errors
/// When the kernel does not tell.
pub fn own_binary() -> Result<PathBuf> {
    std::env::current_exe().context(|| "cannot find the path of this program".to_owned())
}
