//! What a run takes, tries again, waits for and leaves.

use super::*;

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
        hold_ms: None,
    };
    rig.make(db, &wish, None);
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

/// A store that comes and goes: each minute the policy fails, or does not.
#[test]
fn what_fails_by_turns_is_told_once_an_hour() {
    let mut rig = Rig::new();
    rig.volumes(1);
    rig.of_all("p", "* * * * *", 5);
    rig.at(MONDAY);
    let mut told = Vec::new();
    for minute in 1..=180 {
        match minute % 2 {
            0 => rig.refusing.clear(),
            _ => drop(rig.refusing.insert(VolumeId(1))),
        }
        rig.at(MONDAY + minute * MINUTE);
        told.extend(rig.told().into_iter().map(|(kind, _)| (kind, minute)));
    }
    let of = |wanted: Kind| -> Vec<u64> {
        let own = told.iter().filter(|(kind, _)| *kind == wanted);
        own.map(|(_, minute)| *minute).collect()
    };
    assert_eq!(of(Kind::PolicyFails), [1, 61, 121]);
    assert_eq!(of(Kind::PolicyWorks), [2, 62, 122]);
    // At last it is told how it is.
    rig.refusing.clear();
    for minute in 181..=300 {
        rig.at(MONDAY + minute * MINUTE);
    }
    assert_eq!(rig.told(), [], "that it works was the last that was told");
}
