//! What initiators see by iSCSI: targets, their LUNs, who may log in, and where.

use super::{NamespaceSnapshot, PREFIX, is_false};
use crate::id::{NodeId, SnapshotId, VolumeId};
use serde::{Deserialize, Serialize};

/// The highest number of a LUN: what flat space addressing holds. Up to 255 it is addressed as a peripheral device (SAM-5, the addressing
/// methods of LUNs).
pub const MAX_LUN_NUMBER: u16 = 16_383;

/// The maker that disks name (T10 vendor identification): initiators' settings of paths go by it.
pub const SCSI_VENDOR: &str = "AMITA";
/// What they say that they are (product identification).
pub const SCSI_PRODUCT: &str = "VOLUME";

/// `/amita/iscsi/targets/NAME`: what initiators log in to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IscsiTarget {
    /// Its name, as operators know it.
    pub name: String,
    /// Its iSCSI name: unique, and in its canonical form ([`crate::iscsi_name`]).
    pub iqn: String,
    /// The names of the nodes that serve it; empty: all that speak iSCSI.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
    /// May any initiator log in, and see all LUNs? Otherwise only those of `initiators`; none, when that is empty.
    #[serde(default, skip_serializing_if = "is_false")]
    pub any_initiator: bool,
    /// Are logins without CHAP refused? Initiators without a secret cannot log in then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub chap_required: bool,
    /// May initiators have volumes moved to another gateway (SET TARGET PORT GROUPS)? Otherwise only operators do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub initiators_move: bool,
    /// At how many percent of its pool a LUN's initiators are told that space runs out; none: where stores count as near full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_warning_percent: Option<u8>,
    /// Who may log in, in order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initiators: Vec<IscsiAccess>,
    /// In order of their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub luns: Vec<IscsiLun>,
}

impl IscsiTarget {
    /// What an initiator may there, if it is named.
    #[must_use]
    pub fn access(&self, initiator: &str) -> Option<&IscsiAccess> {
        self.initiators.iter().find(|known| known.initiator == initiator)
    }

    /// The LUN of that number.
    #[must_use]
    pub fn lun(&self, number: u16) -> Option<&IscsiLun> {
        self.luns.iter().find(|known| known.number == number)
    }
}

/// An initiator that may log in to a target, and what it sees there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IscsiAccess {
    /// Its iSCSI name, in its canonical form.
    pub initiator: String,
    /// The numbers of the LUNs that it sees, in order; none: all of them, those that come later too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub luns: Option<Vec<u16>>,
}

impl IscsiAccess {
    /// Does it see the LUN of that number, if there is one?
    #[must_use]
    pub fn sees(&self, number: u16) -> bool {
        self.luns.as_ref().is_none_or(|luns| luns.contains(&number))
    }
}

/// A logical unit of a target: a volume, or a snapshot of one, under a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IscsiLun {
    /// Its number, 0 to [`MAX_LUN_NUMBER`].
    pub number: u16,
    /// The volume.
    pub volume: VolumeId,
    /// Its UUID: the same for ever, and the same as that of the volume as a namespace. Initiators know the disk by what is made of it ([`naa`]).
    pub uuid: uuid::Uuid,
    /// Bytes of a logical block: 512 or 4096. A physical one has 4096.
    pub block_bytes: u32,
    /// The snapshot of the volume that it is, to be read only; none: the volume itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<NamespaceSnapshot>,
    /// Also while the volume is a namespace of a subsystem.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
}

impl IscsiLun {
    /// Does it stand for this snapshot of this volume? [`SnapshotId::HEAD`]: for the volume itself.
    #[must_use]
    pub fn is_of(&self, volume: VolumeId, snapshot: SnapshotId) -> bool {
        self.volume == volume && self.snapshot_id() == snapshot
    }

    /// The number of the snapshot that it is; [`SnapshotId::HEAD`]: the volume itself.
    #[must_use]
    pub fn snapshot_id(&self) -> SnapshotId {
        self.snapshot.map_or(SnapshotId::HEAD, |snapshot| snapshot.number)
    }
}

/// The name by which initiators know a disk: NAA 6h (SPC-4, "NAA IEEE Registered Extended designator format"), made of the UUID by which
/// hosts know it, so that it is the same at every gateway for ever.
///
/// The form begins with a number that IEEE gives to makers. This one is nobody's: its first octet says that it is administered locally and
/// was assigned by nobody else (IEEE 802c, "administratively assigned").
#[must_use]
pub fn naa(uuid: &uuid::Uuid) -> [u8; 16] {
    const KIND: u128 = 0x6 << 124;
    const COMPANY: u128 = 0x02_414d << 100;
    let all = uuid.as_u128();
    // What tells snapshots apart lies above the UUID's version, and what tells volumes apart below (`Namespace::uuid_of_snapshot`).
    let own = (((all >> 80) & 0xf_ffff_ffff) << 64) | (all & u128::from(u64::MAX));
    (KIND | COMPANY | own).to_be_bytes()
}

/// The same as 32 hexadecimal digits: Linux has them behind `wwn-0x`, ESXi behind `naa.`.
#[must_use]
pub fn naa_text(uuid: &uuid::Uuid) -> String {
    format!("{:032x}", u128::from_be_bytes(naa(uuid)))
}

/// `/amita/iscsi/initiators/NAME`: an initiator, and the secrets that it and targets prove to have. They are sealed: only who has the
/// cluster's sealing key can read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IscsiInitiator {
    /// Its iSCSI name, in its canonical form.
    pub name: String,
    /// The name that it gives for CHAP; none: its iSCSI name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_user: Option<String>,
    /// The name that targets give it for CHAP, where it wants proof of them; none: each its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_target_user: Option<String>,
    /// Its secret for CHAP, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<String>,
    /// The targets' secret, sealed, for initiators that want proof as well. It is another one than its own (RFC 7143, 9.2.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_target: Option<String>,
}

impl IscsiInitiator {
    /// The name that it gives for CHAP.
    #[must_use]
    pub fn user(&self) -> &str {
        self.chap_user.as_deref().unwrap_or(&self.name)
    }
}

/// `/amita/iscsi/gateways/NODE`: a node that speaks iSCSI. What it listens at is one portal group, and one target port group as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IscsiGateway {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// The portal group's tag, the target port group's number and the relative target port identifier: 1 to 65,535, never another node's.
    pub tag: u16,
    /// `HOST:PORT` of each portal; empty: it listens nowhere now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub portals: Vec<String>,
    /// The session of the program that has said so ([`super::Live::session`]). Another one that lives is of a version that speaks no iSCSI, and does
    /// not know that it had to take that back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
}

impl IscsiGateway {
    /// Does it listen there while the program of this session lives, as its node? `None`: its session cannot be read.
    #[must_use]
    pub fn is_of(&self, living: Option<u64>) -> bool {
        match (self.session, living) {
            // Zero: of one that has stopped, or that nobody can read.
            (Some(own), Some(living)) => own == living || living == 0,
            _ => true,
        }
    }
}

/// The prefix of the targets.
#[must_use]
pub fn iscsi_targets_prefix() -> String {
    format!("{PREFIX}iscsi/targets/")
}
/// The key of a target's record.
#[must_use]
pub fn iscsi_target_key(name: &str) -> String {
    format!("{}{name}", iscsi_targets_prefix())
}
/// The prefix of the initiators.
#[must_use]
pub fn iscsi_initiators_prefix() -> String {
    format!("{PREFIX}iscsi/initiators/")
}
/// The key of an initiator's record.
#[must_use]
pub fn iscsi_initiator_key(name: &str) -> String {
    format!("{}{name}", iscsi_initiators_prefix())
}
/// The prefix of the nodes that speak iSCSI.
#[must_use]
pub fn iscsi_gateways_prefix() -> String {
    format!("{PREFIX}iscsi/gateways/")
}
/// The key of a node that speaks iSCSI.
#[must_use]
pub fn iscsi_gateway_key(node: &str) -> String {
    format!("{}{node}", iscsi_gateways_prefix())
}

#[cfg(test)]
mod tests;
