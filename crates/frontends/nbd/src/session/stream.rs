//! Reads too long to be gathered, answered by simple replies.

use super::request::Kind;
use super::{Cx, Session};
use amita_frontend::engine::{Protocol, Submission};
use amita_frontend::pieces::Piece;
use amita_frontend::slots::SlotId;
use amita_types::io::Op;
use std::collections::VecDeque;

/// Reads that stream, and who has the wire.
pub(super) struct Streams {
    /// What the pieces of a stream may hold, in bytes.
    bytes: usize,
    /// In their order; only the first one is submitted.
    queue: VecDeque<SlotId>,
    /// The stream whose reply has begun: nothing else may be sent.
    wire: Option<SlotId>,
    /// Requests whose reply waits for the wire.
    ready: VecDeque<SlotId>,
}

impl Streams {
    pub fn new(bytes: usize) -> Streams {
        Streams {
            bytes,
            queue: VecDeque::new(),
            wire: None,
            ready: VecDeque::new(),
        }
    }

    pub fn push(&mut self, slot: SlotId) {
        self.queue.push_back(slot);
    }

    /// May a reply be sent that is not of a stream?
    pub fn is_wire_free(&self) -> bool {
        self.wire.is_none()
    }

    /// Has this stream's reply begun?
    pub fn has_wire(&self, slot: SlotId) -> bool {
        self.wire == Some(slot)
    }

    /// The reply of the first stream goes on; true when it begins.
    pub fn take_wire(&mut self, slot: SlotId) -> bool {
        let begins = self.wire.is_none();
        if begins {
            self.wire = Some(slot);
        }
        begins
    }

    /// Its reply waits until the wire is free.
    pub fn wait(&mut self, slot: SlotId) {
        self.ready.push_back(slot);
    }

    /// The first stream has ended without a reply.
    pub fn drop_first(&mut self) {
        self.queue.pop_front();
    }

    /// The first stream has ended with its reply: the wire is free.
    pub fn end_first(&mut self) {
        self.queue.pop_front();
        self.wire = None;
    }

    /// Whose reply has waited for the wire.
    pub fn next_waiting(&mut self) -> Option<SlotId> {
        self.ready.pop_front()
    }
}

/// Submits of the first stream what its window allows. It has memory of its own, apart from that of other reads,
/// so that it goes on when they have used up theirs and wait for the wire.
pub(super) fn issue(session: &mut Session, cx: &mut Cx<'_>) {
    let Some(&slot) = session.streams.queue.front() else {
        return;
    };
    loop {
        let request = session.engine.request(slot);
        if request.failure.is_some() {
            request.issued = true;
            return;
        }
        let Kind::Stream { cursor } = &mut request.own.kind else {
            return;
        };
        let Some(Piece { offset, length }) = cursor.peek() else {
            request.issued = true;
            return;
        };
        let used = request.held_bytes() + cx.queued_bytes();
        if used > 0 && used + length as usize > session.streams.bytes {
            return;
        }
        if let Kind::Stream { cursor } = &mut request.own.kind {
            cursor.next();
            request.issued = cursor.is_empty();
        }
        session.submit(slot, Submission::of(Op::Read { offset, length }), cx);
    }
}
