//! EXTENDED COPY by the stores, without the host: a piece is read where it comes from and written where it goes, and then the next
//! one. (The two may be of different volumes, and the pieces of a request are of one at a time.)

use crate::Cx;
use crate::session::Session;
use crate::session::protocol::bytes_of;
use crate::session::task::{Fault, Work, atom_bytes};
use amita_frontend::engine::{Charge, Part, Protocol as _, Step, Submission};
use amita_frontend::pieces::{has_partial_blocks, piece_end};
use amita_frontend::slots::SlotId;
use amita_types::io::{Op, Payload};

/// A piece that was read, and is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Where it goes.
    offset: u64,
    length: u32,
    /// Nothing of it is allocated where it comes from.
    is_zero: bool,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    segment: usize,
    /// Bytes of the segment that are begun.
    done: u64,
    /// Where the piece goes that is being read.
    to: u64,
    held: Option<Held>,
    /// Bytes that are written, of all segments.
    copied: u64,
}

impl Progress {
    /// Bytes that are written, of all segments.
    pub fn copied_bytes(&self) -> u64 {
        self.copied
    }
}

/// The next piece; one is under way at a time.
pub(super) fn step(session: &mut Session, slot: SlotId, mut progress: Progress, cx: &mut Cx<'_>) -> Step {
    let request = session.engine.request(slot);
    if request.under_way() > 0 {
        return Step::Through;
    }
    let Some(segment) = request.own.segments.get(progress.segment).copied() else {
        request.issued = true;
        return Step::Through;
    };
    if let Some(held) = progress.held.take() {
        request.source = segment.to.source;
        let data = std::mem::take(&mut request.own.whole);
        request.own.work = Work::Copy(progress);
        let Held {
            offset,
            length,
            is_zero,
        } = held;
        // What takes no space where it comes from takes none where it goes.
        let op = match is_zero && !has_partial_blocks(offset, length.into()) {
            true => Op::Clear {
                offset,
                length: length.into(),
            },
            false => Op::Write { offset, length },
        };
        let data = match op {
            Op::Write { .. } if is_zero => cx.pool.zeros(length as usize),
            Op::Write { .. } => data,
            _ => amita_reactor::Slice::default(),
        };
        let submission = Submission {
            data,
            ..Submission::of(op)
        };
        session.submit(slot, submission, cx);
        return Step::Through;
    }
    if progress.done >= segment.length {
        request.own.work = Work::Copy(Progress {
            segment: progress.segment + 1,
            copied: progress.copied,
            ..Progress::default()
        });
        return Step::Again;
    }
    let (from, to) = (segment.from_offset + progress.done, segment.to_offset + progress.done);
    let left = segment.length - progress.done;
    // A piece lies in one chunk where it comes from and where it goes.
    let readable = piece_end(from, from + left, atom_bytes(segment.from.chunk_bytes)) - from;
    let length = (piece_end(to, to + readable, atom_bytes(segment.to.chunk_bytes)) - to) as u32;
    if !session.engine.may_read(length as usize, cx) {
        return Step::Full;
    }
    let request = session.engine.request(slot);
    request.source = segment.from.source;
    request.own.work = Work::Copy(Progress {
        done: progress.done + u64::from(length),
        to,
        ..progress
    });
    let submission = Submission {
        charge: Charge::Read,
        ..Submission::of(Op::Read { offset: from, length })
    };
    session.submit(slot, submission, cx);
    Step::Through
}

/// A piece has ended: what was read is kept, to be written.
pub(super) fn landed(session: &mut Session, slot: SlotId, part: Part<Fault>, cx: &mut Cx<'_>) {
    let own = &mut session.engine.request(slot).own;
    let (Work::Copy(progress), Ok(())) = (&mut own.work, part.verdict) else {
        return;
    };
    let Op::Read { length, .. } = part.op else {
        progress.copied += part.op.length();
        return;
    };
    let mut payload = part.payload;
    let is_zero = matches!(payload, Payload::Zeros(_));
    progress.held = Some(Held {
        offset: progress.to,
        length,
        is_zero,
    });
    if !is_zero {
        own.whole = bytes_of(&mut payload, length, cx.pool);
    }
}
