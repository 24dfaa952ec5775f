//! What the cluster's settings say of SCSI, as one node sees it: immutable, made anew when they change, and shared.

use amita_frontend::pieces::is_chunk_size;
use amita_frontend::{Source, reservation};
use amita_types::{BLOCK_BYTES, NodeId, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::MAX_LUN;
use crate::token::TokenKeys;

/// The settings of the moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// This gateway.
    pub node: NodeId,
    /// Counts the catalogs of this node. 0: the settings are not known yet.
    pub revision: u64,
    /// All gateways that speak iSCSI, in order of their tag.
    pub groups: Vec<Group>,
    /// In order of their name.
    pub targets: Vec<Arc<Target>>,
    /// The reservations of volumes as the metadata has them. Of a volume that is not among them nobody has registered.
    pub reservations: BTreeMap<VolumeId, Arc<reservation::State>>,
    /// What tokens are sealed with, for copies by token (POPULATE TOKEN, WRITE USING TOKEN); `None`: there are no such copies.
    pub tokens: Option<Arc<TokenKeys>>,
    /// Do hosts reserve volumes as only SCSI has it: several nexuses at once (SPEC_I_PT, ALL_TG_PT), handing over (REGISTER AND MOVE), the
    /// exclusive reservations of SPC-2 (RESERVE, RELEASE)?
    pub extended_reservations: bool,
}

impl Catalog {
    /// The target of that name.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&Arc<Target>> {
        let index = self
            .targets
            .binary_search_by(|known| known.name.as_str().cmp(name))
            .ok()?;
        self.targets.get(index)
    }

    /// The gateway with that tag.
    #[must_use]
    pub fn group(&self, tag: u16) -> Option<&Group> {
        let index = self.groups.binary_search_by_key(&tag, |known| known.tag).ok()?;
        self.groups.get(index)
    }

    /// This gateway, if it speaks iSCSI.
    #[must_use]
    pub fn here(&self) -> Option<&Group> {
        self.groups.iter().find(|group| group.node == self.node)
    }
}

/// A gateway: one target port group, with one target port of each target. Its tag is the iSCSI target portal group tag, the target
/// port group of asymmetric access, and the relative target port identifier alike (a relative identifier is unique among the ports
/// of one SCSI device, which is a target: SPC-4, "Relative target port identifier").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// From 1 on, and never another gateway's.
    pub tag: u16,
    pub node: NodeId,
    pub name: String,
    /// Does it live, as far as is known?
    pub alive: bool,
}

/// A target: a SCSI device, whose ports are those of the gateways that serve it.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its iSCSI name, canonical.
    pub name: String,
    /// The tags of the gateways that serve it, in order.
    pub groups: Vec<u16>,
    /// In order of their number.
    pub units: Vec<Arc<Unit>>,
    /// Who may use it, in order of their name.
    pub initiators: Vec<Arc<Access>>,
    /// Others than `initiators` may use all of it.
    pub any_initiator: bool,
    /// Hosts may move a volume to another gateway (SET TARGET PORT GROUPS).
    pub explicit_access: bool,
}

impl Target {
    /// The logical unit of that number, if it is one that hosts can use.
    #[must_use]
    pub fn unit(&self, number: u16) -> Option<&Arc<Unit>> {
        let index = self.units.binary_search_by_key(&number, |known| known.number).ok()?;
        self.units.get(index).filter(|unit| unit.is_sound())
    }

    /// What is said of that initiator, by its canonical name.
    #[must_use]
    pub fn initiator(&self, name: &str) -> Option<&Arc<Access>> {
        let index = self
            .initiators
            .binary_search_by(|known| known.name.as_str().cmp(name))
            .ok()?;
        self.initiators.get(index)
    }

    /// May it log in?
    #[must_use]
    pub fn admits(&self, name: &str) -> bool {
        self.any_initiator || self.initiator(name).is_some()
    }

    /// May it see the logical unit of that number?
    #[must_use]
    pub fn shows(&self, name: &str, number: u16) -> bool {
        match self.initiator(name) {
            Some(access) => access.sees(number),
            None => self.any_initiator,
        }
    }

    /// The logical units that an initiator can use, in order of their number.
    pub fn units_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<Unit>> {
        let shown = self.units.iter().filter(|unit| unit.is_sound());
        shown.filter(move |unit| self.shows(name, unit.number))
    }
}

/// What an initiator may see of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its iSCSI name, canonical.
    pub name: String,
    /// The numbers of the logical units that it may see, in order; `None`: all.
    pub mask: Option<Vec<u16>>,
}

impl Access {
    /// May it see the logical unit of that number?
    #[must_use]
    pub fn sees(&self, number: u16) -> bool {
        match &self.mask {
            Some(mask) => mask.binary_search(&number).is_ok(),
            None => true,
        }
    }
}

/// A logical unit: a volume, or a snapshot of one, under a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Its number in the target: at most [`MAX_LUN`].
    pub number: u16,
    pub volume: VolumeId,
    /// The snapshot of it that is meant, which can only be read; [`SnapshotId::HEAD`]: the volume itself.
    pub snapshot: SnapshotId,
    /// The volume's name.
    pub name: String,
    pub size_bytes: u64,
    /// Bytes of a chunk of the volume.
    pub chunk_bytes: u32,
    /// Bytes of a logical block: 512 or 4096. A physical one has 4096 always.
    pub block_bytes: u32,
    /// The same at every gateway and in every target, for ever; another one for every volume and every snapshot. What the designators
    /// of the device identification page are made of.
    pub uuid: [u8; 16],
    /// The state of each gateway that serves the target, by its tag, in order. What is not among them is unavailable.
    pub access: Vec<(u16, Alua)>,
    /// The tag of the gateway where it should be, if one is preferred.
    pub preferred: Option<u16>,
    /// Space of the pool, where it is thinly provisioned.
    pub space: Option<Space>,
}

impl Unit {
    /// What its I/O is about.
    #[must_use]
    pub fn source(&self) -> Source {
        let (volume, snapshot) = (self.volume, self.snapshot);
        Source { volume, snapshot }
    }

    /// Can it be read only? What is so was never another way, and stays so.
    #[must_use]
    pub fn is_write_protected(&self) -> bool {
        !self.source().is_head()
    }

    /// How many logical blocks it has.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes / u64::from(self.block_bytes)
    }

    /// How many logical blocks a physical one has: 8 of 512 bytes ("512e"), 1 of 4,096.
    #[must_use]
    pub fn blocks_per_physical(&self) -> u32 {
        BLOCK_BYTES / self.block_bytes
    }

    /// How the gateway with that tag reaches it.
    #[must_use]
    pub fn state(&self, tag: u16) -> Alua {
        match self.access.binary_search_by_key(&tag, |known| known.0) {
            Ok(index) => self.access[index].1,
            Err(_) => Alua::Unavailable,
        }
    }

    /// Can it be described to a host, and its I/O be cut into chunks? Of the settings no other reaches hosts.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.number <= MAX_LUN
            && matches!(self.block_bytes, 512 | 4096)
            && self.size_bytes >= u64::from(BLOCK_BYTES)
            && self.size_bytes.is_multiple_of(u64::from(BLOCK_BYTES))
            && is_chunk_size(self.chunk_bytes)
    }
}

/// Asymmetric access states (SPC-4, "Target port asymmetric access states").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Alua {
    /// This gateway owns the volume.
    Optimized = 0x0,
    /// Another one does; I/O is forwarded.
    NonOptimized = 0x1,
    /// Nothing but what tells of itself is answered, until it is asked to become active.
    Standby = 0x2,
    /// The gateway is cut off, or gone.
    #[default]
    Unavailable = 0x3,
    /// Being moved.
    Transitioning = 0xf,
}

/// How full the pool of a thinly provisioned volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that are used of the pool, and that it has.
    pub used_bytes: u64,
    pub total_bytes: u64,
    /// Hosts are warned when so much of it is used.
    pub warning_percent: u8,
}

impl Space {
    /// Is it so full that hosts are to be warned?
    #[must_use]
    pub fn is_scarce(&self) -> bool {
        u128::from(self.used_bytes) * 100 >= u128::from(self.total_bytes) * u128::from(self.warning_percent)
    }
}

#[cfg(test)]
mod tests;
