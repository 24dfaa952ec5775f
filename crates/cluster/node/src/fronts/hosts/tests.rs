use super::*;
use amita_reactor::driver::{Completion, Outcome, Token, Wait};
use amita_reactor::sim::{SimConfig, SimDriver, World, node_ip};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

fn host(number: u32) -> IpAddr {
    Ipv4Addr::from(0xc612_0000 + number).into()
}

/// A listener at node 1, and somebody at node 2.
struct Rig {
    world: World,
    gateway: SimDriver,
    caller: SimDriver,
    hosts: Hosts,
    address: SocketAddr,
}

impl Rig {
    fn new() -> Rig {
        let mut world = World::new(1, SimConfig::default());
        let (mut gateway, caller) = (world.driver(1), world.driver(2));
        let (listener, address) = gateway
            .listen(SocketAddr::new(node_ip(1), 0), Token(1))
            .expect("a port");
        let mut hosts = Hosts::default();
        hosts.listens(&mut gateway, listener);
        Rig {
            world,
            gateway,
            caller,
            hosts,
            address,
        }
    }

    /// How many of so many connections at once are taken.
    fn taken(&mut self, count: usize) -> usize {
        for _ in 0..count {
            self.caller.connect(self.address, Token(2));
        }
        let completions = self.run(Duration::from_millis(10));
        let is_accepted = |outcome: &Outcome| matches!(outcome, Outcome::Accepted { .. });
        completions.iter().filter(|done| is_accepted(&done.outcome)).count()
    }

    /// So long that all budgets are full again.
    fn rest(&mut self) {
        self.run(Duration::from_secs(12));
    }

    /// What the gateway is told in that time.
    fn run(&mut self, length: Duration) -> Vec<Completion> {
        let until = self.world.now().plus(length);
        let mut completions = Vec::new();
        while let Some(node) = self.world.next_until(until) {
            match node {
                1 => self.gateway.poll(Wait::No, &mut completions),
                _ => self.caller.poll(Wait::No, &mut Vec::new()),
            }
        }
        completions
    }
}

#[test]
fn who_has_shown_that_he_may_be_here_has_a_rate_of_his_own_and_keeps_it_when_he_leaves() {
    let mut rig = Rig::new();
    let own = ACCEPTS.source.burst as usize;
    assert_eq!(rig.taken(own + 100), own);
    rig.hosts.has_shown(&mut rig.gateway, node_ip(2));
    assert_eq!(rig.taken(own), own);
    rig.hosts.has_left(node_ip(2));
    rig.rest();
    // A stranger would have 100 after two seconds.
    for _ in 0..3 {
        assert_eq!(rig.taken(own), own);
        rig.run(Duration::from_secs(2));
    }
}

#[test]
fn of_those_who_have_left_the_latest_are_kept() {
    let mut rig = Rig::new();
    rig.hosts.has_shown(&mut rig.gateway, node_ip(2));
    rig.hosts.has_left(node_ip(2));
    for number in 1..MAX_KNOWN as u32 {
        rig.hosts.has_shown(&mut rig.gateway, host(number));
    }
    for number in (1..MAX_KNOWN as u32).step_by(2) {
        rig.hosts.has_left(host(number));
    }
    let own = ACCEPTS.source.burst as usize;
    for _ in 0..3 {
        assert_eq!(rig.taken(own), own, "there is room for all of them");
        rig.run(Duration::from_secs(2));
    }
    // Who left first makes room, and then the next.
    for number in 0..10 {
        rig.hosts.has_shown(&mut rig.gateway, host(100_000 + number));
        assert_eq!(rig.hosts.known.len(), MAX_KNOWN);
    }
    assert!(!rig.hosts.known.contains_key(&node_ip(2)));
    assert_eq!(rig.taken(own), own);
    rig.run(Duration::from_secs(2));
    assert!(rig.taken(own) < own, "one of the strangers");
    let has = |rig: &Rig, number: u32| rig.hosts.known.contains_key(&host(number));
    assert!(!has(&rig, 1) && !has(&rig, 17) && has(&rig, 19) && has(&rig, 2) && has(&rig, 100_009));
    // Where nobody has left nobody makes room.
    for number in 0..MAX_KNOWN as u32 {
        rig.hosts.has_shown(&mut rig.gateway, host(200_000 + number));
    }
    rig.hosts.has_shown(&mut rig.gateway, host(300_000));
    assert!(!has(&rig, 300_000) && has(&rig, 2) && has(&rig, 100_009));
    rig.hosts.has_left(host(300_000));
    assert_eq!(rig.hosts.known.len(), MAX_KNOWN);
}

#[test]
fn hosts_of_one_network_are_known_each_by_itself() {
    let mut rig = Rig::new();
    let host = |text: &str| text.parse::<IpAddr>().expect("an address");
    rig.hosts.has_shown(&mut rig.gateway, host("2001:db8::1"));
    rig.hosts.has_shown(&mut rig.gateway, host("2001:db8::2"));
    rig.hosts.has_left(host("2001:db8::2"));
    assert_eq!(rig.hosts.known[&host("2001:db8::1")].sessions, 1);
    assert_eq!(rig.hosts.known[&host("2001:db8::2")].sessions, 0);
    assert!(!rig.hosts.known.contains_key(&host("2001:db8::3")));
    rig.hosts.has_shown(&mut rig.gateway, host("::ffff:10.0.0.9"));
    rig.hosts.has_left(host("10.0.0.9"));
    assert_eq!(rig.hosts.known[&host("10.0.0.9")].sessions, 0);
}

#[test]
fn who_has_shown_at_one_core_that_he_may_be_here_is_known_at_the_others() {
    let (mut rig, mut other) = (Rig::new(), Rig::new());
    rig.hosts.has_shown(&mut rig.gateway, node_ip(2));
    rig.hosts.has_shown(&mut rig.gateway, node_ip(2));
    let learned = rig.hosts.take_learned();
    assert_eq!(learned, [node_ip(2)]);
    assert!(rig.hosts.take_learned().is_empty());
    for address in learned {
        other.hosts.has_shown_elsewhere(&mut other.gateway, address);
    }
    assert!(other.hosts.take_learned().is_empty(), "nobody is told twice");
    let own = ACCEPTS.source.burst as usize;
    assert_eq!(other.taken(own), own);
    assert_eq!(other.taken(1), 0, "his share of what those have who are known");
    // He makes room for others there, but not while he is there himself.
    other.hosts.has_shown(&mut other.gateway, node_ip(2));
    for number in 0..2 * MAX_KNOWN as u32 {
        other.hosts.has_shown_elsewhere(&mut other.gateway, host(number));
    }
    assert_eq!(other.hosts.known.len(), MAX_KNOWN);
    assert!(other.hosts.known.contains_key(&node_ip(2)));
}
