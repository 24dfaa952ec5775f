//! The cluster as a whole.

use super::input::{Force, Parameters};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError};
use amita_metadata::Transact;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(show))
        .routes(routes!(finalize))
}

/// Is the cluster well?
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Health {
    /// The cluster's number.
    pub cluster: String,
    /// In one word: `ok`, `degraded` (something is not as it should be, I/O goes on), `blocked` (I/O of some hosts waits or fails).
    #[schema(example = "ok")]
    pub health: String,
    /// What is not as it should be, the worst first.
    pub facts: Vec<Fact>,
}

/// What is so at this moment, and what to do about it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Fact {
    /// Of what kind it is: stable.
    #[schema(example = "copies-missing")]
    pub name: String,
    /// `error`, `warning` or `info`.
    #[schema(example = "warning")]
    pub severity: String,
    /// Names of what it is about.
    pub objects: Vec<String>,
    /// What is so, in a sentence.
    pub text: String,
    /// What to do, in a sentence; empty where there is nothing to do.
    pub advice: String,
}

/// Is the cluster well, and if not, what is to be done?
#[utoipa::path(get, path = "/health", operation_id = "showHealth", tag = "cluster",
    responses((status = 200, body = Health),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn health(State(api): State<Api>, asker: Asker) -> Result<Json<Health>, Problem> {
    let status = api.run(asker, |session| Ok(admin::status(&session.reader())?)).await?;
    let facts = status.facts.into_iter().map(|fact| Fact {
        name: fact.name.to_owned(),
        severity: fact.severity.to_string(),
        objects: fact.objects,
        text: fact.text,
        advice: fact.advice,
    });
    Ok(Json(Health {
        cluster: status.cluster.to_string(),
        health: status.health.to_owned(),
        facts: facts.collect(),
    }))
}

/// The cluster: its version, and what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Cluster {
    /// The cluster's number.
    pub id: String,
    /// The version that was finalized: what all its programs know.
    pub version: u32,
    /// The version that the program of the node that answers knows, and to which the cluster's could be raised.
    pub known_version: u32,
    /// What each node that runs knows, by its name.
    pub node_versions: BTreeMap<String, u32>,
    /// The names of the nodes that do not run, so that nobody can say what they know.
    pub nodes_away: Vec<String>,
    /// How much of everything there is.
    pub counts: Counts,
}

/// How much of everything there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Counts {
    /// Nodes.
    pub nodes: u64,
    /// Of them, those that hold their lease.
    pub nodes_alive: u64,
    /// Stores.
    pub stores: u64,
    /// Of them, those that are served.
    pub stores_serving: u64,
    /// Pools.
    pub pools: u64,
    /// Volumes.
    pub volumes: u64,
    /// Deleted volumes that are kept.
    pub deleted_volumes: u64,
    /// Policies of snapshots.
    pub snapshot_policies: u64,
    /// Policies of backups.
    pub backup_policies: u64,
    /// Mirrors: this cluster's ends of them.
    pub mirrors: u64,
    /// Subsystems.
    pub subsystems: u64,
    /// Namespaces of all of them.
    pub namespaces: u64,
    /// Hosts that are known.
    pub hosts: u64,
    /// Targets of iSCSI.
    pub targets: u64,
    /// LUNs of all of them.
    pub luns: u64,
    /// Initiators that are known.
    pub initiators: u64,
}

fn find(meta: &dyn Transact) -> Result<Cluster, AdminError> {
    let status = admin::status(meta)?;
    let versions = admin::versions(meta)?;
    Ok(Cluster {
        id: status.cluster.to_string(),
        version: versions.cluster,
        known_version: versions.known,
        node_versions: versions.nodes,
        nodes_away: versions.away,
        counts: Counts {
            nodes: status.nodes.len() as u64,
            nodes_alive: status.nodes.iter().filter(|node| node.alive).count() as u64,
            stores: status.stores.len() as u64,
            stores_serving: status.stores.iter().filter(|store| store.alive).count() as u64,
            pools: status.pools.len() as u64,
            volumes: status.volumes.len() as u64,
            deleted_volumes: status.deleted_volumes as u64,
            snapshot_policies: status.policies.len() as u64,
            backup_policies: status.backups.len() as u64,
            mirrors: status.mirrors.len() as u64,
            subsystems: status.nvme.subsystems as u64,
            namespaces: status.nvme.namespaces as u64,
            hosts: status.nvme.hosts as u64,
            targets: status.iscsi.targets as u64,
            luns: status.iscsi.luns as u64,
            initiators: status.iscsi.initiators as u64,
        },
    })
}

/// The cluster: its version, and what it has.
#[utoipa::path(get, path = "/cluster", operation_id = "showCluster", tag = "cluster",
    responses((status = 200, body = Cluster),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker) -> Result<Json<Cluster>, Problem> {
    let found = api.run(asker, |session| Ok(find(&session.reader())?));
    found.await.map(Json)
}

/// Raises the cluster's version to what this node's program knows, when all nodes run programs that know it.
///
/// It is never lowered, and older programs do not start in the cluster any more. `force`: also while nodes do not run, so that nobody can
/// say what they know.
#[utoipa::path(post, path = "/cluster/finalize", operation_id = "finalizeCluster", tag = "cluster", params(Force),
    responses((status = 200, body = Cluster),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn finalize(
    State(api): State<Api>,
    asker: Asker,
    Parameters(Force { force }): Parameters<Force>,
) -> Result<Json<Cluster>, Problem> {
    let raised = api.act(asker, Action::ClusterFinalize, "cluster".to_owned(), move |meta| {
        admin::finalize(meta, force)?;
        find(meta)
    });
    raised.await.map(Json)
}
