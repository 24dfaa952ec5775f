//! The records about the network between nodes: what each of them finds of its links to the others.
//!
//! A node writes one record: at its start, when it measures more or much less, when what it finds has changed, and every half minute or more ([`renewed_after`]) while
//! it finds a link bad. A node that lives and whose record names no bad link finds all of its links well: that is what makes a
//! witness of it at no cost. Nothing that must be right rests on these records: they are hints and news.

use crate::id::NodeId;
use crate::map::PREFIX;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The most links that a report names.
pub const MAX_NAMED: usize = 32;
/// The same where more than half of the links are bad: who hardly reaches anybody needs to name nobody.
pub const MAX_NAMED_OF_MOST: usize = 8;

/// How often a report of bad links is renewed in a cluster of so many nodes: each of them watches what each other one writes, and one sick
/// node is found by all of them.
#[must_use]
pub fn renewed_after(nodes: usize) -> Duration {
    Duration::from_secs((nodes as u64).clamp(30, 300))
}

/// A report of bad links that was not renewed for so many seconds is none. Long enough for clocks of nodes that differ by minutes.
pub const STALE_AFTER_S: u64 = 1200;

/// One of the two networks by which a node may be reached: its record has an address for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The one that every node has.
    #[default]
    First,
    /// The other one, where there are two.
    Second,
}

impl Network {
    /// Both.
    pub const ALL: [Network; 2] = [Network::First, Network::Second];

    /// The other one of the two.
    #[must_use]
    pub fn other(self) -> Network {
        match self {
            Network::First => Network::Second,
            Network::Second => Network::First,
        }
    }

    /// Its place among the two, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    fn is_first(&self) -> bool {
        *self == Network::First
    }
}

/// As operators count them: 1 or 2.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index() + 1)
    }
}

/// `/amita/links/NODE_ID/all`: what a node finds of its links to others, in the direction in which it sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkReport {
    /// Counts the writes of the record, so that a renewal is a change.
    pub beat: u64,
    /// When it was written, in seconds since 1970 by the clock of the node.
    pub at_s: u64,
    /// Nodes to which enough was sent to say something.
    pub measured: u32,
    /// Of those: the link is bad.
    pub bad: u32,
    /// The worst of the bad ones, the worst first: [`MAX_NAMED`] at most.
    pub worst: Vec<BadLink>,
    /// Nodes to which it does not send by one of their networks any more, because the link there is bad; they count as well above as
    /// far as the other network is well.
    #[serde(skip_serializing_if = "is_none")]
    pub left: u32,
    /// The worst of these, as they were when they were left: [`MAX_NAMED`] at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_worst: Vec<BadLink>,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

impl LinkReport {
    /// Is it to be believed at this moment, in seconds since 1970? Only what is bad is renewed.
    #[must_use]
    pub fn is_current(&self, now_s: u64) -> bool {
        self.is_well() || self.at_s.saturating_add(STALE_AFTER_S) > now_s
    }

    /// Is no link bad, of those that are used and of those that were left?
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.bad == 0 && self.left == 0
    }

    /// What it says of links that were left, as if that were all.
    #[must_use]
    pub fn of_left(&self, network: Network) -> LinkReport {
        let left = self.left_worst.iter().filter(|found| found.network == network);
        let worst: Vec<BadLink> = left.copied().collect();
        let named = u32::try_from(worst.len()).unwrap_or(u32::MAX);
        // Those that are not named are taken to be of the network of all that are.
        let bad = match !worst.is_empty() && worst.len() == self.left_worst.len() {
            true => self.left.max(named),
            false => named,
        };
        LinkReport {
            beat: self.beat,
            at_s: self.at_s,
            measured: self.measured.max(bad),
            bad,
            worst,
            ..LinkReport::default()
        }
    }

    /// What it says of its links to that node by that network: bad, whether it still uses it or not. Who has left most of its links
    /// names few of them, and speaks of all.
    #[must_use]
    pub fn accuses(&self, node: NodeId, network: Network) -> Option<Accusation> {
        let is_it = |found: &&BadLink| found.peer == node && found.network == network;
        let said = |in_use: bool| move |link: &BadLink| Accusation { link: *link, in_use };
        if let Some(found) = self.worst.iter().find(is_it) {
            return Some(said(true)(found));
        }
        if let Some(found) = self.left_worst.iter().find(is_it) {
            return Some(said(false)(found));
        }
        let left = self.of_left(network);
        let speaks_of_all = !left.is_complete() && left.bad * 2 > left.measured;
        left.worst.first().filter(|_| speaks_of_all).map(said(false))
    }

    /// Does it name all links that are bad?
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.bad as usize <= self.worst.len()
    }
}

/// What a node says of its link to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accusation {
    /// What is wrong with it; of a link that is not named, with one of those that are.
    pub link: BadLink,
    /// It still sends by it. Else it has left it, and found this before.
    pub in_use: bool,
}

/// A link that is bad in one direction, as its sender has measured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLink {
    /// The node at the other end.
    pub peer: NodeId,
    /// By which of that node's networks.
    #[serde(default, skip_serializing_if = "Network::is_first")]
    pub network: Network,
    /// What is wrong with it.
    pub what: LinkTrouble,
    /// Segments with data that were sent, of all connections to that node, in the time that was looked at.
    #[serde(default)]
    pub sent: u64,
    /// Of those: sent again, and not because the peer had them twice.
    #[serde(default)]
    pub lost: u64,
    /// The round trip now, in microseconds.
    #[serde(default)]
    pub round_trip_us: u32,
    /// The shortest that these connections have seen, in microseconds.
    #[serde(default)]
    pub least_us: u32,
}

impl BadLink {
    /// Of a million segments so many were lost; all where the peer is not reached.
    #[must_use]
    pub fn loss_ppm(&self) -> u64 {
        match self.what {
            LinkTrouble::Cut => 1_000_000,
            LinkTrouble::Loss | LinkTrouble::Late => loss_ppm(self.sent, self.lost),
        }
    }

    /// What was measured, in words that stand behind those that name the link; none of one that is cut.
    #[must_use]
    pub fn figures(&self) -> Option<String> {
        match self.what {
            LinkTrouble::Cut => None,
            LinkTrouble::Loss => Some(format!(
                "{} of {} segments were lost ({}.{:02} %)",
                self.lost,
                self.sent,
                self.loss_ppm() / 10_000,
                self.loss_ppm() % 10_000 / 100
            )),
            LinkTrouble::Late => Some(format!(
                "there and back takes {} us, and took {} us",
                self.round_trip_us, self.least_us
            )),
        }
    }
}

/// Of a million segments so many were lost; none where nothing was sent.
#[must_use]
pub fn loss_ppm(sent: u64, lost: u64) -> u64 {
    let ppm = (u128::from(lost) * 1_000_000).checked_div(u128::from(sent));
    ppm.map_or(0, |ppm| u64::try_from(ppm).unwrap_or(u64::MAX).min(1_000_000))
}

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkTrouble {
    /// Packets take many times as long as they did.
    Late,
    /// Packets are lost.
    Loss,
    /// Nothing gets through, though the peer lives.
    Cut,
}

/// The prefix of what nodes find of their links.
#[must_use]
pub fn links_prefix() -> String {
    format!("{PREFIX}links/")
}

/// The node whose report has this key, if it is that of one.
#[must_use]
pub fn reporter(key: &str) -> Option<NodeId> {
    let name = key.strip_prefix(&links_prefix())?;
    name.strip_suffix("/all")?.parse().ok()
}

/// The key of what a node finds of its links.
#[must_use]
pub fn links_key(node: NodeId) -> String {
    format!("{PREFIX}links/{node}/all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_may_lack_what_a_later_version_adds() {
        let found: LinkReport =
            serde_json::from_str(r#"{"measured":3,"bad":2,"worst":[{"peer":7,"what":"cut","later":1}],"later":{}}"#)
                .unwrap();
        assert_eq!((found.measured, found.bad, found.beat), (3, 2, 0));
        assert_eq!((found.worst[0].peer, found.worst[0].loss_ppm()), (NodeId(7), 1_000_000));
        assert!(!found.is_complete());
        assert!(LinkReport::default().is_complete());
    }

    #[test]
    fn what_is_bad_and_not_renewed_is_no_report() {
        let mut report = LinkReport {
            at_s: 10_000,
            bad: 1,
            ..LinkReport::default()
        };
        assert!(report.is_current(9_000) && report.is_current(11_199));
        assert!(!report.is_current(11_200));
        (report.at_s, report.bad) = (0, 0);
        assert!(report.is_current(11_200));
    }

    fn bad(peer: u32, network: Network) -> BadLink {
        BadLink {
            peer: NodeId(peer),
            network,
            what: LinkTrouble::Loss,
            sent: 1000,
            lost: 50,
            round_trip_us: 0,
            least_us: 0,
        }
    }

    /// N talks to N-1: what the earlier version writes can be read, and it reads what has one network as before.
    #[test]
    fn a_report_of_one_network_is_what_it_was() {
        let report = LinkReport {
            measured: 2,
            bad: 1,
            worst: vec![bad(7, Network::First)],
            ..LinkReport::default()
        };
        let text = serde_json::to_string(&report).unwrap();
        assert!(!text.contains("network") && !text.contains("left"), "{text}");
        assert_eq!(serde_json::from_str::<LinkReport>(&text).unwrap(), report);
        let other = LinkReport {
            left: 1,
            left_worst: vec![bad(7, Network::Second)],
            ..report
        };
        let text = serde_json::to_string(&other).unwrap();
        assert!(text.contains(r#""network":"second""#), "{text}");
        assert_eq!(serde_json::from_str::<LinkReport>(&text).unwrap(), other);
    }

    #[test]
    fn who_has_left_most_links_speaks_of_all() {
        let mut report = LinkReport {
            measured: 100,
            left: 40,
            left_worst: vec![bad(7, Network::First)],
            ..LinkReport::default()
        };
        assert!(!report.is_well() && !report.is_current(STALE_AFTER_S) && report.is_current(0));
        let first = |report: &LinkReport, node| report.accuses(NodeId(node), Network::First).is_some();
        assert_eq!((first(&report, 7), first(&report, 8)), (true, false));
        report.left = 60;
        assert_eq!((first(&report, 7), first(&report, 8)), (true, true));
        assert_eq!(report.accuses(NodeId(7), Network::Second), None);
        let of_all = Accusation {
            link: bad(7, Network::First),
            in_use: false,
        };
        assert_eq!(report.accuses(NodeId(8), Network::First), Some(of_all));
        let left = report.of_left(Network::First);
        assert_eq!((left.bad, left.measured, left.worst.len()), (60, 100, 1));
        assert_eq!(report.of_left(Network::Second).bad, 0);
        report.left_worst.push(bad(9, Network::Second));
        assert_eq!(report.of_left(Network::First).bad, 1);
    }

    #[test]
    fn a_bad_link_is_said_with_its_figures() {
        let said = |what| {
            let found = BadLink {
                what,
                lost: 1,
                round_trip_us: 25_000,
                least_us: 100,
                ..bad(7, Network::First)
            };
            found.figures()
        };
        let (lost, late) = (said(LinkTrouble::Loss), said(LinkTrouble::Late));
        assert_eq!(lost.as_deref(), Some("1 of 1000 segments were lost (0.10 %)"));
        assert_eq!(late.as_deref(), Some("there and back takes 25000 us, and took 100 us"));
        assert_eq!(said(LinkTrouble::Cut), None);
    }

    #[test]
    fn large_clusters_renew_seldom() {
        let renewed = [1, 30, 100, 300, 5000].map(|nodes| renewed_after(nodes).as_secs());
        assert_eq!(renewed, [30, 30, 100, 300, 300]);
        assert!(STALE_AFTER_S > 3 * renewed_after(usize::MAX).as_secs());
    }

    #[test]
    fn loss_is_a_share_of_what_was_sent() {
        assert_eq!(
            (loss_ppm(0, 5), loss_ppm(200, 5), loss_ppm(3, 9)),
            (0, 25_000, 1_000_000)
        );
        assert_eq!(loss_ppm(u64::MAX, u64::MAX), 1_000_000);
    }
}
