//! NVMe on the request engine: R2Ts and ranges step by step, what becomes of pieces that have ended, and completions.

use super::copy::write_what_was_read;
use super::{copy, dataset, fused};
use crate::Cx;
use crate::admin::Counters;
use crate::command::Status;
use crate::queue::{End, Queue, Request, Work, transfer};
use crate::wire::{flag, status};
use amita_frontend::engine::{Capabilities, Engine, Part, PieceState, Protocol, Step, Verdict, fits};
use amita_frontend::slots::SlotId;
use amita_reactor::{Pool, Slice};
use amita_types::io::{IoError, Payload};

/// The status for an error of the volume.
pub(super) fn status_of(error: IoError) -> Status {
    match error {
        // Another gateway serves it now, or none can: a host with several paths tries the others, then this again.
        IoError::Lost | IoError::Unavailable => status::INTERNAL_PATH,
        // No path to it leads further, and what is kept for later is not to be written then: no status of the path, and final. Linux fails it at once,
        // and multipath software on top of it as well (`BLK_STS_TARGET`).
        IoError::Closed => status::NAMESPACE_NOT_READY,
        IoError::NoSpace => status::CAPACITY,
        IoError::Damaged => status::UNRECOVERED_READ,
        IoError::Miscompare => status::COMPARE_FAILURE,
        IoError::Reserved => status::RESERVATION_CONFLICT,
        IoError::ReadOnly => status::READ_ONLY,
        IoError::OutOfRange => status::LBA_RANGE,
        _ => status::INTERNAL,
    }
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

impl Protocol for Queue {
    const CAPABILITIES: Capabilities = Capabilities {
        counts_all_pieces: false,
        writes_wait_for_fetch: true,
        ..Capabilities::CONNECTION
    };

    type Request = Request;
    type Failure = Status;
    type End = End;
    type Context<'a> = Cx<'a>;

    fn engine(&mut self) -> &mut Engine<Queue> {
        &mut self.engine
    }

    fn judge(
        own: &Request,
        piece: &PieceState,
        result: Result<(), IoError>,
        payload: &Payload,
    ) -> Result<Verdict<Status>, End> {
        let at = piece.op.offset();
        Ok(match result {
            Err(error) => Err((status_of(error), at)),
            Ok(()) if !fits(&piece.op, payload) => Err((status::INTERNAL, at)),
            Ok(()) if matches!(own.work, Work::Compare { .. }) => match difference(&piece.data, payload) {
                Some(place) => Err((status::COMPARE_FAILURE, at + place as u64)),
                None => Ok(()),
            },
            Ok(()) => Ok(()),
        })
    }

    fn goes_on(own: &Request, piece: &mut PieceState, payload: &mut Payload, pool: &Pool) -> bool {
        matches!(own.work, Work::Copy { .. }) && write_what_was_read(piece, payload, pool)
    }

    fn step(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Step {
        match self.engine.request(slot).own.work {
            Work::Wait | Work::Pair { .. } | Work::Gather { asked: true, .. } => Step::Through,
            Work::Gather { asked: false, .. } | Work::Write { .. } | Work::Compare { .. } => {
                transfer::step(self, slot, cx)
            }
            Work::Dataset { next } => dataset::step(self, slot, next, cx),
            Work::Copy { .. } => copy::step(self, slot, cx),
            Work::Read | Work::Verify | Work::Zeroes => {
                self.engine.request(slot).issued = true;
                Step::Through
            }
        }
    }

    /// Hosts take data as it arrives, and the last of it may end the command.
    fn deliver(&mut self, slot: SlotId, part: Part<Status>, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.engine.request(slot);
        let (id, start) = (request.own.id, request.offset);
        let data = match part.payload {
            Payload::Data(data) => data,
            _ => cx.pool.zeros(part.op.length() as usize),
        };
        let mut flags = if part.last { flag::LAST } else { 0 };
        // Without flow control a completion says nothing that this does not ("TCP", 3.3.2.4).
        if part.last && !self.capsules.has_flow_control() {
            flags |= flag::SUCCESS;
            self.engine.request(slot).own.told = true;
        }
        let offset = (part.op.offset() - start) as u32;
        self.capsules
            .link
            .send_data(id, offset, data, flags, cx.outbox, cx.pool);
        Ok(())
    }

    fn landed(&mut self, _: SlotId, verdict: &Verdict<Status>, _: &mut Cx<'_>) -> Result<(), End> {
        let damaged = matches!(verdict, Err((status::UNRECOVERED_READ, _)));
        self.counts.media_errors += u64::from(damaged);
        Ok(())
    }

    fn finish(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.engine.request(slot);
        let (work, partner) = (request.own.work, request.own.partner.take());
        if let Work::Pair { first } = work {
            fused::finish(self, slot, first, cx);
            return Ok(());
        }
        count_command(&mut self.engine, &mut self.counts, slot);
        let request = self.engine.request(slot);
        let status = request.failure.unwrap_or(Status::SUCCESS);
        let result = request.own.result;
        match request.own.told {
            true => self.forget(slot),
            false => self.complete(slot, status, result, cx),
        }
        if let Some(partner) = partner {
            // One of a pair has failed before the two could be done.
            fused::fail_partner(self, partner, cx)?;
        }
        Ok(())
    }
}

/// Counts a command that has ended well.
fn count_command(engine: &mut Engine<Queue>, counts: &mut Counters, slot: SlotId) {
    let request = engine.request(slot);
    if request.failure.is_some() {
        return;
    }
    let bytes = u64::from(request.own.length);
    match request.own.work {
        Work::Read | Work::Compare { .. } | Work::Verify => {
            counts.reads += 1;
            counts.read_bytes += bytes;
        }
        Work::Write { .. } => {
            counts.writes += 1;
            counts.written_bytes += bytes;
        }
        _ => {}
    }
}
