//! How much a figure is over an interval, and how intervals and objects become one.

use crate::buckets::Buckets;
use crate::metric::{Kind, Metric};
use std::collections::BTreeMap;

/// A figure over an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// See [`Kind::Rate`].
    Rate {
        /// What was counted in all.
        sum: u64,
        /// The most of it a second, in thousandths, of an interval of ten seconds.
        max_milli: u64,
    },
    /// See [`Kind::Gauge`].
    Gauge {
        /// Its average.
        mean: u64,
        /// For how many milliseconds it is known.
        ms: u64,
        /// The most.
        max: u64,
    },
    /// See [`Kind::Latency`].
    Latency(Buckets),
}

/// The average of two, each as long as it is known.
fn weighted(one: (u64, u64), other: (u64, u64)) -> u64 {
    let ms = u128::from(one.1) + u128::from(other.1);
    let sum = u128::from(one.0) * u128::from(one.1) + u128::from(other.0) * u128::from(other.1);
    sum.checked_add(ms / 2)
        .and_then(|sum| sum.checked_div(ms))
        .map_or(one.0, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
}

impl Value {
    /// How it is kept.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Value::Rate { .. } => Kind::Rate,
            Value::Gauge { .. } => Kind::Gauge,
            Value::Latency(_) => Kind::Latency,
        }
    }

    /// The same figure of the same object over the next interval joins it.
    pub fn follow(&mut self, next: &Value) {
        match (self, next) {
            (
                Value::Rate { sum, max_milli },
                Value::Rate {
                    sum: more,
                    max_milli: most,
                },
            ) => {
                *sum = sum.saturating_add(*more);
                *max_milli = (*max_milli).max(*most);
            }
            (
                Value::Gauge { mean, ms, max },
                Value::Gauge {
                    mean: next_mean,
                    ms: next_ms,
                    max: most,
                },
            ) => {
                *mean = weighted((*mean, *ms), (*next_mean, *next_ms));
                *ms = ms.saturating_add(*next_ms);
                *max = (*max).max(*most);
            }
            (Value::Latency(own), Value::Latency(more)) => own.add(more),
            _ => {}
        }
    }

    /// The same figure of another object over the same interval joins it. The maximum is then that of both at most: when each had its
    /// own is not known any more.
    pub fn join(&mut self, other: &Value) {
        match (self, other) {
            (
                Value::Rate { sum, max_milli },
                Value::Rate {
                    sum: more,
                    max_milli: most,
                },
            ) => {
                *sum = sum.saturating_add(*more);
                *max_milli = max_milli.saturating_add(*most);
            }
            (
                Value::Gauge { mean, ms, max },
                Value::Gauge {
                    mean: other_mean,
                    ms: other_ms,
                    max: most,
                },
            ) => {
                *mean = mean.saturating_add(*other_mean);
                *ms = (*ms).max(*other_ms);
                *max = max.saturating_add(*most);
            }
            (Value::Latency(own), Value::Latency(more)) => own.add(more),
            _ => {}
        }
    }
}

/// The figures of an object over an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures(pub BTreeMap<Metric, Value>);

impl Figures {
    fn each(&mut self, others: &Figures, merge: fn(&mut Value, &Value)) {
        for (metric, value) in &others.0 {
            match self.0.get_mut(metric) {
                Some(own) => merge(own, value),
                None => drop(self.0.insert(*metric, value.clone())),
            }
        }
    }

    /// Those of the next interval join these.
    pub fn follow(&mut self, next: &Figures) {
        self.each(next, Value::follow);
    }

    /// Those of another object join these.
    pub fn join(&mut self, other: &Figures) {
        self.each(other, Value::join);
    }

    /// The maximum of each rate is its average: they are of the shortest interval, of so many milliseconds.
    pub(crate) fn settle(&mut self, ms: u64) {
        for value in self.0.values_mut() {
            if let Value::Rate { sum, max_milli } = value {
                let milli = u128::from(*sum) * 1_000_000 / u128::from(ms.max(1));
                *max_milli = u64::try_from(milli).unwrap_or(u64::MAX);
            }
        }
    }

    /// How busy it was: bytes, and 4 KiB for each I/O.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let sum = |metric| match self.0.get(&metric) {
            Some(Value::Rate { sum, .. }) => *sum,
            _ => 0,
        };
        sum(Metric::Iops)
            .saturating_mul(4096)
            .saturating_add(sum(Metric::Bytes))
    }

    /// With histograms of fewer buckets.
    pub(crate) fn coarse(&self, level: u32) -> Figures {
        let coarse = |value: &Value| match value {
            Value::Latency(buckets) => Value::Latency(buckets.coarse(level)),
            other => other.clone(),
        };
        Figures(self.0.iter().map(|(metric, value)| (*metric, coarse(value))).collect())
    }
}
