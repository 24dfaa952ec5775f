//! A key of Vault's (HashiCorp's, or OpenBao), over the network: what carries the questions of [`amita_crypt::Transit`] there ([`Keeper`]), by one
//! connection. A Vault that binds nothing of what it wraps is asked for nothing ([`probe`]).
//!
//! The token is read from its file for each question, and once a minute where there is none, and what is read is wiped behind it: whoever renews it,
//! or puts a new one there, has nothing else to do. Where Vault says that it ends and may be renewed, it is (`token.rs`).

mod exchange;
pub(super) mod line;
mod token;

use super::keeper::{Carry, Keeper, Pause, Trouble};
use amita_crypt::{HttpRequest, HttpResponse, Request, Response, Transit, Zeroizing, check_token, refusal};
use exchange::Way;
use line::Place;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use token::Token;
use tokio::runtime::Runtime;

/// While it is not asked, its token's file is looked at this often: another token ends the pause.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Whom it was said of that nothing proves who they are: once in a process.
static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Starts what asks it.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn start(place: Place) -> io::Result<Arc<Keeper>> {
    let scheme = if place.is_tls { "https" } else { "http" };
    let name = format!("Vault at {scheme}://{}", place.authority());
    if let Some(why) = place.warning()
        && WARNED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone())
    {
        log::warn!("{name}: {why}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worker = Worker {
        name: name.clone(),
        read: None,
        ails: None,
        way: Way::new(place.clone()),
        token: Token::new(Instant::now()),
        place,
        pause: Pause::default(),
        runtime,
    };
    Keeper::start(name, "amita-vault", worker)
}

/// By which version of its key it wraps now. It has to bind what it wraps. `transit`: of its line.
///
/// # Errors
/// It does not, or does not answer: why, for people.
pub(super) fn probe(vault: &Keeper, transit: &Transit) -> Result<u32, Trouble> {
    let (version, binds) = vault.carry(transit.probe())?;
    vault.carry(binds)?;
    vault.proven(0);
    Ok(version)
}

/// It may answer the same question soon.
fn is_passing(status: u16) -> bool {
    matches!(status, 412 | 429 | 472 | 473 | 500..=599)
}

struct Worker {
    name: String,
    /// When the token was read last for a question.
    read: Option<Instant>,
    /// What is wrong with its file, as the log has it already.
    ails: Option<String>,
    place: Place,
    way: Way,
    token: Token,
    pause: Pause,
    runtime: Runtime,
}

impl Carry for Worker {
    fn carry(&mut self, request: &Request) -> Result<Response, Trouble> {
        match request {
            Request::Http(request) => self.answer(request).map(Response::Http),
            Request::Kmip(_) => Err(Trouble {
                why: format!("{} does not speak KMIP", self.name),
                is_passing: false,
            }),
        }
    }

    fn servers(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn wait(&self, now: Instant) -> Duration {
        self.token.wait(now)
    }

    fn keep(&mut self, has_waited: bool) {
        if has_waited && !self.token.is_due(Instant::now()) {
            self.look();
        }
        if self.token.is_due(Instant::now()) {
            token::keep(self);
        }
    }

    fn end(self) {
        // A name that is still being looked up is nobody's business any more.
        self.runtime.shutdown_background();
    }
}

impl Worker {
    /// Is there another token by now, while nobody asks? Of that it is to be known how long it lasts, and by it all is asked again.
    fn look(&mut self) {
        if let Ok(shown) = self.read_token() {
            self.see(&shown);
        }
    }

    /// The token's file has this one.
    fn see(&mut self, shown: &str) {
        if self.token.seen(shown, Instant::now()) {
            // By another token it is another question.
            self.pause = Pause::default();
        }
    }

    fn answer(&mut self, request: &HttpRequest) -> Result<HttpResponse, Trouble> {
        if let Some(trouble) = self.pause.holds(Instant::now())
            && self.read.is_some_and(|read| read.elapsed() < READ_AGAIN)
        {
            return Err(trouble.clone());
        }
        self.read = Some(Instant::now());
        let shown = self.read_token().map_err(|why| Trouble { why, is_passing: false });
        if let Ok(shown) = &shown {
            self.see(shown);
        }
        if let Some(trouble) = self.pause.holds(Instant::now()) {
            return Err(trouble.clone());
        }
        let shown = shown.inspect_err(|trouble| self.pause.begin(Instant::now(), trouble.clone()))?;
        let response = self.ask(request, &shown)?;
        match response.status {
            // Most probably it refuses all by this token.
            403 => Err(self.fail(refusal(&response).to_string(), false)),
            _ => Ok(response),
        }
    }

    /// It is not asked for a while.
    fn fail(&mut self, why: String, is_passing: bool) -> Trouble {
        let why = format!("{}: {why}", self.name);
        let trouble = Trouble { why, is_passing };
        self.pause.begin(Instant::now(), trouble.clone());
        trouble
    }

    /// The token that its file has now. Where that is is for the log alone: what is told to who asks goes to everybody.
    fn read_token(&mut self) -> Result<Zeroizing<String>, String> {
        let path = &self.place.token_file;
        let text = super::reading::within(path, super::reading::LIMIT, super::file::read);
        let token = text.map_err(|why| why.to_string()).and_then(|text| {
            let token = check_token(&text).map_err(|why| why.to_string())?;
            Ok(Zeroizing::new(token.to_owned()))
        });
        match token {
            Ok(token) => {
                self.ails = None;
                Ok(token)
            }
            Err(why) => {
                let name = &self.name;
                if self.ails.as_ref() != Some(&why) {
                    log::warn!("{name}: its token-file {} is of no use: {why}", path.display());
                }
                let told = format!("{name}: its token-file is of no use: {why}");
                self.ails = Some(why);
                Err(told)
            }
        }
    }

    fn ask(&mut self, request: &HttpRequest, token: &str) -> Result<HttpResponse, Trouble> {
        let why = match self.runtime.block_on(self.way.ask(request, token)) {
            Ok(response) if !is_passing(response.status) => {
                if response.status != 403 {
                    self.pause = Pause::default();
                }
                return Ok(response);
            }
            Ok(response) => refusal(&response).to_string(),
            Err(why) => why,
        };
        Err(self.fail(why, true))
    }
}

#[cfg(test)]
mod tests;
