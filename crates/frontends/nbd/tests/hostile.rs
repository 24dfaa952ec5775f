//! Hostile clients over real sockets; a good client is served all the while.

mod common;

use amita_frontend::memory::{Server, Volumes};
use amita_nbd::Config;
use amita_nbd::memory::Nbd;
use amita_reactor::Pool;
use common::run;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

fn server(config: Config) -> (Server, SocketAddr) {
    let volumes = Volumes::new();
    volumes.add("vol", 16 << 20, 4 << 20, false);
    let server = Server::tcp("127.0.0.1:0".parse().unwrap(), Nbd::from(config), volumes, Pool::heap()).unwrap();
    let address = server.address().unwrap();
    (server, address)
}

fn good_client(address: SocketAddr) {
    let info = run("nbdinfo", &["--size", &format!("nbd://{address}/vol")]);
    assert_eq!(info.trim(), "16777216");
}

/// Memory that this process has resident, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Both ends of a thousand connections are files of this process: more than many shells allow at first.
fn allow_many_files() {
    let me = std::process::id().to_string();
    let status = std::process::Command::new("prlimit")
        .args(["--pid", &me, "--nofile=4096:"])
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "prlimit (of util-linux) could not raise the file limit"
    );
}

#[test]
fn a_thousand_half_open_connections() {
    allow_many_files();
    let config = Config {
        handshake_timeout: Duration::from_secs(15),
        ..Config::default()
    };
    let (server, address) = server(config);
    let before = resident_bytes();
    let mut sockets: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(address).unwrap()).collect();
    // They have gone different ways into the handshake.
    for (number, socket) in sockets.iter_mut().enumerate() {
        let bytes: &[u8] = match number % 4 {
            0 => &[],
            1 => &[0, 0],
            2 => &[0, 0, 0, 3],
            _ => b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\xff\xff",
        };
        socket.write_all(bytes).unwrap();
    }
    let until = Instant::now() + Duration::from_secs(10);
    while server.connections() < 1000 {
        assert!(Instant::now() < until, "only {} connections", server.connections());
        std::thread::sleep(Duration::from_millis(10));
    }
    good_client(address);
    let grown = resident_bytes().saturating_sub(before);
    assert!(
        grown < 128 << 20,
        "a thousand connections took {} KiB each",
        grown >> 20
    );
    // Their time runs out.
    let until = Instant::now() + Duration::from_secs(40);
    while server.connections() > 0 {
        assert!(
            Instant::now() < until,
            "{} connections are still open",
            server.connections()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut byte = [0; 19];
    for socket in &mut sockets {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut count = 0;
        while let Ok(more @ 1..) = socket.read(&mut byte[count..]) {
            count += more;
        }
        assert_eq!(count, 18, "the greeting and then the end");
    }
    good_client(address);
}

#[test]
fn rubbish_and_cut_connections() {
    let (server, address) = server(Config::default());
    let bytes = common::pattern(4711, 4000);
    for cut in (0..4000).step_by(40) {
        let mut socket = TcpStream::connect(address).unwrap();
        // The server may close before all is written.
        let _ = socket.write_all(&bytes[..cut]);
        if cut % 80 == 0 {
            let _ = socket.write_all(b"\0\0\0\x03IHAVEOPT");
        }
    }
    good_client(address);
    let until = Instant::now() + Duration::from_secs(15);
    while server.connections() > 0 {
        assert!(
            Instant::now() < until,
            "{} connections are still open",
            server.connections()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
