//! A clone's chunk is made when it is opened (S6, S8), beside a store that comes back, and the clone is flattened (S9, S13).
//!
//! C is a clone of P's snapshot, with one chunk that nobody has made yet. Two stores are in sync, a third one comes back. An opening has the third one make
//! the chunk first, if it comes (its parent is there, its owner has fenced it), then those in sync. When the chunk was opened a flattening
//! takes the parents out of C's record, and P's snapshot is trimmed. C is taken over; what its first owner has sent to the third store stays under way.
//!
//! # Coarser than life
//! Nobody writes, so all copies are of one version: what is compared is equal where both have something. A takeover's fences of the stores
//! in sync are one step with its raise. Which owner knows of the parents' leaving is in the request that is under way.

use super::Parent;
use stateright::{Model, Property};

/// Two that stay in sync, and one that comes back.
const STORES: usize = 3;
/// The one that comes back.
const BACK: usize = 2;

/// Nobody is in sync without what C inherits.
pub const WHOLE: &str = "a store in sync has the clone's chunk as it was inherited, or can still make it";
/// The clone outlives what it came from.
pub const FLATTENED: &str =
    "a clone that was taken over is flattened, its parent trimmed, and the store that came back is in sync";
/// Who comes back makes the chunk first.
pub const FIRST: &str = "the store that comes back has made the chunk before the others";
/// One that cannot make it is passed over.
pub const PASSED_OVER: &str = "a store that was passed over is in sync, with a chunk that was brought";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A store that comes back makes what the others make, before they do.
    Coming,
    /// An opening under way when the store's list begins is compared, whatever the list says.
    UnderWay,
    /// A chunk for which the store was passed over is compared.
    PassedOver,
    /// One that was called whole already, and cannot make a chunk, leaves.
    CalledWhole,
    /// A state that is trimmed is refused; another one is not taken for it.
    Trimmed,
    /// The parents leave when the chunk was made.
    Made,
}

/// The bounds, and the rules.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// What is switched off.
    pub off: u8,
    /// How often the third store comes back.
    pub returns: u8,
    /// C is taken over.
    pub raises: bool,
}

impl Making {
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

/// What the store that comes back is for the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Not a member.
    Out,
    /// Syncing, by the record.
    Listed,
    /// Syncing, and fenced by C's owner.
    Active,
    /// C's owner has claimed that it is whole.
    Whole,
    /// In sync.
    InSync,
}

/// C's chunk on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// Made of the snapshot by the store itself.
    Made,
    /// Brought from another store.
    Brought,
    /// Made of something else, and called the same.
    Wrong,
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// C's record names its parents.
    pub parents: bool,
    /// C's owner.
    pub generation: u8,
    /// An opening is under way; whether it waits for the store that comes back.
    pub opening: Option<bool>,
    /// The flattening has read the chunk.
    pub read: bool,
    /// The third store.
    pub role: Role,
    /// Who has fenced it.
    pub fence: u8,
    /// How often it has come back.
    pub since: u8,
    /// Its list was taken; whether the chunk is still to be compared.
    pub compare: Option<bool>,
    /// A request to make the chunk that is on its way to it, by its sender's generation.
    pub flight: Option<u8>,
    /// It was passed over.
    pub passed_over: bool,
    /// P's snapshot on each store.
    pub snapshot: [Parent; STORES],
    /// C's chunk on each store.
    pub chunks: [Option<Chunk>; STORES],
}

impl State {
    fn in_sync(&self, store: usize) -> bool {
        store != BACK || self.role == Role::InSync
    }

    fn whole(&self) -> bool {
        (0..STORES)
            .filter(|store| self.in_sync(*store))
            .all(|store| match self.chunks[store] {
                Some(chunk) => chunk != Chunk::Wrong,
                None => self.parents && self.snapshot[store] == Parent::Whole,
            })
    }

    fn all_have_it(&self) -> bool {
        (0..STORES).all(|store| !self.in_sync(store) || self.chunks[store].is_some())
    }
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// C's owner begins to open the chunk.
    Open,
    /// It asks the store that comes back to make it.
    Ask,
    /// Which gets the request.
    Arrive,
    /// It is passed over: busy, or its link is broken.
    PassOver,
    /// A store in sync makes the chunk.
    Make(usize),
    /// The chunk is open, and was read.
    Opened,
    /// The parents leave C's record, and the pin the snapshot.
    Flatten,
    /// A store trims P's snapshot.
    Trim(usize),
    /// C is taken over.
    Raise,
    /// The third store is listed as syncing.
    Return,
    /// C's owner fences it.
    Fence,
    /// It leaves again.
    Leave,
    /// P's snapshot is brought, and P's owner claims it.
    BringParent,
    /// The list of C's chunks is taken.
    List,
    /// The chunk is compared, and brought where it lacks.
    Compare,
    /// It is called whole.
    Claim,
    /// It is promoted.
    Promote,
}

impl Making {
    fn step(self, s: &mut State, action: Action) -> Option<()> {
        let syncing = matches!(s.role, Role::Active | Role::Whole);
        match action {
            Action::Open => {
                let may = s.opening.is_none() && !(s.all_have_it() && s.read);
                let comes = syncing && s.snapshot[BACK] == Parent::Whole && !s.all_have_it();
                s.opening = Some(comes && self.keeps(Rule::Coming));
                may.then_some(())
            }
            Action::Ask => {
                let may = s.opening == Some(true) && s.flight.is_none() && syncing;
                s.flight = Some(s.generation);
                may.then_some(())
            }
            Action::Arrive => {
                let from = s.flight.take()?;
                if from == s.fence && s.chunks[BACK].is_none() {
                    s.chunks[BACK] = match s.snapshot[BACK] {
                        Parent::Whole => Some(Chunk::Made),
                        Parent::Trimmed if !self.keeps(Rule::Trimmed) => Some(Chunk::Wrong),
                        Parent::Trimmed | Parent::Lacking => None,
                    };
                }
                if from == s.generation && s.chunks[BACK].is_some() {
                    s.opening = s.opening.map(|_| false);
                }
                Some(())
            }
            Action::PassOver => {
                let may = s.opening == Some(true);
                (s.opening, s.passed_over) = (Some(false), true);
                if s.role == Role::Whole && self.keeps(Rule::CalledWhole) {
                    (s.role, s.compare) = (Role::Out, None);
                } else if self.keeps(Rule::PassedOver) {
                    s.compare = s.compare.map(|_| true);
                }
                may.then_some(())
            }
            Action::Make(store) => {
                let there = s.snapshot[store] == Parent::Whole && s.parents;
                let may = s.opening == Some(false) && s.in_sync(store) && s.chunks[store].is_none() && there;
                s.chunks[store] = Some(Chunk::Made);
                may.then_some(())
            }
            Action::Opened => {
                let may = s.opening == Some(false) && s.all_have_it();
                (s.opening, s.read) = (None, true);
                may.then_some(())
            }
            Action::Flatten => {
                let may = s.parents && (s.read || !self.keeps(Rule::Made));
                s.parents = false;
                may.then_some(())
            }
            Action::Trim(store) => {
                let may = !s.parents && s.snapshot[store] != Parent::Trimmed;
                s.snapshot[store] = Parent::Trimmed;
                may.then_some(())
            }
            Action::Raise => {
                let may = s.generation == 1 && self.raises;
                (s.generation, s.opening) = (2, None);
                // The new owner fences it, and takes a list of its own.
                if syncing {
                    (s.role, s.compare) = (Role::Listed, None);
                }
                may.then_some(())
            }
            Action::Return => {
                let may = s.role == Role::Out && s.since < self.returns;
                s.role = Role::Listed;
                s.since += 1;
                may.then_some(())
            }
            Action::Fence => {
                let may = s.role == Role::Listed;
                (s.role, s.fence) = (Role::Active, s.generation);
                may.then_some(())
            }
            Action::Leave => {
                let may = syncing && s.since < self.returns;
                (s.role, s.compare) = (Role::Out, None);
                s.opening = s.opening.map(|_| false);
                may.then_some(())
            }
            Action::BringParent => {
                let may = s.role == Role::Active && s.snapshot[BACK] == Parent::Lacking;
                s.snapshot[BACK] = s.snapshot[0];
                may.then_some(())
            }
            Action::List => {
                let may = s.role == Role::Active && s.compare.is_none() && s.snapshot[BACK] != Parent::Lacking;
                let named = s.chunks[..BACK].iter().any(Option::is_some);
                s.compare = Some(named || (s.opening.is_some() && self.keeps(Rule::UnderWay)));
                may.then_some(())
            }
            Action::Compare => {
                let may = syncing && s.compare == Some(true) && s.opening.is_none();
                s.compare = Some(false);
                if s.chunks[BACK].is_none() && s.chunks[..BACK].iter().any(Option::is_some) {
                    s.chunks[BACK] = Some(Chunk::Brought);
                }
                may.then_some(())
            }
            Action::Claim => {
                let may = s.role == Role::Active && s.compare == Some(false);
                s.role = Role::Whole;
                may.then_some(())
            }
            Action::Promote => {
                let may = s.role == Role::Whole;
                s.role = Role::InSync;
                may.then_some(())
            }
        }
    }
}

impl Model for Making {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            parents: true,
            generation: 1,
            opening: None,
            read: false,
            role: Role::Out,
            fence: 0,
            since: 0,
            compare: None,
            flight: None,
            passed_over: false,
            snapshot: [Parent::Whole, Parent::Whole, Parent::Lacking],
            chunks: [None; STORES],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Open,
            Action::Ask,
            Action::Arrive,
            Action::PassOver,
            Action::Opened,
            Action::Flatten,
            Action::Raise,
            Action::Return,
            Action::Fence,
            Action::Leave,
            Action::BringParent,
            Action::List,
            Action::Compare,
            Action::Claim,
            Action::Promote,
        ]);
        actions.extend((0..STORES).flat_map(|store| [Action::Make(store), Action::Trim(store)]));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WHOLE, |_, s: &State| s.whole()),
            Property::sometimes(FLATTENED, |model, s: &State| {
                let trimmed = s.snapshot == [Parent::Trimmed; STORES];
                s.role == Role::InSync && !s.parents && trimmed && (s.generation == 2 || !model.raises)
            }),
            Property::sometimes(FIRST, |_, s: &State| s.chunks == [None, None, Some(Chunk::Made)]),
            Property::sometimes(PASSED_OVER, |_, s: &State| {
                s.role == Role::InSync && s.passed_over && s.chunks[BACK] == Some(Chunk::Brought)
            }),
        ]
    }
}
