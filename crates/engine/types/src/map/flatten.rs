//! A clone that is to need what it was made from no more (S13 of `docs/protocol.md`).

use super::{PREFIX, Paused};
use crate::id::VolumeId;
use serde::{Deserialize, Serialize};

/// `/amita/flattening/VOLUME_ID`: the operator wants a clone flattened. Its owner opens its chunks, one after the other, so that each is
/// made of what its parents have; when all are, the parents leave the volume's record in the transaction that removes this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flatten {
    /// The clone.
    pub volume: VolumeId,
    /// When it was asked for, in seconds since 1970.
    pub asked_at: u64,
    /// Chunks that the clone has, written or not.
    pub chunks: u64,
    /// So many of them, from the first on, are known to be made, or to have nothing in the parents.
    pub done: u64,
    /// Why it does not go on, where it has not for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ails: Option<String>,
    /// It stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

impl Flatten {
    /// Are all its chunks made?
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.done >= self.chunks
    }

    /// Is somebody to be at it now?
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.is_made() && self.paused.is_none()
    }
}

/// The prefix of the clones that are being flattened.
#[must_use]
pub fn flattens_prefix() -> String {
    format!("{PREFIX}flattening/")
}
/// The key of a clone's flattening.
#[must_use]
pub fn flatten_key(volume: VolumeId) -> String {
    format!("{}{volume}", flattens_prefix())
}
