//! Whose computation is next, and when. Pure: time is told.
//!
//! Sources take turns, so that one that asks for much waits for itself. Each source, and all of them together, have an allowance of
//! the time of a processor that grows as time passes, up to a burst; what is taken may overdraw it, by one computation. In any `t`
//! seconds all together get `BURST + t * SHARE` and one computation at most, and each source the same of its own.

use amita_frontend::Computation;
use amita_reactor::driver::Time;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

/// Time of a processor for all sources together, in each second: a quarter. With the smallest group that is 250 queues that connect.
pub(super) const SHARE: Duration = Duration::from_millis(250);
/// What they may save up: a gateway that has just started is connected to by all hosts at once.
pub(super) const BURST: Duration = Duration::from_millis(1000);
/// The same for each source, in each second: 50 queues with the smallest group, 9 with ffdhe4096.
pub(super) const SHARE_OF_SOURCE: Duration = Duration::from_millis(50);
/// What a source may save up: a controller with the most queues, with the smallest group, twice.
pub(super) const BURST_OF_SOURCE: Duration = Duration::from_millis(250);
/// Computations that wait.
pub(super) const MAX_WAITING: usize = 2048;
/// Of one source: what its allowance of some seconds is for; whoever waits longer has given up.
pub(super) const MAX_WAITING_OF_SOURCE: usize = 512;
/// Sources whose allowance is remembered; those that have all of theirs again are forgotten first.
const MAX_SOURCES: usize = 8192;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Next<T> {
    /// This, now.
    Do(Computation, T),
    /// Something, not before this time.
    At(Time),
    Nothing,
}

/// Time of a processor that may be used.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// Nanoseconds; overdrawn below 0.
    left: i64,
    at: Time,
    share: Duration,
    burst: Duration,
}

impl Allowance {
    fn new(now: Time, share: Duration, burst: Duration) -> Allowance {
        let (left, at) = (burst.as_nanos() as i64, now);
        Allowance { left, at, share, burst }
    }

    fn grow(&mut self, now: Time) {
        let grown = now.since(self.at).as_secs_f64() * self.share.as_nanos() as f64;
        self.left = self.left.saturating_add(grown as i64).min(self.burst.as_nanos() as i64);
        self.at = now;
    }

    /// When something may be taken: the time of the last look, or a later one.
    fn ready_at(&self) -> Time {
        let missing = (1 - self.left).max(0) as f64;
        self.at
            .plus(Duration::from_secs_f64(missing / self.share.as_nanos() as f64))
    }

    fn take(&mut self, cost: Duration) {
        self.left -= cost.as_nanos() as i64;
    }

    fn is_whole(&self) -> bool {
        self.left >= self.burst.as_nanos() as i64
    }
}

/// What waits, by source.
pub(super) struct Schedule<T> {
    waiting: BTreeMap<IpAddr, VecDeque<(Computation, T)>>,
    count: usize,
    /// Whose turn was last.
    last: Option<IpAddr>,
    all: Allowance,
    sources: BTreeMap<IpAddr, Allowance>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Schedule<T> {
        Schedule {
            waiting: BTreeMap::new(),
            count: 0,
            last: None,
            all: Allowance::new(Time(0), SHARE, BURST),
            sources: BTreeMap::new(),
        }
    }
}

impl<T> Schedule<T> {
    /// Takes one more; what has no room is given back: this one, or one of a source that has more waiting.
    pub(super) fn push(&mut self, computation: Computation, whose: T) -> Option<T> {
        if self.count >= MAX_WAITING {
            self.forget_unwanted();
        }
        let source = computation.source();
        let waiting = |(_, queue): &(&IpAddr, &VecDeque<_>)| queue.len();
        let own = self.waiting.get(&source).map_or(0, VecDeque::len);
        if own >= MAX_WAITING_OF_SOURCE {
            return Some(whose);
        }
        let mut refused = None;
        if self.count >= MAX_WAITING {
            let longest = self.waiting.iter().max_by_key(waiting);
            let longest = longest
                .filter(|(_, queue)| queue.len() > own + 1)
                .map(|(source, _)| *source);
            let Some(longest) = longest else { return Some(whose) };
            refused = self.take(longest, VecDeque::pop_back).map(|(_, whose)| whose);
        }
        self.waiting.entry(source).or_default().push_back((computation, whose));
        self.count += 1;
        refused
    }

    /// What is next, in turn of the sources.
    pub(super) fn next(&mut self, now: Time) -> Next<T> {
        self.all.grow(now);
        let mut soonest: Option<Time> = None;
        let order: Vec<IpAddr> = match self.last {
            Some(last) => {
                let behind = self.waiting.range((Excluded(last), Unbounded));
                behind
                    .chain(self.waiting.range(..=last))
                    .map(|(source, _)| *source)
                    .collect()
            }
            None => self.waiting.keys().copied().collect(),
        };
        for source in order {
            while self.front_is_unwanted(source) {
                self.take(source, VecDeque::pop_front);
            }
            let Some(cost) = self.waiting.get(&source).map(|queue| queue[0].0.cost()) else {
                continue;
            };
            let fresh = Allowance::new(now, SHARE_OF_SOURCE, BURST_OF_SOURCE);
            let mut own = self.sources.get(&source).copied().unwrap_or(fresh);
            own.grow(now);
            let ready = own.ready_at().max(self.all.ready_at());
            if ready > now {
                soonest = Some(soonest.map_or(ready, |at| at.min(ready)));
                continue;
            }
            own.take(cost);
            self.all.take(cost);
            self.last = Some(source);
            self.forget_whole(now);
            self.sources.insert(source, own);
            if let Some((computation, whose)) = self.take(source, VecDeque::pop_front) {
                return Next::Do(computation, whose);
            }
        }
        soonest.map_or(Next::Nothing, Next::At)
    }

    fn front_is_unwanted(&self, source: IpAddr) -> bool {
        let first = self.waiting.get(&source).and_then(VecDeque::front);
        first.is_some_and(|(computation, _)| !computation.is_wanted())
    }

    fn take(
        &mut self,
        source: IpAddr,
        which: impl FnOnce(&mut VecDeque<(Computation, T)>) -> Option<(Computation, T)>,
    ) -> Option<(Computation, T)> {
        let queue = self.waiting.get_mut(&source)?;
        let taken = which(queue);
        if queue.is_empty() {
            self.waiting.remove(&source);
        }
        self.count -= usize::from(taken.is_some());
        taken
    }

    fn forget_unwanted(&mut self) {
        for queue in self.waiting.values_mut() {
            queue.retain(|(computation, _)| computation.is_wanted());
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        self.count = self.waiting.values().map(VecDeque::len).sum();
    }

    /// A source that has all of its allowance again is one that nothing is known of.
    fn forget_whole(&mut self, now: Time) {
        if self.sources.len() >= MAX_SOURCES {
            self.sources.retain(|_, own| {
                own.grow(now);
                !own.is_whole()
            });
        }
    }
}

#[cfg(test)]
mod tests;
