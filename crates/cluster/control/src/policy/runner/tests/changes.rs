//! Policies that are changed, paused and deleted, and those that cannot be.

use super::rules::pruning;
use super::*;

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
fn a_run_that_a_pause_ends_says_what_it_did_not_do() {
    let mut rig = Rig::new();
    rig.volumes(20);
    let policy = rig.of_all("p", "0 * * * *", 5);
    rig.at(MONDAY);
    rig.wall = MONDAY + HOUR;
    rig.step();
    rig.own();
    admin::set_policy(&rig.meta, "p", &paused(true)).unwrap();
    rig.settle();
    let last = rig.runs(&policy).last.unwrap();
    assert!(last.taken < 20, "{last:?}");
    assert!(
        last.notes.iter().any(|note| note.contains("were not looked at")),
        "{:?}",
        last.notes
    );
}
