//! The journal: the one order of all that happens to a vault.
//!
//! Entry n is the object n, put only where there is none. Who wants to put an entry has read all before it, or the put finds another one
//! there. So nobody acts on an old state: what a session says after it was fenced would have to stand behind the fence, and whoever writes
//! it has read the fence before.
//!
//! **A put whose outcome is not known** is repeated with the same bytes under the same number. If it takes place later nevertheless, by
//! itself, then with the number that it was made for: all that stood before it then, stood before it when it was made.
//!
//! **An entry that is lost** is not taken for the end: numbers behind it are in the listing, and each entry names the one before by its hash.
//! That the *last* entries are gone is seen by who remembers a [`Head`].

use crate::codec::Cursor;
use crate::entry::Entry;
use crate::error::{Error, of};
use crate::seal::Kind;
use crate::state::State;
use crate::store::{Put, StoreError};
use crate::vault::Vault;
use crate::verify::Judged;
use aws_lc_rs::digest::{SHA256, digest};
use std::collections::BTreeSet;

/// How often a put is repeated whose outcome is not known. A store that waits between tries does that itself.
const TRIES: usize = 4;
/// How many entries behind the last known one are asked for: any of them says that there is one more.
const MAX_LISTED: usize = 1000;

/// An entry, to be remembered apart from the repository: who has one can tell whether the vault was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number; 0 before the first.
    pub number: u64,
    /// SHA-256 of its object; zeros before the first.
    pub hash: [u8; 32],
}

/// What was found of a stretch of the journal.
#[derive(Debug)]
pub(crate) struct Entries {
    pub damaged: Vec<Error>,
    /// The last entry that was looked at.
    pub place: u64,
    /// Those that could not be compared with the entry before, which is not whole.
    pub unlinked: BTreeSet<u64>,
    /// Why it did not come further.
    pub failed: Option<Error>,
}

/// Whose object is under the name.
pub(crate) enum Landed {
    Ours,
    Another,
}

pub(crate) fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

impl Vault {
    /// Puts an object, and says whether it is there: as long as that is not known it is put again.
    pub(crate) fn put(&self, object: &str, bytes: &[u8]) -> Result<Landed, Error> {
        let mut unknown = None;
        for _ in 0..TRIES {
            match self.store.put(object, bytes, self.options.retain) {
                Ok(Put::New) => return Ok(Landed::Ours),
                Ok(Put::Exists) => {
                    #[cfg(test)]
                    if self.state.switches.takes_what_is_there_for_its_own {
                        return Ok(Landed::Ours);
                    }
                    match self.store.get(object) {
                        Ok(Some(there)) if there == bytes => return Ok(Landed::Ours),
                        Ok(Some(_)) => return Ok(Landed::Another),
                        // It was there a moment ago.
                        Ok(None) => {}
                        Err(error) => unknown = Some(error),
                    }
                }
                Err(error @ StoreError::Unknown(_)) => unknown = Some(error),
                Err(error) => return Err(of(object, "put it")(error)),
            }
        }
        let gone = || StoreError::Unknown("it is there, and cannot be read".to_owned());
        Err(of(object, "put it")(unknown.unwrap_or_else(gone)))
    }

    /// Reads what was added to the journal.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    pub fn refresh(&mut self) -> Result<(), Error> {
        loop {
            let number = self.head.number + 1;
            let object = self.id.journal(number);
            let Some(bytes) = self.store.get(&object).map_err(of(&object, "read it"))? else {
                return Ok(());
            };
            let found = hash(&bytes);
            let body = self.keys.open(Kind::Journal, &object, bytes)?;
            let damaged = |why| Error::Damaged {
                object: object.clone(),
                why,
            };
            let mut cursor = Cursor(&body);
            let before: [u8; 32] = cursor.array().map_err(|why| damaged(why.0))?;
            if before != self.head.hash {
                return Err(damaged("it does not follow the entry before"));
            }
            let entry = Entry::parse(cursor.0).map_err(|why| damaged(why.0))?;
            let taken = self.state.apply(entry);
            taken.map_err(|_| damaged("the vault's state does not allow what it says"))?;
            self.head = Head { number, hash: found };
        }
    }

    /// Puts an entry behind the last one that is known. `None`: another one was quicker, and is known now.
    pub(crate) fn try_append(&mut self, entry: &Entry) -> Result<Option<u64>, Error> {
        self.state.check(entry)?;
        let number = self.head.number + 1;
        let object = self.id.journal(number);
        let body = [&self.head.hash[..], &entry.encode()].concat();
        let bytes = self.keys.seal(Kind::Journal, &object, &body)?;
        match self.put(&object, &bytes)? {
            Landed::Ours => {
                self.state.apply(entry.clone())?;
                self.head = Head {
                    number,
                    hash: hash(&bytes),
                };
                Ok(Some(number))
            }
            Landed::Another => {
                self.refresh()?;
                // A store that has an object, and says that it has none, would have this go on for ever.
                let went_on = self.head.number >= number;
                went_on.then_some(None).ok_or(Error::Missing { object })
            }
        }
    }

    /// Puts an entry that is right behind any others, as long as the state allows it.
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<u64, Error> {
        self.append_if(entry, &|_| Ok(()))
    }

    /// Puts an entry that is right behind any others that `guard` allows: it is asked of the state that the entry goes behind, for each that another
    /// one's entry was quicker.
    pub(crate) fn append_if(
        &mut self,
        entry: &Entry,
        guard: &dyn Fn(&State) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        loop {
            // What is refused may be right by now: another one's entry was not read yet.
            if self.state.check(entry).is_err() {
                self.refresh()?;
            }
            guard(&self.state)?;
            if let Some(number) = self.try_append(entry)? {
                return Ok(number);
            }
        }
    }

    /// Is what follows the last known entry the end?
    pub(crate) fn check_end(&mut self) -> Result<(), Error> {
        #[cfg(test)]
        if self.state.switches.takes_a_gap_for_the_end {
            return Ok(());
        }
        let prefix = self.id.journals();
        // What lies behind it alone: the entries before are read, or a checkpoint stands for them.
        let listed = self.store.list(&prefix, &self.id.journal(self.head.number), MAX_LISTED);
        let listed = listed.map_err(of(&prefix, "list it"))?;
        // What was added since is no gap.
        self.refresh()?;
        let missing = self.id.journal(self.head.number + 1);
        if listed.last().is_some_and(|last| last.name >= missing) {
            return Err(Error::Missing { object: missing });
        }
        Ok(())
    }

    /// What is wrong with the entries behind this one, 0 being before the first, up to the last that is known. It ends before one where `ends` says so, or that cannot
    /// be read, unless `judge` takes that for damage.
    pub(crate) fn damaged_entries(
        &self,
        place: u64,
        ends: &dyn Fn() -> bool,
        judge: &mut dyn FnMut(Error) -> Result<Judged<Option<Vec<u8>>>, Error>,
    ) -> Entries {
        let mut found = Entries {
            damaged: Vec::new(),
            place,
            unlinked: BTreeSet::new(),
            failed: None,
        };
        if place >= self.head.number || ends() {
            return found;
        }
        // What is wrong with that one was said when it was its turn.
        let before = self.hash_of(place).or_else(|error| {
            Ok(match judge(error)? {
                Judged::Read(_) => self.hash_of(place)?,
                Judged::Damage(_) => None,
            })
        });
        let mut before = match before {
            Ok(before) => before,
            Err(error) => {
                found.failed = Some(error);
                return found;
            }
        };
        while found.place < self.head.number {
            if found.place > place && ends() {
                break;
            }
            let number = found.place + 1;
            let object = self.id.journal(number);
            let judged = match self.store.get(&object).map_err(of(&object, "read it")) {
                Ok(bytes) => Ok(Judged::Read(bytes)),
                Err(error) => judge(error),
            };
            let bytes = match judged {
                Ok(Judged::Read(Some(bytes))) => Ok(bytes),
                Ok(Judged::Read(None)) => Err(Error::Missing { object: object.clone() }),
                Ok(Judged::Damage(error)) => Err(error),
                Err(error) => {
                    found.failed = Some(error);
                    break;
                }
            };
            let opened = bytes.and_then(|bytes| {
                let hash = hash(&bytes);
                self.keys.open(Kind::Journal, &object, bytes).map(|body| (hash, body))
            });
            // Behind one that is wrong nothing can be said of what comes before.
            if before.is_none() {
                found.unlinked.insert(number);
            }
            before = match opened {
                Err(error) => {
                    found.damaged.push(error);
                    None
                }
                Ok((hash, body)) => {
                    if before.is_some_and(|before| !body.starts_with(&before)) {
                        let why = "it does not follow the entry before";
                        found.damaged.push(Error::Damaged { object, why });
                    }
                    Some(hash)
                }
            };
            found.place = number;
        }
        found
    }

    /// The hash of an entry, as the one behind it has it; none: it is not whole.
    ///
    /// # Errors
    /// The store does not answer.
    fn hash_of(&self, number: u64) -> Result<Option<[u8; 32]>, Error> {
        if number == 0 {
            return Ok(Some([0; 32]));
        }
        let object = self.id.journal(number);
        let Some(bytes) = self.store.get(&object).map_err(of(&object, "read it"))? else {
            return Ok(None);
        };
        let found = hash(&bytes);
        let opened = self.keys.open(Kind::Journal, &object, bytes);
        Ok(opened.is_ok().then_some(found))
    }

    /// Compares the journal with an entry of it that is remembered.
    ///
    /// # Errors
    /// [`Error::Replaced`] when the journal does not have it.
    pub fn check_head(&self, remembered: Head) -> Result<(), Error> {
        if remembered.number == 0 {
            return Ok(());
        }
        let replaced = Error::Replaced {
            number: remembered.number,
        };
        if remembered.number > self.head.number {
            return Err(replaced);
        }
        let object = self.id.journal(remembered.number);
        match self.store.get(&object).map_err(of(&object, "read it"))? {
            Some(bytes) if hash(&bytes) == remembered.hash => Ok(()),
            Some(_) => Err(replaced),
            None => Err(Error::Missing { object }),
        }
    }
}
