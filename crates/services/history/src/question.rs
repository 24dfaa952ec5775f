//! From what somebody asks to the intervals that answer it.

use crate::layout::{Layout, STEPS_S};

/// The most points of an answer.
pub const MAX_POINTS: u64 = 2000;
/// As many points as an answer has where nobody says how fine it is to be, at most.
const USUAL_POINTS: u64 = 360;

/// Times beyond this one are none: it leaves room to count on from them.
const LATEST: u64 = 1 << 40;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadQuestion {
    /// The end is not after the beginning.
    #[error("the span ends ({to}) before it begins ({from}); both are seconds since 1970")]
    Backwards {
        /// Its beginning.
        from: u64,
        /// Its end.
        to: u64,
    },
    /// More points than an answer has.
    #[error("{points} points are more than the {MAX_POINTS} that an answer has; ask for a step of {step_s} s or more")]
    TooFine {
        /// How many it would be.
        points: u64,
        /// The step that would do.
        step_s: u64,
    },
    /// A step of nothing.
    #[error("a step has a second at least")]
    NoStep,
}

/// Which intervals answer a question. Each node is asked for the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The part of the file: the shortest intervals first.
    pub part: usize,
    /// The beginning, in seconds since 1970: a multiple of the step.
    pub from: u64,
    /// The end.
    pub to: u64,
    /// How far points are apart, in seconds: a multiple of the part's.
    pub step_s: u64,
}

impl Plan {
    /// Of a span of time, asked `now` seconds after 1970. `step_s`: how far points are to be apart; none: as fits the span. Where the
    /// beginning is further back than short intervals are kept, the points are as far apart as those that are.
    ///
    /// # Errors
    /// See [`BadQuestion`].
    pub fn new(from: u64, to: u64, step_s: Option<u64>, now: u64) -> Result<Plan, BadQuestion> {
        if from >= to {
            return Err(BadQuestion::Backwards { from, to });
        }
        let longest = STEPS_S.len() - 1;
        // Nothing is kept of before that, nor of what is to come: the question may say what it likes.
        let to = to.min(now.saturating_add(STEPS_S[longest]));
        let from = from.max(now.saturating_sub(Layout::reach_s(longest))).min(to);
        let wanted = match step_s {
            Some(0) => return Err(BadQuestion::NoStep),
            Some(step_s) => step_s.min(Layout::reach_s(longest)),
            None => (to - from).div_ceil(USUAL_POINTS).max(1),
        };
        let reaches = |part: &usize| now.saturating_sub(from) <= Layout::reach_s(*part);
        let fits = (0..=longest).rev().find(|part| STEPS_S[*part] <= wanted).unwrap_or(0);
        // Longer ones too, where shorter ones are not kept for so long.
        let part = (fits..longest).find(reaches).unwrap_or(longest);
        let unit = STEPS_S[part];
        let step_s = wanted.div_ceil(unit).saturating_mul(unit);
        let from = from / step_s * step_s;
        let points = (to - from).div_ceil(step_s);
        if points > MAX_POINTS {
            let step_s = (to - from).div_ceil(MAX_POINTS - 1).div_ceil(unit).saturating_mul(unit);
            return Err(BadQuestion::TooFine { points, step_s });
        }
        Ok(Plan { part, from, to, step_s })
    }

    /// One that another node has made: it is believed as far as it can be.
    #[must_use]
    pub fn of(part: usize, from: u64, to: u64, step_s: u64) -> Option<Plan> {
        let unit = *STEPS_S.get(part)?;
        // Each interval is a read: however the question is put, they are a few rounds of the part at most.
        let fits = (unit..=Layout::reach_s(part)).contains(&step_s)
            && to <= LATEST
            && step_s.is_multiple_of(unit)
            && from.is_multiple_of(step_s)
            && to >= from
            && to - from <= Layout::reach_s(part).saturating_add(2 * step_s)
            && (to - from).div_ceil(step_s) <= MAX_POINTS;
        fits.then_some(Plan { part, from, to, step_s })
    }

    /// With points of the whole span only: for what is counted over all of it.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.to - self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_005;
    const HOUR: u64 = 3600;

    #[test]
    fn a_span_is_answered_by_the_intervals_that_are_kept_for_so_long() {
        let part = |back: u64, step| {
            let plan = Plan::new(NOW - back, NOW, step, NOW).unwrap();
            assert_eq!(Plan::of(plan.part, plan.from, plan.to, plan.step_s), Some(plan));
            assert!(plan.from.is_multiple_of(plan.step_s));
            (STEPS_S[plan.part], plan.step_s)
        };
        assert_eq!(part(HOUR, None), (10, 10));
        assert_eq!(part(5 * HOUR, None), (10, 50));
        assert_eq!(part(6 * HOUR, None), (60, 60));
        assert_eq!(part(24 * HOUR, None), (60, 240));
        assert_eq!(part(7 * 24 * HOUR, None), (600, 1800));
        assert_eq!(part(30 * 24 * HOUR, None), (600, 7200));
        assert_eq!(part(HOUR, Some(60)), (60, 60));
        assert_eq!(part(HOUR, Some(1)), (10, 10));
        assert_eq!(part(HOUR, Some(70)), (60, 120));
        assert_eq!(part(40 * HOUR, Some(100)), (60, 120));
    }

    #[test]
    fn the_beginning_of_time_is_not_looked_for() {
        for step in [None, Some(u64::MAX)] {
            let plan = Plan::new(0, u64::MAX, step, NOW).unwrap();
            assert!(plan.to <= NOW + 600 && plan.from < plan.to, "{plan:?}");
            assert_eq!(Plan::of(plan.part, plan.from, plan.to, plan.step_s), Some(plan));
        }
        let plan = Plan::new(NOW - 90 * 24 * HOUR, NOW, Some(3600), NOW).unwrap();
        assert!(NOW - plan.from <= Layout::reach_s(2) + plan.step_s);
        let plan = Plan::new(5, 10, None, NOW).unwrap();
        assert!(plan.from <= plan.to);
    }

    #[test]
    fn what_cannot_be_asked() {
        assert_eq!(
            Plan::new(9, 9, None, NOW),
            Err(BadQuestion::Backwards { from: 9, to: 9 })
        );
        assert_eq!(Plan::new(8, 9, Some(0), NOW), Err(BadQuestion::NoStep));
        let Err(BadQuestion::TooFine { step_s, .. }) = Plan::new(NOW - 47 * HOUR, NOW, Some(60), NOW) else {
            panic!("2,820 points are taken");
        };
        assert!(Plan::new(NOW - 47 * HOUR, NOW, Some(step_s), NOW).is_ok());
        let far = 1 << 50;
        for bad in [
            (3, 0, 600, 600),
            (0, 5, 600, 10),
            (0, 0, 600, 0),
            (0, 0, 1 << 40, 10),
            (1, 0, 600, 10),
            (0, 0, 10 * far, far / 10 * 10),
            (2, far / 600 * 600, far / 600 * 600 + 600, 600),
        ] {
            assert_eq!(Plan::of(bad.0, bad.1, bad.2, bad.3), None, "{bad:?}");
        }
    }
}
