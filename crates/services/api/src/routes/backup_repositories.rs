//! Repositories that policies back up into: where they are, and what their files are called at the nodes.

use super::input::{Body, Known, Named, Names, Parameters, Settings, Shown};
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, RepositoryChange as Change};
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
        .routes(routes!(list, add))
        .routes(routes!(show, change, remove))
}

/// A repository of backups, as the cluster knows it. What its files have is never told to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupRepository {
    /// Its name.
    pub name: String,
    /// A folder of the nodes, or `s3://BUCKET/PREFIX`.
    #[schema(example = "s3://backups/amita")]
    pub address: String,
    /// The vault, in 32 hexadecimal digits; null: the one that the key opens.
    pub vault: Option<String>,
    /// The path of the key file at the nodes.
    pub key_file: String,
    /// Where the bucket is served; null: at AWS.
    pub s3_endpoint: Option<String>,
    /// The bucket's region; null: `us-east-1`.
    pub s3_region: Option<String>,
    /// The path of the file with the access key at the nodes.
    pub s3_credentials: Option<String>,
    /// The path of a file with further authorities at the nodes.
    pub s3_ca: Option<String>,
    /// The names of the nodes that may work with it; none: all that have the key file.
    pub nodes: Vec<String>,
    /// At most so many bytes a second go to it and come from it, for each run; null: as many as there can be.
    pub limit_bytes_per_second: Option<u64>,
    /// What is put is locked for so many days; null: not at all.
    pub lock_days: Option<u64>,
}

impl From<map::BackupRepository> for BackupRepository {
    fn from(found: map::BackupRepository) -> BackupRepository {
        let map::BackupRepository {
            name,
            address,
            vault,
            key_file,
            s3_endpoint,
            s3_region,
            s3_credentials,
            s3_ca,
            nodes,
            limit_bytes_per_s,
            lock_days,
        } = found;
        BackupRepository {
            name,
            address,
            vault,
            key_file,
            s3_endpoint,
            s3_region,
            s3_credentials,
            s3_ca,
            nodes,
            limit_bytes_per_second: limit_bytes_per_s,
            lock_days,
        }
    }
}

impl Settings for BackupRepository {
    fn settings(&self) -> impl Serialize {
        self
    }
}

/// A repository that is to be known.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackupRepository {
    /// Its name: up to 128 letters, digits and `. _ -`, not beginning with `.` or `-`.
    pub name: String,
    /// A folder of the nodes, by its whole path, or `s3://BUCKET/PREFIX`.
    pub address: String,
    /// The path of the key file at the nodes.
    pub key_file: String,
    /// The vault, in 32 hexadecimal digits, where the repository has several that the key opens.
    pub vault: Option<String>,
    /// Where the bucket is served, where that is not AWS.
    pub s3_endpoint: Option<String>,
    /// The bucket's region; `us-east-1` where it is not said.
    pub s3_region: Option<String>,
    /// The path of the file with the access key at the nodes; a bucket needs it.
    pub s3_credentials: Option<String>,
    /// The path of a file with further authorities at the nodes.
    pub s3_ca: Option<String>,
    /// The names of the nodes that may work with it; all that have the key file where none is named.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// At most so many bytes a second go to it and come from it, for each run.
    pub limit_bytes_per_second: Option<u64>,
    /// What is put is locked for so many days, in a bucket with object lock.
    pub lock_days: Option<u64>,
}

impl From<NewBackupRepository> for Change {
    fn from(wanted: NewBackupRepository) -> Change {
        Change {
            address: Some(wanted.address),
            vault: wanted.vault,
            key_file: Some(wanted.key_file),
            s3_endpoint: wanted.s3_endpoint,
            s3_region: wanted.s3_region,
            s3_credentials: wanted.s3_credentials,
            s3_ca: wanted.s3_ca,
            nodes: Some(wanted.nodes),
            limit_bytes_per_s: wanted.limit_bytes_per_second,
            lock_days: wanted.lock_days,
        }
    }
}

/// What of a repository is to be another; what is not there stays. An empty text, no nodes and 0 take away what was said.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupRepositoryChange {
    /// A folder of the nodes, by its whole path, or `s3://BUCKET/PREFIX`.
    pub address: Option<String>,
    /// The path of the key file at the nodes.
    pub key_file: Option<String>,
    /// The vault, in 32 hexadecimal digits.
    pub vault: Option<String>,
    /// Where the bucket is served.
    pub s3_endpoint: Option<String>,
    /// The bucket's region.
    pub s3_region: Option<String>,
    /// The path of the file with the access key at the nodes.
    pub s3_credentials: Option<String>,
    /// The path of a file with further authorities at the nodes.
    pub s3_ca: Option<String>,
    /// The names of the nodes that may work with it.
    pub nodes: Option<Vec<String>>,
    /// At most so many bytes a second go to it and come from it, for each run.
    pub limit_bytes_per_second: Option<u64>,
    /// What is put is locked for so many days.
    pub lock_days: Option<u64>,
}

impl From<BackupRepositoryChange> for Change {
    fn from(wanted: BackupRepositoryChange) -> Change {
        let BackupRepositoryChange {
            address,
            key_file,
            vault,
            s3_endpoint,
            s3_region,
            s3_credentials,
            s3_ca,
            nodes,
            limit_bytes_per_second,
            lock_days,
        } = wanted;
        Change {
            address,
            vault,
            key_file,
            s3_endpoint,
            s3_region,
            s3_credentials,
            s3_ca,
            nodes,
            limit_bytes_per_s: limit_bytes_per_second,
            lock_days,
        }
    }
}

fn find(meta: &dyn Transact, name: &str) -> Result<BackupRepository, AdminError> {
    admin::backup_repository(meta, name).map(BackupRepository::from)
}

fn look(meta: &dyn Transact, name: &str) -> Result<(BackupRepository, Identity), AdminError> {
    let found = find(meta, name)?;
    let identity = Identity::of(&found.settings(), vec![map::backup_repository_key(name)]);
    Ok((found, identity))
}

/// The repositories of backups that the cluster knows, in the order of their names.
#[utoipa::path(get, path = "/backup-repositories", operation_id = "listBackupRepositories", tag = "backups", params(Cursor),
    responses((status = 200, body = Page<BackupRepository>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<BackupRepository>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::backup_repositories(&session.reader())?;
        cursor.cut(all.into_iter().map(BackupRepository::from), |found| found.name.as_str())
    });
    page.await.map(Json)
}

/// Has the cluster know a repository. Nothing is asked of it; its vault is made by `amita backup repository init`.
#[utoipa::path(post, path = "/backup-repositories", operation_id = "addBackupRepository", tag = "backups",
    request_body = NewBackupRepository,
    responses((status = 201, body = BackupRepository, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn add(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewBackupRepository>,
) -> Result<Shown<BackupRepository>, Problem> {
    let name = wanted.name.clone();
    let change = Change::from(wanted);
    let added = api.act(asker, Action::BackupRepositoryAdd, name.clone(), move |meta| {
        admin::add_backup_repository(meta, &name, &change)?;
        find(meta, &name)
    });
    Ok(Shown(StatusCode::CREATED, added.await?))
}

/// A repository of backups.
#[utoipa::path(get, path = "/backup-repositories/{name}", operation_id = "showBackupRepository", tag = "backups",
    params(Named),
    responses((status = 200, body = BackupRepository, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Shown<BackupRepository>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Shown(StatusCode::OK, found.await?))
}

/// Changes what the cluster knows of a repository. A run that is under way ends, and is gone on with by what is said then.
#[utoipa::path(patch, path = "/backup-repositories/{name}", operation_id = "changeBackupRepository", tag = "backups",
    request_body = BackupRepositoryChange, params(Named, Known),
    responses((status = 200, body = BackupRepository, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
    Body(wanted): Body<BackupRepositoryChange>,
) -> Result<Shown<BackupRepository>, Problem> {
    let change = Change::from(wanted);
    let changed = api.run(asker, move |session| {
        session.permit(Action::BackupRepositorySet, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        if change != Change::default() {
            held.act(Action::BackupRepositorySet, &name, |meta| {
                admin::set_backup_repository(meta, &name, &change)
            })?;
        }
        Ok(find(&session.reader(), &name)?)
    });
    Ok(Shown(StatusCode::OK, changed.await?))
}

/// Has the cluster forget a repository that no policy uses; what is in it stays.
#[utoipa::path(delete, path = "/backup-repositories/{name}", operation_id = "removeBackupRepository", tag = "backups",
    params(Named, Known),
    responses((status = 204, description = "It is forgotten."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let held = known.check(session, |meta| look(meta, &name))?;
        held.act(Action::BackupRepositoryRemove, &name, |meta| {
            admin::remove_backup_repository(meta, &name)
        })?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}
