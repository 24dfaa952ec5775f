//! What one chunk was for its snapshots: its states, and the leaves that are theirs.
//!
//! A volume may have thousands of snapshots, and a chunk as many states. So they take little (16 bytes a state, 16 a leaf), nothing
//! that a change of the chunk itself needs goes over all of them, and whoever looks for one finds it by halves: states in the order of
//! the snapshots that they stand for, and the leaves of each part in the same order.

use super::{LeafRef, PARTS};
use amita_types::{SnapshotId, Version};

/// A chunk as it was. It is named by the newest snapshot that it stands for: no two of a chunk stand for the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Its version then.
    pub version: Version,
    /// For the snapshots above this one
    pub above: SnapshotId,
    /// up to this one.
    pub to: SnapshotId,
}

/// A leaf that has changed since.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// The state that it is of.
    to: SnapshotId,
    leaf: LeafRef,
}

const _: () = assert!(size_of::<State>() == 16 && size_of::<Own>() == 16);

/// The states of a chunk, oldest first; there is at least one.
#[derive(Debug)]
pub(super) struct History {
    states: Vec<State>,
    /// Of each part the leaves of states, oldest first.
    parts: [Vec<Own>; PARTS],
    /// The state that is being brought (S6): its leaves are not all what they should be. [`SnapshotId::HEAD`]: none is.
    open: SnapshotId,
}

impl Default for History {
    fn default() -> History {
        History {
            states: Vec::new(),
            parts: [const { Vec::new() }; PARTS],
            open: SnapshotId::HEAD,
        }
    }
}

/// What `states` states and `leaves` leaves of theirs take of memory at most, in `chunks` chunks.
pub(super) fn memory_bytes(chunks: u64, states: u64, leaves: u64) -> u64 {
    let things = states * size_of::<State>() as u64 + leaves * size_of::<Own>() as u64;
    // Vectors are never longer than half as much again, and a few.
    chunks * (size_of::<History>() as u64 + FEW as u64 * size_of::<State>() as u64) + things + things / 2
}

/// A vector may have so much room, whatever it holds.
const FEW: usize = 4;

/// Makes room for one more thing: vectors grow by a quarter, for there are many of them.
fn grow<T>(things: &mut Vec<T>) {
    if things.len() == things.capacity() {
        things.reserve_exact(things.len() / 4 + 1);
    }
}

/// Gives room back.
fn shrink<T>(things: &mut Vec<T>) {
    if things.capacity() > things.len() + things.len() / 2 + FEW {
        things.shrink_to(things.len() + things.len() / 4);
    }
}

impl History {
    pub fn states(&self) -> &[State] {
        &self.states
    }

    pub fn newest(&self) -> Option<&State> {
        self.states.last()
    }

    /// The place of the state that has this name.
    pub fn place_of(&self, to: SnapshotId) -> Option<usize> {
        self.states.binary_search_by_key(&to, |state| state.to).ok()
    }

    /// The place of the state that stands for a snapshot.
    pub fn place_for(&self, at: SnapshotId) -> Option<usize> {
        let place = self.states.partition_point(|state| state.to < at);
        let state = self.states.get(place)?;
        (state.above < at).then_some(place)
    }

    /// The first state that is newer than all that stand for snapshots up to `above`.
    pub fn place_above(&self, above: SnapshotId) -> usize {
        self.states.partition_point(|state| state.to <= above)
    }

    /// Puts a state in its place among the others, which is free.
    pub fn insert(&mut self, state: State) {
        let place = self.place_above(state.above);
        grow(&mut self.states);
        self.states.insert(place, state);
    }

    /// A state goes, of which no leaf is left.
    pub fn remove(&mut self, place: usize) {
        let state = self.states.remove(place);
        if self.open == state.to {
            self.open = SnapshotId::HEAD;
        }
        shrink(&mut self.states);
    }

    pub fn open(&self) -> Option<SnapshotId> {
        (self.open > SnapshotId::HEAD).then_some(self.open)
    }

    /// Which state is being brought; [`SnapshotId::HEAD`]: none is any more.
    pub fn set_open(&mut self, to: SnapshotId) {
        self.open = to;
    }

    fn own(&self, to: SnapshotId, part: u8) -> Result<usize, usize> {
        self.parts[usize::from(part)].binary_search_by_key(&to, |own| own.to)
    }

    /// A leaf of the state `to`, if it has one of its own.
    pub fn leaf(&self, to: SnapshotId, part: u8) -> Option<&LeafRef> {
        let at = self.own(to, part).ok()?;
        Some(&self.parts[usize::from(part)][at].leaf)
    }

    pub fn leaf_mut(&mut self, to: SnapshotId, part: u8) -> Option<&mut LeafRef> {
        let at = self.own(to, part).ok()?;
        Some(&mut self.parts[usize::from(part)][at].leaf)
    }

    /// Has the newest state this part of its own?
    pub fn newest_has(&self, part: u8) -> bool {
        let newest = self.parts[usize::from(part)].last();
        newest.is_some_and(|own| self.newest().is_some_and(|state| state.to == own.to))
    }

    /// The state whose leaf of a part the state `to` uses: its own or a newer one's. `None`: that of the chunk itself.
    pub fn seen_in(&self, to: SnapshotId, part: u8) -> Option<SnapshotId> {
        let own = &self.parts[usize::from(part)];
        let at = own.partition_point(|own| own.to < to);
        own.get(at).map(|own| own.to)
    }

    /// The state `to` gets a leaf of its own, which it has not yet.
    pub fn put(&mut self, to: SnapshotId, part: u8, leaf: LeafRef) {
        let at = self.own(to, part).expect_err("it has none yet");
        let own = &mut self.parts[usize::from(part)];
        grow(own);
        own.insert(at, Own { to, leaf });
    }

    /// A state's leaf goes to the next older state, which has none of that part, as it is.
    pub fn hand_down(&mut self, part: u8, from: SnapshotId, to: SnapshotId) {
        if let Ok(at) = self.own(from, part) {
            self.parts[usize::from(part)][at].to = to;
        }
    }

    /// A state loses a leaf.
    pub fn take(&mut self, to: SnapshotId, part: u8) -> Option<LeafRef> {
        let at = self.own(to, part).ok()?;
        let own = &mut self.parts[usize::from(part)];
        let leaf = own.remove(at).leaf;
        shrink(own);
        Some(leaf)
    }

    /// The leaves of a part, oldest first, each with its state's name.
    pub fn leaves_of(&self, part: u8) -> impl DoubleEndedIterator<Item = (SnapshotId, LeafRef)> + '_ {
        self.parts[usize::from(part)].iter().map(|own| (own.to, own.leaf))
    }

    /// How many leaves are states' own.
    pub fn leaf_count(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// All states, oldest first, each with its leaves in the order of their parts. Goes over everything.
    pub fn each(&self, mut each: impl FnMut(&State, &[(u8, LeafRef)])) {
        let mut next = [0; PARTS];
        let mut leaves = Vec::with_capacity(PARTS);
        for state in &self.states {
            leaves.clear();
            for (part, (own, next)) in (0..).zip(self.parts.iter().zip(&mut next)) {
                if let Some(own) = own.get(*next).filter(|own| own.to == state.to) {
                    leaves.push((part, own.leaf));
                    *next += 1;
                }
            }
            each(state, &leaves);
        }
    }
}

#[cfg(test)]
mod tests;
