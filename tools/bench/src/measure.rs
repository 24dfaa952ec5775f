//! Measures a case: runs it, looks at every process before and after, tries again when somebody disturbed it, and
//! counts system calls and allocations in runs of their own.

use crate::case::{Case, Mix};
use crate::client::Running;
use crate::counting::{Counter, Event};
use crate::row::Row;
use crate::testbed::Stores;
use crate::units::Units;
use crate::usage::{Watched, Window};
use amita_terminal::error::{Failure, Result};
use amita_terminal::progress::Steps;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is counted is counted for so long, within a run that is this much longer: `perf` takes its time to start.
const COUNTED: Duration = Duration::from_millis(400);
const COUNTING_RUN: Duration = Duration::from_millis(1200);

/// How a run is judged and repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// More than this of one core's time used by others, in percent, and the run counts as disturbed.
    pub quiet_percent: f64,
    /// How often a disturbed run is tried again.
    pub repeats: u32,
}

/// Measures cases and keeps their rows.
pub struct Measure {
    /// The units of this run.
    pub units: Units,
    /// How long each case is measured.
    pub time: Duration,
    patience: Patience,
    counters: Vec<(Event, Counter)>,
    rows: Vec<Row>,
}

/// What cases are run on: something that starts a client.
pub trait SystemUnderTest {
    /// The processes that serve.
    fn watched(&self) -> Vec<Watched>;
    /// The stores that are written to, where somebody tells of them.
    fn stores(&self) -> Option<Stores> {
        None
    }
    /// Readies everything for a case.
    ///
    /// # Errors
    /// When something cannot be started.
    fn ready(&mut self, case: &Case) -> Result<()>;
    /// Starts the client.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start(&mut self, case: &Case, time: Duration) -> Result<Running<'_>>;
}

impl Measure {
    /// With these rules. `count`: system calls and allocations as well, where this machine can.
    #[must_use]
    pub fn new(units: Units, time: Duration, patience: Patience, count: bool) -> Measure {
        let events = [Event::SystemCalls, Event::Allocations];
        let counters = events
            .into_iter()
            .filter(|_| count)
            .filter_map(|event| Some((event, Counter::new(event)?)))
            .collect();
        Measure {
            units,
            time,
            patience,
            counters,
            rows: Vec::new(),
        }
    }

    /// The rows so far.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Measures a case, says so, and keeps the row; `count`: with what is counted in runs of their own.
    ///
    /// # Errors
    /// When something does not start, or an I/O fails. Never for a figure.
    pub fn case(
        &mut self,
        steps: &mut Steps,
        system: &mut dyn SystemUnderTest,
        case: &Case,
        count: bool,
    ) -> Result<Row> {
        steps.step(&case.label(), || {
            system.ready(case).and_then(|()| self.quiet(system, case, count))
        })
    }

    /// Measures a case until nobody disturbs it, or patience is over; the row is not kept.
    ///
    /// # Errors
    /// When something does not start, or an I/O fails. Never for a figure.
    pub fn alone(&self, system: &mut dyn SystemUnderTest, case: &Case) -> Result<Row> {
        let mut best: Option<Row> = None;
        let mut attempts = 0;
        while attempts <= self.patience.repeats {
            attempts += 1;
            let row = self.once(system, case)?;
            let disturbed = row.foreign.disturbs(self.patience.quiet_percent);
            best = Some(quieter(best, row));
            if !disturbed {
                break;
            }
        }
        let mut row = best.ok_or_else(|| Failure::new("nothing was tried"))?;
        row.attempts = attempts;
        row.disturbed = row.foreign.disturbs(self.patience.quiet_percent);
        Ok(row)
    }

    fn quiet(&mut self, system: &mut dyn SystemUnderTest, case: &Case, count: bool) -> Result<Row> {
        let mut row = self.alone(system, case)?;
        if count {
            for (event, counter) in &self.counters {
                let counts = counted(counter, system, case)?;
                match event {
                    Event::SystemCalls => row.system_calls = counts,
                    Event::Allocations => row.allocations = counts,
                }
            }
        }
        self.rows.push(row.clone());
        Ok(row)
    }

    fn once(&self, system: &mut dyn SystemUnderTest, case: &Case) -> Result<Row> {
        let mut watched = system.watched();
        let stores = system.stores().filter(|_| case.mix != Mix::Read);
        let wrote = || stores.as_ref().and_then(Stores::wrote);
        let mut running = system.start(case, self.time)?;
        watched.extend(running.watched());
        running.begun()?;
        // Asking costs the nodes some CPU, so that is outside of the window.
        let before = wrote();
        let window = Window::open(&watched)?;
        let ended = running.ended();
        let usage = window.close();
        let after = wrote();
        ended?;
        // What the client has to say comes first: an I/O that failed explains a process that has ended.
        let done = running.finish(case.mix)?;
        let written = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok(Row::new(case, &done, &usage?, &self.units, written))
    }
}

/// Of two attempts, the one beside which others did less.
fn quieter(best: Option<Row>, row: Row) -> Row {
    match best {
        Some(best) if best.foreign.sum() <= row.foreign.sum() => best,
        _ => row,
    }
}

fn counted(counter: &Counter, system: &mut dyn SystemUnderTest, case: &Case) -> Result<Option<BTreeMap<String, f64>>> {
    let mut watched = system.watched();
    let mut running = system.start(case, COUNTING_RUN)?;
    watched.extend(running.watched());
    running.begun()?;
    let counts = counter.count(&watched, COUNTED);
    running.ended()?;
    let done = running.finish(case.mix)?;
    let ios = done.iops * COUNTED.as_secs_f64();
    Ok(counts.map(|counts| {
        let each = counts.into_iter();
        each.map(|(name, count)| (name, (count as f64 / ios * 1000.0).round() / 1000.0))
            .collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::quieter;
    use crate::case::{Case, Front, Mix};
    use crate::row::{Done, Row};
    use crate::units::Units;
    use crate::usage::{Foreign, Usage};
    use std::time::Duration;

    #[test]
    fn the_quieter_attempt_counts() {
        let units = Units {
            p: Duration::from_micros(10),
            r: Duration::from_micros(50),
            cores: 2,
        };
        let row = |percent: f64, iops: f64| {
            let usage = Usage {
                length: Duration::from_secs(1),
                foreign: Foreign {
                    percent,
                    steal_percent: 1.0,
                },
                ..Usage::default()
            };
            let done = Done {
                iops,
                ..Done::default()
            };
            Row::new(&Case::new(Front::Nbd, Mix::Read, 1), &done, &usage, &units, None)
        };
        // Not the faster one: that would be choosing by the figure.
        let best = quieter(Some(row(50.0, 2000.0)), row(20.0, 1000.0));
        assert_eq!(best.iops, 1000.0);
        assert_eq!(quieter(Some(best), row(90.0, 5000.0)).iops, 1000.0);
        assert_eq!(quieter(None, row(90.0, 5.0)).iops, 5.0);
    }
}
