//! What is known of volumes beside what they need to work: labels, when they were made, imports and reverts that are not at their end.

use super::namespace::use_of;
use super::snapshot::snapshot;
use super::subsystem::{put, subsystems, unchanged};
use super::volume::find_volume;
use super::{AdminError, RACES, Result, get};
use amita_metadata::{Call, Transact};
use amita_types::map::{self, About, Export, Import, Revert, Volume};
use amita_types::{SnapshotId, VolumeId};
use std::cell::RefCell;
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
    change(meta, &volume.name, Some(volume.id), |about| {
        about.import = import.cloned();
        if import.is_some() {
            // It is written anew, whatever it was on its way to.
            about.revert = None;
            about.shrink = None;
        }
    })
}

/// May the volume be made what its snapshot is? Of what others do while it is, [`begin_revert`] says more.
///
/// # Errors
/// There is no such snapshot any more, hosts may use the volume by NVMe, its clients may only read it; the metadata is away.
pub fn may_revert(meta: &dyn Transact, volume: &Volume, to: &str, number: SnapshotId) -> Result<()> {
    let bad = |why: String| AdminError::BadSetting {
        what: "volume",
        name: volume.name.clone(),
        why,
    };
    if snapshot(meta, &volume.name, to)?.number != number {
        return Err(bad(format!("snapshot {to} is another one by now; look at it again")));
    }
    if let Some((subsystem, namespace)) = use_of(&subsystems(meta)?, volume.id, SnapshotId::HEAD) {
        return Err(AdminError::AttachedStill {
            volume: volume.name.clone(),
            subsystem,
            nsid: namespace.nsid,
        });
    }
    match get::<Export>(meta, &map::export_key(volume.id))? {
        Some((export, _)) if export.read_only => Err(AdminError::ReadOnlyExport {
            volume: volume.name.clone(),
        }),
        _ => Ok(()),
    }
}

/// Says that a volume is no longer what it was, and not yet what its snapshot is: from now on it becomes no namespace, and the
/// snapshots that are needed are not deleted. An import that was not at its end has none any more, nor has a shrinking.
///
/// # Errors
/// As [`may_revert`]; the volume is gone, or another one has its name; the metadata is away or refuses.
pub fn begin_revert(meta: &dyn Transact, volume: &Volume, revert: &Revert) -> Result<About> {
    let before = RefCell::new((None, None, None));
    let noted = change(meta, &volume.name, Some(volume.id), |about| {
        // What this mark has come in place of, and not what was there a moment before.
        before.replace((about.revert.clone(), about.import.clone(), about.shrink.clone()));
        about.revert = Some(revert.clone());
        about.import = None;
        about.shrink = None;
    })?;
    // Who attaches the volume, or deletes the snapshot, compares this record: they have seen the mark, or what they did is seen here.
    if let Err(why) = may_revert(meta, volume, &revert.snapshot, revert.number) {
        // Unless another one has marked it, or ended his own, since.
        change(meta, &volume.name, Some(volume.id), |about| {
            if (&about.revert, &about.import) == (&noted.revert, &noted.import) {
                (about.revert, about.import, about.shrink) = before.borrow().clone();
            }
        })?;
        return Err(why);
    }
    Ok(noted)
}

/// Says that a volume is what its snapshot is.
///
/// # Errors
/// The volume is gone, or another one has its name; the metadata is away or refuses.
pub fn end_revert(meta: &dyn Transact, volume: &Volume) -> Result<About> {
    change(meta, &volume.name, Some(volume.id), |about| about.revert = None)
}

/// The revert of a volume that is not at its end, and the revision of the record that says so: for whoever does what must not be
/// done meanwhile.
pub(super) fn reverting(meta: &dyn Transact, volume: VolumeId) -> Result<(Option<Revert>, u64)> {
    let found = get::<About>(meta, &map::about_key(volume))?;
    Ok(found.map_or((None, 0), |(about, revision)| (about.revert, revision)))
}

pub(super) fn change(meta: &dyn Transact, name: &str, id: Option<VolumeId>, by: impl Fn(&mut About)) -> Result<About> {
    for _ in 0..RACES {
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
