//! SCSI commands: what comes with them is checked, `amita-scsi` says what they mean, and their tasks begin (RFC 7143, 11.3).

use super::task::{Fault, Work};
use super::{Session, answer, order, ping, work};
use crate::Cx;
use crate::connection::End;
use crate::port::MAX_IMMEDIATE;
use crate::wire::{Ahs, Header, NO_TAG, flag, reject};
use amita_frontend::engine::{Delivery, Plan, Protocol as _};
use amita_frontend::service::Source;
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use amita_scsi::command::{Attribute, Lengths, Lun, Task};
use amita_scsi::sense::Status;

/// "Unexpected unsolicited data" (11.4.7.2).
const UNEXPECTED_DATA: Fault = Fault::Transport(0x0c, 0x0c);
/// "Incorrect amount of data".
const WRONG_AMOUNT: Fault = Fault::Transport(0x0c, 0x0d);

/// What came with a command.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub data: Slice,
    /// Nothing more comes that was not asked for (the F bit).
    pub is_last: bool,
}

/// Takes a command.
pub(super) fn take(
    session: &mut Session,
    header: &Header,
    ahs: &[u8],
    data: Slice,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    let tag = header.task_tag();
    if tag == NO_TAG {
        return Err(session.broken(header, "a command without a tag", cx));
    }
    if session.task_of(tag).is_some() {
        // The other task of that tag goes on (11.17.1).
        session.reject(header, reject::IN_PROGRESS, cx);
        return Ok(());
    }
    let (reads, writes, is_last) = (header.has(flag::READ), header.has(flag::WRITE), header.has(flag::FINAL));
    if !writes && !is_last {
        // Without W there is F (11.3.1): what would come cannot be told from anything.
        return Err(session.broken(header, "more data of a command that sends none", cx));
    }
    let Ok(ahs) = Ahs::parse(ahs) else {
        session.reject(header, reject::INVALID_FIELD, cx);
        return Ok(());
    };
    if header.is_immediate() && session.immediate >= MAX_IMMEDIATE {
        session.reject(header, reject::IMMEDIATE, cx);
        return Ok(());
    }
    ping::begin(session, cx);
    let length = u64::from(header.target_tag());
    let into = match (reads, writes) {
        (true, false) => length,
        // Of one that goes both ways the length is that of data-out, and an additional header has the other one (11.3.4).
        (true, true) => u64::from(ahs.read_bytes.unwrap_or(0)),
        (false, _) => 0,
    };
    let expected = Lengths {
        out: if writes { length } else { 0 },
        into,
    };
    let Some(slot) = begin(session, header, expected, writes, cx) else {
        answer::refuse(session, header, Status::TaskSetFull, cx);
        return Ok(());
    };
    let carried = Carried { data, is_last };
    // What comes behind it unasked begins there, whatever becomes of the command.
    session.engine.request(slot).own.incoming.received = carried.data.len() as u32;
    if let Err(fault) = check_data(session, expected, &carried) {
        session.engine.request(slot).fail(fault, None);
        return work::drain(session, slot, is_last, cx);
    }
    let unasked = unasked_bytes(session, expected, &carried);
    if !session.engine.may_take_unasked(unasked) {
        return work::refuse(session, slot, Status::TaskSetFull, is_last, cx);
    }
    let first = &header.0[32..48];
    let long;
    let cdb = match ahs.cdb_rest {
        [] => first,
        rest => {
            long = [first, rest].concat();
            &long[..]
        }
    };
    order::begin(session, slot, cdb, attribute(header), carried, cx)
}

/// In which order with others it is to be carried out (11.3.1).
fn attribute(header: &Header) -> Attribute {
    match header.flags() & 7 {
        0 => Attribute::Untagged,
        2 => Attribute::Ordered,
        3 => Attribute::HeadOfQueue,
        4 => Attribute::Aca,
        _ => Attribute::Simple,
    }
}

/// Is the data that comes unasked within what was agreed?
fn check_data(session: &Session, expected: Lengths, carried: &Carried) -> Result<(), Fault> {
    let agreed = &session.agreed;
    let bytes = carried.data.len() as u64;
    if (bytes > 0 && !agreed.immediate_data) || (!carried.is_last && agreed.initial_r2t) {
        return Err(UNEXPECTED_DATA);
    }
    match bytes > u64::from(agreed.first_burst).min(expected.out) {
        true => Err(WRONG_AMOUNT),
        false => Ok(()),
    }
}

/// How much data of a command there must be room for, though nobody has asked for it.
fn unasked_bytes(session: &Session, expected: Lengths, carried: &Carried) -> usize {
    match carried.is_last {
        true => carried.data.len(),
        false => u64::from(session.agreed.first_burst).min(expected.out) as usize,
    }
}

/// Gives a command a slot.
fn begin(session: &mut Session, header: &Header, expected: Lengths, writes: bool, cx: &Cx<'_>) -> Option<SlotId> {
    let source = Source::default();
    let (slot, request) = session.engine.begin(source, 0, Plan::Steps, Delivery::Verdict)?;
    session.task_serial += 1;
    let own = &mut request.own;
    own.clear();
    own.serial = session.task_serial;
    own.tag = header.task_tag();
    own.lun = Lun(header.lun());
    own.is_immediate = header.is_immediate();
    own.writes = writes;
    own.since = cx.now;
    own.expected = expected;
    own.work = Work::Wait;
    match own.is_immediate {
        true => session.immediate += 1,
        false => session.numbers.begin(),
    }
    session.tags.push((header.task_tag(), slot));
    Some(slot)
}

/// Carries out a command whose turn it is.
pub(super) fn carry_out(
    session: &mut Session,
    slot: SlotId,
    cdb: &[u8],
    attribute: Attribute,
    carried: Carried,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    let own = &session.engine.request(slot).own;
    let task = Task {
        lun: own.lun,
        cdb,
        attribute,
        expected: own.expected,
    };
    let Session {
        catalog, target, nexus, ..
    } = session;
    let plan = match target {
        Some(target) => amita_scsi::plan::plan(&task, &catalog.scsi, target, nexus),
        None => unreachable!("a session that is there to discover takes no commands"),
    };
    work::begin(session, slot, plan, carried, cx)
}

/// Says what is to be done with a parameter list that is here.
pub(super) fn gathered(session: &mut Session, then: &amita_scsi::plan::Gathering, list: &[u8]) -> amita_scsi::Plan {
    let Session {
        catalog, target, nexus, ..
    } = session;
    match target {
        Some(target) => amita_scsi::plan::gathered(then, list, &catalog.scsi, target, nexus),
        None => unreachable!("a session that is there to discover takes no commands"),
    }
}

/// Says what is to be done with a command that its volume's owner lets pass.
pub(super) fn asked(session: &mut Session, then: &amita_scsi::Asking) -> amita_scsi::Plan {
    let Session {
        catalog, target, nexus, ..
    } = session;
    match target {
        Some(target) => amita_scsi::plan::asked(then, &catalog.scsi, target, nexus),
        None => unreachable!("a session that is there to discover takes no commands"),
    }
}

/// A task has nothing to do: it is over when what it waits for has come.
pub(super) fn complete(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    session.engine.request(slot).issued = true;
    session.finish_if_complete(slot, cx)
}
