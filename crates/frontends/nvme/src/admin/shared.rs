//! What the queues of one controller share, though they may be on different cores: plain atomics, each a fact of its own,
//! so that no order between them is needed.

use amita_reactor::Time;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What the queues of one controller share.
#[derive(Debug, Default)]
pub struct ControllerShared {
    /// When the admin queue has taken a command last, in nanoseconds of [`Time`]: one clock for all cores of a process.
    heard_at: AtomicU64,
    /// The keep alive time, in milliseconds; 0: none.
    kato_ms: AtomicU32,
    /// The controller is gone: every queue closes.
    dead: AtomicBool,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    media_errors: AtomicU64,
}

/// What a controller has done for its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read, Compare and Verify commands that ended well.
    pub reads: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Write commands that ended well.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Commands that ended because data was damaged.
    pub media_errors: u64,
}

impl ControllerShared {
    /// The admin queue has taken a command.
    pub fn beat(&self, now: Time) {
        self.heard_at.fetch_max(now.0, Relaxed);
    }

    /// When it has taken the last one.
    #[must_use]
    pub fn heard_at(&self) -> Time {
        Time(self.heard_at.load(Relaxed))
    }

    /// The host has set its keep alive time, in milliseconds; 0: none.
    pub fn set_kato_ms(&self, kato_ms: u32) {
        self.kato_ms.store(kato_ms, Relaxed);
    }

    /// The keep alive time, in milliseconds; 0: none.
    #[must_use]
    pub fn kato_ms(&self) -> u32 {
        self.kato_ms.load(Relaxed)
    }

    /// The controller is gone.
    pub fn kill(&self) {
        self.dead.store(true, Relaxed);
    }

    /// Is the controller gone?
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Adds what an I/O queue has done since it last said so. Meant for now and then, not for each I/O.
    pub fn count(&self, more: Counters) {
        let add = |to: &AtomicU64, value: u64| {
            if value > 0 {
                to.fetch_add(value, Relaxed);
            }
        };
        add(&self.reads, more.reads);
        add(&self.read_bytes, more.read_bytes);
        add(&self.writes, more.writes);
        add(&self.written_bytes, more.written_bytes);
        add(&self.media_errors, more.media_errors);
    }

    /// What was done in all.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            media_errors: self.media_errors.load(Relaxed),
        }
    }
}
