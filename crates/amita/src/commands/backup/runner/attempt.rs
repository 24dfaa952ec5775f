//! An attempt at a run of a policy, on the node that has the policy's key.
//!
//! What is made already is found in the repository by its name, so that an attempt needs to know nothing of those before it. Sessions of these that
//! are open still are fenced first: whoever was at the policy before has lost its key, and makes no point any more.

use super::super::base::Subject;
use super::super::by::By;
use super::super::failure::{Described as _, is_of_repository};
use super::super::target::Target;
use super::super::task::{self, Task};
use super::super::{prune, sessions};
use super::ends::{Ends, Why};
use crate::admin::Described as _;
use crate::commands::volume::data::Way;
use amita_backup::Vault;
use amita_client::Config;
use amita_control::admin;
use amita_control::backups::plan::{self, Step};
use amita_control::backups::{is_own, point_name, retention, session_name};
use amita_metadata::{Call, Client, Error, Op};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_types::ClusterId;
use amita_types::map::{self, BackupPolicy, BackupRepository, BackupRuns};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest wait for snapshots.
const PATIENCE: Duration = Duration::from_secs(60);
/// A volume that has answered nothing for so long has failed.
const STALL: Duration = Duration::from_secs(120);
/// How soon it is tried again to note something while the metadata is away.
const AGAIN: Duration = Duration::from_secs(1);

/// What an attempt works with.
pub struct Attempt<'a> {
    pub client: &'a Client,
    pub config: &'a Config,
    /// The name of this node.
    pub node: &'a str,
    /// By which the policy's key was made.
    pub claim: u64,
    pub ends: &'a Ends,
    /// The policy's name, by which it is read.
    pub policy: &'a str,
}

/// The records that it goes by.
pub struct Records {
    pub policy: BackupPolicy,
    /// The revision by which the policy was made.
    made: u64,
    pub repository: Option<BackupRepository>,
    runs: BackupRuns,
    /// Of that record; 0: nobody has written it.
    revision: u64,
}

/// What has become of the attempt.
#[derive(Default)]
struct Outcome {
    volumes: u64,
    failed: u64,
    why: Vec<String>,
    notes: Vec<String>,
}

impl Outcome {
    fn fails(&mut self, what: &str) {
        self.failed += 1;
        plan::note(&mut self.why, what);
    }
}

/// Since 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Attempt<'_> {
    /// Does what is to be done now; what has become of it, for the log.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn run(&self) -> std::result::Result<&'static str, Error> {
        loop {
            let Some(mut records) = self.read()? else {
                return Ok("the policy is gone, or its records cannot be read");
            };
            self.ends.goes_by(&records.policy, records.repository.as_ref());
            let (runs, works) = match plan::step(&records.policy, &records.runs, now().as_secs()) {
                Step::Rest(_) => return Ok("nothing is to be done"),
                Step::Note(runs) => (runs, false),
                Step::Work(mut runs) => {
                    if let Some(run) = &mut runs.run {
                        self.node.clone_into(&mut run.node);
                    }
                    (runs, true)
                }
            };
            if !self.note(&mut records, runs)? {
                return Ok("another node is at it");
            }
            if works {
                return self.work(records);
            }
        }
    }

    /// The program has come over something: the run is tried again after a pause.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn panicked(&self) -> std::result::Result<(), Error> {
        let Some(mut records) = self.read()? else { return Ok(()) };
        let mut runs = records.runs.clone();
        if let Some(run) = &mut runs.run {
            let why = format!("making it has panicked on node {}: see that node's log", self.node);
            (run.failed, run.why) = (1, vec![why]);
        }
        plan::end(&mut runs, now().as_secs());
        self.note(&mut records, runs).map(drop)
    }

    /// It does not come to its end, though it was told to end: another node may go on.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn stuck(&self) -> std::result::Result<(), Error> {
        let Some(mut records) = self.read()? else { return Ok(()) };
        let mut runs = records.runs.clone();
        if let Some(run) = &mut runs.run {
            let why = format!(
                "the repository has not answered node {} for long, and the run there does not come to its end",
                self.node
            );
            (run.failed, run.why) = (1, vec![why]);
        }
        plan::end(&mut runs, now().as_secs());
        self.note(&mut records, runs).map(drop)
    }

    fn read(&self) -> std::result::Result<Option<Records>, Error> {
        let reply = self.client.txn(&Call::get(map::backup_policy_key(self.policy)))?;
        let Some((policy, made)) = reply
            .value(0)
            .and_then(|found| Some((found.json::<BackupPolicy>().ok()?, found.create_revision)))
        else {
            return Ok(None);
        };
        let keys = [
            map::backup_repository_key(&policy.repository),
            map::backup_runs_key(policy.id),
        ];
        let reply = self.client.txn(&Call {
            then: keys.into_iter().map(|key| Op::Get { key }).collect(),
            ..Call::default()
        })?;
        let (runs, revision) = match reply.value(1) {
            None => (BackupRuns::default(), 0),
            Some(found) => match found.json::<BackupRuns>() {
                Ok(runs) => (runs, found.mod_revision),
                Err(_) => return Ok(None),
            },
        };
        Ok(Some(Records {
            repository: reply.value(0).and_then(|found| found.json().ok()),
            policy,
            made,
            runs,
            revision,
        }))
    }

    /// Is it noted? Else another node is at it, or the policy is gone.
    fn note(&self, records: &mut Records, runs: BackupRuns) -> std::result::Result<bool, Error> {
        let Records {
            policy, made, revision, ..
        } = &*records;
        let noted = admin::note_backup(self.client, policy, *made, self.claim, *revision, &runs);
        match noted {
            Ok(Some(revision)) => {
                (records.runs, records.revision) = (runs, revision);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(admin::AdminError::Metadata(why)) => Err(why),
            Err(_) => Ok(false),
        }
    }

    /// The same for as long as this node has the policy's key.
    fn note_surely(&self, records: &mut Records, runs: &BackupRuns) -> bool {
        loop {
            match self.note(records, runs.clone()) {
                Ok(noted) => return noted,
                // It may have been done: then the record is another one than is compared, and says the same.
                Err(_) => {
                    std::thread::sleep(AGAIN);
                    if matches!(self.ends.why(), Some(Why::Node | Why::Lost)) {
                        return false;
                    }
                    if let Ok(Some(found)) = self.read() {
                        if found.runs == *runs {
                            records.revision = found.revision;
                            records.runs = found.runs;
                            return true;
                        }
                        records.revision = found.revision;
                    }
                }
            }
        }
    }

    fn work(&self, mut records: Records) -> std::result::Result<&'static str, Error> {
        let mut outcome = Outcome::default();
        // What was told to end has failed by that; what else there is to say is said below.
        if let Err(failure) = self.back_up(&mut records, &mut outcome)
            && !interrupt::caught()
        {
            outcome.fails(&said(&failure));
        }
        let why = self.ends.why().or(interrupt::caught().then_some(Why::Node));
        match why {
            Some(Why::Limit) => {
                outcome.fails(&format!(
                    "it did not come to its end within its limit of {} s; what was put stays, and is not sent again",
                    records.policy.limit_s
                ));
            }
            Some(Why::Node) => return Ok("this node ends: another one goes on"),
            Some(Why::Lost) => return Ok("another node may be at it"),
            Some(Why::Changed) => return Ok("it was changed, and is gone on with as it is now"),
            None => {}
        }
        let failed = outcome.failed > 0;
        let mut runs = records.runs.clone();
        if let Some(run) = &mut runs.run {
            let Outcome {
                volumes,
                failed,
                why,
                notes,
            } = outcome;
            (run.volumes, run.failed, run.why, run.notes) = (volumes, failed, why, notes);
        }
        plan::end(&mut runs, now().as_secs());
        match (self.note_surely(&mut records, &runs), failed) {
            (false, _) => Ok("what has become of it could not be noted: it is gone on with by whoever is at it next"),
            (true, true) => Ok("something of it has failed, and is tried again"),
            (true, false) => Ok("it is done"),
        }
    }

    /// Makes what is to be made, and gives up what no rule keeps.
    fn back_up(&self, records: &mut Records, outcome: &mut Outcome) -> Result<()> {
        let policy = records.policy.clone();
        let repository = records.repository.clone().ok_or_else(|| {
            Failure::new(format!(
                "there is no backup repository {}, or its record cannot be read",
                policy.repository
            ))
        })?;
        let target = Target::of(&repository)?;
        let mut vault = target.open(self.config.insecure_network)?;
        let cluster = admin::cluster(self.client).described()?.id;
        let session = session_name(cluster, &policy);
        sessions::fence_named(&mut vault, &session)?;
        sessions::fence(&mut vault, &[])?;
        if let Some(lost) = task::lost(&vault) {
            plan::note(&mut outcome.notes, &lost);
        }
        let (volumes, gone) = admin::backup_volumes(self.client, &policy).described()?;
        for volume in gone {
            outcome.fails(&format!("volume number {volume} of the policy is deleted"));
        }
        let names: Vec<String> = volumes.into_iter().map(|(_, name)| name).collect();
        let groups: Vec<&[String]> = match policy.together {
            true if names.is_empty() => Vec::new(),
            true => vec![&names],
            false => names.chunks(1).collect(),
        };
        let due = records.runs.run.as_ref().map_or(0, |run| run.due);
        let point = point_name(&policy, due);
        let mut last = None;
        for group in groups {
            interrupt::check()?;
            match self.group(&mut vault, group, cluster, &session, &point) {
                Ok(Made::Before(volumes)) => outcome.volumes += volumes,
                Ok(Made::Now(made)) => {
                    outcome.volumes += made.volumes.len() as u64;
                    last = Some(made.point);
                    self.count(records, outcome, &made)?;
                }
                Err(failure) if interrupt::caught() => return Err(failure),
                // The rest of the volumes would come to the same.
                Err(failure) if is_of_repository(&failure) => {
                    if failure.kind != Kind::Unreachable
                        && let Err(why) = self.give_up(&mut vault, records, &repository, cluster, outcome)
                    {
                        plan::note(&mut outcome.notes, &said(&why));
                    }
                    return Err(failure);
                }
                Err(failure) => outcome.fails(&said(&failure)),
            }
        }
        if let Some(point) = last {
            task::lock(&mut vault, &target, point)?;
        }
        self.give_up(&mut vault, records, &repository, cluster, outcome)
    }

    /// A point of one volume, or of several at one moment, unless the run has it already.
    fn group(
        &self,
        vault: &mut Vault,
        names: &[String],
        cluster: ClusterId,
        session: &str,
        point: &str,
    ) -> Result<Made> {
        let by = By::Node(self.client);
        let subjects: Vec<Subject> = names
            .iter()
            .map(|name| Subject::find(&by, name))
            .collect::<Result<_>>()?;
        vault.refresh().described()?;
        let own = cluster.0.to_be_bytes();
        let made_before = |vault: &Vault| {
            let is_made = |found: &&amita_backup::Point| {
                let volumes = || found.volumes.iter().map(|volume| &volume.identity);
                let has = |subject: &Subject| volumes().any(|has| has.volume == subject.identity.volume);
                // What has come to the policy since is of the next run.
                let is_it = names.len() > 1 || subjects.iter().all(has);
                found.name == point && is_it && volumes().all(|has| has.cluster == own)
            };
            let found = vault.state().points().values().find(is_made);
            found.map(|found| Made::Before(found.volumes.len() as u64))
        };
        if let Some(made) = made_before(vault) {
            return Ok(made);
        }
        let way = Way::of(self.config.clone(), None).stalling(STALL);
        let task = Task {
            by,
            way: &way,
            subjects: &subjects,
            is_full: false,
            patience: PATIENCE,
            session,
            point: Some(point),
            shows: false,
        };
        match task.back_up(vault) {
            Ok(made) => Ok(Made::Now(made)),
            // Its answer got lost, or one that was at the policy before has made it all the same.
            Err(failure) => vault.refresh().ok().and_then(|()| made_before(vault)).ok_or(failure),
        }
    }

    /// Notes a point that was made.
    fn count(&self, records: &mut Records, outcome: &Outcome, made: &task::Made) -> Result<()> {
        let read: u64 = made.volumes.iter().map(|volume| volume.read_bytes).sum();
        let sent = made.sent.pack_bytes;
        let mut runs = records.runs.clone();
        runs.points = runs.points.saturating_add(1);
        runs.read_bytes = runs.read_bytes.saturating_add(read);
        runs.sent_bytes = runs.sent_bytes.saturating_add(sent);
        if let Some(run) = &mut runs.run {
            run.points += 1;
            run.volumes = outcome.volumes;
            run.read_bytes = run.read_bytes.saturating_add(read);
            run.sent_bytes = run.sent_bytes.saturating_add(sent);
        }
        match self.note_surely(records, &runs) {
            true => Ok(()),
            false => {
                self.ends.lose();
                Err(Failure::interrupted())
            }
        }
    }

    /// Gives up the policy's own points that no rule keeps, and removes what nothing needs any more.
    fn give_up(
        &self,
        vault: &mut Vault,
        records: &mut Records,
        repository: &BackupRepository,
        cluster: ClusterId,
        outcome: &mut Outcome,
    ) -> Result<()> {
        interrupt::check()?;
        vault.refresh().described()?;
        let (policy, own) = (&records.policy, cluster.0.to_be_bytes());
        let points: Vec<_> = prune::points(vault.state())
            .filter(|(name, point)| is_own(policy, name) && point.volumes.iter().all(|(cluster, _)| *cluster == own))
            .map(|(_, point)| point)
            .collect();
        let gone = retention::given_up(policy, &points).map_err(Failure::new)?;
        let (condemned, swept, _) = vault.state().waiting();
        // What is locked waits for days: nothing is read for that each time.
        let waits = condemned > 0 || (swept > 0 && repository.lock_days.is_none());
        if gone.is_empty() && !waits {
            return Ok(());
        }
        // Other rules may keep them.
        let is_as_it_was = self
            .read()
            .is_ok_and(|found| found.is_some_and(|found| found.policy == *policy));
        if !is_as_it_was {
            self.ends.change();
            return Err(Failure::interrupted());
        }
        let pruned = prune::prune_vault(vault, &gone)?;
        if !pruned.waiting.is_empty() {
            plan::note(
                &mut outcome.notes,
                &format!(
                    "what nothing needs any more is removed when these are over: {}",
                    pruned.waiting.join(", ")
                ),
            );
        }
        let forgotten = gone.len() as u64;
        records.runs.forgotten = records.runs.forgotten.saturating_add(forgotten);
        if let Some(run) = &mut records.runs.run {
            run.forgotten += forgotten;
        }
        Ok(())
    }
}

/// A point of a run.
enum Made {
    /// An attempt of before has made it; so many volumes are in it.
    Before(u64),
    Now(task::Made),
}

/// A failure, in one or two sentences.
fn said(failure: &Failure) -> String {
    match failure.advice.as_str() {
        "" => failure.what.clone(),
        advice => format!("{}. {advice}", failure.what.trim_end_matches('.')),
    }
}
