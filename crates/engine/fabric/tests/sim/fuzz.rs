//! Valid conversations with changes in them, from either side: the node goes on, and honest peers are served.

use crate::common::{Node, Raw, answer, config, raw_hello, read, renew_lease, write};
use crate::world::{Cluster, millis, seconds};
use amita_fabric::codec::{PROTOCOL_VERSION, encode, encode_hello, encode_ping};
use amita_fabric::{DownReason, Event, Message, ReleaseOutcome};
use amita_reactor::Slice;
use amita_reactor::sim::Random;
use amita_types::{Generation, NodeId, VolumeId};

/// One frame: its head, and its payload.
type Frame = (Vec<u8>, Vec<u8>);

fn frame((message, payload): (Message, Slice)) -> Frame {
    let mut head = Vec::new();
    encode(&mut head, PROTOCOL_VERSION, &message, payload.len()).expect("valid");
    (head, payload.to_vec())
}

fn control(put: impl Fn(&mut Vec<u8>)) -> Frame {
    let mut head = Vec::new();
    put(&mut head);
    (head, Vec::new())
}

/// What a good dialler says.
fn asking() -> Vec<Frame> {
    let release = Message::Release {
        tag: 3,
        volume: VolumeId(1),
        generation: Generation(1),
        hand_over: false,
    };
    vec![
        control(|out| encode_hello(out, &raw_hello(9, 1, 0), false)),
        frame(write(1, 4096)),
        frame(read(2, 4)),
        control(|out| encode_ping(out, PROTOCOL_VERSION, 5, false)),
        frame((release, Slice::default())),
        frame(write(3, 9000)),
        frame(renew_lease(4)),
        frame(write(5, 128 << 10)),
    ]
}

/// What somebody asks of the acceptor.
fn asked() -> [(Message, Slice); 3] {
    [read(1, 2), write(2, 4096), renew_lease(3)]
}

/// What a good acceptor says to that.
fn answering() -> Vec<Frame> {
    let mut frames = vec![control(|out| encode_hello(out, &raw_hello(9, 1, 0), true))];
    for (message, _) in asked() {
        let Message::Request(request) = message else {
            panic!("a request")
        };
        frames.push(frame(answer(&request)));
        frames.push(control(|out| encode_ping(out, PROTOCOL_VERSION, 5, true)));
    }
    frames.push(frame((
        Message::Released {
            tag: 1,
            outcome: ReleaseOutcome::NotOwner,
        },
        Slice::default(),
    )));
    frames
}

/// Changes the conversation in some places.
fn mangle(frames: &mut Vec<Frame>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        if frames.is_empty() {
            return;
        }
        let at = random.below(frames.len() as u64) as usize;
        match random.below(8) {
            0 => {
                frames.remove(at);
            }
            1 => {
                let again = frames[at].clone();
                frames.insert(random.below(frames.len() as u64 + 1) as usize, again);
            }
            2 => {
                let length = random.below(frames[at].0.len() as u64 + 1) as usize;
                frames[at].0.truncate(length);
            }
            3 => {
                let noise = (0..random.below(300)).map(|_| random.below(256) as u8).collect();
                frames.insert(at, (noise, Vec::new()));
            }
            4 => {
                let length = random.below(frames[at].1.len() as u64 + 1) as usize;
                frames[at].1.truncate(length);
            }
            _ => flip(&mut frames[at].0, random),
        }
    }
}

/// Flips bits of a head; mostly with a CRC that fits, so that what is behind it is met too.
fn flip(head: &mut [u8], random: &mut Random) {
    if head.len() < 16 {
        return;
    }
    for _ in 0..1 + random.below(2) {
        let byte = random.below(head.len() as u64) as usize;
        head[byte] ^= 1 << random.below(8);
    }
    if random.below(4) > 0 {
        let crc = amita_types::crc32c(&head[4..]);
        head[..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Sends the conversation, with pauses.
fn speak(cluster: &mut Cluster, frames: &[Frame], random: &mut Random) {
    for (head, payload) in frames {
        cluster.raw(9).send(0, head);
        cluster.raw(9).send(0, payload);
        if random.below(3) == 0 {
            cluster.run(millis(1));
        }
    }
    cluster.run(millis(20));
}

#[test]
fn a_mangled_conversation_of_a_dialler_harms_nobody() {
    let (mut ended, mut lived) = (0, 0);
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let mut cluster = Cluster::new(seed);
        cluster.start(1, Node::new(config(1)));
        let address = cluster.address(1);
        cluster.start(2, Node::new(config(2)).peer(1, address));
        cluster.start_raw(9, Raw::new(address, 1));
        cluster.run(millis(20));
        let mut frames = asking();
        mangle(&mut frames, &mut random);
        speak(&mut cluster, &frames, &mut random);
        if cluster.raw(9).connections[0].ended.is_some() {
            ended += 1;
        } else {
            lived += 1;
        }
        cluster.node(2).send(1, write(1, 4096));
        cluster.run(millis(5));
        assert_eq!(cluster.node(2).answers.len(), 1, "seed {seed}");
        assert_eq!(cluster.node(2).ups(), 1, "seed {seed}");
        for (_, event) in &cluster.node(1).events {
            if let Event::Down { why, .. } = event {
                let expected = matches!(why, DownReason::Violation(_) | DownReason::PeerSaid(_));
                assert!(expected, "seed {seed}: {why:?}");
            }
        }
    }
    assert!(ended > 300 && lived > 100, "{ended} ended, {lived} lived");
}

#[test]
fn a_mangled_conversation_of_an_acceptor_harms_nobody() {
    let (mut downs, mut answers) = (0, 0);
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let mut cluster = Cluster::new(seed);
        let address = cluster.address(9);
        cluster.start_raw(9, Raw::listening(address));
        cluster.run(millis(1));
        cluster.start(1, Node::new(config(1)).peer(9, address));
        cluster.run(millis(5));
        let mut frames = answering();
        mangle(&mut frames, &mut random);
        let Some((welcome, _)) = frames.first().cloned() else {
            continue;
        };
        // The welcome first, so that there is something to answer; it may be among what was changed.
        cluster.raw(9).send(0, &welcome);
        cluster.run(millis(2));
        for message in asked() {
            cluster.node(1).send(9, message);
        }
        if let Some(link) = cluster.node(1).fabric.link_to(NodeId(9)) {
            let release = Message::Release {
                tag: 1,
                volume: VolumeId(1),
                generation: Generation(1),
                hand_over: false,
            };
            cluster
                .node(1)
                .fabric
                .send(link, release, Slice::default())
                .expect("it is up");
        }
        cluster.run(millis(2));
        speak(&mut cluster, &frames[1..], &mut random);
        downs += cluster.node(1).count(|event| matches!(event, Event::Down { .. }));
        answers += cluster.node(1).answers.len();
        // It goes on calling, and takes no harm from what it called.
        cluster.run(seconds(3));
    }
    assert!(
        downs > 200 && answers > 300,
        "{downs} links ended, {answers} answers were good"
    );
}
