//! Clocks against each other.

use super::{nodes, told};
use crate::clocks::Apart;
use crate::code::{Check, Code};
use crate::gather::Facts;
use crate::inventory::Inventory;
use crate::sheet::{Place, Severity, Sheet};
use std::collections::BTreeMap;

/// From so many milliseconds on it is worth a line: a machine that follows a time server is nearer by far.
const NOTICE_MS: u64 = 200;
/// Events of two nodes stand in the wrong order.
const WARNING_MS: u64 = 1000;
/// Schedules and certificates are wrong.
const CRITICAL_MS: u64 = 30_000;

pub(super) fn check(facts: &Facts, sheet: &mut Sheet) {
    let told = told(facts, &[Check::Clocks], sheet);
    for (name, inventory) in &told {
        let synchronised = sheet.look_at(Check::Clocks, Place::node(name), &inventory.clock.synchronised);
        if synchronised == Some(&false) {
            let reason = "its kernel does not hold its clock for synchronised (STA_UNSYNC)";
            sheet.find(Code::ClockFree, Place::node(name), reason);
        }
    }
    if told.len() < 2 {
        return sheet.blind(
            Check::Clocks,
            Place::cluster(),
            "two nodes have to tell, so that their clocks can be compared",
        );
    }
    let pairs = pairs(facts, &told);
    for (name, _) in &told {
        let own: Vec<(&str, Apart)> = pairs
            .iter()
            .filter_map(|((one, other), apart)| match name {
                name if name == one => Some((*other, *apart)),
                name if name == other => Some((
                    *one,
                    Apart {
                        ahead_ms: apart.ahead_ms.saturating_neg(),
                        ..*apart
                    },
                )),
                _ => None,
            })
            .collect();
        match own.is_empty() {
            true => sheet.blind(
                Check::Clocks,
                Place::node(name),
                "no other node and this one have seen each other's clock yet",
            ),
            false => judge(name, &own, sheet),
        }
    }
}

/// How far each two nodes are apart that have seen each other.
fn pairs<'a>(facts: &'a Facts, told: &[(&'a str, &Inventory)]) -> BTreeMap<(&'a str, &'a str), Apart> {
    let numbers: BTreeMap<u32, &str> = nodes(facts)
        .map(|found| (found.node.id.0, found.node.name.as_str()))
        .collect();
    let mut seen: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (name, inventory) in told {
        for sight in &inventory.clock.seen {
            if let Some(other) = numbers.get(&sight.node) {
                seen.insert((*name, *other), sight.least_ms);
            }
        }
    }
    let both = seen.iter().filter(|((one, other), _)| one < other);
    both.filter_map(|((one, other), first)| {
        let second = seen.get(&(*other, *one))?;
        Some(((*one, *other), Apart::of(*first, *second)))
    })
    .collect()
}

/// A clock is off where it is so against most of those that it was compared with: of two that differ, nobody can say which is right.
fn judge(name: &str, own: &[(&str, Apart)], sheet: &mut Sheet) {
    sheet.look(Check::Clocks);
    let mut sorted: Vec<&(&str, Apart)> = own.iter().collect();
    sorted.sort_by_key(|(_, apart)| apart.ahead_ms);
    let (other, apart) = sorted[sorted.len() / 2];
    let severity = match apart.at_least_ms() {
        ms if ms >= CRITICAL_MS => Severity::Critical,
        ms if ms >= WARNING_MS => Severity::Warning,
        ms if ms >= NOTICE_MS => Severity::Notice,
        _ => return,
    };
    // Of an even number the one in the middle may be the wrong one: the others must agree.
    let agree = own.iter().filter(|(_, found)| found.at_least_ms() >= NOTICE_MS).count();
    if agree * 2 < own.len() {
        return;
    }
    let way = if apart.ahead_ms > 0 { "ahead of" } else { "behind" };
    let reason = format!(
        "its clock is {:.1} s {way} that of {other} (by no more than {:.2} s wrong), as {agree} of {} comparisons say",
        apart.ahead_ms.unsigned_abs() as f64 / 1000.0,
        apart.doubt_ms as f64 / 1000.0,
        own.len()
    );
    sheet.find_as(Code::ClockOff, severity, Place::node(name), reason);
}
