//! The metadata as a pure state machine: keys with revisions, transactions, leases and the history that watches read.
//!
//! It does what etcd does for the subset that Amita uses, and is run by the embedded server and by the simulator. It
//! has no clock: moments come in as the time since any fixed zero of a monotonic clock (`now`). The same calls in the
//! same order give the same state and the same answers.
//!
//! Revisions are etcd's: an empty state is at 1; a transaction that changes anything, and a lease that takes keys with
//! it, raise the revision by one, and all keys changed thereby carry it.

use crate::call::{Batch, Call, Compare, Event, KeyValue, LeaseId, MAX_OPS, Op, OpReply, RECORD_BYTES, Record, Reply};
use crate::error::Refusal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

/// The longest lease: a day. (Leases say that a process lives; nothing that lives is silent for longer.)
pub const MAX_TTL_S: u64 = 24 * 60 * 60;
/// The most leases: each node has one, and operators' tools a few.
pub const MAX_LEASES: usize = 4096;

/// Compaction waits until the history is longer or larger by this part of what it may be.
const COMPACT_SLACK: usize = 16;

fn bytes_of(batch: &Batch) -> usize {
    RECORD_BYTES + batch.events.iter().map(Event::size_bytes).sum::<usize>()
}

/// The keys, the leases and the history.
#[derive(Clone, Debug)]
pub struct State {
    revision: u64,
    compacted: u64,
    keys: BTreeMap<String, KeyValue>,
    keys_bytes: usize,
    /// The changes of the revisions `compacted + 1 ..= revision`, one entry each.
    history: VecDeque<Batch>,
    history_bytes: usize,
    leases: BTreeMap<LeaseId, Lease>,
    last_lease: i64,
}

/// A lease: keys that go when nobody keeps it alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its time to live, renewed by each keepalive.
    pub ttl_s: u64,
    /// When it expires.
    pub expires: Duration,
    /// The keys bound to it.
    pub keys: BTreeSet<String>,
}

/// What a [`State`] is rebuilt from after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The newest revision.
    pub revision: u64,
    /// The newest revision whose history is gone.
    pub compacted: u64,
    /// The newest lease number that the state itself chose.
    pub last_lease: i64,
    pub keys: Vec<KeyValue>,
    /// The changes of the revisions after `compacted`, in order.
    pub history: Vec<Batch>,
    /// All leases, with their times to live.
    pub leases: Vec<(LeaseId, u64)>,
}

impl Default for State {
    fn default() -> State {
        State::new()
    }
}

impl State {
    /// No keys, revision 1.
    #[must_use]
    pub fn new() -> State {
        State {
            revision: 1,
            compacted: 1,
            keys: BTreeMap::new(),
            keys_bytes: 0,
            history: VecDeque::new(),
            history_bytes: 0,
            leases: BTreeMap::new(),
            last_lease: 0,
        }
    }

    /// Rebuilds a state. The leases start anew: whoever holds one had no way to keep it alive meanwhile.
    ///
    /// # Errors
    /// Says what contradicts what, when the parts do not fit together: they were damaged.
    pub fn restore(saved: Saved, now: Duration) -> Result<State, String> {
        let Saved {
            revision,
            compacted,
            last_lease,
            keys,
            history,
            leases,
        } = saved;
        if revision == 0 || compacted > revision {
            return Err(format!("revision {revision} with history compacted to {compacted}"));
        }
        if !history.iter().map(|batch| batch.revision).eq(compacted + 1..=revision) {
            return Err(format!(
                "the history has gaps between revisions {compacted} and {revision}"
            ));
        }
        let mut state = State {
            revision,
            compacted,
            keys: BTreeMap::new(),
            keys_bytes: 0,
            history_bytes: history.iter().map(bytes_of).sum(),
            history: history.into(),
            leases: BTreeMap::new(),
            last_lease,
        };
        for (id, ttl_s) in leases {
            let expires = now + Duration::from_secs(ttl_s);
            state.leases.insert(
                id,
                Lease {
                    ttl_s,
                    expires,
                    keys: BTreeSet::new(),
                },
            );
        }
        for value in keys {
            if value.mod_revision > revision || value.create_revision > value.mod_revision {
                return Err(format!(
                    "key {} is of revision {}, above {revision}",
                    value.key, value.mod_revision
                ));
            }
            if let Some(lease) = value.lease {
                let Some(lease) = state.leases.get_mut(&lease) else {
                    return Err(format!(
                        "key {} is bound to lease {lease}, which does not exist",
                        value.key
                    ));
                };
                lease.keys.insert(value.key.clone());
            }
            state.keys_bytes += value.size_bytes();
            state.keys.insert(value.key.clone(), value);
        }
        Ok(state)
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The history up to and with this revision is gone.
    #[must_use]
    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    /// The newest lease number that the state itself chose.
    #[must_use]
    pub fn last_lease(&self) -> i64 {
        self.last_lease
    }

    /// All keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &KeyValue> {
        self.keys.values()
    }

    /// All leases, in their order.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.iter().map(|(id, lease)| (*id, lease))
    }

    #[must_use]
    pub fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&KeyValue> {
        self.keys.get(key)
    }

    /// All keys that start with `prefix`, in their order.
    pub fn prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a KeyValue> {
        self.keys
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(_, value)| value)
            .take_while(move |v| v.key.starts_with(prefix))
    }

    /// Carries out one transaction, wholly or not at all.
    ///
    /// # Errors
    /// When the call is malformed ([`Call::check`]) or puts a key under a lease that does not exist: nothing is changed.
    pub fn txn(&mut self, call: &Call) -> Result<Reply, Refusal> {
        call.check()?;
        let (succeeded, ops) = self.branch(call);
        debug_assert!(ops.len() <= MAX_OPS);
        for op in ops {
            if let Op::Put { lease: Some(lease), .. } = op
                && !self.leases.contains_key(lease)
            {
                return Err(Refusal::LeaseNotFound(*lease));
            }
        }
        let mut events = Vec::new();
        let results = ops.iter().map(|op| self.apply(op, &mut events)).collect();
        self.commit(events);
        Ok(Reply {
            revision: self.revision,
            succeeded,
            results,
        })
    }

    /// Do the compares hold, and what is done then?
    fn branch<'a>(&self, call: &'a Call) -> (bool, &'a [Op]) {
        let succeeded = call.compares.iter().all(|compare| self.holds(compare));
        (succeeded, if succeeded { &call.then } else { &call.otherwise })
    }

    /// Bytes that the answer to a call would take, at least where it is more than `most`: nothing further is counted then, so
    /// that the question itself costs little.
    #[must_use]
    pub fn answer_bytes(&self, call: &Call, most: usize) -> usize {
        let (_, ops) = self.branch(call);
        let mut bytes = RECORD_BYTES;
        for (index, op) in ops.iter().enumerate() {
            bytes += RECORD_BYTES;
            match op {
                Op::Get { key } => bytes += self.get(key).map_or(0, KeyValue::size_bytes),
                Op::Prefix { key } => {
                    for value in self.prefix(key) {
                        bytes += value.size_bytes();
                        if bytes > most {
                            return bytes;
                        }
                    }
                }
                Op::Put { .. } | Op::Delete { .. } | Op::DeletePrefix { .. } => continue,
            }
            // What the same call has written before is read as well.
            let written = ops[..index].iter().filter_map(|before| match before {
                Op::Put { key, value, .. } if key.starts_with(op.key()) => Some(RECORD_BYTES + key.len() + value.len()),
                _ => None,
            });
            bytes += written.sum::<usize>();
        }
        bytes
    }

    /// By how many bytes a call would make the keys larger in the end, what it deletes counted. Zero: not at all.
    #[must_use]
    pub fn growth_bytes(&self, call: &Call) -> usize {
        let (_, ops) = self.branch(call);
        let (mut more, mut less) = (0_usize, 0_usize);
        // No branch puts what it deletes; but a key may be deleted twice.
        let mut deleted = BTreeSet::new();
        for op in ops {
            match op {
                Op::Put { key, value, .. } => {
                    more += RECORD_BYTES + key.len() + value.len();
                    less += self.get(key).map_or(0, KeyValue::size_bytes);
                }
                Op::Delete { key } => {
                    let found = self.get(key).filter(|found| deleted.insert(found.key.as_str()));
                    less += found.map_or(0, KeyValue::size_bytes);
                }
                Op::DeletePrefix { key } => {
                    let found = self.prefix(key).filter(|found| deleted.insert(found.key.as_str()));
                    less += found.map(KeyValue::size_bytes).sum::<usize>();
                }
                Op::Get { .. } | Op::Prefix { .. } => {}
            }
        }
        more.saturating_sub(less)
    }

    /// Does a call put keys with these prefixes only?
    #[must_use]
    pub fn puts_only(&self, call: &Call, prefixes: &[String]) -> bool {
        let (_, ops) = self.branch(call);
        ops.iter().all(|op| match op {
            Op::Put { key, .. } => prefixes.iter().any(|prefix| key.starts_with(prefix)),
            _ => true,
        })
    }

    /// Bytes of all keys and their values, and what they take beside.
    #[must_use]
    pub fn keys_bytes(&self) -> usize {
        self.keys_bytes
    }

    /// Bytes of the history, what it shares with the keys included.
    #[must_use]
    pub fn history_bytes(&self) -> usize {
        self.history_bytes
    }

    fn holds(&self, compare: &Compare) -> bool {
        let found = self.keys.get(compare.key());
        match compare {
            Compare::ModRevision { equals, .. } => found.map_or(0, |value| value.mod_revision) == *equals,
            Compare::CreateRevision { equals, .. } => found.map_or(0, |value| value.create_revision) == *equals,
            Compare::Version { equals, .. } => found.map_or(0, |value| value.version) == *equals,
            Compare::Value { equals, .. } => found.is_some_and(|value| value.value == *equals),
        }
    }

    fn apply(&mut self, op: &Op, events: &mut Vec<Event>) -> OpReply {
        match op {
            Op::Get { key } => OpReply::Values(self.keys.get(key).cloned().into_iter().collect()),
            Op::Prefix { key } => OpReply::Values(self.prefix(key).cloned().collect()),
            Op::Put { key, value, lease } => {
                self.put(key, value, *lease, events);
                OpReply::Put
            }
            Op::Delete { key } => OpReply::Deleted(u64::from(self.delete(key, events))),
            Op::DeletePrefix { key } => {
                let keys: Vec<String> = self.prefix(key).map(|value| value.key.clone()).collect();
                OpReply::Deleted(keys.iter().filter(|key| self.delete(key, events)).count() as u64)
            }
        }
    }

    fn put(&mut self, key: &str, value: &[u8], lease: Option<LeaseId>, events: &mut Vec<Event>) {
        let mod_revision = self.revision + 1;
        let old = self.keys.get(key);
        let record = KeyValue::from(Record {
            key: key.to_owned(),
            value: value.to_owned(),
            mod_revision,
            create_revision: old.map_or(mod_revision, |old| old.create_revision),
            version: old.map_or(0, |old| old.version) + 1,
            lease,
        });
        self.unbind(key);
        if let Some(lease) = lease {
            let lease = self
                .leases
                .get_mut(&lease)
                .expect("checked before anything was changed");
            lease.keys.insert(key.to_owned());
        }
        self.keys_bytes += record.size_bytes();
        if let Some(old) = self.keys.insert(key.to_owned(), record.clone()) {
            self.keys_bytes -= old.size_bytes();
        }
        events.push(Event::Put(record));
    }

    fn delete(&mut self, key: &str, events: &mut Vec<Event>) -> bool {
        self.unbind(key);
        let removed = self.keys.remove(key);
        if let Some(removed) = &removed {
            self.keys_bytes -= removed.size_bytes();
            events.push(Event::Delete {
                key: key.to_owned(),
                mod_revision: self.revision + 1,
            });
        }
        removed.is_some()
    }

    /// Takes a key out of the keys of its lease.
    fn unbind(&mut self, key: &str) {
        if let Some(lease) = self.keys.get(key).and_then(|value| value.lease)
            && let Some(lease) = self.leases.get_mut(&lease)
        {
            lease.keys.remove(key);
        }
    }

    fn commit(&mut self, events: Vec<Event>) {
        if !events.is_empty() {
            self.revision += 1;
            assert!(
                events.iter().all(|event| event.revision() == self.revision),
                "one revision, one transaction"
            );
            let batch = Batch {
                revision: self.revision,
                events,
            };
            self.history_bytes += bytes_of(&batch);
            self.history.push_back(batch);
        }
    }

    /// Grants a lease of `ttl_s` seconds, under the number `id` if one is named.
    ///
    /// # Errors
    /// When the time is zero or too long, the number is taken, or there are too many leases.
    pub fn lease_grant(&mut self, now: Duration, ttl_s: u64, id: Option<LeaseId>) -> Result<LeaseId, Refusal> {
        if ttl_s == 0 || ttl_s > MAX_TTL_S {
            return Err(Refusal::BadTtl { ttl_s });
        }
        if self.leases.len() >= MAX_LEASES {
            return Err(Refusal::TooManyLeases {
                leases: self.leases.len(),
            });
        }
        let id = match id {
            Some(id) if self.leases.contains_key(&id) => return Err(Refusal::LeaseExists(id)),
            Some(id) => id,
            None => loop {
                // A number that somebody chose may lie ahead.
                self.last_lease = self.last_lease.checked_add(1).unwrap_or(1);
                if !self.leases.contains_key(&LeaseId(self.last_lease)) {
                    break LeaseId(self.last_lease);
                }
            },
        };
        let expires = now + Duration::from_secs(ttl_s);
        self.leases.insert(
            id,
            Lease {
                ttl_s,
                expires,
                keys: BTreeSet::new(),
            },
        );
        Ok(id)
    }

    /// Renews a lease; returns its time to live.
    ///
    /// # Errors
    /// When it does not exist (any more).
    pub fn lease_keepalive(&mut self, now: Duration, id: LeaseId) -> Result<u64, Refusal> {
        let lease = self.leases.get_mut(&id).ok_or(Refusal::LeaseNotFound(id))?;
        lease.expires = now + Duration::from_secs(lease.ttl_s);
        Ok(lease.ttl_s)
    }

    /// Ends a lease and deletes the keys bound to it, at one revision.
    ///
    /// # Errors
    /// When it does not exist (any more).
    pub fn lease_revoke(&mut self, id: LeaseId) -> Result<(), Refusal> {
        let lease = self.leases.remove(&id).ok_or(Refusal::LeaseNotFound(id))?;
        let mut events = Vec::new();
        for key in &lease.keys {
            let existed = self.delete(key, &mut events);
            assert!(existed, "a lease names only keys that exist");
        }
        self.commit(events);
        Ok(())
    }

    /// When the next lease expires.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.leases.values().map(|lease| lease.expires).min()
    }

    /// Ends the leases that have expired, in the order of their expiry; returns them.
    pub fn tick(&mut self, now: Duration) -> Vec<LeaseId> {
        let mut expired: Vec<_> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.expires <= now)
            .map(|(id, lease)| (lease.expires, *id))
            .collect();
        expired.sort_unstable();
        for (_, id) in &expired {
            self.lease_revoke(*id).expect("it was there just now");
        }
        expired.into_iter().map(|(_, id)| id).collect()
    }

    /// What happened to the keys that start with `prefix`, from `from_revision` on (that one included), a batch for each
    /// revision that touched them. A revision above the newest gives nothing yet.
    ///
    /// # Errors
    /// [`Refusal::Compacted`] when the history does not reach back so far.
    pub fn changes<'a>(
        &'a self,
        prefix: &'a str,
        from_revision: u64,
    ) -> Result<impl Iterator<Item = Batch> + 'a, Refusal> {
        if from_revision <= self.compacted && self.compacted > 1 {
            return Err(Refusal::Compacted {
                compacted: self.compacted,
            });
        }
        let skip = from_revision.saturating_sub(self.compacted + 1);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(self.history.len());
        Ok(self.history.range(skip..).filter_map(move |batch| {
            let events: Vec<Event> = batch
                .events
                .iter()
                .filter(|event| event.key().starts_with(prefix))
                .cloned()
                .collect();
            (!events.is_empty()).then_some(Batch {
                revision: batch.revision,
                events,
            })
        }))
    }

    /// The whole changes of the revisions after `revision`, which must not be compacted.
    pub fn history_after(&self, revision: u64) -> impl Iterator<Item = &Batch> {
        assert!(revision >= self.compacted, "the history after {revision} is kept");
        let skip = usize::try_from(revision - self.compacted)
            .unwrap_or(usize::MAX)
            .min(self.history.len());
        self.history.range(skip..)
    }

    /// Forgets the history up to and with `revision`. The keys stay.
    ///
    /// # Errors
    /// When that has been done already, or the revision lies in the future.
    pub fn compact(&mut self, revision: u64) -> Result<(), Refusal> {
        if revision > self.revision {
            return Err(Refusal::FutureRevision {
                asked: revision,
                revision: self.revision,
            });
        }
        if revision <= self.compacted {
            return Err(Refusal::Compacted {
                compacted: self.compacted,
            });
        }
        let gone = self.history.drain(..(revision - self.compacted) as usize);
        self.history_bytes -= gone.map(|batch| bytes_of(&batch)).sum::<usize>();
        self.compacted = revision;
        Ok(())
    }

    /// The revision to compact to, where the history is longer than `most` revisions or larger than `most_bytes`: in steps, so
    /// that it is not done at every call. The newest revision is never touched.
    #[must_use]
    pub fn excess(&self, most: usize, most_bytes: usize) -> Option<u64> {
        let (slack, slack_bytes) = (most / COMPACT_SLACK, most_bytes / COMPACT_SLACK);
        let long = self.history.len() > most + slack;
        let large = self.history_bytes > most_bytes + slack_bytes;
        if !long && !large {
            return None;
        }
        let (mut left, mut left_bytes) = (self.history.len(), self.history_bytes);
        for batch in &self.history {
            if left <= most.max(1) && left_bytes <= most_bytes || left == 1 {
                break;
            }
            (left, left_bytes) = (left - 1, left_bytes - bytes_of(batch));
        }
        let gone = self.history.len() - left;
        (gone > 0).then(|| self.compacted + gone as u64)
    }

    /// How many revisions the history reaches back.
    #[must_use]
    pub fn history_len(&self) -> usize {
        self.history.len()
    }

    /// Checks what must hold after every call; for tests and the simulator.
    ///
    /// # Panics
    /// When it does not.
    pub fn check(&self) {
        assert!(
            self.history
                .iter()
                .map(|batch| batch.revision)
                .eq(self.compacted + 1..=self.revision)
        );
        let keys_bytes: usize = self.keys.values().map(|value| value.size_bytes()).sum();
        assert_eq!(keys_bytes, self.keys_bytes);
        assert_eq!(self.history.iter().map(bytes_of).sum::<usize>(), self.history_bytes);
        for (key, value) in &self.keys {
            assert_eq!(key, &value.key);
            assert!(value.create_revision <= value.mod_revision && value.mod_revision <= self.revision);
            assert!(value.version >= 1);
            if let Some(lease) = value.lease {
                assert!(
                    self.leases[&lease].keys.contains(key),
                    "{key} is bound to lease {lease}"
                );
            }
        }
        for (id, lease) in &self.leases {
            for key in &lease.keys {
                assert_eq!(self.keys[key].lease, Some(*id));
            }
        }
    }
}

#[cfg(test)]
mod tests;
