//! The node: disks of volumes, file systems on them, and where they are mounted. It asks nobody: what it needs comes with the request; but for volumes of single pods ([`Inline`]),
//! for which it asks the cluster as the controller does.
//!
//! All of it is done by one [`Machine`], on threads that may wait. A call may be cut at each thing that it does, and is sent again, perhaps after
//! a reboot: it looks what is there, and goes on.

mod attach;
mod claims;
mod copied;
mod crypt;
mod discovery;
pub(crate) mod filesystem;
mod gateways;
mod hold;
mod hold_paths;
mod inline;
mod iscsi;
mod leftovers;
pub mod machine;
mod mounts;
mod nvme;
mod passthrough;
mod paths;
mod publish;
mod report;
mod reservation;
mod stage;
mod stats;
mod tools;
mod turns;

pub use copied::Copied;
pub use inline::{Inline, quantity};
pub use machine::{Linux, Machine};
pub use report::Registered;

use crate::Driver;
use crate::busy::{Busy, Hold};
use crate::grpc::unary;
use crate::id::VolumeId;
use crate::protocol::NodeId;
use crate::topology::Standing;
use crate::wire::node as wire;
use aws_lc_rs::digest::{SHA256, digest};
use http::{Request, Response};
use hyper::body::Incoming;
use std::future::ready;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tonic::Status;
use tonic::body::Body;
use uuid::Uuid;

/// The node.
#[derive(Clone)]
pub struct Node {
    machine: Arc<dyn Machine>,
    driver: Driver,
    host: Uuid,
    /// Volumes that are published to it at one time, at most; 0: it does not say.
    most_volumes: u32,
    /// Where it stands; none: it does not say.
    standing: Option<Standing>,
    /// Volumes for single pods; none: there are none.
    inline: Option<Inline>,
    busy: Busy,
    gateways: Arc<gateways::Gateways>,
    leftovers: Arc<leftovers::Leftovers>,
    /// A volume was staged by some of its paths only.
    paths_are_missing: Arc<Notify>,
    tools: tools::Tools,
    /// Who changes the interface of open-iscsi.
    interface: Arc<Mutex<()>>,
    /// Who opens a volume by a passphrase.
    openings: turns::Turns,
}

/// The host identifier of a machine: the same for as long as it is the same installation under the same name. It is another one than the machine's own
/// (`/etc/nvme/hostid`): what an administrator has connected is no business of the driver's, and the kernel wants one name for each identifier. Nor is it that of a driver of
/// another name at the same machine, whose reservations and fences are its own.
///
/// # Errors
/// In words: the machine has no identifier (`/etc/machine-id`).
pub fn host_id(machine: &dyn Machine, node_name: &str, driver: &Driver) -> Result<Uuid, String> {
    let path = "/etc/machine-id";
    let text = machine.read(path).map_err(|why| format!("{path}: {why}"))?;
    let text = text.trim();
    if text.len() < 32 {
        return Err(format!("{path} has no identifier of a machine"));
    }
    // Hosts of the usual name are known to clusters without it.
    let of = match driver.name.as_str() {
        crate::USUAL_NAME => String::new(),
        other => format!("\n{other}"),
    };
    let sum = digest(&SHA256, format!("amita csi host\n{text}\n{node_name}{of}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sum.as_ref()[..16]);
    Ok(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

impl Node {
    /// On a machine.
    #[must_use]
    pub fn new(machine: Arc<dyn Machine>, driver: Driver, host: Uuid, most_volumes: u32) -> Node {
        Node {
            machine,
            driver,
            host,
            most_volumes,
            standing: None,
            inline: None,
            busy: Busy::default(),
            gateways: Arc::default(),
            leftovers: Arc::default(),
            paths_are_missing: Arc::default(),
            tools: tools::Tools::default(),
            interface: Arc::default(),
            openings: turns::Turns::of(crypt::AT_ONCE),
        }
    }

    /// The same at a place.
    #[must_use]
    pub fn standing(self, at: Standing) -> Node {
        Node {
            standing: Some(at),
            ..self
        }
    }

    /// The same, where the machine's `/` is seen at this path: its open-iscsi and multipath-tools are run in there.
    #[must_use]
    pub fn with_host_root(mut self, root: Option<String>) -> Node {
        self.tools.root = root;
        self
    }

    fn machine(&self) -> &dyn Machine {
        &*self.machine
    }

    /// Does a subsystem have this volume, of this driver?
    fn is_of(&self, volume: &VolumeId) -> impl Fn(&str) -> bool + use<> {
        let end = format!(":{}", volume.subsystem(&self.driver.name));
        move |nqn: &str| nqn.ends_with(&end)
    }

    /// One call changes a volume at a time, whatever name stands in its id.
    fn hold(&self, number: u64) -> Result<Hold, Status> {
        self.busy.take(format!("volume number {number}"))
    }

    /// Does what waits for the kernel, where that keeps nobody.
    async fn wait<T: Send + 'static>(
        self,
        work: impl FnOnce(&Node) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let done = tokio::task::spawn_blocking(move || work(&self)).await;
        done.unwrap_or_else(|_| Err(Status::internal("the call has failed within the driver")))
    }

    fn info(&self) -> wire::NodeGetInfoResponse {
        let node = NodeId {
            host: self.host,
            iscsi_alone: iscsi::alone(self),
        };
        wire::NodeGetInfoResponse {
            node_id: node.to_string(),
            max_volumes_per_node: i64::from(self.most_volumes),
            accessible_topology: self.standing.as_ref().map(|at| at.topology(&self.driver)),
        }
    }

    pub(crate) async fn route(self, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        Some(match method {
            "NodeStageVolume" => {
                unary(request, |q: wire::NodeStageVolumeRequest| {
                    self.wait(move |node| node.stage(&q))
                })
                .await
            }
            "NodeUnstageVolume" => {
                unary(request, |q: wire::NodeUnstageVolumeRequest| {
                    self.wait(move |node| node.unstage(&q))
                })
                .await
            }
            "NodePublishVolume" => unary(request, |q: wire::NodePublishVolumeRequest| self.publish_any(q)).await,
            "NodeUnpublishVolume" => unary(request, |q: wire::NodeUnpublishVolumeRequest| self.unpublish_any(q)).await,
            "NodeGetVolumeStats" => {
                unary(request, |q: wire::NodeGetVolumeStatsRequest| {
                    self.wait(move |node| node.stats(&q))
                })
                .await
            }
            "NodeExpandVolume" => {
                unary(request, |q: wire::NodeExpandVolumeRequest| {
                    self.wait(move |node| node.expand(&q))
                })
                .await
            }
            "NodeGetCapabilities" => {
                unary(request, |_: wire::NodeGetCapabilitiesRequest| ready(Ok(capabilities()))).await
            }
            "NodeGetInfo" => unary(request, |_: wire::NodeGetInfoRequest| self.wait(|node| Ok(node.info()))).await,
            _ => return None,
        })
    }

    pub(crate) async fn reclaim(self, request: Request<Incoming>) -> Response<Body> {
        use crate::wire::addons::NodeReclaimSpaceRequest;
        unary(request, |q: NodeReclaimSpaceRequest| {
            self.wait(move |node| node.trim(&q))
        })
        .await
    }
}

fn capabilities() -> wire::NodeGetCapabilitiesResponse {
    use wire::NodeServiceCapabilityRPCType as Rpc;
    let all = [
        Rpc::StageUnstageVolume,
        Rpc::GetVolumeStats,
        Rpc::ExpandVolume,
        Rpc::SingleNodeMultiWriter,
    ];
    let capability = |kind: Rpc| wire::NodeServiceCapability {
        r#type: Some(wire::NodeServiceCapabilityTypeOneOf::Rpc(
            wire::NodeServiceCapabilityRPC { r#type: kind as i32 },
        )),
    };
    wire::NodeGetCapabilitiesResponse {
        capabilities: all.into_iter().map(capability).collect(),
    }
}

/// The volume of an id.
fn volume(text: &str) -> Result<VolumeId, Status> {
    present(&[(text, "volume id")])?;
    VolumeId::parse(text).ok_or_else(|| Status::not_found(format!("there is no volume {text:?}")))
}

/// What a request has to say is there: that is looked at before anything else, so that one that is incomplete is told so, whatever it names.
fn present(fields: &[(&str, &str)]) -> Result<(), Status> {
    match fields.iter().find(|(text, _)| text.is_empty()) {
        None => Ok(()),
        Some((_, what)) => Err(Status::invalid_argument(format!("there is no {what}"))),
    }
}

/// A path of a request: whole, without a way back or another way to write it.
fn path<'a>(text: &'a str, what: &str) -> Result<&'a str, Status> {
    present(&[(text, what)])?;
    // Mounts are known by their paths, so each has one.
    let plain = text.trim_end_matches('/');
    let mut parts = plain.split('/');
    let is_whole = parts.next() == Some("")
        && parts.all(|part| !["", ".", ".."].contains(&part))
        && plain.len() > 1
        && !text.contains(['\n', '\0']);
    match is_whole {
        true => Ok(plain),
        false => Err(Status::invalid_argument(format!("the {what} is no absolute path"))),
    }
}

#[cfg(test)]
mod tests;
