//! A change that is made only to what was looked at.
//!
//! Who decides by what was shown (a client of the API with `If-Match`) wants nothing done where that is another thing by now. Compared
//! before the change, another change can come in between. So the records by which an operator changes the thing are compared by the very
//! transactions of the change: [`Precondition::run`] hands a way to the metadata to the function that makes it, which adds the comparisons
//! to whatever that function writes, so that none of these functions has to know of it.
//!
//! A record changes for other reasons, too: a node registers anew, a gateway takes a volume over. Then what is shown is made anew, and
//! where it is the same the same transaction is tried again. What is shown beside these records, such as who is alive, is compared when it
//! is looked at.

use super::subsystem::unchanged;
use super::{AdminError, Result, tries};
use amita_metadata::{Call, Error, Op, Reply, Transact};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// What records were when they were looked at, and what the change itself has made of them since.
#[derive(Debug)]
pub struct Precondition {
    /// Their revisions, by their keys. Zero: there is none.
    seen: RefCell<BTreeMap<String, u64>>,
    has_written: Cell<bool>,
}

impl Precondition {
    /// What `look` shows, and the records of `keys` as they were then: those by which what it shows is changed.
    ///
    /// # Errors
    /// As `look`.
    pub fn of<T>(
        meta: &dyn Transact,
        look: impl FnOnce(&dyn Transact) -> Result<T>,
        keys: impl FnOnce(&T) -> Vec<String>,
    ) -> Result<(T, Precondition)> {
        let noting = Noting::of(meta);
        let shown = look(&noting)?;
        let seen = noting.revisions(keys(&shown));
        let precondition = Precondition {
            seen: RefCell::new(seen),
            has_written: Cell::new(false),
        };
        Ok((shown, precondition))
    }

    /// What `look` shows, where the records have been changed by nobody else. None: they have.
    ///
    /// # Errors
    /// As `look`.
    pub fn again<T>(&self, meta: &dyn Transact, look: impl FnOnce(&dyn Transact) -> Result<T>) -> Result<Option<T>> {
        let noting = Noting::of(meta);
        let shown = look(&noting)?;
        let seen = self.seen.borrow();
        let is_same = noting.revisions(seen.keys().cloned()) == *seen;
        Ok(is_same.then_some(shown))
    }

    /// Has the change itself written some of the records?
    #[must_use]
    pub fn has_written(&self) -> bool {
        self.has_written.get()
    }

    /// Makes a change, while the records are what they were. `still`: is what is shown the same, though some of them have changed?
    ///
    /// # Errors
    /// [`AdminError::Changed`]: it is not, and nothing was written since; or what `work` says.
    pub fn run<T>(
        &self,
        meta: &dyn Transact,
        still: &dyn Fn(&dyn Transact) -> Result<bool>,
        work: impl FnOnce(&dyn Transact) -> Result<T>,
    ) -> Result<T> {
        let holding = Holding {
            meta,
            precondition: self,
            still,
            made: RefCell::default(),
            refused: RefCell::default(),
        };
        let done = work(&holding);
        match holding.refused.into_inner() {
            Some(why) if done.is_err() => Err(why),
            _ => done,
        }
    }
}

/// Notes what keys were when they were read first: a look may read one several times, and what it shows may be of the first.
struct Noting<'a> {
    meta: &'a dyn Transact,
    read: RefCell<Read>,
}

#[derive(Default)]
struct Read {
    /// Revisions by keys. Zero: there was none.
    keys: BTreeMap<String, u64>,
    prefixes: Vec<String>,
}

impl Read {
    fn note(&mut self, key: &str, revision: u64) {
        if self.keys.contains_key(key) {
            return;
        }
        let was_missing = self.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
        let first = if was_missing { 0 } else { revision };
        self.keys.insert(key.to_owned(), first);
    }
}

impl Noting<'_> {
    fn of(meta: &dyn Transact) -> Noting<'_> {
        Noting {
            meta,
            read: RefCell::default(),
        }
    }

    /// One that was not read is taken for none: where it is there, the first comparison finds it, and what is shown is made anew.
    fn revisions(&self, keys: impl IntoIterator<Item = String>) -> BTreeMap<String, u64> {
        let read = self.read.borrow();
        let revision = |key: &String| read.keys.get(key).copied().unwrap_or_default();
        keys.into_iter().map(|key| (key.clone(), revision(&key))).collect()
    }
}

impl Transact for Noting<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let reply = self.meta.txn(call)?;
        let mut read = self.read.borrow_mut();
        let branch = if reply.succeeded { &call.then } else { &call.otherwise };
        for (index, op) in branch.iter().enumerate() {
            for found in reply.values(index) {
                read.note(&found.key, found.mod_revision);
            }
            match op {
                Op::Get { key } if reply.value(index).is_none() => read.note(key, 0),
                Op::Prefix { key } => read.prefixes.push(key.clone()),
                _ => {}
            }
        }
        Ok(reply)
    }

    fn after_lost(&self, races: u32) {
        self.meta.after_lost(races);
    }
}

/// Passes transactions on; those that write only while the records are what they were.
struct Holding<'a> {
    meta: &'a dyn Transact,
    precondition: &'a Precondition,
    still: &'a dyn Fn(&dyn Transact) -> Result<bool>,
    /// What the change has put beside the records, such as a question to a volume's owner: it may take that away again in any case.
    made: RefCell<BTreeSet<String>>,
    /// Why nothing is written any more.
    refused: RefCell<Option<AdminError>>,
}

impl Holding<'_> {
    fn takes_back(&self, call: &Call) -> bool {
        let made = self.made.borrow();
        let is_own = |op: &Op| match op {
            Op::Delete { key } => made.contains(key),
            other => !other.is_write(),
        };
        call.then.iter().chain(&call.otherwise).all(is_own)
    }

    /// What was written is known by the change that has done it.
    fn note(&self, call: &Call, revision: u64) {
        let mut seen = self.precondition.seen.borrow_mut();
        for (key, known) in seen.iter_mut() {
            let written = call.then.iter().filter_map(|op| left_by(op, key)).next_back();
            if let Some(is_there) = written {
                *known = if is_there { revision } else { 0 };
                self.precondition.has_written.set(true);
            }
        }
        let put = call.then.iter().filter_map(|op| match op {
            Op::Put { key, .. } => Some(key),
            _ => None,
        });
        let beside = put.filter(|key| !seen.contains_key(*key)).cloned();
        self.made.borrow_mut().extend(beside);
    }

    fn refuse(&self, why: AdminError) -> Error {
        let error = Error::Setting { why: why.to_string() };
        *self.refused.borrow_mut() = Some(why);
        error
    }
}

/// Is the key there behind the operation? None: it does not write it.
fn left_by(op: &Op, key: &str) -> Option<bool> {
    match op {
        Op::Put { key: put, .. } => (put == key).then_some(true),
        Op::Delete { key: gone } => (gone == key).then_some(false),
        Op::DeletePrefix { key: prefix } => key.starts_with(prefix.as_str()).then_some(false),
        _ => None,
    }
}

impl Transact for Holding<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if call.is_read_only() || self.takes_back(call) {
            return self.meta.txn(call);
        }
        if let Some(why) = self.refused.borrow().as_ref() {
            return Err(Error::Setting { why: why.to_string() });
        }
        for _ in tries(self.meta) {
            let seen = self.precondition.seen.borrow().clone();
            let mut held = call.clone();
            held.compares
                .extend(seen.iter().map(|(key, revision)| unchanged(key, *revision)));
            held.otherwise
                .extend(seen.keys().map(|key| Op::Get { key: key.clone() }));
            let mut reply = self.meta.txn(&held)?;
            if reply.succeeded {
                self.note(call, reply.revision);
                return Ok(reply);
            }
            let own = call.otherwise.len();
            let revision = |index: usize| reply.value(own + index).map_or(0, |found| found.mod_revision);
            let keys = seen.keys().enumerate();
            let now: BTreeMap<String, u64> = keys.map(|(index, key)| (key.clone(), revision(index))).collect();
            if now == seen {
                // What the change itself compares does not hold.
                reply.results.truncate(own);
                return Ok(reply);
            }
            match (self.still)(self.meta) {
                // They were read before what is shown was made anew.
                Ok(true) => *self.precondition.seen.borrow_mut() = now,
                Ok(false) => return Err(self.refuse(AdminError::Changed)),
                Err(why) => return Err(self.refuse(why)),
            }
        }
        let keys: Vec<String> = self.precondition.seen.borrow().keys().cloned().collect();
        let key = keys.join(", ");
        Err(self.refuse(AdminError::TooManyRaces { key }))
    }

    fn after_lost(&self, races: u32) {
        self.meta.after_lost(races);
    }
}
