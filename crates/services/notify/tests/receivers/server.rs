//! Receivers: TLS by an authority of a test, and as much of SMTP (RFC 5321, RFC 3207, RFC 4954) as a mail needs.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// An authority, and a server's certificate of it.
pub struct Authority {
    pem: String,
    config: Arc<ServerConfig>,
}

/// A stream by TLS, of a server.
pub type Stream = StreamOwned<ServerConnection, TcpStream>;

impl Authority {
    /// With a server of that name.
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let server_key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .signed_by(&server_key, &issuer)
            .unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = builder
            .with_no_client_auth()
            .with_single_cert(vec![server.der().clone()], private)
            .unwrap();
        Authority {
            pem: root.pem(),
            config: Arc::new(config),
        }
    }

    pub fn pem(&self) -> String {
        self.pem.clone()
    }

    pub fn secure(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// The server's side of TLS.
pub struct Secure;

impl Secure {
    /// Shakes hands.
    pub fn accept(config: &Arc<ServerConfig>, mut stream: TcpStream) -> io::Result<Stream> {
        let mut connection = ServerConnection::new(Arc::clone(config)).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }
}

/// What a mail server has heard.
#[derive(Debug, Default)]
pub struct Heard {
    pub was_secure_at_auth: bool,
    /// What AUTH PLAIN said, decoded.
    pub password: String,
    pub receivers: Vec<String>,
    pub text: String,
}

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

/// Serves one connection.
pub fn smtp(listener: &TcpListener, secure: &Arc<ServerConfig>, has_starttls: bool) -> Heard {
    let (stream, _) = listener.accept().unwrap();
    let mut heard = Heard::default();
    let raw = stream.try_clone().unwrap();
    if session(Box::new(stream), false, has_starttls, &mut heard) {
        let secured = Secure::accept(secure, raw).unwrap();
        session(Box::new(secured), true, false, &mut heard);
    }
    heard
}

/// `true`: the client wants TLS now.
fn session(stream: Box<dyn Both>, is_secure: bool, has_starttls: bool, heard: &mut Heard) -> bool {
    let mut stream = BufReader::new(stream);
    let say = |stream: &mut BufReader<Box<dyn Both>>, text: &str| {
        // Who has gone hears nothing.
        let _ = stream.get_mut().write_all(format!("{text}\r\n").as_bytes());
        let _ = stream.get_mut().flush();
    };
    if !is_secure {
        say(&mut stream, "220 test ESMTP");
    }
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        let line = line.trim_end();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word.to_ascii_uppercase().as_str() {
            "EHLO" if has_starttls => say(&mut stream, "250-test\r\n250 STARTTLS"),
            "EHLO" if is_secure => say(&mut stream, "250-test\r\n250 AUTH PLAIN"),
            "EHLO" => say(&mut stream, "250 test"),
            "STARTTLS" => {
                say(&mut stream, "220 go on");
                return true;
            }
            "AUTH" => {
                heard.was_secure_at_auth = is_secure;
                heard.password = decode(rest.trim_start_matches("PLAIN ").trim());
                say(&mut stream, "235 welcome");
            }
            "MAIL" => say(&mut stream, "250 ok"),
            "RCPT" => {
                heard.receivers.push(rest.trim_start_matches("TO:").to_owned());
                say(&mut stream, "250 ok");
            }
            "DATA" => {
                say(&mut stream, "354 go on");
                heard.text = data(&mut stream);
                say(&mut stream, "250 queued as 42");
            }
            "QUIT" => {
                say(&mut stream, "221 bye");
                return false;
            }
            _ => say(&mut stream, "502 what?"),
        }
    }
}

/// The mail, with lines that were folded or broken by quoted-printable made whole.
fn data(stream: &mut impl BufRead) -> String {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line == ".\r\n" {
            return text.replace("=\r\n", "").replace("\r\n ", " ");
        }
        text.push_str(&line);
    }
}

/// Base64 (RFC 4648), without the padding's checks.
fn decode(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut out) = (0_u32, 0, Vec::new());
    for digit in text
        .bytes()
        .filter_map(|byte| DIGITS.iter().position(|known| *known == byte))
    {
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    String::from_utf8(out).unwrap()
}
