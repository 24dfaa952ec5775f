//! The simulated driver: many nodes in one thread, virtual time, and faults, all from one seed.
//!
//! A [`World`] holds the hosts' disks and network ([`disk`] and [`net`] say in prose what may go wrong there) and the
//! queue of what is to happen. [`World::driver`] starts a node's process and gives its [`SimDriver`]; the caller runs
//! the node's service whenever [`World::next`] names it:
//!
//! ```
//! # use amita_reactor::{sim::{SimConfig, World}, core::Service, *};
//! # struct Nothing;
//! # impl Service for Nothing {
//! #     fn pass(&mut self, _: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
//! #         completions.clear();
//! #         Wait::UntilEvent
//! #     }
//! # }
//! # let mut service = Nothing;
//! let mut world = World::new(42, SimConfig::default());
//! let mut driver = world.driver(1);
//! let mut completions = Vec::new();
//! while let Some(node) = world.next() {
//!     assert_eq!(node, 1);
//!     driver.run(&mut service, &mut completions);
//! }
//! ```
//!
//! Nothing in here reads a clock or an address: the same seed and the same calls give the same run, and
//! [`World::trace`] is a hash of everything that happened, to prove it.

mod clock;
mod coverage;
pub mod disk;
mod driver;
mod engine;
pub mod net;
mod random;

pub use coverage::Fault;
pub use disk::{Backing, DiskConfig, DiskFaults};
pub use driver::SimDriver;
pub use net::{ConnectionInfo, NetConfig, node_ip};
pub use random::Random;

use crate::driver::Time;
use disk::Disks;
use engine::{Engine, Event, Process};
use net::Net;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// How a world behaves when nothing is wrong with it.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The network.
    pub net: NetConfig,
    /// Shortest and longest time that one pass of a service takes.
    pub pass: (Duration, Duration),
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            net: NetConfig::default(),
            pass: (Duration::from_micros(1), Duration::from_micros(8)),
        }
    }
}

/// What the drivers of a world share.
struct Shared {
    engine: Engine,
    disks: Disks,
    net: Net,
}

/// A number of hosts with disks, joined by a network. One thread; every method acts at the present virtual time.
pub struct World {
    shared: Rc<RefCell<Shared>>,
}

impl World {
    /// An empty world.
    #[must_use]
    pub fn new(seed: u64, config: SimConfig) -> World {
        let engine = Engine::new(seed, config.pass);
        let shared = Shared {
            engine,
            disks: Disks::default(),
            net: Net::new(config.net),
        };
        World {
            shared: Rc::new(RefCell::new(shared)),
        }
    }

    /// Starts the process of a node (below 65,536) and gives its driver; it is runnable at once. A node without power
    /// gets it back. Panics when the node's process is alive.
    pub fn driver(&mut self, node: u32) -> SimDriver {
        let shared = &mut *self.shared.borrow_mut();
        let process = shared.engine.start(node);
        shared.engine.note(0x10 << 32 | u64::from(node));
        // What was sent to a host without power meets its new kernel now.
        for peer in 0..shared.engine.nodes.len() as u32 {
            shared.net.passable(&mut shared.engine, peer, node);
        }
        SimDriver::new(
            self.shared.clone(),
            process,
            shared.engine.nodes[node as usize].waker.clone(),
        )
    }

    /// The address of a node.
    #[must_use]
    pub fn address(&self, node: u32) -> IpAddr {
        node_ip(node)
    }

    /// Moves time to the next moment at which a process has something to do, and says which; None when nothing will
    /// ever happen again.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<u32> {
        self.next_until(Time(u64::MAX))
    }

    /// As [`World::next`], but not beyond `limit`: None when nothing more happens until then, and time is `limit`.
    pub fn next_until(&mut self, limit: Time) -> Option<u32> {
        let Shared { engine, disks, net } = &mut *self.shared.borrow_mut();
        loop {
            engine.look_for_notes();
            match engine.pop(limit)? {
                Event::Run { node, life } => {
                    if engine.run(Process { node, life }) {
                        return Some(node);
                    }
                }
                Event::Timers { node, life } => engine.timers(Process { node, life }),
                Event::Disk { disk, operation } => disks.ended(engine, disk, operation),
                Event::Arrive { connection, from } => net.arrive(engine, connection as usize, from as usize),
                Event::GiveUp {
                    connection,
                    from,
                    stall,
                } => {
                    net.give_up(engine, connection as usize, from as usize, stall);
                }
                Event::Ask { connection, end } => net.ask(engine, connection as usize, end as usize),
                Event::Connect { attempt } => net.connect_arrives(engine, attempt),
                Event::Connected { attempt } => net.connect_ends(engine, attempt),
                Event::ConnectTimeout { attempt } => net.connect_times_out(engine, attempt),
            }
        }
    }

    /// The virtual time since the world began. (A driver's clock begins with its process.)
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.borrow().engine.now
    }

    /// A number from the world's seed, for those who plan workloads and faults.
    pub fn random(&mut self, bound: u64) -> u64 {
        self.shared.borrow_mut().engine.random.below(bound)
    }

    /// Is the node's process alive (frozen or not)?
    #[must_use]
    pub fn is_alive(&self, node: u32) -> bool {
        self.shared
            .borrow()
            .engine
            .nodes
            .get(node as usize)
            .is_some_and(|node| node.alive)
    }

    /// A hash of all that has happened so far.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.shared.borrow().engine.trace()
    }

    /// How often each fault was met, those never met too.
    #[must_use]
    pub fn coverage(&self) -> BTreeMap<&'static str, u64> {
        self.shared.borrow().engine.coverage.report()
    }

    // Nodes.

    /// The process dies (SIGKILL); its host lives on. The caller drops its service; its driver does nothing any more.
    pub fn kill(&mut self, node: u32) {
        self.end(node, true);
    }

    /// The host loses its power, until [`World::driver`] starts it anew.
    pub fn power_cut(&mut self, node: u32) {
        self.end(node, false);
    }

    fn end(&mut self, node: u32, powered: bool) {
        let Shared { engine, disks, net } = &mut *self.shared.borrow_mut();
        engine.note(0x11 << 32 | u64::from(node) << 1 | u64::from(powered));
        let Some(process) = engine.stop(node, powered) else {
            return;
        };
        if powered {
            engine.coverage.count(Fault::NodeKilled);
            disks.killed(engine, process);
        } else {
            engine.coverage.count(Fault::NodePowerCut);
            disks.power_cut(engine, process);
        }
        net.ended(engine, process, powered);
    }

    /// The process stops for a time (SIGSTOP, a hung host): its driver gets nothing, and then everything.
    pub fn freeze(&mut self, node: u32, length: Duration) {
        let engine = &mut self.shared.borrow_mut().engine;
        let until = engine.now.plus(length);
        engine.freeze(node, until);
    }

    /// As [`World::freeze`], with a clock that does not count the time: a paused virtual machine, as some hypervisors do it,
    /// or a suspended host whose clock is `CLOCK_MONOTONIC`.
    pub fn suspend(&mut self, node: u32, length: Duration) {
        self.shared.borrow_mut().engine.suspend(node, length);
    }

    /// The host's clock runs at so many millionths of the world's time from now on, for all its processes.
    pub fn set_clock(&mut self, node: u32, rate: u64) {
        self.shared.borrow_mut().engine.set_clock(node, rate);
    }

    // Disks.

    /// Adds a disk full of zeros, which nodes open by its name.
    pub fn create_disk(&mut self, name: impl AsRef<Path>, config: DiskConfig) {
        self.shared.borrow_mut().disks.create(name.as_ref(), config);
    }

    /// Writes to a disk past all faults, durably (to format it). Panics where there is no such disk or place.
    pub fn write_disk(&mut self, name: impl AsRef<Path>, offset: u64, bytes: &[u8]) {
        self.shared.borrow_mut().disks.write(name.as_ref(), offset, bytes);
    }

    /// What a read of the disk would show now, past all faults.
    pub fn read_disk(&mut self, name: impl AsRef<Path>, offset: u64, buffer: &mut [u8]) {
        self.shared.borrow_mut().disks.read(name.as_ref(), offset, buffer);
    }

    /// Changes how a disk fails from now on.
    pub fn disk_faults(&mut self, name: impl AsRef<Path>, change: impl FnOnce(&mut DiskFaults)) {
        let Shared { engine, disks, .. } = &mut *self.shared.borrow_mut();
        change(disks.faults(name.as_ref()));
        disks.release(engine, name.as_ref());
    }

    /// Nothing completes on the disk for a time.
    pub fn stall_disk(&mut self, name: impl AsRef<Path>, length: Duration) {
        let Shared { engine, disks, .. } = &mut *self.shared.borrow_mut();
        disks.stall(name.as_ref(), engine.now.plus(length));
    }

    /// Flips one bit (0 to 7) of the byte at `offset`.
    pub fn flip_bit(&mut self, name: impl AsRef<Path>, offset: u64, bit: u8) {
        let Shared { engine, disks, .. } = &mut *self.shared.borrow_mut();
        disks.flip(engine, name.as_ref(), offset, bit);
    }

    // The network.

    /// The open connections, oldest first.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.shared.borrow().net.open_connections().collect()
    }

    /// Resets a connection in the middle of whatever is under way.
    pub fn reset(&mut self, connection: u32) {
        let Shared { engine, net, .. } = &mut *self.shared.borrow_mut();
        net.reset(engine, connection as usize);
    }

    /// Nothing passes between two nodes, in either direction.
    pub fn partition(&mut self, one: u32, other: u32) {
        self.cut_link(one, other);
        self.cut_link(other, one);
    }

    /// Nothing passes in one direction.
    pub fn cut_link(&mut self, from: u32, to: u32) {
        self.shared.borrow_mut().net.cut(from, to);
    }

    /// Everything passes between two nodes again.
    pub fn heal(&mut self, one: u32, other: u32) {
        let Shared { engine, net, .. } = &mut *self.shared.borrow_mut();
        net.heal(engine, one, other);
        net.heal(engine, other, one);
    }

    /// So many of a thousand segments are lost in one direction from now on (zero: none).
    pub fn lose_link(&mut self, from: u32, to: u32, per_mille: u32) {
        self.shared.borrow_mut().net.set_loss(from, to, per_mille);
    }

    /// Adds to the latency of one direction from now on (zero: takes it back).
    pub fn delay_link(&mut self, from: u32, to: u32, delay: Duration) {
        self.shared.borrow_mut().net.set_delay(from, to, delay);
    }
}

#[cfg(test)]
mod tests;
