//! A cluster for a test, and what tests do with it. Everything ends with it, also when a test panics.

use amita_harness::cluster::{Cluster, Config, Links, Metadata};
use amita_harness::fio::{self, Job};
use amita_harness::nbd::Client;
use amita_harness::process::Process;
use amita_harness::scratch::Scratch;
use amita_harness::shipped;
use amita_harness::tool::{self, Output};
use amita_identity::Role;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The binary that these tests drive.
pub fn binary() -> &'static str {
    shipped::binary(env!("CARGO_BIN_EXE_amita"))
}

/// How long one stock tool may take: a machine under load is slow.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The volume that most tests use.
pub const VOLUME: &str = "disk0";
pub const VOLUME_BYTES: u64 = 64 << 20;
pub const STORE_BYTES: u64 = 384 << 20;
/// What nodes say when one of them is gone, and nothing else.
pub const A_NODE_IS_GONE: &[&str] = &[
    "is no longer in sync since epoch",
    "no longer holds its lease",
    "owners of volumes evicted store",
];
/// And where too few are left.
pub const WRITES_WAIT: &[&str] = &["does not serve, and only", "in-sync members are alive"];
/// What they may say where the machine has much else to do.
const BESIDE_A_LOAD: &[&str] = &["is much slower than its peers"];
/// What a gateway says of a node that comes back: it is asked before its stores are mounted, or after it was evicted.
pub const A_NODE_RETURNS: &[&str] = &["refused a request of group"];

/// Folders first and processes last: they are dropped in the order of their declaration.
pub struct World {
    pub cluster: Cluster,
    pub scratch: Scratch,
}

impl World {
    /// Three nodes with a store each, a pool with three copies, a volume.
    pub fn with_volume() -> World {
        World::on(Metadata::Embedded)
    }

    pub fn of(nodes: usize) -> World {
        let scratch = scratch(2 * nodes as u64 * STORE_BYTES);
        World::from(config(&scratch, nodes, Metadata::Embedded), scratch)
    }

    /// The same with stores of so many bytes each.
    pub fn of_size(nodes: usize, store_bytes: u64) -> World {
        let scratch = scratch(nodes as u64 * store_bytes);
        let mut config = config(&scratch, nodes, Metadata::Embedded);
        config.store_bytes = store_bytes;
        World::from(config, scratch)
    }

    /// The same on other metadata.
    pub fn on(metadata: Metadata) -> World {
        World::with(metadata, &[])
    }

    /// The same with further arguments for `amita serve`.
    pub fn serving(arguments: &[&str]) -> World {
        World::with(Metadata::Embedded, arguments)
    }

    fn with(metadata: Metadata, arguments: &[&str]) -> World {
        let scratch = scratch(3 * STORE_BYTES);
        let mut config = config(&scratch, 3, metadata);
        config.serve_arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        World::from(config, scratch)
    }

    /// The same with a Unix socket for NBD at each node.
    pub fn with_sockets(arguments: &[&str]) -> World {
        let scratch = scratch(3 * STORE_BYTES);
        let mut config = config(&scratch, 3, Metadata::Embedded);
        config.serve_arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        World::made(Cluster::start_with(config, Cluster::give_sockets), scratch)
    }

    /// So many nodes, each with a portal for iSCSI.
    pub fn with_portals(nodes: usize, arguments: &[&str]) -> World {
        let scratch = scratch(nodes as u64 * STORE_BYTES);
        let mut config = config(&scratch, nodes, Metadata::Embedded);
        config.serve_arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let set = |cluster: &mut Cluster| {
            cluster.give_portals();
            Ok(())
        };
        World::made(Cluster::start_with(config, set), scratch)
    }

    /// So many nodes, of which something is set before they start.
    pub fn prepared(nodes: usize, set: impl FnOnce(&mut Cluster)) -> World {
        let scratch = scratch(nodes as u64 * STORE_BYTES);
        let config = config(&scratch, nodes, Metadata::Embedded);
        let set = |cluster: &mut Cluster| {
            set(cluster);
            Ok(())
        };
        World::made(Cluster::start_with(config, set), scratch)
    }

    fn from(config: Config, scratch: Scratch) -> World {
        World::made(Cluster::start(config), scratch)
    }

    pub fn made(cluster: amita_terminal::error::Result<Cluster>, scratch: Scratch) -> World {
        let cluster = cluster.expect("a cluster");
        cluster.make_volume(VOLUME, VOLUME_BYTES).expect("a volume");
        World { cluster, scratch }
    }

    /// Only the metadata runs; nothing is formatted.
    pub fn metadata_only(nodes: usize) -> World {
        let scratch = scratch(nodes as u64 * STORE_BYTES);
        let cluster = Cluster::without_nodes(config(&scratch, nodes, Metadata::Embedded)).expect("the metadata");
        World { cluster, scratch }
    }

    /// The same, where nobody proves anything, and the metadata is spoken to plainly.
    pub fn plain() -> World {
        let scratch = scratch(STORE_BYTES);
        let mut config = config(&scratch, 1, Metadata::Embedded);
        config.links = Links::Insecure;
        let cluster = Cluster::without_nodes(config).expect("the metadata");
        World { cluster, scratch }
    }

    pub fn folder(&self) -> &Path {
        self.scratch.folder()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The identity of an operator with that role, made by the command.
    pub fn operator_with(&self, role: &str) -> String {
        let authority = self.cluster.authority().expect("an authority");
        let ca = authority.folder().to_str().expect("a path of ours");
        let folder = self.file(role).display().to_string();
        let name = format!("eve-{role}");
        let make = ["operator", "create", &name, "--role", role, "--ca", ca];
        self.amita_done(&[&make[..], &["--identity", &folder]].concat());
        folder
    }

    /// Runs a stock tool.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> Output {
        tool::run(self.folder(), name, arguments, PATIENCE).expect("the tool runs")
    }

    /// Runs a stock tool that must succeed.
    pub fn done(&self, name: &str, arguments: &[&str]) -> String {
        self.tool(name, arguments).success().expect("the tool succeeds").text
    }

    /// Runs a command of ours; it may fail.
    pub fn amita(&self, arguments: &[&str]) -> Output {
        self.cluster.amita(arguments.iter().copied()).expect("the command runs")
    }

    /// Makes a host with keys for DH-HMAC-CHAP and TLS, sealed by the key of that file: its own, the controllers' and that of TLS, as
    /// the command shows them.
    pub fn host_with_keys(&self, host: &str, seal: &str) -> [String; 3] {
        let keys = ["--generate-dhchap", "--generate-tls", "--seal-key", seal];
        let said = self.amita_done(&[&["host", "add", host][..], &keys].concat());
        let keys = said.split_whitespace();
        let keys = keys.filter(|word| word.starts_with("DHHC-1:") || word.starts_with("NVMeTLSkey-1:"));
        let keys: Vec<String> = keys.map(str::to_owned).collect();
        keys.try_into()
            .unwrap_or_else(|keys| panic!("three keys are shown, and not {keys:?}: {said}"))
    }

    /// Runs a command of ours that must succeed.
    pub fn amita_done(&self, arguments: &[&str]) -> String {
        self.amita(arguments).success().expect("the command succeeds").text
    }

    /// The JSON that a command prints.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let text = self.amita_done(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?} printed no JSON ({error}): {text}"))
    }

    /// The volume at a node.
    pub fn uri(&self, node: usize) -> String {
        self.cluster.uri(node, VOLUME)
    }

    /// A node's Unix socket.
    pub fn socket(&self, node: usize) -> PathBuf {
        let path = self.cluster.nodes()[node].nbd_socket.clone();
        path.expect("a cluster with sockets")
    }

    /// Opens the volume at a node.
    pub fn open(&self, node: usize) -> Client {
        let until = Instant::now() + PATIENCE;
        loop {
            match Client::open(self.cluster.nodes()[node].nbd, VOLUME, PATIENCE) {
                // A client that was closed a moment ago may not have left its gateway yet.
                Err(why) if why.to_string().contains("in use through") && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                opened => return opened.expect("the volume opens"),
            }
        }
    }

    /// Starts `amita serve` for a node with these arguments, outside of the cluster.
    pub fn serve(&self, name: &str, arguments: &[&str]) -> Process {
        let mut all = vec!["serve", "--name", name, "--metadata", self.cluster.endpoint()];
        all.extend(arguments);
        let role = if arguments.contains(&"--store") {
            Role::Node
        } else {
            Role::Gateway
        };
        let identity = self.identity(role, name);
        if let Some(identity) = &identity {
            all.extend(["--identity", identity]);
        }
        tool::start(self.folder(), binary(), all).expect("the process starts")
    }

    /// The folder of an identity in the cluster, as an argument; none where nobody proves anything.
    pub fn identity(&self, role: Role, name: &str) -> Option<String> {
        let folder = self.cluster.identity(role, name).expect("an identity");
        folder.map(|folder| folder.display().to_string())
    }

    /// The folder of the operator's identity.
    pub fn operator(&self) -> String {
        let folder = self
            .cluster
            .operator()
            .expect("an identity")
            .expect("a cluster whose nodes prove who they are");
        folder.display().to_string()
    }

    /// Every line of every node's log that says ERROR, WARN or panic, and does not hold one of the `expected` texts.
    pub fn unexpected_lines(&self, expected: &[&str]) -> Vec<String> {
        let expected = [expected, BESIDE_A_LOAD].concat();
        let logs = (0..self.cluster.nodes().len()).map(|node| self.cluster.node_log(node));
        let logs = logs.chain([self.file("metadata.log")]);
        logs.flat_map(|path| unexpected_in(&path, &expected)).collect()
    }

    /// The end of a test: the rest of the cluster ends in order, and no log holds what is not expected.
    pub fn end(mut self, expected: &[&str]) {
        let unexpected = self.unexpected_lines(expected);
        assert!(
            unexpected.is_empty(),
            "unexpected lines in the logs:\n{}",
            unexpected.join("\n")
        );
        assert!(
            self.cluster.stop(),
            "a process did not end in order:\n{}",
            self.cluster.last_words()
        );
        // Nodes do not stop at one moment: those that stop last find the others gone.
        let expected = [expected, A_NODE_IS_GONE, WRITES_WAIT].concat();
        let unexpected = self.unexpected_lines(&expected);
        assert!(
            unexpected.is_empty(),
            "unexpected lines in the logs:\n{}",
            unexpected.join("\n")
        );
    }
}

/// A test that fails shows what the processes said last.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the processes said last:\n{}", self.cluster.last_words());
        }
    }
}

/// Waits until something holds, at most as long as [`PATIENCE`].
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(PATIENCE, what, holds);
}

/// The same for what takes a machine under load longer: a move's last passes, say, each of which may come to nothing.
pub fn within(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn unexpected_in(log: &Path, expected: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter(|line| ["ERROR", "WARN", "panic"].iter().any(|word| line.contains(word)))
        .filter(|line| !expected.iter().any(|words| line.contains(words)))
        .map(|line| format!("{}: {line}", log.display()))
        .collect()
}

pub fn scratch(bytes: u64) -> Scratch {
    Scratch::make("test", None, None, bytes).expect("folders")
}

pub fn config(scratch: &Scratch, nodes: usize, metadata: Metadata) -> Config {
    Config {
        binary: PathBuf::from(binary()),
        folder: scratch.folder().to_owned(),
        store_folder: scratch.stores().to_owned(),
        nodes,
        store_bytes: STORE_BYTES,
        bound: true,
        links: match metadata {
            Metadata::Embedded => Links::Auth,
            Metadata::External(_) => Links::Insecure,
        },
        metadata,
        serve_arguments: Vec::new(),
    }
}

/// fio's verify workload over a region of the volume at `uri`.
pub fn verify_job(name: &str, uri: &str, offset_bytes: u64, size_bytes: u64, seed: u64) -> Job {
    Job {
        name: name.to_owned(),
        target: fio::nbd(uri),
        pattern: "randwrite",
        block_bytes: 4096,
        depth: 16,
        offset_bytes,
        size_bytes,
        run: None,
        more: fio::verify_options(seed),
        also: Vec::new(),
    }
}

/// Only the checking half of [`verify_job`].
pub fn check_job(name: &str, uri: &str, offset_bytes: u64, size_bytes: u64, seed: u64) -> Job {
    let mut job = verify_job(name, uri, offset_bytes, size_bytes, seed);
    job.more.push("--verify_only".to_owned());
    job
}

/// Bytes that no two offsets and no two seeds have in common.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // xorshift64 (Marsaglia, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A block that says where and when it was written.
pub fn stamped(offset: u64, round: u64) -> Vec<u8> {
    pattern(offset.wrapping_mul(1_000_003).wrapping_add(round + 1), 4096)
}

/// Runs GnuTLS's maker of certificates.
pub fn certtool(folder: &Path, arguments: &[&str]) {
    tool::run(folder, "certtool", arguments, PATIENCE)
        .expect("certtool runs")
        .success()
        .expect("certtool works");
}

/// An authority, and a certificate by it for 127.0.0.1, as files of a folder.
pub fn certificates(folder: &Path) {
    let certtool = |arguments: &[&str]| certtool(folder, arguments);
    std::fs::write(
        folder.join("ca.info"),
        "cn = test\nca\ncert_signing_key\nexpiration_days = 2\n",
    )
    .expect("written");
    let server = "cn = 127.0.0.1\nip_address = 127.0.0.1\ntls_www_server\nsigning_key\nexpiration_days = 2\n";
    std::fs::write(folder.join("server.info"), server).expect("written");
    for name in ["ca", "server"] {
        certtool(&[
            "--generate-privkey",
            "--key-type=rsa",
            "--bits=2048",
            "--outfile",
            &format!("{name}-key.pem"),
        ]);
    }
    certtool(&[
        "--generate-self-signed",
        "--load-privkey=ca-key.pem",
        "--template=ca.info",
        "--outfile=ca-cert.pem",
    ]);
    certtool(&[
        "--generate-certificate",
        "--load-privkey=server-key.pem",
        "--load-ca-certificate=ca-cert.pem",
        "--load-ca-privkey=ca-key.pem",
        "--template=server.info",
        "--outfile=server-cert.pem",
    ]);
}
