//! A mirror ends, at this end. Its record goes last: until then its points are nobody's to delete, and where this is cut short it is done again.

use super::super::deletion::{Deletion, Fate, carry_out, permit};
use super::super::snapshot::all_snapshots;
use super::super::subsystem::{put, unchanged};
use super::super::{AdminError, Result, get, tries};
use super::point::{drop_snapshot, is_kept, is_of, let_unprotected, mirrored_volume};
use super::record::{change_free, find_mirror};
use super::{Door, close_mirrored, set_door};
use crate::mirror::{MIRROR_LABEL, Refused, Steps};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, Mirror, MirrorRole, SetState, SnapshotSet, Volume};

/// The primary is mirrored no more: it goes on serving. What is being cut comes to nothing. Its points are snapshots of the operator's from then on,
/// which nothing protects (`keep_points`), or are deleted, but for those that others use.
///
/// # Errors
/// There is no such mirror, or this end is not its primary; the metadata is suspected, away or refuses.
pub fn remove_mirror(meta: &dyn Transact, name: &str, keep_points: bool) -> Result<Mirror> {
    end_mirror(meta, name, &|record| {
        let standing = &record.standing;
        // Volumes that stay closed for a mirror that is not there would be nobody's. One that never got any has none.
        if standing.role != MirrorRole::Primary && !record.volumes.is_empty() {
            return Err(Refused::Role {
                is: standing.role,
                handed: standing.handed,
                wanted: "a primary; one that is none is removed by the command (`amita mirror remove`), which says what becomes of its volumes",
            });
        }
        // Whoever is at a point compares the record, and gives up.
        record.cutting = None;
        if !keep_points {
            // None is told of that may be gone by then.
            record.standing.points.clear();
        }
        Ok(keep_points)
    })
}

/// An end that is no primary is mirrored no more, and its volumes are opened to hosts: at its point, where it has one, and else as they are, which may be
/// the middle of a copy. Its points are snapshots of the operator's from then on, which nothing protects.
///
/// # Errors
/// There is no such mirror; it is primary, or is being made that, or is being demoted; a pass was begun since its point, or its volumes go back to one: it
/// is promoted by force first; the metadata is suspected, away or refuses.
pub fn leave_mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    end_mirror(meta, name, &|record| record.leave(false).map(|()| true))
}

/// The same, and its volumes are deleted for good while they are closed, with all of their snapshots. `now` is in seconds since 1970; `pause` waits a little,
/// and says whether there is still patience.
///
/// # Errors
/// There is no such mirror; it is primary, or is being made that, or is being demoted; a volume may not be deleted, and nothing is changed; one cannot be
/// deleted after all ([`carry_out`]): those that are there still stay closed, and this can be done again; the metadata is suspected, away or refuses.
pub fn delete_mirrored(meta: &dyn Transact, name: &str, now: u64, pause: &mut dyn FnMut() -> bool) -> Result<Mirror> {
    // One that was deposed a moment ago may not be closed yet.
    if find_mirror(meta, name)?.0.standing.role == MirrorRole::Deposed {
        close_mirrored(meta, name)?;
    }
    let fate = Fate::Purge { snapshots: true, now };
    let (record, _) = find_mirror(meta, name)?;
    let tried = record.clone().leave(true);
    tried.map_err(|why| AdminError::Mirror {
        mirror: name.to_owned(),
        why,
    })?;
    // Whichever may not go is told before the first one is gone.
    for found in those_there(meta, &record)? {
        permit(meta, (&fate, Some(record.id)), &found)?;
    }
    let (record, ()) = change_free(meta, name, &|record| record.leave(true))?;
    for found in those_there(meta, &record)? {
        // By force, for whoever is at the mirror may have it open still.
        let deletion = Deletion::of(&found.name, true, fate.clone())
            .only(found.id)
            .of_mirror(record.id);
        match carry_out(meta, deletion, pause) {
            Ok(_) | Err(AdminError::NoSuch { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    end_mirror(meta, name, &|record| record.leave(true).map(|()| true))
}

/// The volumes that are not deleted yet.
fn those_there(meta: &dyn Transact, mirror: &Mirror) -> Result<Vec<Volume>> {
    let found = mirror
        .volumes
        .iter()
        .map(|volume| mirrored_volume(meta, mirror, volume.id));
    let is_there = |found: &Result<Volume>| !matches!(found, Err(AdminError::NoSuch { .. }));
    found.filter(is_there).collect()
}

/// By this step, which says whether the points stay, the end is none any more.
fn end_mirror(
    meta: &dyn Transact,
    name: &str,
    step: &dyn Fn(&mut Mirror) -> std::result::Result<bool, Refused>,
) -> Result<Mirror> {
    let key = map::mirror_key(name);
    for _ in tries(meta) {
        let (record, keep_points) = change_free(meta, name, step)?;
        let (now, revision) = find_mirror(meta, name)?;
        let is_so = (now.id, now.standing.role, now.leaving) == (record.id, record.standing.role, record.leaving);
        if !is_so || now.cutting.is_some() {
            continue;
        }
        let held = [(key.clone(), revision)];
        if !void_sets(meta, &now, revision)?
            || !open_left(meta, &now, &held)?
            || !free_points(meta, &now, &held, keep_points)?
        {
            continue;
        }
        let id_key = map::mirror_id_key(now.id);
        let by_id = get::<String>(meta, &id_key)?.filter(|(of, _)| of == name);
        let mut then = vec![
            Op::Delete { key: key.clone() },
            Op::Delete {
                key: map::mirror_seen_key(name),
            },
        ];
        then.extend(by_id.map(|_| Op::Delete { key: id_key }));
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then,
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(now);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Opens the volumes of an end that is no primary. `false`: its record has changed.
fn open_left(meta: &dyn Transact, mirror: &Mirror, held: &[(String, u64)]) -> Result<bool> {
    for found in those_there(meta, mirror)? {
        let is_closed = found.closed.as_ref().is_some_and(|closed| closed.mirror == mirror.id);
        if is_closed && set_door(meta, &found.name, Door::Open(mirror.id), held)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The sets that are being taken for the mirror come to nothing. `false`: its record has changed.
fn void_sets(meta: &dyn Transact, mirror: &Mirror, revision: u64) -> Result<bool> {
    let reply = meta.txn(&Call::prefix(map::sets_prefix()))?;
    for found in reply.values(0) {
        let Ok(set) = found.json::<SnapshotSet>() else { continue };
        let is_ours = set.labels.get(MIRROR_LABEL) == Some(&mirror.id.to_string());
        if !is_ours || set.state != SetState::Taking {
            continue;
        }
        let voided = set.voided(format!("mirror {} was removed", mirror.name), false);
        let call = Call {
            compares: vec![
                unchanged(&found.key, found.mod_revision),
                unchanged(&map::mirror_key(&mirror.name), revision),
            ],
            then: vec![put(found.key.clone(), &voided)],
            otherwise: Vec::new(),
        };
        // It was decided meanwhile: its snapshots are looked at behind it.
        if !meta.txn(&call)?.succeeded {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the protection off the mirror's snapshots, or deletes them. `false`: its record has changed.
fn free_points(meta: &dyn Transact, mirror: &Mirror, held: &[(String, u64)], keep_points: bool) -> Result<bool> {
    for found in those_there(meta, mirror)? {
        for snapshot in all_snapshots(meta, &found.name)? {
            if snapshot.hidden || !is_of(mirror, &snapshot) {
                continue;
            }
            // What a resync has kept is the operator's in any case.
            let is_freed = match keep_points || is_kept(&snapshot.name) {
                true => let_unprotected(meta, &found, &snapshot, held)?,
                false => match drop_snapshot(meta, mirror, &found, &snapshot, held) {
                    // Others use it: it has lost its protection, and goes when they let go of it.
                    Err(AdminError::SnapshotAttached { .. } | AdminError::IsLun { .. }) => true,
                    done => done?,
                },
            };
            if !is_freed {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
