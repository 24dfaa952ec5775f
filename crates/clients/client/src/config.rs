//! The settings of a client.

use crate::error::Error;
use amita_identity::Live;
use amita_node::serve::{Level, Log, Protection, ServeConfig};
use amita_reactor::uring::UringConfig;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Memory for I/O that a client cannot do without: the receive blocks of a few connections, and some payloads.
const LEAST_BUFFER_BYTES: usize = 16 << 20;

/// What a client is told at its start.
#[derive(Clone)]
pub struct Config {
    /// Endpoints of the metadata: `HOST:PORT`, `https://HOST:PORT` or `http://HOST:PORT`. By TLS with an identity.
    pub metadata: Vec<String>,
    /// How long the start waits for a metadata service that is away.
    pub metadata_patience: Duration,
    /// The node's name, unique in the cluster; none: one that says host and process. A client with stores needs one that
    /// stays.
    pub name: Option<String>,
    /// The folder of its identity; none: it proves nothing, and works on this machine only, or with `insecure_network`. With a
    /// gateway's it is a gateway itself; so it is with a node's, inside that node; with a client's it uses the volumes that its
    /// certificate grants, through nodes.
    pub identity: Option<PathBuf>,
    /// The file with what wraps the data keys of encrypted volumes (`amita serve --volume-keys`); none: it opens none of them. (Through nodes,
    /// with a client's identity, it needs none.)
    pub volume_keys: Option<PathBuf>,
    /// Of a client: where nodes serve NBD, as `HOST:PORT`; none: those that the file `nodes` of its identity names, a line each.
    pub nodes: Vec<String>,
    /// Of a client: how long a volume may be without a node that serves it, before it is lost.
    pub node_patience: Duration,
    /// Where the authority serves (`HOST:PORT`): the identity is renewed from there; none: its folder is looked at only.
    pub ca_server: Option<String>,
    /// What protects its links, with an identity: as all nodes of the cluster have it.
    pub links: Protection,
    /// Believe whoever is on the network: for networks of the cluster's own.
    pub insecure_network: bool,
    /// Where the other nodes reach this one; none: the address by which this host reaches the metadata, any port.
    pub fabric: Option<SocketAddr>,
    /// The address to tell the others, where `fabric` is every address of the host.
    pub advertise: Option<IpAddr>,
    /// The processor to bind the core's thread to: for a [`Local`](crate::Local) the thread that connects.
    pub cpu: Option<usize>,
    /// Formatted disks or files whose copies are held by this very process, as by a node that serves.
    pub stores: Vec<PathBuf>,
    /// Bytes of buffers, taken at the start (what is never used is never resident).
    pub buffer_bytes: usize,
    /// Bytes of memory for the indexes of all stores together.
    pub index_bytes: u64,
    /// The lease's time to live, in seconds.
    pub lease_ttl_s: u64,
    /// The mirror that this is a runner of: what is closed to hosts for that is opened by it, and by nobody else. (Not through nodes, with a
    /// client's identity.)
    pub mirror: Option<amita_types::MirrorId>,
    /// It carries moves: what it reads of their passes' snapshots counts for no limit of the volume, its tenant and its pool. Whoever else reads such a
    /// snapshot is held to them, as hosts are. (Not through nodes, with a client's identity.)
    pub moves: bool,
    /// A volume that a living node owns is taken from it when it has not answered for 0.3 s: whoever opens it may be all that its
    /// user has. With a patience here it is not: the owner is asked again until it answers or its lease has ended, for so long (half
    /// of `open_patience` at most), and then opening fails. For what owns a volume and is in no haste. (Through nodes, with a client's
    /// identity, they open it as for any host.)
    pub owner_patience: Option<Duration>,
    /// How long opening a volume may take.
    pub open_patience: Duration,
    /// How often the core gives way before it blocks, at most; 0: never.
    pub yields: u32,
    /// Where messages for a person go; none: errors and warnings go to standard error.
    pub log: Option<Log>,
}

impl Config {
    /// The usual settings.
    #[must_use]
    pub fn new(metadata: Vec<String>) -> Config {
        Config {
            metadata,
            metadata_patience: Duration::from_secs(15),
            name: None,
            identity: None,
            volume_keys: None,
            nodes: Vec::new(),
            node_patience: Duration::from_secs(60),
            ca_server: None,
            links: Protection::default(),
            insecure_network: false,
            fabric: None,
            advertise: None,
            cpu: None,
            stores: Vec::new(),
            buffer_bytes: 128 << 20,
            index_bytes: 1 << 30,
            lease_ttl_s: 5,
            mirror: None,
            moves: false,
            owner_patience: None,
            open_patience: Duration::from_secs(30),
            yields: UringConfig::default().yields,
            log: None,
        }
    }

    pub(crate) fn log(&self) -> Log {
        self.log.clone().unwrap_or_else(|| {
            Arc::new(|level, text| {
                if level <= Level::Warn {
                    eprintln!("amita: {text}");
                }
            })
        })
    }

    /// Is there memory enough?
    pub(crate) fn check_buffers(&self) -> Result<(), Error> {
        if self.buffer_bytes < LEAST_BUFFER_BYTES {
            let why = format!("{} bytes; {LEAST_BUFFER_BYTES} is the least", self.buffer_bytes);
            return Err(Error::Setting {
                setting: "buffer_bytes",
                why,
            });
        }
        Ok(())
    }

    /// As the settings of a node with one core.
    pub(crate) fn node(&self, identity: Option<Arc<Live>>) -> Result<ServeConfig, Error> {
        if self.metadata.is_empty() {
            let why = "no endpoint; name at least one, as HOST:PORT".to_owned();
            return Err(Error::Setting {
                setting: "metadata",
                why,
            });
        }
        self.check_buffers()?;
        let name = match &self.name {
            Some(name) => name.clone(),
            None if self.stores.is_empty() => match &identity {
                // The identity covers all names below its own.
                Some(live) => format!("{}.{}", live.name().name(), default_name()),
                None => default_name(),
            },
            None => {
                let why = "a client with stores keeps its place in the cluster; give it a name that stays".to_owned();
                return Err(Error::Setting { setting: "name", why });
            }
        };
        let fabric = self
            .fabric
            .unwrap_or_else(|| SocketAddr::new(own_address(&self.metadata), 0));
        let mut node = ServeConfig::new(name, self.metadata.clone(), fabric);
        node.identity = identity;
        node.ca_server.clone_from(&self.ca_server);
        node.protection = self.links;
        node.volume_keys.clone_from(&self.volume_keys);
        node.insecure_network = self.insecure_network;
        node.metadata_patience = self.metadata_patience;
        node.advertise = self.advertise;
        node.stores.clone_from(&self.stores);
        node.cores = 1;
        node.buffer_bytes = self.buffer_bytes;
        node.index_bytes = self.index_bytes;
        node.lease_ttl_s = self.lease_ttl_s;
        node.coordinate = false;
        node.client = self.stores.is_empty();
        node.mirror = self.mirror;
        node.moves = self.moves;
        // Whoever is told that opening took too long is given nothing later.
        node.owner_patience = self.owner_patience.map(|patience| patience.min(self.open_patience / 2));
        node.scrub_every = None;
        node.driver.yields = self.yields;
        Ok(node)
    }
}

/// `amita-client-HOST-PID-` and a number made by chance: one process may have several clients, and hosts of containers
/// share names and process numbers.
fn default_name() -> String {
    let mut name = "amita-client-".to_owned();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.extend(host.chars().filter(allowed).take(100));
    let chance = RandomState::new().hash_one(0) as u32;
    let _ = write!(name, "-{}-{chance:08x}", std::process::id());
    name
}

/// The address of this host that packets to the metadata leave from; loopback, where that cannot be said.
fn own_address(metadata: &[String]) -> IpAddr {
    let endpoint = metadata.iter().find_map(|endpoint| {
        let host = endpoint.rsplit("//").next()?.trim_end_matches('/');
        host.to_socket_addrs().ok()?.next()
    });
    let asked = endpoint.and_then(|endpoint| {
        let any: SocketAddr = match endpoint {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).ok()?;
        // Nothing is sent: the kernel looks up the route.
        socket.connect(endpoint).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    asked.unwrap_or(Ipv4Addr::LOCALHOST.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::identity;

    #[test]
    fn names_and_addresses_are_made_where_none_are_given() {
        let config = Config::new(vec!["http://127.0.0.1:2379".to_owned()]);
        let (one, two) = (config.node(None).unwrap(), config.node(None).unwrap());
        assert_ne!(one.name, two.name);
        assert!(one.name.starts_with("amita-client-"), "{}", one.name);
        assert_eq!(one.fabric, "127.0.0.1:0".parse().unwrap());
        assert!(one.client && !one.coordinate);
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let good = Config::new(vec!["127.0.0.1:2379".to_owned()]);
        let mut nowhere = good.clone();
        nowhere.metadata.clear();
        let mut narrow = good.clone();
        narrow.buffer_bytes = 4096;
        let mut nameless = good.clone();
        nameless.stores = vec!["/dev/x".into()];
        let mut homeless = good.clone();
        homeless.identity = Some("/nowhere/at/all".into());
        assert!(matches!(
            identity(&homeless),
            Err(Error::Setting {
                setting: "identity",
                ..
            })
        ));
        for (config, what) in [(nowhere, "metadata"), (narrow, "buffer_bytes"), (nameless, "name")] {
            match config.node(None) {
                Err(Error::Setting { setting, .. }) => assert_eq!(setting, what),
                other => panic!("{what}: {:?}", other.map(|node| node.name)),
            }
        }
    }
}
