//! The REST API of a cluster: what the command line can do, over HTTPS, served by every node.
//!
//! * [`problem`]: errors (RFC 9457), each with a code that stays.
//! * [`session`]: who asks, and the way to the metadata as them: the roles and the audit log of the command line.
//! * `site`: the page for browsers, at every path that is not the API's.
//! * [`page`]: lists in pieces, entity tags.
//! * [`panics`]: a panic ends the request in which it happens, and not the node.
//! * `condition`: `If-Match`, compared by the transactions of the change.
//! * `data`: what the program brings along that reads and writes the data of volumes.
//! * `going`: whether an image that is copied is still wanted.
//! * `lasting`: connections that copy an image may last longer than others.
//! * [`mirror`]: what the ends of a mirror say to each other.
//! * `outgoing`: bytes of volumes on their way out.
//! * `observed`: what the node knows of itself, and how others are asked for what they know.
//! * `commands`: the command line, carried out for who asks.
//! * `share`: answers that several share, who do not mind how old they are.
//! * `routes`: a file for each kind of thing.
//! * `versions`: which versions of the API there are.
//! * `waiting`: what a thread that may wait is woken by.
//! * [`specification`]: OpenAPI 3.1, made from the same code that answers.
//!
//! Operations are those of `amita_control::admin`: nothing is decided here. Each request runs on a thread that may wait, because
//! the metadata's client does.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod certificate;
mod commands;
mod condition;
mod data;
mod event;
mod going;
mod guard;
mod lasting;
pub mod mirror;
mod observed;
mod outgoing;
pub mod page;
pub mod panics;
mod places;
pub mod problem;
mod repeat;
mod routes;
mod serve;
pub mod session;
mod share;
mod site;
mod specification;
mod versions;
mod waiting;
mod watch;
mod who;

pub use certificate::{BadCertificate, Shown};
pub use commands::{CommandLine, Commands, Files, OnBehalf, Outcome};
pub use data::{
    BackupPointFound, BackupPointVolumeFound, Changed, DataPath, Diff, Differences, Image, Imported, MirrorRead,
    Revert, Reverted, Sink, Source,
};
pub use going::Going;
pub use observed::{Counters, Observed, OwnSessions, SessionQuestion, Sessions, TraceQuestion, Traces};
pub use problem::{Code, Problem};
pub use routes::{
    CoreCounters, IscsiSession, LatencyCounters, NodeCounters, OperationCounters, StoreCounters, VolumeCounters,
};
pub use routes::{Trace, TraceLeg, TraceStage};
pub use serve::{Listener, Server};
pub use session::{Api, Asking};
pub use site::Page;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use std::sync::OnceLock;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Specification;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

/// The prefix of all paths. Within a version fields are added and nothing is taken away.
pub const PREFIX: &str = "/api/v1";

#[derive(OpenApi)]
#[openapi(info(
    title = "Amita",
    description = "What a cluster is and does. Whatever the command `amita` can do can be done by this API; errors are those of RFC 9457."
))]
struct Description;

/// What a request proves itself by, where the connection does not.
const TOKEN: &str = "token";

fn described() -> OpenApiRouter<Api> {
    let mut specification = Description::openapi();
    let token = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    let components = specification.components.get_or_insert_default();
    components.add_security_scheme(TOKEN, token);
    // A certificate of the connection is as good; that is no matter of HTTP.
    let nothing: [&str; 0] = [];
    specification.security = Some(vec![
        SecurityRequirement::new(TOKEN, nothing),
        SecurityRequirement::default(),
    ]);
    OpenApiRouter::with_openapi(specification)
        .nest(PREFIX, routes::all())
        .merge(versions::routes())
}

/// The specification as it is served: made once, when somebody asks for it.
fn specification_text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| specification().to_json().unwrap_or_default())
}

/// What answers.
pub fn router(api: Api) -> Router {
    let (router, _) = described().split_for_parts();
    let whole = router.route(
        "/openapi.json",
        axum::routing::get(|| async { ([(http::header::CONTENT_TYPE, "application/json")], specification_text()) }),
    );
    let inner = |router: Router<Api>| {
        router
            .layer(DefaultBodyLimit::max(repeat::MAX_BODY_BYTES))
            .layer(from_fn_with_state(api.clone(), repeat::once))
            .layer(from_fn_with_state(api.clone(), share::share))
            .layer(from_fn_with_state(api.clone(), who::find))
            .layer(from_fn_with_state(api.clone(), site::beside))
            .layer(from_fn(guard::guard))
    };
    let whole = whole
        .fallback(|| async {
            Problem::new(
                Code::NotFound,
                "there is nothing at this path; /openapi.json has all of them",
            )
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(
                Code::MethodNotAllowed,
                "this path is not asked in this way; /openapi.json says how",
            )
        });
    inner(whole).with_state(api)
}

/// The API, as OpenAPI 3.1.
#[must_use]
pub fn specification() -> Specification {
    specification::finish(&raw_specification())
}

/// The same as it stands at the routes.
fn raw_specification() -> Specification {
    described().to_openapi()
}
