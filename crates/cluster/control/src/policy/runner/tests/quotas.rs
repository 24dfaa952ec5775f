//! Pools that may have no more snapshots.

use super::*;

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
