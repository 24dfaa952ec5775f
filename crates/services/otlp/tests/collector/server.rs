//! A collector of OpenTelemetry: as much of HTTP/1.1 (RFC 9112) as a POST needs, with and without TLS, that answers as it is told to.

use amita_otlp::proto::ExportTraceServiceRequest;
use flate2::read::GzDecoder;
use prost::Message as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// How long anything is waited for; nothing here takes so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The first line.
    pub line: String,
    /// By their names, in small letters.
    pub headers: BTreeMap<String, String>,
    /// Unpacked, decoded.
    pub message: ExportTraceServiceRequest,
}

/// What a request is answered with.
#[derive(Clone, Debug)]
pub enum Reply {
    /// This status, these lines of the head, this body.
    Say(u16, String, Vec<u8>),
    /// The connection ends instead.
    HangUp,
    /// Nothing, until the collector ends.
    Silence,
}

impl Reply {
    /// It was taken.
    pub fn ok() -> Reply {
        Reply::message(200, &[])
    }

    /// With a body of protobuf.
    pub fn message(status: u16, body: &[u8]) -> Reply {
        Reply::Say(
            status,
            "Content-Type: application/x-protobuf\r\n".to_owned(),
            body.to_vec(),
        )
    }
}

#[derive(Default)]
struct State {
    taken: Vec<Taken>,
    replies: VecDeque<Reply>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    ended: AtomicBool,
}

/// A collector. Dropped, it is dead.
pub struct Collector {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<thread::JoinHandle<()>>,
}

impl Collector {
    /// On a free port.
    pub fn start() -> Collector {
        Collector::at("127.0.0.1:0".parse().unwrap(), None)
    }

    /// At this address.
    pub fn at(address: SocketAddr, secure: Option<Arc<ServerConfig>>) -> Collector {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut connections = Vec::new();
            for stream in listener.incoming().flatten() {
                if own.ended.load(Ordering::SeqCst) {
                    break;
                }
                let raw = stream.try_clone().unwrap();
                connections.push(stream.try_clone().unwrap());
                let (shared, secure) = (Arc::clone(&own), secure.clone());
                // It ends with its connection.
                thread::spawn(move || {
                    match secure {
                        None => shared.serve(stream),
                        Some(config) => {
                            let connection = ServerConnection::new(config).unwrap();
                            shared.serve(StreamOwned::new(connection, stream));
                        }
                    }
                    let _ = raw.shutdown(Shutdown::Both);
                });
            }
            for connection in connections {
                let _ = connection.shutdown(Shutdown::Both);
            }
        });
        Collector {
            shared,
            address,
            thread: Some(thread),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next requests are answered so, one after the other; those after them with "taken".
    pub fn will(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.state.lock().unwrap().replies.extend(replies);
    }

    /// All that has come, when there are so many.
    pub fn taken(&self, count: usize) -> Vec<Taken> {
        let state = self.shared.state.lock().unwrap();
        let (state, waited) = self
            .shared
            .changed
            .wait_timeout_while(state, PATIENCE, |state| state.taken.len() < count)
            .unwrap();
        assert!(
            !waited.timed_out(),
            "{} requests came, and {count} were waited for",
            state.taken.len()
        );
        state.taken.clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

impl Shared {
    fn serve(&self, mut stream: impl Read + Write) {
        let mut seen = Vec::new();
        while let Some(taken) = take(&mut stream, &mut seen) {
            let reply = {
                let mut state = self.state.lock().unwrap();
                state.taken.push(taken);
                let reply = state.replies.pop_front().unwrap_or_else(Reply::ok);
                self.changed.notify_all();
                reply
            };
            match reply {
                Reply::Say(status, head, body) => {
                    let head = format!("HTTP/1.1 {status} X\r\n{head}Content-Length: {}\r\n\r\n", body.len());
                    let answer = [head.as_bytes(), &body].concat();
                    // Who has gone hears nothing.
                    if stream.write_all(&answer).and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                }
                Reply::HangUp => return,
                Reply::Silence => {
                    let state = self.state.lock().unwrap();
                    let ended = |_: &mut State| !self.ended.load(Ordering::SeqCst);
                    drop(self.changed.wait_timeout_while(state, PATIENCE, ended).unwrap());
                    return;
                }
            }
        }
    }
}

/// One request; none: the other side has gone.
fn take(stream: &mut impl Read, seen: &mut Vec<u8>) -> Option<Taken> {
    let mut piece = [0; 8192];
    loop {
        if let Some(at) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(seen[..at].to_vec()).unwrap();
            let (line, rest) = head.split_once("\r\n").unwrap();
            let lines = rest.split("\r\n").map(|line| line.split_once(": ").unwrap());
            let headers: BTreeMap<String, String> = lines
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let length: usize = headers["content-length"].parse().unwrap();
            if seen.len() >= at + 4 + length {
                let body = seen[at + 4..at + 4 + length].to_vec();
                seen.drain(..at + 4 + length);
                let body = match headers.get("content-encoding").map(String::as_str) {
                    None => body,
                    Some("gzip") => {
                        let mut plain = Vec::new();
                        GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
                        plain
                    }
                    Some(other) => panic!("encoding {other}"),
                };
                return Some(Taken {
                    line: line.to_owned(),
                    headers,
                    message: ExportTraceServiceRequest::decode(&body[..]).unwrap(),
                });
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(read) => seen.extend_from_slice(&piece[..read]),
        }
    }
}

/// An authority's certificate (PEM), and what a server of that name needs.
pub fn authority(name: &str) -> (String, Arc<ServerConfig>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec![name.to_owned()])
        .unwrap()
        .signed_by(&server_key, &issuer)
        .unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], private)
        .unwrap();
    (root.pem(), Arc::new(config))
}
