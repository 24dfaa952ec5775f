//! A chunk's history as its owner knows it: what is acknowledged, what was sent since, and what it was a while ago.

use super::truth::{Deed, Held, Retained};
use amita_reactor::Slice;
use amita_types::Version;
use amita_types::message::Request;
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
}

#[derive(Clone, Debug)]
pub struct Chunk {
    pub held: Rc<Held>,
    pub pending: VecDeque<Pending>,
    /// What is being dropped.
    pub keep: Option<Retained>,
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
            keep: None,
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
        let after = Rc::new(self.accepted().after(deed, self.keep.as_ref(), self.blocks));
        self.pending.push_back(Pending {
            number: self.sent,
            request,
            payload,
            after,
        });
        self.sent
    }

    /// Some of it is to be dropped: when that is answered, it is gone.
    pub fn send_retain(&mut self, keep: Retained) {
        self.change_all(|held| held.doom(&keep));
        self.keep = Some(keep);
    }

    /// That is answered, or refused.
    pub fn end_retain(&mut self, done: bool) {
        if let Some(Retained { number, .. }) = self.keep.take() {
            self.change_all(|held| if done { held.drop(number) } else { held.reprieve(number) });
        }
    }

    fn change_all(&mut self, mut change: impl FnMut(&mut Held)) {
        for pending in &mut self.pending {
            change(Rc::make_mut(&mut pending.after));
        }
        let mut held = self.held.clone();
        change(Rc::make_mut(&mut held));
        self.turn(held);
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

    /// It was refused: it and all that follow it are dropped. `false`: it was dropped already.
    pub fn drop_from(&mut self, number: u64) -> bool {
        let at = self.pending.iter().position(|pending| pending.number == number);
        if let Some(at) = at {
            self.pending.truncate(at);
        }
        at.is_some()
    }

    /// Is nothing under way?
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.keep.is_none()
    }

    /// What it may be after a crash: nothing acknowledged is missing, and what was sent is there in its order.
    pub fn candidates(&self) -> Vec<Rc<Held>> {
        let sent = self.pending.iter().map(|pending| pending.after.clone());
        std::iter::once(self.held.clone()).chain(sent).collect()
    }

    /// It turned out to be this one of them.
    pub fn settle(&mut self, held: Rc<Held>) {
        self.pending.clear();
        self.keep = None;
        self.acknowledged = self.sent;
        self.made |= held.exists();
        self.turn(held);
    }
}
