//! One store against its peers.

use crate::histogram::Histogram;
use std::time::Duration;

/// Fewer answers say nothing of a store's median.
const FEW: u64 = 40;
/// A store is bad whose median is so many times that of its peers, and at least so long.
const TIMES: u32 = 8;
const LEAST: Duration = Duration::from_millis(1);
/// The same where there are only two: one of them may be in this process and the other far away.
const TIMES_OF_TWO: u32 = 25;
const LEAST_OF_TWO: Duration = Duration::from_millis(5);
/// Fewer answers say nothing of how many take very long.
const MANY: u64 = 250;
/// Very long is so many times the peers' median, and at least so long.
const LONG_TIMES: u32 = 20;
const LONG: Duration = Duration::from_millis(50);
/// A store is bad of whose answers so many of a hundred thousand take very long, and so many times as many as of its peers',
/// and not only a few.
const OFTEN: u64 = 300;
const OFTEN_TIMES: u64 = 5;
const AT_LEAST: u64 = 4;

/// What a round says of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unknown,
    Good,
    Bad(String),
}

/// What was seen of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    count: u64,
    median: Duration,
}

impl Seen {
    pub(super) fn of(recent: &Histogram) -> Option<Seen> {
        (recent.count() >= FEW).then(|| Seen {
            count: recent.count(),
            median: recent.permille(500),
        })
    }
}

/// How many took longer than that: of all, and of a hundred thousand. Zero where there are too few to say.
pub(super) fn share(recent: &Histogram, limit: Duration) -> (u64, u64) {
    let above = recent.above(limit);
    if recent.count() < MANY {
        return (0, 0);
    }
    (above, above * 100_000 / recent.count())
}

/// The median; of an even number the upper one, so that half of them must be as well as it at the least.
fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// One store against the others.
pub(super) fn compare(
    what: &str,
    number: usize,
    seen: &[Option<Seen>],
    shares: impl Fn(Duration) -> Vec<(u64, u64)>,
) -> Verdict {
    let Some(own) = seen[number] else {
        return Verdict::Unknown;
    };
    let known = seen.iter().flatten().count();
    // Of two the other one is usual; of more the median is, with itself among them, so that never half of all are bad.
    let counts = |other: usize| known > 2 || other != number;
    let others = || seen.iter().enumerate().filter(|(other, _)| counts(*other));
    let Some(usual) = median(others().filter_map(|(_, seen)| Some((*seen)?.median)).collect()) else {
        // There is nobody to compare it with.
        return Verdict::Unknown;
    };
    let (times, least) = match known {
        2 => (TIMES_OF_TWO, LEAST_OF_TWO),
        _ => (TIMES, LEAST),
    };
    if own.median >= least && own.median > usual * times {
        return Verdict::Bad(format!(
            "half of its {what} take {:.1} ms or more, those of its peers {:.1} ms",
            own.median.as_secs_f64() * 1e3,
            usual.as_secs_f64() * 1e3
        ));
    }
    let long = LONG.max(usual * LONG_TIMES);
    let shares = shares(long);
    let (above, often) = shares[number];
    let many = others().filter(|(_, seen)| seen.is_some_and(|seen| seen.count >= MANY));
    let often_of: Vec<u64> = many.map(|(other, _)| shares[other].1).collect();
    // Alone it is no comparison.
    let compared = often_of.len() >= if known > 2 { 2 } else { 1 };
    if let Some(usual) = median(often_of).filter(|_| compared)
        && above >= AT_LEAST
        && often >= OFTEN
        && often >= usual * OFTEN_TIMES
    {
        return Verdict::Bad(format!(
            "{:.1} % of its {what} take more than {} ms, of its peers' {:.1} %",
            often as f64 / 1e3,
            long.as_millis(),
            usual as f64 / 1e3
        ));
    }
    Verdict::Good
}

/// The p95 of a usual store: the median of all that have answered so many.
pub(super) fn usual<'a>(all: impl Iterator<Item = &'a Histogram>, enough: u64) -> Option<Duration> {
    let known = all.filter(|recent| recent.count() >= enough);
    median(known.map(|recent| recent.permille(950)).collect())
}
