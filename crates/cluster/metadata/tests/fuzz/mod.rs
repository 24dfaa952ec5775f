//! Connections to the embedded metadata server out of any bytes: HTTP/2 with gRPC inside that goes wrong at some point, in its
//! frames, its headers or its messages. Used by `tests/fuzz.rs` on stable, and under libFuzzer by the target in `fuzz/`.
//!
//! What must hold: no thread panics, every request of a connection that keeps to the rules of HTTP/2 is answered whatever is in
//! it, and another client is served all the while.

mod message;

use amita_metadata::server::{self, Config, Handle};
use amita_metadata::{Call, Client};
use amita_testkit::fuzz::Input;
use message::METHODS;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What the other client keeps; no input knows of it.
const KEPT: &str = "/kept";
/// Decisions of one connection.
const MAX_STEPS: usize = 24;
/// An answer that takes longer never comes.
const PATIENCE: Duration = Duration::from_secs(20);
/// So much of what the server says to somebody who breaks the rules is waited for.
const GLANCE: Duration = Duration::from_millis(2);

/// Types of HTTP/2's frames (RFC 9113, section 6).
mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
}
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Panics of any thread so far: those of the server's are not this thread's.
static PANICS: AtomicU64 = AtomicU64::new(0);

struct Served {
    address: SocketAddr,
    client: Client,
    _handle: Handle,
    _folder: tempfile::TempDir,
}

fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            usual(info);
        }));
        let folder = amita_testkit::folder::in_memory();
        let config = Config::new((Ipv4Addr::LOCALHOST, 0).into(), folder.path().join("meta"));
        let handle = server::start(config).expect("it starts");
        let client = Client::connect(&[handle.address().to_string()]).expect("an endpoint");
        client.txn(&Call::put(KEPT, "kept")).expect("it is served");
        Served {
            address: handle.address(),
            client,
            _handle: handle,
            _folder: folder,
        }
    })
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A block of headers, none of them compressed or kept (RFC 7541, section 6.2.2).
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend(text.as_bytes());
        }
    }
    block
}

fn request_headers(path: &str) -> Vec<u8> {
    headers(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "meta"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ])
}

/// A message of gRPC: not compressed, its length, and itself.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

struct Stranger {
    stream: TcpStream,
    input: Vec<u8>,
    /// Streams with a whole request, that are not answered.
    open: BTreeSet<u32>,
    next: u32,
    /// It has broken a rule of HTTP/2: what it gets is not looked at.
    is_dirty: bool,
    answered: usize,
}

impl Stranger {
    fn connect(address: SocketAddr) -> Stranger {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Stranger {
            stream,
            input: Vec::new(),
            open: BTreeSet::new(),
            next: 1,
            is_dirty: false,
            answered: 0,
        }
    }

    /// The server may have closed before all is written.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// A request of a method with one answer, or a part of a stream of them.
    fn request(&mut self, input: &mut Input<'_>) {
        let (path, fields, is_stream) = METHODS[input.below(METHODS.len())];
        let stream = self.next;
        self.next += 2;
        let mut message = message::of(fields, input, 0);
        if input.below(6) == 0 {
            message::spoil(&mut message, input);
        }
        let mut body = framed(&message);
        match input.below(40) {
            // Said to be compressed, or of another length, or cut.
            0 => body[0] = input.byte(),
            1 => body[1..5].copy_from_slice(&(input.edge() as u32).to_be_bytes()),
            2 => body.truncate(input.place(body.len())),
            3 => body.extend(framed(&message)),
            _ => {}
        }
        self.send(&frame(kind::HEADERS, END_HEADERS, stream, &request_headers(path)));
        // In one frame, or in two.
        let cut = input.place(body.len() + 1);
        if is_stream {
            self.send(&frame(kind::DATA, 0, stream, &body));
            return;
        }
        if cut & 1 == 0 {
            self.send(&frame(kind::DATA, 0, stream, &body[..cut]));
            body.drain(..cut);
        }
        self.send(&frame(kind::DATA, END_STREAM, stream, &body));
        self.open.insert(stream);
    }

    /// Any frame.
    fn wild(&mut self, input: &mut Input<'_>) {
        self.is_dirty = true;
        let (kind, flags) = (input.byte() % 12, input.byte());
        let stream = match input.below(3) {
            0 => 0,
            1 => self.next,
            _ => input.edge() as u32,
        };
        let count = input.below(48);
        let payload = match input.below(3) {
            0 => request_headers(METHODS[count % METHODS.len()].0),
            _ => input.take(count).to_vec(),
        };
        let mut bytes = frame(kind, flags, stream, &payload);
        if input.below(6) == 0 {
            let length = input.edge() as u32;
            bytes[..3].copy_from_slice(&length.to_be_bytes()[1..]);
        }
        self.send(&bytes);
    }

    /// Reads until every request is answered.
    fn wait(&mut self) {
        let patience = if self.is_dirty { GLANCE } else { PATIENCE };
        self.stream.set_read_timeout(Some(patience)).expect("a socket");
        let mut block = [0; 16 << 10];
        while !self.open.is_empty() || self.is_dirty {
            match self.stream.read(&mut block) {
                Ok(count @ 1..) => self.input.extend(&block[..count]),
                _ if self.is_dirty => return,
                other => panic!("{other:?}, and {:?} are not answered", self.open),
            }
            if self.is_dirty {
                self.input.clear();
                continue;
            }
            while let Some(bytes) = self.look() {
                self.input.drain(..bytes);
            }
        }
    }

    /// Looks at a frame of the server; its length, where it is whole.
    fn look(&mut self) -> Option<usize> {
        let head = self.input.get(..9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.input.get(9..9 + length)?.to_vec();
        match kind {
            kind::SETTINGS if flags & ACK == 0 => self.send(&frame(kind::SETTINGS, ACK, 0, &[])),
            kind::PING if flags & ACK == 0 => self.send(&frame(kind::PING, ACK, 0, &payload)),
            kind::GOAWAY => panic!("the server ends the connection of somebody who keeps to the rules: {payload:?}"),
            // Also behind an answer that did not need the whole request (RFC 9113, 8.1).
            kind::RST_STREAM => self.answered += usize::from(self.open.remove(&stream)),
            kind::DATA if length > 0 => {
                let more = (length as u32).to_be_bytes();
                self.send(&frame(kind::WINDOW_UPDATE, 0, 0, &more));
                if flags & END_STREAM == 0 {
                    self.send(&frame(kind::WINDOW_UPDATE, 0, stream, &more));
                }
            }
            _ => {}
        }
        if matches!(kind, kind::HEADERS | kind::DATA) && flags & END_STREAM != 0 {
            self.answered += usize::from(self.open.remove(&stream));
        }
        Some(9 + length)
    }
}

/// One connection.
pub fn metadata(input: &[u8]) {
    connection(input);
}

/// One connection; how many requests were answered.
pub fn connection(input: &[u8]) -> usize {
    let served = served();
    let before = PANICS.load(Ordering::Relaxed);
    let mut input = Input(input);
    let mut stranger = Stranger::connect(served.address);
    if input.byte() & 15 != 0 {
        stranger.send(PREFACE);
        stranger.send(&frame(kind::SETTINGS, 0, 0, &[]));
    } else {
        stranger.is_dirty = true;
    }
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        match input.byte() {
            0..200 => stranger.request(&mut input),
            200..225 => stranger.wait(),
            225..245 => stranger.wild(&mut input),
            _ => {
                stranger.is_dirty = true;
                let count = input.below(64);
                let noise = input.take(count);
                stranger.send(noise);
            }
        }
    }
    stranger.wait();
    let answered = stranger.answered;
    drop(stranger);
    let reply = served.client.txn(&Call::get(KEPT)).expect("others are served");
    assert_eq!(reply.value(0).map(|kept| &kept.value[..]), Some(&b"kept"[..]));
    assert_eq!(
        PANICS.load(Ordering::Relaxed),
        before,
        "a thread of the server has panicked"
    );
    answered
}
