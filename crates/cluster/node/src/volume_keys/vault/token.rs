//! A token that ends: it is looked up when it is first seen, and renewed at half of its time where Vault says that it may be.
//!
//! `GET /v1/auth/token/lookup-self` and `POST /v1/auth/token/renew-self` are what Vault's `default` policy allows to every token. One that is
//! not allowed them, or cannot be renewed, is for who has issued it to exchange: that is said in the log.

use super::Worker;
use amita_crypt::{HttpRequest, HttpResponse, Zeroizing, refusal};
use serde::Deserialize;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// A new one is looked up a little later: what is waited for goes first, and a command has ended by then.
const FIRST: Duration = Duration::from_secs(2);
/// What could not be asked is asked again after this, and what was refused.
const AGAIN: Duration = Duration::from_secs(30);
const REFUSED: Duration = Duration::from_secs(300);
/// It is renewed no more often.
const SHORTEST: Duration = Duration::from_secs(5);
/// No time of Vault's is longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Nobody waits longer at once: its file may have another one by then.
const LOOK: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    LookUp,
    Renew,
}

/// What is known of the token. Not the token.
pub(super) struct Token {
    hashes: RandomState,
    /// What tells it from another one.
    seen: Option<u64>,
    due: Option<(Instant, Next)>,
    /// The longest that Vault has given it, in seconds.
    granted: u64,
    /// It was said that Vault lengthens it no more.
    pub(super) is_told: bool,
}

impl Token {
    pub fn new(now: Instant) -> Token {
        Token {
            hashes: RandomState::new(),
            seen: None,
            due: Some((now + FIRST, Next::LookUp)),
            granted: 0,
            is_told: false,
        }
    }

    /// It was read from its file; `true`: it is another one than before.
    pub fn seen(&mut self, token: &str, now: Instant) -> bool {
        let hash = Some(self.hashes.hash_one(token));
        let is_new = self.seen != hash;
        if is_new {
            self.seen = hash;
            self.due = Some((now + FIRST, Next::LookUp));
            (self.granted, self.is_told) = (0, false);
        }
        is_new
    }

    /// After so long something is to be done; none: nothing is.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.due.map(|(due, _)| due.saturating_duration_since(now))
    }

    /// For so long there is nothing to be done, and nothing to be looked at.
    pub fn wait(&self, now: Instant) -> Duration {
        self.left(now).map_or(LOOK, |left| left.min(LOOK))
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|(due, _)| due <= now)
    }

    /// It was lengthened to this; `true`: that is less than it was, as it comes to the end that Vault has set it, and that is to be said, once.
    fn is_ending(&mut self, seconds: u64) -> bool {
        let is_less = seconds > 0 && seconds < self.granted - self.granted / 10;
        self.granted = self.granted.max(seconds);
        let is_news = is_less && !self.is_told;
        self.is_told |= is_less;
        is_news
    }

    /// It ends after this, and may be renewed or not.
    fn lasts(&mut self, now: Instant, seconds: u64, may_be_renewed: bool) {
        let time = Duration::from_secs(seconds).min(LONGEST * 2);
        self.due = match (seconds, may_be_renewed) {
            // It never ends, or nothing can be done for it.
            (0, _) | (_, false) => None,
            _ => Some((now + (time / 2).max(SHORTEST), Next::Renew)),
        };
    }
}

#[derive(Deserialize)]
struct LookedUp {
    data: Life,
}

#[derive(Deserialize)]
struct Life {
    ttl: u64,
    #[serde(default)]
    renewable: bool,
}

#[derive(Deserialize)]
struct Renewed {
    auth: Lease,
}

#[derive(Deserialize)]
struct Lease {
    lease_duration: u64,
    #[serde(default)]
    renewable: bool,
}

/// Does what is due.
pub(super) fn keep(worker: &mut Worker) {
    let Some((_, next)) = worker.token.due.take() else {
        return;
    };
    let now = Instant::now();
    worker.token.due = Some((now + AGAIN, next));
    // What asks for a key says what is wrong with the file.
    let Ok(shown) = worker.read_token() else {
        return;
    };
    worker.see(&shown);
    let next = match worker.token.due {
        Some((_, Next::LookUp)) | None => Next::LookUp,
        Some((_, Next::Renew)) => Next::Renew,
    };
    let request = request(worker, next);
    let answer = match worker.pause.holds(now) {
        Some(trouble) => Err(trouble.clone()),
        None => worker.ask(&request, &shown),
    };
    let Ok(response) = answer else {
        worker.token.due = Some((Instant::now() + AGAIN, next));
        return;
    };
    let now = Instant::now();
    let file = worker.place.token_file.display();
    match (life(next, &response), next) {
        (Some((seconds, true)), next) => {
            if next == Next::LookUp {
                worker.token.granted = worker.token.granted.max(seconds);
            } else if worker.token.is_ending(seconds) {
                let name = &worker.name;
                log::warn!(
                    "{name}: the token in {file} ends in {seconds} s and Vault lengthens it no more; put a new one there"
                );
            }
            worker.token.lasts(now, seconds, true);
        }
        (Some((seconds, false)), _) => {
            if seconds > 0 {
                let name = &worker.name;
                log::warn!(
                    "{name}: the token in {file} ends in {seconds} s and cannot be renewed; put a new one there before"
                );
            }
            worker.token.lasts(now, seconds, false);
        }
        (None, Next::LookUp) => {
            let (name, why) = (&worker.name, refusal(&response));
            log::warn!("{name}: how long the token in {file} lasts is not told, and it is not renewed here: {why}");
            worker.token.due = Some((now + REFUSED, Next::LookUp));
        }
        (None, Next::Renew) => {
            let (name, why) = (&worker.name, refusal(&response));
            log::warn!("{name}: the token in {file} was not renewed: {why}");
            worker.token.due = Some((now + AGAIN, Next::LookUp));
        }
    }
}

/// How long it lasts, and whether it may be renewed; none: that was refused.
fn life(next: Next, response: &HttpResponse) -> Option<(u64, bool)> {
    if response.status != 200 {
        return None;
    }
    match next {
        Next::LookUp => {
            let LookedUp { data } = serde_json::from_slice(&response.body).ok()?;
            Some((data.ttl, data.renewable))
        }
        Next::Renew => {
            let Renewed { auth } = serde_json::from_slice(&response.body).ok()?;
            Some((auth.lease_duration, auth.renewable))
        }
    }
}

fn request(worker: &Worker, next: Next) -> HttpRequest {
    let plain = |text: &str| Zeroizing::new(text.to_owned());
    let mut headers = vec![("X-Vault-Request", plain("true"))];
    if let Some(namespace) = &worker.place.namespace {
        headers.push(("X-Vault-Namespace", plain(namespace)));
    }
    let (method, path, body) = match next {
        Next::LookUp => ("GET", "/v1/auth/token/lookup-self", ""),
        Next::Renew => {
            headers.push(("Content-Type", plain("application/json")));
            ("POST", "/v1/auth/token/renew-self", "{}")
        }
    };
    HttpRequest {
        method,
        path: path.to_owned(),
        headers,
        body: Zeroizing::new(body.as_bytes().to_vec()),
    }
}
