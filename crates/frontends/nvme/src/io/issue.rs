//! Submitting pieces, and asking for data, within the limits.

use crate::Cx;
use crate::queue::{End, PieceState, Queue, Work};
use amita_frontend::pieces::{Piece, ZeroStep, clears};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_types::io::{Op, Payload};
use std::time::Duration;

/// How many pieces of one command are under way at once, for commands that move no data over the network.
const WINDOW: u32 = 8;
/// How long to wait when the volume was busy. (It holds thousands of requests: to wait for some to end is enough.)
const RETRY_AFTER: Duration = Duration::from_millis(2);

impl Queue {
    /// Submits a piece.
    pub(crate) fn submit(&mut self, slot: SlotId, number: u32, op: Op, data: Slice, cx: &mut Cx<'_>) {
        self.submit_piece(slot, number, op, data.clone(), data, 0, cx);
    }

    /// Submits a read whose result will be compared with `kept`.
    pub(crate) fn submit_compare(&mut self, slot: SlotId, number: u32, op: Op, kept: Slice, cx: &mut Cx<'_>) {
        self.submit_piece(slot, number, op, kept, Slice::default(), 0, cx);
    }

    #[expect(clippy::too_many_arguments, reason = "all of them are what a piece is")]
    pub(super) fn submit_piece(
        &mut self,
        slot: SlotId,
        number: u32,
        op: Op,
        kept: Slice,
        sent: Slice,
        destination: u64,
        cx: &mut Cx<'_>,
    ) {
        let tag = self.slots.tag(slot, number);
        let request = self.slots.get_mut(slot);
        request.under_way += 1;
        let volume = request.target.volume;
        let piece = PieceState {
            number,
            op,
            data: kept,
            done: false,
            payload: Payload::None,
            destination,
        };
        // Data of one command may come in any order: R2Ts are answered as the host likes.
        let at = request.pieces.partition_point(|other| other.number < number);
        request.pieces.insert(at, piece);
        cx.service.submit(self.front, tag, volume, op, sent);
    }

    /// May that many bytes more be read?
    pub(super) fn may_read(&self, bytes: usize, cx: &Cx<'_>) -> bool {
        // The outbox counts: what the host does not fetch is memory as well.
        let used = self.reading_bytes + cx.queued_bytes();
        used == 0 || used + bytes <= self.config().read_bytes
    }

    /// The next of the numbers that pieces without an offset of their own get.
    pub(super) fn next_number(&mut self, slot: SlotId) -> u32 {
        let request = self.slots.get_mut(slot);
        request.number += 1;
        request.number
    }

    /// Submits of a command, or asks for, what the limits allow; true when that was the last of it.
    pub(crate) fn issue(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> bool {
        loop {
            let (max_r2t, pieces) = (self.link.max_r2t, self.config().pieces);
            let request = self.slots.get_mut(slot);
            if request.failure.is_some() || request.issued {
                request.issued = true;
                return true;
            }
            let start = request.target.offset;
            match request.work {
                Work::Wait | Work::Pair { .. } => return true,
                Work::Gather { asked: true, .. } => return true,
                Work::Gather { what, asked: false } => {
                    let length = request.length;
                    if !self.may_ask(length as usize, cx) {
                        return false;
                    }
                    self.slots.get_mut(slot).work = Work::Gather { what, asked: true };
                    self.ask(slot, 0, length, cx);
                    return true;
                }
                Work::Write { mut cursor } | Work::Compare { mut cursor } => {
                    let Some(piece) = cursor.next() else {
                        request.issued = true;
                        return true;
                    };
                    if request.asked >= max_r2t {
                        // The answer to one of them goes on with it: nothing has to wait for room.
                        return true;
                    }
                    if !self.may_ask(piece.length as usize, cx) {
                        return false;
                    }
                    let request = self.slots.get_mut(slot);
                    request.issued = cursor.is_empty();
                    request.work = match request.work {
                        Work::Write { .. } => Work::Write { cursor },
                        _ => Work::Compare { cursor },
                    };
                    self.ask(slot, (piece.offset - start) as u32, piece.length, cx);
                }
                Work::Read { mut cursor } | Work::Verify { mut cursor } => {
                    let Some(Piece { offset, length }) = cursor.next() else {
                        request.issued = true;
                        return true;
                    };
                    if !self.may_read(length as usize, cx) {
                        return false;
                    }
                    let request = self.slots.get_mut(slot);
                    request.issued = cursor.is_empty();
                    request.work = match request.work {
                        Work::Read { .. } => Work::Read { cursor },
                        _ => Work::Verify { cursor },
                    };
                    self.reading_bytes += length as usize;
                    let number = (offset - start) as u32;
                    self.submit(slot, number, Op::Read { offset, length }, Slice::default(), cx);
                }
                Work::Zeroes { mut cursor } => {
                    let Some(step) = cursor.next() else {
                        request.issued = true;
                        return true;
                    };
                    if request.under_way >= WINDOW || self.pieces_under_way >= pieces {
                        return false;
                    }
                    // Zeros are shared and take no memory here, but they load the stores like any write.
                    let bytes = match step {
                        ZeroStep::Clear(_) => 0,
                        ZeroStep::Write(piece) => piece.length as usize,
                    };
                    if !self.may_ask(bytes, cx) {
                        return false;
                    }
                    self.charge(slot, bytes);
                    let request = self.slots.get_mut(slot);
                    request.work = Work::Zeroes { cursor };
                    request.issued = cursor.is_empty();
                    self.pieces_under_way += 1;
                    let number = self.next_number(slot);
                    let (op, data) = match step {
                        ZeroStep::Clear(Piece { offset, length }) => {
                            let length = u64::from(length);
                            (Op::Clear { offset, length }, Slice::default())
                        }
                        ZeroStep::Write(Piece { offset, length }) => {
                            (Op::Write { offset, length }, cx.pool.zeros(bytes))
                        }
                    };
                    self.submit(slot, number, op, data, cx);
                }
                Work::Dataset { mut cursor, next } => {
                    let Some(Piece { offset, length }) = cursor.next() else {
                        let Some(&(offset, length)) = request.ranges.get(next) else {
                            if request.number > 0 {
                                request.issued = true;
                                return true;
                            }
                            // Parts of blocks and hints clear nothing; but whom a reservation does not let write may not
                            // send the command either.
                            if self.pieces_under_way >= pieces {
                                return false;
                            }
                            request.issued = true;
                            self.pieces_under_way += 1;
                            let number = self.next_number(slot);
                            let nothing = Op::Clear { offset: 0, length: 0 };
                            self.submit(slot, number, nothing, Slice::default(), cx);
                            return true;
                        };
                        let cursor = clears(offset, length, request.target.chunk_bytes);
                        request.work = Work::Dataset { cursor, next: next + 1 };
                        continue;
                    };
                    if request.under_way >= WINDOW || self.pieces_under_way >= pieces {
                        return false;
                    }
                    request.work = Work::Dataset { cursor, next };
                    self.pieces_under_way += 1;
                    let number = self.next_number(slot);
                    let length = u64::from(length);
                    self.submit(slot, number, Op::Clear { offset, length }, Slice::default(), cx);
                }
                Work::Copy { .. } => match self.issue_copy(slot, WINDOW, cx) {
                    Some(done) => return done,
                    None => continue,
                },
            }
        }
    }

    /// The volume was too busy for a piece.
    pub(super) fn retry_later(&mut self, tag: u64, cx: &Cx<'_>) {
        self.retries.push_back(tag);
        self.retry_at.get_or_insert(cx.now.plus(RETRY_AFTER));
    }

    /// Submits again what the volume was too busy for.
    pub(crate) fn retry(&mut self, cx: &mut Cx<'_>) {
        if self.retry_at.is_none_or(|at| cx.now < at) {
            return;
        }
        self.retry_at = None;
        for _ in 0..self.retries.len() {
            let Some(tag) = self.retries.pop_front() else { break };
            let Some((slot, number)) = self.slots.find(tag) else {
                continue;
            };
            let request = self.slots.get_mut(slot);
            let volume = request.target.volume;
            let is_read = matches!(request.work, Work::Compare { .. });
            let Some(piece) = request.piece(number) else {
                continue;
            };
            // What is compared stays here.
            let data = if is_read { Slice::default() } else { piece.data.clone() };
            cx.service.submit(self.front, tag, volume, piece.op, data);
        }
    }
}

/// What a step ends with when the connection has to.
pub(super) type Step = Result<(), End>;
