//! Whoever keeps keys and is asked for them over the network (Vault, a KMIP server): what carries the questions of [`amita_crypt::Provider`] there.
//!
//! Each has a thread of its own, and answers one question after the other; who asks does not wait, or waits for it only so long. So one that
//! hangs keeps nobody waiting who needs another key. Where it does not answer, or says that it cannot now, whoever asks soon behind is told the
//! same at once: it is asked again after a pause, which grows ([`Pause`]).
//!
//! One line may name several servers that have the same keys. A question goes to whichever answers first, or to one of them alone
//! ([`Keeper::ask_at`]): what is proven is proven of one server.
//!
//! A question that nobody waits for any more ([`Asking`]) is not carried.

use amita_control::admin::KeyTrouble;
use amita_crypt::{KeyError, Question, Request, Response};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Questions that wait at one time. More are told so, and asked again by and by.
const MAX_WAITING: usize = 4096;
/// Who waits for an answer waits no longer: as long as whoever waits for him does.
const PATIENCE: Duration = Duration::from_secs(12);
/// Who waits asks again after this what could not be answered now.
const ASKED_AGAIN: Duration = Duration::from_millis(500);
/// The pauses after a question that was not answered: the first one, and the longest.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// While nobody asks there is nothing to be done for so long, unless who carries says another time.
pub(super) const LOOK: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// For people.
    pub why: String,
    /// It may pass by itself: it is worth asking again.
    pub is_passing: bool,
}

impl Trouble {
    /// All of them at once: it may pass where one of them may.
    pub fn of_all(troubles: Vec<Trouble>) -> Trouble {
        let is_passing = troubles.iter().any(|trouble| trouble.is_passing);
        let why: Vec<String> = troubles.into_iter().map(String::from).collect();
        let why = why.join("; ");
        Trouble { why, is_passing }
    }
}

/// What is wrong here, before anybody is asked.
impl From<String> for Trouble {
    fn from(why: String) -> Trouble {
        let is_passing = false;
        Trouble { why, is_passing }
    }
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

/// Is told of the answer, by the keeper's thread: it does not wait for anything.
pub(super) type Told = Box<dyn FnOnce(Result<Response, Trouble>) + Send>;

struct Ask {
    request: Arc<Request>,
    /// Of this server alone, by its number in the line.
    at: Option<usize>,
    /// Somebody waits for the answer.
    wanted: Arc<AtomicBool>,
    told: Told,
}

/// What carries questions, on the keeper's thread.
pub(super) trait Carry: Send + 'static {
    /// Brings the answer.
    ///
    /// # Errors
    /// There is none, for a while or at all: why, for people.
    fn carry(&mut self, request: &Request) -> Result<Response, Trouble>;

    /// The same of this one of its servers alone.
    ///
    /// # Errors
    /// Of that one there is none: why, for people.
    fn carry_at(&mut self, request: &Request, server: usize) -> Result<Response, Trouble> {
        let _ = server;
        self.carry(request)
    }

    /// The servers that it asks, for people; never empty, and eight at most.
    fn servers(&self) -> Vec<String>;

    /// Nobody has asked for so long, and there is something to be done.
    fn wait(&self, now: Instant) -> Duration {
        let _ = now;
        LOOK
    }

    /// Does what is to be done beside questions. `has_waited`: nobody has asked meanwhile.
    fn keep(&mut self, has_waited: bool) {
        let _ = has_waited;
    }

    /// Nobody asks any more.
    fn end(self);
}

/// See the module. Dropped, it answers what it was asked, and ends.
pub(super) struct Keeper {
    name: String,
    servers: Vec<String>,
    asks: SyncSender<Ask>,
    /// Those of its servers that were seen to wrap, and to bind what they wrap: a bit each.
    binds: AtomicU8,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Keeper {
    /// Starts its thread. `name`: for people.
    ///
    /// # Errors
    /// There is none to be had.
    pub fn start(name: String, thread: &str, worker: impl Carry) -> io::Result<Arc<Keeper>> {
        let (asks, asked) = sync_channel(MAX_WAITING);
        let servers = worker.servers();
        std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(move || run(worker, &asked))?;
        let binds = AtomicU8::new(0);
        Ok(Arc::new(Keeper {
            name,
            servers,
            asks,
            binds,
        }))
    }

    /// Asks it, and does not wait: `told` is, when it has answered, or has not. Where nobody wants that any more it is not asked, and `told` is
    /// dropped.
    pub fn ask(&self, request: Arc<Request>, wanted: Arc<AtomicBool>, told: Told) {
        self.send(Ask {
            request,
            at: None,
            wanted,
            told,
        });
    }

    fn send(&self, ask: Ask) {
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
        self.answer(question)?.map_err(|why| Trouble {
            why: format!("{}: {why}", self.name),
            is_passing: false,
        })
    }

    /// Why what this one of its servers has answered is no answer.
    pub fn refused_at(&self, why: &KeyError, server: usize) -> Trouble {
        Trouble {
            why: format!("{}: {why}", self.named(server)),
            is_passing: false,
        }
    }

    fn answer<T>(&self, question: Question<T>) -> Result<Result<T, KeyError>, Trouble> {
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
                Ok(Ok(response)) => return Ok(finish(&response)),
                Ok(Err(trouble)) if trouble.is_passing && left > ASKED_AGAIN => std::thread::sleep(ASKED_AGAIN),
                Ok(Err(trouble)) => return Err(trouble),
                Err(_) => {
                    let why = format!("{} has not answered within {} s", self.name, PATIENCE.as_secs());
                    return Err(Trouble { why, is_passing: true });
                }
            }
        }
    }

    /// Asks this one of its servers alone, and waits for that. Where there are others it is asked once: they may answer. (Inside:) it has answered, and
    /// what it says is no answer to the question: a record does not open by what it has.
    ///
    /// # Errors
    /// It does not answer, or refuses whatever it is asked by that key: why, for people. What it was seen to do counts no more.
    pub fn ask_at<T>(&self, question: Question<T>, server: usize) -> Result<Result<T, KeyError>, Trouble> {
        let answer = match self.servers.len() {
            1 => self.answer(question),
            _ => self.once(question, server),
        };
        if answer.is_err() {
            self.binds.fetch_and(!(1 << server), Ordering::Relaxed);
        }
        answer
    }

    fn once<T>(&self, question: Question<T>, server: usize) -> Result<Result<T, KeyError>, Trouble> {
        let (request, finish) = question.into_parts();
        let (tell, told) = sync_channel(1);
        let asking = Asking::new();
        self.send(Ask {
            request: Arc::new(request),
            at: Some(server),
            wanted: asking.wanted(),
            told: Box::new(move |answer| drop(tell.send(answer))),
        });
        match told.recv_timeout(PATIENCE) {
            Ok(answer) => answer.map(|response| finish(&response)),
            Err(_) => {
                let why = format!(
                    "{} has not answered within {} s",
                    self.named(server),
                    PATIENCE.as_secs()
                );
                Err(Trouble { why, is_passing: true })
            }
        }
    }

    /// This one of its servers was seen to wrap, and to bind what it wraps.
    pub fn proven(&self, server: usize) {
        self.binds.fetch_or(1 << server, Ordering::Relaxed);
    }

    /// Was that seen, and has it answered ever since?
    pub fn was_probed(&self, server: usize) -> bool {
        self.binds.load(Ordering::Relaxed) & (1 << server) != 0
    }

    /// How many servers it has.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// One of its servers, for people.
    pub fn named(&self, server: usize) -> &str {
        &self.servers[server]
    }

    /// For people.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn run(mut worker: impl Carry, asked: &Receiver<Ask>) {
    loop {
        let has_waited = match asked.recv_timeout(worker.wait(Instant::now())) {
            Ok(ask) => {
                // Whoever has asked may have given up meanwhile, and asked again.
                if ask.wanted.load(Ordering::Relaxed) {
                    (ask.told)(match ask.at {
                        Some(server) => worker.carry_at(&ask.request, server),
                        None => worker.carry(&ask.request),
                    });
                }
                false
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => return worker.end(),
        };
        worker.keep(has_waited);
    }
}

/// When it is asked again.
#[derive(Default)]
pub(super) struct Pause {
    pub failed: u32,
    /// Until when, and what is told meanwhile.
    pub until: Option<(Instant, Trouble)>,
}

impl Pause {
    pub fn begin(&mut self, now: Instant, trouble: Trouble) {
        let pause = FIRST_PAUSE * (1 << self.failed.min(8));
        self.failed = self.failed.saturating_add(1);
        self.until = Some((now + pause.min(LONGEST_PAUSE), trouble));
    }

    /// What is told meanwhile.
    pub fn holds(&self, now: Instant) -> Option<&Trouble> {
        let holds = self.until.as_ref().filter(|(until, _)| now < *until);
        holds.map(|(_, trouble)| trouble)
    }
}
