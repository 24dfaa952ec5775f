//! A host's clock: it runs faster or slower than the world's time, and may stand still while its host sleeps.

use crate::driver::Time;
use std::time::Duration;

/// As fast as the world's time, in millionths of it.
const TRUE_RATE: u64 = 1_000_000;

/// What a host's clock shows at which moment of the world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Up to this moment of the world it shows the same ...
    since: Time,
    /// ... which is this; from then on it runs.
    shown: Time,
    /// In millionths of the world's time.
    rate: u64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            since: Time(0),
            shown: Time(0),
            rate: TRUE_RATE,
        }
    }
}

impl Clock {
    /// What it shows.
    pub fn at(&self, world: Time) -> Time {
        let passed = u128::from(world.0.saturating_sub(self.since.0));
        Time(self.shown.0 + (passed * u128::from(self.rate) / u128::from(TRUE_RATE)) as u64)
    }

    /// The first moment of the world at which it shows this, or more.
    pub fn when(&self, shown: Time) -> Time {
        let to_pass = u128::from(shown.0.saturating_sub(self.shown.0));
        let passes = (to_pass * u128::from(TRUE_RATE)).div_ceil(u128::from(self.rate));
        Time(self.since.0 + passes as u64)
    }

    /// It runs at another rate from now on.
    pub fn set_rate(&mut self, now: Time, rate: u64) {
        assert!(rate > 0, "a clock that never moves again is no clock");
        (self.shown, self.since) = (self.at(now), now.max(self.since));
        self.rate = rate;
    }

    /// It shows the same until so much has passed.
    pub fn stand_still(&mut self, now: Time, length: Duration) {
        (self.shown, self.since) = (self.at(now), now.plus(length).max(self.since));
    }
}
