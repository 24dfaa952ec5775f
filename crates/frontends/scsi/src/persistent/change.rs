//! PERSISTENT RESERVE OUT (SPC-4).

use super::{NexusName, Reservation, Then, TransportId, ask, check_reservable, kind};
use crate::block::{be_u32, be_u64};
use crate::device::{Scope, gather};
use crate::nexus::Nexus;
use crate::opcodes::action;
use crate::plan::{Answer, Plan};
use crate::sense::{Key, Sense, code};
use amita_frontend::reservation::{Command, Kind, MAX_REGISTRANTS};

/// Bytes of the basic parameter list, and of REGISTER AND MOVE's before its TransportID.
const LIST_BYTES: usize = 24;
/// Byte 20 of the basic list.
const FLAGS_AT: usize = 20;
const SPEC_I_PT: u8 = 0x08;
const ALL_TG_PT: u8 = 0x04;
const APTPL: u8 = 0x01;
/// Byte 17 of REGISTER AND MOVE's.
const MOVE_FLAGS_AT: usize = 17;
const UNREG: u8 = 0x02;

fn list_length_error() -> Sense {
    Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH)
}

/// Asks for the list, of which the shortest is known.
pub(crate) fn begin(scope: &Scope<'_>) -> Result<Plan, Answer> {
    check_reservable(scope)?;
    let cdb = &scope.cdb;
    if matches!(
        cdb.service_action(),
        action::RESERVE | action::RELEASE | action::PREEMPT | action::PREEMPT_AND_ABORT
    ) {
        kind_of(scope)?;
    }
    let bytes = cdb.u32(5);
    // "[...] PARAMETER LIST LENGTH ERROR": shorter than any is.
    if (bytes as usize) < LIST_BYTES {
        return Err(list_length_error().into());
    }
    gather(scope, u64::from(bytes), 5)
}

/// SCOPE is the logical unit, TYPE is one of the six.
fn kind_of(scope: &Scope<'_>) -> Result<Kind, Sense> {
    let byte = scope.cdb.u8(2);
    if byte >> 4 != 0 {
        return Err(Sense::in_cdb(2, Some(7)));
    }
    kind(byte & 0xf).ok_or(Sense::in_cdb(2, Some(3)))
}

/// The list is here.
pub(crate) fn change(scope: &Scope<'_>, list: &[u8], nexus: &Nexus) -> Result<Plan, Answer> {
    let list = (list.len() >= LIST_BYTES).then_some(list).ok_or(list_length_error())?;
    let action = scope.cdb.service_action();
    let (key, new_key) = (be_u64(list), be_u64(&list[8..]));
    if action == action::REGISTER_AND_MOVE {
        return Ok(hand_over(scope, list, nexus)?);
    }
    let flags = list[FLAGS_AT];
    if flags & SPEC_I_PT != 0 && action != action::REGISTER {
        return Err(Sense::in_list(FLAGS_AT as u16, Some(3)).into());
    }
    if flags & SPEC_I_PT == 0 && list.len() != LIST_BYTES {
        return Err(list_length_error().into());
    }
    if matches!(action, action::REGISTER | action::REGISTER_AND_IGNORE) {
        return Ok(register(scope, list, nexus)?);
    }
    let (command, then) = match action {
        action::RESERVE => {
            let kind = kind_of(scope)?;
            (Command::Acquire { key, kind }, Then::Done)
        }
        action::RELEASE => {
            let kind = kind_of(scope)?;
            (Command::Release { key, kind }, Then::Release)
        }
        action::CLEAR => (Command::Clear { key }, Then::Done),
        _ => {
            let preempt = Command::Preempt {
                key,
                victim: new_key,
                kind: kind_of(scope)?,
                abort: action == action::PREEMPT_AND_ABORT,
            };
            (preempt, Then::Done)
        }
    };
    Ok(ask(scope, nexus, Reservation::Engine(command), then))
}

/// REGISTER, and REGISTER AND IGNORE EXISTING KEY.
fn register(scope: &Scope<'_>, list: &[u8], nexus: &Nexus) -> Result<Plan, Sense> {
    let ignore_key = scope.cdb.service_action() == action::REGISTER_AND_IGNORE;
    let (key, new_key, flags) = (be_u64(list), be_u64(&list[8..]), list[FLAGS_AT]);
    let persist = Some(flags & APTPL != 0);
    let engine = |command, then| Ok(ask(scope, nexus, Reservation::Engine(command), then));
    let others = others(scope, list, nexus)?;
    match (key, new_key) {
        // SPEC_I_PT is for who registers only (SPC-4 5.13.7, table 67, note c).
        _ if flags & SPEC_I_PT != 0 && key != 0 => Err(Sense::in_list(FLAGS_AT as u16, Some(3))),
        (_, 0) if ignore_key => engine(
            Command::Unregister {
                key: 0,
                ignore_key,
                persist,
            },
            Then::IsUnregistered,
        ),
        // Of who is not registered nothing is changed; who is has another key than 0.
        (0, 0) => engine(Command::Report, Then::StaysUnregistered),
        (_, 0) => engine(
            Command::Unregister {
                key,
                ignore_key,
                persist,
            },
            Then::Done,
        ),
        // "[...] register the I_T nexus": its key is 0 until then.
        _ if key == 0 || ignore_key => {
            let then = if others.is_empty() { Then::Done } else { Then::Several };
            let own = NexusName {
                initiator: nexus.initiator().clone(),
                tag: nexus.tag(),
            };
            let mut nexuses = vec![own];
            nexuses.extend(others);
            let command = Reservation::RegisterAll {
                nexuses,
                key: new_key,
                ignore_key,
                persist: flags & APTPL != 0,
            };
            Ok(ask(scope, nexus, command, then))
        }
        _ => engine(
            Command::Replace {
                host_id: nexus.key().into(),
                key,
                new_key,
                ignore_key,
                persist,
            },
            Then::Done,
        ),
    }
}

/// The further nexuses that a REGISTER names: ports by their TransportIDs (SPEC_I_PT), all target ports (ALL_TG_PT). Where REPORT CAPABILITIES
/// does not tell of them, they are refused.
fn others(scope: &Scope<'_>, list: &[u8], nexus: &Nexus) -> Result<Vec<NexusName>, Sense> {
    let flags = list[FLAGS_AT];
    let refused = [(SPEC_I_PT, 3), (ALL_TG_PT, 2)]
        .into_iter()
        .find(|(bit, _)| flags & bit != 0);
    match refused {
        Some((_, at)) if !scope.catalog.extended_reservations => return Err(Sense::in_list(FLAGS_AT as u16, Some(at))),
        _ => {}
    }
    let mut initiators = vec![nexus.initiator().clone()];
    if flags & SPEC_I_PT != 0 {
        initiators.extend(transport_ids(list)?);
    }
    let tags = match flags & ALL_TG_PT {
        0 => vec![nexus.tag()],
        _ => scope.target.groups.clone(),
    };
    let full = || Sense::new(Key::IllegalRequest, code::INSUFFICIENT_REGISTRATION_RESOURCES);
    // Before any is made: a list names a thousand ports, and a cluster may have a thousand gateways.
    if initiators.len().saturating_mul(tags.len()) > MAX_REGISTRANTS {
        return Err(full());
    }
    let mut names = Vec::new();
    for (index, initiator) in initiators.iter().enumerate() {
        // "[...] the I_T nexus that sends it is among them: INVALID FIELD IN PARAMETER LIST", and twice the same is no less wrong.
        if initiators[..index].contains(initiator) {
            return Err(Sense::in_list(LIST_BYTES as u16, None));
        }
        let tags = tags.iter().filter(|tag| index > 0 || **tag != nexus.tag());
        names.extend(tags.map(|tag| NexusName {
            initiator: initiator.clone(),
            tag: *tag,
        }));
    }
    match names.len() < MAX_REGISTRANTS {
        true => Ok(names),
        false => Err(full()),
    }
}

fn transport_ids(list: &[u8]) -> Result<Vec<crate::InitiatorPort>, Sense> {
    const LENGTH_BYTES: usize = 4;
    let begin = LIST_BYTES + LENGTH_BYTES;
    let told = list.get(LIST_BYTES..begin).map(be_u32).ok_or(list_length_error())?;
    // "[...] extends beyond the list: INVALID FIELD IN PARAMETER LIST".
    if list.len() - begin != told as usize {
        return Err(Sense::in_list(LIST_BYTES as u16, None));
    }
    let (mut at, mut found) = (begin, Vec::new());
    while at < list.len() {
        let (port, length) = TransportId::parse(&list[at..], at as u16)?;
        found.push(port);
        at += length;
    }
    Ok(found)
}

/// REGISTER AND MOVE.
fn hand_over(scope: &Scope<'_>, list: &[u8], nexus: &Nexus) -> Result<Plan, Sense> {
    let (key, new_key, flags) = (be_u64(list), be_u64(&list[8..]), list[MOVE_FLAGS_AT]);
    // "[...] SERVICE ACTION RESERVATION KEY is 0: INVALID FIELD IN PARAMETER LIST".
    if new_key == 0 {
        return Err(Sense::in_list(8, None));
    }
    let tag = u16::from_be_bytes([list[18], list[19]]);
    if !scope.target.groups.contains(&tag) {
        return Err(Sense::in_list(18, None));
    }
    let told = be_u32(&list[20..]) as usize;
    if told != list.len() - LIST_BYTES {
        return Err(Sense::in_list(20, None));
    }
    let (initiator, length) = TransportId::parse(&list[LIST_BYTES..], LIST_BYTES as u16)?;
    let to = NexusName { initiator, tag };
    // Nothing follows it, and it is another initiator port, by whichever target port (SPC-4 5.13.8).
    let is_self = to.initiator == *nexus.initiator();
    if length != told || is_self {
        return Err(Sense::in_list(LIST_BYTES as u16, None));
    }
    let command = Reservation::Move {
        key,
        new_key,
        to,
        unregister: flags & UNREG != 0,
        persist: flags & APTPL != 0,
    };
    Ok(ask(scope, nexus, command, Then::Move))
}
