//! The two times that whoever is at a mirror goes by.

use super::hands::now;
use std::time::{Duration, Instant};

/// What the time is.
pub(super) trait Clock {
    /// Since 1970, as this machine has it: it may be set back, and is for what others are told.
    fn wall(&self) -> Duration;

    /// Since some moment of before: it never goes back, and is for what is waited for.
    fn counted(&self) -> Duration;
}

/// That of this machine.
pub(super) struct Machine(Instant);

impl Machine {
    pub fn new() -> Machine {
        Machine(Instant::now())
    }
}

impl Clock for Machine {
    fn wall(&self) -> Duration {
        now()
    }

    fn counted(&self) -> Duration {
        self.0.elapsed()
    }
}
