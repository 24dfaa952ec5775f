//! Latencies, in classes of 1.6 %.

/// Steps within a power of two.
const STEPS: u32 = 64;

/// Counts of durations.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; (64 * STEPS) as usize],
            count: 0,
            sum: 0,
        }
    }
}

fn class(ns: u64) -> usize {
    if ns < u64::from(STEPS) {
        return ns as usize;
    }
    let power = ns.ilog2();
    let step = (ns >> (power - STEPS.ilog2())) as u32 - STEPS;
    ((power - STEPS.ilog2() + 1) * STEPS + step) as usize
}

/// The largest duration of a class.
fn upper(class: usize) -> u64 {
    let (power, step) = (class as u32 / STEPS, class as u32 % STEPS);
    if power == 0 {
        return u64::from(step);
    }
    (u64::from(STEPS + step + 1) << (power - 1)) - 1
}

impl Histogram {
    /// One more.
    pub fn add(&mut self, ns: u64) {
        self.counts[class(ns)] += 1;
        self.count += 1;
        self.sum += u128::from(ns);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// In nanoseconds; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The duration that `part` (0 to 1) of them do not exceed, in nanoseconds.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(class);
            }
        }
        0
    }
}
