//! The traces of one core: which I/Os are traced, what is known of them while they are under way, and those that have
//! ended.
//!
//! # What is traced
//! One in [`TraceConfig::one_in`] I/Os, by a count and not by chance, and beside that the first one after
//! [`TraceConfig::at_least_every`], so that a core with little to do has traces too. A traced I/O's [`TraceId`] goes with it
//! to the sequencer, with the requests to the stores, and comes back with their answers (`amita_types::trace`).
//!
//! # What it costs
//! An I/O that is not traced pays for a count, for the times of passes that it keeps anyway, and for one look at how long
//! it took. A pass in which a traced I/O did something is *hot*: it reads the clock once more between its steps
//! (`Driver::refresh`), because within a pass all else has one time. All memory is taken at the start.
//!
//! # Slow I/Os
//! Every I/O that takes longer than a limit is kept, traced or not: with what the times of passes tell of its stages, and with
//! the store that answered last. The limit is ten times the p99 of the core's I/Os, and at least 5 ms, if it is not set.

mod record;
mod stages;

pub use record::{Leg, Trace};
pub use stages::{Stage, StageTimes};

use crate::mail::Origin;
use amita_reactor::histogram::Histogram;
use amita_reactor::{Driver, Time};
use amita_sequencer::Course;
use amita_types::io::{IoError, Op};
use amita_types::trace::StoreTrace;
use amita_types::{StoreId, TraceId, VolumeId};
use std::collections::VecDeque;
use std::time::Duration;

/// Traced I/Os under way, at most: with more, an I/O that would be traced is not.
const MAX_ACTIVE: usize = 64;
/// The least limit beyond which an I/O is slow, if none is set.
const LEAST_SLOW: Duration = Duration::from_millis(5);
/// The limit is so many times the p99.
const SLOW_FACTOR: u32 = 10;
/// One in so many I/Os counts for the p99.
const COUNT_ONE_IN: u64 = 8;
/// After so many of those the limit is set anew, and what is older weighs half.
const COUNTED: u64 = 512;

/// Which I/Os are traced and kept.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// One in so many I/Os is traced; 0: none.
    pub one_in: u32,
    /// The first I/O is traced when the last traced one is so long ago.
    pub at_least_every: Duration,
    /// I/Os that take longer are kept; `None`: ten times the p99, at least 5 ms.
    pub slow: Option<Duration>,
    /// So many traces are kept, and so many slow ones.
    pub kept: usize,
}

impl Default for TraceConfig {
    fn default() -> TraceConfig {
        TraceConfig {
            one_in: 1000,
            at_least_every: Duration::from_millis(100),
            slow: None,
            kept: 128,
        }
    }
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounters {
    /// I/Os that were given a trace.
    pub traced: u64,
    /// I/Os that would have been, while as many as there may be were under way.
    pub missed: u64,
    /// I/Os that took longer than the limit.
    pub slow: u64,
}

/// The traces of one core. See the module.
#[derive(Debug)]
pub struct Traces {
    config: TraceConfig,
    core: u16,
    /// I/Os since the last one that was traced for its number.
    count: u32,
    given: u32,
    last_given: Time,
    hot: bool,
    active: Vec<Trace>,
    ended: VecDeque<Trace>,
    slow: VecDeque<Trace>,
    /// Traced I/Os whose ends go to their hosts in this pass, with the core of their sequencer.
    acknowledging: Vec<(u16, TraceId)>,
    slow_after: Duration,
    /// Those that were kept, in all: each has its number.
    kept: u64,
    seen: u64,
    recent: Histogram,
    stages: StageTimes,
    counters: TraceCounters,
}

impl Traces {
    /// None yet.
    #[must_use]
    pub fn new(config: TraceConfig, core: usize) -> Traces {
        Traces {
            core: core as u16,
            count: 0,
            given: 0,
            last_given: Time(0),
            hot: false,
            active: Vec::with_capacity(MAX_ACTIVE),
            ended: VecDeque::with_capacity(config.kept),
            slow: VecDeque::with_capacity(config.kept),
            acknowledging: Vec::with_capacity(MAX_ACTIVE),
            slow_after: config.slow.unwrap_or(LEAST_SLOW),
            kept: 0,
            seen: 0,
            recent: Histogram::default(),
            stages: StageTimes::default(),
            counters: TraceCounters::default(),
            config,
        }
    }

    /// Shall the I/O that comes in now be traced? Then under this id, and the pass is hot.
    #[inline]
    pub fn sample(&mut self, now: Time) -> TraceId {
        self.count += 1;
        let due = self.count >= self.config.one_in || now >= self.last_given.plus(self.config.at_least_every);
        if !due || self.config.one_in == 0 {
            return TraceId::NONE;
        }
        self.count = 0;
        self.last_given = now;
        self.hot = true;
        self.counters.traced += 1;
        let id = TraceId::new(self.core, self.given);
        self.given = self.given.wrapping_add(1);
        id
    }

    /// A traced I/O does something in this pass.
    pub fn touch(&mut self) {
        self.hot = true;
    }

    /// Between two steps of a pass: reads the clock, if the pass is hot.
    #[inline]
    pub fn refine(&self, driver: &mut dyn Driver) {
        if self.hot {
            driver.refresh();
        }
    }

    pub fn begin_pass(&mut self) {
        self.hot = false;
    }

    /// A traced I/O has come to the core that sequences it: this one.
    pub fn open(&mut self, now: Time, origin: &Origin, volume: VolumeId, op: Op) {
        if self.active.len() >= MAX_ACTIVE {
            self.counters.missed += 1;
            return;
        }
        self.hot = true;
        self.active.push(Trace {
            id: origin.trace,
            arrived: origin.arrived,
            parsed: origin.parsed,
            queued: now,
            ..Trace::new(volume, op)
        });
    }

    /// Traces other I/Os from now on; what was kept stays.
    pub fn set(&mut self, config: TraceConfig) {
        self.slow_after = config.slow.unwrap_or(self.slow_after);
        self.count = 0;
        self.config = config;
    }

    fn find(&mut self, id: TraceId) -> Option<usize> {
        self.active.iter().position(|trace| trace.id == id)
    }

    /// A request of a traced I/O leaves its sequencer, for a store of this node (which then has it) or another one.
    pub fn sent(&mut self, now: Time, id: TraceId, store: StoreId, local: bool) {
        self.hot = true;
        if let Some(at) = self.find(id) {
            self.active[at].send(now, store, local);
        }
    }

    /// What was to be sent in this pass was handed over to be sent.
    pub fn left(&mut self, now: Time) {
        for trace in &mut self.active {
            trace.left(now);
        }
    }

    /// A store has answered a traced request.
    pub fn answered(&mut self, now: Time, store: StoreId, stages: &StoreTrace) {
        self.hot = true;
        if let Some(at) = self.find(stages.id) {
            self.active[at].answer(now, store, stages);
        }
    }

    /// An I/O has ended at its sequencer: a traced one, or any other.
    #[inline]
    pub fn ended(&mut self, now: Time, io: &Ended<'_>) {
        let took = now.since(io.origin.arrived);
        self.seen += 1;
        if self.seen.is_multiple_of(COUNT_ONE_IN) {
            self.learn(took);
        }
        if io.origin.trace.is_some() {
            self.hot = true;
            if let Some(at) = self.find(io.origin.trace) {
                self.active[at].end(now, io);
            }
        } else if took >= self.slow_after {
            self.keep_slow(now, io);
        }
    }

    fn learn(&mut self, took: Duration) {
        self.recent.record(took);
        if self.recent.count() >= COUNTED {
            if self.config.slow.is_none() {
                self.slow_after = LEAST_SLOW.max(self.recent.permille(990) * SLOW_FACTOR);
            }
            self.recent.halve();
        }
    }

    fn number(&mut self) -> u64 {
        self.kept += 1;
        self.kept
    }

    #[cold]
    fn keep_slow(&mut self, now: Time, io: &Ended<'_>) {
        self.counters.slow += 1;
        let mut trace = Trace {
            arrived: io.origin.arrived,
            parsed: io.origin.parsed,
            queued: io.began,
            ..Trace::new(io.volume, io.op)
        };
        trace.end(now, io);
        trace.acknowledged = now;
        trace.is_slow = true;
        trace.number = self.number();
        keep(&mut self.slow, self.config.kept, trace);
    }

    /// The end of a traced I/O is handed to its host's session, on this core.
    pub fn acknowledge(&mut self, origin: &Origin, sequencing_core: u16) {
        if origin.trace.is_some() && self.acknowledging.len() < MAX_ACTIVE {
            self.hot = true;
            self.acknowledging.push((sequencing_core, origin.trace));
        }
    }

    /// What was to be sent to hosts in this pass was handed over. Those that another core has sequenced are returned: it
    /// is to be told.
    pub fn acknowledged(&mut self, now: Time) -> Option<(u16, TraceId)> {
        while let Some((core, id)) = self.acknowledging.pop() {
            if core != self.core {
                return Some((core, id));
            }
            self.close(now, id);
        }
        None
    }

    /// The host of a traced I/O was told: the trace is whole.
    pub fn close(&mut self, now: Time, id: TraceId) {
        let Some(at) = self.find(id) else { return };
        let mut trace = self.active.swap_remove(at);
        trace.acknowledged = now;
        trace.number = self.number();
        trace.is_slow = trace.total() >= self.slow_after;
        self.stages.count(&trace);
        if trace.is_slow {
            self.counters.slow += 1;
            keep(&mut self.slow, self.config.kept, trace.clone());
        }
        keep(&mut self.ended, self.config.kept, trace);
    }

    /// Does anything wait for the end of the pass?
    #[must_use]
    pub fn is_hot(&self) -> bool {
        self.hot
    }

    /// The last traces, oldest first.
    pub fn recent(&self) -> impl Iterator<Item = &Trace> {
        self.ended.iter()
    }

    /// The last slow I/Os, oldest first.
    pub fn slow(&self) -> impl Iterator<Item = &Trace> {
        self.slow.iter()
    }

    /// Those of the last ones whose number is above this, each once, in no order. What was pushed out meanwhile is not among them: the
    /// difference to [`Traces::kept`] tells how many that are.
    pub fn kept_after(&self, number: u64) -> impl Iterator<Item = &Trace> {
        let first = self.ended.front().map_or(u64::MAX, |trace| trace.number);
        // A traced one that was slow stands in both, until the first one has pushed it out.
        let only_slow = move |trace: &&Trace| !trace.id.is_some() || trace.number < first;
        let all = self.ended.iter().chain(self.slow.iter().filter(only_slow));
        all.filter(move |trace| trace.number > number)
    }

    /// How many were kept in all: the number of the last one.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// How long the stages of traced I/Os take.
    #[must_use]
    pub fn stages(&self) -> &StageTimes {
        &self.stages
    }

    /// I/Os that take longer are slow.
    #[must_use]
    pub fn slow_after(&self) -> Duration {
        self.slow_after
    }

    /// How often things happened.
    #[must_use]
    pub fn counters(&self) -> &TraceCounters {
        &self.counters
    }
}

/// An I/O that has ended at its sequencer.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Where it came from.
    pub origin: &'a Origin,
    /// When it came to the sequencer's core.
    pub began: Time,
    pub volume: VolumeId,
    pub op: Op,
    pub error: Option<IoError>,
    /// When it passed which step.
    pub course: &'a Course,
}

fn keep(ring: &mut VecDeque<Trace>, most: usize, trace: Trace) {
    if ring.len() >= most {
        ring.pop_front();
    }
    if most > 0 {
        ring.push_back(trace);
    }
}

#[cfg(test)]
mod tests;
