//! One core of a node: stores, sequencers, fabric and front ends on one driver, run to completion.
//!
//! A pass: take in all completions and mail; let the parts hand each other what they produce until nobody has anything
//! left; then one write per store, one send per connection, and one timer for the next deadline. Nothing blocks and
//! nothing is locked. The same code runs on the kernel's driver and on the simulated one.
//!
//! # One write through a pass
//! Down, on the core that holds the host's connection:
//! 1. [`Core::pass`] gives completions to whose they are (`take_in`). The front end parses the write and asks for it to be
//!    carried out: a [`FrontRequest::Submit`](crate::fronts::FrontRequest).
//! 2. `hand_out_requests` gives it an [`Origin`](crate::mail::Origin), by which its end finds the way back, and `route` decides,
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
//! Each owns its state and knows nothing of the others; what one needs of another, the core hands it. What an I/O goes through on
//! every core (stores, sequencers, peers, mail) stands together in the [`Context`]; [`Forwarding`] owns the way to other gateways. How
//! one hands to another is in these files: `route.rs` (I/O), `messages.rs` (what other cores say), `effects.rs` (what the
//! directory wants), `records.rs` (what the control plane says), `report.rs` (what it is told), `reserve.rs` (reservations),
//! `locks.rs` (those of them that end with a connection), `limits.rs` (what waits for tokens), `joints.rs` (who lends those of tenants and pools), `hosts.rs` (hosts that are dropped). Parts that are the core's own: [`clock`],
//! [`peers`], [`nvme`], [`iscsi`], [`control_plane`].

mod bases;
mod clock;
mod config;
mod context;
mod control_plane;
mod doubts;
mod effects;
mod flattens;
mod forward;
mod hosts;
mod iscsi;
mod joints;
mod limits;
mod locks;
mod messages;
mod named;
mod nvme;
mod observe;
mod paced;
mod parents;
mod peers;
mod records;
mod report;
mod reserve;
mod route;
mod slowed;
mod snapshots;
mod views;
mod wishes;

pub use parents::Asked;
pub use views::VIEWS;

pub use config::CoreConfig;
pub use peers::{REFUSED_FOR, SILENT_FOR};

use crate::authority::Inquiry;
use crate::catalog::Cataloguer;
use crate::control::{FromCore, ToCore};
use crate::directory::Directory;
use crate::flattens::Flattens;
use crate::fronts::Fronts;
use crate::iscsi_catalog::IscsiCataloguer;
use crate::limits::{Gate, Lender};
use crate::mail::{Mail, NodeMessage};
use crate::reporter::Reporter;
use crate::reservations::Reservations;
use crate::sets::Sets;
use crate::shards::Shards;
use crate::snapshots::Snapshots;
use crate::stores::Stores;
use crate::token;
use crate::view::View;
use crate::wishes::Wishes;
use crate::worker::Desk;
use amita_frontend as frontend;
use amita_reactor::driver::{Completion, Driver, Time, Wait};
use clock::Clock;
use context::Context;
use control_plane::ControlPlane;
use doubts::Doubts;
use forward::Forwarding;
use iscsi::IscsiSide;
use joints::Seats;
use locks::Locks;
use named::Named;
use nvme::NvmeSide;
use observe::Observing;
use paced::Paced;
use parents::ParentReads;
use peers::Peers;
use slowed::Slowed;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use views::Views;

/// Mail that one pass takes in at most, so that a busy neighbour cannot keep a core from its own sockets.
const MAIL_PER_PASS: usize = 4096;
/// Rounds of what ends at once that one pass follows: a read or write of a file in memory, and what its end starts.
const INLINE_ROUNDS: usize = 3;
/// How long a pass that lacks buffers waits before it tries again.
const STARVED_RETRY: Duration = Duration::from_millis(1);

/// One core's service.
pub struct Core {
    cx: Context,
    /// The sessions of hosts.
    pub fronts: Fronts,
    forwarding: Forwarding,
    nvme: NvmeSide,
    iscsi: IscsiSide,
    named: Named,
    doubts: Doubts,
    views: Views,
    parents: ParentReads,
    locks: Locks,
    /// What is lent of the limits of volumes that are open here, by the core of each ([`limits`]); and of tenants and pools.
    lender: Lender,
    seats: Seats,
    /// Where fronts have things computed; none: on this core.
    desk: Option<Desk>,
    /// On core 0: which volumes are open, and who opens them.
    directory: Directory,
    /// On core 0: commands about reservations.
    reservations: Reservations,
    /// On core 0: snapshots that are being taken.
    snapshots: Snapshots,
    /// On core 0: sets of them that this node leads.
    sets: Sets,
    /// On core 0: clones that are being flattened.
    flattens: Flattens,
    /// On core 0: moves that hosts ask for.
    wishes: Wishes,
    reporter: Reporter,
    /// Who asks what was counted.
    observing: Observing,
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
            fronts: Fronts::default(),
            forwarding: Forwarding::new(&config),
            nvme: NvmeSide::new(config.nvme.clone()),
            iscsi: IscsiSide::new(config.iscsi.clone()),
            named: Named::default(),
            doubts: Doubts::default(),
            views: Views::new(config.core),
            parents: ParentReads::default(),
            locks: Locks::default(),
            lender: Lender::default(),
            seats: Seats::default(),
            desk: None,
            directory: Directory::new(config.node, config.cores, config.opener.clone()),
            reservations: Reservations::new(config.node, config.cores, crate::directory::reservation_calls()),
            snapshots: Snapshots::new(config.node, config.cores, crate::directory::snapshot_calls()),
            sets: Sets::new(crate::directory::set_calls()),
            flattens: Flattens::new(crate::directory::flatten_calls()),
            wishes: Wishes::new(crate::directory::wish_calls()),
            reporter: Reporter::new(config.node, config.core),
            observing: Observing::default(),
            cx: Context {
                clock: Clock::new(),
                view: View::default(),
                inquiry: Inquiry::new(config.core),
                control: ControlPlane::default(),
                mail,
                peers: Peers::new(&config),
                stores: Stores::default(),
                shards: Shards::new(config.core, sequencer, config.trace.clone()),
                paced: Paced::default(),
                slowed: Slowed::default(),
                config,
            },
        };
        core.cx.shards.faults = faults;
        core.cx.shards.mirror = core.cx.config.opener.mirror;
        core.fronts.faults = faults;
        core.directory.faults = faults;
        core.reservations.faults = faults;
        core.snapshots.faults = faults;
        core.sets.faults = faults;
        core.forwarding.forwarder.faults = faults;
        core
    }

    /// Listens for peers.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen_fabric(&mut self, driver: &mut dyn Driver, address: SocketAddr) -> io::Result<SocketAddr> {
        self.cx.peers.fabric.listen(driver, address)
    }

    /// The same by a second network.
    ///
    /// # Errors
    /// As [`Core::listen_fabric`].
    pub fn listen_fabric2(&mut self, driver: &mut dyn Driver, address: SocketAddr) -> io::Result<SocketAddr> {
        let fabric = &mut self.cx.peers.fabric;
        fabric.listen_by(driver, amita_types::link::Network::Second, address)
    }

    /// Opens a store and begins to mount it; [`FromCore::StoreServes`] or [`FromCore::StoreFailed`] tells the end.
    ///
    /// # Errors
    /// The path cannot be opened, or another process holds the store.
    pub fn open_store(&mut self, driver: &mut dyn Driver, path: &Path) -> io::Result<()> {
        let opened = self.cx.stores.open(driver, path, self.cx.config.store.clone());
        if opened.is_err() {
            self.cx.mail.broadcast(|| NodeMessage::StoreUnmounted);
        }
        opened
    }

    /// From now on the cluster is told how full the stores are, and what hosts meet with (`/amita/condition/NODE/CORE`).
    pub fn report_condition(&mut self) {
        self.reporter.report_condition();
    }

    /// From now on stores that are opened wait, once they are mounted, for [`ToCore::Admit`].
    pub fn hold_stores(&mut self) {
        self.cx.stores.await_admission();
    }

    /// This node serves NVMe hosts: the settings that they see are made by it, on core 0.
    pub fn serve_nvme(&mut self, cataloguer: Cataloguer) {
        self.nvme.serve(cataloguer);
    }

    /// Initiators log in to this node by iSCSI: the settings that they see are made by it, on core 0. To be said before records come.
    pub fn serve_iscsi(&mut self, cataloguer: IscsiCataloguer) {
        self.cx.view.keep_space();
        self.iscsi.serve(cataloguer);
    }

    /// From now on what fronts want computed is done by the node's worker. (Before, and in the simulator: by this core, in its
    /// pass.)
    pub(crate) fn compute_elsewhere(&mut self, desk: Desk) {
        self.desk = Some(desk);
    }

    /// The NVMe target's side of this core.
    #[must_use]
    pub fn nvme_port(&self) -> &Rc<amita_nvme::Port> {
        self.nvme.port()
    }

    /// The iSCSI target's side of this core.
    #[must_use]
    pub fn iscsi_port(&self) -> &Rc<amita_iscsi::Port> {
        self.iscsi.port()
    }

    /// A message of the control plane, handled in the next pass.
    pub fn control(&mut self, message: ToCore) {
        self.cx.control.inbox.push_back(message);
    }

    /// What the core has for the control plane.
    pub fn take_control(&mut self) -> std::vec::Drain<'_, FromCore> {
        self.cx.control.outbox.drain(..)
    }

    /// Has [`Core::take_control`] anything?
    #[must_use]
    pub fn has_control(&self) -> bool {
        !self.cx.control.outbox.is_empty()
    }

    /// Has a connection to each living node been made, or tried in vain? Before that, one that is alive and well could be
    /// taken for away.
    #[must_use]
    pub fn has_tried_all(&self) -> bool {
        self.cx.peers.has_tried_all(&self.cx.view)
    }

    /// Traces other I/Os from now on.
    pub fn set_trace(&mut self, config: crate::trace::TraceConfig) {
        self.cx.shards.traces.set(config);
    }

    /// The stores of this core.
    #[must_use]
    pub fn stores(&self) -> &Stores {
        &self.cx.stores
    }

    /// Where I/O of limited volumes waits on this core.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.forwarding.gate
    }

    /// Does anything of a host that has gone wait for a limit, or where hosts are slowed (R9)?
    #[must_use]
    pub fn holds_for_gone_hosts(&self) -> bool {
        let mut fronts = self.forwarding.gate.fronts().chain(self.cx.slowed.fronts());
        fronts.any(|front| self.fronts.has_ended(front))
    }

    /// Are hosts of any volume slowed on this core, because it moves?
    #[must_use]
    pub fn slows_hosts(&self) -> bool {
        self.cx.slowed.is_any()
    }

    /// How many writes have waited on this core because their volume moves.
    #[must_use]
    pub fn waited_for_moves(&self) -> u64 {
        self.cx.slowed.waited()
    }

    /// Rules of leases that are switched off.
    pub fn plant_in_leases(&mut self, faults: amita_qos::Faults) {
        (self.forwarding.gate.lease_faults, self.lender.faults) = (faults, faults);
    }

    /// What stores that are opened from now on have under way at once where there is an order, and which of its rules are switched off.
    pub fn set_turns(&mut self, depth: amita_qos::DepthLimits, faults: amita_qos::Faults) {
        (self.cx.stores.depth, self.cx.stores.turn_faults) = (depth, faults);
    }

    /// The sequencers of this core.
    #[must_use]
    pub fn shards(&self) -> &Shards {
        &self.cx.shards
    }

    pub fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        let now = driver.now();
        self.cx.clock.begin_pass(now);
        self.cx.shards.traces.begin_pass();
        hosts::check_pulse(&mut self.cx, &mut self.fronts, &mut self.forwarding, driver);
        self.take_in(driver, completions);
        records::take_in(self, driver);
        observe::go_on(self, driver);
        hosts::drop_everywhere(&mut self.cx, &mut self.fronts, &mut self.forwarding, driver);
        self.take_in_mail(driver, now);
        hosts::drop_everywhere(&mut self.cx, &mut self.fronts, &mut self.forwarding, driver);
        // Both are asked: each forgets it with that.
        if self.nvme.take_changed() | self.iscsi.take_changed() {
            self.fronts.event_to_all(driver, || frontend::Event::Settings);
        }
        if self.named.is_due(driver.now()) {
            named::look(self, driver);
        }
        if self.doubts.is_due(driver.now()) {
            doubts::look(self, driver);
        }
        if self.views.is_due(driver.now()) {
            views::look(self, driver);
        }
        parents::look(self, driver.now());
        if self.flattens.deadline().is_some_and(|at| at <= driver.now()) {
            flattens::look(self, driver.now());
        }
        if locks::deadline(self).is_some_and(|at| at <= driver.now()) {
            locks::look(self, driver.now());
        }
        if self.cx.clock.is_tick_due(driver.now()) {
            self.tick(driver);
        }
        self.exchange(driver);
        self.fronts.end_pass(driver);
        self.exchange(driver);
        self.cx.shards.traces.refine(driver);
        self.cx.stores.end_pass(driver.now());
        // Ending the pass may have let answers out, and what they completed may let a session ask for more (a request of
        // many pieces goes by windows): those asks make the next pass follow at once.
        self.exchange(driver);
        self.follow_inline(driver, completions);
        report::announce_stores(&mut self.cx, &mut self.reporter);
        self.leave(driver)
    }

    /// Hands completions to whose they are.
    fn take_in(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) {
        let now = driver.now();
        for completion in completions.drain(..) {
            match token::space(completion.token) {
                token::FABRIC => self.cx.peers.fabric.completion(driver, completion),
                token::FRONTS => self.fronts.completion(driver, completion),
                token::STORES => self.cx.stores.completion(now, completion),
                token::CORE => self.cx.clock.fired(),
                // A waker's completion carries no token of ours: its mail is taken in by the pass.
                _ => {}
            }
        }
    }

    /// Mail of other cores, and of this one.
    fn take_in_mail(&mut self, driver: &mut dyn Driver, now: Time) {
        self.cx.mail.begin_pass(now);
        let mut taken = self.cx.mail.take_at_most(MAIL_PER_PASS);
        if !taken.is_empty() {
            driver.refresh();
        }
        for message in taken.drain(..) {
            self.on_mail(driver, message);
        }
        self.cx.mail.put_back(taken);
    }

    /// What was written to memory, or read from it, has ended already: its answers leave with this pass.
    fn follow_inline(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) {
        for _ in 0..INLINE_ROUNDS {
            self.cx.shards.traces.refine(driver);
            driver.finished(completions);
            if completions.is_empty() {
                break;
            }
            self.take_in(driver, completions);
            self.exchange(driver);
            self.cx.shards.traces.refine(driver);
            self.cx.stores.end_pass(driver.now());
            self.exchange(driver);
        }
    }

    /// The end of a pass: what was gathered leaves, one send a connection, and the timer is set.
    fn leave(&mut self, driver: &mut dyn Driver) -> Wait {
        self.fronts.end_pass(driver);
        self.cx.peers.flush(driver);
        self.cx.trace_left(driver);
        self.fronts.flush(driver);
        for address in self.fronts.take_learned() {
            self.cx.tell_others(|| NodeMessage::HostShown { address });
        }
        self.cx.trace_acknowledged(driver);
        self.cx.say_left();
        self.cx.say_drained();
        self.cx.say_adopted();
        let waiting = self.cx.mail.retry() || !self.fronts.requests.queue.is_empty() || !self.observing.is_empty();
        self.arm(driver);
        if waiting { Wait::No } else { Wait::UntilEvent }
    }

    /// Passes time on to all parts.
    fn tick(&mut self, driver: &mut dyn Driver) {
        let now = driver.now();
        self.cx.clock.begin_tick(now);
        self.cx.stores.tick(now);
        self.cx.shards.tick(now);
        // The others' have nothing open, and would say so to whoever wants a volume closed.
        if self.cx.config.core == 0 {
            self.directory.tick(now, &self.cx.view);
        }
        snapshots::tick(self, now);
        report::tick(
            &mut self.cx,
            &mut self.reporter,
            &mut self.directory,
            &mut self.fronts,
            now,
        );
        if self.cx.peers.fabric.deadline().is_some_and(|at| at <= now) {
            self.cx.peers.fabric.tick(driver);
        }
        self.fronts.tick(driver);
        self.cx.peers.check(&mut self.cx.mail, now);
        self.make_catalogs();
        if self.forwarding.forwarder.has_given_up() || self.forwarding.forwarder.deadline().is_some_and(|at| at <= now)
        {
            self.forwarding.settle_all(&mut self.cx, now);
        }
    }

    /// Sets the one timer to the nearest deadline.
    fn arm(&mut self, driver: &mut dyn Driver) {
        let (directory, reporter, peers) = (&self.directory, &self.reporter, &self.cx.peers);
        let (snapshots, sets) = (&self.snapshots, &self.sets);
        let is_first = self.cx.config.core == 0;
        let rest = || {
            [
                directory.deadline().filter(|_| is_first),
                snapshots.deadline(),
                sets.deadline(),
                reporter.deadline(),
                peers.deadline(),
            ]
        };
        let rest_due = self.cx.clock.rest_due(|| rest().into_iter().flatten().min());
        hosts::set_pulse(&mut self.cx, &self.fronts, &mut self.forwarding, driver.now());
        let starved = self.fronts.is_starved().then(|| driver.now().plus(STARVED_RETRY));
        // One after the other: of an array of twenty the compiler makes vectors, at the cost of all that they are.
        let mut next = Time(u64::MAX);
        let mut sooner = |at: Option<Time>| next = next.min(at.unwrap_or(Time(u64::MAX)));
        sooner(self.cx.stores.deadline());
        sooner(self.cx.shards.deadline());
        sooner(self.cx.paced.deadline());
        sooner(self.cx.slowed.deadline());
        sooner(self.cx.peers.fabric.deadline());
        sooner(self.fronts.deadline());
        sooner(self.named.deadline());
        sooner(self.doubts.deadline());
        sooner(self.views.deadline());
        sooner(self.parents.deadline());
        sooner(self.flattens.deadline());
        sooner(locks::deadline(self));
        sooner(self.nvme.deadline());
        sooner(self.iscsi.deadline());
        sooner(rest_due);
        sooner(self.forwarding.forwarder.deadline());
        sooner(self.forwarding.gate.deadline());
        sooner(self.lender.deadline());
        sooner(self.cx.clock.pulse());
        sooner(self.cx.mail.deadline());
        sooner(starved);
        if next != Time(u64::MAX) {
            self.cx.clock.arm(driver, next, token::token(token::CORE, 0, 0));
        }
    }

    /// Makes the settings anew that NVMe hosts and initiators of iSCSI see, if something may have changed them.
    pub(super) fn make_catalogs(&mut self) {
        let (mail, control) = (&mut self.cx.mail, &mut self.cx.control);
        self.nvme.make_catalog(&self.cx.view, &self.directory, mail, control);
        self.iscsi.make_catalog(&self.cx.view, &self.directory, mail, control);
    }
}

#[cfg(test)]
mod tests;
