//! iSCSI on the request engine: what becomes of pieces that have ended, Data-In, and the end of tasks.

use super::task::{Fault, Task, Work};
use super::work::copy::Ended;
use super::{Session, answer, transfer, work};
use crate::Cx;
use crate::connection::End;
use amita_frontend::engine::{Capabilities, Engine, Part, PieceState, Protocol, Step, Verdict, fits};
use amita_frontend::slots::SlotId;
use amita_reactor::{Pool, Slice};
use amita_scsi::plan::Check;
use amita_types::io::{IoError, Op, Payload};

/// The first byte at which the volume does not hold what the host has sent: that, again and again.
fn difference(host: &[u8], volume: &Payload, length: usize) -> Option<usize> {
    let expected = host.chunks(length.max(1)).next().unwrap_or_default();
    match volume {
        // Almost always they are equal, and that is seen faster as a whole.
        Payload::Data(data) if data[..] == *expected => None,
        Payload::Data(data) => data
            .iter()
            .zip(host.iter().cycle())
            .position(|(one, other)| one != other),
        _ => host.iter().take(length).position(|byte| *byte != 0),
    }
}

/// What a piece that was read is compared with; none: nothing.
fn expected<'a>(own: &'a Task, piece: &'a PieceState) -> Option<&'a [u8]> {
    match own.work {
        // What was written is read back by the same piece.
        Work::Compare
        | Work::Write {
            check: Some(Check::Same | Check::SameBlock),
        } => Some(&piece.data),
        Work::CompareAndWrite => Some(&piece.data[..piece.data.len() / 2]),
        Work::Check if !own.whole.is_empty() => Some(&own.whole),
        _ => None,
    }
}

impl Protocol for Session {
    const CAPABILITIES: Capabilities = Capabilities {
        counts_all_pieces: false,
        writes_wait_for_fetch: true,
        ..Capabilities::CONNECTION
    };

    type Request = Task;
    type Failure = Fault;
    type End = End;
    type Context<'a> = Cx<'a>;

    fn engine(&mut self) -> &mut Engine<Session> {
        &mut self.engine
    }

    fn judge(
        own: &Task,
        piece: &PieceState,
        result: Result<(), IoError>,
        payload: &Payload,
    ) -> Result<Verdict<Fault>, End> {
        let at = piece.op.offset();
        Ok(match result {
            // Where they differ is read; and who was not fast enough tries again.
            Err(IoError::Miscompare) if work::goes_on_after_miscompare(&own.work, piece) => {
                own.missed.set(true);
                Ok(())
            }
            Err(error) => Err((Fault::Volume(error), at)),
            Ok(()) if !fits(&piece.op, payload) => Err((Fault::Volume(IoError::Invalid), at)),
            Ok(()) if matches!(piece.op, Op::Read { .. }) => match expected(own, piece) {
                Some(expected) => match difference(expected, payload, piece.op.length() as usize) {
                    Some(place) => Err((Fault::Different, at + place as u64)),
                    // It was different a moment ago.
                    None if own.work == Work::CompareAndWrite => Err((Fault::Different, at)),
                    None => Ok(()),
                },
                None => Ok(()),
            },
            Ok(()) => Ok(()),
        })
    }

    fn goes_on(own: &Task, piece: &mut PieceState, payload: &mut Payload, pool: &Pool) -> bool {
        work::goes_on(own, piece, payload, pool)
    }

    fn step(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Step {
        match self.engine.request(slot).own.work {
            Work::Write { .. } | Work::Compare | Work::Gather(_) => transfer::step(self, slot, cx),
            Work::Wait | Work::Drain | Work::CompareAndWrite | Work::Ask => Step::Through,
            Work::Read | Work::Check => {
                self.engine.request(slot).issued = true;
                Step::Through
            }
            _ => work::step(self, slot, cx),
        }
    }

    fn deliver(&mut self, slot: SlotId, part: Part<Fault>, cx: &mut Cx<'_>) -> Result<(), End> {
        match self.engine.request(slot).own.work {
            Work::Blocks | Work::Copy(_) | Work::CopyPiece(_) => work::landed(self, slot, part, cx),
            _ => {
                let length = part.op.length() as usize;
                let data = match part.payload {
                    Payload::Data(data) => data,
                    _ => cx.pool.zeros(length),
                };
                answer::data_in(self, slot, data, part.last, cx);
            }
        }
        Ok(())
    }

    fn landed(&mut self, slot: SlotId, _: &Verdict<Fault>, cx: &mut Cx<'_>) -> Result<(), End> {
        // What is done one piece after the other goes on.
        if work::is_stepwise(&self.engine.request(slot).own.work)
            && !self.engine.request(slot).issued
            && !self.engine.is_waiting(slot)
            && !self.issue(slot, cx)
        {
            self.engine.wait(slot);
        }
        Ok(())
    }

    fn is_graver(failure: Fault, first: Fault) -> bool {
        // Who was told that a task is aborted hears nothing else of it.
        failure == Fault::Aborted && first != Fault::Aborted
    }

    fn finish(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.engine.request(slot);
        if let Some(parent) = request.own.parent {
            let (failure, at) = (request.failure, request.failed_at);
            let is_copied = matches!(request.own.work, Work::CopyPiece(_));
            let sum = request.own.sum;
            request.own.clear();
            self.engine.free(slot);
            return match is_copied {
                true => work::copy::piece_done(self, parent, slot, Ended { failure, at, sum }, cx),
                false => transfer::first_data_done(self, parent, failure, at, cx),
            };
        }
        if request.failure.is_none() && work::finishes(&request.own.work) {
            return work::finish(self, slot, cx);
        }
        answer::finish(self, slot, cx);
        Ok(())
    }
}

/// A slice of zeros as data, for what has no memory of its own.
pub(super) fn bytes_of(payload: &mut Payload, length: u32, pool: &Pool) -> Slice {
    match std::mem::take(payload) {
        Payload::Data(data) => data,
        _ => pool.zeros(length as usize),
    }
}
