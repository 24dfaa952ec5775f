//! What is known of volumes beside what they need to work: labels, when they were made, imports that are not at their end.

use super::copy::none_copies;
use super::migrate::none_moves;
use super::mirror::none_closed;
use super::subsystem::{put, unchanged};
use super::volume::find_volume;
use super::{AdminError, Result, get, tries};
use amita_metadata::{Call, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, About, Import, Volume};
use std::collections::BTreeMap;

/// What is known of a volume.
///
/// # Errors
/// The metadata is away, or the record is not readable.
pub fn about(meta: &dyn Transact, volume: VolumeId) -> Result<About> {
    let found = get::<About>(meta, &map::about_key(volume))?;
    Ok(found.map_or_else(|| About::of(volume), |(about, _)| about))
}

/// Sets labels of a volume and takes others away.
///
/// # Errors
/// No such volume, labels that cannot be; the metadata is away or refuses.
pub fn label_volume(
    meta: &dyn Transact,
    name: &str,
    set: &BTreeMap<String, String>,
    remove: &[String],
) -> Result<About> {
    change(meta, name, None, |about| {
        about.labels.retain(|key, _| !remove.contains(key));
        about.labels.extend(set.clone());
    })
}

/// Protects a volume from being deleted, or no longer.
///
/// # Errors
/// No such volume; the metadata is away or refuses.
pub fn protect_volume(meta: &dyn Transact, name: &str, protected: bool) -> Result<About> {
    change(meta, name, None, |about| about.protected = protected)
}

/// Says how far an import has come; `None`: it is at its end. `volume` is the one that it is into.
///
/// # Errors
/// The volume is gone, or another one has its name; the metadata is away or refuses.
pub fn note_import(meta: &dyn Transact, volume: &Volume, import: Option<&Import>) -> Result<About> {
    if import.is_some() {
        none_copies(meta, volume)?;
        none_moves(meta, volume)?;
        none_closed(volume)?;
    }
    change(meta, &volume.name, Some(volume.id), |about| {
        about.import = import.cloned();
        if import.is_some() {
            // It is written anew, whatever it was on its way to.
            about.shrink = None;
        }
    })
}

pub(super) fn change(meta: &dyn Transact, name: &str, id: Option<VolumeId>, by: impl Fn(&mut About)) -> Result<About> {
    for _ in tries(meta) {
        let (volume, revision) = find_volume(meta, name)?;
        if id.is_some_and(|id| id != volume.id) {
            return Err(AdminError::NoSuch {
                what: "volume",
                name: format!("{name} of number {}", id.unwrap_or(volume.id)),
                there: vec![format!("{name} of number {}", volume.id)],
            });
        }
        let key = map::about_key(volume.id);
        let (old, old_revision) = get::<About>(meta, &key)?.unwrap_or_else(|| (About::of(volume.id), 0));
        let mut new = old.clone();
        by(&mut new);
        new.check().map_err(|why| AdminError::BadSetting {
            what: "volume",
            name: name.to_owned(),
            why,
        })?;
        if new == old {
            return Ok(new);
        }
        // The volume is there still: nothing is left behind of one that is deleted meanwhile.
        let call = Call {
            compares: vec![
                unchanged(&map::volume_key(name), revision),
                unchanged(&key, old_revision),
            ],
            then: vec![put(key, &new)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}
