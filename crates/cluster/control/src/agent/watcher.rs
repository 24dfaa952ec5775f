//! All records at the start, and every change after.

use super::{Notice, Patience, Sink, Stop, lead};
use crate::{audit, events};
use amita_metadata::{Call, Client, Error, Event, KeyValue, Op, Waited, WatchStop};
use amita_types::map::PREFIX;
use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long one wait lasts: only so that the thread sees a stop that came before its watch was known.
const LOOK: Duration = Duration::from_secs(60);

pub(super) fn run(
    client: &Client,
    sink: &Sink,
    stop: &Stop,
    current: &Mutex<Option<WatchStop>>,
    events: &Sender<lead::Input>,
) {
    let logs = [events::prefix(), audit::prefix()];
    let mut patience = Patience::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    while !stop.is_set() {
        let (revision, found) = match read(client) {
            Ok(read) => read,
            Err(why) => {
                patience.failed(stop, sink, "the metadata cannot be read", &why);
                continue;
            }
        };
        patience.worked(sink, "the watch");
        let there = |found: KeyValue| {
            let (key, value, revision) = (found.key.clone(), Some(found.value.clone()), found.mod_revision);
            let _ = events.send(lead::Input::Record(found));
            sink(Notice::Record { key, value, revision });
        };
        let gone = |key: String, revision: u64| {
            let _ = events.send(lead::Input::Gone {
                key: key.clone(),
                revision,
            });
            sink(Notice::Record {
                key,
                value: None,
                revision,
            });
        };
        // What was there before and is not any more was deleted while nobody watched.
        let keys: BTreeSet<String> = found.iter().map(|found| found.key.clone()).collect();
        for key in known.difference(&keys) {
            gone(key.clone(), revision);
        }
        known = keys;
        found.into_iter().for_each(there);
        let _ = events.send(lead::Input::Settled);
        sink(Notice::Settled { revision });
        let mut watch = client.watch(PREFIX, revision + 1);
        *current.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch.stopper());
        while !stop.is_set() {
            match watch.wait(LOOK) {
                Waited::Item(Ok(batch)) => {
                    for event in batch.events {
                        // Nothing is decided by what is only told.
                        if logs.iter().any(|log| event.key().starts_with(log)) {
                            continue;
                        }
                        match event {
                            Event::Put(found) => {
                                known.insert(found.key.clone());
                                there(found);
                            }
                            Event::Delete { key, mod_revision } => {
                                known.remove(&key);
                                gone(key, mod_revision);
                            }
                        }
                    }
                    let _ = events.send(lead::Input::Seen);
                    sink(Notice::Seen);
                }
                // The history was compacted away, or the service is another: read everything anew.
                Waited::Item(Err(why)) => {
                    patience.failed(stop, sink, "the watch broke", &why);
                    break;
                }
                Waited::Nothing => {}
                Waited::Ended => break,
            }
        }
    }
}

/// All records but the events and the audit log, as of one revision: those may be many, and nobody here wants them.
fn read(client: &Client) -> Result<(u64, Vec<KeyValue>), Error> {
    let call = Call {
        then: beginnings().map(|key| Op::Prefix { key }).collect(),
        ..Call::default()
    };
    let reply = client.txn(&call)?;
    let found = (0..call.then.len()).flat_map(|index| reply.values(index).iter().cloned());
    Ok((reply.revision, found.collect()))
}

/// What the keys of all records but those begin with. The events are the only ones below the prefix that begin with `ev`, the
/// audit log's the only ones that begin with `au`.
fn beginnings() -> impl Iterator<Item = String> {
    let beside = |first: char, second: char| {
        ('a'..='z')
            .filter(move |letter| *letter != second)
            .map(move |letter| format!("{first}{letter}"))
    };
    let others = ('a'..='z')
        .filter(|letter| !['a', 'e'].contains(letter))
        .map(String::from);
    others
        .chain(beside('a', 'u'))
        .chain(beside('e', 'v'))
        .map(|beginning| format!("{PREFIX}{beginning}"))
}

#[cfg(test)]
mod tests {
    use super::beginnings;
    use crate::{audit, events};
    use amita_types::map;

    #[test]
    fn all_records_are_read_once_and_the_logs_never() {
        let read = |key: &str| beginnings().filter(|beginning| key.starts_with(beginning)).count();
        let keys = [
            map::cluster_key(),
            map::exports_prefix(),
            map::subsystems_prefix(),
            map::node_key("a"),
            map::volume_key("a"),
            map::life_key(),
            map::mounts_prefix(),
        ];
        for key in keys {
            assert_eq!(read(&key), 1, "{key}");
        }
        assert_eq!(read(&events::prefix()), 0);
        assert_eq!(read(&audit::prefix()), 0);
    }
}
