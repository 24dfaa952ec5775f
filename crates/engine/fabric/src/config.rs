//! The settings of a core's fabric.

use crate::codec::{PROTOCOL_VERSION, PROTOCOL_VERSION_MIN};
use crate::faults::Faults;
use crate::limits;
use crate::secure::Security;
use amita_reactor::{AcceptLimits, Pool};
use amita_types::{ClusterId, NodeId};
use std::time::Duration;

/// The newest finalized cluster version (`map::Cluster::version`) that this build understands. A peer that says a newer
/// one belongs to a cluster that has already adopted what this build lacks; it is refused.
pub const CLUSTER_VERSION_MAX: u32 = 1;

/// The settings of a core's fabric.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster; peers of another are refused.
    pub cluster: ClusterId,
    /// The cluster's finalized version; peers are told.
    pub cluster_version: u32,
    pub node: NodeId,
    /// Made anew at each start of the node.
    pub session: u64,
    /// This core, from 0.
    pub core: u16,
    /// How many cores share the links to each peer.
    pub cores: u16,
    /// How many outgoing links this node keeps to each peer, over all its cores. This core owns those whose index,
    /// modulo the number of cores, is its own: with fewer links than cores some cores own none and pass their messages
    /// to one that does.
    pub links_per_peer: u16,
    /// The protocol versions to offer. Narrower than what the build speaks only in tests.
    pub versions: VersionRange,
    /// How much peers may ask of this core, and it of them.
    pub limits: Limits,
    /// How long it waits for what.
    pub timeouts: Timeouts,
    /// Makes the jitter of reconnection.
    pub seed: u64,
    /// The core's buffers.
    pub pool: Pool,
    /// What proves who is who, and protects links; none: every peer is believed (`--insecure-network`).
    pub security: Option<Security>,
    /// Rules that are switched off, by the simulator only.
    pub faults: Faults,
    /// What this end says in place of what it is given to send, in the simulator only.
    #[cfg(any(test, feature = "planted"))]
    pub tongue: Option<crate::faults::Tongue>,
}

impl Config {
    /// One core, one link to each peer, everything else by default.
    #[must_use]
    pub fn new(cluster: ClusterId, node: NodeId, session: u64, pool: Pool) -> Config {
        Config {
            cluster,
            cluster_version: 1,
            node,
            session,
            core: 0,
            cores: 1,
            links_per_peer: 1,
            versions: VersionRange::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            seed: 0,
            pool,
            security: None,
            faults: Faults::NONE,
            #[cfg(any(test, feature = "planted"))]
            tongue: None,
        }
    }

    /// The indices of the links to each peer that this core owns.
    pub(crate) fn own_links(&self) -> impl Iterator<Item = u16> {
        (self.core..self.links_per_peer).step_by(usize::from(self.cores.max(1)))
    }
}

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest.
    pub min: u8,
    /// The newest.
    pub max: u8,
}

impl Default for VersionRange {
    fn default() -> VersionRange {
        VersionRange {
            min: PROTOCOL_VERSION_MIN,
            max: PROTOCOL_VERSION,
        }
    }
}

/// How much peers may ask of a core. The defaults and their reasons are in [`crate::limits`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests in flight on each incoming link.
    pub window_requests: u32,
    /// Bytes in flight on each incoming link (see [`crate::charge`]).
    pub window_bytes: u32,
    /// Requests that wait for the window of an outgoing link.
    pub queue_requests: usize,
    /// Bytes that wait for the window of an outgoing link.
    pub queue_bytes: usize,
    /// Unanswered bytes over all incoming links; above it none of them is read.
    pub unanswered_bytes: u64,
    /// Connections that the core takes, of peers and of others.
    pub accepts: AcceptLimits,
    /// Connections without a valid hello, from addresses that are no known peer's.
    pub handshakes: usize,
    /// The same, from addresses of known peers ([`crate::Fabric::set_peer`]).
    pub known_handshakes: usize,
    /// Handshakes of protected links that connections from addresses of no known peer may begin in a second.
    pub handshakes_per_second: u32,
    /// The same, from addresses of known peers.
    pub known_handshakes_per_second: u32,
    /// Incoming connections of one peer.
    pub connections_per_peer: usize,
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            window_requests: limits::WINDOW_REQUESTS,
            window_bytes: limits::WINDOW_BYTES,
            queue_requests: limits::QUEUE_REQUESTS,
            queue_bytes: limits::QUEUE_BYTES,
            unanswered_bytes: limits::UNANSWERED_BYTES,
            accepts: limits::ACCEPTS,
            handshakes: limits::MAX_HANDSHAKES,
            known_handshakes: limits::MAX_KNOWN_HANDSHAKES,
            handshakes_per_second: limits::HANDSHAKES_PER_SECOND,
            known_handshakes_per_second: limits::KNOWN_HANDSHAKES_PER_SECOND,
            connections_per_peer: limits::MAX_CONNECTIONS_PER_PEER,
            connections: limits::MAX_CONNECTIONS,
        }
    }
}

/// How long a core waits for what. The defaults and their reasons are in [`crate::limits`].
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// For the hello of a new connection.
    pub handshake: Duration,
    /// For a connection to be made.
    pub connect: Duration,
    /// With something outstanding: for any sign of life, before a ping.
    pub quiet: Duration,
    /// With something outstanding: for any sign of life, before the link is dead.
    pub silence: Duration,
    /// With nothing outstanding: between pings.
    pub idle_ping: Duration,
    /// For a send to end.
    pub stall: Duration,
    /// The first pause before connecting again.
    pub backoff_first: Duration,
    /// The longest.
    pub backoff_last: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            handshake: limits::HANDSHAKE_TIMEOUT,
            connect: limits::CONNECT_TIMEOUT,
            quiet: limits::QUIET,
            silence: limits::SILENCE,
            idle_ping: limits::IDLE_PING,
            stall: limits::SEND_STALL,
            backoff_first: limits::BACKOFF_FIRST,
            backoff_last: limits::BACKOFF_LAST,
        }
    }
}
