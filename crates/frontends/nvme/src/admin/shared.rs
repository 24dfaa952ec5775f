//! What the queues of one controller share, though they may be on different cores: plain atomics, each a fact of its own,
//! so that no order between them is needed.

use super::presence::Presence;
use amita_reactor::Time;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What the queues of one controller share.
#[derive(Debug, Default)]
pub struct ControllerShared {
    /// When the host was heard: one clock for all cores of a process.
    presence: Presence,
    /// A host that was silent for so many percent of its keep alive time may have gone.
    silence_percent: u32,
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
    /// What the queues of a new controller share. A host that is silent for `silence_percent` of its keep alive time may have gone,
    /// unless it is one that is known to be `slow`.
    #[must_use]
    pub fn new(now: Time, silence_percent: u32, slow: bool) -> ControllerShared {
        let shared = ControllerShared {
            silence_percent,
            ..ControllerShared::default()
        };
        shared.presence.begin(now);
        if slow {
            shared.presence.set_slow();
        }
        shared
    }

    /// For how long hosts are silent that are there; none where that is not known.
    fn silence(&self) -> Option<Duration> {
        let limit_ms = u64::from(self.kato_ms()) * u64::from(self.silence_percent) / 100;
        (limit_ms > 0).then(|| Duration::from_millis(limit_ms))
    }

    /// The admin queue has taken a command.
    pub fn beat(&self, now: Time) {
        self.presence.beat(now, self.silence());
    }

    /// That is Keep Alive.
    pub fn keep_alive(&self, now: Time) {
        self.presence.keep_alive(now, self.silence());
    }

    /// An I/O queue that heard the host `queue_at` hears it again. False: the host may have given the controller up meanwhile, which ends.
    #[must_use]
    pub fn beat_io(&self, now: Time, queue_at: Time) -> bool {
        if let Some(limit) = self.silence()
            && self.presence.may_have_left(now, queue_at, limit)
        {
            if self.presence.is_slow().is_none() {
                // Or it is one that sends Keep Alive late, and has not sent any: its next controller is not ended for that.
                self.presence.set_slow();
            }
            self.kill();
            return false;
        }
        self.presence.beat_io(now);
        true
    }

    /// Does the host send Keep Alive so late that it is to be believed to be there, however long it is silent? None: that is not known.
    #[must_use]
    pub fn is_slow(&self) -> Option<bool> {
        self.presence.is_slow()
    }

    /// When the admin queue has taken the last command.
    #[must_use]
    pub fn heard_at(&self) -> Time {
        self.presence.admin_at()
    }

    /// The host has set its keep alive time, in milliseconds; 0: none.
    pub fn set_kato_ms(&self, kato_ms: u32) {
        self.kato_ms.store(kato_ms, Relaxed);
    }

    /// The keep alive time begins again.
    pub fn begin(&self, now: Time) {
        self.presence.begin(now);
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
