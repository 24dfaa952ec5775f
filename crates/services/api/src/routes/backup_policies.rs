//! Policies of backups: which volumes are backed up, into which repository, when, and which points are kept.

mod verification;

use super::input::{Body, Known, Named, Names, Parameters, Settings, Shown, now};
use super::policies::{Keep, KeepChange, Target, WantedTarget};
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, BackupChange as Change, PolicyTarget};
use amita_control::backups::BackupStatus;
use amita_metadata::Transact;
use amita_types::map;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use verification::{RepositoryVerification, VerifyChange, VerifySchedule};

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, change, remove))
        .routes(routes!(run))
        .routes(routes!(verify))
}

/// A run of a policy. Times are seconds since 1970; bytes are those of points that were made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupRun {
    /// When it was due.
    pub due_at: u64,
    /// When it was begun.
    pub began_at: u64,
    /// When it ended; null: it has not.
    pub ended_at: Option<u64>,
    /// The name of the node that is at it, or was last.
    pub node: String,
    /// How often it was begun, or gone on with.
    pub attempts: u64,
    /// It has failed, and is tried again then; null: it does not wait.
    pub again_at: Option<u64>,
    /// Volumes that are in a point of it.
    pub volumes: u64,
    /// Points that were made for it.
    pub points: u64,
    /// Points that were given up behind it.
    pub forgotten: u64,
    /// Bytes that were read of volumes.
    pub read_bytes: u64,
    /// Bytes that went to the repository.
    pub sent_bytes: u64,
    /// Volumes of which no point could be made at the last attempt; at least 1 where something else failed.
    pub failed: u64,
    /// Why, of the first of them, in sentences.
    pub why: Vec<String>,
    /// What else is to be said of it.
    pub notes: Vec<String>,
}

impl From<map::BackupRun> for BackupRun {
    fn from(found: map::BackupRun) -> BackupRun {
        BackupRun {
            due_at: found.due,
            began_at: found.began,
            ended_at: found.ended,
            node: found.node,
            attempts: found.attempts,
            again_at: found.again_at,
            volumes: found.volumes,
            points: found.points,
            forgotten: found.forgotten,
            read_bytes: found.read_bytes,
            sent_bytes: found.sent_bytes,
            failed: found.failed,
            why: found.why,
            notes: found.notes,
        }
    }
}

/// What has become of a policy so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupHistory {
    /// Runs that have ended.
    pub runs: u64,
    /// Of them, those of which something failed in the end.
    pub failures: u64,
    /// Times that have passed without a run.
    pub missed: u64,
    /// Points that were made.
    pub points: u64,
    /// Points that were given up, because no rule keeps them.
    pub forgotten: u64,
    /// Bytes that were read of volumes.
    pub read_bytes: u64,
    /// Bytes that went to the repository.
    pub sent_bytes: u64,
    /// When the last run ended of which nothing failed, in seconds since 1970.
    pub succeeded_at: Option<u64>,
    /// The run that is under way, or waits to be tried again.
    pub current: Option<BackupRun>,
    /// The last run that has ended.
    pub last: Option<BackupRun>,
}

/// A policy of backups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupPolicy {
    /// Its name.
    pub name: String,
    /// The number that it has for ever.
    pub id: u64,
    /// Which volumes it is for.
    pub target: Target,
    /// The name of the repository.
    pub repository: String,
    /// When: the five fields of cron, or six with seconds in front.
    #[schema(example = "30 2 * * *")]
    pub schedule: String,
    /// The IANA name of the time zone in which the schedule is meant, and days begin.
    pub zone: String,
    /// Which of its points are kept.
    pub keep: Keep,
    /// All volumes of a run are one point, of one moment.
    pub together: bool,
    /// An attempt at a run ends after so many seconds.
    pub limit_seconds: u64,
    /// It does nothing at present.
    pub paused: bool,
    /// The name of the node that is at it; null: none is.
    pub runner: Option<String>,
    /// When the next run is due, in seconds since 1970; null: never, or it is paused.
    pub next_at: Option<u64>,
    /// For how long a run that is due has not begun, is not gone on with, or does not end within its limit, in seconds.
    pub late_seconds: u64,
    /// What is wrong with its record; null: nothing.
    pub fault: Option<String>,
    /// What has become of it; null: no node that may work with its repository has seen it yet.
    pub history: Option<BackupHistory>,
    /// When its repository is verified; null: it is not, by this policy.
    pub verify: Option<VerifySchedule>,
    /// What has become of that; null: nothing was ever said of it.
    pub verification: Option<RepositoryVerification>,
}

impl From<BackupStatus> for BackupPolicy {
    fn from(found: BackupStatus) -> BackupPolicy {
        let map::BackupPolicy {
            id,
            name,
            target,
            repository,
            schedule,
            zone,
            keep,
            together,
            paused,
            since: _,
            limit_s,
            asked: _,
            verify,
        } = found.policy;
        BackupPolicy {
            name,
            id: id.0,
            target: target.into(),
            repository,
            schedule,
            zone,
            keep: keep.into(),
            together,
            limit_seconds: limit_s,
            paused,
            runner: found.runner,
            next_at: found.next_at,
            late_seconds: found.late_s,
            fault: found.fault,
            history: found.runs.map(|runs| BackupHistory {
                runs: runs.runs,
                failures: runs.failures,
                missed: runs.missed,
                points: runs.points,
                forgotten: runs.forgotten,
                read_bytes: runs.read_bytes,
                sent_bytes: runs.sent_bytes,
                succeeded_at: runs.succeeded_at,
                current: runs.run.map(BackupRun::from),
                last: runs.last.map(BackupRun::from),
            }),
            verify: verify.map(VerifySchedule::from),
            verification: found.verification.map(RepositoryVerification::from),
        }
    }
}

impl Settings for BackupPolicy {
    fn settings(&self) -> impl Serialize {
        let BackupPolicy {
            id,
            target,
            repository,
            schedule,
            zone,
            keep,
            together,
            limit_seconds,
            paused,
            verify,
            ..
        } = self;
        (
            id,
            target,
            repository,
            schedule,
            zone,
            keep,
            together,
            limit_seconds,
            paused,
            verify,
        )
    }
}

/// A policy that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackupPolicy {
    /// Its name: up to 64 letters, digits and `. _ -`, not beginning with `.` or `-`.
    pub name: String,
    /// Which volumes it is for: names, or a label.
    pub target: WantedTarget,
    /// The name of the repository.
    pub repository: String,
    /// When: the five fields of cron, six with seconds in front, or `@daily` and the like.
    #[schema(example = "30 2 * * *")]
    pub schedule: String,
    /// The IANA name of the time zone in which the schedule is meant, and days begin; UTC where it is not said.
    pub zone: Option<String>,
    /// Which of its points are kept; one rule is needed.
    pub keep: KeepChange,
    /// Are all volumes of a run one point, of one moment? At most 1,024 volumes.
    #[serde(default)]
    pub together: bool,
    /// An attempt at a run ends after so many seconds; a day where it is not said.
    pub limit_seconds: Option<u64>,
    /// It does nothing until that is changed.
    #[serde(default)]
    pub paused: bool,
    /// When its repository is verified; it is not where that is not said.
    pub verify: Option<VerifyChange>,
}

/// What of a policy is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupPolicyChange {
    /// Which volumes it is for: names, or a label.
    pub target: Option<WantedTarget>,
    /// The name of the repository.
    pub repository: Option<String>,
    /// When; times count from now on.
    pub schedule: Option<String>,
    /// The IANA name of the time zone in which the schedule is meant, and days begin.
    pub zone: Option<String>,
    /// Which of its points are kept.
    #[serde(default)]
    pub keep: KeepChange,
    /// Are all volumes of a run one point, of one moment, from the next run on?
    pub together: Option<bool>,
    /// An attempt at a run ends after so many seconds.
    pub limit_seconds: Option<u64>,
    /// Is it to do nothing for a while? Times that pass meanwhile are not missed.
    pub paused: Option<bool>,
    /// When its repository is verified.
    pub verify: Option<VerifyChange>,
}

fn find(meta: &dyn Transact, name: &str) -> Result<BackupPolicy, AdminError> {
    admin::backup_policy(meta, name, now()).map(BackupPolicy::from)
}

fn look(meta: &dyn Transact, name: &str) -> Result<(BackupPolicy, Identity), AdminError> {
    let policy = find(meta, name)?;
    let identity = Identity::of(&policy.settings(), vec![map::backup_policy_key(name)]);
    Ok((policy, identity))
}

/// The policies of backups, in the order of their names. Those whose records cannot be read are facts of the cluster's health.
#[utoipa::path(get, path = "/backup-policies", operation_id = "listBackupPolicies", tag = "backups", params(Cursor),
    responses((status = 200, body = Page<BackupPolicy>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<BackupPolicy>>, Problem> {
    let page = api.run(asker, move |session| {
        let (all, _) = admin::backup_policies(&session.reader(), now())?;
        cursor.cut(all.into_iter().map(BackupPolicy::from), |policy| policy.name.as_str())
    });
    page.await.map(Json)
}

/// Makes a policy. A node that has the repository's key file makes its runs, one node at a time.
#[utoipa::path(post, path = "/backup-policies", operation_id = "createBackupPolicy", tag = "backups",
    request_body = NewBackupPolicy,
    responses((status = 201, body = BackupPolicy, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewBackupPolicy>,
) -> Result<Shown<BackupPolicy>, Problem> {
    let name = wanted.name;
    let change = Change {
        target: Some(wanted.target.try_into()?),
        repository: Some(wanted.repository),
        schedule: Some(wanted.schedule),
        zone: wanted.zone,
        keep: wanted.keep.into(),
        together: Some(wanted.together),
        limit_s: wanted.limit_seconds,
        paused: Some(wanted.paused),
        verify: VerifyChange::of(wanted.verify),
    };
    let made = api.act(asker, Action::BackupPolicyCreate, name.clone(), move |meta| {
        admin::create_backup_policy(meta, &name, &change, now())?;
        find(meta, &name)
    });
    Ok(Shown(StatusCode::CREATED, made.await?))
}

/// A policy of backups, and what has become of it.
#[utoipa::path(get, path = "/backup-policies/{name}", operation_id = "showBackupPolicy", tag = "backups",
    params(Named),
    responses((status = 200, body = BackupPolicy, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Shown<BackupPolicy>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Shown(StatusCode::OK, found.await?))
}

/// Changes a policy, pauses it, or has it go on. A run that is under way ends, and is gone on with by what the policy says then.
#[utoipa::path(patch, path = "/backup-policies/{name}", operation_id = "changeBackupPolicy", tag = "backups",
    request_body = BackupPolicyChange, params(Named, Known),
    responses((status = 200, body = BackupPolicy, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
    Body(wanted): Body<BackupPolicyChange>,
) -> Result<Shown<BackupPolicy>, Problem> {
    let change = Change {
        target: wanted.target.map(PolicyTarget::try_from).transpose()?,
        repository: wanted.repository,
        schedule: wanted.schedule,
        zone: wanted.zone,
        keep: wanted.keep.into(),
        together: wanted.together,
        limit_s: wanted.limit_seconds,
        paused: wanted.paused,
        verify: VerifyChange::of(wanted.verify),
    };
    let changed = api.run(asker, move |session| {
        session.permit(Action::BackupPolicySet, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        if change != Change::default() {
            held.act(Action::BackupPolicySet, &name, |meta| {
                admin::set_backup_policy(meta, &name, &change, now())
            })?;
        }
        Ok(find(&session.reader(), &name)?)
    });
    Ok(Shown(StatusCode::OK, changed.await?))
}

/// Has a run of a policy made now, beside its schedule, by the next node that may. A run that has failed and waits is tried again at once.
#[utoipa::path(post, path = "/backup-policies/{name}/runs", operation_id = "runBackupPolicy", tag = "backups",
    params(Named),
    responses((status = 202, body = BackupPolicy),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn run(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<(StatusCode, Json<BackupPolicy>), Problem> {
    let asked = api.act(asker, Action::BackupPolicyRun, name.clone(), move |meta| {
        admin::run_backup_policy(meta, &name)?;
        find(meta, &name)
    });
    Ok((StatusCode::ACCEPTED, Json(asked.await?)))
}

/// Has the repository of a policy verified now, beside its schedule, by the next node that may: as much as each time, and what was found damaged before.
#[utoipa::path(post, path = "/backup-policies/{name}/verifications", operation_id = "verifyBackupPolicy", tag = "backups",
    params(Named),
    responses((status = 202, body = BackupPolicy),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn verify(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<(StatusCode, Json<BackupPolicy>), Problem> {
    let asked = api.act(asker, Action::BackupPolicyRun, name.clone(), move |meta| {
        admin::verify_backup_policy(meta, &name)?;
        find(meta, &name)
    });
    Ok((StatusCode::ACCEPTED, Json(asked.await?)))
}

/// Deletes a policy; the points that it has made stay, and no policy gives them up any more.
#[utoipa::path(delete, path = "/backup-policies/{name}", operation_id = "deleteBackupPolicy", tag = "backups",
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
        held.act(Action::BackupPolicyDelete, &name, |meta| {
            admin::delete_backup_policy(meta, &name)
        })?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}
