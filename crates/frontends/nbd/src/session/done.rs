//! Pieces that have ended, and the replies that this completes.

use super::issue::RETRY_AFTER;
use super::request::{Work, failure_of};
use super::{Cx, Session};
use crate::reply::Failure;
use crate::wire::Errno;
use amita_frontend::front::CloseReason;
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_types::io::{IoError, Op, Payload};

const WRONG_LENGTH: Failure = Failure::new(Errno::Io, "the volume answered with another length than was asked for");

/// Checks that a piece brought what was asked for: data of a wrong length would shift everything behind it on the wire.
fn checked(op: &Op, result: Result<(), IoError>, payload: &Payload) -> Result<(), Failure> {
    result.map_err(failure_of)?;
    let fits = match (op, payload) {
        (Op::Read { length, .. }, Payload::Data(data)) => data.len() == *length as usize,
        (Op::Read { length, .. }, Payload::Zeros(zeros)) => zeros == length,
        (Op::Allocation { .. }, Payload::Allocation(_)) => true,
        (Op::Read { .. } | Op::Allocation { .. }, _) => false,
        (Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. }, _) => true,
    };
    fits.then_some(()).ok_or(WRONG_LENGTH)
}

impl Session {
    /// A piece has ended.
    pub fn done(
        &mut self,
        tag: u64,
        result: Result<(), IoError>,
        payload: Payload,
        cx: &mut Cx<'_>,
    ) -> Result<(), CloseReason> {
        let Some((slot, number)) = self.slots.find(tag) else {
            return Ok(());
        };
        let request = self.slots.get_mut(slot);
        let Some(piece) = request.piece(number) else {
            return Ok(());
        };
        match result {
            Err(IoError::Busy) => {
                self.retries.push_back(tag);
                self.retry_at.get_or_insert(cx.now.plus(RETRY_AFTER));
                return Ok(());
            }
            // Nobody can say whether writes that are under way were done. A client that loses its connection asks
            // again, here or at another gateway; one that gets an error gives up.
            Err(IoError::Lost) => return Err(CloseReason::Storage("the volume is no longer served here")),
            _ => {}
        }
        let op = piece.op;
        let verdict = checked(&op, result, &payload);
        piece.done = true;
        piece.data = Slice::default();
        if verdict.is_ok() {
            piece.payload = payload;
        }
        request.under_way -= 1;
        self.pieces_under_way -= 1;
        if let Err(failure) = verdict {
            request.fail(failure, op.offset());
        }
        if matches!(op, Op::Write { .. }) {
            self.writing_bytes -= op.length() as usize;
        }
        match request.work {
            Work::Reply => {}
            Work::Write | Work::Zeroes { .. } | Work::Trim { .. } => request.forget_done(),
            Work::Gather { .. } => {}
            Work::Chunks { .. } => {
                self.reading_bytes -= op.length() as usize;
                return self.send_chunk(slot, number, verdict, cx);
            }
            Work::Stream { .. } => return self.send_stream(slot, cx),
            Work::Status { .. } => self.add_status(slot),
        }
        self.finish_if_complete(slot, cx)
    }

    /// One piece of a read, as a chunk of a structured reply.
    fn send_chunk(
        &mut self,
        slot: SlotId,
        number: u32,
        verdict: Result<(), Failure>,
        cx: &mut Cx<'_>,
    ) -> Result<(), CloseReason> {
        let request = self.slots.get_mut(slot);
        // After an error "MAY omit further content chunks": what is not submitted yet never will be.
        request.issued |= request.failure.is_some();
        let last = request.is_complete();
        let cookie = request.cookie;
        let Some(piece) = request.piece(number) else {
            return Ok(());
        };
        let (op, payload) = (piece.op, std::mem::take(&mut piece.payload));
        request.forget_done();
        let (offset, length) = (op.offset(), op.length() as u32);
        match (verdict, payload) {
            (Err(failure), _) => cx.replies().error(cookie, last, failure, Some(offset)),
            (Ok(()), Payload::Data(data)) => {
                cx.replies().data_header(cookie, last, offset, length);
                cx.outbox.push(data);
            }
            (Ok(()), _) => cx.replies().hole(cookie, last, offset, length),
        }
        if last {
            self.waiting.retain(|waiting| *waiting != slot);
            self.slots.free(slot);
        }
        Ok(())
    }

    /// Sends what has come of a stream, in order.
    fn send_stream(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        loop {
            let request = self.slots.get_mut(slot);
            if request.failure.is_some() {
                if self.wire == Some(slot) {
                    // The header said that all is well, and the data cannot follow ("Simple replies").
                    return Err(CloseReason::Storage(
                        "an I/O error in the middle of a long simple reply",
                    ));
                }
                request.issued = true;
                if request.under_way == 0 {
                    self.streams.pop_front();
                    self.finish(slot, cx);
                    self.issue_stream(cx);
                }
                return Ok(());
            }
            let Some(piece) = request.pieces.pop_front_if(|piece| piece.done) else {
                break;
            };
            if self.wire.is_none() {
                self.wire = Some(slot);
                cx.replies().simple(request.cookie, 0);
            }
            Self::push_payload(piece.payload, cx);
        }
        let request = self.slots.get_mut(slot);
        if request.is_complete() && request.pieces.is_empty() {
            self.slots.free(slot);
            self.streams.pop_front();
            self.wire = None;
            while let Some(ready) = self.ready.pop_front() {
                self.reply(ready, cx);
            }
        }
        self.issue_stream(cx);
        Ok(())
    }

    /// Replies to a request whose pieces are all done.
    pub(super) fn finish_if_complete(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        let request = self.slots.get_mut(slot);
        // A write that failed must still be read to its end; all else stops where it is.
        request.issued |= request.failure.is_some() && !matches!(request.work, Work::Write);
        if request.is_complete() {
            self.waiting.retain(|waiting| *waiting != slot);
            self.finish(slot, cx);
        }
        Ok(())
    }

    /// Replies now, or when the wire is free.
    fn finish(&mut self, slot: SlotId, cx: &mut Cx<'_>) {
        if self.wire.is_some() {
            self.ready.push_back(slot);
        } else {
            self.reply(slot, cx);
        }
    }

    /// Replies, and frees the slot.
    fn reply(&mut self, slot: SlotId, cx: &mut Cx<'_>) {
        let structured = self.structured;
        let request = self.slots.get_mut(slot);
        let (cookie, offset, length) = (request.cookie, request.offset, request.length);
        let failure = request.failure;
        match (request.work, failure) {
            (Work::Gather { .. }, Some(failure)) => {
                self.reading_bytes -= length as usize;
                if structured {
                    let at = request.failed_at;
                    cx.replies().error(cookie, true, failure, Some(at));
                } else {
                    cx.replies().simple(cookie, failure.errno as u32);
                }
            }
            (Work::Gather { .. }, None) => {
                self.reading_bytes -= length as usize;
                if structured {
                    // All of it is here: no error can come any more, so that this may be the final chunk.
                    cx.replies().data_header(cookie, true, offset, length);
                } else {
                    cx.replies().simple(cookie, 0);
                }
                while let Some(piece) = request.pieces.pop_front() {
                    Self::push_payload(piece.payload, cx);
                }
            }
            (Work::Status { one, .. }, None) => {
                // With `NBD_CMD_FLAG_REQ_ONE` "every reply chunk MUST contain exactly one descriptor".
                let count = if one { 1 } else { request.extents.len() };
                cx.replies().block_status(cookie, &request.extents[..count]);
            }
            (_, failure) => {
                let read = matches!(request.work, Work::Stream { .. });
                self.verdict(cookie, read, failure, cx);
            }
        }
        self.slots.get_mut(slot).pieces.clear();
        self.slots.free(slot);
    }
}
