//! Features (NVM Express Base 2.1, 5.1.12 and 5.1.25): what a host may set, and read. None is saved: a value lives as long
//! as the controller.

use super::event::known;
use super::page::{plain, told};
use super::scope::Scope;
use super::status::{
    COMMAND_SEQUENCE, FEATURE_NOT_CHANGEABLE, FEATURE_NOT_OF_NAMESPACE, FEATURE_NOT_SAVEABLE, INVALID_FIELD,
    INVALID_NAMESPACE,
};
use super::{ALL_NAMESPACES, Admin, IDLE_TIME, KEEP_ALIVE_UNITS, Kind, Session, Transfer, Turn};
use crate::command::{Command, Reply, Status};
use crate::hub::Question;
use amita_frontend::reservation;
use amita_reactor::Time;
use amita_types::VolumeId;
use std::collections::BTreeMap;

pub(crate) const ARBITRATION: u8 = 0x01;
pub(crate) const POWER_MANAGEMENT: u8 = 0x02;
pub(crate) const TEMPERATURE_THRESHOLD: u8 = 0x04;
pub(crate) const ERROR_RECOVERY: u8 = 0x05;
pub(crate) const NUMBER_OF_QUEUES: u8 = 0x07;
pub(crate) const WRITE_ATOMICITY: u8 = 0x0a;
pub(crate) const ASYNC_EVENTS: u8 = 0x0b;
pub(crate) const KEEP_ALIVE_TIMER: u8 = 0x0f;
pub(crate) const HOST_BEHAVIOUR: u8 = 0x16;
pub(crate) const COMMAND_SET_PROFILE: u8 = 0x19;
pub(crate) const HOST_IDENTIFIER: u8 = 0x81;
pub(crate) const RESERVATION_MASK: u8 = 0x82;
pub(crate) const RESERVATION_PERSISTENCE: u8 = 0x83;

/// A feature that is implemented.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub id: u8,
    /// Is it set for each namespace, rather than for the controller?
    pub of_namespace: bool,
    pub changeable: bool,
    /// Do discovery controllers have it?
    pub discovery: bool,
}

const fn of_controller(id: u8) -> Known {
    Known {
        id,
        of_namespace: false,
        changeable: true,
        discovery: false,
    }
}

const fn of_namespace(id: u8) -> Known {
    Known {
        of_namespace: true,
        ..of_controller(id)
    }
}

/// All features that are implemented. Interrupts are not for fabrics, and there is no volatile cache whose use could be
/// chosen.
pub(crate) const KNOWN: [Known; 13] = [
    of_controller(ARBITRATION),
    of_controller(POWER_MANAGEMENT),
    of_controller(TEMPERATURE_THRESHOLD),
    of_namespace(ERROR_RECOVERY),
    of_controller(NUMBER_OF_QUEUES),
    of_controller(WRITE_ATOMICITY),
    Known {
        discovery: true,
        ..of_controller(ASYNC_EVENTS)
    },
    Known {
        discovery: true,
        ..of_controller(KEEP_ALIVE_TIMER)
    },
    of_controller(HOST_BEHAVIOUR),
    of_controller(COMMAND_SET_PROFILE),
    Known {
        changeable: false,
        ..of_controller(HOST_IDENTIFIER)
    },
    of_namespace(RESERVATION_MASK),
    of_namespace(RESERVATION_PERSISTENCE),
];

const HOST_BEHAVIOUR_BYTES: usize = 512;
/// No limit to the commands of one turn of arbitration.
const DEFAULT_ARBITRATION: u32 = 7;
/// The bits of arbitration that are defined.
const ARBITRATION_BITS: u32 = 0xffff_ff07;
const DEFAULT_OVER_TEMPERATURE: u16 = 0xffff;
/// The notifications that a host can mask: bits 1 to 3.
const RESERVATION_MASK_BITS: u32 = 0b1110;
/// Critical warnings (bits 0 to 5) can be asked for; none ever comes.
const CRITICAL_WARNINGS: u32 = 0x3f;

#[derive(Debug)]
pub(crate) struct Features {
    arbitration: u32,
    workload: u32,
    /// Over and under, of the composite temperature.
    temperatures: [u16; 2],
    queues: u32,
    /// Commands that the register has been asked about. A reset forgets them with all else.
    asking: Vec<u16>,
    write_atomicity: u32,
    kato_ms: u32,
    acre: u8,
    /// Time limited error recovery, by namespace, where it was set.
    error_recovery: BTreeMap<u32, u32>,
    /// Masked reservation notifications, by namespace, where some are.
    reservation_masks: BTreeMap<u32, u32>,
}

impl Features {
    pub fn new(session: &Session) -> Features {
        let last = u32::from(session.limits.io_queues.max(1) - 1);
        Features {
            arbitration: DEFAULT_ARBITRATION,
            workload: 0,
            temperatures: [DEFAULT_OVER_TEMPERATURE, 0],
            queues: last | last << 16,
            asking: Vec::new(),
            write_atomicity: 0,
            kato_ms: keep_alive(session, session.kato_ms),
            acre: 0,
            error_recovery: BTreeMap::new(),
            reservation_masks: BTreeMap::new(),
        }
    }

    pub fn kato_ms(&self) -> u32 {
        self.kato_ms
    }

    /// Does the host not want to hear of that kind of notification (1 to 3) of the namespace?
    pub fn masks(&self, nsid: u32, kind: u8) -> bool {
        self.reservation_masks
            .get(&nsid)
            .is_some_and(|mask| mask >> kind & 1 == 1)
    }

    /// The register has answered a Set Features of the number of queues: dword 0 of its completion.
    pub(super) fn queues_answered(&mut self, scope: &Scope, command: &Command, granted: bool) -> Result<u32, Status> {
        let place = self.asking.iter().position(|id| *id == command.id());
        // What was asked before a reset is not of the controller that there is now.
        let place = place.ok_or(COMMAND_SEQUENCE)?;
        self.asking.swap_remove(place);
        if !granted {
            return Err(COMMAND_SEQUENCE);
        }
        let last = u32::from(queues_wanted(scope, command.dword(11))?);
        self.queues = last | last << 16;
        Ok(self.queues)
    }

    fn set_host_behaviour(&mut self, data: &[u8]) -> Result<(), Status> {
        // Extended data areas of telemetry, extended LBA formats and further formats of Copy descriptors are not offered, so
        // that they cannot be enabled; Advanced Command Retry can, though no status ever tells a delay.
        let (acre, others, copy_formats) = (data[0], &data[1..4], &data[4..6]);
        if acre > 1 || others.iter().any(|byte| *byte > 1) || copy_formats != [0, 0] {
            return Err(INVALID_FIELD);
        }
        self.acre = acre;
        Ok(())
    }
}

/// "KATO is rounded up to the granularity" that KAS tells. A guest is waited for as long as one who names no time: else it held its place
/// for 49 days without a word.
fn keep_alive(session: &Session, asked_ms: u32) -> u32 {
    let unit_ms = u32::from(KEEP_ALIVE_UNITS) * 100;
    let whole = asked_ms.div_ceil(unit_ms).saturating_mul(unit_ms);
    match session.is_guest() {
        true => whole.min(IDLE_TIME.as_millis() as u32),
        false => whole,
    }
}

/// What Set Features moves: few have data.
pub(crate) fn bytes_from_host(command: &Command) -> Transfer {
    match command.dword(10) as u8 {
        HOST_BEHAVIOUR => Transfer::FromHost(HOST_BEHAVIOUR_BYTES as u32),
        _ => Transfer::None,
    }
}

/// What Get Features moves.
pub(crate) fn bytes_to_host(command: &Command) -> Transfer {
    const CAPABILITIES: u32 = 3;
    match (command.dword(10) as u8, command.dword(10) >> 8 & 7) {
        (_, CAPABILITIES..) => Transfer::None,
        (HOST_BEHAVIOUR, _) => Transfer::ToHost(HOST_BEHAVIOUR_BYTES as u32),
        (HOST_IDENTIFIER, _) if command.dword(11) & 1 == 1 => Transfer::ToHost(16),
        _ => Transfer::None,
    }
}

/// The events that a host may ask for: those that come, and critical warnings.
fn known_events(kind: Kind) -> u32 {
    match kind {
        Kind::Io => known(kind) | CRITICAL_WARNINGS,
        Kind::Discovery => known(kind),
    }
}

/// Which threshold: there is only the composite temperature.
fn temperature(dword: u32, set: bool) -> Result<usize, Status> {
    const COMPOSITE: u32 = 0;
    const ALL: u32 = 15;
    match (dword >> 16 & 15, dword >> 20 & 3) {
        (COMPOSITE, place @ 0..=1) => Ok(place as usize),
        (ALL, place @ 0..=1) if set => Ok(place as usize),
        _ => Err(INVALID_FIELD),
    }
}

/// Carries out a Set Features.
pub(super) fn set(admin: &mut Admin, now: Time, command: &Command, data: &[u8]) -> Result<Turn, Status> {
    let (id, nsid, value) = (command.dword(10) as u8, command.nsid(), command.dword(11));
    let known = known_to(&admin.scope, id)?;
    if command.dword(10) >> 31 == 1 {
        return Err(FEATURE_NOT_SAVEABLE);
    }
    if known.of_namespace {
        if nsid != ALL_NAMESPACES && admin.scope.namespace(nsid).is_none() {
            return Err(INVALID_NAMESPACE);
        }
    } else if nsid != 0 && nsid != ALL_NAMESPACES {
        return Err(FEATURE_NOT_OF_NAMESPACE);
    }
    match id {
        ARBITRATION => admin.features.arbitration = value & ARBITRATION_BITS,
        POWER_MANAGEMENT => {
            // There is one power state.
            if value & 0x1f != 0 {
                return Err(INVALID_FIELD);
            }
            admin.features.workload = value & 0xe0;
        }
        TEMPERATURE_THRESHOLD => {
            let place = temperature(value, true)?;
            admin.features.temperatures[place] = value as u16;
        }
        ERROR_RECOVERY => {
            // "Deallocated or unwritten logical block error" (DULBE) is not among the namespaces' features.
            if value >> 16 & 1 == 1 {
                return Err(INVALID_FIELD);
            }
            for nsid in admin.scope.numbers(nsid) {
                admin.features.error_recovery.insert(nsid, value & 0xffff);
            }
        }
        NUMBER_OF_QUEUES => {
            let last = queues_wanted(&admin.scope, value)?;
            admin.features.asking.push(command.id());
            return Ok(Turn::Ask(Question::Grant(last + 1)));
        }
        WRITE_ATOMICITY => admin.features.write_atomicity = value & 1,
        ASYNC_EVENTS => {
            if value & !(known_events(admin.scope.session.kind)) != 0 {
                return Err(INVALID_FIELD);
            }
            admin.events.set_wanted(value);
        }
        KEEP_ALIVE_TIMER => {
            admin.features.kato_ms = keep_alive(&admin.scope.session, value);
            admin.scope.session.shared.set_kato_ms(admin.features.kato_ms);
            admin.scope.session.shared.begin(now);
            admin.since = now;
        }
        HOST_BEHAVIOUR => admin.features.set_host_behaviour(data)?,
        COMMAND_SET_PROFILE => {
            if !admin.properties.has_all_command_sets() {
                return Err(COMMAND_SEQUENCE);
            }
            // The one combination there is: the NVM command set.
            if value & 0x1ff != 0 {
                return Err(INVALID_FIELD);
            }
        }
        // On fabrics it comes with Connect, and "shall be aborted with Command Sequence Error".
        HOST_IDENTIFIER => return Err(COMMAND_SEQUENCE),
        RESERVATION_MASK => {
            if value & !RESERVATION_MASK_BITS != 0 {
                return Err(INVALID_FIELD);
            }
            for nsid in admin.scope.numbers(nsid) {
                admin.features.reservation_masks.insert(nsid, value);
            }
        }
        RESERVATION_PERSISTENCE => return set_persistence(&admin.scope, nsid, value),
        _ => return Err(FEATURE_NOT_CHANGEABLE),
    }
    Ok(Turn::Reply(told(0)))
}

/// Carries out a Get Features.
pub(super) fn get(admin: &Admin, command: &Command) -> Result<Turn, Status> {
    const CURRENT: u32 = 0;
    const DEFAULT: u32 = 1;
    const SAVED: u32 = 2;
    const CAPABILITIES: u32 = 3;
    let (id, nsid) = (command.dword(10) as u8, command.nsid());
    let known = known_to(&admin.scope, id)?;
    let select = command.dword(10) >> 8 & 7;
    if select == CAPABILITIES {
        return Ok(Turn::Reply(told(
            u32::from(known.of_namespace) << 1 | u32::from(known.changeable) << 2,
        )));
    }
    if select > CAPABILITIES {
        return Err(INVALID_FIELD);
    }
    // "A Get Features for a namespace specific feature shall not use the broadcast value."
    if known.of_namespace && admin.scope.namespace(nsid).is_none() {
        return Err(INVALID_NAMESPACE);
    }
    debug_assert!(matches!(select, CURRENT | DEFAULT | SAVED));
    // What cannot be saved has its default there.
    let defaults;
    let from = if select == CURRENT {
        &admin.features
    } else {
        defaults = Features::new(&admin.scope.session);
        &defaults
    };
    let value = match id {
        ARBITRATION => from.arbitration,
        POWER_MANAGEMENT => from.workload,
        TEMPERATURE_THRESHOLD => from.temperatures[temperature(command.dword(11), false)?].into(),
        ERROR_RECOVERY => from.error_recovery.get(&nsid).copied().unwrap_or(0),
        NUMBER_OF_QUEUES => from.queues,
        WRITE_ATOMICITY => from.write_atomicity,
        ASYNC_EVENTS if select == CURRENT => admin.events.wanted(),
        ASYNC_EVENTS => known_events(admin.scope.session.kind) & !CRITICAL_WARNINGS,
        KEEP_ALIVE_TIMER => from.kato_ms,
        HOST_BEHAVIOUR => {
            let mut data = vec![0; HOST_BEHAVIOUR_BYTES];
            data[0] = from.acre;
            return Ok(Turn::Reply(Reply { data, ..told(0) }));
        }
        COMMAND_SET_PROFILE if admin.properties.has_all_command_sets() => 0,
        COMMAND_SET_PROFILE => return Err(COMMAND_SEQUENCE),
        // "EXHID shall be set": 128 bits, on fabrics.
        HOST_IDENTIFIER if command.dword(11) & 1 == 0 => return Err(INVALID_FIELD),
        HOST_IDENTIFIER => {
            let data = admin.scope.session.host_id.to_vec();
            return Ok(Turn::Reply(Reply { data, ..told(0) }));
        }
        RESERVATION_MASK => from.reservation_masks.get(&nsid).copied().unwrap_or(0),
        RESERVATION_PERSISTENCE if select != CURRENT => 0,
        RESERVATION_PERSISTENCE => {
            let volume = reservable(&admin.scope, nsid)?;
            let command = reservation::Command::Report;
            return Ok(Turn::Reserve { volume, command });
        }
        _ => return Err(INVALID_FIELD),
    };
    Ok(Turn::Reply(told(value)))
}

/// The feature of that number, if a controller of this kind has it.
fn known_to(scope: &Scope, id: u8) -> Result<Known, Status> {
    let found = KNOWN.iter().find(|known| known.id == id);
    let found = found.filter(|known| known.discovery || scope.session.kind == Kind::Io);
    // "FID not supported" is Invalid Field in Command.
    found.copied().ok_or(INVALID_FIELD)
}

/// The number, counted from 0, of the queues that the host gets. Over fabrics a queue is a pair.
fn queues_wanted(scope: &Scope, value: u32) -> Result<u16, Status> {
    let (submission, completion) = (value as u16, (value >> 16) as u16);
    // 65,536 queues are not a number that can be asked for (Base 2.1, 5.1.25.2.1).
    if submission == 0xffff || completion == 0xffff {
        return Err(INVALID_FIELD);
    }
    let last = scope.session.limits.io_queues.max(1) - 1;
    Ok(submission.min(completion).min(last))
}

/// The volume of a namespace that can be reserved.
fn reservable(scope: &Scope, nsid: u32) -> Result<VolumeId, Status> {
    let namespace = scope.namespace(nsid).ok_or(INVALID_NAMESPACE)?;
    match namespace.is_write_protected() {
        true => Err(INVALID_FIELD),
        false => Ok(namespace.volume),
    }
}

fn set_persistence(scope: &Scope, nsid: u32, value: u32) -> Result<Turn, Status> {
    // For all namespaces at once it would be many changes that could fail one by one.
    let volume = reservable(scope, nsid)?;
    Ok(Turn::Reserve {
        volume,
        command: reservation::Command::Persist(value & 1 == 1),
    })
}

/// The reply to a Get or Set Features of reservation persistence.
pub(super) fn persistence_reply(command: &Command, result: Result<&reservation::State, reservation::Refusal>) -> Reply {
    match result {
        Ok(state) if command.opcode() == super::opcode::GET_FEATURES => told(state.persist.into()),
        Ok(_) => told(0),
        Err(refusal) => plain(crate::reservations::status(&refusal), 0),
    }
}
