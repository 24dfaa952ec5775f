//! The node's lease, and the key that shows it alive.

use super::{Config, NameTaken, Notice, Patience, STOPPED, Sink, Stop};
use amita_cluster::map::{self, Live};
use amita_meta::{Call, Client, Compare, Error, LeaseId, Op, Refusal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The lease that is held now, for the coordinator's campaign.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<LeaseId>>);

impl Shared {
    pub(super) fn new(lease: LeaseId) -> Shared {
        Shared(Arc::new(Mutex::new(lease)))
    }

    pub(super) fn get(&self) -> LeaseId {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, lease: LeaseId) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }
}

enum Taken {
    Held(LeaseId),
    Other(Live),
}

/// Grants a lease and shows the node alive, unless another process does.
fn attempt(client: &Client, config: &Config) -> Result<Taken, Error> {
    let lease = client.lease_grant(config.lease_ttl_s)?.id;
    let key = map::live_key(config.node);
    let live = Live {
        stores: None,
        session: config.session,
        pid: std::process::id(),
    };
    let value = serde_json::to_vec(&live).expect("plain data");
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
    loop {
        match attempt(client, config) {
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
pub(super) fn keep(client: &Client, config: &Config, sink: &Sink, stop: &Stop, shared: &Shared) {
    let mut patience = Patience::new();
    let pause = Duration::from_secs(config.lease_ttl_s).max(Duration::from_secs(1)) / 3;
    while !stop.wait(pause) {
        match client.lease_keepalive(shared.get()) {
            Ok(_) => patience.worked(sink, "the node's lease"),
            Err(Error::Refused {
                reason: Refusal::LeaseNotFound(_),
            }) => {
                sink(Notice::Warn(
                    "the node's lease had ended (it was renewed too late); taking a new one".to_owned(),
                ));
                match attempt(client, config) {
                    Ok(Taken::Held(lease)) => shared.set(lease),
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
            Err(why) => patience.failed(stop, sink, "the node's lease cannot be renewed", &why),
        }
    }
    stopped(client, config, shared.get());
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
