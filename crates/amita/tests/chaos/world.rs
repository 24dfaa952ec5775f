//! A cluster whose links, disks and metadata can be made to fail, and what makes them fail.

use crate::core::StoppedCore;
use crate::plan::{Fault, Member};
use crate::proxy::{HOST, Proxy, Speech, Weather};
use amita_harness::cluster::{self, Cluster, Config, Links, Metadata};
use amita_harness::etcd::Etcd;
use amita_harness::faulty_disk::{DiskFaults, FaultyDisk};
use amita_harness::observe::Observer;
use amita_harness::ports;
use amita_harness::scratch::Scratch;
use amita_harness::shipped;
use amita_harness::tool;
use amita_identity::Role;
use amita_metadata::client::SERVER_NAME;
use amita_types::NodeId;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Nodes with a store each: as many as copies.
pub const NODES: usize = 3;
/// Small for a disk, and large enough that a checkpoint has room for the worst that the owners of all open volumes, and
/// the copy of the metadata, may do: of each a store grants 2,048 blocks in advance (R7).
const STORE_BYTES: u64 = 512 << 20;
/// The pool, with three copies, of which two are the least.
pub const POOL: &str = "chaos";

/// What kind of cluster a cycle wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Disks that fail on command are in front of the stores.
    pub disks: bool,
    /// The metadata is a real etcd, and not the embedded server.
    pub etcd: bool,
}

/// Processes first, then what they stand on: they are dropped in the order of their declaration.
pub struct World {
    pub cluster: Cluster,
    etcd: Option<Etcd>,
    proxies: Vec<Proxy>,
    /// Between hosts and gateways: NBD and NVMe/TCP of each node.
    hosts: Vec<[Proxy; 2]>,
    /// Cores that stand still.
    stopped: BTreeMap<Member, StoppedCore>,
    /// So many did, so far.
    cores_stopped: u64,
    disks: Vec<FaultyDisk>,
    files: Vec<PathBuf>,
    numbers: Vec<NodeId>,
    pub observer: Observer,
    scratch: Scratch,
}

/// Where a cycle cannot have disks that fail on command, and why not.
pub fn disks_missing() -> Option<String> {
    let scratch = Scratch::make("chaos", None, None, 1 << 20).expect("a folder");
    let file = scratch.stores().join("file");
    std::fs::write(&file, [0; 4096]).expect("a file");
    let error = FaultyDisk::open(&file, scratch.folder()).err()?;
    Some(error.to_string())
}

/// Its clients prove who they are, as those of the embedded server do.
fn secure_etcd(scratch: &Scratch) -> Etcd {
    let authority = cluster::authority(scratch.folder()).expect("an authority");
    let identity = cluster::identity(&authority, scratch.folder(), Role::Node, SERVER_NAME).expect("an identity");
    Etcd::start_secure(scratch.folder(), scratch.stores(), &identity).expect("etcd starts")
}

impl World {
    /// Three nodes, each behind a forwarder, with a store each; a pool with three copies.
    pub fn start(shape: Shape, seed: u64) -> World {
        World::sized(shape, seed, STORE_BYTES)
    }

    pub fn sized(shape: Shape, seed: u64, store_bytes: u64) -> World {
        World::made(shape, seed, store_bytes, &[])
    }

    /// With further arguments for `amita serve`.
    pub fn serving(shape: Shape, seed: u64, arguments: &[&str]) -> World {
        World::made(shape, seed, STORE_BYTES, arguments)
    }

    fn made(shape: Shape, seed: u64, store_bytes: u64, arguments: &[&str]) -> World {
        let scratch = Scratch::make("chaos", None, None, NODES as u64 * store_bytes).expect("folders");
        let etcd = shape.etcd.then(|| secure_etcd(&scratch));
        let config = Config {
            binary: PathBuf::from(shipped::binary(env!("CARGO_BIN_EXE_amita"))),
            folder: scratch.folder().to_owned(),
            store_folder: scratch.stores().to_owned(),
            nodes: NODES,
            store_bytes,
            metadata: etcd
                .as_ref()
                .map_or(Metadata::Embedded, |etcd| Metadata::External(etcd.endpoint())),
            bound: true,
            // Two cores share what the tests have; each node's buffers are small.
            // Cores are stopped by ptrace, which wants a process that lets debuggers in.
            links: Links::Auth,
            serve_arguments: [&["--buffers", "64M", "--yields", "0", "--core-dumps"][..], arguments]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .collect(),
        };
        let mut cluster = Cluster::without_nodes(config).expect("the metadata");
        let (mut proxies, mut disks, mut files) = (Vec::new(), Vec::new(), Vec::new());
        let mut hosts = Vec::new();
        for node in 0..NODES {
            cluster.format_store(node).expect("a store");
            let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
            let fabric = cluster.nodes()[node].fabric;
            proxies.push(Proxy::start(address, fabric, Speech::Fabric, seed ^ node as u64));
            let served = [cluster.nodes()[node].nbd, cluster.nodes()[node].nvme];
            hosts.push(served.map(|target| {
                let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
                Proxy::start(address, target, Speech::Hosts, seed ^ 0x100 ^ node as u64)
            }));
            cluster.advertise(node, address);
            files.push(cluster.nodes()[node].stores[0].clone());
            if shape.disks {
                let disk = FaultyDisk::open(&files[node], scratch.folder()).expect("a disk that fails on command");
                cluster.set_stores(node, vec![disk.path()]);
                disks.push(disk);
            }
        }
        cluster.start_nodes().expect("the nodes");
        let observer = Observer::of(&cluster).expect("the metadata");
        let numbers = cluster.nodes().iter().map(|node| observer.node(&node.name));
        let numbers = numbers.collect::<Result<_, _>>().expect("the nodes' numbers");
        let world = World {
            cluster,
            etcd,
            proxies,
            hosts,
            stopped: BTreeMap::new(),
            cores_stopped: 0,
            disks,
            files,
            numbers,
            observer,
            scratch,
        };
        world.done(&["pool", "create", POOL, "--copies", "3", "--min-copies", "2"]);
        world
    }

    pub fn folder(&self) -> &Path {
        self.scratch.folder()
    }

    /// Runs a command of ours that must succeed.
    pub fn done(&self, arguments: &[&str]) -> String {
        let output = self.cluster.amita(arguments.iter().copied()).expect("the command runs");
        output.success().expect("the command succeeds").text
    }

    pub fn make_volume(&self, name: &str, size: &str) {
        self.done(&["volume", "create", name, "--pool", POOL, "--size", size]);
        self.done(&["nbd", "export", name, "--any-client", "--shared"]);
    }

    /// Makes the volume a namespace, of blocks of 512 bytes, of a subsystem that any host may use; the subsystem's
    /// name.
    pub fn offer(&self, volume: &str) -> String {
        let made = self.done(&["subsystem", "create", volume, "--any-host", "--json"]);
        self.done(&["namespace", "add", volume, volume, "--block-size", "512"]);
        let made: serde_json::Value = serde_json::from_str(&made).expect("JSON");
        made["nqn"].as_str().expect("a name").to_owned()
    }

    /// Where clients reach the nodes.
    pub fn gateways(&self) -> Vec<SocketAddr> {
        self.hosts.iter().map(|[nbd, _]| nbd.address()).collect()
    }

    /// Where hosts reach them by NVMe/TCP.
    pub fn portals(&self) -> Vec<SocketAddr> {
        self.hosts.iter().map(|[_, nvme]| nvme.address()).collect()
    }

    /// Asks for the volume to be owned by another node, and does not wait for it.
    pub fn ask_to_move(&self, volume: &str, node: Member) {
        let name = self.cluster.nodes()[node].name.clone();
        let metadata = self.cluster.endpoint();
        let operator = self
            .cluster
            .operator()
            .expect("an identity")
            .map(|folder| folder.display().to_string());
        let mut arguments = vec!["volume", "move", volume, "--to", &name, "--metadata", metadata];
        if let Some(operator) = &operator {
            arguments.extend(["--identity", operator]);
        }
        // It may not come true: nodes are down.
        drop(tool::start(self.folder(), self.binary(), arguments));
    }

    fn binary(&self) -> &'static str {
        shipped::binary(env!("CARGO_BIN_EXE_amita"))
    }

    pub fn disk(&self, node: Member) -> &FaultyDisk {
        &self.disks[node]
    }

    fn runs(&self, node: Member) -> bool {
        self.cluster.nodes()[node].process.is_some()
    }

    /// SIGKILL.
    pub fn kill(&mut self, node: Member) {
        // A process whose disk hangs does not end before the disk does.
        if let Some(disk) = self.disks.get(node) {
            disk.set(DiskFaults::default());
        }
        self.cluster.kill_node(node);
        self.proxies[node].close();
        self.hosts[node].iter().for_each(Proxy::close);
        self.stopped.remove(&node);
    }

    /// Starts a node again, and does not wait for it.
    pub fn start_node(&mut self, node: Member) {
        if !self.runs(node) {
            self.proxies[node].open();
            self.hosts[node].iter().for_each(Proxy::open);
            self.cluster.start_node(node).expect("it starts again");
        }
    }

    /// The weather of all links to (`answers` from it) and from (`questions` of it) a node.
    fn weather(&self, node: Member, dialled: Weather, dials: Weather) {
        for other in (0..NODES).filter(|&other| other != node) {
            self.proxies[node].set(self.numbers[other].0, dialled);
            self.proxies[other].set(self.numbers[node].0, dials);
        }
    }

    /// From now on so many bytes a second pass on each link to and from a node, in each direction; zero: as many as come.
    pub fn narrow(&self, node: Member, bytes_per_s: u64) {
        let narrow = Weather {
            bytes_per_s,
            ..Weather::default()
        };
        self.weather(node, narrow, narrow);
    }

    /// How often the logs of all nodes have these words.
    pub fn said(&self, words: &str) -> usize {
        let logs = (0..NODES).map(|node| std::fs::read_to_string(self.cluster.node_log(node)));
        logs.map(|log| log.unwrap_or_default().matches(words).count()).sum()
    }

    /// Breaks all links of a node in the middle of a frame.
    pub fn cut(&self, node: Member) {
        self.proxies[node].cut(None);
        for other in (0..NODES).filter(|&other| other != node) {
            self.proxies[other].cut(Some(self.numbers[node].0));
        }
    }

    /// The coordinator's node.
    pub fn coordinator(&self) -> Option<Member> {
        let number = self.observer.coordinator().ok()??;
        self.numbers.iter().position(|&other| other == number)
    }

    /// A fault begins. Returns the one that is to be ended: the coordinator has a node then.
    pub fn begin(&mut self, fault: Fault) -> Fault {
        let quiet = Weather::default();
        let holds = |questions, answers| Weather {
            holds_questions: questions,
            holds_answers: answers,
            ..quiet
        };
        match fault {
            Fault::Kill(node) => self.kill(node),
            Fault::KillAll => (0..NODES).for_each(|node| self.kill(node)),
            Fault::KillCoordinator => {
                let node = self.coordinator().unwrap_or_default();
                self.kill(node);
                return Fault::Kill(node);
            }
            Fault::Freeze(node) => {
                if self.runs(node) {
                    self.cluster.freeze_node(node).expect("it runs");
                }
            }
            Fault::Cut(node) => self.cut(node),
            Fault::SlowLinks(node, delay) => {
                let slow = Weather { delay, ..quiet };
                self.weather(node, slow, slow);
            }
            Fault::LossyLinks(node, by) => {
                let lossy = Weather {
                    late: (10, by),
                    ..quiet
                };
                self.weather(node, lossy, lossy);
            }
            // What it hears: what others ask it, and what they answer.
            Fault::Deaf(node) => self.weather(node, holds(true, false), holds(false, true)),
            Fault::Mute(node) => self.weather(node, holds(false, true), holds(true, false)),
            Fault::Isolated(node) => self.weather(node, holds(true, true), holds(true, true)),
            Fault::HostsCut(node) => self.hosts[node].iter().for_each(|proxy| proxy.cut(None)),
            Fault::HostsHeld(node, questions, answers) => self.hold_hosts(node, holds(questions, answers)),
            Fault::CutOff(node) => {
                self.weather(node, holds(true, true), holds(true, true));
                self.hold_hosts(node, holds(true, true));
            }
            Fault::CoreStopped(node) => {
                let process = self.cluster.nodes()[node].process.as_ref();
                if let Some(core) = process.and_then(|process| StoppedCore::stop(process.pid())) {
                    self.stopped.insert(node, core);
                    self.cores_stopped += 1;
                }
            }
            Fault::DiskErrors(node, per_mille) => self.set_disk(
                node,
                DiskFaults {
                    read_errors_per_mille: per_mille,
                    write_errors_per_mille: per_mille,
                    flush_errors_per_mille: per_mille,
                    ..DiskFaults::default()
                },
            ),
            Fault::DiskLost(node) => self.set_disk(node, DiskFaults::lost()),
            Fault::SlowDisk(node, delay) => self.set_disk(
                node,
                DiskFaults {
                    delay,
                    ..DiskFaults::default()
                },
            ),
            Fault::StalledDisk(node) => self.set_disk(
                node,
                DiskFaults {
                    stalled: true,
                    ..DiskFaults::default()
                },
            ),
            Fault::FullDisk(node) => self.set_disk(
                node,
                DiskFaults {
                    full: true,
                    ..DiskFaults::default()
                },
            ),
            Fault::MetadataKilled => match &mut self.etcd {
                Some(etcd) => etcd.kill(),
                None => self.cluster.kill_metadata(),
            },
            Fault::MetadataFrozen => self.signal_metadata(Signal::STOP),
            Fault::Move(_) => {}
        }
        fault
    }

    fn hold_hosts(&self, node: Member, weather: Weather) {
        self.hosts[node].iter().for_each(|proxy| proxy.set(HOST, weather));
    }

    fn set_disk(&self, node: Member, faults: DiskFaults) {
        self.disk(node).set(faults);
    }

    fn signal_metadata(&self, signal: Signal) {
        let process = match &self.etcd {
            Some(etcd) => etcd.process(),
            None => self.cluster.metadata_process(),
        };
        if let Some(process) = process {
            process.signal(signal).expect("the metadata's process is there");
        }
    }

    fn start_metadata(&mut self) {
        match &mut self.etcd {
            Some(etcd) if etcd.process().is_none() => etcd.restart().expect("etcd starts again"),
            None if self.cluster.metadata_process().is_none() => {
                self.cluster.start_metadata().expect("the metadata starts again");
            }
            _ => {}
        }
    }

    /// A fault ends.
    pub fn finish(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(node) => self.start_node(node),
            Fault::KillAll => (0..NODES).for_each(|node| self.start_node(node)),
            Fault::Freeze(node) => {
                if self.runs(node) {
                    self.cluster.thaw_node(node).expect("it is there");
                }
            }
            Fault::SlowLinks(node, _)
            | Fault::LossyLinks(node, _)
            | Fault::Deaf(node)
            | Fault::Mute(node)
            | Fault::Isolated(node) => self.weather(node, Weather::default(), Weather::default()),
            Fault::HostsHeld(node, ..) => self.hold_hosts(node, Weather::default()),
            Fault::CutOff(node) => {
                self.weather(node, Weather::default(), Weather::default());
                self.hold_hosts(node, Weather::default());
            }
            Fault::CoreStopped(node) => drop(self.stopped.remove(&node)),
            Fault::DiskErrors(node, _)
            | Fault::DiskLost(node)
            | Fault::SlowDisk(node, _)
            | Fault::StalledDisk(node)
            | Fault::FullDisk(node) => self.set_disk(node, DiskFaults::default()),
            Fault::MetadataKilled => self.start_metadata(),
            Fault::MetadataFrozen => self.signal_metadata(Signal::CONT),
            Fault::KillCoordinator | Fault::Cut(_) | Fault::HostsCut(_) | Fault::Move(_) => {}
        }
    }

    /// Everything that is wrong ends; nodes that are down start again, and those whose stores may have failed are
    /// restarted, as an operator would. Then all of them serve.
    pub fn heal(&mut self, poisoned: &[Member]) {
        self.signal_metadata(Signal::CONT);
        self.start_metadata();
        self.stopped.clear();
        for proxy in self.proxies.iter().chain(self.hosts.iter().flatten()) {
            proxy.clear();
        }
        for disk in &self.disks {
            disk.set(DiskFaults::default());
        }
        for node in 0..NODES {
            if self.runs(node) {
                self.cluster.thaw_node(node).expect("it is there");
            }
        }
        for &node in poisoned {
            self.kill(node);
        }
        for node in 0..NODES {
            self.start_node(node);
        }
        for node in 0..NODES {
            self.cluster.await_node(node).expect("it serves again");
        }
    }

    /// Cores that stood still.
    pub fn cores_stopped(&self) -> u64 {
        self.cores_stopped
    }

    /// Links that were cut in the middle of a frame.
    pub fn links_cut(&self) -> u64 {
        self.proxies.iter().map(|proxy| proxy.counts().0).sum()
    }

    /// The groups that do not have all of their copies, for a person to read.
    pub fn missing_copies(&self) -> String {
        let groups = self.observer.groups().unwrap_or_default();
        let lines: Vec<String> = groups
            .into_iter()
            .filter(|(group, copies)| group.in_sync.len() < *copies || !group.syncing.is_empty())
            .map(|(group, copies)| format!("{copies} copies: {group:?}"))
            .collect();
        let some = &lines[..lines.len().min(4)];
        format!("{} groups, among them\n{}", lines.len(), some.join("\n"))
    }

    /// What has been injected so far, for a person to read.
    pub fn injected(&self) -> String {
        let (mut cut, mut late, mut held) = (0, 0, 0);
        for proxy in self.proxies.iter().chain(self.hosts.iter().flatten()) {
            let counts = proxy.counts();
            (cut, late, held) = (cut + counts.0, late + counts.1, held + counts.2);
        }
        let failed: u64 = self.disks.iter().map(|disk| disk.counts().failed).sum();
        let delayed: u64 = self.disks.iter().map(|disk| disk.counts().delayed).sum();
        format!(
            "{cut} links cut, {late} messages late, {held} held; {cores} cores stood still; {failed} operations of disks \
             failed, {delayed} delayed",
            cores = self.cores_stopped,
        )
    }

    /// All lines of all logs of nodes that no cluster may say, whatever goes wrong in it: panics, and errors that are
    /// not explained by `allowed`.
    pub fn unexpected_lines(&self, allowed: &[&str]) -> Vec<String> {
        let logs = (0..NODES).map(|node| self.cluster.node_log(node));
        logs.flat_map(|path| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<String> = text
                .lines()
                .filter(|line| ["ERROR", "panic"].iter().any(|word| line.contains(word)))
                .filter(|line| !allowed.iter().any(|words| line.contains(words)))
                .map(|line| format!("{}: {line}", path.display()))
                .collect();
            lines
        })
        .collect()
    }

    /// The end: all processes stop, and every store passes its check, its data included.
    pub fn end(mut self, allowed: &[&str]) {
        for node in 0..NODES {
            let ended = self.cluster.stop_node(node);
            assert!(ended, "node {node} did not end in order");
        }
        let unexpected = self.unexpected_lines(allowed);
        assert!(unexpected.is_empty(), "unexpected lines:\n{}", unexpected.join("\n"));
        for file in &self.files {
            let path = file.display().to_string();
            let text = self.done(&["store", "check", "--data", "--json", &path]);
            let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(report["clean"], true, "the store {path} is not clean: {report}");
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Nothing that is dropped next may wait for what hangs.
        for disk in &self.disks {
            disk.set(DiskFaults::default());
        }
        if std::thread::panicking() {
            eprintln!("what the processes said last:\n{}", self.cluster.last_words());
        }
    }
}

/// How long to wait for what must come, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(90);
