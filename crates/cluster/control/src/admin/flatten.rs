//! Clones that are to need what they were made from no more (S13).
//!
//! The clone's owner opens all its chunks, so that each is made on its stores of what the parents have; no data is copied. What is
//! made stays, whoever owns the volume then, so that the owner's progress is only a place in the record ([`Flatten`]). When all chunks
//! are made, the parents leave the clone's record, in the transaction that takes its pin off the snapshot.
//!
//! What was cloned from the clone names the clone's parents behind it, and needs them no more either: whatever they have the clone
//! has. Those records are shortened first, one by one. Who makes a clone raises the counter that the last transaction compares: so
//! none can be made in between that names what goes.

use super::clone::unpin;
use super::subsystem::{put, unchanged, uses_guard};
use super::trash::find_pool;
use super::volume::{believable, find_volume};
use super::{AdminError, Result, get, list, put_if, tries};
use amita_metadata::{Call, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Flatten, Volume};
use std::time::Duration;

/// Records that are shortened in one transaction.
const SHORTENED_AT_ONCE: usize = 32;

/// How far a flattening has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlattenState {
    /// Chunks are being made, or all are.
    Making(Flatten),
    /// The clone needs nothing of what it was made from.
    Flat,
    /// It was taken back.
    Cancelled,
}

/// A flattening of which nothing is done yet.
pub(super) fn begun(volume: &Volume, pool: &map::Pool, now: Duration) -> Flatten {
    Flatten {
        volume: volume.id,
        asked_at: now.as_secs(),
        chunks: volume.size_bytes.div_ceil(u64::from(pool.chunk_bytes)),
        done: 0,
        ails: None,
        paused: None,
    }
}

/// Asks for a clone to be flattened; `now` is since 1970. One that is under way goes on, also if it was paused.
///
/// # Errors
/// There is no such volume, or it is no clone; the metadata is suspected, away or refuses.
pub fn flatten_volume(meta: &dyn Transact, name: &str, now: Duration) -> Result<Flatten> {
    for _ in tries(meta) {
        believable(meta)?;
        let (volume, revision) = find_volume(meta, name)?;
        if volume.parents.is_empty() {
            return Err(no_clone(name));
        }
        let key = map::flatten_key(volume.id);
        if let Some((known, revision)) = get::<Flatten>(meta, &key)? {
            let goes_on = Flatten {
                paused: None,
                ..known.clone()
            };
            if known == goes_on || put_if(meta, &key, revision, &goes_on)? {
                return Ok(goes_on);
            }
            continue;
        }
        let pool = find_pool(meta, &volume.pool)?;
        let record = begun(&volume, &pool, now);
        let call = Call {
            compares: vec![unchanged(&map::volume_key(name), revision), unchanged(&key, 0)],
            then: vec![put(key, &record)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(record);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}

fn no_clone(name: &str) -> AdminError {
    AdminError::BadSetting {
        what: "volume",
        name: name.to_owned(),
        why: "it is no clone, or was flattened: it needs nothing of another volume".to_owned(),
    }
}

/// Takes a flattening back: `false`: there was none. Chunks that were made stay.
///
/// # Errors
/// There is no such volume; the metadata is away or refuses.
pub fn cancel_flatten(meta: &dyn Transact, name: &str) -> Result<bool> {
    for _ in tries(meta) {
        let (volume, _) = find_volume(meta, name)?;
        let key = map::flatten_key(volume.id);
        let Some((_, revision)) = get::<Flatten>(meta, &key)? else {
            // A revert gives the volume another number, and the flattening goes along.
            match find_volume(meta, name)?.0.id == volume.id {
                true => return Ok(false),
                false => continue,
            }
        };
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![Op::Delete { key: key.clone() }],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(true);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}

/// How far a clone's flattening has come.
///
/// # Errors
/// There is no such volume; the metadata is away.
pub fn flatten_progress(meta: &dyn Transact, name: &str) -> Result<FlattenState> {
    let (volume, _) = find_volume(meta, name)?;
    if let Some((record, _)) = get::<Flatten>(meta, &map::flatten_key(volume.id))? {
        return Ok(FlattenState::Making(record));
    }
    // It may have been ended between the two reads.
    let (volume, _) = find_volume(meta, name)?;
    Ok(match volume.parents.is_empty() {
        true => FlattenState::Flat,
        false => FlattenState::Cancelled,
    })
}

/// Ends a clone's flattening, if all its chunks are made: `false`: they are not, or it was ended or taken back by others.
///
/// # Errors
/// There is no such volume; the metadata is suspected or away, or the record of a volume cannot be read.
pub fn end_flatten(meta: &dyn Transact, name: &str) -> Result<bool> {
    let (volume, _) = find_volume(meta, name)?;
    end(meta, volume.id).map(|ended| ended.is_some())
}

/// What came of ending flattenings.
#[derive(Debug, Default)]
pub struct Ended {
    /// The clones that have let go of their parents, by name.
    pub flat: Vec<String>,
    /// Those that cannot, though all their chunks are made, and why.
    pub failed: Vec<(VolumeId, AdminError)>,
}

/// The clones whose chunks are all made let go of their parents. What cannot be ended is left for the next time, and keeps no other
/// one from ending.
///
/// # Errors
/// The metadata is suspected or away: nothing can be ended then.
pub fn end_flattens(meta: &dyn Transact) -> Result<Ended> {
    use amita_metadata::Error::{Unavailable, Unknown};
    let found = meta.txn(&Call::prefix(map::flattens_prefix()))?;
    let mut ended = Ended::default();
    // What nobody can read is told of by the status.
    for record in found.values(0).iter().filter_map(|found| found.json::<Flatten>().ok()) {
        if !record.is_made() {
            continue;
        }
        match end(meta, record.volume) {
            Ok(name) => ended.flat.extend(name),
            Err(why @ AdminError::Suspected { .. }) => return Err(why),
            Err(AdminError::Metadata(why @ (Unavailable { .. } | Unknown { .. }))) => return Err(why.into()),
            Err(why) => ended.failed.push((record.volume, why)),
        }
    }
    Ok(ended)
}

/// Ends one: its volume's name, where that was done here.
fn end(meta: &dyn Transact, id: VolumeId) -> Result<Option<String>> {
    let key = map::flatten_key(id);
    for _ in tries(meta) {
        believable(meta)?;
        // Before the volumes: what is cloned from then on raises it.
        let (_, guard_revision) = uses_guard(meta)?;
        let Some((_, revision)) = get::<Flatten>(meta, &key)?.filter(|(record, _)| record.is_made()) else {
            return Ok(None);
        };
        let volumes: Vec<Volume> = list(meta, &map::volume_key(""))?;
        let Some(volume) = volumes.iter().find(|volume| volume.id == id) else {
            return Ok(None);
        };
        let longer: Vec<&Volume> = volumes.iter().filter(|other| has_behind(other, id)).collect();
        if !longer.is_empty() {
            for some in longer.chunks(SHORTENED_AT_ONCE) {
                shorten(meta, some, id)?;
            }
            continue;
        }
        let volume_key = map::volume_key(&volume.name);
        let Some((volume, volume_revision)) = get::<Volume>(meta, &volume_key)?.filter(|(found, _)| found.id == id)
        else {
            continue;
        };
        let mut call = Call {
            compares: vec![
                unchanged(&map::counter_key("namespaces"), guard_revision),
                unchanged(&key, revision),
                unchanged(&volume_key, volume_revision),
            ],
            then: vec![Op::Delete { key: key.clone() }],
            otherwise: Vec::new(),
        };
        if let Some((held, less)) = unpin(meta, &volume)? {
            call.compares.push(held);
            call.then.push(less);
        }
        call.then.push(put(volume_key, &kept(&volume, 0)));
        if meta.txn(&call)?.succeeded {
            return Ok(Some(volume.name));
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Does the volume come from this one, and, behind it, from others?
fn has_behind(volume: &Volume, id: VolumeId) -> bool {
    let parents = volume.parents.iter().rev().skip(1);
    parents.into_iter().any(|parent| parent.volume == id)
}

/// The volume with the nearest of its parents alone; its chunks lie where they lay.
fn kept(volume: &Volume, parents: usize) -> Volume {
    let mut kept = volume.clone();
    kept.lineage.root = Some(volume.place()).filter(|place| *place != volume.id);
    kept.parents.truncate(parents);
    kept
}

/// What comes from the clone needs nothing behind it. Where one has changed meanwhile nothing is done, and all are looked at anew.
fn shorten(meta: &dyn Transact, volumes: &[&Volume], id: VolumeId) -> Result<()> {
    let mut call = Call::default();
    for volume in volumes {
        let key = map::volume_key(&volume.name);
        let Some((found, revision)) = get::<Volume>(meta, &key)?.filter(|(found, _)| has_behind(found, id)) else {
            continue;
        };
        let Some(level) = found.parents.iter().position(|parent| parent.volume == id) else {
            continue;
        };
        call.compares.push(unchanged(&key, revision));
        call.then.push(put(key, &kept(&found, level + 1)));
    }
    meta.txn(&call)?;
    Ok(())
}
