//! How volumes stand among others, in their records.

use super::limit::with_volume;
use super::*;
use amita_types::map::{PRIORITIES_SINCE, Priority, USUAL_WEIGHT};

const SOME: Priority = Priority {
    reservation: Some(50 << 20),
    weight: Some(200),
    latency_target_us: Some(2_000),
};

#[test]
fn priorities_are_the_volume_s_and_what_was_not_said_stays() {
    let meta = with_volume(PRIORITIES_SINCE);
    assert_eq!(priority(&meta, "db").unwrap(), Priority::default());
    assert_eq!(set_priority(&meta, "db", |wanted| *wanted = SOME).unwrap(), SOME);
    resize_volume(&meta, "db", 2 << 30).unwrap();
    let more = set_priority(&meta, "db", |wanted| wanted.weight = Some(300)).unwrap();
    assert_eq!((more.reservation, more.weight()), (SOME.reservation, 300));
    assert_eq!(priority(&meta, "db").unwrap(), more);
    // The usual weight is none, and a record that says nothing is as one of before.
    let usual = set_priority(&meta, "db", |wanted| {
        *wanted = Priority {
            weight: Some(USUAL_WEIGHT),
            ..Priority::default()
        };
    });
    assert!(usual.unwrap().is_empty());
    assert_eq!(volume(&meta, "db").unwrap().priority, None);
}

#[test]
fn priorities_that_cannot_be_are_refused_and_named() {
    let meta = with_volume(PRIORITIES_SINCE);
    let refused = |change: fn(&mut Priority)| set_priority(&meta, "db", change).unwrap_err().to_string();
    let why = refused(|wanted| wanted.weight = Some(1_001));
    assert!(why.contains("weight must be 1 to 1000, and is to be 1001"), "{why}");
    let why = refused(|wanted| wanted.weight = Some(0));
    assert!(why.contains("weight"), "{why}");
    let why = refused(|wanted| wanted.reservation = Some(1));
    assert!(why.contains("reservation in bytes a second must be 1048576"), "{why}");
    let why = refused(|wanted| wanted.latency_target_us = Some(99));
    assert!(why.contains("latency target in microseconds"), "{why}");
    assert!(matches!(
        priority(&meta, "none").unwrap_err(),
        AdminError::NoSuch { .. }
    ));
    let older = with_volume(PRIORITIES_SINCE - 1);
    let why = set_priority(&older, "db", |wanted| *wanted = SOME).unwrap_err();
    assert!(why.to_string().contains("amita cluster finalize"), "{why}");
    assert_eq!(volume(&older, "db").unwrap().priority, None);
    // Who says nothing, or takes back what nobody has said, asks for nothing that they would have to know.
    let nothing = set_priority(&older, "db", |wanted| *wanted = Priority::default());
    assert_eq!(nothing.unwrap(), Priority::default());
}
