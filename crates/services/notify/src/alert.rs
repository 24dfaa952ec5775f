//! The alerts of a cluster: what is wrong, since when, and whether somebody looks after it.
//!
//! A condition that is seen makes an alert *pending*. One that is still there after its hold time *fires*: of a moment's trouble
//! nobody is told. One that is gone is *resolved* after it has stayed away for a time, which doubles each time it comes back: what
//! comes and goes is one incident. All of this is [`Alerts::step`], which knows no clock but the one that it is given.

use crate::clip;
use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The most alerts that are known at one time.
pub const MAX_ALERTS: usize = 512;
/// What is seen for so long fires, in seconds: by severity.
const HOLD_S: [u64; 3] = [60, 30, 15];
/// What is away for so long is over, in seconds; for each time that it came back, twice as long,
pub const SETTLE_S: u64 = 30;
/// and no longer than this.
const LONGEST_SETTLE_S: u64 = 900;
/// What comes back within this, in seconds, is the same incident.
pub const REOPEN_S: u64 = 600;
/// For so long what is resolved is shown, in seconds.
pub const KEPT_S: u64 = 24 * 3600;
/// The longest texts, in bytes: what is wrong, and what to do.
const MAX_WHAT: usize = 320;
const MAX_ADVICE: usize = 240;
/// The longest name of what it is about, and of a label's value, in bytes.
const MAX_OBJECT: usize = 160;

/// How much an alert matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is wrong; it is good to know.
    Info,
    /// Not as it should be; I/O goes on.
    Warning,
    /// I/O of some hosts waits or fails, or is about to.
    Critical,
}

impl Severity {
    /// All of them.
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }

    /// What follows for those who use the cluster, in a sentence.
    #[must_use]
    pub fn impact(self) -> &'static str {
        match self {
            Severity::Info => "None.",
            Severity::Warning => "I/O goes on; something is not as it should be.",
            Severity::Critical => "I/O of some hosts waits or fails, or a person must look before it does.",
        }
    }

    /// For so long it has to be seen before it is told, in seconds.
    #[must_use]
    pub fn hold_s(self) -> u64 {
        HOLD_S[self as usize]
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Severity, String> {
        let found = Severity::ALL.into_iter().find(|severity| severity.text() == text);
        found.ok_or_else(|| format!("{text:?} is no severity: give info, warning or critical"))
    }
}

/// Something that is wrong now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Which fact or event it is: `amita explain CODE` says more.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about.
    pub object: String,
    /// What that is, and where: `node`, `pool`, `store`, `volume`, ...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What is wrong, in a sentence.
    pub what: String,
    /// What to do, in a sentence.
    pub advice: String,
    /// It fires at once: it has happened, and does not go away by being waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
}

impl Condition {
    /// Which alert it makes: the same for the same code and object.
    #[must_use]
    pub fn id(&self) -> String {
        let hash = digest(&SHA256, format!("{}\0{}", self.code, self.object).as_bytes());
        hash.as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn hold_s(&self) -> u64 {
        if self.at_once { 0 } else { self.severity.hold_s() }
    }

    /// The same with texts that are of one line, and not too long to be kept.
    #[must_use]
    pub fn bounded(mut self) -> Condition {
        self.object = one_line(&self.object, MAX_OBJECT);
        self.what = one_line(&self.what, MAX_WHAT);
        self.advice = one_line(&self.advice, MAX_ADVICE);
        for value in self.labels.values_mut() {
            *value = one_line(value, MAX_OBJECT);
        }
        self
    }
}

fn one_line(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clip(&line, most)
}

/// Where an alert stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was there for too short a time to be told.
    Pending,
    /// It is there.
    Firing,
    /// It is over.
    Resolved,
}

impl State {
    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Firing => "firing",
            State::Resolved => "resolved",
        }
    }
}

/// Somebody looks after an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// Who.
    pub by: String,
    /// Since when, in seconds since 1970.
    pub at: u64,
    /// As what they have seen it: it is told again when it is worse.
    pub severity: Severity,
    /// What they say to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What is wrong, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// What it is called: twelve hexadecimal digits.
    pub id: String,
    /// What is wrong.
    #[serde(flatten)]
    pub condition: Condition,
    /// Where it stands.
    pub state: State,
    /// When the incident began, in seconds since 1970.
    pub since: u64,
    /// When it was seen first since it was away last.
    seen_since: u64,
    /// Since when it is not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone_since: Option<u64>,
    /// When it fired last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_at: Option<u64>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<u64>,
    /// It grows each time that it fires; zero: it never did.
    pub turn: u64,
    /// How often it has gone and come back in this incident.
    pub came_back: u32,
    /// Who looks after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

impl Alert {
    fn new(id: String, condition: Condition, now: u64) -> Alert {
        Alert {
            id,
            condition,
            state: State::Pending,
            since: now,
            seen_since: now,
            gone_since: None,
            fired_at: None,
            resolved_at: None,
            turn: 0,
            came_back: 0,
            acknowledged: None,
        }
    }

    /// For how long it has to be away until it is over, in seconds.
    fn settle_s(&self) -> u64 {
        let doubled = SETTLE_S.checked_shl(self.came_back.min(10)).unwrap_or(LONGEST_SETTLE_S);
        doubled.min(LONGEST_SETTLE_S)
    }

    /// It is seen; has it changed in more than words?
    fn see(&mut self, condition: &Condition, now: u64, turns: &mut u64) -> bool {
        let mut changed = self.condition.severity != condition.severity;
        self.condition = condition.clone();
        if self.gone_since.take().is_some() {
            self.came_back = self.came_back.saturating_add(1);
            changed = true;
        }
        if self.state == State::Resolved {
            let is_same = now.saturating_sub(self.resolved_at.unwrap_or_default()) < REOPEN_S;
            if !is_same {
                (self.since, self.came_back) = (now, 0);
            }
            (self.state, self.seen_since) = (State::Pending, now);
            changed = true;
        }
        if self.state == State::Pending && now.saturating_sub(self.seen_since) >= condition.hold_s() {
            *turns += 1;
            (self.state, self.turn) = (State::Firing, *turns);
            (self.fired_at, self.resolved_at) = (Some(now), None);
            changed = true;
        }
        let is_worse = |known: &Acknowledgement| condition.severity > known.severity;
        if self.acknowledged.as_ref().is_some_and(is_worse) {
            self.acknowledged = None;
            changed = true;
        }
        changed
    }

    /// It is not seen: what becomes of it.
    fn miss(&mut self, now: u64) -> Missed {
        if self.state == State::Resolved {
            let resolved = self.resolved_at.unwrap_or_default();
            return if now.saturating_sub(resolved) >= KEPT_S {
                Missed::Forget
            } else {
                Missed::Same
            };
        }
        let is_new = self.gone_since.is_none();
        let gone_since = *self.gone_since.get_or_insert(now);
        let is_over = now.saturating_sub(gone_since) >= self.settle_s();
        match (self.state, is_over) {
            (_, false) if is_new => Missed::Changed,
            (_, false) => Missed::Same,
            (State::Pending, true) if self.turn == 0 => Missed::Forget,
            (_, true) => {
                self.state = State::Resolved;
                self.resolved_at.get_or_insert(now);
                (self.gone_since, self.acknowledged) = (None, None);
                Missed::Changed
            }
        }
    }
}

/// What becomes of an alert whose condition is not seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missed {
    Same,
    Changed,
    Forget,
}

/// What has happened, and counts as being so for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lasting {
    /// What.
    pub condition: Condition,
    /// Until when, in seconds since 1970.
    pub until: u64,
}

/// All alerts, and what is needed to go on with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alerts {
    /// By their ids.
    pub alerts: BTreeMap<String, Alert>,
    /// How often an alert has fired.
    turns: u64,
    /// What was heard, and counts for a time; by the ids of its alerts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lasting: BTreeMap<String, Lasting>,
    /// Events are heard up to this time, in milliseconds since 1970.
    #[serde(default)]
    pub heard_until_ms: u64,
    /// Events that were heard, of the last minutes: their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<String>,
    /// So many conditions have found no room.
    #[serde(default)]
    pub left_out: u64,
}

impl Alerts {
    /// Goes on by what is seen now; `now` is in seconds since 1970. Has anything changed but words?
    pub fn step(&mut self, seen: &[Condition], now: u64) -> bool {
        let before = (self.lasting.len(), self.left_out);
        self.lasting.retain(|_, lasting| lasting.until > now);
        let lasting = self.lasting.values().map(|lasting| &lasting.condition);
        let present = by_id(seen.iter().chain(lasting));
        let mut changed = false;
        self.left_out = 0;
        for (id, condition) in &present {
            if let Some(alert) = self.alerts.get_mut(id) {
                changed |= alert.see(condition, now, &mut self.turns);
            } else if self.make_room() {
                let mut alert = Alert::new(id.clone(), condition.clone(), now);
                alert.see(condition, now, &mut self.turns);
                self.alerts.insert(id.clone(), alert);
                changed = true;
            } else {
                self.left_out += 1;
            }
        }
        self.alerts.retain(|id, alert| {
            let missed = if present.contains_key(id) {
                Missed::Same
            } else {
                alert.miss(now)
            };
            changed |= missed != Missed::Same;
            missed != Missed::Forget
        });
        changed || before != (self.lasting.len(), self.left_out)
    }

    /// Is there room for one more? What is over longest goes first.
    fn make_room(&mut self) -> bool {
        if self.alerts.len() < MAX_ALERTS {
            return true;
        }
        let over = self.alerts.values().filter(|alert| alert.state == State::Resolved);
        let oldest = over.min_by_key(|alert| alert.resolved_at).map(|alert| alert.id.clone());
        oldest.is_some_and(|id| self.alerts.remove(&id).is_some())
    }

    /// Those that fire.
    pub fn firing(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.values().filter(|alert| alert.state == State::Firing)
    }
}

/// One condition for each alert: of several the worst one.
fn by_id<'a>(conditions: impl Iterator<Item = &'a Condition>) -> BTreeMap<String, Condition> {
    let mut all: BTreeMap<String, Condition> = BTreeMap::new();
    for condition in conditions {
        let known = all.entry(condition.id()).or_insert_with(|| condition.clone());
        if condition.severity > known.severity {
            *known = condition.clone();
        }
    }
    all
}

#[cfg(test)]
mod tests;
