//! What one channel is told, and when: a state machine of its own for each, on a clock that is given.
//!
//! Alerts are told in groups. What is new in a group waits a little for more of it; then one message tells all of it. The message is
//! written down with what it tells ([`Outgoing`]) before it is sent, and what it has told stands in the group's [`Entry`]s once it was taken.
//! So whoever goes on with it, this node or another one, knows what the receiver knows.

use crate::alert::{Alert, Alerts, Severity, State};
use crate::channel::Channel;
use crate::silence::{Silence, silenced_by};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most alerts of which it is known what a channel was told. What finds no room is told when there is some, if it still fires.
pub const MAX_ENTRIES: usize = 1024;

/// What a receiver has been told of an alert, or is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// That it is there.
    Firing,
    /// That it is over.
    Resolved,
}

/// An alert that the channel has been told, or is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which firing of it: an alert that fires anew is told anew.
    pub turn: u64,
    /// Its code: an alert may be forgotten before its end is told.
    pub code: String,
    /// What it is about.
    pub object: String,
    /// What the receiver knows; none: nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Stage>,
    /// As what it knows it: told again when it is worse.
    pub severity: Severity,
}

/// What a message tells of an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The alert.
    pub alert: String,
    /// Which firing of it.
    pub turn: u64,
    /// What is told.
    pub stage: Stage,
    /// As what.
    pub severity: Severity,
}

/// A message that is to be sent, until it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// By this a receiver knows one that it has had.
    pub id: String,
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
    /// Nothing is new: what it says still holds.
    pub repeat: bool,
    /// What it tells.
    pub items: Vec<Item>,
}

/// Alerts that are told together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// By their ids.
    pub entries: BTreeMap<String, Entry>,
    /// Since when something waits to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waits_since: Option<u64>,
    /// When something was told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<u64>,
    /// What is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgoing: Option<Outgoing>,
}

/// What a channel was told, and how that went: a record of the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The groups by name.
    #[serde(default)]
    pub groups: BTreeMap<String, Group>,
    /// Messages that were taken.
    #[serde(default)]
    pub delivered: u64,
    /// When the last one was, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<u64>,
    /// Attempts that have failed since.
    #[serde(default)]
    pub failures: u64,
    /// Why the last one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<u64>,
}

/// What goes on around a channel.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The channel.
    pub channel: &'a Channel,
    /// The alerts.
    pub alerts: &'a Alerts,
    /// What is not to be told.
    pub silences: &'a [Silence],
    /// In seconds since 1970.
    pub now: u64,
}

impl Around<'_> {
    fn is_silenced(&self, alert: &Alert) -> bool {
        silenced_by(self.silences, &alert.condition, self.now).is_some()
    }

    /// The alert of an entry, where it is still the same.
    fn fires(&self, id: &str) -> Option<&Alert> {
        let alert = self.alerts.alerts.get(id)?;
        (alert.state == State::Firing).then_some(alert)
    }
}

impl Delivery {
    /// Goes on: takes up what fires, and makes messages of what is due. `new_id` gives each its id. Has anything changed?
    pub fn step(&mut self, around: Around<'_>, mut new_id: impl FnMut() -> String) -> bool {
        let mut changed = self.take_up(around);
        for group in self.groups.values_mut() {
            changed |= group.step(around, &mut new_id);
        }
        let known = self.groups.len();
        self.groups
            .retain(|_, group| !group.entries.is_empty() || group.outgoing.is_some());
        changed || self.groups.len() != known
    }

    /// Makes entries of what fires, and is wanted.
    fn take_up(&mut self, around: Around<'_>) -> bool {
        let mut changed = false;
        let mut entries: usize = self.groups.values().map(|group| group.entries.len()).sum();
        let wanted = around
            .alerts
            .firing()
            .filter(|alert| around.channel.wants(&alert.condition));
        for alert in wanted.filter(|alert| !around.is_silenced(alert)) {
            // Its labels may change while it fires: it stays where it was told.
            let known = self
                .groups
                .values_mut()
                .find_map(|group| group.entries.get_mut(&alert.id));
            match known {
                Some(entry) if entry.turn != alert.turn => {
                    // Of an end that was not told nobody needs to hear when it is there again.
                    entry.turn = alert.turn;
                    changed = true;
                }
                Some(_) => {}
                None if entries >= MAX_ENTRIES => {}
                None => {
                    entries += 1;
                    let group = around.channel.group_by.group(&alert.condition);
                    self.groups.entry(group).or_default().take(alert, around.now);
                    changed = true;
                }
            }
        }
        changed
    }

    /// The next message to send: the one that waits longest.
    #[must_use]
    pub fn next(&self) -> Option<(&str, &Outgoing)> {
        let waiting = self
            .groups
            .iter()
            .filter_map(|(name, group)| Some((name.as_str(), group.outgoing.as_ref()?)));
        waiting.min_by_key(|(_, outgoing)| outgoing.made_at)
    }

    /// A message was taken.
    pub fn delivered(&mut self, group: &str, id: &str, now: u64) {
        (self.delivered, self.delivered_at) = (self.delivered + 1, Some(now));
        (self.failures, self.why, self.failed_at) = (0, None, None);
        if let Some(group) = self.groups.get_mut(group) {
            group.delivered(id, now);
        }
    }

    /// An attempt has failed; the message stays.
    pub fn failed(&mut self, why: &str, now: u64) {
        self.failures += 1;
        (self.why, self.failed_at) = (Some(crate::clip(why, 300)), Some(now));
    }
}

impl Group {
    fn take(&mut self, alert: &Alert, now: u64) {
        self.waits_since.get_or_insert(now);
        let entry = Entry {
            turn: alert.turn,
            code: alert.condition.code.clone(),
            object: alert.condition.object.clone(),
            told: None,
            severity: alert.condition.severity,
        };
        self.entries.insert(alert.id.clone(), entry);
    }

    /// What is to be told of an entry now; none: nothing.
    fn due(id: &str, entry: &Entry, around: Around<'_>) -> Option<Item> {
        let item = |stage, severity| {
            Some(Item {
                alert: id.to_owned(),
                turn: entry.turn,
                stage,
                severity,
            })
        };
        let Some(alert) = around.fires(id) else {
            // What was never told is told with its end.
            let tells = around.channel.resolved || entry.told.is_none();
            return if tells {
                item(Stage::Resolved, entry.severity)
            } else {
                None
            };
        };
        let severity = alert.condition.severity;
        let is_news = match entry.told {
            None => true,
            Some(_) => severity > entry.severity,
        };
        if is_news && !around.is_silenced(alert) {
            return item(Stage::Firing, severity);
        }
        None
    }

    fn step(&mut self, around: Around<'_>, new_id: &mut impl FnMut() -> String) -> bool {
        if self.outgoing.is_some() {
            return false;
        }
        let known = self.entries.len();
        self.entries.retain(|id, entry| match around.fires(id) {
            // Nobody was told yet, and nobody is to be.
            Some(alert) => entry.told.is_some() || !around.is_silenced(alert),
            None => around.channel.resolved || entry.told.is_none(),
        });
        let mut changed = self.entries.len() != known;
        let items: Vec<Item> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| Group::due(id, entry, around))
            .collect();
        if items.is_empty() {
            changed |= self.waits_since.take().is_some();
            return self.repeat(around, new_id) || changed;
        }
        if self.waits_since.is_none() {
            self.waits_since = Some(around.now);
            changed = true;
        }
        let since = self
            .waits_since
            .unwrap_or(around.now)
            .max(self.told_at.unwrap_or_default());
        if around.now.saturating_sub(since) < around.channel.wait_s && since <= around.now {
            return changed;
        }
        self.send(items, false, around.now, new_id);
        true
    }

    /// Tells what still fires once more, where that is due: all but what somebody looks after.
    fn repeat(&mut self, around: Around<'_>, new_id: &mut impl FnMut() -> String) -> bool {
        let told_at = self.told_at.unwrap_or(around.now);
        if around.now.saturating_sub(told_at) < around.channel.repeat_s {
            return false;
        }
        let still = self.entries.iter().filter_map(|(id, entry)| {
            let alert = around.fires(id)?;
            let is_told =
                entry.told == Some(Stage::Firing) && alert.acknowledged.is_none() && !around.is_silenced(alert);
            is_told.then(|| Item {
                alert: id.clone(),
                turn: entry.turn,
                stage: Stage::Firing,
                severity: entry.severity,
            })
        });
        let items: Vec<Item> = still.collect();
        if items.is_empty() {
            return false;
        }
        self.send(items, true, around.now, new_id);
        true
    }

    fn send(&mut self, items: Vec<Item>, repeat: bool, now: u64, new_id: &mut impl FnMut() -> String) {
        self.waits_since = None;
        self.outgoing = Some(Outgoing {
            id: new_id(),
            made_at: now,
            repeat,
            items,
        });
    }

    fn delivered(&mut self, id: &str, now: u64) {
        let Some(outgoing) = self.outgoing.take_if(|outgoing| outgoing.id == id) else {
            return;
        };
        self.told_at = Some(now);
        for item in outgoing.items {
            let Some(entry) = self.entries.get_mut(&item.alert) else {
                continue;
            };
            match item.stage {
                Stage::Firing => (entry.told, entry.severity) = (Some(Stage::Firing), item.severity),
                // It fires anew, of which nobody was told.
                Stage::Resolved if entry.turn != item.turn => entry.told = None,
                Stage::Resolved => drop(self.entries.remove(&item.alert)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
