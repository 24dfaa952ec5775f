//! What takes a volume's owner, or a gateway, a while: flattening, scrubbing, moving.

use super::input::{Body, Force, Named, Names, Parameters, now};
use super::volumes::{self, Volume};
use super::wait;
use crate::page::Tagged;
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, FlattenState, MoveState};
use amita_metadata::Transact;
use amita_types::map;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(flattening, flatten, cancel_flatten))
        .routes(routes!(scrubbing, scrub))
        .routes(routes!(move_volume))
        .routes(routes!(clear_reservation))
}

/// How far a clone is on its way to needing what it was made from no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlattenWord {
    /// It needs nothing of another volume.
    Flat,
    /// Its gateway is at it.
    UnderWay,
    /// It is a clone, and is not to be flattened.
    No,
}

/// The flattening of a clone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Flattening {
    /// The volume's name.
    pub volume: String,
    /// How it is.
    pub state: FlattenWord,
    /// Chunks that the volume has; null where nothing is under way.
    pub chunks: Option<u64>,
    /// Of how many of them it is known that they need nothing of another volume.
    pub done_chunks: Option<u64>,
    /// When it was asked for, in seconds since 1970.
    pub asked_at: Option<u64>,
    /// Why it does not go on, where it has not for a while.
    pub ails: Option<String>,
}

impl Flattening {
    fn of(volume: &str, found: &FlattenState) -> Flattening {
        let (state, record) = match found {
            FlattenState::Making(record) => (FlattenWord::UnderWay, Some(record)),
            FlattenState::Flat => (FlattenWord::Flat, None),
            FlattenState::Cancelled => (FlattenWord::No, None),
        };
        Flattening {
            volume: volume.to_owned(),
            state,
            chunks: record.map(|record| record.chunks),
            done_chunks: record.map(|record| record.done),
            asked_at: record.map(|record| record.asked_at),
            ails: record.and_then(|record| record.ails.clone()),
        }
    }
}

/// How far the flattening of a clone is.
#[utoipa::path(get, path = "/volumes/{name}/flatten", operation_id = "showFlattening", tag = "volumes", params(Named),
    responses((status = 200, body = Flattening),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn flattening(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<Flattening>, Problem> {
    let found = api.run(asker, move |session| {
        Ok(Flattening::of(
            &name,
            &admin::flatten_progress(&session.reader(), &name)?,
        ))
    });
    found.await.map(Json)
}

/// Has a clone need what it was made from no more: then that may be deleted. It is begun, and not waited for.
///
/// No data is copied, and hosts go on using it; blocks stay shared until they are written. Asked again, it goes on.
#[utoipa::path(post, path = "/volumes/{name}/flatten", operation_id = "flattenVolume", tag = "volumes", params(Named),
    responses((status = 202, body = Flattening),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn flatten(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<(StatusCode, Json<Flattening>), Problem> {
    let begun = api.act(asker, Action::VolumeFlatten, name.clone(), move |meta| {
        let record = admin::flatten_volume(meta, &name, now())?;
        Ok(Flattening::of(&name, &FlattenState::Making(record)))
    });
    Ok((StatusCode::ACCEPTED, Json(begun.await?)))
}

/// Takes the flattening of a clone back. What is done stays, and costs nothing.
#[utoipa::path(delete, path = "/volumes/{name}/flatten", operation_id = "cancelFlattening", tag = "volumes", params(Named),
    responses((status = 200, body = Flattening),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn cancel_flatten(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<Flattening>, Problem> {
    let cancelled = api.act(asker, Action::VolumeFlatten, name.clone(), move |meta| {
        admin::cancel_flatten(meta, &name)?;
        Ok(Flattening::of(&name, &admin::flatten_progress(meta, &name)?))
    });
    cancelled.await.map(Json)
}

/// A store whose copies were not looked at: it was not in sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UnreadStore {
    /// Its UUID.
    pub store: String,
    /// In so many groups.
    pub groups: u32,
}

/// The looks at all copies of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Scrub {
    /// The volume's name.
    pub volume: String,
    /// The number of the last one that was asked for; 0: none was.
    pub requested: u64,
    /// The number of the last one that has ended: where it is the same, none is under way.
    pub finished: u64,
    /// When the last one was asked for, in seconds since 1970.
    pub requested_at: u64,
    /// What the last that has ended has looked at: copies of chunks.
    pub copies: u64,
    /// Copies that could not be looked at: of stores that did not answer well.
    pub skipped: u64,
    /// Damaged blocks.
    pub damaged: u64,
    /// Of them, those that were repaired.
    pub repaired: u64,
    /// Blocks that differ between copies, though each is intact.
    pub differing: u64,
    /// Stores whose copies were not looked at.
    pub unread: Vec<UnreadStore>,
    /// The last that has ended was taken back before its end: what is said here was found until then.
    pub cancelled: bool,
}

fn scrub_of(meta: &dyn Transact, volume: &str) -> Result<Scrub, AdminError> {
    let map::Scrub {
        requested,
        finished,
        requested_at,
        report,
        unread,
        cancelled,
        ..
    } = admin::scrub_state(meta, volume)?;
    let unread = unread.iter().map(|found| UnreadStore {
        store: found.store.to_string(),
        groups: found.groups,
    });
    Ok(Scrub {
        volume: volume.to_owned(),
        requested,
        finished,
        requested_at,
        copies: report.copies,
        skipped: report.skipped,
        damaged: report.damaged,
        repaired: report.repaired,
        differing: report.differing,
        unread: unread.collect(),
        cancelled,
    })
}

/// What the last look at all copies of a volume has found, and whether one is under way.
#[utoipa::path(get, path = "/volumes/{name}/scrub", operation_id = "showScrub", tag = "volumes", params(Named),
    responses((status = 200, body = Scrub),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn scrubbing(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Json<Scrub>, Problem> {
    let found = api.run(asker, move |session| Ok(scrub_of(&session.reader(), &name)?));
    found.await.map(Json)
}

/// Has all copies of a volume looked at, and what is damaged repaired. It is begun, and not waited for.
#[utoipa::path(post, path = "/volumes/{name}/scrub", operation_id = "scrubVolume", tag = "volumes", params(Named),
    responses((status = 202, body = Scrub),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn scrub(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<(StatusCode, Json<Scrub>), Problem> {
    let begun = api.act(asker, Action::VolumeScrub, name.clone(), move |meta| {
        admin::scrub_volume(meta, &name, now())?;
        scrub_of(meta, &name)
    });
    Ok((StatusCode::ACCEPTED, Json(begun.await?)))
}

/// Where a volume is to be owned.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveVolume {
    /// The name of the node.
    pub to: String,
}

/// Has another gateway own a volume: hosts that are connected to both go over without an error.
///
/// It takes a moment. Where that gateway has not done it within a few seconds, it is given up.
#[utoipa::path(post, path = "/volumes/{name}/move", operation_id = "moveVolume", tag = "volumes", request_body = MoveVolume,
    params(Named),
    responses((status = 200, body = Volume, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn move_volume(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<MoveVolume>,
) -> Result<Tagged<Volume>, Problem> {
    let moved = api.run(asker, move |session| {
        let to = &wanted.to;
        let state = session.act(Action::VolumeMove, &name, |meta| {
            let wish = admin::move_volume(meta, &name, to)?;
            await_moved(meta, &wish)
        });
        let why = match state? {
            MoveState::Done => return Ok(volumes::find(&session.reader(), &name)?),
            MoveState::Refused(why) => format!("node {to} cannot take volume {name} over: {why}"),
            MoveState::Dropped { owner } => format!(
                "volume {name} was not moved: the wish was taken back or another was made, and {} owns it",
                owner.map_or_else(|| "nobody".to_owned(), |owner| format!("node number {owner}"))
            ),
            _ => {
                let why = format!(
                    "node {to} has not taken volume {name} over within {} s; the wish is taken back. See the logs of that node and of the \
                     present owner",
                    wait::PATIENCE.as_secs()
                );
                return Err(Problem::new(Code::NotInTime, why));
            }
        };
        Err(Problem::new(Code::WrongState, why))
    });
    Ok(Tagged(StatusCode::OK, moved.await?))
}

/// Waits for a move, and takes the wish back when that takes too long: it must not come true when nobody thinks of it any more.
fn await_moved(meta: &dyn Transact, wish: &map::Move) -> Result<MoveState, AdminError> {
    let done = wait::until(|| {
        let state = admin::move_state(meta, wish)?;
        Ok::<_, AdminError>(Some(state).filter(|state| *state != MoveState::Waiting))
    })?;
    match done {
        Some(state) => Ok(state),
        None => {
            admin::drop_move(meta, wish)?;
            // It may have been carried out meanwhile.
            Ok(match admin::move_state(meta, wish)? {
                MoveState::Dropped { .. } => MoveState::Waiting,
                state => state,
            })
        }
    }
}

/// What has become of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReservationCleared {
    /// The volume's name.
    pub volume: String,
    /// There was one, or somebody was registered.
    pub cleared: bool,
}

/// Takes the reservation of a volume and all registrations away: for hosts that are gone for good.
///
/// It is refused while a gateway has the volume open, unless `force` says otherwise: that goes on by what it knows until it loses the
/// volume.
#[utoipa::path(delete, path = "/volumes/{name}/reservation", operation_id = "clearReservation", tag = "volumes",
    params(Named, Force),
    responses((status = 200, body = ReservationCleared),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn clear_reservation(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(Force { force }): Parameters<Force>,
) -> Result<Json<ReservationCleared>, Problem> {
    let cleared = api.act(asker, Action::ReservationClear, name.clone(), move |meta| {
        let cleared = admin::clear_reservation(meta, &name, force)?;
        Ok(ReservationCleared { volume: name, cleared })
    });
    cleared.await.map(Json)
}
