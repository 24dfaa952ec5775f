//! The embedded server and peers with a certificate that take what they can: the others do not feel it.

use crate::common::{Kind, Server};
use crate::pki::Leaf;
use amita_metadata::server::{OperatorRole, Role};
use amita_metadata::{Call, Waited};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Streams of one name.
const STREAMS: usize = 64;

mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
}
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A peer that speaks HTTP/2 by hand, answers pings, and never says that it has room for more.
struct Raw {
    stream: StreamOwned<ClientConnection, TcpStream>,
    input: Vec<u8>,
    /// Bytes of answers that came.
    taken: usize,
}

impl Raw {
    fn connect(server: &Server, leaf: &Leaf) -> Raw {
        let config = server.secure().authority.client(Some(leaf));
        let name = ServerName::IpAddress(server.address.ip().into());
        let socket = TcpStream::connect(server.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut raw = Raw {
            stream: StreamOwned::new(ClientConnection::new(config, name).unwrap(), socket),
            input: Vec::new(),
            taken: 0,
        };
        raw.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        raw.send(kind::SETTINGS, 0, 0, &[]);
        raw
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        // What it may not do any more it hears by reading.
        let _ = self.stream.write_all(&bytes);
        let _ = self.stream.flush();
    }

    /// Asks for all keys with this prefix.
    fn range(&mut self, stream: u32, prefix: &str) {
        let fields = [
            (":method", "POST"),
            (":scheme", "https"),
            (":path", "/etcdserverpb.KV/Range"),
            (":authority", "meta"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0);
            for text in [name, value] {
                block.push(text.len() as u8);
                block.extend(text.as_bytes());
            }
        }
        self.send(kind::HEADERS, END_HEADERS, stream, &block);
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let mut message = Vec::new();
        for (tag, bytes) in [(1, prefix.as_bytes()), (2, &end)] {
            message.extend([tag << 3 | 2, bytes.len() as u8]);
            message.extend(bytes);
        }
        let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
        self.send(kind::DATA, END_STREAM, stream, &framed);
    }

    /// Reads what comes until the server ends the connection; whether it has.
    fn is_cut_off(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut block = [0; 16 << 10];
        while Instant::now() < until {
            match self.stream.read(&mut block) {
                Ok(0) => return true,
                Ok(count) => self.input.extend(&block[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return true,
            }
            while let Some(length) = self.look() {
                self.input.drain(..length);
            }
        }
        false
    }

    /// Looks at a frame; its length, where it is whole.
    fn look(&mut self) -> Option<usize> {
        let head = self.input.get(..9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (kind, flags) = (head[3], head[4]);
        let payload = self.input.get(9..9 + length)?.to_vec();
        match kind {
            kind::SETTINGS | kind::PING if flags & ACK == 0 => {
                let echoed = if kind == kind::PING { &payload[..] } else { &[] };
                self.send(kind, ACK, 0, echoed);
            }
            kind::DATA => self.taken += length,
            _ => {}
        }
        Some(9 + length)
    }
}

#[test]
fn who_does_not_take_an_answer_is_cut_off() {
    let server = Server::start(Kind::Secure);
    let client = server.client();
    for number in 0..4 {
        let call = Call::put(format!("/large/{number}"), vec![7; 1 << 19]);
        client.txn(&call).unwrap();
    }
    let mut raw = Raw::connect(&server, &server.secure().operator(OperatorRole::Viewer, "eve"));
    raw.range(1, "/large/");
    assert!(raw.is_cut_off(PATIENCE), "it holds {} bytes of an answer", raw.taken);
    assert!(raw.taken > 60_000, "as much as it had room for: {}", raw.taken);
    assert_eq!(client.txn(&Call::prefix("/large/")).unwrap().values(0).len(), 4);
}

#[test]
fn one_name_has_a_few_streams_and_gets_places_back() {
    let server = Server::start(Kind::Secure);
    let ours = server.client();
    let from = ours.txn(&Call::put("/k", "v")).unwrap().revision;
    let lease = ours.lease_grant(3600).unwrap();
    let viewer = |name| server.client_of(&server.secure().operator(OperatorRole::Viewer, name));
    let (greedy, other) = (viewer("greedy"), viewer("other"));
    let mut held = Vec::new();
    for number in 0..STREAMS {
        let mut watch = greedy.watch("/k", from);
        let waited = watch.wait(PATIENCE);
        assert!(matches!(waited, Waited::Item(Ok(_))), "{number}: {waited:?}");
        held.push(watch);
    }
    let mut more = greedy.watch("/k", from);
    assert_eq!(more.wait(Duration::from_secs(2)), Waited::Nothing);
    let mut theirs = other.watch("/k", from);
    assert!(
        matches!(theirs.wait(PATIENCE), Waited::Item(Ok(_))),
        "others have theirs"
    );
    ours.lease_keepalive(lease.id).unwrap();
    held.pop();
    let waited = more.wait(PATIENCE);
    assert!(matches!(waited, Waited::Item(Ok(_))), "{waited:?}");
}

/// Many processes may go by one name, each with a watch and a lease.
#[test]
fn a_name_whose_streams_are_all_watches_renews_its_leases() {
    let server = Server::start(Kind::Secure);
    let busy = server.client_of(&server.secure().leaf(Role::Node, "busy"));
    let from = busy.txn(&Call::put("/k", "v")).unwrap().revision;
    let leases: Vec<_> = (0..8).map(|_| busy.lease_grant(3600).unwrap().id).collect();
    let mut held = Vec::new();
    for _ in 0..STREAMS {
        let mut watch = busy.watch("/k", from);
        assert!(matches!(watch.wait(PATIENCE), Waited::Item(Ok(_))));
        held.push(watch);
    }
    let mut more = busy.watch("/k", from);
    assert_eq!(
        more.wait(Duration::from_secs(1)),
        Waited::Nothing,
        "all of them are taken"
    );
    for lease in leases {
        assert_eq!(busy.lease_keepalive(lease).unwrap(), 3600);
    }
}
