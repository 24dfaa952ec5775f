//! What is said between the benchmark and its load generators.

use crate::case::{Mix, Order};
use amita_testkit::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// A line to the load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Open volumes by their names, in place of those that are open.
    Open(Vec<String>),
    /// Write each block of all open volumes' regions once.
    Fill {
        /// Bytes of each region.
        size_bytes: u64,
    },
    Run(Job),
}

/// What a run is to do, on each open volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Reads or writes.
    pub mix: Mix,
    pub order: Order,
    /// Bytes of one I/O.
    pub block_bytes: u32,
    /// Under way at once, on each volume.
    pub depth: u32,
    /// Bytes of the region, from the volume's start.
    pub size_bytes: u64,
    /// Seconds before the measured ones.
    pub ramp_seconds: f64,
    /// Seconds that are measured.
    pub seconds: f64,
    /// I/Os a second on all volumes together, started at random times whether earlier ones are done or not; without it
    /// one begins when another ends.
    pub rate: Option<f64>,
    /// Ends after so many I/Os, whatever the time.
    pub ios: Option<u64>,
    /// Where chance begins.
    pub seed: u64,
}

/// A line from the load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is connected; opened; filled.
    Ready,
    /// The measured time begins.
    Begun,
    /// The measured time is over.
    Ended,
    /// All I/Os are done.
    Done(Outcome),
    /// It did not work, and the process ends.
    Failed(String),
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Latencies of the reads that were done in them. With a rate: since the time at which each was to start, so that
    /// what had to wait for others counts in full.
    pub read: Histogram,
    /// The same of writes.
    pub write: Histogram,
    /// I/Os done in each tenth of a second.
    pub tenths: Vec<u32>,
    /// With a rate: those that could not even be started in time. Their waiting until the end is among the latencies.
    pub unserved: u64,
}

impl Outcome {
    /// I/Os a second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        let all = self.read.count() + self.write.count();
        all.saturating_sub(self.unserved) as f64 / self.seconds.max(1e-9)
    }

    /// How much the rate's mean may be off by chance, as a share of it: the standard error over the tenths of seconds.
    #[must_use]
    pub fn noise(&self) -> f64 {
        let count = self.tenths.len() as f64;
        if count < 2.0 {
            return 0.0;
        }
        let mean = self.tenths.iter().map(|&ios| f64::from(ios)).sum::<f64>() / count;
        let squares = self.tenths.iter().map(|&ios| (f64::from(ios) - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
        deviation / count.sqrt() / mean.max(1e-9)
    }

    /// Adds what another load generator did at the same time.
    pub fn add(&mut self, other: &Outcome) {
        self.seconds = self.seconds.max(other.seconds);
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.tenths.resize(self.tenths.len().max(other.tenths.len()), 0);
        for (mine, its) in self.tenths.iter_mut().zip(&other.tenths) {
            *mine += its;
        }
        self.unserved += other.unserved;
    }
}
