use super::*;
use crate::admin::{self, KeepChange, PolicyChange, PolicyTarget};
use amita_metadata::Reply;
use amita_metadata::model::State;
use amita_types::map::{
    Cluster, Lineage, SNAPSHOTS_SINCE, Snapshot, SnapshotName, SnapshotState, SnapshotWish, Volume,
};
use amita_types::{ClusterId, Generation, SnapshotId};
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
            id,
            name: name.to_owned(),
            pool: "main".to_owned(),
            size_bytes: 1 << 20,
            generation: Generation(1),
            owner: None,
            lineage: Lineage::default(),
            parents: Vec::new(),
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
        snapshots_of(&self.meta, volume).unwrap()
    }

    fn names(&self, volume: VolumeId) -> Vec<String> {
        self.sealed(volume).into_iter().map(|snapshot| snapshot.name).collect()
    }

    fn make(&mut self, volume: VolumeId, wish: &SnapshotWish) {
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
            state: SnapshotState::Sealed(Generation(1)),
        };
        self.put(map::snapshot_key(volume, number), &snapshot);
        self.put(map::snapshot_name_key(volume, &wish.name), &SnapshotName { number });
        self.taken.push((volume, wish.name.clone()));
    }

    /// The owners do what they do.
    fn own(&mut self) {
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
                self.make(volume, &wish);
                self.remove(key);
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

#[test]
fn snapshots_are_taken_and_the_oldest_go() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let other = rig.volume(2, "other");
    let policy = rig.policy("hourly", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 2);
    rig.at(MONDAY + 30 * MINUTE);
    assert!(
        rig.taken.is_empty(),
        "what was due before it was seen is not made up for"
    );
    for hour in 1..=4 {
        rig.at(MONDAY + hour * HOUR);
        // Once an hour, however often it is looked.
        rig.at(MONDAY + hour * HOUR + 1);
    }
    assert_eq!(rig.taken.len(), 4);
    assert_eq!(rig.names(db), ["hourly-20240101T030000Z", "hourly-20240101T040000Z"]);
    assert!(rig.sealed(other).is_empty());
    let label = rig.sealed(db)[0].labels[map::POLICY_LABEL].clone();
    assert_eq!(label, "hourly/1");
    let runs = rig.runs(&policy);
    assert_eq!(
        (runs.runs, runs.taken, runs.deleted, runs.failures, runs.missed),
        (4, 4, 2, 0, 0)
    );
    let last = runs.last.unwrap();
    assert_eq!(
        (last.due, last.taken, last.deleted, last.ended),
        (MONDAY + 4 * HOUR, 1, 1, Some(MONDAY + 4 * HOUR))
    );
    assert_eq!(rig.told(), []);
}

#[test]
fn what_was_missed_is_told_and_made_up_for_once() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let policy = rig.policy("hourly", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 9);
    rig.at(MONDAY + 1);
    rig.crash();
    // Nobody leads for five hours.
    rig.at(MONDAY + 5 * HOUR + 30 * MINUTE);
    assert_eq!(rig.names(db), ["hourly-20240101T050000Z"]);
    let told = rig.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, Kind::PolicyMissed);
    assert!(
        told[0].1.contains("5 of its times have passed without a run"),
        "{told:?}"
    );
    assert!(told[0].1.contains("20240101T050000Z"), "{told:?}");
    assert_eq!(rig.runs(&policy).missed, 5);
    rig.at(MONDAY + 6 * HOUR);
    assert_eq!(rig.taken.len(), 2);
    assert_eq!(rig.told(), []);
    // One that is a little late is none that was missed.
    rig.at(MONDAY + 7 * HOUR + LATE);
    assert_eq!((rig.taken.len(), rig.runs(&policy).missed), (3, 5));
}

#[test]
fn a_clock_that_goes_back_takes_and_deletes_nothing_twice() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let policy = rig.policy("p", PolicyTarget::Volume("db".to_owned()), "*/10 * * * *", 2);
    rig.at(MONDAY);
    for step in 1..=4 {
        rig.at(MONDAY + step * 10 * MINUTE);
    }
    let before = (rig.taken.len(), rig.runs(&policy).deleted);
    assert_eq!(before, (4, 2));
    // Half an hour back, and up to there again, also by another leader.
    for minute in (10..=40).step_by(5) {
        rig.crash();
        rig.at(MONDAY + minute * MINUTE);
        assert_eq!((rig.taken.len(), rig.runs(&policy).deleted), before);
    }
    assert_eq!(rig.told(), []);
    rig.at(MONDAY + 50 * MINUTE);
    assert_eq!(rig.taken.len(), 5);
    rig.no_doubles();
    assert_eq!(rig.names(db).len(), 2);
}

#[test]
fn a_clock_that_was_far_ahead_does_not_stop_a_policy() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let policy = rig.policy("daily", PolicyTarget::Volume("db".to_owned()), "0 2 * * *", 3);
    rig.at(MONDAY);
    rig.at(MONDAY + 2 * HOUR);
    // Ten years ahead: one run, whatever has passed.
    rig.at(MONDAY + 3650 * DAY);
    assert_eq!(rig.taken.len(), 2);
    assert_eq!(rig.told()[0].0, Kind::PolicyMissed);
    // And back.
    rig.at(MONDAY + 3 * HOUR);
    let told = rig.told();
    assert!(told[0].1.contains("times count from now on"), "{told:?}");
    assert_eq!(rig.taken.len(), 2, "what was taken today is not taken again");
    rig.at(MONDAY + DAY + 2 * HOUR);
    rig.at(MONDAY + 2 * DAY + 2 * HOUR);
    assert_eq!(rig.taken.len(), 4);
    assert_eq!(rig.runs(&policy).deleted, 1);
    let names = rig.names(db);
    assert_eq!(
        names.last().unwrap(),
        "daily-20240103T020000Z",
        "the newest is kept, not the one of ten years ahead"
    );
    rig.no_doubles();
}

#[test]
fn what_is_refused_is_tried_again_a_few_times_and_told() {
    let mut rig = Rig::new();
    rig.volumes(3);
    let policy = rig.of_all("p", "0 * * * *", 5);
    rig.at(MONDAY);
    rig.refusing.insert(VolumeId(2));
    rig.at(MONDAY + HOUR);
    let runs = rig.runs(&policy);
    let last = runs.last.unwrap();
    assert_eq!((last.taken, last.failed, runs.failures), (2, 1, 1));
    assert_eq!(last.why, ["v2@p-20240101T010000Z: a store is away"]);
    let told = rig.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, Kind::PolicyFails);
    assert!(told[0].1.contains("a store is away"), "{told:?}");
    assert!(rig.wishes().is_empty(), "nothing is left behind");
    // It is told again after an hour, and not at each run.
    rig.at(MONDAY + HOUR + 30 * MINUTE);
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(rig.told().len(), 1);
    rig.refusing.clear();
    rig.at(MONDAY + 3 * HOUR);
    assert_eq!(rig.told()[0].0, Kind::PolicyWorks);
}

/// A quota holds for policies as for people.
#[test]
fn a_quota_holds_and_is_told() {
    let mut rig = Rig::new();
    rig.volumes(3);
    let policy = rig.of_all("p", "0 * * * *", 5);
    admin::set_quota(&rig.meta, "main", |quota| quota.snapshots = Some(2)).unwrap();
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed), (2, 1));
    assert!(
        last.why[0].contains("the quota of pool main has no room: 2 of 2 snapshots"),
        "{:?}",
        last.why
    );
    assert!(rig.wishes().is_empty());
    admin::set_quota(&rig.meta, "main", |quota| quota.snapshots = None).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(rig.runs(&policy).last.unwrap().taken, 3);
}

#[test]
fn one_that_does_not_end_is_given_up_and_its_wish_goes() {
    let mut rig = Rig::new();
    rig.volumes(2);
    let policy = rig.of_all("p", "0 * * * *", 5);
    rig.at(MONDAY);
    rig.silent.insert(VolumeId(1));
    rig.at(MONDAY + HOUR);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed), (1, 1));
    assert!(last.why[0].contains("was not taken within 40 s"), "{:?}", last.why);
    assert!(rig.wishes().is_empty(), "it is not taken later");
}

#[test]
fn operators_snapshots_are_waited_for_and_never_deleted() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let policy = rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 1);
    rig.at(MONDAY);
    let labels = BTreeMap::new();
    let now = Duration::from_secs(MONDAY);
    admin::ask_snapshot(&rig.meta, "db", "by-hand", labels, now).unwrap();
    // While it is being taken, no other one can be.
    rig.wall = MONDAY + HOUR;
    for _ in 0..5 {
        rig.step();
        rig.steady += Duration::from_secs(1);
    }
    assert!(rig.taken.is_empty());
    rig.settle();
    assert_eq!(rig.names(db), ["by-hand", "p-20240101T010000Z"]);
    rig.at(MONDAY + 2 * HOUR);
    rig.at(MONDAY + 3 * HOUR);
    assert_eq!(rig.names(db), ["by-hand", "p-20240101T030000Z"]);
    // One that has the name of the next one.
    let wish = SnapshotWish {
        volume: "db".to_owned(),
        name: "p-20240101T040000Z".to_owned(),
        asked_at: MONDAY,
        labels: BTreeMap::new(),
        refused: None,
    };
    rig.make(db, &wish);
    rig.at(MONDAY + 4 * HOUR);
    let last = rig.runs(&policy).last.unwrap();
    assert!(last.why[0].contains("is not this policy's"), "{:?}", last.why);
    assert!(rig.names(db).contains(&wish.name));
    // Nobody else gives the label.
    let labels = BTreeMap::from([(map::POLICY_LABEL.to_owned(), policy.mark())]);
    let why = admin::ask_snapshot(&rig.meta, "db", "forged", labels, now).unwrap_err();
    assert!(why.to_string().contains("only Amita itself"), "{why}");
}

#[test]
fn protected_ones_are_left_and_counted() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let policy = rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 1);
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    admin::protect_snapshot(&rig.meta, "db", "p-20240101T010000Z", true).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    rig.at(MONDAY + 3 * HOUR);
    assert_eq!(rig.names(db), ["p-20240101T010000Z", "p-20240101T030000Z"]);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.left, last.deleted, last.failed), (1, 1, 0));
}

#[test]
fn a_policy_of_the_same_name_does_not_take_anothers_for_its_own() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 5);
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    let first = admin::delete_policy(&rig.meta, "p").unwrap();
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(
        rig.names(db).len(),
        1,
        "what it has made stays, and nothing more is made"
    );
    assert_eq!(rig.runs(&first), PolicyRuns::default());
    let second = rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 1);
    assert_ne!(first.id, second.id);
    rig.at(MONDAY + 2 * HOUR + 1);
    for hour in 3..6 {
        rig.at(MONDAY + hour * HOUR);
    }
    assert_eq!(rig.names(db), ["p-20240101T010000Z", "p-20240101T050000Z"]);
}

#[test]
fn volumes_are_renamed_deleted_and_come_back_meanwhile() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let policy = rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 5);
    rig.at(MONDAY);
    // It is renamed while its snapshot is wished, which takes the wish away.
    rig.wall = MONDAY + HOUR;
    rig.silent.insert(db);
    rig.step();
    assert_eq!(rig.wishes().len(), 1);
    rig.remove(map::volume_key("db"));
    rig.remove(map::snapshot_wish_key(db));
    rig.volume(1, "ledger");
    // And another one has its name.
    let other = rig.volume(2, "db");
    rig.silent.clear();
    rig.settle();
    assert_eq!(rig.names(db), ["p-20240101T010000Z"]);
    assert!(rig.sealed(other).is_empty());
    // It goes into the recycle bin.
    rig.remove(map::volume_key("ledger"));
    rig.volume(1, &map::hidden_name(db));
    rig.at(MONDAY + 2 * HOUR);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed, last.gone), (0, 1, 1));
    assert!(last.why[0].contains("amita volume undelete"), "{:?}", last.why);
    rig.remove(map::volume_key(&map::hidden_name(db)));
    rig.volume(1, "ledger");
    rig.at(MONDAY + 3 * HOUR);
    assert_eq!(rig.names(db).len(), 2);
    assert!(rig.sealed(other).is_empty());
    // One of many that goes is nobody's failure.
    let all = rig.of_all("all", "30 * * * *", 5);
    rig.at(MONDAY + 3 * HOUR + 1);
    rig.wall = MONDAY + 3 * HOUR + 30 * MINUTE;
    rig.silent.insert(other);
    rig.step();
    rig.remove(map::volume_key("db"));
    rig.remove(map::snapshot_wish_key(other));
    rig.settle();
    let last = rig.runs(&all).last.unwrap();
    assert_eq!((last.taken, last.failed, last.gone), (1, 0, 1));
}

#[test]
fn labels_say_which_volumes_are_meant_at_the_time() {
    let mut rig = Rig::new();
    rig.volumes(2);
    let label = |name: &str, tier: &str| {
        let labels = BTreeMap::from([("tier".to_owned(), tier.to_owned())]);
        admin::label_volume(&rig.meta, name, &labels, &[]).unwrap();
    };
    label("v1", "gold");
    label("v2", "tin");
    let target = PolicyTarget::Label {
        key: "tier".to_owned(),
        value: "gold".to_owned(),
    };
    rig.policy("gold", target, "0 * * * *", 5);
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    admin::label_volume(&rig.meta, "v2", &labels, &[]).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!((rig.names(VolumeId(1)).len(), rig.names(VolumeId(2)).len()), (2, 1));
}

#[test]
fn a_policy_is_changed_paused_and_deleted_while_it_runs() {
    let mut rig = Rig::new();
    rig.volumes(20);
    let policy = rig.of_all("p", "0 * * * *", 5);
    rig.at(MONDAY);
    rig.wall = MONDAY + HOUR;
    rig.step();
    assert_eq!(rig.wishes().len(), MOST_BEGUN);
    // It is for one volume only now: what is under way ends.
    let change = PolicyChange {
        target: Some(PolicyTarget::Volume("v20".to_owned())),
        ..PolicyChange::default()
    };
    admin::set_policy(&rig.meta, "p", &change).unwrap();
    rig.settle();
    assert_eq!(rig.taken.len(), MOST_BEGUN + 1);
    assert_eq!(rig.runs(&policy).last.unwrap().taken, MOST_BEGUN as u64 + 1);
    // Paused: times that pass are not missed.
    admin::set_policy(&rig.meta, "p", &paused(true)).unwrap();
    rig.at(MONDAY + 3 * HOUR);
    rig.at(MONDAY + 4 * HOUR);
    admin::set_policy(&rig.meta, "p", &paused(false)).unwrap();
    rig.at(MONDAY + 4 * HOUR + 1);
    let runs = rig.runs(&policy);
    assert_eq!((runs.runs, runs.missed), (1, 0));
    rig.at(MONDAY + 5 * HOUR);
    assert_eq!(rig.runs(&policy).runs, 2);
    // Another schedule counts from when it is seen.
    let often = PolicyChange {
        schedule: Some("* * * * *".to_owned()),
        ..PolicyChange::default()
    };
    admin::set_policy(&rig.meta, "p", &often).unwrap();
    rig.at(MONDAY + 6 * HOUR + 30);
    assert_eq!((rig.runs(&policy).runs, rig.runs(&policy).missed), (2, 0));
    // It is deleted while a snapshot is wished: that goes too.
    rig.wall = MONDAY + 6 * HOUR + MINUTE;
    rig.step();
    assert_eq!(rig.wishes().len(), 1);
    admin::delete_policy(&rig.meta, "p").unwrap();
    rig.step();
    assert_eq!((rig.wishes().len(), rig.runs(&policy)), (0, PolicyRuns::default()));
    assert_eq!(rig.told(), []);
}

/// A run that is about to delete 300 snapshots of a volume, and has deleted some.
fn pruning() -> (Rig, VolumeId, Policy) {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let policy = rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 1);
    for number in 1..=300 {
        let wish = SnapshotWish {
            volume: "db".to_owned(),
            name: format!("p-{number}"),
            asked_at: MONDAY + number,
            labels: BTreeMap::from([(map::POLICY_LABEL.to_owned(), policy.mark())]),
            refused: None,
        };
        rig.make(db, &wish);
    }
    rig.at(MONDAY);
    rig.wall = MONDAY + HOUR;
    rig.step();
    rig.own();
    rig.step();
    assert_eq!(rig.names(db).len(), 301 - MOST_DELETED);
    (rig, db, policy)
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

#[test]
fn what_other_rules_keep_is_not_deleted_by_a_run_that_was_under_way() {
    let (mut rig, db, policy) = pruning();
    admin::set_policy(&rig.meta, "p", &keeping(200)).unwrap();
    rig.settle();
    assert_eq!(rig.names(db).len(), 200);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.deleted, last.failed), (1, 101, 0));
    let (mut rig, db, policy) = pruning();
    admin::set_policy(&rig.meta, "p", &keeping(400)).unwrap();
    rig.settle();
    assert_eq!(rig.names(db).len(), 301 - MOST_DELETED);
    assert_eq!(rig.runs(&policy).last.unwrap().deleted, MOST_DELETED as u64);
}

#[test]
fn a_paused_policy_stops_in_the_middle_of_a_run() {
    let (mut rig, db, policy) = pruning();
    admin::set_policy(&rig.meta, "p", &paused(true)).unwrap();
    rig.settle();
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(rig.names(db).len(), 301 - MOST_DELETED);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!(
        (last.taken, last.deleted, last.failed),
        (1, MOST_DELETED as u64, 0),
        "what was done is counted"
    );
    admin::set_policy(&rig.meta, "p", &paused(false)).unwrap();
    rig.at(MONDAY + 2 * HOUR + 1);
    rig.at(MONDAY + 3 * HOUR);
    assert_eq!(rig.names(db), ["p-20240101T030000Z"]);
    // What is wished is taken back.
    rig.silent.insert(db);
    rig.wall = MONDAY + 4 * HOUR;
    rig.step();
    assert_eq!(rig.wishes().len(), 1);
    admin::set_policy(&rig.meta, "p", &paused(true)).unwrap();
    rig.step();
    assert_eq!(rig.wishes().len(), 0);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.due, last.taken, last.failed), (MONDAY + 4 * HOUR, 0, 0));
    assert!(last.notes[0].contains("the policy was paused"), "{:?}", last.notes);
}

/// What somebody else does meanwhile.
type Meddling<'a> = &'a dyn Fn(&Mutex<State>);

/// Something happens right after a step has read who leads and which policies there are.
struct Meanwhile<'a> {
    meta: &'a Mutex<State>,
    what: Mutex<Option<Meddling<'a>>>,
}

impl Transact for Meanwhile<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, amita_metadata::Error> {
        let reply = self.meta.txn(call);
        if let Some(what) = self.what.lock().unwrap().take() {
            what(self.meta);
        }
        reply
    }
}

impl Rig {
    /// Something happens between what a step reads and what it does.
    fn step_while(&mut self, what: &dyn Fn(&Mutex<State>)) {
        let clock = self.clock();
        let meta = Meanwhile {
            meta: &self.meta,
            what: Mutex::new(Some(what)),
        };
        match self.runner.step(&meta, Some(NODE), clock) {
            Ok(()) | Err(AdminError::TooManyRaces { .. }) => {}
            Err(why) => panic!("{why}"),
        }
    }
}

fn depose(meta: &Mutex<State>) {
    let other = json(&serde_json::json!({"node": 9, "session": 1}));
    meta.txn(&Call::put(election_key(), other)).unwrap();
}

#[test]
fn nothing_is_deleted_or_wished_by_what_was_so_when_a_step_began() {
    let set = |change: PolicyChange| {
        move |meta: &Mutex<State>| {
            admin::set_policy(meta, "p", &change).unwrap();
        }
    };
    let (rules, pause) = (set(keeping(400)), set(paused(true)));
    let delete = |meta: &Mutex<State>| {
        admin::delete_policy(meta, "p").unwrap();
    };
    let happenings: [Meddling<'_>; 4] = [&rules, &pause, &delete, &depose];
    for (index, what) in happenings.into_iter().enumerate() {
        let (mut rig, db, _) = pruning();
        rig.step_while(what);
        assert_eq!(rig.names(db).len(), 301 - MOST_DELETED, "happening {index}");
        for _ in 0..5 {
            rig.step();
        }
        assert_eq!(rig.names(db).len(), 301 - MOST_DELETED, "happening {index}");
        let mut rig = Rig::new();
        rig.volumes(20);
        rig.of_all("p", "0 * * * *", 1);
        rig.at(MONDAY);
        rig.wall = MONDAY + HOUR;
        rig.step();
        assert_eq!(rig.wishes().len(), MOST_BEGUN);
        rig.step_while(what);
        assert_eq!(rig.wishes().len(), MOST_BEGUN, "happening {index}");
    }
}

/// A newer program may know of other rules, and a record may have been written by hand.
#[test]
fn rules_that_cannot_be_delete_nothing() {
    for (keep, said) in [
        (serde_json::json!({}), "would keep nothing"),
        (serde_json::json!({"quarterly": 8}), "would keep nothing"),
        (serde_json::json!({"last": 99_999}), "16384 are the most"),
    ] {
        let (mut rig, db, policy) = pruning();
        let mut record = serde_json::to_value(&policy).unwrap();
        record["keep"] = keep;
        rig.put(map::policy_key("p"), &record);
        rig.settle();
        assert_eq!(rig.names(db).len(), 301 - MOST_DELETED);
        rig.at(MONDAY + 2 * HOUR);
        assert_eq!(rig.names(db).len(), 302 - MOST_DELETED, "they are taken all the same");
        let last = rig.runs(&policy).last.unwrap();
        assert_eq!((last.taken, last.deleted, last.failed), (1, 0, 1));
        assert!(
            last.why[0].contains("nothing is deleted") && last.why[0].contains(said),
            "{:?}",
            last.why
        );
        assert_eq!(rig.told()[0].0, Kind::PolicyFails);
        let policy = admin::policy(&rig.meta, "p", Duration::ZERO).unwrap().policy;
        let why = admin::retained(&rig.meta, &policy).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
    }
}

/// `amita snapshot-policy prune` is under way meanwhile.
#[test]
fn operators_prune_by_the_rules_that_they_have_seen_or_not_at_all() {
    let (rig, db, policy) = pruning();
    let all = admin::retained(&rig.meta, &policy).unwrap();
    let mut going = all[0].snapshots.iter().rev().filter(|snapshot| snapshot.goes());
    let mut prune = || admin::delete_retained(&rig.meta, &policy, &all[0], going.next().unwrap());
    assert_eq!(prune().unwrap(), None);
    let there = rig.names(db).len();
    admin::set_policy(&rig.meta, "p", &keeping(400)).unwrap();
    let why = prune().unwrap_err().to_string();
    assert!(why.contains("somebody has changed it meanwhile"), "{why}");
    assert_eq!(rig.names(db).len(), there);
    // As they were again, though written anew.
    admin::set_policy(&rig.meta, "p", &keeping(1)).unwrap();
    assert_eq!(prune().unwrap(), None);
    assert_eq!(rig.names(db).len(), there - 1);
}

#[test]
fn quotas_bind_policies_as_they_bind_operators() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "v1");
    let policy = rig.of_all("p", "0 * * * *", 5);
    let quota = map::Quota {
        snapshots: Some(2),
        ..map::Quota::none(amita_types::PoolId(1))
    };
    rig.put(map::quota_key(quota.pool), &quota);
    rig.at(MONDAY);
    for hour in 1..=3 {
        rig.at(MONDAY + hour * HOUR);
    }
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((rig.names(db).len(), last.taken, last.failed), (2, 0, 1));
    assert!(
        last.why[0].contains("the quota of pool main has no room"),
        "{:?}",
        last.why
    );
    // What no rule keeps goes all the same, and makes room.
    let keep = KeepChange {
        last: Some(1),
        ..KeepChange::default()
    };
    let change = PolicyChange {
        keep,
        ..PolicyChange::default()
    };
    admin::set_policy(&rig.meta, "p", &change).unwrap();
    rig.at(MONDAY + 4 * HOUR);
    assert_eq!(rig.names(db), ["p-20240101T020000Z"]);
    rig.at(MONDAY + 5 * HOUR);
    assert_eq!(rig.names(db), ["p-20240101T050000Z"]);
}

/// The template may be changed while nobody leads: what a run has taken is found all the same.
#[test]
fn a_run_keeps_the_names_that_it_began_with() {
    let mut rig = Rig::new();
    rig.volumes(3);
    rig.of_all("p", "0 * * * *", 5);
    rig.at(MONDAY);
    rig.wall = MONDAY + HOUR;
    rig.step();
    rig.own();
    assert_eq!(rig.taken.len(), 3);
    rig.crash();
    let change = PolicyChange {
        template: Some("new-{time}".to_owned()),
        ..PolicyChange::default()
    };
    admin::set_policy(&rig.meta, "p", &change).unwrap();
    rig.settle();
    assert_eq!(rig.taken.len(), 3, "{:?}", rig.taken);
    rig.at(MONDAY + 2 * HOUR);
    assert!(rig.names(VolumeId(1)).contains(&"new-20240101T020000Z".to_owned()));
}

#[test]
fn thousands_of_volumes_are_no_stampede() {
    let mut rig = Rig::new();
    rig.volumes(5000);
    let first = rig.of_all("first", "0 * * * *", 1);
    let second = rig.policy("second", PolicyTarget::Volume("v9".to_owned()), "0 * * * *", 1);
    rig.at(MONDAY);
    rig.wall = MONDAY + HOUR;
    let mut steps = 0;
    let mut second_after = None;
    while rig.runs(&first).runs < 1 {
        let before = rig.wishes().len();
        rig.step();
        let wished = rig.wishes().len();
        assert!(
            wished <= MOST_JOBS && wished <= before + MOST_BEGUN,
            "{before} and then {wished}"
        );
        let known = &rig.runner.policies[&first.id];
        assert!(known.jobs.len() <= MOST_JOBS, "{}", known.jobs.len());
        assert!(known.queue.as_ref().is_none_or(|queue| queue.len() <= MOST_QUEUED));
        assert!(
            known.ended.len() <= 3 * MOST_JOBS + MOST_BEGUN * 20,
            "{}",
            known.ended.len()
        );
        if rig.runs(&second).runs > 0 {
            second_after.get_or_insert(steps);
        }
        rig.own();
        rig.steady += BUSY;
        steps += 1;
        assert!(steps < 2000, "it does not end");
    }
    assert!(
        second_after.is_some_and(|after| after < 50),
        "it waits for another policy: {second_after:?}"
    );
    assert!(steps <= 700, "{steps} steps of a tenth of a second");
    assert_eq!(rig.runs(&first).taken, 5000);
    rig.no_doubles();
    eprintln!("5000 volumes took {steps} steps");
}

#[test]
fn who_does_not_lead_does_nothing() {
    let mut rig = Rig::new();
    rig.volumes(3);
    let policy = rig.of_all("p", "0 * * * *", 1);
    rig.at(MONDAY);
    let before = rig.runs(&policy);
    rig.lead(NodeId(9));
    rig.wall = MONDAY + HOUR;
    rig.step();
    assert_eq!((rig.runs(&policy), rig.wishes().len()), (before, 0));
    // A suspected metadata is as good as away.
    rig.lead(NODE);
    rig.put(format!("{}x", map::suspect_prefix()), &"?");
    rig.step();
    assert!(rig.wishes().is_empty());
}

/// Somebody else leads since this node has read that it does.
struct Deposed<'a>(&'a Mutex<State>);

impl Transact for Deposed<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, amita_metadata::Error> {
        let reply = self.0.txn(call);
        if call.is_read_only() {
            let other = Call::put(election_key(), json(&serde_json::json!({"node": 9, "session": 1})));
            self.0.txn(&other)?;
        }
        reply
    }
}

#[test]
fn who_was_deposed_writes_nothing_down() {
    let mut rig = Rig::new();
    rig.volumes(3);
    let policy = rig.of_all("p", "0 * * * *", 1);
    rig.at(MONDAY);
    let before = rig.runs(&policy);
    rig.wall = MONDAY + HOUR;
    let clock = rig.clock();
    let said = rig.runner.step(&Deposed(&rig.meta), Some(NODE), clock);
    assert!(matches!(said, Err(AdminError::TooManyRaces { .. })), "{said:?}");
    assert_eq!((rig.runs(&policy), rig.wishes().len()), (before, 0));
}

#[test]
fn policies_that_cannot_be_are_refused() {
    let rig = Rig::new();
    rig.volumes(1);
    let good = PolicyChange {
        target: Some(PolicyTarget::Volume("v1".to_owned())),
        schedule: Some("0 2 * * *".to_owned()),
        keep: KeepChange {
            daily: Some(7),
            ..KeepChange::default()
        },
        ..PolicyChange::default()
    };
    let refused = |name: &str, change: PolicyChange| {
        let why = admin::create_policy(&rig.meta, name, &change).unwrap_err();
        why.to_string()
    };
    let with = |pattern: &str| PolicyChange {
        schedule: Some(pattern.to_owned()),
        ..good.clone()
    };
    for (name, change, said) in [
        ("a/b", good.clone(), "is no name for a snapshot policy"),
        (&*"x".repeat(65), good.clone(), "64 are the most"),
        ("p", with("0 2 * *"), "five fields are wanted"),
        ("p", with("0 0 30 2 *"), "never comes"),
        (
            "p",
            PolicyChange {
                zone: Some("Mars".to_owned()),
                ..good.clone()
            },
            "no time zone",
        ),
        (
            "p",
            PolicyChange {
                template: Some("x".to_owned()),
                ..good.clone()
            },
            "{time}",
        ),
        (
            "p",
            PolicyChange {
                keep: KeepChange::default(),
                ..good.clone()
            },
            "would keep nothing",
        ),
        (
            "p",
            PolicyChange {
                keep: KeepChange {
                    last: Some(99_999),
                    ..KeepChange::default()
                },
                ..good.clone()
            },
            "16384 are the most",
        ),
        (
            "p",
            PolicyChange {
                target: Some(PolicyTarget::Volume("v2".to_owned())),
                ..good.clone()
            },
            "there is no volume named v2",
        ),
        (
            "p",
            PolicyChange {
                target: Some(PolicyTarget::Pool("none".to_owned())),
                ..good.clone()
            },
            "there is no pool named none",
        ),
        (
            "p",
            PolicyChange {
                target: None,
                ..good.clone()
            },
            "a volume, a label or a pool",
        ),
    ] {
        let why = refused(name, change);
        assert!(why.contains(said), "{why}");
    }
    admin::create_policy(&rig.meta, "p", &good).unwrap();
    assert!(refused("p", good.clone()).contains("exists already"));
    let none = admin::set_policy(&rig.meta, "q", &good).unwrap_err().to_string();
    assert!(
        none.contains("there is no snapshot policy named q") && none.contains('p'),
        "{none}"
    );
    let nothing = PolicyChange {
        keep: KeepChange {
            daily: Some(0),
            ..KeepChange::default()
        },
        ..PolicyChange::default()
    };
    assert!(admin::set_policy(&rig.meta, "p", &nothing).is_err());
    // A cluster that older programs may be part of.
    let older = Cluster {
        id: ClusterId(1),
        version: SNAPSHOTS_SINCE - 1,
    };
    rig.put(map::cluster_key(), &older);
    assert!(refused("q", good).contains("version is 1"));
}

#[test]
fn records_that_nobody_can_read_are_left_alone() {
    let mut rig = Rig::new();
    rig.volumes(1);
    let policy = rig.of_all("p", "0 * * * *", 1);
    rig.meta.txn(&Call::put(map::policy_key("bad"), "?")).unwrap();
    rig.meta.txn(&Call::put(map::volume_key("bad"), "?")).unwrap();
    let wrong = Policy {
        id: PolicyId(77),
        name: "wrong".to_owned(),
        schedule: "whenever".to_owned(),
        ..policy.clone()
    };
    rig.put(map::policy_key("wrong"), &wrong);
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    assert_eq!(rig.taken.len(), 1, "the others go on");
    rig.meta.txn(&Call::put(map::policy_runs_key(policy.id), "?")).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(rig.taken.len(), 1, "what is not known is not guessed");
    // But it is told, once an hour.
    let told = rig.told();
    assert_eq!((told.len(), told[0].0), (1, Kind::PolicyFails), "{told:?}");
    assert!(
        told[0].1.contains("policy p does nothing") && told[0].1.contains("`amita snapshot-policy set p --resume`"),
        "{told:?}"
    );
    rig.at(MONDAY + 2 * HOUR + MINUTE);
    assert_eq!(rig.told(), []);
    rig.at(MONDAY + 3 * HOUR);
    assert_eq!(rig.told().len(), 1);
    let status = admin::policy(&rig.meta, "p", Duration::from_secs(rig.wall)).unwrap();
    assert!(status.fault.unwrap().contains("--resume"));
    assert_eq!((status.runs, status.next_at), (None, None));
    // What is known is not thrown away by it, and what is not is.
    admin::set_policy(&rig.meta, "wrong", &paused(false)).unwrap_err();
    admin::set_policy(&rig.meta, "p", &paused(false)).unwrap();
    rig.at(MONDAY + 3 * HOUR + MINUTE);
    assert_eq!(rig.told()[0].0, Kind::PolicyWorks);
    let known = rig.runs(&policy);
    assert_eq!(known.after, MONDAY + 3 * HOUR + MINUTE);
    admin::set_policy(&rig.meta, "p", &paused(false)).unwrap();
    assert_eq!(rig.runs(&policy), known);
    rig.at(MONDAY + 4 * HOUR);
    assert_eq!(rig.taken.len(), 2);
}

#[test]
fn a_second_policy_of_one_number_does_nothing_and_stops_no_other() {
    let mut rig = Rig::new();
    rig.volumes(1);
    let policy = rig.of_all("p", "0 * * * *", 5);
    let copy = Policy {
        name: "copy".to_owned(),
        ..policy.clone()
    };
    rig.put(map::policy_key("copy"), &copy);
    rig.policy("q", PolicyTarget::Volume("v1".to_owned()), "0 * * * *", 5);
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    assert_eq!(
        rig.names(VolumeId(1)),
        ["p-20240101T010000Z", "q-20240101T010000Z"],
        "the older one has the number"
    );
    let told = rig.told();
    assert!(
        told[0].0 == Kind::PolicyFails
            && told[0]
                .1
                .contains("policy copy does nothing: it has the number of policy p"),
        "{told:?}"
    );
    // Nor where the first one cannot be carried out.
    rig.meta.txn(&Call::put(map::policy_runs_key(policy.id), "?")).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    let names = rig.names(VolumeId(1));
    assert_eq!((names.len(), &*names[2]), (3, "q-20240101T020000Z"));
}

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Step,
    Own,
    Crash,
    /// By so many seconds.
    Later(u64),
    Earlier(u64),
    /// An owner of a volume gets silent, or speaks again.
    Silence(u64),
    Speak,
    /// The policy is written anew.
    Change(u32),
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Step),
        4 => Just(Happening::Own),
        1 => Just(Happening::Crash),
        3 => (1u64..900).prop_map(Happening::Later),
        1 => (1u64..20_000).prop_map(Happening::Later),
        1 => (1u64..3000).prop_map(Happening::Earlier),
        1 => (1u64..=5).prop_map(Happening::Silence),
        1 => Just(Happening::Speak),
        1 => (1u32..5).prop_map(Happening::Change),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whenever leaders die, between taking and noting or anywhere else, and whatever clocks do: nothing is taken twice, and the last time that
    /// is due is not lost.
    #[test]
    fn nothing_is_taken_twice_and_nothing_is_lost(happenings in prop::collection::vec(any_happening(), 1..150)) {
        let mut rig = Rig::new();
        rig.volumes(5);
        let policy = rig.of_all("p", "*/5 * * * *", 3);
        rig.settle();
        let mut high = rig.wall;
        for happening in &happenings {
            high = high.max(rig.wall);
            match *happening {
                Happening::Step => rig.step(),
                Happening::Own => rig.own(),
                Happening::Crash => rig.crash(),
                Happening::Later(seconds) => {
                    rig.wall += seconds;
                    rig.steady += Duration::from_secs(seconds);
                }
                // By no more than is waited for: beyond that times count anew, and come again.
                Happening::Earlier(seconds) => {
                    let least = MONDAY.max(high.saturating_sub(MOST_BACK));
                    rig.wall = least.max(rig.wall - seconds);
                }
                Happening::Silence(volume) => drop(rig.silent.insert(VolumeId(volume))),
                Happening::Speak => rig.silent.clear(),
                Happening::Change(last) => {
                    let keep = KeepChange { last: Some(last), ..KeepChange::default() };
                    let change = PolicyChange { keep, ..PolicyChange::default() };
                    admin::set_policy(&rig.meta, "p", &change).unwrap();
                }
            }
            rig.no_doubles();
        }
        rig.silent.clear();
        // Nothing is wrong any more, and the next time comes.
        rig.settle();
        let due = (rig.wall.max(rig.runs(&policy).after) / 300 + 1) * 300;
        rig.steady += Duration::from_secs(1000);
        rig.at(due);
        rig.no_doubles();
        let name = crate::policy::naming::name("p", "{policy}-{time}", due);
        for volume in (1..=5).map(VolumeId) {
            let names = rig.names(volume);
            prop_assert!(names.contains(&name), "{:?} has {:?} of {}", volume, names, name);
            prop_assert!(names.len() <= 5, "{:?}", names);
        }
        prop_assert_eq!(rig.wishes().len(), 0);
        let runs = rig.runs(&policy);
        prop_assert!(runs.run.is_none());
        prop_assert!(runs.taken <= rig.taken.len() as u64, "each is counted once: {} of {}", runs.taken, rig.taken.len());
        let there: u64 = (1..=5).map(|volume| rig.names(VolumeId(volume)).len() as u64).sum();
        // What a leader has deleted that died before it noted it is not counted.
        prop_assert!(there + runs.deleted <= rig.taken.len() as u64, "{} and {}", there, runs.deleted);
    }
}
