//! The settings of a node.

use super::{OWNER_ALONE, ServeError, is_dialable};
use amita_control::admin::MAX_PORTALS;
use amita_fabric::secure::Protection;
use amita_identity::{Live, Role};
use amita_metadata::Client;
use amita_metadata::client::{Options, Tls, User};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
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
    /// Who it is, as it proves to others; none: it proves nothing, and believes everybody on this machine.
    pub identity: Option<Arc<Live>>,
    /// Where the authority serves (`HOST:PORT`), for a process that keeps its identity by itself ([`crate::embed`]).
    pub ca_server: Option<String>,
    /// What protects the links to other nodes, with an identity.
    pub protection: Protection,
    /// Endpoints of the metadata: `HOST:PORT`, `https://HOST:PORT` or `http://HOST:PORT`. By TLS with an identity.
    pub metadata: Vec<String>,
    /// The user of etcd, where the metadata has users.
    pub metadata_user: Option<User>,
    /// How long the start waits for a metadata service that is away.
    pub metadata_patience: Duration,
    /// Where peers connect; core `i` listens on this port plus `i`.
    pub fabric: SocketAddr,
    /// The same by a second network; none: this node has one. An address of its own, not every address of the host.
    pub fabric2: Option<SocketAddr>,
    /// Where NBD clients connect; none: this node is no gateway for NBD.
    pub nbd: Option<SocketAddr>,
    /// Where NBD clients of this machine connect: the absolute path of a Unix socket, in a folder of this process's user.
    pub nbd_socket: Option<PathBuf>,
    /// Its rights: [`OWNER_ALONE`] or [`OWNER_AND_GROUP`](super::OWNER_AND_GROUP).
    pub nbd_socket_mode: u32,
    /// Whoever is on the network is believed as if on this machine: clients that prove nothing, metadata that is spoken to
    /// plainly and, where this node has no identity, its peers.
    pub insecure_network: bool,
    /// Where hosts connect by NVMe/TCP, on all cores; none: this node is no gateway for NVMe.
    pub nvme: Option<SocketAddr>,
    /// Where initiators log in by iSCSI, on all cores: the portals of this node, one for each network that they come by; none: this node
    /// is no gateway for iSCSI.
    pub iscsi: Vec<SocketAddr>,
    /// The file with the cluster's sealing key, which opens the secrets of NVMe hosts and of iSCSI initiators; none: those that have
    /// to prove something cannot connect here.
    pub seal_key: Option<PathBuf>,
    /// The file with what wraps the data keys of encrypted volumes ([`crate::volume_keys`]); none: they stay closed here.
    pub volume_keys: Option<PathBuf>,
    /// Where its metrics and traces can be read by whoever reaches the address; none: nowhere.
    pub metrics: Option<SocketAddr>,
    /// Where its REST API listens, for the node's record; none: nowhere. Whoever runs the node serves it.
    pub api: Option<SocketAddr>,
    /// The address to tell others, where the node listens on all of its addresses.
    pub advertise: Option<IpAddr>,
    /// Where others reach `fabric`, when that is another port too (address translation, a forwarder): core `i` at this
    /// port plus `i`.
    pub advertise_fabric: Option<SocketAddr>,
    /// The same for `fabric2`.
    pub advertise_fabric2: Option<SocketAddr>,
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
    /// What is done when the node has joined, before it serves anything.
    pub before_serving: fn(&ServeConfig),
    /// May this node be the coordinator?
    pub coordinate: bool,
    /// This is a client's process: it has no stores, others leave the background work to the rest, and its record goes
    /// when it does.
    pub client: bool,
    /// See [`amita_sequencer::OpenerConfig::mirror`].
    pub mirror: Option<amita_types::MirrorId>,
    /// See [`crate::core::Config::moves`].
    pub moves: bool,
    /// See [`amita_sequencer::OpenerConfig::owner_patience`].
    pub owner_patience: Option<Duration>,
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
    /// The settings of the iSCSI target.
    pub iscsi_config: amita_iscsi::Config,
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
            identity: None,
            ca_server: None,
            protection: Protection::default(),
            metadata,
            metadata_user: None,
            metadata_patience: Duration::from_secs(15),
            fabric,
            fabric2: None,
            nbd: None,
            nbd_socket: None,
            nbd_socket_mode: OWNER_ALONE,
            insecure_network: false,
            nvme: None,
            iscsi: Vec::new(),
            seal_key: None,
            volume_keys: None,
            metrics: None,
            api: None,
            advertise: None,
            advertise_fabric: None,
            advertise_fabric2: None,
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
            before_serving: |_| (),
            coordinate: true,
            client: false,
            mirror: None,
            moves: false,
            owner_patience: None,
            scrub_every: Some(amita_control::agent::SCRUB_EVERY),
            refused_for: crate::core::REFUSED_FOR,
            silent_for: crate::core::SILENT_FOR,
            stale_after: Duration::from_millis(1000),
            confirm_reads: false,
            nvme_config: amita_nvme::Config::default(),
            iscsi_config: amita_iscsi::Config::default(),
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
        addresses.extend((0..self.cores).filter_map(|core| self.fabric2_of(core)));
        addresses.extend(self.nbd);
        addresses.extend(self.nvme);
        addresses.extend(&self.iscsi);
        addresses
    }

    /// Where a core listens for peers.
    pub(super) fn fabric_of(&self, core: usize) -> SocketAddr {
        port_of(self.fabric, core)
    }

    /// The same by the second network.
    pub(super) fn fabric2_of(&self, core: usize) -> Option<SocketAddr> {
        self.fabric2.map(|address| port_of(address, core))
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
        self.check_ports("fabric", self.fabric)?;
        if let Some(address) = self.nvme
            && address.port() == 0
            && self.cores > 1
        {
            return bad(
                "nvme",
                "port 0 with several cores: they share one port, so name it (4420 is the usual one)".to_owned(),
            );
        }
        self.check_iscsi()?;
        self.check_advertised("advertise-fabric", self.advertise_fabric)?;
        self.check_second()?;
        let fabric = self.advertise_fabric.is_none().then_some(self.fabric);
        let addresses = [fabric, self.nbd, self.nvme, self.metrics, self.api]
            .into_iter()
            .flatten();
        for address in addresses.chain(self.iscsi.iter().copied()) {
            if !is_dialable(address.ip()) && self.advertise.is_none() {
                return bad(
                    "advertise",
                    format!("{address} is every address of this host; say which one others shall dial"),
                );
            }
        }
        self.check_identity()?;
        if self.is_unprotected() && !self.insecure_network {
            let open = self.open_fabric().unwrap_or(self.fabric);
            return bad(
                "fabric",
                format!(
                    "other machines reach {open}, and who has no identity lets all of them read and write all volumes: pass \
                     --identity DIR (`amita node join` makes one), or --insecure-network where the network is the \
                     cluster's own"
                ),
            );
        }
        for (index, path) in self.stores.iter().enumerate() {
            if self.stores[..index].contains(path) {
                return bad("store", format!("{} is given twice", path.display()));
            }
        }
        Ok(())
    }

    /// Are the portals different ones, not too many, and can all cores listen at each?
    fn check_iscsi(&self) -> Result<(), ServeError> {
        let bad = |why: String| Err(ServeError::Setting { setting: "iscsi", why });
        if self.iscsi.len() > MAX_PORTALS {
            return bad(format!(
                "{} portals; a node has at most {MAX_PORTALS}, one for each network that initiators come by",
                self.iscsi.len()
            ));
        }
        for (index, address) in self.iscsi.iter().enumerate() {
            if address.port() == 0 && self.cores > 1 {
                return bad(
                    "port 0 with several cores: they share one port, so name it (3260 is the usual one)".to_owned(),
                );
            }
            if address.port() != 0 && self.iscsi[..index].contains(address) {
                return bad(format!("{address} is given twice"));
            }
        }
        Ok(())
    }

    /// Has each core a port of its own from there on?
    fn check_ports(&self, setting: &'static str, address: SocketAddr) -> Result<(), ServeError> {
        let bad = |why: String| Err(ServeError::Setting { setting, why });
        if usize::from(address.port()) + self.cores > usize::from(u16::MAX) {
            return bad(format!(
                "port {}: {} cores need a port each from there on",
                address.port(),
                self.cores
            ));
        }
        if address.port() == 0 && self.cores > 1 {
            return bad("port 0 with several cores: they need ports that follow each other".to_owned());
        }
        Ok(())
    }

    /// Can others dial that?
    fn check_advertised(&self, setting: &'static str, address: Option<SocketAddr>) -> Result<(), ServeError> {
        let bad = address.filter(|address| {
            address.port() == 0
                || usize::from(address.port()) + self.cores > usize::from(u16::MAX)
                || !is_dialable(address.ip())
        });
        bad.map_or(Ok(()), |address| {
            let why = format!("{address}: others dial this port, and one more for each further core; name a real one");
            Err(ServeError::Setting { setting, why })
        })
    }

    /// Is the second network one, and another one than the first?
    fn check_second(&self) -> Result<(), ServeError> {
        let bad = |setting: &'static str, why: String| Err(ServeError::Setting { setting, why });
        self.check_advertised("advertise-fabric2", self.advertise_fabric2)?;
        let Some(second) = self.fabric2 else {
            return match self.advertise_fabric2 {
                None => Ok(()),
                Some(address) => bad(
                    "advertise-fabric2",
                    format!("{address} leads to --fabric2, which is not given; give it as well"),
                ),
            };
        };
        self.check_ports("fabric2", second)?;
        // The network is chosen by the address, so it must be that of one interface.
        if !is_dialable(second.ip()) {
            return bad(
                "fabric2",
                format!("{second} is every address of this host; name the one that it has in the second network"),
            );
        }
        if !is_dialable(self.fabric.ip()) && self.fabric.port() != 0 && overlap(self.fabric, second, self.cores) {
            return bad(
                "fabric2",
                format!(
                    "{} is every address of this host, {second} among them; name the one of the first network there",
                    self.fabric
                ),
            );
        }
        if self.fabric.ip() == second.ip() && second.port() != 0 && overlap(self.fabric, second, self.cores) {
            return bad(
                "fabric2",
                format!(
                    "{second} is where --fabric listens; name the address that this host has in the second network"
                ),
            );
        }
        let advertised = self.advertise.map(|ip| SocketAddr::new(ip, self.fabric.port()));
        let told = self.advertise_fabric.or(advertised).unwrap_or(self.fabric);
        let second_told = self.advertise_fabric2.unwrap_or(second);
        if told.port() != 0 && told.ip() == second_told.ip() && overlap(told, second_told, self.cores) {
            return bad(
                "advertise-fabric2",
                format!("{second_told} is what others dial for --fabric as well; they need two ways"),
            );
        }
        let is_here = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        if is_here(second_told) && !is_here(told) {
            return bad(
                "fabric2",
                format!(
                    "other machines reach {told}, and not {second_told}, which is loopback; name an address that they reach"
                ),
            );
        }
        Ok(())
    }

    /// An address of the fabric that other machines reach, if there is one.
    fn open_fabric(&self) -> Option<SocketAddr> {
        let advertised = self.advertise.map(|ip| SocketAddr::new(ip, self.fabric.port()));
        let addresses = [
            Some(self.fabric),
            self.advertise_fabric.or(advertised),
            self.fabric2,
            self.advertise_fabric2,
        ];
        addresses
            .into_iter()
            .flatten()
            .find(|address| !address.ip().to_canonical().is_loopback())
    }

    /// Does its fabric believe whoever reaches it, from other machines too?
    #[must_use]
    pub fn is_unprotected(&self) -> bool {
        self.identity.is_none() && self.open_fabric().is_some()
    }

    /// Is its certificate that of a gateway?
    pub(crate) fn is_gateway(&self) -> bool {
        let role = self.identity.as_ref().map(|live| live.name().role());
        role == Some(Role::Gateway)
    }

    /// A connection to the metadata, as the identity and the settings say.
    ///
    /// # Errors
    /// The endpoints are none, or may not be spoken to like that.
    pub fn metadata_client(&self) -> Result<Client, amita_metadata::Error> {
        let options = Options {
            tls: self.identity.as_ref().map(Tls::of),
            user: self.metadata_user.clone(),
            insecure_network: self.insecure_network,
            ..Options::default()
        };
        Client::connect_with(&self.metadata, options)
    }

    /// Does the identity let it serve under its name, and with stores?
    fn check_identity(&self) -> Result<(), ServeError> {
        let bad = |setting: &'static str, why: String| Err(ServeError::Setting { setting, why });
        let Some(identity) = self.identity.as_ref().map(|live| live.name()) else {
            return Ok(());
        };
        let wanted = identity.name();
        let below = self.name.strip_prefix(wanted);
        match identity.role() {
            Role::Node if self.name == wanted => Ok(()),
            // A gateway inside the node, which is gone when its work is done.
            Role::Node if self.client && below.is_some_and(|rest| rest.starts_with('.')) => Ok(()),
            // A gateway's processes each have a name below its own.
            Role::Gateway if self.stores.is_empty() => match below {
                Some(rest) if rest.is_empty() || rest.starts_with('.') => Ok(()),
                _ => bad(
                    "name",
                    format!("the identity is {identity}: call it {wanted}, or {wanted}.SOMETHING"),
                ),
            },
            Role::Gateway => bad(
                "store",
                format!("the identity is {identity}: a gateway serves no stores"),
            ),
            Role::Node => bad("name", format!("the identity is {identity}: call it {wanted}")),
            role => bad(
                "identity",
                format!("{identity} is of a {role}, and nodes and gateways serve: `amita node join` makes one"),
            ),
        }
    }
}

/// The port of a core, of those that begin at this address.
fn port_of(address: SocketAddr, core: usize) -> SocketAddr {
    // Port 0 is any free one.
    let port = match address.port() {
        0 => 0,
        first => first + core as u16,
    };
    SocketAddr::new(address.ip(), port)
}

/// Have two rows of ports one in common, each of one port a core?
fn overlap(one: SocketAddr, other: SocketAddr, cores: usize) -> bool {
    usize::from(one.port().abs_diff(other.port())) < cores
}

#[cfg(test)]
mod tests {
    use super::{MAX_PORTALS, ServeConfig};
    use std::net::SocketAddr;

    /// Which setting is refused.
    fn refused(fabric: &str, second: Option<&str>, told: Option<&str>, second_told: Option<&str>) -> Option<String> {
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let mut config = ServeConfig::new("n1", vec!["127.0.0.1:2379".to_owned()], address(fabric));
        (config.cores, config.insecure_network) = (4, true);
        config.fabric2 = second.map(address);
        config.advertise_fabric = told.map(address);
        config.advertise_fabric2 = second_told.map(address);
        config.check().err().map(|why| why.to_string())
    }

    #[test]
    fn a_second_network_is_another_one_that_others_reach_by_its_own_address() {
        let good = [
            ("10.0.0.1:7700", Some("10.1.0.1:7700"), None, None),
            ("127.0.0.1:7700", Some("127.0.0.1:7704"), None, None),
            (
                "127.0.0.1:7700",
                Some("127.0.0.1:7800"),
                Some("127.0.0.1:7900"),
                Some("127.0.0.1:7904"),
            ),
            ("0.0.0.0:7700", Some("10.1.0.1:7800"), Some("10.0.0.1:7700"), None),
            ("[::1]:7700", Some("[::1]:7710"), None, None),
        ];
        for (fabric, second, told, second_told) in good {
            assert_eq!(
                refused(fabric, second, told, second_told),
                None,
                "{fabric} {second:?} {told:?} {second_told:?}"
            );
        }
        let bad = [
            ("10.0.0.1:7700", Some("10.0.0.1:7700"), None, None, "fabric2"),
            ("10.0.0.1:7700", Some("10.0.0.1:7703"), None, None, "fabric2"),
            ("10.0.0.1:7700", Some("0.0.0.0:7800"), None, None, "fabric2"),
            ("10.0.0.1:7700", Some("[::]:7800"), None, None, "fabric2"),
            (
                "0.0.0.0:7700",
                Some("10.1.0.1:7700"),
                Some("10.0.0.1:7700"),
                None,
                "fabric2",
            ),
            ("10.0.0.1:7700", Some("127.0.0.1:7700"), None, None, "fabric2"),
            ("10.0.0.1:7700", Some("10.1.0.1:0"), None, None, "fabric2"),
            ("10.0.0.1:7700", Some("10.1.0.1:65533"), None, None, "fabric2"),
            ("10.0.0.1:7700", None, None, Some("10.1.0.1:7700"), "advertise-fabric2"),
            (
                "10.0.0.1:7700",
                Some("10.1.0.1:7700"),
                None,
                Some("0.0.0.0:7700"),
                "advertise-fabric2",
            ),
            (
                "10.0.0.1:7700",
                Some("10.1.0.1:7700"),
                None,
                Some("10.2.0.1:0"),
                "advertise-fabric2",
            ),
            (
                "10.0.0.1:7700",
                Some("10.1.0.1:7700"),
                Some("10.2.0.1:7700"),
                Some("10.2.0.1:7702"),
                "advertise-fabric2",
            ),
        ];
        for (fabric, second, told, second_told, setting) in bad {
            let why = refused(fabric, second, told, second_told);
            let why = why.unwrap_or_else(|| panic!("{fabric} {second:?} {told:?} {second_told:?}"));
            assert!(why.contains(setting), "{why}");
        }
    }

    #[test]
    fn what_other_machines_reach_by_the_second_network_is_open_as_well() {
        let mut config = ServeConfig::new(
            "n1",
            vec!["127.0.0.1:2379".to_owned()],
            "127.0.0.1:7700".parse().unwrap(),
        );
        config.fabric2 = Some("10.1.0.1:7700".parse().unwrap());
        assert!(config.is_unprotected());
        assert!(config.check().unwrap_err().to_string().contains("--insecure-network"));
    }

    #[test]
    fn portals_are_few_different_ones_where_others_reach_them() {
        let judged = |cores: usize, advertise: Option<&str>, portals: &[&str]| {
            let fabric = "127.0.0.1:7700".parse().unwrap();
            let mut config = ServeConfig::new("n1", vec!["127.0.0.1:2379".to_owned()], fabric);
            (config.cores, config.insecure_network) = (cores, true);
            config.advertise = advertise.map(|ip| ip.parse().unwrap());
            config.iscsi = portals.iter().map(|portal| portal.parse().unwrap()).collect();
            let listened = config.listen_addresses();
            assert!(config.iscsi.iter().all(|portal| listened.contains(portal)));
            config.check().err().map(|why| why.to_string())
        };
        assert_eq!(judged(1, None, &["127.0.0.1:0", "127.0.0.1:0"]), None);
        assert_eq!(
            judged(4, None, &["10.0.0.1:3260", "10.1.0.1:3260", "[fd00::1]:3260"]),
            None
        );
        assert_eq!(judged(4, Some("10.0.0.1"), &["0.0.0.0:3260"]), None);
        let many: Vec<String> = (0..=MAX_PORTALS)
            .map(|port| format!("127.0.0.1:{}", 3260 + port))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(judged(1, None, &many[1..]), None);
        for (cores, portals, setting, part) in [
            (4, &["127.0.0.1:0"][..], "--iscsi", "3260"),
            (
                1,
                &["10.0.0.1:3260", "10.1.0.1:3260", "10.0.0.1:3260"],
                "--iscsi",
                "given twice",
            ),
            (1, &["127.0.0.1:3260", "0.0.0.0:3261"], "--advertise", "0.0.0.0:3261"),
            (1, &many, "--iscsi", "at most"),
        ] {
            let why = judged(cores, None, portals).unwrap_or_else(|| panic!("{portals:?}"));
            assert!(why.contains(setting) && why.contains(part), "{why}");
        }
    }

    #[test]
    fn without_an_identity_a_node_serves_its_own_machine_unless_told_otherwise() {
        for (fabric, advertise, advertise_fabric, is_here) in [
            ("127.0.0.1:7700", None, None, true),
            ("[::1]:7700", None, None, true),
            ("10.0.0.1:7700", None, None, false),
            ("0.0.0.0:7700", None, Some("127.0.0.1:7700"), false),
            ("127.0.0.1:7700", Some("10.0.0.1"), None, false),
            ("127.0.0.1:7700", None, Some("10.0.0.1:7700"), false),
        ] {
            let mut config = ServeConfig::new("n1", vec!["127.0.0.1:2379".to_owned()], fabric.parse().unwrap());
            config.advertise = advertise.map(|ip: &str| ip.parse().unwrap());
            config.advertise_fabric = advertise_fabric.map(|address: &str| address.parse().unwrap());
            let checked = config.check();
            assert_eq!(
                checked.is_ok(),
                is_here,
                "{fabric} {advertise:?} {advertise_fabric:?}: {checked:?}"
            );
            assert_eq!(config.is_unprotected(), !is_here);
            if let Err(why) = checked {
                assert!(why.to_string().contains("--insecure-network"), "{why}");
            }
            config.insecure_network = true;
            assert!(config.check().is_ok());
        }
    }
}
