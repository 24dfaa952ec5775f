//! How a volume stands among others at stores that have more to do than they do at once.

use super::input::{Body, Named, Names};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin;
use amita_types::map;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show, set, clear))
}

/// How a volume stands among others at stores that have more to do than they do at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumePriority {
    /// What each store does for it first, in bytes a second: those that travel, and 16 KiB more for each operation; null: nothing.
    pub reservation: Option<u64>,
    /// Its part of what reservations leave: 1 to 1000; null: 100.
    pub weight: Option<u16>,
    /// What others may cost 99 of 100 of its requests at a store, in microseconds; null: no target.
    pub latency_target_us: Option<u32>,
}

impl From<map::Priority> for VolumePriority {
    fn from(found: map::Priority) -> VolumePriority {
        VolumePriority {
            reservation: found.reservation,
            weight: found.weight,
            latency_target_us: found.latency_target_us,
        }
    }
}

impl VolumePriority {
    fn record(self) -> map::Priority {
        map::Priority {
            reservation: self.reservation,
            weight: self.weight,
            latency_target_us: self.latency_target_us,
        }
    }
}

/// How a volume stands among others; all null: as every volume does of which nothing is said.
#[utoipa::path(get, path = "/volumes/{name}/priority", operation_id = "showVolumePriority", tag = "volumes", params(Named),
    responses((status = 200, body = VolumePriority),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumePriority>, Problem> {
    let found = api.run(asker, move |session| Ok(admin::priority(&session.reader(), &name)?));
    Ok(Json(found.await?.into()))
}

/// Says how a volume stands among others, in place of what held before.
///
/// Stores go by it as soon as their nodes hear of it.
#[utoipa::path(put, path = "/volumes/{name}/priority", operation_id = "setVolumePriority", tag = "volumes", params(Named),
    request_body = VolumePriority,
    responses((status = 200, body = VolumePriority),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn set(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<VolumePriority>,
) -> Result<Json<VolumePriority>, Problem> {
    let record = wanted.record();
    let set = api.act(asker, Action::VolumeLimit, name.clone(), move |meta| {
        admin::set_priority(meta, &name, |priority| *priority = record)
    });
    Ok(Json(set.await?.into()))
}

/// The volume stands as every other one does of which nothing is said.
#[utoipa::path(delete, path = "/volumes/{name}/priority", operation_id = "clearVolumePriority", tag = "volumes", params(Named),
    responses((status = 200, body = VolumePriority),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn clear(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumePriority>, Problem> {
    let cleared = api.act(asker, Action::VolumeLimit, name.clone(), move |meta| {
        admin::set_priority(meta, &name, |priority| *priority = map::Priority::default())
    });
    Ok(Json(cleared.await?.into()))
}
