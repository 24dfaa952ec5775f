//! What attackers have: a connection that says anything, and TLS that believes everybody and shows what it likes.

use crate::world::PATIENCE;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, Stream, version};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// A record's header and the two bytes of an alert: what somebody may be told who does not get through TLS.
pub const ALERT_BYTES: usize = 7;
/// What a client of the metadata (gRPC) says first: the preface of HTTP/2, and empty settings (RFC 9113, section 3.4).
pub const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// The first bytes of a hello, as a node without a certificate says it.
pub const PLAIN_HELLO: &[u8] = b"\x00\x00\x00\x00Am\x00\x01\x44\x00\x00\x00\x00\x00\x00\x00";
/// The protocols of the ports (ALPN).
pub const FABRIC: &[u8] = b"amita-fabric/1 auth";
pub const METADATA: &[u8] = b"h2";

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// Whatever is told to who says this, until the connection ends.
pub fn told(address: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    // The other end may have had enough before all of it is sent; a reset is an end as well.
    let _ = stream.write_all(said);
    read_all(&mut stream).0
}

fn read_all(stream: &mut impl Read) -> (Vec<u8>, String) {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return (all, "the end".to_owned()),
            Ok(bytes) => all.extend_from_slice(&piece[..bytes]),
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the connection of an attacker is kept, with {} bytes for it", all.len())
            }
            Err(why) => return (all, why.to_string()),
        }
    }
}

/// Takes whoever answers for whom it wants.
#[derive(Debug)]
struct Anybody(CryptoProvider);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// What an attacker brings.
#[derive(Clone, Copy)]
pub struct Tls<'a> {
    /// The folder of the identity that it shows; none: it shows none.
    pub shows: Option<&'a Path>,
    /// The protocol that it offers; empty: none.
    pub protocol: &'a [u8],
    /// It speaks TLS 1.2 alone.
    pub is_old: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Told {
    /// What the other end said inside TLS.
    pub inside: Vec<u8>,
    /// How it ended.
    pub end: String,
}

impl Told {
    /// It was told nothing, and turned away: by an alert, or so fast that the alert was lost with what it had still to say.
    pub fn is_refused(&self) -> bool {
        let turned_away = ["alert", "reset", "Broken pipe", "unexpected end of file"];
        self.inside.is_empty() && turned_away.iter().any(|how| self.end.contains(how))
    }
}

impl Tls<'_> {
    fn config(&self) -> ClientConfig {
        let provider = aws_lc_rs::default_provider();
        let versions = match self.is_old {
            true => [&version::TLS12],
            false => [&version::TLS13],
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
            .with_protocol_versions(&versions)
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)));
        let mut config = match self.shows {
            None => builder.with_no_client_auth(),
            Some(folder) => {
                let chain = CertificateDer::pem_file_iter(folder.join("cert.pem"))
                    .and_then(Iterator::collect)
                    .expect("a certificate");
                let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).expect("its key");
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        if !self.protocol.is_empty() {
            config.alpn_protocols = vec![self.protocol.to_vec()];
        }
        config
    }

    /// Connects, says this inside TLS, and hears what comes until the connection ends.
    pub fn told(&self, address: SocketAddr, said: &[u8]) -> Told {
        let mut stream = connect(address);
        let name = ServerName::try_from("amita.invalid").expect("a name");
        let mut tls = ClientConnection::new(Arc::new(self.config()), name).expect("a connection");
        let mut inside = Stream::new(&mut tls, &mut stream);
        let sent = inside.write_all(said).and_then(|()| inside.flush());
        let (heard, end) = read_all(&mut inside);
        // The alert may be found by either of the two.
        let end = match sent {
            Ok(()) => end,
            Err(why) => format!("{why}; {end}"),
        };
        Told { inside: heard, end }
    }

    /// The same for who is let in: the first bytes that come.
    pub fn greeted(&self, address: SocketAddr, said: &[u8]) -> Vec<u8> {
        let mut stream = connect(address);
        let name = ServerName::try_from("amita.invalid").expect("a name");
        let mut tls = ClientConnection::new(Arc::new(self.config()), name).expect("a connection");
        let mut inside = Stream::new(&mut tls, &mut stream);
        inside.write_all(said).and_then(|()| inside.flush()).expect("said");
        let mut first = vec![0; 9];
        inside.read_exact(&mut first).expect("an answer");
        first
    }
}
