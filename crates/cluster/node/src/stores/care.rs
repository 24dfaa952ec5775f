//! What becomes of a store whose device fails or hangs.
//!
//! An operation that the device does not end is noticed here: whoever waits for the store must learn of it, and nothing
//! more may be asked of such a device. A store that has met an error of unknown outcome, or a device that hangs, refuses
//! everything. It comes back by itself: when the device has ended all that it was asked, the store is mounted anew, which
//! reads superblocks, checkpoint and log, and writes and flushes. If that goes well it serves, and its groups take it in
//! as any store that was away. If not, it is tried again later, and ever more seldom. A store that fails again and again
//! although it can be mounted stays out: such a device is to be replaced. So does one of which a flush has failed: what is
//! read of it may be what the kernel could not write, so that a mount would find whole what is lost with the power.

use amita_reactor::driver::Time;
use amita_store::{MountError, State, Store};
use std::time::Duration;

/// A device that does not end an operation for so long hangs. Longer than what an error recovery of the device, or a path
/// that fails over, takes, in the middle of which it would be no use to mount anew; sequencers do not wait for it, they go
/// on without a store that is silent for a third of it.
pub const HUNG_AFTER: Duration = Duration::from_secs(5);
/// The first pause before a store is mounted anew, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A store that has served for so long has nothing to do any more with how it failed before.
const STEADY: Duration = Duration::from_secs(600);
/// A store that fails so often after it was mounted anew, without being steady in between, stays out.
pub const MOST_RETURNS: u32 = 8;

/// A store's way back.
#[derive(Default)]
pub(super) struct Care {
    /// Operations that the device has not ended.
    pub under_way: u32,
    /// When it is next looked whether the oldest of them hangs.
    look_at: Time,
    /// When it was mounted the last time.
    serves_since: Time,
    /// Times that it was mounted anew and failed again.
    returns: u32,
    /// Times that a mount has failed since it last served.
    failed: u32,
    /// It is mounted anew then, or as soon as nothing is under way any more.
    again_at: Option<Time>,
}

/// What is to be told.
pub(super) enum Retry {
    /// It will be tried again after this.
    Later(Duration),
    /// It stays out.
    Never,
    /// It stays out, because of a flush that has failed.
    Unknowable,
}

impl Care {
    /// The device is asked for something.
    pub fn begins(&mut self, now: Time) {
        if self.under_way == 0 {
            self.look_at = now.plus(HUNG_AFTER);
        }
        self.under_way += 1;
    }

    pub fn serves(&mut self, now: Time) {
        self.serves_since = now;
        self.failed = 0;
    }

    /// It has failed: what next? `has_served`: after it was mounted.
    pub fn fails(&mut self, now: Time, has_served: bool, flush_failed: bool) -> Retry {
        if has_served {
            let steady = now.since(self.serves_since) >= STEADY;
            self.returns = if steady { 1 } else { self.returns + 1 };
        }
        if flush_failed {
            self.again_at = None;
            return Retry::Unknowable;
        }
        if self.returns > MOST_RETURNS {
            self.again_at = None;
            return Retry::Never;
        }
        let doubled = (self.returns.max(1) - 1 + self.failed).min(16);
        self.failed += 1;
        let pause = (PAUSE.0 * (1 << doubled)).min(PAUSE.1);
        self.again_at = Some(now.plus(pause));
        Retry::Later(pause)
    }

    /// Looks after the store; a new one takes its place when it is time for that.
    pub fn tick(&mut self, now: Time, store: &mut Store) {
        if self.under_way > 0 && now >= self.look_at {
            let oldest = store.oldest_io().unwrap_or(now);
            self.look_at = oldest.plus(HUNG_AFTER).max(now.plus(HUNG_AFTER / 8));
            let can_fail = matches!(store.state(), State::Serving | State::Mounting);
            if can_fail && now.since(oldest) >= HUNG_AFTER {
                store.device_hangs(now, HUNG_AFTER);
            }
        }
        if self.under_way == 0 && self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            store.mount_anew();
        }
    }

    /// When [`Care::tick`] is wanted; what waits for the device to end something is looked at then.
    pub fn deadline(&self) -> Option<Time> {
        if self.under_way > 0 {
            Some(self.look_at)
        } else {
            self.again_at
        }
    }
}

/// Is this of the kind that passes, as far as a store can tell?
pub(super) fn may_pass(error: &MountError) -> bool {
    matches!(error, MountError::Device { .. })
}
