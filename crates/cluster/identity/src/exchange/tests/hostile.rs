//! Strangers at the authority's server who do their worst.

use super::*;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Addresses from which the crowd comes: each has room for more connections than the server has for all.
const SOURCES: u8 = 40;
const OF_EACH: usize = 4;

/// From 127.0.0.`source`.
fn connect_from(source: u8, to: SocketAddr) -> TcpStream {
    let SocketAddr::V4(to) = to else {
        panic!("the server is on 127.0.0.1")
    };
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, source), 0)).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// What is logged, by all tests of this process.
pub(super) struct Said(Mutex<Vec<String>>);

impl Said {
    pub(super) fn listen() -> &'static Said {
        static SAID: Said = Said(Mutex::new(Vec::new()));
        // A second time it is refused, and goes on.
        let _ = log::set_logger(&SAID);
        log::set_max_level(log::LevelFilter::Warn);
        &SAID
    }

    /// The lines with these words in them.
    pub(super) fn with(&self, words: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(words)).cloned().collect()
    }
}

impl log::Log for Said {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// More connections than there are places, from many addresses, each opened anew as soon as it has ended, say nothing or
/// begin a handshake and leave it at that. Machines hear what was revoked all the same, renew and join.
#[test]
fn a_crowd_of_strangers_keeps_nobody_from_the_list() {
    let world = World::new();
    let live = world.joined("n1");
    let address = world.server.address();
    let come = move |source: u8, index: usize| {
        let mut socket = connect_from(source, address);
        if index.is_multiple_of(2) {
            // The head of a TLS record that does not follow.
            let _ = socket.write_all(&[22, 3, 1, 2, 0]);
        }
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let mut crowd: Vec<(u8, TcpStream)> = Vec::new();
    for index in 0..OF_EACH {
        crowd.extend((2..2 + SOURCES).map(|source| (source, come(source, index))));
    }
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let crowd = std::thread::spawn(move || {
        let mut index = 0;
        while !is_over.load(Ordering::Acquire) {
            for (source, socket) in &mut crowd {
                let waits = |why: &std::io::Error| why.kind() == ErrorKind::WouldBlock;
                if !socket.read(&mut [0; 1]).as_ref().is_err_and(waits) {
                    index += 1;
                    *socket = come(*source, index);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    for number in 0..5 {
        let name = format!("m{number}");
        let one = world.joined(&name);
        world.client.renew(&one).unwrap();
        world.authority.revoke(&name).unwrap();
        assert!(world.client.refresh_trust(&live).unwrap());
        assert!(live.current().trust().revokes(one.current().serial()), "{name}");
    }
    over.store(true, Ordering::Release);
    crowd.join().unwrap();
}

/// What somebody without a certificate is answered, who comes from 127.0.0.`source`.
fn ask_from(source: u8, world: &World, request: &str) -> (u16, String) {
    let config = rustls::ClientConfig::builder_with_provider(crate::tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(crate::tests::Anything))
        .with_no_client_auth();
    let connection = rustls::ClientConnection::new(Arc::new(config), server_name()).unwrap();
    let socket = connect_from(source, world.server.address());
    let mut stream = rustls::StreamOwned::new(connection, Timed::new(socket, PATIENCE));
    stream.write_all(request.as_bytes()).unwrap();
    read_answer(&mut stream).unwrap()
}

/// What a stranger sends is nowhere said as it is, so that no terminal obeys it, and is not even read of who has no token.
#[test]
fn what_strangers_say_reaches_no_terminal() {
    const SOURCE: u8 = 78;
    let world = World::new();
    let said = Said::listen();
    let forged = "\r\u{1b}[2K2026-11-22T00:00:00.000Z INFO  authority: 10.0.0.1 has joined";
    let body = format!("-----END {forged}-----\n");
    let ask = |token: &Token| {
        let request = http::request("POST", JOIN, Some(&token.to_text()), &body);
        ask_from(SOURCE, &world, &request)
    };
    let unknown = World::new().token("n1");
    let (status, text) = ask(&unknown);
    assert_eq!(status, 403);
    assert!(text.contains("the token is not taken"), "{text}");
    let (status, text) = ask(&world.token("n1"));
    assert_eq!(status, 403);
    assert!(text.contains("\\r\\u{1b}[2K2026") && text.len() < 200, "{text}");
    let mut told = said.with(&format!("127.0.0.{SOURCE}:"));
    assert_eq!(told.len(), 2);
    told.push(text.trim_end().to_owned());
    told.extend(world.authority.log().unwrap().lines);
    for line in told {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

/// Nobody fills the logs by being refused: what is in the one is in the other.
#[test]
fn refusals_fill_neither_log() {
    const SOURCE: u8 = 79;
    let world = World::new();
    let said = Said::listen();
    let unknown = World::new().token("n1");
    let request = http::request("POST", JOIN, Some(&unknown.to_text()), "");
    for _ in 0..50 {
        assert_eq!(ask_from(SOURCE, &world, &request).0, 403);
    }
    let lines = world.authority.log().unwrap().lines;
    let records = lines.iter().filter(|line| line.contains("\"refused\"")).count();
    assert!((1..50).contains(&records), "{records} records");
    assert_eq!(said.with(&format!("127.0.0.{SOURCE}:")).len(), records);
}
