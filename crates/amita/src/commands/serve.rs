//! `amita serve`: a node.

mod history;
mod inventory;
mod memory;
mod otlp;
mod sessions;

use super::core_dumps::CoreDumps;
use crate::admin::{Described, metadata_failure};
use crate::by_api::carry::Carrier;
use crate::cli::{Endpoints, Folder};
use crate::commands::backup::Backups;
use crate::commands::join::Described as _;
use crate::commands::mirror::runner::Mirrors;
use crate::commands::mirror::start as mirrors_at_start;
use crate::commands::volume::{Copies, Gateways};
use amita_api::{Api, BadCertificate, Listener, Observed, Server, Shown};
use amita_control::admin::{AdminError, DataKeys};
use amita_identity::{Clock, Live, Role, Upkeep};
use amita_keys::SealKey;
use amita_nbd::{TlsAcceptor, TlsFiles, TlsMode};
use amita_node::serve::{
    LEASE_S, Level, Log, OWNER_ALONE, OWNER_AND_GROUP, Protection, Running, ServeConfig, ServeError, serve,
};
use amita_node::volume_keys::KeyFile;
use amita_notify::run::Notifier;
use amita_nvme::auth::Group;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::size;
use history::Keeping;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the main thread looks whether the node is well, and whether it is told to end.
const LOOK: Duration = Duration::from_millis(100);

/// How long a start that is told to end may take to end by itself. Nothing is at stake: no store serves yet.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// `amita serve`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The node's name: unique in the cluster, and kept over restarts [default: the identity's name; the host's where there
    /// is none]
    #[arg(long, env = "AMITA_NAME", value_name = "NAME")]
    pub name: Option<String>,
    /// Where the authority serves (`amita ca serve`): the identity is renewed from there at half of its life, and what was
    /// revoked is heard of [default: the identity's folder is looked at only]
    #[arg(long, env = "AMITA_CA_SERVER", value_name = "HOST:PORT")]
    pub ca_server: Option<String>,
    /// A formatted disk or file; once for each. Without any, the node is a gateway only
    #[arg(long = "store", env = "AMITA_STORES", value_name = "PATH", value_delimiter = ',')]
    pub stores: Vec<PathBuf>,
    /// Where the other nodes connect; core I listens on this port plus I
    #[arg(
        long,
        env = "AMITA_FABRIC",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:7700"
    )]
    pub fabric: SocketAddr,
    /// Where the other nodes connect by a second network, with its own address of this host; core I listens on this port plus I. They go
    /// over to it, and back, by themselves (docs/operating/networks.md) [default: there is one network]
    #[arg(long, env = "AMITA_FABRIC2", value_name = "ADDRESS:PORT")]
    pub fabric2: Option<SocketAddr>,
    /// Where NBD clients connect [default: nowhere]
    #[arg(long, env = "AMITA_NBD", value_name = "ADDRESS:PORT")]
    pub nbd: Option<SocketAddr>,
    /// The Unix socket where NBD clients of this machine connect [default: none]: whoever may open it may use what was
    /// exported with --any-client. Its folder must be closed to others (mode 0700)
    #[arg(long, env = "AMITA_NBD_SOCKET", value_name = "PATH")]
    pub nbd_socket: Option<PathBuf>,
    /// The rights of --nbd-socket: 0660 lets in the group of its folder as well, which may then have mode 0710
    #[arg(long, env = "AMITA_NBD_SOCKET_MODE", value_name = "0600|0660", default_value = "0600", value_parser = parse_socket_mode, requires = "nbd_socket")]
    pub nbd_socket_mode: u32,
    /// Where hosts connect by NVMe/TCP [default: nowhere]. 4420 is the usual port; discovery is at the same one
    #[arg(long, env = "AMITA_NVME", value_name = "ADDRESS:PORT")]
    pub nvme: Option<SocketAddr>,
    /// Where initiators log in by iSCSI: a portal of this node; once for each network that they come by [default: nowhere]. 3260 is the
    /// usual port; discovery is at the same one
    #[arg(long, env = "AMITA_ISCSI", value_name = "ADDRESS:PORT", value_delimiter = ',')]
    pub iscsi: Vec<SocketAddr>,
    /// The file with the cluster's sealing key, which opens the keys of NVMe hosts, the secrets of iSCSI initiators and those of channels (`amita
    /// host seal-key`); without it hosts that have keys and initiators that have secrets cannot connect here, and its API seals none
    #[arg(long, env = "AMITA_SEAL_KEY", value_name = "FILE")]
    pub seal_key: Option<PathBuf>,
    /// The file with the cluster's volume keys (`amita volume key init`), which open the data keys of encrypted volumes, and make those of new
    /// ones by its API; without it such volumes stay closed here. It is read again whenever a volume is opened: it may come, and be changed,
    /// while the node runs (docs/operating/encryption.md)
    #[arg(long, env = "AMITA_VOLUME_KEYS", value_name = "FILE")]
    pub volume_keys: Option<PathBuf>,
    /// The largest Diffie-Hellman group that NVMe hosts may authenticate themselves with. A larger one costs the gateway more for
    /// whoever connects; it spends a quarter of a processor on that, at most
    #[arg(long, env = "AMITA_NVME_DH_GROUP", value_name = "GROUP", value_enum, default_value_t = DhGroup::Ffdhe4096)]
    pub nvme_dh_group: DhGroup,
    /// Where metrics (/metrics, for Prometheus) and traces can be read by whoever reaches the address; port 0 is any free
    /// one, `off` nowhere. `amita top` and `amita trace` find it by themselves
    #[arg(long, env = "AMITA_METRICS", value_name = "ADDRESS:PORT|off", default_value = "127.0.0.1:0", value_parser = parse_place)]
    pub metrics: Place,
    /// Where the REST API and the page for browsers are (docs/operating/api.md, docs/operating/page.md): by HTTPS, for holders of
    /// an operator's certificate or of a token; without an identity by HTTP, on loopback only, to whoever is there. Port 0 is any free
    /// one, `off` nowhere [default: 127.0.0.1:0; `off` where there is a user of etcd, and no identity that others would have to show]
    #[arg(long, env = "AMITA_API", value_name = "ADDRESS:PORT|off", value_parser = parse_place)]
    pub api: Option<Place>,
    /// The certificate chain (PEM) that browsers are shown by the API's port, with --api-key: the node's own one they cannot check
    /// (docs/operating/page.md). It is read again when it changes
    #[arg(long, env = "AMITA_API_CERTIFICATE", value_name = "FILE", requires = "api_key")]
    pub api_certificate: Option<PathBuf>,
    /// The key of the certificate (PEM), which nobody else may read
    #[arg(long, env = "AMITA_API_KEY", value_name = "FILE", requires = "api_certificate")]
    pub api_key: Option<PathBuf>,
    /// One in so many I/Os is traced (0: none), and the first one after 100 ms without
    #[arg(long, env = "AMITA_TRACE_ONE_IN", value_name = "N", default_value_t = 1000)]
    pub trace_one_in: u32,
    /// I/Os that take longer are kept with their stages [default: ten times the p99, at least 5]
    #[arg(long, env = "AMITA_SLOW_MS", value_name = "MS")]
    pub slow_ms: Option<u64>,
    /// What protects the links to other nodes, where there is an identity: the same on all nodes of a cluster. `auth`: nothing
    /// can be changed, repeated or left out on the way; `secret`: nor read [default: auth]
    #[arg(long, env = "AMITA_LINKS", value_name = "auth|secret")]
    pub links: Option<Protection>,
    /// The address to tell the others, where --fabric, --nbd, --nvme or --iscsi is every address of the host
    #[arg(long, env = "AMITA_ADVERTISE", value_name = "ADDRESS")]
    pub advertise: Option<IpAddr>,
    /// Where the others reach --fabric, when its port is another one for them: behind address translation or a
    /// forwarder. Core I is at this port plus I
    #[arg(long, env = "AMITA_ADVERTISE_FABRIC", value_name = "ADDRESS:PORT")]
    pub advertise_fabric: Option<SocketAddr>,
    /// The same for --fabric2
    #[arg(
        long,
        env = "AMITA_ADVERTISE_FABRIC2",
        value_name = "ADDRESS:PORT",
        requires = "fabric2"
    )]
    pub advertise_fabric2: Option<SocketAddr>,
    /// The site that the node stands in [default: as it was]
    #[arg(long, env = "AMITA_SITE", value_name = "SITE")]
    pub site: Option<String>,
    /// The rack that the node stands in, unique in its site [default: as it was]
    #[arg(long, env = "AMITA_RACK", value_name = "RACK")]
    pub rack: Option<String>,
    /// How many cores serve; stores and chunks are spread over them
    #[arg(long, env = "AMITA_CORES", value_name = "N", default_value_t = 1)]
    pub cores: usize,
    /// Bind each core to a processor of its own [default: where there are processors enough]
    #[arg(long, env = "AMITA_PIN", value_name = "true|false")]
    pub pin: Option<bool>,
    /// Memory for I/O of each core, taken at the start
    #[arg(long, env = "AMITA_BUFFERS", value_name = "SIZE", default_value = "256M", value_parser = size::parse_blocks)]
    pub buffers: u64,
    /// Memory for the indexes of all stores together; what does not fit is read when it is wanted [default: half of
    /// the host's memory, less where the address space is limited]
    #[arg(long, env = "AMITA_INDEX_MEMORY", value_name = "SIZE", value_parser = size::parse_blocks)]
    pub index_memory: Option<u64>,
    /// Tell disks which blocks hold nothing any more; `always` punches holes into files too, whose writes are then
    /// flushed
    #[arg(long, env = "AMITA_DISCARD", value_name = "WHERE", value_enum, default_value_t = Discard::Devices)]
    pub discard: Discard,
    /// Confirm each read with the copies' nodes instead of counting on clocks: for machines that may be paused without
    /// their clocks showing it
    #[arg(long, env = "AMITA_CONFIRM_READS")]
    pub confirm_reads: bool,
    /// Look at all copies of each volume, and repair what is damaged, every so many days; 0: only on demand
    #[arg(long, env = "AMITA_SCRUB_DAYS", value_name = "DAYS", default_value_t = 14)]
    pub scrub_days: u32,
    /// A node that does not renew its lease for so many seconds is taken for dead
    #[arg(long, env = "AMITA_LEASE", value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(LEASE_S))]
    pub lease: u64,
    /// How often a core gives way to others before it sleeps, at most, while that pays [0: it sleeps at once]
    #[arg(long, env = "AMITA_YIELDS", value_name = "N", default_value_t = 1000)]
    pub yields: u32,
    /// The certificate chain (PEM) that NBD clients are shown by TLS, with --tls-key, in place of the node's own identity
    #[arg(long, env = "AMITA_TLS_CERTIFICATE", value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, env = "AMITA_TLS_KEY", value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Authorities (PEM) whose certificates NBD clients must show: nobody is served without one, so that TLS is required too
    #[arg(
        long,
        env = "AMITA_TLS_CLIENT_AUTHORITIES",
        value_name = "FILE",
        requires = "tls_certificate"
    )]
    pub tls_client_authorities: Option<PathBuf>,
    /// Refuse NBD clients that do not use TLS
    #[arg(long, env = "AMITA_TLS_REQUIRED")]
    pub tls_required: bool,
    #[command(flatten)]
    pub history: history::Arguments,
    #[command(flatten)]
    pub otlp: otlp::Arguments,
    #[command(flatten)]
    pub core_dumps: CoreDumps,
}

/// Where something listens; none: nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(Option<SocketAddr>);

fn parse_place(text: &str) -> std::result::Result<Place, String> {
    if text == "off" {
        return Ok(Place(None));
    }
    let address = text.parse().map_err(|_| "give ADDRESS:PORT, or off".to_owned())?;
    Ok(Place(Some(address)))
}

fn parse_socket_mode(text: &str) -> std::result::Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| [OWNER_ALONE, OWNER_AND_GROUP].contains(mode))
        .ok_or_else(|| "give 0600, or 0660".to_owned())
}

/// Where freed space is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Discard {
    /// Nowhere
    Never,
    /// On block devices
    Devices,
    /// On block devices and in files
    Always,
}

/// A Diffie-Hellman group of RFC 7919.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DhGroup {
    Ffdhe2048,
    Ffdhe3072,
    Ffdhe4096,
    Ffdhe6144,
    Ffdhe8192,
}

impl DhGroup {
    fn group(self) -> Group {
        match self {
            DhGroup::Ffdhe2048 => Group::Ffdhe2048,
            DhGroup::Ffdhe3072 => Group::Ffdhe3072,
            DhGroup::Ffdhe4096 => Group::Ffdhe4096,
            DhGroup::Ffdhe6144 => Group::Ffdhe6144,
            DhGroup::Ffdhe8192 => Group::Ffdhe8192,
        }
    }
}

impl Arguments {
    /// Where the API listens; none: nowhere.
    fn api_address(&self, config: &ServeConfig) -> Result<Option<SocketAddr>> {
        // By the node's password everybody on its machine would have what the password protects.
        let is_behind_password = config.identity.is_none() && config.metadata_user.is_some();
        match self.api {
            Some(Place(Some(_))) if is_behind_password => Err(Failure::new(
                "--api: the node has a user of etcd, and no identity by which others could prove who they are",
            )
            .kind(Kind::Usage)
            .advice("Give the node an identity (--identity), or say `--api off`.")),
            Some(Place(address)) => Ok(address),
            None => Ok((!is_behind_password).then_some(SocketAddr::from(([127, 0, 0, 1], 0)))),
        }
    }

    /// The certificate for browsers, if there is one.
    fn shown(&self, config: &ServeConfig) -> Result<Option<Arc<Shown>>> {
        let (Some(certificate), Some(key)) = (&self.api_certificate, &self.api_key) else {
            return Ok(None);
        };
        if config.identity.is_none() || self.api == Some(Place(None)) {
            return Err(
                Failure::new("--api-certificate: there is no API by HTTPS that could show it")
                    .kind(Kind::Usage)
                    .advice("Give the node an identity (--identity), and leave out `--api off`."),
            );
        }
        let shown = Shown::open(certificate, key)
            .map_err(|why| Failure::new(format!("--api-certificate, --api-key: {why}")).kind(kind_of(&why)))?;
        if let (until, true) = shown.validity() {
            log::warn!("the certificate for browsers has ended at {until}: they will refuse it");
        }
        Ok(Some(shown))
    }

    /// The file of volume keys. It may come later; what is wrong with one that is there is said now, and not when its first volume is wanted.
    fn volume_keys(&self) -> Result<Option<PathBuf>> {
        let Some(path) = &self.volume_keys else {
            return Ok(None);
        };
        match KeyFile::at(path).check() {
            Ok(()) => {}
            Err(why) if why.is_absent() => log::warn!(
                "--volume-keys {}: it is not there; encrypted volumes stay closed until it is",
                path.display()
            ),
            Err(why) => {
                return Err(Failure::new(format!("--volume-keys {}: {why}", path.display())).kind(Kind::Unreadable));
            }
        }
        Ok(Some(path.clone()))
    }

    fn config(&self, metadata: &Endpoints, identity: &Folder) -> Result<ServeConfig> {
        let live = match identity.given() {
            Some(folder) => Some(Live::open(folder, Clock::system()).described()?),
            None => None,
        };
        if live.is_none() && self.ca_server.is_some() {
            return Err(Failure::new("--ca-server: there is no identity to be renewed")
                .kind(Kind::Usage)
                .advice("Pass --identity DIR as well; `amita node join` makes one."));
        }
        if live.is_none() && self.links.is_some() {
            return Err(Failure::new("--links: there is no identity to protect links with")
                .kind(Kind::Usage)
                .advice("Pass --identity DIR as well; `amita node join` makes one."));
        }
        let name = match (&self.name, &live) {
            (Some(name), _) => name.clone(),
            (None, Some(live)) => live.name().name().to_owned(),
            (None, None) => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        };
        let mut config = ServeConfig::new(name, metadata.list()?, self.fabric);
        config.identity = live;
        config.protection = self.links.unwrap_or_default();
        config.nbd = self.nbd;
        config.nbd_socket = match &self.nbd_socket {
            Some(path) => {
                let named = std::path::absolute(path);
                Some(named.context(|| format!("--nbd-socket: {} is no path", path.display()))?)
            }
            None => None,
        };
        config.nbd_socket_mode = self.nbd_socket_mode;
        config.nvme = self.nvme;
        config.iscsi.clone_from(&self.iscsi);
        config.insecure_network = metadata.insecure_network();
        config.metadata_user = metadata.user()?;
        if let Some(path) = &self.seal_key {
            // Said now, and not when the first host that has a key comes.
            SealKey::load(path).map_err(|why| Failure::new(why.to_string()).kind(Kind::Unreadable))?;
            config.seal_key = Some(path.clone());
        }
        config.volume_keys = self.volume_keys()?;
        if config.volume_keys.is_some() && (config.identity.is_none() || config.protection != Protection::Secret) {
            log::warn!(
                "--volume-keys: the links to other nodes are none that nobody can read (an identity, and --links secret at all nodes): no data of \
                 encrypted volumes goes over them, so that hosts use each such volume by the one node that owns it"
            );
        }
        config.nvme_config.auth_groups = self.nvme_dh_group.group().up_to();
        config.nvme_config.auth_groups.push(Group::Null);
        config.metrics = self.metrics.0;
        config.trace.one_in = self.trace_one_in;
        config.trace.slow = self.slow_ms.map(Duration::from_millis);
        config.advertise = self.advertise;
        config.fabric2 = self.fabric2;
        config.advertise_fabric = self.advertise_fabric;
        config.advertise_fabric2 = self.advertise_fabric2;
        config.stores.clone_from(&self.stores);
        config.site.clone_from(&self.site);
        config.rack.clone_from(&self.rack);
        config.cores = self.cores;
        config.pin = self.pin;
        config.buffer_bytes = usize::try_from(self.buffers).unwrap_or(usize::MAX);
        let plan = memory::Plan {
            cores: self.cores,
            buffers: self.buffers,
            index: self.index_memory,
        };
        config.index_bytes = plan.index_bytes(memory::of_the_host(), memory::limit())?;
        config.discard = match self.discard {
            Discard::Never => amita_store::Discard::Never,
            Discard::Devices => amita_store::Discard::Devices,
            Discard::Always => amita_store::Discard::Always,
        };
        config.confirm_reads = self.confirm_reads;
        config.lease_ttl_s = self.lease;
        config.interrupted = interrupt::caught;
        config.before_serving = mirrors_at_start::look;
        config.scrub_every = (self.scrub_days > 0).then(|| Duration::from_secs(u64::from(self.scrub_days) * 24 * 3600));
        config.driver.yields = self.yields;
        let mode = if self.tls_required {
            TlsMode::Require
        } else {
            TlsMode::Allow
        };
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            let files = TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_authorities: self.tls_client_authorities.clone(),
            };
            let acceptor = TlsAcceptor::load(mode, &files).map_err(|error| Failure::new(error.to_string()))?;
            config.nbd_config.tls = Some(acceptor);
        } else if let Some(live) = &config.identity {
            config.nbd_config.tls = Some(TlsAcceptor::of(mode, live.open_server_config(&[Role::Client])));
        } else if self.tls_required {
            return Err(Failure::new("--tls-required needs a certificate to show")
                .kind(Kind::Usage)
                .advice("Give the node an identity (--identity), or pass --tls-certificate and --tls-key."));
        }
        Ok(config)
    }
}

/// Serves until it is told to end.
///
/// # Errors
/// When the node cannot start, or a core of it has failed.
pub fn run(arguments: &Arguments, metadata: &Endpoints, identity: &Folder) -> Result<()> {
    interrupt::catch();
    let mut config = arguments.config(metadata, identity)?;
    arguments.history.layout()?;
    let collector = arguments.otlp.settings(config.insecure_network)?;
    let shown = arguments.shown(&config)?;
    let browser = shown.clone();
    // The node's record says where the API is: so its place is taken first.
    let listener = match arguments.api_address(&config)? {
        Some(address) => {
            let (listener, address) = listen(address, &config)?;
            Some((shown.into_iter().fold(listener, Listener::showing), address))
        }
        None => None,
    };
    config.api = listener.as_ref().map(|(_, address)| *address);
    // It ends with the node.
    let _upkeep = match &config.identity {
        Some(live) => Some(Upkeep::start(live.clone(), arguments.ca_server.as_deref()).described()?),
        None => None,
    };
    let log: Log = Arc::new(|level, text| {
        let level = match level {
            Level::Error => log::Level::Error,
            Level::Warn => log::Level::Warn,
            Level::Info => log::Level::Info,
        };
        log::log!(target: "node", level, "{text}");
    });
    raise_open_files();
    let Some(running) = start(&config, &log)? else {
        log::info!("the node ends: it was told to before it served");
        return Ok(());
    };
    let notifier = start_notifier(&config)?;
    let copies = start_copies(&config, identity)?;
    let backups = start_backups(&config, identity)?;
    let mirrors = start_mirrors(&config, identity)?;
    let collect = running.collector();
    let keeping = Keeping::start(&arguments.history, &config, &collect);
    let exporter = otlp::start(collector, running.trace_source());
    let telling = inventory::keep(arguments, metadata, &config, &running, &collect, browser);
    let observed = history::observed(&config, keeping.as_ref(), &collect, running.sessions());
    let api = match listener {
        Some((listener, _)) => Some(serve_api(listener, &config, observed, identity)?),
        None => None,
    };
    let nbd = running
        .nbd
        .map_or_else(String::new, |address| format!(", NBD on {address}"));
    let nbd_socket = running
        .nbd_socket()
        .map_or_else(String::new, |path| format!(", NBD on {}", path.display()));
    let nvme = running
        .nvme
        .map_or_else(String::new, |address| format!(", NVMe/TCP on {address}"));
    let iscsi = iscsi_at(&running.iscsi);
    let metrics = running
        .metrics
        .map_or_else(String::new, |address| format!(", metrics on http://{address}/metrics"));
    let api_at = api.as_ref().map_or_else(String::new, |api| {
        format!(", API on {0}{1}", api.url(), page_at(&api.url()))
    });
    let fabric2 = running
        .fabric2
        .map_or_else(String::new, |address| format!(" and {address}"));
    log::info!(
        "node {} ({}) serves: {} of {} stores, fabric on {}{fabric2}{nbd}{nbd_socket}{nvme}{iscsi}{metrics}{api_at}",
        running.node,
        config.name,
        running.stores,
        config.stores.len(),
        running.fabric
    );
    while !interrupt::caught() {
        if running.has_failed() {
            let why = running
                .stop()
                .err()
                .map_or_else(|| "a core ended".to_owned(), |error| error.to_string());
            log::error!("{why}");
            return Err(
                Failure::new(why).advice("This is a fault of the program. Start the node again, and report it.")
            );
        }
        std::thread::sleep(LOOK);
    }
    log::info!("the node ends");
    drop(mirrors);
    drop(backups);
    drop(copies);
    drop(api);
    drop(telling);
    drop(keeping);
    drop(exporter);
    drop(notifier);
    running.stop().map_err(failure)
}

fn listen(address: SocketAddr, config: &ServeConfig) -> Result<(Listener, SocketAddr)> {
    let listener = Listener::bind(address, config.identity.is_some());
    let listening = listener.and_then(|listener| Ok((listener.address()?, listener)));
    match listening {
        Ok((address, listener)) => Ok((listener, address)),
        Err(why) => {
            let kind = match why.kind() {
                std::io::ErrorKind::AddrInUse => Kind::Conflict,
                std::io::ErrorKind::PermissionDenied => Kind::Usage,
                _ => Kind::Failed,
            };
            Err(Failure::new(format!("--api {address}: {why}"))
                .kind(kind)
                .advice("Choose another address, or `--api off`."))
        }
    }
}

/// Has this node tell of alerts, when it is the one that does.
fn start_notifier(config: &ServeConfig) -> Result<Notifier> {
    let client = config.metadata_client().map_err(|why| metadata_failure(&why))?;
    let notifier = Notifier::start(
        client,
        amita_notify::run::Config {
            node: config.name.clone(),
            seal_key: config.seal_key.clone(),
        },
    );
    notifier.context(|| "the notifier cannot be started".to_owned())
}

/// Has this node make copies of volumes, some of those that there are to be.
fn start_copies(config: &ServeConfig, identity: &Folder) -> Result<Option<Copies>> {
    let client = config.metadata_client().map_err(|why| metadata_failure(&why))?;
    let copies = Copies::start(client, config, identity.given());
    copies.context(|| "what makes copies cannot be started".to_owned())
}

/// Has this node back up by policies, by some of those that there are.
fn start_backups(config: &ServeConfig, identity: &Folder) -> Result<Option<Backups>> {
    let client = config.metadata_client().map_err(|why| metadata_failure(&why))?;
    let backups = Backups::start(client, config, identity.given());
    backups.context(|| "what backs up by policies cannot be started".to_owned())
}

/// Has this node look after mirrors, some of those that there are.
fn start_mirrors(config: &ServeConfig, identity: &Folder) -> Result<Option<Mirrors>> {
    let client = config.metadata_client().map_err(|why| metadata_failure(&why))?;
    let mirrors = Mirrors::start(client, config, identity.given());
    mirrors.context(|| "what looks after mirrors cannot be started".to_owned())
}

/// Where the portals for iSCSI are, for the line that a start ends with.
fn iscsi_at(portals: &[SocketAddr]) -> String {
    if portals.is_empty() {
        return String::new();
    }
    let portals: Vec<String> = portals.iter().map(ToString::to_string).collect();
    format!(", iSCSI on {}", portals.join(" and "))
}

/// Where the page is, for the line that a start ends with.
fn page_at(url: &str) -> String {
    if amita_page::is_built() {
        format!(", page on {url}/")
    } else {
        ", no page in this build".to_owned()
    }
}

fn kind_of(why: &BadCertificate) -> Kind {
    match why {
        BadCertificate::Unreadable { .. } => Kind::Unreadable,
        _ => Kind::Usage,
    }
}

fn serve_api(listener: Listener, config: &ServeConfig, observed: Observed, identity: &Folder) -> Result<Server> {
    let client = config.metadata_client().map_err(|why| metadata_failure(&why))?;
    let data = Gateways::of(config, identity.given());
    let api = data.into_iter().fold(Api::watching(client.clone()), Api::with_data);
    let api = api
        .with_page(amita_page::answer)
        .observing(observed)
        .with_commands(Arc::new(
            Carrier::new(client)
                .sealing_by(config.seal_key.clone())
                .wrapping_by(config.volume_keys.clone())
                .known_by(config.identity.clone()),
        ))
        .with_seal_key(config.seal_key.clone())
        .with_data_keys(config.volume_keys.as_ref().map(|path| {
            let file: Arc<dyn DataKeys + Send + Sync> = Arc::new(KeyFile::at(path));
            file
        }));
    let server = Server::start(listener, config.identity.clone(), api, &config.name);
    server.context(|| "the API cannot be served".to_owned())
}

/// Starts the node; `None`: it was told to end meanwhile.
///
/// A start waits for much (the metadata, the lease of an earlier process, ports, disks), in part inside of calls that nothing
/// ends. It goes on a thread of its own, then: whoever waits for it can go.
fn start(config: &ServeConfig, log: &Log) -> Result<Option<Running>> {
    let (to_main, started) = channel();
    let (config, log) = (config.clone(), log.clone());
    std::thread::Builder::new()
        .name("amita-start".to_owned())
        .spawn(move || {
            // Nobody listens any more when the process ends.
            let _ = to_main.send(serve(&config, &log));
        })
        .context(|| "cannot start a thread".to_owned())?;
    let mut told_at: Option<Instant> = None;
    loop {
        match started.recv_timeout(LOOK) {
            Ok(Ok(running)) => return Ok(Some(running)),
            Ok(Err(ServeError::Interrupted)) => return Ok(None),
            Ok(Err(why)) => return Err(failure(why)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the start ended without a word")
                    .advice("This is a fault of the program. Start the node again, and report it."));
            }
        }
        if interrupt::caught() && told_at.get_or_insert_with(Instant::now).elapsed() >= END_PATIENCE {
            return Ok(None);
        }
    }
}

/// Each host and each peer is an open file, and a system's usual limit of 1,024 is soon reached: the process takes as many as it
/// is allowed to.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(why) = setrlimit(Resource::Nofile, raised) {
        log::warn!("the limit on open files stays at {:?}: {why}", limit.current);
    }
}

fn failure(error: ServeError) -> Failure {
    let kind = match &error {
        ServeError::Admin(AdminError::Metadata(inner)) => return metadata_failure(inner),
        ServeError::Setting { .. } => Kind::Usage,
        ServeError::NameTaken(_) => Kind::Conflict,
        ServeError::Listen { why, .. } | ServeError::LocalSocket { why, .. } if why.contains("in use") => {
            Kind::Conflict
        }
        _ => Kind::Failed,
    };
    match error {
        ServeError::Admin(inner) => Err::<(), _>(inner)
            .described()
            .err()
            .unwrap_or_else(Failure::interrupted),
        error => Failure::new(error.to_string()).kind(kind),
    }
}
