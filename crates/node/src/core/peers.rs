//! Which peers a core can reach, and for how long it could not reach the others.

use super::{Core, CoreConfig};
use crate::lanes::Lanes;
use crate::mail::CoreMessage;
use amita_cluster::{NodeId, StoreId};
use amita_fabric::Link;
use amita_reactor::driver::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// A peer as this core sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// The link to name in messages (of this core, or of the one that it goes through).
    link: Option<Link>,
    /// The core that holds it.
    holder: usize,
    /// Since when its port has refused connections.
    refused_since: Option<Time>,
    /// Since when it could not be reached in any way.
    away_since: Option<Time>,
    /// It was told to be lost, and has not been there since.
    lost: bool,
}

/// The peers of one core.
#[derive(Debug)]
pub(super) struct Peers {
    node: NodeId,
    core: usize,
    cores: usize,
    links: usize,
    refused_for: Duration,
    silent_for: Duration,
    peers: BTreeMap<NodeId, Peer>,
}

impl Peers {
    pub(super) fn new(config: &CoreConfig) -> Peers {
        Peers {
            node: config.node,
            core: config.core,
            cores: config.cores,
            links: config.links_per_peer,
            refused_for: config.refused_for,
            silent_for: config.silent_for,
            peers: BTreeMap::new(),
        }
    }

    /// Does this core hold a connection to the peer?
    pub(super) fn holds(&self, peer: NodeId) -> bool {
        self.holder(peer, self.core) == self.core
    }

    /// The core that holds the connection to the peer which `core` uses.
    pub(super) fn holder(&self, peer: NodeId, core: usize) -> usize {
        Lanes::new(self.node, peer, self.cores, self.links).holder(core)
    }

    /// The link to a peer, and the core that holds it.
    pub(super) fn route(&self, peer: NodeId) -> Option<(Link, usize)> {
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

    fn is_due(&self, peer: &Peer, now: Time) -> bool {
        !peer.lost
            && peer.link.is_none()
            && (peer
                .refused_since
                .is_some_and(|since| now >= since.plus(self.refused_for))
                || peer.away_since.is_some_and(|since| now >= since.plus(self.silent_for)))
    }

    /// When a peer is next to be taken for dead.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.peers
            .iter()
            .filter(|(peer, p)| !p.lost && p.link.is_none() && self.holds(**peer))
            .flat_map(|(_, p)| {
                let refused = p.refused_since.map(|since| since.plus(self.refused_for));
                let silent = p.away_since.map(|since| since.plus(self.silent_for));
                [refused, silent]
            })
            .flatten()
            .min()
    }
}

impl Core {
    /// Sends to every core that goes through this one's connection to the peer, this one included.
    fn tell_followers(&mut self, peer: NodeId, make: impl Fn() -> CoreMessage) {
        for core in 0..self.config.cores {
            if self.peers.holder(peer, core) == self.config.core {
                self.mail.send(core, make());
            }
        }
    }

    /// A connection of this core to a peer came up: the cores that go through it are told.
    pub(super) fn link_up(&mut self, peer: NodeId, link: Link) {
        self.tell_followers(peer, || CoreMessage::PeerUp { peer, link });
    }

    /// It broke.
    pub(super) fn link_down(&mut self, peer: NodeId) {
        self.tell_followers(peer, || CoreMessage::PeerDown { peer });
    }

    pub(super) fn on_peer_up(&mut self, now: Time, peer: NodeId, link: Link) {
        let known = Peer {
            link: Some(link),
            holder: self.peers.holder(peer, self.config.core),
            ..Peer::default()
        };
        self.peers.peers.insert(peer, known);
        for store in self.stores_of(peer) {
            self.shards.store_up(now, store);
        }
        self.settle_ways(now);
    }

    pub(super) fn on_peer_down(&mut self, now: Time, peer: NodeId) {
        let known = self.peers.peers.entry(peer).or_default();
        known.link = None;
        known.away_since.get_or_insert(now);
        for store in self.stores_of(peer) {
            self.shards.store_down(now, store);
        }
        self.take_back(now, peer);
    }

    /// Has a connection to each living node been made, or tried in vain? Before that, one that is alive and well could be
    /// taken for away.
    #[must_use]
    pub fn has_tried_all(&self) -> bool {
        let mut others = self.view.living().filter(|node| *node != self.config.node);
        others.all(|node| self.peers.was_tried(node))
    }

    /// The fabric could not connect.
    pub(super) fn on_unreachable(&mut self, now: Time, peer: NodeId, certain: bool) {
        self.stirred = true;
        let known = self.peers.peers.entry(peer).or_default();
        if known.link.is_some() {
            return;
        }
        known.away_since.get_or_insert(now);
        if certain {
            known.refused_since.get_or_insert(now);
        } else {
            // Something is there that does not refuse: only its silence counts.
            known.refused_since = None;
        }
    }

    /// Takes peers for dead that were away for too long.
    pub(super) fn check_peers(&mut self, now: Time) {
        if self.peers.deadline().is_none_or(|at| at > now) {
            return;
        }
        let due: Vec<NodeId> = self
            .peers
            .peers
            .iter()
            .filter(|(peer, p)| self.peers.holds(**peer) && self.peers.is_due(p, now))
            .map(|(n, _)| *n)
            .collect();
        for peer in due {
            self.tell_followers(peer, || CoreMessage::PeerLost { peer });
            if let Some(known) = self.peers.peers.get_mut(&peer) {
                known.lost = true;
            }
        }
    }

    pub(super) fn on_peer_lost(&mut self, now: Time, peer: NodeId) {
        let known = self.peers.peers.entry(peer).or_default();
        if known.link.is_some() {
            return;
        }
        known.lost = true;
        for store in self.stores_of(peer) {
            self.shards.store_lost(now, store);
        }
        self.look_at_owners(now);
    }

    /// The stores of a node, in order: what is told to sequencers must not hang on a table's order.
    pub(super) fn stores_of(&self, node: NodeId) -> Vec<StoreId> {
        let mut stores: Vec<StoreId> = self.view.stores_of(node).collect();
        stores.sort_unstable();
        stores
    }
}
