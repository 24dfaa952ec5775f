//! When pools will be full, and how evenly their stores are used.

use super::{nodes, told};
use crate::code::{Check, Code};
use crate::gather::Facts;
use crate::inventory::Sample;
use crate::sheet::{Place, Severity, Sheet};
use amita_control::admin::StoreStatus;
use amita_types::StoreId;
use amita_types::map::StoreDuty;
use std::collections::BTreeMap;

const DAY_S: u64 = 24 * 3600;
/// A pool that is full sooner than in so many days is a warning, and in so many a notice.
const SOON_DAYS: (u64, u64) = (30, 90);
/// Stores differ by so many points, and the fullest is at least so full.
const UNEVEN: (u8, u8) = (25, 50);
/// Groups for their weight, in percent of the mean, and the fewest groups of a store that say something.
const GROUPS: (u64, u64) = (150, 16);

pub(super) fn check(facts: &Facts, sheet: &mut Sheet) {
    let told = told(facts, &[Check::Capacity], sheet);
    let numbers: BTreeMap<&str, _> = nodes(facts)
        .map(|found| (found.node.name.as_str(), found.node.id))
        .collect();
    let mut past: BTreeMap<StoreId, &[Sample]> = BTreeMap::new();
    for (node, inventory) in told {
        for disk in &inventory.disks {
            let own =
                |found: &&StoreStatus| Some(&found.store.node) == numbers.get(node) && found.store.path == disk.path;
            if let Some(found) = facts.status.stores.iter().find(own) {
                past.insert(found.store.id, &disk.samples);
            }
        }
    }
    for pool in &facts.status.pools {
        let stores: Vec<&StoreStatus> = facts
            .status
            .stores
            .iter()
            .filter(|found| pool.stores.contains(&found.store.id))
            .collect();
        forecast(facts, &pool.pool.name, &stores, &past, sheet);
        fills(&pool.pool.name, &stores, sheet);
        groups(&pool.pool.name, &stores, sheet);
    }
}

/// Bytes a day, by the first and the last sample; none: they are less than a day apart.
fn pace(samples: &[Sample]) -> Option<i128> {
    let used: Vec<(u64, u64)> = samples
        .iter()
        .filter_map(|sample| Some((sample.at, sample.used_bytes?)))
        .collect();
    let ((from, before), (to, after)) = (used.first()?, used.last()?);
    let seconds = to.checked_sub(*from).filter(|seconds| *seconds >= DAY_S)?;
    Some((i128::from(*after) - i128::from(*before)) * i128::from(DAY_S) / i128::from(seconds))
}

/// A pool is as full as the fullest of its stores.
fn forecast(
    facts: &Facts,
    pool: &str,
    stores: &[&StoreStatus],
    past: &BTreeMap<StoreId, &[Sample]>,
    sheet: &mut Sheet,
) {
    let mut first: Option<(u64, &StoreStatus, i128)> = None;
    for found in stores {
        let place = Place::new("store", found.store.id.to_string());
        let (Some(space), Some(pace)) = (found.space, past.get(&found.store.id).and_then(|samples| pace(samples)))
        else {
            sheet.blind(
                Check::Capacity,
                place,
                "a forecast takes two samples, a day apart, of a store that serves",
            );
            continue;
        };
        sheet.look(Check::Capacity);
        let full = u128::from(space.capacity_bytes) * u128::from(facts.thresholds.full_percent) / 100;
        let room = full.saturating_sub(u128::from(space.used_bytes()));
        let Ok(pace_bytes) = u128::try_from(pace) else { continue };
        let Some(days) = room.checked_div(pace_bytes) else {
            continue;
        };
        let days = u64::try_from(days).unwrap_or(u64::MAX);
        if first.is_none_or(|(least, ..)| days < least) {
            first = Some((days, found, pace));
        }
    }
    let Some((days, found, pace)) = first else { return };
    let severity = match days {
        days if days < SOON_DAYS.0 => Severity::Warning,
        days if days < SOON_DAYS.1 => Severity::Notice,
        _ => return,
    };
    let percent = found.space.map_or(0, |space| space.used_percent());
    let reason = format!(
        "store {} is at {percent} % and grows by {} MiB a day: it is at {} % in {days} days, on {}",
        found.store.id,
        pace >> 20,
        facts.thresholds.full_percent,
        crate::report::day(facts.at.saturating_add(days.saturating_mul(DAY_S)))
    );
    sheet.find_as(Code::PoolFillsSoon, severity, Place::new("pool", pool), reason);
}

/// Those that fill by the pool's groups: what is drained empties.
fn normal<'a>(stores: &[&'a StoreStatus]) -> Vec<&'a StoreStatus> {
    let takes = |found: &&&StoreStatus| found.store.duty == StoreDuty::Normal && found.store.weight > 0;
    stores.iter().filter(takes).copied().collect()
}

fn fills(pool: &str, stores: &[&StoreStatus], sheet: &mut Sheet) {
    let mut known = Vec::new();
    for found in normal(stores) {
        match found.space {
            Some(space) => known.push((space.used_percent(), found)),
            None => sheet.blind(
                Check::Balance,
                Place::new("store", found.store.id.to_string()),
                "it does not say how full it is",
            ),
        }
    }
    let least = known.iter().min_by_key(|(percent, _)| *percent);
    let most = known.iter().max_by_key(|(percent, _)| *percent);
    let (Some((least, emptiest)), Some((most, fullest))) = (least, most) else {
        return;
    };
    sheet.look(Check::Balance);
    if most - least >= UNEVEN.0 && *most >= UNEVEN.1 {
        let reason = format!(
            "store {} at {} is {most} % full, and store {} at {} {least} %",
            fullest.store.id, fullest.node_name, emptiest.store.id, emptiest.node_name
        );
        sheet.find(Code::StoresUneven, Place::new("pool", pool), reason);
    }
}

fn groups(pool: &str, stores: &[&StoreStatus], sheet: &mut Sheet) {
    let takes = normal(stores);
    let weights: u128 = takes.iter().map(|found| u128::from(found.store.weight)).sum();
    let all: u128 = takes.iter().map(|found| found.groups as u128).sum();
    if weights == 0 || all < u128::from(GROUPS.1) * takes.len() as u128 {
        return sheet.blind(
            Check::Balance,
            Place::new("pool", pool),
            format!(
                "{all} copies of groups on {} stores say nothing of their spread",
                takes.len()
            ),
        );
    }
    sheet.look(Check::Balance);
    for found in takes {
        let fair = (all * u128::from(found.store.weight)).div_ceil(weights);
        if found.groups as u128 * 100 > fair * u128::from(GROUPS.0) {
            let reason = format!(
                "{} copies of groups; {fair} would be its part by its weight",
                found.groups
            );
            sheet.find(
                Code::GroupsUneven,
                Place::new("store", found.store.id.to_string()),
                reason,
            );
        }
    }
}
