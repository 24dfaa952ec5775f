//! Volumes that are served by NBD, and to whom.

use super::input::{Body, Known, Names, Parameters};
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page, Tagged};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, ExportSpec};
use amita_metadata::Transact;
use amita_types::map::{self, Export};
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
        .routes(routes!(show, export, unexport))
}

/// A volume that is served by NBD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NbdExport {
    /// The volume's name, which is the export's name too.
    pub volume: String,
    /// The clients that may use it, by the names in their certificates.
    pub clients: Vec<String>,
    /// The tenants whose clients may use it.
    pub tenants: Vec<String>,
    /// Every program on the gateway's own machine may use it without proving anything, and every client that proves who it is.
    pub any_client: bool,
    /// It may be read, not written.
    pub read_only: bool,
    /// Also while the volume is a namespace that hosts have by NVMe.
    pub shared: bool,
}

impl NbdExport {
    fn of(volume: &str, found: Export) -> NbdExport {
        NbdExport {
            volume: volume.to_owned(),
            clients: found.clients,
            tenants: found.tenants,
            any_client: found.any_client,
            read_only: found.read_only,
            shared: found.shared,
        }
    }
}

/// As what a volume is to be served. Somebody must be able to use it: a client, a tenant, or any client.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedExport {
    /// The clients that may use it, by the names in their certificates.
    #[serde(default)]
    pub clients: Vec<String>,
    /// The tenants whose clients may use it.
    #[serde(default)]
    pub tenants: Vec<String>,
    /// Every program on the gateway's own machine may use it without proving anything, and every client that proves who it is.
    #[serde(default)]
    pub any_client: bool,
    /// It may be read, not written.
    #[serde(default)]
    pub read_only: bool,
    /// Also while the volume is a namespace that hosts have by NVMe: for clients that know of each other.
    #[serde(default)]
    pub shared: bool,
}

/// The volume in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// The volume's name.
    volume: String,
}

/// None: the volume is there, and is not exported.
fn look(meta: &dyn Transact, volume: &str) -> Result<Option<NbdExport>, AdminError> {
    let id = admin::volume(meta, volume)?.id;
    let found = admin::exports(meta)?.into_iter().find(|export| export.volume == id);
    Ok(found.map(|export| NbdExport::of(volume, export)))
}

/// The same, with what it is known by.
fn known_by(meta: &dyn Transact, volume: &str) -> Result<(Option<NbdExport>, Identity), AdminError> {
    let key = map::export_key(admin::volume(meta, volume)?.id);
    let found = look(meta, volume)?;
    let identity = Identity::of(&found, vec![key]);
    Ok((found, identity))
}

fn find(meta: &dyn Transact, volume: &str) -> Result<NbdExport, Problem> {
    look(meta, volume)?.ok_or_else(|| {
        let why = format!("volume {volume} is not exported by NBD; PUT here exports it");
        Problem::new(Code::NotFound, why)
    })
}

/// The volumes that are served by NBD, in the order of their names.
#[utoipa::path(get, path = "/nbd-exports", operation_id = "listNbdExports", tag = "nbd", params(Cursor),
    responses((status = 200, body = Page<NbdExport>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<NbdExport>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::volume_statuses(&session.reader())?.into_iter();
        let all = all.filter_map(|found| Some(NbdExport::of(&found.volume.name, found.export?)));
        cursor.cut(all, |export| export.volume.as_str())
    });
    page.await.map(Json)
}

/// As what a volume is served by NBD.
#[utoipa::path(get, path = "/nbd-exports/{volume}", operation_id = "showNbdExport", tag = "nbd", params(Which),
    responses((status = 200, body = NbdExport, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names(volume): Names<String>,
) -> Result<Tagged<NbdExport>, Problem> {
    let found = api.run(asker, move |session| find(&session.reader(), &volume));
    Ok(Tagged(StatusCode::OK, found.await?))
}

/// Serves a volume by NBD so, and no other way: what it was exported as before is replaced.
///
/// Clients that use it and may no more are cut off.
#[utoipa::path(put, path = "/nbd-exports/{volume}", operation_id = "exportVolume", tag = "nbd", request_body = WantedExport,
    params(Which, Known),
    responses((status = 200, body = NbdExport, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn export(
    State(api): State<Api>,
    asker: Asker,
    Names(volume): Names<String>,
    known: IfMatch,
    Body(wanted): Body<WantedExport>,
) -> Result<Tagged<NbdExport>, Problem> {
    let exported = api.run(asker, move |session| {
        let held = known.check(session, |meta| known_by(meta, &volume))?;
        let spec = ExportSpec {
            clients: wanted.clients,
            tenants: wanted.tenants,
            any_client: wanted.any_client,
            read_only: wanted.read_only,
            shared: wanted.shared,
        };
        let made = held.act(Action::VolumeExport, &volume, |meta| {
            admin::export_volume(meta, &volume, &spec)
        })?;
        Ok(NbdExport::of(&volume, made))
    });
    Ok(Tagged(StatusCode::OK, exported.await?))
}

/// Serves a volume by NBD no longer; clients that have it open are cut off, its data stays.
#[utoipa::path(delete, path = "/nbd-exports/{volume}", operation_id = "unexportVolume", tag = "nbd", params(Which, Known),
    responses((status = 204, description = "It is not exported."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn unexport(
    State(api): State<Api>,
    asker: Asker,
    Names(volume): Names<String>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let done = api.run(asker, move |session| {
        find(&session.reader(), &volume)?;
        let held = known.check(session, |meta| known_by(meta, &volume))?;
        held.act(Action::VolumeUnexport, &volume, |meta| {
            admin::unexport_volume(meta, &volume)
        })?;
        Ok(StatusCode::NO_CONTENT)
    });
    done.await
}
