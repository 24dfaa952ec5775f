//! Names and ids: what the specification calls a volume, a snapshot, a set and a node, and what Amita calls it.
//!
//! An id is all that a call may be given, so it has what is needed to find its thing again: the number that stays, and the name under which it is
//! looked for first.

use aws_lc_rs::digest::{SHA256, digest};
use std::fmt;
use std::net::Ipv6Addr;
use uuid::Uuid;

/// Before a name that is made of a sum, for what was asked for cannot be one.
const HASHED: &str = "csi-x-";
/// The longest name of a volume that is taken as it is: with its number it stays within the 128 bytes of an id, with a snapshot's as well.
const MAX_VOLUME: usize = 56;
/// The same of a snapshot.
const MAX_SNAPSHOT: usize = 48;

/// The first digits of the SHA-256 of a text.
#[must_use]
pub fn sum(text: &str, bytes: usize) -> String {
    let sum = digest(&SHA256, text.as_bytes());
    sum.as_ref()
        .iter()
        .take(bytes)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn is_plain(byte: u8, more: &[u8]) -> bool {
    byte.is_ascii_alphanumeric() || more.contains(&byte)
}

fn named(wanted: &str, most: usize, more: &[u8]) -> String {
    let bytes = wanted.as_bytes();
    let fits = !bytes.is_empty()
        && bytes.len() <= most
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|byte| is_plain(*byte, more))
        && !wanted.starts_with("csi-");
    match fits {
        true => wanted.to_owned(),
        false => format!("{HASHED}{}", sum(wanted, 16)),
    }
}

/// What a volume is called that is wanted under this name.
#[must_use]
pub fn volume_name(wanted: &str) -> String {
    named(wanted, MAX_VOLUME, b"._-")
}

/// What a snapshot, or each of a set, is called that is wanted under this name.
#[must_use]
pub fn snapshot_name(wanted: &str) -> String {
    named(wanted, MAX_SNAPSHOT, b"._-")
}

/// A volume's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeId {
    /// The number that stays.
    pub number: u64,
    /// What it was called when it was made.
    pub name: String,
}

impl VolumeId {
    /// As it is written; none: nothing of this driver is called so.
    #[must_use]
    pub fn parse(text: &str) -> Option<VolumeId> {
        let (number, name) = text.split_once(':')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| is_plain(byte, b"._-"));
        Some(VolumeId {
            number: number.parse().ok().filter(|_| is_name)?,
            name: name.to_owned(),
        })
    }

    /// The subsystem that it is a namespace of while it is published. A node that has volumes of two drivers tells them apart by it.
    #[must_use]
    pub fn subsystem(&self, driver: &str) -> String {
        format!("{}{}", subsystem_before(driver), self.number)
    }

    /// Its name when it was deleted and has snapshots still.
    #[must_use]
    pub fn gone_name(&self) -> String {
        format!("csi-gone-{}", self.number)
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.name)
    }
}

/// What the names of a driver's subsystems begin with: the number of their volume follows.
#[must_use]
pub fn subsystem_before(driver: &str) -> String {
    format!("csi-{}-", sum(driver, 4))
}

/// A snapshot's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId {
    /// Its volume.
    pub volume: VolumeId,
    /// What it is called there.
    pub name: String,
}

impl SnapshotId {
    /// As it is written; none: nothing of this driver is called so.
    #[must_use]
    pub fn parse(text: &str) -> Option<SnapshotId> {
        let (volume, name) = text.split_once('@')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| is_plain(byte, b"._:+-"));
        Some(SnapshotId {
            volume: VolumeId::parse(volume).filter(|_| is_name)?,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.volume, self.name)
    }
}

/// The id of snapshots that were taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupId {
    /// The set's number.
    pub set: u64,
    /// What each of its snapshots is called.
    pub name: String,
}

impl GroupId {
    /// As it is written; none: nothing of this driver is called so.
    #[must_use]
    pub fn parse(text: &str) -> Option<GroupId> {
        let (set, name) = text.split_once(':')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| is_plain(byte, b"._-"));
        Some(GroupId {
            set: set.parse().ok().filter(|_| is_name)?,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.set, self.name)
    }
}

/// A node's id: the host identifier of NVMe, as a UUID. A machine that is set up anew has another one; none: no node of this driver has said so.
#[must_use]
pub fn node(text: &str) -> Option<Uuid> {
    let is_usual = text.len() == uuid::fmt::Hyphenated::LENGTH;
    Uuid::try_parse(text).ok().filter(|host| is_usual && !host.is_nil())
}

/// The qualified name of a host.
#[must_use]
pub fn host_nqn(host: Uuid) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{host}")
}

/// The host of a qualified name; none: it has another form.
#[must_use]
pub fn host_of(nqn: &str) -> Option<Uuid> {
    let text = nqn.strip_prefix("nqn.2014-08.org.nvmexpress:uuid:")?;
    Uuid::try_parse(text).ok()
}

/// A host's key of reservations: never 0, which is none.
#[must_use]
pub fn reservation_key(host: Uuid) -> u64 {
    let (first, second) = host.as_u64_pair();
    match first ^ second {
        0 => 1,
        key => key,
    }
}

/// The key by which a host is known to a volume while it makes a file system there: what holds it so is not whole. Not its other one, and never 0.
#[must_use]
pub fn making_key(host: Uuid) -> u64 {
    let sum = digest(&SHA256, format!("amita csi makes a file system\n{host}").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&sum.as_ref()[..8]);
    match u64::from_le_bytes(bytes) {
        key if key == 0 || key == reservation_key(host) => reservation_key(host) ^ u64::MAX,
        key => key,
    }
}

/// The keys by which a host is known to a volume that is published to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// While it has the volume.
    pub own: u64,
    /// While it makes a file system there.
    pub making: u64,
}

impl Keys {
    /// Of the n-th attachment that the cluster has made: it stands in the upper half of the keys, so that of two attachments everybody knows which is the older
    /// one. None: the controller did not say.
    #[must_use]
    pub fn of(host: Uuid, attachment: Option<u32>) -> Keys {
        match attachment {
            None => Keys {
                own: reservation_key(host),
                making: making_key(host),
            },
            Some(number) => {
                let own = (u64::from(number) << 32) | lower(host);
                Keys { own, making: own | 1 }
            }
        }
    }
}

/// The attachment that a subsystem with this serial number is: subsystems have numbers in the order in which they are made, and each attachment has one of its own.
#[must_use]
pub fn attachment_of_serial(serial: &str) -> Option<u32> {
    let at = serial.len().checked_sub(8)?;
    u32::from_str_radix(serial.get(at..)?, 16).ok()
}

/// The lower half of a host's keys: even.
fn lower(host: Uuid) -> u64 {
    (making_key(host) & 0x7fff_ffff) << 1
}

/// The attachment that a host was known by with this key; none: it says of none.
#[must_use]
pub fn attachment_of(key: u64, host: Uuid) -> Option<u32> {
    let is_one = key & 0xffff_fffe == lower(host);
    u32::try_from(key >> 32).ok().filter(|_| is_one)
}

/// Was a host making a file system when it was known by this key?
#[must_use]
pub fn is_making(key: u64, host: Uuid) -> bool {
    key == making_key(host) || (attachment_of(key, host).is_some() && key & 1 == 1)
}

/// A key as the API writes it, and a node is told.
#[must_use]
pub fn key_of(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// A host, as those write it who know addresses only.
#[must_use]
pub fn host_cidr(host: Uuid) -> String {
    format!("{}/128", Ipv6Addr::from(host.as_u128()))
}

/// The host that was written so.
#[must_use]
pub fn host_of_cidr(cidr: &str) -> Option<Uuid> {
    let address: Ipv6Addr = cidr.strip_suffix("/128").unwrap_or(cidr).parse().ok()?;
    Some(Uuid::from_u128(address.to_bits())).filter(|host| !host.is_nil())
}

#[cfg(test)]
mod tests;
