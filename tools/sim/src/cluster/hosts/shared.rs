//! Hosts that use all gateways at once, as NVMe hosts with several paths do: a session at each that they have come to
//! use, no opening of the volume, and an operation that brings nothing by one gateway is repeated by another.
//!
//! What makes a ghost visible: a write that was not answered is repeated, with a stamp of its own, and once the
//! repetition is acknowledged the first one must not take effect any more ([`History::repeat`], R9). The host owes the
//! cluster one thing for that: it repeats what it has not heard of only when [`patience`](super::super::Setup) is over,
//! counted from when it sent it, however it lost the path. (What a gateway has answered for it may repeat at once.)
//! Compare-and-writes must not be repeated, and end with an unknown outcome instead.

use super::{At, Hosts, Kind, RETRY, request};
use crate::cluster::node::Node;
use crate::cluster::{Setup, volume_id};
use crate::faults::Member;
use crate::history::{History, OperationId};
use crate::workload::{IoRequest, Workload};
use amita_frontend::{Event, HostKey};
use amita_reactor::Time;
use amita_types::io::{IoError, Payload};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The least patience: the sum of what the cluster may need to be rid of what a gateway has of a host (docs/nvme.md).
const LEAST_PATIENCE: Duration = Duration::from_secs(3);
/// So long after its start a cluster knows its volumes.
const BEGINNING: Duration = Duration::from_millis(300);
/// An operation is not repeated more often than this.
const MAX_TRIES: u32 = 8;

/// An operation that is with a gateway.
#[derive(Debug)]
struct Sent {
    ask: IoRequest,
    at: Time,
    tries: u32,
}

/// One that is to be sent, again perhaps.
#[derive(Debug)]
struct Again {
    ask: IoRequest,
    due: Time,
    tries: u32,
    /// Not by this one, if there is another.
    but: Member,
}

/// What a host with several paths keeps.
#[derive(Debug)]
pub(super) struct Shared {
    key: HostKey,
    patience: Duration,
    paths: BTreeMap<Member, At>,
    sent: BTreeMap<(Member, OperationId), Sent>,
    again: Vec<Again>,
    /// It takes paths in turn instead of one until that fails.
    spreads: bool,
    /// The path that it uses while that works.
    usual: Member,
    /// When it tries to find a gateway again.
    idle_until: Option<Time>,
}

impl Shared {
    pub(super) fn new(setup: &Setup, number: u32) -> Shared {
        Shared {
            key: HostKey(u128::from(number) + 1),
            patience: setup.host_patience.max(LEAST_PATIENCE),
            paths: BTreeMap::new(),
            sent: BTreeMap::new(),
            again: Vec::new(),
            spreads: (setup.seed ^ u64::from(number)).is_multiple_of(3),
            usual: number as usize % setup.nodes,
            idle_until: None,
        }
    }

    pub(super) fn pending(&self) -> usize {
        self.sent.len() + self.again.len()
    }

    pub(super) fn pending_operations(&self) -> impl Iterator<Item = OperationId> + '_ {
        let again = self.again.iter().map(|again| again.ask.id);
        self.sent.keys().map(|(_, id)| *id).chain(again)
    }

    /// Nobody waits for these any more.
    pub(super) fn abandon(&mut self, operations: &BTreeSet<OperationId>) {
        self.sent.retain(|(_, id), _| !operations.contains(id));
        self.again.retain(|again| !operations.contains(&again.ask.id));
    }

    /// When it wants to act though nothing has happened.
    pub(super) fn next(&self, patient: bool) -> Option<Time> {
        let again = self.again.iter().map(|again| again.due);
        let given_up = self.sent.values().map(|sent| sent.at.plus(self.patience));
        let given_up = given_up.filter(|_| !patient);
        again.chain(given_up).chain(self.idle_until).min()
    }
}

impl Hosts {
    fn shared(&mut self, index: usize) -> &mut Shared {
        self.hosts[index].shared.as_mut().expect("a host with several paths")
    }

    /// A gateway's process is gone, or it has closed the connection.
    pub(super) fn path_ended(&mut self, now: Time, index: usize, member: Member) {
        let Some(shared) = &mut self.hosts[index].shared else {
            return;
        };
        if shared.paths.remove(&member).is_none() {
            return;
        }
        let sent = std::mem::take(&mut shared.sent);
        let patience = shared.patience;
        for ((at, id), sent) in sent {
            if at != member {
                shared.sent.insert((at, id), sent);
                continue;
            }
            shared.again.push(Again {
                ask: sent.ask,
                due: sent.at.plus(patience).max(now),
                tries: sent.tries,
                but: member,
            });
        }
        self.coverage.hit("shared.path_ended");
    }

    /// The hosts' connections to a gateway break, or are closed.
    pub fn cut_paths(&mut self, now: Time, member: Member, nodes: &mut [Node]) {
        for index in 0..self.hosts.len() {
            self.close_path(now, index, member, nodes);
        }
    }

    fn close_path(&mut self, now: Time, index: usize, member: Member, nodes: &mut [Node]) {
        let Some(path) = self.hosts[index]
            .shared
            .as_ref()
            .and_then(|shared| shared.paths.get(&member))
        else {
            return;
        };
        path.heard.borrow_mut().gone = true;
        if nodes[member].process == path.process {
            nodes[member].hang_up(path.core, path.front);
        }
        self.path_ended(now, index, member);
    }

    /// Hears, gives up.
    pub(super) fn act_shared(
        &mut self,
        now: Time,
        index: usize,
        nodes: &mut [Node],
        workload: &mut Workload,
        history: &mut History,
    ) {
        let members: Vec<Member> = self.shared(index).paths.keys().copied().collect();
        for member in members {
            self.hear_shared(now, index, member, workload, history);
            if self
                .shared(index)
                .paths
                .get(&member)
                .is_some_and(|path| path.heard.borrow().gone)
            {
                self.coverage.hit("shared.dropped");
                self.path_ended(now, index, member);
            }
        }
        if !self.patient {
            let shared = self.shared(index);
            let (patience, sent) = (shared.patience, &shared.sent);
            let late: Vec<(Member, Time)> = sent
                .iter()
                .filter(|(_, sent)| now >= sent.at.plus(patience))
                .map(|((member, _), sent)| (*member, sent.at))
                .collect();
            for (member, since) in late {
                self.coverage.hit("shared.gave_up");
                self.note_too_long(now, index, since, member);
                self.close_path(now, index, member, nodes);
            }
        }
        self.end_again(now, index, workload);
    }

    fn hear_shared(&mut self, now: Time, index: usize, member: Member, workload: &mut Workload, history: &mut History) {
        loop {
            let Some(path) = self.shared(index).paths.get(&member) else {
                return;
            };
            let Some(event) = path.heard.borrow_mut().events.pop_front() else {
                return;
            };
            let Event::Done { tag, result, payload } = event else {
                continue;
            };
            let id = OperationId(tag as u32);
            let Some(sent) = self.shared(index).sent.remove(&(member, id)) else {
                if self.abandoned.contains(&id) {
                    self.done(now, id, result, payload, history);
                    continue;
                }
                self.violation
                    .get_or_insert(format!("operation {tag} was answered twice, or never asked"));
                return;
            };
            self.answered_shared(now, index, member, sent, result, payload, workload, history);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn answered_shared(
        &mut self,
        now: Time,
        index: usize,
        member: Member,
        sent: Sent,
        result: Result<(), IoError>,
        payload: Payload,
        workload: &mut Workload,
        history: &mut History,
    ) {
        let volume = self.hosts[index].volume;
        self.quiet_since[volume as usize] = now;
        self.done(now, sent.ask.id, result, payload, history);
        self.note_refused(now, result, sent.ask.id, index, (sent.at, member));
        workload.learn(history, sent.ask.id);
        if let Err(IoError::Lost | IoError::Busy | IoError::Unavailable) = result {
            // Before that a node may not have heard of the volume.
            if self.no_failures && now >= Time::default().plus(BEGINNING) {
                let why = format!("operation {} of a shared host ended with {result:?}", sent.ask.id.0);
                self.violation.get_or_insert(why);
            }
            // The gateway has said that it has no more to do with it.
            let due = now.plus(RETRY);
            let (ask, tries) = (sent.ask, sent.tries);
            let shared = self.shared(index);
            shared.again.push(Again {
                ask,
                due,
                tries,
                but: member,
            });
            if shared.usual == member {
                shared.usual = usize::MAX;
            }
            return;
        }
        workload.ended(self.hosts[index].number);
    }

    /// What is not repeated ends here, with an unknown outcome.
    fn end_again(&mut self, now: Time, index: usize, workload: &mut Workload) {
        let number = self.hosts[index].number;
        let shared = self.shared(index);
        let mut ended = 0;
        shared.again.retain(|again| {
            let is_over = again.ask.kind == Kind::Compare || again.tries >= MAX_TRIES;
            ended += u64::from(is_over && again.due <= now);
            !is_over || again.due > now
        });
        self.coverage.add("hosts.unknown_outcome", ended);
        (0..ended).for_each(|_| workload.ended(number));
    }

    /// Sends what the client asks for, and what is to be repeated.
    pub(super) fn send_shared(&mut self, now: Time, index: usize, nodes: &mut [Node], history: &mut History) {
        self.shared(index).idle_until = None;
        let mut due: Vec<Again> = Vec::new();
        let mut later: Vec<Again> = Vec::new();
        for again in std::mem::take(&mut self.shared(index).again) {
            if again.due <= now {
                due.push(again)
            } else {
                later.push(again)
            }
        }
        self.shared(index).again = later;
        let waiting = std::mem::take(&mut self.hosts[index].waiting);
        due.extend(waiting.into_iter().map(|ask| Again {
            ask,
            due: now,
            tries: 0,
            but: usize::MAX,
        }));
        for mut again in due {
            let Some(member) = self.path(now, index, again.but, nodes) else {
                again.due = now.plus(RETRY);
                self.shared(index).again.push(again);
                continue;
            };
            if again.tries > 0 {
                self.coverage.hit("shared.repeated");
                if matches!(again.ask.kind, Kind::Write | Kind::Clear) {
                    again.ask.id = history.repeat(now, again.ask.id);
                }
            }
            let (op, payload) = request(again.ask, self.volume_sectors, history);
            let volume = volume_id(self.hosts[index].volume);
            let shared = self.shared(index);
            let path = &shared.paths[&member];
            let (front, core) = (path.front, path.core);
            shared.sent.insert(
                (member, again.ask.id),
                Sent {
                    ask: again.ask,
                    at: now,
                    tries: again.tries + 1,
                },
            );
            let tag = u64::from(again.ask.id.0);
            nodes[member].ask(core, front, |service| {
                service.submit(front, tag, volume.into(), op, payload)
            });
        }
    }

    /// A gateway to send by: one that the host is connected to, or that answers a new connection.
    fn path(&mut self, now: Time, index: usize, but: Member, nodes: &mut [Node]) -> Option<Member> {
        let shared = self.hosts[index].shared.as_ref()?;
        let usable = |member: &Member| {
            shared.paths.contains_key(member) || (nodes[*member].is_up() && nodes[*member].frozen_until <= now)
        };
        let mut members: Vec<Member> = (0..nodes.len()).filter(usable).collect();
        if members.len() > 1 {
            members.retain(|member| *member != but);
        }
        if members.is_empty() {
            return None;
        }
        let member = match members.contains(&shared.usual) && !shared.spreads {
            true => shared.usual,
            false => *self.random.pick(&members),
        };
        let number = self.hosts[index].number;
        let shared = self.hosts[index].shared.as_mut()?;
        shared.usual = member;
        if !shared.paths.contains_key(&member) {
            let node = &mut nodes[member];
            let core = number as usize % node.cores().max(1);
            let (front, heard) = node.attach(core)?;
            let key = shared.key;
            node.ask(core, front, |service| service.identify(front, key));
            let process = node.process;
            shared.paths.insert(
                member,
                At {
                    member,
                    process,
                    core,
                    front,
                    heard,
                    since: now,
                },
            );
            self.coverage.hit("shared.connected");
        }
        Some(member)
    }
}
