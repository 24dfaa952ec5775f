//! Hosts: who may connect to subsystems. Their keys are never shown; `host_keys` sets them.

use super::input::{Body, Force, Known, Names, Parameters};
use crate::condition::{Identity, IfMatch, whatever};
use crate::page::{Cursor, Page, Tagged};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, HostKeys};
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
        .routes(routes!(list, add))
        .routes(routes!(show, remove))
}

/// A host, and what it has to prove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Host {
    /// Its NVMe qualified name.
    pub nqn: String,
    /// It has to prove by DH-HMAC-CHAP that it has its key.
    pub dhchap: bool,
    /// Controllers prove to it that they have a key as well.
    pub dhchap_controller: bool,
    /// It has a pre-shared key for TLS.
    pub tls: bool,
    /// The names of the subsystems that it may connect to.
    pub subsystems: Vec<String>,
}

impl Host {
    fn of(host: &map::Host, subsystems: &[map::Subsystem]) -> Host {
        let allowed = subsystems
            .iter()
            .filter(|subsystem| subsystem.hosts.contains(&host.nqn));
        Host {
            nqn: host.nqn.clone(),
            dhchap: host.dhchap.is_some(),
            dhchap_controller: host.dhchap_controller.is_some(),
            tls: host.tls.is_some(),
            subsystems: allowed.map(|subsystem| subsystem.name.clone()).collect(),
        }
    }
}

/// A host that is to be known. It has nothing to prove until it is given keys.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHost {
    /// Its NVMe qualified name.
    #[schema(example = "nqn.2014-08.org.nvmexpress:uuid:2d1b3b5e-5b0b-4f3a-9d0a-0d4b6e1c7a11")]
    pub nqn: String,
}

/// The host in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// Its NVMe qualified name, percent-encoded.
    nqn: String,
}

pub(super) fn find(meta: &dyn Transact, nqn: &str) -> Result<Host, AdminError> {
    Ok(Host::of(&admin::host(meta, nqn)?, &admin::subsystems(meta)?.readable))
}

pub(super) fn look(meta: &dyn Transact, nqn: &str) -> Result<(Host, Identity), AdminError> {
    let host = find(meta, nqn)?;
    let identity = Identity::of(&host, vec![map::host_key(nqn)]);
    Ok((host, identity))
}

/// The hosts, in the order of their names.
///
/// One whose record nobody can read is not among them: the fact `record-unreadable` tells of it.
#[utoipa::path(get, path = "/hosts", operation_id = "listHosts", tag = "nvme", params(Cursor),
    responses((status = 200, body = Page<Host>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Host>>, Problem> {
    let page = api.run(asker, move |session| {
        let subsystems = admin::subsystems(&session.reader())?.readable;
        let all = admin::hosts(&session.reader())?.readable;
        let page = cursor.cut(all, |host| host.nqn.as_str())?;
        Ok(Page {
            items: page.items.iter().map(|host| Host::of(host, &subsystems)).collect(),
            next: page.next,
        })
    });
    page.await.map(Json)
}

/// Makes a host known. It may connect nowhere until a subsystem allows it.
#[utoipa::path(post, path = "/hosts", operation_id = "addHost", tag = "nvme", request_body = NewHost,
    responses((status = 201, body = Host, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn add(State(api): State<Api>, asker: Asker, Body(wanted): Body<NewHost>) -> Result<Tagged<Host>, Problem> {
    let NewHost { nqn } = wanted;
    let made = api.act(asker, Action::HostAdd, nqn.clone(), move |meta| {
        admin::add_host(meta, &nqn, &HostKeys::default())?;
        find(meta, &nqn)
    });
    Ok(Tagged(StatusCode::CREATED, made.await?))
}

/// A host.
#[utoipa::path(get, path = "/hosts/{nqn}", operation_id = "showHost", tag = "nvme", params(Which),
    responses((status = 200, body = Host, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(nqn): Names<String>) -> Result<Tagged<Host>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &nqn)?));
    Ok(Tagged(StatusCode::OK, found.await?))
}

/// Forgets a host and its keys. Where a subsystem allows it, only with `force`, which takes that away too; so where nobody can read what is known of
/// it.
#[utoipa::path(delete, path = "/hosts/{nqn}", operation_id = "removeHost", tag = "nvme", params(Which, Force, Known),
    responses((status = 204, description = "It is not known any more."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(nqn): Names<String>,
    Parameters(Force { force }): Parameters<Force>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let key = map::host_key(&nqn);
        let held = known.check(session, |meta| whatever(look(meta, &nqn), key.clone()))?;
        held.act(Action::HostRemove, &nqn, |meta| admin::remove_host(meta, &nqn, force))?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}
