//! Serves an empty volume from memory over NVMe/TCP to one host that has to show who it is: to try a host's DH-HMAC-CHAP
//! and TLS.
//!
//! ```text
//! cargo run --example nvme_access --features memory -- 127.0.0.1:4420 host=NQN dhchap=$(nvme gen-dhchap-key -n NQN)
//! nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-01.io.amita:access --hostnqn NQN --dhchap-secret SECRET
//! ```
//! Arguments: the address, then `host=NQN`, and any of `dhchap=SECRET`, `controller=SECRET` (what the controller shows),
//! `tls=KEY`, `portal=ADDRESS` (what the discovery log shows, where that is another), `hash=1..3` and `group=0..5` (the only ones that are accepted).

use amita_frontend::memory::{Server, Volumes};
use amita_keys::Hash;
use amita_nvme::auth::Group;
use amita_nvme::memory::{Board, Nvme};
use amita_nvme::{Ana, Catalog, Config, Gateway, HostAccess, Namespace, Secret, Subsystem};
use amita_reactor::Pool;
use amita_types::{NodeId, SnapshotId};
use std::net::SocketAddr;
use std::sync::Arc;

const NQN: &str = "nqn.2026-01.io.amita:access";
const SIZE_BYTES: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().ok_or("give an address")?.parse()?;
    let mut host = HostAccess {
        nqn: String::new(),
        dhchap: None,
        dhchap_controller: None,
        tls: None,
    };
    let mut config = Config::default();
    let mut portal = address;
    for argument in arguments {
        let (name, value) = argument.split_once('=').ok_or("give NAME=VALUE")?;
        match name {
            "host" => host.nqn = value.into(),
            "dhchap" => host.dhchap = Some(Secret(value.into())),
            "controller" => host.dhchap_controller = Some(Secret(value.into())),
            "tls" => host.tls = Some(Secret(value.into())),
            "portal" => portal = value.parse()?,
            "hash" => config.auth_hashes = vec![Hash::from_id(value.parse()?).ok_or("no such hash")?],
            "group" => config.auth_groups = vec![Group::from_id(value.parse()?).ok_or("no such group")?],
            _ => return Err(format!("what is `{name}`?").into()),
        }
    }
    let volumes = Volumes::new();
    let volume = volumes.add("access", SIZE_BYTES, 4 << 20, false);
    let node = NodeId(1);
    let catalog = Catalog {
        reservations: Default::default(),
        node,
        revision: 1,
        discovery_nqn: "nqn.2026-01.io.amita:discovery:access".into(),
        subsystems: vec![Arc::new(Subsystem {
            nqn: NQN.into(),
            serial: "AMITAACCESS".into(),
            gateways: vec![node],
            any_host: false,
            tls_required: false,
            hosts: vec![Arc::new(host)],
            namespaces: vec![Arc::new(Namespace {
                nsid: 1,
                volume,
                snapshot: SnapshotId::HEAD,
                name: "access".into(),
                size_bytes: SIZE_BYTES,
                chunk_bytes: 4 << 20,
                block_bytes: 4096,
                uuid: [1; 16],
                nguid: [0x11; 16],
                ana: Ana::Optimized,
            })],
            ana_changes: 0,
        })],
        gateways: vec![Gateway {
            node,
            name: "access".into(),
            portal,
            alive: true,
        }],
    };
    let board = Board::default();
    board.set_catalog(Arc::new(catalog));
    let protocol = Nvme { config, board };
    let server = Server::tcp(address, protocol, volumes, Pool::heap())?;
    if let Some(address) = server.address() {
        println!("serving {NQN} at {address}; stop with Ctrl-C");
    }
    loop {
        std::thread::park();
    }
}
