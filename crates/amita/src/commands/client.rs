//! `amita client`.

use crate::cli::Folder;
use crate::commands::join::{self, CreateArguments, JoinArguments};
use amita_identity::Role;
use amita_terminal::error::Result;

/// What to do with clients.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a client's identity: a folder, here; or with --token what lets it join from its own machine
    Create(CreateArguments),
    /// Get a client an identity with a token: its key is made here, and never leaves
    Join(JoinArguments),
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, identity: &Folder) -> Result<()> {
    match command {
        Command::Create(arguments) => join::create(arguments, Role::Client, identity),
        Command::Join(arguments) => join::join(arguments, Role::Client, identity),
    }
}
