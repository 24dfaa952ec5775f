//! Whose fault it is: the reports of all nodes on their links, as a matrix, and what explains it.
//!
//! **The story.** A node whose cable loses packets finds its links to all others bad; and all others, who lose nothing of their own, may find
//! nothing, or find their links to it bad, as the cable loses in one direction or both. What one report says blames the reporter or the
//! reported alike; only all of them together say which it is.
//!
//! **Mechanism.** The matrix has a row for each node that lives and has reported: to whom its links are bad, of all. What is
//! left of it is explained by what explains most of it, again and again:
//! 1. a *rack*, if more than half of its nodes (two at least) are bad towards more than half of the nodes of all other racks, in either direction,
//!    and well among themselves, and there are two other racks to say so: its switch or its uplink;
//! 2. a *node*, if its links to more than half of the others (two at least) are bad, or those of more than half of the others to it: its
//!    cable, its interface, or its port of the switch; of those whom nobody measures half count as well, in either direction;
//! 3. what is left are *links* between two nodes.
//!
//! Where most nodes look sick whom no rack explains, or where that would blame more than a third of the nodes, or of the racks, or more than [`MAX_NODES`] or [`MAX_RACKS`], it is the *network*, and
//! nobody is blamed: a healthy node in a sick network looks the same as a sick one in a healthy network. Two nodes alone cannot say
//! which of them it is, either: it is their link.
//!
//! A link that is bad and was left for the other network of the two nodes is in none of this: who has a well network is well. It is
//! judged apart, network by network ([`judge_left`]), so that what is sick is known, and is told once.
//!
//! It costs time in proportion to the bad links (32 a node at most) for each that is blamed, and next to nothing where all is well.

use amita_types::NodeId;
use amita_types::link::{BadLink, LinkReport, LinkTrouble, Network};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[cfg(test)]
mod tests;

/// Links between two nodes that are named at most: more of them are no fault of a link.
pub const MAX_LINKS: usize = 16;
/// Nodes, and racks, that are blamed at most at one time.
pub const MAX_NODES: usize = 32;
pub const MAX_RACKS: usize = 8;

/// A node that lives.
#[derive(Clone, Copy, Debug)]
pub struct Witness<'a> {
    pub node: NodeId,
    /// Its site and its rack, where it has one.
    pub rack: Option<(&'a str, &'a str)>,
    /// What it finds; none: it has not said, or not of late, as one whose network is sick may not. Others judge it all the same.
    pub report: Option<&'a LinkReport>,
}

/// What is sick.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    /// All of it, as far as can be told.
    Network,
    /// A rack's switch or uplink: its site and its name.
    Rack(String, String),
    /// A node's cable, interface or port.
    Node(NodeId),
    /// What is between two nodes, the smaller number first.
    Link(NodeId, NodeId),
}

impl Blame {
    /// What it is, with the names of nodes.
    #[must_use]
    pub fn named(&self, name: &dyn Fn(NodeId) -> String) -> String {
        match self {
            Blame::Network => "the network between most nodes".to_owned(),
            Blame::Rack(site, rack) if site.is_empty() => format!("the network of rack {rack}"),
            Blame::Rack(site, rack) => format!("the network of rack {rack} (site {site})"),
            Blame::Node(node) => format!("the network of node {}", name(*node)),
            Blame::Link(one, other) => format!("the link between nodes {} and {}", name(*one), name(*other)),
        }
    }
}

/// With the numbers of nodes.
impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named(&|node| node.to_string()))
    }
}

/// What is sick, and by what evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub blame: Blame,
    /// Links that are bad as it sends (of a link: from the smaller number to the larger one), and of how many that were measured.
    pub outward: (usize, usize),
    /// The same as others send to it.
    pub inward: (usize, usize),
    /// The worst of them: who sends, and what he finds.
    pub worst: Option<(NodeId, BadLink)>,
}

impl Finding {
    /// How many of a node's links are known to be bad, in the direction in which more of them are.
    #[must_use]
    pub fn bad_links(&self) -> usize {
        self.outward.0.max(self.inward.0)
    }

    /// The evidence, in a sentence without its end, with the numbers of nodes.
    #[must_use]
    pub fn evidence(&self) -> String {
        self.evidence_named(&|node| node.to_string())
    }

    /// The same with their names.
    #[must_use]
    pub fn evidence_named(&self, name: &dyn Fn(NodeId) -> String) -> String {
        let mut parts = Vec::new();
        match self.blame {
            Blame::Link(..) => {}
            Blame::Network => {
                let (sick, of) = self.outward;
                parts.push(format!("{sick} of {of} nodes look sick"));
            }
            Blame::Rack(..) | Blame::Node(_) => {
                let ways = [
                    (self.outward, "that it sends by"),
                    (self.inward, "that others send to it by"),
                ];
                for ((bad, of), what) in ways.into_iter().filter(|((bad, _), _)| *bad > 0) {
                    parts.push(format!("{bad} of {of} links {what} are bad"));
                }
            }
        }
        parts.extend(
            self.worst
                .iter()
                .map(|(from, found)| said(&name(*from), &name(found.peer), found)),
        );
        parts.join("; ")
    }
}

/// What a node has measured.
fn said(from: &str, to: &str, found: &BadLink) -> String {
    match found.what {
        LinkTrouble::Cut => format!("from node {from} nothing reaches node {to}, which lives"),
        LinkTrouble::Loss => format!(
            "from node {from} to node {to} {} of {} segments were lost ({}.{:02} %)",
            found.lost,
            found.sent,
            found.loss_ppm() / 10_000,
            found.loss_ppm() % 10_000 / 100
        ),
        LinkTrouble::Late => format!(
            "from node {from} to node {to} and back it takes {} us, and took {} us",
            found.round_trip_us, found.least_us
        ),
    }
}

/// Says what is sick, the largest thing first.
#[must_use]
pub fn judge(witnesses: &[Witness<'_>]) -> Vec<Finding> {
    let mut matrix = Matrix::new(witnesses);
    if matrix.is_well() {
        return Vec::new();
    }
    let racks = matrix.racks.len();
    let (mut findings, mut blamed_racks, mut blamed_nodes) = (Vec::new(), 0, 0);
    while let Some(finding) = matrix.worst_rack() {
        let Blame::Rack(site, rack) = &finding.blame else { break };
        matrix.explain_rack(site, rack);
        findings.push(finding);
        blamed_racks += 1;
        if blamed_racks * 3 > racks || blamed_racks > MAX_RACKS {
            return vec![Matrix::new(witnesses).network()];
        }
    }
    // Where most look sick there is no need to count how few explain that: too many could.
    if matrix.sick().len() * 2 > witnesses.len() {
        return vec![Matrix::new(witnesses).network()];
    }
    while let Some(finding) = matrix.worst_node() {
        let Blame::Node(node) = finding.blame else { break };
        matrix.explained.insert(node);
        findings.push(finding);
        blamed_nodes += 1;
        if blamed_nodes * 3 > witnesses.len() || blamed_nodes > MAX_NODES {
            return vec![Matrix::new(witnesses).network()];
        }
    }
    findings.extend(matrix.links());
    findings
}

/// Says what is sick of what nodes have left for their other network: first of the one, then of the other. Nobody suffers from it, and nobody
/// is to be kept away for it.
#[must_use]
pub fn judge_left(witnesses: &[Witness<'_>]) -> Vec<(Network, Finding)> {
    let is_left = |witness: &Witness<'_>| witness.report.is_some_and(|report| report.left > 0);
    if !witnesses.iter().any(is_left) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for network in Network::ALL {
        let reports: Vec<Option<LinkReport>> = witnesses
            .iter()
            .map(|witness| witness.report.map(|report| report.of_left(network)))
            .collect();
        let of_left = witnesses.iter().zip(&reports).map(|(witness, report)| Witness {
            node: witness.node,
            rack: witness.rack,
            report: report.as_ref(),
        });
        let findings = judge(&of_left.collect::<Vec<_>>());
        found.extend(findings.into_iter().map(|finding| (network, finding)));
    }
    found
}

/// What one node finds.
struct Row<'a> {
    rack: Option<(&'a str, &'a str)>,
    measured: usize,
    bad: usize,
    /// Those of them that it names.
    named: BTreeMap<NodeId, BadLink>,
    /// Is a link that it does not name well, as it finds? It has measured most of them, and names all that are bad.
    can_deny: bool,
}

/// Who is asked, and how many of them can say that a link is well.
struct Judges<'b> {
    left_out: &'b BTreeSet<NodeId>,
    asked: usize,
    can_deny: usize,
}

struct Matrix<'a> {
    rows: BTreeMap<NodeId, Row<'a>>,
    /// Who names each node.
    accusers: BTreeMap<NodeId, BTreeSet<NodeId>>,
    racks: BTreeMap<(&'a str, &'a str), BTreeSet<NodeId>>,
    /// Nodes whose links are explained: they count no more, on either side.
    explained: BTreeSet<NodeId>,
}

/// Bad links of how many.
type Share = (usize, usize);

fn is_most((bad, of): Share) -> bool {
    bad >= 2 && bad * 2 > of
}

/// Which of two shares is larger, without a division.
fn is_larger(one: Share, other: Share) -> bool {
    let (left, right) = (one.0 * other.1.max(1), other.0 * one.1.max(1));
    left > right || left == right && one.0 > other.0
}

fn larger(one: Share, other: Share) -> Share {
    if is_larger(other, one) { other } else { one }
}

impl<'a> Matrix<'a> {
    fn new(witnesses: &[Witness<'a>]) -> Matrix<'a> {
        let known: BTreeSet<NodeId> = witnesses.iter().map(|witness| witness.node).collect();
        let mut rows = BTreeMap::new();
        let mut accusers: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        let mut racks: BTreeMap<(&str, &str), BTreeSet<NodeId>> = BTreeMap::new();
        let silent = LinkReport::default();
        for witness in witnesses {
            let (node, report) = (witness.node, witness.report.unwrap_or(&silent));
            // Who does not live is no witness, and nobody's link to him says anything.
            let named: BTreeMap<NodeId, BadLink> = report
                .worst
                .iter()
                .filter(|found| found.peer != node && known.contains(&found.peer))
                .map(|found| (found.peer, *found))
                .collect();
            for peer in named.keys() {
                accusers.entry(*peer).or_default().insert(node);
            }
            if let Some(rack) = witness.rack {
                racks.entry(rack).or_default().insert(node);
            }
            // What it says of itself and of strangers goes off its counts; who says more than can be is cut short.
            let foreign = report.worst.len() - named.len();
            let others = known.len() - 1;
            let bad = (report.bad as usize).saturating_sub(foreign).clamp(named.len(), others);
            let measured = (report.measured as usize).clamp(bad, others);
            let row = Row {
                rack: witness.rack,
                // Of idle links that say nothing half of all count as well: a few bad ones among few that are used are no node's.
                measured: measured.max(others.div_ceil(2)),
                bad,
                named,
                can_deny: report.is_complete() && measured * 2 > others,
            };
            rows.insert(node, row);
        }
        Matrix {
            rows,
            accusers,
            racks,
            explained: BTreeSet::new(),
        }
    }

    fn is_well(&self) -> bool {
        self.rows.values().all(|row| row.bad == 0)
    }

    fn counts(&self, node: NodeId) -> bool {
        !self.explained.contains(&node)
    }

    /// Who is asked about a node: all that count but those that are left out.
    fn judges<'b>(&self, left_out: &'b BTreeSet<NodeId>) -> Judges<'b> {
        let rows = self.rows.iter();
        let asked = rows.filter(|(node, _)| self.counts(**node) && !left_out.contains(node));
        let (mut all, mut can_deny) = (0, 0);
        for (_, row) in asked {
            all += 1;
            can_deny += usize::from(row.can_deny);
        }
        Judges {
            left_out,
            asked: all,
            can_deny,
        }
    }

    /// Links by which a node sends to its judges.
    fn outward(&self, node: NodeId, judges: &Judges<'_>) -> Share {
        let Some(row) = self.rows.get(&node) else { return (0, 0) };
        let left_out = judges.left_out;
        let named = row
            .named
            .keys()
            .filter(|peer| self.counts(**peer) && !left_out.contains(peer))
            .count();
        // Those that are left out count, so none of them is explained.
        let gone = self.explained.len() + left_out.len() - usize::from(left_out.contains(&node));
        // Of the bad links that it does not name as many as can be lead to those: they are known to be bad.
        let unnamed = row.bad - row.named.len();
        let unnamed = unnamed.saturating_sub(gone.saturating_sub(row.named.len() - named));
        let measured = row.measured.saturating_sub(gone).max(named + unnamed);
        (named + unnamed, measured)
    }

    /// Links by which its judges send to a node, as far as they can say.
    fn inward(&self, node: NodeId, judges: &Judges<'_>) -> Share {
        let says = |other: &&NodeId| self.counts(**other) && !judges.left_out.contains(other);
        let can_deny = |other: &&NodeId| self.rows.get(other).is_some_and(|row| row.can_deny);
        let accusers = || self.accusers.get(&node).into_iter().flatten().filter(says);
        let bad = accusers().count();
        // Neither itself nor who names it finds its link to it well.
        let own = usize::from(says(&&node));
        let own_denies = usize::from(says(&&node) && can_deny(&&node));
        let well = judges.can_deny - own_denies - accusers().filter(can_deny).count();
        // Of those who cannot say half count as well, as outward: a few accusers among few that measure are no proof.
        (bad, (bad + well).max((judges.asked - own).div_ceil(2)))
    }

    /// The larger of both shares.
    fn share(&self, node: NodeId, judges: &Judges<'_>) -> Share {
        larger(self.outward(node, judges), self.inward(node, judges))
    }

    /// Nodes that look sick. Only who finds something bad, or is found so, can be.
    fn sick(&self) -> Vec<(NodeId, Share)> {
        let none = BTreeSet::new();
        let judges = self.judges(&none);
        let rows = self.rows.iter();
        let suspects = rows.filter(|(node, row)| row.bad > 0 || self.accusers.contains_key(node));
        let suspects = suspects.map(|(node, _)| *node).filter(|node| self.counts(*node));
        let shares = suspects.map(|node| (node, self.share(node, &judges)));
        shares.filter(|(_, share)| is_most(*share)).collect()
    }

    fn worst_node(&self) -> Option<Finding> {
        let mut worst: Option<(NodeId, Share)> = None;
        for (node, share) in self.sick() {
            if worst.is_none_or(|(_, known)| is_larger(share, known)) {
                worst = Some((node, share));
            }
        }
        let (node, _) = worst?;
        let none = BTreeSet::new();
        let judges = self.judges(&none);
        Some(Finding {
            blame: Blame::Node(node),
            outward: self.outward(node, &judges),
            inward: self.inward(node, &judges),
            worst: self.worst_link(|from, to| from == node || to == node),
        })
    }

    fn worst_rack(&self) -> Option<Finding> {
        let mut worst: Option<(Finding, Share)> = None;
        for ((site, rack), members) in &self.racks {
            let left: BTreeSet<NodeId> = members.iter().copied().filter(|node| self.counts(*node)).collect();
            let judges = self.judges(&left);
            let cut = left.iter().filter(|node| is_most(self.share(**node, &judges))).count();
            if !is_most((cut, left.len())) || !self.has_judges(&left) || !self.is_well_inside(&left) {
                continue;
            }
            let add = |one: Share, other: Share| (one.0 + other.0, one.1 + other.1);
            let outward = left.iter().map(|node| self.outward(*node, &judges)).fold((0, 0), add);
            let inward = left.iter().map(|node| self.inward(*node, &judges)).fold((0, 0), add);
            let share = larger(outward, inward);
            if worst.as_ref().is_none_or(|(_, known)| is_larger(share, *known)) {
                let finding = Finding {
                    blame: Blame::Rack((*site).to_owned(), (*rack).to_owned()),
                    outward,
                    inward,
                    worst: self.worst_link(|from, to| left.contains(&from) != left.contains(&to)),
                };
                worst = Some((finding, share));
            }
        }
        worst.map(|(finding, _)| finding)
    }

    /// Are there two other racks (nodes without one are one together) to say that it is this one?
    fn has_judges(&self, members: &BTreeSet<NodeId>) -> bool {
        let rows = self.rows.iter();
        let others = rows.filter(|(node, _)| self.counts(**node) && !members.contains(node));
        let racks: BTreeSet<_> = others.map(|(_, row)| row.rack).collect();
        racks.len() >= 2
    }

    fn is_well_inside(&self, members: &BTreeSet<NodeId>) -> bool {
        let rows = members.iter().filter_map(|node| self.rows.get(node));
        let named = rows.map(|row| row.named.keys().filter(|peer| members.contains(peer)).count());
        named.sum::<usize>() * 2 < members.len() * (members.len() - 1)
    }

    fn explain_rack(&mut self, site: &str, rack: &str) {
        let members = self.racks.get(&(site, rack)).cloned().unwrap_or_default();
        self.explained.extend(members);
    }

    /// The worst link that is left of those that are wanted.
    fn worst_link(&self, wanted: impl Fn(NodeId, NodeId) -> bool) -> Option<(NodeId, BadLink)> {
        let rows = self.rows.iter().filter(|(node, _)| self.counts(**node));
        let links = rows.flat_map(|(node, row)| row.named.values().map(move |found| (*node, *found)));
        let links = links.filter(|(from, found)| self.counts(found.peer) && wanted(*from, found.peer));
        links.max_by_key(|(from, found)| (found.what, found.loss_ppm(), *from, found.peer))
    }

    /// What no node explains.
    fn links(&self) -> Vec<Finding> {
        let mut pairs: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
        for (from, row) in self.rows.iter().filter(|(node, _)| self.counts(**node)) {
            let left = row.named.keys().filter(|peer| self.counts(**peer));
            pairs.extend(left.map(|to| (*from.min(to), *from.max(to))));
        }
        let is_bad = |from: NodeId, to: NodeId| self.rows.get(&from).is_some_and(|row| row.named.contains_key(&to));
        let finding = |(one, other): (NodeId, NodeId)| Finding {
            blame: Blame::Link(one, other),
            outward: (usize::from(is_bad(one, other)), 1),
            inward: (usize::from(is_bad(other, one)), 1),
            worst: self.worst_link(|from, to| (from.min(to), from.max(to)) == (one, other)),
        };
        pairs.into_iter().take(MAX_LINKS).map(finding).collect()
    }

    /// Nobody in particular.
    fn network(&self) -> Finding {
        Finding {
            blame: Blame::Network,
            outward: (self.sick().len(), self.rows.len()),
            inward: (0, 0),
            worst: self.worst_link(|_, _| true),
        }
    }
}
