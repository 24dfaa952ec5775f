//! A request under way and its pieces.

use crate::reply::Failure;
use crate::wire::Errno;
use amita_frontend::pieces::{Pieces, Zeroes};
use amita_reactor::Slice;
use amita_types::io::{IoError, Op, Payload};
use std::collections::VecDeque;

/// What a request does, and how far it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Work {
    /// Nothing but its reply, which waits until the connection is free for it.
    #[default]
    Reply,
    /// A write; its pieces are submitted as they arrive.
    Write,
    /// A read whose reply begins when all of it is in.
    Gather { cursor: Pieces },
    /// A read that is answered by a chunk for each piece, in whatever order they come.
    Chunks { cursor: Pieces },
    /// A read too long to gather, answered by a simple reply: its pieces leave in order as they come.
    Stream { cursor: Pieces },
    /// Zeros to be written and blocks to be cleared.
    Zeroes { cursor: Zeroes },
    /// Blocks to be cleared.
    Trim { cursor: Pieces },
    /// Allocation to be told, chunk by chunk.
    Status {
        /// The client wants one extent.
        one: bool,
        /// The first byte of the volume that is not asked for yet.
        next: u64,
        /// Up to here extents are known.
        known: u64,
        /// One past the last byte to be told.
        end: u64,
    },
}

/// A piece that was submitted.
#[derive(Debug)]
pub(super) struct PieceState {
    /// Its number: larger than those before it in the request.
    pub number: u32,
    /// What was submitted.
    pub op: Op,
    /// What is written, kept until it is done, for another try.
    pub data: Slice,
    /// Is it done?
    pub done: bool,
    /// What it brought.
    pub payload: Payload,
}

/// A request under way.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub work: Work,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
    /// Nothing more will be submitted.
    pub issued: bool,
    /// Pieces submitted and not done.
    pub under_way: u32,
    /// The first failure.
    pub failure: Option<Failure>,
    /// Where that was.
    pub failed_at: u64,
    /// Pieces submitted and still of interest, in order of their numbers.
    pub pieces: VecDeque<PieceState>,
    /// For [`Work::Status`].
    pub extents: Vec<(u32, u32)>,
}

impl Request {
    /// Begins a new request in a slot that another one has used: keeps its memory.
    pub fn begin(&mut self, work: Work, cookie: u64, offset: u64, length: u32) {
        self.work = work;
        self.cookie = cookie;
        self.offset = offset;
        self.length = length;
        self.issued = false;
        self.under_way = 0;
        self.failure = None;
        self.failed_at = offset;
        self.pieces.clear();
        self.extents.clear();
    }

    /// Has everything been submitted, and is all of it done?
    pub fn is_complete(&self) -> bool {
        self.issued && self.under_way == 0
    }

    /// Bytes of the pieces that are held or under way.
    pub fn held_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.op.length() as usize).sum()
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
    pub fn fail(&mut self, failure: Failure, offset: u64) {
        if self.failure.is_none() {
            self.failure = Some(failure);
            self.failed_at = offset;
        }
    }
}

/// The error of the protocol for an error of the volume ("Error values").
pub(super) fn failure_of(error: IoError) -> Failure {
    let (errno, message) = match error {
        IoError::NoSpace => (
            Errno::NoSpc,
            "no space left on a store that holds this part of the volume",
        ),
        IoError::ReadOnly => (Errno::Perm, "the volume is open for reading only"),
        IoError::OutOfRange | IoError::Invalid => (Errno::Inval, "the volume refused the range"),
        IoError::Lost => (Errno::Shutdown, "the volume is no longer served here"),
        IoError::Unavailable => (Errno::Io, "no copy of this part of the volume can be reached"),
        IoError::Damaged => (Errno::Io, "no intact copy of this part of the volume was found"),
        IoError::Busy => (Errno::Io, "the volume was busy for too long"),
        _ => (Errno::Io, "input/output error"),
    };
    Failure::new(errno, message)
}
