//! Histograms of latencies that can be added: the buckets of the node's metrics, of which only those that hold something are kept.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many buckets there are: eight to each doubling from 128 ns on, up to five hours.
pub const BUCKETS: u16 = 288;
/// Buckets to each doubling.
const FINE: u64 = 8;
/// The first buckets are of so many nanoseconds each, as a power of two.
const UNIT_BITS: u32 = 7;

/// The first unit of a bucket, and how many it has.
fn units(bucket: u16) -> (u64, u64) {
    let at = u64::from(bucket.min(BUCKETS - 1));
    if at < 2 * FINE {
        return (at, 1);
    }
    let doublings = at / FINE - 1;
    ((at % FINE + FINE) << doublings, 1 << doublings)
}

/// Where a bucket begins, in nanoseconds.
#[must_use]
pub fn lower_ns(bucket: u16) -> u64 {
    units(bucket).0 << UNIT_BITS
}

/// Where it ends.
#[must_use]
pub fn upper_ns(bucket: u16) -> u64 {
    let (first, width) = units(bucket);
    (first + width) << UNIT_BITS
}

fn middle_ns(bucket: u16) -> u64 {
    u64::midpoint(lower_ns(bucket), upper_ns(bucket))
}

/// A histogram. Its buckets are those of the metrics (`amita_reactor::histogram`; a test compares them).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LatencyHistogram)]
pub struct Buckets {
    /// Number and count, in the order of the numbers; none is empty.
    counts: Vec<(u16, u64)>,
    /// All latencies together.
    sum_ns: u64,
}

impl Buckets {
    /// With such counts, and so long in all. Buckets that do not exist are the last one.
    #[must_use]
    pub fn of(counts: impl IntoIterator<Item = (u16, u64)>, sum_ns: u64) -> Buckets {
        let mut all: Vec<(u16, u64)> = counts
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(at, count)| (at.min(BUCKETS - 1), count))
            .collect();
        all.sort_unstable_by_key(|(at, _)| *at);
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        Buckets { counts: all, sum_ns }
    }

    /// The buckets that hold something: number, count.
    #[must_use]
    pub fn counts(&self) -> &[(u16, u64)] {
        &self.counts
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// All latencies together, in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Buckets) {
        if other.is_empty() {
            return;
        }
        let sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        let own = std::mem::take(&mut self.counts);
        *self = Buckets::of(own.into_iter().chain(other.counts.iter().copied()), sum_ns);
    }

    /// What was counted since `earlier`, an older state of the same; all of it, where that was forgotten meanwhile.
    #[must_use]
    pub fn since(&self, earlier: &Buckets) -> Buckets {
        let mut left = Vec::with_capacity(self.counts.len());
        let mut old = earlier.counts.iter().peekable();
        for (at, count) in &self.counts {
            if old.peek().is_some_and(|(old_at, _)| old_at < at) {
                return self.clone();
            }
            let before = old.next_if(|(old_at, _)| old_at == at).map_or(0, |(_, count)| *count);
            match count.checked_sub(before) {
                None => return self.clone(),
                Some(0) => {}
                Some(more) => left.push((*at, more)),
            }
        }
        if old.next().is_some() {
            return self.clone();
        }
        Buckets {
            counts: left,
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
        }
    }

    /// The mean in nanoseconds; 0 when nothing was counted.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count()).unwrap_or(0)
    }

    /// The latency that so many of a thousand do not exceed, in nanoseconds, off by at most a sixteenth; 0 when nothing was counted.
    #[must_use]
    pub fn permille_ns(&self, permille: u64) -> u64 {
        let wanted = u128::from(self.count()) * u128::from(permille);
        let mut left = wanted.div_ceil(1000).max(1);
        for (at, count) in &self.counts {
            if u128::from(*count) >= left {
                return middle_ns(*at);
            }
            left -= u128::from(*count);
        }
        0
    }

    /// Where the last bucket that holds something ends: none took longer, but for those beyond the last bucket.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.counts.last().map_or(0, |(at, _)| upper_ns(*at))
    }

    /// The same with two to the power of `level` buckets made one, so that it takes less room. Level 3 is one to each doubling.
    #[must_use]
    pub fn coarse(&self, level: u32) -> Buckets {
        let mask = (1_u16 << level.min(3)) - 1;
        let place = |at: u16| (at & !mask) + mask.div_ceil(2);
        Buckets::of(self.counts.iter().map(|(at, count)| (place(*at), *count)), self.sum_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_reactor::histogram::Histogram;
    use std::time::Duration;

    fn copy(of: &Histogram) -> Buckets {
        Buckets::of(of.counts(), of.sum().as_nanos() as u64)
    }

    #[test]
    fn the_buckets_are_those_of_the_metrics() {
        let mut seen = Histogram::default();
        for at in 0..BUCKETS {
            for ns in [lower_ns(at), upper_ns(at) - 1] {
                let mut one = Histogram::default();
                one.record(Duration::from_nanos(ns));
                assert_eq!(copy(&one).counts(), [(at, 1)], "{ns} ns");
            }
            seen.record(Duration::from_nanos(middle_ns(at)));
        }
        let own = copy(&seen);
        for permille in [1, 10, 500, 900, 990, 999, 1000] {
            assert_eq!(
                u128::from(own.permille_ns(permille)),
                seen.permille(permille).as_nanos()
            );
        }
        assert_eq!(u128::from(own.mean_ns()), seen.mean().as_nanos());
    }

    #[test]
    fn what_came_since_and_what_was_forgotten() {
        let old = Buckets::of([(3, 2), (7, 1)], 100);
        let mut new = old.clone();
        new.add(&Buckets::of([(7, 4), (9, 1)], 50));
        assert_eq!(new.since(&old), Buckets::of([(7, 4), (9, 1)], 50));
        assert_eq!(old.since(&new), old, "it was forgotten meanwhile");
        let other = Buckets::of([(4, 9)], 7);
        assert_eq!(other.since(&old), other);
        assert_eq!(old.since(&old), Buckets::default());
    }

    #[test]
    fn coarse_buckets_lose_nothing_but_detail() {
        let fine = Buckets::of((0..BUCKETS).map(|at| (at, u64::from(at) + 1)), 77);
        for level in 0..=3 {
            let coarse = fine.coarse(level);
            assert_eq!((coarse.count(), coarse.sum_ns()), (fine.count(), 77));
            assert_eq!(coarse.counts().len(), usize::from(BUCKETS) >> level);
            assert_eq!(coarse.coarse(level), coarse);
            assert_eq!(coarse.coarse(3), fine.coarse(3));
        }
    }

    #[test]
    fn nothing_overflows() {
        let most = Buckets::of([(5, u64::MAX), (999, u64::MAX)], u64::MAX);
        let mut twice = most.clone();
        twice.add(&most);
        assert_eq!(twice.count(), u64::MAX);
        assert_eq!(twice.sum_ns(), u64::MAX);
        assert_eq!(twice.permille_ns(400), middle_ns(5));
        assert!(twice.longest_ns() > 1 << 40);
    }
}
