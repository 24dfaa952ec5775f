//! The fault switches do what they are there for.

use crate::common::{Node, Raw, config, write};
use crate::world::{Cluster, millis};
use amita_fabric::codec::{self, Frame};
use amita_fabric::{Fault, Faults};

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
