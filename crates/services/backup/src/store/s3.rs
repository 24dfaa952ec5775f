//! An S3 bucket as an object store: AWS's, or what speaks as it does.
//!
//! `put` is PutObject with `If-None-Match: *`: of several of one name one wins (412). Some that say that they speak S3 pass the header over, and
//! would let a journal be overwritten: [`try_out`](super::try_out) finds that before a vault is made. Every body goes with its SHA-256, which the
//! store compares; what comes is sealed, and is compared where it is opened.
//!
//! What fails for a moment (a connection, 5xx, 429, 409) is tried again, with pauses that double, and up to half of each by chance. Whatever is
//! put twice by that is the same object.
//!
//! Requests are signed in their addresses (SigV4), by `rusty-s3`, which does no I/O; they are sent by hyper. A secret is in none of them.

mod answer;
mod request;
mod settings;
mod wire;

pub use settings::{Credentials, S3Address, S3Settings};

use super::{Listed, ObjectStore, Put, Retention, StoreError};
use answer::{Meant, meant};
use request::{Request, Requests};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::{Answer, Wire};

/// How often something is tried that fails for a moment.
const TRIES: u32 = 6;
/// The first pause; the last one is 16 times as long.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 250 });
/// How often it is looked whether the waiting is to end.
const LOOK: Duration = Duration::from_millis(20);
/// The longest list that is asked for: S3's own limit.
const MAX_LISTED: usize = 1000;

/// A prefix of a bucket.
pub struct S3 {
    requests: Requests,
    wire: Mutex<Wire>,
    settings: S3Settings,
}

impl S3 {
    /// Nothing is asked of it yet.
    ///
    /// # Errors
    /// Settings that cannot be, in a sentence.
    pub fn new(settings: S3Settings) -> Result<S3, String> {
        Ok(S3 {
            requests: Requests::new(&settings)?,
            wire: Mutex::new(Wire::new(&settings)?),
            settings,
        })
    }

    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !(self.settings.ends)() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Sends it until it is answered for good.
    fn ask(&self, make: impl Fn() -> Request) -> Result<Answer, StoreError> {
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            // Signed anew each time: a signature grows old.
            let request = make();
            let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = wire.send(&request);
            drop(wire);
            let why = match answer.map(meant) {
                Ok(Meant::Answer(answer)) => return Ok(answer),
                Ok(Meant::Error(error)) => return Err(error),
                Ok(Meant::Later(why)) | Err(why) => why,
            };
            if tries == TRIES || (self.settings.ends)() {
                return Err(StoreError::Unknown(format!("{why} ({tries} tries)")));
            }
            tries += 1;
            self.pause(pause / 2 + pause / 2 * u32::from(chance()) / 256);
            pause *= 2;
        }
    }

    /// Until when an object is locked by the store, if it is, and what time it is there.
    fn locked_until(&self, name: &str) -> Result<(Option<Retention>, Retention), StoreError> {
        let answer = self.ask(|| self.requests.retention(name))?;
        // Where it does not say, this machine's clock is as good as any.
        let here = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs()
        };
        let now = Retention(answer.now.unwrap_or_else(here));
        let until = match (answer.status, answer.tag("Code").as_deref().unwrap_or_default()) {
            (200, _) => answer
                .tag("RetainUntilDate")
                .and_then(|text| request::seconds(&text))
                .map(Retention),
            // None was ever set, or there is no such object; or a mark of deletion lies over it (405).
            (404 | 405, _) | (_, "NoSuchObjectLockConfiguration") => None,
            (400, "InvalidRequest") | (501, _) => return Err(NO_LOCKS),
            _ => return Err(answer.refused("read its lock")),
        };
        Ok((until, now))
    }
}

const NO_LOCKS: StoreError =
    StoreError::Unsupported("the bucket has no object lock: that is turned on when a bucket is made");

fn chance() -> u8 {
    let mut byte = [0];
    // Without random numbers all wait for equally long.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    byte[0]
}

impl ObjectStore for S3 {
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError> {
        let answer = self.ask(|| self.requests.put(name, bytes, retain))?;
        match answer.status {
            200 | 201 | 204 => Ok(Put::New),
            412 => Ok(Put::Exists),
            501 => Err(StoreError::Unsupported(
                "it refuses puts of what is not there (If-None-Match), and without them nothing keeps two writers apart",
            )),
            400 if retain.is_some() && answer.tag("Code").as_deref() == Some("InvalidRequest") => Err(NO_LOCKS),
            _ => Err(answer.refused("put it")),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let answer = self.ask(|| self.requests.get(name, None))?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 if answer.is_of_the_object() => Ok(None),
            _ => Err(answer.refused("read it")),
        }
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        // A range of no bytes cannot be asked for.
        let last = offset.saturating_add((length as u64).max(1) - 1);
        let answer = self.ask(|| self.requests.get(name, Some((offset, last))))?;
        match answer.status {
            206 => {
                let mut body = answer.body;
                body.truncate(length);
                Ok(Some(body))
            }
            // The whole object, where ranges are passed over.
            200 => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(answer.body.len());
                let to = from.saturating_add(length).min(answer.body.len());
                Ok(Some(answer.body[from..to].to_vec()))
            }
            // It ends before.
            416 => Ok(Some(Vec::new())),
            404 if answer.is_of_the_object() => Ok(None),
            _ => Err(answer.refused("read it")),
        }
    }

    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError> {
        let most = most.min(MAX_LISTED);
        let answer = self.ask(|| self.requests.list(prefix, after, most))?;
        if answer.status != 200 {
            return Err(answer.refused("list it"));
        }
        self.requests.listed(&answer.body).map_err(StoreError::Unknown)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        if self.settings.locks {
            // In a bucket with locks a deletion only puts a mark over the object, also where it is locked.
            match self.locked_until(name) {
                Ok((Some(until), now)) if until > now => return Err(StoreError::Locked { until }),
                Ok(_) | Err(StoreError::Unsupported(_)) => {}
                Err(why) => return Err(why),
            }
        }
        let answer = self.ask(|| self.requests.delete(name))?;
        match answer.status {
            200 | 202 | 204 => Ok(()),
            404 if answer.is_of_the_object() => Ok(()),
            _ => Err(answer.refused("delete it")),
        }
    }

    fn retain(&self, name: &str, until: Retention) -> Result<(), StoreError> {
        // A lock cannot be made shorter, and trying to is refused.
        if self.locked_until(name)?.0.is_some_and(|held| held >= until) {
            return Ok(());
        }
        let answer = self.ask(|| self.requests.retain(name, until))?;
        match answer.status {
            200 | 204 => Ok(()),
            400 if answer.tag("Code").as_deref() == Some("InvalidRequest") => Err(NO_LOCKS),
            _ => Err(answer.refused("lock it")),
        }
    }
}

#[cfg(test)]
mod tests;
