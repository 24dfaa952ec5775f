//! Persistent reservations (SPC-4, "Reservations") and the exclusive ones of SPC-2: what travels, translated to and from what is kept of a volume
//! ([`amita_frontend::reservation`]), where hosts of NVMe have theirs as well.
//!
//! A registrant is an I_T nexus: an initiator port and a target port, which is a gateway. A host that comes by two gateways registers twice, with
//! one key, as multipath software does; with ALL_TG_PT it does so at once.

mod change;
mod read;
#[cfg(test)]
mod tests;
mod transport_id;

pub(crate) use change::{begin, change};
pub(crate) use read::read;
pub use read::reserved;
pub use transport_id::TransportId;

use crate::device::Scope;
use crate::nexus::{InitiatorPort, Nexus};
use crate::opcodes as op;
use crate::plan::{Answer, Plan};
use crate::sense::{Key, Sense, code};
use amita_frontend::HostKey;
use amita_frontend::reservation::{self, Kind, PortName, Registrant};

/// What the volume's reservations are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// By a command that NVMe has as well.
    Engine(reservation::Command),
    /// Registers these nexuses, all or none of them (with SPEC_I_PT and ALL_TG_PT several). The asking one is the first.
    RegisterAll {
        nexuses: Vec<NexusName>,
        /// Their key: not 0.
        key: u64,
        /// Another key that the asking one or those of its initiator port have is replaced; else none of them may be registered.
        ignore_key: bool,
        persist: bool,
    },
    /// The holder hands the reservation to another nexus, which is registered with that (REGISTER AND MOVE).
    Move {
        /// The holder's key.
        key: u64,
        /// The other one's: not 0.
        new_key: u64,
        to: NexusName,
        /// The holder's registration ends.
        unregister: bool,
        persist: bool,
    },
    /// The exclusive reservation of SPC-2 (RESERVE). It ends with the nexus, and by a reset. Of a registrant it changes nothing; while
    /// others are registered, it conflicts (SPC-4, "Exceptions to SPC-2 RESERVE and RELEASE behavior").
    Lock,
    /// Gives that up; of who does not have it, it changes nothing (RELEASE).
    Unlock,
}

impl From<Reservation> for reservation::Command {
    fn from(asked: Reservation) -> reservation::Command {
        match asked {
            Reservation::Engine(command) => command,
            Reservation::RegisterAll {
                nexuses,
                key,
                ignore_key,
                persist,
            } => reservation::Command::RegisterAll {
                registrants: nexuses.iter().map(|nexus| nexus.registrant(key)).collect(),
                ignore_key,
                persist: Some(persist),
            },
            Reservation::Move {
                key,
                new_key,
                to,
                unregister,
                persist,
            } => reservation::Command::Move {
                key,
                to: Box::new(to.registrant(new_key)),
                unregister,
                persist: Some(persist),
            },
            Reservation::Lock => reservation::Command::Lock {
                by: reservation::Connection::default(),
            },
            Reservation::Unlock => reservation::Command::Unlock,
        }
    }
}

/// An I_T nexus, by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NexusName {
    pub initiator: InitiatorPort,
    /// The tag of the gateway: the relative target port identifier.
    pub tag: u16,
}

impl NexusName {
    /// As reservations keep it.
    fn registrant(&self, key: u64) -> Registrant {
        let host = self.initiator.key(self.tag);
        Registrant {
            host,
            host_id: host.into(),
            key,
            port: Some(PortName {
                initiator: self.initiator.port_name(),
                tag: self.tag,
            }),
        }
    }
}

/// What becomes of what the reservations said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserving {
    /// Who asks.
    host: HostKey,
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It was done, or not.
    Done,
    /// RELEASE.
    Release,
    /// REGISTER AND MOVE.
    Move,
    /// REGISTER of several nexuses.
    Several,
    /// REGISTER of no key with the key 0: it was not registered, or it conflicts.
    StaysUnregistered,
    /// REGISTER AND IGNORE EXISTING KEY of no key: whether it was registered or not.
    IsUnregistered,
    /// READ KEYS, of so many bytes.
    Keys(u64),
    /// READ RESERVATION.
    Held(u64),
    /// READ FULL STATUS.
    Status(u64),
    /// REPORT CAPABILITIES.
    Capabilities { allocation: u64, is_extended: bool },
}

/// The types, by their numbers in SCSI, which are others than those of NVMe (SPC-4, "Persistent reservation type codes").
const KINDS: [(u8, Kind); 6] = [
    (0x1, Kind::WriteExclusive),
    (0x3, Kind::ExclusiveAccess),
    (0x5, Kind::WriteExclusiveRegistrants),
    (0x6, Kind::ExclusiveAccessRegistrants),
    (0x7, Kind::WriteExclusiveAll),
    (0x8, Kind::ExclusiveAccessAll),
];

fn kind(number: u8) -> Option<Kind> {
    KINDS.iter().find(|known| known.0 == number).map(|known| known.1)
}

fn number(kind: Kind) -> u8 {
    KINDS.iter().find(|known| known.1 == kind).map_or(0, |known| known.0)
}

/// What cannot be changed is not reserved: it would be the volume itself that is.
fn check_reservable(scope: &Scope<'_>) -> Result<(), Sense> {
    match scope.unit.is_write_protected() {
        true => Err(Sense::new(Key::IllegalRequest, code::INVALID_OPCODE)),
        false => Ok(()),
    }
}

fn ask(scope: &Scope<'_>, nexus: &Nexus, command: Reservation, then: Then) -> Plan {
    Plan::Reserve {
        volume: scope.unit.volume,
        host: nexus.key(),
        command,
        then: Reserving {
            host: nexus.key(),
            then,
        },
    }
}

/// RESERVE and RELEASE of SPC-2, for the whole logical unit and the nexus itself. (Extents and third parties are reserved bits here.)
pub(crate) fn exclusive(scope: &Scope<'_>, nexus: &Nexus) -> Result<Plan, Answer> {
    check_reservable(scope)?;
    let command = match scope.cdb.opcode() {
        op::RESERVE_6 | op::RESERVE_10 => Reservation::Lock,
        _ => Reservation::Unlock,
    };
    Ok(ask(scope, nexus, command, Then::Done))
}
