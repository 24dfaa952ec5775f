//! Settings and limits of a sequencer.

use amita_reactor::Pool;
pub use amita_types::map::MAX_GROUPS;
use amita_types::{MAX_IO_BYTES, StoreId};
use std::time::Duration;

use crate::faults::Faults;

/// Most I/Os of one sequencer under way and queued, together with its own requests: what a request's id has room for
/// (16 bits of slot). The fronts bound their clients far below; what comes above is answered `Busy`.
pub const MAX_TASKS: usize = 1 << 16;
/// Of those, what clients may take: the rest is for fences, openings and leases, so that these never starve.
pub const MAX_IOS: usize = MAX_TASKS / 4 * 3;
/// Most chunks of one sequencer that are being opened at once: each has up to 32 requests of its own, which must find
/// room beside the clients'.
pub const MAX_OPENINGS: usize = 128;
/// Most writes of one chunk with a version and without an acknowledgement: it bounds a store's out-of-order window and
/// what is resent after a reconnection. Twice the depth at which a device is saturated.
pub const MAX_WRITES_PER_CHUNK: u32 = 64;
/// Most payload bytes that a store has to answer, from one sequencer: above, more only queues in sockets (about
/// 0.5 MiB saturates a connection).
pub const MAX_STORE_BYTES: u64 = 16 * MAX_IO_BYTES as u64;
/// Most payload bytes of one sequencer in writes without an acknowledgement: they are kept for resends (R8).
pub const MAX_SHARD_BYTES: u64 = 256 * MAX_IO_BYTES as u64;
/// Most groups that one eviction changes: with the volume's record and reads of everything it stays below the 128
/// operations that etcd allows in a transaction.
pub const MAX_EVICTION_GROUPS: usize = 60;
/// Refusals of one write by one store that may pass by themselves (`Invalid`), before the store is evicted.
pub const MAX_REFUSALS: u8 = 4;

/// A sequencer counts so much of a lease, in percent; the store that gave it counts all of it (R4). The two clocks may
/// differ in rate by a quarter, 11 % each way: the worst oscillators are off by 0.01 %, what a clock daemon does to a
/// clock that it slews is below 10 % (`adjtimex` allows as much), and both clocks may be slewed against each other.
pub const LEASE_PERCENT: u32 = 80;
/// A store that has done work on its link and says `Busy` and nothing else is evicted after so many times the silence
/// of one that says nothing: it has too much to do, and evicting it gives the others more.
pub const BUSY_PATIENCE: u32 = 5;
/// A store that owes work and has done none for so many times the store's time-out is lost, though its links come up
/// again and again.
pub const IDLE_PATIENCE: u32 = 3;

/// A store that cannot serve and cannot be evicted is asked again after so many pauses of a busy one.
const UNFIT_PAUSES: u32 = 100;

/// Chunks of one sequencer that are compared with a syncing member's copy at one time.
pub const MAX_MENDINGS: usize = 8;
/// Chunks that wait to be compared before listing pauses.
pub const MAX_SYNC_QUEUE: usize = 1024;

/// Settings of a sequencer.
#[derive(Clone, Debug)]
pub struct Config {
    /// This core's place among the node's, and how many there are: which chunks are its own.
    pub core: u16,
    /// See [`Config::core`].
    pub cores: u16,
    /// Stores in this process: reads prefer them.
    pub local_stores: Vec<StoreId>,
    /// A store that has something to answer and says nothing for so long is evicted.
    pub store_timeout: Duration,
    /// A read that is not answered for so long is also sent to another member.
    pub hedge_ms: u32,
    /// Reads rest on an answer of enough members to something that was sent after they came in, and not on leases,
    /// which count on clocks: for machines that may be paused without any clock of theirs showing it. A read costs an
    /// exchange with these members, beside its own.
    pub confirm_reads: bool,
    /// How long to leave a store alone that answers `Busy`.
    pub busy_pause: Duration,
    /// The first pause after a failed call to the metadata; it doubles up to [`Config::meta_pause_most`].
    pub meta_pause: Duration,
    /// The longest pause between calls to the metadata that fail.
    pub meta_pause_most: Duration,
    /// Memory for what is encrypted and decrypted.
    pub pool: Pool,
    /// Rules that are switched off to show that tests notice. Empty without the feature `planted`.
    pub faults: Faults,
}

impl Config {
    /// After how long a store that says nothing is taken to hang.
    pub(crate) fn silent_after(&self) -> Duration {
        Duration::from_millis(u64::from(self.hedge_ms))
    }

    /// How long to leave a store alone that cannot serve and cannot be evicted. It says nothing meanwhile, because nobody asks it: so
    /// this is shorter than the silence for which it would be evicted wherever that may be (R12).
    pub(crate) fn unfit_pause(&self) -> Duration {
        (self.busy_pause * UNFIT_PAUSES).min(self.store_timeout / 2)
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            core: 0,
            cores: 1,
            local_stores: Vec::new(),
            store_timeout: Duration::from_secs(2),
            hedge_ms: 50,
            confirm_reads: false,
            busy_pause: Duration::from_millis(2),
            meta_pause: Duration::from_millis(20),
            meta_pause_most: Duration::from_millis(500),
            pool: Pool::heap(),
            faults: Faults::NONE,
        }
    }
}
