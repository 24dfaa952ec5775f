//! The reservation commands as they travel (NVM Express Base 2.1, 7.2 to 7.5): decoded, and their answer encoded.

use super::admin::status::{INVALID_FIELD, INVALID_OPCODE};
use super::command::{Command, Status};
use amita_frontend::HostKey;
use amita_frontend::reservation::{self, Kind, Refusal, Registrant, State};
use aws_lc_rs::digest::{Context, SHA256};

#[cfg(test)]
mod tests;

/// Reservation Register.
pub const REGISTER: u8 = 0x0d;
/// Reservation Report.
pub const REPORT: u8 = 0x0e;
/// Reservation Acquire.
pub const ACQUIRE: u8 = 0x11;
/// Reservation Release.
pub const RELEASE: u8 = 0x15;

const RESERVATION_CONFLICT: Status = Status::new(0, 0x83, true);
const HOST_ID_INCONSISTENT: Status = Status::new(0, 0x18, true);
const INTERNAL_ERROR: Status = Status::new(0, 0x06, true);
/// The path failed, not the command: another may work.
const INTERNAL_PATH_ERROR: Status = Status::new(3, 0x00, false);

/// The key of the host of that NQN and that identifier; never [`HostKey::NONE`]. The half of a SHA-256: who has another name cannot make up an
/// identifier by which it would be that host, and reservations compare all of it. The same in every version: the metadata has it.
#[must_use]
pub fn host_key(nqn: &str, host_id: &[u8; 16]) -> HostKey {
    let mut context = Context::new(&SHA256);
    context.update(host_id);
    context.update(nqn.as_bytes());
    let digest = context.finish();
    let half = digest.as_ref().first_chunk().expect("32 bytes");
    HostKey(u128::from_be_bytes(*half).max(1))
}

/// How many bytes the command takes from the host.
#[must_use]
pub fn bytes_from_host(command: &Command) -> u32 {
    match command.opcode() {
        REGISTER | ACQUIRE => 16,
        RELEASE => 8,
        _ => 0,
    }
}

/// How many bytes the command sends to the host: what is asked for of a report, whose rest is left out or is zero.
#[must_use]
pub fn bytes_to_host(command: &Command) -> u64 {
    match command.opcode() {
        REPORT => (u64::from(command.dword(10)) + 1) * 4,
        _ => 0,
    }
}

/// What a command asks for; `data` is what it brings, `host_id` the identifier of the host that sends it.
pub fn decode(command: &Command, data: &[u8], host_id: &[u8; 16]) -> Result<reservation::Command, Status> {
    let key = |index: usize| {
        let bytes = data.get(8 * index..8 * index + 8).ok_or(INVALID_FIELD)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| INVALID_FIELD)?))
    };
    let dword = command.dword(10);
    let (action, ignore_key, kind) = (dword & 7, dword >> 3 & 1 == 1, (dword >> 8) as u8);
    match command.opcode() {
        REPORT => {
            // A host on fabrics has an identifier of 128 bits, which only the extended structure (EDS) has room for.
            if command.dword(11) & 1 == 0 {
                return Err(HOST_ID_INCONSISTENT);
            }
            Ok(reservation::Command::Report)
        }
        REGISTER => {
            let (old, new, host_id) = (key(0)?, key(1)?, *host_id);
            let persist = match dword >> 30 {
                0 => None,
                2 => Some(false),
                3 => Some(true),
                _ => return Err(INVALID_FIELD),
            };
            match action {
                // A key of 0 is no key.
                0 | 2 if new == 0 => Err(INVALID_FIELD),
                0 => Ok(reservation::Command::Register {
                    host_id,
                    key: new,
                    ignore_key,
                    persist,
                }),
                1 => Ok(reservation::Command::Unregister {
                    key: old,
                    ignore_key,
                    persist,
                }),
                2 => Ok(reservation::Command::Replace {
                    host_id,
                    key: old,
                    new_key: new,
                    ignore_key,
                    persist,
                }),
                _ => Err(INVALID_FIELD),
            }
        }
        // "If IEKEY is set, then the controller shall return Invalid Field": of Acquire and of Release.
        ACQUIRE | RELEASE if ignore_key => Err(INVALID_FIELD),
        ACQUIRE => {
            let (key, victim, kind) = (key(0)?, key(1)?, decode_kind(kind)?);
            match action {
                0 => Ok(reservation::Command::Acquire { key, kind }),
                1 | 2 => Ok(reservation::Command::Preempt {
                    key,
                    victim,
                    kind,
                    abort: action == 2,
                }),
                _ => Err(INVALID_FIELD),
            }
        }
        RELEASE => match action {
            0 => Ok(reservation::Command::Release {
                key: key(0)?,
                kind: decode_kind(kind)?,
            }),
            1 => Ok(reservation::Command::Clear { key: key(0)? }),
            _ => Err(INVALID_FIELD),
        },
        _ => Err(INVALID_OPCODE),
    }
}

fn decode_kind(number: u8) -> Result<Kind, Status> {
    let found = Kind::ALL.into_iter().find(|kind| *kind as u8 == number);
    found.ok_or(INVALID_FIELD)
}

/// The status of a command that was refused.
#[must_use]
pub fn status(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Conflict => RESERVATION_CONFLICT,
        Refusal::Invalid => INVALID_FIELD,
        Refusal::Full => INTERNAL_ERROR,
        Refusal::Unavailable => INTERNAL_PATH_ERROR,
        // Not an error of the path: by another one it would be carried out again.
        Refusal::Unknown => INTERNAL_ERROR,
    }
}

/// Reservation Status, as Reservation Report sends it: with 64 bits of each host's identifier, or extended with all of it.
#[must_use]
pub fn encode_report(state: &State, extended: bool) -> Vec<u8> {
    let size = if extended { 64 } else { 24 };
    let mut page = vec![0; size * (1 + state.registrants.len())];
    page[0..4].copy_from_slice(&state.generation.to_le_bytes());
    page[4] = state.held.map_or(0, |held| held.kind as u8);
    page[5..7].copy_from_slice(&(state.registrants.len() as u16).to_le_bytes());
    page[9] = state.persist.into();
    for (registrant, entry) in state.registrants.iter().zip(page[size..].chunks_exact_mut(size)) {
        encode_registrant(registrant, state.is_holder(registrant.host), extended, entry);
    }
    page
}

fn encode_registrant(registrant: &Registrant, holds: bool, extended: bool, entry: &mut [u8]) {
    /// Controllers are made when a host connects: a host that is registered may have several, or none.
    const DYNAMIC_CONTROLLER: u16 = 0xffff;
    entry[0..2].copy_from_slice(&DYNAMIC_CONTROLLER.to_le_bytes());
    entry[2] = holds.into();
    if extended {
        entry[8..16].copy_from_slice(&registrant.key.to_le_bytes());
        entry[16..32].copy_from_slice(&registrant.host_id);
    } else {
        entry[8..16].copy_from_slice(&registrant.host_id[..8]);
        entry[16..24].copy_from_slice(&registrant.key.to_le_bytes());
    }
}
