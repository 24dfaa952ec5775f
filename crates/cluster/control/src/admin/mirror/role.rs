//! What the end becomes. Each of these is one transaction, and nothing but the record is changed by it: what follows from that for the volumes is
//! done by whoever is at the mirror, or by the command, and done again where it was cut short.

use super::super::{AdminError, Result};
use super::point::mirrored_volume;
use super::record::{change, change_free, find_mirror};
use crate::mirror::{Begun, Steps};
use amita_metadata::Transact;
use amita_types::map::{Mirror, Paused, PointName, Seen};
use amita_types::{MirrorEpoch, VolumeId};

/// The other end was looked at, by whoever holds the claim: `seen` was asked for while it did. None: the claim is lost.
///
/// # Errors
/// There is no such mirror; the metadata is away or refuses.
pub fn see_mirror(meta: &dyn Transact, name: &str, claim: u64, seen: &Seen) -> Result<Option<Mirror>> {
    let noted = change(meta, name, Some(claim), &|record| {
        record.see(seen.clone());
        Ok(())
    })?;
    Ok(noted.map(|(record, ())| record))
}

/// The primary is no longer one: from now on its volumes are closed, and its last point is cut.
///
/// # Errors
/// There is no such mirror, or it is no primary here; the metadata is away or refuses.
pub fn demote_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    change_free(meta, name, &|record| record.demote()).map(|(record, ())| record)
}

/// It is promoted in order (T6, T7, T9).
///
/// # Errors
/// There is no such mirror, or it may not be promoted so; the metadata is away or refuses.
pub fn promote_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    change_free(meta, name, &|record| record.promote()).map(|(record, ())| record)
}

/// It is promoted by an operator's word, at the point that it is at, or, where it was deposed, as it is.
///
/// # Errors
/// There is no such mirror, or it has no point (T13); the metadata is away or refuses.
pub fn force_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    change_free(meta, name, &|record| record.force()).map(|(record, ())| record)
}

/// The other end may take its demotion back (T8, T9).
///
/// # Errors
/// There is no such mirror, or nothing was handed over to it; the metadata is away or refuses.
pub fn decline_demotion(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    change_free(meta, name, &|record| record.decline()).map(|(record, ())| record)
}

/// A demotion is taken back, which the other end has declined (T8).
///
/// # Errors
/// There is no such mirror, or it was not declined; the metadata is away or refuses.
pub fn take_back_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    change_free(meta, name, &|record| record.take_back()).map(|(record, ())| record)
}

/// A later epoch was heard of, by whatever way.
///
/// # Errors
/// There is no such mirror, or it follows by itself, goes on, or is deposed already; the metadata is away or refuses.
pub fn depose_mirror(meta: &dyn Transact, name: &str, heard: MirrorEpoch) -> Result<Mirror> {
    change_free(meta, name, &|record| record.depose(heard)).map(|(record, ())| record)
}

/// It goes over to the other end's epoch (T14). None: the claim is lost.
///
/// # Errors
/// There is no such mirror, or it has something of its own, or the other end cannot be followed; the metadata is away or refuses.
pub fn follow_mirror(meta: &dyn Transact, name: &str, claim: u64) -> Result<Option<Mirror>> {
    Ok(change(meta, name, Some(claim), &|record| record.follow())?.map(|(record, ())| record))
}

/// A pass to the other end's newest point is begun, of so many bytes of each volume. None: the claim is lost.
///
/// # Errors
/// There is no such mirror, or it does not follow, or there is nothing to be brought; the metadata is away or refuses.
pub fn begin_pass(meta: &dyn Transact, name: &str, claim: u64, sizes: &[u64]) -> Result<Option<(Mirror, Begun)>> {
    change(meta, name, Some(claim), &|record| record.begin_pass(sizes))
}

/// By an operator's word a deposed end is to go back to the newest point that both have (T11): to which; none: there is no common one.
///
/// # Errors
/// There is no such mirror, or it was not deposed, or the other end cannot be followed; the metadata is away or refuses.
pub fn begin_return(meta: &dyn Transact, name: &str) -> Result<Option<PointName>> {
    change_free(meta, name, &|record| record.begin_return()).map(|(_, to)| to)
}

/// A volume was reverted to the point, by whoever holds the claim. None: that is lost.
///
/// # Errors
/// There is no such mirror, or its volumes do not go back; the volume is open to hosts (T12); the metadata is away or refuses.
pub fn returned(meta: &dyn Transact, name: &str, claim: u64, volume: VolumeId) -> Result<Option<Mirror>> {
    let (record, _) = find_mirror(meta, name)?;
    let found = mirrored_volume(meta, &record, volume)?;
    if found.closed.as_ref().is_none_or(|closed| closed.mirror != record.id) {
        return Err(AdminError::BadSetting {
            what: "volume",
            name: found.name,
            why: format!("it is open to hosts, and goes back to a point of mirror {name} only where it is closed"),
        });
    }
    Ok(change(meta, name, Some(claim), &|record| record.returned(volume))?.map(|(record, ())| record))
}

/// All of it is what it is to begin with, and open: it is primary.
///
/// # Errors
/// There is no such mirror, or it is not being promoted; a volume is still closed; the metadata is away or refuses.
pub fn ready_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    let (record, _) = find_mirror(meta, name)?;
    for volume in &record.volumes {
        super::none_closed(&mirrored_volume(meta, &record, volume.id)?)?;
    }
    change_free(meta, name, &|record| record.ready()).map(|(record, ())| record)
}

/// It stands still, or goes on.
///
/// # Errors
/// There is no such mirror; the metadata is away or refuses.
pub fn pause_mirror(meta: &dyn Transact, name: &str, paused: Option<&Paused>) -> Result<Mirror> {
    let step = |record: &mut Mirror| {
        record.paused = paused.cloned();
        Ok(())
    };
    change_free(meta, name, &step).map(|(record, ())| record)
}
