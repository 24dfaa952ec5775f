//! A Vault, as far as transit and its own token go: it looks at every field of a request, and what is one too many, one too few or of another
//! form is told by [`Fake::check`]. It answers as Vault's documentation has it (`/v1/transit/encrypt`, `/decrypt`, `/v1/auth/token/lookup-self`,
//! `/renew-self`; errors as `{"errors": [...]}`).

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// An authority, and a server's certificate of it.
pub struct Authority {
    pub pem: String,
    config: Arc<ServerConfig>,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let server_key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let server = server.signed_by(&server_key, &issuer).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let config = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![server.der().clone()], private)
            .unwrap();
        Authority {
            pem: root.pem(),
            config: Arc::new(config),
        }
    }
}

/// What it does with the next requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    Sealed,
    /// It limits rates.
    Busy,
    /// Whoever connects is cut off.
    Away,
    /// Its answer is cut off.
    Cut,
    /// Its answer is longer than any.
    Talks,
    /// It leads to another server.
    Leads,
    /// It takes a request, and answers when [`Fake::answer_now`] is called.
    Hangs,
}

pub struct State {
    pub mood: Mood,
    pub token: String,
    pub namespace: Option<String>,
    /// The versions of its keys, by mount and name.
    pub keys: BTreeMap<String, Vec<[u8; 32]>>,
    /// Of the token; 0: it does not end.
    pub ttl: u64,
    pub renewable: bool,
    /// It lengthens it to so much at most.
    pub cap: Option<u64>,
    /// It is older than 1.13: `associated_data` is nothing to it.
    pub is_old: bool,
    /// What it wraps none of its keys opens.
    pub is_broken: bool,
    /// Connections up to this one, from 1 on, take requests that nobody answers.
    pub deaf: usize,
    /// The methods and paths of the requests that it took.
    pub asked: Vec<String>,
    pub connections: usize,
    nonces: u8,
    wrong: Vec<String>,
    open: Vec<TcpStream>,
    ends: bool,
}

pub struct Fake {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
    go: Sender<()>,
}

impl Fake {
    /// By TLS where there is an authority.
    pub fn start(authority: Option<&Authority>) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            mood: Mood::Well,
            token: "hvs.one".to_owned(),
            namespace: None,
            keys: BTreeMap::from([("transit/amita".to_owned(), vec![[1; 32]])]),
            ttl: 0,
            renewable: false,
            cap: None,
            is_old: false,
            is_broken: false,
            deaf: 0,
            asked: Vec::new(),
            connections: 0,
            nonces: 0,
            wrong: Vec::new(),
            open: Vec::new(),
            ends: false,
        }));
        let (go, gone) = channel();
        let gone = Arc::new(Mutex::new(gone));
        let (shared, config) = (
            Arc::clone(&state),
            authority.map(|authority| Arc::clone(&authority.config)),
        );
        let thread = std::thread::spawn(move || {
            let mut served = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut known = shared.lock().unwrap();
                if known.ends {
                    break;
                }
                known.connections += 1;
                let number = known.connections;
                if known.mood == Mood::Away {
                    continue;
                }
                known.open.push(stream.try_clone().unwrap());
                drop(known);
                let (shared, config, gone) = (Arc::clone(&shared), config.clone(), Arc::clone(&gone));
                served.push(std::thread::spawn(move || {
                    let host = address.to_string();
                    match config {
                        None => serve(stream, (&host, number), &shared, &gone),
                        Some(config) => {
                            let connection = ServerConnection::new(config).unwrap();
                            serve(StreamOwned::new(connection, stream), (&host, number), &shared, &gone);
                        }
                    }
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
            go,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn set(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// One request that hangs is answered.
    pub fn answer_now(&self) {
        self.go.send(()).unwrap();
    }

    /// Cuts all connections off.
    pub fn cut(&self) {
        self.state().cut();
    }

    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().asked)
    }

    pub fn rotate(&self) {
        let mut state = self.state();
        let versions = state.keys.get_mut("transit/amita").unwrap();
        versions.push([10 + versions.len() as u8; 32]);
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
        let _ = self.go.send(());
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// A request, as it came.
struct Asked {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

fn receive(stream: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.trim_end().split(' ');
    let (method, path, version) = (words.next()?.to_owned(), words.next()?.to_owned(), words.next()?);
    assert_eq!((version, words.next()), ("HTTP/1.1", None));
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        let before = headers.insert(name.to_ascii_lowercase(), value.to_owned());
        assert!(before.is_none(), "{name} twice");
    }
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Asked {
        method,
        path,
        headers,
        body,
    })
}

fn serve<S: Read + Write>(stream: S, (host, number): (&str, usize), state: &Mutex<State>, gone: &Mutex<Receiver<()>>) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = receive(&mut stream) {
        let mut known = state.lock().unwrap();
        known.asked.push(format!("{} {}", asked.method, asked.path));
        if number <= known.deaf {
            continue;
        }
        if known.mood == Mood::Hangs {
            drop(known);
            let _ = gone.lock().unwrap().recv();
            known = state.lock().unwrap();
        }
        if known.mood == Mood::Away {
            return;
        }
        let (status, answer) = match known.answer(&asked, host) {
            Ok(answer) => answer,
            Err(wrong) => {
                known.wrong.push(format!("{} {}: {wrong}", asked.method, asked.path));
                (400, json!({"errors": [wrong]}))
            }
        };
        let mood = known.mood;
        drop(known);
        let mut body = answer.to_string();
        let (mut status, mut more, mut length) = (status, "", body.len());
        match mood {
            Mood::Cut => length += 1,
            Mood::Talks => {
                body.push_str(&" ".repeat(1 << 20));
                length = body.len();
            }
            Mood::Leads => (status, more) = (307, "Location: https://vault.example/v1/elsewhere\r\n"),
            _ => {}
        }
        let head = format!(
            "HTTP/1.1 {status} X\r\nCache-Control: no-store\r\nContent-Type: application/json\r\n{more}Content-Length: {length}\r\n\r\n"
        );
        let written = stream
            .get_mut()
            .write_all([head.as_bytes(), body.as_bytes()].concat().as_slice());
        if written.is_err() || stream.get_mut().flush().is_err() {
            return;
        }
        if mood == Mood::Cut {
            state.lock().unwrap().cut();
            return;
        }
    }
}

type Answer = (u16, Value);

fn refusal(status: u16, why: &str) -> Answer {
    (status, json!({ "errors": [why] }))
}

/// What comes with the data, as Vault has it.
fn data(data: Value) -> Answer {
    let whole = json!({
        "request_id": "b2f1a1f0-0000-0000-0000-000000000000", "lease_id": "", "renewable": false, "lease_duration": 0,
        "data": data, "wrap_info": null, "warnings": null, "auth": null, "mount_type": "transit"
    });
    (200, whole)
}

impl State {
    fn cut(&mut self) {
        for stream in self.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// An error: something of the request is not as it is to be.
    fn answer(&mut self, asked: &Asked, host: &str) -> Result<Answer, String> {
        let mut headers = asked.headers.clone();
        let mut expect = |name: &str, value: Option<&str>| match headers.remove(name) {
            found if found.as_deref() == value => Ok(()),
            found => Err(format!("{name} is {found:?}, not {value:?}")),
        };
        let is_post = asked.method == "POST";
        let length = asked.body.len().to_string();
        expect("host", Some(host))?;
        expect("user-agent", Some(concat!("amita/", env!("CARGO_PKG_VERSION"))))?;
        expect("x-vault-request", Some("true"))?;
        expect("x-vault-namespace", self.namespace.as_deref())?;
        expect("content-type", is_post.then_some("application/json"))?;
        expect("content-length", is_post.then_some(length.as_str()))?;
        let token = headers.remove("x-vault-token").ok_or("there is no token")?;
        if !headers.is_empty() {
            return Err(format!("headers that nobody needs: {headers:?}"));
        }
        match self.mood {
            Mood::Sealed => return Ok(refusal(503, "Vault is sealed")),
            Mood::Busy => return Ok(refusal(429, "request path \"transit\": rate limit quota exceeded")),
            _ => {}
        }
        if token != self.token {
            return Ok(refusal(403, "permission denied"));
        }
        let path = asked.path.strip_prefix("/v1/").ok_or("the API has a version")?;
        match (asked.method.as_str(), path) {
            ("GET", "auth/token/lookup-self") => {
                let (_, mut answer) = data(json!({
                    "accessor": "x", "creation_time": 1, "creation_ttl": self.ttl, "display_name": "token", "entity_id": "",
                    "expire_time": null, "explicit_max_ttl": 0, "id": token, "meta": null, "num_uses": 0, "orphan": true,
                    "path": "auth/token/create", "policies": ["default"], "renewable": self.renewable, "ttl": self.ttl, "type": "service"
                }));
                answer["mount_type"] = "token".into();
                Ok((200, answer))
            }
            ("POST", "auth/token/renew-self") => {
                if asked.body != b"{}" {
                    return Err("there is nothing to say with it".to_owned());
                }
                let (_, mut answer) = data(Value::Null);
                answer["auth"] = json!({
                    "client_token": token, "accessor": "x", "policies": ["default"], "token_policies": ["default"], "metadata": null,
                    "lease_duration": self.cap.unwrap_or(self.ttl).min(self.ttl), "renewable": self.renewable, "entity_id": "", "token_type": "service", "orphan": true
                });
                Ok((200, answer))
            }
            ("POST", path) => self.transit(path, &asked.body),
            _ => Err("nothing is asked so".to_owned()),
        }
    }

    fn transit(&mut self, path: &str, body: &[u8]) -> Result<Answer, String> {
        let (mount, what, name) = ["encrypt", "decrypt"]
            .into_iter()
            .find_map(|what| {
                let (mount, name) = path.split_once(&format!("/{what}/"))?;
                Some((mount, what, name))
            })
            .ok_or("neither encrypt nor decrypt")?;
        let body: BTreeMap<String, Value> = serde_json::from_slice(body).map_err(|why| why.to_string())?;
        let input = if what == "encrypt" { "plaintext" } else { "ciphertext" };
        if body.keys().ne(["associated_data", input].iter()) {
            return Err(format!("fields {:?}", body.keys()));
        }
        let text = |name: &str| body[name].as_str().ok_or(format!("{name} is no text"));
        let decoded = |name: &str| STANDARD.decode(text(name)?).map_err(|why| format!("{name}: {why}"));
        let mut associated = decoded("associated_data")?;
        if !associated.starts_with(b"amita-crypt ") {
            return Err("it is bound to nothing of ours".to_owned());
        }
        if self.is_old {
            associated.clear();
        }
        let is_mounted = |known: &String| known.rsplit_once('/').is_some_and(|(of, _)| of == mount);
        if !self.keys.keys().any(is_mounted) {
            return Ok(refusal(
                404,
                &format!("no handler for route \"{path}\". route entry not found."),
            ));
        }
        let Some(versions) = self.keys.get(&format!("{mount}/{name}")) else {
            return Ok(refusal(400, "encryption key not found"));
        };
        let cipher = |version: usize| LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &versions[version - 1]).unwrap());
        if what == "encrypt" {
            self.nonces += 1;
            let (version, nonce) = (versions.len(), [self.nonces; 12]);
            let mut bytes = decoded("plaintext")?;
            let unique = Nonce::assume_unique_for_key(nonce);
            let cipher = match self.is_broken {
                false => cipher(version),
                true => LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[99; 32]).unwrap()),
            };
            cipher
                .seal_in_place_append_tag(unique, Aad::from(associated), &mut bytes)
                .unwrap();
            let ciphertext = format!("vault:v{version}:{}", STANDARD.encode([&nonce[..], &bytes].concat()));
            return Ok(data(json!({"ciphertext": ciphertext, "key_version": version})));
        }
        let ciphertext = text("ciphertext")?;
        let (version, bytes) = ciphertext
            .strip_prefix("vault:v")
            .and_then(|rest| rest.split_once(':'))
            .ok_or("it is none of Vault's")?;
        let version: usize = version.parse().map_err(|_| "its version is no number")?;
        let mut bytes = STANDARD.decode(bytes).map_err(|why| why.to_string())?;
        if version == 0 || version > versions.len() {
            return Ok(refusal(400, "invalid ciphertext: version is too new"));
        }
        let mut bytes_behind = bytes.split_off(12.min(bytes.len()));
        let nonce = Nonce::try_assume_unique_for_key(&bytes).map_err(|_| "it is short")?;
        match cipher(version).open_in_place(nonce, Aad::from(associated), &mut bytes_behind) {
            Ok(plain) => Ok(data(json!({"plaintext": STANDARD.encode(plain)}))),
            Err(_) => Ok(refusal(400, "cipher: message authentication failed")),
        }
    }
}
