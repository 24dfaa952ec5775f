//! Tasks that have to wait for others (SAM-5, "Task attributes"): an ORDERED one begins when all older ones of its logical unit have
//! ended, and all later ones wait for it. HEAD OF QUEUE waits for nobody; simple tasks are carried out side by side, in any order.
//!
//! Each session has its own task sets, so that this is decided here. Hardly an initiator uses it: what none has asked for costs nothing.

use super::command::{self, Carried};
use super::{Session, work};
use crate::Cx;
use crate::connection::End;
use amita_frontend::slots::SlotId;
use amita_scsi::Attribute;
use amita_scsi::sense::Status;
use std::collections::VecDeque;

/// A command that waits.
#[derive(Debug)]
struct Held {
    slot: SlotId,
    serial: u64,
    cdb: Vec<u8>,
    attribute: Attribute,
    carried: Carried,
}

/// The commands of a session that wait for others.
#[derive(Debug, Default)]
pub(super) struct Order {
    held: VecDeque<Held>,
    /// Bytes of data that came with them.
    held_bytes: usize,
    /// Ordered tasks that have not ended.
    ordered: usize,
}

impl Order {
    /// A task has ended.
    pub fn ended(&mut self, is_ordered: bool) {
        self.ordered -= usize::from(is_ordered);
    }
}

/// Does a task have to wait for an older one of its logical unit?
fn is_blocked(session: &Session, slot_lun: amita_scsi::Lun, serial: u64, is_ordered: bool) -> bool {
    let blocks = session.engine.position(|request| {
        let own = &request.own;
        let is_older = own.parent.is_none() && own.serial < serial && own.lun == slot_lun;
        is_older && (is_ordered || own.is_ordered)
    });
    blocks.is_some()
}

/// Begins a command, or has it wait for its turn.
pub(super) fn begin(
    session: &mut Session,
    slot: SlotId,
    cdb: &[u8],
    attribute: Attribute,
    carried: Carried,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    let is_ordered = attribute == Attribute::Ordered;
    if (session.order.ordered == 0 && !is_ordered) || attribute == Attribute::HeadOfQueue {
        return command::carry_out(session, slot, cdb, attribute, carried, cx);
    }
    let own = &mut session.engine.request(slot).own;
    own.is_ordered = is_ordered;
    let (lun, serial) = (own.lun, own.serial);
    session.order.ordered += usize::from(is_ordered);
    if !is_blocked(session, lun, serial, is_ordered) {
        return command::carry_out(session, slot, cdb, attribute, carried, cx);
    }
    // Its data is held as long as it waits, and data that comes behind it would be, too.
    let bytes = carried.data.len();
    if !carried.is_last || session.order.held_bytes + bytes > session.port.config().gather_bytes {
        return work::refuse(session, slot, Status::TaskSetFull, carried.is_last, cx);
    }
    session.order.held_bytes += bytes;
    session.order.held.push_back(Held {
        slot,
        serial,
        cdb: cdb.to_vec(),
        attribute,
        carried,
    });
    Ok(())
}

/// Begins those whose turn it is. Called at the end of each pass.
pub(super) fn release(session: &mut Session, cx: &mut Cx<'_>) -> Result<(), End> {
    let mut place = 0;
    while let Some(held) = session.order.held.get(place) {
        let (slot, serial) = (held.slot, held.serial);
        let found = session.engine.busy(slot).filter(|request| request.own.serial == serial);
        let is_ready = match found.map(|request| (request.own.lun, request.own.is_ordered)) {
            // It was aborted.
            None => None,
            Some((lun, is_ordered)) if is_blocked(session, lun, serial, is_ordered) => {
                place += 1;
                continue;
            }
            Some(_) => Some(()),
        };
        let Some(held) = session.order.held.remove(place) else {
            return Ok(());
        };
        session.order.held_bytes -= held.carried.data.len();
        if is_ready.is_some() {
            command::carry_out(session, slot, &held.cdb, held.attribute, held.carried, cx)?;
            // What has ended at once may let others begin.
            place = 0;
        }
    }
    Ok(())
}
