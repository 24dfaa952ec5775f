//! What the control plane of an idle cluster costs: three agents and the embedded server in one process, nothing to do.
//! It has a process of its own, because it measures one. How much of a core that is, `make bench` judges (`idle.cpu_percent`): here
//! it is told by what a machine's speed and its other load do not change.

use amita_control::agent::{Agent, Config};
use amita_metadata::server;
use amita_metadata::{Call, Client};
use amita_types::NodeId;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const AGENTS: u32 = 3;
const SECONDS: u64 = 10;
/// What idleness is compared with: thirty requests a second of each agent, where an idle one makes one.
const REQUESTS: u64 = 30 * AGENTS as u64 * SECONDS;

/// What the threads of this process that live have had of processors, in nanoseconds, and how often they have gone to sleep of themselves,
/// so were woken (`schedstat` and `voluntary_ctxt_switches` of proc(5); `stat` counts in ticks, and beside a load takes what wakes at a tick
/// for what ran through it).
fn spent() -> (u64, u64) {
    let mut sum = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        // A thread that has ended meanwhile has no files.
        let ran = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        sum.0 += ran.split_whitespace().next().map_or(0, |ns| ns.parse::<u64>().unwrap());
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum.1 += line.map_or(0, |count| count.trim().parse::<u64>().unwrap());
    }
    sum
}

#[test]
fn an_idle_control_plane_costs_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = server::Config::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), folder.path().join("meta"));
    let server = server::start(config).unwrap();
    let endpoint = [server.address().to_string()];
    let agents: Vec<Agent> = (1..=AGENTS)
        .map(|node| {
            let client = Client::connect(&endpoint).unwrap();
            Agent::start(&client, &Config::new(NodeId(node), 1), Arc::new(|_| {})).unwrap()
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));

    let before = spent();
    std::thread::sleep(Duration::from_secs(SECONDS));
    let after = spent();
    let (idle, woken) = (after.0 - before.0, after.1 - before.1);

    // What this machine takes for a request at this minute, all threads of the same process together.
    let client = Client::connect(&endpoint).unwrap();
    let before = spent();
    for _ in 0..REQUESTS {
        client.txn(&Call::default()).unwrap();
    }
    let asked = spent().0 - before.0;
    println!(
        "{agents} agents and the server, {SECONDS} s: woken {woken} times, {idle} ns of CPU; {REQUESTS} requests: {asked} ns",
        agents = agents.len()
    );
    // Some ten are what a renewed lease, and a look at what is due, take.
    assert!(
        woken <= u64::from(AGENTS) * SECONDS * 20,
        "woken {woken} times in {SECONDS} s"
    );
    // And nobody spins, who would have seconds. (Beside a load a wake costs several times what it does alone, so no closer bound holds.)
    assert!(
        idle <= 4 * asked,
        "{idle} ns in {SECONDS} s of idleness, {asked} for {REQUESTS} requests"
    );
}
