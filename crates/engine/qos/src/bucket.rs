//! One limit's tokens: a rate, a burst, and a peak for as long as saved credits last.
//!
//! **Exact.** Tokens are counted in billionths: tokens a second times nanoseconds are billionths, without a remainder, so that
//! nothing drifts however often somebody looks. The largest rate times 580 years fits the integer.
//!
//! **Size does not matter for the turn.** An I/O passes when the bucket is above zero, and takes it below zero by what it
//! costs. One that had to wait for as many tokens as it costs would be overtaken for ever by smaller ones that share the bucket;
//! and one larger than the burst would never pass. For that the bucket holds a largest I/O less than the burst, so that
//! what passes in any time T is at most rate x T + burst, exactly (with a burst below the largest I/O: rate x T + that I/O).
//!
//! **Two stages.** With a peak there are two buckets: one fills at the rate and holds the credits, the other fills at the peak and
//! holds the burst. From full, the peak holds for just as long as was said, and then the rate; as users know it from volumes
//! of public clouds (gp2 of Amazon EBS, on-demand and credit-based bursting of Azure's disks).

use crate::faults::{Fault, Faults};
use amita_reactor::Time;
use std::num::NonZeroU64;

/// Billionths of a token.
pub(crate) const PARTS: i128 = 1_000_000_000;

/// What one measure, operations or bytes, may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    rate: NonZeroU64,
    burst: u64,
    peak: Option<Peak>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peak {
    rate: NonZeroU64,
    seconds: u32,
}

/// Why a limit is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A rate of zero would hold for ever what waits for it.
    #[error("a rate must be at least 1 a second")]
    NoRate,
    /// Above [`Limit::MAX_RATE`].
    #[error("a rate may be {} a second at most", Limit::MAX_RATE)]
    Rate,
    /// Above [`Limit::MAX_BURST`].
    #[error("a burst may be {} at most", Limit::MAX_BURST)]
    Burst,
    /// The peak is below the rate.
    #[error("a peak may not be below the rate")]
    Peak,
    /// It lasts longer than [`Limit::MAX_PEAK_S`].
    #[error("a peak may last {} s at most", Limit::MAX_PEAK_S)]
    Lasts,
}

impl Limit {
    /// Tokens a second: 1 PiB/s.
    pub const MAX_RATE: u64 = 1 << 50;
    /// Tokens at once.
    pub const MAX_BURST: u64 = 1 << 60;
    /// A peak lasts a year at most.
    pub const MAX_PEAK_S: u32 = 366 * 86_400;

    /// `rate` tokens a second, of which `burst` may be spent at once after a pause.
    ///
    /// # Errors
    /// The rate is zero, or one of them is too large.
    pub fn new(rate: u64, burst: u64) -> Result<Limit, LimitError> {
        let rate = NonZeroU64::new(rate).ok_or(LimitError::NoRate)?;
        if rate.get() > Limit::MAX_RATE {
            return Err(LimitError::Rate);
        }
        if burst > Limit::MAX_BURST {
            return Err(LimitError::Burst);
        }
        Ok(Limit {
            rate,
            burst,
            peak: None,
        })
    }

    /// `rate` tokens a second with the burst that suits most: a tenth of a second, and an I/O more, so that neither a core's pauses
    /// nor the size of an I/O take anything from the rate.
    ///
    /// # Errors
    /// As [`Limit::new`].
    pub fn of_rate(rate: u64, largest: u64) -> Result<Limit, LimitError> {
        Limit::new(rate, (rate / 10).saturating_add(largest))
    }

    /// With a higher rate, which saved credits allow for `seconds` at a stretch. They are earned at the rate, while less is
    /// spent: (peak - rate) x seconds of them make a full store.
    ///
    /// # Errors
    /// The peak is below the rate or too large, or lasts too long.
    pub fn with_peak(self, rate: u64, seconds: u32) -> Result<Limit, LimitError> {
        let peak = NonZeroU64::new(rate).ok_or(LimitError::NoRate)?;
        if peak < self.rate {
            return Err(LimitError::Peak);
        }
        if rate > Limit::MAX_RATE {
            return Err(LimitError::Rate);
        }
        if seconds > Limit::MAX_PEAK_S {
            return Err(LimitError::Lasts);
        }
        let peak = Some(Peak { rate: peak, seconds });
        Ok(Limit { peak, ..self })
    }

    /// What is left of it for others when so much is set apart for good.
    pub(crate) fn less(&self, rate: u64, burst: u64) -> Limit {
        let rest =
            |whole: NonZeroU64| NonZeroU64::MIN.saturating_add(whole.get().saturating_sub(rate.saturating_add(1)));
        let peak = self.peak.map(|peak| Peak {
            rate: rest(peak.rate),
            seconds: peak.seconds,
        });
        Limit {
            rate: rest(self.rate),
            burst: self.burst.saturating_sub(burst),
            peak,
        }
    }

    /// Tokens a second, in the long run.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate.get()
    }

    /// Tokens at once.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// The most that may be spent beyond the rate, over any time: the burst, and the credits.
    #[must_use]
    pub fn credits(&self) -> u128 {
        let saved = self.peak.map_or(0, |peak| {
            u128::from(peak.rate.get() - self.rate.get()) * u128::from(peak.seconds)
        });
        saved + u128::from(self.burst)
    }

    /// The most that may pass in `ns` nanoseconds, if no single I/O costs more than `largest`; rounded up.
    #[must_use]
    pub fn most(&self, ns: u64, largest: u64) -> u128 {
        let flow = |rate: u64| (u128::from(rate) * u128::from(ns)).div_ceil(1_000_000_000);
        let long = flow(self.rate()) + self.credits().max(u128::from(largest));
        let burst = u128::from(self.burst.max(largest));
        self.peak.map_or(long, |peak| long.min(flow(peak.rate.get()) + burst))
    }
}

/// How a store of so many tokens is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spending {
    /// Below zero by one I/O: it holds the largest one less.
    Overdraw {
        /// What the largest I/O costs.
        largest: u64,
    },
    /// Never below zero by what was planned: it holds the largest I/O at least.
    Whole {
        /// What the largest I/O costs.
        largest: u64,
    },
}

impl Spending {
    fn capacity(self, tokens: u128) -> i128 {
        let tokens = tokens as i128;
        match self {
            // Above zero is one part: with it the largest I/O takes the store to that I/O below zero, less a part.
            Spending::Overdraw { largest } => (tokens - i128::from(largest)).max(0) * PARTS + 1,
            Spending::Whole { largest } => tokens.max(i128::from(largest)) * PARTS,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Stage {
    rate: i128,
    capacity: i128,
    level: i128,
}

impl Stage {
    fn full(rate: u64, capacity: i128) -> Stage {
        Stage {
            rate: i128::from(rate),
            capacity,
            level: capacity,
        }
    }

    #[inline]
    fn accrue(&mut self, elapsed: u64, lent: i128) {
        // What is lent beyond the capacity, since that was made smaller, is not owed.
        let room = (self.capacity - lent).max(0);
        self.level = (self.level + self.rate * i128::from(elapsed)).min(room);
    }

    fn ready_in(&self, needed: i128) -> u64 {
        let missing = (needed - self.level).max(0).unsigned_abs();
        let ns = missing.div_ceil(self.rate.unsigned_abs());
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// A limit's stages. What others hold of its tokens takes their room: `lent`, in parts, as told with each call.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// At the rate, with all credits.
    long: Stage,
    /// At the peak, with the burst alone.
    short: Option<Stage>,
    spending: Spending,
    at: Time,
}

impl Meter {
    /// Full.
    pub(crate) fn new(now: Time, limit: &Limit, spending: Spending) -> Meter {
        let short = |peak: Peak| Stage::full(peak.rate.get(), spending.capacity(u128::from(limit.burst)));
        Meter {
            long: Stage::full(limit.rate(), spending.capacity(limit.credits())),
            short: limit.peak.map(short),
            spending,
            at: now,
        }
    }

    /// What has come in until `now`. A clock that goes back brings nothing.
    #[inline]
    pub(crate) fn accrue(&mut self, now: Time, lent: i128) {
        let elapsed = now.0.saturating_sub(self.at.0);
        if elapsed == 0 && lent == 0 {
            return;
        }
        self.at = self.at.max(now);
        self.long.accrue(elapsed, lent);
        if let Some(short) = &mut self.short {
            short.accrue(elapsed, lent);
        }
    }

    /// Parts that may be spent.
    #[inline]
    pub(crate) fn available(&self) -> i128 {
        self.short
            .map_or(self.long.level, |short| short.level.min(self.long.level))
    }

    /// The most that can ever be available.
    pub(crate) fn capacity(&self) -> i128 {
        self.short
            .map_or(self.long.capacity, |short| short.capacity.min(self.long.capacity))
    }

    #[inline]
    pub(crate) fn spend(&mut self, parts: i128) {
        self.long.level -= parts;
        if let Some(short) = &mut self.short {
            short.level -= parts;
        }
    }

    /// Nothing is left. What is owed stays.
    pub(crate) fn empty(&mut self) {
        self.long.level = self.long.level.min(0);
        if let Some(short) = &mut self.short {
            short.level = short.level.min(0);
        }
    }

    /// When `needed` parts will be available, if nothing is spent meanwhile and there is room for them.
    pub(crate) fn ready_at(&self, needed: i128) -> Time {
        let long = self.long.ready_in(needed);
        let ns = self.short.map_or(long, |short| short.ready_in(needed).max(long));
        Time(self.at.0.saturating_add(ns))
    }

    /// Another limit from now on. Nothing jumps: what was saved or is owed stays, as far as there is room; more room is empty.
    pub(crate) fn change(&mut self, now: Time, limit: &Limit, lent: i128, faults: Faults) {
        self.accrue(now, lent);
        let level = self.available();
        let mut new = Meter::new(self.at, limit, self.spending);
        if !faults.has(Fault::RefillOnChange) {
            // Credits go on where there were some and will be some. Where there were none they are earned first; where there
            // will be none what the burst lacks must not come out of them.
            let (long, short) = match (self.short, new.short) {
                (Some(short), Some(_)) => (self.long.level, short.level),
                _ => (level, level),
            };
            new.long.level = new.long.capacity.min(long);
            if let Some(stage) = &mut new.short {
                stage.level = stage.capacity.min(short);
            }
        }
        *self = new;
        self.accrue(now, lent);
    }

    /// Nothing comes in before that moment.
    pub(crate) fn pause(&mut self, until: Time) {
        self.at = self.at.max(until);
    }
}

/// The tokens of one limit at one place.
#[derive(Clone, Debug)]
pub struct Bucket {
    meter: Meter,
    limit: Limit,
    faults: Faults,
}

impl Bucket {
    /// Full. `largest` is what the largest I/O costs.
    #[must_use]
    pub fn new(now: Time, limit: Limit, largest: u64, faults: Faults) -> Bucket {
        Bucket {
            meter: Meter::new(now, &limit, Spending::Overdraw { largest }),
            limit,
            faults,
        }
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Another limit from now on; nothing that was saved or is owed is forgotten, and nothing is given.
    pub fn set(&mut self, now: Time, limit: Limit) {
        if limit != self.limit {
            self.meter.change(now, &limit, 0, self.faults);
            self.limit = limit;
        }
    }

    /// May an I/O pass?
    #[inline]
    #[must_use]
    pub fn admits(&mut self, now: Time) -> bool {
        self.meter.accrue(now, 0);
        self.meter.available() > 0 || self.faults.has(Fault::ForgetDebt)
    }

    /// One passes that costs so much. Who asks [`Bucket::admits`] first stays within the limit.
    #[inline]
    pub fn charge(&mut self, now: Time, tokens: u64) {
        self.meter.accrue(now, 0);
        self.meter.spend(i128::from(tokens) * PARTS);
    }

    /// When the next one may pass.
    #[must_use]
    pub fn ready_at(&self) -> Time {
        self.meter.ready_at(1)
    }

    /// Tokens that are left; below zero: owed. Rounded down.
    #[must_use]
    pub fn left(&self) -> i128 {
        self.meter.available().div_euclid(PARTS)
    }
}

#[cfg(test)]
mod tests;
