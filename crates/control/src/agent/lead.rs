//! The election, and the coordinator while this node is elected.
//!
//! The coordinator is whoever holds [`election_key`], which lies on its lease. Two that believe to be it do no harm:
//! all that a coordinator changes is by compare-and-set.

use super::lease::Shared;
use super::{Config, Notice, Sink};
use crate::coordinator::{Action, Coordinator, Event, Moment, election_key};
use amita_meta::{Call, Client, Compare, KeyValue, Op};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long until a campaign that the metadata did not answer is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a wait lasts when nothing is due.
const LONG: Duration = Duration::from_secs(3600);

pub(super) enum Input {
    Record(KeyValue),
    Gone { key: String, revision: u64 },
    Settled,
    Stop,
}

struct Lead<'a> {
    client: &'a Client,
    config: &'a Config,
    sink: &'a Sink,
    lease: &'a Shared,
    start: Instant,
    coordinator: Coordinator,
    leading: bool,
    campaign_at: Option<Instant>,
}

pub(super) fn run(client: &Client, config: &Config, sink: &Sink, inputs: &Receiver<Input>, lease: &Shared) {
    let coordinator = Coordinator::new(config.start_grace);
    let start = Instant::now();
    let mut lead = Lead {
        client,
        config,
        sink,
        lease,
        start,
        coordinator,
        leading: false,
        campaign_at: None,
    };
    loop {
        match inputs.recv_timeout(lead.pause()) {
            Ok(Input::Record(record)) => lead.record(record),
            Ok(Input::Gone { key, revision }) => lead.gone(key, revision),
            Ok(Input::Settled) => {
                lead.apply(Event::Settled);
                // The records come first: a campaign before them would lead blindly.
                lead.campaign_at = config.coordinate.then(Instant::now);
            }
            Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        lead.due();
    }
}

impl Lead<'_> {
    fn now(&self) -> Moment {
        self.start.elapsed()
    }

    fn pause(&self) -> Duration {
        let coordinator = self.coordinator.deadline().map(|at| at.saturating_sub(self.now()));
        let campaign = self.campaign_at.map(|at| at.saturating_duration_since(Instant::now()));
        coordinator.into_iter().chain(campaign).min().unwrap_or(LONG)
    }

    fn record(&mut self, record: KeyValue) {
        if record.key == election_key() && self.leading && record.value != self.name() {
            self.depose();
        }
        self.apply(Event::Record(record));
    }

    fn gone(&mut self, key: String, revision: u64) {
        if key == election_key() {
            if self.leading {
                self.depose();
            }
            self.campaign_at = self.config.coordinate.then(Instant::now);
        }
        self.apply(Event::Gone { key, revision });
    }

    fn depose(&mut self) {
        self.leading = false;
        self.apply(Event::Deposed);
    }

    fn name(&self) -> Vec<u8> {
        self.config.node.to_string().into_bytes()
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
        let (key, value) = (election_key(), self.name());
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: 0,
            }],
            then: vec![
                Op::Put {
                    key: key.clone(),
                    value: value.clone(),
                    lease: Some(self.lease.get()),
                },
                Op::Get { key: key.clone() },
            ],
            otherwise: vec![Op::Get { key }],
        };
        match self.client.txn(&call) {
            Ok(reply) => {
                // After an answer that was lost, the key may be ours already.
                let held = reply
                    .value(if reply.succeeded { 1 } else { 0 })
                    .filter(|found| found.value == value);
                if let Some(revision) = held.map(|found| found.create_revision)
                    && !self.leading
                {
                    self.leading = true;
                    (self.sink)(Notice::Info(format!("node {} is the coordinator", self.config.node)));
                    self.apply(Event::Elected { revision });
                }
            }
            Err(_) => self.campaign_at = Some(Instant::now() + AGAIN),
        }
    }

    fn apply(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.coordinator.apply(self.now(), event) {
                match action {
                    Action::Call { number, call } => {
                        let result = self.client.txn(&call);
                        events.push_back(Event::Ended { call: number, result });
                    }
                    Action::Warn(warning) => (self.sink)(Notice::Warn(warning.to_string())),
                }
            }
        }
    }
}
