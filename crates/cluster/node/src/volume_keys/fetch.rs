//! The thread that fetches keys.
//!
//! What a file unwraps is there at once. What Vault is asked for comes when Vault has answered, by its own thread; others are served meanwhile,
//! and a ring is there when the last of its keys is.

use super::file::KeyFile;
use super::lines::Step;
use super::records::{Found, Kept};
use super::{FAILED_FOR, Held, Known, REFUSED_FOR, lock};
use amita_control::admin;
use amita_crypt::{Binding, DataKey, Keychain, WrappedKey};
use amita_types::map::{KeyName, KeyRing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often it is looked what may be forgotten, while there is anything.
const LOOK: Duration = Duration::from_secs(1);
/// Who is asked answers within this, whatever he answers. Else it is not waited for any more.
const ASKED_FOR: Duration = Duration::from_secs(60);

/// A ring whose keys are wanted.
pub(super) struct Wanted {
    pub ring: KeyRing,
    /// By what the metadata have now, whatever was read before.
    pub is_new: bool,
}

/// What the thread is told.
pub(super) enum Word {
    Wanted(Wanted),
    /// What has come of a question.
    Answered {
        /// Of which ring.
        number: u64,
        /// Of which of its keys.
        at: usize,
        key: Result<DataKey, Refused>,
    },
    /// Nobody wants anything any more.
    End,
}

/// Why a key is not to be had, for people, and when that is worth another look.
pub(super) struct Refused {
    why: String,
    again: Duration,
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        let again = FAILED_FOR;
        Refused { why, again }
    }
}

/// A ring some of whose keys are being asked for.
struct Gathering {
    ring: KeyRing,
    keys: Vec<Option<DataKey>>,
    until: Instant,
}

pub(super) struct Fetcher {
    pub file: KeyFile,
    pub kept: Kept,
    pub known: Arc<Mutex<Known>>,
    /// Who is asked tells the answer by this.
    answers: Sender<Word>,
    gathering: BTreeMap<u64, Gathering>,
    numbers: u64,
}

impl Fetcher {
    pub fn new(file: KeyFile, kept: Kept, known: Arc<Mutex<Known>>, answers: Sender<Word>) -> Fetcher {
        Fetcher {
            file,
            kept,
            known,
            answers,
            gathering: BTreeMap::new(),
            numbers: 0,
        }
    }

    /// Until it is told to end.
    pub fn run(mut self, told: &Receiver<Word>) {
        self.compare();
        // What was read of the file just now is let go as all else.
        let mut is_idle = false;
        loop {
            let word = match is_idle {
                true => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => told.recv_timeout(LOOK),
            };
            match word {
                Ok(word) => {
                    let mut wanted = Vec::new();
                    for word in std::iter::once(word).chain(told.try_iter()) {
                        match word {
                            Word::Wanted(ring) => wanted.push(ring),
                            Word::Answered { number, at, key } => self.answered(number, at, key),
                            Word::End => return,
                        }
                    }
                    if !wanted.is_empty() {
                        self.fetch(wanted);
                    }
                }
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
        let parsed: Vec<Result<usize, String>> = rings
            .iter()
            .map(|(ring, _)| {
                let wrapped = wrapped(&records, ring)?;
                let keys = wrapped.len();
                asked.extend(wrapped);
                Ok(keys)
            })
            .collect();
        let mut steps = self.file.unwrap_all(&asked).into_iter();
        for ((ring, _), parsed) in rings.into_iter().zip(parsed) {
            match parsed {
                // All of them are taken out: the next ring's stand behind them.
                Ok(keys) => {
                    let own: Vec<_> = steps.by_ref().take(keys).collect();
                    self.gather(ring, own);
                }
                Err(why) => self.settle(&ring, Err(why.into())),
            }
        }
    }

    /// Has the keys of a ring asked for that are to be asked for.
    fn gather(&mut self, ring: KeyRing, steps: Vec<Result<Step<DataKey>, String>>) {
        let steps: Vec<Step<DataKey>> = match steps.into_iter().collect() {
            Ok(steps) => steps,
            // One that is not to be had is enough: nobody is asked for the others.
            Err(why) => return self.settle(&ring, Err(why.into())),
        };
        let number = self.numbers;
        self.numbers += 1;
        let mut keys = Vec::with_capacity(steps.len());
        for (at, step) in steps.into_iter().enumerate() {
            keys.push(match step {
                Step::Done(key) => Some(key),
                Step::Ask(vault, question) => {
                    let (request, finish) = question.into_parts();
                    let (answers, name) = (self.answers.clone(), vault.name().to_owned());
                    let told = move |answer: Result<_, super::vault::Trouble>| {
                        let key = match answer {
                            Ok(response) => finish(&response).map_err(|why| Refused {
                                why: format!("{name}: {why}"),
                                again: REFUSED_FOR,
                            }),
                            // It is not asked again before its time, whoever asks.
                            Err(trouble) => Err(trouble.why.into()),
                        };
                        // Where nobody hears it, it is wiped.
                        let _ = answers.send(Word::Answered { number, at, key });
                    };
                    vault.ask(Arc::new(request), Box::new(told));
                    None
                }
            });
        }
        let until = Instant::now() + ASKED_FOR;
        self.gathering.insert(number, Gathering { ring, keys, until });
        self.look_at(number);
    }

    fn answered(&mut self, number: u64, at: usize, key: Result<DataKey, Refused>) {
        let Some(mut found) = self.gathering.remove(&number) else {
            return;
        };
        match key {
            Ok(key) => {
                found.keys[at] = Some(key);
                self.gathering.insert(number, found);
                self.look_at(number);
            }
            Err(why) => self.settle(&found.ring, Err(why)),
        }
    }

    /// Are all keys of a ring there?
    fn look_at(&mut self, number: u64) {
        let is_whole = |found: &Gathering| found.keys.iter().all(Option::is_some);
        if !self.gathering.get(&number).is_some_and(is_whole) {
            return;
        }
        if let Some(Gathering { ring, keys, .. }) = self.gathering.remove(&number) {
            let names = ring.eras().iter().map(|era| era.key);
            let keys: Vec<(KeyName, DataKey)> = names.zip(keys.into_iter().flatten()).collect();
            let keychain = Keychain::new(&ring, keys).map_err(|why| why.to_string().into());
            self.settle(&ring, keychain);
        }
    }

    fn settle(&self, ring: &KeyRing, keys: Result<Keychain, Refused>) {
        let at = Instant::now();
        let held = match keys {
            Ok(keys) => {
                let keys = Arc::new(keys);
                Held::Here {
                    used: Arc::downgrade(&keys),
                    fetched: Some((keys, at)),
                }
            }
            Err(Refused { why, again }) => Held::Failed {
                why,
                at,
                again,
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
        let now = Instant::now();
        let (late, gathering) = std::mem::take(&mut self.gathering)
            .into_iter()
            .partition(|(_, found)| found.until <= now);
        self.gathering = gathering;
        for Gathering { ring, .. } in BTreeMap::into_values(late) {
            let why = format!(
                "what was asked for its keys has not answered within {} s",
                ASKED_FOR.as_secs()
            );
            self.settle(&ring, Err(why.into()));
        }
        let mut known = lock(&self.known);
        let is_idle = !known.forget(now) && self.gathering.is_empty();
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
