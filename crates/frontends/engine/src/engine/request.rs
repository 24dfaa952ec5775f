//! A request under way and its pieces.

use super::Protocol;
use amita_reactor::Slice;
use amita_types::io::{Op, Payload};
use std::collections::VecDeque;

use crate::pieces::{Pieces, Zeroes};
use crate::service::Source;
use crate::slots::MAX_PIECE;

/// What the engine submits of a request by itself, and how far it has come.
#[derive(Clone, Copy, Debug, Default)]
pub enum Plan {
    /// Nothing: the protocol submits pieces as their data arrives, or waits for somebody's answer.
    #[default]
    Hold,
    /// Reads, each as soon as there is room for it.
    Read(Pieces),
    /// Reads that begin when there is room for all of them.
    ReadWhole(Pieces),
    /// Writes of [`Request::data`], which is here already.
    Write(Pieces),
    /// Zeros to be written and blocks to be cleared, a window of them at a time.
    Zero(Zeroes),
    /// Blocks to be cleared, a window of them at a time.
    Clear(Pieces),
    /// What [`Protocol::step`] submits.
    Steps,
}

impl Plan {
    /// Does it move by a window (or else as fast as there is room)?
    #[must_use]
    pub fn is_windowed(&self) -> bool {
        matches!(self, Plan::Zero(_) | Plan::Clear(_))
    }
}

/// What becomes of a request's pieces when they are done: what the protocol can make of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Nothing: only how they ended counts.
    #[default]
    Verdict,
    /// They are kept for [`Protocol::finish`], which takes them with [`Engine::take_part`](super::Engine::take_part).
    Whole,
    /// [`Protocol::deliver`] gets them in the order in which they were submitted; after a failure, none.
    InOrder,
    /// [`Protocol::deliver`] gets them as they end, failed ones too.
    AnyOrder,
}

/// Which budget a piece's bytes are taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// None: the protocol bounds it.
    #[default]
    None,
    /// Reads: until what was read has left the engine.
    Read,
    /// What its request was charged for: until the piece is done.
    Write,
}

/// A piece, as it is submitted.
#[derive(Debug)]
pub struct Submission {
    /// What is asked of the volume.
    pub op: Op,
    /// What is written; or what the protocol keeps beside a read, which is not sent.
    pub data: Slice,
    /// Its budget.
    pub charge: Charge,
    /// A number of the protocol's own.
    pub note: u64,
}

impl Submission {
    /// A piece without data that no budget is charged for.
    #[must_use]
    pub fn of(op: Op) -> Submission {
        Submission {
            op,
            data: Slice::default(),
            charge: Charge::None,
            note: 0,
        }
    }

    /// With data, which its request was charged for.
    #[must_use]
    pub fn with_data(op: Op, data: Slice) -> Submission {
        Submission {
            data,
            charge: Charge::Write,
            ..Submission::of(op)
        }
    }
}

/// A piece that was submitted.
#[derive(Debug)]
pub struct PieceState {
    /// What was submitted.
    pub op: Op,
    /// What is written, kept until it is done, for another try; or what the protocol keeps beside it.
    pub data: Slice,
    /// A number of the protocol's own.
    pub note: u64,
    pub(super) charge: Charge,
    /// Is it one of the pieces that are limited in number?
    pub(super) counted: bool,
    pub(super) done: bool,
    pub(super) payload: Payload,
}

impl PieceState {
    pub(super) fn new(submission: Submission, counted: bool) -> PieceState {
        PieceState {
            op: submission.op,
            data: submission.data,
            note: submission.note,
            charge: submission.charge,
            counted,
            done: false,
            payload: Payload::None,
        }
    }

    /// What goes to the volume: what is kept beside a read stays here.
    pub(super) fn sent(&self) -> Slice {
        match self.op.is_write() {
            true => self.data.clone(),
            false => Slice::default(),
        }
    }
}

/// A piece that is done, on its way to the host.
#[derive(Debug)]
pub struct Part<F> {
    /// What was submitted.
    pub op: Op,
    pub verdict: Result<(), F>,
    /// What it brought.
    pub payload: Payload,
    /// Nothing of the request comes after it.
    pub last: bool,
}

/// A request under way.
pub struct Request<P: Protocol> {
    /// What the protocol keeps with it. It stays in the slot, with the memory that it holds, for the next request there.
    pub own: P::Request,
    /// What its pieces are of.
    pub source: Source,
    /// Where its range begins.
    pub offset: u64,
    /// What is written, where that is here as a whole.
    pub data: Slice,
    /// What is to be submitted.
    pub plan: Plan,
    /// What becomes of the pieces.
    pub delivery: Delivery,
    /// Nothing more will be submitted.
    pub issued: bool,
    /// What the host still owes: data that was asked for. The request does not end before.
    pub owed: u32,
    /// Is its data charged to what came [unasked](super::Engine::may_take_unasked)?
    pub unasked: bool,
    /// How it failed, if it did.
    pub failure: Option<P::Failure>,
    /// At which byte of the volume that was, if it was at one.
    pub failed_at: Option<u64>,
    /// Bytes that it is charged for.
    pub(super) charged: usize,
    /// Bytes of its answer that it is charged for.
    pub(super) answer: usize,
    /// Pieces submitted and not done.
    pub(super) under_way: u32,
    /// Has anything of it been submitted?
    pub(super) begun: bool,
    /// Stands in the list of those that wait for room.
    pub(super) waits: bool,
    /// Pieces submitted and still of interest, in the order of their numbers.
    pub(super) pieces: VecDeque<PieceState>,
    /// The number of the first of them. Numbers go round.
    first: u32,
}

impl<P: Protocol> Default for Request<P> {
    fn default() -> Request<P> {
        Request {
            own: P::Request::default(),
            source: Source::default(),
            offset: 0,
            data: Slice::default(),
            plan: Plan::Hold,
            delivery: Delivery::Verdict,
            issued: false,
            owed: 0,
            unasked: false,
            failure: None,
            failed_at: None,
            charged: 0,
            answer: 0,
            under_way: 0,
            begun: false,
            waits: false,
            pieces: VecDeque::new(),
            first: 0,
        }
    }
}

impl<P: Protocol> Request<P> {
    /// Makes a freed one this; its memory stays.
    pub(super) fn begin(&mut self, source: Source, offset: u64, plan: Plan, delivery: Delivery) {
        assert!(self.pieces.is_empty(), "a free slot has no pieces");
        self.source = source;
        self.offset = offset;
        self.plan = plan;
        self.delivery = delivery;
        self.issued = false;
        self.owed = 0;
        self.unasked = false;
        self.failure = None;
        self.failed_at = None;
        self.under_way = 0;
        self.begun = false;
        self.waits = false;
        self.first = 0;
    }

    /// Has everything been submitted, is all of it done, and does the host owe nothing?
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.issued && self.under_way == 0 && self.owed == 0
    }

    /// Has anything of it been submitted?
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Pieces submitted and not done.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Bytes of the pieces that are held or under way.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.op.length() as usize).sum()
    }

    /// Notes a failure: nothing further is submitted. The first one counts, unless [`Protocol::is_graver`] knows better.
    pub fn fail(&mut self, failure: P::Failure, at: Option<u64>) {
        match self.failure {
            None => {
                self.failure = Some(failure);
                self.failed_at = at;
            }
            Some(first) if P::is_graver(failure, first) => self.failure = Some(failure),
            Some(_) => {}
        }
    }

    /// The bytes of [`Request::data`] that a piece writes.
    pub(super) fn data_of(&mut self, offset: u64, length: u32) -> Slice {
        let (start, length) = ((offset - self.offset) as usize, length as usize);
        if start + length == self.data.len() {
            // The last one: nobody asks for the rest any more.
            self.data.skip(start);
            return std::mem::take(&mut self.data);
        }
        self.data.slice(start..start + length)
    }

    /// Adds a piece; its number.
    pub(super) fn add(&mut self, piece: PieceState) -> u32 {
        self.begun = true;
        self.under_way += 1;
        if self.plan.is_windowed()
            && let Some(index) = self.pieces.iter().position(|piece| piece.done)
        {
            // One slow piece at the front must not let the others of a long range pile up behind it.
            self.pieces[index] = piece;
            return self.number(index);
        }
        self.pieces.push_back(piece);
        self.number(self.pieces.len() - 1)
    }

    fn number(&self, index: usize) -> u32 {
        self.first.wrapping_add(index as u32) & MAX_PIECE
    }

    /// The piece with that number, if it is under way, and what the protocol keeps.
    pub(super) fn piece(&mut self, number: u32) -> Option<(&mut P::Request, &mut PieceState)> {
        let index = number.wrapping_sub(self.first) & MAX_PIECE;
        let piece = self.pieces.get_mut(index as usize).filter(|piece| !piece.done)?;
        Some((&mut self.own, piece))
    }

    /// Takes the first piece, if it is done.
    pub(super) fn pop_done(&mut self) -> Option<PieceState> {
        let piece = self.pieces.pop_front_if(|piece| piece.done)?;
        self.first = self.first.wrapping_add(1) & MAX_PIECE;
        Some(piece)
    }
}
