//! Alerts on a clock that is given.

use super::*;
use proptest::prelude::*;

fn condition(code: &str, severity: Severity) -> Condition {
    Condition {
        code: code.to_owned(),
        severity,
        object: "main".to_owned(),
        labels: BTreeMap::new(),
        what: format!("{code} is so."),
        advice: "Look.".to_owned(),
        at_once: false,
    }
}

fn only(alerts: &Alerts) -> &Alert {
    assert_eq!(alerts.alerts.len(), 1);
    alerts.alerts.values().next().unwrap()
}

#[test]
fn a_moments_trouble_is_not_told() {
    let mut alerts = Alerts::default();
    let seen = [condition("node-down", Severity::Warning)];
    assert!(alerts.step(&seen, 1000));
    assert_eq!(only(&alerts).state, State::Pending);
    assert!(
        !alerts.step(&seen, 1000 + Severity::Warning.hold_s() - 1),
        "nothing but time has changed"
    );
    alerts.step(&[], 1030);
    alerts.step(&[], 1030 + SETTLE_S);
    assert!(alerts.alerts.is_empty(), "nobody heard of it");
}

#[test]
fn what_stays_fires_and_what_stays_away_is_over() {
    let mut alerts = Alerts::default();
    let seen = [condition("copies-below", Severity::Critical)];
    alerts.step(&seen, 1000);
    alerts.step(&seen, 1000 + Severity::Critical.hold_s());
    let alert = only(&alerts);
    assert_eq!((alert.state, alert.since, alert.turn), (State::Firing, 1000, 1));
    assert!(alerts.step(&[], 1100));
    assert_eq!(only(&alerts).state, State::Firing, "it may come back at once");
    assert!(alerts.step(&[], 1100 + SETTLE_S));
    let alert = only(&alerts);
    assert_eq!(
        (alert.state, alert.resolved_at),
        (State::Resolved, Some(1100 + SETTLE_S))
    );
    alerts.step(&[], 1130 + KEPT_S);
    assert!(alerts.alerts.is_empty());
}

#[test]
fn what_happened_fires_at_once_and_ends_by_itself() {
    let mut alerts = Alerts::default();
    let heard = Condition {
        at_once: true,
        ..condition("scrub-found", Severity::Warning)
    };
    let until = 5000;
    alerts.lasting.insert(
        heard.id(),
        Lasting {
            condition: heard,
            until,
        },
    );
    alerts.step(&[], 1000);
    assert_eq!(only(&alerts).state, State::Firing);
    alerts.step(&[], until);
    alerts.step(&[], until + SETTLE_S);
    assert_eq!(only(&alerts).state, State::Resolved);
    assert!(alerts.lasting.is_empty());
}

#[test]
fn what_comes_and_goes_is_one_incident() {
    let mut alerts = Alerts::default();
    let seen = [condition("store-away", Severity::Warning)];
    // Ten minutes of twenty seconds there and twenty away.
    for second in 0..600 {
        let there = second / 20 % 2 == 0;
        alerts.step(if there { &seen } else { &[] }, 1000 + second);
    }
    let alert = only(&alerts);
    assert_eq!(
        (alert.state, alert.since, alert.turn),
        (State::Firing, 1000, 1),
        "{alert:?}"
    );
    assert!(alert.came_back > 5);
    let calm = 1600 + alert.settle_s();
    for second in 1600..=calm {
        alerts.step(&[], second);
    }
    assert_eq!(only(&alerts).state, State::Resolved);
    // Back within minutes, it is the same, and fires anew.
    for second in calm..calm + 40 {
        alerts.step(&seen, second);
    }
    let alert = only(&alerts);
    assert_eq!((alert.state, alert.since, alert.turn), (State::Firing, 1000, 2));
}

#[test]
fn an_acknowledgement_ends_when_it_gets_worse_and_when_it_is_over() {
    let mut alerts = Alerts::default();
    let acknowledge = |alerts: &mut Alerts| {
        let alert = alerts.alerts.values_mut().next().unwrap();
        alert.acknowledged = Some(Acknowledgement {
            by: "eve".to_owned(),
            at: 1,
            severity: alert.condition.severity,
            note: String::new(),
        });
    };
    for second in 0..60 {
        alerts.step(&[condition("x", Severity::Warning)], second);
    }
    acknowledge(&mut alerts);
    alerts.step(&[condition("x", Severity::Info)], 60);
    assert!(only(&alerts).acknowledged.is_some(), "better is no reason");
    alerts.step(&[condition("x", Severity::Critical)], 61);
    assert!(only(&alerts).acknowledged.is_none());
    acknowledge(&mut alerts);
    (62..200).for_each(|second| {
        let _ = alerts.step(&[], second);
    });
    assert!(only(&alerts).acknowledged.is_none());
}

#[test]
fn there_is_a_most_of_alerts_and_what_is_over_makes_room() {
    let mut alerts = Alerts::default();
    let some = |from: usize, count: usize| -> Vec<Condition> {
        (from..from + count)
            .map(|number| condition(&format!("c{number}"), Severity::Critical))
            .collect()
    };
    for second in [0, 20] {
        alerts.step(&some(0, MAX_ALERTS + 3), second);
    }
    assert_eq!((alerts.alerts.len(), alerts.left_out), (MAX_ALERTS, 3));
    for second in 30..100 {
        alerts.step(&[], second);
    }
    assert_eq!(alerts.left_out, 0);
    alerts.step(&some(9000, 3), 100);
    assert_eq!((alerts.alerts.len(), alerts.left_out), (MAX_ALERTS, 0));
    let largest = serde_json::to_vec(&alerts).unwrap().len();
    assert!(largest < 400 * 1024, "{largest} bytes");
}

/// The largest record there can be is one that the metadata takes.
#[test]
fn the_most_and_longest_alerts_fit_into_one_record() {
    let mut alerts = Alerts::default();
    let long = |number: usize| {
        let mut condition = condition(&"c".repeat(24), Severity::Critical);
        condition.object = format!("{number}{}", "\\".repeat(1000));
        condition.what = "\"".repeat(1000);
        condition.advice = "x".repeat(1000);
        condition.labels = ["node", "pool", "volume"]
            .map(|name| (name.to_owned(), "v".repeat(64)))
            .into();
        condition.bounded()
    };
    let all: Vec<Condition> = (0..MAX_ALERTS).map(long).collect();
    alerts.step(&all, 0);
    alerts.step(&all, 60);
    let bytes = serde_json::to_vec(&alerts).unwrap().len();
    assert!(bytes < amita_metadata::MAX_CALL_BYTES, "{bytes} bytes");
}

proptest! {
    /// Whatever comes and goes: each firing has its end before the next one, and nothing fires that was not there for its time.
    #[test]
    fn turns_and_ends_alternate(steps in prop::collection::vec((0_u64..40, prop::bool::ANY, 0_usize..3), 1..200)) {
        let mut alerts = Alerts::default();
        let (mut now, mut first_seen, mut turns, mut ends) = (1000, None, 0, 0);
        let mut was = None;
        for (pause, there, severity) in steps {
            now += pause;
            let seen = condition("x", Severity::ALL[severity]);
            if there {
                first_seen.get_or_insert(now);
            }
            let before = alerts.clone();
            let changed = alerts.step(if there { std::slice::from_ref(&seen) } else { &[] }, now);
            let state = alerts.alerts.values().next().map(|alert| alert.state);
            if state == Some(State::Firing) && was != Some(State::Firing) {
                turns += 1;
                prop_assert!(there, "it fires while it is there");
                prop_assert!(now - first_seen.unwrap() >= Severity::Critical.hold_s());
            }
            if state == Some(State::Resolved) && was == Some(State::Firing) {
                ends += 1;
            }
            prop_assert!(turns == ends || turns == ends + 1);
            prop_assert!(changed || states(&before) == states(&alerts), "what changes is said");
            was = state;
        }
        for second in 1..=2 * LONGEST_SETTLE_S {
            alerts.step(&[], now + second);
        }
        let left = alerts.alerts.values().next().map(|alert| (alert.state, alert.turn));
        prop_assert!(left.is_none() || left == Some((State::Resolved, turns)), "{left:?}");
    }
}

fn states(alerts: &Alerts) -> Vec<(State, u64, Option<u64>)> {
    alerts
        .alerts
        .values()
        .map(|alert| (alert.state, alert.turn, alert.gone_since))
        .collect()
}
