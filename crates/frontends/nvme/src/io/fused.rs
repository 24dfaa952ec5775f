//! Compare and Write, fused: two commands that follow each other in one queue and are done as one (NVM Command Set 1.1,
//! 2.1.4 and 3.3.1; NVM Express Base 2.1, 3.4.2).

use super::{is_one_piece, opcode, range};
use crate::command::{Command, Status};
use crate::queue::{End, Gathering, Queue, Refusal, Role, Target, Work};
use crate::wire::status;
use crate::{Cx, io, port};
use amita_frontend::engine::{Protocol as _, Submission};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_types::io::Op;

const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// Takes one of a pair.
pub(super) fn command(queue: &mut Queue, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    match (command.opcode(), command.fuse()) {
        (opcode::COMPARE, FIRST) => {
            break_off(queue, cx)?;
            let (target, length) = pair_range(&queue.role, command)?;
            let what = Gathering::Compare;
            let work = Work::Gather { what, asked: false };
            let slot = queue.bring(command, work, target, length, data, cx)?;
            queue.fused = Some(slot);
            Ok(())
        }
        (opcode::WRITE, SECOND) => {
            // "[...] Command Aborted due to Missing Fused Command."
            let first = queue.fused.take().ok_or(status::MISSING_FUSED)?;
            second(queue, command, first, data, cx).or_else(|refusal| {
                if let Refusal::Status(_) = refusal {
                    fail_partner(queue, first, cx)?;
                }
                Err(refusal)
            })
        }
        _ => {
            break_off(queue, cx)?;
            Err(status::INVALID_FIELD.into())
        }
    }
}

fn second(queue: &mut Queue, command: &Command, first: SlotId, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let (target, length) = pair_range(&queue.role, command)?;
    let compare = queue.engine.request(first);
    // "If the LBA ranges do not match, the commands should be aborted with [...] Invalid Field."
    if compare.own.target != target || compare.own.length != length {
        return Err(status::INVALID_FIELD.into());
    }
    let what = Gathering::Write { first };
    let work = Work::Gather { what, asked: false };
    let second = queue.bring(command, work, target, length, data, cx)?;
    if let Some(write) = queue.engine.busy(second)
        && matches!(write.own.work, Work::Gather { .. })
    {
        write.own.partner = Some(first);
        queue.engine.request(first).own.partner = Some(second);
    }
    Ok(())
}

fn pair_range(role: &Role, command: &Command) -> Result<(Target, u32), Status> {
    let namespace = io::namespace(role, command)?;
    io::check_protection(&namespace, command)?;
    let (target, length) = range(command, &namespace, true)?;
    if length > port::MAX_PAIR_BYTES || !is_one_piece(&target, length) {
        return Err(status::ATOMIC_UNIT);
    }
    Ok((target, length))
}

/// Another command has come where the second of a pair should have.
pub(crate) fn break_off(queue: &mut Queue, cx: &mut Cx<'_>) -> Result<(), End> {
    let Some(first) = queue.fused.take() else { return Ok(()) };
    queue.engine.request(first).fail(status::MISSING_FUSED, None);
    queue.finish_if_complete(first, cx)
}

/// The other one of a pair has failed.
pub(crate) fn fail_partner(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let Some(request) = queue.engine.busy(slot) else {
        return Ok(());
    };
    request.own.partner = None;
    request.fail(status::FAILED_FUSED, None);
    queue.finish_if_complete(slot, cx)
}

/// The data of the first is here.
pub(crate) fn compare_gathered(queue: &mut Queue, first: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let second = queue.engine.request(first).own.partner;
    let second = second.filter(|second| queue.engine.request(*second).own.gathered);
    match second {
        Some(second) => run(queue, first, second, cx),
        None => Ok(()),
    }
}

/// The data of the second is here.
pub(crate) fn write_gathered(queue: &mut Queue, second: SlotId, first: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    match queue.engine.request(first).own.gathered {
        true => run(queue, first, second, cx),
        false => Ok(()),
    }
}

/// Does both as one.
fn run(queue: &mut Queue, first: SlotId, second: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let compare = queue.engine.request(first);
    compare.own.partner = None;
    compare.own.work = Work::Wait;
    let expected = std::mem::take(&mut compare.own.buffer);
    let write = queue.engine.request(second);
    write.own.partner = None;
    write.own.work = Work::Pair { first };
    write.issued = true;
    let new = std::mem::take(&mut write.own.buffer);
    let (offset, length) = (write.own.target.offset, write.own.length);
    let Some(mut both) = cx.pool.take(expected.len() + new.len()) else {
        // Memory is short; the host may try again.
        write.fail(status::INTERNAL, None);
        return queue.finish_if_complete(second, cx);
    };
    both[..expected.len()].copy_from_slice(&expected);
    both[expected.len()..].copy_from_slice(&new);
    let submission = Submission {
        data: both.freeze(),
        ..Submission::of(Op::CompareAndWrite { offset, length })
    };
    queue.submit(second, submission, cx);
    Ok(())
}

/// Answers both of a pair, the first one first.
pub(crate) fn finish(queue: &mut Queue, second: SlotId, first: SlotId, cx: &mut Cx<'_>) {
    // When one of the two fails, the other is aborted because of that.
    let (compared, written) = match queue.engine.request(second).failure {
        None => (Status::SUCCESS, Status::SUCCESS),
        Some(status::COMPARE_FAILURE) => {
            // It is the first that did not find what it looked for.
            let at = queue.engine.request(second).failed_at.take();
            queue.engine.request(first).failed_at = at;
            (status::COMPARE_FAILURE, status::FAILED_FUSED)
        }
        Some(failure) => (status::FAILED_FUSED, failure),
    };
    queue.complete(first, compared, 0, cx);
    queue.complete(second, written, 0, cx);
}
