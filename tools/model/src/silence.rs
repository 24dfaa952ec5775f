//! When a store counts as silent: a disk that hangs under a store that lives.
//!
//! Time goes by in rounds, in each of which the sequencer renews a lease if it reads, as a timer would have it: no
//! chance leaves a round out, so fairness alone would not show what such a schedule does. A lease is renewed from the
//! store's memory; what needs the disk waits for it.

use stateright::{Model, Property};

/// Rounds after which a silent store is evicted.
const PATIENCE: u8 = 14;
/// Rounds within which a disk that is well has done anything.
const SLOWEST: u8 = 10;

/// The rule as a switch, and the load.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// Silence is the age of the oldest request that needs the disk and is not answered; else the time since anything
    /// was heard.
    pub by_oldest: bool,
    /// The sequencer reads, and has its leases renewed.
    pub reads: bool,
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The disk hangs for good.
    pub hangs: bool,
    /// The ages of the requests that wait for the disk, in rounds; the oldest first.
    pub waiting: [Option<u8>; 2],
    /// Rounds since anything was heard of the store that owes an answer.
    pub silent: u8,
    pub evicted: bool,
    /// A write was answered.
    pub answered: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The disk hangs.
    Hang,
    /// A write is sent.
    Write,
    /// The disk has done what waits longest, and it is answered.
    Answer,
    /// A round goes by.
    Round,
    /// The store is evicted.
    Evict,
}

/// The name of the property that a disk that is only slow is left alone.
pub const WELL: &str = "nobody is evicted whose disk works";
/// What happens somewhere.
pub const ANSWERED: &str = "a write is answered";

impl Silence {
    fn is_silent(&self, s: &State) -> bool {
        match s.waiting[0] {
            Some(age) if self.by_oldest => age >= PATIENCE,
            Some(_) => s.silent >= PATIENCE,
            None => false,
        }
    }

    /// What happens by itself some time.
    #[must_use]
    pub fn is_fair(action: &Action) -> bool {
        matches!(action, Action::Answer | Action::Round | Action::Evict)
    }

    /// Nothing waits for the store.
    #[must_use]
    pub fn is_quiet(s: &State) -> bool {
        s.evicted || s.waiting[0].is_none()
    }
}

impl Model for Silence {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            hangs: false,
            waiting: [None; 2],
            silent: 0,
            evicted: false,
            answered: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Hang,
            Action::Write,
            Action::Answer,
            Action::Round,
            Action::Evict,
        ]);
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = *s;
        match action {
            _ if s.evicted => return None,
            Action::Hang if !s.hangs => next.hangs = true,
            Action::Write => {
                if s.waiting[0].is_none() {
                    next.silent = 0;
                }
                *next.waiting.iter_mut().find(|place| place.is_none())? = Some(0);
            }
            Action::Answer if s.waiting[0].is_some() && !s.hangs => {
                (next.waiting, next.silent, next.answered) = ([s.waiting[1], None], 0, true);
            }
            Action::Round => {
                if !s.hangs && s.waiting[0].is_some_and(|age| age >= SLOWEST) {
                    return None;
                }
                for age in next.waiting.iter_mut().flatten() {
                    *age = (*age + 1).min(PATIENCE);
                }
                let counts = s.waiting[0].is_some() && !self.reads;
                next.silent = if counts { (s.silent + 1).min(PATIENCE) } else { 0 };
            }
            Action::Evict if self.is_silent(s) => next.evicted = true,
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WELL, |_, s: &State| !s.evicted || s.hangs),
            Property::sometimes(ANSWERED, |_, s: &State| s.answered),
        ]
    }
}
