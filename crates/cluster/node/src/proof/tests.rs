use super::*;
use amita_identity::{Authority, CLIENT_LIFE, ClientTerms, Clock, Name};
use amita_types::capability::{Entry, Grant, Rights, Scope};
use amita_types::{ClusterId, VolumeId};
use std::path::PathBuf;
use tempfile::TempDir;

struct World {
    scratch: TempDir,
    authority: Authority,
}

impl World {
    fn new() -> World {
        let scratch = tempfile::tempdir().unwrap();
        let authority = Authority::create(&scratch.path().join("ca"), ClusterId(7), Clock::system()).unwrap();
        World { scratch, authority }
    }

    fn folder(&self, role: Role, name: &str) -> PathBuf {
        let folder = self.scratch.path().join(name);
        let name = Name::new(self.authority.cluster(), role, name).unwrap();
        self.authority.make_identity(&folder, &name).unwrap();
        folder
    }

    fn handshakes(&self, role: Role, name: &str, protection: Protection) -> TlsHandshakes {
        let live = Live::open(&self.folder(role, name), Clock::system()).unwrap();
        TlsHandshakes::new(live, protection)
    }

    fn node(&self, name: &str) -> TlsHandshakes {
        self.handshakes(Role::Node, name, Protection::Auth)
    }
}

/// How a handshake ended at one of its ends.
type End = Result<(Peer, Secrets), String>;

/// One end, with what was sent to it and not taken.
struct Side {
    handshake: Box<dyn Handshake + Send>,
    inbox: Vec<u8>,
    end: Option<End>,
}

impl Side {
    fn new(handshake: Result<Box<dyn Handshake + Send>, String>) -> Side {
        Side {
            handshake: handshake.unwrap(),
            inbox: Vec::new(),
            end: None,
        }
    }

    fn advance(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.end.is_none() {
            match self.handshake.advance(&self.inbox, &mut out) {
                Ok((taken, step)) => {
                    self.inbox.drain(..taken);
                    if let Step::Done { peer, secrets } = step {
                        self.end = Some(Ok((peer, secrets)));
                    }
                }
                Err(why) => self.end = Some(Err(why)),
            }
        }
        out
    }
}

/// Has two ends talk, by pieces of so many bytes; the caller lets `tail` follow its last flight.
fn talk(caller: &TlsHandshakes, callee: &str, acceptor: &TlsHandshakes, piece: usize, tail: &[u8]) -> (Side, Side) {
    let (mut one, mut two) = (
        Side::new(caller.call(&Recorded::gateway(callee))),
        Side::new(acceptor.accept()),
    );
    let mut tail = Some(tail);
    for _ in 0..6 {
        let mut said = one.advance();
        if one.end.is_some() {
            said.extend_from_slice(tail.take().unwrap_or_default());
        }
        let mut answered = Vec::new();
        for part in said.chunks(piece) {
            two.inbox.extend_from_slice(part);
            answered.extend(two.advance());
        }
        for part in answered.chunks(piece) {
            one.inbox.extend_from_slice(part);
            let out = one.advance();
            two.inbox.extend_from_slice(&out);
        }
        if one.end.is_some() {
            two.inbox.extend_from_slice(tail.take().unwrap_or_default());
        }
    }
    two.advance();
    (one, two)
}

fn told(side: &Side) -> &str {
    match &side.end {
        Some(Err(why)) => why,
        other => panic!("it did not fail: {other:?}"),
    }
}

#[test]
fn both_ends_know_each_other_and_what_nobody_else_knows() {
    let world = World::new();
    let (one, two) = (world.node("n1"), world.node("n2"));
    for piece in [1, 7, 4096] {
        let frames = b"what follows is no TLS";
        let (one, two) = talk(&one, "n2", &two, piece, frames);
        let (at_one, at_two) = (one.end.unwrap().unwrap(), two.end.unwrap().unwrap());
        assert_eq!((at_one.0.name.as_str(), at_two.0.name.as_str()), ("n2", "n1"));
        assert_eq!(at_one.1.send, at_two.1.receive);
        assert_eq!(at_one.1.receive, at_two.1.send);
        assert_ne!(at_one.1.send, at_one.1.receive);
        assert!(one.inbox.is_empty());
        assert_eq!(two.inbox, frames);
    }
}

#[test]
fn no_two_links_have_the_same_secrets() {
    let world = World::new();
    let (one, two) = (world.node("n1"), world.node("n2"));
    let secrets = || talk(&one, "n2", &two, 4096, b"").0.end.unwrap().unwrap().1;
    assert_ne!(secrets().send, secrets().send);
}

#[test]
fn who_answers_is_whom_was_called() {
    let world = World::new();
    let (one, two) = (world.node("n1"), world.node("n2"));
    let (one, _) = talk(&one, "n3", &two, 4096, b"");
    assert_eq!(told(&one), "node n3 was called, and node n2 has answered");
}

#[test]
fn another_authority_is_not_believed() {
    let (world, other) = (World::new(), World::new());
    let (one, stranger) = (world.node("n1"), other.node("n1"));
    let two = world.node("n2");
    let (caller, _) = talk(&one, "n1", &stranger, 4096, b"");
    assert!(told(&caller).contains("UnknownIssuer"), "{}", told(&caller));
    let (_, acceptor) = talk(&stranger, "n2", &two, 4096, b"");
    assert!(acceptor.end.is_none_or(|end| end.is_err()), "a stranger was let in");
}

/// Whichever end it is at, whatever it was granted, and also where it is called by its own name.
#[test]
fn a_client_is_no_node() {
    let world = World::new();
    let volume = Entry {
        scope: Scope::Volume(VolumeId(1)),
        rights: Rights::ALL,
    };
    let terms = ClientTerms {
        grant: Grant::new("", vec![volume]).unwrap(),
        life: CLIENT_LIFE,
    };
    let granted = Name::new(world.authority.cluster(), Role::Client, "granted").unwrap();
    world.authority.grant(&granted, &terms).unwrap();
    let two = world.node("n2");
    for (role, name) in [
        (Role::Client, "plain"),
        (Role::Client, "granted"),
        (Role::Operator, "admin"),
    ] {
        let other = world.handshakes(role, name, Protection::Auth);
        assert_eq!(other.live.current().facts().capability.is_some(), name == "granted");
        let (_, acceptor) = talk(&other, "n2", &two, 4096, b"");
        assert!(told(&acceptor).contains("OtherRole"), "{}", told(&acceptor));
        let (caller, _) = talk(&two, name, &other, 4096, b"");
        assert!(told(&caller).contains("OtherRole"), "{}", told(&caller));
    }
}

#[test]
fn nobody_talks_two_nodes_down() {
    let world = World::new();
    let auth = world.node("n1");
    let secret = world.handshakes(Role::Node, "n2", Protection::Secret);
    for (caller, callee, acceptor) in [(&auth, "n2", &secret), (&secret, "n1", &auth)] {
        let (one, two) = talk(caller, callee, acceptor, 4096, b"");
        assert!(
            told(&one).contains("application protocol") || told(&one).contains("NoApplicationProtocol"),
            "{}",
            told(&one)
        );
        assert!(two.end.is_some_and(|end| end.is_err()));
    }
}

#[test]
fn bytes_that_are_no_handshake_end_it() {
    let world = World::new();
    let node = world.node("n1");
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n"[..],
        &[0xff; 64],
        b"Am\x00\x01\0\0\0\0\0\0\0\0",
    ] {
        let mut side = Side::new(node.accept());
        side.inbox.extend_from_slice(garbage);
        let answer = side.advance();
        assert!(side.end.is_some_and(|end| end.is_err()));
        // An alert at most: two bytes in a record.
        assert!(answer.len() <= HEADER_BYTES + 2, "{} bytes", answer.len());
    }
}

#[test]
fn who_was_revoked_is_not_believed_any_more() {
    let world = World::new();
    let two = world.node("n2");
    let one = world.node("n1");
    let (_, acceptor) = talk(&one, "n2", &two, 4096, b"");
    let (peer, _) = acceptor.end.unwrap().unwrap();
    assert!(two.trusts(&peer));
    world.authority.revoke("n1").unwrap();
    assert!(two.live.install_trust(&world.authority.trust().unwrap()).unwrap());
    assert!(!two.trusts(&peer));
    let (_, acceptor) = talk(&one, "n2", &two, 4096, b"");
    assert!(told(&acceptor).contains("Revoked"), "{}", told(&acceptor));
}

#[test]
fn what_is_printed_has_no_secret() {
    let world = World::new();
    let (one, two) = (world.node("n1"), world.node("n2"));
    let (one, _) = talk(&one, "n2", &two, 4096, b"");
    let text = format!("{:?} {:?}", one.handshake, one.end.unwrap().unwrap().1);
    assert_eq!(
        text,
        "TlsHandshake { callee: Some(Recorded { name: \"n2\", is_gateway: true }), .. } Secrets(..)"
    );
}
