//! Whoever keeps keys and is asked for them over the network (Vault, a KMIP server): what carries the questions of [`amita_crypt::Provider`] there.
//!
//! Each has a thread of its own, and answers one question after the other; who asks does not wait, or waits for it only so long. So one that
//! hangs keeps nobody waiting who needs another key. Where it does not answer, or says that it cannot now, whoever asks soon behind is told the
//! same at once: it is asked again after a pause, which grows ([`Pause`]).
//!
//! A question that nobody waits for any more ([`Asking`]) is not carried.

use amita_control::admin::KeyTrouble;
use amita_crypt::{Question, Request, Response};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
const LOOK: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// For people.
    pub why: String,
    /// It may pass by itself: it is worth asking again.
    pub is_passing: bool,
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
    asks: SyncSender<Ask>,
    /// It was seen to wrap, and to bind what it wraps.
    binds: AtomicBool,
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
        std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(move || run(worker, &asked))?;
        let binds = AtomicBool::new(false);
        Ok(Arc::new(Keeper { name, asks, binds }))
    }

    /// Asks it, and does not wait: `told` is, when it has answered, or has not. Where nobody wants that any more it is not asked, and `told` is
    /// dropped.
    pub fn ask(&self, request: Arc<Request>, wanted: Arc<AtomicBool>, told: Told) {
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

    /// It was seen to wrap, and to bind what it wraps.
    pub fn proven(&self) {
        self.binds.store(true, Ordering::Relaxed);
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

fn run(mut worker: impl Carry, asked: &Receiver<Ask>) {
    loop {
        let has_waited = match asked.recv_timeout(worker.wait(Instant::now())) {
            Ok(ask) => {
                // Whoever has asked may have given up meanwhile, and asked again.
                if ask.wanted.load(Ordering::Relaxed) {
                    (ask.told)(worker.carry(&ask.request));
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
