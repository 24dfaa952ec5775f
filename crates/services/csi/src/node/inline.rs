//! Inline volumes: those that a pod has in its own description, which are made when it is started here and deleted when it goes (decision 096).
//!
//! Kubelet says no more than NodePublishVolume and NodeUnpublishVolume, so the node does what the controller and the other calls do, one after the other, each
//! of which may be cut and is done again. It asks the cluster for that, and has a token of its own; without it there are no such volumes, as it is by itself.
//! What nobody comes back for (a pod that was deleted while its volume was being made) is found by its label, and collected.

use super::{Node, iscsi, mounts, nvme, path, present};
use crate::capability::{self, Access};
use crate::controller::Controller;
use crate::controller::inline::{Made, Own, Wanted};
use crate::id::VolumeId;
use crate::labels::Labels;
use crate::parameters::Class;
use crate::protocol::NodeId;
use crate::wire::node::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tonic::Status;

/// Kubelet's word for it.
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
/// Before what kubelet itself says.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";
/// What is kept of the pod.
const KEPT: [&str; 2] = ["csi.storage.k8s.io/pod.name", "csi.storage.k8s.io/pod.namespace"];
/// How large it is where the pod does not say.
const USUAL_BYTES: u64 = 1 << 30;
/// How often it is looked for what was left,
const EVERY: Duration = Duration::from_secs(60);
/// and for how long nobody may have used it: kubelet tries again for some minutes, and machines take as long to start.
const LONG: Duration = Duration::from_secs(900);

/// Volumes for single pods: by whom they are made, and as what.
#[derive(Clone)]
pub struct Inline {
    controller: Controller,
    parameters: BTreeMap<String, String>,
    most_bytes: u64,
    /// Since when nobody uses a volume, by its number.
    unused: Arc<Mutex<BTreeMap<u64, Duration>>>,
}

impl Inline {
    /// By a controller, as these parameters say (those of a StorageClass), none larger than so many bytes. A pod says its size, and nothing else: whoever may start pods is not to
    /// choose pools.
    ///
    /// # Errors
    /// In words: a parameter is none.
    pub fn new(
        controller: Controller,
        parameters: BTreeMap<String, String>,
        most_bytes: u64,
    ) -> Result<Inline, String> {
        Class::read(&parameters)?;
        Ok(Inline {
            controller,
            parameters,
            most_bytes,
            unused: Arc::default(),
        })
    }

    /// How large a pod's volume is to be.
    fn bytes(&self, context: &BTreeMap<String, String>) -> Result<i64, Status> {
        let own = context.iter().filter(|(key, _)| !key.starts_with(OF_KUBERNETES));
        let mut wanted = USUAL_BYTES.min(self.most_bytes);
        for (key, value) in own {
            if key != "size" {
                let why = format!("{key:?} is no attribute of an inline volume: it has size alone");
                return Err(Status::invalid_argument(why));
            }
            let wrong = || Status::invalid_argument(format!("size is {value:?}; say bytes, or as 500Mi or 10Gi"));
            wanted = quantity(value).filter(|bytes| *bytes > 0).ok_or_else(wrong)?;
        }
        let bytes = i64::try_from(wanted).ok().filter(|_| wanted <= self.most_bytes);
        bytes.ok_or_else(|| {
            Status::out_of_range(format!(
                "an inline volume of {wanted} bytes is wanted, and one may have {}",
                self.most_bytes
            ))
        })
    }
}

/// Bytes, as Kubernetes writes them.
///
/// None: it is no such number.
#[must_use]
pub fn quantity(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|of: char| !of.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Is it what kubelet calls an inline volume? Volumes of the controller's have a colon.
pub(super) fn is_inline(id: &str) -> bool {
    let sum = id.strip_prefix("csi-");
    sum.is_some_and(|sum| sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn off() -> Status {
    Status::failed_precondition(
        "inline volumes are not served by this node (`amita csi node --inline`, inlineVolumes of the chart): use a generic ephemeral volume, or have them served",
    )
}

impl Node {
    /// The same that makes volumes for single pods.
    #[must_use]
    pub fn with_inline(self, inline: Inline) -> Node {
        Node {
            inline: Some(inline),
            ..self
        }
    }

    fn hold_inline(&self, name: &str) -> Result<crate::busy::Hold, Status> {
        self.busy.take(format!("inline volume {name}"))
    }

    pub(super) async fn publish_any(
        self,
        request: NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, Status> {
        match request.volume_context.get(EPHEMERAL).map(String::as_str) {
            Some("true") => self.publish_inline(request).await,
            _ => self.wait(move |node| node.publish(&request)).await,
        }
    }

    pub(super) async fn unpublish_any(
        self,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        match is_inline(&request.volume_id) {
            true => self.unpublish_inline(request).await,
            false => self.wait(move |node| node.unpublish(&request)).await,
        }
    }

    /// Made, published to this node, and mounted at its place: nothing lies between, for one pod alone has it.
    async fn publish_inline(self, request: NodePublishVolumeRequest) -> Result<NodePublishVolumeResponse, Status> {
        let at = path(&request.target_path, "target path")?.to_owned();
        let wanted = capability::one(request.volume_capability.as_ref())?;
        present(&[(&request.volume_id, "volume id")])?;
        let inline = self.inline.clone().ok_or_else(off)?;
        if !is_inline(&request.volume_id) {
            let why = format!("{:?} is not what kubelet calls an inline volume", request.volume_id);
            return Err(Status::invalid_argument(why));
        }
        if wanted.access == Access::Block || request.readonly || wanted.reads_only {
            return Err(Status::invalid_argument(
                "an inline volume is a file system, and begins empty: it is no disk, and is not only read",
            ));
        }
        let bytes = inline.bytes(&request.volume_context)?;
        let _hold = self.hold_inline(&request.volume_id)?;
        let kept = KEPT.iter().filter_map(|key| request.volume_context.get_key_value(*key));
        let labels: Labels = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        let wanted = Wanted {
            name: request.volume_id,
            bytes,
            capability: request.volume_capability.clone().unwrap_or_default(),
            parameters: inline.parameters.clone(),
            labels,
            at: at.clone(),
        };
        let by = self.clone().wait(Node::able).await?;
        let Made {
            id,
            publish_context,
            volume_context,
        } = inline.controller.make_inline(wanted, by).await?;
        let stage = NodeStageVolumeRequest {
            volume_id: id.to_string(),
            publish_context,
            staging_target_path: at,
            volume_capability: request.volume_capability,
            secrets: request.secrets,
            volume_context,
        };
        self.clone().wait(move |node| node.stage(&stage)).await?;
        Ok(NodePublishVolumeResponse {})
    }

    /// Who this node is, and what it can. What is published to one that can nothing for a moment would come by the other protocol later on, and be refused: it is served already.
    fn able(&self) -> Result<NodeId, Status> {
        let by = |iscsi_alone| NodeId {
            host: self.host,
            iscsi_alone,
        };
        match nvme::ready(self.machine()) {
            Ok(()) => Ok(by(false)),
            Err(_) if self.tools.can(self.machine()) => Ok(by(true)),
            Err(why) => Err(Status::failed_precondition(format!(
                "{}; and there is no iSCSI in its place: iscsiadm cannot be run",
                why.message()
            ))),
        }
    }

    async fn unpublish_inline(
        self,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        let at = path(&request.target_path, "target path")?.to_owned();
        let inline = self.inline.clone().ok_or_else(off)?;
        let _hold = self.hold_inline(&request.volume_id)?;
        let found = inline.controller.find_inline(&request.volume_id, self.host).await?;
        let volume_id = found.as_ref().map(VolumeId::to_string);
        let gone = move |node: &Node| {
            match volume_id {
                Some(volume_id) => {
                    let request = NodeUnstageVolumeRequest {
                        volume_id,
                        staging_target_path: at.clone(),
                    };
                    node.unstage(&request)?;
                }
                None => node.unmount(&at)?,
            }
            // What is not empty is no place of a mount of ours, and stays.
            node.machine()
                .remove(&at)
                .map_err(|why| Status::internal(format!("{at}: {why}")))
        };
        self.clone().wait(gone).await?;
        if let Some(id) = found {
            inline.controller.end_inline(&id, self.host).await?;
        }
        Ok(NodeUnpublishVolumeResponse {})
    }

    /// Collects what was left, for as long as it runs.
    pub async fn keep_inline(self) {
        if self.inline.is_none() {
            std::future::pending::<()>().await;
        }
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(why) = self.end_of_left_inline().await {
                log::debug!("inline volumes that were left are not looked at: {}", why.message());
            }
        }
    }

    /// Ends those of this node's that nobody has used for long.
    pub(super) async fn end_of_left_inline(&self) -> Result<(), Status> {
        let inline = self.inline.clone().ok_or_else(off)?;
        let all = inline.controller.inlines(self.host).await?;
        let mut due = Vec::new();
        {
            let now = self.machine().now();
            let mut unused = Vec::new();
            for own in all {
                if !self.clone().wait(is_used(own.clone())).await? {
                    unused.push(own);
                }
            }
            let mut since = inline.unused.lock().unwrap_or_else(PoisonError::into_inner);
            since.retain(|number, _| unused.iter().any(|own| own.id.number == *number));
            for own in unused {
                let begun = *since.entry(own.id.number).or_insert(now);
                if now.saturating_sub(begun) >= LONG {
                    due.push(own);
                }
            }
        }
        for own in due {
            let (name, id) = (&own.name, &own.id);
            // One that cannot go keeps no other one.
            match self.collect(&inline, &own).await {
                Ok(true) => log::info!("inline volume {id} ({name}) was left, and is deleted"),
                Ok(false) => {}
                Err(why) => log::warn!("inline volume {id} ({name}) was left, and stays: {}", why.message()),
            }
        }
        Ok(())
    }

    /// Ends one, unless kubelet has come back for it.
    async fn collect(&self, inline: &Inline, own: &Own) -> Result<bool, Status> {
        let Ok(_hold) = self.hold_inline(&own.name) else {
            return Ok(false);
        };
        if self.clone().wait(is_used(own.clone())).await? {
            return Ok(false);
        }
        let of = own.id.clone();
        let left = self.clone().wait(move |node| {
            let _hold = node.hold(of.number)?;
            node.close_all(of.number)?;
            node.leave(node.is_of(&of))
        });
        left.await?;
        inline.controller.end_inline(&own.id, self.host).await?;
        Ok(true)
    }
}

/// Is anything of a volume in use here? A map whose sessions iscsid has all given up tells nobody whose it is: what is mounted where the volume was put is its own.
fn is_used(own: Own) -> impl FnOnce(&Node) -> Result<bool, Status> + Send + 'static {
    move |node| {
        let is_of = node.is_of(&own.id);
        let mut disks = nvme::disks(node.machine(), &is_of)?;
        disks.extend(iscsi::maps(node, &is_of));
        let mounts = mounts::all(node.machine());
        let mounts = mounts.map_err(|why| Status::internal(format!("the mounts of this node: {why}")))?;
        Ok(node.is_text_used(own.id.number)
            || mounts.iter().any(|mount| own.is_at(&mount.at))
            || disks.iter().any(|disk| node.not_used(disk).is_err()))
    }
}
