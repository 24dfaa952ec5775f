//! Disks that somebody else has: what is mounted of one, or built on it, is not taken away under it.

use super::machine::Claim;
use super::nvme::{self, Disk};
use super::{Node, mounts};
use std::time::Duration;
use tonic::Status;

/// A disk that is to go is looked at so often,
const LOOKS: u32 = 10;
/// with so much time between.
const LOOK: Duration = Duration::from_millis(200);

impl Node {
    /// A disk that is in use where this process cannot see it is not taken away either: what is mounted in another name space of mounts has data that are
    /// not written yet.
    pub(super) fn claimed(&self, disk: &Disk) -> Result<Claim, Status> {
        let device = disk.device();
        for look in 0..LOOKS {
            if look > 0 {
                // A mount that has just ended lets go of its disk a little later.
                self.machine().pause(LOOK);
            }
            match self.machine().claim(&device) {
                Ok(Some(claim)) => return Ok(claim),
                Ok(None) => {}
                // It is gone already.
                Err(why) if matches!(why.raw_os_error(), Some(libc::ENOENT | libc::ENXIO | libc::ENODEV)) => {
                    return Ok(Box::new(()));
                }
                Err(why) => return Err(Status::internal(format!("{device}: {why}"))),
            }
        }
        let holders = self.holders(disk);
        let by = match holders.is_empty() {
            true => "a mount that is not seen from here (look into /proc/*/mountinfo), or a program".to_owned(),
            false => format!(
                "{}, which this machine has made of what is on it (docs/operating/csi.md, \"Disks in disks\")",
                holders.join(", ")
            ),
        };
        Err(Status::failed_precondition(format!(
            "{device} is in use still, by {by}"
        )))
    }

    /// What the kernel has built on a disk or on its partitions; what the device mapper has, by its name too.
    fn holders(&self, disk: &Disk) -> Vec<String> {
        let machine = self.machine();
        // What goes away while it is looked at is none.
        let list = |path: &str| machine.list(path).unwrap_or_default();
        let (folder, partition) = (format!("/sys/block/{}", disk.name), format!("{}p", disk.name));
        let parts = list(&folder).into_iter().filter(|name| name.starts_with(&partition));
        let parts = parts.map(|name| format!("{folder}/{name}/holders"));
        let all = std::iter::once(format!("{folder}/holders")).chain(parts);
        let named = |name: String| match machine.read(&format!("/sys/block/{name}/dm/name")) {
            Ok(known) => format!("{name} ({})", known.trim()),
            Err(_) => name,
        };
        all.flat_map(|path| list(&path)).map(named).collect()
    }

    /// What a disk is called where its file is bound. Of the device mapper's `mount` binds the file that has its name, which is a link to the other one where udev has made it.
    pub(super) fn files(&self, disk: &Disk) -> Vec<String> {
        let name = self.machine().read(&format!("/sys/block/{}/dm/name", disk.name));
        let mapped = name.map(|name| format!("/mapper/{}", name.trim()));
        std::iter::once(format!("/{}", disk.name)).chain(mapped).collect()
    }

    /// Does nobody use a disk here, in whatever name space of mounts?
    pub(super) fn is_free(&self, disk: &Disk) -> Result<bool, Status> {
        if self.not_used(disk).is_err() {
            return Ok(false);
        }
        let device = disk.device();
        let claim = self.machine().claim(&device);
        Ok(claim
            .map_err(|why| Status::internal(format!("{device}: {why}")))?
            .is_some())
    }

    /// A disk that is mounted elsewhere is not taken away.
    pub(super) fn not_used(&self, disk: &Disk) -> Result<(), Status> {
        let all =
            mounts::all(self.machine()).map_err(|why| Status::internal(format!("the mounts of this node: {why}")))?;
        let files = self.files(disk);
        // Maps have names of their own, by which they are mounted.
        let number = match disk.name.starts_with("dm-") {
            true => nvme::number(self.machine(), disk).ok(),
            false => None,
        };
        let used = all.iter().find(|mount| {
            mount.source == disk.device()
                || files.contains(&mount.root)
                || number.as_ref().is_some_and(|it| *it == mount.device)
        });
        match used {
            None => Ok(()),
            Some(used) => Err(Status::failed_precondition(format!(
                "{} is in use at {}",
                disk.name, used.at
            ))),
        }
    }
}
