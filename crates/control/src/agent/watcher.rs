//! All records at the start, and every change after.

use super::{Notice, Patience, Sink, Stop, lead};
use amita_cluster::map::PREFIX;
use amita_meta::{Call, Client, Event, KeyValue, Waited, WatchStop};
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
    let mut patience = Patience::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    while !stop.is_set() {
        let reply = match client.txn(&Call::prefix(PREFIX)) {
            Ok(reply) => reply,
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
        let keys: BTreeSet<String> = reply.values(0).iter().map(|found| found.key.clone()).collect();
        for key in known.difference(&keys) {
            gone(key.clone(), reply.revision);
        }
        known = keys;
        reply.values(0).iter().cloned().for_each(there);
        let _ = events.send(lead::Input::Settled);
        sink(Notice::Settled {
            revision: reply.revision,
        });
        let mut watch = client.watch(PREFIX, reply.revision + 1);
        *current.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch.stopper());
        while !stop.is_set() {
            match watch.wait(LOOK) {
                Waited::Item(Ok(batch)) => {
                    for event in batch.events {
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
