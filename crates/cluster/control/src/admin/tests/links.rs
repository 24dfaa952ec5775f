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
    let report = LinkReport {
        beat: 1,
        at_s,
        measured: 3,
        bad: worst.len() as u32,
        worst,
        ..LinkReport::default()
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
