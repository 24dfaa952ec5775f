//! An attempt at a run of a policy, on the node that has the policy's key.
//!
//! What is made already is found in the repository by its name, so that an attempt needs to know nothing of those before it. Sessions of these that
//! are open still are fenced first: whoever was at the policy before has lost its key, and makes no point any more.

mod found;
mod work;

pub use found::Had;

use super::ends::{Ends, Why};
use super::noted::{AGAIN, noted, surely};
use amita_client::Config;
use amita_control::admin;
use amita_control::backups::plan::{self, Step};
use amita_metadata::{Call, Error, Op, Transact};
use amita_terminal::error::Failure;
use amita_terminal::interrupt;
use amita_types::map::{self, BackupPolicy, BackupRepository, BackupRuns};
use serde::de::DeserializeOwned;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What an attempt works with.
pub struct Attempt<'a> {
    pub client: &'a dyn Transact,
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
    /// The revision by which the policy was made, and the one since which it says what it says.
    made: u64,
    says: u64,
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
    fn fails(&mut self, failure: &Failure) {
        self.failed += 1;
        plan::note(&mut self.why, &said(failure));
    }

    fn notes(&mut self, what: &str) {
        plan::note(&mut self.notes, what);
    }
}

/// Since 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A policy or a task, with what else its attempts go by.
pub struct Read<T, R> {
    pub record: T,
    /// The revision by which it was made, and the one since which it says what it says.
    pub made: u64,
    pub says: u64,
    /// None: it is not known, or its record cannot be read.
    pub repository: Option<BackupRepository>,
    /// What has become of it, and the revision of that; 0: nobody has written it.
    pub run: R,
    pub revision: u64,
}

/// Reads it by its key; none: it is gone, or what is needed of it cannot be read. `of`: the name of its repository, and the key of what has become of it.
///
/// # Errors
/// The metadata is away or refuses.
pub fn read<T: DeserializeOwned, R: DeserializeOwned + Default>(
    client: &dyn Transact,
    key: String,
    of: impl Fn(&T) -> (&str, String),
) -> std::result::Result<Option<Read<T, R>>, Error> {
    let reply = client.txn(&Call::get(key))?;
    let Some(found) = reply.value(0) else { return Ok(None) };
    let Ok(record) = found.json::<T>() else { return Ok(None) };
    let (repository, run) = of(&record);
    let keys = [map::backup_repository_key(repository), run];
    let (made, says) = (found.create_revision, found.mod_revision);
    let reply = client.txn(&Call {
        then: keys.into_iter().map(|key| Op::Get { key }).collect(),
        ..Call::default()
    })?;
    let (run, revision) = match reply.value(1) {
        None => (R::default(), 0),
        Some(found) => match found.json() {
            Ok(run) => (run, found.mod_revision),
            Err(_) => return Ok(None),
        },
    };
    Ok(Some(Read {
        repository: reply.value(0).and_then(|found| found.json().ok()),
        record,
        made,
        says,
        run,
        revision,
    }))
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
            (run.failed, run.why) = (1, vec![self.ends.stuck(self.node)]);
        }
        plan::end(&mut runs, now().as_secs());
        self.note(&mut records, runs).map(drop)
    }

    fn read(&self) -> std::result::Result<Option<Records>, Error> {
        let found = read(
            self.client,
            map::backup_policy_key(self.policy),
            |policy: &BackupPolicy| (policy.repository.as_str(), map::backup_runs_key(policy.id)),
        );
        let records = |found: Read<BackupPolicy, BackupRuns>| Records {
            policy: found.record.backing_up(),
            made: found.made,
            says: found.says,
            repository: found.repository,
            runs: found.run,
            revision: found.revision,
        };
        Ok(found?.map(records))
    }

    /// Is it noted? Else another node is at it, or the policy is gone.
    fn note(&self, records: &mut Records, mut runs: BackupRuns) -> std::result::Result<bool, Error> {
        plan::sign(&mut runs, self.node, now().as_secs());
        let Records {
            policy, made, revision, ..
        } = &*records;
        let told = admin::note_backup(self.client, policy, *made, self.claim, *revision, &runs);
        let Some(revision) = noted(told)? else { return Ok(false) };
        (records.runs, records.revision) = (runs, revision);
        Ok(true)
    }

    /// The same for as long as this node has the policy's key.
    fn note_surely(&self, records: &mut Records, runs: &BackupRuns) -> bool {
        let note = |records: &mut Records| self.note(records, runs.clone());
        surely(self.ends, records, note, |records| {
            let Ok(Some(found)) = self.read() else { return false };
            let is_so = plan::is_same(&found.runs, runs);
            records.revision = found.revision;
            if is_so {
                records.runs = found.runs;
            }
            is_so
        })
    }

    /// Notes that there will be something to remove, as long as this node has the policy's key and the policy says what it says. Else nothing is given up
    /// by its rules, and the attempt ends.
    fn owes(&self, records: &mut Records) -> bool {
        let mut runs = records.runs.clone();
        runs.prune_owed = true;
        plan::sign(&mut runs, self.node, now().as_secs());
        loop {
            let Records {
                policy, says, revision, ..
            } = &*records;
            match admin::note_backup_by_rules(self.client, policy, *says, self.claim, *revision, &runs) {
                Ok(Some(revision)) => {
                    (records.runs, records.revision) = (runs, revision);
                    return true;
                }
                Err(admin::AdminError::Metadata(_)) => {
                    std::thread::sleep(AGAIN);
                    if self.ends.why().is_some() {
                        return false;
                    }
                    // It may have been done: it is the key that is compared, and not what the record said before.
                    if let Ok(Some(found)) = self.read() {
                        records.revision = found.revision;
                    }
                }
                Ok(None) | Err(_) => break,
            }
        }
        match self.read() {
            Ok(Some(found)) if found.says == records.says => self.ends.lose(),
            _ => self.ends.change(),
        }
        false
    }

    fn work(&self, mut records: Records) -> std::result::Result<&'static str, Error> {
        let mut outcome = Outcome::default();
        // What was told to end has failed by that; what else there is to say is said below.
        if let Err(failure) = self.back_up(&mut records, &mut outcome)
            && !interrupt::caught()
        {
            outcome.fails(&failure);
        }
        let why = self.ends.why().or(interrupt::caught().then_some(Why::Node));
        match why {
            Some(Why::Limit) => {
                let (limit_s, step) = (records.policy.limit_s, self.ends.step());
                outcome.fails(&Failure::new(format!(
                    "it did not come to its end within its limit of {limit_s} s; what was put stays, and is not sent again; it was at this \
                     last: {step}"
                )));
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
}

/// A failure, in one or two sentences.
pub fn said(failure: &Failure) -> String {
    match failure.advice.as_str() {
        "" => failure.what.clone(),
        advice => format!("{}. {advice}", failure.what.trim_end_matches('.')),
    }
}

#[cfg(test)]
mod tests;
