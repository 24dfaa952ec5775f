//! Latencies, counted: a histogram whose buckets grow with the value (as HDR histograms do), so that one of 9 KiB of
//! counters that are touched holds microseconds and minutes alike.
//!
//! A value is found again within one part in 128. Recording is a shift and an addition; nothing is allocated.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Buckets between one power of two and the next.
const STEPS: u64 = 128;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Powers of two above the first [`STEPS`] values, which have a bucket each: up to about 2.4 hours in nanoseconds.
const OCTAVES: u64 = 36;
const BUCKETS: usize = ((OCTAVES + 1) * STEPS) as usize;

/// Counts of durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new() -> Histogram {
        Histogram {
            counts: vec![0; BUCKETS],
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }

    /// Counts one, in nanoseconds. What is longer than the last bucket is counted there; the maximum stays exact.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, exactly; zero of nothing.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let mean = self.sum_ns.checked_div(u128::from(self.count)).unwrap_or_default();
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The same with its fraction, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }

    /// The largest, exactly.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// The value that this share (0 to 1) of all is not above, as the upper end of its bucket; zero of nothing.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper(index as u64).min(self.max_ns));
            }
        }
        self.max()
    }

    /// Adds all that another has counted.
    pub fn add(&mut self, other: &Histogram) {
        for (mine, its) in self.counts.iter_mut().zip(&other.counts) {
            *mine += its;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// The bucket of a value.
fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let octave = u64::from(ns.ilog2() - STEP_BITS);
    let step = (ns >> octave) - STEPS;
    (((octave + 1) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper(bucket: u64) -> u64 {
    if bucket < STEPS {
        return bucket;
    }
    let (octave, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step + 1) << octave) - 1
}

/// As it travels: `[bucket, count]` of those that counted something.
#[derive(Serialize, Deserialize)]
struct Sparse {
    buckets: Vec<(usize, u64)>,
    sum_ns: u128,
    max_ns: u64,
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counted = self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0);
        let sparse = Sparse {
            buckets: counted.collect(),
            sum_ns: self.sum_ns,
            max_ns: self.max_ns,
        };
        sparse.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        let sparse = Sparse::deserialize(deserializer)?;
        let mut histogram = Histogram::new();
        for (bucket, count) in sparse.buckets {
            let place = histogram.counts.get_mut(bucket);
            *place.ok_or_else(|| serde::de::Error::custom("no such bucket"))? += count;
            histogram.count += count;
        }
        (histogram.sum_ns, histogram.max_ns) = (sparse.sum_ns, sparse.max_ns);
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests;
