//! The disks beneath stores: whether they can be written and flushed, and what they say of their health.

use super::told;
use crate::code::{Check, Code};
use crate::gather::Facts;
use crate::inventory::{Device, Health, Sample};
use crate::sheet::{Place, Severity, Sheet};
use std::collections::BTreeSet;

/// From so much wear on another disk is to be ordered, and from so much on it is to be put in.
const WORN_PERCENT: (u8, u8) = (80, 100);
/// A disk that is worn sooner than in so many days is told of: time to order one, and to plan the day.
const WEARS_OUT_DAYS: u64 = 183;
/// Wear comes in whole percent: before there are so many of them, or so many hours, a pace says nothing.
const LEAST_WEAR: (u8, u64) = (2, 30 * 24);
/// A disk that does not say when it is too hot is so from here on.
const HOT_C: i32 = 70;
const DAY_S: u64 = 24 * 3600;

/// What the bits of the critical warning mean (NVM Express Base Specification, log page 02h, byte 0).
const WARNINGS: [&str; 6] = [
    "few spare blocks are left",
    "it is too hot or too cold",
    "it has become unreliable",
    "it can only be read",
    "its memory is not backed up any more",
    "its persistent memory can only be read or is unreliable",
];

pub(super) fn check(facts: &Facts, sheet: &mut Sheet) {
    for (node, inventory) in told(facts, &[Check::Disks, Check::Wear], sheet) {
        let mut seen = BTreeSet::new();
        for disk in &inventory.disks {
            let place = Place::part("disk", node, &disk.path);
            let Ok(device) = disk.device.get() else {
                let why = disk.device.get().err().unwrap_or_default();
                sheet.blind(Check::Disks, place.clone(), why);
                sheet.blind(Check::Wear, place, why);
                continue;
            };
            // Several stores may lie on one disk.
            if seen.insert(device.name.as_str()) {
                let place = Place::part("disk", node, &device.name);
                writing(facts, node, &disk.path, device, &place, sheet);
                if let Some(health) = sheet.look_at(Check::Wear, place.clone(), &device.health) {
                    judge(health, &place, sheet);
                    wear(facts.at, health, &disk.samples, &place, sheet);
                }
            }
        }
    }
}

fn writing(facts: &Facts, node: &str, path: &str, device: &Device, place: &Place, sheet: &mut Sheet) {
    let who = match device.model.as_str() {
        "" => format!("{} (store {path})", device.name),
        model => format!("{} ({model}, store {path})", device.name),
    };
    if sheet.look_at(Check::Disks, place.clone(), &device.read_only) == Some(&true) {
        sheet.find(
            Code::DiskReadOnly,
            place.clone(),
            format!("{who} is read-only to the kernel"),
        );
    }
    let volatile = device.health.get().ok().and_then(|health| health.volatile_cache);
    match (sheet.look_at(Check::Disks, place.clone(), &device.flushed), volatile) {
        (Some(false), Some(true)) => {
            let reason =
                format!("{who} has a volatile cache (VWC), and its queue says `write through`: it is not flushed");
            sheet.find(Code::CacheHidden, place.clone(), reason);
        }
        (Some(true), Some(true) | None) => {
            sheet.find(
                Code::CacheVolatile,
                place.clone(),
                format!("{who} has a write cache that is flushed (`write back`)"),
            );
        }
        // Of another sort of disk nobody can say what is behind `write through`.
        (Some(false), None) => {
            let why = "its queue says `write through`; whether the disk has a cache all the same is not known";
            sheet.blind(Check::Disks, place.clone(), why);
        }
        _ => {}
    }
    if sheet.look_at(Check::Disks, place.clone(), &device.rotational) == Some(&true) {
        let own = facts
            .status
            .stores
            .iter()
            .find(|found| found.node_name == node && found.store.path == path);
        let class = own.map(|found| found.store.class.as_str()).unwrap_or_default();
        if ["nvme", "ssd", "flash"].contains(&class) {
            sheet.find(
                Code::DiskTurns,
                place.clone(),
                format!("{who} turns, and its store is of class {class}"),
            );
        }
    }
}

fn judge(health: &Health, place: &Place, sheet: &mut Sheet) {
    if health.warnings != 0 {
        let bits = (0..8).filter(|bit| health.warnings & (1 << bit) != 0);
        let says: Vec<&str> = bits
            .map(|bit| WARNINGS.get(bit).copied().unwrap_or("a warning of a newer kind"))
            .collect();
        let reason = format!(
            "it says: {} (critical warning {:#04x})",
            says.join("; "),
            health.warnings
        );
        sheet.find(Code::DiskWarns, place.clone(), reason);
    }
    if health.spare_percent <= health.spare_least_percent {
        let reason = format!(
            "{} % of its spare blocks are left; at {} % it warns",
            health.spare_percent, health.spare_least_percent
        );
        sheet.find(Code::DiskSpareLow, place.clone(), reason);
    }
    if health.media_errors > 0 {
        let reason = format!(
            "{} reads or writes could not be done right in {} hours",
            health.media_errors, health.on_hours
        );
        sheet.find(Code::DiskMediaErrors, place.clone(), reason);
    }
    let hot = health.warns_at_c.unwrap_or(HOT_C);
    if health.temperature_c >= hot {
        let reason = format!("{} degrees Celsius; from {hot} on it is too hot", health.temperature_c);
        sheet.find(Code::DiskHot, place.clone(), reason);
    }
}

fn wear(now: u64, health: &Health, samples: &[Sample], place: &Place, sheet: &mut Sheet) {
    let used = health.used_percent;
    if used >= WORN_PERCENT.0 {
        let severity = if used >= WORN_PERCENT.1 {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let reason = format!(
            "{used} % of its life are used, in {} hours{}",
            health.on_hours,
            recently(samples)
        );
        sheet.find_as(Code::DiskWorn, severity, place.clone(), reason);
    }
    match days_left(health) {
        None if used < WORN_PERCENT.0 => {
            let why = format!(
                "a forecast of its wear: {used} % in {} hours say no pace yet",
                health.on_hours
            );
            sheet.blind(Check::Wear, place.clone(), why);
        }
        Some(days) if days < WEARS_OUT_DAYS && used < WORN_PERCENT.1 => {
            let reason = format!(
                "{used} % of its life in {} hours: at that pace it is worn in {days} days, on {}{}",
                health.on_hours,
                crate::report::day(now + days * DAY_S),
                recently(samples)
            );
            sheet.find(Code::DiskWearsOut, place.clone(), reason);
        }
        _ => {}
    }
}

/// At the pace of the whole life so far: it comes in whole percent, and a week is too short to see one.
fn days_left(health: &Health) -> Option<u64> {
    let used = u64::from(health.used_percent);
    if health.used_percent < LEAST_WEAR.0 || health.on_hours < LEAST_WEAR.1 {
        return None;
    }
    let hours = 100_u64.saturating_sub(used).saturating_mul(health.on_hours) / used;
    Some((hours / 24).min(100 * 365))
}

fn recently(samples: &[Sample]) -> String {
    let worn: Vec<(u64, u8)> = samples
        .iter()
        .filter_map(|sample| Some((sample.at, sample.worn_percent?)))
        .collect();
    match (worn.first(), worn.last()) {
        (Some((from, before)), Some((to, after))) if after > before && to > from => {
            format!(
                "; {} % of them in the last {} days",
                after - before,
                (to - from).div_ceil(DAY_S)
            )
        }
        _ => String::new(),
    }
}
