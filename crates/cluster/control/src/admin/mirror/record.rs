//! The record of this cluster's end, and how it is changed.

use super::super::subsystem::{put, unchanged};
use super::super::{AdminError, RACES, Result, get, list, names_under};
use crate::mirror::Refused;
use amita_metadata::{Call, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Mirror};

/// The mirrors of this cluster, in order of their names.
///
/// # Errors
/// The metadata is away, or a record is not readable.
pub fn mirrors(meta: &dyn Transact) -> Result<Vec<Mirror>> {
    let mut all: Vec<Mirror> = list(meta, &map::mirrors_prefix())?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The mirror of this name.
///
/// # Errors
/// There is none; the metadata is away, or the record is not readable.
pub fn mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    find_mirror(meta, name).map(|(found, _)| found)
}

pub(super) fn find_mirror(meta: &dyn Transact, name: &str) -> Result<(Mirror, u64)> {
    match get::<Mirror>(meta, &map::mirror_key(name))? {
        Some(found) => Ok(found),
        None => Err(AdminError::NoSuch {
            what: "mirror",
            name: name.to_owned(),
            there: names_under(meta, &map::mirrors_prefix())?,
        }),
    }
}

/// The mirror that has the volume that hosts know by this number.
///
/// # Errors
/// As [`mirrors`].
pub fn mirror_of(meta: &dyn Transact, host: VolumeId) -> Result<Option<Mirror>> {
    let has = |mirror: &Mirror| mirror.volumes.iter().any(|volume| volume.id == host);
    Ok(mirrors(meta)?.into_iter().find(has))
}

/// What a step makes of the record.
pub(super) type Step<'a, T> = &'a dyn Fn(&mut Mirror) -> std::result::Result<T, Refused>;

/// Takes a step: what it says, and the record as it is then. None: the claim, by whose revision it was to be taken, is lost.
///
/// # Errors
/// There is no such mirror, or the step is refused; the metadata is away or refuses.
pub(super) fn change<T>(
    meta: &dyn Transact,
    name: &str,
    claim: Option<u64>,
    step: Step<'_, T>,
) -> Result<Option<(Mirror, T)>> {
    let (key, runner) = (map::mirror_key(name), map::mirror_runner_key(name));
    for _ in 0..RACES {
        let (before, revision) = find_mirror(meta, name)?;
        let mut record = before.clone();
        let said = step(&mut record).map_err(|why| AdminError::Mirror {
            mirror: name.to_owned(),
            why,
        })?;
        let mut call = Call {
            compares: vec![unchanged(&key, revision)],
            then: Vec::new(),
            otherwise: vec![Op::Get { key: runner.clone() }],
        };
        if record != before {
            call.then.push(put(key.clone(), &record));
        }
        call.compares.extend(claim.map(|claim| unchanged(&runner, claim)));
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(Some((record, said)));
        }
        let holds = reply.value(0).map(|found| found.mod_revision);
        if claim.is_some() && claim != holds {
            return Ok(None);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// The same, by whoever needs no claim.
pub(super) fn change_free<T>(meta: &dyn Transact, name: &str, step: Step<'_, T>) -> Result<(Mirror, T)> {
    change(meta, name, None, step)?.ok_or_else(|| AdminError::TooManyRaces {
        key: map::mirror_key(name),
    })
}

/// Notes something that is no step of a role: how far a pass is, or what ails it. None: the claim is lost.
///
/// # Errors
/// There is no such mirror; the metadata is away or refuses.
pub fn note_mirror(meta: &dyn Transact, name: &str, claim: u64, by: &dyn Fn(&mut Mirror)) -> Result<Option<Mirror>> {
    let noted = change(meta, name, Some(claim), &|record| {
        let standing = record.standing.clone();
        by(record);
        // What it is changes by its steps alone.
        record.standing = standing;
        Ok(())
    })?;
    Ok(noted.map(|(record, ())| record))
}
