//! What goes by which rules.

use super::*;

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

/// A run that is about to delete 300 snapshots of a volume, and has deleted some.
pub(super) fn pruning() -> (Rig, VolumeId, Policy) {
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
            hold_ms: None,
        };
        rig.make(db, &wish, None);
    }
    rig.at(MONDAY);
    rig.wall = MONDAY + HOUR;
    rig.step();
    rig.own();
    rig.step();
    assert_eq!(rig.names(db).len(), 301 - MOST_DELETED);
    (rig, db, policy)
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
fn a_snapshot_that_became_a_mark_meanwhile_stays_one() {
    let (mut rig, db, _) = pruning();
    let doomed = rig.names(db)[5].clone();
    admin::mark_snapshot(&rig.meta, "db", &doomed).unwrap();
    rig.settle();
    assert_eq!(rig.names(db).len(), 1, "marks are not among them");
    assert!(admin::snapshot_or_mark(&rig.meta, "db", &doomed).unwrap().mark);
}

/// A newer program may know of other rules, and a record may have been written by hand.
#[test]
fn rules_that_cannot_be_delete_nothing() {
    for (keep, said) in [
        (serde_json::json!({}), "would keep nothing"),
        (
            serde_json::json!({"quarterly": 8}),
            "a rule that this program does not know",
        ),
        // What the others keep is not all that is to be kept.
        (
            serde_json::json!({"last": 1, "quarterly": 8}),
            "a rule that this program does not know",
        ),
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
        // Nor is such a rule written away by who does not know it.
        if policy.keep.has_others {
            let before = rig.meta.txn(&Call::get(map::policy_key("p"))).unwrap();
            let why = admin::set_policy(&rig.meta, "p", &keeping(3)).unwrap_err().to_string();
            assert!(why.contains(said), "{why}");
            let after = rig.meta.txn(&Call::get(map::policy_key("p"))).unwrap();
            assert_eq!(before.value(0), after.value(0));
        }
    }
}

/// `amita snapshot-policy prune` is under way meanwhile.
#[test]
fn operators_prune_by_the_rules_that_they_have_seen_or_not_at_all() {
    let (rig, db, policy) = pruning();
    let all = admin::retained(&rig.meta, &policy).unwrap();
    let mut going = all[0].snapshots.iter().rev().filter(|snapshot| snapshot.goes());
    let mut prune = || admin::delete_retained(&rig.meta, &policy, &all[0], going.next().unwrap());
    assert_eq!(prune().unwrap(), admin::Pruning::Deleted);
    let there = rig.names(db).len();
    admin::set_policy(&rig.meta, "p", &keeping(400)).unwrap();
    let why = prune().unwrap_err().to_string();
    assert!(why.contains("somebody has changed it meanwhile"), "{why}");
    assert_eq!(rig.names(db).len(), there);
    // As they were again, though written anew.
    admin::set_policy(&rig.meta, "p", &keeping(1)).unwrap();
    assert_eq!(prune().unwrap(), admin::Pruning::Deleted);
    assert_eq!(rig.names(db).len(), there - 1);
}

/// Hosts use more of the oldest snapshots than are known to go at one time.
#[test]
fn what_is_needed_keeps_nothing_behind_it() {
    let (mut rig, db, policy) = pruning();
    let spec = admin::SubsystemSpec {
        name: "backup".to_owned(),
        ..admin::SubsystemSpec::default()
    };
    admin::create_subsystem(&rig.meta, &spec).unwrap();
    let names = rig.names(db);
    let needed = &names[..270];
    for name in needed {
        admin::add_namespace(&rig.meta, "backup", &format!("db@{name}"), None, 4096).unwrap();
    }
    rig.settle();
    let left = rig.names(db);
    assert_eq!(left.len(), 271, "those that hosts use, and the newest");
    assert_eq!(left[..270], *needed);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.left, last.failed), (270, 0));
}
