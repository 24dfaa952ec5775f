//! Reservations: kept by the storage service for all gateways (NVM Express Base 2.1, 7.2 to 7.5 and 8.1.24).

use super::*;
use crate::reservations;
use crate::wire::flag;
use amita_frontend::reservation::{Refusal as Refused, State};
use amita_frontend::slots::SlotId;

/// Reservation Report: the extended structure (EDS).
const EXTENDED: u32 = 1;

impl Queue {
    pub(super) fn reservation_command(
        &mut self,
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
                let slot = self.begin(command, Work::Wait)?;
                self.aim(slot, target, sgl.length);
                self.reserve(slot, cx)?;
            }
            length => {
                let what = Gathering::Reserve;
                self.bring(command, Work::Gather { what, asked: false }, target, length, data, cx)?;
            }
        }
        Ok(())
    }

    /// All that a reservation command needs is here.
    pub(crate) fn reserve(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let tag = self.engine.tag(slot);
        let host = self.host();
        let host_id = self.host_id();
        let request = self.engine.request(slot);
        let data = std::mem::take(&mut request.own.buffer);
        request.own.work = Work::Wait;
        match reservations::decode(&request.own.command, &data, &host_id) {
            Ok(command) => {
                let volume = request.own.target.volume;
                cx.service.reserve(self.engine.front(), tag, volume, host, command);
                Ok(())
            }
            Err(status) => {
                request.fail(status, None);
                self.finish_if_complete(slot, cx)
            }
        }
    }

    /// What became of a reservation command.
    pub(crate) fn reserved(&mut self, tag: u64, result: Result<State, Refused>, cx: &mut Cx<'_>) -> Result<(), End> {
        let Some(slot) = self.engine.find(tag) else {
            return Ok(());
        };
        if self.is_admin() {
            self.admin_reserved(slot, result.as_ref().map_err(Clone::clone), cx);
            return Ok(());
        }
        let request = self.engine.request(slot);
        let command = request.own.command;
        match result {
            Ok(state) if command.opcode() == opcode::RESERVATION_REPORT => {
                let extended = command.dword(11) & EXTENDED != 0;
                let mut page = reservations::encode_report(&state, extended);
                page.resize(request.own.length as usize, 0);
                let id = request.own.id;
                self.link
                    .send_data(id, 0, Slice::copy_from(&page), flag::LAST, cx.outbox, cx.pool);
            }
            Ok(_) => {}
            Err(refused) => request.fail(reservations::status(&refused), None),
        }
        self.engine.request(slot).issued = true;
        self.finish_if_complete(slot, cx)
    }
}
