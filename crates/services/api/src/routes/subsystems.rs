//! Subsystems: what hosts connect to by NVMe/TCP, their namespaces and who may connect.

use super::input::{Body, Force, Known, Named, Names, Parameters, cut_by_number};
use crate::condition::{Identity, IfMatch, whatever};
use crate::page::{Cursor, Page, Tagged};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, NamespaceStatus, SubsystemChange as Change, SubsystemSpec};
use amita_metadata::Transact;
use amita_types::map;
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
        .routes(routes!(namespaces, add_namespace))
        .routes(routes!(remove_namespace))
        .routes(routes!(allow, deny))
}

/// A subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Subsystem {
    /// Its name.
    pub name: String,
    /// Its NVMe qualified name, by which hosts connect.
    pub nqn: String,
    /// Its serial number.
    pub serial: String,
    /// The names of the nodes that serve it; none: all that serve NVMe.
    pub gateways: Vec<String>,
    /// Any host may connect; else only those of `hosts`.
    pub any_host: bool,
    /// Connections without TLS are refused.
    pub tls_required: bool,
    /// The NVMe qualified names of the hosts that may connect.
    pub hosts: Vec<String>,
    /// How many namespaces it has.
    pub namespaces: u64,
}

impl From<map::Subsystem> for Subsystem {
    fn from(found: map::Subsystem) -> Subsystem {
        Subsystem {
            name: found.name,
            nqn: found.nqn,
            serial: found.serial,
            gateways: found.gateways,
            any_host: found.any_host,
            tls_required: found.tls_required,
            hosts: found.hosts,
            namespaces: found.namespaces.len() as u64,
        }
    }
}

/// A subsystem that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSubsystem {
    /// Its name: 1 to 128 letters, digits and `. _ -`, not beginning with `.` or `-`.
    pub name: String,
    /// Its NVMe qualified name; null: one with the cluster's number and its name.
    pub nqn: Option<String>,
    /// The names of the nodes that serve it; none: all that serve NVMe.
    #[serde(default)]
    pub gateways: Vec<String>,
    /// Any host may connect.
    #[serde(default)]
    pub any_host: bool,
    /// Connections without TLS are refused.
    #[serde(default)]
    pub tls_required: bool,
}

/// What of a subsystem is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubsystemChange {
    /// The names of the nodes that serve it; an empty list: all that serve NVMe.
    pub gateways: Option<Vec<String>>,
    /// May any host connect?
    pub any_host: Option<bool>,
    /// Are connections without TLS to be refused?
    pub tls_required: Option<bool>,
}

/// A volume, or a snapshot of one, under a number in a subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Namespace {
    /// The name of its subsystem.
    pub subsystem: String,
    /// Its number there.
    pub nsid: u32,
    /// The volume's name; null: it was deleted.
    pub volume: Option<String>,
    /// The name of the snapshot of the volume that it is, to be read only; null: it is the volume itself.
    pub snapshot: Option<String>,
    /// It is a snapshot: to be read only.
    pub read_only: bool,
    /// The size of the volume, or of the snapshot.
    pub size_bytes: Option<u64>,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// The UUID by which hosts know the disk, for ever.
    pub uuid: String,
}

impl From<NamespaceStatus> for Namespace {
    fn from(found: NamespaceStatus) -> Namespace {
        Namespace {
            subsystem: found.subsystem,
            nsid: found.namespace.nsid,
            volume: found.volume_name,
            snapshot: found.snapshot_name,
            read_only: found.namespace.snapshot.is_some(),
            size_bytes: found.size_bytes,
            block_bytes: found.namespace.block_bytes,
            uuid: found.namespace.uuid.to_string(),
        }
    }
}

/// A namespace that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNamespace {
    /// The volume's name, or VOLUME@SNAPSHOT: what the volume was then, to be read only.
    pub volume: String,
    /// Its number, 1 to 1024; null: the one after the highest.
    pub nsid: Option<u32>,
    /// Bytes of a logical block: 4096, or 512 for hosts that know nothing else; 4096 where it is not said.
    #[schema(default = 4096)]
    pub block_bytes: Option<u32>,
}

/// The namespace in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct WhichNamespace {
    /// The subsystem's name.
    name: String,
    /// The namespace's number.
    nsid: u32,
}

/// The host in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct WhichHost {
    /// The subsystem's name.
    name: String,
    /// The host's NVMe qualified name, percent-encoded.
    nqn: String,
}

fn find(meta: &dyn Transact, name: &str) -> Result<Subsystem, AdminError> {
    admin::subsystem(meta, name).map(Subsystem::from)
}

fn look(meta: &dyn Transact, name: &str) -> Result<(Subsystem, Identity), AdminError> {
    let subsystem = find(meta, name)?;
    let identity = Identity::of(&subsystem, vec![map::subsystem_key(name)]);
    Ok((subsystem, identity))
}

/// The subsystems, in the order of their names.
///
/// One whose record nobody can read is not among them: the fact `record-unreadable` tells of it.
#[utoipa::path(get, path = "/subsystems", operation_id = "listSubsystems", tag = "nvme", params(Cursor),
    responses((status = 200, body = Page<Subsystem>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Subsystem>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::subsystems(&session.reader())?.readable;
        cursor.cut(all.into_iter().map(Subsystem::from), |subsystem| {
            subsystem.name.as_str()
        })
    });
    page.await.map(Json)
}

/// Makes a subsystem without namespaces. Nobody may connect before hosts are allowed, unless any may.
#[utoipa::path(post, path = "/subsystems", operation_id = "createSubsystem", tag = "nvme", request_body = NewSubsystem,
    responses((status = 201, body = Subsystem, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewSubsystem>,
) -> Result<Tagged<Subsystem>, Problem> {
    let spec = SubsystemSpec {
        name: wanted.name,
        nqn: wanted.nqn,
        gateways: wanted.gateways,
        any_host: wanted.any_host,
        tls_required: wanted.tls_required,
    };
    let made = api.act(asker, Action::SubsystemCreate, spec.name.clone(), move |meta| {
        admin::create_subsystem(meta, &spec)
    });
    Ok(Tagged(StatusCode::CREATED, made.await?.into()))
}

/// A subsystem.
#[utoipa::path(get, path = "/subsystems/{name}", operation_id = "showSubsystem", tag = "nvme", params(Named),
    responses((status = 200, body = Subsystem, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Tagged<Subsystem>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Tagged(StatusCode::OK, found.await?))
}

/// Changes who serves a subsystem, whether any host may connect, and whether it has to be by TLS.
///
/// A host that is connected and may no more is cut off.
#[utoipa::path(patch, path = "/subsystems/{name}", operation_id = "changeSubsystem", tag = "nvme",
    request_body = SubsystemChange, params(Named, Known),
    responses((status = 200, body = Subsystem, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
    Body(change): Body<SubsystemChange>,
) -> Result<Tagged<Subsystem>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::SubsystemSet, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        let change = Change {
            gateways: change.gateways,
            any_host: change.any_host,
            tls_required: change.tls_required,
        };
        if change == Change::default() {
            return Ok(held.shown().clone());
        }
        let changed = held.act(Action::SubsystemSet, &name, |meta| {
            admin::set_subsystem(meta, &name, &change)
        })?;
        Ok(Subsystem::from(changed))
    });
    Ok(Tagged(StatusCode::OK, changed.await?))
}

/// Deletes a subsystem; its volumes stay. One that has namespaces, or that nobody can read, only with `force`: hosts lose their disks.
#[utoipa::path(delete, path = "/subsystems/{name}", operation_id = "deleteSubsystem", tag = "nvme",
    params(Named, Force, Known),
    responses((status = 204, description = "It is gone."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(Force { force }): Parameters<Force>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let key = map::subsystem_key(&name);
        let held = known.check(session, |meta| whatever(look(meta, &name), key.clone()))?;
        held.act(Action::SubsystemDelete, &name, |meta| {
            admin::delete_subsystem(meta, &name, force)
        })?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}

fn namespaces_of(meta: &dyn Transact, name: &str) -> Result<Vec<Namespace>, AdminError> {
    let found = admin::namespaces_of(meta, name)?;
    Ok(found.into_iter().map(Namespace::from).collect())
}

/// The namespaces of a subsystem, in the order of their numbers.
#[utoipa::path(get, path = "/subsystems/{name}/namespaces", operation_id = "listNamespaces", tag = "nvme",
    params(Named, Cursor),
    responses((status = 200, body = Page<Namespace>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn namespaces(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Namespace>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = namespaces_of(&session.reader(), &name)?;
        cut_by_number(&cursor, all, |namespace| u64::from(namespace.nsid))
    });
    page.await.map(Json)
}

/// Makes a volume, or a snapshot, a namespace of a subsystem; hosts that are connected see it at once.
#[utoipa::path(post, path = "/subsystems/{name}/namespaces", operation_id = "addNamespace", tag = "nvme",
    request_body = NewNamespace, params(Named),
    responses((status = 201, body = Namespace),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn add_namespace(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<NewNamespace>,
) -> Result<(StatusCode, Json<Namespace>), Problem> {
    let made = api.run(asker, move |session| {
        let NewNamespace {
            volume,
            nsid,
            block_bytes,
        } = wanted;
        let made = session.act(Action::NamespaceAdd, &format!("{volume} in {name}"), |meta| {
            admin::add_namespace(meta, &name, &volume, nsid, block_bytes.unwrap_or(4096))
        })?;
        let mut all = namespaces_of(&session.reader(), &name)?.into_iter();
        let why = || {
            Problem::new(
                Code::Changed,
                format!("namespace {} was made, and taken away by others", made.nsid),
            )
        };
        all.find(|namespace| namespace.nsid == made.nsid).ok_or_else(why)
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// Takes a namespace out of a subsystem; hosts that are connected lose the disk, its volume stays.
#[utoipa::path(delete, path = "/subsystems/{name}/namespaces/{nsid}", operation_id = "removeNamespace", tag = "nvme",
    params(WhichNamespace),
    responses((status = 204, description = "It is gone."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove_namespace(
    State(api): State<Api>,
    asker: Asker,
    Names((name, nsid)): Names<(String, u32)>,
) -> Result<StatusCode, Problem> {
    let removed = api.act(
        asker,
        Action::NamespaceRemove,
        format!("{nsid} of {name}"),
        move |meta| admin::remove_namespace(meta, &name, nsid),
    );
    removed.await.map(|_| StatusCode::NO_CONTENT)
}

/// Lets a host connect to a subsystem; one that may already, may.
#[utoipa::path(put, path = "/subsystems/{name}/hosts/{nqn}", operation_id = "allowHost", tag = "nvme", params(WhichHost),
    responses((status = 200, body = Subsystem, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn allow(
    State(api): State<Api>,
    asker: Asker,
    Names((name, nqn)): Names<(String, String)>,
) -> Result<Tagged<Subsystem>, Problem> {
    let allowed = api.act(asker, Action::HostAllow, format!("{nqn} in {name}"), move |meta| {
        admin::allow_host(meta, &name, &nqn)
    });
    Ok(Tagged(StatusCode::OK, allowed.await?.into()))
}

/// A host may connect to a subsystem no more; if it is connected it is cut off. Where any host may, it still may.
#[utoipa::path(delete, path = "/subsystems/{name}/hosts/{nqn}", operation_id = "denyHost", tag = "nvme", params(WhichHost),
    responses((status = 200, body = Subsystem, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn deny(
    State(api): State<Api>,
    asker: Asker,
    Names((name, nqn)): Names<(String, String)>,
) -> Result<Tagged<Subsystem>, Problem> {
    let denied = api.act(asker, Action::HostDeny, format!("{nqn} in {name}"), move |meta| {
        admin::deny_host(meta, &name, &nqn)
    });
    Ok(Tagged(StatusCode::OK, denied.await?.into()))
}
