//! Clones (S8), what holds their parents (S9), a member that comes back to both (S6), and detaching (S13).
//!
//! P has snapshot 1; C is made from it. Both are one chunk in the same group, on two stores or three. C's chunk is absent where nothing has made it
//! C's own: it reads as its parent's state. The first write makes it, with all entries; so does a detach, after which C has no
//! parents and P's snapshot may go. The second store may be away at first and come back.
//!
//! # Coarser than life
//! What P's snapshot is on a store is one of three: whole, lacking, trimmed; how it is brought there is in [`crate::states`]. C gets one
//! write, and one takeover, whose fences and roll-forwards are one step.
//!
//! [`make`] is about chunks that are made at their opening, and flattening; [`switch`] about reverting and deleting.

use stateright::{Model, Property};

pub mod make;
mod steps;
pub mod switch;

/// Stores: one that stays in sync, one that may come back, and another one that stays in sync, or is not there.
pub const STORES: usize = 3;

/// What being in sync means.
pub const WHOLE: &str = "a store in sync has what a clone has inherited, and its write";
/// A deposed owner reads nothing old.
pub const FRESH: &str = "nobody reads of a clone what was overwritten before";
/// The clone outlives what it came from.
pub const DETACHED: &str = "a clone is detached, its parent trimmed everywhere, and both stores are in sync";
/// It is written to while a store comes back.
pub const RETURNED: &str = "a store that came back is in sync with a clone that was written to";
/// The snapshot goes.
pub const DELETED: &str = "a snapshot without clones is trimmed";
/// A clone is taken over.
pub const TAKEN_OVER: &str = "a clone that inherits is taken over, and its write is acknowledged";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// S8: a first write makes the chunk with all its entries.
    Entries,
    /// S8: so does a roll-forward.
    EntriesRolled,
    /// S8: what is inherited is served under the clone's right.
    OwnRight,
    /// S6: a store is claimed for a clone when its parents' owners have claimed it.
    ParentsFirst,
    /// S6: they have claimed it since it came back this time.
    SameSince,
    /// S6: a clone's chunk that is made where its parent is lacking lacks what that does, durably, until that is there.
    ParentsFirstChunks,
    /// S9: a number leaves by a transaction that finds no pin.
    Pins,
    /// S9: a clone is made by a transaction that compares the record from which numbers leave.
    Compared,
    /// S13: a detach makes chunks also where writes go that is not in sync.
    DetachSyncing,
    /// S13: fences anew tell all stores that the parents are gone, before these can be trimmed and stores be claimed.
    DetachTells,
}

/// The bounds, and the rules.
#[derive(Clone, Copy, Debug)]
pub struct Clones {
    /// What is switched off.
    pub off: u16,
    /// The clone is there at the beginning.
    pub cloned: bool,
    /// There is a third store.
    pub three: bool,
    /// The second store is away at the beginning, and can come back so often.
    pub returns: u8,
    /// The clone is written to.
    pub writes: bool,
    /// The clone is taken over.
    pub raises: bool,
    /// The clone is detached.
    pub detaches: bool,
}

impl Default for Clones {
    fn default() -> Self {
        Self {
            off: 0,
            cloned: false,
            three: false,
            returns: 0,
            writes: true,
            raises: true,
            detaches: false,
        }
    }
}

impl Clones {
    /// The same without this rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u16,
            ..self
        }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.off & (1 << rule as u16) == 0
    }
}

/// What a store is for the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Not a member.
    Out,
    /// Syncing, by the record.
    Listed,
    /// Syncing, and fenced: it gets writes.
    Active,
    /// In sync.
    InSync,
}

/// What P's snapshot is on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parent {
    /// All there.
    Whole,
    /// Not brought yet.
    Lacking,
    /// Gone.
    Trimmed,
}

/// C's chunk where it is C's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own {
    /// What was inherited is in it. Only the model knows.
    pub entries: bool,
    /// Durably: something is lacking.
    pub incomplete: bool,
    /// The write is in it.
    pub written: bool,
}

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// What it is for the group.
    pub role: Role,
    /// The generation of C that it has adopted.
    pub fence: u8,
    /// Its last fence named C's parents.
    pub told: bool,
    /// P's snapshot.
    pub parent: Parent,
    /// C's chunk.
    pub clone: Option<Own>,
}

impl Store {
    fn gets_writes(&self) -> bool {
        matches!(self.role, Role::Active | Role::InSync)
    }

    /// What it says that it has of C: nothing, or with or without the write.
    fn says(&self) -> Option<bool> {
        match self.clone {
            Some(own) => Some(own.written),
            None => self.told.then_some(false),
        }
    }
}

/// The write to C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Write {
    /// Who gave it out; 0: nobody.
    pub owner: u8,
    /// It is acknowledged.
    pub acknowledged: bool,
    /// It never happened.
    pub gone: bool,
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// P's snapshot is live.
    pub live: bool,
    /// What holds it.
    pub pins: u8,
    /// Who makes the clone has read that it is live.
    pub looked: bool,
    /// C is there.
    pub cloned: bool,
    /// C's record names its parents.
    pub parents: bool,
    /// C's generation, and the owner that has the chunk open.
    pub generation: u8,
    /// See above.
    pub open: u8,
    /// How often the second store has come back: its *since*.
    pub since: u8,
    /// A fence that is on its way there, and whether it names parents.
    pub fence: Option<bool>,
    /// For which *since* P's owner, and C's, claims it.
    pub claims: [Option<u8>; 2],
    /// The stores.
    pub stores: [Store; STORES],
    /// The write.
    pub write: Write,
    /// Somebody has read what was overwritten.
    pub stale: bool,
}

impl State {
    fn whole(&self) -> bool {
        let in_sync = self.stores.iter().filter(|store| store.role == Role::InSync);
        !self.cloned || { in_sync }.all(|store| match store.clone {
            Some(own) => own.entries && !own.incomplete && (own.written || !self.write.acknowledged),
            None => store.told && store.parent == Parent::Whole && !self.write.acknowledged,
        })
    }
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Somebody who makes a clone reads the records.
    Look,
    /// And makes it.
    Clone,
    /// P's snapshot is deleted.
    Delete,
    /// A store trims it.
    Trim(usize),
    /// An owner of C gives the write out.
    Give(u8),
    /// A store has it.
    Land(usize),
    /// It is acknowledged.
    Acknowledge,
    /// C is taken over.
    Raise,
    /// The new owner opens the chunk.
    Open,
    /// The old owner reads the chunk at a store, as absent.
    ReadOld(usize),
    /// The second store is listed as syncing.
    Return,
    /// C's owner sends it a fence.
    SendFence,
    /// Which arrives.
    Fenced,
    /// It leaves again, while it is syncing.
    Leave,
    /// P's snapshot is brought there.
    BringParent,
    /// P's owner claims it.
    ClaimParent,
    /// It joins the history of C's chunk.
    Join,
    /// What it lacks of C's chunk is brought.
    Bring,
    /// C's owner claims it.
    Claim,
    /// It is promoted.
    Promote,
    /// A detach makes C's chunk on a store.
    Make(usize),
    /// The parents leave C's record.
    Detach,
    /// A fence anew tells a store so.
    Tell(usize),
    /// The pin goes.
    Unpin,
}

impl Model for Clones {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let there = Store {
            role: Role::InSync,
            fence: 1,
            told: true,
            parent: Parent::Whole,
            clone: None,
        };
        let away = Store {
            role: Role::Out,
            fence: 0,
            parent: Parent::Lacking,
            ..there
        };
        vec![State {
            live: true,
            pins: u8::from(self.cloned),
            looked: self.cloned,
            cloned: self.cloned,
            parents: true,
            generation: 1,
            open: 1,
            since: 0,
            fence: None,
            claims: [None; 2],
            stores: [
                there,
                if self.returns > 0 { away } else { there },
                if self.three { there } else { away },
            ],
            write: Write::default(),
            stale: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        let stores = if self.three { 3 } else { 2 };
        actions.extend([Action::Look, Action::Clone, Action::Delete]);
        actions.extend((0..stores).map(Action::Trim));
        if self.writes {
            actions.extend([Action::Give(1), Action::Give(2), Action::Acknowledge]);
            actions.extend((0..stores).flat_map(|store| [Action::Land(store), Action::ReadOld(store)]));
        }
        if self.raises {
            actions.extend([Action::Raise, Action::Open]);
        }
        if self.returns > 0 {
            actions.extend([
                Action::Return,
                Action::SendFence,
                Action::Fenced,
                Action::Leave,
                Action::BringParent,
            ]);
            actions.extend([
                Action::ClaimParent,
                Action::Join,
                Action::Bring,
                Action::Claim,
                Action::Promote,
            ]);
        }
        if self.detaches {
            actions.extend([Action::Detach, Action::Unpin]);
            actions.extend((0..stores).flat_map(|store| [Action::Make(store), Action::Tell(store)]));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WHOLE, |_, s: &State| s.whole()),
            Property::always(FRESH, |_, s: &State| !s.stale),
            Property::sometimes(DETACHED, |_, s: &State| {
                let gone = |store: &Store| store.parent == Parent::Trimmed || store.role == Role::Out;
                s.cloned && !s.parents && s.stores.iter().all(gone) && s.stores[1].role == Role::InSync
            }),
            Property::sometimes(RETURNED, |_, s: &State| {
                s.since > 0 && s.write.acknowledged && s.stores[1].role == Role::InSync
            }),
            Property::sometimes(DELETED, |_, s: &State| {
                !s.cloned && s.stores[..2].iter().all(|store| store.parent == Parent::Trimmed)
            }),
            Property::sometimes(TAKEN_OVER, |_, s: &State| {
                s.write.acknowledged && s.write.owner == 2 && s.parents
            }),
        ]
    }
}
