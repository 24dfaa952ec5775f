//! Data-In and SCSI Response: what goes back to the host, and the end of a task (RFC 7143, 11.4 and 11.7).

use super::Session;
use super::task::{Fault, Task};
use super::work;
use crate::Cx;
use crate::faults::{Fault as Planted, Faults};
use crate::wire::{Header, NO_TAG, flag, opcode};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_scsi::plan::{Answer, Residual};
use amita_scsi::sense::{Code, Key, Sense, Status, code};
use amita_types::io::IoError;

/// Sends data of a task, in PDUs as long as the host takes them and sequences as long as was agreed. The last one has the status,
/// which is good then: "phase collapse" (11.7.3).
pub(super) fn data_in(session: &mut Session, slot: SlotId, mut data: Slice, is_last: bool, cx: &mut Cx<'_>) {
    let (most, burst) = (session.link.max_send, session.agreed.max_burst);
    if is_last {
        leave_window(session, slot);
    }
    while !data.is_empty() {
        let own = &mut session.engine.request(slot).own;
        let going = &mut own.outgoing;
        let count = data.len().min(most).min((burst - going.burst) as usize);
        let piece = data.split_to(count);
        let is_end = is_last && data.is_empty();
        going.burst += count as u32;
        let mut flags = 0;
        if is_end || going.burst == burst {
            flags |= flag::FINAL;
            going.burst = 0;
        }
        let mut header = Header::new(opcode::DATA_IN, flags)
            .with_task_tag(own.tag)
            .with_target_tag(NO_TAG)
            .with_u32(36, going.data_sn)
            .with_u32(40, going.sent);
        going.data_sn += 1;
        going.sent += count as u32;
        header = match is_end {
            true => {
                // The status is GOOD, which is 0 (byte 3).
                let (flags, count) = residual(own, own.wanted.into);
                header.0[1] |= flag::STATUS | flags;
                own.is_told = true;
                session.numbers.stamp(header.with_u32(44, count))
            }
            false => session.numbers.stamp_quietly(header, false),
        };
        session.link.send_slice(header, piece, cx.outbox, cx.pool);
    }
}

/// What of the expected length was not moved, or would have been moved beyond it, as flags and a count (11.4.5): `moved` in the
/// direction in which the host expects something.
fn residual(task: &Task, moved: u64) -> (u8, u32) {
    let of = |expected, moved| match Residual::of(expected, moved) {
        Residual::None => (0, 0),
        Residual::Underflow(bytes) => (flag::UNDERFLOW, u32::try_from(bytes).unwrap_or(u32::MAX)),
        Residual::Overflow(bytes) => (flag::OVERFLOW, u32::try_from(bytes).unwrap_or(u32::MAX)),
    };
    match task.writes {
        true => match of(task.expected.out, moved) {
            // It was to read, and the host expects to send.
            (0, 0) => of(task.expected.into, task.wanted.into),
            found => found,
        },
        // The same the other way round has been refused, for the command would not get what it takes.
        false => of(task.expected.into, moved),
    }
}

/// The task does not count against the window any more: with its status the host is told how many commands more may come.
fn leave_window(session: &mut Session, slot: SlotId) {
    let own = &mut session.engine.request(slot).own;
    if !std::mem::replace(&mut own.has_left_window, true) && !own.is_immediate {
        session.numbers.end();
    }
}

/// A task has ended: its host is told, unless it is not to be, or knows.
pub(super) fn finish(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) {
    let faults = session.port.config().faults;
    let request = session.engine.request(slot);
    let (failure, at) = (request.failure, request.failed_at);
    if failure != Some(Fault::Aborted) && !request.own.is_told {
        let answer = match failure {
            Some(fault) if is_overlooked(faults, fault) => Answer::good(),
            // It was done before the reset, and its host is told how that went.
            Some(Fault::Cleared) if request.own.answer.is_some() => {
                request.own.answer.take().unwrap_or_else(Answer::good)
            }
            Some(fault) => of_fault(session, slot, fault, at),
            None => request.own.answer.take().unwrap_or_else(Answer::good),
        };
        respond(session, slot, answer, cx);
    }
    forget(session, slot);
}

/// Is the rule switched off by which a host is told of that?
fn is_overlooked(faults: Faults, fault: Fault) -> bool {
    match fault {
        Fault::Volume(IoError::Lost) => faults.has(Planted::TrustLost),
        Fault::Volume(IoError::Reserved) => faults.has(Planted::ConflictIsGood),
        _ => false,
    }
}

/// What a task that has failed is answered.
fn of_fault(session: &mut Session, slot: SlotId, fault: Fault, at: Option<u64>) -> Answer {
    match fault {
        Fault::Volume(error) => work::failed(session, slot, error, at),
        Fault::Different => work::failed(session, slot, IoError::Miscompare, at),
        Fault::Transport(asc, ascq) => Answer::check(Sense::new(Key::AbortedCommand, Code(asc, ascq))),
        Fault::Memory => Answer::of(Status::Busy),
        Fault::Gone => Answer::check(Sense::new(Key::IllegalRequest, code::UNIT_NOT_SUPPORTED)),
        Fault::Cleared => Answer::of(Status::TaskAborted),
        Fault::Aborted => Answer::good(),
    }
}

/// Sends the answer of a task.
fn respond(session: &mut Session, slot: SlotId, mut answer: Answer, cx: &mut Cx<'_>) {
    leave_window(session, slot);
    let own = &mut session.engine.request(slot).own;
    let is_good = answer.status == Status::Good && answer.sense.is_none();
    if is_good && !answer.data.is_empty() {
        own.wanted.into = answer.data.len() as u64;
        let most = usize::try_from(own.expected.into).unwrap_or(usize::MAX);
        answer.data.truncate(most);
        if !answer.data.is_empty() {
            return data_in(session, slot, Slice::copy_from(&answer.data), true, cx);
        }
    }
    // What has failed has moved what has moved; what went well, as much as it was to; and what the host did not send enough for, would
    // have moved more.
    let is_good = matches!(answer.status, Status::Good | Status::ConditionMet);
    let moved = match own.writes {
        true if is_good || own.wanted.out > own.expected.out => own.wanted.out,
        true => u64::from(own.incoming.received).min(own.wanted.out),
        false if is_good => own.wanted.into,
        false => u64::from(own.outgoing.sent),
    };
    let (flags, count) = residual(own, moved);
    let header = Header::new(opcode::SCSI_RESPONSE, flag::FINAL | flags)
        .with_byte(3, answer.status as u8)
        .with_task_tag(own.tag)
        .with_u32(36, own.outgoing.data_sn)
        .with_u32(44, count);
    let lun = own.lun;
    let format = session.nexus.format(lun);
    let sense = answer.sense.map(|sense| with_length(&sense.encode(format)));
    session.send(header, &sense.unwrap_or_default(), cx);
}

/// Sense data as they travel here: behind their length (11.4.7).
fn with_length(sense: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + sense.len());
    bytes.extend_from_slice(&(sense.len() as u16).to_be_bytes());
    bytes.extend_from_slice(sense);
    bytes
}

/// Answers a command that was given no slot.
pub(super) fn refuse(session: &mut Session, header: &Header, status: Status, cx: &mut Cx<'_>) {
    let expected = header.target_tag();
    let moves = header.has(flag::READ) || header.has(flag::WRITE);
    let (flags, count) = match moves && expected > 0 {
        true => (flag::UNDERFLOW, expected),
        false => (0, 0),
    };
    let answer = Header::new(opcode::SCSI_RESPONSE, flag::FINAL | flags)
        .with_byte(3, status as u8)
        .with_task_tag(header.task_tag())
        .with_u32(44, count);
    session.send(answer, &[], cx);
}

/// Frees a task's slot.
fn forget(session: &mut Session, slot: SlotId) {
    leave_window(session, slot);
    let own = &mut session.engine.request(slot).own;
    let (serial, tag) = (own.serial, own.tag);
    session.immediate -= usize::from(own.is_immediate);
    session.gathering -= own.gathers;
    session.copies -= usize::from(own.is_copy);
    session.order.ended(own.is_ordered);
    own.clear();
    session.engine.free(slot);
    if let Some(place) = session.tags.iter().position(|(known, _)| *known == tag) {
        session.tags.swap_remove(place);
    }
    session.functions.ended(serial);
}
