//! How volumes stand among others where stores are busy, in their own records.

use super::Result;
use super::limit::{bad, check_version, write};
use super::subsystem::put;
use super::volume::find_volume;
use amita_metadata::Transact;
use amita_types::map::{self, PRIORITIES_SINCE, Priority, USUAL_WEIGHT, Volume};
use std::ops::RangeInclusive;

/// What may be reserved, in bytes a second: from eight of the largest pieces of I/O on, to more than any store does.
pub const RESERVATIONS: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// The weights that there are.
pub const WEIGHTS: RangeInclusive<u16> = 1..=1000;
/// Latency targets, in microseconds: below is what a device takes, above no store lets anything wait for others.
pub const LATENCY_TARGETS_US: RangeInclusive<u32> = 100..=20_000;

/// How a volume stands among others; nothing is said by default.
///
/// # Errors
/// No such volume; the metadata is away.
pub fn priority(meta: &dyn Transact, name: &str) -> Result<Priority> {
    let (volume, _) = find_volume(meta, name)?;
    Ok(volume.priority.map_or_else(Priority::default, |priority| *priority))
}

/// Changes how a volume stands among others. Stores go by it as soon as their nodes hear of it.
///
/// # Errors
/// No such volume, what cannot be kept, or a cluster in which programs may be about that do not know of it (S17); the metadata is away or
/// refuses.
pub fn set_priority(meta: &dyn Transact, name: &str, change: impl Fn(&mut Priority)) -> Result<Priority> {
    let key = map::volume_key(name);
    write(meta, &key, || {
        let (old, revision) = find_volume(meta, name)?;
        let wanted = changed(meta, &old, &change)?;
        let new = Volume {
            priority: (!wanted.is_empty()).then(|| Box::new(wanted)),
            ..old.clone()
        };
        let op = (new != old).then(|| put(key.clone(), &new));
        Ok((wanted, revision, op))
    })
}

/// Would [`set_priority`] be refused now? For who does something else before it.
///
/// # Errors
/// As it.
pub fn check_priority(meta: &dyn Transact, name: &str, change: impl Fn(&mut Priority)) -> Result<()> {
    let (volume, _) = find_volume(meta, name)?;
    changed(meta, &volume, &change).map(drop)
}

/// Whoever says nothing needs nobody to know of it.
fn check_known(meta: &dyn Transact, name: &str, wanted: &Priority) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let otherwise = "programs from before drop them from the volume's record";
    let settings = ("reservations, weights and latency targets", PRIORITIES_SINCE);
    check_version(meta, ("volume", name), settings, otherwise)
}

fn changed(meta: &dyn Transact, volume: &Volume, change: &impl Fn(&mut Priority)) -> Result<Priority> {
    let mut wanted = volume.priority.as_deref().copied().unwrap_or_default();
    change(&mut wanted);
    wanted.weight = wanted.weight.filter(|weight| *weight != USUAL_WEIGHT);
    check_known(meta, &volume.name, &wanted)?;
    check(&volume.name, &wanted)?;
    Ok(wanted)
}

fn check(name: &str, wanted: &Priority) -> Result<()> {
    inside(name, "reservation in bytes a second", wanted.reservation, RESERVATIONS)?;
    inside(name, "weight", wanted.weight, WEIGHTS)?;
    let target = wanted.latency_target_us;
    inside(name, "latency target in microseconds", target, LATENCY_TARGETS_US)
}

fn inside<T>(name: &str, what: &str, said: Option<T>, range: RangeInclusive<T>) -> Result<()>
where
    T: Copy + PartialOrd + std::fmt::Display,
{
    match said {
        Some(said) if !range.contains(&said) => {
            let (least, most) = (range.start(), range.end());
            let why = format!("its {what} must be {least} to {most}, and is to be {said}");
            Err(bad("volume", name, why))
        }
        _ => Ok(()),
    }
}
