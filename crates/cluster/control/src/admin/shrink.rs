//! Volumes are made smaller: what lies behind the new end is gone before the volume's record says so.
//! `docs/decisions/055-a-volume-shrinks-when-its-end-is-empty.md` tells the steps, and why they come so.

use super::about::change;
use super::copy::none_copies;
use super::lun::not_a_lun;
use super::migrate::none_moves;
use super::mirror::none_closed;
use super::namespace::use_of;
use super::subsystem::{all_subsystems, put, unchanged};
use super::trash::find_pool;
use super::volume::{check_size, find_volume};
use super::{AdminError, Result, cluster, get, tries};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, About, Flatten, Mirror, SNAPSHOTS_SINCE, Shrink, Volume};
use amita_types::{SnapshotId, VolumeId};
use std::cell::RefCell;

fn bad(name: &str, why: String) -> AdminError {
    AdminError::BadSetting {
        what: "volume",
        name: name.to_owned(),
        why,
    }
}

/// May a volume be made so small? Of what others do while it is, [`begin_shrink`] says more.
///
/// # Errors
/// A size that cannot be, or that is none smaller, or more than an earlier one that was cut short was to leave; hosts may use the volume by NVMe or iSCSI;
/// it is being flattened, or an image is copied into it, or it is to be a copy and is none yet; a cluster whose version does not know of it; the metadata is away.
pub fn may_shrink(meta: &dyn Transact, volume: &Volume, size_bytes: u64) -> Result<()> {
    let name = &volume.name;
    check_size(name, size_bytes)?;
    none_copies(meta, volume)?;
    none_moves(meta, volume)?;
    none_closed(volume)?;
    if size_bytes >= volume.size_bytes {
        let has = volume.size_bytes;
        return Err(bad(name, format!("it has {has} bytes, and {size_bytes} are not fewer")));
    }
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        return Err(bad(
            name,
            format!("the cluster's version is {version}, and volumes are made smaller from {SNAPSHOTS_SINCE} on"),
        ));
    }
    let about = get::<About>(meta, &map::about_key(volume.id))?.map(|(about, _)| about);
    if about.as_ref().is_some_and(|about| about.import.is_some()) {
        return Err(bad(
            name,
            "an image is being copied into it, or was not to its end".to_owned(),
        ));
    }
    let before = about.and_then(|about| about.shrink);
    if let Some(before) = before.filter(|before| before.size_bytes < size_bytes) {
        return Err(AdminError::Shrinking {
            volume: name.clone(),
            size_bytes: before.size_bytes,
        });
    }
    not_flattened(meta, volume)?;
    match use_of(&all_subsystems(meta)?, name, volume.id, SnapshotId::HEAD)? {
        Some((subsystem, namespace)) => Err(AdminError::AttachedStill {
            volume: name.clone(),
            subsystem,
            nsid: namespace.nsid,
        }),
        None => not_a_lun(meta, name, volume.id, SnapshotId::HEAD),
    }
}

/// A flattening counts the chunks that the volume had when it began.
fn not_flattened(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    let name = &volume.name;
    match get::<Flatten>(meta, &map::flatten_key(volume.id))? {
        None => Ok(()),
        Some(_) => Err(bad(
            name,
            format!("it is being flattened: wait for that, or take it back (`amita volume flatten {name} --cancel`)"),
        )),
    }
}

/// Says that a volume is being made smaller: from now on it becomes no namespace, and does not grow.
///
/// # Errors
/// As [`may_shrink`]; the volume is gone, or another one has its name; the metadata is away or refuses.
pub fn begin_shrink(meta: &dyn Transact, volume: &Volume, size_bytes: u64) -> Result<Shrink> {
    may_shrink(meta, volume, size_bytes)?;
    let shrink = Shrink {
        size_bytes,
        generation: volume.generation,
    };
    let before = RefCell::new(None);
    change(meta, &volume.name, Some(volume.id), |about| {
        before.replace(about.shrink.clone());
        about.shrink = Some(shrink.clone());
    })?;
    // Who attaches the volume, or has it move, compares this record: they have seen the mark, or what they did is seen here. Nothing is cleared yet.
    let is_alone = find_volume(meta, &volume.name).and_then(|(now, _)| may_shrink(meta, &now, size_bytes));
    if let Err(why) = is_alone {
        change(meta, &volume.name, Some(volume.id), |about| {
            if about.shrink.as_ref() == Some(&shrink) {
                about.shrink = before.borrow().clone();
            }
        })?;
        return Err(why);
    }
    Ok(shrink)
}

/// What lies behind the new end is gone: the volume has its new size, if nobody else has had it since.
///
/// # Errors
/// Another gateway has had it since it was marked, or another one has marked it, or its size is another one by now; it is being flattened, or
/// gone; the metadata is away or refuses.
pub fn end_shrink(meta: &dyn Transact, volume: &Volume, shrink: &Shrink) -> Result<Volume> {
    let (key, about_key) = (map::volume_key(&volume.name), map::about_key(volume.id));
    let flatten_key = map::flatten_key(volume.id);
    for _ in tries(meta) {
        not_flattened(meta, volume)?;
        let (old, revision) = find_volume(meta, &volume.name)?;
        let (about, about_revision) = get::<About>(meta, &about_key)?.unwrap_or_else(|| (About::of(volume.id), 0));
        let is_ours = (old.id, old.generation, old.size_bytes) == (volume.id, shrink.generation, volume.size_bytes);
        if !is_ours || about.shrink.as_ref() != Some(shrink) {
            return Err(bad(
                &volume.name,
                "others have had it meanwhile, and may have written behind the new end: its size is what it was; do it again".to_owned(),
            ));
        }
        let new = Volume {
            size_bytes: shrink.size_bytes,
            ..old
        };
        let about = About { shrink: None, ..about };
        let call = Call {
            compares: vec![
                unchanged(&key, revision),
                unchanged(&about_key, about_revision),
                unchanged(&flatten_key, 0),
            ],
            then: vec![put(about_key.clone(), &about), put(key.clone(), &new)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// The same of a volume that is closed for a mirror, by whoever holds its claim: `volume` is its record since a pass has opened it alone, and what lies behind
/// the new end was cleared since. It needs no mark: hosts are refused, and nobody else makes it larger. A mark of before it was closed goes. None: the claim
/// is lost.
///
/// # Errors
/// A size that cannot be; others have had it since it was opened, or its size is another one by now, or a snapshot of it is being taken; it is not closed
/// for this mirror, or gone; the metadata is away or refuses.
pub fn shrink_mirrored(
    meta: &dyn Transact,
    volume: &Volume,
    size_bytes: u64,
    (mirror, claim): (&Mirror, u64),
) -> Result<Option<Volume>> {
    check_size(&volume.name, size_bytes)?;
    let (key, about_key) = (map::volume_key(&volume.name), map::about_key(volume.id));
    let (flatten_key, runner_key) = (map::flatten_key(volume.id), map::mirror_runner_key(&mirror.name));
    for _ in tries(meta) {
        let (old, revision) = find_volume(meta, &volume.name)?;
        let is_ours = (old.id, old.generation, old.size_bytes) == (volume.id, volume.generation, volume.size_bytes);
        let is_closed = old.closed.as_ref().is_some_and(|closed| closed.mirror == mirror.id);
        if !is_ours || !is_closed || old.lineage.taking || size_bytes > old.size_bytes {
            let why = format!(
                "it is not what it was when a pass of mirror {} has opened it: its size is what it was, and the pass is tried again",
                mirror.name
            );
            return Err(bad(&volume.name, why));
        }
        let new = Volume { size_bytes, ..old };
        let mut call = Call {
            compares: vec![unchanged(&key, revision), unchanged(&runner_key, claim)],
            then: vec![put(key.clone(), &new)],
            otherwise: vec![Op::Get {
                key: runner_key.clone(),
            }],
        };
        without_mark(meta, &about_key, &mut call)?;
        let flatten = get::<Flatten>(meta, &flatten_key)?;
        call.compares.push(unchanged(
            &flatten_key,
            flatten.as_ref().map_or(0, |(_, revision)| *revision),
        ));
        if let Some((flatten, _)) = flatten {
            // What was cleared is the volume's own: there is no more to be made of it.
            let chunk_bytes = u64::from(find_pool(meta, &new.pool)?.chunk_bytes);
            let chunks = flatten.chunks.min(size_bytes.div_ceil(chunk_bytes));
            let done = flatten.done.min(chunks);
            let flatten = Flatten {
                chunks,
                done,
                ..flatten
            };
            call.then.push(put(flatten_key.clone(), &flatten));
        }
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

/// With the call, a shrinking of before has none any more: who was at it does not end it, for the volume was closed since.
pub(super) fn without_mark(meta: &dyn Transact, about_key: &str, call: &mut Call) -> Result<()> {
    let found = get::<About>(meta, about_key)?;
    call.compares.push(unchanged(
        about_key,
        found.as_ref().map_or(0, |(_, revision)| *revision),
    ));
    if let Some((about, _)) = found.filter(|(about, _)| about.shrink.is_some()) {
        call.then
            .push(put(about_key.to_owned(), &About { shrink: None, ..about }));
    }
    Ok(())
}

/// A shrinking that was not at its end has none any more: the volume keeps its size. What was cleared stays so.
///
/// # Errors
/// The volume is gone; the metadata is away or refuses.
pub fn give_up_shrink(meta: &dyn Transact, name: &str) -> Result<Volume> {
    let (volume, _) = find_volume(meta, name)?;
    change(meta, name, Some(volume.id), |about| about.shrink = None)?;
    Ok(volume)
}

/// What whoever needs a volume that is not being made smaller compares. Fails where it is.
pub(super) fn none_shrinks(meta: &dyn Transact, name: &str, volume: VolumeId) -> Result<Compare> {
    let key = map::about_key(volume);
    let found = get::<About>(meta, &key)?;
    let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
    match found.and_then(|(about, _)| about.shrink) {
        None => Ok(unchanged(&key, revision)),
        Some(shrink) => Err(AdminError::Shrinking {
            volume: name.to_owned(),
            size_bytes: shrink.size_bytes,
        }),
    }
}
