//! NodePublishVolume and NodeUnpublishVolume: what was staged is shown to a pod, and no longer.

use super::attach::Target;
use super::filesystem::run;
use super::mounts::{self, Mount};
use super::nvme;
use super::{Node, crypt, path, present, volume};
use crate::capability::{self, Access, Use};
use crate::id::VolumeId;
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
        let at = path(&request.target_path, "target path")?;
        let wanted = capability::one(request.volume_capability.as_ref())?;
        present(&[(&request.volume_id, "volume id")])?;
        let staging = path(&request.staging_target_path, "staging target path")?;
        let id = volume(&request.volume_id)?;
        let _hold = self.hold(id.number)?;
        match wanted.access {
            Access::Mount { .. } => self.publish_folder(staging, at, &wanted, request.readonly)?,
            Access::Block => self.publish_disk(request, &id, &wanted, at)?,
        }
        Ok(NodePublishVolumeResponse {})
    }

    /// What one pod alone uses is shown at no other place.
    fn shown_nowhere_else(&self, wanted: &Use, is_one: impl Fn(&Mount) -> bool) -> Result<(), Status> {
        if !wanted.at_one_place {
            return Ok(());
        }
        let all =
            mounts::all(self.machine()).map_err(|why| Status::internal(format!("the mounts of this node: {why}")))?;
        match all.into_iter().find(is_one) {
            None => Ok(()),
            Some(other) => Err(Status::failed_precondition(format!(
                "it is shown at {} already, and is for one pod alone",
                other.at
            ))),
        }
    }

    fn publish_folder(&self, staging: &str, at: &str, wanted: &Use, is_read_only: bool) -> Result<(), Status> {
        let machine = self.machine();
        let staged = self.mounted(staging)?;
        let staged = staged.ok_or_else(|| Status::failed_precondition(format!("nothing is staged at {staging}")))?;
        // Folders of it, which kubelet mounts one by one (`subPath`), have another root.
        self.shown_nowhere_else(wanted, |other| {
            other.device == staged.device && other.root == staged.root && other.at != staging && other.at != at
        })?;
        self.unmount_lost(at)?;
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
        if there.is_read_only && !is_read_only && !staged.is_read_only {
            return Err(Status::already_exists(format!(
                "it is shown at {at}, and only read there"
            )));
        }
        if is_read_only && !there.is_read_only {
            run(machine, "mount", &["-o", "remount,bind,ro", at])?;
        }
        Ok(())
    }

    fn publish_disk(
        &self,
        request: &NodePublishVolumeRequest,
        id: &VolumeId,
        wanted: &Use,
        at: &str,
    ) -> Result<(), Status> {
        let machine = self.machine();
        let (told, context) = (&request.publish_context, &request.volume_context);
        let target = Target::read(self, told, context, &BTreeMap::new())?;
        let disk = target.disk(self)?;
        let not_staged = || Status::failed_precondition("its disk is not staged at this node");
        let mut disk = disk.ok_or_else(not_staged)?;
        if crypt::is_wanted(context) {
            // Never the disk itself: a pod would write over what it is opened by.
            let not_open = || {
                Status::failed_precondition(format!(
                    "{} is there, and what decrypts it is not: somebody has closed it, or it lies on a disk that is gone; end the pod, so that the volume is staged anew",
                    disk.name
                ))
            };
            disk = self.mapping(id, &disk)?.ok_or_else(not_open)?.disk;
        }
        if request.readonly && !nvme::is_read_only(machine, &disk) {
            return Err(Status::invalid_argument(
                "a disk that may be written is not made one that is only read",
            ));
        }
        let parent = at.rsplit_once('/').map_or("/", |(parent, _)| parent);
        let files = self.files(&disk);
        // Places of one volume lie side by side (`volumeDevices/publish/VOLUME/POD`); elsewhere kubelet binds it for itself.
        self.shown_nowhere_else(wanted, |other| {
            let is_beside = other.at.rsplit_once('/').is_some_and(|(folder, _)| folder == parent);
            files.contains(&other.root) && is_beside && other.at != at
        })?;
        self.unmount_lost(at)?;
        machine.make_folder(parent).map_err(failed(parent))?;
        machine.make_file(at).map_err(failed(at))?;
        match self.mounted(at)? {
            None => run(machine, "mount", &["--bind", &disk.device(), at]).map(drop),
            Some(there) if files.contains(&there.root) => Ok(()),
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
        let at = path(&request.target_path, "target path")?;
        let id = volume(&request.volume_id)?;
        let _hold = self.hold(id.number)?;
        self.unmount(at)?;
        // What is not empty is no place of a mount of ours, and stays.
        self.machine().remove(at).map_err(failed(at))?;
        Ok(NodeUnpublishVolumeResponse {})
    }
}
