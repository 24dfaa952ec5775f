//! The settings of a core.

use crate::faults::Faults;
use crate::trace::TraceConfig;
use amita_types::NodeId;
use std::time::Duration;

/// What a core must know at its start.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    pub node: NodeId,
    /// This core's place among the node's.
    pub core: usize,
    /// How many cores the node has.
    pub cores: usize,
    /// How many stores the node opens, on all its cores together: until each of them serves or has failed, a store that
    /// is not known yet may still come.
    pub stores: usize,
    /// Connections to each peer: that many cores hold one, other ones for each peer ([`crate::peer_links`]); the rest goes
    /// through them.
    pub links_per_peer: usize,
    /// May peers on other machines be dialled? Not where they could not be told from strangers.
    pub dials_others: bool,
    /// Do links to peers hide what they carry? Only such ones forward the data of encrypted volumes.
    pub secret_links: bool,
    /// A peer whose port refuses connections for so long, by each link to it and several times, is taken for dead.
    pub refused_for: Duration,
    /// A peer that does not answer at all for so long is taken for dead.
    pub silent_for: Duration,
    /// A core that hosts of several gateways use drops them when it was not running for so long (R9).
    pub stale_after: Duration,
    /// The NVMe target's settings.
    pub nvme: amita_nvme::Config,
    /// The iSCSI target's settings.
    pub iscsi: amita_iscsi::Config,
    /// The fabric's settings.
    pub fabric: amita_fabric::Config,
    /// The stores' settings.
    pub store: amita_store::Config,
    /// The sequencers' settings.
    pub sequencer: amita_sequencer::Config,
    /// The openers' settings.
    pub opener: amita_sequencer::OpenerConfig,
    /// This program carries moves of volumes: what it reads of their passes' snapshots is no host's, and held to no limit (decision 080).
    pub moves: bool,
    /// Which I/Os are traced.
    pub trace: TraceConfig,
    /// Rules that are switched off, by the simulator only.
    pub faults: Faults,
}
