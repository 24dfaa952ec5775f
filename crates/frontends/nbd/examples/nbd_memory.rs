//! Serves an empty volume from memory over NBD: to try clients, or to see what the protocol costs.
//!
//! ```text
//! cargo run --release --example nbd_memory --features memory -- 127.0.0.1:10809 1024
//! nbdinfo nbd://127.0.0.1:10809/memory
//! ```
//! Arguments: the address (default `127.0.0.1:10809`), or the path of a Unix socket; the size in MiB (default 1024); a
//! folder with `server-cert.pem`, `server-key.pem` and `ca-cert.pem`: then TLS and a client's certificate are required.

use amita_frontend::memory::{Server, Volumes};
use amita_nbd::memory::Nbd;
use amita_nbd::{Config, TlsAcceptor, TlsFiles, TlsMode};
use amita_reactor::Pool;
use std::net::SocketAddr;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:10809".into());
    let size_mib: u64 = arguments.next().map_or(Ok(1024), |size| size.parse())?;
    let mut config = Config::default();
    if let Some(folder) = arguments.next() {
        let folder = Path::new(&folder);
        let files = TlsFiles {
            certificate: folder.join("server-cert.pem"),
            key: folder.join("server-key.pem"),
            client_authorities: Some(folder.join("ca-cert.pem")),
        };
        config.tls = Some(TlsAcceptor::load(TlsMode::Require, &files)?);
    }
    let volumes = Volumes::new();
    volumes.add("memory", size_mib << 20, 4 << 20, false);
    let pool = Pool::heap();
    let server = match address.parse::<SocketAddr>() {
        Ok(address) => Server::tcp(address, Nbd::from(config), volumes, pool)?,
        Err(_) => Server::unix(Path::new(&address), Nbd::from(config), volumes, pool)?,
    };
    match server.address() {
        Some(address) => println!("serving nbd://{address}/memory; stop with Ctrl-C"),
        None => println!("serving nbd+unix:///memory?socket={address}; stop with Ctrl-C"),
    }
    loop {
        std::thread::park();
    }
}
