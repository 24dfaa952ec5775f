//! Messages between nodes: framing, connections, windows.
//!
//! # The story
//! Each core of a node has a [`Fabric`]. For each peer it keeps *outgoing* links, which it makes itself, and on which
//! this node's sequencers ask the peer's stores; the peer makes its own, which are *incoming* here. Two nodes therefore
//! share two sets of links, one for each direction of asking, and their number is a setting, not cores times cores. A
//! link is one TCP connection: what is sent on it arrives in order and once, or the link ends, and then everything
//! unanswered on it is gone and is sent again by whoever asked (R8).
//!
//! A new connection begins with the handshake: the dialler says [`codec::Hello`] (cluster, node, protocol versions,
//! limits), the acceptor answers with a welcome, or refuses with a reason for people. Then messages travel as frames
//! ([`codec`], specified in `docs/protocol-wire.md`). The acceptor's *window* bounds the requests and bytes in flight;
//! the dialler queues what is beyond it, and the acceptor closes a link on which it is overrun.
//!
//! # What goes wrong, and what then
//! * The peer's process dies: the kernel closes the link ([`Event::Down`]), and the next attempt to connect is refused
//!   ([`Event::Unreachable`] with `certain`): a sequencer may evict its stores at once. Where the peer has two networks, both
//!   must have refused.
//! * The peer's host dies, or the network is cut: silence. With something outstanding the link is declared dead after
//!   [`limits::SILENCE`]; an idle one is found out by its next ping.
//! * One of the peer's two networks is cut or refuses: the other one is tried beside it, from the first failure on, and once a
//!   ping has not been answered for [`limits::QUIET`]. Whichever is up first has the link; the other connection ends before
//!   anything is sent, so that a switch is a reconnection like any other (decision 068).
//! * The peer is slow: its window fills, then the queue, then [`SendError::Full`]; nothing grows without bound.
//! * The peer asks too much: it is not read until it is answered. What arrives is bounded by the windows granted; what
//!   all of them may hold together by [`Limits::unanswered_bytes`].
//! * The peer is hostile or broken: every byte is checked ([`codec::DecodeError`]), every count has a bound
//!   ([`limits`]), and a violation ends the connection with a reason, never the node.
//! * The peer is somebody else: with [`Config::security`] both ends prove who they are before the first frame, every frame
//!   is protected by what that gave ([`secure`]), and each kind has a list of who may send it ([`codec::Kind::senders`]).
//!   Without (`--insecure-network`) the fabric belongs into a network of its own.
//!
//! The crate does no I/O of its own: a [`Fabric`] starts operations of a [`amita_reactor::Driver`] and is told how they
//! ended, so that the code that serves is the code that the simulator runs.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::cast_possible_truncation))]

mod addresses;
mod backoff;
pub mod codec;
mod config;
mod connection;
mod event;
mod fabric;
mod faults;
mod handshake;
pub mod limits;
mod message;
mod records;
pub mod secure;
mod window;

/// What a connection takes beside its buffers, in bytes: for whoever counts what a large cluster holds.
pub const CONNECTION_BYTES: usize = size_of::<connection::Connection>();

pub use addresses::Addresses;
pub use config::{CLUSTER_VERSION_MAX, Config, Limits, Timeouts, VersionRange};
pub use event::{DownReason, Event, Link, SendError, Violation};
pub use fabric::{Counters, FABRIC_TOKENS, Fabric, LinkPath};
#[cfg(any(test, feature = "planted"))]
pub use faults::Tongue;
pub use faults::{Fault, Faults};
pub use message::{Cut, CutOutcome, CutStep, Forward, ForwardOp, Forwarded, Message, ReleaseOutcome};
pub use window::charge;

/// Can rules be switched off in this build? Only builds of the simulator can; see the feature `planted`.
pub const HAS_RULE_SWITCHES: bool = cfg!(feature = "planted");
