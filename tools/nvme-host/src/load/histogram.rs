//! How long commands took.

use std::time::Duration;

/// Parts of each power of two: a figure is right within a sixteenth.
const PARTS: u32 = 16;

/// Counts of latencies, in classes that grow with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Latency {
            counts: vec![0; 64 * PARTS as usize],
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl Latency {
    /// One more.
    pub fn record(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.counts[class(ns)] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.checked_div(self.count).unwrap_or(0))
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// What that part of them (0 to 1) does not exceed.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let due = (self.count as f64 * part.clamp(0.0, 1.0)).ceil() as u64;
        let mut seen = 0;
        for (class, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= due && count > 0 {
                return Duration::from_nanos(upper(class).min(self.max_ns));
            }
        }
        self.max()
    }

    /// Takes in those of another.
    pub fn merge(&mut self, other: &Latency) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// The class of a latency: its highest bit, and the four below.
fn class(ns: u64) -> usize {
    let high = 63 - ns.leading_zeros();
    let part = if high >= 4 {
        (ns >> (high - 4)) as u32 & (PARTS - 1)
    } else {
        (ns << (4 - high)) as u32 & (PARTS - 1)
    };
    (high * PARTS + part) as usize
}

/// The highest latency of a class.
fn upper(class: usize) -> u64 {
    let (high, part) = (class as u32 / PARTS, class as u64 % u64::from(PARTS));
    if high < 4 {
        return (16 + part) << high >> 4;
    }
    let whole = u128::from(16 + part + 1) << high >> 4;
    u64::try_from(whole).unwrap_or(u64::MAX).saturating_sub(1)
}

#[cfg(test)]
mod tests;
