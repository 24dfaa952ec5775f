//! One volume of a run: its snapshot is wished, waited for, and then those go that no rule keeps.

use super::catalog::{Catalog, Found};
use super::{Clock, MOST_REASONS};
use crate::admin::{self, AdminError, Held, unchanged};
use crate::policy::retention;
use amita_metadata::{Call, KeyValue, Op, Reply, Transact};
use amita_types::map::{
    self, Cluster, POLICY_LABEL, Policy, PolicyRuns, Run, RunSet, SNAPSHOTS_SINCE, Snapshot, SnapshotName,
    SnapshotState, SnapshotWish, Volume,
};
use amita_types::{SnapshotId, VolumeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

type Result<T> = std::result::Result<T, AdminError>;

/// How often a snapshot of a volume is wished, and the pauses in between.
const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(30)];
/// For how long one is waited for: its owner gives up after 20 seconds.
const PATIENCE: Duration = Duration::from_secs(40);
/// For how long a snapshot is waited for that somebody else has wished.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(120);
/// Until it is looked at again.
const BUSY_AGAIN: Duration = Duration::from_secs(1);
/// Snapshots of a volume that are known to go at one time.
const MOST_KNOWN: usize = 256;
/// Steps at which one deletion may be lost to others' changes, before the volume has failed.
const MOST_RACES: u32 = 20;
/// Bytes of a reason that are kept.
const MOST_BYTES: usize = 400;

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    /// It is wished at this time.
    Ask { at: Duration },
    /// It is wished; until this time.
    Wait { until: Duration },
    /// What no rule keeps is to be found.
    Judge,
    /// These go; `more`: and others behind them, and so many had gone before these, or stay.
    Prune {
        doomed: VecDeque<(VolumeId, SnapshotId, String)>,
        more: Option<u64>,
    },
}

/// By what something is wished or deleted.
#[derive(Clone, Copy)]
pub(crate) struct By<'a> {
    pub policy: &'a Policy,
    /// That the policy is this one, and who leads: compared in the transactions of wishes and deletions.
    pub held: &'a Held,
    /// What has become of the set of the run, where it takes one: then no volume's snapshot is wished by itself.
    pub set: Option<&'a RunSet>,
}

#[derive(Debug)]
pub(super) struct Job {
    /// The volume's name, as far as is known.
    name: String,
    /// The number of its data, by which the wish is kept.
    data: VolumeId,
    /// The snapshot's.
    snapshot: String,
    pub stage: Stage,
    attempts: usize,
    /// Others' snapshots are waited for until then.
    others_until: Option<Duration>,
    taken: bool,
    deleted: u64,
    left: u64,
    /// Those that something needs, as was said when they were to go.
    stay: BTreeSet<SnapshotId>,
    /// Deletions that were lost to others' changes, one after the other.
    races: u32,
    why: Option<String>,
    note: Option<String>,
}

/// What has become of a volume.
#[derive(Debug)]
pub(super) struct Outcome {
    taken: bool,
    deleted: u64,
    left: u64,
    gone: bool,
    failed: Option<String>,
    note: Option<String>,
}

impl Outcome {
    /// The only volume of a policy is not there.
    pub fn lost(policy: &Policy, volume: VolumeId) -> Outcome {
        let name = &policy.name;
        let why = format!(
            "its volume, number {volume}, is deleted; have it back (`amita volume undelete`), or delete the policy \
             (`amita snapshot-policy delete {name}`)"
        );
        Outcome {
            failed: Some(why),
            ..Outcome::gone()
        }
    }

    fn gone() -> Outcome {
        Outcome {
            taken: false,
            deleted: 0,
            left: 0,
            gone: true,
            failed: None,
            note: None,
        }
    }

    /// Adds it up.
    pub fn count(&self, run: &mut Run, runs: &mut PolicyRuns) {
        let (taken, failed) = (u64::from(self.taken), u64::from(self.failed.is_some()));
        // What the record says may be anything.
        for (sum, more) in [
            (&mut run.taken, taken),
            (&mut run.deleted, self.deleted),
            (&mut run.left, self.left),
            (&mut run.gone, u64::from(self.gone)),
            (&mut run.failed, failed),
            (&mut runs.taken, taken),
            (&mut runs.deleted, self.deleted),
            (&mut runs.failures, failed),
        ] {
            *sum = sum.saturating_add(more);
        }
        let add = |to: &mut Vec<String>, text: &Option<String>| {
            let has_room = to.len() < MOST_REASONS;
            let is_new = |text: &String| has_room && !to.contains(text);
            let new = text.clone().filter(is_new);
            to.extend(new);
        };
        add(&mut run.why, &self.failed);
        add(&mut run.notes, &self.note);
    }
}

/// Something that somebody should know of a run.
pub(super) fn note(run: &mut Run, text: &str) {
    if run.notes.len() < MOST_REASONS {
        run.notes.push(text.to_owned());
    }
}

/// What the metadata says of a snapshot that was wished.
pub(super) enum Answer {
    /// Not yet.
    Waiting,
    Refused(String, u64),
    /// The wish is gone; a snapshot has the name, if there is a number.
    Answered(Option<(VolumeId, SnapshotId)>),
}

/// Looks at what was wished, all at once.
pub(super) fn look(meta: &dyn Transact, volumes: &[VolumeId], jobs: &BTreeMap<VolumeId, Job>) -> Result<Vec<Answer>> {
    let Some(ops) = volumes
        .iter()
        .map(|volume| Some((volume, jobs.get(volume)?)))
        .collect::<Option<Vec<_>>>()
        .filter(|found| !found.is_empty())
    else {
        return Ok(Vec::new());
    };
    let then = ops
        .iter()
        .flat_map(|(volume, job)| {
            [
                map::snapshot_wish_key(job.data),
                map::snapshot_name_key(**volume, &job.snapshot),
            ]
        })
        .map(|key| Op::Get { key })
        .collect();
    let reply = meta.txn(&Call {
        then,
        ..Call::default()
    })?;
    let answers = ops.iter().enumerate().map(|(index, (_, job))| {
        let wish = reply
            .value(2 * index)
            .and_then(|found| Some((found.json::<SnapshotWish>().ok()?, found.mod_revision)));
        match wish.filter(|(wish, _)| wish.name == job.snapshot) {
            Some((wish, revision)) => match wish.refused {
                Some(why) => Answer::Refused(why, revision),
                None => Answer::Waiting,
            },
            None => Answer::Answered(named(*ops[index].0, reply.value(2 * index + 1))),
        }
    });
    Ok(answers.collect())
}

/// Which snapshot of a volume has a name: of which of its data, and its number there.
pub(super) fn named(host: VolumeId, found: Option<&KeyValue>) -> Option<(VolumeId, SnapshotId)> {
    let name = found?.json::<SnapshotName>().ok()?;
    Some((name.data(host), name.number))
}

/// The same of a volume that was read, which may have moved to another pool since the name was written.
pub(super) fn named_of(volume: &Volume, found: Option<&KeyValue>) -> Option<(VolumeId, SnapshotId)> {
    let name = found?.json::<SnapshotName>().ok()?;
    Some((volume.data_of(&name), name.number))
}

/// The snapshot of that number, if it is sealed.
pub(super) fn sealed(meta: &dyn Transact, which: Option<(VolumeId, SnapshotId)>) -> Result<Option<Snapshot>> {
    let Some((data, number)) = which else { return Ok(None) };
    let reply = meta.txn(&Call::get(map::snapshot_key(data, number)))?;
    // Of one that cannot be read its volume's owner says so.
    let found = read::<Snapshot>(&reply, 0).map(|(snapshot, _)| snapshot);
    Ok(found.filter(|snapshot| matches!(snapshot.state, SnapshotState::Sealed(_))))
}

impl Job {
    pub fn new(volume: VolumeId, name: String, snapshot: String, now: Duration) -> Job {
        Job {
            data: volume,
            name,
            snapshot,
            stage: Stage::Ask { at: now },
            attempts: 0,
            others_until: None,
            taken: false,
            deleted: 0,
            left: 0,
            stay: BTreeSet::new(),
            races: 0,
            why: None,
            note: None,
        }
    }

    /// What was looked for in [`look`].
    pub fn answered(&mut self, meta: &dyn Transact, answer: Answer, now: Duration) -> Result<()> {
        let Stage::Wait { until } = self.stage else {
            return Ok(());
        };
        match answer {
            Answer::Waiting if now < until => {}
            Answer::Waiting => {
                self.withdraw(meta)?;
                let seconds = PATIENCE.as_secs();
                let why = format!(
                    "it was not taken within {seconds} s: no gateway opens the volume, or a store does not answer"
                );
                self.again(why, now);
            }
            Answer::Refused(why, revision) => {
                remove_wish(meta, &map::snapshot_wish_key(self.data), revision)?;
                self.again(why, now);
            }
            Answer::Answered(which) => match sealed(meta, which)? {
                Some(_) => {
                    self.taken = true;
                    self.stage = Stage::Judge;
                }
                // The volume was renamed meanwhile, or somebody has taken the wish away.
                None => self.again("what was wished is gone, and nothing was taken".to_owned(), now),
            },
        }
        Ok(())
    }

    /// It is tried again after a pause, or given up.
    fn again(&mut self, why: String, now: Duration) {
        match PAUSES.get(self.attempts) {
            Some(pause) => self.stage = Stage::Ask { at: now + *pause },
            None => self.give_up(why),
        }
        self.attempts += 1;
    }

    /// No snapshot is taken. Older ones go all the same, where no rule keeps them: it may have failed because there are too many.
    fn give_up(&mut self, why: String) {
        self.failed(&why);
        self.stage = Stage::Judge;
    }

    /// The set of the run has no snapshot of it.
    fn not_of(&mut self, set: &RunSet) {
        match &set.why {
            // Said once for all volumes.
            Some(why) => self.why = Some(why.clone()),
            None => {
                let text = format!(
                    "{} has no snapshot {}: it was not the policy's when the set was taken, or has lost it since",
                    self.name, self.snapshot
                );
                self.note.get_or_insert(short(text));
            }
        }
        self.stage = Stage::Judge;
    }

    fn failed(&mut self, why: &str) {
        let text = short(format!("{}@{}: {why}", self.name, self.snapshot));
        self.why.get_or_insert(text);
    }

    /// The policy's rules may be others: what was found to go is found anew.
    pub fn judge_anew(&mut self) {
        if matches!(self.stage, Stage::Prune { .. }) {
            self.stage = Stage::Judge;
        }
    }

    /// The policy is paused: nothing more is wished or deleted.
    pub fn stop(&mut self, meta: &dyn Transact) -> Result<Outcome> {
        self.withdraw(meta)?;
        if matches!(self.stage, Stage::Ask { .. } | Stage::Wait { .. }) {
            let text = short(format!(
                "{}@{} is not waited for: the policy was paused",
                self.name, self.snapshot
            ));
            self.note.get_or_insert(text);
        }
        Ok(self.outcome())
    }

    /// Does what can be done now; what has become of the volume, if that is all.
    pub fn go_on(
        &mut self,
        meta: &dyn Transact,
        by: By<'_>,
        volume: VolumeId,
        catalog: &mut Catalog,
        clock: Clock,
        deletions: &mut usize,
    ) -> Result<Option<Outcome>> {
        let policy = by.policy;
        if matches!(self.stage, Stage::Ask { at } if at <= clock.steady)
            && !self.ask(meta, by, volume, catalog, clock)?
        {
            return Ok(Some(Outcome::gone()));
        }
        if matches!(self.stage, Stage::Judge) && *deletions > 0 {
            let chain = self.chain(meta, volume, catalog)?;
            self.judge(meta, policy, &chain)?;
        }
        let Stage::Prune { doomed, more } = &mut self.stage else {
            return Ok(None);
        };
        while let Some((data, number, name)) = doomed.front().filter(|_| *deletions > 0) {
            *deletions -= 1;
            match delete(meta, by, &self.name, *data, name, *number) {
                Ok(true) => {
                    (self.deleted, self.races) = (self.deleted + 1, 0);
                    catalog.tally.less();
                }
                // By other rules it may be kept: they are read at the next step, if this node leads then.
                Ok(false) => {
                    self.stage = Stage::Judge;
                    return Ok(None);
                }
                // Somebody was faster.
                Err(AdminError::NoSuch { what: "snapshot", .. }) => {}
                // It goes on later.
                Err(why) if is_away(&why) => return Err(why),
                Err(AdminError::NoSuch { .. }) => match catalog.find(meta, volume)? {
                    Found::Named(name) if name != self.name => {
                        self.name = name;
                        return Ok(None);
                    }
                    Found::Named(_) => return Ok(None),
                    Found::Gone => return Ok(Some(self.outcome())),
                },
                // Clones are made all the time, perhaps: it goes at a later step.
                Err(AdminError::TooManyRaces { .. }) if self.races < MOST_RACES => {
                    self.races += 1;
                    return Ok(None);
                }
                // Somebody has protected it, or made a clone of it.
                Err(why) if is_to_stay(&why) => {
                    self.stay.insert(*number);
                    self.left += 1;
                    let text = short(format!("{}@{name} is left: {why}", self.name));
                    self.note.get_or_insert(text);
                }
                Err(why) => {
                    let text = short(format!("{}@{name} cannot be deleted: {why}", self.name));
                    self.why.get_or_insert(text);
                }
            }
            doomed.pop_front();
        }
        if !doomed.is_empty() {
            return Ok(None);
        }
        // Where nothing is known of these that was not before, the others are left for the next run.
        if more.is_some_and(|before| self.dealt_with() > before) {
            self.stage = Stage::Judge;
            return Ok(None);
        }
        Ok(Some(self.outcome()))
    }

    fn dealt_with(&self) -> u64 {
        self.deleted + self.stay.len() as u64
    }

    fn outcome(&mut self) -> Outcome {
        Outcome {
            taken: self.taken,
            deleted: self.deleted,
            left: self.left,
            gone: false,
            failed: self.why.take(),
            note: self.note.take(),
        }
    }

    /// Wishes the snapshot, unless it is there already; false: the volume is gone.
    fn ask(
        &mut self,
        meta: &dyn Transact,
        By { policy, held, set }: By<'_>,
        volume: VolumeId,
        catalog: &mut Catalog,
        clock: Clock,
    ) -> Result<bool> {
        let name_key = map::snapshot_name_key(volume, &self.snapshot);
        let wish_key = map::snapshot_wish_key(self.data);
        let then = [map::cluster_key(), map::volume_key(&self.name), name_key, wish_key];
        let reply = meta.txn(&Call {
            then: then.into_iter().map(|key| Op::Get { key }).collect(),
            ..Call::default()
        })?;
        let version = read::<Cluster>(&reply, 0).map_or(0, |(cluster, _)| cluster.version);
        if version < SNAPSHOTS_SINCE {
            self.give_up(format!(
                "the cluster's version is {version}, and snapshots need {SNAPSHOTS_SINCE}: `amita cluster finalize`"
            ));
            return Ok(true);
        }
        let Some((found, revision)) = read::<Volume>(&reply, 1).filter(|(found, _)| found.host() == volume) else {
            return Ok(match catalog.find(meta, volume)? {
                Found::Gone => false,
                Found::Named(name) => {
                    self.name = name;
                    true
                }
            });
        };
        if std::mem::replace(&mut self.data, found.id) != found.id {
            // It was reverted: what is wished of it is looked for anew.
            return Ok(true);
        }
        if let Some(snapshot) = sealed(meta, named_of(&found, reply.value(2)))? {
            if retention::is_own(policy, &snapshot) {
                self.taken = true;
                self.stage = Stage::Judge;
            } else {
                self.give_up("a snapshot of that name is there, and is not this policy's".to_owned());
            }
            return Ok(true);
        }
        if let Some(set) = set {
            self.not_of(set);
            return Ok(true);
        }
        let wished = read::<SnapshotWish>(&reply, 3).filter(|(wish, _)| wish.refused.is_none());
        if let Some((other, _)) = wished {
            if other.name == self.snapshot && other.labels.get(POLICY_LABEL) == Some(&policy.mark()) {
                // By whoever led before.
                self.stage = Stage::Wait {
                    until: clock.steady + PATIENCE,
                };
                return Ok(true);
            }
            let until = *self.others_until.get_or_insert(clock.steady + PATIENCE_WITH_OTHERS);
            if clock.steady < until {
                self.stage = Stage::Ask {
                    at: clock.steady + BUSY_AGAIN,
                };
            } else {
                self.give_up(format!(
                    "another snapshot, {:?}, is being taken and does not end",
                    other.name
                ));
            }
            return Ok(true);
        }
        let wish = SnapshotWish {
            volume: self.name.clone(),
            name: self.snapshot.clone(),
            asked_at: clock.wall.as_secs(),
            labels: BTreeMap::from([(POLICY_LABEL.to_owned(), policy.mark())]),
            refused: None,
            hold_ms: None,
        };
        if let Err(why) = wish.check() {
            self.give_up(why);
            return Ok(true);
        }
        let before = reply.value(3).map_or(0, |found| found.mod_revision);
        match admin::place_wish(meta, &wish, (&found, revision), before, held, &mut catalog.tally) {
            Ok(true) => {
                self.stage = Stage::Wait {
                    until: clock.steady + PATIENCE,
                };
            }
            // Somebody has changed something meanwhile: it is looked at anew at the next step.
            Ok(false) => {}
            Err(why) if is_away(&why) => return Err(why),
            // There are too many, or a quota allows no more.
            Err(why) => self.give_up(why.to_string()),
        }
        Ok(true)
    }

    /// All that the volume is and was; it is looked for only where another one has its name by now.
    fn chain(&self, meta: &dyn Transact, volume: VolumeId, catalog: &mut Catalog) -> Result<Vec<VolumeId>> {
        let reply = meta.txn(&Call::get(map::volume_key(&self.name)))?;
        match read::<Volume>(&reply, 0).filter(|(found, _)| found.host() == volume) {
            Some((found, _)) => Ok(found.chain().collect()),
            None => catalog.chain(meta, volume),
        }
    }

    /// Finds what no rule keeps.
    fn judge(&mut self, meta: &dyn Transact, policy: &Policy, chain: &[VolumeId]) -> Result<()> {
        let snapshots = snapshots(meta, chain)?;
        let verdicts = match retention::judge(policy, &snapshots) {
            Ok(verdicts) => verdicts,
            Err(why) => {
                self.failed(&why);
                Vec::new()
            }
        };
        let stays = |verdict: &retention::Verdict| verdict.goes() && self.stay.contains(&verdict.number);
        let is_left = |verdict: &&retention::Verdict| verdict.is_left() || stays(verdict);
        self.left = verdicts.iter().filter(is_left).count() as u64;
        // The oldest first.
        let mut doomed: VecDeque<(VolumeId, SnapshotId, String)> = verdicts
            .into_iter()
            .rev()
            .filter(|verdict| verdict.goes() && !self.stay.contains(&verdict.number))
            .map(|verdict| (verdict.data, verdict.number, verdict.name))
            .collect();
        let more = (doomed.len() > MOST_KNOWN).then(|| self.dealt_with());
        doomed.truncate(MOST_KNOWN);
        self.stage = Stage::Prune { doomed, more };
        Ok(())
    }

    /// Nobody wants it any more.
    pub fn withdraw(&self, meta: &dyn Transact) -> Result<()> {
        if !matches!(self.stage, Stage::Wait { .. }) {
            return Ok(());
        }
        let key = map::snapshot_wish_key(self.data);
        let reply = meta.txn(&Call::get(key.clone()))?;
        match read::<SnapshotWish>(&reply, 0).filter(|(wish, _)| wish.name == self.snapshot) {
            Some((_, revision)) => remove_wish(meta, &key, revision),
            None => Ok(()),
        }
    }
}

/// Is it a snapshot that somebody wants to stay: one that is protected, or that something else needs?
pub(crate) fn is_to_stay(why: &AdminError) -> bool {
    !matches!(
        why,
        AdminError::Metadata(_)
            | AdminError::Suspected { .. }
            | AdminError::TooManyRaces { .. }
            | AdminError::Damaged { .. }
            | AdminError::NoSuch { .. }
    )
}

/// Is it no answer, so that nothing is known of what was asked?
pub(super) fn is_away(why: &AdminError) -> bool {
    use amita_metadata::Error;
    matches!(
        why,
        AdminError::Metadata(Error::Unavailable { .. } | Error::Unknown { .. }) | AdminError::Suspected { .. }
    )
}

pub(super) fn short(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MOST_BYTES));
    text
}

pub(super) fn read<T: serde::de::DeserializeOwned>(reply: &Reply, index: usize) -> Option<(T, u64)> {
    let found = reply.value(index)?;
    Some((found.json().ok()?, found.mod_revision))
}

/// Takes a wish away, unless another has come in its place.
pub(super) fn remove_wish(meta: &dyn Transact, key: &str, revision: u64) -> Result<()> {
    meta.txn(&Call {
        compares: vec![unchanged(key, revision)],
        then: vec![Op::Delete { key: key.to_owned() }],
        otherwise: Vec::new(),
    })?;
    Ok(())
}

/// The sealed snapshots of all that a volume is and was that nobody has deleted, marks not among them; one whose record cannot be read is
/// nobody's.
pub(crate) fn snapshots(meta: &dyn Transact, chain: &[VolumeId]) -> Result<Vec<Snapshot>> {
    let of_one = |data: &VolumeId| Op::Prefix {
        key: map::snapshots_prefix(*data),
    };
    let reply = meta.txn(&Call {
        then: chain.iter().map(of_one).collect(),
        ..Call::default()
    })?;
    Ok((0..chain.len())
        .flat_map(|index| sealed_of(reply.values(index)))
        .collect())
}

/// The same of records that were read.
pub(crate) fn sealed_of(records: &[KeyValue]) -> Vec<Snapshot> {
    let found = records.iter().filter_map(|found| found.json::<Snapshot>().ok());
    found
        .filter(|snapshot| matches!(snapshot.state, SnapshotState::Sealed(_)) && !snapshot.hidden && !snapshot.mark)
        .collect()
}

/// Deletes a snapshot, if it is the policy's own and the volume's still; false: the policy is not what it was, or another node leads.
pub(crate) fn delete(
    meta: &dyn Transact,
    By { policy, held, .. }: By<'_>,
    volume_name: &str,
    data: VolumeId,
    name: &str,
    number: SnapshotId,
) -> Result<bool> {
    let is_meant = |snapshot: &Snapshot| {
        // A mark is whoever goes on from it's, and takes no room.
        let is_it = (snapshot.volume, snapshot.number) == (data, number);
        is_it && !snapshot.mark && retention::is_own(policy, snapshot)
    };
    let deleted = admin::delete_snapshot_that(meta, volume_name, name, &is_meant, held, admin::Left::Nothing)?;
    Ok(deleted.is_some())
}
