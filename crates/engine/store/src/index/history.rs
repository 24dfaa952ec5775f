//! What one chunk was for its snapshots: its states, and the leaves that are theirs.
//!
//! A volume may have thousands of snapshots, and a chunk as many states. So they take little (16 bytes a state, 16 a leaf), nothing
//! that a change of the chunk itself needs goes over all of them, and whoever looks for one finds it by halves: states in the order of
//! the snapshots that they stand for, and the leaves of each part in the same order.

use super::{LeafRef, PARTS};
use crate::format::Slot;
use amita_types::{SnapshotId, Version};
use std::ops::Range;

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

/// A page on the disk that says what states are which follow one another (`older`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatePage {
    pub slot: Slot,
    /// Its checksum.
    pub sum: u32,
    /// The oldest of them stands for the snapshots above this one,
    pub above: SnapshotId,
    /// the newest for those up to this one.
    pub to: SnapshotId,
    /// How many they are,
    pub states: u16,
    /// and how many leaves they have.
    pub leaves: u16,
    /// Bytes of its lines.
    pub bytes: u16,
    /// One bit for each part of which one of them has a leaf.
    pub parts: u8,
    /// One of them has changed: the next checkpoint does not name it.
    pub stale: bool,
}

const _: () = assert!(size_of::<StatePage>() == 24);

/// The states of a chunk, oldest first; there is at least one.
#[derive(Debug)]
pub(super) struct History {
    states: Vec<State>,
    /// Of each part the leaves of states, oldest first.
    parts: [Vec<Own>; PARTS],
    /// Pages that have some of them, too, oldest first.
    pages: Vec<StatePage>,
    /// The state that is being brought (S6): its leaves are not all what they should be. [`SnapshotId::HEAD`]: none is.
    open: SnapshotId,
}

impl Default for History {
    fn default() -> History {
        History {
            states: Vec::new(),
            parts: [const { Vec::new() }; PARTS],
            pages: Vec::new(),
            open: SnapshotId::HEAD,
        }
    }
}

/// What `states` states, `leaves` leaves of theirs and `pages` pages of states take of memory at most, in `chunks` chunks.
pub(super) fn memory_bytes(chunks: u64, states: u64, leaves: u64, pages: u64) -> u64 {
    let things =
        states * size_of::<State>() as u64 + leaves * size_of::<Own>() as u64 + pages * size_of::<StatePage>() as u64;
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
        self.touch(state.to);
        let place = self.place_above(state.above);
        grow(&mut self.states);
        self.states.insert(place, state);
    }

    /// A state goes, of which no leaf is left.
    pub fn remove(&mut self, place: usize) {
        let state = self.states.remove(place);
        self.touch(state.to);
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
        self.touch(to);
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

    /// The same, to be changed in any way: what a page says of the state is not so any more.
    pub fn leaf_mut(&mut self, to: SnapshotId, part: u8) -> Option<&mut LeafRef> {
        self.touch(to);
        self.leaf_to_place(to, part)
    }

    /// The same, of which only the place in memory may be changed: no page says that.
    pub fn leaf_to_place(&mut self, to: SnapshotId, part: u8) -> Option<&mut LeafRef> {
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
        self.touch(to);
        let at = self.own(to, part).expect_err("it has none yet");
        let own = &mut self.parts[usize::from(part)];
        grow(own);
        own.insert(at, Own { to, leaf });
    }

    /// A state's leaf goes to the next older state, which has none of that part, as it is.
    pub fn hand_down(&mut self, part: u8, from: SnapshotId, to: SnapshotId) {
        self.touch(from);
        self.touch(to);
        if let Ok(at) = self.own(from, part) {
            self.parts[usize::from(part)][at].to = to;
        }
    }

    /// A state loses a leaf.
    pub fn take(&mut self, to: SnapshotId, part: u8) -> Option<LeafRef> {
        self.touch(to);
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

    /// The same, of states that are in no page or in one that is stale.
    pub fn leaves_beside_pages(&self, part: u8) -> impl Iterator<Item = (SnapshotId, LeafRef)> + '_ {
        let own = &self.parts[usize::from(part)];
        let pages = self.pages.iter().filter(|page| !page.stale);
        let bounds = pages.map(|page| (page.above, page.to));
        let end = (SnapshotId(u32::MAX), SnapshotId(u32::MAX));
        let mut from = 0;
        bounds.chain([end]).flat_map(move |(above, to)| {
            let first = from + own[from..].partition_point(|own| own.to <= above);
            let beside = &own[from..first];
            from = first + own[first..].partition_point(|own| own.to <= to);
            beside.iter().map(|own| (own.to, own.leaf))
        })
    }

    /// How many leaves are states' own.
    pub fn leaf_count(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// How many leaves the states at these places have.
    pub fn leaves_in(&self, places: &Range<usize>) -> usize {
        let bound = |place: usize, own: &[Own]| match self.states.get(place) {
            Some(state) => own.partition_point(|own| own.to < state.to),
            None => own.len(),
        };
        let count = |own: &Vec<Own>| bound(places.end, own) - bound(places.start, own);
        self.parts.iter().map(count).sum()
    }

    /// All states, oldest first, each with its leaves in the order of their parts. Goes over everything.
    pub fn each(&self, each: impl FnMut(&State, &[(u8, LeafRef)])) {
        let mut each = each;
        self.each_of(0..self.states.len(), |state, leaves| {
            each(state, leaves);
            true
        });
    }

    /// The same for the states at these places, as long as `each` says so.
    pub fn each_of(&self, places: Range<usize>, mut each: impl FnMut(&State, &[(u8, LeafRef)]) -> bool) {
        let Some(first) = self.states.get(places.start).filter(|_| !places.is_empty()) else {
            return;
        };
        let mut next = [0; PARTS];
        for (next, own) in next.iter_mut().zip(&self.parts) {
            *next = own.partition_point(|own| own.to < first.to);
        }
        let mut leaves = Vec::with_capacity(PARTS);
        for state in &self.states[places] {
            leaves.clear();
            for (part, (own, next)) in (0..).zip(self.parts.iter().zip(&mut next)) {
                if let Some(own) = own.get(*next).filter(|own| own.to == state.to) {
                    leaves.push((part, own.leaf));
                    *next += 1;
                }
            }
            if !each(state, &leaves) {
                return;
            }
        }
    }

    /// The pages of states, oldest first.
    pub fn pages(&self) -> &[StatePage] {
        &self.pages
    }

    /// The places of the states that a page has.
    pub fn places_of(&self, page: &StatePage) -> Range<usize> {
        let end = self.place_above(page.to);
        end - usize::from(page.states)..end
    }

    /// A state is not any more what its page says, if it is in one.
    fn touch(&mut self, to: SnapshotId) {
        let at = self.pages.partition_point(|page| page.to < to);
        if let Some(page) = self.pages.get_mut(at).filter(|page| page.above < to) {
            page.stale = true;
        }
    }

    /// States are in a page now that were in none.
    pub fn add_page(&mut self, page: StatePage) {
        let at = self.pages.partition_point(|known| known.to < page.to);
        grow(&mut self.pages);
        self.pages.insert(at, page);
    }

    /// Up to which snapshot a checkpoint that is being read has said something.
    pub fn loaded_to(&self) -> SnapshotId {
        let states = self.newest().map(|state| state.to);
        states
            .max(self.pages.last().map(|page| page.to))
            .unwrap_or(SnapshotId::HEAD)
    }

    /// The page of these states, which were read from it.
    pub fn page_mut(&mut self, to: SnapshotId) -> Option<&mut StatePage> {
        let at = self.pages.binary_search_by_key(&to, |page| page.to).ok()?;
        Some(&mut self.pages[at])
    }

    /// Forgets the pages of which `stays` says so; returns where they are.
    pub fn remove_pages(&mut self, mut stays: impl FnMut(&StatePage) -> bool) -> Vec<Slot> {
        let mut slots = Vec::new();
        self.pages.retain(|page| {
            let stays = stays(page);
            if !stays {
                slots.push(page.slot);
            }
            stays
        });
        shrink(&mut self.pages);
        slots
    }

    /// States of a page go to their places, which are free: between those of other pages, behind or before them.
    pub fn load_states(&mut self, states: &[State], parts: &[Vec<(SnapshotId, LeafRef)>; PARTS]) {
        let Some(first) = states.first() else { return };
        let place = self.place_above(first.above);
        self.states.splice(place..place, states.iter().copied());
        shrink(&mut self.states);
        for (own, new) in self.parts.iter_mut().zip(parts) {
            let at = own.partition_point(|own| own.to < first.to);
            own.splice(at..at, new.iter().map(|&(to, leaf)| Own { to, leaf }));
            shrink(own);
        }
    }
}

#[cfg(test)]
mod tests;
