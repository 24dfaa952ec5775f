//! An attempt at a task of backups, on the node that has its key.
//!
//! What is made already is found: a point by the task's name and number in the repository, a volume by the mark of its import, so that an attempt needs to
//! know nothing of those before it. Sessions of these that are open still are fenced first: whoever was at the task before has lost its key.

use super::super::super::base::Subject;
use super::super::super::by::By;
use super::super::super::failure::{BUSY, Described as _, carried};
use super::super::super::points::Which;
use super::super::super::pour::{self, What};
use super::super::super::target::{self, Target};
use super::super::super::task::{self as backing, Shows, Task};
use super::super::super::{prune, sessions};
use super::super::attempt::{Had, Read, now, read, said};
use super::super::ends::{Ends, Why};
use super::super::noted::{noted, surely};
use crate::admin::Described as _;
use crate::commands::volume::data::Way;
use crate::commands::volume::ended::Ended;
use amita_backup::{Point, State, Vault, VolumePoint};
use amita_client::Config;
use amita_control::admin::{self, AdminError, DataKeys, Deletion};
use amita_control::backups::plan;
use amita_control::backups::task::{self, TaskStep};
use amita_metadata::{Call, Compare, Error, Reply, Transact};
use amita_node::volume_keys::KeyFile;
use amita_terminal::error::{Failure, Kind};
use amita_terminal::interrupt;
use amita_terminal::progress::ProgressBar;
use amita_types::VolumeId;
use amita_types::map::{
    self, About, BackupRepository, BackupTask, BackupTaskMade, BackupTaskRun, BackupWork, Import, Namespace,
    PointForget, PointRestore, Volume, VolumeBackup,
};
use std::time::Duration;

/// The longest wait for a snapshot, and for the end of a volume that is deleted.
const PATIENCE: Duration = Duration::from_secs(60);
/// A volume that has answered nothing for so long has failed.
const STALL: Duration = Duration::from_secs(120);
/// The code of what a node with the repository's key file can do.
const NO_KEY_FILE: &str = "no-key-file";

/// What an attempt works with.
pub struct Attempt<'a> {
    pub client: &'a dyn Transact,
    pub config: &'a Config,
    /// The name of this node.
    pub node: &'a str,
    /// By which the task's key was made.
    pub claim: u64,
    pub ends: &'a Ends<BackupTask>,
    /// The task's name, by which it is read.
    pub task: &'a str,
    /// How far it is.
    pub bar: &'a ProgressBar,
}

/// The records that it goes by.
struct Records {
    task: BackupTask,
    /// The revision by which the task was made.
    made: u64,
    repository: Option<BackupRepository>,
    run: BackupTaskRun,
    /// Of that record; 0: nobody has written it.
    revision: u64,
}

/// The metadata, which takes changes only for as long as this node has the task's key. An attempt that stood still while another node went on with the
/// task would else say of a volume that is whole that it is filled still, or of one that is being filled that it is whole, or delete it.
struct Fenced<'a> {
    client: &'a dyn Transact,
    key: Compare,
}

impl Transact for Fenced<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if call.is_read_only() {
            return self.client.txn(call);
        }
        let mut fenced = call.clone();
        fenced.compares.push(self.key.clone());
        self.client.txn(&fenced)
    }

    fn after_lost(&self, races: u32) {
        self.client.after_lost(races);
    }
}

/// Why an attempt has not come to its end.
#[derive(Debug)]
struct Stopped {
    failure: Failure,
    /// It comes to the same however often, and wherever, it is tried.
    is_final: bool,
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped {
            failure,
            is_final: false,
        }
    }
}

/// What is wanted cannot be.
fn never(failure: Failure) -> Stopped {
    Stopped {
        failure,
        is_final: true,
    }
}

/// The same of what was looked for and is not there, and of what was asked wrongly; else it is tried again.
fn never_if_asked_wrongly(failure: Failure) -> Stopped {
    Stopped {
        is_final: matches!(failure.kind, Kind::NotFound | Kind::Usage),
        failure,
    }
}

/// Does another attempt lock what a point needs that is made? Where the repository as a whole does not answer, or this attempt is to end; but who has
/// failed so often that there is no other attempt has made the point all the same.
fn is_locked_again(kind: Kind, why: Option<Why>, is_last: bool) -> bool {
    match kind {
        Kind::Unreachable => !is_last,
        // What is over for another reason than its time is no failure, and is gone on with.
        Kind::Interrupted => !is_last || why != Some(Why::Limit),
        _ => false,
    }
}

/// What is left of a restore that is undone.
#[derive(Debug)]
enum Left {
    Nothing,
    /// The volume is whole, and stays.
    Whole,
    /// A part of it, which somebody has begun to use: it stays. In a sentence.
    Taken(String),
}

type Result<T> = std::result::Result<T, Stopped>;

impl Attempt<'_> {
    /// Does what is to be done now; what has become of it, for the log.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn run(&self) -> std::result::Result<&'static str, Error> {
        let Some(mut records) = self.read()? else {
            return Ok("it is gone, or its records cannot be read");
        };
        self.ends.goes_by(&records.task, records.repository.as_ref());
        match task::step(&records.task, &records.run, now().as_secs()) {
            TaskStep::Rest(_) => Ok("nothing is to be done"),
            TaskStep::Note(mut run) => {
                self.clear_up(&records.task, &mut run);
                self.note(&mut records, run)?;
                Ok("it has failed")
            }
            TaskStep::Undo => self.undo(records),
            TaskStep::Work(mut run) => {
                self.node.clone_into(&mut run.node);
                match self.note(&mut records, run)? {
                    true => Ok(self.work(records)),
                    false => Ok("another node is at it"),
                }
            }
        }
    }

    /// The program has come over something: it is tried again after a pause.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn panicked(&self) -> std::result::Result<(), Error> {
        self.fails(format!("it has panicked on node {}: see that node's log", self.node))
    }

    /// It does not come to its end, though it was told to end: another node may go on.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn stuck(&self) -> std::result::Result<(), Error> {
        let why = self.ends.stuck(self.node);
        match self.read()? {
            // Whoever undoes it says what has become of it.
            Some(mut records) if records.task.cancelled => {
                let mut run = records.run.clone();
                plan::note(&mut run.notes, &why);
                self.note(&mut records, run).map(drop)
            }
            _ => self.fails(why),
        }
    }

    fn fails(&self, why: String) -> std::result::Result<(), Error> {
        let Some(mut records) = self.read()? else { return Ok(()) };
        let mut run = records.run.clone();
        if run.end.is_none() {
            task::fail(&mut run, &why, false, now().as_secs());
            self.note(&mut records, run)?;
        }
        Ok(())
    }

    fn read(&self) -> std::result::Result<Option<Records>, Error> {
        let found = read(self.client, map::backup_task_key(self.task), |task: &BackupTask| {
            (task.repository.as_str(), map::backup_task_run_key(task.id))
        });
        let records = |found: Read<BackupTask, BackupTaskRun>| Records {
            task: found.record,
            made: found.made,
            repository: found.repository,
            run: found.run,
            revision: found.revision,
        };
        Ok(found?.map(records))
    }

    /// Is it noted? Else another node is at it, or the task is gone.
    fn note(&self, records: &mut Records, run: BackupTaskRun) -> std::result::Result<bool, Error> {
        let Records {
            task, made, revision, ..
        } = &*records;
        let told = admin::note_backup_task(self.client, task, *made, self.claim, *revision, &run);
        let Some(revision) = noted(told)? else { return Ok(false) };
        (records.run, records.revision) = (run, revision);
        Ok(true)
    }

    /// The same for as long as this node has the task's key.
    fn note_surely(&self, records: &mut Records, run: &BackupTaskRun) -> bool {
        let note = |records: &mut Records| self.note(records, run.clone());
        surely(self.ends, records, note, |records| {
            let Ok(Some(found)) = self.read() else { return false };
            records.revision = found.revision;
            let is_so = found.run == *run;
            if is_so {
                records.run = found.run;
            }
            is_so
        })
    }

    fn fenced(&self, task: &BackupTask) -> Fenced<'_> {
        Fenced {
            client: self.client,
            key: Compare::ModRevision {
                key: map::backup_task_runner_key(task.id),
                equals: self.claim,
            },
        }
    }

    fn work(&self, mut records: Records) -> &'static str {
        let task = records.task.clone();
        let mut notes = Vec::new();
        let done = match &task.work {
            BackupWork::Backup(work) => self.back_up(&records, work, &mut notes),
            BackupWork::Restore(work) => self.restore(&mut records, work, &mut notes),
            BackupWork::Forget(work) => self.forget(&records, work, &mut notes),
        };
        let why = self.ends.why().or(interrupt::caught().then_some(Why::Node));
        let mut run = records.run.clone();
        run.notes = notes;
        let at = now().as_secs();
        let become_of = match (done, why) {
            // It is so, whatever has come meanwhile.
            (Ok(made), _) => {
                run.made = Some(made);
                task::done(&mut run, at);
                "it is done"
            }
            (Err(_), Some(Why::Node)) => return "this node ends: another one goes on",
            (Err(_), Some(Why::Lost)) => return "another node may be at it",
            (Err(_), Some(Why::Changed)) => return "it was taken back, or its repository is another one",
            (Err(_), Some(Why::Limit)) => {
                let why = format!(
                    "it did not come to its end within its limit of {} s; what was put stays, and is not sent again; it was at this last: {}",
                    task.limit_s,
                    self.ends.step()
                );
                task::fail(&mut run, &why, false, at);
                "its time was over, and it is tried again"
            }
            (Err(stopped), None) if matches!(stopped.failure.code, BUSY | NO_KEY_FILE) => {
                task::wait(&mut run, &said(&stopped.failure), at);
                "it waits for somebody else"
            }
            (Err(stopped), None) => {
                task::fail(&mut run, &said(&stopped.failure), stopped.is_final, at);
                match run.end {
                    Some(_) => "it has failed",
                    None => "it has failed, and is tried again",
                }
            }
        };
        self.clear_up(&task, &mut run);
        match self.note_surely(&mut records, &run) {
            true => become_of,
            false => "what has become of it could not be noted: it is gone on with by whoever is at it next",
        }
    }

    /// The repository, as it is known, and the vault.
    fn open(&self, records: &Records) -> Result<(Target, Vault)> {
        self.ends.comes_to("the repository is opened, and its journal read");
        let name = &records.task.repository;
        let repository = records.repository.as_ref().ok_or_else(|| {
            let what = format!("there is no backup repository {name}, or its record cannot be read");
            never(Failure::new(what).kind(Kind::NotFound))
        })?;
        // Nodes that have it may be at other tasks, for hours: that is no failure of this one.
        if std::fs::metadata(&repository.key_file).is_err() {
            let what = format!(
                "node {} has no key file {} of backup repository {name}",
                self.node, repository.key_file
            );
            let advice = "It waits for a node that has: put it there, or name only such nodes (`amita backup repository set --node`).";
            let failure = Failure::new(what).kind(Kind::NotFound).code(NO_KEY_FILE);
            return Err(failure.advice(advice).into());
        }
        let target = Target::of(repository)?;
        let vault = target.open(self.config.insecure_network)?;
        Ok((target, vault))
    }

    /// What sessions of this task are called: those that are open still are of attempts before.
    fn alone(&self, vault: &mut Vault, task: &BackupTask) -> Result<String> {
        let cluster = admin::cluster(self.client).described()?.id;
        let name = task::session_name(cluster, task);
        sessions::fence_named(vault, &name)?;
        super::fence_left(self.client, vault, cluster)?;
        sessions::fence(vault, &[])?;
        Ok(name)
    }

    fn back_up(&self, records: &Records, work: &VolumeBackup, notes: &mut Vec<String>) -> Result<BackupTaskMade> {
        let (target, mut vault) = self.open(records)?;
        let by = By::Node(self.client);
        let volume = self.volume(work)?;
        let subject = Subject::numbered(&by, work.volume, &volume.name)?;
        let session = self.alone(&mut vault, &records.task)?;
        if let Some(lost) = backing::lost(&vault) {
            plan::note(notes, &lost);
        }
        let cluster = admin::cluster(self.client).described()?.id;
        let point = task::point_name(&records.task);
        let subjects = [subject];
        let found = |vault: &Vault| {
            let had = Had::of(vault.state(), &point, cluster, &subjects);
            had.point
                .and_then(|number| Some((number, vault.state().points().get(&number)?.clone())))
        };
        self.ends.comes_to(format!("volume {} is backed up", volume.name));
        let made = match found(&vault) {
            Some((number, point)) => made_before(number, &point),
            None => {
                let way = Way::of(self.config.clone(), None).stalling(STALL);
                let backup = Task {
                    by,
                    way: &way,
                    subjects: &subjects,
                    is_full: work.full,
                    patience: PATIENCE,
                    session: &session,
                    point: Some(&point),
                    snapshot: work.snapshot.as_ref(),
                    shows: Shows::Bar(self.bar),
                };
                match backup.back_up(&mut vault) {
                    Ok(made) => {
                        for note in &made.notes {
                            plan::note(notes, note);
                        }
                        BackupTaskMade {
                            point: made.point,
                            point_name: point.clone(),
                            taken_at: made.taken_at,
                            size_bytes: made.volumes.iter().map(|volume| volume.size_bytes).sum(),
                            read_bytes: made.volumes.iter().map(|volume| volume.read_bytes).sum(),
                            sent_bytes: made.sent.pack_bytes,
                            written_bytes: 0,
                        }
                    }
                    // Its answer got lost, or one that was at the task before has made it all the same.
                    Err(failure) => {
                        let is_read = vault.refresh().is_ok();
                        match found(&vault).filter(|_| is_read) {
                            Some((number, point)) => made_before(number, &point),
                            // Its snapshot is gone.
                            None if work.snapshot.is_some() => return Err(never_if_asked_wrongly(failure)),
                            None => return Err(failure.into()),
                        }
                    }
                }
            }
        };
        self.ends.comes_to("what the points need is locked");
        match backing::lock(&mut vault, &target, Some(made.point)) {
            Ok(()) => {}
            // The next attempt finds the point, and locks what it needs.
            Err(failure) if is_locked_again(failure.kind, self.ends.why(), task::is_last(&records.run)) => {
                return Err(failure.into());
            }
            // The point is there all the same, and what is damaged of others is not mended by another attempt.
            Err(failure) => {
                plan::note(notes, &said(&failure));
                // A repository that does not answer is not waited for once more.
                if matches!(failure.kind, Kind::Unreachable | Kind::Interrupted) {
                    return Ok(made);
                }
            }
        }
        target::checkpoint(&mut vault);
        Ok(made)
    }

    /// The volume that is backed up, by whatever name it has now.
    fn volume(&self, work: &VolumeBackup) -> Result<Volume> {
        let all = admin::volumes(self.client).described()?;
        all.into_iter()
            .find(|found| found.host() == work.volume)
            .ok_or_else(|| {
                let what = format!(
                    "there is no volume any more that was called {} when that was asked for",
                    work.name
                );
                never(Failure::new(what).kind(Kind::NotFound))
            })
    }

    fn restore(&self, records: &mut Records, work: &PointRestore, notes: &mut Vec<String>) -> Result<BackupTaskMade> {
        let (_, mut vault) = self.open(records)?;
        let session = self.alone(&mut vault, &records.task)?;
        let what = What::find(&vault, Which::Number(work.point), work.volume.as_deref());
        let mut what = what.map_err(never_if_asked_wrongly)?;
        check_name(&what.point_name, work.point, work.point_name.as_deref())?;
        what.mark.format = format!("{}{}", what.mark.format, own_mark(&records.task));
        let made = |written_bytes| BackupTaskMade {
            point: what.point,
            point_name: what.point_name.clone(),
            taken_at: what.taken_at,
            size_bytes: what.bytes,
            written_bytes,
            ..BackupTaskMade::default()
        };
        self.ends.comes_to(format!("volume {} is made", work.to));
        let (volume, import) = match self.filled(work, &records.run)? {
            Some((volume, Some(import))) if import.is_of(&what.mark) => (volume, import),
            // It came to its end, and that was not noted any more.
            Some((volume, None)) if records.run.restores_into == Some(volume.host()) => return Ok(made(0)),
            Some(_) => {
                let what = format!("there is a volume {} already, which this task has not made", work.to);
                let advice = "Choose another name: a restore writes over nothing.";
                return Err(never(Failure::new(what).kind(Kind::Conflict).advice(advice)));
            }
            None => (self.make(&records.task, work, &what)?, what.mark.clone()),
        };
        if what.encrypted && volume.keys.is_none() {
            plan::note(
                notes,
                &format!("volume {} was encrypted at rest, and {} is not", what.name, work.to),
            );
        }
        // What is not noted here is nobody's when the import has come to its end.
        let run = BackupTaskRun {
            restores_into: Some(volume.host()),
            ..records.run.clone()
        };
        if !self.note_surely(records, &run) {
            self.ends.lose();
            return Err(Failure::interrupted().into());
        }
        self.ends.comes_to(format!("volume {} is filled", work.to));
        self.bar.set_length(what.bytes);
        let way = Way::of(self.config.clone(), None).stalling(STALL);
        let fenced = self.fenced(&records.task);
        let by = By::Node(&fenced);
        let written = pour::held(&mut vault, &session, |held| {
            pour::into_volume(held, &what, (&volume, import), &way, &by, self.bar).map_err(|ended| match ended {
                Ended::Copy(failure) => failure,
                Ended::Admin(why) => described(why),
            })
        });
        Ok(made(written?))
    }

    /// The volume of that name, and the import that it is in; none: there is no such volume.
    fn filled(&self, work: &PointRestore, run: &BackupTaskRun) -> Result<Option<(Volume, Option<Import>)>> {
        let all = admin::volumes(self.client).described()?;
        // By its number first: it may have been given another name.
        let own = all.iter().find(|volume| Some(volume.host()) == run.restores_into);
        let Some(volume) = own.or_else(|| all.iter().find(|volume| volume.name == work.to)) else {
            return match run.restores_into {
                None => Ok(None),
                Some(number) => Err(never(gone(&work.to, number))),
            };
        };
        let about = admin::about(self.client, volume.id).described()?;
        Ok(Some((volume.clone(), about.import)))
    }

    fn make(&self, task: &BackupTask, work: &PointRestore, what: &What) -> Result<Volume> {
        let about = About {
            created_at: Some(now().as_secs()),
            import: Some(what.mark.clone()),
            ..About::of(VolumeId(0))
        };
        let keys = match work.encrypted.unwrap_or(what.encrypted) {
            false => None,
            true => Some(self.config.volume_keys.as_ref().map(KeyFile::at).ok_or_else(|| {
                let what = format!(
                    "volume {} is to be encrypted, and node {} has no volume keys (`amita serve --volume-keys`)",
                    work.to, self.node
                );
                let advice = "Give them to the nodes that have the repository's key file, or restore it in the clear, which takes an administrator.";
                Failure::new(what).kind(Kind::Conflict).advice(advice)
            })?),
        };
        let keys = keys.as_ref().map(|keys| keys as &dyn DataKeys);
        let (name, pool) = (work.to.as_str(), work.pool.as_str());
        let made = admin::make_volume_of(
            &self.fenced(task),
            work.tenant.as_deref(),
            (name, pool, what.bytes),
            Some(&about),
            keys,
        );
        made.map_err(|why| match why {
            why @ AdminError::Exists { .. } => never(described(why)),
            why => never_if_asked_wrongly(described(why)),
        })
    }

    fn forget(&self, records: &Records, work: &PointForget, notes: &mut Vec<String>) -> Result<BackupTaskMade> {
        let (_, mut vault) = self.open(records)?;
        if let Some(point) = vault.state().points().get(&work.point).cloned() {
            self.is_what_it_was(&mut vault, &point)?;
        }
        let session = self.alone(&mut vault, &records.task)?;
        vault.refresh().described()?;
        let made = match vault.state().points().get(&work.point).cloned() {
            Some(point) => {
                check_name(&point.name, work.point, work.point_name.as_deref())?;
                self.ends.comes_to(format!("point {} is given up", work.point));
                let guard = |state: &State| {
                    self.may_forget(state, work, &point)
                        .map_err(|why| amita_backup::Error::Unwanted(carried(why)))
                };
                let forgotten = vault.forget_if(&[work.point], &guard).described();
                // Another one was quicker: it is what was wanted.
                if let Err(failure) = forgotten
                    && vault.state().points().contains_key(&work.point)
                {
                    return Err(failure.into());
                }
                made_before(work.point, &point)
            }
            // Numbers of points are those of entries: what was never one is a mistake, and not done.
            None if work.point > vault.state().number() => {
                let what = format!(
                    "there is no point {} in backup repository {}",
                    work.point, records.task.repository
                );
                return Err(never(Failure::new(what).kind(Kind::NotFound)));
            }
            None => {
                plan::note(notes, &format!("there was no point {} any more", work.point));
                BackupTaskMade {
                    point: work.point,
                    ..BackupTaskMade::default()
                }
            }
        };
        self.ends.comes_to("what no point needs is removed");
        let pruned = prune::prune_vault(&mut vault, &session)?;
        if !pruned.waiting.is_empty() {
            let what = "what nothing needs any more is removed by a later pruning, when these are over";
            plan::note(notes, &format!("{what}: {}", pruned.waiting.join(", ")));
        }
        if pruned.locked > 0 {
            plan::note(
                notes,
                &format!("{} objects are locked still, and are deleted later", pruned.locked),
            );
        }
        target::checkpoint(&mut vault);
        Ok(made)
    }

    /// Is the vault what it was when the point's volumes were backed up into it before, as far as they are there and remember that? In one that was set
    /// back nothing is given up, as by policies: what is removed then may be what points need that are to come back with the journal.
    fn is_what_it_was(&self, vault: &mut Vault, point: &Point) -> Result<()> {
        let by = By::Node(self.client);
        let cluster = admin::cluster(self.client).described()?.id;
        let mut seen = Vec::new();
        for volume in admin::volumes(self.client).described()? {
            let uuid = Namespace::uuid_of(cluster, volume.host());
            let is_it = |found: &VolumePoint| {
                (found.identity.cluster, found.identity.volume) == (cluster.0.to_be_bytes(), *uuid.as_bytes())
            };
            if point.volumes.iter().any(is_it) {
                let subject = Subject::numbered(&by, volume.host(), &volume.name)?;
                let snapshots = subject.snapshots(&by)?;
                seen.push((subject, snapshots));
            }
        }
        // The journal is read behind the volumes' snapshots.
        vault.check_head(vault.head()).described()?;
        vault.refresh().described()?;
        for (subject, snapshots) in &seen {
            subject.remembers(snapshots, vault)?;
        }
        Ok(())
    }

    /// Is it right at this very moment? By the node that has the key, of the point that was looked at.
    fn may_forget(&self, state: &State, work: &PointForget, point: &Point) -> std::result::Result<(), Failure> {
        if interrupt::caught() || self.ends.why().is_some() {
            return Err(Failure::interrupted());
        }
        match state.points().get(&work.point) {
            Some(found) if found.name == point.name => Ok(()),
            _ => Err(Failure::new(format!("point {} is gone, or another one", work.point)).kind(Kind::Conflict)),
        }
    }

    /// Ends what was taken back: a volume that a restore has begun to fill goes, and one that is whole stays.
    fn undo(&self, mut records: Records) -> std::result::Result<&'static str, Error> {
        let mut run = records.run.clone();
        let at = || now().as_secs();
        if let BackupWork::Restore(work) = &records.task.work {
            match self.undo_restore(&records.task, &records.run, work) {
                Ok(Left::Nothing) => {}
                Ok(Left::Whole) => {
                    plan::note(
                        &mut run.notes,
                        &format!("volume {} was whole before, and stays", work.to),
                    );
                }
                Ok(Left::Taken(why)) => plan::note(&mut run.notes, &why),
                Err(failure) if failure.kind == Kind::Interrupted => return Ok("this node ends: another one goes on"),
                Err(failure) => {
                    let why = format!(
                        "volume {} is there in part, and is not deleted yet: {}",
                        work.to,
                        said(&failure)
                    );
                    run.why.clear();
                    plan::note(&mut run.why, &why);
                    self.note(&mut records, run)?;
                    return Ok("what it has begun is not undone yet");
                }
            }
        }
        task::cancel(&mut run, at());
        match self.note_surely(&mut records, &run) {
            true => Ok("it was taken back, and is over"),
            false => Ok("another node is at it"),
        }
    }

    /// Where a restore has failed for good, what it has begun to fill goes: no other one can go on with that, and its name is taken by it.
    fn clear_up(&self, task: &BackupTask, run: &mut BackupTaskRun) {
        let BackupWork::Restore(work) = &task.work else { return };
        if run.end.is_none_or(|end| end.how != map::BackupTaskOutcome::Failed) {
            return;
        }
        match self.undo_restore(task, run, work) {
            Ok(Left::Nothing | Left::Whole) => {}
            Ok(Left::Taken(why)) => plan::note(&mut run.notes, &why),
            Err(failure) => {
                let name = &work.to;
                let why = format!(
                    "volume {name} is there in part (`amita volume delete {name}` removes it), and was not deleted: {}",
                    said(&failure)
                );
                plan::note(&mut run.notes, &why);
            }
        }
    }

    /// Deletes what a restore has begun to fill, as long as nobody has it as a disk.
    fn undo_restore(
        &self,
        task: &BackupTask,
        run: &BackupTaskRun,
        work: &PointRestore,
    ) -> std::result::Result<Left, Failure> {
        let all = admin::volumes(self.client).described()?;
        let own = |volume: &&Volume| match run.restores_into {
            Some(number) => volume.host() == number,
            None => volume.name == work.to,
        };
        let Some(volume) = all.iter().find(own) else {
            return Ok(Left::Nothing);
        };
        let format = match admin::about(self.client, volume.id).described()?.import {
            Some(import) if import.format.ends_with(&own_mark(task)) => import.format,
            // Another one's, of that name.
            _ if run.restores_into.is_none() => return Ok(Left::Nothing),
            _ => return Ok(Left::Whole),
        };
        let name = &volume.name;
        let deletion = |force| {
            let deletion = Deletion::new(name, force, now().as_secs()).only(volume.id);
            deletion.while_filled_by(&format)
        };
        let fenced = self.fenced(task);
        let (mut is_forced, mut going) = (false, deletion(false));
        let gone = interrupt::poll(PATIENCE, Duration::from_millis(100), || {
            match going.step(&fenced) {
                // Who had the key before may hang, and has it open for as long. What is a disk of hosts is refused, also this way.
                Err(AdminError::InUse { .. }) if !is_forced => {
                    (is_forced, going) = (true, deletion(true));
                    Ok(None)
                }
                Err(why) if is_taken(&why) => Ok(Some(Left::Taken(format!(
                    "volume {name} is there in part, and stays, for somebody has begun to use it: {}. `amita volume delete {name}` removes it",
                    said(&described(why)).trim_end_matches('.')
                )))),
                // Its import has come to its end.
                Err(AdminError::Changed) => Ok(Some(Left::Whole)),
                step => Ok(step.described()?.map(|_| Left::Nothing)),
            }
        })?;
        gone.ok_or_else(|| {
            let what = format!(
                "the owner of volume {name} has not answered within {} s",
                PATIENCE.as_secs()
            );
            Failure::new(what).kind(Kind::Unreachable)
        })
    }
}

/// Is it somebody's by now, who has it as a disk, or has said that it is to stay?
fn is_taken(why: &AdminError) -> bool {
    matches!(
        why,
        AdminError::Attached { .. }
            | AdminError::IsLun { .. }
            | AdminError::StillExported { .. }
            | AdminError::Protected { .. }
            | AdminError::Mirrored { .. }
    )
}

/// By which the import of a task's restore is known, behind what says of what it is.
fn own_mark(task: &BackupTask) -> String {
    format!(", task {}", task.mark())
}

fn described(why: AdminError) -> Failure {
    match Err::<(), _>(why).described() {
        Err(failure) => failure,
        Ok(()) => Failure::interrupted(),
    }
}

fn gone(name: &str, number: VolumeId) -> Failure {
    let what = format!("volume {name}, of number {number}, which this task was filling, was deleted meanwhile");
    Failure::new(what).kind(Kind::NotFound)
}

/// Is it the point that was meant?
fn check_name(found: &str, point: u64, wanted: Option<&str>) -> Result<()> {
    match wanted.filter(|wanted| *wanted != found) {
        None => Ok(()),
        Some(wanted) => {
            let what = format!("point {point} is called {found:?}, and not {wanted:?}: nothing is done with it");
            let advice = "The repository was set back, or is another one: look at it (`amita backup list`).";
            Err(never(Failure::new(what).kind(Kind::Conflict).advice(advice)))
        }
    }
}

/// A point that is there already.
fn made_before(number: u64, point: &Point) -> BackupTaskMade {
    BackupTaskMade {
        point: number,
        point_name: point.name.clone(),
        taken_at: u64::try_from(point.time).unwrap_or(0),
        size_bytes: point.volumes.iter().map(|volume| volume.bytes).sum(),
        ..BackupTaskMade::default()
    }
}

#[cfg(test)]
mod tests;
