//! `amita csi`: the driver of the Container Storage Interface, for Kubernetes.

use crate::by_api::driver::Driver as Way;
use crate::by_api::who::Nodes;
use amita_csi::api::Api;
use amita_csi::controller::Controller;
use amita_csi::identity::{Identity, Part};
use amita_csi::node::{Inline, Linux, Node, host_id, quantity};
use amita_csi::serve::{Services, bind, serve, socket_path};
use amita_csi::topology::Standing;
use amita_csi::{Driver, USUAL_NAME};
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::interrupt;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How often it is looked whether the driver is to end,
const LOOK: Duration = Duration::from_millis(200);
/// and for so long it is waited then for what it has begun: whoever has asked asks again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which part of the driver.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Serve volumes, snapshots and who has them: beside the sidecars of a controller
    ///
    /// It asks nodes' REST API (--by-api), by a token or the certificate of an operator, and keeps nothing: any number of them may run.
    Controller(Socket),
    /// Serve the disks and mounts of this machine: beside the sidecar of a node, as root
    ///
    /// It has no rights at the cluster: what it needs the controller tells it. With --inline it has (--by-api, and a token or the certificate of an operator). It needs /dev, /sys and the
    /// folders of kubelet, whose mounts it shares.
    Node(Box<NodeArguments>),
}

/// Where, and as what.
#[derive(Debug, clap::Args)]
pub struct Socket {
    /// The socket that sidecars connect to, as unix:///PATH
    #[arg(
        long,
        env = "CSI_ENDPOINT",
        value_name = "SOCKET",
        default_value = "unix:///csi/csi.sock"
    )]
    pub endpoint: String,
    /// The name of the driver, as StorageClasses say it; another one for each Kubernetes that shares a cluster
    #[arg(long, env = "AMITA_CSI_DRIVER", value_name = "NAME", default_value = USUAL_NAME)]
    pub driver: String,
    /// Tell Kubernetes where machines stand, and be told where volumes are wanted; at the controller and at every node, or at none
    #[arg(long, env = "AMITA_CSI_TOPOLOGY")]
    pub topology: bool,
}

/// `amita csi node`.
#[derive(Debug, clap::Args)]
pub struct NodeArguments {
    #[command(flatten)]
    pub socket: Socket,
    /// The name that Kubernetes has for this machine
    #[arg(long, env = "AMITA_CSI_NODE", value_name = "NAME")]
    pub node: String,
    /// The host that it is to storage, as a UUID [default: made from /etc/machine-id, the name, and that of the driver]
    #[arg(long, value_name = "UUID")]
    pub host_id: Option<Uuid>,
    /// Volumes that it has at one time, at most; 0: Kubernetes decides
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_volumes: u32,
    /// The site that it stands in, as sites of the cluster are called (amita node place); with --topology
    #[arg(
        long,
        env = "AMITA_CSI_SITE",
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub site: String,
    /// The same where sites are what Kubernetes calls zones: it is reported as topology.kubernetes.io/zone as well
    #[arg(
        long,
        env = "AMITA_CSI_ZONE",
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub zone: String,
    /// The rack, unique in its site
    #[arg(
        long,
        env = "AMITA_CSI_RACK",
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub rack: String,
    /// A file of the machine that says it in their place: site=NAME, zone=NAME, rack=NAME, a line each
    #[arg(long, env = "AMITA_CSI_PLACE_FILE", value_name = "FILE", conflicts_with_all = ["site", "zone", "rack"])]
    pub place_file: Option<PathBuf>,
    /// Make volumes that pods have in their own description, and delete them with the pods: it asks nodes' API for that
    #[arg(long, env = "AMITA_CSI_INLINE")]
    pub inline: bool,
    /// As what they are made: a parameter of a StorageClass; several times
    #[arg(long, value_name = "KEY=VALUE", requires = "inline")]
    pub inline_parameter: Vec<String>,
    /// How large one may be, at most
    #[arg(long, value_name = "SIZE", default_value = "10Gi")]
    pub inline_max_size: String,
    /// Where the machine's / is seen, in a container: its iscsiadm, multipath and multipathd are run in there, for volumes by iSCSI
    #[arg(long, env = "AMITA_CSI_HOST_ROOT", value_name = "DIR")]
    pub host_root: Option<String>,
}

/// Serves a part of the driver until it is to end.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Node(arguments) => node(arguments, None),
        Command::Controller(_) => Err(
            Failure::new("the controller asks nodes by their API, and none is named")
                .kind(Kind::Usage)
                .advice("Give --by-api HOST:PORT[,...], and --api-token-file FILE or --identity DIR."),
        ),
    }
}

/// The same, with nodes to ask.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run_by_api(command: &Command, nodes: Nodes) -> Result<()> {
    let socket = match command {
        Command::Controller(socket) => socket,
        Command::Node(arguments) => return node(arguments, Some(nodes)),
    };
    let driver = driver(socket)?;
    let api = Api::new(Arc::new(Way::new(nodes)));
    let (mut identity, mut controller) = (
        Identity::new(driver.clone(), Part::Controller),
        Controller::new(driver, api.clone()),
    );
    if socket.topology {
        (identity, controller) = (identity.with_places(), controller.with_places());
    }
    let services = Services {
        identity,
        controller: Some(controller),
        node: None,
    };
    until_it_ends(socket, services, look_once(api))
}

/// Says whether the cluster is there and knows the driver: whoever has set it up looks into its log first.
async fn look_once(api: Api) {
    match api.myself().await {
        Ok(()) => log::info!("the cluster answers"),
        Err(why) => log::warn!("the cluster cannot be asked yet: {why}"),
    }
    std::future::pending().await
}

fn node(arguments: &NodeArguments, nodes: Option<Nodes>) -> Result<()> {
    let driver = driver(&arguments.socket)?;
    let host = match arguments.host_id.filter(|host| !host.is_nil()) {
        Some(host) => host,
        None => host_id(&Linux, &arguments.node, &driver).map_err(|why| {
            Failure::new(why)
                .kind(Kind::Unreadable)
                .advice("Let it be seen in the container, or say which host this is (--host-id UUID).")
        })?,
    };
    log::info!("this machine is host {host} to storage");
    let mut node = Node::new(Arc::new(Linux), driver.clone(), host, arguments.max_volumes)
        .with_host_root(arguments.host_root.clone());
    if arguments.inline {
        node = node.with_inline(inline(arguments, driver.clone(), nodes)?);
    }
    let mut identity = Identity::new(driver, Part::Node);
    if arguments.socket.topology {
        (identity, node) = (identity.with_places(), node.standing(standing(arguments)?));
    }
    let services = Services {
        identity,
        controller: None,
        node: Some(node.clone()),
    };
    let beside = async {
        tokio::join!(node.clone().keep_paths(), node.keep_inline());
    };
    until_it_ends(&arguments.socket, services, beside)
}

/// How volumes of single pods are made, and by whom.
fn inline(arguments: &NodeArguments, driver: Driver, nodes: Option<Nodes>) -> Result<Inline> {
    let usage = |why: String| Failure::new(why).kind(Kind::Usage);
    let nodes = nodes.ok_or_else(|| {
        usage("inline volumes are made by nodes' API, and no node is named".to_owned())
            .advice("Give --by-api HOST:PORT[,...], and a token of its own (AMITA_TOKEN, --api-token-file FILE); or leave --inline out.")
    })?;
    let pairs = arguments.inline_parameter.iter().map(|pair| {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| usage(format!("--inline-parameter {pair}: say KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    });
    let parameters = pairs.collect::<Result<BTreeMap<_, _>>>()?;
    let size = &arguments.inline_max_size;
    let most =
        quantity(size).ok_or_else(|| usage(format!("--inline-max-size {size}: say bytes, or as 500Mi or 10Gi")))?;
    let controller = Controller::new(driver, Api::new(Arc::new(Way::new(nodes))));
    Inline::new(controller, parameters, most).map_err(|why| usage(format!("--inline-parameter: {why}")))
}

/// Where this machine stands. A machine that reports no place would have no claim that waits for its pod, so it is to be said.
fn standing(arguments: &NodeArguments) -> Result<Standing> {
    let NodeArguments { site, zone, rack, .. } = arguments;
    let found = match &arguments.place_file {
        None => Standing::new(site, zone, rack),
        Some(file) => {
            let text = std::fs::read_to_string(file).context(|| format!("{} cannot be read", file.display()))?;
            Standing::read(&text).map_err(|why| format!("{}: {why}", file.display()))
        }
    };
    found.map_err(|why| {
        Failure::new(why).kind(Kind::Usage).advice(
            "Say it by --site, --zone or --place-file, or leave --topology out. In Kubernetes the zone is a label of the pod from 1.35 on, where its machine has one \
             (topology.kubernetes.io/zone).",
        )
    })
}

fn driver(socket: &Socket) -> Result<Driver> {
    Driver::new(&socket.driver).map_err(|why| Failure::new(why).kind(Kind::Usage))
}

/// Serves, and does `beside`, until it is to end.
fn until_it_ends(socket: &Socket, services: Services, beside: impl Future<Output = ()>) -> Result<()> {
    interrupt::catch();
    let path = socket_path(&socket.endpoint).map_err(|why| Failure::new(why).kind(Kind::Usage))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context(|| "no event loop".to_owned())?;
    let bound = runtime.block_on(async { bind(&path) });
    let bound = bound.context(|| format!("{} cannot be served", path.display()))?;
    log::info!("the driver {} serves {}", socket.driver, path.display());
    runtime.block_on(async {
        tokio::select! {
            never = serve(&bound, services) => match never {},
            () = beside => {}
            () = ended() => {}
        }
    });
    // Whoever connects later is to find nobody, and not to wait for what has begun.
    runtime.block_on(async { drop(bound) });
    runtime.shutdown_timeout(PATIENCE);
    Ok(())
}

async fn ended() {
    while !interrupt::caught() {
        tokio::time::sleep(LOOK).await;
    }
}
