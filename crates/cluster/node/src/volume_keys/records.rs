//! The records of data keys, as far as keys are to be unwrapped of them.
//!
//! What was read is kept while its volume waits for something else (the node's file, mostly): it is read again when the metadata tell that
//! it has changed, and every [`READ_AGAIN`] whatever they tell. So a volume that waits costs the metadata next to nothing.

use amita_metadata::{Call, Client, Op, Transact, Waited, Watch};
use amita_types::map::{KeyName, KeyRing, all_secrets_prefix, secret_key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is kept is read again after this though nothing tells of a change: who tells may have missed one.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// So many records are read by one call ([`amita_metadata::MAX_OPS`] are the most).
const AT_ONCE: usize = 96;

/// The metadata, which tell of changes.
pub trait Records: Transact + Send + Sync {
    /// Tells of the data keys' records that change from this revision on; `None`: nobody does.
    fn changes(&self, from_revision: u64) -> Option<Box<dyn Changes>>;
}

/// Changes that were missed: anything may have changed.
#[derive(Debug)]
pub struct Missed;

/// Who tells of changes.
pub trait Changes: Send {
    /// The keys of the records that were changed since this was last asked. It does not wait.
    ///
    /// # Errors
    /// It tells of nothing any more.
    fn changed(&mut self) -> Result<Vec<String>, Missed>;
}

impl Records for Client {
    fn changes(&self, from_revision: u64) -> Option<Box<dyn Changes>> {
        Some(Box::new(self.watch(&all_secrets_prefix(), from_revision)))
    }
}

impl Changes for Watch {
    fn changed(&mut self) -> Result<Vec<String>, Missed> {
        let mut keys = Vec::new();
        loop {
            match self.wait(Duration::ZERO) {
                Waited::Item(Ok(batch)) => keys.extend(batch.events.iter().map(|event| event.key().to_owned())),
                Waited::Nothing => return Ok(keys),
                Waited::Item(Err(_)) | Waited::Ended => return Err(Missed),
            }
        }
    }
}

/// The records of data keys: none, or why it is not known.
pub(super) type Found = BTreeMap<KeyName, Result<Option<Vec<u8>>, String>>;

/// See the module.
pub(super) struct Kept {
    meta: Arc<dyn Records>,
    read: BTreeMap<KeyName, (Option<Vec<u8>>, Instant)>,
    changes: Option<Box<dyn Changes>>,
}

impl Kept {
    pub fn new(meta: Arc<dyn Records>) -> Kept {
        Kept {
            meta,
            read: BTreeMap::new(),
            changes: None,
        }
    }

    pub fn meta(&self) -> &dyn Transact {
        &*self.meta
    }

    /// The records of all keys of these rings; `is_new`: whatever was read of it before.
    pub fn get(&mut self, rings: &[(KeyRing, bool)], now: Instant) -> Found {
        self.forget_changed();
        let (mut found, mut wanted) = (Found::new(), BTreeSet::new());
        for (ring, is_new) in rings {
            for key in ring.eras().iter().map(|era| era.key) {
                match self.read.get(&key) {
                    Some((record, at)) if !is_new && now.saturating_duration_since(*at) < READ_AGAIN => {
                        found.insert(key, Ok(record.clone()));
                    }
                    _ => drop(wanted.insert(key)),
                }
            }
        }
        self.read_all(&wanted.into_iter().collect::<Vec<_>>(), now, &mut found);
        found
    }

    fn read_all(&mut self, names: &[KeyName], now: Instant, found: &mut Found) {
        let mut away: Option<String> = None;
        for names in names.chunks(AT_ONCE) {
            let call = Call {
                then: names.iter().map(|name| Op::Get { key: secret_key(*name) }).collect(),
                ..Call::default()
            };
            // What is away is not waited for again.
            let reply = match &away {
                Some(why) => Err(why.clone()),
                None => self.meta.txn(&call).map_err(|why| why.to_string()),
            };
            for (at, name) in names.iter().enumerate() {
                let record = match &reply {
                    Ok(reply) => Ok(reply.value(at).map(|found| found.value.clone())),
                    Err(why) => Err(why.clone()),
                };
                match &record {
                    Ok(record) => drop(self.read.insert(*name, (record.clone(), now))),
                    Err(_) => drop(self.read.remove(name)),
                }
                found.insert(*name, record);
            }
            if let Ok(reply) = &reply
                && self.changes.is_none()
            {
                self.changes = self.meta.changes(reply.revision + 1);
            }
            away = reply.err();
        }
    }

    /// Forgets what has changed since it was read.
    fn forget_changed(&mut self) {
        let Some(changes) = &mut self.changes else {
            return;
        };
        match changes.changed() {
            Ok(keys) if keys.is_empty() => {}
            Ok(keys) => {
                let keys: BTreeSet<String> = keys.into_iter().collect();
                self.read.retain(|name, _| !keys.contains(&secret_key(*name)));
            }
            Err(Missed) => {
                self.changes = None;
                self.read.clear();
            }
        }
    }

    /// Keeps those that are needed still. Nobody tells of changes where there are none.
    pub fn keep(&mut self, needed: &BTreeSet<KeyName>) {
        self.read.retain(|name, _| needed.contains(name));
        if self.read.is_empty() {
            self.changes = None;
        }
    }
}

#[cfg(test)]
mod tests;
