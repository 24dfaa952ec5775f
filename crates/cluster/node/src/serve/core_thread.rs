//! The threads of the cores.

use super::plane::{Control, Joined};
use super::vouching::Vouching;
use super::{ServeConfig, ServeError};
use crate::catalog::Cataloguer;
use crate::control::{FromCore, ToCore};
use crate::core::{Core, CoreConfig};
use crate::faults::Faults;
use crate::fronts::{MakeFront, MakeLocalFront};
use crate::iscsi_catalog::IscsiCataloguer;
use crate::mail::{CoreMessage, Mail, ring_messages};
use crate::proof::TlsHandshakes;
use crate::volume_keys::{KeyFile, VolumeKeys};
use crate::worker::Orders;
use amita_crypt::Keys;
use amita_fabric::secure::{Protection, Security};
use amita_frontend::Who;
use amita_identity::Live;
use amita_iscsi::IscsiFront;
use amita_keys::SealKey;
use amita_nbd::{Judge, NbdFront, TlsAcceptor};
use amita_nvme::NvmeFront;
use amita_reactor::core::{Core as CoreThread, CoreConfig as ThreadConfig, Service, Stop, placement, spawn};
use amita_reactor::driver::{Completion, Driver, Wait};
use amita_reactor::mailbox::{Receiver as RingEnd, Sender as RingStart, channel as ring};
use amita_reactor::uring::UringDriver;
use amita_reactor::{Pool, PoolConfig, Waker};
use amita_types::{ClusterId, NodeId};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Sends to cores from ordinary threads.
#[derive(Clone)]
pub(crate) struct ToCores(Vec<(Sender<ToCore>, Waker)>);

impl ToCores {
    /// How many cores there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn send(&self, core: usize, message: ToCore) {
        let Some((sender, waker)) = self.0.get(core) else {
            return;
        };
        // A core that has ended needs no messages.
        if sender.send(message).is_ok() {
            waker.wake();
        }
    }
}

/// What starts the cores.
pub(crate) struct CoreStarter<'a> {
    config: &'a ServeConfig,
    joined: &'a Joined,
    orders: Option<&'a Orders>,
    local: Option<Arc<UnixListener>>,
}

/// Cores that run.
pub(crate) struct Started {
    pub(crate) cores: Vec<CoreThread>,
    pub(crate) senders: ToCores,
    pub(crate) fabric: SocketAddr,
    pub(crate) fabric2: Option<SocketAddr>,
    pub(crate) nbd: Option<SocketAddr>,
    pub(crate) nvme: Option<SocketAddr>,
    pub(crate) iscsi: Vec<SocketAddr>,
}

/// What a core's thread says once it has a driver, and once it listens.
enum StartupEvent {
    Waker(usize, Waker),
    Fabric(SocketAddr, Option<SocketAddr>),
    Nbd(SocketAddr),
    /// Said by core 0 once it listens where `config.nvme` says.
    #[allow(dead_code)]
    Nvme(SocketAddr),
    /// Likewise, of each portal, in the order in which `config.iscsi` has them.
    Iscsi(SocketAddr),
    Failed(ServeError),
}

type Rings = (Vec<Option<RingStart<CoreMessage>>>, Vec<Option<RingEnd<CoreMessage>>>);

/// A core that the caller's own thread runs.
pub(crate) struct EmbeddedCore {
    pub(crate) driver: UringDriver,
    pub(crate) service: NodeService,
    pub(crate) senders: ToCores,
    pub(crate) fabric: SocketAddr,
    pub(crate) fabric2: Option<SocketAddr>,
}

/// What one core's thread is given.
struct CoreSetup {
    core: usize,
    config: ServeConfig,
    cluster: ClusterId,
    node: NodeId,
    session: u64,
    links: usize,
    stores: Vec<PathBuf>,
    /// What computes for hosts, and how it answers this core.
    orders: Option<(Orders, Sender<ToCore>)>,
    /// The Unix socket of NBD, on the core that serves it.
    local: Option<Arc<UnixListener>>,
    /// The keys of encrypted volumes, on the core that opens volumes.
    volume_keys: Option<Arc<dyn Keys>>,
    inbox: Receiver<ToCore>,
    outbox: Sender<Control>,
    words: Sender<StartupEvent>,
    rings: Receiver<Rings>,
}

impl<'a> CoreStarter<'a> {
    /// `orders`: what computes for hosts; none, where none connect that need it.
    pub(crate) fn new(config: &'a ServeConfig, joined: &'a Joined, orders: Option<&'a Orders>) -> CoreStarter<'a> {
        CoreStarter {
            config,
            joined,
            orders,
            local: None,
        }
    }

    /// NBD is served at this Unix socket as well.
    pub(crate) fn with_local(mut self, listener: Option<UnixListener>) -> CoreStarter<'a> {
        self.local = listener.map(Arc::new);
        self
    }

    fn core_setup(
        &self,
        core: usize,
        (sender, inbox): (&Sender<ToCore>, Receiver<ToCore>),
        to_control: &Sender<Control>,
        words: Sender<StartupEvent>,
        rings: Receiver<Rings>,
    ) -> Result<CoreSetup, ServeError> {
        let stores = self.config.stores.iter().skip(core).step_by(self.config.cores);
        let volume_keys = self.config.volume_keys.as_ref().filter(|_| core == 0);
        Ok(CoreSetup {
            core,
            config: self.config.clone(),
            cluster: self.joined.cluster,
            node: self.joined.node,
            session: self.joined.session,
            links: self.joined.links,
            stores: stores.cloned().collect(),
            orders: self.orders.map(|orders| (orders.clone(), sender.clone())),
            local: self.local.clone().filter(|_| core == 0),
            volume_keys: volume_keys.map(|path| self.volume_keys(path)).transpose()?,
            inbox,
            outbox: to_control.clone(),
            words,
            rings,
        })
    }

    /// Here and not on the core's thread, whose processor its thread would have.
    fn volume_keys(&self, path: &Path) -> Result<Arc<dyn Keys>, ServeError> {
        let client = Arc::new(self.joined.client.clone());
        let keys =
            VolumeKeys::start(KeyFile::at(path).of_cluster(self.joined.cluster), client).map_err(ServeError::Thread)?;
        Ok(keys)
    }

    /// Makes the one core of a process that runs it by itself.
    pub(crate) fn here(&self, to_control: &Sender<Control>) -> Result<EmbeddedCore, ServeError> {
        assert_eq!(self.config.cores, 1, "one thread runs one core");
        let (sender, inbox) = channel();
        let (words, heard) = channel();
        let (_, no_rings) = channel();
        let (driver, service) = self
            .core_setup(0, (&sender, inbox), to_control, words, no_rings)?
            .build()?;
        let bound = heard.try_iter().find_map(|word| match word {
            StartupEvent::Fabric(address, second) => Some((address, second)),
            _ => None,
        });
        let (fabric, fabric2) = bound.unwrap_or((self.config.fabric, self.config.fabric2));
        Ok(EmbeddedCore {
            senders: ToCores(vec![(sender, driver.waker())]),
            driver,
            service,
            fabric,
            fabric2,
        })
    }

    /// Starts all cores; returns when they listen.
    pub(crate) fn start(&self, stop: &Stop, to_control: &Sender<Control>) -> Result<Started, ServeError> {
        let cores = self.config.cores;
        let (words, heard) = channel();
        let mut threads = Vec::new();
        let mut senders = Vec::new();
        let mut ring_senders = Vec::new();
        for (core, cpu) in placement(cores, self.config.pin).into_iter().enumerate() {
            let (sender, inbox) = channel();
            let (give_rings, rings) = channel();
            let setup = self.core_setup(core, (&sender, inbox), to_control, words.clone(), rings)?;
            senders.push(sender);
            ring_senders.push(give_rings);
            threads.push((ThreadConfig { index: core, cpu }, setup));
        }
        drop(words);
        // `spawn` returns when its core is built, and a core is built when it has its rings, which need every core's
        // waker: so each is spawned by a helper of its own.
        let handles: Vec<_> = threads
            .into_iter()
            .map(|(config, setup)| {
                let stop = stop.clone();
                std::thread::spawn(move || (setup.core, spawn(config, stop, move || setup.starter())))
            })
            .collect();
        let mut wakers: Vec<Option<Waker>> = vec![None; cores];
        let (mut fabric, mut nbd, mut nvme, mut failed) = (None, None, None, None);
        let mut iscsi = Vec::new();
        let mut rings_given = false;
        for word in heard {
            match word {
                StartupEvent::Waker(core, waker) => wakers[core] = Some(waker),
                StartupEvent::Fabric(address, second) => fabric = Some((address, second)),
                StartupEvent::Nbd(address) => nbd = Some(address),
                StartupEvent::Nvme(address) => nvme = Some(address),
                StartupEvent::Iscsi(address) => iscsi.push(address),
                StartupEvent::Failed(why) => failed = Some(why),
            }
            if !rings_given && wakers.iter().all(Option::is_some) {
                give_rings(&wakers, &ring_senders);
                rings_given = true;
            }
        }
        drop(ring_senders);
        let mut running = Vec::new();
        for handle in handles {
            match handle.join() {
                Ok((_, Ok(core))) => running.push(core),
                Ok((core, Err(why))) => failed = failed.or(Some(ServeError::Core { core, why })),
                Err(_) => failed = failed.or(Some(ServeError::Thread(io::Error::other("a core's start panicked")))),
            }
        }
        if let Some(why) = failed {
            stop.stop();
            return Err(why);
        }
        let wakers = wakers.into_iter().flatten();
        let (fabric, fabric2) = fabric.unwrap_or((self.config.fabric, self.config.fabric2));
        Ok(Started {
            cores: running,
            senders: ToCores(senders.into_iter().zip(wakers).collect()),
            fabric,
            fabric2,
            nbd,
            nvme,
            iscsi,
        })
    }
}

/// Makes a ring for each ordered pair of cores and gives each core its ends.
fn give_rings(wakers: &[Option<Waker>], to: &[Sender<Rings>]) {
    let cores = wakers.len();
    let mut starts: Vec<Vec<Option<RingStart<CoreMessage>>>> =
        (0..cores).map(|_| (0..cores).map(|_| None).collect()).collect();
    let mut ends: Vec<Vec<Option<RingEnd<CoreMessage>>>> =
        (0..cores).map(|_| (0..cores).map(|_| None).collect()).collect();
    for (target, waker) in wakers.iter().enumerate() {
        let Some(waker) = waker else { continue };
        for source in 0..cores {
            if source != target {
                let (start, end) = ring(ring_messages(cores), waker.clone());
                starts[source][target] = Some(start);
                ends[target][source] = Some(end);
            }
        }
    }
    for (rings, sender) in starts.into_iter().zip(ends).zip(to) {
        let _ = sender.send(rings);
    }
}

impl CoreSetup {
    /// On the core's own thread: its driver and its service.
    fn starter(self) -> io::Result<(UringDriver, NodeService)> {
        let words = self.words.clone();
        self.build().map_err(|why| {
            let text = why.to_string();
            let _ = words.send(StartupEvent::Failed(why));
            io::Error::other(text)
        })
    }

    fn build(self) -> Result<(UringDriver, NodeService), ServeError> {
        let core_error = |why| ServeError::Core { core: self.core, why };
        let has_nbd = self.config.nbd.is_some() || self.config.nbd_socket.is_some();
        let has_hosts = has_nbd || self.config.nvme.is_some() || !self.config.iscsi.is_empty();
        let bytes = self.config.buffer_bytes;
        let memory = match has_hosts {
            true => PoolConfig::with_hosts(bytes),
            false => PoolConfig::with_total(bytes),
        };
        let pool = Pool::new(memory).map_err(|why| ServeError::Buffers {
            core: self.core,
            bytes,
            why,
        })?;
        let mut driver = UringDriver::new(self.config.driver.clone(), pool.clone()).map_err(core_error)?;
        let _ = self.words.send(StartupEvent::Waker(self.core, driver.waker()));
        let mail = if self.config.cores == 1 {
            Mail::alone()
        } else {
            let gone = |_| ServeError::Thread(io::Error::other("another core did not start"));
            let (starts, ends) = self.rings.recv().map_err(gone)?;
            Mail::new(self.core, starts, ends)
        };
        let mut core = Core::new(self.core_config(pool.clone()), mail);
        if has_hosts {
            core.fronts.hold_apart(pool.hosts());
        }
        if let Some((orders, sender)) = &self.orders {
            core.compute_elsewhere(orders.desk(sender.clone(), driver.waker()));
        }
        core.hold_stores();
        core.report_condition();
        let address = self.config.fabric_of(self.core);
        let bound = core
            .listen_fabric(&mut driver, address)
            .map_err(|why| ServeError::listen(address, &why))?;
        let second = match self.config.fabric2_of(self.core) {
            None => None,
            Some(address) => {
                let bound = core.listen_fabric2(&mut driver, address);
                Some(bound.map_err(|why| ServeError::listen(address, &why))?)
            }
        };
        if self.core == 0 {
            let _ = self.words.send(StartupEvent::Fabric(bound, second));
            self.listen_nbd(&mut core, &mut driver)?;
        }
        if let Some(address) = self.config.nvme {
            self.listen_nvme(&mut core, &mut driver, address)?;
        }
        if !self.config.iscsi.is_empty() {
            self.listen_iscsi(&mut core, &mut driver)?;
        }
        for path in &self.stores {
            if let Err(why) = core.open_store(&mut driver, path) {
                let why = ServeError::store(path, &why).to_string();
                let failed = FromCore::StoreFailed {
                    store: None,
                    path: path.display().to_string(),
                    why,
                };
                let _ = self.outbox.send(Control::FromCore(failed));
            }
        }
        Ok((
            driver,
            NodeService {
                core,
                inbox: self.inbox,
                outbox: self.outbox,
            },
        ))
    }

    /// One core has the sessions of all clients, and hands their I/O to the cores that the chunks belong to.
    fn listen_nbd(&self, core: &mut Core, driver: &mut UringDriver) -> Result<(), ServeError> {
        let judge = |live: &Arc<Live>| Arc::new(Vouching(Arc::clone(live))) as Arc<dyn Judge>;
        let settings = amita_nbd::Config {
            cluster: Some(self.cluster),
            judge: self.config.identity.as_ref().map(judge),
            ..self.config.nbd_config.clone()
        };
        if let (Some(listener), Some(path)) = (&self.local, &self.config.nbd_socket) {
            // What passes there passes no network: who may open the file has proved enough.
            let settings = Arc::new(amita_nbd::Config {
                tls: settings.tls.as_ref().map(TlsAcceptor::optional),
                ..settings.clone()
            });
            let make: MakeLocalFront = Box::new(move |id, now, _, outbox| {
                Box::new(NbdFront::accept(settings.clone(), id, Who::Local, now, outbox))
            });
            let listening = listener
                .try_clone()
                .and_then(|listener| core.fronts.listen_local(driver, listener, make));
            listening.map_err(|why| ServeError::local_socket(path, &why))?;
        }
        let Some(address) = self.config.nbd else { return Ok(()) };
        let (settings, insecure_network) = (Arc::new(settings), self.config.insecure_network);
        let make: MakeFront = Box::new(move |id, now, peer, outbox| {
            let local = insecure_network || peer.ip().to_canonical().is_loopback();
            let who = if local { Who::Local } else { Who::Stranger };
            Box::new(NbdFront::accept(settings.clone(), id, who, now, outbox))
        });
        let (_, bound) = core
            .fronts
            .listen(driver, address, make)
            .map_err(|why| ServeError::listen(address, &why))?;
        let _ = self.words.send(StartupEvent::Nbd(bound));
        Ok(())
    }

    /// Every core listens at the same address: the kernel spreads the queues of hosts over them.
    fn listen_nvme(&self, core: &mut Core, driver: &mut UringDriver, address: SocketAddr) -> Result<(), ServeError> {
        let (port, number) = (core.nvme_port().clone(), self.core as u16);
        let make: MakeFront = Box::new(move |id, now, peer, outbox| {
            Box::new(NvmeFront::accept(port.clone(), id, number, now, address, peer, outbox))
        });
        let (_, bound) = core
            .fronts
            .listen(driver, address, make)
            .map_err(|why| ServeError::listen(address, &why))?;
        if self.core == 0 {
            core.serve_nvme(Cataloguer::new(self.node, self.cluster, self.seal_key()?));
            let _ = self.words.send(StartupEvent::Nvme(bound));
        }
        Ok(())
    }

    /// Every core listens at each portal: the kernel spreads the sessions of initiators over them.
    fn listen_iscsi(&self, core: &mut Core, driver: &mut UringDriver) -> Result<(), ServeError> {
        for address in &self.config.iscsi {
            let (port, portal) = (core.iscsi_port().clone(), *address);
            let make: MakeFront =
                Box::new(move |id, now, peer, _| Box::new(IscsiFront::accept(port.clone(), id, now, peer).at(portal)));
            let (_, bound) = core
                .fronts
                .listen(driver, portal, make)
                .map_err(|why| ServeError::listen(*address, &why))?;
            if self.core == 0 {
                let _ = self.words.send(StartupEvent::Iscsi(bound));
            }
        }
        if self.core == 0 {
            core.serve_iscsi(IscsiCataloguer::new(self.node, self.seal_key()?));
        }
        Ok(())
    }

    /// The key that opens the secrets of hosts, if this node was given it.
    fn seal_key(&self) -> Result<Option<Arc<SealKey>>, ServeError> {
        let Some(path) = &self.config.seal_key else {
            return Ok(None);
        };
        let key = SealKey::load(path).map_err(|why| ServeError::Setting {
            setting: "seal-key",
            why: why.to_string(),
        })?;
        Ok(Some(Arc::new(key)))
    }

    fn core_config(&self, pool: Pool) -> CoreConfig {
        let mut fabric = amita_fabric::Config::new(self.cluster, self.node, self.session, pool.clone());
        fabric.core = self.core as u16;
        fabric.cores = self.config.cores as u16;
        // One for each core; which cores dial a peer at all is chosen by `peer_links`.
        fabric.links_per_peer = self.config.cores as u16;
        fabric.seed = self.session ^ self.core as u64;
        fabric.security = self.config.identity.as_ref().map(|live| {
            let handshakes = TlsHandshakes::new(live.clone(), self.config.protection);
            Security::new(Arc::new(handshakes))
        });
        let store = amita_store::Config {
            cluster: Some(self.cluster),
            index_bytes: self.config.index_bytes / self.config.stores.len().max(1) as u64,
            discard: self.config.discard,
            ..amita_store::Config::default()
        };
        CoreConfig {
            node: self.node,
            core: self.core,
            cores: self.config.cores,
            stores: self.config.stores.len(),
            links_per_peer: self.links,
            dials_others: self.config.identity.is_some() || self.config.insecure_network,
            secret_links: self.config.identity.is_some() && self.config.protection == Protection::Secret,
            refused_for: self.config.refused_for,
            silent_for: self.config.silent_for,
            stale_after: self.config.stale_after,
            nvme: self.config.nvme_config.clone(),
            iscsi: self.config.iscsi_config.clone(),
            fabric,
            store,
            sequencer: amita_sequencer::Config {
                store_timeout: self.config.silent_for,
                confirm_reads: self.config.confirm_reads,
                pool,
                ..amita_sequencer::Config::default()
            },
            opener: amita_sequencer::OpenerConfig {
                mirror: self.config.mirror,
                owner_patience: self.config.owner_patience,
                keys: self.volume_keys.clone(),
                ..amita_sequencer::OpenerConfig::new(self.node, "")
            },
            moves: self.config.moves,
            trace: self.config.trace.clone(),
            faults: Faults::NONE,
        }
    }
}

/// A core on its thread, with its queues to and from the control plane.
pub(crate) struct NodeService {
    pub(crate) core: Core,
    inbox: Receiver<ToCore>,
    outbox: Sender<Control>,
}

impl Service for NodeService {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        while let Ok(message) = self.inbox.try_recv() {
            self.core.control(message);
        }
        let wait = self.core.pass(driver, completions);
        if self.core.has_control() {
            for message in self.core.take_control() {
                // The control thread ends after the cores.
                let _ = self.outbox.send(Control::FromCore(message));
            }
        }
        wait
    }
}
