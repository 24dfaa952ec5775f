//! Which peers a core can reach, and for how long it could not reach the others.
//!
//! A process that was killed is found within [`REFUSED_FOR`]: its host closes its connections and refuses new ones. That is
//! believed when each of this node's links to it was refused, by the address that it is known by (by both, where it has two),
//! [`REFUSALS`] times in a row and for that long: a link that breaks and comes back, a process that starts anew within milliseconds, and something
//! in between that refuses for a moment are none of that. All else (a frozen process, a host without power, a cut cable) is
//! silence, which takes [`SILENT_FOR`] to be believed. (Decision 027.)

use super::CoreConfig;
use super::control_plane::ControlPlane;
use crate::mail::{IoMessage, Mail, NodeMessage};
use crate::peer_links::PeerLinks;
use crate::view::View;
use amita_fabric::{Fabric, Link, Message, SendError};
use amita_reactor::Slice;
use amita_reactor::driver::{Driver, Time};
use amita_types::NodeId;
use amita_types::link::Network;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A peer whose port refuses for so long is taken for dead: four times what a process takes that is started again at once by
/// its supervisor, and short beside what hosts notice.
pub const REFUSED_FOR: Duration = Duration::from_millis(50);
/// So many refusals in a row it takes as well: fewer may be one pause of whoever asks.
pub const REFUSALS: u32 = 4;
/// A peer that does not answer at all for so long is taken for dead, and a store that owes an answer is evicted: with what it takes
/// to do so, I/O stands still for less than 1.5 s when a node freezes. A packet that is lost is sent again after 0.2 s, and
/// after 0.6 s when that one is lost, too.
pub const SILENT_FOR: Duration = Duration::from_millis(1300);

/// A peer as this core sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// The link to name in messages (of this core, or of the one that it goes through).
    link: Option<Link>,
    /// The core that holds it.
    holder: usize,
    /// Since when its port has refused connections, and how often in a row.
    refused_since: Option<Time>,
    refusals: u32,
    /// The other cores with links to it were told that this one's is refused.
    said_refused: bool,
    /// Since when it could not be reached in any way.
    away_since: Option<Time>,
    /// It was told to be lost, and has not been there since.
    lost: bool,
}

/// The peers of one core, and its connections to them.
pub(super) struct Peers {
    pub(super) fabric: Fabric,
    /// Links to be closed at the end of the pass.
    given_up: Vec<Link>,
    node: NodeId,
    core: usize,
    cores: usize,
    links: usize,
    refused_for: Duration,
    silent_for: Duration,
    peers: BTreeMap<NodeId, Peer>,
    /// Which cores' links to a peer are refused, as they have said.
    refused_at: BTreeMap<NodeId, BTreeSet<usize>>,
    /// Peers whose connections are to go by another network, one in a pass: what moves is sent again.
    steered: BTreeMap<NodeId, Network>,
}

impl Peers {
    pub(super) fn new(config: &CoreConfig) -> Peers {
        Peers {
            fabric: Fabric::new(config.fabric.clone()),
            given_up: Vec::new(),
            node: config.node,
            core: config.core,
            cores: config.cores,
            links: config.links_per_peer,
            refused_for: config.refused_for,
            silent_for: config.silent_for,
            peers: BTreeMap::new(),
            refused_at: BTreeMap::new(),
            steered: BTreeMap::new(),
        }
    }

    /// Does this core hold a connection to the peer?
    pub(super) fn holds(&self, peer: NodeId) -> bool {
        self.holder(peer, self.core) == self.core
    }

    /// The core that holds the connection to the peer which `core` uses.
    pub(super) fn holder(&self, peer: NodeId, core: usize) -> usize {
        PeerLinks::new(self.node, peer, self.cores, self.links).holder(core)
    }

    /// The link to a peer, and the core that holds it.
    pub(super) fn link_to(&self, peer: NodeId) -> Option<(Link, usize)> {
        let peer = self.peers.get(&peer)?;
        peer.link.map(|link| (link, peer.holder))
    }

    /// Is the peer taken for dead?
    pub(super) fn is_lost(&self, peer: NodeId) -> bool {
        self.peers.get(&peer).is_some_and(|known| known.lost)
    }

    /// Does the peer's port refuse connections: is nobody there, surely?
    pub(super) fn is_refused(&self, peer: NodeId) -> bool {
        let known = self.peers.get(&peer);
        known.is_some_and(|known| known.link.is_none() && known.refused_since.is_some())
    }

    /// Is there a link to the peer, or could it not be reached?
    fn was_tried(&self, peer: NodeId) -> bool {
        let known = self.peers.get(&peer);
        known.is_some_and(|known| known.link.is_some() || known.away_since.is_some())
    }

    /// The peers that are taken for dead.
    pub(super) fn lost(&self) -> impl Iterator<Item = NodeId> {
        self.peers.iter().filter(|(_, p)| p.lost).map(|(n, _)| *n)
    }

    /// The peers that can be reached.
    pub(super) fn up(&self) -> impl Iterator<Item = NodeId> {
        self.peers.iter().filter(|(_, p)| p.link.is_some()).map(|(n, _)| *n)
    }

    /// The cores that hold links to the peer.
    fn holders(&self, peer: NodeId) -> BTreeSet<usize> {
        (0..self.cores).map(|core| self.holder(peer, core)).collect()
    }

    /// Is every link of this node to the peer refused?
    fn is_refused_everywhere(&self, peer: NodeId) -> bool {
        let refused = self.refused_at.get(&peer);
        refused.is_some_and(|refused| self.holders(peer).is_subset(refused))
    }

    /// When a peer that this core cannot reach is believed to refuse, and when to be silent.
    fn due(&self, peer: &Peer) -> [Option<Time>; 2] {
        if peer.lost || peer.link.is_some() {
            return [None; 2];
        }
        let refused = peer.refused_since.map(|since| since.plus(self.refused_for));
        let refused = refused.filter(|_| peer.refusals >= REFUSALS && !peer.said_refused);
        [refused, peer.away_since.map(|since| since.plus(self.silent_for))]
    }

    /// When a peer is next to be taken for dead, or to be moved.
    pub(super) fn deadline(&self) -> Option<Time> {
        if !self.steered.is_empty() {
            return Some(Time::default());
        }
        self.next_lost()
    }

    fn next_lost(&self) -> Option<Time> {
        let held = self.peers.iter().filter(|(peer, _)| self.holds(**peer));
        held.flat_map(|(_, peer)| self.due(peer)).flatten().min()
    }
}

impl Peers {
    /// Sends to every core that goes through this one's connection to the peer, this one included.
    fn tell_followers(&self, mail: &mut Mail, peer: NodeId, make: impl Fn() -> NodeMessage) {
        for core in 0..self.cores {
            if self.holder(peer, core) == self.core {
                mail.send(core, make());
            }
        }
    }

    /// Sends to every core that holds a link to the peer, this one included.
    fn tell_holders(&self, mail: &mut Mail, peer: NodeId, refused: bool) {
        let core = self.core;
        for holder in self.holders(peer) {
            mail.send(holder, NodeMessage::PeerRefused { peer, core, refused });
        }
    }

    /// This core's link is not refused, or not any more.
    fn take_back_refusal(&mut self, mail: &mut Mail, peer: NodeId) {
        let known = self.peers.get_mut(&peer);
        if known.is_some_and(|known| std::mem::take(&mut known.said_refused)) {
            self.tell_holders(mail, peer, false);
        }
    }

    /// A core that holds a link to the peer has said whether that one is refused.
    pub(super) fn on_refused(&mut self, mail: &mut Mail, peer: NodeId, core: usize, refused: bool) {
        let at = self.refused_at.entry(peer).or_default();
        if !refused {
            at.remove(&core);
            return;
        }
        at.insert(core);
        let own = self.peers.get(&peer);
        let agrees = own.is_some_and(|own| own.said_refused && own.link.is_none() && !own.lost);
        if agrees && self.is_refused_everywhere(peer) {
            self.lose(mail, peer);
        }
    }

    /// The cores that go through this one's link are told that the peer is to be taken for dead.
    fn lose(&mut self, mail: &mut Mail, peer: NodeId) {
        self.tell_followers(mail, peer, || NodeMessage::PeerLost { peer });
        if let Some(known) = self.peers.get_mut(&peer) {
            known.lost = true;
        }
    }

    /// A connection of this core to a peer came up: the cores that go through it are told.
    pub(super) fn link_up(&mut self, mail: &mut Mail, peer: NodeId, link: Link) {
        self.take_back_refusal(mail, peer);
        self.tell_followers(mail, peer, || NodeMessage::PeerUp { peer, link });
    }

    /// It broke.
    pub(super) fn link_down(&mut self, mail: &mut Mail, peer: NodeId) {
        self.tell_followers(mail, peer, || NodeMessage::PeerDown { peer });
    }

    /// The core that this one goes through has a link to the peer.
    pub(super) fn on_up(&mut self, peer: NodeId, link: Link) {
        let known = Peer {
            link: Some(link),
            holder: self.holder(peer, self.core),
            ..Peer::default()
        };
        self.peers.insert(peer, known);
    }

    /// It has none any more.
    pub(super) fn on_down(&mut self, now: Time, peer: NodeId) {
        let known = self.peers.entry(peer).or_default();
        known.link = None;
        known.away_since.get_or_insert(now);
    }

    /// Has a connection to each living node been made, or tried in vain? Before that, one that is alive and well could be
    /// taken for away.
    pub(super) fn has_tried_all(&self, view: &View) -> bool {
        let mut others = view.living().filter(|node| *node != self.node);
        others.all(|node| self.was_tried(node))
    }

    /// The fabric could not connect.
    pub(super) fn on_unreachable(&mut self, mail: &mut Mail, now: Time, peer: NodeId, certain: bool) {
        let known = self.peers.entry(peer).or_default();
        if known.link.is_some() {
            return;
        }
        known.away_since.get_or_insert(now);
        if certain {
            known.refused_since.get_or_insert(now);
            known.refusals = known.refusals.saturating_add(1);
        } else {
            // Something is there that does not refuse: only its silence counts.
            known.refused_since = None;
            known.refusals = 0;
            self.take_back_refusal(mail, peer);
        }
    }

    /// The connections of this core to the peer are to go by that network.
    pub(super) fn steer(&mut self, peer: NodeId, network: Network) {
        if self.holds(peer) {
            self.steered.insert(peer, network);
        }
    }

    /// Takes peers for dead that were away for too long; has the connections to one move that is to be moved.
    pub(super) fn check(&mut self, mail: &mut Mail, now: Time) {
        if let Some((peer, network)) = self.steered.pop_first() {
            self.fabric.steer(now, peer, network);
        }
        if self.next_lost().is_none_or(|at| at > now) {
            return;
        }
        let held = self.peers.iter().filter(|(peer, _)| self.holds(**peer));
        let due: Vec<(NodeId, [bool; 2])> = held
            .map(|(peer, known)| (*peer, self.due(known).map(|at| at.is_some_and(|at| now >= at))))
            .filter(|(_, due)| due.contains(&true))
            .collect();
        for (peer, [_, silent]) in due {
            if silent {
                self.lose(mail, peer);
                continue;
            }
            if let Some(known) = self.peers.get_mut(&peer) {
                known.said_refused = true;
            }
            self.tell_holders(mail, peer, true);
        }
    }

    /// The peer is to be taken for dead. Is it, or has it come back meanwhile?
    pub(super) fn on_lost(&mut self, peer: NodeId) -> bool {
        let known = self.peers.entry(peer).or_default();
        known.lost |= known.link.is_none();
        known.link.is_none()
    }

    /// Sends by a link of this core, or of the one that holds it.
    pub(super) fn send_by(
        &mut self,
        (link, holder): (Link, usize),
        message: Message,
        payload: Slice,
        mail: &mut Mail,
        control: &mut ControlPlane,
    ) {
        if holder == self.core {
            self.send(link, message, payload, control);
        } else {
            mail.send(holder, IoMessage::ToPeer { link, message, payload });
        }
    }

    /// Sends by a link of this core.
    pub(super) fn send(&mut self, link: Link, message: Message, payload: Slice, control: &mut ControlPlane) {
        let may_be_lost = matches!(message, Message::Cut(_));
        match self.fabric.send(link, message, payload) {
            Ok(()) | Err(SendError::Closed) => {}
            // Whoever leads a set gives it up without an answer, as where the link has broken, and takes it anew: that is
            // nothing beside the I/O of all volumes that goes by this link.
            Err(SendError::Full) if may_be_lost => {}
            // Hopelessly behind, or not to be said: breaking the link is safe (everything unanswered is sent again in
            // order), dropping one message is not.
            Err(why) => self.give_up(link, &why.to_string(), control),
        }
    }

    /// Answers by a link of this core. One that broke meanwhile has nobody to answer: the asker sends again by a new one (R8).
    pub(super) fn answer(&mut self, link: Link, message: Message, payload: Slice, control: &mut ControlPlane) {
        match self.fabric.send(link, message, payload) {
            Ok(()) | Err(SendError::Closed | SendError::NotAsked) => {}
            // An answer that is never sent would hold a place in the window for good.
            Err(why) => self.give_up(link, &why.to_string(), control),
        }
    }

    /// The link is closed at the end of the pass.
    pub(super) fn give_up(&mut self, link: Link, why: &str, control: &mut ControlPlane) {
        control.warn(format!("a connection is given up: {why}"));
        self.given_up.push(link);
    }

    /// The end of a pass: everything leaves, one send a connection.
    pub(super) fn flush(&mut self, driver: &mut dyn Driver) {
        for link in self.given_up.drain(..) {
            self.fabric.close(driver, link);
        }
        self.fabric.flush(driver);
    }
}
