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
//!
//! **Keys that others keep** (Vault, a KMIP server) are asked for by threads of their own, one for each (`keeper.rs`): one that hangs keeps nobody
//! waiting but who needs it.
//!
//! **What lacks keys** is left alone until something changes: who would open it by himself asks [`Keys::missing`], which keeps looking for the
//! keys (`fetch.rs`), by records that are read again when they have changed (`records.rs`), and by a file that may hang (`reading.rs`).

mod fetch;
mod file;
mod keeper;
mod kmip;
mod lines;
mod reading;
mod records;
mod vault;
mod words;

pub use file::{KeyFile, KeyFileError};
pub use records::{Changes, Missed, Records};

use amita_crypt::{Keychain, Keys, NotNow};
use amita_types::map::{KeyName, KeyRing};
use fetch::{Fetcher, Wanted, Word};
use records::Kept;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Keys that were fetched are held for so long for who has asked for them: longer than an opening waits for them.
pub const HELD: Duration = Duration::from_secs(15);
/// What has failed is told to whoever asks within this, and tried again for whoever asks later.
const FAILED_FOR: Duration = Duration::from_secs(1);
/// The same where who keeps it refuses a key itself, for who comes again by himself: of a thousand volumes each would ask each second.
const REFUSED_FOR: Duration = Duration::from_secs(5);

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
    Failed {
        why: String,
        at: Instant,
        /// It is tried again for whoever asks so long behind it.
        again: Duration,
        /// It is being tried again.
        is_asked: bool,
    },
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

    /// The rings whose keys could not be fetched.
    fn failed(&self) -> impl Iterator<Item = &KeyRing> {
        let failed = self.0.values().filter(|(_, held)| matches!(held, Held::Failed { .. }));
        failed.map(|(ring, _)| ring)
    }
}

/// Nothing is to be done before who uses them asks again.
fn is_used(held: &Held) -> bool {
    matches!(held, Held::Here { fetched: None, .. })
}

/// See the module. Dropped, it fetches no more.
pub struct VolumeKeys {
    known: Arc<Mutex<Known>>,
    words: Sender<Word>,
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
    pub fn start(file: KeyFile, meta: Arc<dyn Records>) -> io::Result<Arc<VolumeKeys>> {
        let (words, told) = channel();
        let known = Arc::<Mutex<Known>>::default();
        let fetcher = Fetcher::new(file, Kept::new(meta), Arc::clone(&known), words.clone());
        std::thread::Builder::new()
            .name("amita-keys".to_owned())
            .spawn(move || fetcher.run(&told))?;
        Ok(Arc::new(VolumeKeys { known, words }))
    }

    /// Has the thread fetch them; `false`: it has ended.
    fn want(&self, ring: &KeyRing, is_new: bool) -> bool {
        let ring = ring.clone();
        self.words.send(Word::Wanted(Wanted { ring, is_new })).is_ok()
    }
}

impl Drop for VolumeKeys {
    fn drop(&mut self) {
        // Its thread has a way to tell itself, so that it would not hear that nobody is left.
        let _ = self.words.send(Word::End);
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
                Held::Failed { why, at, .. } if at.elapsed() < FAILED_FOR => return Err(NotNow::Missing(why.clone())),
                Held::Failed { .. } => {}
            }
        }
        // By new records, also where it is tried again already by those of before.
        if !self.want(ring, true) {
            return Err(NotNow::Missing("what fetches its keys has ended".to_owned()));
        }
        known.0.insert(name, (ring.clone(), Held::Coming));
        Err(NotNow::Coming)
    }

    fn missing(&self, ring: &KeyRing) -> Option<String> {
        let mut known = lock(&self.known);
        let (of, held) = known.0.get_mut(&ring.newest().key)?;
        match held {
            Held::Failed {
                why,
                at,
                again,
                is_asked,
            } if of == ring => {
                if !*is_asked && at.elapsed() >= *again {
                    *is_asked = self.want(ring, false);
                }
                Some(why.clone())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
