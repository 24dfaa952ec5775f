//! What runs on a core.

use crate::driver::{Completion, Driver, Wait};

/// Everything above the driver, on one core: told what has ended, it starts what follows.
pub trait Service {
    /// One pass: handles all `completions` (and leaves the vector empty), drains mailboxes, and starts what follows,
    /// one write per store and one send per peer. Says whether it has work left that does not wait for a completion.
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait;
}
