//! Serves empty volumes from memory over NVMe/TCP: to try hosts, or to run a conformance suite against.
//!
//! ```text
//! cargo run --example nvme_memory --features memory -- 127.0.0.1:4420 1024
//! nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-01.io.amita:memory
//! ```
//! Arguments: the address (default `127.0.0.1:4420`); the size of each namespace in MiB (default 1024). Namespace 1 has
//! blocks of 4 KiB, namespace 2 of 512 bytes; any host may connect.

use amita_frontend::memory::{Server, Volumes};
use amita_nvme::memory::{Board, Nvme};
use amita_nvme::{Ana, Catalog, Config, Gateway, Namespace, Subsystem};
use amita_reactor::Pool;
use amita_types::{NodeId, SnapshotId};
use std::net::SocketAddr;
use std::sync::Arc;

const NQN: &str = "nqn.2026-01.io.amita:memory";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().unwrap_or_else(|| "127.0.0.1:4420".into()).parse()?;
    let size_mib: u64 = arguments.next().map_or(Ok(1024), |size| size.parse())?;
    let volumes = Volumes::new();
    let namespaces = [4096u32, 512].iter().enumerate().map(|(index, &block_bytes)| {
        let name = format!("memory{}", index + 1);
        let volume = volumes.add(&name, size_mib << 20, 4 << 20, false);
        Arc::new(Namespace {
            nsid: index as u32 + 1,
            volume,
            snapshot: SnapshotId::HEAD,
            name,
            size_bytes: size_mib << 20,
            chunk_bytes: 4 << 20,
            block_bytes,
            uuid: [index as u8 + 1; 16],
            nguid: [index as u8 + 0x11; 16],
            ana: Ana::Optimized,
        })
    });
    let namespaces = namespaces.collect();
    let node = NodeId(1);
    let catalog = Catalog {
        reservations: Default::default(),
        node,
        revision: 1,
        discovery_nqn: "nqn.2026-01.io.amita:discovery:memory".into(),
        subsystems: vec![Arc::new(Subsystem {
            nqn: NQN.into(),
            serial: "AMITAMEMORY".into(),
            gateways: vec![node],
            any_host: true,
            tls_required: false,
            hosts: Vec::new(),
            namespaces,
            ana_changes: 0,
        })],
        gateways: vec![Gateway {
            node,
            name: "memory".into(),
            portal: address,
            alive: true,
        }],
    };
    let board = Board::default();
    board.set_catalog(Arc::new(catalog));
    let protocol = Nvme {
        config: Config::default(),
        board,
    };
    let server = Server::tcp(address, protocol, volumes, Pool::heap())?;
    if let Some(address) = server.address() {
        println!("serving {NQN} at {address}; stop with Ctrl-C");
    }
    loop {
        std::thread::park();
    }
}
