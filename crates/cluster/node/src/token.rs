//! Which part of a core a completion, an answer or a call belongs to: the layout of tokens and ids.

use amita_fabric::Link;
use amita_reactor::driver::Token;
use amita_store::LinkId;

/// Completions of the fabric.
pub const FABRIC: u8 = 1;
/// Completions of front ends.
pub const FRONTS: u8 = 2;
/// Completions of stores.
pub const STORES: u8 = 3;
/// Timers of the core.
pub const CORE: u8 = 4;
/// Timers of whoever runs the core (see [`crate::embed`]); the core itself ignores them.
pub const EMBEDDER: u8 = 5;

const LOW_BITS: u64 = 48;
const LOW: u64 = (1 << LOW_BITS) - 1;

/// A token: the part in the top byte, `kind` in the next, `low` in the rest.
///
/// # Panics
/// When `low` needs more than 48 bits: at a million new sessions a second that is nine years away.
#[must_use]
pub fn token(space: u8, kind: u8, low: u64) -> Token {
    assert!(low <= LOW, "a token's number fits 48 bits");
    Token(u64::from(space) << 56 | u64::from(kind) << LOW_BITS | low)
}

/// The part that a token belongs to.
#[must_use]
pub fn space(token: Token) -> u8 {
    (token.0 >> 56) as u8
}

/// The second byte.
#[must_use]
pub fn kind(token: Token) -> u8 {
    (token.0 >> LOW_BITS) as u8
}

/// The low 48 bits.
#[must_use]
pub fn low(token: Token) -> u64 {
    token.0 & LOW
}

const FROM_PEER: u64 = 1 << 63;

/// The link of the sequencers of one core of this node.
#[must_use]
pub fn local_link(core: usize) -> LinkId {
    LinkId((core as u64) << LOW_BITS)
}

/// The link of a peer that `core` holds a connection of.
#[must_use]
pub fn peer_link(core: usize, link: Link) -> LinkId {
    assert!(link.0 <= LOW, "a link's number fits 48 bits");
    LinkId(FROM_PEER | (core as u64) << LOW_BITS | link.0)
}

/// The core that an answer by this link goes to.
#[must_use]
pub fn link_core(link: LinkId) -> usize {
    ((link.0 & !FROM_PEER) >> LOW_BITS) as usize
}

/// The connection, where the link is a peer's.
#[must_use]
pub fn link_peer(link: LinkId) -> Option<Link> {
    (link.0 & FROM_PEER != 0).then_some(Link(link.0 & LOW))
}

/// Request and call ids: the core in the top byte, the sequencer's number in the next two, the sequencer's own below.
#[must_use]
pub fn id_base(core: usize, shard: u16) -> u64 {
    (core as u64) << 56 | u64::from(shard) << 40
}

/// The core of an id.
#[must_use]
pub fn id_core(id: u64) -> usize {
    (id >> 56) as usize
}

/// The sequencer's number of an id.
#[must_use]
pub fn id_shard(id: u64) -> u16 {
    (id >> 40) as u16
}
