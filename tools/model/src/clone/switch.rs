//! Reverting and deleting (S13, S9's heads): one transaction, and an owner that does not know of it.
//!
//! A volume of one chunk on two stores has a snapshot, which something may pin. Its first owner stands still at any moment, wakes, and
//! goes on where it was. The second one raises the generation, and then either reverts (the volume gets a new data number, whose
//! parent is the snapshot) or deletes the volume (the head goes, a pinned snapshot stays).

use stateright::{Model, Property};

/// Stores.
const STORES: usize = 2;

/// A revert loses nothing that comes after it.
pub const NOT_LOST: &str = "no write is acknowledged that was given out after the revert and is not in the volume";
/// Nothing is left of what was deleted.
pub const NOTHING_LEFT: &str = "when a head's trim has ended everywhere, no store has anything of it";
/// A pinned snapshot is one.
pub const SAME: &str = "what stays of a deleted volume is the same on all stores";
/// A revert ends.
pub const REVERTED: &str = "a volume is reverted, and a write of before was acknowledged";
/// A deletion ends.
pub const DELETED: &str = "a head is trimmed everywhere, and the snapshot holds the write";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// All stores adopt the new generation before a revert switches.
    RevertFences,
    /// All stores adopt the new generation before a head goes.
    DeleteFences,
    /// Chunks whose copies differ are opened before a head goes whose snapshots stay.
    OpenFirst,
}

/// What is done, and the rules.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// What is switched off.
    pub off: u8,
    /// A revert; else a deletion.
    pub reverts: bool,
    /// Something pins the snapshot, so that it stays when the volume is deleted.
    pub pinned: bool,
}

impl Switch {
    /// The same without this rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u8,
            ..self
        }
    }

    fn keeps(self, rule: Rule) -> bool {
        self.off & (1 << rule as u8) == 0
    }
}

/// The volume's chunk on a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    /// The generation that it has adopted.
    pub fence: u8,
    /// The head has the write.
    pub has: bool,
    /// The head was trimmed; what the snapshot has of the write.
    pub frozen: Option<bool>,
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The volume's generation.
    pub generation: u8,
    /// The new owner has made the copies equal.
    pub opened: bool,
    /// The one transaction is done.
    pub switched: bool,
    /// The record of what is kept is removed: nobody trims any more.
    pub removed: bool,
    /// The stores.
    pub stores: [Store; STORES],
    /// The first owner's write: given out, and whether after the switch.
    pub given: Option<bool>,
    /// It is acknowledged.
    pub acknowledged: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The second owner.
    Raise,
    /// A store adopts its generation.
    Fence(usize),
    /// The second owner makes the copies equal.
    Open,
    /// The transaction.
    Switch,
    /// A store trims the head.
    Trim(usize),
    /// All have: the record goes.
    Remove,
    /// The first owner gives its write out.
    Give,
    /// A store has it.
    Land(usize),
    /// It is acknowledged.
    Acknowledge,
}

impl Switch {
    fn step(self, s: &mut State, action: Action) -> Option<()> {
        let fenced = s.stores.iter().all(|store| store.fence == 2);
        match action {
            Action::Raise => {
                let may = s.generation == 1;
                s.generation = 2;
                may.then_some(())
            }
            Action::Fence(store) => {
                let may = s.generation == 2 && s.stores[store].fence == 1;
                s.stores[store].fence = 2;
                may.then_some(())
            }
            Action::Open => {
                let longest = s.stores.iter().any(|store| store.has);
                s.stores.iter_mut().for_each(|store| store.has = longest);
                let may = fenced && !s.opened && !s.switched;
                s.opened = true;
                may.then_some(())
            }
            Action::Switch => {
                let fences = if self.reverts {
                    Rule::RevertFences
                } else {
                    Rule::DeleteFences
                };
                let opened = self.reverts || !self.pinned || s.opened || !self.keeps(Rule::OpenFirst);
                let may = s.generation == 2 && !s.switched && opened && (fenced || !self.keeps(fences));
                s.switched = true;
                may.then_some(())
            }
            Action::Trim(store) => {
                let store = &mut s.stores[store];
                let may = s.switched && !self.reverts && store.frozen.is_none();
                store.frozen = Some(store.has);
                store.has = false;
                may.then_some(())
            }
            Action::Remove => {
                let may = s.stores.iter().all(|store| store.frozen.is_some()) && !s.removed;
                s.removed = true;
                may.then_some(())
            }
            Action::Give => {
                let may = s.given.is_none();
                s.given = Some(s.switched);
                may.then_some(())
            }
            Action::Land(store) => {
                let store = &mut s.stores[store];
                let may = s.given.is_some() && store.fence == 1 && !store.has;
                store.has = true;
                may.then_some(())
            }
            Action::Acknowledge => {
                let may = s.stores.iter().all(|store| store.has) && s.given.is_some() && !s.acknowledged;
                s.acknowledged = true;
                may.then_some(())
            }
        }
    }
}

impl Model for Switch {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = Store {
            fence: 1,
            ..Store::default()
        };
        vec![State {
            generation: 1,
            opened: false,
            switched: false,
            removed: false,
            stores: [store; STORES],
            given: None,
            acknowledged: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Raise,
            Action::Open,
            Action::Switch,
            Action::Remove,
            Action::Give,
            Action::Acknowledge,
        ]);
        actions.extend((0..STORES).flat_map(|store| [Action::Fence(store), Action::Trim(store), Action::Land(store)]));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOT_LOST, |model, s: &State| {
                !model.reverts || !s.acknowledged || s.given != Some(true)
            }),
            Property::always(NOTHING_LEFT, |_, s: &State| {
                !s.removed || s.stores.iter().all(|store| !store.has)
            }),
            Property::always(SAME, |model, s: &State| {
                !model.pinned || !s.removed || s.stores[0].frozen == s.stores[1].frozen
            }),
            Property::sometimes(REVERTED, |model, s: &State| {
                model.reverts && s.switched && s.acknowledged
            }),
            Property::sometimes(DELETED, |_, s: &State| s.removed && s.stores[0].frozen == Some(true)),
        ]
    }
}
