//! The server's file: a `redb` database of five tables. A transaction of the model is one transaction of the file.
//!
//! | table | key | value |
//! | --- | --- | --- |
//! | `about` | name | a number: `format`, `revision`, `compacted`, `last_lease` |
//! | `keys` | key | etcd's `KeyValue`, protobuf |
//! | `history` | revision | its changes: etcd's `WatchResponse` with its `events`, protobuf |
//! | `leases` | number | time to live in seconds |
//! | `lease_owners` | number | who it was granted to: the name in a certificate, or `address IP` |

use super::StartError;
use super::owners::Owners;
use crate::call::{Batch, Event, KeyValue, LeaseId};
use crate::model::{Saved, State};
use crate::wire;
use prost::Message;
use redb::{Database, DatabaseError, ReadableTable, StorageError, TableDefinition};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
const KEYS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("keys");
const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("history");
const LEASES: TableDefinition<'_, i64, u64> = TableDefinition::new("leases");

const LEASE_OWNERS: TableDefinition<'_, i64, &str> = TableDefinition::new("lease_owners");

/// The version of the tables.
const FORMAT: u64 = 1;
/// Memory for the file's pages: the keys are held by the model, so the cache only helps writes.
const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// The open file.
pub(super) struct Disk {
    /// `None`: it was closed, to be opened anew.
    database: Option<Database>,
    /// What is durable.
    revision: u64,
    compacted: u64,
}

/// What a commit must write beside the history.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) granted: Vec<(LeaseId, u64, Arc<str>)>,
    pub(super) ended: Vec<LeaseId>,
    /// A client has had history forgotten: it is told so once that is durable.
    pub(super) compacted: bool,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.ended.is_empty() && !self.compacted
    }
}

impl Disk {
    /// Opens the file, or makes it, and reads all of it.
    pub(super) fn open(path: &Path, now: Duration) -> Result<(Disk, State, Owners), StartError> {
        refuse_what_is_not_a_file(path)?;
        make_for_owner_only(path)?;
        let opened = with_words_for_panics(path, || {
            let database = Database::builder().set_cache_size(CACHE_BYTES).create(path)?;
            let saved = load(&database);
            Ok((database, saved))
        });
        let (database, saved) = opened.map_err(|error| open_error(path, error))?;
        let damaged = |what: String| StartError::Damaged {
            path: path.to_owned(),
            what,
        };
        let saved = saved.map_err(|problem| match problem {
            Problem::Foreign(what) => StartError::NotOurs {
                path: path.to_owned(),
                what,
            },
            Problem::Damage(what) => damaged(what),
        })?;
        let (state, owners) = match saved {
            Some((saved, owners)) => (State::restore(saved, now).map_err(damaged)?, owners),
            None => (State::new(), Owners::default()),
        };
        let disk = Disk {
            database: Some(database),
            revision: state.revision(),
            compacted: state.compacted(),
        };
        // A new file gets its tables, so that a restart knows it as ours.
        disk.write(&state, &Changed::default()).map_err(|error| match error {
            redb::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => beyond_the_end(path.to_owned()),
            redb::Error::Corrupted(what) => damaged(what),
            error => StartError::File {
                path: path.to_owned(),
                what: error.to_string(),
            },
        })?;
        Ok((disk, state, owners))
    }

    /// Makes everything that the state has and the file has not durable, in one transaction.
    ///
    /// After an error nobody knows what the file has: it must be opened anew.
    pub(super) fn commit(&mut self, state: &State, changed: &Changed) -> Result<(), String> {
        self.write(state, changed).map_err(|error| error.to_string())?;
        self.revision = state.revision();
        self.compacted = state.compacted();
        Ok(())
    }

    fn write(&self, state: &State, changed: &Changed) -> Result<(), redb::Error> {
        let database = self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        let transaction = database.begin_write()?;
        {
            let mut keys = transaction.open_table(KEYS)?;
            let mut history = transaction.open_table(HISTORY)?;
            // The history may have been compacted beyond what is durable: those changes still reach the keys, because
            // the engine compacts only what it has committed.
            for batch in state.history_after(self.revision.max(state.compacted())) {
                for event in &batch.events {
                    match event {
                        Event::Put(value) => {
                            keys.insert(
                                value.key.as_str(),
                                wire::KeyValue::from(value).encode_to_vec().as_slice(),
                            )?;
                        }
                        Event::Delete { key, .. } => {
                            keys.remove(key.as_str())?;
                        }
                    }
                }
                history.insert(batch.revision, encode(batch).as_slice())?;
            }
            for gone in self.compacted + 1..=state.compacted() {
                history.remove(gone)?;
            }
            let mut leases = transaction.open_table(LEASES)?;
            let mut owners = transaction.open_table(LEASE_OWNERS)?;
            for (id, ttl_s, owner) in &changed.granted {
                leases.insert(id.0, ttl_s)?;
                owners.insert(id.0, &**owner)?;
            }
            for id in &changed.ended {
                leases.remove(id.0)?;
                owners.remove(id.0)?;
            }
            let mut about = transaction.open_table(ABOUT)?;
            about.insert("format", FORMAT)?;
            about.insert("revision", state.revision())?;
            about.insert("compacted", state.compacted())?;
            about.insert("last_lease", u64::try_from(state.last_lease()).unwrap_or(0))?;
        }
        // redb's default durability: the transaction is on the disk when this returns.
        transaction.commit()?;
        Ok(())
    }

    /// Lets go of the file.
    pub(super) fn close(&mut self) {
        self.database = None;
    }

    /// The newest revision that is durable.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }
}

/// All records of the cluster are in it: a file that is made here is its owner's alone. One that was there stays as it is.
fn make_for_owner_only(path: &Path) -> Result<(), StartError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StartError::File {
            path: path.to_owned(),
            what: error.to_string(),
        }),
    }
}

/// A folder or a device would give redb's own words, which help nobody.
fn refuse_what_is_not_a_file(path: &Path) -> Result<(), StartError> {
    match std::fs::metadata(path) {
        Ok(facts) if !facts.is_file() => {
            let what = if facts.is_dir() {
                "it is a folder"
            } else {
                "it is not a regular file"
            };
            Err(StartError::NotOurs {
                path: path.to_owned(),
                what: what.to_owned(),
            })
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StartError::File {
            path: path.to_owned(),
            what: error.to_string(),
        }),
    }
}

fn open_error(path: &Path, error: DatabaseError) -> StartError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => StartError::Locked { path },
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
            StartError::NotOurs {
                path,
                what: "it is no redb database".to_owned(),
            }
        }
        DatabaseError::Storage(StorageError::Corrupted(what)) => StartError::Damaged { path, what },
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            beyond_the_end(path)
        }
        DatabaseError::UpgradeRequired(version) => StartError::NotOurs {
            path,
            what: format!("it is a redb database of version {version}"),
        },
        error => StartError::File {
            path,
            what: error.to_string(),
        },
    }
}

/// What is rotten may name a page that the file does not have.
fn beyond_the_end(path: PathBuf) -> StartError {
    StartError::Damaged {
        path,
        what: "a page of it lies beyond its end".to_owned(),
    }
}

/// redb asserts what it reads: a page that is rotten in the right place ends the process in its middle. It cannot be gone on
/// from there, but whoever reads the log should know what it was, and what to do.
fn with_words_for_panics<T>(path: &Path, read: impl FnOnce() -> T) -> T {
    let words = StartError::Damaged {
        path: path.to_owned(),
        what: "a page does not hold what it must".to_owned(),
    };
    let words = words.to_string();
    let before = Arc::new(panic::take_hook());
    let also = Arc::clone(&before);
    let reader = thread::current().id();
    panic::set_hook(Box::new(move |found| {
        if thread::current().id() == reader {
            log::error!("{words}");
        }
        also(found);
    }));
    let read = read();
    drop(panic::take_hook());
    // Ours was the only other one that had it.
    if let Ok(before) = Arc::try_unwrap(before) {
        panic::set_hook(before);
    }
    read
}

enum Problem {
    /// Somebody else's database.
    Foreign(String),
    /// Ours, and broken.
    Damage(String),
}

impl<E: Into<redb::Error>> From<E> for Problem {
    fn from(error: E) -> Problem {
        match error.into() {
            redb::Error::TableTypeMismatch { table, .. } => {
                Problem::Foreign(format!("its table {table} is of another type"))
            }
            error => Problem::Damage(error.to_string()),
        }
    }
}

/// Everything in the file; nothing when it is new.
fn load(database: &Database) -> Result<Option<(Saved, Owners)>, Problem> {
    // A table that does not exist is made empty here; the transaction is dropped, so that a foreign file stays as it was.
    let transaction = database.begin_write()?;
    let tables = transaction.list_tables()?.count();
    let about = transaction.open_table(ABOUT)?;
    let number = |name: &str| -> Result<Option<u64>, Problem> { Ok(about.get(name)?.map(|value| value.value())) };
    let Some(format) = number("format")? else {
        return if tables == 0 {
            Ok(None)
        } else {
            Err(Problem::Foreign("a database of another program".to_owned()))
        };
    };
    if format != FORMAT {
        return Err(Problem::Foreign(format!(
            "its format is {format}, and this build reads {FORMAT}"
        )));
    }
    let needed = |name: &str| number(name)?.ok_or_else(|| Problem::Damage(format!("it has no {name}")));
    let mut saved = Saved {
        revision: needed("revision")?,
        compacted: needed("compacted")?,
        last_lease: i64::try_from(needed("last_lease")?).unwrap_or(0),
        ..Saved::default()
    };
    for row in transaction.open_table(KEYS)?.iter()? {
        let (key, value) = row?;
        saved
            .keys
            .push(decode_value(key.value(), value.value()).map_err(Problem::Damage)?);
    }
    for row in transaction.open_table(HISTORY)?.iter()? {
        let (revision, value) = row?;
        saved
            .history
            .push(decode(revision.value(), value.value()).map_err(Problem::Damage)?);
    }
    for row in transaction.open_table(LEASES)?.iter()? {
        let (id, ttl_s) = row?;
        saved.leases.push((LeaseId(id.value()), ttl_s.value()));
    }
    let mut owners = Owners::default();
    for row in transaction.open_table(LEASE_OWNERS)?.iter()? {
        let (id, owner) = row?;
        owners.add(LeaseId(id.value()), owner.value().into());
    }
    Ok(Some((saved, owners)))
}

fn encode(batch: &Batch) -> Vec<u8> {
    let events = batch.events.iter().map(wire::Event::from).collect();
    wire::WatchResponse {
        events,
        ..Default::default()
    }
    .encode_to_vec()
}

fn decode(revision: u64, bytes: &[u8]) -> Result<Batch, String> {
    let wrong = |what: String| format!("revision {revision} of the history: {what}");
    let response = wire::WatchResponse::decode(bytes).map_err(|error| wrong(error.to_string()))?;
    let events: Vec<Event> = response
        .events
        .into_iter()
        .map(Event::try_from)
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    if events.is_empty() || events.iter().any(|event| event.revision() != revision) {
        return Err(wrong("its changes are of another revision".to_owned()));
    }
    Ok(Batch { revision, events })
}

fn decode_value(key: &str, bytes: &[u8]) -> Result<KeyValue, String> {
    let value = wire::KeyValue::decode(bytes).map_err(|error| format!("key {key}: {error}"))?;
    let value = KeyValue::try_from(value).map_err(|what| format!("key {key}: {what}"))?;
    if value.key == key {
        Ok(value)
    } else {
        Err(format!("key {key} holds the value of {}", value.key))
    }
}
