//! Members of a group by their position in it.

use crate::table::StoreSlot;
use amita_types::message::MAX_MEMBERS;
use arrayvec::ArrayVec;
use std::ops::{Index, IndexMut};

/// A member's place in its group, below [`MAX_MEMBERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u8);

impl Position {
    pub fn all() -> impl DoubleEndedIterator<Item = Position> {
        (0..MAX_MEMBERS as u8).map(Position)
    }

    #[inline]
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// One record for each position.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByPosition<T>([T; MAX_MEMBERS]);

impl<T: Copy> ByPosition<T> {
    pub const fn filled(record: T) -> ByPosition<T> {
        ByPosition([record; MAX_MEMBERS])
    }
}

impl<T> IntoIterator for ByPosition<T> {
    type Item = T;
    type IntoIter = std::array::IntoIter<T, MAX_MEMBERS>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T> Index<Position> for ByPosition<T> {
    type Output = T;
    #[inline]
    fn index(&self, position: Position) -> &T {
        &self.0[position.at()]
    }
}

impl<T> IndexMut<Position> for ByPosition<T> {
    #[inline]
    fn index_mut(&mut self, position: Position) -> &mut T {
        &mut self.0[position.at()]
    }
}

/// The stores that are, or were, a group's members, by position. The place of one that has left is taken by another.
#[derive(Debug, Default)]
pub(crate) struct Seats(ArrayVec<Option<StoreSlot>, MAX_MEMBERS>);

impl Seats {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Where the store sits, or sat.
    #[inline]
    pub fn find(&self, store: StoreSlot) -> Option<Position> {
        let at = self.0.iter().position(|&seat| seat == Some(store))?;
        Some(Position(at as u8))
    }

    /// Gives a store the position, and no other one.
    pub fn seat(&mut self, position: Position, store: StoreSlot) {
        if let Some(old) = self.find(store) {
            self.0[old.at()] = None;
        }
        while self.0.len() <= position.at() {
            self.0.push(None);
        }
        self.0[position.at()] = Some(store);
    }
}

impl FromIterator<StoreSlot> for Seats {
    fn from_iter<I: IntoIterator<Item = StoreSlot>>(stores: I) -> Seats {
        Seats(stores.into_iter().map(Some).collect())
    }
}

impl Index<Position> for Seats {
    type Output = StoreSlot;
    #[inline]
    fn index(&self, position: Position) -> &StoreSlot {
        self.0[position.at()].as_ref().expect("a member has a store")
    }
}

/// A set of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members(u8);

const _: () = assert!(MAX_MEMBERS <= 8, "a set of members is one byte");

impl Members {
    pub const NONE: Members = Members(0);

    pub fn first(count: usize) -> Members {
        Members(((1u16 << count) - 1) as u8)
    }

    pub fn one(position: Position) -> Members {
        Members(1 << position.0)
    }

    pub fn has(self, position: Position) -> bool {
        self.0 & (1 << position.0) != 0
    }

    pub fn add(&mut self, position: Position) {
        self.0 |= 1 << position.0;
    }

    pub fn remove(&mut self, position: Position) {
        self.0 &= !(1 << position.0);
    }

    pub fn and(self, other: Members) -> Members {
        Members(self.0 & other.0)
    }

    pub fn or(self, other: Members) -> Members {
        Members(self.0 | other.0)
    }

    pub fn without(self, other: Members) -> Members {
        Members(self.0 & !other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn iter(self) -> impl Iterator<Item = Position> {
        Position::all().filter(move |&position| self.has(position))
    }
}

#[cfg(test)]
mod tests;
