//! Clusters side by side that take turns at the same I/O, so that a minute of the machine that is unlike the one before is so for all.
//! Whoever waits for its turn is idle, and an idle cluster takes next to nothing.

use crate::case::Case;
use crate::measure::{Measure, SystemUnderTest};
use crate::row::Row;
use crate::site::Site;
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use std::time::Duration;

/// How often each has its turn. The middle one counts.
const TURNS: usize = 3;
/// How long one is.
pub const TURN: Duration = Duration::from_millis(2000);

/// What one cluster came to in one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// CPU of all processes for one I/O.
    pub cpu_us: f64,
    /// The mean.
    pub latency_us: f64,
    /// I/Os a second.
    pub iops: f64,
}

impl Sample {
    fn of(row: &Row) -> Sample {
        Sample {
            cpu_us: row.cpu_total_us,
            latency_us: row.latency().mean,
            iops: row.iops,
        }
    }
}

/// All clusters, one after the other. The first is what the others are compared with.
pub type Turn = Vec<Sample>;

/// One after the other, several times over.
///
/// # Errors
/// When something does not start, or an I/O fails. Never for a figure.
pub fn take(measuring: &Measure, sites: &mut [Site], case: &Case) -> Result<Vec<Turn>> {
    for site in sites.iter_mut() {
        site.ready(case)?;
    }
    let one = |site: &mut Site| {
        interrupt::check()?;
        Ok(Sample::of(&measuring.alone(site, case)?))
    };
    (0..TURNS).map(|_| sites.iter_mut().map(one).collect()).collect()
}

/// What a cluster takes beyond the first.
#[must_use]
pub fn added_cpu_us(turn: &Turn, of: usize) -> f64 {
    turn[of].cpu_us - turn[0].cpu_us
}

/// What is left of the first one's rate.
#[must_use]
pub fn rate_left(turn: &Turn, of: usize) -> f64 {
    turn[of].iops / turn[0].iops.max(1e-9)
}
