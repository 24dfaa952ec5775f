//! Data that comes from the host: with its command, unasked behind it, and asked for (RFC 7143, 4.2.5.2; 11.7, 11.8).

use super::Session;
use super::command::Carried;
use super::task::{Asked, Fault, Task, Work, cut};
use super::work;
use crate::Cx;
use crate::connection::End;
use crate::wire::{Header, NO_TAG, flag, opcode, reject};
use amita_frontend::engine::{Charge, Delivery, Plan, Protocol as _, Step, Submission};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_scsi::plan::Work as Scsi;
use amita_types::BLOCK_BYTES;
use amita_types::io::Op;

/// "Protocol service CRC error" (11.4.7.2).
const DIGEST: Fault = Fault::Transport(0x47, 0x05);

/// Begins to take the data of a task: what came with its command is here.
pub(super) fn begin(session: &mut Session, slot: SlotId, carried: Carried, cx: &mut Cx<'_>) -> Result<(), End> {
    let Carried { mut data, is_last } = carried;
    let request = session.engine.request(slot);
    let is_gathered = matches!(request.own.work, Work::Gather(_));
    let is_atomic = is_atomic(&request.own);
    let end = request.own.incoming.end as usize;
    let here = data.len() as u32;
    // What is longer than the command takes is left.
    data = data.split_to(data.len().min(end));
    request.own.incoming.received = here;
    request.own.incoming.asked = here;
    request.own.incoming.at = request.offset;
    let whole = is_last && data.len() == end;
    if is_gathered || (is_atomic && !whole) {
        if !is_last {
            request.own.incoming.unasked = Some(0);
            request.owed += 1;
            session.awaiting_unasked += 1;
        }
        arrived(session, slot, slot, data, false, cx)?;
    } else if whole {
        request.unasked = true;
        session.engine.charge(slot, end);
        arrived(session, slot, slot, data, true, cx)?;
        session.engine.request(slot).issued = true;
        return session.finish_if_complete(slot, cx);
    } else if !data.is_empty() || !is_last {
        first_data(session, slot, data, is_last, cx)?;
    }
    let Some(request) = session.engine.busy(slot) else {
        return Ok(());
    };
    // What it asks for comes behind what comes unasked; and what is here as a whole goes on by itself.
    match request.own.incoming.unasked.is_none() && takes_data(&request.own.work) {
        true => session.start(slot, cx),
        false => Ok(()),
    }
}

/// Does data of the host still come to it?
fn takes_data(work: &Work) -> bool {
    matches!(work, Work::Write { .. } | Work::Compare | Work::Gather(_))
}

/// Writes what comes unasked by a slot of its own, whose data has its own budget. The task itself waits for it.
fn first_data(session: &mut Session, slot: SlotId, data: Slice, is_last: bool, cx: &mut Cx<'_>) -> Result<(), End> {
    let most = session.agreed.first_burst;
    let request = session.engine.request(slot);
    let (source, offset, own) = (request.source, request.offset, &request.own);
    let (work, tag, lun, serial, since) = (own.work, own.tag, own.lun, own.serial, own.since);
    let end = own.incoming.end.min(most) as usize;
    let begun = session.engine.begin(source, offset, Plan::Hold, Delivery::Verdict);
    let Some((child, request)) = begun else {
        // There are two slots for every command that may come.
        session.engine.request(slot).fail(Fault::Memory, None);
        return session.finish_if_complete(slot, cx);
    };
    request.own.clear();
    request.own.work = work;
    request.own.parent = Some(slot);
    (request.own.tag, request.own.lun, request.own.serial, request.own.since) = (tag, lun, serial, since);
    request.unasked = true;
    request.owed = u32::from(!is_last);
    let bytes = if is_last { data.len() } else { end };
    session.engine.charge(child, bytes);
    let request = session.engine.request(slot);
    request.owed += 1;
    if !is_last {
        request.own.incoming.unasked = Some(0);
        request.own.child = Some(child);
        session.awaiting_unasked += 1;
    }
    arrived(session, slot, child, data, is_last, cx)?;
    if is_last {
        session.engine.request(child).issued = true;
        session.finish_if_complete(child, cx)?;
    }
    Ok(())
}

/// The first data of a task is written, or not.
pub(super) fn first_data_done(
    session: &mut Session,
    slot: SlotId,
    failure: Option<Fault>,
    at: Option<u64>,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    let Some(request) = session.engine.busy(slot) else {
        return Ok(());
    };
    request.owed -= 1;
    request.own.child = None;
    if let Some(failure) = failure {
        request.fail(failure, at);
    }
    session.finish_if_complete(slot, cx)
}

/// Is its data written in pieces that must not be cut?
fn is_atomic(task: &Task) -> bool {
    let work = task.io.as_ref().map(|io| &io.work);
    matches!(work, Some(Scsi::WriteAtomic { .. }))
}

/// Asks for data of the host.
pub(super) fn step(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Step {
    let agreed = &session.agreed;
    let (most, burst) = (usize::from(agreed.max_outstanding_r2t), agreed.max_burst);
    let request = session.engine.request(slot);
    let start = request.offset;
    let own = &mut request.own;
    let is_gathered = matches!(own.work, Work::Gather(_));
    let incoming = &own.incoming;
    if incoming.unasked.is_some() {
        return Step::Through;
    }
    if incoming.asked >= incoming.end {
        // What is gathered goes on when it is here.
        request.issued = !is_gathered;
        return Step::Through;
    }
    if incoming.open.len() >= most {
        // The answer to one of them goes on with it: nothing has to wait for room.
        return Step::Through;
    }
    let mut end = incoming.end.min(incoming.asked.saturating_add(burst));
    if let (false, Some(io)) = (is_gathered, &own.io) {
        let from = start + u64::from(incoming.asked);
        let piece = cut(io, from, start + u64::from(incoming.end)) - start;
        end = end.min(piece as u32);
    }
    let (offset, length) = (incoming.asked, end - incoming.asked);
    if !is_gathered && !session.engine.may_write(length as usize, cx) {
        return Step::Full;
    }
    if !is_gathered {
        session.engine.charge(slot, length as usize);
    }
    let tag = session.next_transfer_tag();
    let request = session.engine.request(slot);
    request.owed += 1;
    let own = &mut request.own;
    let incoming = &mut own.incoming;
    incoming.asked = end;
    incoming.open.push_back(Asked { tag, end, data_sn: 0 });
    let header = Header::new(opcode::R2T, flag::FINAL)
        .with_lun(own.lun.0)
        .with_task_tag(own.tag)
        .with_target_tag(tag)
        .with_u32(36, incoming.r2t_sn)
        .with_u32(40, offset)
        .with_u32(44, length);
    incoming.r2t_sn = incoming.r2t_sn.wrapping_add(1);
    let header = session.numbers.stamp_quietly(header, true);
    session.link.send(header, cx.outbox, cx.pool);
    Step::Again
}

impl Session {
    /// A tag for an R2T, that no other of the session has had for four thousand million of them: data that comes late, for a task
    /// that is over, finds nothing.
    pub(super) fn next_transfer_tag(&mut self) -> u32 {
        self.transfer_serial = match self.transfer_serial.wrapping_add(1) {
            NO_TAG => 0,
            next => next,
        };
        self.transfer_serial
    }
}

/// Takes a Data-Out; `data` is `None` when its digest was wrong.
pub(super) fn incoming(
    session: &mut Session,
    header: &Header,
    data: Option<Slice>,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    if session.is_guest() {
        session.reject(header, reject::NOT_SUPPORTED, cx);
        return Ok(());
    }
    // Data of a task that is over is still on its way when that ends early: it is of no harm.
    let Some(slot) = session.task_of(header.task_tag()) else {
        return Ok(());
    };
    let first_burst = session.agreed.first_burst;
    let request = session.engine.request(slot);
    let (is_failed, expected) = (request.failure.is_some(), request.own.expected.out);
    let incoming = &mut request.own.incoming;
    let is_unasked = header.target_tag() == NO_TAG;
    let (limit, number) = if is_unasked {
        let limit = u64::from(first_burst).min(expected) as u32;
        match &mut incoming.unasked {
            Some(number) => (limit, number),
            None if is_failed => return Ok(()),
            None => return Err(session.broken(header, "data that nobody has asked for", cx)),
        }
    } else {
        match incoming.open.iter().position(|asked| asked.tag == header.target_tag()) {
            Some(0) => {}
            Some(_) => return Err(session.broken(header, "data out of the order of its R2Ts", cx)),
            None => return Ok(()),
        }
        let asked = &mut incoming.open[0];
        (asked.end, &mut asked.data_sn)
    };
    let (length, is_last) = (header.data_bytes() as u64, header.has(flag::FINAL));
    let in_order = header.u32_at(36) == *number;
    // Of a task that fails nothing is kept: it waits for the last PDU of each sequence only.
    let mut to = u64::from(incoming.received) + length;
    if is_failed || !in_order {
        to = to.min(u64::from(limit)).max(u64::from(incoming.received));
    } else {
        let is_right = match is_unasked {
            true => to <= u64::from(limit),
            // The F bit ends the sequence, where all of it has come, and not before (11.7.1).
            false => to <= u64::from(limit) && length > 0 && is_last == (to == u64::from(limit)),
        };
        if !is_right || header.u32_at(40) != incoming.received {
            return Err(session.broken(header, "data at another place, or not as it was asked for", cx));
        }
    }
    // One that is out of order means that others were lost, as if their digests were wrong (7.9).
    let data = data.filter(|_| in_order || is_failed);
    *number = number.wrapping_add(1);
    let end = incoming.end;
    let before = std::mem::replace(&mut incoming.received, to as u32);
    if is_last && !is_unasked {
        incoming.open.pop_front();
        request.owed -= 1;
    }
    let child = request.own.child.unwrap_or(slot);
    match data {
        None => {
            // The task ends with this error when all that was asked for has come (7.8, 7.9).
            request.fail(DIGEST, None);
            session.reject(header, reject::DATA_DIGEST, cx);
        }
        Some(mut data) if !is_failed => {
            data = data.split_to(data.len().min(end.saturating_sub(before) as usize));
            let to = if is_unasked { child } else { slot };
            arrived(session, slot, to, data, false, cx)?;
        }
        Some(_) => {}
    }
    if is_last && is_unasked {
        unasked_done(session, slot, cx)?;
    }
    go_on(session, slot, cx)
}

/// All that comes unasked of a task has come.
fn unasked_done(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    session.awaiting_unasked -= 1;
    let Some(request) = session.engine.busy(slot) else {
        return Ok(());
    };
    request.own.incoming.unasked = None;
    request.own.incoming.asked = request.own.incoming.received;
    let Some(child) = request.own.child else {
        request.owed -= 1;
        return Ok(());
    };
    if request.failure.is_none() {
        flush(session, slot, child, cx);
    }
    let first = session.engine.request(child);
    first.owed = 0;
    first.issued = true;
    session.finish_if_complete(child, cx)
}

/// Asks for more data of a task, or ends it.
fn go_on(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let Some(request) = session.engine.busy(slot) else {
        return Ok(());
    };
    if takes_data(&request.own.work)
        && !request.issued
        && request.failure.is_none()
        && !session.engine.is_waiting(slot)
        && !session.issue(slot, cx)
    {
        session.engine.wait(slot);
    }
    session.finish_if_complete(slot, cx)
}

/// How much of a piece that begins `at` there goes to the volume before the rest of it has come: whole blocks of the volume, for what is
/// written of one by one command is written at once, whatever the host's own blocks are and wherever its bursts end.
fn whole_blocks(at: u64, here: usize) -> usize {
    let end = at + here as u64;
    (end - end % u64::from(BLOCK_BYTES)).saturating_sub(at) as usize
}

/// Data of a task has come: it goes to the volume as a slice of the receive buffer where a piece of it is here as a whole, and is put
/// together otherwise. `to` is the slot that is charged for it. `is_eager`: nothing more of it comes soon, so that whole blocks of
/// a piece go at once.
fn arrived(
    session: &mut Session,
    slot: SlotId,
    to: SlotId,
    mut data: Slice,
    is_eager: bool,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    if matches!(session.engine.request(slot).own.work, Work::Gather(_)) {
        return gather(session, slot, data, cx);
    }
    while !data.is_empty() {
        let request = session.engine.request(slot);
        let own = &mut request.own;
        let Some(io) = &own.io else { return Ok(()) };
        let incoming = &mut own.incoming;
        let end = cut(io, incoming.at, request.offset + u64::from(incoming.end));
        let missing = (end - incoming.at) as usize - incoming.filled;
        let direct = match incoming.filled {
            0 if data.len() >= missing => missing,
            0 if is_eager => whole_blocks(incoming.at, data.len()),
            _ => 0,
        };
        if direct > 0 {
            let at = incoming.at;
            incoming.at += direct as u64;
            let piece = data.split_to(direct);
            submit(session, to, at, piece, cx);
            continue;
        }
        if incoming.filled == 0 {
            let Some(buffer) = cx.pool.take(missing) else {
                // The host may try again.
                request.fail(Fault::Memory, None);
                return Ok(());
            };
            incoming.buffer = buffer;
        }
        let (from, count) = (incoming.filled, missing.min(data.len()));
        incoming.buffer[from..from + count].copy_from_slice(&data[..count]);
        incoming.filled += count;
        data.skip(count);
        if count == missing {
            let piece = std::mem::take(&mut incoming.buffer).freeze();
            incoming.filled = 0;
            let at = std::mem::replace(&mut incoming.at, end);
            submit(session, to, at, piece, cx);
        }
    }
    Ok(())
}

/// Whole blocks of a piece that is put together go to the volume: nothing more of it comes unasked.
fn flush(session: &mut Session, slot: SlotId, to: SlotId, cx: &mut Cx<'_>) {
    let incoming = &mut session.engine.request(slot).own.incoming;
    let whole = whole_blocks(incoming.at, incoming.filled);
    if whole > 0 {
        let piece = incoming.buffer.split_to(whole);
        incoming.filled -= whole;
        let at = incoming.at;
        incoming.at += whole as u64;
        submit(session, to, at, piece, cx);
    }
}

/// Puts together what is needed as a whole.
fn gather(session: &mut Session, slot: SlotId, data: Slice, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = session.engine.request(slot);
    let incoming = &mut request.own.incoming;
    let end = incoming.end as usize;
    if data.len() == end {
        request.own.whole = data;
        return work::gathered(session, slot, cx);
    }
    if data.is_empty() {
        return Ok(());
    }
    if incoming.filled == 0 {
        let Some(buffer) = cx.pool.take(end) else {
            request.fail(Fault::Memory, None);
            return Ok(());
        };
        incoming.buffer = buffer;
    }
    let from = incoming.filled;
    incoming.buffer[from..from + data.len()].copy_from_slice(&data);
    incoming.filled += data.len();
    if incoming.filled < end {
        return Ok(());
    }
    incoming.filled = 0;
    request.own.whole = std::mem::take(&mut incoming.buffer).freeze();
    work::gathered(session, slot, cx)
}

/// Submits a piece whose data is here.
fn submit(session: &mut Session, slot: SlotId, offset: u64, data: Slice, cx: &mut Cx<'_>) {
    let length = data.len() as u32;
    let submission = match session.engine.request(slot).own.work {
        // The host's data stays with the piece until the volume's has come.
        Work::Compare => Submission {
            data,
            charge: Charge::Write,
            ..Submission::of(Op::Read { offset, length })
        },
        _ => Submission::with_data(Op::Write { offset, length }, data),
    };
    session.submit(slot, submission, cx);
}

/// Nothing more of a task is wanted: what it was asked for is not waited for. (A wait for it, as 4.2.3.3 has it, serves that no tag is
/// used again while data for it may come. No tag is, and what comes late is left lying.)
pub(super) fn give_up(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let Some(request) = session.engine.busy(slot) else {
        return Ok(());
    };
    let own = &mut request.own;
    request.owed -= own.incoming.open.len() as u32;
    own.incoming.open.clear();
    own.incoming.buffer = amita_reactor::BufMut::default();
    own.incoming.filled = 0;
    if own.incoming.unasked.take().is_some() {
        session.awaiting_unasked -= 1;
        match own.child {
            None => request.owed -= 1,
            Some(child) => {
                let first = session.engine.request(child);
                first.owed = 0;
                first.issued = true;
                session.finish_if_complete(child, cx)?;
            }
        }
    }
    session.finish_if_complete(slot, cx)
}
