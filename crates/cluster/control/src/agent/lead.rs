//! The election, and the coordinator while this node is elected.
//!
//! The coordinator is whoever holds [`election_key`], which lies on its lease. Two that believe to be it do no harm:
//! what a coordinator changes names the election that it won, and is done by compare-and-set.

use super::lease::Shared;
use super::{Config, Journal, Notice, Sink};
use crate::coordinator::{Action, Coordinator, Event, Moment, election_key};
use crate::events::{Draft, Kind};
use amita_metadata::{Call, Client, Compare, KeyValue, Op};
use amita_types::{NodeId, map};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long until a campaign that the metadata did not answer, or refused, is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Stands among the suspicions while the metadata that answers is not believed. No key is like it.
const DOUBT: &str = "doubt";

pub(super) enum Input {
    /// A record is there or was written.
    Record(KeyValue),
    /// A record was deleted.
    Gone {
        key: String,
        revision: u64,
    },
    /// All records have been told.
    Settled,
    /// A batch of changes has been told.
    Seen,
    /// What the metadata says now is not believed.
    Doubted,
    /// It is again, and all records follow.
    Believed,
    Stop,
}

/// The election key's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    node: NodeId,
    session: u64,
}

struct Lead<'a> {
    client: &'a Client,
    sink: &'a Sink,
    lease: &'a Shared,
    journal: &'a Journal,
    start: Instant,
    coordinator: Coordinator,
    ours: Holder,
    /// What speaks against the metadata: while there is anything, nobody is the coordinator, for what it would change is
    /// based on what may be wrong.
    suspects: BTreeSet<String>,
    /// Is the election key there?
    held: bool,
    leading: bool,
    coordinate: bool,
    settled: bool,
    campaign_at: Option<Instant>,
}

pub(super) fn run(
    client: &Client,
    config: &Config,
    sink: &Sink,
    inputs: &Receiver<Input>,
    lease: &Shared,
    journal: &Journal,
) {
    let mut lead = Lead {
        client,
        sink,
        lease,
        journal,
        start: Instant::now(),
        coordinator: Coordinator::new(config.coordinator),
        ours: Holder {
            node: config.node,
            session: config.session,
        },
        suspects: BTreeSet::new(),
        held: false,
        leading: false,
        coordinate: config.coordinate,
        settled: false,
        campaign_at: None,
    };
    loop {
        let input = match lead.pause() {
            Some(pause) => inputs.recv_timeout(pause),
            None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match input {
            Ok(Input::Record(record)) => lead.record(record),
            Ok(Input::Gone { key, revision }) => lead.gone(key, revision),
            Ok(Input::Settled) => lead.settle(),
            Ok(Input::Seen) => lead.apply(Event::Seen),
            Ok(Input::Doubted) => lead.doubt(),
            Ok(Input::Believed) => drop(lead.suspects.remove(DOUBT)),
            Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return lead.resign(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        lead.due();
    }
}

impl Lead<'_> {
    fn now(&self) -> Moment {
        Moment(self.start.elapsed())
    }

    /// How long nothing is due; nothing at all is due while no record changes.
    fn pause(&self) -> Option<Duration> {
        let coordinator = self
            .coordinator
            .deadline()
            .map(|at| at.0.saturating_sub(self.start.elapsed()));
        let campaign = self.campaign_at.map(|at| at.saturating_duration_since(Instant::now()));
        coordinator.into_iter().chain(campaign).min()
    }

    fn record(&mut self, record: KeyValue) {
        if record.key == election_key() {
            self.held = true;
            let ours = record.json::<Holder>().is_ok_and(|holder| holder == self.ours);
            match (self.leading, ours) {
                (true, false) => self.depose(),
                // A campaign whose answer was lost was won.
                (false, true) => self.elect(record.create_revision),
                _ => {}
            }
        }
        if record.key.starts_with(&map::suspect_prefix()) && self.suspects.insert(record.key.clone()) {
            // Its key goes, and that deposes it.
            self.resign();
        }
        self.apply(Event::Record(record));
    }

    fn gone(&mut self, key: String, revision: u64) {
        if key == election_key() {
            self.held = false;
            if self.leading {
                self.depose();
            }
            self.stand();
        }
        if self.suspects.remove(&key) && !self.held {
            self.stand();
        }
        self.apply(Event::Gone { key, revision });
    }

    /// All is known: from now on this node may lead. A campaign before that would lead blindly.
    fn settle(&mut self) {
        self.settled = true;
        self.apply(Event::Settled);
        if !self.held {
            self.stand();
        }
    }

    /// What is there now is not what is known: nothing is changed by it, not even the election's key.
    fn doubt(&mut self) {
        self.suspects.insert(DOUBT.to_owned());
        self.campaign_at = None;
        if self.leading {
            self.depose();
        }
    }

    fn stand(&mut self) {
        if self.coordinate && self.settled && !self.leading && self.suspects.is_empty() {
            self.campaign_at = Some(Instant::now());
        }
    }

    fn due(&mut self) {
        if self.campaign_at.is_some_and(|at| at <= Instant::now()) {
            self.campaign();
        }
        if self.coordinator.deadline().is_some_and(|at| at <= self.now()) {
            self.apply(Event::Tick);
        }
    }

    fn campaign(&mut self) {
        self.campaign_at = None;
        let key = election_key();
        let value = serde_json::to_vec(&self.ours).expect("plain data");
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: 0,
            }],
            then: vec![Op::Put {
                key,
                value,
                lease: Some(self.lease.get()),
            }],
            otherwise: Vec::new(),
        };
        match self.client.txn(&call) {
            Ok(reply) if reply.succeeded => self.elect(reply.revision),
            // Somebody was first: its end will be told.
            Ok(_) => self.held = true,
            // Away, or the lease has ended and a new one is on its way. If it was done after all, the watch tells.
            Err(_) => self.campaign_at = Some(Instant::now() + AGAIN),
        }
    }

    fn elect(&mut self, revision: u64) {
        self.held = true;
        self.campaign_at = None;
        if !self.leading {
            self.leading = true;
            let text = format!("node {} is the coordinator", self.ours.node);
            self.journal.lead(true);
            self.journal
                .tell(Draft::new(Kind::CoordinatorElected, [self.ours.node], text.clone()));
            (self.sink)(Notice::Info(text));
            self.apply(Event::Elected { revision });
        }
    }

    /// Makes room for another at once, where the metadata hears it.
    fn resign(&self) {
        if !self.leading {
            return;
        }
        let (key, equals) = (election_key(), serde_json::to_vec(&self.ours).expect("plain data"));
        let call = Call {
            compares: vec![Compare::Value {
                key: key.clone(),
                equals,
            }],
            then: vec![Op::Delete { key }],
            otherwise: Vec::new(),
        };
        let _ = self.client.txn(&call);
    }

    fn depose(&mut self) {
        self.leading = false;
        self.journal.lead(false);
        (self.sink)(Notice::Info(format!(
            "node {} is no longer the coordinator",
            self.ours.node
        )));
        self.apply(Event::Deposed);
    }

    fn apply(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let now = self.now();
            for action in self.coordinator.apply(now, event) {
                match action {
                    Action::Call { number, call } => {
                        let result = self.client.txn(&call);
                        events.push(Event::Ended { call: number, result });
                    }
                    // All nodes see what happens; one says so.
                    Action::Warn(warning) if warning.is_seen_by_all() && !self.leading => {}
                    Action::Warn(warning) => {
                        if self.leading {
                            self.journal.tell(warning.draft());
                        }
                        let text = warning.to_string();
                        (self.sink)(if warning.is_good() {
                            Notice::Info(text)
                        } else {
                            Notice::Warn(text)
                        });
                    }
                }
            }
        }
    }
}
