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

use amita_fabric::{Link, LinkPath};
use amita_reactor::driver::PathCounts;
use amita_types::NodeId;
use amita_types::link::{BadLink, LinkReport, LinkTrouble, MAX_NAMED, MAX_NAMED_OF_MOST, loss_ppm, renewed_after};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
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
    /// The names of the nodes above.
    pub names: Vec<(NodeId, String)>,
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
}

/// What is known of the links to one peer.
#[derive(Debug, Default)]
struct Peer {
    name: String,
    /// What was sent and lost in each round, the newest last.
    rounds: VecDeque<(u64, u64)>,
    /// In this round.
    now: (u64, u64),
    total: (u64, u64),
    round_trip_us: Option<u32>,
    least_us: Option<u32>,
    /// The last round in which there was a connection, or one was missed.
    seen: u64,
    /// The last round in which there was a connection.
    reached: Option<u64>,
    bad: Option<LinkTrouble>,
    /// Rounds in a row that speak against what it is called.
    against: u32,
}

/// What a round says of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Bad(LinkTrouble),
    Well,
    /// Nothing or too little was sent, or it is between the two.
    Unclear,
}

impl Peer {
    /// The newest rounds that say something together: what was sent and lost in them.
    fn window(&self) -> (u64, u64) {
        let (mut sent, mut lost) = (0, 0);
        for (round_sent, round_lost) in self.rounds.iter().rev() {
            (sent, lost) = (sent + round_sent, lost + round_lost);
            if sent >= MIN_SENT {
                break;
            }
        }
        (sent, lost)
    }

    /// Was something lost in several of the newest rounds, or is the newest enough by itself? What was lost in one moment stays in the window
    /// of an idle link for minutes.
    fn goes_on(&self) -> bool {
        let enough = self.rounds.back().is_some_and(|(sent, _)| *sent >= MIN_SENT);
        let mut left = MIN_SENT;
        let mut lossy = 0;
        for (sent, lost) in self.rounds.iter().rev() {
            lossy += u32::from(*lost > 0);
            left = left.saturating_sub(*sent);
            if left == 0 {
                break;
            }
        }
        enough || lossy >= BAD_ROUNDS
    }

    fn sign(&self, cut: bool) -> Sign {
        if cut {
            return Sign::Bad(LinkTrouble::Cut);
        }
        // What old rounds say was counted then, and a round trip of old is none of now.
        if self.rounds.back().is_none_or(|(sent, _)| *sent == 0) {
            return Sign::Unclear;
        }
        let (sent, lost) = self.window();
        let loss = loss_ppm(sent, lost);
        if sent >= MIN_SENT && lost >= MIN_LOST && loss >= BAD_PPM && self.goes_on() {
            return Sign::Bad(LinkTrouble::Loss);
        }
        if let (Some(now), Some(least)) = (self.round_trip_us, self.least_us)
            && now >= LATE_US.max(least.saturating_mul(LATE_TIMES))
        {
            return Sign::Bad(LinkTrouble::Late);
        }
        match sent >= MIN_SENT && loss < WELL_PPM {
            true => Sign::Well,
            false => Sign::Unclear,
        }
    }

    fn end_round(&mut self, cut: bool) {
        self.rounds.push_back(std::mem::take(&mut self.now));
        let mut sent: u64 = self.rounds.iter().map(|(sent, _)| sent).sum();
        while let Some((oldest, _)) = self.rounds.front()
            && (self.rounds.len() > KEPT_ROUNDS || sent - oldest >= MIN_SENT)
        {
            sent -= oldest;
            self.rounds.pop_front();
        }
        let sign = self.sign(cut);
        match (sign, self.bad) {
            // What it is called bad for may change: it is bad all the same.
            (Sign::Bad(what), Some(_)) => (self.bad, self.against) = (Some(what), 0),
            (Sign::Bad(what), None) => {
                self.against += 1;
                if self.against >= BAD_ROUNDS {
                    (self.bad, self.against) = (Some(what), 0);
                }
            }
            (Sign::Well, Some(_)) => {
                self.against += 1;
                if self.against >= WELL_ROUNDS {
                    (self.bad, self.against) = (None, 0);
                }
            }
            // Silence proves nothing. Whoever is not reached any more is forgotten.
            (Sign::Unclear, Some(_)) => {}
            (Sign::Well | Sign::Unclear, None) => self.against = 0,
        }
    }

    fn is_measured(&self) -> bool {
        self.bad.is_some() || self.window().0 >= MIN_SENT
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
    bad: Vec<(NodeId, LinkTrouble)>,
}

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
        for (node, name) in &answer.names {
            if let Some(peer) = self.peers.get_mut(node)
                && peer.name != *name
            {
                peer.name.clone_from(name);
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
        if peer.reached.replace(self.round) != Some(self.round) {
            peer.round_trip_us = None;
        }
        peer.seen = self.round;
        (peer.now.0, peer.now.1) = (peer.now.0 + sent, peer.now.1 + lost);
        (peer.total.0, peer.total.1) = (peer.total.0 + sent, peer.total.1 + lost);
        if counts.least_us > 0 {
            // Connections may go by different ways: the best says how the peer can be reached.
            peer.round_trip_us = peer.round_trip_us.into_iter().chain([counts.round_trip_us]).min();
            peer.least_us = peer.least_us.into_iter().chain([counts.least_us]).min();
        }
    }

    /// The round is over. What is to be told of it, if anything; when that is, is for whoever has a clock to say.
    pub fn end_round(&mut self) -> Option<LinkReport> {
        let (round, cut) = (self.round, std::mem::take(&mut self.cut));
        self.last.retain(|_, (_, seen)| *seen + FORGET_ROUNDS > round);
        self.peers.retain(|_, peer| peer.seen + UNSEEN_ROUNDS > round);
        for (node, peer) in &mut self.peers {
            // With a connection of some core it is reached.
            let is_cut = cut.contains(node) && peer.reached != Some(round);
            peer.end_round(is_cut);
        }
        self.round += 1;
        self.report()
    }

    fn report(&mut self) -> Option<LinkReport> {
        let measured = self.peers.values().filter(|peer| peer.is_measured()).count() as u32;
        let bad = self.bad();
        let kinds: Vec<(NodeId, LinkTrouble)> = bad.iter().map(|found| (found.peer, found.what)).collect();
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
                    || !bad.is_empty() && told.round + renew <= self.round
                    || sorted(&told.bad) != sorted(&kinds)
            }
        };
        if !is_new {
            return None;
        }
        self.beat += 1;
        self.told = Some(Told {
            round: self.round,
            measured,
            bad: kinds,
        });
        let most = match bad.len() * 2 > measured as usize {
            true => MAX_NAMED_OF_MOST,
            false => MAX_NAMED,
        };
        Some(LinkReport {
            beat: self.beat,
            at_s: 0,
            measured,
            bad: bad.len() as u32,
            worst: bad.into_iter().take(most).collect(),
        })
    }

    /// What was to be told could not be: it is told anew.
    pub fn not_told(&mut self) {
        self.told = None;
    }

    /// The bad links, the worst first.
    fn bad(&self) -> Vec<BadLink> {
        let mut bad: Vec<BadLink> = self
            .peers
            .iter()
            .filter_map(|(node, peer)| {
                let (sent, lost) = peer.window();
                Some(BadLink {
                    peer: *node,
                    what: peer.bad?,
                    sent,
                    lost,
                    round_trip_us: peer.round_trip_us.unwrap_or(0),
                    least_us: peer.least_us.unwrap_or(0),
                })
            })
            .collect();
        bad.sort_by_key(|found| (Reverse((found.what, found.loss_ppm())), found.peer));
        bad
    }

    /// The figures of peers, for whoever watches: those with bad links first, [`MAX_SHOWN`] at most.
    #[must_use]
    pub fn shown(&self) -> Vec<PeerLink> {
        let mut all: Vec<(&NodeId, &Peer)> = self.peers.iter().filter(|(_, peer)| !peer.name.is_empty()).collect();
        all.sort_by_key(|(node, peer)| (peer.bad.is_none(), **node));
        let shown = all.into_iter().take(MAX_SHOWN).map(|(_, peer)| PeerLink {
            name: peer.name.clone(),
            sent: peer.total.0,
            lost: peer.total.1,
            round_trip_us: peer.round_trip_us.unwrap_or(0),
            least_us: peer.least_us.unwrap_or(0),
            bad: peer.bad,
        });
        shown.collect()
    }
}

fn sorted(bad: &[(NodeId, LinkTrouble)]) -> Vec<(NodeId, LinkTrouble)> {
    let mut bad = bad.to_vec();
    bad.sort_unstable();
    bad
}
