//! Reservations: kept by the storage service for all gateways (NVM Express Base 2.1, 7.2 to 7.5 and 8.1.24).

use super::{opcode, target};
use crate::catalog::Namespace;
use crate::command::Command;
use crate::queue::{End, Gathering, Queue, Refusal, Work, admin};
use crate::wire::{Carrier, Sgl, flag, status};
use crate::{Cx, port, reservations};
use amita_frontend::engine::Protocol as _;
use amita_frontend::reservation::{Refusal as Refused, State};
use amita_frontend::slots::SlotId;
use amita_reactor::Slice;

/// Reservation Report: the extended structure (EDS).
const EXTENDED: u32 = 1;

pub(super) fn command(
    queue: &mut Queue,
    command: &Command,
    namespace: &Namespace,
    data: Slice,
    cx: &mut Cx<'_>,
) -> Result<(), Refusal> {
    let target = target(namespace, 0);
    match reservations::bytes_from_host(command) {
        0 => {
            let wanted = reservations::bytes_to_host(command);
            if wanted > u64::from(port::MAX_TRANSFER_BYTES) {
                return Err(status::INVALID_FIELD.into());
            }
            let sgl = Sgl::parse(command)?;
            if sgl.carrier != Carrier::Transport {
                return Err(status::SGL_TYPE.into());
            }
            if u64::from(sgl.length) != wanted {
                return Err(status::SGL_LENGTH.into());
            }
            let slot = queue.begin(command, Work::Wait)?;
            queue.aim(slot, target, sgl.length);
            execute(queue, slot, cx)?;
        }
        length => {
            let what = Gathering::Reserve;
            queue.bring(command, Work::Gather { what, asked: false }, target, length, data, cx)?;
        }
    }
    Ok(())
}

/// All that a reservation command needs is here.
pub(crate) fn execute(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let tag = queue.engine.tag(slot);
    let host = queue.role.host();
    let host_id = queue.role.host_id();
    let request = queue.engine.request(slot);
    let data = std::mem::take(&mut request.own.buffer);
    request.own.work = Work::Wait;
    match reservations::decode(&request.own.command, &data, &host_id) {
        Ok(command) => {
            let volume = request.own.target.source.volume;
            cx.service.reserve(queue.engine.front(), tag, volume, host, command);
            Ok(())
        }
        Err(status) => {
            request.fail(status, None);
            queue.finish_if_complete(slot, cx)
        }
    }
}

/// What became of a reservation command.
pub(crate) fn ended(queue: &mut Queue, tag: u64, result: Result<State, Refused>, cx: &mut Cx<'_>) -> Result<(), End> {
    let Some(slot) = queue.engine.find(tag) else {
        return Ok(());
    };
    if queue.role.is_admin() {
        admin::reserved(queue, slot, result.as_ref().map_err(Clone::clone), cx);
        return Ok(());
    }
    let request = queue.engine.request(slot);
    let command = request.own.command;
    match result {
        Ok(state) if command.opcode() == opcode::RESERVATION_REPORT => {
            let extended = command.dword(11) & EXTENDED != 0;
            let mut page = reservations::encode_report(&state, extended);
            page.resize(request.own.length as usize, 0);
            let id = request.own.id;
            queue
                .capsules
                .link
                .send_data(id, 0, Slice::copy_from(&page), flag::LAST, cx.outbox, cx.pool);
        }
        Ok(_) => {}
        Err(refused) => request.fail(reservations::status(&refused), None),
    }
    queue.engine.request(slot).issued = true;
    queue.finish_if_complete(slot, cx)
}
