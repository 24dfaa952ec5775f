//! What is told of much that fails.

use super::*;

#[test]
fn what_is_told_is_bounded_and_what_fails_goes_first() {
    let mut reporter = Reporter::new(NodeId(1), 0);
    let volumes = MAX_TROUBLES as u64 + 40;
    for volume in 0..volumes {
        assert!(reporter.trouble(Time(1), VolumeId(volume), Failing::Locked, "there is no file"));
    }
    assert!(reporter.trouble(Time(1), VolumeId(volumes), Failing::Writes, "no space"));
    let told = reporter.told_troubles();
    assert_eq!(told.len(), MAX_TROUBLES);
    assert_eq!(told.last(), Some(&(VolumeId(volumes), Failing::Writes)));
    assert!(told.is_sorted(), "the same is told in the same order");
    // What was not told is when there is room.
    let later = Time(1).plus(TROUBLE_LASTS);
    for volume in 100..=volumes {
        reporter.trouble(later, VolumeId(volume), Failing::Locked, "there is no file");
    }
    assert_eq!(reporter.ended_troubles(later).len(), 101);
    let told = reporter.told_troubles();
    assert_eq!(told.len(), volumes as usize - 99);
    assert_eq!(told.last(), Some(&(VolumeId(volumes), Failing::Locked)));
}

#[test]
fn what_fails_one_after_the_other_is_told_together() {
    let stores = Stores::default();
    let mut reporter = Reporter::new(NodeId(1), 0);
    reporter.report_condition();
    let told = |reporter: &mut Reporter, now: Time| {
        let mut call = Call::default();
        reporter.tell_condition(now, &stores, &mut call);
        let Op::Put { value, .. } = call.then.pop()? else {
            return None;
        };
        let condition: Condition = serde_json::from_slice(&value).unwrap();
        Some(condition.troubles.len())
    };
    let start = Time(5);
    reporter.trouble(start, VolumeId(1), Failing::Locked, "there is no file");
    assert_eq!(told(&mut reporter, start), Some(1), "at once");
    let (soon, later) = (start.plus(Duration::from_millis(1)), start.plus(FIRST_PAUSE));
    for volume in 2..5 {
        reporter.trouble(soon, VolumeId(volume), Failing::Locked, "there is no file");
    }
    reporter.space_due = None;
    assert_eq!(told(&mut reporter, soon), None);
    assert_eq!(reporter.space_due, Some(later), "it is not forgotten");
    assert_eq!(told(&mut reporter, later), Some(4));
}
