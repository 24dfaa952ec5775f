//! One list of what takes long, whatever it is and whoever is at it.
//!
//! What they are, `amita_control::admin` says: here they are put as the specification has them. What is not known is null.

use super::input::{Names, Parameters, now};
use crate::page::{Cursor, Page};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin;
use amita_metadata::Transact;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(cancel))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// A volume is made a copy of another one.
    Copy,
    /// A store's data moves to others.
    Drain,
    /// A clone is made to need what it was made from no more.
    Flatten,
    /// An image is copied into a volume.
    Import,
    /// A volume moves to another pool.
    Migrate,
    /// A volume is to be owned by another node.
    Move,
    /// A store is brought up to date.
    Recovery,
    /// A volume is written anew in its pool: by a new data key, encrypted from then on, or no more.
    Rekey,
    /// All copies of a volume are looked at.
    Scrub,
    /// A volume is made smaller.
    Shrink,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Somebody is at it, or will be by itself.
    Running,
    /// It does not go on: `ails` says why, or nobody is at it.
    Stalled,
    /// Who was to do it has refused: `ails` says why.
    Refused,
    /// There is nothing left to do; it is shown until somebody says that it was seen, or takes it back.
    Done,
    /// An operator has paused it: `paused` says who. It goes on when it is resumed.
    Paused,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobUnit {
    /// Bytes.
    Bytes,
    /// Chunks of a volume.
    Chunks,
    /// Groups of a pool, all pools and volumes together.
    Groups,
}

/// What can be done about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobAction {
    /// It is taken back: `POST /jobs/{id}/cancel`.
    Cancel,
    /// It stands still: `POST /jobs/{id}/pause`.
    Pause,
    /// It goes on: `POST /jobs/{id}/resume`.
    Resume,
}

/// Who has a job stand still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct JobPause {
    /// The name of who has said so.
    #[schema(example = "operator ann")]
    pub by: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// Something that takes long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Job {
    /// The same for as long as it lasts.
    #[schema(example = "flatten-12")]
    pub id: String,
    /// What is done.
    pub kind: JobKind,
    /// To what: the volume's name, or the store's UUID.
    #[schema(example = "db")]
    pub object: String,
    /// How it stands.
    pub state: JobState,
    /// What `done`, `total` and `left` count; null: nothing is counted.
    pub unit: Option<JobUnit>,
    /// So many are done; null: not known.
    pub done: Option<u64>,
    /// So many there are; null: not known.
    pub total: Option<u64>,
    /// So many are left; null: not known.
    pub left: Option<u64>,
    /// Bytes of data that it has moved; null: not known, or it moves none.
    pub moved_bytes: Option<u64>,
    /// Bytes a second, on the average so far; null: not known.
    pub bytes_per_second: Option<u64>,
    /// Bytes that are left to move, if it goes on as so far; null: not known.
    pub left_bytes: Option<u64>,
    /// Seconds that it will take yet, if it goes on as so far; null: not known.
    pub left_s: Option<u64>,
    /// When it was asked for, in seconds since 1970; null: not known, or nobody has asked.
    pub started_at: Option<u64>,
    /// By whom and when it was paused; null: it is not.
    pub paused: Option<JobPause>,
    /// Why it does not go on; null: it does, or nobody says.
    pub ails: Option<String>,
    /// What can be done about it.
    pub actions: Vec<JobAction>,
}

impl From<admin::JobKind> for JobKind {
    fn from(kind: admin::JobKind) -> JobKind {
        match kind {
            admin::JobKind::Copy => JobKind::Copy,
            admin::JobKind::Drain => JobKind::Drain,
            admin::JobKind::Flatten => JobKind::Flatten,
            admin::JobKind::Import => JobKind::Import,
            admin::JobKind::Migrate => JobKind::Migrate,
            admin::JobKind::Move => JobKind::Move,
            admin::JobKind::Recovery => JobKind::Recovery,
            admin::JobKind::Rekey => JobKind::Rekey,
            admin::JobKind::Scrub => JobKind::Scrub,
            admin::JobKind::Shrink => JobKind::Shrink,
        }
    }
}

impl From<admin::JobState> for JobState {
    fn from(state: admin::JobState) -> JobState {
        match state {
            admin::JobState::Running => JobState::Running,
            admin::JobState::Stalled => JobState::Stalled,
            admin::JobState::Refused => JobState::Refused,
            admin::JobState::Done => JobState::Done,
            admin::JobState::Paused => JobState::Paused,
        }
    }
}

impl From<admin::JobUnit> for JobUnit {
    fn from(unit: admin::JobUnit) -> JobUnit {
        match unit {
            admin::JobUnit::Bytes => JobUnit::Bytes,
            admin::JobUnit::Chunks => JobUnit::Chunks,
            admin::JobUnit::Groups => JobUnit::Groups,
        }
    }
}

impl From<admin::JobAction> for JobAction {
    fn from(action: admin::JobAction) -> JobAction {
        match action {
            admin::JobAction::Cancel => JobAction::Cancel,
            admin::JobAction::Pause => JobAction::Pause,
            admin::JobAction::Resume => JobAction::Resume,
        }
    }
}

impl From<admin::Job> for Job {
    fn from(job: admin::Job) -> Job {
        Job {
            id: job.id,
            kind: job.kind.into(),
            object: job.object,
            state: job.state.into(),
            unit: job.unit.map(JobUnit::from),
            done: job.done,
            total: job.total,
            left: job.left,
            moved_bytes: job.moved_bytes,
            bytes_per_second: job.bytes_per_second,
            left_bytes: job.left_bytes,
            left_s: job.left_s,
            started_at: job.started_at,
            paused: job.paused.map(|paused| JobPause {
                by: paused.by,
                at: paused.at,
            }),
            ails: job.ails,
            actions: job.actions.into_iter().map(JobAction::from).collect(),
        }
    }
}

/// Which jobs.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Only of this kind.
    kind: Option<JobKind>,
}

/// The job in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// Its id.
    id: String,
}

/// What takes long at present, in the order of the ids.
#[utoipa::path(get, path = "/jobs", operation_id = "listJobs", tag = "jobs", params(Cursor, Filter),
    responses((status = 200, body = Page<Job>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
    Parameters(filter): Parameters<Filter>,
) -> Result<Json<Page<Job>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::jobs(&session.reader(), now())?.into_iter().map(Job::from);
        let all = all.filter(|job| filter.kind.is_none_or(|kind| job.kind == kind));
        cursor.cut(all, |job| job.id.as_str())
    });
    page.await.map(Json)
}

/// One that has ended is gone.
fn find(meta: &dyn Transact, id: &str) -> Result<admin::Job, Problem> {
    Ok(admin::job(meta, id, now())?)
}

/// A job, for as long as it lasts.
#[utoipa::path(get, path = "/jobs/{id}", operation_id = "showJob", tag = "jobs", params(Which),
    responses((status = 200, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<Json<Job>, Problem> {
    let found = api.run(asker, move |session| Ok(Job::from(find(&session.reader(), &id)?)));
    found.await.map(Json)
}

/// Takes a job back, where its `actions` say that this can be done. What is done stays: a clone that is flat in part, data that has moved. A
/// copy goes with all that there is of it, by and by: the job is gone when that is.
#[utoipa::path(post, path = "/jobs/{id}/cancel", operation_id = "cancelJob", tag = "jobs", params(Which),
    responses((status = 204, description = "It is not under way any more."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn cancel(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<StatusCode, Problem> {
    let cancelled = api.run(asker, move |session| {
        // Who may take nothing back hears that, and not what there is.
        session.permit(Action::VolumeFlatten, &id)?;
        let job = find(&session.reader(), &id)?;
        session.act(job.cancelled_by()?, &job.object, |meta| admin::cancel_job(meta, &job))?;
        Ok(StatusCode::NO_CONTENT)
    });
    cancelled.await
}

/// Has a job stand still, where its `actions` say that this can be done: within seconds nothing more of it is begun, whoever is at it, until it
/// is resumed. What has begun comes to its end: of a drain the groups that are being brought up to date at the new stores.
#[utoipa::path(post, path = "/jobs/{id}/pause", operation_id = "pauseJob", tag = "jobs", params(Which),
    responses((status = 200, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn pause(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<Json<Job>, Problem> {
    let paused = api.run(asker, move |session| {
        let by = session.caller().who().name.clone();
        let job = session.act(Action::JobPause, &id, |meta| admin::pause_job(meta, &id, &by, now()));
        Ok(Job::from(job?))
    });
    paused.await.map(Json)
}

/// Has a job that stands still go on where it was.
#[utoipa::path(post, path = "/jobs/{id}/resume", operation_id = "resumeJob", tag = "jobs", params(Which),
    responses((status = 200, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn resume(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<Json<Job>, Problem> {
    let resumed = api.run(asker, move |session| {
        let by = session.caller().who().name.clone();
        let job = session.act(Action::JobResume, &id, |meta| admin::resume_job(meta, &id, &by, now()));
        Ok(Job::from(job?))
    });
    resumed.await.map(Json)
}
