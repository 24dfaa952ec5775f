//! The API's own operations, asked of the first node that answers.
//!
//! A node is passed over where a command is: it is not there, cannot be believed, has no room, has lost its metadata, or is of a release that
//! does not know the operation. What changes something has a key, by which it is done once, and goes to two nodes at most in the middle of which
//! it was lost.

use super::LONGEST;
use super::client::problem;
use super::place::Place;
use super::stream::{self, Coming, Opened, SILENCE, Sending, Wanted};
use super::transport::{self, NoAnswer, Question, Said};
use super::wait::{wait, within};
use super::who::Nodes;
use amita_api::Code;
use amita_control::admin;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::interrupt;
use hyper::body::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// What changes something goes to no further node after so many were lost in the middle of it.
const MOST_LOST: usize = 2;
/// The pause before a node is asked again that is at the same request.
const PAUSE: Duration = Duration::from_secs(1);
/// For so long a request is asked after that another node has begun.
const LONGEST_IN_PROGRESS: Duration = LONGEST.saturating_add(Duration::from_secs(90));
/// The most pieces of a list.
pub const MOST_PIECES: usize = 10_000;

/// A way to nodes' APIs, for one command.
#[derive(Debug)]
pub struct Rest {
    nodes: Nodes,
    runtime: Runtime,
}

/// A piece of a list.
#[derive(Deserialize)]
struct Piece<T> {
    items: Vec<T>,
    next: Option<String>,
}

/// Why one node has not done it.
enum Missed {
    /// The next one may. `perhaps`: this one may have, too.
    Next { why: String, perhaps: bool },
    /// No other one does.
    Final(Failure),
}

impl Rest {
    /// To these nodes.
    ///
    /// # Errors
    /// There is no event loop to be had.
    pub fn new(nodes: Nodes) -> Result<Rest> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context(|| "no event loop".to_owned())?;
        Ok(Rest { nodes, runtime })
    }

    /// Ends it. A look-up of a name that hangs keeps nobody waiting.
    pub fn close(self) {
        self.runtime.shutdown_background();
    }

    /// What lies at a path.
    ///
    /// # Errors
    /// No node answers, or it is refused; or it is of another form.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        read(&self.ask(&Question::get(path))?)
    }

    /// The same with its entity tag.
    ///
    /// # Errors
    /// As [`Rest::get`].
    pub fn get_tagged<T: DeserializeOwned>(&self, path: &str) -> Result<(T, String)> {
        self.ask_tagged(&Question::get(path))
    }

    /// All of a list, piece by piece.
    ///
    /// # Errors
    /// As [`Rest::get`].
    pub fn all<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.each(path, |item| {
            all.push(item);
            Ok(())
        })?;
        Ok(all)
    }

    /// The same, one after the other.
    ///
    /// # Errors
    /// As [`Rest::get`]; or what `take` says.
    pub fn each<T: DeserializeOwned>(&self, path: &str, mut take: impl FnMut(T) -> Result<()>) -> Result<()> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut next: Option<String> = None;
        for _ in 0..MOST_PIECES {
            interrupt::check()?;
            let path = match &next {
                None => path.to_owned(),
                Some(after) => format!("{path}{mark}after={}", encode(after)),
            };
            let piece: Piece<T> = self.get(&path)?;
            piece.items.into_iter().try_for_each(&mut take)?;
            if piece.next.is_none() {
                return Ok(());
            }
            next = piece.next;
        }
        Err(Failure::new(format!("{path} has more pieces than {MOST_PIECES}")))
    }

    /// Asks, and reads the answer.
    ///
    /// # Errors
    /// No node has done it, it is not known whether one has, or it is refused.
    pub fn change<T: DeserializeOwned>(&self, question: &Question) -> Result<T> {
        read(&self.ask(question)?)
    }

    /// The same with the entity tag of what is answered.
    ///
    /// # Errors
    /// As [`Rest::change`].
    pub fn ask_tagged<T: DeserializeOwned>(&self, question: &Question) -> Result<(T, String)> {
        let said = self.ask(question)?;
        let tag = said.tag.clone();
        let tag = tag.ok_or_else(|| Failure::new(format!("{} is answered without an ETag", question.path)))?;
        Ok((read(&said)?, tag))
    }

    fn ask(&self, question: &Question) -> Result<Said> {
        let mut tried = Tried::default();
        for (index, place) in self.nodes.in_turn() {
            let done = wait(&self.runtime, self.try_one(place, question));
            let done = done.map_err(|ended| match question.key {
                Some(_) => ended.advice(LOOK_FIRST),
                None => ended,
            })?;
            match done {
                Ok(said) => {
                    self.nodes.answered(index);
                    return Ok(said);
                }
                Err(missed) => tried.take(place, missed, question.key.is_some())?,
            }
        }
        Err(tried.failure())
    }

    async fn try_one(&self, place: &Place, question: &Question) -> std::result::Result<Said, Missed> {
        let until = Instant::now() + LONGEST_IN_PROGRESS;
        loop {
            let said = match transport::send(place, &self.nodes.proof, question).await {
                Ok(said) => said,
                Err(NoAnswer::Before(why)) => return Err(Missed::Next { why, perhaps: false }),
                Err(NoAnswer::Perhaps(why)) => return Err(Missed::Next { why, perhaps: true }),
            };
            let missed = match judge(place, said) {
                Ok(said) => return Ok(said),
                Err(missed) => missed,
            };
            let is_begun = matches!(&missed, Missed::Final(failure) if failure.code == Code::InProgress.text());
            if !is_begun || Instant::now() >= until {
                return Err(missed);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Opens what is taken as it comes, at the first node that has it: its index, and the node.
    ///
    /// # Errors
    /// As [`Rest::get`].
    pub fn open(&self, question: &Question) -> Result<(usize, String, Box<Coming>)> {
        let mut tried = Tried::default();
        for (index, place) in self.nodes.in_turn() {
            let opened = stream::open(place, &self.nodes.proof, question);
            let missed = match wait(&self.runtime, opened)? {
                Ok(Opened::Coming(coming)) => {
                    self.nodes.answered(index);
                    return Ok((index, place.to_string(), coming));
                }
                Ok(Opened::Said(said)) => refused(place, said),
                Err(why) => Missed::Next { why, perhaps: false },
            };
            tried.take(place, missed, false)?;
        }
        Err(tried.failure())
    }

    /// The node of that index has been lost: another one is asked next.
    pub fn lost(&self, index: usize) {
        self.nodes.lost(index);
    }

    /// The next bytes of what comes; none: it is over. Some is there within `patience`, or the node is taken for gone.
    ///
    /// # Errors
    /// It is cut off; or the command is to end.
    pub fn next(&self, coming: &mut Coming, patience: Duration) -> Result<Option<Bytes>> {
        let silent = || Err(format!("nothing has come for {} s", patience.as_secs()));
        let next = within(&self.runtime, patience, coming.next())?.unwrap_or_else(silent);
        next.map_err(gone)
    }

    /// Finds a node that wants so many bytes, which are sent as they come: which one it is.
    ///
    /// # Errors
    /// No node wants them; nothing was sent.
    pub fn begin(&self, question: &Question, length: u64) -> Result<(String, Sending)> {
        let mut tried = Tried::default();
        for (index, place) in self.nodes.in_turn() {
            let asked = stream::send_pieces(place, &self.nodes.proof, question, length);
            let missed = match wait(&self.runtime, asked)? {
                Ok(Wanted::Yes(sending)) => {
                    self.nodes.answered(index);
                    return Ok((place.to_string(), sending));
                }
                Ok(Wanted::No(said)) => refused(place, said),
                Err(why) => Missed::Next { why, perhaps: false },
            };
            tried.take(place, missed, false)?;
        }
        Err(tried.failure())
    }

    /// Sends the next bytes. What was sent before is taken within [`SILENCE`], or the node is taken for gone.
    ///
    /// # Errors
    /// The node wants no more of them, or is gone; or the command is to end.
    pub fn send(&self, sending: &mut Sending, piece: Bytes) -> Result<()> {
        let silent = || Err(format!("it has taken nothing for {} s", SILENCE.as_secs()));
        let sent = within(&self.runtime, SILENCE, sending.send(piece))?.unwrap_or_else(silent);
        match sent.map_err(gone)? {
            None => Ok(()),
            Some(said) => Err(failure_of(&said)),
        }
    }

    /// All was sent: what the node says then.
    ///
    /// # Errors
    /// It has failed, or the node is gone; or the command is to end.
    pub fn end<T: DeserializeOwned>(&self, sending: Sending) -> Result<T> {
        let said = wait(&self.runtime, sending.end())?.map_err(gone)?;
        match said.status {
            200..=299 => read(&said),
            _ => Err(failure_of(&said)),
        }
    }
}

/// A node that was at it does not go on with it.
fn gone(why: String) -> Failure {
    Failure::new(why).kind(Kind::Unreachable)
}

/// What a node that was asked for a stream has answered in its place.
fn refused(place: &Place, said: Said) -> Missed {
    match judge(place, said) {
        Ok(said) => Missed::Final(Failure::new(format!(
            "{place} answers {} where a stream is to come",
            said.status
        ))),
        Err(missed) => missed,
    }
}

/// Is it an answer, and if not, is another node to be asked?
fn judge(place: &Place, said: Said) -> std::result::Result<Said, Missed> {
    let (status, is_sent) = (said.status, said.is_sent);
    if (200..300).contains(&status) && is_sent {
        return Ok(said);
    }
    let (code, detail) = problem(&said);
    let is_unknown = status == 404 && (code != Code::NotFound.text() || detail.starts_with(NO_PATH));
    match status {
        _ if is_unknown => Err(Missed::Next {
            why: format!("it is of a release that does not know this: {detail}"),
            perhaps: false,
        }),
        421 | 429 | 503 => Err(Missed::Next {
            why: format!("it answers {status}: {detail}"),
            perhaps: is_sent && status == 503,
        }),
        401 => Err(Missed::Final(
            Failure::new(format!("{place} answers {status}: {detail}"))
                .code(Code::Unauthenticated.text())
                .advice(
                    "Give --identity DIR with an operator's certificate, or a token (--api-token-file, AMITA_TOKEN).",
                ),
        )),
        _ => Err(Missed::Final(failure_of(&said))),
    }
}

/// How a node answers that has nothing at a path.
pub(super) const NO_PATH: &str = "there is nothing at this path";

/// A problem of the API, as the command by the metadata tells it.
fn failure_of(said: &Said) -> Failure {
    let (code, detail) = problem(said);
    let code = Code::ALL.iter().find(|known| known.text() == code);
    let kind = match code {
        Some(Code::NotFound) => Kind::NotFound,
        Some(Code::BadRequest | Code::BadSetting | Code::TooLarge) => Kind::Usage,
        Some(Code::Exists | Code::InUse | Code::NoRoom | Code::WrongState | Code::Changed | Code::Raced) => {
            Kind::Conflict
        }
        Some(Code::NotInTime | Code::MetadataAway | Code::TooMany) => Kind::Unreachable,
        _ => Kind::Failed,
    };
    let failure = Failure::new(detail).kind(kind);
    match code {
        Some(code) => failure.code(code.text()),
        None => failure,
    }
}

fn read<T: DeserializeOwned>(said: &Said) -> Result<T> {
    serde_json::from_slice(&said.body).map_err(|why| {
        Failure::new(format!("the answer is of another form: {why}")).advice("Is the node of another release?")
    })
}

/// What was tried.
#[derive(Default)]
struct Tried {
    reasons: Vec<String>,
    is_unknown: bool,
    lost: usize,
}

impl Tried {
    /// `changes`: what is asked changes something.
    fn take(&mut self, place: &Place, missed: Missed, changes: bool) -> Result<()> {
        match missed {
            Missed::Final(failure) if self.is_unknown => {
                let what = format!("{}\n{}", failure.what, self.reasons.join("\n"));
                Err(Failure { what, ..failure }.advice(LOOK_FIRST))
            }
            Missed::Final(failure) => Err(failure),
            Missed::Next { why, perhaps } => {
                self.reasons.push(format!("{place}: {why}"));
                self.is_unknown |= perhaps && changes;
                self.lost += usize::from(perhaps && changes);
                match self.lost >= MOST_LOST {
                    true => Err(self.failure()),
                    false => Ok(()),
                }
            }
        }
    }

    fn failure(&self) -> Failure {
        let reasons = self.reasons.join("\n");
        if self.is_unknown {
            return Failure::new(format!("it is not known whether it was done\n{reasons}"))
                .kind(Kind::Unreachable)
                .code(admin::Code::OutcomeUnknown.name())
                .advice(LOOK_FIRST);
        }
        Failure::new(format!("no node answers\n{reasons}"))
            .kind(Kind::Unreachable)
            .advice("Are these the addresses of nodes' APIs (`amita serve --api`)? Name others, too (--by-api).")
    }
}

const LOOK_FIRST: &str = "It may have been done: look, before you give the command again.";

/// A text in a path or a parameter (RFC 3986, section 2.1).
#[must_use]
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                // A text takes what is written to it.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
