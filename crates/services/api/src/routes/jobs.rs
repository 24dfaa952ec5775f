//! One list of what takes long, whatever it is and whoever is at it.
//!
//! A job is no record of its own: it is what the records of volumes and stores say is under way, and is gone with that. What they do not say,
//! nobody makes up: it is null.

mod found;

use super::input::{Names, Parameters, now};
use crate::page::{Cursor, Page};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker, Asking};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError};
use amita_metadata::Transact;
use axum::Json;
use axum::extract::State;
use found::{Found, Record};
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
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// A store's data moves to others.
    Drain,
    /// A clone is made to need what it was made from no more.
    Flatten,
    /// An image is copied into a volume.
    Import,
    /// A volume is to be owned by another node.
    Move,
    /// A store is brought up to date.
    Recovery,
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
    /// Why it does not go on; null: it does, or nobody says.
    pub ails: Option<String>,
    /// What can be done about it.
    pub actions: Vec<JobAction>,
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
        let all = found::all(&session.reader(), now().as_secs())?
            .into_iter()
            .map(|found| found.job);
        let all = all.filter(|job| filter.kind.is_none_or(|kind| job.kind == kind));
        cursor.cut(all, |job| job.id.as_str())
    });
    page.await.map(Json)
}

fn find(meta: &dyn Transact, id: &str) -> Result<Found, Problem> {
    let mut all = found::all(meta, now().as_secs())?.into_iter();
    all.find(|found| found.job.id == id).ok_or_else(|| {
        let why = format!("there is no job {id}: it has ended, or never was; GET /api/v1/jobs has those there are");
        Problem::new(Code::NotFound, why)
    })
}

/// A job, for as long as it lasts.
#[utoipa::path(get, path = "/jobs/{id}", operation_id = "showJob", tag = "jobs", params(Which),
    responses((status = 200, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<Json<Job>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &id)?.job));
    found.await.map(Json)
}

/// Takes a job back, where its `actions` say that this can be done. What is done stays: a clone that is flat in part, data that has moved.
#[utoipa::path(post, path = "/jobs/{id}/cancel", operation_id = "cancelJob", tag = "jobs", params(Which),
    responses((status = 204, description = "It is not under way any more."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn cancel(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<StatusCode, Problem> {
    let cancelled = api.run(asker, move |session| {
        // Who may take nothing back hears that, and not what there is.
        session.permit(Action::VolumeFlatten, &id)?;
        let Found { job, record } = find(&session.reader(), &id)?;
        take_back(session, &job, &record)?;
        Ok(StatusCode::NO_CONTENT)
    });
    cancelled.await
}

fn take_back(session: &Asking, job: &Job, record: &Record) -> Result<(), Problem> {
    let object = &job.object;
    let done: Result<(), AdminError> = match record {
        Record::Flatten => session.act(Action::VolumeFlatten, object, |meta| {
            admin::cancel_flatten(meta, object).map(|_| ())
        }),
        Record::Drain(store) => session.act(Action::DiskDrain, object, |meta| {
            admin::drain_store(meta, *store, true).map(|_| ())
        }),
        Record::Move(wish) => session.act(Action::VolumeMove, object, |meta| admin::drop_move(meta, wish)),
        Record::Other(advice) => {
            let why = format!("job {} cannot be taken back: {advice}", job.id);
            return Err(Problem::new(Code::WrongState, why));
        }
    };
    Ok(done?)
}
