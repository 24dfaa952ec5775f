//! A chunk's history as its owner knows it: what is acknowledged, what was sent since, and what it was a while ago.

use super::truth::{Deed, Held};
use amita_cluster::Version;
use amita_cluster::message::Request;
use amita_reactor::Slice;
use std::collections::VecDeque;
use std::rc::Rc;

/// Something that was sent and is not acknowledged.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Counts what was sent for this chunk.
    pub number: u64,
    /// To send it once more.
    pub request: Request,
    pub payload: Slice,
    /// The chunk when this is done.
    pub after: Rc<Held>,
    /// Has it a version, or is it a `Keep`?
    pub is_change: bool,
}

/// A chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub held: Rc<Held>,
    pub pending: VecDeque<Pending>,
    /// What it was, the present state last, and how many there have been.
    pub seen: VecDeque<Rc<Held>>,
    pub turns: usize,
    /// The last that was acknowledged, and the last that was sent.
    pub acknowledged: u64,
    pub sent: u64,
    /// A clone's chunk: was it made (or is there nothing to make)?
    pub made: bool,
    blocks: usize,
}

/// Answers that took longer are not compared.
const KEPT: usize = 64;

impl Chunk {
    pub fn new(blocks: usize) -> Chunk {
        let held = Rc::new(Held::default());
        Chunk {
            held: held.clone(),
            pending: VecDeque::new(),
            seen: VecDeque::from([held]),
            turns: 0,
            acknowledged: 0,
            sent: 0,
            made: false,
            blocks,
        }
    }

    /// What it will be when all that was sent is done.
    pub fn accepted(&self) -> &Rc<Held> {
        self.pending.back().map_or(&self.held, |pending| &pending.after)
    }

    pub fn last(&self) -> Version {
        self.accepted().version()
    }

    pub fn send(&mut self, deed: &Deed, request: Request, payload: Slice) -> u64 {
        self.sent += 1;
        let after = Rc::new(self.accepted().after(deed, self.blocks));
        self.pending.push_back(Pending {
            number: self.sent,
            request,
            payload,
            after,
            is_change: !matches!(deed, Deed::Keep { .. }),
        });
        self.sent
    }

    /// `false`: it was acknowledged before.
    pub fn acknowledge(&mut self, number: u64) -> bool {
        if number <= self.acknowledged {
            return false;
        }
        let first = self.pending.pop_front().expect("something was sent");
        assert_eq!(first.number, number, "what is done to a chunk is answered in its order");
        self.acknowledged = number;
        self.turn(first.after);
        true
    }

    fn turn(&mut self, held: Rc<Held>) {
        self.held = held.clone();
        self.seen.push_back(held);
        self.turns += 1;
        if self.seen.len() > KEPT {
            self.seen.pop_front();
        }
    }

    /// What it was since so many turns; `None`: too long ago.
    pub fn since(&self, turns: usize) -> Option<impl Iterator<Item = &Rc<Held>>> {
        let back = self.turns - turns + 1;
        let first = self.seen.len().checked_sub(back)?;
        Some(self.seen.iter().skip(first))
    }

    /// It was refused at once.
    pub fn take_back(&mut self, number: u64) {
        let last = self.pending.pop_back().expect("something was sent");
        assert_eq!(last.number, number, "what is refused is refused at once");
    }

    /// It was refused after it had been accepted: it and all that follow it are dropped.
    pub fn drop_from(&mut self, number: u64) {
        if let Some(at) = self.pending.iter().position(|pending| pending.number == number) {
            self.pending.truncate(at);
        }
    }

    /// What it may be after a crash: nothing acknowledged is missing, and what was sent is there in its order.
    pub fn candidates(&self) -> Vec<Rc<Held>> {
        let sent = self.pending.iter().map(|pending| pending.after.clone());
        std::iter::once(self.held.clone()).chain(sent).collect()
    }

    /// It turned out to be this one of them.
    pub fn settle(&mut self, held: Rc<Held>) {
        self.pending.clear();
        self.acknowledged = self.sent;
        self.made |= held.exists();
        self.turn(held);
    }
}
