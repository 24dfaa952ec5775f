//! The binary `amita`: the node, the embedded metadata server, the operator's commands and the demo.
//!
//! It is a library too, for the benchmark, which asks nodes as the commands do.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod admin;
pub mod by_api;
pub mod cli;
pub mod commands;
pub mod demo;
pub mod logging;
pub mod nodes;
pub mod panics;
pub mod space;

use amita_terminal::error::{Context, Result};
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
