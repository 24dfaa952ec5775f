//! Handles: what C holds of a client, a volume, a queue or a buffer.
//!
//! A handle is a number in the dress of a pointer, and nothing is ever read where it "points": it names a kind, a place in
//! a table, and how often that place was given before. So NULL, a handle that was closed (twice, too), or one of another
//! kind finds nothing. The top half of the address space is where the kernel lives: no pointer of a program looks like it.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles need 64 bits");

const KIND_BITS: u64 = 60;
/// It belongs to the thread that made it.
const INLINE: u64 = 1 << 59;
const GENERATION_BITS: u64 = 32;
const GENERATION_MASK: u64 = (1 << 27) - 1;

/// What a handle is of. None is zero, so that no handle is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Client = 8,
    Volume = 9,
    Queue = 10,
    Buffer = 11,
}

/// As C holds it: as wide as a pointer, and passed like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Handle(usize);

impl Handle {
    /// None.
    pub(crate) const NULL: Handle = Handle(0);

    pub(crate) fn new(kind: Kind, inline: bool, generation: u32, index: usize) -> Handle {
        let generation = (u64::from(generation) & GENERATION_MASK) << GENERATION_BITS;
        let inline = if inline { INLINE } else { 0 };
        let value = (kind as u64) << KIND_BITS | inline | generation | index as u64;
        Handle(value as usize)
    }

    pub(crate) fn value(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn is(self, kind: Kind) -> bool {
        self.value() >> KIND_BITS == kind as u64
    }

    pub(crate) fn is_inline(self) -> bool {
        self.value() & INLINE != 0
    }

    pub(crate) fn generation(self) -> u32 {
        (self.value() >> GENERATION_BITS & GENERATION_MASK) as u32
    }

    pub(crate) fn index(self) -> usize {
        self.value() as u32 as usize
    }

    /// The same place and generation, as another kind.
    pub(crate) fn of_kind(self, kind: Kind) -> Handle {
        Handle::new(kind, self.is_inline(), self.generation(), self.index())
    }
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// What handles name, in order of their places.
pub(crate) struct Places<T> {
    kind: Kind,
    inline: bool,
    places: Vec<Place<T>>,
    free: Vec<usize>,
}

impl<T> Places<T> {
    pub(crate) const fn new(kind: Kind, inline: bool) -> Places<T> {
        Places {
            kind,
            inline,
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                value: None,
            });
            self.places.len() - 1
        });
        let place = &mut self.places[index];
        place.value = Some(value);
        Handle::new(self.kind, self.inline, place.generation, index)
    }

    fn place(&mut self, handle: Handle) -> Option<&mut Place<T>> {
        let known = handle.is(self.kind) && handle.is_inline() == self.inline;
        let place = self.places.get_mut(handle.index()).filter(|_| known)?;
        let same = u64::from(place.generation) & GENERATION_MASK == u64::from(handle.generation());
        same.then_some(place)
    }

    pub(crate) fn get(&mut self, handle: Handle) -> Option<&mut T> {
        self.place(handle)?.value.as_mut()
    }

    pub(crate) fn take(&mut self, handle: Handle) -> Option<T> {
        let place = self.place(handle)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(handle.index());
        Some(value)
    }

    /// The handles of all that `of` chooses.
    pub(crate) fn select(&self, of: impl Fn(&T) -> bool) -> Vec<Handle> {
        let chosen = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.value.as_ref().is_some_and(&of));
        chosen
            .map(|(index, place)| Handle::new(self.kind, self.inline, place.generation, index))
            .collect()
    }
}

/// A table for all threads.
pub(crate) struct Table<T>(Mutex<Places<T>>);

impl<T> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Table<T> {
        Table(Mutex::new(Places::new(kind, false)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Places<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
