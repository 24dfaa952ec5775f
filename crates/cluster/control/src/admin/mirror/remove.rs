//! A mirror ends, at this end. Its record goes last: until then its points are nobody's to delete, and where this is cut short it is done again.

use super::super::snapshot::all_snapshots;
use super::super::subsystem::{put, unchanged};
use super::super::{AdminError, RACES, Result, get};
use super::point::{drop_snapshot, is_kept, is_of, let_unprotected, mirrored_volume};
use super::record::{change_free, find_mirror};
use crate::mirror::{MIRROR_LABEL, Refused};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, Mirror, MirrorRole, SetState, SnapshotSet};

/// The primary is mirrored no more: it goes on serving. What is being cut comes to nothing. Its points are snapshots of the operator's from then on,
/// which nothing protects (`keep_points`), or are deleted, but for those that others use.
///
/// # Errors
/// There is no such mirror, or this end is not its primary; the metadata is suspected, away or refuses.
pub fn remove_mirror(meta: &dyn Transact, name: &str, keep_points: bool) -> Result<Mirror> {
    let key = map::mirror_key(name);
    for _ in 0..RACES {
        let (record, _) = change_free(meta, name, &|record| {
            let standing = &record.standing;
            // Volumes that stay closed for a mirror that is not there would be nobody's. One that never got any has none.
            if standing.role != MirrorRole::Primary && !record.volumes.is_empty() {
                return Err(Refused::Role {
                    is: standing.role,
                    handed: standing.handed,
                    wanted: "a primary: promote it first, by force where the other end is to go on without it",
                });
            }
            // Whoever is at a point compares the record, and gives up.
            record.cutting = None;
            if !keep_points {
                // None is told of that may be gone by then.
                record.standing.points.clear();
            }
            Ok(())
        })?;
        let (now, revision) = find_mirror(meta, name)?;
        if now.id != record.id || now.cutting.is_some() {
            continue;
        }
        let held = [(key.clone(), revision)];
        if !void_sets(meta, &now, revision)? || !free_points(meta, &now, &held, keep_points)? {
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
    for volume in &mirror.volumes {
        let found = match mirrored_volume(meta, mirror, volume.id) {
            Err(AdminError::NoSuch { .. }) => continue,
            found => found?,
        };
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
