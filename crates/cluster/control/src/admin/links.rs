//! The links between nodes, as those find them who send by them: who is bad to whom, and whose fault that is.

use super::status::{link_reports, networks};
use super::{Result, members};
use crate::network::Finding;
use amita_metadata::Transact;
use amita_types::NodeId;
use amita_types::link::{BadLink, LinkReport, LinkTrouble, Network};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// So many bad links are named at most, the worst of all nodes.
pub const MAX_BAD_LINKS: usize = 1000;

/// What is known of the links between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// What is sick, the largest thing first.
    pub findings: Vec<Finding>,
    /// Bad links between nodes that live: who sends, and what he finds; the worst first, [`MAX_BAD_LINKS`] at most.
    pub bad: Vec<(NodeId, BadLink)>,
    /// How many links are bad, as their senders count: they name the worst of theirs alone.
    pub bad_count: u64,
    /// Bad links that were left for the other network of the nodes at their ends.
    pub left: LeftLinks,
    /// How many links were measured, each direction by itself.
    pub measured: u64,
    /// How many nodes live that could measure.
    pub witnesses: usize,
    /// Of those: they have not told, or not of late.
    pub silent: Vec<NodeId>,
    /// What nodes are called.
    pub names: BTreeMap<NodeId, String>,
}

/// Links that are bad, and that their senders have left for the other network: nobody suffers from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftLinks {
    /// What is sick of which network, first of the one and then of the other; of each the largest thing first.
    pub findings: Vec<(Network, Finding)>,
    /// Who has left what, as he found it when he left it; the worst first, [`MAX_BAD_LINKS`] at most.
    pub bad: Vec<(NodeId, BadLink)>,
    /// How many links were left, as their senders count.
    pub count: u64,
}

impl Links {
    /// What a node is called; its number where nobody knows.
    #[must_use]
    pub fn name(&self, node: NodeId) -> String {
        self.names.get(&node).cloned().unwrap_or_else(|| node.to_string())
    }
}

/// How bad a link is: what is cut is worse than what loses, and that worse than what is late.
fn badness(found: &BadLink) -> (bool, u64, u32) {
    (found.what == LinkTrouble::Cut, found.loss_ppm(), found.round_trip_us)
}

/// What nodes that live name of other nodes that live, the worst first.
fn worst(
    reports: &BTreeMap<NodeId, LinkReport>,
    living: &BTreeSet<NodeId>,
    named: impl Fn(&LinkReport) -> &[BadLink],
) -> Vec<(NodeId, BadLink)> {
    let all = reports
        .iter()
        .flat_map(|(from, report)| named(report).iter().map(|found| (*from, *found)));
    let mut bad: Vec<(NodeId, BadLink)> = all
        .filter(|(from, found)| found.peer != *from && living.contains(&found.peer))
        .collect();
    bad.sort_by_key(|(from, found)| (Reverse(badness(found)), *from, found.peer, found.network));
    bad.truncate(MAX_BAD_LINKS);
    bad
}

/// Reads what nodes find of their links, and judges it as a status does.
///
/// # Errors
/// The metadata is away.
pub fn links(meta: &dyn Transact) -> Result<Links> {
    let nodes = members(meta)?.nodes;
    let living: BTreeSet<NodeId> = nodes
        .iter()
        .filter(|found| found.alive && !found.node.client)
        .map(|found| found.node.id)
        .collect();
    let reports = link_reports(meta, &living)?;
    let (findings, left_findings) = networks(&nodes, &reports);
    let sum = |count: fn(&LinkReport) -> u32| -> u64 { reports.values().map(|report| u64::from(count(report))).sum() };
    Ok(Links {
        findings,
        bad: worst(&reports, &living, |report| &report.worst),
        bad_count: sum(|report| report.bad),
        left: LeftLinks {
            findings: left_findings,
            bad: worst(&reports, &living, |report| &report.left_worst),
            count: sum(|report| report.left),
        },
        measured: sum(|report| report.measured),
        witnesses: living.len(),
        silent: living
            .iter()
            .copied()
            .filter(|node| !reports.contains_key(node))
            .collect(),
        names: nodes
            .into_iter()
            .map(|found| (found.node.id, found.node.name))
            .collect(),
    })
}
