//! Points: they are cut, arrived at, and let go of.

use super::super::quota::Tally;
use super::super::set::place_set_for;
use super::super::snapshot::{Find, Held, Left, all_snapshots, delete_of, protect_of, taken};
use super::super::volume::{find_volume, volumes};
use super::super::{AdminError, Result, get, list, tries};
use super::record::{change, change_free, find_mirror, mirrors};
use crate::faults::{Fault, is_off};
use crate::mirror::{MIRROR_LABEL, Refused, Steps, called, label_of, snapshots_of};
use amita_metadata::Transact;
use amita_types::map::{
    self, Mirror, MirrorRole, PassPlace, Point, SetState, Snapshot, SnapshotSet, SnapshotState, Volume,
};
use amita_types::{MirrorEpoch, SetId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What has become of a point that is to be cut. It is asked for again until it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cutting {
    /// It is there.
    Cut(Point),
    /// Its snapshots are being taken.
    Waiting,
}

/// The volume of a mirror that hosts know by this number, whatever it is called now.
///
/// # Errors
/// It is gone; the metadata is away.
pub fn mirrored_volume(meta: &dyn Transact, mirror: &Mirror, host: VolumeId) -> Result<Volume> {
    let named = mirror.volumes.iter().find(|volume| volume.id == host);
    let name = named.map_or_else(|| host.to_string(), |volume| volume.name.clone());
    // Mostly it is called what it was.
    let is_it = |found: &Volume| found.host() == host && !map::is_hidden(&found.name);
    if let Some((found, _)) = get::<Volume>(meta, &map::volume_key(&name))?.filter(|(found, _)| is_it(found)) {
        return Ok(found);
    }
    volumes(meta)?
        .into_iter()
        .find(is_it)
        .ok_or_else(|| AdminError::NoSuch {
            what: "volume",
            name,
            there: Vec::new(),
        })
}

fn mirrored_volumes(meta: &dyn Transact, mirror: &Mirror) -> Result<Vec<Volume>> {
    mirror
        .volumes
        .iter()
        .map(|volume| mirrored_volume(meta, mirror, volume.id))
        .collect()
}

fn refused(mirror: &Mirror, why: Refused) -> AdminError {
    AdminError::Mirror {
        mirror: mirror.name.clone(),
        why,
    }
}

/// Gets on with a point of this epoch: as primary one is cut where the newest is older than the interval; where it is being demoted, its last one,
/// with which it hands over.
///
/// # Errors
/// There is no such mirror, or it is of another epoch, or no primary, or stands still; a volume is gone, or not closed where it is being demoted; the
/// snapshots cannot be taken; the metadata is away or refuses.
pub fn cut_point(meta: &dyn Transact, name: &str, epoch: MirrorEpoch, now: Duration) -> Result<Cutting> {
    let (record, _) = find_mirror(meta, name)?;
    let own = record.standing.epoch;
    if own != epoch {
        return Err(refused(&record, Refused::Epoch { own, asked: epoch }));
    }
    let is_last = record.standing.role == MirrorRole::Demoting;
    if record.standing.role == MirrorRole::Secondary
        && record.standing.handed
        && let Some(last) = record.standing.point.and_then(|point| record.standing.find(point))
    {
        return Ok(Cutting::Cut(last.clone()));
    }
    if record.cutting.is_none() {
        let is_young = |point: &&Point| point.name.epoch == epoch && point.is_young(now.as_secs(), record.interval_s);
        if let Some(newest) = record.standing.newest().filter(is_young).filter(|_| !is_last) {
            return Ok(Cutting::Cut(newest.clone()));
        }
        if record.paused.is_some() && !is_last {
            return Ok(Cutting::Waiting);
        }
        if is_last
            && !is_off(Fault::HandOverOpen)
            && let Some(open) = mirrored_volumes(meta, &record)?
                .iter()
                .find(|volume| volume.closed.is_none())
        {
            return Err(AdminError::BadSetting {
                what: "volume",
                name: open.name.clone(),
                why: format!(
                    "it is open still, and the last point of mirror {name} is cut when all of its volumes are closed"
                ),
            });
        }
    }
    let begun = change_free(meta, name, &|record| match &record.cutting {
        Some(cutting) if cutting.name.epoch == epoch => Ok(cutting.clone()),
        _ => record.begin_cut(epoch, now.as_secs()),
    });
    let (_, point) = begun?;
    let (record, revision) = find_mirror(meta, name)?;
    if record.cutting.as_ref() != Some(&point) {
        return Ok(Cutting::Waiting);
    }
    // Who is late does nothing to what others cut.
    let held = [(map::mirror_key(name), revision)];
    let Some(snapshots) = take_set(meta, &record, &point.snapshots, &held, now)? else {
        return Ok(Cutting::Waiting);
    };
    let is_last = record.standing.role == MirrorRole::Demoting;
    if is_last && !is_off(Fault::HandOverOpen) && !are_fenced(meta, &record, &snapshots)? {
        // Cut under an owner who may have acknowledged something since (T5).
        change_free(meta, name, &|record| {
            record.cutting = record.cutting.take().filter(|cutting| *cutting != point);
            Ok(())
        })?;
        return Ok(Cutting::Waiting);
    }
    if !protect_all(meta, &record, &point.snapshots, &held)? {
        return Ok(Cutting::Waiting);
    }
    change_free(meta, name, &|record| match is_last {
        true => record.hand(&point),
        false => record.end_cut(&point),
    })?;
    Ok(Cutting::Cut(point))
}

/// T5: was each snapshot sealed under a generation that was raised after its volume was closed? All stores in sync had adopted it then (S2).
fn are_fenced(meta: &dyn Transact, mirror: &Mirror, snapshots: &[Snapshot]) -> Result<bool> {
    for (volume, snapshot) in mirrored_volumes(meta, mirror)?.iter().zip(snapshots) {
        let closed = volume.closed.as_ref().filter(|closed| closed.mirror == mirror.id);
        let is_behind = match (closed, snapshot.state) {
            (Some(closed), SnapshotState::Sealed(generation)) => generation > closed.since,
            _ => false,
        };
        if !is_behind || snapshot.volume != volume.id {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gets on with a set of snapshots of all volumes of a mirror, for as long as what is `held` is so, of which its record is a part: those, in the order of
/// its volumes, when they are taken. One that has come to nothing is asked for anew; where the reason is one that lasts, that is told as an error.
fn take_set(
    meta: &dyn Transact,
    mirror: &Mirror,
    name: &str,
    held: &Held,
    now: Duration,
) -> Result<Option<Vec<Snapshot>>> {
    let found = mirrored_volumes(meta, mirror)?;
    if let Some(all) = whole_set(meta, mirror, &found, name)? {
        return Ok(Some(all));
    }
    let sets: Vec<SnapshotSet> = list(meta, &map::sets_prefix())?;
    let is_ours = |set: &&SnapshotSet| set.name == name && set.labels.get(MIRROR_LABEL) == Some(&mirror.id.to_string());
    if sets
        .iter()
        .filter(is_ours)
        .any(|set| !matches!(set.state, SetState::Void(_)))
    {
        return Ok(None);
    }
    let void = sets.iter().filter(is_ours).max_by_key(|set| set.id);
    let lasting = void.and_then(|set| match &set.state {
        SetState::Void(void) if !void.again => Some(void.why.clone()),
        _ => None,
    });
    // What is left of one that came to nothing has the name.
    for volume in &found {
        if let Some(left) = taken(meta, volume, name)?
            && !drop_snapshot(meta, mirror, volume, &left, held)?
        {
            return Ok(None);
        }
    }
    let wanted = SnapshotSet {
        id: SetId(0),
        name: name.to_owned(),
        asked_at: now.as_secs(),
        labels: BTreeMap::from([label_of(mirror)]),
        volumes: Vec::new(),
        state: SetState::Taking,
    };
    let placed = place_set_for(meta, &found, &wanted, held, &mut Tally::default(), Some(mirror.id))?;
    match lasting.filter(|_| placed.is_some()) {
        Some(why) => Err(AdminError::BadSetting {
            what: "set of snapshots",
            name: name.to_owned(),
            why: format!("it came to nothing, and is tried again: {why}"),
        }),
        None => Ok(None),
    }
}

/// The snapshots of this name, if each volume has one, and all of them are this mirror's, of one set (T1).
fn whole_set(meta: &dyn Transact, mirror: &Mirror, volumes: &[Volume], name: &str) -> Result<Option<Vec<Snapshot>>> {
    let mut all: Vec<Snapshot> = Vec::new();
    for volume in volumes {
        let Some(found) = taken(meta, volume, name)? else {
            return Ok(None);
        };
        let is_ours = found.labels.get(MIRROR_LABEL) == Some(&mirror.id.to_string());
        let is_of_set = found.set.is_some() && all.first().is_none_or(|first| first.set == found.set);
        if !is_ours || found.mark || !is_of_set {
            return Ok(None);
        }
        all.push(found);
    }
    Ok(Some(all))
}

/// `false`: what was held is so no more.
fn protect_all(meta: &dyn Transact, mirror: &Mirror, name: &str, held: &Held) -> Result<bool> {
    for volume in mirrored_volumes(meta, mirror)? {
        if protect_of(meta, (&volume.name, find_volume), name, true, held)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What the other end is told of, and what goes, goes by the claim and the record as whoever does it has read it: one that is dead by then does nothing
/// to what its successor has arrived at.
fn held_by(name: &str, claim: u64, revision: u64) -> [(String, u64); 2] {
    [(map::mirror_runner_key(name), claim), (map::mirror_key(name), revision)]
}

/// It is gone on with: none, the claim is lost.
fn not_yet(meta: &dyn Transact, name: &str, claim: u64) -> Result<Option<bool>> {
    let holds = get::<String>(meta, &map::mirror_runner_key(name))?.map(|(_, revision)| revision);
    Ok((holds == Some(claim)).then_some(false))
}

/// The passes are done: gets on with the set of snapshots of the targets, by whoever holds the claim and has all of them open, and says when it is
/// there that this end is at the point: `Some(true)`. None: the claim is lost.
///
/// The snapshots count where all are of one set (T1), each of what the volume is now, and sealed under the generation that the pass was made by (T4). Else
/// the set is taken anew, under those that were noted since; what was brought is there still, for whoever is at a pass notes a generation before it writes.
/// A volume that somebody has under one that was not noted is brought anew.
///
/// # Errors
/// There is no such mirror, or it is not joined yet, or no such pass, or a volume is not whole; somebody has a volume who has not noted it, and that is to
/// be brought anew; the metadata is away or refuses.
pub fn arrive(meta: &dyn Transact, name: &str, claim: u64, now: Duration) -> Result<Option<bool>> {
    let (record, revision) = find_mirror(meta, name)?;
    if record.leaving {
        return Err(refused(&record, Refused::Leaving));
    }
    if record.joining {
        return Err(refused(&record, Refused::Joining));
    }
    let Some(pass) = record.pass.clone() else {
        return Err(refused(&record, Refused::Nothing));
    };
    let to = pass.to;
    let is_whole = pass.places.iter().all(|place| place.whole) || is_off(Fault::ArriveInParts);
    if pass.places.len() != record.volumes.len() || !is_whole {
        return Err(refused(&record, Refused::NotWhole { to }));
    }
    let snapshots = snapshots_of(&record, to);
    let held = held_by(name, claim, revision);
    let Some(found) = take_set(meta, &record, &snapshots, &held, now)? else {
        if is_off(Fault::NoteUnadopted) {
            let said = change(meta, name, Some(claim), &|record| {
                record.arrive(to, snapshots.clone(), now.as_secs())
            })?;
            return Ok(said.map(|_| true));
        }
        return not_yet(meta, name, claim);
    };
    let volumes = mirrored_volumes(meta, &record)?;
    let mut each = volumes.iter().zip(&found).zip(&pass.places);
    let is_made_so = each.all(|((volume, snapshot), place)| {
        snapshot.volume == volume.id && snapshot.state == SnapshotState::Sealed(place.generation)
    });
    if !is_made_so && !is_off(Fault::ArriveInParts) {
        // Others have had a volume, or it is of a pass of before.
        for (volume, snapshot) in volumes.iter().zip(&found) {
            if !drop_snapshot(meta, &record, volume, snapshot, &held)? {
                return not_yet(meta, name, claim);
            }
        }
        let is_noted = |(volume, place): (&Volume, &PassPlace)| volume.generation == place.generation;
        let noted: Vec<bool> = volumes.iter().zip(&pass.places).map(is_noted).collect();
        if noted.iter().all(|is_noted| *is_noted) {
            return not_yet(meta, name, claim);
        }
        let again = change(meta, name, Some(claim), &|record| {
            let own = record.pass.as_mut().filter(|own| own.to == to);
            let places = own.into_iter().flat_map(|own| &mut own.places);
            for ((place, before), is_noted) in places.zip(&pass.places).zip(&noted) {
                // Where it was noted by now, what it says holds.
                if !is_noted && place.generation == before.generation {
                    (place.done_bytes, place.whole) = (0, false);
                }
            }
            Ok(())
        })?;
        return again.map_or(Ok(None), |_| Err(refused(&record, Refused::NotWhole { to })));
    }
    if !protect_all(meta, &record, &snapshots, &held)? {
        return not_yet(meta, name, claim);
    }
    let said = change(meta, name, Some(claim), &|record| {
        record.arrive(to, snapshots.clone(), now.as_secs())
    })?;
    Ok(said.map(|_| true))
}

/// All volumes were reverted, or there was no point to go back to: gets on with the set of snapshots of what they are now (T15), and says when it is there
/// that they have gone back: `Some(true)`. None: the claim is lost.
///
/// # Errors
/// There is no such mirror, or not all have gone back; the metadata is away or refuses.
pub fn gone_back(meta: &dyn Transact, name: &str, claim: u64, now: Duration) -> Result<Option<bool>> {
    let (record, revision) = find_mirror(meta, name)?;
    let standing = &record.standing;
    let (to, prefix) = match standing.role {
        MirrorRole::Promoting => (standing.point, "again"),
        _ => (record.returning.as_ref().and_then(|returning| returning.to), "again"),
    };
    let seen = record.seen.as_ref().map_or(standing.epoch, |seen| seen.standing.epoch);
    let snapshots = match to {
        Some(to) => format!("{}-{prefix}-{}", snapshots_of(&record, to), seen.max(standing.epoch)),
        None => format!("before-mirror-{}-{seen}", called(&record)),
    };
    let done = record.returning.as_ref().map_or(&[][..], |returning| &returning.done);
    if to.is_some() && !record.volumes.iter().all(|volume| done.contains(&volume.id)) {
        return Err(refused(&record, Refused::Returning));
    }
    let held = held_by(name, claim, revision);
    let Some(found) = take_set(meta, &record, &snapshots, &held, now)? else {
        return not_yet(meta, name, claim);
    };
    // Of what they are, and sealed when nobody of before could write (T12).
    if !are_fenced(meta, &record, &found)? {
        for (volume, snapshot) in mirrored_volumes(meta, &record)?.iter().zip(&found) {
            if !drop_snapshot(meta, &record, volume, snapshot, &held)? {
                break;
            }
        }
        return not_yet(meta, name, claim);
    }
    if !protect_all(meta, &record, &snapshots, &held)? {
        return not_yet(meta, name, claim);
    }
    let said = change(meta, name, Some(claim), &|record| match record.standing.role {
        MirrorRole::Promoting => record.gone_back(snapshots.clone()),
        _ => record.end_return(snapshots.clone()),
    })?;
    Ok(said.map(|_| true))
}

/// The points that the end needs no more are none any more: so many. Their snapshots go by [`sweep_points`].
///
/// # Errors
/// There is no such mirror; the metadata is away or refuses.
pub fn let_points_go(meta: &dyn Transact, name: &str) -> Result<usize> {
    change_free(meta, name, &|record| Ok(record.let_go().len())).map(|(_, gone)| gone)
}

/// Deletes the mirror's snapshots that are of no point that it has, nor of one that is being made; so many. One that others use stays, and is looked at
/// the next time.
///
/// # Errors
/// There is no such mirror; a volume is gone; the metadata is suspected, away or refuses.
pub fn sweep_points(meta: &dyn Transact, name: &str) -> Result<usize> {
    let mut gone = 0;
    let (first, _) = find_mirror(meta, name)?;
    for volume in mirrored_volumes(meta, &first)? {
        for snapshot in all_snapshots(meta, &volume.name)? {
            if snapshot.hidden || !is_of(&first, &snapshot) {
                continue;
            }
            // What is a point by now stays: it is looked at behind the snapshot, and compared where that goes.
            let (record, revision) = find_mirror(meta, name)?;
            if is_needed(&record, &snapshot.name) {
                continue;
            }
            let held = [(map::mirror_key(name), revision)];
            match drop_snapshot(meta, &record, &volume, &snapshot, &held) {
                Ok(is_gone) => gone += usize::from(is_gone),
                Err(AdminError::SnapshotAttached { .. } | AdminError::IsLun { .. }) => {}
                Err(why) => return Err(why),
            }
        }
    }
    Ok(gone)
}

/// Is a snapshot of this name one of a point, or to become one? What a resync without a common point has kept is the operator's to delete.
fn is_needed(mirror: &Mirror, name: &str) -> bool {
    let mut points = mirror.standing.points.iter().chain(&mirror.cutting);
    points.any(|point| point.snapshots == name)
        || mirror
            .pass
            .as_ref()
            .is_some_and(|pass| snapshots_of(mirror, pass.to) == name)
        || mirror.returning.is_some()
        || mirror.begun.is_some() && mirror.standing.role == MirrorRole::Promoting
        || is_kept(name)
}

/// Is a snapshot of this name one that a resync without a common point has kept?
pub(super) fn is_kept(name: &str) -> bool {
    name.starts_with("before-mirror-")
}

/// Was it taken for this mirror?
pub(super) fn is_of(mirror: &Mirror, snapshot: &Snapshot) -> bool {
    snapshot.labels.get(MIRROR_LABEL) == Some(&mirror.id.to_string())
}

const BY_NAME: Find = find_volume;

/// A snapshot is protected no more, or is gone. `false`: what was held is so no more.
pub(super) fn let_unprotected(meta: &dyn Transact, volume: &Volume, found: &Snapshot, held: &Held) -> Result<bool> {
    match protect_of(meta, (&volume.name, BY_NAME), &found.name, false, held) {
        Ok(done) => Ok(done.is_some()),
        Err(AdminError::NoSuch { .. } | AdminError::OnlyMark { .. }) => Ok(true),
        Err(why) => Err(why),
    }
}

/// The mirror's own snapshot goes, though it is protected, if what is `held` is so still. `false`: it is not. Another one of its name stays as it is,
/// and is an error.
pub(super) fn drop_snapshot(
    meta: &dyn Transact,
    mirror: &Mirror,
    volume: &Volume,
    found: &Snapshot,
    held: &Held,
) -> Result<bool> {
    let of = (volume.name.as_str(), BY_NAME);
    let is_it = |other: &Snapshot| (other.volume, other.number) == (found.volume, found.number) && is_of(mirror, other);
    if !is_of(mirror, found) {
        return Err(AdminError::Exists {
            what: "snapshot",
            name: format!("{}@{}", volume.name, found.name),
        });
    }
    for _ in tries(meta) {
        if !let_unprotected(meta, volume, found, held)? {
            return Ok(false);
        }
        match delete_of(meta, of, &found.name, &is_it, held, Left::Nothing) {
            Ok(gone) => return Ok(gone.is_some()),
            Err(AdminError::NoSuch { .. }) => return Ok(true),
            Err(AdminError::Protected { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::snapshot_key(found.volume, found.number),
    })
}

/// Fails where a snapshot is of a mirror that stands, whoever wants it gone (T16).
///
/// # Errors
/// It is; the metadata is away.
pub fn unmirrored(meta: &dyn Transact, volume: &Volume, snapshot: &Snapshot) -> Result<()> {
    let Some(label) = snapshot.labels.get(MIRROR_LABEL) else {
        return Ok(());
    };
    let all = mirrors(meta)?;
    let ids: BTreeSet<String> = all.iter().map(|mirror| mirror.id.to_string()).collect();
    let is_kept = is_kept(&snapshot.name);
    match all
        .iter()
        .find(|mirror| ids.contains(label) && mirror.id.to_string() == *label)
    {
        Some(mirror) if !is_kept => Err(AdminError::MirrorsPoint {
            snapshot: format!("{}@{}", volume.name, snapshot.name),
            mirror: mirror.name.clone(),
        }),
        _ => Ok(()),
    }
}
