//! Tasks of backups: one backup, one restore, or one point that is given up; nodes carry them out.

use super::input::{Body, Named, Names, Parameters, now};
use crate::page::{Cursor, Page};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, BackupTaskWish, UnreadableTask, WishedWork};
use amita_control::backups::task::{BackupTaskStatus, TaskState};
use amita_types::map::{self, BackupWork};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, remove))
        .routes(routes!(cancel))
}

/// How a task is. `unreadable`: nobody can read its record, no node is at it, and it can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackupTaskState {
    /// No node is at it: none has begun it, or it has failed and is tried again, or the node that was at it has ended.
    Waiting,
    /// A node is at it.
    Running,
    /// It was taken back, and is about to end.
    Cancelling,
    /// What was wanted is done.
    Done,
    /// It has failed, and is tried no more.
    Failed,
    /// It was taken back, and has ended.
    Cancelled,
    /// Nobody can read its record: `why` says what is wrong with it. What else could not be read is null, 0 or empty.
    Unreadable,
}

impl From<TaskState> for BackupTaskState {
    fn from(state: TaskState) -> BackupTaskState {
        match state {
            TaskState::Waiting => BackupTaskState::Waiting,
            TaskState::Running => BackupTaskState::Running,
            TaskState::Cancelling => BackupTaskState::Cancelling,
            TaskState::Done => BackupTaskState::Done,
            TaskState::Failed => BackupTaskState::Failed,
            TaskState::Cancelled => BackupTaskState::Cancelled,
        }
    }
}

/// A volume that is backed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeToBackUp {
    /// The volume's name.
    pub volume: String,
    /// The snapshot of it that is backed up; without it the volume as it is then, of which a snapshot is taken.
    pub snapshot: Option<String>,
    /// All of it is read, and no earlier point counted on; without it only what has changed since the newest point of the volume is read, where that
    /// can be told, and sent.
    #[serde(default)]
    pub full: bool,
}

/// A volume that is made of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PointToRestore {
    /// The point's number.
    #[schema(minimum = 1)]
    pub point: u64,
    /// What the point is called: one of another name is not restored. Numbers come again where a repository was set back.
    pub point_name: Option<String>,
    /// Which of the point's volumes, by the name that it had; without it its only one.
    pub volume: Option<String>,
    /// The new volume's name.
    pub to: String,
    /// The pool that is to hold it.
    pub pool: String,
    /// Is it encrypted at rest? Without it if it was when it was backed up. The node that restores it has to have the cluster's volume keys then. `false`
    /// takes an administrator, whatever it was.
    pub encrypted: Option<bool>,
    /// Whose the new volume is; without it no tenant's.
    pub tenant: Option<String>,
}

/// A point that is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PointToForget {
    /// The point's number.
    #[schema(minimum = 1)]
    pub point: u64,
    /// What the point is called: one of another name is not given up. Numbers come again where a repository was set back.
    pub point_name: Option<String>,
}

/// What a task has come to. Bytes are those of the attempt that came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupTaskResult {
    /// The number of the point that was made, restored, or given up.
    pub point: u64,
    /// What the point is called; null: it was given up before.
    pub point_name: Option<String>,
    /// When its snapshots were taken, in seconds since 1970; null: it was given up before.
    pub taken_at: Option<u64>,
    /// The size of the volume that was backed up or restored.
    pub size_bytes: u64,
    /// Bytes that were read of the volume.
    pub read_bytes: u64,
    /// Bytes that went to the repository.
    pub sent_bytes: u64,
    /// Bytes that were written to the new volume: not zeros.
    pub written_bytes: u64,
}

/// How far a task is, every few seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupTaskProgress {
    /// What is done now, in words.
    pub step: String,
    /// Up to here the volume is dealt with.
    pub done_bytes: u64,
    /// Its size; 0: that is not known yet.
    pub total_bytes: u64,
}

/// A task. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BackupTask {
    /// Its name.
    pub name: String,
    /// The number that it has for ever.
    pub id: u64,
    /// The name of the repository.
    pub repository: String,
    /// What is backed up; null: it is for something else.
    pub backup: Option<VolumeToBackUp>,
    /// What is restored; null: it is for something else.
    pub restore: Option<PointToRestore>,
    /// What is given up; null: it is for something else.
    pub forget: Option<PointToForget>,
    /// An attempt at it ends after so many seconds.
    pub limit_seconds: u64,
    /// How it is.
    pub state: BackupTaskState,
    /// When it was asked for.
    pub asked_at: u64,
    /// When it ended; null: it has not.
    pub ended_at: Option<u64>,
    /// The name of the node that is at it, or was last; null: none was yet.
    pub node: Option<String>,
    /// How often it was begun, or gone on with.
    pub attempts: u64,
    /// It has failed, and is tried again then; null: it does not wait.
    pub again_at: Option<u64>,
    /// How far it is; null: no node is at it.
    pub progress: Option<BackupTaskProgress>,
    /// What it has come to; null: nothing yet.
    pub result: Option<BackupTaskResult>,
    /// Why it has failed, or its last attempt has, in sentences.
    pub why: Vec<String>,
    /// What else is to be said of it.
    pub notes: Vec<String>,
}

impl From<BackupTaskStatus> for BackupTask {
    fn from(found: BackupTaskStatus) -> BackupTask {
        let state = found.state().into();
        let BackupTaskStatus {
            task,
            run,
            runner,
            place,
            fault,
            ..
        } = found;
        let (mut backup, mut restore, mut forget) = (None, None, None);
        match task.work {
            BackupWork::Backup(work) => {
                backup = Some(VolumeToBackUp {
                    volume: work.name,
                    snapshot: work.snapshot.map(|snapshot| snapshot.name),
                    full: work.full,
                });
            }
            BackupWork::Restore(work) => {
                restore = Some(PointToRestore {
                    point: work.point,
                    point_name: work.point_name,
                    volume: work.volume,
                    to: work.to,
                    pool: work.pool,
                    encrypted: work.encrypted,
                    tenant: work.tenant,
                });
            }
            BackupWork::Forget(work) => {
                forget = Some(PointToForget {
                    point: work.point,
                    point_name: work.point_name,
                });
            }
        }
        BackupTask {
            name: task.name,
            id: task.id.0,
            repository: task.repository,
            backup,
            restore,
            forget,
            limit_seconds: task.limit_s,
            state,
            asked_at: task.asked_at,
            ended_at: run.end.map(|end| end.at),
            node: runner.or(Some(run.node).filter(|node| !node.is_empty())),
            attempts: run.attempts,
            again_at: run.again_at,
            progress: place.map(|place| BackupTaskProgress {
                step: place.step,
                done_bytes: place.done_bytes,
                total_bytes: place.total_bytes,
            }),
            result: run.made.map(|made| BackupTaskResult {
                point: made.point,
                point_name: Some(made.point_name).filter(|name| !name.is_empty()),
                taken_at: Some(made.taken_at).filter(|at| *at > 0),
                size_bytes: made.size_bytes,
                read_bytes: made.read_bytes,
                sent_bytes: made.sent_bytes,
                written_bytes: made.written_bytes,
            }),
            why: fault.into_iter().chain(run.why).collect(),
            notes: run.notes,
        }
    }
}

impl From<UnreadableTask> for BackupTask {
    fn from(found: UnreadableTask) -> BackupTask {
        let UnreadableTask { name, why, remains } = found;
        BackupTask {
            name,
            id: remains.id.map_or(0, |id| id.0),
            repository: remains.repository.unwrap_or_default(),
            backup: None,
            restore: None,
            forget: None,
            limit_seconds: 0,
            state: BackupTaskState::Unreadable,
            asked_at: remains.asked_at.unwrap_or(0),
            ended_at: None,
            node: None,
            attempts: 0,
            again_at: None,
            progress: None,
            result: None,
            why: vec![why.to_string()],
            notes: Vec::new(),
        }
    }
}

/// A task that is to be done: exactly one of `backup`, `restore` and `forget`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackupTask {
    /// Its name: up to 64 letters, digits and `. _ -`, not beginning with `.` or `-`. Asked for again in the same words it is the task that there is.
    pub name: String,
    /// The name of the repository.
    pub repository: String,
    /// A volume that is to be backed up.
    pub backup: Option<VolumeToBackUp>,
    /// A point that a volume is to be made of.
    pub restore: Option<PointToRestore>,
    /// A point that is to be given up.
    pub forget: Option<PointToForget>,
    /// An attempt at it ends after so many seconds; a day where it is not said.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub limit_seconds: Option<u64>,
}

impl NewBackupTask {
    fn wish(self) -> Result<BackupTaskWish, Problem> {
        let work = match (self.backup, self.restore, self.forget) {
            (Some(backup), None, None) => {
                let VolumeToBackUp { volume, snapshot, full } = backup;
                let of = match snapshot {
                    Some(snapshot) => format!("{volume}@{snapshot}"),
                    None => volume,
                };
                WishedWork::Backup { of, full }
            }
            (None, Some(restore), None) => {
                let restore = map::PointRestore {
                    point: restore.point,
                    point_name: restore.point_name,
                    volume: restore.volume,
                    to: restore.to,
                    pool: restore.pool,
                    encrypted: restore.encrypted,
                    tenant: restore.tenant,
                };
                WishedWork::Restore(restore)
            }
            (None, None, Some(forget)) => {
                let forget = map::PointForget {
                    point: forget.point,
                    point_name: forget.point_name,
                };
                WishedWork::Forget(forget)
            }
            _ => {
                let why = "what is the task for? Say one of backup, restore and forget, and one of them only";
                return Err(Problem::new(Code::BadSetting, why));
            }
        };
        Ok(BackupTaskWish {
            repository: self.repository,
            work,
            limit_s: self.limit_seconds,
        })
    }
}

/// The tasks of backups, in the order of their names: those that go on, and those that have ended and were not removed.
///
/// There are 512 at most: where there is no room for another one, that goes whose end is longest ago.
#[utoipa::path(get, path = "/backup-tasks", operation_id = "listBackupTasks", tag = "backups", params(Cursor),
    responses((status = 200, body = Page<BackupTask>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<BackupTask>>, Problem> {
    let page = api.run(asker, move |session| {
        let (all, unreadable) = admin::backup_tasks(&session.reader())?;
        let unreadable = unreadable.into_iter().map(BackupTask::from);
        let mut all: Vec<BackupTask> = all.into_iter().map(BackupTask::from).chain(unreadable).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        cursor.cut(all, |task| task.name.as_str())
    });
    page.await.map(Json)
}

/// Backs a volume up into a repository, restores a volume from one, or gives up a point of one. It is begun, and not waited for.
///
/// A node that has the repository's key file carries it out; where that node dies, another one goes on. What fails is tried again after pauses, five times
/// at most. Asked for again in the same words it is the task that there is, however far that has come.
///
/// A restore makes the volume, which nobody uses until it is whole. A point that is given up is a backup no more; what no other one needs is removed from
/// the repository then, unless it is locked, or somebody is at work there.
#[utoipa::path(post, path = "/backup-tasks", operation_id = "createBackupTask", tag = "backups",
    request_body = NewBackupTask,
    responses((status = 202, body = BackupTask),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewBackupTask>,
) -> Result<(StatusCode, Json<BackupTask>), Problem> {
    let name = wanted.name.clone();
    let wish = wanted.wish()?;
    let made = api.act(asker, wish.work.action(), name.clone(), move |meta| {
        admin::create_backup_task(meta, &name, &wish, now())?;
        admin::backup_task(meta, &name).map(BackupTask::from)
    });
    Ok((StatusCode::ACCEPTED, Json(made.await?)))
}

/// A task of backups, and how far it is.
#[utoipa::path(get, path = "/backup-tasks/{name}", operation_id = "showBackupTask", tag = "backups", params(Named),
    responses((status = 200, body = BackupTask),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Json<BackupTask>, Problem> {
    let found = api.run(asker, move |session| Ok(admin::backup_task(&session.reader(), &name)?));
    Ok(Json(found.await?.into()))
}

/// Takes a task back before its end: the node that is at it ends, and what a restore has begun to fill is deleted. What was put into the repository stays
/// until that is pruned.
#[utoipa::path(post, path = "/backup-tasks/{name}/cancel", operation_id = "cancelBackupTask", tag = "backups", params(Named),
    responses((status = 202, body = BackupTask),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn cancel(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<(StatusCode, Json<BackupTask>), Problem> {
    let cancelled = api.act(asker, Action::BackupCancel, name.clone(), move |meta| {
        admin::cancel_backup_task(meta, &name, now())?;
        admin::backup_task(meta, &name).map(BackupTask::from)
    });
    Ok((StatusCode::ACCEPTED, Json(cancelled.await?)))
}

/// Removes the record of a task that has ended, or that nobody can read. What it has made stays: a backup is given up by a task of its own.
#[utoipa::path(delete, path = "/backup-tasks/{name}", operation_id = "removeBackupTask", tag = "backups", params(Named),
    responses((status = 204, description = "It is gone."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<StatusCode, Problem> {
    let removed = api.act(asker, Action::BackupTaskRemove, name.clone(), move |meta| {
        admin::remove_backup_task(meta, &name)
    });
    removed.await?;
    Ok(StatusCode::NO_CONTENT)
}
