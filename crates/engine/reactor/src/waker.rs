//! Waking a core from another thread, at no cost while it is awake.
//!
//! The state is one word. A core that is about to block says so; a waker that finds it asleep kicks it (writes its
//! event file), one that finds it awake only leaves a note. Each side changes the word by an atomic exchange (but for
//! taking a note, which only the core does: a store and a fence), so one of the two comes first: either the core sees
//! the note and does not block, or the waker sees the core asleep.

use crate::sync::{Arc, AtomicU32, Ordering, fence};
use std::fmt;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const NOTED: u32 = 2;

/// What wakes a core that blocks.
pub(crate) trait Kick: Send + Sync {
    /// Ends the core's blocking, now or as soon as it blocks.
    fn kick(&self);
}

struct Shared {
    state: AtomicU32,
    kick: Box<dyn Kick>,
}

/// Wakes one core; the core's driver then completes [`Woken`](crate::Outcome::Woken). Any number of wake-ups before
/// the core looks are one.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    pub(crate) fn new(kick: Box<dyn Kick>) -> Waker {
        Waker {
            shared: Arc::new(Shared {
                state: AtomicU32::new(AWAKE),
                kick,
            }),
        }
    }

    /// A waker that wakes nobody: for receivers that look by themselves, and for tests.
    #[must_use]
    pub fn idle() -> Waker {
        struct Nobody;
        impl Kick for Nobody {
            fn kick(&self) {}
        }
        Waker::new(Box::new(Nobody))
    }

    /// Wakes the core. What was written before this call is seen by the core after it woke.
    pub fn wake(&self) {
        // The fence orders the caller's message before the look at the state; without it both sides could miss.
        fence(Ordering::SeqCst);
        if self.shared.state.load(Ordering::Relaxed) == NOTED {
            return;
        }
        if self.shared.state.swap(NOTED, Ordering::SeqCst) == ASLEEP {
            self.shared.kick.kick();
        }
    }

    /// Of the core: takes the note; true if there was one. To be followed by a look at all that may have been sent.
    pub(crate) fn take_note(&self) -> bool {
        if self.shared.state.load(Ordering::Relaxed) != NOTED {
            return false;
        }
        // Only the core takes a note, so nothing is lost that another writes meanwhile: it could only be the same note.
        self.shared.state.store(AWAKE, Ordering::Relaxed);
        // The other half of the fence in `wake`: a waker that still sees the note it did not have to leave wrote its
        // message before the core looks.
        fence(Ordering::SeqCst);
        true
    }

    /// Of the core: is there a note?
    pub(crate) fn has_note(&self) -> bool {
        self.shared.state.load(Ordering::Acquire) == NOTED
    }

    /// Of the core: says that it is about to block; false (and awake) if there is a note instead. To be followed by
    /// [`Waker::awake`].
    pub(crate) fn fall_asleep(&self) -> bool {
        self.shared
            .state
            .compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Of the core: no longer blocked. A note that came meanwhile stays, to be taken.
    pub(crate) fn awake(&self) {
        let _ = self
            .shared
            .state
            .compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}
