//! The way of an I/O through the services, step by step: `ARCHITECTURE.md`, "One write", with costs for code.
//!
//! Where the product decides, its own functions are asked: which group a chunk is in and which core sequences it
//! (`ChunkId`), who holds the group (the coordinator's plan), which core holds the link to a peer (`Lanes`).

use super::costs::Part;
use super::engine::{Pass, Request, ServiceId, Work};
use super::machine::{Fronts, MAX_COPIES, Machine, Nanos, Place, Placement, Processors};
use crate::random::Random;
use amita_testkit::histogram::Histogram;
use amita_types::{ChunkId, ChunkIndex, VolumeId};

/// The head of a message between nodes, or of a host's, in bytes.
const HEAD_BYTES: u32 = 100;
/// The payload.
const BLOCK_BYTES: u32 = 4096;
/// Chunks of a volume: 1 TiB.
const CHUNKS: u64 = 1 << 18;
/// What is outside: hosts that are not simulated as services.
const OUTSIDE: ServiceId = u32::MAX;

/// Kinds of connections, in a key's top bits.
const ASKING: u64 = 1 << 62;
const ANSWERING: u64 = 2 << 62;
const HOST: u64 = 3 << 62;

/// A read waits for what was read.
const READ: u8 = 1;
/// A read waits for a lease.
const LEASE: u8 = 2;

/// Where an I/O is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A host's program: an answer is there, the next is asked.
    Host,
    /// At the core with the host's session.
    Front,
    /// At the core that sequences the chunk.
    Sequence,
    /// At the core that holds the link to a member's node.
    Link,
    /// At the member's node, where the link ends.
    Arrived,
    /// At the core of the store.
    Store,
    /// The disk is done.
    Durable,
    /// At the member's node, where the link ends, on the way back.
    Return,
    /// At the core that holds the link, on the way back.
    Answered,
    /// At the core that sequences the chunk, with a member's answer.
    Settle,
    /// At the core with the host's session, done.
    Reply,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msg {
    /// The I/O's place in the table.
    pub io: u32,
    pub step: Step,
    /// Which member of the group it concerns.
    pub member: u8,
}

/// What hosts do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asking {
    /// Each session keeps so many I/Os under way.
    Closed {
        /// Sessions of a gateway.
        sessions: usize,
        depth: usize,
    },
    /// I/Os begin at a rate, whatever became of the others.
    Open {
        /// Sessions of a gateway.
        sessions: usize,
        /// Of a gateway, in a second.
        rate: f64,
    },
}

/// A load: 4 KiB, at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Of a hundred I/Os.
    pub writes: u64,
    pub asking: Asking,
    /// Nodes that hosts use, of those simulated.
    pub gateways: usize,
    /// Volumes of each gateway.
    pub volumes: usize,
    /// How likely it is that a read finds another member's lease due for renewal, and how likely that it finds it
    /// ended.
    pub stale: Stale,
}

/// Leases (R4) that a read finds stale.
///
/// Each core of a volume's owner holds a lease of each store that it uses, for 250 ms from each answer; a read asks for
/// those that are half over, and is let through when `min_copies` of its group's members have granted one. A run is
/// much shorter than a lease, so what it finds is drawn: of a store that answers a core's questions about a volume
/// `rate` times in a second, at random, a lease is older than `t` with a probability of `exp(-rate t)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stale {
    /// Older than half of its life: asked for anew.
    pub due: f64,
    /// Ended: the read waits.
    pub ended: f64,
}

impl Stale {
    /// Where an owner does `rate` I/Os of this load in a second.
    #[must_use]
    pub fn at(machine: &Machine, load: &Load, rate: f64) -> Stale {
        const LEASE_S: f64 = 0.25;
        let pairs = load.volumes as f64 * machine.cores as f64 * (machine.nodes * machine.stores) as f64;
        let writes = load.writes as f64 / 100.0;
        let mut stale = Stale::default();
        // A renewal is an answer, too: the more are due, the fewer are.
        for _ in 0..32 {
            let answers = 3.0 * writes + (1.0 - writes) * (1.0 + 2.0 * stale.due);
            let rate = rate * answers / pairs;
            stale = Stale {
                due: (stale.due + (-rate * LEASE_S / 2.0).exp()) / 2.0,
                ended: (-rate * LEASE_S).exp(),
            };
        }
        stale
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Io {
    began: Nanos,
    node: u32,
    session: u32,
    sequencer: u16,
    write: bool,
    /// What it needs before it is done: of a write so many answers, of a read [`READ`] and [`LEASE`].
    waiting: u8,
    /// Members that are asked.
    asked: u8,
    /// Messages that are still on their way.
    under_way: u8,
    done: bool,
    members: [Place; MAX_COPIES],
}

/// The I/Os of a run.
#[derive(Debug)]
pub struct Path<'a> {
    machine: &'a Machine,
    placement: &'a Placement,
    load: Load,
    random: Random,
    ios: Vec<Io>,
    free: Vec<u32>,
    window: (Nanos, Nanos),
    /// Latencies of what ended in the window.
    pub latency: Histogram,
    in_flight: u64,
    /// The integral of the I/Os in flight over the window, and up to when it is taken.
    area: (u128, Nanos),
}

impl<'a> Path<'a> {
    /// No I/O yet.
    #[must_use]
    pub fn new(
        machine: &'a Machine,
        placement: &'a Placement,
        load: Load,
        seed: u64,
        window: (Nanos, Nanos),
    ) -> Path<'a> {
        Path {
            machine,
            placement,
            load,
            random: Random::new(seed),
            ios: Vec::new(),
            free: Vec::new(),
            window,
            latency: Histogram::default(),
            in_flight: 0,
            area: (0, window.0),
        }
    }

    /// The mean number of I/Os in flight in the window.
    #[must_use]
    pub fn mean_in_flight(&self) -> f64 {
        let (from, to) = self.window;
        let rest = u128::from(self.in_flight) * u128::from(to - self.area.1.clamp(from, to));
        (self.area.0 + rest) as f64 / (to - from) as f64
    }

    /// Is the host's program one of the services?
    fn has_host(&self) -> bool {
        self.machine.processors != Processors::Own
    }

    fn host(&self) -> ServiceId {
        (self.machine.slice * self.machine.cores) as ServiceId
    }

    fn service(&self, node: usize, core: usize) -> ServiceId {
        (node % self.machine.slice * self.machine.cores + core) as ServiceId
    }

    fn front_of(&self, session: u32) -> usize {
        match self.machine.fronts {
            Fronts::First => 0,
            Fronts::Spread => session as usize % self.machine.cores,
        }
    }

    fn count(&mut self, now: Nanos, change: i64) {
        let (from, to) = self.window;
        let until = now.clamp(from, to);
        self.area.0 += u128::from(self.in_flight) * u128::from(until.saturating_sub(self.area.1));
        self.area.1 = until.max(self.area.1);
        self.in_flight = self.in_flight.wrapping_add_signed(change);
    }

    /// A new I/O of a session.
    fn begin(&mut self, now: Nanos, node: u32, session: u32) -> u32 {
        let volume = u64::from(node) * self.load.volumes as u64 + self.random.below(self.load.volumes as u64);
        let chunk = ChunkId {
            volume: VolumeId(volume + 1),
            index: ChunkIndex(self.random.below(CHUNKS)),
        };
        let mut members = [Place::default(); MAX_COPIES];
        let places = self.placement.of(chunk);
        members[..places.len()].copy_from_slice(places);
        let write = self.random.percent(self.load.writes);
        let (mut waiting, mut asked) = (places.len() as u8, places.len() as u8);
        if !write {
            // One copy: that of this node, else any; it grants a lease with its answer. The others are asked for what
            // is due.
            let local = places.iter().position(|place| place.node == node);
            let chosen = local.unwrap_or_else(|| self.random.below(places.len() as u64) as usize);
            members.swap(0, chosen);
            (waiting, asked) = (READ, 1);
            let mut leased = 1;
            for other in 1..places.len() {
                let draw = (self.random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
                if draw < self.load.stale.due {
                    members.swap(usize::from(asked), other);
                    asked += 1;
                }
                leased += usize::from(draw >= self.load.stale.ended);
            }
            // Two of three (`min_copies`) are enough.
            if leased < places.len().min(2) {
                waiting |= LEASE;
            }
        }
        let io = Io {
            began: now,
            node,
            session,
            sequencer: chunk.core(self.machine.cores) as u16,
            write,
            waiting,
            asked,
            under_way: asked,
            done: false,
            members,
        };
        self.count(now, 1);
        match self.free.pop() {
            Some(place) => {
                self.ios[place as usize] = io;
                place
            }
            None => {
                self.ios.push(io);
                self.ios.len() as u32 - 1
            }
        }
    }

    fn ended(&mut self, now: Nanos, place: u32) {
        let io = self.ios[place as usize];
        if now >= self.window.0 && now < self.window.1 {
            self.latency.record(now - io.began);
        }
        self.count(now, -1);
        self.ios[place as usize].done = true;
        self.release(place);
    }

    /// Its place is free when it is done and none of its messages is under way.
    fn release(&mut self, place: u32) {
        let io = &self.ios[place as usize];
        if io.done && io.under_way == 0 {
            self.free.push(place);
        }
    }

    /// What a host sends for a new I/O.
    fn ask(&mut self, now: Nanos, node: u32, session: u32) -> Request {
        let io = self.begin(now, node, session);
        Request {
            to: self.service(node as usize, self.front_of(session)),
            key: HOST | u64::from(node) << 31 | u64::from(session),
            bytes: HEAD_BYTES + if self.ios[io as usize].write { BLOCK_BYTES } else { 0 },
            msg: Msg {
                io,
                step: Step::Front,
                member: 0,
            },
        }
    }

    /// What a closed load begins with: for each I/O where, and what; those of a simulated host are all its own.
    pub fn first(&mut self) -> Vec<Request> {
        let Asking::Closed { sessions, depth } = self.load.asking else {
            return Vec::new();
        };
        let mut first = Vec::new();
        for node in 0..self.load.gateways as u32 {
            for session in 0..sessions as u32 {
                for _ in 0..depth {
                    let request = if self.has_host() {
                        let io = self.begin(0, node, session);
                        // It ends at once; so the host's first pass sends the real first ones.
                        Request {
                            to: self.host(),
                            key: 0,
                            bytes: 0,
                            msg: Msg {
                                io,
                                step: Step::Host,
                                member: 0,
                            },
                        }
                    } else {
                        self.ask(0, node, session)
                    };
                    first.push(request);
                }
            }
        }
        first
    }

    fn holder(&self, io: &Io, member: u8) -> usize {
        let peer = io.members[usize::from(member)].node;
        self.machine
            .holder(io.node as usize, peer as usize, usize::from(io.sequencer))
    }

    fn key(&self, io: &Io, member: u8, kind: u64) -> u64 {
        // One link of a pair for each core that holds one: the core is the service that sends.
        kind | u64::from(io.node) << 31 | u64::from(io.members[usize::from(member)].node)
    }
}

impl Work for Path<'_> {
    fn handle(&mut self, pass: &mut Pass<'_>, msg: Msg) {
        let io = self.ios[msg.io as usize];
        let member = usize::from(msg.member);
        let costs = pass.costs;
        let to = |step| Msg { step, ..msg };
        let near = usize::from(io.sequencer);
        let is_local = io.members[member].node == io.node;
        // Of a read's members only the first is read; the others are asked for a lease.
        let is_read = !io.write && member == 0;
        match msg.step {
            Step::Host => {
                self.ended(pass.now, msg.io);
                pass.pay(Part::Host, costs.host);
                let next = self.ask(pass.now + pass.elapsed(), io.node, io.session);
                pass.send_alone(next.key, next.to, next.bytes, next.msg);
            }
            Step::Front => {
                pass.pay(Part::Front, costs.front);
                pass.mail(self.service(io.node as usize, near), to(Step::Sequence));
            }
            Step::Sequence => {
                if io.write {
                    pass.fetch(self.front_of(io.session), near, BLOCK_BYTES);
                }
                let checksum = costs.checksum_kib * f64::from(BLOCK_BYTES) / 1024.0;
                let cost = if io.write {
                    costs.sequence_write
                } else {
                    costs.sequence_read
                };
                pass.pay(Part::Sequencer, cost + checksum);
                for member in 0..io.asked {
                    let msg = Msg { member, ..msg };
                    let place = io.members[usize::from(member)];
                    if place.node == io.node {
                        let core = self.machine.core_of_store(usize::from(place.disk));
                        let msg = Msg {
                            step: Step::Store,
                            ..msg
                        };
                        pass.mail(self.service(io.node as usize, core), msg);
                    } else {
                        let holder = self.holder(&io, member);
                        let msg = Msg {
                            step: Step::Link,
                            ..msg
                        };
                        pass.mail(self.service(io.node as usize, holder), msg);
                    }
                }
            }
            Step::Link => {
                pass.pay(Part::Fabric, costs.message);
                if io.write {
                    pass.fetch(near, self.holder(&io, msg.member), BLOCK_BYTES);
                }
                let bytes = HEAD_BYTES + if io.write { BLOCK_BYTES } else { 0 };
                let there = self.service(io.members[member].node as usize, self.holder(&io, msg.member));
                pass.send(self.key(&io, msg.member, ASKING), there, bytes, to(Step::Arrived));
            }
            Step::Arrived => {
                pass.pay(Part::Fabric, costs.message);
                let place = io.members[member];
                let core = self.machine.core_of_store(usize::from(place.disk));
                pass.mail(self.service(place.node as usize, core), to(Step::Store));
            }
            Step::Store => {
                let disk = io.members[member].disk;
                let core = self.machine.core_of_store(usize::from(disk));
                if io.write {
                    // Its checksum is looked at before it goes to the disk.
                    let from = if is_local { near } else { self.holder(&io, msg.member) };
                    pass.fetch(from, core, BLOCK_BYTES);
                    pass.commit(disk, to(Step::Durable));
                } else if is_read {
                    pass.read(disk, to(Step::Durable));
                } else {
                    pass.pay(Part::Store, costs.message);
                    pass.call(to(Step::Durable));
                }
            }
            Step::Durable if is_local => pass.mail(self.service(io.node as usize, near), to(Step::Settle)),
            Step::Durable => {
                let place = io.members[member];
                let holder = self.holder(&io, msg.member);
                pass.mail(self.service(place.node as usize, holder), to(Step::Return));
            }
            Step::Return => {
                pass.pay(Part::Fabric, costs.message);
                let holder = self.holder(&io, msg.member);
                if is_read {
                    let disk = usize::from(io.members[member].disk);
                    pass.fetch(self.machine.core_of_store(disk), holder, BLOCK_BYTES);
                }
                let bytes = HEAD_BYTES + if is_read { BLOCK_BYTES } else { 0 };
                let there = self.service(io.node as usize, holder);
                pass.send(self.key(&io, msg.member, ANSWERING), there, bytes, to(Step::Answered));
            }
            Step::Answered => {
                pass.pay(Part::Fabric, costs.message);
                pass.mail(self.service(io.node as usize, near), to(Step::Settle));
            }
            Step::Settle => {
                if is_read {
                    // The checksum of what was read.
                    let from = if is_local {
                        self.machine.core_of_store(usize::from(io.members[member].disk))
                    } else {
                        self.holder(&io, msg.member)
                    };
                    pass.fetch(from, near, BLOCK_BYTES);
                }
                let own = &mut self.ios[msg.io as usize];
                own.under_way -= 1;
                let before = own.waiting;
                own.waiting = match (io.write, is_read) {
                    (true, _) => before - 1,
                    (false, true) => before & !READ,
                    (false, false) => before & !LEASE,
                };
                if before > 0 && own.waiting == 0 {
                    let front = self.front_of(io.session);
                    pass.mail(self.service(io.node as usize, front), to(Step::Reply));
                }
                self.release(msg.io);
            }
            Step::Reply => {
                if !io.write {
                    pass.fetch(near, self.front_of(io.session), BLOCK_BYTES);
                }
                let bytes = HEAD_BYTES + if io.write { 0 } else { BLOCK_BYTES };
                let key = HOST | u64::from(io.node) << 31 | u64::from(io.session);
                let there = if self.has_host() { self.host() } else { OUTSIDE };
                pass.send(key, there, bytes, to(Step::Host));
            }
        }
    }

    fn outside(&mut self, now: Nanos, answers: &[Msg], next: &mut Vec<Request>) {
        for answer in answers {
            let io = self.ios[answer.io as usize];
            self.ended(now, answer.io);
            if matches!(self.load.asking, Asking::Closed { .. }) {
                let request = self.ask(now, io.node, io.session);
                next.push(request);
            }
        }
    }

    fn arrival(&mut self, now: Nanos, node: u32, next: &mut Vec<Request>) -> Nanos {
        let Asking::Open { sessions, rate } = self.load.asking else {
            return Nanos::MAX;
        };
        let session = self.random.below(sessions as u64) as u32;
        let request = self.ask(now, node, session);
        next.push(request);
        // Exponential pauses: arrivals without memory.
        let draw = (self.random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        now.saturating_add((-(1.0 - draw).ln() * 1e9 / rate).ceil() as Nanos)
    }
}
