//! Differences: what one way of doing I/O takes beyond another.

use crate::micros;
use crate::usage::Foreign;
use std::time::Duration;

/// What one measurement came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// CPU of what counts, for one I/O.
    pub cpu_us: f64,
    /// The mean.
    pub latency_us: f64,
    /// I/Os a second.
    pub iops: f64,
    /// What others did meanwhile.
    pub foreign: Foreign,
}

/// What was measured one after the other, to be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// By the client library.
    pub local: Sample,
    /// By the protocol of a host.
    pub remote: Sample,
    /// A round trip on loopback of the sizes that the protocol has.
    pub trip: Duration,
}

impl Turn {
    /// CPU that the protocol adds to an I/O.
    pub fn added_cpu_us(&self) -> f64 {
        self.remote.cpu_us - self.local.cpu_us
    }

    /// Latency that it adds beyond the round trip, which no network protocol can do without.
    pub fn added_latency_us(&self) -> f64 {
        self.remote.latency_us - self.local.latency_us - micros(self.trip)
    }

    /// What others did meanwhile.
    pub fn foreign(&self) -> [Foreign; 2] {
        [self.local.foreign, self.remote.foreign]
    }
}

#[cfg(test)]
mod tests;
