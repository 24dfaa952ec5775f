//! A binary heap of small numbers by their keys, in which each can be found: what waits, with the next one on top.
//!
//! Equal keys go by their numbers, so that nothing hangs on the order in which they came. It allocates only while it grows.

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

/// The smallest key on top.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    entries: Vec<(u128, u32)>,
    /// Where each number stands in `entries`.
    places: Vec<u32>,
}

impl Heap {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<(u128, u32)> {
        self.entries.first().copied()
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.places.get(number as usize).is_some_and(|&place| place != ABSENT)
    }

    /// Room for numbers below `count`.
    pub(crate) fn reserve(&mut self, count: usize) {
        if self.places.len() < count {
            self.places.resize(count, ABSENT);
        }
        self.entries.reserve(count.saturating_sub(self.entries.len()));
    }

    /// Puts a number in, or gives it another key.
    #[inline]
    pub(crate) fn set(&mut self, number: u32, key: u128) {
        self.reserve_place(number);
        let place = self.places[number as usize];
        let place = if place == ABSENT {
            self.entries.push((key, number));
            self.entries.len() - 1
        } else {
            self.entries[place as usize].0 = key;
            place as usize
        };
        let place = self.rise(place);
        self.sink(place);
    }

    fn reserve_place(&mut self, number: u32) {
        let index = number as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, ABSENT);
        }
    }

    /// Takes a number out, if it is there.
    pub(crate) fn remove(&mut self, number: u32) {
        if !self.contains(number) {
            return;
        }
        let place = std::mem::replace(&mut self.places[number as usize], ABSENT) as usize;
        self.entries.swap_remove(place);
        if place < self.entries.len() {
            self.places[self.entries[place].1 as usize] = place as u32;
            let place = self.rise(place);
            self.sink(place);
        }
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.entries[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let left = 2 * place + 1;
            let Some(&first) = self.entries.get(left) else { break };
            let (child, least) = match self.entries.get(left + 1) {
                Some(&second) if second < first => (left + 1, second),
                _ => (left, first),
            };
            if entry <= least {
                break;
            }
            self.put(place, least);
            place = child;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: (u128, u32)) {
        self.entries[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests;
