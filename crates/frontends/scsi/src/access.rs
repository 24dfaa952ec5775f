//! Asymmetric logical unit access (SPC-4): REPORT TARGET PORT GROUPS and SET TARGET PORT GROUPS. A gateway is a group; the one that owns a volume
//! is optimized for it.

#[cfg(test)]
mod tests;

use crate::device::Scope;
use crate::plan::{Answer, Plan};
use crate::sense::{Key, Sense, code};
use crate::unit::Alua;
use std::collections::BTreeMap;

/// How long a transition takes at the most, in seconds: IMPLICIT TRANSITION TIME of the extended header.
const TRANSITION_SECONDS: u8 = 60;

/// SUPPORTED STATES: T_SUP, U_SUP, S_SUP (none is in standby by itself), AN_SUP, AO_SUP.
const SUPPORTED_STATES: u8 = 0x8b;

/// REPORT TARGET PORT GROUPS.
pub(crate) fn report(scope: &Scope<'_>) -> Result<Answer, Sense> {
    // PARAMETER DATA FORMAT: 0, or 1 with a header of its own.
    let mut data = match scope.cdb.u8(1) >> 5 {
        0 => vec![0; 4],
        1 => vec![0, 0, 0, 0, 0x10, TRANSITION_SECONDS, 0, 0],
        _ => return Err(Sense::in_cdb(1, Some(7))),
    };
    for &tag in &scope.target.groups {
        data.extend(group(scope, tag));
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    Ok(Answer::with_data(data, u64::from(scope.cdb.u32(6))))
}

fn group(scope: &Scope<'_>, tag: u16) -> [u8; 12] {
    const PREFERRED: u8 = 0x80;
    let preferred = if scope.unit.preferred == Some(tag) {
        PREFERRED
    } else {
        0
    };
    let [high, low] = tag.to_be_bytes();
    let state = scope.unit.state(tag) as u8;
    // STATUS CODE is 0 (none is told), and there is one target port: its relative identifier is the group's number.
    [
        preferred | state,
        SUPPORTED_STATES,
        high,
        low,
        0,
        0,
        0,
        1,
        0,
        0,
        high,
        low,
    ]
}

/// SET TARGET PORT GROUPS: a host wants another gateway to be optimized. That moves the volume; what else it wants is what follows from that, or
/// cannot be had.
pub(crate) fn set(scope: &Scope<'_>, list: &[u8]) -> Result<Plan, Answer> {
    let mut wanted = BTreeMap::new();
    let too_short = Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH);
    // Four reserved bytes, then descriptors of four bytes each.
    let descriptors = list.get(4..).ok_or(too_short)?.chunks(4);
    for (index, bytes) in descriptors.enumerate() {
        let at = (4 + 4 * index) as u16;
        let &[state, _, high, low] = bytes else {
            return Err(too_short.into());
        };
        let tag = u16::from_be_bytes([high, low]);
        let state = match state & 0xf {
            0x0 => Alua::Optimized,
            0x1 => Alua::NonOptimized,
            // Standby and unavailable are nobody's wish here, and a transition cannot be one.
            _ => return Err(Sense::in_list(at, Some(3)).into()),
        };
        let is_known = scope.target.groups.contains(&tag);
        if !is_known || wanted.insert(tag, state).is_some() {
            return Err(Sense::in_list(at + 2, None).into());
        }
    }
    let mut optimized = wanted
        .iter()
        .filter(|(_, state)| **state == Alua::Optimized)
        .map(|(tag, _)| *tag);
    let failed = failed();
    match (optimized.next(), optimized.next()) {
        // One gateway owns a volume.
        (Some(_), Some(_)) => Err(failed.into()),
        (Some(tag), None) => match scope.unit.state(tag) {
            Alua::Optimized => Ok(Answer::good().into()),
            // A snapshot goes where its volume goes, which is not for who may only read it to say.
            Alua::NonOptimized | Alua::Standby if !scope.unit.is_write_protected() => Ok(Plan::Move {
                volume: scope.unit.volume,
                group: tag,
            }),
            _ => Err(failed.into()),
        },
        // The owner cannot only give it up: somebody has to have it.
        (None, _) => {
            let is_owner = |tag: &u16| scope.unit.state(*tag) == Alua::Optimized;
            match wanted.keys().any(is_owner) {
                true => Err(failed.into()),
                false => Ok(Answer::good().into()),
            }
        }
    }
}

/// SET TARGET PORT GROUPS COMMAND FAILED.
fn failed() -> Sense {
    Sense::new(Key::HardwareError, code::SET_TARGET_PORT_GROUPS_FAILED)
}

/// The answer to a SET TARGET PORT GROUPS: will somebody see to it that the volume is moved? The states are told as they are; when they change, every nexus
/// hears of it (ASYMMETRIC ACCESS STATE CHANGED).
#[must_use]
pub fn moved(is_accepted: bool) -> Answer {
    match is_accepted {
        true => Answer::good(),
        false => failed().into(),
    }
}
