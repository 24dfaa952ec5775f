//! Links that prove who is at their ends: who gets one, who does not, and what strangers cost.

use crate::common::proof::{ALERT, Authority, Certificate, StandIn};
use crate::common::{Node, Raw, config, holding, name, raw_hello, read, secured, secured_by, takes_all, write};
use crate::tampering::PROTECTIONS;
use crate::world::{Cluster, millis, seconds};
use amita_fabric::codec::{self, Frame, Kind, PROTOCOL_VERSION, RefuseCode};
use amita_fabric::limits::{HANDSHAKES_PER_SOURCE, MAX_PROOF_BYTES};
use amita_fabric::secure::{Protection, Recorded, Role};
use amita_fabric::{Config, DownReason, Event, Message, ReleaseOutcome, Violation};
use amita_reactor::Slice;
use amita_types::{Generation, NodeId, VolumeId};

const ROLES: [Role; 4] = [Role::Node, Role::Gateway, Role::Client, Role::Operator];

fn pair(protection: Protection) -> Cluster {
    let authority = Authority::new(7);
    let (one, two) = (secured(1, protection, &authority), secured(2, protection, &authority));
    Cluster::pair(1, Node::new(one), Node::new(two))
}

#[test]
fn traffic_of_all_kinds_goes_by_protected_links_and_keys_follow_each_other() {
    for (protection, rekey_frames) in PROTECTIONS
        .into_iter()
        .flat_map(|mode| [1, 2, 3, 7, 1 << 24].map(|count| (mode, count)))
    {
        let authority = Authority::new(7);
        let nodes = [1, 2].map(|node| {
            let mut config = secured(node, protection, &authority);
            config.security.as_mut().expect("secured").rekey_frames = rekey_frames;
            Node::new(config)
        });
        let [one, two] = nodes;
        let mut cluster = Cluster::pair(rekey_frames, one, two);
        const COUNT: u64 = 120;
        for id in 0..COUNT {
            let length = [1, 4096, 5000, 64 << 10, 128 << 10][(id % 5) as usize];
            let message = if id % 3 == 0 {
                read(id, (id % 33) as u16)
            } else {
                write(id, length)
            };
            cluster.node(1).send(2, message);
        }
        let release = Message::Release {
            tag: 3,
            volume: VolumeId(1),
            generation: Generation(1),
            hand_over: false,
        };
        cluster.node(1).send(2, (release, Slice::default()));
        cluster.run_till(|cluster| {
            cluster.node(1).answers.len() == COUNT as usize && !cluster.node(1).released.is_empty()
        });
        assert!(cluster.node(2).requests.iter().map(|(_, id)| *id).eq(0..COUNT));
        assert_eq!(cluster.node(1).released, [ReleaseOutcome::Busy { clients: 3 }]);
        // Pings and their answers too.
        cluster.run(seconds(20));
        assert!(cluster.node(1).fabric.counters().pings > 1);
        for node in [1, 2] {
            assert_eq!(cluster.node(node).damaged, 0, "{protection} {rekey_frames}");
            assert_eq!(cluster.node(node).count(|event| matches!(event, Event::Down { .. })), 0);
            assert_eq!(cluster.node(node).fabric.counters().forged, 0);
        }
    }
}

#[test]
fn what_arrives_on_a_protected_link_that_is_cut_is_a_prefix() {
    for protection in PROTECTIONS {
        for seed in 0..20 {
            let mut cluster = pair(protection);
            cluster.run_till(|cluster| cluster.node(1).ups() == 1);
            let mut id = 0;
            for round in 0..5 {
                for _ in 0..30 {
                    cluster.node(1).send(2, write(id, 1 + (id as u32 * 997) % 9000));
                    id += 1;
                }
                cluster.run(std::time::Duration::from_micros(20 + (seed * 97 + round * 53) % 900));
                for info in cluster.world.connections() {
                    cluster.world.reset(info.connection);
                }
                cluster.run(millis(300));
            }
            assert_eq!(cluster.node(2).damaged, 0);
            assert!(
                cluster.node(2).requests.windows(2).all(|two| two[0].1 < two[1].1),
                "seed {seed}"
            );
            assert_eq!(
                cluster.node(1).fabric.counters().forged + cluster.node(2).fabric.counters().forged,
                0
            );
            assert!(cluster.node(1).ups() >= 5, "every time a new one");
        }
    }
}

/// Node 1 calls node 2 and gets no link; what node 1 says of it, and what node 2 says of strangers.
fn no_link(one: Config, two: Config) -> (Vec<String>, Vec<String>) {
    let mut cluster = Cluster::pair(1, Node::new(one), Node::new(two));
    cluster.node(1).send(2, write(1, 4096));
    cluster.run(seconds(5));
    for node in [1, 2] {
        assert_eq!(cluster.node(node).count(|event| matches!(event, Event::Up { .. })), 0);
        assert_eq!(cluster.node(node).fabric.counters().forged, 0, "nobody was on the way");
    }
    assert!(cluster.node(2).requests.is_empty());
    let refused = |event: &Event| match event {
        Event::Refused { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    let stranger = |event: &Event| match event {
        Event::Stranger { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    let told = |node: &Node, what: &dyn Fn(&Event) -> Option<String>| -> Vec<String> {
        node.events.iter().filter_map(|(_, event)| what(event)).collect()
    };
    (told(cluster.node(1), &refused), told(cluster.node(2), &stranger))
}

#[test]
fn a_caller_with_a_certificate_that_is_not_believed_gets_no_link_and_is_told_so() {
    let (ours, other) = (Authority::new(7), Authority::new(8));
    let revoked = ours.certificate(Role::Node, "n1");
    ours.revoke(&revoked);
    let auth = Protection::Auth;
    let mut foreign = StandIn::new(&ours, other.certificate(Role::Node, "n1"), auth, 1);
    foreign.seed = 5;
    for (one, says) in [
        (holding(1, auth, &ours, ours.expired(Role::Node, "n1")), "is over"),
        (holding(1, auth, &ours, revoked), "was revoked"),
        (secured_by(1, foreign), "another authority"),
    ] {
        let (refused, strangers) = no_link(one, secured(2, auth, &ours));
        assert_eq!(
            refused,
            ["it does not accept this node's certificate; its log says why"],
            "once"
        );
        assert!(
            (1..=6).contains(&strangers.len()),
            "at most one a second: {strangers:?}"
        );
        assert!(strangers.iter().all(|reason| reason.contains(says)), "{strangers:?}");
    }
}

#[test]
fn an_acceptor_that_is_not_believed_gets_no_link() {
    let (ours, other) = (Authority::new(7), Authority::new(8));
    let auth = Protection::Auth;
    let mut fails = StandIn::new(&ours, ours.certificate(Role::Node, "n2"), auth, 2);
    fails.fails_after = Some(2);
    for (two, says) in [
        (secured(2, auth, &other), "a wrong proof"),
        (holding(2, auth, &ours, ours.expired(Role::Node, "n2")), "is over"),
        (
            holding(2, auth, &ours, ours.certificate(Role::Node, "n3")),
            "n2 was called, and node n3 has answered",
        ),
        (
            holding(2, auth, &ours, ours.certificate(Role::Client, "n2")),
            "client n2 has answered",
        ),
        (secured_by(2, fails), "does not accept this node's certificate"),
    ] {
        let (refused, _) = no_link(secured(1, auth, &ours), two);
        assert!(matches!(&refused[..], [reason] if reason.contains(says)), "{refused:?}");
    }
}

#[test]
fn two_ends_that_protect_differently_or_not_at_all_get_no_link() {
    let authority = Authority::new(7);
    let modes = [
        config as fn(u32) -> Config,
        |node| secured(node, Protection::Auth, &Authority::new(7)),
        |node| secured(node, Protection::Secret, &Authority::new(7)),
    ];
    for (at, one) in modes.iter().enumerate() {
        for (other, two) in modes.iter().enumerate() {
            if at != other {
                no_link(one(1), two(2));
            }
        }
    }
    let (_, strangers) = no_link(
        secured(1, Protection::Auth, &authority),
        secured(2, Protection::Secret, &authority),
    );
    assert!(strangers[0].contains("another protection"), "{strangers:?}");
}

/// Node 1 serves, and has a link from node 3; node 9 is raw, with this certificate and so many connections.
fn victim(
    authority: &std::sync::Arc<Authority>,
    protection: Protection,
    certificate: Certificate,
    connections: usize,
) -> Cluster {
    let mut cluster = Cluster::new(3);
    let address = cluster.address(1);
    cluster.start(1, Node::new(secured(1, protection, authority)));
    cluster.start(3, Node::new(secured(3, protection, authority)).peer(1, address));
    let handshakes = StandIn::new(authority, certificate, protection, 9);
    cluster.start_raw(9, Raw::proving(address, connections, handshakes, 1));
    cluster.run(millis(20));
    assert_eq!(cluster.node(3).ups(), 1);
    cluster
}

#[test]
fn whoever_calls_itself_another_node_is_refused_and_that_nodes_links_stand() {
    for protection in PROTECTIONS {
        let authority = Authority::new(7);
        for (role, name) in [
            (Role::Node, "n2"),
            (Role::Gateway, "n2"),
            (Role::Node, "n3.1"),
            (Role::Gateway, "n"),
            (Role::Node, ""),
        ] {
            let mut cluster = victim(&authority, protection, authority.certificate(role, name), 1);
            assert!(cluster.raw(9).connections[0].is_proven());
            cluster.raw(9).hello(0, 3, 1);
            cluster.run(millis(50));
            let connection = &cluster.raw(9).connections[0];
            assert!(connection.ended.is_some());
            assert!(
                matches!(&connection.frames[..], [Frame::Refuse(refuse)] if refuse.code == RefuseCode::Identity),
                "{:?}",
                connection.frames
            );
            assert_eq!(
                cluster.node(1).count(|event| matches!(event, Event::Stranger { .. })),
                1,
                "somebody should know"
            );
            cluster.node(3).send(1, write(1, 4096));
            cluster.run_till(|cluster| cluster.node(3).answers.len() == 1);
            assert_eq!(cluster.node(3).ups(), 1, "its link stood");
        }
    }
}

#[test]
fn a_gateway_may_be_each_of_its_processes() {
    let authority = Authority::new(7);
    let mut cluster = victim(
        &authority,
        Protection::Auth,
        authority.certificate(Role::Gateway, "db1"),
        2,
    );
    cluster.node(1).set_name(8, Some(Recorded::gateway("db1.4711")));
    cluster.node(1).set_name(7, Some(Recorded::gateway("db12")));
    cluster.run(millis(10));
    cluster.raw(9).hello(0, 8, 1);
    cluster.raw(9).hello(1, 7, 1);
    cluster.run(millis(50));
    let connections = &cluster.raw(9).connections;
    assert!(matches!(connections[0].frames[..], [Frame::Welcome(_)]));
    assert!(matches!(&connections[1].frames[..], [Frame::Refuse(refuse)] if refuse.code == RefuseCode::Identity));
}

/// Also by a name that is recorded: their certificates are made for other things.
#[test]
fn a_client_and_an_operator_are_let_in_under_no_number() {
    for protection in PROTECTIONS {
        let authority = Authority::new(7);
        for role in [Role::Client, Role::Operator] {
            for (name, number) in [("n3", 3), ("app", 8), ("app", u32::MAX), ("app", 7)] {
                let mut cluster = victim(&authority, protection, authority.certificate(role, name), 1);
                for recorded in [8, u32::MAX] {
                    cluster.node(1).set_name(recorded, Some(Recorded::gateway("app")));
                }
                cluster.raw(9).hello(0, number, 1);
                cluster.run(millis(50));
                let connection = &cluster.raw(9).connections[0];
                let [Frame::Refuse(refuse)] = &connection.frames[..] else {
                    panic!("{role:?} {name} as {number}: {:?}", connection.frames);
                };
                assert_eq!(refuse.code, RefuseCode::Violation);
                let wanted = format!("a {} may not send frames of kind Hello", role.as_str());
                assert_eq!(refuse.reason, wanted);
                assert!(connection.ended.is_some());
                let ups = cluster.node(1).count(|event| matches!(event, Event::Up { .. }));
                assert_eq!(ups, 1, "node 3 alone");
                cluster.node(3).send(1, write(1, 4096));
                cluster.run_till(|cluster| cluster.node(3).answers.len() == 1);
                assert_eq!(cluster.node(3).ups(), 1, "its link stood");
            }
        }
    }
}

#[test]
fn a_link_comes_up_as_soon_as_both_ends_know_the_name() {
    let authority = Authority::new(7);
    for (first, second) in [(1, 2), (2, 1)] {
        let (one, two) = (
            secured(1, Protection::Auth, &authority),
            secured(2, Protection::Auth, &authority),
        );
        let mut cluster = Cluster::pair(1, Node::nameless(one), Node::nameless(two));
        cluster.run(seconds(5));
        assert_eq!(cluster.node(1).ups(), 0);
        for node in [first, second] {
            cluster
                .node(node)
                .set_name(3 - node, Some(Recorded::node(name(3 - node))));
            cluster.run(millis(1500));
        }
        assert_eq!(cluster.node(1).ups(), 1, "{first} knew first");
        assert!(
            cluster.node(2).count(|event| matches!(event, Event::Stranger { .. })) == 0,
            "nobody lied"
        );
    }
}

#[test]
fn a_caller_that_learns_the_name_calls_at_once() {
    let authority = Authority::new(7);
    let (one, two) = (
        secured(1, Protection::Auth, &authority),
        secured(2, Protection::Auth, &authority),
    );
    let mut cluster = Cluster::pair(1, Node::nameless(one), Node::new(two));
    cluster.run(seconds(30));
    cluster.node(1).set_name(2, Some(Recorded::node("n2")));
    cluster.run(millis(20));
    assert_eq!(cluster.node(1).ups(), 1);
    let told = |event: &Event| matches!(event, Event::Refused { reason, .. } if reason.contains("name"));
    assert_eq!(cluster.node(1).count(told), 1, "once");
}

#[test]
fn a_number_that_goes_to_another_name_takes_its_links_along() {
    let mut cluster = pair(Protection::Auth);
    cluster.run_till(|cluster| cluster.node(2).fabric.links() == 1);
    cluster.node(2).set_name(1, Some(Recorded::node("n1")));
    cluster.run(millis(100));
    assert_eq!(cluster.node(1).ups(), 1, "the same name again is no news");
    cluster.node(2).set_name(1, Some(Recorded::node("someone")));
    cluster.run(seconds(3));
    assert_eq!(cluster.node(2).fabric.links(), 0);
    let refused = |event: &Event| matches!(event, Event::Refused { reason, .. } if reason.contains("does not make its holder node 1"));
    assert_eq!(cluster.node(1).count(refused), 1);
}

#[test]
fn a_revoked_certificate_ends_its_links_and_no_others() {
    for protection in PROTECTIONS {
        let authority = Authority::new(7);
        let third = authority.certificate(Role::Node, "n3");
        let mut cluster = Cluster::new(1);
        let addresses = [1, 2, 3].map(|node| cluster.address(node));
        cluster.start(
            1,
            Node::new(secured(1, protection, &authority))
                .peer(2, addresses[1])
                .peer(3, addresses[2]),
        );
        cluster.start(2, Node::new(secured(2, protection, &authority)).peer(1, addresses[0]));
        cluster.start(
            3,
            Node::new(holding(3, protection, &authority, third.clone())).peer(1, addresses[0]),
        );
        cluster.run_till(|cluster| cluster.node(1).fabric.links() == 4);
        cluster.node(1).recheck();
        cluster.run(millis(100));
        assert_eq!(cluster.node(1).fabric.links(), 4, "nothing has changed");
        authority.revoke(&third);
        cluster.node(1).recheck();
        cluster.run(millis(1));
        let distrusted = |event: &Event| {
            matches!(
                event,
                Event::Down {
                    peer: NodeId(3),
                    why: DownReason::Distrusted,
                    ..
                }
            )
        };
        assert_eq!(
            cluster.node(1).count(distrusted),
            2,
            "one that it made, one that came in"
        );
        assert_eq!(cluster.node(1).count(|event| matches!(event, Event::Down { .. })), 2);
        cluster.run(seconds(3));
        assert_eq!(cluster.node(1).fabric.links(), 2, "and no new ones");
        assert_eq!(cluster.node(3).fabric.links(), 0);
    }
}

/// Who is revoked between showing its certificate and the end of the handshake has no link, though nobody looks at links then.
#[test]
fn a_certificate_that_is_revoked_during_its_handshake_makes_no_link() {
    for protection in PROTECTIONS {
        let authority = Authority::new(7);
        let second = authority.certificate(Role::Node, "n2");
        let mut handshakes = StandIn::new(&authority, authority.certificate(Role::Node, "n1"), protection, 1);
        handshakes.revoked_meanwhile = Some(second.clone());
        let mut cluster = Cluster::new(1);
        let address = cluster.address(1);
        cluster.start(1, Node::new(secured_by(1, handshakes)));
        cluster.start(
            2,
            Node::new(holding(2, protection, &authority, second)).peer(1, address),
        );
        cluster.run(seconds(1));
        assert_eq!(cluster.node(1).fabric.links(), 0);
        assert_eq!(cluster.node(1).count(|event| matches!(event, Event::Up { .. })), 0);
    }
}

/// A head of this kind that says nothing.
fn empty(kind: Kind) -> Vec<u8> {
    let mut head = Vec::new();
    codec::encode_ping(&mut head, PROTOCOL_VERSION, 1, false);
    head.truncate(16);
    if matches!(kind, Kind::Hello | Kind::Welcome | Kind::Refuse) {
        head[6] = codec::HANDSHAKE_VERSION;
    }
    head[7] = kind as u8;
    head[8..10].copy_from_slice(&16u16.to_le_bytes());
    head
}

#[test]
fn nobody_sends_what_the_table_does_not_let_him() {
    for protection in PROTECTIONS {
        let authority = Authority::new(7);
        for role in ROLES {
            for &kind in Kind::ALL {
                let mut cluster = victim(&authority, protection, authority.certificate(role, "n9"), 1);
                let is_owner = matches!(role, Role::Node | Role::Gateway);
                if role == Role::Gateway {
                    cluster.node(1).set_name(9, Some(Recorded::gateway("n9")));
                }
                if is_owner {
                    cluster.raw(9).hello(0, 9, 1);
                    cluster.run(millis(10));
                    assert_eq!(cluster.node(1).fabric.links(), 2, "{role:?}");
                }
                let head = empty(kind);
                cluster.raw(9).frame(0, &head, head.len());
                cluster.run(millis(50));
                let frames = &cluster.raw(9).connections[0].frames;
                let told = match frames.last() {
                    Some(Frame::Refuse(refuse)) => refuse.reason.clone(),
                    other => panic!("{role:?} {kind:?}: {other:?}"),
                };
                let may_not = format!("a {} may not send frames of kind {kind:?}", role.as_str());
                // The role of a node may send all; the owner's and the store's parts are the whole table.
                assert_eq!(told == may_not, !kind.senders().has(role), "{role:?} {kind:?}: {told}");
                let is_stores = (0x40..=0x50).contains(&(kind as u8)) && kind != Kind::Refused;
                assert!(kind.senders().has(Role::Node), "{kind:?}");
                assert_eq!(kind.senders().has(Role::Gateway), !is_stores, "{kind:?}");
                assert!(
                    !kind.senders().has(Role::Client) && !kind.senders().has(Role::Operator),
                    "{kind:?}"
                );
                assert!(cluster.raw(9).connections[0].ended.is_some());
                assert_eq!(cluster.node(1).fabric.counters().forged, 0, "it is his own frame");
                let events = cluster
                    .node(1)
                    .count(|event| matches!(event, Event::Up { peer: NodeId(9), .. }));
                assert_eq!(events, usize::from(is_owner));
                assert!(cluster.node(1).requests.is_empty());
            }
        }
    }
}

#[test]
fn a_peer_that_breaks_the_protocol_is_told_and_not_taken_for_somebody_on_the_way() {
    let authority = Authority::new(7);
    for (at, value) in [(6, 9), (7, 0xee), (10, 0x80), (8, 17)] {
        let mut cluster = victim(&authority, Protection::Auth, authority.certificate(Role::Node, "n9"), 1);
        cluster.raw(9).hello(0, 9, 1);
        cluster.run(millis(10));
        let (mut frame, head_bytes) = (empty(Kind::Ping), 24);
        frame.resize(head_bytes, 0);
        frame[8..10].copy_from_slice(&24u16.to_le_bytes());
        frame[at] = value;
        let sent = usize::from(u16::from_le_bytes([frame[8], frame[9]]));
        cluster.raw(9).frame(0, &frame[..sent], sent);
        cluster.run(millis(50));
        let counters = cluster.node(1).fabric.counters();
        assert_eq!((counters.violations, counters.forged), (1, 0), "byte {at}");
        let frames = &cluster.raw(9).connections[0].frames;
        assert!(matches!(frames.last(), Some(Frame::Refuse(refuse)) if refuse.code == RefuseCode::Violation));
        let why = Violation::Frame(codec::DecodeError::Forged);
        let forged =
            |event: &Event| matches!(event, Event::Down { why: DownReason::Violation(found), .. } if *found == why);
        assert_eq!(cluster.node(1).count(forged), 0);
    }
}

#[test]
fn a_stranger_learns_nothing_and_is_gone_in_time() {
    let authority = Authority::new(7);
    let mut hello = Vec::new();
    codec::encode_hello(&mut hello, &raw_hello(3, 1, 0), false);
    let plain = hello.clone();
    let mut whole = Vec::new();
    let handshakes = StandIn::new(&authority, authority.certificate(Role::Node, "n9"), Protection::Auth, 9);
    let mut exchange = amita_fabric::secure::Handshakes::call(&handshakes, &Recorded::node("n1")).expect("begins");
    exchange.advance(&[], &mut whole).expect("says the first flight");
    let half = whole[..20].to_vec();
    let much = [&[0xff, 0xff][..], &vec![7; MAX_PROOF_BYTES + 1]].concat();
    for protection in PROTECTIONS {
        for (bytes, ends) in [
            (&plain[..], millis(4100)),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", millis(4100)),
            (&[], millis(4100)),
            (&[0; 64], millis(50)),
            (&half, millis(4100)),
            (&whole, millis(4100)),
            (&much, millis(50)),
        ] {
            let mut cluster = victim(&authority, protection, authority.certificate(Role::Node, "n9"), 0);
            let address = cluster.address(1);
            cluster.start_raw(8, Raw::new(address, 1));
            cluster.run(millis(10));
            cluster.raw(8).send(0, bytes);
            cluster.run(ends);
            let connection = &cluster.raw(8).connections[0];
            assert!(connection.ended.is_some(), "{protection}: after {} bytes", bytes.len());
            let is_flight = protection == Protection::Auth && bytes == whole;
            let said = &connection.bytes;
            assert!(is_flight || said.is_empty() || *said == ALERT, "{protection}: {said:?}");
            assert!(!said.windows(2).any(|two| two == b"Am"), "no frame of ours");
            let ups = cluster.node(1).count(|event| matches!(event, Event::Up { .. }));
            assert_eq!(ups, 1, "node 3 alone");
            assert_eq!(cluster.node(3).ups(), 1);
            assert_eq!(cluster.node(3).count(|event| matches!(event, Event::Down { .. })), 0);
        }
    }
}

/// Who has proven himself and then says nothing, or half a hello, has no more time than others.
#[test]
fn whoever_has_a_certificate_and_says_nothing_is_gone_in_time() {
    let authority = Authority::new(7);
    for (bytes, role) in [(0, Role::Node), (30, Role::Node), (0, Role::Client)] {
        let mut cluster = victim(&authority, Protection::Auth, authority.certificate(role, "n9"), 1);
        assert!(cluster.raw(9).connections[0].is_proven());
        cluster.raw(9).send(0, &empty(Kind::Hello).repeat(2)[..bytes]);
        cluster.run(millis(2100));
        assert!(cluster.raw(9).connections[0].ended.is_some());
        assert!(cluster.raw(9).connections[0].frames.is_empty());
    }
}

#[test]
fn a_flood_of_strangers_has_a_rate_and_keeps_no_peer_out() {
    let authority = Authority::new(7);
    let mut cluster = Cluster::new(4);
    let (address, of_two) = (cluster.address(1), cluster.address(2));
    let one = takes_all(secured(1, Protection::Auth, &authority));
    cluster.start(1, Node::new(one).peer(2, of_two));
    cluster.start_raw(9, Raw::new(address, 500));
    cluster.run(millis(100));
    let open = |cluster: &mut Cluster| {
        cluster
            .raw(9)
            .connections
            .iter()
            .filter(|found| found.ended.is_none())
            .count()
    };
    let bound = HANDSHAKES_PER_SOURCE as usize;
    assert!(
        (bound..bound + 5).contains(&open(&mut cluster)),
        "{} of one address",
        open(&mut cluster)
    );
    let turned_away = cluster.node(1).fabric.counters().turned_away;
    assert!(turned_away > 460, "{turned_away}");
    // One that is known, and one that is not.
    cluster.start(2, Node::new(secured(2, Protection::Auth, &authority)).peer(1, address));
    cluster.start(3, Node::new(secured(3, Protection::Auth, &authority)).peer(1, address));
    for _ in 0..20 {
        cluster.raw(9).connect(100);
        cluster.run(millis(50));
    }
    assert_eq!((cluster.node(2).ups(), cluster.node(3).ups()), (1, 1));
    cluster.run(seconds(5));
    assert_eq!(open(&mut cluster), 0, "nobody stays");
    assert_eq!(cluster.node(1).count(|event| matches!(event, Event::Down { .. })), 0);
}

/// Callers in the middle of their handshake are not pushed out by whoever has most connections.
#[test]
fn a_flood_from_one_address_pushes_out_nobody_else() {
    let mut few = config(1);
    few.limits.handshakes = 8;
    let mut cluster = Cluster::new(4);
    cluster.start(1, Node::new(few));
    let address = cluster.address(1);
    cluster.start_raw(8, Raw::new(address, 1));
    cluster.run(millis(10));
    cluster.start_raw(9, Raw::new(address, 100));
    cluster.run(millis(100));
    assert!(
        cluster.raw(8).connections[0].ended.is_none(),
        "it came first, and is alone at its address"
    );
    cluster.raw(8).hello(0, 8, 1);
    cluster.run(millis(100));
    assert!(matches!(cluster.raw(8).connections[0].frames[..], [Frame::Welcome(_)]));
    let open = cluster
        .raw(9)
        .connections
        .iter()
        .filter(|found| found.ended.is_none())
        .count();
    assert_eq!(open, 7, "the bound, with the one that has said hello since");
}
