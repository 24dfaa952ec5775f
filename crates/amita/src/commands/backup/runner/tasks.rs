//! What a node does about tasks of backups: it looks which of them nobody is at, and carries some of them out.
//!
//! It is as with runs of policies: an attempt has a thread of its own, and its node the task's key. What an attempt has come to is noted, and so is, every
//! few seconds, how far it is.

mod attempt;

use super::super::sessions;
use super::attempt::now;
use super::ends::{Ends, Why};
use super::look::{self, Turns};
use super::{AGAIN, GRACE, KEYLESS, LONGEST_REST, MOST_STUCK, RETRY, SETTLE};
use crate::admin::Described as _;
use crate::commands::claim::Claim;
use crate::commands::worker::{self, Worker, spread};
use amita_backup::{SessionId, Vault};
use amita_client::Config;
use amita_control::admin;
use amita_control::backups::task::{self, TaskStep};
use amita_metadata::{Batch, Call, Client, KeyValue, LeaseId, Transact};
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::progress::ProgressBar;
use amita_types::ClusterId;
use amita_types::map::{self, BackupRepository, BackupTask, BackupTaskId, BackupTaskPlace, BackupTaskRun};
use attempt::Attempt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Tasks that a node is at, at one time: each takes the memory of its vault's index, and of a gateway.
const MOST: usize = 2;
/// What was taken back is undone beside them, so many at one time: that needs no repository, and waits for none.
const MOST_UNDONE: usize = 2;
/// One that was taken back, and does not end for so long, is given up.
const CANCEL_GRACE: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 5000 });
/// How often it is noted how far a task is.
const TELL_EVERY: Duration = Duration::from_secs(3);

/// Begins to look.
///
/// # Errors
/// The system gives no thread.
pub fn start(client: Client, config: Config, name: String) -> std::io::Result<Worker> {
    Worker::start("amita-tasks", "carries tasks of backups out", move |stop| {
        let node = Node {
            client,
            config,
            name,
            stop,
        };
        node.run();
    })
}

#[derive(Clone)]
struct Node {
    client: Client,
    config: Config,
    name: String,
    stop: Arc<AtomicBool>,
}

/// Takes for dead whoever was at a task that is over: its node has died, and nobody goes on with it who would end what it had begun. Else that holds up for
/// ever that anything is removed, and that the volume is backed up.
///
/// # Errors
/// The metadata is away, or the journal cannot be written.
pub fn fence_left(client: &dyn Transact, vault: &mut Vault, cluster: ClusterId) -> Result<()> {
    // In this order: whoever has begun before these records were read, and has no key by then, has lost it.
    let begun = sessions::of_tasks(vault, cluster);
    if begun.is_empty() {
        return Ok(());
    }
    let reply = client.txn(&Call::prefix(map::backup_tasks_prefix()));
    let reply = reply.map_err(admin::AdminError::Metadata).described()?;
    let over = begun.iter().filter(|(_, task)| is_over(reply.values(0), *task));
    let over: Vec<SessionId> = over.map(|(session, _)| *session).collect();
    sessions::fence_all(vault, over, "its task is over")
}

/// Is nobody at that task, and will nobody be? By all records of tasks.
fn is_over(records: &[KeyValue], task: BackupTaskId) -> bool {
    let record = |key: String| records.iter().find(|found| found.key == key);
    if record(map::backup_task_runner_key(task)).is_some() {
        return false;
    }
    match record(map::backup_task_run_key(task)) {
        // One that cannot be read says nothing.
        Some(found) => found.json::<BackupTaskRun>().is_ok_and(|run| run.end.is_some()),
        None => {
            let names = map::backup_task_names_prefix();
            let mut all = records.iter().filter(|found| found.key.starts_with(&names));
            all.all(|found| found.json::<BackupTask>().is_ok_and(|known| known.id != task))
        }
    }
}

/// What there is, at a revision.
struct Found {
    /// Those that have not ended, and can be read.
    tasks: BTreeMap<BackupTaskId, (BackupTask, BackupTaskRun)>,
    repositories: BTreeMap<String, BackupRepository>,
    /// Those that somebody is at.
    held: BTreeSet<BackupTaskId>,
    revision: u64,
}

impl Found {
    fn of(records: &[KeyValue], revision: u64) -> Found {
        let keys: BTreeMap<&str, &KeyValue> = records.iter().map(|found| (found.key.as_str(), found)).collect();
        let under = |prefix: String| records.iter().filter(move |found| found.key.starts_with(&prefix));
        let mut tasks = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut in_order: Vec<&KeyValue> = under(map::backup_task_names_prefix()).collect();
        in_order.sort_by_key(|found| found.create_revision);
        for found in in_order {
            let Ok(task) = found.json::<BackupTask>() else { continue };
            // Of those that say the same number the one that is there longest has it; one under another's name is none (`admin::backup_tasks`).
            if map::backup_task_key(&task.name) != found.key || !seen.insert(task.id) {
                continue;
            }
            let run = match keys.get(map::backup_task_run_key(task.id).as_str()) {
                None => BackupTaskRun::default(),
                // One that cannot be read is left alone: it may have ended.
                Some(found) => match found.json::<BackupTaskRun>() {
                    Ok(run) if run.end.is_none() => run,
                    Ok(_) | Err(_) => continue,
                },
            };
            tasks.insert(task.id, (task, run));
        }
        let held = tasks.keys().copied();
        let held = held.filter(|id| keys.contains_key(map::backup_task_runner_key(*id).as_str()));
        let repositories = under(map::backup_repositories_prefix()).filter_map(|found| found.json().ok());
        let named = |repository: BackupRepository| (repository.name.clone(), repository);
        Found {
            held: held.collect(),
            repositories: repositories.map(named).collect(),
            tasks,
            revision,
        }
    }

    fn repository(&self, task: &BackupTask) -> Option<&BackupRepository> {
        self.repositories.get(&task.repository)
    }

    /// What is free and to be done now at this node, who waits longest first; and how soon something is.
    fn due(&self, node: &str, now: Duration) -> (Vec<&BackupTask>, Duration) {
        let (mut due, mut waits) = (Vec::new(), LONGEST_REST);
        for (task, run) in self.tasks.values().filter(|(task, _)| !self.held.contains(&task.id)) {
            let repository = self.repository(task);
            // What was taken back needs no repository.
            if !task.cancelled && repository.is_some_and(|repository| !repository.is_for(node)) {
                continue;
            }
            match task::step(task, run, now.as_secs()) {
                TaskStep::Rest(None) => {}
                TaskStep::Rest(Some(at)) => waits = waits.min(Duration::from_secs(at).saturating_sub(now)),
                TaskStep::Work(_) | TaskStep::Undo | TaskStep::Note(_) => {
                    due.push((run.again_at.unwrap_or(task.asked_at.max(run.attempt_began)), task));
                }
            }
        }
        due.sort_by_key(|(since, task)| (*since, task.id));
        (due.into_iter().map(|(_, task)| task).collect(), waits)
    }

    /// Is something of it to be looked at? What is noted by whoever is at a task is nobody else's, and how far it is decides nothing.
    fn is_changed_by(&self, batch: &Batch) -> bool {
        let held: BTreeSet<String> = self.held.iter().map(|id| map::backup_task_run_key(*id)).collect();
        let places = map::backup_task_places_prefix();
        let is_news = |key: &str| {
            let is_of_tasks = key.starts_with(&map::backup_tasks_prefix());
            let is_known = key.starts_with(&places) || held.contains(key);
            (is_of_tasks && !is_known) || key.starts_with(&map::backup_repositories_prefix())
        };
        batch.events.iter().any(|event| is_news(event.key()))
    }
}

/// An attempt that is made here.
struct At {
    thread: JoinHandle<()>,
    ends: Arc<Ends<BackupTask>>,
    /// By which the task's key was made, and the lease that it is on.
    claim: Arc<OnceLock<(u64, LeaseId)>>,
    name: String,
    /// The task was taken back before this began.
    undoes: bool,
}

/// For so long its end is waited for when it is to end.
fn grace(task: Option<&BackupTask>) -> Duration {
    match task.is_some_and(|task| task.cancelled) {
        true => CANCEL_GRACE,
        false => GRACE,
    }
}

/// May another attempt begin beside these, each of which undoes what was taken back or does not? Neither kind waits for the other.
fn has_room(undoes: bool, at: impl Iterator<Item = bool>, stuck: usize) -> bool {
    let alike = at.filter(|other| *other == undoes).count();
    match undoes {
        true => alike < MOST_UNDONE,
        false => alike < MOST && stuck < MOST_STUCK,
    }
}

impl Node {
    fn stops(&self) -> bool {
        interrupt::caught() || self.stop.load(Ordering::Relaxed)
    }

    fn run(&self) {
        let mut at: BTreeMap<BackupTaskId, At> = BTreeMap::new();
        let mut stuck: Vec<At> = Vec::new();
        let mut turns = Turns::default();
        while !self.stops() {
            stuck.retain(|attempt| !attempt.thread.is_finished());
            let found = match self.client.txn(&Call::prefix(map::backups_prefix())) {
                Ok(reply) => Found::of(reply.values(0), reply.revision),
                // Others say that the metadata is away.
                Err(_) => {
                    worker::rest(AGAIN, &|| self.stops());
                    continue;
                }
            };
            let ending = self.look_after(&found, &mut at, &mut stuck);
            let (due, waits) = found.due(&self.name, now());
            let mut waits = ending.map_or(waits, |left| waits.min(left));
            turns.keep(
                |id| due.iter().any(|task| task.id == id),
                |id| found.tasks.contains_key(&id),
            );
            for task in due {
                let since = turns.free_for(task.id);
                let has_room = has_room(task.cancelled, at.values().map(|attempt| attempt.undoes), stuck.len());
                // The end of what is made here is waited for in any case.
                if at.contains_key(&task.id) || !has_room {
                    continue;
                }
                if let Err(rests) = turns.begin(task.id) {
                    waits = waits.min(rests);
                    continue;
                }
                waits = waits.min(RETRY);
                if let Some(begun) = self.begin(task, found.repository(task), since >= KEYLESS) {
                    at.insert(task.id, begun);
                }
            }
            self.wait(&found, waits, &at);
        }
        for (_, attempt) in at {
            if attempt.thread.join().is_err() {
                log::error!("a task of backups has panicked");
            }
        }
    }

    /// Ends attempts by what is not so any more, and gives up those that do not end. How soon that is to be looked at again; none: no attempt is to end.
    fn look_after(&self, found: &Found, at: &mut BTreeMap<BackupTaskId, At>, stuck: &mut Vec<At>) -> Option<Duration> {
        at.retain(|_, attempt| !attempt.thread.is_finished());
        let (mut given_up, mut soonest) = (Vec::new(), None);
        for (id, attempt) in at.iter() {
            let task = found.tasks.get(id).map(|(task, _)| task);
            let repository = task.and_then(|task| found.repository(task));
            attempt.ends.compare(task, repository);
            let Some(overdue) = attempt.ends.overdue() else {
                continue;
            };
            match grace(task).checked_sub(overdue).filter(|left| !left.is_zero()) {
                Some(left) => soonest = Some(soonest.map_or(left, |soonest: Duration| soonest.min(left))),
                None => given_up.push(*id),
            }
        }
        for attempt in given_up.into_iter().filter_map(|id| at.remove(&id)) {
            self.give_up(&attempt);
            stuck.push(attempt);
        }
        soonest
    }

    /// Its key is another one's from now on, whatever its thread waits for: that has lost it, and changes nothing any more.
    fn give_up(&self, attempt: &At) {
        let name = &attempt.name;
        log::warn!("backup task {name}: it is to end, and does not: the repository does not answer this node");
        let claim = attempt.claim.get();
        if let Some((claim, _)) = claim
            && let Err(why) = self
                .attempt(name, *claim, &attempt.ends, &ProgressBar::hidden())
                .stuck()
        {
            log::debug!("that backup task {name} does not end is not noted: {why}");
        }
        attempt.ends.lose();
        if let Some((_, lease)) = claim
            && let Err(why) = self.client.lease_revoke(*lease)
        {
            log::debug!("the key of backup task {name} goes with its lease: {why}");
        }
    }

    fn attempt<'a>(
        &'a self,
        task: &'a str,
        claim: u64,
        ends: &'a Ends<BackupTask>,
        bar: &'a ProgressBar,
    ) -> Attempt<'a> {
        Attempt {
            client: &self.client,
            config: &self.config,
            node: &self.name,
            claim,
            ends,
            task,
            bar,
        }
    }

    /// Begins an attempt, if nobody else is at the task, and this node has the key file, or is to tell that it lacks.
    fn begin(&self, task: &BackupTask, repository: Option<&BackupRepository>, waited: bool) -> Option<At> {
        let ends = Arc::new(Ends::new(Arc::clone(&self.stop), Duration::from_secs(task.limit_s)));
        // Also before it has the key: a folder that does not answer may have it wait for the key file.
        ends.goes_by(task, repository);
        let claimed: Arc<OnceLock<(u64, LeaseId)>> = Arc::default();
        // Without a repository, or taken back, it needs no file.
        let key_file = repository
            .filter(|_| !task.cancelled)
            .map(|repository| repository.key_file.clone());
        let is_named = repository.is_some_and(|repository| !repository.nodes.is_empty());
        let (node, name, id) = (self.clone(), task.name.clone(), task.id);
        let (own, told) = (Arc::clone(&ends), Arc::clone(&claimed));
        let thread = std::thread::Builder::new().name("amita-task".to_owned());
        let thread = thread.spawn(move || {
            // A file may be of a folder that does not answer.
            let has_key = key_file.is_none_or(|file| std::fs::metadata(file).is_ok());
            if has_key || (is_named && waited) {
                node.make(&name, id, &own, &told);
            }
        });
        let thread = thread
            .inspect_err(|why| log::warn!("backup task {}: no thread for it: {why}", task.name))
            .ok()?;
        Some(At {
            thread,
            ends,
            claim: claimed,
            name: task.name.clone(),
            undoes: task.cancelled,
        })
    }

    fn make(&self, name: &str, id: BackupTaskId, ends: &Arc<Ends<BackupTask>>, claimed: &OnceLock<(u64, LeaseId)>) {
        worker::rest(spread(), &|| self.stops());
        let what = format!("backup task {name}");
        // Others say that the metadata is away.
        let Ok(Some(claim)) = Claim::take(&self.client, map::backup_task_runner_key(id), &what, &self.name) else {
            return;
        };
        ends.holds(&claim.lost);
        let _ = claimed.set((claim.revision, claim.lease));
        // It was given up before it had the key, while the key file's folder did not answer: nobody would end it any more.
        if ends.why() == Some(Why::Lost) {
            return;
        }
        let bar = ProgressBar::hidden();
        let _telling = self.tell(id, claim.revision, ends, &bar);
        let looked = Arc::clone(ends);
        let _ending = interrupt::ending(move || looked.why().is_some());
        let attempt = || self.attempt(name, claim.revision, ends, &bar);
        look::carry_out(&what, || attempt().run(), || attempt().panicked());
    }

    /// Notes how far it is, as long as what this answers is there.
    fn tell(&self, id: BackupTaskId, claim: u64, ends: &Arc<Ends<BackupTask>>, bar: &ProgressBar) -> Option<Worker> {
        let (client, ends, bar) = (self.client.clone(), Arc::clone(ends), bar.clone());
        let told = Worker::start("amita-task-told", "tells how far a task is", move |stop| {
            let mut last = BackupTaskPlace::default();
            while !stop.load(Ordering::Relaxed) {
                worker::rest(TELL_EVERY, &|| stop.load(Ordering::Relaxed));
                let place = BackupTaskPlace {
                    done_bytes: bar.position(),
                    total_bytes: bar.length().unwrap_or(0),
                    step: ends.step(),
                    at: now().as_secs(),
                };
                if !place.is_news_behind(&last) || stop.load(Ordering::Relaxed) {
                    continue;
                }
                match admin::note_backup_task_place(&client, id, claim, &place) {
                    Ok(true) => last = place,
                    // The key is another one's.
                    Ok(false) => return,
                    // It is of use only while it is so.
                    Err(_) => {}
                }
            }
        });
        told.ok()
    }

    /// Waits for a change, for the end of an attempt that is made here, or for so long. What somebody has asked for is waited for: all nodes look sooner
    /// than for policies.
    fn wait(&self, found: &Found, longest: Duration, at: &BTreeMap<BackupTaskId, At>) {
        let has_ended = || at.values().any(|attempt| attempt.thread.is_finished());
        let (stops, is_changed) = (|| self.stops(), |batch: &Batch| found.is_changed_by(batch));
        look::wait(
            (&self.client, found.revision),
            longest,
            SETTLE / 4,
            &stops,
            &has_ended,
            &is_changed,
        );
    }
}

#[cfg(test)]
mod tests;
