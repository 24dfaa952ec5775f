//! Where the zero of the process's clock lies on the wall clock.
//!
//! Moments of a trace are of a monotonic clock that begins with the process. A core that answers says what that clock shows; the answer is
//! read a little later. The shortest of the last delays is nearest to none, so the earliest zero of the last answers is taken: one that was
//! delayed changes nothing, and a wall clock that is set is followed, backwards at once and forwards after [`KEPT`] answers.

use amita_reactor::Time;
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

/// So many answers are looked at.
pub const KEPT: usize = 16;

/// The zero of the process's clock. See the module.
#[derive(Debug, Default)]
pub struct Zero {
    /// Nanoseconds since 1970.
    last: VecDeque<u64>,
}

impl Zero {
    /// The process's clock had shown `now` when this was received.
    pub fn learn(&mut self, received: SystemTime, now: Time) {
        let wall = received.duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        if self.last.len() >= KEPT {
            self.last.pop_front();
        }
        self.last.push_back(wall.saturating_sub(now.0));
    }

    /// In nanoseconds since 1970; 0 before anything was learned.
    #[must_use]
    pub fn unix_ns(&self) -> u64 {
        self.last.iter().copied().min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn wall(ns: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(ns)
    }

    proptest! {
        /// However long answers are on their way, the zero lies no further off than the quickest of the last ones was late.
        #[test]
        fn the_quickest_answer_counts(delays in proptest::collection::vec(0u64..3_000_000_000, 1..60)) {
            let begin = 1_700_000_000_000_000_000;
            let mut zero = Zero::default();
            for (n, delay) in delays.iter().enumerate() {
                let now = n as u64 * 250_000_000;
                zero.learn(wall(begin + now + delay), Time(now));
            }
            let quickest = delays.iter().rev().take(KEPT).min().unwrap();
            prop_assert_eq!(zero.unix_ns(), begin + quickest);
        }
    }

    #[test]
    fn a_clock_that_is_set_is_followed() {
        let mut zero = Zero::default();
        assert_eq!(zero.unix_ns(), 0);
        zero.learn(wall(1_000_000), Time(0));
        zero.learn(wall(400_500), Time(500));
        assert_eq!(zero.unix_ns(), 400_000, "backwards at once");
        for n in 0..KEPT as u64 {
            zero.learn(wall(9_000_000 + n), Time(n));
        }
        assert_eq!(zero.unix_ns(), 9_000_000, "forwards when the old ones are gone");
    }
}
