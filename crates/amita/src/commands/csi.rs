//! `amita csi`: the driver of the Container Storage Interface, for Kubernetes.

use crate::by_api::driver::Driver as Way;
use crate::by_api::who::Nodes;
use amita_csi::api::Api;
use amita_csi::controller::Controller;
use amita_csi::identity::{Identity, Part};
use amita_csi::node::{Linux, Node, host_id};
use amita_csi::serve::{Services, bind, serve, socket_path};
use amita_csi::{Driver, USUAL_NAME};
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::interrupt;
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
    /// It has no rights at the cluster: what it needs the controller tells it. It needs /dev, /sys and the folders of kubelet, whose mounts it shares.
    Node(NodeArguments),
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
        Command::Node(arguments) => node(arguments),
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
    let Command::Controller(socket) = command else {
        return run(command);
    };
    let driver = driver(socket)?;
    let api = Api::new(Arc::new(Way::new(nodes)));
    let services = Services {
        identity: Identity::new(driver.clone(), Part::Controller),
        controller: Some(Controller::new(driver, api.clone())),
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

fn node(arguments: &NodeArguments) -> Result<()> {
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
    let node = Node::new(Arc::new(Linux), driver.clone(), host, arguments.max_volumes)
        .with_host_root(arguments.host_root.clone());
    let services = Services {
        identity: Identity::new(driver, Part::Node),
        controller: None,
        node: Some(node.clone()),
    };
    until_it_ends(&arguments.socket, services, node.keep_paths())
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
