//! The disks beneath stores: whether they can be written and flushed, and what they say of their health.

use super::{smart, told};
use crate::code::{Check, Code};
use crate::forecast::{self, Count};
use crate::gather::Facts;
use crate::inventory::{Device, Health, Sample};
use crate::sheet::{Place, Severity, Sheet};
use std::collections::BTreeSet;

/// From so much wear on another disk is to be ordered, and from so much on it is to be put in.
const WORN_PERCENT: (u8, u8) = (80, 100);
/// A disk that is worn sooner than in so many days is told of: time to order one, and to plan the day.
const WEARS_OUT_DAYS: u64 = 183;
/// A disk that does not say when it is too hot is so from here on.
pub(super) const HOT_C: i32 = 70;
/// Bits of the critical warning that say that the disk fails. The others are of its place in the machine: heat, and power.
const FAILS: u8 = 0b10_1101;
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
                if let Some(own) = &device.smart {
                    sheet.look(Check::Wear);
                    smart::judge(facts.at, own, device, &disk.samples, &place, sheet);
                } else if let Some(health) = sheet.look_at(Check::Wear, place.clone(), &device.health) {
                    let errors =
                        forecast::counts(&disk.samples, facts.at, health.media_errors, |past| past.uncorrectable);
                    let do_grow = grows("media errors", &errors, &place, sheet);
                    judge(health, do_grow, &place, sheet);
                    wear(
                        facts.at,
                        health.used_percent,
                        health.on_hours,
                        &disk.samples,
                        &place,
                        sheet,
                    );
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

fn judge(health: &Health, errors_grow: bool, place: &Place, sheet: &mut Sheet) {
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
        let severity = match health.warnings & FAILS {
            0 => Severity::Warning,
            _ => Severity::Critical,
        };
        sheet.find_as(Code::DiskWarns, severity, place.clone(), reason);
    }
    if (health.spare_percent, health.spare_least_percent) == (0, 0) {
        // Some controllers fill in little more than the temperature. One that really has none left warns of that by its bits.
        let why = "how many of its spare blocks are left: it tells neither that nor when it would warn";
        sheet.blind(Check::Wear, place.clone(), why);
    } else if health.spare_percent <= health.spare_least_percent {
        let reason = format!(
            "{} % of its spare blocks are left; at {} % it warns",
            health.spare_percent, health.spare_least_percent
        );
        sheet.find(Code::DiskSpareLow, place.clone(), reason);
    }
    if health.media_errors > 0 && !errors_grow {
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

/// How worn a disk is, and when it will be worn.
pub(super) fn wear(now: u64, used: u8, on_hours: u64, samples: &[Sample], place: &Place, sheet: &mut Sheet) {
    if used >= WORN_PERCENT.0 {
        let severity = if used >= WORN_PERCENT.1 {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let reason = format!(
            "{used} % of its life are used, in {on_hours} hours{}",
            recently(samples)
        );
        sheet.find_as(Code::DiskWorn, severity, place.clone(), reason);
    }
    match forecast::wear(used, on_hours, samples) {
        Err(why) if used < WORN_PERCENT.0 => {
            sheet.blind(Check::Wear, place.clone(), format!("a forecast of its wear: {why}"));
        }
        Ok(end) if end.days < WEARS_OUT_DAYS && used < WORN_PERCENT.1 => {
            let latest = match end.latest_days {
                Some(days) => format!("{days}"),
                None => "any number of".to_owned(),
            };
            let reason = format!(
                "{used} % of its life in {on_hours} hours: at {} it is worn in {} days ({} to {latest}), on {}{}",
                if end.is_lately {
                    "the pace of the last days"
                } else {
                    "that pace"
                },
                end.days,
                end.soonest_days,
                crate::report::day(now + end.days * DAY_S),
                recently(samples)
            );
            sheet.find(Code::DiskWearsOut, place.clone(), reason);
        }
        _ => {}
    }
}

/// Whether a count of errors grows. `true`: it does, and that has been said.
pub(super) fn grows(what: &str, counts: &[Count], place: &Place, sheet: &mut Sheet) -> bool {
    match forecast::growth(counts) {
        Err(why) => {
            sheet.blind(Check::Wear, place.clone(), format!("whether its {what} grow: {why}"));
            false
        }
        Ok(None) => false,
        Ok(Some(found)) => {
            let severity = match found.is_steady() {
                true => Severity::Critical,
                false => Severity::Warning,
            };
            let reason = format!(
                "{} {what} more in {} days, {} of {} times that it was looked",
                found.grown, found.days, found.times, found.looks
            );
            sheet.find_as(Code::DiskErrorsGrow, severity, place.clone(), reason);
            true
        }
    }
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
