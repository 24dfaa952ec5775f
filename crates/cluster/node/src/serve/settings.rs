//! The settings of a node.

use super::{ServeError, is_dialable};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The most cores of one node: request ids have eight bits for the core.
pub const MAX_CORES: usize = 256;
/// The most stores of one core: completions have eight bits for the store.
pub const MAX_STORES_PER_CORE: usize = 256;

/// What a lease's time to live may be, in seconds. Below, no node could renew it three times in its life; above, a dead
/// node is waited for longer than anybody waits.
pub const LEASE_S: RangeInclusive<u64> = 1..=600;

/// The most connections to each peer: a peer takes so many from one node on one of its cores, and it may have one only.
pub const MAX_LINKS_PER_PEER: usize = amita_fabric::limits::MAX_CONNECTIONS_PER_PEER;

/// What a node is told at its start.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Its name: unique in the cluster, and kept over restarts.
    pub name: String,
    /// Endpoints of the metadata: `HOST:PORT` or `http://HOST:PORT`.
    pub metadata: Vec<String>,
    /// How long the start waits for a metadata service that is away.
    pub metadata_patience: Duration,
    /// Where peers connect; core `i` listens on this port plus `i`.
    pub fabric: SocketAddr,
    /// Where NBD clients connect; none: this node is no gateway for NBD.
    pub nbd: Option<SocketAddr>,
    /// Where hosts connect by NVMe/TCP, on all cores; none: this node is no gateway for NVMe.
    pub nvme: Option<SocketAddr>,
    /// The file with the cluster's sealing key, which opens the secrets of NVMe hosts; none: hosts that have to prove
    /// something cannot connect here.
    pub seal_key: Option<PathBuf>,
    /// Where its metrics and traces can be read by whoever reaches the address; none: nowhere.
    pub metrics: Option<SocketAddr>,
    /// The address to tell others, where the node listens on all of its addresses.
    pub advertise: Option<IpAddr>,
    /// Where others reach `fabric`, when that is another port too (address translation, a forwarder): core `i` at this
    /// port plus `i`.
    pub advertise_fabric: Option<SocketAddr>,
    /// The site that it stands in; none: as it was.
    pub site: Option<String>,
    /// The rack that it stands in; none: as it was.
    pub rack: Option<String>,
    /// Paths of stores: formatted block devices or files.
    pub stores: Vec<PathBuf>,
    /// How many cores serve.
    pub cores: usize,
    /// Bind each core to a processor; none: where there are processors enough.
    pub pin: Option<bool>,
    /// Connections to each peer, at most: one for each core, and fewer where there are many peers
    /// ([`crate::peer_links::links`]).
    pub links_per_peer: usize,
    /// Bytes of buffers of each core.
    pub buffer_bytes: usize,
    /// Bytes of memory for the indexes of all stores together.
    pub index_bytes: u64,
    /// Where freed space is discarded.
    pub discard: amita_store::Discard,
    /// The lease's time to live, in seconds: of [`LEASE_S`].
    pub lease_ttl_s: u64,
    /// Is the process to end? A start that waits asks it.
    pub interrupted: fn() -> bool,
    /// May this node be the coordinator?
    pub coordinate: bool,
    /// This is a client's process: it has no stores, others leave the background work to the rest, and its record goes
    /// when it does.
    pub client: bool,
    /// See [`amita_control::agent::Config::scrub_every`].
    pub scrub_every: Option<std::time::Duration>,
    /// A peer whose port refuses connections for so long, by each link to it and several times, is taken for dead.
    pub refused_for: Duration,
    /// A peer that does not answer at all for so long is taken for dead, and a store that owes an answer is evicted:
    /// with what it takes to do so, I/O stands still for less than 1.5 s when a node freezes.
    pub silent_for: Duration,
    /// A core whose hosts have other paths drops them when it was not running for so long: below any patience of
    /// theirs, so that what they have repeated elsewhere is not carried out late.
    pub stale_after: Duration,
    /// Reads are confirmed and do not rest on leases: see [`amita_sequencer::Config::confirm_reads`].
    pub confirm_reads: bool,
    /// The settings of the NVMe target.
    pub nvme_config: amita_nvme::Config,
    /// Which I/Os are traced, and kept.
    pub trace: crate::trace::TraceConfig,
    /// The settings of NBD.
    pub nbd_config: amita_nbd::Config,
    /// The settings of the driver.
    pub driver: amita_reactor::uring::UringConfig,
}

impl ServeConfig {
    /// A node of that name with the usual settings.
    #[must_use]
    pub fn new(name: impl Into<String>, metadata: Vec<String>, fabric: SocketAddr) -> ServeConfig {
        ServeConfig {
            name: name.into(),
            metadata,
            metadata_patience: Duration::from_secs(15),
            fabric,
            nbd: None,
            nvme: None,
            seal_key: None,
            metrics: None,
            advertise: None,
            advertise_fabric: None,
            site: None,
            rack: None,
            stores: Vec::new(),
            cores: 1,
            pin: None,
            links_per_peer: MAX_LINKS_PER_PEER,
            buffer_bytes: 256 << 20,
            index_bytes: 8 << 30,
            discard: amita_store::Discard::default(),
            lease_ttl_s: 5,
            interrupted: || false,
            coordinate: true,
            client: false,
            scrub_every: Some(amita_control::agent::SCRUB_EVERY),
            refused_for: crate::core::REFUSED_FOR,
            silent_for: crate::core::SILENT_FOR,
            stale_after: Duration::from_millis(1000),
            confirm_reads: false,
            nvme_config: amita_nvme::Config::default(),
            trace: crate::trace::TraceConfig::default(),
            nbd_config: amita_nbd::Config::default(),
            driver: amita_reactor::uring::UringConfig::default(),
        }
    }

    pub(super) fn check_interrupted(&self) -> Result<(), ServeError> {
        if (self.interrupted)() {
            return Err(ServeError::Interrupted);
        }
        Ok(())
    }

    /// All addresses that the node is going to listen on.
    pub(super) fn listen_addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<SocketAddr> = (0..self.cores).map(|core| self.fabric_of(core)).collect();
        addresses.extend(self.nbd);
        addresses.extend(self.nvme);
        addresses
    }

    /// Where a core listens for peers.
    pub(super) fn fabric_of(&self, core: usize) -> SocketAddr {
        let port = self.fabric.port();
        // Port 0 is any free one.
        let port = if port == 0 { 0 } else { port + core as u16 };
        SocketAddr::new(self.fabric.ip(), port)
    }

    pub(super) fn check(&self) -> Result<(), ServeError> {
        let bad = |setting: &'static str, why: String| Err(ServeError::Setting { setting, why });
        if !LEASE_S.contains(&self.lease_ttl_s) {
            let (least, most) = (LEASE_S.start(), LEASE_S.end());
            return bad(
                "lease",
                format!("{} seconds; choose {least} to {most}", self.lease_ttl_s),
            );
        }
        if self.cores == 0 || self.cores > MAX_CORES {
            return bad("cores", format!("{} cores; choose 1 to {MAX_CORES}", self.cores));
        }
        if self.stores.len() > self.cores * MAX_STORES_PER_CORE {
            return bad(
                "store",
                format!(
                    "{} stores on {} cores; give it more cores",
                    self.stores.len(),
                    self.cores
                ),
            );
        }
        if self.links_per_peer == 0 || self.links_per_peer > MAX_LINKS_PER_PEER {
            return bad(
                "links-per-peer",
                format!(
                    "{} connections to a peer; choose 1 to {MAX_LINKS_PER_PEER}",
                    self.links_per_peer
                ),
            );
        }
        if usize::from(self.fabric.port()) + self.cores > usize::from(u16::MAX) {
            return bad(
                "fabric",
                format!(
                    "port {}: {} cores need a port each from there on",
                    self.fabric.port(),
                    self.cores
                ),
            );
        }
        if self.fabric.port() == 0 && self.cores > 1 {
            return bad(
                "fabric",
                "port 0 with several cores: they need ports that follow each other".to_owned(),
            );
        }
        if let Some(address) = self.nvme
            && address.port() == 0
            && self.cores > 1
        {
            return bad(
                "nvme",
                "port 0 with several cores: they share one port, so name it (4420 is the usual one)".to_owned(),
            );
        }
        if let Some(address) = self.advertise_fabric
            && (address.port() == 0
                || usize::from(address.port()) + self.cores > usize::from(u16::MAX)
                || !is_dialable(address.ip()))
        {
            return bad(
                "advertise-fabric",
                format!("{address}: others dial this port, and one more for each further core; name a real one"),
            );
        }
        let fabric = self.advertise_fabric.is_none().then_some(self.fabric);
        let addresses = [fabric, self.nbd, self.nvme, self.metrics].into_iter().flatten();
        for address in addresses {
            if !is_dialable(address.ip()) && self.advertise.is_none() {
                return bad(
                    "advertise",
                    format!("{address} is every address of this host; say which one others shall dial"),
                );
            }
        }
        for (index, path) in self.stores.iter().enumerate() {
            if self.stores[..index].contains(path) {
                return bad("store", format!("{} is given twice", path.display()));
            }
        }
        Ok(())
    }
}
