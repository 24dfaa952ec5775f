//! One simulated node: its process with one core or two, its disk, and the messages of its control plane.

use super::imposter::Imposter;
use super::session::{Heard, Session};
use super::setup::{Protocol, Setup};
use super::turns;
use super::wires::{Firewall, Wires, core_place, second};
use crate::faults::Member;
use crate::handshakes::StandIn;
use crate::random::Random;
use amita_crypt::Keys;
use amita_fabric::secure::Security;
use amita_frontend::{FrontId, StorageService, Who};
use amita_iscsi::IscsiFront;
use amita_keys::SealKey;
use amita_nbd::NbdFront;
use amita_node::catalog::Cataloguer;
use amita_node::control::{FromCore, ToCore};
use amita_node::fronts::MakeFront;
use amita_node::iscsi_catalog::IscsiCataloguer;
use amita_node::mail::{CoreMessage, Mail, ring_messages};
use amita_node::{Core, CoreConfig};
use amita_nvme::NvmeFront;
use amita_reactor::mailbox::{Receiver, Sender, channel};
use amita_reactor::sim::World;
use amita_reactor::{Completion, Driver, Time, Wait};
use amita_types::{ClusterId, NodeId, StoreId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The cluster's UUID.
pub const CLUSTER: ClusterId = ClusterId(0xa117_a000_0000_0000_0000_0000_0000_0001);
const FABRIC_PORT: u16 = 7000;
/// The name under which a node is recorded.
#[must_use]
pub fn node_name(member: Member) -> String {
    format!("node-{}", member + 1)
}

/// Where NVMe/TCP is spoken, on every core.
pub const NVME_PORT: u16 = 4420;
/// Where iSCSI is spoken, on every core: each is a portal.
pub const ISCSI_PORT: u16 = 3260;
/// What the calendar of gateways says, for what lives for seconds.
const EPOCH_S: u64 = 1_800_000_000;
/// Where NBD is spoken, on the first core.
pub const NBD_PORT: u16 = 10809;
/// Store ids begin behind this one.
const STORES: u128 = 0x5107_e000_0000_0000_0000_0000_0000_0000;
/// Cores of a node, at most.
pub const MAX_CORES: usize = 4;
/// Places of the world that the first cores of a node take, one for each.
const PLACES: u32 = 2;
/// Further cores have theirs behind those of all nodes: what runs with fewer cores do does not hang on how many there
/// may be.
pub(super) const FURTHER: u32 = PLACES * MAX_NODES;
/// Nodes, at most.
const MAX_NODES: u32 = 5;
/// The place of the node that lies.
pub const LIAR_PLACE: u32 = HOSTS - 1;
/// The places of hosts that have connections begin behind this one.
const HOSTS: u32 = 100;

/// The node's number in the metadata.
#[must_use]
pub fn node_id(member: Member) -> NodeId {
    NodeId(member as u32 + 1)
}

/// One of its stores.
#[must_use]
pub fn store_id(member: Member, store: usize) -> StoreId {
    StoreId(STORES + (store as u128) * 0x100 + member as u128 + 1)
}

/// The node and the place there of a store.
#[must_use]
pub fn home(store: StoreId) -> (Member, usize) {
    let number = (store.0 - STORES) as usize;
    (number % 0x100 - 1, number / 0x100)
}

/// The disk of one of its stores.
#[must_use]
pub fn disk(member: Member, store: usize) -> String {
    format!("disk-{}-{}", member + 1, store + 1)
}

/// Its place in the world: every core is a place of its own.
#[must_use]
pub fn place(member: Member, core: usize) -> u32 {
    let (member, core) = (member as u32, core as u32);
    if core < PLACES {
        member * PLACES + core + 1
    } else {
        FURTHER + member * PLACES + core - PLACES + 1
    }
}

/// The member and core of a place, or of the core's second interface.
#[must_use]
pub fn at_place(place: u32) -> (Member, usize) {
    let (place, first) = match core_place(place) - 1 {
        place @ FURTHER.. => (place - FURTHER, PLACES),
        place => (place, 0),
    };
    ((place / PLACES) as usize, (place % PLACES + first) as usize)
}

/// The place of a host that has connections.
#[must_use]
pub fn host_place(number: u32) -> u32 {
    HOSTS + number
}

/// The host of a place, if it is one.
#[must_use]
pub fn host_at(place: u32) -> Option<u32> {
    place.checked_sub(HOSTS)
}

/// The address of its fabric.
#[must_use]
pub fn address(world: &World, member: Member) -> SocketAddr {
    SocketAddr::new(world.address(place(member, 0)), FABRIC_PORT)
}

/// The address of its fabric by the second network.
#[must_use]
pub fn second_address(world: &World, member: Member) -> SocketAddr {
    SocketAddr::new(world.address(second(place(member, 0))), FABRIC_PORT)
}

/// The address where it speaks NVMe/TCP.
#[must_use]
pub fn nvme_address(world: &World, member: Member) -> SocketAddr {
    SocketAddr::new(world.address(place(member, 0)), NVME_PORT)
}

/// A portal: a core's address where it speaks iSCSI.
#[must_use]
pub fn portal(member: Member, core: usize) -> SocketAddr {
    SocketAddr::new(amita_reactor::sim::node_ip(place(member, core)), ISCSI_PORT)
}

/// Opens what the records of initiators have sealed. It lasts as long as this program.
pub fn seal_key() -> Arc<SealKey> {
    static KEY: std::sync::OnceLock<Arc<SealKey>> = std::sync::OnceLock::new();
    KEY.get_or_init(|| Arc::new(SealKey::generate())).clone()
}

struct Running {
    driver: Wires,
    core: Core,
    /// Sessions whose hosts have hung up: the process finds that out when it has taken in what came before.
    hung_up: Vec<FrontId>,
}

pub struct Node {
    member: Member,
    /// Which life of the process this is.
    pub process: u64,
    cores: Vec<Running>,
    completions: Vec<Completion>,
    /// It stands still until then.
    pub frozen_until: Time,
    /// Its stores whose mount failed, or that met an error, and what they said.
    pub failed: BTreeMap<StoreId, String>,
    /// Its stores that serve.
    pub serving: Vec<StoreId>,
    /// What it says in the name of others, while it lies.
    pub imposter: Imposter,
    /// Who refuses its connects on the way.
    pub firewall: Firewall,
    has_second: bool,
}

impl Node {
    /// A node that is off.
    #[must_use]
    pub fn new(member: Member, setup: &Setup) -> Node {
        let random = Random::new(setup.seed).fork(44).fork(member as u64);
        Node {
            member,
            imposter: Imposter::new(member, setup.nodes, setup.stores, random),
            process: 0,
            cores: Vec::new(),
            completions: Vec::new(),
            frozen_until: Time::default(),
            failed: BTreeMap::new(),
            serving: Vec::new(),
            firewall: Firewall::default(),
            has_second: setup.has_second(),
        }
    }

    /// The number of its process among all that the cluster has seen.
    #[must_use]
    pub fn session(&self) -> u64 {
        (self.member as u64 + 1) << 32 | self.process
    }

    /// Is there a process?
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.cores.is_empty()
    }

    /// Starts the process.
    pub fn start(&mut self, world: &mut World, setup: &Setup) {
        assert!(!self.is_up(), "node {} runs already", self.member);
        self.process += 1;
        self.failed.clear();
        self.serving.clear();
        let cores = setup.cores[self.member];
        let wire = |core| {
            let at = place(self.member, core);
            let beside = self.has_second.then(|| world.driver(second(at)));
            let firewall = self.firewall.clone();
            Wires::new(world.driver(at), beside, firewall)
        };
        let drivers: Vec<Wires> = (0..cores).map(wire).collect();
        let mails = mails(&drivers);
        let address = address(world, self.member);
        let beside = self.has_second.then(|| second_address(world, self.member));
        for (core, (mut driver, mail)) in drivers.into_iter().zip(mails).enumerate() {
            let mut service = Core::new(self.config(setup, core, &driver), mail);
            service.plant_in_leases(setup.plants.qos);
            if let Some(most) = setup.turns {
                service.set_turns(turns::depth(most), setup.plants.qos);
            }
            if core == 0 {
                service
                    .listen_fabric(&mut driver, address)
                    .expect("nobody else has the address");
                if let Some(beside) = beside {
                    service
                        .listen_fabric2(&mut driver, beside)
                        .expect("nobody else has the address");
                }
            }
            if let Some(fronted) = &setup.fronted {
                let protocols = [fronted.protocol_of(0), fronted.protocol_of(1)];
                let several = usize::from(protocols[0] != protocols[1]);
                for protocol in &protocols[..=several] {
                    let chance = Random::new(setup.seed ^ self.session()).fork(core as u64);
                    let node = node_id(self.member);
                    listen(&mut service, &mut driver, node, core, (*protocol, chance));
                }
            }
            // The first store is on the last core, so that with two cores half of the requests come over a ring.
            for store in (0..setup.stores).filter(|store| (cores - 1 + store) % cores == core) {
                let disk = disk(self.member, store);
                service
                    .open_store(&mut driver, Path::new(&disk))
                    .expect("the disk is there");
            }
            self.cores.push(Running {
                driver,
                core: service,
                hung_up: Vec::new(),
            });
        }
    }

    fn config(&self, setup: &Setup, core: usize, driver: &Wires) -> CoreConfig {
        let session = self.session();
        let cores = setup.cores[self.member];
        let mut fabric = amita_fabric::Config::new(CLUSTER, node_id(self.member), session, driver.pool().clone());
        fabric.core = core as u16;
        fabric.cores = cores as u16;
        fabric.links_per_peer = cores as u16;
        fabric.seed = setup.seed ^ session ^ core as u64;
        let settings = &setup.settings;
        fabric.limits.window_requests = settings.window_requests;
        fabric.limits.window_bytes = settings.window_bytes;
        fabric.timeouts.quiet = settings.quiet;
        fabric.timeouts.silence = settings.quiet * 4;
        if let Some(measured) = setup.measured {
            fabric.timeouts.idle_ping = measured.idle_ping;
        }
        let store = amita_store::Config {
            cluster: Some(CLUSTER),
            lease: settings.lease,
            max_requests: settings.max_requests,
            idle_mark_after: settings.idle_mark_after,
            faults: setup.plants.store,
            ..amita_store::Config::default()
        };
        let sequencer = amita_sequencer::Config {
            store_timeout: settings.store_timeout,
            hedge_ms: settings.hedge_ms,
            confirm_reads: settings.confirm_reads && !setup.plants.trust_clocks,
            busy_pause: settings.busy_pause,
            faults: setup.plants.volume,
            ..amita_sequencer::Config::default()
        };
        let opener = amita_sequencer::OpenerConfig {
            release_timeout: settings.release_timeout,
            owner_patience: settings.owner_patience,
            mirror: setup.migrating.mirror.filter(|_| self.member >= setup.gateways()),
            keys: setup.sealed.clone().map(|sealed| Arc::new(sealed) as Arc<dyn Keys>),
            faults: setup.plants.volume,
            ..amita_sequencer::OpenerConfig::new(node_id(self.member), "")
        };
        fabric.security = setup.protection.map(|protection| {
            let name = node_name(self.member);
            let stand_in = StandIn::new(name, protection, setup.seed ^ session ^ core as u64);
            Security::new(Arc::new(stand_in))
        });
        fabric.faults = setup.plants.fabric;
        #[cfg(feature = "planted")]
        if setup.plan.lies(self.member) || setup.sealed.is_some() {
            let (imposter, sealed) = (self.imposter.clone(), setup.sealed.clone());
            let tongue = amita_fabric::Tongue::new(move |message, payload| {
                imposter.speak(message, payload);
                if let Some(sealed) = &sealed {
                    sealed.look(message, payload);
                }
            });
            fabric.tongue = Some(tongue);
        }
        CoreConfig {
            node: node_id(self.member),
            core,
            cores,
            stores: setup.stores,
            links_per_peer: setup.links_per_peer,
            dials_others: true,
            // As clusters with encrypted volumes have them; what is held against keys here is what goes to stores.
            secret_links: true,
            refused_for: setup.refused_for,
            stale_after: std::time::Duration::from_secs(1),
            nvme: amita_nvme::Config {
                stale_after: match setup.plants.keep_silent_hosts {
                    true => std::time::Duration::from_secs(3600),
                    false => std::time::Duration::from_secs(1),
                },
                silence_percent: match setup.plants.believe_silent_hosts {
                    true => 0,
                    false => amita_nvme::Config::default().silence_percent,
                },
                ..amita_nvme::Config::default()
            },
            iscsi: amita_iscsi::Config {
                // As hosts here are.
                ping_after: std::time::Duration::from_secs(4),
                faults: setup.plants.iscsi,
                ..amita_iscsi::Config::default()
            },
            silent_for: setup.silent_for,
            fabric,
            store,
            sequencer,
            opener,
            // Nodes carry moves themselves here, and have no gateway of its own for each.
            moves: true,
            trace: amita_node::trace::TraceConfig::default(),
            faults: setup.plants.node,
        }
    }

    /// Ends the process.
    pub fn end(&mut self, world: &mut World, power_cut: bool) {
        for core in 0..self.cores.len() {
            let at = place(self.member, core);
            for place in [at].into_iter().chain(self.has_second.then(|| second(at))) {
                match power_cut {
                    true => world.power_cut(place),
                    false => world.kill(place),
                }
            }
        }
        self.cores.clear();
        self.frozen_until = Time::default();
    }

    /// All of its cores stand still. A shorter time that begins meanwhile does not end the longer one.
    pub fn stand_still_until(&mut self, until: Time) {
        self.frozen_until = self.frozen_until.max(until);
    }

    /// One pass of one of its cores.
    pub fn pass(&mut self, core: usize) {
        let Some(running) = self.cores.get_mut(core) else {
            return;
        };
        running.driver.poll(Wait::No, &mut self.completions);
        if running.core.pass(&mut running.driver, &mut self.completions) == Wait::No {
            running.driver.again();
        }
        for front in running.hung_up.drain(..) {
            running.core.fronts.detach(&mut running.driver, front);
            running.driver.again();
        }
    }

    /// What the core has for its control plane.
    pub fn take_control(&mut self, core: usize) -> Vec<FromCore> {
        self.cores
            .get_mut(core)
            .map(|running| running.core.take_control().collect())
            .unwrap_or_default()
    }

    /// A message of the control plane.
    pub fn control(&mut self, core: usize, message: ToCore) {
        if let Some(running) = self.cores.get_mut(core) {
            running.core.control(message);
            running.driver.again();
        }
    }

    /// How many cores run.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// A core, for the checkers.
    pub fn each_core(&self) -> impl Iterator<Item = &Core> {
        self.cores.iter().map(|running| &running.core)
    }

    /// A host begins a session.
    pub fn attach(&mut self, core: usize) -> Option<(FrontId, Rc<RefCell<Heard>>)> {
        let running = self.cores.get_mut(core)?;
        let mut ours = None;
        let id = running.core.fronts.attach(|id| {
            let (session, heard) = Session::new(id);
            ours = Some(heard);
            Box::new(session)
        });
        Some((id, ours?))
    }

    /// A host asks for something in its session.
    pub fn ask(&mut self, core: usize, front: FrontId, act: impl FnOnce(&mut dyn StorageService)) {
        if let Some(running) = self.cores.get_mut(core) {
            running.core.fronts.with(front, |_, service| act(service));
            running.driver.again();
        }
    }

    /// A host ends its session: the process hears of it in its next pass.
    pub fn hang_up(&mut self, core: usize, front: FrontId) {
        if let Some(running) = self.cores.get_mut(core) {
            running.hung_up.push(front);
            running.driver.again();
        }
    }
}

/// Lets hosts in, as the product's cores do.
fn listen(
    service: &mut Core,
    driver: &mut Wires,
    node: NodeId,
    core: usize,
    (protocol, mut chance): (Protocol, Random),
) {
    let at = |port| SocketAddr::new(driver.ip(), port);
    let (address, make): (SocketAddr, MakeFront) = match protocol {
        Protocol::Nvme => {
            let (address, port, number) = (at(NVME_PORT), service.nvme_port().clone(), core as u16);
            let make = move |id, now, peer, outbox: &mut amita_reactor::Outbox| -> Box<dyn amita_frontend::Front> {
                Box::new(NvmeFront::accept(port.clone(), id, number, now, address, peer, outbox))
            };
            (address, Box::new(make))
        }
        Protocol::Iscsi => {
            let port = service.iscsi_port().clone();
            port.set_random(Box::new(move |bytes: &mut [u8]| {
                bytes.iter_mut().for_each(|byte| *byte = chance.below(256) as u8);
            }));
            port.set_clock(Box::new(|| EPOCH_S));
            let make = move |id, now, peer, _: &mut amita_reactor::Outbox| -> Box<dyn amita_frontend::Front> {
                Box::new(IscsiFront::accept(port.clone(), id, now, peer))
            };
            (at(ISCSI_PORT), Box::new(make))
        }
        Protocol::Nbd | Protocol::Client => {
            let settings = Arc::new(amita_nbd::Config::default());
            let make = move |id, now, _, outbox: &mut amita_reactor::Outbox| -> Box<dyn amita_frontend::Front> {
                Box::new(NbdFront::accept(settings.clone(), id, Who::Program, now, outbox))
            };
            (at(NBD_PORT), Box::new(make))
        }
    };
    if core == 0 {
        match protocol {
            Protocol::Nvme => service.serve_nvme(Cataloguer::new(node, CLUSTER, None)),
            Protocol::Iscsi => service.serve_iscsi(IscsiCataloguer::new(node, Some(seal_key()))),
            Protocol::Nbd | Protocol::Client => {}
        }
    }
    if matches!(protocol, Protocol::Nvme | Protocol::Iscsi) || core == 0 {
        let listening = service.fronts.listen(driver, address, make);
        listening.expect("nobody else has the address");
    }
}

/// The mail of every core of a node.
fn mails(drivers: &[Wires]) -> Vec<Mail> {
    if drivers.len() == 1 {
        return vec![Mail::alone()];
    }
    let cores = drivers.len();
    let mut senders: Vec<Vec<Option<Sender<CoreMessage>>>> = Vec::new();
    let mut receivers: Vec<Vec<Option<Receiver<CoreMessage>>>> = (0..cores).map(|_| Vec::new()).collect();
    for from in 0..cores {
        let mut row = Vec::new();
        for (to, driver) in drivers.iter().enumerate() {
            if from == to {
                row.push(None);
                receivers[to].push(None);
            } else {
                let (sender, receiver) = channel(ring_messages(cores), driver.waker());
                row.push(Some(sender));
                receivers[to].push(Some(receiver));
            }
        }
        senders.push(row);
    }
    senders
        .into_iter()
        .zip(receivers)
        .enumerate()
        .map(|(core, (senders, receivers))| Mail::new(core, senders, receivers))
        .collect()
}
