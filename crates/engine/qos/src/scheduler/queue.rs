//! Requests that wait, in places that were taken at the start; a queue is a list through them.

use crate::faults::{Fault, Faults};
use crate::limits::{Cost, Direction};
use amita_reactor::Time;

const NONE: u32 = u32::MAX;

/// The first and the last place of a list.
#[derive(Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { head: NONE, tail: NONE }
    }
}

impl Queue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

#[derive(Debug)]
struct Place<T> {
    item: Option<T>,
    cost: Cost,
    came: Time,
    /// Which of two lanes has the older one.
    sequence: u64,
    next: u32,
}

#[derive(Debug)]
pub(super) struct Pool<T> {
    places: Vec<Place<T>>,
    free: Queue,
    waiting: usize,
    sequence: u64,
    faults: Faults,
}

impl<T> Pool<T> {
    pub(super) fn new(count: usize, faults: Faults) -> Pool<T> {
        let count = u32::try_from(count).unwrap_or(NONE).min(NONE - 1);
        let place = |index: u32| Place {
            item: None,
            cost: Cost::piece(Direction::Read, 0),
            came: Time(0),
            sequence: 0,
            next: if index + 1 < count { index + 1 } else { NONE },
        };
        Pool {
            places: (0..count).map(place).collect(),
            free: Queue {
                head: if count > 0 { 0 } else { NONE },
                tail: NONE,
            },
            waiting: 0,
            sequence: 0,
            faults,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    #[inline]
    pub(super) fn push(&mut self, queue: &mut Queue, item: T, cost: Cost, came: Time) -> Result<(), T> {
        let index = self.free.head;
        if index == NONE {
            return Err(item);
        }
        let place = &mut self.places[index as usize];
        self.free.head = place.next;
        *place = Place {
            item: Some(item),
            cost,
            came,
            sequence: self.sequence,
            next: NONE,
        };
        self.sequence += 1;
        self.waiting += 1;
        if queue.is_empty() {
            queue.head = index;
            queue.tail = index;
        } else if self.faults.has(Fault::Overtake) {
            self.places[index as usize].next = queue.head;
            queue.head = index;
        } else {
            self.places[queue.tail as usize].next = index;
            queue.tail = index;
        }
        Ok(())
    }

    /// The oldest of a queue, which is not empty.
    #[inline]
    pub(super) fn pop(&mut self, queue: &mut Queue) -> (T, Cost, Time) {
        let index = queue.head;
        let place = &mut self.places[index as usize];
        queue.head = place.next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        place.next = self.free.head;
        self.free.head = index;
        self.waiting -= 1;
        let item = place.item.take().expect("what waits is in its place");
        (item, place.cost, place.came)
    }

    /// The number of a queue's head, which is not empty.
    #[inline]
    pub(super) fn sequence(&self, queue: &Queue) -> u64 {
        self.places[queue.head as usize].sequence
    }

    /// Keeps what `keep` says, in its order; returns how many went.
    pub(super) fn retain(&mut self, queue: &mut Queue, mut keep: impl FnMut(&T) -> bool) -> usize {
        let mut at = std::mem::take(queue).head;
        let mut gone = 0;
        while at != NONE {
            let place = &mut self.places[at as usize];
            let next = std::mem::replace(&mut place.next, NONE);
            if place.item.as_ref().is_some_and(&mut keep) {
                match queue.tail {
                    NONE => queue.head = at,
                    tail => self.places[tail as usize].next = at,
                }
                queue.tail = at;
            } else {
                place.item = None;
                place.next = self.free.head;
                self.free.head = at;
                self.waiting -= 1;
                gone += 1;
            }
            at = next;
        }
        gone
    }
}
