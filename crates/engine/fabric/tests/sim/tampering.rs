//! Somebody on the way between two nodes whose links are protected.

use crate::common::proof::Authority;
use crate::common::relay::{Passing, Way};
use crate::common::{Node, read, secured, write};
use crate::world::{Cluster, millis};
use amita_fabric::secure::Protection;
use amita_fabric::{DownReason, Event, Violation};
use std::collections::BTreeMap;

pub const PROTECTIONS: [Protection; 2] = [Protection::Auth, Protection::Secret];
/// The frame that is tampered with: a write of 4 KiB, and an answer with a block. Before it come a hello and requests, or a
/// welcome and answers.
fn target(way: Way) -> u64 {
    match way {
        Way::Out => 3,
        Way::Back => 2,
    }
}

/// Node 1 has a link to node 2, by way of a relay.
fn relayed(protection: Protection, tamper: impl FnMut(Passing) -> Vec<u8> + 'static) -> Cluster {
    let authority = Authority::new(7);
    let mut cluster = Cluster::new(1);
    let by = cluster.address(3);
    cluster.start(1, Node::new(secured(1, protection, &authority)).peer(2, by));
    cluster.start(2, Node::new(secured(2, protection, &authority)));
    cluster.start_relay(3, 2);
    cluster.relay(3).tamper = Box::new(tamper);
    cluster.run_till(|cluster| cluster.node(1).ups() == 1 && cluster.node(2).fabric.links() == 1);
    cluster
}

fn is_forged(event: &Event) -> bool {
    let forged = Violation::Frame(amita_fabric::codec::DecodeError::Forged);
    matches!(event, Event::Down { why: DownReason::Violation(why), .. } if *why == forged)
}

/// Sends until the first link has ended, and looks at what came of it: nothing that was not sent, in order, and a new link
/// that works.
fn suffers(cluster: Cluster, way: Way, what: &str) {
    suffers_after(cluster, way, target(way) - 1, what);
}

/// The same, where so many messages had come before.
fn suffers_after(mut cluster: Cluster, way: Way, before: u64, what: &str) {
    for id in 0..40 {
        let message = if id % 2 == 0 { write(id, 4096) } else { read(id, 1) };
        cluster.node(1).send(2, message);
        cluster.run(millis(1));
    }
    cluster.run_till(|cluster| cluster.node(1).ups() >= 2);
    let (victim, other) = if way == Way::Out { (2, 1) } else { (1, 2) };
    assert_eq!(
        cluster.node(victim).count(is_forged),
        1,
        "{what}: {:?}",
        cluster.node(victim).events
    );
    assert_eq!(cluster.node(victim).fabric.counters().forged, 1, "{what}");
    assert_eq!(cluster.node(other).count(is_forged), 0, "{what}: it is told nothing");
    assert_eq!(cluster.node(1).fabric.counters().violations, 0, "{what}");
    assert_eq!((cluster.node(1).damaged, cluster.node(2).damaged), (0, 0), "{what}");
    // Of the first link nothing has come that was not sent before the frame.
    let of_first = |all: &[(amita_fabric::Link, u64)]| -> Vec<u64> {
        let first = all.iter().map(|(link, _)| *link).min();
        let numbers = all.iter().filter(|(link, _)| Some(*link) == first);
        numbers.map(|(_, id)| *id).collect()
    };
    let came = match way {
        Way::Out => of_first(&cluster.node(2).requests),
        Way::Back => of_first(&cluster.node(1).answers),
    };
    assert!(came.into_iter().eq(0..before), "{what}");
    cluster.node(1).send(2, write(99, 4096));
    cluster.run_till(|cluster| cluster.node(1).answers.iter().any(|(_, id)| *id == 99));
}

/// One way of tampering with the third frame of that way, on the first connection.
fn tampers(way: Way, mut with: impl FnMut(Vec<u8>) -> Vec<u8> + 'static) -> impl FnMut(Passing) -> Vec<u8> {
    move |passing| {
        let is_it = passing.connection == 0 && passing.way == way && passing.number == target(way);
        if is_it { with(passing.bytes) } else { passing.bytes }
    }
}

#[test]
fn a_changed_bit_ends_the_link_and_reaches_nobody() {
    for protection in PROTECTIONS {
        for way in [Way::Out, Way::Back] {
            // All of the prefix, then some of the fields, of the tag and of the payload.
            let prefix = (0..16).flat_map(|byte| (0..8).map(move |bit| (byte, bit)));
            let rest =
                [16, 17, 24, 31, 45, 46, 57, 58, 73, 74, 90, 103, 104, 119, 120, 500].map(|byte| (byte, byte % 8));
            for (byte, bit) in prefix.chain(rest) {
                let cluster = relayed(
                    protection,
                    tampers(way, move |mut bytes| {
                        let at = byte.min(bytes.len() - 1);
                        bytes[at] ^= 1 << bit;
                        bytes
                    }),
                );
                suffers(cluster, way, &format!("{protection} {way:?}: bit {bit} of byte {byte}"));
            }
        }
    }
}

#[test]
fn the_last_bit_of_a_payload_is_under_the_tag() {
    for protection in PROTECTIONS {
        for way in [Way::Out, Way::Back] {
            let cluster = relayed(
                protection,
                tampers(way, |mut bytes| {
                    *bytes.last_mut().expect("a frame") ^= 0x80;
                    bytes
                }),
            );
            suffers(cluster, way, &format!("{protection} {way:?}"));
        }
    }
}

#[test]
fn a_frame_that_is_repeated_left_out_made_up_cut_or_moved_ends_the_link() {
    for protection in PROTECTIONS {
        for way in [Way::Out, Way::Back] {
            let repeated = tampers(way, |bytes| bytes.repeat(2));
            // The first of the two is what was sent.
            suffers_after(relayed(protection, repeated), way, target(way), "repeated");
            let left_out = tampers(way, |_| Vec::new());
            suffers(relayed(protection, left_out), way, "left out");
            let cut = tampers(way, |mut bytes| {
                bytes.pop();
                bytes
            });
            suffers(relayed(protection, cut), way, "cut by a byte");
            let made_up = tampers(way, |mut bytes| {
                // A ping with a tag of nothing.
                let mut ping = Vec::new();
                amita_fabric::codec::encode_ping(&mut ping, 1, 1, false);
                ping[..4].fill(0);
                ping.extend([0; 16]);
                ping.append(&mut bytes);
                ping
            });
            suffers(relayed(protection, made_up), way, "made up");
            let mut kept = Vec::new();
            let moved = move |passing: Passing| {
                if passing.connection > 0 || passing.way != way {
                    return passing.bytes;
                }
                match passing.number {
                    number if number == target(way) => {
                        kept = passing.bytes;
                        Vec::new()
                    }
                    number if number == target(way) + 1 => [passing.bytes, std::mem::take(&mut kept)].concat(),
                    _ => passing.bytes,
                }
            };
            suffers(relayed(protection, moved), way, "moved");
        }
    }
}

#[test]
fn a_frame_of_another_time_direction_or_link_ends_the_link() {
    for protection in PROTECTIONS {
        for way in [Way::Out, Way::Back] {
            for from in [Way::Out, Way::Back] {
                // The frame before, of this way or of the other, in the place of this one.
                let mut last = BTreeMap::new();
                let replaced = move |passing: Passing| {
                    let key = passing.way == Way::Out;
                    let is_it = passing.connection == 0 && passing.way == way && passing.number == target(way);
                    let other = last.get(&(from == Way::Out)).cloned();
                    last.insert(key, passing.bytes.clone());
                    if is_it {
                        other.expect("one was before")
                    } else {
                        passing.bytes
                    }
                };
                suffers(
                    relayed(protection, replaced),
                    way,
                    &format!("{protection} {way:?} from {from:?}"),
                );
            }
        }
    }
}

/// Whatever of the first link comes, from its hello on, on the second: refused before the second is up.
#[test]
fn frames_of_an_earlier_link_are_of_no_use_on_the_next_one() {
    for protection in PROTECTIONS {
        let mut recorded = Vec::new();
        let mut cluster = relayed(protection, move |passing| {
            if passing.way == Way::Back {
                return passing.bytes;
            }
            if passing.connection == 0 {
                recorded.push(passing.bytes.clone());
                return passing.bytes;
            }
            if passing.connection == 1 && passing.number == 0 {
                recorded.concat()
            } else {
                passing.bytes
            }
        });
        cluster.node(1).send(2, write(1, 4096));
        cluster.run_till(|cluster| cluster.node(1).answers.len() == 1);
        let link = cluster.node(1).fabric.link_to(amita_types::NodeId(2)).expect("up");
        cluster.node(1).close(link);
        cluster.run_till(|cluster| cluster.node(1).ups() == 2);
        assert_eq!(cluster.node(2).fabric.counters().forged, 1);
        assert_eq!(
            cluster.node(2).requests.len(),
            1,
            "{protection}: the recorded write was not carried out again"
        );
        let ups = |event: &Event| matches!(event, Event::Up { .. });
        assert_eq!(
            cluster.node(2).count(ups),
            2,
            "the link that was played back was never up"
        );
    }
}

#[test]
fn bytes_one_by_one_are_as_good_as_all_at_once() {
    for protection in PROTECTIONS {
        let authority = Authority::new(7);
        let mut cluster = Cluster::new(1);
        let by = cluster.address(3);
        cluster.start(1, Node::new(secured(1, protection, &authority)).peer(2, by));
        cluster.start(2, Node::new(secured(2, protection, &authority)));
        cluster.start_relay(3, 2);
        cluster.relay(3).bytewise = true;
        cluster.node(1).send(2, write(1, 100));
        cluster.node(1).send(2, write(2, 1));
        cluster.run_till(|cluster| cluster.node(1).answers.len() == 2);
        assert_eq!(cluster.relay(3).connections(), 1);
        assert_eq!(cluster.node(2).damaged, 0);
    }
}

#[test]
fn frames_may_follow_the_handshake_in_the_same_bytes() {
    for protection in PROTECTIONS {
        let mut cluster = relayed(protection, |passing| passing.bytes);
        assert_eq!(
            cluster.relay(3).followed,
            1,
            "the hello came with the end of the handshake"
        );
        cluster.node(1).send(2, write(1, 4096));
        cluster.run_till(|cluster| cluster.node(1).answers.len() == 1);
    }
}

/// What goes over the wire says nothing of what is in it, but for kinds and lengths.
#[test]
fn whoever_listens_reads_payloads_in_one_mode_only() {
    for protection in PROTECTIONS {
        let (message, payload) = write(5, 4096);
        let piece = payload[100..164].to_vec();
        let seen = std::rc::Rc::new(std::cell::Cell::new(false));
        let tell = seen.clone();
        let mut cluster = relayed(protection, move |passing| {
            let has = passing.bytes.windows(piece.len()).any(|window| window == piece);
            tell.set(tell.get() || has);
            passing.bytes
        });
        cluster.node(1).send(2, (message, payload));
        cluster.run_till(|cluster| cluster.node(1).answers.len() == 1);
        assert_eq!(seen.get(), protection == Protection::Auth);
    }
}
