//! The cut of one volume (S1, S2, S3): what a snapshot holds when two cores, two owners and two members may be late.
//!
//! A volume of two chunks, each sequenced by a core of its own and kept by stores of its own. Its owner takes a snapshot: the
//! number goes into the record, each core adopts it, what carries it is held until all have, and it is sealed when nothing older
//! is without its acknowledgement. A host writes W1 to chunk 0, and W2 to chunk 1 once W1 was acknowledged *or seen by a read*;
//! W3 goes to chunk 0 behind W1, at any time. Meanwhile the volume is taken over, a link breaks, a member comes back.
//!
//! # Coarser than life
//! A fence reaches all stores of a chunk, or of the volume, in one step, and an opening makes its copies equal in one: what lies
//! between is in [`crate::model`]. A store answers as it applies. Of a member that comes back only the number is looked at that `Join` leaves there;
//! its content is in [`crate::states`].
//!
//! [`set`] is about several volumes, [`share`] about who reads a snapshot when.

use stateright::{Model, Property};

mod record;
pub mod set;
pub mod share;
mod steps;

pub use record::{Owner, Record, Store, Write};

/// Chunks, each with its core.
pub const CHUNKS: usize = 2;
/// Stores of a chunk.
pub const MEMBERS: usize = 2;
/// Owners, one after the other; the first is number 1, so that 0 is nobody.
pub const OWNERS: usize = 3;
/// Writes: W1, W2, W3.
pub const WRITES: usize = 3;
/// The chunk of each write.
pub const CHUNK: [usize; WRITES] = [0, 1, 0];

/// Whoever sees W1 and then writes W2 finds both in a snapshot, or not W2 alone.
pub const CONSISTENT: &str = "a sealed snapshot that holds W2 holds W1";
/// A snapshot is of after it was asked for.
pub const INCLUDED: &str = "a sealed snapshot holds what was acknowledged before it was asked for";
/// Nobody's writes are refused as older than what the chunk has.
pub const TAKEN: &str = "no store refuses a write of the owner for its number";
/// Members agree on what belongs to a snapshot.
pub const SAME: &str = "a write belongs to a sealed snapshot on all members or on none";
/// A snapshot is sealed.
pub const SEALED: &str = "a snapshot is sealed";
/// A write of after the cut ends.
pub const AFTER: &str = "a write that carries the number is acknowledged";
/// A second owner's snapshot is sealed.
pub const LATER: &str = "a later owner seals a snapshot";

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// S1: the number is in the record before a core adopts it.
    RecordFirst,
    /// S1: an opener reads the number after its raise.
    ReadAfterRaise,
    /// S1: a number that was voided is not given again.
    NeverAgain,
    /// S2: a number is taken when all stores have adopted the owner's generation.
    FencesFirst,
    /// S2: what carries a number is acknowledged when all cores have adopted it.
    HoldAcks,
    /// S2: it is shown by reads then, and not earlier.
    HoldReads,
    /// S2: a raise voids a number that is not sealed.
    Void,
    /// S3: a resend carries the number that the version was given out with.
    Bound,
    /// S3: `Join` carries the number of the version that it names.
    JoinNumber,
}

/// The bounds, and the rules.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// What is switched off.
    pub off: u16,
    /// Owners, at most [`OWNERS`].
    pub owners: usize,
    /// Members of a chunk, at most [`MEMBERS`].
    pub members: usize,
    /// Writes, at most [`WRITES`].
    pub writes: usize,
    /// Snapshots that are taken.
    pub snapshots: u8,
    /// Links that break.
    pub breaks: u8,
    /// Whether chunk 0 has one member at first, and the other one comes back.
    pub returns: bool,
}

impl Default for Cut {
    fn default() -> Self {
        Self {
            off: 0,
            owners: 2,
            members: 1,
            writes: 3,
            snapshots: 1,
            breaks: 0,
            returns: false,
        }
    }
}

impl Cut {
    /// The same without this rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u8,
            ..self
        }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.off & (1 << rule as u8) == 0
    }

    fn members(&self, state: &State, chunk: usize) -> usize {
        match (chunk, self.returns) {
            (0, true) => 2 - usize::from(state.away),
            _ => self.members,
        }
    }
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The volume's record.
    pub record: Record,
    /// Its owners, by generation less one.
    pub owners: [Owner; OWNERS],
    /// The stores, by chunk and member.
    pub stores: [[Store; MEMBERS]; CHUNKS],
    /// The writes.
    pub writes: [Write; WRITES],
    /// Links that may still break.
    pub breaks: u8,
    /// Chunk 0's second member is not there yet.
    pub away: bool,
    /// A store has refused a write of the volume's owner for its number.
    pub refused: bool,
}

impl State {
    /// Some member counts it to snapshot `number`.
    fn inside(&self, write: usize, number: u8) -> bool {
        (self.writes[write].numbers.iter().flatten()).any(|carried| *carried < number)
    }

    /// Every number that is sealed.
    fn sealed(&self) -> impl Iterator<Item = u8> + '_ {
        (1..=self.record.number).filter(|number| self.record.sealed & (1 << number) != 0)
    }

    fn consistent(&self) -> bool {
        self.sealed()
            .all(|number| !self.inside(1, number) || self.inside(0, number))
    }

    fn included(&self) -> bool {
        self.sealed().all(|number| {
            let asked = self.record.before[usize::from(number) - 1];
            (0..WRITES).all(|write| asked & (1 << write) == 0 || self.inside(write, number))
        })
    }

    fn same(&self) -> bool {
        self.sealed().all(|number| {
            self.writes.iter().all(|write| {
                let mut sides = write.numbers.iter().flatten().map(|carried| *carried < number);
                let first = sides.next();
                sides.all(|side| Some(side) == first)
            })
        })
    }
}

/// A step. Owners are named by their generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Somebody becomes the owner; the owner before knows nothing of it.
    Raise,
    /// Somebody who is about to raise reads the number (with [`Rule::ReadAfterRaise`] off).
    ReadEarly,
    /// Every store of the volume adopts an owner's generation.
    FenceAll(usize),
    /// An owner fences a chunk's stores and makes its copies equal.
    Open(usize, usize),
    /// The number goes into the record.
    Take(usize),
    /// A core adopts the number.
    Adopt(usize, usize),
    /// All cores have said that they adopted.
    Release(usize),
    /// The second transaction.
    Seal(usize),
    /// An owner gives a write its version and its number.
    Give(usize, usize),
    /// A member has a write: write, member.
    Land(usize, usize),
    /// The link breaks on which it was on its way.
    Break(usize, usize),
    /// It is sent again.
    Resend(usize, usize),
    /// A write is acknowledged.
    Acknowledge(usize),
    /// A host reads it.
    Read(usize),
    /// The other member of chunk 0 comes back to this owner.
    Join(usize),
}

impl Model for Cut {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut owners = [Owner::default(); OWNERS];
        owners[0] = Owner {
            here: true,
            open: [true; CHUNKS],
            ..Owner::default()
        };
        let record = Record {
            generation: 1,
            ..Record::default()
        };
        let store = Store { fence: 1, number: 0 };
        vec![State {
            record,
            owners,
            stores: [[store; MEMBERS]; CHUNKS],
            writes: [Write::default(); WRITES],
            breaks: self.breaks,
            away: self.returns,
            refused: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Raise);
        if !self.keeps(Rule::ReadAfterRaise) {
            actions.push(Action::ReadEarly);
        }
        for owner in 1..=self.owners {
            actions.extend([
                Action::FenceAll(owner),
                Action::Take(owner),
                Action::Release(owner),
                Action::Seal(owner),
            ]);
            actions.extend((0..CHUNKS).flat_map(|chunk| [Action::Open(owner, chunk), Action::Adopt(owner, chunk)]));
            actions.extend((0..self.writes).map(|write| Action::Give(owner, write)));
            if self.returns {
                actions.push(Action::Join(owner));
            }
        }
        for write in 0..self.writes {
            actions.extend([Action::Acknowledge(write), Action::Read(write)]);
            for member in 0..MEMBERS {
                actions.extend([
                    Action::Land(write, member),
                    Action::Break(write, member),
                    Action::Resend(write, member),
                ]);
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(CONSISTENT, |_, state: &State| state.consistent()),
            Property::always(INCLUDED, |_, state: &State| state.included()),
            Property::always(TAKEN, |_, state: &State| !state.refused),
            Property::always(SAME, |_, state: &State| state.same()),
            Property::sometimes(SEALED, |_, state: &State| state.record.sealed != 0),
            Property::sometimes(AFTER, |_, state: &State| {
                (state.writes.iter()).any(|write| write.acknowledged && write.number > 0)
            }),
            Property::sometimes(LATER, |_, state: &State| {
                state.record.sealed != 0 && state.record.generation > 1 && state.record.sealer > 1
            }),
        ]
    }
}
