//! What a volume may do, as its record says it. The record is data: what of it can be kept is said by who writes it.

use super::PREFIX;
use crate::id::{Generation, VolumeId};
use serde::{Deserialize, Serialize};

/// The finalized cluster version from which on volumes are limited: a gateway that does not know the field lets everything pass, and
/// drops it from the record (S17).
pub const LIMITS_SINCE: u32 = 3;

/// Limits of a volume: of all its hosts together, by whichever gateway they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Operations: pieces of I/O of at most 128 KiB.
    #[serde(default, skip_serializing_if = "Measures::is_empty")]
    pub iops: Measures,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Measures::is_empty")]
    pub bandwidth: Measures,
}

/// Limits of one measure; none: not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measures {
    /// Of reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Limit>,
    /// Of writes, clears among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Limit>,
    /// Of both together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both: Option<Limit>,
}

/// In any time T no more passes than rate x T + burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Operations or bytes a second.
    pub rate: u64,
    /// How many at once after a pause.
    pub burst: u64,
    /// A higher rate for a while, out of what was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Peak>,
}

/// See [`Limit::peak`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// Operations or bytes a second.
    pub rate: u64,
    /// For so long at a stretch: (peak - rate) x seconds are saved at most.
    pub seconds: u32,
}

/// `/amita/limits/tenant/NAME`, `/amita/limits/pool/NAME`: what all volumes of a tenant, or of a pool, may do together.
///
/// Their tokens are lent by the owner of one volume, the seat. Whoever lends them reads this record again and again
/// (`amita_qos::lease::Mandate`), so it lends no more within two seconds after another has become that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JointLimits {
    /// What they may do.
    pub limits: Limits,
    /// The volume whose owner lends; none: nobody has asked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<VolumeId>,
    /// Counts seats.
    #[serde(default)]
    pub term: u32,
    /// The generation of the first seat's volume when it became that: nobody has lent before who has it open under that. None: not known, or it is not
    /// the first seat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Generation>,
}

/// `/amita/tenancies/VOLUME_ID`: whose a volume is. A volume without such a record is nobody's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenancy {
    /// The volume.
    pub volume: VolumeId,
    /// The tenant's name.
    pub tenant: String,
}

/// The prefix of limits of tenants and pools.
#[must_use]
pub fn joint_limits_prefix() -> String {
    format!("{PREFIX}limits/")
}

/// The key of the limits of a tenant or pool, by what it is called after that prefix ([`tenant_limits`], [`pool_limits`]).
#[must_use]
pub fn joint_limits_key(name: &str) -> String {
    format!("{PREFIX}limits/{name}")
}

/// What the limits of a tenant are called.
#[must_use]
pub fn tenant_limits(tenant: &str) -> String {
    format!("tenant/{tenant}")
}

/// What the limits of a pool are called.
#[must_use]
pub fn pool_limits(pool: &str) -> String {
    format!("pool/{pool}")
}

/// The prefix of what says whose volumes are.
#[must_use]
pub fn tenancies_prefix() -> String {
    format!("{PREFIX}tenancies/")
}

/// The key of what says whose a volume is.
#[must_use]
pub fn tenancy_key(volume: VolumeId) -> String {
    format!("{PREFIX}tenancies/{volume}")
}

impl Limits {
    /// Is nothing limited?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iops.is_empty() && self.bandwidth.is_empty()
    }
}

impl Measures {
    /// Is nothing limited?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.is_none() && self.write.is_none() && self.both.is_none()
    }
}
