//! What a host needs to know to use a volume by NVMe over TCP.

use super::input::{Named, Names};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::admin::{self, NamespaceStatus, NodeStatus};
use amita_metadata::Transact;
use amita_types::NodeId;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::net::SocketAddr;
use utoipa::ToSchema;
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

fn find(meta: &dyn Transact, name: &str) -> Result<Attachment, Problem> {
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
    Ok(Attachment {
        volume: name.to_owned(),
        subsystem,
        nqn: found.nqn,
        nsid: namespace.nsid,
        uuid: namespace.uuid.to_string(),
        block_bytes: namespace.block_bytes,
        any_host: found.any_host,
        hosts: found.hosts,
        gateways,
    })
}

/// What a host needs to know to use a volume, or VOLUME@SNAPSHOT, by NVMe over TCP: its name there, and where to connect.
#[utoipa::path(get, path = "/volumes/{name}/attachment", operation_id = "showAttachment", tag = "volumes", params(Named),
    responses((status = 200, body = Attachment),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Json<Attachment>, Problem> {
    let found = api.run(asker, move |session| find(&session.reader(), &name));
    found.await.map(Json)
}
