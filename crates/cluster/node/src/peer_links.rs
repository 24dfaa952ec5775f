//! Which cores of a node hold the links to a peer, and which of them each core goes through.
//!
//! A core that talked to every core of every peer would need cores squared connections for each pair of nodes. Instead a
//! pair has a few links, and each is held by one core of either end; the other cores pass what they have for that peer to
//! a holder, by mail. Which cores hold depends on the pair: were they the same for every peer, these few cores would carry
//! all of the node's messages while the others have none.
//!
//! The holders stand evenly apart, beginning at the core whose number is the sum of the two nodes' (modulo the cores): the
//! same one at both ends, and for peers that were numbered in a row cores in a row, so that each core holds as many links
//! as any other. (A hash in its place left some cores with half as many as others.) A core that holds a link uses its own.
//! Core `i` dials the peer's core `i`, so that a node's incoming links are spread as its outgoing ones are.

use amita_types::NodeId;

/// The links that each core of a node holds, about, over all peers together. Where peers are few, each gets more of them, so
/// that all cores have something to send by; where they are many, each gets fewer, for messages that go by different links
/// do not share a send (docs/benchmarks/scale.md, "How many links": 10 nodes are best off with 8 or more, 100 with 1 or 2).
pub const LINKS_PER_CORE: usize = 2;

/// How many links a node keeps to each of so many peers: at most `most`, at most one for each core, and at least one.
///
/// Only this node's own links: a peer decides for those that it makes. So the number need not be agreed on, and it is chosen
/// once, when the node starts.
#[must_use]
pub fn links(most: usize, cores: usize, peers: usize) -> usize {
    (LINKS_PER_CORE * cores / peers.max(1)).clamp(1, most.clamp(1, cores.max(1)))
}

/// The links of this node to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLinks {
    cores: usize,
    links: usize,
    first: usize,
}

impl PeerLinks {
    /// Of a node with `cores` cores that keeps `links` links to each peer (at least one, at most one for each core).
    #[must_use]
    pub fn new(node: NodeId, peer: NodeId, cores: usize, links: usize) -> PeerLinks {
        let cores = cores.max(1);
        PeerLinks {
            cores,
            links: links.clamp(1, cores),
            first: ((u64::from(node.0) + u64::from(peer.0)) % cores as u64) as usize,
        }
    }

    /// How many links there are.
    #[must_use]
    pub fn links(self) -> usize {
        self.links
    }

    /// The core that holds the link which `core` uses: itself, if it holds one.
    #[must_use]
    pub fn holder(self, core: usize) -> usize {
        let offset = (core % self.cores + self.cores - self.first) % self.cores;
        let lane = offset * self.links / self.cores;
        (self.first + (lane * self.cores).div_ceil(self.links)) % self.cores
    }

    /// Does `core` hold a link?
    #[must_use]
    pub fn holds(self, core: usize) -> bool {
        self.holder(core) == core
    }
}

#[cfg(test)]
mod tests;
