//! Timers: a heap with positions, so that cancelling is as cheap as firing and nothing is allocated when warm.

use crate::driver::{Time, Token};

/// One armed timer. Not reused: the id of one that has fired or was cancelled means nothing any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimerId {
    slot: u32,
    generation: u32,
}

/// A place in the slab of timers.
struct Slot {
    generation: u32,
    /// Where in the heap; `FREE` when not armed.
    position: u32,
    token: Token,
}

const FREE: u32 = u32::MAX;

/// A heap entry; ties fire in the order in which they were armed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Time,
    order: u64,
    slot: u32,
}

/// The armed timers of one driver.
#[derive(Default)]
pub struct Timers {
    heap: Vec<Entry>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    armed: u64,
}

impl Timers {
    /// None armed.
    #[must_use]
    pub fn new() -> Timers {
        Timers::default()
    }

    /// Arms a timer for `at`.
    pub fn arm(&mut self, at: Time, token: Token) -> TimerId {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                assert!(self.slots.len() < FREE as usize, "fewer than 2^32 timers");
                self.slots.push(Slot {
                    generation: 0,
                    position: FREE,
                    token,
                });
                (self.slots.len() - 1) as u32
            }
        };
        let entry = &mut self.slots[slot as usize];
        entry.token = token;
        let id = TimerId {
            slot,
            generation: entry.generation,
        };
        self.armed += 1;
        self.heap.push(Entry {
            at,
            order: self.armed,
            slot,
        });
        self.rise(self.heap.len() - 1);
        id
    }

    /// Disarms a timer; false when it has fired or was cancelled before.
    pub fn cancel(&mut self, id: TimerId) -> bool {
        match self.slots.get(id.slot as usize) {
            Some(slot) if slot.generation == id.generation && slot.position != FREE => {
                let position = slot.position as usize;
                self.remove(position);
                true
            }
            _ => false,
        }
    }

    /// When the next timer fires.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.at)
    }

    /// Takes one timer whose time has come, earliest first.
    pub fn expire(&mut self, now: Time) -> Option<Token> {
        let first = self.heap.first()?;
        if first.at > now {
            return None;
        }
        let token = self.slots[first.slot as usize].token;
        self.remove(0);
        Some(token)
    }

    /// When each of them fires, in no order.
    pub fn armed(&self) -> impl Iterator<Item = Time> + '_ {
        self.heap.iter().map(|entry| entry.at)
    }

    /// How many are armed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Is none armed?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn remove(&mut self, position: usize) {
        let removed = self.heap.swap_remove(position);
        let slot = &mut self.slots[removed.slot as usize];
        slot.position = FREE;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(removed.slot);
        if position < self.heap.len() {
            self.sink(position);
            self.rise(position);
        }
    }

    fn rise(&mut self, mut position: usize) {
        let entry = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, entry);
    }

    fn sink(&mut self, mut position: usize) {
        let entry = self.heap[position];
        loop {
            let mut child = 2 * position + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.place(position, self.heap[child]);
            position = child;
        }
        self.place(position, entry);
    }

    fn place(&mut self, position: usize, entry: Entry) {
        self.heap[position] = entry;
        self.slots[entry.slot as usize].position = position as u32;
    }
}

#[cfg(test)]
mod tests;
