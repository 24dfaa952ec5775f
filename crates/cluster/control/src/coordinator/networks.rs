//! Nodes whose network is sick: who is told of, gets no more groups, and leaves for a while.
//!
//! Nodes report what they find of their links (`/amita/links/NODE/all`, see [`amita_types::link`]), and [`crate::network`] says what of it is
//! whose fault. That is done in rounds; what is found for long enough without a long gap *stands*, and ends when it was not found for as long.
//! What stands is told, with its evidence. Only a node is ever more than told of: a link, a rack or the network has no stores of its own.
//!
//! * A node that stands is *avoided*, where the policy says so: its stores keep what they have and get no more groups.
//! * One that stands for twice as long is *isolated*, where the policy says so: each of its stores is taken out of its groups as a slow one
//!   is ([`super::health`]), if half of all other nodes find it at that moment. That never costs what is needed: each of
//!   their groups must have all of its copies, and enough of those, two at least, at other nodes must be served; only one node of the cluster is isolated at a time, not beside a slow store that rests, and only so many in an hour.
//!
//! What nodes have left for the other of their two networks is none of that: it is told, once for what it is the fault of, and nobody is
//! avoided or isolated for it.
//!
//! An isolated node rests until it and most others say that its links are well, or its time is over; then its stores are brought up
//! to date like any that is back. If it is
//! sick still when its time is over, it is isolated again, for twice as long. As with slow stores all of this is known to the
//! coordinator alone.

use super::fleet::{Fleet, Life};
use super::health::{Condemned, rest_of};
use super::warning::{Sentence, Warning};
use super::{Action, Coordinator, Due, Moment, Out, plan};
use crate::faults::{Fault, Faults};
use crate::network::{Blame, Finding, Witness, judge, judge_left};
use amita_metadata::KeyValue;
use amita_types::link::{LinkReport, Network, renewed_after, reporter};
use amita_types::map::Group;
use amita_types::recovery::{SickNetworks, SickPolicy};
use amita_types::{NodeId, StoreId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Between two looks at the matrix, while there is something bad in it.
const ROUND: Duration = Duration::from_secs(5);
/// What was not found for so long was not sick without a pause.
const GAP: Duration = Duration::from_secs(20);
/// What stood and was not found for so long is well.
const WELL_AFTER: Duration = Duration::from_secs(120);
const HOUR: Duration = Duration::from_secs(3600);
/// A node that was well for so long after its rest has a clean slate.
const CLEAN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What a node has said last.
#[derive(Debug)]
struct Heard {
    at: Moment,
    report: LinkReport,
}

/// Something that is found sick.
#[derive(Debug)]
struct Case {
    since: Moment,
    /// When it was found last.
    found: Moment,
    finding: Finding,
    /// What was told of it; `None`: it has not been so for long enough.
    told: Option<Sentence>,
}

/// What is known of sick networks.
#[derive(Debug, Default)]
pub(super) struct Networks {
    settings: SickNetworks,
    faults: Faults,
    reports: BTreeMap<NodeId, Heard>,
    cases: BTreeMap<Blame, Case>,
    /// The same of what was left for the other network.
    left: BTreeMap<(Network, Blame), Case>,
    isolated: BTreeMap<NodeId, Condemned>,
    /// When nodes were isolated, in the last hour.
    recent: VecDeque<Moment>,
    /// When the matrix is looked at next, while there is something to see.
    next: Option<Moment>,
}

/// A report that names bad links and was not renewed for so long does not count.
fn fresh(fleet: &Fleet) -> Duration {
    renewed_after(fleet.lives.len()) * 5 / 2
}

/// Nodes that live, which judge and are judged: not those of clients.
fn witnesses(fleet: &Fleet) -> impl Iterator<Item = NodeId> {
    let lives = fleet.lives.iter();
    let living = lives.filter(|(_, life)| matches!(life, Life::Alive { stopped: false, .. }));
    living
        .map(|(node, _)| *node)
        .filter(move |node| fleet.hosts.get(*node).is_none_or(|host| !host.client))
}

impl Networks {
    pub(super) fn new(settings: SickNetworks, faults: Faults) -> Networks {
        Networks {
            settings,
            faults,
            ..Networks::default()
        }
    }

    /// New settings. Where there is something to see, it is looked at by them; who is isolated comes back where they isolate nobody.
    pub(super) fn set(&mut self, now: Moment, settings: SickNetworks) {
        self.settings = settings;
        if settings.policy < SickPolicy::Isolate {
            self.isolated.clear();
        }
        if self.reports.values().any(|heard| !heard.report.is_well()) {
            self.look_at(now);
        }
    }

    /// Takes a record in if it is one of these.
    pub(super) fn hear(&mut self, out: &mut Out, due: &mut Due, now: Moment, record: &KeyValue) -> bool {
        let Some(node) = reporter(&record.key) else {
            return false;
        };
        if let Some(report) = out.parse::<LinkReport>(record) {
            if !report.is_well() && self.settings.policy != SickPolicy::Off {
                self.look_at(now);
                due.dirty |= self.is_due(now);
            }
            self.reports.insert(node, Heard { at: now, report });
        }
        true
    }

    /// A record is gone: was it one of these?
    pub(super) fn gone(&mut self, key: &str) -> bool {
        let Some(node) = reporter(key) else { return false };
        self.reports.remove(&node);
        true
    }

    /// When something is due next.
    pub(super) fn due(&self, now: Moment) -> Option<Moment> {
        let ends = self.isolated.values().map(|isolated| isolated.until);
        ends.chain(self.next).filter(|at| *at > now).min()
    }

    /// Another one leads: what stands, and who rests, is for that one to find. Who is elected again knows nothing of what was
    /// mended meanwhile. What was done within the hour counts on.
    pub(super) fn depose(&mut self) {
        self.cases.clear();
        self.left.clear();
        self.isolated.clear();
    }

    /// How many nodes rest.
    #[cfg(test)]
    pub(super) fn resting(&self, now: Moment) -> usize {
        self.isolated.keys().filter(|node| self.rests(now, **node)).count()
    }

    fn look_at(&mut self, at: Moment) {
        self.next.get_or_insert(at);
    }

    fn is_due(&self, now: Moment) -> bool {
        self.next.is_some_and(|at| at <= now)
    }

    /// Is the store's node to leave, or to stay away?
    pub(super) fn is_isolated(&self, fleet: &Fleet, now: Moment, store: StoreId) -> bool {
        fleet.home(store).is_some_and(|node| self.rests(now, node))
    }

    pub(super) fn rests(&self, now: Moment, node: NodeId) -> bool {
        let is_back = |until: Moment| until <= now && !self.faults.has(Fault::NeverBack);
        self.isolated
            .get(&node)
            .is_some_and(|isolated| !is_back(isolated.until))
    }

    /// A node that is isolated now.
    pub(super) fn isolated(&self, now: Moment) -> Option<NodeId> {
        let resting = self.isolated.iter().find(|(_, isolated)| isolated.until > now);
        resting.map(|(node, _)| *node)
    }

    /// Is the store's node to get no more groups?
    pub(super) fn is_avoided(&self, fleet: &Fleet, store: StoreId) -> bool {
        let stands = |node| {
            self.cases
                .get(&Blame::Node(node))
                .is_some_and(|case| case.told.is_some())
        };
        self.settings.policy >= SickPolicy::Avoid && fleet.home(store).is_some_and(stands)
    }

    /// What stands against the network of a store's node, for people.
    pub(super) fn stands_against(&self, fleet: &Fleet, store: StoreId) -> Option<String> {
        let case = self.cases.get(&Blame::Node(fleet.home(store)?))?;
        case.told.as_ref().map(|_| case.finding.evidence())
    }

    /// What a node finds, unless it has not said so, or not of late.
    fn report(&self, fresh: Duration, now: Moment, node: NodeId) -> Option<&LinkReport> {
        let heard = self.reports.get(&node)?;
        let counts = heard.report.is_well() || heard.at.plus(fresh) > now;
        counts.then_some(&heard.report)
    }

    /// What the nodes that live find, of what is in use and of what was left.
    fn findings(&self, fleet: &Fleet, now: Moment) -> (Vec<Finding>, Vec<(Network, Finding)>) {
        let fresh = fresh(fleet);
        let witnesses = witnesses(fleet).map(|node| {
            let host = fleet.hosts.get(node).filter(|host| !host.rack.is_empty());
            Witness {
                node,
                rack: host.map(|host| (host.site.as_str(), host.rack.as_str())),
                report: self.report(fresh, now, node),
            }
        });
        let witnesses: Vec<Witness<'_>> = witnesses.collect();
        (judge(&witnesses), judge_left(&witnesses))
    }

    /// Are the links between the node and at least half of all others found bad?
    fn is_proven(&self, fleet: &Fleet, node: NodeId) -> bool {
        let others = witnesses(fleet).filter(|other| *other != node).count();
        let case = self.cases.get(&Blame::Node(node));
        case.is_some_and(|case| case.finding.bad_links() * 2 >= others)
    }

    /// Takes in what is found now; says what has ended that stood.
    fn take(&mut self, fresh: Duration, now: Moment, (found, left): (Vec<Finding>, Vec<(Network, Finding)>)) -> Ended {
        let found = found.into_iter().map(|finding| (finding.blame.clone(), finding));
        let left = left
            .into_iter()
            .map(|(network, finding)| ((network, finding.blame.clone()), finding));
        let ended = Ended {
            blames: follow(&mut self.cases, now, found),
            left: follow(&mut self.left, now, left),
        };
        // Reports that are well change nothing by themselves; who has said that his links are bad goes on saying so.
        let bad = self
            .reports
            .values()
            .any(|heard| !heard.report.is_well() && heard.at.plus(fresh) > now);
        let rests = self.isolated(now).is_some();
        let stands = !self.cases.is_empty() || !self.left.is_empty();
        self.next = (bad || rests || stands).then_some(now.plus(ROUND));
        ended
    }

    /// Do the node and more than half of all others say that its links are well? That nobody says that they are bad is not enough: a node that
    /// is isolated has no traffic to be measured by.
    fn says_well(&self, fleet: &Fleet, now: Moment, node: NodeId) -> bool {
        let others = witnesses(fleet).filter(|other| *other != node).count();
        let has_measured = |report: &&LinkReport| report.measured as usize * 2 > others;
        let own = self.report(fresh(fleet), now, node).filter(has_measured);
        let denies = |other: &NodeId| {
            let report = self.report(fresh(fleet), now, *other).filter(has_measured);
            report.is_some_and(|report| report.is_complete() && report.worst.iter().all(|found| found.peer != node))
        };
        let denying = witnesses(fleet).filter(|other| *other != node).filter(denies).count();
        own.is_some_and(|report| report.bad as usize * 2 <= others) && denying * 2 > others
    }

    /// Who rests and is well needs no more of it. Is there one?
    fn end_rests(&mut self, fleet: &Fleet, now: Moment) -> bool {
        let resting = self.isolated(now);
        let well = resting.filter(|node| !self.cases.contains_key(&Blame::Node(*node)));
        let well = well.filter(|node| self.says_well(fleet, now, *node));
        let Some(node) = well else { return false };
        let Some(isolated) = self.isolated.get_mut(&node) else {
            return false;
        };
        isolated.until = now;
        true
    }

    /// It rests, for longer each time. Only what takes copies away counts for the limit of an hour.
    fn isolate(&mut self, now: Moment, node: NodeId, takes: bool) {
        let count = self.isolated.get(&node).map_or(0, |before| before.count);
        let until = now.plus(rest_of(self.settings.rest_s, count));
        self.isolated.insert(
            node,
            Condemned {
                until,
                count: count + 1,
            },
        );
        if takes {
            self.recent.push_back(now);
        }
    }
}

/// What stood, and is not found any more.
struct Ended {
    blames: Vec<Blame>,
    left: Vec<(Network, Blame)>,
}

/// Takes into the cases what is found now; says what has ended that stood.
fn follow<K: Ord + Clone>(
    cases: &mut BTreeMap<K, Case>,
    now: Moment,
    findings: impl Iterator<Item = (K, Finding)>,
) -> Vec<K> {
    for (key, finding) in findings {
        match cases.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Case {
                    since: now,
                    found: now,
                    finding,
                    told: None,
                });
            }
            Entry::Occupied(mut place) => {
                let case = place.get_mut();
                (case.found, case.finding) = (now, finding);
            }
        }
    }
    let mut ended = Vec::new();
    cases.retain(|key, case| {
        let patience = if case.told.is_some() { WELL_AFTER } else { GAP };
        let stays = case.found.plus(patience) > now;
        if !stays && case.told.is_some() {
            ended.push(key.clone());
        }
        stays
    });
    ended
}

/// Looks at the matrix if that is due, and does what is to be done.
pub(super) fn run(coordinator: &mut Coordinator) {
    let now = coordinator.now;
    let networks = &mut coordinator.networks;
    while networks.recent.front().is_some_and(|at| at.plus(HOUR) <= now) {
        networks.recent.pop_front();
    }
    networks
        .isolated
        .retain(|_, isolated| isolated.until.plus(CLEAN_AFTER) > now);
    if networks.settings.policy == SickPolicy::Off {
        let stood = !networks.cases.is_empty();
        networks.cases.clear();
        networks.left.clear();
        networks.isolated.clear();
        networks.next = None;
        if stood {
            plan::soon(coordinator);
        }
        return;
    }
    if !networks.is_due(now) {
        return;
    }
    let findings = networks.findings(&coordinator.fleet, now);
    let ended = networks.take(fresh(&coordinator.fleet), now, findings);
    let is_back = coordinator.networks.end_rests(&coordinator.fleet, now);
    if is_back || !ended.blames.is_empty() {
        plan::soon(coordinator);
    }
    let blames = ended.blames.into_iter().map(|blame| (None, blame));
    let left = ended.left.into_iter().map(|(network, blame)| (Some(network), blame));
    for (left, blame) in blames.chain(left) {
        let warning = Warning::NetworkWell { blame, left };
        coordinator.out.actions.push(Action::Warn(warning));
    }
    let found: Vec<Blame> = coordinator.networks.cases.keys().cloned().collect();
    for blame in found {
        decide(coordinator, blame);
    }
    tell_left(coordinator);
}

/// Tells, once, what was left for long enough.
fn tell_left(coordinator: &mut Coordinator) {
    let now = coordinator.now;
    let networks = &mut coordinator.networks;
    let after = Duration::from_secs(networks.settings.after_s.into());
    for ((network, blame), case) in &mut networks.left {
        if case.told.is_some() || case.found < now || case.since.plus(after) > now {
            continue;
        }
        let sentence = Sentence::Switched { left: *network };
        case.told = Some(sentence.clone());
        let warning = Warning::SickNetwork {
            blame: blame.clone(),
            evidence: case.finding.evidence(),
            sentence,
        };
        coordinator.out.actions.push(Action::Warn(warning));
    }
}

/// What becomes of something that is found sick. What is decided is said once, and again when it has changed.
fn decide(coordinator: &mut Coordinator, blame: Blame) {
    let (now, settings) = (coordinator.now, coordinator.networks.settings);
    let Some(case) = coordinator.networks.cases.get(&blame) else {
        return;
    };
    let after = Duration::from_secs(settings.after_s.into());
    // What was not found in this round waits: it may be well again.
    if case.found < now || case.since.plus(after) > now {
        return;
    }
    let is_long = case.since.plus(after * 2) <= now;
    let is_new = case.told.is_none();
    let sentence = match &blame {
        Blame::Node(node) => of_node(coordinator, *node, is_long),
        _ => Sentence::Told,
    };
    let Some(case) = coordinator.networks.cases.get_mut(&blame) else {
        return;
    };
    let unchanged = case.told.as_ref().is_some_and(|told| told.is_like(&sentence));
    case.told = Some(sentence.clone());
    let evidence = case.finding.evidence();
    if let (Blame::Node(node), Sentence::Isolated) = (&blame, &sentence)
        && !coordinator.networks.rests(now, *node)
    {
        let takes = holds(coordinator, *node, |group| &group.in_sync);
        coordinator.networks.isolate(now, *node, takes);
        coordinator.due.dirty = true;
    } else if unchanged {
        return;
    }
    if is_new {
        plan::soon(coordinator);
    }
    let warning = Warning::SickNetwork {
        blame,
        evidence,
        sentence,
    };
    coordinator.out.actions.push(Action::Warn(warning));
}

fn of_node(coordinator: &Coordinator, node: NodeId, is_long: bool) -> Sentence {
    let networks = &coordinator.networks;
    let policy = match networks.settings.policy {
        SickPolicy::Propose | SickPolicy::Avoid if networks.faults.has(Fault::IsolateByAnyPolicy) => {
            SickPolicy::Isolate
        }
        policy => policy,
    };
    match policy {
        SickPolicy::Off => Sentence::Told,
        // A gateway without stores has no groups to lose.
        _ if !holds(coordinator, node, |group| &group.members) => Sentence::Empty,
        SickPolicy::Avoid => Sentence::Avoided,
        SickPolicy::Propose => Sentence::Proposed {
            hindrance: why_not(coordinator, node),
        },
        SickPolicy::Isolate if !is_long => Sentence::Avoided,
        SickPolicy::Isolate if networks.rests(coordinator.now, node) => Sentence::Isolated,
        SickPolicy::Isolate => match why_not(coordinator, node) {
            None => Sentence::Isolated,
            Some(hindrance) => Sentence::Stays { hindrance },
        },
    }
}

/// Does some group name a store of the node there?
fn holds(coordinator: &Coordinator, node: NodeId, place: impl Fn(&Group) -> &Vec<StoreId>) -> bool {
    let is_own = |store: &StoreId| coordinator.fleet.home(*store) == Some(node);
    let mut groups = coordinator.groups.all.values();
    groups.any(|known| place(&known.group).iter().any(is_own))
}

/// Why a node cannot be isolated now.
fn why_not(coordinator: &Coordinator, node: NodeId) -> Option<String> {
    let Coordinator {
        networks, fleet, now, ..
    } = coordinator;
    if !networks.is_proven(fleet, node) {
        return Some("it is not found by half of the other nodes".to_owned());
    }
    if let Some(other) = networks.isolated(*now) {
        return Some(format!("node {other} is isolated, and one at a time is the limit"));
    }
    if let Some(store) = coordinator.health.condemned(*now) {
        return Some(format!(
            "store {store} was evicted as slow, and one at a time is the limit"
        ));
    }
    if networks.recent.len() >= networks.settings.per_hour as usize {
        return Some(format!(
            "{} nodes were isolated within an hour, and that is the limit",
            networks.recent.len()
        ));
    }
    if networks.faults.has(Fault::IsolateTheNeeded) {
        return None;
    }
    let lacking = coordinator.groups.all.iter().filter(|(id, known)| {
        let group = &known.group;
        let held = group.in_sync.iter().any(|store| fleet.home(*store) == Some(node));
        held && coordinator
            .pools
            .get(id.pool)
            .is_none_or(|pool| group.in_sync.len() < pool.copies || !fleet.may_spare_node(group, pool, node))
    });
    match lacking.count() {
        0 => None,
        groups => Some(format!("{groups} of its groups have no copy to spare")),
    }
}
