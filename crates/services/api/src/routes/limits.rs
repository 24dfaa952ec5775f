//! What the hosts of a volume may do, or those of all volumes of a pool or of a tenant together.

use super::input::{Body, Named, Names};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::Jointly;
use amita_control::{admin, limits};
use amita_types::map;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(show, set, clear))
        .routes(routes!(show_pool, set_pool, clear_pool))
        .routes(routes!(show_tenant, set_tenant, clear_tenant))
        .routes(routes!(tenant, assign, unassign))
}

/// A higher rate for a while, out of what was not used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitPeak {
    /// Operations or bytes a second.
    pub rate: u64,
    /// For so many seconds at a stretch.
    pub seconds: u32,
}

/// In any time T no more passes than rate x T + burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Operations or bytes a second.
    pub rate: u64,
    /// How many at once after a pause; null, where it is set: what comes in within a tenth of a second, and two pieces of I/O.
    pub burst: Option<u64>,
    /// A higher rate for a while; null: none.
    pub peak: Option<LimitPeak>,
}

/// Limits of one measure; null: not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitMeasures {
    /// Of reads.
    pub read: Option<Limit>,
    /// Of writes, clears among them.
    pub write: Option<Limit>,
    /// Of both together.
    pub both: Option<Limit>,
}

/// What all hosts of a volume together may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeLimits {
    /// Operations a second: pieces of I/O of at most 128 KiB.
    #[serde(default)]
    pub iops: LimitMeasures,
    /// Bytes a second.
    #[serde(default)]
    pub bandwidth: LimitMeasures,
}

impl From<map::Limit> for Limit {
    fn from(found: map::Limit) -> Limit {
        Limit {
            rate: found.rate,
            burst: Some(found.burst),
            peak: found.peak.map(|peak| LimitPeak {
                rate: peak.rate,
                seconds: peak.seconds,
            }),
        }
    }
}

impl From<map::Measures> for LimitMeasures {
    fn from(found: map::Measures) -> LimitMeasures {
        LimitMeasures {
            read: found.read.map(Limit::from),
            write: found.write.map(Limit::from),
            both: found.both.map(Limit::from),
        }
    }
}

impl From<map::Limits> for VolumeLimits {
    fn from(found: map::Limits) -> VolumeLimits {
        VolumeLimits {
            iops: found.iops.into(),
            bandwidth: found.bandwidth.into(),
        }
    }
}

impl VolumeLimits {
    fn record(self) -> map::Limits {
        map::Limits {
            iops: self.iops.record(0),
            bandwidth: self.bandwidth.record(limits::NAMES.len() / 2),
        }
    }
}

impl LimitMeasures {
    fn record(self, first: usize) -> map::Measures {
        let one = |limit: Limit, place: usize| {
            let fastest = limit.peak.map_or(limit.rate, |peak| peak.rate.max(limit.rate));
            map::Limit {
                rate: limit.rate,
                burst: limit.burst.unwrap_or_else(|| limits::usual_burst(fastest, place)),
                peak: limit.peak.map(|peak| map::Peak {
                    rate: peak.rate,
                    seconds: peak.seconds,
                }),
            }
        };
        map::Measures {
            read: self.read.map(|limit| one(limit, first)),
            write: self.write.map(|limit| one(limit, first + 1)),
            both: self.both.map(|limit| one(limit, first + 2)),
        }
    }
}

/// What the hosts of a volume may do; all null: as much as there is.
#[utoipa::path(get, path = "/volumes/{name}/limits", operation_id = "showVolumeLimits", tag = "volumes", params(Named),
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Json<VolumeLimits>, Problem> {
    let found = api.run(asker, move |session| Ok(admin::limits(&session.reader(), &name)?));
    Ok(Json(found.await?.into()))
}

/// Limits the hosts of a volume, all together, by whichever gateway they come; in place of what held before.
///
/// It holds at each gateway as soon as that hears of it.
#[utoipa::path(put, path = "/volumes/{name}/limits", operation_id = "setVolumeLimits", tag = "volumes", params(Named),
    request_body = VolumeLimits,
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn set(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<VolumeLimits>,
) -> Result<Json<VolumeLimits>, Problem> {
    let record = wanted.record();
    let set = api.act(asker, Action::VolumeLimit, name.clone(), move |meta| {
        admin::set_limits(meta, &name, |limits| *limits = record)
    });
    Ok(Json(set.await?.into()))
}

/// Limits a volume no longer.
#[utoipa::path(delete, path = "/volumes/{name}/limits", operation_id = "clearVolumeLimits", tag = "volumes", params(Named),
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn clear(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumeLimits>, Problem> {
    let cleared = api.act(asker, Action::VolumeLimit, name.clone(), move |meta| {
        admin::set_limits(meta, &name, |limits| *limits = map::Limits::default())
    });
    Ok(Json(cleared.await?.into()))
}

/// What the hosts of all volumes of a pool may do together; all null: as much as there is.
#[utoipa::path(get, path = "/pools/{name}/limits", operation_id = "showPoolLimits", tag = "pools", params(Named),
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show_pool(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumeLimits>, Problem> {
    let found = api.run(asker, move |session| {
        Ok(admin::joint_limits(&session.reader(), Jointly::Pool(&name))?)
    });
    Ok(Json(found.await?.into()))
}

/// Limits the hosts of all volumes of a pool together, beside what each volume may do; in place of what held before.
///
/// It holds at each gateway as soon as that hears of it.
#[utoipa::path(put, path = "/pools/{name}/limits", operation_id = "setPoolLimits", tag = "pools", params(Named),
    request_body = VolumeLimits,
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn set_pool(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<VolumeLimits>,
) -> Result<Json<VolumeLimits>, Problem> {
    let record = wanted.record();
    let set = api.act(asker, Action::PoolLimit, name.clone(), move |meta| {
        admin::set_joint_limits(meta, Jointly::Pool(&name), |limits| *limits = record)
    });
    Ok(Json(set.await?.into()))
}

/// Limits the volumes of a pool together no longer; those of single volumes stay.
#[utoipa::path(delete, path = "/pools/{name}/limits", operation_id = "clearPoolLimits", tag = "pools", params(Named),
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn clear_pool(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumeLimits>, Problem> {
    let cleared = api.act(asker, Action::PoolLimit, name.clone(), move |meta| {
        admin::set_joint_limits(meta, Jointly::Pool(&name), |limits| *limits = map::Limits::default())
    });
    Ok(Json(cleared.await?.into()))
}

/// What the hosts of all volumes of a tenant may do together; all null: as much as there is.
#[utoipa::path(get, path = "/tenants/{name}/limits", operation_id = "showTenantLimits", tag = "tenants", params(Named),
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show_tenant(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumeLimits>, Problem> {
    let found = api.run(asker, move |session| {
        Ok(admin::joint_limits(&session.reader(), Jointly::Tenant(&name))?)
    });
    Ok(Json(found.await?.into()))
}

/// Limits the hosts of all volumes of a tenant together, beside what each volume may do; in place of what held before.
///
/// It holds at each gateway as soon as that hears of it.
#[utoipa::path(put, path = "/tenants/{name}/limits", operation_id = "setTenantLimits", tag = "tenants", params(Named),
    request_body = VolumeLimits,
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn set_tenant(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<VolumeLimits>,
) -> Result<Json<VolumeLimits>, Problem> {
    let record = wanted.record();
    let set = api.act(asker, Action::TenantLimit, name.clone(), move |meta| {
        admin::set_joint_limits(meta, Jointly::Tenant(&name), |limits| *limits = record)
    });
    Ok(Json(set.await?.into()))
}

/// Limits the volumes of a tenant together no longer; those of single volumes stay.
#[utoipa::path(delete, path = "/tenants/{name}/limits", operation_id = "clearTenantLimits", tag = "tenants", params(Named),
    responses((status = 200, body = VolumeLimits),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn clear_tenant(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumeLimits>, Problem> {
    let cleared = api.act(asker, Action::TenantLimit, name.clone(), move |meta| {
        admin::set_joint_limits(meta, Jointly::Tenant(&name), |limits| *limits = map::Limits::default())
    });
    Ok(Json(cleared.await?.into()))
}

/// Whose a volume is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeTenant {
    /// The tenant's name; null: nobody's.
    pub tenant: Option<String>,
}

/// Whose a volume is: by that it is under a tenant's limits.
#[utoipa::path(get, path = "/volumes/{name}/tenant", operation_id = "showVolumeTenant", tag = "volumes", params(Named),
    responses((status = 200, body = VolumeTenant),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn tenant(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumeTenant>, Problem> {
    let found = api.run(asker, move |session| {
        let reader = session.reader();
        let id = admin::volume(&reader, &name)?.id;
        let all = admin::tenancies(&reader)?;
        let tenant = all.into_iter().find(|found| found.volume == id);
        Ok(VolumeTenant {
            tenant: tenant.map(|found| found.tenant),
        })
    });
    Ok(Json(found.await?))
}

/// Says whose a volume is; it is nobody else's any more.
///
/// Its data keys, where it is encrypted, stay wrapped as they are until `amita volume key rewrap`. Where one of the two has a volume key, it is refused for a
/// volume that moves, or that shares data keys with others (a clone, or what was cloned).
#[utoipa::path(put, path = "/volumes/{name}/tenant", operation_id = "setVolumeTenant", tag = "volumes", params(Named),
    request_body = VolumeTenant,
    responses((status = 200, body = VolumeTenant),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn assign(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<VolumeTenant>,
) -> Result<Json<VolumeTenant>, Problem> {
    let set = api.act(asker, Action::TenantVolume, name.clone(), move |meta| {
        admin::set_tenant(meta, &name, wanted.tenant.as_deref()).map(|()| wanted)
    });
    Ok(Json(set.await?))
}

/// Says that a volume is nobody's.
///
/// As to its data keys, see `setVolumeTenant`.
#[utoipa::path(delete, path = "/volumes/{name}/tenant", operation_id = "clearVolumeTenant", tag = "volumes", params(Named),
    responses((status = 200, body = VolumeTenant),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn unassign(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<VolumeTenant>, Problem> {
    let cleared = api.act(asker, Action::TenantVolume, name.clone(), move |meta| {
        admin::set_tenant(meta, &name, None).map(|()| VolumeTenant { tenant: None })
    });
    Ok(Json(cleared.await?))
}
