//! PERSISTENT RESERVE IN (SPC-4), and the answers to all that reservations were asked.

use super::{KINDS, Reservation, Reserving, Then, TransportId, ask, check_reservable, number};
use crate::device::Scope;
use crate::nexus::Nexus;
use crate::opcodes::action;
use crate::plan::{Answer, Plan};
use crate::sense::{Key, Sense, Status, code};
use amita_frontend::reservation::{Command, Refusal, State};

/// PERSISTENT RESERVE IN.
pub(crate) fn read(scope: &Scope<'_>, nexus: &Nexus) -> Result<Plan, Answer> {
    check_reservable(scope)?;
    let allocation = u64::from(scope.cdb.u16(7));
    let known = scope.catalog.reservations.get(&scope.unit.volume);
    let is_extended = scope.catalog.extended_reservations;
    let then = match scope.cdb.service_action() {
        action::READ_KEYS => Then::Keys(allocation),
        action::READ_RESERVATION => Then::Held(allocation),
        action::READ_FULL_STATUS => Then::Status(allocation),
        // All of PERSISTENT RESERVE IN conflicts then, whoever asks (SPC-2 5.5.1): if the lock has not ended since.
        _ if known.is_some_and(|state| state.locked.is_some()) => Then::Capabilities {
            allocation,
            is_extended,
        },
        _ => {
            let persists = known.is_some_and(|state| state.persist);
            return Ok(Answer::with_data(capabilities(is_extended, persists), allocation).into());
        }
    };
    Ok(ask(scope, nexus, Reservation::Engine(Command::Report), then))
}

/// REPORT CAPABILITIES.
fn capabilities(is_extended: bool, persists: bool) -> Vec<u8> {
    // PTPL_C; CRH, SIP_C, ATP_C; TMV; ALLOW COMMANDS 100b: all that table 65 allows is allowed; PTPL_A (SPC-4 6.15.4).
    const CAPABLE: u8 = 0x01;
    const EXTENDED: u8 = 0x1c;
    const TYPES_VALID: u8 = 0x80;
    const ALL_ALLOWED: u8 = 0x40;
    const PERSISTS: u8 = 0x01;
    // A bit for each type: byte 4 has types 0 to 7, byte 5 has 8 on.
    let mask = KINDS.iter().fold(0_u16, |mask, (kind, _)| mask | 1_u16 << *kind);
    let [high, low] = mask.to_be_bytes();
    let extended = if is_extended { EXTENDED } else { 0 };
    vec![
        0,
        8,
        CAPABLE | extended,
        TYPES_VALID | ALL_ALLOWED | if persists { PERSISTS } else { 0 },
        low,
        high,
        0,
        0,
    ]
}

/// The answer to a command of reservations.
#[must_use]
pub fn reserved(then: &Reserving, result: &Result<State, Refusal>) -> Answer {
    let looks = !matches!(then.then, Then::Done | Then::Release | Then::Move | Then::Several);
    match (then.then, result) {
        // "[...] regardless of initiator or service action" (SPC-2 5.5.1).
        (_, Ok(state)) if looks && state.locked.is_some() => Answer::of(Status::ReservationConflict),
        (Then::Keys(allocation), Ok(state)) => Answer::with_data(keys(state), allocation),
        (Then::Held(allocation), Ok(state)) => Answer::with_data(held(state), allocation),
        (Then::Status(allocation), Ok(state)) => Answer::with_data(status(state), allocation),
        (
            Then::Capabilities {
                allocation,
                is_extended,
            },
            Ok(state),
        ) => Answer::with_data(capabilities(is_extended, state.persist), allocation),
        // It has a key, which is not 0.
        (Then::StaysUnregistered, Ok(state)) if state.registrant(then.host).is_some() => {
            Answer::of(Status::ReservationConflict)
        }
        (_, Ok(_)) | (Then::IsUnregistered, Err(Refusal::Conflict)) => Answer::good(),
        (then, Err(refusal)) => refused(then, refusal),
    }
}

fn refused(then: Then, refusal: &Refusal) -> Answer {
    match (refusal, then) {
        (Refusal::Conflict, _) => Answer::of(Status::ReservationConflict),
        (Refusal::Invalid, Then::Release) => Sense::new(Key::IllegalRequest, code::INVALID_RELEASE).into(),
        // Nothing is reserved that could be handed over.
        (Refusal::Invalid, Then::Move) => Sense::in_cdb(1, Some(4)).into(),
        // One of the named is registered.
        (Refusal::Invalid, Then::Several) => Sense::in_list(24, None).into(),
        // SERVICE ACTION RESERVATION KEY (SPC-4 5.13.11.2.4, table 72).
        (Refusal::Invalid, _) => Sense::in_list(8, None).into(),
        (Refusal::Full, _) => Sense::new(Key::IllegalRequest, code::INSUFFICIENT_REGISTRATION_RESOURCES).into(),
        // Nothing was done: the host may ask again.
        (Refusal::Unavailable, _) => Answer::of(Status::Busy),
        // It may have been done: the host has to look.
        (Refusal::Unknown, _) => Sense::new(Key::HardwareError, code::INTERNAL_TARGET_FAILURE).into(),
    }
}

/// PRGENERATION and the length of what follows.
fn with_header(state: &State, body: &[u8]) -> Vec<u8> {
    let mut data = state.generation.to_be_bytes().to_vec();
    data.extend((body.len() as u32).to_be_bytes());
    data.extend(body);
    data
}

fn keys(state: &State) -> Vec<u8> {
    let keys = state
        .registrants
        .iter()
        .flat_map(|registrant| registrant.key.to_be_bytes());
    with_header(state, &keys.collect::<Vec<u8>>())
}

/// READ RESERVATION: "the key is 0 where all registrants hold it".
fn held(state: &State) -> Vec<u8> {
    let Some(held) = state.held else {
        return with_header(state, &[]);
    };
    let holder = held.holder.and_then(|holder| state.registrant(holder));
    let key = holder.map_or(0, |holder| holder.key);
    let mut body = key.to_be_bytes().to_vec();
    body.extend([0, 0, 0, 0, 0, number(held.kind), 0, 0]);
    with_header(state, &body)
}

/// READ FULL STATUS. Who has no names of ports, as a host of NVMe, is named by the identifier that the volume's reservations have of it.
fn status(state: &State) -> Vec<u8> {
    const HOLDER: u8 = 0x01;
    let mut body = Vec::new();
    for registrant in &state.registrants {
        let port = registrant.port.as_ref();
        let named = port.and_then(|port| Some((TransportId::named(&port.initiator)?, port.tag)));
        let (id, tag) = named.unwrap_or((TransportId::Other(registrant.host_id), 0));
        let id = id.encode();
        let is_holder = state.is_holder(registrant.host);
        let kind = state.held.filter(|_| is_holder).map_or(0, |held| number(held.kind));
        body.extend(registrant.key.to_be_bytes());
        body.extend([0, 0, 0, 0, if is_holder { HOLDER } else { 0 }, kind, 0, 0, 0, 0]);
        body.extend(tag.to_be_bytes());
        body.extend((id.len() as u32).to_be_bytes());
        body.extend(id);
    }
    with_header(state, &body)
}
