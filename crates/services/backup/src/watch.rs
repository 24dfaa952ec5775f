//! Which sessions are dead? Nobody can know; but one that says nothing for long enough may be fenced.
//!
//! Long enough is measured by who watches, with a clock of its own that only goes forward. Whoever is wrong, a watcher whose clock runs too
//! fast or a session that slept, costs the session its point: it begins another one, and finds what it has put. Nothing is lost.

use crate::state::{SessionId, State};
use std::collections::BTreeMap;
use std::time::Duration;

/// What was seen of sessions, and when.
#[derive(Debug, Default)]
pub struct Watch {
    seen: BTreeMap<SessionId, (u64, Duration)>,
}

impl Watch {
    /// Looks at a vault's state, `now` after any fixed moment. Returns the sessions that have said nothing for at least `patience` while
    /// they were watched.
    pub fn look(&mut self, state: &State, now: Duration, patience: Duration) -> Vec<SessionId> {
        self.seen.retain(|session, _| state.sessions.contains_key(session));
        let mut silent = Vec::new();
        for (session, open) in &state.sessions {
            let seen = self.seen.entry(*session).or_insert((open.last, now));
            if seen.0 != open.last {
                *seen = (open.last, now);
            } else if now.saturating_sub(seen.1) >= patience {
                silent.push(*session);
            }
        }
        silent
    }
}
