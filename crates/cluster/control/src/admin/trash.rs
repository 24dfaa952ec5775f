//! Volumes that were deleted and are kept for a time: they can be had back until then, or go for good before.

use super::deletion::{Fate, end_of_former, leftovers, moved};
use super::quota::{Wanted, charge, snapshots_of};
use super::subsystem::{put, unchanged, uses_guard};
use super::volume::believable;
use super::{AdminError, Result, check_name, get, names_under, parse, put_if, tries};
use crate::policy::runner::Clock;
use amita_metadata::{Call, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Pool, Recycling, Trashed, Volume};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
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
    /// So many volumes were cloned from it and are there: it stays until the last of them is gone.
    pub clones: usize,
}

/// The deleted volumes that are kept, the longest deleted first.
///
/// # Errors
/// The metadata is away.
pub fn trash(meta: &dyn Transact) -> Result<Vec<TrashStatus>> {
    let call = Call {
        then: vec![
            Op::Prefix {
                key: map::trash_prefix(),
            },
            Op::Prefix {
                key: map::volume_key("."),
            },
        ],
        ..Call::default()
    };
    let reply = meta.txn(&call)?;
    let clones = match reply.values(0) {
        [] => BTreeMap::new(),
        // One that nobody can read is told of elsewhere.
        _ => {
            let all = meta.txn(&Call::prefix(map::volume_key("")))?;
            let all = all.values(0).iter().filter_map(|found| found.json::<Volume>().ok());
            super::clone::counts(&all.collect::<Vec<_>>())
        }
    };
    let volumes = reply.values(1).iter().filter_map(|found| found.json::<Volume>().ok());
    let mut volumes: BTreeMap<VolumeId, Volume> = volumes.map(|volume| (volume.id, volume)).collect();
    // What nobody can read is left out, and the status tells of it.
    let found = reply.values(0).iter().filter_map(|found| found.json::<Trashed>().ok());
    let mut all: Vec<TrashStatus> = found
        .filter_map(|trashed| {
            let volume = volumes.remove(&trashed.volume)?;
            let host = volume.host();
            let Volume { pool, size_bytes, .. } = volume;
            Some(TrashStatus {
                clones: clones.get(&host).copied().unwrap_or_default(),
                trashed,
                pool,
                size_bytes,
            })
        })
        .collect();
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
            there: names_under(meta, &map::pool_key(""))?,
        }),
    }
}

/// A deleted volume by what it was called, or by its number; `.NUMBER` is the number, whatever others were called. `back`: it is to be
/// had back, which former data is not.
fn find(meta: &dyn Transact, which: &str, back: bool) -> Result<Trashed> {
    let number: Option<VolumeId> = which
        .strip_prefix('.')
        .and_then(|number| number.parse().ok().map(VolumeId));
    // The others need not be readable.
    if let Some(number) = number
        && let Some((trashed, _)) = get::<Trashed>(meta, &map::trash_key(number))?
    {
        return match back && trashed.former {
            false => Ok(trashed),
            true => Err(AdminError::BadSetting {
                what: "deleted volume",
                name: which.to_owned(),
                why: format!(
                    "it is what volume {} was before it was reverted, and that one is gone for good; what was cloned from it has its data",
                    trashed.name
                ),
            }),
        };
    }
    // One that cannot be read keeps nobody from having another one back.
    let reply = meta.txn(&Call::prefix(map::trash_prefix()))?;
    let all = reply.values(0).iter().filter_map(|found| found.json::<Trashed>().ok());
    let mut all: Vec<Trashed> = all.filter(|trashed| !(back && trashed.former)).collect();
    let is_it = |trashed: &Trashed| trashed.name == which || trashed.volume.to_string() == which;
    if !all.iter().any(is_it) {
        return Err(AdminError::NoSuch {
            what: "deleted volume",
            name: which.to_owned(),
            there: all.into_iter().map(|trashed| trashed.name).collect(),
        });
    }
    all.retain(is_it);
    // What a volume of that name was before a revert nobody means by it, where there is another one.
    if all.iter().any(|trashed| !trashed.former) {
        all.retain(|trashed| !trashed.former);
    }
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

/// Nobody is to close it any more: who was asked to, and was away, would do so under its clients when it comes back.
pub(super) fn no_closing(volume: VolumeId) -> Op {
    Op::Delete {
        key: map::closing_key(volume),
    }
}

/// A deleted volume is there again, under the name that it had or another. It is not served by anything.
///
/// # Errors
/// There is none of that name or number, or several; the name cannot be, or is taken; it is being deleted with its mirror, which is there still; the metadata is
/// suspected, away or refuses.
pub fn undelete_volume(meta: &dyn Transact, which: &str, new_name: Option<&str>) -> Result<Volume> {
    for _ in tries(meta) {
        believable(meta)?;
        let trashed = find(meta, which, true)?;
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
        let from_bin = Op::Delete {
            key: map::trash_key(volume.id),
        };
        let mut call = Call {
            compares: vec![unchanged(&map::volume_key(&hidden), revision), unchanged(&key, 0)],
            then: vec![from_bin, no_closing(volume.id)],
            otherwise: Vec::new(),
        };
        let volume = opened(meta, &mut call, volume, name)?;
        call.then.extend(moved(meta, &volume, name)?);
        // It counts again, with its snapshots.
        let wanted = Wanted::volume(volume.size_bytes, snapshots_of(meta, &volume)?.asked);
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

/// What was hidden with its mirror, for others were cloned from it, is closed still, and nobody else would ever open it: it is an ordinary volume when the
/// mirror is gone. `name`: as it is to be called.
fn opened(meta: &dyn Transact, call: &mut Call, volume: Volume, name: &str) -> Result<Volume> {
    if volume.closed.is_none() {
        return Ok(volume);
    }
    // No mirror has this number once more.
    if super::mirror::mirror_of(meta, volume.host())?.is_some() {
        super::mirror::none_closed(&Volume {
            name: name.to_owned(),
            ..volume.clone()
        })?;
    }
    super::mirror::opened_again(meta, call, &volume)
}

/// What has become of a deleted volume that was to go for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]

pub struct PurgedVolume {
    /// The volume.
    pub trashed: Trashed,
    /// The volumes that were cloned from it; none: it is gone. Else it goes as soon as they have.
    pub held_by: Vec<String>,
}

/// A deleted volume goes for good, with its snapshots; one that others were cloned from does when the last of them is gone. `now` is in
/// seconds since 1970.
///
/// # Errors
/// There is none of that name or number, or several; the metadata is suspected, away or refuses.
pub fn purge_volume(meta: &dyn Transact, which: &str, now: u64) -> Result<PurgedVolume> {
    for _ in tries(meta) {
        let trashed = find(meta, which, false)?;
        let is_held = super::clone::has_clones(meta, trashed.volume)?;
        let found = get::<Volume>(meta, &map::volume_key(&map::hidden_name(trashed.volume)))?;
        let held_by = match found.filter(|_| is_held) {
            Some((volume, _)) => super::clone::clones(meta, &volume, None)?,
            None => Vec::new(),
        };
        let done = match is_held {
            false => purge(meta, trashed.volume, By::Operator(now))?,
            true => make_due(meta, &trashed)?,
        };
        if done {
            return Ok(PurgedVolume { trashed, held_by });
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::trash_prefix(),
    })
}

/// Its time has come: nothing but its clones holds it any more. `false`: something has changed meanwhile.
fn make_due(meta: &dyn Transact, trashed: &Trashed) -> Result<bool> {
    believable(meta)?;
    let key = map::trash_key(trashed.volume);
    let Some((found, revision)) = get::<Trashed>(meta, &key)? else {
        return Ok(false);
    };
    let due = Trashed {
        purge_at: found.purge_at.min(found.deleted_at),
        ..found
    };
    put_if(meta, &key, revision, &due)
}

/// What has become of deleted volumes whose time has come.
#[derive(Debug, Default)]
pub struct Purged {
    /// Gone for good.
    pub gone: Vec<Trashed>,
    /// What cannot go, and why; of a record that nobody can read the key.
    pub failed: Vec<(String, AdminError)>,
    /// What somebody should know before they go: clocks that do not agree.
    pub warnings: Vec<String>,
}

/// Who looks at the recycle bin from time to time.
///
/// Clocks may be wrong, and what has gone does not come back. Who looks all the time sees a volume become due; one that is overdue by more
/// than [`OVERDUE`] when it is first seen so means that nobody has looked for a while, or that the clock has jumped, or was wrong all the
/// time. It stays for [`WAITS`] from then, and that is told. And where one is deleted while somebody looks, by a machine whose clock is off
/// by more than [`SKEW`], it is kept for as long as was said then, by the clock of who looks.
#[derive(Debug, Default)]
pub struct Bin {
    /// Where the last look has ended: what cannot go keeps no other from its turn.
    behind: Option<(u64, VolumeId)>,
    /// What is due, and since when that was seen; by the steady clock.
    due: BTreeMap<(VolumeId, u64), Seen>,
    /// What was there at the last look; none: there was none.
    known: Option<BTreeSet<(VolumeId, u64)>>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    since: Duration,
    is_late: bool,
}

/// Volumes that are looked at at one look: what others were cloned from costs a read, and stays.
const LOOKED_AT: usize = 256;
/// What becomes due while somebody looks is seen within seconds.
pub const OVERDUE: Duration = Duration::from_secs(600);
/// For so long one stays that is overdue when it is first seen.
pub const WAITS: Duration = Duration::from_secs(3600);
/// Clocks that differ by less are not said to.
pub const SKEW: Duration = Duration::from_secs(3600);

impl Bin {
    /// The deleted volumes whose time has come go for good, `most` of them at once. One that cannot go stops no other.
    ///
    /// # Errors
    /// The metadata is suspected or away.
    pub fn purge_what_is_due(&mut self, meta: &dyn Transact, most: usize, clock: Clock) -> Result<Purged> {
        let mut purged = Purged::default();
        let mut all: Vec<(Trashed, u64)> = Vec::new();
        for found in meta.txn(&Call::prefix(map::trash_prefix()))?.values(0) {
            match parse::<Trashed>(found) {
                Ok(trashed) => all.push((trashed, found.mod_revision)),
                Err(why) => purged.failed.push((found.key.clone(), why)),
            }
        }
        self.set_right(meta, &mut all, most, clock, &mut purged.warnings)?;
        let due = self.due(meta, &all, clock, &mut purged.warnings)?;
        purge_some(meta, due, &mut self.behind, most, clock.wall, &mut purged)?;
        Ok(purged)
    }

    /// Those that were deleted since the last look stay for as long as was said, whatever the clock says of who deleted them.
    fn set_right(
        &mut self,
        meta: &dyn Transact,
        all: &mut Vec<(Trashed, u64)>,
        most: usize,
        clock: Clock,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let now = clock.wall.as_secs();
        let mut left = most;
        let mut wait = BTreeSet::new();
        if let Some(known) = &self.known {
            for (trashed, revision) in all.iter_mut() {
                let off = now.abs_diff(trashed.deleted_at);
                if known.contains(&(trashed.volume, *revision)) || off <= SKEW.as_secs() {
                    continue;
                }
                let keep = trashed.purge_at.saturating_sub(trashed.deleted_at);
                let next = Trashed {
                    deleted_at: now,
                    purge_at: now.saturating_add(keep),
                    ..trashed.clone()
                };
                let key = map::trash_key(trashed.volume);
                let call = Call {
                    compares: vec![unchanged(&key, *revision)],
                    then: vec![put(key, &next)],
                    otherwise: Vec::new(),
                };
                let reply = match left {
                    0 => None,
                    _ => Some(meta.txn(&call)?).filter(|reply| reply.succeeded),
                };
                // Another look sees to it, or it is there again.
                let Some(reply) = reply else {
                    wait.insert(trashed.volume);
                    continue;
                };
                left -= 1;
                warnings.push(format!(
                    "volume {} (number {}) was deleted from a machine whose clock is {off} s {} this one's: it stays for {keep} s from \
                     now, as was said",
                    trashed.name,
                    trashed.volume,
                    if trashed.deleted_at < now { "behind" } else { "ahead of" },
                ));
                (*trashed, *revision) = (next, reply.revision);
            }
        }
        all.retain(|(trashed, _)| !wait.contains(&trashed.volume));
        self.known = Some(
            all.iter()
                .map(|(trashed, revision)| (trashed.volume, *revision))
                .collect(),
        );
        Ok(())
    }

    /// Those that may go now.
    fn due(
        &mut self,
        meta: &dyn Transact,
        all: &[(Trashed, u64)],
        clock: Clock,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Trashed>> {
        let now = clock.wall.as_secs();
        let mut before = std::mem::take(&mut self.due);
        let mut late = Vec::new();
        let mut due = Vec::new();
        for (trashed, revision) in all.iter().filter(|(trashed, _)| trashed.purge_at <= now) {
            let place = (trashed.volume, *revision);
            let seen = before.remove(&place).unwrap_or_else(|| {
                let is_late = now - trashed.purge_at > OVERDUE.as_secs();
                late.extend(is_late.then_some(trashed));
                Seen {
                    since: clock.steady,
                    is_late,
                }
            });
            self.due.insert(place, seen);
            if !seen.is_late || clock.steady.saturating_sub(seen.since) >= WAITS {
                due.push(trashed.clone());
            }
        }
        // Those that others were cloned from wait for these anyway.
        let mut first = None;
        for trashed in late.iter().take(LOOKED_AT) {
            if first.is_none() && !super::clone::has_clones(meta, trashed.volume).unwrap_or(true) {
                first = Some(*trashed);
            }
        }
        if let Some(first) = first {
            let minutes = OVERDUE.as_secs() / 60;
            warnings.push(format!(
                "{} deleted volumes were to go more than {minutes} minutes ago by this node's clock, {} (number {}) among them: nobody \
                 has looked since, or the clock is wrong ({now} s since 1970). They go in an hour; until then have back what is to stay \
                 (`amita volume undelete`), or set the clock right",
                late.len(),
                first.name,
                first.volume
            ));
        }
        Ok(due)
    }
}

/// Some of what is due goes, from behind where the last look has ended.
fn purge_some(
    meta: &dyn Transact,
    mut due: Vec<Trashed>,
    behind: &mut Option<(u64, VolumeId)>,
    most: usize,
    now: Duration,
    purged: &mut Purged,
) -> Result<()> {
    if due.is_empty() {
        return Ok(());
    }
    believable(meta)?;
    let place = |trashed: &Trashed| (trashed.purge_at, trashed.volume);
    due.sort_by_key(place);
    let next = due.partition_point(|trashed| Some(place(trashed)) <= *behind);
    due.rotate_left(next);
    for trashed in due.into_iter().take(LOOKED_AT) {
        if purged.gone.len() >= most {
            break;
        }
        *behind = Some(place(&trashed));
        match purge_unheld(meta, trashed.volume, now) {
            Ok(true) => purged.gone.push(trashed),
            // What others were cloned from goes when these have gone.
            Ok(false) => {}
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
    Ok(())
}

/// Is it about one volume alone, or would it meet all of them?
fn is_of_one(why: &AdminError) -> bool {
    use amita_metadata::Error::{Setting, Unavailable, Unknown};
    !matches!(
        why,
        AdminError::Suspected { .. } | AdminError::Metadata(Unavailable { .. } | Unknown { .. } | Setting { .. })
    )
}

/// As [`Bin::purge_what_is_due`], for who looks once, and by a clock that is right.
///
/// # Errors
/// The metadata is suspected or away.
pub fn purge_what_is_due(meta: &dyn Transact, most: usize, now: Duration) -> Result<Purged> {
    let mut purged = Purged::default();
    let mut due: Vec<Trashed> = Vec::new();
    for found in meta.txn(&Call::prefix(map::trash_prefix()))?.values(0) {
        match parse::<Trashed>(found) {
            Ok(trashed) if trashed.purge_at <= now.as_secs() => due.push(trashed),
            Ok(_) => {}
            Err(why) => purged.failed.push((found.key.clone(), why)),
        }
    }
    purge_some(meta, due, &mut None, most, now, &mut purged)?;
    Ok(purged)
}

fn purge_unheld(meta: &dyn Transact, volume: VolumeId, now: Duration) -> Result<bool> {
    // What is held costs one read.
    Ok(!super::clone::has_clones(meta, volume)? && purge(meta, volume, By::Time(now.as_secs()))?)
}

/// Who has a deleted volume go for good, and when, in seconds since 1970.
#[derive(Clone, Copy)]
enum By {
    /// Somebody who does not wait for its time.
    Operator(u64),
    /// Its time has come.
    Time(u64),
}

/// `false`: it is not there (any longer), or something has changed meanwhile; or its time has not come.
fn purge(meta: &dyn Transact, volume: VolumeId, by: By) -> Result<bool> {
    believable(meta)?;
    let (key, trash_key) = (map::volume_key(&map::hidden_name(volume)), map::trash_key(volume));
    let Some((trashed, trash_revision)) = get::<Trashed>(meta, &trash_key)? else {
        return Ok(false);
    };
    let now = match by {
        By::Time(now) if trashed.purge_at > now => return Ok(false),
        By::Time(now) | By::Operator(now) => now,
    };
    // Before all volumes are looked at.
    let (guard, guard_revision) = uses_guard(meta)?;
    let Some((found, revision)) = get::<Volume>(meta, &key)? else {
        return Ok(false);
    };
    // Nothing is cloned from what is deleted.
    if super::clone::has_clones(meta, volume)? {
        return Ok(false);
    }
    let mut compares = vec![unchanged(&key, revision), unchanged(&trash_key, trash_revision)];
    let mut then = leftovers(
        meta,
        &Fate::Purge {
            snapshots: true,
            now: 0,
        },
        &found,
    )?;
    then.push(Op::Delete { key: key.clone() });
    then.push(no_closing(volume));
    if let Some((held, less)) = super::clone::unpin(meta, &found)? {
        compares.push(held);
        then.push(less);
    }
    then.extend(end_of_former(&found, &trashed.name, now));
    if found.keys.is_some() {
        // Of two that go at once, and are the last who can read by a key, the second is to know that.
        let guard_key = map::counter_key("namespaces");
        compares.push(unchanged(&guard_key, guard_revision));
        then.push(put(guard_key, &(guard + 1)));
    }
    let call = Call {
        compares,
        then,
        otherwise: Vec::new(),
    };
    Ok(meta.txn(&call)?.succeeded)
}
