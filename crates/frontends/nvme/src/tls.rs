//! TLS 1.3 with pre-shared keys (NVMe/TCP Transport 1.1, 3.6), by s2n-tls, without I/O of its own.
//!
//! A host names itself, the subsystem and the key in the first message (the PSK identity) and proves that it has the key
//! by that same message; nothing of the kind of a certificate exists. A connection begins with a TLS record or with
//! plain ICReq; which of them is decided by its first byte ([`begins_with_tls`]).
//!
//! [`TlsStream`] is one connection, between two pairs of boxes: encrypted bytes on one side, plain ones on the other.
//! Until the host has proven that it has a key, the stream holds nothing but what came in; then a connection of the
//! library is made: 19 KiB, and 34 KiB more while records are under way, which [`TlsStream::release`] gives back
//! (measured with s2n-tls 0.3.47 and glibc). It draws random numbers itself, and has no part in the simulation.
//!
//! Renegotiation does not exist in TLS 1.3; keys are renewed by the library, when the peer asks for it and before a key
//! has encrypted as much as it may. Session tickets are not given out, early data is not taken.

mod derive;
mod hello;
mod library;

pub use derive::{Dialect, Psk, PskIdentity};

use super::catalog::Catalog;
use amita_keys::TlsKey;
use amita_reactor::{Inbox, Outbox, Pool, Segments};
use hello::Found;
use library::{Library, describe};
use s2n_tls::enums::Mode;
use std::fmt;

/// The first byte of a TLS record that carries a handshake. An ICReq begins with 0.
pub const FIRST_BYTE: u8 = 0x16;

/// Does a connection that begins so speak TLS?
#[must_use]
pub fn begins_with_tls(first: u8) -> bool {
    first == FIRST_BYTE
}

/// The most that a record carries, in bytes.
const RECORD_BYTES: usize = 16 << 10;
/// The largest blocks that decrypted bytes are received into, in bytes: some records.
const MAX_RECEIVE_BYTES: usize = 64 << 10;

/// Alerts (RFC 8446, 6).
const ALERT_HANDSHAKE_FAILURE: u8 = 40;
const ALERT_DECODE_ERROR: u8 = 50;
const ALERT_DECRYPT_ERROR: u8 = 51;
const ALERT_INTERNAL_ERROR: u8 = 80;
const ALERT_UNKNOWN_PSK_IDENTITY: u8 = 115;

/// Why a connection failed. What the peer should know has been queued for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFailure {
    /// What came was no TLS handshake.
    #[error("{0}")]
    Hello(&'static str),
    /// The host wants to be known by something else than a pre-shared key.
    #[error("the host offers no pre-shared key")]
    NoKeyOffered,
    /// Nobody has that identity.
    #[error("no key is known for the identity `{0}`")]
    UnknownIdentity(String),
    /// The host has another key.
    #[error("the host does not have the key of `{0}`")]
    WrongKey(PskIdentity),
    /// The host proves the key with another hash than its identity names.
    #[error(
        "the host's TLS does not know the hash of `{0}` (Debian 13's GnuTLS has SHA-256 alone): give it a key for SHA-256"
    )]
    WrongHash(PskIdentity),
    /// The library says so.
    #[error("{0}")]
    Library(String),
}

/// Who has which key: by the NQNs of the host and of the subsystem.
pub type Keys<'a> = &'a dyn Fn(&str, &str) -> Option<TlsKey>;

impl Catalog {
    /// The TLS key that a host has to have for a subsystem. To discover, it shows the key that it has for any.
    #[must_use]
    pub fn tls_key(&self, hostnqn: &str, subnqn: &str) -> Option<TlsKey> {
        let access = self.access(subnqn, hostnqn);
        // What does not parse was refused when it was set; a host without a key that can be read does not come in.
        TlsKey::parse(&access?.tls.as_ref()?.0).ok()
    }
}

enum Stage {
    /// Waits for the first message.
    Hello,
    /// The library talks to the peer.
    Handshake(Library),
    /// Both know each other.
    Open(Library),
    /// Nothing goes on.
    Closed,
}

/// One encrypted connection, with its two ends in plain text.
pub struct TlsStream {
    stage: Stage,
    /// The key that both have.
    peer: Option<PskIdentity>,
    /// What the peer said.
    pub inbox: Inbox,
    /// What it is told.
    pub outbox: Outbox,
    /// The peer will say no more.
    ended: bool,
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Default for TlsStream {
    fn default() -> TlsStream {
        TlsStream::accept()
    }
}

impl TlsStream {
    fn at(stage: Stage, peer: Option<PskIdentity>) -> TlsStream {
        TlsStream {
            stage,
            peer,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            ended: false,
        }
    }

    /// The server's end.
    #[must_use]
    pub fn accept() -> TlsStream {
        TlsStream::at(Stage::Hello, None)
    }

    /// The client's end: what it has to say first is written by [`TlsStream::encrypt`].
    pub fn connect(psk: &Psk) -> Result<TlsStream, TlsFailure> {
        let library = Library::new(Mode::Client, psk).map_err(|error| TlsFailure::Library(describe(&error)))?;
        Ok(TlsStream::at(Stage::Handshake(library), Some(psk.identity.clone())))
    }

    /// Once the handshake is complete: who the host is, and which subsystem it is here for. What it says when it
    /// connects must be the same.
    #[must_use]
    pub fn identity(&self) -> Option<&PskIdentity> {
        match self.stage {
            Stage::Open(_) => self.peer.as_ref(),
            _ => None,
        }
    }

    /// The key that was chosen for the handshake, by what the host has offered: nothing is shown by that yet.
    #[must_use]
    pub fn chosen(&self) -> Option<&PskIdentity> {
        self.peer.as_ref()
    }

    /// Has the peer said that nothing follows?
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Decrypts at most a record of what came in; false when nothing is left that can be, or memory is short. What TLS
    /// itself has to say is queued in `reply`. The plain bytes go into blocks of `class_bytes`: small ones while little is
    /// to be expected of the host.
    pub fn decrypt(
        &mut self,
        encrypted: &mut Inbox,
        reply: &mut Outbox,
        pool: &Pool,
        class_bytes: usize,
        keys: Keys<'_>,
    ) -> Result<bool, TlsFailure> {
        let result = self.step(encrypted, reply, pool, class_bytes.min(MAX_RECEIVE_BYTES), keys);
        if result.is_err() {
            self.stage = Stage::Closed;
        }
        result
    }

    fn step(
        &mut self,
        encrypted: &mut Inbox,
        reply: &mut Outbox,
        pool: &Pool,
        class_bytes: usize,
        keys: Keys<'_>,
    ) -> Result<bool, TlsFailure> {
        match &mut self.stage {
            Stage::Closed => {
                encrypted.skip(encrypted.len());
                Ok(false)
            }
            Stage::Hello => match hello::find(encrypted.data()) {
                Found::Incomplete(bytes) => {
                    encrypted.need(bytes);
                    Ok(false)
                }
                Found::Wrong(what) => {
                    alert(reply, pool, ALERT_DECODE_ERROR);
                    Err(TlsFailure::Hello(what))
                }
                Found::Hello(hello) => {
                    let psk = choose(&hello, keys).inspect_err(|failure| {
                        alert(
                            reply,
                            pool,
                            match failure {
                                TlsFailure::UnknownIdentity(_) => ALERT_UNKNOWN_PSK_IDENTITY,
                                TlsFailure::WrongKey(_) | TlsFailure::WrongHash(_) => ALERT_DECRYPT_ERROR,
                                _ => ALERT_HANDSHAKE_FAILURE,
                            },
                        );
                    })?;
                    let library = Library::new(Mode::Server, &psk).map_err(|error| {
                        alert(reply, pool, ALERT_INTERNAL_ERROR);
                        TlsFailure::Library(describe(&error))
                    })?;
                    self.peer = Some(psk.identity);
                    self.stage = Stage::Handshake(library);
                    Ok(true)
                }
            },
            Stage::Handshake(library) => {
                let before = reply.queued_bytes();
                let (outcome, taken) = library.negotiate(encrypted.data(), reply, pool);
                encrypted.skip(taken);
                let complete = outcome.map_err(|error| {
                    // Before it has said anything, what it says is in clear; afterwards an alert in clear would not be
                    // understood.
                    if reply.queued_bytes() == before && taken > 0 {
                        alert(reply, pool, ALERT_HANDSHAKE_FAILURE);
                    }
                    TlsFailure::Library(describe(&error))
                })?;
                if complete {
                    self.open()?;
                }
                Ok(complete || taken > 0)
            }
            Stage::Open(library) => {
                if encrypted.is_empty() && !library.holds_plaintext() {
                    return Ok(false);
                }
                let Some(mut buffer) = self.inbox.start_receive(pool, class_bytes) else {
                    return Ok(false);
                };
                let (result, taken) = library.receive(encrypted.data(), &mut buffer, reply, pool);
                let bytes = result.as_ref().ok().copied().flatten();
                self.inbox.received(buffer, bytes.unwrap_or(0));
                encrypted.skip(taken);
                result.map_err(|error| TlsFailure::Library(describe(&error)))?;
                self.ended |= bytes == Some(0);
                Ok(!self.ended && (taken > 0 || bytes.is_some()))
            }
        }
    }

    /// The handshake is complete: is the outcome one that NVMe/TCP allows?
    fn open(&mut self) -> Result<(), TlsFailure> {
        let Stage::Handshake(library) = std::mem::replace(&mut self.stage, Stage::Closed) else {
            return Ok(());
        };
        let (suite, identity) = library
            .outcome()
            .map_err(|error| TlsFailure::Library(describe(&error)))?;
        if !["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"].contains(&suite.as_str()) {
            return Err(TlsFailure::Library(format!(
                "the cipher suite {suite} is not for NVMe/TCP"
            )));
        }
        if self
            .peer
            .as_ref()
            .map(ToString::to_string)
            .as_deref()
            .map(str::as_bytes)
            != Some(&identity[..])
        {
            return Err(TlsFailure::Library("the handshake went on without the key".into()));
        }
        self.stage = Stage::Open(library);
        Ok(())
    }

    /// Encrypts all that is to be told, once the handshake is complete, and adds what TLS itself has to say.
    pub fn encrypt(&mut self, encrypted: &mut Outbox, pool: &Pool) -> Result<(), TlsFailure> {
        let result = match &mut self.stage {
            Stage::Hello | Stage::Closed => return Ok(()),
            // The client speaks first; later on there is nothing new without input.
            Stage::Handshake(library) => library.negotiate(&[], encrypted, pool).0.map(|_| ()),
            Stage::Open(library) => {
                let mut result = Ok(());
                while result.is_ok()
                    && let Some(segments) = self.outbox.next_send()
                {
                    result = seal(library, &segments, encrypted, pool);
                    self.outbox.sent(segments);
                }
                result
            }
        };
        result.map_err(|error| {
            self.stage = Stage::Closed;
            TlsFailure::Library(describe(&error))
        })
    }

    /// Gives memory back until the next record: for a connection that is idle.
    pub fn release(&mut self) {
        if let Stage::Open(library) = &mut self.stage {
            library.release();
        }
        if self.inbox.is_empty() {
            self.inbox = Inbox::new();
        }
    }

    /// Tells the peer that nothing follows.
    pub fn close(&mut self, encrypted: &mut Outbox, pool: &Pool) {
        if let Stage::Open(mut library) = std::mem::replace(&mut self.stage, Stage::Closed) {
            library.close(encrypted, pool);
        }
    }
}

/// Encrypts segments: small ones are put together, so that a header and its data go in one record.
fn seal(
    library: &mut Library,
    segments: &Segments,
    encrypted: &mut Outbox,
    pool: &Pool,
) -> Result<(), s2n_tls::error::Error> {
    let mut gathered = 0;
    let mut gather = pool.take(RECORD_BYTES);
    for segment in segments {
        let mut rest: &[u8] = segment;
        let Some(gather) = &mut gather else {
            library.send(rest, encrypted, pool)?;
            continue;
        };
        while !rest.is_empty() {
            if gathered == 0 && rest.len() >= RECORD_BYTES {
                let whole = rest.len() / RECORD_BYTES * RECORD_BYTES;
                library.send(&rest[..whole], encrypted, pool)?;
                rest = &rest[whole..];
                continue;
            }
            let count = rest.len().min(RECORD_BYTES - gathered);
            gather[gathered..gathered + count].copy_from_slice(&rest[..count]);
            gathered += count;
            rest = &rest[count..];
            if gathered == RECORD_BYTES {
                library.send(&gather[..gathered], encrypted, pool)?;
                gathered = 0;
            }
        }
    }
    match gather {
        Some(gather) if gathered > 0 => library.send(&gather[..gathered], encrypted, pool),
        _ => Ok(()),
    }
}

/// A fatal alert, in clear: before there are keys.
fn alert(reply: &mut Outbox, pool: &Pool, code: u8) {
    reply.append(pool, &[0x15, 3, 3, 0, 2, 2, code]);
}

/// The key that a host offers, is known, and has proven to have.
fn choose(hello: &hello::Hello, keys: Keys<'_>) -> Result<Psk, TlsFailure> {
    let mut failure = TlsFailure::NoKeyOffered;
    for offer in &hello.offers {
        let text = String::from_utf8_lossy(&offer.identity);
        let known =
            PskIdentity::parse(&text).and_then(|identity| Some((keys(&identity.hostnqn, &identity.subnqn)?, identity)));
        let Some((key, identity)) = known else {
            if failure == TlsFailure::NoKeyOffered {
                failure = TlsFailure::UnknownIdentity(text.chars().filter(|c| !c.is_control()).take(512).collect());
            }
            continue;
        };
        let derived = |dialect| Psk::derive(&key, identity.version, &identity.hostnqn, &identity.subnqn, dialect);
        let proven = Dialect::ALL
            .into_iter()
            .filter_map(derived)
            .find(|psk| psk.identity == identity && hello.proves(offer, psk));
        match proven {
            Some(psk) => return Ok(psk),
            // TLS has no other suites for such a key than those that NVMe/TCP does not allow.
            None if !hello.has_hash_of(offer, &identity) => failure = TlsFailure::WrongHash(identity),
            None => failure = TlsFailure::WrongKey(identity),
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests;
