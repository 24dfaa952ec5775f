//! `docs/operating/monitoring.md` has every alert: seen by which fault and after how long, or why not. And each that was seen is
//! waited for by a test.

use crate::rules;
use std::collections::BTreeMap;

const PAGE: &str = "docs/operating/monitoring.md";
const SOURCES: [&str; 12] = [
    include_str!("capacity.rs"),
    include_str!("certificates.rs"),
    include_str!("clocks.rs"),
    include_str!("cores.rs"),
    include_str!("damage.rs"),
    include_str!("disks.rs"),
    include_str!("metadata.rs"),
    include_str!("network.rs"),
    include_str!("nodes.rs"),
    include_str!("notifier.rs"),
    include_str!("policies.rs"),
    include_str!("healthy.rs"),
];

/// Rows of the page's tables that begin with an alert: its columns.
fn rows() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(rules::root().join(PAGE)).expect("the page");
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| Amita")) {
        let columns: Vec<String> = line
            .trim_matches('|')
            .split('|')
            .map(|column| column.trim().to_owned())
            .collect();
        let before = rows.insert(columns[0].clone(), columns);
        assert!(before.is_none(), "stands twice: {line}");
    }
    rows
}

#[test]
fn every_alert_was_seen_or_it_is_said_why_not() {
    let rows = rows();
    let alerts = rules::alerts();
    assert!(alerts.len() > 40, "only {} alerts were read", alerts.len());
    for alert in &alerts {
        let row = rows
            .get(alert)
            .unwrap_or_else(|| panic!("{PAGE} does not have {alert}"));
        let is_waited_for = SOURCES.iter().any(|source| source.contains(&format!("\"{alert}\"")));
        match row.as_slice() {
            [_, fault, noticed, fired, ended] => {
                assert!(is_waited_for && !fault.is_empty(), "no test sees {alert}");
                for seconds in [noticed, fired, ended] {
                    assert!(
                        seconds.parse::<u32>().is_ok(),
                        "{alert}: {seconds} is no number of seconds"
                    );
                }
            }
            [_, why] => assert!(why.len() > 20, "{alert}: {why}"),
            other => panic!("{alert}: {other:?}"),
        }
    }
    assert_eq!(rows.len(), alerts.len(), "a row is of no alert");
}
