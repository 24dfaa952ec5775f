//! The fault switches do what they are there for.

use crate::common::proof::Authority;
use crate::common::{Node, Raw, config, secured, write};
use crate::world::{Cluster, millis, seconds};
use amita_fabric::codec::{self, Frame};
use amita_fabric::secure::Protection;
use amita_fabric::{Event, Fault, Faults};
use amita_types::link::Network;

/// Who takes node 1's connections to node 2 by the first network.
const RELAY: u32 = 3;

/// Two nodes with these rules switched off; the link of the first to the second is up, by the first of two networks.
fn by_two_networks(faults: Faults) -> Cluster {
    let mut cluster = Cluster::new(1);
    let [mut one, two] = [1, 2].map(|number| {
        let mut settings = secured(number, Protection::Auth, &Authority::new(7));
        settings.faults = faults;
        Node::new(settings)
    });
    one.set_peer_at(2, cluster.address(RELAY), Some(cluster.address(2)));
    cluster.start_relay(RELAY, 2);
    cluster.start(2, two);
    cluster.start(1, one);
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    assert_eq!(cluster.relay(RELAY).connections(), 1, "by the first network");
    cluster
}

/// Ids of writes as they arrive at a node with these rules switched off.
fn arrivals(faults: Faults) -> Vec<u64> {
    let mut two = config(2);
    two.faults = faults;
    let mut cluster = Cluster::pair(1, Node::new(config(1)), Node::new(two));
    for id in 0..500 {
        cluster.node(1).send(2, write(id, 4096));
    }
    cluster.run_till(|cluster| cluster.node(1).answers.len() == 500);
    cluster.node(2).requests.iter().map(|(_, id)| *id).collect()
}

#[test]
fn messages_overtake_each_other_when_that_rule_is_off() {
    assert!(arrivals(Faults::NONE).into_iter().eq(0..500));
    let mut ids = arrivals(Faults::NONE.with(Fault::Reorder));
    assert!(!ids.is_sorted(), "some overtook others");
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..500), "and none was lost");
}

#[test]
fn a_changed_head_is_delivered_when_that_rule_is_off() {
    for (faults, expected) in [(Faults::NONE, vec![]), (Faults::NONE.with(Fault::SkipHeadCrc), vec![3])] {
        let mut one = config(1);
        one.faults = faults;
        let mut cluster = Cluster::new(1);
        cluster.start(1, Node::new(one));
        let address = cluster.address(1);
        cluster.start_raw(9, Raw::new(address, 1));
        cluster.run(millis(10));
        cluster.raw(9).hello(0, 9, 1);
        cluster.run(millis(10));
        assert!(matches!(cluster.raw(9).connections[0].frames[..], [Frame::Welcome(_)]));
        let (message, payload) = write(1, 4096);
        let mut bytes = Vec::new();
        codec::encode(&mut bytes, codec::PROTOCOL_VERSION, &message, payload.len()).expect("valid");
        // The lowest byte of the request's id.
        bytes[16] ^= 2;
        bytes.extend_from_slice(&payload);
        cluster.raw(9).send(0, &bytes);
        cluster.run(millis(10));
        let ids: Vec<u64> = cluster.node(1).requests.iter().map(|(_, id)| *id).collect();
        assert_eq!(ids, expected);
    }
}

#[test]
fn one_networks_refusal_is_a_death_when_that_rule_is_off() {
    for (faults, is_dead) in [(Faults::NONE, false), (Faults::NONE.with(Fault::OneRefusal), true)] {
        let mut cluster = by_two_networks(faults);
        cluster.world.delay_link(1, 2, millis(40));
        cluster.world.delay_link(2, 1, millis(40));
        cluster.kill(RELAY);
        cluster.run_till(|cluster| cluster.node(1).ups() == 2);
        let certain = |event: &Event| matches!(event, Event::Unreachable { certain: true, .. });
        let told = cluster.node(1).count(certain);
        assert_eq!((told > 0, told >= 4), (is_dead, is_dead), "{told}");
    }
}

#[test]
fn a_move_leaves_its_connection_behind_when_that_rule_is_off() {
    for (faults, left) in [(Faults::NONE, 0), (Faults::NONE.with(Fault::KeepLeft), 1)] {
        let mut cluster = by_two_networks(faults);
        cluster.node(1).steer(2, Network::Second);
        cluster.run_till(|cluster| cluster.node(1).ups() == 2);
        cluster.run(seconds(10));
        for number in [1, 2] {
            let node = cluster.node(number);
            let ups = node.count(|event| matches!(event, Event::Up { .. }));
            let downs = node.count(|event| matches!(event, Event::Down { .. }));
            assert_eq!((ups, downs), (2, 1 - left), "node {number}");
        }
    }
}
