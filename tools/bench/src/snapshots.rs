//! What snapshots cost the volume that they are of: its head with many of them, the first writes after one, the taking, the
//! deletion; and what clones cost.

mod clones;
mod deletion;
mod first_write;
mod head;

use crate::measure::Measure;
use crate::report::Figures;
use crate::testbed::{Product, Testbed};
use amita_control::admin::{self, TakingState};
use amita_metadata::Client;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long one snapshot may take at the most.
const TAKING_MS: f64 = 10.0;
/// How long it is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// Measures and judges all of it, on clusters that `start` makes: with room for so many bytes in each store, and a volume of so many.
///
/// # Errors
/// When something does not start, or an I/O fails. Never for a figure.
pub fn measure(
    steps: &mut Steps,
    measuring: &mut Measure,
    product: &Product,
    start: impl Fn(&Product, Room) -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    head::measure(steps, measuring, product, &start, figures)?;
    first_write::measure(steps, product, &start, figures)?;
    deletion::measure(steps, product, &start, figures)?;
    clones::measure(steps, product, &start, figures)
}

/// How large a cluster is.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// What each store holds.
    pub store_bytes: u64,
    /// The volume's size: it is thin.
    pub volume_bytes: u64,
}

/// Whoever takes snapshots of a volume and deletes them.
struct Operator {
    meta: Client,
    volume: String,
    taken: u32,
}

impl Operator {
    fn of(testbed: &Testbed) -> Result<Operator> {
        Ok(Operator {
            meta: testbed.cluster.metadata_client()?,
            volume: testbed.volumes[0].clone(),
            taken: 0,
        })
    }

    /// Takes one; how long it took, from the wish to the word that it is there.
    fn take(&mut self) -> Result<Duration> {
        let name = format!("s{}", self.taken);
        let began = Instant::now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wish = admin::ask_snapshot(&self.meta, &self.volume, &name, BTreeMap::new(), now).map_err(failed)?;
        loop {
            match admin::snapshot_state(&self.meta, &wish).map_err(failed)? {
                TakingState::Taken(_) => break,
                TakingState::Waiting if began.elapsed() < LIMIT => std::thread::sleep(Duration::from_micros(500)),
                other => return Err(Failure::new(format!("snapshot {name} is not taken: {other:?}"))),
            }
            interrupt::check()?;
        }
        self.taken += 1;
        Ok(began.elapsed())
    }

    /// Deletes one; how long the word took. Its space comes back later.
    fn delete(&self, number: u32) -> Result<Duration> {
        let began = Instant::now();
        admin::delete_snapshot(&self.meta, &self.volume, &format!("s{number}")).map_err(failed)?;
        Ok(began.elapsed())
    }
}

fn failed(why: impl fmt::Display) -> Failure {
    Failure::new(why.to_string())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// When it does not change any more: slots that were replaced are free when the log has moved on.
fn settled(free: &impl Fn() -> Result<u64>) -> Result<u64> {
    let mut last = free()?;
    loop {
        interrupt::sleep(Duration::from_millis(1500))?;
        let now = free()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}
