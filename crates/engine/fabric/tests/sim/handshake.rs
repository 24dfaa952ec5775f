//! Who may speak with whom.

use crate::common::{Node, config, write};
use crate::world::{Cluster, seconds};
use amita_fabric::{Config, Event, Message, VersionRange};
use amita_types::{ClusterId, TraceId};

/// Node 1 calls node 2; what node 1 is told.
fn refusal(one: Config, two: Config) -> String {
    let mut cluster = Cluster::pair(1, Node::new(one), Node::new(two));
    cluster.run(seconds(5));
    assert_eq!(cluster.node(1).ups(), 0);
    assert_eq!(cluster.node(2).count(|event| matches!(event, Event::Up { .. })), 0);
    let node = cluster.node(1);
    let certain = node.count(|event| matches!(event, Event::Unreachable { certain: true, .. }));
    assert_eq!(certain, 0, "it is there");
    let reasons: Vec<&String> = node
        .events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Refused { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons.len(), 1, "it is tried again and told once: {reasons:?}");
    let reason = reasons[0].clone();
    let tries = cluster.node(2).fabric.counters().refused;
    assert!((3..=8).contains(&tries), "{tries} tries in 5 s");
    reason
}

#[test]
fn the_highest_common_version_is_chosen() {
    let versions = |node, min, max| {
        let mut config = config(node);
        config.versions = VersionRange { min, max };
        config
    };
    for (here, there) in [((1, 1), (1, 1)), ((1, 5), (1, 1)), ((1, 2), (1, 7))] {
        let one = Node::new(versions(1, here.0, here.1));
        let mut cluster = Cluster::pair(2, one, Node::new(versions(2, there.0, there.1)));
        cluster.run(seconds(1));
        assert_eq!(cluster.node(1).ups(), 1, "{here:?} and {there:?}");
    }
    let reason = refusal(versions(1, 1, 2), versions(2, 3, 4));
    assert!(
        reason.contains("node 2 speaks protocol versions 3 to 4, the other end 1 to 2"),
        "{reason}"
    );
    let reason = refusal(versions(1, 3, 4), versions(2, 1, 2));
    assert!(
        reason.contains("node 2 speaks protocol versions 1 to 2, the other end 3 to 4"),
        "{reason}"
    );
}

#[test]
fn a_trace_goes_with_a_request() {
    let id = TraceId(0x0100_0001);
    let mut cluster = Cluster::pair(3, Node::new(config(1)), Node::new(config(2)));
    cluster.node(2).answering = false;
    let (mut message, payload) = write(7, 4096);
    let Message::Request(request) = &mut message else {
        panic!("a request")
    };
    request.trace = id;
    cluster.node(1).send(2, (message, payload));
    cluster.run(seconds(1));
    let came: Vec<TraceId> = cluster.node(2).held.iter().map(|(_, request)| request.trace).collect();
    assert_eq!(came, [id]);
    cluster.node(2).answer_held(1);
    cluster.run(seconds(1));
    assert_eq!(cluster.node(1).answers.len(), 1);
}

#[test]
fn another_cluster_is_refused() {
    let mut other = config(2);
    other.cluster = ClusterId(0xbad);
    let reason = refusal(config(1), other);
    assert!(reason.contains("00000000-0000-0000-0000-000000000bad"), "{reason}");
    assert!(reason.contains("00000000-0000-0000-0000-0000000a417a"), "{reason}");
}

#[test]
fn another_node_is_refused() {
    let reason = refusal(config(1), config(3));
    assert!(reason.contains("this is node 3, not node 2"), "{reason}");
}

#[test]
fn a_build_that_is_older_than_the_cluster_is_refused() {
    let mut newer = config(1);
    newer.cluster_version = 2;
    let reason = refusal(newer, config(2));
    assert!(
        reason.contains("finalized at version 2, and node 2 understands versions up to 1"),
        "{reason}"
    );
}

#[test]
fn what_was_refused_is_accepted_once_it_is_put_right() {
    let mut other = config(2);
    other.cluster = ClusterId(0xbad);
    let mut cluster = Cluster::pair(3, Node::new(config(1)), Node::new(other));
    cluster.run(seconds(3));
    cluster.kill(2);
    cluster.start(2, Node::new(config(2)));
    cluster.run(seconds(3));
    assert_eq!(cluster.node(1).ups(), 1);
}
