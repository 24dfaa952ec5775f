//! EXTENDED COPY by the stores, without the host: each piece is read where it comes from and written where it goes, by a slot of its own
//! (the two may be of different volumes, and the pieces of a request are of one). Several are under way at once, of one segment and of
//! the next; but a segment that reads or writes what one before it writes, or writes what that reads, waits for it.
//!
//! [Holes](holes) are not moved, but made again. What belongs to a token is summed as it is read, and some of that is not written anywhere.

mod holes;

use crate::Cx;
use crate::connection::End;
use crate::faults::Fault as Planted;
use crate::session::Session;
use crate::session::protocol::bytes_of;
use crate::session::task::{Fault, Task, Then, Work, atom_bytes};
use amita_frontend::engine::{Charge, Delivery, Part, Plan, Protocol as _, Step, Submission};
use amita_frontend::pieces::{has_partial_blocks, piece_end};
use amita_frontend::service::Source;
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_scsi::plan::{Extent, Segment};
use amita_scsi::{Catalog, CopyRest, Nexus, Sum};
use amita_types::io::{Op, Payload};

pub(in crate::session) use holes::Map;

/// Copies of a session at once.
pub(crate) const MAX_COPIES: usize = 4;
/// Pieces of one copy at once, each of up to `MAX_IO_BYTES` where there is data.
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
    /// It was read, or need not be; and whether nothing of it is allocated where it comes from.
    read: Option<bool>,
    /// Which byte it begins with of what a token represents, if it is summed.
    summed_at: Option<u64>,
    /// Is it only summed?
    is_written: bool,
}

/// A piece that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Of the piece; of the copy itself, where there is nothing to do.
    slot: SlotId,
    segment: usize,
    length: u32,
    is_done: bool,
}

/// Bytes that a segment reads or writes.
type Range = (Source, Extent);

fn read_range(segment: &Segment) -> Range {
    let (offset, length) = (segment.from_offset, segment.length);
    (segment.from.source, Extent { offset, length })
}

fn written_range(segment: &Segment) -> Option<Range> {
    let (offset, length) = (segment.to_offset, segment.length);
    segment
        .is_written
        .then_some((segment.to.source, Extent { offset, length }))
}

/// Does one of these two write what the other one reads or writes?
fn conflict(one: &Segment, other: &Segment) -> bool {
    let meet =
        |(source, extent): Range, (other_source, other): Range| source == other_source && extent.overlaps(&other);
    let (written, other_written) = (written_range(one), written_range(other));
    let writes = |written: Option<Range>, range: Range| written.is_some_and(|written| meet(written, range));
    writes(written, read_range(other))
        || writes(other_written, read_range(one))
        || other_written.is_some_and(|range| writes(written, range))
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
        return next_segment(own, progress);
    }
    if own.pieces.len() >= MAX_PIECES {
        // The end of one of them goes on with it.
        return Step::Through;
    }
    let (from, to) = (segment.from_offset + progress.begun, segment.to_offset + progress.begun);
    let Some(run) = holes::run_at(session, slot, &segment, from, cx) else {
        return Step::Through;
    };
    let length = match run.is_hole {
        // A hole adds nothing to a sum.
        true if !segment.is_written => {
            let length = run.length as u32;
            begun(session, slot, slot, progress, length);
            return Step::Again;
        }
        true => holes::piece_bytes(to, run.length, segment.to.chunk_bytes),
        false => {
            // A piece lies in one chunk where it comes from and where it goes.
            let readable = piece_end(from, from + run.length, atom_bytes(segment.from.chunk_bytes)) - from;
            (piece_end(to, to + readable, atom_bytes(segment.to.chunk_bytes)) - to) as u32
        }
    };
    if !run.is_hole && !session.engine.may_read(length as usize, cx) {
        return Step::Full;
    }
    let piece = Piece {
        source: segment.to.source,
        offset: to,
        length,
        read: run.is_hole.then_some(true),
        summed_at: segment.summed_at.map(|at| at + progress.begun),
        is_written: segment.is_written,
    };
    let Some(child) = begin_piece(session, slot, segment.from.source, piece) else {
        return Step::Full;
    };
    session.engine.request(slot).owed += 1;
    begun(session, slot, child, progress, length);
    if run.is_hole {
        // There is nothing that it would wait for.
        session.issue(child, cx);
        return Step::Again;
    }
    let submission = Submission {
        charge: Charge::Read,
        ..Submission::of(Op::Read { offset: from, length })
    };
    session.submit(child, submission, cx);
    Step::Again
}

/// Goes on with the segment behind, if nothing that is under way has to come before it.
fn next_segment(own: &mut Task, progress: Progress) -> Step {
    let next = progress.segment + 1;
    if let (Some(first), Some(segment)) = (own.pieces.front(), own.segments.get(next)) {
        let mut under_way = own.segments[first.segment..next].iter();
        if under_way.any(|before| conflict(before, segment)) {
            return Step::Through;
        }
    }
    // What a chunk has may be what was written there just now.
    own.maps.clear();
    own.work = Work::Copy(Progress {
        segment: next,
        begun: 0,
        ..progress
    });
    Step::Again
}

/// So many bytes more of the present segment are begun, by that slot; by the copy's own: they are done.
fn begun(session: &mut Session, slot: SlotId, by: SlotId, progress: Progress, length: u32) {
    let own = &mut session.engine.request(slot).own;
    own.pieces.push_back(Begun {
        slot: by,
        segment: progress.segment,
        length,
        is_done: by == slot,
    });
    own.work = Work::Copy(Progress {
        begun: progress.begun + u64::from(length),
        ..progress
    });
    count_done(own);
}

/// What is done of a copy, with nothing before it that is not, is copied for certain.
fn count_done(own: &mut Task) {
    if let Work::Copy(progress) = &mut own.work {
        while let Some(begun) = own.pieces.pop_front_if(|begun| begun.is_done) {
            progress.copied += u64::from(begun.length);
        }
    }
}

/// May it go on under these settings?
pub(in crate::session) fn may_go_on(own: &Task, catalog: &Catalog, nexus: &Nexus) -> bool {
    match (own.work, own.then.as_deref()) {
        (Work::Copy(progress), Some(Then::Copy(then))) => {
            let first = own.pieces.front().map_or(progress.segment, |begun| begun.segment);
            let left = own.segments.get(first..).unwrap_or_default();
            amita_scsi::may_go_on(left, then, catalog, nexus)
        }
        _ => true,
    }
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

/// A part of a piece has ended: what was read is kept, to be written. Or it is known what a chunk has, which the copy itself has asked.
pub(super) fn landed(own: &mut Task, part: Part<Fault>, cx: &mut Cx<'_>) {
    if let (Op::Allocation { offset }, Ok(())) = (part.op, part.verdict) {
        return holes::known(own, offset, part.payload);
    }
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
    let is_trusted = session.port.config().faults.has(Planted::TrustPieces);
    let failure = failure.filter(|fault| !(is_trusted && matches!(fault, Fault::Volume(_))));
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
    count_done(own);
    if let Some(failure) = failure {
        request.fail(failure, at);
    }
    if request.failure.is_none() && !request.issued && !session.engine.is_waiting(slot) && !session.issue(slot, cx) {
        session.engine.wait(slot);
    }
    session.finish_if_complete(slot, cx)
}
