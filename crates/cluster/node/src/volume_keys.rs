//! The data keys of encrypted volumes, as a node has them (`docs/operating/encryption.md`).
//!
//! **The story.** An opener asks for the keys of the ring that it has read. They stand in the metadata, wrapped; what unwraps them is a file
//! of the node's ([`KeyFile`]). To read one, ask the other and stretch a passphrase takes longer than a core may wait: a thread of its own
//! does it, and the opener asks again meanwhile.
//!
//! **What is kept.** The keys of a volume for as long as it is open: whoever has it open holds them, and here only their place is known.
//! Where nobody takes them they are wiped after [`HELD`]. The file is looked at each time: a key that comes opens what waits for it, and one
//! that was taken away opens nothing any more. What was read of it is wiped when it was used; of a passphrase, which costs a third of a second, when
//! nothing was fetched for [`HELD`].
//!
//! **Many at once.** Whoever asks while others are served waits for one call of the metadata with them, and not for one of each: a node that opens
//! a thousand volumes reads their keys by a dozen calls, and stretches a passphrase once. Openers wait for keys only so long.

mod file;

pub use file::{KeyFile, KeyFileError};

use amita_control::admin;
use amita_crypt::{Binding, Keychain, Keys, NotNow, WrappedKey};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{KeyName, KeyRing, secret_key};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Keys that were fetched are held for so long for who has asked for them: longer than an opening waits for them.
pub const HELD: Duration = Duration::from_secs(15);
/// What has failed is told to whoever asks within this, and tried again for whoever asks later.
const FAILED_FOR: Duration = Duration::from_secs(1);
/// How often it is looked what may be forgotten, while there is anything.
const LOOK: Duration = Duration::from_secs(1);
/// So many records are read by one call ([`amita_metadata::MAX_OPS`] are the most).
const AT_ONCE: usize = 96;

/// How it stands with the keys of a ring.
enum Held {
    /// They are being fetched.
    Coming,
    /// They are in use, or were fetched a moment ago.
    Here {
        fetched: Option<(Arc<Keychain>, Instant)>,
        used: Weak<Keychain>,
    },
    /// They could not be fetched.
    Failed { why: String, at: Instant },
}

/// By the newest key, of which each image has its own.
#[derive(Default)]
struct Known(BTreeMap<KeyName, (KeyRing, Held)>);

impl Known {
    /// Lets go of what nobody wants any more. Is there anything left to look after?
    fn forget(&mut self, now: Instant) -> bool {
        let since = |at: &Instant| now.saturating_duration_since(*at);
        for (_, held) in self.0.values_mut() {
            if let Held::Here { fetched, .. } = held
                && fetched.as_ref().is_some_and(|(_, at)| since(at) >= HELD)
            {
                *fetched = None;
            }
        }
        self.0.retain(|_, (_, held)| match held {
            Held::Coming => true,
            Held::Here { fetched, used } => fetched.is_some() || used.strong_count() > 0,
            Held::Failed { at, .. } => since(at) < HELD,
        });
        self.0.values().any(|(_, held)| !is_used(held))
    }
}

/// Nothing is to be done before who uses them asks again.
fn is_used(held: &Held) -> bool {
    matches!(held, Held::Here { fetched: None, .. })
}

/// See the module. Dropped, it fetches no more.
pub struct VolumeKeys {
    known: Arc<Mutex<Known>>,
    wanted: Sender<KeyRing>,
}

impl fmt::Debug for VolumeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKeys(..)")
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VolumeKeys {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is none to be had.
    pub fn start(file: KeyFile, meta: Arc<dyn Transact + Send + Sync>) -> io::Result<Arc<VolumeKeys>> {
        let (wanted, asked) = channel();
        let known = Arc::<Mutex<Known>>::default();
        let shared = Arc::clone(&known);
        std::thread::Builder::new()
            .name("amita-keys".to_owned())
            .spawn(move || fetch_all(&file, &*meta, &shared, &asked))?;
        Ok(Arc::new(VolumeKeys { known, wanted }))
    }
}

impl Keys for VolumeKeys {
    fn keychain(&self, ring: &KeyRing) -> Result<Arc<Keychain>, NotNow> {
        let mut known = lock(&self.known);
        let name = ring.newest().key;
        if let Some((of, held)) = known.0.get(&name)
            && of == ring
        {
            match held {
                Held::Coming => return Err(NotNow::Coming),
                Held::Here { used, .. } => {
                    if let Some(keys) = used.upgrade() {
                        return Ok(keys);
                    }
                }
                Held::Failed { why, at } if at.elapsed() < FAILED_FOR => return Err(NotNow::Missing(why.clone())),
                Held::Failed { .. } => {}
            }
        }
        if self.wanted.send(ring.clone()).is_err() {
            return Err(NotNow::Missing("what fetches its keys has ended".to_owned()));
        }
        known.0.insert(name, (ring.clone(), Held::Coming));
        Err(NotNow::Coming)
    }
}

fn fetch_all(file: &KeyFile, meta: &dyn Transact, known: &Mutex<Known>, asked: &Receiver<KeyRing>) {
    // One that is not there yet was told of, and says with each volume what it lacks.
    if file.check().is_ok()
        && let Ok((Some(by), _)) = admin::wrapping_key(meta)
        && let Err(why) = file.is_of(&by)
    {
        log::warn!("--volume-keys: {why}; encrypted volumes stay closed here, and none are made");
    }
    // What was read of the file just now is let go as all else.
    let mut is_idle = false;
    loop {
        let ring = match is_idle {
            true => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => asked.recv_timeout(LOOK),
        };
        match ring {
            Ok(ring) => {
                let rings: Vec<KeyRing> = std::iter::once(ring).chain(asked.try_iter()).collect();
                let records = read(meta, &rings);
                for ring in &rings {
                    let fetched = unwrap(file, &records, ring);
                    let now = Instant::now();
                    let held = match fetched {
                        Ok(keys) => {
                            let keys = Arc::new(keys);
                            Held::Here {
                                used: Arc::downgrade(&keys),
                                fetched: Some((keys, now)),
                            }
                        }
                        Err(why) => Held::Failed { why, at: now },
                    };
                    let mut known = lock(known);
                    // Another ring of the image may have been asked for meanwhile.
                    if let Some(entry) = known.0.get_mut(&ring.newest().key)
                        && entry.0 == *ring
                    {
                        entry.1 = held;
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        is_idle = !lock(known).forget(Instant::now());
        if is_idle {
            file.forget();
        }
    }
}

/// The records of data keys: none, or why it is not known.
type Records = BTreeMap<KeyName, Result<Option<Vec<u8>>, String>>;

/// Reads the records of all keys of these rings.
fn read(meta: &dyn Transact, rings: &[KeyRing]) -> Records {
    let eras = rings.iter().flat_map(KeyRing::eras);
    let names: BTreeSet<KeyName> = eras.map(|era| era.key).collect();
    let names: Vec<KeyName> = names.into_iter().collect();
    let mut records = Records::new();
    let mut away: Option<String> = None;
    for names in names.chunks(AT_ONCE) {
        let call = Call {
            then: names.iter().map(|name| Op::Get { key: secret_key(*name) }).collect(),
            ..Call::default()
        };
        // What is away is not waited for again.
        let reply = match &away {
            Some(why) => Err(why.clone()),
            None => meta.txn(&call).map_err(|why| why.to_string()),
        };
        for (at, name) in names.iter().enumerate() {
            let record = match &reply {
                Ok(reply) => Ok(reply.value(at).map(|found| found.value.clone())),
                Err(why) => Err(why.clone()),
            };
            records.insert(*name, record);
        }
        away = reply.err();
    }
    records
}

/// Unwraps the keys of a ring.
fn unwrap(file: &KeyFile, records: &Records, ring: &KeyRing) -> Result<Keychain, String> {
    let mut keys = Vec::with_capacity(ring.eras().len());
    for key in ring.eras().iter().map(|era| era.key) {
        let record = records.get(&key).cloned().unwrap_or(Ok(None))?;
        let Some(record) = record else {
            return Err(format!(
                "data key {key} is not in the metadata: it was erased, and what was written with it cannot be read by anybody"
            ));
        };
        let text = std::str::from_utf8(&record).map_err(|_| format!("the record of data key {key} is no text"))?;
        let wrapped = WrappedKey::parse(text).map_err(|why| why.to_string())?;
        let binding = Binding { tenant: None, key };
        keys.push((key, file.unwrap(&binding, &wrapped)?));
    }
    Keychain::new(ring, keys).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests;
