//! A target in this process: volumes in memory behind the NVMe/TCP front that ships.

#![allow(dead_code)]

use amita_frontend::memory::{Server, Volumes};
use amita_nvme::memory::{Board, Nvme};
use amita_nvme::{Ana, Catalog, Config, Gateway, HostAccess, Namespace, Subsystem};
use amita_nvme_host::conformance::Options;
use amita_nvme_host::{Controller, Error, Host, Queue, Settings, commands};
use amita_reactor::Pool;
use amita_types::{NodeId, SnapshotId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Namespace 1 has blocks of 4 KiB, namespace 2 of 512 bytes; two hosts may connect.
pub const NQN: &str = "nqn.2014-08.org.example:amita:conformance";
/// A host that no subsystem knows.
pub const STRANGER: &str = "nqn.2014-08.org.example:stranger";
const NAMESPACE_BYTES: u64 = 64 << 20;

pub struct Target {
    pub server: Server,
    pub board: Board,
    pub address: SocketAddr,
}

impl Target {
    pub fn start() -> Target {
        let volumes = Volumes::new();
        let board = Board::default();
        let any = "127.0.0.1:0".parse().expect("an address");
        let protocol = Nvme {
            config: Config::default(),
            board: board.clone(),
        };
        let server = Server::tcp(any, protocol, volumes.clone(), Pool::heap()).expect("a free port");
        let address = server.address().expect("a TCP server");
        let namespaces = [4096u32, 512].iter().zip(1u8..).map(|(&block_bytes, number)| {
            let name = format!("volume{number}");
            let volume = volumes.add(&name, NAMESPACE_BYTES, 4 << 20, false);
            Arc::new(Namespace {
                nsid: u32::from(number),
                volume,
                snapshot: SnapshotId::HEAD,
                name,
                size_bytes: NAMESPACE_BYTES,
                chunk_bytes: 4 << 20,
                block_bytes,
                uuid: [number; 16],
                nguid: [number; 16],
                ana: Ana::Optimized,
            })
        });
        let options = Options::new(address, NQN);
        let mut hosts = vec![options.host, options.second_host];
        hosts.sort();
        let access = |nqn: String| {
            Arc::new(HostAccess {
                nqn,
                dhchap: None,
                dhchap_controller: None,
                tls: None,
            })
        };
        let node = NodeId(1);
        board.set_catalog(Arc::new(Catalog {
            reservations: Default::default(),
            node,
            revision: 1,
            discovery_nqn: "nqn.2014-08.org.example:amita:discovery".into(),
            subsystems: vec![Arc::new(Subsystem {
                nqn: NQN.into(),
                serial: "AMITATEST".into(),
                gateways: vec![node],
                any_host: false,
                tls_required: false,
                hosts: hosts.into_iter().map(access).collect(),
                namespaces: namespaces.collect(),
                ana_changes: 0,
            })],
            gateways: vec![Gateway {
                node,
                name: "one".into(),
                portal: address,
                alive: true,
            }],
        }));
        Target { server, board, address }
    }

    /// What a conformance run needs.
    pub fn options(&self, nsid: u32) -> Options {
        let mut options = Options::new(self.address, NQN);
        options.nsid = Some(nsid);
        options.denied_host = Some(STRANGER.into());
        // A machine that is busy with other tests answers late.
        options.timeout = Duration::from_secs(30);
        options
    }

    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.address, NQN);
        settings.timeout = Duration::from_secs(30);
        settings
    }

    pub fn host(&self) -> Host {
        Host::named(&Options::new(self.address, NQN).host)
    }

    pub fn controller(&self) -> Result<Controller, Error> {
        let mut controller = Controller::connect(&self.settings(), &self.host())?;
        controller.enable()?;
        Ok(controller)
    }

    /// Waits until there are no more connections than that.
    pub fn wait_connections(&self, most: usize) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.server.connections() > most {
            assert!(
                Instant::now() < end,
                "{} connections are open, not {most}",
                self.server.connections()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Somebody who does his work while others misbehave: each check writes and reads back.
pub struct Bystander {
    controller: Controller,
    queue: Queue,
    turn: u64,
}

impl Bystander {
    pub fn new(target: &Target) -> Bystander {
        let mut controller = target.controller().expect("a controller");
        controller
            .call(&commands::queues(2))
            .expect("an answer")
            .good("Set Features")
            .expect("queues");
        let queue = controller.io_queue(1, 32).expect("a queue");
        Bystander {
            controller,
            queue,
            turn: 0,
        }
    }

    pub const CONNECTIONS: usize = 2;

    pub fn works(&mut self) {
        self.turn += 1;
        let data = vec![self.turn as u8; 16384];
        let write = commands::write(1, self.turn % 1000, 4, data.clone());
        self.queue
            .call(&write)
            .expect("an answer")
            .good("Write")
            .expect("a write");
        let read = commands::read(1, self.turn % 1000, 4, 4096);
        let read = self.queue.call(&read).expect("an answer").good("Read").expect("a read");
        assert_eq!(read.data, data);
        self.controller
            .call(&commands::keep_alive())
            .expect("an answer")
            .good("Keep Alive")
            .expect("it lives");
    }
}

/// Memory of this process, in KiB.
pub fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .expect("a number")
}
