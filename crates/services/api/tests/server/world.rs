//! A metadata server, and nodes that serve the API.

use amita_api::{Api, Listener, Server};
use amita_control::admin::{self, DEFAULT_CHUNK_BYTES, PoolSpec};
use amita_control::audit;
use amita_metadata::Call;
use amita_metadata::client::Client;
use amita_metadata::server::{self, Config, Handle};
use amita_types::ClusterId;
use amita_types::StoreId;
use amita_types::map::{self, Live};
use amita_types::placement::Level;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tempfile::TempDir;

/// For whatever a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct World {
    pub client: Client,
    servers: Vec<Server>,
    _metadata: Handle,
    _folder: TempDir,
}

/// An answer.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Said {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// It has this status, and no other.
    #[track_caller]
    pub fn done(self, status: u16) -> Said {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// It is a problem of this code.
    #[track_caller]
    pub fn is(self, status: u16, code: &str) -> Said {
        assert_eq!((self.status, &self.body["code"]), (status, &code.into()), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        self
    }
}

impl World {
    /// Two nodes that serve the API, three that have stores, and a pool.
    pub fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let metadata = server::start(Config::new(
            "127.0.0.1:0".parse().unwrap(),
            folder.path().join("metadata"),
        ))
        .unwrap();
        let client = Client::connect(&[metadata.address().to_string()]).unwrap();
        admin::init_cluster(&client, ClusterId(9)).unwrap();
        for number in 1..=3 {
            let node = admin::register_node(&client, &format!("n{number}"), "127.0.0.1:1", None, 2).unwrap();
            let live = Live {
                stores: None,
                session: 1,
                pid: 1,
                version: map::METADATA_VERSION,
            };
            let live = serde_json::to_vec(&live).unwrap();
            client.txn(&Call::put(map::live_key(node.id), live)).unwrap();
            let store = StoreId(u128::from(node.id.0) << 64 | 7);
            admin::register_store(&client, &admin::store_record(store, node.id, "/dev/x", 64 << 30)).unwrap();
        }
        let pool = PoolSpec {
            name: "main".to_owned(),
            copies: 3,
            min_copies: 2,
            groups: 16,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
            level: Level::Node,
            class: None,
        };
        admin::create_pool(&client, &pool).unwrap();
        let serve = |node: &str| {
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
            Server::start(listener, None, Api::watching(client.clone()), node).unwrap()
        };
        World {
            servers: vec![serve("n1"), serve("n2")],
            client,
            _metadata: metadata,
            _folder: folder,
        }
    }

    pub fn address(&self, server: usize) -> SocketAddr {
        self.servers[server].address()
    }

    /// Sends a request; `headers` are lines.
    pub fn send(&self, server: usize, method: &str, path: &str, headers: &[&str], body: Option<&Value>) -> Said {
        let address = self.address(server);
        let has_host = headers.iter().any(|line| line.to_lowercase().starts_with("host:"));
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !has_host {
            text.push_str(&format!("Host: {address}\r\n"));
        }
        for line in headers {
            text.push_str(&format!("{line}\r\n"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        if !body.is_empty() {
            text.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let (status, headers) = read_head(head);
        Said {
            status,
            headers,
            body: serde_json::from_str(body).unwrap_or(Value::Null),
        }
    }

    /// As whoever is there.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Said {
        self.send(0, method, path, &[], body)
    }

    /// By a token.
    pub fn ask_by(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Said {
        self.send(0, method, path, &[&format!("Authorization: Bearer {token}")], body)
    }

    /// How many records the audit log has.
    pub fn audited(&self) -> u64 {
        audit::bounds(&self.client).unwrap().head.map_or(0, |head| head.seq)
    }
}

fn read_head(head: &str) -> (u16, Vec<(String, String)>) {
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    (status.parse().expect("a number"), headers.collect())
}

/// A stream of server-sent events.
pub struct Watching {
    lines: BufReader<TcpStream>,
}

/// A message of it.
#[derive(Debug, Default)]
pub struct Message {
    pub id: Option<String>,
    pub data: Option<Value>,
}

impl Watching {
    pub fn start(address: SocketAddr, path: &str, headers: &[&str]) -> Watching {
        let mut text = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n");
        for line in headers {
            text.push_str(&format!("{line}\r\n"));
        }
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{text}\r\n").as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(
            head.to_lowercase().contains("content-type: text/event-stream"),
            "{head}"
        );
        Watching { lines }
    }

    /// The next message, if it is one with data.
    pub fn next_data(&mut self) -> Value {
        self.next().data.expect("data")
    }

    /// The next message. (The lines of chunked transfer in between say nothing of it.)
    pub fn next(&mut self) -> Message {
        let mut message = Message::default();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream goes on");
            let line = line.trim_end();
            if let Some(id) = line.strip_prefix("id: ") {
                message.id = Some(id.to_owned());
            } else if let Some(text) = line.strip_prefix("data: ") {
                message.data = Some(serde_json::from_str(text).unwrap());
            } else if line.is_empty() && (message.id.is_some() || message.data.is_some()) {
                return message;
            }
        }
    }
}
