//! How long who was not the first waits, before it tries again.
//!
//! Many who change one record are at it in step: all read it, one writes, and all others begin anew together. So each waits for a time of its
//! own, chosen at random out of a span that doubles with each race lost, until about one of them is at it at any time.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Out of which the first pause is.
const FIRST: Duration = Duration::from_millis(4);
/// The span is doubled this often, at most: to 256 ms.
const DOUBLED: u32 = 6;

/// How long to wait when so many races for one record were lost.
#[must_use]
pub fn after_lost(races: u32) -> Duration {
    of(races, RandomState::new().build_hasher().finish())
}

fn of(races: u32, random: u64) -> Duration {
    let Some(doubled) = races.checked_sub(1) else {
        return Duration::ZERO;
    };
    let span = FIRST * (1 << doubled.min(DOUBLED));
    let micros = span.as_micros() as u64;
    Duration::from_micros(random % (micros + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_double_and_have_an_end() {
        let longest = |races: u32| {
            let span = of(
                races,
                FIRST.as_micros() as u64 * (1 << races.saturating_sub(1).min(DOUBLED)),
            );
            let all = (0..10_000)
                .map(|random| of(races, random * 7919))
                .max()
                .unwrap_or_default();
            assert!(all <= span, "{races}");
            span
        };
        assert_eq!(of(0, u64::MAX), Duration::ZERO);
        assert_eq!((longest(1), longest(2), longest(3)), (FIRST, FIRST * 2, FIRST * 4));
        assert_eq!(longest(7), Duration::from_millis(256));
        assert_eq!((longest(16), longest(u32::MAX)), (longest(7), longest(7)));
        let some: std::collections::BTreeSet<Duration> = (0..64).map(|_| after_lost(16)).collect();
        assert!(some.len() > 32, "all wait the same: {some:?}");
    }
}
