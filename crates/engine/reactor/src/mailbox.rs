//! Messages between cores: a ring with one sender and one receiver, which share two positions and nothing else.
//!
//! Each side keeps the other's position as it last saw it and looks again only when that says full (or empty), so a
//! busy ring moves few cache lines between the cores. A send wakes the receiving core only if it is asleep.

use crate::sync::{Arc, AtomicUsize, Ordering, UnsafeCell, fence};
use crate::waker::Waker;
use std::fmt;
use std::mem::MaybeUninit;

/// Alone in its cache line (two of them: processors fetch them in pairs).
#[repr(align(128))]
struct Padded<T>(T);

struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Messages ever sent; the slot is this modulo the capacity, a power of two.
    sent: Padded<AtomicUsize>,
    /// Messages ever received.
    received: Padded<AtomicUsize>,
}

// SAFETY: a slot is touched by the sender before `sent` passes it and by the receiver after; the positions order it.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: the ring owns its messages.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (from, to) = (
            self.received.0.load(Ordering::Relaxed),
            self.sent.0.load(Ordering::Relaxed),
        );
        let mask = self.slots.len() - 1;
        for position in (0..to.wrapping_sub(from)).map(|at| from.wrapping_add(at)) {
            // SAFETY: these were sent and not received, and nobody else has the ring any more.
            self.slots[position & mask].with_mut(|slot| unsafe { (*slot).assume_init_drop() });
        }
    }
}

/// The sending end.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    waker: Waker,
    sent: usize,
    received_seen: usize,
}

/// The receiving end.
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    received: usize,
    sent_seen: usize,
}

/// A ring for at least `capacity` messages (the next power of two), whose receiver runs on the core of `waker`.
#[must_use]
pub fn channel<T: Send>(capacity: usize, waker: Waker) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.max(1).next_power_of_two();
    let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let ring = Arc::new(Ring {
        slots,
        sent: Padded(AtomicUsize::new(0)),
        received: Padded(AtomicUsize::new(0)),
    });
    (
        Sender {
            ring: ring.clone(),
            waker,
            sent: 0,
            received_seen: 0,
        },
        Receiver {
            ring,
            received: 0,
            sent_seen: 0,
        },
    )
}

impl<T: Send> Sender<T> {
    /// Puts a message into the ring and wakes the receiver if it sleeps; gives it back when the ring is full.
    pub fn send(&mut self, message: T) -> Result<(), T> {
        let capacity = self.ring.slots.len();
        if self.sent.wrapping_sub(self.received_seen) == capacity {
            self.received_seen = self.ring.received.0.load(Ordering::Acquire);
            if self.sent.wrapping_sub(self.received_seen) == capacity {
                return Err(message);
            }
        }
        // SAFETY: the receiver has passed this slot (Acquire above) and does not touch it before `sent` moves on.
        self.ring.slots[self.sent & (capacity - 1)].with_mut(|slot| unsafe { (*slot).write(message) });
        self.sent = self.sent.wrapping_add(1);
        self.ring.sent.0.store(self.sent, Ordering::Release);
        self.waker.wake();
        Ok(())
    }

    /// Has the receiver gone?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        Arc::strong_count(&self.ring) == 1
    }
}

impl<T: Send> Receiver<T> {
    /// The oldest message, if there is one.
    pub fn pop(&mut self) -> Option<T> {
        if self.received == self.sent_seen {
            self.sent_seen = self.ring.sent.0.load(Ordering::Acquire);
            if self.received == self.sent_seen {
                return None;
            }
        }
        let slot = &self.ring.slots[self.received & (self.ring.slots.len() - 1)];
        // SAFETY: the sender wrote this slot before `sent` passed it (Acquire above), and it is read once.
        let message = slot.with_mut(|slot| unsafe { (*slot).assume_init_read() });
        self.received = self.received.wrapping_add(1);
        self.ring.received.0.store(self.received, Ordering::Release);
        Some(message)
    }

    /// Is there a message?
    pub fn has_any(&mut self) -> bool {
        if self.received == self.sent_seen {
            self.sent_seen = self.ring.sent.0.load(Ordering::Acquire);
        }
        self.received != self.sent_seen
    }

    /// All that is there, oldest first; what is not taken stays.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.pop())
    }

    /// Has the sender gone? Messages may still be there; all of them are seen after this said yes.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let closed = Arc::strong_count(&self.ring) == 1;
        fence(Ordering::Acquire);
        closed
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({} sent)", self.sent)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({} received)", self.received)
    }
}

#[cfg(all(test, loom))]
mod interleavings;
#[cfg(all(test, not(loom)))]
mod tests;
