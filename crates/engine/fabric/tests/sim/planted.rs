//! The planted bugs do what they are there for.

use crate::common::{Node, Raw, config, write};
use crate::world::{Cluster, millis};
use amita_fabric::codec::{self, Frame};

/// Ids of writes as they arrive at a node with this planted bug.
fn arrivals(reorder: bool) -> Vec<u64> {
    let mut two = config(2);
    two.planted.reorder = reorder;
    let mut cluster = Cluster::pair(1, Node::new(config(1)), Node::new(two));
    for id in 0..500 {
        cluster.node(1).send(2, write(id, 4096));
    }
    cluster.run_till(|cluster| cluster.node(1).answers.len() == 500);
    cluster.node(2).requests.iter().map(|(_, id)| *id).collect()
}

#[test]
fn messages_overtake_each_other_when_that_is_planted() {
    assert!(arrivals(false).into_iter().eq(0..500));
    let mut ids = arrivals(true);
    assert!(!ids.is_sorted(), "some overtook others");
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..500), "and none was lost");
}

#[test]
fn a_changed_head_is_delivered_when_that_is_planted() {
    for planted in [false, true] {
        let mut one = config(1);
        one.planted.skip_head_crc = planted;
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
        assert_eq!(ids, if planted { vec![3] } else { vec![] });
    }
}
