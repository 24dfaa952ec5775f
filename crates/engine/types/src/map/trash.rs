//! Volumes that were deleted and are kept for a time.
//!
//! Such a volume is one like any other, under a name that nobody can give: `.NUMBER`. So its stores keep its chunks, and its
//! members are brought up to date. What it was called, and until when it stays, stands beside it.

use super::{PREFIX, is_false};
use crate::id::{PoolId, VolumeId};
use serde::{Deserialize, Serialize};

/// For how long a deleted volume is kept where nobody has said otherwise: a week.
pub const DEFAULT_RECYCLE_SECONDS: u64 = 7 * 24 * 3600;
/// The longest that one is kept: ten years.
pub const MAX_RECYCLE_SECONDS: u64 = 10 * 366 * 24 * 3600;

/// `/amita/trash/VOLUME_ID`: a deleted volume that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trashed {
    /// The volume.
    pub volume: VolumeId,
    /// What it was called.
    pub name: String,
    /// When it was deleted, in seconds since 1970.
    pub deleted_at: u64,
    /// When it goes for good.
    pub purge_at: u64,
    /// It is what a volume was before it was reverted, and that volume is gone for good: nobody has it back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub former: bool,
}

/// `/amita/recycling/POOL_ID`: how long a pool's deleted volumes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recycling {
    /// The pool.
    pub pool: PoolId,
    /// For so long; 0: they go at once.
    pub seconds: u64,
}

/// The name under which the record of a deleted volume stands.
#[must_use]
pub fn hidden_name(volume: VolumeId) -> String {
    format!(".{volume}")
}
/// Is it a name that only a deleted volume has? No name that anybody gives begins so.
#[must_use]
pub fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}
/// The prefix of deleted volumes.
#[must_use]
pub fn trash_prefix() -> String {
    format!("{PREFIX}trash/")
}
/// The key of a deleted volume.
#[must_use]
pub fn trash_key(volume: VolumeId) -> String {
    format!("{PREFIX}trash/{volume}")
}
/// The key of how long a pool's deleted volumes are kept.
#[must_use]
pub fn recycling_key(pool: PoolId) -> String {
    format!("{PREFIX}recycling/{pool}")
}
