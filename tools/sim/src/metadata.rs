//! A simulated metadata service: the same state machine as the embedded server's, behind a network that delays, loses
//! and cuts off.
//!
//! A call is carried out at one moment between its start and its answer. When the service cannot be reached the caller
//! is told so (surely not done), or hears nothing until its time-out: then the call was not done, or was done and its
//! answer lost, or is *still to be done*, after the caller was told "unknown". The last is what a proposal that waits in
//! a leader's queue does, and why a compare-and-set that timed out has to be read back (R6).
//!
//! Watches hand over changes late, in order, and not at all to nodes that are cut off. Sessions are leases: a node that
//! runs and reaches the service keeps its own alive; else its key goes when the time to live has passed.

use crate::random::Random;
use amita_metadata::model::State;
use amita_metadata::{Batch, Call, Error, LeaseId, Op, Reply};
use amita_reactor::Time;
use amita_types::map::Volume;
use amita_types::{Generation, NodeId};
use std::collections::BTreeMap;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// How long a call takes one way.
const ONE_WAY_NS: (u64, u64) = (200_000, 3 * MS);
/// How long a client waits for an answer before its outcome is unknown.
const CALL_TIMEOUT_NS: u64 = 1500 * MS;
/// How long a change takes to reach a watcher.
const WATCH_NS: (u64, u64) = (300_000, 20 * MS);
/// How late after its time-out a call may still be carried out.
const LATE_NS: u64 = 500 * MS;
/// And now and then: a leader that is cut off from the others keeps a proposal for as long as it takes to find that out.
const VERY_LATE_NS: u64 = 30_000 * MS;
/// The time to live of a node's session, in seconds, and how often it is renewed.
pub const SESSION_TTL_S: u64 = 2;
const RENEW_NS: u64 = 650 * MS;
/// How long a node takes from a lease that has ended to the next one.
const RELEASE_NS: u64 = 20 * MS;

/// What the service has for a node.
#[derive(Clone, Debug)]
pub enum Delivery<T> {
    /// A call ended.
    Answer {
        /// The node that had asked.
        node: NodeId,
        /// The process of that node that had asked; a later one does not get the answer.
        process: u64,
        /// The asker's own name for the call.
        tag: T,
        result: Result<Reply, Error>,
    },
    /// The node's lease has ended, and it is about to take another.
    Lapsed { node: NodeId, process: u64 },
    /// Keys changed.
    Changes {
        /// The watching node.
        node: NodeId,
        /// The process that watches.
        process: u64,
        /// What changed.
        batch: Batch,
    },
}

/// How often the rarer things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls carried out and answered.
    pub answered: u64,
    /// Calls that were told the service is away.
    pub unavailable: u64,
    /// Unknown outcome, not done.
    pub unknown_not_done: u64,
    /// Unknown outcome, done before the caller was told.
    pub unknown_done: u64,
    /// Unknown outcome, done after the caller was told.
    pub unknown_late: u64,
    /// Compare-and-sets that lost.
    pub compares_failed: u64,
    /// Changes that met a full service before they were made.
    pub no_space: u64,
    /// Sessions that ran out.
    pub sessions_lapsed: u64,
}

#[derive(Debug)]
enum Due<T> {
    /// Carry out the call; the answer follows after the delay, or is lost.
    Execute {
        node: NodeId,
        process: u64,
        tag: T,
        call: Call,
        /// How long the answer takes, where it comes.
        answer_ns: Option<u64>,
    },
    /// Hand over.
    Deliver(Delivery<T>),
    /// Renew a session.
    Renew { node: NodeId, process: u64 },
    /// Write a session's key again, because its value has changed.
    Announce { node: NodeId, process: u64 },
}

struct Watcher {
    process: u64,
    /// The next revision that the watcher has not been sent.
    next: u64,
    /// Changes never overtake each other.
    last_delivery: Time,
}

struct Session {
    process: u64,
    lease: Option<LeaseId>,
    value: Vec<u8>,
}

/// The service. `T` is the callers' own name for a call.
pub struct Metadata<T> {
    state: State,
    random: Random,
    due: BTreeMap<(Time, u64), Due<T>>,
    order: u64,
    away_until: Time,
    /// Until then there is no space for changes.
    full_until: Time,
    /// In percent: calls whose answer never comes.
    lossy_percent: u64,
    cut_off_until: BTreeMap<NodeId, Time>,
    /// Calls of these nodes go through, and their watches are told nothing.
    watch_late_until: BTreeMap<NodeId, Time>,
    watchers: BTreeMap<NodeId, Watcher>,
    sessions: BTreeMap<NodeId, Session>,
    /// Who made each revision, by which call.
    authors: BTreeMap<u64, (NodeId, T)>,
    /// When each was made.
    made_at: BTreeMap<u64, Time>,
    /// The count of calls carried out, and at which each node last raised a volume's generation, and last read its record together
    /// with groups.
    executed: u64,
    raised_at: BTreeMap<(NodeId, String), u64>,
    /// Of each volume's record, as a node last wrote it.
    generations: BTreeMap<String, Generation>,
    groups_read_at: BTreeMap<(NodeId, String), u64>,
    pub counts: Counts,
}

impl<T: Clone> Metadata<T> {
    /// An empty service.
    #[must_use]
    pub fn new(random: Random) -> Metadata<T> {
        Metadata {
            state: State::new(),
            random,
            due: BTreeMap::new(),
            order: 0,
            away_until: Time::default(),
            full_until: Time::default(),
            lossy_percent: 0,
            cut_off_until: BTreeMap::new(),
            watch_late_until: BTreeMap::new(),
            watchers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            authors: BTreeMap::new(),
            made_at: BTreeMap::new(),
            executed: 0,
            raised_at: BTreeMap::new(),
            generations: BTreeMap::new(),
            groups_read_at: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// What is kept, for the checkers.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Carries a call out at once: for setting a cluster up.
    ///
    /// # Panics
    /// When the call is refused.
    pub fn set_up(&mut self, call: &Call) -> Reply {
        self.state.txn(call).expect("a call that sets the cluster up is sound")
    }

    /// The operator changes a record: at once, and those who watch hear of it.
    ///
    /// # Panics
    /// When the call is refused.
    pub fn operate(&mut self, now: Time, call: &Call) -> Reply {
        let reply = self.set_up(call);
        self.feed_watchers(now);
        reply
    }

    /// Nobody reaches the service until then.
    pub fn away_until(&mut self, until: Time) {
        self.away_until = self.away_until.max(until);
    }

    /// One node does not reach it until then.
    pub fn cut_off_until(&mut self, node: NodeId, until: Time) {
        let at = self.cut_off_until.entry(node).or_default();
        *at = until.max(*at);
    }

    /// One node's watch is told nothing until then, though its calls go through.
    pub fn watch_late_until(&mut self, node: NodeId, until: Time) {
        let at = self.watch_late_until.entry(node).or_default();
        *at = until.max(*at);
    }

    /// There is no space for changes until then.
    pub fn full_until(&mut self, until: Time) {
        self.full_until = self.full_until.max(until);
    }

    /// So many calls of a hundred lose their answer from now on.
    pub fn lose_answers(&mut self, percent: u64) {
        self.lossy_percent = percent;
    }

    /// All faults end.
    pub fn heal(&mut self) {
        self.away_until = Time::default();
        self.full_until = Time::default();
        self.cut_off_until.clear();
        self.watch_late_until.clear();
        self.lossy_percent = 0;
    }

    /// Does the node reach the service?
    #[must_use]
    pub fn reaches(&self, now: Time, node: NodeId) -> bool {
        now >= self.away_until && self.cut_off_until.get(&node).is_none_or(|until| now >= *until)
    }

    /// A node's process calls.
    pub fn call(&mut self, now: Time, node: NodeId, process: u64, tag: T, call: Call) {
        let to = self.one_way();
        let back = self.one_way();
        if !self.reaches(now, node) {
            // Refused connections are certain; a partition is not.
            if self.random.percent(50) {
                self.counts.unavailable += 1;
                let what = "the simulated service is away".to_owned();
                let error = Error::Unavailable {
                    what,
                    endpoints: "simulation".to_owned(),
                };
                self.answer(now, to + back, node, process, tag, Err(error));
            } else {
                self.counts.unknown_not_done += 1;
                self.answer(now, CALL_TIMEOUT_NS, node, process, tag, Err(unknown()));
            }
            return;
        }
        if !self.random.percent(self.lossy_percent) {
            self.push(
                now,
                to,
                Due::Execute {
                    node,
                    process,
                    tag,
                    call,
                    answer_ns: Some(back),
                },
            );
            return;
        }
        // The answer never comes.
        self.answer(now, CALL_TIMEOUT_NS, node, process, tag.clone(), Err(unknown()));
        match self.random.below(4) {
            0 => self.counts.unknown_not_done += 1,
            1 => {
                self.counts.unknown_late += 1;
                let late_ns = if self.random.below(4) == 0 {
                    VERY_LATE_NS
                } else {
                    LATE_NS
                };
                let at = CALL_TIMEOUT_NS + self.random.below(late_ns);
                self.push(
                    now,
                    at,
                    Due::Execute {
                        node,
                        process,
                        tag,
                        call,
                        answer_ns: None,
                    },
                );
            }
            _ => {
                self.counts.unknown_done += 1;
                self.push(
                    now,
                    to,
                    Due::Execute {
                        node,
                        process,
                        tag,
                        call,
                        answer_ns: None,
                    },
                );
            }
        }
    }

    /// A node's process watches all keys, from now on, and gets all that are there first.
    pub fn watch(&mut self, now: Time, node: NodeId, process: u64) {
        let events: Vec<_> = self.state.keys().cloned().map(amita_metadata::Event::Put).collect();
        let batch = Batch {
            revision: self.state.revision(),
            events,
        };
        let next = self.state.revision() + 1;
        let delay = self.one_way();
        let last_delivery = Time(now.0 + delay);
        self.watchers.insert(
            node,
            Watcher {
                process,
                next,
                last_delivery,
            },
        );
        self.push(now, delay, Due::Deliver(Delivery::Changes { node, process, batch }));
    }

    /// A node's process starts a session: its liveness key is there as long as it runs and reaches the service.
    pub fn session(&mut self, now: Time, node: NodeId, process: u64, value: Vec<u8>) {
        self.sessions.insert(
            node,
            Session {
                process,
                lease: None,
                value,
            },
        );
        self.push(now, ONE_WAY_NS.0, Due::Renew { node, process });
    }

    /// What the liveness key of the node's session says from now on, as soon as the service is reached.
    pub fn announce(&mut self, now: Time, node: NodeId, value: Vec<u8>) {
        if let Some(session) = self.sessions.get_mut(&node) {
            session.value = value;
            let process = session.process;
            let delay = self.one_way();
            self.push(now, delay, Due::Announce { node, process });
        }
    }

    /// The node's process is gone: nobody renews, nobody watches.
    pub fn process_ended(&mut self, node: NodeId) {
        self.sessions.remove(&node);
        self.watchers.remove(&node);
    }

    /// When [`Metadata::advance`] is next wanted.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        let lease = self.state.deadline().map(|at| Time(at.as_nanos() as u64));
        let due = self.due.keys().next().map(|(at, _)| *at);
        lease.into_iter().chain(due).min()
    }

    /// Lets time pass; what is to be handed over goes to `out`, in order. `frozen` nodes renew nothing.
    pub fn advance(&mut self, now: Time, frozen: impl Fn(NodeId) -> bool, out: &mut Vec<Delivery<T>>) {
        let before = self.state.revision();
        self.counts.sessions_lapsed += self.state.tick(Duration::from_nanos(now.0)).len() as u64;
        self.made_at
            .extend((before + 1..=self.state.revision()).map(|revision| (revision, now)));
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Due::Execute {
                    node,
                    process,
                    tag,
                    call,
                    answer_ns,
                } => {
                    let full = now < self.full_until && !call.is_read_only();
                    if full && self.random.percent(50) {
                        // It had said so before, and takes no changes any more.
                        if let Some(answer_ns) = answer_ns {
                            self.counts.no_space += 1;
                            self.answer(now, answer_ns, node, process, tag, Err(no_space()));
                        }
                        continue;
                    }
                    let mut result = self.state.txn(&call).map_err(Error::from);
                    if let Ok(reply) = &result {
                        self.counts.compares_failed += u64::from(!reply.succeeded);
                        self.made_at.insert(reply.revision, now);
                        self.remember(node, &tag, &call, reply);
                    }
                    if full {
                        // It has made the change, and says that there is no space.
                        result = Err(no_space());
                    }
                    if let Some(answer_ns) = answer_ns {
                        self.counts.answered += 1;
                        self.answer(now, answer_ns, node, process, tag, result);
                    }
                }
                Due::Deliver(delivery) => out.push(delivery),
                Due::Renew { node, process } => self.renew(now, node, process, frozen(node)),
                Due::Announce { node, process } => self.write_session(now, node, process, frozen(node)),
            }
        }
        self.feed_watchers(now);
    }

    /// Keeps what the checkers want to know of a call that was carried out.
    fn remember(&mut self, node: NodeId, tag: &T, call: &Call, reply: &Reply) {
        self.executed += 1;
        let ops = if reply.succeeded { &call.then } else { &call.otherwise };
        let volumes = amita_types::map::volume_key("");
        let with_groups = ops
            .iter()
            .any(|op| matches!(op, Op::Prefix { key } if key.contains("groups/")));
        for op in ops {
            match op {
                Op::Put { key, value, .. } => {
                    self.authors.insert(reply.revision, (node, tag.clone()));
                    if key.starts_with(&volumes) && self.is_raise(key, value) {
                        self.raised_at.insert((node, key.clone()), self.executed);
                    }
                }
                Op::Get { key } if with_groups && key.starts_with(&volumes) => {
                    self.groups_read_at.insert((node, key.clone()), self.executed);
                }
                _ => {}
            }
        }
    }

    /// Has the volume's record another generation than before? (Snapshots and resizes change it as well.)
    fn is_raise(&mut self, key: &str, value: &[u8]) -> bool {
        let Ok(volume) = serde_json::from_slice::<Volume>(value) else {
            return true;
        };
        let before = self.generations.insert(key.to_owned(), volume.generation);
        before != Some(volume.generation)
    }

    /// Who made a revision, and by which call.
    #[must_use]
    pub fn author(&self, revision: u64) -> Option<&(NodeId, T)> {
        self.authors.get(&revision)
    }

    /// When a revision was made.
    #[must_use]
    pub fn made_at(&self, revision: u64) -> Time {
        self.made_at.get(&revision).copied().unwrap_or_default()
    }

    /// The lease that a node's session rests on, as far as its process knows.
    #[must_use]
    pub fn lease(&self, node: NodeId) -> Option<LeaseId> {
        self.sessions.get(&node).and_then(|session| session.lease)
    }

    /// Has the node read the groups since it last raised the generation of the volume with this key?
    #[must_use]
    pub fn has_read_groups(&self, node: NodeId, volume: &str) -> bool {
        let key = (node, volume.to_owned());
        self.groups_read_at.get(&key) > self.raised_at.get(&key)
    }

    fn renew(&mut self, now: Time, node: NodeId, process: u64, frozen: bool) {
        let reaches = self.reaches(now, node) && !frozen;
        let clock = Duration::from_nanos(now.0);
        let Some(session) = self
            .sessions
            .get_mut(&node)
            .filter(|session| session.process == process)
        else {
            return;
        };
        if reaches {
            let kept = session
                .lease
                .is_some_and(|lease| self.state.lease_keepalive(clock, lease).is_ok());
            if !kept && session.lease.take().is_some() {
                // The agent has hosts dropped before it takes another.
                self.push(now, 0, Due::Deliver(Delivery::Lapsed { node, process }));
                self.push(now, RELEASE_NS, Due::Renew { node, process });
                return;
            }
            if !kept && let Ok(lease) = self.state.lease_grant(clock, SESSION_TTL_S, None) {
                session.lease = Some(lease);
                let key = amita_types::map::live_key(node);
                let op = Op::Put {
                    key,
                    value: session.value.clone(),
                    lease: Some(lease),
                };
                let call = Call {
                    then: vec![op],
                    ..Call::default()
                };
                self.state.txn(&call).expect("the lease was granted just now");
            }
        }
        self.push(now, RENEW_NS, Due::Renew { node, process });
    }

    fn write_session(&mut self, now: Time, node: NodeId, process: u64, frozen: bool) {
        let reaches = self.reaches(now, node) && !frozen;
        let Some(session) = self.sessions.get(&node).filter(|session| session.process == process) else {
            return;
        };
        let Some(lease) = session.lease else {
            // The renewal that begins the session writes it.
            return;
        };
        let op = Op::Put {
            key: amita_types::map::live_key(node),
            value: session.value.clone(),
            lease: Some(lease),
        };
        let call = Call {
            then: vec![op],
            ..Call::default()
        };
        // A lease that has run out is replaced by the next renewal.
        if !reaches || self.state.txn(&call).is_err() {
            self.push(now, RENEW_NS, Due::Announce { node, process });
        }
    }

    fn feed_watchers(&mut self, now: Time) {
        let newest = self.state.revision();
        for (node, watcher) in &mut self.watchers {
            let is_over = |until: &BTreeMap<NodeId, Time>| until.get(node).is_none_or(|until| now >= *until);
            let reaches = now >= self.away_until && is_over(&self.cut_off_until) && is_over(&self.watch_late_until);
            if watcher.next > newest || !reaches {
                continue;
            }
            let changes = self
                .state
                .changes("", watcher.next)
                .expect("the simulation never compacts");
            for batch in changes {
                let delay = self.random.within(WATCH_NS.0, WATCH_NS.1);
                let at = Time(now.0 + delay).max(watcher.last_delivery);
                watcher.last_delivery = at;
                self.order += 1;
                let delivery = Delivery::Changes {
                    node: *node,
                    process: watcher.process,
                    batch,
                };
                self.due.insert((at, self.order), Due::Deliver(delivery));
            }
            watcher.next = newest + 1;
        }
    }

    fn answer(&mut self, now: Time, after_ns: u64, node: NodeId, process: u64, tag: T, result: Result<Reply, Error>) {
        self.push(
            now,
            after_ns,
            Due::Deliver(Delivery::Answer {
                node,
                process,
                tag,
                result,
            }),
        );
    }

    fn push(&mut self, now: Time, after_ns: u64, due: Due<T>) {
        self.order += 1;
        self.due.insert((Time(now.0 + after_ns), self.order), due);
    }

    fn one_way(&mut self) -> u64 {
        self.random.within(ONE_WAY_NS.0, ONE_WAY_NS.1)
    }
}

/// What the client makes of it when the service says that it has no space.
fn no_space() -> Error {
    amita_metadata::told_no_space("simulation")
}

fn unknown() -> Error {
    Error::Unknown {
        what: "no answer in time".to_owned(),
        endpoint: "simulation".to_owned(),
    }
}

#[cfg(test)]
mod tests;
