//! How much of a pool may be asked for.
//!
//! What is asked for is counted from the volumes' records when it is asked for; nothing is kept beside them that could go wrong. Two who
//! ask at once have counted the same: so each writes the quota's record in the transaction of its change, and compares that
//! nobody has since it was read. Where a pool has no quota, that there is none is compared.

use super::subsystem::{put, unchanged};
use super::trash::find_pool;
use super::volume::volumes;
use super::{AdminError, RACES, Result, cluster, get, put_if};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, Pool, Quota, Snapshot, SnapshotWish, Volume};
use serde::Serialize;
use std::collections::BTreeSet;

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
    let Some((pool, _)) = get::<Pool>(meta, &map::pool_key(pool))? else {
        // What a volume in a pool that is gone asks for, nobody counts.
        return Ok(Charge::default());
    };
    let key = map::quota_key(pool.id);
    let Some((quota, revision)) = get::<Quota>(meta, &key)? else {
        return Ok(Charge {
            compare: Some(unchanged(&key, 0)),
            then: None,
        });
    };
    let asked = asked_of(meta, &pool, quota.snapshots.is_some())?;
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
        changes: quota.changes + 1,
        ..quota
    };
    Ok(Charge {
        compare: Some(unchanged(&key, revision)),
        then: Some(put(key, &next)),
    })
}

/// What is asked for in a pool. Deleted volumes that are kept do not count.
///
/// # Errors
/// No such pool; the metadata is away.
pub fn asked(meta: &dyn Transact, pool: &str) -> Result<Asked> {
    asked_of(meta, &find_pool(meta, pool)?, true)
}

fn asked_of(meta: &dyn Transact, pool: &Pool, with_snapshots: bool) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut own: Vec<Volume> = volumes(meta)?;
    own.retain(|volume| volume.pool == pool.name);
    for volume in &own {
        asked.provisioned_bytes = asked.provisioned_bytes.saturating_add(volume.size_bytes);
        asked.volumes += 1;
        if with_snapshots {
            asked.snapshots += snapshots_of(meta, volume)?;
        }
    }
    Ok(asked)
}

/// The snapshots of a volume, with the one that is wished for or being taken.
pub(super) fn snapshots_of(meta: &dyn Transact, volume: &Volume) -> Result<u64> {
    let reply = meta.txn(&Call::prefix(map::snapshots_prefix(volume.id)))?;
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut unreadable = 0;
    for found in reply.values(0) {
        match found.json::<Snapshot>() {
            // One that was begun and is void is none.
            Ok(snapshot) if super::snapshot::is_sealed(&snapshot) => drop(names.insert(snapshot.name)),
            Ok(_) => {}
            Err(_) => unreadable += 1,
        }
    }
    let wish = get::<SnapshotWish>(meta, &map::snapshot_wish_key(volume.id))?;
    if let Some((wish, _)) = wish.filter(|(wish, _)| wish.refused.is_none()) {
        names.insert(wish.name);
    }
    Ok(names.len() as u64 + unreadable)
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
    for _ in 0..RACES {
        let (before, revision) = get::<Quota>(meta, &key)?.unwrap_or_else(|| (Quota::none(id), 0));
        let mut next = before;
        change(&mut next);
        next.changes = before.changes + 1;
        if put_if(meta, &key, revision, &next)? {
            return Ok(next);
        }
    }
    Err(AdminError::TooManyRaces { key })
}
