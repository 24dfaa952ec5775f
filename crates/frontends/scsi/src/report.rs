//! What a device tells of itself beside its pages: REQUEST SENSE, REPORT LUNS, READ CAPACITY, REPORT SUPPORTED OPERATION CODES and REPORT
//! SUPPORTED TASK MANAGEMENT FUNCTIONS.

#[cfg(test)]
mod tests;

use crate::command::{Cdb, Lun};
use crate::device::{Scope, has};
use crate::nexus::Nexus;
use crate::opcodes::{COMMANDS, Known};
use crate::plan::Answer;
use crate::sense::{Format, Sense};
use crate::unit::Target;

/// REQUEST SENSE (SPC-4): the sense data are data-in; DESC chooses their form.
pub(crate) fn sense(cdb: &Cdb, sense: &Sense) -> Answer {
    let format = match cdb.bit(1, 0) {
        true => Format::Descriptor,
        false => Format::Fixed,
    };
    Answer::with_data(sense.encode(format), u64::from(cdb.u8(4)))
}

/// REPORT LUNS (SPC-4): those that this initiator may see. It knows them then.
pub(crate) fn luns(cdb: &Cdb, target: &Target, nexus: &mut Nexus) -> Result<Answer, Sense> {
    let (units, well_known) = match cdb.u8(2) {
        0x00 => (true, false),
        0x01 => (false, true),
        0x02 => (true, true),
        _ => return Err(Sense::in_cdb(2, None)),
    };
    let mut list = vec![0; 8];
    if units {
        let name = nexus.initiator().name.clone();
        for unit in target.units_of(&name) {
            list.extend(Lun::of(unit.number).0);
        }
    }
    if well_known {
        list.extend(Lun::REPORT_LUNS.0);
    }
    let length = (list.len() - 8) as u32;
    list[..4].copy_from_slice(&length.to_be_bytes());
    nexus.forget_inventory();
    Ok(Answer::with_data(list, u64::from(cdb.u32(6))))
}

/// READ CAPACITY (10) (SBC-3): all ones where the long form has to be asked.
pub(crate) fn capacity_10(scope: &Scope<'_>) -> Result<Answer, Sense> {
    // "If PMI is 0 and LOGICAL BLOCK ADDRESS is not, [...] INVALID FIELD IN CDB" (SBC-2; obsolete since).
    if !scope.cdb.bit(8, 0) && scope.cdb.u32(2) != 0 {
        return Err(Sense::in_cdb(2, None));
    }
    let last = u32::try_from(scope.unit.blocks() - 1).unwrap_or(u32::MAX);
    let data = [last.to_be_bytes(), scope.unit.block_bytes.to_be_bytes()].concat();
    Ok(Answer::with_data(data, 8))
}

/// READ CAPACITY (16) (SBC-3).
pub(crate) fn capacity_16(scope: &Scope<'_>) -> Answer {
    // LBPME: it is thinly provisioned; LBPRZ: what is unmapped reads as zeros.
    const PROVISIONED_AND_ZEROS: u8 = 0xc0;
    let unit = scope.unit;
    let mut data = vec![0; 32];
    data[..8].copy_from_slice(&(unit.blocks() - 1).to_be_bytes());
    data[8..12].copy_from_slice(&unit.block_bytes.to_be_bytes());
    data[13] = unit.blocks_per_physical().ilog2() as u8;
    // LOWEST ALIGNED LOGICAL BLOCK ADDRESS is 0.
    data[14] = PROVISIONED_AND_ZEROS;
    Answer::with_data(data, u64::from(scope.cdb.u32(10)))
}

/// How long a command may take: no times are told.
const TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// REPORT SUPPORTED OPERATION CODES (SPC-4).
pub(crate) fn commands(scope: &Scope<'_>) -> Result<Answer, Sense> {
    let cdb = &scope.cdb;
    let with_timeouts = cdb.bit(2, 7);
    let (opcode, action) = (cdb.u8(3), cdb.u16(4));
    let is_there = |known: &&Known| has(scope.catalog, scope.target, known.needs);
    let mut of_opcode = COMMANDS
        .iter()
        .filter(is_there)
        .filter(|known| known.opcode == opcode)
        .peekable();
    let has_actions = of_opcode.peek().is_some_and(|known| known.action.is_some());
    let is_there_at_all = of_opcode.peek().is_some();
    let mut with_action = of_opcode
        .clone()
        .filter(|known| known.action.map(u16::from) == Some(action));
    let data = match cdb.u8(2) & 7 {
        0 => all_commands(COMMANDS.iter().filter(is_there), with_timeouts),
        // "[...] a command that has service actions: INVALID FIELD IN CDB", and the other way round.
        1 if has_actions => return Err(Sense::in_cdb(2, Some(2))),
        1 => one_command(of_opcode.next(), with_timeouts),
        2 if is_there_at_all && !has_actions => return Err(Sense::in_cdb(2, Some(2))),
        2 => one_command(with_action.next(), with_timeouts),
        3 if has_actions => one_command(with_action.next(), with_timeouts),
        // Of a command without service actions, none but 0 is supported.
        3 => one_command(of_opcode.next().filter(|_| action == 0), with_timeouts),
        _ => return Err(Sense::in_cdb(2, Some(2))),
    };
    Ok(Answer::with_data(data, u64::from(cdb.u32(6))))
}

fn flag(bit: u8, is_set: bool) -> u8 {
    if is_set { bit } else { 0 }
}

fn all_commands<'a>(commands: impl Iterator<Item = &'a Known>, with_timeouts: bool) -> Vec<u8> {
    // CTDP, SERVACTV.
    const TIMEOUTS_FOLLOW: u8 = 0x02;
    const HAS_ACTION: u8 = 0x01;
    let mut data = vec![0; 4];
    for known in commands {
        let [high, low] = u16::from(known.action.unwrap_or(0)).to_be_bytes();
        let flags = flag(HAS_ACTION, known.action.is_some()) | flag(TIMEOUTS_FOLLOW, with_timeouts);
        data.extend([known.opcode, 0, high, low, 0, flags, 0, known.usage.len() as u8]);
        if with_timeouts {
            data.extend(TIMEOUTS);
        }
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

fn one_command(known: Option<&Known>, with_timeouts: bool) -> Vec<u8> {
    // CTDP; SUPPORT 1: it is not there, 3: as the standard has it.
    const TIMEOUTS_FOLLOW: u8 = 0x80;
    const NOT_SUPPORTED: u8 = 1;
    const SUPPORTED: u8 = 3;
    let Some(known) = known else {
        return vec![0, NOT_SUPPORTED, 0, 0];
    };
    let usage = known.usage_data();
    let [high, low] = (usage.len() as u16).to_be_bytes();
    let mut data = vec![0, SUPPORTED | flag(TIMEOUTS_FOLLOW, with_timeouts), high, low];
    data.extend(usage);
    if with_timeouts {
        data.extend(TIMEOUTS);
    }
    data
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4): what the transport can. No times are told in the long form, either.
pub(crate) fn functions(scope: &Scope<'_>, nexus: &Nexus) -> Answer {
    let is_long = scope.cdb.bit(2, 7);
    let [first, second] = nexus.functions;
    let mut data = vec![first, second, 0, 0];
    if is_long {
        data[3] = 12;
        data.extend([0; 12]);
    }
    Answer::with_data(data, u64::from(scope.cdb.u32(6)))
}
