//! NodePublishVolume and NodeUnpublishVolume: what was staged is shown to a pod, and no longer.

use super::filesystem::run;
use super::nvme::{self, Target};
use super::{Node, path, volume};
use crate::capability::{self, Access};
use crate::wire::node::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
};
use std::collections::BTreeMap;
use std::io;
use tonic::Status;

fn failed(at: &str) -> impl Fn(io::Error) -> Status + '_ {
    move |why| Status::internal(format!("{at}: {why}"))
}

impl Node {
    pub(super) fn publish(&self, request: &NodePublishVolumeRequest) -> Result<NodePublishVolumeResponse, Status> {
        let id = volume(&request.volume_id)?;
        let at = path(&request.target_path, "target path")?;
        let staging = path(&request.staging_target_path, "staging target path")?;
        let wanted = capability::one(request.volume_capability.as_ref())?;
        let _hold = self.busy.take(id.to_string())?;
        match wanted.access {
            Access::Mount { .. } => self.publish_folder(staging, at, request.readonly)?,
            Access::Block => self.publish_disk(request, at)?,
        }
        Ok(NodePublishVolumeResponse {})
    }

    fn publish_folder(&self, staging: &str, at: &str, is_read_only: bool) -> Result<(), Status> {
        let machine = self.machine();
        let staged = self.mounted(staging)?;
        let staged = staged.ok_or_else(|| Status::failed_precondition(format!("nothing is staged at {staging}")))?;
        machine.make_folder(at).map_err(failed(at))?;
        let there = match self.mounted(at)? {
            Some(there) => there,
            None => {
                run(machine, "mount", &["--bind", staging, at])?;
                staged.clone()
            }
        };
        if there.device != staged.device {
            return Err(Status::internal(format!(
                "{at} has {} mounted, and not what was staged",
                there.source
            )));
        }
        if is_read_only && !there.is_read_only {
            run(machine, "mount", &["-o", "remount,bind,ro", at])?;
        }
        Ok(())
    }

    fn publish_disk(&self, request: &NodePublishVolumeRequest, at: &str) -> Result<(), Status> {
        let machine = self.machine();
        let none = BTreeMap::new();
        let target = Target::read(self.host, &request.publish_context, &none, &none)?;
        let disk = target.disk(machine)?;
        let disk = disk.ok_or_else(|| Status::failed_precondition("its disk is not staged at this node"))?;
        if request.readonly && !nvme::is_read_only(machine, &disk) {
            return Err(Status::invalid_argument(
                "a disk that may be written is not made one that is only read",
            ));
        }
        let parent = at.rsplit_once('/').map_or("/", |(parent, _)| parent);
        machine.make_folder(parent).map_err(failed(parent))?;
        machine.make_file(at).map_err(failed(at))?;
        match self.mounted(at)? {
            None => run(machine, "mount", &["--bind", &disk.device(), at]).map(drop),
            Some(there) if there.root == format!("/{}", disk.name) => Ok(()),
            Some(there) => Err(Status::internal(format!(
                "{at} has {} bound to it, and not {}",
                there.root, disk.name
            ))),
        }
    }

    pub(super) fn unpublish(
        &self,
        request: &NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        let id = volume(&request.volume_id)?;
        let at = path(&request.target_path, "target path")?;
        let _hold = self.busy.take(id.to_string())?;
        self.unmount(at)?;
        // What is not empty is no place of a mount of ours, and stays.
        self.machine().remove(at).map_err(failed(at))?;
        Ok(NodeUnpublishVolumeResponse {})
    }
}
