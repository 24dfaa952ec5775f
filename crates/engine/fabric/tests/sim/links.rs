//! Links come up, break, are found dead, and come back.

use crate::common::{Node, config, renew_lease, write};
use crate::world::{Cluster, millis, seconds};
use amita_fabric::{DownReason, Event, Message, ReleaseOutcome};
use amita_reactor::Slice;
use amita_types::{Generation, NodeId, VolumeId};
use std::time::Duration;

fn pair(seed: u64) -> Cluster {
    let mut cluster = Cluster::pair(seed, Node::new(config(1)), Node::new(config(2)));
    cluster.run_till(|cluster| cluster.node(1).ups() == 1);
    cluster
}

fn down(why: &DownReason) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Down { why: found, .. } if found == why)
}

fn is_certain(event: &Event) -> bool {
    matches!(event, Event::Unreachable { certain: true, .. })
}

fn is_uncertain(event: &Event) -> bool {
    matches!(event, Event::Unreachable { certain: false, .. })
}

#[test]
fn both_ends_learn_who_the_other_is() {
    let mut cluster = pair(1);
    cluster.run(millis(10));
    let here = &cluster.node(1).events[0].1;
    assert!(
        matches!(
            here,
            Event::Up {
                peer: NodeId(2),
                session: 1002,
                outgoing: true,
                ..
            }
        ),
        "{here:?}"
    );
    let there = &cluster.node(2).events[0].1;
    assert!(
        matches!(
            there,
            Event::Up {
                peer: NodeId(1),
                session: 1001,
                outgoing: false,
                ..
            }
        ),
        "{there:?}"
    );
    assert!(cluster.node(1).fabric.link_to(NodeId(2)).is_some());
    assert!(
        cluster.node(2).fabric.link_to(NodeId(1)).is_none(),
        "links to a peer are of one's own making"
    );
}

#[test]
fn a_killed_process_is_known_to_be_dead_at_once_and_greeted_when_it_is_back() {
    let mut cluster = pair(2);
    let killed = cluster.world.now();
    cluster.kill(2);
    cluster.run_till(|cluster| cluster.node(1).count(is_certain) > 0);
    let known = cluster.world.now().since(killed);
    assert!(known < millis(20), "{known:?}");
    assert_eq!(cluster.node(1).count(down(&DownReason::Closed)), 1);
    cluster.run(seconds(5));
    let tries = cluster.node(1).count(is_certain);
    assert!(
        (5..20).contains(&tries),
        "{tries} attempts in 5 s: often at first, then once a second"
    );

    let mut back = config(2);
    back.session = 5555;
    cluster.start(2, Node::new(back));
    let started = cluster.world.now();
    cluster.run_till(|cluster| cluster.node(1).ups() == 2);
    assert!(cluster.world.now().since(started) < millis(1300));
    assert!(
        cluster
            .node(1)
            .count(|event| matches!(event, Event::Up { session: 5555, .. }))
            == 1
    );
}

#[test]
fn a_cut_is_found_by_silence_and_nothing_is_certain() {
    let mut cluster = pair(3);
    cluster.node(1).send(2, renew_lease(1));
    cluster.run_till(|cluster| cluster.node(1).answers.len() == 1);
    // Idle for a while, so that silence counts from the question and not from the last word.
    cluster.run(seconds(3));
    cluster.world.partition(1, 2);
    let asked = cluster.world.now();
    cluster.node(1).send(2, renew_lease(2));
    cluster.run_till(|cluster| cluster.node(1).count(down(&DownReason::Silent)) == 1);
    let found = cluster.world.now().since(asked);
    assert!(found >= seconds(2) && found < millis(2050), "{found:?}");
    cluster.run(seconds(10));
    let node = cluster.node(1);
    assert!(node.count(is_uncertain) > 2 && node.count(is_certain) == 0);
    assert!(node.fabric.link_to(NodeId(2)).is_none());

    cluster.world.heal(1, 2);
    cluster.run_till(|cluster| cluster.node(1).ups() == 2);
    cluster.node(1).send(2, renew_lease(3));
    cluster.run_till(|cluster| cluster.node(1).answers.len() == 2);
    cluster.run(seconds(20));
    let incoming = cluster.node(2).count(|event| matches!(event, Event::Up { .. }))
        - cluster.node(2).count(|event| matches!(event, Event::Down { .. }));
    assert_eq!(incoming, 1, "the acceptor has found out about the old link too");
}

#[test]
fn a_short_cut_is_survived() {
    let mut cluster = pair(4);
    cluster.world.partition(1, 2);
    cluster.node(1).send(2, renew_lease(1));
    cluster.run(millis(1500));
    cluster.world.heal(1, 2);
    cluster.run(seconds(1));
    assert_eq!(cluster.node(1).answers.len(), 1);
    assert_eq!(cluster.node(1).ups(), 1);
    assert_eq!(cluster.node(1).count(|event| matches!(event, Event::Down { .. })), 0);
}

#[test]
fn a_slow_store_is_no_dead_peer() {
    let mut cluster = pair(5);
    cluster.node(2).answering = false;
    cluster.node(1).send(2, renew_lease(1));
    cluster.run(seconds(9));
    assert_eq!(
        cluster.node(1).count(|event| matches!(event, Event::Down { .. })),
        0,
        "pings were answered"
    );
    let pings = cluster.node(1).fabric.counters().pings;
    assert!((15..=18).contains(&pings), "{pings}: one each half second");
    cluster.node(2).answer_held(1);
    cluster.run(millis(10));
    assert_eq!(cluster.node(1).answers.len(), 1);
}

#[test]
fn an_idle_link_costs_next_to_nothing() {
    let mut cluster = pair(6);
    cluster.run(seconds(1));
    let before = (cluster.node(1).passes, cluster.node(2).passes);
    cluster.run(seconds(100));
    let pings = cluster.node(1).fabric.counters().pings;
    assert!((18..=20).contains(&pings), "{pings} in 100 s");
    let passes = (cluster.node(1).passes - before.0, cluster.node(2).passes - before.1);
    assert!(passes.0 < 200 && passes.1 < 200, "{passes:?} wake-ups in 100 s");
}

#[test]
fn an_idle_half_open_link_is_found() {
    let mut cluster = pair(7);
    cluster.power_cut(2);
    let cut = cluster.world.now();
    cluster.run_till(|cluster| cluster.node(1).count(|event| matches!(event, Event::Down { .. })) == 1);
    let found = cluster.world.now().since(cut);
    assert!(found <= millis(6600), "{found:?}: one ping and the silence after it");

    let mut cluster = pair(8);
    cluster.power_cut(1);
    let cut = cluster.world.now();
    cluster.run_till(|cluster| cluster.node(2).count(down(&DownReason::Silent)) == 1);
    let found = cluster.world.now().since(cut);
    assert!(
        found <= seconds(12) + millis(50),
        "{found:?}: the acceptor misses two pings"
    );
}

#[test]
fn a_core_that_was_held_up_does_not_take_that_for_silence() {
    for seed in 0..20 {
        let mut cluster = pair(100 + seed);
        cluster.node(1).send(2, renew_lease(1));
        cluster.poke();
        cluster.world.freeze(1, seconds(6));
        cluster.run(seconds(7));
        assert_eq!(cluster.node(1).answers.len(), 1, "seed {seed}");
        assert_eq!(
            cluster.node(1).count(|event| matches!(event, Event::Down { .. })),
            0,
            "seed {seed}"
        );
    }
    // Nor when there was no answer to find afterwards.
    let mut cluster = pair(120);
    cluster.node(2).answering = false;
    cluster.node(1).send(2, renew_lease(1));
    cluster.run(millis(100));
    cluster.world.freeze(1, seconds(6));
    cluster.run(seconds(10));
    assert_eq!(cluster.node(1).count(|event| matches!(event, Event::Down { .. })), 0);
}

#[test]
fn a_reset_link_is_made_again_after_ten_milliseconds() {
    let mut cluster = pair(9);
    for round in 2..6 {
        cluster.run(seconds(2));
        let connection = cluster.world.connections()[0].connection;
        cluster.world.reset(connection);
        let reset = cluster.world.now();
        cluster.run_till(|cluster| cluster.node(1).ups() == round);
        let back = cluster.world.now().since(reset);
        assert!(back >= Duration::from_micros(7500) && back < millis(15), "{back:?}");
    }
}

#[test]
fn a_link_that_does_not_last_is_not_made_again_in_a_frenzy() {
    let mut cluster = pair(10);
    let started = cluster.world.now();
    let mut resets = 0;
    while cluster.world.now().since(started) < seconds(10) {
        let ups = cluster.node(1).ups();
        cluster.run_till(|cluster| cluster.node(1).ups() == ups || cluster.node(1).ups() > ups);
        if let Some(info) = cluster.world.connections().last() {
            cluster.world.reset(info.connection);
            resets += 1;
        }
        cluster.run(millis(20));
    }
    let ups = cluster.node(1).ups();
    assert!(ups < 30, "{ups} links in 10 s, {resets} resets");
}

#[test]
fn a_link_that_breaks_again_and_again_is_there_most_of_the_time() {
    let mut cluster = pair(12);
    let mut away = Duration::ZERO;
    for _ in 0..30 {
        cluster.run(millis(200));
        let ups = cluster.node(1).ups();
        let connection = cluster.world.connections().last().expect("a link").connection;
        cluster.world.reset(connection);
        let reset = cluster.world.now();
        cluster.run_till(|cluster| cluster.node(1).ups() > ups);
        away = away.max(cluster.world.now().since(reset));
    }
    assert!(away < millis(110), "{away:?}");
}

#[test]
fn a_peer_that_moves_is_followed_and_one_that_is_forgotten_is_left() {
    let mut cluster = pair(11);
    cluster.start(3, Node::new(config(2)));
    let address = cluster.address(3);
    cluster.node(1).set_peer(2, Some(address));
    cluster.run_till(|cluster| cluster.node(1).ups() == 2);
    assert_eq!(cluster.node(1).count(down(&DownReason::Dropped)), 1);
    cluster.node(1).send(2, write(1, 4096));
    cluster.run(millis(50));
    assert_eq!((cluster.node(3).requests.len(), cluster.node(2).requests.len()), (1, 0));

    cluster.node(1).set_peer(2, None);
    cluster.run(seconds(20));
    assert_eq!(cluster.node(1).count(down(&DownReason::Dropped)), 2);
    assert_eq!(cluster.node(1).ups(), 2, "and it stays so");
    assert_eq!(cluster.world.connections().len(), 0);
}

#[test]
fn a_peer_that_is_forgotten_while_it_is_called_is_not_connected() {
    let mut cluster = Cluster::pair(12, Node::new(config(1)), Node::new(config(2)));
    cluster.world.partition(1, 2);
    cluster.run(millis(100));
    cluster.node(1).set_peer(2, None);
    cluster.world.heal(1, 2);
    cluster.run(seconds(10));
    assert_eq!(cluster.node(1).ups(), 0);
    assert_eq!(cluster.world.connections().len(), 0, "the late connection was closed");
}

#[test]
fn the_node_can_close_a_link_itself() {
    let mut cluster = pair(13);
    let link = cluster.node(1).fabric.link_to(NodeId(2)).expect("up");
    cluster.node(1).close(link);
    cluster.run(seconds(1));
    assert_eq!(cluster.node(1).count(down(&DownReason::Dropped)), 1);
    assert_eq!(cluster.node(1).ups(), 2, "it is made again");
    assert_ne!(
        cluster.node(1).fabric.link_to(NodeId(2)),
        Some(link),
        "numbers are not used twice"
    );
}

#[test]
fn volumes_are_asked_for_in_both_directions_of_a_link() {
    let mut cluster = pair(14);
    let here = cluster.node(1).fabric.link_to(NodeId(2)).expect("up");
    let Event::Up { link: there, .. } = cluster.node(2).events[0].1 else {
        panic!("up")
    };
    for (node, link) in [(1, here), (2, there)] {
        for tag in 0..3 {
            let release = Message::Release {
                tag,
                volume: VolumeId(3),
                generation: Generation(4),
                hand_over: false,
            };
            cluster
                .node(node)
                .fabric
                .send(link, release, Slice::default())
                .expect("up");
        }
    }
    cluster.run(millis(10));
    let busy: Vec<_> = (0..3).map(|clients| ReleaseOutcome::Busy { clients }).collect();
    assert_eq!(cluster.node(1).released, busy);
    assert_eq!(cluster.node(2).released, busy);
}

#[test]
fn several_links_to_a_peer_are_shared_out_among_cores() {
    let mut one = config(1);
    (one.links_per_peer, one.cores, one.core) = (3, 2, 0);
    let mut cluster = Cluster::pair(15, Node::new(one), Node::new(config(2)));
    cluster.run(seconds(1));
    assert_eq!(cluster.node(1).ups(), 2, "links 0 and 2");
    let fabric = &cluster.node(1).fabric;
    let lanes: Vec<_> = (0..4)
        .map(|lane| fabric.link_for(NodeId(2), lane).expect("up"))
        .collect();
    assert_eq!((lanes[0], lanes[1]), (lanes[2], lanes[3]));
    assert_ne!(lanes[0], lanes[1]);
    assert_eq!(cluster.world.connections().len(), 2);

    // When one is down, the other does not step in: what comes after could overtake.
    cluster.node(1).close(lanes[1]);
    cluster.run(millis(1));
    let fabric = &cluster.node(1).fabric;
    assert_eq!(
        (fabric.link_for(NodeId(2), 0), fabric.link_for(NodeId(2), 1)),
        (Some(lanes[0]), None)
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut cluster = pair(seed);
        for id in 0..200 {
            cluster.node(1).send(2, write(id, 4096));
        }
        cluster.run(millis(3));
        cluster.world.partition(1, 2);
        cluster.run(seconds(4));
        cluster.world.heal(1, 2);
        cluster.run(seconds(4));
        cluster.world.trace()
    };
    assert_eq!(run(16), run(16));
    assert_ne!(run(16), run(17));
}
