//! What answers have, as far as the driver reads it; what it does not know it ignores.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A thing as it was looked at.
#[derive(Clone, Debug)]
pub struct Tagged<T> {
    /// What it is.
    pub thing: T,
    /// Its entity tag.
    pub tag: String,
}

/// A piece of a list.
#[derive(Deserialize)]
pub(super) struct Piece<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The number that stays.
    pub id: u64,
    /// Its pool.
    pub pool: String,
    /// Its size.
    pub size_bytes: u64,
    /// What is known of it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// It is encrypted at rest.
    #[serde(default)]
    pub encrypted: bool,
}

/// A volume that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewVolume<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its pool.
    pub pool: &'a str,
    /// Its size.
    pub size_bytes: u64,
    /// What is to be known of it.
    pub labels: &'a BTreeMap<String, String>,
    /// Encrypted at rest.
    pub encrypted: bool,
    /// Whose it is; none: nobody's.
    pub tenant: Option<&'a str>,
}

/// What becomes of a deleted volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDelete {
    /// As its pool says.
    Recycle,
    /// It is gone.
    Now,
    /// It is kept for so many seconds.
    Keep(u64),
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Snapshot {
    /// Its volume's name.
    pub volume: String,
    /// Its name.
    pub name: String,
    /// The volume's size then.
    pub size_bytes: u64,
    /// When, in seconds since 1970.
    pub taken_at: u64,
    /// The set that it was taken with.
    pub set: Option<u64>,
    /// Only its mark is kept.
    #[serde(default)]
    pub mark: bool,
    /// It was deleted.
    #[serde(default)]
    pub hidden: bool,
    /// What is known of it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Snapshots of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Set {
    /// Its number.
    pub id: u64,
    /// What each of them is called.
    pub name: String,
    /// When, in seconds since 1970.
    pub taken_at: u64,
    /// Of which volumes they are there.
    pub volumes: Vec<String>,
}

/// A piece of what was changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Diff {
    /// The volume's size in the newer snapshot.
    pub size_bytes: u64,
    /// Ascending.
    pub items: Vec<Extent>,
    /// Where the next piece begins.
    pub next: Option<String>,
}

/// Bytes that were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Extent {
    /// The first one.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Copies of each block.
    pub copies: Option<u8>,
    /// Free bytes of its stores.
    pub free_bytes: u64,
    /// Its stores.
    #[serde(default)]
    pub stores: Vec<String>,
}

/// A store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Store {
    /// Its UUID.
    pub id: String,
    /// The name of its node.
    pub node: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its site; empty: none is named.
    #[serde(default)]
    pub site: String,
    /// Its rack, unique in the site; empty: none is named.
    #[serde(default)]
    pub rack: String,
}

/// A pool with what may be asked for in it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PoolDetails {
    /// The pool.
    #[serde(flatten)]
    pub pool: Pool,
    /// How much may be.
    pub quota: Quota,
    /// How much is.
    pub asked: Asked,
    /// For how long deleted volumes are kept.
    #[serde(default)]
    pub recycle_seconds: Option<u64>,
}

/// How much of a pool may be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Quota {
    /// The sum of sizes.
    pub provisioned_bytes: Option<u64>,
}

/// How much of a pool is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Asked {
    /// The sum of sizes.
    pub provisioned_bytes: u64,
}

/// What takes long.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Job {
    /// What it does.
    pub kind: String,
    /// To what.
    pub object: String,
}

/// Operations or bytes a second, and what passes at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// A second.
    pub rate: u64,
    /// At once; null, where it is set: the usual.
    pub burst: Option<u64>,
    /// A higher rate for a while: passed on as it is.
    #[serde(default)]
    pub peak: Option<serde_json::Value>,
}

/// Limits of one measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measures {
    /// Of reads.
    pub read: Option<Limit>,
    /// Of writes.
    pub write: Option<Limit>,
    /// Of both together.
    pub both: Option<Limit>,
}

/// What the hosts of a volume may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Operations a second.
    pub iops: Measures,
    /// Bytes a second.
    pub bandwidth: Measures,
}

/// How a volume stands among others at stores that have more to do than they do at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priority {
    /// What each store does for it first, in bytes a second; none: nothing.
    pub reservation: Option<u64>,
    /// Its part of the rest; none: the usual one.
    pub weight: Option<u16>,
    /// What others may cost its requests there, in microseconds; none: no target.
    pub latency_target_us: Option<u32>,
}

/// A subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Subsystem {
    /// Its name.
    pub name: String,
    /// Its qualified name.
    pub nqn: String,
    /// Its serial number: the last eight digits say how many were made before it.
    #[serde(default)]
    pub serial: String,
    /// Who may connect.
    pub hosts: Vec<String>,
    /// How many namespaces it has.
    pub namespaces: u64,
}

/// A subsystem that is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewSubsystem<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its qualified name; none: one that follows from its name.
    pub nqn: Option<&'a str>,
    /// The nodes that serve it; none: all.
    pub gateways: &'a [String],
    /// Connections without TLS are refused.
    pub tls_required: bool,
}

/// By what hosts have a volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Attachment {
    /// The subsystem's name.
    pub subsystem: String,
    /// Its qualified name.
    pub nqn: String,
    /// The namespace's UUID.
    pub uuid: String,
    /// Where: the owner first.
    pub gateways: Vec<Gateway>,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Gateway {
    /// Its address.
    pub traddr: String,
    /// Its port.
    pub trsvcid: u16,
    /// Does it live?
    pub alive: bool,
}

/// Who has reserved a volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Reservation {
    /// How; null: nobody has.
    pub kind: Option<String>,
    /// Who is registered.
    pub registrants: Vec<Registrant>,
}

/// A host that is registered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Registrant {
    /// Its identifier.
    pub host_id: String,
    /// Its ports; null: it is one of NVMe.
    #[serde(default)]
    pub port: Option<RegistrantPort>,
    /// Its key.
    pub key: String,
    /// Does it hold the reservation?
    pub holder: bool,
}

/// The ports by which a host of iSCSI is registered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RegistrantPort {
    /// The initiator's name, `,i,` and the session's identifier.
    pub initiator: String,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its iSCSI name.
    pub iqn: String,
    /// Who may log in.
    pub initiators: Vec<InitiatorAccess>,
    /// How many LUNs it has.
    pub luns: u64,
}

impl Target {
    /// The iSCSI names of who may log in.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.initiators.iter().map(|access| access.initiator.as_str()).collect()
    }

    /// May this initiator log in?
    #[must_use]
    pub fn lets_in(&self, initiator: &str) -> bool {
        self.names().contains(&initiator)
    }
}

/// An initiator that may log in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InitiatorAccess {
    /// Its iSCSI name.
    pub initiator: String,
}

/// A target that is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewTarget<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its iSCSI name.
    pub iqn: &'a str,
    /// The nodes that serve it; none: all.
    pub gateways: &'a [String],
}

/// By what initiators have a volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct IscsiAttachment {
    /// The target's name.
    pub target: String,
    /// Its iSCSI name.
    pub iqn: String,
    /// The LUN's number.
    pub lun: u16,
    /// The disk's name.
    pub naa: String,
    /// Where: the owner first.
    pub portals: Vec<Portal>,
}

/// A portal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Portal {
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// The tag of its group.
    pub tag: u16,
    /// Does its node live?
    pub alive: bool,
}
