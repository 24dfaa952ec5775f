//! Policies whose snapshots are of one moment.

use super::*;
use amita_types::map::{Run, RunSet};

impl Rig {
    /// A volume is reverted: it has another number by now than hosts know it by.
    fn revert(&self, number: u64) -> VolumeId {
        let old = admin::volume(&self.meta, &format!("v{number}")).unwrap();
        let mut new = Volume {
            id: VolumeId(number + 100),
            former: vec![old.id],
            ..old.clone()
        };
        new.lineage.host = Some(old.id);
        self.put(map::volume_key(&old.name), &new);
        let mut former = old;
        former.lineage.former_of = Some(former.id);
        former.name = map::hidden_name(former.id);
        self.put(map::volume_key(&former.name), &former);
        new.id
    }

    /// Of all volumes, at one moment.
    fn together(&self, count: u64) -> Policy {
        self.volumes(count);
        self.of_all("p", "0 * * * *", 2);
        let change = PolicyChange {
            together: Some(true),
            ..PolicyChange::default()
        };
        admin::set_policy(&self.meta, "p", &change).unwrap()
    }

    fn last(&self, policy: &Policy) -> Run {
        self.runs(policy).last.unwrap()
    }
}

#[test]
fn the_snapshots_of_a_run_are_one_set_and_go_one_by_one() {
    let mut rig = Rig::new();
    let policy = rig.together(40);
    rig.at(MONDAY);
    for hour in 1..=3 {
        rig.at(MONDAY + hour * HOUR);
    }
    let all: Vec<Vec<Snapshot>> = (1..=40).map(|volume| rig.sealed(VolumeId(volume))).collect();
    for of in &all {
        let sets: Vec<Option<SetId>> = of.iter().map(|snapshot| snapshot.set).collect();
        assert_eq!(
            sets,
            [Some(SetId(2)), Some(SetId(3))],
            "as all others, and two are kept"
        );
    }
    let runs = rig.runs(&policy);
    assert_eq!((runs.sets, runs.sets_void, runs.taken, runs.deleted), (3, 0, 120, 40));
    let last = rig.last(&policy);
    let set = RunSet {
        id: Some(SetId(3)),
        volumes: 40,
        ..RunSet::default()
    };
    assert_eq!((last.set, last.together, last.taken), (Some(set), true, 40));
    assert_eq!(rig.told(), []);
    // One by one again, from the next run on.
    let change = PolicyChange {
        together: Some(false),
        ..PolicyChange::default()
    };
    admin::set_policy(&rig.meta, "p", &change).unwrap();
    rig.at(MONDAY + 4 * HOUR);
    assert_eq!(rig.sealed(VolumeId(7)).last().unwrap().set, None);
    assert_eq!(rig.last(&policy).set, None);
}

#[test]
fn a_set_of_volumes_that_were_reverted_is_taken_once() {
    let mut rig = Rig::new();
    let policy = rig.together(2);
    let reverted: Vec<VolumeId> = (1..=2).map(|number| rig.revert(number)).collect();
    rig.at(MONDAY);
    for hour in 1..=2 {
        rig.at(MONDAY + hour * HOUR);
    }
    let runs = rig.runs(&policy);
    assert_eq!((runs.sets, runs.sets_void, runs.taken), (2, 0, 4));
    assert_eq!(rig.sealed(reverted[1]).len(), 2);
}

#[test]
fn a_set_that_is_void_is_tried_anew_for_as_long_as_the_run_has_time() {
    let mut rig = Rig::new();
    let policy = rig.together(3);
    rig.at(MONDAY);
    // More often than a snapshot that is refused is wished anew.
    rig.void = 7;
    rig.at(MONDAY + HOUR);
    let (runs, last) = (rig.runs(&policy), rig.last(&policy));
    assert_eq!((runs.sets, runs.sets_void, last.taken, last.failed), (1, 7, 3, 0));
    assert_eq!(last.set.unwrap().id, Some(SetId(8)));
    // Not for ever: 300 s, and then it is told, once for all volumes.
    rig.void = usize::MAX;
    let before = rig.steady;
    rig.at(MONDAY + 2 * HOUR);
    assert!(
        rig.steady - before < Duration::from_secs(400),
        "{:?}",
        rig.steady - before
    );
    let last = rig.last(&policy);
    assert_eq!((last.taken, last.failed, last.why.len()), (0, 3, 1), "{:?}", last.why);
    let why = "set p-20240101T020000Z of 3 volumes: an owner was too slow";
    assert_eq!(last.why, [why]);
    assert!(rig.told()[0].1.contains(why));
    assert!((8..20).contains(&last.set.unwrap().void));
    // And not into the next run's time.
    let often = PolicyChange {
        schedule: Some("* * * * *".to_owned()),
        ..PolicyChange::default()
    };
    admin::set_policy(&rig.meta, "p", &often).unwrap();
    rig.at(MONDAY + 2 * HOUR + 1);
    let before = rig.steady;
    rig.at(MONDAY + 2 * HOUR + MINUTE);
    assert!(rig.steady - before < Duration::from_secs(MINUTE));
    // What cannot be is not tried so often.
    (rig.void, rig.refusing) = (0, BTreeSet::from([VolumeId(2)]));
    rig.at(MONDAY + 2 * HOUR + 2 * MINUTE);
    let last = rig.last(&policy);
    assert_eq!((last.failed, last.set.unwrap().void), (3, 3));
    assert!(
        rig.sealed(VolumeId(1)).len() == 1,
        "what was taken before is kept, and no part of a set is"
    );
    rig.own_sets();
    assert!(rig.sets().is_empty());
}

#[test]
fn one_that_is_not_decided_in_time_is_given_up_and_missed_runs_are_made_up_for_once() {
    let mut rig = Rig::new();
    let policy = rig.together(3);
    rig.at(MONDAY);
    rig.silent.insert(VolumeId(2));
    rig.wall = MONDAY + HOUR;
    rig.step();
    assert_eq!(rig.sets().len(), 1);
    // It takes until three others have passed.
    rig.at(MONDAY + 4 * HOUR + MINUTE);
    let last = rig.last(&policy);
    assert!(last.why[0].contains("was not taken within 120 s"), "{:?}", last.why);
    assert!(
        rig.sets().iter().all(|set| set.state != SetState::Taking),
        "it is not taken later"
    );
    rig.silent.clear();
    rig.at(MONDAY + 4 * HOUR + 2 * MINUTE);
    let runs = rig.runs(&policy);
    assert_eq!(
        (rig.last(&policy).due, rig.last(&policy).taken, runs.missed),
        (MONDAY + 4 * HOUR, 3, 3)
    );
    assert_eq!(
        rig.told()
            .iter()
            .filter(|(kind, _)| *kind == Kind::PolicyMissed)
            .count(),
        1
    );
}

/// Wherever a leader dies: the next one takes no other set in place of the run's, nor of a part of its volumes.
#[test]
fn the_next_leader_goes_on_with_the_set_of_the_run() {
    for steps in 1..12 {
        for gives_up in [false, true] {
            let mut rig = Rig::new();
            let policy = rig.together(40);
            rig.at(MONDAY);
            rig.void = if gives_up { usize::MAX } else { 0 };
            rig.wall = MONDAY + HOUR;
            for _ in 0..steps {
                rig.step();
                rig.own();
                rig.steady += Duration::from_secs(if gives_up { 31 } else { 2 });
            }
            rig.crash();
            rig.void = 0;
            rig.settle();
            let last = rig.last(&policy);
            assert_eq!(last.taken + last.failed, 40, "{steps} steps: {last:?}");
            assert!([0, 40].contains(&last.taken), "{steps} steps: {last:?}");
            assert_eq!(rig.taken.len() as u64, last.taken, "{steps} steps");
            rig.no_doubles();
            let sets: BTreeSet<Option<SetId>> = (1..=40)
                .flat_map(|volume| rig.sealed(VolumeId(volume)))
                .map(|found| found.set)
                .collect();
            assert_eq!(sets.len() as u64, last.taken / 40, "one set, or none: {sets:?}");
        }
    }
}

#[test]
fn what_a_dead_leader_has_wished_as_a_set_is_taken_back_with_its_policy() {
    for deleted in [false, true] {
        for died in [false, true] {
            let mut rig = Rig::new();
            let policy = rig.together(3);
            rig.at(MONDAY);
            rig.silent.insert(VolumeId(2));
            rig.wall = MONDAY + HOUR;
            rig.step();
            rig.volume(9, "other");
            admin::ask_set(
                &rig.meta,
                &["other".to_owned()],
                "by-hand",
                BTreeMap::new(),
                Duration::ZERO,
            )
            .unwrap();
            if died {
                rig.crash();
            }
            match deleted {
                true => drop(admin::delete_policy(&rig.meta, "p").unwrap()),
                false => drop(admin::set_policy(&rig.meta, "p", &paused(true)).unwrap()),
            }
            rig.step();
            rig.silent.clear();
            let taking = rig.sets().into_iter().filter(|set| set.state == SetState::Taking);
            let names: Vec<String> = taking.map(|set| set.name).collect();
            assert_eq!(names, ["by-hand"], "what an operator wishes stays");
            if !deleted {
                assert!(rig.last(&policy).notes[0].contains("the policy was paused"));
            }
        }
    }
}

#[test]
fn more_volumes_than_a_set_may_have_are_refused_and_older_ones_go_all_the_same() {
    let mut rig = Rig::new();
    let policy = rig.together(3);
    rig.at(MONDAY);
    for hour in 1..=2 {
        rig.at(MONDAY + hour * HOUR);
    }
    rig.volumes(1025);
    let fewer = keeping(1);
    let why = admin::set_policy(&rig.meta, "p", &fewer).unwrap_err().to_string();
    assert!(why.contains("1025 volumes") && why.contains("--one-by-one"), "{why}");
    // What an earlier state of things allowed.
    let mut record = policy.clone();
    record.keep.last = 1;
    rig.put(map::policy_key("p"), &record);
    rig.at(MONDAY + 3 * HOUR);
    let last = rig.last(&policy);
    assert_eq!((last.taken, last.failed, last.deleted), (0, 1025, 3));
    assert!(
        last.why[0].contains("snapshots of at most 1024 can be of one moment"),
        "{:?}",
        last.why
    );
    assert!(rig.sets().is_empty());
    // Just as many as there may be.
    rig.remove(map::volume_key("v1025"));
    rig.at(MONDAY + 4 * HOUR);
    assert_eq!(rig.last(&policy).taken, 1024);
}

#[test]
fn volumes_by_name_and_others_snapshots_in_the_way() {
    let mut rig = Rig::new();
    rig.volumes(4);
    let names = ["v4", "v2", "v2"].map(str::to_owned).to_vec();
    let policy = rig.policy("p", PolicyTarget::Volumes(names), "0 * * * *", 5);
    assert_eq!(policy.target, map::Target::Volumes(vec![VolumeId(2), VolumeId(4)]));
    let change = PolicyChange {
        together: Some(true),
        ..PolicyChange::default()
    };
    admin::set_policy(&rig.meta, "p", &change).unwrap();
    rig.at(MONDAY);
    // An operator's is waited for.
    rig.silent.insert(VolumeId(4));
    admin::ask_snapshot(&rig.meta, "v4", "by-hand", BTreeMap::new(), Duration::ZERO).unwrap();
    rig.wall = MONDAY + HOUR;
    for _ in 0..5 {
        rig.step();
        rig.own();
        rig.steady += Duration::from_secs(1);
    }
    assert!(rig.sets().is_empty());
    rig.silent.clear();
    rig.settle();
    assert_eq!((rig.last(&policy).taken, rig.taken.len()), (2, 3));
    // One of them is deleted: the others are taken, and that is told.
    rig.remove(map::volume_key("v2"));
    rig.at(MONDAY + 2 * HOUR);
    let last = rig.last(&policy);
    assert_eq!((last.taken, last.failed), (1, 1));
    assert!(last.why[0].contains("amita volume undelete"), "{:?}", last.why);
    // A snapshot of that name that is not the policy's.
    admin::ask_snapshot(&rig.meta, "v4", "p-20240101T030000Z", BTreeMap::new(), Duration::ZERO).unwrap();
    rig.own();
    rig.at(MONDAY + 3 * HOUR);
    let last = rig.last(&policy);
    assert!(
        last.why.iter().any(|why| why.contains("is not this policy's")),
        "{:?}",
        last.why
    );
}
