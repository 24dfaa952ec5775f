//! NodeStageVolume and NodeUnstageVolume: a volume comes to this node, once for all pods that use it here, and goes.

use super::attach::Target;
use super::crypt::{Opening, Passphrases};
use super::filesystem::{self, Content};
use super::hold::Held;
use super::mounts;
use super::nvme::{self, Disk};
use super::{Node, iscsi, path, volume};
use crate::capability::{self, Access, Sharing};
use crate::id;
use crate::parameters::Serving;
use crate::wire::node::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use std::collections::BTreeMap;
use tonic::Status;

/// Mounts that lie one over another at one place, at most.
const MOST_MOUNTS: usize = 8;

/// What pods get to see of a volume.
struct Shown<'a> {
    /// The volume's disk, or what decrypts it.
    disk: Disk,
    /// The volume's disk itself: it is what is reserved.
    reserved: &'a Disk,
    /// There is nothing on it, though it is not of zeros.
    is_new: bool,
}

impl Shown<'_> {
    fn of(disk: &Disk) -> Shown<'_> {
        Shown {
            disk: disk.clone(),
            reserved: disk,
            is_new: false,
        }
    }
}

impl Node {
    pub(super) fn stage(&self, request: &NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse, Status> {
        let staging = path(&request.staging_target_path, "staging target path")?;
        let wanted = capability::one(request.volume_capability.as_ref())?;
        let id = volume(&request.volume_id)?;
        let _hold = self.hold(id.number)?;
        let (told, context) = (&request.publish_context, &request.volume_context);
        let target = Target::read(self, told, context, &request.secrets)?;
        let by = Passphrases::read(context, &request.secrets)?;
        if by.is_some() {
            self.close_unused(id.number)?;
        }
        let staged = target.connect(self, &id).and_then(|disk| {
            let _pin = by.as_ref().map(|_| self.pin(&target, &disk)).transpose()?;
            let mut held = (self.reserve(&disk, told)?, self.keys(told)?);
            let is_read_only = wanted.reads_only || nvme::is_read_only(self.machine(), &disk);
            let mut shown = Shown::of(&disk);
            if let Some(by) = &by {
                // A mount of a disk that is gone keeps what lies on that.
                self.unmount_lost(staging)?;
                let is_shared = wanted.sharing != Sharing::Single;
                let serving = Serving::read(context).map_err(Status::invalid_argument)?;
                let how = Opening {
                    by,
                    is_shared,
                    is_read_only,
                    block_bytes: serving.block_bytes,
                };
                let opened = self.open(&id, &disk, held, &how)?;
                held.0 = opened.held;
                shown.disk = opened.disk;
                shown.is_new = opened.is_new;
            }
            match &wanted.access {
                Access::Mount { file_system, options } => {
                    self.mount(&shown, (file_system, is_read_only), held, options, context, staging)?;
                }
                // Whoever has the disk itself may write to it: what is there then is not of a mkfs that was cut.
                Access::Block if held.0 == Held::Unfinished => self.replace(&disk, held.1.making, held.1.own)?,
                Access::Block => {}
            }
            Ok(NodeStageVolumeResponse {})
        });
        // Whoever is told that it has failed may never have it unstaged: paths would stay, and be tried for ever.
        if staged.is_err()
            && let Err(why) = self
                .close_all(id.number)
                .and_then(|()| self.leave(|nqn| target.is(nqn)))
        {
            log::warn!("volume {id} was not staged, and its paths stay: {why}");
        }
        staged
    }

    /// Ends the paths of these subsystems, of which nobody uses anything here.
    pub(super) fn leave(&self, is_meant: impl Fn(&str) -> bool) -> Result<(), Status> {
        let disks = nvme::disks(self.machine(), &is_meant)?;
        disks.iter().try_for_each(|disk| self.not_used(disk))?;
        // Until the paths are gone.
        let claims = disks
            .iter()
            .map(|disk| self.claimed(disk))
            .collect::<Result<Vec<_>, _>>()?;
        // What was written to the disk itself is in the kernel still, perhaps. Of one that is lost nothing can be written, and it is to go all the same.
        for (disk, claim) in disks.iter().zip(&claims) {
            if let Err(why) = claim.sync() {
                log::error!("not all that was written came to {}: {why}", disk.device());
            }
        }
        nvme::disconnect(self.machine(), &is_meant)?;
        drop(claims);
        iscsi::leave(self, &is_meant)
    }

    fn mount(
        &self,
        shown: &Shown<'_>,
        (kind, is_read_only): (&str, bool),
        held: (Held, id::Keys),
        options: &[String],
        context: &BTreeMap<String, String>,
        staging: &str,
    ) -> Result<(), Status> {
        let (machine, disk) = (self.machine(), &shown.disk);
        self.unmount_lost(staging)?;
        if let Some(there) = self.mounted(staging)? {
            // By its number: another disk may have its name by now.
            let number = nvme::number(machine, disk)?;
            if there.device != number {
                return Err(Status::internal(format!(
                    "{staging} has {} ({}) mounted, and not {} ({number})",
                    there.source, there.device, disk.name
                )));
            }
        } else {
            self.prepare(shown, kind, is_read_only, held, context)?;
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
        shown: &Shown<'_>,
        kind: &str,
        is_read_only: bool,
        held: (Held, id::Keys),
        context: &BTreeMap<String, String>,
    ) -> Result<(), Status> {
        let (machine, disk) = (self.machine(), &shown.disk);
        let refused = |found: &str| {
            let why = format!("{} holds {found}, and {kind} is wanted: it is left as it is", disk.name);
            Err(Status::failed_precondition(why))
        };
        match filesystem::content(machine, disk)? {
            // What another tool, or a person, has made since is none of a mkfs that was cut.
            found if (held.0 == Held::Unfinished || shown.is_new) && found.may_be_of(kind) => {
                if is_read_only {
                    return refused(
                        "a file system that was not made to its end, and is only read (stage it once to be written: it is made anew)",
                    );
                }
                if !shown.is_new {
                    log::info!("{} has {found:?} of a mkfs that was cut: it is made anew", disk.name);
                }
                self.make(shown, kind, held, context)?;
            }
            Content::FileSystem(found) if found == kind => {}
            Content::Empty if !is_read_only => self.make(shown, kind, held, context)?,
            Content::Empty => return refused("nothing, and is only read"),
            Content::Unknown => {
                return refused(
                    "data that no tool knows (if they are of a mkfs that was cut, without reservations, zero its first and last MiB)",
                );
            }
            Content::FileSystem(found) | Content::Other(found) => return refused(&found),
        }
        match is_read_only {
            true => Ok(()),
            false => filesystem::check(machine, disk, kind),
        }
    }

    /// Makes a file system. While it is made, the volume is reserved by another key of this host's: where that is cut, whoever has the volume next knows that what
    /// is there was never used. It is the host's own key again before anything is mounted.
    fn make(
        &self,
        shown: &Shown<'_>,
        kind: &str,
        (held, keys): (Held, id::Keys),
        context: &BTreeMap<String, String>,
    ) -> Result<(), Status> {
        if held == Held::Own {
            self.replace(shown.reserved, keys.own, keys.making)?;
        }
        let options = context.get("mkfsOptions").map_or("", String::as_str);
        filesystem::make(self.machine(), &shown.disk, kind, options)?;
        match held {
            Held::Shared => Ok(()),
            Held::Own | Held::Unfinished => self.replace(shown.reserved, keys.making, keys.own),
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

    /// Ends mounts of disks that are gone: nothing can be read there, nor written, and the volume may have come again as another disk. Programs that are in there are
    /// not waited for.
    pub(super) fn unmount_lost(&self, at: &str) -> Result<(), Status> {
        for _ in 0..MOST_MOUNTS {
            let lost = match self.mounted(at)? {
                Some(there) => mounts::is_lost(self.machine(), &there, |number| self.number_beneath(number)),
                None => return Ok(()),
            };
            if !lost.map_err(|why| Status::internal(format!("{at}: {why}")))? {
                return Ok(());
            }
            log::warn!("{at} has a disk that is gone: it is unmounted");
            filesystem::run(self.machine(), "umount", &["-l", at])?;
        }
        Ok(())
    }

    pub(super) fn unstage(&self, request: &NodeUnstageVolumeRequest) -> Result<NodeUnstageVolumeResponse, Status> {
        let staging = path(&request.staging_target_path, "staging target path")?;
        let id = volume(&request.volume_id)?;
        let _hold = self.hold(id.number)?;
        if self.mounted(staging)?.is_some()
            && let Err(why) = self.machine().sync(staging)
        {
            // Of a disk that is lost nothing can be written any more, and it is to go all the same.
            log::error!("volume {id}: not all that was written came to its disk: {why}");
        }
        let number = self.mounted(staging)?.map(|there| self.number_beneath(&there.device));
        let map = number.and_then(|number| Some((iscsi::map_at(self, &number)?, number)));
        self.unmount(staging)?;
        self.close_all(id.number)?;
        self.leave(self.is_of(&id))?;
        if let Some((map, number)) = map {
            iscsi::end_of_bare_map(self, &number, &map)?;
        }
        Ok(NodeUnstageVolumeResponse {})
    }
}
