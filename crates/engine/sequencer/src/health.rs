//! Stores that still answer and are much slower than their peers.
//!
//! **The story.** A disk that is fifty times slower than yesterday, or a link that holds up one message in a hundred, is not
//! dead: no timeout finds it, and since a write waits for every in-sync member, all clients are as slow as it is. What
//! shows it is the comparison: the same writes go to two other stores, and those are well.
//!
//! **Mechanism.** One [`Health`] a core. It counts how long each store takes for reads and for writes, apart, in rounds of a
//! second; older rounds fade. At a round's end each store that was asked often enough is compared with the median of its
//! peers: is its own median many times theirs, or do so many more of its answers take very long? One bad round, and reads go
//! elsewhere; a probe now and then goes on telling how it is. Bad for several seconds, with hardly a good round between, it
//! is called *slow*: the core says so in the metadata, and the coordinator decides, with what other nodes say, whether it is
//! evicted. It is called well again only after many good rounds in a row. Where all are slow alike nobody is: the cause is
//! the load, the network, or ourselves.
//!
//! It also knows how long a read usually takes, and so when it is worth asking a second member.
//!
//! It is a pure state machine: time comes in.

mod judge;
mod shared;

pub use shared::Care;

use crate::histogram::Histogram;
use crate::table::{Table, WatchSlot};
use amita_reactor::Time;
use amita_types::StoreId;
use amita_types::recovery::StoreHealth;
use judge::{Seen, Verdict};
use rustc_hash::FxHashMap;
use std::time::Duration;

/// What is counted apart.
const KINDS: [&str; 2] = ["reads", "writes"];
const ROUND: Duration = Duration::from_secs(1);
/// So long a store must have been bad to be called slow.
const SLOW_AFTER: Duration = Duration::from_secs(5);
/// So many good rounds in a row forgive bad ones before it was called slow.
const FORGIVEN: u32 = 3;
/// So many good rounds in a row, and it is well again.
const WELL_AFTER: u32 = 15;
/// What was found of a store that is not asked any more counts for so long.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// One read of so many goes to a store that is avoided: else nobody would learn that it is well again.
const PROBE_EACH: u32 = 64;
/// Of a hundred reads so many may be sent twice because they are late, and so many at once after a quiet while.
const EXTRA_PERCENT: u32 = 3;
const EXTRA_MOST: u32 = 32;
/// The earliest that a second member is asked.
const LEAST_HEDGE: Duration = Duration::from_millis(3);
/// So much of the usual p95 a read may take before that.
const HEDGE_TIMES: u32 = 3;
/// When so many answers of a store are remembered, the older ones begin to fade.
const FADING: u64 = 600;
/// Reads from which it is known what is usual.
const USUAL: u64 = 200;

/// One store as this core sees it.
#[derive(Debug)]
struct Watch {
    store: StoreId,
    /// This round, and with it what has not faded of those before: reads and writes.
    round: [Histogram; 2],
    recent: [Histogram; 2],
    /// Of these it was bad when it was last judged.
    bad: [bool; 2],
    /// Reads go elsewhere.
    avoided: bool,
    slow: bool,
    /// Since when it has been bad, without a good while between.
    bad_since: Option<Time>,
    good_rounds: u32,
    /// Rounds in the stretch that `bad_since` begins: bad ones, and all that had a verdict.
    bad_rounds: u32,
    rounds: u32,
    /// The last round with a verdict.
    judged: Option<Time>,
    why: String,
    skipped: u32,
}

impl Watch {
    /// A round's verdicts on reads and on writes together. It is well only if it is in what it was bad in.
    fn together(&mut self, verdicts: [Verdict; 2]) -> Verdict {
        let mut together = Verdict::Unknown;
        for (kind, verdict) in verdicts.into_iter().enumerate() {
            match verdict {
                Verdict::Bad(why) => {
                    self.bad[kind] = true;
                    // The next verdict is on what comes now: reads will be few.
                    self.recent[kind].clear();
                    together = Verdict::Bad(why);
                }
                Verdict::Good => {
                    self.bad[kind] = false;
                    if together == Verdict::Unknown {
                        together = Verdict::Good;
                    }
                }
                Verdict::Unknown => {}
            }
        }
        if together == Verdict::Good && self.bad.contains(&true) {
            return Verdict::Unknown;
        }
        together
    }
}

/// What became of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthEvent {
    /// It is called slow.
    Slow {
        store: StoreId,
        /// What was seen.
        why: String,
    },
    /// It is well again.
    Well { store: StoreId },
}

impl std::fmt::Display for HealthEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HealthEvent::Slow { store, why } => {
                write!(
                    f,
                    "slow store: {store} is much slower than its peers: {why}; it is read from last"
                )
            }
            HealthEvent::Well { store } => write!(f, "slow store: {store} is well again"),
        }
    }
}

/// The health of all stores, as one core sees it.
#[derive(Debug)]
pub struct Health {
    watches: Table<WatchSlot, Watch>,
    numbers: FxHashMap<StoreId, WatchSlot>,
    ends: Time,
    /// What a late read may cost: hundredths of a second read.
    extra: u32,
    hedge: Option<Duration>,
    events: Vec<HealthEvent>,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            watches: Table::new(),
            numbers: FxHashMap::default(),
            ends: Time(0),
            extra: EXTRA_MOST * 100,
            hedge: None,
            events: Vec::new(),
        }
    }
}

impl Health {
    /// The number by which a store is named from now on.
    pub(crate) fn number(&mut self, store: StoreId) -> WatchSlot {
        if let Some(&at) = self.numbers.get(&store) {
            return at;
        }
        let number = self.watches.push(Watch {
            store,
            round: Default::default(),
            recent: Default::default(),
            bad: [false; 2],
            avoided: false,
            slow: false,
            bad_since: None,
            good_rounds: 0,
            bad_rounds: 0,
            rounds: 0,
            judged: None,
            why: String::new(),
            skipped: 0,
        });
        self.numbers.insert(store, number);
        number
    }

    /// A store has answered a read or a write of a client.
    pub(crate) fn record(&mut self, now: Time, number: WatchSlot, write: bool, latency: Duration) {
        if now >= self.ends {
            self.end_round(now);
        }
        self.watches[number].round[usize::from(write)].record(latency);
        if !write {
            self.extra = (self.extra + EXTRA_PERCENT).min(EXTRA_MOST * 100);
        }
    }

    /// Should this read rather go elsewhere?
    pub(crate) fn avoids(&mut self, number: WatchSlot) -> bool {
        let watch = &mut self.watches[number];
        if !watch.avoided {
            return false;
        }
        watch.skipped += 1;
        if watch.skipped >= PROBE_EACH {
            watch.skipped = 0;
            return false;
        }
        true
    }

    /// After how long a second member is asked, where that is known: not more than `most`.
    #[must_use]
    pub fn hedge_after(&self, most: Duration) -> Duration {
        match self.hedge {
            Some(after) if self.extra >= 100 => after.clamp(LEAST_HEDGE.min(most), most),
            _ => most,
        }
    }

    /// A second member was asked.
    pub fn hedged(&mut self) {
        self.extra = self.extra.saturating_sub(100);
    }

    /// What a second read may cost is gone.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.extra < 100
    }

    /// What has changed since this was last asked.
    pub fn events(&mut self) -> std::vec::Drain<'_, HealthEvent> {
        self.events.drain(..)
    }

    /// Is any store slow?
    #[must_use]
    pub fn has_slow(&self) -> bool {
        self.watches.iter().any(|watch| watch.slow)
    }

    /// What is to be reported: stores that are slow, and of those that `asked` names whatever is known of them.
    #[must_use]
    pub fn report(&self, now: Time, asked: &[StoreId]) -> Vec<StoreHealth> {
        let fresh = |watch: &&Watch| watch.judged.is_some_and(|at| now.since(at) < FORGOTTEN);
        let watches = self.watches.iter().filter(fresh);
        watches
            .filter(|watch| watch.slow || asked.contains(&watch.store))
            .map(|watch| StoreHealth {
                store: watch.store,
                slow: watch.slow,
                for_s: watch.bad_since.map_or(0, |since| now.since(since).as_secs() as u32),
                why: watch.why.clone(),
            })
            .collect()
    }

    /// Ends the round, if it is over; for a core whose stores are not asked at all.
    pub fn tick(&mut self, now: Time) {
        if now >= self.ends {
            self.end_round(now);
        }
    }

    fn end_round(&mut self, now: Time) {
        let first = self.ends == Time(0);
        // A clock that stood still, for us or for all: what was measured across that is no measure of anybody.
        let stood = !first && now.since(self.ends) >= ROUND * 5;
        self.ends = now.plus(ROUND);
        for watch in &mut self.watches {
            for (round, recent) in watch.round.iter_mut().zip(&mut watch.recent) {
                if recent.count() >= FADING {
                    recent.halve();
                }
                if !stood {
                    recent.add(round);
                }
                round.clear();
            }
        }
        if first || stood {
            return;
        }
        let seen: [Vec<Option<Seen>>; 2] =
            [0, 1].map(|kind| self.watches.iter().map(|watch| Seen::of(&watch.recent[kind])).collect());
        let verdicts: Vec<[Verdict; 2]> = (0..self.watches.len())
            .map(|number| {
                [0, 1].map(|kind| {
                    judge::compare(KINDS[kind], number, &seen[kind], |limit| {
                        let watches = self.watches.iter();
                        watches.map(|watch| judge::share(&watch.recent[kind], limit)).collect()
                    })
                })
            })
            .collect();
        self.hedge =
            judge::usual(self.watches.iter().map(|watch| &watch.recent[0]), USUAL).map(|p95| p95 * HEDGE_TIMES);
        for (number, verdicts) in self.watches.keys().zip(verdicts) {
            let verdict = self.watches[number].together(verdicts);
            self.judged(now, number, verdict);
        }
    }

    fn judged(&mut self, now: Time, number: WatchSlot, verdict: Verdict) {
        let watch = &mut self.watches[number];
        let bad = matches!(verdict, Verdict::Bad(_));
        match verdict {
            Verdict::Unknown => {
                let fresh = watch.judged.is_some_and(|at| now.since(at) < FORGOTTEN);
                if watch.bad_since.is_some() && !fresh {
                    self.forgive(number);
                }
                return;
            }
            Verdict::Bad(why) => {
                watch.avoided = true;
                watch.good_rounds = 0;
                watch.bad_since.get_or_insert(now);
                watch.bad_rounds += 1;
                watch.why = why;
            }
            Verdict::Good => watch.good_rounds += 1,
        }
        watch.judged = Some(now);
        watch.rounds += u32::from(watch.bad_since.is_some());
        let enough = if watch.slow { WELL_AFTER } else { FORGIVEN };
        if watch.bad_since.is_some() && watch.good_rounds >= enough {
            return self.forgive(number);
        }
        let long = watch.bad_since.is_some_and(|since| now.since(since) >= SLOW_AFTER);
        // Most of the time, not now and then.
        if bad && !watch.slow && long && watch.bad_rounds * 3 >= watch.rounds * 2 {
            watch.slow = true;
            self.events.push(HealthEvent::Slow {
                store: watch.store,
                why: watch.why.clone(),
            });
        }
    }

    fn forgive(&mut self, number: WatchSlot) {
        let watch = &mut self.watches[number];
        watch.avoided = false;
        watch.bad = [false; 2];
        watch.bad_since = None;
        (watch.bad_rounds, watch.rounds, watch.good_rounds) = (0, 0, 0);
        watch.why.clear();
        if std::mem::take(&mut watch.slow) {
            let store = watch.store;
            self.events.push(HealthEvent::Well { store });
        }
    }
}

#[cfg(test)]
mod tests;
