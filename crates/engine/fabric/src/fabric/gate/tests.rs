use super::*;
use std::time::Duration;

fn source(text: &str) -> Source {
    Source::from(text.parse::<IpAddr>().expect("an address"))
}

fn limits() -> Limits {
    Limits {
        handshakes: 4,
        known_handshakes: 3,
        handshakes_per_second: 100,
        known_handshakes_per_second: 50,
        ..Limits::default()
    }
}

#[test]
fn a_second_of_them_comes_at_once_and_then_as_many_as_the_rate_says() {
    let (mut gate, limits, mut now) = (Gate::new(7), limits(), Time(5_000_000_000));
    let mut admitted = |now, count: usize| {
        (0..count)
            .filter(|_| gate.admits(now, source("10.0.0.1"), true, &limits))
            .count()
    };
    assert_eq!(admitted(now, 1000), 50);
    now = now.plus(Duration::from_millis(100));
    assert_eq!(admitted(now, 1000), 5);
    now = now.plus(Duration::from_secs(1000));
    assert_eq!(admitted(now, 1000), 50, "what was not used is not saved for ever");
}

#[test]
fn strangers_take_nothing_of_what_known_peers_have_and_one_of_them_not_all() {
    let (mut gate, limits, now) = (Gate::new(7), limits(), Time(0));
    let mut admitted = |address: &str, is_known, count: usize| {
        (0..count)
            .filter(|_| gate.admits(now, source(address), is_known, &limits))
            .count()
    };
    assert_eq!(admitted("10.0.0.66", false, 1000), HANDSHAKES_PER_SOURCE as usize);
    let others: usize = (0..200).map(|at| admitted(&format!("10.1.{at}.1"), false, 1000)).sum();
    assert_eq!(others, 100 - HANDSHAKES_PER_SOURCE as usize, "all strangers together");
    assert_eq!(admitted("10.0.0.1", true, 1000), 50);
}

#[test]
fn a_rate_of_none_admits_nobody() {
    let mut limits = limits();
    (limits.handshakes_per_second, limits.known_handshakes_per_second) = (0, 0);
    for is_known in [false, true] {
        assert!(!Gate::new(7).admits(Time(9), source("::1"), is_known, &limits));
    }
}

#[test]
fn addresses_of_one_site_are_one_source() {
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
    assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    assert_eq!(source("10.0.0.1"), source("::ffff:10.0.0.1"));
    assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
}

#[test]
fn whoever_has_most_makes_room_and_each_share_for_itself() {
    let (mut gate, limits) = (Gate::new(7), limits());
    let (honest, flood) = (source("10.0.0.1"), source("10.0.0.66"));
    gate.push(Link(1), honest, false);
    for link in 2..5 {
        assert_eq!(gate.victim(false, &limits), None);
        gate.push(Link(link), flood, false);
    }
    assert_eq!(
        gate.victim(false, &limits),
        Some(Link(2)),
        "not the honest one, which is the oldest"
    );
    assert_eq!(gate.victim(true, &limits), None, "the other share has room");
    gate.remove(Link(2));
    assert!(!gate.contains(Link(2)) && gate.contains(Link(3)));
    assert_eq!(gate.victim(false, &limits), None);
    gate.push(Link(9), honest, true);
    assert_eq!(gate.any_victim(), Some(Link(3)), "strangers first");
    for link in [1, 3, 4] {
        gate.remove(Link(link));
    }
    assert_eq!(gate.any_victim(), Some(Link(9)));
}
