//! Order, windows, back pressure; also while the network does its worst.

use crate::common::{Node, config, read, write};
use crate::world::{Cluster, millis, seconds};
use amita_fabric::limits::{MAX_CHARGE_BYTES, REQUEST_CHARGE_BYTES};
use amita_fabric::{Event, Link, Message, SendError};
use amita_reactor::Slice;
use amita_types::NodeId;
use amita_types::message::{Answer, AnswerBody};
use std::collections::BTreeMap;

/// A size for request number `id`, from a single byte to the largest.
fn length(id: u64) -> u32 {
    match id % 7 {
        0 => 128 << 10,
        1 => 1 + (id as u32 * 37) % 5000,
        2 => 64 << 10,
        _ => 4096,
    }
}

#[test]
fn requests_and_answers_keep_their_order_and_their_bytes() {
    for seed in 0..30 {
        let mut cluster = Cluster::pair(seed, Node::new(config(1)), Node::new(config(2)));
        const COUNT: u64 = 300;
        for id in 0..COUNT {
            let message = if id % 3 == 0 {
                read(id, (id % 33) as u16)
            } else {
                write(id, length(id))
            };
            cluster.node(1).send(2, message);
        }
        cluster.run_till(|cluster| cluster.node(1).answers.len() == COUNT as usize);
        let came: Vec<u64> = cluster.node(2).requests.iter().map(|(_, id)| *id).collect();
        assert!(came.into_iter().eq(0..COUNT), "seed {seed}");
        let answered: Vec<u64> = cluster.node(1).answers.iter().map(|(_, id)| *id).collect();
        assert!(answered.into_iter().eq(0..COUNT), "seed {seed}");
        assert_eq!(
            (cluster.node(1).damaged, cluster.node(2).damaged),
            (0, 0),
            "seed {seed}"
        );
        assert!(cluster.node(1).failed.is_empty() && cluster.node(2).failed.is_empty());
    }
}

#[test]
fn what_arrives_on_a_link_that_is_cut_anywhere_is_a_prefix() {
    let mut cut_short = 0;
    for seed in 0..60 {
        let mut cluster = Cluster::pair(seed, Node::new(config(1)), Node::new(config(2)));
        cluster.run_till(|cluster| cluster.node(1).ups() == 1);
        let mut sent: BTreeMap<Link, Vec<u64>> = BTreeMap::new();
        let mut id = 0;
        for round in 0..6 {
            for _ in 0..40 {
                if let Some(link) = cluster.node(1).fabric.link_to(NodeId(2)) {
                    let (message, payload) = write(id, length(id));
                    if cluster.node(1).fabric.send(link, message, payload).is_ok() {
                        sent.entry(link).or_default().push(id);
                    }
                    id += 1;
                }
            }
            let after = std::time::Duration::from_micros(20 + (seed * 97 + round * 53) % 900);
            cluster.run(after);
            for info in cluster.world.connections() {
                cluster.world.reset(info.connection);
            }
            cluster.run(millis(30));
        }
        assert_eq!(
            (cluster.node(1).damaged, cluster.node(2).damaged),
            (0, 0),
            "seed {seed}"
        );
        // The links of the acceptor, in order, are those of the dialler that were used, in order, or some of them.
        let mut arrived: BTreeMap<Link, Vec<u64>> = BTreeMap::new();
        for (link, id) in &cluster.node(2).requests {
            arrived.entry(*link).or_default().push(*id);
        }
        for ids in arrived.values() {
            let of_link = sent.values().find(|sent| sent.contains(&ids[0])).expect("was sent");
            assert!(
                of_link.starts_with(ids),
                "seed {seed}: {ids:?} is no prefix of {of_link:?}"
            );
            cut_short += usize::from(ids.len() < of_link.len());
        }
    }
    assert!(cut_short > 20, "the cuts fell into traffic: {cut_short}");
}

#[test]
fn the_window_is_respected_in_requests() {
    let mut two = config(2);
    two.limits.window_requests = 10;
    let mut cluster = Cluster::pair(1, Node::new(config(1)), Node::new(two));
    cluster.node(2).answering = false;
    for id in 0..100 {
        cluster.node(1).send(2, write(id, 512));
    }
    cluster.run(seconds(1));
    assert_eq!(cluster.node(2).held.len(), 10);
    for _ in 0..100 {
        cluster.node(2).answer_held(3);
        cluster.run(millis(1));
    }
    assert_eq!(cluster.node(1).answers.len(), 100);
    assert_eq!(cluster.node(2).most_held.0, 10);
    assert!(cluster.node(2).requests.iter().map(|(_, id)| *id).eq(0..100));
}

#[test]
fn the_window_is_respected_in_bytes_both_ways() {
    for big in [write(0, 128 << 10).0, read(0, 32).0] {
        let mut two = config(2);
        two.limits.window_bytes = 2 * MAX_CHARGE_BYTES;
        let mut cluster = Cluster::pair(2, Node::new(config(1)), Node::new(two));
        cluster.node(2).answering = false;
        for id in 0..20 {
            let message = if matches!(&big, Message::Request(request) if amita_fabric::charge(request, 0) > 9999) {
                read(id, 32)
            } else {
                write(id, 128 << 10)
            };
            cluster.node(1).send(2, message);
        }
        cluster.run(seconds(1));
        assert_eq!(cluster.node(2).most_held, (2, 2 * ((128 << 10) + REQUEST_CHARGE_BYTES)));
        cluster.node(2).answering = true;
        cluster.node(2).answer_held(usize::MAX);
        cluster.run(seconds(1));
        assert_eq!(cluster.node(1).answers.len(), 20);
    }
}

#[test]
fn the_queue_before_the_window_is_bounded() {
    let mut one = config(1);
    one.limits.queue_requests = 5;
    let mut two = config(2);
    two.limits.window_requests = 10;
    let mut cluster = Cluster::pair(3, Node::new(one), Node::new(two));
    cluster.node(2).answering = false;
    for id in 0..100 {
        cluster.node(1).send(2, write(id, 512));
    }
    cluster.run(seconds(1));
    assert!(cluster.node(1).full > 0);
    assert_eq!(cluster.node(1).outgoing.len(), 85, "10 in flight, 5 in the queue");
    cluster.node(2).answering = true;
    cluster.node(2).answer_held(usize::MAX);
    cluster.run_till(|cluster| cluster.node(1).answers.len() == 100);
    assert!(
        cluster.node(2).requests.iter().map(|(_, id)| *id).eq(0..100),
        "in order nevertheless"
    );
}

#[test]
fn what_is_queued_ends_with_its_link() {
    let mut two = config(2);
    two.limits.window_requests = 2;
    let mut cluster = Cluster::pair(4, Node::new(config(1)), Node::new(two));
    cluster.node(2).answering = false;
    for id in 0..10 {
        cluster.node(1).send(2, write(id, 512));
    }
    cluster.run(millis(100));
    let link = cluster.node(1).fabric.link_to(NodeId(2)).expect("up");
    let connection = cluster.world.connections()[0].connection;
    cluster.world.reset(connection);
    cluster.run(millis(100));
    assert_eq!(cluster.node(1).ups(), 2);
    assert_eq!(
        cluster.node(2).requests.len(),
        2,
        "nothing of the old link came on the new one"
    );
    let (message, payload) = write(99, 512);
    assert_eq!(
        cluster.node(1).fabric.send(link, message, payload),
        Err(SendError::Closed)
    );
    // Answers to what came on the old link go nowhere, and say so.
    cluster.node(2).answer_held(2);
    assert_eq!(cluster.node(2).failed, [SendError::Closed, SendError::Closed]);
}

#[test]
fn a_resend_on_the_same_link_is_answered_twice() {
    let mut cluster = Cluster::pair(5, Node::new(config(1)), Node::new(config(2)));
    cluster.node(2).answering = false;
    cluster.node(1).send(2, write(7, 4096));
    cluster.node(1).send(2, write(7, 4096));
    cluster.run(millis(100));
    cluster.node(2).answer_held(2);
    cluster.run(millis(100));
    assert_eq!(cluster.node(1).answers.len(), 2);
    assert!(cluster.node(2).failed.is_empty());
}

#[test]
fn a_core_with_too_much_to_do_reads_no_more_and_is_not_taken_for_dead() {
    let mut two = config(2);
    two.limits.unanswered_bytes = 64 << 10;
    let mut cluster = Cluster::new(6);
    let address = cluster.address(2);
    cluster.start(1, Node::new(config(1)).peer(2, address));
    cluster.start(3, Node::new(config(3)).peer(2, address));
    cluster.start(2, Node::new(two));
    cluster.node(2).answering = false;
    cluster.run(millis(100));
    for id in 0..200 {
        cluster.node(1).send(2, write(id, 4096));
        cluster.node(3).send(2, write(id, 4096));
    }
    cluster.run(seconds(20));
    let held = cluster.node(2).most_held.1;
    assert!(
        (64 << 10..700 << 10).contains(&held),
        "{held} bytes: the bound, and what two receives bring at most"
    );
    assert!(cluster.node(2).held.len() < 400);
    assert!(cluster.node(2).fabric.counters().pauses > 0);
    for node in [1, 3] {
        assert_eq!(cluster.node(node).count(|event| matches!(event, Event::Down { .. })), 0);
    }
    cluster.node(2).answering = true;
    cluster.node(2).answer_held(usize::MAX);
    cluster.run_till(|cluster| cluster.node(1).answers.len() == 200 && cluster.node(3).answers.len() == 200);
    assert_eq!(cluster.node(2).damaged, 0);
}

#[test]
fn a_message_that_goes_the_wrong_way_is_not_taken() {
    let mut cluster = Cluster::pair(7, Node::new(config(1)), Node::new(config(2)));
    cluster.node(2).answering = false;
    cluster.node(1).send(2, write(1, 4096));
    cluster.run(millis(100));
    let out = cluster.node(1).fabric.link_to(NodeId(2)).expect("up");
    let (from, request) = cluster.node(2).held[0].clone();
    let (message, payload) = write(1, 4096);
    assert_eq!(
        cluster.node(2).fabric.send(from, message, payload),
        Err(SendError::WrongWay)
    );
    let (answer, payload) = crate::common::answer(&request);
    assert_eq!(
        cluster.node(1).fabric.send(out, answer.clone(), payload.clone()),
        Err(SendError::WrongWay)
    );
    assert_eq!(
        cluster.node(2).fabric.send(from, answer.clone(), payload.clone()),
        Ok(())
    );
    assert_eq!(
        cluster.node(2).fabric.send(from, answer, payload),
        Err(SendError::NotAsked)
    );
    let invalid = Message::Answer(Answer {
        id: request.id,
        store: request.store,
        lease_ms: 0,
        credit_blocks: 0,
        waited: Default::default(),
        trace: None,
        result: Ok(AnswerBody::Done),
    });
    let sent = cluster
        .node(2)
        .fabric
        .send(from, invalid, Slice::copy_from(b"a payload"));
    assert!(matches!(sent, Err(SendError::Invalid(_))), "{sent:?}");
    let (mut message, payload) = write(2, 4096);
    let Message::Request(request) = &mut message else {
        panic!("a request")
    };
    request.id = amita_types::RequestId(5);
    cluster.node(1).fabric.send(out, message.clone(), payload).expect("up");
    let (mut other, payload) = write(2, 8192);
    let Message::Request(request) = &mut other else {
        panic!("a request")
    };
    request.id = amita_types::RequestId(5);
    let sent = cluster.node(1).fabric.send(out, other, payload);
    assert!(
        matches!(sent, Err(SendError::Invalid(_))),
        "another request under an id that is in flight: {sent:?}"
    );
}

#[test]
fn one_pass_sends_once() {
    let mut cluster = Cluster::pair(8, Node::new(config(1)), Node::new(config(2)));
    cluster.run(millis(100));
    let before = cluster.node(1).fabric.counters();
    for id in 0..32 {
        cluster.node(1).send(2, write(id, 4096));
    }
    cluster.run(millis(100));
    let after = cluster.node(1).fabric.counters();
    assert_eq!(after.messages_sent - before.messages_sent, 32);
    assert_eq!(after.sends - before.sends, 1);
}
