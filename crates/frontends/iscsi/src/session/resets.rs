//! Resets of logical units, which are for all sessions, at whatever gateway (SAM-5, "Logical unit reset"; RFC 7143, 4.2.3).
//!
//! A reset that comes to a session ends its own tasks at once. Then the *owner* of each volume gives up whosever lock there is, and counts the
//! reset in the volume's reservation, of which all gateways hear; then the *register* of this gateway tells the other sessions of the
//! target, and waits until they have ended theirs. Sessions of other gateways, and of other targets with the same volume, see that the count has
//! grown. They do so a moment after the owner has it, and that is waited for ([`HEARD_AFTER`]); what they have under way is not.
//!
//! The count does not say by whom. So each session remembers how far it has carried resets out: what the register tells comes with the
//! count, and is no news when the settings tell it, nor the other way round; of its own resets the owner's answer says which they are, and
//! until that has come it does not look.

use super::task::Fault;
use super::{Session, locks};
use crate::Cx;
use crate::catalog::ResetCounts;
use crate::connection::End;
use crate::hub::{Counts, Scope};
use amita_frontend::reservation::{Command, Refusal, State};
use amita_scsi::nexus::Happening;
use amita_scsi::unit::Unit;
use amita_types::VolumeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Owners that are asked at once for a reset of all of a target: each counts it by a transaction of the metadata.
const MAX_ASKED: usize = 16;
/// How soon other gateways have heard what an owner has written: they look at reservations every 50 ms.
pub(super) const HEARD_AFTER: Duration = Duration::from_millis(100);

/// How far the resets of a volume are carried out.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    count: u64,
    /// How many the settings have told of.
    told: u64,
    /// The last of them has ended tasks up to this serial.
    up_to: u64,
}

/// The resets that a session knows of.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// Of volumes that were reset at all.
    seen: BTreeMap<VolumeId, Seen>,
    /// Of the session's own reset: volumes whose owners are still to be asked.
    waiting: BTreeSet<VolumeId>,
    /// Those that are asked, by serials.
    asked: BTreeMap<u64, VolumeId>,
    /// What they have counted.
    counts: Vec<(VolumeId, u64)>,
    /// The reset has ended tasks up to this serial.
    up_to: u64,
    has_failed: bool,
}

impl Resets {
    /// What was before the session is none of its news.
    pub fn new(counts: &ResetCounts) -> Resets {
        let seen = counts.iter().map(|(volume, count)| {
            let seen = Seen {
                count: *count,
                told: *count,
                up_to: 0,
            };
            (*volume, seen)
        });
        Resets {
            seen: seen.collect(),
            ..Resets::default()
        }
    }

    /// Has an owner still to answer?
    pub fn is_asking(&self) -> bool {
        !(self.waiting.is_empty() && self.asked.is_empty())
    }

    /// What the owners have counted, and whether all of them have.
    pub fn take_counts(&mut self) -> (Counts, bool) {
        (std::mem::take(&mut self.counts).into(), !self.has_failed)
    }

    fn is_asked(&self, volume: VolumeId) -> bool {
        self.waiting.contains(&volume) || self.asked.values().any(|asked| *asked == volume)
    }
}

/// Is a logical unit of that number reset?
fn is_meant(scope: Scope, number: u16) -> bool {
    match scope {
        Scope::Unit(meant) => meant == number,
        Scope::Target | Scope::TargetAndSessions => true,
    }
}

/// The logical units of the session that are reset, and can be counted: nobody reserves a snapshot, and what the initiator may not see it does not
/// reset.
fn units(session: &Session, scope: Scope) -> impl Iterator<Item = &Arc<Unit>> {
    let initiator = session.names.initiator.as_str();
    let units = session.target.iter().flat_map(move |target| target.units_of(initiator));
    units.filter(move |unit| is_meant(scope, unit.number) && !unit.is_write_protected())
}

/// The session's initiator has asked for it, and its tasks up to that serial are ended: the owners count it.
pub(super) fn begin(session: &mut Session, scope: Scope, up_to: u64, cx: &mut Cx<'_>) {
    let is_counted = session.catalog.scsi.extended_reservations;
    let waiting = match is_counted {
        true => units(session, scope).map(|unit| unit.volume).collect(),
        false => BTreeSet::new(),
    };
    session.resets.waiting = waiting;
    session.resets.counts.clear();
    session.resets.up_to = up_to;
    session.resets.has_failed = false;
    ask(session, cx);
}

fn ask(session: &mut Session, cx: &mut Cx<'_>) {
    let (front, host) = (session.engine.front(), session.nexus.key());
    while session.resets.asked.len() < MAX_ASKED
        && let Some(volume) = session.resets.waiting.pop_first()
    {
        session.task_serial += 1;
        let serial = session.task_serial;
        session.resets.asked.insert(serial, volume);
        cx.service
            .reserve(front, locks::tag(serial), volume, host, Command::Reset);
    }
}

/// Is that an owner's answer? It is taken, then.
pub(super) fn answered(
    session: &mut Session,
    answered: u64,
    result: &Result<State, Refusal>,
    cx: &mut Cx<'_>,
) -> Result<bool, End> {
    let resets = &mut session.resets;
    let serial = answered >> 1;
    let asked = (answered == locks::tag(serial)).then(|| resets.asked.remove(&serial));
    let Some(volume) = asked.flatten() else {
        return Ok(false);
    };
    match result {
        Ok(state) => {
            resets.counts.push((volume, state.resets));
            let seen = resets.seen.entry(volume).or_default();
            if state.resets > seen.count {
                (seen.count, seen.up_to) = (state.resets, resets.up_to);
            }
        }
        // Somebody has not heard of it.
        Err(_) => resets.has_failed = true,
    }
    ask(session, cx);
    look(session, cx)?;
    Ok(true)
}

/// Carries out what the settings tell of resets by other gateways.
pub(super) fn look(session: &mut Session, cx: &mut Cx<'_>) -> Result<(), End> {
    let counts = session.common.resets.clone();
    let (serial, resets) = (session.task_serial, &mut session.resets);
    for (volume, seen) in &mut resets.seen {
        let told = counts.get(volume).copied().unwrap_or(0);
        if told < seen.told {
            // An operator has removed the record: it is counted anew.
            seen.count = told;
        }
        seen.told = told;
    }
    resets.seen.retain(|_, seen| seen.count > 0);
    let mut grown = BTreeSet::new();
    for (volume, count) in &*counts {
        let known = resets.seen.get(volume).map_or(0, |seen| seen.count);
        if *count > known && !resets.is_asked(*volume) {
            let seen = Seen {
                count: *count,
                told: *count,
                up_to: serial,
            };
            resets.seen.insert(*volume, seen);
            grown.insert(*volume);
        }
    }
    if grown.is_empty() {
        return Ok(());
    }
    let units = units(session, Scope::Target).filter(|unit| grown.contains(&unit.volume));
    let numbers: BTreeSet<u16> = units.map(|unit| unit.number).collect();
    for number in &numbers {
        session.nexus.happened(Some(*number), Happening::Reset);
    }
    let is_reset = |number: u16| numbers.contains(&number);
    session.end_tasks(|task| task.lun.number().is_some_and(is_reset), Fault::Cleared, cx)?;
    Ok(())
}

/// Ends the tasks of this session that a reset concerns, and has its initiator told with the next command; `counts`: how often the volumes were
/// reset with that, where it is known. Of what the settings have told before, only the tasks are waited for. Returns the serials of those
/// that have not ended yet.
pub(super) fn carry_out(
    session: &mut Session,
    scope: Scope,
    counts: &Counts,
    fault: Fault,
    cx: &mut Cx<'_>,
) -> Result<Vec<u64>, End> {
    let counts: BTreeMap<VolumeId, u64> = counts.iter().copied().collect();
    let mut known: BTreeMap<u16, u64> = BTreeMap::new();
    let mut news = Vec::new();
    for unit in units(session, scope) {
        let Some(count) = counts.get(&unit.volume) else {
            continue;
        };
        match session.resets.seen.get(&unit.volume) {
            Some(seen) if seen.count >= *count => _ = known.insert(unit.number, seen.up_to),
            _ => news.push((unit.volume, *count)),
        }
    }
    let serial = session.task_serial;
    for (volume, count) in news {
        let seen = session.resets.seen.entry(volume).or_default();
        (seen.count, seen.up_to) = (count, serial);
    }
    happened(session, scope, &known);
    let is_ended = |number: Option<u16>, serial: u64| match number {
        Some(number) => is_meant(scope, number) && known.get(&number).is_none_or(|up_to| serial <= *up_to),
        None => !matches!(scope, Scope::Unit(_)),
    };
    session.end_tasks(|task| is_ended(task.lun.number(), task.serial), fault, cx)
}

/// The initiator is told of each logical unit that is reset, but of those of which it was told.
fn happened(session: &mut Session, scope: Scope, known: &BTreeMap<u16, u64>) {
    let all = match scope {
        Scope::Unit(number) => Some(number).filter(|number| !known.contains_key(number)).map(Some),
        Scope::Target | Scope::TargetAndSessions => known.is_empty().then_some(None),
    };
    if let Some(number) = all {
        return session.nexus.happened(number, Happening::Reset);
    }
    let Some(target) = session.target.clone() else { return };
    let numbers = target.units_of(&session.names.initiator).map(|unit| unit.number);
    for number in numbers.filter(|number| is_meant(scope, *number) && !known.contains_key(number)) {
        session.nexus.happened(Some(number), Happening::Reset);
    }
}
