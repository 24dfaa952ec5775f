//! Volumes that are made from a snapshot of another one, and what keeps that from going (S8, S9).
//!
//! A clone is a record. In the same transaction the snapshot's record counts one more: whoever deletes the snapshot compares that record,
//! and whoever deletes the volume for good compares what the transaction writes beside it. So neither passes the other unseen.

use super::copy::none_copies;
use super::keys::{DataKeys, NewKey, Whose};
use super::quota::{Wanted, charge};
use super::snapshot::snapshot as find_snapshot;
use super::subsystem::{put, unchanged, uses_guard};
use super::volume::{believable, find_volume, has_room};
use super::{AdminError, Result, check_name, cluster, get, list, tries};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{
    self, About, MAX_LEVELS, Parent, Pool, SNAPSHOTS_SINCE, Snapshot, SnapshotState, Trashed, Volume,
};
use amita_types::{Generation, SnapshotId, VolumeId};
use std::collections::BTreeMap;

/// The most clones of one snapshot.
pub const MAX_CLONES: u64 = 65_536;

/// Makes a volume that begins as a snapshot of another one: in its pool, of the snapshot's size, and of the same tenant. No data is copied.
///
/// # Errors
/// No such volume or snapshot, one of a volume that is to be a copy and is none yet, a name that cannot be or is taken, labels that cannot be,
/// too many levels, clones or volumes, more than the pool's quota has left, a cluster whose version does not know clones; the metadata is suspected, away or refuses.
pub fn clone_volume(meta: &dyn Transact, volume: &str, snapshot: &str, name: &str, about: &About) -> Result<Volume> {
    clone_volume_with(meta, None, (volume, snapshot), name, about)
}

/// The same; these make the key that a clone of an encrypted volume has of its own (S14).
///
/// # Errors
/// As [`clone_volume`]; or the volume is encrypted, and no key can be made.
pub fn clone_volume_with(
    meta: &dyn Transact,
    keys: Option<&dyn DataKeys>,
    (volume, snapshot): (&str, &str),
    name: &str,
    about: &About,
) -> Result<Volume> {
    check_name("volume", name)?;
    let bad = |why: String| AdminError::BadSetting {
        what: "volume",
        name: name.to_owned(),
        why,
    };
    about.check().map_err(bad)?;
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        return Err(bad(format!(
            "the cluster's version is {version}, and clones need {SNAPSHOTS_SINCE}: all its programs must know of them first \
             (`amita cluster finalize`)"
        )));
    }
    let key = map::volume_key(name);
    for _ in tries(meta) {
        believable(meta)?;
        if get::<Volume>(meta, &key)?.is_some() {
            return Err(AdminError::Exists {
                what: "volume",
                name: name.to_owned(),
            });
        }
        let guard = uses_guard(meta)?;
        let Snapshot {
            volume: data, number, ..
        } = find_snapshot(meta, volume, snapshot)?;
        let (named, named_revision) = find_volume(meta, volume)?;
        none_copies(meta, &named)?;
        let Some((origin, origin_revision)) = data_of(meta, (&named, named_revision), data)? else {
            continue;
        };
        let snapshot_key = map::snapshot_key(data, number);
        let Some((mut record, record_revision)) = get::<Snapshot>(meta, &snapshot_key)? else {
            continue;
        };
        let SnapshotState::Sealed(generation) = record.state else {
            continue;
        };
        if record.mark {
            continue;
        }
        if record.volume != data || record.name != snapshot {
            continue;
        }
        if origin.parents.len() >= MAX_LEVELS {
            return Err(bad(format!(
                "{volume} is a clone of a clone, and so on, {MAX_LEVELS} times, which is the most; copy it to a new volume \
                 (`amita volume export`, `amita volume import`)"
            )));
        }
        if record.clones >= MAX_CLONES {
            return Err(bad(format!(
                "{volume}@{snapshot} has {MAX_CLONES} clones, which are the most; take another snapshot of the volume"
            )));
        }
        let counter = map::counter_key("volumes");
        let (last, counter_revision) = get::<u64>(meta, &counter)?.unwrap_or((0, 0));
        has_room(meta, last)?;
        let (root, parents) = comes_from(&origin, number, generation);
        let id = VolumeId(last + 1);
        // It is whose the volume is: it is read by the same keys.
        let whose = Whose::of(meta, named.id)?;
        let own = match &origin.keys {
            Some(ring) => {
                let key = NewKey::make(meta, keys, (id, id), version, &whose).map_err(|why| why.of(name))?;
                let ring = key.ring_of(ring, generation, origin.generation).map_err(bad)?;
                Some((key, ring))
            }
            None => None,
        };
        let made = Volume {
            id,
            name: name.to_owned(),
            pool: origin.pool.clone(),
            size_bytes: record.size_bytes,
            // Whoever opens it raises that, and is above all that it inherits (S8).
            generation: origin.generation,
            owner: None,
            lineage: map::Lineage {
                root,
                ..map::Lineage::default()
            },
            parents,
            former: Vec::new(),
            keys: own.as_ref().map(|(_, ring)| ring.clone()),
            limits: None,
            priority: None,
            closed: None,
        };
        map::check_parents(&made).map_err(bad)?;
        record.clones += 1;
        let about = About {
            volume: made.id,
            ..about.clone()
        };
        let guard_key = map::counter_key("namespaces");
        let mut call = Call {
            compares: vec![
                unchanged(&map::volume_key(volume), named_revision),
                unchanged(&snapshot_key, record_revision),
                unchanged(&guard_key, guard.1),
                unchanged(&counter, counter_revision),
                unchanged(&key, 0),
            ],
            then: vec![
                put(snapshot_key, &record),
                // A deletion for good compares this.
                put(guard_key, &(guard.0 + 1)),
                put(key.clone(), &made),
                put(map::about_key(made.id), &about),
                // Last: whoever is told one by one sees no number before its volume (R13).
                put(counter, &made.id.0),
            ],
            otherwise: Vec::new(),
        };
        call.compares.extend(whose.held().iter().cloned());
        call.then.extend(whose.given(made.id));
        // It has a generation, so it is asked about members that come back: no promotion goes through that has not heard of it (S6).
        if let Some((pool, _)) = get::<Pool>(meta, &map::pool_key(&made.pool))? {
            let raised = map::Raised {
                volume: made.id,
                generation: made.generation,
            };
            call.then.push(put(map::raised_key(pool.id), &raised));
        }
        if origin.id != named.id {
            let origin_key = map::volume_key(&origin.name);
            call.compares.push(unchanged(&origin_key, origin_revision));
        }
        if let Some((key, _)) = own {
            key.into_call(&mut call);
        }
        charge(meta, &made.pool, Wanted::volume(made.size_bytes, 0))?.into_call(&mut call);
        if meta.txn(&call)?.succeeded {
            return Ok(made);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// The record of one of the data that a volume is or was, and its revision; none: it has changed meanwhile.
pub(super) fn data_of(
    meta: &dyn Transact,
    (volume, revision): (&Volume, u64),
    data: VolumeId,
) -> Result<Option<(Volume, u64)>> {
    if volume.id == data {
        return Ok(Some((volume.clone(), revision)));
    }
    let found = get::<Volume>(meta, &map::volume_key(&map::hidden_name(data)))?;
    Ok(found.filter(|(found, _)| volume.has_data(data) && found.id == data))
}

/// What the record of a volume says that is made from a snapshot of another one: by which number its chunks are placed, where the parents
/// do not say so, and its parents.
pub(super) fn comes_from(
    origin: &Volume,
    number: SnapshotId,
    generation: Generation,
) -> (Option<VolumeId>, Vec<Parent>) {
    let nearest = Parent {
        volume: origin.id,
        number,
        generation,
    };
    let root = Some(origin.place()).filter(|_| origin.lineage.root.is_some());
    let parents = std::iter::once(nearest).chain(origin.parents.iter().copied());
    (root, parents.collect())
}

/// The names of the volumes that were cloned from a volume, whatever data it had then, or from its snapshot of that number; those that are
/// deleted and kept are called by what they were called.
///
/// # Errors
/// The metadata is away.
pub fn clones(meta: &dyn Transact, of: &Volume, number: Option<SnapshotId>) -> Result<Vec<String>> {
    let all: Vec<Volume> = list(meta, &map::volume_key(""))?;
    let mut names = Vec::new();
    for volume in all {
        let is_it = |parent: &Parent| of.has_data(parent.volume) && number.is_none_or(|number| number == parent.number);
        if volume.host() == of.host() || !volume.parents.first().is_some_and(is_it) {
            continue;
        }
        names.push(match map::is_hidden(&volume.name) {
            false => volume.name,
            true => match get::<Trashed>(meta, &map::trash_key(volume.id))? {
                Some((trashed, _)) => format!("{} (deleted, number {})", trashed.name, volume.id),
                None => format!("number {}", volume.id),
            },
        });
    }
    Ok(names)
}

/// How many volumes were cloned from each that has any, by the number by which hosts know that: what it was itself is no clone.
pub(super) fn counts(volumes: &[Volume]) -> BTreeMap<VolumeId, usize> {
    let hosts: BTreeMap<VolumeId, VolumeId> = volumes.iter().map(|volume| (volume.id, volume.host())).collect();
    let mut counts = BTreeMap::new();
    for volume in volumes {
        let Some(parent) = volume.parents.first() else {
            continue;
        };
        let of = hosts.get(&parent.volume).copied().unwrap_or(parent.volume);
        if of != volume.host() {
            *counts.entry(of).or_default() += 1;
        }
    }
    counts
}

/// Was anything cloned from the volume's snapshots?
pub(super) fn has_clones(meta: &dyn Transact, volume: VolumeId) -> Result<bool> {
    let snapshots: Vec<Snapshot> = list(meta, &map::snapshots_prefix(volume))?;
    Ok(snapshots.iter().any(|snapshot| snapshot.clones > 0))
}

/// A clone goes for good, or needs what it was made from no more: that is held by one less, in the same transaction. A snapshot that was
/// deleted meanwhile goes with the last one.
pub(super) fn unpin(meta: &dyn Transact, volume: &Volume) -> Result<Option<(Compare, Op)>> {
    let Some(parent) = volume.parents.first() else {
        return Ok(None);
    };
    let key = map::snapshot_key(parent.volume, parent.number);
    let Some((mut record, revision)) = get::<Snapshot>(meta, &key)? else {
        return Ok(None);
    };
    record.clones = record.clones.saturating_sub(1);
    let then = match record.hidden && record.clones == 0 {
        true => Op::Delete { key: key.clone() },
        false => put(key.clone(), &record),
    };
    Ok(Some((unchanged(&key, revision), then)))
}
