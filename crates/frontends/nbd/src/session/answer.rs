//! NBD on the request engine: what becomes of pieces that have ended, and the replies that this completes.

use super::request::{CLOSED, Kind, Request, failure_of};
use super::{Cx, Session, status, stream};
use crate::reply::{Failure, Reply as _};
use crate::wire::Errno;
use amita_frontend::engine::{Capabilities, Engine, Part, PieceState, Protocol, Step, Verdict, fits};
use amita_frontend::front::CloseReason;
use amita_frontend::slots::SlotId;
use amita_types::io::{IoError, Payload};

const WRONG_LENGTH: Failure = Failure::new(Errno::Io, "the volume answered with another length than was asked for");

impl Protocol for Session {
    const CAPABILITIES: Capabilities = Capabilities::CONNECTION;

    type Request = Request;
    type Failure = Failure;
    type End = CloseReason;
    type Context<'a> = Cx<'a>;

    fn engine(&mut self) -> &mut Engine<Session> {
        &mut self.engine
    }

    fn judge(
        _own: &Request,
        piece: &PieceState,
        result: Result<(), IoError>,
        payload: &Payload,
    ) -> Result<Verdict<Failure>, CloseReason> {
        let at = piece.op.offset();
        match result {
            Ok(()) if fits(&piece.op, payload) => Ok(Ok(())),
            Ok(()) => Ok(Err((WRONG_LENGTH, at))),
            // Nobody can say whether writes that are under way were done. A client that loses its connection asks
            // again, here or at another gateway; one that gets an error gives up.
            Err(IoError::Lost) => Err(CloseReason::Storage("the volume is no longer served here")),
            Err(error) => Ok(Err((failure_of(error), at))),
        }
    }

    fn step(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Step {
        status::step(self, slot, cx)
    }

    fn deliver(&mut self, slot: SlotId, part: Part<Failure>, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        let request = self.engine.request(slot);
        match request.own.kind {
            Kind::Chunks => send_chunk(request.own.cookie, part, cx),
            Kind::Stream { .. } => {
                if self.streams.take_wire(slot) {
                    cx.replies().simple(request.own.cookie, 0);
                }
                push_payload(part.payload, cx);
            }
            Kind::Status { .. } => status::add(request, self.volume.chunk_bytes, part.payload),
            Kind::Verdict | Kind::Gather => {}
        }
        Ok(())
    }

    fn landed(&mut self, slot: SlotId, verdict: &Verdict<Failure>, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        self.is_closed |= matches!(verdict, Err((failure, _)) if *failure == CLOSED);
        let request = self.engine.request(slot);
        if !matches!(request.own.kind, Kind::Stream { .. }) {
            return Ok(());
        }
        if request.failure.is_some() && self.streams.has_wire(slot) {
            // The header said that all is well, and the data cannot follow ("Simple replies").
            return Err(CloseReason::Storage(
                "an I/O error in the middle of a long simple reply",
            ));
        }
        stream::issue(self, cx);
        Ok(())
    }

    fn finish(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        let request = self.engine.request(slot);
        match request.own.kind {
            // The last chunk was the end of it.
            Kind::Chunks => self.engine.free(slot),
            Kind::Stream { .. } => {
                let failed = request.failure.is_some();
                if failed {
                    self.streams.drop_first();
                    self.reply_when_free(slot, cx);
                } else {
                    self.engine.free(slot);
                    self.streams.end_first();
                    while let Some(ready) = self.streams.next_waiting() {
                        self.reply(ready, cx);
                    }
                }
                stream::issue(self, cx);
            }
            Kind::Verdict | Kind::Gather | Kind::Status { .. } => self.reply_when_free(slot, cx),
        }
        Ok(())
    }
}

impl Session {
    /// Replies now, or when the wire is free.
    fn reply_when_free(&mut self, slot: SlotId, cx: &mut Cx<'_>) {
        match self.streams.is_wire_free() {
            true => self.reply(slot, cx),
            false => self.streams.wait(slot),
        }
    }

    /// Replies, and frees the slot.
    fn reply(&mut self, slot: SlotId, cx: &mut Cx<'_>) {
        let structured = self.structured;
        let request = self.engine.request(slot);
        let (cookie, offset, length) = (request.own.cookie, request.offset, request.own.length);
        let extents = std::mem::take(&mut request.own.extents);
        match (request.own.kind, request.failure) {
            (Kind::Gather, Some(failure)) if structured => {
                let at = request.failed_at.unwrap_or(offset);
                cx.replies().error(cookie, true, failure, Some(at));
            }
            (Kind::Gather, Some(failure)) => cx.replies().simple(cookie, failure.errno as u32),
            (Kind::Gather, None) => {
                if structured {
                    // All of it is here: no error can come any more, so that this may be the final chunk.
                    cx.replies().data_header(cookie, true, offset, length);
                } else {
                    cx.replies().simple(cookie, 0);
                }
                while let Some(payload) = self.engine.take_part(slot) {
                    push_payload(payload, cx);
                }
            }
            (Kind::Status { one, .. }, None) => {
                // With `NBD_CMD_FLAG_REQ_ONE` "every reply chunk MUST contain exactly one descriptor".
                for (place, (extents, context)) in extents.iter().zip(&self.contexts).enumerate() {
                    let count = if one { 1 } else { extents.len() };
                    let is_last = place + 1 == self.contexts.len();
                    cx.replies()
                        .block_status(cookie, is_last, context.id, &extents[..count]);
                }
            }
            (kind, failure) => {
                let read = matches!(kind, Kind::Stream { .. });
                self.verdict(cookie, read, failure, cx);
            }
        }
        self.engine.free(slot);
    }

    /// A reply without data: success or failure.
    pub(super) fn verdict(&self, cookie: u64, read: bool, failure: Option<Failure>, cx: &mut Cx<'_>) {
        let mut replies = cx.replies();
        match failure {
            // "The server SHOULD prefer sending errors via a structured reply."
            Some(failure) if self.structured => replies.error(cookie, true, failure, None),
            Some(failure) => replies.simple(cookie, failure.errno as u32),
            // "The server MUST NOT use a simple reply for NBD_CMD_READ."
            None if self.structured && read => replies.none(cookie),
            None => replies.simple(cookie, 0),
        }
    }
}

/// One piece of a read, as a chunk of a structured reply. After an error the server "MAY omit further content chunks".
fn send_chunk(cookie: u64, part: Part<Failure>, cx: &mut Cx<'_>) {
    let (offset, length, last) = (part.op.offset(), part.op.length() as u32, part.last);
    match (part.verdict, part.payload) {
        (Err(failure), _) => cx.replies().error(cookie, last, failure, Some(offset)),
        (Ok(()), Payload::Data(data)) => {
            cx.replies().data_header(cookie, last, offset, length);
            cx.outbox.push(data);
        }
        (Ok(()), _) => cx.replies().hole(cookie, last, offset, length),
    }
}

/// Puts the volume's memory of a payload on the wire.
fn push_payload(payload: Payload, cx: &mut Cx<'_>) {
    match payload {
        Payload::Data(data) => cx.outbox.push(data),
        Payload::Zeros(length) => {
            let zeros = cx.pool.zeros(length as usize);
            cx.outbox.push(zeros);
        }
        Payload::None | Payload::Allocation(_) | Payload::Differs(_) => {}
    }
}
