//! Which alerts are meant: by channels, and by silences.

use crate::alert::Condition;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest silence, in seconds.
pub const MAX_SILENCE_S: u64 = 90 * 24 * 3600;
/// The most silences at one time.
pub const MAX_SILENCES: usize = 256;
/// The most patterns of one sort, and the longest one, in bytes.
pub const MAX_PATTERNS: usize = 32;
/// The longest pattern, in bytes.
pub const MAX_PATTERN: usize = 200;
/// For so long one that has ended is shown, in seconds.
pub const KEPT_S: u64 = 7 * 24 * 3600;

/// Which alerts are meant: those for which all of this is so. What is empty says nothing.
///
/// In each pattern `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// Their code is one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
    /// They are about one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// They have all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Match {
    /// Is this one meant?
    #[must_use]
    pub fn takes(&self, condition: &Condition) -> bool {
        let any = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| is_like(pattern, text))
        };
        let has = |(label, pattern): (&String, &String)| {
            let value = condition.labels.get(label);
            value.is_some_and(|value| is_like(pattern, value))
        };
        any(&self.codes, &condition.code) && any(&self.objects, &condition.object) && self.labels.iter().all(has)
    }

    /// Does it say nothing?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty() && self.objects.is_empty() && self.labels.is_empty()
    }

    /// What is wrong with it; none: nothing.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let sizes = [self.codes.len(), self.objects.len(), self.labels.len()];
        if sizes.iter().any(|size| *size > MAX_PATTERNS) {
            return Some(format!("of each sort there can be {MAX_PATTERNS} patterns"));
        }
        let labels = self.labels.iter().flat_map(|(label, pattern)| [label, pattern]);
        let mut all = self.codes.iter().chain(&self.objects).chain(labels);
        let bad = all.find(|text| text.is_empty() || text.len() > MAX_PATTERN || text.chars().any(char::is_control))?;
        Some(format!(
            "{bad:?} is no pattern: give 1 to {MAX_PATTERN} characters, with * for any text"
        ))
    }

    /// As people read it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if !self.codes.is_empty() {
            parts.push(format!("code {}", self.codes.join(" or ")));
        }
        if !self.objects.is_empty() {
            parts.push(format!("object {}", self.objects.join(" or ")));
        }
        parts.extend(self.labels.iter().map(|(label, pattern)| format!("{label}={pattern}")));
        if parts.is_empty() {
            return "all".to_owned();
        }
        parts.join(", ")
    }
}

/// Is the text like the pattern, in which `*` is any text? In time that grows with the product of both lengths at most.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Alerts that are not told for a time. It ends by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// What it is called: twelve hexadecimal digits.
    pub id: String,
    /// Which alerts.
    pub matches: Match,
    /// From when on, in seconds since 1970.
    pub from: u64,
    /// Until when, in seconds since 1970.
    pub until: u64,
    /// Who has made it.
    pub by: String,
    /// Why.
    pub why: String,
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
}

impl Silence {
    /// Does it hold at this time?
    #[must_use]
    pub fn holds(&self, now: u64) -> bool {
        (self.from..self.until).contains(&now)
    }

    /// Is this alert silenced by it at this time?
    #[must_use]
    pub fn silences(&self, condition: &Condition, now: u64) -> bool {
        self.holds(now) && self.matches.takes(condition)
    }
}

/// The silence that keeps this alert from being told at this time.
#[must_use]
pub fn silenced_by<'a>(silences: &'a [Silence], condition: &Condition, now: u64) -> Option<&'a Silence> {
    silences.iter().find(|silence| silence.silences(condition, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::Severity;

    fn condition() -> Condition {
        Condition {
            code: "node-down".to_owned(),
            severity: Severity::Warning,
            object: "n1".to_owned(),
            labels: BTreeMap::from([("node".to_owned(), "n1".to_owned())]),
            what: String::new(),
            advice: String::new(),
            at_once: false,
        }
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn a_star_is_any_text() {
        for (pattern, text, is) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("copies-*", "copies-below", true),
            ("*-full", "pool-near-full", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("n1", "n10", false),
            ("ä*", "äö", true),
        ] {
            assert_eq!(is_like(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn all_that_is_said_has_to_be_so() {
        let mut matches = Match::default();
        assert!(matches.takes(&condition()));
        matches.codes = texts(&["pool-*", "node-*"]);
        assert!(matches.takes(&condition()));
        matches.labels.insert("node".to_owned(), "n*".to_owned());
        assert!(matches.takes(&condition()));
        matches.labels.insert("pool".to_owned(), "*".to_owned());
        assert!(!matches.takes(&condition()), "it has no pool");
        assert!(matches.fault().is_none());
        matches.objects = texts(&[""]);
        assert!(matches.fault().is_some());
    }

    #[test]
    fn a_silence_ends_by_itself() {
        let silence = Silence {
            id: "1".to_owned(),
            matches: Match {
                codes: texts(&["node-down"]),
                ..Match::default()
            },
            from: 100,
            until: 200,
            by: "eve".to_owned(),
            why: "work".to_owned(),
            made_at: 50,
        };
        let at = |now| silenced_by(std::slice::from_ref(&silence), &condition(), now).is_some();
        assert_eq!([99, 100, 199, 200].map(at), [false, true, true, false]);
    }
}
