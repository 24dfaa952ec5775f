//! What the end becomes. Each of these is one transaction, and nothing but the record is changed by it: what follows from that for the volumes is
//! done by whoever is at the mirror, or by the command, and done again where it was cut short.

use super::super::quota::{Tally, Wanted, charge_by};
use super::super::revert::may_revert;
use super::super::snapshot::{has_room_for, snapshot};
use super::super::{AdminError, Result};
use super::peer::find_by_id;
use super::point::mirrored_volume;
use super::record::{change, change_free, change_looked_at, find_mirror};
use super::users::none_uses;
use crate::mirror::{Begun, Next, Refused, Steps, next};
use amita_metadata::Transact;
use amita_types::map::{Mirror, Paused, PointName, Seen, Volume};
use amita_types::{MirrorEpoch, MirrorId, VolumeId};
use std::collections::BTreeMap;

/// So many snapshots of a volume are taken where it goes back to a point: of what it was before, and of what it is then (T15).
const BY_RETURN: u64 = 2;

/// The other end was looked at, by whoever holds the claim: `seen` was asked for while it did. None: the claim is lost.
///
/// # Errors
/// There is no such mirror; what it shows cannot be ([`crate::mirror::check`]), and nothing is noted; the metadata is away or refuses.
pub fn see_mirror(meta: &dyn Transact, name: &str, claim: u64, seen: &Seen) -> Result<Option<Mirror>> {
    let noted = change(meta, name, Some(claim), &|record| record.see(seen.clone()))?;
    Ok(noted.map(|(record, ())| record))
}

/// The primary is no longer one: from now on its volumes are closed, and its last point is cut.
///
/// # Errors
/// There is no such mirror, or it is no primary here; the metadata is away or refuses.
pub fn demote_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    change_free(meta, name, &|record| record.demote()).map(|(record, ())| record)
}

/// The same where no host uses its volumes: their owners are asked, and let go of what nobody uses. `pause` waits a little, and says whether there is still
/// patience.
///
/// # Errors
/// As [`demote_mirror`]; a volume is a namespace or a LUN ([`AdminError::Attached`], [`AdminError::IsLun`]); hosts use one at a node, or that does not say
/// ([`AdminError::InUse`], [`AdminError::OwnerSilent`]).
pub fn demote_unused(meta: &dyn Transact, name: &str, pause: &mut dyn FnMut() -> bool) -> Result<Mirror> {
    let (record, _) = find_mirror(meta, name)?;
    let tried = record.clone().demote();
    tried.map_err(|why| refused(&record, why))?;
    none_uses(meta, &record, pause)?;
    demote_mirror(meta, name)
}

/// It is promoted in order (T6, T7, T9).
///
/// # Errors
/// There is no such mirror, or it may not be promoted so; a pass was begun, and a volume cannot go back to the point; the metadata is away or refuses.
pub fn promote_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    let look = |record: &Mirror| {
        let tried = record.clone().promote();
        tried.map_err(|why| refused(record, why))?;
        can_be_promoted(meta, record)
    };
    change_looked_at(meta, name, &look, &|record, ()| record.promote()).map(|(record, ())| record)
}

/// It is promoted by an operator's word, at the point that it is at, or, where it was deposed and nothing was brought since, as it is.
///
/// # Errors
/// There is no such mirror, or it has no point (T13), or goes back to one already; its removal was begun, and a volume is gone; a pass was begun, and a
/// volume cannot go back to the point; the metadata is away or refuses.
pub fn force_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    // What goes back stands still first: whoever reverts a volume compares the record.
    let (_, is_given_up) = change_free(meta, name, &|record| Ok(record.give_up_return(true)))?;
    let forced = forced(meta, name);
    if is_given_up && forced.is_err() {
        change_free(meta, name, &|record| Ok(record.give_up_return(false)))?;
    }
    forced
}

fn forced(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    let look = |record: &Mirror| {
        let tried = record.clone().force();
        tried.map_err(|why| refused(record, why))?;
        if record.leaving {
            // Some may be deleted already: nobody serves the rest as if it were whole.
            data_of(meta, record)?;
        }
        // Whoever reverts a volume compares the record too: what is found here is so for as long as that is.
        if let Some(returning) = &record.returning
            && data_of(meta, record)? != returning.were
        {
            // One has gone back, and that is not noted yet: they are of two moments.
            return Err(refused(record, Refused::Returning));
        }
        can_be_promoted(meta, record)
    };
    change_looked_at(meta, name, &look, &|record, ()| record.force()).map(|(record, ())| record)
}

fn refused(record: &Mirror, why: Refused) -> AdminError {
    AdminError::Mirror {
        mirror: record.name.clone(),
        why,
    }
}

/// What data each volume has, in their order.
fn data_of(meta: &dyn Transact, record: &Mirror) -> Result<Vec<VolumeId>> {
    let volumes = record.volumes.iter();
    volumes
        .map(|volume| mirrored_volume(meta, record, volume.id).map(|found| found.id))
        .collect()
}

/// An end that has begun a pass goes back to its point before it is primary (T2): fails where it cannot, before it is no secondary any more, and both
/// ends are closed.
fn can_be_promoted(meta: &dyn Transact, record: &Mirror) -> Result<()> {
    match (record.begun, record.standing.point) {
        (Some(_), Some(to)) => can_go_back(meta, record, to),
        _ => Ok(()),
    }
}

/// Fails where a volume cannot be made what it was at this point, or has no room for the snapshots that are taken then.
fn can_go_back(meta: &dyn Transact, record: &Mirror, to: PointName) -> Result<()> {
    let point = record.standing.find(to);
    let point = point.ok_or_else(|| refused(record, Refused::NoSuch(to)))?;
    let mut by_pool: BTreeMap<String, Wanted> = BTreeMap::new();
    for volume in &record.volumes {
        let found = mirrored_volume(meta, record, volume.id)?;
        let then = snapshot(meta, &found.name, &point.snapshots)?;
        has_room_for(meta, &found, "", BY_RETURN)?;
        // It is made as large as it was, where it is smaller.
        let size_bytes = found.size_bytes.max(then.size_bytes);
        let wanted = by_pool.entry(found.pool.clone()).or_default();
        wanted.snapshots += BY_RETURN;
        wanted.provisioned_bytes += size_bytes - found.size_bytes;
        let found = Volume { size_bytes, ..found };
        may_revert(meta, &found, &then, Some(record.id))?;
    }
    for (pool, wanted) in by_pool {
        charge_by(meta, &pool, wanted, &mut Tally::default())?;
    }
    Ok(())
}

/// The mirror for which a closed volume is reverted, and the revision of its record: fails where nothing of it is to go back. Whoever reverts compares
/// that, so that nothing has gone back where it was said that nothing will.
///
/// # Errors
/// There is no such mirror, or its volumes do not go back; the metadata is away.
pub(in super::super) fn goes_back(meta: &dyn Transact, id: MirrorId) -> Result<(Mirror, u64)> {
    let (record, revision) = find_by_id(meta, id)?;
    match next(&record) {
        Next::Return => Ok((record, revision)),
        Next::BecomePrimary if record.begun.is_some() => Ok((record, revision)),
        _ => {
            let (is, handed) = (record.standing.role, record.standing.handed);
            let wanted = "one whose volumes go back to a point";
            Err(refused(&record, Refused::Role { is, handed, wanted }))
        }
    }
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

/// The same by one look that nobody with a claim has made. It is noted with it where nothing of that epoch was seen before: so no earlier look is noted
/// behind a later one, and what the ends have in common is known to whoever resyncs.
///
/// # Errors
/// As [`depose_mirror`]; what it shows cannot be.
pub fn depose_seen(meta: &dyn Transact, name: &str, seen: &Seen) -> Result<Mirror> {
    let heard = seen.standing.epoch;
    let deposed = change_free(meta, name, &|record| {
        let before = record.seen.as_ref().map(|seen| seen.standing.epoch);
        if before.is_none_or(|before| before < heard) {
            record.see(seen.clone())?;
        }
        record.depose(heard)
    });
    deposed.map(|(record, ())| record)
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
/// There is no such mirror, or it was not deposed, or the other end cannot be followed; a volume cannot go back to that point, and nothing is begun; the
/// metadata is away or refuses.
pub fn begin_return(meta: &dyn Transact, name: &str) -> Result<Option<PointName>> {
    let look = |record: &Mirror| {
        let to = record.clone().begin_return();
        if let Some(to) = to.map_err(|why| refused(record, why))? {
            can_go_back(meta, record, to)?;
        }
        data_of(meta, record)
    };
    let (_, to) = change_looked_at(meta, name, &look, &|record, were| {
        let to = record.begin_return()?;
        if let Some(returning) = record.returning.as_mut().filter(|returning| returning.were.is_empty()) {
            returning.were.clone_from(were);
        }
        Ok(to)
    })?;
    Ok(to)
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
    let look = |record: &Mirror| {
        let mut volumes = record.volumes.iter();
        volumes.try_for_each(|volume| super::none_closed(&mirrored_volume(meta, record, volume.id)?))
    };
    change_looked_at(meta, name, &look, &|record, ()| record.ready()).map(|(record, ())| record)
}

/// It stands still, or goes on.
///
/// # Errors
/// There is no such mirror, or it is not joined yet, or is being removed, and is to go on; the metadata is away or refuses.
pub fn pause_mirror(meta: &dyn Transact, name: &str, paused: Option<&Paused>) -> Result<Mirror> {
    let step = |record: &mut Mirror| {
        if record.leaving && paused.is_none() {
            return Err(Refused::Leaving);
        }
        if record.joining && paused.is_none() {
            return Err(Refused::Joining);
        }
        record.paused = paused.cloned();
        Ok(())
    };
    change_free(meta, name, &step).map(|(record, ())| record)
}
