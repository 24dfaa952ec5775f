//! When to send, when to send again, and when to give up.
//!
//! A state machine on a clock that is given: it is asked what to do with the batch at hand, and told how an attempt went. After a failure the
//! collector is left alone for a time that doubles with each, or for as long as it has asked for (`Retry-After`), and that holds for the
//! next batch, too. A batch is given up when it could not be delivered for [`Pacing::patience`].

use crate::settings::Pacing;
use std::time::Duration;

/// What to do with the batch at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send it.
    Send,
    /// Ask again after so long.
    Wait(Duration),
    /// It is too late for it.
    GiveUp,
}

/// See the module. Moments are since any zero.
#[derive(Debug)]
pub struct Delivery {
    pacing: Pacing,
    /// Failures one after the other.
    failures: u32,
    not_before: Duration,
    /// When the batch at hand was first asked about.
    began: Option<Duration>,
}

impl Delivery {
    /// Nothing was sent yet.
    #[must_use]
    pub fn new(pacing: Pacing) -> Delivery {
        Delivery {
            pacing,
            failures: 0,
            not_before: Duration::ZERO,
            began: None,
        }
    }

    /// What is to be done now.
    pub fn next(&mut self, now: Duration) -> Next {
        let began = *self.began.get_or_insert(now);
        let late = began + self.pacing.patience;
        if now >= late {
            self.began = None;
            return Next::GiveUp;
        }
        if now < self.not_before {
            return Next::Wait(self.not_before.min(late) - now);
        }
        Next::Send
    }

    /// The collector has taken the batch.
    pub fn accepted(&mut self) {
        self.failures = 0;
        self.began = None;
    }

    /// The collector does not want the batch, whenever it is sent: it is done with. The next one is not sent at once, for as a rule it
    /// fares the same.
    pub fn refused(&mut self, now: Duration, random: u8) {
        self.began = None;
        self.rest(now, None, random);
    }

    /// The batch was not delivered, and may be later. `wanted`: the collector has said when; `random`: any byte, so that nodes whose
    /// collector has failed do not come back all at once.
    pub fn deferred(&mut self, now: Duration, wanted: Option<Duration>, random: u8) {
        self.rest(now, wanted, random);
    }

    /// Failures one after the other, up to now.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn rest(&mut self, now: Duration, wanted: Option<Duration>, random: u8) {
        let doublings = self.failures.min(16);
        let longest = (self.pacing.first_pause * (1 << doublings)).min(self.pacing.longest_pause);
        // Between a half and all of it.
        let own = longest / 2 + longest / 2 * u32::from(random) / 255;
        // Never at once: a date may be past only because two clocks do not agree.
        let least = self.pacing.first_pause / 2;
        let pause = wanted.map_or(own, |wanted| wanted.clamp(least, self.pacing.longest_wanted.max(least)));
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + pause;
    }
}

#[cfg(test)]
mod tests;
