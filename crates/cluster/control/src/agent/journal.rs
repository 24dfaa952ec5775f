//! The thread that writes events, and trims them and the audit log where this node is the coordinator.
//!
//! Nothing waits for it. While the metadata is away events are kept, the newest of them, and written when it is back; each
//! has the time at which it happened.

use super::{Config, Stop};
use crate::audit::{self, Unsound};
use crate::events::{self, Draft, Kind, MAX_AGE, MAX_EVENTS, Writer};
use amita_audit::{Proof, Who};
use amita_metadata::{Client, Error, Transact};
use amita_types::NodeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often the coordinator looks whether there are too many events, and records of the audit log.
const TRIM_PAUSE: Duration = Duration::from_secs(600);
/// Until events that could not be written are tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What the thread is told.
pub(super) enum Input {
    Event(Draft),
    Stop,
}

/// Where events go: to the journal's thread.
#[derive(Clone)]
pub struct Journal {
    sender: Sender<Input>,
    leads: Arc<AtomicBool>,
}

impl Journal {
    pub(super) fn new(sender: Sender<Input>) -> Journal {
        Journal {
            sender,
            leads: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Writes an event, soon. It does not block.
    pub fn tell(&self, draft: Draft) {
        // The thread lives as long as its agent; what is told after that is lost.
        let _ = self.sender.send(Input::Event(draft));
    }

    /// Does this node trim the log?
    pub(super) fn lead(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
    }

    /// Is this node the coordinator, as far as it knows?
    pub(super) fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        let _ = self.sender.send(Input::Stop);
    }
}

pub(super) fn run(client: &Client, config: &Config, inputs: &Receiver<Input>, journal: &Journal, stop: &Stop) {
    let mut writer = Writer::new(config.node, config.session);
    let mut trim_at = Instant::now() + TRIM_PAUSE;
    let mut evidence = Evidence::default();
    loop {
        let pause = if writer.next().is_some() {
            AGAIN
        } else {
            trim_at.saturating_duration_since(Instant::now())
        };
        match inputs.recv_timeout(pause) {
            Ok(Input::Event(draft)) => writer.add(draft),
            Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => {
                // What was told before the stop is written if that can be done at once.
                write(client, &mut writer, stop);
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        // What came together goes together.
        let mut stopped = false;
        for input in inputs.try_iter() {
            match input {
                Input::Event(draft) => writer.add(draft),
                Input::Stop => stopped = true,
            }
        }
        write(client, &mut writer, stop);
        if stopped {
            return;
        }
        if trim_at <= Instant::now() {
            trim_at = Instant::now() + TRIM_PAUSE;
            if journal.leads.load(Ordering::Relaxed) {
                // Next time, if it fails.
                let _ = events::trim(client, MAX_EVENTS, MAX_AGE);
                if let Some(broken) = evidence.trim(client, config.node) {
                    writer.add(broken);
                }
            } else {
                evidence = Evidence::default();
            }
        }
    }
}

/// The audit log, as its coordinator keeps it short.
#[derive(Default)]
struct Evidence {
    /// What was wrong with it, and was told.
    told: Option<String>,
}

impl Evidence {
    /// What is wrong with it, once: it is not trimmed then, and somebody must look before it is too long.
    fn trim(&mut self, meta: &dyn Transact, node: NodeId) -> Option<Draft> {
        let who = Who {
            name: format!("node {node}"),
            role: "coordinator".to_owned(),
            proof: Proof::None,
        };
        let broken = match audit::trim(meta, &who, audit::RETENTION) {
            Ok(_) => None,
            Err(Unsound::Fault(fault)) => Some(fault.to_string()),
            // Next time.
            Err(Unsound::Metadata(_)) => return None,
        };
        let news = broken.clone().filter(|_| self.told != broken);
        self.told = broken;
        let text = format!("the audit log is broken, and is not trimmed: {}", news?);
        log::error!("{text}");
        Some(Draft::new(Kind::AuditBroken, [audit::prefix()], text))
    }
}

fn write(client: &Client, writer: &mut Writer, stop: &Stop) {
    while let Some(call) = writer.next() {
        match client.txn(&call) {
            Ok(_) => writer.written(&call),
            // It would be refused again: these events are lost, and the next ones are not held up.
            Err(Error::Refused { .. }) => writer.written(&call),
            Err(_) => return,
        }
        if stop.is_set() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::tests::{filled_to, server};
    use amita_metadata::Call;

    /// Nobody looks at a log until it is too late, unless they are told.
    #[test]
    fn a_log_that_is_too_long_and_broken_is_told_once() {
        let server = server();
        let meta = &server.client;
        filled_to(meta, audit::RETENTION.records + 1500);
        let mut evidence = Evidence::default();
        let damaged = audit::record_key(7);
        let sound = meta.txn(&Call::get(damaged.clone())).unwrap().value(0).unwrap().clone();
        meta.txn(&Call::put(damaged.clone(), "?")).unwrap();
        let told = evidence.trim(meta, NodeId(1)).expect("it is told");
        assert_eq!(told.kind, Kind::AuditBroken);
        assert!(told.text.contains("record 7"), "{}", told.text);
        assert!(evidence.trim(meta, NodeId(1)).is_none(), "once");
        meta.txn(&Call::put(damaged, sound.value.clone())).unwrap();
        assert!(evidence.trim(meta, NodeId(1)).is_none());
        assert!(evidence.told.is_none());
        assert!(audit::bounds(meta).unwrap().trimmed.is_some(), "it is trimmed again");
        let kept = audit::verify(meta, &[], audit::RETENTION).unwrap();
        assert!(kept.records < audit::RETENTION.records + 100, "{kept:?}");
    }
}
