//! What a node does about policies of backups: it looks which of them are due and that nobody is at, and makes some of their runs. Tasks, which are done
//! once, are [`tasks`]'.
//!
//! Each attempt has a thread of its own, and is made by the code of `amita backup run` and `prune`: nothing of it is on the path of an I/O, and a
//! repository that does not answer holds up its own policy alone. Where there are no policies it costs three watches of the metadata.
//!
//! Verifications are looked for by a thread of their own, in the same way ([`Kind`]): one that reads for days keeps no backup from its turn.

mod attempt;
mod check;
mod ends;
mod kind;
mod look;
mod noted;
mod tasks;

use crate::commands::claim::Claim;
use crate::commands::volume::Gateways;
use crate::commands::worker::{self, AGAIN, Worker, spread};
use amita_client::Config;
use amita_control::backups::clocks::{Clocks, Time};
use amita_control::backups::plan::{self, Step};
use amita_metadata::{Batch, Call, Client, KeyValue};
use amita_node::serve::ServeConfig;
use amita_terminal::interrupt;
use amita_types::map::{self, BackupPolicy, BackupRepository, BackupRuns, PolicyId};
use attempt::{Attempt, now};
use check::Check;
use ends::Ends;
use kind::Kind;
use look::Turns;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Attempts that were given up and whose threads do not end, beyond which a node begins no other.
const MOST_STUCK: usize = 4;
/// What has changed is read no sooner than so long after: whatever else changes until then is read with it, and not all nodes
/// read at once.
const SETTLE: Duration = Duration::from_secs(1);
/// A node is at one policy no oftener than that.
const RETRY: Duration = Duration::from_secs(5);
/// What is due is left so long to nodes that have the key file by one that has none and is named by the repository all the same. Then it tries, and
/// it is told what lacks.
const KEYLESS: Duration = Duration::from_secs(30);
/// An attempt that is to end, and does not for so long, is given up: its thread waits for something that does not come.
const GRACE: Duration = Duration::from_secs(60);
/// How often it is looked without a word of a change, and while something is made here.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// A node's part in policies and tasks of backups. It ends when it is dropped: others go on then.
#[derive(Debug)]
pub struct Backups {
    _workers: Vec<Worker>,
}

impl Backups {
    /// Of a node with these settings, and with the identity of that folder. None: it reaches the metadata by a password, which is its own,
    /// and its gateways would not.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(client: Client, node: &ServeConfig, identity: Option<&Path>) -> std::io::Result<Option<Backups>> {
        let Some(config) = Gateways::config(node, identity) else {
            log::info!("this node reaches the metadata by a password, and so backs up nothing by policies: others do");
            return Ok(None);
        };
        let start = |kind: Kind| {
            let (client, config, name) = (client.clone(), config.clone(), node.name.clone());
            Worker::start(kind.thread(), kind.what(), move |stop| {
                let node = Node {
                    kind,
                    client,
                    config,
                    name,
                    stop,
                };
                node.run();
            })
        };
        let mut workers: Vec<Worker> = Kind::ALL.into_iter().map(start).collect::<std::io::Result<_>>()?;
        workers.push(tasks::start(client.clone(), config.clone(), node.name.clone())?);
        Ok(Some(Backups { _workers: workers }))
    }
}

struct Node {
    kind: Kind,
    client: Client,
    config: Config,
    name: String,
    stop: Arc<AtomicBool>,
}

/// What there is, at a revision.
struct Found {
    kind: Kind,
    policies: BTreeMap<PolicyId, BackupPolicy>,
    repositories: BTreeMap<String, BackupRepository>,
    /// None: it cannot be read, and is not guessed.
    runs: BTreeMap<PolicyId, Option<BackupRuns>>,
    /// The revisions of these records.
    noted: BTreeMap<PolicyId, u64>,
    /// Those that somebody is at.
    held: BTreeSet<PolicyId>,
    revision: u64,
}

impl Found {
    fn of(kind: Kind, records: &[KeyValue], revision: u64) -> Found {
        let keys: BTreeMap<&str, &KeyValue> = records.iter().map(|found| (found.key.as_str(), found)).collect();
        let under = |prefix: String| records.iter().filter(move |found| found.key.starts_with(&prefix));
        let mut in_order: Vec<&KeyValue> = under(map::backup_policies_prefix()).collect();
        in_order.sort_by_key(|found| found.create_revision);
        let mut policies = BTreeMap::new();
        for found in in_order {
            // One that cannot be read is left alone; `amita status` says so. Of those that say the same number the one that is there longest has it.
            if let Ok(policy) = found.json::<BackupPolicy>()
                && map::backup_policy_key(&policy.name) == found.key
            {
                policies.entry(policy.id).or_insert(policy);
            }
        }
        let seen = policies.into_iter();
        let policies: BTreeMap<PolicyId, BackupPolicy> =
            seen.filter_map(|(id, policy)| Some((id, kind.sees(policy)?))).collect();
        let runs = policies.keys().filter_map(|id| {
            let found = keys.get(kind.runs_key(*id).as_str())?;
            Some((*id, *found))
        });
        let runs: BTreeMap<PolicyId, &KeyValue> = runs.collect();
        let held = policies.keys().copied();
        let held = held.filter(|id| keys.contains_key(kind.runner_key(*id).as_str()));
        let repositories = under(map::backup_repositories_prefix()).filter_map(|found| found.json().ok());
        let named = |repository: BackupRepository| (repository.name.clone(), repository);
        Found {
            noted: runs.iter().map(|(id, found)| (*id, found.mod_revision)).collect(),
            runs: runs.iter().map(|(id, found)| (*id, kind.runs(found))).collect(),
            held: held.collect(),
            kind,
            repositories: repositories.map(named).collect(),
            policies,
            revision,
        }
    }

    fn repository(&self, policy: &BackupPolicy) -> Option<&BackupRepository> {
        self.repositories.get(&policy.repository)
    }

    /// The records of runs that can be read, and their revisions.
    fn readable_runs(&self) -> impl Iterator<Item = (PolicyId, u64, &BackupRuns)> {
        let all = self.runs.iter();
        all.filter_map(|(id, runs)| Some((*id, *self.noted.get(id)?, runs.as_ref()?)))
    }

    /// What is free and to be done now at this node, since when it waits, and how soon something is, by the wall clock.
    fn due(&self, node: &str, now: Duration) -> (Vec<(u64, &BackupPolicy)>, Duration) {
        let (mut due, mut waits) = (Vec::new(), LONGEST_REST);
        for policy in self.policies.values().filter(|policy| !self.held.contains(&policy.id)) {
            if self
                .repository(policy)
                .is_some_and(|repository| !repository.is_for(node))
            {
                continue;
            }
            let none = BackupRuns::default();
            let runs = match self.runs.get(&policy.id) {
                None => &none,
                Some(Some(runs)) => runs,
                Some(None) => continue,
            };
            match plan::step(policy, runs, now.as_secs()) {
                Step::Rest(None) => {}
                Step::Rest(Some(at)) => waits = waits.min(Duration::from_secs(at).saturating_sub(now)),
                next @ (Step::Note(_) | Step::Work(_)) => due.push((plan::due_since(runs, &next), policy)),
            }
        }
        (due, waits)
    }

    /// Is something of it to be looked at? What whoever is at a policy notes of it is nobody else's: the end of that is a change of another key.
    fn is_changed_by(&self, batch: &Batch) -> bool {
        let held: BTreeSet<String> = self.held.iter().map(|id| self.kind.runs_key(*id)).collect();
        let is_news = |key: &str| !held.contains(key) && !self.kind.is_of_other(key);
        batch.events.iter().any(|event| is_news(event.key()))
    }
}

/// In the order in which they have their turn: who waits longest is the first, since it was due, or since this node was at it last. `ago`: how long
/// ago that was.
fn in_turn(
    due: Vec<(u64, &BackupPolicy)>,
    now: Duration,
    ago: impl Fn(PolicyId) -> Option<Duration>,
) -> Vec<&BackupPolicy> {
    let since = |(since, policy): &(u64, &BackupPolicy)| {
        let last = ago(policy.id).map_or(Duration::ZERO, |ago| now.saturating_sub(ago));
        (Duration::from_secs(*since).max(last), policy.id)
    };
    let mut due = due;
    due.sort_by_key(since);
    due.into_iter().map(|(_, policy)| policy).collect()
}

/// An attempt that is made here.
struct At {
    thread: JoinHandle<()>,
    ends: Arc<Ends>,
    /// By which the policy's key was made.
    claim: Arc<std::sync::OnceLock<u64>>,
    name: String,
    /// It does not end: others may be at the policy.
    stuck: bool,
}

impl Node {
    fn stops(&self) -> bool {
        interrupt::caught() || self.stop.load(Ordering::Relaxed)
    }

    fn run(&self) {
        let mut at: BTreeMap<PolicyId, At> = BTreeMap::new();
        let mut stuck: Vec<At> = Vec::new();
        let mut turns = Turns::default();
        // When this node was at it last.
        let mut over: BTreeMap<PolicyId, Instant> = BTreeMap::new();
        let (began, mut clocks) = (Instant::now(), Clocks::default());
        while !self.stops() {
            stuck.retain(|attempt| !attempt.thread.is_finished());
            let found = match self.client.txn(&Call::prefix(map::backups_prefix())) {
                Ok(reply) => Found::of(self.kind, reply.values(0), reply.revision),
                // Others say that the metadata is away.
                Err(_) => {
                    worker::rest(AGAIN, &|| self.stops());
                    continue;
                }
            };
            for ended in self.look_after(&found, &mut at, &mut stuck) {
                over.insert(ended, Instant::now());
            }
            let time = Time {
                clock: now(),
                passed: began.elapsed(),
            };
            if let Some((other, ahead)) = clocks.look(&self.name, found.readable_runs(), time) {
                log::warn!(
                    "this node's clock is {ahead} s ahead of node {other}'s: it begins no {} of policies until they agree; set the clocks right",
                    self.kind.plural()
                );
            }
            let (mut due, mut waits) = found.due(&self.name, time.clock);
            if clocks.rests(time.passed) {
                due.clear();
            }
            let due = in_turn(due, time.clock, |id| over.get(&id).map(Instant::elapsed));
            turns.keep(
                |id| due.iter().any(|policy| policy.id == id),
                |id| found.policies.contains_key(&id),
            );
            over.retain(|id, _| found.policies.contains_key(id));
            for policy in due {
                let since = turns.free_for(policy.id);
                // The end of what is made here is waited for in any case.
                if at.contains_key(&policy.id) || at.len() >= self.kind.most() || stuck.len() >= MOST_STUCK {
                    continue;
                }
                if let Err(rests) = turns.begin(policy.id) {
                    waits = waits.min(rests);
                    continue;
                }
                waits = waits.min(RETRY);
                let repository = found.repository(policy);
                if let Some(begun) = self.begin(policy, repository, since >= KEYLESS) {
                    at.insert(policy.id, begun);
                }
            }
            self.wait(&found, waits, &at);
        }
        for (_, attempt) in at {
            if attempt.thread.join().is_err() {
                log::error!("one of the {} of policies has panicked", self.kind.plural());
            }
        }
    }

    /// Ends attempts by what is not so any more, and gives up those that do not end. Which policies this node is at no longer.
    fn look_after(&self, found: &Found, at: &mut BTreeMap<PolicyId, At>, stuck: &mut Vec<At>) -> Vec<PolicyId> {
        let over = at.iter().filter(|(_, attempt)| attempt.thread.is_finished());
        let mut over: Vec<PolicyId> = over.map(|(id, _)| *id).collect();
        at.retain(|id, _| !over.contains(id));
        for (id, attempt) in at.iter_mut() {
            let policy = found.policies.get(id).filter(|policy| policy.name == attempt.name);
            let repository = policy.and_then(|policy| found.repository(policy));
            attempt.ends.compare(policy, repository);
            if attempt.ends.overdue() >= Some(GRACE) {
                attempt.stuck = true;
                self.give_up(attempt);
            }
        }
        let ended: Vec<PolicyId> = at
            .iter()
            .filter(|(_, attempt)| attempt.stuck)
            .map(|(id, _)| *id)
            .collect();
        stuck.extend(ended.iter().filter_map(|id| at.remove(id)));
        over.extend(ended);
        over
    }

    fn give_up(&self, attempt: &At) {
        log::warn!(
            "{}: it is to end, and does not: the repository does not answer this node",
            self.kind.named(&attempt.name)
        );
        if let Some(claim) = attempt.claim.get() {
            let with = self.attempt(&attempt.name, *claim, &attempt.ends);
            let told = match self.kind {
                Kind::Backup => with.stuck(),
                Kind::Verification => Check { with }.stuck(),
            };
            if let Err(why) = told {
                log::debug!(
                    "that {} does not end is not noted: {why}",
                    self.kind.named(&attempt.name)
                );
            }
        }
        attempt.ends.lose();
    }

    fn attempt<'a>(&'a self, policy: &'a str, claim: u64, ends: &'a Ends) -> Attempt<'a> {
        Attempt {
            client: &self.client,
            config: &self.config,
            node: &self.name,
            claim,
            ends,
            policy,
        }
    }

    /// Begins an attempt, if nobody else is at the policy, and this node has the key file, or is to tell that it lacks.
    fn begin(&self, policy: &BackupPolicy, repository: Option<&BackupRepository>, waited: bool) -> Option<At> {
        let ends = Arc::new(Ends::new(Arc::clone(&self.stop), Duration::from_secs(policy.limit_s)));
        let claimed: Arc<std::sync::OnceLock<u64>> = Arc::default();
        let node = Node {
            kind: self.kind,
            client: self.client.clone(),
            config: self.config.clone(),
            name: self.name.clone(),
            stop: Arc::clone(&self.stop),
        };
        let key_file = repository.map(|repository| repository.key_file.clone());
        let is_named = repository.is_none_or(|repository| !repository.nodes.is_empty());
        let (name, id) = (policy.name.clone(), policy.id);
        let (own, told) = (Arc::clone(&ends), Arc::clone(&claimed));
        let thread = std::thread::Builder::new().name(self.kind.attempt_thread().to_owned());
        let thread = thread.spawn(move || {
            // A file may be of a folder that does not answer.
            let has_key = key_file.is_some_and(|file| std::fs::metadata(file).is_ok());
            if has_key || (is_named && waited) {
                node.make(&name, id, &own, &told);
            }
        });
        let thread = thread
            .inspect_err(|why| log::warn!("{}: no thread for it: {why}", self.kind.named(&policy.name)))
            .ok()?;
        Some(At {
            thread,
            ends,
            claim: claimed,
            name: policy.name.clone(),
            stuck: false,
        })
    }

    fn make(&self, name: &str, id: PolicyId, ends: &Arc<Ends>, claimed: &std::sync::OnceLock<u64>) {
        worker::rest(spread(), &|| self.stops());
        let what = self.kind.named(name);
        // Others say that the metadata is away.
        let Ok(Some(claim)) = Claim::take(&self.client, self.kind.runner_key(id), &what, &self.name) else {
            return;
        };
        ends.holds(&claim.lost);
        let _ = claimed.set(claim.revision);
        let looked = Arc::clone(ends);
        let _ending = interrupt::ending(move || looked.why().is_some());
        let attempt = || self.attempt(name, claim.revision, ends);
        let check = || Check { with: attempt() };
        match self.kind {
            Kind::Backup => look::carry_out(&what, || attempt().run(), || attempt().panicked()),
            Kind::Verification => look::carry_out(&what, || check().run(), || check().panicked()),
        }
    }

    /// Waits for a change, for the end of an attempt that is made here, or for so long.
    fn wait(&self, found: &Found, longest: Duration, at: &BTreeMap<PolicyId, At>) {
        let has_ended = || at.values().any(|attempt| attempt.thread.is_finished());
        let (stops, is_changed) = (|| self.stops(), |batch: &Batch| found.is_changed_by(batch));
        look::wait(
            (&self.client, found.revision),
            longest,
            SETTLE,
            &stops,
            &has_ended,
            &is_changed,
        );
    }
}

#[cfg(test)]
mod tests;
