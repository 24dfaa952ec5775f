//! Volumes that are made copies of others, move to another pool, or are written anew in their own.

use super::input::{Body, Named, Names, now};
use super::jobs::Job;
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AtRest, CopyWish, DataKeys, MigrateWish};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(copy))
        .routes(routes!(migrate))
        .routes(routes!(rekey))
}

/// A volume that is to be a copy.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCopy {
    /// Its name.
    #[schema(example = "db2")]
    pub name: String,
    /// The pool that is to hold it.
    pub pool: String,
    /// The snapshot that it is to be a copy of; without one it is the volume as it is soon.
    pub snapshot: Option<String>,
    /// The older snapshots, too, each with its name and its labels.
    #[serde(default)]
    pub snapshots: bool,
    /// At most so many bytes a second are read; without it as many as can be. 65536 are the fewest.
    pub limit_bytes_per_second: Option<u64>,
    /// It is encrypted, also where its source is not; where that is, it is in any case. The node that is asked has to have the cluster's volume
    /// keys then.
    #[serde(default)]
    pub encrypted: bool,
}

/// Makes a volume that is to be a copy of this one, in any pool, while hosts go on using this one. It is begun, and not waited for.
///
/// Nodes make it what a snapshot is: the one that is named, or one that is taken for it, and goes when the copy is whole. Until then nobody
/// uses it. The job that is answered is gone when it is whole; taken back (`POST /jobs/{id}/cancel`), the volume goes.
#[utoipa::path(post, path = "/volumes/{name}/copies", operation_id = "copyVolume", tag = "volumes", request_body = NewCopy,
    params(Named),
    responses((status = 202, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn copy(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<NewCopy>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    let keys = api.data_keys();
    let begun = api.act(asker, Action::VolumeCopy, wanted.name.clone(), move |meta| {
        let of = match &wanted.snapshot {
            Some(snapshot) => format!("{name}@{snapshot}"),
            None => name,
        };
        let wish = CopyWish {
            of: &of,
            name: &wanted.name,
            pool: &wanted.pool,
            snapshots: wanted.snapshots,
            limit_bytes_per_s: wanted.limit_bytes_per_second,
            encrypted: wanted.encrypted,
            keys: keys.as_deref().map(|keys| keys as &dyn DataKeys),
            now: now(),
        };
        let copying = admin::copy_volume(meta, &wish)?;
        Ok(Job::from(admin::copy_job(&copying, now())))
    });
    Ok((StatusCode::ACCEPTED, Json(begun.await?)))
}

/// A volume that is to move.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// The pool that is to hold it.
    pub pool: String,
    /// Is it encrypted there? Without it if it is now; `false` takes an administrator. The node that is asked has to have the cluster's volume keys for
    /// what is to be encrypted.
    pub encrypted: Option<bool>,
    /// At most so many bytes a second are read; without it as many as can be. 65536 are the fewest.
    pub limit_bytes_per_second: Option<u64>,
}

/// Moves this volume to another pool, with its snapshots, while hosts go on using it. It is begun, and not waited for.
///
/// Nodes move it. Until the end it is where it was; then its name stands for what is in the other pool, and hosts, which see the same disk, wait for a
/// moment. The job that is answered is gone then; taken back before (`POST /jobs/{id}/cancel`), the volume stays where it is.
#[utoipa::path(post, path = "/volumes/{name}/migrate", operation_id = "migrateVolume", tag = "volumes", request_body = Migration,
    params(Named),
    responses((status = 202, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn migrate(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<Migration>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    begin(
        &api,
        asker,
        name,
        Some(wanted.pool),
        wanted.encrypted,
        wanted.limit_bytes_per_second,
    )
    .await
}

/// How a volume is to be written anew.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rekeying {
    /// Is it encrypted from then on? Without it if it is now, which it has to be then; `false` takes an administrator. The node that is asked has to have
    /// the cluster's volume keys for what is to be encrypted.
    pub encrypted: Option<bool>,
    /// At most so many bytes a second are read; without it as many as can be. 65536 are the fewest.
    pub limit_bytes_per_second: Option<u64>,
}

/// Writes this volume anew in its pool, with its snapshots, while hosts go on using it: by a new data key, encrypted where it was not, or in the clear.
/// It is begun, and not waited for.
///
/// Until the end it is what it was, and takes the space of both; then its name stands for what was written anew, and hosts, which see the same disk, wait
/// for a moment. The data key of before is erased then, unless other volumes are read by it: clones of its snapshots. The job that is answered is gone
/// at the end; taken back before (`POST /jobs/{id}/cancel`), the volume stays as it is.
#[utoipa::path(post, path = "/volumes/{name}/rekey", operation_id = "rekeyVolume", tag = "volumes", request_body = Rekeying,
    params(Named),
    responses((status = 202, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn rekey(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<Rekeying>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    begin(&api, asker, name, None, wanted.encrypted, wanted.limit_bytes_per_second).await
}

/// Begins a move, or what is one within a pool.
async fn begin(
    api: &Api,
    asker: Asker,
    name: String,
    pool: Option<String>,
    encrypted: Option<bool>,
    limit_bytes_per_s: Option<u64>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    let (keys, at_rest) = (api.data_keys(), AtRest::from(encrypted));
    let action = admin::migrate_action(pool.as_deref(), at_rest);
    let begun = api.act(asker, action, name.clone(), move |meta| {
        let wish = MigrateWish {
            volume: &name,
            pool: pool.as_deref(),
            at_rest,
            limit_bytes_per_s,
            keys: keys.as_deref().map(|keys| keys as &dyn DataKeys),
            now: now(),
        };
        let moving = admin::migrate_volume(meta, &wish)?;
        Ok(Job::from(admin::copy_job(&moving, now())))
    });
    Ok((StatusCode::ACCEPTED, Json(begun.await?)))
}
