//! Pieces that have ended, and the answers that this completes.

use super::issue::Step;
use crate::Cx;
use crate::command::Status;
use crate::queue::{Queue, Work};
use crate::wire::{flag, status};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_types::io::{IoError, Op, Payload};

/// The status for an error of the volume.
pub(super) fn status_of(error: IoError) -> Status {
    match error {
        // Another gateway serves it now, or none can: a host with several paths tries the others, then this again.
        IoError::Lost | IoError::Unavailable => status::INTERNAL_PATH,
        IoError::NoSpace => status::CAPACITY,
        IoError::Damaged => status::UNRECOVERED_READ,
        IoError::Miscompare => status::COMPARE_FAILURE,
        IoError::Reserved => status::RESERVATION_CONFLICT,
        IoError::ReadOnly => status::READ_ONLY,
        IoError::OutOfRange => status::LBA_RANGE,
        _ => status::INTERNAL,
    }
}

/// Checks that a piece brought what was asked for.
fn checked(op: &Op, result: Result<(), IoError>, payload: &Payload) -> Result<(), Status> {
    result.map_err(status_of)?;
    let fits = match (op, payload) {
        (Op::Read { length, .. }, Payload::Data(data)) => data.len() == *length as usize,
        (Op::Read { length, .. }, Payload::Zeros(zeros)) => zeros == length,
        (Op::Read { .. } | Op::Allocation { .. }, _) => false,
        (Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. }, _) => true,
    };
    fits.then_some(()).ok_or(status::INTERNAL)
}

/// The first byte that the volume does not hold as the host has sent it.
fn difference(host: &Slice, volume: &Payload) -> Option<usize> {
    match volume {
        // Almost always they are equal, and that is seen faster as a whole.
        Payload::Data(data) if data[..] == host[..] => None,
        Payload::Data(data) => host.iter().zip(data.iter()).position(|(host, volume)| host != volume),
        _ => host.iter().position(|byte| *byte != 0),
    }
}

impl Queue {
    /// A piece has ended.
    pub(crate) fn done(&mut self, tag: u64, result: Result<(), IoError>, payload: Payload, cx: &mut Cx<'_>) -> Step {
        let Some((slot, number)) = self.slots.find(tag) else {
            return Ok(());
        };
        let request = self.slots.get_mut(slot);
        let work = request.work;
        let Some(piece) = request.piece(number) else {
            return Ok(());
        };
        if result == Err(IoError::Busy) {
            self.retry_later(tag, cx);
            return Ok(());
        }
        let op = piece.op;
        let length = op.length() as usize;
        let mut verdict = checked(&op, result, &payload);
        let mut at = op.offset();
        if matches!(work, Work::Compare { .. })
            && verdict.is_ok()
            && let Some(place) = difference(&piece.data, &payload)
        {
            at += place as u64;
            verdict = Err(status::COMPARE_FAILURE);
        }
        let goes_on = verdict.is_ok() && self.slots.get_mut(slot).failure.is_none();
        if goes_on && matches!((work, op), (Work::Copy { .. }, Op::Read { .. })) {
            return self.copy_read(slot, number, payload, cx);
        }
        let request = self.slots.get_mut(slot);
        let Some(piece) = request.piece(number) else {
            return Ok(());
        };
        piece.done = true;
        piece.data = Slice::default();
        if let (Work::Read { .. }, Ok(())) = (work, verdict) {
            piece.payload = payload;
        }
        request.under_way -= 1;
        if let Err(status) = verdict {
            self.counts.media_errors += u64::from(status == status::UNRECOVERED_READ);
            request.fail_at(status, at);
        }
        match work {
            Work::Wait | Work::Gather { .. } | Work::Pair { .. } => self.slots.get_mut(slot).forget_done(),
            Work::Write { .. } | Work::Compare { .. } => {
                self.slots.get_mut(slot).forget_done();
                self.release(slot, length);
            }
            Work::Read { .. } => self.send_read(slot, cx),
            Work::Verify { .. } => {
                self.slots.get_mut(slot).forget_done();
                self.reading_bytes -= length;
            }
            Work::Zeroes { .. } | Work::Dataset { .. } => {
                self.slots.get_mut(slot).forget_done();
                self.pieces_under_way -= 1;
                if matches!(op, Op::Write { .. }) {
                    self.release(slot, length);
                }
            }
            Work::Copy { .. } => {
                self.slots.get_mut(slot).forget_done();
                self.reading_bytes -= length;
            }
        }
        self.finish_if_complete(slot, cx)
    }

    /// Counts a command that has ended well.
    pub(crate) fn count_command(&mut self, slot: SlotId) {
        let request = self.slots.get_mut(slot);
        if request.failure.is_some() {
            return;
        }
        let bytes = u64::from(request.length);
        match request.work {
            Work::Read { .. } | Work::Compare { .. } | Work::Verify { .. } => {
                self.counts.reads += 1;
                self.counts.read_bytes += bytes;
            }
            Work::Write { .. } => {
                self.counts.writes += 1;
                self.counts.written_bytes += bytes;
            }
            _ => {}
        }
    }

    /// Sends of a read what has come, in order: hosts take data as it arrives, and the last of it may end the command.
    fn send_read(&mut self, slot: SlotId, cx: &mut Cx<'_>) {
        loop {
            let request = self.slots.get_mut(slot);
            let start = request.target.offset;
            let (id, failure) = (request.id, request.failure);
            let Some(piece) = request.pieces.pop_front_if(|piece| piece.done) else {
                return;
            };
            let (offset, length) = (piece.op.offset(), piece.op.length() as usize);
            self.reading_bytes -= length;
            if failure.is_some() {
                continue;
            }
            let data = match piece.payload {
                Payload::Data(data) => data,
                _ => cx.pool.zeros(length),
            };
            let request = self.slots.get_mut(slot);
            let last = request.issued && request.pieces.is_empty();
            let mut flags = if last { flag::LAST } else { 0 };
            // Without flow control a completion says nothing that this does not ("TCP", 3.3.2.4).
            if last && !self.has_flow_control() {
                flags |= flag::SUCCESS;
            }
            self.link
                .send_data(id, (offset - start) as u32, data, flags, cx.outbox, cx.pool);
            if flags & flag::SUCCESS != 0 {
                self.slots.get_mut(slot).told = true;
            }
        }
    }
}
