//! What attackers have: a connection that says anything, and TLS that believes everybody and shows what it likes.

use crate::world::PATIENCE;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, Stream, StreamOwned, version,
};
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

    /// A client of NBD that is inside TLS and has no volume yet (the NBD protocol: fixed newstyle, `NBD_OPT_STARTTLS`).
    pub fn nbd_begun(&self, address: SocketAddr) -> Nbd {
        const START_TLS: u32 = 5;
        let mut stream = connect(address);
        stream.read_exact(&mut [0; 18]).expect("a greeting");
        stream.write_all(&3u32.to_be_bytes()).expect("flags");
        assert_eq!(
            nbd_option(&mut stream, START_TLS, &[])
                .expect("an answer")
                .pop()
                .map(|reply| reply.0),
            Some(NBD_ACK)
        );
        let name = ServerName::try_from("amita.invalid").expect("a name");
        let tls = ClientConnection::new(Arc::new(self.config()), name).expect("a connection");
        Nbd(StreamOwned::new(tls, stream))
    }

    /// One that has the volume open (`NBD_OPT_GO`).
    pub fn nbd(&self, address: SocketAddr, volume: &str) -> Nbd {
        let mut nbd = self.nbd_begun(address);
        let last = nbd
            .option(NBD_GO, &nbd_name(volume))
            .and_then(|mut replies| replies.pop());
        assert_eq!(last.map(|reply| reply.0), Some(NBD_ACK));
        nbd
    }
}

/// Numbers of NBD.
pub const NBD_GO: u32 = 7;
pub const NBD_ACK: u32 = 1;
const NBD_INFO: u32 = 3;
const NBD_SERVER: u32 = 2;
const NBD_CONTEXT: u32 = 4;

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
pub fn nbd_name(volume: &str) -> Vec<u8> {
    let mut data = (volume.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(volume.as_bytes());
    data.extend_from_slice(&[0; 2]);
    data
}

/// Asks for an option; all replies to it, kind and data; `None`: the connection has ended.
fn nbd_option(stream: &mut (impl Read + Write), option: u32, data: &[u8]) -> Option<Vec<(u32, Vec<u8>)>> {
    let mut said = b"IHAVEOPT".to_vec();
    said.extend(option.to_be_bytes());
    said.extend((data.len() as u32).to_be_bytes());
    said.extend(data);
    stream.write_all(&said).and_then(|()| stream.flush()).ok()?;
    let mut replies = Vec::new();
    loop {
        let mut reply = [0; 20];
        stream.read_exact(&mut reply).ok()?;
        let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(
            reply[..8],
            0x0003_e889_0455_65a9u64.to_be_bytes(),
            "no reply to an option"
        );
        assert_eq!(word(8), option, "a reply to another option");
        let mut data = vec![0; word(16) as usize];
        stream.read_exact(&mut data).ok()?;
        let kind = word(12);
        replies.push((kind, data));
        if ![NBD_INFO, NBD_SERVER, NBD_CONTEXT].contains(&kind) {
            return Some(replies);
        }
    }
}

/// A client of NBD inside TLS, with a volume or before.
pub struct Nbd(StreamOwned<ClientConnection, TcpStream>);

impl Nbd {
    /// It is served: a flush is carried out.
    pub fn flush(&mut self) {
        const FLUSH: u16 = 3;
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend([0; 2]);
        request.extend(FLUSH.to_be_bytes());
        request.extend([7; 8]);
        request.extend([0; 12]);
        self.0.write_all(&request).expect("said");
        self.0.flush().expect("sent");
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).expect("an answer");
        assert_eq!(reply[4..8], [0; 4], "an error");
        assert_eq!(reply[8..], [7; 8], "to another request");
    }

    /// Asks for an option; all replies to it, kind and data; `None`: the connection has ended.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Option<Vec<(u32, Vec<u8>)>> {
        nbd_option(&mut self.0, option, data)
    }

    /// Sends a request of an open volume; the error of the simple reply, and so many bytes that follow where there is none;
    /// `None`: the connection has ended.
    pub fn command(&mut self, request: &[u8], brings: usize) -> Option<(u32, Vec<u8>)> {
        self.0.write_all(request).and_then(|()| self.0.flush()).ok()?;
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).ok()?;
        assert_eq!(reply[..4], 0x6744_6698u32.to_be_bytes(), "no simple reply");
        let error = u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"));
        let mut data = vec![0; if error == 0 { brings } else { 0 }];
        self.0.read_exact(&mut data).ok()?;
        Some((error, data))
    }

    /// All bytes that come until the connection ends.
    pub fn rest(mut self) -> Vec<u8> {
        read_all(&mut self.0).0
    }

    /// Says bytes that are no request and no option.
    pub fn say(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).and_then(|()| self.0.flush());
    }

    /// Hears nothing more, until the connection ends.
    pub fn cut_off(mut self) {
        let (heard, _) = read_all(&mut self.0);
        assert!(heard.is_empty(), "{heard:?}");
    }
}
