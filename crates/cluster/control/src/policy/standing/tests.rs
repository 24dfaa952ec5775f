use super::*;
use crate::health::{Picture, judge};
use amita_types::map::{Keep, PolicyId, Run, Target};

/// Monday, 1 January 2024.
const MONDAY: u64 = 1_704_067_200;
const HOUR: u64 = 3600;

fn policy(schedule: &str) -> Policy {
    Policy {
        id: PolicyId(1),
        name: "p".to_owned(),
        target: Target::Pool("main".to_owned()),
        schedule: schedule.to_owned(),
        zone: "UTC".to_owned(),
        template: "{policy}-{time}".to_owned(),
        keep: Keep::default(),
        together: false,
        paused: false,
    }
}

fn runs(after: u64) -> PolicyRuns {
    PolicyRuns {
        schedule: "0 * * * * in UTC".to_owned(),
        after,
        ..PolicyRuns::default()
    }
}

fn facts(status: &PolicyStatus) -> Vec<(&'static str, String)> {
    let picture = Picture {
        policies: std::slice::from_ref(status),
        ..Picture::default()
    };
    let facts = judge(&picture);
    facts.into_iter().map(|fact| (fact.name, fact.to_string())).collect()
}

#[test]
fn what_is_due_and_not_begun_is_late() {
    let hourly = || policy("0 * * * *");
    let of = |runs: Option<PolicyRuns>, now: u64| PolicyStatus::of(hourly(), runs, None, now);
    let new = of(None, MONDAY + 5);
    assert_eq!((new.late_s, new.next_at), (0, Some(MONDAY + HOUR)), "nobody counts yet");
    let well = of(Some(runs(MONDAY)), MONDAY + HOUR - 1);
    assert_eq!((well.late_s, well.next_at), (0, Some(MONDAY + HOUR)));
    assert_eq!(facts(&well), []);
    let late = of(Some(runs(MONDAY)), MONDAY + HOUR + TOO_LATE + 1);
    assert_eq!(late.late_s, TOO_LATE + 1);
    let told = facts(&late);
    assert_eq!(told[0].0, "policy-late");
    assert!(told[0].1.contains("601 s ago has not begun"), "{told:?}");
    let mut under_way = runs(MONDAY + HOUR);
    under_way.run = Some(Run {
        due: MONDAY + HOUR,
        ..Run::default()
    });
    let told = facts(&of(Some(under_way), MONDAY + 2 * HOUR));
    assert!(told[0].1.contains("3600 s ago does not end"), "{told:?}");
    // By a clock that is behind nothing is late, and a policy that is paused never is.
    assert_eq!(of(Some(runs(MONDAY + 9 * HOUR)), MONDAY).late_s, 0);
    let paused = Policy {
        paused: true,
        ..hourly()
    };
    let paused = PolicyStatus::of(paused, Some(runs(MONDAY)), None, MONDAY + 9 * HOUR);
    assert_eq!((paused.late_s, paused.next_at), (0, None));
}

#[test]
fn one_whose_runs_nobody_can_read_is_told_to_do_nothing() {
    let status = PolicyStatus::of(policy("0 * * * *"), None, None, MONDAY);
    let unreadable = [(
        amita_types::map::policy_runs_key(PolicyId(1)),
        "it is no record".to_owned(),
    )];
    let picture = Picture {
        policies: std::slice::from_ref(&status),
        unreadable: &unreadable,
        ..Picture::default()
    };
    let all = judge(&picture);
    let told = all.iter().find(|fact| fact.name == "policy-fails").unwrap().to_string();
    assert!(
        told.contains("Snapshot policy p does nothing") && told.contains("set p --resume"),
        "{told}"
    );
    let status = status.unreadable(&"it is no record");
    assert_eq!((status.next_at, status.late_s), (None, 0));
    assert!(facts(&status)[0].1.contains("it is no record"));
}

#[test]
fn what_failed_is_a_fact_until_a_run_does_not() {
    let mut failing = runs(MONDAY);
    failing.last = Some(Run {
        failed: 3,
        why: vec!["v1@p-x: a store is away".to_owned()],
        ..Run::default()
    });
    let status = PolicyStatus::of(policy("0 * * * *"), Some(failing), None, MONDAY);
    let told = facts(&status);
    assert_eq!((told.len(), told[0].0), (1, "policy-fails"));
    assert!(
        told[0].1.contains("v1@p-x: a store is away. So did 2 more."),
        "{told:?}"
    );
    let wrong = PolicyStatus::of(policy("whenever"), None, None, MONDAY);
    let told = facts(&wrong);
    assert!(
        told[0]
            .1
            .contains("does nothing: the schedule \"whenever\" cannot be read"),
        "{told:?}"
    );
}
