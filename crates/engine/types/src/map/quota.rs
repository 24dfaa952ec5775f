//! What a pool may be asked for.

use super::PREFIX;
use crate::id::PoolId;
use serde::{Deserialize, Serialize};

/// `/amita/quotas/POOL_ID`: how much of a pool may be asked for. Whatever asks for some writes the record in the same
/// transaction, with one more change: two that were judged by the same figures cannot both pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// The pool.
    pub pool: PoolId,
    /// The sum of its volumes' sizes, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned_bytes: Option<u64>,
    /// Volumes, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<u64>,
    /// Snapshots of all its volumes, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<u64>,
    /// Counts the changes that were judged by it.
    #[serde(default)]
    pub changes: u64,
}

impl Quota {
    /// Of a pool: everything may be asked for.
    #[must_use]
    pub fn none(pool: PoolId) -> Quota {
        Quota {
            pool,
            provisioned_bytes: None,
            volumes: None,
            snapshots: None,
            changes: 0,
        }
    }
}

/// The key of a pool's quota.
#[must_use]
pub fn quota_key(pool: PoolId) -> String {
    format!("{PREFIX}quotas/{pool}")
}
