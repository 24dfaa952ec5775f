//! Who is bad to whom.

use super::*;
use crate::network::Blame;
use amita_types::link::{BadLink, LinkReport, LinkTrouble, Network, links_key};
use std::time::{SystemTime, UNIX_EPOCH};

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn lossy(peer: NodeId, lost: u64) -> BadLink {
    BadLink {
        peer,
        network: Network::First,
        what: LinkTrouble::Loss,
        sent: 1000,
        lost,
        round_trip_us: 200,
        least_us: 100,
    }
}

fn tell(meta: &dyn Transact, from: NodeId, at_s: u64, worst: Vec<BadLink>) {
    tell_both(meta, from, at_s, worst, Vec::new());
}

fn tell_both(meta: &dyn Transact, from: NodeId, at_s: u64, worst: Vec<BadLink>, left_worst: Vec<BadLink>) {
    let report = LinkReport {
        beat: 1,
        at_s,
        measured: 3,
        bad: worst.len() as u32,
        worst,
        left: left_worst.len() as u32,
        left_worst,
    };
    let record = serde_json::to_vec(&report).unwrap();
    meta.txn(&Call::put(links_key(from), record)).unwrap();
}

#[test]
fn bad_links_are_named_the_worst_first_and_who_is_to_blame_as_a_status_says() {
    let meta = cluster_of(4);
    let ids: Vec<NodeId> = nodes(&meta).unwrap().iter().map(|node| node.id).collect();
    let [one, two, three, four] = ids[..] else {
        panic!("{ids:?}")
    };
    let cut = BadLink {
        what: LinkTrouble::Cut,
        ..lossy(two, 0)
    };
    tell(&meta, one, now_s(), vec![lossy(two, 20)]);
    tell(&meta, three, now_s(), vec![lossy(two, 70), lossy(NodeId(99), 500)]);
    tell(&meta, four, now_s(), vec![cut]);
    let found = links(&meta).unwrap();
    let shown: Vec<(NodeId, NodeId, u64)> = found
        .bad
        .iter()
        .map(|(from, bad)| (*from, bad.peer, bad.loss_ppm()))
        .collect();
    assert_eq!(
        shown,
        [(four, two, 1_000_000), (three, two, 70_000), (one, two, 20_000)],
        "what is said of a node that is not there is left out"
    );
    assert_eq!((found.bad_count, found.measured, found.witnesses), (4, 9, 4));
    assert_eq!(found.silent, [two], "it has told nothing");
    assert_eq!(found.left, LeftLinks::default(), "nothing was left");
    let blamed: Vec<&Blame> = found.findings.iter().map(|finding| &finding.blame).collect();
    assert_eq!(blamed, [&Blame::Node(two)]);
    assert_eq!(
        (found.name(two), found.name(NodeId(99))),
        ("n2".to_owned(), NodeId(99).to_string())
    );
    let facts = status(&meta).unwrap().facts;
    assert!(facts.iter().any(|fact| fact.name == "network-sick"), "{facts:?}");
}

#[test]
fn what_was_not_renewed_and_what_the_dead_have_said_is_not_told() {
    let meta = cluster_of(3);
    let ids: Vec<NodeId> = nodes(&meta).unwrap().iter().map(|node| node.id).collect();
    tell(&meta, ids[0], 5, vec![lossy(ids[1], 50)]);
    tell(&meta, ids[1], now_s(), Vec::new());
    rise(&meta, ids[2], STOPPED);
    tell(&meta, ids[2], now_s(), vec![lossy(ids[0], 50)]);
    let found = links(&meta).unwrap();
    assert_eq!((found.bad, found.findings), (Vec::new(), Vec::new()));
    assert_eq!((found.witnesses, found.silent), (2, vec![ids[0]]));
}

#[test]
fn what_was_left_for_the_other_network_is_told_apart_and_by_network() {
    let meta = cluster_of(4);
    let ids: Vec<NodeId> = nodes(&meta).unwrap().iter().map(|node| node.id).collect();
    let [one, two, three, four] = ids[..] else {
        panic!("{ids:?}")
    };
    let second = |lost| BadLink {
        network: Network::Second,
        ..lossy(two, lost)
    };
    let slight = vec![BadLink {
        network: Network::Second,
        ..lossy(four, 15)
    }];
    tell_both(&meta, one, now_s(), slight, vec![second(20)]);
    tell_both(
        &meta,
        three,
        now_s(),
        Vec::new(),
        vec![second(70), lossy(NodeId(99), 500)],
    );
    tell_both(&meta, four, now_s(), Vec::new(), vec![second(40)]);
    tell(&meta, two, now_s(), Vec::new());
    let found = links(&meta).unwrap();
    let shown = |bad: &[(NodeId, BadLink)]| -> Vec<(NodeId, NodeId, Network, u64)> {
        let bad = bad.iter();
        bad.map(|(from, bad)| (*from, bad.peer, bad.network, bad.lost))
            .collect()
    };
    assert_eq!(shown(&found.bad), [(one, four, Network::Second, 15)]);
    assert_eq!(
        shown(&found.left.bad),
        [
            (three, two, Network::Second, 70),
            (four, two, Network::Second, 40),
            (one, two, Network::Second, 20)
        ]
    );
    assert_eq!((found.bad_count, found.left.count), (1, 4), "as they count");
    let blamed = found.left.findings.iter();
    let blamed: Vec<(Network, &Blame)> = blamed.map(|(network, finding)| (*network, &finding.blame)).collect();
    assert_eq!(blamed, [(Network::Second, &Blame::Node(two))]);
    let used: Vec<&Blame> = found.findings.iter().map(|finding| &finding.blame).collect();
    assert_eq!(
        used,
        [&Blame::Link(one.min(four), one.max(four))],
        "apart from what was left"
    );
}
