//! Peers that are broken or mean harm.

use crate::common::{Node, Raw, answer, config, raw_hello, read, renew_lease, takes_all, write};
use crate::world::{Cluster, millis, seconds};
use amita_fabric::codec::{self, Frame, PROTOCOL_VERSION, RefuseCode};
use amita_fabric::limits::MAX_RELEASES;
use amita_fabric::{DownReason, Event, Message, ReleaseOutcome, Violation};
use amita_types::message::Request;

/// Node 1 serves; node 9 has so many raw connections to it.
fn victim(seed: u64, connections: usize) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start(1, Node::new(takes_all(config(1))));
    let address = cluster.address(1);
    cluster.start_raw(9, Raw::new(address, connections));
    cluster.run(millis(10));
    cluster
}

/// One raw connection that has said hello as node 9.
fn greeted(seed: u64) -> Cluster {
    let mut cluster = victim(seed, 1);
    cluster.raw(9).hello(0, 9, 1);
    cluster.run(millis(10));
    assert!(matches!(cluster.raw(9).connections[0].frames[..], [Frame::Welcome(_)]));
    cluster
}

/// What node 1 says of the end of its only link, and what it told the peer.
fn verdict(cluster: &mut Cluster) -> (DownReason, String) {
    cluster.run(millis(50));
    let down = cluster.node(1).events.iter().find_map(|(_, event)| match event {
        Event::Down { why, .. } => Some(why.clone()),
        _ => None,
    });
    let connection = &cluster.raw(9).connections[0];
    assert!(connection.ended.is_some(), "the connection was closed");
    let told = connection.frames.iter().find_map(|frame| match frame {
        Frame::Refuse(refuse) => Some((refuse.code, refuse.reason.clone())),
        _ => None,
    });
    let (code, reason) = told.expect("the peer was told why");
    assert_eq!(code, RefuseCode::Violation);
    (down.expect("the link is down"), reason)
}

#[test]
fn garbage_is_shown_the_door() {
    for bytes in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &[0; 64], &[0xff; 5000]] {
        let mut cluster = victim(1, 1);
        cluster.raw(9).send(0, bytes);
        cluster.run(millis(10));
        assert!(cluster.raw(9).connections[0].ended.is_some());
        assert!(cluster.node(1).events.is_empty(), "strangers are counted, not told");
        assert_eq!(cluster.node(1).fabric.counters().strangers, 1);
    }
}

#[test]
fn a_message_before_the_hello_is_refused() {
    let mut cluster = victim(2, 1);
    cluster.raw(9).message(0, &renew_lease(1));
    cluster.run(millis(10));
    let connection = &cluster.raw(9).connections[0];
    assert!(connection.ended.is_some());
    assert!(matches!(&connection.frames[..], [Frame::Refuse(refuse)] if refuse.code == RefuseCode::Violation));
    assert!(cluster.node(1).requests.is_empty());
}

#[test]
fn whoever_says_nothing_is_dropped_after_a_while() {
    let mut cluster = victim(3, 1);
    // Half a hello is nothing.
    let mut hello = Vec::new();
    codec::encode_hello(&mut hello, &raw_hello(9, 1, 0), false);
    cluster.raw(9).send(0, &hello[..40]);
    cluster.run(millis(1900));
    assert!(cluster.raw(9).connections[0].ended.is_none());
    cluster.run(millis(200));
    assert!(cluster.raw(9).connections[0].ended.is_some());
}

#[test]
fn a_flood_of_strangers_is_bounded_and_does_not_keep_a_peer_out() {
    let mut cluster = victim(4, 200);
    cluster.run(millis(100));
    let open = cluster
        .raw(9)
        .connections
        .iter()
        .filter(|connection| connection.ended.is_none())
        .count();
    assert_eq!(open, 64, "the bound; the oldest were dropped");
    let address = cluster.address(1);
    cluster.start(2, Node::new(config(2)).peer(1, address));
    cluster.run(millis(100));
    assert_eq!(cluster.node(2).ups(), 1);
    cluster.raw(9).connect(100);
    cluster.run(millis(100));
    cluster.node(2).send(1, renew_lease(1));
    cluster.run(millis(100));
    assert_eq!(
        cluster.node(2).answers.len(),
        1,
        "who has said hello is not dropped for strangers"
    );
}

#[test]
fn all_connections_together_are_bounded() {
    let mut config_1 = config(1);
    config_1.limits.connections = 10;
    config_1.limits.connections_per_peer = 100;
    let mut cluster = Cluster::new(5);
    cluster.start(1, Node::new(config_1));
    let address = cluster.address(1);
    cluster.start_raw(9, Raw::new(address, 10));
    cluster.run(millis(10));
    for connection in 0..10 {
        cluster.raw(9).hello(connection, 9, 1);
    }
    cluster.run(millis(10));
    cluster.raw(9).connect(1);
    cluster.run(millis(10));
    assert!(cluster.raw(9).connections[10].ended.is_some(), "all ten are in use");
    assert_eq!(
        cluster
            .raw(9)
            .connections
            .iter()
            .filter(|connection| connection.ended.is_none())
            .count(),
        10
    );
}

#[test]
fn the_connections_of_one_peer_are_bounded_and_an_earlier_life_ends() {
    let mut cluster = victim(6, 20);
    for connection in 0..20 {
        cluster.raw(9).hello(connection, 9, 1);
    }
    cluster.run(millis(50));
    let open: Vec<usize> = (0..20)
        .filter(|&at| cluster.raw(9).connections[at].ended.is_none())
        .collect();
    assert_eq!(open.len(), 16, "{open:?}");
    let replaced = |event: &Event| {
        matches!(
            event,
            Event::Down {
                why: DownReason::Replaced,
                ..
            }
        )
    };
    assert_eq!(cluster.node(1).count(replaced), 4);

    // The same link again: the old connection of it is half-open, as far as the peer is concerned.
    cluster.raw(9).connect(1);
    cluster.run(millis(10));
    let mut bytes = Vec::new();
    codec::encode_hello(&mut bytes, &raw_hello(9, 1, open[3] as u16), false);
    cluster.raw(9).send(20, &bytes);
    cluster.run(millis(50));
    let ended = &cluster.raw(9).connections[open[3]];
    assert!(matches!(ended.frames.last(), Some(Frame::Refuse(refuse)) if refuse.code == RefuseCode::Replaced));
    assert_eq!(cluster.node(1).count(replaced), 5);

    // Another session: the peer was started anew, and nothing of before counts.
    cluster.raw(9).connect(1);
    cluster.run(millis(10));
    let mut hello = raw_hello(9, 1, 0);
    hello.session = 78;
    let mut bytes = Vec::new();
    codec::encode_hello(&mut bytes, &hello, false);
    cluster.raw(9).send(21, &bytes);
    cluster.run(millis(50));
    let open: Vec<usize> = (0..22)
        .filter(|&at| cluster.raw(9).connections[at].ended.is_none())
        .collect();
    assert_eq!(open, [21]);
    assert_eq!(cluster.node(1).count(replaced), 21);
}

#[test]
fn a_changed_byte_ends_the_link() {
    for at in [0, 4, 6, 7, 8, 10, 12, 13, 20, 60, 99] {
        let mut cluster = greeted(7);
        let (message, payload) = write(1, 4096);
        let mut bytes = Vec::new();
        codec::encode(&mut bytes, PROTOCOL_VERSION, &message, payload.len()).expect("valid");
        bytes[at] ^= 0x10;
        bytes.extend_from_slice(&payload);
        cluster.raw(9).send(0, &bytes);
        let (why, reason) = verdict(&mut cluster);
        assert!(
            matches!(&why, DownReason::Violation(Violation::Frame(_))),
            "byte {at}: {why:?}"
        );
        assert!(!reason.is_empty());
        assert!(cluster.node(1).requests.is_empty(), "byte {at}");
    }
}

#[test]
fn a_window_that_is_overrun_ends_the_link() {
    let mut cluster = greeted(8);
    cluster.node(1).answering = false;
    for id in 0..2000 {
        cluster.raw(9).message(0, &renew_lease(id));
    }
    let (why, reason) = verdict(&mut cluster);
    assert!(
        matches!(why, DownReason::Violation(Violation::Window { requests: 1024, .. })),
        "{why:?}"
    );
    assert!(reason.contains("beyond the window of 1024 requests"), "{reason}");
    assert_eq!(cluster.node(1).requests.len(), 1024, "what was within it has come");

    let mut cluster = greeted(9);
    cluster.node(1).answering = false;
    for id in 0..5 {
        cluster.raw(9).message(0, &read(id, 32));
    }
    let (why, _) = verdict(&mut cluster);
    assert!(
        matches!(why, DownReason::Violation(Violation::Window { .. })),
        "{why:?}"
    );
    assert_eq!(cluster.node(1).requests.len(), 4);
}

#[test]
fn what_has_no_place_ends_the_link() {
    let Message::Request(request) = renew_lease(1).0 else {
        panic!("a request")
    };
    let request: Request = request;
    let mut second_hello = Vec::new();
    codec::encode_hello(&mut second_hello, &raw_hello(9, 1, 0), false);
    let encoded = |message: &Message| {
        let mut bytes = Vec::new();
        codec::encode(&mut bytes, PROTOCOL_VERSION, message, 0).expect("valid");
        bytes
    };
    let two_writes = {
        let (mut message, payload) = write(2, 8192);
        let Message::Request(request) = &mut message else {
            panic!("a request")
        };
        request.id = amita_types::RequestId(5);
        let mut bytes = Vec::new();
        codec::encode(&mut bytes, PROTOCOL_VERSION, &message, payload.len()).expect("valid");
        bytes.extend_from_slice(&payload);
        bytes.extend(encoded(&renew_lease(5).0));
        bytes
    };
    let release = Message::Release {
        tag: 1,
        volume: amita_types::VolumeId(1),
        generation: amita_types::Generation(1),
        hand_over: false,
    };
    for (bytes, says) in [
        (second_hello, "a second hello"),
        (
            encoded(&answer(&request).0),
            "an answer from the end that made the link",
        ),
        (
            encoded(&Message::Released {
                tag: 1,
                outcome: ReleaseOutcome::Released,
            }),
            "that was not made",
        ),
        (two_writes, "two different requests under one id"),
        (encoded(&release).repeat(MAX_RELEASES as usize + 1), ""),
    ] {
        let mut cluster = greeted(10);
        cluster.node(1).answering = false;
        if says.is_empty() {
            // They are answered as they come, so the bound is not met: nothing is wrong with this.
            cluster.raw(9).send(0, &bytes);
            cluster.run(millis(50));
            assert!(cluster.raw(9).connections[0].ended.is_none());
            continue;
        }
        cluster.raw(9).send(0, &bytes);
        let (why, reason) = verdict(&mut cluster);
        assert!(
            why.to_string().contains(says) && reason.contains(says),
            "{why}; {reason}"
        );
    }
}

#[test]
fn whoever_asks_and_does_not_read_is_dropped_and_holds_no_more_than_its_window() {
    let mut cluster = greeted(11);
    cluster.raw(9).deaf = true;
    for id in 0..4 {
        cluster.raw(9).message(0, &read(id, 32));
    }
    cluster.run(seconds(9));
    assert_eq!(cluster.node(1).count(|event| matches!(event, Event::Down { .. })), 0);
    cluster.run(seconds(4));
    let gone = |event: &Event| {
        matches!(
            event,
            Event::Down {
                why: DownReason::Stalled | DownReason::Broken(_),
                ..
            }
        )
    };
    assert_eq!(cluster.node(1).count(gone), 1, "{:?}", cluster.node(1).events);
}

#[test]
fn a_flood_of_pings_is_answered_once_a_pass() {
    let mut cluster = greeted(12);
    let mut pings = Vec::new();
    for number in 1..=1000 {
        codec::encode_ping(&mut pings, PROTOCOL_VERSION, number, false);
    }
    cluster.raw(9).send(0, &pings);
    cluster.run(millis(50));
    let pongs = cluster.raw(9).connections[0].frames.len() - 1;
    assert!((1..50).contains(&pongs), "{pongs}");
    assert_eq!(
        cluster.raw(9).connections[0].frames.last(),
        Some(&Frame::Pong(1000)),
        "the last is answered"
    );
}

#[test]
fn a_peer_that_answers_what_was_not_asked_is_left() {
    let mut cluster = Cluster::pair(13, Node::new(config(1)), Node::new(config(2)));
    cluster.node(2).answering = false;
    cluster.node(1).send(2, renew_lease(1));
    cluster.run(millis(50));
    let (link, request) = cluster.node(2).held.pop_front().expect("held");
    // The right id, but with more than was asked for.
    let (big, payload) = {
        let Message::Request(mut read) = read(1, 32).0 else {
            panic!("a request")
        };
        read.id = request.id;
        answer(&read)
    };
    cluster
        .node(2)
        .fabric
        .send(link, big, payload)
        .expect("the acceptor does not remember what was asked");
    cluster.run(millis(50));
    let wrong = |event: &Event| {
        matches!(
            event,
            Event::Down {
                why: DownReason::Violation(Violation::Answer { id: 1, .. }),
                ..
            }
        )
    };
    assert_eq!(cluster.node(1).count(wrong), 1, "{:?}", cluster.node(1).events);
    let told = |event: &Event| matches!(event, Event::Down { why: DownReason::PeerSaid(reason), .. } if reason.contains("was not asked for"));
    assert_eq!(cluster.node(2).count(told), 1, "{:?}", cluster.node(2).events);
    assert!(cluster.node(1).answers.is_empty());
}
