//! A command under way and its pieces.

use super::Target;
use crate::command::{COMMAND_BYTES, Command};
use amita_frontend::pieces::Pieces;
use amita_frontend::slots::SlotId;
use amita_reactor::{Slice, Time};

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
    Read,
    /// A read that nobody gets.
    Verify,
    /// Zeros to be written and blocks to be cleared.
    Zeroes,
    /// Blocks to be cleared: those of the ranges from `next` on are not begun.
    Dataset { next: usize },
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

/// A command under way, beside what the engine knows of it.
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
    /// The completion's first two dwords.
    pub result: u64,
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
            result: 0,
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
    pub fn begin(&mut self, command: &Command, work: Work, since: Time) {
        self.clear();
        self.command = *command;
        self.id = command.id();
        self.since = since;
        self.work = work;
    }

    /// Gives back what it refers to.
    pub fn clear(&mut self) {
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.clear();
        *self = Request {
            ranges,
            ..Request::default()
        };
    }
}
