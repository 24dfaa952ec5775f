//! The coordinators: every node runs the state machine, fed by its watch, and one of them is elected.
//!
//! What a node's threads do around the machine (`amita_control::agent`) is done here in virtual time: a call is carried
//! out before the next record is looked at, a campaign stands on the lease of the node's session, and an election that
//! was won without an answer is learned from the watch. A frozen node does nothing, and then goes on with what it
//! believed before.

use super::networks::{Verdict, Verdicts};
use super::node::node_id;
use super::{Cluster, describe, json, summary};
use crate::coverage::Coverage;
use crate::faults::Member;
use amita_control::coordinator::{Action, CallNumber, Config, Coordinator, Event, Moment, election_key};
use amita_metadata::{Batch, Call, Compare, Error, KeyValue, LeaseId, Op, Reply};
use amita_reactor::Time;
use amita_sequencer::CallId;
use amita_types::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// Until a campaign that failed is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// Until a node looks again whether its session has begun.
const NO_LEASE: Duration = Duration::from_millis(5);

/// Which part of a node calls the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A core, for a sequencer.
    Core(usize, CallId),
    /// The node's coordinator; it has one call under way at most.
    Coordinator,
    /// What measures its links; likewise.
    Links,
    /// Who moves a volume, by its number.
    Mover(u64),
}

/// The election key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    node: NodeId,
    session: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Campaign,
    Machine(CallNumber),
}

/// One process's coordinator, elected or not.
pub struct Lead {
    machine: Coordinator,
    ours: Holder,
    /// What was heard, and when it is looked at.
    inputs: VecDeque<(Time, Event)>,
    lag: Duration,
    calls: VecDeque<(CallNumber, Call)>,
    under_way: Option<(Asked, Call)>,
    answer: Option<Result<Reply, Error>>,
    /// Is the election key there?
    held: bool,
    leading: bool,
    settled: bool,
    campaign_at: Option<Time>,
    /// When it is wanted next.
    wake: Option<Time>,
    /// What it has said of networks.
    pub(super) verdicts: Verdicts,
}

impl Lead {
    pub(super) fn new(member: Member, process: u64, config: Config, lag: Duration) -> Lead {
        Lead {
            machine: Coordinator::new(config),
            ours: Holder {
                node: node_id(member),
                session: process,
            },
            inputs: VecDeque::new(),
            lag,
            calls: VecDeque::new(),
            under_way: None,
            answer: None,
            held: false,
            leading: false,
            settled: false,
            campaign_at: None,
            wake: None,
            verdicts: Verdicts::default(),
        }
    }

    /// Records changed; the first batch is all of them.
    pub(super) fn hear(&mut self, now: Time, batch: &Batch) {
        let events = batch.events.iter().cloned().map(|event| match event {
            amita_metadata::Event::Put(record) => Event::Record(record),
            amita_metadata::Event::Delete { key, mod_revision } => Event::Gone {
                key,
                revision: mod_revision,
            },
        });
        let at = now.plus(self.lag);
        self.inputs.extend(events.map(|event| (at, event)));
        let settled = std::mem::replace(&mut self.settled, true);
        self.inputs
            .push_back((at, if settled { Event::Seen } else { Event::Settled }));
        self.wake = self.next();
    }

    /// The call that is under way ended.
    pub(super) fn answered(&mut self, result: Result<Reply, Error>) {
        self.answer = Some(result);
        self.wake = self.next();
    }

    /// Does all that can be done until the next answer, which is that of the call returned.
    fn act(&mut self, now: Time, lease: Option<LeaseId>, coverage: &mut Coverage) -> Option<Call> {
        if let Some(result) = self.answer.take() {
            let (asked, call) = self.under_way.take().expect("an answer has its question");
            match asked {
                Asked::Campaign => self.campaigned(now, result, coverage),
                Asked::Machine(number) => {
                    if result.as_ref().is_ok_and(|reply| has_lost_race(&call, reply)) {
                        coverage.hit("coordinator.lost_race");
                    }
                    self.apply(now, Event::Ended { call: number, result });
                }
            }
        }
        while self.under_way.is_none() {
            if let Some((number, call)) = self.calls.pop_front() {
                self.under_way = Some((Asked::Machine(number), call.clone()));
                return Some(call);
            } else if let Some((_, input)) = self.inputs.pop_front_if(|(at, _)| *at <= now) {
                self.take(now, input, coverage);
            } else if self.campaign_at.is_some_and(|at| at <= now) {
                let Some(lease) = lease else {
                    self.campaign_at = Some(now.plus(NO_LEASE));
                    break;
                };
                self.campaign_at = None;
                let call = self.campaign(lease);
                self.under_way = Some((Asked::Campaign, call.clone()));
                return Some(call);
            } else if self.machine.deadline().is_some_and(|at| at <= moment(now)) {
                self.apply(now, Event::Tick);
            } else {
                break;
            }
        }
        None
    }

    fn take(&mut self, now: Time, input: Event, coverage: &mut Coverage) {
        match &input {
            Event::Record(record) if record.key == election_key() => self.election(now, record, coverage),
            Event::Gone { key, .. } if *key == election_key() => {
                self.held = false;
                self.depose(now);
                self.campaign_at = Some(now);
            }
            Event::Settled if !self.held => self.campaign_at = Some(now),
            _ => {}
        }
        self.apply(now, input);
    }

    fn election(&mut self, now: Time, record: &KeyValue, coverage: &mut Coverage) {
        self.held = true;
        let ours = record.json::<Holder>().is_ok_and(|holder| holder == self.ours);
        match (self.leading, ours) {
            (true, false) => self.depose(now),
            // A campaign whose answer was lost was won.
            (false, true) => self.elect(now, record.create_revision, coverage),
            _ => {}
        }
    }

    fn campaign(&self, lease: LeaseId) -> Call {
        let key = election_key();
        Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: 0,
            }],
            then: vec![Op::Put {
                key,
                value: json(&self.ours),
                lease: Some(lease),
            }],
            otherwise: Vec::new(),
        }
    }

    fn campaigned(&mut self, now: Time, result: Result<Reply, Error>, coverage: &mut Coverage) {
        match result {
            Ok(reply) if reply.succeeded => self.elect(now, reply.revision, coverage),
            // Somebody was first: its end will be told.
            Ok(_) => self.held = true,
            Err(_) => self.campaign_at = Some(now.plus(AGAIN)),
        }
    }

    fn elect(&mut self, now: Time, revision: u64, coverage: &mut Coverage) {
        self.held = true;
        self.campaign_at = None;
        if !std::mem::replace(&mut self.leading, true) {
            coverage.hit("coordinator.elected");
            self.apply(now, Event::Elected { revision });
        }
    }

    fn depose(&mut self, now: Time) {
        if std::mem::take(&mut self.leading) {
            self.apply(now, Event::Deposed);
            self.verdicts.hear(Verdict::Deposed);
        }
    }

    fn apply(&mut self, now: Time, event: Event) {
        for action in self.machine.apply(moment(now), event) {
            match action {
                Action::Call { number, call } => self.calls.push_back((number, call)),
                Action::Warn(warning) => self.verdicts.hear(Verdict::Said(warning)),
            }
        }
    }

    fn next(&self) -> Option<Time> {
        if self.under_way.is_some() {
            return self.answer.as_ref().map(|_| Time::default());
        }
        let deadline = self.machine.deadline().map(|at| Time(at.0.as_nanos() as u64));
        let input = self.inputs.front().map(|(at, _)| *at);
        deadline.into_iter().chain(self.campaign_at).chain(input).min()
    }
}

fn moment(now: Time) -> Moment {
    Moment(Duration::from_nanos(now.0))
}

/// Had a group been changed since the coordinator's decision?
fn has_lost_race(call: &Call, reply: &Reply) -> bool {
    let found = (0..call.otherwise.len()).filter_map(|index| reply.value(index));
    let is_other = |found: &KeyValue| {
        call.compares.iter().any(|compare| {
            matches!(compare, Compare::ModRevision { key, equals }
                if *key == found.key && *equals > 0 && *equals != found.mod_revision)
        })
    };
    !reply.succeeded && found.into_iter().any(is_other)
}

impl Cluster {
    /// The node that holds the election key.
    pub(super) fn coordinator(&self) -> Option<NodeId> {
        holder(self.metadata.state().get(&election_key())?)
    }

    /// Lets each node's coordinator do what it can.
    pub(super) fn coordinate(&mut self, now: Time) {
        for member in 0..self.nodes.len() {
            let frozen = self.nodes[member].frozen_until > now;
            let Some(lead) = self.leads[member].as_mut().filter(|_| !frozen) else {
                continue;
            };
            if lead.wake.is_none_or(|at| at > now) {
                continue;
            }
            let lease = self.metadata.lease(node_id(member));
            let call = lead.act(now, lease, &mut self.coverage);
            lead.wake = lead.next();
            if let Some(mut call) = call {
                self.setup.plants.metadata.strip(true, &mut call);
                self.note(member as u64);
                self.tell(|| format!("node {}: its coordinator calls: {}", member + 1, describe(&call)));
                let process = self.nodes[member].process;
                self.metadata
                    .call(now, node_id(member), process, Caller::Coordinator, call);
            }
        }
    }

    /// When one of them is wanted next.
    pub(super) fn next_coordination(&self) -> Option<Time> {
        let each = self.leads.iter().zip(&self.nodes);
        each.filter_map(|(lead, node)| Some(lead.as_ref()?.wake?.max(node.frozen_until)))
            .min()
    }

    /// The answer to a node's coordinator.
    pub(super) fn answer_coordinator(&mut self, member: Member, result: Result<Reply, Error>) {
        self.tell(|| {
            format!(
                "node {}: its coordinator's call ended: {}",
                member + 1,
                summary(&result)
            )
        });
        if let Some(lead) = &mut self.leads[member] {
            lead.answered(result);
        }
    }
}

/// The node that an election key names.
pub(super) fn holder(record: &KeyValue) -> Option<NodeId> {
    record.json::<Holder>().ok().map(|holder| holder.node)
}
