//! R7 on its own: two volumes whose writes share the room of two stores.
//!
//! A write needs a slot on every store. A write that has its version can be neither completed nor undone where there is no room.

use stateright::{Model, Property};

/// Sequencers, and stores.
const BOTH: usize = 2;

/// R7's credits as a switch.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// A write gets its version only against credits of every store.
    pub credits: bool,
    /// Free slots of each store at the beginning.
    pub free: [u8; BOTH],
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Free slots of each store, those that it has granted included.
    pub free: [u8; BOTH],
    /// Credits of each sequencer at each store.
    pub credits: [[u8; BOTH]; BOTH],
    /// For each sequencer: whether each store still has to apply its write; `None`: no write under way.
    pub pending: [Option<[bool; BOTH]>; BOTH],
    /// Slots that each sequencer's volume holds on each store.
    pub held: [u8; BOTH],
    /// A store had no room for a write that has a version.
    pub stuck: bool,
}

/// A step: sequencer, store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A store grants a credit.
    Grant(usize, usize),
    /// A credit goes back unused.
    Return(usize, usize),
    /// A write gets its version.
    Issue(usize),
    /// A store applies it.
    Apply(usize, usize),
    /// A trim, when nothing is under way: it gives a slot back on every store.
    Trim(usize),
}

impl Model for Space {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let empty = [0; BOTH];
        vec![State {
            free: self.free,
            credits: [empty; BOTH],
            pending: [None; BOTH],
            held: empty,
            stuck: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        for q in 0..BOTH {
            actions.extend([Action::Issue(q), Action::Trim(q)]);
            for m in 0..BOTH {
                actions.extend([Action::Grant(q, m), Action::Return(q, m), Action::Apply(q, m)]);
            }
        }
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = *s;
        match action {
            Action::Grant(q, m) => {
                // Slots that are free and neither granted nor needed by a write that took its credit along.
                let granted: u8 = s.credits.iter().map(|credits| credits[m]).sum();
                let needed = s
                    .pending
                    .iter()
                    .filter(|pending| pending.is_some_and(|pending| pending[m]))
                    .count() as u8;
                if !self.credits || s.free[m] <= granted + needed {
                    return None;
                }
                next.credits[q][m] += 1;
            }
            Action::Return(q, m) => next.credits[q][m] = s.credits[q][m].checked_sub(1)?,
            Action::Issue(q) => {
                if s.pending[q].is_some() || (self.credits && s.credits[q].contains(&0)) {
                    return None;
                }
                if self.credits {
                    next.credits[q].iter_mut().for_each(|credits| *credits -= 1);
                }
                next.pending[q] = Some([true; BOTH]);
            }
            Action::Apply(q, m) => {
                let pending = next.pending[q].as_mut().filter(|pending| pending[m])?;
                if s.free[m] == 0 {
                    next.stuck = true;
                    return Some(next);
                }
                pending[m] = false;
                if *pending == [false; BOTH] {
                    next.pending[q] = None;
                    next.held[q] += 1;
                }
                next.free[m] -= 1;
            }
            Action::Trim(q) => {
                if s.pending[q].is_some() {
                    return None;
                }
                next.held[q] = s.held[q].checked_sub(1)?;
                next.free.iter_mut().for_each(|free| *free += 1);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "a write that has a version finds room on every store",
                |_, s: &State| !s.stuck,
            ),
            Property::sometimes("both volumes hold something", |_, s: &State| {
                s.held.iter().all(|held| *held > 0)
            }),
        ]
    }
}
