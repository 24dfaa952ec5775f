//! The cluster in figures, for those who watch it by metrics: made of a [`status`](super::status()) and of little besides.

use super::{Result, cluster, status};
use crate::admin::{GroupCounts, Status};
use crate::backups::task::TaskState;
use crate::backups::{BackupStatus, Verification};
use crate::events::Severity;
use crate::health::{Fact, Kind, mirror_lag_s, mirror_left_bytes};
use crate::mirror::MirrorView;
use amita_metadata::{Call, Transact};
use amita_types::StoreId;
use amita_types::condition::{DiskLevel, SickDisk, sick_disks_prefix};
use amita_types::map::{self, BackupWork, MirrorRole, Scrub, StoreDuty};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the metadata says of a cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The worst severity of a fact; none: there are no facts.
    pub worst: Option<Severity>,
    /// Every kind of fact, and how many of it are so; 0 for most.
    pub facts: Vec<(Kind, u64)>,
    /// Nodes that hold their lease.
    pub nodes_alive: u64,
    /// Nodes that do not.
    pub nodes_away: u64,
    /// Volumes; those in the recycle bin are not counted.
    pub volumes: u64,
    pub pools: Vec<PoolFigures>,
    pub stores: Vec<StoreFigures>,
    /// Disks that are not well.
    pub sick_disks: Vec<DiskFigures>,
    /// Policies of backups.
    pub backups: Vec<BackupFigures>,
    /// Tasks of backups, of each kind.
    pub backup_tasks: Vec<BackupTaskFigures>,
    /// Mirrors: this cluster's ends.
    pub mirrors: Vec<MirrorFigures>,
    /// When the look at a volume's copies that lies furthest back was asked for, in seconds since 1970; of a volume that was never
    /// looked at, when it was made. None: no volume has data.
    pub scrub_oldest_at: Option<u64>,
    /// The version that was finalized.
    pub version: u32,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFigures {
    pub name: String,
    /// Bytes of its stores for data, as far as these have told.
    pub raw_bytes: u64,
    /// Of those, bytes that hold something.
    pub used_bytes: u64,
    /// How full its fullest store is; none: no store has told.
    pub fullest_percent: Option<u8>,
    pub groups: GroupCounts,
}

/// A store, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFigures {
    pub id: StoreId,
    /// The name of its node.
    pub node: String,
    pub class: String,
    /// Is it being drained?
    pub draining: bool,
}

/// A disk beneath a store that is not well, as the coordinator has noted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFigures {
    pub store: StoreId,
    /// The name of its node.
    pub node: String,
    /// As its machine calls it, and what it calls itself.
    pub disk: String,
    pub level: DiskLevel,
}

/// What has become of a policy of backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupFigures {
    /// Its name.
    pub name: String,
    /// A node is at it.
    pub running: bool,
    /// Runs that have ended.
    pub runs: u64,
    /// Of them, those of which something failed in the end.
    pub failures: u64,
    /// Times that have passed without a run.
    pub missed: u64,
    /// Points that were made, and that were given up.
    pub points: u64,
    pub forgotten: u64,
    /// Bytes that were read of volumes, and that went to the repository, of points that were made.
    pub read_bytes: u64,
    pub sent_bytes: u64,
    /// What failed at its last run, or at the last attempts of the one that is tried again; 1 where a fact says that it fails for another reason, as
    /// one whose records cannot be read.
    pub failing: u64,
    /// For how long a run is late, in seconds.
    pub late_s: u64,
    /// When the last run ended of which nothing failed, in seconds since 1970; before the first one, when the policy was made or its schedule was
    /// changed: so its age grows from there.
    pub succeeded_at: Option<u64>,
    /// Of verifications of its repository; none: it is not verified by it.
    pub verified: Option<VerifiedFigures>,
}

/// What there is of tasks of backups of one kind, as far as their records are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupTaskFigures {
    /// `backup`, `restore` or `forget`.
    pub kind: &'static str,
    /// How many are in each state.
    pub states: Vec<(TaskState, u64)>,
    /// When the oldest one of each state was asked for that has not ended, in seconds since 1970.
    pub oldest: Vec<(TaskState, u64)>,
    /// For how long the one that is late longest has not moved, in seconds.
    pub late_s: u64,
    /// When the last one was done, in seconds since 1970, and how long that took from when it was asked for.
    pub done_at: Option<u64>,
    pub took_s: Option<u64>,
}

/// What has become of the verifications of a policy of backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedFigures {
    /// Verifications that have ended.
    pub runs: u64,
    /// Of them, those that did not come to their end.
    pub failures: u64,
    /// Bytes of packs that were read.
    pub read_bytes: u64,
    /// Objects that are damaged or missing, and points that are not whole, as far as is known.
    pub damaged: u64,
    pub points_lost: u64,
    /// For how long one is late, in seconds; none: it is verified no more.
    pub late_s: Option<u64>,
    /// When the last one ended that has come to its end; before the first one, when it was said that it be verified, or another schedule.
    pub ended_at: Option<u64>,
    /// All that was in the repository then has been read since.
    pub whole_since: Option<u64>,
}

/// One end of a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorFigures {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: MirrorRole,
    /// How old the point is that the secondary is at, in seconds.
    pub lag_s: Option<u64>,
    /// Bytes of the pass under way that were not looked at yet.
    pub left_bytes: u64,
}

/// Reads them. It costs what a status costs: each record that there is, once.
///
/// # Errors
/// No cluster yet, or the metadata is away.
pub fn figures(meta: &dyn Transact) -> Result<Figures> {
    let found = status(meta)?;
    Ok(Figures {
        version: cluster(meta)?.version,
        sick_disks: sick_disks(meta, &found)?,
        scrub_oldest_at: scrub_oldest_at(meta, &found)?,
        ..of_status(&found)
    })
}

fn of_status(found: &Status) -> Figures {
    let alive = found.nodes.iter().filter(|node| node.alive).count();
    let count = |kind: Kind| found.facts.iter().filter(|fact| fact.name == kind.name()).count() as u64;
    Figures {
        worst: found.facts.iter().map(|fact| fact.severity).max(),
        facts: Kind::ALL.iter().map(|kind| (*kind, count(*kind))).collect(),
        nodes_alive: alive as u64,
        nodes_away: (found.nodes.len() - alive) as u64,
        volumes: found.volumes.len() as u64,
        pools: found
            .pools
            .iter()
            .map(|pool| PoolFigures {
                name: pool.pool.name.clone(),
                raw_bytes: pool.raw_bytes,
                used_bytes: pool.used_bytes,
                fullest_percent: pool.fullest_percent,
                groups: pool.group_counts,
            })
            .collect(),
        stores: found
            .stores
            .iter()
            .map(|store| StoreFigures {
                id: store.store.id,
                node: store.node_name.clone(),
                class: store.store.class.clone(),
                draining: store.store.duty == StoreDuty::Draining,
            })
            .collect(),
        backups: found.backups.iter().map(|own| backup(own, &found.facts)).collect(),
        backup_tasks: BackupWork::KINDS.map(|kind| backup_tasks(found, kind)).into(),
        mirrors: found.mirrors.iter().filter_map(mirror).collect(),
        sick_disks: Vec::new(),
        scrub_oldest_at: None,
        version: 0,
    }
}

fn backup(found: &BackupStatus, facts: &[Fact]) -> BackupFigures {
    let runs = found.runs.clone().unwrap_or_default();
    let name = &found.policy.name;
    // What ails it is judged in one place: so the figure and the fact never say different things.
    let fails =
        |fact: &Fact| fact.name == Kind::BackupFailing.name() && fact.objects.iter().any(|object| object == name);
    let is_failing = facts.iter().any(fails);
    BackupFigures {
        name: name.clone(),
        running: found.runner.is_some(),
        runs: runs.runs,
        failures: runs.failures,
        missed: runs.missed,
        points: runs.points,
        forgotten: runs.forgotten,
        read_bytes: runs.read_bytes,
        sent_bytes: runs.sent_bytes,
        failing: found.failing().map_or(u64::from(is_failing), |(failed, _)| failed),
        late_s: found.late_s,
        succeeded_at: runs.succeeded_at.or(Some(found.policy.since)),
        verified: found
            .verification
            .as_ref()
            .map(|verification| verified(found, verification)),
    }
}

fn verified(found: &BackupStatus, verification: &Verification) -> VerifiedFigures {
    let record = verification.record.clone().unwrap_or_default();
    let since = found.policy.verification().map(|policy| policy.since);
    VerifiedFigures {
        runs: record.runs.runs,
        failures: record.runs.failures,
        read_bytes: record.runs.read_bytes,
        damaged: record.damaged(),
        points_lost: record.lost(),
        late_s: since.map(|_| verification.late_s),
        ended_at: record.runs.succeeded_at.or(since),
        whole_since: record.whole_since,
    }
}

fn backup_tasks(found: &Status, kind: &'static str) -> BackupTaskFigures {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let all = || found.backup_tasks.iter().filter(|own| own.task.work.kind() == kind);
    let count = |state: TaskState| all().filter(|own| own.state() == state).count() as u64;
    let oldest = |state: TaskState| {
        let own = all().filter(|own| !own.has_ended() && own.state() == state);
        Some((state, own.map(|own| own.task.asked_at).min()?))
    };
    let done = all().filter(|own| own.state() == TaskState::Done);
    let ended = done.filter_map(|own| Some((own.run.end?.at, own.task.asked_at)));
    let last = ended.max_by_key(|(at, _)| *at);
    BackupTaskFigures {
        kind,
        states: TaskState::ALL.map(|state| (state, count(state))).into(),
        oldest: TaskState::ALL.into_iter().filter_map(oldest).collect(),
        late_s: all().map(|own| own.late_s(now.as_secs())).max().unwrap_or(0),
        done_at: last.map(|(at, _)| at),
        took_s: last.map(|(at, asked)| at.saturating_sub(asked)),
    }
}

fn mirror(found: &MirrorView) -> Option<MirrorFigures> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let role = MirrorRole::ALL.iter().find(|role| role.text() == found.role)?;
    Some(MirrorFigures {
        name: found.name.clone(),
        role: *role,
        lag_s: mirror_lag_s(found, now.as_secs()),
        left_bytes: mirror_left_bytes(found),
    })
}

/// Of stores that were taken out nobody needs to hear.
fn sick_disks(meta: &dyn Transact, found: &Status) -> Result<Vec<DiskFigures>> {
    let reply = meta.txn(&Call::prefix(sick_disks_prefix()))?;
    let noted = reply
        .values(0)
        .iter()
        .filter_map(|record| record.json::<SickDisk>().ok());
    let shown = noted.filter_map(|noted| {
        let own = found.stores.iter().find(|own| own.store.id == noted.store)?;
        Some(DiskFigures {
            store: noted.store,
            node: own.node_name.clone(),
            disk: noted.disk,
            level: noted.level,
        })
    });
    Ok(shown.collect())
}

/// A look that was asked for and has not ended is not asked for again: so what never ends grows old as well.
fn scrub_oldest_at(meta: &dyn Transact, found: &Status) -> Result<Option<u64>> {
    let reply = meta.txn(&Call::prefix(format!("{}scrub/", map::PREFIX)))?;
    let asked: BTreeMap<&str, u64> = reply
        .values(0)
        .iter()
        .filter_map(|record| Some((record.key.as_str(), record.json::<Scrub>().ok()?.requested_at)))
        .collect();
    let since = found
        .volumes
        .iter()
        .filter(|found| found.volume.generation.0 > 0)
        .filter_map(|found| {
            let asked = asked.get(map::scrub_key(found.volume.id).as_str()).copied();
            asked.filter(|at| *at > 0).or(found.created_at)
        });
    Ok(since.min())
}
