//! Serves empty volumes from memory over iSCSI: to try initiators, or to run a conformance suite against.
//!
//! ```text
//! cargo run --example iscsi_memory --features memory -- 127.0.0.1:3260 1024
//! iscsi-test-cu --dataloss iscsi://127.0.0.1:3260/iqn.2026-01.io.amita:memory/0
//! qemu-img info iscsi://127.0.0.1:3260/iqn.2026-01.io.amita:memory/1
//! ```
//! Arguments: the address (default `127.0.0.1:3260`); the size of each logical unit in MiB (default 1024); then, in any order,
//! `unsolicited` (data may come unasked behind its command), `digests` (CRC-32C is required), and `chap=USER:SECRET` (initiators
//! have to prove that, by the name that `initiator=NAME` gives). Logical unit 0 has blocks of 512 bytes, 1 of 4 KiB, 2 is a
//! snapshot; any initiator may log in.

use amita_frontend::memory::{Server, Volumes};
use amita_iscsi::memory::{Board, Iscsi, TARGET, disks};
use amita_iscsi::{Catalog, Config, Digests, Initiator, Secret};
use amita_reactor::Pool;
use std::net::SocketAddr;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().unwrap_or_else(|| "127.0.0.1:3260".into()).parse()?;
    let size_mib: u64 = arguments.next().map_or(Ok(1024), |size| size.parse())?;
    let mut config = Config::default();
    let (mut chap, mut initiator) = (None, String::from("iqn.2026-01.io.amita:host"));
    for argument in arguments {
        match argument.split_once('=').unwrap_or((&argument, "")) {
            ("unsolicited", _) => config.wishes.initial_r2t = false,
            ("digests", _) => config.wishes.digests = Digests::Required,
            ("chap", both) => {
                chap = both
                    .split_once(':')
                    .map(|(user, secret)| (user.to_owned(), secret.to_owned()))
            }
            ("initiator", name) => initiator = name.to_owned(),
            _ => return Err(format!("{argument:?} is not known").into()),
        }
    }
    let volumes = Volumes::new();
    let initiators = chap.map(|(user, secret)| {
        Arc::new(Initiator {
            name: initiator,
            user,
            chap: Some(Secret::new(secret.into_bytes())),
            chap_target: None,
            target_user: None,
        })
    });
    let catalog = Catalog {
        initiators: initiators.into_iter().collect(),
        ..disks(&volumes, size_mib << 20, vec![address])
    };
    let board = Board::default();
    board.set_catalog(Arc::new(catalog));
    let server = Server::tcp(address, Iscsi { config, board }, volumes, Pool::heap())?;
    if let Some(address) = server.address() {
        println!("serving {TARGET} at {address}; stop with Ctrl-C");
    }
    loop {
        std::thread::park();
    }
}
