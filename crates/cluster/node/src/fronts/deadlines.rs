//! When which session wants to be told the time: of thousands that strangers hold, only the one whose time has come is looked at.

use amita_reactor::driver::Time;
use std::collections::BTreeSet;

/// Each session stands here once at most, with what its own `due` says.
#[derive(Debug, Default)]
pub(super) struct Deadlines(BTreeSet<(Time, u64)>);

impl Deadlines {
    /// The session wants to be told at that time, or earlier as before.
    #[inline]
    pub fn want(&mut self, due: &mut Option<Time>, id: u64, at: Time) {
        if due.is_none_or(|earlier| at < earlier) {
            self.forget(due, id);
            self.0.insert((at, id));
            *due = Some(at);
        }
    }

    /// The session is gone, or has been told.
    pub fn forget(&mut self, due: &mut Option<Time>, id: u64) {
        if let Some(at) = due.take() {
            self.0.remove(&(at, id));
        }
    }

    /// Who is to be told now; its `due` is to be forgotten.
    pub fn first(&self, now: Time) -> Option<u64> {
        self.0.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    pub fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests;
