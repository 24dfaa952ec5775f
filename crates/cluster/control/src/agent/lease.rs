//! The node's lease, and the key that shows it alive.

use super::standing::Standing;
use super::{Config, Journal, NameTaken, Notice, Patience, STOPPED, Sink, Stop};
use crate::events::{Draft, Kind};
use amita_metadata::{Call, Client, Compare, Error, KeyValue, LeaseId, Op, Refusal};
use amita_types::map::{self, Live};
use amita_types::{NodeId, StoreId};
use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long all cores together may take to drop their hosts.
const DROP_PATIENCE: Duration = Duration::from_secs(2);
/// For how long a node whose lease is gone waits to hear whether the metadata is the one that it knows.
const BELIEF_PATIENCE: Duration = Duration::from_secs(1);
/// How often a rewriting of the node's key that lost a race is tried again at once.
const SHOWS: u32 = 8;

/// The lease that is held now, and the stores that the node serves: what its key says.
#[derive(Clone)]
pub(super) struct Shared {
    node: NodeId,
    session: u64,
    held: Arc<Mutex<Held>>,
}

struct Held {
    lease: LeaseId,
    stores: BTreeSet<StoreId>,
    /// Does the key name just these stores? It is rewritten until it does.
    shown: bool,
    /// When the metadata last said that the lease is held.
    renewed: Instant,
}

impl Shared {
    pub(super) fn new(config: &Config, lease: LeaseId) -> Shared {
        let held = Held {
            lease,
            stores: BTreeSet::new(),
            shown: true,
            renewed: Instant::now(),
        };
        Shared {
            node: config.node,
            session: config.session,
            held: Arc::new(Mutex::new(held)),
        }
    }

    pub(super) fn get(&self) -> LeaseId {
        self.lock().lease
    }

    /// When the metadata last said that the lease is held.
    pub(super) fn renewed(&self) -> Instant {
        self.lock().renewed
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A store is served, or no longer.
    pub(super) fn mark(&self, store: StoreId, serves: bool) {
        let mut held = self.lock();
        let changed = if serves {
            held.stores.insert(store)
        } else {
            held.stores.remove(&store)
        };
        held.shown &= !changed;
    }

    /// Rewrites the node's key, if it does not name the stores that are served. What fails is tried again when the
    /// lease is next renewed.
    pub(super) fn show(&self, client: &Client) {
        let key = map::live_key(self.node);
        for _ in 0..SHOWS {
            if self.lock().shown {
                return;
            }
            let Ok(reply) = client.txn(&Call::get(key.as_str())) else {
                return;
            };
            // Gone, or another's: the thread that keeps the lease sees to it.
            let ours = |found: &&KeyValue| found.json::<Live>().is_ok_and(|live| live.session == self.session);
            let Some(found) = reply.value(0).filter(ours) else {
                return;
            };
            // Only now, after the key was read: whoever changes the stores meanwhile changes the key after us, or makes
            // us fail.
            let (live, lease, count) = {
                let held = self.lock();
                (live(self.session, &held.stores), held.lease, held.stores.clone())
            };
            let call = Call {
                compares: vec![Compare::ModRevision {
                    key: key.clone(),
                    equals: found.mod_revision,
                }],
                then: vec![Op::Put {
                    key: key.clone(),
                    value: live,
                    lease: Some(lease),
                }],
                otherwise: Vec::new(),
            };
            match client.txn(&call) {
                Ok(reply) if reply.succeeded => {
                    let mut held = self.lock();
                    held.shown = held.stores == count;
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// The key's value of a process that serves these stores.
fn live(session: u64, stores: &BTreeSet<StoreId>) -> Vec<u8> {
    let live = Live {
        stores: Some(stores.iter().copied().collect()),
        session,
        pid: std::process::id(),
        version: map::METADATA_VERSION,
    };
    serde_json::to_vec(&live).expect("plain data")
}

enum Taken {
    Held(LeaseId),
    Other(Live),
}

/// Grants a lease and shows the node alive with these stores, unless another process does.
fn attempt(client: &Client, config: &Config, stores: &BTreeSet<StoreId>) -> Result<Taken, Error> {
    let lease = client.lease_grant(config.lease_ttl_s)?.id;
    let key = map::live_key(config.node);
    let value = live(config.session, stores);
    let put = Op::Put {
        key: key.clone(),
        value: value.clone(),
        lease: Some(lease),
    };
    let absent = Call {
        compares: vec![Compare::ModRevision {
            key: key.clone(),
            equals: 0,
        }],
        then: vec![put.clone()],
        otherwise: vec![Op::Get { key: key.clone() }],
    };
    let reply = client.txn(&absent)?;
    if reply.succeeded {
        return Ok(Taken::Held(lease));
    }
    let found = reply.value(0);
    let other = found.and_then(|found| found.json::<Live>().ok());
    match (found, other) {
        // Ours, on a lease of before an outage, or left by a process that said that it stops: put it on the new one.
        (Some(found), Some(other)) if other.session == config.session || other.pid == STOPPED => {
            let again = Call {
                compares: vec![Compare::ModRevision {
                    key: key.clone(),
                    equals: found.mod_revision,
                }],
                then: vec![put],
                otherwise: Vec::new(),
            };
            if client.txn(&again)?.succeeded {
                return Ok(Taken::Held(lease));
            }
            // It was changed between the two: the next attempt sees by whom.
            let _ = client.lease_revoke(lease);
            Ok(Taken::Other(other))
        }
        (Some(_), Some(other)) => {
            let _ = client.lease_revoke(lease);
            Ok(Taken::Other(other))
        }
        // Gone between the two, or not readable: the next attempt sees.
        _ => {
            let _ = client.lease_revoke(lease);
            Ok(Taken::Other(Live {
                stores: None,
                session: 0,
                pid: 0,
                version: 0,
            }))
        }
    }
}

/// Takes the lease at the start. The key of a process that died is there until its lease ends: that is waited for.
pub(super) fn take(client: &Client, config: &Config, sink: &Sink, stop: &Stop) -> Result<LeaseId, NameTaken> {
    let mut patience = Patience::new();
    let step = Duration::from_millis(200);
    let mut waited = Duration::ZERO;
    let longest = Duration::from_secs(config.lease_ttl_s * 3 + 2);
    let none = BTreeSet::new();
    loop {
        match attempt(client, config, &none) {
            Ok(Taken::Held(lease)) => return Ok(lease),
            Ok(Taken::Other(other)) => {
                if waited.is_zero() {
                    let text = format!(
                        "node {}: waiting for the lease of an earlier process to end",
                        config.node
                    );
                    sink(Notice::Info(text));
                }
                if waited >= longest {
                    return Err(NameTaken {
                        node: config.node,
                        pid: other.pid,
                    });
                }
                stop.wait(step);
                waited += step;
            }
            Err(why) => patience.failed(stop, sink, "the node's lease cannot be taken", &why),
        }
    }
}

/// Renews the lease three times in its life; takes a new one when it was lost.
pub(super) fn keep(
    client: &Client,
    config: &Config,
    sink: &Sink,
    stop: &Stop,
    shared: &Shared,
    standing: &Standing,
    journal: &Journal,
) {
    let mut away = false;
    let mut patience = Patience::new();
    let pause = Duration::from_secs(config.lease_ttl_s).max(Duration::from_secs(1)) / 3;
    while !stop.wait(pause) {
        match client.lease_keepalive(shared.get()) {
            Ok(_) => {
                shared.lock().renewed = Instant::now();
                patience.worked(sink, "the node's lease");
                if std::mem::take(&mut away) {
                    let text = format!("the metadata answers node {} again", config.node);
                    journal.tell(Draft::new(Kind::MetadataBack, [config.node], text));
                }
                shared.show(client);
            }
            Err(Error::Refused {
                reason: Refusal::LeaseNotFound(_),
            }) => {
                // An older copy does not know it either.
                if let Err(why) = standing.await_belief(BELIEF_PATIENCE) {
                    patience.failed(stop, sink, "the node's lease cannot be renewed", &why);
                    continue;
                }
                sink(Notice::Warn(
                    "the node's lease had ended (it was renewed too late); taking a new one".to_owned(),
                ));
                if !drop_hosts(sink) {
                    continue;
                }
                let stores = shared.lock().stores.clone();
                match attempt(client, config, &stores) {
                    Ok(Taken::Held(lease)) => {
                        let mut held = shared.lock();
                        held.lease = lease;
                        held.renewed = Instant::now();
                        held.shown = held.stores == stores;
                    }
                    Ok(Taken::Other(other)) => {
                        let taken = NameTaken {
                            node: config.node,
                            pid: other.pid,
                        };
                        sink(Notice::Warn(taken.to_string()));
                    }
                    Err(why) => patience.failed(stop, sink, "the node's lease cannot be taken", &why),
                }
            }
            Err(why) => {
                if !std::mem::replace(&mut away, true) {
                    let text = format!("the metadata does not answer node {}; I/O goes on", config.node);
                    journal.tell(Draft::new(Kind::MetadataAway, [config.node], text));
                }
                patience.failed(stop, sink, "the node's lease cannot be renewed", &why);
            }
        }
    }
    if config.leave {
        // Where the metadata is away, the lease ends by itself.
        let _ = client.lease_revoke(shared.get());
    } else {
        stopped(client, config, shared.get());
    }
}

/// While nobody took this node for living, its hosts may have gone on by other gateways, and what they had sent here must not be
/// carried out once it lives again. False where they are still there: then the next attempt asks again.
fn drop_hosts(sink: &Sink) -> bool {
    let (dropped, gone) = channel();
    sink(Notice::Lapsed { dropped });
    let until = Instant::now() + DROP_PATIENCE;
    loop {
        match gone.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => {
                let text = format!(
                    "the node takes no new lease yet: a core has not dropped its hosts within {} s; it stands still, or its queue is \
                     full",
                    DROP_PATIENCE.as_secs()
                );
                sink(Notice::Warn(text));
                return false;
            }
        }
    }
}

/// Says that this process stops. While the metadata is away it does not hear that, and the lease ends all the same.
fn stopped(client: &Client, config: &Config, lease: LeaseId) {
    let key = map::live_key(config.node);
    let Ok(reply) = client.txn(&Call::get(key.as_str())) else {
        return;
    };
    let Some(found) = reply.value(0) else { return };
    if !found.json::<Live>().is_ok_and(|live| live.session == config.session) {
        return;
    }
    let live = Live {
        stores: None,
        session: config.session,
        pid: STOPPED,
        version: map::METADATA_VERSION,
    };
    let value = serde_json::to_vec(&live).expect("plain data");
    let call = Call {
        compares: vec![Compare::ModRevision {
            key: key.clone(),
            equals: found.mod_revision,
        }],
        then: vec![Op::Put {
            key,
            value,
            lease: Some(lease),
        }],
        otherwise: Vec::new(),
    };
    let _ = client.txn(&call);
}
