//! A process keeps its identity by itself: it renews at half of the certificate's life, gets the newest trust list, and
//! takes what somebody else has put into the folder.

use super::AuthorityClient;
use crate::clock::UnixSeconds;
use crate::error::IdentityError;
use crate::live::Live;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the folder is looked at, and whether something is due.
const LOOK: Duration = Duration::from_secs(5);
/// How often the authority is asked for its list: so long a stolen certificate may be believed after it was revoked, where
/// nobody tells of it sooner.
const TRUST_EVERY: Duration = Duration::from_secs(30);
/// How long a renewal that has failed waits for the next attempt.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);
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
                    duties.look();
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

/// What is due, and when.
#[derive(Debug)]
pub(super) struct Duties {
    live: Arc<Live>,
    server: Option<AuthorityClient>,
    trust_at: UnixSeconds,
    renewal_at: UnixSeconds,
    /// What was said last of each duty: a fault that stays is said once.
    said: [String; 3],
}

#[derive(Clone, Copy)]
enum Duty {
    Folder,
    Trust,
    Renewal,
}

impl Duties {
    pub(super) fn new(live: Arc<Live>, server: Option<AuthorityClient>) -> Duties {
        Duties {
            live,
            server,
            trust_at: UnixSeconds(0),
            renewal_at: UnixSeconds(0),
            said: Default::default(),
        }
    }

    /// Does what is due now.
    pub(super) fn look(&mut self) {
        let now = self.live.clock().now();
        let reloaded = self.live.reload();
        if let Ok(true) = reloaded {
            self.tell("the folder has changed");
        }
        self.say(Duty::Folder, reloaded.map(drop));
        let Some(server) = self.server.clone() else { return };
        if now >= self.trust_at {
            self.trust_at = now.after(TRUST_EVERY);
            let taken = server.refresh_trust(&self.live);
            if let Ok(true) = taken {
                self.tell("a new trust list");
            }
            self.say(Duty::Trust, taken.map(drop));
        }
        if now >= self.renewal_at && now >= self.due() {
            self.renewal_at = now.after(RENEWAL_PAUSE);
            let renewed = server.renew(&self.live);
            if renewed.is_ok() {
                self.tell("renewed");
            }
            self.say(Duty::Renewal, renewed);
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

    fn say(&mut self, duty: Duty, result: Result<(), IdentityError>) {
        let text = result.err().map(|why| why.to_string()).unwrap_or_default();
        let said = &mut self.said[duty as usize];
        if *said == text {
            return;
        }
        let what = match duty {
            Duty::Folder => "the identity's folder cannot be used",
            Duty::Trust => "the trust list is not refreshed",
            Duty::Renewal => "the certificate is not renewed",
        };
        if text.is_empty() {
            log::info!(target: "identity", "{what}: this is over");
        } else {
            log::warn!(target: "identity", "{what}: {text}");
        }
        *said = text;
    }
}
