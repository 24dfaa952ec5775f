//! What the cores of one node say to each other.
//!
//! Each ordered pair of cores has a ring of its own (single producer, single consumer). A message to the own core goes
//! to a queue instead, so that nothing above cares how many cores there are. Rings are bounded; what does not fit waits
//! in an overflow queue of the sender and goes first in the next pass, so that order between two cores is kept.

mod message;

pub use message::{
    CoreMessage, DirectoryMessage, IoMessage, LimitMessage, NodeMessage, Origin, ReservationMessage, SnapshotMessage,
    VolumeMessage, VolumeRoute,
};

use amita_reactor::buggify::{IS_BUILT, Point, slow};
use amita_reactor::driver::Time;
use amita_reactor::mailbox::{Receiver, Sender};
use std::collections::VecDeque;

/// Messages that one ring holds, at most.
pub const RING_MESSAGES: usize = 4096;
/// Messages that all rings into one core hold together, about: there are as many as other cores, and slots are memory that
/// stays in use (128 cores with the largest rings: 19 GB). What does not fit waits with its sender.
pub const MAIL_MESSAGES: usize = 16 << 10;

/// Messages that each ring of a node with so many cores holds.
#[must_use]
pub fn ring_messages(cores: usize) -> usize {
    let others = cores.saturating_sub(1).max(1);
    (MAIL_MESSAGES / others).next_power_of_two().min(RING_MESSAGES)
}

/// One core's end of all rings.
pub struct Mail {
    core: usize,
    senders: Vec<Option<Sender<CoreMessage>>>,
    receivers: Vec<Option<Receiver<CoreMessage>>>,
    overflow: Vec<VecDeque<CoreMessage>>,
    own: VecDeque<CoreMessage>,
    /// The room for the mail of a pass.
    taken: Vec<CoreMessage>,
    /// The last pass took in as much as it may: there may be more, which nobody will wake this core for.
    is_behind: bool,
    /// The ring to take from: until it is empty, then the next, so that with many cores a message does not cost a look at
    /// the rings of all.
    turn: usize,
    /// Only in simulations: rings from which nothing is taken until then, and what time it is.
    held: Vec<Time>,
    now: Time,
}

impl Mail {
    /// The mail of a node with one core: no rings at all.
    #[must_use]
    pub fn alone() -> Mail {
        Mail {
            core: 0,
            senders: vec![None],
            receivers: vec![None],
            overflow: vec![VecDeque::new()],
            own: VecDeque::new(),
            taken: Vec::new(),
            is_behind: false,
            turn: 0,
            held: Vec::new(),
            now: Time(0),
        }
    }

    /// The mail of `core`, with a ring to and from each other core (`None` at its own place).
    #[must_use]
    pub fn new(
        core: usize,
        senders: Vec<Option<Sender<CoreMessage>>>,
        receivers: Vec<Option<Receiver<CoreMessage>>>,
    ) -> Mail {
        let overflow = senders.iter().map(|_| VecDeque::new()).collect();
        Mail {
            core,
            senders,
            receivers,
            overflow,
            own: VecDeque::new(),
            taken: Vec::new(),
            is_behind: false,
            turn: 0,
            held: Vec::new(),
            now: Time(0),
        }
    }

    /// How many cores the node has.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.senders.len()
    }

    /// Sends to a core, the own one included.
    pub fn send(&mut self, core: usize, message: impl Into<CoreMessage>) {
        let message = message.into();
        let Some(sender) = self.senders.get_mut(core).and_then(Option::as_mut) else {
            self.own.push_back(message);
            return;
        };
        if !self.overflow[core].is_empty() {
            self.overflow[core].push_back(message);
        } else if let Err(message) = sender.send(message) {
            self.overflow[core].push_back(message);
        }
    }

    /// Sends what one closure makes to every core, the own one included.
    pub fn broadcast<M: Into<CoreMessage>>(&mut self, mut make: impl FnMut() -> M) {
        for core in 0..self.cores() {
            self.send(core, make());
        }
    }

    /// The next message for this core.
    pub fn take(&mut self) -> Option<CoreMessage> {
        if let Some(message) = self.own.pop_front() {
            return Some(message);
        }
        for _ in 0..self.receivers.len() {
            if IS_BUILT && self.held.get(self.turn).is_some_and(|until| *until > self.now) {
                self.turn = (self.turn + 1) % self.receivers.len();
                continue;
            }
            let found = self.receivers[self.turn].as_mut().and_then(Receiver::pop);
            if found.is_some() {
                return found;
            }
            self.turn = (self.turn + 1) % self.receivers.len();
        }
        None
    }

    /// What has come for this core, so many messages at most. Give the vector back when it is empty: [`Mail::put_back`].
    #[must_use]
    pub fn take_at_most(&mut self, most: usize) -> Vec<CoreMessage> {
        let mut taken = std::mem::take(&mut self.taken);
        while taken.len() < most
            && let Some(message) = self.take()
        {
            taken.push(message);
        }
        self.is_behind = taken.len() >= most;
        taken
    }

    /// Takes the emptied vector back, so that none is made in each pass.
    pub fn put_back(&mut self, emptied: Vec<CoreMessage>) {
        self.taken = emptied;
    }

    /// A pass begins: a simulation may hold rings back, each by itself. Elsewhere this does nothing.
    pub fn begin_pass(&mut self, now: Time) {
        if !IS_BUILT {
            return;
        }
        self.now = now;
        self.held.resize(self.receivers.len(), Time(0));
        for (receiver, held) in self.receivers.iter_mut().zip(&mut self.held) {
            if let Some(receiver) = receiver
                && *held <= now
                && receiver.has_any()
                && let Some(time) = slow(Point::SlowMail)
            {
                *held = now.plus(time);
            }
        }
    }

    /// When a ring that is held back may be taken from.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let held = self.held.iter().filter(|until| **until > self.now);
        held.min().copied().filter(|_| IS_BUILT)
    }

    /// The next message that this core sent to itself.
    pub fn take_own(&mut self) -> Option<CoreMessage> {
        self.own.pop_front()
    }

    /// Tries again to send what did not fit; true when something is still waiting.
    pub fn retry(&mut self) -> bool {
        let mut waiting = !self.own.is_empty() || self.is_behind;
        for (core, queue) in self.overflow.iter_mut().enumerate() {
            let Some(sender) = self.senders[core].as_mut() else {
                continue;
            };
            while let Some(message) = queue.pop_front() {
                if let Err(message) = sender.send(message) {
                    queue.push_front(message);
                    waiting = true;
                    break;
                }
            }
        }
        waiting
    }

    #[must_use]
    pub fn core(&self) -> usize {
        self.core
    }
}

#[cfg(test)]
mod tests;
