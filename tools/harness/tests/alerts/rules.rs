//! The rules that ship, with shorter times, so that a test need not wait for hours.
//!
//! `for:` is divided by [`FOR`], and where it is 12 hours and more by [`LONG_FOR`]; it is 3 s at least, one scrape. Windows of
//! expressions (`[5m]`, `offset 1h`) are divided by [`WINDOW`], those of an hour and more by [`LONG_WINDOW`], those of a day and more by
//! [`DAY_WINDOW`]: a scrape is every 3 s instead of 15. Limits, and all else of an expression, are as they ship.

use std::path::{Path, PathBuf};
use std::time::Duration;

const FOR: u64 = 60;
const LONG_FOR: u64 = 3600;
const WINDOW: u64 = 15;
const LONG_WINDOW: u64 = 60;
const DAY_WINDOW: u64 = 1440;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const LEAST_FOR: u64 = 3;

pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

pub fn shipped() -> String {
    std::fs::read_to_string(root().join("monitoring/prometheus/amita.rules.yml")).expect("the rules")
}

/// Names of the alerts, in the order of the file.
pub fn alerts() -> Vec<String> {
    let text = shipped();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    lines.map(str::to_owned).collect()
}

/// Seconds of a duration as Prometheus writes one, of one unit.
fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => HOUR,
        "d" => DAY,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? * unit)
}

fn shorter_for(text: &str) -> String {
    let seconds = seconds(text).unwrap_or_else(|| panic!("no duration: {text}"));
    let factor = if seconds >= 12 * HOUR { LONG_FOR } else { FOR };
    format!("{}s", (seconds / factor).max(LEAST_FOR))
}

fn shorter_window(text: &str) -> String {
    let seconds = seconds(text).unwrap_or_else(|| panic!("no duration: {text}"));
    let factor = match seconds {
        DAY.. => DAY_WINDOW,
        HOUR.. => LONG_WINDOW,
        _ => WINDOW,
    };
    format!("{}s", seconds / factor)
}

/// The duration that a text begins with.
fn leading(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
    &text[..end.unwrap_or(text.len())]
}

/// A line with whatever stands behind `mark` made shorter.
fn with_shorter(line: &str, mark: &str, shorter: impl Fn(&str) -> String) -> String {
    let mut parts = line.split(mark);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let duration = leading(part);
        made.push_str(mark);
        made.push_str(&shorter(duration));
        made.push_str(&part[duration.len()..]);
    }
    made
}

/// The rules with their times made shorter.
pub fn shortened() -> String {
    let mut made = String::new();
    for line in shipped().lines() {
        let is_text = ["summary:", "description:"]
            .iter()
            .any(|name| line.trim_start().starts_with(name));
        let line = match line.trim_start().strip_prefix("for: ") {
            Some(duration) => line.replace(duration, &shorter_for(duration)),
            None if is_text => line.to_owned(),
            None => with_shorter(&with_shorter(line, "[", shorter_window), "offset ", shorter_window),
        };
        made.push_str(&line);
        made.push('\n');
    }
    made
}

/// How long an alert's `for:` is as it ships, and here.
pub fn waits(alert: &str) -> (Duration, Duration) {
    let text = shipped();
    let rule = text.split("- alert: ").find(|rule| rule.lines().next() == Some(alert));
    let rule = rule.unwrap_or_else(|| panic!("there is no alert {alert}"));
    let waits = rule.lines().find_map(|line| line.trim().strip_prefix("for: "));
    let of = |text: &str| Duration::from_secs(seconds(text).unwrap_or_default());
    waits.map_or_else(Default::default, |waits| (of(waits), of(&shorter_for(waits))))
}

#[test]
fn times_are_shorter_and_nothing_else_is_changed() {
    let (before, after) = (shipped(), shortened());
    assert_eq!(before.lines().count(), after.lines().count());
    let digits = |text: &str| -> String { text.chars().filter(|letter| !letter.is_ascii_digit()).collect() };
    let mut changed = 0;
    for (old, new) in before.lines().zip(after.lines()) {
        if old == new {
            continue;
        }
        changed += 1;
        let has_time = old.contains("for: ") || old.contains('[') || old.contains("offset ");
        assert!(has_time, "{old} became {new}");
        // Units become seconds, which letters show.
        let (old, new) = (digits(old), digits(new));
        assert_eq!(old.len(), new.len(), "{old} became {new}");
    }
    assert!(changed > 60, "only {changed} lines were changed");
    let line = "predict_linear(a:b:c[1d], 4 * 86400) > 1 and rate(x[5m]) > avg_over_time(y[10m] offset 1h)";
    let made = with_shorter(&with_shorter(line, "[", shorter_window), "offset ", shorter_window);
    assert_eq!(
        made,
        "predict_linear(a:b:c[60s], 4 * 86400) > 1 and rate(x[20s]) > avg_over_time(y[40s] offset 60s)"
    );
    let of = |alert: &str| waits(alert).1.as_secs();
    assert_eq!(
        (of("AmitaBlocked"), of("AmitaDegraded"), of("AmitaSyncingLong")),
        (3, 30, 12)
    );
    assert_eq!(of("AmitaNodeRestarts"), 0);
}
