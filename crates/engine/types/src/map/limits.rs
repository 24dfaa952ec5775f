//! What a volume may do, as its record says it. The record is data: what of it can be kept is said by who writes it.

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
