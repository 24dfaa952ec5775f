//! The stages of an I/O at its gateway, and how long they take.

use super::Trace;
use amita_reactor::histogram::Histogram;
use std::time::Duration;

/// A stage of an I/O. They follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is taken out of the host's connection, and parsed.
    Parse,
    /// It goes to the core that sequences it.
    Hop,
    /// It waits in its chunk's queue, gets its version and its checksums.
    Sequence,
    /// Its requests go out.
    Send,
    /// The stores work, and the slowest one that is needed answers.
    Stores,
    /// It waits until all that comes before it has ended, or for leases.
    Order,
    /// Its answer goes to the host.
    Acknowledge,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Stage; 7] = [
        Stage::Parse,
        Stage::Hop,
        Stage::Sequence,
        Stage::Send,
        Stage::Stores,
        Stage::Order,
        Stage::Acknowledge,
    ];

    /// Its name, in metrics and to people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Parse => "parse",
            Stage::Hop => "hop",
            Stage::Sequence => "sequence",
            Stage::Send => "send",
            Stage::Stores => "stores",
            Stage::Order => "order",
            Stage::Acknowledge => "acknowledge",
        }
    }
}

/// How long the stages of traced I/Os took.
#[derive(Clone, Debug, Default)]
pub struct StageTimes {
    stages: [Histogram; Stage::ALL.len()],
    /// On the way to the stores and back.
    pub way: Histogram,
}

impl StageTimes {
    pub(super) fn count(&mut self, trace: &Trace) {
        for (stage, took) in trace.stages() {
            self.stages[stage as usize].record(took);
        }
        for leg in &trace.legs {
            if leg.stages.is_some() {
                self.way.record(leg.way());
            }
        }
    }

    /// Each stage with its histogram.
    pub fn each(&self) -> impl Iterator<Item = (Stage, &Histogram)> {
        Stage::ALL.into_iter().zip(&self.stages)
    }

    /// Adds what another core has counted.
    pub fn add(&mut self, other: &StageTimes) {
        for (own, more) in self.stages.iter_mut().zip(&other.stages) {
            own.add(more);
        }
        self.way.add(&other.way);
    }

    /// The longest that so many of a thousand traced I/Os spent in a stage.
    #[must_use]
    pub fn permille(&self, stage: Stage, permille: u64) -> Duration {
        self.stages[stage as usize].permille(permille)
    }
}
