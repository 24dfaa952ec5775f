//! How much of a pool may be asked for.
//!
//! What is asked for is counted from the volumes' records when it is asked for, and only where the quota limits it; nothing is kept beside
//! them that could go wrong. Two who ask at once have counted the same: so each writes the quota's record in the transaction of its
//! change, and compares that nobody has since it was read. Where a pool has no quota, that there is none is compared.

use super::subsystem::{put, unchanged};
use super::trash::find_pool;
use super::{AdminError, Result, cluster, get, put_if, tries};
use amita_metadata::{Call, Compare, KeyValue, Op, Transact};
use amita_types::map::{self, Lineage, Pool, Quota, SetState, Snapshot, SnapshotSet, SnapshotWish, Volume};
use amita_types::{PoolId, VolumeId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Volumes whose snapshots are read by one call: with as many as each may have, its answer is smaller than the largest that there may be.
const COUNTED_AT_ONCE: usize = 32;

/// What is asked for in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The sum of the volumes' sizes.
    pub provisioned_bytes: u64,
    pub volumes: u64,
    /// Of all of them; those that are wished for count.
    pub snapshots: u64,
}

/// What a change asks for; and who has to do without some, where it is too much.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub provisioned_bytes: u64,
    pub volumes: u64,
    pub snapshots: u64,
}

impl Wanted {
    /// A volume more.
    pub(super) fn volume(size_bytes: u64, snapshots: u64) -> Wanted {
        Wanted {
            provisioned_bytes: size_bytes,
            volumes: 1,
            snapshots,
        }
    }
}

/// What a change that asks for some compares besides, and what it writes.
#[derive(Debug, Default)]
pub(super) struct Charge {
    compare: Option<Compare>,
    then: Option<Op>,
    /// The pool, and how many snapshots it has when the change is made: for a [`Tally`].
    pub(super) counted: Option<(PoolId, u64)>,
}

/// For how long a pool without room is not counted anew.
const BELIEVED: Duration = Duration::from_secs(10);

/// How many snapshots pools have at most, for who takes one after the other. Whatever asks for more writes the pool's quota: as long as nobody else
/// has, there are no more than were counted then, and those that were asked for since.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pools: BTreeMap<PoolId, AtMost>,
    now: Duration,
}

#[derive(Debug)]
struct AtMost {
    /// Of the quota's record.
    revision: u64,
    snapshots: u64,
    /// When all were counted; none: some have gone since.
    counted_at: Option<Duration>,
}

impl Tally {
    /// It is so late, by a clock that does not jump.
    pub(crate) fn at(&mut self, now: Duration) {
        self.now = now;
    }

    /// Some have gone: where there was no room, there may be.
    pub(crate) fn less(&mut self) {
        self.pools.values_mut().for_each(|pool| pool.counted_at = None);
    }

    /// A change was made, by a transaction of this revision.
    pub(super) fn done(&mut self, counted: Option<(PoolId, u64)>, revision: u64) {
        let Some((pool, snapshots)) = counted else { return };
        if let Some(known) = self.pools.get_mut(&pool) {
            (known.revision, known.snapshots) = (revision, snapshots);
        }
    }

    /// The snapshots of a pool, if there is room for more of them, or there was none a moment ago.
    fn snapshots(&self, pool: PoolId, revision: u64, limit: u64, more: u64) -> Option<u64> {
        let known = self.pools.get(&pool).filter(|known| known.revision == revision)?;
        let has_room = known.snapshots.saturating_add(more) <= limit;
        let is_fresh = known
            .counted_at
            .is_some_and(|at| self.now.saturating_sub(at) < BELIEVED);
        (has_room || is_fresh).then_some(known.snapshots)
    }

    fn counted(&mut self, pool: PoolId, revision: u64, snapshots: u64) {
        let counted_at = Some(self.now);
        let known = AtMost {
            revision,
            snapshots,
            counted_at,
        };
        self.pools.insert(pool, known);
    }
}

impl Charge {
    /// Puts it into the transaction of the change.
    pub(super) fn into_call(self, call: &mut Call) {
        call.compares.extend(self.compare);
        // The change itself may have to be written last.
        call.then.splice(0..0, self.then);
    }
}

/// May a change ask for so much of this pool?
///
/// # Errors
/// It is more than the pool's quota has left; the metadata is away.
pub(super) fn charge(meta: &dyn Transact, pool: &str, wanted: Wanted) -> Result<Charge> {
    charge_by(meta, pool, wanted, &mut Tally::default())
}

/// The same for who asks again and again, for snapshots alone.
pub(super) fn charge_by(meta: &dyn Transact, pool: &str, wanted: Wanted, tally: &mut Tally) -> Result<Charge> {
    let Some((pool, _)) = get::<Pool>(meta, &map::pool_key(pool))? else {
        // What a volume in a pool that is gone asks for, nobody counts.
        return Ok(Charge::default());
    };
    let key = map::quota_key(pool.id);
    let Some((quota, revision)) = get::<Quota>(meta, &key)? else {
        return Ok(Charge {
            compare: Some(unchanged(&key, 0)),
            ..Charge::default()
        });
    };
    let compare = Some(unchanged(&key, revision));
    let asks_for = |limit: Option<u64>, more: u64| limit.is_some() && more > 0;
    let counts_snapshots = asks_for(quota.snapshots, wanted.snapshots);
    if !counts_snapshots
        && !asks_for(quota.provisioned_bytes, wanted.provisioned_bytes)
        && !asks_for(quota.volumes, wanted.volumes)
    {
        // None of what is limited: nothing need be counted, and what others have counted stays right.
        return Ok(Charge {
            compare,
            ..Charge::default()
        });
    }
    let only_snapshots = counts_snapshots && wanted.volumes == 0 && wanted.provisioned_bytes == 0;
    let known = quota.snapshots.filter(|_| only_snapshots);
    let known = known.and_then(|limit| tally.snapshots(pool.id, revision, limit, wanted.snapshots));
    let asked = match known {
        Some(snapshots) => Asked {
            snapshots,
            ..Asked::default()
        },
        None => asked_of(meta, &pool, counts_snapshots)?,
    };
    if known.is_none() && only_snapshots {
        tally.counted(pool.id, revision, asked.snapshots);
    }
    let limits = [
        (
            "provisioned size",
            "--provisioned",
            "bytes",
            quota.provisioned_bytes,
            asked.provisioned_bytes,
            wanted.provisioned_bytes,
        ),
        (
            "volumes",
            "--volumes",
            "volumes",
            quota.volumes,
            asked.volumes,
            wanted.volumes,
        ),
        (
            "snapshots",
            "--snapshots",
            "snapshots",
            quota.snapshots,
            asked.snapshots,
            wanted.snapshots,
        ),
    ];
    for (what, flag, unit, limit, used, more) in limits {
        // Who asks for none of it is not refused for what others have.
        if let Some(limit) = limit.filter(|limit| more > 0 && used.saturating_add(more) > *limit) {
            return Err(AdminError::OverQuota {
                pool: pool.name,
                what,
                flag,
                unit,
                limit,
                used,
                more,
            });
        }
    }
    let next = Quota {
        changes: quota.changes.wrapping_add(1),
        ..quota
    };
    let counted = counts_snapshots.then(|| (pool.id, asked.snapshots.saturating_add(wanted.snapshots)));
    Ok(Charge {
        compare,
        then: Some(put(key, &next)),
        counted,
    })
}

/// What is asked for in a pool. Deleted volumes that are kept do not count, nor do deleted snapshots that clones hold. A volume that is written anew in
/// the pool counts once.
///
/// # Errors
/// No such pool; the metadata is away.
pub fn asked(meta: &dyn Transact, pool: &str) -> Result<Asked> {
    asked_of(meta, &find_pool(meta, pool)?, true)
}

fn asked_of(meta: &dyn Transact, pool: &Pool, with_snapshots: bool) -> Result<Asked> {
    let reply = meta.txn(&Call::prefix(map::volume_key("")))?;
    let mut asked = Asked::default();
    let mut own = BTreeMap::new();
    // One that nobody can read is of no pool that anybody knows, and no reason to refuse all others; `amita status` tells of it.
    let volumes = reply.values(0).iter().filter_map(|found| found.json::<Volume>().ok());
    let volumes: Vec<Volume> = volumes
        .filter(|volume| volume.pool == pool.name && !map::is_hidden(&volume.name))
        .collect();
    let seconds: BTreeSet<VolumeId> = volumes.iter().filter_map(|volume| volume.lineage.moving).collect();
    for volume in volumes.iter().filter(|volume| !seconds.contains(&volume.id)) {
        asked.provisioned_bytes = asked.provisioned_bytes.saturating_add(volume.size_bytes);
        asked.volumes += 1;
        own.extend(lineages(volume));
    }
    if with_snapshots {
        asked.snapshots = count_snapshots(meta, &own)?.asked;
    }
    Ok(asked)
}

/// All that a volume is and was, with what is being taken of it: of what it was nothing is any more.
fn lineages(volume: &Volume) -> impl Iterator<Item = (VolumeId, Lineage)> {
    let none = Lineage {
        number: volume.lineage.number,
        ..Lineage::default()
    };
    let former = volume.former.iter().map(move |data| (*data, none));
    std::iter::once((volume.id, volume.lineage)).chain(former)
}

/// The snapshots of these volumes, with those that are wished for or being taken. Those of one volume and its wish are read at once: the
/// owner takes the wish away when it seals the snapshot, which would be counted neither as one nor as the other in between.
fn count_snapshots(meta: &dyn Transact, own: &BTreeMap<VolumeId, Lineage>) -> Result<Snapshots> {
    let wishes = map::snapshot_wishes_prefix();
    let mut taken: BTreeMap<VolumeId, Taken> = BTreeMap::new();
    let volumes: Vec<&VolumeId> = own.keys().collect();
    for some in volumes.chunks(COUNTED_AT_ONCE) {
        let of_one = |volume: &&VolumeId| {
            let (key, wish) = (map::snapshots_prefix(**volume), map::snapshot_wish_key(**volume));
            [Op::Prefix { key }, Op::Get { key: wish }]
        };
        let mut then: Vec<Op> = some.iter().flat_map(of_one).collect();
        let operations = then.len();
        then.push(Op::Prefix {
            key: map::sets_prefix(),
        });
        let reply = meta.txn(&Call {
            then,
            ..Call::default()
        })?;
        for found in (0..operations).flat_map(|index| reply.values(index)) {
            let Some((volume, lineage)) = volume_of(&found.key).and_then(|volume| Some((volume, own.get(&volume)?)))
            else {
                continue;
            };
            let taken = taken.entry(volume).or_default();
            match found.key.starts_with(&wishes) {
                true => taken.wish(found),
                false => taken.snapshot(found, lineage),
            }
        }
        // What sets want is asked for as well, until it is sealed or void.
        let sets = reply.values(operations).iter();
        let sets = sets.filter_map(|found| found.json::<SnapshotSet>().ok());
        for set in sets.filter(|set| !matches!(set.state, SetState::Void(_))) {
            for volume in some.iter().filter(|volume| set.has(***volume)) {
                taken.entry(**volume).or_default().names.insert(set.name.clone());
            }
        }
    }
    Ok(Snapshots {
        asked: taken.values().map(|taken| taken.names.len() as u64).sum(),
        hidden: taken.values().map(|taken| taken.hidden).sum(),
    })
}

/// How many snapshots there are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshots {
    /// Taken, being taken, or wished for.
    pub asked: u64,
    /// Deleted, and held by clones.
    pub hidden: u64,
}

/// Whose snapshot, or wish for one, a key is.
fn volume_of(key: &str) -> Option<VolumeId> {
    let (_, rest) = key.strip_prefix(map::PREFIX)?.split_once('/')?;
    let volume = rest.split_once('/').map_or(rest, |(volume, _)| volume);
    volume.parse().ok().map(VolumeId)
}

/// The snapshots of a volume by their names, so that one which is wished for and taken is one. What nobody can read counts: by its key,
/// which is no name.
#[derive(Debug, Default)]
struct Taken {
    names: BTreeSet<String>,
    hidden: u64,
}

impl Taken {
    fn snapshot(&mut self, found: &KeyValue, lineage: &Lineage) {
        // One that is being taken is one, though nobody wishes it any more: its owner seals it. The lineage may be older than that.
        let is_begun = |snapshot: &Snapshot| match snapshot.number == lineage.number {
            true => lineage.taking,
            false => snapshot.number > lineage.number,
        };
        match found.json::<Snapshot>() {
            // One that was begun and is void is none.
            Ok(snapshot) if !super::snapshot::is_sealed(&snapshot) && !is_begun(&snapshot) => {}
            Ok(snapshot) if snapshot.hidden => self.hidden += 1,
            Ok(snapshot) => drop(self.names.insert(snapshot.name)),
            Err(_) => drop(self.names.insert(found.key.clone())),
        }
    }

    fn wish(&mut self, found: &KeyValue) {
        match found.json::<SnapshotWish>() {
            Ok(wish) if wish.refused.is_some() => {}
            Ok(wish) => drop(self.names.insert(wish.name)),
            Err(_) => drop(self.names.insert(found.key.clone())),
        }
    }
}

/// The snapshots of a volume, with the one that is wished for or being taken.
pub(super) fn snapshots_of(meta: &dyn Transact, volume: &Volume) -> Result<Snapshots> {
    count_snapshots(meta, &lineages(volume).collect())
}

/// A pool's quota.
///
/// # Errors
/// No such pool; the metadata is away.
pub fn quota(meta: &dyn Transact, pool: &str) -> Result<Quota> {
    let pool = find_pool(meta, pool)?;
    let found = get::<Quota>(meta, &map::quota_key(pool.id))?;
    Ok(found.map_or_else(|| Quota::none(pool.id), |(quota, _)| quota))
}

/// Changes a pool's quota; it holds for what is asked for from then on, and takes nothing away that is there.
///
/// # Errors
/// No such pool, or a cluster in which programs may be about that do not know quotas (S17); the metadata is away or refuses.
pub fn set_quota(meta: &dyn Transact, pool: &str, change: impl Fn(&mut Quota)) -> Result<Quota> {
    let id = find_pool(meta, pool)?.id;
    let version = cluster(meta)?.version;
    if version < map::SNAPSHOTS_SINCE {
        return Err(AdminError::BadSetting {
            what: "pool",
            name: pool.to_owned(),
            why: format!(
                "the cluster's version is {version}, and quotas need {}: programs from before do not heed them (`amita cluster \
                 finalize`)",
                map::SNAPSHOTS_SINCE
            ),
        });
    }
    let key = map::quota_key(id);
    for _ in tries(meta) {
        let (before, revision) = get::<Quota>(meta, &key)?.unwrap_or_else(|| (Quota::none(id), 0));
        let mut next = before;
        change(&mut next);
        next.changes = before.changes.wrapping_add(1);
        if put_if(meta, &key, revision, &next)? {
            return Ok(next);
        }
    }
    Err(AdminError::TooManyRaces { key })
}
