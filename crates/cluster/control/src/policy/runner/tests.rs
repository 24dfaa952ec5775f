mod any_order;
mod changes;
mod clocks;
mod leaders;
mod quotas;
mod records;
mod rules;
mod runs;
mod sets;
mod volumes;

use super::*;
use crate::admin::{self, KeepChange, PolicyChange, PolicyTarget};
use amita_metadata::Reply;
use amita_metadata::model::State;
use amita_types::map::{
    Cluster, SNAPSHOTS_SINCE, SetState, Snapshot, SnapshotName, SnapshotSet, SnapshotState, SnapshotWish, Volume,
};
use amita_types::{ClusterId, Generation, SetId, SnapshotId};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Monday, 1 January 2024.
const MONDAY: u64 = 1_704_067_200;
const MINUTE: u64 = 60;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const NODE: NodeId = NodeId(3);

/// A cluster whose volumes have owners as they are told to be, and a node that leads.
struct Rig {
    meta: Mutex<State>,
    runner: Runner,
    wall: u64,
    steady: Duration,
    told: Vec<Draft>,
    /// Owners of these volumes say no.
    refusing: BTreeSet<VolumeId>,
    /// Those of these say nothing.
    silent: BTreeSet<VolumeId>,
    /// Sets are void for so many times to come, each with this reason.
    void: usize,
    /// Everything that was ever taken.
    taken: Vec<(VolumeId, String)>,
}

fn json(record: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap()
}

impl Rig {
    fn new() -> Rig {
        let rig = Rig {
            meta: Mutex::new(State::new()),
            runner: Runner::default(),
            wall: MONDAY,
            steady: Duration::ZERO,
            told: Vec::new(),
            refusing: BTreeSet::new(),
            silent: BTreeSet::new(),
            void: 0,
            taken: Vec::new(),
        };
        let cluster = Cluster {
            id: ClusterId(1),
            version: SNAPSHOTS_SINCE,
        };
        rig.put(map::cluster_key(), &cluster);
        rig.lead(NODE);
        rig
    }

    fn put(&self, key: String, record: &impl serde::Serialize) {
        self.meta.txn(&Call::put(key, json(record))).unwrap();
    }

    fn remove(&self, key: String) {
        let call = Call {
            then: vec![Op::Delete { key }],
            ..Call::default()
        };
        self.meta.txn(&call).unwrap();
    }

    fn lead(&self, node: NodeId) {
        self.put(election_key(), &serde_json::json!({"node": node, "session": 1}));
    }

    fn volume(&self, number: u64, name: &str) -> VolumeId {
        let id = VolumeId(number);
        let record = Volume {
            generation: Generation(1),
            ..Volume::new(id, name, "main", 1 << 20)
        };
        self.put(map::volume_key(name), &record);
        id
    }

    fn volumes(&self, count: u64) {
        for number in 1..=count {
            self.volume(number, &format!("v{number}"));
        }
    }

    fn policy(&self, name: &str, target: PolicyTarget, schedule: &str, last: u32) -> Policy {
        let change = PolicyChange {
            target: Some(target),
            schedule: Some(schedule.to_owned()),
            keep: KeepChange {
                last: Some(last),
                ..KeepChange::default()
            },
            ..PolicyChange::default()
        };
        admin::create_policy(&self.meta, name, &change).unwrap()
    }

    /// Of all volumes.
    fn of_all(&self, name: &str, schedule: &str, last: u32) -> Policy {
        let pool = map::Pool {
            id: amita_types::PoolId(1),
            name: "main".to_owned(),
            kind: map::PoolKind::Replicated {
                copies: 1,
                min_copies: 1,
            },
            chunk_bytes: 4096,
            groups: 1,
            failure_domain: amita_types::placement::Level::default(),
            class: None,
        };
        self.put(map::pool_key("main"), &pool);
        self.policy(name, PolicyTarget::Pool("main".to_owned()), schedule, last)
    }

    fn runs(&self, policy: &Policy) -> PolicyRuns {
        admin::get(&self.meta, &map::policy_runs_key(policy.id))
            .unwrap()
            .map_or_else(PolicyRuns::default, |(runs, _)| runs)
    }

    fn clock(&self) -> Clock {
        Clock {
            wall: Duration::from_secs(self.wall),
            steady: self.steady,
        }
    }

    fn step(&mut self) {
        match self.runner.step(&self.meta, Some(NODE), self.clock()) {
            Ok(()) => self.told.extend(self.runner.told()),
            Err(AdminError::TooManyRaces { .. }) => {}
            Err(why) => panic!("{why}"),
        }
    }

    fn wishes(&self) -> Vec<(VolumeId, SnapshotWish, u64)> {
        let reply = self.meta.txn(&Call::prefix(map::snapshot_wishes_prefix())).unwrap();
        let of = |found: &KeyValue| {
            let volume = found.key.rsplit_once('/').unwrap().1.parse().unwrap();
            (VolumeId(volume), found.json().unwrap(), found.mod_revision)
        };
        reply.values(0).iter().map(of).collect()
    }

    fn sealed(&self, volume: VolumeId) -> Vec<Snapshot> {
        snapshots_of(&self.meta, &[volume]).unwrap()
    }

    fn names(&self, volume: VolumeId) -> Vec<String> {
        self.sealed(volume).into_iter().map(|snapshot| snapshot.name).collect()
    }

    fn make(&mut self, volume: VolumeId, wish: &SnapshotWish, set: Option<SetId>) {
        let number = SnapshotId(self.taken.len() as u32 + 1);
        let snapshot = Snapshot {
            volume,
            number,
            name: wish.name.clone(),
            size_bytes: 1 << 20,
            taken_at: wish.asked_at,
            labels: wish.labels.clone(),
            protected: false,
            clones: 0,
            set,
            mark: false,
            hidden: false,
            state: SnapshotState::Sealed(Generation(1)),
        };
        self.put(map::snapshot_key(volume, number), &snapshot);
        // Names stand under the number by which hosts know the volume.
        let record = admin::volume(&self.meta, &wish.volume);
        let host = record.map_or(volume, |record| record.host());
        let named = SnapshotName::new(host, volume, number);
        self.put(map::snapshot_name_key(host, &wish.name), &named);
        self.taken.push((volume, wish.name.clone()));
    }

    /// The owners do what they do.
    fn own(&mut self) {
        self.own_sets();
        for (volume, wish, _) in self.wishes() {
            if wish.refused.is_some() || self.silent.contains(&volume) {
                continue;
            }
            let key = map::snapshot_wish_key(volume);
            if self.refusing.contains(&volume) {
                let refused = SnapshotWish {
                    refused: Some("a store is away".to_owned()),
                    ..wish
                };
                self.put(key, &refused);
            } else {
                self.make(volume, &wish, None);
                self.remove(key);
            }
        }
    }

    fn sets(&self) -> Vec<SnapshotSet> {
        let reply = self.meta.txn(&Call::prefix(map::sets_prefix())).unwrap();
        reply.values(0).iter().map(|found| found.json().unwrap()).collect()
    }

    /// Owners take sets, as a whole or not at all; what is void or ready goes when they look again.
    fn own_sets(&mut self) {
        for set in self.sets() {
            let key = map::set_key(set.id);
            let is_any = |volumes: &BTreeSet<VolumeId>| set.volumes.iter().any(|volume| volumes.contains(&volume.id));
            match set.state {
                SetState::Void(_) => self.remove(key),
                SetState::Ready => {
                    for volume in &set.volumes {
                        self.make(volume.id, &set.wish(&volume.name), Some(set.id));
                    }
                    self.remove(key);
                }
                SetState::Taking if is_any(&self.silent) => {}
                SetState::Taking if is_any(&self.refusing) => self.put(key, &set.voided("a store is away", false)),
                SetState::Taking if self.void > 0 => {
                    self.void -= 1;
                    self.put(key, &set.voided("an owner was too slow", true));
                }
                SetState::Taking => {
                    let ready = SnapshotSet {
                        state: SetState::Ready,
                        ..set
                    };
                    self.put(key, &ready);
                }
            }
        }
    }

    /// Until nothing is under way. Some time passes.
    fn settle(&mut self) {
        for _ in 0..4000 {
            self.step();
            self.own();
            if self.runner.policies.values().all(|known| known.runs.run.is_none()) {
                return;
            }
            self.steady += Duration::from_secs(1);
        }
        panic!("it does not end: {:?}", self.runner);
    }

    /// At a time, all that is due is done.
    fn at(&mut self, wall: u64) {
        self.wall = wall;
        self.settle();
    }

    fn told(&mut self) -> Vec<(Kind, String)> {
        self.told.drain(..).map(|draft| (draft.kind, draft.text)).collect()
    }

    /// Another node leads, or this one was started anew.
    fn crash(&mut self) {
        self.runner = Runner::default();
    }

    fn no_doubles(&self) {
        let distinct: BTreeSet<&(VolumeId, String)> = self.taken.iter().collect();
        assert_eq!(
            distinct.len(),
            self.taken.len(),
            "one was taken twice: {:?}",
            self.taken
        );
    }
}

fn keeping(last: u32) -> PolicyChange {
    PolicyChange {
        keep: KeepChange {
            last: Some(last),
            ..KeepChange::default()
        },
        ..PolicyChange::default()
    }
}

fn paused(paused: bool) -> PolicyChange {
    PolicyChange {
        paused: Some(paused),
        ..PolicyChange::default()
    }
}
