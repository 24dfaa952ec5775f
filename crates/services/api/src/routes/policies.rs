//! Policies of snapshots: of which volumes they are taken, when, and which of them are kept.

use super::input::{Body, Known, Named, Names, Parameters, Settings, Shown, now};
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{
    self, AdminError, KeepChange as KeepSet, PolicyChange as Change, PolicyTarget, Pruning, Retained,
};
use amita_control::policy::standing::PolicyStatus;
use amita_metadata::Transact;
use amita_types::map::{self, PolicyRuns, Target as TargetRecord};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, change, remove))
        .routes(routes!(prune))
}

/// A label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Which volumes a policy is for: one of these is not null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Target {
    /// The numbers of the volumes; a volume keeps its number when it is renamed.
    pub volume_ids: Option<Vec<u64>>,
    /// All that have this label at the time.
    pub label: Option<Label>,
    /// All of the pool of this name.
    pub pool: Option<String>,
}

impl From<TargetRecord> for Target {
    fn from(found: TargetRecord) -> Target {
        match found {
            TargetRecord::Volume(id) => Target {
                volume_ids: Some(vec![id.0]),
                ..Target::default()
            },
            TargetRecord::Volumes(ids) => Target {
                volume_ids: Some(ids.iter().map(|id| id.0).collect()),
                ..Target::default()
            },
            TargetRecord::Label { key, value } => Target {
                label: Some(Label { key, value }),
                ..Target::default()
            },
            TargetRecord::Pool(pool) => Target {
                pool: Some(pool),
                ..Target::default()
            },
        }
    }
}

/// Which volumes a policy is to be for: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedTarget {
    /// The names of volumes; it stays for them when they are renamed.
    pub volumes: Option<Vec<String>>,
    /// All that have this label at the time.
    pub label: Option<Label>,
    /// All of the pool of this name.
    pub pool: Option<String>,
}

impl TryFrom<WantedTarget> for PolicyTarget {
    type Error = Problem;

    fn try_from(wanted: WantedTarget) -> Result<PolicyTarget, Problem> {
        let WantedTarget { volumes, label, pool } = wanted;
        match (volumes, label, pool) {
            (Some(volumes), None, None) if !volumes.is_empty() => Ok(PolicyTarget::Volumes(volumes)),
            (None, Some(Label { key, value }), None) => Ok(PolicyTarget::Label { key, value }),
            (None, None, Some(pool)) => Ok(PolicyTarget::Pool(pool)),
            _ => {
                let why =
                    "which volumes is the policy for? Name volumes, a label or a pool in target, and one of them only";
                Err(Problem::new(Code::BadSetting, why))
            }
        }
    }
}

/// Which of a policy's snapshots of a volume are kept: all for which one of these speaks. 0 speaks for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Keep {
    /// So many of the newest.
    pub last: u32,
    /// The newest of each of so many hours in which there is one.
    pub hourly: u32,
    /// The newest of each of so many days.
    pub daily: u32,
    /// The newest of each of so many weeks, from Monday on.
    pub weekly: u32,
    /// The newest of each of so many months.
    pub monthly: u32,
    /// The newest of each of so many years.
    pub yearly: u32,
}

impl From<map::Keep> for Keep {
    fn from(keep: map::Keep) -> Keep {
        Keep {
            last: keep.last,
            hourly: keep.hourly,
            daily: keep.daily,
            weekly: keep.weekly,
            monthly: keep.monthly,
            yearly: keep.yearly,
        }
    }
}

/// Which of a policy's snapshots are to be kept; what is not there stays, 0 takes a rule away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepChange {
    /// So many of the newest.
    pub last: Option<u32>,
    /// The newest of each of so many hours in which there is one.
    pub hourly: Option<u32>,
    /// The newest of each of so many days.
    pub daily: Option<u32>,
    /// The newest of each of so many weeks, from Monday on.
    pub weekly: Option<u32>,
    /// The newest of each of so many months.
    pub monthly: Option<u32>,
    /// The newest of each of so many years.
    pub yearly: Option<u32>,
}

impl From<KeepChange> for KeepSet {
    fn from(wanted: KeepChange) -> KeepSet {
        KeepSet {
            last: wanted.last,
            hourly: wanted.hourly,
            daily: wanted.daily,
            weekly: wanted.weekly,
            monthly: wanted.monthly,
            yearly: wanted.yearly,
        }
    }
}

/// The last run of a policy that has ended. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PolicyRun {
    /// When it was due.
    pub due_at: u64,
    /// When it was begun.
    pub began_at: u64,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// Volumes of which a snapshot was taken.
    pub taken: u64,
    /// Snapshots that were deleted.
    pub deleted: u64,
    /// Volumes of which something failed.
    pub failed: u64,
    /// Why, of the first of them, in sentences.
    pub why: Vec<String>,
}

/// What has become of a policy so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PolicyHistory {
    /// Runs that have ended.
    pub runs: u64,
    /// Snapshots that were taken.
    pub taken: u64,
    /// Snapshots that were deleted.
    pub deleted: u64,
    /// Volumes of which something failed, run by run.
    pub failures: u64,
    /// Times that have passed without a run.
    pub missed: u64,
    /// A run is under way.
    pub running: bool,
    /// The last run that has ended.
    pub last: Option<PolicyRun>,
}

impl From<PolicyRuns> for PolicyHistory {
    fn from(found: PolicyRuns) -> PolicyHistory {
        PolicyHistory {
            runs: found.runs,
            taken: found.taken,
            deleted: found.deleted,
            failures: found.failures,
            missed: found.missed,
            running: found.run.is_some(),
            last: found.last.map(|last| PolicyRun {
                due_at: last.due,
                began_at: last.began,
                ended_at: last.ended,
                taken: last.taken,
                deleted: last.deleted,
                failed: last.failed,
                why: last.why,
            }),
        }
    }
}

/// A policy of snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SnapshotPolicy {
    /// Its name.
    pub name: String,
    /// The number that it has for ever.
    pub id: u64,
    /// Which volumes it is for.
    pub target: Target,
    /// When: the five fields of cron, or six with seconds in front.
    #[schema(example = "0 * * * *")]
    pub schedule: String,
    /// The IANA name of the time zone in which the schedule is meant, and days begin.
    pub zone: String,
    /// What its snapshots are called: `{policy}` is its name, `{time}` when one was due.
    pub template: String,
    /// Which of them are kept.
    pub keep: Keep,
    /// The snapshots of a run are of one moment.
    pub together: bool,
    /// It does nothing at present.
    pub paused: bool,
    /// When the next run is due, in seconds since 1970; null: never, or it is paused.
    pub next_at: Option<u64>,
    /// For how long a run that is due has not begun, or does not end, in seconds.
    pub late_seconds: u64,
    /// What is wrong with its record; null: nothing.
    pub fault: Option<String>,
    /// What has become of it; null: no node that leads has seen it yet.
    pub history: Option<PolicyHistory>,
}

impl From<PolicyStatus> for SnapshotPolicy {
    fn from(found: PolicyStatus) -> SnapshotPolicy {
        let map::Policy {
            id,
            name,
            target,
            schedule,
            zone,
            template,
            keep,
            together,
            paused,
        } = found.policy;
        SnapshotPolicy {
            name,
            id: id.0,
            target: target.into(),
            schedule,
            zone,
            template,
            keep: keep.into(),
            together,
            paused,
            next_at: found.next_at,
            late_seconds: found.late_s,
            fault: found.fault,
            history: found.runs.map(PolicyHistory::from),
        }
    }
}

impl Settings for SnapshotPolicy {
    fn settings(&self) -> impl Serialize {
        let SnapshotPolicy {
            id,
            target,
            schedule,
            zone,
            template,
            keep,
            together,
            paused,
            ..
        } = self;
        (id, target, schedule, zone, template, keep, together, paused)
    }
}

/// A policy that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// Its name: up to 64 letters, digits and `. _ -`, not beginning with `.` or `-`.
    pub name: String,
    /// Which volumes it is for.
    pub target: WantedTarget,
    /// When: the five fields of cron, six with seconds in front, or `@hourly` and the like.
    #[schema(example = "0 * * * *")]
    pub schedule: String,
    /// The IANA name of the time zone in which the schedule is meant, and days begin; UTC where it is not said.
    pub zone: Option<String>,
    /// What its snapshots are called: `{policy}` is its name, `{time}` when one was due; both where it is not said.
    pub template: Option<String>,
    /// Which of them are kept; one rule is needed.
    pub keep: KeepChange,
    /// Are the snapshots of a run to be of one moment? At most 1,024 volumes.
    #[serde(default)]
    pub together: bool,
    /// It does nothing until that is changed.
    #[serde(default)]
    pub paused: bool,
}

/// What of a policy is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// Which volumes it is for.
    pub target: Option<WantedTarget>,
    /// When; times count from now on.
    pub schedule: Option<String>,
    /// The IANA name of the time zone in which the schedule is meant, and days begin.
    pub zone: Option<String>,
    /// What its snapshots are called from now on.
    pub template: Option<String>,
    /// Which of them are kept.
    #[serde(default)]
    pub keep: KeepChange,
    /// Are the snapshots of a run to be of one moment, from the next run on?
    pub together: Option<bool>,
    /// Is it to do nothing for a while? Times that pass meanwhile are not missed.
    pub paused: Option<bool>,
}

/// What becomes of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Verdict {
    /// The volume's name.
    pub volume: String,
    /// The snapshot's name.
    pub snapshot: String,
    /// When it was taken, in seconds since 1970.
    pub taken_at: u64,
    /// It is deleted, or would be.
    pub goes: bool,
    /// The rules that keep it.
    pub kept_by: Vec<String>,
    /// No rule keeps it, and it is protected: it stays.
    pub protected: bool,
}

/// What was deleted, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Pruned {
    /// The policy's name.
    pub policy: String,
    /// Nothing was deleted: it was asked what would be.
    pub dry_run: bool,
    /// Snapshots that were deleted.
    pub deleted: u64,
    /// Why some that no rule keeps were left, in sentences.
    pub left: Vec<String>,
    /// What becomes of each snapshot that the policy has made.
    pub snapshots: Vec<Verdict>,
}

/// How it is to be pruned.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Prune {
    /// Delete nothing; say what would go, and what is kept and why.
    #[serde(default)]
    #[param(default = false)]
    dry_run: bool,
}

fn find(meta: &dyn Transact, name: &str) -> Result<SnapshotPolicy, AdminError> {
    admin::policy(meta, name, now()).map(SnapshotPolicy::from)
}

fn look(meta: &dyn Transact, name: &str) -> Result<(SnapshotPolicy, Identity), AdminError> {
    let policy = find(meta, name)?;
    let identity = Identity::of(&policy.settings(), vec![map::policy_key(name)]);
    Ok((policy, identity))
}

/// The policies of snapshots, in the order of their names. Those whose records cannot be read are facts of the cluster's health.
#[utoipa::path(get, path = "/snapshot-policies", operation_id = "listSnapshotPolicies", tag = "snapshot policies", params(Cursor),
    responses((status = 200, body = Page<SnapshotPolicy>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<SnapshotPolicy>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::policies(&session.reader(), now())?
            .0
            .into_iter()
            .map(SnapshotPolicy::from);
        cursor.cut(all, |policy| policy.name.as_str())
    });
    page.await.map(Json)
}

/// Makes a policy. The node that leads takes its snapshots, whatever node that is.
///
/// Each has the policy's name as a label; what has no such label is never deleted by it.
#[utoipa::path(post, path = "/snapshot-policies", operation_id = "createSnapshotPolicy", tag = "snapshot policies",
    request_body = NewPolicy,
    responses((status = 201, body = SnapshotPolicy, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewPolicy>,
) -> Result<Shown<SnapshotPolicy>, Problem> {
    let name = wanted.name;
    let change = Change {
        target: Some(wanted.target.try_into()?),
        schedule: Some(wanted.schedule),
        zone: wanted.zone,
        template: wanted.template,
        keep: wanted.keep.into(),
        together: Some(wanted.together),
        paused: Some(wanted.paused),
    };
    let made = api.act(asker, Action::PolicyCreate, name.clone(), move |meta| {
        admin::create_policy(meta, &name, &change)?;
        find(meta, &name)
    });
    Ok(Shown(StatusCode::CREATED, made.await?))
}

/// A policy, and what has become of it.
#[utoipa::path(get, path = "/snapshot-policies/{name}", operation_id = "showSnapshotPolicy", tag = "snapshot policies",
    params(Named),
    responses((status = 200, body = SnapshotPolicy, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Shown<SnapshotPolicy>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Shown(StatusCode::OK, found.await?))
}

/// Changes a policy, pauses it, or has it go on. Snapshots that it has made stay its own; the rules count from its next run on.
#[utoipa::path(patch, path = "/snapshot-policies/{name}", operation_id = "changeSnapshotPolicy", tag = "snapshot policies",
    request_body = PolicyChange, params(Named, Known),
    responses((status = 200, body = SnapshotPolicy, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
    Body(change): Body<PolicyChange>,
) -> Result<Shown<SnapshotPolicy>, Problem> {
    let change = Change {
        target: change.target.map(PolicyTarget::try_from).transpose()?,
        schedule: change.schedule,
        zone: change.zone,
        template: change.template,
        keep: change.keep.into(),
        together: change.together,
        paused: change.paused,
    };
    let changed = api.run(asker, move |session| {
        session.permit(Action::PolicySet, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        if change != Change::default() {
            held.act(Action::PolicySet, &name, |meta| admin::set_policy(meta, &name, &change))?;
        }
        Ok(find(&session.reader(), &name)?)
    });
    Ok(Shown(StatusCode::OK, changed.await?))
}

/// Deletes a policy; the snapshots that it has made stay, and nothing deletes them any more.
#[utoipa::path(delete, path = "/snapshot-policies/{name}", operation_id = "deleteSnapshotPolicy", tag = "snapshot policies",
    params(Named, Known),
    responses((status = 204, description = "It is gone."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let held = known.check(session, |meta| look(meta, &name))?;
        held.act(Action::PolicyDelete, &name, |meta| admin::delete_policy(meta, &name))?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}

/// Deletes now what no rule of a policy keeps; with `dry_run` it only says what that would be.
///
/// Snapshots that the policy has not made are left alone, and so are those that are protected.
#[utoipa::path(post, path = "/snapshot-policies/{name}/prune", operation_id = "pruneSnapshotPolicy", tag = "snapshot policies",
    params(Named, Prune),
    responses((status = 200, body = Pruned),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn prune(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(Prune { dry_run }): Parameters<Prune>,
) -> Result<Json<Pruned>, Problem> {
    let pruned = api.run(asker, move |session| {
        let policy = admin::policy(&session.reader(), &name, now())?.policy;
        let all = admin::retained(&session.reader(), &policy)?;
        let (mut deleted, mut left) = (0, Vec::new());
        if !dry_run {
            session.act(Action::PolicyPrune, &name, |meta| {
                delete_all(meta, &policy, &all, &mut deleted, &mut left)
            })?;
        }
        Ok(Pruned {
            policy: name,
            dry_run,
            deleted,
            left,
            snapshots: all.iter().flat_map(verdicts).collect(),
        })
    });
    pruned.await.map(Json)
}

fn delete_all(
    meta: &dyn Transact,
    policy: &map::Policy,
    all: &[Retained],
    deleted: &mut u64,
    left: &mut Vec<String>,
) -> Result<(), AdminError> {
    for volume in all {
        // The oldest first.
        for snapshot in volume.snapshots.iter().rev().filter(|snapshot| snapshot.goes()) {
            match admin::delete_retained(meta, policy, volume, snapshot)? {
                Pruning::Deleted => *deleted += 1,
                Pruning::Gone => {}
                Pruning::Left(why) => left.push(why),
            }
        }
    }
    Ok(())
}

fn verdicts(of: &Retained) -> impl Iterator<Item = Verdict> {
    of.snapshots.iter().map(|found| Verdict {
        volume: of.volume.clone(),
        snapshot: found.name.clone(),
        taken_at: found.taken_at,
        goes: found.goes(),
        kept_by: found.kept_by.iter().map(|&rule| rule.to_owned()).collect(),
        protected: found.protected,
    })
}
