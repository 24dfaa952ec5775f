//! NBD, the network block device protocol, by its specification (`doc/proto.md` of
//! NetworkBlockDevice/nbd, whose sections are cited where they are obeyed).
//!
//! Spoken are: the fixed newstyle handshake with every option that the specification's main text has, TLS (1.2 and 1.3)
//! by `NBD_OPT_STARTTLS`, structured and simple replies, and all commands: read, write, flush, trim, cache, write-zeroes,
//! block status of `base:allocation`, disconnect. Not spoken are the experimental extensions (extended headers, resize),
//! which are answered as unknown.
//!
//! What clients are told about sizes, and why:
//! * The *minimum* block is 1 byte: stores merge parts of blocks themselves and atomically. A larger one would make
//!   qemu read, merge and write in the client, with a race between two connections, and is refused by clients that do
//!   not ask for it; 1 is the default of the specification, so that any client may connect in any way.
//! * The *preferred* block is 4096 bytes, the store's.
//! * The *maximum* is 32 MiB, which clients assume without being told.
//!
//! A [`NbdFront`] is one connection at the server: a handshake, then a session; between it and the network, if the client
//! asked for it, TLS. [`client`] is the other end of one, for programs that use volumes through nodes (decision 038).
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
#![deny(unsafe_code)]

mod certificate;
pub mod client;
mod connection;
mod handshake;
#[cfg(feature = "memory")]
pub mod memory;
mod reply;
mod session;
mod tls;
pub mod wire;

pub use connection::NbdFront;
pub use session::GATHER_BYTES;
pub use tls::{TlsAcceptor, TlsError, TlsFiles};

use amita_frontend::Cx;
use amita_frontend::slots::MAX_SLOTS;
use amita_types::capability::Grant;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use wire::transmission_flag as flag;

#[cfg(test)]
mod tests;

/// The minimum block size, in bytes.
pub const MIN_BLOCK_BYTES: u32 = 1;
/// The preferred block size, in bytes.
pub const PREFERRED_BLOCK_BYTES: u32 = amita_types::BLOCK_BYTES;
/// The longest read or write, in bytes.
pub const MAX_BLOCK_BYTES: u32 = 32 << 20;

/// A client whose machine has not answered for so long is gone, and its volume is for others: NBD has no keep-alive of its own. (It may
/// take half as long again where an answer goes out meanwhile.) Programs that use volumes through nodes go on looking for one for longer.
pub const PEER_PATIENCE: Duration = Duration::from_secs(20);

/// Whether connections are encrypted ("TLS support", "Server-side requirements").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never: `NOTLS`.
    #[default]
    Off,
    /// If the client likes: `SELECTIVETLS` without exports that are for TLS only.
    Allow,
    /// Always: `FORCEDTLS`.
    Require,
}

/// What one connection may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests: at most [`MAX_SLOTS`]. Clients have 128 (Linux) or less under way.
    pub requests: usize,
    /// Bytes read from the volume, or being read, that the client has not fetched: at least [`GATHER_BYTES`].
    pub read_bytes: usize,
    /// Bytes being written.
    pub write_bytes: usize,
    /// Bytes of a simple reply that is too long to be gathered.
    pub stream_bytes: usize,
    /// Pieces of zeroing, trimming and asking for allocation.
    pub pieces: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // 2 MiB of data keep a network of 10 Gbit/s busy for 1.6 ms: longer than any I/O should take.
        Limits {
            requests: 256,
            read_bytes: 2 << 20,
            write_bytes: 2 << 20,
            stream_bytes: 512 << 10,
            pieces: 256,
        }
    }
}

impl Limits {
    /// Refuses limits that make no sense.
    ///
    /// # Panics
    /// Then: they are settings of this program.
    fn assert_sound(&self) {
        assert!(
            (1..=MAX_SLOTS).contains(&self.requests),
            "{} requests a connection",
            self.requests
        );
        assert!(
            self.read_bytes >= GATHER_BYTES as usize && self.pieces > 0,
            "limits too low: {self:?}"
        );
    }
}

/// What is known of a client that is let in with a certificate of the cluster's own authority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// What the certificate grants, beside what is exported to the client's name; its connection ends with it then.
    pub grant: Option<Arc<Grant>>,
    /// For how long the certificate is still valid.
    pub left: Duration,
}

/// Knows the certificates of the cluster's own authority: which it vouches for, and which it has revoked.
pub trait Judge: fmt::Debug + Send + Sync {
    /// Is the client with this chain (the leaf first) let in?
    ///
    /// # Errors
    /// Why not.
    fn admits(&self, chain: &[CertificateDer<'_>]) -> Result<Admitted, String>;

    /// Does one who was let in with this chain keep his connection? Asked at each [`Event::Trust`](amita_frontend::Event::Trust).
    ///
    /// # Errors
    /// Why not.
    fn keeps(&self, chain: &[CertificateDer<'_>]) -> Result<(), String>;
}

/// The settings of an NBD server.
#[derive(Clone, Debug)]
pub struct Config {
    /// What one connection may hold.
    pub limits: Limits,
    /// How long a client may take from its connection to the transmission phase. What the service needs to open a
    /// volume does not count; of a client that has proved nothing, up to 10 s of it do not.
    pub handshake_timeout: Duration,
    /// For TLS, if it is allowed or required.
    pub tls: Option<TlsAcceptor>,
    /// Whose clients the certificates of the cluster's own authority name.
    pub cluster: Option<amita_types::ClusterId>,
    /// Knows what has become of those certificates since.
    pub judge: Option<Arc<dyn Judge>>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            limits: Limits::default(),
            handshake_timeout: Duration::from_secs(10),
            tls: None,
            cluster: None,
            judge: None,
        }
    }
}

/// "Transmission flags" of an export.
fn transmission_flags(read_only: bool, structured: bool) -> u16 {
    // All writes are durable when they are answered and nothing is cached, so that flushes and FUA hold across
    // connections.
    let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN | flag::SEND_CACHE;
    flags |= match read_only {
        true => flag::READ_ONLY,
        false => flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO,
    };
    // "MUST leave this flag clear if structured replies have not been negotiated."
    if structured { flags | flag::SEND_DF } else { flags }
}
