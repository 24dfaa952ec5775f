use super::*;
use amita_types::map::{DEFAULT_TEMPLATE, DEFAULT_ZONE, Keep, PolicyId, Target};

fn policy(template: &str) -> Policy {
    Policy {
        id: PolicyId(1),
        name: "nightly".to_owned(),
        target: Target::Pool("main".to_owned()),
        schedule: "0 2 * * *".to_owned(),
        zone: DEFAULT_ZONE.to_owned(),
        template: template.to_owned(),
        keep: Keep::default(),
        together: false,
        paused: false,
    }
}

#[test]
fn a_name_has_the_policy_and_the_time_in_utc() {
    let leap = 1_709_172_000; // 29 February 2024, two o'clock
    assert_eq!(name("nightly", DEFAULT_TEMPLATE, leap), "nightly-20240229T020000Z");
    assert_eq!(name("nightly", "auto.{time}.x", leap), "auto.20240229T020000Z.x");
    // No calendar reaches so far, and it is a name all the same.
    assert_eq!(name("n", "{time}", u64::MAX), u64::MAX.to_string());
}

#[test]
fn names_that_cannot_be_are_refused() {
    check(&policy(DEFAULT_TEMPLATE)).unwrap();
    check(&policy("{time}")).unwrap();
    for (template, said) in [
        ("daily", "{time} must stand in them"),
        ("-{time}", "cannot be a snapshot's name"),
        ("a/{time}", "cannot be a snapshot's name"),
        ("{volume}-{time}", "cannot be a snapshot's name"),
        (&format!("{}{{time}}", "x".repeat(120)), "cannot be a snapshot's name"),
        ("", "{time} must stand in them"),
    ] {
        let why = check(&policy(template)).unwrap_err();
        assert!(why.contains(said), "{template}: {why}");
    }
}
