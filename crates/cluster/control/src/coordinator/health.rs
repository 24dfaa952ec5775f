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

use super::fleet::{Fleet, Home, Life};
use super::groups::KnownPool;
use super::warning::Warning;
use super::{Action, Coordinator, Due, Moment, Out};
use crate::faults::Fault;
use amita_metadata::KeyValue;
use amita_types::map::{Group, PREFIX};
use amita_types::recovery::{HealthReport, SlowPolicy, SlowStores, StoreHealth};
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

/// A store that was found slow, or a node whose network is sick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condemned {
    /// It rests until then.
    pub until: Moment,
    /// How often it was condemned.
    pub count: u32,
}

/// For how long one rests that was condemned so often before.
pub(super) fn rest_of(rest_s: u32, count: u32) -> Duration {
    let rest = Duration::from_secs(rest_s.into());
    rest.saturating_mul(1 << count.min(16)).min(LONGEST_REST)
}

/// What is known of slow stores.
#[derive(Debug, Default)]
pub(super) struct Health {
    settings: SlowStores,
    /// By the end of their keys.
    reports: BTreeMap<String, Report>,
    condemned: BTreeMap<StoreId, Condemned>,
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

    fn votes(&self, fleet: &Fleet, now: Moment) -> BTreeMap<StoreId, Votes> {
        let mut all: BTreeMap<StoreId, Votes> = BTreeMap::new();
        for report in self.reports.values() {
            let lives = matches!(fleet.lives.get(&report.node), Some(Life::Alive { stopped: false, .. }));
            if !lives || report.heard.plus(FRESH) <= now {
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

    /// Is the store to leave, or to stay away?
    pub(super) fn is_condemned(&self, now: Moment, store: StoreId) -> bool {
        self.condemned
            .get(&store)
            .is_some_and(|condemned| condemned.until > now)
    }

    pub(super) fn set(&mut self, settings: SlowStores) {
        self.settings = settings;
    }

    /// A store that rests.
    pub(super) fn condemned(&self, now: Moment) -> Option<StoreId> {
        let resting = self.condemned.iter().find(|(_, condemned)| condemned.until > now);
        resting.map(|(store, _)| *store)
    }

    /// Takes a record in if it is one of these.
    pub(super) fn hear(&mut self, out: &mut Out, due: &mut Due, now: Moment, record: &KeyValue) -> bool {
        let Some((name, node)) = reporter(&record.key) else {
            return false;
        };
        if let Some(report) = out.parse::<HealthReport>(record) {
            due.dirty |= report.stores.iter().any(|found| found.slow);
            let report = Report {
                node,
                heard: now,
                stores: report.stores,
            };
            self.reports.insert(name.to_owned(), report);
        }
        true
    }

    /// A record is gone: was it one of these?
    pub(super) fn gone(&mut self, key: &str) -> bool {
        let Some((name, _)) = reporter(key) else { return false };
        self.reports.remove(name);
        true
    }

    /// It is to leave, and rests for longer each time.
    fn condemn(&mut self, now: Moment, store: StoreId) {
        let count = self.condemned.get(&store).map_or(0, |before| before.count);
        let until = now.plus(rest_of(self.settings.rest_s, count));
        let count = count + 1;
        self.condemned.insert(store, Condemned { until, count });
        self.recent.push_back(now);
    }

    /// When the next rest ends.
    pub(super) fn due(&self, now: Moment) -> Option<Moment> {
        let ends = self.condemned.values().map(|condemned| condemned.until);
        ends.filter(|until| *until > now).min()
    }
}

/// Condemns who is to be condemned.
pub(super) fn judge(coordinator: &mut Coordinator) {
    let now = coordinator.now;
    while coordinator.health.recent.front().is_some_and(|at| at.plus(HOUR) <= now) {
        coordinator.health.recent.pop_front();
    }
    coordinator
        .health
        .condemned
        .retain(|_, condemned| condemned.until.plus(CLEAN_AFTER) > now);
    let settings = coordinator.health.settings;
    let mut told = BTreeSet::new();
    for (store, votes) in coordinator.health.votes(&coordinator.fleet, coordinator.now) {
        let found = votes.slow.len() > votes.well.len() && votes.for_s >= settings.after_s;
        if !found || settings.policy == SlowPolicy::Off || coordinator.must_leave(store) {
            continue;
        }
        let hindrance = match settings.policy {
            SlowPolicy::Propose => Some("it stays, as the policy says".to_owned()),
            _ => why_not(coordinator, store),
        };
        if hindrance.is_none() {
            condemn(coordinator, store, &votes);
        } else if coordinator.groups.is_anywhere(store) {
            told.insert((store, hindrance));
        }
    }
    // Who is slow is said once, and again when the reason for which it stays has changed.
    coordinator.out.standing.retain(|warning| match warning {
        Warning::SlowStore { store, hindrance, .. } => told.contains(&(*store, hindrance.clone())),
        _ => true,
    });
    let votes = coordinator.health.votes(&coordinator.fleet, coordinator.now);
    for (store, hindrance) in told {
        let said = |warning: &Warning| matches!(warning, Warning::SlowStore { store: own, .. } if *own == store);
        if let Some(votes) = votes.get(&store)
            && !coordinator.out.standing.iter().any(said)
        {
            let warning = warning(coordinator, votes, store, hindrance);
            coordinator.out.warn(warning);
        }
    }
}

/// Why a slow store cannot be taken out now.
fn why_not(coordinator: &Coordinator, store: StoreId) -> Option<String> {
    if let Some(other) = coordinator.health.condemned(coordinator.now) {
        return Some(format!(
            "store {other} was evicted for the same, and one at a time is the limit"
        ));
    }
    if let Some(node) = coordinator.networks.isolated(coordinator.now) {
        return Some(format!("node {node} is isolated, and one at a time is the limit"));
    }
    if coordinator.health.recent.len() >= coordinator.health.settings.per_hour as usize {
        return Some(format!(
            "{} slow stores were evicted within an hour, and that is the limit",
            coordinator.health.recent.len()
        ));
    }
    let lacking = coordinator.groups.all.iter().filter(|(id, known)| {
        let group = &known.group;
        let held = group.in_sync.contains(&store);
        held && coordinator
            .pools
            .get(id.pool)
            .is_none_or(|pool| group.in_sync.len() < pool.copies || !coordinator.fleet.may_spare(group, pool, store))
    });
    match lacking.count() {
        0 => None,
        groups => Some(format!("{groups} of its groups have no copy to spare")),
    }
}

fn condemn(coordinator: &mut Coordinator, store: StoreId, votes: &Votes) {
    if !coordinator.groups.is_anywhere(store) {
        return;
    }
    coordinator.health.condemn(coordinator.now, store);
    let warning = warning(coordinator, votes, store, None);
    coordinator.out.actions.push(Action::Warn(warning));
    coordinator.due.dirty = true;
}

/// The condemned members of a group that can be spared: of the syncing ones, and of the in-sync ones if nobody else is
/// to leave.
pub(super) fn condemned_members(
    coordinator: &Coordinator,
    group: &Group,
    pool: &KnownPool,
) -> [BTreeMap<StoreId, Home>; 2] {
    let home = |store: StoreId| {
        let node = coordinator
            .fleet
            .home(store)
            .filter(|_| coordinator.must_leave(store))?;
        matches!(coordinator.fleet.lives.get(&node), Some(Life::Alive { .. })).then_some((store, Home::Unserved(node)))
    };
    let syncing = group.syncing.iter().filter_map(|member| home(member.store)).collect();
    let in_sync = group.in_sync.iter().filter_map(|store| home(*store));
    [
        syncing,
        in_sync
            .filter(|(store, home)| match home {
                Home::Unserved(node) if coordinator.networks.rests(coordinator.now, *node) => {
                    let needed = coordinator.config.faults.has(Fault::IsolateTheNeeded);
                    needed || coordinator.fleet.may_spare_node(group, pool, *node)
                }
                _ => coordinator.fleet.may_spare(group, pool, *store),
            })
            .take(1)
            .collect(),
    ]
}

/// What is told of a slow store. Where the network of its node is sick, that comes first: a disk behind a bad cable looks slow.
fn warning(coordinator: &Coordinator, votes: &Votes, store: StoreId, hindrance: Option<String>) -> Warning {
    let mut why = votes.why.clone();
    if let Some(evidence) = coordinator.networks.stands_against(&coordinator.fleet, store) {
        why = format!("{why}; the network of its node is sick, which is to be mended before any disk: {evidence}");
    }
    Warning::SlowStore {
        store,
        slow: votes.slow.len(),
        nodes: votes.slow.len() + votes.well.len(),
        why,
        hindrance,
    }
}

/// The end of a report's key, and its node.
fn reporter(key: &str) -> Option<(&str, NodeId)> {
    let name = key.strip_prefix(PREFIX)?.strip_prefix("health/")?;
    Some((name, name.split('/').next()?.parse().ok()?))
}
