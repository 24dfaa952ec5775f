//! Pauses between attempts to connect.

use amita_types::layout::mix;
use std::time::Duration;

/// Numbers that look random, from a seed (SplitMix64).
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Jitter {
        Jitter(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// The pause before attempt number `failures` (from 0): `first`, doubled with each failure up to `last`, and a quarter
/// more or less by chance, so that the nodes which lost a peer together do not come back together.
pub(crate) fn pause(first: Duration, last: Duration, failures: u32, jitter: &mut Jitter) -> Duration {
    let whole = first.saturating_mul(1 << failures.min(20)).min(last).as_nanos();
    let whole = u64::try_from(whole).unwrap_or(u64::MAX);
    Duration::from_nanos(whole - whole / 4 + jitter.next() % (whole / 2 + 1))
}

#[cfg(test)]
mod tests;
