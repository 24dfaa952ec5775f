//! What is known of volumes beside what they need to work: labels, when they were made, imports that are not at their end.

use super::copy::none_copies;
use super::migrate::none_moves;
use super::mirror::none_closed;
use super::subsystem::{put, unchanged};
use super::volume::find_volume;
use super::{AdminError, Result, get, tries};
use amita_metadata::{Call, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, About, Attempt, Import, Volume};
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

/// May an image be copied into the volume? [`begin_import`] and [`note_import`] look again.
///
/// # Errors
/// It is to be a copy and is none yet, it moves, or it is closed for a mirror; the metadata is away.
pub fn may_import(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    none_copies(meta, volume)?;
    none_moves(meta, volume)?;
    none_closed(volume)
}

/// Puts the mark of an import that begins, whatever import there was. `volume` is the record that was read behind the volume's opening: whoever stood
/// still in between puts no mark on what others have had since, and perhaps filled.
///
/// # Errors
/// [`AdminError::ImportTaken`]: others have opened it since; as [`may_import`]; the volume is gone, or another one has its name; the metadata is away or
/// refuses.
pub fn begin_import(meta: &dyn Transact, volume: &Volume, import: &Import) -> Result<About> {
    may_import(meta, volume)?;
    change_of(meta, &volume.name, Some(volume.id), |now, about| {
        if now.generation != volume.generation {
            return Err(taken(volume));
        }
        about.import = Some(import.clone());
        // It is written anew, whatever it was on its way to.
        about.shrink = None;
        Ok(())
    })
}

/// Has a new attempt go on with an import, once it has the volume open: from then on nobody notes anything who was at it before. `seen` is what the mark was
/// when the attempt decided for it; the answer is what it is by now, with this attempt.
///
/// # Errors
/// [`AdminError::ImportTaken`]: another attempt has it by now, or it is at its end; as [`may_import`]; the volume is gone, or another one has its name; the
/// metadata is away or refuses.
pub fn take_import(meta: &dyn Transact, volume: &Volume, seen: &Import, attempt: Attempt) -> Result<Import> {
    may_import(meta, volume)?;
    let about = change_of(meta, &volume.name, Some(volume.id), |_, about| {
        let found = about.import.as_mut().filter(|found| found.is_as(seen));
        let found = found.ok_or_else(|| taken(volume))?;
        (found.attempt, found.ails) = (Some(attempt), None);
        about.shrink = None;
        Ok(())
    })?;
    about.import.ok_or_else(|| taken(volume))
}

/// Says how far the attempt of `import` has come, or why it has ended.
///
/// # Errors
/// As [`take_import`].
pub fn note_import(meta: &dyn Transact, volume: &Volume, import: &Import) -> Result<About> {
    may_import(meta, volume)?;
    change_of(meta, &volume.name, Some(volume.id), |_, about| {
        let found = about.import.as_mut().filter(|found| found.is_as(import));
        *found.ok_or_else(|| taken(volume))? = import.clone();
        about.shrink = None;
        Ok(())
    })
}

/// The attempt of `import` has come to the image's end: the volume is whole.
///
/// # Errors
/// [`AdminError::ImportTaken`]: another attempt has it, which may have cleared some of it; the volume is gone, or another one has its name; the metadata is
/// away or refuses.
pub fn end_import(meta: &dyn Transact, volume: &Volume, import: &Import) -> Result<About> {
    change_of(meta, &volume.name, Some(volume.id), |_, about| {
        match about.import.take_if(|found| found.is_as(import)) {
            Some(_) => Ok(()),
            None => Err(taken(volume)),
        }
    })
}

fn taken(volume: &Volume) -> AdminError {
    AdminError::ImportTaken {
        volume: volume.name.clone(),
    }
}

pub(super) fn change(meta: &dyn Transact, name: &str, id: Option<VolumeId>, by: impl Fn(&mut About)) -> Result<About> {
    change_of(meta, name, id, |_, about| {
        by(about);
        Ok(())
    })
}

/// The same, where `by` may refuse it, by what the volume is in the same transaction.
fn change_of(
    meta: &dyn Transact,
    name: &str,
    id: Option<VolumeId>,
    by: impl Fn(&Volume, &mut About) -> Result<()>,
) -> Result<About> {
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
        by(&volume, &mut new)?;
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
