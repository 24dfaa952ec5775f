//! Looks at all copies of a volume (D7).

use super::{PREFIX, Paused};
use crate::id::{StoreId, VolumeId};
use serde::{Deserialize, Serialize};

/// `/amita/scrub/VOLUME_ID`: the looks at all copies of a volume. The owner carries them out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// The number of the last one that was asked for.
    pub requested: u64,
    /// The number of the last one that was carried out.
    pub finished: u64,
    /// When that was asked for, in seconds since 1970.
    pub requested_at: u64,
    /// What was found.
    #[serde(default)]
    pub report: ScrubReport,
    /// Whose copies were not looked at: stores that should hold groups and were not in sync.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
    /// The last one was taken back before its end, and [`Scrub::report`] says what was found until then.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub cancelled: bool,
    /// How far the one that is under way has come; none: nobody has said so yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ScrubProgress>,
    /// The one that is under way stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

impl Scrub {
    /// Was one asked for, that has not ended?
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.requested > self.finished
    }

    /// Is somebody to be at it now?
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.is_under_way() && self.paused.is_none()
    }
}

/// How far a look at all copies has come. Groups are looked at in the order of their indexes: whoever takes the volume over goes on behind
/// those that are done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubProgress {
    /// So many groups, from the first on, were looked at by all cores.
    pub done: u32,
    /// So many groups the pool has.
    pub groups: u32,
    /// What was found in those that are done.
    pub report: ScrubReport,
    /// Whose copies were not looked at so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

/// A store whose copies a scrub has not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The store.
    pub store: StoreId,
    /// In how many groups.
    pub groups: u32,
}

/// What a look at all copies of a volume has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Copies of chunks that were looked at.
    pub copies: u64,
    /// Copies that could not be looked at: of stores that did not answer well.
    pub skipped: u64,
    /// Damaged blocks that were found.
    pub damaged: u64,
    /// Of those, how many were repaired.
    pub repaired: u64,
    /// Blocks that differ between copies though each is intact.
    pub differing: u64,
}

impl std::ops::AddAssign for ScrubReport {
    fn add_assign(&mut self, other: ScrubReport) {
        self.copies += other.copies;
        self.skipped += other.skipped;
        self.damaged += other.damaged;
        self.repaired += other.repaired;
        self.differing += other.differing;
    }
}

/// The key of the looks at a volume's copies.
#[must_use]
pub fn scrub_key(volume: VolumeId) -> String {
    format!("{PREFIX}scrub/{volume}")
}
