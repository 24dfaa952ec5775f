//! A peer with two networks: what becomes of its link when one of them fails, and when it is told to move.
//!
//! By the first network node 2 is reached through a relay, number [`RELAY`], which can be killed (its port refuses then) or lose its
//! power (nothing is heard of it any more); by the second it is reached directly.

use crate::common::proof::Authority;
use crate::common::{Node, Raw, renew_lease, secured, write};
use crate::world::{Cluster, millis, seconds};
use amita_fabric::secure::Protection;
use amita_fabric::{DownReason, Event};
use amita_types::NodeId;
use amita_types::link::Network;
use std::time::Duration;

const RELAY: u32 = 3;
/// Somebody at the second address, where that is not node 2.
const OTHER: u32 = 4;

fn node(number: u32) -> Node {
    Node::new(secured(number, Protection::Auth, &Authority::new(7)))
}

/// Node 1 keeps a link to node 2, whose second address is that of `second`. The link is not up yet.
fn world(seed: u64, second: u32) -> Cluster {
    let mut cluster = Cluster::new(seed);
    let (by_relay, other) = (cluster.address(RELAY), cluster.address(second));
    let mut one = node(1);
    one.set_peer_at(2, by_relay, Some(other));
    cluster.start_relay(RELAY, 2);
    cluster.start(2, node(2));
    cluster.start(1, one);
    cluster
}

fn up(seed: u64, second: u32) -> Cluster {
    let mut cluster = world(seed, second);
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    assert_eq!(cluster.relay(RELAY).connections(), 1, "by the first network");
    cluster
}

fn downs(cluster: &mut Cluster, number: u32) -> usize {
    cluster.node(number).count(|event| matches!(event, Event::Down { .. }))
}

fn certain(cluster: &mut Cluster) -> usize {
    cluster
        .node(1)
        .count(|event| matches!(event, Event::Unreachable { certain: true, .. }))
}

/// Links from node 1 that node 2 believes to be up.
fn held(cluster: &mut Cluster) -> usize {
    cluster.node(2).count(|event| matches!(event, Event::Up { .. })) - downs(cluster, 2)
}

fn time_till(cluster: &mut Cluster, what: impl FnMut(&mut Cluster) -> bool) -> Duration {
    let begun = cluster.world.now();
    cluster.run_till(what);
    cluster.world.now().since(begun)
}

#[test]
fn where_the_first_network_refuses_the_second_has_the_link_at_once() {
    let mut cluster = world(1, 2);
    cluster.kill(RELAY);
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 1);
    assert!(took < millis(20), "{took:?}");
    assert_eq!(
        certain(&mut cluster),
        0,
        "that one network refuses does not say that the process is dead"
    );
    cluster.node(1).send(2, renew_lease(1));
    cluster.run(seconds(20));
    assert_eq!((cluster.node(1).answers.len(), downs(&mut cluster, 1)), (1, 0));
}

#[test]
fn where_the_first_network_says_nothing_the_second_has_the_link_within_the_patience_of_a_dial() {
    let mut cluster = world(2, 2);
    cluster.power_cut(RELAY);
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 1);
    assert!(took < millis(1050), "{took:?}");
    // What the kernel still tries by the first network changes nothing when it succeeds.
    cluster.start_relay(RELAY, 2);
    cluster.run(seconds(200));
    assert_eq!(
        (cluster.node(1).ups(), downs(&mut cluster, 1), held(&mut cluster)),
        (1, 0, 1)
    );
}

#[test]
fn a_hello_that_was_given_up_does_not_end_the_link_when_its_network_heals() {
    for seed in 0..10 {
        let mut cluster = world(400 + seed, 2);
        cluster.world.delay_link(1, 2, millis(40));
        cluster.world.delay_link(2, 1, millis(40));
        cluster.kill(RELAY);
        // By the second network it is connected after 80 ms, and says its hello after 160, which is to come after 200.
        cluster.run(millis(180));
        cluster.world.partition(1, 2);
        cluster.start_relay(RELAY, 2);
        let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 1);
        assert!(took < millis(1500), "node 2 waits for that hello: {took:?}");
        cluster.world.heal(1, 2);
        cluster.run(seconds(5));
        assert_eq!(
            (cluster.node(1).ups(), downs(&mut cluster, 1), downs(&mut cluster, 2)),
            (1, 0, 0),
            "seed {seed}"
        );
    }
}

#[test]
fn a_process_that_is_dead_is_known_to_be_as_soon_as_both_networks_have_refused() {
    let mut cluster = world(3, OTHER);
    // Somebody was there, so that the host refuses.
    cluster.start(OTHER, node(2));
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    cluster.kill(OTHER);
    cluster.kill(RELAY);
    let took = time_till(&mut cluster, |cluster| certain(cluster) >= 4);
    assert!(took < millis(80), "{took:?}");
    // And it is greeted by whichever has it first.
    cluster.start_relay(RELAY, 2);
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 2);
    assert!(took < millis(1300), "{took:?}");
}

#[test]
fn a_refusal_by_one_network_waits_for_what_the_other_one_says() {
    let mut cluster = world(4, OTHER);
    cluster.start_raw(OTHER, Raw::listening(cluster.address(OTHER)));
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    cluster.power_cut(OTHER);
    cluster.kill(RELAY);
    cluster.run(millis(900));
    assert_eq!(certain(&mut cluster), 0);
    cluster.run(seconds(10));
    let uncertain = |event: &Event| matches!(event, Event::Unreachable { certain: false, .. });
    assert!(cluster.node(1).count(uncertain) > 0);
    // It is never slower to come back than with one network.
    cluster.start_relay(RELAY, 2);
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 2);
    assert!(took < millis(1300), "{took:?}");
}

#[test]
fn a_refusal_beside_a_link_that_was_up_says_nothing_of_later() {
    let mut cluster = world(10, OTHER);
    cluster.start(OTHER, node(2));
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    cluster.kill(OTHER);
    cluster.node(1).steer(2, Network::Second);
    cluster.run(seconds(3));
    assert_eq!(
        (cluster.node(1).ups(), downs(&mut cluster, 1)),
        (1, 0),
        "it was refused"
    );
    // The second network is well again, and slow; now the first one refuses.
    cluster.start_raw(OTHER, Raw::listening(cluster.address(OTHER)));
    cluster.world.delay_link(1, OTHER, millis(200));
    cluster.world.delay_link(OTHER, 1, millis(200));
    cluster.kill(RELAY);
    cluster.run(seconds(1));
    assert_eq!(downs(&mut cluster, 1), 1);
    assert_eq!(
        certain(&mut cluster),
        0,
        "the second network has not refused since the link went down"
    );
    // Once both refuse it is known.
    cluster.world.delay_link(1, OTHER, millis(0));
    cluster.world.delay_link(OTHER, 1, millis(0));
    cluster.kill(OTHER);
    cluster.run_till(|cluster| certain(cluster) >= 4);
}

#[test]
fn a_network_that_dies_under_a_link_costs_a_second() {
    for seed in 0..20 {
        let mut cluster = up(100 + seed, 2);
        cluster.run(seconds(3));
        cluster.power_cut(RELAY);
        cluster.node(1).send(2, renew_lease(1));
        let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 2);
        assert!(took > millis(900) && took < millis(1200), "seed {seed}: {took:?}");
        assert_eq!(
            (downs(&mut cluster, 1), held(&mut cluster)),
            (1, 1),
            "seed {seed}: the new one ends the old one"
        );
        cluster.node(1).send(2, renew_lease(2));
        cluster.run_till(|cluster| cluster.node(1).answers.iter().any(|(_, id)| *id == 2));
        cluster.run(seconds(30));
        assert_eq!(cluster.node(1).ups(), 2, "seed {seed}: and it stays");
    }
}

#[test]
fn a_network_whose_ports_close_under_a_link_costs_next_to_nothing() {
    let mut cluster = up(5, 2);
    cluster.run(seconds(3));
    cluster.kill(RELAY);
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 2);
    assert!(took < millis(30), "{took:?}");
    assert_eq!(certain(&mut cluster), 0);
}

#[test]
fn a_link_that_answers_late_stays_where_it_is() {
    let mut cluster = up(6, 2);
    // Held up for longer than a doubt takes: the other network has nothing to offer but the same process.
    cluster.world.freeze(2, millis(1500));
    cluster.node(1).send(2, renew_lease(1));
    cluster.run(seconds(5));
    let lost = downs(&mut cluster, 1);
    assert!(
        cluster.node(1).answers.len() + lost >= 1,
        "it is answered, or is to be sent again"
    );
    assert_eq!(cluster.node(1).ups(), 1 + lost);
    assert_eq!(held(&mut cluster), 1);
}

#[test]
fn a_link_moves_in_order_and_stays_where_it_cannot_move() {
    for seed in 0..10 {
        let mut cluster = up(200 + seed, 2);
        for id in 0..200 {
            cluster.node(1).send(2, write(id, 4096));
        }
        cluster.poke();
        cluster.node(1).steer(2, Network::Second);
        cluster.run_till(|cluster| cluster.node(1).ups() == 2);
        cluster.run(seconds(1));
        let why = |event: &Event| {
            matches!(
                event,
                Event::Down {
                    why: DownReason::Dropped | DownReason::PeerSaid(_),
                    ..
                }
            )
        };
        assert_eq!(
            (cluster.node(1).count(why), downs(&mut cluster, 1), held(&mut cluster)),
            (1, 1, 1),
            "seed {seed}"
        );
        let came: Vec<u64> = cluster.node(2).requests.iter().map(|(_, id)| *id).collect();
        assert!(came.is_sorted(), "seed {seed}: {came:?}");
        assert_eq!(cluster.node(2).damaged, 0);
        for id in 200..210 {
            cluster.node(1).send(2, write(id, 4096));
        }
        cluster.run(seconds(1));
        let came = cluster.node(2).requests.iter().filter(|(_, id)| *id >= 200);
        assert_eq!(came.count(), 10);

        // Back, where that is not to be had: nothing is given up for it.
        cluster.kill(RELAY);
        cluster.node(1).steer(2, Network::First);
        cluster.run(seconds(10));
        assert_eq!((cluster.node(1).ups(), downs(&mut cluster, 1)), (2, 1), "seed {seed}");
        cluster.start_relay(RELAY, 2);
        cluster.run(seconds(10));
        assert_eq!(cluster.node(1).ups(), 2, "seed {seed}: nobody asked for it again");
        cluster.node(1).steer(2, Network::First);
        cluster.run_till(|cluster| cluster.node(1).ups() == 3);
        assert_eq!(
            (cluster.relay(RELAY).connections(), held(&mut cluster)),
            (1, 1),
            "seed {seed}"
        );
    }
}

#[test]
fn a_move_that_cannot_be_begun_does_not_happen_some_day() {
    let mut cluster = up(13, 2);
    cluster.world.partition(1, 2);
    // As many calls as may be with the kernel at once; then one that is not begun.
    for _ in 0..4 {
        cluster.node(1).steer(2, Network::Second);
        cluster.run(millis(1050));
    }
    cluster.node(1).steer(2, Network::Second);
    cluster.run(millis(100));
    cluster.world.heal(1, 2);
    cluster.run(seconds(20));
    assert_eq!((cluster.node(1).ups(), downs(&mut cluster, 1)), (1, 0));
    cluster.node(1).steer(2, Network::Second);
    cluster.run_till(|cluster| cluster.node(1).ups() == 2);
}

#[test]
fn a_move_to_a_slower_network_breaks_the_link_once() {
    for seed in 0..10 {
        let mut cluster = up(300 + seed, 2);
        cluster.world.delay_link(1, 2, millis(40));
        cluster.world.delay_link(2, 1, millis(40));
        for id in 0..200 {
            cluster.node(1).send(2, write(id, 4096));
        }
        cluster.poke();
        cluster.node(1).steer(2, Network::Second);
        cluster.run_till(|cluster| cluster.node(1).ups() == 2);
        cluster.run(seconds(10));
        assert_eq!(
            (cluster.node(1).ups(), downs(&mut cluster, 1), held(&mut cluster)),
            (2, 1, 1),
            "seed {seed}"
        );
        assert_eq!(
            downs(&mut cluster, 2),
            1,
            "seed {seed}: the old one is replaced, and not the new one"
        );
        assert_eq!(
            cluster.relay(RELAY).connections(),
            1,
            "seed {seed}: nobody calls by the first network meanwhile"
        );
        let refused = |event: &Event| matches!(event, Event::Unreachable { .. } | Event::Refused { .. });
        assert_eq!(cluster.node(1).count(refused), 0, "seed {seed}");
        cluster.node(1).send(2, renew_lease(1000));
        cluster.run_till(|cluster| cluster.node(1).answers.iter().any(|(_, id)| *id == 1000));
    }
}

#[test]
fn a_move_whose_other_network_is_cut_after_the_hello_comes_back_by_the_first() {
    let mut cluster = up(11, 2);
    cluster.world.delay_link(1, 2, millis(40));
    cluster.world.delay_link(2, 1, millis(40));
    cluster.node(1).steer(2, Network::Second);
    // Node 2 has replaced the link, and what it says of the new one is lost.
    cluster.run_till(|cluster| downs(cluster, 2) == 1);
    cluster.world.partition(1, 2);
    cluster.run_till(|cluster| downs(cluster, 1) == 1);
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 2);
    assert!(took < millis(2100), "once the handshake has taken too long: {took:?}");
    cluster.run(seconds(20));
    assert_eq!(
        (cluster.node(1).ups(), downs(&mut cluster, 1), certain(&mut cluster)),
        (2, 1, 0)
    );
    cluster.node(1).send(2, renew_lease(1));
    cluster.run_till(|cluster| cluster.node(1).answers.len() == 1);
}

#[test]
fn who_answers_at_the_second_address_and_is_another_node_gets_nothing() {
    let mut cluster = world(7, OTHER);
    cluster.start(OTHER, node(OTHER));
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    cluster.node(1).steer(2, Network::Second);
    cluster.run(seconds(5));
    assert_eq!(
        (cluster.node(1).ups(), downs(&mut cluster, 1)),
        (1, 0),
        "the link stays while the other one is judged"
    );
    cluster.kill(RELAY);
    cluster.node(1).send(2, renew_lease(1));
    cluster.run(seconds(20));
    let refused = cluster.node(1).events.iter().filter_map(|(_, event)| match event {
        Event::Refused {
            peer: NodeId(2),
            reason,
        } => Some(reason.clone()),
        _ => None,
    });
    let refused: Vec<String> = refused.collect();
    assert_eq!(refused, ["n2 was called, and node n4 has answered"], "said once");
    assert!(cluster.node(OTHER).requests.is_empty());
    assert_eq!(certain(&mut cluster), 0);
    cluster.start_relay(RELAY, 2);
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 2);
    assert!(took < millis(1300), "{took:?}");
    // What was on its way when the link ended is sent again by who has sent it.
    cluster.node(1).send(2, renew_lease(2));
    cluster.run_till(|cluster| !cluster.node(1).answers.is_empty());
}

#[test]
fn who_takes_connections_at_the_second_address_and_says_nothing_holds_up_nobody() {
    let mut cluster = world(8, OTHER);
    cluster.start_raw(OTHER, Raw::listening(cluster.address(OTHER)));
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    cluster.kill(RELAY);
    cluster.run(millis(200));
    cluster.start_relay(RELAY, 2);
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 2);
    assert!(took < millis(500), "as soon as with one network: {took:?}");
    cluster.run(seconds(20));
    assert_eq!((cluster.node(1).ups(), downs(&mut cluster, 1)), (2, 1));
}

#[test]
fn who_takes_connections_at_the_first_address_and_says_nothing_does_not_make_it_silent() {
    let mut cluster = up(14, 2);
    cluster.run(seconds(3));
    cluster.kill(RELAY);
    cluster.start_raw(RELAY, Raw::listening(cluster.address(RELAY)));
    let took = time_till(&mut cluster, |cluster| cluster.node(1).ups() == 2);
    assert!(took < millis(600), "before a peer is taken for dead: {took:?}");
    cluster.run(seconds(20));
    assert_eq!(
        (cluster.node(1).ups(), downs(&mut cluster, 1), certain(&mut cluster)),
        (2, 1, 0)
    );
}

#[test]
fn a_second_address_comes_moves_and_goes_without_the_first_ones_links() {
    let mut cluster = world(9, 2);
    let (first, second, elsewhere) = (cluster.address(RELAY), cluster.address(2), cluster.address(OTHER));
    cluster.node(1).set_peer_at(2, first, None);
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    for second in [Some(second), Some(elsewhere), None, Some(second)] {
        cluster.node(1).set_peer_at(2, first, second);
        cluster.run(seconds(1));
    }
    assert_eq!((cluster.node(1).ups(), downs(&mut cluster, 1)), (1, 0));
    cluster.node(1).steer(2, Network::Second);
    cluster.run_till(|cluster| cluster.node(1).ups() == 2);
    // The one in use goes: back to the first.
    cluster.node(1).set_peer_at(2, first, None);
    cluster.run_till(|cluster| cluster.node(1).ups() == 3);
    cluster.run(seconds(20));
    assert_eq!(
        (downs(&mut cluster, 1), held(&mut cluster), cluster.node(1).ups()),
        (2, 1, 3)
    );
}
