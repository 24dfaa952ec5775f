//! Turns at what takes much of a machine at one time.

use super::machine::Machine;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Who waits for a turn looks so often.
const LOOK: Duration = Duration::from_millis(200);

/// So many at one time, at most.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    taken: Arc<AtomicUsize>,
    most: usize,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Arc<AtomicUsize>);

impl Turns {
    pub(super) fn of(most: usize) -> Turns {
        Turns {
            taken: Arc::default(),
            most,
        }
    }

    fn try_take(&self) -> Option<Turn> {
        let more = |taken: usize| (taken < self.most).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|_| Turn(Arc::clone(&self.taken)))
    }

    /// A turn, for which it is waited so long; none: others had them all that time.
    pub(super) fn take(&self, machine: &dyn Machine, patience: Duration) -> Option<Turn> {
        let until = machine.now() + patience;
        loop {
            let turn = self.try_take();
            if turn.is_some() || machine.now() >= until {
                return turn;
            }
            machine.pause(LOOK);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
