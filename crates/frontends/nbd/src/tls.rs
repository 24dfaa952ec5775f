//! TLS between the client and the protocol ("TLS support"), by rustls, without I/O of its own.
//!
//! Certificates only (X.509): rustls has no pre-shared keys, so neither has this server. A TLS handshake draws random
//! numbers and reads the clock inside rustls; it has no part in the simulation.

use super::TlsMode;
use amita_reactor::{Inbox, Outbox, Pool};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection, version};
use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most memory that decrypted bytes are received into at a time, in bytes: a TLS record has at most 16 KiB.
pub(super) const RECEIVE_BYTES: usize = 64 << 10;

/// The files of a TLS server, all in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities: if given, a client must use TLS and show a certificate that one of them has signed.
    pub client_authorities: Option<PathBuf>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("{what} {}: {why}; give a readable file in PEM format", path.display())]
    File {
        /// Which of the files.
        what: &'static str,
        path: PathBuf,
        why: String,
    },
    /// A file has nothing of what it should have.
    #[error("{what} {} has no {missing} in it", path.display())]
    Empty {
        /// Which of the files.
        what: &'static str,
        path: PathBuf,
        /// What was looked for.
        missing: &'static str,
    },
    /// The certificate and the key do not go together, or are of a kind that is not supported.
    #[error("the certificate {} and the key {} cannot be used together: {why}", certificate.display(), key.display())]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        why: String,
    },
    /// The authorities cannot be used.
    #[error("the client authorities {} cannot be used: {why}", path.display())]
    Authorities { path: PathBuf, why: String },
}

/// What makes TLS of connections: read and checked once, at the start.
#[derive(Clone)]
pub struct TlsAcceptor {
    mode: TlsMode,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAcceptor")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error: &dyn fmt::Display| TlsError::File {
        what,
        path: path.into(),
        why: error.to_string(),
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(|error| wrong(&error))?
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&error))?;
    if found.is_empty() {
        return Err(TlsError::Empty {
            what,
            path: path.into(),
            missing: "certificate",
        });
    }
    Ok(found)
}

impl TlsAcceptor {
    /// Reads and checks the files. Where clients must show a certificate, they must use TLS, whatever `mode` says: without
    /// it they show none. Blocks; for the start only.
    pub fn load(mode: TlsMode, files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
        let mode = match files.client_authorities {
            Some(_) => TlsMode::Require,
            None => mode,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = certificates("the TLS certificate", &files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => TlsError::Empty {
                what: "the TLS key",
                path: files.key.clone(),
                missing: "private key",
            },
            error => TlsError::File {
                what: "the TLS key",
                path: files.key.clone(),
                why: error.to_string(),
            },
        })?;
        let pair = |error: rustls::Error| TlsError::Pair {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            why: match error {
                // What the library says of it is a word of its code.
                rustls::Error::InconsistentKeys(_) => "they are not for the same key".to_owned(),
                error => error.to_string(),
            },
        };
        // "Implementations supporting TLS MUST support TLS version 1.2, SHOULD support any later versions."
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(pair)?;
        let builder = match &files.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let wrong = |why: String| TlsError::Authorities {
                    path: path.clone(),
                    why,
                };
                let mut roots = RootCertStore::empty();
                for authority in certificates("the TLS client authorities", path)? {
                    roots.add(authority).map_err(|error| wrong(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| wrong(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(pair)?;
        // A session that is taken up again shows no certificate: one that has ended, or was revoked, would be good for ever.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(TlsAcceptor {
            mode,
            config: Arc::new(config),
        })
    }

    /// Of what makes connections by an identity that is in use: `config` is to show its certificate as it is now, to ask
    /// clients for theirs, and to take up no session again.
    #[must_use]
    pub fn of(mode: TlsMode, config: Arc<ServerConfig>) -> TlsAcceptor {
        TlsAcceptor { mode, config }
    }

    /// The same for clients that may do without: the operating system has said who they are.
    #[must_use]
    pub fn optional(&self) -> TlsAcceptor {
        TlsAcceptor {
            mode: TlsMode::Allow,
            config: self.config.clone(),
        }
    }

    /// Whether clients may or must use it.
    #[must_use]
    pub fn mode(&self) -> TlsMode {
        self.mode
    }

    pub(super) fn accept(&self) -> Result<TlsStream, String> {
        let connection = ServerConnection::new(self.config.clone()).map_err(|error| error.to_string())?;
        Ok(TlsStream::new(connection.into()))
    }
}

/// One encrypted connection, with its two ends in plain text.
pub(super) struct TlsStream {
    connection: Connection,
    /// What the other end said.
    pub inbox: Inbox,
    /// What it is told.
    pub outbox: Outbox,
    closed: bool,
    /// The other end has said that nothing follows.
    has_ended: bool,
    /// There was no memory for what is decrypted.
    short: bool,
}

/// Writes into an outbox.
struct Sink<'a> {
    outbox: &'a mut Outbox,
    pool: &'a Pool,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outbox.append(self.pool, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    fn new(connection: Connection) -> TlsStream {
        TlsStream {
            connection,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            closed: false,
            has_ended: false,
            short: false,
        }
    }

    /// The end that connects.
    pub fn dial(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<TlsStream, String> {
        let connection = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
        Ok(TlsStream::new(connection.into()))
    }

    /// Decrypts some of what came in, into blocks of `class_bytes`; false when nothing is left that can be, or memory is short.
    ///
    /// # Errors
    /// What came is no TLS, or the other end has ended it ("close_notify", RFC 8446, section 6.1) and all that it said before has been
    /// handed out: TLS takes nothing more, and what comes all the same is not to be kept.
    pub fn decrypt(&mut self, encrypted: &mut Inbox, pool: &Pool, class_bytes: usize) -> Result<bool, String> {
        if self.closed {
            let all = encrypted.len();
            encrypted.skip(all);
            return Ok(false);
        }
        // What memory was too short for the last time goes first: rustls holds only so much.
        if !self.fetch(pool, class_bytes)? {
            return Ok(false);
        }
        if self.has_ended {
            return Err("it has ended TLS".to_owned());
        }
        if encrypted.is_empty() || !self.connection.wants_read() {
            return Ok(false);
        }
        let mut source = encrypted.data();
        let taken = self
            .connection
            .read_tls(&mut source)
            .map_err(|error| error.to_string())?;
        encrypted.skip(taken);
        self.connection
            .process_new_packets()
            .map_err(|error| error.to_string())?;
        self.fetch(pool, class_bytes)?;
        Ok(taken > 0)
    }

    /// Has the other end said that nothing follows?
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Is it memory that decrypting waits for?
    pub fn is_short(&self) -> bool {
        self.short
    }

    /// Takes what is decrypted over into the inbox; false when memory is short.
    fn fetch(&mut self, pool: &Pool, class_bytes: usize) -> Result<bool, String> {
        self.short = false;
        loop {
            let state = self
                .connection
                .process_new_packets()
                .map_err(|error| error.to_string())?;
            self.has_ended = state.peer_has_closed();
            if state.plaintext_bytes_to_read() == 0 {
                return Ok(true);
            }
            let Some(mut buffer) = self.inbox.start_receive(pool, class_bytes) else {
                self.short = true;
                return Ok(false);
            };
            let result = self.connection.reader().read(&mut buffer);
            self.inbox.received(buffer, *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Encrypts all that is to be told, and adds what TLS itself has to say.
    pub fn encrypt(&mut self, encrypted: &mut Outbox, pool: &Pool) {
        let mut out = Sink {
            outbox: encrypted,
            pool,
        };
        while !self.connection.is_handshaking()
            && let Some(segments) = self.outbox.next_send()
        {
            for segment in &segments {
                let mut rest: &[u8] = segment;
                while !rest.is_empty() {
                    // The writer takes what its buffer has room for; what it refuses goes with the next turn. Neither
                    // end does I/O, so that neither can fail.
                    let taken = self.connection.writer().write(rest).unwrap_or(0);
                    rest = &rest[taken..];
                    let flushed = self.flush(&mut out);
                    if taken == 0 && !flushed {
                        break;
                    }
                }
            }
            self.outbox.sent(segments);
        }
        self.flush(&mut out);
    }

    fn flush(&mut self, out: &mut Sink<'_>) -> bool {
        let mut any = false;
        while self.connection.wants_write() && self.connection.write_tls(out).is_ok_and(|count| count > 0) {
            any = true;
        }
        any
    }

    /// Gives back what holds nothing.
    pub fn rest(&mut self) {
        self.inbox.trim(0);
        self.outbox.trim();
    }

    /// Once the handshake is over: the other end's certificate and those between it and an authority, if it has shown one.
    pub fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        if self.connection.is_handshaking() {
            return None;
        }
        self.connection.peer_certificates()
    }

    /// Tells the other end that nothing follows.
    pub fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.connection.send_close_notify();
        }
    }
}
