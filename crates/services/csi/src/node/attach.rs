//! What a volume comes by: one of these for each protocol ([`crate::protocol`]), told apart by what the controller has said. What more there comes to be is one more of each.

use super::nvme::{self, Disk};
use super::{Node, crypt, iscsi};
use crate::controller::context;
use crate::id::VolumeId;
use crate::parameters::BY_SECRET;
use std::collections::BTreeMap;
use tonic::Status;

/// What the controller has told, with the disk by its usual name. One that is told of under the name of those that are encrypted here is attached by nobody who would use it in the clear. What
/// was published before there was that name is told of by the usual one, and goes on as it was.
fn unsealed(told: &BTreeMap<String, String>, is_wanted: bool) -> Result<BTreeMap<String, String>, Status> {
    let mut told = told.clone();
    for (sealed, plain) in [
        (context::SEALED_UUID, context::UUID),
        (context::SEALED_NAA, context::NAA),
    ] {
        let Some(disk) = told.remove(sealed) else { continue };
        if !is_wanted {
            return Err(Status::failed_precondition(format!(
                "the volume is encrypted at its node by a Secret, and its PersistentVolume does not say so: its volumeAttributes are to have {BY_SECRET}: \"true\""
            )));
        }
        told.insert(plain.to_owned(), disk);
    }
    Ok(told)
}

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
        let told = &unsealed(told, crypt::is_wanted(volume))?;
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
