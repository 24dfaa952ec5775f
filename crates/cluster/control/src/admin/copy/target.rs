//! What whoever makes a copy does with the target's records: its size, and its snapshots.

use super::super::migrate::{copy_job_id, count_on, is_second};
use super::super::quota::{Wanted, charge};
use super::super::snapshot::{delete_snapshot_that, is_sealed, of_chain, taken};
use super::super::subsystem::{put, unchanged};
use super::super::volume::{believable, find_volume};
use super::super::{AdminError, Left, Result, tries};
use super::{POINT_LABEL, ask_for, by_claim, remove_held};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, BACKUP_LABEL, Copying, MAX_LABELS, OWN_LABELS, Snapshot, SnapshotState, Volume};
use amita_types::{Generation, SnapshotId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Has what a runner of before has wished of the target not be taken any more: it would be of what the next pass writes. Nothing is being
/// taken when the target is opened behind this, for that raises its generation (S2). `false`: the claim is lost.
///
/// # Errors
/// The metadata is away or refuses.
pub fn drop_point_wish(meta: &dyn Transact, copying: &Copying, claim: u64) -> Result<bool> {
    let key = map::snapshot_wish_key(copying.volume);
    let copier = map::copier_key(copying.volume);
    for _ in tries(meta) {
        let reply = meta.txn(&Call {
            then: [&copier, &key].map(|key| Op::Get { key: key.clone() }).to_vec(),
            ..Call::default()
        })?;
        if reply.value(0).map(|found| found.mod_revision) != Some(claim) {
            return Ok(false);
        }
        let Some(wish) = reply.value(1) else { return Ok(true) };
        if remove_held(meta, &key, wish.mod_revision, &by_claim(copying, claim))? {
            return Ok(true);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Deletes the target's snapshots that are of no pass that is done. `false`: the claim is lost.
///
/// # Errors
/// One is protected, or used by others; the metadata is suspected, away or refuses.
pub fn drop_points(meta: &dyn Transact, copying: &Copying, claim: u64) -> Result<bool> {
    let (target, _) = find_volume(meta, &copying.name)?;
    let of = |found: &Snapshot| found.labels.get(POINT_LABEL)?.parse().ok().map(SnapshotId);
    let is_undone = |found: &Snapshot| of(found).is_some_and(|of| of > copying.place.base);
    let all = of_chain(meta, &target)?;
    for found in all.iter().filter(|found| is_sealed(found) && is_undone(found)) {
        let is_it = |other: &Snapshot| other.number == found.number;
        let held = by_claim(copying, claim);
        match delete_snapshot_that(meta, &target.name, &found.name, &is_it, &held, Left::Nothing) {
            Ok(None) => return Ok(false),
            Ok(Some(_)) | Err(AdminError::NoSuch { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(true)
}

/// Has the target a snapshot that is a copy of this one, sealed under that generation? Where a pass to it was whole under that, and whoever
/// made it has not come to note that it is done, it is.
///
/// # Errors
/// The target is gone; the metadata is away.
pub fn has_point(meta: &dyn Transact, copying: &Copying, of: SnapshotId, generation: Generation) -> Result<bool> {
    let (target, _) = find_volume(meta, &copying.name)?;
    let label = of.0.to_string();
    let is_it = |found: &Snapshot| {
        // Of a move it has the number, too (M8).
        let is_numbered = copying.moving.is_none() || found.number == of;
        is_numbered && found.state == SnapshotState::Sealed(generation) && found.labels.get(POINT_LABEL) == Some(&label)
    };
    Ok(of_chain(meta, &target)?.iter().any(is_it))
}

/// Gives the target the size that the next pass needs. Smaller it becomes only where nobody ever had it. None: the claim is lost.
///
/// # Errors
/// The target is gone, or larger; a quota; the metadata is away or refuses.
pub fn fit_copy(meta: &dyn Transact, copying: &Copying, claim: u64, size_bytes: u64) -> Result<Option<Volume>> {
    let key = map::volume_key(&copying.name);
    let copier = map::copier_key(copying.volume);
    for _ in tries(meta) {
        let (old, revision) = find_volume(meta, &copying.name)?;
        if old.id != copying.volume {
            return Err(AdminError::NoSuch {
                what: "volume",
                name: format!("{} of number {}", copying.name, copying.volume),
                there: Vec::new(),
            });
        }
        if old.size_bytes == size_bytes {
            return Ok(Some(old));
        }
        if size_bytes < old.size_bytes && old.generation != Generation(0) {
            return Err(AdminError::BadSetting {
                what: "volume",
                name: copying.name.clone(),
                why: format!(
                    "it has {} bytes, and the next snapshot of {} that it is to be has {size_bytes}: its source was made smaller, and a copy \
                     cannot follow that; take it back (`amita job cancel {}`), and make another one without --snapshots",
                    old.size_bytes,
                    copying.of,
                    copy_job_id(copying)
                ),
            });
        }
        let new = Volume {
            size_bytes,
            ..old.clone()
        };
        let mut call = Call {
            compares: vec![unchanged(&key, revision), unchanged(&copier, claim)],
            then: vec![put(key.clone(), &new)],
            otherwise: vec![Op::Get { key: copier.clone() }],
        };
        let provisioned_bytes = match is_second(meta, &old)? {
            true => 0,
            false => size_bytes.saturating_sub(old.size_bytes),
        };
        let wanted = Wanted {
            provisioned_bytes,
            ..Wanted::default()
        };
        charge(meta, &old.pool, wanted)?.into_call(&mut call);
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(Some(new));
        }
        if reply.value(0).map(|found| found.mod_revision) != Some(claim) {
            return Ok(None);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Gets on with the snapshot of the target that is a copy of one of the source: the snapshot, when it is taken. It is asked again until then.
///
/// # Errors
/// It cannot be taken, or another one has its name; the claim is lost; the metadata is away or refuses.
pub fn take_point(
    meta: &dyn Transact,
    copying: &Copying,
    of: &Snapshot,
    claim: u64,
    now: Duration,
) -> Result<Option<Snapshot>> {
    let (volume, _) = find_volume(meta, &copying.name)?;
    if let Some(found) = taken(meta, &volume, &of.name)? {
        return match found.labels.get(POINT_LABEL) == Some(&of.number.0.to_string()) {
            true => Ok(Some(found)),
            false => Err(AdminError::Exists {
                what: "snapshot",
                name: format!("{}@{}", copying.name, of.name),
            }),
        };
    }
    // What Amita says of the original, its policies say of no copy. Behind a move it is the original.
    let is_copy = copying.moving.is_none();
    let is_own = |key: &str| key.starts_with(OWN_LABELS) || is_copy && key == BACKUP_LABEL;
    let own = of.labels.iter().filter(|(key, _)| !is_own(key));
    let labels = || -> BTreeMap<String, String> {
        let number = (POINT_LABEL.to_owned(), of.number.0.to_string());
        let own = own.clone().take(MAX_LABELS - 1);
        own.map(|(key, value)| (key.clone(), value.clone()))
            .chain([number])
            .collect()
    };
    believable(meta)?;
    if copying.moving.is_some() && !count_on(meta, copying, claim, of.number)? {
        return Err(AdminError::BadSetting {
            what: "snapshot",
            name: format!("{}@{}", copying.name, of.name),
            why: "another node is at the move by now".to_owned(),
        });
    }
    ask_for(meta, &volume, &of.name, &labels, (&by_claim(copying, claim), None), now).map(|()| None)
}
