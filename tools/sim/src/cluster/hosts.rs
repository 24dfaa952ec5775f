//! The hosts: each uses one volume and keeps a session at the gateway that all hosts of that volume use, asks what its client wants, and goes to another
//! gateway when this one is gone or does not answer.
//!
//! Others use several gateways at once ([`shared`]), or speak to gateways by their real protocols ([`fronted`]).
//!
//! A host that gives up on an operation does not know whether it was done, then or later; the history says so.

mod fencing;
mod fronted;
pub(super) mod initiator;
mod linux;
mod nbd;
mod program;
mod shared;
mod wire;

use super::node::Node;
use super::session::Heard;
use super::setup::Setup;
use super::volume_name;
use crate::coverage::Coverage;
use crate::faults::Member;
use crate::history::{History, Kind, OperationId};
use crate::random::Random;
use crate::stamp::{self, SECTOR_BYTES, SECTORS_PER_BLOCK, Sector, Stamp};
use crate::workload::{IoRequest, Workload};
use amita_frontend::{Event, FrontId, OpenError, Who};
use amita_reactor::{Slice, Time};
use amita_types::VolumeId;
use amita_types::io::{IoError, Op, Payload};
use fencing::Fencing;
use fronted::FrontedHost;
pub use linux::NQN;
use shared::Shared;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Before a host tries again to open the volume.
const RETRY: Duration = Duration::from_millis(20);
/// An open that has not ended after this is given up.
const OPEN_PATIENCE: Duration = Duration::from_secs(4);
/// Host numbers from here on belong to the closing checks, one for each volume.
pub const CLOSING_HOST: u32 = 1000;

#[derive(Debug)]
enum State {
    /// No session; the next one is tried then.
    Away {
        until: Time,
    },
    /// The volume is being opened.
    Opening {
        since: Time,
    },
    Open {
        volume: VolumeId,
    },
}

#[derive(Debug)]
struct At {
    member: Member,
    process: u64,
    core: usize,
    front: FrontId,
    heard: Rc<RefCell<Heard>>,
    /// When the session began.
    since: Time,
}

/// An error that a host was told, or a wait that was too long for it: that needs a cause ([`crate::excuse`]).
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// What it was told; none: nothing, for too long.
    pub error: Option<IoError>,
    /// Or it was this, and something since then can have caused that: some protocols have one number for several errors.
    pub or: Option<(IoError, Time)>,
    /// What it had asked for.
    pub operation: Option<OperationId>,
    /// Since when something can have caused it.
    pub since: Time,
    /// When it was told.
    pub at: Time,
    pub volume: u64,
    /// The gateway.
    pub member: Member,
    /// Was it by one of several paths?
    pub is_shared: bool,
}

#[derive(Debug)]
struct Host {
    number: u32,
    /// The volume that it uses: the first one is 0.
    volume: u64,
    state: State,
    at: Option<At>,
    under_way: BTreeMap<OperationId, Time>,
    /// Asked by the client and not sent yet.
    waiting: Vec<IoRequest>,
    /// It stays where it is as long as it is answered.
    loyal: bool,
    /// It uses all gateways.
    shared: Option<Shared>,
    /// It reaches gateways through their fronts.
    fronted: Option<Box<FrontedHost>>,
}

impl Host {
    fn pending(&self) -> usize {
        let fronted = self.fronted.as_ref().map_or(0, |fronted| fronted.pending().len());
        self.under_way.len() + self.waiting.len() + self.shared.as_ref().map_or(0, Shared::pending) + fronted
    }
}

pub struct Hosts {
    hosts: Vec<Host>,
    random: Random,
    patience: Duration,
    polite: bool,
    /// The gateway that the hosts of each volume use.
    gateways: Vec<Member>,
    /// Volumes that their hosts let go of.
    resting: Vec<bool>,
    /// Since when nothing was answered there.
    quiet_since: Vec<Time>,
    /// Sectors of a volume.
    volume_sectors: u64,
    /// Hosts wait for ever: the closing checks decide how long is too long.
    patient: bool,
    /// The first thing that a host was told and should never be.
    pub violation: Option<String>,
    pub coverage: Coverage,
    /// I/O of hosts that use several gateways may not fail: nothing is wrong with any.
    pub no_failures: bool,
    /// Where which volume was opened since somebody looked.
    pub opened_at: Vec<(Member, u64)>,
    /// What hosts were told and did not want to hear, since somebody looked.
    pub refused: Vec<Refused>,
    /// Operations that met a block of which no copy is intact.
    pub damaged: BTreeSet<OperationId>,
    /// Operations that nobody waits for any more, because they may rightly wait for ever.
    abandoned: BTreeSet<OperationId>,
    /// Nodes that they use, the first ones.
    reach: usize,
    /// Since somebody looked, hosts have gone to another gateway, or will.
    pub has_moved: bool,
    /// To which gateways since it was looked last, by volume.
    pub moved_to: BTreeMap<u64, Member>,
    /// Who fences off whom, where hosts do.
    fencing: Option<Fencing>,
}

impl Hosts {
    /// The hosts of a run, at the first gateway.
    #[must_use]
    pub fn new(setup: &Setup, random: Random) -> Hosts {
        let closing = CLOSING_HOST..CLOSING_HOST + setup.volumes as u32;
        let host = |number| Host {
            number,
            volume: u64::from(if number < CLOSING_HOST {
                number
            } else {
                number - CLOSING_HOST
            }) % setup.volumes,
            state: State::Away { until: Time::default() },
            at: None,
            under_way: BTreeMap::new(),
            waiting: Vec::new(),
            loyal: number < setup.loyal_hosts,
            shared: (number < setup.shared_hosts).then(|| Shared::new(setup, number)),
            fronted: None,
        };
        Hosts {
            hosts: (0..setup.profile.clients).chain(closing).map(host).collect(),
            random,
            patience: setup.host_patience,
            polite: setup.polite_hosts,
            gateways: vec![0; setup.volumes as usize],
            resting: vec![false; setup.volumes as usize],
            quiet_since: vec![Time::default(); setup.volumes as usize],
            volume_sectors: setup.blocks * SECTORS_PER_BLOCK as u64,
            patient: false,
            violation: None,
            coverage: Coverage::new(),
            no_failures: setup.expect_no_failures,
            opened_at: Vec::new(),
            refused: Vec::new(),
            damaged: BTreeSet::new(),
            abandoned: BTreeSet::new(),
            reach: setup.gateways(),
            has_moved: false,
            moved_to: BTreeMap::new(),
            fencing: Fencing::new(setup),
        }
    }

    /// The gateways that the hosts of each volume use.
    #[must_use]
    pub fn gateways(&self) -> &[Member] {
        &self.gateways
    }

    /// Where the closing host of a volume is.
    #[must_use]
    pub fn closing_at(&self, volume: u64) -> Option<Member> {
        let host = &self.hosts[self.closing(volume)];
        host.at.as_ref().map(|at| at.member)
    }

    fn closing(&self, volume: u64) -> usize {
        self.hosts.len() - self.gateways.len() + volume as usize
    }

    /// All hosts of a volume go to this gateway.
    pub fn move_to(&mut self, now: Time, volume: u64, gateway: Member) {
        let at = &mut self.gateways[volume as usize];
        if std::mem::replace(at, gateway) != gateway {
            self.coverage.hit("hosts.moved");
            self.has_moved = true;
            self.moved_to.insert(volume, gateway);
        }
        self.quiet_since[volume as usize] = now;
    }

    /// The hosts of a volume let go of it, when nothing of theirs is under way; or may use it again.
    pub fn rest(&mut self, volume: u64, rests: bool) {
        self.resting[volume as usize] = rests;
    }

    /// Has nobody a session for a volume, or anything under way?
    #[must_use]
    pub fn have_let_go(&self, volume: u64) -> bool {
        let mut hosts = self.hosts.iter().filter(|host| host.volume == volume);
        hosts.all(|host| host.at.is_none() && host.pending() == 0)
    }

    /// From now on they wait for as long as it takes.
    pub fn be_patient(&mut self) {
        self.patient = true;
        // Those who stayed where they were go as well.
        self.has_moved = true;
        self.hosts.iter_mut().for_each(|host| host.loyal = false);
    }

    /// Operations that hosts wait for.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.hosts.iter().map(Host::pending).sum()
    }

    #[must_use]
    pub fn pending_operations(&self) -> Vec<OperationId> {
        let each = self.hosts.iter().flat_map(|host| {
            let waiting = host.waiting.iter().map(|ask| ask.id);
            let shared = host.shared.iter().flat_map(Shared::pending_operations);
            let fronted = host.fronted.iter().flat_map(|fronted| fronted.pending());
            let under_way = host.under_way.keys().copied();
            under_way.chain(waiting).chain(shared).chain(fronted)
        });
        each.collect()
    }

    /// Nobody waits for these any more.
    pub fn abandon(&mut self, operations: &BTreeSet<OperationId>, workload: &mut Workload) {
        for host in &mut self.hosts {
            let before = host.pending();
            host.under_way.retain(|id, _| !operations.contains(id));
            host.waiting.retain(|ask| !operations.contains(&ask.id));
            host.shared.iter_mut().for_each(|shared| shared.abandon(operations));
            host.fronted.iter_mut().for_each(|fronted| fronted.abandon(operations));
            let ended = before - host.pending();
            if host.number < CLOSING_HOST {
                (0..ended).for_each(|_| workload.ended(host.number));
            }
        }
        self.abandoned.extend(operations);
    }

    /// An operation that has waited longer than `longest` at a gateway that runs.
    #[must_use]
    pub fn waits_too_long(&self, now: Time, longest: Duration, nodes: &[Node]) -> Option<String> {
        let runs = |at: &At| nodes[at.member].is_up() && nodes[at.member].frozen_until <= now;
        let hosts = self.hosts.iter().filter(|host| host.at.as_ref().is_some_and(runs));
        let mut waits = hosts.flat_map(|host| host.under_way.iter().map(move |(id, asked)| (host.number, id, *asked)));
        let (host, id, asked) = waits.find(|(_, _, asked)| now.since(*asked) > longest)?;
        let asked = asked.0 / 1000;
        Some(format!(
            "operation {} of host {host}, asked at {asked} us, has waited longer than {longest:?} at a gateway that stands",
            id.0
        ))
    }

    /// The oldest of them, for a message.
    #[must_use]
    pub fn oldest(&self) -> String {
        let oldest = self
            .hosts
            .iter()
            .flat_map(|host| host.under_way.iter().map(move |(id, at)| (*at, *id, host.number)));
        let states: Vec<String> = self
            .hosts
            .iter()
            .map(|host| {
                let (number, waiting) = (host.number, host.waiting.len());
                match &host.fronted {
                    Some(fronted) => format!("host {number} {fronted:?} {waiting} waiting"),
                    None => format!("host {number} {:?} {waiting} waiting", host.state),
                }
            })
            .collect();
        match oldest.min() {
            Some((at, id, host)) => format!(
                "operation {} of host {host}, asked at {} us; {states:?}",
                id.0,
                at.0 / 1000
            ),
            None => format!("nothing was sent; {states:?}"),
        }
    }

    /// The closing host asks.
    pub fn closing_ask(&mut self, ask: IoRequest) {
        let volume = ask.first.0 / self.volume_sectors;
        let host = self.closing(volume);
        self.hosts[host].waiting.push(ask);
    }

    /// A process is gone: what was under way there has no answer.
    pub fn process_ended(&mut self, now: Time, member: Member, workload: &mut Workload) {
        for index in 0..self.hosts.len() {
            self.path_ended(now, index, member);
            if self.hosts[index].at.as_ref().is_some_and(|at| at.member == member) {
                self.coverage.hit("hosts.gateway_died");
                self.leave(now, index, workload);
            }
        }
    }

    /// Drops a host's session; what is under way in it is given up.
    fn leave(&mut self, now: Time, index: usize, workload: &mut Workload) {
        let pause = self.random.below(RETRY.as_nanos() as u64);
        let host = &mut self.hosts[index];
        host.at = None;
        host.state = State::Away {
            until: Time(now.0 + pause),
        };
        for _ in 0..host.under_way.len() {
            self.coverage.hit("hosts.unknown_outcome");
            if host.number < CLOSING_HOST {
                workload.ended(host.number);
            }
        }
        host.under_way.clear();
    }

    /// When a host next wants [`Hosts::act`] though nothing has happened.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        let each = self.hosts.iter().filter_map(|host| match host.state {
            _ if host.fronted.is_some() => host.fronted.as_ref()?.deadline(),
            _ if host.shared.is_some() => host.shared.as_ref()?.next(self.patient),
            State::Away { until } => self.wants(host).then_some(until),
            State::Opening { since } => Some(since.plus(OPEN_PATIENCE)),
            State::Open { .. } if self.patient => None,
            State::Open { .. } => host.under_way.values().min().map(|asked| asked.plus(self.patience)),
        });
        let fencing = self.fencing.as_ref().and_then(|fencing| fencing.deadline(self.patient));
        each.chain(fencing).min()
    }

    /// The closing host comes only when it has something to ask.
    fn wants(&self, host: &Host) -> bool {
        (host.number < CLOSING_HOST && !self.resting[host.volume as usize]) || !host.waiting.is_empty()
    }

    /// Everything that hosts can do now: hear, give up, open, ask.
    pub fn act(&mut self, now: Time, nodes: &mut [Node], workload: &mut Workload, history: &mut History) {
        for index in 0..self.hosts.len() {
            if self.hosts[index].fronted.is_some() {
                self.act_fronted(now, index, workload, history);
                continue;
            }
            if self.hosts[index].shared.is_some() {
                self.act_shared(now, index, nodes, workload, history);
                continue;
            }
            self.hear(now, index, nodes, workload, history);
            self.give_up(now, index, nodes, workload);
            let host = &self.hosts[index];
            if host.at.is_some() && host.pending() == 0 && !self.wants(host) && host.number < CLOSING_HOST {
                self.close(now, index, nodes, workload);
            }
            self.open(now, index, nodes);
        }
        self.act_fencing(now, workload, history);
        while let Some(ask) = workload.ask(now, history) {
            let host = history.get(ask.id).client;
            self.hosts[host as usize].waiting.push(ask);
        }
        for index in 0..self.hosts.len() {
            if self.hosts[index].fronted.is_some() {
                self.send_fronted(now, index, workload, history);
            } else if self.hosts[index].shared.is_some() {
                self.send_shared(now, index, nodes, history);
            } else {
                self.send(now, index, nodes, history);
            }
        }
    }

    fn hear(&mut self, now: Time, index: usize, nodes: &mut [Node], workload: &mut Workload, history: &mut History) {
        while let Some(at) = &self.hosts[index].at {
            let Some(event) = at.heard.borrow_mut().events.pop_front() else {
                return;
            };
            let (since, member) = (at.since, at.member);
            match event {
                Event::Opened { result, .. } => self.opened(now, index, nodes, workload, result),
                Event::Done { tag, result, payload } => {
                    let volume = self.hosts[index].volume;
                    self.quiet_since[volume as usize] = now;
                    let id = OperationId(tag as u32);
                    if self.hosts[index].under_way.remove(&id).is_none() {
                        if self.abandoned.contains(&id) {
                            self.done(now, id, result, payload, history);
                            continue;
                        }
                        self.violation
                            .get_or_insert(format!("operation {tag} was answered twice, or never asked"));
                        return;
                    }
                    self.done(now, id, result, payload, history);
                    self.note_refused(now, result, id, index, (since, member));
                    workload.learn(history, id);
                    if self.hosts[index].number < CLOSING_HOST {
                        workload.ended(self.hosts[index].number);
                    }
                    if result == Err(IoError::Lost) {
                        self.close(now, index, nodes, workload);
                    }
                }
                Event::Lost { .. } => {
                    self.coverage.hit("hosts.volume_lost");
                    // What is under way still ends, with errors, behind this event or before it: take those first.
                    if self.hosts[index].under_way.is_empty() {
                        self.close(now, index, nodes, workload);
                    }
                }
                Event::Listed { .. }
                | Event::Bases { .. }
                | Event::Reserved { .. }
                | Event::Register { .. }
                | Event::Computed { .. }
                | Event::Settings
                | Event::Trust => {}
            }
        }
    }

    fn opened(
        &mut self,
        now: Time,
        index: usize,
        nodes: &mut [Node],
        workload: &mut Workload,
        result: Result<amita_frontend::VolumeInfo, OpenError>,
    ) {
        match result {
            Ok(info) => {
                let host = &self.hosts[index];
                self.opened_at
                    .extend(host.at.as_ref().map(|at| (at.member, host.volume)));
                self.coverage.hit("hosts.opened");
                self.quiet_since[host.volume as usize] = now;
                self.hosts[index].state = State::Open { volume: info.id };
            }
            Err(why) => {
                if let OpenError::NotFound = why {
                    // A node that has just started has not heard of any volume yet.
                    self.coverage.hit("hosts.open_not_found");
                } else {
                    self.coverage.hit("hosts.open_refused");
                }
                self.close(now, index, nodes, workload);
                if let State::Away { until } = &mut self.hosts[index].state {
                    *until = now.plus(RETRY);
                }
            }
        }
    }

    /// A host was told `result`, and `from` when on by which gateway that can have been caused.
    fn note_refused(
        &mut self,
        now: Time,
        result: Result<(), IoError>,
        id: OperationId,
        index: usize,
        (since, member): (Time, Member),
    ) {
        let host = &self.hosts[index];
        let (volume, is_shared) = (host.volume, host.shared.is_some());
        if let Err(error) = result
            && error != IoError::Miscompare
        {
            self.refused.push(Refused {
                error: Some(error),
                or: None,
                operation: Some(id),
                since,
                at: now,
                volume,
                member,
                is_shared,
            });
        }
    }

    /// A host has waited since then, for longer than its patience.
    fn note_too_long(&mut self, now: Time, index: usize, since: Time, member: Member) {
        self.refused.push(Refused {
            error: None,
            or: None,
            operation: None,
            since,
            at: now,
            volume: self.hosts[index].volume,
            member,
            is_shared: self.hosts[index].shared.is_some(),
        });
    }

    fn done(
        &mut self,
        now: Time,
        id: OperationId,
        result: Result<(), IoError>,
        payload: Payload,
        history: &mut History,
    ) {
        let operation = history.get(id);
        let (kind, first, sectors) = (operation.kind, operation.first, operation.sectors);
        match result {
            Ok(()) => {
                let read = if kind == Kind::Read {
                    self.parse(first, sectors, payload)
                } else {
                    Vec::new()
                };
                if kind == Kind::Read && read.is_empty() {
                    return;
                }
                history.complete(now, id, read);
            }
            Err(IoError::Miscompare) if kind == Kind::Compare => {
                self.coverage.hit("io.miscompare");
                history.miscompared(now, id);
            }
            Err(IoError::Lost) => self.coverage.hit("io.lost"),
            Err(IoError::Busy) => self.coverage.hit("io.busy"),
            Err(IoError::Reserved) if self.fencing.is_some() => self.coverage.hit("io.reserved"),
            Err(IoError::OutOfRange) => self.coverage.hit("io.out_of_range"),
            Err(IoError::Unavailable) => self.coverage.hit("io.unavailable"),
            Err(IoError::Damaged) => {
                self.coverage.hit("io.damaged");
                self.damaged.insert(id);
            }
            Err(IoError::NoSpace) => self.coverage.hit("io.no_space"),
            Err(error) => {
                let what = format!("operation {} ({kind:?}) ended with: {error}", id.0);
                self.violation.get_or_insert(what);
            }
        }
    }

    fn parse(&mut self, first: Sector, sectors: u32, payload: Payload) -> Vec<Stamp> {
        let bytes = sectors as usize * SECTOR_BYTES;
        let result = match payload {
            Payload::Zeros(length) if length as usize == bytes => Ok(vec![Stamp::ZERO; sectors as usize]),
            Payload::Data(data) if data.len() == bytes => {
                stamp::parse(&data, 1, first).map_err(|corrupt| format!("a read returned data that {corrupt}"))
            }
            Payload::Data(data) => Err(format!("a read of {bytes} bytes returned {}", data.len())),
            other => Err(format!("a read of {bytes} bytes returned {other:?}")),
        };
        result.unwrap_or_else(|why| {
            self.violation.get_or_insert(why);
            Vec::new()
        })
    }

    /// Leaves a gateway that can still be reached, and says so.
    fn close(&mut self, now: Time, index: usize, nodes: &mut [Node], workload: &mut Workload) {
        if let Some(at) = &self.hosts[index].at {
            at.heard.borrow_mut().gone = true;
            if nodes[at.member].process == at.process {
                nodes[at.member].hang_up(at.core, at.front);
            }
        }
        self.leave(now, index, workload);
    }

    fn give_up(&mut self, now: Time, index: usize, nodes: &mut [Node], workload: &mut Workload) {
        let host = &self.hosts[index];
        let Some(at) = &host.at else { return };
        let (volume, gateway) = (host.volume, self.gateways[host.volume as usize]);
        let elsewhere = at.member != gateway && !host.loyal;
        let member = at.member;
        let (too_long, busy) = match host.state {
            State::Away { .. } => return,
            State::Opening { since } => (now >= since.plus(OPEN_PATIENCE), false),
            State::Open { .. } => {
                let oldest = host.under_way.values().min();
                let too_long = !self.patient && oldest.is_some_and(|asked| now >= asked.plus(self.patience));
                (too_long, oldest.is_some())
            }
        };
        if too_long {
            self.coverage.hit("hosts.gave_up");
            let since = match self.hosts[index].state {
                State::Opening { since } => since,
                _ => self.hosts[index].under_way.values().min().copied().unwrap_or(now),
            };
            self.note_too_long(now, index, since, member);
            // One is enough for all: they use the same gateway. But not one after the other.
            if member == gateway && now >= self.quiet_since[volume as usize].plus(self.patience / 2) {
                self.choose(now, volume, nodes);
            }
        }
        if too_long || (elsewhere && !(self.polite && busy)) {
            self.close(now, index, nodes, workload);
        }
    }

    /// Another gateway, one that has a process, if there is one.
    fn choose(&mut self, now: Time, volume: u64, nodes: &[Node]) {
        let gateway = self.gateways[volume as usize];
        let others: Vec<Member> = (0..self.reach)
            .filter(|member| *member != gateway && nodes[*member].is_up())
            .collect();
        if !others.is_empty() {
            let next = *self.random.pick(&others);
            self.coverage.hit("hosts.switched");
            self.move_to(now, volume, next);
        }
    }

    fn open(&mut self, now: Time, index: usize, nodes: &mut [Node]) {
        let State::Away { until } = self.hosts[index].state else {
            return;
        };
        if now < until || !self.wants(&self.hosts[index]) {
            return;
        }
        let volume = self.hosts[index].volume;
        if !nodes[self.gateways[volume as usize]].is_up() {
            self.choose(now, volume, nodes);
        }
        let gateway = self.gateways[volume as usize];
        let node = &mut nodes[gateway];
        let core = self.hosts[index].number as usize % node.cores().max(1);
        let host = &mut self.hosts[index];
        let Some((front, heard)) = node.attach(core) else {
            host.state = State::Away { until: now.plus(RETRY) };
            return;
        };
        host.at = Some(At {
            member: gateway,
            process: node.process,
            core,
            front,
            heard,
            since: now,
        });
        host.state = State::Opening { since: now };
        node.ask(core, front, |service| {
            service.open(front, 0, &volume_name(volume), &Who::Program)
        });
    }

    fn send(&mut self, now: Time, index: usize, nodes: &mut [Node], history: &mut History) {
        let host = &mut self.hosts[index];
        let (State::Open { volume }, Some(at)) = (&host.state, &host.at) else {
            return;
        };
        for ask in host.waiting.drain(..) {
            let (op, payload) = request(ask, self.volume_sectors, history);
            host.under_way.insert(ask.id, now);
            history.asked_of(now, ask.id, at.member);
            let (front, volume) = (at.front, *volume);
            nodes[at.member].ask(at.core, front, |service| {
                service.submit(front, u64::from(ask.id.0), volume.into(), op, payload);
            });
        }
    }
}

/// What a gateway is asked for, and what goes with it.
fn request(ask: IoRequest, volume_sectors: u64, history: &History) -> (Op, Slice) {
    let first = ask.first.0 % volume_sectors;
    let (offset, length) = (first * SECTOR_BYTES as u64, ask.sectors * SECTOR_BYTES as u32);
    let written = |bytes: &mut [u8]| stamp::fill(bytes, 1, ask.first, ask.id.stamp());
    match ask.kind {
        Kind::Read => (Op::Read { offset, length }, Slice::default()),
        Kind::Clear => {
            let length = u64::from(length);
            (Op::Clear { offset, length }, Slice::default())
        }
        Kind::Write => {
            let mut bytes = vec![0; length as usize];
            written(&mut bytes);
            (Op::Write { offset, length }, Slice::copy_from(&bytes))
        }
        Kind::Compare => {
            let mut bytes = vec![0; 2 * length as usize];
            let (expected, new) = bytes.split_at_mut(length as usize);
            let each = history
                .get(ask.id)
                .expected
                .iter()
                .zip(expected.chunks_exact_mut(SECTOR_BYTES));
            for (at, (held, bytes)) in (ask.first.0..).zip(each) {
                if *held != Stamp::ZERO {
                    stamp::fill(bytes, 1, Sector(at), *held);
                }
            }
            written(new);
            (Op::CompareAndWrite { offset, length }, Slice::copy_from(&bytes))
        }
    }
}
