//! Commands that go on until they are ended: nodes are asked again and again, another one where one is gone.

use super::rest::Rest;
use super::who::Nodes;
use crate::cli::Command;
use crate::commands::{events, status};
use amita_terminal::error::{Failure, Kind, Result};

/// Goes on until the command is ended.
///
/// # Errors
/// What the command says; or no node answers.
pub fn run(command: &Command, nodes: Nodes) -> Result<()> {
    match command {
        Command::Status(arguments) => status::watch_by_api(arguments, nodes),
        Command::Events(arguments) => {
            let rest = Rest::new(nodes)?;
            let ended = events::follow_by_api(arguments, &rest);
            rest.close();
            ended
        }
        // The table has no others, which its test looks at.
        _ => Err(Failure::new("this command does not go on until it is ended").kind(Kind::Usage)),
    }
}
