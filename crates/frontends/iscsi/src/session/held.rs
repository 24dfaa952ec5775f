//! What came behind a silence, and waits until its host is [known to be there](super::ping): commands, task management, and data.
//!
//! It is taken later as if it had come then, in its order and before what came behind it. Meanwhile everything is read on, for the answer lies
//! behind whatever the host had sent before it heard the question. So what is held is bounded by what it may be:
//!
//! * Commands count against the window, and their data, with what is still to come of it unasked, against as much as may come unasked. A
//!   command for which there is no room is answered BUSY at once: it has not been begun.
//! * Data that was asked for was given room when it was.
//!
//! NOPs and texts change nothing, and do not wait. Nor does a logout, which ends the tasks of its own session: Linux answers no question any
//! more when it has sent one.

use super::{Session, answer, transfer};
use crate::Cx;
use crate::connection::End;
use crate::port::MAX_IMMEDIATE;
use crate::wire::{BHS_BYTES, Header, Taken, flag, opcode, reject};
use amita_frontend::front::CloseReason;
use amita_scsi::sense::Status;
use std::collections::VecDeque;

/// Bytes of headers of data beside the data itself: more than hosts need that send pieces of a sensible length.
const HEADERS_OF_DATA: usize = 1 << 20;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Held {
    queue: VecDeque<Taken>,
    /// Data for which there is to be room though nobody has asked for it.
    unasked: usize,
    /// Data of PDUs of its own, with their headers.
    data: usize,
    /// PDUs that do not count against the window.
    beside: usize,
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What is next.
    pub fn next(&self) -> Option<&Taken> {
        self.queue.front()
    }

    /// Nothing of it is wanted any more.
    pub fn clear(&mut self) {
        if !self.queue.is_empty() {
            *self = Held::default();
        }
    }

    fn has_command(&self, tag: u32) -> bool {
        let headers = self.queue.iter().map(|taken| &taken.header);
        let mut commands = headers.filter(|header| header.opcode() == opcode::SCSI_COMMAND);
        commands.any(|header| header.task_tag() == tag)
    }
}

impl Taken {
    /// Of a command: bytes of data that came with it.
    pub(super) fn command_bytes(&self) -> Option<usize> {
        let is_command = self.header.opcode() == opcode::SCSI_COMMAND;
        is_command.then(|| self.data.as_ref().map_or(0, |data| data.len()))
    }
}

/// Does it count against the window?
fn counts(header: &Header) -> bool {
    header.opcode() == opcode::SCSI_COMMAND && !header.is_immediate()
}

/// How much data of a command comes unasked, with it or behind it.
fn unasked(session: &Session, taken: &Taken) -> usize {
    let header = &taken.header;
    let here = taken.command_bytes().unwrap_or(0);
    match header.opcode() == opcode::SCSI_COMMAND && !header.has(flag::FINAL) {
        true => here.max(header.target_tag().min(session.agreed.first_burst) as usize),
        false => here,
    }
}

/// Keeps a command, or a task management function.
pub(super) fn keep(session: &mut Session, taken: Taken, cx: &mut Cx<'_>) {
    let header = taken.header;
    let (unasked, before) = (unasked(session, &taken), session.held.unasked);
    if before > 0 && unasked > 0 && before + unasked > session.port.config().write_bytes {
        return answer::refuse(session, &header, Status::Busy, cx);
    }
    match counts(&header) {
        true => session.numbers.begin(),
        false if session.held.beside >= usize::from(session.port.config().commands) + MAX_IMMEDIATE => {
            return session.reject(&header, reject::IMMEDIATE, cx);
        }
        false => session.held.beside += 1,
    }
    session.held.unasked += unasked;
    session.held.queue.push_back(taken);
}

/// Keeps data of a command that waits, or of a task.
pub(super) fn keep_data(session: &mut Session, taken: Taken) -> Result<(), End> {
    let tag = taken.header.task_tag();
    // Of a command that was refused it is on its way still.
    if session.task_of(tag).is_none() && !session.held.has_command(tag) {
        return Ok(());
    }
    let config = session.port.config();
    let most = 2 * config.write_bytes + config.gather_bytes + HEADERS_OF_DATA;
    session.held.data += BHS_BYTES + taken.header.data_bytes();
    if session.held.data > most {
        let what = "more data than was announced or asked for";
        return Err(End::After(CloseReason::Protocol(what)));
    }
    session.held.queue.push_back(taken);
    Ok(())
}

/// Takes the next one.
pub(super) fn release(session: &mut Session, cx: &mut Cx<'_>) -> Result<(), End> {
    let Some(taken) = session.held.queue.pop_front() else {
        return Ok(());
    };
    session.held.unasked -= unasked(session, &taken);
    let header = taken.header;
    if header.opcode() == opcode::DATA_OUT {
        session.held.data -= BHS_BYTES + header.data_bytes();
        return transfer::incoming(session, &header, taken.data, cx);
    }
    match counts(&header) {
        true => session.numbers.end(),
        false => session.held.beside -= 1,
    }
    session.dispatch(taken, cx)
}
