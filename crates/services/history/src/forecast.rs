//! When something will be full: a straight line through what was used, and how sure it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Less than so many seconds of history say nothing.
pub const LEAST_SPAN_S: u64 = 24 * 3600;
/// Nor do fewer points.
const LEAST_POINTS: usize = 24;
/// A capacity that differs by more than one in so many was that of other stores: those times say nothing of these.
const SAME_CAPACITY: f64 = 0.01;
/// So many standard errors to each side.
const SURE: f64 = 2.0;
/// What is further off than so many days is not told.
const FURTHEST_DAYS: f64 = 3650.0;
const DAY_S: f64 = 86_400.0;
/// How full, in percent.
pub const LEVELS: [u8; 3] = [85, 95, 100];

/// How much was used at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// In seconds since 1970.
    pub at: u64,
    /// Bytes that hold something.
    pub used: f64,
    /// Bytes that there are.
    pub capacity: f64,
}

/// A line through what was used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// Bytes that hold something now.
    pub used_bytes: u64,
    /// Bytes that there are.
    pub capacity_bytes: u64,
    /// By how many bytes it grows a day.
    pub bytes_per_day: f64,
    /// And by how many at least, two standard errors below that.
    pub bytes_per_day_low: f64,
    /// And at most.
    pub bytes_per_day_high: f64,
    /// How long the history is that says so, in seconds.
    pub span_s: u64,
    /// When it will be how full.
    pub levels: Vec<Reach>,
}

/// When it will be so full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ForecastLevel)]
pub struct Reach {
    /// How full, in percent.
    pub percent: u8,
    /// In how many days; 0: it is. None: not within ten years, as it grows now.
    pub days: Option<f64>,
    /// In how many days at the soonest.
    pub soonest_days: Option<f64>,
    /// In how many days at the latest; none: perhaps never.
    pub latest_days: Option<f64>,
}

/// The line through these, oldest first; none: there are too few, or they reach back for less than a day.
#[must_use]
pub fn forecast(seen: &[Seen]) -> Option<Forecast> {
    let last = *seen.last()?;
    let same = |seen: &&Seen| (seen.capacity - last.capacity).abs() <= last.capacity * SAME_CAPACITY;
    let used: Vec<(f64, f64)> = seen
        .iter()
        .filter(same)
        .map(|seen| (seen.at as f64 - last.at as f64, seen.used))
        .collect();
    let span_s = last.at - seen.iter().find(same).map_or(last.at, |first| first.at);
    if used.len() < LEAST_POINTS || span_s < LEAST_SPAN_S || last.capacity <= 0.0 {
        return None;
    }
    let (slope, error) = line(&used);
    let (low, high) = (slope - SURE * error, slope + SURE * error);
    let levels = LEVELS.iter().map(|percent| {
        let left = last.capacity * f64::from(*percent) / 100.0 - last.used;
        Reach {
            percent: *percent,
            days: days(left, slope),
            soonest_days: days(left, high),
            latest_days: days(left, low),
        }
    });
    Some(Forecast {
        used_bytes: last.used as u64,
        capacity_bytes: last.capacity as u64,
        bytes_per_day: slope * DAY_S,
        bytes_per_day_low: low * DAY_S,
        bytes_per_day_high: high * DAY_S,
        span_s,
        levels: levels.collect(),
    })
}

fn days(left: f64, per_second: f64) -> Option<f64> {
    if left <= 0.0 {
        return Some(0.0);
    }
    let days = left / per_second / DAY_S;
    (per_second > 0.0 && days <= FURTHEST_DAYS).then_some(days)
}

/// The slope by least squares, and its standard error.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    let left: f64 = points
        .iter()
        .map(|point| (point.1 - y - slope * (point.0 - x)).powi(2))
        .sum();
    (slope, (left / (count - 2.0) / spread).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = (1_u64 << 30) as f64;

    fn seen(hours: u64, per_day: f64, noise: f64, capacity: f64) -> Vec<Seen> {
        (0..hours)
            .map(|hour| Seen {
                at: 1_800_000_000 + hour * 3600,
                used: 10.0 * GIB + per_day * hour as f64 / 24.0 + if hour.is_multiple_of(2) { noise } else { -noise },
                capacity,
            })
            .collect()
    }

    #[test]
    fn a_steady_growth_is_found_with_its_days() {
        let found = forecast(&seen(241, GIB, 0.0, 100.0 * GIB)).unwrap();
        assert!((found.bytes_per_day - GIB).abs() < 1.0, "{found:?}");
        // 20 GiB are used now.
        let days: Vec<f64> = found.levels.iter().map(|reach| reach.days.unwrap().round()).collect();
        assert_eq!(days, [65.0, 75.0, 80.0]);
        assert_eq!(found.span_s, 240 * 3600);
    }

    #[test]
    fn noise_makes_it_less_sure() {
        let found = forecast(&seen(241, GIB, 0.5 * GIB, 100.0 * GIB)).unwrap();
        let full = found.levels.last().unwrap();
        let (soonest, days) = (full.soonest_days.unwrap(), full.days.unwrap());
        assert!(soonest < days && days < full.latest_days.unwrap(), "{full:?}");
        let flat = forecast(&seen(241, 0.0, 0.5 * GIB, 100.0 * GIB)).unwrap();
        let full = flat.levels.last().unwrap();
        assert_eq!(full.latest_days, None, "perhaps never");
        let shrinks = forecast(&seen(241, -0.5 * GIB, 0.0, 100.0 * GIB)).unwrap();
        assert!(shrinks.levels.iter().all(|reach| reach.soonest_days.is_none()));
    }

    #[test]
    fn what_is_full_is_full_now() {
        let found = forecast(&seen(241, GIB, 0.0, 21.0 * GIB)).unwrap();
        let days: Vec<Option<f64>> = found.levels.iter().map(|reach| reach.days).collect();
        assert_eq!(days[..2], [Some(0.0), Some(0.0)]);
        assert!(days[2].unwrap() > 0.9);
    }

    #[test]
    fn a_short_history_says_nothing() {
        assert_eq!(forecast(&[]), None);
        assert_eq!(forecast(&seen(24, GIB, 0.0, 100.0 * GIB)), None);
        assert!(forecast(&seen(26, GIB, 0.0, 100.0 * GIB)).is_some());
        let few: Vec<Seen> = seen(241, GIB, 0.0, 100.0 * GIB).into_iter().step_by(20).collect();
        assert_eq!(forecast(&few), None);
    }

    #[test]
    fn times_with_other_stores_do_not_count() {
        let mut all = seen(100, 50.0 * GIB, 0.0, 50.0 * GIB);
        let later = seen(300, GIB, 0.0, 100.0 * GIB);
        all.extend(&later[100..]);
        let found = forecast(&all).unwrap();
        assert!((found.bytes_per_day - GIB).abs() < 1.0, "{found:?}");
        assert_eq!(found.span_s, 199 * 3600);
    }
}
