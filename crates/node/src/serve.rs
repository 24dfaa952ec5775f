//! The process of a node: core threads, the control thread, and the metadata.
//!
//! Each core runs [`Core`](crate::Core) on a thread of its own. The control plane (lease, watch, metadata calls,
//! registration of stores) runs on ordinary threads: it is slow, may block, and never touches an I/O. The two talk by
//! queues.

mod core_thread;
mod error;
mod keeper;
mod settings;

pub use error::ServeError;
pub use settings::ServeConfig;

use crate::control::{FromCore, Record, ToCore};
use crate::token;
use amita_cluster::{ClusterId, NodeId, StoreId};
use amita_control::admin::{self, AdminError};
use amita_control::agent::{self, Agent, Notice};
use amita_control::events::{Draft, Kind};
use amita_meta::Client;
use amita_reactor::core::{Core as CoreThread, Stop};
use core_thread::{Hatch, ToCores};
use keeper::Keeper;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a start waits for the stores to be mounted; mounting is bounded by a store's log, so this is plenty.
const MOUNT_PATIENCE: Duration = Duration::from_secs(600);
/// How long a start waits for a port that another process has.
const PORT_PATIENCE: Duration = Duration::from_secs(2);
/// The pause between looks at it.
const PORT_PAUSE: Duration = Duration::from_millis(20);
/// The pause between attempts to reach the metadata at the start.
const METADATA_PAUSE: Duration = Duration::from_millis(300);

/// Where the node's messages for the operator go.
pub type Log = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A person must look.
    Error,
    /// Something is not as it should be; the node goes on.
    Warn,
    /// What a person who watches wants to know.
    Info,
}

/// What the control thread hears.
enum Control {
    FromCore(FromCore),
    Stop,
}

/// A node that serves. Dropped, it stops.
pub struct Running {
    cores: Vec<CoreThread>,
    stop: Stop,
    control: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
    to_keeper: Sender<keeper::Input>,
    to_control: Sender<Control>,
    senders: ToCores,
    /// Its number.
    pub node: NodeId,
    /// Where the fabric of core 0 listens.
    pub fabric: SocketAddr,
    /// Where NBD listens, if it does.
    pub nbd: Option<SocketAddr>,
    /// How many of the stores serve.
    pub stores: usize,
}

/// Starts a node and returns when it serves: listening, its stores mounted, registered, its lease held.
///
/// # Errors
/// See [`ServeError`]. A store that cannot serve is an error in the log and nothing more, as long as another can.
pub fn serve(config: &ServeConfig, log: &Log) -> Result<Running, ServeError> {
    config.check()?;
    let client = Client::connect(&config.metadata).map_err(AdminError::from)?;
    let cluster = reach(&client, config, log)?;
    let node = admin::node_number(&client, &config.name)?;
    for address in config.listen_addresses() {
        // The cores' sockets may share a port with each other; with another process they must not.
        check_free(address)?;
    }
    let session = RandomState::new().hash_one(node) | 1;
    let (to_control, from_cores) = channel();
    let stop = Stop::new();
    let hatch = Hatch {
        config,
        cluster,
        node,
        session,
    };
    let started = hatch.start(&stop, &to_control)?;

    let senders = started.senders;
    let sink_log = log.clone();
    let sink_senders = senders.clone();
    let (to_keeper, keeper_inputs) = channel();
    let sink_keeper = to_keeper.clone();
    let sink: agent::Sink = Arc::new(move |notice| tell(notice, &sink_senders, &sink_keeper, &sink_log));
    let mut agent_config = agent::Config::new(node, session);
    agent_config.lease_ttl_s = config.lease_ttl_s;
    agent_config.coordinate = config.coordinate;
    agent_config.scrub_every = config.scrub_every;
    let agent = match Agent::start(&client, &agent_config, sink) {
        Ok(agent) => agent,
        Err(why) => {
            stop.stop();
            return Err(ServeError::NameTaken(why));
        }
    };
    let fabric = started.fabric;
    let nbd = started.nbd;
    let advertised = |address: SocketAddr| SocketAddr::new(config.advertise.unwrap_or(address.ip()), address.port());
    let nbd_text = nbd.map(|address| advertised(address).to_string());
    admin::register_node(
        &client,
        &config.name,
        &config
            .advertise_fabric
            .unwrap_or_else(|| advertised(fabric))
            .to_string(),
        nbd_text.as_deref(),
        config.cores as u32,
    )?;
    if config.site.is_some() || config.rack.is_some() {
        admin::place_node(&client, &config.name, config.site.as_deref(), config.rack.as_deref())?;
    }
    let keeper = Keeper {
        client: client.clone(),
        cluster,
        node,
        stores: config.stores.len(),
        cores: senders.clone(),
        log: log.clone(),
    };
    let keeper = std::thread::Builder::new()
        .name("amita-keeper".to_owned())
        .spawn(move || keeper.run(&keeper_inputs))
        .map_err(ServeError::Thread)?;
    let (mounted, mounts) = channel();
    let control = {
        let to_keeper = to_keeper.clone();
        let (log, node, paths) = (log.clone(), node, config.stores.len());
        std::thread::Builder::new()
            .name("amita-control".to_owned())
            .spawn(move || control(&from_cores, &agent, node, &log, &to_keeper, &mounted, paths))
            .map_err(ServeError::Thread)?
    };
    let mut running = Running {
        cores: started.cores,
        stop,
        control: Some(control),
        keeper: Some(keeper),
        to_keeper,
        to_control,
        senders,
        node,
        fabric,
        nbd,
        stores: 0,
    };
    running.stores = await_stores(config, &mounts)?;
    Ok(running)
}

/// Is nobody else listening there? A process that was killed a moment ago may seem to: the kernel ends its ring, and what
/// the ring holds, a little later than the process.
fn check_free(address: SocketAddr) -> Result<(), ServeError> {
    let until = Instant::now() + PORT_PATIENCE;
    loop {
        match TcpListener::bind(address) {
            Ok(_) => return Ok(()),
            Err(why) if why.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(PORT_PAUSE);
            }
            Err(why) => return Err(ServeError::listen(address, &why)),
        }
    }
}

/// The cluster's record, waiting for the metadata if it is away.
fn reach(client: &Client, config: &ServeConfig, log: &Log) -> Result<ClusterId, ServeError> {
    let until = Instant::now() + config.metadata_patience;
    let hasher = RandomState::new();
    let fresh = ClusterId(u128::from(hasher.hash_one(0)) << 64 | u128::from(RandomState::new().hash_one(1)));
    let mut said = false;
    loop {
        match admin::init_cluster(client, fresh) {
            Ok(cluster) if cluster.version > amita_cluster::map::METADATA_VERSION => {
                return Err(ServeError::NewerCluster {
                    version: cluster.version,
                });
            }
            Ok(cluster) => return Ok(cluster.id),
            Err(AdminError::Metadata(why)) if Instant::now() < until => {
                if !said {
                    log(
                        Level::Warn,
                        &format!("{why}; waiting for it for {:?}", config.metadata_patience),
                    );
                    said = true;
                }
                std::thread::sleep(METADATA_PAUSE);
            }
            Err(why) => return Err(why.into()),
        }
    }
}

fn tell(notice: Notice, cores: &ToCores, keeper: &Sender<keeper::Input>, log: &Log) {
    match notice {
        // Core 0 passes records on to the others. The keeper ends before the agent.
        Notice::Record { key, value, revision } => {
            let _ = keeper.send(keeper::Input::Record {
                key: key.clone(),
                value: value.clone(),
                revision,
            });
            cores.send(0, ToCore::Record(Record { key, value, revision }));
        }
        Notice::Settled { revision } => drop(keeper.send(keeper::Input::Settled { revision })),
        Notice::Reply { call, result } => {
            cores.send(
                token::id_core(call),
                ToCore::Metadata {
                    call: amita_volume::CallId(call),
                    result,
                },
            );
        }
        Notice::Warn(text) => log(Level::Warn, &text),
        Notice::Info(text) => log(Level::Info, &text),
    }
}

/// How many warnings become events: the log of events must not be filled by one fault that repeats itself.
#[derive(Default)]
struct Allowance {
    minute: Option<Instant>,
    used: u32,
}

impl Allowance {
    const PER_MINUTE: u32 = 20;

    fn allow(&mut self) -> bool {
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        if self.minute.is_none_or(|start| now.duration_since(start) >= minute) {
            *self = Allowance {
                minute: Some(now),
                used: 0,
            };
        }
        self.used += 1;
        self.used <= Self::PER_MINUTE
    }
}

/// The control thread: what the cores want of the outside.
fn control(
    inputs: &Receiver<Control>,
    agent: &Agent,
    node: NodeId,
    log: &Log,
    keeper: &Sender<keeper::Input>,
    mounted: &Sender<Result<(), String>>,
    stores: usize,
) {
    // Only the start listens, and only to the first word on each store.
    let mut untold = stores;
    let mut serving: BTreeMap<String, StoreId> = BTreeMap::new();
    let mut warnings = Allowance::default();
    for input in inputs {
        match input {
            Control::Stop => return,
            Control::FromCore(FromCore::Metadata { call, request }) => agent.call(call.0, request),
            Control::FromCore(FromCore::StoreServes {
                store,
                path,
                size_bytes,
                report,
            }) => {
                let text = format!("store {store} on {path} serves: {report}");
                log(Level::Info, &text);
                agent.journal().tell(Draft::new(Kind::StoreServes, [store], text));
                let (log, mounted, services) = (log.clone(), mounted.clone(), agent.services());
                serving.insert(path.clone(), store);
                services.serves(store);
                let _ = keeper.send(keeper::Input::Serves {
                    store,
                    path: path.clone(),
                });
                let first = untold > 0;
                untold -= usize::from(first);
                agent.run(move |client| {
                    let record = admin::store_record(store, node, &path, size_bytes);
                    // It serves whether or not the metadata can be told now; the next start registers it again.
                    if let Err(why) = admin::register_store(client, &record) {
                        log(
                            Level::Error,
                            &format!("store {store} could not be registered: {why}; restart the node"),
                        );
                    }
                    services.show(client);
                    if first {
                        let _ = mounted.send(Ok(()));
                    }
                });
            }
            Control::FromCore(FromCore::StoreFailed { store, path, why }) => {
                let text = format!("store {path} does not serve: {why}");
                log(Level::Error, &text);
                let mut objects = vec![path.clone()];
                if let Some(store) = store.or_else(|| serving.remove(&path)) {
                    agent.store_failed(store);
                    objects.push(store.to_string());
                }
                let event = Draft::new(Kind::StoreFailed, objects, text.clone());
                agent.journal().tell(event);
                // One that has served was told of when it began to.
                if store.is_none() && untold > 0 {
                    untold -= 1;
                    let _ = mounted.send(Err(text));
                }
            }
            Control::FromCore(FromCore::Recalled {
                store,
                newest,
                groups,
                volumes,
            }) => {
                let _ = keeper.send(keeper::Input::Recalled {
                    store,
                    newest,
                    groups,
                    volumes,
                });
            }
            Control::FromCore(FromCore::Kept { store, revision }) => {
                let _ = keeper.send(keeper::Input::Kept { store, revision });
            }
            Control::FromCore(FromCore::Warning(text)) => {
                log(Level::Warn, &text);
                if warnings.allow() {
                    agent.journal().tell(Draft::new(Kind::NodeWarning, [node], text));
                }
            }
            Control::FromCore(FromCore::Description(text)) => log(Level::Info, &text),
        }
    }
}

/// Waits until each store serves or has failed; an error when none serves.
fn await_stores(config: &ServeConfig, mounts: &Receiver<Result<(), String>>) -> Result<usize, ServeError> {
    let until = Instant::now() + MOUNT_PATIENCE;
    let mut serving = 0;
    let mut failures = Vec::new();
    for _ in 0..config.stores.len() {
        match mounts.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => serving += 1,
            Ok(Err(why)) => failures.push(why),
            Err(RecvTimeoutError::Timeout) => failures.push("a store was not mounted in time".to_owned()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if serving == 0 && !config.stores.is_empty() {
        return Err(ServeError::NoStore { failures });
    }
    Ok(serving)
}

impl Running {
    /// Has every core write to the log what it has under way.
    pub fn describe(&self) {
        for core in 0..self.cores.len() {
            self.senders.send(core, ToCore::Describe);
        }
    }

    /// Has a core ended (by a panic)? Then the process should end as well.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.cores.iter().any(CoreThread::is_finished)
    }

    /// Stops, and waits for all threads.
    ///
    /// # Errors
    /// A core had panicked.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        if let Some(keeper) = self.keeper.take() {
            // While the cores run: the stores get the last copy of the metadata.
            let (done, ended) = channel();
            let _ = self.to_keeper.send(keeper::Input::Stop(done));
            let _ = ended.recv();
            let _ = keeper.join();
        }
        self.stop.stop();
        let mut result = Ok(());
        for core in self.cores.drain(..) {
            if let Err(panicked) = core.join() {
                result = Err(ServeError::Panicked(panicked));
            }
        }
        let _ = self.to_control.send(Control::Stop);
        if let Some(control) = self.control.take() {
            // The agent ends with the thread: it leaves word that the node stopped in good order.
            let _ = control.join();
        }
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// An address that others can dial.
fn is_dialable(address: IpAddr) -> bool {
    !address.is_unspecified()
}
