//! The checks: pure functions over [`Facts`]. Each notes what it looked at, what it found, and what it could not look at.

mod clocks;
mod disks;
mod latency;
mod machine;
mod network;
mod redundancy;
mod space;
mod upkeep;

use crate::code::Check;
use crate::gather::Facts;
use crate::inventory::Inventory;
use crate::sheet::{Finding, Place, Report, Severity, Sheet};
use amita_control::admin::NodeStatus;
use amita_control::{events, health};

/// Judges a cluster.
#[must_use]
pub fn inspect(facts: &Facts) -> Report {
    let mut sheet = Sheet::default();
    of_health(facts, &mut sheet);
    redundancy::check(facts, &mut sheet);
    clocks::check(facts, &mut sheet);
    network::check(facts, &mut sheet);
    machine::check(facts, &mut sheet);
    disks::check(facts, &mut sheet);
    latency::check(facts, &mut sheet);
    space::check(facts, &mut sheet);
    upkeep::check(facts, &mut sheet);
    sheet.finish(facts.status.cluster.to_string(), facts.at)
}

/// What `amita status` says: there is one model of health.
fn of_health(facts: &Facts, sheet: &mut Sheet) {
    sheet.look(Check::Health);
    for fact in &facts.status.facts {
        let advice = health::Kind::named(fact.name).map_or("", health::Kind::advice);
        sheet.note(Finding {
            code: fact.name,
            severity: match fact.severity {
                events::Severity::Error => Severity::Critical,
                events::Severity::Warning => Severity::Warning,
                events::Severity::Info => Severity::Notice,
            },
            check: Check::Health.name(),
            place: Place::new(
                "object",
                fact.objects.iter().take(3).cloned().collect::<Vec<_>>().join(", "),
            ),
            reason: fact.text.clone(),
            mend: if fact.advice.is_empty() {
                advice.to_owned()
            } else {
                fact.advice.clone()
            },
        });
    }
}

/// Nodes that are to be looked at: clients' processes are not the operator's.
fn nodes(facts: &Facts) -> impl Iterator<Item = &NodeStatus> {
    facts.status.nodes.iter().filter(|found| !found.node.client)
}

/// What each node tells of its machine, by the nodes' names; those that tell nothing are noted for all of these checks.
fn told<'a>(facts: &'a Facts, checks: &[Check], sheet: &mut Sheet) -> Vec<(&'a str, &'a Inventory)> {
    let mut all = Vec::new();
    for found in nodes(facts) {
        let name = found.node.name.as_str();
        match facts.inventory(found.node.id) {
            Ok(inventory) => all.push((name, inventory)),
            Err(why) => {
                for check in checks {
                    sheet.blind(*check, Place::node(name), why.clone());
                }
            }
        }
    }
    all
}

/// The names, as a sentence has them: the first few, and how many more.
fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 5;
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        count if count > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN),
        _ => names.join(", "),
    }
}

/// What nodes say of one thing, and who says it; the most frequent first, and among those as frequent the greater one.
fn voices<'a, T: Ord>(said: impl IntoIterator<Item = (&'a str, T)>) -> Vec<(T, Vec<&'a str>)> {
    let mut all: std::collections::BTreeMap<T, Vec<&str>> = std::collections::BTreeMap::new();
    for (who, what) in said {
        all.entry(what).or_default().push(who);
    }
    let mut all: Vec<(T, Vec<&str>)> = all.into_iter().rev().collect();
    all.sort_by_key(|(_, who)| std::cmp::Reverse(who.len()));
    all
}

/// The one in the middle of what is not empty.
fn middle(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
pub(crate) mod tests;
