//! Reservations: decoded here, kept by the storage service for all gateways (NVM Express Base 2.1, 7.2 to 7.5 and 8.1.22).

use super::issue::Step;
use super::*;
use crate::nvme::command::Reply;
use crate::reservation::{Refusal as Refused, State};
use crate::slots::SlotId;

impl Queue {
    pub(super) fn reservation_command(
        &mut self,
        _command: &Command,
        _namespace: &Namespace,
        _data: Slice,
        _cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        Err(status::INVALID_OPCODE.into())
    }

    /// What a reservation command asks for is here.
    pub(in crate::nvme) fn reserve(&mut self, _slot: SlotId, _cx: &mut Cx<'_>) -> Step {
        Ok(())
    }

    /// What became of it.
    pub(in crate::nvme) fn reserved(
        &mut self,
        tag: u64,
        result: Result<State, Refused>,
        cx: &mut Cx<'_>,
    ) -> Step {
        let Some((slot, _)) = self.slots.find(tag) else {
            return Ok(());
        };
        self.admin_reserved(slot, result.as_ref().map_err(|refused| *refused), cx);
        Ok(())
    }
}
