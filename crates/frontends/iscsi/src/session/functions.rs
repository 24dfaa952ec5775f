//! Task management (RFC 7143, 11.5 and 11.6, 4.2.3; RFC 7144).
//!
//! A function is answered when all tasks that it concerns have ended: what of them was under way at the volume has landed by then,
//! and nothing more of them is begun. Where the tasks of other sessions are concerned, [they are told](super::resets).

use super::Session;
use super::task::{Fault, Task};
use super::{locks, logout, resets};
use crate::Cx;
use crate::connection::End;
use crate::faults::Fault as Planted;
use crate::hub::{Call, Counts, Scope};
use crate::port::MAX_IMMEDIATE;
use crate::wire::{Header, flag, opcode, reject};
use amita_frontend::front::CloseReason;
use amita_reactor::Time;
use amita_scsi::Lun;
use amita_scsi::nexus::{ALL_FUNCTIONS, BASIC_FUNCTIONS, Happening};

/// Functions (11.5.1; RFC 7144, section 5).
mod function {
    pub const ABORT_TASK: u8 = 1;
    pub const ABORT_TASK_SET: u8 = 2;
    pub const CLEAR_ACA: u8 = 3;
    pub const CLEAR_TASK_SET: u8 = 4;
    pub const LOGICAL_UNIT_RESET: u8 = 5;
    pub const TARGET_WARM_RESET: u8 = 6;
    pub const TARGET_COLD_RESET: u8 = 7;
    pub const TASK_REASSIGN: u8 = 8;
    pub const QUERY_TASK: u8 = 9;
    pub const QUERY_TASK_SET: u8 = 10;
    pub const NEXUS_RESET: u8 = 11;
}

/// Responses (11.6.1; RFC 7144, section 5).
mod response {
    pub const COMPLETE: u8 = 0;
    pub const NO_TASK: u8 = 1;
    pub const NO_UNIT: u8 = 2;
    pub const NO_REASSIGNMENT: u8 = 4;
    pub const NOT_SUPPORTED: u8 = 5;
    pub const NOT_AUTHORIZED: u8 = 6;
    pub const SUCCEEDED: u8 = 7;
    pub const REJECTED: u8 = 255;
}

/// What of a reset concerns others: one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Another one of the session is under way. This has ended tasks up to that serial.
    Queued(Scope, u64),
    /// The owners of the volumes count it.
    Owners(Scope),
    /// The other sessions of this gateway carry it out.
    Sessions,
    /// Other gateways hear of it, until then.
    Gateways(Time),
    /// Nothing more.
    Through,
}

impl Others {
    fn are_under_way(self) -> bool {
        matches!(self, Others::Owners(_) | Others::Sessions | Others::Gateways(_))
    }
}

/// A function that is carried out.
#[derive(Debug)]
struct Pending {
    /// Counted with the tasks.
    serial: u64,
    tag: u32,
    response: u8,
    /// Tasks that have to end before.
    waits_for: Vec<u64>,
    others: Others,
    /// The session ends when it is answered.
    ends: bool,
}

/// A reset that another session has asked for.
#[derive(Debug)]
struct Told {
    ticket: u64,
    waits_for: Vec<u64>,
    ends: bool,
}

/// The functions of a session.
#[derive(Debug, Default)]
pub(super) struct Functions {
    pending: Vec<Pending>,
    told: Vec<Told>,
}

impl Functions {
    /// A task has ended.
    pub fn ended(&mut self, serial: u64) {
        let waits = self.pending.iter_mut().map(|pending| &mut pending.waits_for);
        let waits = waits.chain(self.told.iter_mut().map(|told| &mut told.waits_for));
        for waits_for in waits {
            waits_for.retain(|known| *known != serial);
        }
    }

    /// When [`finish`] wants to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.pending.iter().find_map(|pending| match pending.others {
            Others::Gateways(until) => Some(until),
            _ => None,
        })
    }
}

/// What REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS tells, by the level of the protocol. QUERY ASYNCHRONOUS EVENT is not offered.
pub(super) fn offered(protocol_level: u32) -> [u8; 2] {
    const QUERY_ASYNCHRONOUS_EVENT: u8 = 0x04;
    match protocol_level {
        0 | 1 => BASIC_FUNCTIONS,
        _ => [ALL_FUNCTIONS[0], ALL_FUNCTIONS[1] & !QUERY_ASYNCHRONOUS_EVENT],
    }
}

/// What a function does at once.
struct Begun {
    response: u8,
    waits_for: Vec<u64>,
    /// What is reset, and up to which serial tasks of it are ended.
    reset: Option<(Scope, u64)>,
}

impl Begun {
    fn answered(response: u8) -> Begun {
        Begun {
            response,
            waits_for: Vec::new(),
            reset: None,
        }
    }
}

/// Takes a task management function request.
pub(super) fn request(session: &mut Session, header: &Header, cx: &mut Cx<'_>) -> Result<(), End> {
    let tag = header.task_tag();
    let functions = &session.functions;
    if functions.pending.iter().any(|pending| pending.tag == tag) || session.task_of(tag).is_some() {
        session.reject(header, reject::IN_PROGRESS, cx);
        return Ok(());
    }
    // Hosts abort each of their tasks by a function of its own, all at once.
    let most = usize::from(session.port.config().commands) + MAX_IMMEDIATE;
    if functions.pending.len() >= most {
        session.reject(header, reject::IMMEDIATE, cx);
        return Ok(());
    }
    let begun = begin(session, header, cx)?;
    if begun.response == response::COMPLETE {
        discard(session, header);
    }
    session.task_serial += 1;
    let serial = session.task_serial;
    session.functions.pending.push(Pending {
        serial,
        tag,
        response: begun.response,
        waits_for: begun.waits_for,
        others: match begun.reset {
            Some((scope, up_to)) => Others::Queued(scope, up_to),
            None => Others::Through,
        },
        ends: matches!(begun.reset, Some((Scope::TargetAndSessions, _))),
    });
    go_on(session, cx);
    // What the function took the place of is not waited for any more.
    session.go_on(cx)
}

/// Commands that wait for numbers before theirs were sent before the function: those that it concerns are not begun any more.
fn discard(session: &mut Session, header: &Header) {
    let lun = header.lun();
    let is_of_unit = match header.flags() & 0x7f {
        function::ABORT_TASK_SET | function::CLEAR_TASK_SET | function::LOGICAL_UNIT_RESET => true,
        function::TARGET_WARM_RESET | function::TARGET_COLD_RESET | function::NEXUS_RESET => false,
        _ => return,
    };
    session.numbers.discard(header.cmd_sn(), |held| {
        held.opcode() == opcode::SCSI_COMMAND && (!is_of_unit || held.lun() == lun)
    });
}

fn begin(session: &mut Session, header: &Header, cx: &mut Cx<'_>) -> Result<Begun, End> {
    let lun = Lun(header.lun());
    let is_there = unit(session, lun).is_some();
    let of_lun = move |task: &Task| task.lun == lun;
    Ok(match header.flags() & 0x7f {
        function::ABORT_TASK => abort_task(session, header, cx)?,
        function::ABORT_TASK_SET | function::CLEAR_TASK_SET if is_there => Begun {
            // Each nexus has a task set of its own (TST is 001b), so that the two are the same.
            waits_for: session.end_tasks(of_lun, Fault::Aborted, cx)?,
            ..Begun::answered(response::COMPLETE)
        },
        function::LOGICAL_UNIT_RESET if is_there => match lun.number() {
            Some(number) => reset(session, Scope::Unit(number), cx)?,
            None => Begun::answered(response::NO_UNIT),
        },
        function::QUERY_TASK_SET if is_there && session.agreed.protocol_level >= 2 => {
            let is_busy = session.engine.position(|request| of_lun(&request.own)).is_some();
            Begun::answered(if is_busy {
                response::SUCCEEDED
            } else {
                response::COMPLETE
            })
        }
        function::ABORT_TASK_SET | function::CLEAR_TASK_SET | function::LOGICAL_UNIT_RESET => {
            Begun::answered(response::NO_UNIT)
        }
        function::TARGET_WARM_RESET | function::TARGET_COLD_RESET if !may_reset_target(session) => {
            Begun::answered(response::NOT_AUTHORIZED)
        }
        function::TARGET_WARM_RESET => reset(session, Scope::Target, cx)?,
        function::TARGET_COLD_RESET => reset(session, Scope::TargetAndSessions, cx)?,
        // Tasks do not outlive their connection (11.5.1: ErrorRecoveryLevel 2).
        function::TASK_REASSIGN => Begun::answered(response::NO_REASSIGNMENT),
        function::QUERY_TASK if session.agreed.protocol_level >= 2 => {
            let found = session.task_of(header.target_tag());
            let is_there = found.is_some_and(|slot| session.engine.request(slot).own.lun == lun);
            Begun::answered(if is_there {
                response::SUCCEEDED
            } else {
                response::COMPLETE
            })
        }
        function::NEXUS_RESET if session.agreed.protocol_level >= 2 => {
            let mut waits_for = session.end_tasks(|_| true, Fault::Aborted, cx)?;
            waits_for.extend(locks::give_up(session, cx));
            session.nexus.happened(None, Happening::Lost);
            Begun {
                waits_for,
                ..Begun::answered(response::COMPLETE)
            }
        }
        // There is no auto contingent allegiance, nor what else may be meant.
        function::CLEAR_ACA => Begun::answered(response::NOT_SUPPORTED),
        _ => Begun::answered(response::NOT_SUPPORTED),
    })
}

/// May it reset all of the target? Not who sees some of it only: the rest is others'.
fn may_reset_target(session: &Session) -> bool {
    let access = session
        .target
        .as_ref()
        .and_then(|target| target.initiator(&session.names.initiator));
    session.port.config().target_resets && access.is_none_or(|access| access.mask.is_none())
}

/// The number of a logical unit that the initiator may see.
fn unit(session: &Session, lun: Lun) -> Option<u16> {
    let target = session.target.as_ref()?;
    let number = lun.number().filter(|number| target.unit(*number).is_some())?;
    target.shows(&session.names.initiator, number).then_some(number)
}

fn abort_task(session: &mut Session, header: &Header, cx: &mut Cx<'_>) -> Result<Begun, End> {
    let (lun, meant) = (Lun(header.lun()), header.target_tag());
    let found = session.task_of(meant);
    if let Some(slot) = found {
        let own = &session.engine.request(slot).own;
        if own.lun != lun {
            return Ok(Begun::answered(response::NO_TASK));
        }
        let serial = own.serial;
        let mut waits_for = session.end_tasks(|task| task.serial == serial, Fault::Aborted, cx)?;
        if session.port.config().faults.has(Planted::AbortAtOnce) {
            waits_for.clear();
        }
        return Ok(Begun {
            waits_for,
            ..Begun::answered(response::COMPLETE)
        });
    }
    // A task that has not come, and whose number (RefCmdSN) is still waited for: it counts as received (11.5.5).
    let number = header.u32_at(32);
    Ok(match session.numbers.plug(number, header.cmd_sn()) {
        true => Begun::answered(response::COMPLETE),
        false => Begun::answered(response::NO_TASK),
    })
}

/// Resets a logical unit, or all of them: what concerns others follows in its turn.
fn reset(session: &mut Session, scope: Scope, cx: &mut Cx<'_>) -> Result<Begun, End> {
    let waits_for = resets::carry_out(session, scope, &Counts::default(), Fault::Aborted, cx)?;
    Ok(Begun {
        waits_for,
        reset: Some((scope, session.task_serial)),
        ..Begun::answered(response::COMPLETE)
    })
}

/// Another session of this gateway has reset something.
pub(super) fn told(
    session: &mut Session,
    ticket: u64,
    scope: Scope,
    counts: &Counts,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    let waits_for = resets::carry_out(session, scope, counts, Fault::Cleared, cx)?;
    let ends = scope == Scope::TargetAndSessions;
    session.functions.told.push(Told {
        ticket,
        waits_for,
        ends,
    });
    Ok(())
}

/// The other sessions of this gateway are through with what was asked for by that call.
pub(super) fn others_done(session: &mut Session, serial: u64, now: Time) {
    let is_alone = session.catalog.scsi.groups.len() < 2;
    let mut pending = session.functions.pending.iter_mut();
    if let Some(pending) = pending.find(|pending| pending.serial == serial) {
        pending.others = match is_alone {
            true => Others::Through,
            false => Others::Gateways(now.plus(resets::HEARD_AFTER)),
        };
    }
}

/// Goes on with resets; when one is through the next one begins.
fn go_on(session: &mut Session, cx: &mut Cx<'_>) {
    advance(session, cx);
    let pending = &mut session.functions.pending;
    if pending.iter().any(|pending| pending.others.are_under_way()) {
        return;
    }
    let next = pending.iter_mut().find_map(|pending| match pending.others {
        Others::Queued(scope, up_to) => Some((pending, scope, up_to)),
        _ => None,
    });
    if let Some((pending, scope, up_to)) = next {
        pending.others = Others::Owners(scope);
        resets::begin(session, scope, up_to, cx);
        advance(session, cx);
    }
}

/// When the owners have counted a reset the other sessions of this gateway are told, and other gateways hear of it meanwhile.
fn advance(session: &mut Session, cx: &mut Cx<'_>) {
    let front = session.engine.front();
    for pending in &mut session.functions.pending {
        match pending.others {
            Others::Owners(scope) if !session.resets.is_asking() => {
                let (counts, have_all) = session.resets.take_counts();
                if !have_all {
                    pending.response = response::REJECTED;
                }
                pending.others = Others::Sessions;
                let call = Call::Reset { scope, counts };
                cx.service.register(front, pending.serial, Box::new(call));
            }
            Others::Gateways(until) if cx.now >= until => pending.others = Others::Through,
            _ => {}
        }
    }
}

/// Answers functions whose tasks have ended.
pub(super) fn finish(session: &mut Session, cx: &mut Cx<'_>) -> Result<(), End> {
    const RESET: &str = "the target was reset";
    go_on(session, cx);
    let is_over = |pending: &Pending| pending.waits_for.is_empty() && pending.others == Others::Through;
    while let Some(place) = session.functions.pending.iter().position(is_over) {
        let pending = session.functions.pending.remove(place);
        let header = Header::new(opcode::TASK_MANAGEMENT_RESPONSE, flag::FINAL)
            .with_byte(2, pending.response)
            .with_task_tag(pending.tag);
        session.send(header, &[], cx);
        if pending.ends {
            logout::drop_connection(session, cx);
            return Err(End::After(CloseReason::Refused(RESET.into())));
        }
    }
    while let Some(place) = session.functions.told.iter().position(|told| told.waits_for.is_empty()) {
        let told = session.functions.told.remove(place);
        let call = Call::Cleared { ticket: told.ticket };
        cx.service.register(session.engine.front(), 0, Box::new(call));
        if told.ends {
            logout::drop_connection(session, cx);
            return Err(End::After(CloseReason::Refused(RESET.into())));
        }
    }
    Ok(())
}
