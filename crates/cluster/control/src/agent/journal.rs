//! The thread that writes events, and trims them and the audit log where this node is the coordinator.
//!
//! Nothing waits for it. While the metadata is away events are kept, the newest of them, and written when it is back; each
//! has the time at which it happened.

use super::{Config, Stop};
use crate::audit;
use crate::events::{self, Draft, MAX_AGE, MAX_EVENTS, Writer};
use amita_audit::{Proof, Who};
use amita_metadata::{Client, Error};
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

    pub(super) fn stop(&self) {
        let _ = self.sender.send(Input::Stop);
    }
}

pub(super) fn run(client: &Client, config: &Config, inputs: &Receiver<Input>, journal: &Journal, stop: &Stop) {
    let mut writer = Writer::new(config.node, config.session);
    let mut trim_at = Instant::now() + TRIM_PAUSE;
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
                let who = Who {
                    name: format!("node {}", config.node),
                    role: "coordinator".to_owned(),
                    proof: Proof::None,
                };
                let _ = audit::trim(client, &who, audit::RETENTION);
            }
        }
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
