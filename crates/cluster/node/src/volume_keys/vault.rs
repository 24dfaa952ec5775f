//! A key of Vault's (HashiCorp's, or OpenBao), over the network: what carries the questions of [`amita_crypt::Transit`] there.
//!
//! Each has a thread of its own, with one connection, and answers one question after the other; who asks does not wait, or waits for it only
//! so long. So a Vault that hangs keeps nobody waiting who needs another key. Where it does not answer, or says that it cannot now, whoever asks
//! soon behind is told the same at once: it is asked again after a pause, which grows ([`Pause`]).
//!
//! A question that nobody waits for any more ([`Asking`]) is not carried. A Vault that binds nothing of what it wraps is asked for nothing
//! ([`Vault::probe`]).
//!
//! The token is read from its file for each question, and once a minute where there is none, and what is read is wiped behind it: whoever renews it,
//! or puts a new one there, has nothing else to do. Where Vault says that it ends and may be renewed, it is (`token.rs`).

mod exchange;
pub(super) mod line;
mod token;

use amita_control::admin::KeyTrouble;
use amita_crypt::{HttpRequest, HttpResponse, Question, Transit, Zeroizing, check_token, refusal};
use exchange::Way;
use line::Place;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use token::Token;
use tokio::runtime::Runtime;

/// Questions that wait at one time. More are told so, and asked again by and by.
const MAX_WAITING: usize = 4096;
/// Who waits for an answer waits no longer: as long as whoever waits for him does.
const PATIENCE: Duration = Duration::from_secs(12);
/// Who waits asks again after this what could not be answered now.
const ASKED_AGAIN: Duration = Duration::from_millis(500);
/// The pauses after a question that was not answered: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// While it is not asked, its token's file is looked at this often: another token ends the pause.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// For people.
    pub why: String,
    /// It may pass by itself: it is worth asking again.
    pub is_passing: bool,
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> String {
        trouble.why
    }
}

impl From<Trouble> for KeyTrouble {
    fn from(Trouble { why, is_passing }: Trouble) -> KeyTrouble {
        match is_passing {
            true => KeyTrouble::Away(why),
            false => KeyTrouble::Key(why),
        }
    }
}

/// Somebody waits for the answers of what was asked by it, as long as it is there.
pub(super) struct Asking(Arc<AtomicBool>);

impl Asking {
    pub fn new() -> Asking {
        Asking(Arc::new(AtomicBool::new(true)))
    }

    /// What tells whether somebody still does.
    pub fn wanted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Is told of the answer, by Vault's thread: it does not wait for anything.
type Told = Box<dyn FnOnce(Result<HttpResponse, Trouble>) + Send>;

struct Ask {
    request: Arc<HttpRequest>,
    /// Somebody waits for the answer.
    wanted: Arc<AtomicBool>,
    told: Told,
}

/// See the module. Dropped, it answers what it was asked, and ends.
pub(super) struct Vault {
    name: String,
    asks: SyncSender<Ask>,
    /// It was seen to bind what it wraps.
    binds: AtomicBool,
}

/// Whom it was said of that nothing proves who they are: once in a process.
static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Vault {
    /// Starts its thread.
    ///
    /// # Errors
    /// There is none to be had.
    pub fn start(place: Place) -> io::Result<Arc<Vault>> {
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
        let (asks, asked) = sync_channel(MAX_WAITING);
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
        std::thread::Builder::new()
            .name("amita-vault".to_owned())
            .spawn(move || worker.run(&asked))?;
        let binds = AtomicBool::new(false);
        Ok(Arc::new(Vault { name, asks, binds }))
    }

    /// Asks it, and does not wait: `told` is, when it has answered, or has not. Where nobody wants that any more it is not asked, and `told` is
    /// dropped.
    pub fn ask(&self, request: Arc<HttpRequest>, wanted: Arc<AtomicBool>, told: Told) {
        let ask = Ask { request, wanted, told };
        let (ask, why) = match self.asks.try_send(ask) {
            Ok(()) => return,
            Err(TrySendError::Full(ask)) => (ask, "too many questions wait for it"),
            Err(TrySendError::Disconnected(ask)) => (ask, "what asks it has ended"),
        };
        let why = format!("{}: {why}", self.name);
        (ask.told)(Err(Trouble { why, is_passing: true }));
    }

    /// Asks it, and again while it cannot answer, and waits for that, for [`PATIENCE`].
    ///
    /// # Errors
    /// It refuses, or has not answered: why, for people.
    pub fn carry<T>(&self, question: Question<T>) -> Result<T, Trouble> {
        let (request, finish) = question.into_parts();
        let request = Arc::new(request);
        let until = Instant::now() + PATIENCE;
        let asking = Asking::new();
        loop {
            let (tell, told) = sync_channel(1);
            let told_of: Told = Box::new(move |answer| drop(tell.send(answer)));
            self.ask(Arc::clone(&request), asking.wanted(), told_of);
            let left = until.saturating_duration_since(Instant::now());
            match told.recv_timeout(left) {
                Ok(Ok(response)) => {
                    return finish(&response).map_err(|why| Trouble {
                        why: format!("{}: {why}", self.name),
                        is_passing: false,
                    });
                }
                Ok(Err(trouble)) if trouble.is_passing && left > ASKED_AGAIN => std::thread::sleep(ASKED_AGAIN),
                Ok(Err(trouble)) => return Err(trouble),
                Err(_) => {
                    let why = format!("{} has not answered within {} s", self.name, PATIENCE.as_secs());
                    return Err(Trouble { why, is_passing: true });
                }
            }
        }
    }

    /// By which version of its key it wraps now. It has to bind what it wraps. `transit`: of its line.
    ///
    /// # Errors
    /// It does not, or does not answer: why, for people.
    pub fn probe(&self, transit: &Transit) -> Result<u32, Trouble> {
        let (version, binds) = self.carry(transit.probe())?;
        self.carry(binds)?;
        self.binds.store(true, Ordering::Relaxed);
        Ok(version)
    }

    /// Was that seen?
    pub fn was_probed(&self) -> bool {
        self.binds.load(Ordering::Relaxed)
    }

    /// For people.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// When it is asked again.
#[derive(Default)]
struct Pause {
    failed: u32,
    /// Until when, and what is told meanwhile.
    until: Option<(Instant, Trouble)>,
}

impl Pause {
    fn begin(&mut self, now: Instant, trouble: Trouble) {
        let pause = FIRST_PAUSE * (1 << self.failed.min(8));
        self.failed = self.failed.saturating_add(1);
        self.until = Some((now + pause.min(LONGEST_PAUSE), trouble));
    }

    /// What is told meanwhile.
    fn holds(&self, now: Instant) -> Option<&Trouble> {
        let holds = self.until.as_ref().filter(|(until, _)| now < *until);
        holds.map(|(_, trouble)| trouble)
    }
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

impl Worker {
    fn run(mut self, asked: &Receiver<Ask>) {
        loop {
            match asked.recv_timeout(self.token.wait(Instant::now())) {
                Ok(ask) => {
                    // Whoever has asked may have given up meanwhile, and asked again.
                    if ask.wanted.load(Ordering::Relaxed) {
                        (ask.told)(self.answer(&ask.request));
                    }
                }
                Err(RecvTimeoutError::Timeout) if !self.token.is_due(Instant::now()) => self.look(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // A name that is still being looked up is nobody's business any more.
                    self.runtime.shutdown_background();
                    return;
                }
            }
            if self.token.is_due(Instant::now()) {
                token::keep(&mut self);
            }
        }
    }

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
