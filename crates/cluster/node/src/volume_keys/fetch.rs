//! The thread that fetches keys.

use super::file::KeyFile;
use super::records::{Found, Kept};
use super::{Held, Known, lock};
use amita_control::admin;
use amita_crypt::{Binding, DataKey, Keychain, WrappedKey};
use amita_types::map::{KeyName, KeyRing};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often it is looked what may be forgotten, while there is anything.
const LOOK: Duration = Duration::from_secs(1);

/// A ring whose keys are wanted.
pub(super) struct Wanted {
    pub ring: KeyRing,
    /// By what the metadata have now, whatever was read before.
    pub is_new: bool,
}

pub(super) struct Fetcher {
    pub file: KeyFile,
    pub kept: Kept,
    pub known: Arc<Mutex<Known>>,
}

impl Fetcher {
    /// Until nobody can ask any more.
    pub fn run(mut self, asked: &Receiver<Wanted>) {
        self.compare();
        // What was read of the file just now is let go as all else.
        let mut is_idle = false;
        loop {
            let wanted = match is_idle {
                true => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => asked.recv_timeout(LOOK),
            };
            match wanted {
                Ok(wanted) => self.fetch(std::iter::once(wanted).chain(asked.try_iter()).collect()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            is_idle = self.forget();
        }
    }

    /// Says so where the file is not the cluster's. One that is not there yet was told of, and says with each volume what it lacks.
    fn compare(&self) {
        if self.file.check().is_ok()
            && let Ok((Some(by), _)) = admin::wrapping_key(self.kept.meta())
            && let Err(why) = self.file.is_of(&by)
        {
            log::warn!("--volume-keys: {why}; encrypted volumes stay closed here, and none are made");
        }
    }

    /// Fetches the keys of all these rings: by one look at the file, and by few calls of the metadata.
    fn fetch(&mut self, wanted: Vec<Wanted>) {
        let rings: Vec<(KeyRing, bool)> = wanted.into_iter().map(|wanted| (wanted.ring, wanted.is_new)).collect();
        let records = self.kept.get(&rings, Instant::now());
        let mut asked: Vec<(Binding, WrappedKey)> = Vec::new();
        let parsed: Vec<Result<(), String>> = rings
            .iter()
            .map(|(ring, _)| {
                let wrapped = wrapped(&records, ring)?;
                asked.extend(wrapped);
                Ok(())
            })
            .collect();
        let mut unwrapped = self.file.unwrap_all(&asked).into_iter();
        for ((ring, _), parsed) in rings.iter().zip(parsed) {
            let keys = parsed.and_then(|()| {
                // All are taken out, the wrong ones as well: the next ring's stand behind them.
                let own: Vec<(KeyName, Result<DataKey, String>)> =
                    ring.eras().iter().map(|era| era.key).zip(&mut unwrapped).collect();
                joined(ring, own)
            });
            self.settle(ring, keys);
        }
    }

    fn settle(&self, ring: &KeyRing, keys: Result<Keychain, String>) {
        let at = Instant::now();
        let held = match keys {
            Ok(keys) => {
                let keys = Arc::new(keys);
                Held::Here {
                    used: Arc::downgrade(&keys),
                    fetched: Some((keys, at)),
                }
            }
            Err(why) => Held::Failed {
                why,
                at,
                is_asked: false,
            },
        };
        // Another ring of the image may have been asked for meanwhile.
        if let Some(entry) = lock(&self.known).0.get_mut(&ring.newest().key)
            && entry.0 == *ring
        {
            entry.1 = held;
        }
    }

    /// Lets go of what nobody wants; `true`: that is all.
    fn forget(&mut self) -> bool {
        let mut known = lock(&self.known);
        let is_idle = !known.forget(Instant::now());
        let needed: BTreeSet<KeyName> = known.failed().flat_map(KeyRing::eras).map(|era| era.key).collect();
        drop(known);
        self.kept.keep(&needed);
        if is_idle {
            self.file.forget();
        }
        is_idle
    }
}

/// The records of a ring's keys, read.
fn wrapped(records: &Found, ring: &KeyRing) -> Result<Vec<(Binding, WrappedKey)>, String> {
    let of = |key: KeyName| {
        let record = records.get(&key).cloned().unwrap_or(Ok(None))?;
        let Some(record) = record else {
            return Err(format!(
                "data key {key} is not in the metadata: it was erased, and what was written with it cannot be read by anybody"
            ));
        };
        let text = std::str::from_utf8(&record).map_err(|_| format!("the record of data key {key} is no text"))?;
        let wrapped = WrappedKey::parse(text).map_err(|why| why.to_string())?;
        Ok((Binding { tenant: None, key }, wrapped))
    };
    ring.eras().iter().map(|era| of(era.key)).collect()
}

fn joined(ring: &KeyRing, keys: Vec<(KeyName, Result<DataKey, String>)>) -> Result<Keychain, String> {
    let keys: Result<Vec<(KeyName, DataKey)>, String> = keys.into_iter().map(|(name, key)| Ok((name, key?))).collect();
    Keychain::new(ring, keys?).map_err(|why| why.to_string())
}
