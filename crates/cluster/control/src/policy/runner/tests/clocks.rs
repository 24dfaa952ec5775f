//! Clocks that go back, or were ahead.

use super::*;

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
