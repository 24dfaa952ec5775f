//! Volumes that were deleted and are kept for a time: they can be had back until then, or go for good before.

use super::deletion::{Fate, leftovers, moved};
use super::quota::{Wanted, charge, snapshots_of};
use super::subsystem::{put, unchanged};
use super::volume::believable;
use super::{AdminError, RACES, Result, check_name, get, list, parse, pools};
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
/// The metadata is away.
pub fn trash(meta: &dyn Transact) -> Result<Vec<TrashStatus>> {
    let mut all = Vec::new();
    let found = meta.txn(&Call::prefix(map::trash_prefix()))?;
    // What nobody can read is left out, and the status tells of it.
    for trashed in found.values(0).iter().filter_map(|found| found.json::<Trashed>().ok()) {
        // It may have gone, or come back, since they were listed.
        let volume = meta.txn(&Call::get(map::volume_key(&map::hidden_name(trashed.volume))))?;
        if let Some(volume) = volume.value(0).and_then(|found| found.json::<Volume>().ok()) {
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

/// What has become of deleted volumes whose time has come.
#[derive(Debug, Default)]
pub struct Purged {
    /// Gone for good.
    pub gone: Vec<Trashed>,
    /// What cannot go, and why; of a record that nobody can read the key.
    pub failed: Vec<(String, AdminError)>,
}

/// Who looks at the recycle bin from time to time.
#[derive(Debug, Default)]
pub struct Bin {
    /// Where the last look has ended: what cannot go keeps no other from its turn.
    behind: Option<(u64, VolumeId)>,
}

/// Volumes that are looked at at one look: what others were cloned from costs a read, and stays.
const LOOKED_AT: usize = 256;

impl Bin {
    /// The deleted volumes whose time has come go for good, `most` of them at once. One that cannot go stops no other.
    ///
    /// # Errors
    /// The metadata is suspected or away.
    pub fn purge_what_is_due(&mut self, meta: &dyn Transact, most: usize, now: Duration) -> Result<Purged> {
        let mut purged = Purged::default();
        let mut due: Vec<Trashed> = Vec::new();
        for found in meta.txn(&Call::prefix(map::trash_prefix()))?.values(0) {
            match parse::<Trashed>(found) {
                Ok(trashed) if trashed.purge_at <= now.as_secs() => due.push(trashed),
                Ok(_) => {}
                Err(why) => purged.failed.push((found.key.clone(), why)),
            }
        }
        if due.is_empty() {
            return Ok(purged);
        }
        believable(meta)?;
        let place = |trashed: &Trashed| (trashed.purge_at, trashed.volume);
        due.sort_by_key(place);
        let next = due.partition_point(|trashed| Some(place(trashed)) <= self.behind);
        due.rotate_left(next);
        for trashed in due.into_iter().take(LOOKED_AT) {
            if purged.gone.len() >= most {
                break;
            }
            self.behind = Some(place(&trashed));
            match purge_unheld(meta, trashed.volume, now) {
                Ok(true) => purged.gone.push(trashed),
                // What others were cloned from goes when these have gone.
                Ok(false) | Err(AdminError::HasClones { .. }) => {}
                Err(why) if !is_of_one(&why) => {
                    // What has gone is told all the same; the next look finds that again.
                    if purged.gone.is_empty() {
                        return Err(why);
                    }
                    break;
                }
                Err(why) => {
                    let what = format!("deleted volume {} (number {})", trashed.name, trashed.volume);
                    purged.failed.push((what, why));
                }
            }
        }
        Ok(purged)
    }
}

/// Is it about one volume alone, or would it meet all of them?
fn is_of_one(why: &AdminError) -> bool {
    use amita_metadata::Error::{Setting, Unavailable, Unknown};
    !matches!(
        why,
        AdminError::Suspected { .. } | AdminError::Metadata(Unavailable { .. } | Unknown { .. } | Setting { .. })
    )
}

/// As [`Bin::purge_what_is_due`], for who looks once.
///
/// # Errors
/// The metadata is suspected or away.
pub fn purge_what_is_due(meta: &dyn Transact, most: usize, now: Duration) -> Result<Purged> {
    Bin::default().purge_what_is_due(meta, most, now)
}

fn purge_unheld(meta: &dyn Transact, volume: VolumeId, now: Duration) -> Result<bool> {
    // Without the names of the clones, which cost more to find.
    Ok(!super::clone::has_clones(meta, volume)? && purge(meta, volume, Some(now))?)
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
