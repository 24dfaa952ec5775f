//! Tasks of backups: what somebody wants once, and what nodes have made of it.

use super::super::error::AdminError;
use super::super::subsystem::{put, unchanged};
use super::super::unreadable::{What, misplaced, read_as};
use super::super::volume::{believable, find_volume};
use super::super::{Result, check_name, cluster, get, names_under, next_number, snapshot, split, tries};
use super::repository::hold;
use crate::access::Action;
use crate::backups::task::{self, BackupTaskStatus};
use amita_metadata::{Call, Compare, KeyValue, Op, Transact};
use amita_types::map::{
    self, BackedSnapshot, BackupTask, BackupTaskId, BackupTaskPlace, BackupTaskRun, BackupWork, DEFAULT_BACKUP_LIMIT_S,
    MAX_BACKUP_TASKS, MAX_POLICY_NAME, PointForget, PointRestore, Pool, SNAPSHOTS_SINCE, VolumeBackup,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest name of a point that may be expected, in bytes: that of names in a repository.
const MAX_POINT_NAME: usize = 1024;

/// What somebody wants of a repository, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupTaskWish {
    /// The name of the repository.
    pub repository: String,
    /// What is to be done.
    pub work: WishedWork,
    /// An attempt at it ends after so many seconds; none: a day.
    pub limit_s: Option<u64>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WishedWork {
    /// A point is made of a volume.
    Backup {
        /// VOLUME: as it is then; or VOLUME@SNAPSHOT.
        of: String,
        /// All of it is read, and no earlier point counted on.
        full: bool,
    },
    /// A volume is made of a point.
    Restore(PointRestore),
    /// A point is given up.
    Forget(PointForget),
}

impl WishedWork {
    /// As what it stands in the audit log. What was encrypted is never had in the clear by whoever may only restore it; if it was is known to nodes with
    /// the repository's key file alone, so that who asks for it in the clear needs the right to that whatever it was.
    #[must_use]
    pub fn action(&self) -> Action {
        match self {
            WishedWork::Backup { .. } => Action::BackupCreate,
            WishedWork::Restore(PointRestore {
                encrypted: Some(false), ..
            }) => Action::VolumeDecrypt,
            WishedWork::Restore(_) => Action::BackupRestore,
            WishedWork::Forget(_) => Action::BackupForget,
        }
    }
}

fn bad(name: &str, why: String) -> AdminError {
    AdminError::BadSetting {
        what: "backup task",
        name: name.to_owned(),
        why,
    }
}

const WHAT: What = What {
    name: "backup task",
    ends_by: "backup task remove",
    flag: "",
};

/// The records of tasks under their names, read: of all records of tasks, or of all of those. One of another task, which somebody has copied by hand, is none
/// of the name that it lies under, nor of a number that one which is there longer has: what it says of runs, and of who is at it, is the other one's.
fn read_all(records: &[KeyValue]) -> Vec<(&str, &KeyValue, Result<BackupTask>)> {
    let prefix = map::backup_task_names_prefix();
    let of_names = records
        .iter()
        .filter_map(|found| Some((found.key.strip_prefix(&prefix)?, found)));
    let mut all: Vec<_> = of_names
        .map(|(name, found)| (name, found, read_as::<BackupTask>(WHAT, name, found)))
        .collect();
    let is_own = |name: &str, task: &BackupTask| task.name == name;
    let mut first: BTreeMap<BackupTaskId, (u64, String)> = BTreeMap::new();
    for (name, found, task) in &all {
        if let Ok(task) = task.as_ref()
            && is_own(name, task)
        {
            let own = (found.create_revision, task.name.clone());
            let known = first.entry(task.id).or_insert_with(|| own.clone());
            if own < *known {
                *known = own;
            }
        }
    }
    for (name, found, read) in &mut all {
        let Ok(task) = read else { continue };
        let why = match first.get(&task.id) {
            Some((_, own)) if own != name => format!("it has the number of task {own}: {}", task.id.0),
            _ if !is_own(name, task) => format!("it is the record of task {}", task.mark().escape_debug()),
            _ => continue,
        };
        *read = Err(misplaced(WHAT, name, found, &why));
    }
    all
}

fn named(meta: &dyn Transact, name: &str) -> Result<Option<(BackupTask, u64)>> {
    let reply = meta.txn(&Call::prefix(map::backup_task_names_prefix()))?;
    let own = read_all(reply.values(0)).into_iter().find(|(known, ..)| *known == name);
    own.map(|(_, found, task)| Ok((task?, found.mod_revision))).transpose()
}

fn find(meta: &dyn Transact, name: &str) -> Result<(BackupTask, u64)> {
    match named(meta, name)? {
        Some(found) => Ok(found),
        None => Err(AdminError::NoSuch {
            what: "backup task",
            name: name.to_owned(),
            there: names_under(meta, &map::backup_task_names_prefix())?,
        }),
    }
}

/// Is it what the task was made for? By what was said then: a volume may have another name by now, or be gone.
fn is_same(task: &BackupTask, wish: &BackupTaskWish) -> bool {
    let is_same_work = match (&task.work, &wish.work) {
        (BackupWork::Backup(backup), WishedWork::Backup { of, full }) => {
            let snapshot = backup.snapshot.as_ref().map(|snapshot| snapshot.name.as_str());
            let named = match of.split_once('@') {
                Some((volume, snapshot)) => (volume, Some(snapshot)),
                None => (of.as_str(), None),
            };
            (backup.name.as_str(), snapshot) == named && backup.full == *full
        }
        (BackupWork::Restore(restore), WishedWork::Restore(wished)) => restore == wished,
        (BackupWork::Forget(forget), WishedWork::Forget(wished)) => forget == wished,
        _ => false,
    };
    is_same_work && task.repository == wish.repository && task.limit_s == wish.limit_s.unwrap_or(DEFAULT_BACKUP_LIMIT_S)
}

/// What of a wish can be seen to be impossible is refused at once: the rest is seen by whoever has the repository open.
fn work_of(meta: &dyn Transact, name: &str, wish: &WishedWork) -> Result<BackupWork> {
    let check_point = |point: u64, called: &Option<String>| {
        if point == 0 {
            return Err(bad(name, "points are numbered from 1 on".to_owned()));
        }
        match called.as_ref().map(String::len) {
            Some(bytes) if bytes > MAX_POINT_NAME || bytes == 0 => {
                let why = format!("no point has a name of {bytes} bytes; 1 to {MAX_POINT_NAME} can be");
                Err(bad(name, why))
            }
            _ => Ok(()),
        }
    };
    match wish {
        WishedWork::Backup { of, full } => {
            let (volume, named) = split(of)?;
            let (found, _) = find_volume(meta, volume)?;
            let snapshot = named.map(|named| snapshot(meta, volume, named)).transpose()?;
            Ok(BackupWork::Backup(VolumeBackup {
                volume: found.host(),
                name: volume.to_owned(),
                snapshot: snapshot.map(|found| BackedSnapshot {
                    name: found.name,
                    number: found.number,
                    taken_at: found.taken_at,
                }),
                full: *full,
            }))
        }
        WishedWork::Restore(restore) => {
            check_name("volume", &restore.to)?;
            check_point(restore.point, &restore.point_name)?;
            if get::<map::Volume>(meta, &map::volume_key(&restore.to))?.is_some() {
                return Err(AdminError::Exists {
                    what: "volume",
                    name: restore.to.clone(),
                });
            }
            if get::<Pool>(meta, &map::pool_key(&restore.pool))?.is_none() {
                return Err(AdminError::NoSuch {
                    what: "pool",
                    name: restore.pool.clone(),
                    there: names_under(meta, &map::pool_key(""))?,
                });
            }
            if let Some(volume) = &restore.volume {
                check_name("volume", volume)?;
            }
            if let Some(tenant) = &restore.tenant {
                check_name("tenant", tenant)?;
            }
            Ok(BackupWork::Restore(restore.clone()))
        }
        WishedWork::Forget(forget) => {
            check_point(forget.point, &forget.point_name)?;
            Ok(BackupWork::Forget(forget.clone()))
        }
    }
}

fn cannot(task: &str, what: &'static str, why: String) -> AdminError {
    AdminError::BackupTaskCannot {
        task: task.to_owned(),
        what,
        why,
    }
}

/// Has a node do something with a repository, once. Asked for again in the same words it is the task that there is, however far that has come.
///
/// # Errors
/// What is wanted cannot be; there is no such repository, volume, snapshot or pool; there is a task of that name that is for something else; there are
/// too many that have not ended; a cluster whose version does not know snapshots; the metadata is away or refuses.
pub fn create_backup_task(meta: &dyn Transact, name: &str, wish: &BackupTaskWish, now: Duration) -> Result<BackupTask> {
    check_name("backup task", name)?;
    if name.len() > MAX_POLICY_NAME {
        let why = format!("a name of {} bytes; {MAX_POLICY_NAME} are the most", name.len());
        return Err(bad(name, why));
    }
    let limits = super::policy::LIMITS_S;
    if let Some(limit) = wish.limit_s.filter(|limit| !limits.contains(limit)) {
        let (least, most) = (limits.start(), limits.end());
        return Err(bad(
            name,
            format!("a time limit of {limit} s; {least} to {most} s can be"),
        ));
    }
    let key = map::backup_task_key(name);
    for _ in tries(meta) {
        let all = backup_tasks(meta)?.0;
        if let Some((found, _)) = named(meta, name)? {
            return match is_same(&found, wish) {
                true => Ok(found),
                false => Err(AdminError::Exists {
                    what: "backup task",
                    name: name.to_owned(),
                }),
            };
        }
        let version = cluster(meta)?.version;
        if version < SNAPSHOTS_SINCE {
            let why = format!(
                "the cluster's version is {version}, and backups need snapshots, which need {SNAPSHOTS_SINCE}: all its programs must know of \
                 them first"
            );
            return Err(bad(name, why));
        }
        let work = work_of(meta, name, &wish.work)?;
        believable(meta)?;
        let task = BackupTask {
            id: BackupTaskId(next_number(meta, "backup-tasks")?),
            name: name.to_owned(),
            repository: wish.repository.clone(),
            work,
            asked_at: now.as_secs(),
            limit_s: wish.limit_s.unwrap_or(DEFAULT_BACKUP_LIMIT_S),
            cancelled: false,
        };
        let mut call = Call {
            compares: vec![unchanged(&key, 0)],
            then: vec![put(key.clone(), &task)],
            otherwise: Vec::new(),
        };
        make_room(meta, name, &all, &mut call)?;
        hold(meta, &task.repository, &mut call)?;
        if meta.txn(&call)?.succeeded {
            return Ok(task);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Where there are as many tasks as can be, the one goes whose end is longest ago.
fn make_room(meta: &dyn Transact, name: &str, all: &[BackupTaskStatus], call: &mut Call) -> Result<()> {
    let surplus = (all.len() + 1).saturating_sub(MAX_BACKUP_TASKS);
    let mut ended: Vec<&BackupTaskStatus> = all.iter().filter(|found| found.has_ended()).collect();
    if ended.len() < surplus {
        let why = format!(
            "there are {} that have not ended, and no more can be; `amita backup task cancel` takes one back",
            all.len()
        );
        return Err(bad(name, why));
    }
    ended.sort_by_key(|found| (found.run.end.map(|end| end.at), found.task.id));
    for found in ended.into_iter().take(surplus) {
        // Removed and asked for again since it was read it is another task, which has not ended.
        let key = map::backup_task_key(&found.task.name);
        let there = get::<BackupTask>(meta, &key)?.filter(|(task, _)| task.id == found.task.id);
        let revision = there.map_or(0, |(_, revision)| revision);
        call.compares.push(unchanged(&key, revision));
        call.then.extend(deletes(&found.task));
    }
    Ok(())
}

/// All that there is of a task.
fn deletes(task: &BackupTask) -> [Op; 3] {
    [
        map::backup_task_key(&task.name),
        map::backup_task_run_key(task.id),
        map::backup_task_place_key(task.id),
    ]
    .map(|key| Op::Delete { key })
}

/// Takes a task back: whoever is at it ends, and what a restore has begun to fill goes. One that has ended stays as it is.
///
/// # Errors
/// There is none of that name; it has ended otherwise; the metadata is away or refuses.
pub fn cancel_backup_task(meta: &dyn Transact, name: &str, now: Duration) -> Result<BackupTask> {
    let key = map::backup_task_key(name);
    for _ in tries(meta) {
        let (mut task, revision) = find(meta, name)?;
        let run_key = map::backup_task_run_key(task.id);
        let found = get::<BackupTaskRun>(meta, &run_key)?;
        let (mut run, run_revision) = found.unwrap_or_default();
        match run.end.map(|end| end.how) {
            None if task.cancelled => return Ok(task),
            None => {}
            Some(map::BackupTaskOutcome::Cancelled) => return Ok(task),
            Some(_) => {
                return Err(cannot(name, "cancelled", "it has ended".to_owned()));
            }
        }
        task.cancelled = true;
        let mut call = Call {
            compares: vec![unchanged(&key, revision), unchanged(&run_key, run_revision)],
            then: vec![put(key.clone(), &task)],
            otherwise: Vec::new(),
        };
        // What nobody has begun is over with that: there may be no node that could.
        if run.attempts == 0 {
            crate::backups::task::cancel(&mut run, now.as_secs());
            call.compares.push(unchanged(&map::backup_task_runner_key(task.id), 0));
            call.then.push(put(run_key, &run));
            if meta.txn(&call)?.succeeded {
                return Ok(task);
            }
            call.compares.pop();
            call.then.pop();
        }
        if meta.txn(&call)?.succeeded {
            return Ok(task);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Removes the record of a task that has ended, or that nobody can read. What it has made stays. None: it could not be read.
///
/// # Errors
/// There is none of that name; it has not ended; a node is at one that cannot be read, by a program that can; the metadata is away or refuses.
pub fn remove_backup_task(meta: &dyn Transact, name: &str) -> Result<Option<BackupTask>> {
    let key = map::backup_task_key(name);
    for _ in tries(meta) {
        let (task, revision) = match find(meta, name) {
            Err(AdminError::Unreadable { .. }) => match remove_unreadable(meta, name)? {
                true => return Ok(None),
                false => continue,
            },
            found => found?,
        };
        let reply = meta.txn(&Call::get(map::backup_task_run_key(task.id)))?;
        // One that nobody can read is of no more use.
        let has_ended = reply
            .value(0)
            .is_some_and(|found| found.json::<BackupTaskRun>().map_or(true, |run| run.end.is_some()));
        if !has_ended {
            let why = format!("it has not ended; `amita backup task cancel {name}` takes it back");
            return Err(cannot(name, "removed", why));
        }
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: deletes(&task).into(),
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(Some(task));
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Is it removed? Else it is another one by now.
fn remove_unreadable(meta: &dyn Transact, name: &str) -> Result<bool> {
    let key = map::backup_task_key(name);
    let reply = meta.txn(&Call::prefix(map::backup_task_names_prefix()))?;
    let mut all = read_all(reply.values(0)).into_iter();
    let is_one = |(known, found, task)| (known == name && Result::is_err(&task)).then_some(found);
    let Some(found): Option<&KeyValue> = all.find_map(is_one) else {
        return Ok(false);
    };
    let id = Remains::of(found).id;
    let mut others = reply.values(0).iter().filter(|other| other.key != key);
    let is_anothers = others.any(|other| id.is_some() && Remains::of(other).id == id);
    let mut call = Call {
        compares: vec![unchanged(&key, found.mod_revision)],
        then: vec![Op::Delete { key: key.clone() }],
        otherwise: Vec::new(),
    };
    // What has become of another task stays, though this record, copied by hand, says that it is of this one.
    if let Some(id) = id.filter(|_| !is_anothers) {
        let runner = map::backup_task_runner_key(id);
        let held = meta.txn(&Call::get(runner.as_str()))?;
        if let Some(held) = held.value(0) {
            let node = held.json::<String>().unwrap_or_default();
            let why =
                format!("it cannot be read, and node {node} is at it, whose program can: that of it takes it back");
            return Err(cannot(name, "removed", why));
        }
        call.compares.push(unchanged(&runner, 0));
        let of = [map::backup_task_run_key(id), map::backup_task_place_key(id)];
        call.then.extend(of.map(|key| Op::Delete { key }));
    }
    Ok(meta.txn(&call)?.succeeded)
}

fn status(task: BackupTask, [run, runner, place]: [Option<&KeyValue>; 3]) -> BackupTaskStatus {
    let read = run.map(|found| serde_json::from_slice::<BackupTaskRun>(&found.value));
    let (run, fault) = match read.transpose() {
        Ok(run) => (run.unwrap_or_default(), None),
        Err(why) => {
            let why = format!(
                "what has become of it, {}, cannot be read: {why}; `amita backup task remove {}` removes it",
                map::backup_task_run_key(task.id),
                task.name
            );
            (BackupTaskRun::default(), Some(why))
        }
    };
    let runner = runner.and_then(|found| found.json::<String>().ok());
    let place = place.and_then(|found| found.json::<BackupTaskPlace>().ok());
    BackupTaskStatus {
        seen_at: place.as_ref().map_or(0, |place| place.at),
        behind_until: 0,
        place: place.filter(|_| runner.is_some() && run.end.is_none()),
        task,
        run,
        runner,
        fault,
    }
}

/// A task whose record nobody can read, or that is another one's: a newer version has written it, or somebody by hand.
#[derive(Debug)]
pub struct UnreadableTask {
    /// Its name.
    pub name: String,
    /// What is wrong with it, and what removes it.
    pub why: AdminError,
    /// What of it can be read all the same.
    pub remains: Remains,
}

impl UnreadableTask {
    fn of(name: &str, found: &KeyValue, why: AdminError) -> UnreadableTask {
        UnreadableTask {
            why,
            name: name.to_owned(),
            remains: Remains::of(found),
        }
    }

    /// May it be for that repository?
    pub(super) fn may_be_for(&self, repository: &str) -> bool {
        self.remains
            .repository
            .as_deref()
            .is_none_or(|named| named == repository)
    }
}

/// What can be read of a task's record that as a whole cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Its number.
    pub id: Option<BackupTaskId>,
    /// The name of the repository.
    pub repository: Option<String>,
    /// When it was asked for, in seconds since 1970.
    pub asked_at: Option<u64>,
}

impl Remains {
    /// Each by itself: where one is not what it should be, the others may.
    fn of(found: &KeyValue) -> Remains {
        fn field<T: DeserializeOwned>(all: &Value, name: &str) -> Option<T> {
            T::deserialize(all.get(name)?).ok()
        }
        let all: Value = found.json().unwrap_or_default();
        Remains {
            id: field(&all, "id"),
            repository: field(&all, "repository"),
            asked_at: field(&all, "asked_at"),
        }
    }
}

/// All tasks by name, and what has become of them; and those whose records cannot be read, which hide no other.
///
/// # Errors
/// The metadata is away.
pub fn backup_tasks(meta: &dyn Transact) -> Result<(Vec<BackupTaskStatus>, Vec<UnreadableTask>)> {
    let reply = meta.txn(&Call::prefix(map::backup_tasks_prefix()))?;
    let records: BTreeMap<&str, &KeyValue> = reply
        .values(0)
        .iter()
        .map(|found| (found.key.as_str(), found))
        .collect();
    let (mut all, mut unreadable) = (Vec::new(), Vec::new());
    for (name, found, task) in read_all(reply.values(0)) {
        match task {
            Ok(task) => {
                let record = |key: String| records.get(key.as_str()).copied();
                let of = [
                    record(map::backup_task_run_key(task.id)),
                    record(map::backup_task_runner_key(task.id)),
                    record(map::backup_task_place_key(task.id)),
                ];
                all.push(status(task, of));
            }
            Err(why) => unreadable.push(UnreadableTask::of(name, found, why)),
        }
    }
    task::line_up(&mut all);
    Ok((all, unreadable))
}

/// A task, and what has become of it.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn backup_task(meta: &dyn Transact, name: &str) -> Result<BackupTaskStatus> {
    let task = find(meta, name)?.0;
    let keys = [
        map::backup_task_run_key(task.id),
        map::backup_task_runner_key(task.id),
        map::backup_task_place_key(task.id),
    ];
    let reply = meta.txn(&Call {
        then: keys.into_iter().map(|key| Op::Get { key }).collect(),
        ..Call::default()
    })?;
    Ok(status(task, [0, 1, 2].map(|index| reply.value(index))))
}

/// Writes what has become of a task, if its key is held still by `claim`, the task is there, made by the transaction of revision `made`, and nobody
/// else has written that since `revision`; 0: nobody ever has. The record's revision then; none: one of these is not so.
///
/// # Errors
/// The metadata is away or refuses.
pub fn note_backup_task(
    meta: &dyn Transact,
    task: &BackupTask,
    made: u64,
    claim: u64,
    revision: u64,
    run: &BackupTaskRun,
) -> Result<Option<u64>> {
    let key = map::backup_task_run_key(task.id);
    let mut call = Call {
        compares: vec![
            unchanged(&map::backup_task_runner_key(task.id), claim),
            unchanged(&key, revision),
            Compare::CreateRevision {
                key: map::backup_task_key(&task.name),
                equals: made,
            },
        ],
        then: vec![put(key, run)],
        otherwise: Vec::new(),
    };
    if run.end.is_some() {
        call.then.push(Op::Delete {
            key: map::backup_task_place_key(task.id),
        });
    }
    let reply = meta.txn(&call)?;
    Ok(reply.succeeded.then_some(reply.revision))
}

/// Says how far a task is, if its key is held still by `claim`.
///
/// # Errors
/// The metadata is away or refuses.
pub fn note_backup_task_place(
    meta: &dyn Transact,
    task: BackupTaskId,
    claim: u64,
    place: &BackupTaskPlace,
) -> Result<bool> {
    let call = Call {
        compares: vec![unchanged(&map::backup_task_runner_key(task), claim)],
        then: vec![put(map::backup_task_place_key(task), place)],
        otherwise: Vec::new(),
    };
    Ok(meta.txn(&call)?.succeeded)
}
