//! Who spends: tokens that were lent, as long as they hold, and the standing share beside them.

use super::{Ask, Grant, HolderId, LeaseEpoch};
use crate::bucket::{Bucket, Limit, LimitError};
use crate::faults::{Fault, Faults};
use amita_reactor::Time;
use std::time::Duration;

/// How a holder is made.
#[derive(Clone, Copy, Debug)]
pub struct HolderConfig {
    /// How long the grantor lends for.
    pub lease: Duration,
    /// Is that its long lease?
    pub is_long: bool,
    /// What the largest request costs. A larger one passes with as many tokens, and the rest is owed.
    pub largest: u64,
    /// Tokens a second of the standing share; zero: none.
    pub standing_rate: u64,
    /// Rules that are switched off.
    pub faults: Faults,
}

/// A limit's tokens at one gateway or core.
#[derive(Debug)]
pub struct Holder {
    config: HolderConfig,
    id: HolderId,
    epoch: LeaseEpoch,
    taken: u128,
    spent: u128,
    gone: u128,
    /// The newest grant that was taken.
    heard: u64,
    /// What is left holds until then.
    until: Time,
    /// The number of the next ask, when the last one went, and what had been spent then.
    number: u64,
    asked: Option<Time>,
    /// The last ask has had an answer: by a grant, or as [`Holder::answered`] says.
    is_answered: bool,
    spent_when_asked: u128,
    /// What was spent between the last two asks.
    recent: u128,
    standing: Option<Bucket>,
}

impl Holder {
    /// Without tokens.
    ///
    /// # Errors
    /// The standing share is no limit.
    pub fn new(now: Time, id: HolderId, epoch: LeaseEpoch, config: HolderConfig) -> Result<Holder, LimitError> {
        let standing = if config.standing_rate == 0 {
            None
        } else {
            let limit = Limit::new(config.standing_rate, config.largest)?;
            Some(Bucket::new(now, limit, config.largest, config.faults))
        };
        Ok(Holder {
            config,
            id,
            epoch,
            taken: 0,
            spent: 0,
            gone: 0,
            heard: 0,
            until: Time(0),
            number: 1,
            asked: None,
            is_answered: false,
            spent_when_asked: 0,
            recent: 0,
            standing,
        })
    }

    /// The grantor that it asks.
    #[must_use]
    pub fn epoch(&self) -> LeaseEpoch {
        self.epoch
    }

    /// Another grantor has taken the place of the one that was asked. What that one had lent is let go.
    pub fn adopt(&mut self, epoch: LeaseEpoch) {
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        // What is owed is owed to the limit, whoever keeps it.
        let owed = self.left().min(0).unsigned_abs();
        (self.taken, self.spent, self.gone) = (0, owed, 0);
        (self.heard, self.asked) = (0, None);
        (self.spent_when_asked, self.recent) = (owed, 0);
    }

    fn left(&self) -> i128 {
        self.taken as i128 - self.spent as i128 - self.gone as i128
    }

    /// Tokens that may be spent now.
    #[must_use]
    pub fn tokens(&mut self, now: Time) -> u64 {
        self.lapse(now);
        u64::try_from(self.left().max(0)).unwrap_or(u64::MAX)
    }

    fn lapse(&mut self, now: Time) {
        if now >= self.until && !self.config.faults.has(Fault::SpendLapsed) {
            self.gone += self.left().max(0).unsigned_abs();
        }
    }

    /// Spends what a request costs, and lets it pass; or not.
    pub fn spend(&mut self, now: Time, cost: u64) -> bool {
        self.lapse(now);
        if self.left() >= i128::from(cost.min(self.config.largest)) {
            self.spent += u128::from(cost);
            return true;
        }
        if let Some(standing) = &mut self.standing
            && standing.admits(now)
        {
            standing.charge(now, cost);
            return true;
        }
        false
    }

    /// What to ask now, if it is time to: requests wait that cost `waiting` together, the next one `next`.
    pub fn ask(&mut self, now: Time, waiting: u64, next: u64) -> Option<Ask> {
        self.lapse(now);
        if self.asked.is_some() && now < self.ask_at(next) {
            return None;
        }
        self.recent = self.spent - self.spent_when_asked;
        let (waiting, left) = (u128::from(waiting), self.left().max(0).unsigned_abs());
        // Until the answer to the ask after this one: twice what was spent since the last.
        let needed = waiting + 2 * self.recent;
        if needed == 0 && left == 0 {
            self.asked = None;
            return None;
        }
        let spare = left.saturating_sub(needed);
        self.gone += spare;
        let owed = self.left().min(0).unsigned_abs();
        let want = (needed + owed).saturating_sub(left);
        let want = u64::try_from(want).unwrap_or(u64::MAX);
        if want == 0 && spare == 0 {
            return None;
        }
        let next = u128::from(next.min(self.config.largest));
        let least = (next + owed).saturating_sub(left);
        let ask = Ask {
            epoch: self.epoch,
            holder: self.id,
            number: self.number,
            heard: self.heard,
            taken: self.taken,
            spent: self.spent,
            gone: self.gone,
            want,
            least: u64::try_from(least).unwrap_or(u64::MAX).min(want),
            is_long: self.config.is_long,
            sent: now,
        };
        self.number += 1;
        (self.asked, self.is_answered) = (Some(now), false);
        self.spent_when_asked = self.spent;
        Some(ask)
    }

    /// The last ask of a holder that is not needed any more: gives back all that it has, tells what it has spent, and that it takes no grant that
    /// is under way. What it owes is forgotten: for who changes holders no request may cost more than [`HolderConfig::largest`]. None: it has not
    /// asked this grantor for anything.
    #[must_use]
    pub fn give_back(mut self, now: Time) -> Option<Ask> {
        if self.asked.is_none() && self.taken == 0 {
            return None;
        }
        self.gone += self.left().max(0).unsigned_abs();
        Some(Ask {
            epoch: self.epoch,
            holder: self.id,
            number: self.number,
            heard: u64::MAX,
            taken: self.taken,
            spent: self.spent,
            gone: self.gone,
            want: 0,
            least: 0,
            is_long: self.config.is_long,
            sent: now,
        })
    }

    /// The grantor has answered what was asked at that moment, whether or not it has lent anything. For a long lease, a quarter of which is long,
    /// that says when to ask again as a grant would; a quarter of a short one is soon enough.
    pub fn answered(&mut self, sent: Time) {
        self.is_answered |= self.config.is_long && self.asked == Some(sent);
    }

    /// Does it ask for a long lease?
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.config.is_long
    }

    /// When it may ask again, if a request waits that costs so much: a quarter of a lease after the last one; where that had an
    /// answer, and what came with it is spent, a fiftieth.
    #[must_use]
    pub fn ask_at(&self, next: u64) -> Time {
        let next = next.min(self.config.largest);
        let is_out = self.is_answered && self.left() < i128::from(next);
        let pause = self.config.lease / if is_out { 50 } else { 4 };
        self.asked.map_or(Time(0), |asked| asked.plus(pause))
    }

    /// The link to the grantor is another one: what was asked may be lost.
    pub fn link_changed(&mut self) {
        self.asked = None;
    }

    /// Tokens have come. They count if they are this life's, under this epoch, and newer than all that were taken; they hold from
    /// the moment at which they were asked for.
    pub fn grant(&mut self, now: Time, grant: &Grant) -> bool {
        let faults = self.config.faults;
        let is_new = grant.number > self.heard || faults.has(Fault::AcceptTwice);
        if grant.holder != self.id || grant.epoch != self.epoch || !is_new {
            return false;
        }
        self.lapse(now);
        // A moment that is still to come was not this clock's.
        let sent = if faults.has(Fault::HoldFromArrival) {
            now
        } else {
            grant.sent.min(now)
        };
        let lease = if faults.has(Fault::WholeLease) {
            self.config.lease
        } else {
            self.config.lease * 4 / 5
        };
        let until = sent.plus(lease);
        self.is_answered |= self.asked == Some(grant.sent);
        self.heard = self.heard.max(grant.number);
        self.taken += u128::from(grant.tokens);
        if self.until > now {
            // What was there is renewed with it.
            self.until = self.until.max(until);
        } else {
            self.until = until;
        }
        self.lapse(now);
        true
    }
}
