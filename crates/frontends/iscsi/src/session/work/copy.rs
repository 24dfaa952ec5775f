//! EXTENDED COPY by the stores, without the host: each piece is read where it comes from and written where it goes, by a slot of its own
//! (the two may be of different volumes, and the pieces of a request are of one). Several are under way at once; but segments are copied
//! one after the other, for one may read what the one before has written, and one whose two ranges overlap piece by piece.
//!
//! What belongs to a token is summed as it is read, and some of that is not written anywhere.

use crate::Cx;
use crate::connection::End;
use crate::session::Session;
use crate::session::protocol::bytes_of;
use crate::session::task::{Fault, Task, Work, atom_bytes};
use amita_frontend::engine::{Charge, Delivery, Part, Plan, Protocol as _, Step, Submission};
use amita_frontend::pieces::{has_partial_blocks, piece_end};
use amita_frontend::service::Source;
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_scsi::plan::{Extent, Segment};
use amita_scsi::{CopyRest, Sum};
use amita_types::io::{Op, Payload};

/// Copies of a session at once.
pub(crate) const MAX_COPIES: usize = 4;
/// Pieces of one copy at once.
pub(crate) const MAX_PIECES: usize = 8;

/// How far a copy has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    segment: usize,
    /// Bytes of the segment that are begun.
    begun: u64,
    /// Bytes that are written for certain, from the begin of the first segment on.
    copied: u64,
}

impl Progress {
    /// Bytes that are written for certain, from the begin of the first segment on.
    pub fn copied_bytes(&self) -> u64 {
        self.copied
    }
}

/// A piece of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where it goes.
    source: Source,
    offset: u64,
    length: u32,
    /// It was read; and whether nothing of it is allocated where it comes from.
    read: Option<bool>,
    /// Which byte it begins with of what a token represents, if it is summed.
    summed_at: Option<u64>,
    /// Is it only summed?
    is_written: bool,
}

/// A piece that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    slot: SlotId,
    length: u32,
    is_done: bool,
}

/// Is what is written read by the same segment?
fn overlaps(segment: &Segment) -> bool {
    let range = |offset| Extent {
        offset,
        length: segment.length,
    };
    let is_same = segment.is_written && segment.from.source == segment.to.source;
    is_same && range(segment.from_offset).overlaps(&range(segment.to_offset))
}

/// Begins the next piece of a copy.
pub(super) fn step(session: &mut Session, slot: SlotId, progress: Progress, cx: &mut Cx<'_>) -> Step {
    let request = session.engine.request(slot);
    let own = &mut request.own;
    let Some(segment) = own.segments.get(progress.segment).copied() else {
        request.issued = true;
        return Step::Through;
    };
    if progress.begun >= segment.length {
        if !own.pieces.is_empty() {
            return Step::Through;
        }
        own.work = Work::Copy(Progress {
            segment: progress.segment + 1,
            begun: 0,
            ..progress
        });
        return Step::Again;
    }
    let window = if overlaps(&segment) { 1 } else { MAX_PIECES };
    if own.pieces.len() >= window {
        // The end of one of them goes on with it.
        return Step::Through;
    }
    let (from, to) = (segment.from_offset + progress.begun, segment.to_offset + progress.begun);
    let left = segment.length - progress.begun;
    // A piece lies in one chunk where it comes from and where it goes.
    let readable = piece_end(from, from + left, atom_bytes(segment.from.chunk_bytes)) - from;
    let length = (piece_end(to, to + readable, atom_bytes(segment.to.chunk_bytes)) - to) as u32;
    if !session.engine.may_read(length as usize, cx) {
        return Step::Full;
    }
    let piece = Piece {
        source: segment.to.source,
        offset: to,
        length,
        read: None,
        summed_at: segment.summed_at.map(|at| at + progress.begun),
        is_written: segment.is_written,
    };
    let Some(child) = begin_piece(session, slot, segment.from.source, piece) else {
        return Step::Full;
    };
    let request = session.engine.request(slot);
    request.owed += 1;
    request.own.pieces.push_back(Begun {
        slot: child,
        length,
        is_done: false,
    });
    request.own.work = Work::Copy(Progress {
        begun: progress.begun + u64::from(length),
        ..progress
    });
    let submission = Submission {
        charge: Charge::Read,
        ..Submission::of(Op::Read { offset: from, length })
    };
    session.submit(child, submission, cx);
    Step::Again
}

/// Gives a piece a slot.
fn begin_piece(session: &mut Session, slot: SlotId, source: Source, piece: Piece) -> Option<SlotId> {
    let own = &session.engine.request(slot).own;
    let (tag, lun, serial, since, summer) = (own.tag, own.lun, own.serial, own.since, own.summer);
    let begun = session.engine.begin(source, 0, Plan::Steps, Delivery::AnyOrder);
    let (child, request) = begun?;
    request.own.clear();
    request.own.parent = Some(slot);
    request.own.work = Work::CopyPiece(piece);
    request.own.summer = summer;
    (request.own.tag, request.own.lun, request.own.serial, request.own.since) = (tag, lun, serial, since);
    Some(child)
}

/// A part of a piece has ended: what was read is kept, to be written.
pub(super) fn landed(own: &mut Task, part: Part<Fault>, cx: &mut Cx<'_>) {
    let (Work::CopyPiece(piece), Op::Read { length, .. }, Ok(())) = (&mut own.work, part.op, part.verdict) else {
        return;
    };
    let mut payload = part.payload;
    let is_zero = matches!(payload, Payload::Zeros(_));
    piece.read = Some(is_zero);
    // Zeros add nothing to a sum.
    if is_zero {
        return;
    }
    let data = bytes_of(&mut payload, length, cx.pool);
    if let (Some(summer), Some(at)) = (own.summer, piece.summed_at) {
        own.sum = Some((CopyRest::section(at), summer.sum(at, &data)));
    }
    if piece.is_written {
        own.whole = data;
    }
}

/// Writes a piece that was read.
pub(super) fn step_piece(session: &mut Session, slot: SlotId, piece: Piece, cx: &mut Cx<'_>) -> Step {
    let request = session.engine.request(slot);
    let Some(is_zero) = piece.read else {
        return Step::Through;
    };
    request.issued = true;
    if !piece.is_written {
        return Step::Through;
    }
    request.source = piece.source;
    let data = std::mem::take(&mut request.own.whole);
    let Piece { offset, length, .. } = piece;
    // What takes no space where it comes from takes none where it goes.
    if is_zero && !has_partial_blocks(offset, length.into()) {
        let clear = Op::Clear {
            offset,
            length: length.into(),
        };
        session.submit(slot, Submission::of(clear), cx);
        return Step::Through;
    }
    let data: Slice = match is_zero {
        true => cx.pool.zeros(length as usize),
        false => data,
    };
    session.engine.charge(slot, length as usize);
    session.submit(slot, Submission::with_data(Op::Write { offset, length }, data), cx);
    Step::Through
}

/// How a piece has ended.
#[derive(Debug)]
pub(in crate::session) struct Ended {
    pub failure: Option<Fault>,
    pub at: Option<u64>,
    pub sum: Option<(usize, Sum)>,
}

/// A piece has ended: its copy goes on.
pub(in crate::session) fn piece_done(
    session: &mut Session,
    slot: SlotId,
    piece: SlotId,
    ended: Ended,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    let Ended { failure, at, sum } = ended;
    let Some(request) = session.engine.busy(slot) else {
        return Ok(());
    };
    request.owed -= 1;
    let own = &mut request.own;
    if let Some((section, sum)) = sum
        && let Some(known) = own.sums.get_mut(section)
    {
        known.add(sum);
    }
    if let Some(begun) = own
        .pieces
        .iter_mut()
        .find(|begun| begun.slot == piece && !begun.is_done)
    {
        begun.is_done = failure.is_none();
    }
    if let Work::Copy(progress) = &mut own.work {
        while let Some(begun) = own.pieces.pop_front_if(|begun| begun.is_done) {
            progress.copied += u64::from(begun.length);
        }
    }
    if let Some(failure) = failure {
        request.fail(failure, at);
    }
    if request.failure.is_none() && !request.issued && !session.engine.is_waiting(slot) && !session.issue(slot, cx) {
        session.engine.wait(slot);
    }
    session.finish_if_complete(slot, cx)
}
