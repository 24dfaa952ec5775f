//! Volumes of one pod, which a node makes for itself and deletes (decision 096): what the other calls do, in their order.

use super::Controller;
use crate::id::{self, VolumeId};
use crate::labels::{self, Labels};
use crate::protocol::NodeId;
use crate::wire::common::{CapacityRange, VolumeCapability};
use crate::wire::controller::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, CreateVolumeRequest, DeleteVolumeRequest,
};
use std::collections::BTreeMap;
use tonic::Status;
use uuid::Uuid;

/// What a node wants of a volume for one pod.
pub(crate) struct Wanted {
    /// What kubelet calls it.
    pub(crate) name: String,
    pub(crate) bytes: i64,
    pub(crate) capability: VolumeCapability,
    /// As those of a StorageClass.
    pub(crate) parameters: BTreeMap<String, String>,
    /// Whose it is.
    pub(crate) labels: Labels,
    /// Where it is to be mounted.
    pub(crate) at: String,
}

/// One that a node has made.
#[derive(Clone)]
pub(crate) struct Own {
    /// What kubelet calls it.
    pub(crate) name: String,
    pub(crate) id: VolumeId,
    place: String,
}

impl Own {
    /// Is this where it is mounted?
    pub(crate) fn is_at(&self, path: &str) -> bool {
        self.place == place(path)
    }
}

/// See [`labels::INLINE_AT`].
fn place(path: &str) -> String {
    id::sum(path, 16)
}

/// What a node needs to stage it.
pub(crate) struct Made {
    pub(crate) id: VolumeId,
    pub(crate) publish_context: BTreeMap<String, String>,
    pub(crate) volume_context: BTreeMap<String, String>,
}

impl Controller {
    /// A volume of a pod, published to its node: made, or found as a call before this one has left it.
    pub(crate) async fn make_inline(&self, wanted: Wanted, node: NodeId) -> Result<Made, Status> {
        let Wanted {
            name,
            bytes,
            capability,
            parameters,
            mut labels,
            at,
        } = wanted;
        labels.insert(labels::INLINE.to_owned(), node.host.to_string());
        labels.insert(labels::INLINE_AT.to_owned(), place(&at));
        let request = CreateVolumeRequest {
            name,
            capacity_range: Some(CapacityRange {
                required_bytes: bytes,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![capability.clone()],
            parameters,
            ..Default::default()
        };
        let made = self.clone().create_labelled(request, labels).await?;
        let made = made
            .volume
            .ok_or_else(|| Status::internal("there is no volume in the answer"))?;
        let id = VolumeId::parse(&made.volume_id).ok_or_else(|| Status::internal("the id of the volume is none"))?;
        let request = ControllerPublishVolumeRequest {
            volume_id: made.volume_id,
            // With what it can: it says by which protocol the volume comes.
            node_id: node.to_string(),
            volume_capability: Some(capability),
            volume_context: made.volume_context.clone(),
            ..Default::default()
        };
        let told = self.clone().publish(request).await?;
        Ok(Made {
            id,
            publish_context: told.publish_context,
            volume_context: made.volume_context,
        })
    }

    /// The volume that this node has made under the name that kubelet has for it; none: there is none, or none of its own.
    pub(crate) async fn find_inline(&self, name: &str, host: Uuid) -> Result<Option<VolumeId>, Status> {
        let found = self.api.volume(&id::volume_name(name)).await?;
        let own = found.filter(|found| labels::get(&found.thing.labels, labels::INLINE) == host.to_string());
        Ok(own.and_then(|found| labels::volume_id(self.driver(), &found.thing)))
    }

    /// All that a node has made, and has not deleted.
    pub(crate) async fn inlines(&self, host: Uuid) -> Result<Vec<Own>, Status> {
        let all = self.api.volumes((labels::INLINE, &host.to_string())).await?;
        // One that was deleted and has snapshots is nobody's any more.
        let own = all.into_iter().filter_map(|volume| {
            let id = labels::volume_id(self.driver(), &volume)?;
            let is_gone = volume.name == id.gone_name();
            let label = |key: &str| labels::get(&volume.labels, key).to_owned();
            (!is_gone).then(|| Own {
                name: label(labels::NAME),
                place: label(labels::INLINE_AT),
                id,
            })
        });
        Ok(own.collect())
    }

    /// The volume of a pod goes: first from its node, and then for good.
    pub(crate) async fn end_inline(&self, id: &VolumeId, host: Uuid) -> Result<(), Status> {
        let volume_id = id.to_string();
        let request = ControllerUnpublishVolumeRequest {
            volume_id: volume_id.clone(),
            node_id: host.to_string(),
            ..Default::default()
        };
        self.clone().unpublish(request).await?;
        let request = DeleteVolumeRequest {
            volume_id,
            ..Default::default()
        };
        self.clone().delete(request).await.map(drop)
    }
}
