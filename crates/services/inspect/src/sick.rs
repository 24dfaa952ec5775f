//! Which disks are to be watched, and which are to be left: levels, from what the checks find of disks.
//!
//! | level | means | follows from |
//! | --- | --- | --- |
//! | warn | it is to be watched | wear, errors, latency that has grown |
//! | avoid | it predicts its failure | its own word, a life that is used up, spare blocks that run out, errors that grow steadily |
//! | isolate | and its copies are being moved, or have been | that its store is drained |
//!
//! All of it is pure: what is found, what was known before, and what follows. What could not be looked at stays as it was known: silence
//! is no health. What was found must be gone for a day before it counts as gone.

mod hindrance;

pub use hindrance::hindrance;

use crate::check;
use crate::code::{Check, Code};
use crate::gather::Facts;
use crate::inventory::{Device, Disk, short};
use crate::sheet::{Finding, Severity};
use amita_control::events::{Draft, Kind};
use amita_types::StoreId;
use amita_types::condition::{DiskLevel, SickDisk};
use amita_types::map::StoreDuty;
use amita_types::recovery::SickDisks;
use std::collections::{BTreeMap, BTreeSet};

/// What was found counts as gone when it was not found for so long, in seconds.
const WELL_S: u64 = 24 * 3600;
/// A disk is drained by itself where that was found at readings of it that lie so far apart, in seconds, and at all between them.
const SURE_S: u64 = 600;
/// What hinders a drain until then.
const NOT_SURE: &str = "two readings of the disk, ten minutes apart or more, are to say so one after the other";
/// Where only figures have changed they are written so often, in seconds.
const FIGURES_S: u64 = 3600;
/// The longest evidence, in characters.
const MAX_EVIDENCE: usize = 600;

/// What is found of a disk's latency by one look.
const SLOWER: [Code; 2] = [Code::DiskSlowerThanSiblings, Code::DiskSlowerThanBefore];

/// What was found of the disk beneath a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What is to be done.
    pub level: DiskLevel,
    /// Codes of what was found.
    pub codes: BTreeSet<&'static str>,
    /// What was seen.
    pub evidence: String,
}

/// What an inspection says of the disk beneath a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// The disk.
    pub disk: String,
    /// None: nothing was found.
    pub seen: Option<Seen>,
    /// The checks that could look.
    pub checks: BTreeSet<&'static str>,
    /// When it was read, in seconds since 1970 by the clock of its node.
    pub taken_at: u64,
}

impl Looked {
    /// Is found now what is to be done about, and was that so long enough?
    fn is_sure(&self, since: Option<u64>) -> bool {
        let is_found = self.seen.as_ref().is_some_and(|seen| seen.level >= DiskLevel::Avoid);
        is_found && since.is_some_and(|since| self.taken_at >= since.saturating_add(SURE_S))
    }
}

/// How much is to be done because of a finding; none: it is no matter of the disk itself.
fn level(found: &Finding) -> Option<DiskLevel> {
    use Code::*;
    match (Code::named(found.code)?, found.severity) {
        (DiskPredictsFailure | DiskSpareLow | DiskReadOnly, _) => Some(DiskLevel::Avoid),
        (DiskWarns | DiskWorn | DiskErrorsGrow, Severity::Critical) => Some(DiskLevel::Avoid),
        (DiskWorn | DiskErrorsGrow | DiskWearsOut | DiskMediaErrors, _) => Some(DiskLevel::Warn),
        (DiskSlowerThanSiblings | DiskSlowerThanBefore | DiskSlows, _) => Some(DiskLevel::Warn),
        (DiskBadSectors, Severity::Warning) => Some(DiskLevel::Warn),
        _ => None,
    }
}

/// Looks at the disks of all stores that somebody tells of.
#[must_use]
pub fn look(facts: &Facts) -> BTreeMap<StoreId, Looked> {
    let report = check::of_disks(facts);
    let mut by_place: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for found in report.findings.iter().filter(|found| found.place.kind == "disk") {
        by_place.entry(&found.place.name).or_default().push(found);
    }
    let mut all = BTreeMap::new();
    for own in &facts.status.stores {
        let Ok(inventory) = facts.inventory(own.store.node) else {
            continue;
        };
        let Some(disk) = inventory.disks.iter().find(|disk| disk.path == own.store.path) else {
            continue;
        };
        let device = disk.device.get().ok();
        // What is found is named by the disk, or by the path of the store.
        let names = [Some(disk.path.as_str()), device.map(|device| device.name.as_str())];
        let places = names.iter().flatten().map(|name| format!("{}/{name}", own.node_name));
        let places: BTreeSet<String> = places.collect();
        let found = places.iter().filter_map(|place| by_place.get(place.as_str())).flatten();
        let looked = Looked {
            disk: name(disk, device),
            seen: seen(found.copied()),
            checks: could_look(disk, device),
            taken_at: inventory.taken_at,
        };
        all.insert(own.store.id, looked);
    }
    all
}

fn name(disk: &Disk, device: Option<&Device>) -> String {
    match device {
        None => short(&disk.path),
        Some(device) if device.model.is_empty() => device.name.clone(),
        Some(device) => short(&format!("{}, {} {}", device.name, device.model, device.serial)),
    }
}

fn could_look(disk: &Disk, device: Option<&Device>) -> BTreeSet<&'static str> {
    let health = device.is_some_and(|device| device.smart.is_some() || device.health.get().is_ok());
    let all = [
        (
            Check::Disks,
            device.is_some_and(|device| device.read_only.get().is_ok()),
        ),
        (Check::Wear, health),
        (Check::Latency, disk.latency.get().is_ok()),
    ];
    all.iter()
        .filter(|(_, could)| *could)
        .map(|(check, _)| check.name())
        .collect()
}

fn seen<'a>(found: impl Iterator<Item = &'a Finding>) -> Option<Seen> {
    let mut all: Vec<(DiskLevel, &Finding)> = found.filter_map(|found| Some((level(found)?, found))).collect();
    // One busy hour makes a disk slower than others, or than before. It is the disk where it is slower than both.
    let is_slow = |code: Code| all.iter().any(|(_, found)| found.code == code.name());
    let is_slower = SLOWER.map(is_slow) == [true; 2];
    all.retain(|(_, found)| is_slower || SLOWER.iter().all(|code| code.name() != found.code));
    // The worst comes first, of several that are as bad always the same.
    all.sort_by_key(|(level, found)| (std::cmp::Reverse(*level), found.code, found.reason.clone()));
    let sentences: Vec<&str> = all.iter().map(|(_, found)| found.reason.as_str()).collect();
    Some(Seen {
        level: all.first()?.0,
        codes: all.iter().map(|(_, found)| found.code).collect(),
        evidence: sentences.join("; ").chars().take(MAX_EVIDENCE).collect(),
    })
}

/// What is to be written of a store's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This, and an event.
    Put(Box<SickDisk>, Option<Draft>),
    /// Nothing any more, and an event.
    Delete(StoreId, Option<Draft>),
}

/// What the cluster does about a disk that predicts its failure, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Nothing hinders that its store is drained.
    Free,
    /// It was tried to drain it, or is not tried: this hinders.
    Hindered(String),
    /// Its store was drained now.
    Drained,
}

/// What follows from what is known of the disks before and from what is seen of them now. `act` is given a store, how many stores are on
/// disks that predict their failure, and whether it is to be drained where nothing hinders that; it says what hinders.
pub fn steps(
    facts: &Facts,
    known: &BTreeMap<StoreId, SickDisk>,
    act: &mut dyn FnMut(StoreId, usize, bool) -> Deed,
) -> Vec<Step> {
    if facts.recovery.sick_disks == SickDisks::Off {
        return known.keys().map(|store| Step::Delete(*store, None)).collect();
    }
    let looked = look(facts);
    let mut next: BTreeMap<StoreId, SickDisk> = BTreeMap::new();
    let mut steps = Vec::new();
    for own in &facts.status.stores {
        let id = own.store.id;
        let before = known.get(&id);
        match of_store(id, facts.at, looked.get(&id), before) {
            Some(now) => drop(next.insert(id, now)),
            None if before.is_some() => {
                let text = format!("the disk of store {id} on node {} is well again", own.node_name);
                let draft = Draft::new(Kind::DiskWell, [id.to_string(), own.node_name.clone()], text);
                steps.push(Step::Delete(id, Some(draft)));
            }
            None => {}
        }
    }
    let is_store = |id: &StoreId| facts.status.stores.iter().any(|own| own.store.id == *id);
    let gone = known.keys().filter(|id| !is_store(id));
    steps.extend(gone.map(|id| Step::Delete(*id, None)));
    let failing = next.values().filter(|disk| disk.level >= DiskLevel::Avoid).count();
    for (id, mut now) in next {
        let is_sure = looked.get(&id).is_some_and(|looked| looked.is_sure(now.failing_since));
        decide(facts, &mut now, failing, is_sure, act);
        let before = known.get(&id);
        if before.is_some_and(|before| !is_news(before, &now, facts.at)) {
            continue;
        }
        now.told_at = facts.at;
        let draft = event(facts, before, &now);
        steps.push(Step::Put(Box::new(now), draft));
    }
    steps
}

/// What is so of a store's disk now; none: it is well. Nothing is decided yet.
fn of_store(store: StoreId, at: u64, looked: Option<&Looked>, before: Option<&SickDisk>) -> Option<SickDisk> {
    // Nobody tells of it: it stays as it was.
    let Some(looked) = looked else { return before.cloned() };
    // Where it was better meanwhile it begins anew.
    let failing = before.filter(|before| before.better_since.is_none());
    let failing = failing
        .and_then(|before| before.failing_since)
        .unwrap_or(looked.taken_at);
    let fresh = |seen: &Seen| SickDisk {
        store,
        disk: looked.disk.clone(),
        level: seen.level,
        codes: seen.codes.iter().map(|code| (*code).to_owned()).collect(),
        evidence: seen.evidence.clone(),
        since: before.map_or(at, |before| before.since),
        told_at: before.map_or(at, |before| before.told_at),
        decision: before.map(|before| before.decision.clone()).unwrap_or_default(),
        failing_since: (seen.level >= DiskLevel::Avoid).then_some(failing),
        drained_at: before.and_then(|before| before.drained_at),
        better_since: None,
    };
    let Some(before) = before else {
        return looked.seen.as_ref().map(fresh);
    };
    if let Some(seen) = &looked.seen
        && seen.level >= before.level.min(DiskLevel::Avoid)
    {
        return Some(fresh(seen));
    }
    let check_of = |code: &String| Code::named(code).map(|code| code.check().name());
    let could_look = |code: &String| check_of(code).is_none_or(|check| looked.checks.contains(check));
    let mut same = before.clone();
    if !before.codes.iter().all(could_look) {
        same.better_since = None;
        return Some(same);
    }
    // By the clock of the disk's own node: those of coordinators may be a day apart.
    let since = *same.better_since.get_or_insert(looked.taken_at);
    match looked.taken_at.saturating_sub(since) {
        long if long >= WELL_S => looked.seen.as_ref().map(fresh),
        _ => Some(same),
    }
}

/// What is done, or would be.
fn decide(
    facts: &Facts,
    now: &mut SickDisk,
    failing: usize,
    is_sure: bool,
    act: &mut dyn FnMut(StoreId, usize, bool) -> Deed,
) {
    if now.level < DiskLevel::Avoid {
        now.decision.clear();
        return;
    }
    let own = facts.status.stores.iter().find(|own| own.store.id == now.store);
    let is_drained = own.is_some_and(|own| own.store.duty == StoreDuty::Draining);
    let drains = facts.recovery.sick_disks == SickDisks::Drain;
    // One whose drain was ended is the operator's.
    let deed = match is_drained || now.drained_at.is_some() {
        true => None,
        false => Some(match act(now.store, failing, drains && is_sure) {
            Deed::Free if drains => Deed::Hindered(NOT_SURE.to_owned()),
            deed => deed,
        }),
    };
    if deed == Some(Deed::Drained) {
        now.drained_at = Some(facts.at);
    }
    let isolated = is_drained || deed == Some(Deed::Drained);
    now.level = if isolated { DiskLevel::Isolate } else { DiskLevel::Avoid };
    let paused = own.filter(|own| own.store.drain_stands_still());
    now.decision = match (deed, now.drained_at) {
        (None, _) if paused.is_some() => format!(
            "Its drain is paused, and nothing moves: `amita job resume drain-{}` has it go on.",
            now.store
        ),
        (_, Some(_)) if isolated => "The cluster drains it.".to_owned(),
        (_, None) if isolated => "It is being drained, or has been.".to_owned(),
        (Some(Deed::Hindered(why)), _) if drains => format!("It is not drained by itself: {why}."),
        (Some(Deed::Hindered(why)), _) => format!("Nothing is done by itself; it could not be drained so: {why}."),
        (Some(_), _) => {
            "Nothing is done by itself; with `amita recovery set --sick-disks drain` it would be drained now."
                .to_owned()
        }
        (None, _) => "The drain that the cluster had begun was ended: nothing more is done by itself.".to_owned(),
    };
}

/// Is it worth a record? Figures alone are so now and then.
fn is_news(before: &SickDisk, now: &SickDisk, at: u64) -> bool {
    let figures = |disk: &SickDisk| {
        let mut same = disk.clone();
        (same.evidence, same.told_at) = (String::new(), 0);
        same
    };
    figures(before) != figures(now)
        || (before.evidence != now.evidence && at >= before.told_at.saturating_add(FIGURES_S))
}

fn event(facts: &Facts, before: Option<&SickDisk>, now: &SickDisk) -> Option<Draft> {
    let own = facts.status.stores.iter().find(|own| own.store.id == now.store);
    let node = own.map(|own| own.node_name.clone()).unwrap_or_default();
    let was = before.map(|before| before.level);
    let whose = format!("the disk of store {} on node {node} ({})", now.store, now.disk);
    let command = match now.level {
        DiskLevel::Avoid => format!(" `amita disk drain {}` moves its copies to others.", now.store),
        _ => String::new(),
    };
    let (kind, text) = match (was, now.level) {
        (None, DiskLevel::Warn) => (Kind::DiskAging, format!("{whose} is not well: {}", now.evidence)),
        (None | Some(DiskLevel::Warn), DiskLevel::Avoid | DiskLevel::Isolate) => (
            Kind::DiskFailing,
            format!(
                "{whose} predicts its failure: {}. {}{command}",
                now.evidence, now.decision
            ),
        ),
        (Some(_), DiskLevel::Avoid | DiskLevel::Isolate)
            if before.is_some_and(|before| before.decision != now.decision) =>
        {
            (
                Kind::DiskDecided,
                format!("{whose} predicts its failure. {}", now.decision),
            )
        }
        _ => return None,
    };
    Some(Draft::new(kind, [now.store.to_string(), node], text))
}

#[cfg(test)]
mod tests;
