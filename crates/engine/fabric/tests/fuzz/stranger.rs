//! Somebody who cannot tag a frame, at a node whose links are protected: before the proof of who he is, in its middle, and
//! behind one that somebody else has made.

use super::super::common::{Node, Raw, config, raw_hello};
use super::super::world::{Cluster, millis};
use super::{MAX_CONNECTIONS, MAX_STEPS, mangle, spoken};
use amita_fabric::Event;
use amita_fabric::codec::encode_hello;
use amita_fabric::secure::{
    Handshake, Handshakes, Peer, Protection, Recorded, Role, SECRET_BYTES, Secrets, Security, Step,
};
use amita_testkit::fuzz::Input;
use amita_types::NodeId;
use std::sync::Arc;

/// Whoever says this has proven to be node 9. That it can be repeated is the point: the secrets that come of it are not known
/// to who repeats it.
const PROOF: [u8; 40] = *b"everything that proves to be node nine..";

/// Makes handshakes that are one flight long.
#[derive(Debug)]
struct Doorman(Protection);

impl Handshakes for Doorman {
    fn protection(&self) -> Protection {
        self.0
    }

    fn call(&self, _: &Recorded) -> Result<Box<dyn Handshake + Send>, String> {
        Err("nobody is called".to_owned())
    }

    fn accept(&self) -> Result<Box<dyn Handshake + Send>, String> {
        Ok(Box::new(Knock))
    }

    fn trusts(&self, _: &Peer) -> bool {
        true
    }
}

#[derive(Debug)]
struct Knock;

impl Handshake for Knock {
    fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, Step), String> {
        let common = input
            .iter()
            .zip(PROOF)
            .take_while(|(said, wanted)| **said == *wanted)
            .count();
        if common < input.len().min(PROOF.len()) {
            return Err("that is no proof".to_owned());
        }
        if common < PROOF.len() {
            return Ok((0, Step::More));
        }
        out.extend_from_slice(b"come in");
        let peer = Peer {
            role: Role::Node,
            name: "nine".to_owned(),
            certificates: Vec::new(),
        };
        let secrets = Secrets {
            send: [1; SECRET_BYTES].into(),
            receive: [2; SECRET_BYTES].into(),
        };
        Ok((PROOF.len(), Step::Done { peer, secrets }))
    }
}

/// Nothing of what he says is heard, and no link is ever his.
pub fn stranger(input: &[u8]) {
    let mut input = Input(input);
    let protection = if input.byte() & 1 == 0 {
        Protection::Auth
    } else {
        Protection::Secret
    };
    let mut settings = config(1);
    settings.security = Some(Security::new(Arc::new(Doorman(protection))));
    let mut node = Node::new(settings);
    node.fabric.set_name(NodeId(9), Some(Recorded::node("nine")));
    let mut cluster = Cluster::new(1);
    cluster.start(1, node);
    let address = cluster.address(1);
    cluster.start_raw(9, Raw::new(address, 1));
    cluster.run(millis(5));
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let open = cluster.raw(9).connections.len();
        let connection = input.below(open);
        match input.byte() {
            0..60 => {
                let cut = input.below(PROOF.len() + 1);
                cluster.raw(9).send(connection, &PROOF[..cut]);
            }
            60..110 => cluster.raw(9).send(connection, &PROOF),
            110..130 => {
                let mut hello = Vec::new();
                encode_hello(&mut hello, &raw_hello(9, 1, 0), false);
                cluster.raw(9).send(connection, &hello);
            }
            130..190 => {
                let (mut head, payload) = spoken(&mut input, &mut Vec::new(), true);
                if input.byte() & 1 == 1 {
                    mangle(&mut head, &mut input);
                }
                // The tag stands between head and payload: he has to guess it.
                let tag = if input.byte() & 1 == 1 {
                    input.take(16)
                } else {
                    &[0; 16]
                };
                cluster.raw(9).send(connection, &[&head, tag, &payload[..]].concat());
            }
            190..215 => {
                let count = input.below(80);
                let noise = input.take(count);
                cluster.raw(9).send(connection, noise);
            }
            215..230 if open < MAX_CONNECTIONS => {
                cluster.raw(9).connect(1);
                cluster.run(millis(2));
            }
            _ => cluster.run(millis(1 + u64::from(input.byte()))),
        }
    }
    cluster.run(millis(50));
    let node = cluster.node(1);
    assert!(node.requests.is_empty() && node.answers.is_empty(), "he was heard");
    let ups = node.count(|event| matches!(event, Event::Up { .. } | Event::Message { .. }));
    assert_eq!(ups, 0, "a link is his");
}
