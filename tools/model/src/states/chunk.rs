//! A chunk on a store: its head, and its states.

use super::SNAPSHOTS;

/// Writes, at most: versions are bits of a byte.
pub const WRITES: u8 = 6;

/// What a store is for the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is not a member.
    #[default]
    Out,
    /// It gets writes from when it has joined; it serves nothing.
    Syncing,
    /// It has everything.
    InSync,
}

/// A snapshot's view of a chunk: a state, or what the head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The version that it ends with.
    pub version: u8,
    /// It is being brought, durably so.
    pub open: bool,
    /// Its content is what that version's is. Only the model knows.
    pub good: bool,
}

/// A chunk on one store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// What the store is.
    pub role: Role,
    /// The owner of now has it in the chunk's history.
    pub joined: bool,
    /// The version of the head.
    pub head: u8,
    /// The number of the head's version.
    pub number: u8,
    /// Durably: not called whole since it joined.
    pub incomplete: bool,
    /// The head's content is not what its version's is. Only the model knows.
    pub holes: bool,
    /// The state of each number, less one; `None`: as the next larger number's, or as the head.
    pub states: [Option<View>; SNAPSHOTS],
    /// What it was told is live, as bits, and up to which number that goes.
    pub kept: Option<(u8, u8)>,
    /// Numbers whose states were brought, as bits. Only the model knows, as the next two.
    pub brought: u8,
    /// It has trimmed a state.
    pub trimmed: bool,
    /// It was taken over while it was syncing.
    pub resumed: bool,
}

impl Chunk {
    /// A snapshot's state; `None`: it is what the head is.
    #[must_use]
    pub fn state(&self, number: u8) -> Option<View> {
        self.states[usize::from(number) - 1..].iter().flatten().next().copied()
    }

    /// The snapshots that read the state that lies at this number.
    pub(super) fn numbers_of(&self, number: u8) -> impl Iterator<Item = u8> + use<> {
        let before = (1..number)
            .rev()
            .find(|before| self.states[usize::from(*before) - 1].is_some());
        before.unwrap_or(0) + 1..=number
    }

    /// What a snapshot reads here.
    #[must_use]
    pub fn view(&self, number: u8) -> View {
        self.state(number).unwrap_or(View {
            version: self.head,
            open: self.incomplete,
            good: !self.holes && self.number < number,
        })
    }

    /// The head goes on to a version with this number, in one record. What numbers in between have is kept, if states are made.
    pub(super) fn go_on(&mut self, version: u8, number: u8, makes: bool) {
        if makes {
            for between in self.number + 1..=number {
                self.states[usize::from(between) - 1].get_or_insert(View {
                    version: self.head,
                    open: false,
                    good: !self.holes,
                });
            }
        }
        (self.head, self.number) = (version, self.number.max(number));
    }
}
