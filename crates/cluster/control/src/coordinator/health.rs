//! Stores that answer and are much slower than their peers: which of them leave, and when they are tried again.
//!
//! Nodes report what they find (`/amita/health/NODE/CORE`, see [`amita_types::recovery`]), and renew it every few seconds.
//! A store that more living nodes find slow than well, for long enough, is *condemned* if the policy says so: it is taken out
//! of its groups, like one that is not served. That never costs what is needed: each of its groups must have all of its
//! copies, and enough of the others must be served; only one store of the cluster is condemned at a time, and only so many in
//! an hour. Where that does not allow it, and where the policy is only to propose it, the operator is told.
//!
//! A condemned store rests, then it is listed as syncing like any that is back: it is brought up to date, gets every write,
//! and whoever measures it finds out whether it is well. If not, it is condemned again, for twice as long. All of this is
//! known to the coordinator alone: when another one is elected, rests end and the count of the hour begins anew.

use super::evict::Home;
use super::{Action, Coordinator, KnownPool, Life, Moment, Warning};
use amita_metadata::KeyValue;
use amita_types::map::{Group, PREFIX};
use amita_types::recovery::{HealthReport, Recovery, SlowPolicy, SlowStores, StoreHealth, recovery_key};
use amita_types::{NodeId, StoreId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A report that was not renewed for so long does not count.
const FRESH: Duration = Duration::from_secs(15);
const HOUR: Duration = Duration::from_secs(3600);
/// The longest rest, whatever the settings say.
const LONGEST_REST: Duration = Duration::from_secs(24 * 3600);
/// A store that was well for so long after its rest has a clean slate.
const CLEAN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What a core of a node has said last.
#[derive(Debug)]
struct Report {
    node: NodeId,
    heard: Moment,
    stores: Vec<StoreHealth>,
}

/// A store that was found slow.
#[derive(Clone, Copy, Debug)]
struct Sentence {
    /// It rests until then.
    until: Moment,
    /// How often it was condemned.
    count: u32,
}

/// What is known of slow stores.
#[derive(Debug, Default)]
pub(super) struct Health {
    settings: SlowStores,
    /// By the end of their keys.
    reports: BTreeMap<String, Report>,
    sentences: BTreeMap<StoreId, Sentence>,
    /// When stores were condemned, in the last hour.
    recent: VecDeque<Moment>,
}

/// What the nodes say of one store.
#[derive(Debug, Default)]
struct Votes {
    slow: BTreeSet<NodeId>,
    well: BTreeSet<NodeId>,
    for_s: u32,
    why: String,
}

impl Health {
    pub(super) fn new(settings: SlowStores) -> Health {
        Health {
            settings,
            ..Health::default()
        }
    }
}

impl Coordinator {
    /// Takes a record in if it is one of these.
    pub(super) fn hear_of_health(&mut self, record: &KeyValue) -> bool {
        if record.key == recovery_key() {
            if let Some(settings) = self.parse::<Recovery>(record) {
                self.health.settings = settings.slow_stores;
                self.dirty = true;
            }
            return true;
        }
        let Some((name, node)) = reporter(&record.key) else {
            return false;
        };
        if let Some(report) = self.parse::<HealthReport>(record) {
            self.dirty |= report.stores.iter().any(|found| found.slow);
            let report = Report {
                node,
                heard: self.now,
                stores: report.stores,
            };
            self.health.reports.insert(name.to_owned(), report);
        }
        true
    }

    /// A record is gone: was it one of these?
    pub(super) fn health_gone(&mut self, key: &str) -> bool {
        if key == recovery_key() {
            self.health.settings = self.config.slow_stores;
            return true;
        }
        let Some((name, _)) = reporter(key) else { return false };
        self.health.reports.remove(name);
        true
    }

    /// Condemns who is to be condemned.
    pub(super) fn judge_health(&mut self) {
        let now = self.now;
        while self.health.recent.front().is_some_and(|at| at.plus(HOUR) <= now) {
            self.health.recent.pop_front();
        }
        self.health
            .sentences
            .retain(|_, sentence| sentence.until.plus(CLEAN_AFTER) > now);
        let settings = self.health.settings;
        let mut told = BTreeSet::new();
        for (store, votes) in self.votes() {
            let found = votes.slow.len() > votes.well.len() && votes.for_s >= settings.after_s;
            if !found || settings.policy == SlowPolicy::Off || self.is_condemned(store) {
                continue;
            }
            let hindrance = match settings.policy {
                SlowPolicy::Propose => Some("it stays, as the policy says".to_owned()),
                _ => self.why_not(store),
            };
            if hindrance.is_none() {
                self.condemn(store, &votes);
            } else if self.is_anywhere(store) {
                told.insert((store, hindrance));
            }
        }
        // Who is slow is said once, and again when the reason for which it stays has changed.
        self.standing.retain(|warning| match warning {
            Warning::SlowStore { store, hindrance, .. } => told.contains(&(*store, hindrance.clone())),
            _ => true,
        });
        let votes = self.votes();
        for (store, hindrance) in told {
            let said = |warning: &Warning| matches!(warning, Warning::SlowStore { store: own, .. } if *own == store);
            if !self.standing.iter().any(said) {
                let votes = &votes[&store];
                self.warn(votes.warning(store, hindrance));
            }
        }
    }

    fn votes(&self) -> BTreeMap<StoreId, Votes> {
        let mut all: BTreeMap<StoreId, Votes> = BTreeMap::new();
        for report in self.health.reports.values() {
            let lives = matches!(self.nodes.get(&report.node), Some(Life::Alive { stopped: false, .. }));
            if !lives || report.heard.plus(FRESH) <= self.now {
                continue;
            }
            for found in &report.stores {
                let votes = all.entry(found.store).or_default();
                if !found.slow {
                    votes.well.insert(report.node);
                    continue;
                }
                votes.slow.insert(report.node);
                if found.for_s >= votes.for_s {
                    votes.for_s = found.for_s;
                    votes.why.clone_from(&found.why);
                }
            }
        }
        for votes in all.values_mut() {
            // The cores of a node may differ: one that is hurt is enough to speak for it.
            let Votes { slow, well, .. } = votes;
            well.retain(|node| !slow.contains(node));
        }
        all.retain(|_, votes| !votes.slow.is_empty());
        all
    }

    /// Why a slow store cannot be taken out now.
    fn why_not(&self, store: StoreId) -> Option<String> {
        let now = self.now;
        let other = self.health.sentences.iter().find(|(_, sentence)| sentence.until > now);
        if let Some((other, _)) = other {
            return Some(format!(
                "store {other} was evicted for the same, and one at a time is the limit"
            ));
        }
        if self.health.recent.len() >= self.health.settings.per_hour as usize {
            return Some(format!(
                "{} slow stores were evicted within an hour, and that is the limit",
                self.health.recent.len()
            ));
        }
        let lacking = self.groups.iter().filter(|(id, known)| {
            let group = &known.group;
            let held = group.in_sync.contains(&store);
            held && self
                .pools
                .get(&id.pool)
                .is_none_or(|pool| group.in_sync.len() < pool.copies || !self.may_spare(group, pool, store))
        });
        match lacking.count() {
            0 => None,
            groups => Some(format!("{groups} of its groups have no copy to spare")),
        }
    }

    /// Are there enough without it?
    fn may_spare(&self, group: &Group, pool: &KnownPool, store: StoreId) -> bool {
        let others = group.in_sync.iter().filter(|other| **other != store);
        others.filter(|other| self.is_serving(**other)).count() >= pool.min_copies.max(1)
    }

    /// Is it in sync or syncing in some group?
    fn is_anywhere(&self, store: StoreId) -> bool {
        self.groups.values().any(|known| {
            let group = &known.group;
            group.in_sync.contains(&store) || group.syncing.iter().any(|member| member.store == store)
        })
    }

    fn condemn(&mut self, store: StoreId, votes: &Votes) {
        if !self.is_anywhere(store) {
            return;
        }
        let count = self.health.sentences.get(&store).map_or(0, |sentence| sentence.count);
        let rest = Duration::from_secs(u64::from(self.health.settings.rest_s));
        let rest = rest.saturating_mul(1 << count.min(16)).min(LONGEST_REST);
        let until = self.now.plus(rest);
        let count = count + 1;
        self.health.sentences.insert(store, Sentence { until, count });
        self.health.recent.push_back(self.now);
        self.actions.push(Action::Warn(votes.warning(store, None)));
        self.dirty = true;
    }

    /// Is it to leave, or to stay away?
    pub(super) fn is_condemned(&self, store: StoreId) -> bool {
        self.health
            .sentences
            .get(&store)
            .is_some_and(|sentence| sentence.until > self.now)
    }

    /// When the next rest ends.
    pub(super) fn health_due(&self) -> Option<Moment> {
        let ends = self.health.sentences.values().map(|sentence| sentence.until);
        ends.filter(|until| *until > self.now).min()
    }

    /// The condemned members of a group that can be spared: of the syncing ones, and of the in-sync ones if nobody else is
    /// to leave.
    pub(super) fn condemned_members(&self, group: &Group, pool: &KnownPool) -> [BTreeMap<StoreId, Home>; 2] {
        let home = |store: StoreId| {
            let node = self.home(store).filter(|_| self.is_condemned(store))?;
            matches!(self.nodes.get(&node), Some(Life::Alive { .. })).then_some((store, Home::Unserved(node)))
        };
        let syncing = group.syncing.iter().filter_map(|member| home(member.store)).collect();
        let in_sync = group.in_sync.iter().filter_map(|store| home(*store));
        [
            syncing,
            in_sync
                .filter(|(store, _)| self.may_spare(group, pool, *store))
                .take(1)
                .collect(),
        ]
    }
}

impl Votes {
    fn warning(&self, store: StoreId, hindrance: Option<String>) -> Warning {
        Warning::SlowStore {
            store,
            slow: self.slow.len(),
            nodes: self.slow.len() + self.well.len(),
            why: self.why.clone(),
            hindrance,
        }
    }
}

/// The end of a report's key, and its node.
fn reporter(key: &str) -> Option<(&str, NodeId)> {
    let name = key.strip_prefix(PREFIX)?.strip_prefix("health/")?;
    Some((name, name.split('/').next()?.parse().ok()?))
}
