//! What a host needs to know to use a volume by NVMe over TCP.

use super::input::{Named, Names, Parameters};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::admin::{self, AdminError, NamespaceStatus, NodeStatus};
use amita_control::guide::{Gateway, Guide, Proofs};
use amita_metadata::Transact;
use amita_types::NodeId;
use amita_types::map::Subsystem;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// A gateway that a host can connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AttachmentGateway {
    /// The node's name.
    pub node: String,
    /// Its address (`--traddr` of `nvme connect`).
    #[schema(example = "192.0.2.7")]
    pub traddr: String,
    /// Its port (`--trsvcid`).
    #[schema(example = 4420)]
    pub trsvcid: u16,
    /// Does it own the volume? Its path is the shortest one.
    pub owner: bool,
    /// Does it live?
    pub alive: bool,
}

/// By what hosts have a volume, or a snapshot of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Attachment {
    /// The volume's name, or VOLUME@SNAPSHOT.
    pub volume: String,
    /// The name of the subsystem that it is a namespace of.
    pub subsystem: String,
    /// The subsystem's NVMe qualified name (`--nqn`).
    pub nqn: String,
    /// The namespace's number.
    pub nsid: u32,
    /// The namespace's UUID: on Linux, the disk is `/dev/disk/by-id/nvme-uuid.` with this behind it.
    pub uuid: String,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Every host may connect.
    pub any_host: bool,
    /// The NVMe qualified names of the hosts that may connect.
    pub hosts: Vec<String>,
    /// The gateways that serve it: the owner first, then those that live.
    pub gateways: Vec<AttachmentGateway>,
    /// What the host that was asked for does to have it; where none was, the first of `hosts`. Null: there is no host, or no gateway.
    pub commands: Option<HostCommands>,
}

/// What a Linux host does, as root, to have a volume by NVMe over TCP: as `amita volume attach` prints it. No key stands in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HostCommands {
    /// The host's NVMe qualified name.
    pub host: String,
    /// What is run once before: the kernel's module, keys. One of them may have several lines.
    pub prepare: Vec<String>,
    /// What connects: one command for each gateway, in their order.
    pub connect: Vec<String>,
    /// What connects all gateways and all subsystems at once, by discovery; null where the host has something to prove.
    pub connect_all: Option<String>,
    /// The file that makes it permanent.
    #[schema(example = "/etc/nvme/discovery.conf")]
    pub permanent_file: String,
    /// Its lines. Where keys belong into it, they have commands of the shell in their places, and one of `prepare` writes it.
    pub permanent: Vec<String>,
    /// The disk, on the host.
    #[schema(example = "/dev/disk/by-id/nvme-uuid.6f9619ff-8b86-4d01-b42d-00cf4fc964ff")]
    pub disk: String,
}

/// Whose commands.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct For {
    /// The NVMe qualified name of the host that the commands are for; it has to be one that may connect.
    host: Option<String>,
}

impl From<&AttachmentGateway> for Gateway {
    fn from(found: &AttachmentGateway) -> Gateway {
        Gateway {
            node: found.node.clone(),
            traddr: found.traddr.clone(),
            trsvcid: found.trsvcid,
            owner: found.owner,
            alive: found.alive,
        }
    }
}

fn gateway(found: &NodeStatus, owner: Option<NodeId>) -> Option<AttachmentGateway> {
    let portal: SocketAddr = found.node.nvme.as_ref()?.parse().ok()?;
    Some(AttachmentGateway {
        node: found.node.name.clone(),
        traddr: portal.ip().to_string(),
        trsvcid: portal.port(),
        owner: owner == Some(found.node.id),
        alive: found.alive,
    })
}

/// What the host of this name does; where none is said, the first that may connect.
fn commands(
    meta: &dyn Transact,
    found: &Subsystem,
    host: Option<String>,
    gateways: &[AttachmentGateway],
    uuid: &str,
) -> Result<Option<HostCommands>, AdminError> {
    if let Some(host) = &host {
        admin::check_nqn("host", host)?;
        if !found.any_host && !found.hosts.contains(host) {
            return Err(AdminError::NotAllowed {
                host: host.clone(),
                subsystem: found.name.clone(),
                allowed: found.hosts.clone(),
            });
        }
    }
    let host = host.or_else(|| found.hosts.first().cloned());
    let Some(host) = host.filter(|_| !gateways.is_empty()) else {
        return Ok(None);
    };
    // One that nobody knows has nothing to prove.
    let proofs = match admin::host(meta, &host) {
        Ok(known) => Proofs::of(&known),
        Err(AdminError::NoSuch { .. }) => Proofs::default(),
        Err(why) => return Err(why),
    };
    let gateways: Vec<Gateway> = gateways.iter().map(Gateway::from).collect();
    let guide = Guide::new(&found.nqn, &host, &gateways, proofs);
    Ok(Some(HostCommands {
        host,
        prepare: guide.prepare,
        connect: guide.connect,
        connect_all: guide.connect_all,
        permanent_file: guide.permanent_file.to_owned(),
        permanent: guide.permanent,
        disk: Guide::disk(uuid),
    }))
}

fn find(meta: &dyn Transact, name: &str, host: Option<String>) -> Result<Attachment, Problem> {
    let (volume, used) = admin::namespace_of(meta, name)?;
    let Some(NamespaceStatus {
        subsystem, namespace, ..
    }) = used
    else {
        let why = format!(
            "{name} is no namespace of any subsystem, so no host has it by NVMe; POST /subsystems/NAME/namespaces makes it one"
        );
        return Err(Problem::new(Code::NotFound, why));
    };
    let found = admin::subsystem(meta, &subsystem)?;
    let nodes = admin::members(meta)?.nodes;
    let serves = |node: &&NodeStatus| found.gateways.is_empty() || found.gateways.contains(&node.node.name);
    let gateways = nodes.iter().filter(serves);
    let mut gateways: Vec<AttachmentGateway> = gateways.filter_map(|node| gateway(node, volume.owner)).collect();
    gateways.sort_by_key(|gateway| (!gateway.owner, !gateway.alive));
    let uuid = namespace.uuid.to_string();
    let commands = commands(meta, &found, host, &gateways, &uuid)?;
    Ok(Attachment {
        volume: name.to_owned(),
        subsystem,
        nqn: found.nqn,
        nsid: namespace.nsid,
        uuid,
        block_bytes: namespace.block_bytes,
        any_host: found.any_host,
        hosts: found.hosts,
        gateways,
        commands,
    })
}

/// What a host needs to know to use a volume, or VOLUME@SNAPSHOT, by NVMe over TCP: where to connect, and by which commands.
#[utoipa::path(get, path = "/volumes/{name}/attachment", operation_id = "showAttachment", tag = "volumes", params(Named, For),
    responses((status = 200, body = Attachment),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(For { host }): Parameters<For>,
) -> Result<Json<Attachment>, Problem> {
    let found = api.run(asker, move |session| find(&session.reader(), &name, host));
    found.await.map(Json)
}
