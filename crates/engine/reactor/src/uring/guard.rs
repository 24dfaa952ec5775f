//! Carries out at a listening socket what [`Admission`] decides: by the kernel where it can, by closing where that came too late.

use super::{filter, sys};
use crate::admission::{AcceptLimits, Admission, Verdict};
use crate::driver::{AcceptCounts, Time};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Connections that may wait to be accepted while strangers come faster than they may: what they fill at once when some are let in again
/// is all refused but for those few, and keeps out who is known until then.
const PRESSED_BACKLOG: i32 = 32;

/// Of one listening socket, which its methods are given: a driver's, or that of somebody who accepts by himself.
#[derive(Debug)]
pub struct Guard {
    admission: Admission,
    /// The kernel drops requests to connect.
    filtered: bool,
    /// It has done so: what was accepted meanwhile has the same filter.
    was_filtered: bool,
    /// As many may wait when nobody presses.
    usual_backlog: i32,
    backlog: i32,
    counts: AcceptCounts,
}

impl Guard {
    /// For a socket that listens with this backlog. The salt is what nobody outside knows.
    #[must_use]
    pub fn new(limits: AcceptLimits, salt: u64, backlog: i32) -> Guard {
        Guard {
            admission: Admission::new(limits, salt),
            filtered: false,
            was_filtered: false,
            usual_backlog: backlog,
            backlog,
            counts: AcceptCounts::default(),
        }
    }

    /// From now on that address is known, or is not.
    pub fn set_known(&mut self, listener: &OwnedFd, address: IpAddr, is_known: bool) {
        self.admission.set_known(address, is_known);
        self.apply(listener);
    }

    /// This connection was accepted, from there. One that is refused is for the caller to close.
    pub fn arrive(&mut self, listener: &OwnedFd, now: Time, from: IpAddr, connection: &impl AsRawFd) -> Verdict {
        let verdict = self.admission.arrive(now, Some(from));
        match verdict {
            Verdict::Refuse => self.counts.refused += 1,
            Verdict::Admit => {
                self.counts.taken += 1;
                if self.was_filtered {
                    // An error: it has none.
                    let _ = sys::detach_filter(connection);
                }
            }
        }
        self.apply(listener);
        verdict
    }

    /// A connection was accepted that is gone already, from there if the kernel still says. It has cost what others cost.
    pub fn came_and_went(&mut self, listener: &OwnedFd, now: Time, from: Option<IpAddr>) {
        self.admission.arrive(now, from);
        self.counts.refused += 1;
        self.apply(listener);
    }

    /// Lets time pass; to be called at [`Guard::due`].
    pub fn look(&mut self, listener: &OwnedFd, now: Time) {
        self.admission.look(now);
        self.apply(listener);
    }

    /// When somebody is let in again who is kept out now.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        self.admission.due()
    }

    /// What it has done.
    #[must_use]
    pub fn counts(&self) -> AcceptCounts {
        self.counts
    }

    /// Does the rule let a request from there pass?
    #[cfg(test)]
    pub(super) fn passes(&self, address: IpAddr) -> bool {
        self.admission.rule().passes(address)
    }

    /// Tells the kernel what has changed.
    fn apply(&mut self, listener: &OwnedFd) {
        if !self.admission.take_changed() {
            return;
        }
        let backlog = match self.admission.is_pressed() {
            true => PRESSED_BACKLOG.min(self.usual_backlog),
            false => self.usual_backlog,
        };
        // Where one of these fails there are more that are refused, and nothing else.
        if backlog != self.backlog && sys::listen(listener, backlog).is_ok() {
            self.backlog = backlog;
        }
        let was_filtered = self.filtered;
        let applied = filter::apply(listener, self.admission.rule(), self.filtered);
        self.filtered = applied.filtered;
        self.was_filtered |= self.filtered;
        self.counts.pauses += u64::from(self.filtered && !was_filtered);
        self.counts.left_out += applied.left_out as u64;
    }
}
