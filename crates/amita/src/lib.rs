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

/// What `amita --version` says: the version, how it was built, and whether it has anything compiled in that no build that
/// serves may have.
pub const VERSION: &str = if amita_node::IS_OF_THE_SIMULATOR {
    concat!(
        env!("CARGO_PKG_VERSION"),
        "\nbuild: of the simulator, with rules that can be switched off"
    )
} else if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), "\nbuild: debug")
} else {
    concat!(env!("CARGO_PKG_VERSION"), "\nbuild: release")
};

/// The path of this program, to start further processes of it.
///
/// # Errors
/// When the kernel does not tell.
pub fn own_binary() -> Result<PathBuf> {
    std::env::current_exe().context(|| "cannot find the path of this program".to_owned())
}
