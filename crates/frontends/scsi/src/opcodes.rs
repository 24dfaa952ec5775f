//! The commands that there are, each with the bits that mean something in its descriptor block: one table, by which reserved bits are
//! refused and which REPORT SUPPORTED OPERATION CODES tells (SPC-4, "REPORT SUPPORTED OPERATION CODES command").

use crate::command::Cdb;
use crate::plan::Answer;
use crate::sense::{Key, Sense, code};
use crate::unit::Alua;

pub const TEST_UNIT_READY: u8 = 0x00;
pub const REQUEST_SENSE: u8 = 0x03;
pub const READ_6: u8 = 0x08;
pub const WRITE_6: u8 = 0x0a;
pub const INQUIRY: u8 = 0x12;
pub const MODE_SELECT_6: u8 = 0x15;
pub const RESERVE_6: u8 = 0x16;
pub const RELEASE_6: u8 = 0x17;
pub const MODE_SENSE_6: u8 = 0x1a;
pub const READ_CAPACITY_10: u8 = 0x25;
pub const READ_10: u8 = 0x28;
pub const WRITE_10: u8 = 0x2a;
pub const WRITE_AND_VERIFY_10: u8 = 0x2e;
pub const VERIFY_10: u8 = 0x2f;
pub const PRE_FETCH_10: u8 = 0x34;
pub const SYNCHRONIZE_CACHE_10: u8 = 0x35;
pub const WRITE_SAME_10: u8 = 0x41;
pub const UNMAP: u8 = 0x42;
pub const MODE_SELECT_10: u8 = 0x55;
pub const RESERVE_10: u8 = 0x56;
pub const RELEASE_10: u8 = 0x57;
pub const MODE_SENSE_10: u8 = 0x5a;
pub const PERSISTENT_RESERVE_IN: u8 = 0x5e;
pub const PERSISTENT_RESERVE_OUT: u8 = 0x5f;
pub const THIRD_PARTY_COPY_OUT: u8 = 0x83;
pub const THIRD_PARTY_COPY_IN: u8 = 0x84;
pub const READ_16: u8 = 0x88;
pub const COMPARE_AND_WRITE: u8 = 0x89;
pub const WRITE_16: u8 = 0x8a;
pub const ORWRITE_16: u8 = 0x8b;
pub const WRITE_AND_VERIFY_16: u8 = 0x8e;
pub const VERIFY_16: u8 = 0x8f;
pub const PRE_FETCH_16: u8 = 0x90;
pub const SYNCHRONIZE_CACHE_16: u8 = 0x91;
pub const WRITE_SAME_16: u8 = 0x93;
pub const WRITE_ATOMIC_16: u8 = 0x9c;
pub const SERVICE_ACTION_IN_16: u8 = 0x9e;
pub const REPORT_LUNS: u8 = 0xa0;
pub const MAINTENANCE_IN: u8 = 0xa3;
pub const MAINTENANCE_OUT: u8 = 0xa4;
pub const READ_12: u8 = 0xa8;
pub const WRITE_12: u8 = 0xaa;
pub const WRITE_AND_VERIFY_12: u8 = 0xae;
pub const VERIFY_12: u8 = 0xaf;

/// Service actions.
pub mod action {
    pub const READ_KEYS: u8 = 0x00;
    pub const READ_RESERVATION: u8 = 0x01;
    pub const REPORT_CAPABILITIES: u8 = 0x02;
    pub const READ_FULL_STATUS: u8 = 0x03;

    pub const REGISTER: u8 = 0x00;
    pub const RESERVE: u8 = 0x01;
    pub const RELEASE: u8 = 0x02;
    pub const CLEAR: u8 = 0x03;
    pub const PREEMPT: u8 = 0x04;
    pub const PREEMPT_AND_ABORT: u8 = 0x05;
    pub const REGISTER_AND_IGNORE: u8 = 0x06;
    pub const REGISTER_AND_MOVE: u8 = 0x07;

    pub const EXTENDED_COPY: u8 = 0x00;
    pub const POPULATE_TOKEN: u8 = 0x10;
    pub const WRITE_USING_TOKEN: u8 = 0x11;

    pub const COPY_STATUS: u8 = 0x00;
    pub const RECEIVE_DATA: u8 = 0x01;
    pub const OPERATING_PARAMETERS: u8 = 0x03;
    pub const FAILED_SEGMENT_DETAILS: u8 = 0x04;
    pub const ROD_TOKEN_INFORMATION: u8 = 0x07;

    pub const READ_CAPACITY_16: u8 = 0x10;
    pub const GET_LBA_STATUS: u8 = 0x12;

    pub const TARGET_PORT_GROUPS: u8 = 0x0a;
    pub const SUPPORTED_OPERATION_CODES: u8 = 0x0c;
    pub const SUPPORTED_FUNCTIONS: u8 = 0x0d;
}

/// What a reservation of another host says to a command (SPC-4 5.13.1, table 65; SBC-4 4.17, table 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    Open,
    /// Who may not read may not give it, either. So far as the gateway has heard: whom that refuses the owner is [asked](crate::Plan::Ask) about.
    Read,
    /// The same of who may not write.
    Write,
    /// The volume's owner decides when it is done: its I/O, or what it says of reservations.
    Owner,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub opcode: u8,
    /// The service action in byte 1, if it has one.
    pub action: Option<u8>,
    /// Of every byte the bits that mean something, as many bytes as the block has. The operation code and the service action
    /// stand for themselves.
    pub usage: &'static [u8],
    pub gate: Gate,
    /// Which switch of the target it needs.
    pub needs: Needs,
}

/// What a command needs beside a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// Hosts may move volumes.
    ExplicitAccess,
    /// There are keys for tokens.
    Tokens,
    /// Reservations know more than NVMe asks of them.
    ExtendedReservations,
}

const fn plain(opcode: u8, usage: &'static [u8], gate: Gate) -> Known {
    Known {
        opcode,
        action: None,
        usage,
        gate,
        needs: Needs::Nothing,
    }
}

const fn with(opcode: u8, action: u8, usage: &'static [u8], gate: Gate) -> Known {
    Known {
        opcode,
        action: Some(action),
        usage,
        gate,
        needs: Needs::Nothing,
    }
}

const fn needing(known: Known, needs: Needs) -> Known {
    Known { needs, ..known }
}

/// DPO, FUA, RARC, FUA_NV: they ask for nothing that is not so anyway. (What is read is checked, what is written is durable.)
const READ_FLAGS: u8 = 0x1e;
/// DPO, FUA, FUA_NV.
const WRITE_FLAGS: u8 = 0x1a;
/// DPO, BYTCHK.
const VERIFY_FLAGS: u8 = 0x16;
const FF: u8 = 0xff;

const fn long(flags: u8) -> [u8; 16] {
    [FF, flags, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0]
}

const fn middle(flags: u8) -> [u8; 12] {
    [FF, flags, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0]
}

const fn short(flags: u8) -> [u8; 10] {
    [FF, flags, FF, FF, FF, FF, 0, FF, FF, 0]
}

const READ_LONG: [u8; 16] = long(READ_FLAGS);
const WRITE_LONG: [u8; 16] = long(WRITE_FLAGS);
const VERIFY_LONG: [u8; 16] = long(VERIFY_FLAGS);
const PRE_FETCH_LONG: [u8; 16] = long(0x02);
const SYNCHRONIZE_LONG: [u8; 16] = long(0x06);
const SAME_LONG: [u8; 16] = long(0x09);
const READ_MIDDLE: [u8; 12] = middle(READ_FLAGS);
const WRITE_MIDDLE: [u8; 12] = middle(WRITE_FLAGS);
const VERIFY_MIDDLE: [u8; 12] = middle(VERIFY_FLAGS);
const READ_SHORT: [u8; 10] = short(READ_FLAGS);
const WRITE_SHORT: [u8; 10] = short(WRITE_FLAGS);
const VERIFY_SHORT: [u8; 10] = short(VERIFY_FLAGS);
const PRE_FETCH_SHORT: [u8; 10] = short(0x02);
const SYNCHRONIZE_SHORT: [u8; 10] = short(0x06);
const SAME_SHORT: [u8; 10] = short(0x08);
const SIX: [u8; 6] = [FF, 0, 0, 0, 0, 0];
const BLOCKS_SIX: [u8; 6] = [FF, 0x1f, FF, FF, FF, 0];
const TEN: [u8; 10] = [FF, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const LIST_TEN: [u8; 10] = [FF, 0x1f, 0, 0, 0, 0, 0, FF, FF, 0];
const RESERVE_OUT: [u8; 10] = [FF, 0x1f, FF, 0, 0, FF, FF, FF, FF, 0];
const MAINTENANCE: [u8; 12] = [FF, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0];
const COPY_LIST: [u8; 16] = [FF, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0];
const TOKEN_LIST: [u8; 16] = [FF, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0];
const COPY_RESULTS: [u8; 16] = [FF, 0x1f, FF, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0];
const TOKEN_RESULTS: [u8; 16] = [FF, 0x1f, FF, FF, FF, FF, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0];

/// All of them, in order of the operation code and the service action.
pub const COMMANDS: &[Known] = &[
    plain(TEST_UNIT_READY, &SIX, Gate::Open),
    plain(REQUEST_SENSE, &[FF, 0x01, 0, 0, FF, 0], Gate::Open),
    plain(READ_6, &BLOCKS_SIX, Gate::Owner),
    plain(WRITE_6, &BLOCKS_SIX, Gate::Owner),
    plain(INQUIRY, &[FF, 0x01, FF, FF, FF, 0], Gate::Open),
    plain(MODE_SELECT_6, &[FF, 0x11, 0, 0, FF, 0], Gate::Write),
    needing(plain(RESERVE_6, &SIX, Gate::Owner), Needs::ExtendedReservations),
    needing(plain(RELEASE_6, &SIX, Gate::Owner), Needs::ExtendedReservations),
    plain(MODE_SENSE_6, &[FF, 0x08, FF, FF, FF, 0], Gate::Read),
    plain(READ_CAPACITY_10, &[FF, 0, FF, FF, FF, FF, 0, 0, 0x01, 0], Gate::Open),
    plain(READ_10, &READ_SHORT, Gate::Owner),
    plain(WRITE_10, &WRITE_SHORT, Gate::Owner),
    plain(WRITE_AND_VERIFY_10, &VERIFY_SHORT, Gate::Owner),
    plain(VERIFY_10, &VERIFY_SHORT, Gate::Owner),
    plain(PRE_FETCH_10, &PRE_FETCH_SHORT, Gate::Read),
    plain(SYNCHRONIZE_CACHE_10, &SYNCHRONIZE_SHORT, Gate::Owner),
    plain(WRITE_SAME_10, &SAME_SHORT, Gate::Owner),
    plain(UNMAP, &[FF, 0, 0, 0, 0, 0, 0, FF, FF, 0], Gate::Owner),
    plain(MODE_SELECT_10, &[FF, 0x11, 0, 0, 0, 0, 0, FF, FF, 0], Gate::Write),
    needing(plain(RESERVE_10, &TEN, Gate::Owner), Needs::ExtendedReservations),
    needing(plain(RELEASE_10, &TEN, Gate::Owner), Needs::ExtendedReservations),
    plain(MODE_SENSE_10, &[FF, 0x18, FF, FF, 0, 0, 0, FF, FF, 0], Gate::Read),
    with(PERSISTENT_RESERVE_IN, action::READ_KEYS, &LIST_TEN, Gate::Owner),
    with(PERSISTENT_RESERVE_IN, action::READ_RESERVATION, &LIST_TEN, Gate::Owner),
    with(
        PERSISTENT_RESERVE_IN,
        action::REPORT_CAPABILITIES,
        &LIST_TEN,
        Gate::Owner,
    ),
    with(PERSISTENT_RESERVE_IN, action::READ_FULL_STATUS, &LIST_TEN, Gate::Owner),
    with(PERSISTENT_RESERVE_OUT, action::REGISTER, &RESERVE_OUT, Gate::Owner),
    with(PERSISTENT_RESERVE_OUT, action::RESERVE, &RESERVE_OUT, Gate::Owner),
    with(PERSISTENT_RESERVE_OUT, action::RELEASE, &RESERVE_OUT, Gate::Owner),
    with(PERSISTENT_RESERVE_OUT, action::CLEAR, &RESERVE_OUT, Gate::Owner),
    with(PERSISTENT_RESERVE_OUT, action::PREEMPT, &RESERVE_OUT, Gate::Owner),
    with(
        PERSISTENT_RESERVE_OUT,
        action::PREEMPT_AND_ABORT,
        &RESERVE_OUT,
        Gate::Owner,
    ),
    with(
        PERSISTENT_RESERVE_OUT,
        action::REGISTER_AND_IGNORE,
        &RESERVE_OUT,
        Gate::Owner,
    ),
    needing(
        with(
            PERSISTENT_RESERVE_OUT,
            action::REGISTER_AND_MOVE,
            &RESERVE_OUT,
            Gate::Owner,
        ),
        Needs::ExtendedReservations,
    ),
    with(THIRD_PARTY_COPY_OUT, action::EXTENDED_COPY, &COPY_LIST, Gate::Write),
    needing(
        with(THIRD_PARTY_COPY_OUT, action::POPULATE_TOKEN, &TOKEN_LIST, Gate::Read),
        Needs::Tokens,
    ),
    needing(
        with(
            THIRD_PARTY_COPY_OUT,
            action::WRITE_USING_TOKEN,
            &TOKEN_LIST,
            Gate::Write,
        ),
        Needs::Tokens,
    ),
    with(THIRD_PARTY_COPY_IN, action::COPY_STATUS, &COPY_RESULTS, Gate::Open),
    with(THIRD_PARTY_COPY_IN, action::RECEIVE_DATA, &COPY_RESULTS, Gate::Open),
    with(
        THIRD_PARTY_COPY_IN,
        action::OPERATING_PARAMETERS,
        &COPY_LIST,
        Gate::Open,
    ),
    with(
        THIRD_PARTY_COPY_IN,
        action::FAILED_SEGMENT_DETAILS,
        &COPY_RESULTS,
        Gate::Open,
    ),
    needing(
        with(
            THIRD_PARTY_COPY_IN,
            action::ROD_TOKEN_INFORMATION,
            &TOKEN_RESULTS,
            Gate::Open,
        ),
        Needs::Tokens,
    ),
    plain(READ_16, &READ_LONG, Gate::Owner),
    plain(
        COMPARE_AND_WRITE,
        &[FF, WRITE_FLAGS, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0, 0, FF, 0, 0],
        Gate::Owner,
    ),
    plain(WRITE_16, &WRITE_LONG, Gate::Owner),
    plain(ORWRITE_16, &WRITE_LONG, Gate::Owner),
    plain(WRITE_AND_VERIFY_16, &VERIFY_LONG, Gate::Owner),
    plain(VERIFY_16, &VERIFY_LONG, Gate::Owner),
    plain(PRE_FETCH_16, &PRE_FETCH_LONG, Gate::Read),
    plain(SYNCHRONIZE_CACHE_16, &SYNCHRONIZE_LONG, Gate::Owner),
    plain(WRITE_SAME_16, &SAME_LONG, Gate::Owner),
    plain(
        WRITE_ATOMIC_16,
        &[FF, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        Gate::Owner,
    ),
    with(
        SERVICE_ACTION_IN_16,
        action::READ_CAPACITY_16,
        &[FF, 0x1f, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0x01, 0],
        Gate::Open,
    ),
    with(
        SERVICE_ACTION_IN_16,
        action::GET_LBA_STATUS,
        &[FF, 0x1f, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        Gate::Read,
    ),
    plain(REPORT_LUNS, &[FF, 0, FF, 0, 0, 0, FF, FF, FF, FF, 0, 0], Gate::Open),
    with(
        MAINTENANCE_IN,
        action::TARGET_PORT_GROUPS,
        &[FF, 0xff, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        Gate::Open,
    ),
    with(
        MAINTENANCE_IN,
        action::SUPPORTED_OPERATION_CODES,
        &[FF, 0x1f, 0x87, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        Gate::Read,
    ),
    with(
        MAINTENANCE_IN,
        action::SUPPORTED_FUNCTIONS,
        &[FF, 0x1f, 0x80, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        Gate::Read,
    ),
    needing(
        with(MAINTENANCE_OUT, action::TARGET_PORT_GROUPS, &MAINTENANCE, Gate::Write),
        Needs::ExplicitAccess,
    ),
    plain(READ_12, &READ_MIDDLE, Gate::Owner),
    plain(WRITE_12, &WRITE_MIDDLE, Gate::Owner),
    plain(WRITE_AND_VERIFY_12, &VERIFY_MIDDLE, Gate::Owner),
    plain(VERIFY_12, &VERIFY_MIDDLE, Gate::Owner),
];

/// Where the commands of each operation code begin; where there are none, anywhere else. Every I/O is looked up.
const FIRST: [u8; 256] = {
    let (mut first, mut at) = ([0; 256], COMMANDS.len());
    while at > 0 {
        at -= 1;
        first[COMMANDS[at].opcode as usize] = at as u8;
    }
    first
};

impl Known {
    /// The command of a descriptor block, of those that `has` lets through.
    ///
    /// # Errors
    /// There is no such operation code, or no such service action of it.
    pub fn find(cdb: &Cdb, has: impl Fn(Needs) -> bool) -> Result<&'static Known, Sense> {
        let opcode = cdb.opcode();
        let mut of_opcode = COMMANDS[usize::from(FIRST[usize::from(opcode)])..]
            .iter()
            .take_while(|known| known.opcode == opcode)
            .filter(|known| has(known.needs))
            .peekable();
        if of_opcode.peek().is_none() {
            return Err(Sense::new(Key::IllegalRequest, code::INVALID_OPCODE));
        }
        let mut found = of_opcode.filter(|known| known.action.is_none_or(|action| action == cdb.service_action()));
        // "[...] INVALID FIELD IN CDB" for a service action that is not there (SPC-4, "Operation code with service action").
        found.next().ok_or(Sense::in_cdb(1, Some(4)))
    }

    /// Refuses a block that is too short, or has bits that mean nothing: reserved ones, fields of what is not supported (protection
    /// information, anchoring), NACA. A GROUP NUMBER is ignored: it says under which name statistics are kept, and none are. So is the LUN
    /// that INQUIRY may have by the ways of SCSI-2.
    ///
    /// # Errors
    /// The first such field, with a pointer to it.
    pub fn check_reserved(&self, cdb: &Cdb) -> Result<(), Sense> {
        if cdb.len() < self.usage.len() {
            return Err(Sense::in_cdb(cdb.len() as u16, None));
        }
        let group = group_number_at(self.opcode);
        for (at, meant) in self.usage.iter().enumerate().skip(1) {
            let ignored = match (self.opcode, at) {
                (INQUIRY, 1) => LUN_OF_SCSI_2,
                _ if group == Some(at) => GROUP_NUMBER,
                _ => 0,
            };
            let wrong = cdb.u8(at) & !(meant | ignored);
            if wrong != 0 {
                return Err(Sense::in_cdb(at as u16, field_of(at, *meant, wrong)));
            }
        }
        Ok(())
    }

    /// The CDB USAGE DATA: the bits that mean something, the operation code and the service action as they are.
    #[must_use]
    pub fn usage_data(&self) -> Vec<u8> {
        let mut usage = self.usage.to_vec();
        usage[0] = self.opcode;
        if let Some(action) = self.action {
            usage[1] = usage[1] & !0x1f | action;
        }
        usage
    }
}

/// Where SCSI-2 had the number of the logical unit, which the transport brings since. Linux takes a target for one of SCSI-2 until the first INQUIRY
/// has told its version, and where that does not go to LUN 0 (a host that looks for one LUN alone, as os-brick does) these bits are set. In other commands they mean
/// something else.
const LUN_OF_SCSI_2: u8 = 0xe0;

/// GROUP NUMBER, as SBC-3 has it.
const GROUP_NUMBER: u8 = 0x1f;

/// The byte in which a command has its GROUP NUMBER (SBC-3, "Grouping function").
fn group_number_at(opcode: u8) -> Option<usize> {
    match opcode {
        READ_10 | WRITE_10 | WRITE_AND_VERIFY_10 | VERIFY_10 | PRE_FETCH_10 | SYNCHRONIZE_CACHE_10 | WRITE_SAME_10
        | UNMAP => Some(6),
        READ_12 | WRITE_12 | WRITE_AND_VERIFY_12 | VERIFY_12 => Some(10),
        READ_16 | COMPARE_AND_WRITE | WRITE_16 | ORWRITE_16 | WRITE_AND_VERIFY_16 | VERIFY_16 | PRE_FETCH_16
        | SYNCHRONIZE_CACHE_16 | WRITE_SAME_16 | WRITE_ATOMIC_16 => Some(14),
        _ => None,
    }
}

/// The most significant bit of the field in which a wrong bit lies; `None`: it is the whole byte.
fn field_of(at: usize, meant: u8, wrong: u8) -> Option<u8> {
    const PROTECTION: u8 = 0xe0;
    match at {
        // RDPROTECT, WRPROTECT and the like: three bits, whichever of them is set.
        1 if wrong & PROTECTION != 0 => Some(7),
        1 => Some(7 - wrong.leading_zeros() as u8),
        _ if meant == 0 => None,
        _ => Some(7 - wrong.leading_zeros() as u8),
    }
}

/// Does a gateway answer that command, in that state (SPC-4, "Target port asymmetric access states")?
///
/// # Errors
/// NOT READY, with the state.
pub fn check_state(state: Alua, cdb: &Cdb) -> Result<(), Answer> {
    let (opcode, action) = (cdb.opcode(), cdb.service_action());
    let tells_of_itself = matches!(opcode, INQUIRY | REPORT_LUNS | REQUEST_SENSE)
        || matches!(opcode, MAINTENANCE_IN | MAINTENANCE_OUT) && action == action::TARGET_PORT_GROUPS;
    let is_kept = matches!(
        opcode,
        MODE_SENSE_6 | MODE_SENSE_10 | MODE_SELECT_6 | MODE_SELECT_10 | PERSISTENT_RESERVE_IN | PERSISTENT_RESERVE_OUT
    );
    let why = match state {
        Alua::Optimized | Alua::NonOptimized => return Ok(()),
        _ if tells_of_itself => return Ok(()),
        Alua::Standby if is_kept => return Ok(()),
        Alua::Standby => code::TARGET_PORT_STANDBY,
        Alua::Unavailable => code::TARGET_PORT_UNAVAILABLE,
        Alua::Transitioning => code::ASYMMETRIC_ACCESS_TRANSITION,
    };
    Err(Answer::check(Sense::new(Key::NotReady, why)))
}

#[cfg(test)]
mod tests;
