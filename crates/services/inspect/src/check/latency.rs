//! How long disks take, against their siblings and their own past.

use super::{middle, told};
use crate::code::{Check, Code};
use crate::collect::ENOUGH_REQUESTS;
use crate::forecast::{self, Count};
use crate::gather::Facts;
use crate::inventory::{Disk, Latency, Sample};
use crate::sheet::{Place, Sheet};
use std::collections::BTreeMap;

/// A disk that takes so many times as long as the others, or as before, is slow,
const TIMES: u64 = 4;
/// where that is no less than this: under it the machine's other work decides.
const LEAST_US: u64 = 2000;
/// Fewer siblings than these are no measure.
const SIBLINGS: usize = 2;
/// Fewer days than these are no past.
const DAYS: usize = 3;

/// One direction: its name, and how it is read from what a disk tells.
struct Way {
    name: &'static str,
    now: fn(&Latency) -> (u64, u64),
    past: fn(&Sample) -> Option<u64>,
}

const WAYS: [Way; 2] = [
    Way {
        name: "reads",
        now: |took| (took.reads, took.read_p99_us),
        past: |sample| sample.read_p99_us,
    },
    Way {
        name: "writes",
        now: |took| (took.writes, took.write_p99_us),
        past: |sample| sample.write_p99_us,
    },
];

pub(super) fn check(facts: &Facts, sheet: &mut Sheet) {
    let mut classes: BTreeMap<&str, Vec<(Place, &Disk)>> = BTreeMap::new();
    for (node, inventory) in told(facts, &[Check::Latency], sheet) {
        for disk in &inventory.disks {
            let own = facts
                .status
                .stores
                .iter()
                .find(|found| found.node_name == node && found.store.path == disk.path);
            let class = own.map(|found| found.store.class.as_str()).unwrap_or_default();
            classes
                .entry(class)
                .or_default()
                .push((Place::part("disk", node, &disk.path), disk));
        }
    }
    for disks in classes.values() {
        for (place, disk) in disks {
            let Some(latency) = sheet.look_at(Check::Latency, place.clone(), &disk.latency) else {
                continue;
            };
            for way in &WAYS {
                let (count, p99) = (way.now)(latency);
                if count < ENOUGH_REQUESTS {
                    let why = format!(
                        "{count} {} since its record before: {ENOUGH_REQUESTS} would say something",
                        way.name
                    );
                    sheet.blind(Check::Latency, place.clone(), why);
                    continue;
                }
                siblings(way, place, p99, disks, sheet);
                if !past(way, place, p99, &disk.samples, sheet) {
                    slows(way, place, (facts.at, p99), &disk.samples, sheet);
                }
            }
        }
    }
}

fn siblings(way: &Way, place: &Place, p99: u64, disks: &[(Place, &Disk)], sheet: &mut Sheet) {
    let others: Vec<u64> = disks
        .iter()
        .filter(|(other, _)| other != place)
        .filter_map(|(_, disk)| Some((way.now)(disk.latency.get().ok()?)))
        .filter(|(count, _)| *count >= ENOUGH_REQUESTS)
        .map(|(_, p99)| p99)
        .collect();
    let count = others.len();
    match middle(others) {
        Some(usual) if count >= SIBLINGS => {
            if is_slow(p99, usual) {
                let reason = format!(
                    "99 of 100 {} end within {p99} us, and within {usual} us at the one in the middle of {count} others of its class",
                    way.name
                );
                sheet.find(Code::DiskSlowerThanSiblings, place.clone(), reason);
            }
        }
        _ => {
            let why = format!(
                "{count} others of its class have served {} enough: {SIBLINGS} would be a measure",
                way.name
            );
            sheet.blind(Check::Latency, place.clone(), why);
        }
    }
}

/// `true`: it was found.
fn past(way: &Way, place: &Place, p99: u64, samples: &[Sample], sheet: &mut Sheet) -> bool {
    let past: Vec<u64> = samples.iter().filter_map(|sample| (way.past)(sample)).collect();
    let days = past.len();
    match middle(past) {
        Some(usual) if days >= DAYS => {
            let is_found = is_slow(p99, usual);
            if is_found {
                let reason = format!(
                    "99 of 100 {} end within {p99} us, and within {usual} us on the day in the middle of {days} days before",
                    way.name
                );
                sheet.find(Code::DiskSlowerThanBefore, place.clone(), reason);
            }
            is_found
        }
        _ => {
            let why = format!(
                "its past has {days} days with {} enough: {DAYS} would be a measure",
                way.name
            );
            sheet.blind(Check::Latency, place.clone(), why);
            false
        }
    }
}

/// Does it take longer from day to day? Where its past is too short even for a comparison, that has been said.
fn slows(way: &Way, place: &Place, now: Count, samples: &[Sample], sheet: &mut Sheet) {
    let past = samples
        .iter()
        .filter_map(|sample| Some((sample.at, (way.past)(sample)?)));
    let all: Vec<Count> = past.chain([now]).collect();
    match forecast::drift(&all) {
        Ok(Some(found)) if now.1 >= LEAST_US => {
            let reason = format!(
                "99 of 100 {} end within {} us, and did within {} us {} days ago: it was longer each day",
                way.name, now.1, found.from, found.days
            );
            sheet.find(Code::DiskSlows, place.clone(), reason);
        }
        Err(why) if all.len() > DAYS => {
            let why = format!("whether its {} take longer from day to day: {why}", way.name);
            sheet.blind(Check::Latency, place.clone(), why);
        }
        _ => {}
    }
}

fn is_slow(p99: u64, usual: u64) -> bool {
    p99 >= LEAST_US && p99 >= usual.saturating_mul(TIMES)
}
