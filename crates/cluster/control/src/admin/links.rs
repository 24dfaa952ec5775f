//! The links between nodes, as those find them who send by them: who is bad to whom, and whose fault that is.

use super::status::{link_reports, networks};
use super::{Result, members};
use crate::network::Finding;
use amita_metadata::Transact;
use amita_types::NodeId;
use amita_types::link::{BadLink, LinkTrouble};
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
    /// How many links were measured, each direction by itself.
    pub measured: u64,
    /// How many nodes live that could measure.
    pub witnesses: usize,
    /// Of those: they have not told, or not of late.
    pub silent: Vec<NodeId>,
    /// What nodes are called.
    pub names: BTreeMap<NodeId, String>,
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
    let named = reports
        .iter()
        .flat_map(|(from, report)| report.worst.iter().map(|found| (*from, *found)));
    let mut bad: Vec<(NodeId, BadLink)> = named
        .filter(|(from, found)| found.peer != *from && living.contains(&found.peer))
        .collect();
    bad.sort_by_key(|(from, found)| (Reverse(badness(found)), *from, found.peer));
    bad.truncate(MAX_BAD_LINKS);
    Ok(Links {
        findings: networks(&nodes, &reports).0,
        bad,
        bad_count: reports.values().map(|report| u64::from(report.bad)).sum(),
        measured: reports.values().map(|report| u64::from(report.measured)).sum(),
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
