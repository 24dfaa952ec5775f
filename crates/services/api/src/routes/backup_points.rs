//! What can be restored from a repository: its points, as its journal has them.

use super::input::{Named, Names, Parameters, cut_by_number};
use crate::data;
use crate::page::{Cursor, Page};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::admin;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Which points.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// The most items of the answer: 1 to 1000; 100 where it is not said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only points behind this one: `next` of the answer before.
    after: Option<String>,
    /// Only points that have a volume that was called so.
    volume: Option<String>,
}

/// A volume as a point has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupPointVolume {
    /// What the volume was called.
    pub name: String,
    /// The UUID of its cluster.
    pub cluster: String,
    /// The volume's UUID, by which it is known whatever it is called.
    pub uuid: String,
    /// Its size then.
    pub size_bytes: u64,
    /// It was encrypted at rest, and is where it is restored.
    pub encrypted: bool,
    /// The point that its changes were counted from, which is not needed to restore it; null: all of it was read.
    pub parent: Option<u64>,
}

/// A point of a repository: what can be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupPoint {
    /// Its number.
    pub point: u64,
    /// What it is called: `POLICY/NUMBER/TIME` is a policy's, `task NAME/NUMBER/TIME` a task's.
    pub name: String,
    /// When its snapshots were taken, in seconds since 1970.
    pub taken_at: u64,
    /// What it has.
    pub volumes: Vec<BackupPointVolume>,
}

impl From<data::BackupPointFound> for BackupPoint {
    fn from(found: data::BackupPointFound) -> BackupPoint {
        let volumes = found.volumes.into_iter().map(|volume| BackupPointVolume {
            name: volume.name,
            cluster: volume.cluster,
            uuid: volume.uuid,
            size_bytes: volume.size_bytes,
            encrypted: volume.encrypted,
            parent: volume.parent,
        });
        BackupPoint {
            point: found.number,
            name: found.name,
            taken_at: found.taken_at,
            volumes: volumes.collect(),
        }
    }
}

/// The points of a repository, the oldest first, whoever has made them.
///
/// The node that is asked reads them in the repository, and has to have its key file: where it has not, the answer is `misdirected`, and says which nodes may
/// have it.
#[utoipa::path(get, path = "/backup-repositories/{name}/points", operation_id = "listBackupPoints", tag = "backups",
    params(Named, Wanted),
    responses((status = 200, body = Page<BackupPoint>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<Page<BackupPoint>>, Problem> {
    let looked = api.run(asker.clone(), move |session| {
        Ok(admin::backup_repository(&session.reader(), &name)?)
    });
    let repository = looked.await?;
    api.data().map_err(|why| Problem::new(Code::Misdirected, why.detail))?;
    let page = api.run_on_repository(asker, move |path| {
        let cursor = Cursor {
            limit: wanted.limit,
            after: wanted.after,
        };
        let found = path.backup_points(&repository, wanted.volume.as_deref())?;
        cut_by_number(&cursor, found.into_iter().map(BackupPoint::from), |point| point.point)
    });
    page.await.map(Json)
}
