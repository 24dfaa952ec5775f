//! Policies of backups: which there are, and what has become of them.

use super::super::policy::{KeepChange, PolicyTarget, find_target, forget_unreadable};
use super::super::subsystem::{put, unchanged};
use super::super::volume::believable;
use super::super::{AdminError, Result, check_name, cluster, get, names_under, next_number, parse, tries};
use super::repository::hold;
use super::verification::{Turn, VerifyChange};
use crate::backups::BackupStatus;
use crate::backups::plan::counted;
use crate::policy::runner::Catalog;
use crate::policy::schedule::Schedule;
use amita_metadata::{Call, Compare, KeyValue, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{
    self, BackupPolicy, BackupRuns, BackupVerified, DEFAULT_BACKUP_LIMIT_S, Keep, MAX_BACKUP_POLICIES, MAX_POLICY_NAME,
    MAX_SET_VOLUMES, PolicyId, SNAPSHOTS_SINCE, Target,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time limits that an attempt at a run may have, in seconds: up to thirty days.
pub(super) const LIMITS_S: std::ops::RangeInclusive<u64> = 60..=2_592_000;

/// What an operator wants of a policy of backups; none: as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupChange {
    /// Which volumes it is for: by name, or by a label.
    pub target: Option<PolicyTarget>,
    /// The name of the repository.
    pub repository: Option<String>,
    /// When.
    pub schedule: Option<String>,
    /// In which time zone.
    pub zone: Option<String>,
    /// How many points each rule keeps; a rule that is not named stays.
    pub keep: KeepChange,
    /// Are all volumes of a run one point, of one moment?
    pub together: Option<bool>,
    /// An attempt at a run ends after so many seconds.
    pub limit_s: Option<u64>,
    /// Does it do nothing?
    pub paused: Option<bool>,
    /// When its repository is verified, and how much of it.
    pub verify: VerifyChange,
}

pub(super) fn bad(name: &str, why: String) -> AdminError {
    AdminError::BadSetting {
        what: "backup policy",
        name: name.to_owned(),
        why,
    }
}

pub(super) fn find(meta: &dyn Transact, name: &str) -> Result<(BackupPolicy, u64)> {
    match get::<BackupPolicy>(meta, &map::backup_policy_key(name))? {
        Some(found) => Ok(found),
        None => Err(AdminError::NoSuch {
            what: "backup policy",
            name: name.to_owned(),
            there: names_under(meta, &map::backup_policies_prefix())?,
        }),
    }
}

fn target_of(meta: &dyn Transact, name: &str, target: &PolicyTarget) -> Result<Target> {
    if matches!(target, PolicyTarget::Pool(_)) {
        return Err(bad(
            name,
            "it is for volumes by their names, or by a label, and not for a pool".to_owned(),
        ));
    }
    find_target(meta, name, target).map_err(|why| match why {
        AdminError::BadSetting { why, .. } => bad(name, why),
        other => other,
    })
}

/// Can it be?
fn check(meta: &dyn Transact, policy: &BackupPolicy) -> Result<()> {
    let judged = || {
        Schedule::check(&policy.schedule, &policy.zone)?;
        if !LIMITS_S.contains(&policy.limit_s) {
            let (least, most) = (LIMITS_S.start(), LIMITS_S.end());
            return Err(format!(
                "a time limit of {} s; {least} to {most} s can be",
                policy.limit_s
            ));
        }
        policy
            .verify
            .iter()
            .try_for_each(|verify| super::verification::check(verify, &policy.zone))?;
        policy.keep.check()
    };
    judged().map_err(|why: String| bad(&policy.name, why))?;
    if policy.together {
        let volumes = Catalog::default().of(meta, &policy.target)?.count();
        if volumes > MAX_SET_VOLUMES {
            return Err(bad(
                &policy.name,
                format!("it is for {volumes} volumes, and {MAX_SET_VOLUMES} are the most that can be of one moment"),
            ));
        }
    }
    Ok(())
}

/// Makes a policy. It counts from when a node that may work with its repository first sees it; `now`: since 1970.
///
/// # Errors
/// A name, a schedule, a time zone or rules that cannot be; no such volume or repository; the name is taken; there are too many; a cluster whose
/// version does not know snapshots; the metadata is away or refuses.
pub fn create_backup_policy(
    meta: &dyn Transact,
    name: &str,
    change: &BackupChange,
    now: Duration,
) -> Result<BackupPolicy> {
    check_name("backup policy", name)?;
    if name.len() > MAX_POLICY_NAME {
        return Err(bad(
            name,
            format!("a name of {} bytes; {MAX_POLICY_NAME} are the most", name.len()),
        ));
    }
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        return Err(bad(
            name,
            format!(
                "the cluster's version is {version}, and backups need snapshots, which need {SNAPSHOTS_SINCE}: all its programs must know of \
                 them first"
            ),
        ));
    }
    let (Some(target), Some(repository), Some(schedule)) = (&change.target, &change.repository, &change.schedule)
    else {
        return Err(bad(
            name,
            "it needs a schedule, a repository, and a volume or a label".to_owned(),
        ));
    };
    let mut policy = BackupPolicy {
        id: PolicyId(0),
        name: name.to_owned(),
        target: target_of(meta, name, target)?,
        repository: repository.clone(),
        schedule: schedule.clone(),
        zone: change.zone.clone().unwrap_or_else(|| map::DEFAULT_ZONE.to_owned()),
        keep: change.keep.of(Keep::default()),
        together: change.together.unwrap_or(false),
        paused: change.paused.unwrap_or(false),
        since: now.as_secs(),
        limit_s: change.limit_s.unwrap_or(DEFAULT_BACKUP_LIMIT_S),
        asked: 0,
        verify: change.verify.of(None, now).map_err(|why| bad(name, why))?,
    };
    check(meta, &policy)?;
    if policy.verify.is_some() {
        super::verification::check_version(version).map_err(|why| bad(name, why))?;
    }
    // Whether others can be read or not.
    let all = names_under(meta, &map::backup_policies_prefix())?;
    let exists = || AdminError::Exists {
        what: "backup policy",
        name: name.to_owned(),
    };
    if all.iter().any(|other| other == name) {
        return Err(exists());
    }
    if all.len() >= MAX_BACKUP_POLICIES {
        return Err(bad(
            name,
            format!("there are {} policies already, and no more can be", all.len()),
        ));
    }
    believable(meta)?;
    policy.id = PolicyId(next_number(meta, "policies")?);
    let key = map::backup_policy_key(name);
    for _ in tries(meta) {
        let mut call = Call {
            compares: vec![unchanged(&key, 0)],
            then: vec![put(key.clone(), &policy)],
            otherwise: Vec::new(),
        };
        hold(meta, &policy.repository, &mut call)?;
        if meta.txn(&call)?.succeeded {
            return Ok(policy);
        }
        // Somebody has changed the repository, or made a policy of that name.
        if get::<BackupPolicy>(meta, &key)?.is_some() {
            return Err(exists());
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// The policy as it is then, the revision of how it is now, and what becomes of its verification.
fn changed(meta: &dyn Transact, name: &str, change: &BackupChange, now: Duration) -> Result<(BackupPolicy, u64, Turn)> {
    let (mut policy, revision) = find(meta, name)?;
    let (verified, paused) = (policy.verify.is_some(), policy.paused);
    let before = counted(&policy);
    if let Some(target) = &change.target {
        policy.target = target_of(meta, name, target)?;
    }
    let set = |field: &mut String, value: &Option<String>| {
        if let Some(value) = value {
            field.clone_from(value);
        }
    };
    set(&mut policy.repository, &change.repository);
    set(&mut policy.schedule, &change.schedule);
    set(&mut policy.zone, &change.zone);
    policy.keep = change.keep.of(policy.keep);
    policy.together = change.together.unwrap_or(policy.together);
    policy.paused = change.paused.unwrap_or(policy.paused);
    policy.limit_s = change.limit_s.unwrap_or(policy.limit_s);
    let verify = change.verify.of(policy.verify.take(), now);
    policy.verify = verify.map_err(|why| bad(name, why))?;
    if counted(&policy) != before {
        policy.since = now.as_secs();
    }
    check(meta, &policy)?;
    let turn = Turn::of(&change.verify, verified, paused, &policy);
    if turn == Turn::Begins {
        super::verification::check_version(cluster(meta)?.version).map_err(|why| bad(name, why))?;
    }
    Ok((policy, revision, turn))
}

/// Changes a policy. A run that is under way ends as soon as its node sees that, and is gone on with by what the policy says then. Where it is
/// to go on, and nobody can read what has become of it, that begins anew.
///
/// # Errors
/// There is none of that name; the change cannot be; the metadata is away or refuses.
pub fn set_backup_policy(
    meta: &dyn Transact,
    name: &str,
    change: &BackupChange,
    now: Duration,
) -> Result<BackupPolicy> {
    let key = map::backup_policy_key(name);
    for _ in tries(meta) {
        let (policy, revision, turn) = changed(meta, name, change, now)?;
        let mut call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key.clone(), &policy)],
            otherwise: Vec::new(),
        };
        if change.repository.is_some() {
            hold(meta, &policy.repository, &mut call)?;
        }
        if change.paused == Some(false) {
            forget_unreadable::<BackupRuns>(meta, map::backup_runs_key(policy.id), &mut call)?;
        }
        let forgets = change.paused == Some(false);
        super::verification::note_change(meta, policy.id, turn, forgets, &mut call)?;
        if meta.txn(&call)?.succeeded {
            return Ok(policy);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Asks for a run of a policy now, beside its schedule: the next node that may makes it. One that waits to be tried again is tried at once.
///
/// # Errors
/// There is none of that name; it is paused; a node is at a run of it; the metadata is away or refuses.
pub fn run_backup_policy(meta: &dyn Transact, name: &str) -> Result<BackupPolicy> {
    ask(meta, name, |policy| {
        let runs = get::<BackupRuns>(meta, &map::backup_runs_key(policy.id)).unwrap_or_default();
        Ok(Asked {
            runner: map::backup_runner_key(policy.id),
            dealt_with: runs.map_or(0, |(runs, _)| runs.asked),
            count: &mut policy.asked,
        })
    })
}

/// What is asked for beside a schedule.
pub(super) struct Asked<'a> {
    /// The key that whoever is at it holds.
    pub runner: String,
    /// How often it was asked for, as the policy says.
    pub count: &'a mut u64,
    /// And of that, what was dealt with: a program of before writes the policy without the count, and what was taken out of a policy, and is there again,
    /// has forgotten it.
    pub dealt_with: u64,
}

/// Asks for something of a policy now.
///
/// # Errors
/// There is none of that name; it is paused, or `of` says that it has nothing of that; a node is at it; the metadata is away or refuses.
pub(super) fn ask(
    meta: &dyn Transact,
    name: &str,
    of: impl Fn(&mut BackupPolicy) -> Result<Asked<'_>>,
) -> Result<BackupPolicy> {
    let key = map::backup_policy_key(name);
    for _ in tries(meta) {
        let (mut policy, revision) = find(meta, name)?;
        if policy.paused {
            return Err(bad(
                name,
                format!("it is paused; `amita backup policy set {name} --resume` has it go on"),
            ));
        }
        let Asked {
            runner,
            count,
            dealt_with,
        } = of(&mut policy)?;
        *count = (*count).max(dealt_with).saturating_add(1);
        if let Some((node, _)) = get::<String>(meta, &runner)? {
            return Err(AdminError::BackupRuns {
                policy: name.to_owned(),
                node,
            });
        }
        let call = Call {
            compares: vec![
                unchanged(&key, revision),
                Compare::ModRevision { key: runner, equals: 0 },
            ],
            then: vec![put(key.clone(), &policy)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(policy);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Deletes a policy. The points that it has made stay, and no policy gives them up any more.
///
/// # Errors
/// There is none of that name; the metadata is away or refuses.
pub fn delete_backup_policy(meta: &dyn Transact, name: &str) -> Result<BackupPolicy> {
    let key = map::backup_policy_key(name);
    for _ in tries(meta) {
        let (policy, revision) = find(meta, name)?;
        let runs = map::backup_runs_key(policy.id);
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: [key.clone(), runs, map::backup_verified_key(policy.id)]
                .map(|key| Op::Delete { key })
                .into(),
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(policy);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// All policies of backups by name, and what has become of them. One whose record cannot be read hides no other: its key, and what is wrong
/// with it.
///
/// # Errors
/// The metadata is away.
pub fn backup_policies(
    meta: &dyn Transact,
    now: Duration,
) -> Result<(Vec<BackupStatus>, super::super::policy::Unreadable)> {
    let reply = meta.txn(&Call::prefix(map::backups_prefix()))?;
    let records: BTreeMap<&str, &KeyValue> = reply
        .values(0)
        .iter()
        .map(|found| (found.key.as_str(), found))
        .collect();
    let prefix = map::backup_policies_prefix();
    let mut catalog = Catalog::default();
    let (mut all, mut unreadable) = (Vec::new(), Vec::new());
    for found in reply.values(0).iter().filter(|found| found.key.starts_with(&prefix)) {
        match parse::<BackupPolicy>(found) {
            Ok(policy) => {
                let record = |key: String| records.get(key.as_str()).copied();
                let runs = record(map::backup_runs_key(policy.id));
                let runner = record(map::backup_runner_key(policy.id));
                let verified = record(map::backup_verified_key(policy.id));
                let verifier = record(map::backup_verifier_key(policy.id));
                all.push(how(
                    meta,
                    policy,
                    [runs, runner, verified, verifier],
                    &mut catalog,
                    now,
                )?);
            }
            Err(why) => unreadable.push((found.key.clone(), why)),
        }
    }
    Ok((all, unreadable))
}

/// A policy, and what has become of it.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn backup_policy(meta: &dyn Transact, name: &str, now: Duration) -> Result<BackupStatus> {
    let policy = find(meta, name)?.0;
    let keys = [
        map::backup_runs_key(policy.id),
        map::backup_runner_key(policy.id),
        map::backup_verified_key(policy.id),
        map::backup_verifier_key(policy.id),
    ];
    let reply = meta.txn(&Call {
        then: keys.into_iter().map(|key| Op::Get { key }).collect(),
        ..Call::default()
    })?;
    let records = [0, 1, 2, 3].map(|index| reply.value(index));
    how(meta, policy, records, &mut Catalog::default(), now)
}

/// By its runs, who is at them, what has become of its verifications, and who is at these.
fn how(
    meta: &dyn Transact,
    policy: BackupPolicy,
    [runs, runner, verified, verifier]: [Option<&KeyValue>; 4],
    catalog: &mut Catalog,
    now: Duration,
) -> Result<BackupStatus> {
    let runs = runs
        .map(|found| serde_json::from_slice::<BackupRuns>(&found.value))
        .transpose();
    let runner = runner.and_then(|found| found.json::<String>().ok());
    let volume = catalog.name_of(meta, &policy.target)?;
    let verified = verified
        .map(|found| serde_json::from_slice::<BackupVerified>(&found.value).map_err(|why| why.to_string()))
        .transpose();
    let verifier = verifier.and_then(|found| found.json::<String>().ok());
    let of = |runs| {
        let found = BackupStatus::of(policy, runs, runner, volume, now.as_secs());
        found.verified(verified, verifier, now.as_secs())
    };
    Ok(match runs {
        Ok(runs) => of(runs),
        Err(why) => of(None).unreadable(&why),
    })
}

/// The volumes that a policy is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupVolumes {
    /// Those that are there, by their numbers, in order of these, and their names.
    pub volumes: Vec<(VolumeId, String)>,
    /// What there should be and is not, each in a sentence: volumes that are named and deleted, records that nobody can read, any volume at all. What is
    /// said here is not backed up, and a run of which it is said has failed.
    pub lacks: Vec<String>,
}

/// The volumes that a policy is for now.
///
/// # Errors
/// The metadata is away.
pub fn backup_volumes(meta: &dyn Transact, policy: &BackupPolicy) -> Result<BackupVolumes> {
    let mut catalog = Catalog::default();
    let found = catalog.of(meta, &policy.target)?;
    let mut volumes: Vec<(VolumeId, String)> = found.map(|(volume, name)| (volume, name.to_owned())).collect();
    volumes.sort_unstable();
    let named: &[VolumeId] = match &policy.target {
        Target::Volume(volume) => std::slice::from_ref(volume),
        Target::Volumes(volumes) => volumes,
        Target::Label { .. } | Target::Pool(_) => &[],
    };
    let is_there = |volume: &&VolumeId| volumes.iter().any(|(found, _)| found == *volume);
    let name = &policy.name;
    let gone = named.iter().filter(|volume| !is_there(volume)).map(|volume| {
        format!(
            "volume number {volume} of the policy is deleted: have it back (`amita volume undelete`), or say which ones the policy is for \
             (`amita backup policy set {name} --volume ...`)"
        )
    });
    let mut lacks: Vec<String> = gone.collect();
    let is_found = !named.is_empty() && lacks.is_empty();
    // The key and the reason may have come from whoever may write.
    let doubts = catalog
        .in_doubt(&policy.target, is_found)
        .into_iter()
        .map(|(key, why)| {
            format!(
                "the record {} cannot be read, and the policy may be for its volume: {}",
                key.escape_debug(),
                why.escape_debug()
            )
        });
    lacks.extend(doubts);
    if volumes.is_empty() && named.is_empty() {
        let none = match &policy.target {
            Target::Label { key, value } => format!("no volume has the label {key}={value}"),
            Target::Pool(pool) => format!("there is no volume in pool {pool}"),
            Target::Volume(_) | Target::Volumes(_) => "it is for no volume".to_owned(),
        };
        // First, for that says most.
        lacks.insert(
            0,
            format!(
                "{none}, those in the recycle bin aside: nothing is backed up. `amita backup policy set {name} --label KEY=VALUE` says which \
                 ones it is for, and `--pause` that it is to do nothing"
            ),
        );
    }
    Ok(BackupVolumes { volumes, lacks })
}

/// Writes what has become of a policy, if its key is held still by `claim`, the policy is there, made by the transaction of revision `made`, and nobody
/// else has written that since `revision`; 0: nobody ever has. The record's revision then; none: one of these is not so.
///
/// # Errors
/// The metadata is away or refuses.
pub fn note_backup(
    meta: &dyn Transact,
    policy: &BackupPolicy,
    made: u64,
    claim: u64,
    revision: u64,
    runs: &BackupRuns,
) -> Result<Option<u64>> {
    let is_there = Compare::CreateRevision {
        key: map::backup_policy_key(&policy.name),
        equals: made,
    };
    note(meta, policy, is_there, claim, revision, runs)
}

/// The same, if also the policy still says what it says since the transaction of revision `says`: for what is done by its rules, and comes back by
/// no others.
///
/// # Errors
/// The metadata is away or refuses.
pub fn note_backup_by_rules(
    meta: &dyn Transact,
    policy: &BackupPolicy,
    says: u64,
    claim: u64,
    revision: u64,
    runs: &BackupRuns,
) -> Result<Option<u64>> {
    let is_so = unchanged(&map::backup_policy_key(&policy.name), says);
    note(meta, policy, is_so, claim, revision, runs)
}

fn note(
    meta: &dyn Transact,
    policy: &BackupPolicy,
    is_so: Compare,
    claim: u64,
    revision: u64,
    runs: &BackupRuns,
) -> Result<Option<u64>> {
    let key = map::backup_runs_key(policy.id);
    let call = Call {
        compares: vec![
            unchanged(&map::backup_runner_key(policy.id), claim),
            unchanged(&key, revision),
            is_so,
        ],
        then: vec![put(key, runs)],
        otherwise: Vec::new(),
    };
    let reply = meta.txn(&call)?;
    Ok(reply.succeeded.then_some(reply.revision))
}
