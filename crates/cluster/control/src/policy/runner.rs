//! Takes the snapshots of policies and deletes those that no rule keeps, on the node that leads.
//!
//! [`Runner::step`] is called again and again, with what time it is. It reads the policies, begins what is due, goes on with what is
//! under way, and says what is to be told; it never waits. What it needs to remember stands in the metadata, written by
//! transactions that name the election: a node that does not lead any more, and does not know it yet, notes, wishes and deletes nothing.
//! All that it may still do is to take back a wish of a policy that is gone or paused. What is wished or deleted is so by the policy as it
//! is: its record is compared, too.
//!
//! # A run
//! A time of a schedule, and all volumes of the policy in order of their numbers. Of each a snapshot is wished, as operators do it
//! ([`job`]); then those that no rule keeps are deleted. The record says up to which volume that is done, and what came of it. Whoever
//! leads next begins behind that volume, and knows by its name each snapshot that is taken already.
//!
//! Where the snapshots of a run are to be of one moment, one set of all volumes comes before all of that ([`set`]); what has become of it
//! stands in the record, and of each volume is only looked whether it has its snapshot of it.
//!
//! Times that have passed while a run was under way, or while nobody led, are *missed*: they are counted and told, and one run is made
//! in place of all of them, for the last one.
//!
//! # Clocks
//! A time that is dealt with stays so. A clock that goes back a little makes the next run wait until it is where it was. One that goes
//! back by more than [`MOST_BACK`] was wrong before or is wrong now: that is told, and times count from there.
//!
//! # Bounds
//! At a step a few snapshots are begun, and a few deleted; a few dozens are under way at one time, whatever the number of volumes and
//! policies; policies take turns. Of a policy's volumes some thousands are known at a time, and the next ones are read when those are
//! done.

mod catalog;
mod job;
mod known;
mod set;

use super::schedule::Schedule;
use crate::admin::{self, AdminError, Tally};
use crate::coordinator::election_key;
use crate::events::{Draft, Kind};
use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::map::{self, Policy, PolicyId, PolicyRuns, SnapshotSet, SnapshotWish};
use amita_types::{NodeId, VolumeId};
pub(crate) use catalog::Catalog;
#[cfg(test)]
pub(crate) use job::snapshots as snapshots_of;
pub(crate) use job::{By, delete as delete_own, is_to_stay, sealed_of};
use job::{Job, Outcome, Stage};
use known::is_again;
use set::SetJob;
pub(crate) use set::is_too_many;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

type Result<T> = std::result::Result<T, AdminError>;

/// A clock that goes back by less is waited for.
pub const MOST_BACK: u64 = 3600;
/// A run that begins later than this is a missed one that is made up for.
pub const LATE: u64 = 60;
/// Missed times and failures of one policy are told again after this.
const TOLD_AGAIN: u64 = 3600;
/// Snapshots that are under way at one time, of all policies.
const MOST_JOBS: usize = 32;
/// Snapshots that are begun at one step.
const MOST_BEGUN: usize = 8;
/// Sets that are under way at one time, of all policies.
const MOST_SETS: usize = 4;
/// Snapshots that are deleted at one step.
const MOST_DELETED: usize = 16;
/// Volumes of one policy that are known at one time.
const MOST_QUEUED: usize = 4096;
/// How far a run has come is written so often.
const NOTED_EVERY: Duration = Duration::from_secs(2);
/// Reasons of failures that are kept.
const MOST_REASONS: usize = 8;
/// While something is under way, the next step is after this.
pub const BUSY: Duration = Duration::from_millis(100);
/// While there are policies, the next step is after this at the latest.
pub const LOOK: Duration = Duration::from_secs(1);
/// While there are none.
pub const IDLE: Duration = Duration::from_secs(5);

/// What time it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Since 1970. It may jump.
    pub wall: Duration,
    /// Since whenever. It does not.
    pub steady: Duration,
}

/// What is done for policies.
#[derive(Debug, Default)]
pub struct Runner {
    policies: BTreeMap<PolicyId, Known>,
    /// The policy whose turn is over.
    turn: Option<PolicyId>,
    /// When the next step is wanted.
    pause: Option<Duration>,
    /// What is to be told.
    told: Vec<Draft>,
    /// Policies, by their records' keys, that cannot be carried out, and when that was told last.
    idle: BTreeMap<String, u64>,
    tally: Tally,
    /// What is to be taken back: its policy is gone.
    gone: Vec<Job>,
    /// Sets likewise.
    gone_sets: Vec<SetJob>,
    /// What others have wished who led before was looked at.
    has_swept: bool,
}

/// A policy, and its run if one is under way.
#[derive(Debug)]
struct Known {
    policy: Policy,
    revision: u64,
    schedule: std::result::Result<Schedule, String>,
    runs: PolicyRuns,
    runs_revision: u64,
    /// The next time that is not dealt with, and the `after` that it is behind.
    next: Option<(u64, Option<u64>)>,
    /// The set of the run, until it is taken or given up.
    set: Option<SetJob>,
    /// The volumes that come next; none: they are to be read.
    queue: Option<VecDeque<(VolumeId, String)>>,
    /// There are more behind those of the queue.
    more: bool,
    jobs: BTreeMap<VolumeId, Job>,
    /// What is at its end, and not in the record yet.
    ended: BTreeMap<VolumeId, Outcome>,
    /// When the record was written last, by the steady clock.
    noted: Duration,
}

/// What notes, wishes and deletions compare: this node leads still.
type Fence = Option<(String, u64)>;

impl Runner {
    /// When the next step is wanted.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause.unwrap_or(IDLE)
    }

    /// Somebody else leads: what is known may be old when this node leads again.
    pub fn forget(&mut self) {
        (self.policies, self.pause) = (BTreeMap::new(), None);
        (self.gone, self.gone_sets, self.has_swept) = (Vec::new(), Vec::new(), false);
    }

    /// What is to be told since the last time.
    pub fn told(&mut self) -> Vec<Draft> {
        std::mem::take(&mut self.told)
    }

    /// What has become of each policy, as far as this node has done it.
    pub fn each(&self) -> impl Iterator<Item = (&Policy, &PolicyRuns, Option<&Schedule>)> {
        self.policies
            .values()
            .map(|known| (&known.policy, &known.runs, known.schedule.as_ref().ok()))
    }

    /// Does what is to be done now. `leader`: nothing is done unless this node leads.
    ///
    /// # Errors
    /// The metadata is away or refuses. What was under way goes on at the next step.
    pub fn step(&mut self, meta: &dyn Transact, leader: Option<NodeId>, clock: Clock) -> Result<()> {
        self.pause = Some(LOOK);
        let Some(fence) = self.read(meta, leader, clock.wall.as_secs())? else {
            self.forget();
            return Ok(());
        };
        let now = clock.wall.as_secs();
        let mut catalog = Catalog::of_step(std::mem::take(&mut self.tally));
        catalog.tally.at(clock.steady);
        for known in self.policies.values_mut() {
            known.begin(meta, &fence, now, &mut self.told)?;
            known.fill(meta, &mut catalog)?;
        }
        self.start_sets(clock);
        self.start(clock);
        self.go_on(meta, &fence, &mut catalog, clock)?;
        self.tally = catalog.tally;
        for known in self.policies.values_mut() {
            known.end(meta, &fence, clock, &mut self.told)?;
        }
        let is_busy = self.policies.values().any(|known| known.runs.run.is_some());
        self.pause = Some(match self.policies.is_empty() {
            true => IDLE,
            false if is_busy => BUSY,
            false => LOOK.min(self.until_next(clock.wall)),
        });
        Ok(())
    }

    fn until_next(&self, now: Duration) -> Duration {
        let next = self.policies.values().filter_map(|known| known.next?.1).min();
        let until = next.map_or(LOOK, |next| Duration::from_secs(next).saturating_sub(now));
        until.max(Duration::from_millis(1))
    }

    /// Reads the policies and what has become of them. None: this node does not lead, or the metadata is suspected.
    fn read(&mut self, meta: &dyn Transact, leader: Option<NodeId>, now: u64) -> Result<Option<Fence>> {
        let call = Call {
            then: vec![
                Op::Get { key: election_key() },
                Op::Prefix {
                    key: map::suspect_prefix(),
                },
                Op::Prefix {
                    key: map::policies_prefix(),
                },
                Op::Prefix {
                    key: map::policy_runs_prefix(),
                },
            ],
            ..Call::default()
        };
        let reply = meta.txn(&call)?;
        if !reply.values(1).is_empty() {
            return Ok(None);
        }
        let fence = match leader {
            None => None,
            Some(node) => match reply.value(0).filter(|found| is_held_by(found, node)) {
                None => return Ok(None),
                Some(held) => Some((election_key(), held.mod_revision)),
            },
        };
        let mut runs: BTreeMap<&str, &KeyValue> = reply
            .values(3)
            .iter()
            .map(|found| (found.key.as_str(), found))
            .collect();
        let mut old = std::mem::take(&mut self.policies);
        let mut idle = BTreeMap::new();
        // Of those that say the same number the one that is there longest has it.
        let mut numbers: BTreeMap<PolicyId, String> = BTreeMap::new();
        let mut records: Vec<&KeyValue> = reply.values(2).iter().collect();
        records.sort_by_key(|found| found.create_revision);
        for found in records {
            // One that cannot be read is left alone; `amita status` says so.
            let Ok(policy) = found.json::<Policy>() else { continue };
            if map::policy_key(&policy.name) != found.key {
                continue;
            }
            let before = self.idle.get(&found.key).copied();
            let mut is_idle = |why: &str| {
                let is_told = is_again(before.unwrap_or(0), now);
                let text = format!("policy {} does nothing: {why}", policy.name);
                let draft = Draft::new(Kind::PolicyFails, [&policy.name], text);
                self.told.extend(is_told.then_some(draft));
                let told = if is_told { now } else { before.unwrap_or(now) };
                idle.insert(found.key.clone(), told);
            };
            if let Some(other) = numbers.get(&policy.id) {
                let number = policy.id.0;
                is_idle(&format!(
                    "it has the number of policy {other}, {number}; delete one of the two"
                ));
                continue;
            }
            numbers.insert(policy.id, policy.name.clone());
            let record = runs.remove(map::policy_runs_key(policy.id).as_str());
            let (then, then_revision) =
                match record.map(|record| (serde_json::from_slice::<PolicyRuns>(&record.value), record.mod_revision)) {
                    None => (PolicyRuns::default(), 0),
                    Some((Ok(then), revision)) => (then, revision),
                    Some((Err(why), _)) => {
                        is_idle(&unreadable_runs(&policy, &why));
                        continue;
                    }
                };
            if before.is_some() {
                let text = format!("policy {} can be carried out again", policy.name);
                self.told.push(Draft::new(Kind::PolicyWorks, [&policy.name], text));
            }
            let id = policy.id;
            let known = match old.remove(&id) {
                Some(mut known) => {
                    known.renew(policy, found.mod_revision, then, then_revision);
                    known
                }
                None => Known::new(policy, found.mod_revision, then, then_revision),
            };
            self.policies.insert(id, known);
        }
        self.idle = idle;
        // Those of policies that are gone are wished by nobody any more. Where the metadata is away just now, it is done later.
        for known in old.into_values() {
            self.gone.extend(known.jobs.into_values());
            self.gone_sets.extend(known.set);
        }
        while let Some(set) = self.gone_sets.last() {
            set.withdraw(meta)?;
            self.gone_sets.pop();
        }
        while let Some(job) = self.gone.last() {
            job.withdraw(meta)?;
            self.gone.pop();
        }
        if !std::mem::replace(&mut self.has_swept, true)
            && let Err(why) = self.sweep(meta)
        {
            self.has_swept = false;
            return Err(why);
        }
        Ok(Some(fence))
    }

    /// What another leader has wished for a policy that was paused or deleted since is wished by nobody any more.
    fn sweep(&self, meta: &dyn Transact) -> Result<()> {
        let working = self.policies.values().filter(|known| !known.policy.paused);
        let marks: BTreeSet<String> = working.map(|known| known.policy.mark()).collect();
        let reply = meta.txn(&Call {
            then: [map::snapshot_wishes_prefix(), map::sets_prefix()]
                .into_iter()
                .map(|key| Op::Prefix { key })
                .collect(),
            ..Call::default()
        })?;
        let sets = reply
            .values(1)
            .iter()
            .filter_map(|found| found.json::<SnapshotSet>().ok());
        for set in sets {
            let mark = set.labels.get(map::POLICY_LABEL);
            if mark.is_some_and(|mark| !marks.contains(mark)) {
                admin::drop_set(meta, &set, "its policy has gone, or is paused")?;
            }
        }
        for found in reply.values(0) {
            let wish = found.json::<SnapshotWish>().ok();
            let mark = wish.and_then(|mut wish| wish.labels.remove(map::POLICY_LABEL));
            if mark.is_some_and(|mark| !marks.contains(&mark)) {
                job::remove_wish(meta, &found.key, found.mod_revision)?;
            }
        }
        Ok(())
    }

    /// Begins with sets of runs.
    fn start_sets(&mut self, clock: Clock) {
        let under_way = self.policies.values().filter(|known| known.set.is_some()).count();
        let mut left = MOST_SETS.saturating_sub(under_way);
        for known in self.policies.values_mut() {
            if left > 0 && known.start_set(clock) {
                left -= 1;
            }
        }
    }

    /// Takes volumes from the queues, one policy after the other.
    fn start(&mut self, clock: Clock) {
        let under_way: usize = self.policies.values().map(|known| known.jobs.len()).sum();
        let mut left = MOST_BEGUN.min(MOST_JOBS.saturating_sub(under_way));
        let mut passed = 0;
        while left > 0 && passed < self.policies.len() {
            let behind = self.turn.and_then(|turn| {
                let from = (std::ops::Bound::Excluded(turn), std::ops::Bound::Unbounded);
                self.policies.range(from).next()
            });
            let Some((&id, _)) = behind.or_else(|| self.policies.first_key_value()) else {
                return;
            };
            self.turn = Some(id);
            let begun = self.policies.get_mut(&id).is_some_and(|known| known.start_one(clock));
            if begun {
                (left, passed) = (left - 1, 0);
            } else {
                passed += 1;
            }
        }
    }

    /// Goes on with what is under way.
    fn go_on(&mut self, meta: &dyn Transact, fence: &Fence, catalog: &mut Catalog, clock: Clock) -> Result<()> {
        let mut deletions = MOST_DELETED;
        for known in self.policies.values_mut() {
            known.go_on_with_set(meta, fence, catalog, clock)?;
            let waiting: Vec<VolumeId> = known
                .jobs
                .iter()
                .filter(|(_, job)| matches!(job.stage, Stage::Wait { .. }))
                .map(|(volume, _)| *volume)
                .collect();
            let answers = job::look(meta, &waiting, &known.jobs)?;
            for (volume, answer) in waiting.into_iter().zip(answers) {
                if let Some(job) = known.jobs.get_mut(&volume) {
                    job.answered(meta, answer, clock.steady)?;
                }
            }
            let volumes: Vec<VolumeId> = known.jobs.keys().copied().collect();
            let held = known.held(fence);
            let set = known.runs.run.as_ref().and_then(|run| run.set.clone());
            let by = By {
                policy: &known.policy,
                held: &held,
                set: set.as_ref(),
            };
            for volume in volumes {
                let Some(job) = known.jobs.get_mut(&volume) else {
                    continue;
                };
                let ended = match by.policy.paused {
                    true => Some(job.stop(meta)?),
                    false => job.go_on(meta, by, volume, catalog, clock, &mut deletions)?,
                };
                if let Some(outcome) = ended {
                    known.jobs.remove(&volume);
                    known.ended.insert(volume, outcome);
                }
            }
        }
        Ok(())
    }
}

/// What has become of a policy is not known, and not guessed.
pub(crate) fn unreadable_runs(policy: &Policy, why: &dyn std::fmt::Display) -> String {
    format!(
        "the record of its runs, {}, cannot be read: {why}; `amita snapshot-policy set {} --resume` begins it anew",
        map::policy_runs_key(policy.id),
        policy.name
    )
}

fn is_held_by(found: &KeyValue, node: NodeId) -> bool {
    let holder = found.json::<serde_json::Value>().ok();
    holder.and_then(|holder| holder["node"].as_u64()) == Some(u64::from(node.0))
}

#[cfg(test)]
mod tests;
