//! A KMIP server, as far as `Encrypt`, `Decrypt` and `Get` of AES keys go, over mutual TLS: it looks at every item of a request, and what is one too
//! many, one too few or of another form is told by [`Fake::check`]. It answers as OASIS KMIP 1.4 has it (sections 4.11, 4.29 and 4.30).

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// An authority, and what it vouches for: a server at 127.0.0.1, and a client.
pub struct Authority {
    pub ca: String,
    pub client: (String, String),
    pub server: (String, String),
    config: Arc<ServerConfig>,
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
}

/// A certificate of this name, until the year said.
fn made(
    issuer: &Issuer<'static, KeyPair>,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    year: i32,
) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    params.extended_key_usages = vec![usage];
    params.distinguished_name.push(DnType::CommonName, name);
    (params.signed_by(&key, issuer).unwrap(), key)
}

fn serving((server, key): &(Certificate, KeyPair), roots: &Arc<RootCertStore>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(&provider));
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![server.der().clone()], private)
        .unwrap();
    Arc::new(config)
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "the test's authority");
        let root = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let (client, client_key) = made(&issuer, "amita", ExtendedKeyUsagePurpose::ClientAuth, 4000);
        let server = made(&issuer, "127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth, 4000);
        let mut roots = RootCertStore::empty();
        roots.add(root.der().clone()).unwrap();
        let roots = Arc::new(roots);
        Authority {
            ca: root.pem(),
            client: (client.pem(), client_key.serialize_pem()),
            config: serving(&server, &roots),
            server: (server.0.pem(), server.1.serialize_pem()),
            issuer,
            roots,
        }
    }

    /// What a server shows that has a certificate of another name, or one that has ended.
    pub fn vouch(&self, name: &str, year: i32) -> Arc<ServerConfig> {
        let server = made(&self.issuer, name, ExtendedKeyUsagePurpose::ServerAuth, year);
        serving(&server, &self.roots)
    }
}

/// What it does with the next requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// Whoever connects is cut off.
    Away,
    /// With this `Result Reason`.
    Refuses(u32),
    /// Its answer is cut off.
    Cut,
    /// It says that its answer is longer than any.
    Huge,
    /// It answers by another protocol.
    Web,
    /// An item of its answer is longer than what it is in.
    Bent,
    /// It tells of another key.
    Other,
    /// It takes requests, and answers none.
    Hangs,
}

pub struct State {
    pub mood: Mood,
    pub keys: BTreeMap<String, [u8; 32]>,
    /// What is to be authenticated is nothing to it.
    pub is_old: bool,
    /// The operations that it was asked for.
    pub asked: Vec<&'static str>,
    pub connections: usize,
    wrong: Vec<String>,
    open: Vec<TcpStream>,
    ends: bool,
}

pub struct Fake {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    pub fn start(authority: &Authority) -> Fake {
        Fake::showing(Arc::clone(&authority.config))
    }

    pub fn showing(config: Arc<ServerConfig>) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            mood: Mood::Well,
            keys: BTreeMap::from([("k-1".to_owned(), [1; 32]), ("k-2".to_owned(), [2; 32])]),
            is_old: false,
            asked: Vec::new(),
            connections: 0,
            wrong: Vec::new(),
            open: Vec::new(),
            ends: false,
        }));
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let mut served = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut known = shared.lock().unwrap();
                if known.ends {
                    break;
                }
                known.connections += 1;
                if known.mood == Mood::Away {
                    continue;
                }
                known.open.push(stream.try_clone().unwrap());
                drop(known);
                let (shared, config) = (Arc::clone(&shared), Arc::clone(&config));
                served.push(std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    serve(StreamOwned::new(connection, stream), &shared);
                }));
            }
            for thread in served {
                thread.join().unwrap();
            }
        });
        Fake {
            address,
            state,
            thread: Some(thread),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn set(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// Cuts all connections off.
    pub fn cut(&self) {
        self.state().cut();
    }

    pub fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state().asked)
    }

    /// Everything that it was asked was as it is to be.
    pub fn check(&self) {
        let wrong = self.state().wrong.clone();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.state.lock().unwrap().ends = true;
        self.cut();
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

fn serve(mut stream: impl Read + Write, state: &Mutex<State>) {
    loop {
        let mut head = [0; 8];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        let length = u32::from_be_bytes(head[4..].try_into().unwrap()) as usize;
        assert!(length < 4096, "no question is so long");
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        let mut known = state.lock().unwrap();
        let mut answer = match known.answer(&[&head[..], &body].concat()) {
            Ok(answer) => answer,
            Err(wrong) => {
                known.wrong.push(wrong);
                refusal(4)
            }
        };
        let mood = known.mood;
        drop(known);
        match mood {
            Mood::Away => return,
            Mood::Hangs => continue,
            Mood::Cut => answer.truncate(answer.len() - 5),
            Mood::Huge => answer[4..8].copy_from_slice(&[0x7f, 0xff, 0xff, 0xf8]),
            Mood::Web => answer = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            Mood::Bent => answer[12..16].copy_from_slice(&[0xff, 0xff, 0xff, 0xf8]),
            _ => {}
        }
        if stream.write_all(&answer).is_err() || stream.flush().is_err() {
            return;
        }
        if mood == Mood::Cut {
            return state.lock().unwrap().cut();
        }
    }
}

fn item(tag: u32, kind: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((tag << 8) | u32::from(kind)).to_be_bytes().to_vec();
    bytes.extend((value.len() as u32).to_be_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn number(tag: u32, kind: u8, value: u32) -> Vec<u8> {
    item(tag, kind, &value.to_be_bytes())
}

fn message(batch: &[Vec<u8>]) -> Vec<u8> {
    let version = [number(0x42_006a, 2, 1), number(0x42_006b, 2, 4)].concat();
    let header = [
        item(0x42_0069, 1, &version),
        item(0x42_0092, 9, &[0, 0, 0, 0, 0x65, 0, 0, 0]),
        number(0x42_000d, 2, 1),
    ];
    let header = item(0x42_007a, 1, &header.concat());
    item(0x42_007b, 1, &[header, item(0x42_000f, 1, &batch.concat())].concat())
}

fn refusal(reason: u32) -> Vec<u8> {
    message(&[
        number(0x42_007f, 5, 1),
        number(0x42_007e, 5, reason),
        item(0x42_007d, 7, b"the test says so"),
    ])
}

/// One item: its tag, its type, and its value as it stands there.
type Item<'a> = (u32, u8, &'a [u8]);

fn items(mut bytes: &[u8]) -> Result<Vec<Item<'_>>, String> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let tag = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let length = u32::from_be_bytes(head[4..].try_into().unwrap()) as usize;
        let filled = length.next_multiple_of(8);
        if filled > rest.len() || rest[length..filled].iter().any(|byte| *byte != 0) {
            return Err(format!("item {tag:x} is not well-formed"));
        }
        found.push((tag, head[3], &rest[..length]));
        bytes = &rest[filled..];
    }
    match bytes {
        [] => Ok(found),
        _ => Err("something is behind the last item".to_owned()),
    }
}

/// The values of exactly these tags and types, in this order.
fn exactly<const N: usize>(bytes: &[u8], wanted: [(u32, u8); N]) -> Result<[&[u8]; N], String> {
    let found = items(bytes)?;
    let kinds: Vec<(u32, u8)> = found.iter().map(|(tag, kind, _)| (*tag, *kind)).collect();
    match kinds == wanted {
        true => Ok(std::array::from_fn(|at| found[at].2)),
        false => Err(format!("{kinds:x?} instead of {wanted:x?}")),
    }
}

impl State {
    fn cut(&mut self) {
        for stream in self.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// An error: something of the request is not as it is to be.
    fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        let [request] = exactly(request, [(0x42_0078, 1)])?;
        let [header, batch] = exactly(request, [(0x42_0077, 1), (0x42_000f, 1)])?;
        let [version, size, count] = exactly(header, [(0x42_0069, 1), (0x42_0050, 2), (0x42_000d, 2)])?;
        let [major, minor] = exactly(version, [(0x42_006a, 2), (0x42_006b, 2)])?;
        let head = [major, minor, size, count].map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
        if head != [1, 4, 16384, 1] {
            return Err(format!("its header has {head:?}"));
        }
        let [operation, payload] = exactly(batch, [(0x42_005c, 5), (0x42_0079, 1)])?;
        let name = items(payload)?.first().map_or(&b""[..], |(_, _, name)| *name);
        let name = std::str::from_utf8(name)
            .map_err(|_| "an identifier is text")?
            .to_owned();
        let named = (0x42_0094, 7);
        let parameters = |bytes| match exactly(bytes, [(0x42_0011, 5), (0x42_0028, 5), (0x42_00ce, 2)])? {
            [[0, 0, 0, 9], [0, 0, 0, 3], [0, 0, 0, 16]] => Ok(()),
            other => Err(format!("parameters {other:?}")),
        };
        let shown = if self.mood == Mood::Other { "k-9" } else { &name };
        let done = |payload: &[Vec<u8>]| {
            let name = item(0x42_0094, 7, shown.as_bytes());
            let payload = [name, payload.concat()].concat();
            let success = number(0x42_007f, 5, 0);
            message(&[item(0x42_005c, 5, operation), success, item(0x42_007c, 1, &payload)])
        };
        let key = self.keys.get(&name).copied();
        let cipher = |key: [u8; 32]| LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap());
        let bound = |associated: &[u8]| Aad::from(if self.is_old { Vec::new() } else { associated.to_vec() });
        let (what, answer) = match operation {
            [0, 0, 0, 0x0a] => {
                let [_, format] = exactly(payload, [named, (0x42_0042, 5)])?;
                if format != [0, 0, 0, 1] {
                    return Err("another format than raw".to_owned());
                }
                let give = |key: [u8; 32]| {
                    let block = [
                        number(0x42_0042, 5, 1),
                        item(0x42_0045, 1, &item(0x42_0043, 8, &key)),
                        number(0x42_0028, 5, 3),
                        number(0x42_002a, 2, 256),
                    ];
                    let object = item(0x42_008f, 1, &item(0x42_0040, 1, &block.concat()));
                    done(&[number(0x42_0057, 5, 2), object])
                };
                ("get", key.map(give))
            }
            [0, 0, 0, 0x1f] => {
                let tags = [named, (0x42_002b, 1), (0x42_00c2, 8), (0x42_003d, 8), (0x42_00fe, 8)];
                let [_, given, plain, nonce, associated] = exactly(payload, tags)?;
                parameters(given)?;
                let nonce: [u8; 12] = nonce.try_into().map_err(|_| "a nonce has 12 bytes")?;
                let encrypt = |key| {
                    let (mut data, nonce) = (plain.to_vec(), Nonce::assume_unique_for_key(nonce));
                    let tag = cipher(key).seal_in_place_separate_tag(nonce, bound(associated), &mut data);
                    done(&[item(0x42_00c2, 8, &data), item(0x42_00ff, 8, tag.unwrap().as_ref())])
                };
                ("encrypt", key.map(encrypt))
            }
            [0, 0, 0, 0x20] => {
                let tags = [
                    named,
                    (0x42_002b, 1),
                    (0x42_00c2, 8),
                    (0x42_003d, 8),
                    (0x42_00fe, 8),
                    (0x42_00ff, 8),
                ];
                let [_, given, data, nonce, associated, tag] = exactly(payload, tags)?;
                parameters(given)?;
                let nonce: [u8; 12] = nonce.try_into().map_err(|_| "a nonce has 12 bytes")?;
                let decrypt = |key| {
                    let mut sealed = [data, tag].concat();
                    let nonce = Nonce::assume_unique_for_key(nonce);
                    match cipher(key).open_in_place(nonce, bound(associated), &mut sealed) {
                        Ok(plain) => done(&[item(0x42_00c2, 8, plain)]),
                        Err(_) => refusal(0x0a),
                    }
                };
                ("decrypt", key.map(decrypt))
            }
            other => return Err(format!("operation {other:?}")),
        };
        self.asked.push(what);
        Ok(match self.mood {
            Mood::Refuses(reason) => refusal(reason),
            _ => answer.unwrap_or_else(|| refusal(1)),
        })
    }
}
