//! The commands by which a queue becomes what it is (NVM Express Base 2.1, section 6).

use super::request::{Gathering, Work};
use super::role::{AdminRole, Asked, IoRole, Role};
use super::target::Target;
use super::{End, GUESTS_ANSWER_BYTES, GUESTS_TRANSFER_BYTES, Queue, Refusal, access, admin};
use crate::Cx;
use crate::admin::{Admin, ControllerShared, Kind, Session};
use crate::command::{self, Command, Status};
use crate::connection::connect::{self, Connect};
use crate::failure::Failures;
use crate::hub::{Call, Gate, IDENTIFIER_OF_ANOTHER, Reply, Shared, invalid};
use crate::wire::status;
use amita_frontend::front::CloseReason;
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;
use std::sync::Arc;

/// The opcode of all Fabrics commands; byte 4 is their type.
pub(super) const FABRICS: u8 = 0x7f;

mod kind_of {
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    pub const DISCONNECT: u8 = 0x08;
}

/// Takes a Fabrics command.
pub(super) fn command(queue: &mut Queue, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let kind = command.0[4];
    let authenticated = queue.access.is_authenticated();
    match (&mut queue.role, kind) {
        (Role::New, kind_of::CONNECT) => {
            let what = Gathering::Connect;
            let work = Work::Gather { what, asked: false };
            queue.bring(command, work, Target::NONE, connect::DATA_BYTES as u32, data, cx)?;
            Ok(())
        }
        (_, kind_of::CONNECT) | (Role::New | Role::Connecting { .. }, _) => Err(status::SEQUENCE.into()),
        (_, kind_of::AUTHENTICATION_SEND | kind_of::AUTHENTICATION_RECEIVE) => {
            access::command(queue, command, data, cx)
        }
        _ if !authenticated => Err(status::AUTH_REQUIRED.into()),
        (Role::Admin(role), kind_of::PROPERTY_GET) => {
            let (size, offset) = (property_bytes(command)?, command.dword(11));
            role.shared.beat(cx.now);
            let value = role.admin.property_get(offset, size)?;
            queue.capsules.ids.remove(command.id());
            queue.capsules.respond(command.id(), Status::SUCCESS, value, cx);
            Ok(())
        }
        (Role::Admin(_), kind_of::PROPERTY_SET) => property_set(queue, command, cx),
        (Role::Io(_), kind_of::DISCONNECT) => disconnect(queue, command, cx),
        _ => Err(status::INVALID_OPCODE.into()),
    }
}

/// Sets a property. When that enables the controller, or the contrary, the register hears of it before the host does.
fn property_set(queue: &mut Queue, command: &Command, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let (size, offset) = (property_bytes(command)?, command.dword(11));
    let slot = queue.begin(command, Work::Wait)?;
    let tag = queue.engine.tag(slot);
    let Role::Admin(role) = &mut queue.role else {
        return Ok(());
    };
    let was_ready = role.admin.is_ready();
    let result = role.admin.property_set(cx.now, offset, size, command.qword(12));
    let call = match (was_ready, role.admin.is_ready()) {
        (false, true) => {
            let gate = Arc::<Gate>::default();
            role.gate = Some(gate.clone());
            let controller = role.shared.clone();
            let queues = queue.port.config().queues;
            Some(Call::Enable {
                queues,
                shared: Shared { controller, gate },
            })
        }
        (true, false) => {
            if let Some(gate) = role.gate.take() {
                gate.shut();
            }
            Some(Call::Disable)
        }
        _ => None,
    };
    let status = result.err().unwrap_or(Status::SUCCESS);
    match call {
        Some(call) => {
            queue.engine.request(slot).failure = (status != Status::SUCCESS).then_some(status);
            cx.service.register(queue.engine.front(), tag, Box::new(call));
        }
        None => queue.complete(slot, status, 0, cx),
    }
    admin::events(queue, cx);
    Ok(())
}

/// The data of a Connect command is here.
pub(super) fn connect_gathered(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    if !matches!(queue.role, Role::New) {
        // The data of two Connect commands was asked for: the first that came counts.
        queue.complete(slot, status::SEQUENCE, 0, cx);
        return Ok(());
    }
    let catalog = queue.port.catalog();
    let tag = queue.engine.tag(slot);
    let request = queue.engine.request(slot);
    let data = std::mem::take(&mut request.own.buffer);
    let command = request.own.command;
    request.own.work = Work::Wait;
    let connect = match connect::check(&command, &data, &catalog, queue.port.config()) {
        Ok(connect) => Box::new(connect),
        Err((status, result)) => return connect_refused(queue, slot, status, result, cx),
    };
    let authreq = match queue.access.demand(&queue.port, &catalog, &connect.party) {
        Ok(authreq) => authreq,
        Err(why) => {
            let result = invalid(connect::HOST_AT, true);
            return connect_denied(queue, slot, status::CONNECT_HOST, result, why.into(), cx);
        }
    };
    queue.engine.request(slot).own.result = authreq.into();
    if authreq == 0 {
        ask_for_place(queue, slot, connect, Asked::Place, cx);
    } else if connect.queue == 0 {
        let call = Call::Offer {
            party: Box::new(connect.party.clone()),
            discovery: connect.discovery,
        };
        let asked = Asked::Number;
        queue.role = Role::Connecting { slot, connect, asked };
        cx.service.register(queue.engine.front(), tag, Box::new(call));
    } else {
        // Whether there is that controller, a stranger need not know.
        prove(queue, slot, connect, cx);
    }
    Ok(())
}

/// Answers Connect of a host that has to prove itself now.
fn prove(queue: &mut Queue, slot: SlotId, connect: Box<Connect>, cx: &mut Cx<'_>) {
    queue.capsules.resize(connect.entries, connect.flow_control);
    let result = u64::from(connect.controller) | queue.engine.request(slot).own.result;
    queue.role = Role::Proving(connect);
    queue.complete(slot, Status::SUCCESS, result, cx);
}

/// The host has proven itself: it gets its place, and then `message`.
pub(super) fn enter(queue: &mut Queue, slot: SlotId, message: Vec<u8>, cx: &mut Cx<'_>) {
    match std::mem::replace(&mut queue.role, Role::New) {
        Role::Proving(connect) => ask_for_place(queue, slot, connect, Asked::PlaceOfProven(message), cx),
        other => queue.role = other,
    }
}

/// Asks the register for a controller, or for a place among its queues.
fn ask_for_place(queue: &mut Queue, slot: SlotId, connect: Box<Connect>, asked: Asked, cx: &mut Cx<'_>) {
    let party = Box::new(connect.party.clone());
    let call = match connect.queue {
        0 => Call::Create {
            discovery: connect.discovery,
            holder: queue.access.holder(&party),
            number: matches!(asked, Asked::PlaceOfProven(_)).then_some(connect.controller),
            party,
        },
        queue => Call::Join {
            party,
            controller: connect.controller,
            queue,
        },
    };
    let tag = queue.engine.tag(slot);
    queue.role = Role::Connecting { slot, connect, asked };
    cx.service.register(queue.engine.front(), tag, Box::new(call));
}

/// The host may not connect so. It may try again on another connection; this one ends.
fn connect_refused(queue: &mut Queue, slot: SlotId, status: Status, result: u32, cx: &mut Cx<'_>) -> Result<(), End> {
    let why = format!("Connect ended with status {}h/{:02x}h", status.kind, status.code);
    connect_denied(queue, slot, status, result, why, cx)
}

/// The same, with a reason for the log.
fn connect_denied(
    queue: &mut Queue,
    slot: SlotId,
    status: Status,
    result: u32,
    why: String,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    queue.role = Role::New;
    queue.complete(slot, status, result.into(), cx);
    Err(End::After(CloseReason::Refused(why)))
}

/// The register has answered.
pub(super) fn connected(queue: &mut Queue, word: Reply, cx: &mut Cx<'_>) -> Result<(), End> {
    let (slot, mut connect, asked) = match std::mem::replace(&mut queue.role, Role::New) {
        Role::Connecting { slot, connect, asked } => (slot, connect, asked),
        other => {
            queue.role = other;
            return Ok(());
        }
    };
    let catalog = queue.port.catalog();
    let granted = matches!(word, Reply::Created { .. } | Reply::Joined { .. });
    if granted && let Err(why) = queue.access.holds(&catalog, &connect.party) {
        queue.role = Role::Connecting { slot, connect, asked };
        return Err(End::Now(CloseReason::Refused(why.into())));
    }
    let host = crate::reservations::host_key(&connect.party.host, &connect.party.host_id);
    let (entries, flow_control) = (connect.entries, connect.flow_control);
    let controller = match word {
        Reply::Offered { controller } => {
            connect.controller = controller;
            prove(queue, slot, connect, cx);
            return Ok(());
        }
        Reply::Created { controller, slow } => {
            let percent = queue.port.config().silence_percent;
            let shared = Arc::new(ControllerShared::new(cx.now, percent, slow));
            let mut session = Session {
                kind: match connect.discovery {
                    true => Kind::Discovery,
                    false => Kind::Io,
                },
                controller,
                subsystem: connect.party.subsystem.clone(),
                host: connect.party.host.clone(),
                host_id: connect.party.host_id,
                proven: queue.access.is_proven(),
                kato_ms: connect.kato_ms,
                portal: queue.access.login.local,
                limits: connect::limits(queue.port.config()),
                shared: shared.clone(),
            };
            if session.is_guest() {
                session.limits.transfer_bytes = GUESTS_TRANSFER_BYTES;
            }
            let admin = Admin::new(session, cx.now, &catalog);
            queue.role = Role::Admin(Box::new(AdminRole {
                admin,
                party: connect.party,
                shared,
                gate: None,
                host,
            }));
            controller
        }
        Reply::Joined { shared } => {
            cx.service.identify(queue.engine.front(), host);
            let controller = connect.controller;
            queue.capsules.link.max_capsule_bytes = crate::port::IO_CAPSULE_BYTES as usize;
            queue.role = Role::Io(Box::new(IoRole {
                subsystem: catalog.subsystem(&connect.party.subsystem).cloned(),
                connect,
                shared,
                host,
                failures: Failures::default(),
                telling: false,
            }));
            controller
        }
        Reply::Refused { status, result } => {
            let is_of_another = connect.queue == 0 && (status, result) == IDENTIFIER_OF_ANOTHER;
            let why = match (is_of_another, &asked) {
                (true, _) => {
                    "its identifier is in use by a host of another name: give each host one of its own (on Linux, /etc/nvme/hostid)"
                }
                // The command is none that could tell why.
                (false, Asked::PlaceOfProven(_)) => {
                    "the host has proven itself, and there is no place for it any more: it may try again"
                }
                (false, _) => return connect_refused(queue, slot, status, result, cx),
            };
            return match asked {
                Asked::PlaceOfProven(_) => Err(End::After(CloseReason::Refused(why.into()))),
                _ => connect_denied(queue, slot, status, result, why.into(), cx),
            };
        }
        _ => return Ok(()),
    };
    queue.answer_bytes = match queue.is_guest() {
        true => GUESTS_ANSWER_BYTES,
        false => queue.port.config().read_bytes,
    };
    if let Asked::PlaceOfProven(data) = asked {
        let reply = command::Reply {
            status: Status::SUCCESS,
            result: 0,
            data,
        };
        admin::answer_with(queue, slot, reply, cx);
        return Ok(());
    }
    queue.capsules.resize(entries, flow_control);
    queue.complete(slot, Status::SUCCESS, u64::from(controller), cx);
    Ok(())
}

/// Ends the queue (Base 2.1, 6.4): what is under way is answered as aborted, then the connection is closed.
fn disconnect(queue: &mut Queue, command: &Command, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    if command.0[40..42] != [0, 0] {
        return Err(status::INVALID_FIELD.into());
    }
    for id in queue.capsules.ids.take() {
        let status = match id == command.id() {
            true => Status::SUCCESS,
            false => status::QUEUE_DELETED,
        };
        queue.capsules.respond(id, status, 0, cx);
    }
    Err(Refusal::End(End::After(CloseReason::Goodbye)))
}

/// How many bytes a Property Get or Set is about.
fn property_bytes(command: &Command) -> Result<usize, Status> {
    match command.0[40] & 7 {
        0 => Ok(4),
        1 => Ok(8),
        _ => Err(status::INVALID_FIELD),
    }
}
