//! A server to test against: the embedded one, or a real etcd that is always stopped.

use amita_metadata::server::{self, Config};
use amita_metadata::{Call, Client, Options};
use amita_testkit::loopback;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const SHORT: Options = Options {
    timeout: Duration::from_secs(10),
    connect_timeout: Duration::from_millis(500),
    ping_interval: Duration::from_secs(5),
    ping_timeout: Duration::from_secs(2),
};

pub enum Kind {
    Embedded,
    Etcd,
}

enum Running {
    Embedded(server::Handle),
    Etcd(Process),
    Stopped,
}

/// Killed with the test, whatever happens in it.
struct Process(Child);

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
    pub folder: TempDir,
    pub address: SocketAddr,
}

impl Server {
    pub fn start(kind: Kind) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server {
            running: Running::Stopped,
            kind,
            folder,
            address: loopback::free_address(),
        };
        server.resume();
        server
    }

    pub fn resume(&mut self) {
        self.running = match self.kind {
            Kind::Embedded => {
                let config = Config::new(self.address, self.folder.path().join("meta"));
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

    pub fn client(&self) -> Client {
        Client::connect_with(&[self.address.to_string()], SHORT).unwrap()
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
    let child = Command::new(binary)
        .args(["--name", "test", "--data-dir"])
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("test={peers}")])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Process(child)
}
