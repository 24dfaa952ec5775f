//! A command is sent to a node that carries it out; where that does not answer, to the next one.
//!
//! What may have been carried out is sent again with the same key only, by which it is done once ([`amita_api`], its `repeat`); what answers
//! with a secret is not sent again at all. A node is passed over that is not there, cannot be believed, has no room, has lost its metadata,
//! or is of a release that carries no commands out. What a node refuses, it refuses for all. And a command in the middle of which two nodes
//! were lost is given to no third one: it may be what they were lost by.

use super::LONGEST;
use super::given::{Given, Source, bare, globals};
use super::place::Place;
use super::sent::Sent;
use super::table::{Does, NOT_PRIVATE, Way, carried_out, given_by_api, goes_on, is_confidential, way};
use super::transport::{self, NoAnswer, Question, Said};
use super::wait::wait;
use super::who::Nodes;
use super::{follow, operations};
use crate::cli::Cli;
use crate::commands::core_dumps::CoreDumps;
use amita_api::Code;
use amita_control::admin;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::{confirm, output};
use clap::CommandFactory as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write as _;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// A command goes to no further node after so many were lost in the middle of it.
const MOST_LOST: usize = 2;
/// The pause before a node is asked again that is at the same command.
const PAUSE: Duration = Duration::from_secs(1);
/// For so long a command is asked after that another node has begun: that one's time, and until it is taken for gone.
const LONGEST_IN_PROGRESS: Duration = LONGEST.saturating_add(Duration::from_secs(90));

/// What is known of how a command went, as a node tells it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outcome {
    pub exit_code: u8,
    pub stdout: String,
    pub stderr: String,
    #[serde(default)]
    question: Option<Asked>,
}

#[derive(Clone, Debug, Deserialize)]
struct Asked {
    name: String,
    lost: String,
}

/// A command that is sent to nodes.
#[derive(Debug)]
pub struct Sending {
    nodes: Nodes,
    arguments: Vec<String>,
    files: Sent,
    does: Does,
}

/// Is a command sent to nodes?
///
/// # Errors
/// It cannot be, or it is not clear whether it is to be.
pub fn is_sent(given: &Given) -> Result<bool> {
    let usage = |why: String, advice: &str| Err(Failure::new(why).kind(Kind::Usage).advice(advice));
    let metadata = "Give it with --metadata HOST:PORT, where that is needed, and without --by-api.";
    match (given.by_api, given.metadata, way(&given.command)) {
        (Source::None, ..) | (_, _, Some(Way::Here(_))) | (Source::Environment, Source::Flag, _) => Ok(false),
        (Source::Environment, Source::Environment, Some(Way::Metadata(_))) => Ok(false),
        (_, _, Some(Way::Metadata(why))) => usage(
            format!("`amita {}` is not carried out by nodes: {why}", given.command),
            metadata,
        ),
        (Source::Flag, Source::Flag, _) => usage(
            "--by-api and --metadata: by which of them is the command to be carried out?".to_owned(),
            "Give one of them.",
        ),
        (Source::Environment, Source::Environment, _) => usage(
            "AMITA_BY_API and AMITA_METADATA are set: by which of them is the command to be carried out?".to_owned(),
            "Give --by-api or --metadata, or set one of them only.",
        ),
        _ => match given_by_api(&given.command, &given.written) {
            Ok(()) => Ok(true),
            Err(why) => usage(why, metadata),
        },
    }
}

/// Does what the command line says by the API: has a node carry it out, and shows what it says, or asks for what it is made of; the exit code.
///
/// # Errors
/// No node has done it; or the answer cannot be shown.
pub fn run(cli: &Cli, words: &[OsString]) -> Result<u8> {
    // A token, or a key, is in it.
    CoreDumps::default().settle();
    let given = &cli.given;
    if matches!(way(&given.command), Some(Way::Operations(_))) {
        return operations::run(&cli.command, Nodes::of(cli)?).map(|()| 0);
    }
    if goes_on(&given.command, &given.written) {
        return follow::run(&cli.command, Nodes::of(cli)?).map(|()| 0);
    }
    let sending = Sending::of(cli, words)?;
    let outcome = sending.send(None)?;
    let Some(asked) = outcome.question else {
        return show(&outcome);
    };
    confirm::ask(&asked.name, &asked.lost)?;
    show(&sending.send(Some(&asked.name))?)
}

/// Shows what a node has said. (It has made it inert, and is not believed that it has.)
fn show(outcome: &Outcome) -> Result<u8> {
    output::raw(&output::shown(&outcome.stdout))?;
    let _ = std::io::stderr().write_all(output::shown(&outcome.stderr).as_bytes());
    Ok(outcome.exit_code)
}

impl Sending {
    fn of(cli: &Cli, words: &[OsString]) -> Result<Sending> {
        let usage = |why: String| Failure::new(why).kind(Kind::Usage);
        let given = &cli.given;
        let does = carried_out(&given.command, &given.written).map_err(usage)?;
        let arguments = bare(words, &globals(&Cli::command()));
        let arguments = arguments.map_err(|word| usage(format!("{} is no text", word.display())))?;
        let nodes = Nodes::of(cli)?;
        if is_confidential(&given.command, &given.written) && !nodes.are_private() {
            return Err(usage(NOT_PRIVATE.to_owned()));
        }
        Ok(Sending {
            nodes,
            arguments,
            files: Sent::read(given)?,
            does,
        })
    }

    /// A command that only looks.
    pub(crate) fn look(nodes: Nodes, words: &[&str]) -> Sending {
        Sending {
            nodes,
            arguments: words.iter().map(|&word| word.to_owned()).collect(),
            files: Sent::default(),
            does: Does::Look,
        }
    }

    /// Has a node carry it out.
    ///
    /// # Errors
    /// No node has, or it is not known whether one has.
    pub(crate) fn send(&self, confirmed: Option<&str>) -> Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context(|| "no event loop".to_owned())?;
        let mut body = json!({ "arguments": self.arguments, "confirmed": confirmed });
        if !self.files.is_empty() {
            body["files"] = self.files.json();
        }
        // What only looks leaves nothing to be found again.
        let key = (self.does != Does::Look).then(|| Uuid::new_v4().to_string());
        let question = Question::command(body.to_string(), key);
        let sent = wait(&runtime, self.try_all(&question));
        // A look-up of a name that hangs keeps nobody waiting.
        runtime.shutdown_background();
        sent?
    }

    async fn try_all(&self, question: &Question) -> Result<Outcome> {
        let mut tried = Tried::default();
        for (index, place) in self.nodes.in_turn() {
            match self.try_one(place, question).await {
                Ok(outcome) => {
                    self.nodes.answered(index);
                    return Ok(outcome);
                }
                Err(Missed::Final(failure)) => return Err(tried.closing(failure, self.does)),
                Err(Missed::Next { why, perhaps }) => {
                    tried.reasons.push(format!("{place}: {why}"));
                    tried.is_unknown |= perhaps;
                    if perhaps && self.does == Does::Secret {
                        break;
                    }
                }
                Err(Missed::Lost(why)) => {
                    tried.reasons.push(format!("{place}: {why}"));
                    tried.is_unknown |= self.does != Does::Look;
                    tried.lost += 1;
                    if self.does == Does::Secret || tried.lost == MOST_LOST {
                        break;
                    }
                }
            }
        }
        Err(tried.failure(self.does))
    }

    async fn try_one(&self, place: &Place, question: &Question) -> std::result::Result<Outcome, Missed> {
        let until = Instant::now() + LONGEST_IN_PROGRESS;
        loop {
            let said = match transport::send(place, &self.nodes.proof, question).await {
                Ok(said) => said,
                Err(NoAnswer::Before(why)) => return Err(Missed::Next { why, perhaps: false }),
                Err(NoAnswer::Perhaps(why)) => return Err(Missed::Lost(why)),
            };
            if said.status == 200 {
                return self.read(place, &said).await;
            }
            let (code, detail) = problem(&said);
            let is_begun = code == Code::InProgress.text();
            if is_begun && Instant::now() < until {
                let pause = said.retry_after.map_or(PAUSE, Duration::from_secs);
                tokio::time::sleep(pause.clamp(PAUSE, 10 * PAUSE)).await;
                continue;
            }
            return Err(self.judge(place, &said, &code, detail).await);
        }
    }

    async fn read(&self, place: &Place, said: &Said) -> std::result::Result<Outcome, Missed> {
        let mut outcome: Outcome = serde_json::from_slice(&said.body).map_err(|why| {
            let what = format!("{place} has carried the command out, and its answer is of another form: {why}");
            Missed::Final(Failure::new(what).advice("Is the node of another release? Look at what was done."))
        })?;
        if outcome.exit_code == Kind::Usage.code()
            && let Some(other) = self.other_release(place).await
        {
            outcome.stderr.push_str(&format!(
                "{place} has release {other}, and this is {}: what the one knows the other may not.\n",
                env!("CARGO_PKG_VERSION")
            ));
        }
        Ok(outcome)
    }

    /// The release of a node, where it is not ours.
    async fn other_release(&self, place: &Place) -> Option<String> {
        let release = transport::release(place, &self.nodes.proof).await?;
        (release != env!("CARGO_PKG_VERSION")).then_some(release)
    }

    /// What a refusal of the API means: whether another node is to be asked.
    async fn judge(&self, place: &Place, said: &Said, code: &str, detail: String) -> Missed {
        let status = said.status;
        let next = |why: String, perhaps: bool| Missed::Next { why, perhaps };
        match status {
            404 => {
                let release = transport::release(place, &self.nodes.proof).await;
                let release = release.unwrap_or_else(|| "which it does not tell".to_owned());
                next(
                    format!("it has release {release}, and carries no commands out: {detail}"),
                    false,
                )
            }
            421 | 429 => next(format!("it answers {status}: {detail}"), false),
            // The metadata is away: whether the command was begun is not known.
            503 => next(
                format!("it answers {status}: {detail}"),
                said.is_sent && self.does != Does::Look,
            ),
            _ => {
                let failure = Failure::new(format!("{place} answers {status}: {detail}"));
                let code = Code::ALL.iter().find(|known| known.text() == code);
                Missed::Final(match code {
                    Some(Code::Unauthenticated) => failure.code(Code::Unauthenticated.text()).advice(
                        "Give --identity DIR with an operator's certificate, or a token (--api-token-file, AMITA_TOKEN).",
                    ),
                    Some(code) => failure.code(code.text()),
                    None => failure,
                })
            }
        }
    }
}

/// A node has not carried it out.
enum Missed {
    /// The next one may.
    Next { why: String, perhaps: bool },
    /// The next one may, and this one was lost in the middle of it.
    Lost(String),
    /// Nor does any other.
    Final(Failure),
}

/// What was tried.
#[derive(Debug, Default)]
struct Tried {
    reasons: Vec<String>,
    /// One of them may have carried it out.
    is_unknown: bool,
    /// So many were lost in the middle of it.
    lost: usize,
}

impl Tried {
    const TWO_LOST: &str = "It is given to no further node: two were lost in the middle of it, and it may be what they were lost by. See \
                            their logs, and `amita status`, before you give it again.";
    const LOOK_FIRST: &str = "It may have been carried out: look, before you give it again.";

    fn failure(&self, does: Does) -> Failure {
        let what = match (self.is_unknown, does) {
            (true, Does::Look) | (false, _) => "no node carries the command out",
            (true, _) => "it is not known whether the command was carried out",
        };
        let failure = Failure::new(format!("{what}\n{}", self.reasons.join("\n"))).kind(Kind::Unreachable);
        let failure = match self.is_unknown {
            true => failure.code(admin::Code::OutcomeUnknown.name()),
            false => failure,
        };
        match self.is_unknown {
            _ if self.lost >= MOST_LOST => failure.advice(Tried::TWO_LOST),
            true => failure.advice(Tried::LOOK_FIRST),
            false => failure
                .advice("Are these the addresses of nodes' APIs (`amita serve --api`)? Name others, too (--by-api)."),
        }
    }

    /// A refusal by one node after another one may have carried it out.
    fn closing(&self, failure: Failure, does: Does) -> Failure {
        if !self.is_unknown || does == Does::Look {
            return failure;
        }
        let what = format!("{}\n{}", failure.what, self.reasons.join("\n"));
        Failure { what, ..failure }.advice(Tried::LOOK_FIRST)
    }
}

/// The code of a problem, and what it is here.
pub(super) fn problem(said: &Said) -> (String, String) {
    let problem: Value = serde_json::from_slice(&said.body).unwrap_or_default();
    let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    let detail = match text("detail") {
        detail if detail.is_empty() => "no more than that".to_owned(),
        detail => detail,
    };
    (text("code"), detail)
}

#[cfg(test)]
mod tests;
