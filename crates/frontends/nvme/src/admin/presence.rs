//! Whether a host that is heard again may have given its controller up meanwhile.
//!
//! What a host sends may be held up on its way: the network is cut in that direction, and nothing is lost. The host waits for an answer, gives
//! the path up by a time of its own, goes on by another, and writes something else. Where its kernel goes on to send what was queued on
//! the connection that it has closed, the network heals and brings W1. (Linux resets the connections of a controller that it gives up;
//! a plain `close` does not.) The keep alive time says that the host is gone after the whole of it, which is longer than some hosts wait.
//!
//! Hosts send Keep Alive twice in their time. One that was not heard by any queue for a good part more than that was held up, and may have gone: the
//! first I/O command that comes then is not carried out, and ends the controller. A Keep Alive, or another admin command, may come
//! before the I/O commands that were held up with it; so that is remembered for as long as other connections may be behind it.
//!
//! Hosts that send Keep Alive later than that by habit would be taken for such whenever they have been idle. They are known by their Keep
//! Alives: who sent the last one in time is punctual; who sent it late and was heard meanwhile, or late from the beginning, is slow, and is believed to be
//! there. The register of controllers remembers slow hosts ([`crate::hub`]), so that none loses a controller twice by it.

use amita_reactor::Time;
use std::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

/// When a host sends Keep Alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Habit {
    /// It has not sent any.
    Unknown,
    /// In time.
    Punctual,
    /// Late.
    Slow,
}

/// When a host was heard, and what is known of how it keeps itself alive. Times are nanoseconds of [`Time`].
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// When the admin queue has taken a command last.
    admin_at: AtomicU64,
    /// When an I/O queue has last, as far as it said so.
    io_at: AtomicU64,
    /// When Keep Alive came last, or its time began.
    keep_alive_at: AtomicU64,
    /// When it was heard again by the admin queue after a silence; 0: never.
    resumed_at: AtomicU64,
    habit: AtomicU8,
}

impl Presence {
    pub fn admin_at(&self) -> Time {
        Time(self.admin_at.load(Acquire))
    }

    fn habit(&self) -> Habit {
        match self.habit.load(Acquire) {
            0 => Habit::Unknown,
            1 => Habit::Punctual,
            _ => Habit::Slow,
        }
    }

    fn set_habit(&self, habit: Habit) {
        self.habit.store(habit as u8, Release);
    }

    /// It is known to send Keep Alive late.
    pub fn set_slow(&self) {
        self.set_habit(Habit::Slow);
    }

    /// Is it to be believed that it was there, however long it was silent? None: that is not known.
    pub fn is_slow(&self) -> Option<bool> {
        match self.habit() {
            Habit::Unknown => None,
            habit => Some(habit == Habit::Slow),
        }
    }

    /// Its keep alive time begins.
    pub fn begin(&self, now: Time) {
        self.keep_alive_at.store(now.0, Relaxed);
        self.admin_at.fetch_max(now.0, Release);
    }

    /// Was it silent for longer than hosts are that are there? Seen by a queue that has heard it then itself.
    fn was_silent(&self, now: Time, queue_at: Time, limit: Duration) -> bool {
        let heard = self.admin_at().max(queue_at).max(Time(self.io_at.load(Relaxed)));
        now.since(heard) >= limit
    }

    /// The admin queue has taken a command. `limit`: for how long hosts are silent that are there, if that is known.
    pub fn beat(&self, now: Time, limit: Option<Duration>) {
        if self.habit() != Habit::Slow && limit.is_some_and(|limit| self.was_silent(now, Time(0), limit)) {
            self.resumed_at.store(now.0, Relaxed);
        }
        // Who sees this one sees that of before as well.
        self.admin_at.fetch_max(now.0, Release);
    }

    /// That was Keep Alive.
    pub fn keep_alive(&self, now: Time, limit: Option<Duration>) {
        let was_silent = limit.is_some_and(|limit| self.was_silent(now, Time(0), limit));
        self.beat(now, limit);
        let since = now.since(Time(self.keep_alive_at.swap(now.0, Relaxed)));
        match limit {
            None => {}
            Some(limit) if since < limit => self.set_habit(Habit::Punctual),
            // It was held up.
            Some(_) if was_silent && self.habit() == Habit::Punctual => {}
            Some(_) => self.set_habit(Habit::Slow),
        }
    }

    /// An I/O queue has taken a command.
    pub fn beat_io(&self, now: Time) {
        self.io_at.fetch_max(now.0, Relaxed);
    }

    /// May the host have given the controller up before an I/O queue that heard it then hears it now?
    pub fn may_have_left(&self, now: Time, queue_at: Time, limit: Duration) -> bool {
        if self.habit() != Habit::Slow && self.was_silent(now, queue_at, limit) {
            return true;
        }
        let resumed = Time(self.resumed_at.load(Relaxed));
        resumed > queue_at && now.since(resumed) < limit
    }
}
