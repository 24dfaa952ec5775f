//! The volumes of an end are closed, or opened, one transaction each: as its record says, which each of them compares.

use super::super::Result;
use super::point::mirrored_volume;
use super::record::find_mirror;
use super::{Door, set_door};
use amita_metadata::Transact;
use amita_types::map::{self, Mirror, MirrorRole};

/// Closes the volumes of an end that is to have them closed: are they all? Else its record has changed, and says something else.
///
/// # Errors
/// There is no such mirror; a volume of it is gone; the metadata is away or refuses.
pub fn close_mirrored(meta: &dyn Transact, name: &str) -> Result<bool> {
    // One that is removed is opened, or has been closed before.
    let is_to_be =
        |record: &Mirror| !record.leaving && matches!(record.standing.role, MirrorRole::Demoting | MirrorRole::Deposed);
    set_doors(meta, name, true, &is_to_be)
}

/// Opens the volumes of an end that is promoted, when they are what it is to begin with (T2): are they all open? As [`close_mirrored`].
///
/// # Errors
/// As [`close_mirrored`].
pub fn open_mirrored(meta: &dyn Transact, name: &str) -> Result<bool> {
    let is_to_be = |record: &Mirror| record.standing.role == MirrorRole::Promoting && record.begun.is_none();
    set_doors(meta, name, false, &is_to_be)
}

fn set_doors(meta: &dyn Transact, name: &str, is_to_close: bool, is_to_be: &dyn Fn(&Mirror) -> bool) -> Result<bool> {
    let (mut record, mut revision) = find_mirror(meta, name)?;
    let mut at = 0;
    while let Some(volume) = record.volumes.get(at) {
        if !is_to_be(&record) {
            return Ok(false);
        }
        let found = mirrored_volume(meta, &record, volume.id)?;
        let door = match is_to_close {
            true => Door::Closed(record.id, name),
            false => Door::Open(record.id),
        };
        let held = [(map::mirror_key(name), revision)];
        match set_door(meta, &found.name, door, &held)? {
            Some(_) => at += 1,
            // Something was noted in the meantime: what it is to be now is read again.
            None => (record, revision) = find_mirror(meta, name)?,
        }
    }
    Ok(is_to_be(&record))
}
