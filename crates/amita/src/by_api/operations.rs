//! Commands that are done by the API's own operations, where they are given: they show figures of two moments, or read and write files here. What
//! they say is made by the code of the command by the metadata.

use super::rest::Rest;
use super::who::Nodes;
use crate::cli::Command;
use crate::commands::{csi, history, initiator, top, trace, volume};
use amita_terminal::error::{Failure, Kind, Result};

/// Does it.
///
/// # Errors
/// What the command says; or no node answers.
pub fn run(command: &Command, nodes: Nodes) -> Result<()> {
    if let Command::Csi(command) = command {
        return csi::run_by_api(command, nodes);
    }
    let rest = Rest::new(nodes)?;
    let ended = match command {
        Command::Top(arguments) => top::run_by_api(arguments, &rest),
        Command::History(arguments) => history::run_by_api(arguments, &rest),
        Command::Trace(arguments) => trace::run_by_api(arguments, &rest),
        Command::Initiator(command) => initiator::run_by_api(command, &rest),
        Command::Volume(command) => volume::run_by_api(command, &rest),
        // The table has no others, which its test looks at.
        _ => Err(Failure::new("this command is not done by the API's own operations").kind(Kind::Usage)),
    };
    rest.close();
    ended
}
