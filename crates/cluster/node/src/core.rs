//! One core of a node: stores, sequencers, fabric and front ends on one driver, run to completion.
//!
//! A pass: take in all completions and mail; let the parts hand each other what they produce until nobody has anything
//! left; then one write per store, one send per connection, and one timer for the next deadline. Nothing blocks and
//! nothing is locked. The same code runs on the kernel's driver and on the simulated one.

mod forward;
mod nvme;
mod observe;
mod peers;
mod post;
mod reserve;
mod route;

use crate::catalog::Cataloguer;
use crate::control::{FromCore, Record, ToCore};
use crate::directory::Directory;
use crate::faults::{Fault, Faults};
use crate::forwarder::{FORWARDS, Forwarder};
use crate::fronts::Fronts;
use crate::mail::{CoreMessage, Mail};
use crate::reporter::Reporter;
use crate::reservations::Reservations;
use crate::shards::{Shards, Want};
use crate::stores::{Reply, Stores};
use crate::token;
use crate::view::View;
use amita_fabric::Fabric;
use amita_frontend as frontend;
use amita_reactor::driver::{Completion, Driver, Time, TimerId, Wait};
use amita_types::condition::Failing;
use amita_types::{Generation, NodeId, StoreId, VolumeId};
use peers::Peers;
pub use peers::{REFUSED_FOR, SILENT_FOR};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Mail that one pass takes in at most, so that a busy neighbour cannot keep a core from its own sockets.
const MAIL_PER_PASS: usize = 4096;
/// However busy a core is, time is passed on to its parts so often.
const TICK_PAUSE: Duration = Duration::from_millis(20);
/// Rounds of what ends at once that one pass follows: a read or write of a file in memory, and what its end starts.
const INLINE_ROUNDS: usize = 3;
/// How long a pass that lacks buffers waits before it tries again.
const STARVED_RETRY: Duration = Duration::from_millis(1);

/// What no longer happens.
fn word(failing: Failing) -> &'static str {
    match failing {
        Failing::Writes => "no write has failed",
        Failing::Reads => "no read has failed",
        Failing::Opening => "no opening has failed",
    }
}

/// What a core must know at its start.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// This node.
    pub node: NodeId,
    /// This core's place among the node's.
    pub core: usize,
    /// How many cores the node has.
    pub cores: usize,
    /// How many stores the node opens, on all its cores together: until each of them serves or has failed, a store that
    /// is not known yet may still come.
    pub stores: usize,
    /// Connections to each peer: that many cores hold one, other ones for each peer ([`crate::peer_links`]); the rest goes
    /// through them.
    pub links_per_peer: usize,
    /// A peer whose port refuses connections for so long, by each link to it and several times, is taken for dead.
    pub refused_for: Duration,
    /// A peer that does not answer at all for so long is taken for dead.
    pub silent_for: Duration,
    /// A core that hosts of several gateways use drops them when it was not running for so long (R9).
    pub stale_after: Duration,
    /// The NVMe target's settings.
    pub nvme: amita_nvme::Config,
    /// The fabric's settings.
    pub fabric: amita_fabric::Config,
    /// The stores' settings.
    pub store: amita_store::Config,
    /// The sequencers' settings.
    pub sequencer: amita_sequencer::Config,
    /// The openers' settings.
    pub opener: amita_sequencer::OpenerConfig,
    /// Which I/Os are traced.
    pub trace: crate::trace::TraceConfig,
    /// Rules that are switched off, by the simulator only.
    pub faults: Faults,
}

/// One core's service.
pub struct Core {
    config: CoreConfig,
    view: View,
    mail: Mail,
    stores: Stores,
    shards: Shards,
    fabric: Fabric,
    /// The sessions of hosts.
    pub fronts: Fronts,
    directory: Directory,
    reporter: Reporter,
    peers: Peers,
    forwarder: Forwarder,
    reservations: Reservations,
    /// Volumes whose reservation was changed a moment ago.
    adopting: Vec<VolumeId>,
    /// The NVMe target's side of this core.
    port: Rc<amita_nvme::Port>,
    hub: amita_nvme::Hub,
    /// On core 0 of a node that NVMe hosts connect to.
    cataloguer: Option<Cataloguer>,
    /// All records of the metadata are known, as they were at the start. Before that NVMe hosts are not let in: a host that is
    /// told that its subsystem does not exist gives the path up for good.
    settled: bool,
    /// What NVMe hosts see has changed: they are told in this pass.
    tell_settings: bool,
    /// What NVMe hosts see may have changed.
    catalog_due: bool,
    receiving: forward::Receiving,
    /// An owner does not know this process as living: all hosts are dropped, on all cores.
    drop_all_hosts: bool,
    /// The newest generation of each volume whose sequencer was to be dropped.
    dropped: FxHashMap<VolumeId, Generation>,
    /// Which core of this node serves which of its stores.
    local: Vec<(StoreId, usize)>,
    /// Stores of this node that could not be mounted.
    unmounted: usize,
    to_control: Vec<FromCore>,
    replies: Vec<Reply>,
    wants: Vec<Want>,
    /// Links to be closed at the end of the pass.
    breaks: Vec<amita_fabric::Link>,
    /// The mail of this pass.
    taken: Vec<CoreMessage>,
    from_control: VecDeque<ToCore>,
    timer: Option<(Time, TimerId)>,
    /// Something happened that is no part of an I/O: the parts that see to the rest are looked at.
    stirred: bool,
    /// When one of those parts is due.
    rest_due: Option<Time>,
    /// When time is next passed on to all parts.
    tick_due: Time,
    /// When the present pass began: what came in, came in before.
    pass_began: Time,
    /// How often it has passed.
    passes: u64,
}

impl Core {
    /// A core without stores and listeners.
    #[must_use]
    pub fn new(config: CoreConfig, mail: Mail) -> Core {
        let mut core = Core {
            view: View::default(),
            stores: Stores::default(),
            shards: Shards::new(
                config.core,
                amita_sequencer::Config {
                    core: config.core as u16,
                    cores: config.cores as u16,
                    ..config.sequencer.clone()
                },
                config.trace.clone(),
            ),
            fabric: Fabric::new(config.fabric.clone()),
            fronts: Fronts::default(),
            directory: Directory::new(config.node, config.cores, config.opener.clone()),
            reporter: Reporter::new(config.node, config.core),
            peers: Peers::new(&config),
            reservations: Reservations::new(config.node, config.cores, crate::directory::reservation_calls()),
            adopting: Vec::new(),
            port: Rc::new(amita_nvme::Port::new(config.nvme.clone())),
            hub: amita_nvme::Hub::default(),
            cataloguer: None,
            catalog_due: false,
            tell_settings: false,
            settled: false,
            forwarder: Forwarder::new(token::id_base(config.core, FORWARDS)),
            receiving: forward::Receiving::default(),
            drop_all_hosts: false,
            dropped: FxHashMap::default(),
            local: Vec::new(),
            unmounted: 0,
            to_control: Vec::new(),
            replies: Vec::new(),
            wants: Vec::new(),
            breaks: Vec::new(),
            taken: Vec::new(),
            from_control: VecDeque::new(),
            timer: None,
            stirred: true,
            rest_due: None,
            tick_due: Time(0),
            pass_began: Time(0),
            passes: 0,
            mail,
            config,
        };
        let faults = core.config.faults;
        core.forwarder.faults = faults;
        core.directory.faults = faults;
        core.reservations.faults = faults;
        core.shards.faults = faults;
        core
    }

    /// Listens for peers.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen_fabric(&mut self, driver: &mut dyn Driver, address: SocketAddr) -> io::Result<SocketAddr> {
        self.fabric.listen(driver, address)
    }

    /// Opens a store and begins to mount it; [`FromCore::StoreServes`] or [`FromCore::StoreFailed`] tells the end.
    ///
    /// # Errors
    /// The path cannot be opened, or another process holds the store.
    pub fn open_store(&mut self, driver: &mut dyn Driver, path: &Path) -> io::Result<()> {
        let opened = self.stores.open(driver, path, self.config.store.clone());
        if opened.is_err() {
            self.mail.broadcast(|| CoreMessage::StoreUnmounted);
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

    /// A message of the control plane, handled in the next pass.
    pub fn control(&mut self, message: ToCore) {
        self.from_control.push_back(message);
    }

    /// What the core has for the control plane.
    pub fn take_control(&mut self) -> std::vec::Drain<'_, FromCore> {
        self.to_control.drain(..)
    }

    /// Has [`Core::take_control`] anything?
    #[must_use]
    pub fn has_control(&self) -> bool {
        !self.to_control.is_empty()
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
        self.pass_began = now;
        self.passes += 1;
        self.shards.traces.begin_pass();
        self.check_pulse(driver);
        self.take_in(driver, completions);
        while let Some(message) = self.from_control.pop_front() {
            self.stirred = true;
            match message {
                ToCore::Observe(question) => self.observe(driver, &question),
                ToCore::DropHosts(dropped) => {
                    if !self.config.faults.has(Fault::KeepWhenLapsed) {
                        self.drop_hosts(driver);
                    }
                    // Whoever asks may have lost patience.
                    let _ = dropped.send(self.config.core);
                }
                message => self.on_control(now, message),
            }
        }
        self.drop_everywhere(driver);
        self.mail.begin_pass(now);
        let mut mail = std::mem::take(&mut self.taken);
        while mail.len() < MAIL_PER_PASS
            && let Some(message) = self.mail.take()
        {
            mail.push(message);
        }
        if !mail.is_empty() {
            driver.refresh();
        }
        for message in mail.drain(..) {
            self.on_mail(driver, message);
        }
        self.taken = mail;
        self.drop_everywhere(driver);
        if std::mem::take(&mut self.tell_settings) {
            self.fronts.event_to_all(driver, || frontend::Event::Settings);
        }
        let now = driver.now();
        if self.stirred || now >= self.tick_due {
            self.tick(driver);
        }
        self.route(driver);
        self.fronts.end_pass(driver);
        self.route(driver);
        self.shards.traces.refine(driver);
        self.stores.end_pass(driver.now());
        // Ending the pass may have let answers out, and what they completed may let a session ask for more (a request of
        // many pieces goes by windows): those asks make the next pass follow at once.
        self.route(driver);
        // What was written to memory, or read from it, has ended already: its answers leave with this pass.
        for _ in 0..INLINE_ROUNDS {
            self.shards.traces.refine(driver);
            driver.finished(completions);
            if completions.is_empty() {
                break;
            }
            self.take_in(driver, completions);
            self.route(driver);
            self.shards.traces.refine(driver);
            self.stores.end_pass(driver.now());
            self.route(driver);
        }
        self.announce_stores();
        self.fronts.end_pass(driver);
        for link in self.breaks.drain(..) {
            self.fabric.close(driver, link);
        }
        self.fabric.flush(driver);
        self.trace_left(driver);
        self.fronts.flush(driver);
        self.trace_acknowledged(driver);
        self.say_left();
        self.say_adopted();
        let waiting = self.mail.retry() || !self.fronts.asks.queue.is_empty();
        self.arm(driver);
        if waiting { Wait::No } else { Wait::UntilEvent }
    }

    /// Hands completions to whose they are.
    fn take_in(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) {
        let now = driver.now();
        for completion in completions.drain(..) {
            match token::space(completion.token) {
                token::FABRIC => self.fabric.completion(driver, completion),
                token::FRONTS => self.fronts.completion(driver, completion),
                token::STORES => self.stores.completion(now, completion),
                token::CORE => self.timer = None,
                // A waker's completion carries no token of ours: its mail is taken in by the pass.
                _ => {}
            }
        }
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
                self.mail
                    .send(usize::from(core), CoreMessage::Acknowledged { trace, at });
            }
        }
    }

    fn tick(&mut self, driver: &mut dyn Driver) {
        let now = driver.now();
        self.tick_due = now.plus(TICK_PAUSE);
        // Whatever a part is due for may change when it is due next.
        self.stirred = true;
        self.stores.tick(now);
        self.shards.tick(now);
        self.directory.tick(now, &self.view);
        for event in self.shards.health_events() {
            self.to_control.push(FromCore::Warning(event.to_string()));
            self.reporter.stir(now);
        }
        if self.stores.take_asked() {
            self.reporter.stir_space(now);
        }
        for (volume, failing, why) in self.shards.take_troubles() {
            self.trouble(now, volume, failing, &why);
        }
        for (volume, why) in self.directory.take_unopened() {
            let id = self
                .view
                .volumes()
                .find(|known| known.name == volume)
                .map(|known| known.id);
            if let Some(id) = id {
                self.trouble(now, id, Failing::Opening, &why);
            }
        }
        for ended in self.reporter.ended_troubles(now) {
            let name = self.name_of(ended.0);
            let what = word(ended.1);
            self.to_control.push(FromCore::VolumeWorks {
                volume: name.clone(),
                text: format!("volume {name}: {what} for half a minute"),
            });
        }
        if let Some(why) = self.fronts.take_turned_away(now) {
            self.to_control.push(FromCore::Warning(why));
        }
        if let Some((call, request)) = self.reporter.tick(now, &mut self.shards, &self.view, &self.stores) {
            self.to_control.push(FromCore::Metadata { call, request });
        }
        if self.fabric.deadline().is_some_and(|at| at <= now) {
            self.fabric.tick(driver);
        }
        self.fronts.tick(driver);
        self.check_peers(now);
        self.make_catalog();
        if self.forwarder.has_given_up() || self.forwarder.deadline().is_some_and(|at| at <= now) {
            self.settle_routes(now);
        }
    }

    fn name_of(&self, volume: VolumeId) -> String {
        let found = self.view.volume_of(volume);
        found.map_or_else(|| volume.to_string(), |found| found.name.clone())
    }

    /// Something fails at a volume: it is said when it begins, and stands in the cluster's status until it ends.
    fn trouble(&mut self, now: Time, volume: VolumeId, failing: Failing, why: &str) {
        if self.reporter.trouble(now, volume, failing, why) {
            let volume = self.name_of(volume);
            let what = match failing {
                Failing::Writes => "writes fail",
                Failing::Reads => "reads fail",
                Failing::Opening => "it could not be opened",
            };
            self.to_control.push(FromCore::VolumeFails {
                text: format!("volume {volume}: {what}: {why}"),
                volume,
            });
        }
    }

    /// Sets the one timer to the nearest deadline.
    fn arm(&mut self, driver: &mut dyn Driver) {
        if std::mem::take(&mut self.stirred) {
            let rest = [
                self.directory.deadline(),
                self.reporter.deadline(),
                self.peers.deadline(),
            ];
            self.rest_due = rest.into_iter().flatten().min();
        }
        self.set_pulse(driver.now());
        let starved = self.fronts.is_starved().then(|| driver.now().plus(STARVED_RETRY));
        let deadlines = [
            self.stores.deadline(),
            self.shards.deadline(),
            self.fabric.deadline(),
            self.fronts.deadline(),
            self.rest_due,
            self.forwarder.deadline(),
            self.receiving.pulse(),
            self.mail.deadline(),
            starved,
        ];
        let Some(next) = deadlines.into_iter().flatten().min() else {
            return;
        };
        self.tick_due = self.tick_due.min(next);
        // A timer that fires early costs one pass; one that is moved costs a little each time: only move it forward
        // in time when it would fire too late.
        if let Some((at, timer)) = self.timer {
            if at <= next {
                return;
            }
            driver.cancel_timer(timer);
        }
        let timer = driver.timer(next, token::token(token::CORE, 0, 0));
        self.timer = Some((next, timer));
    }

    fn on_control(&mut self, now: Time, message: ToCore) {
        match message {
            ToCore::Metadata { call, result } => self.on_metadata(now, call, result),
            ToCore::Record(record) => {
                for core in 0..self.config.cores {
                    if core != self.config.core {
                        self.mail.send(core, CoreMessage::Record(record.clone()));
                    }
                }
                self.on_record(now, &record);
            }
            ToCore::Settled => {
                self.settled = true;
                self.catalog_due = true;
            }
            ToCore::Recall(store) => self.stores.recall(store),
            ToCore::Keep { content, stores } => self.stores.keep(&content, &stores),
            ToCore::Hold { holdings, stores } => self.stores.hold(now, holdings.as_ref(), &stores),
            ToCore::Observe(_) | ToCore::DropHosts(_) => unreachable!("taken out by the pass"),
            ToCore::Admit { store, path, mount } => self.stores.admit(store, &path, mount),
            ToCore::Retire { path, why } => self.stores.retire(&path, why),
            ToCore::Describe => {
                let text = self.describe(now);
                self.to_control.push(FromCore::Description(text));
            }
        }
    }

    /// What is under way, for a person who looks for a fault.
    fn describe(&self, now: Time) -> String {
        let mut text = format!(
            "core {} at {:?}, timer {:?}",
            self.config.core,
            now,
            self.timer.map(|(at, _)| at)
        );
        for store in self.stores.each() {
            let _ = write!(text, "\n  store: {:?}, {:?}", store.state(), store.status());
        }
        for (volume, sequencer) in self.shards.each() {
            let _ = write!(
                text,
                "\n  volume {volume}: {:?}, {:?}, deadline {:?}",
                sequencer.status(),
                sequencer.counters(),
                sequencer.deadline()
            );
        }
        let _ = write!(text, "\n  background work: {:?}", self.shards.pace());
        let _ = write!(text, "\n  fabric: {:?}", self.fabric.counters());
        self.fronts.describe(&mut text);
        text
    }

    fn on_metadata(
        &mut self,
        now: Time,
        call: amita_sequencer::CallId,
        result: Result<amita_metadata::Reply, amita_metadata::Error>,
    ) {
        let core = token::id_core(call.0);
        if core != self.config.core {
            self.mail.send(core, CoreMessage::Metadata { call, result });
        } else if token::id_shard(call.0) == crate::reporter::REPORTER {
            self.reporter.ended(now, result.is_ok());
        } else if token::id_shard(call.0) == crate::shards::DIRECTORY {
            if self.reservations.answered(call, &result) {
                return self.run_reservations();
            }
            self.directory.metadata(now, call, result);
        } else {
            self.shards.metadata(now, call, result);
        }
    }

    fn on_record(&mut self, now: Time, record: &Record) {
        let change = self.view.apply(record);
        self.catalog_due |= change.concerns_hosts();
        for volume in self.view.take_deleted() {
            if self.config.core == 0 {
                self.directory.deleted(now, volume);
            }
        }
        match change {
            crate::view::Change::Nothing | crate::view::Change::Hosts => {}
            crate::view::Change::Reservation(volume, revision) => {
                let state = Some(self.view.reservation(volume).cloned().unwrap_or_default());
                let adopted = crate::reservations::Adopted { revision, state };
                self.shards.reservation_changed(volume, adopted);
            }
            crate::view::Change::Node(node, address) => {
                if node != self.config.node && self.peers.holds(node) {
                    // Each core of a peer listens on a port of its own: dial the one with our number, so that the
                    // connections are spread over its cores.
                    let cores = self.view.node_record(node).map_or(1, |record| record.cores.max(1));
                    let lane = (self.config.core as u32 % cores) as u16;
                    let address = address.map(|a| SocketAddr::new(a.ip(), a.port().saturating_add(lane)));
                    self.fabric.set_peer(now, node, address);
                }
            }
            crate::view::Change::Store { store, node, moved } => {
                // A record is rewritten for much that concerns no link: a duty, a weight, a size. To be told of a new link
                // where the old one stands would have sequencers begin anew on it, with credits that the store does not
                // count anew, and with answers on the way that belong to what was before.
                let moved = moved || self.config.faults.has(Fault::UpAtEachRecord);
                if moved && node != self.config.node && self.peers.route(node).is_some() {
                    self.shards.store_up(now, store);
                }
            }
            crate::view::Change::Group(group, pool) => {
                if !group.syncing.is_empty() {
                    self.reporter.stir(now);
                    self.directory.stir(now);
                }
                self.shards.hint(now, pool, &group);
            }
            crate::view::Change::Life => {
                self.directory.stir(now);
                self.look_at_owners(now);
            }
            crate::view::Change::Scrub | crate::view::Change::Move(_) => self.directory.stir(now),
            crate::view::Change::Volume(volume, generation) => {
                self.directory.stir(now);
                self.shards.hint_volume(now, volume, generation);
                if let Some(record) = self.view.volume_of(volume) {
                    let size_bytes = record.size_bytes;
                    self.shards.resized(volume, size_bytes);
                    self.directory.resized(volume, size_bytes);
                }
                self.look_again(now, volume);
            }
            crate::view::Change::Closing => {
                if self.config.core == 0 {
                    self.directory.carry_out_closings(now, &self.view);
                }
            }
            crate::view::Change::Health => self.reporter.stir(now),
            crate::view::Change::Recovery(settings) => self.shards.set_recovery(&settings),
            crate::view::Change::Unreadable(why) => self.to_control.push(FromCore::Warning(why)),
        }
    }
}

#[cfg(test)]
mod tests;
