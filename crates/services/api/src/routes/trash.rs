//! Deleted volumes that are kept for a time.

use super::input::{Body, KnownWell, Names, Parameters, cut_by_number, now};
use super::volumes::{self, Volume};
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page, Tagged};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, TrashStatus};
use amita_metadata::Transact;
use amita_types::{VolumeId, map};
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
        .routes(routes!(show, purge))
        .routes(routes!(undelete))
}

/// A deleted volume that can be had back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeletedVolume {
    /// Its number.
    pub id: u64,
    /// What it was called.
    pub name: String,
    /// The pool that holds it.
    pub pool: String,
    /// Its size.
    pub size_bytes: u64,
    /// When it was deleted, in seconds since 1970.
    pub deleted_at: u64,
    /// When it goes for good, in seconds since 1970.
    pub purge_at: u64,
    /// So many volumes were cloned from it and are there: it stays until the last of them is gone for good, or was flattened.
    pub clones: u64,
    /// It is what a volume was before it was reverted, and that volume is gone: it cannot be had back.
    pub former: bool,
}

impl From<TrashStatus> for DeletedVolume {
    fn from(found: TrashStatus) -> DeletedVolume {
        DeletedVolume {
            id: found.trashed.volume.0,
            name: found.trashed.name,
            pool: found.pool,
            size_bytes: found.size_bytes,
            deleted_at: found.trashed.deleted_at,
            purge_at: found.trashed.purge_at,
            clones: found.clones as u64,
            former: found.trashed.former,
        }
    }
}

/// How a volume is to be had back.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Undelete {
    /// Its name from now on; null: what it was called.
    pub name: Option<String>,
}

/// What has become of a volume that was to go for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Purged {
    /// The volume's number.
    pub id: u64,
    /// What it was called.
    pub name: String,
    /// The volumes that were cloned from it; none: it is gone. Else it goes as soon as they have, or were flattened.
    pub held_by: Vec<String>,
}

/// The deleted volume in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// Its number.
    id: u64,
}

fn find(meta: &dyn Transact, id: u64) -> Result<DeletedVolume, AdminError> {
    let all = admin::trash(meta)?;
    let there = all.iter().map(|found| found.trashed.volume.to_string()).collect();
    let found = all.into_iter().find(|found| found.trashed.volume.0 == id);
    found.map(DeletedVolume::from).ok_or_else(|| AdminError::NoSuch {
        what: "deleted volume",
        name: id.to_string(),
        there,
    })
}

/// As the functions of the recycle bin take a number, whatever others were called.
fn named(id: u64) -> String {
    format!(".{id}")
}

/// The deleted volumes that are kept, in the order of their numbers.
#[utoipa::path(get, path = "/deleted-volumes", operation_id = "listDeletedVolumes", tag = "deleted volumes", params(Cursor),
    responses((status = 200, body = Page<DeletedVolume>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<DeletedVolume>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::trash(&session.reader())?.into_iter();
        let mut all: Vec<DeletedVolume> = all.map(DeletedVolume::from).collect();
        all.sort_by_key(|found| found.id);
        cut_by_number(&cursor, all, |found| found.id)
    });
    page.await.map(Json)
}

/// A deleted volume that is kept.
#[utoipa::path(get, path = "/deleted-volumes/{id}", operation_id = "showDeletedVolume", tag = "deleted volumes", params(Which),
    responses((status = 200, body = DeletedVolume, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(id): Names<u64>) -> Result<Tagged<DeletedVolume>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), id)?));
    Ok(Tagged(StatusCode::OK, found.await?))
}

/// Has a deleted volume back, with its data and its snapshots.
///
/// It is served by nothing then: export it, or make it a namespace, as when it was made.
#[utoipa::path(post, path = "/deleted-volumes/{id}/undelete", operation_id = "undeleteVolume", tag = "deleted volumes",
    request_body = Undelete, params(Which),
    responses((status = 200, body = Volume, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn undelete(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<u64>,
    Body(wanted): Body<Undelete>,
) -> Result<Tagged<Volume>, Problem> {
    let back = api.act(asker, Action::VolumeUndelete, named(id), move |meta| {
        let volume = admin::undelete_volume(meta, &named(id), wanted.name.as_deref())?;
        volumes::find(meta, &volume.name)
    });
    Ok(Tagged(StatusCode::OK, back.await?))
}

/// Has a deleted volume gone for good, with its snapshots: its space comes back by and by.
#[utoipa::path(delete, path = "/deleted-volumes/{id}", operation_id = "purgeVolume", tag = "deleted volumes",
    params(Which, KnownWell),
    responses((status = 200, body = Purged),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn purge(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<u64>,
    known: IfMatch,
) -> Result<Json<Purged>, Problem> {
    let purged = api.run(asker, move |session| {
        let held = known.demand(session, |meta| {
            let found = find(meta, id)?;
            let identity = Identity::of(&found, vec![map::trash_key(VolumeId(id))]);
            Ok((found, identity))
        })?;
        let gone = held.act(Action::VolumePurge, &named(id), |meta| {
            admin::purge_volume(meta, &named(id), now().as_secs())
        })?;
        Ok(Json(Purged {
            id,
            name: gone.trashed.name,
            held_by: gone.held_by,
        }))
    });
    purged.await
}
