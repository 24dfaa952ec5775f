//! A cluster of real processes: a metadata server and nodes, on loopback, with stores on files.

use crate::process::{Process, dying_with_us, without_settings};
use crate::tool::{self, Output};
use crate::{guest, ports};
use amita_identity::{Authority, Clock, Live, Name, Role};
use amita_metadata::Client;
use amita_metadata::client::{Options, SERVER_NAME, Tls};
use amita_terminal::error::{Context, Failure, Result};
use amita_terminal::interrupt;
use amita_types::ClusterId;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The embedded metadata's file. It lies beside the stores: every change of it is made durable, and a disk that others
/// keep busy would make an eviction wait.
pub const METADATA_FILE: &str = "metadata.redb";
/// The folder of the nodes' Unix sockets, in the cluster's.
pub const SOCKETS: &str = "sockets";
/// The longest path of a Unix socket, in bytes (`unix(7)`).
const MAX_SOCKET_PATH: usize = 107;
/// The name of the operator that a cluster's own commands are given as.
const OPERATOR: &str = "operator";
/// How long the certificates of a cluster last that has no server of an authority.
const LEAF_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long a process may take until it serves.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// How long a command of the operator may take.
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);
/// How long a process may take to stop.
const FREEZE_PATIENCE: Duration = Duration::from_secs(5);

/// How nodes, their links and the metadata are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Not at all: nobody proves anything.
    Insecure,
    /// Everybody proves who they are, and what passes between nodes is authenticated.
    #[default]
    Auth,
    /// And encrypted.
    Secret,
}

impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Links, String> {
        match text {
            "insecure" => Ok(Links::Insecure),
            "auth" => Ok(Links::Auth),
            "secret" => Ok(Links::Secret),
            _ => Err(format!("{text:?} is none of `insecure`, `auth` and `secret`")),
        }
    }
}

/// Where the metadata is.
#[derive(Clone, Debug)]
pub enum Metadata {
    /// The embedded server, started here; by TLS where nodes prove who they are.
    Embedded,
    /// Somebody else's: its endpoints.
    External(String),
}

/// What the cluster is to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// The `amita` binary.
    pub binary: PathBuf,
    /// For logs and the embedded metadata.
    pub folder: PathBuf,
    /// For the stores' files.
    pub store_folder: PathBuf,
    pub nodes: usize,
    /// Bytes of each store's file.
    pub store_bytes: u64,
    /// Where the metadata is.
    pub metadata: Metadata,
    /// The processes end with the thread that started them. Not so where the cluster is to be left behind.
    pub bound: bool,
    /// How nodes, their links and the metadata are protected.
    pub links: Links,
    /// Further arguments for `amita serve`.
    pub serve_arguments: Vec<String>,
}

#[derive(Debug)]
pub struct Node {
    pub name: String,
    /// Its stores' files.
    pub stores: Vec<PathBuf>,
    /// Where the other nodes reach it.
    pub fabric: SocketAddr,
    /// Where clients reach it.
    pub nbd: SocketAddr,
    /// Where clients of this machine reach it: a Unix socket, if it has one.
    pub nbd_socket: Option<PathBuf>,
    /// Where hosts reach it by NVMe/TCP.
    pub nvme: SocketAddr,
    /// Where initiators log in to it by iSCSI, if it has a portal.
    pub iscsi: Option<SocketAddr>,
    /// Where the other nodes are told to reach it, when that is not `fabric`: at a forwarder, say.
    pub advertised: Option<SocketAddr>,
    /// The same by a second network, if it has one.
    pub fabric2: Option<SocketAddr>,
    pub advertised2: Option<SocketAddr>,
    /// The process, while it was not killed.
    pub process: Option<Process>,
}

/// The running cluster. Everything ends with it.
#[derive(Debug)]
pub struct Cluster {
    config: Config,
    metadata: Option<Process>,
    endpoint: String,
    metadata_address: Option<SocketAddr>,
    /// What gives the nodes their certificates; none: they have none.
    authority: Option<Authority>,
    nodes: Vec<Node>,
}

/// The most cores of a node whose ports are set aside.
const FABRIC_PORTS: u16 = 4;

/// Waits until nobody listens there: what a killed process had under way with a disk that stands still keeps its sockets for
/// as long as that takes, though the process is gone.
fn await_free(addresses: &[SocketAddr]) -> Result<()> {
    let free = interrupt::poll(START_PATIENCE, Duration::from_millis(20), || {
        let taken = addresses.iter().any(|address| TcpListener::bind(address).is_err());
        Ok((!taken).then_some(()))
    })?;
    free.ok_or_else(|| Failure::new(format!("somebody listens on one of {addresses:?}")))
}

/// The throw-away authority of the cluster whose folder that is, made when it is first asked for.
///
/// # Errors
/// When it cannot be made or read.
pub fn authority(folder: &Path) -> Result<Authority> {
    let folder = folder.join("ca");
    let authority = if folder.exists() {
        Authority::open(&folder, Clock::system())
    } else {
        Authority::create(&folder, fresh_cluster(), Clock::system())
    };
    // Nobody renews what a cluster that is left running has.
    authority
        .and_then(|authority| authority.with_leaf_life(LEAF_LIFE))
        .context(|| format!("no authority in {}", folder.display()))
}

/// The folder of an identity in the cluster's folder, made when it is first asked for.
///
/// # Errors
/// When it cannot be made.
pub fn identity(authority: &Authority, folder: &Path, role: Role, name: &str) -> Result<PathBuf> {
    let folder = folder.join(format!("{name}.identity"));
    if !folder.exists() {
        let failed = || format!("no identity for {role} {name}");
        let full = Name::new(authority.cluster(), role, name).context(failed)?;
        authority.make_identity(&folder, &full).context(failed)?;
    }
    Ok(folder)
}

/// A number that no other cluster has.
fn fresh_cluster() -> ClusterId {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    ClusterId(half() << 64 | half())
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], ports::free()))
}

/// An address of its own for each node, which is also its address in a guest ([`guest::shared`]): hosts find gateways by
/// what the discovery log, or SendTargets, says.
fn host_address(number: usize) -> SocketAddr {
    SocketAddr::new(guest::shared(number as u8), ports::free())
}

/// Core I of a node listens on this port plus I.
fn fabric_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], ports::free_row(FABRIC_PORTS)))
}

impl Cluster {
    /// Starts the metadata, formats the stores, starts the nodes, and waits until all of them serve.
    ///
    /// # Errors
    /// When something does not start: with its last words.
    pub fn start(config: Config) -> Result<Cluster> {
        Cluster::start_with(config, |_| Ok(()))
    }

    /// The same, where something is to be `set` for the nodes before they start.
    ///
    /// # Errors
    /// When that fails, or something does not start: with its last words.
    pub fn start_with(config: Config, set: impl FnOnce(&mut Cluster) -> Result<()>) -> Result<Cluster> {
        let mut cluster = Cluster::without_nodes(config)?;
        set(&mut cluster)?;
        for index in 0..cluster.config.nodes {
            cluster.format_store(index)?;
        }
        cluster.start_nodes()?;
        Ok(cluster)
    }

    /// Starts all nodes of a cluster whose stores are formatted, and waits until all of them serve.
    ///
    /// # Errors
    /// When one does not start: with its last words.
    pub fn start_nodes(&mut self) -> Result<()> {
        for index in 0..self.nodes.len() {
            self.start_node(index)?;
        }
        for index in 0..self.nodes.len() {
            self.await_node(index)?;
        }
        self.await_stores()
    }

    /// Waits until the metadata knows every node as living, and every store.
    fn await_stores(&self) -> Result<()> {
        let expected: usize = self.nodes.iter().map(|node| node.stores.len()).sum();
        let mut last = String::new();
        let known = interrupt::poll(START_PATIENCE, Duration::from_millis(50), || {
            let output = self.amita(["disk", "list", "--json"])?;
            last = output.text;
            let stores: Vec<serde_json::Value> = serde_json::from_str(&last).unwrap_or_default();
            let alive = stores.iter().filter(|store| store["alive"] == true).count();
            Ok((alive == expected).then_some(()))
        })?;
        known.ok_or_else(|| {
            Failure::new(format!(
                "not all of {expected} stores serve after {} s:\n{last}",
                START_PATIENCE.as_secs()
            ))
        })
    }

    /// Starts the metadata only. The nodes are known (names, addresses, paths), not started, their stores not formatted.
    ///
    /// # Errors
    /// When the metadata does not start.
    pub fn without_nodes(config: Config) -> Result<Cluster> {
        let nodes = (1..=config.nodes)
            .map(|number| Node {
                name: format!("n{number}"),
                stores: vec![config.store_folder.join(format!("n{number}.store"))],
                fabric: fabric_address(),
                nbd: loopback(),
                nbd_socket: None,
                nvme: host_address(number),
                iscsi: None,
                advertised: None,
                fabric2: None,
                advertised2: None,
                process: None,
            })
            .collect();
        let (endpoint, metadata_address) = match &config.metadata {
            Metadata::Embedded => {
                let address = loopback();
                let scheme = match config.links {
                    Links::Insecure => "http",
                    Links::Auth | Links::Secret => "https",
                };
                (format!("{scheme}://{address}"), Some(address))
            }
            Metadata::External(endpoint) => (endpoint.clone(), None),
        };
        let authority = match config.links {
            Links::Insecure => None,
            Links::Auth | Links::Secret => Some(authority(&config.folder)?),
        };
        let mut cluster = Cluster {
            config,
            authority,
            metadata: None,
            endpoint,
            metadata_address,
            nodes,
        };
        cluster.start_metadata()?;
        Ok(cluster)
    }

    fn command(&self, bound: bool) -> Command {
        if bound {
            dying_with_us(&self.config.binary)
        } else {
            let mut command = Command::new(&self.config.binary);
            without_settings(&mut command);
            command
        }
    }

    /// Starts the embedded metadata server (again), if there is to be one.
    ///
    /// # Errors
    /// With its last words, when it does not serve.
    pub fn start_metadata(&mut self) -> Result<()> {
        let Some(address) = self.metadata_address else {
            return Ok(());
        };
        let mut command = self.command(self.config.bound);
        command.arg("meta").arg("--listen").arg(address.to_string());
        command.arg("--data").arg(self.config.store_folder.join(METADATA_FILE));
        if let Some(authority) = &self.authority {
            let identity = identity(authority, &self.config.folder, Role::Node, SERVER_NAME)?;
            command.arg("--identity").arg(identity);
        }
        let process = Process::spawn("the metadata server", command, &self.config.folder.join("metadata.log"))?;
        self.metadata = Some(await_port(process, address)?);
        Ok(())
    }

    /// Kills the embedded metadata server.
    pub fn kill_metadata(&mut self) {
        self.metadata = None;
    }

    /// Formats the store of a node.
    ///
    /// # Errors
    /// What the command says.
    pub fn format_store(&self, index: usize) -> Result<()> {
        let path = self.nodes[index].stores[0].display().to_string();
        let size = self.config.store_bytes.to_string();
        self.amita(["disk", "format", "--size", &size, &path])?
            .success()
            .map(drop)
    }

    /// Starts a node, or starts it again with the addresses and stores that it had.
    ///
    /// # Errors
    /// When the process cannot be started. Whether it serves is not waited for: see [`Cluster::await_node`].
    pub fn start_node(&mut self, index: usize) -> Result<()> {
        let node = &self.nodes[index];
        let networks = std::iter::once(node.fabric).chain(node.fabric2);
        let fabric = networks
            .flat_map(|first| (0..FABRIC_PORTS).map(move |core| SocketAddr::new(first.ip(), first.port() + core)));
        let taken = fabric.chain([node.nbd, node.nvme]).chain(node.iscsi);
        await_free(&taken.collect::<Vec<_>>())?;
        let mut command = self.command(self.config.bound);
        let node = &self.nodes[index];
        command
            .arg("serve")
            .arg("--name")
            .arg(&node.name)
            .arg("--metadata")
            .arg(&self.endpoint);
        command
            .arg("--fabric")
            .arg(node.fabric.to_string())
            .arg("--nbd")
            .arg(node.nbd.to_string())
            .arg("--nvme")
            .arg(node.nvme.to_string());
        if let Some(path) = &node.nbd_socket {
            command.arg("--nbd-socket").arg(path);
        }
        if let Some(portal) = node.iscsi {
            command.arg("--iscsi").arg(portal.to_string());
        }
        if let Some(advertised) = node.advertised {
            command.arg("--advertise-fabric").arg(advertised.to_string());
        }
        if let Some(second) = node.fabric2 {
            command.arg("--fabric2").arg(second.to_string());
        }
        if let Some(advertised) = node.advertised2 {
            command.arg("--advertise-fabric2").arg(advertised.to_string());
        }
        if let Some(identity) = self.node_identity(node)? {
            command.arg("--identity").arg(identity);
        }
        if self.config.links == Links::Secret {
            command.args(["--links", "secret"]);
        }
        for store in &node.stores {
            command.arg("--store").arg(store);
        }
        command.args(&self.config.serve_arguments);
        let log = self.node_log(index);
        self.nodes[index].process = Some(Process::spawn(&format!("node {}", node.name), command, &log)?);
        Ok(())
    }

    /// The folder of a node's identity, made when it is first asked for; none in a cluster whose nodes prove nothing. A node
    /// without stores is a gateway.
    fn node_identity(&self, node: &Node) -> Result<Option<PathBuf>> {
        let role = if node.stores.is_empty() {
            Role::Gateway
        } else {
            Role::Node
        };
        self.identity(role, &node.name)
    }

    /// The folder of an identity, made when it is first asked for; none in a cluster whose nodes prove nothing.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn identity(&self, role: Role, name: &str) -> Result<Option<PathBuf>> {
        let authority = self.authority.as_ref();
        authority
            .map(|authority| identity(authority, &self.config.folder, role, name))
            .transpose()
    }

    /// The folder of the operator's identity; none in a cluster whose nodes prove nothing.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn operator(&self) -> Result<Option<PathBuf>> {
        self.identity(Role::Operator, OPERATOR)
    }

    /// A connection to the metadata, as the operator.
    ///
    /// # Errors
    /// When the endpoint is none, or there is no identity for it.
    pub fn metadata_client(&self) -> Result<Client> {
        let failed = || format!("no connection to the metadata at {}", self.endpoint);
        let live = match self.operator()? {
            Some(folder) => Some(Live::open(&folder, Clock::system()).context(failed)?),
            None => None,
        };
        let options = Options {
            tls: live.as_ref().map(Tls::of),
            ..Options::default()
        };
        Client::connect_with(&[&self.endpoint], options).context(failed)
    }

    /// Where the embedded metadata server listens; none of ours runs where the metadata is somebody else's.
    #[must_use]
    pub fn metadata_address(&self) -> Option<SocketAddr> {
        self.metadata_address
    }

    /// How nodes, their links and the metadata are protected.
    #[must_use]
    pub fn links(&self) -> Links {
        self.config.links
    }

    /// What gives the nodes their certificates; none in a cluster whose nodes prove nothing.
    #[must_use]
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// Waits until a node serves clients.
    ///
    /// # Errors
    /// With its last words, when it does not.
    pub fn await_node(&mut self, index: usize) -> Result<()> {
        let node = &mut self.nodes[index];
        let process = node
            .process
            .take()
            .ok_or_else(|| Failure::new(format!("node {} is not running", node.name)))?;
        node.process = Some(await_port(process, node.nbd)?);
        Ok(())
    }

    /// Starts a further node that has no store, and waits until it serves. It has a portal for iSCSI where the others do. Returns its index.
    ///
    /// # Errors
    /// With its last words, when it does not.
    pub fn add_gateway(&mut self, name: &str) -> Result<usize> {
        let has_portal = self.nodes.iter().any(|node| node.iscsi.is_some());
        let node = Node {
            name: name.to_owned(),
            stores: Vec::new(),
            fabric: fabric_address(),
            nbd: loopback(),
            nbd_socket: None,
            nvme: host_address(self.nodes.len() + 1),
            iscsi: has_portal.then(|| host_address(self.nodes.len() + 1)),
            advertised: None,
            fabric2: None,
            advertised2: None,
            process: None,
        };
        self.nodes.push(node);
        let index = self.nodes.len() - 1;
        self.start_node(index)?;
        self.await_node(index)?;
        Ok(index)
    }

    /// Kills a node with SIGKILL.
    pub fn kill_node(&mut self, index: usize) {
        self.nodes[index].process = None;
    }

    /// Stops the process of a node (SIGSTOP): it does nothing, and its connections stay.
    ///
    /// # Errors
    /// When it does not run.
    pub fn freeze_node(&self, index: usize) -> Result<()> {
        self.signal_node(index, Signal::STOP)?;
        // The signal is sent when the call returns; that every thread has stopped is seen a little later.
        let pid = self.nodes[index].process.as_ref().map_or(0, Process::pid);
        let until = Instant::now() + FREEZE_PATIENCE;
        while !has_stopped(pid) {
            if Instant::now() > until {
                return Err(Failure::new(format!("node {} does not stop", self.nodes[index].name)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Lets a frozen node go on (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn thaw_node(&self, index: usize) -> Result<()> {
        self.signal_node(index, Signal::CONT)
    }

    pub(crate) fn signal_node(&self, index: usize, signal: Signal) -> Result<()> {
        let node = &self.nodes[index];
        let process = node.process.as_ref();
        let process = process.ok_or_else(|| Failure::new(format!("node {} is not running", node.name)))?;
        process.signal(signal)
    }

    /// The metadata server's process, where it was started here and was not killed.
    #[must_use]
    pub fn metadata_process(&self) -> Option<&Process> {
        self.metadata.as_ref()
    }

    /// Has the others told to reach a node somewhere else: from its next start on.
    pub fn advertise(&mut self, index: usize, address: SocketAddr) {
        self.nodes[index].advertised = Some(address);
    }

    /// Gives a node a second network, from its next start on. Returns where it listens there.
    pub fn give_second_network(&mut self, index: usize) -> SocketAddr {
        let address = fabric_address();
        self.nodes[index].fabric2 = Some(address);
        address
    }

    /// Has the others told to reach a node somewhere else by its second network: from its next start on.
    pub fn advertise_second(&mut self, index: usize, address: SocketAddr) {
        self.nodes[index].advertised2 = Some(address);
    }

    /// Gives each node a portal for iSCSI, from its next start on.
    pub fn give_portals(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            node.iscsi = Some(host_address(index + 1));
        }
    }

    /// Gives each node a Unix socket for NBD as well, from its next start on, in a folder of their own; not where the folder's
    /// name is too long for one.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn give_sockets(&mut self) -> Result<()> {
        let folder = self.config.folder.join(SOCKETS);
        let longest = self.nodes.iter().map(|node| node.name.len()).max().unwrap_or_default();
        if folder.as_os_str().len() + longest + ".nbd/".len() > MAX_SOCKET_PATH {
            return Ok(());
        }
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.context(|| format!("cannot make the folder {}", folder.display()))?;
        for node in &mut self.nodes {
            node.nbd_socket = Some(folder.join(format!("{}.nbd", node.name)));
        }
        Ok(())
    }

    /// Gives a node other stores: from its next start on.
    pub fn set_stores(&mut self, index: usize, stores: Vec<PathBuf>) {
        self.nodes[index].stores = stores;
    }

    /// Asks a node to end; was that orderly?
    pub fn stop_node(&mut self, index: usize) -> bool {
        let ended = self.nodes[index].process.take().and_then(|mut process| process.stop());
        ended.is_some_and(|status| status.success())
    }

    /// Runs an operator's command to its end.
    ///
    /// # Errors
    /// When it cannot be run, or takes too long. How it ended is not judged.
    pub fn amita<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<Output> {
        let mut all: Vec<&str> = arguments.into_iter().collect();
        all.extend(["--metadata", &self.endpoint]);
        let operator = self.operator()?.map(|folder| folder.display().to_string());
        if let Some(operator) = &operator
            && !all.contains(&"--identity")
        {
            all.extend(["--identity", operator]);
        }
        tool::run(
            &self.config.folder,
            &self.config.binary.display().to_string(),
            all,
            COMMAND_PATIENCE,
        )
    }

    /// Makes the pool `demo` with as many copies as there are nodes, at most three, and a volume in it that is exported by
    /// NBD.
    ///
    /// # Errors
    /// What the commands say.
    pub fn make_volume(&self, name: &str, size_bytes: u64) -> Result<()> {
        let copies = self.config.nodes.min(3);
        let least = copies.saturating_sub(1).max(1);
        let (copies, least) = (copies.to_string(), least.to_string());
        self.amita(["pool", "create", "demo", "--copies", &copies, "--min-copies", &least])?
            .success()?;
        self.amita([
            "volume",
            "create",
            name,
            "--pool",
            "demo",
            "--size",
            &size_bytes.to_string(),
        ])?
        .success()?;
        self.offer_by_nbd(name)
    }

    /// Exports a volume by NBD to every program on this machine, also where it is a namespace: it is for clusters on loopback.
    ///
    /// # Errors
    /// What the command says.
    pub fn offer_by_nbd(&self, volume: &str) -> Result<()> {
        let mut made = self.amita(["nbd", "export", volume, "--any-client", "--shared"])?;
        // Builds of before the commands of NBD had a noun of their own.
        if made.text.contains("unrecognized subcommand 'nbd'") {
            made = self.amita(["volume", "export", volume, "--any-client", "--shared"])?;
        }
        // Builds that have no exports serve every volume.
        if made.text.contains("unrecognized subcommand 'export'") {
            return Ok(());
        }
        made.success().map(drop)
    }

    /// Makes a volume the first namespace of a subsystem of its name, to which any host may connect: it is for clusters on
    /// loopback. Returns the subsystem's qualified name.
    ///
    /// # Errors
    /// What the commands say.
    pub fn offer_by_nvme(&self, volume: &str) -> Result<String> {
        let made = self.amita(["subsystem", "create", volume, "--any-host", "--json"])?;
        let made = made.success()?;
        self.amita(["namespace", "add", volume, volume])?.success()?;
        let made: serde_json::Value = serde_json::from_str(&made.text).context(|| "no subsystem".to_owned())?;
        let nqn = made["nqn"].as_str();
        nqn.map(str::to_owned)
            .ok_or_else(|| Failure::new(format!("a subsystem without a name: {made}")))
    }

    /// Where the nodes say that they serve NVMe, by their names.
    ///
    /// # Errors
    /// What the command says.
    pub fn nvme_portals(&self) -> Result<BTreeMap<String, String>> {
        self.places("nvme")
    }

    /// Where each node's REST API is, by the node's name.
    ///
    /// # Errors
    /// What the command says.
    pub fn apis(&self) -> Result<BTreeMap<String, String>> {
        self.places("api")
    }

    fn places(&self, of: &str) -> Result<BTreeMap<String, String>> {
        let listed = self.amita(["node", "list", "--json"])?;
        let listed = listed.success()?;
        let nodes: Vec<serde_json::Value> = serde_json::from_str(&listed.text).context(|| "no nodes".to_owned())?;
        let place = |node: &serde_json::Value| Some((node["name"].as_str()?.to_owned(), node[of].as_str()?.to_owned()));
        Ok(nodes.iter().filter_map(place).collect())
    }

    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The endpoints of the metadata.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The folder for logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.config.folder
    }

    /// The log of a node: all its lives.
    #[must_use]
    pub fn node_log(&self, index: usize) -> PathBuf {
        self.config.folder.join(format!("{}.log", self.nodes[index].name))
    }

    /// The URI of a volume at a node.
    #[must_use]
    pub fn uri(&self, index: usize, volume: &str) -> String {
        format!("nbd://{}/{volume}", self.nodes[index].nbd)
    }

    /// The URI of a volume at a node's Unix socket, if it has one.
    #[must_use]
    pub fn socket_uri(&self, index: usize, volume: &str) -> Option<String> {
        let path = self.nodes[index].nbd_socket.as_ref()?;
        Some(format!("nbd+unix:///{volume}?socket={}", path.display()))
    }

    /// The number of the metadata server's process.
    #[must_use]
    pub fn metadata_pid(&self) -> Option<u32> {
        self.metadata.as_ref().map(Process::pid)
    }

    /// The numbers of all processes that run.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let nodes = self.nodes.iter().filter_map(|node| node.process.as_ref());
        nodes.chain(&self.metadata).map(Process::pid).collect()
    }

    /// Asks every process to end, the metadata last; were all ends orderly?
    pub fn stop(&mut self) -> bool {
        let mut orderly = true;
        for index in 0..self.nodes.len() {
            if self.nodes[index].process.is_some() {
                orderly &= self.stop_node(index);
            }
        }
        let ended = self.metadata.take().map(|mut process| process.stop());
        orderly && ended.is_none_or(|ended| ended.is_some_and(|status| status.success()))
    }

    /// The ends of all logs, for whoever must find out what went wrong.
    #[must_use]
    pub fn last_words(&self) -> String {
        const LINES: usize = 40;
        let logs = (0..self.nodes.len()).map(|index| self.node_log(index));
        logs.chain([self.config.folder.join("metadata.log")])
            .map(|path| {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                format!(
                    "{}:\n  {}\n",
                    path.display(),
                    lines[lines.len().saturating_sub(LINES)..].join("\n  ")
                )
            })
            .collect()
    }

    /// Takes all guards away: the cluster goes on after this process.
    pub fn leave(mut self) {
        for process in self
            .nodes
            .iter_mut()
            .filter_map(|node| node.process.take())
            .chain(self.metadata.take())
        {
            process.leave();
        }
    }
}

/// Waits until a process listens.
fn await_port(mut process: Process, address: SocketAddr) -> Result<Process> {
    let listens = interrupt::poll(START_PATIENCE, Duration::from_millis(10), || {
        if let Some(status) = process.ended()? {
            let said = process.last_words();
            return Err(Failure::new(format!(
                "{} ended with {status}:\n  {said}",
                process.name()
            )));
        }
        Ok(TcpStream::connect_timeout(&address, Duration::from_millis(200))
            .ok()
            .map(drop))
    });
    match listens.context(|| format!("waiting for {address}"))? {
        Some(()) => Ok(process),
        None => Err(Failure::new(format!(
            "{} does not listen on {address} after {} s:\n  {}",
            process.name(),
            START_PATIENCE.as_secs(),
            process.last_words()
        ))),
    }
}

/// Has every thread of a process been stopped?
fn has_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    let state = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        // Behind the name, which stands in brackets and may hold anything.
        text.rsplit_once(')')?.1.trim_start().chars().next()
    };
    threads.map(state).all(|state| state.is_none_or(|state| state == 'T'))
}
