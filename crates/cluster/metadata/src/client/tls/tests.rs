//! A server that has refused us and is gone before we have looked: what it said is heard all the same.

use super::super::Options;
use super::super::connection::Endpoint;
use super::*;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Writes until the peer's reset has arrived, and never reads; then what is known of the peer. The runtime has no turn meanwhile,
/// as where a driver writes several times in one of its own: it does not know that there is something to read.
async fn refusal(stream: &mut Stream) -> Option<String> {
    let first = stream.first_words();
    while stream.write_all(b"PRI * HTTP/2.0").await.is_ok() && stream.flush().await.is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    first.refusal()
}

/// A server at 127.0.0.1 that may ask for certificates, and a client that shows none.
fn server_and_client(asks: bool) -> (Arc<ServerConfig>, Tls) {
    let key = rcgen::KeyPair::generate().unwrap();
    let name = vec!["127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(name).unwrap().self_signed(&key).unwrap();
    let leaf: CertificateDer<'static> = certificate.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(leaf.clone()).unwrap();
    let clients = match asks {
        true => WebPkiClientVerifier::builder(Arc::new(roots.clone())).build().unwrap(),
        false => WebPkiClientVerifier::no_client_auth(),
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![leaf], key)
        .unwrap();
    let ours = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(config), Tls::from(Arc::new(ours)))
}

#[tokio::test]
async fn an_alert_to_who_speaks_plainly_is_heard_by_who_writes_only() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.read_exact(&mut [0]).unwrap();
        socket.write_all(&[21, 3, 3, 0, 2, 2, 70]).unwrap();
    });
    let mut stream = Stream::plain(TcpStream::connect(address).await.unwrap());
    let told = refusal(&mut stream).await.unwrap();
    assert!(told.contains("write https://"), "{told}");
    server.join().unwrap();
}

#[tokio::test]
async fn an_alert_after_our_handshake_is_heard_by_who_writes_only() {
    let (config, tls) = server_and_client(true);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut tls = ServerConnection::new(config).unwrap();
        tls.complete_io(&mut socket).expect_err("it has shown no certificate");
        while tls.wants_write() {
            tls.write_tls(&mut socket).unwrap();
        }
    });
    let socket = TcpStream::connect(address).await.unwrap();
    let mut stream = Stream::secure(socket, "127.0.0.1", &tls).await.unwrap();
    let told = refusal(&mut stream).await.unwrap();
    assert!(told.contains("we showed none"), "{told}");
    server.join().unwrap();
}

/// As a server does that has taken as many connections as it takes in a second.
#[tokio::test]
async fn a_server_that_closes_at_once_is_asked_again() {
    let (config, tls) = server_and_client(false);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            // With a byte that nobody has read a close is a reset.
            let (socket, _) = listener.accept().unwrap();
            assert_eq!(socket.peek(&mut [0]).unwrap(), 1);
        }
        let (mut socket, _) = listener.accept().unwrap();
        let mut tls = ServerConnection::new(config).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).unwrap();
        }
        tls.writer().write_all(b"SETTINGS").unwrap();
        tls.complete_io(&mut socket).unwrap();
        // It stays until the client has gone.
        let _ = socket.read(&mut [0]);
    });
    let options = Options {
        tls: Some(tls),
        ..Options::default()
    };
    let endpoint = Endpoint::parse(&address.to_string(), &options).unwrap();
    let dialled = endpoint.dial(&options).await.unwrap();
    let mut stream = endpoint.prove(dialled, &options).await.unwrap();
    let mut said = [0; 8];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"SETTINGS");
    drop(stream);
    server.join().unwrap();
}
