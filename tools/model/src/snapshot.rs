//! R11 on its own: a snapshot of a volume whose chunks are sequenced on two cores.
//!
//! A client writes W1 to a chunk of one core, and when it is acknowledged, W2 to a chunk of the other. A write belongs to the
//! snapshot if its core had not adopted the snapshot's number when it was given out.

use stateright::{Model, Property};

/// R11's hold as a switch.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots {
    /// Acknowledgements are held from the moment that the first core adopts the number until the last one has.
    pub hold: bool,
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// Not given out.
    Not,
    /// Given out, in the snapshot or not.
    Issued(bool),
    /// Acknowledged, in the snapshot or not.
    Acknowledged(bool),
}

fn inside(write: Progress) -> bool {
    matches!(write, Progress::Issued(true) | Progress::Acknowledged(true))
}

/// The whole state: who has adopted the number, and the two writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Whether each core has adopted the snapshot's number.
    pub adopted: [bool; 2],
    /// W1 on core 0, W2 on core 1.
    pub writes: [Progress; 2],
}

/// A step on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It adopts the number.
    Adopt(usize),
    /// It gives its write out.
    Issue(usize),
    /// It acknowledges its write.
    Acknowledge(usize),
}

impl Model for Snapshots {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            adopted: [false; 2],
            writes: [Progress::Not; 2],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend((0..2).flat_map(|core| [Action::Adopt(core), Action::Issue(core), Action::Acknowledge(core)]));
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = *s;
        match action {
            Action::Adopt(core) if !s.adopted[core] => next.adopted[core] = true,
            Action::Issue(core) if s.writes[core] == Progress::Not => {
                if core == 1 && !matches!(s.writes[0], Progress::Acknowledged(_)) {
                    return None;
                }
                next.writes[core] = Progress::Issued(!s.adopted[core]);
            }
            Action::Acknowledge(core) => {
                let Progress::Issued(inside) = s.writes[core] else {
                    return None;
                };
                if self.hold && s.adopted[0] != s.adopted[1] {
                    return None;
                }
                next.writes[core] = Progress::Acknowledged(inside);
            }
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a snapshot that holds W2 holds W1", |_, s: &State| {
                !inside(s.writes[1]) || inside(s.writes[0])
            }),
            Property::sometimes("W2 is acknowledged", |_, s: &State| {
                matches!(s.writes[1], Progress::Acknowledged(_))
            }),
        ]
    }
}
