//! Conditions of a cluster that is a model of the metadata.

use super::*;
use crate::alert::State;
use amita_control::admin;
use amita_control::events::{Draft, Writer};
use amita_metadata::model;
use amita_types::ClusterId;
use std::sync::Mutex;

type Meta = Mutex<model::State>;

fn cluster() -> Meta {
    let meta = Mutex::new(model::State::new());
    admin::init_cluster(&meta, ClusterId(7)).unwrap();
    for name in ["n1", "n2"] {
        admin::register_node(&meta, name, "127.0.0.1:1", None, 1).unwrap();
    }
    meta
}

#[test]
fn conditions_are_the_facts_of_the_status_in_its_words() {
    let meta = cluster();
    let status = admin::status(&meta).unwrap();
    let conditions = of_status(&status);
    assert_eq!(conditions.len(), status.facts.len());
    let down = conditions
        .iter()
        .find(|found| found.code == "node-down" && found.object == "n1")
        .unwrap();
    let fact = status
        .facts
        .iter()
        .find(|fact| fact.name == "node-down" && fact.objects == ["n1"])
        .unwrap();
    assert_eq!((&down.what, &down.advice), (&fact.text, &fact.advice));
    assert_eq!(down.labels, BTreeMap::from([("node".to_owned(), "n1".to_owned())]));
    assert_eq!(down.severity, Severity::Warning);
}

#[test]
fn a_condition_is_the_same_while_its_list_of_objects_grows() {
    let meta = cluster();
    let status = admin::status(&meta).unwrap();
    let fact = |name: &'static str, objects: &[&str]| Fact {
        name,
        severity: events::Severity::Error,
        objects: objects.iter().map(|&object| object.to_owned()).collect(),
        text: "x".to_owned(),
        advice: String::new(),
    };
    let id = |name, objects: &[&str]| of_fact(&fact(name, objects), &status).id();
    assert_eq!(id("node-unprotected", &["n1"]), id("node-unprotected", &["n2", "n1"]));
    assert_eq!(id("pool-full", &["main", "s1"]), id("pool-full", &["main", "s2", "s1"]));
    assert_ne!(id("pool-full", &["main"]), id("pool-full", &["other"]));
    assert_ne!(id("writes-fail", &["v", "n1"]), id("writes-fail", &["v", "n2"]));
    let fails = of_fact(&fact("writes-fail", &["v", "n1"]), &status);
    assert_eq!(fails.object, "v at n1");
    assert!(!fails.advice.is_empty(), "the kind's own, where the fact has none");
}

/// Each page that is named is there.
#[test]
fn runbooks_are_there() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/operating/runbooks");
    for (code, page) in RUNBOOKS {
        assert!(
            std::path::Path::new(&format!("{folder}/{page}.md")).exists(),
            "{code}: {page}"
        );
        let is_known = health::Kind::named(code).is_some() || EventKind::named(code).is_some();
        assert!(is_known, "{code}");
    }
}

#[test]
fn prefixes_cover_the_time_and_are_few() {
    for (from, to) in [
        (1_764_000_000_000, 1_764_000_000_000),
        (1_764_000_099_000, 1_764_000_341_000),
        (1_763_913_600_000, 1_764_000_120_000),
    ] {
        let all = prefixes(from, to);
        assert!(all.len() <= 8, "{all:?}");
        for time in [from, (from + to) / 2, to] {
            let key = format!("{}{time:013}-1-000", events::prefix());
            assert_eq!(
                all.iter().filter(|prefix| key.starts_with(*prefix)).count(),
                1,
                "{key} {all:?}"
            );
        }
    }
}

fn write(meta: &Meta, writer: &mut Writer, kind: EventKind, object: &str) {
    writer.add(Draft::new(kind, [object], format!("{object} has something")));
    let call = writer.next().unwrap();
    meta.txn(&call).unwrap();
    writer.written(&call);
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

#[test]
fn what_happened_is_heard_once_and_is_one_incident() {
    let meta = cluster();
    let names = BTreeMap::from([(NodeId(1), "n1".to_owned())]);
    let mut writer = Writer::new(NodeId(1), 1);
    let mut alerts = Alerts::default();
    let listen = |alerts: &mut Alerts, now_ms| {
        let heard = events_since(&meta, alerts, now_ms).unwrap();
        hear(alerts, &heard, &names, now_ms);
        alerts.step(&[], now_ms / 1000);
        heard.len()
    };
    write(&meta, &mut writer, EventKind::StoreFailed, "before");
    listen(&mut alerts, now_ms());
    assert!(alerts.alerts.is_empty(), "what was before the first look is not told");
    write(&meta, &mut writer, EventKind::StoreFailed, "s1");
    write(&meta, &mut writer, EventKind::StoreFailed, "s1");
    write(&meta, &mut writer, EventKind::NodeBack, "n1");
    let now = now_ms();
    // What was before is near enough to be heard now.
    listen(&mut alerts, now);
    let about = |alerts: &Alerts, object: &str| {
        alerts
            .alerts
            .values()
            .find(|alert| alert.condition.object == object)
            .cloned()
    };
    let failed = about(&alerts, "s1").unwrap();
    assert_eq!(
        (failed.state, failed.condition.severity),
        (State::Firing, Severity::Critical)
    );
    assert_eq!(failed.condition.labels["node"], "n1");
    let again = events_since(&meta, &alerts, now).unwrap();
    assert!(
        again.iter().all(|heard| heard.event.kind != "store-failed"),
        "{again:?}"
    );
    write(&meta, &mut writer, EventKind::StoreServes, "s1");
    listen(&mut alerts, now_ms());
    assert!(!alerts.lasting.values().any(|lasting| lasting.condition.object == "s1"));
    assert_eq!(about(&alerts, "s1").unwrap().turn, failed.turn);
}
