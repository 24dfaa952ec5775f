//! How full a volume is, how large it became, and giving back what it does not need.

use super::filesystem::{self, run};
use super::inline::is_inline;
use super::machine::{Kind, Space};
use super::mounts::{self, Mount};
use super::nvme::{self, Disk};
use super::{Node, iscsi, path, present, volume};
use crate::parameters::LUKS_BYTES;
use crate::wire::addons::{NodeReclaimSpaceRequest, NodeReclaimSpaceResponse};
use crate::wire::node::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    VolumeUsage, VolumeUsageUnit as Unit,
};
use std::time::Duration;
use tonic::Status;

/// A disk that has grown is told of so long, at most,
const LOOKS: u32 = 50;
/// of which one in so many has a map look at its paths;
const ASK_AGAIN: u32 = 10;
/// with so much time between two looks.
const LOOK: Duration = Duration::from_millis(100);

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn usage(unit: Unit, (total, available, used): (u64, u64, u64)) -> VolumeUsage {
    VolumeUsage {
        available: signed(available),
        total: signed(total),
        used: signed(used),
        unit: unit as i32,
    }
}

fn none_at(at: &str) -> Status {
    Status::not_found(format!("no volume is at {at}"))
}

/// The disk that is mounted, or bound as a file. Those of the device mapper are so by names of their own.
fn disk_of(node: &Node, mount: &Mount) -> Disk {
    if mount.source.starts_with("/dev/mapper/")
        && let Some(map) = iscsi::map_at(node, &mount.device)
    {
        return map;
    }
    if let Some(mapping) = node.mapping_shown(mount) {
        return mapping.disk;
    }
    let name = match mount.root.as_str() {
        "/" => mount.source.strip_prefix("/dev/").unwrap_or(&mount.source),
        bound => bound.trim_start_matches('/'),
    };
    Disk {
        name: name.to_owned(),
        paths: Vec::new(),
    }
}

impl Node {
    /// What is mounted at a path of a request.
    fn there(&self, at: &str) -> Result<Mount, Status> {
        let mount = self.mounted(at)?;
        mount.ok_or_else(|| none_at(at))
    }

    fn is_disk(&self, at: &str) -> Result<bool, Status> {
        let kind = self
            .machine()
            .kind(at)
            .map_err(|why| Status::internal(format!("{at}: {why}")))?;
        Ok(kind == Some(Kind::Disk))
    }

    pub(super) fn stats(&self, request: &NodeGetVolumeStatsRequest) -> Result<NodeGetVolumeStatsResponse, Status> {
        present(&[(&request.volume_path, "volume path")])?;
        if !is_inline(&request.volume_id) {
            volume(&request.volume_id)?;
        }
        // A path that is none has no volume.
        let none = |_| Status::not_found(format!("no volume is at {:?}", request.volume_path));
        let at = path(&request.volume_path, "volume path").map_err(none)?;
        let mount = self.there(at)?;
        if self.is_disk(at)? {
            let bytes = nvme::size(self.machine(), &disk_of(self, &mount))?;
            return Ok(NodeGetVolumeStatsResponse {
                usage: vec![usage(Unit::Bytes, (bytes, 0, 0))],
            });
        }
        let space = self.machine().space(at);
        let Space { bytes, inodes } = space.map_err(|why| Status::internal(format!("{at}: {why}")))?;
        Ok(NodeGetVolumeStatsResponse {
            usage: vec![usage(Unit::Bytes, bytes), usage(Unit::Inodes, inodes)],
        })
    }

    pub(super) fn expand(&self, request: &NodeExpandVolumeRequest) -> Result<NodeExpandVolumeResponse, Status> {
        present(&[(&request.volume_path, "volume path")])?;
        let id = volume(&request.volume_id)?;
        let at = path(&request.volume_path, "volume path")?;
        let _hold = self.hold(id.number)?;
        let mount = self.mounted(at)?;
        let disk = match &mount {
            Some(mount) => disk_of(self, mount),
            // Kubelet names the place where a raw disk was shown first, perhaps to a pod that has gone since: what decrypts it is found by its volume.
            None => self.opened(id.number).ok_or_else(|| none_at(at))?,
        };
        let wanted = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
        let mapping = self.as_mapping(&disk);
        let grows = mapping
            .as_ref()
            .map_or_else(|| Ok(disk.clone()), |mapping| self.disk_beneath(mapping))?;
        let wanted = u64::try_from(wanted).unwrap_or(0);
        let bytes = match &mapping {
            None => self.await_size(&grows, wanted, self.is_of(&id))?,
            Some(mapping) => {
                let whole = self.await_size(&grows, wanted.saturating_add(LUKS_BYTES), self.is_of(&id));
                if let Err(why) = whole {
                    // Controllers of before count the head among what is wanted, and nobody asks them again.
                    if nvme::size(self.machine(), &grows)? != wanted {
                        return Err(why);
                    }
                    log::warn!(
                        "{} has {wanted} bytes with its head, which a controller of before has made so",
                        grows.name
                    );
                }
                self.grow_mapping(mapping)?;
                nvme::size(self.machine(), &mapping.disk)?
            }
        };
        if let Some(mount) = mount
            && !self.is_disk(at)?
            && !nvme::is_read_only(self.machine(), &disk)
        {
            // A pod that only reads sees it by a mount through which it cannot grow.
            let all = mounts::all(self.machine());
            let all = all.map_err(|why| Status::internal(format!("the mounts of this node: {why}")))?;
            let is_written =
                |other: &&Mount| other.device == mount.device && other.kind == mount.kind && !other.is_read_only;
            if let Some(written) = all.iter().find(is_written) {
                filesystem::grow(self.machine(), &disk, &mount.kind, &written.at)?;
            }
        }
        Ok(NodeExpandVolumeResponse {
            capacity_bytes: signed(bytes),
        })
    }

    /// A gateway tells hosts that a disk has grown; it may be on its way.
    fn await_size(&self, disk: &Disk, wanted: u64, is_meant: impl Fn(&str) -> bool) -> Result<u64, Status> {
        for look in 0..LOOKS {
            let bytes = nvme::size(self.machine(), disk)?;
            if bytes >= wanted {
                return Ok(bytes);
            }
            if look == 0 {
                nvme::look_again(self.machine(), &is_meant)?;
            }
            if disk.name.starts_with("dm-")
                && look % ASK_AGAIN == 0
                && let Err(why) = iscsi::look_again(self, disk)
            {
                log::warn!("{} has not grown yet: {}", disk.name, why.message());
            }
            self.machine().pause(LOOK);
        }
        Err(Status::unavailable(format!(
            "{} has less than {wanted} bytes still; ask again",
            disk.name
        )))
    }

    pub(super) fn trim(&self, request: &NodeReclaimSpaceRequest) -> Result<NodeReclaimSpaceResponse, Status> {
        let id = volume(&request.volume_id)?;
        let at = match request.staging_target_path.as_str() {
            "" => path(&request.volume_path, "volume path")?,
            staging => path(staging, "staging target path")?,
        };
        // Of a disk only who writes it knows what it needs.
        if self.mounted(at)?.is_none() || self.is_disk(at)? {
            return Err(Status::failed_precondition(format!(
                "no file system of volume {id} is at {at}"
            )));
        }
        run(self.machine(), "fstrim", &["-v", at])?;
        Ok(NodeReclaimSpaceResponse {
            pre_usage: None,
            post_usage: None,
        })
    }
}
