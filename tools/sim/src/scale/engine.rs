//! Time, passes and waiting: services that run on processors.
//!
//! A *service* is what runs pass by pass: a core of a node, or a host's program. A pass takes in everything that has
//! come, pays for it, and what it sends leaves at its end, together. While it runs more comes in: so batches grow with
//! load by themselves, as they do in the product. A service that has nothing to do yields for a while if that has paid
//! lately (the rule of `reactor/src/uring/pace.rs`), then sleeps; waking it costs the waker and it.

use super::costs::{Costs, PARTS, Part};
use super::machine::{Backing, Disk, Machine, Nanos, Processors};
use super::path::Msg;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub type ServiceId = u32;

/// Nobody sent it: it came over the network.
const NOBODY: ServiceId = u32::MAX;

/// Yields before a block, at most (`UringConfig::yields`).
const MAX_YIELDS: f64 = 64.0;
/// Turns given to others on the same processor, at most.
const MAX_TURNS: u32 = 2;
/// A block shorter than this makes yielding worth a try.
const SHORT_BLOCK: Nanos = 300_000;
const LEAST_PRICE: u32 = 2;
const GREATEST_PRICE: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Blocked since a time.
    Asleep(Nanos),
    /// Woken, on its way to a processor.
    Waking,
    /// In its processor's queue.
    Ready,
    /// In a pass.
    Running,
    /// Giving way, alone on its processor, since a time; the number tells an old end of it from the present one.
    Yielding(Nanos, u32),
}

/// Something to be sent at the end of a pass.
#[derive(Clone, Copy, Debug)]
struct Out {
    /// The connection and direction; what has the same key goes out together.
    key: u64,
    /// Position in the pass, so that sorting keeps the order.
    position: u32,
    to: ServiceId,
    bytes: u32,
    msg: Msg,
}

#[derive(Debug)]
struct Service {
    state: State,
    processor: u32,
    inbox: Vec<Msg>,
    /// Connections that something came in by.
    connections: Vec<u64>,
    received_bytes: u64,
    /// Of these, what another processor has in its cache.
    crossed_bytes: u64,
    mails: u32,
    outs: Vec<Out>,
    mail: Vec<(ServiceId, Msg)>,
    /// Of this pass: writes and reads for each disk, by place in the list.
    commits: Vec<(u16, Msg)>,
    reads: Vec<(u16, Msg)>,
    /// CPU that is owed: wakes that were found necessary after the pass had been paid.
    debt: f64,
    slept: bool,
    /// A program that blocks at once.
    never_yields: bool,
    // The pace.
    earned: u32,
    price: u32,
    turns: u32,
    yielded: bool,
    yields: u32,
    /// CPU used inside the window that is measured.
    busy: Nanos,
    /// Of it, yielded away: what others could have had.
    yielded_ns: Nanos,
}

#[derive(Debug)]
struct Processor {
    running: Option<ServiceId>,
    ready: VecDeque<ServiceId>,
}

/// A node's card.
#[derive(Clone, Copy, Debug, Default)]
struct Card {
    out_free: Nanos,
    in_free: Nanos,
    out_busy: Nanos,
    in_busy: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Drive {
    free: f64,
    busy: f64,
}

/// Messages on their way together.
#[derive(Debug, Default)]
struct Batch {
    to: ServiceId,
    from: ServiceId,
    key: u64,
    bytes: u64,
    messages: Vec<Msg>,
}

/// Who woke a sleeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waker {
    /// A service of its own processor.
    Same,
    /// A service of another.
    Other,
    /// A card or a disk: an interrupt on its own processor.
    Device,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A pass ends.
    End(ServiceId),
    /// What was found out after the pass is paid; what follows it?
    Next(ServiceId),
    /// A woken service gets to its processor.
    Woken(ServiceId, Waker),
    /// A service has yielded long enough.
    Yielded(ServiceId, u32),
    /// A batch reaches its node's card.
    Card(u32),
    /// A batch is there.
    There(u32),
    /// Hosts outside get answers, or send something new.
    Outside(u32),
    /// An I/O of an open load begins at a node.
    Arrival(u32),
}

/// What the services do with messages: [`super::path`].
pub trait Work {
    /// Handles one message on `service`, in a pass.
    fn handle(&mut self, pass: &mut Pass<'_>, msg: Msg);
    /// Answers reach hosts outside; pushes what they ask next.
    fn outside(&mut self, now: Nanos, answers: &[Msg], next: &mut Vec<Request>);
    /// An open load: what begins at `node` now, and when the next does.
    fn arrival(&mut self, now: Nanos, node: u32, next: &mut Vec<Request>) -> Nanos;
}

/// What a host outside sends.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The service that has its session.
    pub to: ServiceId,
    /// Its connection.
    pub key: u64,
    /// With its head.
    pub bytes: u32,
    pub msg: Msg,
}

/// A pass under way, as [`Work`] sees it.
#[derive(Debug)]
pub struct Pass<'a> {
    pub service: ServiceId,
    /// When the pass began.
    pub now: Nanos,
    /// What things cost.
    pub costs: &'a Costs,
    spent: &'a mut [f64; PARTS.len()],
    own: &'a mut Service,
    cost: f64,
    /// Messages for this service itself.
    again: &'a mut Vec<Msg>,
    single: &'a mut Vec<(f64, Out)>,
}

impl Pass<'_> {
    pub fn pay(&mut self, part: Part, ns: f64) {
        self.spent[part as usize] += ns;
        self.cost += ns;
    }

    /// How far into the pass this is, in nanoseconds.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.cost as Nanos
    }

    /// To another step on this very service, in this pass.
    pub fn call(&mut self, msg: Msg) {
        self.again.push(msg);
    }

    /// To another core of the node.
    pub fn mail(&mut self, to: ServiceId, msg: Msg) {
        if to == self.service {
            return self.call(msg);
        }
        self.pay(Part::Mail, self.costs.mail / 2.0);
        self.own.mail.push((to, msg));
    }

    /// The payload was last touched by another core of the node.
    pub fn fetch(&mut self, from: usize, here: usize, bytes: u32) {
        if from != here {
            self.pay(Part::Mail, self.costs.cross_kib * f64::from(bytes) / 1024.0);
        }
    }

    /// Over a connection, with all others of the pass that go by it.
    pub fn send(&mut self, key: u64, to: ServiceId, bytes: u32, msg: Msg) {
        let position = self.own.outs.len() as u32;
        self.own.outs.push(Out {
            key,
            position,
            to,
            bytes,
            msg,
        });
    }

    /// Over a connection, by itself and at once.
    pub fn send_alone(&mut self, key: u64, to: ServiceId, bytes: u32, msg: Msg) {
        self.pay(
            Part::Host,
            self.costs.send + self.costs.send_kib * f64::from(bytes) / 1024.0,
        );
        let position = 0;
        let out = Out {
            key,
            position,
            to,
            bytes,
            msg,
        };
        self.single.push((self.cost, out));
    }

    /// To a disk of this core: committed with the others of the pass.
    pub fn commit(&mut self, disk: u16, msg: Msg) {
        self.own.commits.push((disk, msg));
    }

    /// From a disk of this core.
    pub fn read(&mut self, disk: u16, msg: Msg) {
        self.own.reads.push((disk, msg));
    }
}

/// The clock, the processors, the network and the disks.
#[derive(Debug)]
pub struct Engine {
    machine: Machine,
    costs: Costs,
    now: Nanos,
    serial: u64,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    services: Vec<Service>,
    processors: Vec<Processor>,
    cards: Vec<Card>,
    drives: Vec<Drive>,
    batches: Vec<Batch>,
    free: Vec<u32>,
    requests: Vec<Request>,
    again: Vec<Msg>,
    single: Vec<(f64, Out)>,
    /// What is measured: from, to.
    window: (Nanos, Nanos),
    /// CPU by part, of passes that began in the window.
    spent: [f64; PARTS.len()],
    /// Counts of the window.
    pub counts: Counts,
}

/// Counts of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub passes: u64,
    pub sends: u64,
    pub messages: u64,
    /// Letters between cores.
    pub mails: u64,
    /// Commits of stores.
    pub commits: u64,
    pub writes: u64,
    /// Sleepers woken.
    pub wakes: u64,
}

/// How much of the window the parts of the cluster were in use, each 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Use {
    /// Each service, with its yields.
    pub services: Vec<f64>,
    /// Each service, without its yields.
    pub work: Vec<f64>,
    /// The cards' sending sides.
    pub cards_out: Vec<f64>,
    /// Their receiving sides.
    pub cards_in: Vec<f64>,
    /// The disks.
    pub drives: Vec<f64>,
}

impl Engine {
    /// Of a machine; `hosts` services follow those of the nodes.
    #[must_use]
    pub fn new(machine: &Machine, costs: &Costs, hosts: usize) -> Engine {
        let cores = machine.slice * machine.cores;
        let processor = |service: usize| match machine.processors {
            Processors::Own => service,
            Processors::Two => usize::from(service >= cores),
            Processors::One => 0,
        };
        let services = (0..cores + hosts).map(|service| Service {
            state: State::Asleep(0),
            processor: processor(service) as u32,
            inbox: Vec::new(),
            connections: Vec::new(),
            received_bytes: 0,
            crossed_bytes: 0,
            mails: 0,
            outs: Vec::new(),
            mail: Vec::new(),
            commits: Vec::new(),
            reads: Vec::new(),
            debt: 0.0,
            slept: true,
            never_yields: service >= cores,
            earned: 0,
            price: LEAST_PRICE,
            turns: 0,
            yielded: false,
            yields: 0,
            busy: 0,
            yielded_ns: 0,
        });
        let services: Vec<Service> = services.collect();
        let processors = services.iter().map(|service| service.processor + 1).max().unwrap_or(1);
        Engine {
            now: 0,
            serial: 0,
            events: BinaryHeap::new(),
            processors: (0..processors)
                .map(|_| Processor {
                    running: None,
                    ready: VecDeque::new(),
                })
                .collect(),
            cards: vec![Card::default(); machine.slice],
            drives: vec![Drive::default(); machine.slice * machine.stores],
            batches: Vec::new(),
            free: Vec::new(),
            requests: Vec::new(),
            again: Vec::new(),
            single: Vec::new(),
            window: (0, Nanos::MAX),
            spent: [0.0; PARTS.len()],
            counts: Counts::default(),
            services,
            machine: machine.clone(),
            costs: costs.clone(),
        }
    }

    /// What is measured begins and ends then.
    pub fn measure(&mut self, from: Nanos, to: Nanos) {
        self.window = (from, to);
    }

    /// CPU by part, in nanoseconds, of the passes that began in the window.
    #[must_use]
    pub fn spent(&self) -> &[f64; PARTS.len()] {
        &self.spent
    }

    /// CPU of a service inside the window.
    #[must_use]
    pub fn busy(&self, service: usize) -> Nanos {
        self.services[service].busy
    }

    /// How much everything was used.
    #[must_use]
    pub fn usage(&self) -> Use {
        let length = (self.window.1 - self.window.0) as f64;
        Use {
            services: self
                .services
                .iter()
                .map(|service| service.busy as f64 / length)
                .collect(),
            work: self
                .services
                .iter()
                .map(|service| (service.busy - service.yielded_ns) as f64 / length)
                .collect(),
            cards_out: self.cards.iter().map(|card| card.out_busy as f64 / length).collect(),
            cards_in: self.cards.iter().map(|card| card.in_busy as f64 / length).collect(),
            drives: self.drives.iter().map(|drive| drive.busy / length).collect(),
        }
    }

    /// Gives a service something before time begins.
    pub fn seed(&mut self, service: ServiceId, msg: Msg) {
        self.services[service as usize].inbox.push(msg);
        self.wake(0, service, NOBODY);
    }

    /// A host outside begins at a time; `None`: an open load of a node does.
    pub fn begin(&mut self, at: Nanos, request: Option<Request>, node: u32) {
        match request {
            Some(request) => {
                let batch = self.batch(request.to, NOBODY, request.key);
                self.batches[batch as usize].bytes = u64::from(request.bytes);
                self.batches[batch as usize].messages.push(request.msg);
                self.at(at, Event::Card(batch));
            }
            None => self.at(at, Event::Arrival(node)),
        }
    }

    /// Runs until `end`.
    pub fn run(&mut self, work: &mut impl Work, end: Nanos) {
        while let Some(&Reverse((time, _, event))) = self.events.peek() {
            if time > end {
                break;
            }
            self.events.pop();
            self.now = time;
            self.event(work, event);
        }
        self.now = end;
    }

    fn at(&mut self, time: Nanos, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((time, self.serial, event)));
    }

    fn event(&mut self, work: &mut impl Work, event: Event) {
        match event {
            Event::End(service) => self.end(work, service),
            Event::Next(service) => self.next(work, service),
            Event::Woken(service, by) => {
                if by == Waker::Other {
                    let cost = self.costs.woken_other.min(self.costs.wake_delay) as Nanos;
                    self.busy_waiting(service, self.now.saturating_sub(cost));
                }
                self.ready(work, service);
            }
            Event::Yielded(service, number) => {
                if let State::Yielding(since, current) = self.services[service as usize].state
                    && current == number
                {
                    self.busy_waiting(service, since);
                    self.block(work, service);
                }
            }
            Event::Card(batch) => self.card(batch),
            Event::There(batch) => self.there(batch),
            Event::Outside(batch) => {
                let mut next = std::mem::take(&mut self.requests);
                let messages = std::mem::take(&mut self.batches[batch as usize].messages);
                work.outside(self.now, &messages, &mut next);
                self.batches[batch as usize].messages = messages;
                self.release(batch);
                self.outside_sends(&mut next);
                self.requests = next;
            }
            Event::Arrival(node) => {
                let mut next = std::mem::take(&mut self.requests);
                let at = work.arrival(self.now, node, &mut next);
                self.outside_sends(&mut next);
                self.requests = next;
                self.at(at, Event::Arrival(node));
            }
        }
    }

    // ---- passes ----

    fn start(&mut self, work: &mut impl Work, id: ServiceId) {
        let now = self.now;
        let measured = now >= self.window.0 && now < self.window.1;
        let mut unmeasured = [0.0; PARTS.len()];
        let Engine {
            services,
            costs,
            spent,
            again,
            single,
            counts,
            machine,
            ..
        } = self;
        let own = &mut services[id as usize];
        own.state = State::Running;
        let inbox = std::mem::take(&mut own.inbox);
        own.connections.sort_unstable();
        own.connections.dedup();
        let receives = own.connections.len() as f64;
        own.connections.clear();
        let bytes = std::mem::take(&mut own.received_bytes);
        let crossed = std::mem::take(&mut own.crossed_bytes);
        let mails = std::mem::take(&mut own.mails);
        let debt = std::mem::take(&mut own.debt);
        let block = if std::mem::take(&mut own.slept) {
            costs.block
        } else {
            0.0
        };
        let host = machine.processors != Processors::Own && id as usize >= machine.slice * machine.cores;
        let mut pass = Pass {
            service: id,
            now,
            costs,
            spent: if measured { spent } else { &mut unmeasured },
            own,
            cost: 0.0,
            again,
            single,
        };
        pass.pay(Part::Wait, debt + block);
        pass.pay(if host { Part::Host } else { Part::Pass }, costs.pass);
        let received = receives * costs.receive
            + bytes as f64 / 1024.0 * costs.receive_kib
            + crossed as f64 / 1024.0 * costs.cross_kib;
        pass.pay(if host { Part::Host } else { Part::Socket }, received);
        pass.pay(
            Part::Mail,
            f64::from(mails) * costs.mail / 2.0 + (machine.cores - 1) as f64 * costs.ring,
        );
        for &msg in &inbox {
            work.handle(&mut pass, msg);
            while let Some(msg) = pass.again.pop() {
                work.handle(&mut pass, msg);
            }
        }
        pass.pay_for_disks(&machine.backing);
        pass.pay_for_sends();
        let cost = pass.cost.ceil() as Nanos;
        let own = &mut services[id as usize];
        own.inbox = inbox;
        own.inbox.clear();
        if measured {
            counts.passes += 1;
            counts.mails += own.mail.len() as u64;
            counts.messages += own.outs.len() as u64;
            counts.writes += own.commits.len() as u64;
        }
        let mut single = std::mem::take(&mut self.single);
        for (offset, out) in single.drain(..) {
            let batch = self.batch(out.to, id, out.key);
            self.batches[batch as usize].bytes = u64::from(out.bytes);
            self.batches[batch as usize].messages.push(out.msg);
            self.at(now + offset as Nanos, Event::There(batch));
        }
        self.single = single;
        self.charge(id, now, now + cost);
        self.at(now + cost, Event::End(id));
    }

    /// A pass has ended: what it made leaves.
    fn end(&mut self, work: &mut impl Work, id: ServiceId) {
        self.send_disks(id);
        self.send_outs(id);
        let mut mail = std::mem::take(&mut self.services[id as usize].mail);
        for (to, msg) in mail.drain(..) {
            self.services[to as usize].inbox.push(msg);
            self.services[to as usize].mails += 1;
            self.wake(self.now, to, id);
        }
        self.services[id as usize].mail = mail;
        // Wakes are paid at once: whatever follows begins later by them.
        let debt = std::mem::take(&mut self.services[id as usize].debt).ceil() as Nanos;
        if debt > 0 {
            if self.now >= self.window.0 && self.now < self.window.1 {
                self.spent[Part::Wait as usize] += debt as f64;
            }
            self.charge(id, self.now, self.now + debt);
            self.at(self.now + debt, Event::Next(id));
        } else {
            self.next(work, id);
        }
    }

    fn next(&mut self, work: &mut impl Work, id: ServiceId) {
        if self.services[id as usize].inbox.is_empty() {
            self.idle(work, id);
        } else {
            self.start(work, id);
        }
    }

    /// Nothing to do: yields, or sleeps.
    fn idle(&mut self, work: &mut impl Work, id: ServiceId) {
        let others = !self.processors[self.services[id as usize].processor as usize]
            .ready
            .is_empty();
        let own = &mut self.services[id as usize];
        if own.never_yields || own.earned < own.price || own.turns >= MAX_TURNS {
            return self.block(work, id);
        }
        own.yielded = true;
        if others {
            own.turns += 1;
            own.debt += self.costs.yielding;
            own.state = State::Ready;
            let processor = own.processor as usize;
            self.processors[processor].ready.push_back(id);
            self.release_processor(work, processor);
        } else {
            own.yields += 1;
            own.state = State::Yielding(self.now, own.yields);
            let event = Event::Yielded(id, own.yields);
            let length = (MAX_YIELDS * self.costs.yielding) as Nanos;
            self.at(self.now + length, event);
        }
    }

    fn block(&mut self, work: &mut impl Work, id: ServiceId) {
        let own = &mut self.services[id as usize];
        own.state = State::Asleep(self.now);
        own.turns = 0;
        let processor = own.processor as usize;
        self.release_processor(work, processor);
    }

    fn release_processor(&mut self, work: &mut impl Work, processor: usize) {
        self.processors[processor].running = None;
        if let Some(next) = self.processors[processor].ready.pop_front() {
            self.processors[processor].running = Some(next);
            self.take_turn(work, next);
        }
    }

    /// A service has its processor.
    fn take_turn(&mut self, work: &mut impl Work, id: ServiceId) {
        let own = &mut self.services[id as usize];
        if own.inbox.is_empty() {
            // Its turn came round while it gave way, and nothing is there.
            return self.idle(work, id);
        }
        if own.yielded && !own.slept {
            own.price = LEAST_PRICE;
        }
        (own.yielded, own.turns) = (false, 0);
        self.start(work, id);
    }

    /// A service wants its processor.
    fn ready(&mut self, work: &mut impl Work, id: ServiceId) {
        let processor = self.services[id as usize].processor as usize;
        match self.processors[processor].running {
            None => {
                self.processors[processor].running = Some(id);
                self.take_turn(work, id);
            }
            Some(other) => {
                self.services[id as usize].state = State::Ready;
                self.processors[processor].ready.push_back(id);
                if let State::Yielding(since, _) = self.services[other as usize].state {
                    // Whoever gives way does so now.
                    self.busy_waiting(other, since);
                    let own = &mut self.services[other as usize];
                    own.turns += 1;
                    own.state = State::Ready;
                    self.processors[processor].ready.push_back(other);
                    self.release_processor(work, processor);
                }
            }
        }
    }

    fn busy_waiting(&mut self, id: ServiceId, since: Nanos) {
        let (from, to) = (since.max(self.window.0), self.now.min(self.window.1));
        if to > from {
            self.spent[Part::Wait as usize] += (to - from) as f64;
            if matches!(self.services[id as usize].state, State::Yielding(..)) {
                self.services[id as usize].yielded_ns += to - from;
            }
        }
        self.charge(id, since, self.now);
    }

    fn charge(&mut self, id: ServiceId, from: Nanos, to: Nanos) {
        let (from, to) = (from.max(self.window.0), to.min(self.window.1));
        self.services[id as usize].busy += to.saturating_sub(from);
    }

    /// Something came for a service; `by` put it there.
    fn wake(&mut self, now: Nanos, id: ServiceId, by: ServiceId) {
        let own = &mut self.services[id as usize];
        match own.state {
            State::Asleep(since) => {
                own.state = State::Waking;
                own.slept = true;
                // The rule of `Pace::blocked`.
                if std::mem::take(&mut own.yielded) {
                    own.earned = 0;
                    own.price = (own.price * 2).min(GREATEST_PRICE);
                }
                own.earned = if now.saturating_sub(since) < SHORT_BLOCK {
                    own.earned.saturating_add(1)
                } else {
                    0
                };
                let processor = own.processor;
                if now >= self.window.0 && now < self.window.1 {
                    self.counts.wakes += 1;
                }
                let waker = match self.services.get(by as usize) {
                    None => Waker::Device,
                    Some(waker) if waker.processor == processor => Waker::Same,
                    Some(_) => Waker::Other,
                };
                let (payer, cost, delay) = match waker {
                    Waker::Same => (by, self.costs.wake_same, 0.0),
                    Waker::Other => (by, self.costs.wake_other, self.costs.wake_delay),
                    Waker::Device => (id, self.costs.wake_same, 0.0),
                };
                self.services[payer as usize].debt += cost;
                self.at(now + delay as Nanos, Event::Woken(id, waker));
            }
            State::Yielding(since, _) => {
                self.busy_waiting(id, since);
                let own = &mut self.services[id as usize];
                own.price = LEAST_PRICE;
                (own.yielded, own.turns) = (false, 0);
                own.state = State::Waking;
                self.at(now, Event::Next(id));
            }
            State::Waking | State::Ready | State::Running => {}
        }
    }

    // ---- what leaves ----

    fn batch(&mut self, to: ServiceId, from: ServiceId, key: u64) -> u32 {
        let batch = self.free.pop().unwrap_or_else(|| {
            self.batches.push(Batch::default());
            self.batches.len() as u32 - 1
        });
        let own = &mut self.batches[batch as usize];
        (own.to, own.from, own.key, own.bytes) = (to, from, key, 0);
        batch
    }

    fn release(&mut self, batch: u32) {
        self.batches[batch as usize].messages.clear();
        self.free.push(batch);
    }

    fn send_outs(&mut self, id: ServiceId) {
        let mut outs = std::mem::take(&mut self.services[id as usize].outs);
        let measured = self.now >= self.window.0 && self.now < self.window.1;
        for group in outs.chunk_by(|a, b| a.key == b.key) {
            let batch = self.batch(group[0].to, id, group[0].key);
            let own = &mut self.batches[batch as usize];
            own.messages.extend(group.iter().map(|out| out.msg));
            own.bytes = group.iter().map(|out| u64::from(out.bytes)).sum();
            if measured {
                self.counts.sends += 1;
            }
            match self.machine.network {
                None => self.there(batch),
                Some(network) => {
                    let node = id as usize / self.machine.cores;
                    let length = (self.batches[batch as usize].bytes as f64 * 8.0 / network.bits_per_ns) as Nanos;
                    let card = &mut self.cards[node];
                    let from = card.out_free.max(self.now);
                    card.out_free = from + length;
                    card.out_busy += inside(self.window, from, from + length);
                    let there = card.out_free + network.delay_ns;
                    let outside = self.batches[batch as usize].to == NOBODY;
                    self.at(
                        there,
                        if outside {
                            Event::Outside(batch)
                        } else {
                            Event::Card(batch)
                        },
                    );
                }
            }
        }
        outs.clear();
        self.services[id as usize].outs = outs;
    }

    fn outside_sends(&mut self, next: &mut Vec<Request>) {
        let delay = self.machine.network.map_or(0, |network| network.delay_ns);
        for request in next.drain(..) {
            let batch = self.batch(request.to, NOBODY, request.key);
            let own = &mut self.batches[batch as usize];
            own.bytes = u64::from(request.bytes);
            own.messages.push(request.msg);
            self.at(self.now + delay, Event::Card(batch));
        }
    }

    fn card(&mut self, batch: u32) {
        let Some(network) = self.machine.network else {
            return self.there(batch);
        };
        let own = &self.batches[batch as usize];
        let length = (own.bytes as f64 * 8.0 / network.bits_per_ns) as Nanos;
        let card = &mut self.cards[own.to as usize / self.machine.cores];
        let from = card.in_free.max(self.now);
        card.in_free = from + length;
        card.in_busy += inside(self.window, from, from + length);
        self.at(from + length, Event::There(batch));
    }

    fn there(&mut self, batch: u32) {
        let (to, from) = (self.batches[batch as usize].to, self.batches[batch as usize].from);
        let own = &mut self.batches[batch as usize];
        let sender = self.services.get(from as usize).map(|sender| sender.processor);
        let service = &mut self.services[to as usize];
        if self.machine.network.is_none() && sender.is_some_and(|sender| sender != service.processor) {
            service.crossed_bytes += own.bytes;
        }
        service.inbox.append(&mut own.messages);
        if own.key != 0 {
            service.connections.push(own.key);
            service.received_bytes += own.bytes;
        }
        // Over a network nobody pays for the wake but who is woken.
        let by = if self.machine.network.is_some() { NOBODY } else { from };
        self.release(batch);
        self.wake(self.now, to, by);
    }

    fn send_disks(&mut self, id: ServiceId) {
        let node = id as usize / self.machine.cores;
        let own = &mut self.services[id as usize];
        if own.commits.is_empty() && own.reads.is_empty() {
            return;
        }
        let mut commits = std::mem::take(&mut own.commits);
        let mut reads = std::mem::take(&mut own.reads);
        let now = self.now;
        let measured = now >= self.window.0 && now < self.window.1;
        for group in commits.chunk_by(|a, b| a.0 == b.0) {
            let batch = self.batch(id, id, 0);
            self.batches[batch as usize]
                .messages
                .extend(group.iter().map(|(_, msg)| *msg));
            if measured {
                self.counts.commits += 1;
            }
            let done = match self.machine.backing {
                Backing::Memory => now,
                Backing::Disk(disk) => {
                    let drive = &mut self.drives[node * self.machine.stores + usize::from(group[0].0)];
                    drive.write(now, group.len(), disk, self.window)
                }
            };
            self.at(done, Event::There(batch));
        }
        for group in reads.chunk_by(|a, b| a.0 == b.0) {
            match self.machine.backing {
                Backing::Memory => {
                    let batch = self.batch(id, id, 0);
                    self.batches[batch as usize]
                        .messages
                        .extend(group.iter().map(|(_, msg)| *msg));
                    self.at(now, Event::There(batch));
                }
                Backing::Disk(disk) => {
                    for &(_, msg) in group {
                        let batch = self.batch(id, id, 0);
                        self.batches[batch as usize].messages.push(msg);
                        let drive = &mut self.drives[node * self.machine.stores + usize::from(group[0].0)];
                        let done = drive.read(now, disk, self.window);
                        self.at(done, Event::There(batch));
                    }
                }
            }
        }
        commits.clear();
        reads.clear();
        let own = &mut self.services[id as usize];
        (own.commits, own.reads) = (commits, reads);
    }
}

fn inside(window: (Nanos, Nanos), from: Nanos, to: Nanos) -> Nanos {
    to.min(window.1).saturating_sub(from.max(window.0))
}

impl Drive {
    /// A commit of so many blocks and the log page beside them; when it is durable.
    fn write(&mut self, now: Nanos, blocks: usize, disk: Disk, window: (Nanos, Nanos)) -> Nanos {
        let length = (blocks + 1) as f64 * 1e9 / disk.pages;
        let from = self.free.max(now as f64);
        self.free = from + length;
        self.busy += inside(window, from as Nanos, self.free as Nanos) as f64;
        self.free as Nanos + disk.write_ns
    }

    /// A read of a block; when it is there.
    fn read(&mut self, now: Nanos, disk: Disk, window: (Nanos, Nanos)) -> Nanos {
        let length = 1e9 / disk.reads;
        let from = self.free.max(now as f64);
        self.free = from + length;
        self.busy += inside(window, from as Nanos, self.free as Nanos) as f64;
        self.free as Nanos + disk.read_ns
    }
}

impl Pass<'_> {
    fn pay_for_disks(&mut self, backing: &Backing) {
        self.own.commits.sort_by_key(|(disk, _)| *disk);
        self.own.reads.sort_by_key(|(disk, _)| *disk);
        let batches = self.own.commits.chunk_by(|a, b| a.0 == b.0).count() as f64;
        let (writes, reads) = (self.own.commits.len() as f64, self.own.reads.len() as f64);
        let costs = self.costs;
        let cost = match backing {
            Backing::Memory => batches * costs.store_batch + writes * costs.store_write + reads * costs.store_read,
            Backing::Disk(_) => batches * costs.device_batch + writes * costs.device_write + reads * costs.device_read,
        };
        self.pay(Part::Store, cost);
    }

    fn pay_for_sends(&mut self) {
        self.own.outs.sort_unstable_by_key(|out| (out.key, out.position));
        let sends = self.own.outs.chunk_by(|a, b| a.key == b.key).count() as f64;
        let bytes: u64 = self.own.outs.iter().map(|out| u64::from(out.bytes)).sum();
        let cost = sends * self.costs.send + bytes as f64 / 1024.0 * self.costs.send_kib;
        self.pay(Part::Socket, cost);
    }
}
