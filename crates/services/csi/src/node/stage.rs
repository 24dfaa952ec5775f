//! NodeStageVolume and NodeUnstageVolume: a volume comes to this node, once for all pods that use it here, and goes.

use super::filesystem::{self, Content};
use super::machine::{Reserve, Reserved};
use super::mounts;
use super::nvme::{self, Disk, Target};
use super::{Node, key, path, volume};
use crate::capability::{self, Access};
use crate::controller::context;
use crate::id::VolumeId;
use crate::wire::node::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use std::collections::BTreeMap;
use tonic::Status;

/// Mounts that lie one over another at one place, at most.
const MOST_MOUNTS: usize = 8;

impl Node {
    pub(super) fn stage(&self, request: &NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse, Status> {
        let staging = path(&request.staging_target_path, "staging target path")?;
        let wanted = capability::one(request.volume_capability.as_ref())?;
        let id = volume(&request.volume_id)?;
        let _hold = self.busy.take(id.to_string())?;
        let (told, context) = (&request.publish_context, &request.volume_context);
        let target = Target::read(self.host, told, context, &request.secrets)?;
        let staged = target.connect(self.machine()).and_then(|disk| {
            self.reserve(&disk, told)?;
            if let Access::Mount { file_system, options } = &wanted.access {
                let is_read_only = wanted.reads_only || nvme::is_read_only(self.machine(), &disk);
                self.mount(&disk, (file_system, is_read_only), options, context, staging)?;
            }
            Ok(NodeStageVolumeResponse {})
        });
        // Whoever is told that it has failed may never have it unstaged: paths would stay, and be tried for ever.
        if staged.is_err()
            && let Err(why) = self.leave(&id)
        {
            log::warn!("volume {id} was not staged, and its paths stay: {why}");
        }
        staged
    }

    /// Gives up a volume that nobody uses here, and ends its paths.
    fn leave(&self, id: &VolumeId) -> Result<(), Status> {
        let is_meant = self.is_of(id);
        let disks = nvme::disks(self.machine(), &is_meant)?;
        disks.iter().try_for_each(|disk| self.not_used(disk))?;
        for disk in &disks {
            self.give_up(disk);
        }
        nvme::disconnect(self.machine(), &is_meant)
    }

    /// A volume of one node is reserved by it; from who had it before only where the controller says that it is not to have it any more.
    fn reserve(&self, disk: &Disk, told: &BTreeMap<String, String>) -> Result<(), Status> {
        if !told.contains_key(context::EXCLUSIVE) {
            return Ok(());
        }
        let own = key(self.host);
        let ask = |what: Reserve| {
            let done = self.machine().reserve(&disk.device(), what);
            done.map_err(|why| {
                Status::internal(format!(
                    "{} cannot be reserved ({what:?}): {why}; reservations: \"off\" does without",
                    disk.name
                ))
            })
        };
        ask(Reserve::Register(own))?;
        if ask(Reserve::Hold(own))? == Reserved::Done {
            return Ok(());
        }
        let other = told.get(context::PREEMPT).and_then(|text| {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            u64::from_str_radix(digits, 16).ok()
        });
        if let Some(other) = other.filter(|other| *other != own) {
            log::info!(
                "{}: what host {other:#018x} has reserved is taken from it: it is published here alone",
                disk.name
            );
            // Where it has gone by itself, there is nothing to take.
            ask(Reserve::Preempt(own, other))?;
            if ask(Reserve::Hold(own))? == Reserved::Done {
                return Ok(());
            }
        }
        Err(Status::failed_precondition(format!(
            "{} is reserved by another host, which nobody has said to be gone",
            disk.name
        )))
    }

    fn mount(
        &self,
        disk: &Disk,
        (kind, is_read_only): (&str, bool),
        options: &[String],
        context: &BTreeMap<String, String>,
        staging: &str,
    ) -> Result<(), Status> {
        let machine = self.machine();
        if let Some(there) = self.mounted(staging)? {
            if there.source != disk.device() {
                return Err(Status::internal(format!(
                    "{staging} has {} mounted, and not {}",
                    there.source, disk.name
                )));
            }
        } else {
            self.prepare(disk, kind, is_read_only, context)?;
            machine
                .make_folder(staging)
                .map_err(|why| Status::internal(format!("{staging}: {why}")))?;
            filesystem::mount(machine, disk, (kind, is_read_only), options, staging)?;
        }
        // Also where its options say so.
        let is_read_only = is_read_only || self.mounted(staging)?.is_none_or(|there| there.is_read_only);
        match is_read_only {
            true => Ok(()),
            false => filesystem::grow(machine, disk, kind, staging),
        }
    }

    /// Has a disk hold a file system that is well.
    fn prepare(
        &self,
        disk: &Disk,
        kind: &str,
        is_read_only: bool,
        context: &BTreeMap<String, String>,
    ) -> Result<(), Status> {
        let machine = self.machine();
        match filesystem::content(machine, disk)? {
            Content::FileSystem(found) if found == kind => {}
            Content::Empty if !is_read_only => {
                let options = context.get("mkfsOptions").map_or("", String::as_str);
                filesystem::make(machine, disk, kind, options)?;
            }
            Content::Empty => {
                return Err(Status::failed_precondition(format!(
                    "{} is empty, and only read",
                    disk.name
                )));
            }
            Content::FileSystem(found) | Content::Other(found) => {
                return Err(Status::failed_precondition(format!(
                    "{} holds {found}, and {kind} is wanted: it is left as it is",
                    disk.name
                )));
            }
        }
        match is_read_only {
            true => Ok(()),
            false => filesystem::check(machine, disk, kind),
        }
    }

    pub(super) fn mounted(&self, at: &str) -> Result<Option<mounts::Mount>, Status> {
        mounts::at(self.machine(), at).map_err(|why| Status::internal(format!("the mounts of this node: {why}")))
    }

    /// Nothing is mounted at a place any more.
    pub(super) fn unmount(&self, at: &str) -> Result<(), Status> {
        for _ in 0..MOST_MOUNTS {
            if self.mounted(at)?.is_none() {
                return Ok(());
            }
            filesystem::run(self.machine(), "umount", &[at])?;
        }
        Err(Status::internal(format!(
            "{at} has more mounts one over another than {MOST_MOUNTS}"
        )))
    }

    pub(super) fn unstage(&self, request: &NodeUnstageVolumeRequest) -> Result<NodeUnstageVolumeResponse, Status> {
        let staging = path(&request.staging_target_path, "staging target path")?;
        let id = volume(&request.volume_id)?;
        let _hold = self.busy.take(id.to_string())?;
        self.unmount(staging)?;
        self.leave(&id)?;
        Ok(NodeUnstageVolumeResponse {})
    }

    /// What this host has reserved it reserves no more. Who holds a volume has it alone: whoever else is registered there is gone. Who was taken off
    /// the list meanwhile, or has no path, cannot: the next one takes it then.
    fn give_up(&self, disk: &Disk) {
        let (machine, device, own) = (self.machine(), disk.device(), key(self.host));
        let cleared = machine
            .reserve(&device, Reserve::Hold(own))
            .and_then(|held| match held {
                Reserved::Done => machine.reserve(&device, Reserve::Clear(own)),
                Reserved::Conflict => Ok(Reserved::Conflict),
            });
        if let Err(why) = cleared {
            log::debug!("{}: its reservation was not given up: {why}", disk.name);
        }
    }

    /// A disk that is mounted elsewhere is not taken away.
    fn not_used(&self, disk: &Disk) -> Result<(), Status> {
        let all =
            mounts::all(self.machine()).map_err(|why| Status::internal(format!("the mounts of this node: {why}")))?;
        let file = format!("/{}", disk.name);
        let used = all
            .iter()
            .find(|mount| mount.source == disk.device() || mount.root == file);
        match used {
            None => Ok(()),
            Some(used) => Err(Status::failed_precondition(format!(
                "{} is in use at {}",
                disk.name, used.at
            ))),
        }
    }
}
