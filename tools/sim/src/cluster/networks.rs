//! Links between nodes that are measured, and may be bad: the product's own measuring, judge and coordinators, over what the simulated
//! network's kernels count.
//!
//! What a node's thread does around [`Links`](amita_node::links::Links) is done here in virtual time ([`meter`]); the cores answer its questions, and
//! what it finds is a record that all coordinators hear of. What a run must look like is drawn in [`draw`].
//!
//! **What is known and the product is not told** is which links were ever made bad. By that is judged what nodes find, who is
//! blamed, and what becomes of whom ([`verdicts`]); that nobody is isolated who is needed, from the records in the end
//! (`checks::membership::isolation`). When all faults have ended, all links are found well and all copies are there again.

mod draw;
mod meter;
mod verdicts;

pub use draw::Measured;
pub(super) use verdicts::{Verdict, Verdicts};

use super::coordinator::Caller;
use super::node::node_id;
use super::records::json;
use super::{Cluster, Setup};
use crate::faults::Member;
use amita_metadata::{Call, Error, Reply};
use amita_reactor::Time;
use amita_types::link::{LinkReport, LinkTrouble, links_key};
use amita_types::recovery::{Recovery, SickPolicy, recovery_key};
use meter::Meter;
use std::collections::BTreeSet;
use std::time::Duration;

/// What the operator has set is known to whoever leads, and what was decided by it is carried out, within this.
const HEARD: Duration = Duration::from_secs(5);
/// When nothing is wrong any more all links are found well within this, and whoever was isolated is back: rests double, and the longest of a run
/// began when the last fault was some minutes old.
const RECOVER: Duration = Duration::from_secs(1800);

/// What measures, and by which policy is judged.
pub(super) struct Networks {
    meters: Vec<Option<Meter>>,
    /// What the operator has set, and when.
    policies: Vec<(Time, SickPolicy)>,
}

impl Networks {
    pub(super) fn new(setup: &Setup) -> Networks {
        let policy = setup.measured.map(|measured| measured.settings.policy);
        Networks {
            meters: (0..setup.nodes).map(|_| None).collect(),
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
        for member in 0..self.nodes.len() {
            let (meter, node) = (&mut self.networks.meters[member], &mut self.nodes[member]);
            let meter = meter.as_mut().filter(|_| node.frozen_until <= now);
            if let Some(report) = meter.and_then(|meter| meter.act(now, node)) {
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

    /// What a node finds is told. It finds no link bad that never was.
    fn tell_links(&mut self, now: Time, member: Member, report: LinkReport) -> Result<(), String> {
        self.tell(|| format!("node {}: its links: {report:?}", member + 1));
        for found in &report.worst {
            let peer = found.peer.0 as usize - 1;
            if !self.bad_peers(member, now).contains(&peer) {
                let name = member + 1;
                return Err(format!(
                    "node {name} finds a link bad, and nothing that was injected has made it so: {found:?}"
                ));
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

    /// The other ends of a node's links that were made bad before a moment, in whichever direction.
    pub(super) fn bad_peers(&self, member: Member, at: Time) -> BTreeSet<Member> {
        let mut peers = BTreeSet::new();
        for (_, fault) in self.injected.iter().filter(|(since, _)| *since <= at) {
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

    /// How long it takes until every group has all of its members in sync, once nothing is wrong any more.
    pub(super) fn recovers_within(&self) -> Duration {
        match self.setup.measured {
            Some(_) => RECOVER,
            None => super::RECOVER,
        }
    }

    /// Links are still found bad.
    pub(super) fn judge_unwell(&self) -> Result<(), String> {
        if self.links_are_well() {
            return Ok(());
        }
        let reports: Vec<_> = (0..self.nodes.len()).map(|member| self.link_report(member)).collect();
        Err(format!(
            "nothing is wrong any more, and after {RECOVER:?} links are found bad: {reports:?}"
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
