//! Commands of the admin queue: the data that they move, around [`Admin`](crate::admin::Admin), which carries them
//! out.

use super::fabrics::Role;
use super::*;
use crate::admin::{Transfer, Turn};
use crate::command::Reply;
use crate::hub::{Answer, Call};
use amita_frontend::reservation::{Refusal as Refused, State};

/// The longest piece in which data of admin commands is sent.
const PIECE_BYTES: usize = 128 << 10;

impl Queue {
    /// Takes a command.
    pub(super) fn admin_command(&mut self, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let Role::Admin(role) = &mut self.role else {
            return Err(status::SEQUENCE.into());
        };
        role.shared.beat();
        match role.admin.data_bytes(command)? {
            Transfer::FromHost(length) if length > 0 => {
                let work = Work::Gather {
                    what: Gathering::Admin,
                    asked: false,
                };
                self.bring(command, work, Target::NONE, length, data, cx)?;
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
        let slot = self.begin(command, Work::Wait)?;
        self.execute_admin(slot, cx)?;
        Ok(())
    }

    /// Carries out a command whose data is here.
    pub(super) fn execute_admin(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.engine.request(slot);
        let data = std::mem::take(&mut request.own.buffer);
        request.own.work = Work::Wait;
        let command = request.own.command;
        let Role::Admin(role) = &mut self.role else {
            return Ok(());
        };
        let (turn, host) = (role.admin.execute(cx.now, &command, &data), role.host);
        match turn {
            Turn::Reply(reply) => self.admin_reply(slot, reply, cx),
            Turn::Later => {}
            Turn::Reserve { volume, command } => {
                let tag = self.engine.tag(slot);
                cx.service.reserve(self.engine.front(), tag, volume, host, command);
            }
            Turn::Ask(question) => {
                let tag = self.engine.tag(slot);
                cx.service
                    .register(self.engine.front(), tag, Box::new(Call::Ask(question)));
            }
        }
        self.admin_events(cx);
        Ok(())
    }

    /// The register has answered what an admin command has asked.
    pub(super) fn admin_answer(&mut self, tag: u64, answer: Answer, cx: &mut Cx<'_>) {
        let Some(slot) = self.engine.find(tag) else {
            return;
        };
        let command = self.engine.request(slot).own.command;
        let Role::Admin(role) = &mut self.role else {
            return;
        };
        let reply = role.admin.answer(&command, answer);
        self.admin_reply(slot, reply, cx);
        self.admin_events(cx);
    }

    /// What became of a reservation that an admin command has asked about.
    pub(crate) fn admin_reserved(&mut self, slot: SlotId, result: Result<&State, Refused>, cx: &mut Cx<'_>) {
        let command = self.engine.request(slot).own.command;
        let Role::Admin(role) = &mut self.role else {
            return;
        };
        let reply = role.admin.reservation_reply(&command, result);
        self.admin_reply(slot, reply, cx);
        self.admin_events(cx);
    }

    /// Answers a command, with data if there is any.
    pub(super) fn admin_reply(&mut self, slot: SlotId, reply: Reply, cx: &mut Cx<'_>) {
        let id = self.engine.request(slot).own.id;
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
                self.link.send_data(id, offset, data, flags, cx.outbox, cx.pool);
            }
        }
        self.complete(slot, reply.status, reply.result, cx);
    }

    /// Ends Asynchronous Event Requests for which something has happened.
    pub(super) fn admin_events(&mut self, cx: &mut Cx<'_>) {
        loop {
            let Role::Admin(role) = &mut self.role else {
                return;
            };
            let Some((id, reply)) = role.admin.take_event() else {
                return;
            };
            let Some(slot) = self.engine.position(|request| request.own.id == id) else {
                continue;
            };
            // That a request was aborted is no error of it.
            self.respond(id, reply.status, reply.result, cx);
            self.forget(slot);
        }
    }
}
