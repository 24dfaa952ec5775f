//! How often something may be told of that strangers cause: a log that is bounded must not be filled by them.

use std::time::{Duration, Instant};

/// So many at once, one more after each pause; what is above is counted.
#[derive(Clone, Debug)]
pub struct Allowance {
    most: u32,
    left: u32,
    pause: Duration,
    since: Instant,
    missed: u64,
}

impl Allowance {
    /// `most` at once, and one more after each `pause`.
    #[must_use]
    pub fn new(most: u32, pause: Duration, now: Instant) -> Allowance {
        Allowance {
            most,
            left: most,
            pause,
            since: now,
            missed: 0,
        }
    }

    /// May one be told of now? Then, how many were not since the last one that was.
    pub fn take(&mut self, now: Instant) -> Option<u64> {
        let pauses = now.saturating_duration_since(self.since).as_nanos() / self.pause.as_nanos().max(1);
        let pauses = u32::try_from(pauses).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(pauses).min(self.most);
        self.since += self.pause.saturating_mul(pauses);
        if self.left == 0 {
            self.missed += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.missed))
    }

    /// So many more were not told of.
    pub fn miss(&mut self, count: u64) {
        self.missed += count;
    }
}
