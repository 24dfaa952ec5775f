//! The control plane of a node's process: what joins the cluster before there is a core, and the threads that the cores
//! hand everything slow to.
//!
//! A node that serves ([`super::serve`]) and a client that runs its core by itself ([`crate::embed`]) share it.

use super::claim::Claims;
use super::core_thread::ToCores;
use super::keeper::{self, Keeper};
use super::links::{Hearing, Measuring, Meter, Shown};
use super::recheck::Recheck;
use super::{Level, Log, ServeConfig, ServeError, is_dialable, local_socket, look, watch};
use crate::control::{FromCore, Record, ToCore};
use crate::observe::{CollectReport, CollectSessions, ExportCounters, Server, TraceSource};
use crate::peer_links;
use crate::token;
use amita_control::admin::{self, AdminError};
use amita_control::agent::{self, Agent, Notice};
use amita_control::events::{Draft, Kind};
use amita_control::past::{Past, PastFile};
use amita_metadata::{Client, Refusal};
use amita_types::map::{self, Mount, Node};
use amita_types::{ClusterId, NodeId, StoreId};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a start waits for a port that another process has.
const PORT_PATIENCE: Duration = Duration::from_secs(2);
/// The pause between looks at it.
const PORT_PAUSE: Duration = Duration::from_millis(20);
/// The pause between attempts to reach the metadata at the start.
const METADATA_PAUSE: Duration = Duration::from_millis(300);

/// What the control thread hears.
pub(crate) enum Control {
    FromCore(FromCore),
    /// The record of this node is gone from the metadata.
    Forgotten,
    /// Somebody else serves a store that this process had claimed.
    Taken(StoreId),
    Stop,
}

/// What is known before the first core starts.
pub(crate) struct Joined {
    pub(crate) client: Client,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    /// Made anew at each start.
    pub(crate) session: u64,
    /// Connections to each peer, over all cores.
    pub(crate) links: usize,
    /// What is known of the metadata's past, and where that is kept.
    past: Past,
    past_file: Option<PastFile>,
    /// The cluster did not know the node before.
    fresh: bool,
}

impl Joined {
    /// Checks all that can be checked beforehand, reaches the metadata, and takes a number. Nothing is registered.
    pub(crate) fn join(config: &ServeConfig, log: &Log) -> Result<Joined, ServeError> {
        config.check()?;
        let client = config.metadata_client().map_err(AdminError::from)?;
        let mut stores = look::look(&config.stores, log)?;
        for address in config.listen_addresses() {
            // The cores' sockets may share a port with each other; with another process they must not.
            check_free(config, address)?;
        }
        local_socket::check(config)?;
        let (past, past_file) = past(config)?;
        let cluster = reach(&client, config, &stores, &past, log)?;
        stores.refuse_others(cluster)?;
        let known = admin::nodes(&client)?;
        let known = known.iter().find(|known| known.name == config.name);
        let own = known.map(|known| known.id);
        stores.refuse(|found| match admin::check_claim(&client, found.store, own) {
            Ok(()) => Ok(None),
            Err(AdminError::Metadata(why)) => Err(AdminError::from(why).into()),
            Err(why) => Ok(Some(why.to_string())),
        })?;
        let node = if config.client {
            admin::forget_dead_clients(&client)?;
            admin::client_number(&client, &config.name)?
        } else {
            admin::reserve_node(&client, &config.name)?
        };
        let session = RandomState::new().hash_one(node) | 1;
        let peers = admin::nodes(&client)?.iter().filter(|other| other.id != node).count();
        Ok(Joined {
            links: peer_links::links(config.links_per_peer, config.cores, peers),
            client,
            cluster,
            node,
            session,
            past: past.with_cluster(cluster),
            past_file,
            fresh: own.is_none() && !config.client,
        })
    }

    /// A start has failed after the node was registered: one that the cluster did not know before is forgotten again. Its
    /// threads have ended.
    pub(crate) fn leave_nothing(&self, config: &ServeConfig) {
        if self.fresh {
            // Where the metadata is away, `amita node remove` does it later.
            let _ = admin::remove_node(&self.client, &config.name);
        }
    }
}

/// Is nobody else listening there? A process that was killed a moment ago may seem to: the kernel ends its ring, and what
/// the ring holds, a little later than the process.
fn check_free(config: &ServeConfig, address: SocketAddr) -> Result<(), ServeError> {
    let until = Instant::now() + PORT_PATIENCE;
    loop {
        config.check_interrupted()?;
        match TcpListener::bind(address) {
            Ok(_) => return Ok(()),
            Err(why) if why.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(PORT_PAUSE);
            }
            Err(why) => return Err(ServeError::listen(address, &why)),
        }
    }
}

/// What an earlier process of this node has known of the metadata, and where that is kept. It lies in the folder of the node's
/// identity; without one nobody on this machine proves anything. A program has as many processes as it likes, without a place
/// of their own.
fn past(config: &ServeConfig) -> Result<(Past, Option<PastFile>), ServeError> {
    let folder = config.identity.as_ref().and_then(|live| live.folder());
    let Some(folder) = folder.filter(|_| !config.client) else {
        return Ok((Past::default(), None));
    };
    let file = PastFile::in_folder(folder, &config.name);
    let past = file.load().map_err(|why| ServeError::PastUnreadable {
        path: file.path().to_owned(),
        why,
    })?;
    Ok((past.unwrap_or_default(), Some(file)))
}

/// The cluster's record, waiting for the metadata if it is away, or is not what the node has known: nothing is asked of that.
fn reach(
    client: &Client,
    config: &ServeConfig,
    stores: &look::Looked,
    past: &Past,
    log: &Log,
) -> Result<ClusterId, ServeError> {
    let until = Instant::now() + config.metadata_patience;
    let hasher = RandomState::new();
    let wanted = config.identity.as_ref().map(|live| live.name().cluster());
    let fresh = wanted.unwrap_or_else(|| {
        ClusterId(u128::from(hasher.hash_one(0)) << 64 | u128::from(RandomState::new().hash_one(1)))
    });
    let mut said = false;
    loop {
        config.check_interrupted()?;
        if let Ok(Err(doubt)) = past.look(client) {
            if Instant::now() >= until {
                return Err(ServeError::NotBelieved(doubt));
            }
            if !said {
                let patience = config.metadata_patience;
                log(
                    Level::Error,
                    &format!("{doubt}; waiting for another one for {patience:?}"),
                );
                said = true;
            }
            std::thread::sleep(METADATA_PAUSE);
            continue;
        }
        // A store that belongs to a cluster is no reason to make another one.
        let found = match stores.belongs() {
            None => admin::init_cluster(client, fresh),
            Some((path, cluster)) => match admin::cluster(client) {
                Err(AdminError::NoCluster) => {
                    return Err(ServeError::ClusterLost {
                        path: path.to_owned(),
                        cluster,
                    });
                }
                found => found,
            },
        };
        match found {
            Ok(cluster) if cluster.version > amita_types::map::METADATA_VERSION => {
                return Err(ServeError::NewerCluster {
                    version: cluster.version,
                });
            }
            Ok(cluster) => match wanted {
                Some(wanted) if wanted != cluster.id => {
                    return Err(ServeError::OtherCluster {
                        found: cluster.id,
                        wanted,
                    });
                }
                _ => return Ok(cluster.id),
            },
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

/// What the cores are to the control plane.
pub(crate) struct Cores {
    pub(crate) senders: ToCores,
    pub(crate) fabric: SocketAddr,
    pub(crate) fabric2: Option<SocketAddr>,
    pub(crate) nbd: Option<SocketAddr>,
    pub(crate) nvme: Option<SocketAddr>,
    /// Its portals for iSCSI.
    pub(crate) iscsi: Vec<SocketAddr>,
    pub(crate) to_control: Sender<Control>,
    pub(crate) from_cores: Receiver<Control>,
}

/// The control plane, while it runs.
pub(crate) struct Plane {
    control: Option<JoinHandle<()>>,
    keeper: Option<(JoinHandle<()>, Sender<keeper::Input>)>,
    to_control: Sender<Control>,
    /// Where the cores' figures can be read.
    recheck: Option<Recheck>,
    /// Measures the links to other nodes.
    measuring: Option<Measuring>,
    metrics: Option<Server>,
    /// Asks the cores.
    collect: CollectReport,
    /// Takes the cores' traces.
    traces: TraceSource,
    /// Asks the cores for sessions of initiators.
    sessions: CollectSessions,
    /// What a client takes with it when it goes.
    leaves: Option<(Client, Node)>,
    /// Were all records of the metadata sent to core 0?
    settled: Arc<AtomicBool>,
    /// The stores, until all of them have been heard of.
    pub(crate) mounts: Mounts,
}

impl Plane {
    /// Takes the lease, registers the node, and starts the threads.
    pub(crate) fn start(config: &ServeConfig, joined: &Joined, cores: Cores, log: &Log) -> Result<Plane, ServeError> {
        let Joined {
            client,
            cluster,
            node,
            session,
            ..
        } = joined;
        let (to_keeper, keeper_inputs) = channel();
        // A client has no stores to keep a copy of the metadata on.
        let to_keeper = (!config.client).then_some(to_keeper);
        let settled = Arc::new(AtomicBool::new(false));
        // A client has nothing to say of the network between nodes.
        let hearing = (!config.client).then(|| Hearing::of(*node));
        let claims = Claims::new(client.clone(), *node, *session, cores.senders.clone(), log.clone());
        let sink = Sink {
            cores: cores.senders.clone(),
            keeper: to_keeper.clone(),
            control: cores.to_control.clone(),
            own_key: config.client.then(|| map::node_key(&config.name)),
            mounts: map::mounts_prefix(),
            hearing: hearing.clone(),
            settled: settled.clone(),
            claims: claims.clone(),
            log: log.clone(),
        };
        let mut agent_config = agent::Config::new(*node, *session);
        agent_config.lease_ttl_s = config.lease_ttl_s;
        agent_config.coordinate = config.coordinate;
        agent_config.scrub_every = config.scrub_every;
        agent_config.leave = config.client;
        agent_config.past = joined.past.clone();
        agent_config.past_file = joined.past_file.clone();
        let agent = Agent::start(client, &agent_config, Arc::new(move |notice| sink.tell(notice)))
            .map_err(ServeError::NameTaken)?;
        let older = Arc::<AtomicBool>::default();
        let export = Arc::new(ExportCounters::default());
        let shown = Shown::default();
        let collect = watch::collector(config, joined, &cores.senders, &agent, &older, &export, &shown);
        let traces = watch::traces(config, joined, &cores.senders, &export);
        let sessions = watch::sessions(&cores.senders);
        let metrics = watch::start(config, &collect)?;
        let record = register(config, joined, &cores, metrics.as_ref().map(Server::address), log)?;
        let keeper = match to_keeper {
            None => None,
            Some(to_keeper) => {
                let keeper = Keeper {
                    client: client.clone(),
                    cluster: *cluster,
                    node: *node,
                    stores: config.stores.len(),
                    remembers: joined.past.revision() > 0,
                    cores: cores.senders.clone(),
                    journal: agent.journal().clone(),
                    older,
                    log: log.clone(),
                };
                let thread = std::thread::Builder::new()
                    .name("amita-keeper".to_owned())
                    .spawn(move || keeper.run(&keeper_inputs))
                    .map_err(ServeError::Thread)?;
                Some((thread, to_keeper))
            }
        };
        let recheck = match &config.identity {
            None => None,
            Some(live) => Some(Recheck::start(live.clone(), cores.senders.clone()).map_err(ServeError::Thread)?),
        };
        let measuring = match hearing {
            None => None,
            Some(hearing) => {
                let meter = Meter {
                    node: *node,
                    name: config.name.clone(),
                    client: client.clone(),
                    cores: cores.senders.clone(),
                    hearing,
                    journal: agent.journal().clone(),
                    log: log.clone(),
                };
                Some(Measuring::start(meter, shown).map_err(ServeError::Thread)?)
            }
        };
        let (mounted, mounts) = channel();
        let thread = ControlThread {
            agent,
            node: *node,
            record: record.clone(),
            claims,
            log: log.clone(),
            keeper: keeper.as_ref().map(|(_, to_keeper)| to_keeper.clone()),
            mounted,
            untold: config.stores.iter().map(|path| path.display().to_string()).collect(),
        };
        let Cores {
            to_control, from_cores, ..
        } = cores;
        let control = std::thread::Builder::new()
            .name("amita-control".to_owned())
            .spawn(move || thread.run(&from_cores))
            .map_err(ServeError::Thread)?;
        Ok(Plane {
            control: Some(control),
            keeper,
            to_control,
            metrics,
            collect,
            traces,
            sessions,
            recheck,
            measuring,
            leaves: config.client.then(|| (client.clone(), record)),
            settled,
            mounts: Mounts {
                heard: mounts,
                left: config.stores.len(),
                serving: 0,
                failures: Vec::new(),
            },
        })
    }

    /// Where metrics and traces can be read, if anywhere.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Server::address)
    }

    /// Asks the cores what they have counted.
    pub(crate) fn collect(&self) -> &CollectReport {
        &self.collect
    }

    /// Takes the traces that the cores keep.
    pub(crate) fn traces(&self) -> &TraceSource {
        &self.traces
    }

    /// Asks the cores for sessions of initiators.
    pub(crate) fn sessions(&self) -> &CollectSessions {
        &self.sessions
    }

    /// Have all records of the metadata been sent to core 0, as they were at the start?
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Begins to end the keeper, while the cores run: the stores get the last copy of the metadata. What is returned says
    /// when that is done.
    pub(crate) fn end_keeper(&mut self) -> Option<KeeperEnd> {
        // Nobody asks the cores any more.
        self.metrics = None;
        self.recheck = None;
        self.measuring = None;
        let (thread, to_keeper) = self.keeper.take()?;
        let (done, ended) = channel();
        let _ = to_keeper.send(keeper::Input::Stop(done));
        Some(KeeperEnd { thread, ended })
    }

    /// Ends the other threads, after the cores. A client's record goes with it.
    pub(crate) fn end(&mut self) {
        let _ = self.to_control.send(Control::Stop);
        if let Some(control) = self.control.take() {
            // The agent ends with the thread: it leaves word that the node stopped in good order.
            let _ = control.join();
        }
        if let Some((client, record)) = self.leaves.take() {
            // Where the metadata is away, the next client that comes tidies up.
            let _ = admin::forget_client(&client, &record);
        }
    }
}

/// A keeper that is ending.
pub(crate) struct KeeperEnd {
    thread: JoinHandle<()>,
    ended: Receiver<()>,
}

impl KeeperEnd {
    /// Has it ended? Waits for that, but no longer than told.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        !matches!(self.ended.recv_timeout(longest), Err(RecvTimeoutError::Timeout))
    }

    /// Waits for its thread.
    pub(crate) fn join(self) {
        let _ = self.ended.recv();
        let _ = self.thread.join();
    }
}

/// Tells the cluster where the node is.
fn register(
    config: &ServeConfig,
    joined: &Joined,
    cores: &Cores,
    metrics: Option<SocketAddr>,
    log: &Log,
) -> Result<Node, ServeError> {
    let advertised = |address: SocketAddr| SocketAddr::new(config.advertise.unwrap_or(address.ip()), address.port());
    let fabric = config.advertise_fabric.unwrap_or_else(|| advertised(cores.fabric));
    let fabric = fabric.to_string();
    // `advertise` is an address of the first network.
    let fabric2 = config
        .advertise_fabric2
        .or(cores.fabric2)
        .map(|address| address.to_string());
    let client = &joined.client;
    // Who can reach it, reaches it by its own address; loopback is the host's own.
    let watched = |address: SocketAddr| match address {
        address if address.ip().is_loopback() => address.to_string(),
        address => advertised(address).to_string(),
    };
    let metrics = metrics.map(watched);
    let metrics = metrics.as_deref();
    let api = config.api.map(watched);
    if config.client {
        return Ok(admin::register_client(
            client,
            &config.name,
            joined.node,
            &fabric,
            metrics,
            config.is_unprotected(),
        )?);
    }
    let nbd = cores.nbd.map(|address| advertised(address).to_string());
    let nvme = cores.nvme.map(|address| advertised(address).to_string());
    let nbd_socket = config.nbd_socket.as_ref().map(|path| path.display().to_string());
    let served = admin::Served {
        fabric: &fabric,
        fabric2: fabric2.as_deref(),
        nbd: nbd.as_deref(),
        nbd_socket: nbd_socket.as_deref(),
        nvme: nvme.as_deref(),
        metrics,
        api: api.as_deref(),
        cores: config.cores as u32,
        gateway: config.is_gateway(),
        unprotected: config.is_unprotected(),
    };
    let node = admin::register_as(client, &config.name, joined.node, &served)?;
    // A portal with an address of its own is in the network of that address, and `advertise` in one alone.
    let portal = |address: &SocketAddr| match is_dialable(address.ip()) {
        true => *address,
        false => advertised(*address),
    };
    let portals: Vec<SocketAddr> = cores.iscsi.iter().map(portal).collect();
    // Where there are none as well: a node that serves it no more says so.
    match admin::register_iscsi_gateway(client, &config.name, joined.node, joined.session, &portals) {
        Ok(_) => {}
        // Without a tag nobody is let in here. The node's stores, and those who use volumes otherwise, go on.
        Err(why) if is_bad_record(&why) => {
            let text = format!(
                "no initiator can log in to this node by iSCSI: {why}; mend or delete that record, and start this node anew"
            );
            log(Level::Warn, &text);
        }
        Err(why) => return Err(why.into()),
    }
    if config.site.is_some() || config.rack.is_some() {
        admin::place_node(client, &config.name, config.site.as_deref(), config.rack.as_deref())?;
    }
    Ok(node)
}

fn is_bad_record(why: &AdminError) -> bool {
    matches!(
        why,
        AdminError::Metadata(amita_metadata::Error::Refused {
            reason: Refusal::BadRecord { .. }
        })
    )
}

/// Which stores serve, as the start hears it.
pub(crate) struct Mounts {
    heard: Receiver<Result<(), String>>,
    left: usize,
    serving: usize,
    failures: Vec<String>,
}

impl Mounts {
    /// Waits for word of the next store, but no longer than told; true when all have been heard of.
    pub(crate) fn hear(&mut self, longest: Duration) -> bool {
        if self.left == 0 {
            return true;
        }
        match self.heard.recv_timeout(longest) {
            Ok(Ok(())) => self.serving += 1,
            Ok(Err(why)) => self.failures.push(why),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => self.left = 1,
        }
        self.left -= 1;
        self.left == 0
    }

    /// How many serve; an error when there are some and none does.
    pub(crate) fn end(&mut self) -> Result<usize, ServeError> {
        let mut failures = std::mem::take(&mut self.failures);
        for _ in 0..std::mem::take(&mut self.left) {
            failures.push("a store was not mounted in time".to_owned());
        }
        if self.serving == 0 && !failures.is_empty() {
            return Err(ServeError::NoStore { failures });
        }
        Ok(self.serving)
    }
}

/// Where the agent's notices go.
struct Sink {
    cores: ToCores,
    keeper: Option<Sender<keeper::Input>>,
    control: Sender<Control>,
    /// The key of the record that must not go while the process runs.
    own_key: Option<String>,
    /// The prefix of what says who serves a store.
    mounts: String,
    /// Whoever measures links hears of those of others.
    hearing: Option<Hearing>,
    settled: Arc<AtomicBool>,
    claims: Claims,
    log: Log,
}

impl Sink {
    fn tell_keeper(&self, input: impl FnOnce() -> keeper::Input) {
        if let Some(keeper) = &self.keeper {
            // The keeper ends before the agent.
            let _ = keeper.send(input());
        }
    }

    fn tell(&self, notice: Notice) {
        match notice {
            // Core 0 passes records on to the others.
            Notice::Record {
                key,
                value,
                revision,
                created,
            } => {
                self.tell_keeper(|| keeper::Input::Record {
                    key: key.clone(),
                    value: value.clone(),
                    revision,
                });
                if let Some(hearing) = &self.hearing {
                    hearing.hear(&key, value.as_deref());
                }
                if let Some(store) = key.strip_prefix(&self.mounts).and_then(|id| id.parse().ok())
                    && let Some(mount) = value
                        .as_deref()
                        .and_then(|value| serde_json::from_slice::<Mount>(value).ok())
                    && mount.session != 0
                    && self.claims.heard(store, mount.node, mount.session, revision)
                {
                    let _ = self.control.send(Control::Taken(store));
                }
                if value.is_none() && self.own_key.as_ref() == Some(&key) {
                    let _ = self.control.send(Control::Forgotten);
                }
                let record = Record {
                    key,
                    value,
                    revision,
                    created,
                };
                self.cores.send(0, ToCore::Record(record));
            }
            Notice::Settled { revision } => {
                self.settled.store(true, Ordering::Release);
                self.cores.send(0, ToCore::Settled);
                self.tell_keeper(|| keeper::Input::Settled { revision });
            }
            Notice::Doubted { why, is_older } => {
                (self.log)(Level::Error, &why);
                self.tell_keeper(|| keeper::Input::Doubted { why, is_older });
            }
            Notice::Believed => {
                (self.log)(
                    Level::Info,
                    "the metadata is again the one that this node knows: it goes on by it",
                );
                self.tell_keeper(|| keeper::Input::Believed);
            }
            Notice::Seen => self.tell_keeper(|| keeper::Input::Seen),
            Notice::Reply { call, result } => {
                self.cores.send(
                    token::id_core(call),
                    ToCore::Metadata {
                        call: amita_sequencer::CallId(call),
                        result,
                    },
                );
            }
            Notice::Lapsed { dropped } => {
                for core in 0..self.cores.len() {
                    self.cores.send(core, ToCore::DropHosts(dropped.clone()));
                }
            }
            Notice::Warn(text) => (self.log)(Level::Warn, &text),
            Notice::Info(text) => (self.log)(Level::Info, &text),
        }
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
struct ControlThread {
    agent: Agent,
    node: NodeId,
    record: Node,
    claims: Claims,
    log: Log,
    keeper: Option<Sender<keeper::Input>>,
    /// Only the start listens, and only to the first word on each store.
    mounted: Sender<Result<(), String>>,
    untold: BTreeSet<String>,
}

impl ControlThread {
    fn tell_keeper(&self, input: keeper::Input) {
        if let Some(keeper) = &self.keeper {
            let _ = keeper.send(input);
        }
    }

    fn run(mut self, inputs: &Receiver<Control>) {
        let mut serving: BTreeMap<String, StoreId> = BTreeMap::new();
        let mut warnings = Allowance::default();
        for input in inputs {
            match input {
                Control::Stop => {
                    self.claims.end();
                    return;
                }
                Control::Taken(store) => {
                    let text = format!("store {store}: another node has claimed it; it serves no more here");
                    self.agent.journal().tell(Draft::new(Kind::StoreTaken, [store], text));
                }
                Control::FromCore(FromCore::StoreMounted {
                    store,
                    path,
                    size_bytes,
                    mount,
                }) => self.claims.claim(store, path, size_bytes, mount),
                Control::FromCore(FromCore::VolumeFails { volume, text }) => {
                    (self.log)(Level::Warn, &text);
                    self.agent.journal().tell(Draft::new(Kind::VolumeFails, [volume], text));
                }
                Control::FromCore(FromCore::VolumeWorks { volume, text }) => {
                    (self.log)(Level::Info, &text);
                    self.agent.journal().tell(Draft::new(Kind::VolumeWorks, [volume], text));
                }
                Control::Forgotten => self.remember(),
                Control::FromCore(FromCore::Metadata { call, request }) => self.agent.call(call.0, request),
                Control::FromCore(FromCore::StoreServes {
                    store, path, report, ..
                }) => {
                    let text = format!("store {store} on {path} serves: {report}");
                    (self.log)(Level::Info, &text);
                    self.agent.journal().tell(Draft::new(Kind::StoreServes, [store], text));
                    serving.insert(path.clone(), store);
                    self.serves(store, path);
                }
                Control::FromCore(FromCore::StoreFailed { store, path, why }) => {
                    let store = store.or_else(|| serving.remove(&path));
                    self.failed(store, path, &why);
                }
                Control::FromCore(FromCore::StoreStaysOut { path, why }) => self.failed(None, path, &why),
                Control::FromCore(FromCore::Recalled {
                    store,
                    newest,
                    groups,
                    volumes,
                    deleted,
                }) => self.tell_keeper(keeper::Input::Recalled {
                    store,
                    newest,
                    groups,
                    volumes,
                    deleted,
                }),
                Control::FromCore(FromCore::Kept { store, revision }) => {
                    self.tell_keeper(keeper::Input::Kept { store, revision });
                }
                Control::FromCore(FromCore::Warning(text)) => {
                    (self.log)(Level::Warn, &text);
                    if warnings.allow() {
                        self.agent
                            .journal()
                            .tell(Draft::new(Kind::NodeWarning, [self.node], text));
                    }
                }
                Control::FromCore(FromCore::Description(text) | FromCore::Detail(text)) => {
                    (self.log)(Level::Info, &text)
                }
            }
        }
    }

    /// Somebody took this client for dead, because its lease had ended, and forgot it: it is there.
    fn remember(&self) {
        let (record, log) = (self.record.clone(), self.log.clone());
        self.agent.run(move |client| {
            match admin::register_client(
                client,
                &record.name,
                record.id,
                &record.fabric,
                record.metrics.as_deref(),
                record.unprotected,
            ) {
                Ok(_) => log(
                    Level::Info,
                    "the cluster had forgotten this client; registered it again",
                ),
                Err(why) => log(Level::Warn, &format!("this client cannot be registered again: {why}")),
            }
        });
    }

    fn serves(&mut self, store: StoreId, path: String) {
        let (mounted, services) = (self.mounted.clone(), self.agent.services());
        services.serves(store);
        let first = self.untold.remove(&path);
        self.tell_keeper(keeper::Input::Serves { store, path });
        // It was registered when it was claimed.
        self.agent.run(move |client| {
            services.show(client);
            if first {
                let _ = mounted.send(Ok(()));
            }
        });
    }

    /// `store`: which, if it has served.
    fn failed(&mut self, store: Option<StoreId>, path: String, why: &str) {
        let text = format!("store {path} does not serve: {why}");
        (self.log)(Level::Error, &text);
        let (claims, gone) = (self.claims.clone(), path.clone());
        // It may be mounted anew, and claimed, before the agent comes to this.
        if let Some(mount) = claims.failed(&path) {
            self.agent.run(move |_| claims.release(&gone, mount));
        }
        let first = self.untold.remove(&path);
        let mut objects = vec![path];
        if let Some(store) = store {
            self.agent.store_failed(store);
            objects.push(store.to_string());
        }
        self.agent
            .journal()
            .tell(Draft::new(Kind::StoreFailed, objects, text.clone()));
        if first {
            let _ = self.mounted.send(Err(text));
        }
    }
}
