//! Submitting pieces, within the limits.

use super::request::Work;
use super::{Cx, Session};
use crate::session::request::PieceState;
use amita_frontend::front::CloseReason;
use amita_frontend::pieces::{Piece, ZeroStep};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_types::io::{Op, Payload};
use std::time::Duration;

/// How many clears, writes of zeros or allocation queries of one request are under way at once.
const WINDOW: u32 = 8;
/// How long to wait when the volume was busy. (It holds thousands of requests: to wait for some to end is enough.)
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(2);

impl Session {
    /// Submits a piece.
    pub(super) fn submit(&mut self, slot: SlotId, number: u32, op: Op, data: Slice, cx: &mut Cx<'_>) {
        let tag = self.slots.tag(slot, number);
        let request = self.slots.get_mut(slot);
        request.under_way += 1;
        let kept = data.clone();
        request.pieces.push_back(PieceState {
            number,
            op,
            data: kept,
            done: false,
            payload: Payload::None,
        });
        self.pieces_under_way += 1;
        cx.service.submit(self.front, tag, self.volume.id, op, data);
    }

    /// Starts what waited for room. Called once at the end of a pass.
    pub fn pump(&mut self, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        self.issue_stream(cx);
        for _ in 0..self.waiting.len() {
            let Some(slot) = self.waiting.pop_front() else { break };
            if !self.issue(slot, cx) {
                self.waiting.push_back(slot);
            }
            self.finish_if_complete(slot, cx)?;
        }
        Ok(())
    }

    /// May that many bytes more be read?
    fn may_read(&self, bytes: usize, cx: &Cx<'_>) -> bool {
        // The outbox counts: what the client does not fetch is memory as well.
        let used = self.reading_bytes + cx.queued_bytes();
        used == 0 || used + bytes <= self.limits.read_bytes
    }

    /// Submits of a request what the limits allow; true when that was the last of it.
    pub(super) fn issue(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> bool {
        loop {
            if self.slots.get_mut(slot).failure.is_some() {
                self.slots.get_mut(slot).issued = true;
                return true;
            }
            let request = self.slots.get_mut(slot);
            let (offset, length, under_way) = (request.offset, request.length as usize, request.under_way);
            match request.work {
                Work::Reply | Work::Write | Work::Stream { .. } => return true,
                Work::Gather { cursor } => {
                    if !self.may_read(length, cx) {
                        return false;
                    }
                    self.reading_bytes += length;
                    for piece in cursor {
                        self.submit_read(slot, offset, piece, cx);
                    }
                    self.slots.get_mut(slot).issued = true;
                    return true;
                }
                Work::Chunks { mut cursor } => {
                    let Some(piece) = cursor.next() else {
                        request.issued = true;
                        return true;
                    };
                    if !self.may_read(piece.length as usize, cx) {
                        return false;
                    }
                    let request = self.slots.get_mut(slot);
                    request.issued = cursor.is_empty();
                    request.work = Work::Chunks { cursor };
                    self.reading_bytes += piece.length as usize;
                    self.submit_read(slot, offset, piece, cx);
                }
                Work::Zeroes { mut cursor } => {
                    if cursor.is_empty() {
                        request.issued = true;
                        return true;
                    }
                    if under_way >= WINDOW || self.pieces_under_way >= self.limits.pieces {
                        return false;
                    }
                    let Some(step) = cursor.next() else { return true };
                    let number = request.pieces.back().map_or(0, |piece| piece.number + 1);
                    match step {
                        ZeroStep::Clear(piece) => {
                            request.work = Work::Zeroes { cursor };
                            self.submit_clear(slot, number, piece, cx);
                        }
                        ZeroStep::Write(Piece { offset, length }) => {
                            // Zeros are shared and take no memory here, but they load the stores like any write.
                            let bytes = length as usize;
                            if self.writing_bytes > 0 && self.writing_bytes + bytes > self.limits.write_bytes {
                                return false;
                            }
                            request.work = Work::Zeroes { cursor };
                            self.writing_bytes += bytes;
                            let zeros = cx.pool.zeros(bytes);
                            self.submit(slot, number, Op::Write { offset, length }, zeros, cx);
                        }
                    }
                }
                Work::Trim { mut cursor } => {
                    if cursor.is_empty() {
                        request.issued = true;
                        return true;
                    }
                    if under_way >= WINDOW || self.pieces_under_way >= self.limits.pieces {
                        return false;
                    }
                    let Some(piece) = cursor.next() else { return true };
                    let number = request.pieces.back().map_or(0, |piece| piece.number + 1);
                    request.work = Work::Trim { cursor };
                    self.submit_clear(slot, number, piece, cx);
                }
                Work::Status { next, end, .. } => {
                    if next >= end {
                        request.issued = true;
                        return true;
                    }
                    if under_way >= WINDOW || self.pieces_under_way >= self.limits.pieces {
                        return false;
                    }
                    self.submit_status(slot, next, cx);
                }
            }
        }
    }

    fn submit_read(&mut self, slot: SlotId, start: u64, piece: Piece, cx: &mut Cx<'_>) {
        let number = (piece.offset - start) as u32;
        self.submit(
            slot,
            number,
            Op::Read {
                offset: piece.offset,
                length: piece.length,
            },
            Slice::default(),
            cx,
        );
    }

    fn submit_clear(&mut self, slot: SlotId, number: u32, piece: Piece, cx: &mut Cx<'_>) {
        let op = Op::Clear {
            offset: piece.offset,
            length: piece.length.into(),
        };
        self.submit(slot, number, op, Slice::default(), cx);
    }

    /// Submits of the first stream what its window allows. It has memory of its own, apart from that of other reads,
    /// so that it goes on when they have used up theirs and wait for the wire.
    pub(super) fn issue_stream(&mut self, cx: &mut Cx<'_>) {
        let Some(&slot) = self.streams.front() else { return };
        loop {
            let limit = self.limits.stream_bytes;
            let request = self.slots.get_mut(slot);
            if request.failure.is_some() {
                request.issued = true;
                return;
            }
            let Work::Stream { mut cursor } = request.work else {
                return;
            };
            let Some(piece) = cursor.next() else {
                request.issued = true;
                return;
            };
            let used = request.held_bytes() + cx.queued_bytes();
            if used > 0 && used + piece.length as usize > limit {
                return;
            }
            request.issued = cursor.is_empty();
            request.work = Work::Stream { cursor };
            let start = request.offset;
            self.submit_read(slot, start, piece, cx);
        }
    }

    /// Submits again what the volume was too busy for.
    pub fn retry(&mut self, cx: &mut Cx<'_>) {
        if self.retry_at.is_none_or(|at| cx.now < at) {
            return;
        }
        self.retry_at = None;
        for _ in 0..self.retries.len() {
            let Some(tag) = self.retries.pop_front() else { break };
            let Some((slot, number)) = self.slots.find(tag) else {
                continue;
            };
            let Some(piece) = self.slots.get_mut(slot).piece(number) else {
                continue;
            };
            let (op, data) = (piece.op, piece.data.clone());
            cx.service.submit(self.front, tag, self.volume.id, op, data);
        }
    }
}
