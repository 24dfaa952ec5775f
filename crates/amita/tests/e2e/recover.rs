//! The metadata is lost, or an older copy takes its place: nothing is served by what is wrong, and every byte comes back.

use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, eventually, scratch, stamped,
};
use amita_harness::cluster::{METADATA_FILE, Metadata};
use amita_harness::nbd::Client;
use amita_harness::process::Process;
use amita_harness::scratch::Scratch;
use amita_harness::{ports, tool};
use amita_terminal::interrupt;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Blocks that are written, one in each of these steps: many groups.
const STEP: u64 = 256 << 10;
/// A volume that is made and never written.
const UNTOUCHED: &str = "untouched";
/// A volume that is made last of all, and never written.
const LATE: &str = "late";
const SECOND: &str = "second";
const SECOND_BYTES: u64 = 8 << 20;
/// What nodes may say in these tests.
const EXPECTED: &[&str] = &[
    "metadata",
    "lease",
    "watch",
    "suspect",
    "another gateway",
    "cannot be reached",
    "a connection is given up",
    // Nodes are stopped one after the other, and nobody can be evicted by older metadata.
    "writes wait until it is back",
];

/// A metadata service whose data can be taken away.
enum Service {
    Embedded,
    Etcd(Etcd),
}

/// A real etcd that can be stopped, and started again on what its folder holds then.
struct Etcd {
    process: Option<Process>,
    client: u16,
    peer: u16,
    scratch: Scratch,
}

impl Etcd {
    fn new() -> Etcd {
        let mut etcd = Etcd {
            process: None,
            client: ports::free(),
            peer: ports::free(),
            scratch: scratch(256 << 20),
        };
        etcd.start();
        etcd
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.client)
    }

    fn data(&self) -> PathBuf {
        self.scratch.stores().join("etcd")
    }

    fn start(&mut self) {
        let (endpoint, peer) = (self.endpoint(), format!("http://127.0.0.1:{}", self.peer));
        let arguments = [
            "--data-dir".to_owned(),
            self.data().display().to_string(),
            format!("--listen-client-urls={endpoint}"),
            format!("--advertise-client-urls={endpoint}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=error".to_owned(),
        ];
        self.process = Some(tool::start(self.scratch.folder(), "etcd", arguments).expect("etcd starts"));
        let listens = interrupt::poll(Duration::from_secs(30), Duration::from_millis(20), || {
            Ok(TcpStream::connect(("127.0.0.1", self.client)).ok().map(drop))
        });
        assert!(listens.expect("polled").is_some(), "etcd does not listen");
    }
}

fn copy_all(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::copy(from, to).expect("copied");
        return;
    }
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        copy_all(&entry.path(), &to.join(entry.file_name()));
    }
}

fn remove_all(path: &Path) {
    if path.is_dir() {
        std::fs::remove_dir_all(path).expect("removed");
    } else {
        std::fs::remove_file(path).expect("removed");
    }
}

struct Test {
    world: World,
    service: Service,
}

impl Test {
    /// Three nodes, three copies, three volumes, of which one stays as it was made.
    fn start(etcd: bool) -> Test {
        let (world, service) = if etcd {
            let etcd = Etcd::new();
            (World::on(Metadata::External(etcd.endpoint())), Service::Etcd(etcd))
        } else {
            (World::with_volume(), Service::Embedded)
        };
        for (name, bytes) in [(UNTOUCHED, SECOND_BYTES), (SECOND, SECOND_BYTES)] {
            let bytes = bytes.to_string();
            world.amita_done(&["volume", "create", name, "--pool", "demo", "--size", &bytes]);
            world.cluster.offer_by_nbd(name).expect("it is exported");
        }
        Test { world, service }
    }

    fn data(&self) -> PathBuf {
        match &self.service {
            Service::Embedded => self.world.scratch.stores().join(METADATA_FILE),
            Service::Etcd(etcd) => etcd.data(),
        }
    }

    fn stop_metadata(&mut self) {
        match &mut self.service {
            Service::Embedded => self.world.cluster.kill_metadata(),
            Service::Etcd(etcd) => drop(etcd.process.take().and_then(|mut process| process.stop())),
        }
    }

    fn start_metadata(&mut self) {
        match &mut self.service {
            Service::Embedded => self.world.cluster.start_metadata().expect("the metadata starts"),
            Service::Etcd(etcd) => etcd.start(),
        }
    }

    /// Opens a volume. The gateway before may not have noticed yet that its last client has gone.
    fn open(&self, node: usize, volume: &str) -> std::io::Result<Client> {
        let mut attempts = 0;
        loop {
            match Client::open(self.world.cluster.nodes()[node].nbd, volume, PATIENCE) {
                Err(error) if attempts < 100 && error.to_string().contains("is in use through") => {
                    attempts += 1;
                    std::thread::sleep(Duration::from_millis(100));
                }
                result => return result,
            }
        }
    }

    fn write(&self, node: usize, volume: &str, bytes: u64, round: u64) {
        let mut client = self.open(node, volume).expect("the volume opens");
        for offset in (0..bytes).step_by(STEP as usize) {
            client.write(offset, &stamped(offset, round)).expect("written");
        }
        client.close();
    }

    fn holds(&self, node: usize, volume: &str, bytes: u64, round: Option<u64>) {
        let mut client = self.open(node, volume).expect("the volume opens");
        let mut read = vec![0; 4096];
        for offset in (0..bytes).step_by(4096) {
            client.read(offset, &mut read).expect("read");
            let expected = match round.filter(|_| offset % STEP == 0) {
                Some(round) => stamped(offset, round),
                None => vec![0; 4096],
            };
            assert!(
                read == expected,
                "volume {volume}, byte {offset}, through node {}",
                node + 1
            );
        }
        client.close();
    }

    fn store(&self, node: usize) -> String {
        self.world.cluster.nodes()[node].stores[0].display().to_string()
    }

    /// Waits until a node's log says so.
    fn await_log(&self, node: usize, words: &str) {
        let said = interrupt::poll(Duration::from_secs(60), Duration::from_millis(50), || {
            let log = std::fs::read_to_string(self.world.cluster.node_log(node)).unwrap_or_default();
            Ok(log.contains(words).then_some(()))
        });
        assert!(
            said.expect("polled").is_some(),
            "node {} never says {words:?}",
            node + 1
        );
    }

    /// Node 3 is evicted from all groups, and more is written without it.
    fn evict_and_write(&mut self) {
        self.world.cluster.kill_node(2);
        self.write(0, VOLUME, VOLUME_BYTES, 2);
        // The coordinator takes it out of all the other groups.
        let groups = interrupt::poll(Duration::from_secs(60), Duration::from_millis(100), || {
            let status = self.world.json(&["status"]);
            let behind = status["pools"][0]["group_counts"]["whole"].as_u64();
            Ok((behind == Some(0)).then_some(()))
        });
        assert!(
            groups.expect("polled").is_some(),
            "{}",
            self.world.amita_done(&["status", "--json"])
        );
        self.write(1, SECOND, SECOND_BYTES, 3);
        let bytes = SECOND_BYTES.to_string();
        self.world
            .amita_done(&["volume", "create", LATE, "--pool", "demo", "--size", &bytes]);
        self.world.cluster.offer_by_nbd(LATE).expect("it is exported");
        // More than the few seconds after which every store has it.
        std::thread::sleep(Duration::from_secs(4));
    }

    fn stop_nodes(&mut self) {
        for node in 0..3 {
            if self.world.cluster.nodes()[node].process.is_some() {
                assert!(self.world.cluster.stop_node(node), "node {} ends in order", node + 1);
            }
        }
    }

    fn start_nodes(&mut self) {
        for node in 0..3 {
            self.world.cluster.start_node(node).expect("it starts");
        }
        for node in 0..3 {
            self.world.cluster.await_node(node).expect("it serves");
        }
    }

    /// Everything that was ever acknowledged, through every node.
    fn all_is_back(&self) {
        for node in [0, 2, 1] {
            self.holds(node, VOLUME, VOLUME_BYTES, Some(2));
            self.holds(node, SECOND, SECOND_BYTES, Some(3));
            self.holds(node, UNTOUCHED, SECOND_BYTES, None);
            self.holds(node, LATE, SECOND_BYTES, None);
        }
        self.write(2, UNTOUCHED, SECOND_BYTES, 9);
        self.holds(0, UNTOUCHED, SECOND_BYTES, Some(9));
    }

    fn end(self) {
        self.world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, EXPECTED].concat());
    }
}

/// The metadata is destroyed, wholly, after a store was evicted.
fn lost(etcd: bool) {
    let mut test = Test::start(etcd);
    test.write(0, VOLUME, VOLUME_BYTES, 1);
    test.evict_and_write();
    test.stop_nodes();
    test.stop_metadata();
    remove_all(&test.data());
    test.start_metadata();
    let stores = [test.store(0), test.store(1), test.store(2)];

    // A store that was in sync last is left out: what would be lost is said, and nothing is done.
    let refused = test.world.amita(&["recover", "--from-stores", &stores[0], &stores[2]]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    let uuid = store_uuid(&test.world, &stores[1]);
    for words in [&uuid[..], "node n2", "--accept-loss", "Nothing was written"] {
        assert!(
            refused.text.contains(words),
            "{words:?} is missing in:\n{}",
            refused.text
        );
    }
    // Looked at on another machine, so to speak; and first without doing anything.
    let file = test.world.file("n2.json").display().to_string();
    let all = ["recover", "--from-stores", &stores[0], &stores[2], "--from", &file];
    test.world
        .amita_done(&["recover", "collect", "--disk", &stores[1], "--out", &file]);
    let dry = test.world.amita_done(&[&all[..], &["--dry-run"]].concat());
    assert!(
        dry.contains("Nothing was written") && dry.contains("volume untouched"),
        "{dry}"
    );
    assert_eq!(
        test.world.amita(&["status"]).status.code(),
        Some(4),
        "there is no cluster yet"
    );
    let done = test.world.amita_done(&all);
    for words in ["volume disk0", "volume second", "volume untouched", "from 3 stores"] {
        assert!(done.contains(words), "{words:?} is missing in:\n{done}");
    }
    let again = test.world.amita(&all);
    assert_eq!(again.status.code(), Some(5), "{}", again.text);
    assert!(again.text.contains("--replace"), "{}", again.text);

    test.start_nodes();
    test.all_is_back();
    test.end();
}

fn store_uuid(world: &World, path: &str) -> String {
    let text = world.amita_done(&["store", "inspect", path]);
    let line = text
        .lines()
        .find(|line| line.starts_with("store "))
        .expect("the store's line");
    line["store ".len()..].trim().to_owned()
}

/// An older copy of the metadata takes its place: first under the running nodes, then at their start.
fn restored(etcd: bool) {
    let mut test = Test::start(etcd);
    test.write(0, VOLUME, VOLUME_BYTES, 1);
    let backup = test.world.file("backup");
    test.stop_metadata();
    copy_all(&test.data(), &backup);
    test.start_metadata();
    test.evict_and_write();

    test.stop_metadata();
    remove_all(&test.data());
    copy_all(&backup, &test.data());
    test.start_metadata();
    test.await_log(0, "the metadata went back from revision");
    test.await_log(1, "the metadata went back from revision");
    refused_to_open(&test, 0, UNTOUCHED);
    if etcd {
        // Without identities nodes keep nothing but their stores, which tell them once they serve.
        test.stop_nodes();
        test.start_nodes();
        test.await_log(0, "the metadata is older than what store");
        test.await_log(1, "the metadata is older than what store");
        for node in 0..3 {
            refused_to_open(&test, node, VOLUME);
        }
        is_said(&test, "the metadata is older than what store");
    } else {
        is_said(&test, "the metadata went back from revision");
    }

    let stores = [test.store(0), test.store(1), test.store(2)];
    let recover = [
        "recover",
        "--replace",
        "--from-stores",
        &stores[0],
        &stores[1],
        &stores[2],
    ];
    let served = test.world.amita(&recover);
    assert_eq!(served.status.code(), Some(5), "{}", served.text);
    assert!(served.text.contains("Stop all nodes"), "{}", served.text);
    test.stop_nodes();
    if !etcd {
        // They know what they have seen, and do not even begin.
        for node in 0..2 {
            test.world.cluster.start_node(node).expect("it starts");
            test.await_log(node, "waiting for another one");
        }
        test.stop_nodes();
    }
    // The copy says that the node which was killed lives, and its lease begins anew with the server.
    eventually("no node is taken to run", || {
        let done = test.world.amita(&recover);
        let is_early = done.text.contains("nodes run on this metadata");
        assert!(done.status.success() || is_early, "{}", done.text);
        !is_early
    });
    test.start_nodes();
    test.all_is_back();
    test.end();
}

/// Who asks how the cluster is hears of it, and nothing is waited for that cannot come.
fn is_said(test: &Test, what: &str) {
    let status = test.world.json(&["status"]);
    assert_eq!(status["health"], "blocked", "{status}");
    let facts = status["facts"].as_array().expect("facts");
    assert!(facts.iter().any(|fact| fact["name"] == "metadata-older"), "{status}");
    let events = test.world.amita_done(&["events", "--json", "--kind", "metadata-older"]);
    assert!(events.contains(what), "{events}");
    let moved = test.world.amita(&["volume", "move", VOLUME, "--to", "n2"]);
    assert_eq!(moved.status.code(), Some(1), "{}", moved.text);
    assert!(moved.text.contains("no volume is opened"), "{}", moved.text);
}

fn refused_to_open(test: &Test, node: usize, volume: &str) {
    let refused = test
        .open(node, volume)
        .expect_err("nothing is opened by older metadata")
        .to_string();
    assert!(refused.contains("recover --from-stores"), "{refused}");
}

#[test]
fn metadata_that_is_lost_is_rebuilt_from_the_stores() {
    lost(false);
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn an_etcd_that_is_lost_is_rebuilt_from_the_stores() {
    lost(true);
}

#[test]
fn metadata_restored_from_an_older_copy_is_refused_and_rebuilt() {
    restored(false);
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn an_etcd_restored_from_an_older_copy_is_refused_and_rebuilt() {
    restored(true);
}
