//! What a node takes of its machine: processor time, memory, address space, a disk for itself.

use crate::operator::{facts, free_address, gives_up};
use crate::world::{A_NODE_IS_GONE, PATIENCE, VOLUME, World, binary, eventually, stamped};
use amita_harness::cpu::Meter;
use amita_harness::nbd::Client;
use amita_harness::process::Process;
use amita_harness::tool;
use amita_identity::Role;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A cluster that nobody asks for anything may take so much of one core, all processes together. It takes less than one hundredth;
/// one that polls takes all of it.
const IDLE_PERCENT: f64 = 5.0;

/// Polling shows in each of a few looks; what is done now and then, and a machine that is busy, do not.
#[test]
#[ignore = "ten seconds in which nothing happens, up to six times: scripts/soak runs it"]
fn an_idle_cluster_leaves_the_processors_alone() {
    const LOOK: Duration = Duration::from_secs(10);
    let world = World::with_volume();
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");
    let nodes = world.cluster.nodes().iter().filter_map(|node| node.process.as_ref());
    let processes = nodes.chain(world.cluster.metadata_process());
    let pids: Vec<u32> = processes.map(Process::pid).collect();
    assert_eq!(pids.len(), 4, "three nodes and the metadata");
    let mut percents = (0..6).map(|_| {
        let (meter, began) = (Meter::start(pids.iter().copied()), Instant::now());
        std::thread::sleep(LOOK);
        meter.used().as_secs_f64() / began.elapsed().as_secs_f64() * 100.0
    });
    let mut seen = Vec::new();
    let is_idle = percents.any(|percent| {
        seen.push(percent);
        percent < IDLE_PERCENT
    });
    assert!(is_idle, "idle processes took these percents of a core: {seen:.2?}");
    println!("idle: {seen:.2?} percent of a core");
    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("it serves");
    assert!(read == stamped(0, 1));
    client.close();
    world.end(&[]);
}

/// Huge pages are a thing that has to be set aside on a machine: nothing is mapped from there.
#[test]
fn a_node_maps_no_huge_pages_and_serves() {
    // Core dumps, so that what the process has mapped may be read.
    let world = World::serving(&["--core-dumps"]);
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");
    let all = std::fs::read_to_string("/proc/self/smaps").expect("our own mappings");
    let own = all.lines().find_map(|line| line.strip_prefix("KernelPageSize:"));
    let usual = own.expect("the first mapping of any process, of its program").trim();
    for node in world.cluster.nodes() {
        let process = node.process.as_ref().expect("it runs");
        let path = format!("/proc/{}/smaps", process.pid());
        let smaps = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
        let (mut place, mut mappings) = ("", 0);
        for line in smaps.lines() {
            match line.split_once(':') {
                Some(("KernelPageSize", size)) => {
                    mappings += 1;
                    assert_eq!(size.trim(), usual, "{} maps huge pages: {place}", node.name);
                }
                // `ht`: made by MAP_HUGETLB, or of a file of hugetlbfs (proc_pid_smaps(5)).
                Some(("VmFlags", flags)) => {
                    let is_huge = flags.split_whitespace().any(|flag| flag == "ht");
                    assert!(!is_huge, "{} maps huge pages: {place}", node.name);
                }
                // The first line of a mapping has its addresses; the names of its figures begin with capitals.
                _ if !line.starts_with(|c: char| c.is_ascii_uppercase()) => place = line,
                _ => {}
            }
        }
        assert!(mappings > 20, "{path} has {mappings} mappings");
    }
    client.close();
    world.end(&[]);
}

/// The very file, not a copy of it: whoever serves has it locked.
#[test]
fn a_store_that_is_served_is_not_served_by_a_second_process() {
    let world = World::with_volume();
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");
    let path = world.cluster.nodes()[2].stores[0].display().to_string();
    let (fabric, nbd) = (free_address(), free_address());
    let arguments = ["--store", &path, "--fabric", &fabric, "--nbd", &nbd];
    // Under another name, and under that of the node that serves it.
    for name in ["second", "n3"] {
        let said = gives_up(world.serve(name, &arguments));
        let wanted = format!("cannot open the store {path}: it is in use; another process serves it");
        assert!(said.contains(&wanted), "{name}: {said}");
    }
    let nodes = world.json(&["node", "list"]);
    assert_eq!(
        nodes.as_array().map(Vec::len),
        Some(3),
        "who was refused is nobody: {nodes}"
    );
    client.write(4096, &stamped(4096, 1)).expect("the store goes on");
    let status = world.json(&["status"]);
    assert_eq!((status["health"].as_str(), facts(&status)), (Some("ok"), vec![]));
    client.close();
    world.end(&[]);
}

/// Where the address space does not hold what a node was told to take, it ends before it serves; with less it serves.
#[test]
fn a_node_whose_address_space_does_not_hold_its_buffers_says_so_at_its_start() {
    let world = World::with_volume();
    let (fabric, nbd) = (free_address(), free_address());
    let identity = world.identity(Role::Gateway, "narrow").expect("an identity");
    let start = |limit_kib: u64, buffers: &str| {
        let script = format!(
            "ulimit -v {limit_kib}; exec {} serve --name narrow --metadata {} --identity {identity} --fabric {fabric} --nbd {nbd} \
             --buffers {buffers}",
            binary(),
            world.cluster.endpoint()
        );
        tool::start(world.folder(), "/bin/sh", ["-c", &script]).expect("it starts")
    };
    let said = gives_up(start(4 << 20, "6G"));
    for part in [
        "4 GiB of address space (RLIMIT_AS)",
        "6 GiB of --buffers",
        "ulimit -v",
        "LimitAS=",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    let nodes = world.json(&["node", "list"]);
    assert_eq!(
        nodes.as_array().map(Vec::len),
        Some(3),
        "who did not start is nobody: {nodes}"
    );
    let mut node = start(4 << 20, "64M");
    eventually("it serves with less", || {
        assert!(node.ended().expect("asked").is_none(), "{}", node.last_words());
        TcpStream::connect(&nbd).is_ok()
    });
    let address = nbd.parse().expect("an address");
    let mut client = Client::open(address, VOLUME, PATIENCE).expect("it opens");
    client.write(0, &stamped(0, 1)).expect("written");
    client.close();
    let ended = node.stop();
    assert!(ended.is_some_and(|status| status.success()), "{}", node.last_words());
    world.end(A_NODE_IS_GONE);
}
