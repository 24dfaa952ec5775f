//! Nodes with two networks: the first is a forwarder of ours before each node, which can be cut; the second is direct.

use crate::load::Load;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, World, check_job, eventually, verify_job};
use amita_harness::cluster::Cluster;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a forwarder looks for connections, and for what it is told.
const LOOK: Duration = Duration::from_millis(5);
/// A network that was cut is tried again each minute; on a machine that does much besides.
const MINUTES: Duration = Duration::from_secs(240);
/// What nodes say of a network that is cut, and is well again.
const A_NETWORK_IS_CUT: &[&str] = &["connections to node", "sick network: "];

#[derive(Default)]
struct Told {
    /// Nothing passes: what is under way stands still, and whoever connects hears nothing.
    is_cut: AtomicBool,
    over: AtomicBool,
}

impl Told {
    fn is(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Acquire)
    }

    /// Hands on what comes, until either end closes.
    fn carry(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while !Told::is(&self.over) {
            if Told::is(&self.is_cut) {
                std::thread::sleep(LOOK);
                continue;
            }
            match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => {
                    while Told::is(&self.is_cut) && !Told::is(&self.over) {
                        std::thread::sleep(LOOK);
                    }
                    if to.write_all(&bytes[..length]).is_err() {
                        break;
                    }
                }
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
        }
        // Either may be gone already.
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

/// The way to one node. It ends when it is dropped.
struct Forwarder {
    address: SocketAddr,
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    fn start(target: SocketAddr) -> Forwarder {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("bound");
        let told = Arc::new(Told::default());
        let heard = Arc::clone(&told);
        let thread = std::thread::spawn(move || {
            while !Told::is(&heard.over) {
                match listener.accept() {
                    Ok((dialler, _)) => Forwarder::serve(&heard, dialler, target),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        });
        Forwarder {
            address,
            told,
            thread: Some(thread),
        }
    }

    fn serve(told: &Arc<Told>, dialler: TcpStream, target: SocketAddr) {
        // Where the node is not there the dialler is told so.
        let Ok(target) = TcpStream::connect(target) else { return };
        for stream in [&dialler, &target] {
            stream.set_nonblocking(false).expect("set");
            stream.set_nodelay(true).expect("set");
            stream.set_read_timeout(Some(LOOK * 10)).expect("set");
        }
        let ends = [(dialler.try_clone(), target.try_clone()), (Ok(target), Ok(dialler))];
        for (from, to) in ends {
            let (Ok(from), Ok(to)) = (from, to) else { return };
            let told = Arc::clone(told);
            std::thread::spawn(move || told.carry(&from, &to));
        }
    }

    fn cut(&self, is_cut: bool) {
        self.told.is_cut.store(is_cut, Ordering::Release);
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.told.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Three nodes with two networks each.
fn world() -> (World, Vec<Forwarder>) {
    let mut first = Vec::new();
    let world = World::prepared(3, |cluster: &mut Cluster| {
        for node in 0..cluster.nodes().len() {
            let way = Forwarder::start(cluster.nodes()[node].fabric);
            cluster.advertise(node, way.address);
            cluster.give_second_network(node);
            first.push(way);
        }
    });
    (world, first)
}

/// The sentences of events of a kind.
fn told(world: &World, kind: &str) -> Vec<String> {
    let text = world.amita_done(&["events", "--json", "--kind", kind]);
    let events = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    events
        .map(|event: Value| event["text"].as_str().expect("a sentence").to_owned())
        .collect()
}

fn await_that(world: &World, load: &Load, what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + MINUTES;
    while !is() {
        assert!(!load.has_ended(), "fio has ended while: {what}");
        assert!(
            Instant::now() < end,
            "not within {MINUTES:?}: {what}\n{}",
            world.amita_done(&["status"])
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_network_that_is_cut_under_load_is_left_for_the_second_and_used_again() {
    let (world, first) = world();
    for node in world.json(&["node", "list"]).as_array().expect("nodes") {
        let second = node["fabric2"].as_str().expect("an address");
        assert!(
            second.parse::<SocketAddr>().is_ok() && node["fabric"] != *second,
            "{node}"
        );
    }
    let load = Load::start(&world, 0, Some("--rate_iops=1500"));
    std::thread::sleep(Duration::from_millis(1500));
    first.iter().for_each(|way| way.cut(true));
    await_that(
        &world,
        &load,
        "each node says that it goes by its second network",
        || {
            let told = told(&world, "network-switched");
            let says = |node: &str| {
                let begins = format!("node {node}: connections to node ");
                let mut of_node = told.iter().filter(|text| text.starts_with(&begins));
                of_node.any(|text| text.contains("by network 2 now, and by network 1 no more"))
            };
            ["n1", "n2", "n3"].into_iter().all(says)
        },
    );
    await_that(&world, &load, "the status has it", || {
        world.amita_done(&["status"]).contains("connections go by network 2")
    });

    first.iter().for_each(|way| way.cut(false));
    await_that(&world, &load, "the first network is used again", || {
        let told = told(&world, "network-well");
        let says = |node: &str| {
            let begins = format!("node {node}: connections to node ");
            told.iter()
                .any(|text| text.starts_with(&begins) && text.contains("by network 1 again"))
        };
        ["n1", "n2", "n3"].into_iter().all(says)
    });
    await_that(&world, &load, "the status has it no more", || {
        !world.amita_done(&["status"]).contains("connections go by network")
    });
    load.finish();
    drop(first);
    world.end(&[A_NETWORK_IS_CUT, A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_cluster_starts_and_serves_by_its_second_network_alone() {
    let mut first = Vec::new();
    let world = World::prepared(3, |cluster: &mut Cluster| {
        for node in 0..cluster.nodes().len() {
            let way = Forwarder::start(cluster.nodes()[node].fabric);
            way.cut(true);
            cluster.advertise(node, way.address);
            cluster.give_second_network(node);
            first.push(way);
        }
    });
    verify_job("verify", &world.uri(1), 0, 4 << 20, 5)
        .run(world.folder(), PATIENCE)
        .expect("every block is right");
    check_job("check", &world.uri(2), 0, 4 << 20, 5)
        .run(world.folder(), PATIENCE)
        .expect("by another gateway too");
    eventually("it is said", || {
        let told = told(&world, "network-switched");
        told.iter()
            .any(|text| text.contains("it says nothing there, or refuses"))
    });
    drop(first);
    world.end(&[A_NETWORK_IS_CUT, A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
fn a_second_network_that_is_none_is_refused() {
    let world = World::metadata_only(1);
    let node = &world.cluster.nodes()[0];
    let fabric = node.fabric.to_string();
    for (more, says) in [
        (vec!["--fabric2", fabric.as_str()], "is where --fabric listens"),
        (vec!["--fabric2", "0.0.0.0:1"], "every address of this host"),
        (vec!["--advertise-fabric2", "127.0.0.1:9"], "--fabric2"),
        (
            vec!["--fabric2", "127.0.0.1:9", "--advertise-fabric2", fabric.as_str()],
            "they need two ways",
        ),
    ] {
        let arguments = [&["serve", "--name", "n1", "--fabric", fabric.as_str()][..], &more[..]].concat();
        let refused = world.amita(&arguments);
        assert!(!refused.status.success(), "{more:?}");
        assert!(refused.text.contains(says), "{more:?}: {}", refused.text);
    }
    world.end(&[]);
}
