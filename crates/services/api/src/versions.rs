//! Which versions of the API a node speaks: the one thing that stands outside of them.

use crate::PREFIX;
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::admin;
use amita_types::map;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// What a node speaks, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Versions {
    /// The versions of the API, the best first: a client takes the first one that it knows. A release speaks those of the release before it.
    pub versions: Vec<ApiVersion>,
    /// The version of the program that answers.
    #[schema(example = "0.1.0")]
    pub software: String,
    /// The newest version of the cluster's records that this program knows.
    pub known_cluster_version: u32,
    /// The version of the cluster that was finalized: what all its programs know. Null: the metadata is away.
    pub cluster_version: Option<u32>,
}

/// A version of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApiVersion {
    /// Its name.
    #[schema(example = "v1")]
    pub name: String,
    /// What all its paths begin with.
    #[schema(example = "/api/v1")]
    pub path: String,
    /// How it stands: `stable` (it gains operations and fields, and loses none), or `leaving` (there is a better one, and the next
    /// release does not speak it any more).
    #[schema(example = "stable")]
    pub state: String,
}

/// Which versions of the API this node speaks, and which version its program and the cluster have.
#[utoipa::path(get, path = "/api", operation_id = "listVersions", tag = "cluster",
    responses((status = 200, body = Versions),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker) -> Result<Json<Versions>, Problem> {
    let found = api.run(asker, |session| Ok(admin::versions(&session.reader())?.cluster));
    let cluster_version = match found.await {
        Ok(version) => Some(version),
        // What is spoken is known without it.
        Err(problem) if problem.code == Code::MetadataAway.text() => None,
        Err(problem) => return Err(problem),
    };
    Ok(Json(Versions {
        versions: vec![ApiVersion {
            name: "v1".to_owned(),
            path: PREFIX.to_owned(),
            state: "stable".to_owned(),
        }],
        software: env!("CARGO_PKG_VERSION").to_owned(),
        known_cluster_version: map::METADATA_VERSION,
        cluster_version,
    }))
}
