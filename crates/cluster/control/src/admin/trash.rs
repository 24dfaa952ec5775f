//! Volumes that were deleted and are kept for a time: they can be had back until then, or go for good before.

use super::deletion::{Fate, leftovers, moved};
use super::quota::{Wanted, charge, snapshots_of};
use super::subsystem::{put, unchanged};
use super::volume::believable;
use super::{AdminError, RACES, Result, check_name, get, list, pools};
use amita_metadata::{Call, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Pool, Recycling, Trashed, Volume};
use serde::Serialize;
use std::time::Duration;

/// A deleted volume that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrashStatus {
    /// What it was called, when it was deleted, and when it goes for good.
    #[serde(flatten)]
    pub trashed: Trashed,
    /// Its pool.
    pub pool: String,
    /// Its size, in bytes.
    pub size_bytes: u64,
}

/// The deleted volumes that are kept, the longest deleted first.
///
/// # Errors
/// As [`super::nodes`].
pub fn trash(meta: &dyn Transact) -> Result<Vec<TrashStatus>> {
    let mut all = Vec::new();
    for trashed in list::<Trashed>(meta, &map::trash_prefix())? {
        // It may have gone, or come back, since they were listed.
        if let Some((volume, _)) = get::<Volume>(meta, &map::volume_key(&map::hidden_name(trashed.volume)))? {
            let (pool, size_bytes) = (volume.pool, volume.size_bytes);
            all.push(TrashStatus {
                trashed,
                pool,
                size_bytes,
            });
        }
    }
    all.sort_by_key(|found| (found.trashed.deleted_at, found.trashed.volume));
    Ok(all)
}

/// For how long deleted volumes of a pool are kept.
///
/// # Errors
/// No such pool; the metadata is away.
pub fn recycle_time(meta: &dyn Transact, pool: &str) -> Result<Duration> {
    let pool = find_pool(meta, pool)?;
    let found = get::<Recycling>(meta, &map::recycling_key(pool.id))?;
    let seconds = found.map_or(map::DEFAULT_RECYCLE_SECONDS, |(found, _)| found.seconds);
    Ok(Duration::from_secs(seconds))
}

/// Says for how long deleted volumes of a pool are kept, from now on; those that are deleted stay for as long as was said then.
///
/// # Errors
/// No such pool, or longer than ten years; the metadata is away or refuses.
pub fn set_recycle_time(meta: &dyn Transact, pool: &str, time: Duration) -> Result<()> {
    check_time("pool", pool, time)?;
    let pool = find_pool(meta, pool)?;
    let seconds = time.as_secs();
    let call = Call {
        then: vec![put(map::recycling_key(pool.id), &Recycling { pool: pool.id, seconds })],
        ..Call::default()
    };
    meta.txn(&call)?;
    Ok(())
}

/// May something be kept for so long?
///
/// # Errors
/// It is too long.
pub(super) fn check_time(what: &'static str, name: &str, time: Duration) -> Result<()> {
    if time.as_secs() <= map::MAX_RECYCLE_SECONDS {
        return Ok(());
    }
    Err(AdminError::BadSetting {
        what,
        name: name.to_owned(),
        why: format!(
            "a recycle time of {} days; {} are the most",
            time.as_secs() / 86_400,
            map::MAX_RECYCLE_SECONDS / 86_400
        ),
    })
}

pub(super) fn find_pool(meta: &dyn Transact, name: &str) -> Result<Pool> {
    match get::<Pool>(meta, &map::pool_key(name))? {
        Some((pool, _)) => Ok(pool),
        None => Err(AdminError::NoSuch {
            what: "pool",
            name: name.to_owned(),
            there: pools(meta)?.into_iter().map(|pool| pool.name).collect(),
        }),
    }
}

/// A deleted volume by what it was called, or by its number; `.NUMBER` is the number, whatever others were called.
fn find(meta: &dyn Transact, which: &str) -> Result<Trashed> {
    let number: Option<VolumeId> = which
        .strip_prefix('.')
        .and_then(|number| number.parse().ok().map(VolumeId));
    // The others need not be readable.
    if let Some(number) = number
        && let Some((trashed, _)) = get::<Trashed>(meta, &map::trash_key(number))?
    {
        return Ok(trashed);
    }
    let mut all = list::<Trashed>(meta, &map::trash_prefix())?;
    let is_it = |trashed: &Trashed| trashed.name == which || trashed.volume.to_string() == which;
    if !all.iter().any(is_it) {
        return Err(AdminError::NoSuch {
            what: "deleted volume",
            name: which.to_owned(),
            there: all.into_iter().map(|trashed| trashed.name).collect(),
        });
    }
    all.retain(is_it);
    match all.as_slice() {
        [one] => Ok(one.clone()),
        several => Err(AdminError::Ambiguous {
            name: which.to_owned(),
            volumes: several
                .iter()
                .map(|trashed| format!(".{} (called {})", trashed.volume, trashed.name))
                .collect(),
        }),
    }
}

/// A deleted volume is there again, under the name that it had or another. It is not served by anything.
///
/// # Errors
/// There is none of that name or number, or several; the name cannot be, or is taken; the metadata is suspected, away or refuses.
pub fn undelete_volume(meta: &dyn Transact, which: &str, new_name: Option<&str>) -> Result<Volume> {
    for _ in 0..RACES {
        believable(meta)?;
        let trashed = find(meta, which)?;
        let name = new_name.unwrap_or(&trashed.name);
        check_name("volume", name)?;
        let (hidden, key) = (map::hidden_name(trashed.volume), map::volume_key(name));
        if get::<Volume>(meta, &key)?.is_some() {
            return Err(AdminError::Exists {
                what: "volume",
                name: name.to_owned(),
            });
        }
        let Some((volume, revision)) = get::<Volume>(meta, &map::volume_key(&hidden))? else {
            continue;
        };
        let mut then = vec![Op::Delete {
            key: map::trash_key(volume.id),
        }];
        then.extend(moved(meta, &volume, name)?);
        let mut call = Call {
            compares: vec![unchanged(&map::volume_key(&hidden), revision), unchanged(&key, 0)],
            then,
            otherwise: Vec::new(),
        };
        // It counts again, with its snapshots.
        let wanted = Wanted::volume(volume.size_bytes, snapshots_of(meta, &volume)?);
        charge(meta, &volume.pool, wanted)?.into_call(&mut call);
        if meta.txn(&call)?.succeeded {
            return Ok(Volume {
                name: name.to_owned(),
                ..volume
            });
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::trash_prefix(),
    })
}

/// A deleted volume goes for good, with its snapshots.
///
/// # Errors
/// There is none of that name or number, or several; the metadata is suspected, away or refuses.
pub fn purge_volume(meta: &dyn Transact, which: &str) -> Result<Trashed> {
    for _ in 0..RACES {
        let trashed = find(meta, which)?;
        if purge(meta, trashed.volume, None)? {
            return Ok(trashed);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::trash_prefix(),
    })
}

/// The deleted volumes whose time has come go for good, `most` of them at once. Returns them.
///
/// # Errors
/// The metadata is suspected, away or refuses.
pub fn purge_what_is_due(meta: &dyn Transact, most: usize, now: Duration) -> Result<Vec<Trashed>> {
    let is_due = |trashed: &Trashed| trashed.purge_at <= now.as_secs();
    let mut gone = list::<Trashed>(meta, &map::trash_prefix())?;
    gone.retain(is_due);
    // What others were cloned from goes when these have gone.
    let mut held = Vec::new();
    for trashed in &gone {
        if super::clone::has_clones(meta, trashed.volume)? {
            held.push(trashed.volume);
        }
    }
    gone.retain(|trashed| !held.contains(&trashed.volume));
    gone.sort_by_key(|trashed| (trashed.purge_at, trashed.volume));
    gone.truncate(most);
    let mut purged = Vec::new();
    for trashed in gone {
        if purge(meta, trashed.volume, Some(now))? {
            purged.push(trashed);
        }
    }
    Ok(purged)
}

/// `false`: it is not there (any longer), or something has changed meanwhile; or its time has not come.
fn purge(meta: &dyn Transact, volume: VolumeId, due: Option<Duration>) -> Result<bool> {
    believable(meta)?;
    let (key, trash_key) = (map::volume_key(&map::hidden_name(volume)), map::trash_key(volume));
    let Some((trashed, trash_revision)) = get::<Trashed>(meta, &trash_key)? else {
        return Ok(false);
    };
    if due.is_some_and(|now| trashed.purge_at > now.as_secs()) {
        return Ok(false);
    }
    let Some((found, revision)) = get::<Volume>(meta, &key)? else {
        return Ok(false);
    };
    // Nothing is cloned from what is deleted.
    super::clone::check_volume(meta, &found, &trashed.name)?;
    let mut compares = vec![unchanged(&key, revision), unchanged(&trash_key, trash_revision)];
    let mut then = leftovers(meta, &Fate::Purge { snapshots: true }, &found)?;
    then.push(Op::Delete { key: key.clone() });
    if let Some((held, less)) = super::clone::unpin(meta, &found)? {
        compares.push(held);
        then.push(less);
    }
    let call = Call {
        compares,
        then,
        otherwise: Vec::new(),
    };
    Ok(meta.txn(&call)?.succeeded)
}
