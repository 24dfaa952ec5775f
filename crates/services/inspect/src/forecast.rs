//! What a disk's past says of its future. Each prediction is one pure function, and says what is missing where the past is too short.
//!
//! The past is what the node's record has of the disk: at most eight samples, a day or more apart ([`crate::inventory::Sample`]).

use crate::inventory::Sample;

/// When, in seconds since 1970, and how many.
pub type Count = (u64, u64);

const DAY_S: u64 = 24 * 3600;
/// Wear comes in whole percent: before there are so many of them, or so many hours, a pace says nothing.
const LEAST_WEAR: (u8, u64) = (2, 30 * 24);
/// The pace of the last days counts where there are so many of them, and so many percent.
const LEAST_LATELY: (u64, u8) = (5, 2);
/// Nobody plans further than this.
const MOST_DAYS: u64 = 100 * 365;
/// So many looks, over so many days, say whether a count grows.
const LEAST_GROWTH: (usize, u64) = (3, 2);
/// A count that grows by less than this counts only where it grows at so many looks one after another.
const LEAST_STEADY: (u64, usize) = (8, 3);
/// So many looks say whether something takes longer from day to day.
const LEAST_DRIFT: usize = 5;
/// And it does where it takes so many times as long in the end.
const DRIFT_TIMES: u64 = 2;

/// When a disk will be worn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wear {
    /// In how many days.
    pub days: u64,
    /// At the soonest and at the latest, since a percent more or less may be used than it says; none: nobody can say.
    pub soonest_days: u64,
    /// See `soonest_days`.
    pub latest_days: Option<u64>,
    /// That is the pace of the last days, which is faster than that of its whole life.
    pub is_lately: bool,
}

/// When a disk will be worn that has used so many percent of its life in so many hours: at the pace of all of its life, or at that of the
/// last days where that is faster.
///
/// # Errors
/// What is missing to say so.
pub fn wear(used: u8, on_hours: u64, samples: &[Sample]) -> Result<Wear, String> {
    if used < LEAST_WEAR.0 || on_hours < LEAST_WEAR.1 {
        return Err(format!("{used} % in {on_hours} hours say no pace yet"));
    }
    let whole = until(used, u64::from(used), on_hours);
    match lately(used, samples) {
        Some(lately) if lately.days < whole.days => Ok(lately),
        _ => Ok(whole),
    }
}

/// When it is worn where so many percent take so many hours.
fn until(used: u8, percent: u64, hours: u64) -> Wear {
    let left = 100_u64.saturating_sub(u64::from(used));
    let days = |left: u64, percent: u64| Some((left.saturating_mul(hours).checked_div(percent)? / 24).min(MOST_DAYS));
    Wear {
        days: days(left, percent).unwrap_or(MOST_DAYS),
        soonest_days: days(left.saturating_sub(1), percent + 1).unwrap_or(MOST_DAYS),
        latest_days: days(left + 1, percent.saturating_sub(1)),
        is_lately: false,
    }
}

fn lately(used: u8, samples: &[Sample]) -> Option<Wear> {
    let worn = samples
        .iter()
        .filter_map(|sample| Some((sample.at, sample.worn_percent?)));
    let all: Vec<(u64, u8)> = worn.collect();
    let ((from, before), (to, after)) = (all.first()?, all.last()?);
    let (seconds, grown) = (to.checked_sub(*from)?, after.checked_sub(*before)?);
    let is_enough = seconds >= LEAST_LATELY.0 * DAY_S && grown >= LEAST_LATELY.1;
    is_enough.then(|| Wear {
        is_lately: true,
        ..until(used, u64::from(grown), seconds / 3600)
    })
}

/// What a disk has counted: its past, and what it says now.
pub fn counts(samples: &[Sample], now: u64, count: u64, past: impl Fn(&Sample) -> Option<u64>) -> Vec<Count> {
    let known = samples.iter().filter(|sample| sample.at < now);
    let past = known.filter_map(|sample| Some((sample.at, past(sample)?)));
    past.chain([(now, count)]).collect()
}

/// A count that has grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// By so many.
    pub grown: u64,
    /// In so many days.
    pub days: u64,
    /// It was more than before so many times,
    pub times: usize,
    /// of so many times that it was looked.
    pub looks: usize,
    /// And so many times one after another.
    pub in_a_row: usize,
    /// It was less than before at least once: what it counts does not stay, and such a count may be shown for moments only.
    pub has_fallen: bool,
}

impl Growth {
    /// Does it go on, so that it says something of what comes?
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let is_much = self.times >= 2 && self.grown >= LEAST_STEADY.0;
        !self.has_fallen && (is_much || self.in_a_row >= LEAST_STEADY.1)
    }
}

/// Does a count grow? None: it does not. The oldest one comes first.
///
/// # Errors
/// What is missing to say so.
pub fn growth(counts: &[Count]) -> Result<Option<Growth>, String> {
    let (Some((from, first)), Some((to, last))) = (counts.first(), counts.last()) else {
        return Err("nothing was counted".to_owned());
    };
    // What has none has not grown, however short its past is.
    if *last == 0 {
        return Ok(None);
    }
    let seconds = to.saturating_sub(*from);
    if counts.len() < LEAST_GROWTH.0 || seconds < LEAST_GROWTH.1 * DAY_S {
        return Err(format!(
            "not enough history: it was looked {} times in {} days, and {} times in {} days would say something",
            counts.len(),
            seconds / DAY_S,
            LEAST_GROWTH.0,
            LEAST_GROWTH.1
        ));
    }
    let rises: Vec<bool> = counts.windows(2).map(|pair| pair[1].1 > pair[0].1).collect();
    let runs = rises.split(|rises| !rises).map(<[bool]>::len);
    let found = Growth {
        grown: last.saturating_sub(*first),
        days: seconds.div_ceil(DAY_S),
        times: rises.iter().filter(|rises| **rises).count(),
        looks: rises.len(),
        in_a_row: runs.max().unwrap_or(0),
        has_fallen: counts.windows(2).any(|pair| pair[1].1 < pair[0].1),
    };
    Ok((found.grown > 0).then_some(found))
}

/// Something that takes longer from day to day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// So long it took in the beginning.
    pub from: u64,
    /// That was so many days ago.
    pub days: u64,
}

/// Does something take longer each time, and twice as long in the end? None: it does not.
///
/// # Errors
/// What is missing to say so.
pub fn drift(took: &[Count]) -> Result<Option<Drift>, String> {
    let (Some((at, from)), Some((to, last))) = (took.first(), took.last()) else {
        return Err("nothing was measured".to_owned());
    };
    if took.len() < LEAST_DRIFT {
        return Err(format!(
            "not enough history: {} days, and {LEAST_DRIFT} would say something",
            took.len()
        ));
    }
    let rises = took.windows(2).all(|pair| pair[1].1 > pair[0].1);
    Ok((rises && *last >= from.saturating_mul(DRIFT_TIMES)).then(|| Drift {
        from: *from,
        days: to.saturating_sub(*at).div_ceil(DAY_S),
    }))
}

#[cfg(test)]
mod tests;
