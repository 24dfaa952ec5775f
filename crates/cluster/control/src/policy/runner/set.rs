//! The set of a run: snapshots of all its volumes, at one moment. It is wished as operators do it (`admin/set.rs`), waited for, and wished
//! anew where it has come to nothing, for as long as the run has time.
//!
//! Whoever leads next finds it by its name and its label: its record, while it is under way; and its snapshots, when it is taken. Taken is
//! one if any volume has its snapshot, for a set is taken as a whole.

use super::job::{is_away, named, read, sealed, short};
use super::{Catalog, Clock, Result};
use crate::admin::{self, Held};
use crate::policy::retention;
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{
    self, Cluster, MAX_SET_VOLUMES, POLICY_LABEL, Policy, RunSet, SNAPSHOTS_SINCE, SetState, SnapshotSet, SnapshotWish,
    Volume,
};
use amita_types::{SetId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The pauses before a set is wished anew.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Before it is wished once more, where it may yet be taken and the run has time.
const LATER: Duration = Duration::from_secs(30);
/// For how long that goes on at most.
const MOST_TIME: Duration = Duration::from_secs(300);
/// For how long one is waited for: its leader gives up after 40 seconds before it holds, and 60 behind that.
const PATIENCE: Duration = Duration::from_secs(120);
/// For how long another snapshot of one of its volumes is waited for, that somebody else has wished.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(120);
/// Until it is looked at again.
const BUSY_AGAIN: Duration = Duration::from_secs(1);
/// Names that are read by one call: it has 128 operations at most.
const READ_AT_ONCE: usize = 100;

#[derive(Debug)]
enum Stage {
    /// It is wished at this time.
    Ask { at: Duration },
    /// It is wished; until this time.
    Wait { set: SnapshotSet, until: Duration },
}

/// A set that is to be taken.
#[derive(Debug)]
pub(super) struct SetJob {
    snapshot: String,
    stage: Stage,
    attempts: usize,
    /// Those that have come to nothing.
    void: u64,
    /// How many volumes it was last wished of.
    volumes: u64,
    /// These, by the numbers under which the names of their snapshots stand.
    hosts: Vec<(VolumeId, String)>,
    /// It is not wished anew behind this.
    until: Duration,
    /// Others' snapshots are waited for until then.
    others_until: Option<Duration>,
    /// The policy's mark, when it was wished and the metadata did not answer: it may be there or not.
    unanswered: Option<String>,
}

/// Why so many volumes cannot be one set; none: they can.
pub(crate) fn is_too_many(volumes: usize) -> Option<String> {
    (volumes > MAX_SET_VOLUMES).then(|| {
        format!(
            "it is for {volumes} volumes, and snapshots of at most {MAX_SET_VOLUMES} can be of one moment; two sets would be of two \
             moments, so none is taken: have policies for fewer volumes each, by labels, or take them one by one (--one-by-one)"
        )
    })
}

/// What volumes have under the name of a set.
enum Named {
    /// None has anything.
    Nothing,
    /// The policy's snapshot of it.
    Taken(Option<SetId>),
    /// One that is not the policy's.
    Foreign(String),
}

impl SetJob {
    /// One that is to be wished now. `time`: for how long the run has time.
    pub fn new(snapshot: String, time: Duration, now: Duration) -> SetJob {
        SetJob {
            snapshot,
            stage: Stage::Ask { at: now },
            attempts: 0,
            void: 0,
            volumes: 0,
            hosts: Vec::new(),
            until: now + time.min(MOST_TIME),
            others_until: None,
            unanswered: None,
        }
    }

    /// Does what can be done now; what has become of it, if that is all.
    pub fn go_on(
        &mut self,
        meta: &dyn Transact,
        policy: &Policy,
        held: &Held,
        catalog: &mut Catalog,
        clock: Clock,
    ) -> Result<Option<RunSet>> {
        match &self.stage {
            Stage::Ask { at } if *at > clock.steady => Ok(None),
            Stage::Ask { .. } => self.ask(meta, policy, held, catalog, clock),
            Stage::Wait { set, until } => {
                let (set, is_over) = (set.clone(), clock.steady >= *until);
                self.wait(meta, policy, &set, is_over, clock.steady)
            }
        }
    }

    /// Nobody wants it any more. One that is decided stays.
    pub fn withdraw(&self, meta: &dyn Transact) -> Result<()> {
        let why = "its policy does not want it any more";
        if let Stage::Wait { set, .. } = &self.stage {
            return admin::drop_set(meta, set, why);
        }
        let Some(mark) = &self.unanswered else {
            return Ok(());
        };
        let reply = meta.txn(&Call {
            then: vec![Op::Prefix {
                key: map::sets_prefix(),
            }],
            ..Call::default()
        })?;
        let sets = reply.values(0).iter().filter_map(|found| found.json().ok());
        match sets.into_iter().find(|set| self.is_ours(set, mark)) {
            Some(set) => admin::drop_set(meta, &set, why),
            None => Ok(()),
        }
    }

    fn is_ours(&self, set: &SnapshotSet, mark: &str) -> bool {
        set.name == self.snapshot
            && set.labels.get(POLICY_LABEL).is_some_and(|label| label == mark)
            && !matches!(set.state, SetState::Void(_))
    }

    fn ended(&self, id: Option<SetId>, why: Option<&str>) -> Option<RunSet> {
        let (name, count) = (&self.snapshot, self.volumes);
        Some(RunSet {
            id,
            volumes: count,
            void: self.void,
            why: why.map(|why| short(format!("set {name} of {count} volumes: {why}"))),
        })
    }

    /// It has come to nothing; it is wished anew after a pause, or given up. `may_pass`: the same may well be taken later.
    fn again(&mut self, why: &str, may_pass: bool, now: Duration) -> Option<RunSet> {
        self.void += 1;
        let pause = match PAUSES.get(self.attempts) {
            Some(pause) => *pause,
            None if may_pass && now + LATER < self.until => LATER,
            None => return self.ended(None, Some(why)),
        };
        self.attempts += 1;
        self.stage = Stage::Ask { at: now + pause };
        None
    }

    fn ask(
        &mut self,
        meta: &dyn Transact,
        policy: &Policy,
        held: &Held,
        catalog: &mut Catalog,
        clock: Clock,
    ) -> Result<Option<RunSet>> {
        let reply = meta.txn(&Call {
            then: vec![
                Op::Get {
                    key: map::cluster_key(),
                },
                Op::Prefix {
                    key: map::sets_prefix(),
                },
                Op::Prefix {
                    key: map::snapshot_wishes_prefix(),
                },
            ],
            ..Call::default()
        })?;
        let version = read::<Cluster>(&reply, 0).map_or(0, |(cluster, _)| cluster.version);
        if version < SNAPSHOTS_SINCE {
            let why = format!(
                "the cluster's version is {version}, and sets need {SNAPSHOTS_SINCE}: `amita cluster finalize`"
            );
            return Ok(self.ended(None, Some(&why)));
        }
        let sets: Vec<SnapshotSet> = reply.values(1).iter().filter_map(|found| found.json().ok()).collect();
        let mark = policy.mark();
        if let Some(set) = sets.iter().find(|set| self.is_ours(set, &mark)) {
            // By whoever led before.
            self.volumes = set.volumes.len() as u64;
            let now = catalog.records(meta, &policy.target)?;
            self.hosts = now.map(|found| (found.host(), found.name.clone())).collect();
            self.stage = Stage::Wait {
                set: set.clone(),
                until: clock.steady + PATIENCE,
            };
            return Ok(None);
        }
        let mut volumes: Vec<Volume> = catalog.records(meta, &policy.target)?.cloned().collect();
        volumes.sort_unstable_by_key(|volume| volume.id);
        self.volumes = volumes.len() as u64;
        if volumes.is_empty() {
            return Ok(self.ended(None, None));
        }
        let ids: Vec<(VolumeId, &str)> = volumes.iter().map(|found| (found.host(), &*found.name)).collect();
        match self.named(meta, policy, &ids)? {
            Named::Taken(id) => return Ok(self.ended(id, None)),
            Named::Foreign(volume) => {
                let why = format!("volume {volume} has a snapshot of that name, which is not this policy's");
                return Ok(self.ended(None, Some(&why)));
            }
            Named::Nothing => {}
        }
        if let Some(why) = is_too_many(volumes.len()) {
            return Ok(self.ended(None, Some(&why)));
        }
        let wishes: BTreeMap<&str, SnapshotWish> = reply
            .values(2)
            .iter()
            .filter_map(|found| Some((&*found.key, found.json::<SnapshotWish>().ok()?)))
            .filter(|(_, wish)| wish.refused.is_none())
            .collect();
        if let Some(other) = in_the_way(&volumes, &wishes, &sets) {
            let until = *self.others_until.get_or_insert(clock.steady + PATIENCE_WITH_OTHERS);
            if clock.steady >= until {
                return Ok(self.ended(None, Some(&format!("{other} is being taken and does not end"))));
            }
            self.stage = Stage::Ask {
                at: clock.steady + BUSY_AGAIN,
            };
            return Ok(None);
        }
        let wanted = SnapshotSet {
            id: SetId(0),
            name: self.snapshot.clone(),
            asked_at: clock.wall.as_secs(),
            labels: BTreeMap::from([(POLICY_LABEL.to_owned(), policy.mark())]),
            volumes: Vec::new(),
            state: SetState::Taking,
        };
        match admin::place_set(meta, &volumes, &wanted, held, &mut catalog.tally) {
            Ok(Some(set)) => {
                self.hosts = volumes.iter().map(|found| (found.host(), found.name.clone())).collect();
                self.stage = Stage::Wait {
                    set,
                    until: clock.steady + PATIENCE,
                };
                Ok(None)
            }
            // Somebody has changed something meanwhile: it is looked at anew at the next step.
            Ok(None) => Ok(None),
            Err(why) if is_away(&why) => {
                self.unanswered = Some(mark);
                Err(why)
            }
            // There are too many, or a quota allows no more.
            Err(why) => Ok(self.ended(None, Some(&why.to_string()))),
        }
    }

    fn wait(
        &mut self,
        meta: &dyn Transact,
        policy: &Policy,
        set: &SnapshotSet,
        is_over: bool,
        now: Duration,
    ) -> Result<Option<RunSet>> {
        let reply = meta.txn(&Call::get(map::set_key(set.id)))?;
        let Some(found) = reply.value(0) else {
            let ids: Vec<(VolumeId, &str)> = self.hosts.iter().map(|(host, name)| (*host, &**name)).collect();
            return Ok(match self.named(meta, policy, &ids)? {
                Named::Taken(_) => self.ended(Some(set.id), None),
                // Made void, and its record gone since; or all that was taken has been deleted by now.
                _ => self.again("its record has gone, and its snapshots are not there", true, now),
            });
        };
        // One that cannot be read is its leader's matter, for as long as is waited.
        let state = found
            .json::<SnapshotSet>()
            .map_or(SetState::Taking, |record| record.state);
        let seconds = PATIENCE.as_secs();
        match state {
            SetState::Void(voided) => Ok(self.again(&voided.why, voided.again, now)),
            _ if !is_over => Ok(None),
            SetState::Taking => {
                let why = format!(
                    "it was not taken within {seconds} s: no gateway opens one of the volumes, or a store does not answer"
                );
                admin::drop_set(meta, set, &why)?;
                Ok(self.again(&why, true, now))
            }
            // It is one all the same; those that are sealed are counted.
            SetState::Ready => {
                let why = format!("it is decided, and after {seconds} s not all of its snapshots are sealed");
                Ok(self.ended(Some(set.id), Some(&why)))
            }
        }
    }

    /// Looks for what volumes have under this name.
    fn named(&self, meta: &dyn Transact, policy: &Policy, volumes: &[(VolumeId, &str)]) -> Result<Named> {
        for some in volumes.chunks(READ_AT_ONCE) {
            let keys = some
                .iter()
                .map(|(volume, _)| map::snapshot_name_key(*volume, &self.snapshot));
            let reply = meta.txn(&Call {
                then: keys.map(|key| Op::Get { key }).collect(),
                ..Call::default()
            })?;
            for (index, (volume, name)) in some.iter().enumerate() {
                if let Some(snapshot) = sealed(meta, named(*volume, reply.value(index)))? {
                    return Ok(match retention::is_own(policy, &snapshot) {
                        true => Named::Taken(snapshot.set),
                        false => Named::Foreign((*name).to_owned()),
                    });
                }
            }
        }
        Ok(Named::Nothing)
    }
}

/// Another snapshot or set that is being taken of one of the volumes.
fn in_the_way(volumes: &[Volume], wishes: &BTreeMap<&str, SnapshotWish>, sets: &[SnapshotSet]) -> Option<String> {
    let wish = volumes
        .iter()
        .find_map(|volume| wishes.get(&*map::snapshot_wish_key(volume.id)));
    if let Some(wish) = wish {
        return Some(format!("another snapshot, {}@{},", wish.volume, wish.name));
    }
    let ids: BTreeSet<VolumeId> = volumes.iter().map(|volume| volume.id).collect();
    let is_in_the_way =
        |set: &&SnapshotSet| set.state == SetState::Taking && set.volumes.iter().any(|found| ids.contains(&found.id));
    let other = sets.iter().find(is_in_the_way)?;
    Some(format!("another set with one of the volumes, {:?},", other.name))
}
