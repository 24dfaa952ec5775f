//! A node carries a command out for somebody else: with its own way to the metadata, and with their rights.

use super::LONGEST;
use super::given::globals;
use super::table::{Does, NOT_PRIVATE, carried_out, is_confidential};
use crate::cli::{self, Cli, Endpoints, Folder, Lent, Unread};
use amita_api::{CommandLine, Commands, OnBehalf, Outcome};
use amita_control::admin::Code;
use amita_identity::Live;
use amita_metadata::Client;
use amita_terminal::capture::{self, Captured, Terms};
use amita_terminal::error::{Failure, Kind, Result};
use clap::CommandFactory as _;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The longest answer of a command, in bytes.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// What a node carries commands out by.
#[derive(Clone, Debug)]
pub struct Carrier {
    client: Client,
    seal_key: Option<PathBuf>,
    volume_keys: Option<PathBuf>,
    identity: Option<Arc<Live>>,
}

impl Carrier {
    /// By this connection to the metadata, which is the node's.
    #[must_use]
    pub fn new(client: Client) -> Carrier {
        Carrier {
            client,
            seal_key: None,
            volume_keys: None,
            identity: None,
        }
    }

    /// And with the file of the cluster's sealing key: keys of hosts and secrets of channels can be taken and made.
    #[must_use]
    pub fn sealing_by(self, file: Option<PathBuf>) -> Carrier {
        Carrier { seal_key: file, ..self }
    }

    /// And with the file of the cluster's volume keys: encrypted volumes can be made.
    #[must_use]
    pub fn wrapping_by(self, file: Option<PathBuf>) -> Carrier {
        Carrier {
            volume_keys: file,
            ..self
        }
    }

    /// And with the node's identity: other clusters are told by what they know this one.
    #[must_use]
    pub fn known_by(self, identity: Option<Arc<Live>>) -> Carrier {
        Carrier { identity, ..self }
    }
}

impl Commands for Carrier {
    fn run(&self, line: &CommandLine, asker: OnBehalf) -> Outcome {
        let lent = Lent {
            client: self.client.clone(),
            caller: asker.caller,
            tells_refusals: asker.tells_refusals,
            ends_at: asker.ends_at,
            files: line.files.clone(),
            seal_key: self.seal_key.clone(),
            volume_keys: self.volume_keys.clone(),
            identity: self.identity.clone(),
        };
        let terms = Terms {
            most_bytes: MAX_OUTPUT_BYTES,
            until: Instant::now() + LONGEST,
            confirmed: line.confirmed.clone(),
        };
        carry_out(&line.arguments, &Endpoints::lending(lent), asker.is_private, terms)
    }
}

fn carry_out(arguments: &[String], endpoints: &Endpoints, is_private: bool, terms: Terms) -> Outcome {
    let (cli, as_json) = match read(arguments) {
        Ok(read) => read,
        Err(outcome) => return *outcome,
    };
    let does = match check(&cli, is_private) {
        Ok(does) => does,
        Err(refused) => return ended(Err(refused), as_json, Captured::default()),
    };
    let work = || cli::carry_out(cli.command, endpoints, &Folder::default());
    let (done, said) = capture::run(terms, work);
    Outcome {
        is_secret: does == Does::Secret,
        ..ended(done, as_json, said)
    }
}

/// The commands, as they are when nobody's environment is looked at: this process's is the node's.
fn commands() -> clap::Command {
    fn bare(command: clap::Command) -> clap::Command {
        command
            .mut_args(|argument| argument.env(None::<&'static str>))
            .mut_subcommands(bare)
    }
    bare(Cli::command())
}

fn read(arguments: &[String]) -> std::result::Result<(Cli, bool), Box<Outcome>> {
    let words = std::iter::once("amita").chain(arguments.iter().map(String::as_str));
    let read = cli::read_as(commands(), words.map(OsString::from));
    read.map_err(|why| {
        Box::new(match why {
            Unread::Json(failure) => ended(Err(failure), true, Captured::default()),
            Unread::Told(error) if error.use_stderr() => Outcome {
                exit_code: Kind::Usage.code(),
                stderr: error.render().to_string(),
                ..Outcome::default()
            },
            // Help, or the version.
            Unread::Told(error) => Outcome {
                stdout: error.render().to_string(),
                ..Outcome::default()
            },
        })
    })
}

/// May the command be carried out for others?
fn check(cli: &Cli, is_private: bool) -> Result<Does> {
    let given = &cli.given;
    let refused = |why: String| Failure::new(why).kind(Kind::Usage);
    if let Some(global) = globals(&Cli::command())
        .iter()
        .find(|global| given.written.contains(&global.id))
    {
        return Err(refused(format!(
            "{} is for whoever gives a command, and no part of what a node is asked to carry out",
            global.flag
        )));
    }
    let does = carried_out(&given.command, &given.written).map_err(refused)?;
    match is_private || !is_confidential(&given.command, &given.written) {
        true => Ok(does),
        false => Err(refused(NOT_PRIVATE.to_owned())),
    }
}

/// How a command has ended, as the program would say it and end.
fn ended(done: Result<()>, as_json: bool, said: Captured) -> Outcome {
    let Captured {
        output: stdout,
        beside: mut stderr,
        question,
    } = said;
    let failure = done.err();
    if let Some(failure) = failure.as_ref().filter(|failure| !failure.is_said()) {
        stderr.push_str(&failure.told(as_json));
        stderr.push('\n');
    }
    Outcome {
        exit_code: failure.as_ref().map_or(0, |failure| failure.kind.code()),
        stdout,
        stderr,
        question: question.map(|question| (question.name, question.lost)),
        is_secret: false,
        is_denied: failure
            .as_ref()
            .is_some_and(|failure| failure.code == Code::Denied.name()),
        away: failure
            .filter(|failure| failure.code == Code::MetadataAway.name())
            .map(|failure| failure.what),
    }
}

#[cfg(test)]
mod tests;
