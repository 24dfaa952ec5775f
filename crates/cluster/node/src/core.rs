//! One core of a node: stores, sequencers, fabric and front ends on one driver, run to completion.
//!
//! A pass: take in all completions and mail; let the parts hand each other what they produce until nobody has anything
//! left; then one write per store, one send per connection, and one timer for the next deadline. Nothing blocks and
//! nothing is locked. The same code runs on the kernel's driver and on the simulated one.
//!
//! # One write through a pass
//! Down, on the core that holds the host's connection:
//! 1. [`Core::pass`] gives completions to whose they are (`take_in`). The front end parses the write and asks for it to be
//!    carried out: an [`Ask::Submit`](crate::fronts::Ask).
//! 2. `hand_out_asks` gives it an [`Origin`](crate::mail::Origin), by which its end finds the way back, and `route` decides,
//!    once, where it goes: to this core, to the one that sequences its chunk ([`IoMessage::Piece`](crate::mail::IoMessage)), or, if
//!    the volume is not open here, to its owner (`away`, in `forward.rs`).
//! 3. `sequence`, on the core that it went to, begins it with the volume's sequencer ([`Shards::begin`]), which names a
//!    version and has a request for each store of the chunk's group.
//! 4. `hand_out_effects` takes these requests, and `send_to_store` finds each store: on this node (`pass_to_store`, by mail if
//!    another core serves it), or by the link to its node ([`peers`]).
//! 5. `Stores::end_pass` has each store write what it has gathered, and `leave` sends what goes to peers: each once.
//!
//! And up, in a pass in which a store's write ends or a peer's message comes: `hand_out_answers` and `hand_out_messages` bring
//! answers to the core that sequences the chunk (`answer_from_store`, `pass_to_sequencer`); after the last of them
//! `hand_out_effects` has the end of the write, `ended` tells the front end on the core that the origin names, and the host's
//! answer leaves with that pass.
//!
//! # The parts
//! Each owns its state and knows nothing of the others; what one needs of another, the core hands it. How it does so is in these
//! files: `route.rs` (I/O), `messages.rs` (what other cores say), `records.rs` (what the control plane says), `reserve.rs`
//! (reservations), `forward.rs` (I/O for volumes that other gateways own). Parts that are the core's own: [`clock`], [`peers`],
//! [`nvme`], [`control_plane`].

mod clock;
mod config;
mod control_plane;
mod forward;
mod messages;
mod nvme;
mod observe;
mod peers;
mod records;
mod reserve;
mod route;

pub use config::CoreConfig;
pub use peers::{REFUSED_FOR, SILENT_FOR};

use crate::catalog::Cataloguer;
use crate::control::{FromCore, ToCore};
use crate::directory::Directory;
use crate::forwarder::{FORWARDS, Forwarder};
use crate::fronts::Fronts;
use crate::mail::{DirectoryMessage, IoMessage, Mail, NodeMessage, ReservationMessage};
use crate::reporter::Reporter;
use crate::reservations::Reservations;
use crate::shards::Shards;
use crate::stores::Stores;
use crate::token;
use crate::view::View;
use amita_frontend as frontend;
use amita_reactor::driver::{Completion, Driver, Time, Wait};
use amita_types::{Generation, VolumeId};
use clock::Clock;
use control_plane::ControlPlane;
use nvme::NvmeSide;
use peers::Peers;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Mail that one pass takes in at most, so that a busy neighbour cannot keep a core from its own sockets.
const MAIL_PER_PASS: usize = 4096;
/// Rounds of what ends at once that one pass follows: a read or write of a file in memory, and what its end starts.
const INLINE_ROUNDS: usize = 3;
/// How long a pass that lacks buffers waits before it tries again.
const STARVED_RETRY: Duration = Duration::from_millis(1);

/// One core's service.
pub struct Core {
    config: CoreConfig,
    clock: Clock,
    /// What the metadata says.
    view: View,
    control: ControlPlane,
    mail: Mail,
    peers: Peers,
    stores: Stores,
    shards: Shards,
    /// The sessions of hosts.
    pub fronts: Fronts,
    nvme: NvmeSide,
    /// On core 0: which volumes are open, and who opens them.
    directory: Directory,
    /// On core 0: commands about reservations.
    reservations: Reservations,
    /// What this core has for other gateways.
    forwarder: Forwarder,
    /// What other gateways have for this core.
    receiving: forward::Receiving,
    reporter: Reporter,
}

impl Core {
    /// A core without stores and listeners.
    #[must_use]
    pub fn new(config: CoreConfig, mail: Mail) -> Core {
        let faults = config.faults;
        let sequencer = amita_sequencer::Config {
            core: config.core as u16,
            cores: config.cores as u16,
            ..config.sequencer.clone()
        };
        let mut core = Core {
            clock: Clock::new(),
            view: View::default(),
            control: ControlPlane::default(),
            peers: Peers::new(&config),
            stores: Stores::default(),
            shards: Shards::new(config.core, sequencer, config.trace.clone()),
            fronts: Fronts::default(),
            nvme: NvmeSide::new(config.nvme.clone()),
            directory: Directory::new(config.node, config.cores, config.opener.clone()),
            reservations: Reservations::new(config.node, config.cores, crate::directory::reservation_calls()),
            forwarder: Forwarder::new(token::id_base(config.core, FORWARDS)),
            receiving: forward::Receiving::default(),
            reporter: Reporter::new(config.node, config.core),
            mail,
            config,
        };
        core.shards.faults = faults;
        core.directory.faults = faults;
        core.reservations.faults = faults;
        core.forwarder.faults = faults;
        core
    }

    /// Listens for peers.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen_fabric(&mut self, driver: &mut dyn Driver, address: SocketAddr) -> io::Result<SocketAddr> {
        self.peers.fabric.listen(driver, address)
    }

    /// Opens a store and begins to mount it; [`FromCore::StoreServes`] or [`FromCore::StoreFailed`] tells the end.
    ///
    /// # Errors
    /// The path cannot be opened, or another process holds the store.
    pub fn open_store(&mut self, driver: &mut dyn Driver, path: &Path) -> io::Result<()> {
        let opened = self.stores.open(driver, path, self.config.store.clone());
        if opened.is_err() {
            self.mail.broadcast(|| NodeMessage::StoreUnmounted);
        }
        opened
    }

    /// From now on the cluster is told how full the stores are, and what hosts meet with (`/amita/condition/NODE/CORE`).
    pub fn report_condition(&mut self) {
        self.reporter.report_condition();
    }

    /// From now on stores that are opened wait, once they are mounted, for [`ToCore::Admit`].
    pub fn hold_stores(&mut self) {
        self.stores.await_admission();
    }

    /// This node serves NVMe hosts: the settings that they see are made by it, on core 0.
    pub fn serve_nvme(&mut self, cataloguer: Cataloguer) {
        self.nvme.serve(cataloguer);
    }

    /// The NVMe target's side of this core.
    #[must_use]
    pub fn nvme_port(&self) -> &Rc<amita_nvme::Port> {
        self.nvme.port()
    }

    /// A message of the control plane, handled in the next pass.
    pub fn control(&mut self, message: ToCore) {
        self.control.inbox.push_back(message);
    }

    /// What the core has for the control plane.
    pub fn take_control(&mut self) -> std::vec::Drain<'_, FromCore> {
        self.control.outbox.drain(..)
    }

    /// Has [`Core::take_control`] anything?
    #[must_use]
    pub fn has_control(&self) -> bool {
        !self.control.outbox.is_empty()
    }

    /// Has a connection to each living node been made, or tried in vain? Before that, one that is alive and well could be
    /// taken for away.
    #[must_use]
    pub fn has_tried_all(&self) -> bool {
        self.peers.has_tried_all(&self.view)
    }

    /// Traces other I/Os from now on.
    pub fn set_trace(&mut self, config: crate::trace::TraceConfig) {
        self.shards.traces.set(config);
    }

    /// The stores of this core.
    #[must_use]
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// The sequencers of this core.
    #[must_use]
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// One pass.
    pub fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        let now = driver.now();
        self.clock.begin_pass(now);
        self.shards.traces.begin_pass();
        self.check_pulse(driver);
        self.take_in(driver, completions);
        self.take_in_control(driver);
        self.drop_everywhere(driver);
        self.take_in_mail(driver, now);
        self.drop_everywhere(driver);
        if self.nvme.take_changed() {
            self.fronts.event_to_all(driver, || frontend::Event::Settings);
        }
        if self.clock.is_tick_due(driver.now()) {
            self.tick(driver);
        }
        self.exchange(driver);
        self.fronts.end_pass(driver);
        self.exchange(driver);
        self.shards.traces.refine(driver);
        self.stores.end_pass(driver.now());
        // Ending the pass may have let answers out, and what they completed may let a session ask for more (a request of
        // many pieces goes by windows): those asks make the next pass follow at once.
        self.exchange(driver);
        self.follow_inline(driver, completions);
        self.announce_stores();
        self.leave(driver)
    }

    /// Hands completions to whose they are.
    fn take_in(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) {
        let now = driver.now();
        for completion in completions.drain(..) {
            match token::space(completion.token) {
                token::FABRIC => self.peers.fabric.completion(driver, completion),
                token::FRONTS => self.fronts.completion(driver, completion),
                token::STORES => self.stores.completion(now, completion),
                token::CORE => self.clock.fired(),
                // A waker's completion carries no token of ours: its mail is taken in by the pass.
                _ => {}
            }
        }
    }

    /// Mail of other cores, and of this one.
    fn take_in_mail(&mut self, driver: &mut dyn Driver, now: Time) {
        self.mail.begin_pass(now);
        let mut taken = self.mail.take_at_most(MAIL_PER_PASS);
        if !taken.is_empty() {
            driver.refresh();
        }
        for message in taken.drain(..) {
            self.on_mail(driver, message);
        }
        self.mail.put_back(taken);
    }

    /// What was written to memory, or read from it, has ended already: its answers leave with this pass.
    fn follow_inline(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) {
        for _ in 0..INLINE_ROUNDS {
            self.shards.traces.refine(driver);
            driver.finished(completions);
            if completions.is_empty() {
                break;
            }
            self.take_in(driver, completions);
            self.exchange(driver);
            self.shards.traces.refine(driver);
            self.stores.end_pass(driver.now());
            self.exchange(driver);
        }
    }

    /// The end of a pass: what was gathered leaves, one send a connection, and the timer is set.
    fn leave(&mut self, driver: &mut dyn Driver) -> Wait {
        self.fronts.end_pass(driver);
        self.peers.flush(driver);
        self.trace_left(driver);
        self.fronts.flush(driver);
        self.trace_acknowledged(driver);
        self.say_left();
        self.say_adopted();
        let waiting = self.mail.retry() || !self.fronts.asks.queue.is_empty();
        self.arm(driver);
        if waiting { Wait::No } else { Wait::UntilEvent }
    }

    /// What goes to stores was handed over to be sent.
    fn trace_left(&mut self, driver: &mut dyn Driver) {
        if self.shards.traces.is_hot() {
            driver.refresh();
            self.shards.traces.left(driver.now());
        }
    }

    /// What goes to hosts was handed over to be sent.
    fn trace_acknowledged(&mut self, driver: &mut dyn Driver) {
        if self.shards.traces.is_hot() {
            driver.refresh();
            let at = driver.now();
            while let Some((core, trace)) = self.shards.traces.acknowledged(at) {
                self.mail.send(usize::from(core), IoMessage::Acknowledged { trace, at });
            }
        }
    }

    /// Tells the directory of volumes that are to be handed over, and have nothing under way here.
    fn say_left(&mut self) {
        if !self.shards.is_any_leaving() {
            return;
        }
        for (volume, generation, attempt) in self.shards.take_left() {
            self.tell_left(volume, generation, attempt);
        }
    }

    fn tell_left(&mut self, volume: VolumeId, generation: Generation, attempt: u64) {
        let core = self.config.core;
        let left = DirectoryMessage::Left {
            volume,
            generation,
            attempt,
            core,
        };
        self.mail.send(0, left);
    }

    /// Tells core 0 of reservations that nothing under way here offends against any more.
    fn say_adopted(&mut self) {
        let core = self.config.core;
        for volume in self.shards.take_adopted() {
            self.mail.send(0, ReservationMessage::Adopted { volume, core });
        }
    }

    /// Passes time on to all parts.
    fn tick(&mut self, driver: &mut dyn Driver) {
        let now = driver.now();
        self.clock.begin_tick(now);
        self.stores.tick(now);
        self.shards.tick(now);
        self.directory.tick(now, &self.view);
        self.report(now);
        if self.peers.fabric.deadline().is_some_and(|at| at <= now) {
            self.peers.fabric.tick(driver);
        }
        self.fronts.tick(driver);
        self.peers.check(&mut self.mail, now);
        self.make_catalog();
        if self.forwarder.has_given_up() || self.forwarder.deadline().is_some_and(|at| at <= now) {
            self.settle_routes(now);
        }
    }

    /// Sets the one timer to the nearest deadline.
    fn arm(&mut self, driver: &mut dyn Driver) {
        let (directory, reporter, peers) = (&self.directory, &self.reporter, &self.peers);
        let rest = || [directory.deadline(), reporter.deadline(), peers.deadline()];
        let rest_due = self.clock.rest_due(|| rest().into_iter().flatten().min());
        self.set_pulse(driver.now());
        let starved = self.fronts.is_starved().then(|| driver.now().plus(STARVED_RETRY));
        let deadlines = [
            self.stores.deadline(),
            self.shards.deadline(),
            self.peers.fabric.deadline(),
            self.fronts.deadline(),
            rest_due,
            self.forwarder.deadline(),
            self.clock.pulse(),
            self.mail.deadline(),
            starved,
        ];
        if let Some(next) = deadlines.into_iter().flatten().min() {
            self.clock.arm(driver, next, token::token(token::CORE, 0, 0));
        }
    }
}

#[cfg(test)]
mod tests;
