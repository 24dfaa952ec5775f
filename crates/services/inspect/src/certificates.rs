//! The certificates that are in use, as nodes tell of them, and how long they are good for.
//!
//! Nothing of them is a secret: what is told stands in what is shown to whoever connects. Where the authority is an outside one, or a program
//! is older than this, less is known.

use crate::gather::Facts;
use crate::inventory::{Known, Shown};
use std::collections::BTreeMap;

const DAY_S: u64 = 24 * 3600;
/// What is left of a node's life, in percent. Half is when it is to be renewed; with a third of it left that has failed for long.
const IDENTITY_PERCENT: (u64, u64) = (10, 34);
/// What is left of a browser's certificate, in days: nobody but its operator renews it.
const BROWSER_DAYS: (u64, u64) = (7, 30);
/// What is left of an authority, in days.
const AUTHORITY_DAYS: (u64, u64) = (30, 180);
/// Nodes that are named as trusting an authority; they are counted all the same.
const NAMED: usize = 8;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// By it a node proves who it is.
    Identity,
    /// The API's port shows it to browsers.
    Browser,
    /// What all others rest on.
    Authority,
}

/// How long it is good for, by what its kind needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Long enough.
    Well,
    /// It should have been renewed.
    Due,
    /// It ends soon.
    Late,
    /// It has ended.
    Ended,
}

impl Standing {
    /// Of a certificate with this life, at this time: all in seconds since 1970.
    #[must_use]
    pub fn of(usage: Usage, (begins, ends): (u64, u64), now: u64) -> Standing {
        let left = ends.saturating_sub(now);
        let (late, due, left) = match usage {
            Usage::Identity => {
                let life = ends.saturating_sub(begins).max(1);
                (IDENTITY_PERCENT.0, IDENTITY_PERCENT.1, left.saturating_mul(100) / life)
            }
            Usage::Browser => (BROWSER_DAYS.0, BROWSER_DAYS.1, left / DAY_S),
            Usage::Authority => (AUTHORITY_DAYS.0, AUTHORITY_DAYS.1, left / DAY_S),
        };
        match left {
            _ if ends <= now => Standing::Ended,
            left if left < late => Standing::Late,
            left if left < due => Standing::Due,
            _ => Standing::Well,
        }
    }
}

/// A certificate that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// What for.
    pub usage: Usage,
    /// The nodes that have it, or trust it: the first few by name.
    pub nodes: Vec<String>,
    /// How many they are.
    pub node_count: usize,
    /// What it says of itself; a text that is empty is not known.
    pub shown: Shown,
    /// How long it is good for.
    pub standing: Standing,
    /// When the newest of those nodes told of it, in seconds since 1970.
    pub told_at: u64,
}

/// All that are known of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The first that ends first.
    pub used: Vec<Used>,
    /// Nodes of which none is known, and why.
    pub not_known: Vec<(String, String)>,
}

/// The certificates that nodes tell of. What a node has told stays known when it is gone: it may be gone because its certificate has ended.
#[must_use]
pub fn certificates(facts: &Facts) -> Certificates {
    let mut found = Certificates::default();
    let mut authorities: BTreeMap<String, Used> = BTreeMap::new();
    for node in facts.status.nodes.iter().filter(|found| !found.node.client) {
        let name = node.node.name.clone();
        let told = match facts.inventories.get(&node.node.id) {
            Some(Known::Is(inventory)) => inventory,
            Some(Known::NotKnown(why)) => {
                found.not_known.push((name, why.clone()));
                continue;
            }
            None => {
                let why = "the node has not told about its machine yet, or its program is older than that";
                found.not_known.push((name, why.to_owned()));
                continue;
            }
        };
        let own = match &told.certificate {
            Known::Is(Some(own)) => own,
            Known::Is(None) => {
                found.not_known.push((name, "the node has no identity".to_owned()));
                continue;
            }
            Known::NotKnown(why) => {
                found.not_known.push((name, why.clone()));
                continue;
            }
        };
        let used = |usage: Usage, shown: &Shown| Used {
            usage,
            nodes: vec![name.clone()],
            node_count: 1,
            standing: Standing::of(usage, (shown.begins, shown.ends), facts.at),
            shown: shown.clone(),
            told_at: told.taken_at,
        };
        let identity = own.what.clone().unwrap_or_else(|| Shown {
            begins: own.begins,
            ends: own.ends,
            ..Shown::default()
        });
        found.used.push(used(Usage::Identity, &identity));
        found
            .used
            .extend(own.browser.iter().map(|shown| used(Usage::Browser, shown)));
        for authority in &own.authorities {
            let known = authorities.get_mut(&authority.fingerprint);
            let Some(known) = known else {
                let new = used(Usage::Authority, authority);
                authorities.insert(authority.fingerprint.clone(), new);
                continue;
            };
            known.node_count += 1;
            known.told_at = known.told_at.max(told.taken_at);
            if known.nodes.len() < NAMED {
                known.nodes.push(name.clone());
            }
        }
    }
    found.used.extend(authorities.into_values());
    found
        .used
        .sort_by(|a, b| (a.shown.ends, a.usage, &a.nodes).cmp(&(b.shown.ends, b.usage, &b.nodes)));
    found
}

#[cfg(test)]
mod tests;
