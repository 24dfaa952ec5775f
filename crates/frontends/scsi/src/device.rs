//! A task, as far as every command is treated alike: which logical unit it is for, what is to be told before, whether it may be given; then the
//! module of its command is asked for a plan.

#[cfg(test)]
mod tests;

use crate::access;
use crate::block;
use crate::command::{Cdb, Lun, Task};
use crate::copy;
use crate::inquiry;
use crate::lba_status;
use crate::mode;
use crate::nexus::Nexus;
use crate::opcodes::{self, Gate, Known, Needs, action};
use crate::persistent;
use crate::plan::{Answer, Asking, Gathering, MAX_LIST_BYTES, Place, Plan, Work};
use crate::report;
use crate::sense::{Key, Sense, Status, code};
use crate::token;
use crate::unit::{Catalog, Target, Unit};
use crate::vpd;
use amita_frontend::reservation::Access;
use std::sync::Arc;

/// What a command is about.
pub(crate) struct Scope<'a> {
    pub catalog: &'a Catalog,
    pub target: &'a Target,
    pub unit: &'a Unit,
    pub lun: Lun,
    pub cdb: Cdb,
}

/// What the command has and is to be given, as far as the target allows it.
pub(crate) fn has(catalog: &Catalog, target: &Target, needs: Needs) -> bool {
    match needs {
        Needs::Nothing => true,
        Needs::ExplicitAccess => target.explicit_access,
        Needs::Tokens => catalog.tokens.is_some(),
        Needs::ExtendedReservations => catalog.extended_reservations,
    }
}

pub(crate) fn plan(task: &Task<'_>, catalog: &Catalog, target: &Target, nexus: &mut Nexus) -> Plan {
    nexus.observe(catalog, target);
    let cdb = Cdb::new(task.cdb);
    let plan = match find(task.lun, target, nexus) {
        Some(unit) => {
            let scope = Scope {
                catalog,
                target,
                unit,
                lun: task.lun,
                cdb,
            };
            planned(&scope, nexus)
        }
        None => without_unit(task.lun, &cdb, target, nexus),
    };
    let plan = plan.unwrap_or_else(Plan::Answer);
    too_much(&plan, task.expected.out).map_or(plan, Plan::from)
}

/// Does the transport bring more than the command takes, where that cannot be meant? What is compared and what is written are halves of one: the
/// second would begin at another place; and of two blocks that are to be written again and again nobody knows which.
fn too_much(plan: &Plan, expected: u64) -> Option<Sense> {
    const NUMBER_OF_BLOCKS: u16 = 13;
    let is_exact = match plan {
        Plan::Io(io) => matches!(io.work, Work::CompareAndWrite(_)),
        Plan::Gather { then, .. } => matches!(then.cdb.opcode(), opcodes::WRITE_SAME_10 | opcodes::WRITE_SAME_16),
        _ => false,
    };
    match plan.lengths().out {
        taken if !is_exact || expected <= taken => None,
        // Data for no blocks: it is their number that is wrong, which has one byte, and was a multiple of 256.
        0 => Some(Sense::in_cdb(NUMBER_OF_BLOCKS, None)),
        _ => Some(Sense::new(Key::IllegalRequest, code::INVALID_FIELD_IN_INFORMATION_UNIT)),
    }
}

pub(crate) fn gathered(then: &Gathering, list: &[u8], catalog: &Catalog, target: &Target, nexus: &mut Nexus) -> Plan {
    let Some(unit) = find(then.lun, target, nexus) else {
        return Plan::from(Sense::new(Key::IllegalRequest, code::UNIT_NOT_SUPPORTED));
    };
    let scope = Scope {
        catalog,
        target,
        unit,
        lun: then.lun,
        cdb: then.cdb,
    };
    // It has been found before, and what it needs is not asked again.
    let gate = Known::find(&then.cdb, |_| true).map_or(Gate::Open, |known| known.gate);
    match refused(&scope, gate, nexus) {
        Some(access) => ask(&scope, access, Some(list)),
        None => with_list(&scope, list, nexus).unwrap_or_else(Plan::Answer),
    }
}

pub(crate) fn asked(then: &Asking, catalog: &Catalog, target: &Target, nexus: &mut Nexus) -> Plan {
    let Some(unit) = find(then.then.lun, target, nexus) else {
        return Plan::from(Sense::new(Key::IllegalRequest, code::UNIT_NOT_SUPPORTED));
    };
    if !then.place.is_still_of(unit) {
        // It was another one's owner that was asked.
        return Plan::Answer(Answer::of(Status::Busy));
    }
    let scope = Scope {
        catalog,
        target,
        unit,
        lun: then.then.lun,
        cdb: then.then.cdb,
    };
    let plan = match &then.list {
        Some(list) => with_list(&scope, list, nexus),
        None => without_list(&scope, nexus),
    };
    plan.unwrap_or_else(Plan::Answer)
}

/// The logical unit of that number, if this nexus may see it.
fn find<'a>(lun: Lun, target: &'a Target, nexus: &Nexus) -> Option<&'a Arc<Unit>> {
    let number = lun.number()?;
    let is_shown = target.shows(&nexus.initiator().name, number);
    target.unit(number).filter(|_| is_shown)
}

/// What is not there still says that it is not, and which others are (SPC-4, "Incorrect logical unit selection"; SAM-5, "REPORT LUNS well known
/// logical unit").
fn without_unit(lun: Lun, cdb: &Cdb, target: &Target, nexus: &mut Nexus) -> Result<Plan, Answer> {
    let not_supported = Sense::new(Key::IllegalRequest, code::UNIT_NOT_SUPPORTED);
    let is_well_known = lun == Lun::REPORT_LUNS;
    let known = Known::find(cdb, |_| true);
    match cdb.opcode() {
        opcodes::INQUIRY => {
            known?.check_reserved(cdb)?;
            Ok(inquiry::without_unit(cdb, is_well_known)?.into())
        }
        opcodes::REPORT_LUNS if is_well_known || lun.number() == Some(0) => {
            known?.check_reserved(cdb)?;
            Ok(report::luns(cdb, target, nexus)?.into())
        }
        opcodes::REQUEST_SENSE => {
            known?.check_reserved(cdb)?;
            let sense = if is_well_known { Sense::NONE } else { not_supported };
            Ok(report::sense(cdb, &sense).into())
        }
        opcodes::TEST_UNIT_READY if is_well_known => Ok(Answer::good().into()),
        _ if is_well_known => Err(Sense::new(Key::IllegalRequest, code::INVALID_OPCODE).into()),
        _ => Err(not_supported.into()),
    }
}

fn planned(scope: &Scope<'_>, nexus: &mut Nexus) -> Result<Plan, Answer> {
    let number = scope.unit.number;
    // SAM-5, "Unit attention condition": these are carried out, and report none.
    let is_silent = matches!(
        scope.cdb.opcode(),
        opcodes::INQUIRY | opcodes::REPORT_LUNS | opcodes::REQUEST_SENSE
    );
    if !is_silent && let Some(code) = nexus.take_attention(number) {
        return Err(Sense::new(Key::UnitAttention, code).into());
    }
    let known = Known::find(&scope.cdb, |needs| has(scope.catalog, scope.target, needs))?;
    known.check_reserved(&scope.cdb)?;
    opcodes::check_state(scope.unit.state(nexus.tag()), &scope.cdb)?;
    let Some(access) = refused(scope, known.gate, nexus) else {
        return without_list(scope, nexus);
    };
    // Where a list is to come, the owner is asked when that is here: what it lets pass takes nothing more from the host.
    match without_list(scope, nexus) {
        Ok(plan @ Plan::Gather { .. }) => Ok(plan),
        _ => Ok(ask(scope, access, None)),
    }
}

/// Carries out what brings no parameter list, and asks for the list of what does.
fn without_list(scope: &Scope<'_>, nexus: &mut Nexus) -> Result<Plan, Answer> {
    let number = scope.unit.number;
    match scope.cdb.opcode() {
        opcodes::TEST_UNIT_READY => Ok(Answer::good().into()),
        opcodes::REQUEST_SENSE => {
            let pending = nexus.take_attention(number);
            let sense = pending.map_or(Sense::NONE, |code| Sense::new(Key::UnitAttention, code));
            Ok(report::sense(&scope.cdb, &sense).into())
        }
        opcodes::INQUIRY if scope.cdb.bit(1, 0) => Ok(vpd::page(scope, nexus)?.into()),
        opcodes::INQUIRY => Ok(inquiry::standard(scope)?.into()),
        opcodes::REPORT_LUNS => Ok(report::luns(&scope.cdb, scope.target, nexus)?.into()),
        opcodes::MODE_SENSE_6 | opcodes::MODE_SENSE_10 => Ok(mode::sense(scope, nexus)?.into()),
        opcodes::MODE_SELECT_6 | opcodes::MODE_SELECT_10 => mode_select(scope),
        opcodes::READ_CAPACITY_10 => Ok(report::capacity_10(scope)?.into()),
        opcodes::RESERVE_6 | opcodes::RESERVE_10 | opcodes::RELEASE_6 | opcodes::RELEASE_10 => {
            persistent::exclusive(scope, nexus)
        }
        opcodes::PERSISTENT_RESERVE_IN => persistent::read(scope, nexus),
        opcodes::PERSISTENT_RESERVE_OUT => persistent::begin(scope),
        opcodes::THIRD_PARTY_COPY_OUT => copy::begin(scope),
        opcodes::THIRD_PARTY_COPY_IN => Ok(copy::results(scope, nexus)?.into()),
        opcodes::SERVICE_ACTION_IN_16 if scope.cdb.service_action() == action::GET_LBA_STATUS => {
            Ok(lba_status::begin(scope)?)
        }
        opcodes::SERVICE_ACTION_IN_16 => Ok(report::capacity_16(scope).into()),
        opcodes::MAINTENANCE_IN => match scope.cdb.service_action() {
            action::TARGET_PORT_GROUPS => Ok(access::report(scope)?.into()),
            action::SUPPORTED_OPERATION_CODES => Ok(report::commands(scope)?.into()),
            _ => Ok(report::functions(scope, nexus).into()),
        },
        opcodes::MAINTENANCE_OUT => gather(scope, u64::from(scope.cdb.u32(6)), 6),
        _ => block::command(scope, nexus),
    }
}

/// Carries out what has brought its parameter list.
fn with_list(scope: &Scope<'_>, list: &[u8], nexus: &mut Nexus) -> Result<Plan, Answer> {
    match scope.cdb.opcode() {
        opcodes::MODE_SELECT_6 | opcodes::MODE_SELECT_10 => {
            mode::select(scope, list, nexus)?;
            Ok(Answer::good().into())
        }
        opcodes::PERSISTENT_RESERVE_OUT => persistent::change(scope, list, nexus),
        opcodes::THIRD_PARTY_COPY_OUT => match scope.cdb.service_action() {
            action::EXTENDED_COPY => copy::extended(scope, list, nexus),
            action::POPULATE_TOKEN => token::populate(scope, list, nexus),
            _ => token::write(scope, list, nexus),
        },
        opcodes::MAINTENANCE_OUT => access::set(scope, list),
        opcodes::UNMAP => block::unmap(scope, list, nexus),
        _ => block::same(scope, list, nexus),
    }
}

/// Asks for a parameter list; `at` is where its length stands. A list of nothing is nothing to do, and no error.
pub(crate) fn gather(scope: &Scope<'_>, bytes: u64, at: u16) -> Result<Plan, Answer> {
    match u32::try_from(bytes) {
        Ok(0) => Ok(Answer::good().into()),
        Ok(bytes) if bytes <= MAX_LIST_BYTES => Ok(Plan::Gather {
            bytes,
            then: Gathering {
                lun: scope.lun,
                cdb: scope.cdb,
            },
        }),
        _ => Err(Sense::in_cdb(at, None).into()),
    }
}

fn mode_select(scope: &Scope<'_>) -> Result<Plan, Answer> {
    let cdb = &scope.cdb;
    let (bytes, at) = match cdb.opcode() {
        opcodes::MODE_SELECT_6 => (u64::from(cdb.u8(4)), 4),
        _ => (u64::from(cdb.u16(7)), 7),
    };
    // SP: nothing can be saved. PF: pages of a format of one's own are not known here.
    match (cdb.bit(1, 0), cdb.bit(1, 4)) {
        (true, _) => Err(Sense::in_cdb(1, Some(0)).into()),
        (false, false) if bytes > 0 => Err(Sense::in_cdb(1, Some(4)).into()),
        _ => gather(scope, bytes, at),
    }
}

/// What the command does that the reservation of another host forbids, as far as this gateway has heard. Only of what no owner is asked about anyway.
fn refused(scope: &Scope<'_>, gate: Gate, nexus: &Nexus) -> Option<Access> {
    let access = match gate {
        Gate::Open | Gate::Owner => return None,
        Gate::Read => Access::Read,
        Gate::Write => Access::Write,
    };
    let state = scope.catalog.reservations.get(&scope.unit.volume)?;
    // A snapshot is not what is reserved.
    let is_refused = !scope.unit.is_write_protected() && !state.allows(nexus.key(), access);
    is_refused.then_some(access)
}

/// Has the volume's owner asked. What this gateway has heard may be old: from a registration that was answered as good to the word of it milliseconds
/// pass, and while the metadata cannot be reached from here nothing is heard at all. A host takes a conflict for the last word.
fn ask(scope: &Scope<'_>, access: Access, list: Option<&[u8]>) -> Plan {
    Plan::Ask(Asking {
        place: Place::of(scope.unit),
        access,
        then: Gathering {
            lun: scope.lun,
            cdb: scope.cdb,
        },
        list: list.map(<[u8]>::to_vec),
    })
}
