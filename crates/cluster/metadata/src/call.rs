//! One transaction of the metadata and its reply: what etcd's `Txn` can say, in the words that Amita needs.

use crate::error::Refusal;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The most compares, and the most operations of either branch, that one call carries: etcd's `--max-txn-ops`.
pub const MAX_OPS: usize = 128;
/// The most bytes of keys and values that one call carries. etcd refuses requests above 1.5 MiB
/// (`--max-request-bytes`); the rest is left for framing.
pub const MAX_CALL_BYTES: usize = 1024 * 1024;

/// What a key takes beside its own bytes and its value's, about: revisions, its place in a table, framing.
pub const RECORD_BYTES: usize = 128;

/// The number of a lease; the server gives it out. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// One atomic transaction: when all `compares` hold, the operations of `then` are carried out in their order, else those
/// of `otherwise`. A plain read is a call with one operation and no compares. Reads are linearizable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// What must hold.
    pub compares: Vec<Compare>,
    /// Done when all of it holds.
    pub then: Vec<Op>,
    /// Done when some of it does not.
    pub otherwise: Vec<Op>,
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compare {
    /// The key was last changed at this revision. Zero: the key does not exist.
    ModRevision {
        key: String,
        /// The revision.
        equals: u64,
    },
    /// The key was created at this revision. Zero: the key does not exist.
    CreateRevision {
        key: String,
        /// The revision.
        equals: u64,
    },
    /// The key was written this many times since its creation. Zero: the key does not exist.
    Version {
        key: String,
        /// How many times.
        equals: u64,
    },
    /// The key exists and has this value.
    Value {
        key: String,
        /// The value.
        equals: Vec<u8>,
    },
}

impl Compare {
    /// The key that is looked at.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Compare::ModRevision { key, .. }
            | Compare::CreateRevision { key, .. }
            | Compare::Version { key, .. }
            | Compare::Value { key, .. } => key,
        }
    }
}

/// One operation of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Reads one key.
    Get { key: String },
    /// Reads all keys that start with `key`, in their order. The empty prefix is every key.
    Prefix {
        /// The prefix.
        key: String,
    },
    /// Writes a key. A lease binds the key to it (the key is deleted with the lease); none frees it from an earlier one.
    Put {
        key: String,
        value: Vec<u8>,
        /// The lease, if any.
        lease: Option<LeaseId>,
    },
    /// Deletes a key, if it exists.
    Delete { key: String },
    /// Deletes all keys that start with `key`. The empty prefix is every key.
    DeletePrefix {
        /// The prefix.
        key: String,
    },
}

impl Op {
    /// The key or prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Op::Get { key }
            | Op::Prefix { key }
            | Op::Put { key, .. }
            | Op::Delete { key }
            | Op::DeletePrefix { key } => key,
        }
    }

    /// Does it change anything?
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Op::Put { .. } | Op::Delete { .. } | Op::DeletePrefix { .. })
    }
}

impl Call {
    /// Reads one key.
    #[must_use]
    pub fn get(key: impl Into<String>) -> Call {
        Call {
            then: vec![Op::Get { key: key.into() }],
            ..Call::default()
        }
    }

    /// Reads all keys with a prefix.
    #[must_use]
    pub fn prefix(key: impl Into<String>) -> Call {
        Call {
            then: vec![Op::Prefix { key: key.into() }],
            ..Call::default()
        }
    }

    /// Writes a key, whatever it was. Records are written by [`Call::put_if`] instead.
    #[must_use]
    pub fn put(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Call {
        Call {
            then: vec![Op::Put {
                key: key.into(),
                value: value.into(),
                lease: None,
            }],
            ..Call::default()
        }
    }

    /// Compare-and-set: writes the key if it was last changed at `mod_revision` (zero: if it does not exist); else reads
    /// it, so that a lost race answers with what is there.
    #[must_use]
    pub fn put_if(key: impl Into<String>, mod_revision: u64, value: impl Into<Vec<u8>>) -> Call {
        let key = key.into();
        Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: mod_revision,
            }],
            then: vec![Op::Put {
                key: key.clone(),
                value: value.into(),
                lease: None,
            }],
            otherwise: vec![Op::Get { key }],
        }
    }

    /// Does no branch change anything? Such a call may be repeated at will.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        !self.then.iter().chain(&self.otherwise).any(Op::is_write)
    }

    /// Bytes of keys and values.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let compares = self.compares.iter().map(|compare| {
            compare.key().len()
                + if let Compare::Value { equals, .. } = compare {
                    equals.len()
                } else {
                    0
                }
        });
        let ops = self
            .then
            .iter()
            .chain(&self.otherwise)
            .map(|op| op.key().len() + if let Op::Put { value, .. } = op { value.len() } else { 0 });
        compares.sum::<usize>() + ops.sum::<usize>()
    }

    /// Checks what every server refuses, before anything is sent or done: too many operations, too many bytes, an empty
    /// key, a key that is written twice.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Refusal> {
        let most = self.compares.len().max(self.then.len()).max(self.otherwise.len());
        if most > MAX_OPS {
            return Err(Refusal::TooManyOps { ops: most });
        }
        let bytes = self.size_bytes();
        if bytes > MAX_CALL_BYTES {
            return Err(Refusal::TooLarge { bytes });
        }
        if self.compares.iter().any(|compare| compare.key().is_empty()) {
            return Err(Refusal::EmptyKey);
        }
        check_branch(&self.then)?;
        check_branch(&self.otherwise)
    }
}

/// etcd refuses a branch that puts a key twice, or puts and deletes it (`checkTxnRequest` of its v3rpc).
fn check_branch(ops: &[Op]) -> Result<(), Refusal> {
    let mut puts = BTreeSet::new();
    for op in ops {
        match op {
            Op::Get { key } | Op::Put { key, .. } | Op::Delete { key } if key.is_empty() => {
                return Err(Refusal::EmptyKey);
            }
            Op::Put { key, .. } if !puts.insert(key.as_str()) => {
                return Err(Refusal::DuplicateKey { key: key.clone() });
            }
            _ => {}
        }
    }
    for op in ops {
        let twice = match op {
            Op::Delete { key } => puts.contains(key.as_str()).then_some(key.as_str()),
            Op::DeletePrefix { key } => puts
                .range(key.as_str()..)
                .next()
                .copied()
                .filter(|put| put.starts_with(key)),
            _ => None,
        };
        if let Some(key) = twice {
            return Err(Refusal::DuplicateKey { key: key.to_owned() });
        }
    }
    Ok(())
}

/// What a call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The revision of the metadata after the call: of the change it made, or as of which it read.
    pub revision: u64,
    /// Did all compares hold?
    pub succeeded: bool,
    /// One result for each operation of the branch taken, in its order.
    pub results: Vec<OpReply>,
}

impl Reply {
    /// What the operation at `index` read; empty where it read nothing.
    #[must_use]
    pub fn values(&self, index: usize) -> &[KeyValue] {
        match self.results.get(index) {
            Some(OpReply::Values(values)) => values,
            _ => &[],
        }
    }

    /// The first value that the operation at `index` read.
    #[must_use]
    pub fn value(&self, index: usize) -> Option<&KeyValue> {
        self.values(index).first()
    }
}

/// What one operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpReply {
    /// The keys read, in their order.
    Values(Vec<KeyValue>),
    /// Written.
    Put,
    /// How many keys were deleted.
    Deleted(u64),
}

/// A key, its value, and where in the history it stands: clones share it, so that an answer, the history and whoever watches
/// hold one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue(Arc<Record>);

impl Deref for KeyValue {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.0
    }
}

impl From<Record> for KeyValue {
    fn from(record: Record) -> KeyValue {
        KeyValue(Arc::new(record))
    }
}

/// What a [`KeyValue`] holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub key: String,
    pub value: Vec<u8>,
    /// The revision of its last change: what a compare-and-set names.
    pub mod_revision: u64,
    /// The revision of its creation.
    pub create_revision: u64,
    /// How many times it was written since.
    pub version: u64,
    /// The lease that it is bound to.
    pub lease: Option<LeaseId>,
}

impl KeyValue {
    /// Bytes that a copy of it takes, with what is around it.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        RECORD_BYTES + self.key.len() + self.value.len()
    }

    /// Reads the value as a JSON record.
    ///
    /// # Errors
    /// When it is none of that type: names the key and what is wrong.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.value).map_err(|error| Refusal::BadRecord {
            key: self.key.clone(),
            what: error.to_string(),
        })
    }
}

/// One change of one key, as a watch sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key was written.
    Put(KeyValue),
    /// The key was deleted, by a call or with its lease.
    Delete {
        key: String,
        /// The revision of the deletion.
        mod_revision: u64,
    },
}

impl Event {
    /// Bytes that a copy of it takes, with what is around it.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Event::Put(value) => value.size_bytes(),
            Event::Delete { key, .. } => RECORD_BYTES + key.len(),
        }
    }

    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Event::Put(value) => &value.key,
            Event::Delete { key, .. } => key,
        }
    }

    /// The revision of the change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        match self {
            Event::Put(value) => value.mod_revision,
            Event::Delete { mod_revision, .. } => *mod_revision,
        }
    }
}

/// The changes that a watch hands over at once, in order. A revision is never cut in two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Everything up to and with this revision has been seen: go on from the next one.
    pub revision: u64,
    /// The changes.
    pub events: Vec<Event>,
}
