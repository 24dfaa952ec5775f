//! Messages by the grammar of RFC 5424.

use super::*;
use crate::channel::GroupBy;
use crate::message::{Counts, Told};
use std::collections::BTreeMap;

fn message() -> Message {
    let told = Told {
        id: "3f0c9a4be1d2".to_owned(),
        state: Stage::Firing,
        code: "node-down".to_owned(),
        severity: Severity::Critical,
        object: "n\"1]\\".to_owned(),
        labels: BTreeMap::new(),
        since: Some(1),
        resolved_at: None,
        what: "Node n1 is\ndown.".to_owned(),
        impact: String::new(),
        advice: "Start it.".to_owned(),
        runbook: None,
        acknowledged_by: None,
    };
    Message {
        version: 1,
        id: "m1".to_owned(),
        kind: "alerts",
        cluster: "c1".to_owned(),
        channel: "log".to_owned(),
        group_by: GroupBy::Code,
        group: "node-down".to_owned(),
        severity: Severity::Critical,
        summary: "Node n1 is down.".to_owned(),
        counts: Counts::default(),
        alerts: vec![told],
        made_at: 1,
    }
}

#[test]
fn times_are_those_of_the_calendar() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_827_696, "2000-02-29T12:34:56Z"),
        (1_709_251_199, "2024-02-29T23:59:59Z"),
        (1_735_689_600, "2025-01-01T00:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(timestamp(seconds), text);
    }
}

#[test]
fn a_line_has_its_parts_and_is_one_line() {
    let line = line(&message(), Some(0), "n2", 1_735_689_600);
    let (head, text) = line.split_once("] \u{feff}").unwrap();
    let parts: Vec<&str> = head.splitn(7, ' ').collect();
    let process = std::process::id().to_string();
    assert_eq!(
        parts[..6],
        [
            "<26>1",
            "2025-01-01T00:00:00Z",
            "n2",
            "amita",
            process.as_str(),
            "node-down"
        ]
    );
    assert!(
        parts[6].starts_with("[alert@64512 message=\"m1\" cluster=\"c1\""),
        "{}",
        parts[6]
    );
    assert!(parts[6].ends_with(r#"object="n\"1\]\\""#), "{}", parts[6]);
    assert_eq!(text, "Node n1 is down. Start it.");
    assert!(!line.contains('\n'));
}

#[test]
fn what_is_over_is_a_notice_and_a_digest_says_how_many() {
    let mut message = message();
    message.alerts[0].state = Stage::Resolved;
    assert!(line(&message, Some(0), "n2", 0).starts_with("<29>1 "));
    assert!(local(&message, Some(0)).starts_with("<29>amita["));
    message.counts.left_out = 5;
    let lines = all(&message, 100, |at| line(&message, at, "n2", 0));
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("<30>1 ") && lines.iter().all(|line| line.len() <= 100));
}
