//! Messages: what a receiver reads.

use crate::alert::{Alert, Alerts, Severity};
use crate::channel::GroupBy;
use crate::condition::runbook;
use crate::delivery::{Delivery, Outgoing, Stage};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The most alerts that one message tells one by one; of the others the number is told.
pub const MOST_TOLD: usize = 20;

/// What a message tells of one alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Its id: `amita alert show ID`.
    pub id: String,
    /// `firing`, or `resolved`.
    pub state: Stage,
    /// Which fact or event it is.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about.
    pub object: String,
    /// What that is, and where.
    pub labels: BTreeMap<String, String>,
    /// Since when, in seconds since 1970; none: it is not known any more.
    pub since: Option<u64>,
    /// When it was over, in seconds since 1970.
    pub resolved_at: Option<u64>,
    /// What is wrong, in the words of `amita status`.
    pub what: String,
    /// What follows from it.
    pub impact: String,
    /// What to do.
    pub advice: String,
    /// The page that says more, in `docs/operating/runbooks`.
    pub runbook: Option<String>,
    /// Who looks after it.
    pub acknowledged_by: Option<String>,
}

/// How many alerts of the group are told, and how many fire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// That this message tells as firing.
    pub firing: usize,
    /// That it tells as resolved.
    pub resolved: usize,
    /// Of both, those that are not told one by one.
    pub left_out: usize,
    /// All of the group that the receiver knows as firing after this message.
    pub firing_in_group: usize,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The version of this form.
    pub version: u32,
    /// The same for each attempt at one message.
    pub id: String,
    /// `alerts`, `repeat` (nothing is new) or `test`.
    pub kind: &'static str,
    /// The cluster's UUID.
    pub cluster: String,
    /// The channel's name.
    pub channel: String,
    /// By what alerts are grouped, and which group this is.
    pub group_by: GroupBy,
    /// Which group.
    pub group: String,
    /// The worst of what fires in it; `info` where nothing does.
    pub severity: Severity,
    /// The message in a sentence.
    pub summary: String,
    /// Counts.
    pub counts: Counts,
    /// The first of the alerts, the worst first.
    pub alerts: Vec<Told>,
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
}

/// Whose message it is.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    /// The cluster's UUID.
    pub cluster: &'a str,
    /// The channel's name.
    pub channel: &'a str,
    /// By what it groups.
    pub group_by: GroupBy,
}

/// Makes the message of what is to be sent.
#[must_use]
pub fn compose(from: From<'_>, group: &str, outgoing: &Outgoing, delivery: &Delivery, alerts: &Alerts) -> Message {
    let entries = delivery.groups.get(group).map(|group| &group.entries);
    let mut all: Vec<Told> = outgoing
        .items
        .iter()
        .map(|item| {
            let entry = entries.and_then(|entries| entries.get(&item.alert));
            let alert = alerts.alerts.get(&item.alert);
            let (code, object) = entry.map_or((String::new(), String::new()), |entry| {
                (entry.code.clone(), entry.object.clone())
            });
            told(item.stage, item.severity, &item.alert, (code, object), alert)
        })
        .collect();
    all.sort_by_key(|told| {
        (
            told.state == Stage::Resolved,
            std::cmp::Reverse(told.severity),
            told.object.clone(),
        )
    });
    let count = |stage| all.iter().filter(|told| told.state == stage).count();
    let (firing, resolved) = (count(Stage::Firing), count(Stage::Resolved));
    let is_told = |id: &String| {
        outgoing
            .items
            .iter()
            .find(|item| item.alert == *id)
            .map(|item| item.stage)
    };
    let known = entries.into_iter().flatten();
    let firing_in_group = known
        .filter(|(id, entry)| is_told(id).or(entry.told) == Some(Stage::Firing))
        .count();
    let severity = all
        .iter()
        .filter(|told| told.state == Stage::Firing)
        .map(|told| told.severity)
        .max();
    let summary = summary(&all, firing, resolved, outgoing.repeat);
    let left_out = all.len().saturating_sub(MOST_TOLD);
    all.truncate(MOST_TOLD);
    Message {
        version: 1,
        id: outgoing.id.clone(),
        kind: if outgoing.repeat { "repeat" } else { "alerts" },
        cluster: from.cluster.to_owned(),
        channel: from.channel.to_owned(),
        group_by: from.group_by,
        group: group.to_owned(),
        severity: severity.unwrap_or(Severity::Info),
        summary,
        counts: Counts {
            firing,
            resolved,
            left_out,
            firing_in_group,
        },
        alerts: all,
        made_at: outgoing.made_at,
    }
}

/// A message that says that messages arrive.
#[must_use]
pub fn test(from: From<'_>, id: &str, by: &str, now: u64) -> Message {
    Message {
        version: 1,
        id: id.to_owned(),
        kind: "test",
        cluster: from.cluster.to_owned(),
        channel: from.channel.to_owned(),
        group_by: from.group_by,
        group: "test".to_owned(),
        severity: Severity::Info,
        summary: format!("A test by {by}: alerts of this cluster arrive here."),
        counts: Counts::default(),
        alerts: Vec::new(),
        made_at: now,
    }
}

fn told(stage: Stage, severity: Severity, id: &str, (code, object): (String, String), alert: Option<&Alert>) -> Told {
    let Some(alert) = alert else {
        return Told {
            id: id.to_owned(),
            state: stage,
            runbook: runbook(&code).map(str::to_owned),
            what: format!("{code} of {object} is over; more is not known any more."),
            code,
            severity,
            object,
            labels: BTreeMap::new(),
            since: None,
            resolved_at: None,
            impact: severity.impact().to_owned(),
            advice: String::new(),
            acknowledged_by: None,
        };
    };
    let condition = &alert.condition;
    Told {
        id: id.to_owned(),
        state: stage,
        code: condition.code.clone(),
        severity,
        object: condition.object.clone(),
        labels: condition.labels.clone(),
        since: Some(alert.since),
        resolved_at: alert.resolved_at.filter(|_| stage == Stage::Resolved),
        what: condition.what.clone(),
        impact: severity.impact().to_owned(),
        advice: condition.advice.clone(),
        runbook: runbook(&condition.code).map(str::to_owned),
        acknowledged_by: alert.acknowledged.as_ref().map(|known| known.by.clone()),
    }
}

fn summary(all: &[Told], firing: usize, resolved: usize, repeat: bool) -> String {
    let still = if repeat { "Still: " } else { "" };
    match all {
        [] => "Nothing.".to_owned(),
        [only] if only.state == Stage::Firing => format!("{still}{}", only.what),
        [only] => format!("Over: {}", only.what),
        _ => {
            let mut parts = Vec::new();
            if firing > 0 {
                parts.push(format!("{firing} alerts fire"));
            }
            if resolved > 0 {
                parts.push(format!("{resolved} are over"));
            }
            format!("{still}{}: {}", parts.join(", "), all[0].what)
        }
    }
}

impl Message {
    /// A short line: a mail's subject.
    #[must_use]
    pub fn subject(&self) -> String {
        let mark = match (self.kind, self.counts.firing) {
            ("test", _) => "test".to_owned(),
            (_, 0) => "resolved".to_owned(),
            (_, count) => format!("{} x{count}", self.severity),
        };
        let line: String = self
            .summary
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        crate::clip(&format!("[amita {mark}] {line}"), 160)
    }

    /// All of it, for people to read.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.summary);
        for told in &self.alerts {
            let state = match told.state {
                Stage::Firing => "FIRING",
                Stage::Resolved => "RESOLVED",
            };
            let _ = write!(
                text,
                "\n{state} {} {} ({}), alert {}\n  {}\n",
                told.severity, told.code, told.object, told.id, told.what
            );
            if told.state == Stage::Firing {
                let _ = write!(text, "  Impact: {}\n  What to do: {}\n", told.impact, told.advice);
                if let Some(page) = &told.runbook {
                    let _ = writeln!(text, "  Runbook: docs/operating/runbooks/{page}.md");
                }
            }
        }
        if self.counts.left_out > 0 {
            let _ = write!(
                text,
                "\nAnd {} more: `amita alert list` shows all.\n",
                self.counts.left_out
            );
        }
        let _ = write!(
            text,
            "\nCluster {}, channel {}, message {}. `amita alert ack ID` stops repetitions, `amita alert silence add` silences.\n",
            self.cluster, self.channel, self.id
        );
        // Nothing in it moves a terminal's cursor, or begins a line of its own.
        text.chars()
            .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
            .collect()
    }
}
