//! How a session ends: by the initiator's wish, by the target's, or for a new one (RFC 7143, 11.9, 11.14 and 11.15).

use super::task::Fault;
use super::{Session, locks};
use crate::Cx;
use crate::connection::End;
use crate::wire::{Header, NO_TAG, flag, opcode, reject};
use amita_frontend::front::CloseReason;
use amita_reactor::Time;

/// Reasons of a logout (11.14.1).
const CLOSE_SESSION: u8 = 0;
const CLOSE_CONNECTION: u8 = 1;
const RECOVERY: u8 = 2;

/// Responses (11.15.1).
const CLOSED: u8 = 0;
const NO_CONNECTION: u8 = 1;
const NO_RECOVERY: u8 = 2;

/// Seconds for which tasks are kept for another connection: nothing outlives its own, whatever was (or was not) agreed on (11.15.4).
const RETAINED: u16 = 0;

/// Events (11.9.1).
const LOGOUT_WANTED: u8 = 1;
const CONNECTION_DROPS: u8 = 2;
const SESSION_DROPS: u8 = 3;

/// How it stands with the end.
#[derive(Debug, Default)]
pub(super) enum Leaving {
    /// There is none in sight.
    #[default]
    No,
    /// The initiator is asked to log out, by then.
    Asked { by: Time },
    /// It has logged out by a request of that tag: it is answered when nothing is under way any more.
    LoggedOut { tag: u32 },
    /// It ends when nothing is under way any more.
    Ending(CloseReason),
}

impl Leaving {
    /// Is nothing more taken from the initiator?
    pub fn is_deaf(&self) -> bool {
        matches!(self, Leaving::LoggedOut { .. } | Leaving::Ending(_))
    }

    pub fn deadline(&self) -> Option<Time> {
        match self {
            Leaving::Asked { by } => Some(*by),
            _ => None,
        }
    }
}

/// Takes a logout request.
pub(super) fn request(session: &mut Session, header: &Header, cx: &mut Cx<'_>) -> Result<(), End> {
    let cid = header.u16_at(20);
    match header.flags() & 0x7f {
        CLOSE_SESSION => leave(session, header.task_tag(), cx),
        CLOSE_CONNECTION if cid == session.cid => leave(session, header.task_tag(), cx),
        CLOSE_CONNECTION => {
            respond(session, header.task_tag(), NO_CONNECTION, cx);
            Ok(())
        }
        RECOVERY => {
            respond(session, header.task_tag(), NO_RECOVERY, cx);
            Ok(())
        }
        _ => {
            session.reject(header, reject::INVALID_FIELD, cx);
            Ok(())
        }
    }
}

/// All tasks end with the session (11.14).
fn leave(session: &mut Session, tag: u32, cx: &mut Cx<'_>) -> Result<(), End> {
    session.end_tasks(|_| true, Fault::Aborted, cx)?;
    // When it is answered, others may have what it has locked.
    locks::give_up(session, cx);
    session.leaving = Leaving::LoggedOut { tag };
    Ok(())
}

fn respond(session: &mut Session, tag: u32, response: u8, cx: &mut Cx<'_>) {
    let agreed = &session.agreed;
    let header = Header::new(opcode::LOGOUT_RESPONSE, flag::FINAL)
        .with_byte(2, response)
        .with_task_tag(tag)
        .with_u16(40, agreed.time2wait)
        .with_u16(42, RETAINED);
    session.send(header, &[], cx);
}

/// Ends the session when nothing of it is under way any more.
pub(super) fn end(session: &mut Session, reason: CloseReason, cx: &mut Cx<'_>) -> Result<(), End> {
    session.end_tasks(|_| true, Fault::Aborted, cx)?;
    session.leaving = Leaving::Ending(reason);
    finish(session, cx)
}

/// Goes on with the end, when it may.
pub(super) fn finish(session: &mut Session, cx: &mut Cx<'_>) -> Result<(), End> {
    if !session.engine.is_empty() {
        return Ok(());
    }
    match &session.leaving {
        Leaving::No | Leaving::Asked { .. } => Ok(()),
        Leaving::LoggedOut { .. } if !session.locks.are_settled() => Ok(()),
        Leaving::LoggedOut { tag } => {
            let tag = *tag;
            respond(session, tag, CLOSED, cx);
            Err(End::After(CloseReason::Goodbye))
        }
        Leaving::Ending(reason) => Err(End::After(reason.clone())),
    }
}

/// An asynchronous message (11.9), but for those of SCSI.
fn tell(session: &mut Session, event: u8, parameters: [u16; 3], cx: &mut Cx<'_>) {
    let [first, second, third] = parameters;
    let header = Header::new(opcode::ASYNC, flag::FINAL)
        .with_task_tag(NO_TAG)
        .with_byte(36, event)
        .with_u16(38, first)
        .with_u16(40, second)
        .with_u16(42, third);
    session.send(header, &[], cx);
}

/// Asks the initiator to log out: it goes on at another portal meanwhile.
pub(super) fn ask(session: &mut Session, cx: &mut Cx<'_>) {
    if !matches!(session.leaving, Leaving::No) {
        return;
    }
    let time = session.port.config().logout_time;
    let seconds = u16::try_from(time.as_secs()).unwrap_or(u16::MAX);
    tell(session, LOGOUT_WANTED, [0, 0, seconds], cx);
    session.leaving = Leaving::Asked { by: cx.now.plus(time) };
}

/// Says that the connection is closed.
pub(super) fn drop_connection(session: &mut Session, cx: &mut Cx<'_>) {
    let parameters = [session.cid, session.agreed.time2wait, RETAINED];
    tell(session, CONNECTION_DROPS, parameters, cx);
}

/// Ends the session: the initiator may not have it any more, or not as it has it.
pub(super) fn dismiss(session: &mut Session, why: &'static str, cx: &mut Cx<'_>) -> Result<(), End> {
    let parameters = [0, session.agreed.time2wait, RETAINED];
    tell(session, SESSION_DROPS, parameters, cx);
    end(session, CloseReason::Refused(why.into()), cx)
}

/// Time has passed.
pub(super) fn tick(session: &mut Session, cx: &mut Cx<'_>) -> Result<(), End> {
    if session.leaving.deadline().is_some_and(|by| cx.now >= by) {
        drop_connection(session, cx);
        let why = "this gateway is to serve the target no more, and the initiator has not logged out";
        return end(session, CloseReason::Refused(why.into()), cx);
    }
    Ok(())
}
