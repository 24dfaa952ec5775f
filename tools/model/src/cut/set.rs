//! The cut of a set (S4): two volumes, each with an owner of its own, and one record that decides.
//!
//! The leader has each owner prepare (its number and the set's name go into its volume's record, after its stores have adopted its
//! generation), then adopt and hold, then release. An owner that has held too long lets go by itself, and says so when it is asked.
//! A host writes W1 to volume A and W2 to volume B once W1 is acknowledged. A is taken over.

use stateright::{Model, Property};

/// Volumes.
const VOLUMES: usize = 2;
/// Owners of volume A, one after the other; B has one.
const OWNERS: usize = 2;

/// A set is one moment.
pub const ONE_MOMENT: &str = "a set that is ready and holds W2 holds W1";
/// Nobody reads what may become void.
pub const SHARED_IS_READY: &str = "no snapshot of a set is shared before the set is ready";
/// The set is ready.
pub const READY: &str = "a set is ready, with W1 in it and W2 not";
/// The set is void.
pub const VOID: &str = "a takeover voids a set";
/// An owner lets go by itself.
pub const LAPSED: &str = "an owner lets go by itself, and the set is void";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// An owner holds until it is released (or lapses, and says so).
    Together,
    /// The set is decided by the answers to the release, not by those to adopt.
    TwoRounds,
    /// A raise voids a set that is being taken.
    Void,
    /// The record that says `ready` is the seal of each of the set's snapshots.
    ReadySeals,
}

/// What has become of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Set {
    /// Neither.
    Taking,
    /// It is one.
    Ready,
    /// It is none, and its numbers are void.
    Void,
}

/// The set, and the rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sets {
    /// What is switched off.
    pub off: u8,
}

impl Sets {
    /// The same without this rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u8,
        }
    }

    fn keeps(self, rule: Rule) -> bool {
        self.off & (1 << rule as u8) == 0
    }
}

/// An owner of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// It gives writes number 1.
    pub adopted: bool,
    /// It holds what carries 1.
    pub holds: bool,
    /// It let go before it was told to.
    pub lapsed: bool,
}

/// A write: W1 to A, W2 to B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Not sent yet.
    Not,
    /// It has its owner (from 0) and its number, and is on its way.
    Given(usize, u8),
    /// It is on the stores.
    Landed(usize, u8),
    /// The host has its answer.
    Acknowledged(u8),
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The set's record.
    pub set: Set,
    /// The generation of each volume, from 0.
    pub generation: [usize; VOLUMES],
    /// What the volume's stores have adopted.
    pub fence: [usize; VOLUMES],
    /// The number and the set's name are in the volume's record.
    pub prepared: [bool; VOLUMES],
    /// Each volume's owners.
    pub owners: [[Owner; OWNERS]; VOLUMES],
    /// What the leader has heard: adopted by which owner.
    pub adopted: [Option<usize>; VOLUMES],
    /// What the leader has heard: held until the release.
    pub held: [bool; VOLUMES],
    /// What the owner made readable for others.
    pub shared: [bool; VOLUMES],
    /// W1 and W2.
    pub writes: [Write; VOLUMES],
}

impl State {
    fn inside(&self, volume: usize) -> bool {
        match self.writes[volume] {
            Write::Landed(_, number) | Write::Acknowledged(number) => number == 0,
            Write::Not | Write::Given(..) => false,
        }
    }
}

/// A step: of a volume, or of one of its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An owner fences its stores and puts number and set into its record.
    Prepare(usize, usize),
    /// It adopts, holds, and answers.
    Adopt(usize, usize),
    /// It is told to let go, and says whether it has held until now.
    Release(usize),
    /// It has held for too long.
    Lapse(usize, usize),
    /// The leader's transaction: all have held.
    Decide,
    /// The leader's other one: some have not.
    GiveUp,
    /// An owner makes its snapshot readable for others.
    Share(usize),
    /// Volume A is taken over.
    Raise,
    /// The new owner's stores have adopted its generation.
    Fence,
    /// A write gets its version and its number.
    Give(usize, usize),
    /// It is on the stores.
    Land(usize),
    /// It is acknowledged.
    Acknowledge(usize),
}

impl Sets {
    fn step(self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Prepare(v, o) => {
                let may = s.generation[v] == o && !s.prepared[v] && s.set == Set::Taking;
                s.prepared[v] = true;
                s.fence[v] = o;
                may.then_some(())
            }
            Action::Adopt(v, o) => {
                // The leader asks for it when all have prepared; who was deposed meanwhile does not know.
                let owner = &mut s.owners[v][o];
                if s.prepared != [true; VOLUMES] || owner.adopted || o > s.generation[v] || s.adopted[v].is_some() {
                    return None;
                }
                (owner.adopted, owner.holds) = (true, self.keeps(Rule::Together));
                s.adopted[v] = Some(o);
                Some(())
            }
            Action::Release(v) => {
                let o = s.adopted[v]?;
                let all = s.adopted.iter().all(Option::is_some);
                let owner = &mut s.owners[v][o];
                let may = all && !s.held[v] && (!owner.lapsed || !self.keeps(Rule::TwoRounds));
                (owner.holds, s.held[v]) = (false, true);
                may.then_some(())
            }
            Action::Lapse(v, o) => {
                let owner = &mut s.owners[v][o];
                let may = owner.holds;
                (owner.holds, owner.lapsed) = (false, true);
                may.then_some(())
            }
            Action::Decide => {
                let may = s.held == [true; VOLUMES] && s.set == Set::Taking;
                s.set = Set::Ready;
                may.then_some(())
            }
            Action::GiveUp => {
                let may = s.set == Set::Taking && s.owners.as_flattened().iter().any(|owner| owner.lapsed);
                s.set = Set::Void;
                may.then_some(())
            }
            Action::Share(v) => {
                let owner = &s.owners[v][s.adopted[v]?];
                let ready = s.set == Set::Ready || (!self.keeps(Rule::ReadySeals) && s.set == Set::Taking);
                let may = ready && !owner.holds && s.adopted[v] == Some(s.generation[v]) && !s.shared[v];
                s.shared[v] = true;
                may.then_some(())
            }
            Action::Raise => {
                let may = s.generation[0] == 0;
                s.generation[0] = 1;
                if s.prepared[0] {
                    // The number is in the record: the new owner carries it from its first write, and holds nothing.
                    s.owners[0][1].adopted = true;
                    if self.keeps(Rule::Void) && s.set == Set::Taking {
                        s.set = Set::Void;
                    }
                }
                may.then_some(())
            }
            Action::Fence => {
                let may = s.fence[0] < s.generation[0];
                s.fence[0] = s.generation[0];
                may.then_some(())
            }
            Action::Give(v, o) => {
                let before = v == 0 || matches!(s.writes[0], Write::Acknowledged(_));
                let may = s.writes[v] == Write::Not && o <= s.generation[v] && before;
                s.writes[v] = Write::Given(o, u8::from(s.owners[v][o].adopted));
                may.then_some(())
            }
            Action::Land(v) => {
                let Write::Given(o, number) = s.writes[v] else {
                    return None;
                };
                s.writes[v] = Write::Landed(o, number);
                (s.fence[v] == o).then_some(())
            }
            Action::Acknowledge(v) => {
                let Write::Landed(o, number) = s.writes[v] else {
                    return None;
                };
                s.writes[v] = Write::Acknowledged(number);
                (number == 0 || !s.owners[v][o].holds).then_some(())
            }
        }
    }
}

impl Model for Sets {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            set: Set::Taking,
            generation: [0; VOLUMES],
            fence: [0; VOLUMES],
            prepared: [false; VOLUMES],
            owners: [[Owner::default(); OWNERS]; VOLUMES],
            adopted: [None; VOLUMES],
            held: [false; VOLUMES],
            shared: [false; VOLUMES],
            writes: [Write::Not; VOLUMES],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Raise, Action::Fence, Action::Decide, Action::GiveUp]);
        for v in 0..VOLUMES {
            actions.extend([
                Action::Release(v),
                Action::Share(v),
                Action::Land(v),
                Action::Acknowledge(v),
            ]);
            for o in 0..OWNERS {
                actions.extend([
                    Action::Prepare(v, o),
                    Action::Adopt(v, o),
                    Action::Lapse(v, o),
                    Action::Give(v, o),
                ]);
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_MOMENT, |_, s: &State| {
                s.set != Set::Ready || !s.inside(1) || s.inside(0)
            }),
            Property::always(SHARED_IS_READY, |_, s: &State| {
                s.set == Set::Ready || s.shared == [false; VOLUMES]
            }),
            Property::sometimes(READY, |_, s: &State| {
                s.set == Set::Ready
                    && s.inside(0)
                    && matches!(s.writes[1], Write::Acknowledged(1))
                    && s.shared == [true; VOLUMES]
            }),
            Property::sometimes(VOID, |_, s: &State| s.set == Set::Void && s.generation[0] == 1),
            Property::sometimes(LAPSED, |_, s: &State| {
                s.set == Set::Void && s.generation[0] == 0 && matches!(s.writes[1], Write::Acknowledged(1))
            }),
        ]
    }
}
