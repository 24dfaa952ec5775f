//! What disks and networks stand on: the clock, the queue of what is to happen, and the processes to tell.

use super::clock::Clock;
use super::coverage::{Coverage, Fault};
use super::random::Random;
use crate::driver::{Completion, Outcome, Time, Token};
use crate::timer::{TimerId, Timers};
use crate::waker::{Kick, Waker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// One life of a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub node: u32,
    pub life: u32,
}

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A process has something to do.
    Run { node: u32, life: u32 },
    /// A timer of a process may be due.
    Timers { node: u32, life: u32 },
    /// A disk operation ends.
    Disk { disk: u32, operation: u32 },
    /// Bytes sent by this end of a connection arrive at the other.
    Arrive { connection: u32, from: u8 },
    /// The sender at this end of a connection gives up, unless that stall is over.
    GiveUp { connection: u32, from: u8, stall: u32 },
    /// The kernel at this end of a connection asks whether the other one is there.
    Ask { connection: u32, end: u8 },
    /// A connect reaches its host.
    Connect { attempt: u32 },
    /// A connect's answer is back.
    Connected { attempt: u32 },
    /// A connect has taken too long.
    ConnectTimeout { attempt: u32 },
}

/// A host and its present process.
pub(super) struct Node {
    pub life: u32,
    pub alive: bool,
    /// Is the host (not the process) there to refuse and to reset?
    pub powered: bool,
    frozen_until: Time,
    busy_until: Time,
    /// What the host's clock showed when the process began: its own time counts from there.
    started: Time,
    /// The host's: it stays when the process ends.
    clock: Clock,
    run_at: Option<Time>,
    ready: Vec<Completion>,
    timers: Timers,
    pub waker: Waker,
}

impl Node {
    fn off() -> Node {
        Node {
            life: 0,
            alive: false,
            powered: true,
            frozen_until: Time(0),
            busy_until: Time(0),
            started: Time(0),
            clock: Clock::default(),
            run_at: None,
            ready: Vec::new(),
            timers: Timers::new(),
            waker: Waker::idle(),
        }
    }
}

/// In the simulation the world looks for notes by itself.
struct NoKick;

impl Kick for NoKick {
    fn kick(&self) {}
}

/// Nodes have addresses in 10.0.0.0/16.
pub(super) const MAX_NODES: u32 = 1 << 16;

pub(super) struct Engine {
    pub now: Time,
    pub random: Random,
    pub coverage: Coverage,
    trace: u64,
    queue: BinaryHeap<Reverse<(Time, u64, Event)>>,
    scheduled: u32,
    pub nodes: Vec<Node>,
    pass: (Duration, Duration),
}

impl Engine {
    pub fn new(seed: u64, pass: (Duration, Duration)) -> Engine {
        Engine {
            now: Time(0),
            random: Random::new(seed),
            coverage: Coverage::new(),
            trace: seed,
            queue: BinaryHeap::new(),
            scheduled: 0,
            nodes: Vec::new(),
            pass,
        }
    }

    /// Folds something that happened into the hash of the run.
    pub fn note(&mut self, what: u64) {
        self.trace = (self.trace.rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// Puts an event at a time; what falls together is ordered by the seed.
    pub fn at(&mut self, at: Time, event: Event) {
        self.scheduled = self.scheduled.wrapping_add(1);
        let tie = self.random.bits() & 0xffff_ffff_0000_0000 | u64::from(self.scheduled);
        self.queue.push(Reverse((at.max(self.now), tie, event)));
    }

    /// Moves to the next event that is not after `limit`; without one, moves to `limit`.
    pub fn pop(&mut self, limit: Time) -> Option<Event> {
        match self.queue.peek() {
            Some(Reverse((at, _, _))) if *at <= limit => {
                let Reverse((at, tie, event)) = self.queue.pop()?;
                self.now = at;
                self.note(at.0);
                self.note(tie);
                Some(event)
            }
            next => {
                // With nothing left to happen time would stand still, unless somebody asks for a certain moment.
                if limit != Time(u64::MAX) || next.is_some() {
                    self.now = self.now.max(limit);
                }
                None
            }
        }
    }

    pub fn node(&mut self, node: u32) -> &mut Node {
        assert!(node < MAX_NODES, "node {node}: nodes are numbered below {MAX_NODES}");
        while self.nodes.len() <= node as usize {
            self.nodes.push(Node::off());
        }
        &mut self.nodes[node as usize]
    }

    pub fn is_alive(&self, process: Process) -> bool {
        self.nodes
            .get(process.node as usize)
            .is_some_and(|node| node.alive && node.life == process.life)
    }

    pub fn start(&mut self, number: u32) -> Process {
        let now = self.now;
        let node = self.node(number);
        assert!(!node.alive, "node {number} runs already: kill it first");
        let (life, clock) = (node.life + 1, node.clock);
        *node = Node {
            life,
            alive: true,
            started: clock.at(now),
            clock,
            waker: Waker::new(Box::new(NoKick)),
            ..Node::off()
        };
        let process = Process { node: number, life };
        self.wake(process);
        process
    }

    /// Ends a process; its completions are dropped unseen.
    pub fn stop(&mut self, number: u32, powered: bool) -> Option<Process> {
        let node = self.node(number);
        let was_alive = node.alive;
        let (life, clock) = (node.life, node.clock);
        *node = Node {
            life,
            powered,
            clock,
            ..Node::off()
        };
        was_alive.then_some(Process { node: number, life })
    }

    /// Tells a process how an operation ended, if it still lives.
    pub fn complete(&mut self, process: Process, token: Token, outcome: Outcome) {
        if self.is_alive(process) {
            self.nodes[process.node as usize]
                .ready
                .push(Completion { token, outcome });
            self.wake(process);
        }
    }

    /// The process has something to do: as soon as it is neither busy nor frozen.
    fn wake(&mut self, process: Process) {
        let now = self.now;
        let node = &mut self.nodes[process.node as usize];
        let at = now.max(node.busy_until).max(node.frozen_until);
        if node.run_at.is_none_or(|scheduled| scheduled > at) {
            node.run_at = Some(at);
            self.at(
                at,
                Event::Run {
                    node: process.node,
                    life: process.life,
                },
            );
        }
    }

    /// A run event: true when the process is to run now.
    pub fn run(&mut self, process: Process) -> bool {
        if !self.is_alive(process) {
            return false;
        }
        let now = self.now;
        let node = &mut self.nodes[process.node as usize];
        if node.run_at != Some(now) {
            return false; // superseded by an earlier or a later one
        }
        node.run_at = None;
        let free = node.busy_until.max(node.frozen_until);
        if free > now {
            self.wake(process);
            return false;
        }
        true
    }

    pub fn timers(&mut self, process: Process) {
        if self.is_alive(process) {
            let now = self.local_time(process);
            if self.nodes[process.node as usize]
                .timers
                .deadline()
                .is_some_and(|at| at <= now)
            {
                self.wake(process);
            }
        }
    }

    /// Notes that other threads (or other simulated cores) left for a node.
    pub fn look_for_notes(&mut self) {
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            if node.alive && node.waker.has_note() && node.run_at.is_none() {
                let process = Process {
                    node: number as u32,
                    life: node.life,
                };
                self.wake(process);
            }
        }
    }

    pub fn freeze(&mut self, number: u32, until: Time) {
        let node = self.node(number);
        node.frozen_until = node.frozen_until.max(until);
        if node.alive {
            self.coverage.count(Fault::NodeFrozen);
        }
    }

    /// The host's clock runs at another rate from now on, in millionths of the world's time.
    pub fn set_clock(&mut self, number: u32, rate: u64) {
        let now = self.now;
        self.node(number).clock.set_rate(now, rate);
        self.time_again(number);
    }

    /// The process stops for a time, and its host's clock with it.
    pub fn suspend(&mut self, number: u32, length: Duration) {
        let now = self.now;
        self.freeze(number, now.plus(length));
        self.coverage.count(Fault::ClockStopped);
        self.node(number).clock.stand_still(now, length);
        self.time_again(number);
    }

    /// Armed timers are due at other moments of the world than before.
    fn time_again(&mut self, number: u32) {
        let node = &self.nodes[number as usize];
        let (life, clock, started) = (node.life, node.clock, node.started);
        let due: Vec<Time> = node
            .timers
            .armed()
            .map(|at| clock.when(Time(started.0 + at.0)))
            .collect();
        for at in due {
            self.at(at, Event::Timers { node: number, life });
        }
    }

    /// The clock of a process starts with it.
    pub fn local_time(&self, process: Process) -> Time {
        let node = &self.nodes[process.node as usize];
        Time(node.clock.at(self.now).since(node.started).as_nanos() as u64)
    }

    /// What a poll does: hands out completions and due timers. The pass that follows takes its time.
    pub fn poll(&mut self, process: Process, completions: &mut Vec<Completion>) -> Time {
        if !self.is_alive(process) {
            return Time(0);
        }
        let local = self.local_time(process);
        let takes = self.random.duration(self.pass);
        let busy_until = self.now.plus(takes);
        let node = &mut self.nodes[process.node as usize];
        node.busy_until = busy_until;
        completions.append(&mut node.ready);
        while let Some(token) = node.timers.expire(local) {
            completions.push(Completion {
                token,
                outcome: Outcome::Timer,
            });
        }
        if node.waker.take_note() {
            completions.push(Completion {
                token: Token::default(),
                outcome: Outcome::Woken,
            });
        }
        local
    }

    pub fn again(&mut self, process: Process) {
        if self.is_alive(process) {
            self.wake(process);
        }
    }

    pub fn arm(&mut self, process: Process, at: Time, token: Token) -> TimerId {
        let node = &mut self.nodes[process.node as usize];
        let id = node.timers.arm(at, token);
        let at = node.clock.when(node.started.plus(Duration::from_nanos(at.0)));
        self.at(
            at,
            Event::Timers {
                node: process.node,
                life: process.life,
            },
        );
        id
    }

    pub fn disarm(&mut self, process: Process, timer: TimerId) {
        self.nodes[process.node as usize].timers.cancel(timer);
    }
}
