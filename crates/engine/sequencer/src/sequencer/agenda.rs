//! When something is due.

use crate::members::Position;
use crate::table::GroupSlot;
use amita_reactor::Time;

/// Not at all.
pub(super) const NEVER: Time = Time(u64::MAX);

#[derive(Debug)]
pub(super) struct Agenda {
    /// The next moment at which something may be due; [`NEVER`] when nothing is.
    pub wake: Time,
    /// When stores are asked again for credits that they did not have.
    pub settle_again: Time,
    /// Before that no store has credits that have not been used for a while.
    pub credits_due: Time,
    /// Members that are left alone until then.
    pub pauses: Vec<(Time, GroupSlot, Position)>,
    /// When a read that may be answered from no member has waited for long enough.
    pub reads_end: Time,
    /// When members are asked again what they inherit.
    pub inherit_again: Time,
    /// When something of resync that was put off is due.
    pub background: Time,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            wake: NEVER,
            settle_again: NEVER,
            credits_due: NEVER,
            pauses: Vec::new(),
            reads_end: NEVER,
            inherit_again: NEVER,
            background: NEVER,
        }
    }
}

impl Agenda {
    /// Something is due then.
    pub fn arm(&mut self, at: Time) {
        self.wake = self.wake.min(at);
    }

    /// Something of resync is put off until then.
    pub fn put_off(&mut self, until: Time) {
        self.background = self.background.min(until);
    }

    /// When the first of what stands here is due.
    pub fn due(&self) -> Time {
        let pauses = self.pauses.iter().map(|&(at, ..)| at);
        let first = self.settle_again.min(self.credits_due).min(self.background);
        let first = first.min(self.inherit_again).min(self.reads_end);
        pauses.fold(first, Time::min)
    }
}
