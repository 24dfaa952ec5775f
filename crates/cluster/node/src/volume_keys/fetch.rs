//! The thread that fetches keys.
//!
//! What a file unwraps is there at once. What somebody else keeps comes when he has answered, by a thread of his own; others are served meanwhile,
//! and a ring is there when the last of its keys is. Clones have keys in common: each is asked for once at one time. What nobody waits for any more is
//! not asked for.

use super::file::KeyFile;
use super::keeper::{Asking, Keeper, Trouble};
use super::lines::Step;
use super::records::{Found, Kept};
use super::{FAILED_FOR, Held, Known, REFUSED_FOR, lock};
use amita_control::admin::{self, TenantKey};
use amita_crypt::{Binding, DataKey, Finish, Keychain, Question, Response, WrappedKey};
use amita_types::map::{KeyName, KeyRing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How often it is looked what may be forgotten, while there is anything.
const LOOK: Duration = Duration::from_secs(1);
/// Who is asked answers within this, whatever he answers, and within this again the next one. Else it is not waited for any more.
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
        of: Of,
        number: u64,
        answer: Result<Response, Trouble>,
    },
    /// Nobody wants anything any more.
    End,
}

/// Who is asked, by his place, and for what record's key.
type Of = (usize, String);

/// A question under way, for all who want the same.
struct UnderWay {
    number: u64,
    /// He stays, so that nobody else has his place meanwhile.
    keeper: Arc<Keeper>,
    /// As long as one of those has it who wait.
    asking: Weak<Asking>,
    waiting: Vec<Waiting>,
}

/// Whose key it is.
struct Waiting {
    /// Of which ring.
    ring: u64,
    /// Of which of its keys.
    at: usize,
    finish: Finish<DataKey>,
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
    /// It waits for what was asked by these.
    _asking: Vec<Arc<Asking>>,
}

pub(super) struct Fetcher {
    pub file: KeyFile,
    pub kept: Kept,
    pub known: Arc<Mutex<Known>>,
    /// Who is asked tells the answer by this.
    answers: Sender<Word>,
    gathering: BTreeMap<u64, Gathering>,
    under_way: BTreeMap<Of, UnderWay>,
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
            under_way: BTreeMap::new(),
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
                            Word::Answered { of, number, answer } => self.answered(&of, number, &answer),
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
        if self.file.check().is_err() {
            return;
        }
        if let Ok((Some(by), _)) = admin::wrapping_key(self.kept.meta())
            && let Err(why) = self.file.is_of(&by)
        {
            log::warn!("--volume-keys: {why}; encrypted volumes stay closed here, and none are made");
        }
        for TenantKey { tenant, by } in admin::tenant_keys(self.kept.meta()).unwrap_or_default() {
            if let Err(why) = self.file.is_of_tenant(&tenant, &by) {
                log::warn!(
                    "--volume-keys: {why}; encrypted volumes of tenant {tenant} stay closed here, and none are made"
                );
            }
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
        let wrapped = asked.iter().map(|(_, wrapped)| wrapped);
        let mut steps = self.file.unwrap_all(&asked).into_iter().zip(wrapped);
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
    fn gather(&mut self, ring: KeyRing, steps: Vec<(Result<Step<DataKey>, String>, &WrappedKey)>) {
        let steps = steps.into_iter().map(|(step, wrapped)| match step {
            Ok(step) => Ok((step, wrapped)),
            Err(why) => Err(of_whom(why, wrapped)),
        });
        let steps: Vec<(Step<DataKey>, &WrappedKey)> = match steps.collect() {
            Ok(steps) => steps,
            // One that is not to be had is enough: nobody is asked for the others.
            Err(why) => return self.settle(&ring, Err(why.into())),
        };
        let number = self.number();
        let (mut keys, mut asking) = (Vec::with_capacity(steps.len()), Vec::new());
        for (at, (step, wrapped)) in steps.into_iter().enumerate() {
            keys.push(match step {
                Step::Done(key) => Some(key),
                Step::Ask(keeper, question) => {
                    asking.push(self.ask(keeper, question, wrapped, (number, at)));
                    None
                }
            });
        }
        let found = Gathering {
            ring,
            keys,
            until: Instant::now() + ASKED_FOR,
            _asking: asking,
        };
        self.gathering.insert(number, found);
        self.look_at(number);
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Asks, or waits with those who have asked for the same.
    fn ask(
        &mut self,
        keeper: Arc<Keeper>,
        question: Question<DataKey>,
        wrapped: &WrappedKey,
        (ring, at): (u64, usize),
    ) -> Arc<Asking> {
        let of = (Arc::as_ptr(&keeper) as usize, wrapped.to_text());
        let (request, finish) = question.into_parts();
        let waiting = Waiting { ring, at, finish };
        if let Some(found) = self.under_way.get_mut(&of)
            && let Some(asking) = found.asking.upgrade()
        {
            found.waiting.push(waiting);
            return asking;
        }
        let (number, answers, told_of) = (self.number(), self.answers.clone(), of.clone());
        let told = move |answer: Result<Response, Trouble>| {
            let of = told_of;
            // Where nobody hears it, it is wiped.
            let _ = answers.send(Word::Answered { of, number, answer });
        };
        let asking = Arc::new(Asking::new());
        keeper.ask(Arc::new(request), asking.wanted(), Box::new(told));
        let under_way = UnderWay {
            number,
            keeper,
            asking: Arc::downgrade(&asking),
            waiting: vec![waiting],
        };
        self.under_way.insert(of, under_way);
        asking
    }

    fn answered(&mut self, of: &Of, number: u64, answer: &Result<Response, Trouble>) {
        // Of those who had asked before nobody may be left, and the same may have been asked again since.
        if self.under_way.get(of).is_none_or(|found| found.number != number) {
            return;
        }
        let Some(UnderWay { keeper, waiting, .. }) = self.under_way.remove(of) else {
            return;
        };
        for Waiting { ring, at, finish } in waiting {
            let key = match answer {
                Ok(response) => finish(response).map_err(|why| Refused {
                    why: format!("{}: {why}", keeper.name()),
                    again: REFUSED_FOR,
                }),
                // It is not asked again before its time, whoever asks.
                Err(trouble) => Err(Refused::from(trouble.why.clone())),
            };
            self.came(ring, at, key);
        }
    }

    fn came(&mut self, number: u64, at: usize, key: Result<DataKey, Refused>) {
        let Some(mut found) = self.gathering.remove(&number) else {
            return;
        };
        match key {
            Ok(key) => {
                found.keys[at] = Some(key);
                // Who has many keys waits for many answers.
                found.until = Instant::now() + ASKED_FOR;
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
        self.under_way.retain(|_, found| found.asking.strong_count() > 0);
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

/// Why it is not opened, and whose the key is that does.
fn of_whom(why: String, wrapped: &WrappedKey) -> String {
    match &wrapped.binding().tenant {
        Some(tenant) => {
            format!("{why} (it is wrapped by the volume key of tenant {tenant}: the line `tenant={tenant} ...`)")
        }
        None => why,
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
        // For whom it is wrapped is for those who wrap: whoever has what opens it, opens it.
        let tenant = wrapped.binding().tenant.clone();
        Ok((Binding { tenant, key }, wrapped))
    };
    ring.eras().iter().map(|era| of(era.key)).collect()
}

#[cfg(test)]
mod tests;
