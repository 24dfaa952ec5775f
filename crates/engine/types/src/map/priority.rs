//! Which volume goes first where stores have more to do than they do at once, as its record says it.

use serde::{Deserialize, Serialize};

/// The finalized cluster version from which on volumes have priorities: programs from before drop the field from the record (S17).
pub const PRIORITIES_SINCE: u32 = 5;
/// The weight of a volume whose record has none.
pub const USUAL_WEIGHT: u16 = 100;

/// How a volume stands among others at a store that has more to do than it does at once. Without contention it does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priority {
    /// Work a second that a store does for it first, in bytes: those that travel, and 16 KiB more for each operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<u64>,
    /// Its part of what reservations leave, among the volumes that have something waiting; none: [`USUAL_WEIGHT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// What others may cost 99 of 100 of its requests at a store, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_target_us: Option<u32>,
}

impl Priority {
    /// Is nothing said?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Priority::default()
    }

    /// Its weight, whether or not it was said.
    #[must_use]
    pub fn weight(&self) -> u16 {
        self.weight.unwrap_or(USUAL_WEIGHT)
    }
}
