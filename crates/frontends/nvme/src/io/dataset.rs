//! Dataset Management: what is deallocated reads as zeros (NVM Command Set 1.1, 3.3.3).

use super::{bytes, target};
use crate::catalog::Namespace;
use crate::command::Command;
use crate::queue::{End, Gathering, Queue, Refusal, Work};
use crate::wire::{u32_at, u64_at};
use crate::{Cx, io};
use amita_frontend::engine::{Plan, Protocol as _, Step, Submission};
use amita_frontend::pieces::{Pieces, clears};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_types::io::Op;

/// Bytes of a range.
const RANGE_BYTES: u32 = 16;
/// The attribute "deallocate" (dword 11).
pub(super) const DEALLOCATE: u32 = 1 << 2;

pub(super) fn command(
    queue: &mut Queue,
    command: &Command,
    namespace: &Namespace,
    data: Slice,
    cx: &mut Cx<'_>,
) -> Result<(), Refusal> {
    let count = (command.dword(10) & 0xff) + 1;
    let what = Gathering::Dataset;
    let work = Work::Gather { what, asked: false };
    queue.bring(command, work, target(namespace, 0), count * RANGE_BYTES, data, cx)?;
    Ok(())
}

/// The ranges are here.
pub(crate) fn gathered(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = queue.engine.request(slot);
    let (command, data) = (request.own.command, std::mem::take(&mut request.own.buffer));
    request.own.work = Work::Dataset { next: 0 };
    // What the ranges hold is cut one by one.
    request.plan = Plan::Clear(Pieces::default());
    let mut ranges = std::mem::take(&mut request.own.ranges);
    let checked = io::namespace(&queue.role, &command).and_then(|namespace| {
        for range in data.chunks_exact(RANGE_BYTES as usize) {
            // All ranges are looked at before anything is done.
            ranges.push(bytes(&namespace, u64_at(range, 8), u32_at(range, 4).into())?);
        }
        Ok(())
    });
    if command.dword(11) & DEALLOCATE == 0 {
        // "Integral dataset for read" and "for write" are hints.
        ranges.clear();
    }
    let request = queue.engine.request(slot);
    request.own.ranges = ranges;
    if let Err(status) = checked {
        request.fail(status, None);
    }
    queue.start(slot, cx)
}

/// Goes on with the next range.
pub(super) fn step(queue: &mut Queue, slot: SlotId, next: usize, cx: &mut Cx<'_>) -> Step {
    let request = queue.engine.request(slot);
    if let Some(&(offset, length)) = request.own.ranges.get(next) {
        request.plan = Plan::Clear(clears(offset, length, request.own.target.chunk_bytes));
        request.own.work = Work::Dataset { next: next + 1 };
        return Step::Again;
    }
    if request.has_begun() {
        request.issued = true;
        return Step::Through;
    }
    // Parts of blocks and hints clear nothing; but whom a reservation does not let write may not send the command
    // either.
    if let Some(lack) = queue.engine.lacks_room_to_step(slot) {
        return lack;
    }
    queue.engine.request(slot).issued = true;
    queue.submit(slot, Submission::of(Op::Clear { offset: 0, length: 0 }), cx);
    Step::Through
}
