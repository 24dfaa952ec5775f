//! One core's side of the target.

use super::auth::{self, Group, Random};
use super::catalog::Catalog;
use amita_keys::Hash;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The most I/O queues of a controller.
pub const MAX_QUEUES: u16 = 128;
/// The most entries of a queue.
pub const MAX_ENTRIES: u16 = 1024;
/// The longest read, write or compare, in bytes (MDTS).
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;
/// The most data in a capsule of an I/O queue, in bytes (IOCCSZ).
pub const IO_CAPSULE_BYTES: u32 = 16 << 10;
/// The most data in a capsule of an admin queue, in bytes ("TCP", 3.3.2.2: controllers take 8,192 bytes).
pub const ADMIN_CAPSULE_BYTES: u32 = 8 << 10;
/// The most data of one H2CData, in bytes (MAXH2CDATA).
pub const MAX_DATA_BYTES: u32 = 128 << 10;

/// The longest fused Compare and Write, in bytes (ACWU): what the volume compares and writes as one.
pub const MAX_PAIR_BYTES: u32 = 64 << 10;
/// The most source ranges of a Copy (MSRC + 1).
pub const MAX_COPY_RANGES: u8 = 128;

/// The settings of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes that one connection reads from volumes, or has read and its host has not fetched.
    pub read_bytes: usize,
    /// Bytes of writes of one connection: asked for, or being written. As many again may come in capsules.
    pub write_bytes: usize,
    /// Pieces of zeroing, deallocating and the like that one connection has under way.
    pub pieces: usize,
    /// How long a host may take from its connection to the end of its Connect command, authentication included.
    pub handshake_timeout: Duration,
    /// How old a command may grow while its host is silent. Longer only while the host is heard: twice in its keep alive time, about.
    pub stale_after: Duration,
    /// A host that was not heard for so many percent of its keep alive time, and is heard again, may have given its controller up meanwhile: more
    /// than the half after which hosts send the next Keep Alive. 0: no host is taken for one that has.
    pub silence_percent: u32,
    /// I/O queues of a controller: at most [`MAX_QUEUES`].
    pub queues: u16,
    /// Entries of a queue: at most [`MAX_ENTRIES`].
    pub entries: u16,
    /// Hash functions that a host may authenticate itself with, the preferred one first.
    pub auth_hashes: Vec<Hash>,
    /// Diffie-Hellman groups for that, the preferred one first.
    pub auth_groups: Vec<Group>,
}

impl Default for Config {
    fn default() -> Config {
        // 2 MiB of data keep a network of 10 Gbit/s busy for 1.6 ms: longer than any I/O should take.
        Config {
            read_bytes: 2 << 20,
            write_bytes: 2 << 20,
            pieces: 256,
            handshake_timeout: Duration::from_secs(10),
            stale_after: Duration::from_secs(1),
            silence_percent: 60,
            queues: MAX_QUEUES,
            entries: MAX_ENTRIES,
            auth_hashes: auth::DEFAULT_HASHES.to_vec(),
            auth_groups: auth::DEFAULT_GROUPS.to_vec(),
        }
    }
}

impl Config {
    /// Refuses limits that make no sense.
    ///
    /// # Panics
    /// Then: they are settings of this program.
    fn assert_sound(&self) {
        assert!(
            (1..=MAX_QUEUES).contains(&self.queues) && (2..=MAX_ENTRIES).contains(&self.entries) && self.pieces > 0,
            "limits that make no sense: {self:?}"
        );
    }
}

/// One core's side of the target: what all its fronts share.
#[derive(Debug, Default)]
pub struct Port {
    catalog: RefCell<Arc<Catalog>>,
    config: Config,
    source: Source,
}

/// Where random numbers come from: the system, unless it is told otherwise.
struct Source(RefCell<Random>);

impl Default for Source {
    fn default() -> Source {
        Source(RefCell::new(Box::new(amita_keys::system_random)))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl Port {
    /// A port that knows of no subsystem yet.
    ///
    /// # Panics
    /// When the limits make no sense: they are settings of this program.
    #[must_use]
    pub fn new(config: Config) -> Port {
        config.assert_sound();
        Port {
            catalog: RefCell::default(),
            config,
            source: Source::default(),
        }
    }

    /// The settings of the moment.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Takes new settings. The caller then tells every front ([`amita_frontend::Event::Settings`]).
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        *self.catalog.borrow_mut() = catalog;
    }

    /// Takes random numbers from elsewhere: for the simulation, where a run is to be the same again. TLS draws its own.
    pub fn set_random(&self, random: Random) {
        *self.source.0.borrow_mut() = random;
    }

    /// Fills a buffer with random numbers.
    pub(super) fn random(&self, bytes: &mut [u8]) {
        (self.source.0.borrow_mut())(bytes);
    }

    /// The settings of the target.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }
}
