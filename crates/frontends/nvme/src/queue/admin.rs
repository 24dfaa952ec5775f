//! Commands of the admin queue: the data that they move, around [`Admin`](crate::admin::Admin), which carries them
//! out.

use super::request::{Gathering, Work};
use super::role::Role;
use super::target::Target;
use super::{End, Queue, Refusal};
use crate::Cx;
use crate::admin::{KEEP_ALIVE, Transfer, Turn};
use crate::command::{Command, Reply, Status};
use crate::hub::{Answer, Call};
use crate::wire::{Carrier, Sgl, flag, status};
use amita_frontend::front::CloseReason;
use amita_frontend::reservation::{Refusal as Refused, State};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;

/// The longest piece in which data of admin commands is sent.
const PIECE_BYTES: usize = 128 << 10;

/// Takes a command.
pub(super) fn command(queue: &mut Queue, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let Role::Admin(role) = &mut queue.role else {
        return Err(status::SEQUENCE.into());
    };
    if role.shared.is_dead() {
        return Err(Refusal::End(End::Now(CloseReason::Timeout)));
    }
    match command.opcode() {
        KEEP_ALIVE => role.shared.keep_alive(cx.now),
        _ => role.shared.beat(cx.now),
    }
    match role.admin.data_bytes(command)? {
        Transfer::FromHost(length) if length > 0 => {
            let work = Work::Gather {
                what: Gathering::Admin,
                asked: false,
            };
            queue.bring(command, work, Target::NONE, length, data, cx)?;
            return Ok(());
        }
        Transfer::ToHost(length) if length > 0 => {
            let sgl = Sgl::parse(command)?;
            if sgl.carrier != Carrier::Transport {
                return Err(status::SGL_TYPE.into());
            }
            if sgl.length < length {
                return Err(status::SGL_LENGTH.into());
            }
        }
        _ => {}
    }
    let slot = queue.begin(command, Work::Wait)?;
    execute(queue, slot, cx)?;
    Ok(())
}

/// Carries out a command whose data is here.
pub(super) fn execute(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = queue.engine.request(slot);
    let data = std::mem::take(&mut request.own.buffer);
    request.own.work = Work::Wait;
    let command = request.own.command;
    let Role::Admin(role) = &mut queue.role else {
        return Ok(());
    };
    let (turn, host) = (role.admin.execute(cx.now, &command, &data), role.host);
    match turn {
        Turn::Reply(reply) => answer_with(queue, slot, reply, cx),
        Turn::Later => {}
        Turn::Reserve { volume, command } => {
            let tag = queue.engine.tag(slot);
            cx.service.reserve(queue.engine.front(), tag, volume, host, command);
        }
        Turn::Ask(question) => {
            let tag = queue.engine.tag(slot);
            cx.service
                .register(queue.engine.front(), tag, Box::new(Call::Ask(question)));
        }
    }
    events(queue, cx);
    Ok(())
}

/// The register has answered what an admin command has asked.
pub(super) fn answer(queue: &mut Queue, tag: u64, answer: Answer, cx: &mut Cx<'_>) {
    let Some(slot) = queue.engine.find(tag) else {
        return;
    };
    let command = queue.engine.request(slot).own.command;
    let Role::Admin(role) = &mut queue.role else {
        return;
    };
    let reply = role.admin.answer(&command, answer);
    answer_with(queue, slot, reply, cx);
    events(queue, cx);
}

/// What became of a reservation that an admin command has asked about.
pub(crate) fn reserved(queue: &mut Queue, slot: SlotId, result: Result<&State, Refused>, cx: &mut Cx<'_>) {
    let command = queue.engine.request(slot).own.command;
    let Role::Admin(role) = &mut queue.role else {
        return;
    };
    let reply = role.admin.reservation_reply(&command, result);
    answer_with(queue, slot, reply, cx);
    events(queue, cx);
}

/// Answers a command, with data if there is any.
pub(super) fn answer_with(queue: &mut Queue, slot: SlotId, reply: Reply, cx: &mut Cx<'_>) {
    let id = queue.engine.request(slot).own.id;
    if reply.status == Status::SUCCESS {
        let count = reply.data.chunks(PIECE_BYTES).len();
        for (index, piece) in reply.data.chunks(PIECE_BYTES).enumerate() {
            let flags = if index + 1 == count { flag::LAST } else { 0 };
            let offset = (index * PIECE_BYTES) as u32;
            let data = match cx.pool.take(piece.len()) {
                Some(mut buffer) => {
                    buffer.copy_from_slice(piece);
                    buffer.freeze()
                }
                None => Slice::copy_from(piece),
            };
            queue
                .capsules
                .link
                .send_data(id, offset, data, flags, cx.outbox, cx.pool);
        }
    }
    queue.complete(slot, reply.status, reply.result, cx);
}

/// Ends Asynchronous Event Requests for which something has happened.
pub(super) fn events(queue: &mut Queue, cx: &mut Cx<'_>) {
    loop {
        let Role::Admin(role) = &mut queue.role else {
            return;
        };
        let Some((id, reply)) = role.admin.take_event() else {
            return;
        };
        let Some(slot) = queue.engine.position(|request| request.own.id == id) else {
            continue;
        };
        // That a request was aborted is no error of it.
        queue.capsules.respond(id, reply.status, reply.result, cx);
        queue.forget(slot);
    }
}
