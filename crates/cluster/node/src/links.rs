//! What a node finds of its links to others: how much of what it sends is lost, and how long the way is.
//!
//! **The story.** A cable, a transceiver or a switch's port that loses one packet in fifty breaks no connection: the kernel sends again,
//! and every I/O over it waits for that. The kernel knows best. For each connection it counts what it has sent, what it had to send again, and what of that the
//! peer had after all; so real traffic is what measures, in the direction in which it goes, and nothing can be forged that was not sent. The other
//! direction is told by the other end. Connections without traffic are asked every five seconds whether the peer is there, which is
//! traffic enough to say something within ten minutes.
//!
//! **Mechanism.** Every [`ROUND`] a thread asks the cores for the counts of their connections and hands them to this state machine. It adds up
//! what is new by peers, and looks at the newest rounds that have [`MIN_SENT`] segments together: ten seconds of a busy link, some eight minutes of
//! an idle one. Bad three times in a row, the link is called bad; well six times in a row, it is well. What is found is one record
//! ([`amita_types::link`]); whose fault it is, is judged from the records of all nodes (`amita_control::network`).

//!
//! Where a peer has two networks each is measured and judged for itself, and [`choice`] says by which of them it is sent to. What was left
//! because it is bad is told apart from what is bad and in use: the cluster blames nobody for it.

mod choice;
mod side;
mod tale;

pub use choice::{Left, Tale};
pub use tale::drafts;

use amita_fabric::{Link, LinkPath};
use amita_reactor::driver::PathCounts;
use amita_types::NodeId;
use amita_types::link::{
    Accusation, BadLink, LinkReport, LinkTrouble, MAX_NAMED, MAX_NAMED_OF_MOST, Network, renewed_after, reporter,
};
use amita_types::recovery::{Recovery, SickPolicy, recovery_key};
use choice::{Choice, Seen};
use side::Side;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::mpsc::Sender;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Between two looks at the connections.
pub const ROUND: Duration = Duration::from_secs(10);
/// Rounds that are kept of each peer at most: fifteen minutes, in which one idle connection each way sends 360 segments. Of a busy peer as
/// many as have [`MIN_SENT`].
const KEPT_ROUNDS: usize = 90;
/// Peers that were not seen for so many rounds are forgotten.
const UNSEEN_ROUNDS: u64 = 30;
/// Segments that say something about a link.
const MIN_SENT: u64 = 200;
/// Fewer that were lost are an accident.
const MIN_LOST: u64 = 5;
/// Loss of a bad link, in millionths: at one percent TCP has lost most of its speed, and one I/O in fifty waits for a segment that is
/// sent again.
const BAD_PPM: u64 = 10_000;
/// Loss of a link that is well again. Between the two nothing changes.
const WELL_PPM: u64 = 3_000;
/// A link is late when a round trip takes so many times as long as it can, and
const LATE_TIMES: u32 = 10;
/// at least so long, in microseconds: what a full queue of a port takes is less.
const LATE_US: u32 = 20_000;
/// Rounds in a row that make a link bad, and well.
const BAD_ROUNDS: u32 = 3;
const WELL_ROUNDS: u32 = 6;
/// Connections that were not seen for so many rounds are forgotten.
const FORGET_ROUNDS: u64 = 64;
/// A network that was left and had no connection for so many rounds is measured anew when it has one.
const UNUSED_ROUNDS: u64 = 3;
/// Peers whose figures are shown at most: those with bad links first.
pub const MAX_SHOWN: usize = 128;

/// Places of a core's table of connections that one question is about: that many system calls in a pass.
pub const PLACES_PER_QUESTION: usize = 64;

/// A question to a core: what are its connections like? Answered with one [`LinkAnswer`].
#[derive(Clone, Debug)]
pub struct LinkQuestion {
    /// The place of its table to begin with.
    pub from: usize,
    /// Where the answer goes.
    pub reply: Sender<Box<LinkAnswer>>,
}

/// What a core has to say of some of its connections.
#[derive(Clone, Debug)]
pub struct LinkAnswer {
    pub core: usize,
    /// Connections to nodes (not to clients) that are up.
    pub paths: Vec<LinkPath>,
    /// Where to go on; `None`: these were the last.
    pub next: Option<usize>,
    /// Nodes that live and that this core cannot reach.
    pub cut: Vec<NodeId>,
    /// The nodes above.
    pub named: Vec<Named>,
}

/// A node, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub node: NodeId,
    pub name: String,
    /// Has it two networks?
    pub has_second: bool,
}

/// What a node has heard of others, beside what it measures.
#[derive(Clone, Debug)]
pub struct Heard {
    /// What the cluster does about sick networks.
    pub policy: SickPolicy,
    /// What others find of their links to this node, by the networks of this node, as far as they are bad.
    pub accusers: BTreeMap<NodeId, [Option<Accusation>; 2]>,
}

impl Heard {
    /// A record of the metadata is there, or (`None`) gone. Only those count that say what is done about sick networks, and what others
    /// find of their links to `node`, which is this one.
    pub fn hear(&mut self, node: NodeId, key: &str, value: Option<&[u8]>) {
        if key == recovery_key() {
            let said = value.and_then(|value| serde_json::from_slice::<Recovery>(value).ok());
            // What cannot be read changes nothing, as everywhere.
            if value.is_none() || said.is_some() {
                self.policy = said.unwrap_or_default().sick_networks.policy;
            }
            return;
        }
        let Some(other) = reporter(key).filter(|other| *other != node) else {
            return;
        };
        let report = value.and_then(|value| serde_json::from_slice::<LinkReport>(value).ok());
        let found = report.map(|report| Network::ALL.map(|network| report.accuses(node, network)));
        self.accusers.remove(&other);
        if let Some(found) = found.filter(|found| found.iter().any(Option::is_some)) {
            self.accusers.insert(other, found);
        }
    }
}

impl Default for Heard {
    fn default() -> Heard {
        Heard {
            policy: SickPolicy::Propose,
            accusers: BTreeMap::new(),
        }
    }
}

/// What comes of a round.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// What is to be told of it, if anything; when that is, is for whoever has a clock to say.
    pub report: Option<LinkReport>,
    /// Peers whose connections are to go by another network.
    pub steer: Vec<(NodeId, Network)>,
    /// What is to be told of networks that were left, or are used again.
    pub tales: Vec<(NodeId, String, Tale)>,
}

/// A peer, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLink {
    /// Its name.
    pub name: String,
    /// Segments with data that were sent to it, and of those lost, since this process has begun.
    pub sent: u64,
    pub lost: u64,
    pub round_trip_us: u32,
    pub least_us: u32,
    /// Is the link called bad?
    pub bad: Option<LinkTrouble>,
    /// By which of its networks it is sent to.
    pub network: Network,
    /// What is wrong with the other one, if it was left for that.
    pub left: Option<LinkTrouble>,
}

/// What is known of the links to one peer.
#[derive(Debug, Default)]
struct Peer {
    name: String,
    has_second: bool,
    /// By each of its networks.
    sides: [Side; 2],
    /// By which of them connections of this node go, in this round.
    on: [bool; 2],
    choice: Choice,
    /// By which it was sent to in the last one.
    shown_network: Network,
    /// The last round in which there was a connection, or one was missed.
    seen: u64,
}

impl Peer {
    fn side(&self, network: Network) -> &Side {
        &self.sides[network.index()]
    }

    /// Was that network left, and is it tried again, by whichever end? What was measured before is none of now: it would be said of what is
    /// in use, long after.
    fn is_tried_again(&self, round: u64, network: Network) -> bool {
        let is_left = self.choice.left().is_some_and(|left| left.link.network == network);
        let reached = self.side(network).reached;
        is_left && reached.is_some_and(|seen| seen + UNUSED_ROUNDS < round)
    }

    /// Was there a connection of either end by that network in that round?
    fn is_used(&self, round: u64, network: Network) -> bool {
        self.side(network).reached == Some(round)
    }

    /// The networks that are in use, or without a connection the one that is wanted.
    fn in_use(&self, round: u64) -> impl Iterator<Item = Network> + use<'_> {
        let is_any = Network::ALL.into_iter().any(|network| self.is_used(round, network));
        let wanted = self.choice.wanted();
        Network::ALL.into_iter().filter(move |network| match is_any {
            true => self.is_used(round, *network),
            false => *network == wanted,
        })
    }

    fn is_measured(&self, round: u64) -> bool {
        self.in_use(round).any(|network| self.side(network).is_measured())
    }

    /// The worst that there is to say against what is in use. What is about to be left says nothing against the peer.
    fn worst(&self, node: NodeId, round: u64) -> Option<BadLink> {
        let stays = self.in_use(round).filter(|network| !self.choice.is_leaving(*network));
        let bad = stays.filter_map(|network| self.side(network).bad_link(node, network));
        bad.max_by_key(|found| (found.what, found.loss_ppm()))
    }

    /// The network by which it is sent to.
    fn network(&self) -> Network {
        let wanted = self.choice.wanted();
        let is_elsewhere = self.on[wanted.other().index()] && !self.on[wanted.index()];
        if is_elsewhere { wanted.other() } else { wanted }
    }
}

/// The links of one node. One round goes: [`Links::take`] each answer, then [`Links::end_round`].
#[derive(Debug, Default)]
pub struct Links {
    /// The counts of each connection of each core when it was last looked at, and in which round.
    last: HashMap<(usize, Link), (PathCounts, u64)>,
    peers: BTreeMap<NodeId, Peer>,
    /// Peers that a core cannot reach, in this round.
    cut: BTreeSet<NodeId>,
    round: u64,
    told: Option<Told>,
    beat: u64,
}

/// What was told last, and when.
#[derive(Debug)]
struct Told {
    round: u64,
    measured: u32,
    /// How many of the bad ones are in use.
    used: usize,
    /// Those in use, then those that were left.
    bad: Vec<Kind>,
}

/// A link that is bad, and for what.
type Kind = (NodeId, Network, LinkTrouble);

impl Links {
    /// Takes in what a core has said.
    pub fn take(&mut self, answer: &LinkAnswer) {
        for path in &answer.paths {
            self.take_path(answer.core, path);
        }
        for node in &answer.cut {
            self.cut.insert(*node);
            self.peers.entry(*node).or_default().seen = self.round;
        }
        for named in &answer.named {
            if let Some(peer) = self.peers.get_mut(&named.node) {
                peer.has_second = named.has_second;
                if peer.name != named.name {
                    peer.name.clone_from(&named.name);
                }
            }
        }
    }

    fn take_path(&mut self, core: usize, path: &LinkPath) {
        let counts = path.counts;
        let before = self.last.insert((core, path.link), (counts, self.round));
        let before = before.map(|(before, _)| before).unwrap_or_default();
        let lost = |counts: PathCounts| counts.resent.saturating_sub(counts.doubled);
        let sent = u64::from(counts.sent.wrapping_sub(before.sent));
        // What the peer had twice may be told later than it was sent again.
        let lost = u64::from(lost(counts).saturating_sub(lost(before))).min(sent);
        let peer = self.peers.entry(path.peer).or_default();
        peer.seen = self.round;
        let place = path.network.index();
        peer.on[place] |= path.outgoing;
        if peer.is_tried_again(self.round, path.network) {
            peer.sides[place].forget();
        }
        peer.sides[place].take(self.round, (sent, lost), &counts);
    }

    /// The round is over.
    pub fn end_round(&mut self, heard: &Heard) -> Round {
        let (round, cut) = (self.round, std::mem::take(&mut self.cut));
        self.last.retain(|_, (_, seen)| *seen + FORGET_ROUNDS > round);
        self.peers.retain(|_, peer| peer.seen + UNSEEN_ROUNDS > round);
        let mut ended = Round::default();
        for (node, peer) in &mut self.peers {
            // With a connection of some core it is reached.
            let is_reached = Network::ALL.into_iter().any(|network| peer.is_used(round, network));
            let is_cut = cut.contains(node) && !is_reached;
            let wanted = peer.choice.wanted();
            for network in Network::ALL {
                let side = &mut peer.sides[network.index()];
                if network == wanted || side.reached.is_some() {
                    side.end_round(is_cut && network == wanted);
                }
            }
            decide(*node, peer, round, heard, &mut ended);
        }
        ended.report = self.report();
        for peer in self.peers.values_mut() {
            peer.on = [false; 2];
        }
        self.round += 1;
        ended
    }

    fn report(&mut self) -> Option<LinkReport> {
        let round = self.round;
        let measured = self.peers.values().filter(|peer| peer.is_measured(round)).count() as u32;
        let (bad, left) = (self.bad(), self.left());
        let kinds: Vec<Kind> = bad
            .iter()
            .chain(&left)
            .map(|found| (found.peer, found.network, found.what))
            .collect();
        // What is bad is told anew, so that it is known to be so still.
        let renew = renewed_after(self.peers.len() + 1).as_secs() / ROUND.as_secs();
        let is_new = match &self.told {
            // What is there may be of an earlier life.
            None => true,
            Some(told) => {
                // Links stand above and below what says something by turns: who measures a few less than before says nothing.
                let grown = measured > told.measured + told.measured / 4;
                let fallen = measured < told.measured / 2;
                grown
                    || fallen
                    || !kinds.is_empty() && told.round + renew <= self.round
                    || (told.used, sorted(&told.bad)) != (bad.len(), sorted(&kinds))
            }
        };
        if !is_new {
            return None;
        }
        self.beat += 1;
        self.told = Some(Told {
            round: self.round,
            measured,
            used: bad.len(),
            bad: kinds,
        });
        let most = |links: &[BadLink]| match links.len() * 2 > measured as usize {
            true => MAX_NAMED_OF_MOST,
            false => MAX_NAMED,
        };
        let (most_bad, most_left) = (most(&bad), most(&left));
        Some(LinkReport {
            beat: self.beat,
            at_s: 0,
            measured,
            bad: bad.len() as u32,
            worst: bad.into_iter().take(most_bad).collect(),
            left: left.len() as u32,
            left_worst: left.into_iter().take(most_left).collect(),
        })
    }

    /// What was to be told could not be: it is told anew.
    pub fn not_told(&mut self) {
        self.told = None;
    }

    /// The bad links that are in use, the worst first.
    fn bad(&self) -> Vec<BadLink> {
        let peers = self.peers.iter();
        worst_first(peers.filter_map(|(node, peer)| peer.worst(*node, self.round)))
    }

    /// Those that were left for being bad as this node has found, the worst first.
    fn left(&self) -> Vec<BadLink> {
        let left = self.peers.values().filter_map(|peer| peer.choice.left());
        worst_first(left.filter(|left| left.own).map(|left| left.link))
    }

    /// The figures of peers, for whoever watches: those with bad links first, [`MAX_SHOWN`] at most.
    #[must_use]
    pub fn shown(&self) -> Vec<PeerLink> {
        // The round that is shown has ended.
        let round = self.round.saturating_sub(1);
        let named = self.peers.iter().filter(|(_, peer)| !peer.name.is_empty());
        let mut all: Vec<(NodeId, &Peer, Option<BadLink>)> = named
            .map(|(node, peer)| (*node, peer, peer.worst(*node, round)))
            .collect();
        all.sort_by_key(|(node, peer, bad)| (bad.is_none(), peer.choice.left().is_none(), *node));
        let shown = all.into_iter().take(MAX_SHOWN).map(|(_, peer, bad)| {
            let total = |of: fn(&Side) -> u64| -> u64 { peer.sides.iter().map(of).sum() };
            let best = |of: fn(&Side) -> Option<u32>| -> u32 {
                let in_use = peer.in_use(round).filter_map(|network| of(peer.side(network)));
                in_use.min().unwrap_or(0)
            };
            PeerLink {
                name: peer.name.clone(),
                sent: total(|side| side.total.0),
                lost: total(|side| side.total.1),
                round_trip_us: best(|side| side.round_trip_us),
                least_us: best(|side| side.least_us),
                bad: bad.map(|found| found.what),
                network: peer.shown_network,
                left: peer.choice.left().map(|left| left.link.what),
            }
        });
        shown.collect()
    }
}

/// By which of its networks a peer is sent to, and what is to be told of that.
fn decide(node: NodeId, peer: &mut Peer, round: u64, heard: &Heard, ended: &mut Round) {
    peer.shown_network = peer.network();
    if !peer.has_second {
        return peer.choice.reset();
    }
    let own = Network::ALL.map(|network| peer.side(network).bad_link(node, network));
    // What the peer sends here by its own connections goes by a network of this node, which is the same one.
    let told = heard.accusers.get(&node).copied().unwrap_or_default();
    let of_peer = |said: Accusation| Accusation {
        link: BadLink {
            peer: node,
            ..said.link
        },
        ..said
    };
    let told = told.map(|said| said.map(of_peer));
    let cut = BadLink {
        peer: node,
        network: peer.choice.wanted(),
        what: LinkTrouble::Cut,
        sent: 0,
        lost: 0,
        round_trip_us: 0,
        least_us: 0,
    };
    let seen = Seen {
        on: peer.on,
        used: Network::ALL.map(|network| peer.is_used(round, network)),
        own,
        told,
    };
    let step = peer.choice.decide(round, heard.policy, cut, &seen);
    if let Some(network) = step.forget {
        peer.sides[network.index()].forget();
    }
    ended.steer.extend(step.steer.map(|network| (node, network)));
    ended
        .tales
        .extend(step.tale.map(|tale| (node, peer.name.clone(), tale)));
}

fn worst_first(bad: impl Iterator<Item = BadLink>) -> Vec<BadLink> {
    let mut bad: Vec<BadLink> = bad.collect();
    bad.sort_by_key(|found| (Reverse((found.what, found.loss_ppm())), found.peer));
    bad
}

fn sorted(bad: &[Kind]) -> Vec<Kind> {
    let mut bad = bad.to_vec();
    bad.sort_unstable();
    bad
}
