//! Strangers who connect as often as they can: how many of them cost anything, and whom they keep out.

use crate::common::proof::Authority;
use crate::common::{Node, Raw, renew_lease, secured};
use crate::world::{Cluster, millis, seconds};
use amita_fabric::limits::ACCEPTS;
use amita_fabric::secure::Protection;
use std::sync::Arc;

const STRANGERS: std::ops::Range<u32> = 10..40;

/// Node 1 knows node 2, which is not there yet; strangers stand ready.
fn besieged(seed: u64) -> (Cluster, Arc<Authority>) {
    let authority = Authority::new(7);
    let mut cluster = Cluster::new(seed);
    let (address, of_two) = (cluster.address(1), cluster.address(2));
    let one = Node::new(secured(1, Protection::Auth, &authority)).peer(2, of_two);
    cluster.start(1, one);
    for stranger in STRANGERS {
        cluster.start_raw(stranger, Raw::new(address, 0));
    }
    cluster.run(millis(10));
    (cluster, authority)
}

/// Each stranger connects twice in 5 ms; how many connections node 1 has taken meanwhile.
fn flood(cluster: &mut Cluster, steps: u32) -> u64 {
    let before = cluster.node(1).fabric.counters().accepted;
    for _ in 0..steps {
        for stranger in STRANGERS {
            cluster.raw(stranger).connect(2);
        }
        cluster.run(millis(5));
    }
    cluster.node(1).fabric.counters().accepted - before
}

#[test]
fn of_a_flood_as_many_are_taken_as_the_budget_has() {
    let (mut cluster, _) = besieged(1);
    let rate = ACCEPTS.strangers;
    let first = flood(&mut cluster, 100);
    assert!(first <= u64::from(rate.burst + rate.per_second), "{first}");
    for _ in 0..3 {
        let second = flood(&mut cluster, 200);
        // What was saved up in a pause comes with the next one's.
        assert!(second <= u64::from(rate.per_second + rate.per_second / 2), "{second}");
        assert!(second >= u64::from(rate.per_second / 2), "{second}");
    }
    // Nothing was made for the others: each that was taken is counted, and has ended in one way or the other.
    cluster.run(seconds(9));
    let counters = cluster.node(1).fabric.counters();
    assert_eq!(counters.accepted, counters.strangers + counters.turned_away);
    let again = flood(&mut cluster, 4);
    assert!(again >= u64::from(rate.burst) / 2, "the budget is back: {again}");
}

#[test]
fn a_peer_comes_in_during_a_flood_and_a_stranger_with_a_certificate_after_it() {
    let (mut cluster, authority) = besieged(2);
    flood(&mut cluster, 200);
    let address = cluster.address(1);
    let make = |node| Node::new(secured(node, Protection::Auth, &authority)).peer(1, address);
    cluster.start(2, make(2));
    flood(&mut cluster, 20);
    assert_eq!(cluster.node(2).ups(), 1, "it is called, and answers, within 0.1 s");
    cluster.node(2).send(1, renew_lease(1));
    flood(&mut cluster, 20);
    assert_eq!(cluster.node(2).answers.len(), 1);
    cluster.start(3, make(3));
    flood(&mut cluster, 20);
    cluster.run(seconds(12));
    assert_eq!(cluster.node(3).ups(), 1);
}
