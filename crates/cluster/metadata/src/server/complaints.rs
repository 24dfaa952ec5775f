//! What strangers make the log say: a line now and then, however often they come.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One line in so long.
const PAUSE: Duration = Duration::from_secs(10);

/// Says at most one thing in a while, and how much it left out.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<(Option<Instant>, u64)>);

impl Complaints {
    pub(super) fn say(&self, what: &str) {
        if let Some(left_out) = self.admit(Instant::now()) {
            log::warn!("metadata: {what} ({left_out} more since the last such line)");
        }
    }

    /// How many were left out before this one; `None`: it is left out as well.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            state.1 += 1;
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_gets_one_line_and_is_counted() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        assert_eq!(complaints.admit(start), Some(0));
        assert_eq!(complaints.admit(start + PAUSE / 2), None);
        assert_eq!(complaints.admit(start + PAUSE / 2), None);
        assert_eq!(complaints.admit(start + PAUSE), Some(2));
        assert_eq!(complaints.admit(start + PAUSE * 3), Some(0));
    }
}
