//! Links between nodes that are measured, and may be bad: the product's own measuring, judge and coordinators, over what the simulated
//! network's kernels count.
//!
//! What a node's thread does around [`Links`](amita_node::links::Links) is done here in virtual time ([`meter`]); the cores answer its questions, and
//! what it finds is a record that all coordinators hear of. What a run must look like is drawn in [`draw`].
//!
//! **What is known and the product is not told** is which links were ever made bad. By that is judged what nodes find, who is
//! blamed, and what becomes of whom ([`verdicts`]); that nobody is isolated who is needed, from the records in the end
//! (`checks::membership::isolation`). When all faults have ended, all links are found well and all copies are there again.

mod connections;
mod draw;
mod meter;
mod verdicts;

pub use draw::Measured;
pub(super) use verdicts::{Verdict, Verdicts};

use super::coordinator::Caller;
use super::node::node_id;
use super::records::json;
use super::wires::network_of;
use super::{Cluster, Setup};
use crate::faults::{Bad, Fault, Member};
use amita_metadata::{Call, Error, Reply};
use amita_reactor::Time;
use amita_types::link::{BadLink, LinkReport, LinkTrouble, Network, links_key};
use amita_types::recovery::{Recovery, SickPolicy, recovery_key};
use connections::Beside;
use meter::Meter;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the operator has set is known to whoever leads, and what was decided by it is carried out, within this.
const HEARD: Duration = Duration::from_secs(5);
/// When nothing is wrong any more all links are found well within this, and whoever was isolated is back: rests double, and the longest of a run
/// began when the last fault was some minutes old.
const RECOVER: Duration = Duration::from_secs(1800);
/// What was left for being bad is tried again after an hour at most; so everybody is back on the first network within this.
const BACK: Duration = Duration::from_secs(3600 + 600);

/// A link may be found bad, when it was not before, until so long after what has made it so: an idle one has sent 200 segments within some eight
/// looks, of which the newest tell nothing else, three of them make it bad, and what is found has to be told.
const FOUND: Duration = Duration::from_secs(200);
/// What was told a while ago by the same process is told on; a link that is just being left is not told.
const GOES_ON: Duration = Duration::from_secs(100);
/// Somebody may be blamed for links until so long after that: they are found well a few minutes after they are.
const BLAMED: Duration = Duration::from_secs(600);

/// So long after a fault nothing is left of it that could have a store evicted.
const SETTLED: Duration = Duration::from_secs(30);

/// What measures, and by which policy is judged.
pub(super) struct Networks {
    meters: Vec<Option<Meter>>,
    /// What the operator has set, and when.
    policies: Vec<(Time, SickPolicy)>,
    /// Links that each process has rightly found bad, and when it last said so.
    found: Vec<BTreeMap<Far, Time>>,
    /// When all faults have ended.
    healed: Option<Time>,
    beside: Beside,
}

/// The other end of a link, the network, and whether it is used.
type Far = (Member, Network, bool);

impl Networks {
    pub(super) fn new(setup: &Setup) -> Networks {
        let policy = setup.measured.map(|measured| measured.settings.policy);
        Networks {
            meters: (0..setup.nodes).map(|_| None).collect(),
            found: vec![BTreeMap::new(); setup.nodes],
            healed: None,
            beside: Beside::default(),
            policies: policy.into_iter().map(|policy| (Time::default(), policy)).collect(),
        }
    }

    /// A node's watch has told of a record.
    pub(super) fn hear(&mut self, member: Member, key: &str, value: Option<&[u8]>) {
        if let Some(meter) = &mut self.meters[member] {
            meter.hear(key, value);
        }
    }

    /// The policies by which something may have been done at a moment.
    fn in_force(&self, at: Time) -> impl Iterator<Item = SickPolicy> + '_ {
        let ends = self.policies.iter().skip(1).map(|(next, _)| Some(next.plus(HEARD)));
        let lasting = self.policies.iter().zip(ends.chain([None]));
        lasting
            .filter(move |((since, _), end)| *since <= at && end.is_none_or(|end| end > at))
            .map(|((_, policy), _)| *policy)
    }

    /// May a node have been isolated at a moment?
    pub(super) fn may_isolate(&self, at: Time) -> bool {
        self.in_force(at).any(|policy| policy == SickPolicy::Isolate)
    }

    /// Has the operator said between two moments that nobody is to be isolated?
    pub(super) fn is_set_back(&self, since: Time, until: Time) -> bool {
        let mut policies = self.policies.iter().filter(|(at, _)| *at <= until);
        policies.any(|(at, policy)| *policy < SickPolicy::Isolate && at.plus(HEARD) > since)
    }
}

impl Cluster {
    /// A node's process has started: its links are measured, where they are.
    pub(super) fn begin_to_measure(&mut self, now: Time, member: Member) {
        self.networks.meters[member] = self.setup.measured.map(|_| Meter::new(now, node_id(member)));
        self.networks.found[member].clear();
    }

    /// It has ended.
    pub(super) fn end_measuring(&mut self, member: Member) {
        self.networks.meters[member] = None;
    }

    /// Lets each node go on with measuring.
    pub(super) fn measure(&mut self, now: Time) -> Result<(), String> {
        if self.setup.measured.is_none() {
            return Ok(());
        }
        self.judge_connections(now)?;
        for member in 0..self.nodes.len() {
            let (meter, node) = (&mut self.networks.meters[member], &mut self.nodes[member]);
            let meter = meter.as_mut().filter(|_| node.frozen_until <= now);
            let (report, paths) = meter
                .map(|meter| (meter.act(now, node), meter.moves()))
                .unwrap_or((None, Ok(Vec::new())));
            for path in paths? {
                self.coverage.hit(path);
            }
            if let Some(report) = report {
                self.tell_links(now, member, report)?;
            }
        }
        Ok(())
    }

    /// When it is to go on next.
    pub(super) fn next_measurement(&self) -> Option<Time> {
        let meters = self.networks.meters.iter().zip(&self.nodes);
        let each = meters.filter_map(|(meter, node)| Some(meter.as_ref()?.next()?.max(node.frozen_until)));
        each.min()
    }

    /// All faults end now.
    pub(super) fn networks_heal(&mut self, now: Time) {
        self.networks.healed = Some(now);
    }

    /// What a node finds is told. It finds no link bad that was not of late, be it in use or left.
    fn tell_links(&mut self, now: Time, member: Member, report: LinkReport) -> Result<(), String> {
        self.tell(|| format!("node {}: its links: {report:?}", member + 1));
        let used = report.worst.iter().map(|found| (found, true));
        for (found, is_used) in used.chain(report.left_worst.iter().map(|found| (found, false))) {
            let far = (found.peer.0 as usize - 1, found.network, is_used);
            let known = self.networks.found[member].get(&far);
            if known.is_none_or(|told| told.plus(GOES_ON) < now) && !self.is_made_bad(now, member, found) {
                let name = member + 1;
                return Err(format!(
                    "node {name} finds a link bad, and nothing that was injected has made it so: {found:?}"
                ));
            }
            self.networks.found[member].insert(far, now);
            let is_both = |other: &BadLink| other.peer == found.peer && other.network != found.network;
            if is_used && report.left_worst.iter().any(is_both) {
                self.coverage.hit("network.both_bad");
            }
            self.coverage.hit(match found.what {
                LinkTrouble::Loss => "network.found_lossy",
                LinkTrouble::Late => "network.found_late",
                LinkTrouble::Cut => "network.found_cut",
            });
        }
        self.note(u64::from(report.measured) << 32 | u64::from(report.bad));
        let process = self.nodes[member].process;
        let call = Call::put(links_key(node_id(member)), json(&report));
        self.metadata.call(now, node_id(member), process, Caller::Links, call);
        Ok(())
    }

    /// What was found has been told, or not.
    pub(super) fn links_were_told(&mut self, now: Time, member: Member, result: &Result<Reply, Error>) {
        if let Some(meter) = &mut self.networks.meters[member] {
            meter.told(now, result.is_ok());
        }
    }

    /// The operator sets what becomes of nodes whose network is sick.
    pub(super) fn set_sick_policy(&mut self, now: Time, policy: SickPolicy) {
        let record = self.metadata.state().get(&recovery_key());
        let Some(Ok(mut record)) = record.map(|record| record.json::<Recovery>()) else {
            return;
        };
        record.sick_networks.policy = policy;
        self.metadata.operate(now, &Call::put(recovery_key(), json(&record)));
        self.networks.policies.push((now, policy));
        self.coverage.hit("network.policy_set");
    }

    /// The faults that have made links bad at a moment, or so long before it.
    fn bad_links_at(&self, at: Time, before: Duration) -> impl Iterator<Item = &Fault> {
        let lasts = move |since: Time, fault: &Fault| {
            let end = Time(since.0.saturating_add(fault.bad_for_ns()));
            let end = self.networks.healed.map_or(end, |healed| end.min(healed));
            since <= at && end.plus(before) >= at
        };
        let injected = self.injected.iter();
        injected
            .filter(move |(since, fault)| lasts(*since, fault))
            .map(|(_, fault)| fault)
    }

    /// Has something made the link so that the node may find it bad? Losses it finds of what it sends itself; what is late, or cut, is so
    /// in whichever direction.
    fn is_made_bad(&self, now: Time, member: Member, found: &BadLink) -> bool {
        let peer = found.peer.0 as usize - 1;
        self.bad_links_at(now, FOUND).any(|fault| {
            let Some((one, other)) = fault.bad_sides(self.nodes.len()) else {
                return false;
            };
            let is_node = one.contains(&member) && other.contains(&peer);
            let is_other = other.contains(&member) && one.contains(&peer);
            let may_lose = found.what != LinkTrouble::Loss || fault.loses_of(is_node);
            (is_node || is_other) && may_lose && fault.is_of(found.network)
        })
    }

    /// The other ends of a node's links that are bad at a moment, or were of late, in whichever direction: by a network, or by any.
    pub(super) fn bad_peers(&self, member: Member, at: Time, by: Option<Network>) -> BTreeSet<Member> {
        let mut peers = BTreeSet::new();
        // What was left is told by whoever is elected while it rests.
        let faults = self.bad_links_at(at, if by.is_some() { BACK } else { BLAMED });
        for fault in faults.filter(|fault| by.is_none_or(|network| fault.is_of(network))) {
            let Some((one, other)) = fault.bad_sides(self.nodes.len()) else {
                continue;
            };
            if one.contains(&member) {
                peers.extend(&other);
            }
            if other.contains(&member) {
                peers.extend(&one);
            }
        }
        peers
    }

    /// Is all that is wrong, or was so of late, that first networks are cut or refuse, where there is a second one? Then nothing is evidence
    /// of the death of a node that lives (decisions 027, 068). Where they refuse, the second one may be late: its answer is waited for.
    pub(super) fn are_reached_by_second(&self, at: Time) -> bool {
        let wrong = |fault: &Fault| match fault {
            Fault::BadLinks { bad, networks, .. } => match networks.as_slice() {
                [network] => Some((*network, *bad)),
                _ => None,
            },
            _ => None,
        };
        let faults = self.bad_links_at(at, SETTLED);
        let faults = faults.filter(|fault| !matches!(fault, Fault::SickNetworks { .. }));
        let Some(faults) = faults.map(wrong).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let is_cut = faults.contains(&(Network::First, Bad::Cut));
        let is_reached = |(network, bad): &(Network, Bad)| match (network, bad) {
            (Network::First, Bad::Cut | Bad::Refused) => true,
            (Network::Second, Bad::Late { .. }) => !is_cut,
            _ => false,
        };
        let mut networks = faults.iter().map(|(network, _)| *network);
        let is_first = networks.any(|network| network == Network::First);
        self.setup.has_second() && is_first && faults.iter().all(is_reached)
    }

    /// Is a link bad at a moment, or was one of late?
    fn are_bad(&self, at: Time, by: Option<Network>) -> bool {
        (0..self.nodes.len()).any(|member| !self.bad_peers(member, at, by).is_empty())
    }

    fn has_bad_links(&self) -> bool {
        let mut faults = self.injected.iter();
        faults.any(|(_, fault)| fault.bad_sides(self.nodes.len()).is_some())
    }

    fn link_report(&self, member: Member) -> Option<LinkReport> {
        let record = self.metadata.state().get(&links_key(node_id(member)))?;
        record.json().ok()
    }

    /// Does no node find a link bad any more?
    pub(super) fn links_are_well(&self) -> bool {
        let mut reports = (0..self.nodes.len()).filter_map(|member| self.link_report(member));
        reports.all(|report| report.is_well())
    }

    /// Does every connection between nodes go by the first network, and is nothing said to be sick any more?
    pub(super) fn are_back(&self) -> bool {
        if !self.setup.has_second() {
            return true;
        }
        self.by_second().is_empty() && self.stands().is_none()
    }

    /// Connections between nodes that go by the second network: the places of their ends.
    fn by_second(&self) -> Vec<(u32, u32)> {
        let connections = self.world.connections();
        let is_second = |place: u32| network_of(place) == Network::Second;
        let found = connections.iter().filter(|found| is_second(found.from));
        found.map(|found| (found.from, found.to)).collect()
    }

    /// How long it takes until every group has all of its members in sync, once nothing is wrong any more.
    pub(super) fn recovers_within(&self) -> Duration {
        match self.setup.measured {
            Some(measured) if measured.two => BACK,
            Some(_) => RECOVER,
            None => super::RECOVER,
        }
    }

    /// Links are still found bad.
    pub(super) fn judge_unwell(&self) -> Result<(), String> {
        if self.links_are_well() {
            return match self.are_back() {
                true => Ok(()),
                false => Err(format!(
                    "after {BACK:?} connections go by the second network ({:?}), or something is said to be sick: {:?}",
                    self.by_second(),
                    self.stands()
                )),
            };
        }
        let reports: Vec<_> = (0..self.nodes.len()).map(|member| self.link_report(member)).collect();
        Err(format!(
            "nothing is wrong any more, and after {:?} links are found bad: {reports:?}",
            self.recovers_within()
        ))
    }

    /// Were links measured? Where none was ever bad, nobody was blamed for anything, or the run has failed before.
    pub(super) fn count_measured(&mut self) {
        if self.setup.measured.is_none() {
            return;
        }
        let others = self.nodes.len() - 1;
        let reports = (0..self.nodes.len()).filter_map(|member| self.link_report(member));
        let measured = reports.filter(|report| report.measured as usize * 2 > others).count();
        self.coverage.add("network.measured", measured as u64);
        if measured == self.nodes.len() && !self.has_bad_links() {
            self.coverage.hit("network.healthy");
        }
    }
}
