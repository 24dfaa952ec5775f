//! A process keeps its identity by itself: it renews at half of the certificate's life, gets the newest trust list, and
//! takes what somebody else has put into the folder.

use super::AuthorityClient;
use crate::clock::UnixSeconds;
use crate::error::IdentityError;
use crate::live::Live;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the folder is looked at, and whether something is due.
const LOOK: Duration = Duration::from_secs(5);
/// How often the authority is asked for its list: so long a stolen certificate may be believed after it was revoked, where
/// nobody tells of it sooner.
const TRUST_EVERY: Duration = Duration::from_secs(30);
/// How long a renewal that has failed waits for the next attempt.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);
/// What goes on to fail is told again after so long: above all that nobody hears here what was revoked.
const AGAIN: Duration = Duration::from_secs(10 * 60);
/// Renewals of machines that were set up together are spread over so much of a certificate's life.
const SPREAD_PART: u64 = 10;

/// The thread that does it, while it runs. Dropped, it ends.
#[derive(Debug)]
pub struct Upkeep {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Keeps an identity; with the authority's server (`HOST:PORT`) it is renewed from there, without it the folder is looked
    /// at only.
    ///
    /// # Errors
    /// `server` is not of that form; there is no thread to be had.
    pub fn start(live: Arc<Live>, server: Option<&str>) -> Result<Upkeep, IdentityError> {
        let server = server.map(AuthorityClient::new).transpose()?;
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("amita-identity".to_owned())
            .spawn(move || {
                let mut duties = Duties::new(live, server);
                loop {
                    duties.look(Instant::now());
                    if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
            })
            .map_err(|why| IdentityError::Make {
                what: "a thread",
                why: why.to_string(),
            })?;
        Ok(Upkeep {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is due, and when: by the time that has passed, not by the clock, which can be set back, and would have nobody hear of
/// anything for as long. A certificate's own times are the clock's.
#[derive(Debug)]
pub(super) struct Duties {
    live: Arc<Live>,
    server: Option<AuthorityClient>,
    /// `None`: at once.
    trust_at: Option<Instant>,
    renewal_at: Option<Instant>,
    /// What is wrong with each duty.
    faults: [Option<Fault>; 3],
}

#[derive(Clone, Copy)]
enum Duty {
    Folder,
    Trust,
    Renewal,
}

/// A fault that stays is told again only after [`AGAIN`].
#[derive(Debug)]
struct Fault {
    text: String,
    since: Instant,
    told: Instant,
}

impl Duties {
    pub(super) fn new(live: Arc<Live>, server: Option<AuthorityClient>) -> Duties {
        Duties {
            live,
            server,
            trust_at: None,
            renewal_at: None,
            faults: Default::default(),
        }
    }

    /// Does what is due now.
    pub(super) fn look(&mut self, now: Instant) {
        let reloaded = self.live.reload();
        if let Ok(true) = reloaded {
            self.tell("the folder has changed");
        }
        self.say(Duty::Folder, reloaded.map(drop), now);
        let Some(server) = self.server.clone() else { return };
        let is_time = |at: Option<Instant>| at.is_none_or(|at| now >= at);
        if is_time(self.trust_at) {
            self.trust_at = Some(now + TRUST_EVERY);
            let taken = server.refresh_trust(&self.live);
            if let Ok(true) = taken {
                self.tell("a new trust list");
            }
            self.say(Duty::Trust, taken.map(drop), now);
        }
        if is_time(self.renewal_at) && self.live.clock().now() >= self.due() {
            self.renewal_at = Some(now + RENEWAL_PAUSE);
            let renewed = server.renew(&self.live);
            if renewed.is_ok() {
                self.tell("renewed");
            }
            self.say(Duty::Renewal, renewed, now);
        }
    }

    /// In the middle of the certificate's life, and a little later for some than for others.
    fn due(&self) -> UnixSeconds {
        let current = self.live.current();
        let facts = current.facts();
        let spread = facts.not_after.since(facts.not_before).as_secs() / SPREAD_PART;
        let random = facts.serial.bytes().last().copied().unwrap_or(0);
        facts
            .renew_from()
            .after(Duration::from_secs(spread * u64::from(random) / 256))
    }

    fn tell(&self, what: &str) {
        let current = self.live.current();
        log::info!(
            target: "identity",
            "{}: {what}; certificate {} is valid until {}, trust list {}",
            current.name(),
            current.serial(),
            current.not_after(),
            current.trust().number().map_or_else(|| "of an outside authority".to_owned(), |number| number.to_string())
        );
    }

    fn say(&mut self, duty: Duty, result: Result<(), IdentityError>, now: Instant) {
        let what = match duty {
            Duty::Folder => "the identity's folder cannot be used",
            Duty::Trust => "the trust list is not refreshed, and nobody hears here what was revoked",
            Duty::Renewal => "the certificate is not renewed",
        };
        let fault = &mut self.faults[duty as usize];
        let Err(why) = result else {
            if fault.take().is_some() {
                log::info!(target: "identity", "{what}: this is over");
            }
            return;
        };
        let text = why.to_string();
        let since = match fault {
            Some(old) if old.text == text && now.saturating_duration_since(old.told) < AGAIN => return,
            Some(old) => old.since,
            None => now,
        };
        match now.saturating_duration_since(since).as_secs() / 60 {
            0 => log::warn!(target: "identity", "{what}: {text}"),
            minutes => log::warn!(target: "identity", "{what}, for {minutes} minutes now: {text}"),
        }
        *fault = Some(Fault { text, since, told: now });
    }
}
