//! Policies of snapshots: which there are, and what they would keep.

use super::subsystem::{put, unchanged};
use super::volume::{believable, find_volume};
use super::{AdminError, Result, check_name, cluster, get, names_under, next_number, parse, tries};
use crate::policy::naming;
use crate::policy::retention::{self, Verdict};
use crate::policy::runner::{By, Catalog, delete_own, is_to_stay, is_too_many, sealed_of};
use crate::policy::schedule::Schedule;
use crate::policy::standing::PolicyStatus;
use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{
    self, Keep, MAX_LABEL_BYTES, MAX_POLICIES, MAX_POLICY_NAME, MAX_SET_VOLUMES, Policy, PolicyId, PolicyRuns,
    SNAPSHOTS_SINCE, Snapshot, Target, Volume,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::time::Duration;

/// Which volumes a policy is to be for, as an operator says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyTarget {
    /// One, by its name.
    Volume(String),
    /// Several, by their names.
    Volumes(Vec<String>),
    /// All with a label.
    Label {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
    },
    /// All of a pool.
    Pool(String),
}

/// What an operator wants of a policy; none: as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyChange {
    /// Which volumes it is for.
    pub target: Option<PolicyTarget>,
    /// When.
    pub schedule: Option<String>,
    /// In which time zone.
    pub zone: Option<String>,
    /// How snapshots are called.
    pub template: Option<String>,
    /// How many each rule keeps; a rule that is not named stays.
    pub keep: KeepChange,
    /// Are the snapshots of a run of one moment?
    pub together: Option<bool>,
    /// Does it do nothing?
    pub paused: Option<bool>,
}

/// How many each rule keeps; none: as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepChange {
    /// See [`Keep`].
    pub last: Option<u32>,
    /// See [`Keep`].
    pub hourly: Option<u32>,
    /// See [`Keep`].
    pub daily: Option<u32>,
    /// See [`Keep`].
    pub weekly: Option<u32>,
    /// See [`Keep`].
    pub monthly: Option<u32>,
    /// See [`Keep`].
    pub yearly: Option<u32>,
}

impl KeepChange {
    /// These rules, where others stay as they are in `keep`.
    #[must_use]
    pub fn of(self, keep: Keep) -> Keep {
        Keep {
            last: self.last.unwrap_or(keep.last),
            hourly: self.hourly.unwrap_or(keep.hourly),
            daily: self.daily.unwrap_or(keep.daily),
            weekly: self.weekly.unwrap_or(keep.weekly),
            monthly: self.monthly.unwrap_or(keep.monthly),
            yearly: self.yearly.unwrap_or(keep.yearly),
            has_others: keep.has_others,
        }
    }
}

/// What a policy would do with the snapshots of a volume that it has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retained {
    /// The volume's name.
    pub volume: String,
    /// Its number.
    #[serde(skip)]
    pub id: VolumeId,
    /// What becomes of each, the newest first.
    pub snapshots: Vec<Verdict>,
}

fn bad(name: &str, why: String) -> AdminError {
    AdminError::BadSetting {
        what: "snapshot policy",
        name: name.to_owned(),
        why,
    }
}

/// Makes a policy. It counts from when the node that leads first sees it.
///
/// # Errors
/// A name, a schedule, a time zone, names of snapshots or rules that cannot be; no such volume or pool; the name is taken; there are too
/// many; a cluster whose version does not know snapshots; the metadata is away or refuses.
pub fn create_policy(meta: &dyn Transact, name: &str, change: &PolicyChange) -> Result<Policy> {
    check_name("snapshot policy", name)?;
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
                "the cluster's version is {version}, and snapshots need {SNAPSHOTS_SINCE}: all its programs must know of them first"
            ),
        ));
    }
    let (Some(target), Some(schedule)) = (&change.target, &change.schedule) else {
        return Err(bad(
            name,
            "it needs a schedule, and a volume, a label or a pool".to_owned(),
        ));
    };
    let mut policy = Policy {
        id: PolicyId(0),
        name: name.to_owned(),
        target: find_target(meta, name, target)?,
        schedule: schedule.clone(),
        zone: change.zone.clone().unwrap_or_else(|| map::DEFAULT_ZONE.to_owned()),
        template: change
            .template
            .clone()
            .unwrap_or_else(|| map::DEFAULT_TEMPLATE.to_owned()),
        keep: change.keep.of(Keep::default()),
        together: change.together.unwrap_or(false),
        paused: change.paused.unwrap_or(false),
    };
    check(&policy)?;
    check_set(meta, &policy)?;
    // Whether others can be read or not.
    let all = meta.txn(&Call::prefix(map::policies_prefix()))?;
    let all = all.values(0);
    if all.iter().any(|other| other.key == map::policy_key(name)) {
        return Err(AdminError::Exists {
            what: "snapshot policy",
            name: name.to_owned(),
        });
    }
    if all.len() >= MAX_POLICIES {
        return Err(bad(
            name,
            format!("there are {} policies already, and no more can be", all.len()),
        ));
    }
    believable(meta)?;
    policy.id = PolicyId(next_number(meta, "policies")?);
    let mut call = Call {
        compares: vec![unchanged(&map::policy_key(name), 0)],
        then: vec![put(map::policy_key(name), &policy)],
        otherwise: Vec::new(),
    };
    hold_pool(meta, &policy.target, &mut call)?;
    match meta.txn(&call)?.succeeded {
        true => Ok(policy),
        false => Err(AdminError::Exists {
            what: "snapshot policy",
            name: name.to_owned(),
        }),
    }
}

/// Where a policy is for a pool, that is there when the policy is written: who deletes the pool finds its record written anew.
fn hold_pool(meta: &dyn Transact, target: &Target, call: &mut Call) -> Result<()> {
    let Target::Pool(pool) = target else {
        return Ok(());
    };
    let key = map::pool_key(pool);
    let reply = meta.txn(&Call::get(key.as_str()))?;
    let Some(record) = reply.value(0) else {
        return Err(AdminError::NoSuch {
            what: "pool",
            name: pool.clone(),
            there: names_under(meta, &map::pool_key(""))?,
        });
    };
    call.compares.push(unchanged(&key, record.mod_revision));
    let value = record.value.to_vec();
    call.then.push(Op::Put {
        key,
        value,
        lease: None,
    });
    Ok(())
}

/// Can it be?
fn check(policy: &Policy) -> Result<()> {
    let judged = || {
        Schedule::check(&policy.schedule, &policy.zone)?;
        naming::check(policy)?;
        policy.keep.check()
    };
    judged().map_err(|why: String| bad(&policy.name, why))
}

/// Can its volumes be one set? There may be more of them later: then its runs say so.
fn check_set(meta: &dyn Transact, policy: &Policy) -> Result<()> {
    if !policy.together {
        return Ok(());
    }
    let volumes = Catalog::default().of(meta, &policy.target)?.count();
    match is_too_many(volumes) {
        Some(why) => Err(bad(&policy.name, why)),
        None => Ok(()),
    }
}

pub(super) fn find_target(meta: &dyn Transact, name: &str, target: &PolicyTarget) -> Result<Target> {
    match target {
        PolicyTarget::Volume(volume) => Ok(Target::Volume(find_volume(meta, volume)?.0.host())),
        PolicyTarget::Volumes(volumes) => {
            if volumes.len() > MAX_SET_VOLUMES {
                let count = volumes.len();
                return Err(bad(
                    name,
                    format!("{count} volumes; {MAX_SET_VOLUMES} are the most that may be named: give them a label"),
                ));
            }
            let mut found = Vec::new();
            for volume in volumes {
                found.push(find_volume(meta, volume)?.0.host());
            }
            found.sort_unstable();
            found.dedup();
            Ok(match found[..] {
                [one] => Target::Volume(one),
                _ => Target::Volumes(found),
            })
        }
        PolicyTarget::Label { key, value } => {
            let text = || key.chars().chain(value.chars());
            if key.is_empty() || key.len().max(value.len()) > MAX_LABEL_BYTES || text().any(char::is_control) {
                return Err(bad(
                    name,
                    format!("{key:?}={value:?} is no label that a volume can have"),
                ));
            }
            Ok(Target::Label {
                key: key.clone(),
                value: value.clone(),
            })
        }
        PolicyTarget::Pool(pool) => {
            let there = names_under(meta, &map::pool_key(""))?;
            match there.contains(pool) {
                true => Ok(Target::Pool(pool.clone())),
                false => Err(AdminError::NoSuch {
                    what: "pool",
                    name: pool.clone(),
                    there,
                }),
            }
        }
    }
}

/// A policy as it would be with a change.
///
/// # Errors
/// There is none of that name; the change cannot be; the metadata is away.
pub fn changed_policy(meta: &dyn Transact, name: &str, change: &PolicyChange) -> Result<Policy> {
    changed(meta, name, change).map(|(policy, _)| policy)
}

fn changed(meta: &dyn Transact, name: &str, change: &PolicyChange) -> Result<(Policy, u64)> {
    let (mut policy, revision) = find(meta, name)?;
    if let Some(target) = &change.target {
        policy.target = find_target(meta, name, target)?;
    }
    let set = |field: &mut String, value: &Option<String>| {
        if let Some(value) = value {
            field.clone_from(value);
        }
    };
    set(&mut policy.schedule, &change.schedule);
    set(&mut policy.zone, &change.zone);
    set(&mut policy.template, &change.template);
    policy.keep = change.keep.of(policy.keep);
    policy.together = change.together.unwrap_or(policy.together);
    policy.paused = change.paused.unwrap_or(policy.paused);
    check(&policy)?;
    check_set(meta, &policy)?;
    Ok((policy, revision))
}

/// Changes a policy. A run that is under way goes on by what it says then. Where it is to go on, and nobody can read what has become of it, that
/// begins anew.
///
/// # Errors
/// As [`changed_policy`]; the metadata refuses.
pub fn set_policy(meta: &dyn Transact, name: &str, change: &PolicyChange) -> Result<Policy> {
    let key = map::policy_key(name);
    for _ in tries(meta) {
        let (policy, revision) = changed(meta, name, change)?;
        let mut call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key.clone(), &policy)],
            otherwise: Vec::new(),
        };
        if change.target.is_some() {
            hold_pool(meta, &policy.target, &mut call)?;
        }
        if change.paused == Some(false) {
            forget_unreadable::<PolicyRuns>(meta, map::policy_runs_key(policy.id), &mut call)?;
        }
        if meta.txn(&call)?.succeeded {
            return Ok(policy);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// What has become of a policy begins anew, where nobody can read it.
pub(super) fn forget_unreadable<T: DeserializeOwned>(meta: &dyn Transact, key: String, call: &mut Call) -> Result<()> {
    let record = meta.txn(&Call::get(key.as_str()))?;
    if let Some(bad) = record.value(0).filter(|found| found.json::<T>().is_err()) {
        call.compares.push(unchanged(&key, bad.mod_revision));
        call.then.push(Op::Delete { key });
    }
    Ok(())
}

/// Deletes a policy. The snapshots that it has made stay.
///
/// # Errors
/// There is none of that name; the metadata is away or refuses.
pub fn delete_policy(meta: &dyn Transact, name: &str) -> Result<Policy> {
    let key = map::policy_key(name);
    for _ in tries(meta) {
        let (policy, revision) = find(meta, name)?;
        let runs = map::policy_runs_key(policy.id);
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![Op::Delete { key: key.clone() }, Op::Delete { key: runs }],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(policy);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

fn find(meta: &dyn Transact, name: &str) -> Result<(Policy, u64)> {
    match get::<Policy>(meta, &map::policy_key(name))? {
        Some(found) => Ok(found),
        None => Err(AdminError::NoSuch {
            what: "snapshot policy",
            name: name.to_owned(),
            there: names_under(meta, &map::policies_prefix())?,
        }),
    }
}

/// The records of policies that nobody can read: their keys, and what is wrong with them.
pub type Unreadable = Vec<(String, AdminError)>;

/// All policies by name, and what has become of them. One whose record cannot be read hides no other.
///
/// # Errors
/// The metadata is away.
pub fn policies(meta: &dyn Transact, now: Duration) -> Result<(Vec<PolicyStatus>, Unreadable)> {
    let prefixes = [map::policies_prefix(), map::policy_runs_prefix()];
    let call = Call {
        then: prefixes.into_iter().map(|key| Op::Prefix { key }).collect(),
        ..Call::default()
    };
    let reply = meta.txn(&call)?;
    let runs: BTreeMap<&str, &KeyValue> = reply
        .values(1)
        .iter()
        .map(|found| (found.key.as_str(), found))
        .collect();
    let mut catalog = Catalog::default();
    let (mut all, mut unreadable) = (Vec::new(), Vec::new());
    for found in reply.values(0) {
        match parse::<Policy>(found) {
            Ok(policy) => {
                let record = runs.get(map::policy_runs_key(policy.id).as_str()).copied();
                all.push(how(meta, policy, record, &mut catalog, now)?);
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
pub fn policy(meta: &dyn Transact, name: &str, now: Duration) -> Result<PolicyStatus> {
    let policy = find(meta, name)?.0;
    let record = meta.txn(&Call::get(map::policy_runs_key(policy.id)))?;
    how(meta, policy, record.value(0), &mut Catalog::default(), now)
}

fn how(
    meta: &dyn Transact,
    policy: Policy,
    record: Option<&KeyValue>,
    catalog: &mut Catalog,
    now: Duration,
) -> Result<PolicyStatus> {
    let runs = record
        .map(|found| serde_json::from_slice::<PolicyRuns>(&found.value))
        .transpose();
    let volume = catalog.name_of(meta, &policy.target)?;
    let of = |runs| PolicyStatus::of(policy, runs, volume, now.as_secs());
    Ok(match runs {
        Ok(runs) => of(runs),
        Err(why) => of(None).unreadable(&why),
    })
}

/// The numbers and names of the volumes that a policy is for now, by name.
///
/// # Errors
/// The metadata is away.
pub fn policy_volumes(meta: &dyn Transact, policy: &Policy) -> Result<Vec<(VolumeId, String)>> {
    let mut catalog = Catalog::default();
    let found = catalog.of(meta, &policy.target)?;
    Ok(found.map(|(volume, name)| (volume, name.to_owned())).collect())
}

/// Of so many data of volumes the snapshots are read by one call.
const READ_AT_ONCE: usize = 32;

/// What a policy would keep of what it has made of its volumes, and why. Nothing is changed.
///
/// # Errors
/// The metadata is away; its time zone is none.
pub fn retained(meta: &dyn Transact, policy: &Policy) -> Result<Vec<Retained>> {
    let mut all = Vec::new();
    let mut catalog = Catalog::default();
    let volumes: Vec<Volume> = catalog.records(meta, &policy.target)?.cloned().collect();
    let of_data = |(index, volume): (usize, &Volume)| volume.chain().map(move |data| (index, data)).collect::<Vec<_>>();
    let data: Vec<(usize, VolumeId)> = volumes.iter().enumerate().flat_map(of_data).collect();
    let mut own: Vec<Vec<Snapshot>> = vec![Vec::new(); volumes.len()];
    for some in data.chunks(READ_AT_ONCE) {
        let prefixes = some.iter().map(|(_, data)| map::snapshots_prefix(*data));
        let reply = meta.txn(&Call {
            then: prefixes.map(|key| Op::Prefix { key }).collect(),
            ..Call::default()
        })?;
        for (at, (index, _)) in some.iter().enumerate() {
            own[*index].extend(sealed_of(reply.values(at)));
        }
    }
    for (volume, own) in volumes.iter().zip(&own) {
        all.push(Retained {
            volume: volume.name.clone(),
            id: volume.host(),
            snapshots: retention::judge(policy, own).map_err(|why| bad(&policy.name, why))?,
        });
    }
    Ok(all)
}

/// What has become of a snapshot that was to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pruning {
    /// It is deleted.
    Deleted,
    /// Somebody was faster.
    Gone,
    /// It is protected by now, or something needs it: why.
    Left(String),
}

/// Deletes one of the snapshots that a policy has made.
///
/// # Errors
/// The policy is not what it was when it was judged by; the snapshot cannot be deleted; the metadata is away, suspected, or refuses.
pub fn delete_retained(meta: &dyn Transact, policy: &Policy, of: &Retained, snapshot: &Verdict) -> Result<Pruning> {
    let key = map::policy_key(&policy.name);
    for _ in tries(meta) {
        let (now, revision) = find(meta, &policy.name)?;
        if now != *policy {
            let why = "somebody has changed it meanwhile, and by what it says now others may be kept: look with --dry-run, and do it again";
            return Err(bad(&policy.name, why.to_owned()));
        }
        let held = [(key.clone(), revision)];
        let by = By {
            policy,
            held: &held,
            set: None,
        };
        match delete_own(meta, by, &of.volume, snapshot.data, &snapshot.name, snapshot.number) {
            // Its record was written: what it says now is looked at.
            Ok(false) => {}
            Ok(true) => return Ok(Pruning::Deleted),
            Err(AdminError::NoSuch { .. }) => return Ok(Pruning::Gone),
            Err(why) if is_to_stay(&why) => return Ok(Pruning::Left(why.to_string())),
            Err(why) => return Err(why),
        }
    }
    Err(AdminError::TooManyRaces { key })
}
