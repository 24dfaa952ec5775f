//! Fabrics over the kernel's sockets, on loopback.

mod common;

use amita_fabric::secure::Protection;
use amita_fabric::{Config, DownReason, Event};
use amita_reactor::core::Service;
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Driver, Pool, PoolConfig, Wait};
use amita_testkit::loopback;
use amita_types::{ClusterId, NodeId};
use common::proof::Authority;
use common::{Node, config, read, renew_lease, secured, takes_all, write};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

struct Running {
    driver: UringDriver,
    node: Node,
    address: SocketAddr,
}

fn start(config: Config) -> Running {
    start_at(config, loopback::free_address())
}

fn start_at(mut config: Config, address: SocketAddr) -> Running {
    let pool = Pool::new(PoolConfig::with_total(16 << 20)).expect("16 MiB");
    config.pool = pool.clone();
    let driver = UringDriver::new(UringConfig::default(), pool).expect("io_uring");
    Running {
        driver,
        node: Node::new(config).listen(address),
        address,
    }
}

/// Passes of all, in turn, until it is so.
fn run_till(nodes: &mut [&mut Running], mut what: impl FnMut(&mut [&mut Running]) -> bool) {
    let mut completions = Vec::new();
    let started = Instant::now();
    while !what(nodes) {
        assert!(started.elapsed() < Duration::from_secs(20), "not within 20 s");
        for running in nodes.iter_mut() {
            running.driver.poll(Wait::No, &mut completions);
            running.node.pass(&mut running.driver, &mut completions);
        }
        std::thread::yield_now();
    }
}

fn pair() -> (Running, Running) {
    pair_of(config(1), config(2))
}

fn pair_of(one: Config, two: Config) -> (Running, Running) {
    let mut two = start(two);
    let mut one = start(one);
    one.node.set_peer(2, Some(two.address));
    run_till(&mut [&mut one, &mut two], |nodes| nodes[0].node.ups() == 1);
    (one, two)
}

#[test]
fn requests_and_answers_keep_their_order_and_their_bytes() {
    exchange(pair());
}

#[test]
fn they_do_so_on_protected_links() {
    for protection in [Protection::Auth, Protection::Secret] {
        let authority = Authority::new(7);
        let secured = |node| {
            let mut config = secured(node, protection, &authority);
            config.security.as_mut().expect("secured").rekey_frames = 100;
            config
        };
        exchange(pair_of(secured(1), secured(2)));
    }
}

fn exchange((mut one, mut two): (Running, Running)) {
    for id in 0..2000u64 {
        let message = match id % 4 {
            0 => write(id, 128 << 10),
            1 => read(id, (id % 33) as u16),
            2 => write(id, 1 + (id as u32 * 17) % 9000),
            _ => write(id, 4096),
        };
        one.node.send(2, message);
    }
    run_till(&mut [&mut one, &mut two], |nodes| nodes[0].node.answers.len() == 2000);
    assert!(two.node.requests.iter().map(|(_, id)| *id).eq(0..2000));
    assert!(one.node.answers.iter().map(|(_, id)| *id).eq(0..2000));
    assert_eq!((one.node.damaged, two.node.damaged), (0, 0));
    assert!(one.node.failed.is_empty() && two.node.failed.is_empty());
}

#[test]
fn what_the_kernel_counts_of_each_link_is_told_a_piece_at_a_time() {
    let (mut one, mut two) = pair();
    for id in 0..50 {
        one.node.send(2, write(id, 64 << 10));
    }
    run_till(&mut [&mut one, &mut two], |nodes| nodes[0].node.answers.len() == 50);
    let ask = |running: &mut Running| {
        let (mut found, mut from, mut pieces) = (Vec::new(), Some(0), 0);
        while let Some(place) = from {
            from = running.node.fabric.paths(&mut running.driver, place, 1, &mut found);
            pieces += 1;
        }
        (found, pieces)
    };
    // The one has called, the other was called; each is told of what it sends itself.
    let ((ours, _), (theirs, _)) = (ask(&mut one), ask(&mut two));
    assert_eq!((ours[0].peer, theirs[0].peer), (NodeId(2), NodeId(1)));
    assert!(
        ours[0].counts.sent >= 10 && theirs[0].counts.sent > 0,
        "{ours:?} {theirs:?}"
    );
    assert!(
        ours[0].counts.sent < u32::MAX / 2 && ours[0].counts.resent <= ours[0].counts.sent,
        "{ours:?}"
    );
    drop(two);
    run_till(&mut [&mut one], |nodes| nodes[0].node.fabric.links() == 0);
    assert!(ask(&mut one).0.is_empty());
}

#[test]
fn a_peer_that_ends_is_certainly_dead_and_greeted_when_it_is_back() {
    let (mut one, two) = pair();
    let address = two.address;
    drop(two);
    let ended = Instant::now();
    let certain = |event: &Event| matches!(event, Event::Unreachable { certain: true, .. });
    run_till(&mut [&mut one], |nodes| nodes[0].node.count(certain) > 0);
    assert!(ended.elapsed() < Duration::from_millis(500), "{:?}", ended.elapsed());
    assert_eq!(
        one.node
            .count(|event| matches!(event, Event::Down { peer: NodeId(2), .. })),
        1
    );
    let mut two = start_at(config(2), address);
    run_till(&mut [&mut one, &mut two], |nodes| nodes[0].node.ups() == 2);
    one.node.send(2, renew_lease(1));
    run_till(&mut [&mut one, &mut two], |nodes| nodes[0].node.answers.len() == 1);
}

#[test]
fn another_cluster_is_refused() {
    let mut other = config(2);
    other.cluster = ClusterId(0xbad);
    let mut two = start(other);
    let mut one = start(config(1));
    one.node.set_peer(2, Some(two.address));
    let refused =
        |event: &Event| matches!(event, Event::Refused { reason, .. } if reason.contains("belongs to cluster"));
    run_till(&mut [&mut one, &mut two], |nodes| nodes[0].node.count(refused) == 1);
}

#[test]
fn strangers_get_nowhere() {
    let mut one = start(config(1));
    run_till(&mut [&mut one], |nodes| nodes[0].node.passes > 2);
    let mut http = TcpStream::connect(one.address).expect("it listens");
    http.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("sent");
    let silent = TcpStream::connect(one.address).expect("it listens");
    run_till(&mut [&mut one], |nodes| nodes[0].node.fabric.counters().strangers == 2);
    for mut stream in [http, silent] {
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
        let mut bytes = Vec::new();
        // Closed, with or without a reset; nothing was said.
        let _ = stream.read_to_end(&mut bytes);
        assert!(bytes.is_empty(), "{bytes:?}");
    }
    assert!(one.node.events.is_empty());
}

#[test]
fn a_thousand_half_open_connections_do_not_keep_a_peer_out() {
    let mut one = start(takes_all(config(1)));
    run_till(&mut [&mut one], |nodes| nodes[0].node.passes > 2);
    let mut strangers = Vec::new();
    for round in 0..10 {
        strangers.extend((0..100).map(|_| TcpStream::connect(one.address).expect("it listens")));
        run_till(&mut [&mut one], |nodes| {
            nodes[0].node.fabric.counters().accepted >= (round + 1) * 100
        });
    }
    let mut two = start(config(2));
    two.node.set_peer(1, Some(one.address));
    run_till(&mut [&mut one, &mut two], |nodes| nodes[1].node.ups() == 1);
    two.node.send(1, write(1, 4096));
    run_till(&mut [&mut one, &mut two], |nodes| nodes[1].node.answers.len() == 1);
    assert!(
        one.node.fabric.counters().strangers >= 936,
        "all but 64 were dropped at once"
    );
}

#[test]
fn a_link_that_the_peer_resets_is_made_again() {
    let (mut one, mut two) = pair();
    let Event::Up { link, .. } = two.node.events[0].1 else {
        panic!("up")
    };
    two.node.close(link);
    run_till(&mut [&mut one, &mut two], |nodes| nodes[0].node.ups() == 2);
    let why = one.node.events.iter().find_map(|(_, event)| match event {
        Event::Down { why, .. } => Some(why.clone()),
        _ => None,
    });
    assert!(
        matches!(why, Some(DownReason::Closed | DownReason::Broken(_))),
        "{why:?}"
    );
}
