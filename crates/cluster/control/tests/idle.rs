//! What the control plane of an idle cluster costs: three agents and the embedded server in one process, nothing to do.
//! It has a process of its own, because it measures one.

use amita_control::agent::{Agent, Config};
use amita_metadata::Client;
use amita_metadata::server;
use amita_types::NodeId;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The process's CPU time in clock ticks of 10 ms (`utime` and `stime` of proc(5)).
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn an_idle_control_plane_costs_next_to_nothing() {
    const SECONDS: u64 = 10;
    let folder = tempfile::tempdir().unwrap();
    let config = server::Config::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), folder.path().join("meta"));
    let server = server::start(config).unwrap();
    let endpoint = [server.address().to_string()];
    let agents: Vec<Agent> = (1..=3)
        .map(|node| {
            let client = Client::connect(&endpoint).unwrap();
            Agent::start(&client, &Config::new(NodeId(node), 1), Arc::new(|_| {})).unwrap()
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let before = ticks();
    std::thread::sleep(Duration::from_secs(SECONDS));
    let spent = ticks() - before;
    println!(
        "{agents} agents and the server: {spent}0 ms of CPU in {SECONDS} s",
        agents = agents.len()
    );
    // A hundred ticks are a second: under 1 % of a core.
    assert!(spent <= SECONDS, "{spent} ticks in {SECONDS} s");
}
