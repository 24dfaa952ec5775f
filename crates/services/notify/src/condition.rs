//! What is wrong: the facts of `amita status`, and of the log of events what no fact tells.
//!
//! Nothing is judged here: [`amita_control::health`] does that, and an alert has its words.

use crate::alert::{Alerts, Condition, Lasting, Severity};
use amita_control::admin::Status;
use amita_control::events::{self, Event};
use amita_control::health;
use amita_control::{events::Kind as EventKind, health::Fact};
use amita_metadata::{Call, Error, MAX_OPS, Op, Transact};
use amita_types::NodeId;
use std::collections::BTreeMap;

/// What has happened counts as being so for this long, in seconds, where nothing says that it is over.
const LASTS_S: u64 = 3600;
/// Events may be written so much later than they happened, in milliseconds.
const LATE_MS: u64 = 120_000;
/// Events of so long ago, in milliseconds, are caught up with where no node has looked meanwhile.
const LONGEST_GAP_MS: u64 = 24 * 3600 * 1000;
/// The most that has happened and counts at one time.
const MAX_LASTING: usize = 64;
/// The most events that are remembered as heard.
const MAX_HEARD: usize = 512;

/// Events that no fact tells, and what says that they are over.
const TOLD: &[(EventKind, Option<EventKind>)] = &[
    (EventKind::ScrubFound, None),
    (EventKind::StoreFailed, Some(EventKind::StoreServes)),
    (EventKind::StoreTaken, Some(EventKind::StoreServes)),
    (EventKind::AuditBroken, None),
    (EventKind::MetadataAway, Some(EventKind::MetadataBack)),
    (EventKind::PolicyMissed, None),
];

/// Pages of `docs/operating/runbooks` by codes.
const RUNBOOKS: &[(&str, &str)] = &[
    ("metadata-older", "AmitaMetadataOlder"),
    ("copies-below", "AmitaCopiesBelow"),
    ("copies-waiting", "AmitaCopiesWaiting"),
    ("opening-fails", "AmitaVolumeErrors"),
    ("volume-locked", "AmitaVolumeErrors"),
    ("writes-fail", "AmitaVolumeErrors"),
    ("reads-fail", "AmitaVolumeErrors"),
    ("pool-full", "AmitaPoolFull"),
    ("pool-near-full", "AmitaPoolNearFull"),
    ("pool-fills", "AmitaPoolFills"),
    ("copies-at-least", "AmitaCopiesAtLeast"),
    ("copies-missing", "AmitaCopiesMissing"),
    ("copies-syncing", "AmitaSyncingLong"),
    ("node-down", "AmitaNodeDown"),
    ("node-maintained", "AmitaMaintenanceForgotten"),
    ("node-unprotected", "AmitaFabricUnproven"),
    ("store-away", "AmitaStoreAway"),
    ("store-slow", "AmitaStoreSlow"),
    ("network-sick", "AmitaNetworkSick"),
    ("disk-failing", "AmitaDiskFailing"),
    ("disk-aging", "AmitaDiskAging"),
    ("rule-unmet", "AmitaRuleUnmet"),
    ("record-unreadable", "AmitaRecordUnreadable"),
    ("policy-fails", "AmitaPolicyFailing"),
    ("policy-late", "AmitaPolicyLate"),
    ("policy-missed", "AmitaPolicyLate"),
    ("backup-failing", "AmitaBackupFailing"),
    ("backup-late", "AmitaBackupLate"),
    ("backup-damaged", "AmitaBackupDamaged"),
    ("backup-unverified", "AmitaBackupUnverified"),
    ("backup-task-failed", "AmitaBackupTaskFailed"),
    ("backup-task-late", "AmitaBackupTaskLate"),
    ("mirror-late", "AmitaMirrorLate"),
    ("mirror-stalled", "AmitaMirrorStalled"),
    ("mirror-unheard", "AmitaMirrorUnheard"),
    ("mirror-split", "AmitaMirrorSplit"),
    ("mirror-deposed", "AmitaMirrorDeposed"),
    ("channel-fails", "AmitaChannelFailing"),
    ("subsystem-unserved", "AmitaSubsystemUnserved"),
    ("target-unserved", "AmitaTargetUnserved"),
    ("scrub-found", "AmitaCopiesDamaged"),
    ("store-failed", "AmitaStoreNotServing"),
    ("metadata-away", "AmitaMetadataUnreachable"),
];

/// The name of the page that says what to do (`docs/operating/runbooks/NAME.md`); none: `amita explain CODE` says it.
#[must_use]
pub fn runbook(code: &str) -> Option<&'static str> {
    let found = RUNBOOKS.iter().find(|(known, _)| *known == code);
    found.map(|(_, page)| *page)
}

fn severity(severity: events::Severity) -> Severity {
    match severity {
        events::Severity::Info => Severity::Info,
        events::Severity::Warning => Severity::Warning,
        events::Severity::Error => Severity::Critical,
    }
}

/// What is wrong by the state of the cluster.
#[must_use]
pub fn of_status(status: &Status) -> Vec<Condition> {
    status.facts.iter().map(|fact| of_fact(fact, status)).collect()
}

fn of_fact(fact: &Fact, status: &Status) -> Condition {
    let (object, labels) = about(fact, status);
    let advice = match fact.advice.as_str() {
        "" => health::Kind::named(fact.name).map_or("", health::Kind::advice),
        advice => advice,
    };
    Condition {
        code: fact.name.to_owned(),
        severity: severity(fact.severity),
        object,
        labels,
        what: fact.text.clone(),
        advice: advice.to_owned(),
        at_once: false,
    }
    .bounded()
}

type About = (String, BTreeMap<String, String>);

/// What a fact is about. Its list of objects may grow and shrink while it is one thing that is wrong.
fn about(fact: &Fact, status: &Status) -> About {
    let mut labels = BTreeMap::new();
    let mut label = |name: &str, value: &str| drop(labels.insert(name.to_owned(), value.to_owned()));
    let first = fact.objects.first().map_or("cluster", String::as_str);
    let second = fact.objects.get(1).map(String::as_str);
    let store_node = |store: &str| {
        let found = status.stores.iter().find(|found| found.store.id.to_string() == store);
        found.map(|found| found.node_name.as_str())
    };
    let mut object = first.to_owned();
    match fact.name {
        "metadata-older" | "node-unprotected" => "cluster".clone_into(&mut object),
        "opening-fails" | "volume-locked" | "writes-fail" | "reads-fail" => {
            label("volume", first);
            let found = status.volumes.iter().find(|found| found.volume.name == first);
            if let Some(found) = found {
                label("pool", &found.volume.pool);
            }
            if let Some(node) = second {
                label("node", node);
                object = format!("{first} at {node}");
            }
        }
        "pool-missing" => {
            label("volume", first);
            second.into_iter().for_each(|pool| label("pool", pool));
        }
        "shrink-unfinished" => label("volume", first),
        // Both ends of a link together are what is sick.
        "network-sick" if !fact.objects.is_empty() => object = fact.objects.join(" - "),
        "node-down" | "node-maintained" => label("node", first),
        "store-away" | "store-slow" | "store-draining" | "disk-failing" | "disk-aging" => {
            label("store", first);
            second
                .or(store_node(first))
                .into_iter()
                .for_each(|node| label("node", node));
        }
        "policy-fails" | "policy-late" | "backup-failing" | "backup-late" => label("policy", first),
        "backup-damaged" | "backup-unverified" => {
            label("policy", first);
            second
                .into_iter()
                .for_each(|repository| label("repository", repository));
        }
        // Of all tasks of a repository together: which one is late longest changes, and it stays the same alert.
        "backup-task-late" => label("repository", first),
        "backup-task-failed" => {
            label("task", first);
            second
                .into_iter()
                .for_each(|repository| label("repository", repository));
        }
        name if name.starts_with("mirror-") => label("mirror", first),
        "channel-fails" => label("channel", first),
        "job-paused" | "job-overdue" => label("job", first),
        "subsystem-unserved" => label("subsystem", first),
        "target-unserved" => label("target", first),
        name if name.starts_with("copies-") || name.starts_with("pool-") || name == "rule-unmet" => {
            label("pool", first);
        }
        _ => {}
    }
    (object, labels)
}

/// An event, and the key by which it is told from others.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The key of its record.
    pub key: String,
    /// What happened.
    pub event: Event,
}

/// The prefixes under which events of that time lie: at most eight, whatever the time is. Keys begin with thirteen digits of milliseconds.
fn prefixes(from_ms: u64, to_ms: u64) -> Vec<String> {
    const MOST: u64 = 8;
    const DIGITS: usize = 13;
    let mut step = 1_u64;
    let mut digits = DIGITS;
    while to_ms / step - from_ms / step >= MOST && digits > 1 {
        step *= 10;
        digits -= 1;
    }
    let all = from_ms / step..=to_ms / step;
    all.map(|start| format!("{}{start:0digits$}", events::prefix()))
        .collect()
}

/// The events that were not heard yet.
///
/// # Errors
/// The metadata is away.
pub fn events_since(meta: &dyn Transact, alerts: &Alerts, now_ms: u64) -> Result<Vec<Heard>, Error> {
    if alerts.heard_until_ms == 0 {
        return Ok(Vec::new());
    }
    let from = alerts.heard_until_ms.min(now_ms).saturating_sub(LATE_MS);
    let from = from.max(now_ms.saturating_sub(LONGEST_GAP_MS));
    // A clock that is a little ahead is no reason not to be heard.
    let prefixes = prefixes(from, now_ms + LATE_MS);
    debug_assert!(prefixes.len() <= MAX_OPS, "few prefixes");
    let call = Call {
        then: prefixes.into_iter().map(|key| Op::Prefix { key }).collect(),
        ..Call::default()
    };
    let reply = meta.txn(&call)?;
    let records = (0..call.then.len()).flat_map(|index| reply.values(index));
    let unheard = records.filter(|record| !alerts.heard.contains(&record.key));
    let events = unheard.filter_map(|record| {
        Some(Heard {
            key: record.key.clone(),
            event: events::parse(record)?,
        })
    });
    Ok(events.filter(|heard| heard.event.unix_ms >= from).collect())
}

/// Takes note of events: what has happened counts as being so for a time, or until something says that it is over. Is any of that new?
pub fn hear(alerts: &mut Alerts, heard: &[Heard], names: &BTreeMap<NodeId, String>, now_ms: u64) -> bool {
    let first = alerts.heard_until_ms == 0;
    let mut changed = first;
    let from = alerts.heard_until_ms.min(now_ms).saturating_sub(LATE_MS);
    for Heard { key, event } in heard {
        let begins = TOLD.iter().any(|(kind, _)| kind.name() == event.kind);
        let ends: Vec<&str> = TOLD
            .iter()
            .filter(|(_, end)| end.is_some_and(|end| end.name() == event.kind))
            .map(|(kind, _)| kind.name())
            .collect();
        if !begins && ends.is_empty() {
            continue;
        }
        changed = true;
        alerts.heard.push(key.clone());
        if begins {
            let condition = of_event(event, names);
            let until = event.unix_ms / 1000 + LASTS_S;
            let is_room = alerts.lasting.len() < MAX_LASTING || alerts.lasting.contains_key(&condition.id());
            if until > now_ms / 1000 && is_room {
                alerts.lasting.insert(condition.id(), Lasting { condition, until });
            }
        }
        for code in ends {
            let over = Condition {
                code: code.to_owned(),
                ..of_event(event, names)
            };
            alerts.lasting.remove(&over.id());
        }
    }
    // Keys begin with the time: what is before `from` is not read again.
    let oldest = format!("{}{from:013}", events::prefix());
    let known = alerts.heard.len();
    alerts.heard.retain(|key| *key >= oldest);
    let surplus = alerts.heard.len().saturating_sub(MAX_HEARD);
    alerts.heard.drain(..surplus);
    changed |= alerts.heard.len() != known;
    // It is written only when something else is, or now and then: what was heard is known by its key.
    if changed || now_ms.saturating_sub(alerts.heard_until_ms) > LATE_MS / 2 {
        alerts.heard_until_ms = now_ms;
        changed = true;
    }
    changed
}

fn of_event(event: &Event, names: &BTreeMap<NodeId, String>) -> Condition {
    let kind = EventKind::named(&event.kind);
    let node = names
        .get(&event.node)
        .cloned()
        .unwrap_or_else(|| event.node.to_string());
    let first = event.objects.first();
    let mut labels = BTreeMap::from([("node".to_owned(), node.clone())]);
    let object = match kind {
        Some(EventKind::MetadataAway | EventKind::MetadataBack) => node,
        Some(EventKind::AuditBroken) => "audit log".to_owned(),
        _ => first.cloned().unwrap_or(node),
    };
    if let (Some(EventKind::StoreFailed | EventKind::StoreTaken | EventKind::StoreServes), Some(store)) = (kind, first)
    {
        labels.insert("store".to_owned(), store.clone());
    }
    if let (Some(EventKind::PolicyMissed), Some(policy)) = (kind, first) {
        labels.insert("policy".to_owned(), policy.clone());
    }
    Condition {
        code: event.kind.clone(),
        severity: severity(event.severity),
        object,
        labels,
        what: event.text.clone(),
        advice: kind.map_or("", EventKind::advice).to_owned(),
        at_once: true,
    }
    .bounded()
}

#[cfg(test)]
mod tests;
