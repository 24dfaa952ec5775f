//! What a volume comes by: one of these for each protocol ([`crate::protocol`]), told apart by what the controller has said. What more there comes to be is one more of each.

use super::nvme::{self, Disk};
use super::{Node, iscsi};
use crate::id::VolumeId;
use std::collections::BTreeMap;
use tonic::Status;

/// What a node attaches.
pub(super) enum Target {
    Nvme(nvme::Target),
    Iscsi(iscsi::Target),
}

impl Target {
    /// Of what the controller has told, and the volume's context.
    pub(super) fn read(
        node: &Node,
        told: &BTreeMap<String, String>,
        volume: &BTreeMap<String, String>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Target, Status> {
        match iscsi::Target::read(told, secrets)? {
            Some(target) => Ok(Target::Iscsi(target)),
            None => nvme::Target::read(node.host, told, volume, secrets).map(Target::Nvme),
        }
    }

    /// Attaches it, and finds the disk.
    pub(super) fn connect(&self, node: &Node, id: &VolumeId) -> Result<Disk, Status> {
        match self {
            Target::Nvme(target) => {
                let (disk, is_whole) = target.connect(node.machine(), &node.gateways, node.is_of(id))?;
                if !is_whole {
                    node.paths_are_missing.notify_one();
                }
                Ok(disk)
            }
            Target::Iscsi(target) => target.connect(node, node.is_of(id)),
        }
    }

    /// The disk, if it is there.
    pub(super) fn disk(&self, node: &Node) -> Result<Option<Disk>, Status> {
        match self {
            Target::Nvme(target) => target.disk(node.machine()),
            Target::Iscsi(target) => target.disk(node),
        }
    }

    /// Is it that of this name?
    pub(super) fn is(&self, name: &str) -> bool {
        match self {
            Target::Nvme(target) => target.is(name),
            Target::Iscsi(target) => target.is(name),
        }
    }
}
