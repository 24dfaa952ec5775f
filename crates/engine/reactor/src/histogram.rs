//! A histogram of latencies: eight buckets to each doubling, in memory that never grows.
//!
//! Recording one costs a few nanoseconds. A quantile is off by at most a sixteenth.

use std::time::Duration;

/// Buckets to each doubling, as a power of two.
const FINE_BITS: u32 = 3;
const FINE: u64 = 1 << FINE_BITS;
/// The first buckets are of so many nanoseconds each, as a power of two: nothing that is measured here is quicker.
const UNIT_BITS: u32 = 7;
/// Up to 2^37 units: five hours. What took longer counts as that.
const BUCKETS: usize = 36 * FINE as usize;

#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: Box::new([0; BUCKETS]),
            count: 0,
            sum_ns: 0,
        }
    }
}

fn bucket(latency: Duration) -> usize {
    let units = (latency.as_nanos() as u64) >> UNIT_BITS;
    if units < FINE {
        return units as usize;
    }
    let doublings = units.ilog2() - FINE_BITS;
    let at = u64::from(doublings) * FINE + (units >> doublings);
    (at as usize).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn value(bucket: usize) -> Duration {
    let at = bucket as u64;
    let (units, width) = if at < 2 * FINE {
        (at, 1)
    } else {
        let doublings = at / FINE - 1;
        ((at % FINE + FINE) << doublings, 1 << doublings)
    };
    Duration::from_nanos(((2 * units + width) << UNIT_BITS) / 2)
}

impl Histogram {
    /// Counts one.
    pub fn record(&mut self, latency: Duration) {
        let count = &mut self.buckets[bucket(latency)];
        *count = count.saturating_add(1);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(latency.as_nanos() as u64);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; zero when nothing was counted.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.checked_div(self.count).unwrap_or(0))
    }

    /// The latency that so many of a thousand do not exceed; zero when nothing was counted.
    #[must_use]
    pub fn permille(&self, permille: u64) -> Duration {
        let mut left = (self.count * permille).div_ceil(1000).max(1);
        for (at, &count) in self.buckets.iter().enumerate() {
            if count >= left {
                return value(at);
            }
            left -= count;
        }
        Duration::ZERO
    }

    /// Of all that were counted, together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// The buckets that hold something: (number, how many).
    pub fn counts(&self) -> impl Iterator<Item = (u16, u64)> {
        let counts = self.buckets.iter().enumerate();
        counts
            .filter(|(_, count)| **count > 0)
            .map(|(at, &count)| (at as u16, count))
    }

    /// What has such buckets, and was so long in all. Buckets that do not exist are the last one.
    #[must_use]
    pub fn from_counts(counts: impl IntoIterator<Item = (u16, u64)>, sum: Duration) -> Histogram {
        let mut made = Histogram {
            sum_ns: sum.as_nanos() as u64,
            ..Histogram::default()
        };
        for (at, count) in counts {
            let bucket = &mut made.buckets[usize::from(at).min(BUCKETS - 1)];
            *bucket = bucket.saturating_add(count);
            made.count += count;
        }
        made
    }

    /// What was counted since `earlier`, an older state of the same; all of it, where that was forgotten meanwhile.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let older = |(own, old): (&u64, &u64)| old <= own;
        if !self.buckets.iter().zip(earlier.buckets.iter()).all(older) {
            return self.clone();
        }
        let counts = self.buckets.iter().zip(earlier.buckets.iter()).enumerate();
        Histogram::from_counts(
            counts.map(|(at, (own, old))| (at as u16, own - old)),
            Duration::from_nanos(self.sum_ns.saturating_sub(earlier.sum_ns)),
        )
    }

    /// How many took longer than `limit`, as far as the buckets tell.
    #[must_use]
    pub fn above(&self, limit: Duration) -> u64 {
        let from = (bucket(limit) + 1).min(BUCKETS);
        self.buckets[from..].iter().sum()
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Histogram) {
        for (own, more) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *own = own.saturating_add(*more);
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Forgets half, so that what is newer weighs more.
    pub fn halve(&mut self) {
        let mean = self.mean().as_nanos() as u64;
        self.count = 0;
        for count in self.buckets.iter_mut() {
            *count /= 2;
            self.count += *count;
        }
        self.sum_ns = mean.saturating_mul(self.count);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.buckets.fill(0);
            self.count = 0;
            self.sum_ns = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_lies_in_its_bucket() {
        for at in 0..BUCKETS - 1 {
            assert_eq!(bucket(value(at)), at, "{:?}", value(at));
            assert!(value(at) < value(at + 1));
        }
        assert_eq!(bucket(Duration::from_secs(1 << 40)), BUCKETS - 1);
        for ns in [1, 1000, 77_777, 1_000_000, 200_000_000, 60_000_000_000_u64] {
            let found = value(bucket(Duration::from_nanos(ns))).as_nanos() as u64;
            let off = found.abs_diff(ns);
            assert!(off <= (ns / 16).max(128), "{ns} is taken for {found}");
        }
    }

    #[test]
    fn quantiles_and_what_lies_above() {
        let mut seen = Histogram::default();
        assert_eq!((seen.permille(990), seen.mean()), (Duration::ZERO, Duration::ZERO));
        for us in 1..=1000 {
            seen.record(Duration::from_micros(us));
        }
        let near = |found: Duration, us: u64| {
            let found = found.as_micros() as u64;
            assert!(found.abs_diff(us) <= us / 15, "{found} and not about {us}");
        };
        near(seen.permille(500), 500);
        near(seen.permille(990), 990);
        near(seen.mean(), 500);
        assert!(seen.above(Duration::from_micros(900)).abs_diff(100) <= 60);
        assert_eq!(seen.above(Duration::from_millis(2)), 0);
        let mut twice = seen.clone();
        twice.add(&seen);
        assert_eq!(twice.count(), 2000);
        twice.halve();
        assert_eq!(twice.count(), 1000);
        near(twice.mean(), 500);
        let later = twice.since(&seen);
        assert_eq!(later.count(), 0, "half of twice as much is as much");
        twice.record(Duration::from_millis(7));
        let later = twice.since(&seen);
        near(later.permille(500), 7000);
        let copy = Histogram::from_counts(twice.counts(), twice.sum());
        assert_eq!((copy.count(), copy.sum()), (1001, twice.sum()));
        assert_eq!(copy.permille(990), twice.permille(990));
        assert_eq!(seen.since(&twice).count(), 1000, "it was forgotten meanwhile");
        twice.clear();
        assert_eq!((twice.count(), twice.above(Duration::ZERO)), (0, 0));
    }
}
