//! A server to test against: the embedded one, or a real etcd that is always stopped.

use crate::pki::{Authority, Known, Leaf};
use amita_metadata::client::Tls;
use amita_metadata::server::{self, Config, OperatorRole, Role};
use amita_metadata::{Call, Client, Options};
use amita_testkit::loopback;
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const SHORT: Options = Options {
    tls: None,
    user: None,
    insecure_network: false,
    timeout: Duration::from_secs(10),
    connect_timeout: Duration::from_millis(500),
    ping_interval: Duration::from_secs(5),
    ping_timeout: Duration::from_secs(2),
};

pub fn by_tls(config: Arc<ClientConfig>) -> Options {
    Options {
        tls: Some(Tls::from(config)),
        ..SHORT
    }
}

pub enum Kind {
    Embedded,
    /// The same by TLS.
    Secure,
    Etcd,
}

enum Running {
    Embedded(server::Handle),
    Etcd(Process),
    Stopped,
}

/// Killed with the test, whatever happens in it.
pub struct Process(Child);

impl Process {
    pub fn start(command: &mut Command) -> Process {
        let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Process(silent.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with a folder and an address of its own, which it keeps over restarts.
pub struct Server {
    running: Running,
    kind: Kind,
    secure: Secure,
    pub folder: TempDir,
    pub address: SocketAddr,
}

/// What a server of TLS and its clients need.
pub struct Secure {
    pub authority: Authority,
    server: Leaf,
    pub known: Arc<Known>,
    /// Of a node that is known.
    pub node: Leaf,
}

impl Secure {
    fn new(address: SocketAddr) -> Secure {
        let (authority, known) = (Authority::new("ours"), Arc::new(Known::default()));
        let secure = Secure {
            server: authority.server(address.ip()),
            node: authority.leaf("node"),
            authority,
            known,
        };
        secure.known.add(&secure.node, Role::Node, "n1");
        secure
    }

    /// The certificate of an operator who is known.
    pub fn operator(&self, role: OperatorRole, name: &str) -> Leaf {
        let leaf = self.authority.leaf(name);
        self.known.add_operator(&leaf, role, name);
        leaf
    }

    /// The same of another role.
    pub fn leaf(&self, role: Role, name: &str) -> Leaf {
        let leaf = self.authority.leaf(name);
        self.known.add(&leaf, role, name);
        leaf
    }
}

impl Server {
    pub fn start(kind: Kind) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let address = loopback::free_address();
        let mut server = Server {
            running: Running::Stopped,
            kind,
            secure: Secure::new(address),
            folder,
            address,
        };
        server.resume();
        server
    }

    pub fn resume(&mut self) {
        self.running = match self.kind {
            Kind::Embedded | Kind::Secure => {
                let config = self.config();
                let handle = server::start(config).unwrap();
                assert_eq!(handle.address(), self.address);
                Running::Embedded(handle)
            }
            Kind::Etcd => Running::Etcd(start_etcd(self.folder.path(), self.address)),
        };
        let client = self.client();
        let patience = Instant::now() + Duration::from_secs(30);
        while let Err(error) = client.txn(&Call::get("/ready")) {
            assert!(Instant::now() < patience, "the server did not start: {error}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    pub fn stop(&mut self) {
        match std::mem::replace(&mut self.running, Running::Stopped) {
            Running::Embedded(handle) => handle.stop(),
            Running::Etcd(process) => drop(process),
            Running::Stopped => {}
        }
    }

    pub fn config(&self) -> Config {
        let tls = match self.kind {
            Kind::Secure => Some(self.secure.authority.serve(&self.secure.server, &self.secure.known)),
            Kind::Embedded | Kind::Etcd => None,
        };
        Config {
            tls,
            ..Config::new(self.address, self.folder.path().join("meta"))
        }
    }

    pub fn secure(&self) -> &Secure {
        &self.secure
    }

    pub fn client(&self) -> Client {
        match self.kind {
            Kind::Secure => self.client_of(&self.secure.node),
            Kind::Embedded | Kind::Etcd => self.client_with(SHORT),
        }
    }

    /// By TLS, with this certificate.
    pub fn client_of(&self, leaf: &Leaf) -> Client {
        self.client_with(by_tls(self.secure.authority.client(Some(leaf))))
    }

    pub fn client_with(&self, options: Options) -> Client {
        Client::connect_with(&[self.address.to_string()], options).unwrap()
    }
}

fn start_etcd(folder: &Path, address: SocketAddr) -> Process {
    let binary = Path::new("/usr/bin/etcd");
    assert!(
        binary.exists(),
        "this test needs a real etcd: apt-get install etcd-server"
    );
    let mut other = loopback::free_address();
    while other == address {
        other = loopback::free_address();
    }
    let (clients, peers) = (format!("http://{address}"), format!("http://{other}"));
    let mut command = Command::new(binary);
    command
        .args(["--name", "test", "--data-dir"])
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("test={peers}")])
        .env_clear();
    Process::start(&mut command)
}
