//! A command under way and its pieces.

use super::Target;
use crate::command::{COMMAND_BYTES, Command, Status};
use amita_frontend::pieces::{Pieces, Zeroes};
use amita_frontend::slots::SlotId;
use amita_reactor::{Slice, Time};
use amita_types::io::{Op, Payload};
use std::collections::VecDeque;

/// What a command needs its data for, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathering {
    /// Of the admin queue.
    Admin,
    Connect,
    /// A message of the in-band authentication.
    Authentication,
    /// The first of a fused pair.
    Compare,
    /// The second, and its first.
    Write {
        first: SlotId,
    },
    Dataset,
    Copy,
    Reserve,
}

/// What a command does, and how far it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Work {
    /// Waits for somebody's answer.
    #[default]
    Wait,
    /// A write; its pieces are submitted as they arrive. `cursor`: what is not asked for yet.
    Write { cursor: Pieces },
    /// The same for data to be compared.
    Compare { cursor: Pieces },
    /// Data that is needed as a whole.
    Gather { what: Gathering, asked: bool },
    /// A read; its pieces leave in order.
    Read { cursor: Pieces },
    /// A read that nobody gets.
    Verify { cursor: Pieces },
    /// Zeros to be written and blocks to be cleared.
    Zeroes { cursor: Zeroes },
    /// Blocks to be cleared: `cursor` of the range before `next`.
    Dataset { cursor: Pieces, next: usize },
    /// Ranges to be copied: what is left of the range before `next`, and where it goes.
    Copy {
        source: u64,
        source_end: u64,
        destination: u64,
        next: usize,
    },
    /// The second of a fused pair, and its first.
    Pair { first: SlotId },
}

/// A piece that was submitted.
#[derive(Debug)]
pub(crate) struct PieceState {
    /// Its number: larger than those before it in the command.
    pub number: u32,
    /// What was submitted.
    pub op: Op,
    /// What is written, kept until it is done, for another try; or what is compared.
    pub data: Slice,
    /// Is it done?
    pub done: bool,
    /// What it brought.
    pub payload: Payload,
    /// Where a piece of a copy goes.
    pub destination: u64,
}

/// A command under way.
#[derive(Debug)]
pub(crate) struct Request {
    pub command: Command,
    pub id: u16,
    /// When it came.
    pub since: Time,
    pub work: Work,
    pub target: Target,
    /// Bytes.
    pub length: u32,
    /// Did its data come in its capsule?
    pub in_capsule: bool,
    /// Bytes that it is charged for.
    pub charged: usize,
    /// Nothing more will be submitted or asked for.
    pub issued: bool,
    /// Pieces submitted and not done.
    pub under_way: u32,
    /// R2Ts that are not answered.
    pub asked: u32,
    /// The first failure.
    pub failure: Option<Status>,
    /// The byte of the volume at which that was, if it was at one.
    pub failed_at: Option<u64>,
    /// The completion's first two dwords.
    pub result: u64,
    /// Pieces submitted and still of interest, in order of their numbers.
    pub pieces: VecDeque<PieceState>,
    /// The next piece's number, where that is not an offset.
    pub number: u32,
    /// The data, where it is needed as a whole.
    pub buffer: Slice,
    /// Is it here?
    pub gathered: bool,
    /// The other one of a fused pair, as long as the two have not become one.
    pub partner: Option<SlotId>,
    /// Does the host know already that it has succeeded?
    pub told: bool,
    /// Ranges in bytes (offset, length), for those that have several.
    pub ranges: Vec<(u64, u64)>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            command: Command([0; COMMAND_BYTES]),
            id: 0,
            since: Time::default(),
            work: Work::Wait,
            target: Target::NONE,
            length: 0,
            in_capsule: false,
            charged: 0,
            issued: false,
            under_way: 0,
            asked: 0,
            failure: None,
            failed_at: None,
            result: 0,
            pieces: VecDeque::new(),
            number: 0,
            buffer: Slice::default(),
            gathered: false,
            partner: None,
            told: false,
            ranges: Vec::new(),
        }
    }
}

impl Request {
    /// Begins a new command in a slot that another one has used: keeps its memory.
    pub fn begin(&mut self, command: &Command, work: Work) {
        self.clear();
        self.command = *command;
        self.id = command.id();
        self.work = work;
    }

    /// Gives back what it refers to.
    pub fn clear(&mut self) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut ranges = std::mem::take(&mut self.ranges);
        pieces.clear();
        ranges.clear();
        *self = Request {
            pieces,
            ranges,
            ..Request::default()
        };
    }

    /// Has everything been submitted, and is all of it done?
    pub fn is_complete(&self) -> bool {
        self.issued && self.under_way == 0 && self.asked == 0
    }

    /// The piece with that number.
    pub fn piece(&mut self, number: u32) -> Option<&mut PieceState> {
        let index = self.pieces.binary_search_by_key(&number, |piece| piece.number).ok()?;
        self.pieces.get_mut(index)
    }

    /// Forgets pieces that are done, from the front.
    pub fn forget_done(&mut self) {
        while self.pieces.pop_front_if(|piece| piece.done).is_some() {}
    }

    /// Notes a failure; the first one counts, and nothing further is submitted.
    pub fn fail(&mut self, status: Status) {
        self.failure.get_or_insert(status);
    }

    /// The same, at that byte of the volume.
    pub fn fail_at(&mut self, status: Status, offset: u64) {
        if self.failure.is_none() {
            self.failed_at = Some(offset);
        }
        self.fail(status);
    }
}
